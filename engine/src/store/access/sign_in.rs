//! Failed sign-ins of all servers. A key is the hash of the counted subject; no address and no account is stored.

use sqlx::PgPool;

/// Maximum number of counters; beyond it the oldest are deleted.
const MOST: i64 = 100_000;

/// Failures as they stood at the last one.
#[derive(Debug)]
pub struct SignInFailures {
    pub key: Vec<u8>,
    pub failures: f64,
    pub age_seconds: f64,
}

/// Stored failures of these keys.
pub async fn failures(pool: &PgPool, keys: &[Vec<u8>]) -> sqlx::Result<Vec<SignInFailures>> {
    sqlx::query_as!(
        SignInFailures,
        r#"select key, failures, extract(epoch from clock_timestamp() - last_at)::float8 as "age_seconds!"
           from sign_in_failure where key = any($1)"#,
        keys
    )
    .fetch_all(pool)
    .await
}

/// Adds one failure to each key; one failure is forgiven after the given seconds. Keys are in order.
pub async fn count(pool: &PgPool, keys: &[Vec<u8>], forgiven_after_seconds: &[f64]) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into sign_in_failure as f (key, failures, forgiven_after_seconds)
         select * from (select k, 1::float8, s from unnest($1::bytea[], $2::float8[]) as t (k, s) order by k) as sorted
         on conflict (key) do update
         set failures = 1 + greatest(0, f.failures
               - extract(epoch from clock_timestamp() - f.last_at)::float8 / f.forgiven_after_seconds),
             last_at = clock_timestamp()",
        keys,
        forgiven_after_seconds
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Deletes these counters.
pub async fn clear(pool: &PgPool, keys: &[Vec<u8>]) -> sqlx::Result<()> {
    sqlx::query!("delete from sign_in_failure where key = any($1)", keys).execute(pool).await?;
    Ok(())
}

/// Deletes forgiven counters, and the oldest beyond the maximum. Returns their number. Counters of authenticator
/// codes, which are forgiven after two hours, are not deleted for space: there are few, and a flood of other failures
/// would reset them.
pub async fn forget(pool: &PgPool) -> sqlx::Result<u64> {
    let done = sqlx::query!(
        "delete from sign_in_failure
         where last_at < clock_timestamp() - make_interval(secs => least(604800, failures * forgiven_after_seconds))
            or (last_at < (select last_at from sign_in_failure order by last_at desc offset $1 limit 1)
                and forgiven_after_seconds < 7200)",
        MOST
    )
    .execute(pool)
    .await?;
    Ok(done.rows_affected())
}
