//! Jobs started by form: fields from the payload schema, faults at their fields, and one job however often it is sent.

use serde_json::{Value, json};

use crate::support::{Answer, Api, Server};

/// Redirect target of a successful form.
#[track_caller]
fn location(answer: &Answer) -> String {
    assert_eq!(answer.status, 303, "{}", answer.text);
    answer.headers["location"].to_str().expect("text").to_owned()
}

/// Id of the started job.
#[track_caller]
fn job_id(answer: &Answer) -> String {
    let location = location(answer);
    let id = location.strip_prefix("/jobs/").and_then(|rest| rest.strip_suffix("?did=job-started"));
    id.unwrap_or_else(|| panic!("{location}")).to_owned()
}

/// Idempotency-Key in a page.
pub(crate) fn key_in(page: &str) -> String {
    let (_, rest) = page.split_once("name=\"key\" value=\"").expect("a key");
    rest.split_once('"').expect("its end").0.to_owned()
}

async fn orders(server: &Server, executor: Value) {
    let schema = json!({
        "type": "object", "required": ["customer", "amount", "gift"], "additionalProperties": false,
        "properties": {
            "customer": {"type": "string", "title": "Customer <b>", "minLength": 2},
            "amount": {"type": "number", "minimum": 1}, "state": {"enum": ["open", "paid"]},
            "gift": {"type": "boolean"}, "due": {"type": "string", "format": "date"}, "lines": {"type": "array"},
        },
    });
    server
        .put("/api/v1/job-types/orders", json!({"executor": executor, "max_failures": 1, "payload_schema": schema}))
        .await
        .expect(201);
}

async fn payloads(caller: &Api, job: &str) -> Vec<Value> {
    let items = caller.get(&format!("/api/v1/items?job={job}&sort=created_at")).await.expect(200);
    items["data"].as_array().expect("items").iter().map(|item| item["payload"].clone()).collect()
}

#[tokio::test]
async fn job_is_started_with_typed_fields_once() {
    let server = Server::start().await;
    orders(&server, json!({"kind": "pull"})).await;
    let ada = server.person("Ada", "user").await;
    let page = ada.get("/jobs/new?type=orders").await;
    assert_eq!(page.status, 200, "{}", page.text);
    assert!(page.text.contains("Customer &lt;b&gt;") && !page.text.contains("Customer <b>"), "{}", page.text);
    for input in ["item.0.customer", "item.0.amount", "item.0.state", "item.0.gift", "item.0.due", "item.0.lines"] {
        assert!(page.text.contains(&format!("name=\"{input}\"")), "{input}: {}", page.text);
    }
    let key = key_in(&page.text);
    let fields = [
        ("type", "orders"),
        ("key", key.as_str()),
        ("items", "2"),
        ("item.0.customer", "Ben"),
        ("item.0.amount", "12.50"),
        ("item.0.state", "\"paid\""),
        ("item.0.gift", "yes"),
        ("item.0.due", "2026-12-31"),
        ("item.0.lines", "[1, {\"a\": 2}]"),
        ("item.1.customer", "Cleo"),
        ("item.1.amount", "3"),
        ("name", "Late orders"),
        ("priority", "7"),
    ];
    let (first, second) = tokio::join!(ada.form("/jobs", &fields), ada.form("/jobs", &fields));
    let id = job_id(&first);
    assert_eq!(job_id(&second), id);
    assert_eq!(job_id(&ada.form("/jobs", &fields).await), id);

    let job = ada.get(&format!("/api/v1/jobs/{id}")).await.expect(200);
    assert_eq!(
        (&job["name"], &job["priority"], &job["sealed"], &job["counts"]["available"]),
        (&json!("Late orders"), &json!(7), &json!(true), &json!(2))
    );
    assert_eq!(job["owner"]["name"], "Ada");
    let expected = [
        json!({"customer": "Ben", "amount": 12.50, "state": "paid", "gift": true, "due": "2026-12-31", "lines": [1, {"a": 2}]}),
        json!({"customer": "Cleo", "amount": 3, "gift": false}),
    ];
    assert_eq!(payloads(&ada, &id).await, expected);
    let jobs = ada.get("/api/v1/jobs").await.expect(200);
    assert_eq!(jobs["data"].as_array().map(Vec::len), Some(1));

    // Changed after the start, it is another job, with a key of its own.
    let mut changed = fields;
    changed[4].1 = "13";
    let refused = ada.form("/jobs", &changed).await;
    assert_eq!(refused.status, 422);
    assert!(refused.text.contains("This form has already started a job."), "{}", refused.text);
    let fresh = key_in(&refused.text);
    changed[1].1 = &fresh;
    assert_ne!(job_id(&ada.form("/jobs", &changed).await), id);
    server.stop().await;
}

#[tokio::test]
async fn refused_job_form_shows_faults_at_their_fields_and_keeps_what_was_typed() {
    let server = Server::start().await;
    let ada = server.person("Ada", "user").await;
    for executor in [json!({"kind": "pull"}), json!({"kind": "builtin", "name": "validate"})] {
        server.delete("/api/v1/job-types/orders").await;
        orders(&server, executor).await;
        let fields = [
            ("type", "orders"),
            ("key", "a-key"),
            ("items", "2"),
            ("item.0.customer", "Ben"),
            ("item.0.amount", "1"),
            ("item.1.customer", "\"><script>"),
            ("item.1.amount", "1,50"),
            ("item.1.state", "\"open\""),
            ("name", "Kept"),
        ];
        let refused = ada.form("/jobs", &fields).await;
        assert_eq!(refused.status, 422, "{}", refused.text);
        let page = &refused.text;
        assert!(page.contains("id=\"item-1-0-fault\"") && page.contains("expected a number"), "{page}");
        assert!(!page.contains("item-0-0-fault") && page.contains("value=\"1,50\"") && page.contains("value=\"Kept\""));
        assert!(page.contains("value=\"&quot;>&lt;script>\"") || page.contains("&quot;&gt;&lt;script&gt;"), "{page}");
        assert!(page.contains("value=\"a-key\""), "a refused form keeps its key: {page}");
        let mut broken = fields;
        broken[6] = ("item.1.lines", "[1,");
        let refused = ada.form("/jobs", &broken).await;
        assert_eq!(refused.status, 422);
        assert!(refused.text.contains("id=\"item-1-4-fault\"") && refused.text.contains("[1,</textarea>"));
        let options = [("type", "orders"), ("priority", "high"), ("run_after", "tomorrow"), ("item.0.amount", "1")];
        let refused = ada.form("/jobs", &options).await;
        assert!(refused.text.contains("priority-fault") && refused.text.contains("run_after-fault"));
        assert_eq!(ada.get("/api/v1/jobs").await.expect(200)["data"], json!([]));
    }
    assert_eq!(ada.form("/jobs", &[("type", "nothing")]).await.status, 404);
    assert_eq!(ada.get("/jobs/new?type=nothing").await.status, 404);
    server.stop().await;
}

#[tokio::test]
async fn job_form_changes_between_fields_and_json_without_losing_anything() {
    let server = Server::start().await;
    orders(&server, json!({"kind": "pull"})).await;
    server.put("/api/v1/job-types/free", json!({"executor": {"kind": "pull"}})).await.expect(201);
    let ada = server.person("Ada", "user").await;
    let send = |more: Vec<(&'static str, &'static str)>| {
        let ada = ada.clone();
        async move {
            let fields: Vec<_> = [("type", "orders"), ("key", "one")].into_iter().chain(more).collect();
            ada.form("/jobs", &fields).await
        }
    };
    let as_json = send(vec![("do", "json"), ("item.0.customer", "Ben"), ("item.0.amount", "1.10")]).await;
    assert_eq!(as_json.status, 200);
    assert!(as_json.text.contains("1.10") && as_json.text.contains("name=\"json\" value=\"yes\""), "{}", as_json.text);
    let typed = "{\"customer\": \"Ben\", \"amount\": 1.10, \"gift\": true}";
    let fields = send(vec![("do", "fields"), ("json", "yes"), ("item.0", typed)]).await;
    assert!(fields.text.contains("name=\"item.0.amount\" value=\"1.10\""), "{}", fields.text);
    let other = send(vec![("do", "fields"), ("json", "yes"), ("item.0", "{\"more\": 1}")]).await;
    assert_eq!(other.status, 422);
    assert!(other.text.contains("{\"more\": 1}</textarea>") && other.text.contains("there is no field for"));
    let added = send(vec![("do", "add"), ("item.0.customer", "Ben")]).await;
    assert!(added.text.contains("value=\"Ben\"") && added.text.contains("name=\"item.1.customer\""));
    let removed =
        send(vec![("do", "remove-0"), ("items", "2"), ("item.0.customer", "Ben"), ("item.1.customer", "Cleo")]).await;
    assert!(removed.text.contains("value=\"Cleo\"") && !removed.text.contains("value=\"Ben\""), "{}", removed.text);

    // A type without a schema takes any JSON, digit by digit.
    let page = ada.get("/jobs/new?type=free").await;
    assert!(page.text.contains("name=\"item.0\"") && !page.text.contains("Use fields"), "{}", page.text);
    let wrong = ada.form("/jobs", &[("type", "free"), ("item.0", "{\"n\": ")]).await;
    assert!(wrong.status == 422 && wrong.text.contains("id=\"item-0-fault\""), "{}", wrong.text);
    let exact = "{\"n\": 9007199254740993, \"x\": 1.10}";
    let id = job_id(&ada.form("/jobs", &[("type", "free"), ("item.0", exact)]).await);
    let items = ada.get(&format!("/api/v1/items?job={id}")).await;
    assert!(items.text.contains(exact), "{}", items.text);

    // The form belongs to a page of this site.
    let forged = ada.clone().cross_site().form("/jobs", &[("type", "free"), ("item.0", "{}")]).await;
    assert_eq!(forged.status, 403, "{}", forged.text);
    server.stop().await;
}
