//! Workers that claimed, and the last claim of each type. Written every few seconds for all at once; the running
//! items are read from the leases.

use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::store::page_range::NamedOrder;

/// A worker that claimed `age` seconds ago.
#[derive(Clone, Debug)]
pub struct SeenRow {
    pub credential_id: Uuid,
    pub worker_id: String,
    pub owner_id: Uuid,
    pub types: Vec<String>,
    pub age: f64,
}

/// Records workers; `rows` sorted by credential and worker, so that servers do not deadlock. Types are passed as JSON
/// arrays, because an array of arrays must be rectangular.
pub async fn record_seen(pool: &PgPool, rows: &[SeenRow]) -> Result<(), sqlx::Error> {
    let credentials: Vec<Uuid> = rows.iter().map(|row| row.credential_id).collect();
    let workers: Vec<&str> = rows.iter().map(|row| row.worker_id.as_str()).collect();
    let owners: Vec<Uuid> = rows.iter().map(|row| row.owner_id).collect();
    let types: Vec<String> = rows.iter().map(|row| serde_json::to_string(&row.types).unwrap_or_default()).collect();
    let ages: Vec<f64> = rows.iter().map(|row| row.age).collect();
    sqlx::query!(
        "insert into worker (credential_id, worker_id, owner_id, types, last_seen_at)
         select credential_id, worker_id, owner_id, array(select json_array_elements_text(types::json)),
           clock_timestamp() - make_interval(secs => age)
         from unnest($1::uuid[], $2::text[], $3::uuid[], $4::text[], $5::float8[])
           as seen (credential_id, worker_id, owner_id, types, age)
         on conflict (credential_id, worker_id) do update
           set types = excluded.types, last_seen_at = greatest(worker.last_seen_at, excluded.last_seen_at)",
        &credentials,
        &workers as &[&str],
        &owners,
        &types,
        &ages
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Records the last claims of types, `ages` seconds ago; names sorted.
pub async fn record_claims(pool: &PgPool, names: &[String], ages: &[f64]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into type_last_claim (type_name, claimed_at)
         select type_name, clock_timestamp() - make_interval(secs => age)
         from unnest($1::text[], $2::float8[]) as claimed (type_name, age)
         on conflict (type_name) do update set claimed_at = greatest(type_last_claim.claimed_at, excluded.claimed_at)",
        names,
        ages
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Time of the last claim for a type, and its age in seconds.
#[derive(Clone, Debug)]
pub struct LastClaimRow {
    pub type_name: String,
    pub claimed_at: OffsetDateTime,
    pub age: f64,
}

/// Times of the last claims for these types; types that were never claimed are missing.
pub async fn last_claims(pool: &PgPool, names: &[String]) -> Result<Vec<LastClaimRow>, sqlx::Error> {
    sqlx::query_as!(
        LastClaimRow,
        r#"select type_name, claimed_at, extract(epoch from clock_timestamp() - claimed_at)::float8 as "age!"
           from type_last_claim where type_name = any($1::text[])"#,
        names
    )
    .fetch_all(pool)
    .await
}

/// A worker as the API lists it.
#[derive(Clone, Debug)]
pub struct WorkerRow {
    pub credential_id: Uuid,
    pub worker_id: String,
    pub owner: String,
    pub types: Vec<String>,
    pub open: i64,
    pub first_seen_at: OffsetDateTime,
    pub last_seen_at: OffsetDateTime,
}

/// The last worker of a page: its first claim, name and credential.
pub type WorkerPosition = (OffsetDateTime, String, Uuid);

/// A page of workers, of an owner or of all. Reads all leases: there are as many as running items, and an index would
/// slow every claim.
pub async fn list(
    pool: &PgPool,
    owner_id: Option<Uuid>,
    order: NamedOrder,
    behind: Option<&WorkerPosition>,
    limit: i64,
) -> Result<Vec<WorkerRow>, sqlx::Error> {
    macro_rules! listed {
        ($behind:tt, $order:tt) => {
    sqlx::query_as!(
        WorkerRow,
        r#"with leased as materialized (
             select credential_id, worker_id, count(*) as open, max(last_heartbeat_at) as last_heartbeat_at
             from lease group by credential_id, worker_id)
           select w.credential_id, w.worker_id, o.name as owner, w.types, coalesce(h.open, 0) as "open!", w.first_seen_at,
             greatest(w.last_seen_at, h.last_heartbeat_at) as "last_seen_at!"
           from worker w
           join owner o on o.id = w.owner_id
           left join leased h on h.credential_id = w.credential_id and h.worker_id = w.worker_id
           where ($1::uuid is null or w.owner_id = $1) and ($2::timestamptz is null or "#
                    + $behind
                    + ") order by "
                    + $order
                    + " limit $5",
        owner_id,
        behind.map(|place| place.0),
        behind.map(|place| place.1.as_str()),
        behind.map(|place| place.2),
        limit
    )
    .fetch_all(pool)
    .await
        };
    }
    match order {
        NamedOrder::NewestFirst => listed!(
            "(w.first_seen_at, w.worker_id, w.credential_id) < ($2, $3::text, $4::uuid)",
            "w.first_seen_at desc, w.worker_id desc, w.credential_id desc"
        ),
        NamedOrder::OldestFirst => listed!(
            "(w.first_seen_at, w.worker_id, w.credential_id) > ($2, $3::text, $4::uuid)",
            "w.first_seen_at, w.worker_id, w.credential_id"
        ),
        NamedOrder::ByName => {
            listed!("(w.worker_id, w.credential_id) > ($3::text, $4::uuid)", "w.worker_id, w.credential_id")
        }
        NamedOrder::ByNameBackwards => {
            listed!("(w.worker_id, w.credential_id) < ($3::text, $4::uuid)", "w.worker_id desc, w.credential_id desc")
        }
    }
}

/// One worker. Reads all leases, like [`list`].
pub async fn one(pool: &PgPool, credential_id: Uuid, worker_id: &str) -> Result<Option<WorkerRow>, sqlx::Error> {
    sqlx::query_as!(
        WorkerRow,
        r#"select w.credential_id, w.worker_id, o.name as owner, w.types, coalesce(h.open, 0) as "open!", w.first_seen_at,
             greatest(w.last_seen_at, h.last_heartbeat_at) as "last_seen_at!"
           from worker w
           join owner o on o.id = w.owner_id
           cross join lateral (
             select count(*) as open, max(last_heartbeat_at) as last_heartbeat_at from lease
             where credential_id = w.credential_id and worker_id = w.worker_id) h
           where w.credential_id = $1 and w.worker_id = $2"#,
        credential_id,
        worker_id
    )
    .fetch_optional(pool)
    .await
}

/// Items that a worker holds, longest first.
pub async fn claimed_items(
    pool: &PgPool,
    credential_id: Uuid,
    worker_id: &str,
    limit: i64,
) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "select item_id from lease where credential_id = $1 and worker_id = $2 order by started_at, id limit $3",
        credential_id,
        worker_id,
        limit
    )
    .fetch_all(pool)
    .await
}

/// Deletes workers that were not seen for a day, at most a thousand.
pub async fn forget(pool: &PgPool) -> Result<u64, sqlx::Error> {
    let gone = sqlx::query!(
        "delete from worker where ctid = any(array(
           select ctid from worker where last_seen_at < (select clock_timestamp()) - interval '1 day'
           order by last_seen_at limit 1000 for update skip locked))"
    )
    .execute(pool)
    .await?;
    Ok(gone.rows_affected())
}
