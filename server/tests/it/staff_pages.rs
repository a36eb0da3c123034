//! Support: finding, correcting and retrying failed items through the pages, by forms only.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    bulk::{claim, finish, id, kill},
    fair_turns::until,
    support::{Answer, Api, Server},
};

/// Submits a form like a browser without scripts.
async fn submit(api: &Api, path: &str, fields: &[(&str, &str)]) -> Answer {
    let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    api.post_text(path, "application/x-www-form-urlencoded", body).await
}

/// Redirect target of a successful action.
#[track_caller]
fn location(answer: &Answer) -> String {
    assert_eq!(answer.status, 303, "{}", answer.text);
    answer.headers["location"].to_str().expect("text").to_owned()
}

/// Creates a job of a service with these payloads, all dead; returns job and items.
async fn dead(shop: &Api, name: &str, payloads: &[&str]) -> (String, Vec<String>) {
    let items: Vec<String> = payloads.iter().map(|payload| format!(r#"{{"payload":{payload}}}"#)).collect();
    let body = format!(r#"{{"type":"{name}","sealed":true,"name":"March","items":[{}]}}"#, items.join(","));
    let job = id(&shop.post_text("/api/v1/jobs", "application/json", body).await.expect(201));
    let mut items = Vec::new();
    for assignment in claim(shop, name, 1_000, 0).await {
        kill(shop, &assignment).await;
        items.push(id(&assignment["item"]));
    }
    assert_eq!(items.len(), payloads.len());
    (job, items)
}

async fn shop(server: &Server, schema: Value) -> Api {
    server.put("/api/v1/job-types/a", json!({"payload_schema": schema})).await.expect(201);
    server.service("shop", &["jobs:read", "jobs:write", "work"]).await
}

#[tokio::test]
async fn dead_item_payload_is_edited_and_retried_with_exact_numbers() {
    let server = Server::start().await;
    let shop = shop(&server, json!({"properties": {"n": {"type": "integer"}}})).await;
    let (job, items) = dead(&shop, "a", &[r#"{"n": 9007199254740993, "note": "</textarea><script>x</script>"}"#]).await;
    let grace = server.person("Grace", "support").await;

    let list = grace.get("/dead?q=type:a").await;
    assert_eq!(list.status, 200, "{}", list.text);
    assert!(list.text.contains("no account") && list.text.contains(&items[0]), "{}", list.text);
    let page = grace.get(&format!("/items/{}?open=retry", items[0])).await;
    assert!(!page.text.contains("<script>x"), "{}", page.text);
    assert!(page.text.contains("  \"n\": 9007199254740993,\n  \"note\": \"&lt;/textarea&gt;"), "{}", page.text);

    let retry = format!("/items/{}/retry", items[0]);
    let without = submit(&grace, &retry, &[("payload", r#"{"n": 1}"#)]).await;
    assert_eq!(without.status, 422, "{}", without.text);
    assert!(
        without.text.contains("A reason is required") && without.text.contains("{\"n\": 1}</textarea>"),
        "{}",
        without.text
    );
    let reason = ("reason", "the account was opened");
    let refused = submit(&grace, &retry, &[("payload", r#"{"n": "one"}"#), reason]).await;
    assert_eq!(refused.status, 422, "{}", refused.text);
    assert!(
        refused.text.contains("id=\"retry-payload-fault\"") && refused.text.contains("<span class=\"mono\">/n"),
        "{}",
        refused.text
    );
    assert!(
        refused.text.contains("{\"n\": \"one\"}</textarea>") && refused.text.contains("the account was opened"),
        "{}",
        refused.text
    );
    let broken = submit(&grace, &retry, &[("payload", "{\"n\": "), reason]).await;
    assert!(broken.status == 422 && broken.text.contains("expected JSON"), "{}", broken.text);

    let mended = submit(&grace, &retry, &[("payload", "{\"n\": 9007199254740995,\r\n \"x\": 1.10}"), reason]).await;
    assert_eq!(location(&mended), format!("/items/{}?did=retried", items[0]));
    let item = server.get(&format!("/api/v1/items/{}", items[0])).await;
    assert!(item.text.contains("{\"n\": 9007199254740995,\n \"x\": 1.10}"), "{}", item.text);
    assert!(item.text.contains("\"original_payload\":{\"n\": 9007199254740993"), "{}", item.text);
    let audit = server.get("/api/v1/audit?action=item.retry").await.expect(200);
    assert_eq!(audit["data"][0]["reason"], "the account was opened", "{audit}");
    finish(&shop, &claim(&shop, "a", 1, 0).await[0]).await;
    until(&server, &job, |job| job["outcome"] == "succeeded").await;
    let page = grace.get(&format!("/items/{}", items[0])).await;
    assert!(page.text.contains("Payload (edited)"), "{}", page.text);
    server.stop().await;
}

#[tokio::test]
async fn unedited_payload_is_not_rewritten() {
    let server = Server::start().await;
    let shop = shop(&server, json!(true)).await;
    let (_, items) =
        dead(&shop, "a", &["{\"n\": 1.10,\\n  \"big\": 9007199254740993}".replace("\\n", "\n").as_str()]).await;
    let grace = server.person("Grace", "support").await;
    let fields = [("payload", "{\"n\": 1.10,\r\n  \"big\": 9007199254740993}"), ("reason", "again")];
    location(&submit(&grace, &format!("/items/{}/retry", items[0]), &fields).await);
    let item = server.get(&format!("/api/v1/items/{}", items[0])).await;
    assert!(item.text.contains("\"original_payload\":null"), "{}", item.text);
    assert_eq!(item.json()["state"], "available");
    server.stop().await;
}

#[tokio::test]
async fn filtered_items_are_retried_by_one_previewed_bulk_operation() {
    let server = Server::start().await;
    let shop = shop(&server, json!(true)).await;
    let payloads: Vec<String> = (0..25).map(|n| format!(r#"{{"n":{n}}}"#)).collect();
    let payloads: Vec<&str> = payloads.iter().map(String::as_str).collect();
    let (job, _) = dead(&shop, "a", &payloads).await;
    let grace = server.person("Grace", "support").await;
    let q = format!("state:dead root:{job}");
    let page = grace.get(&format!("/dead?q=root:{job}")).await;
    assert!(page.text.contains("Retry all 25…") && page.text.contains(&format!("value=\"{q}\"")), "{}", page.text);

    let ask = [("action", "retry"), ("target", "items"), ("q", q.as_str())];
    let preview = location(&submit(&grace, "/bulk", &ask).await);
    let page = grace.get(&preview).await;
    assert!(page.text.contains("25 items match. Nothing has changed yet."), "{}", page.text);
    assert_eq!(server.get(&format!("/api/v1/jobs/{job}")).await.expect(200)["counts"]["dead"], 25);

    let start = format!("{preview}/start");
    let silent = submit(&grace, &start, &[("rate", "5000"), ("edits", "remove /n"), ("seen_edits", "remove /n")]).await;
    assert_eq!(silent.status, 422, "{}", silent.text);
    assert!(
        silent.text.contains("A reason is required") && silent.text.contains("remove /n</textarea>"),
        "{}",
        silent.text
    );
    let refused = submit(&grace, &start, &[("reason", "x"), ("edits", "put /n 1")]).await;
    assert!(refused.status == 422 && refused.text.contains("expected set /place value"), "{}", refused.text);
    let fields = [("reason", "the bank was down"), ("rate", ""), ("edits", "set /n 1.10"), ("count", "25")];
    let seen = submit(&grace, &start, &fields).await;
    assert!(seen.status == 422 && seen.text.contains("Payloads before and after"), "{}", seen.text);
    let fields = [&fields[..], &[("seen_edits", "set /n 1.10")]].concat();
    let begun = location(&submit(&grace, &start, &fields).await);
    assert_ne!(begun, preview);
    assert_eq!(location(&submit(&grace, &start, &fields).await), begun, "a form sent twice begins one operation");

    let operation = begun.trim_start_matches("/bulk/").to_owned();
    let through = async || {
        let now = server.get(&format!("/api/v1/bulk-operations/{operation}")).await.expect(200);
        now["state"] == "completed"
    };
    crate::retention::until(through).await;
    let page = grace.get(&begun).await;
    assert!(page.text.contains("Done: all 25 items were retried"), "{}", page.text);
    assert!(!page.text.contains("data-poll="), "what is over is not asked for again");
    let got = claim(&shop, "a", 100, 0).await;
    assert!(got.len() == 25 && got.iter().all(|one| one["item"]["payload"]["n"] == json!(1.10)), "{got:?}");
    let list = grace.get("/bulk").await;
    assert!(list.text.contains("Retry 25 items") && list.text.contains("Preview: retry 25 items"), "{}", list.text);
    assert!(grace.get("/dead").await.text.contains("Nothing has failed"));
    server.stop().await;
}

#[tokio::test]
async fn page_actions_respect_roles() {
    let server = Server::start().await;
    let shop = shop(&server, json!(true)).await;
    let (job, items) = dead(&shop, "a", &["1"]).await;
    let ada = server.person("Ada", "user").await;
    let grace = server.person("Grace", "support").await;
    let admin = server.admin().await;

    assert_eq!(location(&ada.get("/").await), "/imports");
    for staff_only in ["/workers", "/types", "/types/a"] {
        assert_eq!(ada.get(staff_only).await.status, 403, "{staff_only}");
        assert_eq!(grace.get(staff_only).await.status, 200, "{staff_only}");
    }
    for page in [format!("/items/{}", items[0]), format!("/jobs/{job}")] {
        assert_eq!(ada.get(&page).await.status, 404);
        let after = format!("/sign-in?back={}", page.replace('/', "%2F"));
        assert_eq!(location(&server.stranger().get(&page).await), after);
        for action in ["cancel", "replay"] {
            let path = format!("{page}/{action}");
            assert_eq!(submit(&ada, &path, &[("reason", "mine")]).await.status, 404, "{path}");
            let forged = server
                .stranger()
                .request(Method::POST, &path)
                .header("cookie", grace.cookie())
                .header("sec-fetch-site", "cross-site");
            assert_eq!(Answer::of(forged).await.status, 403, "{path}");
        }
    }
    assert!(!ada.get("/dead").await.text.contains(&items[0]));
    assert!(!ada.get("/items").await.text.contains(&items[0]));
    let delete = format!("/jobs/{job}/delete");
    assert_eq!(submit(&grace, &delete, &[("reason", "old")]).await.status, 403);
    for change in ["/types/a", "/types/a/pause"] {
        assert_eq!(submit(&grace, change, &[("min_seconds", "1"), ("factor", "2")]).await.status, 403, "{change}");
    }
    assert_eq!(location(&submit(&admin, &delete, &[("reason", "old")]).await), "/jobs?did=deleted");
    assert_eq!(grace.get(&format!("/jobs/{job}")).await.status, 410);
    server.stop().await;
}

#[tokio::test]
async fn job_cancel_page_previews_its_effect() {
    let server = Server::start().await;
    let shop = shop(&server, json!(true)).await;
    let created = shop.post("/api/v1/jobs", json!({"type": "a", "items": [{}, {}, {}]})).await.expect(201);
    let job = format!("/jobs/{}", id(&created));
    claim(&shop, "a", 1, 0).await;
    let grace = server.person("Grace", "support").await;
    let page = grace.get(&job).await;
    assert!(page.text.contains("2 waiting items will not run. 1 in progress is told to stop."), "{}", page.text);
    assert!(page.text.contains("Keep running"), "{}", page.text);
    let silent = submit(&grace, &format!("{job}/cancel"), &[]).await;
    assert!(silent.status == 422 && silent.text.contains("A reason is required"), "{}", silent.text);
    assert_eq!(
        location(&submit(&grace, &format!("{job}/cancel"), &[("reason", "wrong file")]).await),
        format!("{job}?did=cancelled")
    );
    let now = server.get(&format!("/api/v1{job}")).await.expect(200);
    assert_eq!((&now["status"], &now["counts"]["cancelled"]), (&json!("cancelling"), &json!(2)), "{now}");
    // Its items cannot be retried, so no page offers it.
    let items = server.get(&format!("/api/v1/items?job={}&state=cancelled", id(&created))).await.expect(200);
    let item = format!("/items/{}", id(&items["data"][0]));
    for path in [item.clone(), format!("{item}?open=retry")] {
        let page = grace.get(&path).await.text;
        assert!(page.contains("This item cannot be retried: its job is canceled."), "{page}");
        assert!(!page.contains("Edit and retry") && page.contains("Run again as a new job"), "{page}");
    }
    // A form that was refused, loaded again, is the page.
    assert_eq!(location(&grace.get(&format!("{job}/cancel")).await), format!("{job}?open=cancel"));
    assert_eq!(
        location(&submit(&grace, &format!("{job}/pin"), &[("reason", "evidence")]).await),
        format!("{job}?did=pinned")
    );
    assert!(grace.get(&job).await.text.contains("Delete automatically again"));
    let early = submit(&grace, &format!("{job}/replay"), &[("reason", "again")]).await;
    assert!(early.status == 422 && early.text.contains("The job is not complete"), "{}", early.text);
    server.stop().await;
}

#[tokio::test]
async fn list_filter_errors_have_positions_and_pages_keep_filters() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    for n in 0..60 {
        server.post("/api/v1/jobs", json!({"type": "a", "name": format!("job {n}")})).await.expect(201);
    }
    let admin = server.admin().await;
    let page = admin.get("/jobs?q=status:waiting+colour:red").await;
    assert_eq!(page.status, 400);
    assert!(page.text.contains("At character 16: `colour` is no filter of this list"), "{}", page.text);
    assert!(!page.text.contains("job 59"), "nothing is listed by half a filter");
    // The parameters of the API one by one, as a form without scripts sends them.
    let plain = admin.get("/jobs?q=job&status=waiting&type=").await;
    assert!(plain.status == 200 && plain.text.contains("value=\"job status:waiting\""), "{}", plain.text);
    let mut seen = 0;
    let mut next = Some("/jobs?q=type:a".to_owned());
    while let Some(path) = next {
        let page = admin.get(&path).await;
        assert_eq!(page.status, 200, "{}", page.text);
        seen += page.text.matches("scope=\"row\"").count();
        next = page.text.split_once("rel=\"next\"").map(|(before, _)| {
            let (_, link) = before.rsplit_once("href=\"").expect("a link");
            link.split('"').next().expect("an address").replace("&amp;", "&")
        });
    }
    assert_eq!(seen, 60);
    let foreign = admin.get("/jobs?q=type:b&cursor=AAAA").await;
    assert!(foreign.status == 400 && foreign.text.contains("cursor"), "{}", foreign.text);
    assert!(admin.get("/jobs?q=type:none").await.text.contains("No jobs match"));
    server.stop().await;
}

#[tokio::test]
async fn job_type_page_pauses_edits_and_detects_conflicts() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let admin = server.admin().await;
    assert_eq!(location(&submit(&admin, "/types/a/pause", &[]).await), "/types/a?did=paused");
    let version = server.get("/api/v1/job-types/a").await.expect(200)["version"].to_string();
    let fields = |factor: &'static str| {
        [
            ("version", version.clone()),
            ("concurrency", "5".into()),
            ("min_seconds", "1.5".into()),
            ("max_seconds", String::new()),
            ("factor", factor.into()),
        ]
    };
    let send = async |fields: [(&str, String); 5]| {
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        submit(&admin, "/types/a", &fields).await
    };
    for (factor, message) in [("0", "expected a number from 1 to 1000"), ("two", "expected a number")] {
        let refused = send(fields(factor)).await;
        assert_eq!(refused.status, 422, "{}", refused.text);
        assert!(
            refused.text.contains(message)
                && refused.text.contains("id=\"factor-fault\"")
                && refused.text.contains("value=\"1.5\""),
            "{}",
            refused.text
        );
    }
    assert_eq!(location(&send(fields("3")).await), "/types/a?did=changed");
    let now = server.get("/api/v1/job-types/a").await.expect(200);
    assert_eq!(
        (&now["concurrency"], &now["backoff"]["max_seconds"], &now["paused"]),
        (&json!(5), &Value::Null, &json!(true))
    );
    assert_eq!((&now["backoff"]["factor"], &now["backoff"]["jitter"]), (&json!(3.0), &json!(false)));
    let version = now["version"].to_string();
    let limits = [
        ("version", version.as_str()),
        ("min_seconds", "1.5"),
        ("factor", "3"),
        ("rate_count", "10"),
        ("rate_seconds", "60"),
        ("rate_burst", ""),
        ("rate_key", "/customer"),
        ("key_limit", "x"),
        ("key_limit_key", "/customer"),
    ];
    let refused = submit(&admin, "/types/a", &limits).await;
    assert!(refused.status == 422 && refused.text.contains("id=\"key_limit-fault\""), "{}", refused.text);
    let limits = limits.map(|(name, value)| (name, if name == "key_limit" { "2" } else { value }));
    assert_eq!(location(&submit(&admin, "/types/a", &limits).await), "/types/a?did=changed");
    let limited = server.get("/api/v1/job-types/a").await.expect(200);
    assert_eq!(limited["rate_limit"], json!({"count": 10, "per_seconds": 60, "key": "/customer"}));
    assert_eq!(limited["concurrency_by"], json!({"key": "/customer", "limit": 2}));
    let page = server.person("sam", "support").await.get("/types/a").await.text;
    assert!(page.contains("10 in 1 min, per /customer") && page.contains("2 per /customer"), "{page}");
    let late = send(fields("4")).await;
    assert!(
        late.status == 422 && late.text.contains("The job type was changed since this page was opened"),
        "{}",
        late.text
    );
    assert_eq!(location(&submit(&admin, "/types/a/resume", &[]).await), "/types/a?did=resumed");
    let overview = admin.get("/").await;
    assert!(overview.status == 200 && overview.text.contains("No open alerts"), "{}", overview.text);
    server.stop().await;
}

#[tokio::test]
async fn staff_sidebar_shows_failed_count_and_environment() {
    let server = Server::start_with(|config| config.environment = Some("Staging <1>".to_owned())).await;
    let shop = shop(&server, json!({})).await;
    let (grace, ada) = (server.person("Grace", "support").await, server.person("Ada", "user").await);
    let before = grace.get("/types").await.text;
    assert!(before.contains("Staging &lt;1&gt;") && !before.contains("nav-count"), "{before}");
    dead(&shop, "a", &["1", "2"]).await;
    crate::retention::until(async || grace.get("/types").await.text.contains("nav-count bad\">2<")).await;
    let user = ada.get("/jobs").await.text;
    assert!(!user.contains("nav-count") && !user.contains("Staging"), "{user}");
    server.stop().await;
}

#[tokio::test]
async fn overview_says_if_there_are_more_alerts_than_it_shows() {
    let server = Server::start().await;
    let grace = server.person("Grace", "support").await;
    let raise = "insert into alert (id, kind, subject, message)
                 select gen_random_uuid(), 'dead_letters', n::text, 'many failed' from generate_series(1, 35) n";
    sqlx::query(raise).execute(&server.running.app.pool).await.expect("alerts");
    let page = grace.get("/").await.text;
    assert!(page.contains("20+ open"), "{page}");
    assert_eq!(page.matches("many failed").count(), 20);
    server.stop().await;
}
