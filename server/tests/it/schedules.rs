//! `schedules`: trees created by cron expressions, once per tick, on several servers.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{
    callbacks::quick_server,
    support::{
        Answer, Api, Server,
        receiver::{Post, Receiver},
    },
};

/// Longest wait for a tick.
const SOON: Duration = Duration::from_secs(30);
/// Pause between two looks at a schedule.
const PAUSE: Duration = Duration::from_millis(50);

async fn schedule(owner: &Api, more: Value) -> String {
    let mut body = json!({"name": "every second", "cron": "* * * * * *", "job": {"type": "a", "sealed": true}});
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    let new_schedule = owner.post("/api/v1/schedules", body).await.expect(201);
    format!("/api/v1/schedules/{}", new_schedule["id"].as_str().expect("an id"))
}

/// Reads the schedule until it satisfies a condition.
async fn until(owner: &Api, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let schedule = owner.get(path).await.expect(200);
        if wanted(&schedule) {
            return schedule;
        }
        assert!(began.elapsed() < SOON, "still {schedule}");
        // No event tells of a tick.
        tokio::time::sleep(PAUSE).await;
    }
}

async fn jobs(owner: &Api) -> usize {
    let jobs = owner.get("/api/v1/jobs?root=true&limit=1000").await.expect(200);
    jobs["data"].as_array().expect("a list").len()
}

async fn in_database(server: &Server, statement: &'static str) {
    sqlx::query(statement).execute(&server.running.app.pool).await.expect("a statement");
}

/// Tick, state, and root of each run.
async fn runs(server: &Server) -> Vec<(i64, String, Option<uuid::Uuid>)> {
    let of = "select extract(epoch from tick)::bigint, state, job_id from schedule_run order by seq";
    sqlx::query_as(of).fetch_all(&server.running.app.pool).await.expect("runs")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedule_tick_creates_one_tree_on_two_servers() {
    let server = Server::start().await;
    let other = server.another().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let path = schedule(&server, json!({"catch_up": "all", "overlap": "skip"})).await;
    let fetched = until(&other, &path, |schedule| schedule["last_run"]["seq"].as_i64() >= Some(5)).await;
    assert_eq!(fetched["next_runs"].as_array().map(Vec::len), Some(5), "{fetched}");
    server.post(&format!("{path}/pause"), json!({})).await.expect(200);
    let new_schedule = runs(&server).await;
    assert!(new_schedule.iter().all(|(_, state, job)| state == "started" && job.is_some()), "{new_schedule:?}");
    assert!(new_schedule.windows(2).all(|pair| pair[1].0 == pair[0].0 + 1), "each second once: {new_schedule:?}");
    assert_eq!(jobs(&server).await, new_schedule.len());
    other.stop().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedule_tick_is_idempotent_after_crash() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let path = schedule(&server, json!({"catch_up": "all"})).await;
    until(&server, &path, |schedule| schedule["last_run"]["seq"].as_i64() >= Some(2)).await;
    server.post(&format!("{path}/pause"), json!({})).await.expect(200);
    let (before, trees) = (runs(&server).await, jobs(&server).await);
    // The trees were committed, and their runs were not.
    in_database(
        &server,
        "with gone as (delete from schedule_run returning tick)
         update schedule set last_seq = 0, next_at = (select min(tick) from gone), next_check_at = clock_timestamp(),
           ends_at = (select max(tick) from gone)",
    )
    .await;
    let last = before.len() as i64;
    until(&server, &path, |schedule| schedule["last_run"]["seq"].as_i64() == Some(last)).await;
    assert_eq!((runs(&server).await, jobs(&server).await), (before, trees));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedule_tick_whose_server_crashed_is_no_missed_tick() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let job = json!({"type": "a", "sealed": true, "initiated_by": "ops"});
    let path = schedule(&server, json!({"catch_up": "all", "job": job})).await;
    until(&server, &path, |schedule| schedule["last_run"]["seq"].as_i64() >= Some(3)).await;
    server.post(&format!("{path}/pause"), json!({})).await.expect(200);
    let before = runs(&server).await;
    // A run by hand beside them is listed once, as that.
    server.post(&format!("{path}/run"), json!({})).await.expect(200);
    in_database(&server, "update schedule_run set seq = 0 where by_hand").await;
    let trees = jobs(&server).await;
    // The trees of the ticks were committed, and their runs were not; no server came back in time. The schedule makes up
    // for nothing.
    in_database(
        &server,
        "with gone as (delete from schedule_run where not by_hand returning tick)
         update schedule set last_seq = 0, next_at = (select min(tick) from gone) - interval '2 seconds', catch_up = 'none',
           next_check_at = (select max(tick) from gone) + interval '7 seconds',
           ends_at = (select max(tick) from gone) + interval '1 second', paused = false",
    )
    .await;
    let last = before.len() as i64 + 2;
    until(&server, &path, |schedule| schedule["last_run"]["seq"].as_i64() == Some(last)).await;
    let after = runs(&server).await.split_off(1);
    assert_eq!(after[1..=before.len()], before[..], "each tree is listed: {after:?}");
    let others = [&after[0], &after[before.len() + 1]].map(|(tick, state, _)| (*tick, state.as_str()));
    let [first, end] = [before[0].0 - 2, before[before.len() - 1].0 + 1];
    assert_eq!(others, [(first, "skipped"), (end, "skipped")], "a run stands for the ticks without trees: {after:?}");
    assert_eq!(jobs(&server).await, trees);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedule_runs_no_tick_again_after_its_clock_was_set_back() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let path = schedule(&server, json!({})).await;
    until(&server, &path, |schedule| schedule["last_run"]["seq"].as_i64() >= Some(1)).await;
    server.post(&format!("{path}/pause"), json!({})).await.expect(200);
    in_database(&server, "update schedule_run set tick = tick + interval '1 hour'").await;
    let ran = server.get(&path).await.expect(200)["last_run"]["tick"].as_str().expect("a time").to_owned();
    let resumed = server.post(&format!("{path}/resume"), json!({})).await.expect(200);
    let next = resumed["next_runs"][0].as_str().expect("a time");
    assert!(next > ran.as_str(), "{next} is not after {ran}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedule_goes_on_after_last_tick_despite_run_by_hand() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let path = schedule(&server, json!({})).await;
    until(&server, &path, |schedule| schedule["last_run"]["seq"].as_i64() >= Some(1)).await;
    server.post(&format!("{path}/pause"), json!({})).await.expect(200);
    // The clock was set back to the last tick. A run by hand is later.
    let before = server.post(&format!("{path}/run"), json!({})).await.expect(200);
    in_database(
        &server,
        "update schedule set paused = false, next_check_at = clock_timestamp(),
           next_at = (select max(tick) from schedule_run where not by_hand)",
    )
    .await;
    let last = before["last_run"]["seq"].as_i64();
    until(&server, &path, |schedule| schedule["last_run"]["seq"].as_i64() > last).await;

    server.post(&format!("{path}/pause"), json!({})).await.expect(200);
    in_database(&server, "update schedule_run set tick = tick + interval '1 hour' where not by_hand").await;
    let last = runs(&server).await.iter().map(|(tick, ..)| *tick).max();
    server.post(&format!("{path}/run"), json!({})).await.expect(200);
    server.post(&format!("{path}/resume"), json!({})).await.expect(200);
    let next: i64 = sqlx::query_scalar("select extract(epoch from next_at)::bigint from schedule")
        .fetch_one(&server.running.app.pool)
        .await
        .expect("a time");
    assert!(Some(next) > last, "{next} is not after {last:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedule_runs_no_time_that_is_no_tick_any_more() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let path = schedule(&server, json!({"paused": true})).await;
    // As if the stored time were one by the rules of an earlier version.
    in_database(
        &server,
        "update schedule set paused = false, next_check_at = clock_timestamp(),
           next_at = date_trunc('second', clock_timestamp()) - interval '0.5 seconds'",
    )
    .await;
    until(&server, &path, |schedule| schedule["last_run"]["seq"].as_i64() >= Some(1)).await;
    let others: i64 = sqlx::query_scalar("select count(*) from schedule_run where tick <> date_trunc('second', tick)")
        .fetch_one(&server.running.app.pool)
        .await
        .expect("a number");
    assert_eq!(others, 0);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedule_tick_is_not_missed_while_server_works_on_others() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    schedule(&server, json!({"name": "first", "paused": true})).await;
    let path = schedule(&server, json!({"paused": true})).await;
    // The first schedule takes longer than the time after which a tick counts as missed.
    in_database(
        &server,
        "create function wait_for_first() returns trigger language plpgsql as $$ begin
           if exists (select from schedule where id = new.schedule_id and name = 'first') then
             perform pg_sleep(6);
           end if;
           return new;
         end $$",
    )
    .await;
    in_database(
        &server,
        "create trigger wait_for_first before insert on schedule_run for each row execute function wait_for_first()",
    )
    .await;
    in_database(
        &server,
        "update schedule set paused = false, next_at = tick, ends_at = tick,
           next_check_at = tick - case name when 'first' then interval '1 second' else interval '0 seconds' end
         from (select date_trunc('second', clock_timestamp()) as tick) now",
    )
    .await;
    let ran = until(&server, &path, |schedule| !schedule["last_run"].is_null()).await;
    assert_eq!(ran["last_run"]["state"], "started", "{ran}");
    let late: bool = sqlx::query_scalar("select max(at - tick) > interval '5 seconds' from schedule_run")
        .fetch_one(&server.running.app.pool)
        .await
        .expect("a truth value");
    assert!(late, "the test waited too briefly");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedule_is_run_by_many_at_once() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let path = format!("{}/run", schedule(&server, json!({"cron": "@yearly"})).await);
    for answer in futures::future::join_all((0..12).map(|_| server.post(&path, json!({})))).await {
        answer.expect(200);
    }
    assert_eq!(jobs(&server).await, 12);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedule_makes_due_ticks_before_its_times_change() {
    // No sweep.
    let server = Server::start_with(|config| config.roles = "web".parse().expect("a role")).await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let catch_up = json!({"cron": "@hourly", "catch_up": "all", "catch_up_window_seconds": 20_000});
    let path = schedule(&server, catch_up.clone()).await;
    in_database(
        &server,
        "update schedule set cron = (extract(minute from now)::int + 59) % 60 || ' * * * *',
           next_at = date_trunc('minute', now) - interval '2 hours 1 minute', next_check_at = now
         from (select clock_timestamp() as now) clock",
    )
    .await;
    server.patch(&path, json!({"ends_at": "2130-01-01T00:00:00Z"})).await.expect(200);
    let made = runs(&server).await;
    assert_eq!(made.iter().map(|(_, state, _)| state.as_str()).collect::<Vec<_>>(), ["started"; 3], "{made:?}");
    assert!(made.windows(2).all(|pair| pair[1].0 == pair[0].0 + 3_600), "{made:?}");
    server.delete(&path).await.expect(204);

    let path = schedule(&server, catch_up).await;
    in_database(
        &server,
        "update schedule set cron = '* * * * * *', next_check_at = clock_timestamp(),
           next_at = date_trunc('second', clock_timestamp()) - interval '100 seconds'",
    )
    .await;
    server.post(&format!("{path}/pause"), json!({})).await.expect(200);
    let made = runs(&server).await;
    let (last, first) = made.split_last().expect("runs");
    assert_eq!(first.len(), 20, "{made:?}");
    assert!(first.iter().all(|(_, state, _)| state == "started"), "{made:?}");
    assert_eq!((last.0, last.1.as_str()), (first[19].0 + 1, "skipped"), "a run stands for the others: {made:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedule_run_that_waited_has_its_tree_after_crash_and_change() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let path = schedule(&server, json!({"overlap": "queue"})).await;
    until(&server, &path, |schedule| schedule["last_run"]["seq"].as_i64() >= Some(1)).await;
    let paused = server.post(&format!("{path}/pause"), json!({})).await.expect(200);
    let before = runs(&server).await;
    // The tree was committed, and its run was not.
    in_database(
        &server,
        "with waiting as (update schedule_run set state = 'queued', job_id = null where seq = 1)
         update schedule set queued = 1",
    )
    .await;
    let change = json!({"job": {"type": "a", "sealed": true, "name": "new"}, "paused": false});
    server.patch(&path, change).await.expect(200);
    let last = paused["last_run"]["seq"].as_i64();
    until(&server, &path, |schedule| schedule["last_run"]["seq"].as_i64() > last).await;
    assert_eq!(runs(&server).await[0], before[0]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedule_skips_while_tree_of_earlier_tick_is_open() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let path = schedule(&server, json!({"overlap": "skip", "job": {"type": "a"}})).await;
    until(&server, &path, |schedule| schedule["last_run"]["state"] == "skipped").await;
    // More ticks pass than are stored.
    in_database(&server, "update schedule set last_seq = 2000").await;
    until(&server, &path, |schedule| schedule["last_run"]["seq"].as_i64() >= Some(2003)).await;
    assert_eq!(jobs(&server).await, 1);

    // A tree by hand comes and goes.
    let by_hand = server.post(&format!("{path}/run"), json!({})).await.expect(200);
    let (seq, job) = (by_hand["last_run"]["seq"].as_i64(), by_hand["last_run"]["job_id"].as_str().expect("an id"));
    server.post(&format!("/api/v1/jobs/{job}/cancel"), json!({})).await.expect(200);
    let canceled = server.get(&format!("/api/v1/jobs/{job}")).await.expect(200);
    assert_eq!(canceled["outcome"], "cancelled", "{canceled}");
    let next = seq.map(|seq| seq + 3);
    until(&server, &path, |schedule| schedule["last_run"]["seq"].as_i64() >= next).await;
    assert_eq!(jobs(&server).await, 2);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedule_overlap_policy() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let open = json!({"type": "a"});

    let path = schedule(&server, json!({"overlap": "skip", "job": open})).await;
    let skipped = until(&server, &path, |schedule| schedule["last_run"]["state"] == "skipped").await;
    assert_eq!(skipped["last_run"]["reason"], "overlap", "{skipped}");
    assert_eq!(jobs(&server).await, 1);
    server.delete(&path).await.expect(204);

    let path = schedule(&server, json!({"overlap": "queue", "job": open})).await;
    let first = until(&server, &path, |schedule| schedule["last_run"]["state"] == "queued").await;
    assert!(first["last_run"]["job_id"].is_null(), "{first}");
    assert_eq!(jobs(&server).await, 2);
    let newest = server.get("/api/v1/jobs?limit=1").await.expect(200);
    let newest = newest["data"][0]["id"].as_str().expect("an id").to_owned();
    server.post(&format!("/api/v1/jobs/{newest}/cancel"), json!({})).await.expect(200);
    let began = Instant::now();
    while jobs(&server).await < 3 {
        assert!(began.elapsed() < SOON, "the run that waited has started");
        tokio::time::sleep(PAUSE).await;
    }
    server.delete(&path).await.expect(204);

    let path = schedule(&server, json!({"overlap": "cancel_previous", "job": open})).await;
    let first = until(&server, &path, |schedule| schedule["last_run"]["seq"] == 1).await;
    let first = first["last_run"]["job_id"].as_str().expect("an id").to_owned();
    until(&server, &path, |schedule| schedule["last_run"]["seq"].as_i64() >= Some(2)).await;
    let canceled = server.get(&format!("/api/v1/jobs/{first}")).await.expect(200);
    assert_eq!(canceled["outcome"], "cancelled", "{canceled}");
    server.delete(&path).await.expect(204);
    server.get(&path).await.expect_problem(404, "not_found");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedule_catch_up_policy() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    for (catch_up, expected) in [("none", 0), ("last", 1), ("all", 3)] {
        let body = json!({"cron": "@hourly", "catch_up": catch_up, "catch_up_window_seconds": 10_000});
        let path = schedule(&server, body).await;
        // No server ran for five hours, a little before the next tick.
        in_database(
            &server,
            "update schedule set cron = (extract(minute from now)::int + 59) % 60 || ' * * * *',
               next_at = date_trunc('minute', now) - interval '5 hours 1 minute', next_check_at = now
             from (select clock_timestamp() as now) clock",
        )
        .await;
        until(&server, &path, |schedule| !schedule["last_run"].is_null()).await;
        let new_schedule = runs(&server).await;
        let started = new_schedule.iter().filter(|(_, state, _)| state == "started").count();
        assert_eq!(started, expected, "{catch_up}: {new_schedule:?}");
        assert_eq!(
            new_schedule.iter().filter(|(_, state, _)| state == "skipped").count(),
            1,
            "{catch_up}: {new_schedule:?}"
        );
        server.delete(&path).await.expect(204);
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedule_uses_current_rights_of_its_owner() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let owner = server.service("payroll", &["jobs:read", "jobs:write"]).await;
    let path = schedule(&owner, json!({})).await;
    let ran = until(&owner, &path, |schedule| schedule["last_run"]["state"] == "started").await;
    let job = owner.get(&format!("/api/v1/jobs/{}", ran["last_run"]["job_id"].as_str().expect("an id"))).await;
    assert_eq!(job.expect(200)["owner"]["name"], "payroll");

    let services = server.get("/api/v1/services").await.expect(200);
    let service = services["data"].as_array().expect("a list").iter().find(|it| it["name"] == "payroll");
    let id = service.expect("the service")["id"].as_str().expect("an id").to_owned();
    server.patch(&format!("/api/v1/services/{id}"), json!({"disabled": true})).await.expect(200);
    let failed = until(&server, &path, |schedule| schedule["last_run"]["state"] == "failed").await;
    assert_eq!(failed["last_run"]["problem"]["code"], "unauthenticated", "{failed}");
    assert_eq!(failed["last_run"]["problem"]["detail"], "The service was disabled.", "{failed}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedule_is_validated_edited_and_run_manually() {
    let server = Server::start().await;
    let schema = json!({"payload_schema": {"type": "object", "required": ["order"]}});
    server.put("/api/v1/job-types/a", schema).await.expect(201);
    let owner = server.service("payroll", &["jobs:read", "jobs:write"]).await;
    let refused = async |more: Value, code: &str, pointer: &str| {
        let mut body = json!({"name": "x", "cron": "@daily", "job": {"type": "a"}});
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        let problem = owner.post("/api/v1/schedules", body).await.expect_problem(422, code);
        assert!(pointer.is_empty() || problem["errors"][0]["pointer"] == pointer, "{problem}");
    };
    refused(json!({"cron": "61 * * * *"}), "invalid_body", "/cron").await;
    refused(json!({"cron": "0 0 30 2 *"}), "invalid_body", "/cron").await;
    refused(json!({"time_zone": "Mars/Olympus"}), "invalid_body", "/time_zone").await;
    refused(json!({"job": {"type": "none"}}), "unknown_job_type", "").await;
    refused(json!({"job": {"type": "a", "colour": 1}}), "invalid_body", "/job/colour").await;
    refused(json!({"job": {"type": "a", "items": [{"payload": {}}]}}), "invalid_body", "/job/items/0/payload/order")
        .await;
    refused(json!({"job": {"type": "a", "id": uuid::Uuid::now_v7()}}), "invalid_body", "/job/id").await;
    assert_eq!(jobs(&server).await, 0, "a check creates nothing");

    let zoned = json!({"cron": "0 2 * * *", "time_zone": "Europe/Berlin", "paused": true});
    let path = schedule(&owner, zoned).await;
    let fetched = owner.get(&path).await.expect(200);
    let next_runs = fetched["next_runs"].clone();
    assert_eq!((next_runs.as_array().map(Vec::len), &fetched["last_run"]), (Some(5), &Value::Null), "{fetched}");
    assert_eq!((&fetched["overlap"], &fetched["catch_up"]), (&json!("skip"), &json!("none")), "{fetched}");
    let fetched = owner.post(&format!("{path}/resume"), json!({})).await.expect(200);
    assert_eq!(fetched["next_runs"], next_runs, "a paused schedule shows its next times, too");
    let ends = json!({"starts_at": "2030-01-01T00:00:00Z", "ends_at": "2030-01-02T12:00:00Z"});
    let fetched = owner.patch(&path, ends).await.expect(200);
    assert_eq!(fetched["next_runs"], json!(["2030-01-01T01:00:00Z", "2030-01-02T01:00:00Z"]), "{fetched}");
    let fetched = owner.patch(&path, json!({"job": {"type": "a",  "name": "new"}})).await.expect(200);
    assert_eq!(fetched["job"], json!({"type": "a", "name": "new"}));

    let fetched = owner.post(&format!("{path}/run"), json!({})).await.expect(200);
    assert_eq!((&fetched["last_run"]["by_hand"], &fetched["last_run"]["state"]), (&json!(true), &json!("started")));
    assert_eq!(jobs(&owner).await, 1);
    let keyed = async |reason: Value| {
        let request = owner.request(reqwest::Method::POST, &format!("{path}/run")).header("idempotency-key", "once");
        Answer::of(request.json(&json!({"reason": reason}))).await
    };
    let first = keyed(Value::Null).await.expect(200);
    assert_eq!(keyed(Value::Null).await.expect(200), first);
    keyed(json!("another")).await.expect_problem(422, "idempotency_key_reused");
    assert_eq!(jobs(&owner).await, 2, "a repeated call runs nothing");
    let stranger = server.service("stranger", &["jobs:read", "jobs:write"]).await;
    stranger.get(&path).await.expect_problem(404, "not_found");
    assert_eq!(stranger.get("/api/v1/schedules").await.expect(200)["data"], json!([]));
    server.post(&format!("{path}/pause"), json!({})).await.expect_problem(422, "reason_required");
    let audited = server.get("/api/v1/schedules").await.expect(200);
    assert_eq!(audited["data"].as_array().map(Vec::len), Some(1));
    server.stop().await;
}

/// Runs a schedule by hand; returns the callback of its tree, answered.
async fn callback_of_run(owner: &Api, path: &str, receiver: &mut Receiver, secrets: [&str; 3]) -> [bool; 3] {
    let ran = owner.post(&format!("{path}/run"), json!({})).await;
    ran.expect(200);
    assert!(!ran.text.contains("h1dd3n"), "{}", ran.text);
    let post: Post = receiver.next().await;
    let signed = secrets.map(|secret| post.is_signed_by(secret.as_bytes()));
    post.status(200);
    signed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedule_signs_callbacks_with_its_secret_and_never_shows_it() {
    const SECRETS: [&str; 3] = ["h1dd3n-new-secret", "h1dd3n-old-secret", "h1dd3n-other-secret"];
    let server = quick_server().await;
    let mut receiver = Receiver::start().await;
    let ada = server.person("Ada", "user").await;
    let url = receiver.url("/done?key=h1dd3n-query");
    let new_schedule = async |secret: Value| {
        let job = json!({"type": "a", "sealed": true, "on_completed": {"url": url, "secret": secret}});
        ada.post("/api/v1/schedules", json!({"name": "yearly", "cron": "@yearly", "job": job})).await
    };
    for bad in [json!([]), json!("short"), json!(["the-new-secret", "the-old-secret", "the-oldest-secret"])] {
        let refused = new_schedule(bad).await.expect_problem(422, "invalid_body");
        assert_eq!(refused["errors"][0]["pointer"], "/job/on_completed/secret", "{refused}");
    }
    let created = new_schedule(json!([SECRETS[0], SECRETS[1]])).await;
    let path = format!("/api/v1/schedules/{}", created.expect(201)["id"].as_str().expect("an id"));
    let page = path.replace("/api/v1", "");
    let stored = async || -> String {
        let job = sqlx::query_scalar("select job from schedule").fetch_one(&server.running.app.pool);
        job.await.expect("the job")
    };
    let is_nowhere = async || {
        for address in [path.as_str(), "/api/v1/schedules", &page, "/schedules"] {
            let answer = ada.get(address).await;
            assert!(answer.status == 200 && !answer.text.contains("h1dd3n"), "{address}: {}", answer.text);
        }
        let log = server.get("/api/v1/audit").await;
        assert!(log.status == 200 && !log.text.contains("h1dd3n"), "{}", log.text);
        let job = stored().await;
        assert!(job.starts_with("sealed:v1:") && !job.contains("h1dd3n"), "{job}");
    };
    assert!(!created.text.contains("h1dd3n"), "{}", created.text);
    is_nowhere().await;
    let both = [true, true, false];
    assert_eq!(callback_of_run(&ada, &path, &mut receiver, SECRETS).await, both);

    // An edit of something else keeps it, and so does the job as it was shown, from a program and from the form.
    ada.patch(&path, json!({"cron": "0 0 2 1 *"})).await.expect(200);
    assert_eq!(callback_of_run(&ada, &path, &mut receiver, SECRETS).await, both);
    let mut job = ada.get(&path).await.expect(200)["job"].clone();
    job["name"] = json!("by a program");
    let patched = ada.patch(&path, json!({"job": job})).await;
    assert!(patched.status == 200 && !patched.text.contains("h1dd3n"), "{}", patched.text);
    assert_eq!(callback_of_run(&ada, &path, &mut receiver, SECRETS).await, both);
    job["name"] = json!("by the form");
    let job_text = job.to_string();
    let fields = [
        ("name", "yearly"),
        ("cron", "0 0 3 1 *"),
        ("time_zone", "UTC"),
        ("job", job_text.as_str()),
        ("overlap", "skip"),
        ("catch_up", "none"),
        ("catch_up_window_seconds", "3600"),
    ];
    let saved = ada.form(&page, &fields).await;
    assert_eq!(saved.status, 303, "{}", saved.text);
    let shown = ada.get(&path).await.expect(200)["job"].clone();
    assert_eq!(shown["name"], "by the form", "{shown}");
    is_nowhere().await;
    assert_eq!(callback_of_run(&ada, &path, &mut receiver, SECRETS).await, both);

    // Another receiver does not get the secret; `null` removes it.
    job["on_completed"]["url"] = json!(receiver.url("/elsewhere"));
    ada.patch(&path, json!({"job": job})).await.expect(200);
    assert_eq!(callback_of_run(&ada, &path, &mut receiver, SECRETS).await, [false; 3]);
    job["on_completed"]["secret"] = json!(SECRETS[2]);
    ada.patch(&path, json!({"job": job})).await.expect(200);
    is_nowhere().await;
    assert_eq!(callback_of_run(&ada, &path, &mut receiver, SECRETS).await, [false, false, true]);
    job["on_completed"]["secret"] = Value::Null;
    ada.patch(&path, json!({"job": job})).await.expect(200);
    assert_eq!(callback_of_run(&ada, &path, &mut receiver, SECRETS).await, [false; 3]);
    // A list in place of the object is refused, as by the API: its secret would not be recognized.
    let job_text = format!(r#"{{"type": "a", "on_completed": ["{url}", "h1dd3n-new-secret"]}}"#);
    let fields = fields.map(|(name, value)| (name, if name == "job" { job_text.as_str() } else { value }));
    assert_eq!(ada.form(&page, &fields).await.status, 422);
    server.stop().await;
}

#[tokio::test]
async fn repeated_run_by_hand_finds_the_tree_of_a_crashed_server() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let path = schedule(&server, json!({"cron": "@yearly"})).await;
    let run = async || {
        let request = server.request(reqwest::Method::POST, &format!("{path}/run")).header("idempotency-key", "payday");
        let schedule = Answer::of(request).await.expect(200);
        schedule["last_run"]["job_id"].as_str().expect("an id").to_owned()
    };
    let tree = run().await;
    // The server stopped between the commit of the tree and that of the run.
    in_database(&server, "delete from schedule_run").await;
    in_database(&server, "delete from idempotency where call like '%/run'").await;
    assert_eq!((run().await, jobs(&server).await), (tree.clone(), 1));
    // Long after, the key is free again.
    in_database(&server, "delete from idempotency").await;
    assert_ne!(run().await, tree);
    assert_eq!(jobs(&server).await, 2);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedule_runs_are_paginated() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let owner = server.service("payroll", &["jobs:read", "jobs:write"]).await;
    let path = schedule(&owner, json!({"cron": "@yearly"})).await;
    assert_eq!(owner.get(&format!("{path}/runs")).await.expect(200), json!({"data": [], "next_cursor": null}));
    for _ in 0..3 {
        owner.post(&format!("{path}/run"), json!({})).await.expect(200);
    }
    let seqs = |page: &Value| -> Vec<i64> {
        page["data"].as_array().expect("a list").iter().filter_map(|run| run["seq"].as_i64()).collect()
    };
    let first = owner.get(&format!("{path}/runs?limit=2")).await.expect(200);
    assert_eq!(seqs(&first), [3, 2]);
    assert_eq!((&first["data"][0]["state"], &first["data"][0]["by_hand"]), (&json!("started"), &json!(true)));
    let cursor = first["next_cursor"].as_str().expect("a cursor");
    let second = owner.get(&format!("{path}/runs?limit=2&cursor={cursor}")).await.expect(200);
    assert_eq!((seqs(&second), &second["next_cursor"]), (vec![1], &Value::Null));
    assert_eq!(seqs(&owner.get(&format!("{path}/runs?sort=created_at")).await.expect(200)), [1, 2, 3]);
    let stranger = server.service("stranger", &["jobs:read"]).await;
    stranger.get(&format!("{path}/runs")).await.expect_problem(404, "not_found");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedule_pages_create_edit_and_run() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let admin = server.admin().await;
    assert!(admin.get("/schedules").await.text.contains("No schedules yet"));
    let fields = |cron: &'static str, job: &'static str| {
        [
            ("name", "Nightly <b>"),
            ("cron", cron),
            ("time_zone", "Europe/Berlin"),
            ("job", job),
            ("overlap", "skip"),
            ("catch_up", "last"),
            ("catch_up_window_seconds", "600"),
        ]
    };
    let job = r#"{"type": "a", "sealed": true}"#;
    for (cron, job, message) in [
        ("61 2 * * *", job, "id=\"cron-fault\""),
        ("0 2 * * *", "{", "Nothing was saved"),
        ("0 2 * * *", r#"{"type": "b"}"#, "id=\"refusal\""),
    ] {
        let refused = admin.form("/schedules", &fields(cron, job)).await;
        assert_eq!(refused.status, 422, "{}", refused.text);
        assert!(
            refused.text.contains(message) && refused.text.contains("value=\"Nightly &lt;b&gt;\""),
            "{}",
            refused.text
        );
    }
    // A pattern fills in the expression, and nothing that was typed is lost.
    let typed = [&fields("", job)[..], &[("pattern", "0 * * * *")]].concat();
    let filled = admin.form("/schedules", &typed).await;
    assert_eq!(filled.status, 200, "{}", filled.text);
    for value in ["value=\"0 * * * *\"", "value=\"Nightly &lt;b&gt;\""] {
        assert!(filled.text.contains(value), "{value}: {}", filled.text);
    }
    let new_schedule = admin.form("/schedules", &fields("0 2 * * *", job)).await;
    assert_eq!(new_schedule.status, 303, "{}", new_schedule.text);
    let page = new_schedule.headers["location"].to_str().expect("text").split('?').next().expect("a path").to_owned();
    let fetched = admin.get(&page).await.text;
    assert!(fetched.contains("Every day at 02:00") && fetched.contains("No run yet"), "{fetched}");

    assert_eq!(admin.form(&format!("{page}/run"), &[]).await.status, 303);
    assert!(admin.get(&page).await.text.contains("started by hand"));
    assert_eq!(admin.form(&format!("{page}/pause"), &[]).await.status, 303);
    assert!(admin.get("/schedules").await.text.contains("Paused"));
    assert_eq!(admin.form(&page, &fields("0 18 * * 1-5", job)).await.status, 303);
    assert!(admin.get(&page).await.text.contains("Weekdays at 18:00"));
    assert_eq!(admin.get(&format!("{page}/run")).await.status, 303, "an address of a form leads to the page");
    assert_eq!(admin.form(&format!("{page}/delete"), &[]).await.status, 303);
    assert_eq!(admin.get(&page).await.status, 404);
    server.stop().await;
}
