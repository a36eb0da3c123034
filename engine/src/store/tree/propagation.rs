//! Progress of the propagation of a decision about a whole job to its rows.

use sqlx::PgPool;
use uuid::Uuid;

use crate::store::Tx;

/// Change that is propagated to the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PropagationKind {
    /// The job is canceled: pending items end.
    Cancel,
    /// A job that it waited for failed: pending items end, for now.
    Fail,
    /// The jobs that it waited for are complete: blocked items are released.
    Release,
    /// The job that it waited for was repaired: items that `Fail` ended are pending again.
    Return,
}

impl PropagationKind {
    const fn code(self) -> i16 {
        match self {
            Self::Cancel => 1,
            Self::Fail => 2,
            Self::Release => 3,
            Self::Return => 4,
        }
    }

    fn from_code(code: i16) -> Self {
        match code {
            1 => Self::Cancel,
            2 => Self::Fail,
            3 => Self::Release,
            _ => Self::Return,
        }
    }
}

/// Propagation to the items of one job.
#[derive(Clone, Copy, Debug)]
pub struct Propagation {
    pub job_key: i64,
    pub kind: PropagationKind,
    /// Items up to this sequence number are done.
    pub seq: i64,
}

/// The propagation of one job.
pub async fn find(tx: &mut Tx, job_key: i64) -> Result<Option<Propagation>, sqlx::Error> {
    let row = sqlx::query!("select job_key, kind, seq from propagation where job_key = $1", job_key)
        .fetch_optional(&mut **tx)
        .await?;
    Ok(row.map(|r| Propagation { job_key: r.job_key, kind: PropagationKind::from_code(r.kind), seq: r.seq }))
}

/// Turns the propagations of these jobs into those of canceled jobs: items that they have not reached end. Requires
/// the locks of the job state rows.
pub async fn switch_to_cancel(tx: &mut Tx, job_keys: &[i64]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update propagation set kind = $2, seq = 0 where job_key = any($1::bigint[])",
        job_keys,
        PropagationKind::Cancel.code()
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Deletes the pending completion check of a job.
pub async fn remove_completion_check(tx: &mut Tx, job_key: i64) -> Result<(), sqlx::Error> {
    sqlx::query!("delete from completion_check where job_key = $1", job_key).execute(&mut **tx).await?;
    Ok(())
}

/// Starts propagations of one kind and replaces others of these jobs. Requires the locks of the job state rows.
pub async fn begin(tx: &mut Tx, job_keys: &[i64], kind: PropagationKind) -> Result<(), sqlx::Error> {
    sqlx::query!("delete from propagation where job_key = any($1::bigint[])", job_keys).execute(&mut **tx).await?;
    sqlx::query!(
        "insert into propagation (job_key, kind) select unnest($1::bigint[]), $2::smallint",
        job_keys,
        kind.code()
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Open propagations, at most `limit`.
pub async fn open(pool: &PgPool, limit: i64) -> Result<Vec<Propagation>, sqlx::Error> {
    let rows = sqlx::query!("select job_key, kind, seq from propagation order by job_key limit $1", limit)
        .fetch_all(pool)
        .await?;
    Ok(rows
        .into_iter()
        .map(|r| Propagation { job_key: r.job_key, kind: PropagationKind::from_code(r.kind), seq: r.seq })
        .collect())
}

/// Advances a propagation; `to` is `None` at its end. Returns false if another transaction has advanced or replaced
/// it; this transaction must then be rolled back.
pub async fn advance(tx: &mut Tx, propagation: Propagation, to: Option<i64>) -> Result<bool, sqlx::Error> {
    let done = match to {
        Some(to) => {
            sqlx::query!(
                "update propagation set seq = $4 where job_key = $1 and kind = $2 and seq = $3",
                propagation.job_key,
                propagation.kind.code(),
                propagation.seq,
                to
            )
            .execute(&mut **tx)
            .await?
        }
        None => {
            sqlx::query!(
                "delete from propagation where job_key = $1 and kind = $2 and seq = $3",
                propagation.job_key,
                propagation.kind.code(),
                propagation.seq
            )
            .execute(&mut **tx)
            .await?
        }
    };
    Ok(done.rows_affected() == 1)
}

/// Item of a job that a propagation has reached.
#[derive(Clone, Debug)]
pub struct PropagatedItem {
    pub id: Uuid,
    pub seq: i64,
    pub serialize_key: Option<String>,
}

/// The next items of a job, in order.
pub async fn next_items(tx: &mut Tx, propagation: Propagation, limit: i64) -> Result<Vec<PropagatedItem>, sqlx::Error> {
    sqlx::query_as!(
        PropagatedItem,
        "select id, seq, serialize_key from item where job_key = $1 and seq > $2 order by seq limit $3",
        propagation.job_key,
        propagation.seq,
        limit
    )
    .fetch_all(&mut **tx)
    .await
}

/// Requests the cancellation of a job's open assignments.
pub async fn flag_leases(tx: &mut Tx, job_key: i64) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update lease set cancel_requested_at = clock_timestamp()
         where id = any(array(
           select id from lease
           where type_id = (select type_id from job where job_key = $1) and job_key = $1
             and cancel_requested_at is null
           order by id for update skip locked))",
        job_key
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Item whose cancellation by `after` is reverted.
#[derive(Clone, Debug)]
pub struct RestoredItem {
    pub item_id: Uuid,
    pub attempts: i32,
    pub failures: i32,
    pub negated_priority: i16,
    pub run_after: Option<time::OffsetDateTime>,
    pub expires_at: Option<time::OffsetDateTime>,
}

/// Locks items that a failed `after` has canceled, so that an edit of their job is read as a whole afterwards, or finds them
/// waiting.
pub async fn lock_canceled_by_after(tx: &mut Tx, item_ids: &[Uuid]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        r#"select count(*) as "n!" from (
             select 1 from item i where id = any($1::uuid[]) and exists (
               select 1 from outcome o where o.item_id = i.id and o.state = 3 and o.error_kind = 'after_failed')
             order by id for no key update) locked"#,
        item_ids
    )
    .fetch_one(&mut **tx)
    .await?;
    Ok(())
}

/// Deletes outcomes that a failed `after` has written.
pub async fn take_after_failures(tx: &mut Tx, item_ids: &[Uuid]) -> Result<Vec<RestoredItem>, sqlx::Error> {
    sqlx::query_as!(
        RestoredItem,
        r#"with gone as (
             delete from outcome where item_id = any($1::uuid[]) and state = 3 and error_kind = 'after_failed'
             returning item_id, attempt, failures)
           select item_id as "item_id!", attempt as "attempts!", failures as "failures!",
             (select (-i.priority)::smallint from item i where i.id = item_id) as "negated_priority!",
             (select i.run_after from item i where i.id = item_id) as run_after,
             (select i.expires_at from item i where i.id = item_id) as expires_at
           from gone"#,
        item_ids
    )
    .fetch_all(&mut **tx)
    .await
}
