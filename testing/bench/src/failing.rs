//! Failures and dead workers: a tenth of the items fail and are retried, and some workers die with their items.

use std::{
    collections::{HashMap, HashSet},
    sync::Mutex,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use domain::{
    api::{FinishBody, WorkError},
    dispatch::{assignment::lease_seconds, retry::Backoff},
    job_type::JobTypeSpec,
};
use futures::future::try_join_all;
use tokio::time::timeout;
use uuid::Uuid;

use crate::{
    Bench, PAYLOAD,
    drains::hundred,
    report::{Table, Threshold, thousands},
    statistics::times::{Times, short},
    transport::{self, Transport},
};

/// Heartbeat interval in seconds; after three missed heartbeats a worker counts as dead (`lease-expiry`).
const HEARTBEAT: f64 = 1.0;
const WORKERS: usize = 8;
const TIMEOUT: Duration = Duration::from_mins(2);

/// Observations of the items.
#[derive(Default)]
struct Observations {
    ended: HashSet<Uuid>,
    /// Items of dead workers, and the time of death.
    lost: HashMap<Uuid, Instant>,
    /// Time until these items got another worker, in milliseconds.
    waited: Vec<f64>,
    failed: u64,
    doubles: u64,
}

impl Bench {
    pub(crate) async fn failing(&mut self) -> Result<()> {
        let engine = self.engine.clone();
        let n = self.sizes.items;
        let (name, job) = self.filled(&engine, n, "add in process, 5,000 per call, 2 callers").await?;
        let plain = self.meter.measure(engine.drain(&name, n, hundred(WORKERS, true))).await?;
        self.client.seal(job).await?;

        self.types += 1;
        let name = format!("bench-{}", self.types);
        let spec = JobTypeSpec {
            heartbeat_seconds: HEARTBEAT,
            backoff: Backoff { min_seconds: 0.1, max_seconds: Some(0.5), ..Backoff::default() },
            ..JobTypeSpec::named(&name)
        };
        self.client.put_job_type(&spec).await?;
        let job = engine.create(&name, Vec::new(), false).await?;
        engine.add(job, n, PAYLOAD).await?;
        let observations = Mutex::new(Observations::default());
        let began = Instant::now();
        let work = try_join_all((0..WORKERS).map(|worker| work(&engine, &name, worker, n, &observations)));
        timeout(TIMEOUT, work).await.context("not all items have ended")??;
        let rate = n as f64 / began.elapsed().as_secs_f64();
        let observations = observations.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let counts = self.client.job(job).await?.counts;
        ensure!(counts.succeeded as u64 == n, "{} of {n} have succeeded", counts.succeeded);
        let waited = Times::new(observations.waited);
        let lease = lease_seconds(HEARTBEAT);
        let most = lease * 1e3 + 2e3;
        self.report.compare(
            format!("items of dead workers assigned again, longest wait {} ms", short(waited.longest())),
            format!("the {lease} s of a lease, and 2 s"),
            waited.longest() / most,
            Some(Threshold::AtMost(1.0)),
        );
        self.report.table(Table {
            title: "Failures and dead workers",
            about: "A tenth of the items fail at first and are retried after 0.1 to 0.5 s. One batch of a hundred dies with its worker, which is \
                    noticed after three missed heartbeats of a second each; these last items determine the total time. Ended twice: items with more than one accepted result.",
            columns: vec![
                "what", "items/s", "failed", "lost with a worker", "assigned again after, p50 ms", "longest ms", "ended twice",
            ],
            rows: vec![
                vec!["nothing fails".into(), thousands(plain.rate()), "0".into(), "0".into(), String::new(), String::new(), "0".into()],
                vec![
                    "10 % fail, 1 % die".into(),
                    thousands(rate),
                    observations.failed.to_string(),
                    waited.len().to_string(),
                    short(waited.median()),
                    short(waited.longest()),
                    observations.doubles.to_string(),
                ],
            ],
        });
        ensure!(observations.doubles == 0, "{} items have ended twice", observations.doubles);
        Ok(())
    }
}

async fn work(
    transport: &Transport,
    job_type: &str,
    worker: usize,
    n: u64,
    observations: &Mutex<Observations>,
) -> Result<()> {
    let lock = || observations.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for batch in 0_usize.. {
        if lock().ended.len() as u64 == n {
            break;
        }
        let mut claim = transport::claim_of(&format!("w-{worker}"), job_type, 100);
        claim.wait_seconds = Some(1);
        let assignments = transport.claim(claim).await?;
        let now = Instant::now();
        let mut endings = Vec::with_capacity(assignments.len());
        let mut items = HashMap::with_capacity(assignments.len());
        {
            let mut observations = lock();
            for assignment in &assignments {
                let item = assignment.item.id;
                if let Some(lost) = observations.lost.remove(&item) {
                    observations.waited.push((now - lost).as_secs_f64() * 1e3);
                }
            }
            // Each worker dies in one of a hundred batches, the first time early.
            if batch % 100 == 10 + worker {
                observations.lost.extend(assignments.iter().map(|assignment| (assignment.item.id, now)));
                continue;
            }
        }
        for assignment in assignments {
            let mut ending = transport::ending(assignment.id);
            if assignment.item.seq % 10 == 0 && assignment.item.failures == 0 {
                ending.result = None;
                ending.error = Some(WorkError { message: "not on the first attempt".into(), kind: None, detail: None });
            } else {
                items.insert(assignment.id, assignment.item.id);
            }
            endings.push(ending);
        }
        if endings.is_empty() {
            continue;
        }
        let finished = transport.finish(FinishBody { endings, claim: None }).await?;
        let mut observations = lock();
        for ending in finished.endings {
            ensure!(ending.code.is_none(), "an ending was rejected: {ending:?}");
            match ending.assignment_id.uuid().and_then(|id| items.get(&id)) {
                Some(&item) => observations.doubles += u64::from(!observations.ended.insert(item)),
                None => observations.failed += 1,
            }
        }
    }
    Ok(())
}
