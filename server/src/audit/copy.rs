//! The log in order, for whoever keeps a copy: as a stream of lines that goes on where the last one ended,
//! and as places for the posts to `TREELINE_AUDIT_URL`.
//!
//! Entries appear when the transaction of their action ends, which may be later than another's that was written
//! after them. A copy that goes on behind its last entry must not miss one, so nothing is given out that an open
//! transaction could still come before; the end of a stream waits for those, which takes milliseconds.

use std::time::Duration;

use bytes::Bytes;
use domain::{Problem, audit::AuditEntry};
use futures::Stream;
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use super::line;
use crate::{
    auth::{Caller, Scope},
    error::{Error, Result},
    store::audit::{self as store, AuditQuery},
};

/// Entries that are read at once.
const PAGE: i64 = 1_000;

/// Interval and limit of the wait for open transactions at the end of a stream. No transaction of the server may last
/// longer.
const LOOK_AGAIN: Duration = Duration::from_millis(25);
const OPEN_TRANSACTION_TIMEOUT: Duration = Duration::from_secs(30);

/// A place in the log: behind this entry.
pub type Place = (OffsetDateTime, Uuid);

/// Entries in order, and how far the log is known now.
#[derive(Debug)]
pub struct Copied {
    pub entries: Vec<AuditEntry>,
    /// There may be more.
    pub more: bool,
}

/// Entries behind a place that nothing can come before any more, oldest first, at most `limit`.
pub async fn settled(pool: &PgPool, query: &AuditQuery, after: Option<Place>, limit: i64) -> Result<Copied> {
    let (_, until) = store::settled_before(pool).await?;
    let query = AuditQuery { limit, ..query.clone() };
    let entries = store::list_oldest(pool, &query, after, until).await?;
    Ok(Copied { more: entries.len() as i64 == limit, entries })
}

struct Reader {
    pool: PgPool,
    query: AuditQuery,
    after: Option<Place>,
    /// Time of the request: the stream holds every entry that existed then.
    asked_at: OffsetDateTime,
    waited: Duration,
    done: bool,
}

/// Everything that matches and was there when it was asked for, oldest first, as lines of NDJSON. To staff all of
/// it, to others what was done to their own work. 400 where there is no entry `after`.
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
    let (asked_at, _) = store::settled_before(pool).await?;
    let reader = Reader { pool: pool.clone(), query, after, asked_at, waited: Duration::ZERO, done: false };
    Ok(futures::stream::try_unfold(reader, |mut reader| async move {
        let page = reader.next().await?;
        Ok(page.map(|page| (page, reader)))
    }))
}

impl Reader {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        while !self.done {
            let (_, settled) = store::settled_before(&self.pool).await?;
            let until = settled.min(self.asked_at);
            let entries = store::list_oldest(&self.pool, &self.query, self.after, until).await?;
            if let Some(last) = entries.last() {
                self.after = Some((last.at.0, last.id));
                return Ok(Some(entries.iter().flat_map(line).collect::<Vec<u8>>().into()));
            }
            if settled >= self.asked_at {
                self.done = true;
            } else if self.waited > OPEN_TRANSACTION_TIMEOUT {
                // The stream breaks off, so that nobody takes it for the whole.
                return Err(Error::Broken("a transaction is open for too long to copy the audit log".to_owned()));
            } else {
                tokio::time::sleep(LOOK_AGAIN).await;
                self.waited += LOOK_AGAIN;
            }
        }
        Ok(None)
    }
}
