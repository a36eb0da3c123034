//! The schema: migrated at every start, under a lock, and inspected.
//!
//! `0001_baseline` is the schema of the first release. Every later migration is compatible with the previous version of
//! the server, and a server starts on a database that a newer
//! version has migrated, so that versions can overlap during an upgrade.

use std::collections::HashSet;

use sqlx::{
    Connection as _, PgConnection, PgPool,
    migrate::{MigrateError, Migrator},
};

static MIGRATOR: Migrator = {
    let mut migrator = sqlx::migrate!("../migrations");
    migrator.ignore_missing = true;
    migrator
};

/// Applies missing migrations. Servers that start together wait for each other.
///
/// Uses a separate connection, because the migrator's lock belongs to its session and must end with it. A statement
/// may take long, but no lock is waited for long, because later statements would queue behind it: a migration that
/// cannot get its lock gives up and is tried again.
///
/// A role that may not change the schema only checks that no migration is missing.
pub async fn migrate(pool: &PgPool) -> Result<(), MigrateError> {
    if !may_migrate(pool).await.map_err(MigrateError::Execute)? {
        let missing = status(pool).await.map_err(MigrateError::Execute)?.iter().filter(|it| !it.applied).count();
        if missing == 0 {
            return Ok(());
        }
        let message = format!(
            "{missing} migrations are missing, and this role of the database may not make them: run \
             `treeline-server migrate` as the owner of the database (docs/postgres.md)"
        );
        return Err(MigrateError::Execute(sqlx::Error::Configuration(message.into())));
    }
    let options = pool.connect_options().as_ref().clone();
    let options = options.options([
        ("lock_timeout", "5s"),
        ("statement_timeout", "0"),
        ("idle_in_transaction_session_timeout", "0"),
    ]);
    for left in (0..TRIES).rev() {
        let mut connection = PgConnection::connect_with(&options).await.map_err(MigrateError::Execute)?;
        let done = MIGRATOR.run(&mut connection).await;
        let _ = connection.close().await;
        match done {
            Err(error) if left > 0 && waited_for_lock(&error) => {
                tracing::info!("waiting to migrate: somebody else holds a lock");
            }
            done => return done,
        }
    }
    Ok(())
}

/// Returns true if this database role may create tables.
async fn may_migrate(pool: &PgPool) -> sqlx::Result<bool> {
    sqlx::query_scalar!(r#"select coalesce(has_schema_privilege(current_schema(), 'create'), false) as "may!""#)
        .fetch_one(pool)
        .await
}

/// Grants the servers' role its rights and revokes others. Requires the owner.
pub async fn grant_to(pool: &PgPool, app_role: &str) -> sqlx::Result<()> {
    sqlx::query!(r#"select treeline_grant_app($1::text::name)::text as "done""#, app_role)
        .fetch_one(pool)
        .await
        .map(drop)
}

/// Twelve tries of five seconds: one minute.
const TRIES: u32 = 12;

fn waited_for_lock(error: &MigrateError) -> bool {
    let (MigrateError::Execute(inner) | MigrateError::ExecuteMigration(inner, _)) = error else { return false };
    inner.as_database_error().is_some_and(|e| e.code().as_deref() == Some("55P03"))
}

/// A migration, and whether this database has it.
#[derive(Clone, Debug)]
pub struct MigrationStatus {
    pub version: i64,
    pub description: String,
    pub applied: bool,
}

/// Every migration that this server knows, in order.
pub async fn status(pool: &PgPool) -> sqlx::Result<Vec<MigrationStatus>> {
    // The migrator creates this table, so statements on it cannot be checked at compile time.
    let there: bool = sqlx::query_scalar("select to_regclass('_sqlx_migrations') is not null").fetch_one(pool).await?;
    let applied: HashSet<i64> = if there {
        let versions: Vec<i64> =
            sqlx::query_scalar("select version from _sqlx_migrations where success").fetch_all(pool).await?;
        versions.into_iter().collect()
    } else {
        HashSet::new()
    };
    Ok(MIGRATOR
        .iter()
        .map(|migration| MigrationStatus {
            version: migration.version,
            description: migration.description.to_string(),
            applied: applied.contains(&migration.version),
        })
        .collect())
}

/// Succeeds if the database answers.
pub async fn is_ready(pool: &PgPool) -> sqlx::Result<()> {
    sqlx::query_scalar!(r#"select only_row as "only_row!" from uptime"#).fetch_one(pool).await?;
    Ok(())
}
