//! Endings and claims in one transaction: what a busy worker does all day is one commit for many.

use std::sync::Arc;

use domain::{
    Code, Document, Problem,
    api::{Claimed, Ended, Ending, EndingAnswer, FailureBody, FinishBody, Finished},
};
use uuid::Uuid;

use crate::{
    auth::{Caller, Scope},
    error::{Error, Result},
    flush::Batch,
    store::gates::{self, Delta},
};

use super::{
    Core, Engine,
    claim::{self, ClaimCommand},
    ending::{self, EndCommand, EndingKind, EndingRows},
    groups, settle,
};

/// Endings, and perhaps a claim, of one request.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) endings: Vec<EndCommand>,
    pub(super) claim: Option<ClaimCommand>,
}

/// What became of them.
#[derive(Debug)]
pub(super) struct Worked {
    pub(super) endings: Vec<Result<Ended, Problem>>,
    pub(super) claimed: Claimed,
}

pub(super) struct WorkBatch(pub(super) Arc<Core>);

impl Batch for WorkBatch {
    type Command = Work;
    type Answer = Worked;

    fn weight(work: &Work) -> usize {
        (work.endings.len() + work.claim.as_ref().map_or(0, |claim| claim.max)).max(1)
    }

    async fn run(&self, works: &[&Work]) -> Result<Vec<Result<Worked>>> {
        let core = &self.0;
        let endings: Vec<&EndCommand> = works.iter().flat_map(|work| &work.endings).collect();
        let claims: Vec<&ClaimCommand> = works.iter().filter_map(|work| work.claim.as_ref()).collect();

        let mut tx = core.pools.hot.begin().await?;
        let caps = claim::lock_capped(core, &mut tx, &claims).await?;
        let mut rows = EndingRows::default();
        let ended = ending::end_all(core, &mut tx, &endings, &mut rows).await?;
        let claimed = claim::claim_all(core, &mut tx, &claims, &caps, &mut rows.deltas).await?;
        let assignments = claim::assignments(core, &mut tx, &claimed.rows).await?;
        let done = close(&mut tx, &mut rows).await?;
        tx.commit().await?;
        done.after_commit(core, &rows).await;
        if !endings.is_empty() {
            wake_capped(core, endings.len());
        }

        let mut ended = ended.into_iter();
        let mut handed = assignments.into_iter().zip(claimed.refused);
        Ok(works
            .iter()
            .map(|work| {
                let endings = ended.by_ref().take(work.endings.len()).collect();
                let claimed = work
                    .claim
                    .as_ref()
                    .and_then(|_| handed.next())
                    .map_or_else(Claimed::default, |(a, r)| Claimed { assignments: a, refused: r });
                Ok(Worked { endings, claimed })
            })
            .collect())
    }
}

/// What has ended may have made room under a cap that others wait for.
fn wake_capped(core: &Core, n: usize) {
    for type_id in core.waiters.types() {
        if core.types.by_id(type_id).is_some_and(|info| info.concurrency.is_some()) {
            core.waiters.wake(type_id, n);
        }
    }
}

/// What is to follow the commit of a batch.
pub(super) struct Closed {
    roots: Vec<Uuid>,
    settle: Vec<(i64, Uuid)>,
}

/// The last statements of every batch that moves items: the gates, and what hangs on them.
pub(super) async fn close(tx: &mut crate::store::Tx, rows: &mut EndingRows) -> Result<Closed> {
    let deltas: Vec<(i64, Delta)> = std::mem::take(&mut rows.deltas).into_iter().collect();
    if deltas.is_empty() {
        return Ok(Closed { roots: Vec::new(), settle: Vec::new() });
    }
    let after = gates::apply(tx, &deltas).await?;
    if after.len() != deltas.len() {
        return Err(Error::refuse(Code::JobCancelled, "The job is cancelled."));
    }
    let settle: Vec<(i64, Uuid)> = after.iter().filter(|a| a.needs_settle).map(|a| (a.gate_id, a.root_id)).collect();
    if !settle.is_empty() {
        gates::ask_to_settle(tx, &settle.iter().map(|s| s.0).collect::<Vec<_>>()).await?;
    }
    groups::count(tx, &rows.dead).await?;
    let mut roots: Vec<Uuid> = after.into_iter().map(|a| a.root_id).collect();
    roots.sort_unstable();
    roots.dedup();
    Ok(Closed { roots, settle })
}

impl Closed {
    pub(super) async fn after_commit(&self, core: &Core, rows: &EndingRows) {
        for &(type_id, mark) in &rows.ready {
            core.marks.added(type_id, mark);
            core.hub.work_added(type_id);
            core.waiters.wake(type_id, 1);
        }
        settle::settle_all(core, &self.settle).await;
        core.hub.touch(&self.roots);
    }
}

impl Engine {
    /// Ends one assignment (rules 8 and 9).
    pub async fn end(&self, caller: &Caller, id: Uuid, kind: EndingKind) -> Result<Ended> {
        caller.require(Scope::Work)?;
        let kind = self.check_ending(kind, "")?;
        let command = EndCommand { fence: id, credential_id: caller.credential_id, kind };
        let mut done = self.0.work.run(Work { endings: vec![command], claim: None }).await?;
        match done.endings.pop() {
            Some(ended) => Ok(ended?),
            None => Err(Error::Broken("an ending without an answer".to_owned())),
        }
    }

    /// Ends many and claims the next with them. One bad ending never spoils the others.
    pub async fn finish(&self, caller: &Caller, body: FinishBody) -> Result<Finished> {
        caller.require(Scope::Work)?;
        if body.endings.len() > 1_000 {
            return Err(Problem::invalid_body([("/endings".to_owned(), "expected at most 1000".to_owned())]).into());
        }
        if body.claim.as_ref().is_some_and(|claim| claim.wait_seconds.is_some()) {
            let fault = ("/claim/wait_seconds".to_owned(), "expected no wait here".to_owned());
            return Err(Problem::invalid_body([fault]).into());
        }
        let claim = match body.claim {
            Some(claim) => Some(self.check_claim(caller, claim).await?),
            None => None,
        };
        let mut answers: Vec<Option<EndingAnswer>> = Vec::with_capacity(body.endings.len());
        let mut endings = Vec::with_capacity(body.endings.len());
        for ending in body.endings {
            let fence = ending.assignment_id;
            match self.check_ending(kind_of(ending), "") {
                Ok(kind) => {
                    endings.push(EndCommand { fence, credential_id: caller.credential_id, kind });
                    answers.push(None);
                }
                Err(problem) => answers.push(Some(answer(fence, Err(&problem)))),
            }
        }
        let fences: Vec<Uuid> = endings.iter().map(|e| e.fence).collect();
        let done = self.0.work.run(Work { endings, claim }).await?;
        let mut ended = fences.iter().zip(&done.endings).map(|(&fence, r)| answer(fence, r.as_ref().map(|_| ())));
        let endings = answers.into_iter().filter_map(|slot| slot.or_else(|| ended.next())).collect();
        Ok(Finished { endings, assignments: done.claimed.assignments })
    }

    /// Rule-independent checks of an ending: sizes and forms.
    fn check_ending(&self, kind: EndingKind, pointer: &str) -> Result<EndingKind, Problem> {
        let fault =
            |field: &str, detail: &str| Err(Problem::invalid_body([(format!("{pointer}/{field}"), detail.to_owned())]));
        let seconds = |s: Option<f64>| s.is_none_or(|s| (0.0..=315_360_000.0).contains(&s));
        match &kind {
            EndingKind::Result(document) if document.text() == "null" => {
                return fault("result", "expected a JSON value other than null");
            }
            EndingKind::Result(document) if document.text().len() > self.0.core.payload_limit => {
                let limit = self.0.core.payload_limit;
                return Err(Problem::new(Code::TooLarge, format!("A result has at most {limit} bytes.")));
            }
            EndingKind::Failure(body) => {
                if body.error.message.is_empty() || body.error.message.contains('\0') {
                    return fault("error/message", "expected text that is not empty, without NUL");
                }
                if body.error.message.len() > 65_536 {
                    return fault("error/message", "expected at most 65536 bytes");
                }
                if body.error.kind.as_ref().is_some_and(|k| k.is_empty() || k.len() > 255 || k.contains('\0')) {
                    return fault("error/kind", "expected 1 to 255 bytes of text");
                }
                if !seconds(body.retry_after_seconds) {
                    return fault("retry_after_seconds", "expected null or a number of seconds from 0");
                }
                if body.cancel_tree {
                    return fault("cancel_tree", "cancelling trees is not in this version");
                }
            }
            EndingKind::Release(body) if !seconds(body.retry_after_seconds) => {
                return fault("retry_after_seconds", "expected null or a number of seconds from 0");
            }
            _ => {}
        }
        Ok(kind)
    }
}

fn kind_of(ending: Ending) -> EndingKind {
    match ending.error {
        Some(error) => EndingKind::Failure(FailureBody {
            error,
            retryable: ending.retryable,
            retry_after_seconds: ending.retry_after_seconds,
            cancel_tree: ending.cancel_tree,
        }),
        None => EndingKind::Result(ending.result.unwrap_or_else(Document::empty_object)),
    }
}

fn answer(assignment_id: Uuid, result: Result<(), &Problem>) -> EndingAnswer {
    match result {
        Ok(()) => EndingAnswer { assignment_id, status: 200, code: None },
        Err(problem) => EndingAnswer { assignment_id, status: problem.status, code: Some(problem.code) },
    }
}
