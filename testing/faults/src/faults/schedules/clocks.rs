//! Clocks of the database and the servers, moved while they run.

use std::{path::Path, time::Duration};

use anyhow::Result;
use domain::Time;
use time::OffsetDateTime;

use super::{HOUR, SERVERS};
use crate::fixture::faketime::FakeClock;

/// Real time between two steps of the database's clock, and seconds that it goes ahead in addition: sixteen times as fast.
const STEP: Duration = Duration::from_millis(200);
const AHEAD: i64 = 3;

pub(super) struct Clocks {
    pub(super) database: FakeClock,
    pub(super) servers: [FakeClock; SERVERS],
    /// Seconds between the real time and that of the database.
    offset: i64,
    /// Number of moves by an hour.
    pub(super) moved: usize,
    /// Times that the database's clock showed when it had been set back.
    pub(super) set_back: Vec<i64>,
}

impl Clocks {
    pub(super) fn new(folder: &Path) -> Result<Self> {
        let clock = |name: &str| FakeClock::new(folder.join(name));
        let (database, servers) = (clock("clock")?, [clock("clock-0")?, clock("clock-1")?]);
        Ok(Self { database, servers, offset: 0, moved: 0, set_back: Vec::new() })
    }

    pub(super) fn jump_to(&mut self, at: Time) -> Result<()> {
        self.offset = (at.0 - OffsetDateTime::now_utc()).whole_seconds();
        self.apply()
    }

    pub(super) fn move_by(&mut self, seconds: i64) -> Result<()> {
        self.moved += 1;
        self.offset += seconds;
        if seconds < 0 {
            self.set_back.push(OffsetDateTime::now_utc().unix_timestamp() + self.offset);
        }
        self.apply()
    }

    /// Sets all clocks. One server is an hour ahead of the database, and the other is behind; they change places.
    fn apply(&self) -> Result<()> {
        self.database.set(&format!("{:+}", self.offset))?;
        for (n, server) in self.servers.iter().enumerate() {
            let off = if (n + self.moved).is_multiple_of(2) { HOUR } else { -HOUR };
            server.set(&format!("{:+}", self.offset + off))?;
        }
        Ok(())
    }

    /// Lets the database's clock run fast for this real time.
    pub(super) async fn run(&mut self, time: Duration) -> Result<()> {
        let began = tokio::time::Instant::now();
        while began.elapsed() < time {
            tokio::time::sleep(STEP).await;
            self.offset += AHEAD;
            self.database.set(&format!("{:+}", self.offset))?;
        }
        Ok(())
    }
}
