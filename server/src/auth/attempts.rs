//! Failed sign-ins, counted so that nobody can go on guessing and nobody can lock others out.
//!
//! A failure counts against the pair of account and address, the address, the account, and all together. Only the first
//! two refuse anything, with delays that double; the last two make them stricter while somebody guesses from many places,
//! but leave every fresh address a few tries, so that a right password always gets in. A device that has signed in
//! before, and one-time links, are counted apart. This file holds the counters of one server in bounded memory and knows
//! neither database nor requests; `throttle` shares them between servers.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use uuid::Uuid;

use super::{Hash, client_address::network_of, hash_of};

/// Counters that are kept; beyond it, the oldest quarter goes.
const ROOM: usize = 50_000;

/// The first delay; each further failure doubles it.
const FIRST_DELAY: Duration = Duration::from_secs(5);

/// Time after which a wrong code of an authenticator app is forgiven, and the longest delay between two.
const FORGIVEN_CODE: Duration = Duration::from_hours(2);

/// Free attempts of each pair and each address during an attack from many addresses.
const STRICT_PAIR: f64 = 3.0;
const STRICT_ADDRESS: f64 = 10.0;

/// Failures of an address beyond which its passwords are looked at behind everybody else's.
const SUSPECT: f64 = 3.0;

/// What a failure counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    /// An account from an address.
    Pair,
    /// An address, or a /64 of IPv6.
    Address,
    /// An account, from everywhere.
    Account,
    /// All accounts, from everywhere.
    Overall,
    /// A device that has signed in before, or a session: counted for itself.
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
    /// Failures that cost nothing.
    free: f64,
    /// Time after which one failure is forgiven.
    forgiven_after: Duration,
    /// The longest delay.
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
            // A code has six digits: these bounds are computed in docs/identity.md. A pair comes to a rest below what is
            // free for the account, so one address alone never uses that up.
            Self::CodePair => (5.0, FORGIVEN_CODE, FORGIVEN_CODE),
            Self::CodeAccount => (30.0, FORGIVEN_CODE, FORGIVEN_CODE),
            Self::CodeOwn => (10.0, FORGIVEN_CODE, FORGIVEN_CODE),
        };
        Rule { free, forgiven_after, longest }
    }
}

/// One counter, under the hash of what it counts, so that every server and the database name it alike.
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
        let (account, address) = (account.to_lowercase(), place(address));
        vec![
            Self::new(Kind::Pair, &format!("{address} {account}")),
            Self::new(Kind::Address, &address),
            Self::new(Kind::Account, &account),
            Self::new(Kind::Overall, ""),
        ]
    }

    /// Counter of its own: a device, a session.
    pub fn own(name: &str) -> Vec<Self> {
        vec![Self::new(Kind::Own, name)]
    }

    /// Counters of an attempt with a one-time link.
    pub fn of_link(address: Option<IpAddr>) -> Vec<Self> {
        vec![Self::new(Kind::Links, &place(address))]
    }

    /// Counters of a passkey, whose owner is not known yet.
    pub fn of_passkey(address: Option<IpAddr>) -> Vec<Self> {
        vec![Self::new(Kind::Links, &format!("passkeys {}", place(address)))]
    }

    /// Counters of answers that providers send people back with.
    pub fn of_provider(address: Option<IpAddr>) -> Vec<Self> {
        vec![Self::new(Kind::Links, &format!("providers {}", place(address)))]
    }

    /// Counters of a code, after a first factor of this account. `device`: known by a code that it has given before.
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

    /// The counter's name in the database.
    pub const fn hash(&self) -> &Hash {
        &self.hash
    }

    /// Returns true if a success clears the counter: failures of the pair or the device were the person's own.
    pub const fn is_personal(&self) -> bool {
        matches!(self.kind, Kind::Pair | Kind::Own | Kind::CodePair | Kind::CodeOwn)
    }

    /// Time after which one failure is forgiven, in seconds.
    pub fn forgiven_after_seconds(&self) -> f64 {
        self.kind.rule().forgiven_after.as_secs_f64()
    }
}

/// Failures as they stood at a moment. They are forgiven steadily.
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

    /// Wait after the last failure, with this number of free attempts. Failures that were forgiven meanwhile do not
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
    /// Counts a failure before it is known whether it is one, as many may try at once while a password is being looked
    /// at. What succeeds is taken back. Gives how long to wait where there were too many, and then counts nothing.
    pub fn begin(&self, keys: &[Key], now: Instant) -> Result<(), Duration> {
        let mut counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = wait(&counters, keys, now);
        if !wait.is_zero() {
            return Err(wait);
        }
        make_room(&mut counters, keys.len());
        for key in keys {
            let counter = counters.entry(*key).or_insert(Counter { failures: 0.0, at: now });
            *counter = Counter { failures: counter.failures(&key.kind.rule(), now) + 1.0, at: now };
        }
        Ok(())
    }

    /// Takes back what [`Self::begin`] counted, and whatever stood against the pair or the device: it was no failure.
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

    /// Wait before an attempt with these keys is allowed; counts nothing.
    pub fn wait(&self, keys: &[Key], now: Instant) -> Duration {
        wait(&self.0.lock().unwrap_or_else(PoisonError::into_inner), keys, now)
    }

    /// Returns true if attempts from this address or device failed recently.
    pub fn is_suspect(&self, keys: &[Key], now: Instant) -> bool {
        let counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_place = keys.iter().filter(|key| matches!(key.kind, Kind::Address | Kind::Own));
        of_place.filter_map(|key| counters.get(key).map(|it| it.failures(&key.kind.rule(), now))).any(|n| n > SUSPECT)
    }

    /// Learns of failures on other servers: how many, and how long ago the last was.
    pub fn learn(&self, key: Key, failures: f64, age: Duration, now: Instant) {
        let at = now.checked_sub(age).unwrap_or(now);
        let mut counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rule = key.kind.rule();
        let told = Counter { failures, at };
        if counters.get(&key).is_none_or(|known| known.failures(&rule, now) < told.failures(&rule, now)) {
            make_room(&mut counters, 1);
            counters.insert(key, told);
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.lock().expect("not poisoned").len()
    }
}

fn wait(counters: &HashMap<Key, Counter>, keys: &[Key], now: Instant) -> Duration {
    // Somebody guesses from many places: at this account, or at all of them.
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

/// Lets the oldest quarter go where there is no room for so many more.
fn make_room(counters: &mut HashMap<Key, Counter>, more: usize) {
    if counters.len() + more <= ROOM {
        return;
    }
    let mut moments: Vec<Instant> = counters.values().map(|counter| counter.at).collect();
    let (_, &mut oldest, _) = moments.select_nth_unstable(ROOM / 4);
    let mut left = ROOM / 4;
    counters.retain(|_, counter| {
        let goes = left > 0 && counter.at <= oldest;
        left -= usize::from(goes);
        !goes
    });
}

/// An address as it is counted.
fn place(address: Option<IpAddr>) -> String {
    address.map_or_else(|| "nowhere".to_owned(), |address| network_of(address).to_string())
}

#[cfg(test)]
mod tests;
