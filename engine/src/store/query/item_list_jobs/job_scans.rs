//! Job keys in order from a given one, with one index scan for each kind of filter.
//!
//! Each scan exists for both directions: an index can be read backward, but only if the statement says so.

use sqlx::PgPool;
use uuid::Uuid;

/// Runs a statement in either direction: `$at` is `>=` or `<=`, `$behind` is `>` or `<`, `$order` is `asc` or `desc`.
macro_rules! either_way {
    ($back:expr, $scan:ident) => {
        if $back { $scan!("<=", "<", "desc") } else { $scan!(">=", ">", "asc") }
    };
}

/// Keys of all jobs from `from` on.
pub async fn scan_jobs(pool: &PgPool, back: bool, from: i64, limit: i64) -> Result<Vec<i64>, sqlx::Error> {
    macro_rules! scan {
        ($at:tt, $behind:tt, $order:tt) => {
            sqlx::query_scalar!(
                "select job_key from job where job_key " + $at + " $1 order by job_key " + $order + " limit $2",
                from,
                limit
            )
            .fetch_all(pool)
            .await
        };
    }
    either_way!(back, scan)
}

/// Keys of a type's jobs from `from` on.
pub async fn scan_jobs_of_type(
    pool: &PgPool,
    type_id: i32,
    back: bool,
    from: i64,
    limit: i64,
) -> Result<Vec<i64>, sqlx::Error> {
    macro_rules! scan {
        ($at:tt, $behind:tt, $order:tt) => {
            sqlx::query_scalar!(
                "select job_key from job where type_id = $1 and job_key "
                    + $at
                    + " $2 order by job_key "
                    + $order
                    + " limit $3",
                type_id,
                from,
                limit
            )
            .fetch_all(pool)
            .await
        };
    }
    either_way!(back, scan)
}

/// Keys of an owner's jobs from `from` on: roots and children have an index each, and are merged.
pub async fn scan_jobs_of_owner(
    pool: &PgPool,
    owner_id: Uuid,
    back: bool,
    from: i64,
    limit: i64,
) -> Result<Vec<i64>, sqlx::Error> {
    macro_rules! scan {
        ($at:tt, $behind:tt, $order:tt) => {
            sqlx::query_scalar!(
                r#"(select job_key as "job_key!" from job where owner_id = $1 and parent_id is null and job_key "#
                    + $at
                    + " $2 order by job_key "
                    + $order
                    + " limit $3)
                    union all
                    (select job_key from job where owner_id = $1 and parent_id is not null and job_key "
                    + $at
                    + " $2 order by job_key "
                    + $order
                    + " limit $3)
                    order by 1 "
                    + $order
                    + " limit $3",
                owner_id,
                from,
                limit
            )
            .fetch_all(pool)
            .await
        };
    }
    either_way!(back, scan)
}

/// Keys of jobs from `from` on with items in a final state other than succeeded: one index probe each.
pub async fn jobs_with_state(
    pool: &PgPool,
    state: i16,
    back: bool,
    from: i64,
    limit: i64,
) -> Result<Vec<i64>, sqlx::Error> {
    macro_rules! scan {
        ($at:tt, $behind:tt, $order:tt) => {
            sqlx::query_scalar!(
                "with recursive found (job_key) as (
                   (select job_key from outcome where state = $1 and state <> 1 and job_key "
                    + $at
                    + " $2 order by job_key "
                    + $order
                    + ", seq "
                    + $order
                    + " limit 1)
                   union all
                   select (select o.job_key from outcome o
                           where o.state = $1 and o.state <> 1 and o.job_key "
                    + $behind
                    + " f.job_key order by o.job_key "
                    + $order
                    + ", o.seq "
                    + $order
                    + r#" limit 1)
                   from found f where f.job_key is not null)
                 select job_key as "job_key!" from found where job_key is not null limit $3"#,
                state,
                from,
                limit
            )
            .fetch_all(pool)
            .await
        };
    }
    either_way!(back, scan)
}

/// Keys of jobs from `from` on with an error of this fingerprint.
pub async fn jobs_with_error(
    pool: &PgPool,
    fingerprint: &str,
    back: bool,
    from: i64,
    limit: i64,
) -> Result<Vec<i64>, sqlx::Error> {
    macro_rules! scan {
        ($at:tt, $behind:tt, $order:tt) => {
            sqlx::query_scalar!(
                "with recursive found (job_key) as (
                   (select job_key from outcome where fingerprint = $1 and job_key "
                    + $at
                    + " $2 order by job_key "
                    + $order
                    + ", seq "
                    + $order
                    + " limit 1)
                   union all
                   select (select o.job_key from outcome o where o.fingerprint = $1 and o.job_key "
                    + $behind
                    + " f.job_key order by o.job_key "
                    + $order
                    + ", o.seq "
                    + $order
                    + r#" limit 1)
                   from found f where f.job_key is not null)
                 select job_key as "job_key!" from found where job_key is not null limit $3"#,
                fingerprint,
                from,
                limit
            )
            .fetch_all(pool)
            .await
        };
    }
    either_way!(back, scan)
}

/// Keys of jobs from `from` on with running items, of one worker if given. Reads all leases: there are as many as
/// running items.
pub async fn jobs_with_leases(
    pool: &PgPool,
    worker: Option<&str>,
    back: bool,
    from: i64,
    limit: i64,
) -> Result<Vec<i64>, sqlx::Error> {
    macro_rules! scan {
        ($at:tt, $behind:tt, $order:tt) => {
            sqlx::query_scalar!(
                "select distinct job_key from lease where job_key "
                    + $at
                    + " $1 and ($2::text is null or worker_id = $2) order by job_key "
                    + $order
                    + " limit $3",
                from,
                worker,
                limit
            )
            .fetch_all(pool)
            .await
        };
    }
    either_way!(back, scan)
}

/// Keys of jobs from `from` on with items in a table of pending items: one index probe each.
macro_rules! jobs_in {
    ($table:tt, $pool:expr, $back:expr, $from:expr, $limit:expr) => {{
        macro_rules! scan {
            ($at:tt, $behind:tt, $order:tt) => {
                sqlx::query_scalar!(
                    "with recursive found (job_key) as (
                       (select job_key from "
                        + $table
                        + " where job_key "
                        + $at
                        + " $1 order by job_key "
                        + $order
                        + ", item_id "
                        + $order
                        + " limit 1)
                       union all
                       select (select w.job_key from "
                        + $table
                        + " w where w.job_key "
                        + $behind
                        + " f.job_key order by w.job_key "
                        + $order
                        + ", w.item_id "
                        + $order
                        + r#" limit 1)
                       from found f where f.job_key is not null)
                     select job_key as "job_key!" from found where job_key is not null limit $2"#,
                    $from,
                    $limit
                )
                .fetch_all($pool)
                .await
            };
        }
        either_way!($back, scan)
    }};
}

/// Keys of jobs from `from` on with deferred items.
pub async fn jobs_with_deferred(pool: &PgPool, back: bool, from: i64, limit: i64) -> Result<Vec<i64>, sqlx::Error> {
    jobs_in!("deferred", pool, back, from, limit)
}

/// Keys of jobs from `from` on with blocked items.
pub async fn jobs_with_blocked(pool: &PgPool, back: bool, from: i64, limit: i64) -> Result<Vec<i64>, sqlx::Error> {
    jobs_in!("blocked", pool, back, from, limit)
}

/// Keys of jobs from `from` on with an open propagation.
pub async fn jobs_propagating(pool: &PgPool, back: bool, from: i64, limit: i64) -> Result<Vec<i64>, sqlx::Error> {
    macro_rules! scan {
        ($at:tt, $behind:tt, $order:tt) => {
            sqlx::query_scalar!(
                "select distinct job_key from propagation where job_key "
                    + $at
                    + " $1 order by job_key "
                    + $order
                    + " limit $2",
                from,
                limit
            )
            .fetch_all(pool)
            .await
        };
    }
    either_way!(back, scan)
}
