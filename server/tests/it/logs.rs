//! Logs of attempts: workers send lines, everyone who may read the item reads them, and its page shows them live
//! (`attempt-logs`).

use domain::limits::LARGEST_LOG;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    lists::{claim, id, job},
    live_topics::Watching,
    support::Server,
};

/// Sends lines to an assignment and returns the status and the body of the response.
async fn send(server: &Server, assignment: &str, lines: Value) -> (u16, Value) {
    let path = format!("/api/v1/assignments/{assignment}/logs");
    let response = server.request(Method::POST, &path).json(&json!({"lines": lines})).send().await.expect("a response");
    (response.status().as_u16(), response.json().await.expect("JSON"))
}

fn messages(page: &Value) -> Vec<&str> {
    page["data"].as_array().expect("data").iter().map(|line| line["message"].as_str().expect("text")).collect()
}

#[tokio::test]
async fn attempt_logs_are_ordered_and_live() {
    let server = Server::start().await;
    let backoff = json!({"min_seconds": 0, "max_seconds": 0, "jitter": false});
    server.put("/api/v1/job-types/a", json!({"max_failures": 3, "backoff": backoff})).await.expect(201);
    job(&server, json!({"type": "a", "items": [{"payload": 1}]})).await;
    let claimed = claim(&server, "w", &["a"], 1).await;
    let item = claimed[0]["item"]["id"].as_str().expect("an id").to_owned();
    let logs = format!("/api/v1/items/{item}/logs");
    assert_eq!(server.get(&logs).await.expect(200)["data"], json!([]));

    let topic = format!("item:{item}");
    let mut watching = Watching::open(&server, &topic).await;
    watching.until(&topic, |name, data| name == "snapshot" && data.get("log").is_none()).await;
    let at = "2026-11-20T14:00:41.02Z";
    // As text: a number that a test writes as a value would be rounded before it is sent.
    let first = format!(
        r#"{{"lines":[{{"at":"{at}","level":"debug","message":"one","fields":{{"big":12345678901234567890.5,"b":1}}}},
            {{"message":"two <b>"}}]}}"#
    );
    let path = format!("/api/v1/assignments/{}/logs", id(&claimed[0]));
    let added = server.post_text(&path, "application/json", first).await.expect(200);
    assert_eq!(added, json!({"added": 2, "last_line": 2, "dropped": 0}));
    let event = watching.until(&topic, |_, data| data.get("log").is_some()).await;
    assert_eq!((&event["log"]["attempt"], &event["log"]["lines"][1]["message"]), (&json!(1), &json!("two <b>")));
    let lines = server.get(&logs).await.expect(200)["data"].clone();
    assert_eq!(
        (&lines[0]["at"], &lines[0]["level"], &lines[1]["level"]),
        (&json!(at), &json!("debug"), &json!("info"))
    );
    assert_eq!((&lines[0]["line"], &lines[1]["line"], &lines[1]["fields"]), (&json!(1), &json!(2), &Value::Null));
    let text = server.get(&logs).await.text;
    assert!(text.contains(r#"{"big":12345678901234567890.5,"b":1}"#), "fields are returned as sent: {text}");

    // Another attempt has a log of its own; a closed assignment takes no more lines.
    let failure = json!({"error": {"message": "no"}});
    server.post(&format!("/api/v1/assignments/{}/failure", id(&claimed[0])), failure).await.expect(200);
    let (status, problem) = send(&server, id(&claimed[0]), json!([{"message": "late"}])).await;
    assert_eq!((status, &problem["code"]), (409, &json!("assignment_closed")));
    let again = loop {
        let again = claim(&server, "w", &["a"], 1).await;
        if !again.is_empty() {
            break again;
        }
    };
    let three = json!([{"message": "a"}, {"message": "b", "level": "error"}, {"message": "c"}]);
    send(&server, id(&again[0]), three).await;
    assert_eq!(messages(&server.get(&logs).await.expect(200)), ["a", "b", "c"]);
    assert_eq!(messages(&server.get(&format!("{logs}?attempt=1")).await.expect(200)), ["one", "two <b>"]);
    assert_eq!(messages(&server.get(&format!("{logs}?sort=-line")).await.expect(200)), ["c", "b", "a"]);
    let page = server.get(&format!("{logs}?limit=2")).await.expect(200);
    let next = page["next_cursor"].as_str().expect("more").to_owned();
    assert_eq!(messages(&page), ["a", "b"]);
    assert_eq!(messages(&server.get(&format!("{logs}?limit=2&cursor={next}")).await.expect(200)), ["c"]);

    // The page of the item shows the newest attempt, or the one in its address.
    let html = server.get(&format!("/items/{item}")).await.text;
    assert!(html.contains("Log of attempt 2") && !html.contains("two &lt;b"), "{html}");
    let html = server.get(&format!("/items/{item}?attempt=1")).await.text;
    assert!(html.contains("Log of attempt 1") && html.contains("two &lt;b"), "{html}");
}

#[tokio::test]
async fn attempt_log_keeps_newest_lines() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    job(&server, json!({"type": "a", "items": [{"payload": 1}]})).await;
    let claimed = claim(&server, "w", &["a"], 1).await;
    let item = claimed[0]["item"]["id"].as_str().expect("an id").to_owned();
    for (lines, pointer) in [
        (json!([]), "/lines"),
        (json!([{"message": "x", "fields": [1]}]), "/lines/0/fields"),
        (json!(vec![json!({"message": "x"}); 1_001]), "/lines"),
    ] {
        let (status, problem) = send(&server, id(&claimed[0]), lines).await;
        assert_eq!((status, &problem["errors"][0]["pointer"]), (422, &json!(pointer)), "{problem}");
    }
    let (status, _) = send(&server, id(&claimed[0]), json!([{"message": "x", "level": "loud"}])).await;
    assert_eq!(status, 422);

    // Requests of 40 lines of 15 kB each: more than an attempt keeps.
    let long = "x".repeat(15_000);
    let mut last = Value::Null;
    for n in 0..3 {
        let lines: Vec<Value> = (0..40).map(|k| json!({"message": format!("{n}-{k} {long}")})).collect();
        let (status, answer) = send(&server, id(&claimed[0]), json!(lines)).await;
        assert_eq!(status, 200, "{answer}");
        last = answer;
    }
    assert_eq!(last, json!({"added": 40, "last_line": 120, "dropped": 80}));
    let page = server.get(&format!("/api/v1/items/{item}/logs?limit=1000")).await.expect(200);
    let stored_lines = messages(&page);
    assert_eq!(page["data"][0]["line"], 81);
    assert!(stored_lines.len() == 40 && stored_lines[0].starts_with("2-0 "), "{} lines", stored_lines.len());
    let bytes: usize = stored_lines.iter().map(|message| message.len()).sum();
    assert!(bytes as i64 <= LARGEST_LOG);
    let html = server.get(&format!("/items/{item}")).await.text;
    assert!(html.contains("from line 81; the oldest 80 were dropped"), "{html}");

    // A message longer than a line may be is cut and says so.
    let (status, _) = send(&server, id(&claimed[0]), json!([{"message": "y".repeat(20_000)}])).await;
    assert_eq!(status, 200);
    let newest = server.get(&format!("/api/v1/items/{item}/logs?sort=-line&limit=1")).await.expect(200);
    assert!(messages(&newest)[0].ends_with("… [cut]"));
}
