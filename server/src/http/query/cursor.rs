//! Cursors of lists: opaque text with a position and a fingerprint of its filters and sort order.
//!
//! A position is a key of an order that never changes, so a row that matches throughout appears exactly once. A cursor
//! is neither a secret nor a capability: every page checks again which rows the caller may see. The condition for the rows
//! after a position is in `engine/src/store/query` (of items: `item_list_keys.rs`).

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use domain::{
    Code, Problem,
    api::Page,
    limits::{DEFAULT_PAGE, LARGEST_PAGE},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::http::error::{Error, Result};

/// Length of the filters' fingerprint in a cursor, in bytes.
const FINGERPRINT: usize = 8;

/// Parameters of a list: start of the page, its length, and the filters.
pub trait Paged: Serialize {
    /// Name of the list, which separates its cursors from those of other lists.
    const LIST: &'static str;
    fn cursor(&self) -> Option<&str>;
    fn limit(&self) -> Option<i64>;

    /// Number of rows requested, 1 to 1,000.
    fn rows(&self) -> Result<i64> {
        match self.limit() {
            None => Ok(DEFAULT_PAGE),
            Some(limit) if (1..=LARGEST_PAGE).contains(&limit) => Ok(limit),
            Some(_) => Err(Problem::parameter("limit", "expected a whole number from 1 to 1000").into()),
        }
    }

    /// Number of rows to read: one more than the page shows, to detect a next page.
    fn rows_to_read(&self) -> Result<i64> {
        Ok(self.rows()? + 1)
    }

    /// Position after which the page begins; `None` on the first page.
    fn place<P: DeserializeOwned>(&self) -> Result<Option<P>> {
        let Some(cursor) = self.cursor() else { return Ok(None) };
        let malformed = || Error::from(Problem::parameter("cursor", "expected a next_cursor of this list"));
        let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| malformed())?;
        let (fingerprint, place) = bytes.split_at_checked(FINGERPRINT).ok_or_else(malformed)?;
        if fingerprint != self.fingerprint() {
            return Err(Error::refuse(
                Code::CursorMismatch,
                "The cursor was given for other filters, or another order. Begin again without it.",
            ));
        }
        if !serde_json::from_slice(place).is_ok_and(|place| is_storable(&place)) {
            return Err(malformed());
        }
        serde_json::from_slice(place).map(Some).map_err(|_| malformed())
    }

    /// Page of the rows that were read ([`Paged::rows_to_read`]). `place`: position of a row.
    fn page_of<T, P: Serialize>(&self, rows: Vec<T>, place: impl Fn(&T) -> P) -> Result<Page<T>> {
        let (data, next) = cut(rows, self.rows()?, place);
        Ok(self.page(data, next))
    }

    /// Page of rows, with the cursor of the next page if `next` is a position.
    fn page<T, P: Serialize>(&self, data: Vec<T>, next: Option<P>) -> Page<T> {
        let next_cursor = next.map(|place| {
            let mut bytes = self.fingerprint().to_vec();
            bytes.extend(serde_json::to_vec(&place).unwrap_or_default());
            URL_SAFE_NO_PAD.encode(bytes)
        });
        Page { data, next_cursor }
    }

    /// Fingerprint of the list's name and its filters: all parameters that are serialized.
    fn fingerprint(&self) -> [u8; FINGERPRINT] {
        let filters = serde_json::to_vec(self).unwrap_or_default();
        let whole = Sha256::new().chain_update(Self::LIST).chain_update([0]).chain_update(filters).finalize();
        let mut head = [0; FINGERPRINT];
        head.copy_from_slice(&whole[..FINGERPRINT]);
        head
    }
}

/// List below an object, such as the attempts of an item: its cursors belong to that object.
#[derive(Serialize)]
pub struct Of<'a, L>(pub Uuid, pub &'a L);

impl<L: Paged> Paged for Of<'_, L> {
    const LIST: &'static str = L::LIST;
    fn cursor(&self) -> Option<&str> {
        self.1.cursor()
    }
    fn limit(&self) -> Option<i64> {
        self.1.limit()
    }
}

/// Implements [`Paged`] for the parameters of a list, which have the fields `cursor` and `limit`, or pages of a fixed
/// length.
macro_rules! paged {
    ($list:ident, $name:literal) => {
        $crate::http::query::cursor::paged!($list, $name, |list| list.limit);
    };
    ($list:ident, $name:literal, $limit:expr) => {
        impl $crate::http::query::cursor::Paged for $list {
            const LIST: &'static str = $name;
            fn cursor(&self) -> Option<&str> {
                self.cursor.as_deref()
            }
            fn limit(&self) -> Option<i64> {
                let limit: fn(&Self) -> Option<i64> = $limit;
                limit(self)
            }
        }
    };
}

pub(crate) use paged;

/// True for positions that the statements of lists can use: they negate numbers, and PostgreSQL stores no NUL.
fn is_storable(place: &Value) -> bool {
    match place {
        Value::Array(parts) => parts.iter().all(is_storable),
        Value::Object(parts) => parts.values().all(is_storable),
        Value::Number(number) => number.as_i64() != Some(i64::MIN),
        Value::String(text) => !text.contains('\0'),
        Value::Null | Value::Bool(_) => true,
    }
}

/// Removes the extra row that was requested to detect a next page.
pub fn cut<T, P>(mut rows: Vec<T>, limit: i64, place: impl Fn(&T) -> P) -> (Vec<T>, Option<P>) {
    let limit = usize::try_from(limit).unwrap_or_default();
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next = if more { rows.last().map(place) } else { None };
    (rows, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default, Serialize)]
    struct Things {
        colour: Option<&'static str>,
        #[serde(skip_serializing)]
        cursor: Option<String>,
        #[serde(skip_serializing)]
        limit: Option<i64>,
    }

    impl Paged for Things {
        const LIST: &'static str = "things";
        fn cursor(&self) -> Option<&str> {
            self.cursor.as_deref()
        }
        fn limit(&self) -> Option<i64> {
            self.limit
        }
    }

    fn code<T: std::fmt::Debug>(result: Result<T>) -> Code {
        match result {
            Err(Error(engine::error::Error::Problem(problem))) => problem.code,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_cursor_leads_on_and_belongs_to_its_filters() {
        let first = Things { colour: Some("red"), ..Things::default() };
        let page = first.page(vec![1, 2], Some((7_i64, 2_i64)));
        let cursor = page.next_cursor;
        assert!(cursor.is_some());

        let next = Things { cursor: cursor.clone(), limit: Some(5), ..first };
        assert_eq!(next.place::<(i64, i64)>().expect("a place"), Some((7, 2)));
        let other = Things { colour: None, cursor, limit: None };
        assert_eq!(code(other.place::<(i64, i64)>()), Code::CursorMismatch);
        let rubbish = Things { cursor: Some("%%%".into()), ..Things::default() };
        assert_eq!(code(rubbish.place::<i64>()), Code::InvalidParameter);
        for place in ["[7,-9223372036854775808]", r#"{"name":"a\u0000"}"#, "[1"] {
            let bytes = [&Things::default().fingerprint()[..], place.as_bytes()].concat();
            let crafted = Things { cursor: Some(URL_SAFE_NO_PAD.encode(bytes)), ..Things::default() };
            assert_eq!(code(crafted.place::<Value>()), Code::InvalidParameter, "{place}");
        }
        assert_eq!(code(Things { limit: Some(1001), ..Things::default() }.rows()), Code::InvalidParameter);
    }

    #[test]
    fn the_row_too_many_is_the_next_page() {
        assert_eq!(cut(vec![1, 2, 3], 2, |n| *n), (vec![1, 2], Some(2)));
        assert_eq!(cut(vec![1, 2], 2, |n| *n), (vec![1, 2], None));
    }
}
