//! Definitions that the engine needs: of every job type (live, read again every second) and of a job (frozen at its
//! creation).

use domain::{
    dispatch::{retry::Backoff, traceparent::Traceparent, type_limits::TypeLimits},
    fair_by::FairBy,
    import::settings::ImportSettings,
    item::MaxFailures,
    job_type::{Delivery, Executor, PushSecrets},
};
use sqlx::PgPool;
use uuid::Uuid;

use super::jobs::{FrozenSettings, NewJobRow};
use crate::sealing::{Sealer, stored_secrets::open_push};

/// A job type as claims and failures see it now.
#[derive(Clone, Debug)]
pub struct TypeInfo {
    pub id: i32,
    pub name: String,
    pub delivery: Delivery,
    pub max_failures: MaxFailures,
    pub concurrency: Option<i32>,
    pub limits: TypeLimits,
    pub fair_by: FairBy,
    pub backoff: Backoff,
    pub heartbeat_seconds: f64,
    pub run_timeout_seconds: Option<f64>,
    pub steps: Vec<String>,
    pub retain_seconds: Option<i64>,
    pub payload_schema: Option<String>,
    pub executor: Executor,
    /// Secrets that are sent with push requests and that no API returns.
    pub secrets: PushSecrets,
    pub paused: bool,
    pub import: ImportSettings,
}

impl TypeInfo {
    /// True if workers claim its items.
    pub fn is_pulled(&self) -> bool {
        self.executor.kind == domain::job_type::ExecutorKind::Pull
    }
}

/// Every job type. A type whose secrets cannot be opened has no URL, because its requests would be incomplete.
pub async fn types(pool: &PgPool, sealer: &Sealer) -> Result<Vec<TypeInfo>, sqlx::Error> {
    let rows = sqlx::query!(
        "select id, name, delivery, max_failures, concurrency, limits, fair_by, backoff_min_seconds, backoff_max_seconds,
           backoff_factor, backoff_jitter, heartbeat_seconds, run_timeout_seconds, steps, retain_seconds,
           payload_schema, executor, executor_secrets, paused, import
         from job_type"
    )
    .fetch_all(pool)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| {
            let (executor, secrets) = whole_executor(sealer, &row.name, &row.executor, row.executor_secrets.as_deref());
            (row, executor, secrets)
        })
        .map(|(row, executor, secrets)| TypeInfo {
            id: row.id,
            name: row.name,
            delivery: Delivery::parse(&row.delivery).unwrap_or_default(),
            max_failures: MaxFailures::from_stored(row.max_failures),
            concurrency: row.concurrency,
            limits: read_limits(row.limits.as_deref()),
            fair_by: row.fair_by.as_deref().and_then(FairBy::parse).unwrap_or_default(),
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
            payload_schema: row.payload_schema,
            executor,
            secrets,
            paused: row.paused,
            import: read_import(row.import.as_deref()).unwrap_or_default(),
        })
        .collect())
}

/// Stored import settings. Unreadable settings disable imports.
pub(crate) fn read_import(text: Option<&str>) -> Option<ImportSettings> {
    let closed = || ImportSettings { enabled: false, ..ImportSettings::default() };
    text.map(|text| serde_json::from_str(text).unwrap_or_else(|_| closed()))
}

/// Stored limits of a type.
pub(crate) fn read_limits(text: Option<&str>) -> TypeLimits {
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// An executor with its complete URL, and the secrets of its requests.
pub(crate) fn whole_executor(
    sealer: &Sealer,
    name: &str,
    executor: &str,
    secrets: Option<&str>,
) -> (Executor, PushSecrets) {
    let mut executor: Executor = serde_json::from_str(executor).unwrap_or_default();
    match open_push(sealer, secrets) {
        Ok(mut secrets) => {
            executor.url = secrets.url.take().or(executor.url);
            (executor, secrets)
        }
        Err(error) => {
            tracing::error!(job_type = name, %error, "cannot open the secrets of a job type: its items are not posted");
            (Executor { url: None, ..executor }, PushSecrets::default())
        }
    }
}

/// A job as adding, claiming and ending see it.
#[derive(Clone, Debug)]
pub struct JobInfo {
    pub job_key: i64,
    pub fair_turn_job_key: i64,
    pub job_id: Uuid,
    pub root_id: Uuid,
    pub owner_id: Uuid,
    pub type_id: i32,
    pub type_name: String,
    pub delivery: Delivery,
    pub max_failures: MaxFailures,
    pub steps: Vec<String>,
    pub payload_schema: Option<String>,
    pub priority: i16,
    pub run_after: Option<time::OffsetDateTime>,
    pub expires_at: Option<time::OffsetDateTime>,
    /// True for a tree of one job: nothing feeds it and nothing waits for it.
    pub solo: bool,
    /// It receives items from its parent and is sealed by the engine (`feeding`).
    pub fed: bool,
    /// It waits for other jobs of its tree (`after`).
    pub waits: bool,
    /// Trace context of the request that created it.
    pub traceparent: Option<Traceparent>,
}

struct JobRow {
    job_key: i64,
    fair_turn_job_key: i64,
    id: Uuid,
    root_id: Uuid,
    owner_id: Uuid,
    type_id: i32,
    type_name: String,
    delivery: String,
    max_failures: Option<i32>,
    steps: Vec<String>,
    payload_schema: Option<String>,
    priority: i16,
    run_after: Option<time::OffsetDateTime>,
    expires_at: Option<time::OffsetDateTime>,
    solo: bool,
    fed: bool,
    waits: bool,
    traceparent: Option<String>,
}

impl From<JobRow> for JobInfo {
    fn from(row: JobRow) -> Self {
        Self {
            job_key: row.job_key,
            fair_turn_job_key: row.fair_turn_job_key,
            job_id: row.id,
            root_id: row.root_id,
            owner_id: row.owner_id,
            type_id: row.type_id,
            type_name: row.type_name,
            delivery: Delivery::parse(&row.delivery).unwrap_or_default(),
            max_failures: MaxFailures::from_stored(row.max_failures),
            steps: row.steps,
            payload_schema: row.payload_schema,
            priority: row.priority,
            run_after: row.run_after,
            expires_at: row.expires_at,
            solo: row.solo,
            fed: row.fed,
            waits: row.waits,
            traceparent: row.traceparent.as_deref().and_then(|text| text.parse().ok()),
        }
    }
}

impl JobInfo {
    /// A job from its new row.
    pub fn written(row: &NewJobRow, frozen: FrozenSettings, type_name: String, solo: bool) -> Self {
        Self {
            job_key: row.job_key,
            fair_turn_job_key: row.fair_turn_job_key,
            job_id: row.id,
            root_id: row.root_id,
            owner_id: row.owner_id,
            type_id: row.type_id,
            type_name,
            delivery: Delivery::parse(&frozen.delivery).unwrap_or_default(),
            max_failures: MaxFailures::from_stored(row.max_failures),
            steps: frozen.steps,
            payload_schema: frozen.payload_schema,
            priority: row.priority,
            run_after: row.run_after,
            expires_at: row.expires_at,
            solo,
            fed: row.feed.is_some(),
            waits: !row.after.is_empty(),
            traceparent: row.traceparent.as_deref().and_then(|text| text.parse().ok()),
        }
    }
}

/// Jobs by their keys.
pub async fn jobs_by_key(executor: impl sqlx::PgExecutor<'_>, job_keys: &[i64]) -> Result<Vec<JobInfo>, sqlx::Error> {
    let rows = sqlx::query_as!(
        JobRow,
        r#"select job_key, fair_turn_job_key, j.id, root_id, owner_id, type_id, t.name as type_name, j.delivery,
             j.max_failures, j.steps, j.payload_schema, priority, run_after, expires_at,
             (select g.solo from job_state g where g.job_key = j.job_key) as "solo!",
             feed is not null as "fed!", cardinality(after) > 0 as "waits!", traceparent
           from job j join job_type t on t.id = j.type_id where job_key = any($1::bigint[])"#,
        job_keys
    )
    .fetch_all(executor)
    .await?;
    Ok(rows.into_iter().map(JobInfo::from).collect())
}

/// One job by its id.
pub async fn job_by_id(pool: &PgPool, id: Uuid) -> Result<Option<JobInfo>, sqlx::Error> {
    let row = sqlx::query_as!(
        JobRow,
        r#"select job_key, fair_turn_job_key, j.id, root_id, owner_id, type_id, t.name as type_name, j.delivery,
             j.max_failures, j.steps, j.payload_schema, priority, run_after, expires_at,
             (select g.solo from job_state g where g.job_key = j.job_key) as "solo!",
             feed is not null as "fed!", cardinality(after) > 0 as "waits!", traceparent
           from job j join job_type t on t.id = j.type_id where j.id = $1"#,
        id
    )
    .fetch_optional(pool)
    .await?;
    Ok(row.map(JobInfo::from))
}

/// Owners of these jobs; deleted jobs are missing.
pub async fn owners_of(pool: &PgPool, ids: &[Uuid]) -> Result<Vec<(Uuid, Uuid)>, sqlx::Error> {
    let rows = sqlx::query!("select id, owner_id from job where id = any($1::uuid[])", ids).fetch_all(pool).await?;
    Ok(rows.into_iter().map(|row| (row.id, row.owner_id)).collect())
}

/// A job of a tree with its dependencies.
#[derive(Clone, Debug)]
pub struct PlanRow {
    pub root_id: Uuid,
    pub job_key: i64,
    pub job_id: Uuid,
    pub parent_id: Option<Uuid>,
    pub key: String,
    pub feed: Option<String>,
    pub after: Vec<String>,
    pub after_outcome: Option<String>,
}

/// Every job of these trees, each root before the other jobs of its tree. Fixed at creation.
pub async fn plans(executor: impl sqlx::PgExecutor<'_>, root_ids: &[Uuid]) -> Result<Vec<PlanRow>, sqlx::Error> {
    sqlx::query_as!(
        PlanRow,
        "select root_id, job_key, id as job_id, parent_id, key, feed, after, after_outcome
         from job where root_id = any($1::uuid[]) order by root_id, ord",
        root_ids
    )
    .fetch_all(executor)
    .await
}
