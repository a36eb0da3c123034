//! Cost of statements does not grow with the stored data: all requests and background tasks of a busy server, measured
//! by PostgreSQL in buffers per call, with a thousand items and with a million.
//!
//! Uses a separate PostgreSQL, because the measurement is a global setting. Time is not measured.

use std::collections::HashMap;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use futures::StreamExt as _;
use serde_json::{Value, json};
use server::postgres::Throwaway;
use sqlx::PgPool;

use crate::support::Server;

const SMALL: i64 = 1_000;
const LARGE: i64 = 1_000_000;

/// Positions in the order of the jobs that the work itself may have filled in between.
const ADDED: i64 = 1_000;

/// Maximum buffers per call, plus a number per row returned or written: an item has entries in nine tables.
const A_CALL: f64 = 200.0;
const A_ROW: f64 = 30.0;
/// Tables may have grown by a quarter, and every index by one level: additional buffers per call and per row.
const A_LEVEL: f64 = 50.0;
const A_LEVEL_A_ROW: f64 = 6.0;

/// Statements whose cost is bounded by their search range, not by their result, with that bound.
const BOUNDED_BY_SEARCH_RANGE: [(&str, f64); 2] = [
    // A thousand ids at a time, by their keys in six tables.
    (r#"select i.id as "id!" from unnest($1::uuid[]) as wanted(id) cross join lateral"#, 20_000.0),
    // What is deferred, blocked or held of jobs that have few of it.
    ("select i.id, i.job_key, i.seq from ( select item_id from lease", 2_000.0),
];

/// Bytes of a cursor that identify its filters; the position follows.
const FINGERPRINT: usize = 8;

fn text(value: &Value) -> String {
    value.as_str().expect("text").to_owned()
}

/// Two growing jobs, one of waiting items and one of ended items, and the database for the statements.
struct BusyServer {
    server: Server,
    pool: PgPool,
    waiting: String,
    ended: String,
}

impl BusyServer {
    async fn begin(postgres: &Throwaway) -> Self {
        let server = Server::start_in(postgres.url()).await;
        let pool = server.running.app.pool.clone();
        sqlx::raw_sql("create extension pg_stat_statements").execute(&pool).await.expect("what counts");
        let many = json!({"steps": ["one"], "backoff": {"min_seconds": 1, "jitter": false}, "max_failures": 2});
        server.put("/api/v1/job-types/many", many).await.expect(201);
        server.put("/api/v1/job-types/lost", json!({"heartbeat_seconds": 1, "max_failures": 1})).await.expect(201);
        let job = async |name: &str| {
            let body = json!({"type": "many", "name": name, "items": [{"payload": 1}, {"payload": 2}]});
            text(&server.post("/api/v1/jobs", body).await.expect(201)["id"])
        };
        let ended = job("ended").await;
        let busy = Self { waiting: String::new(), ended, pool, server };
        // One that succeeded and one that is dead: the others are copies of these.
        let assignments = busy.claimed("many", 2).await;
        let endings = json!([{"assignment_id": assignments[0], "result": {"n": 1}},
                             {"assignment_id": assignments[1], "error": {"message": "no such user"}, "retryable": false}]);
        busy.server.post("/api/v1/assignments/finish", json!({"endings": endings})).await.expect(200);
        let body = json!({"type": "many", "name": "waiting", "items": [{"payload": 1}, {"payload": 2}]});
        let waiting = text(&busy.server.post("/api/v1/jobs", body).await.expect(201)["id"]);
        Self { waiting, ..busy }
    }

    async fn run(&self, statement: &'static str, from: i64, to: i64, job: &str) {
        let mut tx = self.pool.begin().await.expect("a transaction");
        // It may take as long as it likes; a server's own statements may not.
        sqlx::query("set local statement_timeout = 0").execute(&mut *tx).await.expect("as it is told");
        let query = sqlx::query(statement).bind(job).bind(from).bind(to);
        query.execute(&mut *tx).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
        tx.commit().await.expect("it is filled");
    }

    /// Fills both jobs up to a number of items.
    async fn fill(&self, from: i64, to: i64) {
        let filled = async |job: &str, statements: [&'static str; 3]| {
            for statement in [&[ITEMS], &statements[..]].concat() {
                self.run(statement, from, to, job).await;
            }
        };
        tokio::join!(filled(&self.waiting, [READY, WAITING, NOTHING]), filled(&self.ended, [OUTCOMES, ENDED, ERRORS]));
    }

    async fn claimed(&self, job_type: &str, max: usize) -> Vec<String> {
        let body = json!({"worker_id": "w", "types": [job_type], "max": max, "wait_seconds": 10});
        let got = self.server.post("/api/v1/assignments", body).await.expect(200);
        got["assignments"].as_array().expect("assignments").iter().map(|one| text(&one["id"])).collect()
    }

    /// Returns the page of a list that starts at a modified cursor.
    async fn page_at(&self, path: &str, position: impl FnOnce(&mut Value)) -> Value {
        let first = self.server.get(path).await.expect(200);
        let cursor = URL_SAFE_NO_PAD.decode(text(&first["next_cursor"])).expect("a cursor");
        let (fingerprint, from) = cursor.split_at(FINGERPRINT);
        let mut there = serde_json::from_slice(from).expect("a place");
        position(&mut there);
        let cursor = URL_SAFE_NO_PAD.encode([fingerprint, there.to_string().as_bytes()].concat());
        self.server.get(&format!("{path}&cursor={cursor}")).await.expect(200)
    }

    /// Performs all operations of a busy server, several times.
    async fn work(&self, items: i64) {
        let Self { server, waiting, ended, .. } = self;
        for round in 0..4 {
            let ten: Vec<Value> = (0..10).map(|n| json!({"payload": n})).collect();
            let body = json!({"type": "many", "name": "new", "items": ten, "sealed": true});
            server.post("/api/v1/jobs", body).await.expect(201);
            let path = format!("/api/v1/jobs/{waiting}/items");
            server.post(&path, Value::Array(ten.clone())).await.expect(200);
            let later: Vec<Value> =
                (0..10).map(|n| json!({"payload": n, "run_after": format!("2199-01-01T00:00:{n:02}Z")})).collect();
            server.post(&path, Value::Array(later)).await.expect(200);

            // Of ten: succeed, are tried again in a second, are dead; one is given back.
            let assignments = self.claimed("many", 10).await;
            assert_eq!(assignments.len(), 10);
            let heartbeats: Vec<Value> = assignments.iter().map(|id| json!({"assignment_id": id})).collect();
            server.post("/api/v1/assignments/heartbeat", json!({"heartbeats": heartbeats})).await.expect(200);
            for id in &assignments[..2] {
                server.post(&format!("/api/v1/assignments/{id}/heartbeat"), json!({})).await.expect(200);
            }
            server
                .post(&format!("/api/v1/assignments/{}/step", assignments[0]), json!({"name": "one"}))
                .await
                .expect(200);
            server.post(&format!("/api/v1/assignments/{}/release", assignments[9]), json!({})).await.expect(200);
            let error = json!({"message": format!("no such user {round}")});
            let ending = |(n, id): (usize, &String)| match n % 3 {
                0 => json!({"assignment_id": id, "result": {"n": n}}),
                of => json!({"assignment_id": id, "error": error, "retryable": of == 1}),
            };
            let endings: Vec<Value> = assignments[..9].iter().enumerate().map(ending).collect();
            server.post("/api/v1/assignments/finish", json!({"endings": endings})).await.expect(200);
        }
        self.read_all_pages(items).await;
        // What is not heard of is taken back by the duty that looks after leases; being lost once is the end of it.
        let ten: Vec<Value> = (0..10).map(|n| json!({"payload": n})).collect();
        let body = json!({"type": "lost", "items": ten, "sealed": true});
        let lost = text(&server.post("/api/v1/jobs", body).await.expect(201)["id"]);
        assert_eq!(self.claimed("lost", 10).await.len(), 10);
        let path = format!("/api/v1/jobs/{lost}");
        while server.get(&path).await.expect(200)["status"] != "completed" {
            // Without a pause, so that every connection of the pool is used and fills its caches.
            tokio::task::yield_now().await;
        }
        // One more item of the job that has ended, which ends it.
        if items == LARGE {
            let path = format!("/api/v1/jobs/{ended}/items?seal=true");
            server.post(&path, json!([{"payload": 1, "priority": 100}])).await.expect(200);
            let assignments = self.claimed("many", 1).await;
            server
                .post(&format!("/api/v1/assignments/{}/result", assignments[0]), json!({"result": 1}))
                .await
                .expect(200);
            assert_eq!(server.get(&format!("/api/v1/jobs/{ended}")).await.expect(200)["status"], "completed");
        }
    }

    /// Reads every page and list.
    async fn read_all_pages(&self, items: i64) {
        let Self { server, waiting, ended, .. } = self;
        let dead = server.get(&format!("/api/v1/items?job={ended}&state=dead&limit=5")).await.expect(200);
        let item = text(&dead["data"][0]["id"]);
        let group = server.get(&format!("/api/v1/dead-letters/groups?job={ended}")).await.expect(200);
        let error = text(&group["data"][0]["fingerprint"]);
        let mut paths: Vec<String> =
            ["/jobs", "/items", "/dead", "/", "/types", "/workers", "/api/v1/jobs?root=true", "/api/v1/items"]
                .map(str::to_owned)
                .to_vec();
        for job in [waiting, ended] {
            for path in ["/jobs/", "/api/v1/jobs/"] {
                paths.push(format!("{path}{job}"));
            }
            for filter in ["", "&state=available", "&state=scheduled,retryable", "&state=running", "&state=dead"] {
                for sort in ["", "&sort=created_at", "&sort=-created_at"] {
                    paths.push(format!("/api/v1/items?job={job}{filter}{sort}"));
                    paths.push(format!("/api/v1/items?root={job}{filter}{sort}"));
                }
            }
            for view in ["graph", "timeline", "results", "activity"] {
                paths.push(format!("/jobs/{job}?view={view}"));
            }
            paths.push(format!("/items?q=job:{job}"));
        }
        for filter in ["status=running", "status=completed", "type=many", "q=new", "stalled=true", "outcome=succeeded"]
        {
            paths.push(format!("/api/v1/jobs?{filter}"));
        }
        paths.extend([
            format!("/api/v1/items?job={ended}&error={error}"),
            "/api/v1/items?type=many&state=dead".to_owned(),
            format!("/dead?q=root:{ended}"),
            format!("/items/{item}"),
            format!("/api/v1/items/{item}"),
            format!("/api/v1/items/{item}/attempts"),
            "/api/v1/dead-letters".to_owned(),
            "/api/v1/dead-letters?sort=created_at".to_owned(),
            "/api/v1/dead-letters?sort=-created_at".to_owned(),
            "/api/v1/items?sort=created_at".to_owned(),
            "/api/v1/jobs?sort=created_at".to_owned(),
            "/api/v1/dead-letters/groups".to_owned(),
            "/api/v1/stats".to_owned(),
            "/api/v1/alerts".to_owned(),
        ]);
        server.running.app.engine.write_seen_workers().await.expect("written");
        let (credential, worker): (uuid::Uuid, String) =
            sqlx::query_as("select credential_id, worker_id from worker order by worker_id limit 1")
                .fetch_one(&self.pool)
                .await
                .expect("a worker");
        paths.push(format!("/workers/{credential}?name={worker}"));
        for path in &paths {
            let answer = server.get(path).await;
            assert_eq!(answer.status, 200, "{path}: {answer:?}");
        }
        // Half way through: of a million, the ten-thousandth page of fifty.
        for job in [waiting, ended] {
            let path = format!("/api/v1/items?job={job}&limit=50");
            let page = self.page_at(&path, |position| position[1] = json!(items / 2)).await;
            assert_eq!(page["data"].as_array().map(Vec::len), Some(50), "{page}");
        }
        // The state of a tree as a stream begins.
        let events = server.request(reqwest::Method::GET, &format!("/api/v1/jobs/{ended}/events"));
        let mut events = events.send().await.expect("a stream").bytes_stream();
        events.next().await.expect("an event").expect("bytes");
        // Results and failures as streams: the first rows, and no more than fill the buffers on the way.
        for kind in ["results", "failures"] {
            let rows = server.request(reqwest::Method::GET, &format!("/api/v1/jobs/{ended}/{kind}"));
            let mut rows = rows.send().await.expect("a stream").bytes_stream();
            rows.next().await.expect("rows").expect("bytes");
        }
    }

    async fn forget(&self) {
        sqlx::raw_sql("select pg_stat_statements_reset()").execute(&self.pool).await.expect("a new count");
    }

    /// Returns the costs of all statements.
    async fn counted(&self) -> HashMap<String, Cost> {
        let rows: Vec<(String, f64, f64)> = sqlx::query_as(
            "select regexp_replace(query, '\\s+', ' ', 'g'),
               (sum(shared_blks_hit + shared_blks_read) / sum(calls))::float8, (sum(rows) / sum(calls))::float8
             from pg_stat_statements s join pg_database d on d.oid = s.dbid
             where d.datname = current_database() group by 1",
        )
        .fetch_all(&self.pool)
        .await
        .expect("what was counted");
        rows.into_iter().map(|(statement, buffers, rows)| (statement, Cost { buffers, rows })).collect()
    }
}

/// Buffers and rows per call of a statement.
#[derive(Clone, Copy, Debug)]
struct Cost {
    buffers: f64,
    rows: f64,
}

/// `$1` is the job; positions $2 to $3 of its order are filled.
const ITEMS: &str = "insert into item (id, job_key, seq, priority, payload, created_at)
    select (lpad(to_hex((extract(epoch from now()) * 1000)::bigint - 9000000 + n), 12, '0') || '70008000'
        || lpad(to_hex(j.job_key), 12, '0'))::uuid, j.job_key, n, 0, '{\"n\":1}', now()
    from job j cross join generate_series($2, $3) n where j.id = $1::uuid";

const READY: &str = "insert into ready (fair_turn, item_id, job_key, type_id, attempts, failures, negated_priority)
    select t.fair_turn + i.seq / 10, i.id, i.job_key, t.type_id, 0, 0, t.negated_priority
    from job j join item i on i.job_key = j.job_key and i.seq between $2 and $3
    cross join lateral (select * from ready r where r.job_key = j.job_key order by r.fair_turn desc limit 1) t
    where j.id = $1::uuid";

const WAITING: &str = "update job_state g set n_available = n_available + $3 - $2 + 1, next_seq = $3 + 1,
      last_fair_turn = (select max(fair_turn) from ready r where r.job_key = g.job_key) * 10, version = version + 1
    from job j where j.id = $1::uuid and g.job_key = j.job_key";

const OUTCOMES: &str = "insert into outcome (item_id, job_key, seq, lease_id, started_at, ended_at, attempt, failures,
      state, ended_as, worker_id, result, error_message, error_kind, error_detail, fingerprint)
    select i.id, i.job_key, i.seq, i.id, t.started_at, t.ended_at, t.attempt, t.failures, t.state, t.ended_as,
      t.worker_id, t.result, t.error_message, t.error_kind, t.error_detail, t.fingerprint
    from job j join item i on i.job_key = j.job_key and i.seq between $2 and $3
    join lateral (select * from outcome o where o.job_key = j.job_key and o.seq <= 2) t
      on t.state = case when i.seq % 10 = 0 then 2 else 1 end
    where j.id = $1::uuid";

/// The job of waiting items has no errors.
const NOTHING: &str = "select $1::text, $2::bigint, $3::bigint";

const ENDED: &str = "update job_state g set n_dead = n_dead + d.n, n_succeeded = n_succeeded + $3 - $2 + 1 - d.n,
      next_seq = $3 + 1, version = version + 1
    from job j cross join (select $3 / 10 - ($2 - 1) / 10 as n) d
    where j.id = $1::uuid and g.job_key = j.job_key";

const ERRORS: &str = "update error_group e set n_dead = n_dead + $3 / 10 - ($2 - 1) / 10
    from job j where j.id = $1::uuid and e.job_key = j.job_key";

#[tokio::test]
async fn statement_cost_does_not_grow_with_stored_rows() {
    let postgres = tokio::task::spawn_blocking(|| {
        Throwaway::start_with_settings(
            "shared_preload_libraries = 'pg_stat_statements'\npg_stat_statements.max = 2000\n",
        )
    })
    .await
    .expect("a thread")
    .expect("a PostgreSQL of its own");
    let busy = BusyServer::begin(&postgres).await;
    busy.fill(3, SMALL).await;
    // Once to fill the caches of every connection.
    busy.work(SMALL).await;
    busy.forget().await;
    busy.work(SMALL).await;
    let small = busy.counted().await;
    busy.fill(SMALL + 1 + ADDED, LARGE).await;
    // Once more, because so many rows make PostgreSQL renew what the connections know of the tables.
    busy.work(SMALL).await;
    busy.forget().await;
    busy.work(LARGE).await;
    let large = busy.counted().await;
    busy.server.stop().await;

    let violations: Vec<String> = large
        .iter()
        .filter_map(|(statement, cost)| {
            let before = small.get(statement)?;
            let bound = BOUNDED_BY_SEARCH_RANGE.iter().find(|(part, _)| statement.contains(part));
            let more_rows = (cost.rows / before.rows.max(1.0)).max(1.0);
            let grown = before.buffers * 1.25 * more_rows + A_LEVEL + A_LEVEL_A_ROW * cost.rows;
            let most = bound.map_or((A_CALL + A_ROW * cost.rows).min(grown), |bound| bound.1);
            (cost.buffers > most).then(|| format!("{most:.0} at most: {cost:?} before {before:?}: {statement:.400}"))
        })
        .collect();
    assert!(large.len() > 100, "{} statements", large.len());
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}
