//! Alert channels: each alert that matches a rule reaches each receiver once when it is raised and once when it is over
//! (`alert-channels`). Mail is in `alert_mail`, pages are in `alert_channel_pages`.

use domain::notify::alert::AlertKind;
use engine::store::notify::alerts::RaiseRow;
use serde_json::{Value, json};
use server::config::Config;

use crate::{
    bulk::id,
    callbacks::{quick, statuses},
    retention::until,
    support::{Api, Server, receiver::Receiver},
};

pub(crate) const CHANNELS: &str = "/api/v1/alert-channels";

pub(crate) async fn channel(api: &Api, body: Value) -> Value {
    api.post(CHANNELS, body).await.expect(201)
}

/// Raises an alert, or counts it again.
pub(crate) async fn raise(server: &Server, kind: AlertKind, subject: &str, job_type: Option<&str>) {
    let row = RaiseRow {
        kind,
        subject: subject.to_owned(),
        message: format!("w-1: {subject} <b>&"),
        owner_id: None,
        job_type: job_type.map(str::to_owned),
        root_id: None,
        job_id: None,
        item_id: None,
    };
    server.running.app.engine.raise_alert(row).await;
}

pub(crate) async fn clear(server: &Server, kind: AlertKind, subject: &str) {
    server.running.app.engine.clear_alert(kind, subject).await.expect("cleared");
}

pub(crate) async fn deliveries(api: &Api, channel: &Value) -> Vec<Value> {
    let list = api.get(&format!("/api/v1/deliveries?channel={}&sort=created_at", id(channel))).await.expect(200);
    list["data"].as_array().expect("a list").clone()
}

/// Events and states of a channel's deliveries, oldest first.
async fn events(api: &Api, channel: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    deliveries(api, channel).await.iter().map(|one| (text(&one["alert"]["event"]), text(&one["state"]))).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(event, state)| ((*event).to_owned(), (*state).to_owned())).collect()
}

async fn until_events(api: &Api, channel: &Value, expected: &[(&str, &str)]) {
    let expected = pairs(expected);
    until(async || events(api, channel).await == expected).await;
}

fn webhook(receiver: &Receiver) -> Value {
    json!({"name": "Ops", "kind": "webhook", "url": receiver.url("/alerts?key=s3cret"), "secret": "own-s3cret"})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alert_channel_receives_raised_and_cleared_once() {
    let server = Server::start_with(quick).await;
    let second = server.another_with(quick).await;
    let mut receiver = Receiver::start().await;
    raise(&server, AlertKind::Worker, "before", None).await;
    let channel = channel(&server, webhook(&receiver)).await;
    raise(&server, AlertKind::Worker, "paper", Some("a")).await;

    let first = receiver.next().await;
    assert_eq!(first.path, "/alerts?key=s3cret");
    assert!(first.is_signed_by(b"own-s3cret") && !first.is_signed_by(b"other"), "{:?}", first.headers);
    let (webhook_id, raised) = (first.header("webhook-id").to_owned(), first.json());
    assert_eq!((&raised["type"], &raised["data"]["subject"]), (&json!("alert.raised"), &json!("paper")));
    assert_eq!(raised["data"]["cleared_at"], Value::Null);
    first.status(503);
    let again = receiver.next().await;
    assert_eq!((again.header("webhook-id"), &again.json()), (webhook_id.as_str(), &raised), "the same message");
    again.status(204);
    until_events(&server, &channel, &[("raised", "delivered")]).await;
    let delivered = deliveries(&server, &channel).await;
    assert_eq!(statuses(&delivered[0]), [json!(503), json!(204)]);
    assert_eq!((&delivered[0]["id"], &delivered[0]["job_id"]), (&json!(webhook_id), &Value::Null));
    assert_eq!(delivered[0]["url"], receiver.url("/alerts?…"), "without its secret");
    assert_eq!(
        delivered[0]["alert"],
        json!({"channel_id": channel["id"], "channel": "Ops", "kind": "webhook", "event": "raised",
            "alert_id": raised["data"]["id"]})
    );

    clear(&server, AlertKind::Worker, "paper").await;
    let cleared = receiver.next().await;
    assert!(cleared.is_signed_by(b"own-s3cret") && cleared.header("webhook-id") != webhook_id);
    let body = cleared.json();
    assert_eq!((&body["type"], &body["data"]["id"]), (&json!("alert.cleared"), &raised["data"]["id"]));
    assert!(body["data"]["cleared_at"].is_string(), "{body}");
    cleared.status(200);
    until_events(&server, &channel, &[("raised", "delivered"), ("cleared", "delivered")]).await;
    // Nothing would clear it at the receiver again.
    let resend = format!("/api/v1/deliveries/{webhook_id}/resend");
    server.post(&resend, json!({"reason": "asked"})).await.expect_problem(409, "not_resendable");
    // The same subject again is another alert.
    raise(&server, AlertKind::Worker, "paper", Some("a")).await;
    receiver.next().await.status(204);
    assert!(receiver.now().is_none(), "each once, by two servers; and nothing from before there was a channel");
    second.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn alert_channel_rule_limits_kind_type_count_and_time() {
    let server = Server::start_with(quick).await;
    let mut receiver = Receiver::start().await;
    let rule = |name: &str, more: Value| {
        let mut body = webhook(&receiver);
        body["name"] = json!(name);
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        body
    };
    let narrow = json!({"kinds": ["worker"], "types": ["a"], "min_count": 2, "send_cleared": false});
    let narrow = channel(&server, rule("narrow", narrow)).await;
    let slow = channel(&server, rule("slow", json!({"kinds": ["ending_refused"], "after_seconds": 2}))).await;
    raise(&server, AlertKind::EndingRefused, "short", None).await;
    clear(&server, AlertKind::EndingRefused, "short").await;
    raise(&server, AlertKind::EndingRefused, "long", None).await;
    raise(&server, AlertKind::Worker, "other type", Some("b")).await;
    raise(&server, AlertKind::Worker, "other type", Some("b")).await;
    raise(&server, AlertKind::Worker, "no type", None).await;
    raise(&server, AlertKind::Worker, "no type", None).await;
    raise(&server, AlertKind::Worker, "once", Some("a")).await;
    let long = receiver.next().await;
    assert_eq!(long.json()["data"]["subject"], "long", "the short one was over before its time");
    long.status(204);
    raise(&server, AlertKind::Worker, "once", Some("a")).await;
    let twice = receiver.next().await;
    assert_eq!((&twice.json()["data"]["subject"], &twice.json()["data"]["count"]), (&json!("once"), &json!(2)));
    twice.status(204);
    clear(&server, AlertKind::Worker, "once").await;
    clear(&server, AlertKind::EndingRefused, "long").await;
    receiver.next().await.status(204);
    until_events(&server, &slow, &[("raised", "delivered"), ("cleared", "delivered")]).await;
    assert_eq!(events(&server, &narrow).await, pairs(&[("raised", "delivered")]));
    assert!(receiver.now().is_none());
    server.stop().await;
}

#[tokio::test]
async fn slack_and_pagerduty_messages_follow_their_documentation() {
    let server = Server::start_with(quick).await;
    let (mut slack, mut pager) = (Receiver::start().await, Receiver::start().await);
    channel(&server, json!({"name": "Chat", "kind": "slack", "url": slack.url("/services/T0/B0/XX")})).await;
    let key = "0123456789abcdef0123456789abcdef";
    let paging = json!({"name": "Page", "kind": "pagerduty", "routing_key": key, "url": pager.url("/v2/enqueue")});
    channel(&server, paging).await;
    raise(&server, AlertKind::Worker, "paper", Some("a")).await;
    let address = server.running.app.public_url.as_str().to_owned();
    let host = address.strip_prefix("http://").expect("http").to_owned();

    let raised = slack.next_of_another_service().await;
    assert_eq!((raised.path.as_str(), raised.header("content-type")), ("/services/T0/B0/XX", "application/json"));
    assert_eq!(raised.header("webhook-signature"), "");
    let body = raised.json();
    let ts = body["attachments"][0]["ts"].clone();
    assert!(ts.is_i64(), "{body}");
    let text = "w-1: paper &lt;b&gt;&amp;";
    let summary = format!("Reported by a worker: {text}");
    assert_eq!(
        body,
        json!({"text": summary, "attachments": [{"color": "danger", "fallback": summary, "title": "Reported by a worker",
            "title_link": format!("{address}/types/a"), "text": text, "footer": host, "ts": ts,
            "fields": [{"title": "Job type", "value": "a", "short": true}]}]})
    );
    raised.text(200, "ok");

    let trigger = pager.next_of_another_service().await;
    assert_eq!((trigger.path.as_str(), trigger.header("content-type")), ("/v2/enqueue", "application/json"));
    let body = trigger.json();
    let alert = body["payload"]["custom_details"].clone();
    assert_eq!(
        body,
        json!({"routing_key": key, "event_action": "trigger", "dedup_key": alert["id"], "client": "Treeline",
            "client_url": address, "links": [{"href": format!("{address}/types/a"), "text": "Open in Treeline"}],
            "payload": {"summary": "Reported by a worker: w-1: paper <b>&", "source": host, "severity": "warning",
                "timestamp": alert["raised_at"], "component": "a", "class": "worker", "custom_details": alert}})
    );
    let accepted = json!({"status": "success", "message": "Event processed", "dedup_key": alert["id"]});
    trigger.text(202, &accepted.to_string());
    clear(&server, AlertKind::Worker, "paper").await;
    let resolve = pager.next_of_another_service().await;
    let expected = json!({"routing_key": key, "event_action": "resolve", "dedup_key": alert["id"]});
    assert_eq!(resolve.json(), expected);
    resolve.text(202, "{}");
    let good = slack.next_of_another_service().await;
    let body = good.json();
    assert_eq!(body["attachments"][0]["color"], "good", "{body}");
    assert_eq!(body["text"], format!("Cleared: {summary}"));
    good.text(200, "ok");
    server.stop().await;
}

/// Quiet at all times.
fn always_quiet() -> Value {
    json!({"time_zone": "Europe/Berlin", "from": "00:00", "to": "00:00", "days": []})
}

#[tokio::test]
async fn quiet_hours_hold_alerts_until_their_end() {
    let server = Server::start_with(quick).await;
    let (mut receiver, mut pager) = (Receiver::start().await, Receiver::start().await);
    let mut body = webhook(&receiver);
    body["quiet_hours"] = always_quiet();
    let silent = channel(&server, body).await;
    let key = "0123456789abcdef0123456789abcdef";
    let paging = json!({"name": "Page", "kind": "pagerduty", "routing_key": key, "url": pager.url("/v2/enqueue")});
    let paging = channel(&server, paging).await;
    for subject in ["over before", "still open"] {
        raise(&server, AlertKind::Worker, subject, None).await;
        pager.next_of_another_service().await.status(202);
    }
    let pool = &server.running.app.pool;
    let postponed = "select count(*) from alert_announcement where state = 1";
    until(async || sqlx::query_scalar::<_, i64>(postponed).fetch_one(pool).await.expect("a number") == 2).await;
    assert_eq!(events(&server, &silent).await, []);

    // Resolving an incident disturbs nobody.
    let path = |channel: &Value| format!("{CHANNELS}/{}", id(channel));
    server.patch(&path(&paging), json!({"quiet_hours": always_quiet()})).await.expect(200);
    clear(&server, AlertKind::Worker, "over before").await;
    let resolved = pager.next_of_another_service().await;
    assert_eq!(resolved.json()["event_action"], "resolve");
    resolved.status(202);

    let changed = server.patch(&path(&silent), json!({"quiet_hours": null})).await.expect(200);
    assert_eq!(changed["quiet_hours"], Value::Null);
    let post = receiver.next().await;
    assert_eq!((&post.json()["type"], &post.json()["data"]["subject"]), (&json!("alert.raised"), &json!("still open")));
    post.status(204);
    until_events(&server, &silent, &[("raised", "delivered")]).await;
    server.patch(&path(&silent), json!({"quiet_hours": always_quiet()})).await.expect(200);
    clear(&server, AlertKind::Worker, "still open").await;
    pager.next_of_another_service().await.status(202);
    server.patch(&path(&silent), json!({"quiet_hours": null})).await.expect(200);
    let post = receiver.next().await;
    assert_eq!(post.json()["type"], "alert.cleared");
    post.status(204);
    until_events(&server, &silent, &[("raised", "delivered"), ("cleared", "delivered")]).await;
    assert!(receiver.now().is_none(), "nothing about what was over before the end");
    server.stop().await;
}

#[tokio::test]
async fn cleared_supersedes_raised_that_has_not_arrived() {
    let slow = |config: &mut Config| {
        quick(config);
        config.outbound.callback_retry_seconds = 3_600.0;
    };
    let server = Server::start_with(slow).await;
    let mut receiver = Receiver::start().await;
    let channel = channel(&server, webhook(&receiver)).await;
    raise(&server, AlertKind::Worker, "paper", None).await;
    receiver.next().await.status(500);
    clear(&server, AlertKind::Worker, "paper").await;
    let post = receiver.next().await;
    assert_eq!(post.json()["type"], "alert.cleared");
    post.status(204);
    until_events(&server, &channel, &[("raised", "superseded"), ("cleared", "delivered")]).await;
    let resend = format!("/api/v1/deliveries/{}/resend", id(&deliveries(&server, &channel).await[0]));
    server.post(&resend, json!({"reason": "asked"})).await.expect_problem(409, "not_resendable");
    let resend = format!("/api/v1/deliveries/{}/resend", id(&deliveries(&server, &channel).await[1]));
    server.post(&resend, json!({})).await.expect_problem(422, "reason_required");
    server.post(&resend, json!({"reason": "asked"})).await.expect(200);
    receiver.next().await.status(204);
    server.stop().await;
}

#[tokio::test]
async fn alert_of_a_channel_that_gave_up_goes_to_other_channels() {
    let server = Server::start_with(quick).await;
    let (mut broken, mut other) = (Receiver::start().await, Receiver::start().await);
    let rule = json!({"name": "Broken", "kind": "webhook", "url": broken.url("/")});
    let gone = channel(&server, rule).await;
    let rule = json!({"name": "Other", "kind": "webhook", "url": other.url("/"), "kinds": ["delivery_failed"]});
    channel(&server, rule).await;
    raise(&server, AlertKind::Worker, "paper", None).await;
    broken.next().await.status(410);
    let post = other.next().await;
    let data = post.json()["data"].clone();
    assert_eq!((&data["kind"], &data["subject"]), (&json!("delivery_failed"), &gone["id"]));
    assert!(data["message"].as_str().expect("text").contains("alert channel Broken"), "{data}");
    post.status(204);
    until_events(&server, &gone, &[("raised", "failed")]).await;
    assert!(broken.now().is_none(), "nothing about itself");

    // Another message arrives: the alert is over.
    server.post(&format!("{CHANNELS}/{}/test", id(&gone)), json!(null)).await.expect(202);
    broken.next().await.status(204);
    let over = other.next().await;
    assert_eq!((&over.json()["type"], &over.json()["data"]["subject"]), (&json!("alert.cleared"), &gone["id"]));
    over.status(204);

    // Without its channel a message is given up.
    server.post(&format!("{CHANNELS}/{}/test", id(&gone)), json!(null)).await.expect(202);
    broken.next().await.status(503);
    server.delete(&format!("{CHANNELS}/{}", id(&gone))).await.expect(204);
    until(async || events(&server, &gone).await.contains(&("test".to_owned(), "abandoned".to_owned()))).await;
    let left = deliveries(&server, &gone).await;
    assert_eq!((&left[0]["url"], &left[0]["alert"]["channel"]), (&Value::Null, &Value::Null));
    server.get(&format!("{CHANNELS}/{}", id(&gone))).await.expect_problem(404, "not_found");
    server.stop().await;
}

#[tokio::test]
async fn alert_channel_test_is_sent_whatever_its_rule_says() {
    let server = Server::start_with(quick).await;
    let mut receiver = Receiver::start().await;
    let mut body = webhook(&receiver);
    body["quiet_hours"] = always_quiet();
    body["paused"] = json!(true);
    body.as_object_mut().expect("an object").remove("secret");
    let paused = channel(&server, body).await;
    raise(&server, AlertKind::Worker, "paper", None).await;
    let written = server.post(&format!("{CHANNELS}/{}/test", id(&paused)), json!(null)).await.expect(202);
    assert_eq!((&written["data"][0]["alert"]["event"], &written["next_cursor"]), (&json!("test"), &Value::Null));
    let post = receiver.next().await;
    let expected = json!({"channel_id": paused["id"], "channel": "Ops"});
    assert_eq!((&post.json()["type"], &post.json()["data"]), (&json!("alert.test"), &expected));
    let secret = server.program(&["signing-secret", "--alerts"]).await;
    let key = engine::signing::Key::of(secret.trim());
    let (id, at) = (post.header("webhook-id"), post.header("webhook-timestamp").parse().expect("a number"));
    assert_eq!(post.header("webhook-signature"), key.sign(id, at, post.body.as_bytes()), "the key for alerts");
    post.status(204);
    until_events(&server, &paused, &[("test", "delivered")]).await;
    server.stop().await;
}

#[tokio::test]
async fn alert_channel_receivers_follow_the_policy_of_callbacks() {
    let closed = Server::start().await;
    let to = |kind: &str, url: &str| json!({"name": "x", "kind": kind, "url": url});
    for kind in ["webhook", "slack"] {
        for url in [
            "http://127.0.0.1:9/",
            "http://10.0.0.1/",
            "http://169.254.169.254/",
            "https://u:hunter2@hooks.example/",
            "ftp://x",
        ] {
            let refused = closed.post(CHANNELS, to(kind, url)).await.expect_problem(422, "url_not_allowed");
            assert!(!refused.to_string().contains("hunter2"), "{refused}");
            assert_eq!(refused["errors"][0]["pointer"], "/url", "{url}");
        }
    }
    let channel = channel(&closed, to("webhook", "https://hooks.example/a")).await;
    let path = format!("{CHANNELS}/{}", id(&channel));
    let moved = closed.patch(&path, json!({"url": "http://127.0.0.1:9/"})).await;
    assert_eq!(moved.expect_problem(422, "url_not_allowed")["errors"][0]["pointer"], "/url");
    closed.stop().await;

    let open = Server::start_with(|config| config.callback_allow = "0.0.0.0/0".parse().expect("a list")).await;
    open.post(CHANNELS, to("webhook", "http://169.254.169.254/")).await.expect_problem(422, "url_not_allowed");
    open.post(CHANNELS, to("webhook", "http://127.0.0.1:9/")).await.expect(201);
    let quiet = |from: &str, zone: &str| json!({"time_zone": zone, "from": from, "to": "07:00"});
    for (pointer, body) in [
        ("/url", json!({"name": "x", "kind": "webhook"})),
        ("/url", json!({"name": "x", "kind": "slack"})),
        ("/routing_key", json!({"name": "x", "kind": "pagerduty"})),
        ("/routing_key", json!({"name": "x", "kind": "pagerduty", "routing_key": "not a key"})),
        ("/to", json!({"name": "x", "kind": "slack", "url": "https://hooks.example/", "to": ["a@example.com"]})),
        ("/kind", json!({"name": "x", "kind": "email", "to": ["a@example.com"]})),
        ("/secret", json!({"name": "x", "kind": "webhook", "url": "https://hooks.example/", "secret": "short"})),
        ("/secret", json!({"name": "x", "kind": "slack", "url": "https://hooks.example/", "secret": "long enough"})),
        ("/name", json!({"name": "", "kind": "webhook", "url": "https://hooks.example/"})),
        ("/types/0", json!({"name": "x", "kind": "webhook", "url": "https://hooks.example/", "types": ["Not a name"]})),
        ("/min_count", json!({"name": "x", "kind": "webhook", "url": "https://hooks.example/", "min_count": 0})),
        (
            "/after_seconds",
            json!({"name": "x", "kind": "webhook", "url": "https://hooks.example/", "after_seconds": -1}),
        ),
        (
            "/quiet_hours/from",
            json!({"name": "x", "kind": "webhook", "url": "https://hooks.example/", "quiet_hours": quiet("7:00", "UTC")}),
        ),
        (
            "/quiet_hours/time_zone",
            json!({"name": "x", "kind": "webhook", "url": "https://hooks.example/", "quiet_hours": quiet("07:00", "Mars/Base")}),
        ),
    ] {
        let refused = open.post(CHANNELS, body.clone()).await.expect_problem(422, "invalid_body");
        let pointers: Vec<&Value> =
            refused["errors"].as_array().expect("errors").iter().map(|one| &one["pointer"]).collect();
        assert!(pointers.contains(&&json!(pointer)), "{pointer}: {refused}");
    }
    open.post(CHANNELS, json!([])).await.expect_problem(422, "invalid_body");
    open.stop().await;
}

#[tokio::test]
async fn secrets_of_alert_channels_are_never_shown() {
    let server = Server::start_with(quick).await;
    let mut receiver = Receiver::start().await;
    let url = receiver.url("/services/h1dd3n?key=h1dd3n");
    let slack = channel(&server, json!({"name": "Chat", "kind": "slack", "url": url})).await;
    assert_eq!(slack["url"], receiver.url("/…"));
    let hook =
        json!({"name": "Hook", "kind": "webhook", "url": receiver.url("/?key=h1dd3n"), "secret": "h1dd3n-secret"});
    channel(&server, hook).await;
    let paging = json!({"name": "Page", "kind": "pagerduty", "routing_key": "h1dd3n", "url": receiver.url("/")});
    let paging = channel(&server, paging).await;
    let path = format!("{CHANNELS}/{}", id(&paging));
    // The key does not follow the URL to another host.
    let moved = server.patch(&path, json!({"url": "https://elsewhere.example/"})).await;
    assert_eq!(moved.expect_problem(422, "invalid_body")["errors"][0]["pointer"], "/routing_key");
    server.patch(&path, json!({"url": receiver.url("/v3")})).await.expect(200);
    server.post(&format!("{CHANNELS}/{}/test", id(&slack)), json!(null)).await.expect(202);
    receiver.next_of_another_service().await.text(404, "no_service");
    until(async || !statuses(&deliveries(&server, &slack).await[0]).is_empty()).await;
    let admin = server.admin().await;
    let delivery = format!("/deliveries/{}", id(&deliveries(&server, &slack).await[0]));
    for page in [CHANNELS, "/api/v1/deliveries", "/api/v1/audit", "/api/v1/alerts?all=true"] {
        let shown = server.get(page).await.text;
        assert!(!shown.contains("h1dd3n"), "{page}: {shown}");
    }
    let page = format!("/alert-channels/{}", id(&slack));
    for page in ["/alert-channels", "/deliveries", "/audit", "/", page.as_str(), delivery.as_str()] {
        let shown = admin.get(page).await;
        assert!(shown.status == 200 && !shown.text.contains("h1dd3n"), "{page}: {}", shown.text);
    }
    let actions = server.get("/api/v1/audit?action=alert_channel.test").await.expect(200);
    let detail = format!("Chat (slack): {}", receiver.url("/…"));
    assert_eq!(actions["data"][0]["detail"], detail, "{actions}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_of_alert_channels_are_not_logged() {
    let server = Server::start_with(|config| config.roles = "web".parse().expect("roles")).await;
    let folder = tempfile::TempDir::new().expect("a folder");
    let log = folder.path().join("log");
    let environment = [
        ("RUST_LOG", "debug"),
        ("TREELINE_LOG_HTTP", "1"),
        ("TREELINE_CALLBACK_ALLOW", "127.0.0.1"),
        ("TREELINE_CALLBACK_RETRY_SECONDS", "0.1"),
        // No mail server: what is sent there fails.
        ("TREELINE_SMTP_URL", "smtp://ann:h1dd3n@127.0.0.1:9"),
        ("TREELINE_SMTP_FROM", "treeline@sender.example"),
    ];
    let file = std::fs::File::create(&log).expect("a file");
    let program = server.spawn_program_logging_to(file.into(), &environment).await;
    let mut receiver = Receiver::start().await;
    let hook =
        json!({"name": "Hook", "kind": "webhook", "url": receiver.url("/?key=h1dd3n"), "secret": "h1dd3n-secret"});
    let slack = json!({"name": "Chat", "kind": "slack", "url": receiver.url("/services/h1dd3n")});
    let pager = json!({"name": "Page", "kind": "pagerduty", "routing_key": "h1dd3n", "url": receiver.url("/v2")});
    let mail = json!({"name": "Mail", "kind": "email", "to": ["ann@example.com"]});
    for body in [hook, slack, pager] {
        let channel = channel(&program.api, body).await;
        program.api.post(&format!("{CHANNELS}/{}/test", id(&channel)), json!(null)).await.expect(202);
        receiver.next_of_another_service().await.status(500);
        receiver.next_of_another_service().await.status(200);
        until_events(&server, &channel, &[("test", "delivered")]).await;
    }
    let mail = channel(&program.api, mail).await;
    program.api.post(&format!("{CHANNELS}/{}/test", id(&mail)), json!(null)).await.expect(202);
    until(async || statuses(&deliveries(&server, &mail).await[0]).len() > 1).await;
    let shown = json!(deliveries(&server, &mail).await).to_string();
    program.terminate().await;
    let logged = std::fs::read_to_string(&log).expect("the log");
    assert!(logged.contains("/api/v1/alert-channels"), "{logged}");
    assert!(!logged.contains("h1dd3n") && !shown.contains("h1dd3n"), "{shown} {logged}");
    server.stop().await;
}
