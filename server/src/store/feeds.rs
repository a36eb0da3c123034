//! Remainders of feeds: sources that make more items than one transaction should contain (`feeding`).

use sqlx::PgPool;
use uuid::Uuid;

use super::Tx;

/// A source with more items for a job, from element `next` on.
#[derive(Clone, Copy, Debug)]
pub struct Rest {
    pub item_id: Uuid,
    pub gate_id: i64,
    pub next: i32,
}

/// Records remainders, in the source's own transaction.
pub async fn owe(tx: &mut Tx, rests: &[Rest]) -> Result<(), sqlx::Error> {
    if rests.is_empty() {
        return Ok(());
    }
    let items: Vec<Uuid> = rests.iter().map(|r| r.item_id).collect();
    let gates: Vec<i64> = rests.iter().map(|r| r.gate_id).collect();
    let next: Vec<i32> = rests.iter().map(|r| r.next).collect();
    sqlx::query!(
        "insert into feed_rest (item_id, gate_id, next) select * from unnest($1::uuid[], $2::bigint[], $3::int[])",
        &items,
        &gates,
        &next
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Feeds that are still to be written, at most `limit`.
pub async fn open(pool: &PgPool, limit: i64) -> Result<Vec<Rest>, sqlx::Error> {
    sqlx::query_as!(Rest, "select item_id, gate_id, next from feed_rest order by item_id, gate_id limit $1", limit)
        .fetch_all(pool)
        .await
}

/// Payload and result of a source.
pub async fn source(pool: &PgPool, item_id: Uuid) -> Result<Option<(String, String)>, sqlx::Error> {
    let row = sqlx::query!(
        r#"select o.result as "result!",
             coalesce((select e.payload from item_edit e where e.item_id = i.id order by e.edit desc limit 1),
                      i.payload) as "payload!"
           from item i join outcome o on o.item_id = i.id
           where i.id = $1 and o.state = 1"#,
        item_id
    )
    .fetch_optional(pool)
    .await?;
    Ok(row.map(|row| (row.payload, row.result)))
}

/// Advances a remainder; `to` is `None` at its end. Returns false if another transaction has advanced or deleted it;
/// this transaction must then be rolled back.
pub async fn moved(tx: &mut Tx, rest: Rest, to: Option<i32>) -> Result<bool, sqlx::Error> {
    let done = match to {
        Some(to) => {
            sqlx::query!(
                "update feed_rest set next = $4 where item_id = $1 and gate_id = $2 and next = $3",
                rest.item_id,
                rest.gate_id,
                rest.next,
                to
            )
            .execute(&mut **tx)
            .await?
        }
        None => {
            sqlx::query!(
                "delete from feed_rest where item_id = $1 and gate_id = $2 and next = $3",
                rest.item_id,
                rest.gate_id,
                rest.next
            )
            .execute(&mut **tx)
            .await?
        }
    };
    Ok(done.rows_affected() == 1)
}
