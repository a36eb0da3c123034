//! Statistics for monitoring: numbers of waiting, running and ended items by type. No request counts rows: a
//! background task scans the job state rows in bounded steps, and added and ended items are counted in small rows per
//! type.

use std::collections::BTreeMap;

use domain::{
    api::Activity,
    query::histogram::{self, Histogram},
};
use sqlx::PgPool;
use time::OffsetDateTime;

use crate::store::Tx;

/// Job state rows per step of the scan.
const STEP: i64 = 10_000;

/// Takes the next step of the scan and sums its items by type and state; at the end, publishes the sums. Returns
/// false if another server is scanning.
pub async fn count_step(tx: &mut Tx) -> sqlx::Result<bool> {
    let Some(from) = sqlx::query_scalar!("select job_key from statistics_cursor for update skip locked")
        .fetch_optional(&mut **tx)
        .await?
    else {
        return Ok(false);
    };
    // The order of the sums is that of `OpenWork::from_stored`.
    let last = sqlx::query_scalar!(
        r#"with piece as materialized (
             select job_key, deleted_at, n_available, n_running, n_retryable, n_scheduled, n_blocked, n_succeeded,
               n_dead, n_cancelled, n_expired, n_waiting_for_event
             from job_state where job_key > $1 order by job_key limit $2),
           sums as (
             select j.type_id, sum(n_available)::bigint as a, sum(n_running)::bigint as b, sum(n_retryable)::bigint as c,
               sum(n_scheduled)::bigint as d, sum(n_blocked)::bigint as e, sum(n_succeeded)::bigint as f,
               sum(n_dead)::bigint as g, sum(n_cancelled)::bigint as h, sum(n_expired)::bigint as i,
               sum(n_waiting_for_event)::bigint as k
             from piece join job j on j.job_key = piece.job_key
             where piece.deleted_at is null group by j.type_id),
           added as (
             insert into type_statistics as t (type_id, n, scanned)
             select type_id, '{0,0,0,0,0,0,0,0,0,0}', array[a, b, c, d, e, f, g, h, i, k] from sums
             on conflict (type_id) do update set scanned = array(
               select old + new from unnest(t.scanned, excluded.scanned) with ordinality as both_of (old, new, at)
               order by at))
           select max(job_key) from piece having count(*) = $2"#,
        from,
        STEP
    )
    .fetch_optional(&mut **tx)
    .await?
    .flatten();
    if let Some(last) = last {
        sqlx::query!("update statistics_cursor set job_key = $1", last).execute(&mut **tx).await?;
    } else {
        sqlx::query!("update type_statistics set n = scanned, scanned = '{0,0,0,0,0,0,0,0,0,0}'")
            .execute(&mut **tx)
            .await?;
        sqlx::query!("update statistics_cursor set job_key = 0, counted_at = began_at, began_at = clock_timestamp()")
            .execute(&mut **tx)
            .await?;
    }
    Ok(true)
}

/// Time and age in seconds of the shown counts; `None` before the first scan has ended.
pub async fn counted_at(pool: &PgPool) -> sqlx::Result<Option<(OffsetDateTime, f64)>> {
    let row = sqlx::query!(
        r#"select counted_at as "counted_at!", extract(epoch from clock_timestamp() - counted_at)::float8 as "age!"
           from statistics_cursor where counted_at is not null"#
    )
    .fetch_optional(pool)
    .await?;
    Ok(row.map(|row| (row.counted_at, row.age)))
}

/// Items of one type by state, from the last complete scan.
#[derive(Clone, Debug)]
pub struct OpenWork {
    pub job_type: String,
    pub counts: domain::Counts,
}

/// Items by type and state, by the type's name.
pub async fn open_work(pool: &PgPool) -> sqlx::Result<Vec<OpenWork>> {
    let rows = sqlx::query!(
        r#"select t.name, coalesce(f.n, '{}') as "n!" from job_type t
           left join type_statistics f on f.type_id = t.id order by t.name"#
    )
    .fetch_all(pool)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| {
            let n = |at: usize| row.n.get(at).copied().unwrap_or(0);
            let counts = domain::Counts {
                available: n(0),
                running: n(1),
                retryable: n(2),
                scheduled: n(3),
                blocked: n(4),
                succeeded: n(5),
                dead: n(6),
                cancelled: n(7),
                expired: n(8),
                waiting_for_event: n(9),
                superseded: 0,
            };
            OpenWork { job_type: row.name, counts }
        })
        .collect())
}

/// Seconds for which the next item of each type has been available: since it was added, since its start (`run_after`),
/// or since its last retry became due. When a person or something that it waited for released it, no row says. Its fair
/// turn is that time if nothing waited then, else the time of an item that waited (`items::current_fair_turn`). Omits
/// types without available items.
pub async fn oldest_available(pool: &PgPool) -> sqlx::Result<Vec<(String, f64)>> {
    let rows = sqlx::query!(
        r#"select t.name as job_type,
             extract(epoch from clock_timestamp() - greatest(i.created_at, i.run_after,
               case when r.fair_turn <= extract(epoch from clock_timestamp()) * 100000
                    then to_timestamp(r.fair_turn / 100000.0) end,
               (select coalesce(a.retry_at, a.ended_at) from attempt a
                where a.item_id = i.id order by a.attempt desc limit 1)))::float8 as "seconds!"
           from job_type t
           cross join lateral (
             (select item_id, fair_turn from ready where type_id = t.id
              order by type_id, negated_priority, fair_turn, item_id limit 1)
             union all
             (select item_id, fair_turn from ready where type_id = -t.id
              order by type_id, negated_priority, fair_turn, item_id limit 1)
             limit 1) r
           join item i on i.id = r.item_id"#
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(|row| (row.job_type, row.seconds)).collect())
}

/// Open assignments per type.
pub async fn open_assignments(pool: &PgPool) -> sqlx::Result<Vec<(String, i64)>> {
    let rows = sqlx::query!(
        r#"select t.name as job_type, (select count(*) from lease where type_id = t.id) as "open!" from job_type t"#
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(|row| (row.job_type, row.open)).collect())
}

/// Adds activity to the rate and history rows; `rows` sorted by name, so that servers lock the rows in the same
/// order.
pub async fn add(pool: &PgPool, rows: &BTreeMap<String, Activity>) -> sqlx::Result<()> {
    let names: Vec<&str> = rows.keys().map(String::as_str).collect();
    let column = |of: fn(&Activity) -> i64| -> Vec<i64> { rows.values().map(of).collect() };
    let buckets =
        |of: fn(&Activity) -> &Histogram| -> Vec<i64> { rows.values().flat_map(|it| *of(it).counts()).collect() };
    sqlx::query!(
        "with new as materialized (
           select n, type_name, added, succeeded, failed, dead, cancelled, expired, retried,
             ($9::bigint[])[(n - 1) * $11 + 1 : n * $11] as waits, ($10::bigint[])[(n - 1) * $11 + 1 : n * $11] as runs
           from unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
               $8::bigint[])
             with ordinality as new (type_name, added, succeeded, failed, dead, cancelled, expired, retried, n)),
         ticks as (
           insert into type_tick as t (type_name, tick, n_in, n_out)
           select type_name, extract(epoch from statement_timestamp())::bigint / 10, added,
             succeeded + dead + cancelled + expired from new order by n
           on conflict (type_name, tick) do update set n_in = t.n_in + excluded.n_in, n_out = t.n_out + excluded.n_out)
         insert into type_history as h (type_name, step, starts_at, n_added, n_succeeded, n_failed, n_dead, n_cancelled,
           n_expired, n_retried, waits, runs)
         select type_name, step, date_trunc(unit, statement_timestamp(), 'utc'), added, succeeded, failed, dead, cancelled,
           expired, retried, waits, runs
         from new cross join (values (1::smallint, 'minute'), (2::smallint, 'hour'), (3::smallint, 'day')) as steps (step, unit)
         order by n, step
         on conflict (type_name, step, starts_at) do update set n_added = h.n_added + excluded.n_added,
           n_succeeded = h.n_succeeded + excluded.n_succeeded, n_failed = h.n_failed + excluded.n_failed,
           n_dead = h.n_dead + excluded.n_dead, n_cancelled = h.n_cancelled + excluded.n_cancelled,
           n_expired = h.n_expired + excluded.n_expired, n_retried = h.n_retried + excluded.n_retried,
           waits = array(select coalesce(old, 0) + new from unnest(h.waits, excluded.waits)
             with ordinality as both_of (old, new, at) order by at),
           runs = array(select coalesce(old, 0) + new from unnest(h.runs, excluded.runs)
             with ordinality as both_of (old, new, at) order by at)",
        &names as &[&str],
        &column(|it| it.added),
        &column(|it| it.ended.succeeded),
        &column(|it| it.failed),
        &column(|it| it.ended.dead),
        &column(|it| it.ended.cancelled),
        &column(|it| it.ended.expired),
        &column(|it| it.retried),
        &buckets(|it| &it.wait),
        &buckets(|it| &it.run),
        histogram::BUCKETS as i32
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Items of one type that were added and that ended in the last minute, five minutes, and hour.
#[derive(Clone, Debug)]
pub struct RateRow {
    pub type_name: String,
    pub n_in: Vec<i64>,
    pub n_out: Vec<i64>,
}

/// Lengths of the spans of [`rates`] in seconds.
pub const SPANS: [i64; 3] = [60, 300, 3_600];

/// Items that were added and that ended lately, by type; reads at most 360 small rows per type.
pub async fn rates(pool: &PgPool) -> sqlx::Result<Vec<RateRow>> {
    let rows = sqlx::query!(
        r#"with now_is (tick) as materialized (select extract(epoch from clock_timestamp())::bigint / 10)
           select type_name,
             coalesce(sum(n_in) filter (where t.tick > n.tick - 6), 0)::bigint as "in_60!",
             coalesce(sum(n_out) filter (where t.tick > n.tick - 6), 0)::bigint as "out_60!",
             coalesce(sum(n_in) filter (where t.tick > n.tick - 30), 0)::bigint as "in_300!",
             coalesce(sum(n_out) filter (where t.tick > n.tick - 30), 0)::bigint as "out_300!",
             coalesce(sum(n_in), 0)::bigint as "in_3600!",
             coalesce(sum(n_out), 0)::bigint as "out_3600!"
           from type_tick t cross join now_is n where t.tick > n.tick - 360 group by type_name"#
    )
    .fetch_all(pool)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| RateRow {
            type_name: row.type_name,
            n_in: vec![row.in_60, row.in_300, row.in_3600],
            n_out: vec![row.out_60, row.out_300, row.out_3600],
        })
        .collect())
}

/// One day of one type.
#[derive(Clone, Debug)]
pub struct DayRow {
    pub type_name: String,
    pub day: String,
    pub added: i64,
    pub succeeded: i64,
    pub dead: i64,
    pub cancelled: i64,
    pub expired: i64,
}

/// The last thirty days, newest first.
pub async fn days(pool: &PgPool) -> sqlx::Result<Vec<DayRow>> {
    sqlx::query_as!(
        DayRow,
        r#"select type_name, (starts_at at time zone 'utc')::date::text as "day!", n_added as added,
             n_succeeded as succeeded, n_dead as dead, n_cancelled as cancelled, n_expired as expired
           from type_history where step = 3 and starts_at > clock_timestamp() - interval '30 days'
           order by type_name, starts_at desc"#
    )
    .fetch_all(pool)
    .await
}

/// Deletes rates older than an hour and history older than the retention of its step, at most a thousand rows of
/// each.
pub async fn forget(pool: &PgPool) -> sqlx::Result<u64> {
    let ticks = sqlx::query!(
        "delete from type_tick where ctid = any(array(
           select ctid from type_tick where tick < (select extract(epoch from clock_timestamp())::bigint / 10 - 400)
           order by tick limit 1000 for update skip locked))"
    )
    .execute(pool)
    .await?;
    let points = sqlx::query!(
        "delete from type_history where ctid = any(array(
           select old.ctid
           from (values (1::smallint, interval '48 hours'), (2::smallint, interval '30 days'),
             (3::smallint, interval '2 years')) as kept (step, age)
           cross join lateral (
             select ctid from type_history h where h.step = kept.step and h.starts_at < (select clock_timestamp()) - kept.age
             order by h.starts_at limit 400 for update skip locked) as old))"
    )
    .execute(pool)
    .await?;
    Ok(ticks.rows_affected() + points.rows_affected())
}
