//! Job types: created, changed, paused and deleted by admins, readable by everyone.
//!
//! Changes are compare-and-set on the version, so that concurrent edits do not overwrite each other. A job keeps the
//! settings of its creation; live settings are reloaded by the engine every second, and at once on the server that
//! changed them.

mod changes; // textual description of an edit

use std::collections::BTreeMap;

use domain::{
    Code, Document, JobType, Problem,
    job_type::{ExecutorKind, JobTypeSpec, PushSecrets},
    problem::FieldProblem,
    query::topic::Topic,
};
use serde_json::value::RawValue;

use crate::{App, auth::step_up, outbound::template};
use engine::{
    access::caller::{Caller, Scope},
    addresses::Reach,
    error::{Error, Result},
    live_updates::LiveUpdates as _,
    schema::{Schema, SchemaError},
    sealing::stored_secrets::open_push,
    store::{
        notify::audit::{self as log, AuditRow},
        page_range::NamedPageRange,
        tree::job_types::{self as store, Deleted},
    },
    stored_response::ResponseSlot,
    task::{heavy, in_task},
};

/// JSON object with unparsed values.
pub type Fields = BTreeMap<String, Box<RawValue>>;

/// Creates a type. 409 `duplicate` if the name is taken.
pub async fn create(app: &App, caller: &Caller, spec: JobTypeSpec, response_slot: ResponseSlot) -> Result<JobType> {
    caller.require(Scope::Admin)?;
    step_up::require(app, caller).await?;
    check(app, &spec)?;
    let (pool, by, sealer) = (app.pool.clone(), caller.clone(), app.sealer.clone());
    let (_, secrets) = spec.executor.split_secrets();
    let created = in_task("making a job type", async move {
        let mut tx = engine::store::begin(&pool).await?;
        let created = store::insert(&mut *tx, &sealer, &spec).await?.ok_or_else(|| {
            Error::refuse(Code::Duplicate, "A job type of this name exists. Change it by PUT or PATCH.")
        })?;
        log::record(&mut tx, &entry(&by, "job_type.create", None, Some((&created, &secrets)))).await?;
        response_slot.store(&mut tx, &created).await?;
        engine::store::commit(tx).await?;
        Ok(created)
    })
    .await?;
    changed(app, caller, &created.name, "made").await?;
    Ok(created)
}

/// Finds a type by name.
pub async fn get(app: &App, name: &str) -> Result<JobType> {
    store::find(&app.pool, &app.sealer, name).await?.ok_or_else(missing)
}

/// Returns the type as this caller may see it: only admins see the URL, because its query may hold keys.
pub fn visible_to(caller: &Caller, job_type: JobType) -> JobType {
    if caller.require(Scope::Admin).is_ok() {
        return job_type;
    }
    JobType { executor: job_type.executor.without_query(), ..job_type }
}

/// Secrets of a type's executor, for admins: a page says which are stored, and shows none.
pub async fn secrets_of(app: &App, caller: &Caller, name: &str) -> Result<PushSecrets> {
    caller.require(Scope::Admin)?;
    stored_secrets(app, name).await
}

/// Returns a page of the list of types.
pub async fn list(app: &App, part: &NamedPageRange) -> Result<Vec<JobType>> {
    Ok(store::list(&app.pool, &app.sealer, part).await?)
}

/// Creates or replaces a type. Returns true if it is new. 412 if `expected` is not its version, or if it exists against the
/// caller's expectation.
pub async fn put(
    app: &App,
    caller: &Caller,
    spec: &JobTypeSpec,
    (expected, exists): (Option<i64>, Option<bool>),
) -> Result<(JobType, bool)> {
    caller.require(Scope::Admin)?;
    step_up::require(app, caller).await?;
    check(app, spec)?;
    let (_, secrets) = spec.executor.split_secrets();
    loop {
        let current = store::find(&app.pool, &app.sealer, &spec.name).await?;
        let is_other = expected.is_some() && expected != current.as_ref().map(|it| it.version);
        if is_other || exists.is_some_and(|exists| exists != current.is_some()) {
            return Err(outdated());
        }
        let is_new = current.is_none();
        // `None` after a concurrent change: read again.
        if let Some(stored) = write(app, caller, current, spec.clone(), secrets.clone()).await? {
            changed(app, caller, &spec.name, if is_new { "made" } else { "replaced" }).await?;
            return Ok((stored, is_new));
        }
    }
}

/// Changes the given fields. 412 if `expected` is not its version.
pub async fn patch(app: &App, caller: &Caller, name: &str, fields: &Fields, expected: Option<i64>) -> Result<JobType> {
    caller.require(Scope::Admin)?;
    step_up::require(app, caller).await?;
    loop {
        let current = store::find(&app.pool, &app.sealer, name).await?.ok_or_else(missing)?;
        if expected.is_some_and(|version| version != current.version) {
            return Err(outdated());
        }
        let spec = merged(&current, fields)?;
        check(app, &spec)?;
        let secrets = patched_secrets(&current, stored_secrets(app, name).await?, &spec, fields)?;
        if let Some(stored) = write(app, caller, Some(current), spec, secrets).await? {
            changed(app, caller, name, "changed").await?;
            return Ok(stored);
        }
    }
}

/// Returns the stored secrets of a type's executor.
async fn stored_secrets(app: &App, name: &str) -> Result<PushSecrets> {
    let stored = store::secrets(&app.pool, name).await?;
    open_push(&app.sealer, stored.as_deref()).map_err(|error| Error::Broken(error.to_string()))
}

/// Writes a type over the version that was read, or a new one, with an audit entry. `None` after a concurrent change.
async fn write(
    app: &App,
    caller: &Caller,
    before: Option<JobType>,
    spec: JobTypeSpec,
    secrets: PushSecrets,
) -> Result<Option<JobType>> {
    let (pool, by, sealer) = (app.pool.clone(), caller.clone(), app.sealer.clone());
    let stored_secrets = match &before {
        Some(before) => stored_secrets(app, &before.name).await?,
        None => PushSecrets::default(),
    };
    in_task("writing a job type", async move {
        let mut tx = engine::store::begin(&pool).await?;
        let (stored, action) = match &before {
            Some(before) => {
                (store::replace(&mut *tx, &sealer, &spec, &secrets, before.version).await?, "job_type.change")
            }
            None => (store::insert(&mut *tx, &sealer, &spec).await?, "job_type.create"),
        };
        if let Some(stored) = &stored {
            let before = before.as_ref().map(|before| (before, &stored_secrets));
            log::record(&mut tx, &entry(&by, action, before, Some((stored, &secrets)))).await?;
        }
        engine::store::commit(tx).await?;
        Ok(stored)
    })
    .await
}

/// Audit entry of a change of a type.
fn entry(
    by: &Caller,
    action: &'static str,
    before: Option<(&JobType, &PushSecrets)>,
    after: Option<(&JobType, &PushSecrets)>,
) -> AuditRow {
    let name = after.or(before).map(|it| it.0.name.as_str()).unwrap_or_default();
    AuditRow::by(by, action).with_detail(format!("{name}: {}", changes::between(before, after)))
}

/// Pauses or resumes a type; idempotent.
pub async fn set_paused(
    app: &App,
    caller: &Caller,
    name: &str,
    paused: bool,
    reason: Option<String>,
) -> Result<JobType> {
    caller.require(Scope::Admin)?;
    let (pool, by, paused_type) = (app.pool.clone(), caller.clone(), name.to_owned());
    in_task("pausing a job type", async move {
        let mut tx = engine::store::begin(&pool).await?;
        let changed = store::set_paused(&mut *tx, &paused_type, paused).await?.ok_or_else(missing)?;
        if changed {
            let action = if paused { "job_type.pause" } else { "job_type.resume" };
            let row = AuditRow { reason, ..AuditRow::by(&by, action).with_detail(paused_type) };
            log::record(&mut tx, &row).await?;
        }
        Ok(engine::store::commit(tx).await?)
    })
    .await?;
    changed(app, caller, name, if paused { "paused" } else { "resumed" }).await?;
    get(app, name).await
}

/// Deletes a type. 409 `job_type_in_use` while jobs use it.
pub async fn delete(app: &App, caller: &Caller, name: &str, expected: Option<i64>) -> Result<()> {
    caller.require(Scope::Admin)?;
    step_up::require(app, caller).await?;
    let (pool, row) = (app.pool.clone(), AuditRow::by(caller, "job_type.delete").with_detail(name));
    let removed_type = name.to_owned();
    let deleted = in_task("removing a job type", async move {
        let mut tx = engine::store::begin(&pool).await?;
        let deleted = store::delete(&mut *tx, &removed_type, expected).await?;
        if deleted == Deleted::Gone {
            log::record(&mut tx, &row).await?;
            engine::store::commit(tx).await?;
        }
        Ok(deleted)
    })
    .await?;
    match deleted {
        Deleted::Gone => changed(app, caller, name, "removed").await,
        Deleted::InUse => Err(Error::refuse(Code::JobTypeInUse, "Jobs of this type exist. Pause it instead.")),
        Deleted::NotThere if store::find(&app.pool, &app.sealer, name).await?.is_some() => Err(outdated()),
        Deleted::NotThere => Err(missing()),
    }
}

/// Returns the type with some fields replaced. `null` is a value, because it is meaningful (`retain_seconds`); within
/// `backoff`, absent fields are kept.
fn merged(current: &JobType, fields: &Fields) -> Result<JobTypeSpec> {
    let mut whole = fields_of(&Document::of(current))?;
    for server_made in ["created_at", "updated_at", "version"] {
        whole.remove(server_made);
    }
    // A budget that is not given follows a new delivery.
    if fields.get("delivery").is_some_and(|new| whole.get("delivery").is_none_or(|old| old.get() != new.get())) {
        whole.remove("max_failures");
    }
    for (name, value) in fields {
        let value = match (name.as_str(), whole.get("backoff")) {
            ("backoff", Some(old)) if value.get().starts_with('{') => {
                let mut backoff = fields_of(&Document::trusted(old.get().to_owned()))?;
                backoff.extend(fields_of(&Document::trusted(value.get().to_owned()))?);
                Document::of(&backoff).text().to_owned()
            }
            _ => value.get().to_owned(),
        };
        whole.insert(name.clone(), RawValue::from_string(value).map_err(|e| Error::Broken(e.to_string()))?);
    }
    let spec: JobTypeSpec = crate::json_body::read(Document::of(&whole).text().as_bytes())?;
    if spec.name != current.name {
        return Err(renamed());
    }
    Ok(spec)
}

/// Secrets of the executor after a PATCH: absent ones are kept, because clients cannot read them to send them again.
/// For another host they are dropped, because anyone who may change the URL could read them there.
fn patched_secrets(before: &JobType, stored: PushSecrets, spec: &JobTypeSpec, fields: &Fields) -> Result<PushSecrets> {
    let Some(given) = fields.get("executor") else { return Ok(stored) };
    let (_, mut secrets) = spec.executor.split_secrets();
    if spec.executor.kind != ExecutorKind::Push {
        return Ok(secrets);
    }
    let given = fields_of(&Document::trusted(given.get().to_owned()))?;
    let origin = |url: &Option<String>| url.as_ref().and_then(|url| template::origin(url, &spec.name));
    let moved = origin(&before.executor.url) != origin(&spec.executor.url);
    let mut faults = Vec::new();
    let mut stays = |name: &str, is_there: bool| {
        let stays = is_there && !given.contains_key(name);
        if stays && moved {
            let detail = "expected it again, or null: the URL leads to another host".to_owned();
            faults.push((format!("/executor/{name}"), detail));
        }
        stays
    };
    if stays("auth", stored.auth.is_some()) {
        secrets.auth = stored.auth;
    }
    if stays("headers", stored.headers.is_some()) {
        secrets.headers = stored.headers;
    }
    // It signs and is never sent, so no host learns it.
    if !given.contains_key("secret") {
        secrets.secret = stored.secret;
    }
    if faults.is_empty() { Ok(secrets) } else { Err(Problem::invalid_body(faults).into()) }
}

/// Parses the body of a PUT; `name` may be given by the path only.
pub fn named(name: &str, mut fields: Fields) -> Result<JobTypeSpec> {
    let quoted = Document::of(&name).text().to_owned();
    let quoted = RawValue::from_string(quoted).map_err(|e| Error::Broken(e.to_string()))?;
    fields.entry("name".to_owned()).or_insert(quoted);
    let spec: JobTypeSpec = crate::json_body::read(Document::of(&fields).text().as_bytes())?;
    if spec.name == name { Ok(spec) } else { Err(renamed()) }
}

fn fields_of(object: &Document) -> Result<Fields> {
    serde_json::from_str(object.text()).map_err(|e| Error::Broken(format!("not an object: {e}")))
}

/// 413 if a schema or an example row exceeds the payload limit. Checked before the body is processed.
pub fn check_size(app: &App, spec: &JobTypeSpec) -> Result<()> {
    let limit = app.config.payload_limit.bytes();
    if spec.payload_schema.as_ref().is_some_and(|schema| schema.text().len() > limit) {
        return Err(Error::refuse(Code::TooLarge, format!("/payload_schema: over the limit of {limit} bytes.")));
    }
    let template = spec.import.as_ref().and_then(|import| import.template.as_ref());
    let examples = template.map(|template| template.examples.as_slice()).unwrap_or_default();
    if let Some(place) = examples.iter().position(|example| example.text().len() > limit) {
        let pointer = format!("/import/template/examples/{place}");
        return Err(Error::refuse(Code::TooLarge, format!("{pointer}: over the limit of {limit} bytes.")));
    }
    Ok(())
}

fn check(app: &App, spec: &JobTypeSpec) -> Result<()> {
    check_size(app, spec)?;
    let mut faults = spec.problems();
    match spec.payload_schema.as_ref().map(|schema| heavy(|| Schema::compile(schema.text()))) {
        Some(Err(error @ SchemaError::TooComplex(_))) => return Err(error.problem().into()),
        Some(Err(error @ SchemaError::Invalid(_))) => {
            faults.extend(error.problem().errors.into_iter().map(|fault| (fault.pointer, fault.detail)));
        }
        Some(Ok(_)) | None => {}
    }
    let url = spec.executor.url.as_deref().filter(|_| spec.executor.kind == ExecutorKind::Push);
    let target = url.map(|url| template::check(url, &spec.name));
    if let Some(Err(expected)) = target {
        faults.push(("/executor/url".into(), expected.to_owned()));
    }
    if !faults.is_empty() {
        return Err(Problem::invalid_body(faults).into());
    }
    if let Some(Ok(url)) = target {
        let reach = Reach::of_push(app.config.outbound.push_allow.clone());
        reach.check(url.as_str()).map_err(|problem| Problem {
            errors: vec![FieldProblem { pointer: "/executor/url".to_owned(), detail: problem.detail.clone() }],
            ..problem
        })?;
    }
    Ok(())
}

async fn changed(app: &App, caller: &Caller, name: &str, what: &str) -> Result<()> {
    tracing::info!(job_type = name, by = caller.name, what, "job type");
    app.hub.changed(Topic::Types);
    app.engine.refresh_types().await
}

fn missing() -> Error {
    Problem::not_found("job type").into()
}

fn outdated() -> Error {
    Error::refuse(
        Code::PreconditionFailed,
        "The job type was changed since it was read. Read it again and repeat your change.",
    )
}

fn renamed() -> Error {
    Problem::invalid_body([("/name".to_owned(), "expected the name in the path; a type keeps its name".to_owned())])
        .into()
}
