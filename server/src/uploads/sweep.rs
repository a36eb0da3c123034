//! Files that nobody needs: uploads that no job was made of in time, those that never came whole, files
//! whose jobs are all gone, and objects that a crash has left without a row.
//!
//! The row goes first, in a commit of its own, and the object after it: what a crash leaves in between
//! is an orphan, and found as one.

use std::time::Duration;

use futures::StreamExt as _;
use sqlx::PgPool;
use uuid::Uuid;

use crate::{
    error::Result,
    files::Files,
    store::{partials, uploads},
};

/// Files that are looked at in one go.
const BATCH: i64 = 100;

/// Removes files that no job was made of for `ttl`, those that have not come whole and of which nothing came
/// for as long, and those whose jobs are gone; each used file is looked at some
/// twenty times in that span. Says whether there may be more.
pub async fn sweep(pool: &PgPool, files: &Files, ttl: Duration) -> Result<bool> {
    let seconds = ttl.as_secs_f64();
    let unused = uploads::take_unused(pool, seconds, BATCH).await?;
    remove(files, &unused).await?;
    let (gone, looked_at) = uploads::take_unreferenced(pool, seconds / 20.0, BATCH).await?;
    remove(files, &gone).await?;
    let (parts, stale) = partials::take_stale(pool, seconds, BATCH).await?;
    remove(files, &parts).await?;
    Ok(unused.len().max(looked_at).max(stale) as i64 >= BATCH)
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

/// Removes objects without a row that are older than `age`. Younger ones may be on their way. Returns
/// how many.
pub async fn sweep_orphans(pool: &PgPool, files: &Files, age: Duration) -> Result<usize> {
    let mut old = files.list_older(age).chunks(1_000);
    let mut orphans = 0;
    while let Some(ids) = old.next().await {
        let ids: Vec<Uuid> = ids.into_iter().collect::<Result<_, _>>()?;
        let known = uploads::known(pool, &ids).await?;
        let lost: Vec<Uuid> = ids.into_iter().filter(|id| !known.contains(id)).collect();
        remove(files, &lost).await?;
        orphans += lost.len();
    }
    Ok(orphans)
}
