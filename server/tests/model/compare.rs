//! Comparison of the server's state with the reference, until they are equal.
//!
//! Some changes follow a command with a delay (due items, propagation), so a difference counts only if it persists.
//! Waits are long polls for a newer version, never a fixed time.

use std::{collections::HashMap, time::Instant};

use serde_json::{Value, json};

use crate::{
    model::{Model, Phase},
    support::invariants,
    world::{Outcome, World},
};

const STATES: [&str; 10] = [
    "available",
    "running",
    "retryable",
    "scheduled",
    "blocked",
    "waiting_for_event",
    "succeeded",
    "dead",
    "cancelled",
    "expired",
];

impl World<'_> {
    /// Waits until all readable state equals the reference.
    pub(crate) async fn wait_until_equal(&mut self) -> Outcome {
        let begin = Instant::now();
        for tree in (0..self.model.trees.len()).filter(|&tree| !self.model.trees[tree].removed).collect::<Vec<_>>() {
            let root = self.job_ids[self.model.root(tree)].clone();
            let mut version = None;
            loop {
                let difference = match self.compare_tree(tree, &root, version).await {
                    Ok(()) => break,
                    Err((difference, seen)) => {
                        version = seen;
                        difference
                    }
                };
                if begin.elapsed() > self.timeout {
                    return Err(difference);
                }
            }
        }
        self.model.joined.clear();
        Ok(())
    }

    /// Compares a tree once, after something newer than `version` or after one second.
    async fn compare_tree(
        &mut self,
        tree: usize,
        root: &str,
        version: Option<i64>,
    ) -> Result<(), (String, Option<i64>)> {
        let path = format!("/api/v1/jobs/{root}");
        let actual = match version {
            None => self.api.get(&path).await,
            Some(version) => {
                let request = self.api.request(reqwest::Method::GET, &format!("{path}?wait_seconds=1"));
                crate::support::Answer::of(request.header("if-none-match", format!("\"{version}\""))).await
            }
        };
        let actual = if actual.status == 304 { self.api.get(&path).await } else { actual };
        let job = actual.json();
        let version = job["version"].as_i64();
        let list = self.api.get(&format!("/api/v1/items?root={root}&limit=1000")).await;
        if actual.status != 200 || list.status != 200 {
            return Err((format!("{} {} {}", actual.status, list.status, list.text), version));
        }
        let items = list.json()["data"].as_array().cloned().unwrap_or_default();
        let compared = match self.match_new_items(tree, &items) {
            Ok(()) => self.adopt_queue_order().await.and_then(|()| self.compare(tree, &job, &items)),
            Err(difference) => Err(difference),
        };
        compared.map_err(|difference| (difference, version))
    }

    /// Finds the ids of new items: by their mark, or by the item that fed them, in order.
    fn match_new_items(&mut self, tree: usize, items: &[Value]) -> Outcome {
        self.item_ids.resize(self.model.items.len(), None);
        let mut by_id: HashMap<String, usize> = HashMap::new();
        for (at, id) in self.item_ids.iter().enumerate() {
            if let Some(id) = id {
                by_id.insert(id.clone(), at);
            }
        }
        for item in items {
            let id = item["id"].as_str().unwrap_or_default();
            if by_id.contains_key(id) {
                continue;
            }
            let job = self.job_ids.iter().position(|job| item["job_id"] == json!(job));
            let source = item["fed_by"].as_str().and_then(|source| by_id.get(source).copied());
            let mark = item["payload"]["mark"].as_u64().filter(|_| item["fed_by"].is_null());
            let found = (0..self.model.items.len()).find(|&at| {
                let candidate = &self.model.items[at];
                let same = match candidate.source {
                    Some(_) => candidate.source == source,
                    None => mark == Some(at as u64),
                };
                same && Some(candidate.job) == job && self.item_ids[at].is_none()
            });
            let at = found.ok_or_else(|| format!("an item that should not be: {item}"))?;
            self.item_ids[at] = Some(id.to_owned());
            by_id.insert(id.to_owned(), at);
        }
        let missing = (0..self.model.items.len()).find(|&at| self.item_ids[at].is_none() && self.tree_of(at) == tree);
        missing.map_or(Ok(()), |at| Err(format!("item {at} is missing: {:?}", self.model.items[at])))
    }

    fn tree_of(&self, item: usize) -> usize {
        self.model.jobs[self.model.items[item].job].tree
    }

    /// If items of several jobs joined a serialize queue at the same moment, any order among the jobs is correct:
    /// adopts the server's. Within a job it is the order of acceptance.
    async fn adopt_queue_order(&mut self) -> Outcome {
        for serialize_queue in 0..self.model.serialize_queues.len() {
            let joined: Vec<usize> = self.model.joined.iter().filter(|j| j.0 == serialize_queue).map(|j| j.1).collect();
            let mut jobs: Vec<usize> = joined.iter().map(|&at| self.model.items[at].job).collect();
            jobs.sort_unstable();
            jobs.dedup();
            // Items of a tree that was not looked at yet are not known by their ids.
            if jobs.len() < 2 || joined.iter().any(|&at| self.item_ids[at].is_none()) {
                continue;
            }
            let key = format!("{}-{serialize_queue}", self.tag);
            let order: Vec<(String,)> = sqlx::query_as(
                "select e.item_id::text from serialize_queue_entry e join serialize_queue l on l.id = e.serialize_queue_id where l.key = $1 order by e.position",
            )
            .bind(&key)
            .fetch_all(self.pool)
            .await
            .map_err(|error| error.to_string())?;
            let place = |at: usize| {
                let id = self.item_ids[at].clone().unwrap_or_default();
                order
                    .iter()
                    .position(|row| row.0 == id)
                    .ok_or(format!("item {at} is not in serialize queue {serialize_queue}"))
            };
            let (old, mut new): (Vec<usize>, Vec<usize>) =
                self.model.serialize_queues[serialize_queue].iter().partition(|at| !joined.contains(at));
            let mut places = HashMap::new();
            for &at in &new {
                places.insert(at, place(at)?);
            }
            new.sort_by_key(|at| places[at]);
            for &job in &jobs {
                if !new.iter().filter(|&&at| self.model.items[at].job == job).is_sorted() {
                    return Err(format!("serialize queue {serialize_queue} is out of order in job {job}: {new:?}"));
                }
            }
            self.model.serialize_queues[serialize_queue] = old.into_iter().chain(new).collect();
        }
        Ok(())
    }

    fn compare(&self, tree: usize, root: &Value, items: &[Value]) -> Outcome {
        for actual in items {
            let Some(at) = self.item_ids.iter().position(|id| actual["id"] == json!(id)) else { continue };
            let item = &self.model.items[at];
            let step = item.step.map(|(name, data)| json!({"name": format!("s{name}"), "data": {"n": data}}));
            let expected = json!({
                "state": self.model.state(at),
                "attempts": item.attempts,
                "failures": item.failures,
                "priority": item.priority,
                "step": step,
                "dedupe_key": item.dedupe,
            });
            if let Some(arrival) = item.arrival
                && actual["payload"] != json!({"mark": at, "arrival": arrival})
            {
                return Err(format!("item {at}: the payload is {} instead of that of {arrival}", actual["payload"]));
            }
            for (field, value) in expected.as_object().into_iter().flatten() {
                if actual[field] != *value {
                    return Err(format!("item {at}: {field} is {} instead of {value}: {item:?}", actual[field]));
                }
            }
            let is_requested = item.phase == Phase::Running && item.cancel_requested;
            if item.phase == Phase::Running && actual["cancel_requested_at"].is_string() != is_requested {
                return Err(format!("item {at}: cancel_requested_at is {}", actual["cancel_requested_at"]));
            }
        }
        self.compare_job(tree, root)
    }

    fn compare_job(&self, tree: usize, actual: &Value) -> Outcome {
        let id = actual["id"].as_str().unwrap_or_default();
        let at = self.job_ids.iter().position(|job| job == id).ok_or(format!("a job that should not be: {actual}"))?;
        let model = &self.model;
        let below = model.subtree(at);
        let is_root = model.jobs[at].parent.is_none();
        let mismatch = |field: &str, actual: &Value, expected: &str| {
            Err(format!("job {at}: {field} is {actual} instead of {expected}: {:?}", model.jobs[at]))
        };
        for (field, actual, jobs) in
            [("counts", &actual["counts"], vec![at]), ("tree.counts", &actual["tree"]["counts"], below.clone())]
        {
            let expected = counts(model, &jobs);
            if *actual != expected {
                return mismatch(field, actual, &expected.to_string());
            }
        }
        if actual["sealed"] != model.jobs[at].sealed {
            return mismatch("sealed", &actual["sealed"], "the other");
        }
        let job_statuses = status(model, &[at], model.jobs[at].cancelled);
        if !job_statuses.iter().any(|word| actual["status"] == *word) {
            return mismatch("status", &actual["status"], &format!("{job_statuses:?}"));
        }
        let cancelled = model.jobs[at].cancelled || (is_root && model.trees[tree].cancelled);
        let mut tree_statuses = status(model, &below, cancelled);
        if !is_root && model.jobs[at].cancel_requested && !cancelled {
            tree_statuses.push("cancelling");
        }
        if !tree_statuses.iter().any(|word| actual["tree"]["status"] == *word) {
            return mismatch("tree.status", &actual["tree"]["status"], &format!("{tree_statuses:?}"));
        }
        let outcome = |jobs: &[usize], cancelled: bool| {
            let complete = jobs.iter().all(|&job| model.jobs[job].complete);
            if complete { json!(model.outcome(jobs, cancelled)) } else { Value::Null }
        };
        // A job that was complete when one above it was cancelled may keep its outcome (`completion`).
        let lenient =
            |jobs: &[usize], actual: &Value| model.jobs[at].cancel_requested && *actual == outcome(jobs, true);
        if actual["outcome"] != outcome(&[at], model.jobs[at].cancelled) && !lenient(&[at], &actual["outcome"]) {
            return mismatch("outcome", &actual["outcome"], &outcome(&[at], model.jobs[at].cancelled).to_string());
        }
        let tree_outcome = &actual["tree"]["outcome"];
        if *tree_outcome != outcome(&below, cancelled) && (is_root || !lenient(&below, tree_outcome)) {
            return mismatch("tree.outcome", tree_outcome, &outcome(&below, cancelled).to_string());
        }
        if is_root && actual["completion"] != model.trees[tree].completion {
            return mismatch("completion", &actual["completion"], &model.trees[tree].completion.to_string());
        }
        for child in actual["children"].as_array().into_iter().flatten() {
            self.compare_job(tree, child)?;
        }
        Ok(())
    }

    /// Final check: the history of every item, and the invariants of the tables.
    pub(crate) async fn check_history(&self) -> Outcome {
        for (at, item) in self.model.items.iter().enumerate() {
            let Some(id) = &self.item_ids[at] else { continue };
            if item.attempts == 0 || !self.exists(item.job) {
                continue;
            }
            let actual = self.api.get(&format!("/api/v1/items/{id}/attempts")).await.json();
            let ends: Vec<&str> =
                actual["data"].as_array().into_iter().flatten().filter_map(|a| a["ended_as"].as_str()).collect();
            if ends != item.ended_as {
                return Err(format!("item {at}: attempts ended as {ends:?} instead of {:?}", item.ended_as));
            }
        }
        let there = (0..self.model.trees.len()).filter(|&tree| !self.model.trees[tree].removed);
        let roots: Vec<String> = there.map(|tree| self.job_ids[self.model.root(tree)].clone()).collect();
        invariants::check(self.pool, Some(&roots), self.timeout).await
    }
}

fn counts(model: &Model, jobs: &[usize]) -> Value {
    let states: Vec<&str> = jobs.iter().flat_map(|&job| model.items_of(job)).map(|item| model.state(item)).collect();
    let n = |state: &str| states.iter().filter(|other| **other == state).count();
    Value::Object(STATES.iter().map(|state| ((*state).to_owned(), json!(n(state)))).collect())
}

/// `job-status`. Several values if the rule leaves it open: all ended items were retried.
fn status(model: &Model, jobs: &[usize], cancelled: bool) -> Vec<&'static str> {
    let any = |is: &dyn Fn(usize) -> bool| jobs.iter().any(|&job| is(job));
    if !any(&|job| !model.jobs[job].complete) {
        vec!["completed"]
    } else if cancelled {
        vec!["cancelling"]
    } else if any(&|job| {
        model.jobs[job].started || model.jobs[job].reopened || model.items_of(job).any(|item| model.is_final(item))
    }) {
        vec!["running"]
    } else if any(&|job| model.jobs[job].ended) {
        vec!["running", "waiting"]
    } else {
        vec!["waiting"]
    }
}
