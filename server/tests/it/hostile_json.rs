//! Hostile JSON at every endpoint that accepts JSON: huge, deep, broken, ambiguous, with numbers beyond all machine
//! types. No request causes a 5xx, all responses are fast and use little memory, and accepted documents are returned
//! byte for byte.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use reqwest::{Body, Method};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Answer, Api, Server, program::peak_kib};

/// Timeout of a response. Debug builds are slower, and other tests run concurrently.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(if cfg!(debug_assertions) { 60 } else { 1 });

const JSON: &str = "application/json";
const NDJSON: &str = "application/x-ndjson";

fn id(value: &Value) -> String {
    value["id"].as_str().expect("an id").to_owned()
}

/// Ids in a response, in order. Not parsed as JSON: its numbers exceed all machine types.
fn ids(answer: &Answer) -> Vec<String> {
    assert!(answer.status.is_success(), "{}", answer.text);
    answer.text.split("\"id\":\"").skip(1).map(|rest| rest[..36].to_owned()).collect()
}

/// Hostile but valid documents: they are returned unchanged.
fn valid_documents() -> Vec<String> {
    let huge = vec!["1e131071"; 1_000].join(",");
    let odd = [
        "9007199254740993",
        "-9007199254740993.0000000000000001",
        "1.10",
        "1e400",
        "-1E-400",
        "-0",
        "123456789012345678901234567890123456789012345678901234567890",
        r#"{"$serde_json::private::Number":"1"}"#,
        r#"{"$serde_json::private::RawValue":"{"}"#,
        r#"{"__proto__":{"a":1},"constructor":null,"":0}"#,
        r#"{ "b" :	[ 1.0 , 2.00 ] , "a":{"b":"\u0041\/\ud83d\ude00"} }"#,
        "\"\u{feff}\u{2028}\u{202e}\u{fffe}\"",
        r#""<script>alert(1)</script>' or 1=1; --""#,
    ];
    let mut all: Vec<String> = odd.map(str::to_owned).to_vec();
    all.push(format!("[{huge}]"));
    all.push(format!("{}1{}", "[".repeat(100), "]".repeat(100)));
    all.push(format!("{}1{}", "{\"a\":".repeat(100), "}".repeat(100)));
    all.push(format!("{{{}}}", (0..20_000).map(|n| format!("\"{n}\":1")).collect::<Vec<_>>().join(",")));
    all
}

/// Invalid documents as bytes, with the allowed statuses.
fn invalid_documents() -> Vec<(&'static str, Vec<u8>, &'static [u16])> {
    let repeat = |open: &str, close: &str| format!("{}1{}", open.repeat(100_000), close.repeat(100_000)).into_bytes();
    let keys: Vec<String> = (0..1_000_000).map(|n| format!("\"{n:x}\":1")).collect();
    vec![
        ("arrays in arrays", repeat("[", "]"), &[422]),
        ("objects in objects", repeat("{\"a\":", "}"), &[422]),
        ("what is never closed", "[".repeat(1_000_000).into_bytes(), &[400]),
        ("a million keys", format!("{{{}}}", keys.join(",")).into_bytes(), &[413, 422]),
        ("a key of a mebibyte", format!("{{\"{}\":1e}}", "k".repeat(1 << 20)).into_bytes(), &[400]),
        ("one key twice", br#"{"a":1,"b":2,"a":3}"#.to_vec(), &[422]),
        ("one key in two spellings", br#"{"a":1,"\u0061":3}"#.to_vec(), &[422]),
        ("NUL", br#""a\u0000b""#.to_vec(), &[422]),
        ("a bare NUL", b"\"a\0b\"".to_vec(), &[400]),
        ("a lone surrogate", br#"{"a":"\ud800"}"#.to_vec(), &[422]),
        ("surrogates in the wrong order", br#"["\udc00\ud800"]"#.to_vec(), &[422]),
        ("invalid UTF-8", b"\"\xff\xfe\"".to_vec(), &[400]),
        ("UTF-8 of a surrogate", b"\"\xed\xa0\x80\"".to_vec(), &[400]),
        ("a byte order mark", b"\xef\xbb\xbf1".to_vec(), &[400]),
        ("half a document", b"{\"a\":[1,".to_vec(), &[400]),
        ("a number that is none", b"01".to_vec(), &[400]),
        ("an exponent without digits", b"1e".to_vec(), &[400]),
        ("infinity", b"Infinity".to_vec(), &[400]),
        ("a comment", b"1 /* one */".to_vec(), &[400]),
        ("nothing", b"".to_vec(), &[400]),
    ]
}

/// Endpoint for a document: a request with a placeholder in its body.
struct Endpoint {
    name: &'static str,
    method: Method,
    path: String,
    media_type: &'static str,
    before: String,
    after: &'static str,
    /// True if it accepts any document; else only its own kind, and all of these are refused.
    accepts_any: bool,
    /// True if it has an Idempotency-Key, so that the body is also compared.
    is_keyed: bool,
}

impl Endpoint {
    fn new(
        name: &'static str,
        method: Method,
        path: impl Into<String>,
        hole: (impl Into<String>, &'static str),
    ) -> Self {
        let (path, before) = (path.into(), hole.0.into());
        Self { name, method, path, media_type: JSON, before, after: hole.1, accepts_any: true, is_keyed: false }
    }

    fn refusing_all(self) -> Self {
        Self { accepts_any: false, ..self }
    }

    fn keyed(self) -> Self {
        Self { is_keyed: true, ..self }
    }

    /// Sends a document. The response must be fast and not a 5xx.
    async fn send_document(&self, api: &Api, document: &[u8]) -> Answer {
        let body = [self.before.as_bytes(), document, self.after.as_bytes()].concat();
        let began = Instant::now();
        let mut request = api.request(self.method.clone(), &self.path).header("content-type", self.media_type);
        if self.is_keyed {
            request = request.header("idempotency-key", Uuid::now_v7().to_string());
        }
        let answer = Answer::of(request.body(body)).await;
        let excerpt = String::from_utf8_lossy(&document[..document.len().min(60)]);
        assert!(answer.status.as_u16() < 500, "{}, {excerpt}: {}", self.name, answer.text);
        assert!(began.elapsed() < RESPONSE_TIMEOUT, "{}, {excerpt}: {:?}", self.name, began.elapsed());
        answer
    }
}

/// A job with one assigned item, and the assignment.
struct ClaimedItem {
    job: String,
    item: String,
    assignment: String,
}

async fn claimed_item(api: &Api) -> ClaimedItem {
    let job = id(&api.post("/api/v1/jobs", json!({"type": "a", "items": [{}]})).await.expect(201));
    let item = id(&api.get(&format!("/api/v1/items?job={job}")).await.expect(200)["data"][0]);
    let claim = json!({"worker_id": "w", "item_ids": [item]});
    let assignment = id(&api.post("/api/v1/assignments", claim).await.expect(200)["assignments"][0]);
    ClaimedItem { job, item, assignment }
}

/// Creates a job with a dead item.
async fn dead(api: &Api) -> ClaimedItem {
    let claimed_item = claimed_item(api).await;
    let fatal = json!({"error": {"message": "no"}, "retryable": false});
    api.post(&format!("/api/v1/assignments/{}/failure", claimed_item.assignment), fatal).await.expect(200);
    claimed_item
}

async fn server() -> Server {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({"steps": ["s"]})).await.expect(201);
    server
}

/// All endpoints that accept a document of the caller, or a body that could contain one.
async fn endpoints(api: &Api) -> Vec<Endpoint> {
    let (open, claimed) = (dead(api).await, claimed_item(api).await);
    let assignment = |verb: &str| format!("/api/v1/assignments/{}/{verb}", claimed.assignment);
    let job = format!("/api/v1/jobs/{}", open.job);
    let item = |verb: &str| format!("/api/v1/items/{}{verb}", open.item);
    let bulk = format!(
        r#"{{"action":"retry","target":"items","dry_run":true,"filter":{{"job":"{}"}},"payload_edit":[{{"op":"set","path":"/a","value":"#,
        open.job
    );
    let finish = format!(r#"{{"endings":[{{"assignment_id":"{}","step":"#, claimed.assignment);
    let post = || Method::POST;
    vec![
        Endpoint::new("a job's payload", post(), "/api/v1/jobs", (r#"{"type":"a","items":[{"payload":"#, "}]}")),
        Endpoint::new("a job's metadata", post(), "/api/v1/jobs", (r#"{"type":"a","metadata":{"m":"#, "}}")).keyed(),
        Endpoint::new(
            "an item's metadata",
            post(),
            "/api/v1/jobs",
            (r#"{"type":"a","items":[{"metadata":{"m":"#, "}}]}"),
        ),
        Endpoint::new("a job", post(), "/api/v1/jobs", ("", "")).refusing_all(),
        Endpoint::new("a job's count", post(), "/api/v1/jobs", (r#"{"type":"a","expected_count":"#, "}"))
            .refusing_all(),
        Endpoint::new(
            "a feed",
            post(),
            "/api/v1/jobs",
            (r#"{"type":"a","children":[{"type":"a","key":"b","feed":{"payload":"#, "}}]}"),
        ),
        Endpoint::new("an array", post(), format!("{job}/items"), (r#"[{"payload":"#, "}]")).keyed(),
        Endpoint {
            media_type: NDJSON,
            ..Endpoint::new("a line", post(), format!("{job}/items"), (r#"{"payload":"#, "}"))
        },
        Endpoint::new("a step", post(), assignment("step"), (r#"{"name":"t","data":"#, "}")).refusing_all(),
        Endpoint::new("progress", post(), assignment("heartbeat"), (r#"{"progress":"#, "}")).refusing_all(),
        Endpoint::new("a message", post(), assignment("heartbeat"), (r#"{"progress":{"message":{"m":"#, "}}}"))
            .refusing_all(),
        Endpoint::new("a result", post(), assignment("result"), (r#"{"results":"#, "}")).refusing_all(),
        Endpoint::new("a failure", post(), assignment("failure"), (r#"{"error":{"message":{"m":"#, "}}}"))
            .refusing_all(),
        Endpoint::new("many endings", post(), "/api/v1/assignments/finish", (finish, "}]}")).refusing_all(),
        Endpoint::new("a claim", post(), "/api/v1/assignments", ("", "")).refusing_all(),
        Endpoint::new("a schema", post(), "/api/v1/job-types", (r#"{"name":"b","payload_schema":{"const":"#, "}}"))
            .refusing_all(),
        Endpoint::new("an edit", Method::PATCH, job, (r#"{"metadata":{"m":"#, "}}")),
        Endpoint::new("an item's edit", Method::PATCH, item(""), (r#"{"priority":"#, "}")).refusing_all(),
        Endpoint::new("a retry", post(), item("/retry"), (r#"{"restart":"#, "}")).refusing_all(),
        Endpoint::new("a replay", post(), item("/replay"), (r#"{"payload":"#, "}")),
        Endpoint::new("a bulk edit", post(), "/api/v1/bulk-operations", (bulk, "}]}")),
        Endpoint::new(
            "a bulk filter",
            post(),
            "/api/v1/bulk-operations",
            (r#"{"action":"cancel","target":"items","filter":{"q":{"q":"#, "}}}"),
        )
        .refusing_all(),
    ]
}

#[tokio::test]
async fn malformed_json_is_refused_at_every_endpoint() {
    let server = server().await;
    let endpoints = endpoints(&server).await;
    for (what, document, statuses) in invalid_documents() {
        for endpoint in &endpoints {
            let answer = endpoint.send_document(&server, &document).await;
            let status = answer.status.as_u16();
            if status == 200 && endpoint.name == "many endings" {
                assert_eq!(answer.json()["endings"][0]["status"], 422, "{what}: an ending is refused by itself");
                continue;
            }
            // A line of a stream is refused with its number, whatever is wrong with it.
            let as_line = endpoint.media_type == NDJSON && [413, 422].contains(&status);
            // Of something that is ours to say, not to keep, a job must have a type and so on.
            let own = !endpoint.accepts_any && [400, 413, 422].contains(&status);
            assert!(
                statuses.contains(&status) || as_line || own,
                "{what} as {}: {status} {}",
                endpoint.name,
                answer.text
            );
            assert_eq!(answer.headers["content-type"], "application/problem+json", "{what} as {}", endpoint.name);
            assert!(answer.text.len() < 20_000, "{what} as {}: {} bytes", endpoint.name, answer.text.len());
        }
    }
    // The numbers that are good where a document may stand are refused where one of ours has to.
    for document in valid_documents() {
        for endpoint in endpoints.iter().filter(|endpoint| !endpoint.accepts_any) {
            let answer = endpoint.send_document(&server, document.as_bytes()).await;
            let fits = answer.status.is_success() || answer.status.is_client_error();
            assert!(fits, "{document:.60} as {}: {}", endpoint.name, answer.text);
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn accepted_json_is_returned_byte_for_byte() {
    let server = server().await;
    let api: &Api = &server;
    let has = |answer: &Answer, field: &str, document: &str| {
        let wanted = format!("\"{field}\":{document}");
        assert!(answer.text.contains(&wanted), "{wanted:.100} in {:.2000}", answer.text);
    };
    for document in valid_documents() {
        let text = |before: &str, after: &str| format!("{before}{document}{after}");

        // A tree, with what was sent along.
        let body = text(r#"{"type":"a","metadata":{"m":"#, "},")
            + &text(r#""items":[{"payload":"#, ",")
            + &text(r#""metadata":{"m":"#, "}}]}");
        let created = api.post_text("/api/v1/jobs", JSON, body).await;
        let job = ids(&created).remove(0);
        has(&created, "metadata", &text("{\"m\":", "}"));
        let item = ids(&api.get(&format!("/api/v1/items?job={job}")).await).remove(0);
        let path = format!("/api/v1/items/{item}");
        let excerpt = api.get(&path).await;
        has(&excerpt, "payload", &document);
        has(&excerpt, "metadata", &text("{\"m\":", "}"));

        // Added, in both forms.
        let more = format!("/api/v1/jobs/{job}/items");
        api.post_text(&more, JSON, text(r#"[{"payload":"#, "}]")).await.expect(200);
        api.post_text(&more, NDJSON, text(r#"{"payload":"#, "}\n")).await.expect(200);
        for item in ids(&api.get(&format!("/api/v1/items?job={job}")).await) {
            has(&api.get(&format!("/api/v1/items/{item}")).await, "payload", &document);
        }

        // In a worker's hands and out of them: a step, a failure, a result.
        let claimed = api.post("/api/v1/assignments", json!({"worker_id": "w", "item_ids": [item]})).await;
        has(&claimed, "payload", &document);
        let assignment_path = format!("/api/v1/assignments/{}", ids(&claimed)[0]);
        let step = text(r#"{"name":"s","data":"#, "}");
        has(&api.post_text(&format!("{assignment_path}/step"), JSON, step.clone()).await, "data", &document);
        api.post_text(&format!("{assignment_path}/step"), JSON, step).await.expect(200);
        has(&api.get(&path).await, "data", &document);
        let failure = text(r#"{"retry_after_seconds":0,"error":{"message":"m","detail":"#, "}}");
        api.post_text(&format!("{assignment_path}/failure"), JSON, failure).await.expect(200);
        has(&api.get(&path).await, "detail", &document);
        api.post(&format!("{path}/retry"), json!({})).await;
        let body = json!({"worker_id": "w", "types": ["a"], "wait_seconds": 5, "max": 9});
        let again = loop {
            // Of each assignment, its own id and its item's.
            let claimed = ids(&api.post("/api/v1/assignments", body.clone()).await);
            if let Some([own, _]) = claimed.chunks(2).find(|pair| pair[1] == item) {
                break format!("/api/v1/assignments/{own}");
            }
        };
        api.post_text(&format!("{again}/result"), JSON, text(r#"{"result":"#, "}")).await.expect(200);
        has(&api.get(&path).await, "result", &document);
        has(&api.get(&format!("/api/v1/jobs/{job}/results")).await, "result", &document);

        // Edited: the job's metadata; a payload by hand, and by an operation over many.
        let patch = api.request(Method::PATCH, &format!("/api/v1/jobs/{job}")).header("content-type", JSON);
        let patched = Answer::of(patch.body(text(r#"{"metadata":{"n":"#, "}}"))).await;
        assert_eq!(patched.status, 200, "{}", patched.text);
        has(&patched, "metadata", &text("{\"n\":", "}"));
        let dead_item = dead(api).await;
        let path = format!("/api/v1/items/{}", dead_item.item);
        api.post_text(&format!("{path}/retry"), JSON, text(r#"{"payload":"#, "}")).await.expect(200);
        has(&api.get(&path).await, "payload", &document);
        let dead_item = dead(api).await;
        let bulk = format!(r#"{{"action":"retry","target":"items","filter":{{"job":"{}"}},"#, dead_item.job)
            + &text(r#""payload_edit":[{"op":"set","path":"","value":"#, "}]}");
        let operation = api.post_text("/api/v1/bulk-operations", JSON, bulk).await;
        has(&operation, "value", &document);
        let operation = format!("/api/v1/bulk-operations/{}", ids(&operation)[0]);
        while !api.get(&operation).await.text.contains("\"state\":\"completed\"") {
            crate::support::moment().await;
        }
        has(&api.get(&format!("/api/v1/items/{}", dead_item.item)).await, "payload", &document);

        // A schema of it, and what it is asked about.
        let put = api.request(Method::PUT, "/api/v1/job-types/t").header("content-type", JSON);
        let put = Answer::of(put.body(text(r#"{"payload_schema":{"title":"t","enum":["#, "]}}"))).await;
        if put.status.is_success() {
            has(&api.get("/api/v1/job-types/t").await, "enum", &text("[", "]"));
            let items = api.post_text("/api/v1/jobs", JSON, text(r#"{"type":"t","items":[{"payload":"#, "}]}")).await;
            assert!([201, 422].contains(&items.status.as_u16()), "{}", items.text);
        } else {
            put.expect_problem(422, "invalid_body");
        }
    }
    server.stop().await;
}

/// Body of the given number of mebibytes.
fn endless(before: &'static str, piece: &'static str, mib: usize) -> Body {
    let piece: bytes::Bytes = piece.repeat((1 << 20) / piece.len()).into();
    let pieces = std::iter::repeat_n(piece, mib);
    let all = std::iter::once(bytes::Bytes::from_static(before.as_bytes())).chain(pieces);
    Body::wrap_stream(futures::stream::iter(all).map(Ok::<_, std::io::Error>))
}

/// F31: the server grows by no more than 64 MiB for any input.
#[tokio::test]
async fn hostile_bodies_use_bounded_memory() {
    const MOST_KIB: u64 = 64 << 10;
    let server = server().await;
    // Another process, as this one runs other stories too.
    let own = server.spawn_program().await;
    let api = own.api.clone();
    let claimed_item = claimed_item(&api).await;
    let endpoints = endpoints(&api).await;
    // What it needs at all, before what is hostile: every road once.
    for endpoint in &endpoints {
        endpoint.send_document(&api, b"{}").await;
    }
    let before = peak_kib(own.process);
    let grown = |what: &str| {
        let grown = peak_kib(own.process) - before;
        assert!(grown <= MOST_KIB, "{what}: {} MiB more", grown >> 10);
    };

    let items = format!("/api/v1/jobs/{}/items", claimed_item.job);
    let streams = [
        ("a body of 1 GiB", "/api/v1/jobs", JSON, endless(r#"{"type":"a","metadata":{"m":""#, "a", 1_024), 413),
        ("a line of 1 GiB", &items, NDJSON, endless(r#"{"payload":""#, "a", 1_024), 413),
        ("brackets without end", "/api/v1/jobs", JSON, endless("", "[", 60), 413),
        ("a body just over the limit", "/api/v1/jobs", JSON, endless(r#"{"type":"a","metadata":{"m":""#, "a", 11), 413),
        ("blank lines", &items, NDJSON, endless("", "\n", 32), 200),
        ("ten million small numbers", "/api/v1/assignments", JSON, endless("[", "0,", 9), 400),
    ];
    for (what, path, media_type, body, status) in streams {
        let request = api.request(Method::POST, path).header("content-type", media_type).body(body);
        // Who is refused and goes on sending may meet a closed connection before the answer.
        match request.send().await {
            Ok(answer) => assert_eq!(answer.status(), status, "{what}"),
            Err(error) => assert!(what.ends_with("GiB"), "{what}: {error}"),
        }
        grown(what);
    }
    // As much as a body may hold, wherever a document may stand and in place of a body, and read back.
    let keys: Vec<String> = (0..1_000_000).map(|n| format!("\"{n:x}\":1")).collect();
    for (what, document) in [
        ("a long text", format!("\"{}\"", "x".repeat(10_000_000))),
        ("a long key", format!("{{\"{}\":0}}", "k".repeat(10_000_000))),
        ("a million keys", format!("{{{}}}", keys.join(","))),
        ("a long array", format!("[{}0]", "0,".repeat(4_900_000))),
        ("a deep array", format!("{}{}0{}", "[".repeat(120), "0,".repeat(4_900_000), "]".repeat(120))),
    ] {
        for endpoint in endpoints.iter().filter(|endpoint| endpoint.accepts_any || endpoint.name == "a job") {
            endpoint.send_document(&api, document.as_bytes()).await;
            grown(&format!("{what} as {}", endpoint.name));
        }
    }
    // A refusal names what is wrong without repeating all of it.
    let name = json!({"type": "n".repeat(10_000_000)});
    let refused = api.post("/api/v1/jobs", name).await;
    refused.expect_problem(422, "unknown_job_type");
    assert!(refused.text.len() < 20_000, "{} bytes", refused.text.len());
    grown("the name of a type");
    for path in ["/api/v1/jobs?limit=1000", "/api/v1/items?limit=1000", "/api/v1/job-types?limit=1000"] {
        api.get(path).await;
        grown(path);
    }
    server.stop().await;
}
