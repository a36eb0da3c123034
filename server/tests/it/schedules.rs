//! `schedules`: trees created by cron expressions, once per tick, on several servers.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Answer, Api, Server};

/// Longest wait for a tick.
const SOON: Duration = Duration::from_secs(30);
/// Pause between two looks at a schedule.
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) async fn schedule(owner: &Api, more: Value) -> String {
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

pub(crate) async fn jobs(owner: &Api) -> usize {
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
async fn schedule_that_has_ended_catches_up_with_its_last_tick_before_the_end() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let body = json!({"cron": "@hourly", "catch_up": "last", "catch_up_window_seconds": 20_000});
    let path = schedule(&server, body).await;
    // No server ran for five hours, and the schedule ended between the second and the third tick of those.
    in_database(
        &server,
        "update schedule set cron = (extract(minute from now)::int + 59) % 60 || ' * * * *',
           next_at = date_trunc('minute', now) - interval '5 hours 1 minute',
           ends_at = date_trunc('minute', now) - interval '3 hours 31 minutes', next_check_at = now
         from (select clock_timestamp() as now) clock",
    )
    .await;
    until(&server, &path, |schedule| !schedule["last_run"].is_null()).await;
    let runs = runs(&server).await;
    assert_eq!(runs.iter().map(|(_, state, _)| state.as_str()).collect::<Vec<_>>(), ["skipped", "started"], "{runs:?}");
    assert_eq!(runs[1].0, runs[0].0 + 3_600, "the last tick before the end: {runs:?}");
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
