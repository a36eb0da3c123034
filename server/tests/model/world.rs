//! One sequence against the server: sends each command, compares the response with the reference, and then compares all
//! readable state until it is equal.
//!
//! Differences are returned as text, never as a panic, so that proptest can shrink the sequence.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use proptest::sample::Index;
use serde_json::{Value, json};
use sqlx::PgPool;

use crate::{
    command::{Command, Ending, Pick, TYPES},
    ending::{Answers, ONCE},
    model::{Model, Phase},
    support::Api,
    wire_format::{EVENT, ending_body, expect_answer},
};

/// Time in the distant future.
pub(crate) const AHEAD: &str = "2099-01-01T00:00:00Z";
pub(crate) type Outcome<T = ()> = Result<T, String>;

/// Assignment that was claimed.
pub(crate) struct ClaimedAssignment {
    pub(crate) id: String,
    item: usize,
    /// Its ending, and the response to its worker.
    ended: Option<Ending>,
    cancelled: bool,
}

/// Server, and its state in the reference.
pub(crate) struct World<'a> {
    pub(crate) api: &'a Api,
    pub(crate) pool: &'a PgPool,
    /// Names of the job types; used by this sequence only while it runs.
    pub(crate) types: &'a [String; TYPES],
    /// Part of every key, so that sequences are independent.
    pub(crate) tag: String,
    pub(crate) model: Model,
    pub(crate) claimed: Vec<ClaimedAssignment>,
    /// Ids of jobs, of items (once seen), and of the roots.
    pub(crate) job_ids: Vec<String>,
    pub(crate) item_ids: Vec<Option<String>>,
    pub(crate) timeout: Duration,
    /// Dedupe keys of roots: type, key and tree.
    pub(crate) dedupe: Vec<(usize, u8, usize)>,
    /// Number of items that were sent with a debounce key.
    pub(crate) arrivals: usize,
    paused: [bool; TYPES],
    caps: [Option<u8>; TYPES],
}

impl<'a> World<'a> {
    pub(crate) fn new(api: &'a Api, pool: &'a PgPool, types: &'a [String; TYPES], timeout: Duration) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let model = Model { serialize_queues: vec![Vec::new(); 2], ..Model::default() };
        Self {
            api,
            pool,
            types,
            tag: format!("s{}", NEXT.fetch_add(1, Ordering::Relaxed)),
            model,
            claimed: Vec::new(),
            job_ids: Vec::new(),
            item_ids: Vec::new(),
            timeout,
            dedupe: Vec::new(),
            arrivals: 0,
            paused: [false; TYPES],
            caps: [None; TYPES],
        }
    }

    /// Resets the job types to the initial state of a sequence.
    pub(crate) async fn make_types(api: &Api, names: &[String; TYPES]) {
        for (at, name) in names.iter().enumerate() {
            let body = match at {
                0 => json!({"steps": ["s0", "s1", "s2"]}),
                ONCE => json!({"steps": ["s0", "s1", "s2"], "delivery": "at_most_once"}),
                _ => json!({}),
            };
            api.put(&format!("/api/v1/job-types/{name}"), body).await.expect(201);
        }
    }

    /// Runs a sequence, then ends its remaining work.
    pub(crate) async fn run(&mut self, commands: &[Command]) -> Outcome {
        for (n, command) in commands.iter().enumerate() {
            let context = |difference: String| format!("command {n}, {command:?}: {difference}");
            self.perform(command).await.map_err(context)?;
            self.model.propagate();
            self.wait_until_equal().await.map_err(context)?;
        }
        self.clean_up().await.map_err(|difference| format!("at the end: {difference}"))
    }

    /// Cancels every tree and ends every assignment: nothing remains for the next sequence.
    async fn clean_up(&mut self) -> Outcome {
        for kind in 0..TYPES as u8 {
            self.perform(&Command::Resume(kind)).await?;
            self.perform(&Command::Cap(kind, None)).await?;
        }
        for tree in 0..self.model.trees.len() {
            let root = self.model.root(tree);
            if self.exists(root) {
                self.cancel_job(root).await?;
                self.model.propagate();
            }
        }
        for at in self.open() {
            self.end(at, Ending::Release { later: false }).await?;
        }
        self.model.propagate();
        self.wait_until_equal().await?;
        self.check_history().await
    }

    async fn perform(&mut self, command: &Command) -> Outcome {
        let jobs: Vec<usize> = (0..self.model.jobs.len()).filter(|&job| self.exists(job)).collect();
        let items: Vec<usize> =
            (0..self.model.items.len()).filter(|&item| self.exists(self.model.items[item].job)).collect();
        match command {
            Command::Create(tree) => self.create(tree).await,
            Command::Pause(kind) => self.set_paused(*kind, true).await,
            Command::Resume(kind) => self.set_paused(*kind, false).await,
            Command::Cap(kind, cap) => {
                let path = format!("/api/v1/job-types/{}", self.types[usize::from(*kind)]);
                expect_answer(&self.api.patch(&path, json!({"concurrency": cap})).await, &vec![None])?;
                self.caps[usize::from(*kind)] = *cap;
                Ok(())
            }
            Command::Claim { types, max } => {
                let body = self.claim_body(*types, *max);
                let answer = self.api.post("/api/v1/assignments", body).await;
                expect_answer(&answer, &vec![None])?;
                self.take(&answer.json()["assignments"], *types, *max, true)
            }
            _ if jobs.is_empty() => Ok(()),
            Command::Add { job, items, seal, skip } => self.add(*job.get(&jobs), items, *seal, *skip).await,
            Command::Seal(job) => {
                let job = *job.get(&jobs);
                let answer = self.api.post(&format!("/api/v1/jobs/{}/seal", self.job_ids[job]), json!({})).await;
                expect_answer(&answer, &self.model.seal(job))
            }
            Command::Delete(job) => self.delete(*job.get(&jobs)).await,
            Command::CancelJob(job) => self.cancel_job(*job.get(&jobs)).await,
            _ if items.is_empty() => Ok(()),
            Command::CancelItem(item) => {
                let item = *item.get(&items);
                let answer = self.api.post(&self.item_path(item, "/cancel"), json!({})).await;
                expect_answer(&answer, &vec![self.model.cancel_item(item)])
            }
            Command::Event { item, data, other } => {
                let item = *item.get(&items);
                let name = if *other { "another" } else { EVENT };
                let answer = self.api.post(&self.item_path(item, "/events"), json!({"name": name, "data": data})).await;
                expect_answer(&answer, &self.model.event(item, *data, *other))
            }
            Command::Retry { item, restart, renew } => {
                let item = *item.get(&items);
                let mut body = json!({"restart": restart});
                if *renew {
                    body["expires_at"] = json!(AHEAD);
                }
                let answer = self.api.post(&self.item_path(item, "/retry"), body).await;
                expect_answer(&answer, &self.model.retry(item, *restart, *renew))
            }
            Command::End(pick, ending) => match self.pick(*pick) {
                Some(at) => self.end(at, *ending).await,
                None => Ok(()),
            },
            Command::Finish { ends, claim } => self.finish(ends, *claim).await,
            Command::Step { of, step, data } => match self.pick(*of) {
                Some(at) => self.step(at, *step, *data).await,
                None => Ok(()),
            },
            Command::Heartbeat { of, progress } => match self.pick(*of) {
                Some(at) => self.heartbeat(at, *progress).await,
                None => Ok(()),
            },
        }
    }

    /// Returns true if the tree of a job was not deleted.
    pub(crate) fn exists(&self, job: usize) -> bool {
        !self.model.trees[self.model.jobs[job].tree].removed
    }

    /// `retention`: a complete tree is deleted at once, and its keys are free.
    async fn delete(&mut self, job: usize) -> Outcome {
        let path = format!("/api/v1/jobs/{}", self.job_ids[job]);
        let answer = self.api.delete(&path).await;
        let (tree, is_root) = (self.model.jobs[job].tree, self.model.jobs[job].parent.is_none());
        if !is_root {
            return expect_answer(&answer, &vec![Some("not_root")]);
        }
        if !self.model.trees[tree].complete {
            return expect_answer(&answer, &vec![Some("job_not_complete")]);
        }
        expect_answer(&answer, &vec![None])?;
        self.model.trees[tree].removed = true;
        self.dedupe.retain(|key| key.2 != tree);
        expect_answer(&self.api.get(&path).await, &vec![Some("job_removed")])
    }

    /// Open assignments.
    fn open(&self) -> Vec<usize> {
        (0..self.claimed.len()).filter(|&at| self.claimed[at].ended.is_none()).collect()
    }

    fn pick(&self, pick: Pick) -> Option<usize> {
        let there = |at: &usize| self.exists(self.model.items[self.claimed[*at].item].job);
        let from: Vec<usize> = if pick.any { (0..self.claimed.len()).filter(there).collect() } else { self.open() };
        (!from.is_empty()).then(|| *pick.at.get(&from))
    }

    fn item_path(&self, item: usize, verb: &str) -> String {
        format!("/api/v1/items/{}{verb}", self.item_ids[item].as_deref().unwrap_or("unseen"))
    }

    async fn set_paused(&mut self, kind: u8, paused: bool) -> Outcome {
        let verb = if paused { "pause" } else { "resume" };
        let path = format!("/api/v1/job-types/{}/{verb}", self.types[usize::from(kind)]);
        expect_answer(&self.api.post(&path, json!({})).await, &vec![None])?;
        self.paused[usize::from(kind)] = paused;
        Ok(())
    }

    async fn cancel_job(&mut self, job: usize) -> Outcome {
        let answer = self.api.post(&format!("/api/v1/jobs/{}/cancel", self.job_ids[job]), json!({})).await;
        expect_answer(&answer, &self.model.cancel(job))
    }

    // ---- Work out --------------------------------------------------------------------------------

    fn claim_body(&self, types: u8, max: u8) -> Value {
        let names: Vec<&String> =
            self.types.iter().enumerate().filter(|(n, _)| types >> n & 1 == 1).map(|(_, name)| name).collect();
        json!({"worker_id": "w", "types": names, "max": max})
    }

    /// Records claimed items: only claimable ones, and as many as exist if `exactly`.
    fn take(&mut self, assignments: &Value, types: u8, max: u8, exactly: bool) -> Outcome {
        let legal: Vec<usize> = (0..self.model.items.len())
            .filter(|&item| {
                let kind = self.model.jobs[self.model.items[item].job].job_type;
                types >> kind & 1 == 1 && !self.paused[kind] && self.model.may_be_claimed(item)
            })
            .collect();
        let kind_of = |world: &Self, item: usize| world.model.jobs[world.model.items[item].job].job_type;
        let free_slots = |world: &Self, kind: usize| {
            world.caps[kind]
                .map_or(usize::MAX, |cap| usize::from(cap).saturating_sub(world.model.open_assignments(kind)))
        };
        let all: usize = (0..TYPES)
            .map(|kind| legal.iter().filter(|&&item| kind_of(self, item) == kind).count().min(free_slots(self, kind)))
            .sum();
        let got = assignments.as_array().ok_or("no assignments in the answer")?;
        if exactly && got.len() != all.min(usize::from(max)) {
            return Err(format!("claimed {} where {} of {legal:?} may be had", got.len(), all.min(usize::from(max))));
        }
        let mut taken_items = Vec::new();
        for assignment in got {
            let id = assignment["item"]["id"].as_str().unwrap_or_default();
            let position = self.item_ids.iter().position(|known_id| known_id.as_deref() == Some(id));
            // One that was fed a moment ago is not known by its id yet: it cannot be had in the same breath.
            let item = position.ok_or_else(|| format!("claimed {id}, which was never seen"))?;
            if !legal.contains(&item) || taken_items.contains(&item) || free_slots(self, kind_of(self, item)) == 0 {
                return Err(format!("claimed item {item}, which is {}", self.model.state(item)));
            }
            taken_items.push(item);
            self.model.assign(item);
            let now = &self.model.items[item];
            let received = (assignment["attempt"].as_u64(), assignment["item"]["failures"].as_u64());
            if received != (Some(now.attempts as u64), Some(now.failures as u64)) {
                return Err(format!("handed out item {item} as attempt and failures {received:?}"));
            }
            let event = &assignment["item"]["event"]["data"];
            if *event != json!(now.event) {
                return Err(format!("handed out item {item} with the event {event} instead of {:?}", now.event));
            }
            let id = assignment["id"].as_str().unwrap_or_default().to_owned();
            self.claimed.push(ClaimedAssignment { id, item, ended: None, cancelled: false });
        }
        // Higher priorities first, within a type.
        for &left in legal.iter().filter(|&item| exactly && !taken_items.contains(item)) {
            let worse = |&&item: &&usize| {
                kind_of(self, item) == kind_of(self, left)
                    && self.model.items[item].priority < self.model.items[left].priority
            };
            if let Some(item) = taken_items.iter().find(worse) {
                return Err(format!("claimed item {item} before item {left}, whose priority is higher"));
            }
        }
        Ok(())
    }

    async fn end(&mut self, at: usize, ending: Ending) -> Outcome {
        let (verb, body) = ending_body(ending);
        let answer = self.api.post(&format!("/api/v1/assignments/{}/{verb}", self.claimed[at].id), body).await;
        let expected = self.ended(at, ending);
        expect_answer(&answer, &expected)
    }

    /// Applies an ending and returns the possible responses to the worker (`fencing`).
    fn ended(&mut self, at: usize, ending: Ending) -> Answers {
        let claimed = &self.claimed[at];
        match claimed.ended {
            None => {
                let cancelled = self.model.items[claimed.item].cancel_requested;
                let (closed, answer) = self.model.end(claimed.item, ending);
                if closed {
                    (self.claimed[at].ended, self.claimed[at].cancelled) = (Some(ending), cancelled);
                }
                vec![answer]
            }
            Some(Ending::Result(_)) if claimed.cancelled && matches!(ending, Ending::Result(_)) => {
                vec![Some("job_cancelled")]
            }
            Some(before) if before == ending => vec![None],
            Some(_) if claimed.cancelled => vec![None, Some("job_cancelled"), Some("assignment_closed")],
            Some(Ending::Release { .. }) if matches!(ending, Ending::Release { .. }) => {
                vec![None, Some("assignment_closed")]
            }
            // The name of the event counts, not its timeout.
            Some(Ending::Wait { .. }) if matches!(ending, Ending::Wait { .. }) => vec![None],
            Some(_) => vec![Some("assignment_closed")],
        }
    }

    async fn finish(&mut self, ends: &[(Index, Ending)], claim: Option<(u8, u8)>) -> Outcome {
        let open = self.open();
        let mut chosen: Vec<(usize, Ending)> = Vec::new();
        for (index, ending) in ends.iter().filter(|_| !open.is_empty()) {
            let at = *index.get(&open);
            if chosen.iter().all(|other| other.0 != at) {
                let ending = match *ending {
                    Ending::Failure { retryable, later, .. } => {
                        Ending::Failure { retryable, later, cancel_tree: false }
                    }
                    Ending::Release { .. } | Ending::Wait { .. } => Ending::Result(None),
                    result @ Ending::Result(_) => result,
                };
                chosen.push((at, ending));
            }
        }
        // In the order in which they were handed out, as several may feed one job.
        chosen.sort_by_key(|&(at, _)| self.claimed[at].id.clone());
        let endings: Vec<Value> = chosen
            .iter()
            .map(|&(at, ending)| {
                let mut body = ending_body(ending).1;
                body["assignment_id"] = json!(self.claimed[at].id);
                body
            })
            .collect();
        let mut body = json!({"endings": endings});
        if let Some((types, max)) = claim {
            body["claim"] = self.claim_body(types, max);
        }
        let answer = self.api.post("/api/v1/assignments/finish", body).await;
        expect_answer(&answer, &vec![None])?;
        let answer = answer.json();
        for (n, &(at, ending)) in chosen.iter().enumerate() {
            let expected = self.ended(at, ending);
            let code = answer["endings"][n]["code"].as_str();
            if !expected.contains(&code) {
                return Err(format!("ending {n} was answered {code:?} instead of {expected:?}"));
            }
        }
        match claim {
            Some((types, max)) => self.take(&answer["assignments"], types, max, false),
            None => Ok(()),
        }
    }

    async fn step(&mut self, at: usize, step: u8, data: u8) -> Outcome {
        let path = format!("/api/v1/assignments/{}/step", self.claimed[at].id);
        let answer = self.api.post(&path, json!({"name": format!("s{step}"), "data": {"n": data}})).await;
        let expected = if self.claimed[at].ended.is_some() {
            vec![Some("assignment_closed"), Some("unknown_step")]
        } else {
            vec![self.model.step(self.claimed[at].item, step, data)]
        };
        expect_answer(&answer, &expected)
    }

    async fn heartbeat(&mut self, at: usize, progress: bool) -> Outcome {
        let body = if progress { json!({"progress": {"done": 1, "total": 2}}) } else { json!({}) };
        let answer = self.api.post(&format!("/api/v1/assignments/{}/heartbeat", self.claimed[at].id), body).await;
        if self.claimed[at].ended.is_some() {
            return expect_answer(&answer, &vec![Some("assignment_closed")]);
        }
        expect_answer(&answer, &vec![None])?;
        let item = &mut self.model.items[self.claimed[at].item];
        item.touched |= progress;
        if answer.json()["cancel"] != json!(item.cancel_requested) || item.phase != Phase::Running {
            return Err(format!("the heartbeat was answered {}", answer.text));
        }
        Ok(())
    }
}
