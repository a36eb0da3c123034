//! Slowest statements by `pg_stat_statements`, to find out why a ratio is low.

use std::fmt::Write as _;

use anyhow::Result;
use sqlx::{PgPool, Row as _};

/// Resets the statistics.
pub(crate) async fn begin(pool: &PgPool) -> Result<()> {
    sqlx::raw_sql("create extension if not exists pg_stat_statements").execute(pool).await?;
    sqlx::raw_sql("select pg_stat_statements_reset()").execute(pool).await?;
    Ok(())
}

/// The fifteen slowest: total milliseconds, calls, milliseconds per call, buffers per call, and the text.
pub(crate) async fn top(pool: &PgPool) -> Result<String> {
    let rows = sqlx::query(
        "select total_exec_time, calls, mean_exec_time, (shared_blks_hit + shared_blks_read)::float8 / calls,
           wal_bytes::float8 / calls, rows::float8 / calls, regexp_replace(query, '\\s+', ' ', 'g')
         from pg_stat_statements order by total_exec_time desc limit 15",
    )
    .fetch_all(pool)
    .await?;
    let mut text = String::from("  total ms   calls  ms/call buffers/call  WAL B/call rows/call  statement\n");
    for row in rows {
        let query: String = row.get(6);
        let short: String = query.chars().take(110).collect();
        writeln!(
            text,
            "{:>10.0} {:>7} {:>8.3} {:>12.1} {:>11.0} {:>9.1}  {short}",
            row.get::<f64, _>(0),
            row.get::<i64, _>(1),
            row.get::<f64, _>(2),
            row.get::<f64, _>(3),
            row.get::<f64, _>(4),
            row.get::<f64, _>(5),
        )?;
    }
    Ok(text)
}
