//! Roles of a process: which parts of the server's work it does.

use std::{fmt, str::FromStr};

/// Part of the server's work that can run in a process of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// API, pages, and event streams. Leases count only while a process with this role runs (`lease-expiry`).
    Web,
    /// Sweeps, schedules, bulk operations, retention, alerts, and the relay to the broker.
    Maintenance,
    /// Push delivery, completion webhooks, and posts to configured URLs.
    Push,
    /// Import of files, exports, and the other built-in executors.
    Split,
}

impl Role {
    const ALL: [Self; 4] = [Self::Web, Self::Maintenance, Self::Push, Self::Split];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Web => "web",
            Self::Maintenance => "maintenance",
            Self::Push => "push",
            Self::Split => "split",
        }
    }
}

/// Roles of one process: at least one, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roles(Vec<Role>);

impl Roles {
    /// Returns true if the process does this part of the work.
    pub fn has(&self, role: Role) -> bool {
        self.0.contains(&role)
    }
}

impl Default for Roles {
    fn default() -> Self {
        Self(Role::ALL.to_vec())
    }
}

impl fmt::Display for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.iter().map(|role| role.as_str()).collect::<Vec<_>>().join(","))
    }
}

impl FromStr for Roles {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut roles = Vec::new();
        for name in text.split(',').map(str::trim) {
            let known = Role::ALL.into_iter().find(|role| role.as_str() == name);
            let role = known.ok_or_else(|| format!("{name:?} is no role: expected {}", Self::default()))?;
            if !roles.contains(&role) {
                roles.push(role);
            }
        }
        Ok(Self(roles))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_read_from_a_list() {
        let roles: Roles = "push, web,push".parse().expect("roles");
        assert_eq!(roles.to_string(), "push,web");
        assert!(roles.has(Role::Web) && !roles.has(Role::Split));
        for wrong in ["", "web,", "all"] {
            let error = wrong.parse::<Roles>().expect_err(wrong);
            assert!(error.ends_with("is no role: expected web,maintenance,push,split"), "{error}");
        }
    }
}
