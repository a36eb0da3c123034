//! Messages for the broker, and the scan that repeats wake-ups.
//!
//! Rows are written in the commit that they announce, one for a batch and a type. They are taken under a short lease
//! in a separate statement, so that no transaction is open while messages are published.

use sqlx::PgPool;
use uuid::Uuid;

use crate::store::Tx;

/// Records that items of one type can be claimed. `job_keys` has the same indexes as `item_ids`.
pub async fn insert_wake_up(tx: &mut Tx, type_id: i32, item_ids: &[Uuid], job_keys: &[i64]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into outbox (kind, type_id, item_ids, job_keys) values (1, $1, $2, $3)",
        type_id,
        item_ids,
        job_keys
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Records that items are dead. `job_keys` has the same indexes as `item_ids`.
pub async fn dead(tx: &mut Tx, item_ids: &[Uuid], job_keys: &[i64]) -> Result<(), sqlx::Error> {
    sqlx::query!("insert into outbox (kind, item_ids, job_keys) values (2, $1, $2)", item_ids, job_keys)
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// Records the trees that this transaction completed. A tree that another transaction completed while this one waited
/// for its job state row may be recorded twice.
pub async fn completed(tx: &mut Tx, job_keys: &[i64]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into outbox (kind, item_ids, job_keys)
         select 3, '{}', array_agg(job_key) from job_state
         where job_key = any($1::bigint[]) and tree_completed_at >= transaction_timestamp()
         having count(*) > 0",
        job_keys
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
    pub job_keys: Vec<i64>,
}

/// Takes the oldest rows for `seconds`, skipping rows of other servers.
pub async fn take(pool: &PgPool, limit: i64, seconds: f64) -> Result<Vec<OutboxRow>, sqlx::Error> {
    sqlx::query_as!(
        OutboxRow,
        "update outbox set taken_until = clock_timestamp() + make_interval(secs => $2)
         where id = any(array(
           select id from outbox where taken_until is null or taken_until < clock_timestamp()
           order by id limit $1 for update skip locked))
         returning id, kind, type_id, item_ids, job_keys",
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
pub async fn complete(pool: &PgPool, job_keys: &[i64]) -> Result<Vec<CompleteRow>, sqlx::Error> {
    sqlx::query_as!(
        CompleteRow,
        r#"select j.id as root_id, t.name as type_name, g.completion, g.tree_outcome as "outcome!"
           from job_state g join job j on j.job_key = g.job_key join job_type t on t.id = j.type_id
           where g.job_key = any($1::bigint[]) and g.tree_outcome is not null and g.deleted_at is null
           order by g.job_key"#,
        job_keys
    )
    .fetch_all(pool)
    .await
}

/// Advances the horizon, at most once in `seconds`: rows older than it have existed for at least that long.
pub async fn move_horizon(pool: &PgPool, seconds: f64) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update wake_up_horizon set old_xid = new_xid, new_at = clock_timestamp(),
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
pub struct WakeUpStep {
    /// Items with the job state rows of their jobs.
    pub items: Vec<(Uuid, i64)>,
    /// True if the round has ended or pauses, or another server is scanning.
    pub over: bool,
}

/// Takes one step of a type's scan: reads `limit` rows and returns those older than the horizon. After its end a
/// round pauses for `rest_seconds`.
pub async fn wake_up_step(tx: &mut Tx, type_id: i32, limit: i64, rest_seconds: f64) -> Result<WakeUpStep, sqlx::Error> {
    let over = || WakeUpStep { items: Vec::new(), over: true };
    sqlx::query!("insert into wake_up_cursor (type_id) values ($1) on conflict (type_id) do nothing", type_id)
        .execute(&mut **tx)
        .await?;
    let place = sqlx::query!(
        "select negated_priority, fair_turn, item_id,
             (select pg_snapshot_xmax(pg_current_snapshot())::text::bigint - old_xid from wake_up_horizon) as younger
           from wake_up_cursor
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
        r#"select negated_priority, fair_turn, item_id, job_key, age(xmin)::bigint > $6 as "old!"
           from ready
           where type_id = $1 and (negated_priority, fair_turn, item_id) > ($2::smallint, $3::bigint, $4::uuid)
             and (expires_at is null or expires_at > clock_timestamp())
           order by negated_priority, fair_turn, item_id limit $5"#,
        type_id,
        place.negated_priority.unwrap_or(i16::MIN),
        place.fair_turn.unwrap_or(i64::MIN),
        place.item_id.unwrap_or(Uuid::nil()),
        limit,
        younger
    )
    .fetch_all(&mut **tx)
    .await?;
    let last = rows.last().filter(|_| rows.len() as i64 == limit);
    sqlx::query!(
        "update wake_up_cursor set negated_priority = $2, fair_turn = $3, item_id = $4,
           rests_until = case when $2::smallint is null then clock_timestamp() + make_interval(secs => $5) end
         where type_id = $1",
        type_id,
        last.map(|row| row.negated_priority),
        last.map(|row| row.fair_turn),
        last.map(|row| row.item_id),
        rest_seconds
    )
    .execute(&mut **tx)
    .await?;
    let over = last.is_none();
    Ok(WakeUpStep {
        items: rows.into_iter().filter(|row| row.old).map(|row| (row.item_id, row.job_key)).collect(),
        over,
    })
}
