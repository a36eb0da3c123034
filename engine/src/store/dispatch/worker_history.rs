//! History of workers for their pages: ended attempts per minute and hour, and the last errors of each. Written for all
//! workers at once, every few seconds.

use std::collections::{BTreeMap, VecDeque};

use domain::{
    Counts,
    api::{Activity, SeriesStep},
    query::histogram::{self, Histogram},
};
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::store::Tx;

/// Number of errors kept of each worker, the newest.
pub const ERRORS: usize = 20;

/// Ended attempts of one worker.
#[derive(Clone, Debug, Default)]
pub struct WorkerActivity {
    pub succeeded: i64,
    pub failed: i64,
    pub runs: Histogram,
    /// Oldest first.
    pub errors: VecDeque<Failure>,
}

/// Error of a failed attempt.
#[derive(Clone, Debug)]
pub struct Failure {
    pub item_id: Uuid,
    pub ended_at: OffsetDateTime,
    /// `EndedAs::code`.
    pub ended_as: i16,
    pub message: String,
}

/// By credential and name, so that servers lock rows in the same order.
pub type ByWorker = BTreeMap<(Uuid, String), WorkerActivity>;

/// Adds ended attempts to the rows of their workers.
pub async fn add(pool: &PgPool, rows: &ByWorker) -> sqlx::Result<()> {
    let mut tx = crate::store::begin(pool).await?;
    let credentials: Vec<Uuid> = rows.keys().map(|key| key.0).collect();
    let names: Vec<&str> = rows.keys().map(|key| key.1.as_str()).collect();
    let column = |of: fn(&WorkerActivity) -> i64| -> Vec<i64> { rows.values().map(of).collect() };
    let runs: Vec<i64> = rows.values().flat_map(|it| *it.runs.counts()).collect();
    sqlx::query!(
        "insert into worker_history as h (credential_id, worker_id, step, starts_at, n_succeeded, n_failed, runs)
         select credential_id, worker_id, step, date_trunc(unit, statement_timestamp(), 'utc'), succeeded, failed,
           ($5::bigint[])[(n - 1) * $6 + 1 : n * $6]
         from unnest($1::uuid[], $2::text[], $3::bigint[], $4::bigint[])
             with ordinality as new (credential_id, worker_id, succeeded, failed, n)
           cross join (values (1::smallint, 'minute'), (2::smallint, 'hour')) as steps (step, unit)
         order by n, step
         on conflict (credential_id, worker_id, step, starts_at) do update
           set n_succeeded = h.n_succeeded + excluded.n_succeeded, n_failed = h.n_failed + excluded.n_failed,
             runs = array(select coalesce(old, 0) + new from unnest(h.runs, excluded.runs)
               with ordinality as both_of (old, new, at) order by at)",
        &credentials,
        &names as &[&str],
        &column(|it| it.succeeded),
        &column(|it| it.failed),
        &runs,
        histogram::BUCKETS as i32
    )
    .execute(&mut *tx)
    .await?;
    add_errors(&mut tx, rows).await?;
    crate::store::commit(tx).await
}

/// Adds errors, and deletes all but the newest of the same workers.
async fn add_errors(tx: &mut Tx, rows: &ByWorker) -> sqlx::Result<()> {
    let errors: Vec<(&(Uuid, String), &Failure)> =
        rows.iter().flat_map(|(key, it)| it.errors.iter().map(move |error| (key, error))).collect();
    if errors.is_empty() {
        return Ok(());
    }
    let credentials: Vec<Uuid> = errors.iter().map(|it| it.0.0).collect();
    let names: Vec<&str> = errors.iter().map(|it| it.0.1.as_str()).collect();
    let ended_at: Vec<OffsetDateTime> = errors.iter().map(|it| it.1.ended_at).collect();
    let items: Vec<Uuid> = errors.iter().map(|it| it.1.item_id).collect();
    let ended_as: Vec<i16> = errors.iter().map(|it| it.1.ended_as).collect();
    let messages: Vec<&str> = errors.iter().map(|it| it.1.message.as_str()).collect();
    sqlx::query!(
        "insert into worker_error (credential_id, worker_id, ended_at, item_id, ended_as, message)
         select * from unnest($1::uuid[], $2::text[], $3::timestamptz[], $4::uuid[], $5::smallint[], $6::text[])
         on conflict do nothing",
        &credentials,
        &names as &[&str],
        &ended_at,
        &items,
        &ended_as,
        &messages as &[&str]
    )
    .execute(&mut **tx)
    .await?;
    sqlx::query!(
        "delete from worker_error where ctid = any(array(
           select old.ctid
           from (select distinct credential_id, worker_id from unnest($1::uuid[], $2::text[]) as w (credential_id, worker_id)) w
           cross join lateral (
             select ctid from worker_error e where e.credential_id = w.credential_id and e.worker_id = w.worker_id
             order by ended_at desc, item_id desc offset $3 limit 1000 for update skip locked) as old))",
        &credentials,
        &names as &[&str],
        ERRORS as i64
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Ended attempts of a worker by start of the point; omits points without any.
pub async fn points(
    pool: &PgPool,
    (credential_id, worker_id): (Uuid, &str),
    step: SeriesStep,
    (from, to): (OffsetDateTime, OffsetDateTime),
) -> sqlx::Result<Vec<(OffsetDateTime, Activity)>> {
    let rows = sqlx::query!(
        "select starts_at, n_succeeded, n_failed, runs from worker_history
         where credential_id = $1 and worker_id = $2 and step = $3 and starts_at >= $4 and starts_at < $5
         order by starts_at",
        credential_id,
        worker_id,
        step.code(),
        from,
        to
    )
    .fetch_all(pool)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| {
            let ended = Counts { succeeded: row.n_succeeded, ..Counts::default() };
            let run = Histogram::from_stored(&row.runs);
            (row.starts_at, Activity { failed: row.n_failed, ended, run, ..Activity::default() })
        })
        .collect())
}

/// Last failed attempts of a worker, newest first.
pub async fn errors(pool: &PgPool, credential_id: Uuid, worker_id: &str) -> sqlx::Result<Vec<Failure>> {
    sqlx::query_as!(
        Failure,
        "select item_id, ended_at, ended_as, message from worker_error
         where credential_id = $1 and worker_id = $2 order by ended_at desc, item_id desc limit $3",
        credential_id,
        worker_id,
        ERRORS as i64
    )
    .fetch_all(pool)
    .await
}

/// Deletes minutes older than three hours, and hours and errors older than 48 hours, at most a thousand rows of each.
pub async fn forget(pool: &PgPool) -> sqlx::Result<u64> {
    let points = sqlx::query!(
        "delete from worker_history where ctid = any(array(
           select old.ctid
           from (values (1::smallint, interval '3 hours'), (2::smallint, interval '48 hours')) as kept (step, age)
           cross join lateral (
             select ctid from worker_history h where h.step = kept.step and h.starts_at < (select clock_timestamp()) - kept.age
             order by h.starts_at limit 1000 for update skip locked) as old))"
    )
    .execute(pool)
    .await?;
    let errors = sqlx::query!(
        "delete from worker_error where ctid = any(array(
           select ctid from worker_error where ended_at < (select clock_timestamp()) - interval '48 hours'
           order by ended_at limit 1000 for update skip locked))"
    )
    .execute(pool)
    .await?;
    Ok(points.rows_affected() + errors.rows_affected())
}
