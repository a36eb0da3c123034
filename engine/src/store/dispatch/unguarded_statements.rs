//! Statements without their guards, only in builds with the cargo feature `failpoints`. The checker of `cargo xtask
//! faults` must detect each of them.

use sqlx::Row as _;
use uuid::Uuid;

use super::leases::TakenLease;
use crate::store::Tx;

/// Open assignments of the items of these closed ones: (closed, open).
pub async fn open_assignments_of(tx: &mut Tx, assignment_ids: &[Uuid]) -> Result<Vec<(Uuid, Uuid)>, sqlx::Error> {
    sqlx::query_as(
        "select a.lease_id, l.id from attempt a join lease l on l.item_id = a.item_id where a.lease_id = any($1)",
    )
    .bind(assignment_ids)
    .fetch_all(&mut **tx)
    .await
}

/// Takes lost leases by item without checking again, so an item that was claimed in the meantime loses its new lease.
pub async fn take_lost(tx: &mut Tx, limit: i64) -> Result<Vec<TakenLease>, sqlx::Error> {
    let items: Vec<(Uuid,)> = sqlx::query_as(
        "select item_id from lease where last_heartbeat_at + make_interval(secs => lease_seconds) < clock_timestamp() limit $1",
    )
    .bind(limit)
    .fetch_all(&mut **tx)
    .await?;
    if items.is_empty() {
        return Ok(Vec::new());
    }
    sqlx::query("select pg_sleep(1.5)").execute(&mut **tx).await?;
    let items: Vec<Uuid> = items.into_iter().map(|row| row.0).collect();
    let rows = sqlx::query(
        "delete from lease where item_id = any($1)
         returning id, item_id, job_key, started_at, type_id, attempt, failures, negated_priority, touched, worker_id, expires_at,
           serialize_queue_id, cancel_requested_at is not null, limit_key,
           credential_id",
    )
    .bind(&items)
    .fetch_all(&mut **tx)
    .await?;
    rows.iter()
        .map(|row| {
            Ok(TakenLease {
                id: row.try_get(0)?,
                item_id: row.try_get(1)?,
                job_key: row.try_get(2)?,
                started_at: row.try_get(3)?,
                type_id: row.try_get(4)?,
                attempt: row.try_get(5)?,
                failures: row.try_get(6)?,
                negated_priority: row.try_get(7)?,
                touched: row.try_get(8)?,
                worker_id: row.try_get(9)?,
                expires_at: row.try_get(10)?,
                timed_out: false,
                serialize_queue_id: row.try_get(11)?,
                cancel_requested: row.try_get(12)?,
                limit_key: row.try_get(13)?,
                credential_id: row.try_get(14)?,
            })
        })
        .collect()
}
