//! Lists of a request's body, read up to a bound.
//!
//! An element of three bytes, such as `{},`, takes a hundred times that once it is a struct. So a list is not read to its end
//! and counted then: reading stops at the bound. Lists inside lists count together, as a tree of jobs is lists of lists.

use std::{cell::Cell, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor},
};

/// Elements of a list, with those of all lists inside it. What is right for each list is checked where it is used.
pub const MOST_ELEMENTS: usize = 20_000;

/// The message of the error when a list has more. No text of a body can look like it, since messages quote them.
pub const TOO_MANY_ELEMENTS: &str = "expected at most 20000 elements";

thread_local! {
    /// Lists that are open on this thread, and the elements that they have together.
    static OPEN: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// One list that is being read.
struct OpenList;

impl OpenList {
    fn list() -> Self {
        OPEN.with(|open| {
            let (lists, elements) = open.get();
            open.set((lists + 1, elements));
        });
        Self
    }

    /// Counts one element. Whether it is one too many.
    fn is_full() -> bool {
        OPEN.with(|open| {
            let (lists, elements) = open.get();
            open.set((lists, elements + 1));
            elements >= MOST_ELEMENTS
        })
    }
}

impl Drop for OpenList {
    fn drop(&mut self) {
        OPEN.with(|open| {
            let (lists, elements) = open.get();
            open.set(if lists <= 1 { (0, 0) } else { (lists - 1, elements) });
        });
    }
}

/// Reads a list for serde's `deserialize_with`.
///
/// # Errors
///
/// Of more than [`MOST_ELEMENTS`] elements, or of an element that does not fit.
pub fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    deserializer.deserialize_seq(Elements(PhantomData))
}

/// A list that is a whole body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T>(pub Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        list(deserializer).map(Self)
    }
}

struct Elements<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Elements<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Vec<T>, A::Error> {
        let _open_list = OpenList::list();
        let mut read = Vec::new();
        while let Some(element) = elements.next_element()? {
            if OpenList::is_full() {
                return Err(A::Error::custom(TOO_MANY_ELEMENTS));
            }
            read.push(element);
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{NewItem, NewJob};

    #[test]
    fn list_reading_stops_at_the_bound() {
        let items = |n: usize| serde_json::from_str::<List<NewItem>>(&format!("[{}{{}}]", "{},".repeat(n - 1)));
        assert_eq!(items(MOST_ELEMENTS).expect("a list").0.len(), MOST_ELEMENTS);
        let refused = items(MOST_ELEMENTS + 1).expect_err("too long").to_string();
        assert!(refused.starts_with(TOO_MANY_ELEMENTS), "{refused}");
        assert!(TOO_MANY_ELEMENTS.contains(&MOST_ELEMENTS.to_string()));
        assert_eq!(items(MOST_ELEMENTS).expect("a list again").0.len(), MOST_ELEMENTS, "nothing was left over");
    }

    #[test]
    fn nested_lists_count_together() {
        let leaf = r#"{"type":"a"}"#;
        let branch = format!(r#"{{"type":"a","children":[{}{leaf}]}}"#, format!("{leaf},").repeat(199));
        let tree = |n: usize| format!(r#"{{"type":"a","children":[{}{branch}]}}"#, format!("{branch},").repeat(n - 1));
        serde_json::from_str::<NewJob>(&tree(99)).expect("19,899 jobs");
        serde_json::from_str::<NewJob>(&tree(100)).expect_err("20,100 jobs");
        serde_json::from_str::<NewJob>(&tree(99)).expect("the same again");
    }
}
