//! F15 and F16: a transaction that stays open while rows come and go, and random concurrent calls on the same trees.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use futures::future::{join_all, try_join_all};
use serde_json::{Value, json};
use sqlx::Connection as _;

use crate::{
    raw::{Api, id, quantile, until},
    scene::Scene,
    stage::House,
    told::Told,
};

/// F15: an old snapshot stays open, so that vacuum cannot remove dead rows.
pub(crate) async fn bloat(house: &House, length: Duration) -> Result<Told> {
    let scene = Scene::new(house, "").await?;
    let mut served = scene.serve(&[]).await?;
    let api = &served.api;
    api.put_type("churn", &json!({})).await?;
    let mut session = scene.session().await?;
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
            let asked = Instant::now();
            let held = api.claim("churn", 5).await?;
            if held.is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
                continue;
            }
            claims.lock().unwrap_or_else(PoisonError::into_inner).push((begun.elapsed(), asked.elapsed()));
            let endings: Vec<Value> =
                held.iter().map(|one| json!({"assignment_id": one["id"], "result": {}})).collect();
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
    ensure!(first.len() > 50 && last.len() > 50, "too few claims to judge: {} and {}", first.len(), last.len());
    let (start, end) = (quantile(&mut first, 0.99), quantile(&mut last, 0.99));
    let ended = scene.number("select count(*) from outcome").await?;
    let mut told =
        Told::new(format!("{ended} items came and went beside a view that stayed open for {} s", length.as_secs()));
    told.acknowledged = ended as u64;
    told.note(format!("claim p99 {} ms at the start, {} ms at the end", start.as_millis(), end.as_millis()));
    // Smaller differences measure the machine.
    told.timed(end <= start * 3 + Duration::from_millis(20), || {
        format!("a claim's p99 went from {start:?} to {end:?}")
    });

    told.must(scene.drain(api, &["churn"], Duration::from_secs(30)).await);
    let dead =
        "select coalesce(sum(n_dead_tup), 0)::bigint from pg_stat_user_tables where relname in ('ready', 'lease')";
    let cleaned = until("dead rows are cleaned away", Duration::from_secs(30), async || {
        sqlx::query("select pg_stat_clear_snapshot()").execute(&scene.pool).await?;
        Ok(scene.number(dead).await? < 2_000)
    });
    match cleaned.await {
        Ok(took) => told.note(format!("cleaned away {:.1} s after", took.as_secs_f64())),
        Err(error) => told.must::<()>(Err(error)),
    }
    for statement in ["alter system reset autovacuum_naptime", "select pg_reload_conf()"] {
        sqlx::raw_sql(statement).execute(&scene.pool).await?;
    }
    told.whole(&scene, &[&served]).await?;
    served.stop().await?;
    Ok(told)
}

/// Ids known to all clients of the crowd.
#[derive(Default)]
struct Known {
    trees: VecDeque<String>,
    items: VecDeque<String>,
    held: VecDeque<String>,
}

/// F16: 64 clients that make random calls on everything that exists.
pub(crate) async fn crowd(house: &House, length: Duration) -> Result<Told> {
    const CLIENTS: usize = 64;
    let scene = Scene::new(house, "").await?;
    let mut served = scene.serve(&[]).await?;
    let mut second = scene.serve(&[]).await?;
    let backoff = json!({"min_seconds": 0.05, "max_seconds": 0.2});
    let spec = json!({"heartbeat_seconds": 0.5, "max_failures": 2, "backoff": backoff});
    served.api.put_type("crowd", &spec).await?;
    served.api.put_type("below", &spec).await?;
    let known = Mutex::new(Known::default());
    let (begun, statuses) = (Instant::now(), Mutex::new(std::collections::BTreeMap::<u16, u64>::new()));
    let client = async |n: usize| {
        let api = if n.is_multiple_of(2) { &served.api } else { &second.api };
        while begun.elapsed() < length {
            for status in deed(api, &known).await? {
                *statuses.lock().unwrap_or_else(PoisonError::into_inner).entry(status).or_default() += 1;
            }
        }
        anyhow::Ok(())
    };
    for done in join_all((0..CLIENTS).map(&client)).await {
        done?;
    }
    let statuses = statuses.into_inner().unwrap_or_else(PoisonError::into_inner);
    let calls: u64 = statuses.values().sum();
    let mut told =
        Told::new(format!("{calls} random calls of {CLIENTS} clients at two servers in {} s", length.as_secs()));
    told.note(format!("answers {statuses:?}"));
    told.zero("answers of 5xx", statuses.range(500..).map(|(_, n)| n).sum());
    // Leases without a holder expire, open jobs are sealed, and everything ends.
    let open: Vec<(uuid::Uuid,)> =
        sqlx::query_as("select j.id from job j join gate g using (gate_id) where not g.sealed")
            .fetch_all(&scene.pool)
            .await?;
    for (job,) in open {
        served.api.post(&format!("/jobs/{job}/seal"), &json!({})).await?;
    }
    told.must(scene.drain(&served.api, &["crowd", "below"], Duration::from_secs(40)).await);
    told.acknowledged = scene.number("select count(*) from item").await? as u64;
    told.stuck = scene
        .number("select count(*) from item where not exists (select 1 from outcome o where o.item_id = item.id)")
        .await? as u64;
    told.whole(&scene, &[&served, &second]).await?;
    served.stop().await?;
    second.stop().await?;
    Ok(told)
}

/// Makes one random call. Returns the statuses of its requests.
async fn deed(api: &Api, known: &Mutex<Known>) -> Result<Vec<u16>> {
    let lock = || known.lock().unwrap_or_else(PoisonError::into_inner);
    let any = |list: &VecDeque<String>| -> Option<String> {
        (!list.is_empty()).then(|| list[rand::random_range(0..list.len())].clone())
    };
    let call = async |path: String, body: Value| anyhow::Ok(vec![api.post(&path, &body).await?.status]);
    let (tree, item, held) = {
        let known = lock();
        (any(&known.trees), any(&known.items), any(&known.held))
    };
    match (rand::random_range(0..20), tree, item, held) {
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
                let mut known = lock();
                known.trees.push_back(job);
                for item in list["data"].as_array().into_iter().flatten() {
                    known.items.push_back(id(item)?.to_owned());
                }
                // Keeps about a hundred trees.
                if known.trees.len() > 100 {
                    known.trees.pop_front();
                }
                let many = known.items.len().saturating_sub(1_200);
                known.items.drain(..many);
            }
            Ok(vec![made.status])
        }
        (0..8, ..) => {
            let claim = json!({"worker_id": "crowd", "types": ["crowd", "below"], "max": rand::random_range(1..8)});
            let claimed = api.post("/assignments", &claim).await?;
            for one in claimed.json()["assignments"].as_array().into_iter().flatten() {
                lock().held.push_back(id(one)?.to_owned());
            }
            Ok(vec![claimed.status])
        }
        (8..14, .., Some(fence)) => {
            lock().held.retain(|other| *other != fence);
            match rand::random_range(0..6) {
                0 => call(format!("/assignments/{fence}/failure"), json!({"error": {"message": "chance"}})).await,
                1 => call(format!("/assignments/{fence}/release"), json!({})).await,
                2 => {
                    call("/assignments/finish".to_owned(), json!({"endings": [{"assignment_id": fence, "result": {}}]}))
                        .await
                }
                _ => call(format!("/assignments/{fence}/result"), json!({})).await,
            }
        }
        (14, .., Some(fence)) => {
            call(format!("/assignments/{fence}/heartbeat"), json!({"progress": {"done": 1}})).await
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
