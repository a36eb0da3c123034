//! Members of a bulk operation, dealt with one by one through the use-cases for one.
//!
//! A server takes a slice for a while and deals with it in order; what it does not get to, another takes
//! when that while is over. How many may be taken now is decided under the operation's lock, so the pace
//! is kept over all servers.

use std::{sync::Arc, time::Duration};

use domain::{
    Code, Document, Problem,
    api::{BulkAction, PayloadEdit},
    document::edit::{self, Edit},
};
use uuid::Uuid;

use crate::{
    auth::Caller,
    error::{Error, Result},
    store::{
        bulk::{
            self, BulkRow,
            members::{self, Counted, Member, Pace},
        },
        retrying,
    },
};

use super::{
    super::{audit, cancel, retry},
    Engine, IDLE, Mark, asker,
};

/// Members that a server takes at once.
const SLICE: i64 = 50;
/// For how long they are its own, in seconds.
const PATIENCE: f64 = 60.0;
/// How often a member that fails for reasons of ours is tried.
const MOST_TRIES: i16 = 5;

/// What is done to every member.
struct Deed {
    caller: Caller,
    action: BulkAction,
    on_items: bool,
    reason: Option<String>,
    edits: Vec<Edit>,
}

impl Deed {
    fn of(row: &BulkRow) -> Result<Self> {
        let broken = || Error::Broken(format!("the bulk operation {} cannot be read", row.id));
        let edits: Vec<PayloadEdit> = serde_json::from_str(&row.payload_edit).map_err(|_| broken())?;
        Ok(Self {
            caller: asker(row),
            action: BulkAction::parse(&row.action).ok_or_else(broken)?,
            on_items: row.target == "items",
            reason: row.reason.clone(),
            edits: edits.iter().map(PayloadEdit::read).collect::<Result<_, _>>().map_err(|_| broken())?,
        })
    }
}

/// Deals with the next members of an operation. Returns how long there is nothing to do.
pub(super) async fn slice(engine: &Engine, id: Uuid) -> Result<Duration> {
    let core = &engine.0.core;
    let mut tx = core.pools.read.begin().await?;
    let Some(pace) = members::lock_pace(&mut tx, id).await? else { return Ok(IDLE) };
    let (n, next) = allowed(pace);
    if n == 0 {
        return Ok(Duration::from_secs_f64(next.max(0.001)));
    }
    let taken = members::take_members(&mut tx, id, n, PATIENCE).await?;
    if pace.rate.is_some() && !taken.is_empty() {
        members::set_pace(&mut tx, id, next).await?;
    }
    tx.commit().await?;
    if taken.is_empty() {
        return Ok(IDLE);
    }
    let Some(row) = bulk::list(&core.pools.read, Some(id), None, None, 1).await?.pop() else { return Ok(IDLE) };
    let deed = Deed::of(&row)?;
    for (at, &member) in taken.iter().enumerate() {
        let done = if core.shutdown.is_cancelled() { Ok(false) } else { deal(engine, &deed, id, member).await };
        if !matches!(done, Ok(true)) {
            let rest: Vec<Uuid> = taken[at..].iter().map(|member| member.member_id).collect();
            members::give_back(&core.pools.read, id, &rest, 0.0).await?;
            done?;
            return Ok(IDLE);
        }
    }
    Ok(Duration::ZERO)
}

/// How many members may be taken now, and in how many seconds the next is due then; if none, in how many
/// seconds one is. What was not used within the last second, or the time of one member, is lost.
fn allowed(pace: Pace) -> (i64, f64) {
    let Some(rate) = pace.rate else { return (SLICE, 0.0) };
    let window = (1.0 / rate).max(1.0);
    let idle = pace.idle_seconds.unwrap_or(window).min(window);
    // A hair's breadth, so that what is due exactly now is not lost to rounding.
    let n = (idle * rate + 1e-6).floor().min(SLICE as f64).max(0.0);
    if n < 1.0 { (0, 1.0 / rate - idle) } else { (n as i64, n / rate - idle) }
}

/// Deals with one member. False: the operation does not run any more.
async fn deal(engine: &Engine, deed: &Deed, bulk_id: Uuid, member: Member) -> Result<bool> {
    let core = &engine.0.core;
    let mark = Mark { bulk_id, member_id: member.member_id };
    let counted = match perform(engine, deed, mark, member).await {
        Ok(Performed::Marked) => return Ok(true),
        Ok(Performed::Done) => Counted::Processed,
        Ok(Performed::Skipped(reason)) => Counted::Skipped(reason),
        Err(Error::Problem(problem)) => match problem.code {
            Code::OperationOver => return still_runs(engine, bulk_id).await,
            code => Counted::Skipped(code.as_str()),
        },
        Err(error) if error.is_database_away() => return Err(error),
        Err(error) if member.tries >= MOST_TRIES => {
            tracing::error!(%error, %bulk_id, member = %member.member_id, "a member of a bulk operation failed");
            Counted::Errored
        }
        Err(error) => {
            let pause = f64::from(1_u32 << member.tries.clamp(0, 6));
            tracing::warn!(%error, %bulk_id, member = %member.member_id, "a member failed; will try again");
            members::give_back(&core.pools.read, bulk_id, &[member.member_id], pause).await?;
            return Ok(true);
        }
    };
    let core = Arc::clone(core);
    let reason = if let Counted::Skipped(reason) = counted { Some(reason.to_owned()) } else { None };
    let processed = counted == Counted::Processed;
    let written = core
        .retrying(move |core| {
            let reason = reason.clone();
            async move {
                let how = match (&reason, processed) {
                    (Some(reason), _) => Counted::Skipped(reason),
                    (None, true) => Counted::Processed,
                    (None, false) => Counted::Errored,
                };
                mark.alone(&core, how, member.root_id).await
            }
        })
        .await;
    match written {
        Err(Error::Problem(problem)) if problem.code == Code::OperationOver => still_runs(engine, bulk_id).await,
        other => other.map(|()| true),
    }
}

async fn still_runs(engine: &Engine, id: Uuid) -> Result<bool> {
    let row = bulk::list(&engine.0.core.pools.read, Some(id), None, None, 1).await?.pop();
    Ok(row.is_some_and(|row| row.state == "running"))
}

/// What became of a member.
enum Performed {
    /// It was done and counted in one transaction.
    Marked,
    /// It was done, or there was nothing left to do.
    Done,
    Skipped(&'static str),
}

async fn perform(engine: &Engine, deed: &Deed, mark: Mark, member: Member) -> Result<Performed> {
    let (caller, reason) = (&deed.caller, deed.reason.as_deref());
    let id = member.member_id;
    match (deed.action, deed.on_items) {
        (BulkAction::Retry, _) => retry_item(engine, deed, mark, id).await,
        (BulkAction::Cancel, true) => {
            let marked = engine.cancel_member(caller, id, reason, mark).await?;
            Ok(if marked { Performed::Marked } else { Performed::Done })
        }
        (BulkAction::Cancel, false) => engine.cancel_job(caller, id, reason).await.map(|()| Performed::Done),
        (BulkAction::Delete, _) => match engine.remove(caller, id, reason).await {
            // It was this operation that removed it, and the server died before it was counted.
            Err(Error::Problem(problem)) if problem.code == Code::JobRemoved && member.tries > 1 => Ok(Performed::Done),
            other => other.map(|()| Performed::Done),
        },
    }
}

async fn retry_item(engine: &Engine, deed: &Deed, mark: Mark, item_id: Uuid) -> Result<Performed> {
    let core = &engine.0.core;
    let job = engine.job_of_item(&deed.caller, item_id).await?;
    let reason = audit::reason_for(&deed.caller, job.owner_id, deed.reason.as_deref())?;
    let row = audit::row(&deed.caller, "item.retry", job.owner_id, reason.as_deref())
        .map(|row| row.about(job.root_id, job.job_id, Some(item_id)));
    let mut payload = None;
    if !deed.edits.is_empty() {
        let text = retrying::payload(&core.pools.read, item_id).await?.ok_or_else(|| Problem::not_found("item"))?;
        let Ok(edited) = edit::edited(&Document::trusted(text), &deed.edits) else {
            return Ok(Performed::Skipped("edit_does_not_fit"));
        };
        match core.checked_payload(&job, edited) {
            Ok(text) => payload = Some(text),
            Err(problem) if problem.code == Code::InvalidBody => return Ok(Performed::Skipped("payload_invalid")),
            Err(problem) => return Err(problem.into()),
        }
    }
    let retry = retry::Retry { item_id, job, payload, expires_at: None, restart: false, deed: row, member: Some(mark) };
    core.retrying(move |core| {
        let retry = retry.clone();
        async move { retry::retry_one(&core, retry).await }
    })
    .await?;
    Ok(Performed::Marked)
}

impl Engine {
    /// Cancels an item for a bulk operation; whether the member was counted with it.
    async fn cancel_member(&self, caller: &Caller, item_id: Uuid, reason: Option<&str>, mark: Mark) -> Result<bool> {
        let job = self.job_of_item(caller, item_id).await?;
        let reason = audit::reason_for(caller, job.owner_id, reason)?;
        let deed = audit::row(caller, "item.cancel", job.owner_id, reason.as_deref())
            .map(|row| row.about(job.root_id, job.job_id, Some(item_id)));
        self.0
            .core
            .retrying(move |core| {
                let (deed, root_id) = (deed.clone(), job.root_id);
                async move {
                    let marked = cancel::cancel_one(&core, item_id, deed, Some((mark, root_id))).await?;
                    core.hub.touch(&[root_id]);
                    Ok(marked)
                }
            })
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_kept_and_what_is_not_used_is_lost() {
        let at = |rate: f64, idle: Option<f64>| allowed(Pace { rate: Some(rate), idle_seconds: idle });
        assert_eq!(allowed(Pace { rate: None, idle_seconds: Some(0.0) }).0, SLICE);
        // A second's worth at first, then as time goes by.
        assert_eq!(at(10.0, None), (10, 0.0));
        assert_eq!(at(10.0, Some(0.5)).0, 5);
        assert_eq!(at(10.0, Some(3_600.0)).0, 10);
        let (n, wait) = at(10.0, Some(0.04));
        assert!(n == 0 && (wait - 0.06).abs() < 1e-9, "{n} {wait}");
        // Slower than one a second: one at first, and then one each time it is due.
        assert_eq!(at(0.5, None), (1, 0.0));
        assert_eq!(at(0.5, Some(1.0)).0, 0);
        // Never more than a slice; what is over is due at once.
        let (n, next) = at(1_000.0, None);
        assert!(n == SLICE && next < 0.0, "{n} {next}");
    }
}
