//! `/types`, `/types/{name}` and `/new-type`: job types and their forms.
//!
//! A change names the version that the form was filled from. A refused form keeps what was typed, but not the secrets.

mod fields; // the settings of a form

use app::{
    components::{action_form::RefusedAction, chart::Range},
    pages::types::{self as page, JobTypePageData, StoredSecrets, Typed},
};
use axum::{
    extract::{RawQuery, State},
    http::StatusCode,
    response::Response,
};
use domain::{Code, JobType, Problem, job_type::JobTypeSpec, problem::FieldProblem};

use super::{
    Signed,
    form::{Fields, in_the_form},
    pairs, see_other, staff,
};
use crate::http::ui::operator::activity_charts::{history, range};
use crate::{
    App,
    http::extract::{Path, TriedPath},
    import_template::ImportTemplate,
    job_types,
};
use engine::{
    access::caller::{Caller, Role},
    error::{Error, Result},
    store::page_range::NamedPageRange,
    stored_response::ResponseSlot,
};

/// `GET /types`
pub(super) async fn list(State(app): State<App>, signed: Signed, RawQuery(query): RawQuery) -> Response {
    let flash = pairs(query.as_deref()).find(|(name, _)| name == "did").map(|(_, flash)| flash);
    let found = async {
        staff(&signed.caller)?;
        let types = job_types::list(&app, &NamedPageRange::by_name(1_000)).await?;
        let types: Vec<_> = types.into_iter().map(|found| job_types::visible_to(&signed.caller, found)).collect();
        let admin = signed.caller.is_admin();
        Ok(move || page::list_page(&types, admin, flash.as_deref()))
    };
    signed.answer(found.await)
}

/// `GET /types/{name}`
pub(super) async fn show(
    State(app): State<App>,
    signed: Signed,
    RawQuery(query): RawQuery,
    name: TriedPath<String>,
) -> Response {
    let word = |wanted: &str| pairs(query.as_deref()).find(|(name, _)| name == wanted).map(|(_, word)| word);
    let found = async {
        staff(&signed.caller)?;
        let Path(name) = name?;
        page_data(&app, &signed.caller, &name, range(query.as_deref())).await
    };
    let (flash, open_delete) = (word("did"), word("open").as_deref() == Some("delete"));
    let found = found.await.map(|page_data| JobTypePageData { flash, open_delete, ..page_data });
    signed.answer(found.map(|page_data| move || page::page(&page_data)))
}

async fn page_data(app: &App, caller: &Caller, name: &str, range: Range) -> Result<JobTypePageData> {
    let job_type = job_types::visible_to(caller, job_types::get(app, name).await?);
    let admin = caller.is_admin();
    let stored_secrets = if admin { stored_secrets(app, caller, name).await? } else { StoredSecrets::default() };
    Ok(JobTypePageData {
        history: history(app, caller, Some(name), range).await?,
        typed: Typed::of(&job_type),
        has_template: ImportTemplate::of(&job_type).is_some(),
        job_type,
        admin,
        flash: None,
        stored_secrets,
        refused: None,
        open_delete: false,
    })
}

async fn stored_secrets(app: &App, caller: &Caller, name: &str) -> Result<StoredSecrets> {
    let stored = job_types::secrets_of(app, caller, name).await?;
    Ok(StoredSecrets {
        auth: stored.auth.is_some(),
        headers: stored.headers.map_or(0, |headers| headers.0.len()),
        secret: stored.secret.is_some(),
    })
}

/// `GET /new-type`: empty, or with the settings of another type.
pub(super) async fn new(State(app): State<App>, signed: Signed, RawQuery(query): RawQuery) -> Response {
    if let Err(refused) = signed.require(Role::Admin) {
        return *refused;
    }
    let from = pairs(query.as_deref()).find(|(name, _)| name == "from").map(|(_, from)| from);
    let typed = async {
        match from {
            Some(from) => Ok(Typed::of(&job_types::get(&app, &from).await?).copied()),
            None => Ok(Typed::of(&defaults()).copied()),
        }
    };
    signed.answer(typed.await.map(|typed| move || page::new_page(&typed)))
}

/// A type with every default.
fn defaults() -> JobType {
    let spec = JobTypeSpec::named("");
    let now = domain::Time(time::OffsetDateTime::UNIX_EPOCH);
    JobType {
        max_failures: spec.max_failures(),
        name: spec.name,
        delivery: spec.delivery,
        concurrency: spec.concurrency,
        rate_limit: spec.rate_limit,
        concurrency_by: spec.concurrency_by,
        fair_by: spec.fair_by,
        backoff: spec.backoff,
        heartbeat_seconds: spec.heartbeat_seconds,
        run_timeout_seconds: spec.run_timeout_seconds,
        steps: spec.steps,
        retain_seconds: spec.retain_seconds,
        payload_schema: spec.payload_schema,
        executor: spec.executor,
        require_idempotency_key: spec.require_idempotency_key,
        paused: spec.paused,
        import: spec.import,
        created_at: now,
        updated_at: now,
        version: 0,
    }
}

/// `POST /types`
pub(super) async fn create(State(app): State<App>, signed: Signed, fields: Fields) -> Response {
    if let Err(refused) = signed.require(Role::Admin) {
        return *refused;
    }
    let mut typed = Typed::sent(fields.pairs());
    if fields.ticked("preview") {
        return signed.visit.page(StatusCode::OK, move || page::new_page(&typed));
    }
    let created = async {
        let name = fields.trimmed("name");
        let spec = job_types::named(&name, fields::settings(&fields, None)?)?;
        job_types::create(&app, &signed.caller, spec, ResponseSlot::none()).await
    };
    let problem = match created.await {
        Ok(created) => return see_other(&format!("/types/{}?did=created", created.name)),
        Err(error) => match at_its_field(error) {
            Ok(problem) => problem,
            Err(error) => return signed.visit.error_page(error),
        },
    };
    typed.problem = Some(problem);
    signed.visit.page(StatusCode::UNPROCESSABLE_ENTITY, move || page::new_page(&typed))
}

/// `POST /types/{name}`: changes the settings in the form.
pub(super) async fn change(
    State(app): State<App>,
    signed: Signed,
    name: TriedPath<String>,
    fields: Fields,
) -> Response {
    let name = match admin(&signed.caller).map_err(crate::http::error::Error::from).and(name) {
        Ok(Path(name)) => name,
        Err(error) => return signed.visit.error_page(error),
    };
    let typed = Typed::sent(fields.pairs());
    if fields.ticked("preview") {
        return form_again(&app, &signed, &name, typed, None).await;
    }
    let changed = async {
        let current = job_types::get(&app, &name).await?;
        let changes = fields::settings(&fields, Some(&current))?;
        let version = fields.given("version").and_then(|version| version.parse().ok());
        job_types::patch(&app, &signed.caller, &name, &changes, version).await
    };
    match changed.await {
        Ok(_) => see_other(&format!("/types/{name}?did=changed")),
        Err(error) => match at_its_field(error) {
            Ok(problem) => form_again(&app, &signed, &name, typed, Some(problem)).await,
            Err(error) => signed.visit.error_page(error),
        },
    }
}

/// The page with the form as typed.
async fn form_again(
    app: &App,
    signed: &Signed,
    name: &str,
    mut typed: Typed,
    mut problem: Option<Problem>,
) -> Response {
    match page_data(app, &signed.caller, name, Range::default()).await {
        Ok(page_data) => {
            // Whoever has seen that somebody else changed it, saves over that.
            if let Some(problem) = problem.as_mut().filter(|problem| problem.code == Code::PreconditionFailed) {
                typed.set_version(page_data.job_type.version);
                let detail = "The job type was changed since this page was opened. Your changes are below; save again to \
                              overwrite them.";
                detail.clone_into(&mut problem.detail);
            }
            let refused = problem.is_some();
            typed.problem = problem;
            let page_data = JobTypePageData { typed, ..page_data };
            let status = if refused { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
            signed.visit.page(status, move || page::page(&page_data))
        }
        Err(error) => signed.visit.error_page(error),
    }
}

/// Problem that is shown in the form, at its field.
fn at_its_field(error: Error) -> Result<Problem> {
    let mut problem = match error {
        Error::Problem(problem) if problem.code == Code::TooLarge => *problem,
        error => in_the_form(error)?,
    };
    if problem.code == Code::Duplicate {
        "A job type of this name exists. Choose another name, or edit that job type.".clone_into(&mut problem.detail);
    }
    let pointer = match problem.code {
        Code::Duplicate => "/name",
        Code::TooLarge if problem.detail.starts_with("/import") => "/import/template/examples",
        Code::SchemaTooComplex | Code::TooLarge => "/payload_schema",
        _ => return Ok(problem),
    };
    let fault = FieldProblem { pointer: pointer.to_owned(), detail: problem.detail.clone() };
    Ok(Problem { errors: vec![fault], ..problem })
}

/// `POST /types/{name}/delete`
pub(super) async fn delete(State(app): State<App>, signed: Signed, name: TriedPath<String>) -> Response {
    let name = match admin(&signed.caller).map_err(crate::http::error::Error::from).and(name) {
        Ok(Path(name)) => name,
        Err(error) => return signed.visit.error_page(error),
    };
    let problem = match job_types::delete(&app, &signed.caller, &name, None).await {
        Ok(()) => return see_other("/types?did=type-deleted"),
        Err(error) => match in_the_form(error) {
            Ok(problem) => problem,
            Err(error) => return signed.visit.error_page(error),
        },
    };
    match page_data(&app, &signed.caller, &name, Range::default()).await {
        Ok(page_data) => {
            let refused = Some(RefusedAction { action: "delete", problem, reason: String::new() });
            let page_data = JobTypePageData { refused, ..page_data };
            signed.visit.page(StatusCode::UNPROCESSABLE_ENTITY, move || page::page(&page_data))
        }
        Err(error) => signed.visit.error_page(error),
    }
}

/// `POST /types/{name}/pause`
pub(super) async fn pause(State(app): State<App>, signed: Signed, name: TriedPath<String>) -> Response {
    paused(&app, &signed, name, true).await
}

/// `POST /types/{name}/resume`
pub(super) async fn resume(State(app): State<App>, signed: Signed, name: TriedPath<String>) -> Response {
    paused(&app, &signed, name, false).await
}

async fn paused(app: &App, signed: &Signed, name: TriedPath<String>, wanted: bool) -> Response {
    let done = async {
        admin(&signed.caller)?;
        let Path(name) = name?;
        job_types::set_paused(app, &signed.caller, &name, wanted, None).await
    };
    let word = if wanted { "paused" } else { "resumed" };
    match done.await {
        Ok(it) => see_other(&format!("/types/{}?did={word}", it.name)),
        Err(error) => signed.visit.error_page(error),
    }
}

fn admin(caller: &Caller) -> Result<()> {
    if caller.is_admin() {
        return Ok(());
    }
    Err(Error::refuse(Code::Forbidden, "Only admins change job types."))
}
