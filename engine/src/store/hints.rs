//! NOTIFY between servers.

use sqlx::PgPool;

/// The one channel: every listener of a database is woken for every channel anyway.
pub const CHANNEL: &str = "treeline";

/// Sends a hint.
pub async fn notify(pool: &PgPool, text: &str) -> Result<(), sqlx::Error> {
    sqlx::query!("select pg_notify($1, $2)", CHANNEL, text).execute(pool).await?;
    Ok(())
}
