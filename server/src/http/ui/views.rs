//! `/views`: saved views, and the menu of them on lists (`saved-views`).

use app::{
    components::{
        filter_bar::ListFilter,
        saved_views::{self, ListViews},
    },
    pages::views::{self as page, Typed},
};
use axum::{
    extract::{RawQuery, State},
    http::StatusCode,
    response::Response,
};
use domain::{
    Problem,
    job::OwnerKind,
    saved_view::{NewSavedView, SavedView, SavedViewPatch, ViewList},
};
use uuid::Uuid;

use super::{
    Signed,
    form::{Fields, in_the_form},
    pairs, see_other,
};
use crate::{
    App,
    http::extract::{Path, TriedPath},
};
use engine::{
    access::caller::Caller,
    error::{Error, Result},
    stored_response::ResponseSlot,
};

/// Maximum number of views in a menu, and on the page.
const MOST_IN_MENU: i64 = 100;
const MOST: i64 = 1_000;

/// URL with which a list opens, if its bare path was requested and one of the views is its default.
pub(super) async fn opening(app: &App, caller: &Caller, list: ViewList, query: Option<&str>) -> Option<Response> {
    if query.is_some_and(|query| !query.is_empty()) {
        return None;
    }
    // Without its default, the list opens with everything; a failing database shows in the list itself.
    let view = app.engine.default_view(caller, list).await.ok().flatten()?;
    Some(see_other(&saved_views::url(list, &view.q, view.sort.as_deref())))
}

/// Adds the menu of the views of a list.
pub(super) async fn add_menu(app: &App, caller: &Caller, list_filter: &mut ListFilter) -> Result<()> {
    let found = app.engine.views_by_name(caller, Some(ViewList::of(list_filter.list)), MOST_IN_MENU).await?;
    let (own, shared) = split(caller, found);
    list_filter.views = Some(ListViews { own, shared, may_share: caller.sees_all() });
    Ok(())
}

/// The caller's own views, and those of others.
fn split(caller: &Caller, views: Vec<SavedView>) -> (Vec<SavedView>, Vec<SavedView>) {
    let kind = if caller.role.is_some() { OwnerKind::User } else { OwnerKind::Service };
    views.into_iter().partition(|view| view.owner.kind == kind && view.owner.name == caller.name)
}

/// `GET /views`
pub(super) async fn list(State(app): State<App>, signed: Signed, RawQuery(query): RawQuery) -> Response {
    let (mut flash, mut open) = (None, None);
    for (name, value) in pairs(query.as_deref()) {
        match name.as_str() {
            "did" => flash = Some(value),
            "open" => open = value.parse().ok(),
            _ => {}
        }
    }
    let page_data = read(&app, &signed.caller).await;
    signed.answer(page_data.map(|page_data| move || page::page(&page::Views { flash, open, ..page_data })))
}

async fn read(app: &App, caller: &Caller) -> Result<page::Views> {
    let (own, shared) = split(caller, app.engine.views_by_name(caller, None, MOST).await?);
    Ok(page::Views { own, shared, may_share: caller.sees_all(), admin: caller.is_admin(), ..page::Views::default() })
}

fn typed(fields: &Fields) -> Typed {
    Typed {
        name: fields.trimmed("name"),
        q: fields.trimmed("q"),
        sort: fields.trimmed("sort"),
        shared: fields.ticked("shared"),
        is_default: fields.ticked("is_default"),
        reason: fields.text("reason").to_owned(),
        problem: None,
    }
}

fn sort_of(typed: &Typed) -> Option<String> {
    Some(typed.sort.clone()).filter(|sort| !sort.is_empty())
}

/// `POST /views`: saves a list as it is shown.
pub(super) async fn create(State(app): State<App>, signed: Signed, fields: Fields) -> Response {
    let typed = typed(&fields);
    let Some(list) = ViewList::parse(&fields.trimmed("list")) else {
        let problem = Problem::invalid_body([("/list".to_owned(), "expected jobs, items or failures".to_owned())]);
        return signed.visit.error_page(problem);
    };
    let new = NewSavedView {
        list,
        name: typed.name.clone(),
        q: typed.q.clone(),
        sort: sort_of(&typed),
        shared: typed.shared,
        is_default: typed.is_default,
    };
    match app.engine.create_view(&signed.caller, new, ResponseSlot::none()).await {
        Ok(view) => {
            let url = saved_views::url(list, &view.q, view.sort.as_deref());
            see_other(&format!("{url}&did=view-saved"))
        }
        Err(error) => match in_the_form(error) {
            Ok(problem) => {
                let may_share = signed.caller.sees_all();
                let typed = Typed { problem: Some(at_its_field(problem)), ..typed };
                let draw = move || page::new_page(list, &typed, may_share);
                signed.visit.page(StatusCode::UNPROCESSABLE_ENTITY, draw)
            }
            Err(error) => signed.visit.error_page(error),
        },
    }
}

/// A name that is taken is a fault of the field.
fn at_its_field(problem: Problem) -> Problem {
    if problem.code != domain::Code::Duplicate {
        return problem;
    }
    let detail = "expected a name that no other of your views of this list has".to_owned();
    let errors = vec![domain::problem::FieldProblem { pointer: "/name".to_owned(), detail }];
    Problem { errors, ..problem }
}

/// `POST /views/{id}`
pub(super) async fn change(State(app): State<App>, signed: Signed, id: TriedPath<Uuid>, fields: Fields) -> Response {
    let id = match id {
        Ok(Path(id)) => id,
        Err(error) => return signed.visit.error_page(error),
    };
    let typed = typed(&fields);
    let patch = SavedViewPatch {
        name: Some(typed.name.clone()),
        q: Some(typed.q.clone()),
        sort: Some(sort_of(&typed)),
        // The form of a person who may not share has no such field.
        shared: signed.caller.sees_all().then_some(typed.shared),
        is_default: None,
        reason: fields.given("reason").map(str::to_owned),
    };
    match app.engine.patch_view(&signed.caller, id, patch).await {
        Ok(_) => see_other("/views?did=changed-view"),
        Err(error) => refused(&app, &signed, id, error, typed, false).await,
    }
}

/// `POST /views/{id}/default`
pub(super) async fn set_default(
    State(app): State<App>,
    signed: Signed,
    id: TriedPath<Uuid>,
    fields: Fields,
) -> Response {
    let changed = async {
        let patch = SavedViewPatch { is_default: Some(fields.ticked("is_default")), ..SavedViewPatch::default() };
        app.engine.patch_view(&signed.caller, id?.0, patch).await
    };
    match changed.await {
        Ok(_) => see_other("/views?did=changed-view"),
        Err(error) => signed.visit.error_page(error),
    }
}

/// `POST /views/{id}/delete`
pub(super) async fn delete(State(app): State<App>, signed: Signed, id: TriedPath<Uuid>, fields: Fields) -> Response {
    let id = match id {
        Ok(Path(id)) => id,
        Err(error) => return signed.visit.error_page(error),
    };
    match app.engine.delete_view(&signed.caller, id, fields.given("reason").map(str::to_owned)).await {
        Ok(()) => see_other("/views?did=view-deleted"),
        Err(error) => refused(&app, &signed, id, error, typed(&fields), true).await,
    }
}

/// The page with a refused form.
async fn refused(app: &App, signed: &Signed, id: Uuid, error: Error, typed: Typed, deletion: bool) -> Response {
    let problem = match in_the_form(error) {
        Ok(problem) => at_its_field(problem),
        Err(error) => return signed.visit.error_page(error),
    };
    match read(app, &signed.caller).await {
        Ok(page_data) => {
            let refused = Some(Typed { problem: Some(problem), ..typed });
            let page_data = page::Views { open: Some(id), refused, refused_deletion: deletion, ..page_data };
            signed.visit.page(StatusCode::UNPROCESSABLE_ENTITY, move || page::page(&page_data))
        }
        Err(error) => signed.visit.error_page(error),
    }
}
