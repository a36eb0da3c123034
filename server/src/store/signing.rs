//! The deployment's own key, which signs what goes out where nobody named a secret. One for all servers.

use sqlx::PgPool;

/// The key; `fresh` is kept where there is none yet. Of several servers that start at once one is first.
pub async fn key(pool: &PgPool, fresh: &[u8]) -> Result<Vec<u8>, sqlx::Error> {
    sqlx::query!("insert into signing_key (key) values ($1) on conflict (only_row) do nothing", fresh)
        .execute(pool)
        .await?;
    sqlx::query_scalar!("select key from signing_key").fetch_one(pool).await
}
