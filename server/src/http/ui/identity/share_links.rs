//! `/s/{token}`, the page of a share link; and the forms that create and revoke links.
//!
//! The page needs no session. It sets the cookie for the tree's live stream and downloads, which browsers send to
//! nothing else.

use app::pages::{self, identity::share::SharePanel, import::progress::Actions};
use axum::{
    Extension,
    extract::{Path as RawPath, State},
    http::{HeaderName, HeaderValue, StatusCode},
    response::Response,
};
use domain::{
    Problem, Time,
    tree::share_link::{SHARED_DAYS, SHARED_DAYS_AT_MOST, ShareBody, redact_for_share},
};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use crate::http::ui::{
    Signed, Visit,
    form::{Fields, in_the_form},
    import::imports,
    see_other, status, with_cookie,
};
use crate::{
    App,
    audit::{self, AuditedRead, Object},
    auth::{ClientAddress, look_for_changes},
    http::{
        admission::Admission,
        callers::record_share_use,
        extract::{Path, TriedPath},
    },
};
use engine::{error::Error, stored_response::ResponseSlot};

/// `GET /s/{token}`
pub(crate) async fn show(
    State(app): State<App>,
    visit: Visit,
    address: ClientAddress,
    admission: Option<Extension<Admission>>,
    RawPath(token): RawPath<String>,
) -> Response {
    let looked = async {
        let share = app.engine.shared_tree(&token).await?;
        if let Some(Extension(admission)) = admission {
            admission.admit_share(share.id)?;
        }
        let eyes = share.caller();
        let job = app.engine.job(&eyes, share.root_id, true).await?;
        let groups = app.engine.error_groups(&eyes, share.root_id).await?;
        record_share_use(&app, share, address).await?;
        let file = job.upload_id.is_some();
        Ok::<_, Error>((share, redact_for_share(job), file, groups))
    };
    let mut response = match looked.await {
        Ok((share, job, file, groups)) => {
            let response = visit.page(StatusCode::OK, move || pages::identity::share::page(&job, file, &groups));
            with_cookie(response, app.auth.cookie().set_share(&token, share.root_id))
        }
        Err(Error::Problem(problem)) if matches!(problem.status, 404 | 410) => {
            let problem: Problem = *problem;
            visit.page(status(&problem), move || pages::identity::share::gone(&problem))
        }
        Err(error) => visit.error_page(error),
    };
    // Everyone with the link may see the page, but search engines should not index it.
    response
        .headers_mut()
        .insert(HeaderName::from_static("x-robots-tag"), HeaderValue::from_static("noindex, nofollow"));
    response
}

/// `POST /imports/{id}/share`
pub(crate) async fn create(State(app): State<App>, signed: Signed, id: TriedPath<Uuid>, fields: Fields) -> Response {
    let id = match id {
        Ok(Path(id)) => id,
        Err(error) => return signed.visit.error_page(error),
    };
    let reason = fields.trimmed("reason");
    let days = fields.trimmed("days").parse().unwrap_or(SHARED_DAYS).clamp(1, SHARED_DAYS_AT_MOST);
    // One second less, because time passes before it is checked.
    let end = OffsetDateTime::now_utc() + Duration::days(days) - Duration::seconds(1);
    let body = ShareBody { reason: Some(reason), expires_at: Some(Time(end)) };
    match app.engine.share(&signed.caller, id, &body, app.public_url.as_str(), ResponseSlot::none()).await {
        Ok(made) => {
            let path = format!("/imports/{id}");
            with_cookie(see_other(&format!("{path}#share")), app.auth.cookie().set_once(&made.url, &path))
        }
        Err(error) => refused(&app, &signed, id, &fields, error).await,
    }
}

/// `POST /shares/{id}/revoke`
pub(crate) async fn revoke(State(app): State<App>, signed: Signed, id: TriedPath<Uuid>, fields: Fields) -> Response {
    let reason = fields.trimmed("reason");
    let revoked = async {
        let id = id?.0;
        let root_id = app.engine.share_root(&signed.caller, id).await?;
        let revoked = app.engine.revoke_share(&signed.caller, id, Some(&reason)).await;
        look_for_changes(&app).await?;
        Ok::<_, Error>((root_id, revoked))
    };
    match revoked.await {
        Ok((root_id, Ok(()))) => see_other(&format!("/imports/{root_id}#share")),
        Ok((root_id, Err(error))) => {
            // The path names the link, so the audit of requests does not know whose tree the page shows.
            let read = AuditedRead { action: "job.read", object: Object::Job(root_id) };
            match audit::record_read(&app, &signed.caller, read).await {
                Ok(()) => refused(&app, &signed, root_id, &fields, error).await,
                Err(error) => signed.visit.error_page(error),
            }
        }
        Err(error) => signed.visit.error_page(error),
    }
}

/// Page of the import with the typed values.
async fn refused(app: &App, signed: &Signed, id: Uuid, fields: &Fields, error: Error) -> Response {
    let problem = match in_the_form(error) {
        Ok(problem) => problem,
        Err(error) => return signed.visit.error_page(error),
    };
    let (reason, days) = (fields.trimmed("reason"), fields.trimmed("days"));
    let panel = SharePanel { problem: Some(problem), reason, days, ..SharePanel::default() };
    match imports::draw(app, &signed.caller, Ok(Path(id)), panel, Actions::default()).await {
        Ok(draw) => signed.visit.page(StatusCode::UNPROCESSABLE_ENTITY, draw),
        Err(error) => signed.visit.error_page(error),
    }
}
