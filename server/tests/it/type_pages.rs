//! Job types through the pages: created, changed in every setting, copied and deleted, by forms only.

use serde_json::{Value, json};

use crate::{
    factors::{PASSWORD, age_sessions, person},
    support::{Answer, Server},
};

/// Redirect target of a successful action.
#[track_caller]
fn location(answer: &Answer) -> String {
    assert_eq!(answer.status, 303, "{}", answer.text);
    answer.headers["location"].to_str().expect("text").to_owned()
}

/// Fields of a form as the page shows them: what a browser would send.
fn shown(page: &str) -> Vec<(String, String)> {
    let (_, form) = page.split_once("id=\"change\"").expect("the form");
    let (form, _) = form.split_once("</form>").expect("its end");
    let attribute = |tag: &str, name: &str| {
        tag.split_once(&format!(" {name}=\""))
            .and_then(|(_, rest)| rest.split_once('"'))
            .map(|(value, _)| unescaped(value))
    };
    let mut fields = Vec::new();
    let mut select = String::new();
    for (place, _) in form.match_indices('<') {
        let (tag, rest) = form[place..].split_once('>').unwrap_or_default();
        let name = attribute(tag, "name").unwrap_or_default();
        let is_choice = tag.contains("type=\"checkbox\"") || tag.contains("type=\"radio\"");
        match tag.split([' ', '\n']).next().unwrap_or_default() {
            "<input" if is_choice && !tag.contains(" checked") => {}
            "<input" => fields.push((name, attribute(tag, "value").unwrap_or_default())),
            "<select" => select = name,
            "<option" if tag.contains(" selected") => {
                fields.push((select.clone(), attribute(tag, "value").unwrap_or_default()));
            }
            "<textarea" => {
                let text = rest.split_once("</textarea>").map_or("", |(text, _)| text);
                fields.push((name, unescaped(text.strip_prefix('\n').unwrap_or(text)).replace('\n', "\r\n")));
            }
            _ => {}
        }
    }
    fields
}

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&#x27;", "'").replace("&amp;", "&")
}

/// The fields with some others instead.
fn with<'a>(fields: &'a [(String, String)], changed: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let unchanged = fields.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    unchanged
        .filter(|(name, _)| changed.iter().all(|(other, _)| other != name))
        .chain(changed.iter().copied())
        .collect()
}

/// A type with a value in every setting.
fn full() -> Value {
    json!({
        "delivery": "at_least_once", "max_failures": 7, "concurrency": 12,
        "rate_limit": {"count": 30, "per_seconds": 60, "burst": 5, "key": "/customer"},
        "concurrency_by": {"key": "/account", "limit": 2},
        "backoff": {"min_seconds": 1.5, "max_seconds": 90.0, "factor": 2.5, "jitter": false},
        "heartbeat_seconds": 20.0, "run_timeout_seconds": 300.5, "steps": ["reserved", "charged"],
        "retain_seconds": 5400, "payload_schema": {"type": "object", "properties": {"n": {"maximum": 1e3}}},
        "executor": {
            "kind": "push", "url": "https://push.example/{type}?key=hidden-query", "timeout_seconds": 45.0,
            "auth": {"user": "ann", "password": "hidden-password"}, "headers": {"X-Key": "hidden-header"},
            "secret": ["hidden-secret-1", "hidden-secret-2"],
        },
        "require_idempotency_key": true,
        "import": {
            "enabled": true, "roles": ["support", "admin"], "aliases": {"n": ["Anzahl", "Zahl, ganz"]},
            "template": {"examples": [{"n": 1.10}]},
        },
    })
}

#[tokio::test]
async fn a_form_left_alone_changes_nothing() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/full", full()).await.expect(201);
    server
        .put("/api/v1/job-types/plain", json!({"max_failures": "unlimited", "retain_seconds": null}))
        .await
        .expect(201);
    let admin = server.admin().await;
    for name in ["full", "plain"] {
        let api = format!("/api/v1/job-types/{name}");
        let path = format!("/types/{name}");
        let before = server.get(&api).await.expect(200);
        let page = admin.get(&path).await.text;
        for secret in ["hidden-password", "hidden-header", "hidden-secret"] {
            assert!(!page.contains(secret), "{secret}: {page}");
        }
        assert!(page.contains(&format!("Version {}", before["version"])), "{page}");
        let fields = shown(&page);
        assert_eq!(location(&admin.form(&path, &with(&fields, &[])).await), format!("{path}?did=changed"));
        let after = server.get(&api).await.expect(200);
        let settings = |of: &Value| {
            let mut of = of.clone();
            for changing in ["version", "updated_at"] {
                of.as_object_mut().expect("an object").remove(changing);
            }
            of
        };
        assert_eq!(settings(&before), settings(&after));
    }
    server.stop().await;
}

#[tokio::test]
async fn every_setting_is_changed_by_form_and_the_audit_log_says_how() {
    let server = Server::start().await;
    let admin = server.admin().await;
    assert!(admin.get("/types").await.text.contains("href=\"/new-type\""));
    let empty = shown(&admin.get("/new-type").await.text);
    let created = admin.form("/types", &with(&empty, &[("name", "full")])).await;
    assert_eq!(location(&created), "/types/full?did=created");
    let defaults = server.put("/api/v1/job-types/other", json!({})).await.expect(201);
    let made = server.get("/api/v1/job-types/full").await.expect(200);
    for setting in ["delivery", "max_failures", "backoff", "executor", "retain_seconds", "import", "heartbeat_seconds"]
    {
        assert_eq!(made[setting], defaults[setting], "{setting}");
    }

    let fields = shown(&admin.get("/types/full").await.text);
    let changes = [
        ("kind", "push"),
        ("url", "https://push.example/{type}?key=hidden-query"),
        ("timeout_seconds", "45"),
        ("auth_user", "ann"),
        ("auth_password", "hidden-password"),
        ("headers", "X-Key: hidden-header\r\n\r\nX-Team: a:b"),
        ("secret", "hidden-secret-1"),
        ("secret_before", "hidden-secret-2"),
        ("heartbeat_seconds", "20"),
        ("run_timeout_seconds", "300.5"),
        ("concurrency", "12"),
        ("key_limit", "2"),
        ("key_limit_key", "/account"),
        ("rate_count", "30"),
        ("rate_seconds", "60"),
        ("rate_burst", "5"),
        ("rate_key", "/customer"),
        ("delivery", "at_least_once"),
        ("max_failures", "7"),
        ("min_seconds", "1.5"),
        ("factor", "2.5"),
        ("max_seconds", "90"),
        ("jitter", "no"),
        ("steps", "reserved, charged"),
        ("schema", "{\"type\": \"object\",\r\n \"properties\": {\"n\": {\"maximum\": 1e3}}}"),
        ("retain", "90"),
        ("retain_unit", "minutes"),
        ("require_idempotency_key", "yes"),
        ("role_user", "no"),
        ("aliases", r#"{"n": ["Anzahl", "Zahl, ganz"]}"#),
        ("examples", r#"[{"n": 1.10}]"#),
    ];
    assert_eq!(location(&admin.form("/types/full", &with(&fields, &changes)).await), "/types/full?did=changed");
    let now = server.get("/api/v1/job-types/full").await.expect(200);
    let mut wanted = full();
    for secret in ["auth", "headers", "secret"] {
        wanted["executor"].as_object_mut().expect("an object").remove(secret);
    }
    for (setting, value) in wanted.as_object().expect("an object") {
        assert_eq!(&now[setting], value, "{setting}");
    }
    let page = admin.get("/types/full").await.text;
    assert!(page.contains("2 headers are stored") && !page.contains("hidden-password"), "{page}");
    // 1.5, 3.75, 9.375, … up to the longest wait.
    assert!(page.contains("Waits between attempts: 1.5 s, 3.75 s, 9.375 s"), "{page}");

    let audit = server.get("/api/v1/audit").await.expect(200);
    let entries = audit["data"].as_array().expect("entries");
    let change = entries.iter().find(|entry| entry["action"] == "job_type.change").expect("an entry");
    let detail = change["detail"].as_str().expect("text");
    for part in [
        "concurrency: null → 12",
        "executor.kind: \"pull\" → \"push\"",
        "executor.auth: changed",
        "max_failures: 3 → 7",
    ] {
        assert!(detail.contains(part), "{part}: {detail}");
    }
    assert!(!detail.contains("hidden"), "{detail}");

    // What is left empty stays; what is to go is gone.
    let fields = shown(&page);
    admin.form("/types/full", &with(&fields, &[("forget_headers", "yes")])).await;
    let page = admin.get("/types/full").await.text;
    assert!(page.contains("None are stored.") && page.contains("forget_auth"), "{page}");
    server.stop().await;
}

#[tokio::test]
async fn errors_are_shown_at_their_fields_and_nothing_is_saved() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/taken", json!({})).await.expect(201);
    let admin = server.admin().await;
    let fields = shown(&admin.get("/new-type").await.text);
    let long = "x".repeat(300_000);
    let long_schema = format!(r#"{{"title": "{long}"}}"#);
    for (field, value, shown_at, message) in [
        ("name", "Not A Name", "name", "expected [a-z0-9]"),
        ("name", "taken", "name", "A job type of this name exists"),
        ("concurrency", "many", "concurrency", "expected a number, or nothing"),
        ("concurrency", "1.5", "concurrency", "expected a whole number"),
        ("max_failures", "0", "max_failures", "expected a whole number from 1"),
        ("factor", "0", "factor", "expected a number from 1 to 1000"),
        ("steps", "a, a", "steps", "expected a name of its own"),
        ("retain", "9223372036854775807", "retain", "expected a whole number, or nothing"),
        ("schema", "{\"type\":\r\n  oops}", "schema", "at line 2 column 3"),
        ("schema", "{\"type\": 3}", "schema", "expected a JSON Schema"),
        ("schema", &long_schema, "schema", "over the limit"),
        ("aliases", "[1]", "aliases", "expected an object"),
        ("examples", "[1]", "examples", "expected an object"),
        ("key_limit", "2", "key_limit_key", "expected a JSON Pointer"),
    ] {
        let mut changed = vec![(field, value)];
        if field != "name" {
            changed.push(("name", "new"));
        }
        let refused = admin.form("/types", &with(&fields, &changed)).await;
        assert_eq!(refused.status, 422, "{field}: {value:.40}: {}", refused.text);
        let place = format!("id=\"{shown_at}-fault\"");
        let (_, fault) = refused.text.split_once(&place).unwrap_or_else(|| panic!("{place}: {}", refused.text));
        let (fault, _) = fault.split_once("</ul>").expect("its end");
        assert!(fault.contains(message), "{field}: {fault}");
        assert!(!refused.text.contains("PATCH"), "{field}: {}", refused.text);
    }
    let push = [("name", "new"), ("kind", "push"), ("url", "http://169.254.169.254/"), ("secret", "hidden-secret-1")];
    let refused = admin.form("/types", &with(&fields, &push)).await;
    assert!(refused.status == 422 && refused.text.contains("id=\"url-fault\""), "{}", refused.text);
    assert!(!refused.text.contains("hidden-secret") && refused.text.contains("enter them again"), "{}", refused.text);
    let lines = [("name", "new"), ("kind", "push"), ("url", "https://push.example/"), ("headers", "X-A: 1\r\nodd")];
    let refused = admin.form("/types", &with(&fields, &lines)).await;
    assert!(refused.text.contains("line 2: expected a name"), "{}", refused.text);
    // The drawing follows the fields, and nothing is saved.
    let preview =
        admin.form("/types", &with(&fields, &[("name", "new"), ("min_seconds", "7"), ("preview", "yes")])).await;
    assert!(preview.status == 200 && preview.text.contains("Waits between attempts: 7 s, 14 s"), "{}", preview.text);
    server.get("/api/v1/job-types/new").await.expect(404);
    server.stop().await;
}

#[tokio::test]
async fn only_admins_see_and_send_the_forms_and_types_are_copied_and_deleted() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/full", full()).await.expect(201);
    server.put("/api/v1/job-types/used", json!({})).await.expect(201);
    server.post("/api/v1/jobs", json!({"type": "used"})).await.expect(201);
    let (grace, ada) = (server.person("Grace", "support").await, server.person("Ada", "user").await);
    for caller in [&grace, &ada] {
        assert_eq!(caller.get("/new-type").await.status, 403);
        for path in ["/types", "/types/full", "/types/full/delete"] {
            assert_eq!(caller.form(path, &[("name", "new"), ("concurrency", "1")]).await.status, 403, "{path}");
        }
    }
    let page = grace.get("/types/full").await.text;
    assert!(!page.contains("id=\"change\"") && !page.contains("hidden-"), "{page}");
    assert!(page.contains("id=\"details\""), "{page}");
    assert!(!grace.get("/types").await.text.contains("/new-type"));

    let admin = server.admin().await;
    // The form has all settings already.
    assert!(!admin.get("/types/full").await.text.contains("id=\"details\""));
    let copy = shown(&admin.get("/new-type?from=full").await.text);
    assert_eq!(location(&admin.form("/types", &with(&copy, &[("name", "copy")])).await), "/types/copy?did=created");
    let copied = server.get("/api/v1/job-types/copy").await.expect(200);
    assert_eq!((&copied["rate_limit"], &copied["steps"]), (&full()["rate_limit"], &full()["steps"]));
    assert!(admin.get("/types/copy").await.text.contains("None are stored."), "secrets are not copied");

    let refused = admin.form("/types/used/delete", &[]).await;
    assert!(refused.status == 422 && refused.text.contains("Jobs of this type exist"), "{}", refused.text);
    assert_eq!(location(&admin.form("/types/copy/delete", &[]).await), "/types?did=type-deleted");
    server.get("/api/v1/job-types/copy").await.expect(404);
    server.stop().await;
}

#[tokio::test]
async fn an_old_form_does_not_overwrite_and_a_long_one_survives_step_up() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({"steps": ["one"]})).await.expect(201);
    person(&server, "root", "admin").await;
    let root = server.sign_in("root@example.com", PASSWORD).await;
    let old = shown(&root.get("/types/a").await.text);
    server.patch("/api/v1/job-types/a", json!({"concurrency": 3})).await.expect(200);
    // A mistake in an old form does not make it a new one.
    let refused = root.form("/types/a", &with(&old, &[("factor", "two")])).await;
    let still_old = shown(&refused.text);
    let late = root.form("/types/a", &with(&still_old, &[("factor", "2"), ("steps", "two")])).await;
    assert!(
        late.status == 422 && late.text.contains("The job type was changed since this page was opened"),
        "{}",
        late.text
    );
    assert_eq!(server.get("/api/v1/job-types/a").await.expect(200)["steps"], json!(["one"]));

    age_sessions(&server).await;
    let schema = format!(r#"{{"title": "{}"}}"#, "x".repeat(20_000));
    let fields = shown(&late.text);
    let challenged = root.form("/types/a", &with(&fields, &[("schema", &schema), ("steps", "two")])).await;
    assert_eq!(challenged.status, 403, "{}", challenged.text);
    let sealed = challenged.text.split("name=\"kept\" value=\"").nth(1).and_then(|rest| rest.split('"').next());
    let confirmed = [("kept", sealed.expect("what was typed, sealed")), ("password", PASSWORD)];
    assert_eq!(root.form("/step-up", &confirmed).await.status, 307);
    assert_eq!(location(&root.form("/types/a", &confirmed).await), "/types/a?did=changed");
    let now = server.get("/api/v1/job-types/a").await.expect(200);
    assert_eq!((&now["steps"], now["payload_schema"]["title"].as_str().map(str::len)), (&json!(["two"]), Some(20_000)));
    server.stop().await;
}
