//! `/deliveries` and `/deliveries/{id}`: callbacks of complete trees, as the API shows them, and resending one.

use app::{
    components::action_form::RefusedAction,
    frame::Page,
    pages::deliveries::{self as page, Deliveries, DeliveryPageData},
};
use axum::{
    extract::{RawQuery, State},
    http::StatusCode,
    response::Response,
};
use serde::Serialize;
use uuid::Uuid;

use super::{
    Signed, address,
    form::{Fields, in_the_form},
    pairs, see_other,
};
use crate::{
    App,
    http::{
        extract::{Path, TriedPath},
        notify::deliveries::states,
        query::cursor::{Paged as _, paged},
    },
};
use engine::{
    access::caller::{Caller, Role},
    error::{Error, Result},
    store::notify::deliveries::DeliveryQuery,
};

/// Number of rows on a page.
const ROWS: i64 = 50;

/// Filter from the URL; a cursor is bound to it.
#[derive(Clone, Debug, Default, Serialize)]
struct DeliveryPages {
    state: String,
    #[serde(skip_serializing)]
    cursor: Option<String>,
}

paged!(DeliveryPages, "page of deliveries", |_| Some(ROWS));

/// `GET /deliveries`
pub(super) async fn list(State(app): State<App>, signed: Signed, RawQuery(query): RawQuery) -> Response {
    if let Err(refused) = signed.require(Role::Support) {
        return *refused;
    }
    let mut pages = DeliveryPages::default();
    for (name, value) in pairs(query.as_deref()) {
        match name.as_str() {
            "state" => pages.state = value,
            "cursor" => pages.cursor = Some(value),
            _ => {}
        }
    }
    let mut page_data =
        Deliveries { state: pages.state.clone(), first: pages.cursor.is_none(), ..Deliveries::default() };
    match find(&app, &signed.caller, &pages, &mut page_data).await {
        Ok(()) => signed.visit.page(StatusCode::OK, move || page::list_page(&page_data)),
        Err(Error::Problem(problem)) if problem.status == 400 => {
            page_data.problem = Some(problem.detail);
            signed.visit.page(StatusCode::BAD_REQUEST, move || page::list_page(&page_data))
        }
        Err(error) => signed.visit.error_page(error),
    }
}

async fn find(app: &App, caller: &Caller, pages: &DeliveryPages, page_data: &mut Deliveries) -> Result<()> {
    let states = states(Some(pages.state.as_str()).filter(|state| !state.is_empty()))?;
    let query = DeliveryQuery { states, behind: pages.place::<Uuid>()?, limit: ROWS + 1, ..DeliveryQuery::default() };
    let found = pages.page_of(app.engine.deliveries(caller, query).await?, |one| one.id)?;
    page_data.next =
        found.next_cursor.map(|cursor| address("/deliveries", &[("state", &pages.state), ("cursor", &cursor)]));
    page_data.all = found.data;
    Ok(())
}

/// `GET /deliveries/{id}`
pub(super) async fn show(
    State(app): State<App>,
    signed: Signed,
    RawQuery(query): RawQuery,
    id: TriedPath<Uuid>,
) -> Response {
    let word = |wanted: &str| pairs(query.as_deref()).find(|(name, _)| name == wanted).map(|(_, word)| word);
    let (flash, open) = (word("did"), word("open").as_deref() == Some("resend"));
    let rendered = match id {
        Ok(Path(id)) => draw(&app, &signed.caller, id, flash, open, None).await,
        Err(error) => Err(error.into()),
    };
    signed.answer(rendered)
}

async fn draw(
    app: &App,
    caller: &Caller,
    id: Uuid,
    flash: Option<String>,
    open: bool,
    refused: Option<RefusedAction>,
) -> Result<impl FnOnce() -> Page + use<>> {
    let (one, own) = app.engine.delivery(caller, id).await?;
    let page_data = DeliveryPageData { one, own, staff: caller.sees_all(), open, refused, flash };
    Ok(move || page::page(&page_data))
}

/// `POST /deliveries/{id}/resend`
pub(super) async fn resend(State(app): State<App>, signed: Signed, id: TriedPath<Uuid>, fields: Fields) -> Response {
    let id = match id {
        Ok(Path(id)) => id,
        Err(error) => return signed.visit.error_page(error),
    };
    let problem = match app.engine.resend(&signed.caller, id, fields.given("reason")).await {
        Ok(_) => return see_other(&address(&format!("/deliveries/{id}"), &[("did", "resent")])),
        Err(error) => match in_the_form(error) {
            Ok(problem) => problem,
            Err(error) => return signed.visit.error_page(error),
        },
    };
    let refused = RefusedAction { action: "resend", problem, reason: fields.text("reason").to_owned() };
    match draw(&app, &signed.caller, id, None, true, Some(refused)).await {
        Ok(draw) => signed.visit.page(StatusCode::UNPROCESSABLE_ENTITY, draw),
        Err(error) => signed.visit.error_page(error),
    }
}
