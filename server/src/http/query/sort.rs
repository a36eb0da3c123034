//! Sort orders of lists: the values of `sort` on each list; the first one is the default.
//!
//! A minus before a name means greatest first, or newest first for a time. The order is one of a list's serialized
//! parameters, so a cursor belongs to the order that it was created with.

use domain::Time;
use serde::{Deserialize, Serialize};

use engine::store::{
    page_range::{NamedOrder, NamedPageRange, PageRange},
    query::{item_list_jobs::ItemOrder, job_views::GroupOrder},
};

macro_rules! orders {
    ($($(#[$doc:meta])* $name:ident { $first_word:literal => $first:ident, $($word:literal => $variant:ident,)+ })+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub(crate) enum $name {
            #[default]
            #[serde(rename = $first_word)]
            $first,
            $(#[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// Values of the parameter, the default first.
            pub(crate) const WORDS: &'static [&'static str] = &[$first_word, $($word),+];
        }
    )+};
}

orders! {
    /// Orders by creation time (of a row, an alert or an action).
    ByAge {
        "-created_at" => Newest,
        "created_at" => Oldest,
    }
    /// Orders of named objects.
    Named {
        "-created_at" => Newest,
        "created_at" => Oldest,
        "name" => ByName,
        "-name" => ByNameBackwards,
    }
    /// Orders of workers, by the time at which they were first seen or by name.
    OfWorkers {
        "-created_at" => Newest,
        "created_at" => Oldest,
        "worker_id" => ByName,
        "-worker_id" => ByNameBackwards,
    }
    /// Orders of error groups.
    OfGroups {
        "-last_seen_at" => Latest,
        "last_seen_at" => LeastRecent,
        "-first_seen_at" => Newest,
        "first_seen_at" => Oldest,
        "-count" => Largest,
        "count" => Smallest,
    }
    /// Orders of the attempts of an item, chronological by default.
    OfAttempts {
        "created_at" => Oldest,
        "-created_at" => Newest,
    }
    /// Orders of log lines, chronological by default.
    OfLogs {
        "line" => Oldest,
        "-line" => Newest,
    }
    /// Orders of items.
    OfItems {
        "-job" => NewestJobs,
        "-created_at" => Newest,
        "created_at" => Oldest,
    }
}

impl ByAge {
    pub(crate) fn oldest_first(self) -> bool {
        self == Self::Oldest
    }

    /// Part of a list after a position, in this order.
    pub(crate) fn part<P>(self, behind: Option<P>, limit: i64) -> PageRange<P> {
        PageRange { oldest_first: self.oldest_first(), behind, limit }
    }
}

impl Named {
    /// Part of a list after a position, in this order.
    pub(crate) fn part(self, behind: Option<(Time, String)>, limit: i64) -> NamedPageRange {
        let order = match self {
            Self::Newest => NamedOrder::NewestFirst,
            Self::Oldest => NamedOrder::OldestFirst,
            Self::ByName => NamedOrder::ByName,
            Self::ByNameBackwards => NamedOrder::ByNameBackwards,
        };
        NamedPageRange { order, behind: behind.map(|(at, name)| (at.0, name)), limit }
    }
}

impl From<OfWorkers> for NamedOrder {
    fn from(order: OfWorkers) -> Self {
        match order {
            OfWorkers::Newest => Self::NewestFirst,
            OfWorkers::Oldest => Self::OldestFirst,
            OfWorkers::ByName => Self::ByName,
            OfWorkers::ByNameBackwards => Self::ByNameBackwards,
        }
    }
}

impl From<OfGroups> for GroupOrder {
    fn from(order: OfGroups) -> Self {
        match order {
            OfGroups::Latest => Self::Latest,
            OfGroups::LeastRecent => Self::LeastRecent,
            OfGroups::Newest => Self::Newest,
            OfGroups::Oldest => Self::Oldest,
            OfGroups::Largest => Self::Largest,
            OfGroups::Smallest => Self::Smallest,
        }
    }
}

impl From<OfItems> for ItemOrder {
    fn from(order: OfItems) -> Self {
        match order {
            OfItems::NewestJobs => Self::NewestJobs,
            OfItems::Newest => Self::Newest,
            OfItems::Oldest => Self::Oldest,
        }
    }
}

/// Values of `sort` in an operation of the API.
pub(crate) fn words(operation: &str) -> &'static [&'static str] {
    match operation {
        "list_items" | "list_dead_letters" => OfItems::WORDS,
        "list_users" | "list_services" | "list_job_types" => Named::WORDS,
        "list_workers" => OfWorkers::WORDS,
        "list_groups" => OfGroups::WORDS,
        "list_attempts" => OfAttempts::WORDS,
        "list_logs" => OfLogs::WORDS,
        _ => ByAge::WORDS,
    }
}

#[cfg(test)]
mod tests {
    use domain::saved_view::ViewList;

    use super::*;

    #[test]
    fn saved_views_have_the_orders_of_their_lists() {
        assert_eq!(ViewList::Jobs.orders(), words("list_jobs"));
        assert_eq!(ViewList::Items.orders(), words("list_items"));
        assert_eq!(ViewList::Failures.orders(), words("list_dead_letters"));
    }
}
