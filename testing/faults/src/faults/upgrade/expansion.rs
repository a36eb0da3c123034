//! The migration of a next version that does not exist: what an expanding migration may do, to every table. It is done as
//! the migrator does it: no lock is waited for longer than five seconds.

use std::time::Duration;

use anyhow::{Context as _, Result};
use sqlx::{PgPool, postgres::PgConnection};

/// Its number, which no migration has.
const VERSION: i64 = 9_000;

/// The busiest tables, and a column of each for an index.
const INDEXES: [(&str, &str); 3] = [("item", "created_at"), ("job_state", "root_id"), ("outcome", "ended_at")];

/// Tries to get a lock that a statement of a server holds.
const TRIES: usize = 12;

/// Adds a column to every table and indexes to the busiest. Returns what was done.
pub(super) async fn apply(pool: &PgPool) -> Result<String> {
    let mut connection = pool.acquire().await?;
    execute(&mut connection, "set lock_timeout = '5s'".to_owned()).await?;
    let tables = "select quote_ident(relname) from pg_class
        where relkind = 'r' and relnamespace = current_schema()::regnamespace and relname <> '_sqlx_migrations' order by 1";
    let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&mut *connection).await?;
    for table in &tables {
        execute(&mut connection, format!("alter table {table} add column of_the_next_version text")).await?;
    }
    for (table, column) in INDEXES {
        let index = format!("create index concurrently {table}_of_the_next_version on {table} ({column})");
        execute(&mut connection, index).await?;
    }
    let record = "insert into _sqlx_migrations (version, description, success, checksum, execution_time)
        values ($1, 'of the next version', true, '\\x00', 0)";
    sqlx::query(record).bind(VERSION).execute(&mut *connection).await?;
    connection.close().await?;
    Ok(format!("a column in each of {} tables and {} indexes", tables.len(), INDEXES.len()))
}

async fn execute(connection: &mut PgConnection, statement: String) -> Result<()> {
    for tried in 1.. {
        match sqlx::raw_sql(sqlx::AssertSqlSafe(statement.clone())).execute(&mut *connection).await {
            Err(error) if tried < TRIES && is_lock_timeout(&error) => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            done => return done.map(drop).with_context(|| statement),
        }
    }
    Ok(())
}

fn is_lock_timeout(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| error.code().as_deref() == Some("55P03"))
}
