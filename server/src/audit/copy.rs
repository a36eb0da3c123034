//! The log in order, for external copies: a stream that resumes after the last entry, and cursors for the posts to
//! `TREELINE_AUDIT_URL`.
//!
//! An entry becomes visible when the transaction of its action commits, possibly after entries with a later time. To
//! let a copy resume after its last entry without gaps, entries are returned only if no open transaction can still
//! commit an earlier one. The end of a stream waits for those transactions, which takes milliseconds.

use std::time::Duration;

use bytes::Bytes;
use domain::{Problem, identity::audit::AuditEntry};
use futures::Stream;
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use super::line;
use engine::{
    access::caller::{Caller, Scope},
    error::{Error, Result},
    store::notify::audit::{self as store, AuditQuery},
    task::unless_silent,
};

/// Entries per read.
const PAGE: i64 = 1_000;

/// Poll interval and limit of the wait for open transactions at the end of a stream. No server transaction may run
/// longer.
const POLL_INTERVAL: Duration = Duration::from_millis(25);
const OPEN_TRANSACTION_TIMEOUT: Duration = Duration::from_secs(30);

/// Cursor in the log: after this entry.
pub type LogCursor = (OffsetDateTime, Uuid);

/// Entries in order, and the position up to which the log is final.
#[derive(Debug)]
pub struct FinalEntries {
    pub entries: Vec<AuditEntry>,
    /// True if there may be more entries.
    pub more: bool,
}

/// Returns at most `limit` final entries after a cursor, oldest first: no earlier entry can appear any more.
pub async fn final_entries(
    pool: &PgPool,
    query: &AuditQuery,
    after: Option<LogCursor>,
    limit: i64,
) -> Result<FinalEntries> {
    let (_, until) = store::complete_before(pool).await?;
    let query = AuditQuery { limit, ..query.clone() };
    let entries = store::list_oldest(pool, &query, after, until).await?;
    Ok(FinalEntries { more: entries.len() as i64 == limit, entries })
}

struct Reader {
    pool: PgPool,
    query: AuditQuery,
    after: Option<LogCursor>,
    /// Time of the request: the stream contains every entry that existed then.
    requested_at: OffsetDateTime,
    waited: Duration,
    done: bool,
}

/// Streams all matching entries that existed at the request, oldest first, as NDJSON. Staff see all of it, others the
/// actions on their own work. 400 if the entry `after` does not exist.
pub async fn export(
    pool: &PgPool,
    caller: &Caller,
    query: AuditQuery,
    after: Option<Uuid>,
) -> Result<impl Stream<Item = Result<Bytes>> + use<>> {
    caller.require(Scope::JobsRead)?;
    let query = AuditQuery { owner_id: caller.visible_owner(), limit: PAGE, ..query };
    let after = match after {
        None => None,
        Some(id) => {
            let at = store::time_of(pool, id).await?;
            Some((at.ok_or_else(|| Problem::parameter("after", "expected the id of an entry"))?, id))
        }
    };
    let (requested_at, _) = store::complete_before(pool).await?;
    let reader = Reader { pool: pool.clone(), query, after, requested_at, waited: Duration::ZERO, done: false };
    Ok(futures::stream::try_unfold(reader, |mut reader| async move {
        let page = unless_silent(reader.next()).await.flatten()?;
        Ok(page.map(|page| (page, reader)))
    }))
}

impl Reader {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        while !self.done {
            let (_, final_until) = store::complete_before(&self.pool).await?;
            let until = final_until.min(self.requested_at);
            let entries = store::list_oldest(&self.pool, &self.query, self.after, until).await?;
            if let Some(last) = entries.last() {
                self.after = Some((last.at.0, last.id));
                return Ok(Some(entries.iter().flat_map(line).collect::<Vec<u8>>().into()));
            }
            if final_until >= self.requested_at {
                self.done = true;
            } else if self.waited > OPEN_TRANSACTION_TIMEOUT {
                // Abort the stream, so that a client does not take it for complete.
                return Err(Error::Broken("a transaction is open for too long to copy the audit log".to_owned()));
            } else {
                tokio::time::sleep(POLL_INTERVAL).await;
                self.waited += POLL_INTERVAL;
            }
        }
        Ok(None)
    }
}
