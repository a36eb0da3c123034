//! What pages and the API show of jobs: definitions beside their gates. Nothing here counts rows.

use domain::{Counts, Document, Time, item::MaxFailures, job::OwnerKind};
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

/// A job and its gate, as stored.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "a row of the table has its columns")]
pub struct JobView {
    pub id: Uuid,
    pub root_id: Uuid,
    pub parent_id: Option<Uuid>,
    pub gate_id: i64,
    pub key: String,
    pub job_type: String,
    pub name: Option<String>,
    pub owner_id: Uuid,
    pub owner_kind: String,
    pub owner_name: String,
    pub max_failures: Option<i32>,
    pub priority: i16,
    pub run_after: Option<OffsetDateTime>,
    pub expires_at: Option<OffsetDateTime>,
    pub expected_count: Option<i64>,
    pub final_stage: bool,
    pub feed: Option<String>,
    pub after: Vec<String>,
    pub metadata: String,
    pub dedupe_key: Option<String>,
    pub initiated_by: Option<String>,
    pub upload_id: Option<Uuid>,
    pub replay_of: Option<Uuid>,
    pub superseded_by: Option<Uuid>,
    pub created_at: OffsetDateTime,
    pub sealed: bool,
    pub cancelled: bool,
    pub available: i64,
    pub running: i64,
    pub retryable: i64,
    pub scheduled: i64,
    pub blocked: i64,
    pub succeeded: i64,
    pub dead: i64,
    pub n_cancelled: i64,
    pub expired: i64,
    pub version: i64,
    pub started_at: Option<OffsetDateTime>,
    pub completed_at: Option<OffsetDateTime>,
    pub completion: i32,
    pub updated_at: OffsetDateTime,
    pub keep: bool,
    pub tree_completed_at: Option<OffsetDateTime>,
}

impl JobView {
    pub fn counts(&self) -> Counts {
        Counts {
            available: self.available,
            running: self.running,
            retryable: self.retryable,
            scheduled: self.scheduled,
            blocked: self.blocked,
            succeeded: self.succeeded,
            dead: self.dead,
            cancelled: self.n_cancelled,
            expired: self.expired,
        }
    }

    pub fn owner(&self) -> domain::job::Owner {
        let kind = if self.owner_kind == "user" { OwnerKind::User } else { OwnerKind::Service };
        domain::job::Owner { kind, name: self.owner_name.clone() }
    }

    pub fn max_failures(&self) -> MaxFailures {
        MaxFailures::from_stored(self.max_failures)
    }

    pub fn metadata(&self) -> Document {
        Document::trusted(self.metadata.clone())
    }
}

/// Every job of these trees, parents first within each.
pub async fn of_roots(pool: &PgPool, root_ids: &[Uuid]) -> Result<Vec<JobView>, sqlx::Error> {
    sqlx::query_as!(
        JobView,
        r#"select j.id, j.root_id, j.parent_id, j.gate_id, j.key, t.name as job_type, j.name, j.owner_id,
             o.kind as owner_kind, o.name as owner_name, j.max_failures, j.priority, j.run_after, j.expires_at,
             j.expected_count, j.final_stage, j.feed, j.after, j.metadata, j.dedupe_key, j.initiated_by,
             j.upload_id, j.replay_of, j.superseded_by, j.created_at,
             g.sealed, g.cancelled_at is not null as "cancelled!", g.n_available as available,
             g.n_running as running, g.n_retryable as retryable, g.n_scheduled as scheduled,
             g.n_blocked as blocked, g.n_succeeded as succeeded, g.n_dead as dead, g.n_cancelled,
             g.n_expired as expired, g.version, g.started_at, g.completed_at, g.completion, g.updated_at, g.keep,
             g.tree_completed_at
           from job j
           join gate g on g.gate_id = j.gate_id
           join job_type t on t.id = j.type_id
           join owner o on o.id = j.owner_id
           where j.root_id = any($1::uuid[]) and g.removed_at is null
           order by j.root_id, j.ord"#,
        root_ids
    )
    .fetch_all(pool)
    .await
}

/// Filters of a list of jobs that the store looks at itself.
#[derive(Clone, Debug, Default)]
pub struct JobQuery {
    pub owner_id: Option<Uuid>,
    /// Below this gate id; the newest first.
    pub before: Option<i64>,
    /// How many to look at.
    pub limit: i64,
    pub roots_only: bool,
    /// Only jobs that were made of a file.
    pub uploads_only: bool,
    pub root_id: Option<Uuid>,
    pub parent_id: Option<Uuid>,
    pub job_type: Option<String>,
    pub owner_name: Option<String>,
    pub initiated_by: Option<String>,
    /// Part of a name, key or metadata, already escaped for `like`.
    pub text: Option<String>,
    pub created_after: Option<OffsetDateTime>,
    pub created_before: Option<OffsetDateTime>,
    /// 1 succeeded, 2 partial, 3 failed, 4 cancelled: of the tree.
    pub outcome: Option<i16>,
    /// `waiting`, `running`, `cancelling` or `completed`: of the tree.
    pub status: Option<String>,
}

/// Rows one page may look at.
pub const LOOK_AT: i64 = 20_000;

/// What a list found: (gate, job, root), and how far it looked.
pub struct Found {
    pub jobs: Vec<(i64, Uuid, Uuid)>,
    /// The last gate looked at, when there may be more behind it.
    pub looked_to: Option<i64>,
}

/// Jobs that match, newest first, looking at no more than [`LOOK_AT`] rows. The inner limit is lazy:
/// a page that fills early looks no further.
pub async fn list(pool: &PgPool, query: &JobQuery) -> Result<Found, sqlx::Error> {
    let rows = sqlx::query!(
        r#"select s.gate_id, s.id, s.root_id
           from (
             select j.gate_id, j.id, j.root_id, j.parent_id, j.type_id, j.owner_id, j.name, j.key, j.metadata,
               j.initiated_by, j.created_at
             from job j
             where ($1::bigint is null or j.gate_id < $1)
               and ($2::uuid is null or j.owner_id = $2)
               and (not $3::bool or j.parent_id is null)
               and ($4::uuid is null or j.root_id = $4)
               and ($5::uuid is null or j.parent_id = $5)
               and (not $16::bool or j.upload_id is not null)
             order by j.gate_id desc limit $6) s
           join gate g on g.gate_id = s.gate_id
           where g.removed_at is null
             and ($7::text is null or s.type_id = (select t.id from job_type t where t.name = $7))
             and ($8::text is null or s.owner_id in (select o.id from owner o where o.name = $8))
             and ($9::text is null or s.initiated_by = $9)
             and ($10::text is null or s.name ilike $10 or s.key ilike $10 or s.metadata ilike $10)
             and ($11::timestamptz is null or s.created_at > $11)
             and ($12::timestamptz is null or s.created_at < $12)
             and ($13::smallint is null or g.tree_outcome = $13)
             and ($14::text is null or $14 = case
               when g.tree_completed_at is not null or (s.parent_id is not null and g.completed_at is not null)
                 then 'completed'
               when g.cancelled_at is not null then 'cancelling'
               when g.started_at is not null or g.n_running + g.n_succeeded + g.n_dead + g.n_cancelled + g.n_expired > 0
                 or exists (select 1 from gate b where s.parent_id is null and b.root_id = s.root_id
                            and (b.started_at is not null or b.n_succeeded + b.n_dead + b.n_cancelled + b.n_expired > 0))
                 then 'running'
               else 'waiting' end)
           order by s.gate_id desc limit $15"#,
        query.before,
        query.owner_id,
        query.roots_only,
        query.root_id,
        query.parent_id,
        LOOK_AT,
        query.job_type,
        query.owner_name,
        query.initiated_by,
        query.text,
        query.created_after,
        query.created_before,
        query.outcome,
        query.status,
        query.limit,
        query.uploads_only,
    )
    .fetch_all(pool)
    .await?;
    let jobs: Vec<_> = rows.into_iter().map(|row| (row.gate_id, row.id, row.root_id)).collect();
    let looked_to = if (jobs.len() as i64) < query.limit { looked_to(pool, query).await? } else { None };
    Ok(Found { jobs, looked_to })
}

/// The last row that a short page has looked at, when it stopped for having looked at enough.
async fn looked_to(pool: &PgPool, query: &JobQuery) -> Result<Option<i64>, sqlx::Error> {
    sqlx::query_scalar!(
        "select j.gate_id from job j
         where ($1::bigint is null or j.gate_id < $1)
           and ($2::uuid is null or j.owner_id = $2)
           and (not $3::bool or j.parent_id is null)
           and ($4::uuid is null or j.root_id = $4)
           and ($5::uuid is null or j.parent_id = $5)
           and (not $7::bool or j.upload_id is not null)
         order by j.gate_id desc offset $6 limit 1",
        query.before,
        query.owner_id,
        query.roots_only,
        query.root_id,
        query.parent_id,
        LOOK_AT - 1,
        query.uploads_only
    )
    .fetch_optional(pool)
    .await
}

/// Groups of dead items of these jobs, the largest first.
pub async fn error_groups(
    pool: &PgPool,
    gate_ids: &[i64],
    limit: i64,
) -> Result<Vec<domain::api::ErrorGroup>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"select e.fingerprint, e.message, e.kind, t.name as job_type, e.n_dead, e.first_seen_at, e.last_seen_at,
             e.sample_item_id
           from error_group e
           join job j on j.gate_id = e.gate_id
           join job_type t on t.id = j.type_id
           where e.gate_id = any($1::bigint[]) and e.n_dead > 0
           order by e.n_dead desc, e.first_seen_at limit $2"#,
        gate_ids,
        limit
    )
    .fetch_all(pool)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| domain::api::ErrorGroup {
            fingerprint: row.fingerprint,
            message: row.message,
            kind: row.kind,
            job_type: row.job_type,
            count: row.n_dead,
            first_seen_at: Time(row.first_seen_at),
            last_seen_at: Time(row.last_seen_at),
            sample_item_id: row.sample_item_id,
        })
        .collect())
}
