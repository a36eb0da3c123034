//! Passwords: argon2id, as expensive to guess as a sign-in can afford.
//!
//! A check takes tens of milliseconds of CPU and 19 MiB, so it runs on blocking threads with limited concurrency. Known
//! devices, addresses without recent failures, and addresses with recent failures have separate queues, so that a flood
//! of wrong passwords delays nobody else. Unknown accounts cost the same as known ones. A request that waits too long,
//! or finds its queue full, is refused with `Retry-After`.

use std::time::Duration;

use argon2::{
    Argon2,
    password_hash::{PasswordHasher as _, PasswordVerifier as _, phc::PasswordHash},
};
use domain::{
    Code, Problem,
    identity::account::{LONGEST_PASSWORD, password_problem},
};
use tokio::sync::Semaphore;

use engine::error::{Error, Result};

/// Requests that may wait in a queue; a request beyond it is refused with `Retry-After`.
const LONGEST_QUEUE: usize = 64;
/// Longest wait in a queue.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(8);

/// Number of guesses below which a password counts as common. Common lists hold some ten thousand entries.
const COMMON_BELOW: u64 = 1_000_000;

/// Hash that is checked if there is no password. It costs the same as a real one, and nothing matches it.
const DECOY: &str = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0c2FsdA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Queue of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// A known device, or a signed-in person.
    KnownDevice,
    /// An address without recent failures.
    Fresh,
    /// An address with recent failures.
    Suspect,
}

/// Slots of running checks, and the number of places in the queue.
#[derive(Debug)]
struct Slots {
    slots: Semaphore,
    places: Semaphore,
}

impl Slots {
    fn new(at_once: usize) -> Self {
        Self { slots: Semaphore::new(at_once), places: Semaphore::new(at_once + LONGEST_QUEUE) }
    }
}

/// Queues in front of password checks.
#[derive(Debug)]
pub struct Passwords {
    known: Slots,
    fresh: Slots,
    suspect: Slots,
}

impl Default for Passwords {
    fn default() -> Self {
        Self { known: Slots::new(1), fresh: Slots::new(2), suspect: Slots::new(1) }
    }
}

impl Passwords {
    /// Returns the stored form of a password: a PHC string with its own salt.
    pub async fn hash(&self, password: String) -> Result<String> {
        self.in_slot(Queue::KnownDevice, move || {
            Argon2::default().hash_password(password.as_bytes()).map(|hash| hash.to_string())
        })
        .await?
        .map_err(|error| Error::Broken(format!("hashing a password: {error}")))
    }

    /// Returns true if the password matches the stored hash. Without a hash it returns false after the same time.
    pub async fn fits(&self, password: String, stored: Option<String>, queue: Queue) -> Result<bool> {
        let password = if password.len() > LONGEST_PASSWORD { String::new() } else { password };
        let has_hash = stored.is_some();
        let stored = stored.unwrap_or_else(|| DECOY.to_owned());
        let fits = self
            .in_slot(queue, move || {
                let parsed = PasswordHash::new(&stored)?;
                Ok::<_, argon2::password_hash::Error>(
                    Argon2::default().verify_password(password.as_bytes(), &parsed).is_ok(),
                )
            })
            .await?
            .map_err(|error| Error::Broken(format!("a stored password cannot be read: {error}")))?;
        Ok(has_hash && fits)
    }

    async fn in_slot<T: Send + 'static>(&self, queue: Queue, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let busy = || Problem {
            retry_after_seconds: Some(5),
            ..Problem::new(Code::TooManyRequests, "Too many people are signing in at once. Try again in a moment.")
        };
        let slots = match queue {
            Queue::KnownDevice => &self.known,
            Queue::Fresh => &self.fresh,
            Queue::Suspect => &self.suspect,
        };
        let _place = slots.places.try_acquire().map_err(|_| busy())?;
        let slot = tokio::time::timeout(QUEUE_TIMEOUT, slots.slots.acquire()).await.map_err(|_| busy())?;
        let _slot = slot.map_err(|_| busy())?;
        tokio::task::spawn_blocking(work).await.map_err(|error| Error::Broken(error.to_string()))
    }
}

/// Returns true if a stored hash was made with other parameters than new hashes.
pub fn is_outdated(stored: &str) -> bool {
    let today = Argon2::default();
    let parameters = PasswordHash::new(stored).ok().and_then(|stored| argon2::Params::try_from(&stored).ok());
    parameters.is_none_or(|stored| {
        let same = |f: fn(&argon2::Params) -> u32| f(&stored) == f(today.params());
        !(same(argon2::Params::m_cost) && same(argon2::Params::t_cost) && same(argon2::Params::p_cost))
    })
}

/// Describes the fault of a new password; `None` if it has none. `known` contains public words about the person.
pub fn fault_of(password: &str, known: &[&str]) -> Option<&'static str> {
    password_problem(password).or_else(|| {
        is_common(password, known)
            .then_some("expected a password that is harder to guess; several unrelated words are good")
    })
}

/// Returns true for a common password, or one derived from common passwords or known words by the usual substitutions
/// of cracking programs. The list has 30,000 entries.
fn is_common(password: &str, known: &[&str]) -> bool {
    zxcvbn::zxcvbn(password, known).guesses() < COMMON_BELOW
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_right_password_fits() {
        let passwords = Passwords::default();
        let stored = passwords.hash("correct horse".to_owned()).await.expect("a hash");
        assert!(stored.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{stored}");
        assert!(!stored.contains("horse"));
        let fits = async |password: &str, stored: Option<&String>| {
            passwords.fits(password.to_owned(), stored.cloned(), Queue::Fresh).await.expect("looked at")
        };
        assert!(fits("correct horse", Some(&stored)).await);
        assert!(!fits("Correct horse", Some(&stored)).await);
        assert!(!fits("correct horse", None).await);
        assert!(!fits(&"a".repeat(5_000), Some(&stored)).await);
        assert_ne!(stored, passwords.hash("correct horse".to_owned()).await.expect("a hash"), "salted");
    }

    #[test]
    fn the_decoy_takes_as_long_as_a_password() {
        let (decoy, ours) = (PasswordHash::new(DECOY).expect("a hash"), Argon2::default());
        let params = argon2::Params::try_from(&decoy).expect("parameters");
        let same = |f: fn(&argon2::Params) -> u32| f(&params) == f(ours.params());
        assert!(same(argon2::Params::m_cost) && same(argon2::Params::t_cost) && same(argon2::Params::p_cost));
    }

    #[test]
    fn common_passwords_are_refused() {
        for common in [
            "password1234",
            "123456789012",
            "qwertyuiop12",
            "passwordpassword",
            "P@ssw0rd1234",
            "aaaaaaaaaaaaaaaa",
            "iloveyou1234",
            "abcdefghijklm",
            "1q2w3e4r5t6y",
            "adaadaadaada",
            "letmein12345",
        ] {
            assert!(fault_of(common, &["ada"]).is_some(), "{common}");
        }
        for good in
            ["correct horse battery", "correct horse ada", "another horse", "a-long-password-1", "vT7#qLp2!xWz9"]
        {
            assert_eq!(fault_of(good, &["ada", "ada@x.y"]), None, "{good}");
        }
        assert!(fault_of("short", &[]).is_some());
    }

    #[test]
    fn a_password_of_older_parameters_is_outdated() {
        assert!(is_outdated(&DECOY.replace("m=19456", "m=4096")) && is_outdated("rubbish"));
        assert!(!is_outdated(DECOY));
    }
}
