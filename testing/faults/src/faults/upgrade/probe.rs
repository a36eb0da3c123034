//! The load of an upgrade: the ordinary work, offered without a pause, and clients that see each error themselves. These
//! create a tree, claim an item, send a heartbeat and a result, and read the tree, each request at the next server. They
//! repeat a request only if there was no answer or one that says that it can be repeated, and count why.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use client::Client;
use domain::id::Uuid;
use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::scaled;
use crate::{
    fixture::{Fixture, LEASE, RunContext, TOKEN},
    inconclusive::Inconclusive,
    journal::{CallOutcome, Journal, Request},
    ledger::{Ledger, WorkEvent},
    raw::{Answer, Api, id},
    workload::{self, HEARTBEAT, MAX_FAILURES, Workload},
};

/// Type of the clients' items.
const TYPE: &str = "probe";
const CLIENTS: usize = 4;
/// Longest time for which one request is repeated.
const GIVE_UP: Duration = Duration::from_secs(30);
/// Pause before a request is repeated at the next server.
const PAUSE: Duration = Duration::from_millis(20);
/// Statuses after which a client repeats a request.
const REPEATABLE: [u16; 4] = [429, 502, 503, 504];

/// Creates the type of the clients' items.
pub(super) async fn put_type(fixture: &Fixture) -> Result<()> {
    let spec = json!({"heartbeat_seconds": HEARTBEAT, "max_failures": MAX_FAILURES});
    Api::new(&fixture.servers[0].url(), TOKEN)?.put_type(TYPE, &spec).await
}

/// Answers and errors that the clients saw.
#[derive(Default)]
pub(super) struct Seen {
    /// Times of the answers.
    answers: Vec<Instant>,
    answers_by_url: HashMap<String, usize>,
    /// Requests that no server accepted a connection for.
    not_connected: usize,
    /// Requests whose connection broke before the answer.
    broken: usize,
    /// Answers that say that the request can be repeated, by status.
    repeatable: BTreeMap<u16, usize>,
    /// Longest time from a request to its answer, with all repetitions.
    slowest: Duration,
    /// Leases that were lost because the machine was too slow.
    late: usize,
    /// Answers after which a client gives up.
    pub(super) rejected: Vec<String>,
}

impl Seen {
    /// Longest time without an answer to anyone.
    pub(super) fn silence(&self) -> Duration {
        let mut answers = self.answers.clone();
        answers.sort_unstable();
        answers.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
    }

    /// Counts an attempt. Returns the answer, or why it was rejected; `None` if the request may be repeated.
    fn note(&mut self, url: String, begun: Instant, sent: reqwest::Result<Answer>) -> Option<Result<Value, String>> {
        match sent {
            Ok(answer) if (200..300).contains(&answer.status) => {
                self.answers.push(Instant::now());
                *self.answers_by_url.entry(url).or_default() += 1;
                self.slowest = self.slowest.max(begun.elapsed());
                return Some(Ok(answer.json()));
            }
            Ok(answer) if REPEATABLE.contains(&answer.status) => {
                *self.repeatable.entry(answer.status).or_default() += 1;
            }
            Ok(answer) => return Some(Err(format!("{} {}", answer.status, answer.text))),
            Err(error) if error.is_connect() => self.not_connected += 1,
            Err(_) => self.broken += 1,
        }
        None
    }

    pub(super) fn summary(&self) -> String {
        format!(
            "{} client requests answered; retried by clients: {} not connected, {} broken, {:?} by status; at most \
             {} ms without a response, at most {} ms for a request with its retries, {} leases lost because of \
             slowness",
            self.answers.len(),
            self.not_connected,
            self.broken,
            self.repeatable,
            self.silence().as_millis(),
            self.slowest.as_millis(),
            self.late
        )
    }
}

/// The load, and the servers that it is spread over.
pub(super) struct Load {
    servers: Mutex<Vec<String>>,
    seen: Mutex<Seen>,
    next: AtomicUsize,
    over: AtomicBool,
}

/// Work in the background.
type Work = JoinHandle<Result<()>>;

impl Load {
    pub(super) fn of(fixture: &Fixture) -> Self {
        let load = Self {
            servers: Mutex::default(),
            seen: Mutex::default(),
            next: AtomicUsize::default(),
            over: AtomicBool::default(),
        };
        load.set_servers(fixture);
        load
    }

    /// Spreads the load over the servers of the fixture.
    pub(super) fn set_servers(&self, fixture: &Fixture) {
        *lock(&self.servers) = fixture.servers.iter().map(crate::fixture::process::Server::url).collect();
    }

    /// Ends the load: no new work is begun.
    pub(super) fn finish(&self) {
        self.over.store(true, Relaxed);
    }

    /// Answers and errors that the clients saw.
    pub(super) fn take_seen(&self) -> Seen {
        std::mem::take(&mut *lock(&self.seen))
    }

    /// True if a request was answered in a way after which a client gives up.
    pub(super) fn is_rejected(&self) -> bool {
        !lock(&self.seen).rejected.is_empty()
    }

    /// Number of answers of a server.
    pub(super) fn answers_of(&self, url: &str) -> usize {
        lock(&self.seen).answers_by_url.get(url).copied().unwrap_or_default()
    }

    /// Starts the ordinary work and the clients. Both end after [`Load::finish`].
    pub(super) fn start(self: &Arc<Self>, fixture: &Fixture, context: &RunContext) -> Result<(Work, Work)> {
        let template = Workload {
            callback: Some(fixture.receiver.target()),
            calls_a_second: Some(scaled(context, 6.0, 12.0)),
            ..Workload::of(context.items / 10, context.seed)
        };
        let work = tokio::spawn(offer(Arc::clone(self), template, Arc::clone(&fixture.journal)));
        let clients = (0..CLIENTS)
            .map(|n| {
                let ledger = Ledger::open(&fixture.path(&format!("client-{n}.ledger")))?;
                let (load, journal) = (Arc::clone(self), Arc::clone(&fixture.journal));
                Ok(ProbeClient { n, load, journal, ledger, apis: Mutex::default() })
            })
            .collect::<Result<Vec<_>>>()?;
        let probes = tokio::spawn(async move {
            let ended = join_all(clients.into_iter().map(|client| tokio::spawn(client.run()))).await;
            for ended in ended {
                ended??;
            }
            Ok(())
        });
        Ok((work, probes))
    }

    /// The next server.
    fn server(&self) -> String {
        let servers = lock(&self.servers);
        servers[self.next.fetch_add(1, Relaxed) % servers.len()].clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Offers one portion of ordinary work after the other.
async fn offer(load: Arc<Load>, template: Workload, journal: Arc<Journal>) -> Result<()> {
    let mut portions = 0;
    while !load.over.load(Relaxed) {
        let servers = lock(&load.servers).clone();
        let clients = servers
            .iter()
            .map(|url| Ok(Client::new(url, Some(TOKEN))?.with_retry_timeout(Duration::from_secs(2))))
            .collect::<Result<Vec<_>>>()?;
        let portion = Workload { seed: template.seed + portions, ..template.clone() };
        workload::submit(portion, clients, Arc::clone(&journal)).await?;
        portions += 1;
    }
    Ok(())
}

/// One client.
struct ProbeClient {
    n: usize,
    load: Arc<Load>,
    journal: Arc<Journal>,
    ledger: Ledger,
    apis: Mutex<HashMap<String, Api>>,
}

impl ProbeClient {
    /// Works until the load is over and no item of the clients is left.
    async fn run(self) -> Result<()> {
        let mut rounds = 0;
        while !self.load.over.load(Relaxed) {
            let job = self.create(rounds).await?;
            self.work().await?;
            self.expect(Method::GET, &format!("/jobs/{job}"), None, None).await?;
            rounds += 1;
        }
        while self.work().await? {}
        Ok(())
    }

    async fn create(&self, round: usize) -> Result<Uuid> {
        let key = format!("probe-{}-{round}", self.n);
        let n = self.journal.invoke(Request::Create { key: key.clone(), items: vec![key.clone()], calls: false })?;
        let items = json!([{"payload": {"n": round}, "dedupe_key": key}]);
        let tree = json!({"type": TYPE, "name": key, "sealed": true, "items": items});
        let made = self.expect(Method::POST, "/jobs", Some(&tree), Some(&key)).await?;
        let job = id(&made)?.parse()?;
        self.journal.record_outcome(n, CallOutcome::Ok, Some(job))?;
        Ok(job)
    }

    /// Works on one item. Returns false if there was none.
    async fn work(&self) -> Result<bool> {
        let claim =
            json!({"worker_id": format!("probe-{}", self.n), "types": [TYPE], "max": 1, "claim_id": Uuid::now_v7()});
        let claimed_at = Instant::now();
        let claimed = self.expect(Method::POST, "/assignments", Some(&claim), None).await?;
        let Some(assignment) = claimed["assignments"].get(0) else { return Ok(false) };
        let (assignment_id, item) = (id(assignment)?.parse::<Uuid>()?, id(&assignment["item"])?.parse::<Uuid>()?);
        let attempt = assignment["attempt"].as_i64().context("the number of the attempt")? as i32;
        self.ledger.write(item, assignment_id, WorkEvent::Start { attempt, job_type: TYPE.to_owned(), step: None });
        let path = format!("/assignments/{assignment_id}");
        let result = json!({"result": {"by": assignment_id}});
        let mut is_open = self.send_with_lease(claimed_at, &format!("{path}/heartbeat"), &json!({})).await?;
        self.ledger.write(item, assignment_id, WorkEvent::Finish { well: true });
        if is_open {
            is_open = self.send_with_lease(claimed_at, &format!("{path}/result"), &result).await?;
            let status = if is_open { 200 } else { 409 };
            self.ledger.write(item, assignment_id, WorkEvent::Answer { status, well: true });
        }
        Ok(true)
    }

    /// A request of a worker with a lease. Returns false if the lease was over, which can only happen if it took too long.
    async fn send_with_lease(&self, claimed_at: Instant, path: &str, body: &Value) -> Result<bool> {
        let Err(why) = self.send(Method::POST, path, Some(body), None).await? else { return Ok(true) };
        let mut seen = lock(&self.load.seen);
        if claimed_at.elapsed() > LEASE {
            seen.late += 1;
        } else {
            seen.rejected.push(why);
        }
        Ok(false)
    }

    /// A request that must be accepted.
    async fn expect(&self, method: Method, path: &str, body: Option<&Value>, key: Option<&str>) -> Result<Value> {
        self.send(method, path, body, key).await?.map_err(|why| {
            lock(&self.load.seen).rejected.push(why.clone());
            anyhow::anyhow!("rejected: {why}")
        })
    }

    /// Sends a request, and repeats it at the next server while it may be repeated. Returns the answer, or why it was
    /// rejected.
    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        key: Option<&str>,
    ) -> Result<Result<Value, String>> {
        let begun = Instant::now();
        loop {
            let url = self.load.server();
            let sent = self.api(&url)?.send_keyed(method.clone(), path, body, key).await;
            if let Some(ended) = lock(&self.load.seen).note(url, begun, sent) {
                return Ok(ended.map_err(|why| format!("{method} {path}: {why}")));
            }
            if begun.elapsed() > GIVE_UP {
                let what = format!("{method} {path} got no response within {GIVE_UP:?}");
                return Err(Inconclusive::Timeout.error(what));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn api(&self, url: &str) -> Result<Api> {
        let mut apis = lock(&self.apis);
        if let Some(api) = apis.get(url) {
            return Ok(api.clone());
        }
        let api = Api::new(url, TOKEN)?;
        apis.insert(url.to_owned(), api.clone());
        Ok(api)
    }
}
