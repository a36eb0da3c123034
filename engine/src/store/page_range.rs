//! Ranges of lists that one page shows: start, order and length.

use time::OffsetDateTime;
use uuid::Uuid;

/// A page of a list in order of age. Its start is an id that only grows, or a time with an id.
#[derive(Clone, Copy, Debug)]
pub struct PageRange<P = Uuid> {
    /// The oldest first; else the newest.
    pub oldest_first: bool,
    pub behind: Option<P>,
    pub limit: i64,
}

impl<P> PageRange<P> {
    /// Newest first, after a position.
    pub const fn newest(behind: Option<P>, limit: i64) -> Self {
        Self { oldest_first: false, behind, limit }
    }
}

/// Order of a list of named rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedOrder {
    NewestFirst,
    OldestFirst,
    ByName,
    ByNameBackwards,
}

/// A page of a list of named rows. Its start is a creation time and a name; an order by name uses the name only.
#[derive(Clone, Debug)]
pub struct NamedPageRange {
    pub order: NamedOrder,
    pub behind: Option<(OffsetDateTime, String)>,
    pub limit: i64,
}

impl NamedPageRange {
    /// By name, from the first one on.
    pub const fn by_name(limit: i64) -> Self {
        Self { order: NamedOrder::ByName, behind: None, limit }
    }

    /// By name, after a name.
    pub fn by_name_behind(name: Option<String>, limit: i64) -> Self {
        let behind = name.map(|name| (OffsetDateTime::UNIX_EPOCH, name));
        Self { behind, ..Self::by_name(limit) }
    }

    /// The position in the form of statement arguments.
    pub(crate) fn place(&self) -> (Option<OffsetDateTime>, Option<&str>) {
        match &self.behind {
            Some((at, name)) => (Some(*at), Some(name)),
            None => (None, None),
        }
    }
}

/// Runs a statement in the order of a [`NamedPageRange`]: `$behind` is the condition on its position (`$1` a time,
/// `$2` a name), `$order` is the order.
macro_rules! in_named_order {
    ($order:expr, $statement:ident) => {
        match $order {
            $crate::store::page_range::NamedOrder::NewestFirst => $statement!(
                "($1::timestamptz is null or (created_at, name) < ($1, $2::text))",
                "created_at desc, name desc"
            ),
            $crate::store::page_range::NamedOrder::OldestFirst => {
                $statement!("($1::timestamptz is null or (created_at, name) > ($1, $2::text))", "created_at, name")
            }
            $crate::store::page_range::NamedOrder::ByName => {
                $statement!("($1::timestamptz is null or name collate \"C\" > $2::text)", "name collate \"C\"")
            }
            $crate::store::page_range::NamedOrder::ByNameBackwards => {
                $statement!("($1::timestamptz is null or name collate \"C\" < $2::text)", "name collate \"C\" desc")
            }
        }
    };
}

/// Runs a statement by age: `$on` is `<` or `>`, `$order` is `desc` or `asc`.
macro_rules! by_age {
    ($oldest_first:expr, $statement:ident) => {
        if $oldest_first { $statement!(">", "asc") } else { $statement!("<", "desc") }
    };
}

pub(crate) use by_age;
pub(crate) use in_named_order;
