//! Last time at which the service was known to be up: leases count from its return after an outage (`lease-expiry`).
//! [`super::leases::take_lost`] applies it.

use sqlx::PgPool;

/// Records that the database is up, once a second per server. A gap of more than five seconds sets `resumed_at`, from
/// which leases then count. It is five seconds ahead, because servers return one after another and workers pause for
/// up to that long between two tries. Returns whether there was such a gap.
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
