//! Failed sign-ins, counted per address and per what was tried, so that nobody can go on guessing.
//!
//! Only failures count: a person who signs in often is not slowed down. Kept in memory, in bounded
//! room, by each server for itself; a restart forgets. (General limiters take a turn for every
//! request and cannot be asked without taking one.)

use std::{
    collections::HashMap,
    hash::Hash,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use domain::{Code, Problem};

use super::Hash as Secret;

/// Failures in a row that cost nothing, and how long it takes until one of them is forgiven.
const FREE: u32 = 20;
const FORGIVEN_AFTER: Duration = Duration::from_secs(6);

/// How many addresses and secrets are remembered; beyond it, those that are free again are forgotten,
/// and if need be all.
const ROOM: usize = 10_000;

/// What a failure counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    Address(IpAddr),
    Tried(Secret),
}

/// Failed sign-ins of late.
#[derive(Debug, Default)]
pub struct Attempts(Mutex<HashMap<Key, Instant>>);

impl Attempts {
    /// Refuses who has failed too often: 429 `too_many_requests` with the time to wait.
    pub fn check(&self, address: Option<IpAddr>, tried: Secret) -> Result<(), Problem> {
        self.check_at(address, tried, Instant::now())
    }

    /// Counts a failure.
    pub fn failed(&self, address: Option<IpAddr>, tried: Secret) {
        self.failed_at(address, tried, Instant::now());
    }

    /// Counts a failure before it is known whether it is one, as many may try at once while a password is
    /// being looked at. What succeeds is [`Self::forgiven`]. Refuses as [`Self::check`] does.
    pub fn begin(&self, address: Option<IpAddr>, tried: Secret) -> Result<(), Problem> {
        let now = Instant::now();
        self.check_at(address, tried, now)?;
        self.failed_at(address, tried, now);
        Ok(())
    }

    /// Takes back what [`Self::begin`] counted: it was no failure.
    pub fn forgiven(&self, address: Option<IpAddr>, tried: Secret) {
        let mut debts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for key in keys(address, tried) {
            if let Some(paid_at) = debts.get_mut(&key) {
                *paid_at = paid_at.checked_sub(FORGIVEN_AFTER).unwrap_or(*paid_at);
            }
        }
    }

    fn check_at(&self, address: Option<IpAddr>, tried: Secret, now: Instant) -> Result<(), Problem> {
        let debts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = keys(address, tried)
            .filter_map(|key| debts.get(&key))
            .map(|paid_at| paid_at.saturating_duration_since(now).saturating_sub(FORGIVEN_AFTER * (FREE - 1)))
            .max()
            .unwrap_or_default();
        if wait.is_zero() {
            return Ok(());
        }
        Err(Problem {
            retry_after_seconds: Some(u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).saturating_add(1)),
            ..Problem::new(Code::TooManyRequests, "Too many failed sign-ins. Wait a little, then try again.")
        })
    }

    fn failed_at(&self, address: Option<IpAddr>, tried: Secret, now: Instant) {
        let mut debts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if debts.len() >= ROOM {
            debts.retain(|_, paid_at| *paid_at > now);
        }
        if debts.len() >= ROOM {
            debts.clear();
        }
        for key in keys(address, tried) {
            let paid_at = debts.entry(key).or_insert(now);
            *paid_at = (*paid_at).max(now) + FORGIVEN_AFTER;
        }
    }
}

fn keys(address: Option<IpAddr>, tried: Secret) -> impl Iterator<Item = Key> {
    // One household of IPv6 has 2^64 addresses.
    let address = address.map(|address| match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) & !u128::from(u64::MAX)).into()),
        other @ IpAddr::V4(_) => other,
    });
    address.map(Key::Address).into_iter().chain([Key::Tried(tried)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_fails_too_often_waits_and_is_forgiven() {
        let attempts = Attempts::default();
        let (here, there) = (Some(IpAddr::from([203, 0, 113, 9])), Some(IpAddr::from([203, 0, 113, 10])));
        let start = Instant::now();
        for n in 0..20 {
            attempts.check_at(here, [n; 32], start).expect("still free");
            attempts.failed_at(here, [n; 32], start);
        }
        let refused = attempts.check_at(here, [99; 32], start).expect_err("too often");
        assert_eq!((refused.code, refused.retry_after_seconds), (Code::TooManyRequests, Some(7)));
        attempts.check_at(there, [99; 32], start).expect("somebody else");
        attempts.check_at(here, [99; 32], start + FORGIVEN_AFTER).expect("forgiven");
    }

    #[test]
    fn who_succeeds_owes_nothing() {
        let attempts = Attempts::default();
        let here = Some(IpAddr::from([203, 0, 113, 9]));
        for _ in 0..100 {
            attempts.begin(here, [1; 32]).expect("never too often");
            attempts.forgiven(here, [1; 32]);
        }
        let refused = (0..30).find(|_| attempts.begin(here, [1; 32]).is_err());
        assert_eq!(refused, Some(20), "what is begun at once counts at once");
    }

    #[test]
    fn one_secret_cannot_be_tried_from_everywhere() {
        let attempts = Attempts::default();
        let start = Instant::now();
        for n in 0..20 {
            attempts.failed_at(Some(IpAddr::from([203, 0, 113, n])), [1; 32], start);
        }
        let elsewhere = Some(IpAddr::from([198, 51, 100, 1]));
        attempts.check_at(elsewhere, [1; 32], start).expect_err("too often");
        attempts.check_at(elsewhere, [2; 32], start).expect("another secret");
    }
}
