//! Language of the pages: the person's choice, the choice of this browser, or `Accept-Language`.

use app::speech::Speech;
use axum::{
    extract::State,
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse as _, Response},
};

use crate::{
    App,
    http::ui::{NOTICES_TIMEOUT, Visit, cookie, form::Fields, see_other, theme::local_path},
};
use engine::{access::caller::Caller, store::access::people};

const COOKIE: &str = "treeline_language";

/// `POST /language`. Stores the choice in this browser, and for a signed-in person in the account. Redirects back to the
/// page of the form.
pub(crate) async fn choose(State(app): State<App>, visit: Visit, fields: Fields) -> Response {
    let chosen = Some(fields.text("language")).filter(|tag| app.languages.has(tag));
    if let Some(caller) = visit.caller.as_ref().filter(|caller| caller.role.is_some())
        && let Err(error) = people::set_language(&app.pool, caller.owner_id, chosen).await
    {
        return visit.error_page(engine::error::Error::from(error));
    }
    let (value, age) = chosen.map_or(("", 0), |tag| (tag, 31_536_000));
    let cookie = format!("{COOKIE}={value}; Path=/; SameSite=Lax; Max-Age={age}");
    ([(header::SET_COOKIE, cookie)], see_other(local_path(fields.text("back")))).into_response()
}

/// Language that a person chose. `None` also if the database does not respond in time.
pub(crate) async fn of_person(app: &App, caller: &Caller) -> Option<String> {
    caller.role?;
    let found = tokio::time::timeout(NOTICES_TIMEOUT, people::language(&app.pool, caller.owner_id)).await;
    found.ok()?.ok()?
}

/// Language of a page. `chosen` is the choice of the person.
pub(crate) fn speech(app: &App, headers: &HeaderMap, chosen: Option<&str>) -> Speech {
    let of_browser = cookie(headers, COOKIE).filter(|tag| app.languages.has(tag));
    let chosen = chosen.filter(|tag| app.languages.has(tag)).or(of_browser);
    let accepted = headers.get(header::ACCEPT_LANGUAGE).map(HeaderValue::to_str);
    app.languages.speech(chosen, accepted.and_then(Result::ok))
}
