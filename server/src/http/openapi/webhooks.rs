//! Messages that Treeline sends: the section `webhooks` of the document.
//!
//! Eight messages: two to the webhooks of people, to the receiver of a complete tree, to the worker behind a push target, two to `TREELINE_ALERT_URL` and to
//! alert channels, one to alert channels alone, and one to `TREELINE_AUDIT_URL`. Their schemas are here because no operation of the API accepts or returns them. The
//! test receivers (`server/tests/it/support/receiver.rs`) validate every message against these schemas.

use serde_json::{Value, json};

/// Pattern of a pushed assignment's id, which always includes its capability.
const PUSHED_ID: &str = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.[A-Za-z0-9_-]{43}$";

/// Description of the response of a push target that cannot take an item now.
const BUSY: &str = "The target is busy. This is not a failure: the item is sent again after `Retry-After`, else after \
                    a delay that grows with each attempt, and its retry budget is unchanged. For a type that is \
                    delivered at most once it is a failure";

/// Adds the schemas of the messages, and the section `webhooks`.
pub(super) fn add(document: &mut Value) {
    let refer = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    let text = |description: &str| json!({"type": "string", "description": description});
    let id = |description: &str| json!({"type": "string", "format": "uuid", "description": description});
    let about_alert = |kind: &str, description: &str| {
        json!({
            "type": "object",
            "description": description,
            "required": ["type", "timestamp", "data"],
            "properties": {
                "type": {"type": "string", "enum": [kind]},
                "timestamp": refer("Time"),
                "data": refer("Alert")
            }
        })
    };
    let about_notice = |kind: &str, description: &str| {
        json!({
            "type": "object",
            "description": description,
            "required": ["type", "timestamp", "data"],
            "properties": {
                "type": {"type": "string", "enum": [kind]},
                "timestamp": refer("Time"),
                "data": refer("Notice")
            }
        })
    };
    let shapes = [
        (
            "TreeCompleted",
            json!({
                "type": "object",
                "description": "A tree is complete.",
                "required": ["type", "timestamp", "data"],
                "properties": {
                    "type": {"type": "string", "enum": ["tree.completed"]},
                    "timestamp": refer("Time"),
                    "data": {
                        "type": "object",
                        "required": ["job_id", "completion", "outcome", "counts", "metadata"],
                        "properties": {
                            "job_id": id("Id of the tree's root"),
                            "completion": {
                                "type": "integer", "format": "int32", "minimum": 1,
                                "description": "Number of completions of the tree; a retried tree completes again"
                            },
                            "outcome": refer("Outcome"),
                            "counts": refer("Counts"),
                            "metadata": {
                                "type": "object", "description": "Metadata of the root", "additionalProperties": true
                            }
                        }
                    }
                }
            }),
        ),
        (
            "PushedItem",
            json!({
                "type": "object",
                "description": "An item for the worker behind the URL of a job type with a push executor.",
                "required": ["assignment_id", "item_id", "job_id", "type", "attempt", "payload", "step"],
                "properties": {
                    "assignment_id": {
                        "type": "string", "pattern": PUSHED_ID,
                        "description": "Id to end the assignment with, after a 202: a UUID, `.` and a capability. Keep \
                                        it secret; whoever has it and a token for the type can end the assignment"
                    },
                    "item_id": id("Id of the item, the same for every attempt; also sent as `Idempotency-Key`"),
                    "job_id": id("Id of the item's job"),
                    "type": text("Name of the job type"),
                    "attempt": {"type": "integer", "format": "int32", "minimum": 1,
                                "description": "Number of the attempt, from 1; only increases"},
                    "payload": refer("Document"),
                    "step": {"oneOf": [{"type": "null"}, refer("Step")]},
                    "event": refer("ReceivedEvent"),
                    "inputs": {
                        "type": "object", "additionalProperties": refer("Inputs"),
                        "description": "For a job that waited for others: their results by job key, or links to them"
                    }
                }
            }),
        ),
        ("AlertRaised", about_alert("alert.raised", "An alert was raised; `cleared_at` is null.")),
        (
            "AlertCleared",
            about_alert("alert.cleared", "An alert was cleared; `data.id` is the id of the alert that was raised."),
        ),
        ("NoticeFinished", about_notice("notice.finished", "A watched tree is complete.")),
        ("NoticeNeedsAttention", about_notice("notice.needs_attention", "A watched tree needs attention.")),
        (
            "AlertTest",
            json!({
                "type": "object",
                "description": "Test message of an alert channel.",
                "required": ["type", "timestamp", "data"],
                "properties": {
                    "type": {"type": "string", "enum": ["alert.test"]},
                    "timestamp": refer("Time"),
                    "data": {
                        "type": "object",
                        "required": ["channel_id", "channel"],
                        "properties": {
                            "channel_id": id("Id of the alert channel"),
                            "channel": text("Name of the alert channel")
                        }
                    }
                }
            }),
        ),
        (
            "AuditEntries",
            json!({
                "type": "object",
                "description": "Entries of the audit log, in order.",
                "required": ["type", "timestamp", "data"],
                "properties": {
                    "type": {"type": "string", "enum": ["audit.entries"]},
                    "timestamp": refer("Time"),
                    "data": {
                        "type": "object",
                        "required": ["entries"],
                        "properties": {"entries": {"type": "array", "minItems": 1, "items": refer("AuditEntry")}}
                    }
                }
            }),
        ),
    ];
    for (name, shape) in shapes {
        document["components"]["schemas"][name] = shape;
    }
    let header = |name: &str, description: &str| json!({"name": name, "in": "header", "required": true, "description": description, "schema": {"type": "string"}});
    let traceparent = json!({"name": "traceparent", "in": "header", "required": false,
        "description": "W3C Trace Context, if the item or the tree was added within a trace", "schema": {"type": "string"}});
    let signed = json!([
        header("webhook-id", "Id of the message, the same for every attempt"),
        header("webhook-timestamp", "Time of this attempt, in seconds since 1970"),
        header(
            "webhook-signature",
            "`v1,` and the signature in base64 (Standard Webhooks); several, with spaces, while a secret is changed"
        ),
    ]);
    let post = |id: &str, summary: &str, description: &str, shape: &str, parameters: Value, responses: Value| {
        json!({"post": {
            "operationId": id, "tags": ["deliveries"], "summary": summary, "description": description,
            "security": [{}], "parameters": parameters,
            "requestBody": {"required": true, "content": {"application/json": {"schema": refer(shape)}}},
            "responses": responses
        }})
    };
    let mut pushed = signed.clone();
    if let Some(parameters) = pushed.as_array_mut() {
        parameters.push(header("Idempotency-Key", "Id of the item, the same for every attempt"));
        parameters.push(traceparent.clone());
    }
    let mut completed = signed.clone();
    if let Some(parameters) = completed.as_array_mut() {
        parameters.push(traceparent);
    }
    let answers = |pairs: &[(&str, &str)]| -> Value {
        pairs.iter().map(|(status, description)| ((*status).to_owned(), json!({"description": description}))).collect()
    };
    let tried_again = [
        ("2XX", "Received"),
        ("4XX", "Sent again later; for 429 after `Retry-After`"),
        ("5XX", "Sent again later; for 503 after `Retry-After`"),
    ];
    document["webhooks"] = json!({
        "tree-completed": post(
            "tree_completed", "A tree is complete",
            "Sent to `on_completed.url` of the root once for each completion, signed, and retried with growing delays \
             for a day.",
            "TreeCompleted", completed,
            answers(&[
                ("2XX", "Received"),
                ("410", "Not wanted anymore: the delivery ends as `failed`"),
                ("4XX", "Sent again later; for 429 after `Retry-After`"),
                ("5XX", "Sent again later; for 503 after `Retry-After`"),
            ]),
        ),
        "item-pushed": post(
            "item_pushed", "An item is sent to a worker",
            "Sent to the URL of a job type whose executor is `push`, signed. A response other than 202 ends the \
             attempt.",
            "PushedItem", pushed,
            json!({
                "200": {
                    "description": "The result, as JSON; no body: `{}`",
                    "content": {"application/json": {"schema": refer("Document")}}
                },
                "202": {"description": "The worker ends the assignment later, through the API"},
                "410": {"description": "A failure that is not retried"},
                "429": {"description": BUSY},
                "503": {"description": BUSY},
                "4XX": {"description": "A failure, which counts against the retry budget"},
                "5XX": {"description": "A failure, which counts against the retry budget"}
            }),
        ),
        "alert-raised": post(
            "alert_raised", "An alert was raised",
            "Sent to `TREELINE_ALERT_URL`, signed by the deployment's secret and by one for this purpose, and to alert channels \
             of the kind `webhook`, signed by the channel's secret. The message is stored before it is sent and \
             retried with growing delays for a day, so it arrives at least once.",
            "AlertRaised", signed.clone(), answers(&tried_again),
        ),
        "alert-cleared": post(
            "alert_cleared", "An alert was cleared",
            "Sent to `TREELINE_ALERT_URL` and to alert channels like `alert-raised`, for each alert that was sent when \
             it was raised.",
            "AlertCleared", signed.clone(), answers(&tried_again),
        ),
        "alert-test": post(
            "alert_test", "An alert channel is tested",
            "Sent to an alert channel of the kind `webhook` by `POST /alert-channels/{id}/test`.",
            "AlertTest", signed.clone(), answers(&tried_again),
        ),
        "notice-finished": post(
            "notice_finished", "A watched tree is complete",
            "Sent to the webhook of a person who watches the tree, signed with its secret, else with that of the \
             account.",
            "NoticeFinished", signed.clone(), answers(&tried_again),
        ),
        "notice-needs-attention": post(
            "notice_needs_attention", "A watched tree needs attention",
            "Sent like `notice-finished`, once per watch: an item failed for good or waits for a person's answer.",
            "NoticeNeedsAttention", signed.clone(), answers(&tried_again),
        ),
        "audit-entries": post(
            "audit_entries", "Entries were added to the audit log",
            "Sent to `TREELINE_AUDIT_URL`, signed by a secret for this purpose: every entry, in order, at least once. \
             A batch that is not accepted is sent again, and later entries wait.",
            "AuditEntries", signed,
            answers(&[("2XX", "Received"), ("4XX", "Sent again"), ("5XX", "Sent again")]),
        ),
    });
}
