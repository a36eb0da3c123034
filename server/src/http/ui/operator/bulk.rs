//! `/bulk`: bulk operations, from the preview to the last item. A preview is a dry run of the API, stored like any
//! other. Its operation starts under its own idempotency key, so a form sent twice starts one operation.

use app::{
    components::action_form::RefusedAction,
    pages::operator::bulk::{self as pages, Edited, NewOperationForm, OperationPageData, list_of},
};
use axum::{
    extract::{RawQuery, State},
    http::StatusCode,
    response::Response,
};
use domain::{
    Document, Problem,
    api::{BulkAction, BulkOperation, BulkTarget, NewBulk},
    query::filter::{Fault, Filter},
};
use uuid::Uuid;

use super::edits;
use crate::http::ui::{
    Signed,
    form::{Fields, in_the_form},
    list_request::{Pages, now},
    pairs, see_other,
};
use crate::{
    App,
    http::{
        enqueue::idempotency::{Key, fingerprint},
        extract::{Path, TriedPath},
        operator::bulk::bulk_selection,
        query::cursor::Paged as _,
    },
};
use engine::{
    KeyedCall,
    access::caller::Caller,
    error::{Error, Result},
    store::page_range::PageRange,
};

/// `GET /bulk`
pub(crate) async fn list(State(app): State<App>, signed: Signed, RawQuery(query): RawQuery) -> Response {
    let pages = Pages::plain("/bulk", query.as_deref());
    let found = async {
        let range = PageRange::newest(pages.place()?, pages.rows_to_read()?);
        let page = pages.page_of(app.engine.list_bulk(&signed.caller, range).await?, |one| one.id)?;
        let next = page.next_cursor.map(|cursor| crate::http::ui::address("/bulk", &[("cursor", &cursor)]));
        let first = pages.first();
        Ok(move || pages::list_page(&page.data, next.as_ref(), first))
    };
    signed.answer(found.await)
}

/// `GET /bulk/new`
pub(crate) async fn new(signed: Signed, RawQuery(query): RawQuery) -> Response {
    let (mut what, mut q) = (String::new(), String::new());
    for (name, value) in pairs(query.as_deref()) {
        match name.as_str() {
            "what" => what = value,
            "q" => q = value,
            _ => {}
        }
    }
    let (action, target) = read_what(&what).unwrap_or((BulkAction::Retry, BulkTarget::Items));
    let new_operation = NewOperationForm { action, target, q, fault: None, problem: None };
    signed.visit.page(StatusCode::OK, move || pages::new_page(&new_operation))
}

/// Parses the form's choice, such as `retry items`.
fn read_what(what: &str) -> Option<(BulkAction, BulkTarget)> {
    let (action, target) = what.split_once(' ')?;
    Some((BulkAction::parse(action)?, BulkTarget::parse(target)?))
}

/// `POST /bulk`: creates a preview.
pub(crate) async fn preview(State(app): State<App>, signed: Signed, fields: Fields) -> Response {
    let apart = (BulkAction::parse(fields.text("action")), BulkTarget::parse(fields.text("target")));
    let what = match apart {
        (Some(action), Some(target)) => Some((action, target)),
        _ => read_what(fields.text("what")),
    };
    let (action, target) = what.unwrap_or((BulkAction::Retry, BulkTarget::Items));
    let mut new_operation = NewOperationForm { action, target, q: filter_text(&fields), fault: None, problem: None };
    let filter = match filter(target, &new_operation.q) {
        Ok(filter) => filter,
        Err(fault) => {
            let nothing = fields.given("selection").is_some() && new_operation.q.is_empty();
            let detail = "Nothing was selected: go back and tick some, or say here which are meant";
            let fault = if nothing { Fault { at: 0, detail: detail.to_owned() } } else { fault };
            new_operation.fault = Some(fault);
            return signed.visit.page(StatusCode::UNPROCESSABLE_ENTITY, move || pages::new_page(&new_operation));
        }
    };
    let new = NewBulk {
        action,
        target,
        filter,
        payload_edit: Vec::new(),
        reason: None,
        rate_per_second: None,
        dry_run: true,
    };
    match begin(&app, &signed.caller, new, None).await {
        Ok(id) => see_other(&format!("/bulk/{id}")),
        Err(Error::Problem(problem)) if matches!(problem.status, 400 | 404 | 409 | 422) => {
            new_operation.problem = Some(*problem);
            signed.visit.page(StatusCode::UNPROCESSABLE_ENTITY, move || pages::new_page(&new_operation))
        }
        Err(error) => signed.visit.error_page(error),
    }
}

/// Filter of a form: the typed one, that of the list if all its rows are selected, or the ids of the selected rows.
fn filter_text(fields: &Fields) -> String {
    if fields.ticked("all") {
        return fields.text("matching").to_owned();
    }
    let ids = fields.all("id");
    if ids.is_empty() { fields.text("q").to_owned() } else { format!("id:{}", ids.join(",")) }
}

/// Converts the filter language to the API's object. Ages become points in time.
fn filter(target: BulkTarget, text: &str) -> Result<Document, Fault> {
    let parameters = Filter::parse(text)?.parameters(list_of(target), now())?;
    if parameters.is_empty() {
        return Err(Fault {
            at: 0,
            detail: "Add at least one condition, so that an operation over everything never starts by accident"
                .to_owned(),
        });
    }
    // In the order of the text.
    let members: Vec<String> = parameters
        .iter()
        .map(|(name, value)| format!("{}:{}", Document::of(name).text(), Document::of(value).text()))
        .collect();
    Ok(Document::trusted(format!("{{{}}}", members.join(","))))
}

async fn begin(app: &App, caller: &Caller, new: NewBulk, key: Option<KeyedCall>) -> Result<Uuid> {
    let wanted = bulk_selection(new.target, &new.filter)?;
    Ok(app.engine.create_bulk(caller, new, wanted, key).await?.id)
}

/// `GET /bulk/{id}`
pub(crate) async fn show(
    State(app): State<App>,
    signed: Signed,
    RawQuery(query): RawQuery,
    id: TriedPath<Uuid>,
) -> Response {
    let parameter = |wanted: &str| pairs(query.as_deref()).find(|(name, _)| name == wanted).map(|(_, value)| value);
    let (flash, stops) = (parameter("did"), parameter("open").is_some_and(|open| open == "cancel"));
    let rendered = match id {
        Ok(Path(id)) => page_data(&app, &signed.caller, id).await,
        Err(error) => Err(error.into()),
    };
    signed.answer(rendered.map(|page_data| move || pages::page(&OperationPageData { flash, stops, ..page_data })))
}

async fn page_data(app: &App, caller: &Caller, id: Uuid) -> Result<OperationPageData> {
    let one = app.engine.bulk(caller, id).await?;
    Ok(OperationPageData {
        own: one.owner.kind == caller.kind && one.owner.name == caller.name,
        staff: caller.sees_all(),
        one,
        flash: None,
        stops: false,
        refused: None,
        reason: String::new(),
        rate: String::new(),
        edits: String::new(),
        before: None,
        edited: None,
    })
}

/// `POST /bulk/{id}/start`: starts the operation of a preview.
pub(crate) async fn start(State(app): State<App>, signed: Signed, id: TriedPath<Uuid>, fields: Fields) -> Response {
    submit(&app, signed, id, fields, "start").await
}

/// `POST /bulk/{id}/cancel`
pub(crate) async fn cancel(State(app): State<App>, signed: Signed, id: TriedPath<Uuid>, fields: Fields) -> Response {
    submit(&app, signed, id, fields, "cancel").await
}

async fn submit(app: &App, signed: Signed, id: TriedPath<Uuid>, fields: Fields, action: &'static str) -> Response {
    let id = match id {
        Ok(Path(id)) => id,
        Err(error) => return signed.visit.error_page(error),
    };
    let outcome = async {
        if action == "start" {
            return started(app, &signed.caller, id, &fields).await;
        }
        app.engine.cancel_bulk(&signed.caller, id, fields.given("reason")).await?;
        Ok(Started::Begun(format!("/bulk/{id}?did=stopped")))
    };
    let (id, problem, before, edited) = match outcome.await {
        Ok(Started::Begun(to)) => return see_other(&to),
        Ok(Started::Changed { now, before }) => (now, None, Some(before), None),
        Ok(Started::Unseen(edited)) => (id, None, None, Some(edited)),
        Err(error) => match in_the_form(error) {
            Ok(problem) => (id, Some(problem), None, None),
            Err(error) => return signed.visit.error_page(error),
        },
    };
    match page_data(app, &signed.caller, id).await {
        Ok(page_data) => {
            let reason = fields.text("reason").to_owned();
            let page_data = OperationPageData {
                refused: problem.map(|problem| RefusedAction { action, problem, reason: reason.clone() }),
                reason,
                rate: fields.text("rate").to_owned(),
                edits: fields.lines("edits").unwrap_or_default(),
                before,
                edited,
                ..page_data
            };
            signed.visit.page(StatusCode::UNPROCESSABLE_ENTITY, move || pages::page(&page_data))
        }
        Err(error) => signed.visit.error_page(error),
    }
}

/// Outcome of a form that starts an operation.
enum Started {
    /// Path of the running operation.
    Begun(String),
    /// New preview, because the number of matches changed since the old one; no operation was started.
    Changed { now: Uuid, before: i64 },
    /// Effect of the edits on the payloads, which the reader has not seen yet.
    Unseen(Edited),
}

async fn started(app: &App, caller: &Caller, id: Uuid, fields: &Fields) -> Result<Started> {
    let preview = app.engine.bulk(caller, id).await?;
    if !preview.dry_run {
        return Ok(Started::Begun(format!("/bulk/{id}")));
    }
    let rate_per_second = match fields.given("rate") {
        None => None,
        Some(typed) => Some(typed.parse::<f64>().ok().filter(|rate| rate.is_finite()).ok_or_else(|| {
            let detail = "expected a number above 0, or nothing".to_owned();
            Problem::invalid_body([("/rate_per_second".to_owned(), detail)])
        })?),
    };
    let text = fields.lines("edits").unwrap_or_default();
    let mut typed = edits::Typed::default();
    if !text.trim().is_empty() {
        let sample = edits::sample(app, caller, &preview).await;
        typed = edits::read(&text, &sample)?;
        if fields.given("show").is_some() || !is_seen(&text, fields.text("seen_edits")) {
            return Ok(Started::Unseen(edits::outcome(app, caller, &typed, sample).await?));
        }
    }
    let new = NewBulk {
        action: preview.action,
        target: preview.target,
        filter: preview.filter.clone(),
        payload_edit: typed.edits,
        reason: fields.given("reason").map(str::to_owned),
        rate_per_second,
        dry_run: false,
    };
    // The engine requires a reason once it reaches another owner's work; callers who see all give it up front.
    if caller.sees_all() && new.reason.is_none() {
        let detail = "Say why: it is kept in the audit log with every item that this touches.";
        return Err(Error::refuse(domain::Code::ReasonRequired, detail));
    }
    let text = Document::of(&new);
    let name = Key(Some(format!("preview:{id}"))).name(caller);
    let key = name.map(|name| KeyedCall { name, call: "POST /bulk/{id}/start", fingerprint: fingerprint(text.text()) });
    // A repeated form finds the operation that it started, even if fewer rows match since.
    if let Some(begun) = app.engine.existing_bulk(key.as_ref()).await? {
        return Ok(Started::Begun(format!("/bulk/{begun}")));
    }
    if let Some(before) = changed(app, caller, &preview, fields).await? {
        let now = begin(app, caller, NewBulk { payload_edit: Vec::new(), reason: None, dry_run: true, ..new }, None);
        return Ok(Started::Changed { now: now.await?, before });
    }
    Ok(Started::Begun(format!("/bulk/{}", begin(app, caller, new, key).await?)))
}

/// Count that the reader saw, if the current count differs. Above some thousands nothing is counted again: the
/// operation freezes its members when it starts, and shows their number.
async fn changed(app: &App, caller: &Caller, preview: &BulkOperation, fields: &Fields) -> Result<Option<i64>> {
    let Some(shown_count) = fields.given("count").and_then(|count| count.parse::<i64>().ok()) else { return Ok(None) };
    let wanted = bulk_selection(preview.target, &preview.filter)?;
    let now = app.engine.count_bulk(caller, &wanted).await?;
    Ok(now.is_some_and(|now| now != shown_count).then_some(shown_count))
}

/// Returns true if the reader saw the effect of exactly these edits; a hidden field has no line breaks.
fn is_seen(edits: &str, seen: &str) -> bool {
    let lines = |text: &str, separator: char| -> Vec<String> {
        text.split(separator).map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
    };
    lines(&edits.replace('\n', ";"), ';') == lines(seen, ';')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_over_everything_is_refused() {
        assert!(filter(BulkTarget::Items, "  ").is_err());
        let one = filter(BulkTarget::Items, "state:dead \"a: b\"").expect("a filter");
        assert_eq!(one.text(), r#"{"state":"dead","q":"a: b"}"#);
    }
}
