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

const STATES: [&str; 9] =
    ["available", "running", "retryable", "scheduled", "blocked", "succeeded", "dead", "cancelled", "expired"];

impl World<'_> {
    /// Waits until all readable state equals the reference.
    pub(crate) async fn agree(&mut self) -> Outcome {
        let begin = Instant::now();
        for tree in (0..self.model.trees.len()).filter(|&tree| !self.model.trees[tree].removed).collect::<Vec<_>>() {
            let root = self.job_ids[self.model.root(tree)].clone();
            let mut version = None;
            loop {
                let difference = match self.look(tree, &root, version).await {
                    Ok(()) => break,
                    Err((difference, seen)) => {
                        version = seen;
                        difference
                    }
                };
                if begin.elapsed() > self.patience {
                    return Err(difference);
                }
            }
        }
        self.model.joined.clear();
        Ok(())
    }

    /// Compares a tree once, after something newer than `version` or after one second.
    async fn look(&mut self, tree: usize, root: &str, version: Option<i64>) -> Result<(), (String, Option<i64>)> {
        let path = format!("/api/v1/jobs/{root}");
        let shown = match version {
            None => self.api.get(&path).await,
            Some(version) => {
                let request = self.api.request(reqwest::Method::GET, &format!("{path}?wait_seconds=1"));
                crate::support::Answer::of(request.header("if-none-match", format!("\"{version}\""))).await
            }
        };
        let shown = if shown.status == 304 { self.api.get(&path).await } else { shown };
        let job = shown.json();
        let version = job["version"].as_i64();
        let list = self.api.get(&format!("/api/v1/items?root={root}&limit=1000")).await;
        if shown.status != 200 || list.status != 200 {
            return Err((format!("{} {} {}", shown.status, list.status, list.text), version));
        }
        let items = list.json()["data"].as_array().cloned().unwrap_or_default();
        let compared = match self.recognise(tree, &items) {
            Ok(()) => self.adopt_lanes().await.and_then(|()| self.compare(tree, &job, &items)),
            Err(difference) => Err(difference),
        };
        compared.map_err(|difference| (difference, version))
    }

    /// Finds the ids of new items: by their mark, or by the item that fed them, in order.
    fn recognise(&mut self, tree: usize, items: &[Value]) -> Outcome {
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
                let known = &self.model.items[at];
                let same = match known.source {
                    Some(_) => known.source == source,
                    None => mark == Some(at as u64),
                };
                same && Some(known.job) == job && self.item_ids[at].is_none()
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
    async fn adopt_lanes(&mut self) -> Outcome {
        for lane in 0..self.model.lanes.len() {
            let joined: Vec<usize> = self.model.joined.iter().filter(|j| j.0 == lane).map(|j| j.1).collect();
            let mut jobs: Vec<usize> = joined.iter().map(|&at| self.model.items[at].job).collect();
            jobs.sort_unstable();
            jobs.dedup();
            // Items of a tree that was not looked at yet are not known by their ids.
            if jobs.len() < 2 || joined.iter().any(|&at| self.item_ids[at].is_none()) {
                continue;
            }
            let key = format!("{}-{lane}", self.tag);
            let order: Vec<(String,)> = sqlx::query_as(
                "select e.item_id::text from lane_entry e join lane l on l.id = e.lane_id where l.key = $1 order by e.pos",
            )
            .bind(&key)
            .fetch_all(self.pool)
            .await
            .map_err(|error| error.to_string())?;
            let place = |at: usize| {
                let id = self.item_ids[at].clone().unwrap_or_default();
                order.iter().position(|row| row.0 == id).ok_or(format!("item {at} is not in lane {lane}"))
            };
            let (old, mut new): (Vec<usize>, Vec<usize>) =
                self.model.lanes[lane].iter().partition(|at| !joined.contains(at));
            let mut places = HashMap::new();
            for &at in &new {
                places.insert(at, place(at)?);
            }
            new.sort_by_key(|at| places[at]);
            for &job in &jobs {
                if !new.iter().filter(|&&at| self.model.items[at].job == job).is_sorted() {
                    return Err(format!("lane {lane} is out of order in job {job}: {new:?}"));
                }
            }
            self.model.lanes[lane] = old.into_iter().chain(new).collect();
        }
        Ok(())
    }

    fn compare(&self, tree: usize, root: &Value, items: &[Value]) -> Outcome {
        for shown in items {
            let Some(at) = self.item_ids.iter().position(|id| shown["id"] == json!(id)) else { continue };
            let item = &self.model.items[at];
            let step = item.step.map(|(name, data)| json!({"name": format!("s{name}"), "data": {"n": data}}));
            let right = json!({
                "state": self.model.state(at),
                "attempts": item.attempts,
                "failures": item.failures,
                "priority": item.priority,
                "step": step,
                "dedupe_key": item.dedupe,
            });
            for (field, value) in right.as_object().into_iter().flatten() {
                if shown[field] != *value {
                    return Err(format!("item {at}: {field} is {} instead of {value}: {item:?}", shown[field]));
                }
            }
            let asked = item.phase == Phase::Running && item.cancel_asked;
            if item.phase == Phase::Running && shown["cancel_requested_at"].is_string() != asked {
                return Err(format!("item {at}: cancel_requested_at is {}", shown["cancel_requested_at"]));
            }
        }
        self.compare_job(tree, root)
    }

    fn compare_job(&self, tree: usize, shown: &Value) -> Outcome {
        let id = shown["id"].as_str().unwrap_or_default();
        let at = self.job_ids.iter().position(|job| job == id).ok_or(format!("a job that should not be: {shown}"))?;
        let model = &self.model;
        let below = model.subtree(at);
        let is_root = model.jobs[at].parent.is_none();
        let wrong = |field: &str, shown: &Value, right: &str| {
            Err(format!("job {at}: {field} is {shown} instead of {right}: {:?}", model.jobs[at]))
        };
        for (field, shown, jobs) in
            [("counts", &shown["counts"], vec![at]), ("tree.counts", &shown["tree"]["counts"], below.clone())]
        {
            let right = counts(model, &jobs);
            if *shown != right {
                return wrong(field, shown, &right.to_string());
            }
        }
        if shown["sealed"] != model.jobs[at].sealed {
            return wrong("sealed", &shown["sealed"], "the other");
        }
        let own = status(model, &[at], model.jobs[at].cancelled);
        if !own.iter().any(|word| shown["status"] == *word) {
            return wrong("status", &shown["status"], &format!("{own:?}"));
        }
        let cancelled = model.jobs[at].cancelled || (is_root && model.trees[tree].cancelled);
        let mut whole = status(model, &below, cancelled);
        if !is_root && model.jobs[at].cancel_asked && !cancelled {
            whole.push("cancelling");
        }
        if !whole.iter().any(|word| shown["tree"]["status"] == *word) {
            return wrong("tree.status", &shown["tree"]["status"], &format!("{whole:?}"));
        }
        let outcome = |jobs: &[usize], cancelled: bool| {
            let complete = jobs.iter().all(|&job| model.jobs[job].complete);
            if complete { json!(model.outcome(jobs, cancelled)) } else { Value::Null }
        };
        // A job that was complete when one above it was cancelled may keep its outcome (`completion`).
        let lenient = |jobs: &[usize], shown: &Value| model.jobs[at].cancel_asked && *shown == outcome(jobs, true);
        if shown["outcome"] != outcome(&[at], model.jobs[at].cancelled) && !lenient(&[at], &shown["outcome"]) {
            return wrong("outcome", &shown["outcome"], &outcome(&[at], model.jobs[at].cancelled).to_string());
        }
        let told = &shown["tree"]["outcome"];
        if *told != outcome(&below, cancelled) && (is_root || !lenient(&below, told)) {
            return wrong("tree.outcome", told, &outcome(&below, cancelled).to_string());
        }
        if is_root && shown["completion"] != model.trees[tree].completion {
            return wrong("completion", &shown["completion"], &model.trees[tree].completion.to_string());
        }
        for child in shown["children"].as_array().into_iter().flatten() {
            self.compare_job(tree, child)?;
        }
        Ok(())
    }

    /// Final check: the history of every item, and the invariants of the tables.
    pub(crate) async fn look_back(&self) -> Outcome {
        for (at, item) in self.model.items.iter().enumerate() {
            let Some(id) = &self.item_ids[at] else { continue };
            if item.attempts == 0 || !self.is_there(item.job) {
                continue;
            }
            let shown = self.api.get(&format!("/api/v1/items/{id}/attempts")).await.json();
            let ends: Vec<&str> =
                shown["data"].as_array().into_iter().flatten().filter_map(|a| a["ended_as"].as_str()).collect();
            if ends != item.ended_as {
                return Err(format!("item {at}: attempts ended as {ends:?} instead of {:?}", item.ended_as));
            }
        }
        let there = (0..self.model.trees.len()).filter(|&tree| !self.model.trees[tree].removed);
        let roots: Vec<String> = there.map(|tree| self.job_ids[self.model.root(tree)].clone()).collect();
        invariants::hold(self.pool, Some(&roots), self.patience).await
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
        model.jobs[job].started || model.jobs[job].reopened || model.items_of(job).any(|item| model.is_over(item))
    }) {
        vec!["running"]
    } else if any(&|job| model.jobs[job].ended) {
        vec!["running", "waiting"]
    } else {
        vec!["waiting"]
    }
}
