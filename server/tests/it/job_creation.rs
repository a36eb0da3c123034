//! Creation of trees: the whole shape in one request, refusals with their places, unique ids and keys.

use futures::future::join_all;
use serde_json::{Value, json};

use crate::support::{Answer, Api, Server};

fn id(value: &Value) -> String {
    value["id"].as_str().expect("an id").to_owned()
}

async fn types(server: &Server, names: &[&str]) {
    for name in names {
        server.put(&format!("/api/v1/job-types/{name}"), json!({})).await.expect(201);
    }
}

/// Sends a creation that must be refused; returns its code and the places of the faults.
async fn refused(api: &Api, body: Value) -> (String, Vec<String>) {
    let answer = api.post("/api/v1/jobs", body).await;
    assert!(answer.status.is_client_error(), "{}", answer.text);
    let problem = answer.json();
    let pointers = problem["errors"].as_array().into_iter().flatten();
    let pointers = pointers.filter_map(|fault| fault["pointer"].as_str().map(str::to_owned)).collect();
    (problem["code"].as_str().expect("a code").to_owned(), pointers)
}

fn invalid(pointers: &[&str]) -> (String, Vec<String>) {
    ("invalid_body".to_owned(), pointers.iter().map(|&pointer| pointer.to_owned()).collect())
}

async fn jobs(api: &Api) -> usize {
    api.get("/api/v1/jobs?limit=1000").await.expect(200)["data"].as_array().expect("jobs").len()
}

#[tokio::test]
async fn tree_is_created_in_one_request() {
    let server = Server::start().await;
    types(&server, &["payroll", "check", "mail"]).await;
    let created = server
        .post(
            "/api/v1/jobs",
            json!({
                "type": "payroll", "name": "March", "priority": 7, "initiated_by": "u-17",
                "run_after": "2030-01-01T00:00:00Z", "expires_at": "2031-01-01T00:00:00Z",
                "metadata": {"team": "hr"}, "on_completed": {"url": "https://example.com/done"},
                "items": [{"payload": {"user": 1}}, {"payload": {"user": 2}}],
                "children": [
                    {"type": "check", "key": "checks", "final_stage": true, "expected_count": 5,
                     "run_after": "2029-01-01T00:00:00Z", "expires_at": "2030-06-01T00:00:00Z",
                     "items": [{"payload": "its own"}],
                     "feed": {"payload": {"amount": {"$from": "/result/amount"}}, "priority": 3}},
                    {"type": "check", "max_failures": 9, "run_after": "2030-02-01T00:00:00Z"},
                    {"type": "mail", "after": ["checks", "check"], "after_outcome": "any", "priority": -1, "sealed": true,
                     "children": [{"type": "mail"}]},
                ],
            }),
        )
        .await;
    let tree = created.expect(201);
    assert_eq!(created.headers["location"], format!("/api/v1/jobs/{}", id(&tree)));
    assert_eq!(tree, server.get(&format!("/api/v1/jobs/{}", id(&tree))).await.expect(200));
    assert_eq!(
        (&tree["key"], &tree["initiated_by"], &tree["priority"]),
        (&json!("payroll"), &json!("u-17"), &json!(7))
    );
    assert_eq!((&tree["item_count"], &tree["tree"]["item_count"]), (&json!(2), &json!(3)));

    let children = tree["children"].as_array().expect("children");
    let keys: Vec<&Value> = children.iter().map(|child| &child["key"]).collect();
    assert_eq!(keys, ["checks", "check", "mail"]);
    let fed = &children[0];
    assert_eq!(fed["feed"], json!({"payload": {"amount": {"$from": "/result/amount"}}, "priority": 3}));
    assert_eq!((&fed["final_stage"], &fed["expected_count"], &fed["sealed"]), (&json!(true), &json!(5), &json!(false)));
    // The later run_after and the earlier expires_at hold; a priority holds until another is named.
    assert_eq!(
        (&fed["run_after"], &fed["expires_at"]),
        (&json!("2030-01-01T00:00:00Z"), &json!("2030-06-01T00:00:00Z"))
    );
    assert_eq!(fed["priority"], 7);
    assert_eq!(children[1]["run_after"], "2030-02-01T00:00:00Z");
    assert_eq!((&children[1]["max_failures"], &children[0]["max_failures"]), (&json!(9), &json!(3)));
    let mail = &children[2];
    assert_eq!(
        (&mail["after"], &mail["priority"], &mail["sealed"]),
        (&json!(["checks", "check"]), &json!(-1), &json!(true))
    );
    assert_eq!((&mail["children"][0]["key"], &mail["children"][0]["priority"]), (&json!("mail-2"), &json!(-1)));
    assert_eq!(mail["children"][0]["parent_id"], mail["id"]);
    for child in children {
        assert_eq!((&child["root_id"], &child["parent_id"]), (&tree["id"], &tree["id"]));
    }
    server.stop().await;
}

#[tokio::test]
async fn invalid_tree_is_refused_with_a_pointer_to_each_error() {
    let server = Server::start().await;
    types(&server, &["a", "b"]).await;
    let with = |child: Value| json!({"type": "a", "children": [child, {"type": "b", "key": "other"}]});
    for (child, pointers) in [
        (json!({"type": "b", "after": ["nobody", "other", "other"]}), &["/children/0/after/0"][..]),
        (json!({"type": "b", "after_outcome": "never"}), &["/children/0/after_outcome"]),
        (json!({"type": "b", "feed": {"each": "rows"}}), &["/children/0/feed/each"]),
        (json!({"type": "b", "feed": {"payload": {"x": {"$from": "/a", "y": 1}}}}), &["/children/0/feed/payload/x"]),
        (json!({"type": "b", "feed": {}, "sealed": true}), &["/children/0/sealed"]),
        (json!({"type": "b", "key": "other"}), &["/children/1/key"]),
        (json!({"type": "b", "initiated_by": "u"}), &["/children/0/initiated_by"]),
        (json!({"type": "b", "on_completed": {"url": "https://example.com"}}), &["/children/0/on_completed"]),
        (json!({"type": "b", "dedupe_key": ""}), &["/children/0/dedupe_key"]),
        (json!({"type": "b", "items": [{"priority": 101}]}), &["/children/0/items/0/priority"]),
    ] {
        assert_eq!(refused(&server, with(child.clone())).await, invalid(pointers), "{child}");
    }
    assert_eq!(refused(&server, json!({"type": "a", "feed": {}})).await, invalid(&["/feed"]));
    assert_eq!(
        refused(&server, json!({"type": "a", "on_completed": {"url": "nowhere"}})).await,
        invalid(&["/on_completed/url"])
    );
    let unknown = ("unknown_job_type".to_owned(), vec!["/children/0/type".to_owned()]);
    assert_eq!(refused(&server, with(json!({"type": "c"}))).await, unknown);
    assert_eq!(jobs(&server).await, 0);
    server.stop().await;
}

#[tokio::test]
async fn dependency_cycle_is_refused() {
    let server = Server::start().await;
    types(&server, &["a"]).await;
    let cycle = |pointer: &str| ("cycle".to_owned(), vec![pointer.to_owned()]);
    let own = json!({"type": "a", "key": "r", "after": ["r"]});
    assert_eq!(refused(&server, own).await, cycle("/after"));
    let pair = json!({"type": "a", "children": [
        {"type": "a", "key": "x", "after": ["y"]}, {"type": "a", "key": "y", "after": ["x"]}]});
    assert_eq!(refused(&server, pair).await, cycle("/children/0/after"));
    // The child is sealed when its parent is complete, and the parent would wait for the child.
    let fed = json!({"type": "a", "key": "r", "after": ["x"], "children": [{"type": "a", "key": "x", "feed": {}}]});
    assert_eq!(refused(&server, fed).await, cycle("/after"));
    let not_fed = json!({"type": "a", "key": "r", "after": ["x"], "children": [{"type": "a", "key": "x"}]});
    server.post("/api/v1/jobs", not_fed).await.expect(201);
    server.stop().await;
}

#[tokio::test]
async fn callbacks_to_private_addresses_require_the_allow_list() {
    let server = Server::start_with(|config| config.callback_allow = "127.0.0.1".parse().expect("a list")).await;
    types(&server, &["a"]).await;
    let body = |url: &str| json!({"type": "a", "on_completed": {"url": url}});
    for private in
        ["http://10.0.0.1/", "http://169.254.169.254/latest", "http://[::1]/", "ftp://example.com/", "http://127.0.0.2"]
    {
        let expected = ("url_not_allowed".to_owned(), vec!["/on_completed/url".to_owned()]);
        assert_eq!(refused(&server, body(private)).await, expected, "{private}");
    }
    for open in ["https://example.com/done", "http://127.0.0.1:9/"] {
        server.post("/api/v1/jobs", body(open)).await.expect(201);
    }
    server.stop().await;
}

#[tokio::test]
async fn job_dedupe_key_is_unique_per_owner_and_type() {
    let server = Server::start().await;
    types(&server, &["a", "b"]).await;
    let body = |job_type: &str| json!({"type": job_type, "dedupe_key": "march", "items": [{}]});
    let first = server.post("/api/v1/jobs", body("a")).await.expect(201);
    assert_eq!(first["dedupe_key"], "march");
    let again = server.post("/api/v1/jobs", body("a")).await.expect_problem(409, "duplicate");
    assert_eq!((&again["id"], &again["errors"][0]["pointer"]), (&first["id"], &json!("/dedupe_key")));
    let below = json!({"type": "b", "children": [{"type": "a", "dedupe_key": "march"}]});
    let below = server.post("/api/v1/jobs", below).await.expect_problem(409, "duplicate");
    assert_eq!((&below["id"], &below["errors"][0]["pointer"]), (&first["id"], &json!("/children/0/dedupe_key")));
    let double = json!({"type": "b", "children": [{"type": "a", "dedupe_key": "x"}, {"type": "a", "dedupe_key": "x"}]});
    server.post("/api/v1/jobs", double).await.expect_problem(409, "duplicate");
    assert_eq!(jobs(&server).await, 1);

    server.post("/api/v1/jobs", body("b")).await.expect(201);
    let other = server.service("other", &["jobs:read", "jobs:write"]).await;
    other.post("/api/v1/jobs", body("a")).await.expect(201);

    // Many at once: one of each.
    let many = (0..40).map(|n| server.post("/api/v1/jobs", json!({"type": "a", "dedupe_key": format!("k-{}", n % 4)})));
    let created = join_all(many).await;
    assert_eq!(created.iter().filter(|answer| answer.status == 201).count(), 4);
    assert_eq!(created.iter().filter(|answer| answer.json()["code"] == "duplicate").count(), 36);
    server.stop().await;
}

#[tokio::test]
async fn client_chosen_job_id_is_idempotent() {
    let server = Server::start().await;
    types(&server, &["a"]).await;
    let path = "/api/v1/jobs/0190a5e0-0000-7000-8000-00000000000a";
    let body = json!({"type": "a", "items": [{"payload": 1}], "metadata": {"x": 1, "y": 2}});
    let first = server.put(path, body.clone()).await.expect(201);
    assert_eq!(first["id"], "0190a5e0-0000-7000-8000-00000000000a");
    // Equal JSON in another spelling, and with the id repeated.
    let spelled = r#"{ "metadata": {"y":2.0,"x":1}, "items":[{"payload":10e-1}], "type":"\u0061",
                       "id":"0190a5e0-0000-7000-8000-00000000000a" }"#;
    let again = server.request(reqwest::Method::PUT, path).header("content-type", "application/json").body(spelled);
    assert_eq!(Answer::of(again).await.expect(200)["id"], first["id"]);
    let posted = server.post_text("/api/v1/jobs", "application/json", spelled).await.expect(200);
    assert_eq!((&posted["id"], &posted["item_count"]), (&first["id"], &json!(1)));

    let other = json!({"type": "a", "items": [{"payload": 2}]});
    let problem = server.put(path, other.clone()).await.expect_problem(409, "id_in_use");
    assert_eq!(problem["id"], first["id"]);
    let elsewhere = json!({"type": "a", "id": "0190a5e0-0000-7000-8000-00000000000b"});
    assert_eq!(
        Answer::of(server.request(reqwest::Method::PUT, path).json(&elsewhere)).await.expect(422)["errors"][0]["pointer"],
        "/id"
    );
    let stranger = server.service("other", &["jobs:read", "jobs:write"]).await;
    stranger.put(path, body.clone()).await.expect_problem(409, "id_in_use");
    let child = json!({"type": "a", "children": [{"type": "a", "id": first["id"]}]});
    assert_eq!(refused(&server, child).await, ("id_in_use".to_owned(), vec!["/children/0/id".to_owned()]));
    assert_eq!(jobs(&server).await, 1);

    // Many at once make one.
    let path = "/api/v1/jobs/0190a5e0-0000-7000-8000-00000000000c";
    let created = join_all((0..16).map(|_| server.put(path, body.clone()))).await;
    assert_eq!(created.iter().filter(|answer| answer.status == 201).count(), 1);
    assert_eq!(created.iter().filter(|answer| answer.status == 200).count(), 15);
    server.stop().await;
}

#[tokio::test]
async fn concurrent_tree_creations_are_independent() {
    let server = Server::start().await;
    types(&server, &["a"]).await;
    server.put("/api/v1/job-types/strict", json!({"payload_schema": {"type": "integer"}})).await.expect(201);
    let bodies = (0..120).map(|n| match n % 3 {
        0 => json!({"type": "a", "sealed": true, "items": [{"payload": n}], "children": [{"type": "a", "items": [{"payload": n}]}]}),
        1 => json!({"type": "strict", "sealed": true, "items": [{"payload": n}, {"payload": "no number"}]}),
        _ => json!({"type": "a", "items": [], "sealed": true}),
    });
    let created = join_all(bodies.map(|body| server.post("/api/v1/jobs", body))).await;
    for (n, answer) in created.iter().enumerate() {
        match n % 3 {
            0 => assert_eq!(answer.expect(201)["tree"]["item_count"], 2),
            1 => assert_eq!(answer.expect_problem(422, "invalid_body")["errors"][0]["pointer"], "/items/1/payload"),
            _ => assert_eq!(answer.expect(201)["sealed"], true),
        }
    }
    assert_eq!(jobs(&server).await, 120);
    server.stop().await;
}

#[tokio::test]
async fn write_only_token_gets_the_created_tree() {
    let server = Server::start().await;
    types(&server, &["a"]).await;
    let writer = server.service("writer", &["jobs:write"]).await;
    let created = writer.post("/api/v1/jobs", json!({"type": "a"})).await.expect(201);
    writer.get(&format!("/api/v1/jobs/{}", id(&created))).await.expect_problem(403, "forbidden");
    server.stop().await;
}
