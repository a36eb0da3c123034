//! Audit entries for reads and refusals: a layer that knows the operations that return other people's data, and the
//! responses that refuse an authenticated caller.
//!
//! It is separate from the handlers so that pages and API behave alike and no operation is forgotten. It makes no
//! access decision. It delays a response until its entry is written; if that fails, it sends the database error.

use axum::{
    extract::{MatchedPath, Request, State},
    http::{Method, StatusCode, Uri},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use domain::Problem;
use uuid::Uuid;

use crate::{
    App,
    audit::{self, AuditedRead, Object},
    http::callers::CallerSlot,
};

/// Operations that read with `POST`. Of bulk operations, only a dry run is a read.
const CHECK: &str = "/api/v1/uploads/{id}/check";
const BULK: &str = "/api/v1/bulk-operations";

/// Operations that return data, by path, with the action that the log records for a read. A change returns its object,
/// also if there was nothing to change, and so does a page whose form is refused.
const READS: &[(&str, &str)] = &[
    ("/api/v1/jobs", "jobs.list"),
    ("/api/v1/search", "search.read"),
    ("/api/v1/jobs/{id}", "job.read"),
    ("/api/v1/jobs/{id}/cancel", "job.read"),
    ("/api/v1/jobs/{id}/pin", "job.read"),
    ("/api/v1/jobs/{id}/seal", "job.read"),
    ("/api/v1/jobs/{id}/events", "job.read"),
    ("/api/v1/jobs/{id}/steps", "job.read"),
    ("/api/v1/jobs/{id}/deliveries", "job.read"),
    ("/api/v1/jobs/{id}/results", "job.read_results"),
    ("/api/v1/jobs/{id}/failures", "job.read_failures"),
    ("/api/v1/items/{id}", "item.read"),
    ("/api/v1/items/{id}/cancel", "item.read"),
    ("/api/v1/items/{id}/attempts", "item.read"),
    ("/api/v1/items/{id}/logs", "item.read"),
    ("/api/v1/uploads/{id}", "upload.read"),
    ("/api/v1/uploads/{id}/preview", "upload.read"),
    ("/api/v1/uploads/{id}/mapping", "upload.read"),
    (CHECK, "upload.read"),
    ("/api/v1/uploads/{id}/content", "upload.download"),
    ("/api/v1/items", "items.list"),
    ("/api/v1/dead-letters", "items.list"),
    ("/api/v1/dead-letters/groups", "items.list"),
    ("/api/v1/dead-letters/groups/{type}/{fingerprint}", "items.list"),
    // A bulk operation has some of its members, which belong to any owner, whoever started it.
    (BULK, "items.list"),
    ("/api/v1/bulk-operations/{id}", "items.list"),
    ("/api/v1/bulk-operations/{id}/cancel", "items.list"),
    ("/api/v1/schedules", "schedules.list"),
    ("/api/v1/schedules/{id}", "schedule.read"),
    ("/api/v1/schedules/{id}/pause", "schedule.read"),
    ("/api/v1/schedules/{id}/resume", "schedule.read"),
    ("/api/v1/schedules/{id}/runs", "schedule.read"),
    ("/api/v1/deliveries", "deliveries.list"),
    ("/jobs", "jobs.list"),
    ("/search", "search.read"),
    ("/jobs/{id}", "job.read"),
    ("/jobs/{id}/cancel", "job.read"),
    ("/jobs/{id}/delete", "job.read"),
    ("/jobs/{id}/pin", "job.read"),
    ("/jobs/{id}/replay", "job.read"),
    ("/jobs/{id}/unpin", "job.read"),
    ("/imports/{id}", "job.read"),
    ("/imports/{id}/cancel", "job.read"),
    ("/imports/{id}/delete", "job.read"),
    ("/imports/{id}/share", "job.read"),
    ("/imports/{id}/correct", "job.read_failures"),
    ("/items/{id}", "item.read"),
    ("/items/{id}/cancel", "item.read"),
    ("/items/{id}/events", "item.read"),
    ("/items/{id}/retry", "item.read"),
    ("/items/{id}/replay", "item.read"),
    ("/items", "items.list"),
    ("/dead", "items.list"),
    ("/dead/groups/{type}/{fingerprint}", "items.list"),
    ("/bulk", "items.list"),
    ("/bulk/{id}", "items.list"),
    ("/bulk/{id}/start", "items.list"),
    ("/bulk/{id}/cancel", "items.list"),
    ("/schedules", "schedules.list"),
    ("/schedules/{id}", "schedule.read"),
    ("/schedules/{id}/delete", "schedule.read"),
    ("/schedules/{id}/pause", "schedule.read"),
    ("/schedules/{id}/resume", "schedule.read"),
    ("/schedules/{id}/run", "schedule.read"),
    ("/deliveries", "deliveries.list"),
    ("/deliveries/{id}", "deliveries.list"),
    ("/deliveries/{id}/resend", "deliveries.list"),
];

/// Writes the audit entry of a request, if it needs one, before its response is sent.
pub(super) async fn watch(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let Some(path) = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned()) else {
        return next.run(request).await;
    };
    let slot = CallerSlot::default();
    request.extensions_mut().insert(slot.clone());
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let response = next.run(request).await;
    let status = response.status();
    // Requests of workers are covered by their lease and arrive thousands of times a second. Only refusals of callers who
    // are no workers are recorded.
    if path.starts_with("/api/v1/assignments") && status != StatusCode::FORBIDDEN {
        return response;
    }
    let Some(caller) = slot.take() else { return response };
    if matches!(status, StatusCode::FORBIDDEN | StatusCode::NOT_FOUND) {
        let code = response.extensions().get::<Problem>().map_or("", |problem| problem.code.as_str());
        let what = format!("{method} {path}: {} {code}", status.as_u16());
        let object = object_of(&path, &uri);
        audit::record_refusal(&app, caller, object, what.trim_end().to_owned(), status == StatusCode::FORBIDDEN);
    } else if caller.sees_all() && has_data(&method, &path, status) {
        let action = READS.iter().find(|(route, _)| *route == path).map(|(_, action)| *action);
        if let Some(action) = action {
            let object = object_of(&path, &uri).unwrap_or(Object::List);
            let read = AuditedRead { action, object };
            if method == Method::GET || matches!(&*path, CHECK | BULK) {
                if let Err(error) = audit::record_read(&app, &caller, read).await {
                    return crate::http::error::Error::from(error).into_response();
                }
            } else if let Err(error) = audit::record_returned(&app, &caller, read).await {
                // The change is made, and an error would say that it is not.
                tracing::warn!(%error, action, "audit of what a change returned failed");
            }
        }
    }
    response
}

/// Returns true if the response has data of the object: a response to `GET`, to a dry run, to a change of an object, or
/// a page with a refused form.
fn has_data(method: &Method, path: &str, status: StatusCode) -> bool {
    let refused_form = status == StatusCode::UNPROCESSABLE_ENTITY && !path.starts_with("/api/");
    let returned = status.is_success() && status != StatusCode::NO_CONTENT;
    match *method {
        Method::GET => returned || refused_form,
        // A dry run is 200. The start of an operation, 202, has its own entry.
        Method::POST if path == BULK => status == StatusCode::OK,
        // Every change of an error group has its own entry; the page of its refused form shows the group.
        Method::POST | Method::PATCH | Method::DELETE => {
            returned && path.contains("{id}") || refused_form && path.contains('{')
        }
        // What `PUT` returns is what the caller has just sent.
        _ => false,
    }
}

/// Object of a request: the one in its path, or the one that its list is filtered by.
fn object_of(path: &str, uri: &Uri) -> Option<Object> {
    let at = path.split('/').position(|segment| segment == "{id}");
    let Some(at) = at else {
        return form_urlencoded::parse(uri.query()?.as_bytes())
            .find(|(name, _)| matches!(&**name, "job" | "root"))
            .and_then(|(_, id)| id.parse().ok().map(Object::Job));
    };
    // As the handlers read it: any of its characters may be encoded.
    let (id, _) = form_urlencoded::parse(uri.path().split('/').nth(at)?.as_bytes()).next()?;
    let id: Uuid = id.parse().ok()?;
    match path.split('/').nth(at - 1)? {
        "jobs" | "imports" => Some(Object::Job(id)),
        "items" => Some(Object::Item(id)),
        "uploads" => Some(Object::Upload(id)),
        "schedules" => Some(Object::Schedule(id)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_object_of_a_request_is_in_its_path_or_its_filter() {
        let id = Uuid::from_u128(7);
        let of = |path: &str, uri: &str| object_of(path, &uri.replace("ID", &id.to_string()).parse().expect("a URI"));
        assert_eq!(of("/api/v1/jobs/{id}/results", "/api/v1/jobs/ID/results"), Some(Object::Job(id)));
        assert_eq!(of("/items/{id}", "/items/ID?x=1"), Some(Object::Item(id)));
        let encoded = format!("/api/v1/jobs/%30{}", &id.to_string()[1..]);
        assert_eq!(of("/api/v1/jobs/{id}", &encoded), Some(Object::Job(id)));
        assert_eq!(of("/api/v1/uploads/{id}/content", "/api/v1/uploads/ID/content"), Some(Object::Upload(id)));
        assert_eq!(of("/api/v1/items", "/api/v1/items?state=dead&job=ID"), Some(Object::Job(id)));
        assert_eq!(of("/api/v1/items", "/api/v1/items"), None);
        assert_eq!(of("/people/{id}", "/people/ID"), None);
        assert_eq!(of("/bulk/{id}/start", "/bulk/ID/start"), None);
    }

    #[test]
    fn dry_runs_and_refused_forms_have_data() {
        let post = |path: &str, status: StatusCode| has_data(&Method::POST, path, status);
        assert!(post(BULK, StatusCode::OK));
        assert!(!post(BULK, StatusCode::ACCEPTED), "the start has its own entry");
        let group = "/dead/groups/{type}/{fingerprint}";
        assert!(post(group, StatusCode::UNPROCESSABLE_ENTITY) && !post(group, StatusCode::SEE_OTHER));
        let api = "/api/v1/dead-letters/groups/{type}/{fingerprint}";
        assert!(!has_data(&Method::PATCH, api, StatusCode::OK), "the change has its own entry");
        assert!(post("/bulk/{id}/start", StatusCode::UNPROCESSABLE_ENTITY));
        assert!(!post("/bulk", StatusCode::UNPROCESSABLE_ENTITY), "an empty form");
    }
}
