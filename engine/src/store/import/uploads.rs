//! Stored files, and the progress of their imports.

use domain::import::upload::{Upload, UploadFormat};
use sqlx::{PgExecutor, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::store::{Tx, commit};

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

/// A new file.
#[derive(Clone, Debug)]
pub struct NewUpload {
    pub id: Uuid,
    pub owner_id: Uuid,
    pub filename: String,
    pub bytes: i64,
    pub sha256: String,
    pub format: UploadFormat,
    /// The job that exported it: the file is stored as long as that job.
    pub made_by: Option<Uuid>,
}

/// Inserts a file.
pub async fn insert(connection: &mut sqlx::PgConnection, new: &NewUpload) -> Result<Upload, sqlx::Error> {
    sqlx::query_as!(
        Row,
        "insert into upload (id, owner_id, filename, bytes, sha256, format, made_by, used_at)
         values ($1, $2, $3, $4, $5, $6, $7, case when $7::uuid is not null then clock_timestamp() end)
         returning id, filename, bytes, sha256, format, created_at",
        new.id,
        new.owner_id,
        new.filename,
        new.bytes,
        new.sha256,
        new.format.as_str(),
        new.made_by
    )
    .fetch_one(connection)
    .await
    .map(Into::into)
}

/// A file of this owner; without `owner_id`, of any owner.
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

/// Owner of a file; `None` if there is no such file.
pub async fn owner(pool: &PgPool, id: Uuid) -> Result<Option<Uuid>, sqlx::Error> {
    sqlx::query_scalar!("select owner_id from upload where id = $1", id).fetch_optional(pool).await
}

/// Deletes an unused file. Returns its objects: itself and its converted sheets; none if it does not exist or a job uses it.
pub async fn delete_unused(on: impl PgExecutor<'_>, id: Uuid) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"with gone as (delete from upload where id = $1 and used_at is null returning id)
           select id as "id!" from gone
           union all select object_id from converted_sheet where upload_id in (select id from gone)"#,
        id
    )
    .fetch_all(on)
    .await
}

/// Deletes the file of an export, unless a job was created from it. Returns its objects; none if it does not exist or a job
/// uses it. A job that is created from it at the same moment makes this an error, because its row refers to the file.
pub async fn delete_exported(pool: &PgPool, id: Uuid) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"with gone as (
             delete from upload u
             where u.id = $1 and u.made_by is not null
               and not exists (select 1 from job j where j.upload_id = u.id)
               and not exists (select 1 from import_cursor s where s.upload_id = u.id)
             returning id)
           select id as "id!" from gone
           union all select object_id from converted_sheet where upload_id in (select id from gone)"#,
        id
    )
    .fetch_all(pool)
    .await
}

/// A file, if this token runs an item of a job that was created from it: a worker may read what it works on.
pub async fn find_for_worker(pool: &PgPool, id: Uuid, credential_id: Uuid) -> Result<Option<Upload>, sqlx::Error> {
    let row = sqlx::query_as!(
        Row,
        "select u.id, filename, bytes, sha256, format, u.created_at from upload u
         where u.id = $1 and exists (
           select 1 from job j join lease l on l.type_id = j.type_id and l.job_key = j.job_key
           where j.upload_id = u.id and l.credential_id = $2)",
        id,
        credential_id
    )
    .fetch_optional(pool)
    .await?;
    Ok(row.map(Into::into))
}

/// Deletes files that have been unused for `seconds`, at most `limit`. Returns their objects, with those of converted sheets.
pub async fn take_unused(pool: &PgPool, seconds: f64, limit: i64) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"with gone as (
             delete from upload where id in (
               select id from upload
               where used_at is null and created_at < (select clock_timestamp()) - make_interval(secs => $1)
               order by created_at limit $2 for update skip locked)
             returning id)
           select id as "id!" from gone
           union all select object_id from converted_sheet where upload_id in (select id from gone)"#,
        seconds,
        limit
    )
    .fetch_all(pool)
    .await
}

/// Deletes used files that no job references anymore, among the `limit` that were not checked for the longest time,
/// at least `seconds`. Returns the objects of the deleted files and the number of checked files.
///
/// Two statements: a transaction that creates a job from a file locks the file's row, and only a new statement sees
/// its result.
pub async fn take_unreferenced(pool: &PgPool, seconds: f64, limit: i64) -> Result<(Vec<Uuid>, usize), sqlx::Error> {
    let mut tx = crate::store::begin(pool).await?;
    let checked = sqlx::query_scalar!(
        "update upload set last_read_at = clock_timestamp() where id in (
           select id from upload
           where used_at is not null and last_read_at < (select clock_timestamp()) - make_interval(secs => $1)
           order by last_read_at limit $2 for update skip locked)
         returning id",
        seconds,
        limit
    )
    .fetch_all(&mut *tx)
    .await?;
    let gone = forget_unreferenced(&mut tx, &checked).await?;
    commit(tx).await?;
    Ok((gone, checked.len()))
}

/// Locks the files that these jobs were created from or have exported. Skips files that a transaction is using.
pub async fn lock_of_jobs(tx: &mut Tx, job_keys: &[i64]) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "select id from upload
         where used_at is not null and id = any(array(
           select upload_id from job where job_key = any($1::bigint[]) and upload_id is not null
           union
           select u.id from job j join upload u on u.made_by = j.id where j.job_key = any($1::bigint[])))
         order by id for update skip locked",
        job_keys
    )
    .fetch_all(&mut **tx)
    .await
}

/// Deletes those of these files that no job references anymore. Returns the objects that are then unused. A separate
/// statement after the locks, for the reason given at [`take_unreferenced`].
pub async fn forget_unreferenced(tx: &mut Tx, ids: &[Uuid]) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"with gone as (
             delete from upload u
             where u.id = any($1::uuid[])
               and not exists (select 1 from job j where j.upload_id = u.id)
               and not exists (select 1 from import_cursor s where s.upload_id = u.id)
               and not exists (select 1 from job j where j.id = u.made_by)
             returning id)
           select id as "id!" from gone
           union all select object_id from converted_sheet where upload_id in (select id from gone)"#,
        ids
    )
    .fetch_all(&mut **tx)
    .await
}

/// Objects with a record: files, their parts, and converted sheets.
pub async fn known_objects(pool: &PgPool, ids: &[Uuid]) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select id as "id!" from upload where id = any($1)
           union all select object_id from converted_sheet where object_id = any($1)
           union all select object_id from upload_part where object_id = any($1)"#,
        ids
    )
    .fetch_all(pool)
    .await
}

/// Id of this database, which its file store carries, too.
pub async fn deployment_id(pool: &PgPool) -> Result<Uuid, sqlx::Error> {
    sqlx::query_scalar!("select id from deployment").fetch_one(pool).await
}

/// The converted lines of a sheet: object and length.
pub async fn find_converted_sheet(
    pool: &PgPool,
    upload_id: Uuid,
    sheet: &str,
) -> Result<Option<(Uuid, i64)>, sqlx::Error> {
    let row = sqlx::query!(
        "select object_id, bytes from converted_sheet where upload_id = $1 and sheet = $2",
        upload_id,
        sheet
    )
    .fetch_optional(pool)
    .await?;
    Ok(row.map(|row| (row.object_id, row.bytes)))
}

/// Stored facts about a workbook.
#[derive(Clone, Debug, Default)]
pub struct WorkbookFacts {
    /// Names of its sheets; `None` if it has not been read successfully.
    pub sheets: Option<Vec<String>>,
    /// Reason why the sheet cannot be read, as found before.
    pub unreadable: Option<String>,
}

/// Stored facts about a workbook and one of its sheets; empty: the first one. An error of the whole file is stored
/// under the empty name.
pub async fn workbook_facts(pool: &PgPool, upload_id: Uuid, sheet: &str) -> Result<WorkbookFacts, sqlx::Error> {
    let row = sqlx::query_as!(
        WorkbookFacts,
        r#"select u.sheets, r.reason as "unreadable?" from upload u
           left join unreadable_sheet r on r.upload_id = u.id
             and r.sheet in ('', coalesce(nullif($2::text, ''), u.sheets[1]))
           where u.id = $1
           order by r.sheet
           limit 1"#,
        upload_id,
        sheet
    )
    .fetch_optional(pool)
    .await?;
    Ok(row.unwrap_or_default())
}

/// Stores the names of a workbook's sheets.
pub async fn set_sheets(pool: &PgPool, upload_id: Uuid, sheets: &[String]) -> Result<(), sqlx::Error> {
    sqlx::query!("update upload set sheets = $2 where id = $1 and sheets is null", upload_id, sheets)
        .execute(pool)
        .await?;
    Ok(())
}

/// Records that a sheet cannot be read, with the reason.
pub async fn insert_unreadable(pool: &PgPool, upload_id: Uuid, sheet: &str, reason: &str) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into unreadable_sheet (upload_id, sheet, reason)
         select id, $2, $3 from upload where id = $1 for key share
         on conflict (upload_id, sheet) do nothing",
        upload_id,
        sheet,
        reason
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Stores the converted lines of a sheet. Returns false if another server was first or the file is gone.
pub async fn insert_converted_sheet(
    connection: &mut sqlx::PgConnection,
    upload_id: Uuid,
    sheet: &str,
    object_id: Uuid,
    bytes: i64,
) -> Result<bool, sqlx::Error> {
    let done = sqlx::query!(
        "insert into converted_sheet (upload_id, sheet, object_id, bytes)
         select id, $2, $3, $4 from upload where id = $1 for key share
         on conflict (upload_id, sheet) do nothing",
        upload_id,
        sheet,
        object_id,
        bytes
    )
    .execute(connection)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// A file that is being imported.
#[derive(Clone, Debug)]
pub struct OpenImport {
    pub job_key: i64,
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

/// Takes the open import that was touched longest ago. One that continues a replay waits for the rows that are copied. This
/// is a hint, not a lock: the transaction that advances the position first has imported the rows.
pub async fn take_import(pool: &PgPool) -> Result<Option<OpenImport>, sqlx::Error> {
    sqlx::query_as!(
        OpenImport,
        "update import_cursor s set touched_at = clock_timestamp()
         from upload u, job j, job_type t
         where s.job_key = (select c.job_key from import_cursor c where c.done_at is null
                              and not exists (select 1 from replay_copy r where r.job_key = c.job_key)
                            order by c.touched_at limit 1 for update of c skip locked)
           and u.id = s.upload_id and j.id = s.job_id and t.id = j.type_id
         returning s.job_key, s.job_id, s.upload_id, u.bytes, s.head, s.byte_offset, s.line, j.payload_schema,
           t.executor"
    )
    .fetch_optional(pool)
    .await
}

/// Closes imports of jobs that take no more items, because they are canceled or sealed. Returns their number.
pub async fn close_imports(pool: &PgPool) -> Result<u64, sqlx::Error> {
    let closed = sqlx::query!(
        "update import_cursor s set done_at = clock_timestamp(), failed = 'the job took no more items'
         from job_state g
         where g.job_key = s.job_key and s.done_at is null and (g.cancelled_at is not null or g.sealed)"
    )
    .execute(pool)
    .await?;
    Ok(closed.rows_affected())
}
