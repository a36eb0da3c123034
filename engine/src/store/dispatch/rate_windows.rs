//! Recent starts under rate limits. Read and written only under the lock of the type.

use std::collections::HashMap;

use domain::dispatch::rate_window::RateWindow;
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::store::Tx;

/// Windows of these keys of a type; keys without one are missing. The nil key is the type's own.
pub async fn read(tx: &mut Tx, type_id: i32, keys: &[Uuid]) -> Result<HashMap<Uuid, RateWindow>, sqlx::Error> {
    let rows = sqlx::query!(
        "select limit_key, starts from rate_window where type_id = $1 and limit_key = any($2::uuid[])",
        type_id,
        keys
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows.into_iter().map(|row| (row.limit_key, RateWindow::parse(&row.starts))).collect())
}

/// Writes windows: key, starts, and the time from which they limit nothing.
pub async fn write(tx: &mut Tx, type_id: i32, windows: &[(Uuid, String, OffsetDateTime)]) -> Result<(), sqlx::Error> {
    if windows.is_empty() {
        return Ok(());
    }
    let keys: Vec<Uuid> = windows.iter().map(|window| window.0).collect();
    let starts: Vec<&str> = windows.iter().map(|window| window.1.as_str()).collect();
    let expires: Vec<OffsetDateTime> = windows.iter().map(|window| window.2).collect();
    sqlx::query!(
        "insert into rate_window (type_id, limit_key, starts, expires_at)
         select $1, limit_key, starts, expires_at
         from unnest($2::uuid[], $3::text[], $4::timestamptz[]) as new (limit_key, starts, expires_at)
         order by limit_key
         on conflict (type_id, limit_key) do update set starts = excluded.starts, expires_at = excluded.expires_at",
        type_id,
        &keys,
        &starts as &[&str],
        &expires
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Windows of these keys of a type, for views: no lock.
pub async fn look(
    pool: &PgPool,
    type_ids: &[i32],
    keys: &[Uuid],
) -> Result<HashMap<(i32, Uuid), RateWindow>, sqlx::Error> {
    let rows = sqlx::query!(
        "select type_id, limit_key, starts from rate_window
         where type_id = any($1::int[]) and limit_key = any($2::uuid[])",
        type_ids,
        keys
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(|row| ((row.type_id, row.limit_key), RateWindow::parse(&row.starts))).collect())
}

/// Deletes windows that limit nothing any more, skipping those in use.
pub async fn delete_expired(pool: &PgPool, limit: i64) -> Result<u64, sqlx::Error> {
    let gone = sqlx::query!(
        "delete from rate_window where ctid = any(array(
           select ctid from rate_window where expires_at < (select clock_timestamp())
           order by expires_at limit $1 for update skip locked))",
        limit
    )
    .execute(pool)
    .await?;
    Ok(gone.rows_affected())
}

/// The database's clock.
pub async fn now(pool: &PgPool) -> Result<OffsetDateTime, sqlx::Error> {
    sqlx::query_scalar!(r#"select clock_timestamp() as "now!""#).fetch_one(pool).await
}
