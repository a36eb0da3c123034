//! What the address of a list asks for: the filter language in `q`, or the parameters of the API one by one.

use app::components::asking::Asked;
use axum::http::StatusCode;
use domain::{
    Time,
    filter::{Fault, Filter, lists::List},
};
use serde::Serialize;
use time::OffsetDateTime;

use super::pairs;
use crate::{
    error::{Error, Result},
    http::cursor::Paged,
};

/// Rows on a page.
const ROWS: i64 = 50;

/// A list as the address asks for it.
pub(super) struct Asking {
    pub(super) asked: Asked,
    /// What the API's list would be asked for.
    pub(super) query: Vec<(String, String)>,
    /// The order that the address asks for, as the API's `sort` takes it.
    pub(super) sort: Option<String>,
    pub(super) cursor: Option<String>,
    /// What was just done, as the address says.
    pub(super) did: Option<String>,
}

impl Asking {
    /// Reads an address. Parameters that are not known are passed over: they may be those of other pages. A fault
    /// in the filter is kept, to be shown.
    pub(super) fn read(list: List, path: &'static str, query: Option<&str>) -> Self {
        let (mut typed, mut sort, mut cursor, mut did) = (String::new(), None, None, None);
        let mut plain = Vec::new();
        for (name, value) in pairs(query) {
            match name.as_str() {
                "q" => typed = value,
                "sort" => sort = Some(value).filter(|word| !word.is_empty()),
                "cursor" => cursor = Some(value),
                "did" => did = Some(value),
                _ => plain.push((name, value)),
            }
        }
        let mut asked = Asked { typed, ..Asked::nothing(list, path) };
        let mut parameters = Vec::new();
        match Self::filter(list, &mut asked, &plain) {
            Ok((filter, found)) => {
                asked.filter = filter;
                parameters = found;
            }
            Err(fault) => asked.fault = Some(fault),
        }
        Self { asked, query: parameters, sort, cursor, did }
    }

    fn filter(
        list: List,
        asked: &mut Asked,
        plain: &[(String, String)],
    ) -> Result<(Filter, Vec<(String, String)>), Fault> {
        let written = Filter::parse(&asked.typed)?;
        let more = Filter::of_parameters(list, plain);
        let filter = more.terms.iter().fold(written, |filter, term| filter.with(term.clone()));
        if !more.is_empty() {
            asked.typed = filter.to_string();
        }
        let parameters = filter.parameters(list, now())?;
        Ok((filter, parameters))
    }

    /// The query of the API's list that says the same, with a condition that the page adds.
    pub(super) fn api(&self, more: Option<(&str, &str)>) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (name, value) in &self.query {
            query.append_pair(name, value);
        }
        let sort = self.sort.as_deref().map(|sort| ("sort", sort));
        for (name, value) in more.into_iter().chain(sort) {
            query.append_pair(name, value);
        }
        query.finish()
    }

    pub(super) fn value(&self, wanted: &str) -> Option<&str> {
        self.query.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str())
    }

    /// The address of the page behind this one.
    pub(super) fn next(&self, cursor: Option<String>) -> Option<String> {
        let text = self.asked.filter.to_string();
        let sort = self.sort.as_deref().unwrap_or_default();
        cursor.map(|cursor| super::address(self.asked.path, &[("q", &text), ("sort", sort), ("cursor", &cursor)]))
    }

    /// The place where the page begins belongs to this filter and this order.
    pub(super) fn pages(&self) -> Pages {
        Pages {
            path: self.asked.path,
            filter: self.asked.filter.to_string(),
            sort: self.sort.clone(),
            cursor: self.cursor.clone(),
        }
    }

    /// What went wrong, said under the filter where the filter is to blame; other trouble is the page's.
    pub(super) fn fault(&mut self, error: Error) -> Result<StatusCode> {
        match error {
            Error::Problem(problem) if matches!(problem.status, 400 | 404) => {
                let detail = problem.detail.trim_end_matches('.').to_owned();
                self.asked.fault = Some(Fault { at: 0, detail });
                Ok(StatusCode::BAD_REQUEST)
            }
            error => Err(error),
        }
    }

    /// The status of the page with the fault it has, if it has one.
    pub(super) fn status(&self) -> StatusCode {
        if self.asked.fault.is_some() { StatusCode::BAD_REQUEST } else { StatusCode::OK }
    }
}

/// What ages are counted from.
pub(super) fn now() -> Time {
    Time(OffsetDateTime::now_utc())
}

/// Where a page begins, and what its cursor belongs to.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Pages {
    path: &'static str,
    filter: String,
    sort: Option<String>,
    #[serde(skip_serializing)]
    cursor: Option<String>,
}

impl Pages {
    /// Of a page without a filter.
    pub(super) fn plain(path: &'static str, query: Option<&str>) -> Self {
        let cursor = pairs(query).find(|(name, _)| name == "cursor").map(|(_, cursor)| cursor);
        Self { path, filter: String::new(), sort: None, cursor }
    }

    pub(super) fn first(&self) -> bool {
        self.cursor.is_none()
    }
}

impl Paged for Pages {
    const LIST: &'static str = "page";
    fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }
    fn limit(&self) -> Option<i64> {
        Some(ROWS)
    }
}
