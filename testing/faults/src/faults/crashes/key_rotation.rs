//! The command that rotates the key of stored secrets, repeated beside the servers, and crashing at its own points.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};

use super::{Tally, crash_point};
use crate::{
    fixture::process::{Process, is_abort},
    proxy_fixture::ProxyFixture,
};

/// Part of the names of the command's points, which servers do not pass.
const POINTS: &str = "store/access/sealing_keys";
/// A rotation waits for servers that were seen in the last fifteen seconds, a minute for each of its two steps.
const TIMEOUT: Duration = Duration::from_mins(3);
/// Current keys with which every secret is sealed.
const COMPLETE: &str = "select count(*) from sealing_key where is_current and complete_at is not null";

/// `treeline-server rotate-key`.
pub(super) struct KeyRotation(Process);

impl KeyRotation {
    pub(super) fn new(proxy_fixture: &ProxyFixture, settings: &[(&str, &str)]) -> Self {
        Self(proxy_fixture.program("127.0.0.1:0", settings).arguments(["rotate-key"]))
    }

    /// Rotates the key until `over`. Each crash is followed by another attempt, which goes on where the last one ended.
    pub(super) async fn repeat(&mut self, tally: &Tally, over: &AtomicBool) -> Result<()> {
        while !over.load(Relaxed) {
            let points: Vec<String> = tally.open().into_iter().filter(|point| point.contains(POINTS)).collect();
            let points: Vec<String> = points.iter().map(|point| format!("{point}=return")).collect();
            self.0.unset("FAILPOINTS");
            self.0.set("FAILPOINTS", &points.join(";"));
            self.0.start()?;
            while self.0.is_running() && !over.load(Relaxed) {
                self.poll(tally)?;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        self.0.kill().await
    }

    /// Looks whether the command has ended, and counts its crash.
    fn poll(&mut self, tally: &Tally) -> Result<()> {
        let Some(status) = self.0.try_wait()? else { return Ok(()) };
        let log = std::fs::read_to_string(self.0.log())?;
        if is_abort(status) {
            tally.count(crash_point(&log)?);
        } else {
            // It gives up if a server does not follow in time, as servers do that crash all the time.
            let last = log.lines().last().unwrap_or_default();
            let may_be_repeated = last.contains("run this again afterwards");
            ensure!(status.success() || may_be_repeated, "rotating the key: {status}, {last}");
        }
        Ok(())
    }

    /// Rotates the key once more, without a crash. Afterwards one key seals every secret.
    pub(super) async fn complete(&mut self, proxy_fixture: &ProxyFixture) -> Result<()> {
        self.0.unset("FAILPOINTS");
        self.0.start()?;
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.0.try_wait()? {
                break status;
            }
            ensure!(began.elapsed() < TIMEOUT, "the key was not rotated");
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        ensure!(status.success(), "rotating the key: {status}; its log is {}", self.0.log().display());
        let complete = proxy_fixture.number(COMPLETE).await?;
        ensure!(complete == 1, "{complete} complete keys after a rotation");
        Ok(())
    }
}
