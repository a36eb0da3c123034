//! Bulk operations: retry, cancel or delete everything that matches a filter, with preview, rate limit and counts.

use domain::{
    api::{BulkOperation, NewBulk, Page},
    id::Uuid,
};

use crate::{api::idempotency_header, client::Client, error::Result, paging::PageQuery, retry::RetryPolicy};

impl Client {
    /// Starts an operation, or with `dry_run` only counts what it would affect. A retry after a lost response does not
    /// start a second one.
    ///
    /// # Errors
    /// 422 `reason_required` on someone else's work.
    pub async fn create_bulk(&self, new: &NewBulk) -> Result<BulkOperation> {
        let call = self.post(&["bulk-operations"]).json(new);
        let call = call.header("idempotency-key", idempotency_header(&Uuid::now_v7().to_string())?);
        self.fetch(call.retry(RetryPolicy::Always)).await
    }

    /// Returns an operation with its progress.
    pub async fn bulk(&self, id: Uuid) -> Result<BulkOperation> {
        self.fetch(self.get(&["bulk-operations", &id.to_string()])).await
    }

    /// Operations, newest first.
    pub async fn bulks(&self, page: &PageQuery) -> Result<Page<BulkOperation>> {
        self.list(self.get(&["bulk-operations"]), page).await
    }

    /// Stops an operation; completed work is not undone. Idempotent.
    pub async fn cancel_bulk(&self, id: Uuid) -> Result<BulkOperation> {
        let call = self.post(&["bulk-operations", &id.to_string(), "cancel"]);
        self.fetch(call.retry(RetryPolicy::Always)).await
    }
}
