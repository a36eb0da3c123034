//! Findings of a scenario.

use anyhow::{Error, Result};
use sqlx::PgPool;

use crate::{
    checker::{self, Kind, Verdict, invariants},
    inconclusive::is_inconclusive,
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
    /// Violations of promises, and operations that were too slow.
    violations: Vec<(Kind, String)>,
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
            self.add(kind_of(&error), format!("{error:#}"));
        }
    }

    /// Records a violation if the condition is false.
    pub(crate) fn check(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            self.add(Kind::Scenario, otherwise());
        }
    }

    /// Records a violation that a standstill of the machine can also explain, if the condition is false.
    pub(crate) fn check_in_time(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            self.add(Kind::NotInTime, otherwise());
        }
    }

    /// Records a slow operation if the condition is false. It depends on the clock, so other load on the machine
    /// affects it.
    pub(crate) fn check_fast(&mut self, fast: bool, otherwise: impl FnOnce() -> String) {
        if !fast {
            self.add(Kind::Slow, otherwise());
        }
    }

    /// True if nothing was found so far.
    pub(crate) fn is_clean(&self) -> bool {
        self.violations.is_empty() && self.callbacks.is_clean() && self.lost + self.doubled + self.stuck == 0
    }

    /// Records a violation.
    pub(crate) fn add(&mut self, kind: Kind, what: impl Into<String>) {
        self.violations.push((kind, what.into()));
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
                self.add(Kind::Log, format!("a server said: {line}"));
            }
        }
        let deadlocks = "select deadlocks from pg_stat_database where datname = current_database()";
        let deadlocks = proxy_fixture.number(deadlocks).await?;
        self.expect_zero("deadlocks", deadlocks as u64);
        self.check_tables(&proxy_fixture.pool).await;
        Ok(())
    }

    /// Checks the invariants of the tables.
    pub(crate) async fn check_tables(&mut self, pool: &PgPool) {
        if let Err(fault) = invariants::check(pool, None, checker::AT_REST).await {
            self.add(Kind::Tables, fault);
        }
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
        for (kind, violation) in self.violations {
            verdict.add_finding(kind, violation);
        }
        let done = [vec![self.summary], self.notes].concat().join("; ");
        ScenarioOutcome { done, verdict }
    }
}

/// Kind of the finding that an error is.
pub(crate) fn kind_of(error: &Error) -> Kind {
    if is_inconclusive(error) { Kind::NotInTime } else { Kind::Scenario }
}

/// Summary and verdict of a scenario.
pub(crate) struct ScenarioOutcome {
    pub(crate) done: String,
    pub(crate) verdict: Verdict,
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;
    use crate::inconclusive::Inconclusive;

    fn is_about_time(record: impl FnOnce(&mut Findings)) -> bool {
        let mut findings = Findings::new("a fault");
        findings.expect_ok::<()>(Err(Inconclusive::Timeout.error("everything has ended: not within 40 s")));
        record(&mut findings);
        findings.into_outcome().verdict.is_about_time()
    }

    #[test]
    fn a_standstill_explains_waits_that_ran_out_and_nothing_else() {
        assert!(is_about_time(|findings| findings.check_in_time(false, || "a lease expired".to_owned())));
        assert!(is_about_time(|findings| findings.check_fast(false, || "a slow claim".to_owned())));
        assert!(!is_about_time(|findings| findings.add(Kind::Log, "a server said: panicked at")));
        assert!(!is_about_time(|findings| findings.add(Kind::Tables, "items that stand in none")));
        assert!(!is_about_time(|findings| findings.expect_zero("deadlocks", 1)));
        assert!(!is_about_time(|findings| findings.expect_ok::<()>(Err(anyhow!("409: not open")))));
    }
}
