//! Ids of the key that seals this database and of the keys that running servers have. No key is stored.

use sqlx::PgPool;
use uuid::Uuid;

/// The key that seals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurrentKey {
    pub id: String,
    /// Every secret is sealed with it.
    pub is_complete: bool,
}

/// The key that seals this database; stores this one if there is none yet. Of several servers that start together the
/// first one wins.
pub async fn adopt(pool: &PgPool, id: &str) -> Result<CurrentKey, sqlx::Error> {
    sqlx::query!(
        "insert into sealing_key (id, is_current) values ($1, true) on conflict (is_current) where is_current do nothing",
        id
    )
    .execute(pool)
    .await?;
    current(pool).await?.ok_or(sqlx::Error::RowNotFound)
}

/// The key that seals this database; `None` before the first start.
pub async fn current(pool: &PgPool) -> Result<Option<CurrentKey>, sqlx::Error> {
    let row = sqlx::query!(r#"select id, complete_at is not null as "is_complete!" from sealing_key where is_current"#)
        .fetch_optional(pool)
        .await?;
    Ok(row.map(|row| CurrentKey { id: row.id, is_complete: row.is_complete }))
}

/// Records that every secret is sealed with this key.
pub async fn complete(pool: &PgPool, id: &str) -> Result<(), sqlx::Error> {
    sqlx::query!("update sealing_key set complete_at = clock_timestamp() where id = $1 and is_current", id)
        .execute(pool)
        .await?;
    Ok(())
}

/// Makes another key the current one; not every secret is sealed with it yet.
pub async fn make_current(pool: &PgPool, id: &str) -> Result<(), sqlx::Error> {
    let mut tx = crate::store::begin(pool).await?;
    sqlx::query!("update sealing_key set is_current = false where is_current and id <> $1", id)
        .execute(&mut *tx)
        .await?;
    sqlx::query!(
        "insert into sealing_key (id, is_current) values ($1, true)
         on conflict (id) do update set is_current = true, complete_at = null where not sealing_key.is_current",
        id
    )
    .execute(&mut *tx)
    .await?;
    crate::store::commit(tx).await
}

/// Records that a server runs, its keys, and the key that it seals with.
pub async fn announce(pool: &PgPool, server_id: Uuid, key_ids: &[String], seals_with: &str) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into sealing_server (server_id, key_ids, seals_with) values ($1, $2, $3)
         on conflict (server_id) do update
           set key_ids = excluded.key_ids, seals_with = excluded.seals_with, seen_at = clock_timestamp()",
        server_id,
        key_ids,
        seals_with
    )
    .execute(pool)
    .await?;
    sqlx::query!("delete from sealing_server where seen_at < clock_timestamp() - interval '1 day'")
        .execute(pool)
        .await?;
    Ok(())
}

/// Deletes the record of a stopping server.
pub async fn leave(pool: &PgPool, server_id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!("delete from sealing_server where server_id = $1", server_id).execute(pool).await?;
    Ok(())
}

/// Number of servers, seen within the last fifteen seconds, that lack this key, and number of those that do not seal
/// with it.
pub async fn servers_without(pool: &PgPool, id: &str) -> Result<(i64, i64), sqlx::Error> {
    let row = sqlx::query!(
        r#"select count(*) filter (where not $1 = any(key_ids)) as "lack!",
             count(*) filter (where seals_with <> $1) as "behind!"
           from sealing_server where seen_at > clock_timestamp() - interval '15 seconds'"#,
        id
    )
    .fetch_one(pool)
    .await?;
    Ok((row.lack, row.behind))
}
