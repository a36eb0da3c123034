//! What Treeline sends by itself: the section `webhooks` of the document.
//!
//! Three messages: to the receiver of a complete tree, to the worker behind a push target, and to
//! `TREELINE_ALERT_URL`. Their shapes stand here because no operation of the API takes or answers them; tests of
//! callbacks, pushes and alerts hold what was sent against them.

use serde_json::{Value, json};

pub(super) fn add(document: &mut Value) {
    let refer = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    let text = |description: &str| json!({"type": "string", "description": description});
    let id = |description: &str| json!({"type": "string", "format": "uuid", "description": description});
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
                            "job_id": id("The root of the tree"),
                            "completion": {
                                "type": "integer", "format": "int32", "minimum": 1,
                                "description": "How often the tree has completed; a retried one completes again"
                            },
                            "outcome": refer("Outcome"),
                            "counts": refer("Counts"),
                            "metadata": {"type": "object", "description": "Of the root", "additionalProperties": true}
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
                    "assignment_id": id("What to name when the item is ended later, after a 202"),
                    "item_id": id("The same on every attempt; also sent as `Idempotency-Key`"),
                    "job_id": id("The job of the item"),
                    "type": text("The name of the job type"),
                    "attempt": {"type": "integer", "format": "int32", "minimum": 1, "description": "From 1; only grows"},
                    "payload": refer("Document"),
                    "step": {"oneOf": [{"type": "null"}, refer("Step")]}
                }
            }),
        ),
        (
            "AlertRaised",
            json!({
                "type": "object",
                "description": "An alert was raised.",
                "required": ["type", "timestamp", "data"],
                "properties": {
                    "type": {"type": "string", "enum": ["alert.raised"]},
                    "timestamp": refer("Time"),
                    "data": refer("Alert")
                }
            }),
        ),
    ];
    for (name, shape) in shapes {
        document["components"]["schemas"][name] = shape;
    }
    let header = |name: &str, description: &str| json!({"name": name, "in": "header", "required": true, "description": description, "schema": {"type": "string"}});
    let signed = json!([
        header("webhook-id", "The same on every try of one message"),
        header("webhook-timestamp", "Seconds since 1970, of this try"),
        header(
            "webhook-signature",
            "`v1,` and the signature in base64 (Standard Webhooks); several with spaces between while a secret is changed"
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
        parameters.push(header("Idempotency-Key", "The id of the item, on every attempt"));
    }
    let answers = |pairs: &[(&str, &str)]| -> Value {
        pairs.iter().map(|(status, said)| ((*status).to_owned(), json!({"description": said}))).collect()
    };
    document["webhooks"] = json!({
        "tree-completed": post(
            "tree_completed", "A tree is complete",
            "Sent to `on_completed.url` of the root once for each completion, signed, and tried again with growing \
             pauses for a day.",
            "TreeCompleted", signed,
            answers(&[
                ("2XX", "Received"),
                ("410", "Not wanted any more: the delivery ends as `failed`"),
                ("4XX", "Tried again later; `Retry-After` is kept to"),
                ("5XX", "Tried again later; `Retry-After` is kept to"),
            ]),
        ),
        "item-pushed": post(
            "item_pushed", "An item is handed to a worker",
            "Sent to the URL of a job type whose executor is `push`, signed. The answer ends the attempt, unless it \
             is 202.",
            "PushedItem", pushed,
            json!({
                "200": {
                    "description": "The result, as JSON; no body: `{}`",
                    "content": {"application/json": {"schema": refer("Document")}}
                },
                "202": {"description": "The worker ends the assignment itself, later, through the API"},
                "410": {"description": "A failure that is not retried"},
                "4XX": {"description": "A failure; `Retry-After` of 429 takes the place of the backoff"},
                "5XX": {"description": "A failure; `Retry-After` of 503 takes the place of the backoff"}
            }),
        ),
        "alert-raised": post(
            "alert_raised", "An alert was raised",
            "Sent to `TREELINE_ALERT_URL`, a few times where it is not taken.",
            "AlertRaised", json!([]),
            answers(&[("2XX", "Received"), ("4XX", "Tried again a few times"), ("5XX", "Tried again a few times")]),
        ),
    });
}
