//! F15 and F16: a transaction that stays open while rows come and go, and random concurrent calls on the same trees.

use std::{
    collections::VecDeque,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use anyhow::Result;
use futures::future::{join_all, try_join_all};
use serde_json::{Value, json};
use sqlx::Connection as _;

use crate::{
    findings::Findings,
    fixture::RunContext,
    inconclusive::Inconclusive,
    proxy_fixture::ProxyFixture,
    raw::{Api, id, quantile, until},
};

/// F15: an old snapshot stays open, so that vacuum cannot remove dead rows.
pub(crate) async fn bloat(context: &RunContext, length: Duration) -> Result<Findings> {
    let proxy_fixture = ProxyFixture::new(context, "").await?;
    let mut running = proxy_fixture.serve(&[]).await?;
    let api = &running.api;
    api.put_type("churn", &json!({})).await?;
    let mut session = proxy_fixture.session().await?;
    // Run autovacuum often, so that the test measures its effect and not its interval.
    for statement in ["alter system set autovacuum_naptime = '1s'", "select pg_reload_conf()"] {
        sqlx::raw_sql(statement).execute(&mut session).await?;
    }
    let mut view = session.begin().await?;
    sqlx::raw_sql("set transaction isolation level repeatable read; select count(*) from item")
        .execute(&mut *view)
        .await?;

    let begun = Instant::now();
    let claims = Mutex::new(Vec::new());
    let producing = try_join_all((0..2).map(|_| async {
        while begun.elapsed() < length {
            let items: Vec<Value> = (0..200).map(|n| json!({"payload": n})).collect();
            api.tree(&json!({"type": "churn", "sealed": true, "items": items})).await?;
        }
        anyhow::Ok(())
    }));
    let working = try_join_all((0..10).map(|_| async {
        while begun.elapsed() < length {
            let requested_at = Instant::now();
            let assignments = api.claim("churn", 5).await?;
            if assignments.is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
                continue;
            }
            claims.lock().unwrap_or_else(PoisonError::into_inner).push((begun.elapsed(), requested_at.elapsed()));
            let endings: Vec<Value> =
                assignments.iter().map(|one| json!({"assignment_id": one["id"], "result": {}})).collect();
            api.post("/assignments/finish", &json!({"endings": endings})).await?.ok()?;
        }
        anyhow::Ok(())
    }));
    tokio::try_join!(producing, working)?;
    view.rollback().await?;

    let claims = claims.into_inner().unwrap_or_else(PoisonError::into_inner);
    let within = |from: f64, to: f64| -> Vec<Duration> {
        let of = |share: f64| length.mul_f64(share);
        claims.iter().filter(|(at, _)| (of(from)..of(to)).contains(at)).map(|(_, took)| *took).collect()
    };
    let (mut first, mut last) = (within(0.05, 0.35), within(0.7, 1.0));
    if first.len() <= 50 || last.len() <= 50 {
        let what = format!("too few claims to judge: {} and {}", first.len(), last.len());
        return Err(Inconclusive::Untested.error(what));
    }
    let (start, end) = (quantile(&mut first, 0.99), quantile(&mut last, 0.99));
    let ended = proxy_fixture.number("select count(*) from outcome").await?;
    let mut findings = Findings::new(format!(
        "{ended} items were added and ended while a transaction stayed open for {} s",
        length.as_secs()
    ));
    findings.acknowledged = ended as u64;
    findings.note(format!("claim p99 {} ms at the start, {} ms at the end", start.as_millis(), end.as_millis()));
    // Smaller differences measure the machine.
    findings.check_fast(end <= start * 3 + Duration::from_millis(20), || {
        format!("a claim's p99 went from {start:?} to {end:?}")
    });

    findings.expect_ok(proxy_fixture.drain(api, &["churn"], Duration::from_secs(30)).await);
    let dead =
        "select coalesce(sum(n_dead_tup), 0)::bigint from pg_stat_user_tables where relname in ('ready', 'lease')";
    let cleaned = until("dead rows are cleaned up", Duration::from_secs(30), async || {
        sqlx::query("select pg_stat_clear_snapshot()").execute(&proxy_fixture.pool).await?;
        Ok(proxy_fixture.number(dead).await? < 2_000)
    });
    match cleaned.await {
        Ok(took) => findings.note(format!("dead rows cleaned up {:.1} s after it ended", took.as_secs_f64())),
        Err(error) => findings.expect_ok::<()>(Err(error)),
    }
    for statement in ["alter system reset autovacuum_naptime", "select pg_reload_conf()"] {
        sqlx::raw_sql(statement).execute(&proxy_fixture.pool).await?;
    }
    findings.check_integrity(&proxy_fixture, &[&running]).await?;
    running.stop().await?;
    Ok(findings)
}

/// Ids known to all clients of the crowd.
#[derive(Default)]
struct CrowdState {
    trees: VecDeque<String>,
    items: VecDeque<String>,
    assignments: VecDeque<String>,
}

/// F16: 64 clients that make random calls on everything that exists.
pub(crate) async fn crowd(context: &RunContext, length: Duration) -> Result<Findings> {
    const CLIENTS: usize = 64;
    /// A slow build runs for longer until it has made so many.
    const REQUESTS: u64 = 1_500;
    let proxy_fixture = ProxyFixture::new(context, "").await?;
    let mut running = proxy_fixture.serve(&[]).await?;
    let mut second = proxy_fixture.serve(&[]).await?;
    let backoff = json!({"min_seconds": 0.05, "max_seconds": 0.2});
    let spec = json!({"heartbeat_seconds": 0.5, "max_failures": 2, "backoff": backoff});
    running.api.put_type("crowd", &spec).await?;
    running.api.put_type("below", &spec).await?;
    let crowd_state = Mutex::new(CrowdState::default());
    let (begun, statuses) = (Instant::now(), Mutex::new(std::collections::BTreeMap::<u16, u64>::new()));
    let made = AtomicU64::new(0);
    let client = async |n: usize| {
        let api = if n.is_multiple_of(2) { &running.api } else { &second.api };
        while begun.elapsed() < length || made.load(Relaxed) < REQUESTS && begun.elapsed() < length * 10 {
            for status in random_call(api, &crowd_state).await? {
                made.fetch_add(1, Relaxed);
                *statuses.lock().unwrap_or_else(PoisonError::into_inner).entry(status).or_default() += 1;
            }
        }
        anyhow::Ok(())
    };
    for done in join_all((0..CLIENTS).map(&client)).await {
        done?;
    }
    let took = begun.elapsed();
    let statuses = statuses.into_inner().unwrap_or_else(PoisonError::into_inner);
    let calls: u64 = statuses.values().sum();
    let mut findings =
        Findings::new(format!("{calls} random requests by {CLIENTS} clients to two servers in {} s", took.as_secs()));
    findings.note(format!("answers {statuses:?}"));
    findings.check_in_time(calls >= REQUESTS, || format!("{calls} requests, fewer than {REQUESTS}"));
    let rejected = statuses.get(&503).copied().unwrap_or_default();
    findings.check_in_time(rejected == 0, || format!("{rejected} answers of 503"));
    findings.expect_zero("other answers of 5xx", statuses.range(500..).map(|(_, n)| n).sum::<u64>() - rejected);
    // Leases without a holder expire, open jobs are sealed, and everything ends.
    let open: Vec<(uuid::Uuid,)> =
        sqlx::query_as("select j.id from job j join job_state g using (job_key) where not g.sealed")
            .fetch_all(&proxy_fixture.pool)
            .await?;
    for (job,) in open {
        running.api.post(&format!("/jobs/{job}/seal"), &json!({})).await?;
    }
    findings.expect_ok(proxy_fixture.drain(&running.api, &["crowd", "below"], Duration::from_secs(40)).await);
    findings.acknowledged = proxy_fixture.number("select count(*) from item").await? as u64;
    findings.stuck = proxy_fixture
        .number("select count(*) from item where not exists (select 1 from outcome o where o.item_id = item.id)")
        .await? as u64;
    findings.check_integrity(&proxy_fixture, &[&running, &second]).await?;
    running.stop().await?;
    second.stop().await?;
    Ok(findings)
}

/// Makes one random call. Returns the statuses of its requests.
async fn random_call(api: &Api, crowd_state: &Mutex<CrowdState>) -> Result<Vec<u16>> {
    let lock = || crowd_state.lock().unwrap_or_else(PoisonError::into_inner);
    let any = |list: &VecDeque<String>| -> Option<String> {
        (!list.is_empty()).then(|| list[rand::random_range(0..list.len())].clone())
    };
    let call = async |path: String, body: Value| anyhow::Ok(vec![api.post(&path, &body).await?.status]);
    let (tree, item, assignment) = {
        let crowd_state = lock();
        (any(&crowd_state.trees), any(&crowd_state.items), any(&crowd_state.assignments))
    };
    match (rand::random_range(0..20), tree, item, assignment) {
        (0..3, tree, ..) if tree.is_none() || rand::random_range(0..3) == 0 => {
            let items: Vec<Value> = (0..12)
                .map(|n| json!({"payload": n, "serialize_key": (n % 3 == 0).then(|| format!("k{}", rand::random_range(0..40)))}))
                .collect();
            let child = json!({"type": "below", "feed": {}});
            let tree = json!({"type": "crowd", "items": items, "children": [child]});
            let made = api.post("/jobs", &tree).await?;
            if made.status == 201 {
                let job = id(&made.json())?.to_owned();
                let list = api.get(&format!("/items?job={job}&limit=12")).await?.json();
                let mut crowd_state = lock();
                crowd_state.trees.push_back(job);
                for item in list["data"].as_array().into_iter().flatten() {
                    crowd_state.items.push_back(id(item)?.to_owned());
                }
                // Keeps about a hundred trees.
                if crowd_state.trees.len() > 100 {
                    crowd_state.trees.pop_front();
                }
                let many = crowd_state.items.len().saturating_sub(1_200);
                crowd_state.items.drain(..many);
            }
            Ok(vec![made.status])
        }
        (0..8, ..) => {
            let claim = json!({"worker_id": "crowd", "types": ["crowd", "below"], "max": rand::random_range(1..8)});
            let claimed = api.post("/assignments", &claim).await?;
            for one in claimed.json()["assignments"].as_array().into_iter().flatten() {
                lock().assignments.push_back(id(one)?.to_owned());
            }
            Ok(vec![claimed.status])
        }
        (8..14, .., Some(assignment_id)) => {
            lock().assignments.retain(|other| *other != assignment_id);
            match rand::random_range(0..6) {
                0 => {
                    call(format!("/assignments/{assignment_id}/failure"), json!({"error": {"message": "chance"}})).await
                }
                1 => call(format!("/assignments/{assignment_id}/release"), json!({})).await,
                2 => {
                    call(
                        "/assignments/finish".to_owned(),
                        json!({"endings": [{"assignment_id": assignment_id, "result": {}}]}),
                    )
                    .await
                }
                _ => call(format!("/assignments/{assignment_id}/result"), json!({})).await,
            }
        }
        (14, .., Some(assignment_id)) => {
            call(format!("/assignments/{assignment_id}/heartbeat"), json!({"progress": {"done": 1}})).await
        }
        (15, Some(job), ..) => call(format!("/jobs/{job}/cancel"), json!({})).await,
        (16, Some(job), ..) if rand::random() => call(format!("/jobs/{job}/seal"), json!({})).await,
        (16, Some(job), ..) => {
            call(format!("/jobs/{job}/items"), json!([{"payload": "more"}, {"serialize_key": "k0"}])).await
        }
        (17, _, Some(item), _) => call(format!("/items/{item}/cancel"), json!({})).await,
        (18, _, Some(item), _) => call(format!("/items/{item}/retry"), json!({})).await,
        (19, Some(job), ..) => Ok(vec![api.get(&format!("/jobs/{job}")).await?.status]),
        _ => Ok(Vec::new()),
    }
}
