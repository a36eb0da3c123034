//! The API reference: a page for each operation, and requests that its form sends with the reader's rights.

use serde_json::{Value, json};

use crate::support::{Answer, Api, Server};

/// A page without the marks of its views.
fn plain(page: Answer) -> Answer {
    Answer { text: page.text.replace("<!>", ""), ..page }
}

/// Page of an operation after its form was sent.
async fn send(caller: &Api, operation: &str, fields: &[(&str, &str)]) -> Answer {
    let page = caller.form(&format!("/api/docs/{operation}"), fields).await;
    assert_eq!(page.headers["content-type"], "text/html; charset=utf-8", "{}", page.text);
    plain(page)
}

/// Checks the status of the response that a page shows.
#[track_caller]
fn shows(page: &Answer, status: &str) {
    assert_eq!(page.status, 200, "{}", page.text);
    let (_, outcome) = page.text.split_once("id=\"outcome\"").unwrap_or_else(|| panic!("{}", page.text));
    assert!(outcome.contains(status), "{status}: {outcome}");
}

/// Value that confirms the request that a page asks about.
#[track_caller]
fn confirmation(page: &Answer) -> String {
    assert_eq!(page.status, 200, "{}", page.text);
    let (_, rest) = page.text.split_once("name=\"confirmed\" value=\"").unwrap_or_else(|| panic!("{}", page.text));
    rest.split_once('"').expect("its end").0.to_owned()
}

async fn audited(server: &Server, query: &str) -> Vec<Value> {
    let page = server.get(&format!("/api/v1/audit?limit=100&{query}")).await.expect(200);
    page["data"].as_array().expect("entries").clone()
}

#[tokio::test]
async fn every_operation_has_a_page() {
    let server = Server::start().await;
    let ada = server.person("Ada", "user").await;
    let list = plain(ada.get("/api/docs").await);
    assert_eq!(list.status, 200, "{}", list.text);
    let document = server.get("/api/v1/openapi.json").await.expect(200);
    let mut count = 0;
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("operations") {
            if operation["responses"].is_null() {
                continue;
            }
            let id = operation["operationId"].as_str().expect("an id");
            assert_eq!(list.text.matches(&format!("href=\"/api/docs/{id}\"")).count(), 1, "{id} in the list");
            let page = plain(ada.get(&format!("/api/docs/{id}")).await);
            assert_eq!(page.status, 200, "{id}: {}", page.text);
            assert!(page.text.contains(&format!("<code class=\"mono\">{path}</code>")), "{id} has no {path}");
            assert!(page.text.contains(&format!(">{}</span>", method.to_uppercase())), "{id} has no {method}");
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let name = parameter["name"].as_str().expect("a name");
                assert!(page.text.contains(&format!("<code class=\"mono\">{name}</code>")), "{id} has no {name}");
            }
            for status in operation["responses"].as_object().expect("responses").keys() {
                assert!(page.text.contains(status), "{id} has no {status}");
            }
            count += 1;
        }
    }
    assert_eq!(list.text.matches("class=\"api-row\"").count(), count);
    let body = plain(ada.get("/api/docs/create_job").await);
    for part in [
        "items[].payload",
        "string or null, 1 to 255 characters",
        "client.create_job(",
        "client.createJob(",
        "name=\"header.Idempotency-Key\"",
    ] {
        assert!(body.text.contains(part), "{part}: {}", body.text);
    }
    assert_eq!(ada.get("/api/docs/nothing").await.status, 404);
    assert_eq!(ada.form("/api/docs/nothing", &[]).await.status, 404);
    let stranger = server.stranger().get("/api/docs").await;
    let location = stranger.headers["location"].to_str().expect("text");
    assert_eq!((stranger.status.as_u16(), location), (303, "/sign-in?back=%2Fapi%2Fdocs"));
    server.stop().await;
}

#[tokio::test]
async fn list_of_operations_is_filtered_by_words() {
    let server = Server::start().await;
    let ada = server.person("Ada", "user").await;
    let found = plain(ada.get("/api/docs?q=POST+/Cancel").await);
    for id in ["cancel_job", "cancel_item", "cancel_bulk_operation"] {
        assert!(found.text.contains(&format!("href=\"/api/docs/{id}\"")), "{id}");
    }
    assert_eq!(found.text.matches("class=\"api-row\"").count(), 3, "{}", found.text);
    assert!(found.text.contains("value=\"POST /Cancel\""), "{}", found.text);
    let nothing = plain(ada.get("/api/docs?q=%3Cb%3Enothing").await);
    assert!(nothing.text.contains("No operation has these words.") && !nothing.text.contains("<b>nothing"));
    server.stop().await;
}

#[tokio::test]
async fn form_sends_requests_as_its_reader() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/orders", json!({})).await.expect(201);
    let (ada, bob) = (server.person("Ada", "user").await, server.person("Bob", "user").await);
    let read = send(&ada, "list_jobs", &[("query.limit", "2")]).await;
    shows(&read, "200 OK");
    assert!(read.text.contains("GET /api/v1/jobs?limit=2") && read.text.contains("ratelimit"), "{}", read.text);

    let body = r#"{"type": "orders", "sealed": true, "items": [{"payload": {"amount": 1.10}}]}"#;
    let made = send(&ada, "create_job", &[("body", body), ("header.Idempotency-Key", "one")]).await;
    shows(&made, "201 Created");
    shows(&send(&ada, "create_job", &[("body", body), ("header.Idempotency-Key", "one")]).await, "202 Accepted");
    let jobs = ada.get("/api/v1/jobs").await.expect(200);
    let [job] = jobs["data"].as_array().expect("jobs").as_slice() else { panic!("{jobs}") };
    let id = job["id"].as_str().expect("an id");
    assert_eq!(job["owner"]["name"], "Ada");
    assert!(made.text.contains(id), "{}", made.text);
    // The snippets repeat what was sent.
    assert!(made.text.contains("-H \"Idempotency-Key: one\""), "{}", made.text);
    // A refusal of the API is a response like any other, with the values that were typed.
    let refused = send(&ada, "create_job", &[("body", r#"{"type": "orders", "priority": 500}"#)]).await;
    shows(&refused, "422 Unprocessable");
    assert!(refused.text.contains("/priority") && refused.text.contains("\"priority\": 500"), "{}", refused.text);
    shows(&send(&bob, "get_job", &[("path.id", id)]).await, "404 Not Found");
    shows(&send(&bob, "list_users", &[]).await, "403 Forbidden");
    // The audit log has it like any other call.
    let sam = server.person("Sam", "support").await;
    shows(&send(&sam, "get_job", &[("path.id", id)]).await, "200 OK");
    let entries = audited(&server, &format!("action=job.read&job={id}")).await;
    assert_eq!((entries.len(), &entries[0]["actor"]["name"]), (1, &json!("Sam")));
    server.stop().await;
}

#[tokio::test]
async fn dangerous_requests_are_sent_after_a_confirmation() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/orders", json!({})).await.expect(201);
    let ada = server.person("Ada", "user").await;
    let sam = server.person("Sam", "support").await;
    let job = ada.post("/api/v1/jobs", json!({"type": "orders", "items": [{"payload": 1}]})).await.expect(201);
    let (id, path) =
        (job["id"].as_str().expect("an id"), format!("/api/v1/jobs/{}", job["id"].as_str().expect("an id")));
    let asked = send(&sam, "cancel_job", &[("path.id", id), ("body", r#"{"reason": "Twice"}"#)]).await;
    assert!(asked.text.contains(&format!("POST {path}/cancel")), "{}", asked.text);
    let token = confirmation(&asked);
    // A confirmation is for the request that was shown, not for another body.
    let other = [("path.id", id), ("body", r#"{"reason": "Other"}"#), ("confirmed", &token)];
    assert_ne!(confirmation(&send(&sam, "cancel_job", &other).await), token);
    assert_eq!(ada.get(&path).await.expect(200)["outcome"], Value::Null);
    let sent = [("path.id", id), ("body", r#"{"reason": "Twice"}"#), ("confirmed", &token)];
    shows(&send(&sam, "cancel_job", &sent).await, "200 OK");
    assert_eq!(ada.get(&path).await.expect(200)["outcome"], "cancelled");
    let entries = audited(&server, &format!("action=job.cancel&job={id}")).await;
    assert_eq!(
        (entries.len(), &entries[0]["reason"], &entries[0]["actor"]["name"]),
        (1, &json!("Twice"), &json!("Sam"))
    );

    let fields = [("path.id", id)];
    let token = confirmation(&send(&ada, "delete_job", &fields).await);
    shows(&send(&ada, "delete_job", &[("path.id", id), ("confirmed", &token)]).await, "204 No Content");
    ada.get(&path).await.expect(410);
    for operation in
        ["create_bulk_operation", "create_user", "put_job_type", "pause_job_type", "delete_token", "end_user_sessions"]
    {
        let page = sam
            .form(&format!("/api/docs/{operation}"), &[("path.id", id), ("path.name", "orders"), ("body", "{}")])
            .await;
        confirmation(&page);
    }
    server.stop().await;
}

#[tokio::test]
async fn form_refuses_what_is_no_request_and_what_others_send() {
    let server = Server::start().await;
    let ada = server.person("Ada", "user").await;
    let bad = send(&ada, "create_job", &[("body", "{\"type\": \"a\",\n }")]).await;
    assert_eq!(bad.status, 422);
    assert!(bad.text.contains("expected JSON; found ") && bad.text.contains("id=\"try-body-fault\""), "{}", bad.text);
    assert!(bad.text.contains("aria-invalid=\"true\""), "{}", bad.text);
    let bad = send(&ada, "get_job", &[("path.id", "..")]).await;
    assert_eq!(bad.status, 422);
    assert!(bad.text.contains("id=\"try-path-id-fault\""), "{}", bad.text);
    // The path stays that of the operation, and a header one header.
    shows(&send(&ada, "get_job", &[("path.id", "../me")]).await, "404 Not Found");
    assert_eq!(send(&ada, "create_job", &[("body", "{}"), ("header.Idempotency-Key", "a\r\nx: b")]).await.status, 422);
    let long = "a".repeat(70_000);
    let bad = send(&ada, "get_job", &[("path.id", &long)]).await;
    assert!(bad.status == 422 && bad.text.contains("expected at most 2,000 characters"), "{}", bad.status);
    let bad = send(&ada, "create_job", &[("body", &format!("\"{long}\""))]).await;
    assert_eq!(bad.status, 413);
    // A link fills fields, but does not decide what is sent.
    let page = plain(ada.get("/api/docs/add_items?path.id=chosen&body=%22planted%22").await);
    assert!(page.text.contains("chosen") && !page.text.contains("\"planted\""), "{}", page.text);
    // Operations that the form cannot send are refused.
    for operation in ["claim_items", "delete_session", "set_own_password", "watch_job", "create_upload"] {
        assert_eq!(send(&ada, operation, &[("path.id", "a")]).await.status, 404, "{operation}");
    }
    for (header, value) in [("sec-fetch-site", "cross-site"), ("origin", "https://evil.example")] {
        let foreign = server.stranger().request(reqwest::Method::POST, "/api/docs/list_jobs");
        let foreign = foreign.header("cookie", ada.cookie()).header(header, value);
        assert_eq!(Answer::of(foreign).await.status, 403, "{header}");
    }
    let stranger = server.stranger().form("/api/docs/list_jobs", &[]).await;
    assert_eq!(stranger.status, 303);
    server.stop().await;
}
