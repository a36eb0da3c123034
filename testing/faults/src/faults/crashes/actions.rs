//! All actions of callers and people besides ordinary work, repeated in parallel. Each action is retried until it is
//! answered, in spite of crashes, and its effect is then checked.

mod files;
mod support_desk; // trees that are pinned, repaired, replayed // uploads

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use domain::id::Uuid;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::{
    fixture::TOKEN,
    raw::{Answer, Api, id},
    receiver::target,
};

/// Time for which one action is retried.
const TIMEOUT: Duration = Duration::from_mins(1);
/// Job types that are processed here. Trees of type `brief` have no retention, so they are deleted at once.
pub(super) const TYPES: [&str; 3] = ["action", "many", "brief"];

/// A caller that uses every server in turn.
pub(super) struct Caller {
    bases: Vec<String>,
    apis: Vec<Api>,
    /// Port of the callback receiver.
    receiver: u16,
    /// Trees with a callback, by name.
    callback_trees: Mutex<Vec<(String, Uuid)>>,
    /// Started bulk operations, each with its tree and the number of members.
    bulks: Mutex<Vec<(String, String, i64)>>,
    /// Number of actions that were answered and checked.
    done: AtomicUsize,
    /// Source of unique names.
    next: AtomicUsize,
}

impl Caller {
    pub(super) fn new(bases: Vec<String>, receiver: u16) -> Result<Self> {
        let apis = bases.iter().map(|base| Api::new(base, TOKEN)).collect::<Result<_>>()?;
        let (callback_trees, bulks) = (Mutex::default(), Mutex::default());
        Ok(Self { bases, apis, receiver, callback_trees, bulks, done: AtomicUsize::new(0), next: AtomicUsize::new(1) })
    }

    /// Number of actions so far.
    pub(super) fn done(&self) -> usize {
        self.done.load(Relaxed)
    }

    /// Trees with a callback, by name.
    pub(super) fn callback_trees(&self) -> Vec<(String, Uuid)> {
        self.callback_trees.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) async fn put_types(&self) -> Result<()> {
        for name in TYPES.into_iter().chain(["late"]) {
            let retain = if name == "brief" { json!(0) } else { json!(null) };
            let spec = json!({"heartbeat_seconds": 60, "max_failures": 1, "retain_seconds": retain});
            self.send_until_answered(Method::PUT, &format!("/job-types/{name}"), Some(&spec), None).await?.ok()?;
        }
        Ok(())
    }

    /// Runs all actions in parallel, each repeated until `over`.
    pub(super) async fn everything(&self, over: &AtomicBool) -> Result<()> {
        tokio::try_join!(
            repeat(over, async || self.people(self.name()).await.context("people")),
            repeat(over, async || self.tokens(self.name()).await.context("tokens")),
            repeat(over, async || self.pinned_and_shared(self.name()).await.context("a pinned and shared tree")),
            repeat(over, async || self.repaired(self.name()).await.context("what is repaired")),
            repeat(over, async || self.replayed(self.name()).await.context("a replay")),
            repeat(over, async || self.cancelled(self.name()).await.context("a cancel")),
            repeat(over, async || self.many(self.name()).await.context("many items")),
            repeat(over, async || self.late(self.name()).await.context("who is late")),
            repeat(over, async || self.files(self.name()).await.context("files")),
        )
        .map(drop)
    }

    /// Waits for the end of all bulk operations, including those whose server crashed.
    pub(super) async fn ended_operations(&self) -> Result<()> {
        let begun = self.bulks.lock().unwrap_or_else(PoisonError::into_inner).clone();
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
        self.next.fetch_add(1, Relaxed)
    }

    fn expect_callback(&self, name: &str, job: &str) -> Result<()> {
        self.callback_trees.lock().unwrap_or_else(PoisonError::into_inner).push((name.to_owned(), job.parse()?));
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
                last => ensure!(began.elapsed() < TIMEOUT, "{method} {path} got no response: {last:?}"),
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
        self.done.fetch_add(1, Relaxed);
        Ok(())
    }

    async fn sign_in(&self, credentials: &Value, used_up: bool) -> Result<Option<reqwest::Response>> {
        let (http, began) = (reqwest::Client::new(), Instant::now());
        for at in 0.. {
            let url = format!("{}/api/v1/session", self.bases[at % self.bases.len()]);
            match http.post(url).json(credentials).send().await {
                Ok(answer) if answer.status() == StatusCode::NO_CONTENT => return Ok(Some(answer)),
                // Used by an earlier attempt, whose server crashed before it responded.
                Ok(answer) if used_up && at > 0 && answer.status() == StatusCode::GONE => return Ok(None),
                last => ensure!(began.elapsed() < TIMEOUT, "nobody can sign in: {last:?}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(None)
    }

    /// Creates a person, changes the role, signs in by password and by link, and signs out.
    async fn people(&self, n: usize) -> Result<()> {
        let (email, password) = (format!("person-{n}@example.org"), "long enough to be one");
        let new = json!({"name": format!("person {n}"), "email": email, "password": password});
        // 409 if an earlier attempt succeeded.
        self.send_idempotent(Method::POST, "/users", Some(&new), &[409]).await?;
        let all = self.get("/users?limit=500").await?;
        let all = all["data"].as_array().context("people")?;
        let found: Vec<&Value> = all.iter().filter(|one| one["email"] == email.as_str()).collect();
        self.confirm(found.len() == 1, "a person")?;
        let path = format!("/users/{}", id(found[0])?);
        self.send_idempotent(Method::PATCH, &path, Some(&json!({"role": "support"})), &[]).await?;
        let now = self.get(&path).await?;
        self.confirm(now["role"] == "support", "a person's role")?;
        self.sign_in(&json!({"email": email, "password": password}), false).await?;
        let link = self
            .send_until_answered(Method::POST, &format!("{path}/sign-in-link"), Some(&json!({})), None)
            .await?
            .ok()?;
        self.sign_in(&json!({"link": link["url"]}), true).await?;
        self.send_idempotent(Method::DELETE, &format!("{path}/sessions"), None, &[]).await?;
        let open = self.get(&format!("{path}/sessions")).await?;
        self.confirm(open["data"].as_array().is_some_and(Vec::is_empty), "sessions that were ended")
    }

    /// Creates a service and a token, and revokes the token.
    async fn tokens(&self, n: usize) -> Result<()> {
        let service = format!("service-{n}");
        self.send_idempotent(Method::POST, "/services", Some(&json!({"name": service})), &[409]).await?;
        let new = json!({"service": service, "name": "one", "scopes": ["jobs:read"]});
        let made = self.send_until_answered(Method::POST, "/tokens", Some(&new), None).await?.ok()?;
        let secret = made["secret"].as_str().or(made["token"].as_str()).context("a secret")?.to_owned();
        let token = id(&made).map(str::to_owned);
        let token = token.or_else(|_| id(&made["token"]).map(str::to_owned))?;
        self.send_idempotent(Method::DELETE, &format!("/tokens/{token}"), None, &[404, 410]).await?;
        let (began, at) = (Instant::now(), n % self.bases.len());
        let stranger = Api::new(&self.bases[at], &secret)?;
        loop {
            match stranger.get("/jobs").await {
                Ok(answer) if answer.status == 401 => return self.confirm(true, "a token that was revoked"),
                last => ensure!(began.elapsed() < TIMEOUT, "a revoked token was accepted: {last:?}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Cancels a tree of jobs that wait for each other; and creates another tree that is deleted by retention.
    async fn cancelled(&self, n: usize) -> Result<()> {
        let name = format!("cancelled-{n}");
        let items: Vec<Value> = (0..20).map(|at| json!({"payload": {"n": at}})).collect();
        let waiting = json!({"type": "action", "key": "late", "after": ["early"], "sealed": true, "items": items});
        let early = json!({"type": "action", "key": "early", "sealed": true, "items": items});
        let tree = json!({"type": "action", "name": name, "sealed": true, "children": [early, waiting],
            "on_completed": target(self.receiver)});
        let job = id(&self.post("/jobs", &tree, &name).await?)?.to_owned();
        self.expect_callback(&name, &job)?;
        self.send_idempotent(Method::POST, &format!("/jobs/{job}/cancel"), Some(&json!({})), &[409]).await?;
        self.work(&job).await?;
        let seen = self.get(&format!("/jobs/{job}")).await?;
        self.confirm(seen["tree"]["outcome"] == "cancelled", "a cancelled tree")?;
        let brief =
            json!({"type": "brief", "name": format!("brief-{n}"), "sealed": true, "items": [{"payload": {"n": n}}]});
        let brief = id(&self.post("/jobs", &brief, &format!("brief-{n}")).await?)?.to_owned();
        let gone = self.ended(&brief).await?;
        self.confirm(gone || self.work(&brief).await.is_ok(), "a tree that runs by itself")
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

/// Ending of an item: some die, some feed many.
fn ending(claimed: &Value) -> Value {
    let (payload, assignment_id) = (&claimed["item"]["payload"], &claimed["id"]);
    if payload["dies"] == true && claimed["attempt"] == 1 {
        return json!({"assignment_id": assignment_id, "retryable": false, "error": {"message": "asked to die"}});
    }
    let spreads = payload["spreads"].as_u64().unwrap_or_default();
    json!({"assignment_id": assignment_id, "result": (0..spreads).collect::<Vec<_>>()})
}

/// Repeats an action until `over`.
async fn repeat(over: &AtomicBool, action: impl AsyncFn() -> Result<()>) -> Result<()> {
    while !over.load(Relaxed) {
        action().await?;
    }
    Ok(())
}
