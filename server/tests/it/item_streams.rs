//! Items added as a stream of lines, and the limits of arrays: which line is refused, what is added before it, and what a
//! stream without items means (`sealing`, `cancellation`, `dedupe-key`).

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Answer, Api, Server, until};

const NDJSON: &str = "application/x-ndjson";

async fn start() -> Server {
    let server = Server::start().await;
    let integers = json!({"payload_schema": {"properties": {"n": {"type": "integer"}}}});
    server.put("/api/v1/job-types/a", integers).await.expect(201);
    server
}

/// Creates a job; returns its path.
async fn job(api: &Api) -> String {
    let job = api.post("/api/v1/jobs", json!({"type": "a"})).await.expect(201);
    format!("/api/v1/jobs/{}", job["id"].as_str().expect("an id"))
}

async fn count(api: &Api, job: &str) -> Value {
    api.get(job).await.expect(200)["item_count"].clone()
}

fn lines(n: usize) -> String {
    (0..n).map(|n| format!("{{\"payload\":{{\"n\":{n}}}}}\n")).collect()
}

#[tokio::test]
async fn refused_line_ends_a_stream_after_the_lines_before_it() {
    let server = start().await;
    let large = json!({"payload": {"text": "a".repeat(300_000)}}).to_string();
    let huge = json!({"payload": "a".repeat(2 << 20)}).to_string();
    let (invalid, duplicate, too_large) = ((422, "invalid_body"), (409, "duplicate"), (413, "too_large"));
    let cases = [
        ("no JSON", "{\"payload\":", invalid, Some("")),
        ("an unknown field", "{\"colour\":1}", invalid, Some("/colour")),
        ("a payload against the schema", "{\"payload\":{\"n\":\"text\"}}", invalid, Some("/payload/n")),
        ("a priority that is out of range", "{\"priority\":101}", invalid, Some("/priority")),
        ("a key that is taken", "{\"dedupe_key\":\"taken\"}", duplicate, Some("/dedupe_key")),
        ("a key of a line before", "{\"dedupe_key\":\"second\"}", duplicate, Some("/dedupe_key")),
        ("a payload over the limit", &large, too_large, Some("/payload")),
        ("a line over the limit", &huge, too_large, None),
    ];
    for (what, bad, (status, code), pointer) in cases {
        let job = job(&server).await;
        let items = format!("{job}/items");
        server.post(&items, json!([{"dedupe_key": "taken"}])).await.expect(200);
        // A blank line counts as a line.
        let stream = format!("{{}}\n\n{{\"dedupe_key\":\"second\"}}\n{bad}\n{{}}\n{{\"priority\":102}}\n");
        let problem = server.post_text(&items, NDJSON, stream).await.expect_problem(status, code);
        assert_eq!((&problem["line"], &problem["accepted"]), (&json!(4), &json!(2)), "{what}: {problem}");
        assert_eq!(count(&server, &job).await, 3, "{what}");
        let pointers: Vec<_> = problem["errors"].as_array().into_iter().flatten().map(|it| &it["pointer"]).collect();
        assert_eq!(pointers, pointer.as_slice(), "{what}: {problem}");
        assert!(pointer.is_none_or(|pointer| problem["detail"].as_str().expect("text").contains(pointer)), "{problem}");
    }
    // The same in a later batch.
    let job = job(&server).await;
    let stream = format!("{}{{\"payload\":{{\"n\":1.5}}}}\n{{}}\n", lines(2_700));
    let problem = server.post_text(&format!("{job}/items"), NDJSON, stream).await.expect_problem(422, "invalid_body");
    assert_eq!((&problem["line"], &problem["accepted"]), (&json!(2_701), &json!(2_700)), "{problem}");
    assert_eq!(count(&server, &job).await, 2_700);
    server.stop().await;
}

#[tokio::test]
async fn keyed_stream_continues_at_the_line_that_was_refused() {
    let server = start().await;
    let job = job(&server).await;
    let send = async |stream: String| {
        let request = server.request(Method::POST, &format!("{job}/items?seal=true"));
        Answer::of(request.header("content-type", NDJSON).header("idempotency-key", "k").body(stream)).await
    };
    let bad = format!("{}{{\"payload\":{{\"n\":\"text\"}}}}\n{}", lines(1_200), lines(3));
    for _ in 0..2 {
        let problem = send(bad.clone()).await.expect_problem(422, "invalid_body");
        assert_eq!((&problem["line"], &problem["accepted"]), (&json!(1_201), &json!(1_200)), "{problem}");
        assert_eq!(count(&server, &job).await, 1_200);
    }
    let added = send(format!("{}{}", lines(1_200), lines(3))).await.expect(200);
    assert_eq!((&added["accepted"], &added["sealed"]), (&json!(1_203), &json!(true)));
    assert_eq!(count(&server, &job).await, 1_203);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keyed_stream_ends_although_its_job_was_sealed_after_its_last_line() {
    let server = start().await;
    let job = job(&server).await;
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    let stream = reqwest::Body::wrap_stream(tokio_stream::wrappers::ReceiverStream::new(receiver));
    let send = |body: reqwest::Body| {
        let request = server.request(Method::POST, &format!("{job}/items"));
        Answer::of(request.header("content-type", NDJSON).header("idempotency-key", "k").body(body))
    };
    let seal_and_end = async {
        sender.send(Ok::<_, std::io::Error>(lines(1_000))).await.expect("the server reads");
        until(async || count(&server, &job).await == 1_000).await;
        server.post(&format!("{job}/seal"), json!({})).await.expect(200);
        drop(sender);
    };
    let (added, ()) = tokio::join!(send(stream), seal_and_end);
    assert_eq!(added.expect(200)["accepted"], 1_000);
    assert_eq!(send(lines(1_000).into()).await.expect(200)["accepted"], 1_000);
    server.stop().await;
}

#[tokio::test]
async fn request_without_items_is_answered_by_its_job() {
    let server = start().await;
    let (open, sealed, cancelled) = (job(&server).await, job(&server).await, job(&server).await);
    server.post(&format!("{sealed}/items"), json!([{}])).await.expect(200);
    server.post(&format!("{sealed}/seal"), json!({})).await.expect(200);
    server.post(&format!("{cancelled}/items"), json!([{}])).await.expect(200);
    server.post(&format!("{cancelled}/cancel"), json!({})).await.expect(200);
    let unknown = "/api/v1/jobs/0190a5e0-0000-7000-8000-000000000000";
    let stranger = server.service("stranger", &["jobs:read", "jobs:write"]).await;
    for (media_type, nothing) in [(NDJSON, ""), (NDJSON, "\n \n"), ("application/json", "[]")] {
        let add = |api: &Api, job: &str, query: &str| {
            let (api, path) = (api.clone(), format!("{job}/items{query}"));
            async move { api.post_text(&path, media_type, nothing).await }
        };
        let added = add(&server, &open, "").await.expect(200);
        assert_eq!(added, json!({"accepted": 0, "duplicates": 0, "merged": 0, "sealed": false}));
        let refused = add(&server, &sealed, "").await.expect_problem(409, "job_sealed");
        assert_eq!(refused["line"], Value::Null, "no line is to blame");
        add(&server, &cancelled, "").await.expect_problem(409, "job_cancelled");
        add(&server, &cancelled, "?seal=true").await.expect_problem(409, "job_cancelled");
        add(&server, unknown, "").await.expect_problem(404, "not_found");
        add(&stranger, &open, "").await.expect_problem(404, "not_found");
        // Sealing again is not adding.
        assert_eq!(add(&server, &sealed, "?seal=true").await.expect(200)["sealed"], true);
    }
    // A job that takes nothing more refuses the first line.
    let refused =
        server.post_text(&format!("{sealed}/items"), NDJSON, "\n{}\n{}\n").await.expect_problem(409, "job_sealed");
    assert_eq!((&refused["line"], &refused["accepted"]), (&json!(2), &json!(0)), "{refused}");
    server.stop().await;
}

#[tokio::test]
async fn too_many_items_in_a_json_body_are_too_large() {
    let server = start().await;
    let job = job(&server).await;
    let items = format!("{job}/items");
    for n in [10_001, 20_001] {
        let many = json!(vec![json!({}); n]);
        server.post(&items, many.clone()).await.expect_problem(413, "too_large");
        let tree = json!({"type": "a", "items": many});
        server.post("/api/v1/jobs", tree).await.expect_problem(413, "too_large");
    }
    assert_eq!(count(&server, &job).await, 0);
    server.post(&items, json!(vec![json!({}); 10_000])).await.expect(200);
    server.stop().await;
}

/// A tree names the item whose key is taken, as an array does.
#[tokio::test]
async fn duplicate_in_a_json_body_is_named_by_its_place() {
    let server = start().await;
    let double = json!([{}, {"dedupe_key": "d"}, {"dedupe_key": "d"}]);
    let job = job(&server).await;
    let problem = server.post(&format!("{job}/items"), double.clone()).await.expect_problem(409, "duplicate");
    assert_eq!(problem["errors"][0]["pointer"], "/2/dedupe_key", "{problem}");
    let tree = json!({"type": "a", "children": [{"type": "a", "items": double}]});
    let problem = server.post("/api/v1/jobs", tree).await.expect_problem(409, "duplicate");
    assert_eq!(problem["errors"][0]["pointer"], "/children/0/items/2/dedupe_key", "{problem}");
    server.stop().await;
}
