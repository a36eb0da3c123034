//! Deletion of unused files: uploads that no job used in time, incomplete ones, files whose jobs are all deleted, and
//! objects that a crash has left without a row.
//!
//! The row is deleted first, in its own commit, and then the object: a crash in between leaves an orphan, which is
//! found as such.

use std::time::Duration;

use futures::{Stream, StreamExt as _, TryStreamExt as _};
use sqlx::PgPool;
use uuid::Uuid;

use engine::{
    error::Result,
    import::files::{Files, OWNER},
    store::import::{partial_uploads, uploads},
};

/// Files per statement.
const BATCH: i64 = 100;

/// Number of known files of a store without an owner for each unknown one, which a crash may have left.
const KNOWN_PER_UNKNOWN: usize = 100;

/// Longest time from the storing of a file to the commit of its row.
const ARRIVAL: Duration = Duration::from_hours(1);

/// Deletes files that no job has used for `ttl`, incomplete ones without new data for as long, and those whose jobs are
/// deleted; each used file is checked about twenty times in that time. Returns true if there may be more.
pub async fn sweep(pool: &PgPool, files: &Files, ttl: Duration) -> Result<bool> {
    let seconds = ttl.as_secs_f64();
    let unused = uploads::take_unused(pool, seconds, BATCH).await?;
    remove_logged(files, &unused).await?;
    let (gone, checked) = uploads::take_unreferenced(pool, seconds / 20.0, BATCH).await?;
    remove_logged(files, &gone).await?;
    let (parts, stale) = partial_uploads::take_stale(pool, seconds, BATCH).await?;
    remove_logged(files, &parts).await?;
    Ok(unused.len().max(checked).max(stale) as i64 >= BATCH)
}

async fn remove_logged(files: &Files, objects: &[Uuid]) -> Result<()> {
    super::remove(files, objects).await?;
    if !objects.is_empty() {
        tracing::info!(files = objects.len(), "removed files that nobody needs");
    }
    Ok(())
}

/// Deletes objects without a row that are older than `age`, if the store belongs to this database. Younger ones may
/// belong to a running upload, or to a later state of a database that was restored. Returns their number.
pub async fn sweep_orphans(pool: &PgPool, files: &Files, age: Duration) -> Result<usize> {
    if !owns_store(pool, files, age.min(ARRIVAL)).await? {
        return Ok(0);
    }
    let mut looked_up = Box::pin(look_up(pool, files, age));
    let mut count = 0;
    while let Some(LookedUp { unknown, .. }) = looked_up.try_next().await? {
        for &id in &unknown {
            files.remove(id).await?;
        }
        count += unknown.len();
    }
    if count > 0 {
        tracing::warn!(files = count, "removed files that this database does not know");
    }
    Ok(count)
}

/// Returns true if the store carries the id of this database. A store without an id gets it if this database knows nearly
/// all files: after a wrong `DATABASE_URL`, or beside another database with the same store, the others would seem to be
/// orphans. It owns the store from the next call on, so that the other one can warn meanwhile. Files younger than `arrival`
/// may be uploads whose rows are not written yet.
async fn owns_store(pool: &PgPool, files: &Files, arrival: Duration) -> Result<bool> {
    let id = uploads::deployment_id(pool).await?;
    let Some(owner) = files.owner().await? else {
        let (known, unknown) = count(pool, files, arrival).await?;
        if unknown * KNOWN_PER_UNKNOWN <= known {
            files.set_owner(id).await?;
        } else {
            tracing::warn!(
                database = %id,
                known,
                unknown,
                "this database does not know some files of the file store, which has no owner yet, so they stay. Look at \
                 DATABASE_URL, TREELINE_STORE_URL, and TREELINE_DATA_DIR. If all files are of this database, write its \
                 id into the file `{OWNER}` of the store"
            );
        }
        return Ok(false);
    };
    let is_ours = owner == id.to_string();
    if !is_ours {
        tracing::warn!(
            database = %id,
            store = owner,
            "the file store belongs to another database, so files that this database does not know stay. Look at \
             DATABASE_URL, TREELINE_STORE_URL, and TREELINE_DATA_DIR. If all files are of this database, write its id \
             into the file `{OWNER}` of the store"
        );
    }
    Ok(is_ours)
}

/// Numbers of objects older than `age` that this database knows and does not know.
async fn count(pool: &PgPool, files: &Files, age: Duration) -> Result<(usize, usize)> {
    let counts = look_up(pool, files, age).try_fold((0, 0), |(known, unknown), found| {
        std::future::ready(Ok((known + found.known, unknown + found.unknown.len())))
    });
    counts.await
}

/// Objects of the store, looked up in the database.
struct LookedUp {
    known: usize,
    /// Those without a row.
    unknown: Vec<Uuid>,
}

/// Looks up the objects that are older than `age`, a thousand objects of the store at a time.
fn look_up<'a>(pool: &'a PgPool, files: &Files, age: Duration) -> impl Stream<Item = Result<LookedUp>> + use<'a> {
    files.list_older(age).chunks(1_000).then(move |ids| async move {
        let ids: Vec<Uuid> = ids.into_iter().collect::<Result<_, _>>()?;
        let known = uploads::known_objects(pool, &ids).await?;
        let all = ids.len();
        let unknown: Vec<Uuid> = ids.into_iter().filter(|id| !known.contains(id)).collect();
        Ok(LookedUp { known: all - unknown.len(), unknown })
    })
}
