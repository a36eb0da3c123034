//! The deployment's key, which signs outgoing requests without a configured secret. One for all servers.

use sqlx::PgPool;

/// The key as it is stored.
#[derive(Clone, Debug)]
pub enum StoredKey {
    Sealed(String),
    /// From before secrets were sealed.
    Plain(Vec<u8>),
}

/// The key; stores the sealed `fresh` if there is none yet. Of several servers that start together the first one
/// wins.
pub async fn key(pool: &PgPool, fresh: &str) -> Result<StoredKey, sqlx::Error> {
    sqlx::query!("insert into signing_key (sealed) values ($1) on conflict (only_row) do nothing", fresh)
        .execute(pool)
        .await?;
    stored(pool).await?.ok_or(sqlx::Error::RowNotFound)
}

/// The key, where there is one.
pub async fn stored(pool: &PgPool) -> Result<Option<StoredKey>, sqlx::Error> {
    let row = sqlx::query!("select key, sealed from signing_key").fetch_optional(pool).await?;
    Ok(row.and_then(|row| row.sealed.map(StoredKey::Sealed).or(row.key.map(StoredKey::Plain))))
}

/// Replaces the stored key by the same key, sealed. Returns false if another server was faster.
pub async fn reseal(pool: &PgPool, before: &StoredKey, sealed: &str) -> Result<bool, sqlx::Error> {
    let (text, bytes) = match before {
        StoredKey::Sealed(text) => (Some(text.as_str()), None),
        StoredKey::Plain(bytes) => (None, Some(bytes.as_slice())),
    };
    let done = sqlx::query!(
        "update signing_key set sealed = $1, key = null
         where sealed is not distinct from $2 and ($3::bytea is null or key = $3)",
        sealed,
        text,
        bytes
    )
    .execute(pool)
    .await?;
    Ok(done.rows_affected() == 1)
}
