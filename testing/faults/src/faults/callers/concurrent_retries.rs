//! F43: two people retry the same dead item concurrently, while workers finish others. Each accepted retry is one more
//! attempt, and is in the audit log under the name of its actor.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use domain::{Code, api::NewJob, id::Uuid};
use futures::{StreamExt as _, stream};
use serde_json::json;
use sqlx::PgPool;
use tokio::task::JoinHandle;

use super::{items, keys};
use crate::{
    faults::{ScenarioOutcome, end, scaled},
    fixture::{Fixture, FixtureOptions, RunContext, TOKEN},
    inconclusive::Inconclusive,
    journal::{CallOutcome, Journal, Request},
    raw::Api,
};

/// Number of items that are retried concurrently.
const AT_ONCE: usize = 16;

/// A support user with a session at one server.
#[derive(Clone)]
struct Person {
    name: &'static str,
    api: Api,
}

pub(super) async fn run(context: &RunContext) -> Result<ScenarioOutcome> {
    let fixture = Fixture::start(context, FixtureOptions { work_ms: 5, ..FixtureOptions::default() }).await?;
    let journal = Arc::clone(&fixture.journal);
    let count = scaled(context, 1_000, 10_000);
    let key = format!("presses-{}", context.seed);
    let dead = items("dead", count, 99);
    let call = journal.invoke(Request::Create { key: key.clone(), items: keys(&dead), calls: true })?;
    let on_completed = Some(fixture.receiver.target());
    let tree = NewJob { name: Some(key.clone()), items: dead, sealed: true, on_completed, ..NewJob::of("once") };
    let job = fixture.client(0)?.create_job_once(&tree, &key).await?.job().id;
    journal.record_outcome(call, CallOutcome::Ok, Some(job))?;
    let people: Arc<[Person]> = [person(&fixture, 0, "anna").await?, person(&fixture, 1, "ben").await?].into();
    let pool = fixture.pool.clone();
    let workload: JoinHandle<Result<()>> = tokio::spawn(async move {
        let dead = all_dead(&pool, job, count).await?;
        let retries = stream::iter(dead).map(|item| retry_by_both(Arc::clone(&people), Arc::clone(&journal), item));
        let done: Vec<Result<()>> = retries.buffer_unordered(AT_ONCE).collect().await;
        done.into_iter().collect()
    });
    let mut outcome = end(context, fixture, workload, String::new()).await?;
    let (accepted, refused) = (outcome.verdict.audited_actions, outcome.verdict.refused_actions);
    outcome.done = format!(
        "{count} dead letters, each retried by two people at once while workers run: {accepted} requests accepted, \
         each with one audit entry under its person; {refused} rejected, without an entry"
    );
    ensure!(accepted + refused == 2 * count, "{accepted} accepted and {refused} rejected of {} requests", 2 * count);
    Ok(outcome)
}

/// Waits until all items of the tree are dead letters.
async fn all_dead(pool: &PgPool, job: Uuid, count: usize) -> Result<Vec<Uuid>> {
    let dead = "select o.item_id from outcome o join job j on j.job_key = o.job_key where j.id = $1 and o.state = 2";
    let began = Instant::now();
    loop {
        let all: Vec<Uuid> = sqlx::query_scalar(dead).bind(job).fetch_all(pool).await?;
        if all.len() == count {
            return Ok(all);
        }
        if began.elapsed() > Duration::from_mins(3) {
            return Err(Inconclusive::Timeout.error(format!("{} of {count} are dead letters", all.len())));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn person(fixture: &Fixture, at: usize, name: &'static str) -> Result<Person> {
    let url = fixture.servers[at].url();
    let (email, password) = (format!("{name}@example.org"), "a password that is long enough");
    let new = json!({"name": name, "email": email, "role": "support", "password": password});
    Api::new(&url, TOKEN)?.post("/users", &new).await?.ok()?;
    Ok(Person { name, api: Api::sign_in(&url, &email, password).await? })
}

/// Retries the item concurrently as both people.
async fn retry_by_both(people: Arc<[Person]>, journal: Arc<Journal>, item: Uuid) -> Result<()> {
    let one = async |person: &Person| {
        let call = journal.invoke(Request::Retry { item, by: Some(person.name.to_owned()) })?;
        let reason = json!({"reason": "the customer asks"});
        let answer = person.api.post(&format!("/items/{item}/retry"), &reason).await?;
        match answer.status {
            200..300 => journal.record_outcome(call, CallOutcome::Ok, None).map(|()| 1),
            409 if answer.json()["code"] == Code::NotRetryable.as_str() => {
                journal.record_outcome(call, CallOutcome::Fail, None).map(|()| 0)
            }
            _ => answer.ok().context("retrying an item").map(|_| 1),
        }
    };
    let (first, second) = tokio::join!(one(&people[0]), one(&people[1]));
    ensure!(first.context("anna")? + second.context("ben")? > 0, "no retry of item {item} was accepted");
    Ok(())
}
