//! Views of jobs for pages and the API: definitions with their job state rows. Nothing here counts rows.

use domain::{Counts, Document, Time, api::GroupState, item::MaxFailures, job::OwnerKind};
use sqlx::{PgExecutor, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

/// A job and its job state row, as stored.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "a row of the table has its columns")]
pub struct JobView {
    pub id: Uuid,
    pub root_id: Uuid,
    pub parent_id: Option<Uuid>,
    pub job_key: i64,
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
    /// Of a root: the Idempotency-Key of the request that created it, as long as it is stored.
    pub idempotency_key: Option<String>,
    pub initiated_by: Option<String>,
    pub upload_id: Option<Uuid>,
    pub replay_of: Option<Uuid>,
    pub superseded_by: Option<Uuid>,
    pub created_at: OffsetDateTime,
    pub sealed: bool,
    pub cancelled: bool,
    /// Number of incomplete jobs that it waits for.
    pub after_open: i32,
    pub available: i64,
    pub running: i64,
    pub retryable: i64,
    pub scheduled: i64,
    pub blocked: i64,
    pub waiting_for_event: i64,
    pub succeeded: i64,
    pub dead: i64,
    pub n_cancelled: i64,
    pub expired: i64,
    pub n_superseded: i64,
    pub version: i64,
    pub started_at: Option<OffsetDateTime>,
    pub completed_at: Option<OffsetDateTime>,
    pub completion: i32,
    pub updated_at: OffsetDateTime,
    pub pinned: bool,
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
            waiting_for_event: self.waiting_for_event,
            succeeded: self.succeeded,
            dead: self.dead,
            cancelled: self.n_cancelled,
            expired: self.expired,
            superseded: self.n_superseded,
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

/// Names of these jobs, as far as they are stored and of this owner; the key where a job has no name.
pub async fn names(
    executor: impl PgExecutor<'_>,
    ids: &[Uuid],
    owner_id: Option<Uuid>,
) -> Result<Vec<(Uuid, String)>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"select j.id, coalesce(j.name, j.key) as "name!" from unnest($1::uuid[]) as wanted
           cross join lateral (select id, name, key, job_key, owner_id from job where id = wanted offset 0) j
           cross join lateral (select deleted_at from job_state where job_key = j.job_key offset 0) g
           where g.deleted_at is null and ($2::uuid is null or j.owner_id = $2)"#,
        ids,
        owner_id
    )
    .fetch_all(executor)
    .await?;
    Ok(rows.into_iter().map(|row| (row.id, row.name)).collect())
}

/// Every job of these trees, parents first within each.
pub async fn of_roots(executor: impl PgExecutor<'_>, root_ids: &[Uuid]) -> Result<Vec<JobView>, sqlx::Error> {
    sqlx::query_as!(
        JobView,
        r#"select j.id, j.root_id, j.parent_id, j.job_key, j.key, t.name as job_type, j.name, j.owner_id,
             o.kind as owner_kind, o.name as owner_name, j.max_failures, j.priority, j.run_after, j.expires_at,
             j.expected_count, j.final_stage, j.feed, j.after, j.metadata, j.dedupe_key, j.initiated_by,
             case when j.parent_id is null then
               (select i.key from idempotency i where i.job_id = j.id order by i.created_at desc limit 1) end
               as idempotency_key,
             j.upload_id, j.replay_of, j.superseded_by, j.created_at,
             g.sealed, g.cancelled_at is not null as "cancelled!", g.after_open, g.n_available as available,
             g.n_running as running, g.n_retryable as retryable, g.n_scheduled as scheduled,
             g.n_blocked as blocked, g.n_waiting_for_event as waiting_for_event, g.n_succeeded as succeeded, g.n_dead as dead, g.n_cancelled,
             g.n_expired as expired, g.n_superseded, g.version, g.started_at, g.completed_at, g.completion, g.updated_at,
             g.pinned,
             g.tree_completed_at
           from unnest($1::uuid[]) as root
           -- A look for each: as long as nothing is known of the tables, a join would read all of them.
           cross join lateral (select * from job where root_id = root offset 0) j
           cross join lateral (select * from job_state where job_key = j.job_key offset 0) g
           join job_type t on t.id = j.type_id
           join owner o on o.id = j.owner_id
           where g.deleted_at is null
           order by j.root_id, j.ord"#,
        root_ids
    )
    .fetch_all(executor)
    .await
}

/// Order of groups of dead items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupOrder {
    /// The one in which an item died last comes first.
    #[default]
    Latest,
    LeastRecent,
    /// The one that was first seen last comes first.
    Newest,
    Oldest,
    Largest,
    Smallest,
}

impl GroupOrder {
    /// The order as statements take it.
    const fn word(self) -> &'static str {
        match self {
            Self::Latest => "latest",
            Self::LeastRecent => "least recent",
            Self::Newest => "newest",
            Self::Oldest => "oldest",
            Self::Largest => "largest",
            Self::Smallest => "smallest",
        }
    }
}

/// Filter of groups of dead items; a field that is `None` matches everything.
#[derive(Clone, Debug, Default)]
pub struct GroupQuery {
    pub job_type: Option<String>,
    /// Part of the message, already escaped for `like`.
    pub text: Option<String>,
    pub owner_id: Option<Uuid>,
    pub owner_name: Option<String>,
    pub order: GroupOrder,
    /// Only groups in these states. Muted and resolved groups then include those without dead items.
    pub states: Option<Vec<i16>>,
    pub limit: i64,
}

pub(super) struct GroupRow {
    pub(super) fingerprint: String,
    pub(super) message: String,
    pub(super) kind: Option<String>,
    pub(super) job_type: String,
    pub(super) n_dead: i64,
    pub(super) first_seen_at: OffsetDateTime,
    pub(super) last_seen_at: OffsetDateTime,
    pub(super) sample_item_id: Uuid,
    pub(super) state: i16,
    pub(super) muted_until: Option<OffsetDateTime>,
    pub(super) muted_failures: Option<i64>,
}

impl From<GroupRow> for domain::api::ErrorGroup {
    fn from(row: GroupRow) -> Self {
        Self {
            fingerprint: row.fingerprint,
            message: row.message,
            kind: row.kind,
            job_type: row.job_type,
            count: row.n_dead,
            first_seen_at: Time(row.first_seen_at),
            last_seen_at: Time(row.last_seen_at),
            sample_item_id: row.sample_item_id,
            state: GroupState::from_code(row.state),
            muted_until: row.muted_until.map(Time),
            muted_failures: row.muted_failures,
        }
    }
}

/// Groups of dead items of these jobs. A job has at most a thousand; at most twenty thousand are read.
pub async fn error_groups(
    pool: &PgPool,
    job_keys: &[i64],
    query: &GroupQuery,
) -> Result<Vec<domain::api::ErrorGroup>, sqlx::Error> {
    let rows = sqlx::query_as!(
        GroupRow,
        r#"select e.fingerprint as "fingerprint!", (array_agg(e.message order by e.last_seen_at desc))[1] as "message!",
             (array_agg(e.kind order by e.last_seen_at desc))[1] as "kind?", t.name as "job_type!",
             sum(e.n_dead)::bigint as "n_dead!", min(e.first_seen_at) as "first_seen_at!",
             max(e.last_seen_at) as "last_seen_at!",
             (array_agg(e.sample_item_id order by e.last_seen_at desc))[1] as "sample_item_id!",
             coalesce(d.state, 1::smallint) as "state!", d.mute_until as "muted_until?", d.mute_failures as "muted_failures?"
           from (select * from error_group where job_key = any($1::bigint[]) limit 20000) e
           join job j on j.job_key = e.job_key
           join job_type t on t.id = j.type_id
           left join error_decision r on r.type_id = j.type_id and r.fingerprint = e.fingerprint
           cross join lateral (
             select case when r.mute_until <= (select clock_timestamp()) then 1::smallint else r.state end as state,
               case when r.mute_until > (select clock_timestamp()) then r.mute_until end as mute_until,
               case when r.mute_until <= (select clock_timestamp()) then null else r.mute_failures end as mute_failures) d
           where (e.n_dead > 0 or ($6::smallint[] is not null and d.state in (2, 3)))
             and ($6::smallint[] is null or coalesce(d.state, 1::smallint) = any($6)) and ($3::text is null or t.name = $3) and ($4::text is null or e.message ilike $4)
           group by t.name, e.fingerprint, d.state, d.mute_until, d.mute_failures
           order by case $5::text
               when 'latest' then -extract(epoch from max(e.last_seen_at))
               when 'least recent' then extract(epoch from max(e.last_seen_at))
               when 'newest' then -extract(epoch from min(e.first_seen_at))
               when 'oldest' then extract(epoch from min(e.first_seen_at))
               when 'smallest' then sum(e.n_dead)
               else -sum(e.n_dead) end,
             min(e.first_seen_at), e.fingerprint limit $2"#,
        job_keys,
        query.limit,
        query.job_type,
        query.text,
        query.order.word(),
        query.states.as_deref()
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// Groups over all jobs, of one owner or of all, and the number of dead items of all groups, including those after
/// the limit. Reads the twenty thousand groups that were seen last.
pub async fn owner_groups(
    pool: &PgPool,
    query: &GroupQuery,
) -> Result<(Vec<domain::api::ErrorGroup>, i64), sqlx::Error> {
    let rows = sqlx::query!(
        r#"select e.fingerprint as "fingerprint!", (array_agg(e.message order by e.last_seen_at desc))[1] as "message!",
             (array_agg(e.kind order by e.last_seen_at desc))[1] as "kind?", t.name as "job_type!",
             sum(e.n_dead)::bigint as "n_dead!", min(e.first_seen_at) as "first_seen_at!",
             max(e.last_seen_at) as "last_seen_at!",
             (array_agg(e.sample_item_id order by e.last_seen_at desc))[1] as "sample_item_id!",
             coalesce(d.state, 1::smallint) as "state!", d.mute_until as "muted_until?", d.mute_failures as "muted_failures?",
             (sum(sum(e.n_dead)) over ())::bigint as "all_dead!"
           from (
             (select * from owner_error where $5::uuid is null order by last_seen_at desc limit 20000)
             union all
             (select * from owner_error where owner_id = $5 limit 20000)) e
           join owner o on o.id = e.owner_id
           join job_type t on t.id = e.type_id
           left join error_decision r on r.type_id = e.type_id and r.fingerprint = e.fingerprint
           cross join lateral (
             select case when r.mute_until <= (select clock_timestamp()) then 1::smallint else r.state end as state,
               case when r.mute_until > (select clock_timestamp()) then r.mute_until end as mute_until,
               case when r.mute_until <= (select clock_timestamp()) then null else r.mute_failures end as mute_failures) d
           where (e.n_dead > 0 or ($7::smallint[] is not null and d.state in (2, 3)))
             and ($7::smallint[] is null or coalesce(d.state, 1::smallint) = any($7))
             and ($2::text is null or t.name = $2) and ($3::text is null or e.message ilike $3)
             and ($4::text is null or o.name = $4)
           group by t.name, e.fingerprint, d.state, d.mute_until, d.mute_failures
           order by case $6::text
               when 'latest' then -extract(epoch from max(e.last_seen_at))
               when 'least recent' then extract(epoch from max(e.last_seen_at))
               when 'newest' then -extract(epoch from min(e.first_seen_at))
               when 'oldest' then extract(epoch from min(e.first_seen_at))
               when 'smallest' then sum(e.n_dead)
               else -sum(e.n_dead) end,
             min(e.first_seen_at), e.fingerprint limit $1"#,
        query.limit,
        query.job_type,
        query.text,
        query.owner_name,
        query.owner_id,
        query.order.word(),
        query.states.as_deref()
    )
    .fetch_all(pool)
    .await?;
    let dead = rows.first().map_or(0, |row| row.all_dead);
    let groups = rows.into_iter().map(|row| domain::api::ErrorGroup {
        fingerprint: row.fingerprint,
        message: row.message,
        kind: row.kind,
        job_type: row.job_type,
        count: row.n_dead,
        first_seen_at: Time(row.first_seen_at),
        last_seen_at: Time(row.last_seen_at),
        sample_item_id: row.sample_item_id,
        state: GroupState::from_code(row.state),
        muted_until: row.muted_until.map(Time),
        muted_failures: row.muted_failures,
    });
    Ok((groups.collect(), dead))
}
