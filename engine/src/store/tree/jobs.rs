//! Job definitions: written once, when a tree is created.

use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use super::job_states::LockedJobState;
use crate::store::Tx;

/// A new job. Delivery, steps, schema and retention are copied from its type on insert.
#[derive(Clone, Debug)]
pub struct NewJobRow {
    pub id: Uuid,
    pub root_id: Uuid,
    pub job_key: i64,
    pub ord: i32,
    pub parent_id: Option<Uuid>,
    pub owner_id: Uuid,
    pub type_id: i32,
    pub key: String,
    pub name: Option<String>,
    /// Null: unlimited.
    pub max_failures: Option<i32>,
    pub priority: i16,
    pub run_after: Option<OffsetDateTime>,
    pub expires_at: Option<OffsetDateTime>,
    pub expected_count: Option<i64>,
    pub final_stage: bool,
    pub feed: Option<String>,
    /// Keys of jobs of the same tree, separated by commas.
    pub after: String,
    pub after_outcome: Option<String>,
    pub metadata: String,
    pub dedupe_key: Option<String>,
    pub initiated_by: Option<String>,
    pub on_completed: Option<String>,
    pub upload_id: Option<Uuid>,
    pub replay_of: Option<Uuid>,
    pub body_hash: Option<Vec<u8>>,
    pub fair_turn_job_key: i64,
    /// Credential of the requester, and true if it can see all owners' work.
    pub requested_by: Uuid,
    pub requester_sees_all: bool,
    /// Trace context of the request.
    pub traceparent: Option<String>,
}

/// Settings of a job's type as they were when the job was created.
#[derive(Clone, Debug)]
pub struct FrozenSettings {
    pub id: Uuid,
    pub delivery: String,
    pub steps: Vec<String>,
    pub payload_schema: Option<String>,
}

/// Inserts jobs, by id. Returns the inserted ones; omits jobs whose id is in use or whose type is gone.
pub async fn insert(tx: &mut Tx, jobs: &[NewJobRow]) -> Result<Vec<FrozenSettings>, sqlx::Error> {
    sqlx::query_as!(
        FrozenSettings,
        r#"insert into job (id, root_id, job_key, ord, parent_id, owner_id, type_id, key, name, delivery, max_failures,
             steps, payload_schema, retain_seconds, priority, run_after, expires_at, expected_count, final_stage, feed,
             after, after_outcome, metadata, dedupe_key, initiated_by, on_completed, upload_id, replay_of, body_hash,
             fair_turn_job_key, requested_by, requester_sees_all, traceparent)
           select n.id, n.root_id, n.job_key, n.ord, n.parent_id, n.owner_id, n.type_id, n.key, n.name, t.delivery,
             n.max_failures, t.steps, t.payload_schema, t.retain_seconds, n.priority, n.run_after, n.expires_at,
             n.expected_count, n.final_stage, n.feed, string_to_array(n.after, ','), n.after_outcome, n.metadata,
             n.dedupe_key, n.initiated_by, n.on_completed, n.upload_id, n.replay_of, n.body_hash, n.fair_turn_job_key,
             n.requested_by, n.requester_sees_all, n.traceparent
           from unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::int[], $5::uuid[], $6::uuid[], $7::int[], $8::text[],
                  $9::text[], $10::int[], $11::smallint[], $12::timestamptz[], $13::timestamptz[], $14::bigint[],
                  $15::bool[], $16::text[], $17::text[], $18::text[], $19::text[], $20::text[], $21::text[],
                  $22::text[], $23::uuid[], $24::uuid[], $25::bytea[], $26::bigint[], $27::uuid[],
                  $28::bool[], $29::text[])
             as n (id, root_id, job_key, ord, parent_id, owner_id, type_id, key, name, max_failures, priority, run_after,
                  expires_at, expected_count, final_stage, feed, after, after_outcome, metadata, dedupe_key,
                  initiated_by, on_completed, upload_id, replay_of, body_hash, fair_turn_job_key, requested_by,
                  requester_sees_all, traceparent)
           join job_type t on t.id = n.type_id
           order by n.id
           on conflict do nothing
           returning id, delivery, steps, payload_schema"#,
        &column(jobs, |j| j.id),
        &column(jobs, |j| j.root_id),
        &column(jobs, |j| j.job_key),
        &column(jobs, |j| j.ord),
        &column(jobs, |j| j.parent_id) as &[Option<Uuid>],
        &column(jobs, |j| j.owner_id),
        &column(jobs, |j| j.type_id),
        &column(jobs, |j| j.key.as_str()) as &[&str],
        &column(jobs, |j| j.name.as_deref()) as &[Option<&str>],
        &column(jobs, |j| j.max_failures) as &[Option<i32>],
        &column(jobs, |j| j.priority),
        &column(jobs, |j| j.run_after) as &[Option<OffsetDateTime>],
        &column(jobs, |j| j.expires_at) as &[Option<OffsetDateTime>],
        &column(jobs, |j| j.expected_count) as &[Option<i64>],
        &column(jobs, |j| j.final_stage),
        &column(jobs, |j| j.feed.as_deref()) as &[Option<&str>],
        &column(jobs, |j| j.after.as_str()) as &[&str],
        &column(jobs, |j| j.after_outcome.as_deref()) as &[Option<&str>],
        &column(jobs, |j| j.metadata.as_str()) as &[&str],
        &column(jobs, |j| j.dedupe_key.as_deref()) as &[Option<&str>],
        &column(jobs, |j| j.initiated_by.as_deref()) as &[Option<&str>],
        &column(jobs, |j| j.on_completed.as_deref()) as &[Option<&str>],
        &column(jobs, |j| j.upload_id) as &[Option<Uuid>],
        &column(jobs, |j| j.replay_of) as &[Option<Uuid>],
        &column(jobs, |j| j.body_hash.as_deref()) as &[Option<&[u8]>],
        &column(jobs, |j| j.fair_turn_job_key),
        &column(jobs, |j| j.requested_by),
        &column(jobs, |j| j.requester_sees_all),
        &column(jobs, |j| j.traceparent.as_deref()) as &[Option<&str>],
    )
    .fetch_all(&mut **tx)
    .await
}

fn column<'a, R, T>(rows: &'a [R], of: impl Fn(&'a R) -> T) -> Vec<T> {
    rows.iter().map(of).collect()
}

/// A new job state row.
#[derive(Clone, Copy, Debug)]
pub struct NewJobStateRow {
    pub job_key: i64,
    pub root_id: Uuid,
    /// A tree of one job.
    pub solo: bool,
    /// On the root's job state row: number of jobs of the tree.
    pub open_jobs: i32,
    /// Number of jobs that it waits for.
    pub after_open: i32,
    /// On the root's job state row: true if the tree has a receiver.
    pub calls: bool,
}

impl NewJobStateRow {
    /// The row as this transaction has locked it.
    pub fn locked(&self) -> LockedJobState {
        LockedJobState {
            job_key: self.job_key,
            sealed: false,
            cancelled: false,
            deleted: false,
            next_seq: 1,
            last_fair_turn: 0,
            after_open: self.after_open,
            after_failed: false,
        }
    }
}

/// Writes the job state rows of new trees.
pub async fn insert_job_states(tx: &mut Tx, job_states: &[NewJobStateRow]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into job_state (job_key, root_id, solo, open_jobs, after_open, calls)
         select * from unnest($1::bigint[], $2::uuid[], $3::bool[], $4::int[], $5::int[], $6::bool[])",
        &column(job_states, |g| g.job_key),
        &column(job_states, |g| g.root_id),
        &column(job_states, |g| g.solo),
        &column(job_states, |g| g.open_jobs),
        &column(job_states, |g| g.after_open),
        &column(job_states, |g| g.calls),
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Records the times at which jobs are sealed because they expire (`start-and-expiry`).
pub async fn insert_deadlines(tx: &mut Tx, deadlines: &[(i64, OffsetDateTime)]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into deadline (job_key, expires_at) select * from unnest($1::bigint[], $2::timestamptz[])",
        &column(deadlines, |d| d.0),
        &column(deadlines, |d| d.1)
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// A job's dedupe key (`dedupe-key`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobDedupeKey {
    pub owner_id: Uuid,
    pub type_id: i32,
    pub key: String,
}

/// Inserts dedupe keys, in order. Returns the jobs that got theirs. Waits for concurrent inserts of the same keys.
pub async fn take_keys(tx: &mut Tx, keys: &[(JobDedupeKey, Uuid)]) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "insert into job_dedupe (owner_id, type_id, key, job_id)
         select owner_id, type_id, key, job_id
         from unnest($1::uuid[], $2::int[], $3::text[], $4::uuid[]) as new (owner_id, type_id, key, job_id)
         order by owner_id, type_id, key
         on conflict do nothing
         returning job_id",
        &column(keys, |k| k.0.owner_id),
        &column(keys, |k| k.0.type_id),
        &column(keys, |k| k.0.key.as_str()) as &[&str],
        &column(keys, |k| k.1),
    )
    .fetch_all(&mut **tx)
    .await
}

/// The jobs that hold these dedupe keys.
pub async fn holders(pool: &PgPool, keys: &[JobDedupeKey]) -> Result<Vec<(JobDedupeKey, Uuid)>, sqlx::Error> {
    let rows = sqlx::query!(
        "select owner_id, type_id, key, job_id from job_dedupe
         where (owner_id, type_id, key) in (select * from unnest($1::uuid[], $2::int[], $3::text[]))",
        &column(keys, |k| k.owner_id),
        &column(keys, |k| k.type_id),
        &column(keys, |k| k.key.as_str()) as &[&str],
    )
    .fetch_all(pool)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| (JobDedupeKey { owner_id: row.owner_id, type_id: row.type_id, key: row.key }, row.job_id))
        .collect())
}

/// Job that uses an id.
#[derive(Clone, Debug)]
pub struct IdUse {
    pub id: Uuid,
    pub owner_id: Uuid,
    /// True for an existing root; false for other jobs and for deleted ones.
    pub is_root: bool,
    /// SHA-256 of the body that created its tree, if the client chose the id.
    pub body_hash: Option<Vec<u8>>,
}

/// Ids among these that are or were jobs.
pub async fn ids_in_use(pool: &PgPool, ids: &[Uuid]) -> Result<Vec<IdUse>, sqlx::Error> {
    sqlx::query_as!(
        IdUse,
        r#"select j.id as "id!", j.owner_id as "owner_id!", j.parent_id is null and g.deleted_at is null as "is_root!",
             j.body_hash
           from job j join job_state g on g.job_key = j.job_key where j.id = any($1::uuid[])
           union all
           select r.job_id, r.owner_id, false, null from tombstone r
           where r.job_id = any($1::uuid[]) and not exists (select 1 from job j where j.id = r.job_id)"#,
        ids
    )
    .fetch_all(pool)
    .await
}

/// Ids among these that were jobs and have been deleted.
pub async fn deleted_ids(tx: &mut Tx, ids: &[Uuid]) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!("select job_id from tombstone where job_id = any($1::uuid[])", ids).fetch_all(&mut **tx).await
}

/// Root and owner of a job, for authorization.
pub async fn owner(pool: &PgPool, id: Uuid) -> Result<Option<(Uuid, Uuid)>, sqlx::Error> {
    let row = sqlx::query!("select root_id, owner_id from job where id = $1", id).fetch_optional(pool).await?;
    Ok(row.map(|row| (row.root_id, row.owner_id)))
}

/// A file that is to be imported into the items of a job.
#[derive(Clone, Debug)]
pub struct NewImportCursor {
    pub job_key: i64,
    pub job_id: Uuid,
    pub upload_id: Uuid,
    pub format: &'static str,
    /// Head of the file, as text that the import wrote.
    pub head: String,
    pub byte_offset: i64,
    pub line: i64,
}

/// Starts the import of a file, and marks the file as used.
pub async fn insert_import_cursor(tx: &mut Tx, split: &NewImportCursor) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into import_cursor (job_key, job_id, upload_id, format, head, byte_offset, line)
         values ($1, $2, $3, $4, $5, $6, $7)",
        split.job_key,
        split.job_id,
        split.upload_id,
        split.format,
        split.head,
        split.byte_offset,
        split.line
    )
    .execute(&mut **tx)
    .await?;
    sqlx::query!("update upload set used_at = coalesce(used_at, clock_timestamp()) where id = $1", split.upload_id)
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// Advances the position in a file from one record boundary to a later one. Returns false if another transaction has
/// advanced it, and the rows between belong to that transaction.
pub async fn advance_import_cursor(
    tx: &mut Tx,
    job_key: i64,
    from: i64,
    to: i64,
    line: i64,
    done: bool,
) -> Result<bool, sqlx::Error> {
    let moved = sqlx::query!(
        "update import_cursor set byte_offset = $3, line = $4, touched_at = clock_timestamp(),
           done_at = case when $5 then clock_timestamp() end
         where job_key = $1 and byte_offset = $2 and done_at is null",
        job_key,
        from,
        to,
        line,
        done
    )
    .execute(&mut **tx)
    .await?;
    Ok(moved.rows_affected() == 1)
}

/// Jobs that are still being filled from a file.
pub async fn being_imported(tx: &mut Tx, job_keys: &[i64]) -> Result<Vec<i64>, sqlx::Error> {
    sqlx::query_scalar!(
        "select job_key from import_cursor where job_key = any($1::bigint[]) and done_at is null",
        job_keys
    )
    .fetch_all(&mut **tx)
    .await
}

/// Updates the expected number of items of a job when the estimate improves.
pub async fn set_expected(tx: &mut Tx, job_key: i64, expected: Option<i64>) -> Result<(), sqlx::Error> {
    sqlx::query!("update job set expected_count = $2 where job_key = $1", job_key, expected).execute(&mut **tx).await?;
    Ok(())
}
