//! Payroll: a tree with a fixed shape, whose items are added while it runs.
//!
//! Each calculated wage becomes a payment, and each payment two bookings. Payments of one bank run one at a time, in
//! order, on any worker. Only the bookings are the tree's results. The engine moves work from one level to the next
//! (`sealing`, `feeding`, `serialize-key`, `final-stage`).

use std::{collections::BTreeSet, fmt, time::Duration};

use anyhow::{Context as _, Result, ensure};
use client::{Client, Document, Task, Unfinished, Worker};
use domain::{
    Code, ItemState, Outcome,
    api::{NewItem, NewJob},
    id::Uuid,
    job_type::JobTypeSpec,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    downstream::{Caller, Downstream},
    scenario::{RunningWorker, complete, job, payload, prepare, print_line, read, refused, until},
};

const CALCULATE: &str = "payroll.calculate";
const PAY: &str = "payroll.pay";
const BOOK: &str = "payroll.book";

const EMPLOYEES: usize = 12;
const BANKS: [&str; 3] = ["north-bank", "south-bank", "west-bank"];
/// Employee whose time clock answers only at the second attempt.
const SLOW: usize = 5;
/// Employee without a contract, whose wage cannot be calculated.
const NO_CONTRACT: usize = 9;

/// Result of the example.
#[derive(Debug)]
pub struct Report {
    pub root: Uuid,
    pub paid: usize,
    pub booked: usize,
    /// Maximum number of concurrent payments at any bank.
    pub most_at_once: usize,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { paid, booked, most_at_once, .. } = self;
        write!(f, "{paid} of {EMPLOYEES} paid, {booked} bookings, at most {most_at_once} payment a bank at a time")
    }
}

/// The payload of the first level.
#[derive(Debug, Serialize, Deserialize)]
struct Timesheet {
    employee: usize,
    bank: String,
    hours: Option<i64>,
}

/// The payload of the second, made by the feed.
#[derive(Debug, Deserialize)]
struct Payment {
    employee: usize,
    bank: String,
    net: i64,
}

/// One element of a payment's result, and the payload of the third level.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    ledger: String,
    amount: i64,
}

/// Runs the example.
pub async fn run(client: &Client) -> Result<Report> {
    // What a killed run holds is lost after three of these: then its serialize keys are free.
    let types = [CALCULATE, PAY, BOOK].map(|name| JobTypeSpec { heartbeat_seconds: 5.0, ..JobTypeSpec::named(name) });
    prepare(client, &types).await?;
    let bank = Downstream::open().await?;

    let made = client.create_job(&tree()).await?;
    let root = made.id;
    let payments = job(&made, "payments")?.id;
    print_line(format_args!("made a tree of three levels, still empty: {}", client.page(&["jobs", &root.to_string()])));

    let caller = bank.caller()?;
    let worker = Worker::new(client.clone(), [CALCULATE, PAY, BOOK]).concurrency(8).worker_id("payroll-office");
    let running_worker = RunningWorker::start(worker, move |task| work(task, caller.clone()));

    let half = EMPLOYEES / 2;
    client.add_items(root, &timesheets(1..=half), false).await?;
    let tree = until(client, root, "the first payment goes out", |tree| {
        job(tree, "payments").is_ok_and(|payments| payments.counts.succeeded > 0)
    })
    .await?;
    ensure!(!tree.sealed && !job(&tree, "payments")?.sealed, "nobody has sealed anything yet");
    print_line("wages are being paid while half of the timesheets are still to come");
    refused(client.seal(payments).await, Code::JobIsFed, "sealing by hand what the engine feeds")?;

    refused(
        client.add_items(root, &timesheets(half..=EMPLOYEES), true).await,
        Code::Duplicate,
        "handing in a timesheet twice",
    )?;
    let added = client.add_items(root, &timesheets(half + 1..=EMPLOYEES), true).await?;
    ensure!(added.accepted == (EMPLOYEES - half) as i64 && added.sealed, "the second half is in: {added:?}");

    let done = complete(client, root).await?;
    running_worker.stop().await?;
    print_line(format_args!("{} ({} of a kind that no retry can heal)", done.message, done.counts.dead));

    let paid = EMPLOYEES - 1;
    let (payments, bookings) = (job(&done, "payments")?, job(&done, "bookings")?);
    ensure!(done.tree.outcome == Some(Outcome::Partial), "one wage could not be calculated: {:?}", done.tree);
    ensure!(done.counts.succeeded == paid as i64 && done.counts.dead == 1, "wages: {:?}", done.counts);
    ensure!(payments.counts.succeeded == paid as i64 && payments.sealed, "payments: {:?}", payments.counts);
    ensure!(bookings.counts.succeeded == 2 * paid as i64 && bookings.sealed, "bookings: {:?}", bookings.counts);

    in_order(client, payments.id, &bank).await?;
    let most_at_once = BANKS.iter().map(|name| bank.most_at_once(name)).max().unwrap_or_default();
    ensure!(most_at_once == 1, "a bank had {most_at_once} payments in hand at once");
    let booked = balanced(client, root, bookings.id).await?;
    Ok(Report { root, paid, booked, most_at_once })
}

fn tree() -> NewJob {
    let bookings = NewJob {
        key: Some("bookings".to_owned()),
        final_stage: true,
        feed: Some(Document::of(&json!({"each": "/result/entries", "payload": {"$from": "/element"}}))),
        ..NewJob::of(BOOK)
    };
    let payments = NewJob {
        key: Some("payments".to_owned()),
        feed: Some(Document::of(&json!({
            "payload": {
                "employee": {"$from": "/payload/employee"},
                "bank": {"$from": "/payload/bank"},
                "net": {"$from": "/result/net"},
            },
            "serialize_key": {"$from": "/payload/bank"},
        }))),
        children: vec![bookings],
        ..NewJob::of(PAY)
    };
    NewJob {
        key: Some("wages".to_owned()),
        name: Some("Payroll of March".to_owned()),
        expected_count: Some(EMPLOYEES as i64),
        children: vec![payments],
        ..NewJob::of(CALCULATE)
    }
}

fn timesheets(employees: impl Iterator<Item = usize>) -> Vec<NewItem> {
    let sheet = |employee: usize| Timesheet {
        employee,
        bank: BANKS[employee % BANKS.len()].to_owned(),
        hours: (employee != NO_CONTRACT).then_some(160),
    };
    employees
        .map(|employee| NewItem {
            payload: Some(Document::of(&sheet(employee))),
            dedupe_key: Some(format!("employee-{employee}")),
            ..NewItem::default()
        })
        .collect()
}

async fn work(task: Task, bank: Caller) -> Result<Document, Unfinished> {
    match task.item().job_type.as_str() {
        CALCULATE => calculate(&task),
        PAY => pay(&task, &bank).await,
        _ => payload::<Entry>(&task).map(|entry| Document::of(&entry)),
    }
}

fn calculate(task: &Task) -> Result<Document, Unfinished> {
    let sheet: Timesheet = payload(task)?;
    if sheet.employee == SLOW && task.attempt() == 1 {
        let late = Unfinished::failed("the time clock did not answer").kind("timeout");
        return Err(late.retry_after(Duration::from_millis(100)));
    }
    match sheet.hours {
        Some(hours) => Ok(Document::of(&json!({"net": hours * 20}))),
        None => Err(Unfinished::failed("there is no contract").kind("no_contract").not_retryable()),
    }
}

async fn pay(task: &Task, bank: &Caller) -> Result<Document, Unfinished> {
    let payment: Payment = payload(task)?;
    let receipt = bank.order("payments", &payment.bank, &task.item().id.to_string()).await?;
    let entry = |ledger: &str, amount| Entry { ledger: ledger.to_owned(), amount };
    Ok(Document::of(&json!({
        "receipt": receipt,
        "employee": payment.employee,
        "entries": [entry("wages", payment.net), entry(&payment.bank, -payment.net)],
    })))
}

/// Checks that every payment was fed by a wage, and that each bank executed its payments in order.
async fn in_order(client: &Client, payments: Uuid, bank: &Downstream) -> Result<()> {
    let items = client.items(&client::ItemFilter { job: Some(payments), ..Default::default() }).await?.data;
    let sources: BTreeSet<Option<Uuid>> = items.iter().map(|item| item.fed_by).collect();
    ensure!(sources.len() == items.len() && !sources.contains(&None), "each payment comes of a wage of its own");
    for name in BANKS {
        let accepted: Vec<String> = items
            .iter()
            .filter(|item| item.serialize_key.as_deref() == Some(name))
            .map(|item| item.id.to_string())
            .collect();
        let effects = bank.effects();
        let executed: Vec<&str> = effects
            .iter()
            .filter(|effect| effect.account == name)
            .map(|effect| effect.idempotency_key.as_str())
            .collect();
        ensure!(accepted == executed, "{name} was given {accepted:?} and did {executed:?}");
    }
    ensure!(items.iter().all(|item| item.state == ItemState::Succeeded), "every payment went out");
    print_line("each bank has had its payments one at a time, in the order in which they came");
    Ok(())
}

/// Checks that the tree's results are only the bookings, and that they balance.
async fn balanced(client: &Client, root: Uuid, bookings: Uuid) -> Result<usize> {
    let mut lines = client.results(root, None).await?;
    let (mut count, mut sum) = (0, 0);
    while let Some(line) = lines.next().await? {
        ensure!(line.job_id == bookings, "a result that is no booking: {line:?}");
        sum += read::<Entry>(&line.result).context("a booking")?.amount;
        count += 1;
    }
    ensure!(count == 2 * (EMPLOYEES - 1) && sum == 0, "{count} bookings that make {sum}");
    print_line("the results of the tree are its bookings, and they balance");
    Ok(count)
}
