//! Validation of requested items against their job before they are added: sizes, keys, schema.

use domain::{
    Code, Document, Problem,
    api::NewItem,
    debounce::Debounce,
    dispatch::traceparent::Traceparent,
    id::is_key,
    job_type::{Builtin, Executor, ExecutorKind},
    limits,
};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::{
    Core,
    schema::{MOST_FAULTS, Schema, SchemaError, compiled},
    store::{dispatch::endings::ErrorText, tree::definitions::JobInfo},
    task::heavy,
};

/// Validated item.
#[derive(Clone, Debug)]
pub(crate) struct PreparedItem {
    pub(crate) id: Uuid,
    pub(crate) dedupe_key: Option<String>,
    pub(crate) serialize_key: Option<String>,
    /// Id of the parent's item that fed it.
    pub(crate) fed_by: Option<Uuid>,
    pub(crate) payload: String,
    pub(crate) metadata: Option<String>,
    pub(crate) priority: i16,
    pub(crate) row: Option<i64>,
    pub(crate) run_after: Option<OffsetDateTime>,
    pub(crate) expires_at: Option<OffsetDateTime>,
    pub(crate) debounce: Option<Debounce>,
    /// Trace context of the request that adds it.
    pub(crate) traceparent: Option<Traceparent>,
    /// Error of an item that is dead from the start: its row could not be read or is invalid.
    pub(crate) error: Option<ErrorText>,
}

impl Core {
    /// Refuses a document larger than a payload may be, because every page and list that shows it would be as large.
    pub(crate) fn check_document_size(
        &self,
        document: Option<&Document>,
        pointer: impl FnOnce() -> String,
    ) -> Result<(), Problem> {
        let limit = self.payload_limit;
        if document.is_none_or(|document| document.text().len() <= limit) {
            return Ok(());
        }
        Err(Problem::at(Code::TooLarge, pointer(), format!("over the limit of {limit} bytes")))
    }

    /// Same as `fits`, for the documents of items.
    pub(crate) fn check_documents_size(&self, items: &[NewItem], pointer: impl Fn() -> String) -> Result<(), Problem> {
        for (at, item) in items.iter().enumerate() {
            self.check_document_size(item.payload.as_ref(), || format!("{}/{at}/payload", pointer()))?;
            self.check_document_size(item.metadata.as_ref(), || format!("{}/{at}/metadata", pointer()))?;
        }
        Ok(())
    }

    /// Validates items of a request against the job: sizes, keys, schema. Returns the first ten faults of all items, each
    /// with a pointer into the body.
    pub(crate) fn prepare(
        &self,
        job: &JobInfo,
        items: Vec<NewItem>,
        pointer: &str,
    ) -> Result<Vec<PreparedItem>, Problem> {
        let info = self.types.by_id(job.type_id);
        let executor = info.as_ref().map(|info| &info.executor);
        refuse_debounced_exports(executor, &items, pointer)?;
        // The builtin executors validate payloads themselves and turn invalid ones into dead items.
        let schema = match (&job.payload_schema, executor) {
            (Some(text), Some(executor)) if executor.kind != ExecutorKind::Builtin => match compiled(text) {
                Ok(schema) => Some(schema),
                Err(error @ SchemaError::TooComplex(_)) => return Err(error.problem()),
                // The schema was accepted when other schemas were valid.
                Err(SchemaError::Invalid(_)) => None,
            },
            _ => None,
        };
        self.check_documents_size(&items, || pointer.to_owned())?;
        let bytes = items.iter().filter_map(|item| item.payload.as_ref()).map(|payload| payload.text().len()).sum();
        if schema.as_ref().is_some_and(|schema| schema.takes_long(bytes)) {
            return heavy(|| check(job, schema.as_deref(), items, pointer));
        }
        check(job, schema.as_deref(), items, pointer)
    }
}

/// Refuses debounced exports: an export has the rights of whoever requested it, and must not replace somebody else's.
fn refuse_debounced_exports(executor: Option<&Executor>, items: &[NewItem], pointer: &str) -> Result<(), Problem> {
    if executor.is_none_or(|executor| executor.name != Some(Builtin::Export)) {
        return Ok(());
    }
    let Some(at) = items.iter().position(|item| item.debounce.is_some()) else { return Ok(()) };
    let expected = "expected none: exports are not debounced".to_owned();
    Err(Problem::invalid_body([(format!("{pointer}/{at}/debounce"), expected)]))
}

fn check(
    job: &JobInfo,
    schema: Option<&Schema>,
    items: Vec<NewItem>,
    pointer: &str,
) -> Result<Vec<PreparedItem>, Problem> {
    let mut faults: Vec<(String, String)> = Vec::new();
    let mut prepared = Vec::with_capacity(items.len());
    for (at, item) in items.into_iter().enumerate() {
        let payload = item.payload.unwrap_or_else(Document::null);
        let mut add_fault = |field: &str, detail: String| faults.push((format!("{pointer}/{at}/{field}"), detail));
        if let Some(schema) = schema {
            for (inner, detail) in schema.faults(&payload) {
                add_fault(&format!("payload{inner}"), detail);
            }
        }
        if item.priority.is_some_and(|p| !(limits::LEAST_PRIORITY..=limits::GREATEST_PRIORITY).contains(&p)) {
            add_fault("priority", "expected a whole number from -100 to 100".to_owned());
        }
        if item.dedupe_key.as_ref().is_some_and(|key| !is_key(key)) {
            add_fault("dedupe_key", "expected 1 to 255 characters".to_owned());
        }
        if item.serialize_key.as_ref().is_some_and(|key| !is_key(key)) {
            add_fault("serialize_key", "expected 1 to 255 characters".to_owned());
        }
        for (inner, detail) in item.debounce.as_ref().map(Debounce::problems).unwrap_or_default() {
            add_fault(&format!("debounce{inner}"), detail);
        }
        if item.debounce.is_some() && (item.dedupe_key.is_some() || item.run_after.is_some()) {
            add_fault("debounce", "expected no dedupe_key and no run_after beside it".to_owned());
        }
        let metadata = item.metadata.filter(|m| m.text() != "{}");
        if metadata.as_ref().is_some_and(|m| !m.text().trim_start().starts_with('{')) {
            add_fault("metadata", "expected an object".to_owned());
        }
        prepared.push(PreparedItem {
            id: Uuid::now_v7(),
            dedupe_key: item.dedupe_key,
            serialize_key: item.serialize_key,
            fed_by: None,
            payload: payload.into_text(),
            metadata: metadata.map(Document::into_text),
            priority: item.priority.unwrap_or(job.priority),
            row: None,
            // `start-and-expiry`: the later run_after and the earlier expires_at apply.
            run_after: item.run_after.map(|at| at.0).max(job.run_after),
            expires_at: [item.expires_at.map(|at| at.0), job.expires_at].into_iter().flatten().min(),
            debounce: item.debounce,
            traceparent: None,
            error: None,
        });
        if faults.len() >= MOST_FAULTS {
            faults.truncate(MOST_FAULTS);
            break;
        }
    }
    if faults.is_empty() { Ok(prepared) } else { Err(Problem::invalid_body(faults)) }
}
