//! Waits for events (`waiting-for-events`): an item waits without a lease, one event continues it once, and the next claim
//! carries the event; forms are answered on the page of the item.

use std::time::Duration;

use client::{Client, Document, Drain, Task, Unfinished, Worker};
use futures::{StreamExt as _, future::join_all, stream};
use serde_json::{Value, json};

use crate::{
    bulk::{claim, id},
    retention::until,
    support::{Answer, Api, Server, TOKEN, invariants},
};

/// Creates a job of the type `a` with these items. Returns its id.
async fn job_of(api: &Api, items: Value) -> String {
    id(&api.post("/api/v1/jobs", json!({"type": "a", "sealed": true, "items": items})).await.expect(201))
}

/// Claims one item and lets it wait. Returns the item's id.
async fn wait_for(worker: &Api, body: Value) -> String {
    let assignment = claim(worker, "a", 1, 20).await.remove(0);
    let ended = worker.post(&format!("/api/v1/assignments/{}/wait", id(&assignment)), body).await.expect(200);
    assert_eq!((&ended["item_state"], &ended["ended_as"]), (&json!("waiting_for_event"), &json!("waiting")), "{ended}");
    id(&assignment["item"])
}

async fn item(api: &Api, id: &str) -> Value {
    api.get(&format!("/api/v1/items/{id}")).await.expect(200)
}

async fn send(api: &Api, item: &str, body: Value) -> Answer {
    api.post(&format!("/api/v1/items/{item}/events"), body).await
}

async fn send_with_key(api: &Api, item: &str, key: &str, body: &Value) -> Answer {
    let request = api.request(reqwest::Method::POST, &format!("/api/v1/items/{item}/events"));
    Answer::of(request.header("idempotency-key", key).json(body)).await
}

fn form() -> Value {
    json!({"title": "Approve the invoice?", "description": "It is above the limit.", "fields": [
        {"name": "decision", "type": "choice", "choices": ["approve", "reject"], "required": true, "title": "Decision"},
        {"name": "amount", "type": "number"},
        {"name": "note", "type": "text", "description": "Shown to the sender."},
        {"name": "urgent", "type": "boolean"}]})
}

/// The event is in every claim until the item waits again; the wait holds no lease and counts no failure.
#[tokio::test]
async fn event_continues_a_waiting_item_once() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({"concurrency": 1, "heartbeat_seconds": 1})).await.expect(201);
    let job = job_of(&server, json!([{"payload": 1}, {"payload": 2}])).await;
    let shown = server.get(&format!("/api/v1/jobs/{job}")).await.expect(200);
    assert_eq!(shown["counts"]["waiting_for_event"], 0, "one of the states, with or without items");
    let waiting = wait_for(&server, json!({"name": "approval"})).await;
    let now = item(&server, &waiting).await;
    assert_eq!(
        (&now["state"], &now["attempts"], &now["failures"]),
        (&json!("waiting_for_event"), &json!(1), &json!(0))
    );
    assert_eq!((&now["waiting_for"]["reason"], &now["waiting_for"]["until"]), (&json!("event"), &Value::Null));
    assert_eq!(
        (&now["wait"]["name"], &now["assignment"], &now["event"]),
        (&json!("approval"), &Value::Null, &Value::Null)
    );
    let shown = server.get(&format!("/api/v1/jobs/{job}")).await.expect(200);
    assert_eq!((&shown["counts"]["waiting_for_event"], &shown["status"]), (&json!(1), &json!("running")), "{shown}");
    let listed = server.get("/api/v1/items?state=waiting_for_event").await.expect(200)["data"].clone();
    assert_eq!((listed.as_array().map(Vec::len), id(&listed[0])), (Some(1), waiting.clone()));

    // It takes no place under the cap: the other item runs, and completes.
    let other = claim(&server, "a", 1, 20).await.remove(0);
    server.post(&format!("/api/v1/assignments/{}/result", id(&other)), json!({})).await.expect(200);
    let shown = server.get(&format!("/api/v1/jobs/{job}")).await.expect(200);
    assert_eq!((&shown["status"], &shown["completed_at"]), (&json!("running"), &Value::Null));
    let page = server.get(&format!("/jobs/{job}")).await.text.replace("<!>", "");
    for text in [
        "Nothing is in progress right now: 1 item waits for an answer or an event.",
        &format!("<a href=\"/items/{waiting}\">Item 1</a> waits for \u{201c}approval\u{201d} since "),
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }

    send(&server, &waiting, json!({"name": "payment"})).await.expect_problem(409, "other_event");
    let data = json!({"ok": true, "n": 1});
    let sent = send(&server, &waiting, json!({"name": "approval", "data": data})).await.expect(200);
    assert_eq!((&sent["state"], &sent["event"]["data"], &sent["wait"]), (&json!("available"), &data, &Value::Null));
    let refused = send(&server, &waiting, json!({"name": "approval"})).await.expect_problem(409, "not_waiting");
    assert_eq!(refused["item_state"], "available");

    let again = claim(&server, "a", 1, 20).await.remove(0);
    let event = &again["item"]["event"];
    assert_eq!((&again["attempt"], &event["name"], &event["data"]), (&json!(2), &json!("approval"), &data));
    assert_eq!((&event["timed_out"], &event["by"]["kind"]), (&json!(false), &json!("service")));
    // A worker that dies with the event leaves it to the next one.
    let after = claim(&server, "a", 1, 20).await.remove(0);
    assert_eq!((&after["attempt"], &after["item"]["event"]), (&json!(3), event));
    server.post(&format!("/api/v1/assignments/{}/wait", id(&after)), json!({"name": "second"})).await.expect(200);
    assert_eq!(item(&server, &waiting).await["event"], Value::Null);
    send(&server, &waiting, json!({"name": "second"})).await.expect(200);
    let last = claim(&server, "a", 1, 20).await.remove(0);
    assert_eq!((&last["item"]["event"]["name"], &last["item"]["event"]["data"]), (&json!("second"), &Value::Null));
    server.post(&format!("/api/v1/assignments/{}/result", id(&last)), json!({})).await.expect(200);
    let done = server.get(&format!("/api/v1/jobs/{job}")).await.expect(200);
    assert_eq!((&done["outcome"], &done["counts"]["waiting_for_event"]), (&json!("succeeded"), &json!(0)));
    let attempts = server.get(&format!("/api/v1/items/{waiting}/attempts")).await.expect(200)["data"].clone();
    let ends: Vec<(&Value, &Value)> =
        attempts.as_array().expect("attempts").iter().map(|a| (&a["ended_as"], &a["waited_for"])).collect();
    assert_eq!(ends[0], (&json!("waiting"), &json!("approval")));
    assert_eq!(
        (ends[1].0, ends[2], ends[3].0),
        (&json!("lease_lost"), (&json!("waiting"), &json!("second")), &json!("succeeded"))
    );
    server.stop().await;
}

/// A timeout makes the item available again, with an event that says so.
#[tokio::test]
async fn timeout_of_a_wait_is_an_event() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    job_of(&server, json!([{}])).await;
    let waiting = wait_for(&server, json!({"name": "payment", "timeout_seconds": 0.3})).await;
    let again = claim(&server, "a", 1, 20).await.remove(0);
    let event = &again["item"]["event"];
    assert_eq!(
        (&event["name"], &event["timed_out"], &event["data"], &event["by"]),
        (&json!("payment"), &json!(true), &Value::Null, &Value::Null)
    );
    send(&server, &waiting, json!({"name": "payment"})).await.expect_problem(409, "not_waiting");
    for (timeout, form) in [(json!(0), Value::Null), (json!(-1), Value::Null), (json!("1"), Value::Null)] {
        let body = json!({"name": "payment", "timeout_seconds": timeout, "form": form});
        server
            .post(&format!("/api/v1/assignments/{}/wait", id(&again)), body)
            .await
            .expect_problem(422, "invalid_body");
    }
    server.stop().await;
}

/// An event counts once: approvals by two people at once, and repeats with and without a key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approvals_by_two_people_at_once_count_once() {
    let server = Server::start().await;
    let other = server.another().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let (grace, alan) = (server.person("Grace", "support").await, server.person("Alan", "admin").await);
    let alan_elsewhere = other.with_cookie(alan.cookie());
    for _ in 0..10 {
        job_of(&server, json!([{}])).await;
        let waiting = wait_for(&server, json!({"name": "approval"})).await;
        let yes = json!({"name": "approval", "data": "yes"});
        let answers = join_all([send(&grace, &waiting, yes.clone()), send(&alan_elsewhere, &waiting, yes)]).await;
        let mut codes: Vec<u16> = answers.iter().map(|answer| answer.status.as_u16()).collect();
        codes.sort_unstable();
        assert_eq!(codes, [200, 409], "{answers:?}");
        let got = claim(&server, "a", 5, 20).await;
        let winner = if answers[0].status == 200 { "Grace" } else { "Alan" };
        assert_eq!((got.len(), &got[0]["item"]["event"]["by"]), (1, &json!({"kind": "user", "name": winner})));
        server.post(&format!("/api/v1/assignments/{}/result", id(&got[0])), json!({})).await.expect(200);
        let entries = server.get(&format!("/api/v1/audit?item={waiting}&action=item.event")).await.expect(200);
        let by: Vec<&Value> =
            entries["data"].as_array().expect("entries").iter().map(|e| &e["actor"]["name"]).collect();
        assert_eq!(by, [&json!(winner)], "{entries}");
    }

    // With a key a repeat is no second event; the same key with another body is refused.
    job_of(&server, json!([{}])).await;
    let waiting = wait_for(&server, json!({"name": "approval"})).await;
    let yes = json!({"name": "approval", "data": 1});
    let repeats = (0..8).map(|n| send_with_key(if n % 2 == 0 { &server } else { &other }, &waiting, "once", &yes));
    for answer in join_all(repeats).await {
        assert_eq!(answer.expect(200)["state"], "available");
    }
    let changed = json!({"name": "approval", "data": 2});
    send_with_key(&server, &waiting, "once", &changed).await.expect_problem(422, "idempotency_key_reused");
    let got = claim(&server, "a", 5, 20).await;
    assert_eq!((got.len(), &got[0]["attempt"], &got[0]["item"]["event"]["data"]), (1, &json!(2), &json!(1)));
    assert_eq!(send_with_key(&other, &waiting, "once", &yes).await.expect(200)["state"], "running");
    // A refusal frees the key.
    send_with_key(&server, &waiting, "early", &changed).await.expect_problem(409, "not_waiting");
    server.post(&format!("/api/v1/assignments/{}/wait", id(&got[0])), json!({"name": "approval"})).await.expect(200);
    send_with_key(&server, &waiting, "early", &changed).await.expect(200);
    other.stop().await;
    server.stop().await;
}

/// An ending is repeated like any other; one that names another event is refused.
#[tokio::test]
async fn repeated_wait_gets_the_same_answer() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({"steps": ["s"], "delivery": "at_most_once"})).await.expect(201);
    job_of(&server, json!([{}])).await;
    let assignment = id(&claim(&server, "a", 1, 20).await[0]);
    let path = |verb: &str| format!("/api/v1/assignments/{assignment}/{verb}");
    // Started work that is handed out at most once cannot be released, but it may wait: its worker knows where it stands.
    server.post(&path("step"), json!({"name": "s"})).await.expect(200);
    let body = json!({"name": "approval", "timeout_seconds": 3600});
    let first = server.post(&path("wait"), body.clone()).await.expect(200);
    assert!(first["retry_at"].is_string(), "{first}");
    assert_eq!(server.post(&path("wait"), body).await.expect(200), first);
    let other = json!({"name": "payment"});
    let refused = server.post(&path("wait"), other).await.expect_problem(409, "assignment_closed");
    assert_eq!((&refused["item_state"], &refused["ended_as"]), (&json!("waiting_for_event"), &json!("waiting")));
    server.post(&path("result"), json!({})).await.expect_problem(409, "assignment_closed");
    let late = server.post(&path("heartbeat"), json!({})).await.expect_problem(409, "assignment_closed");
    assert_eq!(late["item_state"], "waiting_for_event");
    server.stop().await;
}

/// Cancellation, expiry, and retry by a person treat a waiting item like any pending one; it keeps its serialize key.
#[tokio::test]
async fn waiting_item_is_cancelled_expires_and_keeps_its_serialize_key() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let job = job_of(&server, json!([{"serialize_key": "k"}, {"serialize_key": "k", "payload": 2}])).await;
    let waiting = wait_for(&server, json!({"name": "approval"})).await;
    assert_eq!(claim(&server, "a", 5, 0).await, Vec::<Value>::new(), "the item behind it stays blocked");
    let path = |id: &str, verb: &str| format!("/api/v1/items/{id}/{verb}");
    server.post(&path(&waiting, "retry"), json!({})).await.expect_problem(409, "not_retryable");
    server.patch(&format!("/api/v1/items/{waiting}"), json!({"priority": 9})).await.expect(200);
    assert_eq!(item(&server, &waiting).await["state"], "waiting_for_event");
    send(&server, &waiting, json!({"name": "approval"})).await.expect(200);
    let first = claim(&server, "a", 5, 20).await;
    assert_eq!((first.len(), id(&first[0]["item"]), &first[0]["item"]["priority"]), (1, waiting.clone(), &json!(9)));
    server.post(&format!("/api/v1/assignments/{}/wait", id(&first[0])), json!({"name": "approval"})).await.expect(200);
    server.post(&path(&waiting, "cancel"), json!({})).await.expect(200);
    send(&server, &waiting, json!({"name": "approval"})).await.expect_problem(409, "not_waiting");
    let second = claim(&server, "a", 5, 20).await;
    assert_eq!((second.len(), &second[0]["item"]["payload"]), (1, &json!(2)));
    server.post(&format!("/api/v1/assignments/{}/wait", id(&second[0])), json!({"name": "approval"})).await.expect(200);

    // A retried item starts over without its old event if that was asked for.
    server.post(&format!("/api/v1/jobs/{job}/cancel"), json!({})).await.expect(200);
    let refused = send(&server, &id(&second[0]["item"]), json!({"name": "approval"})).await;
    assert!(
        ["job_cancelled", "not_waiting"].contains(&refused.json()["code"].as_str().expect("a code")),
        "{refused:?}"
    );
    let done = server.get(&format!("/api/v1/jobs/{job}")).await.expect(200);
    assert_eq!((&done["status"], &done["counts"]["cancelled"]), (&json!("completed"), &json!(2)), "{done}");

    let soon = time::OffsetDateTime::now_utc() + time::Duration::milliseconds(1_500);
    let soon = soon.format(&time::format_description::well_known::Rfc3339).expect("a time");
    job_of(&server, json!([{"expires_at": soon}])).await;
    let waiting = wait_for(&server, json!({"name": "approval"})).await;
    until(async || item(&server, &waiting).await["state"] == "expired").await;
    send(&server, &waiting, json!({"name": "approval"})).await.expect_problem(409, "not_waiting");

    job_of(&server, json!([{}])).await;
    let waiting = wait_for(&server, json!({"name": "approval"})).await;
    send(&server, &waiting, json!({"name": "approval", "data": 1})).await.expect(200);
    let got = claim(&server, "a", 1, 20).await;
    let fatal = json!({"error": {"message": "no"}, "retryable": false});
    server.post(&format!("/api/v1/assignments/{}/failure", id(&got[0])), fatal.clone()).await.expect(200);
    server.post(&path(&waiting, "retry"), json!({})).await.expect(200);
    let got = claim(&server, "a", 1, 20).await;
    assert_eq!(got[0]["item"]["event"]["data"], 1);
    server.post(&format!("/api/v1/assignments/{}/failure", id(&got[0])), fatal).await.expect(200);
    server.post(&path(&waiting, "retry"), json!({"restart": true})).await.expect(200);
    assert_eq!(claim(&server, "a", 1, 20).await[0]["item"]["event"], Value::Null);
    assert_eq!(invariants::check(&server.running.app.pool, None, Duration::from_secs(10)).await, Ok(()));
    server.stop().await;
}

/// An item that is postponed while it waits is not handed out before that time, be it after the event or the timeout. A
/// run_after that it has started before is none any more.
#[tokio::test]
async fn postponed_item_is_scheduled_after_its_event() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let later = "2100-01-01T00:00:00Z";
    let job = job_of(&server, json!([{}])).await;
    let state = async |item: &str| self::item(&server, item).await["state"].clone();
    let waiting = wait_for(&server, json!({"name": "approval", "timeout_seconds": 3_600})).await;
    let path = format!("/api/v1/items/{waiting}");
    let put_off = server.patch(&path, json!({"run_after": later})).await.expect(200);
    assert_eq!((&put_off["state"], &put_off["run_after"]), (&json!("waiting_for_event"), &json!(later)));
    let sent = send(&server, &waiting, json!({"name": "approval", "data": 1})).await.expect(200);
    assert_eq!((&sent["state"], &sent["waiting_for"]["until"]), (&json!("scheduled"), &json!(later)));
    assert_eq!(server.patch(&path, json!({"run_after": null})).await.expect(200)["state"], "available");
    let again = claim(&server, "a", 1, 20).await.remove(0);
    assert_eq!(again["item"]["event"]["data"], 1);

    // By its job, and the timeout ends the wait.
    let wait = json!({"name": "approval", "timeout_seconds": 3_600});
    server.post(&format!("/api/v1/assignments/{}/wait", id(&again)), wait).await.expect(200);
    let job = format!("/api/v1/jobs/{job}");
    server.patch(&job, json!({"run_after": later})).await.expect(200);
    sqlx::query("update deferred set due_at = clock_timestamp()")
        .execute(&server.running.app.pool)
        .await
        .expect("the time is over");
    until(async || state(&waiting).await == "scheduled").await;
    assert_eq!(item(&server, &waiting).await["event"]["timed_out"], true);
    server.patch(&job, json!({"run_after": null})).await.expect(200);
    let again = claim(&server, "a", 1, 20).await.remove(0);
    server.post(&format!("/api/v1/assignments/{}/result", id(&again)), json!({})).await.expect(200);

    let job = job_of(&server, json!([{"run_after": later}])).await;
    let hurried = id(&server.get(&format!("/api/v1/items?job={job}")).await.expect(200)["data"][0]);
    server.post(&format!("/api/v1/items/{hurried}/retry"), json!({})).await.expect(200);
    assert_eq!(wait_for(&server, json!({"name": "approval"})).await, hurried);
    let sent = send(&server, &hurried, json!({"name": "approval"})).await.expect(200);
    assert_eq!((&sent["state"], &sent["run_after"]), (&json!("available"), &Value::Null), "it is not postponed again");
    assert_eq!(invariants::check(&server.running.app.pool, None, Duration::from_secs(10)).await, Ok(()));
    server.stop().await;
}

/// Who may send events: the owner and staff, and tokens that may write; a worker may not approve its own work.
#[tokio::test]
async fn events_need_the_right_to_write() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let shop = server.service("shop", &["jobs:read", "jobs:write"]).await;
    let worker = server.service("shop", &["work"]).await;
    let stranger = server.service("other", &["jobs:read", "jobs:write"]).await;
    let grace = server.person("Grace", "support").await;
    for sender in [&shop, &grace] {
        job_of(&shop, json!([{}])).await;
        let waiting = wait_for(&worker, json!({"name": "approval"})).await;
        send(&worker, &waiting, json!({"name": "approval"})).await.expect_problem(403, "forbidden");
        send(&stranger, &waiting, json!({"name": "approval"})).await.expect_problem(404, "not_found");
        // No reason is required of staff: the item asks for the event.
        send(sender, &waiting, json!({"name": "approval"})).await.expect(200);
        let got = claim(&worker, "a", 1, 20).await;
        worker.post(&format!("/api/v1/assignments/{}/result", id(&got[0])), json!({})).await.expect(200);
    }
    server.stop().await;
}

/// Forms are checked when they are declared; data of an event must fit the form of the wait.
#[tokio::test]
async fn form_of_a_wait_checks_the_event() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    job_of(&server, json!([{}])).await;
    let assignment = id(&claim(&server, "a", 1, 20).await[0]);
    let path = format!("/api/v1/assignments/{assignment}/wait");
    let refusals = [
        (json!({"fields": [{"name": "a", "type": "choice"}]}), "/form/fields/0/choices"),
        (json!({"fields": [{"name": "a", "type": "text"}, {"name": "a", "type": "text"}]}), "/form/fields/1/name"),
        (json!({"description": "x".repeat(20_000)}), "/form"),
    ];
    for (form, pointer) in refusals {
        let refused = server.post(&path, json!({"name": "approval", "form": form})).await;
        assert_eq!(refused.expect_problem(422, "invalid_body")["errors"][0]["pointer"], pointer);
    }
    server.post(&path, json!({"name": "x", "form": {"fields": [{"name": "a", "type": "date"}]}})).await.expect(422);
    server.post(&path, json!({"name": "approval", "form": form()})).await.expect(200);
    let waiting = id(&server.get("/api/v1/items?state=waiting_for_event").await.expect(200)["data"][0]);
    assert_eq!(item(&server, &waiting).await["wait"]["form"]["fields"][0]["name"], "decision");

    for (data, pointers) in [
        (json!(null), vec!["/data/decision"]),
        (json!([]), vec!["/data"]),
        (json!({}), vec!["/data/decision"]),
        (json!({"decision": "maybe", "amount": "1", "more": 1}), vec!["/data/decision", "/data/amount", "/data/more"]),
    ] {
        let refused = send(&server, &waiting, json!({"name": "approval", "data": data})).await;
        let refused = refused.expect_problem(422, "invalid_body");
        let found: Vec<&str> =
            refused["errors"].as_array().expect("errors").iter().filter_map(|e| e["pointer"].as_str()).collect();
        assert_eq!(found, pointers, "{refused}");
    }
    let large = json!({"name": "approval", "data": "x".repeat(300_000)});
    send(&server, &waiting, large).await.expect_problem(413, "too_large");
    let data = json!({"decision": "approve", "amount": 12.5, "urgent": false});
    send(&server, &waiting, json!({"name": "approval", "data": data})).await.expect(200);
    assert_eq!(claim(&server, "a", 1, 20).await[0]["item"]["event"]["data"], data);
    server.stop().await;
}

/// The page of a waiting item has the form: it works without scripts, and a refusal keeps what was typed.
#[tokio::test]
async fn form_is_answered_on_the_page_of_the_item() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    job_of(&server, json!([{}])).await;
    let waiting = wait_for(&server, json!({"name": "approval", "form": form(), "timeout_seconds": 86_400})).await;
    let grace = server.person("Grace", "support").await;
    let page = grace.get(&format!("/items/{waiting}")).await;
    assert_eq!(page.status, 200, "{}", page.text);
    for part in [
        "Approve the invoice?",
        "It is above the limit.",
        "name=\"answer.decision\"",
        "Send answer",
        "waiting for an event",
    ] {
        assert!(page.text.contains(part), "no {part}: {}", page.text);
    }
    let since = page.text.split("name=\"since\" value=\"").nth(1).and_then(|rest| rest.split('"').next());
    let since = since.expect("the hidden field").to_owned();
    let post = format!("/items/{waiting}/events");
    let typed = |decision: &'static str, amount: &'static str| {
        [
            ("name", "approval".to_owned()),
            ("since", since.clone()),
            ("answer.decision", decision.to_owned()),
            ("answer.amount", amount.to_owned()),
            ("answer.note", "two\r\nlines <b>".to_owned()),
            ("answer.urgent", "yes".to_owned()),
        ]
    };
    let submit = async |api: &Api, fields: &[(&str, String)]| {
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        api.form(&post, &fields).await
    };
    let refused = submit(&grace, &typed("", "a lot")).await;
    assert_eq!(refused.status, 422, "{}", refused.text);
    for part in ["Expected an answer.", "Expected a number.", "value=\"a lot\"", "two\nlines &lt;b&gt;", "checked"] {
        assert!(refused.text.contains(part), "no {part}: {}", refused.text);
    }
    let answered = submit(&grace, &typed("reject", "12.50")).await;
    assert_eq!(answered.status, 303, "{}", answered.text);
    assert_eq!(answered.headers["location"], format!("/items/{waiting}?did=answered"));
    let page = grace.get(&format!("/items/{waiting}?did=answered")).await;
    assert!(page.text.contains("Answered.") && page.text.contains("from Grace"), "{}", page.text);
    let data = &item(&server, &waiting).await["event"]["data"];
    assert_eq!(data, &json!({"decision": "reject", "amount": 12.50, "note": "two\nlines <b>", "urgent": true}));

    // A form of an earlier wait never answers a later one of the same name.
    let got = claim(&server, "a", 1, 20).await;
    let wait = json!({"name": "approval", "form": form()});
    server.post(&format!("/api/v1/assignments/{}/wait", id(&got[0])), wait).await.expect(200);
    let late = submit(&grace, &typed("approve", "1")).await;
    assert!(late.status == 422 && late.text.contains("answered in the meantime"), "{}", late.text);
    assert_eq!(item(&server, &waiting).await["state"], "waiting_for_event");
    let audit = server.get(&format!("/api/v1/audit?item={waiting}&action=item.event")).await.expect(200);
    assert_eq!(
        (audit["data"].as_array().map(Vec::len), &audit["data"][0]["detail"]),
        (Some(1), &json!("\"approval\""))
    );
    server.stop().await;
}

/// Items wait through the death of the server and of every connection to the database, and each continues once, whatever
/// is sent twice. `TREELINE_WAITING_ITEMS` sets their number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_items_survive_a_restart_and_continue_once() {
    let items = std::env::var("TREELINE_WAITING_ITEMS").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000_usize);
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({"heartbeat_seconds": 20})).await.expect(201);
    let payloads: Vec<Value> = (0..items).map(|n| json!({"payload": n})).collect();
    let job = job_of(&server, Value::Array(payloads)).await;
    let program = server.spawn_program().await;
    let mut waiting = Vec::new();
    while waiting.len() < items {
        let got = claim(&program.api, "a", 500, 20).await;
        let waits = got.iter().map(|assignment| {
            let path = format!("/api/v1/assignments/{}/wait", id(assignment));
            let api = &program.api;
            async move { api.post(&path, json!({"name": "go"})).await.expect(200) }
        });
        stream::iter(waits).buffer_unordered(32).collect::<Vec<_>>().await;
        waiting.extend(got.iter().map(|assignment| id(&assignment["item"])));
    }
    let shown = server.get(&format!("/api/v1/jobs/{job}")).await.expect(200);
    assert_eq!(shown["counts"]["waiting_for_event"], items);

    // Half of the events are sent, and the server dies among them with the connections of all servers.
    let events = waiting[..items / 2].iter().map(|item| {
        let (api, path) = (program.api.clone(), format!("/api/v1/items/{item}/events"));
        async move { api.request(reqwest::Method::POST, &path).json(&json!({"name": "go"})).send().await.is_ok() }
    });
    let sending =
        stream::iter(events.collect::<Vec<_>>()).buffer_unordered(32).filter(|sent| std::future::ready(*sent)).count();
    let sending = tokio::spawn(sending);
    until(async || {
        let counts = server.get(&format!("/api/v1/jobs/{job}")).await.expect(200)["counts"].clone();
        counts["waiting_for_event"].as_u64() < Some(items as u64 * 3 / 4)
    })
    .await;
    program.kill().await;
    sqlx::query("select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()")
        .execute(&server.running.app.pool)
        .await
        .expect("the connections end");
    sending.await.expect("no panic");

    // All events are sent again, to two servers at once: those that were received are refused.
    let two = server.spawn_program().await;
    let all = waiting.iter().flat_map(|item| [(&two.api, item), (&*server, item)]).map(|(api, item)| async move {
        loop {
            let answer = send(api, item, json!({"name": "go"})).await;
            match answer.status.as_u16() {
                200 => return 1,
                409 => return 0,
                // The server has not replaced all its connections yet, and says that nothing was done.
                503 => crate::support::moment().await,
                _ => panic!("{answer:?}"),
            }
        }
    });
    let received: usize = stream::iter(all).buffer_unordered(32).fold(0, |sum, n| std::future::ready(sum + n)).await;
    assert!((items / 2..=items).contains(&received), "{received} of {items}");
    let mut continued = 0;
    while continued < items {
        let got = claim(&two.api, "a", 500, 20).await;
        assert!(!got.is_empty(), "{continued} of {items}");
        assert!(got.iter().all(|a| a["attempt"] == 2 && a["item"]["event"]["name"] == "go"), "each continues once");
        let endings: Vec<Value> = got.iter().map(|a| json!({"assignment_id": a["id"], "result": {}})).collect();
        let body = json!({"endings": endings});
        let mut answer = two.api.post("/api/v1/assignments/finish", body.clone()).await;
        while answer.status == 503 {
            // As above: nothing was done.
            answer = two.api.post("/api/v1/assignments/finish", body.clone()).await;
        }
        answer.expect(200);
        continued += got.len();
    }
    let done = server.get(&format!("/api/v1/jobs/{job}")).await.expect(200);
    assert_eq!((&done["outcome"], &done["counts"]["succeeded"]), (&json!("succeeded"), &json!(items)), "{done}");
    assert_eq!(invariants::check(&server.running.app.pool, None, Duration::from_secs(10)).await, Ok(()));
    two.terminate().await;
    server.stop().await;
}

/// A handler of the Rust client ends its attempt with a wait and continues with the event.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handler_waits_for_an_event_and_gets_it() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({"max_failures": 1})).await.expect(201);
    let job = job_of(&server, json!([{"payload": "paid"}, {"payload": "wrong"}])).await;
    let items = server.get(&format!("/api/v1/items?job={job}")).await.expect(200);
    let paid = items["data"].as_array().expect("items").iter().find(|item| item["payload"] == "paid").map(id);
    let paid = paid.expect("an item");
    let api = Client::new(&server.url(""), Some(TOKEN)).expect("a client");
    let drain = Drain::new();
    let handler = |task: Task| async move {
        match &task.item().event {
            Some(event) => Ok(Document::of(&json!({"attempt": task.attempt(), "data": event.data}))),
            None if task.item().payload.text() == "\"wrong\"" => Err(Unfinished::waits_for("")),
            None => Err(Unfinished::waits_for("payment")),
        }
    };
    let working = tokio::spawn(Worker::new(api, ["a"]).concurrency(2).run_until(drain.clone(), handler));
    until(async || item(&server, &paid).await["state"] == "waiting_for_event").await;
    send(&server, &paid, json!({"name": "payment", "data": {"receipt": 7}})).await.expect(200);
    let path = format!("/api/v1/jobs/{job}");
    until(async || server.get(&path).await.expect(200)["status"] == "completed").await;
    drain.begin();
    let summary = working.await.expect("no panic").expect("no error");
    assert_eq!((summary.succeeded, summary.failed, summary.released), (1, 1, 1));
    let paid = item(&server, &paid).await;
    assert_eq!(paid["result"], json!({"attempt": 2, "data": {"receipt": 7}}));
    server.stop().await;
}
