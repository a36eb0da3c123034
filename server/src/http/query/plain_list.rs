//! Parameters of lists without filters.

use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::sort::{ByAge, Named};

/// Query parameters of a list without filters.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PlainList {
    /// `-created_at` (default): newest first; `created_at`: oldest first
    #[serde(default)]
    #[param(value_type = Option<String>)]
    pub(crate) sort: ByAge,
    /// Maximum number of rows on the page, 1 to 1,000; default 50
    #[serde(skip_serializing)]
    pub(crate) limit: Option<i64>,
    /// `next_cursor` of the previous page
    #[serde(skip_serializing)]
    pub(crate) cursor: Option<String>,
}

/// Query parameters of a list of named objects, without filters.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct NamedList {
    /// `-created_at` (default): newest first; `created_at`: oldest first; `name` and `-name`: by name
    #[serde(default)]
    #[param(value_type = Option<String>)]
    pub(crate) sort: Named,
    /// Maximum number of rows on the page, 1 to 1,000; default 50
    #[serde(skip_serializing)]
    pub(crate) limit: Option<i64>,
    /// `next_cursor` of the previous page
    #[serde(skip_serializing)]
    pub(crate) cursor: Option<String>,
}

/// Declares a list that has only the parameters `$query`.
macro_rules! plain_list {
    ($name:ident, $query:ident, $word:literal) => {
        #[derive(serde::Serialize)]
        struct $name<'a>(&'a $query);
        impl $crate::http::query::cursor::Paged for $name<'_> {
            const LIST: &'static str = $word;
            fn cursor(&self) -> Option<&str> {
                self.0.cursor.as_deref()
            }
            fn limit(&self) -> Option<i64> {
                self.0.limit
            }
        }
    };
}

pub(crate) use plain_list;
