//! The judge: what the callers were told, what the workers did and what the tables say, held against each
//! other and against what was promised.
//!
//! `history` reads, `rules` judges without any I/O, so that forged histories can show that each rule notices. A run that
//! cannot be judged is an error, never a pass.

mod audited; // who pressed
mod callbacks; // who was told
mod history;
mod rules;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt, time::Duration};

use anyhow::{Context as _, Result};

use domain::id::Uuid;
use sqlx::PgPool;

use crate::{
    journal::{self, Call, Said, What},
    ledger,
    receiver::Heard,
    stage::Stage,
};

pub(crate) use history::History;

/// The statements of the server's own tests: what must hold in the tables at rest.
#[path = "../../server/tests/it/support/invariants.rs"]
pub(crate) mod invariants;

/// What may be found. The order is that of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// Acknowledged and not there.
    Lost,
    /// There, and never asked for.
    Unexpected,
    /// One key, two items or trees; one item, two accepted results; one source, two fed items.
    Doubled,
    /// Not final at the end, or a tree that is not complete.
    Stuck,
    /// Two assignments of one item at once.
    Overlap,
    /// More open assignments of a type than its cap.
    OverCap,
    /// Two items of one serialize key at once, or out of order.
    Serialize,
    /// A worker's result counted although its assignment was over, or an accepted one that does not count.
    Fence,
    /// Handed out or succeeded after its cancel was acknowledged.
    AfterCancel,
    /// Dead before its budget was spent, alive after it, or attempts that do not add up.
    Budget,
    /// An acknowledged step was forgotten or done again.
    Step,
    /// At most once, and handed out twice.
    Twice,
    /// A lease that ended before its time.
    EarlyLoss,
    /// A source without the item that it feeds.
    Unfed,
    /// A tree was complete, and whoever asked to be told was not.
    Untold,
    /// One completion told under two ids, or two under one.
    OtherId,
    /// A callback whose signature is not right.
    Unsigned,
    /// A callback about a tree that was not complete.
    TooSoon,
    /// A callback that says what is not so, or now this and now that.
    Untrue,
    /// What a person did is not in the audit log once, or what no one did is.
    Audit,
    /// Tables that contradict each other.
    Tables,
    /// A server that panicked, or a session inside someone else's transaction.
    Log,
    /// What a story looked for itself.
    Story,
    /// Slower than it may be, and nothing else: how fast others let the machine be counts too.
    Slow,
}

impl Kind {
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Unexpected => "unexpected",
            Self::Doubled => "doubled",
            Self::Stuck => "stuck",
            Self::Overlap => "overlapping assignments",
            Self::OverCap => "over the cap",
            Self::Serialize => "serialize keys overlapping or out of order",
            Self::Fence => "results past the fence",
            Self::AfterCancel => "effects after a cancel",
            Self::Budget => "wrong budgets",
            Self::Step => "steps lost or repeated",
            Self::Twice => "at_most_once handed out twice",
            Self::EarlyLoss => "leases lost before their time",
            Self::Unfed => "not fed",
            Self::Untold => "callbacks missing",
            Self::OtherId => "callbacks under another id",
            Self::Unsigned => "callbacks wrongly signed",
            Self::TooSoon => "callbacks before their tree was complete",
            Self::Untrue => "callbacks that say what is not so",
            Self::Audit => "of the audit log",
            Self::Tables => "contradicting tables",
            Self::Log => "panics or broken sessions in logs",
            Self::Story => "of the story",
            Self::Slow => "slower than it may be",
        }
    }
}

/// What the judge has to say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    /// Items and trees whose creation was acknowledged.
    pub(crate) acknowledged: usize,
    /// Items of at_least_once whose work was begun more than once: allowed, counted.
    pub(crate) repeated: usize,
    /// Leases that were lost: allowed, counted.
    pub(crate) leases_lost: usize,
    /// Endings that were refused as late.
    pub(crate) refused_late: usize,
    /// Completions that were told, and tries beyond the first: allowed, counted.
    pub(crate) told: usize,
    pub(crate) told_again: usize,
    /// Presses by people that were accepted, and refused.
    pub(crate) audited: usize,
    pub(crate) refused_presses: usize,
    /// Completions that stand there as not delivered: allowed, counted.
    pub(crate) undelivered: usize,
    found: BTreeMap<Kind, Vec<String>>,
}

impl Verdict {
    /// Nothing found, so much acknowledged.
    pub(crate) fn acknowledging(acknowledged: usize) -> Self {
        Self { acknowledged, ..Self::default() }
    }

    pub(crate) fn find(&mut self, kind: Kind, what: impl fmt::Display) {
        self.found.entry(kind).or_default().push(what.to_string());
    }

    pub(crate) fn count(&self, kind: Kind) -> usize {
        self.found.get(&kind).map_or(0, Vec::len)
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.found.is_empty()
    }

    /// What another judge of the same fault found, beside this.
    pub(crate) fn add(&mut self, other: Self) {
        self.acknowledged += other.acknowledged;
        self.repeated += other.repeated;
        self.leases_lost += other.leases_lost;
        self.refused_late += other.refused_late;
        self.told += other.told;
        self.told_again += other.told_again;
        self.audited += other.audited;
        self.refused_presses += other.refused_presses;
        self.undelivered += other.undelivered;
        for (kind, found) in other.found {
            self.found.entry(kind).or_default().extend(found);
        }
    }

    /// Whether all that was found is about time.
    pub(crate) fn is_only_slow(&self) -> bool {
        !self.is_clean() && self.found.keys().all(|kind| *kind == Kind::Slow)
    }

    /// True if something was found and a machine that stood still could explain all of it: leases ran out, or the end was
    /// not reached in time.
    pub(crate) fn is_about_time(&self) -> bool {
        !self.is_clean() && self.found.keys().all(|kind| matches!(kind, Kind::Slow | Kind::Story | Kind::Stuck))
    }

    /// The kinds that were found, with how many and the first few.
    pub(crate) fn findings(&self) -> impl Iterator<Item = (Kind, usize, &[String])> {
        self.found.iter().map(|(kind, all)| (*kind, all.len(), &all[..all.len().min(3)]))
    }
}

/// Judges a stage whose load has ended. `drained`: whether everything came to its end in time.
pub(crate) async fn judge(stage: &mut Stage, drained: bool) -> Result<Verdict> {
    // The tables first, as they are at rest; then nothing may write anymore.
    let at_rest = invariants::hold(&stage.pool, None, Duration::from_secs(10)).await;
    stage.stop().await?;
    let history = History {
        calls: journal::read(&stage.path("journal")).context("the journal")?,
        heard: stage.receiver.heard()?,
        deeds: ledger::read_all(stage.folder()).context("the ledgers")?,
        ..history::read(&stage.pool).await.context("the tables")?
    };
    let mut verdict = rules::judge(&history);
    if let Err(what) = at_rest
        && drained
    {
        verdict.find(Kind::Tables, what);
    }
    for server in &stage.servers {
        let log = std::fs::read_to_string(server.process.log()).context("a server's log")?;
        for line in log
            .lines()
            .filter(|line| ["panicked at", "25P02", "already a transaction"].iter().any(|word| line.contains(word)))
        {
            verdict.find(Kind::Log, line.chars().take(300).collect::<String>());
        }
    }
    Ok(verdict)
}

/// Judges callbacks alone: these trees, by name, have asked for them.
pub(crate) async fn judge_callbacks(pool: &PgPool, asked: Vec<(String, Uuid)>, heard: Vec<Heard>) -> Result<Verdict> {
    let call = |(key, job)| {
        let what = What::Create { key, items: Vec::new(), calls: true };
        Call { what, said: Said::Ok, job: Some(job), answered_us: 0 }
    };
    let calls = asked.into_iter().map(call).collect();
    let history = History { calls, heard, ..history::read(pool).await.context("the tables")? };
    let mut verdict = Verdict::acknowledging(history.calls.len());
    callbacks::judge(&history, &mut verdict);
    Ok(verdict)
}
