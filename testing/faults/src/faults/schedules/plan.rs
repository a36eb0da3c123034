//! The schedules of the fault: a few forms of expressions in several zones, and each pair of policies.

use anyhow::Result;
use domain::{
    Time,
    api::{CatchUp, Overlap},
};
use serde_json::{Value, json};

use super::wall_clock::WallClock;

/// Zones that change their clocks at the same moment, 01:00 UTC, and the hour that is repeated in autumn and skipped in
/// spring.
const CHANGING: [(&str, usize); 4] =
    [("Europe/Berlin", 2), ("Europe/London", 1), ("Europe/Helsinki", 3), ("Atlantic/Azores", 0)];
/// Other zones.
const OTHERS: [&str; 4] = ["UTC", "Asia/Kolkata", "America/New_York", "Australia/Lord_Howe"];

/// Number of zones.
pub(super) const ZONES: usize = CHANGING.len() + OTHERS.len();

/// A schedule, and what is expected of it.
pub(super) struct Planned {
    pub(super) name: String,
    pub(super) cron: String,
    pub(super) zone: &'static str,
    pub(super) overlap: Overlap,
    pub(super) catch_up: CatchUp,
    /// Seconds.
    pub(super) window: i64,
    pub(super) job: Value,
    pub(super) clock: WallClock,
}

impl Planned {
    pub(super) fn nth(n: usize) -> Result<Self> {
        let (group, form) = (n / 20, n % 20);
        let (changing, hour) = CHANGING[n % CHANGING.len()];
        let any = if group % 2 == 0 { changing } else { OTHERS[n % OTHERS.len()] };
        let (minute, next) = (n * 7 % 60, (hour + 1) % 24);
        let (cron, zone) = match form {
            0 => ("* * * * *".to_owned(), any),
            1 => (format!("{}-59/5 * * * *", n / 20 % 5), any),
            2 if group % 5 == 0 => ("*/30 * * * * *".to_owned(), any),
            2..5 => (format!("{minute} * * * *"), any),
            5 => ("*/15 * * * *".to_owned(), any),
            6 => (format!("{minute} */2 * * *"), any),
            7..12 => (format!("{minute} {hour} * * *"), changing),
            12..14 => (format!("*/10 {hour} * * *"), changing),
            14..16 => (format!("{minute} {hour} * * 0"), changing),
            16 => ("@hourly".to_owned(), any),
            17 => (format!("{minute} {hour},{next} * * *"), changing),
            18 => (format!("*/20 {hour}-{next} * * *"), changing),
            _ => (format!("{minute} {hour} * 3,10 *"), changing),
        };
        let overlap = [Overlap::Skip, Overlap::Queue, Overlap::CancelPrevious][group % 3];
        let catch_up = [CatchUp::None, CatchUp::Last, CatchUp::All][group / 3 % 3];
        let window = if overlap == Overlap::Queue { 600 } else { [600, 60, 3_600, 1_800][group / 2 % 4] };
        // Complete at once, complete after its item, or never complete. Only the first two can have queued runs that end.
        let job = match group / 9 % 3 {
            0 => json!({"type": "tick", "sealed": true}),
            1 => json!({"type": "tick", "sealed": true, "items": [{"payload": {"n": n}}]}),
            _ if overlap == Overlap::Queue => json!({"type": "tick", "sealed": true, "items": [{"payload": {"n": n}}]}),
            _ => json!({"type": "tick"}),
        };
        let clock = WallClock::of(&cron, zone)?;
        Ok(Self { name: n.to_string(), cron, zone, overlap, catch_up, window, job, clock })
    }

    /// Body of `POST /schedules`.
    pub(super) fn body(&self, starts_at: Time, ends_at: Time) -> Value {
        json!({
            "name": self.name,
            "cron": self.cron,
            "time_zone": self.zone,
            "job": self.job,
            "overlap": self.overlap.as_str(),
            "catch_up": self.catch_up.as_str(),
            "catch_up_window_seconds": self.window,
            "starts_at": starts_at.to_rfc3339(),
            "ends_at": ends_at.to_rfc3339(),
        })
    }
}
