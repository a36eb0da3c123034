//! Findings of a scenario.

use std::time::Duration;

use anyhow::Result;

use crate::{
    checker::{Kind, Verdict, invariants},
    faults::Played,
    scene::{Scene, Served},
};

/// Findings of one fault.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// Summary of the scenario, with counts.
    pub(crate) did: String,
    pub(crate) acknowledged: u64,
    pub(crate) lost: u64,
    pub(crate) doubled: u64,
    pub(crate) stuck: u64,
    /// Notes that are not violations.
    pub(crate) notes: Vec<String>,
    /// Violations of promises.
    pub(crate) violations: Vec<String>,
    /// Operations that were too slow.
    pub(crate) slow: Vec<String>,
    /// Findings about callbacks.
    pub(crate) callbacks: Verdict,
}

impl Told {
    pub(crate) fn new(did: impl Into<String>) -> Self {
        Self { did: did.into(), ..Self::default() }
    }

    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Records an error as a violation.
    pub(crate) fn must<T>(&mut self, went: Result<T>) {
        if let Err(error) = went {
            self.violations.push(format!("{error:#}"));
        }
    }

    /// Records a violation if the condition is false.
    pub(crate) fn check(&mut self, so: bool, otherwise: impl FnOnce() -> String) {
        if !so {
            self.violations.push(otherwise());
        }
    }

    /// Records a slow operation if the condition is false. It depends on the clock, so other load on the machine
    /// affects it.
    pub(crate) fn timed(&mut self, fast: bool, otherwise: impl FnOnce() -> String) {
        if !fast {
            self.slow.push(otherwise());
        }
    }

    /// Records a violation if the count is not zero.
    pub(crate) fn zero(&mut self, what: &str, times: u64) {
        self.check(times == 0, || format!("{what}: {times}"));
    }

    /// Checks the invariants of the tables, the logs of the servers, and that PostgreSQL saw no deadlock.
    pub(crate) async fn whole(&mut self, scene: &Scene, servers: &[&Served]) -> Result<()> {
        for server in servers {
            if let Some(line) = server.complaint()? {
                self.violations.push(format!("a server said: {line}"));
            }
        }
        let deadlocks = "select deadlocks from pg_stat_database where datname = current_database()";
        let deadlocks = scene.number(deadlocks).await?;
        self.zero("deadlocks", deadlocks as u64);
        if let Err(fault) = invariants::hold(&scene.pool, None, Duration::from_secs(10)).await {
            self.violations.push(fault);
        }
        Ok(())
    }

    /// Converts the findings for the report.
    pub(crate) fn played(self) -> Played {
        let mut verdict = self.callbacks;
        verdict.acknowledged = self.acknowledged as usize;
        for (kind, times) in [(Kind::Lost, self.lost), (Kind::Doubled, self.doubled), (Kind::Stuck, self.stuck)] {
            for n in 0..times {
                verdict.find(kind, format!("{} of {times}", n + 1));
            }
        }
        for violation in self.violations {
            verdict.find(Kind::Story, violation);
        }
        for slow in self.slow {
            verdict.find(Kind::Slow, slow);
        }
        let done = [vec![self.did], self.notes].concat().join("; ");
        Played { done, verdict }
    }
}
