//! When somebody last said that service is up: leases count from the return after an absence (rule 7).

use sqlx::PgPool;

/// Says that the database is up. A gap of more than five seconds since anybody last said so (each
/// server does every second) sets
/// `resumed_at`: leases count from there. Returns whether there was such a gap.
pub async fn tick(pool: &PgPool) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"update uptime set
             resumed_at = case when last_seen_at < clock_timestamp() - interval '5 seconds'
                               then clock_timestamp() else resumed_at end,
             last_seen_at = clock_timestamp()
           returning resumed_at > clock_timestamp() - interval '1 second' as "resumed!""#
    )
    .fetch_one(pool)
    .await
}
