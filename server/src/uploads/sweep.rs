//! Deletion of unused files: uploads that no job used in time, incomplete ones, files whose jobs are all deleted, and
//! objects that a crash has left without a row.
//!
//! The row is deleted first, in its own commit, and then the object: a crash in between leaves an orphan, which is
//! found as such.

use std::time::Duration;

use futures::StreamExt as _;
use sqlx::PgPool;
use uuid::Uuid;

use engine::{
    error::Result,
    import::files::Files,
    store::import::{partial_uploads, uploads},
};

/// Files per statement.
const BATCH: i64 = 100;

/// Deletes files that no job has used for `ttl`, incomplete ones without new data for as long, and those whose jobs are
/// deleted; each used file is checked about twenty times in that time. Returns true if there may be more.
pub async fn sweep(pool: &PgPool, files: &Files, ttl: Duration) -> Result<bool> {
    let seconds = ttl.as_secs_f64();
    let unused = uploads::take_unused(pool, seconds, BATCH).await?;
    remove(files, &unused).await?;
    let (gone, checked) = uploads::take_unreferenced(pool, seconds / 20.0, BATCH).await?;
    remove(files, &gone).await?;
    let (parts, stale) = partial_uploads::take_stale(pool, seconds, BATCH).await?;
    remove(files, &parts).await?;
    Ok(unused.len().max(checked).max(stale) as i64 >= BATCH)
}

async fn remove(files: &Files, ids: &[Uuid]) -> Result<()> {
    for &id in ids {
        files.remove(id).await?;
    }
    if !ids.is_empty() {
        tracing::info!(files = ids.len(), "removed files that nobody needs");
    }
    Ok(())
}

/// Deletes objects without a row that are older than `age`; younger ones may belong to a running upload. Returns their
/// number.
pub async fn sweep_orphans(pool: &PgPool, files: &Files, age: Duration) -> Result<usize> {
    let mut old = files.list_older(age).chunks(1_000);
    let mut orphans = 0;
    while let Some(ids) = old.next().await {
        let ids: Vec<Uuid> = ids.into_iter().collect::<Result<_, _>>()?;
        let known = uploads::known_objects(pool, &ids).await?;
        let lost: Vec<Uuid> = ids.into_iter().filter(|id| !known.contains(id)).collect();
        remove(files, &lost).await?;
        orphans += lost.len();
    }
    Ok(orphans)
}
