//! Authorization matrix: every operation, requested by every kind of caller (promise P20).
//!
//! The table is in `authorization/table.rs`. The test fails if an operation of the OpenAPI document has no line, if
//! docs/authorization.md differs from the table, or if a real server responds differently or leaks data.

mod callers; // kinds of callers
mod document; // docs/authorization.md
mod resources;
mod table; // what each gets // what they ask about

use std::path::Path;

use reqwest::header;
use serde_json::{Value, json};

use crate::support::{Answer, Api, Server};
use callers::{CallerKind, Callers};
use resources::Resources;
use table::{Access, Expectation, table};

/// Method and full path of a line.
fn parts<'a>(line: &'a Expectation, path: &'a str) -> (&'a str, String) {
    let (method, operation) = line.operation.split_once(' ').expect("a method and a path");
    let outside = operation.starts_with("/debug/") || ["/healthz", "/readyz", "/metrics"].contains(&operation);
    (method, if outside { path.to_owned() } else { format!("/api/v1{path}") })
}

fn request(api: &Api, line: &Expectation, path: &str, body: &str) -> reqwest::RequestBuilder {
    let (method, path) = parts(line, path);
    let request = api.request(method.parse().expect("a method"), &path);
    match &line.body {
        Value::Null => request,
        Value::String(text) => request.header("content-type", "text/csv").body(text.clone()),
        _ => request.header("content-type", "application/json").body(body.to_owned()),
    }
}

/// Path of a call whose objects do not exist.
fn path_to_nothing(call: &str) -> String {
    let call = call.replace("{group}", "a/0123").replace("{person-session}", "{person}/sessions/{session}");
    let parts = call.split_inclusive(['{', '}']);
    // A part ends where a placeholder begins, or is the rest of one.
    parts
        .map(|part| match part.strip_suffix('}') {
            Some(_) => "0190a5e0-0000-7000-8000-000000000000",
            None => part.strip_suffix('{').unwrap_or(part),
        })
        .collect()
}

/// Sends a request; reads only the start of a stream.
async fn send(request: reqwest::RequestBuilder) -> Answer {
    let mut response = request.send().await.expect("an answer");
    let (status, headers) = (response.status(), response.headers().clone());
    let is_stream = headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.to_str().is_ok_and(|kind| kind.starts_with("text/event-stream")));
    if is_stream {
        let first = response.chunk().await.expect("a part").unwrap_or_default();
        return Answer { status, headers, text: String::from_utf8_lossy(&first).into_owned() };
    }
    Answer { status, headers, text: response.text().await.expect("a whole answer") }
}

/// Mismatch of a response, if any.
fn access_mismatch(access: Access, answer: &Answer) -> Option<String> {
    let status = answer.status.as_u16();
    let is_expected = match access {
        Access::No(refused) => status == refused,
        // It does not matter if there was anything to do.
        Access::Yes => ![401, 403, 404].contains(&status) && status < 500,
        Access::OwnOnly => status == 200,
    };
    (!is_expected).then(|| format!("expected {access:?}, got {status} {:.300}", answer.text))
}

/// Text in a response about objects that belong to another owner.
fn leaked_data(
    resources: &Resources<'_>,
    caller_kind: CallerKind,
    request_text: &str,
    answer: &Answer,
) -> Option<String> {
    if !caller_kind.is_foreign() {
        return None;
    }
    // An id that was asked for may be named in a refusal.
    let refused = answer.status.is_client_error();
    let known_ids = resources.ids.iter().filter(|(name, _)| **name != "type");
    let named =
        known_ids.into_iter().find(|(_, id)| !(refused && request_text.contains(*id)) && answer.text.contains(*id));
    match named {
        Some((name, _)) => Some(format!("it tells {name}: {:.300}", answer.text)),
        // The secret that a person types into their own authenticator app is theirs.
        None if request_text.starts_with("/me/totp") => None,
        None => {
            // The name of a field says nothing.
            let text = answer.text.replace("has_webhook_secret", "");
            text.contains("secret").then(|| format!("it tells a secret: {text:.300}"))
        }
    }
}

#[tokio::test]
async fn every_operation_has_a_row_in_the_authorization_document() {
    let server = Server::start().await;
    let table = table();
    let document = server.get("/api/v1/openapi.json").await.expect(200);
    let undescribed = ["GET /metrics", "GET /debug/pprof/profile", "GET /debug/pprof/heap"];
    let mut documented: Vec<String> = undescribed.map(str::to_owned).to_vec();
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("operations") {
            if !operation["responses"].is_null() {
                let short = path.strip_prefix("/api/v1").unwrap_or(path);
                documented.push(format!("{} {short}", method.to_uppercase()));
            }
        }
    }
    let missing: Vec<String> = documented
        .iter()
        .filter(|operation| !table.iter().any(|line| line.operation == **operation))
        .map(|operation| {
            let path = operation.split_once(' ').expect("a path").1;
            format!("        line(\"{operation}\", \"{path}\", json!({{}}), WRITE),")
        })
        .collect();
    assert!(
        missing.is_empty(),
        "Operations without a line in server/tests/it/authorization/table.rs. Add, with the rule that fits \
         (and the names of things in the call, such as {{job}}):\n{}",
        missing.join("\n")
    );
    let stale: Vec<&str> =
        table.iter().map(|line| line.operation).filter(|it| !documented.iter().any(|o| o == it)).collect();
    assert!(stale.is_empty(), "lines of server/tests/it/authorization/table.rs whose operation is gone: {stale:?}");

    let page = document::page(&table);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/authorization.md");
    if std::env::var_os("TREELINE_WRITE_DOCS").is_some() {
        std::fs::write(&file, &page).expect("docs/authorization.md is written");
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        written == page,
        "docs/authorization.md is not what the table says. Write it anew: TREELINE_WRITE_DOCS=1 cargo test -p server \
         --test it authorization::every_operation_has_a_row"
    );
    server.stop().await;
}

/// A caller without the permission is refused before its query and body are read: neither can be right.
#[tokio::test]
async fn rights_are_checked_before_query_and_body() {
    let server = Server::start().await;
    let mut callers = Callers::of(&server).await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let tree = server.post("/api/v1/jobs", json!({"type": "a"})).await.expect(201);
    let shared = format!("/api/v1/jobs/{}/share", tree["id"].as_str().expect("an id"));
    let share = server.post(&shared, json!({})).await.expect(201);
    callers.share(&server, &share).await;
    let mut faults = Vec::new();
    for line in table() {
        let call = path_to_nothing(line.call);
        let path = format!("{call}{}colour=red", if call.contains('?') { '&' } else { '?' });
        for caller_kind in CallerKind::ALL {
            let Access::No(refused @ (401 | 403)) = line.rule[caller_kind as usize] else { continue };
            // Refused for the owner of the object, or for the job types in the body, which are known only later.
            let is_allowed = |other: CallerKind| line.rule[other as usize] == Access::Yes;
            match caller_kind {
                CallerKind::Support if is_allowed(CallerKind::User) => continue,
                CallerKind::Narrowed if is_allowed(CallerKind::Work) => continue,
                _ => {}
            }
            let (method, path) = parts(&line, &path);
            let request = callers.get(caller_kind).request(method.parse().expect("a method"), &path);
            let request = request.header("content-type", "application/json").body("{no JSON");
            let answer = send(request).await;
            if answer.status != refused {
                faults.push(format!(
                    "{}: {}: {} {:.300}",
                    line.operation,
                    caller_kind.title(),
                    answer.status,
                    answer.text
                ));
            }
        }
    }
    assert!(faults.is_empty(), "{} callers are not refused first:\n{}", faults.len(), faults.join("\n"));
    server.stop().await;
}

#[tokio::test]
async fn every_caller_gets_the_response_of_the_authorization_table() {
    let server = Server::start().await;
    server
        .put(
            "/api/v1/job-types/a",
            json!({"max_failures": 1, "steps": ["one"], "import": {"aliases": {"number": ["Nr."]}}}),
        )
        .await
        .expect(201);
    for name in ["idle", "other"] {
        server.put(&format!("/api/v1/job-types/{name}"), json!({})).await.expect(201);
    }
    let mut callers = Callers::of(&server).await;
    let worker = server.service("worker", &["work"]).await;
    let writer = server.service("payroll", &["jobs:read", "jobs:write"]).await;
    let mut user_resources = Resources::of(&server, callers.get(CallerKind::User).clone(), worker.clone());
    let mut service_resources = Resources::of(&server, writer, worker);
    let shared = user_resources.fill("/api/v1/jobs/{shared}/share", None).await;
    let share = callers.get(CallerKind::User).post(&shared, json!({})).await.expect(201);
    callers.share(&server, &share).await;

    let mut faults = Vec::new();
    for (n, line) in table().iter().enumerate() {
        let is_safe = ["GET ", "OPTIONS "].iter().any(|method| line.operation.starts_with(method));
        let body = line.body.to_string();
        // Those who are refused come first: what a call changes is not theirs to ask about any more.
        let mut order = CallerKind::ALL;
        order.sort_by_key(|caller_kind| !matches!(line.rule[*caller_kind as usize], Access::No(_)));
        for caller_kind in order {
            let access = line.rule[caller_kind as usize];
            let resources = if caller_kind.is_of_service() { &mut service_resources } else { &mut user_resources };
            let caller = if line.fresh {
                callers.fresh(&server, caller_kind, n * CallerKind::ALL.len() + caller_kind as usize).await
            } else {
                callers.get(caller_kind).clone()
            };
            let holder = (access == Access::Yes && caller_kind == CallerKind::Work).then_some(&caller);
            if holder.is_some() {
                resources.forget("{assignment}");
            }
            let (path, filled) = (resources.fill(line.call, holder).await, resources.fill(&body, holder).await);
            let answer = send(request(&caller, line, &path, &filled)).await;
            let mismatch = access_mismatch(access, &answer)
                .or_else(|| leaked_data(resources, caller_kind, &format!("{path}{filled}"), &answer));
            if let Some(mismatch) = mismatch {
                faults.push(format!("{}: {} ({path}): {mismatch}", line.operation, caller_kind.title()));
            }
            if !is_safe && !matches!(access, Access::No(_)) {
                resources.forget(&format!("{}{body}", line.call));
            }
        }
        if !is_safe {
            // The same, sent by the page of another site with the cookie of a signed-in person.
            let forged = server.with_cookie(callers.get(CallerKind::User).cookie()).cross_site();
            let path = user_resources.fill(line.call, None).await;
            let forged = request(&forged, line, &path, &body).header("sec-fetch-site", "cross-site");
            let answer = send(forged).await;
            if answer.status != 403 {
                faults.push(format!("{}: forged: got {} {:.300}", line.operation, answer.status, answer.text));
            }
        }
    }
    assert!(faults.is_empty(), "{} cells are not as the table says:\n{}", faults.len(), faults.join("\n"));
    server.stop().await;
}
