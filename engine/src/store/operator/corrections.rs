//! Rows of a corrected file and the failed rows that they replace (`corrections`).

use sqlx::PgPool;
use uuid::Uuid;

use crate::store::Tx;

/// An import whose rows are still being matched.
#[derive(Clone, Copy, Debug)]
pub struct Correction {
    pub job_key: i64,
    pub corrects_job_key: i64,
    /// Items of the import up to this place have been matched.
    pub seq: i64,
}

/// Records that an import corrects failed rows of `job_id`, if that job is of the same owner.
pub async fn insert(tx: &mut Tx, job_key: i64, job_id: Uuid, owner_id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into correction (job_key, corrects_job_key)
         select $1, job_key from job where id = $2 and owner_id = $3 and job_key <> $1",
        job_key,
        job_id,
        owner_id
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Imports whose rows are still being matched, at most `limit`.
pub async fn open(pool: &PgPool, limit: i64) -> Result<Vec<i64>, sqlx::Error> {
    sqlx::query_scalar!("select job_key from correction order by job_key limit $1", limit).fetch_all(pool).await
}

/// Returns true if rows of this import are still being matched.
pub async fn is_open(pool: &PgPool, job_key: i64) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(r#"select exists (select 1 from correction where job_key = $1) as "is_open!""#, job_key)
        .fetch_one(pool)
        .await
}

/// Locks an import that is being matched. `None` if another server has it or all its rows are matched.
pub async fn lock(tx: &mut Tx, job_key: i64) -> Result<Option<Correction>, sqlx::Error> {
    sqlx::query_as!(
        Correction,
        "select job_key, corrects_job_key, seq from correction where job_key = $1 for update skip locked",
        job_key
    )
    .fetch_optional(&mut **tx)
    .await
}

/// Returns true if the whole file of an import has been read into items, or its job was deleted.
pub async fn is_read(tx: &mut Tx, job_key: i64) -> Result<bool, sqlx::Error> {
    let done =
        sqlx::query_scalar!(r#"select done_at is not null as "done!" from import_cursor where job_key = $1"#, job_key)
            .fetch_optional(&mut **tx)
            .await?;
    Ok(done.unwrap_or(true))
}

/// A row of the corrected file as an item.
#[derive(Clone, Copy, Debug)]
pub struct CorrectedRow {
    pub item_id: Uuid,
    pub seq: i64,
    /// Line of the original row.
    pub row: Option<i64>,
}

/// The next items of an import, in order.
pub async fn next(tx: &mut Tx, job_key: i64, seq: i64, limit: i64) -> Result<Vec<CorrectedRow>, sqlx::Error> {
    sqlx::query_as!(
        CorrectedRow,
        "select id as item_id, seq, row from item where job_key = $1 and seq > $2 order by seq limit $3",
        job_key,
        seq,
        limit
    )
    .fetch_all(&mut **tx)
    .await
}

/// An item that a corrected row has replaced.
#[derive(Clone, Debug)]
pub struct Superseded {
    /// `ItemState::code` before: dead, expired, or canceled by itself.
    pub was: i16,
    pub fingerprint: Option<String>,
}

/// Marks the failed items of a job with these rows as superseded, and so as canceled. Skips items that succeeded,
/// that are pending, that were superseded before, or that a failed `after` has canceled: those may wait again. Rows are locked in order of their ids.
pub async fn supersede(
    tx: &mut Tx,
    job_key: i64,
    rows: &[i64],
    item_ids: &[Uuid],
) -> Result<Vec<Superseded>, sqlx::Error> {
    sqlx::query_as!(
        Superseded,
        r#"with pick as materialized (
             select o.item_id, o.state, o.fingerprint, new.item_id as superseded_by
             from unnest($2::bigint[], $3::uuid[]) as new (row, item_id)
             cross join lateral (select id from item where job_key = $1 and row = new.row offset 0) i
             join outcome o on o.item_id = i.id
             where o.state in (2, 3, 4) and o.superseded_by is null
               and coalesce(o.error_kind, '') <> 'after_failed'
             order by o.item_id
             for update of o),
           changed as (
             update item set changed_at = clock_timestamp() where id = any(array(select item_id from pick)))
           update outcome o set state = 3, superseded_by = pick.superseded_by, fingerprint = null
           from pick where o.item_id = pick.item_id
           returning pick.state as "was!", pick.fingerprint"#,
        job_key,
        rows,
        item_ids
    )
    .fetch_all(&mut **tx)
    .await
}

/// Counts superseded items of a job.
pub async fn count(tx: &mut Tx, job_key: i64, n: i64) -> Result<(), sqlx::Error> {
    sqlx::query!("update job_state set n_superseded = n_superseded + $2 where job_key = $1", job_key, n)
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// Records the progress of the matching; `None`: it is finished.
pub async fn move_to(tx: &mut Tx, job_key: i64, seq: Option<i64>) -> Result<(), sqlx::Error> {
    match seq {
        Some(seq) => sqlx::query!("update correction set seq = $2 where job_key = $1", job_key, seq),
        None => sqlx::query!("delete from correction where job_key = $1", job_key),
    }
    .execute(&mut **tx)
    .await?;
    Ok(())
}
