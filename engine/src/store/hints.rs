//! NOTIFY between servers.

use sqlx::{PgPool, postgres::PgListener};

/// The one channel: every listener of a database is woken for every channel anyway.
pub const CHANNEL: &str = "treeline";

/// Sends a hint.
pub async fn notify(pool: &PgPool, text: &str) -> Result<(), sqlx::Error> {
    sqlx::query!("select pg_notify($1, $2)", CHANNEL, text).execute(pool).await?;
    Ok(())
}

/// Asks the database for an answer on the connection that receives hints.
pub async fn probe(listener: &mut PgListener) -> Result<(), sqlx::Error> {
    sqlx::query!("select 1 as answer").fetch_one(listener).await?;
    Ok(())
}
