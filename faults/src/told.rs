//! What a fault of the network was, and what it brought to light.

use std::time::Duration;

use anyhow::Result;

use crate::{
    checker::{Kind, Verdict, invariants},
    faults::Played,
    scene::{Scene, Served},
};

/// The findings of one fault.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// What was done, with counts.
    pub(crate) did: String,
    pub(crate) acknowledged: u64,
    pub(crate) lost: u64,
    pub(crate) doubled: u64,
    pub(crate) stuck: u64,
    /// What else is worth a look; breaks nothing.
    pub(crate) notes: Vec<String>,
    /// What must not be.
    pub(crate) violations: Vec<String>,
    /// What took longer than it may.
    pub(crate) slow: Vec<String>,
    /// What another judge found.
    pub(crate) callbacks: Verdict,
}

impl Told {
    pub(crate) fn new(did: impl Into<String>) -> Self {
        Self { did: did.into(), ..Self::default() }
    }

    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Something that had to go well.
    pub(crate) fn must<T>(&mut self, went: Result<T>) {
        if let Err(error) = went {
            self.violations.push(format!("{error:#}"));
        }
    }

    /// Something that had to be so.
    pub(crate) fn check(&mut self, so: bool, otherwise: impl FnOnce() -> String) {
        if !so {
            self.violations.push(otherwise());
        }
    }

    /// Something that had to be fast: judged by the clock, so others on the machine have a part in it.
    pub(crate) fn timed(&mut self, fast: bool, otherwise: impl FnOnce() -> String) {
        if !fast {
            self.slow.push(otherwise());
        }
    }

    /// Something that must not have happened even once.
    pub(crate) fn zero(&mut self, what: &str, times: u64) {
        self.check(times == 0, || format!("{what}: {times}"));
    }

    /// The tables hold together, the servers never complained, and PostgreSQL broke no deadlock.
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

    /// As the report wants it.
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
