//! Job keys in order from a given one, with one index scan for each kind of filter.
//!
//! Each scan exists for both directions: an index can be read backward, but only if the statement says so.

use sqlx::PgPool;
use uuid::Uuid;

/// Runs a statement in either direction: `$at` is `>=` or `<=`, `$behind` is `>` or `<`, `$order` is `asc` or `desc`.
macro_rules! either_way {
    ($back:expr, $walk:ident) => {
        if $back { $walk!("<=", "<", "desc") } else { $walk!(">=", ">", "asc") }
    };
}

/// Keys of all jobs from `from` on.
pub async fn walk_gates(pool: &PgPool, back: bool, from: i64, limit: i64) -> Result<Vec<i64>, sqlx::Error> {
    macro_rules! walk {
        ($at:tt, $behind:tt, $order:tt) => {
            sqlx::query_scalar!(
                "select gate_id from job where gate_id " + $at + " $1 order by gate_id " + $order + " limit $2",
                from,
                limit
            )
            .fetch_all(pool)
            .await
        };
    }
    either_way!(back, walk)
}

/// Keys of a type's jobs from `from` on.
pub async fn walk_gates_of_type(
    pool: &PgPool,
    type_id: i32,
    back: bool,
    from: i64,
    limit: i64,
) -> Result<Vec<i64>, sqlx::Error> {
    macro_rules! walk {
        ($at:tt, $behind:tt, $order:tt) => {
            sqlx::query_scalar!(
                "select gate_id from job where type_id = $1 and gate_id "
                    + $at
                    + " $2 order by gate_id "
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
    either_way!(back, walk)
}

/// Keys of an owner's jobs from `from` on: roots and children have an index each, and are merged.
pub async fn walk_gates_of(
    pool: &PgPool,
    owner_id: Uuid,
    back: bool,
    from: i64,
    limit: i64,
) -> Result<Vec<i64>, sqlx::Error> {
    macro_rules! walk {
        ($at:tt, $behind:tt, $order:tt) => {
            sqlx::query_scalar!(
                r#"(select gate_id as "gate_id!" from job where owner_id = $1 and parent_id is null and gate_id "#
                    + $at
                    + " $2 order by gate_id "
                    + $order
                    + " limit $3)
                    union all
                    (select gate_id from job where owner_id = $1 and parent_id is not null and gate_id "
                    + $at
                    + " $2 order by gate_id "
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
    either_way!(back, walk)
}

/// Keys of jobs from `from` on with items in a final state other than succeeded: one index probe each.
pub async fn gates_with_state(
    pool: &PgPool,
    state: i16,
    back: bool,
    from: i64,
    limit: i64,
) -> Result<Vec<i64>, sqlx::Error> {
    macro_rules! walk {
        ($at:tt, $behind:tt, $order:tt) => {
            sqlx::query_scalar!(
                "with recursive found (gate_id) as (
                   (select gate_id from outcome where state = $1 and state <> 1 and gate_id "
                    + $at
                    + " $2 order by gate_id "
                    + $order
                    + ", seq "
                    + $order
                    + " limit 1)
                   union all
                   select (select o.gate_id from outcome o
                           where o.state = $1 and o.state <> 1 and o.gate_id "
                    + $behind
                    + " f.gate_id order by o.gate_id "
                    + $order
                    + ", o.seq "
                    + $order
                    + r#" limit 1)
                   from found f where f.gate_id is not null)
                 select gate_id as "gate_id!" from found where gate_id is not null limit $3"#,
                state,
                from,
                limit
            )
            .fetch_all(pool)
            .await
        };
    }
    either_way!(back, walk)
}

/// Keys of jobs from `from` on with an error of this fingerprint.
pub async fn gates_with_error(
    pool: &PgPool,
    fingerprint: &str,
    back: bool,
    from: i64,
    limit: i64,
) -> Result<Vec<i64>, sqlx::Error> {
    macro_rules! walk {
        ($at:tt, $behind:tt, $order:tt) => {
            sqlx::query_scalar!(
                "with recursive found (gate_id) as (
                   (select gate_id from outcome where fingerprint = $1 and gate_id "
                    + $at
                    + " $2 order by gate_id "
                    + $order
                    + ", seq "
                    + $order
                    + " limit 1)
                   union all
                   select (select o.gate_id from outcome o where o.fingerprint = $1 and o.gate_id "
                    + $behind
                    + " f.gate_id order by o.gate_id "
                    + $order
                    + ", o.seq "
                    + $order
                    + r#" limit 1)
                   from found f where f.gate_id is not null)
                 select gate_id as "gate_id!" from found where gate_id is not null limit $3"#,
                fingerprint,
                from,
                limit
            )
            .fetch_all(pool)
            .await
        };
    }
    either_way!(back, walk)
}

/// Keys of jobs from `from` on with running items, of one worker if given. Reads all leases: there are as many as
/// running items.
pub async fn gates_with_leases(
    pool: &PgPool,
    worker: Option<&str>,
    back: bool,
    from: i64,
    limit: i64,
) -> Result<Vec<i64>, sqlx::Error> {
    macro_rules! walk {
        ($at:tt, $behind:tt, $order:tt) => {
            sqlx::query_scalar!(
                "select distinct gate_id from lease where gate_id "
                    + $at
                    + " $1 and ($2::text is null or worker_id = $2) order by gate_id "
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
    either_way!(back, walk)
}

/// Keys of jobs from `from` on with items in a table of pending items: one index probe each.
macro_rules! gates_in {
    ($table:tt, $pool:expr, $back:expr, $from:expr, $limit:expr) => {{
        macro_rules! walk {
            ($at:tt, $behind:tt, $order:tt) => {
                sqlx::query_scalar!(
                    "with recursive found (gate_id) as (
                       (select gate_id from "
                        + $table
                        + " where gate_id "
                        + $at
                        + " $1 order by gate_id "
                        + $order
                        + ", item_id "
                        + $order
                        + " limit 1)
                       union all
                       select (select w.gate_id from "
                        + $table
                        + " w where w.gate_id "
                        + $behind
                        + " f.gate_id order by w.gate_id "
                        + $order
                        + ", w.item_id "
                        + $order
                        + r#" limit 1)
                       from found f where f.gate_id is not null)
                     select gate_id as "gate_id!" from found where gate_id is not null limit $2"#,
                    $from,
                    $limit
                )
                .fetch_all($pool)
                .await
            };
        }
        either_way!($back, walk)
    }};
}

/// Keys of jobs from `from` on with deferred items.
pub async fn gates_with_deferred(pool: &PgPool, back: bool, from: i64, limit: i64) -> Result<Vec<i64>, sqlx::Error> {
    gates_in!("deferred", pool, back, from, limit)
}

/// Keys of jobs from `from` on with blocked items.
pub async fn gates_with_blocked(pool: &PgPool, back: bool, from: i64, limit: i64) -> Result<Vec<i64>, sqlx::Error> {
    gates_in!("blocked", pool, back, from, limit)
}

/// Keys of jobs from `from` on with an open propagation.
pub async fn gates_moving(pool: &PgPool, back: bool, from: i64, limit: i64) -> Result<Vec<i64>, sqlx::Error> {
    macro_rules! walk {
        ($at:tt, $behind:tt, $order:tt) => {
            sqlx::query_scalar!(
                "select distinct gate_id from carry where gate_id "
                    + $at
                    + " $1 order by gate_id "
                    + $order
                    + " limit $2",
                from,
                limit
            )
            .fetch_all(pool)
            .await
        };
    }
    either_way!(back, walk)
}
