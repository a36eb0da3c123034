//! Events that are written once and then counted for an hour: reads of the same object, refusals, failed sign-ins.
//!
//! A page that is polled every minute is one entry per hour, and a password guesser cannot fill the disk: the first
//! event of a kind is written at once, later ones are counted and written as one more entry when the window ends. Each
//! server counts for itself in bounded memory; a crash loses counts, never first entries. An outage loses neither, but
//! may write a count twice.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use uuid::Uuid;

use engine::{addresses::network_of, store::notify::audit::AuditRow};

/// Window in which repetitions become one entry.
const WINDOW: Duration = Duration::from_hours(1);

/// Window for uses of a share link, whose page polls the state every few seconds.
const SHARE_WINDOW: Duration = Duration::from_hours(24);

/// Number of kinds per group that are counted separately; beyond it, the rest of the group is one kind.
const MAX_CALLER_KINDS: usize = 20_000;
const MAX_ANONYMOUS_KINDS: usize = 500;

/// Identity of an event: events of one kind are counted together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// Action of this credential on this object.
    Caller { credential_id: Uuid, action: &'static str, object: String },
    /// Use of this share link from this address (IPv6: the /64 network).
    Share { id: Uuid, address: Option<IpAddr> },
    /// Unauthenticated attempt from this address (IPv6: the /64 network) on this account.
    Stranger { action: &'static str, address: Option<IpAddr>, account: Option<Uuid> },
    /// Everything beyond the limit of separate kinds.
    Other { strangers: bool, action: &'static str },
}

impl Kind {
    pub(super) fn of_stranger(action: &'static str, address: Option<IpAddr>, account: Option<Uuid>) -> Self {
        Self::Stranger { action, address: address.map(network_of), account }
    }

    pub(super) fn of_share(id: Uuid, address: Option<IpAddr>) -> Self {
        Self::Share { id, address: address.map(network_of) }
    }

    /// Time within which repetitions are one entry.
    const fn window(&self) -> Duration {
        match self {
            Self::Share { .. } => SHARE_WINDOW,
            _ => WINDOW,
        }
    }

    const fn is_strangers(&self) -> bool {
        matches!(self, Self::Stranger { .. } | Self::Other { strangers: true, .. })
    }

    /// Kind that an event of this kind belongs to beyond the limit of separate kinds.
    const fn other(&self) -> Self {
        Self::Other { strangers: self.is_strangers(), action: self.action() }
    }

    const fn action(&self) -> &'static str {
        match self {
            Self::Caller { action, .. } | Self::Stranger { action, .. } | Self::Other { action, .. } => action,
            Self::Share { .. } => "share.open",
        }
    }
}

#[derive(Debug)]
struct EventCount {
    since: Instant,
    /// Number of repetitions since the entry was written.
    repetitions: u64,
    /// Entry to write when the window ends; `None` if there is nothing to write.
    row: Option<AuditRow>,
}

/// Refusals that are looked up concurrently.
const MAX_LOOKUPS: usize = 4;

/// Events within their window, counted by kind.
#[derive(Debug)]
pub struct Repeats {
    counted: Mutex<HashMap<Kind, EventCount>>,
    /// Entries of windows that have ended, which could not be written.
    unwritten: Mutex<Vec<AuditRow>>,
    lookups: Arc<Semaphore>,
}

impl Default for Repeats {
    fn default() -> Self {
        Self { counted: Mutex::default(), unwritten: Mutex::default(), lookups: Arc::new(Semaphore::new(MAX_LOOKUPS)) }
    }
}

impl Repeats {
    /// Counts an event. Returns true if it is new: the caller then writes an entry and reports it with
    /// [`Self::set_row`], or reports the failure with [`Self::forget`].
    pub(super) fn is_new(&self, kind: &Kind) -> bool {
        self.count(kind, Instant::now())
    }

    fn count(&self, kind: &Kind, now: Instant) -> bool {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(existing) =
            counted.get_mut(kind).filter(|existing| now.duration_since(existing.since) < kind.window())
        {
            existing.repetitions += 1;
            return false;
        }
        if counted.contains_key(kind) {
            // The window is over but its count is not written yet: keep counting until then.
            if let Some(existing) =
                counted.get_mut(kind).filter(|existing| existing.repetitions > 0 && existing.row.is_some())
            {
                existing.repetitions += 1;
                return false;
            }
        } else {
            let strangers = kind.is_strangers();
            let limit = if strangers { MAX_ANONYMOUS_KINDS } else { MAX_CALLER_KINDS };
            if counted.keys().filter(|existing| existing.is_strangers() == strangers).count() >= limit
                && !matches!(kind, Kind::Other { .. })
            {
                drop(counted);
                return self.count(&kind.other(), now);
            }
        }
        counted.insert(kind.clone(), EventCount { since: now, repetitions: 0, row: None });
        true
    }

    /// Stores the entry of this kind, which is written again with the number of repetitions when the window ends.
    pub(super) fn set_row(&self, kind: &Kind, row: AuditRow) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = counted_kind(&counted, kind);
        if let Some(existing) = counted.get_mut(&kind) {
            existing.row = Some(row);
        }
    }

    /// Forgets an event whose entry could not be written, so that the next one tries again.
    pub(super) fn forget(&self, kind: &Kind) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = counted_kind(&counted, kind);
        counted.remove(&kind);
    }

    /// Acquires a slot to look up a refusal; `None` if all are taken.
    pub(super) fn lookup_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.lookups).try_acquire_owned().ok()
    }

    /// Takes the entries to write for windows that have ended, and those of [`Self::put_back`].
    pub fn take_finished(&self) -> Vec<AuditRow> {
        self.take_finished_at(Instant::now())
    }

    /// Takes the entries to write for all windows, as the process ends.
    pub fn take_all(&self) -> Vec<AuditRow> {
        self.take_finished_at(Instant::now() + SHARE_WINDOW)
    }

    /// Adds entries that were taken and could not be written: they are taken again.
    pub(super) fn put_back(&self, rows: Vec<AuditRow>) {
        self.unwritten.lock().unwrap_or_else(PoisonError::into_inner).extend(rows);
    }

    fn take_finished_at(&self, now: Instant) -> Vec<AuditRow> {
        let mut rows = std::mem::take(&mut *self.unwritten.lock().unwrap_or_else(PoisonError::into_inner));
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.retain(|kind, existing| {
            if now.duration_since(existing.since) < kind.window() {
                return true;
            }
            if let Some(row) = existing.row.take().filter(|_| existing.repetitions > 0) {
                let times = if existing.repetitions == 1 {
                    "once more".to_owned()
                } else {
                    format!("{} more times", existing.repetitions)
                };
                let before = row.detail.clone().map(|detail| format!("{detail}; ")).unwrap_or_default();
                let window = if kind.window() == SHARE_WINDOW { "day" } else { "hour" };
                rows.push(row.with_detail(format!("{before}{times} within the {window}")));
            }
            false
        });
        rows
    }
}

/// Kind under which events of this kind are counted.
fn counted_kind(counted: &HashMap<Kind, EventCount>, kind: &Kind) -> Kind {
    if counted.contains_key(kind) { kind.clone() } else { kind.other() }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    fn of(n: u8) -> Kind {
        Kind::of_stranger("session.refuse", Some(IpAddr::from([192, 0, 2, n])), None)
    }

    #[test]
    fn repeated_events_are_two_entries_an_hour() {
        let (repeats, now) = (Repeats::default(), Instant::now());
        assert!(repeats.count(&of(1), now));
        repeats.set_row(&of(1), AuditRow::by_nobody("session.refuse", None));
        for _ in 0..1_000 {
            assert!(!repeats.count(&of(1), now));
        }
        assert!(repeats.take_finished_at(now).is_empty());
        let rows = repeats.take_finished_at(now + WINDOW);
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].detail.as_deref(), Some("1000 more times within the hour"));
        assert!(repeats.count(&of(1), now + WINDOW), "a new hour");
    }

    #[test]
    fn a_link_is_one_entry_a_day_for_each_network() {
        let (repeats, now) = (Repeats::default(), Instant::now());
        let of = |address: &str| Kind::of_share(Uuid::from_u128(1), Some(address.parse().expect("an address")));
        assert!(repeats.count(&of("2001:db8::1"), now));
        repeats.set_row(&of("2001:db8::1"), AuditRow::by_nobody("share.open", None));
        assert!(!repeats.count(&of("2001:db8::2"), now + 23 * WINDOW), "the same network, the same day");
        assert!(repeats.count(&of("2001:db8:1::1"), now), "another network");
        assert!(repeats.take_finished_at(now + 23 * WINDOW).is_empty());
        let rows = repeats.take_finished_at(now + SHARE_WINDOW);
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].detail.as_deref(), Some("once more within the day"));
    }

    #[test]
    fn anonymous_events_have_a_low_limit() {
        let (repeats, now) = (Repeats::default(), Instant::now());
        let mut entries = 0;
        for n in 0..100_000_u32 {
            let address = IpAddr::from(Ipv6Addr::from(u128::from(n) << 64));
            let kind = Kind::of_stranger("session.refuse", Some(address), None);
            if repeats.count(&kind, now) {
                entries += 1;
                repeats.set_row(&kind, AuditRow::by_nobody("session.refuse", None));
            }
        }
        assert_eq!(entries, MAX_ANONYMOUS_KINDS + 1);
        assert_eq!(repeats.take_finished_at(now + WINDOW).len(), 1, "all the others");
    }

    #[test]
    fn an_unwritten_entry_is_tried_again() {
        let (repeats, now) = (Repeats::default(), Instant::now());
        assert!(repeats.count(&of(2), now));
        repeats.forget(&of(2));
        assert!(repeats.count(&of(2), now));
        // Beyond the limit of separate kinds.
        let of = |n: usize| Kind::of_stranger("session.refuse", None, Some(Uuid::from_u128(n as u128)));
        assert!((0..MAX_ANONYMOUS_KINDS).all(|n| repeats.count(&of(n), now)));
        repeats.forget(&of(MAX_ANONYMOUS_KINDS));
        assert!(repeats.count(&of(MAX_ANONYMOUS_KINDS), now));
    }
}
