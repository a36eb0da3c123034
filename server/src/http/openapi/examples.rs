//! Examples of the main request and response bodies.
//!
//! A test validates every example against its schema, so no example shows a body that the server refuses.

use serde_json::{Value, json};

/// Operation, status of the response (`None` for the request), and the body.
pub(super) fn all() -> Vec<(&'static str, Option<&'static str>, Value)> {
    const ITEM: &str = "0190a5e0-7c1e-7a52-9d1e-3f7f0c3f6a11";
    const JOB: &str = "0190a5e0-7c1d-7f0a-8f2b-5b2f9a4d8c10";
    const ASSIGNMENT: &str = "0190a5e1-02aa-7d3c-b1f4-90f2c6a7e512";
    const UPLOAD: &str = "0190a5df-5f10-7b77-a3c9-0b8f6f5d2e43";
    const AT: &str = "2026-11-20T09:30:00Z";
    vec![
        (
            "create_job_type",
            None,
            json!({
                "name": "invoice-shipments", "max_failures": 5,
                "backoff": {"min_seconds": 3, "max_seconds": 600, "factor": 2, "jitter": true},
                "steps": ["charged", "shipped"],
                "payload_schema": {"type": "object", "required": ["order"], "properties": {"order": {"type": "integer"}}}
            }),
        ),
        ("patch_job_type", None, json!({"concurrency": 20, "backoff": {"max_seconds": 900}})),
        (
            "create_job",
            None,
            json!({
                "type": "calculate-payroll", "name": "March", "sealed": true,
                "items": [{"payload": {"user": 1}, "dedupe_key": "u1"}, {"payload": {"user": 2}, "dedupe_key": "u2"}],
                "on_completed": {"url": "https://payroll.example.com/hooks/treeline"},
                "children": [{
                    "type": "send-check", "final_stage": true,
                    "feed": {"payload": {"amount": {"$from": "/result/amount"}}, "dedupe_key": {"$from": "/item_id"}}
                }]
            }),
        ),
        (
            "create_view",
            None,
            json!({"list": "jobs", "name": "Late payroll", "q": "type:calculate-payroll stalled:yes", "shared": true}),
        ),
        (
            "create_alert_channel",
            None,
            json!({
                "name": "On call", "kind": "pagerduty", "routing_key": "0123456789abcdef0123456789abcdef",
                "kinds": ["dead_letters", "stalled"], "types": ["calculate-payroll"], "min_count": 10,
                "after_seconds": 60,
                "quiet_hours": {"time_zone": "Europe/Berlin", "from": "22:00", "to": "07:00", "days": []}
            }),
        ),
        (
            "create_schedule",
            None,
            json!({
                "name": "Payroll", "cron": "0 2 1 * *", "time_zone": "Europe/Berlin", "overlap": "skip",
                "catch_up": "last", "catch_up_window_seconds": 86_400,
                "job": {"type": "calculate-payroll", "sealed": true, "items": [{"payload": {"user": 1}}]}
            }),
        ),
        ("put_job", None, json!({"type": "import", "upload": {"id": UPLOAD, "format": "csv"}})),
        ("patch_job", None, json!({"priority": 10, "expires_at": null, "reason": "Needed before noon"})),
        ("add_items", None, json!([{"payload": {"user": 3}}, {"payload": {"user": 4}, "priority": 5}])),
        ("add_items", Some("200"), json!({"accepted": 2, "duplicates": 0, "merged": 0, "sealed": false})),
        (
            "claim_items",
            None,
            json!({"worker_id": "payroll-7", "types": ["calculate-payroll"], "max": 10, "wait_seconds": 20}),
        ),
        (
            "claim_items",
            Some("200"),
            json!({"assignments": [{
                "id": ASSIGNMENT, "attempt": 1, "lease_expires_at": "2026-11-20T09:33:00Z", "heartbeat_seconds": 60.0,
                "item": {
                    "id": ITEM, "job_id": JOB, "root_id": JOB, "type": "calculate-payroll", "seq": 1, "row": null,
                    "attempts": 1, "failures": 0, "max_failures": 3, "payload": {"user": 1}, "metadata": {},
                    "step": null, "dedupe_key": "u1", "serialize_key": null, "priority": 0, "expires_at": null,
                    "created_at": AT
                }
            }]}),
        ),
        ("heartbeat_assignment", None, json!({"progress": {"done": 3, "total": 10, "message": "Page 3 of 10"}})),
        (
            "heartbeat_assignments",
            None,
            json!({"heartbeats": [{"assignment_id": ASSIGNMENT, "progress": {"done": 3, "total": 10}}]}),
        ),
        (
            "log_assignment",
            None,
            json!({"lines": [{"level": "warn", "message": "Retrying the charge", "fields": {"status": 429}}]}),
        ),
        ("step_assignment", None, json!({"name": "charged", "data": {"charge": "ch_123"}})),
        ("succeed_assignment", None, json!({"result": {"amount": 2150.25}})),
        (
            "fail_assignment",
            None,
            json!({
                "error": {"message": "The bank did not answer", "kind": "bank_timeout"},
                "retryable": true, "retry_after_seconds": 30
            }),
        ),
        (
            "wait_assignment",
            None,
            json!({"name": "approval", "timeout_seconds": 86400, "form": {"title": "Approve the invoice?", "fields": [
                {"name": "decision", "type": "choice", "choices": ["approve", "reject"], "required": true},
                {"name": "note", "type": "text", "title": "Note", "required": false}]}}),
        ),
        ("send_event", None, json!({"name": "approval", "data": {"decision": "approve"}})),
        ("release_assignment", None, json!({"retry_after_seconds": 5})),
        (
            "finish_assignments",
            None,
            json!({
                "endings": [{"assignment_id": ASSIGNMENT, "result": {"amount": 2150.25}}],
                "claim": {"worker_id": "payroll-7", "types": ["calculate-payroll"], "max": 10}
            }),
        ),
        ("patch_group", None, json!({"state": "resolved", "note": "Fixed in 2.4.1"})),
        ("alert_assignment", None, json!({"message": "The disk of payroll-7 is nearly full"})),
        (
            "create_bulk",
            None,
            json!({
                "action": "retry", "target": "items", "filter": {"state": "dead", "type": "calculate-payroll"},
                "payload_edit": [{"op": "set", "path": "/currency", "value": "EUR"}],
                "reason": "The bank is back", "rate_per_second": 50, "dry_run": true
            }),
        ),
        ("retry_item", None, json!({"payload": {"user": 1, "currency": "EUR"}, "reason": "The currency was missing"})),
        ("cancel_job", None, json!({"reason": "Started with the wrong file"})),
        ("create_session", None, json!({"email": "ada@example.com", "password": "correct horse battery"})),
        ("create_user", None, json!({"name": "Ada", "email": "ada@example.com", "role": "support"})),
        ("create_service", None, json!({"name": "payroll"})),
        (
            "create_token",
            None,
            json!({"service": "payroll", "name": "workers", "scopes": ["work"], "types": ["calculate-payroll"]}),
        ),
    ]
}

/// Adds every example to its body.
pub(super) fn apply(document: &mut Value) {
    let all = all();
    for (_, operation) in super::operations(document) {
        let id = operation["operationId"].as_str().unwrap_or_default().to_owned();
        for (_, status, example) in all.iter().filter(|(operation, ..)| *operation == id) {
            let place =
                status.map_or("/requestBody/content".to_owned(), |status| format!("/responses/{status}/content"));
            let content = operation.pointer_mut(&place).and_then(|content| content.get_mut("application/json"));
            if let Some(media) = content {
                media["example"] = example.clone();
            }
        }
    }
    document["components"]["schemas"]["Problem"]["example"] = json!({
        "type": "urn:treeline:problem:invalid_body", "title": "The body is not valid", "status": 422,
        "detail": "At /items/0/priority: expected a whole number from -100 to 100.", "code": "invalid_body",
        "request_id": "0190a5e2-11c0-7e01-9c62-52c8a1a0b7d4",
        "errors": [{"pointer": "/items/0/priority", "detail": "expected a whole number from -100 to 100"}]
    });
}
