//! All actions of callers and people besides ordinary work, repeated in parallel. Each action is retried until it is
//! answered, in spite of crashes, and its effect is then checked.

mod accounts; // people, services, tokens
mod alerts; // alerts of workers, and channels
mod corrections; // failed rows that another file corrects
mod creations; // resources that are created once for each key
mod definitions; // job types, saved views
mod error_groups;
mod event_waits; // items that wait for an event, logs of attempts
mod files; // uploads
mod first_admin;
mod identity_provider; // OpenID Connect provider
mod notices;
mod other_sign_ins; // by an identity provider, by a proxy
mod passkeys;
mod schedules;
mod second_factors;
mod sessions; // callers that are people
mod support_desk; // trees that are pinned, repaired, replayed

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Error, Result, bail, ensure};
use domain::id::Uuid;
use futures::{
    FutureExt as _,
    future::{LocalBoxFuture, join_all},
};
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::PgPool;

use crate::{
    fixture::TOKEN,
    inconclusive::Inconclusive,
    raw::{Answer, Api, id},
    receiver::{Receiver, target},
};

use self::creations::Creation;
pub(super) use self::{identity_provider::IdentityProvider, other_sign_ins::PROXY_HEADER, passkeys::PUBLIC_URL};

/// Time for which one request is retried.
const TIMEOUT: Duration = Duration::from_mins(2);
/// Job types that are processed here. Trees of type `brief` have no retention, so they are deleted at once.
pub(super) const TYPES: [&str; 3] = ["action", "many", "brief"];

/// Job types of which one action processes the items itself, one after the other.
const SEPARATE_TYPES: [&str; 4] = ["late", "waiting", "alarmed", "failing"];

/// Servers that the actions use, and their surroundings.
pub(super) struct Environment {
    /// URLs of the servers.
    pub(super) bases: Vec<String>,
    /// Logs of the servers, which contain the links for the first admin.
    pub(super) logs: Vec<PathBuf>,
    pub(super) pool: PgPool,
    /// Port of the callback receiver.
    pub(super) callback_port: u16,
    /// Receiver of messages about alerts and notices.
    pub(super) messages: Receiver,
    pub(super) identity_provider: IdentityProvider,
}

/// A caller that uses every server in turn: a service, or a person.
pub(super) struct Caller {
    apis: Vec<Api>,
    shared: Arc<Shared>,
}

/// State of all callers.
struct Shared {
    environment: Environment,
    /// Trees with a callback, by name.
    callback_trees: Mutex<Vec<(String, Uuid)>>,
    /// Started bulk operations, each with its tree and the number of members.
    bulks: Mutex<Vec<(String, String, i64)>>,
    /// Creations whose server crashed before it responded.
    unanswered: Mutex<Vec<Creation>>,
    /// Number of actions that were answered and checked.
    done: AtomicUsize,
    /// Source of unique names.
    next: AtomicUsize,
}

impl Caller {
    pub(super) fn new(environment: Environment) -> Result<Self> {
        let apis = environment.bases.iter().map(|base| Api::new(base, TOKEN)).collect::<Result<_>>()?;
        let shared = Shared {
            environment,
            callback_trees: Mutex::default(),
            bulks: Mutex::default(),
            unanswered: Mutex::default(),
            done: AtomicUsize::new(0),
            next: AtomicUsize::new(1),
        };
        Ok(Self { apis, shared: Arc::new(shared) })
    }

    /// Number of actions so far.
    pub(super) fn done(&self) -> usize {
        self.shared.done.load(Relaxed)
    }

    /// Trees with a callback, by name.
    pub(super) fn callback_trees(&self) -> Vec<(String, Uuid)> {
        self.shared.callback_trees.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) async fn put_types(&self) -> Result<()> {
        for name in TYPES.into_iter().chain(SEPARATE_TYPES) {
            let retain = if name == "brief" { json!(0) } else { json!(null) };
            let spec = json!({"heartbeat_seconds": 60, "max_failures": 1, "retain_seconds": retain});
            self.send_until_answered(Method::PUT, &format!("/job-types/{name}"), Some(&spec), None).await?.ok()?;
        }
        Ok(())
    }

    /// Runs all actions in parallel, each repeated until `over` or until it fails. Returns the failures.
    pub(super) async fn everything(&self, over: &AtomicBool) -> Vec<Error> {
        let actions = vec![
            repeat("people", over, async || self.people(self.name()).await),
            repeat("tokens", over, async || self.tokens(self.name()).await),
            repeat("a pinned and shared tree", over, async || self.pinned_and_shared(self.name()).await),
            repeat("what is repaired", over, async || self.repaired(self.name()).await),
            repeat("an edited job", over, async || self.edited(self.name()).await),
            repeat("a replay", over, async || self.replayed(self.name()).await),
            repeat("a cancel", over, async || self.cancelled(self.name()).await),
            repeat("many items", over, async || self.many(self.name()).await),
            repeat("who is late", over, async || self.late(self.name()).await),
            repeat("files", over, async || self.files(self.name()).await),
            repeat("corrected rows", over, async || self.corrected(self.name()).await),
            repeat("job types", over, async || self.job_types(self.name()).await),
            repeat("saved views", over, async || self.saved_views(self.name()).await),
            repeat("schedules", over, async || self.schedules(self.name()).await),
            repeat("items that wait for an event", over, async || self.event_waits(self.name()).await),
            repeat("error groups", over, async || self.error_groups(self.name()).await),
            repeat("alerts", over, async || self.alerts(self.name()).await),
            repeat("notices", over, async || self.notices(self.name()).await),
            repeat("second factors", over, async || self.second_factors(self.name()).await),
            repeat("passkeys", over, async || self.passkeys(self.name()).await),
            repeat("an identity provider", over, async || self.identity_provider(self.name()).await),
            repeat("a sign-in by proxy", over, async || self.proxy_sign_in(self.name()).await),
            repeat("the first admin", over, async || self.first_admin(self.name()).await),
        ];
        join_all(actions).await.into_iter().filter_map(Result::err).collect()
    }

    /// Waits for the end of all bulk operations and creations, including those whose server crashed.
    pub(super) async fn ended_operations(&self) -> Result<()> {
        self.repeat_creations().await?;
        let begun = self.shared.bulks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (path, job, members) in begun {
            // Members that a crashed server held are taken over after a minute.
            let max_wait = Duration::from_mins(2);
            let over = async || Ok(self.get(&path).await?["state"] == "completed");
            let result = crate::raw::until("an operation", max_wait, over).await;
            let through = self.get(&path).await?;
            result.with_context(|| through.to_string())?;
            let whole = through["total"] == members && through["processed"] == members;
            self.confirm(whole, &format!("an operation on {members}: {through}"))?;
            self.work(&job).await?;
        }
        Ok(())
    }

    fn name(&self) -> usize {
        self.shared.next.fetch_add(1, Relaxed)
    }

    fn expect_callback(&self, name: &str, job: &str) -> Result<()> {
        self.shared.callback_trees.lock().unwrap_or_else(PoisonError::into_inner).push((name.to_owned(), job.parse()?));
        Ok(())
    }

    /// Sends a request to one server after the other until one answers; an idempotency key makes it safe.
    async fn send_until_answered(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        key: Option<&str>,
    ) -> Result<Answer> {
        let (began, first) = (Instant::now(), rand::random_range(0..self.apis.len()));
        for at in first.. {
            match self.apis[at % self.apis.len()].send_keyed(method.clone(), path, body, key).await {
                Ok(answer) if answer.status < 500 && answer.status != 429 => return Ok(answer),
                last => ensure_time_left(began, || format!("{method} {path} got no response: {last:?}"))?,
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        bail!("nobody to ask")
    }

    async fn get(&self, path: &str) -> Result<Value> {
        self.send_until_answered(Method::GET, path, None, None).await?.ok()
    }

    async fn post(&self, path: &str, body: &Value, key: &str) -> Result<Value> {
        self.send_until_answered(Method::POST, path, Some(body), Some(key)).await?.ok().with_context(|| path.to_owned())
    }

    /// Sends an idempotent request. It also accepts the statuses `also`, which mean that an earlier attempt succeeded.
    async fn send_idempotent(&self, method: Method, path: &str, body: Option<&Value>, also: &[u16]) -> Result<()> {
        let answer = self.send_until_answered(method, path, body, None).await?;
        ensure!(answer.status < 300 || also.contains(&answer.status), "{path}: {} {}", answer.status, answer.text);
        Ok(())
    }

    fn confirm(&self, so: bool, what: &str) -> Result<()> {
        ensure!(so, "{what}: acknowledged, but not stored");
        self.shared.done.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Cancels a tree of jobs that wait for each other; and creates another tree that is deleted by retention.
    async fn cancelled(&self, n: usize) -> Result<()> {
        let name = format!("cancelled-{n}");
        let items: Vec<Value> = (0..20).map(|at| json!({"payload": {"n": at}})).collect();
        let waiting = json!({"type": "action", "key": "late", "after": ["early"], "sealed": true, "items": items});
        let early = json!({"type": "action", "key": "early", "sealed": true, "items": items});
        let tree = json!({"type": "action", "name": name, "sealed": true, "children": [early, waiting],
            "on_completed": target(self.shared.environment.callback_port)});
        let job = id(&self.post("/jobs", &tree, &name).await?)?.to_owned();
        self.expect_callback(&name, &job)?;
        let path = format!("/jobs/{job}/cancel");
        let answer = self.send_until_answered(Method::POST, &path, Some(&json!({})), None).await?;
        ensure!(answer.status < 300 || answer.status == 409, "{path}: {} {}", answer.status, answer.text);
        self.work(&job).await?;
        let seen = self.get(&format!("/jobs/{job}")).await?;
        let outcome = &seen["tree"]["outcome"];
        // 409: the tree is complete. Other actions may have processed all its items before a server could cancel it.
        let is_canceled = outcome == "cancelled" || answer.status == 409;
        self.confirm(is_canceled, &format!("a canceled tree, answered {} and {outcome}", answer.status))?;
        let brief =
            json!({"type": "brief", "name": format!("brief-{n}"), "sealed": true, "items": [{"payload": {"n": n}}]});
        let brief = id(&self.post("/jobs", &brief, &format!("brief-{n}")).await?)?.to_owned();
        let gone = self.ended(&brief).await?;
        self.confirm(gone || self.work(&brief).await.is_ok(), "a tree that runs by itself")
    }

    /// Claims an item of a type that no other action processes.
    async fn claim_one(&self, job_type: &str) -> Result<Value> {
        let began = Instant::now();
        loop {
            let claim = json!({"worker_id": "one", "types": [job_type], "max": 1, "claim_id": Uuid::now_v7()});
            let claimed = self.send_until_answered(Method::POST, "/assignments", Some(&claim), None).await?.ok()?;
            if let Some(assignment) = claimed["assignments"].get(0) {
                return Ok(assignment.clone());
            }
            ensure_time_left(began, || format!("no item of the type {job_type} is available"))?;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Sends a heartbeat, a result, and a heartbeat of the closed assignment.
    async fn late(&self, n: usize) -> Result<()> {
        let name = format!("late-{n}");
        let tree = json!({"type": "late", "name": name, "sealed": true, "items": [{"payload": {"n": n}}]});
        self.post("/jobs", &tree, &name).await?;
        let claim = json!({"worker_id": "late", "types": ["late"], "max": 1, "claim_id": Uuid::now_v7()});
        let claimed = self.send_until_answered(Method::POST, "/assignments", Some(&claim), None).await?.ok()?;
        let Some(claimed) = claimed["assignments"].get(0) else { return Ok(()) };
        let path = format!("/assignments/{}", id(claimed)?);
        self.send_until_answered(Method::POST, &format!("{path}/heartbeat"), Some(&json!({})), None).await?.ok()?;
        self.send_until_answered(Method::POST, &format!("{path}/result"), Some(&json!({"result": {}})), None)
            .await?
            .ok()?;
        let late = self.send_until_answered(Method::POST, &format!("{path}/heartbeat"), Some(&json!({})), None).await?;
        self.confirm([409, 410].contains(&late.status), "an assignment that has ended")
    }

    /// Adds more items in one call than fit in one transaction, and one item that feeds thousands.
    async fn many(&self, n: usize) -> Result<()> {
        let name = format!("many-{n}");
        let tree = json!({"type": "action", "name": name, "children":
            [{"type": "many", "key": "many", "feed": {"each": "/result", "payload": {"n": {"$from": "/element"}}}}]});
        let job = id(&self.post("/jobs", &tree, &name).await?)?.to_owned();
        let items: Vec<Value> =
            (0..1_200).map(|at| json!({"payload": {"spreads": if at == 0 { 1_500 } else { 0 }}})).collect();
        let path = format!("/jobs/{job}/items");
        self.send_until_answered(Method::POST, &path, Some(&json!(items)), Some(&format!("{name}-items")))
            .await?
            .ok()?;
        self.send_idempotent(Method::POST, &format!("/jobs/{job}/seal"), Some(&json!({})), &[409]).await?;
        self.work(&job).await?;
        let seen = self.get(&format!("/jobs/{job}")).await?;
        let counts = &seen["tree"]["counts"];
        self.confirm(counts["succeeded"] == 1_200 + 1_500, &format!("a tree of 2,700 items: {counts}"))
    }

    /// True if a tree is complete or deleted.
    async fn ended(&self, job: &str) -> Result<bool> {
        let seen = self.send_until_answered(Method::GET, &format!("/jobs/{job}"), None, None).await?;
        Ok([404, 410].contains(&seen.status) || seen.json()["tree"]["status"] == "completed")
    }

    /// Processes items until a tree is complete.
    async fn work(&self, job: &str) -> Result<()> {
        self.until("a tree", async || {
            let claim = json!({"worker_id": "actions", "types": TYPES, "max": 500, "claim_id": Uuid::now_v7()});
            let claimed = self.send_until_answered(Method::POST, "/assignments", Some(&claim), None).await?.ok()?;
            let endings: Vec<Value> =
                claimed["assignments"].as_array().context("assignments")?.iter().map(ending).collect();
            if !endings.is_empty() {
                let endings = json!({"endings": endings});
                self.send_until_answered(Method::POST, "/assignments/finish", Some(&endings), None).await?.ok()?;
            }
            self.ended(job).await
        })
        .await
    }

    async fn until(&self, what: &str, so: impl AsyncFn() -> Result<bool>) -> Result<()> {
        crate::raw::until(what, TIMEOUT, so).await.map(drop)
    }
}

/// Returns an inconclusive error if a request has been retried for too long.
fn ensure_time_left(began: Instant, what: impl FnOnce() -> String) -> Result<()> {
    if began.elapsed() < TIMEOUT { Ok(()) } else { Err(Inconclusive::Timeout.error(what())) }
}

/// Ending of an item: some die, some feed many.
fn ending(claimed: &Value) -> Value {
    let (payload, assignment_id) = (&claimed["item"]["payload"], &claimed["id"]);
    if (payload["dies"] == true && claimed["attempt"] == 1) || payload["note"] == corrections::WRONG {
        return json!({"assignment_id": assignment_id, "retryable": false, "error": {"message": "asked to die"}});
    }
    let spreads = payload["spreads"].as_u64().unwrap_or_default();
    json!({"assignment_id": assignment_id, "result": (0..spreads).collect::<Vec<_>>()})
}

/// Repeats an action until `over`. The error says what it does.
fn repeat<'a>(
    what: &'static str,
    over: &'a AtomicBool,
    action: impl AsyncFn() -> Result<()> + 'a,
) -> LocalBoxFuture<'a, Result<()>> {
    async move {
        while !over.load(Relaxed) {
            action().await.context(what)?;
        }
        Ok(())
    }
    .boxed_local()
}
