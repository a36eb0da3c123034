//! Scenarios of people who change schedules, limits, and alert channels, and who answer items that wait.

use domain::event_wait::WaitBody;
use serde_json::{Value, json};

use crate::{
    Terminal, claim, id, numbers, path,
    support::{Server, TOKEN},
    text,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fields_of_a_schedule_are_edited_and_the_others_stay() {
    let server = Server::start().await;
    let terminal = Terminal::new();
    terminal.login(&server).await;
    let spec = json!({"name": "letters"}).to_string();
    assert!(terminal.run_with_input(&["types", "apply", "-"], &spec).await.status.success());
    let new = json!({"name": "nightly", "cron": "0 3 * * *", "time_zone": "Europe/Berlin", "catch_up": "last",
                     "job": {"type": "letters", "sealed": true, "items": [{"payload": 1}]}});
    let file = terminal.home.path().join("schedule.json");
    std::fs::write(&file, new.to_string()).expect("written");
    let made = terminal.json(&["schedules", "create", path(&file)]).await.remove(0);
    let edit = async |options: &[&str]| {
        terminal.json(&[&["schedules", "edit", id(&made)][..], options].concat()).await.remove(0)
    };

    let edited = edit(&["--cron", "30 4 * * *", "--overlap", "queue", "--ends-at", "2100-01-31T00:00:00Z"]).await;
    assert_eq!((&edited["cron"], &edited["overlap"]), (&json!("30 4 * * *"), &json!("queue")));
    assert!(edited["ends_at"].as_str().is_some_and(|at| at.starts_with("2100-01-31")), "{edited}");
    for field in ["name", "time_zone", "job", "catch_up", "catch_up_window_seconds", "starts_at", "paused"] {
        assert_eq!(edited[field], made[field], "{field}");
    }
    let next = edited["next_runs"][0].as_str().expect("a tick");
    assert!(next.contains("T02:30:00") || next.contains("T03:30:00"), "4:30 in Berlin: {next}");
    assert_eq!(edit(&["--ends-at", "none"]).await["ends_at"], Value::Null);

    let job = json!({"type": "letters", "sealed": true, "items": [{"payload": 1.50}], "name": "letters of the night"});
    std::fs::write(&file, job.to_string()).expect("written");
    let options = ["--job", path(&file), "--name", "letters", "--time-zone", "UTC", "--reason", "moved"];
    let edited = edit(&options).await;
    assert_eq!((&edited["name"], &edited["job"]["name"]), (&json!("letters"), &json!("letters of the night")));
    let shown = terminal.run(&["schedules", "edit", id(&made), "--catch-up", "none"]).await;
    assert!(shown.contains("letters  30 4 * * *  UTC"), "{shown}");

    let refused = terminal.run_with_input(&["schedules", "edit", id(&made), "--cron", "every day"], "").await;
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("/cron"), "{}", text(&refused.stderr));
    for wrong in [&["--overlap", "wait"][..], &["--starts-at", "tomorrow"], &["--reason", "no change"], &[]] {
        let output = terminal.run_with_input(&[&["schedules", "edit", id(&made)][..], wrong].concat(), "").await;
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_of_a_type_are_edited_and_the_other_fields_stay() {
    let server = Server::start().await;
    let terminal = Terminal::new();
    terminal.login(&server).await;
    let edit = async |verb: &[&str], fields: &Value| {
        let output = terminal.run_with_input(&[&["types"][..], verb, &["-"]].concat(), &fields.to_string()).await;
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    edit(&["apply"], &json!({"name": "letters", "concurrency": 8, "max_failures": 3})).await;
    let limits = json!({"rate_limit": {"count": 10, "per_seconds": 60, "key": "/customer"},
                        "concurrency_by": {"key": "/customer", "limit": 2}, "fair_by": "owner"});
    let table = edit(&["edit", "letters"], &limits).await;
    assert!(table.contains("8, 2 by /customer  10 in 60 s by /customer  3"), "{table}");
    let table = edit(&["edit", "letters"], &json!({"rate_limit": null, "concurrency": null})).await;
    assert!(table.contains("2 by /customer  no limit    3"), "{table}");
    let shown = terminal.json(&["types", "show", "letters"]).await.remove(0);
    assert_eq!((&shown["fair_by"], &shown["concurrency_by"]), (&json!("owner"), &limits["concurrency_by"]));
    let refused = terminal.run_with_input(&["types", "edit", "letters", "-"], r#"{"color": 1}"#).await;
    assert_eq!(refused.status.code(), Some(1));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_that_waits_is_approved() {
    let server = Server::start().await;
    let (client, terminal) = (&server.client, Terminal::new());
    terminal.login(&server).await;
    numbers(client, 1).await;
    let assignment = claim(client, 1).await.remove(0);
    let wait = json!({"name": "approval", "form": {"fields": [{"name": "ok", "type": "boolean", "required": true}]}});
    let wait: WaitBody = serde_json::from_value(wait).expect("a body");
    client.wait(assignment.id, &wait).await.expect("it waits");
    let item = assignment.item.id.to_string();

    let waiting = terminal.run(&["items", "--state", "waiting_for_event"]).await;
    assert!(waiting.contains("Waits for the event \"approval\"."), "{waiting}");
    for (name, data, code) in [("payment", "{\"ok\":true}", "other_event"), ("approval", "{}", "/data/ok")] {
        let refused = terminal.run_with_input(&["event", &item, name, "--data", data], "").await;
        assert_eq!(refused.status.code(), Some(1));
        assert!(text(&refused.stderr).contains(code), "{}", text(&refused.stderr));
    }
    let broken = terminal.run_with_input(&["event", &item, "approval", "--data", "{ok}"], "").await;
    assert!(text(&broken.stderr).contains("the data is not JSON"), "{}", text(&broken.stderr));
    let arguments = ["event", &item, "approval", "--data", "@-", "--reason", "seen", "--json"];
    let sent = terminal.run_with_input(&arguments, "{\"ok\": true}").await;
    assert!(sent.status.success(), "{}", text(&sent.stderr));
    let sent: Value = serde_json::from_slice(&sent.stdout).expect("an item");
    assert_eq!(sent["state"], "available");
    let event = claim(client, 1).await.remove(0).item.event.expect("an event");
    assert_eq!((event.name.as_str(), event.data.text()), ("approval", "{\"ok\": true}"));
    let late = terminal.run_with_input(&["event", &item, "approval"], "").await;
    assert!(text(&late.stderr).contains("not_waiting"), "{}", text(&late.stderr));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alerts_are_listed_and_their_channels_managed() {
    let server = Server::start().await;
    let (client, terminal) = (&server.client, Terminal::new());
    terminal.login(&server).await;
    numbers(client, 1).await;
    let assignment = claim(client, 1).await.remove(0);
    client.alert(assignment.id, "no ink").await.expect("raised");
    assert!(terminal.run(&["alerts"]).await.contains("no ink"));
    let alert = terminal.json(&["alerts"]).await.remove(0);
    assert_eq!((&alert["kind"], &alert["type"]), (&json!("worker"), &json!("letters")));

    let new = json!({"name": "on call", "kind": "webhook", "url": "https://alerts.example.com/hook?key=1",
                     "secret": "a-secret-of-the-channel", "kinds": ["worker", "stalled"], "paused": true});
    let create = ["alert-channels", "create", "-", "--json"];
    let made = terminal.run_with_input(&create, &new.to_string()).await;
    assert!(made.status.success(), "{}", text(&made.stderr));
    let made: Value = serde_json::from_slice(&made.stdout).expect("a channel");
    let channel = id(&made);
    let listed = terminal.run(&["alert-channels"]).await;
    assert!(listed.contains("worker,stalled  all    paused"), "{listed}");
    assert!(!listed.contains("key=1") && !made.to_string().contains("a-secret"), "{listed}");

    let patch = json!({"types": ["letters"], "min_count": 5, "secret": null}).to_string();
    let edited = terminal.run_with_input(&["alert-channels", "edit", channel, "-"], &patch).await;
    assert!(text(&edited.stdout).contains("letters  paused"), "{}", text(&edited.stderr));
    assert!(terminal.run(&["alert-channels", "resume", channel]).await.contains("active"));
    assert!(terminal.run(&["alert-channels", "pause", channel]).await.contains("paused"));
    let shown = terminal.json(&["alert-channels", "show", channel]).await.remove(0);
    assert_eq!((&shown["min_count"], &shown["kinds"]), (&json!(5), &json!(["worker", "stalled"])));
    let test = terminal.json(&["alert-channels", "test", channel]).await.remove(0);
    assert_eq!(test["alert"]["event"], "test");
    terminal.run(&["alert-channels", "delete", channel]).await;
    assert_eq!(terminal.json(&["alert-channels"]).await.len(), 0);

    let reader = Terminal::new();
    let strange = ["alert-channels", "--url", &server.url, "--token", &TOKEN.replace('a', "b")];
    assert_eq!(reader.run_with_input(&strange, "").await.status.code(), Some(1));
    server.stop().await;
}
