//! `/people` and `/people/{id}`: accounts, for admins.

use app::pages::identity::people as page;
use axum::{
    extract::{RawQuery, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
};
use domain::identity::account::{NewUser, UserPatch};
use serde::Serialize;
use uuid::Uuid;

use crate::http::ui::{
    Signed, address,
    form::{Fields, in_the_form},
    pairs, see_other, with_cookie,
};
use crate::{
    App,
    auth::{factors, people, sessions},
    http::{
        extract::{Path, TriedPath},
        identity::session::after_end,
        query::cursor::{Paged as _, paged},
    },
};
use engine::{
    access::caller::Role,
    error::{Error, Result},
    store::page_range::{NamedPageRange, PageRange},
    stored_response::ResponseSlot,
};

/// Number of people on a page, and of sessions on a person's page.
const ROWS: i64 = 50;

#[derive(Clone, Debug, Default, Serialize)]
struct PeopleList {
    #[serde(skip_serializing)]
    cursor: Option<String>,
}

paged!(PeopleList, "page of people", |_| Some(ROWS));

/// `GET /people`
pub(crate) async fn list(State(app): State<App>, signed: Signed, RawQuery(query): RawQuery) -> Response {
    let cursor = pairs(query.as_deref()).find(|(name, _)| name == "cursor").map(|(_, value)| value);
    show_list(&app, &signed, PeopleList { cursor }, page::NewPerson::default()).await
}

async fn show_list(app: &App, signed: &Signed, list: PeopleList, form: page::NewPerson) -> Response {
    if let Err(refused) = signed.require(Role::Admin) {
        return *refused;
    }
    let status = if form.problem.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    match read_list(app, signed, &list).await {
        Ok(people) => {
            let people = page::People { form, ..people };
            signed.visit.page(status, move || page::page(&people))
        }
        Err(error) => signed.visit.error_page(error),
    }
}

async fn read_list(app: &App, signed: &Signed, list: &PeopleList) -> Result<page::People> {
    let part = NamedPageRange::by_name_behind(list.place::<String>()?, ROWS + 1);
    let found = people::list(app, &signed.caller, &part).await?;
    let paged = list.page_of(found, |user| user.name.clone())?;
    let next = paged.next_cursor.map(|cursor| address("/people", &[("cursor", &cursor)]));
    Ok(page::People { users: paged.data, next, form: page::NewPerson::default() })
}

/// `POST /people`
pub(crate) async fn create(State(app): State<App>, signed: Signed, fields: Fields) -> Response {
    if let Err(refused) = signed.require(Role::Admin) {
        return *refused;
    }
    let new = NewUser {
        name: fields.trimmed("name"),
        email: fields.trimmed("email"),
        role: fields.given("role").map(str::to_owned),
        password: Some(fields.text("password").to_owned()).filter(|text| !text.is_empty()),
        must_change_password: None,
        proxy_user: None,
        reason: None,
    };
    let form = page::NewPerson {
        name: new.name.clone(),
        email: new.email.clone(),
        role: new.role.clone().unwrap_or_default(),
        problem: None,
    };
    match people::create(&app, &signed.caller, new, ResponseSlot::none()).await {
        Ok(made) => {
            let path = format!("/people/{}", made.user.id);
            to_person(&app, &path, made.sign_in_link)
        }
        Err(error) => match in_the_form(error) {
            Ok(problem) => {
                let form = page::NewPerson { problem: Some(problem), ..form };
                show_list(&app, &signed, PeopleList::default(), form).await
            }
            Err(error) => signed.visit.error_page(error),
        },
    }
}

/// Redirects to the page of a person, which shows a new link once.
fn to_person(app: &App, path: &str, link: Option<String>) -> Response {
    let response = see_other(path);
    match link {
        Some(link) => with_cookie(response, app.auth.cookie().set_once(&link, path)),
        None => response,
    }
}

/// `GET /people/{id}`
pub(crate) async fn show(State(app): State<App>, signed: Signed, id: TriedPath<Uuid>, headers: HeaderMap) -> Response {
    if let Err(refused) = signed.require(Role::Admin) {
        return *refused;
    }
    let link = app.auth.cookie().read_once(&headers);
    let page_data = async {
        let id = id?.0;
        Ok::<_, Error>((id, read_one(&app, &signed, id).await?))
    };
    match page_data.await {
        Ok((id, person)) => {
            let shown_once = link.is_some();
            let person = page::Person { link, ..person };
            let response = signed.visit.page(StatusCode::OK, move || page::one(&person));
            if !shown_once {
                return response;
            }
            with_cookie(response, app.auth.cookie().clear_once(&format!("/people/{id}")))
        }
        Err(error) => signed.visit.error_page(error),
    }
}

async fn read_one(app: &App, signed: &Signed, id: Uuid) -> Result<page::Person> {
    let caller = &signed.caller;
    let user = people::find(app, caller, id).await?;
    let sessions = sessions::list(app, caller, id, PageRange::newest(None, ROWS)).await?;
    Ok(page::Person {
        sessions,
        is_self: caller.owner_id == id,
        link: None,
        email: user.email.clone().unwrap_or_default(),
        role: user.role.clone(),
        reason: String::new(),
        problem: None,
        user,
    })
}

/// `POST /people/{id}`
pub(crate) async fn change(State(app): State<App>, signed: Signed, id: TriedPath<Uuid>, fields: Fields) -> Response {
    let patch = UserPatch {
        role: fields.given("role").map(str::to_owned),
        email: fields.given("email").map(str::to_owned),
        reason: fields.given("reason").map(str::to_owned),
        ..UserPatch::default()
    };
    apply(&app, &signed, id, patch).await
}

/// `POST /people/{id}/disable`
pub(crate) async fn disable(State(app): State<App>, signed: Signed, id: TriedPath<Uuid>) -> Response {
    apply(&app, &signed, id, UserPatch { disabled: Some(true), ..UserPatch::default() }).await
}

/// `POST /people/{id}/enable`
pub(crate) async fn enable(State(app): State<App>, signed: Signed, id: TriedPath<Uuid>) -> Response {
    apply(&app, &signed, id, UserPatch { disabled: Some(false), ..UserPatch::default() }).await
}

async fn apply(app: &App, signed: &Signed, id: TriedPath<Uuid>, patch: UserPatch) -> Response {
    if let Err(refused) = signed.require(Role::Admin) {
        return *refused;
    }
    let id = match id {
        Ok(Path(id)) => id,
        Err(error) => return signed.visit.error_page(error),
    };
    match people::change(app, &signed.caller, id, patch.clone()).await {
        Ok(_) => see_other(&format!("/people/{id}")),
        Err(error) => refused(app, signed, id, patch, error).await,
    }
}

/// Page of a person with the typed values.
async fn refused(app: &App, signed: &Signed, id: Uuid, typed: UserPatch, error: Error) -> Response {
    let problem = match in_the_form(error) {
        Ok(problem) => problem,
        Err(error) => return signed.visit.error_page(error),
    };
    match read_one(app, signed, id).await {
        Ok(person) => {
            let person = page::Person {
                email: typed.email.unwrap_or_else(|| person.email.clone()),
                role: typed.role.unwrap_or_else(|| person.role.clone()),
                reason: typed.reason.unwrap_or_default(),
                problem: Some(problem),
                ..person
            };
            signed.visit.page(StatusCode::UNPROCESSABLE_ENTITY, move || page::one(&person))
        }
        Err(error) => signed.visit.error_page(error),
    }
}

/// `POST /people/{id}/sign-in-link`
pub(crate) async fn make_link(State(app): State<App>, signed: Signed, id: TriedPath<Uuid>) -> Response {
    if let Err(refused) = signed.require(Role::Admin) {
        return *refused;
    }
    let id = match id {
        Ok(Path(id)) => id,
        Err(error) => return signed.visit.error_page(error),
    };
    match people::make_link(&app, &signed.caller, id, None, ResponseSlot::none()).await {
        Ok(made) => to_person(&app, &format!("/people/{id}"), Some(made.url)),
        Err(error) => refused(&app, &signed, id, UserPatch::default(), error).await,
    }
}

/// `POST /people/{id}/reset-factors`
pub(crate) async fn reset_factors(State(app): State<App>, signed: Signed, id: TriedPath<Uuid>) -> Response {
    if let Err(refused) = signed.require(Role::Admin) {
        return *refused;
    }
    let reset = async {
        let id = id?.0;
        factors::reset(&app, &signed.caller, id, None).await?;
        Ok::<_, Error>(id)
    };
    match reset.await {
        Ok(id) => see_other(&format!("/people/{id}")),
        Err(error) => signed.visit.error_page(error),
    }
}

/// `POST /people/{id}/sessions/end`
pub(crate) async fn end_sessions(State(app): State<App>, signed: Signed, id: TriedPath<Uuid>) -> Response {
    end(&app, &signed, id.map(|Path(id)| (id, None))).await
}

/// `POST /people/{id}/sessions/{session}/end`
pub(crate) async fn end_session(State(app): State<App>, signed: Signed, ids: TriedPath<(Uuid, Uuid)>) -> Response {
    end(&app, &signed, ids.map(|Path((id, session))| (id, Some(session)))).await
}

async fn end(app: &App, signed: &Signed, which: Result<(Uuid, Option<Uuid>), crate::http::error::Error>) -> Response {
    if let Err(refused) = signed.require(Role::Admin) {
        return *refused;
    }
    let ended = async {
        let (id, session) = which?;
        sessions::end_some(app, &signed.caller, id, session).await?;
        Ok::<_, Error>((id, session.and_then(|session| after_end(app, &signed.caller, session))))
    };
    match ended.await {
        Ok((_, Some(headers))) => (headers, see_other("/sign-in?ended=1")).into_response(),
        Ok((id, None)) => see_other(&format!("/people/{id}")),
        Err(error) => signed.visit.error_page(error),
    }
}
