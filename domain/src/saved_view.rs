//! Saved views: the filter and the order of a list under a name (`saved-views`).

use serde::{Deserialize, Serialize};

use crate::{
    Time,
    api::present_or_null,
    id::Uuid,
    identity::owner::Owner,
    limits::is_text,
    query::filter::{Filter, lists::List},
};

/// Characters of a name, and of a filter.
pub const LONGEST_VIEW_NAME: usize = 100;
pub const LONGEST_VIEW_FILTER: usize = 2_000;

/// Maximum number of views of one owner.
pub const MOST_VIEWS: i64 = 200;

/// List that views can be saved for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ViewList {
    Jobs,
    Items,
    /// Items in state `dead`.
    Failures,
}

impl ViewList {
    pub const ALL: [Self; 3] = [Self::Jobs, Self::Items, Self::Failures];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Jobs => "jobs",
            Self::Items => "items",
            Self::Failures => "failures",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|list| list.as_str() == word)
    }

    /// The list of a filter.
    pub const fn of(list: List) -> Self {
        match list {
            List::Jobs => Self::Jobs,
            List::Items => Self::Items,
            List::Dead => Self::Failures,
        }
    }

    /// Filters of the list.
    pub const fn list(self) -> List {
        match self {
            Self::Jobs => List::Jobs,
            Self::Items => List::Items,
            Self::Failures => List::Dead,
        }
    }

    /// Values of `sort`, the default first.
    pub const fn orders(self) -> &'static [&'static str] {
        match self {
            Self::Jobs => &["-created_at", "created_at"],
            Self::Items | Self::Failures => &["-job", "-created_at", "created_at"],
        }
    }
}

/// A saved view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SavedView {
    pub id: Uuid,
    pub list: ViewList,
    pub name: String,
    /// Filter of the list in the language of the pages, such as `status:running owner:ada`. Empty: everything.
    pub q: String,
    /// `sort` of the list; null: the default of the list.
    pub sort: Option<String>,
    /// True if everyone may use it.
    pub shared: bool,
    /// True if the list opens with this view on the caller's pages.
    pub is_default: bool,
    pub owner: Owner,
    pub created_at: Time,
    pub updated_at: Time,
}

/// Body of `POST /views`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewSavedView {
    pub list: ViewList,
    /// Name, unique among the caller's views of the list.
    pub name: String,
    /// Filter of the list. Absent: everything.
    #[serde(default)]
    pub q: String,
    /// `sort` of the list. Absent: its default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sort: Option<String>,
    /// True if everyone may use the view. Staff only.
    #[serde(default)]
    pub shared: bool,
    #[serde(default)]
    pub is_default: bool,
}

/// Body of `PATCH /views/{id}`: the given fields change; `null` clears `sort`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SavedViewPatch {
    pub name: Option<String>,
    pub q: Option<String>,
    #[serde(deserialize_with = "present_or_null", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub sort: Option<Option<String>>,
    /// True if everyone may use the view. Staff only.
    pub shared: Option<bool>,
    /// True if the list opens with this view on the caller's own pages; also for a view that somebody else shares.
    pub is_default: Option<bool>,
    /// Reason, required from an admin who changes the view of somebody else; stored in the audit log.
    pub reason: Option<String>,
}

impl SavedViewPatch {
    /// True if it changes nothing that other people see.
    pub fn is_personal(&self) -> bool {
        self.name.is_none() && self.q.is_none() && self.sort.is_none() && self.shared.is_none()
    }
}

/// Faults of a view's fields: JSON Pointer and expectation. `now`: reference of ages in the filter.
pub fn faults(list: ViewList, name: &str, q: &str, sort: Option<&str>, now: Time) -> Vec<(String, String)> {
    let mut faults = Vec::new();
    let mut fault = |field: &str, expected: String| faults.push((format!("/{field}"), expected));
    if !is_text(name, 1, LONGEST_VIEW_NAME) || name.trim() != name {
        fault("name", format!("expected 1 to {LONGEST_VIEW_NAME} characters, with no white space around them"));
    }
    if is_text(q, 0, LONGEST_VIEW_FILTER) {
        let read = Filter::parse(q).and_then(|filter| filter.parameters(list.list(), now));
        if let Err(found) = read {
            fault("q", format!("expected a filter of the list; {}", found.to_string().trim_end_matches('.')));
        }
    } else {
        fault("q", format!("expected at most {LONGEST_VIEW_FILTER} characters"));
    }
    if sort.is_some_and(|sort| !list.orders().contains(&sort)) {
        fault("sort", format!("expected one of {}", list.orders().join(", ")));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_view_are_those_of_its_list() {
        let now = Time::parse("2026-12-01T12:00:00Z").expect("a time");
        let of = |list, name: &str, q: &str, sort| -> Vec<String> {
            faults(list, name, q, sort, now).into_iter().map(|fault| fault.0).collect()
        };
        assert!(of(ViewList::Jobs, "Late", "status:running created:<2h pay", Some("created_at")).is_empty());
        assert!(of(ViewList::Failures, "Late", "", Some("-job")).is_empty());
        assert_eq!(of(ViewList::Jobs, "Late", "state:dead", Some("-job")), ["/q", "/sort"]);
        assert_eq!(of(ViewList::Items, " Late", "status:running", None), ["/name", "/q"]);
        assert_eq!(of(ViewList::Items, "", &"a".repeat(LONGEST_VIEW_FILTER + 1), None), ["/name", "/q"]);
        for list in ViewList::ALL {
            assert_eq!((ViewList::parse(list.as_str()), ViewList::of(list.list())), (Some(list), list));
        }
    }
}
