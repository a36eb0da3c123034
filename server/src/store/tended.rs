//! Roots and the times of their next check: due retention and stalled trees are found without a scan and without an
//! index on the job state rows.
//!
//! Two scans over the roots in order of their keys enter each new tree once; from then on a tree costs nothing until
//! its check is due. `(select clock_timestamp())` is evaluated once; a plain `clock_timestamp()` is volatile, cannot
//! bound an index scan and would be evaluated for every row.

use time::OffsetDateTime;
use uuid::Uuid;

use super::Tx;

/// Roots that one step of a scan enters.
const STEP: i64 = 2_000;

/// Takes one step of a scan: enters the next roots with a check at the time when their retention could first end or
/// they could first be stalled. The second scan stays a minute behind, because job keys do not have the order of
/// commits. Returns the number of roots; `None` if another server is scanning.
pub async fn walk(tx: &mut Tx, walk: i16, stalled_seconds: f64) -> Result<Option<i64>, sqlx::Error> {
    let from = sqlx::query_scalar!("select gate_id from tended_walk where walk = $1 for update skip locked", walk)
        .fetch_optional(&mut **tx)
        .await?;
    let Some(from) = from else { return Ok(None) };
    let seen = sqlx::query!(
        r#"with roots as materialized (
             select gate_id, created_at, retain_seconds from job
             where parent_id is null and gate_id > $1 order by gate_id limit $2),
           young as (
             select min(gate_id) as gate_id from roots
             where $3 = 2 and created_at > clock_timestamp() - interval '1 minute'),
           taken as (
             select * from roots where gate_id < coalesce((select gate_id from young), 9223372036854775807)),
           entered as (
             insert into tended (gate_id, look_at)
             select gate_id, created_at + make_interval(secs => least(retain_seconds::float8, $4)) from taken
             on conflict (gate_id) do nothing)
           select count(*) as "n!", max(gate_id) as last from taken"#,
        from,
        STEP,
        i32::from(walk),
        stalled_seconds
    )
    .fetch_one(&mut **tx)
    .await?;
    if let Some(last) = seen.last {
        sqlx::query!("update tended_walk set gate_id = $2 where walk = $1", walk, last).execute(&mut **tx).await?;
    }
    Ok(Some(seen.n))
}

/// A tree whose check is due.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "what is asked of a tree, each a question of its own")]
pub struct DueRow {
    pub gate_id: i64,
    /// Null if the job is deleted.
    pub root_id: Option<Uuid>,
    pub owner_id: Option<Uuid>,
    pub job_type: Option<String>,
    pub name: Option<String>,
    pub solo: bool,
    pub removed: bool,
    pub keep: bool,
    pub held: bool,
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
pub async fn take_due(tx: &mut Tx, limit: i64) -> Result<Vec<DueRow>, sqlx::Error> {
    let gate_ids = sqlx::query_scalar!(
        "select gate_id from tended where look_at <= (select clock_timestamp()) order by look_at limit $1
         for update skip locked",
        limit
    )
    .fetch_all(&mut **tx)
    .await?;
    if gate_ids.is_empty() {
        return Ok(Vec::new());
    }
    sqlx::query!(
        "update tended set look_at = clock_timestamp() + interval '1 minute' where gate_id = any($1::bigint[])",
        &gate_ids
    )
    .execute(&mut **tx)
    .await?;
    sqlx::query_as!(
        DueRow,
        r#"select due.gate_id as "gate_id!", j.root_id as "root_id?", j.owner_id as "owner_id?", t.name as "job_type?",
             j.name, coalesce(g.solo, true) as "solo!", g.removed_at is not null as "removed!",
             coalesce(g.keep, false) as "keep!", coalesce(g.holds, 0) > 0 as "held!",
             g.tree_completed_at as "completed_at?", j.created_at as "created_at?", j.retain_seconds,
             exists (select 1 from delivery d where d.job_id = j.id and d.state = 1) as "calling!",
             (select max(k.lapses_at) from idempotency k
              where k.job_id = j.id and k.lapses_at > clock_timestamp()) as window_ends,
             clock_timestamp() as "now!"
           from unnest($1::bigint[]) as due (gate_id)
           left join gate g on g.gate_id = due.gate_id
           left join job j on j.gate_id = due.gate_id
           left join job_type t on t.id = j.type_id"#,
        &gate_ids
    )
    .fetch_all(&mut **tx)
    .await
}

/// Sets the next checks of trees; null: never again.
pub async fn look_again(tx: &mut Tx, gate_ids: &[i64], look_at: &[Option<OffsetDateTime>]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update tended t set look_at = again.look_at
         from unnest($1::bigint[], $2::timestamptz[]) as again (gate_id, look_at)
         where t.gate_id = again.gate_id and again.look_at is not null",
        gate_ids,
        look_at as &[Option<OffsetDateTime>]
    )
    .execute(&mut **tx)
    .await?;
    sqlx::query!(
        "delete from tended t using unnest($1::bigint[], $2::timestamptz[]) as again (gate_id, look_at)
         where t.gate_id = again.gate_id and again.look_at is null",
        gate_ids,
        look_at as &[Option<OffsetDateTime>]
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Makes a tree due now, because it was unpinned.
pub async fn look_now(pool: &sqlx::PgPool, gate_id: i64) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into tended (gate_id, look_at) values ($1, clock_timestamp())
         on conflict (gate_id) do update set look_at = excluded.look_at",
        gate_id
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Roots, under the locks of their job state rows, whose retention has ended, whose idempotency windows have passed,
/// and whose callbacks are not pending.
pub async fn retention_over(tx: &mut Tx, root_ids: &[Uuid]) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "select j.id from job j join gate g on g.gate_id = j.gate_id
         where j.id = any($1::uuid[]) and j.retain_seconds is not null and g.tree_completed_at is not null
           and g.tree_completed_at + make_interval(secs => j.retain_seconds::float8) <= clock_timestamp()
           and not exists (
             select 1 from idempotency k where k.job_id = j.id and k.lapses_at > clock_timestamp())
           and not exists (select 1 from delivery d where d.job_id = j.id and d.state = 1)",
        root_ids
    )
    .fetch_all(&mut **tx)
    .await
}

/// An open tree, over all its jobs.
#[derive(Clone, Debug)]
pub struct OpenTree {
    pub root_id: Uuid,
    pub progress_at: OffsetDateTime,
    pub available: i64,
    pub running: i64,
    /// Scheduled and retryable items, which become due at a known time.
    pub deferred: i64,
}

/// Progress of open trees.
pub async fn open_trees(tx: &mut Tx, root_ids: &[Uuid]) -> Result<Vec<OpenTree>, sqlx::Error> {
    sqlx::query_as!(
        OpenTree,
        r#"select root_id, max(updated_at) as "progress_at!", sum(n_available)::bigint as "available!",
             sum(n_running)::bigint as "running!", sum(n_scheduled + n_retryable)::bigint as "deferred!"
           from gate where root_id = any($1::uuid[]) group by root_id"#,
        root_ids
    )
    .fetch_all(&mut **tx)
    .await
}
