//! `/dead/groups/{type}/{fingerprint}`: the form that resolves, ignores or reopens an error group.

use app::pages::operator::dead_letters::{MUTE_HOURS, RefusedState};
use axum::{extract::State, response::Response};
use domain::{
    Problem, Time,
    api::{ErrorGroupPatch, GroupState},
    query::filter::lists::List,
};
use time::Duration;

use super::{
    Signed, address,
    form::{Fields, in_the_form},
    list_request::{ListRequest, now},
    see_other,
};
use crate::http::ui::operator::items::list_page;
use crate::{
    App,
    http::extract::{Path, TriedPath},
};
use engine::error::Error;

/// `GET /dead/groups/{type}/{fingerprint}`, the URL of a refused form: redirects to the page of the group.
pub(super) async fn show(_: Signed, id: TriedPath<(String, String)>) -> Response {
    see_other(&match id {
        Ok(Path((job_type, fingerprint))) => group_page(&job_type, &fingerprint, ""),
        Err(_) => "/dead".to_owned(),
    })
}

fn group_page(job_type: &str, fingerprint: &str, did: &str) -> String {
    address("/dead", &[("error", fingerprint), ("type", job_type), ("did", did)])
}

/// `POST /dead/groups/{type}/{fingerprint}`
pub(super) async fn change(
    State(app): State<App>,
    signed: Signed,
    id: TriedPath<(String, String)>,
    fields: Fields,
) -> Response {
    let (job_type, fingerprint) = match id {
        Ok(Path(id)) => id,
        Err(error) => return signed.visit.error_page(error),
    };
    let done = async {
        let patch = patch_of(&fields)?;
        let state = patch.state;
        app.engine.change_error_group(&signed.caller, &job_type, &fingerprint, patch).await?;
        Ok::<_, Error>(state)
    };
    let page = |did: &str| {
        let q = fields.text("q");
        if q.is_empty() {
            group_page(&job_type, &fingerprint, did)
        } else {
            address("/dead", &[("q", q), ("did", did)])
        }
    };
    let problem = match done.await {
        Ok(GroupState::Muted) => return see_other(&page("muted")),
        Ok(GroupState::Resolved) => return see_other(&page("resolved")),
        Ok(GroupState::Open | GroupState::Regressed) => return see_other(&page("reopened")),
        Err(error) => match in_the_form(error) {
            Ok(problem) => problem,
            Err(error) => return signed.visit.error_page(error),
        },
    };
    let refused = RefusedState {
        state: GroupState::parse(fields.text("state")).unwrap_or_default(),
        problem,
        hours: fields.trimmed("hours"),
        failures: fields.trimmed("failures"),
        note: fields.text("note").to_owned(),
    };
    let shown = page("");
    let request = ListRequest::read(List::Dead, "/dead", shown.split_once('?').map(|(_, query)| query));
    list_page(&app, &signed, request, Default::default(), Some(refused)).await
}

/// The change that a form describes.
fn patch_of(fields: &Fields) -> Result<ErrorGroupPatch, Problem> {
    let fault = |field: &str, detail: &str| Problem::invalid_body([(format!("/{field}"), detail.to_owned())]);
    let state = GroupState::parse(fields.text("state")).ok_or_else(|| fault("state", "expected one of the choices"))?;
    let hours = fields.trimmed("hours");
    if !MUTE_HOURS.iter().any(|(choice, _)| *choice == hours) {
        return Err(fault("until", "expected one of the choices"));
    }
    let until = hours.parse().ok().map(|hours| Time(now().0 + Duration::hours(hours)));
    let failures = fields.trimmed("failures").replace(',', "");
    let failures = match failures.as_str() {
        "" => None,
        typed => Some(typed.parse().map_err(|_| fault("failures", "expected a whole number"))?),
    };
    Ok(ErrorGroupPatch { state, until, failures, note: fields.given("note").map(str::to_owned) })
}
