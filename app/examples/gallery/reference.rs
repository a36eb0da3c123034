//! API reference and documentation, with a few operations of the real description.

use app::{
    frame::Page,
    pages::{
        api_reference::{
            Answer, Body, BodyField, Group, Operation, Parameter, Place, Received, Reference, RequestParts, Try,
            index_page, operation_page,
        },
        documentation::{self, Chapter, ChapterLink},
    },
};
use domain::{Code, Document, Problem};

use crate::Draw;

pub(crate) fn all(add: &mut impl FnMut(&'static str, Draw)) {
    add("api-reference", Box::new(|| index_page(&reference(), "")));
    add("api-reference-filtered", Box::new(|| index_page(&reference(), "jobs")));
    add("api-reference-nothing", Box::new(|| index_page(&reference(), "teleport")));
    add("api-operation", Box::new(|| one("create_job", &Try::default())));
    add("api-operation-sent", Box::new(|| one("cancel_job", &sent())));
    add(
        "api-operation-confirm",
        Box::new(|| {
            let line = "POST /api/v1/jobs/01a1fcd8-0c63-710f-95ad-a94ac199316b/cancel".to_owned();
            one("cancel_job", &Try { unconfirmed: Some((line, "abc".to_owned())), ..typed() })
        }),
    );
    add(
        "api-operation-refused",
        Box::new(|| {
            let fault = ("/path.id".to_owned(), "expected an id, found \"last\"".to_owned());
            one("cancel_job", &Try { problem: Some(Problem::invalid_body([fault])), ..typed() })
        }),
    );
    add(
        "api-operation-elsewhere",
        Box::new(|| {
            let mut operation = cancel_job();
            operation.not_here = Some("Workers send this, with a token that has the permission work. People may not.");
            operation_page(&reference(), &operation, &Try::default())
        }),
    );
    add("documentation", Box::new(book));
}

fn one(id: &str, tried: &Try) -> Page {
    let reference = reference();
    let operation =
        reference.groups.iter().flat_map(|group| &group.operations).find(|it| it.id == id).expect("an operation");
    operation_page(&reference, operation, tried)
}

fn typed() -> Try {
    Try {
        values: [("path.id".to_owned(), "01a1fcd8-0c63-710f-95ad-a94ac199316b".to_owned())].into(),
        body: Some("{\n  \"reason\": \"Started with the wrong file\"\n}".to_owned()),
        ..Try::default()
    }
}

/// A request that was answered.
fn sent() -> Try {
    let path = "/api/v1/jobs/01a1fcd8-0c63-710f-95ad-a94ac199316b/cancel";
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let text = r#"{"id":"01a1fcd8-0c63-710f-95ad-a94ac199316b","type":"calculate-payroll","status":"cancelling","counts":{"succeeded":5000,"running":3,"cancelled":2239},"version":8}"#;
    let body = Document::trusted("{\"reason\":\"Started with the wrong file\"}".to_owned());
    Try {
        sent: Some(RequestParts {
            method: "POST".to_owned(),
            path: path.to_owned(),
            values: vec!["01a1fcd8-0c63-710f-95ad-a94ac199316b".to_owned()],
            body: Some(body),
            ..RequestParts::default()
        }),
        response: Some(Received {
            request: format!("POST {path}"),
            status: 200,
            reason: "OK".to_owned(),
            milliseconds: 12,
            headers: vec![header("content-type", "application/json"), header("x-request-id", "0199-a3f2-77")],
            text: Some(text.to_owned()),
            is_json: true,
            is_cut: false,
            needs_step_up: false,
        }),
        ..typed()
    }
}

fn reference() -> Reference {
    let group = |name: &str, description: &str, operations| Group {
        name: name.to_owned(),
        description: description.to_owned(),
        operations,
    };
    Reference {
        introduction: "Bodies are JSON in UTF-8. Times are RFC 3339 in UTC; ids are UUIDs. Lists are read in pages with \
                       `cursor`; `next_cursor` is null on the last.\n\nAn error is a problem document (RFC 9457) with a \
                       stable `code`. A request that creates something may carry an `Idempotency-Key`."
            .to_owned(),
        groups: vec![
            group(
                "jobs",
                "Jobs and the trees below them",
                vec![
                    create_job(),
                    line("GET", "/jobs", "list_jobs", "List jobs"),
                    line("GET", "/jobs/{id}", "get_job", "Get a job"),
                    line("POST", "/jobs/{id}/items", "add_items", "Add items to a job"),
                    cancel_job(),
                    line("DELETE", "/jobs/{id}", "delete_job", "Delete a job"),
                ],
            ),
            group(
                "items",
                "Items, their payloads, attempts, and results",
                vec![
                    line("GET", "/items", "list_items", "List items"),
                    line("GET", "/items/{id}", "get_item", "Get an item"),
                    line("PATCH", "/items/{id}", "patch_item", "Change the payload of an item"),
                    line("POST", "/items/{id}/retry", "retry_item", "Retry an item"),
                ],
            ),
            group(
                "job types",
                "Executors, limits, and retries",
                vec![
                    line("PUT", "/job-types/{name}", "put_job_type", "Create or replace a job type"),
                    line("POST", "/job-types/{name}/pause", "pause_job_type", "Pause a job type"),
                ],
            ),
        ],
    }
}

fn line(method: &str, path: &str, id: &str, summary: &str) -> Operation {
    Operation {
        id: id.to_owned(),
        method: method.to_owned(),
        path: format!("/api/v1{path}"),
        summary: summary.to_owned(),
        dangerous: method == "DELETE",
        ..Operation::default()
    }
}

fn field(path: &str, shape: &str, required: bool, description: &str) -> BodyField {
    BodyField {
        path: path.to_owned(),
        shape: shape.to_owned(),
        pattern: (path == "type").then(|| "^[a-z0-9][a-z0-9-]{0,99}$".to_owned()),
        required,
        description: description.to_owned(),
    }
}

fn json(shape: &str, fields: Vec<BodyField>, example: &str) -> Body {
    Body {
        media_type: "application/json".to_owned(),
        shape: shape.to_owned(),
        fields,
        example: (!example.is_empty()).then(|| Document::trusted(example.to_owned())),
    }
}

fn answers(status: &str) -> Vec<Answer> {
    let job = vec![
        field("id", "string (uuid)", true, ""),
        field("type", "string", true, "Name of the job type."),
        field("status", "waiting | running | cancelling | completed", true, ""),
        field("counts", "Counts", true, "Items of the job itself by state."),
        field("counts.succeeded", "integer", true, ""),
        field("version", "integer", true, "Grows with every change."),
    ];
    let refusal = |status: Code, words: &str| Answer {
        status: status.status().to_string(),
        description: words.to_owned(),
        bodies: Vec::new(),
    };
    let example =
        r#"{"id":"01a1fcd8-0c63-710f-95ad-a94ac199316b","type":"calculate-payroll","status":"waiting","version":1}"#;
    vec![
        Answer {
            status: status.to_owned(),
            description: "The job".to_owned(),
            bodies: vec![json("Job", job, example)],
        },
        refusal(Code::NotFound, "`not_found`: no such job, or not one of the caller's"),
        refusal(Code::InvalidBody, "`invalid_body`: what is wrong is listed in `errors`"),
    ]
}

fn create_job() -> Operation {
    let fields = vec![
        field("type", "string, 1 to 100 characters", true, "Name of the job type."),
        field("items", "array of NewItem, at most 10000 elements", false, "Items to start with."),
        field("items[].payload", "any", false, "Input of the item; checked against the schema of the type."),
        field(
            "items[].dedupe_key",
            "string or null",
            false,
            "While an item with this key is open, no second one is added.",
        ),
        field("name", "string or null, at most 255 characters", false, "Shown instead of the type."),
        field("priority", "integer, -100 to 100", false, "Items with a higher one go first."),
        field("seal", "boolean", false, "`true`: no items can be added later."),
    ];
    let example = r#"{"type":"calculate-payroll","name":"Payroll, March","items":[{"payload":{"employee":4711,"month":"2026-03"}}],"seal":true}"#;
    Operation {
        description:
            "Creates a job with its first items in one transaction. Repeated with the same `Idempotency-Key`, \
                      it answers with the job of the first time."
                .to_owned(),
        parameters: vec![Parameter {
            name: "Idempotency-Key".to_owned(),
            place: Place::Header,
            shape: "string, 1 to 255 characters".to_owned(),
            description: "Makes the request safe to repeat.".to_owned(),
            ..Parameter::default()
        }],
        bodies: vec![json("NewJob", fields, example)],
        responses: answers("201"),
        ..line("POST", "/jobs", "create_job", "Create a job")
    }
}

fn cancel_job() -> Operation {
    Operation {
        description:
            "Waiting items of the tree are canceled at once; workers of running ones are told with their next \
                      heartbeat. Repeating the call has no effect."
                .to_owned(),
        parameters: vec![Parameter {
            name: "id".to_owned(),
            place: Place::Path,
            shape: "string (uuid)".to_owned(),
            required: true,
            ..Parameter::default()
        }],
        bodies: vec![json(
            "ReasonBody",
            vec![field("reason", "string or null, at most 1000 characters", false, "Kept in the audit log.")],
            "{\"reason\":\"Started with the wrong file\"}",
        )],
        responses: answers("200"),
        dangerous: true,
        ..line("POST", "/jobs/{id}/cancel", "cancel_job", "Cancel a job")
    }
}

fn book() -> Page {
    let link =
        |title: &str, address: &str| ChapterLink { title: title.to_owned(), address: format!("/docs/{address}") };
    let chapter = |title: &str, links| Chapter { title: title.to_owned(), links };
    let contents = [
        chapter("", vec![link("Treeline", "introduction"), link("First steps", "first-steps")]),
        chapter(
            "Using it",
            vec![link("Jobs and items", "jobs"), link("Imports", "imports"), link("Workers", "workers")],
        ),
        chapter("Running it", vec![link("Settings", "settings"), link("Observability", "observability")]),
    ];
    let html = "<h1>Workers</h1><p>A worker claims items of a job type, works on them, and reports each result. It needs \
                a token with the permission <code>work</code>.</p><h2>Claim</h2><pre><code>treeline work send-check \
                --concurrency 8 -- ./send-check</code></pre><h2>Failures</h2><p>A failed \
                attempt is retried after the backoff of the type.</p>";
    documentation::page("Workers", html, &contents, "/docs/workers")
}
