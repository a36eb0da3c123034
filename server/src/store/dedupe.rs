//! Dedupe keys of items: unique per job until the tree is deleted (`dedupe-key`).

use uuid::Uuid;

use super::Tx;

/// An item and the key that it requests.
#[derive(Clone, Debug)]
pub struct KeyRow<'a> {
    pub gate_id: i64,
    pub key: &'a str,
    pub item_id: Uuid,
}

/// Inserts keys, in order. Returns the items whose key another item holds, including duplicates within `rows`.
pub async fn take(tx: &mut Tx, rows: &[KeyRow<'_>]) -> Result<Vec<Uuid>, sqlx::Error> {
    let gates: Vec<i64> = rows.iter().map(|r| r.gate_id).collect();
    let keys: Vec<&str> = rows.iter().map(|r| r.key).collect();
    let items: Vec<Uuid> = rows.iter().map(|r| r.item_id).collect();
    let taken = sqlx::query_scalar!(
        "insert into item_dedupe (gate_id, key, item_id)
         select gate_id, key, item_id from unnest($1::bigint[], $2::text[], $3::uuid[]) as new (gate_id, key, item_id)
         order by gate_id, key, item_id
         on conflict do nothing returning item_id",
        &gates,
        &keys as &[&str],
        &items
    )
    .fetch_all(&mut **tx)
    .await?;
    let taken: std::collections::HashSet<Uuid> = taken.into_iter().collect();
    Ok(items.into_iter().filter(|id| !taken.contains(id)).collect())
}

/// The item that holds a key.
pub async fn holder(tx: &mut Tx, gate_id: i64, key: &str) -> Result<Option<Uuid>, sqlx::Error> {
    sqlx::query_scalar!("select item_id from item_dedupe where gate_id = $1 and key = $2", gate_id, key)
        .fetch_optional(&mut **tx)
        .await
}

/// Deletes keys of items that are not added after all.
pub async fn give_back(tx: &mut Tx, item_ids: &[Uuid], gate_ids: &[i64], keys: &[&str]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "delete from item_dedupe d using unnest($1::uuid[], $2::bigint[], $3::text[]) as gone (item_id, gate_id, key)
         where d.gate_id = gone.gate_id and d.key = gone.key and d.item_id = gone.item_id",
        item_ids,
        gate_ids,
        keys as &[&str]
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}
