//! Invoices: a job type with three attempts and at most five at once, and jobs of one item each.
//!
//! The caller creates the ids, so every request can be repeated. Some invoices have a start time, some an expiry time
//! (`claiming`, `retry-budget`, `start-and-expiry`). Cards are charged at most once: if the worker disappears, the
//! outcome is unknown and there is no retry (P6). Items that died in an outage are replayed afterwards (`replay`).

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use anyhow::{Context as _, Result, ensure};
use client::{Client, CreateOutcome, Document, ItemFilter, Task, Unfinished, Worker};
use domain::{
    Code, Item, ItemState, Job, Outcome, Time,
    api::{Claim, NewItem, NewJob, ResultBody},
    dispatch::retry::Backoff,
    id::Uuid,
    item::{EndedAs, MaxFailures},
    job_type::{Delivery, JobTypeSpec},
};
use serde::{Deserialize, Serialize};
use time::Duration;
use tokio::sync::Barrier;

use crate::{
    downstream::{Caller, Downstream},
    scenario::{RunningWorker, complete, only, payload, prepare, print_line, refused},
};

const INVOICE: &str = "invoice-shipments";
const CHARGE: &str = "charge-cards";
/// Maximum number of concurrent invoices.
const CAP: usize = 5;
/// Failures until an invoice is dead.
const ATTEMPTS: u32 = 3;
const INVOICES: usize = 20;
/// Downstream account of the invoices.
const ACCOUNT: &str = "invoices";

/// Result of the example.
#[derive(Debug)]
pub struct Report {
    pub invoiced: usize,
    /// Maximum number of concurrent invoices downstream.
    pub most_at_once: usize,
    /// The tree that ran out of attempts, and its replay.
    pub dead: Uuid,
    pub replayed: Uuid,
    /// The tree with a start time.
    pub later: Uuid,
    /// The tree that expired.
    pub expired: Uuid,
    /// The tree with an unknown outcome.
    pub unknown: Uuid,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { invoiced, most_at_once, .. } = self;
        write!(f, "{invoiced} shipments invoiced, at most {most_at_once} at once; one card charged at most once")
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Shipment {
    shipment: String,
}

/// Problem of a shipment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// Downstream is unavailable for this number of attempts.
    Attempts(i32),
    /// Downstream is unavailable until the outage ends.
    Outage,
    /// The shipment was returned: there is nothing to invoice.
    Returned,
}

/// The office that sends invoices.
struct Office {
    client: Client,
    downstream: Caller,
    troubles: Mutex<BTreeMap<String, Trouble>>,
    entered: AtomicUsize,
    /// The first five meet here.
    full: Barrier,
    /// Number of items assigned while five were running; must stay 0.
    beyond: AtomicUsize,
}

/// Runs the example.
pub async fn run(client: &Client) -> Result<Report> {
    let quick = Backoff { min_seconds: 0.05, max_seconds: Some(1.0), factor: 2.0, jitter: false };
    let invoice = JobTypeSpec {
        concurrency: Some(CAP as i32),
        max_failures: Some(MaxFailures::AtMost(ATTEMPTS)),
        backoff: quick,
        // Leases of a killed run count towards the cap until they are lost, after three missed heartbeats.
        heartbeat_seconds: 5.0,
        ..JobTypeSpec::named(INVOICE)
    };
    let charge = JobTypeSpec {
        delivery: Delivery::AtMostOnce,
        // A lost worker is detected after three missed heartbeats.
        heartbeat_seconds: 0.3,
        ..JobTypeSpec::named(CHARGE)
    };
    prepare(client, &[invoice, charge]).await?;
    let downstream = Downstream::open().await?;
    let unknown = is_charged_at_most_once(client).await?;

    let office = Arc::new(Office {
        client: client.clone(),
        downstream: downstream.caller()?,
        troubles: Mutex::default(),
        entered: AtomicUsize::new(0),
        full: Barrier::new(CAP),
        beyond: AtomicUsize::new(0),
    });
    let troubles = [("shp_3", Trouble::Attempts(2)), ("shp_7", Trouble::Outage), ("shp_11", Trouble::Returned)];
    for (shipment, trouble) in troubles {
        office.troubles().insert(shipment.to_owned(), trouble);
    }
    // Times come from the server, because the clock of this machine may differ.
    let first = put(client, "shp_1", |_| {}).await?;
    let now = first.created_at;
    let later = put(client, "shp_later", |new| new.run_after = Some(after(now, 4))).await?.id;
    let waiting = item_of(client, later).await?;
    ensure!(waiting.state == ItemState::Scheduled, "it waits for its time: {waiting:?}");
    let expired = goes_out_too_late(client, after(now, 2)).await?;
    let mut invoices = BTreeMap::from([("shp_1".to_owned(), first.id)]);
    for n in 2..=INVOICES {
        let shipment = format!("shp_{n}");
        let id = put(client, &shipment, |_| {}).await?.id;
        invoices.insert(shipment, id);
    }
    print_line(format_args!("{INVOICES} invoices are put, every one twice, under ids of our own"));

    let worker = Worker::new(client.clone(), [INVOICE]).concurrency(3 * CAP).worker_id("invoice-office");
    let at_work = Arc::clone(&office);
    let running_worker = RunningWorker::start(worker, move |task| {
        let office = Arc::clone(&at_work);
        async move { office.invoice(&task).await }
    });
    let mut invoiced = 0;
    for (shipment, &id) in &invoices {
        let done = complete(client, id).await?;
        let wanted = match office.trouble(shipment) {
            None | Some(Trouble::Attempts(_)) => Outcome::Succeeded,
            Some(Trouble::Outage | Trouble::Returned) => Outcome::Failed,
        };
        ensure!(done.tree.outcome == Some(wanted), "{shipment}: {:?}", done.tree);
        invoiced += usize::from(wanted == Outcome::Succeeded);
    }
    let beyond = office.beyond.load(Ordering::SeqCst);
    ensure!(beyond == 0, "{beyond} invoices were handed out beyond the cap");
    let most_at_once = downstream.most_at_once(ACCOUNT);
    ensure!((1..=CAP).contains(&most_at_once), "{most_at_once} invoices at once");
    print_line(format_args!("{invoiced} are out; while {CAP} were under way, nobody was given another"));

    let failures = [("shp_3", 2, 3), ("shp_7", ATTEMPTS as i32, ATTEMPTS as i32), ("shp_11", 1, 1)];
    for (shipment, failures, attempts) in failures {
        let item = item_of(client, *invoices.get(shipment).context("an invoice")?).await?;
        ensure!((item.failures, item.attempts) == (failures, attempts), "{shipment}: {item:?}");
    }
    print_line(format_args!("in an outage an invoice dies after {ATTEMPTS} failures, a returned shipment at once"));
    not_before_its_time(client, later).await?;

    let dead = *invoices.get("shp_7").context("an invoice")?;
    office.troubles().remove("shp_7");
    let replayed = is_replayed(client, dead, expired).await?;
    running_worker.stop().await?;
    Ok(Report { invoiced: invoiced + 2, most_at_once, dead, replayed, later, expired, unknown })
}

fn after(now: Time, seconds: i64) -> Time {
    Time(now.0 + Duration::seconds(seconds))
}

fn new_invoice(shipment: &str) -> NewJob {
    let payload = Document::of(&Shipment { shipment: shipment.to_owned() });
    NewJob {
        name: Some(shipment.to_owned()),
        items: vec![NewItem { payload: Some(payload), ..NewItem::default() }],
        sealed: true,
        ..NewJob::of(INVOICE)
    }
}

/// Creates an invoice under an id from here, and repeats the request as after a lost response. Another invoice under
/// the same id is refused.
async fn put(client: &Client, shipment: &str, change: impl FnOnce(&mut NewJob)) -> Result<Job> {
    let id = Uuid::now_v7();
    let mut new = new_invoice(shipment);
    change(&mut new);
    let made = client.put_job(id, &new).await?;
    ensure!(made.is_new() && made.job().id == id, "{shipment} is new: {made:?}");
    let again = client.put_job(id, &new).await?;
    ensure!(
        matches!(again, CreateOutcome::Existing(_)) && again.job().id == id,
        "{shipment} is there already: {again:?}"
    );
    refused(client.put_job(id, &new_invoice("another")).await, Code::IdInUse, "another invoice under its id")?;
    Ok(again.job().clone())
}

async fn item_of(client: &Client, root: Uuid) -> Result<Item> {
    only(client.items(&ItemFilter { root: Some(root), ..ItemFilter::default() }).await?)
}

async fn claim(client: &Client, job_type: &str) -> Result<Vec<domain::api::Assignment>> {
    let claim = Claim {
        worker_id: "somebody-else".to_owned(),
        types: vec![job_type.to_owned()],
        item_ids: None,
        max: Some(10),
        wait_seconds: None,
        claim_id: None,
    };
    Ok(client.claim(&claim).await?.assignments)
}

impl Office {
    async fn invoice(&self, task: &Task) -> Result<Document, Unfinished> {
        let Shipment { shipment } = payload(task)?;
        if self.entered.fetch_add(1, Ordering::SeqCst) < CAP {
            self.ask_for_more().await.map_err(|error| Unfinished::failed(format!("{error:#}")))?;
        }
        match self.trouble(&shipment) {
            Some(Trouble::Attempts(until)) if task.attempt() <= until => {
                Err(Unfinished::failed("downstream is away").kind("downstream_away"))
            }
            Some(Trouble::Outage) => Err(Unfinished::failed("downstream is away").kind("downstream_away")),
            Some(Trouble::Returned) => Err(Unfinished::failed("it came back").kind("returned").not_retryable()),
            _ => {
                let receipt = self.downstream.order("invoices", ACCOUNT, &task.item().id.to_string()).await?;
                Ok(Document::of(&receipt))
            }
        }
    }

    /// The first five wait for each other. While all of them are under way, one asks for more.
    async fn ask_for_more(&self) -> Result<()> {
        let asks = self.full.wait().await.is_leader();
        let given = if asks { claim(&self.client, INVOICE).await } else { Ok(Vec::new()) };
        self.full.wait().await;
        self.beyond.fetch_add(given?.len(), Ordering::SeqCst);
        Ok(())
    }

    fn troubles(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Trouble>> {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn trouble(&self, shipment: &str) -> Option<Trouble> {
        self.troubles().get(shipment).copied()
    }
}

/// An invoice that expires, because no worker runs yet.
async fn goes_out_too_late(client: &Client, expires_at: Time) -> Result<Uuid> {
    let id = put(client, "shp_late", |new| new.expires_at = Some(expires_at)).await?.id;
    let done = complete(client, id).await?;
    let item = item_of(client, id).await?;
    ensure!(done.tree.outcome == Some(Outcome::Failed) && item.state == ItemState::Expired, "too late: {item:?}");
    ensure!(item.attempts == 0, "nobody was given it: {item:?}");
    print_line("an invoice that nobody sent before its time was up has expired");
    Ok(id)
}

async fn not_before_its_time(client: &Client, id: Uuid) -> Result<()> {
    let done = complete(client, id).await?;
    ensure!(done.tree.outcome == Some(Outcome::Succeeded), "it went out: {:?}", done.tree);
    let item = item_of(client, id).await?;
    let attempts = client.attempts(item.id).await?.data;
    let began = attempts.first().and_then(|first| first.started_at).context("an attempt")?;
    ensure!(Some(began) >= item.run_after, "it went out at {began}, which is before {:?}", item.run_after);
    print_line("the invoice that had to wait went out when its time had come");
    Ok(())
}

/// A worker claims a card and disappears.
async fn is_charged_at_most_once(client: &Client) -> Result<Uuid> {
    let id = Uuid::now_v7();
    let card = Document::of(&Shipment { shipment: "shp_1".to_owned() });
    let items = vec![NewItem { payload: Some(card), ..NewItem::default() }];
    client.put_job(id, &NewJob { items, sealed: true, ..NewJob::of(CHARGE) }).await?;
    let assignment = claim(client, CHARGE).await?.pop().context("the card to be charged")?;
    let done = complete(client, id).await?;
    ensure!(done.tree.outcome == Some(Outcome::Failed), "nobody can say whether it was charged: {:?}", done.tree);
    let item = item_of(client, id).await?;
    let why = item.last_error.as_ref().and_then(|error| error.kind.as_deref());
    ensure!((item.state, why) == (ItemState::Dead, Some("outcome_unknown")), "it says so: {item:?}");
    ensure!(claim(client, CHARGE).await?.is_empty(), "it is not handed out again");
    let late =
        refused(client.result(assignment.id, &ResultBody::default()).await, Code::AssignmentClosed, "a stale result")?;
    let closed = (late.item_state, late.ended_as);
    ensure!(closed == (Some(ItemState::Dead), Some(EndedAs::LeaseLost)), "the refusal says why: {late:?}");
    print_line("a card was taken by a worker that went away: charged once or not at all, and never again");
    Ok(id)
}

/// After the outage, the dead tree is replayed and succeeds; a replay of the expired one expires again.
async fn is_replayed(client: &Client, dead: Uuid, expired: Uuid) -> Result<Uuid> {
    let again = client.replay_job(expired, Some("by mistake")).await?;
    let done = complete(client, again.id).await?;
    let item = item_of(client, done.id).await?;
    ensure!(item.state == ItemState::Expired && item.attempts == 0, "it has still expired: {item:?}");

    let replayed = client.replay_job(dead, Some("the outage is over")).await?;
    ensure!(replayed.id != dead && replayed.replay_of == Some(dead), "a new tree: {replayed:?}");
    let done = complete(client, replayed.id).await?;
    ensure!(done.tree.outcome == Some(Outcome::Succeeded), "this time it went out: {:?}", done.tree);
    let old = client.job(dead).await?;
    ensure!(old.tree.outcome == Some(Outcome::Failed), "what happened then stays as it was: {:?}", old.tree);
    print_line("the outage is over: the dead invoice was replayed and went out, the expired one stays expired");
    Ok(replayed.id)
}
