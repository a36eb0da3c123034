//! `/services`: services and their tokens, for admins. A new token is shown once.

use app::pages::identity::services as page;
use axum::{
    extract::{RawQuery, State},
    http::{HeaderMap, StatusCode},
    response::Response,
};
use domain::{
    Problem, Time,
    identity::access::{NewService, NewToken, ServicePatch},
    problem::FieldProblem,
};
use serde::Serialize;
use uuid::Uuid;

use crate::http::ui::{
    Signed, address,
    form::{Fields, in_the_form},
    pairs, see_other, with_cookie,
};
use crate::{
    App,
    auth::tokens,
    http::{
        extract::TriedPath,
        query::cursor::{Paged as _, paged},
    },
};
use engine::{
    access::caller::Role,
    error::{Error, Result},
    store::page_range::{NamedPageRange, PageRange},
    stored_response::ResponseSlot,
};

const PATH: &str = "/services";
/// Maximum number of services on the page, and number of tokens.
const SERVICES: i64 = 500;
const ROWS: i64 = 50;

#[derive(Clone, Debug, Default, Serialize)]
struct TokenList {
    #[serde(skip_serializing)]
    cursor: Option<String>,
}

paged!(TokenList, "page of tokens", |_| Some(ROWS));

/// `GET /services`
pub(crate) async fn show(
    State(app): State<App>,
    signed: Signed,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let cursor = pairs(query.as_deref()).find(|(name, _)| name == "cursor").map(|(_, value)| value);
    let created = app.auth.cookie().read_once(&headers);
    let created =
        created.and_then(|line| line.split_once('\n').map(|(name, secret)| (name.to_owned(), secret.to_owned())));
    let shown_once = created.is_some();
    let response = draw(&app, &signed, TokenList { cursor }, page::Services { created, ..Default::default() }).await;
    if shown_once { with_cookie(response, app.auth.cookie().clear_once(PATH)) } else { response }
}

/// Page with the typed values and their errors.
async fn draw(app: &App, signed: &Signed, list: TokenList, typed: page::Services) -> Response {
    if let Err(refused) = signed.require(Role::Admin) {
        return *refused;
    }
    let status = if typed.problem.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    let read = async {
        let services = tokens::list_services(app, &signed.caller, &NamedPageRange::by_name(SERVICES)).await?;
        let found =
            tokens::list_tokens(app, &signed.caller, PageRange::newest(list.place::<Uuid>()?, ROWS + 1)).await?;
        let paged = list.page_of(found, |token| token.id)?;
        let next = paged.next_cursor.map(|cursor| address(PATH, &[("cursor", &cursor)]));
        Ok::<_, Error>(page::Services { services, tokens: paged.data, next, ..typed })
    };
    match read.await {
        Ok(page_data) => signed.visit.page(status, move || page::page(&page_data)),
        Err(error) => signed.visit.error_page(error),
    }
}

async fn refused(app: &App, signed: &Signed, error: Error, typed: page::Services) -> Response {
    match in_the_form(error) {
        Ok(problem) => {
            draw(app, signed, TokenList::default(), page::Services { problem: Some(problem), ..typed }).await
        }
        Err(error) => signed.visit.error_page(error),
    }
}

/// `POST /services`
pub(crate) async fn create(State(app): State<App>, signed: Signed, fields: Fields) -> Response {
    if let Err(refused) = signed.require(Role::Admin) {
        return *refused;
    }
    let name = fields.trimmed("name");
    match tokens::create_service(&app, &signed.caller, NewService { name: name.clone() }, ResponseSlot::none()).await {
        Ok(_) => see_other(PATH),
        Err(error) => refused(&app, &signed, error, page::Services { service_name: name, ..Default::default() }).await,
    }
}

/// `POST /services/tokens`
pub(crate) async fn create_token(State(app): State<App>, signed: Signed, fields: Fields) -> Response {
    if let Err(refused) = signed.require(Role::Admin) {
        return *refused;
    }
    let form = page::NewTokenForm {
        service: fields.trimmed("service"),
        name: fields.trimmed("token_name"),
        scopes: fields.all("scope"),
        types: fields.trimmed("types"),
        expires: fields.trimmed("expires"),
    };
    let expires_at = match end_of_day(&form.expires) {
        Ok(expires_at) => expires_at,
        Err(problem) => {
            return refused(&app, &signed, problem.into(), page::Services { token: form, ..Default::default() }).await;
        }
    };
    let types: Vec<String> = form.types.split([' ', ',', ';']).filter(|it| !it.is_empty()).map(str::to_owned).collect();
    // Separators alone are no names: an empty list would not limit the token.
    let types = if types.is_empty() && !form.types.is_empty() { vec![form.types.clone()] } else { types };
    let new = NewToken {
        service: form.service.clone(),
        name: form.name.clone(),
        scopes: form.scopes.clone(),
        types: (!types.is_empty()).then_some(types),
        expires_at,
    };
    match tokens::create_token(&app, &signed.caller, new, ResponseSlot::none()).await {
        Ok(created) => {
            let name = created.token.name.replace(['\n', '\r'], " ");
            let line = format!("{name}\n{}", created.secret);
            with_cookie(see_other(PATH), app.auth.cookie().set_once(&line, PATH))
        }
        Err(Error::Problem(problem)) => {
            let problem = at_its_fields(*problem);
            refused(&app, &signed, problem.into(), page::Services { token: form, ..Default::default() }).await
        }
        Err(error) => signed.visit.error_page(error),
    }
}

/// End of the given day, such as `2027-01-31`, in UTC. `None` for empty text.
fn end_of_day(typed: &str) -> Result<Option<Time>, Problem> {
    if typed.is_empty() {
        return Ok(None);
    }
    let end = Time::parse(&format!("{typed}T00:00:00Z")).and_then(|day| day.0.checked_add(time::Duration::days(1)));
    let fault = || Problem::invalid_body([("/expires".to_owned(), "expected a day, such as 2027-01-31".to_owned())]);
    end.map(|end| Some(Time(end))).ok_or_else(fault)
}

/// `POST /services/{id}/disable`
pub(crate) async fn disable(app: State<App>, signed: Signed, id: TriedPath<Uuid>) -> Response {
    set_disabled(app, signed, id, true).await
}

/// `POST /services/{id}/enable`
pub(crate) async fn enable(app: State<App>, signed: Signed, id: TriedPath<Uuid>) -> Response {
    set_disabled(app, signed, id, false).await
}

async fn set_disabled(State(app): State<App>, signed: Signed, id: TriedPath<Uuid>, disabled: bool) -> Response {
    if let Err(refused) = signed.require(Role::Admin) {
        return *refused;
    }
    let patch = ServicePatch { disabled: Some(disabled), reason: None };
    let changed = async { tokens::change_service(&app, &signed.caller, id?.0, patch).await };
    match changed.await {
        Ok(_) => see_other(PATH),
        Err(error) => signed.visit.error_page(error),
    }
}

/// Maps errors of the body to fields of the form, which have other names, and one field for all types.
fn at_its_fields(problem: Problem) -> Problem {
    let errors = problem.errors.into_iter().map(|fault| {
        let pointer = match fault.pointer.as_str() {
            "/name" => "/token_name",
            "/expires_at" => "/expires",
            types if types.starts_with("/types/") => "/types/0",
            scopes if scopes.starts_with("/scopes") => "/scopes",
            other => other,
        };
        FieldProblem { pointer: pointer.to_owned(), ..fault }
    });
    Problem { errors: errors.collect(), ..problem }
}

/// `POST /tokens/{id}/revoke`
pub(crate) async fn revoke_token(State(app): State<App>, signed: Signed, id: TriedPath<Uuid>) -> Response {
    if let Err(refused) = signed.require(Role::Admin) {
        return *refused;
    }
    let revoked = async { tokens::revoke_token(&app, &signed.caller, id?.0).await };
    match revoked.await {
        Ok(()) => see_other(PATH),
        Err(error) => signed.visit.error_page(error),
    }
}
