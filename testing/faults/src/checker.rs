//! The checker compares the journal of the callers, the ledgers of the workers and the tables with each other and with
//! the promises.
//!
//! `history` reads; `rules` checks without I/O, so that forged histories can prove that each rule detects its fault. A
//! run that cannot be checked is an error, never a pass.

mod audit_log; // the audit log
mod callbacks; // callbacks
mod history;
mod rules;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt, time::Duration};

use anyhow::{Context as _, Result};

use domain::id::Uuid;
use sqlx::PgPool;

use crate::{
    fixture::Fixture,
    journal::{self, Call, CallOutcome, Request},
    ledger,
    receiver::ReceivedCallback,
};

pub(crate) use history::History;

/// Invariants of the tables at rest, from the server's own tests.
#[path = "../../../server/tests/it/support/invariants.rs"]
pub(crate) mod invariants;

/// Longest wait for decisions to reach their rows, so that the tables are at rest.
pub(crate) const AT_REST: Duration = Duration::from_mins(1);
/// The same if work is left: the tables are then wrong, or correct at once.
const WITH_WORK_LEFT: Duration = Duration::from_secs(10);

/// Texts that must not appear in a server's log.
const FORBIDDEN_LOG_TEXTS: [&str; 3] = ["panicked at", "current transaction is aborted", "already a transaction"];

/// Kinds of findings, in the order of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// Acknowledged, but missing.
    Lost,
    /// Present, but never requested.
    Unexpected,
    /// Two items or trees of one key, two accepted results of one item, or two items fed by one source.
    Doubled,
    /// An item that is not final at the end, or a tree that is not complete.
    Stuck,
    /// Two concurrent assignments of one item.
    Overlap,
    /// More open assignments of a type than its cap allows.
    OverCap,
    /// Two concurrent items of one serialize key, or items out of order.
    Serialize,
    /// A result counted although its assignment was closed, or an accepted result that does not count.
    StaleResult,
    /// An item assigned or succeeded after its cancel was acknowledged.
    AfterCancel,
    /// An item dead before its retry budget was spent or alive after it, or inconsistent attempts.
    Budget,
    /// An acknowledged step lost or repeated.
    Step,
    /// An at_most_once item assigned twice.
    HandedOutTwice,
    /// A lease that was lost too early.
    EarlyLoss,
    /// A source without its fed item.
    Unfed,
    /// A missing callback of a complete tree.
    CallbackMissing,
    /// One completion under two ids, or two completions under one.
    CallbackIdChanged,
    /// A callback with an invalid signature.
    CallbackUnsigned,
    /// A callback of a tree that was not complete.
    CallbackEarly,
    /// A callback with wrong or changing content.
    CallbackWrong,
    /// An action of a person that is not in the audit log exactly once, or an entry without an action.
    Audit,
    /// A violated invariant of the tables.
    Tables,
    /// A panic of a server, or a statement in a broken transaction.
    Log,
    /// A check of the scenario itself failed.
    Scenario,
    /// A check failed that a standstill of the machine can also explain: a wait that ran out, a lease that expired, a
    /// request that was rejected for now, a disturbance without an effect.
    NotInTime,
    /// Too slow, which can also be caused by other load on the machine.
    Slow,
}

impl Kind {
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Unexpected => "unexpected",
            Self::Doubled => "doubled",
            Self::Stuck => "stuck",
            Self::Overlap => "overlapping assignments",
            Self::OverCap => "over the cap",
            Self::Serialize => "serialize keys overlapping or out of order",
            Self::StaleResult => "stale results accepted",
            Self::AfterCancel => "effects after a cancel",
            Self::Budget => "wrong retry budgets",
            Self::Step => "steps lost or repeated",
            Self::HandedOutTwice => "`at_most_once` items assigned twice",
            Self::EarlyLoss => "leases expired too early",
            Self::Unfed => "missing items of dependent jobs",
            Self::CallbackMissing => "callbacks missing",
            Self::CallbackIdChanged => "callbacks with another id",
            Self::CallbackUnsigned => "callbacks with an invalid signature",
            Self::CallbackEarly => "callbacks before their tree was complete",
            Self::CallbackWrong => "wrong callbacks",
            Self::Audit => "contradictions with the audit log",
            Self::Tables => "contradictions between tables",
            Self::Log => "panics or broken sessions in logs",
            Self::Scenario => "failed checks of the scenario",
            Self::NotInTime => "not in time, or without effect",
            Self::Slow => "too slow",
        }
    }
}

/// Result of a check.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    /// Number of items and trees whose creation was acknowledged.
    pub(crate) acknowledged: usize,
    /// Number of at_least_once items that were begun more than once, which is allowed.
    pub(crate) repeated: usize,
    /// Number of lost leases, which is allowed.
    pub(crate) leases_lost: usize,
    /// First and last loss of a lease, in microseconds since 1970.
    pub(crate) lost_between_us: Option<(i64, i64)>,
    /// Number of endings refused as late.
    pub(crate) refused_late: usize,
    /// Number of completions with a callback, and of retries, which are allowed.
    pub(crate) callbacks_delivered: usize,
    pub(crate) callback_retries: usize,
    /// Number of accepted and refused actions of people.
    pub(crate) audited_actions: usize,
    pub(crate) refused_actions: usize,
    /// Number of callbacks recorded as not delivered, which is allowed.
    pub(crate) undelivered: usize,
    found: BTreeMap<Kind, Vec<String>>,
}

impl Verdict {
    /// A verdict without findings.
    pub(crate) fn acknowledging(acknowledged: usize) -> Self {
        Self { acknowledged, ..Self::default() }
    }

    pub(crate) fn add_finding(&mut self, kind: Kind, what: impl fmt::Display) {
        self.found.entry(kind).or_default().push(what.to_string());
    }

    /// Records when a lease was lost.
    pub(crate) fn add_loss_time(&mut self, lost_us: i64) {
        let (first, last) = self.lost_between_us.unwrap_or((lost_us, lost_us));
        self.lost_between_us = Some((first.min(lost_us), last.max(lost_us)));
    }

    pub(crate) fn count(&self, kind: Kind) -> usize {
        self.found.get(&kind).map_or(0, Vec::len)
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.found.is_empty()
    }

    /// Adds the verdict of another check of the same fault.
    pub(crate) fn add(&mut self, other: Self) {
        self.acknowledged += other.acknowledged;
        self.repeated += other.repeated;
        self.leases_lost += other.leases_lost;
        for lost_us in other.lost_between_us.into_iter().flat_map(|(first, last)| [first, last]) {
            self.add_loss_time(lost_us);
        }
        self.refused_late += other.refused_late;
        self.callbacks_delivered += other.callbacks_delivered;
        self.callback_retries += other.callback_retries;
        self.audited_actions += other.audited_actions;
        self.refused_actions += other.refused_actions;
        self.undelivered += other.undelivered;
        for (kind, found) in other.found {
            self.found.entry(kind).or_default().extend(found);
        }
    }

    /// True if all findings are about time.
    pub(crate) fn is_only_slow(&self) -> bool {
        !self.is_clean() && self.found.keys().all(|kind| *kind == Kind::Slow)
    }

    /// True if there are findings, and a standstill of the machine could explain all of them.
    pub(crate) fn is_about_time(&self) -> bool {
        !self.is_clean() && self.found.keys().all(|kind| matches!(kind, Kind::Slow | Kind::NotInTime | Kind::Stuck))
    }

    /// Kinds of findings, each with its number and the first few.
    pub(crate) fn findings(&self) -> impl Iterator<Item = (Kind, usize, &[String])> {
        self.found.iter().map(|(kind, all)| (*kind, all.len(), &all[..all.len().min(3)]))
    }
}

/// Checks a fixture after its workload has ended. `drained` is true if all work ended in time; if not, that is a finding.
pub(crate) async fn check(fixture: &mut Fixture, drained: bool) -> Result<Verdict> {
    // Check the tables at rest first; then stop everything that writes.
    let open = if drained { None } else { Some(fixture.open_work().await) };
    let max_wait = if drained { AT_REST } else { WITH_WORK_LEFT };
    let at_rest = invariants::check(&fixture.pool, None, max_wait).await;
    let mut servers = Verdict::default();
    check_servers(fixture, &mut servers)?;
    let mut verdict = check_records(fixture).await?;
    if let Some(open) = open {
        let (trees, callbacks) = open.context("the database does not answer")?;
        let what = format!("not all work ended in time: {trees} trees incomplete, {callbacks} callbacks pending");
        verdict.add_finding(Kind::Stuck, what);
    }
    if let Err(what) = at_rest {
        verdict.add_finding(Kind::Tables, what);
    }
    verdict.add(servers);
    Ok(verdict)
}

/// Stops everything that writes, and compares the journal, the ledgers, and the tables.
pub(crate) async fn check_records(fixture: &mut Fixture) -> Result<Verdict> {
    fixture.stop().await?;
    let history = History {
        calls: journal::read(&fixture.path("journal")).context("the journal")?,
        received: fixture.receiver.received()?,
        work_events: ledger::read_all(fixture.folder()).context("the ledgers")?,
        ..history::read(&fixture.pool).await.context("the tables")?
    };
    Ok(rules::check(&history))
}

/// Checks that no server has ended by itself or written a forbidden line into its log.
pub(crate) fn check_servers(fixture: &mut Fixture, verdict: &mut Verdict) -> Result<()> {
    for server in &mut fixture.servers {
        if let Some(status) = server.process.try_wait()? {
            verdict.add_finding(Kind::Scenario, format!("a server ended by itself: {status}"));
        }
        let log = std::fs::read_to_string(server.process.log()).context("a server's log")?;
        for line in log.lines().filter(|line| FORBIDDEN_LOG_TEXTS.iter().any(|text| line.contains(text))) {
            verdict.add_finding(Kind::Log, line.chars().take(300).collect::<String>());
        }
    }
    Ok(())
}

/// Checks only callbacks: of these trees, by name.
pub(crate) async fn check_callbacks(
    pool: &PgPool,
    requested: Vec<(String, Uuid)>,
    received: Vec<ReceivedCallback>,
) -> Result<Verdict> {
    let call = |(key, job)| {
        let request = Request::Create { key, items: Vec::new(), calls: true };
        Call { request, outcome: CallOutcome::Ok, job: Some(job), answered_us: 0 }
    };
    let calls = requested.into_iter().map(call).collect();
    let history = History { calls, received, ..history::read(pool).await.context("the tables")? };
    let mut verdict = Verdict::acknowledging(history.calls.len());
    callbacks::check(&history, &mut verdict);
    Ok(verdict)
}
