//! Passwords: argon2id, as costly to guess as a sign-in can bear.
//!
//! Looking at one takes tens of milliseconds of a core and 19 MiB, so it happens on threads that may
//! block, two at a time. An account that does not exist costs the same as one that does, and whoever
//! waits too long in line is sent away.

use std::time::Duration;

use argon2::{
    Argon2,
    password_hash::{PasswordHasher as _, PasswordVerifier as _, phc::PasswordHash},
};
use domain::{Code, Problem, account::LONGEST_PASSWORD};
use tokio::sync::Semaphore;

use crate::error::{Error, Result};

/// Passwords that are looked at together.
const AT_ONCE: usize = 2;
/// How long to wait in line.
const PATIENCE: Duration = Duration::from_secs(8);

/// What is looked at where there is no password. It costs what a real one costs, and nothing fits it.
const DECOY: &str = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0c2FsdA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// The line in front of the costly work.
#[derive(Debug)]
pub struct Passwords(Semaphore);

impl Default for Passwords {
    fn default() -> Self {
        Self(Semaphore::new(AT_ONCE))
    }
}

impl Passwords {
    /// What is stored of a password: a PHC string with a salt of its own.
    pub async fn hash(&self, password: String) -> Result<String> {
        self.in_turn(move || Argon2::default().hash_password(password.as_bytes()).map(|hash| hash.to_string()))
            .await?
            .map_err(|error| Error::Broken(format!("hashing a password: {error}")))
    }

    /// Whether the password is the one that was stored. Without one it is not, and takes as long.
    pub async fn fits(&self, password: String, stored: Option<String>) -> Result<bool> {
        let password = if password.len() > LONGEST_PASSWORD { String::new() } else { password };
        let known = stored.is_some();
        let stored = stored.unwrap_or_else(|| DECOY.to_owned());
        let fits = self
            .in_turn(move || {
                let parsed = PasswordHash::new(&stored)?;
                Ok::<_, argon2::password_hash::Error>(
                    Argon2::default().verify_password(password.as_bytes(), &parsed).is_ok(),
                )
            })
            .await?
            .map_err(|error| Error::Broken(format!("a stored password cannot be read: {error}")))?;
        Ok(known && fits)
    }

    async fn in_turn<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let busy = || Problem {
            retry_after_seconds: Some(5),
            ..Problem::new(Code::TooManyRequests, "Too many people are signing in at once. Try again in a moment.")
        };
        let turn = tokio::time::timeout(PATIENCE, self.0.acquire()).await.map_err(|_| busy())?;
        let _turn = turn.map_err(|_| busy())?;
        tokio::task::spawn_blocking(work).await.map_err(|error| Error::Broken(error.to_string()))
    }
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
            passwords.fits(password.to_owned(), stored.cloned()).await.expect("looked at")
        };
        assert!(fits("correct horse", Some(&stored)).await);
        assert!(!fits("Correct horse", Some(&stored)).await);
        assert!(!fits("correct horse", None).await);
        assert!(!fits(&"a".repeat(5_000), Some(&stored)).await);
        assert_ne!(stored, passwords.hash("correct horse".to_owned()).await.expect("a hash"), "salted");
    }

    #[test]
    fn the_decoy_costs_what_a_password_costs() {
        let (decoy, ours) = (PasswordHash::new(DECOY).expect("a hash"), Argon2::default());
        let params = argon2::Params::try_from(&decoy).expect("parameters");
        let same = |f: fn(&argon2::Params) -> u32| f(&params) == f(ours.params());
        assert!(same(argon2::Params::m_cost) && same(argon2::Params::t_cost) && same(argon2::Params::p_cost));
    }
}
