//! Paging of lists without filters, and conditional changes.

use domain::api::Page;
use reqwest::header::HeaderValue;
use serde::de::DeserializeOwned;

use crate::{
    client::{Call, Client},
    error::Result,
};

/// Page of a list.
#[derive(Clone, Debug, Default)]
pub struct PageQuery {
    /// 1 to 1,000; absent: 50.
    pub limit: Option<u32>,
    /// `next_cursor` of the previous page.
    pub cursor: Option<String>,
}

impl Client {
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
