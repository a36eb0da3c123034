//! Resumable uploads: the received size of each, and its objects.

use domain::{
    Time,
    import::upload::{ResumableUpload, UploadFormat},
};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use crate::store::Tx;

/// A resumable upload.
#[derive(Clone, Debug)]
pub struct PartialUpload {
    pub id: Uuid,
    pub owner_id: Uuid,
    pub filename: String,
    pub format: Option<UploadFormat>,
    /// Announced size and received size, in bytes.
    pub bytes: i64,
    pub received: i64,
    pub created_at: Time,
    /// Time when bytes of it last arrived.
    pub touched_at: Time,
    /// The header `Upload-Metadata` of its creation.
    pub metadata: Option<String>,
    /// True if it has become an upload.
    pub is_finished: bool,
}

impl From<PartialUpload> for ResumableUpload {
    fn from(partial: PartialUpload) -> Self {
        Self {
            id: partial.id,
            filename: partial.filename,
            bytes: partial.bytes,
            received: partial.received,
            created_at: partial.created_at,
        }
    }
}

/// Creates a resumable upload without content.
pub async fn insert(
    tx: &mut Tx,
    owner_id: Uuid,
    filename: &str,
    format: Option<UploadFormat>,
    bytes: i64,
    metadata: Option<&str>,
) -> Result<PartialUpload, sqlx::Error> {
    let id = Uuid::now_v7();
    let row = sqlx::query!(
        "insert into upload_partial (id, owner_id, filename, format, bytes, metadata)
         values ($1, $2, $3, $4, $5, $6)
         returning created_at, touched_at",
        id,
        owner_id,
        filename,
        format.map(UploadFormat::as_str),
        bytes,
        metadata
    )
    .fetch_one(&mut **tx)
    .await?;
    Ok(PartialUpload {
        id,
        owner_id,
        filename: filename.to_owned(),
        format,
        bytes,
        received: 0,
        created_at: row.created_at.into(),
        touched_at: row.touched_at.into(),
        metadata: metadata.map(str::to_owned),
        is_finished: false,
    })
}

/// A resumable upload of this owner. A finished one is found as long as its upload exists.
pub async fn find(pool: &PgPool, id: Uuid, owner_id: Uuid) -> Result<Option<PartialUpload>, sqlx::Error> {
    let row = sqlx::query!(
        r#"select id, owner_id, filename, format, bytes, received, created_at, touched_at, metadata,
             finished_at is not null as "is_finished!"
           from upload_partial p
           where id = $1 and owner_id = $2
             and (finished_at is null or exists (select 1 from upload u where u.id = p.id))"#,
        id,
        owner_id
    )
    .fetch_optional(pool)
    .await?;
    Ok(row.map(|row| PartialUpload {
        id: row.id,
        owner_id: row.owner_id,
        filename: row.filename,
        format: row.format.as_deref().and_then(UploadFormat::parse),
        bytes: row.bytes,
        received: row.received,
        created_at: row.created_at.into(),
        touched_at: row.touched_at.into(),
        metadata: row.metadata,
        is_finished: row.is_finished,
    }))
}

/// Records a part that begins at `at`. Returns false if the file does not end there anymore.
pub async fn add_part(pool: &PgPool, id: Uuid, at: i64, bytes: i64, object_id: Uuid) -> Result<bool, sqlx::Error> {
    let added = sqlx::query!(
        "with moved as (
           update upload_partial set received = received + $3, touched_at = clock_timestamp()
           where id = $1 and received = $2 and finished_at is null
           returning id)
         insert into upload_part (partial_id, at_byte, bytes, object_id) select id, $2, $3, $4 from moved",
        id,
        at,
        bytes,
        object_id
    )
    .execute(pool)
    .await?;
    Ok(added.rows_affected() == 1)
}

/// The objects of a file in order, with their lengths.
pub async fn parts(pool: &PgPool, id: Uuid) -> Result<Vec<(Uuid, i64)>, sqlx::Error> {
    let rows = sqlx::query!("select object_id, bytes from upload_part where partial_id = $1 order by at_byte", id)
        .fetch_all(pool)
        .await?;
    Ok(rows.into_iter().map(|row| (row.object_id, row.bytes)).collect())
}

/// Number of parts of a file.
pub async fn count_parts(pool: &PgPool, id: Uuid) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(r#"select count(*) as "count!" from upload_part where partial_id = $1"#, id)
        .fetch_one(pool)
        .await
}

/// Marks a file as finished. Returns false if another request did so first or the file is gone.
pub async fn finish(connection: &mut PgConnection, id: Uuid) -> Result<bool, sqlx::Error> {
    let finished = sqlx::query!(
        "update upload_partial set finished_at = clock_timestamp(), touched_at = clock_timestamp()
         where id = $1 and finished_at is null and received = bytes",
        id
    )
    .execute(connection)
    .await?;
    Ok(finished.rows_affected() == 1)
}

/// Deletes the parts of a file. Returns their objects.
pub async fn take_parts(connection: &mut PgConnection, id: Uuid) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!("delete from upload_part where partial_id = $1 returning object_id", id)
        .fetch_all(connection)
        .await
}

/// Deletes an unfinished file. Returns its objects.
pub async fn remove(pool: &PgPool, id: Uuid) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "with gone as (delete from upload_partial where id = $1 and finished_at is null returning id)
         delete from upload_part p using gone where p.partial_id = gone.id returning p.object_id",
        id
    )
    .fetch_all(pool)
    .await
}

/// Deletes files without new data for `seconds`, at most `limit`. Returns their objects and the number of files.
pub async fn take_stale(pool: &PgPool, seconds: f64, limit: i64) -> Result<(Vec<Uuid>, usize), sqlx::Error> {
    let row = sqlx::query!(
        r#"with old as (
             select id from upload_partial where touched_at < clock_timestamp() - make_interval(secs => $1)
             order by touched_at limit $2 for update skip locked),
           parts as (delete from upload_part p using old where p.partial_id = old.id returning p.object_id),
           gone as (delete from upload_partial p using old where p.id = old.id returning p.id)
           select array(select object_id from parts) as "objects!", (select count(*) from gone) as "files!""#,
        seconds,
        limit
    )
    .fetch_one(pool)
    .await?;
    Ok((row.objects, row.files as usize))
}
