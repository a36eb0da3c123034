//! Names in the document that client generators turn into types and methods.
//!
//! A schema or an operation is named after its Rust type or function, which is read with its module. A generated client
//! has one flat list of names, and some are taken: `Document`, `Headers`, `Session` and `Worker` are types of every
//! browser. Only the document uses these names: paths and fields stay the same.

use serde_json::Value;

/// Schemas: name in Rust, and name in the document.
const SCHEMAS: &[(&str, &str)] = &[
    ("Added", "ItemsAdded"),
    ("Builtin", "BuiltinExecutor"),
    ("Change", "JobChange"),
    ("Claim", "ClaimRequest"),
    ("Claimed", "ClaimResponse"),
    ("Code", "ProblemCode"),
    ("Delivery", "DeliveryStrategy"),
    ("Document", "JsonValue"),
    ("Ended", "AssignmentEnded"),
    ("EndedAs", "AttemptOutcome"),
    ("Ending", "AssignmentEnding"),
    ("EndingAnswer", "AssignmentEndingResult"),
    ("EventBody", "EventRequest"),
    ("FinishBody", "FinishRequest"),
    ("Finished", "FinishResponse"),
    ("Headers", "PushHeaders"),
    ("Heartbeat", "HeartbeatResponse"),
    ("HeartbeatAnswer", "AssignmentHeartbeatResult"),
    ("HeartbeatBody", "HeartbeatRequest"),
    ("HeartbeatOf", "AssignmentHeartbeat"),
    ("Heartbeats", "HeartbeatsResponse"),
    ("HeartbeatsBody", "HeartbeatsRequest"),
    ("Holder", "LeaseHolder"),
    ("Inputs", "JobInputs"),
    ("LinkMade", "SignInLink"),
    ("LogsAdded", "LogLinesAdded"),
    ("LogsBody", "LogLinesRequest"),
    ("Me", "CurrentCaller"),
    ("Preview", "UploadPreview"),
    ("Rate", "ThroughputRate"),
    ("Refused", "RefusedItem"),
    ("Roots", "RootsChange"),
    ("Session", "SignInSession"),
    ("SessionsEnded", "EndedSessions"),
    ("ShareMade", "CreatedShare"),
    ("Stats", "Statistics"),
    ("Step", "ItemStep"),
    ("Time", "Timestamp"),
    ("TokenMade", "CreatedToken"),
    ("UserMade", "CreatedUser"),
    ("Worker", "WorkerSummary"),
];

/// Operations: name in Rust, and name in the document.
const OPERATIONS: &[(&str, &str)] = &[
    ("alert_assignment", "raise_assignment_alert"),
    ("cancel_bulk", "cancel_bulk_operation"),
    ("create_bulk", "create_bulk_operation"),
    ("end_other_sessions", "end_own_other_sessions"),
    ("end_session", "end_own_session"),
    ("get_bulk", "get_bulk_operation"),
    ("get_group", "get_error_group"),
    ("list_bulk", "list_bulk_operations"),
    ("list_groups", "list_error_groups"),
    ("list_logs", "list_item_logs"),
    ("list_sessions", "list_own_sessions"),
    ("log_assignment", "add_assignment_logs"),
    ("patch_group", "patch_error_group"),
    ("set_password", "set_own_password"),
    ("step_assignment", "record_assignment_step"),
    ("stream_failures", "list_job_failures"),
    ("stream_results", "list_job_results"),
];

const PREFIX: &str = "#/components/schemas/";

/// Name of a schema in the document. `Page_Job` becomes `JobPage`.
fn schema(name: &str) -> String {
    if let Some(inner) = name.strip_prefix("Page_") {
        return format!("{}Page", schema(inner));
    }
    SCHEMAS.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| new).to_owned()
}

/// Name of an operation's function, if the document has another name for it.
#[cfg(test)]
pub(super) fn function_of(operation: &str) -> &str {
    OPERATIONS.iter().find(|(_, new)| *new == operation).map_or(operation, |(old, _)| old)
}

/// Renames every schema and operation in the document, including references.
pub(super) fn apply(document: &mut Value) {
    if let Some(schemas) = document["components"]["schemas"].as_object_mut() {
        *schemas = std::mem::take(schemas).into_iter().map(|(name, of)| (schema(&name), of)).collect();
    }
    for (_, operation) in super::operations(document) {
        let id = operation["operationId"].as_str().unwrap_or_default();
        if let Some((_, new)) = OPERATIONS.iter().find(|(old, _)| *old == id) {
            operation["operationId"] = Value::from(*new);
        }
    }
    references(document);
}

fn references(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                match inner {
                    Value::String(reference) if name == "$ref" => {
                        if let Some(old) = reference.strip_prefix(PREFIX) {
                            *reference = format!("{PREFIX}{}", schema(old));
                        }
                    }
                    inner => references(inner),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(references),
        _ => {}
    }
}
