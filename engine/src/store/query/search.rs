//! Queries of the search that no list has: files by id and name, and dead items of the newest jobs.
//! Each scans an index from the newest row, up to a fixed number of rows.

use sqlx::PgPool;
use uuid::Uuid;

/// Roots created from files with a matching name, newest first, with that name: among the newest 5,000 files of an
/// owner, or of all. `pattern` is escaped for `like`.
pub async fn roots_of_files(
    pool: &PgPool,
    owner_id: Option<Uuid>,
    pattern: &str,
    limit: i64,
) -> Result<Vec<(Uuid, String)>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"select j.root_id as "root_id!", u.filename as "filename!"
           from (
             select id, filename from (
               (select id, filename from upload where $1::uuid is null order by id desc limit 5000)
               union all
               (select id, filename from upload where owner_id = $1 order by created_at desc limit 5000)) newest
             where filename ilike $2 order by id desc limit $3) u
           cross join lateral (select root_id from job where upload_id = u.id order by job_key desc limit 1) j
           order by u.id desc"#,
        owner_id,
        pattern,
        limit
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(|row| (row.root_id, row.filename)).collect())
}

/// A stored file that a search has found.
#[derive(Clone, Debug)]
pub struct FoundFile {
    pub id: Uuid,
    pub owner_id: Uuid,
    pub filename: String,
    pub bytes: i64,
    /// An export wrote it.
    pub is_export: bool,
    /// Newest tree that uses it.
    pub root_id: Option<Uuid>,
}

/// Files with this id, or else unused ones with a matching name, newest first, among the newest 5,000. `pattern` is
/// escaped for `like`.
pub async fn files(
    pool: &PgPool,
    owner_id: Option<Uuid>,
    id: Option<Uuid>,
    pattern: &str,
    limit: i64,
) -> Result<Vec<FoundFile>, sqlx::Error> {
    sqlx::query_as!(
        FoundFile,
        r#"select u.id as "id!", u.owner_id as "owner_id!", u.filename as "filename!", u.bytes as "bytes!",
             u.is_export as "is_export!", j.root_id as "root_id?"
           from (
             (select id, owner_id, filename, bytes, made_by is not null as is_export from upload
              where id = $2 and ($1::uuid is null or owner_id = $1))
             union all
             (select id, owner_id, filename, bytes, false from (
                select id, owner_id, filename, bytes from upload
                where $2::uuid is null and used_at is null and made_by is null and ($1::uuid is null or owner_id = $1)
                order by created_at desc limit 5000) newest
              where filename ilike $3 limit $4)) u
           left join lateral (select root_id from job where upload_id = u.id order by job_key desc limit 1) j on true"#,
        owner_id,
        id,
        pattern,
        limit
    )
    .fetch_all(pool)
    .await
}

/// Dead items, newest job first, and newest item of each job first: of all, or of an owner's newest 500 jobs.
pub async fn newest_dead(pool: &PgPool, owner_id: Option<Uuid>, limit: i64) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select item_id as "item_id!" from (
             (select item_id, job_key, seq from outcome where $1::uuid is null and state = 2 and state <> 1
              order by job_key desc, seq desc limit $2)
             union all
             (select d.item_id, d.job_key, d.seq
              from (
                select job_key from (
                  (select job_key from job where owner_id = $1 and parent_id is null order by job_key desc limit 500)
                  union all
                  (select job_key from job where owner_id = $1 and parent_id is not null
                   order by job_key desc limit 500)) some_of
                order by job_key desc limit 500) j
              cross join lateral (
                select item_id, job_key, seq from outcome where state = 2 and state <> 1 and job_key = j.job_key
                order by seq desc limit $2) d
              order by d.job_key desc, d.seq desc limit $2)) newest
           order by job_key desc, seq desc limit $2"#,
        owner_id,
        limit
    )
    .fetch_all(pool)
    .await
}
