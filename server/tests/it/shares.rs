//! A share link shows one tree, live, and nothing else, until it is revoked.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::{sync::Notify, time::timeout};

use crate::{
    live::listen,
    retention::{tree, work},
    support::{Answer, Api, Server},
};

const NOBODY: &str = "0190a5e0-0000-7000-8000-000000000000";

/// Creates a complete tree with data that others must not see.
async fn secret_tree(api: &Api) -> String {
    let items = json!([{"payload": {"iban": "DE-payload"}}, {"payload": {"iban": "DE-payload"}}]);
    let job = json!({"type": "a", "name": "march.csv", "sealed": true, "items": items,
        "metadata": {"team": "secret-team"}, "dedupe_key": "secret-key", "initiated_by": "secret-boss"});
    let created = api.post("/api/v1/jobs", job).await.expect(201);
    created["id"].as_str().expect("an id").to_owned()
}

/// Creates a link. Returns its id and the path of its page.
async fn share(server: &Server, api: &Api, job: &str) -> (String, String) {
    let created = api.post(&format!("/api/v1/jobs/{job}/share"), json!({})).await.expect(201);
    let url = created["url"].as_str().expect("a link");
    let path = url.strip_prefix(&server.url("")).expect("a link to this server").to_owned();
    assert!(path.starts_with("/s/") && path.len() >= 40, "{path}");
    (created["id"].as_str().expect("an id").to_owned(), path)
}

/// Opens the page of a link. Returns the cookie that it set.
async fn open(server: &Server, path: &str) -> (Answer, Api) {
    let page = server.stranger().get(path).await;
    assert_eq!(page.status, 200, "{}", page.text);
    let cookie = page.headers["set-cookie"].to_str().expect("text").to_owned();
    let pair = cookie.split(';').next().expect("a cookie").to_owned();
    assert!(pair.starts_with("treeline_share="), "{cookie}");
    (page, server.with_cookie(&pair))
}

#[tokio::test]
async fn share_link_shows_one_tree_only() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let ada = server.person("ada", "user").await;
    let (job, other) = (secret_tree(&ada).await, secret_tree(&server).await);
    let second = tree(&ada, 1).await;
    let (_, path) = share(&server, &ada, &job).await;
    let (page, guest) = open(&server, &path).await;
    for part in ["march.csv", "Downloads", "data-refresh"] {
        assert!(page.text.contains(part), "{part} is missing");
    }
    for secret in ["secret-", "DE-payload", ">ada<", "/items/", "/sign-out", "href=\"/jobs"] {
        assert!(!page.text.contains(secret), "{secret} shows: {}", page.text);
    }
    let cookie = page.headers["set-cookie"].to_str().expect("text");
    assert!(cookie.contains(&format!("; Path=/api/v1/jobs/{job}; HttpOnly; SameSite=Strict")), "{cookie}");
    assert_eq!(page.headers["x-robots-tag"], "noindex, nofollow");

    // Live, to the end, but for single items and whose it is.
    let events_path = format!("/api/v1/jobs/{job}/events");
    let finished = |_: &str, data: &Value| data["jobs"][0]["status"] == "completed";
    let worker = server.service("worker", &["work"]).await;
    let (events, ()) = tokio::join!(listen(&guest, &events_path, finished), work(&worker));
    let text = format!("{events:?}");
    assert!(!text.contains("secret-") && !text.contains("DE-payload") && !text.contains("\"ada\""), "{text}");
    assert!(events.iter().all(|(_, data)| data["items"].as_array().is_none_or(Vec::is_empty)), "{text}");
    for download in ["results", "failures", "results?format=csv"] {
        guest.get(&format!("/api/v1/jobs/{job}/{download}")).await.expect(200);
    }

    for elsewhere in [&other, &second, NOBODY] {
        for what in ["events", "results", "failures"] {
            guest.get(&format!("/api/v1/jobs/{elsewhere}/{what}")).await.expect_problem(404, "not_found");
        }
    }
    for closed in ["me", "jobs", "items", &format!("jobs/{job}"), &format!("jobs/{job}/shares"), "openapi.json"] {
        guest.get(&format!("/api/v1/{closed}")).await.expect_problem(401, "unauthenticated");
    }
    for page in [format!("/imports/{job}"), format!("/jobs/{job}"), "/people".to_owned()] {
        assert_eq!(guest.get(&page).await.status, 303, "{page}");
    }
    // The link's secret is no token and no session.
    let secret = path.strip_prefix("/s/").expect("a secret");
    server.stranger().with_token(secret).get(&events_path).await.expect_problem(401, "unauthenticated");
    let stored: Vec<Vec<u8>> =
        sqlx::query_scalar("select hash from share").fetch_all(&server.running.app.pool).await.expect("rows");
    assert!(stored.iter().all(|hash| hash.len() == 32));
    assert_eq!(server.stranger().get("/s/rubbish").await.status, 404);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revoked_share_link_ends_streams_on_all_servers() {
    let server = Server::start().await;
    let other = server.another().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let ada = server.person("ada", "user").await;
    let job = tree(&ada, 1).await;
    let (id, path) = share(&server, &ada, &job).await;
    let (_, valid_path) = share(&server, &ada, &job).await;
    let (_, guest) = open(&server, &path).await;
    let there = other.with_cookie(guest.cookie());
    let events = format!("/api/v1/jobs/{job}/events");
    let (opened, opened_there) = (Notify::new(), Notify::new());
    let never = |opened: &Notify| {
        opened.notify_one();
        false
    };
    let watching = async {
        tokio::join!(
            listen(&guest, &events, |_, _| never(&opened)),
            listen(&there, &events, |_, _| never(&opened_there)),
        )
    };
    let taking_back = async {
        opened.notified().await;
        opened_there.notified().await;
        ada.delete(&format!("/api/v1/shares/{id}")).await.expect(204);
        ada.delete(&format!("/api/v1/shares/{id}")).await.expect(204);
    };
    let both = async { tokio::join!(watching, taking_back) };
    timeout(Duration::from_mins(1), both).await.expect("streams end within a minute");
    guest.get(&events).await.expect_problem(401, "unauthenticated");
    guest.get(&format!("/api/v1/jobs/{job}/results")).await.expect_problem(401, "unauthenticated");
    assert_eq!(server.stranger().get(&path).await.status, 410);
    open(&other, &valid_path).await;

    let listed = ada.get(&format!("/api/v1/jobs/{job}/shares")).await;
    assert!(!listed.text.contains(&path[3..]), "the secret is shown once");
    let revoked: Vec<bool> = listed.expect(200)["data"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|share| share["revoked_at"].is_string())
        .collect();
    assert_eq!(revoked, [false, true]);
    other.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn share_link_ends_with_its_tree() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let ada = server.person("ada", "user").await;
    let job = tree(&ada, 1).await;
    let (_, path) = share(&server, &ada, &job).await;
    let (_, guest) = open(&server, &path).await;
    work(&server.service("worker", &["work"]).await).await;
    ada.delete(&format!("/api/v1/jobs/{job}")).await.expect(204);
    assert_eq!(server.stranger().get(&path).await.status, 410);
    for what in ["events", "results", "failures"] {
        guest.get(&format!("/api/v1/jobs/{job}/{what}")).await.expect_problem(410, "job_removed");
    }
    ada.post(&format!("/api/v1/jobs/{job}/share"), json!({})).await.expect_problem(410, "job_removed");
    server.stop().await;
}

#[tokio::test]
async fn share_link_creation_requires_write_access() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let (ada, eve) = (server.person("ada", "user").await, server.person("eve", "user").await);
    let sam = server.person("sam", "support").await;
    let job = tree(&ada, 1).await;
    let make = format!("/api/v1/jobs/{job}/share");
    eve.post(&make, json!({})).await.expect_problem(404, "not_found");
    eve.get(&format!("{make}s")).await.expect_problem(404, "not_found");
    // A link shows results, so that who creates one must be allowed to read them.
    for scope in ["jobs:read", "jobs:write"] {
        server.service("narrow", &[scope]).await.post(&make, json!({})).await.expect_problem(403, "forbidden");
    }
    sam.post(&make, json!({})).await.expect_problem(422, "reason_required");
    let created = sam.post(&make, json!({"reason": "the customer asked"})).await.expect(201);
    let revoke = format!("/api/v1/shares/{}", created["id"].as_str().expect("an id"));
    eve.delete(&revoke).await.expect_problem(404, "not_found");
    sam.delete(&revoke).await.expect_problem(422, "reason_required");
    ada.delete(&revoke).await.expect(204);
    // A reason that is too long is told even where there is nothing left to do.
    let endless = ada.request(Method::DELETE, &revoke).json(&json!({"reason": "x".repeat(2_001)}));
    let refused = Answer::of(endless).await.expect_problem(422, "invalid_body");
    assert_eq!(refused["errors"][0]["pointer"], "/reason");
    let log = sam.get(&format!("/api/v1/audit?job={job}")).await.expect(200)["data"].clone();
    // Refusals are in the log, too; here it is about what was done.
    let log: Vec<_> = log.as_array().expect("rows").iter().filter(|row| row["action"] != "access.refuse").collect();
    let actions: Vec<(&str, &str)> = log
        .iter()
        .map(|row| (row["actor"]["name"].as_str().expect("a name"), row["action"].as_str().expect("an action")))
        .collect();
    assert_eq!(actions, [("ada", "job.unshare"), ("sam", "job.share")]);
    assert_eq!(log[1]["reason"], "the customer asked");

    let family = json!({"type": "a", "children": [{"type": "a", "key": "below"}]});
    let family = ada.post("/api/v1/jobs", family).await.expect(201);
    let child = family["children"][0]["id"].as_str().expect("an id");
    ada.post(&format!("/api/v1/jobs/{child}/share"), json!({})).await.expect_problem(409, "not_root");

    let again = || {
        let request = ada.request(Method::POST, &make).header("idempotency-key", "once");
        Answer::of(request.json(&json!({})))
    };
    assert_eq!(again().await.expect(201), again().await.expect(201));
    server.stop().await;
}

#[tokio::test]
async fn share_link_has_limits_of_its_own() {
    let server = Server::start_with(|config| {
        config.limits.quotas.streams = 2;
        config.limits.quotas.requests_per_minute = 30;
    })
    .await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let ada = server.person("ada", "user").await;
    let job = secret_tree(&ada).await;
    let (_, path) = share(&server, &ada, &job).await;
    let (_, guest) = open(&server, &path).await;
    let events = format!("/api/v1/jobs/{job}/events");
    let watch = async |api: &Api| api.request(Method::GET, &events).send().await.expect("an answer");
    let mut streams = vec![watch(&guest).await, watch(&guest).await];
    assert!(streams.iter().all(|stream| stream.status() == 200), "{streams:?}");
    guest.get(&events).await.expect_problem(429, "quota_exceeded");
    // The owner's are not used up.
    streams.push(watch(&ada).await);
    assert_eq!(streams[2].status(), 200, "{:?}", streams[2]);

    let results = format!("/api/v1/jobs/{job}/results");
    let mut last = guest.get(&results).await;
    assert_eq!(last.headers["ratelimit-policy"], "\"api\";q=30;w=60");
    for _ in 0..30 {
        last = guest.get(&results).await;
    }
    last.expect_problem(429, "too_many_requests");
    assert_eq!(guest.get(&path).await.status, 429, "the page, too");
    ada.get(&results).await.expect(200);
    server.stop().await;
}

#[tokio::test]
async fn import_page_creates_and_revokes_share_links() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let (ada, sam) = (server.person("ada", "user").await, server.person("sam", "support").await);
    let job = tree(&ada, 1).await;
    let page = format!("/imports/{job}");
    let created = ada.form(&format!("{page}/share"), &[]).await;
    assert_eq!(
        (created.status.as_u16(), created.headers["location"].to_str().expect("text")),
        (303, format!("{page}#share").as_str())
    );
    let once = created.headers["set-cookie"].to_str().expect("text").to_owned();
    assert!(once.contains(&format!("; Path={page}; HttpOnly; SameSite=Strict")), "{once}");
    let with_link = server.with_cookie(&format!("{}; {}", ada.cookie(), once.split(';').next().expect("a cookie")));
    let page_with_link = with_link.get(&page).await;
    assert!(page_with_link.text.contains(&server.url("/s/")), "{}", page_with_link.text);
    assert!(page_with_link.headers["set-cookie"].to_str().expect("text").contains("Max-Age=0"), "shown once");
    let later = ada.get(&page).await;
    assert!(!later.text.contains(&server.url("/s/")) && later.text.contains("Revoke this link"));

    let id = ada.get(&format!("/api/v1/jobs/{job}/shares")).await.expect(200)["data"][0]["id"].clone();
    let revoke = format!("/shares/{}/revoke", id.as_str().expect("an id"));
    // Somebody else's upload takes a reason, on the same page again.
    let refused = sam.form(&revoke, &[]).await;
    assert_eq!(refused.status, 422);
    assert!(refused.text.contains("Nothing was changed"), "{}", refused.text);
    assert_eq!(server.person("eve", "user").await.form(&revoke, &[]).await.status, 404);
    assert_eq!(ada.form(&revoke, &[]).await.status, 303);
    assert!(!ada.get(&page).await.text.contains("Revoke this link"));
    let refused = sam.form(&format!("{page}/share"), &[("reason", " ")]).await;
    assert_eq!(refused.status, 422);
    assert_eq!(sam.form(&format!("{page}/share"), &[("reason", "asked for")]).await.status, 303);
    server.stop().await;
}

#[tokio::test]
async fn share_link_to_a_foreign_tree_ends_when_its_creator_is_demoted() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let (ada, sam) = (server.person("ada", "user").await, server.person("sam", "support").await);
    server.admin().await;
    let (foreign, own) = (tree(&ada, 1).await, tree(&sam, 1).await);
    let mut pages = Vec::new();
    for (caller, job) in [(&sam, &foreign), (&sam, &own), (&ada, &foreign)] {
        let created =
            caller.post(&format!("/api/v1/jobs/{job}/share"), json!({"reason": "asked for"})).await.expect(201);
        let url = created["url"].as_str().expect("a link");
        pages.push(url.strip_prefix(&server.url("")).expect("a link to this server").to_owned());
    }
    let people = server.get("/api/v1/users").await.expect(200)["data"].clone();
    let found = people.as_array().expect("people").iter().find(|person| person["name"] == "sam").expect("sam");
    let path = format!("/api/v1/users/{}", found["id"].as_str().expect("an id"));
    server.patch(&path, json!({"role": "admin"})).await.expect(200);
    open(&server, &pages[0]).await;
    server.patch(&path, json!({"role": "user"})).await.expect(200);
    assert_eq!(server.stranger().get(&pages[0]).await.status, 410);
    open(&server, &pages[1]).await;
    open(&server, &pages[2]).await;
    server.stop().await;
}

#[tokio::test]
async fn share_link_to_a_foreign_tree_ends_with_the_token_that_made_it() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let (ada, ci) = (server.person("ada", "user").await, server.service("ci", &["admin"]).await);
    let (foreign, own) = (tree(&ada, 1).await, tree(&ci, 1).await);
    let mut pages = Vec::new();
    for job in [&foreign, &own] {
        let created = ci.post(&format!("/api/v1/jobs/{job}/share"), json!({"reason": "asked for"})).await.expect(201);
        let url = created["url"].as_str().expect("a link");
        pages.push(url.strip_prefix(&server.url("")).expect("a link to this server").to_owned());
        open(&server, pages.last().expect("a page")).await;
    }
    let tokens = server.get("/api/v1/tokens").await.expect(200)["data"].clone();
    let token = tokens.as_array().expect("tokens").iter().find(|token| token["service"] == "ci").expect("its token");
    server.delete(&format!("/api/v1/tokens/{}", token["id"].as_str().expect("an id"))).await.expect(204);
    assert_eq!(server.stranger().get(&pages[0]).await.status, 410);
    open(&server, &pages[1]).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn share_link_expires_and_ends_with_its_creator() {
    let server = Server::start().await;
    let admin = server.admin().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let (ada, sam) = (server.person("ada", "user").await, server.person("sam", "support").await);
    let job = tree(&ada, 1).await;
    let make = format!("/api/v1/jobs/{job}/share");
    for invalid in ["2020-01-01T00:00:00Z", "2999-01-01T00:00:00Z", "soon"] {
        ada.post(&make, json!({"expires_at": invalid})).await.expect_problem(422, "invalid_body");
    }
    let days = |created: &Value| {
        let end = created["expires_at"].as_str().expect("a time");
        let end = time::OffsetDateTime::parse(end, &time::format_description::well_known::Rfc3339).expect("a time");
        (end - time::OffsetDateTime::now_utc()).whole_hours()
    };
    let created = ada.post(&make, json!({})).await.expect(201);
    assert_eq!(days(&created), 30 * 24 - 1, "a month, unless somebody says otherwise");

    // Past its end it opens nothing, and says so; a stream that it opened ends.
    let (id, path) = share(&server, &ada, &job).await;
    let (_, guest) = open(&server, &path).await;
    let events = format!("/api/v1/jobs/{job}/events");
    let pool = &server.running.app.pool;
    sqlx::query("update share set expires_at = clock_timestamp() where id = $1::uuid")
        .bind(&id)
        .execute(pool)
        .await
        .expect("time goes by");
    guest.get(&events).await.expect_problem(401, "unauthenticated");
    let gone = server.stranger().get(&path).await;
    assert_eq!(gone.status, 410);
    assert!(gone.text.contains("This link has expired."), "{}", gone.text);

    // Everybody sees their own; staff see all.
    let (_, of_sam) = {
        let created = sam.post(&make, json!({"reason": "asked for"})).await.expect(201);
        let url = created["url"].as_str().expect("a link");
        (created["id"].clone(), url.strip_prefix(&server.url("")).expect("a link to this server").to_owned())
    };
    tree(&server, 1).await;
    let listed = |all: Value| -> Vec<bool> {
        all["data"].as_array().expect("a list").iter().map(|one| one["open"] == true).collect()
    };
    assert_eq!(listed(ada.get("/api/v1/shares").await.expect(200)), [true, false, true]);
    assert_eq!(listed(admin.get("/api/v1/shares?limit=2").await.expect(200)), [true, false]);
    assert_eq!(listed(server.person("eve", "user").await.get("/api/v1/shares").await.expect(200)), [false; 0]);

    // Whoever leaves takes no link along: neither the maker nor the owner.
    let people = admin.get("/api/v1/users").await.expect(200)["data"].clone();
    let person = |name: &str| {
        let found = people.as_array().expect("people").iter().find(|person| person["name"] == name).expect("one");
        format!("/api/v1/users/{}", found["id"].as_str().expect("an id"))
    };
    let (_, stored) = share(&server, &ada, &job).await;
    let (_, guest) = open(&server, &stored).await;
    open(&server, &of_sam).await;
    admin.patch(&person("sam"), json!({"disabled": true})).await.expect(200);
    assert_eq!(server.stranger().get(&of_sam).await.status, 410);
    let opened = Notify::new();
    let never = |_: &str, _: &Value| {
        opened.notify_one();
        false
    };
    let disabling = async {
        opened.notified().await;
        admin.patch(&person("ada"), json!({"disabled": true})).await.expect(200);
    };
    let both = async { tokio::join!(listen(&guest, &events, never), disabling) };
    timeout(Duration::from_secs(10), both).await.expect("the stream ends");
    assert_eq!(server.stranger().get(&stored).await.status, 410);
    assert_eq!(listed(admin.get("/api/v1/shares").await.expect(200)), [false; 4]);
    server.stop().await;
}
