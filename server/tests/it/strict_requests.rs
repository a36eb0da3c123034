//! Strict requests: an array in place of an object is a 422 that names the place.
//!
//! Tested for every kind of body: whole ones, nested objects, items of a list, lines of a stream, and PATCH. Documents
//! of users are unrestricted: a payload may be an array.

use serde_json::{Value, json};

use crate::support::Server;

#[tokio::test]
async fn array_instead_of_object_is_refused() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({"steps": ["one"]})).await.expect(201);
    let person = server.person("ada", "user").await;
    let items = json!([{"payload": [1, [2]]}, {"payload": []}]);
    let job = server.post("/api/v1/jobs", json!({"type": "a", "items": items})).await.expect(201);
    let job = format!("/api/v1/jobs/{}", job["id"].as_str().expect("an id"));
    let claim = json!({"worker_id": "w", "types": ["a"]});
    let claimed = server.post("/api/v1/assignments", claim).await.expect(200)["assignments"][0].clone();
    assert_eq!(claimed["item"]["payload"], json!([1, [2]]), "a payload may be an array");
    let assignment_path = |verb: &str| format!("/api/v1/assignments/{}/{verb}", claimed["id"].as_str().expect("an id"));
    let item = format!("/api/v1/items/{}", claimed["item"]["id"].as_str().expect("an id"));
    let upload = "0190a5e0-0000-7000-8000-000000000000";
    let push = json!({"kind": "push", "url": "https://a.example/", "auth": ["user", "password"]});
    let cases: Vec<(&str, String, Value, &str)> = vec![
        ("POST", "/api/v1/jobs".into(), json!(["a"]), ""),
        ("POST", "/api/v1/jobs".into(), json!([]), ""),
        ("POST", "/api/v1/jobs".into(), json!({"type": "a", "items": [{"payload": 1}, [1]]}), "/items/1"),
        ("POST", "/api/v1/jobs".into(), json!({"type": "a", "children": [["a"]]}), "/children/0"),
        (
            "POST",
            "/api/v1/jobs".into(),
            json!({"type": "a", "children": [{"type": "a", "children": [{"type": "a"}, []]}]}),
            "/children/0/children/1",
        ),
        ("POST", "/api/v1/jobs".into(), json!({"type": "a", "on_completed": ["https://a.example/"]}), "/on_completed"),
        ("POST", "/api/v1/jobs".into(), json!({"type": "a", "upload": [upload, "csv"]}), "/upload"),
        ("POST", "/api/v1/jobs".into(), json!({"type": "a", "metadata": [1]}), "/metadata"),
        ("POST", format!("{job}/items"), json!([{"payload": 1}, [1]]), "/1"),
        ("POST", format!("{job}/items"), json!([[]]), "/0"),
        ("POST", format!("{job}/cancel"), json!([]), ""),
        ("PATCH", job.clone(), json!([]), ""),
        ("PATCH", job.clone(), json!({"on_completed": ["https://a.example/"]}), "/on_completed"),
        ("PATCH", item.clone(), json!([5]), ""),
        ("POST", format!("{item}/retry"), json!(["payload"]), ""),
        ("POST", "/api/v1/job-types".into(), json!(["b"]), ""),
        ("POST", "/api/v1/job-types".into(), json!({"name": "b", "executor": ["pull"]}), "/executor"),
        ("POST", "/api/v1/job-types".into(), json!({"name": "b", "executor": push}), "/executor/auth"),
        ("POST", "/api/v1/job-types".into(), json!({"name": "b", "backoff": [1, 2, 2, true]}), "/backoff"),
        ("PUT", "/api/v1/job-types/a".into(), json!([]), ""),
        ("POST", "/api/v1/job-types/a/pause".into(), json!([]), ""),
        ("POST", "/api/v1/job-types/a/resume".into(), json!([{}]), ""),
        ("PATCH", "/api/v1/job-types/a".into(), json!([]), ""),
        ("PATCH", "/api/v1/job-types/a".into(), json!({"backoff": [1, 2, 2, true]}), "/backoff"),
        ("PATCH", "/api/v1/job-types/a".into(), json!({"executor": ["pull"]}), "/executor"),
        ("POST", "/api/v1/assignments".into(), json!(["w", ["a"]]), ""),
        ("POST", assignment_path("heartbeat"), json!([]), ""),
        ("POST", assignment_path("heartbeat"), json!({"progress": [1, 2, "x"]}), "/progress"),
        ("POST", assignment_path("step"), json!(["one", 1]), ""),
        ("POST", assignment_path("result"), json!([1]), ""),
        ("POST", assignment_path("failure"), json!({"error": ["message"]}), "/error"),
        ("POST", assignment_path("release"), json!([5]), ""),
        ("POST", "/api/v1/assignments/finish".into(), json!({"endings": ["a"], "claim": null, "a": 1}), "/a"),
        ("POST", "/api/v1/assignments/finish".into(), json!({"endings": [], "claim": ["w"]}), "/claim"),
        ("POST", "/api/v1/assignments/finish".into(), json!([[7]]), ""),
        ("POST", "/api/v1/assignments/heartbeat".into(), json!([[], [7]]), ""),
        ("POST", "/api/v1/assignments/heartbeat".into(), json!({"heartbeats": {}}), "/heartbeats"),
        (
            "POST",
            "/api/v1/bulk-operations".into(),
            json!({"action": "retry", "target": "items", "filter": [], "dry_run": true}),
            "/filter",
        ),
        (
            "POST",
            "/api/v1/bulk-operations".into(),
            json!({"action": "retry", "target": "items", "filter": {"state": "dead"}, "dry_run": true,
                   "payload_edit": [["set", "/a", 1]]}),
            "/payload_edit/0",
        ),
        ("POST", "/api/v1/services".into(), json!(["s"]), ""),
        ("POST", "/api/v1/tokens".into(), json!(["s", "t", ["work"]]), ""),
        ("POST", "/api/v1/users".into(), json!(["x", "x@example.com"]), ""),
        ("POST", "/api/v1/session".into(), json!(["x@example.com", "password"]), ""),
        ("POST", "/api/v1/me/password".into(), json!(["old", "new"]), ""),
    ];
    for (method, path, body, pointer) in cases {
        let api = if path.starts_with("/api/v1/me/") { &person } else { &*server };
        let request = api.request(method.parse().expect("a method"), &path).json(&body);
        let answer = crate::support::Answer::of(request).await;
        assert_eq!(answer.status, 422, "{method} {path} {body}: {}", answer.text);
        let problem = answer.expect_problem(422, "invalid_body");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{method} {path} {body}: {problem}");
    }

    // Lines of a stream: the ones before are in.
    let items = format!("{job}/items");
    for (index, bad) in ["[1]", "[]", "[[{\"payload\":1}]]", "5", "\"text\"", "null"].into_iter().enumerate() {
        let lines = format!("{{\"payload\":[1]}}\n{bad}\n{{\"payload\":3}}\n");
        let answer = server.post_text(&items, "application/x-ndjson", lines).await;
        let problem = answer.expect_problem(422, "invalid_body");
        assert_eq!((&problem["line"], &problem["accepted"]), (&json!(2), &json!(1)), "{bad}: {problem}");
        let there = server.get(&job).await.expect(200)["item_count"].clone();
        assert_eq!(there, json!(2 + index + 1), "{bad}");
    }
    server.post(&assignment_path("result"), json!({"result": [1]})).await.expect(200);
    server.stop().await;
}

#[tokio::test]
async fn bearer_token_takes_precedence_over_cookie() {
    let server = Server::start().await;
    let ada = server.person("ada", "user").await;
    let both = |token: &str| {
        let request = server.stranger().request(reqwest::Method::POST, "/api/v1/job-types");
        request
            .bearer_auth(token)
            .header("cookie", ada.cookie())
            .header("sec-fetch-site", "cross-site")
            .header("origin", "https://elsewhere.example")
    };
    let created = both(crate::support::TOKEN).json(&json!({"name": "a"}));
    crate::support::Answer::of(created).await.expect(201);
    let answer = crate::support::Answer::of(both("trl_unknown").json(&json!({"name": "b"}))).await;
    answer.expect_problem(401, "unauthenticated");
    // The caller is the token's, not the cookie's.
    let me = server.request(reqwest::Method::GET, "/api/v1/me").header("cookie", ada.cookie());
    assert_eq!(crate::support::Answer::of(me).await.expect(200)["name"], "bootstrap");
    // With the cookie alone the check stands.
    let alone = server.with_cookie(ada.cookie()).cross_site().request(reqwest::Method::DELETE, "/api/v1/me/sessions");
    let answer = crate::support::Answer::of(alone.header("sec-fetch-site", "cross-site")).await;
    answer.expect_problem(403, "forbidden");
    server.stop().await;
}
