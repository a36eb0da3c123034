//! Several servers on one database and one broker: shared state, and the cost of losing one.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use client::{Client, Document, Drain, Worker};
use futures::StreamExt as _;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::{Api, SECOND, Server, TOKEN, rabbit};

async fn job_of(server: &Api, items: usize) -> String {
    let tree = json!({"type": "a", "sealed": true, "items": vec![json!({}); items]});
    let job = server.post("/api/v1/jobs", tree).await.expect(201);
    format!("/api/v1/jobs/{}", job["id"].as_str().expect("an id"))
}

async fn succeeded(server: &Api, job: &str) -> u64 {
    let job = server.get(job).await.expect(200);
    job["counts"]["succeeded"].as_u64().expect("a count")
}

fn worker(server: &Api, concurrency: usize) -> Worker {
    Worker::new(Client::new(&server.url(""), Some(TOKEN)).expect("a client"), ["a"]).concurrency(concurrency)
}

/// P14: sixty-four workers on two servers, half of them woken by the broker, and never more than five active.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_workers_on_two_servers_respect_a_cap_of_five() {
    const CAP: usize = 5;
    let vhost = rabbit::vhost().await;
    let url: engine::settings::Secret = vhost.url.parse().expect("a secret");
    let server = Server::start_with(|config| config.broker.amqp_url = Some(url)).await;
    let other = server.spawn_program_with(&[("AMQP_URL", &vhost.url)]).await;
    server.put("/api/v1/job-types/a", json!({"concurrency": CAP})).await.expect(201);
    let job = job_of(&server, 400).await;
    let (working, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let drain = Drain::new();
    let workers: Vec<_> = (0..64)
        .map(|n| {
            let worker = worker(if n % 2 == 0 { &server } else { &other.api }, 1);
            let worker = if n % 4 < 2 { worker.rabbitmq(&vhost.url).expect("an address") } else { worker };
            let (working, most) = (Arc::clone(&working), Arc::clone(&most));
            let handler = move |_task| {
                let (working, most) = (Arc::clone(&working), Arc::clone(&most));
                async move {
                    most.fetch_max(working.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    // The work itself.
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    working.fetch_sub(1, Ordering::SeqCst);
                    Ok(Document::empty_object())
                }
            };
            tokio::spawn(worker.run_until(drain.clone(), handler))
        })
        .collect();
    let mut most_open = 0;
    let began = Instant::now();
    while succeeded(&server, &job).await < 400 {
        let of = "select count(*) from lease";
        let open: i64 = sqlx::query_scalar(of).fetch_one(&server.running.app.pool).await.expect("a count");
        most_open = most_open.max(open);
        assert!(began.elapsed() < Duration::from_mins(1), "{} of 400", succeeded(&server, &job).await);
    }
    assert!(most_open <= CAP as i64 && most.load(Ordering::SeqCst) <= CAP, "{most_open} open, {most:?} at work");
    assert!(most.load(Ordering::SeqCst) >= 2, "they did work side by side");
    drain.begin();
    for worker in workers {
        worker.await.expect("no panic").expect("the worker leaves");
    }
    other.terminate().await;
    server.stop().await;
}

/// An action on one server shows on the pages of the other within a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn event_stream_shows_changes_of_another_server_within_a_second() {
    let server = Server::start().await;
    let other = server.spawn_program().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let job = job_of(&server, 10).await;
    let response = server.request(Method::GET, &format!("{job}/events")).send().await.expect("a stream");
    let received = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&received);
    let stream = tokio::spawn(async move {
        let (mut bytes, mut text) = (response.bytes_stream(), String::new());
        while let Some(Ok(part)) = bytes.next().await {
            text.push_str(std::str::from_utf8(&part).expect("text"));
            while let Some(end) = text.find("\n\n") {
                let event: String = text.drain(..end + 2).collect();
                let data = event.lines().find_map(|line| line.strip_prefix("data:")).unwrap_or("null");
                let data: Value = serde_json::from_str(data).expect("JSON");
                let count = data["jobs"][0]["counts"]["succeeded"].as_u64().or(data["counts"]["succeeded"].as_u64());
                seen.lock().expect("no panic").extend(count.map(|count| (count, Instant::now())));
            }
        }
    });
    let latest = || received.lock().expect("no panic").last().copied();
    while latest().is_none() {
        crate::support::moment().await;
    }
    for n in 1..=10 {
        let claim = json!({"worker_id": "w", "types": ["a"]});
        let claimed = other.api.post("/api/v1/assignments", claim).await.expect(200)["assignments"][0].clone();
        let path = format!("/api/v1/assignments/{}/result", claimed["id"].as_str().expect("an id"));
        other.api.post(&path, json!({})).await.expect(200);
        let ended = Instant::now();
        while latest().is_none_or(|(count, _)| count < n) {
            assert!(ended.elapsed() < SECOND, "the page still shows {:?} of {n}", latest());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    stream.abort();
    other.terminate().await;
    server.stop().await;
}

/// P5, P19: a server dies under load. Its workers' items are offered again, and all are finished on the other server
/// within the lease and ten seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_server_costs_one_lease_at_most() {
    const ITEMS: u64 = 3_000;
    let server = Server::start().await;
    let doomed = server.spawn_program().await;
    let heartbeat = json!({"heartbeat_seconds": 1});
    server.put("/api/v1/job-types/a", heartbeat).await.expect(201);
    let job = job_of(&server, ITEMS as usize).await;
    let drain = Drain::new();
    let work = |_task| async {
        // The work itself.
        tokio::time::sleep(Duration::from_millis(20)).await;
        Ok(Document::empty_object())
    };
    let here = tokio::spawn(worker(&server, 50).run_until(drain.clone(), work));
    let there = tokio::spawn(worker(&doomed.api, 50).worker_id("there").run_until(drain.clone(), work));
    while succeeded(&server, &job).await < ITEMS / 6 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    doomed.kill().await;
    let killed = Instant::now();
    while succeeded(&server, &job).await < ITEMS {
        assert!(killed.elapsed() < Duration::from_secs(13), "{} of {ITEMS}", succeeded(&server, &job).await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let whole = server.get(&job).await.expect(200);
    assert_eq!((&whole["outcome"], &whole["item_count"]), (&json!("succeeded"), &json!(ITEMS)));
    drain.force();
    here.await.expect("no panic").expect("the worker leaves");
    there.await.expect("no panic").expect("the worker leaves");
    server.stop().await;
}

/// Addresses of the running servers, as a load balancer has them.
#[derive(Clone)]
struct Round(Arc<Mutex<Vec<String>>>);

impl Round {
    /// Tries the servers in turn until one responds. A connection that a stopping server was about to accept may be
    /// reset unread; a request repeated under its key is executed once. Counts the resets. On a machine that is too busy to
    /// open a connection to the database in time, a new server asks to come again.
    async fn ask(&self, client: &reqwest::Client, key: &str, reset: &AtomicUsize) -> StatusCode {
        loop {
            let urls = self.0.lock().expect("no panic").clone();
            for url in urls {
                let tree = json!({"type": "a", "name": key, "sealed": true, "items": [{}]});
                let request = client.post(format!("{url}/api/v1/jobs")).bearer_auth(TOKEN).json(&tree);
                match request.header("Idempotency-Key", key).send().await {
                    Ok(answer) if answer.status() == StatusCode::SERVICE_UNAVAILABLE => {
                        let problem = answer.json::<Value>().await.expect("a problem document");
                        assert_eq!(problem["code"], "database_unavailable", "{problem}");
                        crate::support::moment().await;
                    }
                    Ok(answer) => return answer.status(),
                    Err(error) if error.is_connect() => {}
                    Err(_) => drop(reset.fetch_add(1, Ordering::Relaxed)),
                }
            }
        }
    }
}

/// Two servers, each replaced twice under requests on new connections: each is answered, and executed once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rolling_restart_loses_no_request() {
    const RESTARTS: usize = 4;
    let first = Server::start().await;
    first.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let mut programs = vec![first.spawn_program().await, first.spawn_program().await];
    let round = Round(Arc::new(Mutex::new(programs.iter().map(|program| program.api.url("")).collect())));
    let over = Arc::new(AtomicBool::new(false));
    let (reset, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<tokio::task::JoinHandle<i64>> = (0..6)
        .map(|n| {
            let (round, over) = (round.clone(), Arc::clone(&over));
            let (reset, done) = (Arc::clone(&reset), Arc::clone(&done));
            // A connection for each request: on one that is kept open, a request may cross with its closing.
            let client = reqwest::Client::builder().pool_max_idle_per_host(0).build().expect("a client");
            tokio::spawn(async move {
                let mut created = 0;
                while !over.load(Ordering::Relaxed) {
                    let status = round.ask(&client, &format!("key-{n}-{created}"), &reset).await;
                    // 200, 202: it was sent again, and had been done.
                    assert!([200, 201, 202].contains(&status.as_u16()), "{status} after {created}");
                    created += 1;
                    done.fetch_add(1, Ordering::Relaxed);
                }
                created
            })
        })
        .collect();
    for _ in 0..RESTARTS {
        let new = first.spawn_program().await;
        let old = std::mem::replace(&mut programs[0], new);
        let gone = old.api.url("");
        let began = Instant::now();
        old.terminate().await;
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        {
            let mut urls = round.0.lock().expect("no panic");
            urls.retain(|url| *url != gone);
            urls.insert(0, programs[0].api.url(""));
        }
        programs.rotate_left(1);
        // Requests keep coming between two restarts, however slow the machine.
        let enough = done.load(Ordering::Relaxed) + 30;
        while done.load(Ordering::Relaxed) < enough && clients.iter().all(|client| !client.is_finished()) {
            crate::support::moment().await;
        }
    }
    over.store(true, Ordering::Relaxed);
    let mut created = 0;
    for client in clients {
        created += client.await.expect("every request was answered");
    }
    let of = "select count(*), count(distinct name) from job";
    let there: (i64, i64) = sqlx::query_as(of).fetch_one(&first.running.app.pool).await.expect("counts");
    assert_eq!(there, (created, created));
    assert!(created > 100, "{created} requests came meanwhile");
    let reset = reset.load(Ordering::Relaxed);
    assert!(reset <= RESTARTS, "{reset} connections were reset in {RESTARTS} restarts");
    for program in programs {
        program.terminate().await;
    }
    first.stop().await;
}
