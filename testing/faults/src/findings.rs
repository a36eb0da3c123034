//! Findings of a scenario.

use std::time::Duration;

use anyhow::Result;

use crate::{
    checker::{Kind, Verdict, invariants},
    proxy_fixture::{ProxyFixture, RunningServer},
};

/// Findings of one fault.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Summary of the scenario, with counts.
    pub(crate) summary: String,
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

impl Findings {
    pub(crate) fn new(summary: impl Into<String>) -> Self {
        Self { summary: summary.into(), ..Self::default() }
    }

    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Records an error as a violation.
    pub(crate) fn expect_ok<T>(&mut self, result: Result<T>) {
        if let Err(error) = result {
            self.violations.push(format!("{error:#}"));
        }
    }

    /// Records a violation if the condition is false.
    pub(crate) fn check(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            self.violations.push(otherwise());
        }
    }

    /// Records a slow operation if the condition is false. It depends on the clock, so other load on the machine
    /// affects it.
    pub(crate) fn check_fast(&mut self, fast: bool, otherwise: impl FnOnce() -> String) {
        if !fast {
            self.slow.push(otherwise());
        }
    }

    /// Records a violation if the count is not zero.
    pub(crate) fn expect_zero(&mut self, what: &str, times: u64) {
        self.check(times == 0, || format!("{what}: {times}"));
    }

    /// Checks the invariants of the tables, the logs of the servers, and that PostgreSQL saw no deadlock.
    pub(crate) async fn check_integrity(
        &mut self,
        proxy_fixture: &ProxyFixture,
        servers: &[&RunningServer],
    ) -> Result<()> {
        for server in servers {
            if let Some(line) = server.forbidden_log_line()? {
                self.violations.push(format!("a server said: {line}"));
            }
        }
        let deadlocks = "select deadlocks from pg_stat_database where datname = current_database()";
        let deadlocks = proxy_fixture.number(deadlocks).await?;
        self.expect_zero("deadlocks", deadlocks as u64);
        if let Err(fault) = invariants::check(&proxy_fixture.pool, None, Duration::from_secs(10)).await {
            self.violations.push(fault);
        }
        Ok(())
    }

    /// Converts the findings for the report.
    pub(crate) fn into_outcome(self) -> ScenarioOutcome {
        let mut verdict = self.callbacks;
        verdict.acknowledged = self.acknowledged as usize;
        for (kind, times) in [(Kind::Lost, self.lost), (Kind::Doubled, self.doubled), (Kind::Stuck, self.stuck)] {
            for n in 0..times {
                verdict.add_finding(kind, format!("{} of {times}", n + 1));
            }
        }
        for violation in self.violations {
            verdict.add_finding(Kind::Scenario, violation);
        }
        for slow in self.slow {
            verdict.add_finding(Kind::Slow, slow);
        }
        let done = [vec![self.summary], self.notes].concat().join("; ");
        ScenarioOutcome { done, verdict }
    }
}

/// Summary and verdict of a scenario.
pub(crate) struct ScenarioOutcome {
    pub(crate) done: String,
    pub(crate) verdict: Verdict,
}
