//! Counters of failed sign-ins, which stop guessing without letting strangers lock accounts.
//!
//! A failure counts against the pair of account and address, the address, the account, and the total. Only the first
//! two refuse attempts, with doubling delays; the last two make them stricter during attacks from many addresses, but
//! leave every new address a few attempts, so that a correct password always works. Known devices and one-time links
//! are counted separately. This file holds the counters of one server in bounded memory without database or requests;
//! `throttle.rs` shares them between servers.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use uuid::Uuid;

use engine::{
    addresses::network_of,
    secrets::{Hash, hash_of},
};

/// Maximum number of counters; beyond it, the oldest quarter is dropped.
const MAX_COUNTERS: usize = 50_000;

/// First delay; each further failure doubles it.
const FIRST_DELAY: Duration = Duration::from_secs(5);

/// Time after which a wrong code of an authenticator app is forgiven, and the longest delay between two attempts.
const FORGIVEN_CODE: Duration = Duration::from_hours(2);

/// Free attempts of each pair and each address during an attack from many addresses.
const STRICT_PAIR: f64 = 3.0;
const STRICT_ADDRESS: f64 = 10.0;

/// Failures of an address beyond which its password checks are queued behind all others.
const SUSPECT: f64 = 3.0;

/// Scope that a failure counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    /// One account from one address.
    Pair,
    /// One address, or one /64 network of IPv6.
    Address,
    /// One account from all addresses.
    Account,
    /// All accounts from all addresses.
    Overall,
    /// A known device or a session, counted separately.
    Own,
    /// One-time links from an address.
    Links,
    /// Codes of an account's authenticator app from an address, after one first factor.
    CodePair,
    /// Codes of an account's authenticator app from all addresses, after one first factor.
    CodeAccount,
    /// Codes of an authenticator app on a device that has given one before, or in a session.
    CodeOwn,
}

/// Parameters of a counter.
struct Rule {
    /// Number of failures without a delay.
    free: f64,
    /// Time after which one failure is forgiven.
    forgiven_after: Duration,
    /// Longest delay.
    longest: Duration,
}

impl Kind {
    const fn rule(self) -> Rule {
        let (free, forgiven_after, longest) = match self {
            Self::Pair => (10.0, Duration::from_mins(10), Duration::from_mins(15)),
            Self::Address => (50.0, Duration::from_secs(30), Duration::from_mins(1)),
            Self::Account => (50.0, Duration::from_mins(1), Duration::ZERO),
            Self::Overall => (1_000.0, Duration::from_millis(100), Duration::ZERO),
            Self::Own => (10.0, Duration::from_mins(1), Duration::from_mins(5)),
            Self::Links => (20.0, Duration::from_secs(6), Duration::from_mins(1)),
            // A code has six digits: docs/identity.md computes these limits. The failures of a pair stay below the
            // account's free attempts, so one address alone never uses them up.
            Self::CodePair => (5.0, FORGIVEN_CODE, FORGIVEN_CODE),
            Self::CodeAccount => (30.0, FORGIVEN_CODE, FORGIVEN_CODE),
            Self::CodeOwn => (10.0, FORGIVEN_CODE, FORGIVEN_CODE),
        };
        Rule { free, forgiven_after, longest }
    }
}

/// Counter key: a hash of the scope, so that all servers and the database use the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    kind: Kind,
    hash: Hash,
}

impl Key {
    fn new(kind: Kind, of: &str) -> Self {
        Self { kind, hash: hash_of(&format!("{kind:?} {of}")) }
    }

    /// Counters of a password attempt from an unknown device.
    pub fn of_password(account: &str, address: Option<IpAddr>) -> Vec<Self> {
        let (account, address) = (account.to_ascii_lowercase(), place(address));
        vec![
            Self::new(Kind::Pair, &format!("{address} {account}")),
            Self::new(Kind::Address, &address),
            Self::new(Kind::Account, &account),
            Self::new(Kind::Overall, ""),
        ]
    }

    /// Counter of a device or a session.
    pub fn of_device_or_session(name: &str) -> Vec<Self> {
        vec![Self::new(Kind::Own, name)]
    }

    /// Counters of an attempt with a one-time link.
    pub fn of_link(address: Option<IpAddr>) -> Vec<Self> {
        vec![Self::new(Kind::Links, &place(address))]
    }

    /// Counters of a passkey, whose owner is not yet known.
    pub fn of_passkey(address: Option<IpAddr>) -> Vec<Self> {
        vec![Self::new(Kind::Links, &format!("passkeys {}", place(address)))]
    }

    /// Counters of responses that arrive from identity providers.
    pub fn of_provider(address: Option<IpAddr>) -> Vec<Self> {
        vec![Self::new(Kind::Links, &format!("providers {}", place(address)))]
    }

    /// Counters of a code after a first factor of this account. `device`: name of a device that gave a code before.
    pub fn of_code(first_factor: &str, address: Option<IpAddr>, device: Option<&str>) -> Vec<Self> {
        match device {
            Some(device) => vec![Self::new(Kind::CodeOwn, &format!("device {device}"))],
            None => vec![
                Self::new(Kind::CodePair, &format!("{} {first_factor}", place(address))),
                Self::new(Kind::CodeAccount, first_factor),
            ],
        }
    }

    /// Counter of codes in a session.
    pub fn of_code_in(session: Uuid) -> Vec<Self> {
        vec![Self::new(Kind::CodeOwn, &format!("session {session}"))]
    }

    /// Counters of a recovery code, which cannot be guessed.
    pub fn of_recovery(address: Option<IpAddr>) -> Vec<Self> {
        vec![Self::new(Kind::Links, &format!("recovery codes {}", place(address)))]
    }

    /// Key of the counter in the database.
    pub const fn hash(&self) -> &Hash {
        &self.hash
    }

    /// Returns true if a success clears the counter: failures of the pair or the device were made by the same person.
    pub const fn is_personal(&self) -> bool {
        matches!(self.kind, Kind::Pair | Kind::Own | Kind::CodePair | Kind::CodeOwn)
    }

    /// Time after which one failure is forgiven, in seconds.
    pub fn forgiven_after_seconds(&self) -> f64 {
        self.kind.rule().forgiven_after.as_secs_f64()
    }
}

/// Number of failures at a point in time. It decays linearly.
#[derive(Clone, Copy, Debug)]
struct Counter {
    failures: f64,
    at: Instant,
}

impl Counter {
    fn failures(&self, rule: &Rule, now: Instant) -> f64 {
        let forgiven = now.saturating_duration_since(self.at).as_secs_f64() / rule.forgiven_after.as_secs_f64();
        (self.failures - forgiven).max(0.0)
    }

    /// Delay after the last failure, given the number of free attempts. Failures that were forgiven meanwhile do not
    /// shorten it.
    fn wait(&self, rule: &Rule, free: f64, now: Instant) -> Duration {
        let beyond = self.failures.ceil() - free;
        if beyond < 0.0 {
            return Duration::ZERO;
        }
        let delay = FIRST_DELAY.saturating_mul(1 << (beyond as u32).min(16)).min(rule.longest);
        delay.saturating_sub(now.saturating_duration_since(self.at))
    }
}

/// The counters of this server.
#[derive(Debug, Default)]
pub struct Attempts(Mutex<HashMap<Key, Counter>>);

impl Attempts {
    /// Counts a failure before the outcome is known, because many attempts may run while a password is checked; a
    /// success is taken back. Over the limit, returns the delay and counts nothing.
    pub fn begin(&self, keys: &[Key], now: Instant) -> Result<(), Duration> {
        let mut counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = wait(&counters, keys, now);
        if !wait.is_zero() {
            return Err(wait);
        }
        drop_oldest(&mut counters, keys.len());
        for key in keys {
            let counter = counters.entry(*key).or_insert(Counter { failures: 0.0, at: now });
            *counter = Counter { failures: counter.failures(&key.kind.rule(), now) + 1.0, at: now };
        }
        Ok(())
    }

    /// Takes back what [`Self::begin`] counted, and clears the counters of the pair or the device.
    pub fn succeeded(&self, keys: &[Key]) {
        let mut counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for key in keys {
            if key.is_personal() {
                counters.remove(key);
            } else if let Some(counter) = counters.get_mut(key) {
                counter.failures = (counter.failures - 1.0).max(0.0);
            }
        }
    }

    /// Delay before an attempt with these keys is allowed; counts nothing.
    pub fn wait(&self, keys: &[Key], now: Instant) -> Duration {
        wait(&self.0.lock().unwrap_or_else(PoisonError::into_inner), keys, now)
    }

    /// Returns true if attempts from this address or device failed recently.
    pub fn is_suspect(&self, keys: &[Key], now: Instant) -> bool {
        let counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_place = keys.iter().filter(|key| matches!(key.kind, Kind::Address | Kind::Own));
        of_place.filter_map(|key| counters.get(key).map(|it| it.failures(&key.kind.rule(), now))).any(|n| n > SUSPECT)
    }

    /// Merges failures from other servers: their number, and the age of the last one.
    pub fn learn(&self, key: Key, failures: f64, age: Duration, now: Instant) {
        let at = now.checked_sub(age).unwrap_or(now);
        let mut counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rule = key.kind.rule();
        let counter = Counter { failures, at };
        if counters.get(&key).is_none_or(|existing| existing.failures(&rule, now) < counter.failures(&rule, now)) {
            drop_oldest(&mut counters, 1);
            counters.insert(key, counter);
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.lock().expect("not poisoned").len()
    }
}

fn wait(counters: &HashMap<Key, Counter>, keys: &[Key], now: Instant) -> Duration {
    // Guessing from many addresses: at this account, or at all accounts.
    let is_over = |wanted: Kind| {
        let found = keys.iter().find(|key| key.kind == wanted).and_then(|key| counters.get(key));
        found.is_some_and(|counter| counter.failures(&wanted.rule(), now) >= wanted.rule().free)
    };
    let (account, overall) = (is_over(Kind::Account), is_over(Kind::Overall));
    let one = |key: &Key| {
        let (counter, rule) = (counters.get(key)?, key.kind.rule());
        let free = match key.kind {
            Kind::Account | Kind::Overall => return None,
            Kind::Pair if account || overall => STRICT_PAIR,
            Kind::Address if overall => STRICT_ADDRESS,
            _ => rule.free,
        };
        Some(counter.wait(&rule, free, now))
    };
    keys.iter().filter_map(one).max().unwrap_or_default()
}

/// Drops the oldest quarter if `more` counters do not fit.
fn drop_oldest(counters: &mut HashMap<Key, Counter>, more: usize) {
    if counters.len() + more <= MAX_COUNTERS {
        return;
    }
    let mut moments: Vec<Instant> = counters.values().map(|counter| counter.at).collect();
    let (_, &mut oldest, _) = moments.select_nth_unstable(MAX_COUNTERS / 4);
    let mut left = MAX_COUNTERS / 4;
    counters.retain(|_, counter| {
        let goes = left > 0 && counter.at <= oldest;
        left -= usize::from(goes);
        !goes
    });
}

/// Returns the address in the form in which it is counted.
fn place(address: Option<IpAddr>) -> String {
    address.map_or_else(|| "nowhere".to_owned(), |address| network_of(address).to_string())
}

#[cfg(test)]
mod tests;
