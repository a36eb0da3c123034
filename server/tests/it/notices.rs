//! Notices: a person who watches a tree receives one when it completes and one when it needs attention, in the list, by mail
//! and by webhook, and nobody else does (`notices`).

use serde_json::{Value, json};
use server::config::Config;

use crate::{
    bulk::{claim, finish, id, kill},
    callbacks::quick,
    live_topics::Watching,
    retention::until,
    support::{
        Api, Server,
        imports::{complete, upload},
        receiver::Receiver,
        smtp::{SmtpServer, header},
    },
};

const NOTICES: &str = "/api/v1/me/notices";
const SETTINGS: &str = "/api/v1/me/notice-settings";

async fn notices(api: &Api) -> Vec<Value> {
    api.get(NOTICES).await.expect(200)["data"].as_array().expect("a list").clone()
}

fn kinds(notices: &[Value]) -> Vec<&str> {
    notices.iter().map(|one| one["kind"].as_str().expect("a kind")).collect()
}

/// A server with a type that workers pull, and an import of two rows that waits for them.
async fn waiting(server: &Server, person: &Api, file: &str) -> Value {
    server.put("/api/v1/job-types/slow", json!({"executor": {"kind": "pull"}})).await;
    let stored = upload(person, file, "name\nann\nbob\n").await;
    let job = json!({"type": "slow", "name": file, "upload": {"id": stored}});
    person.post("/api/v1/jobs", job).await.expect(201)
}

/// Path of a person's account.
async fn account(server: &Server, name: &str) -> String {
    let users = server.get("/api/v1/users").await.expect(200);
    let user = users["data"].as_array().expect("a list").iter().find(|user| user["name"] == name).expect("the person");
    format!("/api/v1/users/{}", id(user))
}

async fn deliveries(api: &Api) -> Vec<Value> {
    let all = api.get("/api/v1/deliveries?sort=created_at").await.expect(200);
    all["data"].as_array().expect("a list").iter().filter(|one| !one["notice"].is_null()).cloned().collect()
}

fn watch(job: &Value) -> String {
    format!("/api/v1/jobs/{}/watch", id(job))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn importer_receives_each_notice_of_an_import_once() {
    let server = Server::start_with(quick).await;
    let second = server.another_with(quick).await;
    let worker = server.service("worker", &["work"]).await;
    let (ada, bob) = (server.person("ada", "user").await, server.person("bob", "user").await);
    let job = waiting(&server, &ada, "march.csv").await;
    assert_eq!(ada.get(&watch(&job)).await.expect(200), json!({"watching": true}));
    let mut stream = Watching::open(&ada, "notices").await;
    stream.until("notices", |_, data| data["unread"] == 0).await;

    let mut rows = Vec::new();
    until(async || {
        rows.extend(claim(&worker, "slow", 2, 1).await);
        rows.len() == 2
    })
    .await;
    kill(&worker, &rows[0]).await;
    let received = stream.until("notices", |_, data| data["unread"] == 1).await;
    let first = &received["data"][0];
    assert_eq!((&first["kind"], &first["dead"]), (&json!("needs_attention"), &json!(1)), "{received}");
    assert_eq!((&first["job_id"], &first["job_name"]), (&job["id"], &json!("march.csv")));
    finish(&worker, &rows[1]).await;
    complete(&ada, &job).await;
    let received = stream.until("notices", |_, data| data["unread"] == 2).await;
    let last = &received["data"][0];
    assert_eq!((&last["kind"], &last["outcome"], &last["dead"]), (&json!("finished"), &json!("partial"), &json!(1)));

    // Both servers have searched again since: nothing is sent twice, nor to anybody else, nor by mail or post.
    let engines = [&server.running.app.engine, &second.running.app.engine];
    for engine in engines {
        engine.scan_for_attention(None).await.expect("a search");
    }
    assert_eq!(kinds(&notices(&ada).await), ["finished", "needs_attention"]);
    assert!(notices(&bob).await.is_empty() && deliveries(&server).await.is_empty());

    // A retried tree completes again, which is another notice.
    ada.post(&format!("{NOTICES}/read"), json!({"ids": [first["id"]]})).await.expect(204);
    stream.until("notices", |_, data| data["unread"] == 1).await;
    ada.post(&format!("/api/v1/items/{}/retry", rows[0]["item"]["id"].as_str().expect("an id")), json!({}))
        .await
        .expect(200);
    let again = claim(&worker, "slow", 1, 5).await;
    finish(&worker, &again[0]).await;
    let received = stream.until("notices", |_, data| data["data"].as_array().is_some_and(|all| all.len() == 3)).await;
    assert_eq!(
        (&received["data"][0]["outcome"], &received["data"][0]["dead"]),
        (&json!("succeeded"), &json!(0)),
        "{received}"
    );
    // The page of the import reads them, as that of a job does.
    assert_eq!(ada.get(&format!("/imports/{}", id(&job))).await.status, 200);
    stream.until("notices", |_, data| data["unread"] == 0).await;
    // Notices go with their tree.
    ada.delete(&format!("/api/v1/jobs/{}", id(&job))).await.expect(204);
    assert!(notices(&ada).await.is_empty());
    drop(stream);
    second.stop().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_watchers_who_may_see_a_job_receive_notices() {
    let server = Server::start_with(quick).await;
    let worker = server.service("worker", &["work"]).await;
    let (ada, bob) = (server.person("ada", "user").await, server.person("bob", "user").await);
    let (sam, tom) = (server.person("sam", "support").await, server.person("tom", "support").await);
    let mut receiver = Receiver::start().await;
    sam.patch(SETTINGS, json!({"webhook_url": receiver.url("/sam")})).await.expect(200);
    let job = waiting(&server, &ada, "march.csv").await;
    bob.post(&watch(&job), Value::Null).await.expect_problem(404, "not_found");
    server.post(&watch(&job), Value::Null).await.expect_problem(403, "forbidden");
    for staff in [&sam, &tom] {
        assert_eq!(staff.post(&watch(&job), Value::Null).await.expect(200), json!({"watching": true}));
    }
    assert_eq!(ada.delete(&watch(&job)).await.expect(200), json!({"watching": false}));
    assert_eq!(ada.get(&watch(&job)).await.expect(200), json!({"watching": false}));
    // Tom is no longer staff when the job completes.
    server.patch(&account(&server, "tom").await, json!({"role": "user", "reason": "moved"})).await.expect(200);
    let mut done = 0;
    until(async || {
        for row in claim(&worker, "slow", 2, 1).await {
            finish(&worker, &row).await;
            done += 1;
        }
        done == 2
    })
    .await;
    until(async || !notices(&sam).await.is_empty()).await;
    assert_eq!(kinds(&notices(&sam).await), ["finished"]);
    assert!(notices(&ada).await.is_empty() && notices(&tom).await.is_empty());
    // Sam loses the right as well, before the post has arrived: nothing is shown or sent any more.
    let post = receiver.next().await;
    assert_eq!(post.json()["data"]["job_id"], job["id"]);
    server.patch(&account(&server, "sam").await, json!({"role": "user", "reason": "moved"})).await.expect(200);
    until(async || notices(&sam).await.is_empty()).await;
    post.status(503);
    until(async || deliveries(&sam).await[0]["state"] == "abandoned").await;
    let delivery = deliveries(&sam).await.remove(0);
    let notice = &delivery["notice"];
    assert!(notice["job_id"].is_null() && notice["kind"].is_null(), "{delivery}");
    // Tries before the change may have arrived meanwhile; one after it does not.
    while receiver.now().is_some() {}
    sam.post(&format!("/api/v1/deliveries/{}/resend", id(&delivery)), json!({})).await.expect(200);
    until(async || deliveries(&sam).await[0]["state"] == "abandoned").await;
    assert!(receiver.now().is_none());
    server.stop().await;
}

/// The deletion of a tree deletes its notices, so it waits for those that are still to be delivered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tree_is_retained_until_its_notices_are_delivered() {
    let slow = |config: &mut Config| {
        quick(config);
        config.outbound.callback_retry_seconds = 3_600.0;
    };
    let server = Server::start_with(slow).await;
    let mut receiver = Receiver::start().await;
    let ada = server.person("ada", "user").await;
    ada.patch(SETTINGS, json!({"webhook_url": receiver.url("/ada")})).await.expect(200);
    server.put("/api/v1/job-types/a", json!({"retain_seconds": 1})).await.expect(201);
    let tree = json!({"type": "a", "sealed": true, "items": [{"payload": 1}]});
    let job = ada.post("/api/v1/jobs", tree).await.expect(201);
    ada.post(&watch(&job), Value::Null).await.expect(200);
    finish(&server, &claim(&server, "a", 1, 5).await[0]).await;
    receiver.next().await.status(503);
    let deferred = "select count(*) from maintenance_check where next_check_at > now() + interval '20 seconds'";
    let n_deferred =
        async || -> i64 { sqlx::query_scalar(deferred).fetch_one(&server.running.app.pool).await.expect("a number") };
    until(async || n_deferred().await == 1).await;
    ada.get(&format!("/api/v1/jobs/{}", id(&job))).await.expect(200);
    let waiting = deliveries(&ada).await.remove(0);
    ada.post(&format!("/api/v1/deliveries/{}/resend", id(&waiting)), json!({})).await.expect(200);
    receiver.next().await.status(204);
    until(async || deliveries(&ada).await[0]["state"] == "delivered").await;
    let due = "update maintenance_check set next_check_at = now()";
    sqlx::query(due).execute(&server.running.app.pool).await.expect("a check");
    until(async || ada.get(&format!("/api/v1/jobs/{}", id(&job))).await.status == 410).await;
    server.stop().await;
}

fn with_mail(port: u16) -> impl Fn(&mut Config) {
    move |config| {
        quick(config);
        config.mail.smtp_url = Some(format!("smtp://127.0.0.1:{port}").parse().expect("a secret"));
        config.mail.smtp_from = Some("Treeline <treeline@sender.example>".to_owned());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notices_reach_mail_and_webhook_once_and_are_retried() {
    let mut smtp = SmtpServer::stopped();
    let server = Server::start_with(with_mail(smtp.port)).await;
    let worker = server.service("worker", &["work"]).await;
    let mut receiver = Receiver::start().await;
    let ada = server.person("ada", "user").await;
    ada.patch(SETTINGS, json!({"email": true})).await.expect_problem(422, "invalid_body");
    let address = "update owner set email = 'ada@example.com' where name = 'ada'";
    sqlx::query(address).execute(&server.running.app.pool).await.expect("an address");
    let refused = ada.patch(SETTINGS, json!({"webhook_url": "http://10.0.0.1/"})).await;
    assert_eq!(refused.expect_problem(422, "url_not_allowed")["errors"][0]["pointer"], "/webhook_url");
    let settings =
        json!({"email": true, "webhook_url": receiver.url("/notices?key=h1dd3n"), "webhook_secret": "own-s3cret"});
    let stored = ada.patch(SETTINGS, settings).await;
    assert!(!stored.text.contains("h1dd3n") && !stored.text.contains("own-s3cret"), "{}", stored.text);
    assert_eq!(stored.expect(200)["has_webhook_secret"], true);

    let job = waiting(&server, &ada, "march.csv").await;
    let mut done = 0;
    until(async || {
        for row in claim(&worker, "slow", 2, 1).await {
            finish(&worker, &row).await;
            done += 1;
        }
        done == 2
    })
    .await;
    let first = receiver.next().await;
    assert!(first.path == "/notices?key=h1dd3n" && first.is_signed_by(b"own-s3cret"), "{:?}", first.headers);
    let (webhook_id, body) = (first.header("webhook-id").to_owned(), first.json());
    assert_eq!((&body["type"], &body["data"]["job_id"]), (&json!("notice.finished"), &job["id"]));
    first.status(503);
    let again = receiver.next().await;
    assert_eq!(again.header("webhook-id"), webhook_id);
    again.status(204);
    smtp.start(&[]).await;
    let mail = smtp.wait_for(1).await.remove(0);
    assert_eq!(header(&mail, "To"), "ada@example.com");
    assert_eq!(header(&mail, "Subject"), "[Treeline] march.csv: Completed");
    assert!(mail.contains(&format!("/imports/{}", id(&job))) && !mail.contains("ann"), "{mail}");
    assert!(mail.contains("this import") && !mail.contains("stop watching"), "{mail}");
    until(async || {
        // On a busy machine a try may have ended before it was answered.
        while let Some(again) = receiver.now() {
            assert_eq!(again.header("webhook-id"), webhook_id);
            again.status(204);
        }
        let all = deliveries(&ada).await;
        all.len() == 2 && all.iter().all(|one| one["state"] == "delivered")
    })
    .await;
    let all = deliveries(&ada).await;
    assert!(all.iter().any(|one| one["url"] == "mailto:ada@example.com" && one["notice"]["kind"] == "finished"));
    assert_eq!((smtp.messages().len(), receiver.now().is_none()), (1, true));

    // Who turned notices off is sent nothing more, even if somebody sends one again.
    ada.patch(SETTINGS, json!({"email": false, "webhook_url": null})).await.expect(200);
    for one in &all {
        ada.post(&format!("/api/v1/deliveries/{}/resend", id(one)), json!({})).await.expect(200);
    }
    until(async || deliveries(&ada).await.iter().all(|one| one["state"] == "abandoned")).await;
    assert_eq!((smtp.messages().len(), receiver.now().is_none()), (1, true));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notice_pages_work_by_forms() {
    let server = Server::start_with(quick).await;
    let worker = server.service("worker", &["work"]).await;
    let sam = server.person("sam", "support").await;
    let job = waiting(&server, &sam, "march.csv").await;
    let path = format!("/jobs/{}", id(&job));
    assert!(sam.get(&path).await.text.contains("Stop watching"));
    for (form, word) in [("unwatch", "You do not watch this job any more."), ("watch", "You watch this job")] {
        let answer = sam.form(&format!("{path}/{form}"), &[]).await;
        assert_eq!(answer.status, 303, "{}", answer.text);
        let page = sam.get(answer.headers["location"].to_str().expect("text")).await.text;
        assert!(page.contains(word), "{page}");
    }
    let page = sam.get("/account").await.text;
    assert!(page.contains("id=\"notice-form\"") && page.contains("This server sends no mail."), "{page}");
    let refused = sam.form("/account/notices", &[("in_page", "yes"), ("webhook_url", "http://10.0.0.1/")]).await;
    assert_eq!(refused.status, 422, "{}", refused.text);
    assert!(refused.text.contains("id=\"webhook_url-fault\"") && refused.text.contains("value=\"http://10.0.0.1/\""));
    let saved = sam.form("/account/notices", &[("browser", "yes"), ("in_page", "yes")]).await;
    assert_eq!(saved.status, 303, "{}", saved.text);
    assert_eq!(sam.get(SETTINGS).await.expect(200)["browser"], true);

    let mut done = 0;
    until(async || {
        for row in claim(&worker, "slow", 2, 1).await {
            finish(&worker, &row).await;
            done += 1;
        }
        done == 2
    })
    .await;
    until(async || !notices(&sam).await.is_empty()).await;
    let page = sam.get("/jobs").await.text;
    assert!(page.contains("Notices: 1 unread") && page.contains(&format!("href=\"{path}\"")), "{page}");
    let read = sam.form("/notices/read", &[("back", "/jobs")]).await;
    assert_eq!((read.status.as_u16(), read.headers["location"].to_str().expect("text")), (303, "/jobs"));
    assert!(!sam.get("/jobs").await.text.contains("1 unread"));
    server.stop().await;
}
