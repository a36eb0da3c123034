//! Debounced items: later items with the same key replace the payload of the one that waits (`debounce`).

use serde::{Deserialize, Serialize};

use crate::{Time, id::is_key};

/// Longest pause and longest wait, in seconds.
pub const LONGEST_SECONDS: i64 = 604_800;

/// Debounce of an item: later items with the same key replace its payload while it waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Debounce {
    /// Debounce key, unique among the waiting items of one type and owner.
    pub key: String,
    /// Seconds from the last item with the key to the start.
    pub seconds: i64,
    /// Maximum number of seconds from the first item with the key to the start.
    pub max_seconds: i64,
}

impl Debounce {
    /// Everything that is wrong with it: JSON Pointer into it, and what was expected.
    pub fn problems(&self) -> Vec<(String, String)> {
        let mut problems_found = Vec::new();
        let mut report = |pointer: &str, detail: &str| problems_found.push((pointer.to_owned(), detail.to_owned()));
        if !is_key(&self.key) {
            report("/key", "expected 1 to 255 characters");
        }
        if !(1..=LONGEST_SECONDS).contains(&self.seconds) {
            report("/seconds", "expected a whole number from 1 to 604800");
        }
        if !(1..=LONGEST_SECONDS).contains(&self.max_seconds) {
            report("/max_seconds", "expected a whole number from 1 to 604800");
        } else if self.max_seconds < self.seconds {
            report("/max_seconds", "expected a number that is not less than seconds");
        }
        problems_found
    }
}

/// Debounce of an item and its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ItemDebounce {
    pub key: String,
    /// `seconds` of the last item with the key.
    pub seconds: i64,
    /// `max_seconds` of the last item with the key.
    pub max_seconds: i64,
    /// Number of later items whose payload replaced that of this item.
    pub merged: i64,
    pub first_at: Time,
    pub last_at: Time,
    /// Latest time at which the item becomes available.
    pub starts_by: Time,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_of_a_debounce_is_named() {
        let pointers = |key: &str, seconds: i64, max_seconds: i64| -> Vec<String> {
            let debounce = Debounce { key: key.to_owned(), seconds, max_seconds };
            debounce.problems().into_iter().map(|problem| problem.0).collect()
        };
        assert_eq!(pointers("a", 1, 1), [""; 0]);
        assert_eq!(pointers("", 0, 0), ["/key", "/seconds", "/max_seconds"]);
        assert_eq!(pointers("a", 10, 9), ["/max_seconds"]);
        assert_eq!(pointers("a", LONGEST_SECONDS + 1, LONGEST_SECONDS + 1), ["/seconds", "/max_seconds"]);
    }
}
