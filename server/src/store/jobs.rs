//! Job definitions: written once, when a tree is created.

use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use super::Tx;

/// A job to be written.
#[derive(Clone, Debug)]
pub struct NewJobRow {
    pub id: Uuid,
    pub root_id: Uuid,
    pub gate_id: i64,
    pub ord: i32,
    pub parent_id: Option<Uuid>,
    pub owner_id: Uuid,
    pub type_id: i32,
    pub key: String,
    pub name: Option<String>,
    pub delivery: &'static str,
    pub max_failures: Option<i32>,
    pub steps: Vec<String>,
    pub payload_schema: Option<String>,
    pub retain_seconds: Option<i64>,
    pub priority: i16,
    pub run_after: Option<OffsetDateTime>,
    pub expires_at: Option<OffsetDateTime>,
    pub expected_count: Option<i64>,
    pub final_stage: bool,
    pub metadata: String,
    pub initiated_by: Option<String>,
    pub on_completed: Option<String>,
    pub upload_id: Option<Uuid>,
    pub turn_gate_id: i64,
}

/// Writes one job. An id that is in use fails on `job_pkey`.
pub async fn insert(tx: &mut Tx, job: &NewJobRow) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into job (id, root_id, gate_id, ord, parent_id, owner_id, type_id, key, name, delivery,
           max_failures, steps, payload_schema, retain_seconds, priority, run_after, expires_at,
           expected_count, final_stage, metadata, initiated_by, on_completed, upload_id, turn_gate_id)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20,
           $21, $22, $23, $24)",
        job.id,
        job.root_id,
        job.gate_id,
        job.ord,
        job.parent_id,
        job.owner_id,
        job.type_id,
        job.key,
        job.name,
        job.delivery,
        job.max_failures,
        &job.steps,
        job.payload_schema,
        job.retain_seconds,
        job.priority,
        job.run_after,
        job.expires_at,
        job.expected_count,
        job.final_stage,
        job.metadata,
        job.initiated_by,
        job.on_completed,
        job.upload_id,
        job.turn_gate_id
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// The job's tree and owner, for deciding who may see it.
pub async fn owner(pool: &PgPool, id: Uuid) -> Result<Option<(Uuid, Uuid)>, sqlx::Error> {
    let row = sqlx::query!("select root_id, owner_id from job where id = $1", id).fetch_optional(pool).await?;
    Ok(row.map(|row| (row.root_id, row.owner_id)))
}

/// A file that is to be cut into the items of a job.
#[derive(Clone, Debug)]
pub struct NewSplit {
    pub gate_id: i64,
    pub job_id: Uuid,
    pub upload_id: Uuid,
    pub format: &'static str,
    /// What the head of the file says, as text the splitter wrote.
    pub head: String,
    pub byte_offset: i64,
    pub line: i64,
}

/// Asks for a file to be split, and marks it used.
pub async fn insert_split(tx: &mut Tx, split: &NewSplit) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into split (gate_id, job_id, upload_id, format, head, byte_offset, line)
         values ($1, $2, $3, $4, $5, $6, $7)",
        split.gate_id,
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

/// Moves the place in a file from one record boundary to a later one. False: somebody else has moved
/// it meanwhile, and the rows between belong to them.
pub async fn move_split(
    tx: &mut Tx,
    gate_id: i64,
    from: i64,
    to: i64,
    line: i64,
    done: bool,
) -> Result<bool, sqlx::Error> {
    let moved = sqlx::query!(
        "update split set byte_offset = $3, line = $4, touched_at = clock_timestamp(),
           done_at = case when $5 then clock_timestamp() end
         where gate_id = $1 and byte_offset = $2 and done_at is null",
        gate_id,
        from,
        to,
        line,
        done
    )
    .execute(&mut **tx)
    .await?;
    Ok(moved.rows_affected() == 1)
}

/// Which of these jobs are still being filled from a file.
pub async fn being_split(tx: &mut Tx, gate_ids: &[i64]) -> Result<Vec<i64>, sqlx::Error> {
    sqlx::query_scalar!("select gate_id from split where gate_id = any($1::bigint[]) and done_at is null", gate_ids)
        .fetch_all(&mut **tx)
        .await
}

/// Corrects the expected number of items of a job, where the estimate has become better.
pub async fn set_expected(tx: &mut Tx, gate_id: i64, expected: Option<i64>) -> Result<(), sqlx::Error> {
    sqlx::query!("update job set expected_count = $2 where gate_id = $1", gate_id, expected).execute(&mut **tx).await?;
    Ok(())
}
