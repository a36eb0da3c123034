//! Forms that are sent twice do once what they say; forms that were drawn before someone else's change overwrite nothing.

use serde_json::{Value, json};

use crate::{
    start_job::key_in,
    support::{
        Answer, Api, Server,
        imports::{complete, import, lines, upload},
    },
};

fn id(value: &Value) -> &str {
    value["id"].as_str().expect("an id")
}

fn location(answer: &Answer) -> &str {
    assert_eq!(answer.status, 303, "{}", answer.text);
    answer.headers["location"].to_str().expect("text")
}

/// Value of a hidden field of a page.
fn hidden(page: &str, name: &str) -> String {
    let (_, rest) = page.split_once(&format!("name=\"{name}\" value=\"")).expect("a field");
    rest.split_once('"').expect("its end").0.to_owned()
}

async fn roots(caller: &Api) -> usize {
    caller.get("/api/v1/jobs?root=true").await.expect(200)["data"].as_array().expect("jobs").len()
}

/// Fails the only item of a type for good.
async fn fail(server: &Server, job_type: &str) -> String {
    let claim = json!({"worker_id": "w", "types": [job_type], "wait_seconds": 20});
    let claimed = server.post("/api/v1/assignments", claim).await.expect(200)["assignments"][0].clone();
    let failure = json!({"error": {"message": "broken"}, "retryable": false});
    server.post(&format!("/api/v1/assignments/{}/failure", id(&claimed)), failure).await.expect(200);
    id(&claimed["item"]).to_owned()
}

#[tokio::test]
async fn repeated_form_starts_one_import() {
    let server = Server::start().await;
    let strict = json!({"executor": {"kind": "pull"}, "require_idempotency_key": true});
    server.put("/api/v1/job-types/payroll", strict).await.expect(201);
    let ada = server.person("Ada", "user").await;
    let file = upload(&ada, "march.csv", "name,amount\nann,1\nbob,2\n").await;
    let key = key_in(&ada.get(&format!("/imports/new?upload_id={file}")).await.text);
    let mut fields = [("upload_id", &*file), ("key", &*key), ("type", "payroll"), ("header", "yes"), ("name", "March")];
    let (first, second) = tokio::join!(ada.form("/imports", &fields), ada.form("/imports", &fields));
    assert_eq!(location(&first), location(&second));
    assert_eq!(location(&ada.form("/imports", &fields).await), location(&first));
    assert_eq!(roots(&ada).await, 1);

    // Changed after the start, it is another import, with a key of its own.
    fields[4].1 = "April";
    let refused = ada.form("/imports", &fields).await;
    assert_eq!(refused.status, 422);
    assert!(refused.text.contains("This form was sent before"), "{}", refused.text);
    let fresh = key_in(&refused.text);
    fields[1].1 = &fresh;
    assert_ne!(location(&ada.form("/imports", &fields).await), location(&first));
    server.stop().await;
}

#[tokio::test]
async fn repeated_form_runs_a_job_an_item_and_a_schedule_again_once() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let ada = server.person("Ada", "user").await;
    let new_job = json!({"type": "a", "sealed": true, "items": [{"payload": 1}]});
    let job = ada.post("/api/v1/jobs", new_job.clone()).await.expect(201);
    let item = fail(&server, "a").await;
    let schedule = json!({"name": "n", "cron": "0 0 1 1 *", "job": new_job, "overlap": "queue"});
    let schedule = ada.post("/api/v1/schedules", schedule).await.expect(201);

    let pages = [
        (format!("/jobs/{}", id(&job)), "/replay"),
        (format!("/items/{item}?open=replay"), "/replay"),
        (format!("/schedules/{}", id(&schedule)), "/run"),
    ];
    for (n, (page, action)) in pages.iter().enumerate() {
        let key = key_in(&ada.get(page).await.text);
        let to = format!("{}{action}", page.split('?').next().expect("a path"));
        let fields = [("key", &*key)];
        let (first, second) = tokio::join!(ada.form(&to, &fields), ada.form(&to, &fields));
        assert_eq!(location(&first), location(&second), "{page}");
        assert_eq!(roots(&ada).await, n + 2, "{page}");
    }

    // A key counts for one schedule only.
    let other = json!({"name": "other", "cron": "0 0 1 1 *", "job": {"type": "a"}});
    let other = ada.post("/api/v1/schedules", other).await.expect(201);
    for (n, schedule) in [&schedule, &other].into_iter().enumerate() {
        let path = format!("/api/v1/schedules/{}/run", id(schedule));
        let request = ada.request(reqwest::Method::POST, &path).header("idempotency-key", "one");
        let answer = Answer::of(request).await;
        if n == 0 { drop(answer.expect(200)) } else { drop(answer.expect_problem(422, "idempotency_key_reused")) }
    }
    let form = [
        ("key", "the form"),
        ("name", "nightly"),
        ("cron", "0 2 * * *"),
        ("time_zone", "UTC"),
        ("job", "{\"type\":\"a\"}"),
        ("overlap", "skip"),
        ("catch_up", "last"),
        ("catch_up_window_seconds", "60"),
    ];
    let (first, second) = tokio::join!(ada.form("/schedules", &form), ada.form("/schedules", &form));
    assert_eq!(location(&first), location(&second));
    server.stop().await;
}

#[tokio::test]
async fn page_of_failed_rows_opened_before_a_correction_overwrites_nothing() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/payroll", json!({})).await.expect(201);
    let ada = server.person("Ada", "user").await;
    let file = upload(&ada, "march.csv", "name,amount\nann,1\nbob,2\n").await;
    let job = import(&ada, "payroll", &file).await;
    let (first, second) = (fail(&server, "payroll").await, fail(&server, "payroll").await);
    let path = format!("/imports/{}/correct", id(&job));
    let page = ada.get(&path).await.text;

    // Somebody else corrects a row, and it fails once more.
    let name = if page.find(&first) < page.find(&second) { "ann" } else { "bob" };
    let corrected = json!({"payload": {"name": name, "amount": "11"}});
    ada.post(&format!("/api/v1/items/{first}/retry"), corrected.clone()).await.expect(200);
    fail(&server, "payroll").await;
    let other = if name == "ann" { "bob" } else { "ann" };
    let fields = |page: &str, amount: &str| {
        let shown = |item: &str| (format!("shown.{item}"), hidden(page, &format!("shown.{item}")));
        vec![
            shown(&first),
            (format!("c.{first}.0"), name.to_owned()),
            (format!("c.{first}.1"), amount.to_owned()),
            shown(&second),
            (format!("c.{second}.0"), other.to_owned()),
            (format!("c.{second}.1"), "22".to_owned()),
        ]
    };
    let send = async |fields: Vec<(String, String)>| {
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        ada.form(&path, &fields).await
    };
    let payload = async |item: &str| ada.get(&format!("/api/v1/items/{item}")).await.expect(200)["payload"].clone();

    // A cell that both changed is shown as it is now, and nothing is retried.
    let shown_amount = if name == "ann" { "1" } else { "2" };
    let refused = send(fields(&page, "5")).await;
    assert_eq!(refused.status, 422);
    assert!(refused.text.contains("somebody has changed it to “11” since"), "{}", refused.text);
    assert_ne!(payload(&second).await["amount"], "22");
    // A row that the reader did not touch stays as it is now; the other one is retried.
    assert_eq!(location(&send(fields(&page, shown_amount)).await), format!("/imports/{}", id(&job)));
    assert_eq!(payload(&first).await, corrected["payload"]);
    assert_eq!(payload(&second).await["amount"], "22");
    assert_eq!(ada.get(&format!("/api/v1/items/{first}")).await.expect(200)["state"], "dead");
    // Whoever has seen the change may replace it.
    let fields: Vec<_> = fields(&refused.text, "5").into_iter().filter(|(name, _)| name.contains(&first)).collect();
    assert_eq!(location(&send(fields).await), format!("/imports/{}", id(&job)));
    assert_eq!(payload(&first).await["amount"], "5");
    server.stop().await;
}

#[tokio::test]
async fn form_opened_before_a_change_overwrites_nothing() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let ada = server.person("Ada", "user").await;
    ada.post("/api/v1/jobs", json!({"type": "a", "sealed": true, "items": [{"payload": 1}]})).await.expect(201);
    let item = format!("/items/{}", fail(&server, "a").await);
    let version = hidden(&ada.get(&format!("{item}?open=retry")).await.text, "version");

    // Somebody else corrects the payload, and it fails once more.
    ada.post(&format!("/api/v1{item}/retry"), json!({"payload": 2})).await.expect(200);
    fail(&server, "a").await;
    let to = format!("{item}/retry");
    let refused = ada.form(&to, &[("version", &version), ("payload", "1")]).await;
    assert_eq!(refused.status, 422);
    assert!(refused.text.contains("It has changed since this form was opened"), "{}", refused.text);
    assert_eq!(ada.get(&format!("/api/v1{item}")).await.expect(200)["payload"], 2);

    // A repeated click on "Retry" finds that the first one has done it.
    let version = hidden(&refused.text, "version");
    let tag = ada.get(&format!("/api/v1{item}")).await.headers["etag"].clone();
    for _ in 0..2 {
        assert_eq!(location(&ada.form(&to, &[("version", &version)]).await), format!("{item}?did=retried"));
    }
    let request = ada.request(reqwest::Method::GET, &format!("/api/v1{item}")).header("if-none-match", tag);
    assert_eq!(Answer::of(request).await.expect(200)["state"], "available", "its ETag has changed");

    let schedule = json!({"name": "n", "cron": "0 0 1 1 *", "job": {"type": "a"}});
    let schedule = format!("/schedules/{}", id(&ada.post("/api/v1/schedules", schedule).await.expect(201)));
    let seen = hidden(&ada.get(&schedule).await.text, "seen");
    ada.patch(&format!("/api/v1{schedule}"), json!({"cron": "0 6 * * *"})).await.expect(200);
    let renamed = |seen: &str| {
        [
            ("seen", seen.to_owned()),
            ("name", "renamed".into()),
            ("cron", "0 0 1 1 *".into()),
            ("time_zone", "UTC".into()),
            ("job", "{\"type\":\"a\"}".into()),
            ("overlap", "skip".into()),
            ("catch_up", "none".into()),
            ("catch_up_window_seconds", "60".into()),
        ]
    };
    let fields = renamed(&seen);
    let refused = ada.form(&schedule, &fields.each_ref().map(|(name, value)| (*name, value.as_str()))).await;
    assert!(refused.status == 422 && refused.text.contains("It has changed since"), "{}", refused.text);
    assert_eq!(ada.get(&format!("/api/v1{schedule}")).await.expect(200)["cron"], "0 6 * * *");
    let fields = renamed(&hidden(&refused.text, "seen"));
    location(&ada.form(&schedule, &fields.each_ref().map(|(name, value)| (*name, value.as_str()))).await);
    server.stop().await;
}

/// What is left of a row that could not be read goes to no worker.
#[tokio::test]
async fn unreadable_row_is_retried_with_a_corrected_payload_only() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({"executor": {"kind": "pull"}})).await.expect(201);
    let file = upload(&server, "march.csv", "name,dept,amount\nSmith, John,HR,5000\n").await;
    let job = complete(&server, &import(&server, "a", &file).await).await;
    assert_eq!(lines(&server, &job, "failures").await[0]["error"]["kind"], "too_many_fields");
    let items = server.get(&format!("/api/v1/items?job={}", id(&job))).await.expect(200);
    let item = format!("/api/v1/items/{}", id(&items["data"][0]));
    let problem = server.post(&format!("{item}/retry"), json!({})).await.expect_problem(409, "not_retryable");
    assert_eq!(problem["item_state"], "dead");

    let filter = json!({"action": "retry", "target": "items", "filter": {"job": id(&job)}, "reason": "again"});
    let bulk = server.post("/api/v1/bulk-operations", filter).await.expect(202);
    let path = format!("/api/v1/bulk-operations/{}", id(&bulk));
    crate::retention::until(async || server.get(&path).await.expect(200)["state"] == "completed").await;
    let operation = server.get(&path).await.expect(200);
    assert_eq!(operation["skipped"], json!([{"reason": "not_retryable", "count": 1}]), "{operation}");
    assert_eq!(server.get(&item).await.expect(200)["state"], "dead");

    let corrected = json!({"name": "Smith, John", "dept": "HR", "amount": "5000"});
    server.post(&format!("{item}/retry"), json!({"payload": corrected})).await.expect(200);
    let claim = json!({"worker_id": "w", "types": ["a"], "wait_seconds": 20});
    let claimed = server.post("/api/v1/assignments", claim).await.expect(200)["assignments"][0].clone();
    assert_eq!((&claimed["item"]["payload"], &claimed["item"]["delivery"]), (&corrected, &json!("at_least_once")));
    // It was handed out: now it can be retried as it is.
    let failure = json!({"error": {"message": "broken"}, "retryable": false});
    server.post(&format!("/api/v1/assignments/{}/failure", id(&claimed)), failure).await.expect(200);
    server.post(&format!("{item}/retry"), json!({})).await.expect(200);
    server.stop().await;
}
