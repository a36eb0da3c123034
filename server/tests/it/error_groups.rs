//! Error groups as issues: muted until a time or a number of failures, resolved until they happen again.

use serde_json::{Value, json};
use time::{Duration, OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{
    bulk::{claim, id, kill},
    live_topics::Watching,
    support::{Answer, Api, Server, until},
};

const GROUPS: &str = "/api/v1/dead-letters/groups";

/// A service with a job type that accepts any payload.
async fn shop(server: &Server) -> Api {
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    server.service("shop", &["jobs:read", "jobs:write", "work"]).await
}

/// A job with `n` items that are dead for the same reason; returns its id.
async fn dead(api: &Api, n: u32) -> String {
    let items: Vec<Value> = (0..n).map(|at| json!({"payload": at})).collect();
    let job = id(&api.post("/api/v1/jobs", json!({"type": "a", "sealed": true, "items": items})).await.expect(201));
    for assignment in claim(api, "a", n, 0).await {
        kill(api, &assignment).await;
    }
    job
}

/// The only group in these states, if there is one.
async fn only(api: &Api, query: &str) -> Option<Value> {
    let groups = api.get(&format!("{GROUPS}?{query}")).await.expect(200);
    let data = groups["data"].as_array().expect("groups").clone();
    assert!(data.len() < 2, "{groups}");
    data.into_iter().next()
}

/// Path of the only group.
async fn path(api: &Api) -> String {
    let group = only(api, "").await.expect("a group");
    format!("{GROUPS}/a/{}", group["fingerprint"].as_str().expect("text"))
}

/// Changes in the history of a group, newest first: state, and by whom.
fn changes(detail: &Value) -> Vec<(&str, Option<&str>)> {
    let history = detail["history"].as_array().expect("a history");
    history.iter().map(|change| (change["state"].as_str().expect("a state"), change["by"].as_str())).collect()
}

fn after(seconds: i64) -> String {
    (OffsetDateTime::now_utc() + Duration::seconds(seconds)).format(&Rfc3339).expect("a time")
}

#[tokio::test]
async fn resolved_group_comes_back_when_it_fails_again() {
    let server = Server::start().await;
    let shop = shop(&server).await;
    let grace = server.person("Grace", "support").await;
    let job = dead(&shop, 2).await;
    let path = path(&grace).await;
    assert_eq!(only(&shop, "").await.expect("a group")["state"], "open", "the owner sees the state");
    shop.patch(&path, json!({"state": "muted"})).await.expect_problem(403, "forbidden");

    let mut watching = Watching::open(&grace, "failures").await;
    grace.patch(&path, json!({"state": "resolved", "note": " "})).await.expect_problem(422, "invalid_body");
    let group = grace.patch(&path, json!({"state": "resolved", "note": "Fixed in 2.4.1"})).await.expect(200);
    assert_eq!((&group["state"], &group["count"]), (&json!("resolved"), &json!(2)));
    watching.until("failures", |_, data| data["groups"][0]["state"] == "resolved").await;
    assert_eq!(only(&grace, "state=open,regressed").await, None);

    // What was resolved is still there after its items were retried.
    let items = shop.get(&format!("/api/v1/dead-letters?job={job}")).await.expect(200);
    for item in items["data"].as_array().expect("items") {
        shop.post(&format!("/api/v1/items/{}/retry", id(item)), json!({})).await.expect(200);
    }
    assert_eq!(only(&grace, "").await, None);
    assert_eq!(only(&grace, "state=resolved").await.expect("a group")["count"], 0);
    assert_eq!(grace.get(&path).await.expect(200)["jobs"], json!([]));

    for assignment in claim(&shop, "a", 2, 0).await {
        kill(&shop, &assignment).await;
    }
    watching.until("failures", |_, data| data["groups"][0]["state"] == "regressed").await;
    assert_eq!(only(&grace, "state=regressed").await.expect("a group")["count"], 2);
    let detail = grace.get(&path).await.expect(200);
    assert_eq!(changes(&detail), [("regressed", None), ("resolved", Some("Grace"))], "it comes back once");
    assert_eq!(detail["history"][1]["note"], "Fixed in 2.4.1");

    grace.patch(&path, json!({"state": "open"})).await.expect(200);
    let audit = server.get("/api/v1/audit?action=error_group.resolve").await.expect(200);
    assert_eq!(audit["data"][0]["reason"], "Fixed in 2.4.1");
    assert!(audit["data"][0]["detail"].as_str().is_some_and(|detail| detail.contains("no account")), "{audit}");
    assert_eq!(
        server.get("/api/v1/audit?action=error_group.reopen").await.expect(200)["data"][0]["actor"]["name"],
        "Grace"
    );
    server.stop().await;
}

#[tokio::test]
async fn muted_group_opens_after_its_number_of_failures() {
    let server = Server::start().await;
    let shop = shop(&server).await;
    dead(&shop, 1).await;
    let path = path(&server).await;
    server.patch(&path, json!({"state": "muted", "failures": 0})).await.expect_problem(422, "invalid_body");
    let muted = json!({"state": "muted", "failures": 25, "until": after(3_600)});
    assert_eq!(server.patch(&path, muted).await.expect(200)["muted_failures"], 25);

    dead(&shop, 4).await;
    let group = only(&server, "state=muted").await.expect("still muted");
    assert_eq!(group["muted_failures"], 21, "{group}");
    assert!(group["muted_until"].is_string(), "{group}");

    // Failures at the same time count exactly, and open it once.
    let items: Vec<Value> = (0..30).map(|at| json!({"payload": at})).collect();
    shop.post("/api/v1/jobs", json!({"type": "a", "sealed": true, "items": items})).await.expect(201);
    let assignments = claim(&shop, "a", 30, 0).await;
    assert_eq!(assignments.len(), 30);
    futures::future::join_all(assignments.iter().map(|assignment| kill(&shop, assignment))).await;
    let group = only(&server, "state=open").await.expect("open again");
    assert_eq!(
        (&group["muted_failures"], &group["muted_until"], &group["count"]),
        (&json!(null), &json!(null), &json!(35))
    );
    let detail = server.get(&path).await.expect(200);
    assert_eq!(changes(&detail).iter().map(|change| change.0).collect::<Vec<_>>(), ["open", "muted"]);
    server.stop().await;
}

#[tokio::test]
async fn muted_group_opens_at_its_time_on_every_server() {
    let server = Server::start().await;
    let other = server.another().await;
    let shop = shop(&server).await;
    dead(&shop, 1).await;
    let path = path(&server).await;
    server.patch(&path, json!({"state": "muted", "until": after(-1)})).await.expect_problem(422, "invalid_body");
    server.patch(&path, json!({"state": "open", "until": after(60)})).await.expect_problem(422, "invalid_body");
    let mut watching = Watching::open(&server, "failures").await;
    server.patch(&path, json!({"state": "muted", "until": after(2)})).await.expect(200);
    watching.until("failures", |_, data| data["groups"][0]["state"] == "muted").await;
    assert!(only(&other, "state=muted").await.is_some());
    let opened = watching.until("failures", |_, data| data["groups"][0]["state"] == "open").await;
    assert_eq!(opened["groups"][0]["muted_until"], json!(null));
    until(async || changes(&other.get(&path).await.expect(200))[0] == ("open", None)).await;
    assert_eq!(
        other.get(&path).await.expect(200)["history"].as_array().map(Vec::len),
        Some(2),
        "once, not by each server"
    );
    other.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn group_shows_what_it_affects() {
    let server = Server::start().await;
    let shop = shop(&server).await;
    let bakery = server.service("bakery", &["jobs:read", "jobs:write", "work"]).await;
    let (first, second) = (dead(&shop, 3).await, dead(&bakery, 1).await);
    let path = path(&server).await;
    let detail = server.get(&path).await.expect(200);
    let sum = |of: &str| detail[of].as_array().expect("points").iter().filter_map(Value::as_i64).sum::<i64>();
    assert_eq!((sum("minutes"), sum("hours"), &detail["group"]["count"]), (4, 4, &json!(4)));
    assert_eq!(detail["minutes"].as_array().map(Vec::len), Some(60));
    assert_eq!(detail["hours"].as_array().map(Vec::len), Some(168));
    let jobs: Vec<_> = detail["jobs"]
        .as_array()
        .expect("jobs")
        .iter()
        .map(|job| (id(&json!({"id": job["job_id"]})), job["count"].clone()))
        .collect();
    assert_eq!(jobs, [(second, json!(1)), (first, json!(3))], "newest first");
    let owners: Vec<_> =
        detail["owners"].as_array().expect("owners").iter().map(|it| (&it["owner"]["name"], &it["count"])).collect();
    assert_eq!(owners, [(&json!("shop"), &json!(3)), (&json!("bakery"), &json!(1))], "largest first");
    assert_eq!(detail["owner_count"], 2);
    assert_eq!(only(&shop, "").await.expect("a group")["count"], 3, "owners see their own");

    server.get(&format!("{GROUPS}/a/unknown")).await.expect_problem(404, "not_found");
    server
        .get(&format!("{GROUPS}/unknown/{}", path.rsplit('/').next().expect("a part")))
        .await
        .expect_problem(404, "not_found");
    server.get(&format!("{GROUPS}?state=closed")).await.expect_problem(400, "invalid_parameter");

    let engine = &server.running.app.engine;
    assert_eq!(engine.delete_old_error_history().await.expect("deletes"), 0);
    let pool = &server.running.app.pool;
    let rows = sqlx::query("update error_history set starts_at = starts_at - interval '9 days'").execute(pool).await;
    let rows = rows.expect("older").rows_affected();
    assert!(rows >= 2, "a minute and an hour");
    assert_eq!(engine.delete_old_error_history().await.expect("deletes"), rows);
    server.stop().await;
}

#[tokio::test]
async fn muted_group_raises_no_alert() {
    let server = Server::start().await;
    let shop = shop(&server).await;
    dead(&shop, 1).await;
    let open = async || {
        server.get("/api/v1/alerts?kind=dead_letters").await.expect(200)["data"].as_array().map_or(0, Vec::len)
    };
    until(async || open().await == 1).await;
    let path = path(&server).await;
    server.patch(&path, json!({"state": "muted"})).await.expect(200);
    until(async || open().await == 0).await;
    dead(&shop, 1).await;
    server.patch(&path, json!({"state": "open"})).await.expect(200);
    until(async || open().await == 1).await;
    let all = server.get("/api/v1/alerts?kind=dead_letters&all=true").await.expect(200);
    assert_eq!(all["data"].as_array().map(Vec::len), Some(2), "none while it was muted: {all}");
    server.stop().await;
}

#[track_caller]
fn location(answer: &Answer) -> String {
    assert_eq!(answer.status, 303, "{}", answer.text);
    answer.headers["location"].to_str().expect("text").to_owned()
}

#[tokio::test]
async fn page_lists_groups_in_the_chosen_order() {
    let server = Server::start().await;
    let shop = shop(&server).await;
    for (name, n) in [("b", 1), ("c", 2), ("d", 1), ("b", 1)] {
        server.put(&format!("/api/v1/job-types/{name}"), json!({})).await;
        let items: Vec<Value> = (0..n).map(|at| json!({"payload": at})).collect();
        shop.post("/api/v1/jobs", json!({"type": name, "sealed": true, "items": items})).await.expect(201);
        for assignment in claim(&shop, name, n, 0).await {
            kill(&shop, &assignment).await;
        }
    }
    let grace = server.person("Grace", "support").await;
    for (query, expected) in [
        ("", ["b", "d", "c"]),
        ("?order=items", ["b", "c", "d"]),
        ("?order=first-seen", ["d", "c", "b"]),
        ("?order=size", ["b", "d", "c"]),
    ] {
        let page = grace.get(&format!("/dead{query}")).await.text;
        let groups: Vec<&str> = page.split("data-group=\"").skip(1).map(|rest| &rest[..1]).collect();
        assert_eq!(groups, expected, "{query}: {page}");
    }
    server.stop().await;
}

#[tokio::test]
async fn states_change_by_forms_without_scripts() {
    let server = Server::start().await;
    let shop = shop(&server).await;
    dead(&shop, 2).await;
    let (grace, ada) = (server.person("Grace", "support").await, server.person("Ada", "user").await);
    let fingerprint = path(&server).await.rsplit('/').next().expect("a part").to_owned();
    let form = format!("/dead/groups/a/{fingerprint}");
    let page = grace.get(&format!("/dead?error={fingerprint}&type=a")).await;
    assert!(page.text.contains(&format!("action=\"{form}\"")), "{}", page.text);
    assert!(page.text.contains("Newest affected jobs") && page.text.contains("Open since it was first seen."));
    assert!(grace.get("/dead").await.text.contains("2 failures in the last 24 hours"));
    assert_eq!(ada.form(&form, &[("state", "muted")]).await.status, 403);

    let refused = grace.form(&form, &[("state", "resolved"), ("note", "")]).await;
    assert_eq!(refused.status, 422);
    assert!(refused.text.contains("Nothing was saved"), "{}", refused.text);
    let refused = grace.form(&form, &[("state", "muted"), ("failures", "many"), ("note", "known since March")]).await;
    assert_eq!(refused.status, 422);
    assert!(
        refused.text.contains("known since March") && refused.text.contains("value=\"many\""),
        "what was typed stays"
    );

    let muted = [("state", "muted"), ("hours", "24"), ("failures", "1,000"), ("q", "type:a")];
    let shown = location(&grace.form(&form, &muted).await);
    assert!(shown.contains("did=muted") && shown.contains("q=type"), "{shown}");
    assert_eq!(only(&server, "state=muted").await.expect("muted")["muted_failures"], 1_000);
    assert!(!grace.get("/dead").await.text.contains("data-group-state"), "not among the open ones");
    assert!(grace.get("/dead?groups=muted").await.text.contains("for 1,000 more failures"));
    location(&grace.form(&form, &[("state", "resolved"), ("note", "2.4.1")]).await);
    let page = grace.get(&format!("/dead?error={fingerprint}&type=a")).await.text;
    assert!(page.contains("Reopen") && page.contains("2.4.1") && page.contains("Resolved"));
    location(&grace.form(&form, &[("state", "open")]).await);
    assert!(only(&server, "state=open").await.is_some());
    server.stop().await;
}
