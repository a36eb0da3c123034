//! When someone last said that service is up: leases count from the return after an absence (`lease-expiry`).

use sqlx::PgPool;

/// Says that the database is up, as each server does every second. A gap of more than five seconds since
/// anybody last said so sets `resumed_at`: leases count from there. It is five seconds ahead, as servers come
/// back one after another and workers pause for up to so long between two tries. Returns whether there was
/// such a gap.
pub async fn tick(pool: &PgPool) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"update uptime set
             resumed_at = case when last_seen_at < clock_timestamp() - interval '5 seconds'
                               then clock_timestamp() + interval '5 seconds' else resumed_at end,
             last_seen_at = clock_timestamp()
           returning resumed_at > clock_timestamp() + interval '4 seconds' as "resumed!""#
    )
    .fetch_one(pool)
    .await
}
