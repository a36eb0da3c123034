//! Messages for the broker, and the scan that repeats wake-ups.
//!
//! Rows are written in the commit that they announce, one for a batch and a type. They are taken under a short lease
//! in a separate statement, so that no transaction is open while messages are published.

use sqlx::PgPool;
use uuid::Uuid;

use super::Tx;

/// Records that items of one type can be claimed. `job_keys` has the same indexes as `item_ids`.
pub async fn wake(tx: &mut Tx, type_id: i32, item_ids: &[Uuid], gate_ids: &[i64]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into outbox (kind, type_id, item_ids, gate_ids) values (1, $1, $2, $3)",
        type_id,
        item_ids,
        gate_ids
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Records that items are dead. `job_keys` has the same indexes as `item_ids`.
pub async fn dead(tx: &mut Tx, item_ids: &[Uuid], gate_ids: &[i64]) -> Result<(), sqlx::Error> {
    sqlx::query!("insert into outbox (kind, item_ids, gate_ids) values (2, $1, $2)", item_ids, gate_ids)
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// Records the trees that this transaction completed. A tree that another transaction completed while this one waited
/// for its job state row may be recorded twice.
pub async fn completed(tx: &mut Tx, gate_ids: &[i64]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into outbox (kind, item_ids, gate_ids)
         select 3, '{}', array_agg(gate_id) from gate
         where gate_id = any($1::bigint[]) and tree_completed_at >= transaction_timestamp()
         having count(*) > 0",
        gate_ids
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// A row that was taken.
#[derive(Clone, Debug)]
pub struct OutboxRow {
    pub id: i64,
    pub kind: i16,
    pub type_id: Option<i32>,
    pub item_ids: Vec<Uuid>,
    pub gate_ids: Vec<i64>,
}

/// Takes the oldest rows for `seconds`, skipping rows of other servers.
pub async fn take(pool: &PgPool, limit: i64, seconds: f64) -> Result<Vec<OutboxRow>, sqlx::Error> {
    sqlx::query_as!(
        OutboxRow,
        "update outbox set taken_until = clock_timestamp() + make_interval(secs => $2)
         where id = any(array(
           select id from outbox where taken_until is null or taken_until < clock_timestamp()
           order by id limit $1 for update skip locked))
         returning id, kind, type_id, item_ids, gate_ids",
        limit,
        seconds
    )
    .fetch_all(pool)
    .await
}

/// Deletes confirmed rows.
pub async fn sent(pool: &PgPool, ids: &[i64]) -> Result<(), sqlx::Error> {
    sqlx::query!("delete from outbox where id = any($1::bigint[])", ids).execute(pool).await?;
    Ok(())
}

/// Releases unconfirmed rows, which can be taken again at once.
pub async fn unsent(pool: &PgPool, ids: &[i64]) -> Result<(), sqlx::Error> {
    sqlx::query!("update outbox set taken_until = null where id = any($1::bigint[])", ids).execute(pool).await?;
    Ok(())
}

/// Number of waiting rows, counted up to 10,000.
pub async fn waiting(pool: &PgPool) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(r#"select count(*) as "n!" from (select 1 from outbox limit 10000) as few"#)
        .fetch_one(pool)
        .await
}

/// Deletes wake-ups that could not be published for `wake_seconds` (the scan repeats them), and other rows after a
/// day. Returns their number.
pub async fn forget(pool: &PgPool, wake_seconds: f64) -> Result<u64, sqlx::Error> {
    let gone = sqlx::query!(
        "delete from outbox where id = any(array(
           select id from outbox
           where created_at < (select clock_timestamp())
             - case when kind = 1 then make_interval(secs => $1) else interval '1 day' end
           order by id limit 5000 for update skip locked))",
        wake_seconds
    )
    .execute(pool)
    .await?;
    Ok(gone.rows_affected())
}

/// A complete tree, for its message.
#[derive(Clone, Debug)]
pub struct CompleteRow {
    pub root_id: Uuid,
    pub type_name: String,
    pub completion: i32,
    pub outcome: i16,
}

/// Roots among these that are complete now.
pub async fn complete(pool: &PgPool, gate_ids: &[i64]) -> Result<Vec<CompleteRow>, sqlx::Error> {
    sqlx::query_as!(
        CompleteRow,
        r#"select j.id as root_id, t.name as type_name, g.completion, g.tree_outcome as "outcome!"
           from gate g join job j on j.gate_id = g.gate_id join job_type t on t.id = j.type_id
           where g.gate_id = any($1::bigint[]) and g.tree_outcome is not null and g.removed_at is null
           order by g.gate_id"#,
        gate_ids
    )
    .fetch_all(pool)
    .await
}

/// Advances the horizon, at most once in `seconds`: rows older than it have existed for at least that long.
pub async fn move_horizon(pool: &PgPool, seconds: f64) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update wake_horizon set old_xid = new_xid, new_at = clock_timestamp(),
           new_xid = pg_snapshot_xmin(pg_current_snapshot())::text::bigint
         where new_at is null or new_at <= clock_timestamp() - make_interval(secs => $1)",
        seconds
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Items that have been waiting for a claim for a while.
#[derive(Clone, Debug, Default)]
pub struct Waiting {
    /// Items with the job state rows of their jobs.
    pub items: Vec<(Uuid, i64)>,
    /// True if the round has ended or pauses, or another server is scanning.
    pub over: bool,
}

/// Takes one step of a type's scan: reads `limit` rows and returns those older than the horizon. After its end a
/// round pauses for `rest_seconds`.
pub async fn walk(tx: &mut Tx, type_id: i32, limit: i64, rest_seconds: f64) -> Result<Waiting, sqlx::Error> {
    let over = || Waiting { items: Vec::new(), over: true };
    sqlx::query!("insert into wake_walk (type_id) values ($1) on conflict (type_id) do nothing", type_id)
        .execute(&mut **tx)
        .await?;
    let place = sqlx::query!(
        "select rank, turn, item_id,
             (select pg_snapshot_xmax(pg_current_snapshot())::text::bigint - old_xid from wake_horizon) as younger
           from wake_walk
           where type_id = $1 and (rests_until is null or rests_until <= clock_timestamp())
           for update skip locked",
        type_id
    )
    .fetch_optional(&mut **tx)
    .await?;
    // Without a horizon no row is known to be old.
    let Some((place, younger)) = place.and_then(|place| place.younger.map(|younger| (place, younger))) else {
        return Ok(over());
    };
    let rows = sqlx::query!(
        r#"select rank, turn, item_id, gate_id, age(xmin)::bigint > $6 as "old!"
           from ready
           where type_id = $1 and (rank, turn, item_id) > ($2::smallint, $3::bigint, $4::uuid)
             and (expires_at is null or expires_at > clock_timestamp())
           order by rank, turn, item_id limit $5"#,
        type_id,
        place.rank.unwrap_or(i16::MIN),
        place.turn.unwrap_or(i64::MIN),
        place.item_id.unwrap_or(Uuid::nil()),
        limit,
        younger
    )
    .fetch_all(&mut **tx)
    .await?;
    let last = rows.last().filter(|_| rows.len() as i64 == limit);
    sqlx::query!(
        "update wake_walk set rank = $2, turn = $3, item_id = $4,
           rests_until = case when $2::smallint is null then clock_timestamp() + make_interval(secs => $5) end
         where type_id = $1",
        type_id,
        last.map(|row| row.rank),
        last.map(|row| row.turn),
        last.map(|row| row.item_id),
        rest_seconds
    )
    .execute(&mut **tx)
    .await?;
    let over = last.is_none();
    Ok(Waiting { items: rows.into_iter().filter(|row| row.old).map(|row| (row.item_id, row.gate_id)).collect(), over })
}
