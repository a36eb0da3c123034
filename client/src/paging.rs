//! Paging of lists without filters, and conditional changes.

use domain::api::Page;
use reqwest::header::HeaderValue;
use serde::de::DeserializeOwned;

use crate::{
    client::{Call, Client},
    error::Result,
};

/// Maximum number of rows on one page.
const LARGEST_PAGE: u32 = 1_000;

/// Page of a list.
#[derive(Clone, Debug, Default)]
pub struct PageQuery {
    /// 1 to 1,000; absent: 50.
    pub limit: Option<u32>,
    /// `next_cursor` of the previous page.
    pub cursor: Option<String>,
}

impl Client {
    /// All pages of a list as one.
    pub(crate) async fn whole_list<T: DeserializeOwned>(&self, path: &[&str]) -> Result<Page<T>> {
        let mut query = PageQuery { limit: Some(LARGEST_PAGE), cursor: None };
        let mut whole: Page<T> = self.list(self.get(path), &query).await?;
        while let Some(cursor) = whole.next_cursor.take() {
            query.cursor = Some(cursor);
            let page = self.list(self.get(path), &query).await?;
            whole.data.extend(page.data);
            whole.next_cursor = page.next_cursor;
        }
        Ok(whole)
    }

    pub(crate) async fn list<T: DeserializeOwned>(&self, call: Call, page: &PageQuery) -> Result<Page<T>> {
        let limit = page.limit.map(|limit| limit.to_string());
        let call = call.query_some("limit", limit.as_deref()).query_some("cursor", page.cursor.as_deref());
        self.fetch(call).await
    }
}

impl Call {
    /// Makes the call conditional on the version that was read.
    pub(crate) fn if_version(self, version: Option<i64>) -> Self {
        match version.and_then(|version| HeaderValue::from_str(&format!("\"{version}\"")).ok()) {
            Some(version) => self.header("if-match", version),
            None => self,
        }
    }
}
