//! Groups of items that take turns (`fair-by`).

use crate::dispatch::type_limits::is_pointer;

/// What the items of a type take turns by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FairBy {
    /// Trees.
    #[default]
    Tree,
    /// Owners, over all their trees.
    Owner,
    /// Values at this JSON Pointer into the payload, over all trees and owners.
    Key(String),
}

impl FairBy {
    /// Reads `tree`, `owner`, or a JSON Pointer.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "tree" => Some(Self::Tree),
            "owner" => Some(Self::Owner),
            pointer if is_pointer(pointer) => Some(Self::Key(pointer.to_owned())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_pointers_are_read() {
        assert_eq!(FairBy::parse("tree"), Some(FairBy::Tree));
        assert_eq!(FairBy::parse("owner"), Some(FairBy::Owner));
        assert_eq!(FairBy::parse("/customer/id"), Some(FairBy::Key("/customer/id".to_owned())));
        for bad in ["", "customer", "Tree", "/a~2", "/a\0"] {
            assert_eq!(FairBy::parse(bad), None, "{bad}");
        }
    }
}
