//! Refund: executed exactly once, however often it is requested and however many workers die.
//!
//! The request carries an Idempotency-Key, so a repeated request returns the same tree (`idempotency-key`). The work
//! has three steps, and a recorded step is never repeated (`steps`). No engine can close the gap between an action and
//! its record; in that gap, downstream services recognize a repeated request by its key. A worker is killed by dropping
//! everything it holds: no ending, no release, no heartbeat.

use std::{collections::BTreeMap, fmt, future::pending};

use anyhow::{Context as _, Result, ensure};
use client::{Client, CreateOutcome, Document, Drain, ItemFilter, Task, Unfinished, Worker};
use domain::{
    Code, ItemState, Outcome,
    api::{NewItem, NewJob, RetryBody},
    id::Uuid,
    item::{EndedAs, MaxFailures},
    job_type::JobTypeSpec,
};
use futures::future::join_all;
use serde::{Deserialize, Serialize};

use crate::{
    downstream::{Caller, Downstream},
    scenario::{RunningWorker, complete, new_word, only, payload, prepare, print_line, read, refused, until},
};

const REFUND: &str = "refund";
/// The steps, named like their downstream requests.
const STEPS: [&str; 3] = ["refunds", "bookings", "letters"];
/// Number of concurrent requests for the refund.
const PARALLEL_REQUESTS: usize = 8;

/// Moment at which a worker dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// After the downstream request, before the step is recorded.
    Done(&'static str),
    /// After the step is recorded.
    Recorded(&'static str),
}

/// One death after every step, and one in the gap before a record.
const DEATHS: [Moment; 4] =
    [Moment::Recorded("refunds"), Moment::Done("bookings"), Moment::Recorded("bookings"), Moment::Recorded("letters")];

/// Result of the example.
#[derive(Debug)]
pub struct Report {
    /// The refund whose workers died.
    pub root: Uuid,
    pub item: Uuid,
    pub deaths: usize,
    /// Requests that arrived downstream for it.
    pub requests: usize,
    /// Number of effects of these requests.
    pub effects: usize,
    /// The refund that failed, and its replacement.
    pub failed: Uuid,
    pub instead: Uuid,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { deaths, requests, effects, .. } = self;
        write!(f, "{deaths} workers died, {requests} requests downstream, {effects} effects: each step once")
    }
}

/// The payload.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    order: String,
    account: String,
}

/// The data of a step, and in the end the result: the receipt of every step until then.
type Receipts = BTreeMap<String, String>;

/// Runs the example.
pub async fn run(client: &Client) -> Result<Report> {
    let spec = JobTypeSpec {
        steps: STEPS.map(str::to_owned).to_vec(),
        // A dead worker is detected after three missed heartbeats.
        heartbeat_seconds: 0.4,
        max_failures: Some(MaxFailures::AtMost(20)),
        require_idempotency_key: true,
        ..JobTypeSpec::named(REFUND)
    };
    prepare(client, &[spec]).await?;
    let downstream = Downstream::open().await?;
    let word = new_word();

    let (key, request) = (format!("refund-{word}-a"), refund(&format!("order-{word}-a"), "ada"));
    let root = request_many_times(client, &key, &request).await?;
    let item = only(client.items(&ItemFilter { root: Some(root), ..ItemFilter::default() }).await?)?.id;
    print_line(format_args!(
        "{PARALLEL_REQUESTS} asked at once, one refund was made: {}",
        client.page(&["jobs", &root.to_string()])
    ));

    for (nth, death) in DEATHS.into_iter().enumerate() {
        let died = work(client, &downstream, &format!("clerk-{}", nth + 1), Some(death))?.wait().await?;
        ensure!(died.unreported == 1, "clerk {} had to die over the refund: {died:?}", nth + 1);
        print_line(match death {
            Moment::Done(step) => format!("a worker died with {step} done and not recorded"),
            Moment::Recorded(step) => format!("a worker died with {step} recorded"),
        });
        let again = client.create_job_once(&request, &key).await?;
        ensure!(matches!(again, CreateOutcome::InProgress(_)) && again.job().id == root, "it is still the same refund");
    }
    let running_worker = work(client, &downstream, "the-last-clerk", None)?;
    let done = complete(client, root).await?;
    ensure!(done.tree.outcome == Some(Outcome::Succeeded), "the refund is made: {:?}", done.tree);
    let after = client.create_job_once(&request, &key).await?;
    ensure!(
        matches!(after, CreateOutcome::Existing(_)) && after.job().id == root,
        "asked again, it is still the same refund"
    );

    let (requests, effects) = (downstream.requests(), downstream.effects());
    ensure!(effects.iter().map(|effect| effect.what.as_str()).eq(STEPS), "each step once, in order: {effects:?}");
    ensure!(requests > effects.len(), "the one in the gap was asked for twice: {requests} requests");
    let receipts: Receipts = read(&client.item(item).await?.result.context("a result")?)?;
    ensure!(effects.iter().all(|effect| receipts.get(&effect.what) == Some(&effect.receipt)), "{receipts:?}");
    let attempts = client.attempts(item).await?.data;
    let lost = attempts.iter().filter(|attempt| attempt.ended_as == Some(EndedAs::LeaseLost)).count();
    ensure!(lost >= DEATHS.len(), "every death was noticed: {attempts:?}");
    ensure!(attempts.last().and_then(|last| last.ended_as) == Some(EndedAs::Succeeded), "{attempts:?}");
    print_line(format_args!(
        "{} attempts, {requests} requests downstream, {} effects there",
        attempts.len(),
        effects.len()
    ));

    let (failed, instead) = fails_and_is_requested_again(client, &downstream, &word).await?;
    running_worker.stop().await?;
    Ok(Report { root, item, deaths: DEATHS.len(), requests, effects: effects.len(), failed, instead })
}

fn refund(order: &str, account: &str) -> NewJob {
    let order = Order { order: order.to_owned(), account: account.to_owned() };
    NewJob {
        name: Some(format!("Refund of {}", order.order)),
        items: vec![NewItem { payload: Some(Document::of(&order)), ..NewItem::default() }],
        sealed: true,
        initiated_by: Some("customer-17".to_owned()),
        ..NewJob::of(REFUND)
    }
}

/// Sends the same request many times concurrently, which creates one tree.
async fn request_many_times(client: &Client, key: &str, request: &NewJob) -> Result<Uuid> {
    let answers_or_errors = join_all((0..PARALLEL_REQUESTS).map(|_| client.create_job_once(request, key))).await;
    let answers = answers_or_errors.into_iter().collect::<client::Result<Vec<CreateOutcome>>>()?;
    let root = answers[0].job().id;
    ensure!(answers.iter().all(|made| made.job().id == root), "one key made several trees: {answers:?}");
    ensure!(answers.iter().filter(|made| made.is_new()).count() == 1, "one of them has made it: {answers:?}");
    refused(
        client.create_job_once(&NewJob { name: None, ..request.clone() }, key).await,
        Code::IdempotencyKeyReused,
        "another request under the same key",
    )?;
    Ok(root)
}

/// Starts a worker, which optionally dies at a given moment.
fn work(client: &Client, downstream: &Downstream, name: &str, death: Option<Moment>) -> Result<RunningWorker> {
    let (caller, drain) = (downstream.caller()?, Drain::new());
    let end = drain.clone();
    let worker = Worker::new(client.clone(), [REFUND]).worker_id(name);
    Ok(RunningWorker::start_until(worker, drain, move |task| {
        let (caller, end) = (caller.clone(), end.clone());
        async move { make_refund(&task, &caller, death, &end).await }
    }))
}

async fn make_refund(
    task: &Task,
    downstream: &Caller,
    death: Option<Moment>,
    end: &Drain,
) -> Result<Document, Unfinished> {
    let order: Order = payload(task)?;
    let broken = |error: String| Unfinished::failed(error).kind("not_recorded");
    let mut receipts = Receipts::new();
    let mut reached = 0;
    if let Some(step) = &task.item().step {
        receipts = read(&step.data).map_err(|error| broken(format!("{error:#}")))?;
        reached = STEPS.iter().position(|name| *name == step.name).map_or(0, |at| at + 1);
    }
    for step in STEPS.into_iter().skip(reached) {
        let receipt = downstream.order(step, &order.account, &format!("{}:{step}", task.item().id)).await?;
        die_at(Moment::Done(step), death, end).await;
        receipts.insert(step.to_owned(), receipt);
        task.step(step, Some(Document::of(&receipts))).await.map_err(|error| broken(error.to_string()))?;
        die_at(Moment::Recorded(step), death, end).await;
    }
    Ok(Document::of(&receipts))
}

async fn die_at(now: Moment, death: Option<Moment>, end: &Drain) {
    if death == Some(now) {
        end.force();
        pending::<()>().await;
    }
}

/// A refund that fails for good becomes a dead letter with its reason. A request with the same key then creates a new
/// tree, and the old one cannot be retried anymore.
async fn fails_and_is_requested_again(client: &Client, downstream: &Downstream, word: &str) -> Result<(Uuid, Uuid)> {
    downstream.close_account("bob");
    let (key, request) = (format!("refund-{word}-b"), refund(&format!("order-{word}-b"), "bob"));
    let failed = client.create_job_once(&request, &key).await?.job().id;
    let done = complete(client, failed).await?;
    ensure!(done.tree.outcome == Some(Outcome::Failed), "nothing can be refunded to bob: {:?}", done.tree);
    let dead = ItemFilter { root: Some(failed), states: vec![ItemState::Dead], ..ItemFilter::default() };
    let dead = only(client.items(&dead).await?)?;
    let why = dead.last_error.as_ref().context("a dead letter says why")?;
    ensure!(why.kind.as_deref() == Some("downstream_refused"), "it says why: {why:?}");
    print_line(format_args!("a refund became a dead letter: {}", why.message));

    downstream.reopen_account("bob");
    let made = client.create_job_once(&request, &key).await?;
    let instead = made.job().id;
    ensure!(made.is_new() && made.job().replay_of == Some(failed), "a failed refund is made anew: {made:?}");
    refused(
        client.retry_item(dead.id, &RetryBody::default()).await,
        Code::Superseded,
        "retrying what has a successor",
    )?;
    let done = complete(client, instead).await?;
    ensure!(done.tree.outcome == Some(Outcome::Succeeded), "bob has his money: {:?}", done.tree);
    let for_bob = downstream.effects().iter().filter(|effect| effect.account == "bob").count();
    ensure!(for_bob == STEPS.len(), "bob was refunded once: {:?}", downstream.effects());
    let old = until(client, failed, "the old one names its successor", |old| old.superseded_by.is_some()).await?;
    ensure!(old.superseded_by == Some(instead), "the failed refund names the one that took its place");
    print_line("asked for again with the same key, it was made anew and done");
    Ok((failed, instead))
}
