//! Serialize keys: one serialize queue per owner and key, with its items in order of acceptance (`serialize-key`).
//!
//! Positions are assigned under the serialize queue's lock, because neither ids nor times have the order of commits.
//! Serialize queues are locked in order of their ids, before rows that wait in them and before job state rows. They
//! are created in separate commits, so that no transaction waits for a serialize queue that may be rolled back.

use sqlx::PgPool;
use uuid::Uuid;

use crate::store::Tx;

/// Serialize queues of these keys, created if missing, in the order of the keys; `None` for one that was swept meanwhile.
pub async fn ensure(pool: &PgPool, owners: &[Uuid], keys: &[&str]) -> Result<Vec<Option<i64>>, sqlx::Error> {
    sqlx::query!(
        "insert into serialize_queue (owner_id, key)
         select owner_id, key from unnest($1::uuid[], $2::text[]) as new (owner_id, key) order by owner_id, key
         on conflict do nothing",
        owners,
        keys as &[&str]
    )
    .execute(pool)
    .await?;
    sqlx::query_scalar!(
        r#"select (select l.id from serialize_queue l where l.owner_id = new.owner_id and l.key = new.key) as "id?"
           from unnest($1::uuid[], $2::text[]) with ordinality as new (owner_id, key, n) order by n"#,
        owners,
        keys as &[&str]
    )
    .fetch_all(pool)
    .await
}

/// A serialize queue under its lock.
#[derive(Clone, Copy, Debug)]
pub struct SerializeQueueRow {
    pub id: i64,
    pub next_position: i64,
}

/// Locks serialize queues, ascending. One that is not returned has been swept: look its key up again.
pub async fn lock(tx: &mut Tx, serialize_queue_ids: &[i64]) -> Result<Vec<SerializeQueueRow>, sqlx::Error> {
    sqlx::query_as!(
        SerializeQueueRow,
        "select id, next_position from serialize_queue where id = any($1::bigint[]) order by id for no key update",
        serialize_queue_ids
    )
    .fetch_all(&mut **tx)
    .await
}

/// The item at the head of each of these serialize queues: (serialize queue, item); empty serialize queues do not come
/// back.
pub async fn heads(tx: &mut Tx, serialize_queue_ids: &[i64]) -> Result<Vec<(i64, Uuid)>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"select l.id as "serialize_queue_id!",
             (select e.item_id from serialize_queue_entry e where e.serialize_queue_id = l.id order by e.position limit 1) as item_id
           from unnest($1::bigint[]) as l (id)"#,
        serialize_queue_ids
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows.into_iter().filter_map(|row| row.item_id.map(|item| (row.serialize_queue_id, item))).collect())
}

/// Appends items to serialize queues; (serialize queue, position, item). The serialize queues are locked.
pub async fn append(tx: &mut Tx, entries: &[(i64, i64, Uuid)]) -> Result<(), sqlx::Error> {
    if entries.is_empty() {
        return Ok(());
    }
    let serialize_queues: Vec<i64> = entries.iter().map(|e| e.0).collect();
    let places: Vec<i64> = entries.iter().map(|e| e.1).collect();
    let items: Vec<Uuid> = entries.iter().map(|e| e.2).collect();
    sqlx::query!(
        "insert into serialize_queue_entry (serialize_queue_id, position, item_id) select * from unnest($1::bigint[], $2::bigint[], $3::uuid[])",
        &serialize_queues,
        &places,
        &items
    )
    .execute(&mut **tx)
    .await?;
    sqlx::query!(
        "update serialize_queue set next_position = (select max(e.position) + 1 from serialize_queue_entry e where e.serialize_queue_id = serialize_queue.id)
         where id = any($1::bigint[])",
        &serialize_queues
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Removes final items from their serialize queues.
pub async fn leave(tx: &mut Tx, item_ids: &[Uuid]) -> Result<(), sqlx::Error> {
    sqlx::query!("delete from serialize_queue_entry where item_id = any($1::uuid[])", item_ids)
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// Deletes empty serialize queues, at most `limit`, skipping locked ones.
///
/// In two statements: the first may lock a queue that got an item after the statement began, and does not see that item.
pub async fn sweep(tx: &mut Tx, limit: i64) -> Result<u64, sqlx::Error> {
    let locked = sqlx::query_scalar!(
        "select l.id from serialize_queue l
         where l.next_position > 1 and not exists (select 1 from serialize_queue_entry e where e.serialize_queue_id = l.id)
         order by l.id limit $1 for update skip locked",
        limit
    )
    .fetch_all(&mut **tx)
    .await?;
    if locked.is_empty() {
        return Ok(0);
    }
    let deleted = sqlx::query!(
        "delete from serialize_queue l where l.id = any($1::bigint[])
           and not exists (select 1 from serialize_queue_entry e where e.serialize_queue_id = l.id)",
        &locked
    )
    .execute(&mut **tx)
    .await?;
    Ok(deleted.rows_affected())
}
