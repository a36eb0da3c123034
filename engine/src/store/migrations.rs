//! The schema: migrated at every start, under a lock, and inspected.
//!
//! `0001_baseline` is the schema of the first release. Every later migration is compatible with the previous version of
//! the server, and a server starts on a database that a newer version has migrated, so that versions can overlap during
//! an upgrade, and the previous version can come back (docs/how-to/upgrade.md).
//!
//! A migration that removes something is named `NNNN_contract_after_MMMM_…`: servers without the migration MMMM need
//! what it removes, so they no longer start. Its name is in the database, where servers find it that do not know the
//! file.

use std::collections::BTreeMap;

use sqlx::{
    Connection as _, PgConnection, PgPool,
    error::DatabaseError,
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
/// A role that may not change the schema only checks that no migration is missing. Fails if a newer version has
/// removed something that this one needs.
pub async fn migrate(pool: &PgPool) -> Result<(), MigrateError> {
    let all = status(pool).await.map_err(MigrateError::Execute)?;
    if let Some(contract) = all.iter().find(|it| it.state == MigrationState::Newer && needs_newer(it)) {
        let message = format!(
            "a newer version has migrated this database, and this version no longer works with it since the migration \
             {:04} ({}): start the newer version (docs/how-to/upgrade.md)",
            contract.version, contract.description
        );
        return Err(MigrateError::Execute(sqlx::Error::Configuration(message.into())));
    }
    if !may_migrate(pool).await.map_err(MigrateError::Execute)? {
        let missing = all.iter().filter(|it| it.state == MigrationState::Missing).count();
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

/// Checks that no migration is missing, for commands that must not change the schema.
pub async fn check(pool: &PgPool) -> sqlx::Result<()> {
    match status(pool).await?.iter().filter(|it| it.state == MigrationState::Missing).count() {
        0 => Ok(()),
        missing => {
            let message = format!(
                "{missing} migrations are missing: run `treeline-server migrate` first, or the version of this command \
                 that belongs to the running servers"
            );
            Err(sqlx::Error::Configuration(message.into()))
        }
    }
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

/// `lock_not_available` and `deadlock_detected`.
const LOCKED: [&str; 2] = ["55P03", "40P01"];

fn waited_for_lock(error: &MigrateError) -> bool {
    let (MigrateError::Execute(inner) | MigrateError::ExecuteMigration(inner, _)) = error else { return false };
    inner.as_database_error().and_then(DatabaseError::code).is_some_and(|code| LOCKED.contains(&&*code))
}

/// A migration of this server, of the database, or of both.
#[derive(Clone, Debug)]
pub struct MigrationStatus {
    pub version: i64,
    pub description: String,
    pub state: MigrationState,
}

/// Places that know a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigrationState {
    Applied,
    /// Known to the server only.
    Missing,
    /// Known to the database only: a newer version applied it.
    Newer,
}

/// Every migration that this server or its database knows, in order.
pub async fn status(pool: &PgPool) -> sqlx::Result<Vec<MigrationStatus>> {
    // The migrator creates this table, so statements on it cannot be checked at compile time.
    let there: bool = sqlx::query_scalar("select to_regclass('_sqlx_migrations') is not null").fetch_one(pool).await?;
    let applied: Vec<(i64, String)> = if there {
        sqlx::query_as("select version, description from _sqlx_migrations where success").fetch_all(pool).await?
    } else {
        Vec::new()
    };
    let mut all: BTreeMap<i64, (String, MigrationState)> =
        MIGRATOR.iter().map(|it| (it.version, (it.description.to_string(), MigrationState::Missing))).collect();
    for (version, description) in applied {
        all.entry(version)
            .and_modify(|(_, state)| *state = MigrationState::Applied)
            .or_insert((description, MigrationState::Newer));
    }
    let row = |(version, (description, state))| MigrationStatus { version, description, state };
    Ok(all.into_iter().map(row).collect())
}

/// Returns true if only servers with a migration that this one lacks work after this migration.
fn needs_newer(migration: &MigrationStatus) -> bool {
    let newest = MIGRATOR.iter().map(|it| it.version).max().unwrap_or_default();
    contract_after(&migration.description).is_some_and(|needed| needed > newest)
}

/// The migration without which a server does not work after the one with this description: 7 for
/// `contract after 0007 drop the old column`.
fn contract_after(description: &str) -> Option<i64> {
    description.strip_prefix("contract after ")?.split(' ').next()?.parse().ok()
}

/// Succeeds if the database answers.
pub async fn is_ready(pool: &PgPool) -> sqlx::Result<()> {
    sqlx::query_scalar!(r#"select only_row as "only_row!" from uptime"#).fetch_one(pool).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Statements after which a server of the previous version can fail.
    const REMOVES: [&str; 8] = [
        "drop table",
        "drop column",
        "drop function",
        "drop view",
        "rename ",
        "set not null",
        "alter column",
        "truncate",
    ];

    #[test]
    fn contract_is_read_from_descriptions() {
        assert_eq!(contract_after("contract after 0007 drop the old column"), Some(7));
        assert_eq!(contract_after("contract after 12"), Some(12));
        for other in ["language", "contract", "contract after all", "a contract after 0007"] {
            assert_eq!(contract_after(other), None, "{other}");
        }
    }

    #[test]
    fn only_contracts_remove_something() {
        let mut newest = 0;
        for migration in MIGRATOR.iter() {
            if let Some(needed) = contract_after(&migration.description) {
                assert!(needed < migration.version, "{}: the servers that it needs exist before it", migration.version);
            } else if newest > 0 {
                let sql = migration.sql.as_str().to_lowercase();
                let found = REMOVES.iter().find(|what| sql.contains(*what));
                assert_eq!(found, None, "{:04} is no contract_after_NNNN: docs/how-to/upgrade.md", migration.version);
                let required = |line: &&str| line.contains("add column") && line.contains("not null");
                let required = sql.lines().filter(required).find(|line| !line.contains("default"));
                assert_eq!(required, None, "{:04}: the previous version adds rows without it", migration.version);
            }
            newest = migration.version;
        }
    }
}
