//! Progress of the propagation of a decision about a whole job to its rows.

use sqlx::PgPool;
use uuid::Uuid;

use super::Tx;

/// Change that is propagated to the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The job is canceled: pending items end.
    Cancel,
    /// A job that it waited for failed: pending items end, for now.
    Fail,
    /// The jobs that it waited for are complete: blocked items are released.
    Release,
    /// The job that it waited for was repaired: items that `Fail` ended are pending again.
    Return,
}

impl Kind {
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
pub struct Walk {
    pub gate_id: i64,
    pub kind: Kind,
    /// Items up to this sequence number are done.
    pub seq: i64,
}

/// The propagation of one job.
pub async fn of(tx: &mut Tx, gate_id: i64) -> Result<Option<Walk>, sqlx::Error> {
    let row = sqlx::query!("select gate_id, kind, seq from carry where gate_id = $1", gate_id)
        .fetch_optional(&mut **tx)
        .await?;
    Ok(row.map(|r| Walk { gate_id: r.gate_id, kind: Kind::from_code(r.kind), seq: r.seq }))
}

/// Turns the propagations of these jobs into those of canceled jobs: items that they have not reached end. Requires
/// the locks of the job state rows.
pub async fn cancel(tx: &mut Tx, gate_ids: &[i64]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update carry set kind = $2, seq = 0 where gate_id = any($1::bigint[])",
        gate_ids,
        Kind::Cancel.code()
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Deletes the pending completion check of a job.
pub async fn settled(tx: &mut Tx, gate_id: i64) -> Result<(), sqlx::Error> {
    sqlx::query!("delete from settle where gate_id = $1", gate_id).execute(&mut **tx).await?;
    Ok(())
}

/// Starts propagations of one kind and replaces others of these jobs. Requires the locks of the job state rows.
pub async fn begin(tx: &mut Tx, gate_ids: &[i64], kind: Kind) -> Result<(), sqlx::Error> {
    sqlx::query!("delete from carry where gate_id = any($1::bigint[])", gate_ids).execute(&mut **tx).await?;
    sqlx::query!("insert into carry (gate_id, kind) select unnest($1::bigint[]), $2::smallint", gate_ids, kind.code())
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// Open propagations, at most `limit`.
pub async fn open(pool: &PgPool, limit: i64) -> Result<Vec<Walk>, sqlx::Error> {
    let rows =
        sqlx::query!("select gate_id, kind, seq from carry order by gate_id limit $1", limit).fetch_all(pool).await?;
    Ok(rows.into_iter().map(|r| Walk { gate_id: r.gate_id, kind: Kind::from_code(r.kind), seq: r.seq }).collect())
}

/// Advances a propagation; `to` is `None` at its end. Returns false if another transaction has advanced or replaced
/// it; this transaction must then be rolled back.
pub async fn moved(tx: &mut Tx, walk: Walk, to: Option<i64>) -> Result<bool, sqlx::Error> {
    let done = match to {
        Some(to) => {
            sqlx::query!(
                "update carry set seq = $4 where gate_id = $1 and kind = $2 and seq = $3",
                walk.gate_id,
                walk.kind.code(),
                walk.seq,
                to
            )
            .execute(&mut **tx)
            .await?
        }
        None => {
            sqlx::query!(
                "delete from carry where gate_id = $1 and kind = $2 and seq = $3",
                walk.gate_id,
                walk.kind.code(),
                walk.seq
            )
            .execute(&mut **tx)
            .await?
        }
    };
    Ok(done.rows_affected() == 1)
}

/// Item of a job that a propagation has reached.
#[derive(Clone, Debug)]
pub struct Met {
    pub id: Uuid,
    pub seq: i64,
    pub serialize_key: Option<String>,
}

/// The next items of a job, in order.
pub async fn next(tx: &mut Tx, walk: Walk, limit: i64) -> Result<Vec<Met>, sqlx::Error> {
    sqlx::query_as!(
        Met,
        "select id, seq, serialize_key from item where gate_id = $1 and seq > $2 order by seq limit $3",
        walk.gate_id,
        walk.seq,
        limit
    )
    .fetch_all(&mut **tx)
    .await
}

/// Requests the cancellation of a job's open assignments.
pub async fn flag_leases(tx: &mut Tx, gate_id: i64) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update lease set cancel_requested_at = clock_timestamp()
         where id = any(array(
           select id from lease
           where type_id = (select type_id from job where gate_id = $1) and gate_id = $1
             and cancel_requested_at is null
           order by id for update skip locked))",
        gate_id
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Item whose cancellation by `after` is reverted.
#[derive(Clone, Debug)]
pub struct Returned {
    pub item_id: Uuid,
    pub attempts: i32,
    pub failures: i32,
    pub rank: i16,
    pub run_after: Option<time::OffsetDateTime>,
    pub expires_at: Option<time::OffsetDateTime>,
}

/// Deletes outcomes that a failed `after` has written.
pub async fn take_failed(tx: &mut Tx, item_ids: &[Uuid]) -> Result<Vec<Returned>, sqlx::Error> {
    sqlx::query_as!(
        Returned,
        r#"with gone as (
             delete from outcome where item_id = any($1::uuid[]) and state = 3 and error_kind = 'after_failed'
             returning item_id, attempt, failures)
           select item_id as "item_id!", attempt as "attempts!", failures as "failures!",
             (select (-i.priority)::smallint from item i where i.id = item_id) as "rank!",
             (select i.run_after from item i where i.id = item_id) as run_after,
             (select i.expires_at from item i where i.id = item_id) as expires_at
           from gone"#,
        item_ids
    )
    .fetch_all(&mut **tx)
    .await
}
