//! List query in a URL: the filter language in `q`, or single parameters of the API.

use app::components::filter_bar::ListFilter;
use axum::http::StatusCode;
use domain::{
    Time,
    query::filter::{Fault, Filter, lists::List},
};
use serde::Serialize;
use time::OffsetDateTime;

use super::pairs;
use crate::http::query::cursor::paged;
use engine::error::{Error, Result};

/// Number of rows on a page.
const ROWS: i64 = 50;

/// List query parsed from a URL.
pub(super) struct ListRequest {
    pub(super) list_filter: ListFilter,
    /// Parameters of the API's list.
    pub(super) query: Vec<(String, String)>,
    /// Requested order, as a value of the API's `sort`.
    pub(super) sort: Option<String>,
    pub(super) cursor: Option<String>,
    /// Action just performed, from the URL, for the notice.
    pub(super) flash: Option<String>,
}

impl ListRequest {
    /// Parses a URL query. Unknown parameters are ignored: they may belong to other pages. An error in the filter is
    /// stored, so that the page shows it.
    pub(super) fn read(list: List, path: &'static str, query: Option<&str>) -> Self {
        let (mut typed, mut sort, mut cursor, mut flash) = (String::new(), None, None, None);
        let mut plain = Vec::new();
        for (name, value) in pairs(query) {
            match name.as_str() {
                "q" => typed = value,
                "sort" => sort = Some(value).filter(|word| !word.is_empty()),
                "cursor" => cursor = Some(value),
                "did" => flash = Some(value),
                // Everything, where the bare path opens with a view.
                "view" => {}
                _ => plain.push((name, value)),
            }
        }
        let mut list_filter = ListFilter { typed, sort: sort.clone(), ..ListFilter::nothing(list, path) };
        let mut parameters = Vec::new();
        match Self::filter(list, &mut list_filter, &plain) {
            Ok((filter, found)) => {
                list_filter.filter = filter;
                parameters = found;
            }
            Err(fault) => list_filter.fault = Some(fault),
        }
        Self { list_filter, query: parameters, sort, cursor, flash }
    }

    fn filter(
        list: List,
        list_filter: &mut ListFilter,
        plain: &[(String, String)],
    ) -> Result<(Filter, Vec<(String, String)>), Fault> {
        let written = Filter::parse(&list_filter.typed)?;
        let more = Filter::of_parameters(list, plain);
        let filter = more.terms.iter().fold(written, |filter, term| filter.with(term.clone()));
        if !more.is_empty() {
            list_filter.typed = filter.to_string();
        }
        let parameters = filter.parameters(list, now())?;
        Ok((filter, parameters))
    }

    /// Equivalent query of the API's list, with a condition that the page adds.
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

    /// URL of the next page.
    pub(super) fn next(&self, cursor: Option<String>) -> Option<String> {
        let text = self.list_filter.filter.to_string();
        let sort = self.sort.as_deref().unwrap_or_default();
        cursor.map(|cursor| super::address(self.list_filter.path, &[("q", &text), ("sort", sort), ("cursor", &cursor)]))
    }

    /// Pagination state, bound to this filter and this order.
    pub(super) fn pages(&self) -> Pages {
        Pages {
            path: self.list_filter.path,
            filter: self.list_filter.filter.to_string(),
            sort: self.sort.clone(),
            cursor: self.cursor.clone(),
        }
    }

    /// Stores an error of the filter, which is shown below it; any other error is returned for the error page.
    pub(super) fn fault(&mut self, error: Error) -> Result<StatusCode> {
        match error {
            Error::Problem(problem) if matches!(problem.status, 400 | 404) => {
                let detail = problem.detail.trim_end_matches('.').to_owned();
                self.list_filter.fault = Some(Fault { at: 0, detail });
                Ok(StatusCode::BAD_REQUEST)
            }
            error => Err(error),
        }
    }

    /// Status of the page: 400 with a filter error, otherwise 200.
    pub(super) fn status(&self) -> StatusCode {
        if self.list_filter.fault.is_some() { StatusCode::BAD_REQUEST } else { StatusCode::OK }
    }
}

/// Current time, the reference of relative ages.
pub(super) fn now() -> Time {
    Time(OffsetDateTime::now_utc())
}

/// Start of a page, with the filter and order that its cursor is bound to.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Pages {
    path: &'static str,
    filter: String,
    sort: Option<String>,
    #[serde(skip_serializing)]
    cursor: Option<String>,
}

impl Pages {
    /// Pagination state of a page without a filter.
    pub(super) fn plain(path: &'static str, query: Option<&str>) -> Self {
        let cursor = pairs(query).find(|(name, _)| name == "cursor").map(|(_, cursor)| cursor);
        Self { path, filter: String::new(), sort: None, cursor }
    }

    pub(super) fn first(&self) -> bool {
        self.cursor.is_none()
    }
}

paged!(Pages, "page", |_| Some(ROWS));
