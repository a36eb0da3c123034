//! Stored files as the database knows them, and how far each has been cut into items.

use domain::upload::{Upload, UploadFormat};
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

struct Row {
    id: Uuid,
    filename: String,
    bytes: i64,
    sha256: String,
    format: String,
    created_at: OffsetDateTime,
}

impl From<Row> for Upload {
    fn from(row: Row) -> Self {
        Self {
            id: row.id,
            filename: row.filename,
            bytes: row.bytes,
            sha256: row.sha256,
            format: UploadFormat::parse(&row.format).unwrap_or(UploadFormat::Csv),
            created_at: row.created_at.into(),
        }
    }
}

/// A file that is to be known.
#[derive(Clone, Debug)]
pub struct NewUpload {
    pub id: Uuid,
    pub owner_id: Uuid,
    pub filename: String,
    pub bytes: i64,
    pub sha256: String,
    pub format: UploadFormat,
}

/// Makes a file known.
pub async fn insert(connection: &mut sqlx::PgConnection, new: &NewUpload) -> Result<Upload, sqlx::Error> {
    sqlx::query_as!(
        Row,
        "insert into upload (id, owner_id, filename, bytes, sha256, format) values ($1, $2, $3, $4, $5, $6)
         returning id, filename, bytes, sha256, format, created_at",
        new.id,
        new.owner_id,
        new.filename,
        new.bytes,
        new.sha256,
        new.format.as_str()
    )
    .fetch_one(connection)
    .await
    .map(Into::into)
}

/// A file, if it is this owner's; `None` sees everybody's.
pub async fn find(pool: &PgPool, id: Uuid, owner_id: Option<Uuid>) -> Result<Option<Upload>, sqlx::Error> {
    let row = sqlx::query_as!(
        Row,
        "select id, filename, bytes, sha256, format, created_at from upload
         where id = $1 and ($2::uuid is null or owner_id = $2)",
        id,
        owner_id
    )
    .fetch_optional(pool)
    .await?;
    Ok(row.map(Into::into))
}

/// Forgets a file that no job was made of. False: there is none, or a job uses it.
pub async fn delete_unused(pool: &PgPool, id: Uuid) -> Result<bool, sqlx::Error> {
    let deleted = sqlx::query!("delete from upload where id = $1 and used_at is null", id).execute(pool).await?;
    Ok(deleted.rows_affected() == 1)
}

/// Forgets files that no job was made of for a day. Returns those it forgot, at most 100.
pub async fn forget_unused(pool: &PgPool) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "delete from upload where id in (
           select id from upload
           where used_at is null and created_at < clock_timestamp() - interval '24 hours'
           limit 100 for update skip locked)
         returning id"
    )
    .fetch_all(pool)
    .await
}

/// Those of the ids that are known.
pub async fn known(pool: &PgPool, ids: &[Uuid]) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!("select id from upload where id = any($1)", ids).fetch_all(pool).await
}

/// A file that is being cut.
#[derive(Clone, Debug)]
pub struct OpenSplit {
    pub gate_id: i64,
    pub job_id: Uuid,
    pub upload_id: Uuid,
    pub bytes: i64,
    pub head: String,
    pub byte_offset: i64,
    pub line: i64,
    pub payload_schema: Option<String>,
    /// JSON of the type's executor, as it is now.
    pub executor: String,
}

/// Takes the file that has waited longest for its turn. The turn is a hint, not a right: whoever moves
/// the place first has cut the rows.
pub async fn take_split(pool: &PgPool) -> Result<Option<OpenSplit>, sqlx::Error> {
    sqlx::query_as!(
        OpenSplit,
        "update split s set touched_at = clock_timestamp()
         from upload u, job j, job_type t
         where s.gate_id = (select gate_id from split where done_at is null
                            order by touched_at limit 1 for update skip locked)
           and u.id = s.upload_id and j.id = s.job_id and t.id = j.type_id
         returning s.gate_id, s.job_id, s.upload_id, u.bytes, s.head, s.byte_offset, s.line, j.payload_schema,
           t.executor"
    )
    .fetch_optional(pool)
    .await
}

/// Closes files whose jobs take no more items: cancelled, or sealed by somebody. Returns how many.
pub async fn close_splits(pool: &PgPool) -> Result<u64, sqlx::Error> {
    let closed = sqlx::query!(
        "update split s set done_at = clock_timestamp(), failed = 'the job took no more items'
         from gate g
         where g.gate_id = s.gate_id and s.done_at is null and (g.cancelled_at is not null or g.sealed)"
    )
    .execute(pool)
    .await?;
    Ok(closed.rows_affected())
}
