//! Demo data: people, services, job types, a week of trees with failures, a schedule, and an import.
//!
//! For `treeline-server --demo` and `cargo xtask seed`; separate from the rest because no program needs it. Everything goes
//! through the public API, and every tree has an id that is derived from its name, so a second run creates nothing
//! twice. The work is done by a worker in this process, which fails where the data says so; one type stays paused, so
//! that something waits.

use std::{
    collections::BTreeSet,
    fmt::{self, Write as _},
    path::PathBuf,
    time::Duration,
};

use domain::{
    Code, Document, JobStatus,
    api::{JobUpload, LogLevel, NewItem, NewJob, NewLogLine, NewSchedule},
    id::Uuid,
    identity::{access::NewService, account::NewUser},
    item::ItemProgress,
    job_type::JobTypeSpec,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{Client, Drain, Error, PageQuery, Result, Task, Unfinished, Worker};

const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
/// No admin among them: the first start of a server prints a link for the first admin.
const PEOPLE: [(&str, &str, &str); 5] = [
    ("Ada Lovelace", "ada@demo.example", "support"),
    ("Grace Hopper", "grace@demo.example", "support"),
    ("Linus Pauling", "linus@demo.example", "support"),
    ("Mary Jackson", "mary@demo.example", "user"),
    ("Alan Turing", "alan@demo.example", "user"),
];
const SERVICES: [&str; 3] = ["shop", "payroll", "newsletter"];

const INVOICE: &str = "demo.invoice";
const SHIP: &str = "demo.ship";
const POSTCARD: &str = "demo.postcard";
const THUMBNAIL: &str = "demo.thumbnail";
const REPORT: &str = "demo.report";
/// Types that the worker works on. Postcards stay paused.
const WORKED_ON: [&str; 4] = [INVOICE, SHIP, THUMBNAIL, REPORT];

/// Number of rows of the imported file.
const ROWS: usize = 400;
/// Seconds of one long poll.
const POLL_SECONDS: u32 = 20;
/// Namespace of the ids that are derived from names.
const NAMESPACE: Uuid = Uuid::from_u128(0x7265_656c_696e_6565_2064_656d_6f64_6174);

/// Numbers of things that this run has created.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub people: usize,
    pub services: usize,
    pub schedules: usize,
    pub trees: usize,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { people, services, schedules, trees } = self;
        write!(f, "created people: {people}, services: {services}, schedules: {schedules}, trees: {trees}")
    }
}

/// Creates what is missing, and works on it.
///
/// # Errors
/// Those of the calls; the token needs the scopes `admin`, `jobs:read`, `jobs:write`, and `work`.
pub async fn run(client: &Client) -> Result<Report> {
    types(client).await?;
    let mut report = Report { people: people(client).await?, services: services(client).await?, ..Report::default() };
    report.schedules = schedule(client).await?;
    let drain = Drain::new();
    let worker = Worker::new(client.clone(), WORKED_ON).concurrency(8).worker_id("demo-worker");
    let working = worker.run_until(drain.clone(), work);
    let creating = async {
        let created = create_trees(client).await;
        drain.begin();
        created
    };
    let (worked, created) = tokio::join!(working, creating);
    worked?;
    report.trees = created?;
    Ok(report)
}

/// Creates the trees that are missing, and waits for those that are worked on. Returns their number.
async fn create_trees(client: &Client) -> Result<usize> {
    let (mut created, mut worked_on) = (0, Vec::new());
    for (name, new) in trees() {
        let id = id_of(&name);
        if !exists(client, id).await? {
            client.put_job(id, &new).await?;
            created += 1;
            if new.job_type != POSTCARD {
                worked_on.push(id);
            }
        }
    }
    if let Some(import) = import(client).await? {
        created += 1;
        worked_on.push(import);
    }
    for id in worked_on {
        let mut job = client.job(id).await?;
        while job.tree.status != JobStatus::Completed {
            if let Some(newer) = client.newer_job(id, job.version, POLL_SECONDS).await? {
                job = newer;
            }
        }
    }
    Ok(created)
}

/// A request body, written as JSON.
fn body<T: DeserializeOwned>(json: Value) -> Result<T> {
    serde_json::from_value(json).map_err(|error| Error::Configuration(format!("the demo data is invalid: {error}")))
}

fn id_of(name: &str) -> Uuid {
    Uuid::new_v5(&NAMESPACE, name.as_bytes())
}

/// True if the tree was created by an earlier run; also if it was deleted since.
async fn exists(client: &Client, id: Uuid) -> Result<bool> {
    match client.job(id).await {
        Ok(_) => Ok(true),
        Err(error) if error.code() == Some(Code::NotFound) => Ok(false),
        Err(error) if error.code() == Some(Code::JobRemoved) => Ok(true),
        Err(error) => Err(error),
    }
}

async fn types(client: &Client) -> Result<()> {
    let backoff = json!({"min_seconds": 0.1, "max_seconds": 1, "factor": 2, "jitter": true});
    let specs = [
        json!({"name": INVOICE, "max_failures": 3, "concurrency": 4, "backoff": backoff, "steps": ["priced", "sent"],
               "payload_schema": {"type": "object", "required": ["order", "amount"],
                                  "properties": {"order": {"type": "string"}, "amount": {"type": "integer"}}}}),
        json!({"name": SHIP, "max_failures": 3, "backoff": backoff}),
        json!({"name": THUMBNAIL, "max_failures": 2, "backoff": backoff}),
        json!({"name": REPORT, "max_failures": 2, "backoff": backoff}),
        json!({"name": POSTCARD, "concurrency": 2}),
    ];
    let existing: BTreeSet<String> = client.job_types().await?.data.into_iter().map(|of| of.name).collect();
    for spec in specs {
        let spec: JobTypeSpec = body(spec)?;
        if !existing.contains(&spec.name) {
            client.put_job_type(&spec).await?;
        }
    }
    if !existing.contains(POSTCARD) {
        client.pause_job_type(POSTCARD).await?;
    }
    Ok(())
}

async fn people(client: &Client) -> Result<usize> {
    let mut created = 0;
    for (name, email, role) in PEOPLE {
        let new = NewUser {
            name: name.to_owned(),
            email: email.to_owned(),
            role: Some(role.to_owned()),
            password: None,
            must_change_password: None,
            proxy_user: None,
            reason: None,
        };
        match client.create_user(&new).await {
            Ok(_) => created += 1,
            Err(error) if error.code() == Some(Code::Duplicate) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(created)
}

async fn services(client: &Client) -> Result<usize> {
    let mut created = 0;
    for name in SERVICES {
        match client.create_service(&NewService { name: name.to_owned() }).await {
            Ok(_) => created += 1,
            Err(error) if error.code() == Some(Code::Duplicate) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(created)
}

/// A nightly report, unless there is a schedule of this name.
async fn schedule(client: &Client) -> Result<usize> {
    let name = "Nightly report";
    let mut query = PageQuery { limit: Some(1_000), cursor: None };
    loop {
        let page = client.schedules(&query).await?;
        if page.data.iter().any(|schedule| schedule.name == name) {
            return Ok(0);
        }
        query.cursor = page.next_cursor;
        if query.cursor.is_none() {
            break;
        }
    }
    let job = json!({"type": REPORT, "name": name, "sealed": true, "items": [{"payload": {"pages": 12}}]});
    let new = json!({"name": name, "cron": "0 3 * * *", "time_zone": "Europe/Berlin", "job": job});
    let new: NewSchedule = body(new)?;
    client.create_schedule(&new).await?;
    Ok(1)
}

/// A week of trees, each with its name. The same in every run.
fn trees() -> Vec<(String, NewJob)> {
    let mut trees = Vec::new();
    for (day, name) in (0_i64..).zip(DAYS) {
        trees.push((format!("orders of {name}"), orders(day, name)));
        trees.push((format!("thumbnails of {name}"), thumbnails(day, name)));
        if day < 5 {
            trees.push((format!("postcards of {name}"), postcards(day, name)));
        }
    }
    trees
}

fn items(payloads: impl Iterator<Item = Value>) -> Vec<NewItem> {
    payloads.map(|payload| NewItem { payload: Some(Document::of(&payload)), ..NewItem::default() }).collect()
}

/// Invoices of a day; each invoice that is sent becomes a shipment.
fn orders(day: i64, name: &str) -> NewJob {
    let invoice = |n: i64| {
        let order = format!("{}-{n:03}", &name[..3]);
        json!({"order": order, "amount": 20 + (n * 37 + day * 11) % 180, "trouble": trouble(day, n)})
    };
    let ship = NewJob {
        key: Some("ship".to_owned()),
        feed: Some(Document::of(&json!({"payload": {"order": {"$from": "/payload/order"}}}))),
        final_stage: true,
        ..NewJob::of(SHIP)
    };
    NewJob {
        key: Some("invoices".to_owned()),
        name: Some(format!("Orders of {name}")),
        items: items((1..=24 + day * 6).map(invoice)),
        sealed: true,
        metadata: Some(Document::of(&json!({"day": name, "shop": "demo"}))),
        children: vec![ship],
        ..NewJob::of(INVOICE)
    }
}

/// Problem of an invoice: Wednesday's ledger was down, some customers are unknown, and some calls fail once.
fn trouble(day: i64, n: i64) -> Option<&'static str> {
    match (day, n) {
        (2, n) if n % 3 == 0 => Some("ledger"),
        (_, n) if n % 17 == 5 => Some("customer"),
        (_, n) if n % 7 == 3 => Some("once"),
        _ => None,
    }
}

fn thumbnails(day: i64, name: &str) -> NewJob {
    let image =
        |n: i64| json!({"image": format!("{name}-{n}.png"), "trouble": (n == 9 && day % 2 == 1).then_some("image")});
    NewJob {
        name: Some(format!("Thumbnails of {name}")),
        items: items((1..=12).map(image)),
        sealed: true,
        ..NewJob::of(THUMBNAIL)
    }
}

fn postcards(day: i64, name: &str) -> NewJob {
    NewJob {
        name: Some(format!("Postcards of {name}")),
        items: items((1..=5 + day).map(|n| json!({"to": format!("customer {n}")}))),
        sealed: true,
        priority: Some(10),
        ..NewJob::of(POSTCARD)
    }
}

/// Uploads a table of customers and imports it, unless an earlier run has.
async fn import(client: &Client) -> Result<Option<Uuid>> {
    let id = id_of("customers");
    if exists(client, id).await? {
        return Ok(None);
    }
    let file = CustomersFile::write()?;
    let upload = client.upload(&file.path, |_| {}).await?;
    let source: JobUpload = body(json!({"id": upload.id}))?;
    let new = NewJob { name: Some("customers.csv".to_owned()), upload: Some(source), ..NewJob::of("import") };
    client.put_job(id, &new).await?;
    Ok(Some(id))
}

/// A table of customers in a folder of its own, which is removed when the value is dropped.
struct CustomersFile {
    path: PathBuf,
}

impl CustomersFile {
    fn write() -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("treeline-demo-{}", Uuid::now_v7().simple()));
        let path = folder.join("customers.csv");
        std::fs::create_dir(&folder)
            .and_then(|()| std::fs::write(&path, customers()))
            .map_err(|cause| Error::File { path: path.clone(), cause })?;
        Ok(Self { path })
    }
}

impl Drop for CustomersFile {
    fn drop(&mut self) {
        if let Some(folder) = self.path.parent() {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// The table; some rows have a cell too few or too many.
fn customers() -> String {
    let cities = ["Berlin", "Lyon", "Porto", "Graz", "Turku"];
    let mut table = "id,name,city\n".to_owned();
    for n in 1..=ROWS {
        let city = cities[n % cities.len()];
        let _ = match n {
            57 | 203 => writeln!(table, "{n},customer {n}"),
            311 => writeln!(table, "{n},customer {n},{city},surplus"),
            _ => writeln!(table, "{n},customer {n},{city}"),
        };
    }
    table
}

async fn work(task: Task) -> Result<Document, Unfinished> {
    let payload: Value = serde_json::from_str(task.item().payload.text()).unwrap_or_default();
    task.progress(ItemProgress { done: Some(1), total: Some(2), message: Some("looking at it".to_owned()) });
    log(&task, LogLevel::Info, format!("attempt {} of {}", task.attempt(), task.item().job_type)).await;
    match payload["trouble"].as_str() {
        Some("ledger") => Err(Unfinished::failed("the ledger did not answer within 5 s").kind("timeout")),
        Some("customer") => {
            let why = format!("the customer of order {} is unknown", payload["order"].as_str().unwrap_or_default());
            log(&task, LogLevel::Error, why.clone()).await;
            Err(Unfinished::failed(why).kind("unknown_customer").not_retryable())
        }
        Some("image") => Err(Unfinished::failed("the file is not an image").kind("bad_image").not_retryable()),
        Some("once") if task.attempt() == 1 => {
            let busy = Unfinished::failed("the price list is being updated").kind("busy");
            Err(busy.retry_after(Duration::from_millis(100)))
        }
        _ => {
            if task.item().job_type == INVOICE {
                task.step("priced", None).await.map_err(|error| Unfinished::failed(error.to_string()))?;
            }
            Ok(Document::of(&json!({"done": true, "reference": task.item().id})))
        }
    }
}

/// Adds a line to the log of the attempt. A line that cannot be stored is no reason to fail.
async fn log(task: &Task, level: LogLevel, message: String) {
    let _ = task.log(vec![NewLogLine { at: None, level, message, fields: None }]).await;
}
