//! Remainders of feeds: sources that make more items than one transaction should contain (`feeding`).

use sqlx::PgPool;
use uuid::Uuid;

use crate::store::Tx;

/// A source with more items for a job, from element `next` on.
#[derive(Clone, Copy, Debug)]
pub struct FeedRemainder {
    pub item_id: Uuid,
    pub job_key: i64,
    pub next: i32,
}

/// Records remainders, in the source's own transaction.
pub async fn insert(tx: &mut Tx, rests: &[FeedRemainder]) -> Result<(), sqlx::Error> {
    if rests.is_empty() {
        return Ok(());
    }
    let items: Vec<Uuid> = rests.iter().map(|r| r.item_id).collect();
    let job_keys: Vec<i64> = rests.iter().map(|r| r.job_key).collect();
    let next: Vec<i32> = rests.iter().map(|r| r.next).collect();
    sqlx::query!(
        "insert into feed_remainder (item_id, job_key, next) select * from unnest($1::uuid[], $2::bigint[], $3::int[])",
        &items,
        &job_keys,
        &next
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Feeds that are still to be written, at most `limit`.
pub async fn open(pool: &PgPool, limit: i64) -> Result<Vec<FeedRemainder>, sqlx::Error> {
    sqlx::query_as!(
        FeedRemainder,
        "select item_id, job_key, next from feed_remainder order by item_id, job_key limit $1",
        limit
    )
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
pub async fn advance(tx: &mut Tx, rest: FeedRemainder, to: Option<i32>) -> Result<bool, sqlx::Error> {
    let done = match to {
        Some(to) => {
            sqlx::query!(
                "update feed_remainder set next = $4 where item_id = $1 and job_key = $2 and next = $3",
                rest.item_id,
                rest.job_key,
                rest.next,
                to
            )
            .execute(&mut **tx)
            .await?
        }
        None => {
            sqlx::query!(
                "delete from feed_remainder where item_id = $1 and job_key = $2 and next = $3",
                rest.item_id,
                rest.job_key,
                rest.next
            )
            .execute(&mut **tx)
            .await?
        }
    };
    Ok(done.rows_affected() == 1)
}
