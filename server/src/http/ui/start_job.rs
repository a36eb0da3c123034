//! `/jobs/new`: a job started by form, with the use case of `POST /jobs`.
//!
//! The form has an Idempotency-Key, so that a repeated click leads to the same job.

use app::components::json::pretty;
use app::pages::start_job::{self as page, MOST_ITEMS, StartForm, TypedItem};
use axum::{
    extract::{RawQuery, State},
    http::StatusCode,
    response::Response,
};
use domain::{
    Code, Document, JobType, Problem,
    api::{NewItem, NewJob},
    dispatch::traceparent::Traceparent,
    job_type::{Builtin, ExecutorKind},
};
use uuid::Uuid;

use super::{
    Signed,
    form::{Cells, Fields, in_the_form, new_key},
    pairs, see_other,
};
use crate::{
    App,
    http::{enqueue::idempotency::fingerprint, trace::Trace},
    job_types, payload_form,
};
use engine::{
    Creation,
    access::caller::{Caller, Scope},
    error::Result,
    store::page_range::NamedPageRange,
    task::heavy,
};

/// `GET /jobs/new`: with `?type=NAME`, the form of the type.
pub(super) async fn new(State(app): State<App>, signed: Signed, RawQuery(query): RawQuery) -> Response {
    let chosen = pairs(query.as_deref()).find(|(name, _)| name == "type").map(|(_, name)| name);
    let form = async {
        let (mut form, _) = form_of(&app, &signed.caller, chosen.as_deref()).await?;
        form.key = new_key();
        let empty = empty_item(&form);
        form.items.push(empty);
        Ok(move || page::page(&form))
    };
    signed.answer(form.await)
}

/// Form of a type, without items.
async fn form_of(app: &App, caller: &Caller, name: Option<&str>) -> Result<(StartForm, Option<JobType>)> {
    caller.require(Scope::JobsWrite)?;
    let types = job_types::list(app, &NamedPageRange::by_name(1_000)).await?;
    // An export is of one job, whose page has downloads.
    let offered = types.into_iter().filter(|it| it.executor.name != Some(Builtin::Export)).map(|it| it.name);
    let mut form = StartForm { job_types: offered.collect(), ..StartForm::default() };
    let Some(name) = name else { return Ok((form, None)) };
    let job_type = job_types::get(app, name).await?;
    form.job_type.clone_from(&job_type.name);
    if !form.job_types.contains(&job_type.name) {
        form.job_types.push(job_type.name.clone());
    }
    form.paused = job_type.paused;
    form.fields = heavy(|| payload_form::fields_of(&job_type));
    form.as_json = form.fields.is_empty();
    Ok((form, Some(job_type)))
}

fn empty_item(form: &StartForm) -> TypedItem {
    TypedItem { values: payload_form::initial(&form.fields), json: "{}".to_owned() }
}

/// `POST /jobs`
pub(super) async fn create(
    State(app): State<App>,
    signed: Signed,
    Trace(traceparent): Trace,
    Cells(fields): Cells,
) -> Response {
    let (mut form, job_type) = match typed_form(&app, &signed.caller, &fields).await {
        Ok(typed) => typed,
        Err(error) => return signed.visit.error_page(error),
    };
    match changed(&mut form, fields.text("do")) {
        Ok(true) => return signed.visit.page(StatusCode::OK, move || page::page(&form)),
        Ok(false) => {}
        Err(problem) => return refused(&signed, form, problem),
    }
    let problem = match start(&app, &signed.caller, &form, &job_type, traceparent).await {
        Ok(id) => return see_other(&format!("/jobs/{id}?did=job-started")),
        Err(error) => match in_the_form(error) {
            Ok(problem) => problem,
            Err(error) => return signed.visit.error_page(error),
        },
    };
    if problem.code == Code::IdempotencyKeyReused {
        form.key = new_key();
        let detail = "This form has already started a job. Start again to start another one.".to_owned();
        return refused(&signed, form, Problem { detail, ..problem });
    }
    refused(&signed, form, problem)
}

fn refused(signed: &Signed, form: StartForm, problem: Problem) -> Response {
    let form = StartForm { problem: Some(problem), ..form };
    signed.visit.page(StatusCode::UNPROCESSABLE_ENTITY, move || page::page(&form))
}

/// The form as typed, and its type.
async fn typed_form(app: &App, caller: &Caller, fields: &Fields) -> Result<(StartForm, JobType)> {
    let (form, job_type) = form_of(app, caller, Some(&fields.trimmed("type"))).await?;
    let job_type =
        job_type.ok_or_else(|| engine::error::Error::refuse(Code::NotFound, "There is no such job type."))?;
    let count = fields.trimmed("items").parse().unwrap_or(1).clamp(1, MOST_ITEMS);
    let mut items = vec![TypedItem::default(); count];
    for (name, value) in fields.pairs() {
        let Some(place) = name.strip_prefix("item.") else { continue };
        let (at, field) = place.split_once('.').map_or((place, None), |(at, field)| (at, Some(field)));
        let Some(item) = at.parse::<usize>().ok().and_then(|at| items.get_mut(at)) else { continue };
        let value = value.replace("\r\n", "\n");
        match field {
            Some(field) => drop(item.values.entry(field.to_owned()).or_insert(value)),
            None => item.json = value,
        }
    }
    let key = fields.key().0.unwrap_or_else(new_key);
    let form = StartForm {
        as_json: form.as_json || fields.ticked("json"),
        items,
        key,
        name: fields.trimmed("name"),
        dedupe_key: fields.trimmed("dedupe_key"),
        priority: fields.trimmed("priority"),
        run_after: fields.trimmed("run_after"),
        ..form
    };
    Ok((form, job_type))
}

/// Changes the form as the button says; false if the button starts the job.
fn changed(form: &mut StartForm, button: &str) -> Result<bool, Problem> {
    match button {
        "add" => {
            if form.items.len() < MOST_ITEMS {
                form.items.push(empty_item(form));
            }
        }
        "json" => {
            for item in form.items.iter_mut().filter(|_| !form.as_json) {
                let (payload, faults) = payload_form::payload(&form.fields, &item.values);
                // A part that is no JSON cannot be shown as JSON: its field must be corrected first.
                if let Some((pointer, expected)) = faults.into_iter().next() {
                    return Err(Problem::invalid_body([(pointer, expected)]));
                }
                item.json = pretty(&payload);
            }
            form.as_json = true;
        }
        "fields" => {
            let mut all = Vec::with_capacity(form.items.len());
            for (at, item) in form.items.iter().enumerate() {
                let shown = json(&item.json).and_then(|payload| payload_form::values(&form.fields, &payload));
                let fault = |reason| {
                    let detail = format!("expected a payload that the fields can show: {reason}");
                    Problem::invalid_body([(format!("/items/{at}/payload"), detail)])
                };
                all.push(shown.map_err(fault)?);
            }
            for (item, values) in form.items.iter_mut().zip(all) {
                item.values = values;
            }
            form.as_json = form.fields.is_empty();
        }
        _ => match button.strip_prefix("remove-").and_then(|at| at.parse::<usize>().ok()) {
            Some(at) if at < form.items.len() && form.items.len() > 1 => drop(form.items.remove(at)),
            Some(_) => {}
            None => return Ok(false),
        },
    }
    Ok(true)
}

fn json(typed: &str) -> Result<Document, String> {
    Document::parse(typed.trim().to_owned()).map_err(|error| format!("found {error}"))
}

/// Starts the job of a form; returns its id.
async fn start(
    app: &App,
    caller: &Caller,
    form: &StartForm,
    job_type: &JobType,
    traceparent: Option<Traceparent>,
) -> Result<Uuid> {
    let new = new_job(form, job_type)?;
    app.engine.check_sizes(&new)?;
    let key = Some((form.key.clone(), fingerprint(Document::of(&new).text())));
    let creation = Creation { new, key, body_hash: None, may_need_key: true, traceparent };
    Ok(app.engine.create_tree(caller, creation).await?.0.root_id())
}

/// Body of `POST /jobs`. Every fault has the pointer of its field.
fn new_job(form: &StartForm, job_type: &JobType) -> Result<NewJob, Problem> {
    let mut faults = Vec::new();
    let mut items = Vec::with_capacity(form.items.len());
    // The built-in executors validate payloads when they execute them; a form says it at once.
    let is_builtin = job_type.executor.kind == ExecutorKind::Builtin;
    let schema = payload_form::schema_of(job_type).filter(|_| is_builtin);
    for (at, item) in form.items.iter().enumerate() {
        let (payload, mut wrong) = if form.as_json {
            match json(&item.json) {
                Ok(payload) => (payload, Vec::new()),
                Err(reason) => (Document::null(), vec![(String::new(), format!("expected JSON; {reason}"))]),
            }
        } else {
            payload_form::payload(&form.fields, &item.values)
        };
        if let Some(schema) = schema.as_ref().filter(|_| wrong.is_empty()) {
            wrong = heavy(|| schema.faults(&payload));
        }
        faults.extend(wrong.into_iter().map(|(inner, expected)| (format!("/items/{at}/payload{inner}"), expected)));
        items.push(NewItem { payload: Some(payload), ..NewItem::default() });
    }
    let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let priority = given(&form.priority).and_then(|typed| {
        let priority = typed.parse().ok();
        if priority.is_none() {
            faults.push(("/priority".to_owned(), "expected a whole number from -100 to 100".to_owned()));
        }
        priority
    });
    let run_after = given(&form.run_after).and_then(|typed| {
        let time = domain::Time::parse(&typed);
        if time.is_none() {
            faults.push(("/run_after".to_owned(), "expected a time such as 2026-12-01T12:00:00Z".to_owned()));
        }
        time
    });
    if !faults.is_empty() {
        return Err(Problem::invalid_body(faults));
    }
    Ok(NewJob {
        items,
        sealed: true,
        name: given(&form.name),
        dedupe_key: given(&form.dedupe_key),
        priority,
        run_after,
        ..NewJob::of(&job_type.name)
    })
}
