//! Dedupe keys of items: unique per job until the tree is deleted (`dedupe-key`). What a duplicate leads to is decided in
//! `enqueue/add/refusal.rs`.

use uuid::Uuid;

use crate::store::Tx;

/// An item and the key that it requests.
#[derive(Clone, Debug)]
pub struct ItemDedupeKey<'a> {
    pub job_key: i64,
    pub key: &'a str,
    pub item_id: Uuid,
}

/// Inserts keys, in order. Returns the items whose key another item holds, including duplicates within `rows`.
pub async fn take(tx: &mut Tx, rows: &[ItemDedupeKey<'_>]) -> Result<Vec<Uuid>, sqlx::Error> {
    let job_keys: Vec<i64> = rows.iter().map(|r| r.job_key).collect();
    let keys: Vec<&str> = rows.iter().map(|r| r.key).collect();
    let items: Vec<Uuid> = rows.iter().map(|r| r.item_id).collect();
    let taken = sqlx::query_scalar!(
        "insert into item_dedupe (job_key, key, item_id)
         select job_key, key, item_id from unnest($1::bigint[], $2::text[], $3::uuid[]) as new (job_key, key, item_id)
         order by job_key, key, item_id
         on conflict do nothing returning item_id",
        &job_keys,
        &keys as &[&str],
        &items
    )
    .fetch_all(&mut **tx)
    .await?;
    let taken: std::collections::HashSet<Uuid> = taken.into_iter().collect();
    Ok(items.into_iter().filter(|id| !taken.contains(id)).collect())
}

/// The item that holds a key.
pub async fn holder(tx: &mut Tx, job_key: i64, key: &str) -> Result<Option<Uuid>, sqlx::Error> {
    sqlx::query_scalar!("select item_id from item_dedupe where job_key = $1 and key = $2", job_key, key)
        .fetch_optional(&mut **tx)
        .await
}

/// Deletes keys of items that are not added after all.
pub async fn give_back(tx: &mut Tx, item_ids: &[Uuid], job_keys: &[i64], keys: &[&str]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "delete from item_dedupe d using unnest($1::uuid[], $2::bigint[], $3::text[]) as gone (item_id, job_key, key)
         where d.job_key = gone.job_key and d.key = gone.key and d.item_id = gone.item_id",
        item_ids,
        job_keys,
        keys as &[&str]
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}
