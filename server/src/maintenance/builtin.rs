//! Fast built-in executors: `validate` and `echo`. `exporter` is the slow one.
//!
//! They claim and finish through the same use cases as any worker, under the name `treeline`: a crashed server is a
//! crashed worker.

use std::{collections::HashMap, sync::Arc, time::Duration};

use domain::{
    Document,
    api::{Assignment, Claim, Ending, FinishBody, WorkError},
    job_type::Builtin,
};
use serde::Serialize;
use uuid::Uuid;

use super::driver::backoff;
use crate::App;
use engine::{
    Engine,
    access::caller::Caller,
    error::Result,
    schema::{self, Schema},
    store::tree::definitions,
    task::unless_silent,
};

/// Items per batch: enough to amortize a commit, few enough that progress bars move.
const BATCH: u32 = 100;

/// Wait of one claim, in seconds; also the maximum age of the list of types.
const WAIT: u32 = 2;

/// Processes items until shutdown; started items are finished.
pub(super) async fn run(app: App) {
    let mut worker = Worker { caller: Engine::builtin_caller(), schemas: HashMap::new(), app };
    let mut endings = Vec::new();
    let mut failures = 0_u32;
    while !(worker.app.shutdown.is_cancelled() && endings.is_empty()) {
        match unless_silent(worker.step(&mut endings)).await.flatten() {
            Ok(()) => failures = 0,
            Err(error) => {
                let pause = backoff("builtin executors", Duration::from_millis(100), &mut failures, &error);
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    // Items that cannot be finished now are offered again when their lease expires.
                    () = worker.app.shutdown.cancelled() => return,
                }
            }
        }
    }
}

struct Worker {
    app: App,
    caller: Caller,
    /// Schema by job: a job keeps the schema of its creation.
    schemas: HashMap<Uuid, Option<Arc<Schema>>>,
}

impl Worker {
    /// Finishes processed items and claims the next in the same call; without processed items, waits for work. On
    /// failure `endings` is unchanged and can be sent again safely.
    async fn step(&mut self, endings: &mut Vec<Ending>) -> Result<()> {
        let engine = self.app.engine.clone();
        let executors: HashMap<String, Builtin> = engine
            .builtin_types()
            .iter()
            .filter_map(|info| Some((info.name.clone(), info.executor.name?)))
            .filter(|(_, name)| matches!(name, Builtin::Validate | Builtin::Echo))
            .collect();
        let stopping = self.app.shutdown.is_cancelled();
        let claim = |wait_seconds| Claim {
            worker_id: "treeline".to_owned(),
            types: executors.keys().cloned().collect(),
            item_ids: None,
            max: Some(BATCH),
            wait_seconds,
            claim_id: None,
        };
        let assignments = if endings.is_empty() {
            if executors.is_empty() {
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_secs(WAIT.into())) => {}
                    () = engine.types().executors_changed() => {}
                    () = self.app.shutdown.cancelled() => {}
                }
                return Ok(());
            }
            // Not dropped when the server stops, which ends the wait: what it has claimed is finished.
            engine.claim(&self.caller, claim(Some(WAIT))).await?.assignments
        } else {
            let claim = (!stopping && !executors.is_empty()).then(|| claim(None));
            let body = FinishBody { endings: endings.clone(), claim };
            let finished = engine.finish(&self.caller, body).await?;
            endings.clear();
            finished.assignments
        };
        if self.schemas.len() > 1_000 {
            self.schemas.clear();
        }
        for assignment in assignments {
            let executor = executors.get(&assignment.item.job_type);
            let schema = match executor {
                Some(Builtin::Validate) => self.schema(assignment.item.job_id).await,
                _ => Ok(None),
            };
            endings.push(match schema {
                Ok(schema) => build_ending(assignment, schema.as_deref()),
                Err(error) => {
                    tracing::warn!(task = "built-in types", %error, "reading the schema of a job failed");
                    failed_ending(&assignment)
                }
            });
        }
        Ok(())
    }

    async fn schema(&mut self, job_id: Uuid) -> Result<Option<Arc<Schema>>> {
        if let Some(cached) = self.schemas.get(&job_id) {
            return Ok(cached.clone());
        }
        let job = definitions::job_by_id(&self.app.pool, job_id).await?;
        let text = job.and_then(|job| job.payload_schema);
        let schema = text.and_then(|text| schema::compiled(&text).ok());
        self.schemas.insert(job_id, schema.clone());
        Ok(schema)
    }
}

/// Failure to read the schema, after which the item is retried.
fn failed_ending(assignment: &Assignment) -> Ending {
    let message = "The database failed.".to_owned();
    Ending {
        assignment_id: assignment.id.into(),
        result: None,
        error: Some(WorkError { message, kind: Some(domain::Code::Internal.as_str().to_owned()), detail: None }),
        retryable: true,
        retry_after_seconds: None,
        cancel_tree: false,
    }
}

/// Builds the result from the payload, or the schema error.
fn build_ending(assignment: Assignment, schema: Option<&Schema>) -> Ending {
    let item = assignment.item;
    let fault = schema.and_then(|schema| schema.faults(&item.payload).into_iter().next());
    let error = fault.map(|(pointer, expected)| schema_error(item.row, item.seq, &item.payload, &pointer, &expected));
    // A result is never null.
    let result = if item.payload.text() == "null" { Document::empty_object() } else { item.payload };
    Ending {
        assignment_id: assignment.id.into(),
        result: error.is_none().then_some(result),
        error,
        retryable: false,
        retry_after_seconds: None,
        cancel_tree: false,
    }
}

/// For example `Line 17, /amount: expected a number, found "twelve".`
fn schema_error(row: Option<i64>, seq: i64, payload: &Document, pointer: &str, expected: &str) -> WorkError {
    #[derive(Serialize)]
    struct Detail<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        line: Option<i64>,
        pointer: &'a str,
        expected: &'a str,
        found: &'a str,
    }
    let position = row.map_or_else(|| format!("Item {seq}"), |row| format!("Line {row}"));
    let found = schema::display_value(payload, pointer);
    let column = match pointer.strip_prefix('/') {
        None => String::new(),
        Some(name) if row.is_some() && !name.contains('/') => {
            format!(", column {}", name.replace("~1", "/").replace("~0", "~"))
        }
        Some(_) => format!(", {pointer}"),
    };
    let expected = expected.strip_prefix("expected ").unwrap_or(expected);
    WorkError {
        message: format!("{position}{column}: expected {expected}, found {found}."),
        kind: Some("invalid_row".to_owned()),
        detail: Some(Document::of(&Detail { line: row, pointer, expected, found: &found })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_does_not_fit_says_line_column_and_what_was_expected() {
        let payload = Document::trusted(r#"{"amount":"twelve","a":{"b":1}}"#.to_owned());
        let message = |row, pointer, expected| schema_error(row, 5, &payload, pointer, expected).message;
        assert_eq!(
            message(Some(17), "/amount", "expected a number"),
            "Line 17, column amount: expected a number, found \"twelve\"."
        );
        assert_eq!(message(None, "/a/b", "expected text"), "Item 5, /a/b: expected text, found 1.");
        assert_eq!(message(Some(2), "/z", "expected a value"), "Line 2, column z: expected a value, found nothing.");
    }
}
