//! Roots and the times of their next check: due retention and stalled trees are found without a scan and without an
//! index on the job state rows.
//!
//! Two scans over the roots in order of their keys enter each new tree once; from then on a tree costs nothing until
//! its check is due. `(select clock_timestamp())` is evaluated once; a plain `clock_timestamp()` is volatile, cannot
//! bound an index scan and would be evaluated for every row.

use time::OffsetDateTime;
use uuid::Uuid;

use crate::store::Tx;

/// Roots that one step of a scan enters.
const STEP: i64 = 2_000;

/// Takes one step of a scan: enters the next roots with a check at the time when their retention could first end or
/// they could first be stalled. The second scan stays a minute behind, because job keys do not have the order of
/// commits. Returns the number of roots; `None` if another server is scanning.
pub async fn enter_roots(tx: &mut Tx, scan: i16, stalled_seconds: f64) -> Result<Option<i64>, sqlx::Error> {
    let from =
        sqlx::query_scalar!("select job_key from maintenance_cursor where scan = $1 for update skip locked", scan)
            .fetch_optional(&mut **tx)
            .await?;
    let Some(from) = from else { return Ok(None) };
    let seen = sqlx::query!(
        r#"with roots as materialized (
             select job_key, created_at, retain_seconds from job
             where parent_id is null and job_key > $1 order by job_key limit $2),
           young as (
             select min(job_key) as job_key from roots
             where $3 = 2 and created_at > clock_timestamp() - interval '1 minute'),
           taken as (
             select * from roots where job_key < coalesce((select job_key from young), 9223372036854775807)),
           entered as (
             insert into maintenance_check (job_key, next_check_at)
             select job_key, created_at + make_interval(secs => least(retain_seconds::float8, $4)) from taken
             on conflict (job_key) do nothing)
           select count(*) as "n!", max(job_key) as last from taken"#,
        from,
        STEP,
        i32::from(scan),
        stalled_seconds
    )
    .fetch_one(&mut **tx)
    .await?;
    if let Some(last) = seen.last {
        sqlx::query!("update maintenance_cursor set job_key = $2 where scan = $1", scan, last)
            .execute(&mut **tx)
            .await?;
    }
    Ok(Some(seen.n))
}

/// A tree whose check is due.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "what is asked of a tree, each a question of its own")]
pub struct DueTree {
    pub job_key: i64,
    /// Null if the job is deleted.
    pub root_id: Option<Uuid>,
    pub owner_id: Option<Uuid>,
    pub job_type: Option<String>,
    pub name: Option<String>,
    pub solo: bool,
    pub deleted: bool,
    pub pinned: bool,
    pub has_holds: bool,
    pub completed_at: Option<OffsetDateTime>,
    pub created_at: Option<OffsetDateTime>,
    pub retain_seconds: Option<i64>,
    /// True if a callback of it is pending.
    pub calling: bool,
    /// Latest future end of the idempotency windows of the tree.
    pub window_ends: Option<OffsetDateTime>,
    pub now: OffsetDateTime,
}

/// Takes due trees and postpones them by a minute, so that a failed check is repeated. In order of their times; skips
/// trees of other servers.
pub async fn take_due(tx: &mut Tx, limit: i64) -> Result<Vec<DueTree>, sqlx::Error> {
    let job_keys = sqlx::query_scalar!(
        "select job_key from maintenance_check where next_check_at <= (select clock_timestamp()) order by next_check_at limit $1
         for update skip locked",
        limit
    )
    .fetch_all(&mut **tx)
    .await?;
    if job_keys.is_empty() {
        return Ok(Vec::new());
    }
    sqlx::query!(
        "update maintenance_check set next_check_at = clock_timestamp() + interval '1 minute' where job_key = any($1::bigint[])",
        &job_keys
    )
    .execute(&mut **tx)
    .await?;
    sqlx::query_as!(
        DueTree,
        r#"select due.job_key as "job_key!", j.root_id as "root_id?", j.owner_id as "owner_id?", t.name as "job_type?",
             j.name, coalesce(g.solo, true) as "solo!", g.deleted_at is not null as "deleted!",
             coalesce(g.pinned, false) as "pinned!", coalesce(g.holds, 0) > 0 as "has_holds!",
             g.tree_completed_at as "completed_at?", j.created_at as "created_at?", j.retain_seconds,
             exists (select 1 from delivery d where d.job_id = j.id and d.state = 1)
               or exists (select 1 from notice n join delivery d on d.notice_id = n.id
                          where n.root_id = j.id and d.state = 1) as "calling!",
             (select max(k.lapses_at) from idempotency k
              where k.job_id = j.id and k.lapses_at > clock_timestamp()) as window_ends,
             clock_timestamp() as "now!"
           from unnest($1::bigint[]) as due (job_key)
           left join job_state g on g.job_key = due.job_key
           left join job j on j.job_key = due.job_key
           left join job_type t on t.id = j.type_id"#,
        &job_keys
    )
    .fetch_all(&mut **tx)
    .await
}

/// Sets the next checks of trees; null: never again.
pub async fn reschedule(
    tx: &mut Tx,
    job_keys: &[i64],
    next_check_at: &[Option<OffsetDateTime>],
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update maintenance_check t set next_check_at = new.next_check_at
         from unnest($1::bigint[], $2::timestamptz[]) as new (job_key, next_check_at)
         where t.job_key = new.job_key and new.next_check_at is not null",
        job_keys,
        next_check_at as &[Option<OffsetDateTime>]
    )
    .execute(&mut **tx)
    .await?;
    sqlx::query!(
        "delete from maintenance_check t using unnest($1::bigint[], $2::timestamptz[]) as new (job_key, next_check_at)
         where t.job_key = new.job_key and new.next_check_at is null",
        job_keys,
        next_check_at as &[Option<OffsetDateTime>]
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Makes a tree due now, because it was unpinned.
pub async fn check_now(pool: &sqlx::PgPool, job_key: i64) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into maintenance_check (job_key, next_check_at) values ($1, clock_timestamp())
         on conflict (job_key) do update set next_check_at = excluded.next_check_at",
        job_key
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Makes complete trees due now, because their reopening follows in this transaction: an open tree may stall long before
/// the end of its retention. Requires the locks of the roots' job state rows.
pub async fn check_reopened(tx: &mut Tx, root_job_keys: &[i64]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into maintenance_check (job_key, next_check_at)
         select job_key, clock_timestamp() from job_state
         where job_key = any($1::bigint[]) and tree_completed_at is not null order by job_key
         on conflict (job_key) do update set next_check_at = excluded.next_check_at",
        root_job_keys
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// An open tree, over all its jobs.
#[derive(Clone, Debug)]
pub struct OpenTreeProgress {
    pub root_id: Uuid,
    pub progress_at: OffsetDateTime,
    pub available: i64,
    pub running: i64,
    /// Scheduled and retryable items, which become due at a known time, and those that wait for events.
    pub deferred: i64,
}

/// Progress of open trees.
pub async fn open_trees(tx: &mut Tx, root_ids: &[Uuid]) -> Result<Vec<OpenTreeProgress>, sqlx::Error> {
    sqlx::query_as!(
        OpenTreeProgress,
        r#"select root_id, max(updated_at) as "progress_at!", sum(n_available)::bigint as "available!",
             sum(n_running)::bigint as "running!", sum(n_scheduled + n_retryable + n_waiting_for_event)::bigint as "deferred!"
           from job_state where root_id = any($1::uuid[]) group by root_id"#,
        root_ids
    )
    .fetch_all(&mut **tx)
    .await
}
