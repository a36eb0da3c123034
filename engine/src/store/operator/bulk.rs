//! Bulk operations: the request, the frozen membership, and the progress.
//!
//! Lock order: job state rows, member, hold, operation. Taking members locks the operation and skips locked members.
//! Every step is guarded by the state in the operation's own row.

pub mod members; // the frozen membership

use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::store::{
    Tx,
    page_range::{PageRange, by_age},
};

/// An operation, as stored.
#[derive(Clone, Debug)]
pub struct BulkRow {
    pub id: Uuid,
    pub actor_id: Uuid,
    pub actor_kind: String,
    pub actor_name: String,
    pub role: Option<String>,
    pub admin: bool,
    pub action: String,
    pub target: String,
    pub filter: String,
    pub wanted: String,
    pub payload_edit: String,
    pub reason: Option<String>,
    pub rate: Option<f64>,
    pub dry_run: bool,
    pub state: String,
    pub place_job_key: Option<i64>,
    pub place_seq: Option<i64>,
    pub total: i64,
    pub processed: i64,
    pub errored: i64,
    pub sample: String,
    pub created_at: OffsetDateTime,
    pub updated_at: OffsetDateTime,
    pub finished_at: Option<OffsetDateTime>,
    pub requested_by: Option<Uuid>,
    pub stopped_reason: Option<String>,
}

/// An operation to be written.
#[derive(Clone, Debug)]
pub struct NewRow {
    pub id: Uuid,
    pub actor_id: Uuid,
    pub actor_kind: &'static str,
    pub actor_name: String,
    pub role: Option<&'static str>,
    pub admin: bool,
    pub action: &'static str,
    pub target: &'static str,
    pub filter: String,
    pub wanted: String,
    pub payload_edit: String,
    pub reason: Option<String>,
    pub rate: Option<f64>,
    pub dry_run: bool,
    /// Credential of the request.
    pub requested_by: Uuid,
}

/// Writes an operation, which begins by counting.
pub async fn insert(tx: &mut Tx, row: &NewRow) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into bulk (id, actor_id, actor_kind, actor_name, role, admin, action, target, filter, wanted,
           payload_edit, reason, rate, dry_run, requested_by)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)",
        row.id,
        row.actor_id,
        row.actor_kind,
        row.actor_name,
        row.role,
        row.admin,
        row.action,
        row.target,
        row.filter,
        row.wanted,
        row.payload_edit,
        row.reason,
        row.rate,
        row.dry_run,
        row.requested_by,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// A page of operations: of all, of those that an owner without staff rights sees, or only the one with this id. Such
/// an owner sees what they requested without staff rights, and what has only their own work as members.
pub async fn list(
    pool: &PgPool,
    id: Option<Uuid>,
    seen_by: Option<Uuid>,
    part: PageRange,
) -> Result<Vec<BulkRow>, sqlx::Error> {
    macro_rules! listed {
        ($on:tt, $order:tt) => {
            sqlx::query_as!(
                BulkRow,
                "select id, actor_id, actor_kind, actor_name, role, admin, action, target, filter, wanted, payload_edit,
                   reason, rate, dry_run, state, place_job_key, place_seq, total, processed, errored, sample, created_at,
                   updated_at, finished_at, requested_by, stopped_reason
                 from bulk
                 where ($1::uuid is null or id = $1)
                   and ($2::uuid is null
                        or actor_id = $2 and (own_total = total or not admin and coalesce(role, 'user') = 'user'))
                   and ($3::uuid is null or id "
                    + $on
                    + " $3) order by id "
                    + $order
                    + " limit $4",
                id,
                seen_by,
                part.behind,
                part.limit
            )
            .fetch_all(pool)
            .await
        };
    }
    by_age!(part.oldest_first, listed)
}

/// Skipped members of these operations: operation, reason, number; largest number first.
pub async fn skips(pool: &PgPool, ids: &[Uuid]) -> Result<Vec<(Uuid, String, i64)>, sqlx::Error> {
    let rows = sqlx::query!(
        "select bulk_id, reason, n from bulk_skip where bulk_id = any($1::uuid[]) order by n desc, reason",
        ids
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(|row| (row.bulk_id, row.reason, row.n)).collect())
}

/// Operations that are not over, with their states; the oldest first.
pub async fn open(pool: &PgPool, limit: i64) -> Result<Vec<(Uuid, String)>, sqlx::Error> {
    let rows = sqlx::query!("select id, state from bulk where finished_at is null order by id limit $1", limit)
        .fetch_all(pool)
        .await?;
    Ok(rows.into_iter().map(|row| (row.id, row.state)).collect())
}

// ---- Counting --------------------------------------------------------------------------------------

/// Leases the scan over the list for `seconds`. Returns false if another server has it or it has ended.
pub async fn lease_scan(pool: &PgPool, id: Uuid, seconds: f64) -> Result<bool, sqlx::Error> {
    let done = sqlx::query!(
        "update bulk set busy_until = clock_timestamp() + make_interval(secs => $2)
         where id = $1 and state = 'counting' and busy_until < clock_timestamp()",
        id,
        seconds
    )
    .execute(pool)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Locks an operation that is still counting at this position. Returns false if it has moved on or was canceled.
pub async fn lock_scan(tx: &mut Tx, row: &BulkRow) -> Result<bool, sqlx::Error> {
    let found = sqlx::query_scalar!(
        "select id from bulk
         where id = $1 and state = 'counting' and place_job_key is not distinct from $2
           and place_seq is not distinct from $3
         for update",
        row.id,
        row.place_job_key,
        row.place_seq
    )
    .fetch_optional(&mut **tx)
    .await?;
    Ok(found.is_some())
}

/// Advances the scan and adds the members found, `own` of which are the requester's; `place` is `None` at its end.
pub async fn counted(
    tx: &mut Tx,
    id: Uuid,
    place: Option<(i64, i64)>,
    found: i64,
    own: i64,
    sample: Option<&str>,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update bulk set place_job_key = $2, place_seq = $3, total = total + $4, sample = coalesce($5, sample),
           own_total = own_total + $6, busy_until = '-infinity', updated_at = clock_timestamp(),
           state = case when $2::bigint is not null then state when dry_run then 'ready'
                        when total + $4 = 0 then 'completed' else 'running' end,
           finished_at = case when $2::bigint is null and (dry_run or total + $4 = 0) then clock_timestamp() end
         where id = $1",
        id,
        place.map(|place| place.0),
        place.map(|place| place.1),
        found,
        sample,
        own
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

// ---- Ending ----------------------------------------------------------------------------------------

/// Stops an operation: after the commit no more members are processed. Returns false if it had ended.
pub async fn cancel(tx: &mut Tx, id: Uuid) -> Result<bool, sqlx::Error> {
    let done = sqlx::query!(
        "update bulk set state = 'cancelling', updated_at = clock_timestamp()
         where id = $1 and state in ('counting', 'running')",
        id
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Stops an operation whose requester lost the right to it, with the reason. Returns false if it had ended.
pub async fn stop(pool: &PgPool, id: Uuid, reason: &str) -> Result<bool, sqlx::Error> {
    let done = sqlx::query!(
        "update bulk set state = 'cancelling', stopped_reason = $2, updated_at = clock_timestamp()
         where id = $1 and state in ('counting', 'running')",
        id,
        reason
    )
    .execute(pool)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Marks a stopped operation without holds as canceled.
pub async fn cancelled(pool: &PgPool, id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update bulk set state = 'cancelled', finished_at = clock_timestamp(), updated_at = clock_timestamp()
         where id = $1 and state = 'cancelling' and not exists (select 1 from bulk_hold where bulk_id = $1)",
        id
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Deletes operations that ended more than `seconds` ago, their members first, at most `limit` of them. Returns the
/// number of rows.
pub async fn forget(pool: &PgPool, seconds: f64, limit: i64) -> Result<u64, sqlx::Error> {
    let members = sqlx::query!(
        "delete from bulk_member where ctid = any(array(
           select m.ctid from bulk b join bulk_member m on m.bulk_id = b.id
           where b.finished_at < clock_timestamp() - make_interval(secs => $1)
           limit $2 for update of m skip locked))",
        seconds,
        limit
    )
    .execute(pool)
    .await?
    .rows_affected();
    if members > 0 {
        return Ok(members);
    }
    let gone = sqlx::query!(
        "with gone as (
           delete from bulk where finished_at < clock_timestamp() - make_interval(secs => $1)
             and not exists (select 1 from bulk_member m where m.bulk_id = bulk.id)
           returning id)
         delete from bulk_skip where bulk_id in (select id from gone)",
        seconds
    )
    .execute(pool)
    .await?;
    Ok(gone.rows_affected())
}
