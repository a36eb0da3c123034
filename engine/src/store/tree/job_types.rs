//! Job types for editing. The engine reads them through `definitions`.

use domain::{
    Document, JobType,
    dispatch::{retry::Backoff, type_limits::TypeLimits},
    item::MaxFailures,
    job_type::{Delivery, JobTypeSpec, PushSecrets},
};
use sqlx::{PgExecutor, PgPool};
use time::OffsetDateTime;

use super::definitions::{read_import, read_limits, whole_executor};
use crate::{
    sealing::{Sealer, stored_secrets::seal_push},
    store::page_range::{NamedPageRange, in_named_order},
};

struct Row {
    name: String,
    delivery: String,
    max_failures: Option<i32>,
    concurrency: Option<i32>,
    limits: Option<String>,
    fair_by: Option<String>,
    backoff_min_seconds: f64,
    backoff_max_seconds: Option<f64>,
    backoff_factor: f64,
    backoff_jitter: bool,
    heartbeat_seconds: f64,
    run_timeout_seconds: Option<f64>,
    steps: Vec<String>,
    retain_seconds: Option<i64>,
    payload_schema: Option<String>,
    executor: String,
    executor_secrets: Option<String>,
    require_idempotency_key: bool,
    paused: bool,
    import: Option<String>,
    created_at: OffsetDateTime,
    updated_at: OffsetDateTime,
    version: i64,
}

impl Row {
    /// The type with its whole URL; without any other secret.
    fn job_type(self, sealer: &Sealer) -> JobType {
        let row = self;
        let (executor, _) = whole_executor(sealer, &row.name, &row.executor, row.executor_secrets.as_deref());
        let limits = read_limits(row.limits.as_deref());
        JobType {
            name: row.name,
            delivery: Delivery::parse(&row.delivery).unwrap_or_default(),
            max_failures: MaxFailures::from_stored(row.max_failures),
            concurrency: row.concurrency,
            rate_limit: limits.rate_limit,
            concurrency_by: limits.concurrency_by,
            fair_by: row.fair_by,
            backoff: Backoff {
                min_seconds: row.backoff_min_seconds,
                max_seconds: row.backoff_max_seconds,
                factor: row.backoff_factor,
                jitter: row.backoff_jitter,
            },
            heartbeat_seconds: row.heartbeat_seconds,
            run_timeout_seconds: row.run_timeout_seconds,
            steps: row.steps,
            retain_seconds: row.retain_seconds,
            payload_schema: row.payload_schema.map(Document::trusted),
            executor,
            require_idempotency_key: row.require_idempotency_key,
            paused: row.paused,
            import: read_import(row.import.as_deref()),
            created_at: row.created_at.into(),
            updated_at: row.updated_at.into(),
            version: row.version,
        }
    }
}

fn write_import(spec: &JobTypeSpec) -> Option<String> {
    spec.import.as_ref().map(|import| Document::of(import).text().to_owned())
}

fn write_limits(limits: &TypeLimits) -> Option<String> {
    (!limits.is_empty()).then(|| Document::of(limits).text().to_owned())
}

/// The type of this name.
pub async fn find(pool: &PgPool, sealer: &Sealer, name: &str) -> sqlx::Result<Option<JobType>> {
    let row = sqlx::query_as!(
        Row,
        "select name, delivery, max_failures, concurrency, limits, fair_by, backoff_min_seconds, backoff_max_seconds,
           backoff_factor, backoff_jitter, heartbeat_seconds, run_timeout_seconds, steps, retain_seconds,
           payload_schema, executor, executor_secrets, require_idempotency_key, paused, import, created_at, updated_at,
           version
         from job_type where name = $1",
        name
    )
    .fetch_optional(pool)
    .await?;
    Ok(row.map(|row| row.job_type(sealer)))
}

/// A page of the list of types.
pub async fn list(pool: &PgPool, sealer: &Sealer, part: &NamedPageRange) -> sqlx::Result<Vec<JobType>> {
    let (at, name) = part.place();
    macro_rules! listed {
        ($behind:tt, $order:tt) => {
            sqlx::query_as!(
                Row,
                "select name, delivery, max_failures, concurrency, limits, fair_by, backoff_min_seconds, backoff_max_seconds,
                   backoff_factor, backoff_jitter, heartbeat_seconds, run_timeout_seconds, steps, retain_seconds,
                   payload_schema, executor, executor_secrets, require_idempotency_key, paused, import, created_at,
                   updated_at, version
                 from job_type where "
                    + $behind
                    + " order by "
                    + $order
                    + " limit $3",
                at,
                name,
                part.limit
            )
            .fetch_all(pool)
            .await?
        };
    }
    let rows = in_named_order!(part.order, listed);
    Ok(rows.into_iter().map(|row| row.job_type(sealer)).collect())
}

/// Creates a type. `None` if the name is taken.
pub async fn insert(on: impl PgExecutor<'_>, sealer: &Sealer, spec: &JobTypeSpec) -> sqlx::Result<Option<JobType>> {
    let (executor, secrets) = spec.executor.split_secrets();
    let executor = Document::of(&executor);
    let row = sqlx::query_as!(
        Row,
        "insert into job_type (name, delivery, max_failures, concurrency, backoff_min_seconds, backoff_max_seconds,
           backoff_factor, backoff_jitter, heartbeat_seconds, run_timeout_seconds, steps, retain_seconds,
           payload_schema, executor, require_idempotency_key, paused, executor_secrets, import, limits,
           fair_by)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)
         on conflict on constraint job_type_name do nothing
         returning name, delivery, max_failures, concurrency, limits, fair_by, backoff_min_seconds, backoff_max_seconds,
           backoff_factor, backoff_jitter, heartbeat_seconds, run_timeout_seconds, steps, retain_seconds,
           payload_schema, executor, executor_secrets, require_idempotency_key, paused, import, created_at, updated_at,
           version",
        spec.name,
        spec.delivery.as_str(),
        spec.max_failures().to_stored(),
        spec.concurrency,
        spec.backoff.min_seconds,
        spec.backoff.max_seconds,
        spec.backoff.factor,
        spec.backoff.jitter,
        spec.heartbeat_seconds,
        spec.run_timeout_seconds,
        &spec.steps,
        spec.retain_seconds,
        spec.payload_schema.as_ref().map(Document::text),
        executor.text(),
        spec.require_idempotency_key,
        spec.paused,
        seal_push(sealer, &secrets),
        write_import(spec),
        write_limits(&spec.limits()),
        spec.fair_by
    )
    .fetch_optional(on)
    .await?;
    Ok(row.map(|row| row.job_type(sealer)))
}

/// Replaces a type that still has this version. `None` if it has another version or does not exist.
pub async fn replace(
    on: impl PgExecutor<'_>,
    sealer: &Sealer,
    spec: &JobTypeSpec,
    secrets: &PushSecrets,
    version: i64,
) -> sqlx::Result<Option<JobType>> {
    let (executor, _) = spec.executor.split_secrets();
    let executor = Document::of(&executor);
    let row = sqlx::query_as!(
        Row,
        "update job_type
         set delivery = $2, max_failures = $3, concurrency = $4, backoff_min_seconds = $5, backoff_max_seconds = $6,
           backoff_factor = $7, backoff_jitter = $8, heartbeat_seconds = $9, run_timeout_seconds = $10, steps = $11,
           retain_seconds = $12, payload_schema = $13, executor = $14, require_idempotency_key = $15, paused = $16,
           executor_secrets = $18, import = $19, limits = $20, fair_by = $21, updated_at = clock_timestamp(), version = version + 1
         where name = $1 and version = $17
         returning name, delivery, max_failures, concurrency, limits, fair_by, backoff_min_seconds, backoff_max_seconds,
           backoff_factor, backoff_jitter, heartbeat_seconds, run_timeout_seconds, steps, retain_seconds,
           payload_schema, executor, executor_secrets, require_idempotency_key, paused, import, created_at, updated_at,
           version",
        spec.name,
        spec.delivery.as_str(),
        spec.max_failures().to_stored(),
        spec.concurrency,
        spec.backoff.min_seconds,
        spec.backoff.max_seconds,
        spec.backoff.factor,
        spec.backoff.jitter,
        spec.heartbeat_seconds,
        spec.run_timeout_seconds,
        &spec.steps,
        spec.retain_seconds,
        spec.payload_schema.as_ref().map(Document::text),
        executor.text(),
        spec.require_idempotency_key,
        spec.paused,
        version,
        seal_push(sealer, secrets),
        write_import(spec),
        write_limits(&spec.limits()),
        spec.fair_by
    )
    .fetch_optional(on)
    .await?;
    Ok(row.map(|row| row.job_type(sealer)))
}

/// Secrets that a type's executor sends, sealed.
pub async fn secrets(pool: &PgPool, name: &str) -> sqlx::Result<Option<String>> {
    let text = sqlx::query_scalar!("select executor_secrets from job_type where name = $1", name);
    Ok(text.fetch_optional(pool).await?.flatten())
}

/// Pauses or resumes a type; idempotent, without a new version. Returns whether it changed; `None` if it does not
/// exist.
pub async fn set_paused(on: impl PgExecutor<'_>, name: &str, paused: bool) -> sqlx::Result<Option<bool>> {
    sqlx::query_scalar!(
        r#"update job_type
           set paused = $2,
             version = job_type.version + (job_type.paused <> $2)::int,
             updated_at = case when job_type.paused <> $2 then clock_timestamp() else job_type.updated_at end
           from (select name, paused from job_type where name = $1 for update) before
           where job_type.name = before.name
           returning before.paused <> $2 as "changed!""#,
        name,
        paused
    )
    .fetch_optional(on)
    .await
}

/// Result of [`delete`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    Gone,
    /// It does not exist or has another version.
    NotThere,
    /// Jobs refer to it.
    InUse,
}

/// Deletes a type without jobs, with the states and charts of its error groups; if `version` is given, only that version.
pub async fn delete(on: impl PgExecutor<'_>, name: &str, version: Option<i64>) -> sqlx::Result<Deleted> {
    let done = sqlx::query!(
        "with gone as (delete from job_type where name = $1 and version = coalesce($2, version) returning id),
           decisions as (delete from error_decision d using gone where d.type_id = gone.id),
           changes as (delete from error_change c using gone where c.type_id = gone.id),
           history as (delete from error_history h using gone where h.type_id = gone.id)
         select id from gone",
        name,
        version
    )
    .fetch_optional(on)
    .await;
    match done {
        Ok(Some(_)) => Ok(Deleted::Gone),
        Ok(None) => Ok(Deleted::NotThere),
        Err(sqlx::Error::Database(e)) if e.is_foreign_key_violation() => Ok(Deleted::InUse),
        Err(other) => Err(other),
    }
}
