//! Creation of trees and items in the reference, with the correct answers.
//!
//! Separate from the other actions, because the layout of a tree (parents, dependencies, cycles) is a problem of its
//! own.

use serde_json::{Value, json};

use crate::{
    command::{Feed, NewItem, NewJob, NewTree},
    ending::{Answers, ONCE},
    model::{Job, Tree},
    wire_format::expect_answer,
    world::{AHEAD, Outcome, World},
};

/// Time in the distant past.
const IN_THE_PAST: &str = "2020-01-01T00:00:00Z";
/// Longest pause of a debounced item, in seconds.
const A_WEEK: u32 = 604_800;

/// What becomes of an item that is sent.
enum Arrival {
    Duplicate,
    /// Its payload replaces that of a waiting item.
    Merged {
        into: usize,
        arrival: usize,
    },
    New {
        item: NewItem,
        dedupe: Option<String>,
        arrival: Option<usize>,
    },
}

/// Position of a job in a new tree.
struct JobPosition {
    parent: Option<usize>,
    feed: Option<Feed>,
    after: Vec<usize>,
    sealed: bool,
}

struct TreeLayout {
    positions: Vec<JobPosition>,
    /// True if feeds and `after` together form a cycle.
    has_cycle: bool,
    /// True if two items of one job have the same dedupe key (`dedupe-key`).
    has_duplicates: bool,
}

fn compute_layout(new: &NewTree) -> TreeLayout {
    let n = new.jobs.len();
    let positions: Vec<JobPosition> = (0..n)
        .map(|at| {
            let job = &new.jobs[at];
            let parent = (at > 0).then(|| job.parent.index(at.max(1)));
            let feed = job.feed.filter(|_| at > 0);
            let range = if job.after_backwards { n } else { at };
            let mut after: Vec<usize> =
                if range == 0 { Vec::new() } else { job.after.iter().map(|dep| dep.index(range)).collect() };
            after.retain(|&dep| dep != at);
            after.sort_unstable();
            after.dedup();
            JobPosition { parent, feed, after, sealed: job.sealed && feed.is_none() }
        })
        .collect();
    // What must come before each job; one that comes before itself is in a circle.
    let mut before: Vec<Vec<usize>> = positions
        .iter()
        .map(|position| {
            let mut before = position.after.clone();
            before.extend(position.parent.filter(|_| position.feed.is_some()));
            before
        })
        .collect();
    for _ in 0..n {
        for at in 0..n {
            let further: Vec<usize> = before[at].iter().flat_map(|&dep| before[dep].clone()).collect();
            before[at].extend(further);
            before[at].sort_unstable();
            before[at].dedup();
        }
    }
    let has_cycle = (0..n).any(|at| before[at].contains(&at));
    let has_duplicates = new.jobs.iter().any(|job| {
        let mut keys: Vec<u8> = job.items.iter().filter_map(|item| item.dedupe).collect();
        let all = keys.len();
        keys.sort_unstable();
        keys.dedup();
        keys.len() < all
    });
    TreeLayout { positions, has_cycle, has_duplicates }
}

/// Items of a job that waits for others have no run_after and no debounce here: which of the two holds them first is not
/// tested.
fn without_start_time(item: NewItem, waits: bool) -> NewItem {
    NewItem { later: item.later && !waits, debounce: item.debounce.filter(|_| !waits), ..item }
}

/// Items of one job of a new tree. Only those of its root have debounce keys: the order of arrival among its jobs is not
/// tested.
fn items_of(job: &NewJob, is_root: bool, waits: bool) -> Vec<NewItem> {
    let item = |item: &NewItem| NewItem { debounce: item.debounce.filter(|_| is_root), ..*item };
    job.items.iter().map(item).map(|item| without_start_time(item, waits)).collect()
}

fn feed_rule(feed: Feed, tag: &str) -> Value {
    let mut rule = json!({});
    if feed.each {
        rule["each"] = json!("/result/list");
    }
    if let Some(serialize_queue) = feed.serialize_queue {
        rule["serialize_key"] = json!(format!("{tag}-{serialize_queue}"));
    }
    if feed.dedupe {
        rule["dedupe_key"] = json!("fed");
    }
    rule
}

/// Id of the job with this key in the response to a creation.
fn by_key(tree: &Value, key: &str) -> Option<String> {
    if tree["key"] == key {
        return tree["id"].as_str().map(str::to_owned);
    }
    tree["children"].as_array()?.iter().find_map(|child| by_key(child, key))
}

impl World<'_> {
    fn item_body(&self, item: NewItem, mark: usize) -> Value {
        let mut body = json!({"payload": {"mark": mark}, "priority": item.priority});
        if let Some(serialize_queue) = item.serialize_queue {
            body["serialize_key"] = json!(format!("{}-{serialize_queue}", self.tag));
        }
        if let Some(key) = item.dedupe {
            body["dedupe_key"] = json!(format!("d{key}"));
        }
        if let Some(key) = item.debounce {
            body["debounce"] = json!({"key": format!("{}-{key}", self.tag), "seconds": A_WEEK, "max_seconds": A_WEEK});
            body["payload"]["arrival"] = json!(self.arrivals);
        }
        if item.later {
            body["run_after"] = json!(AHEAD);
        }
        if item.stale {
            body["expires_at"] = json!(IN_THE_PAST);
        }
        body
    }

    /// Decides what becomes of the items of one job, in order, and returns their bodies. `used_keys`: dedupe keys of the job.
    fn plan(&mut self, job_type: usize, items: &[NewItem], mut used_keys: Vec<String>) -> (Vec<Arrival>, Vec<Value>) {
        let (mut arrivals, mut bodies) = (Vec::new(), Vec::new());
        let mut opened: Vec<(u8, usize)> = Vec::new();
        let mut next = self.model.items.len();
        for &item in items {
            let key = item.dedupe.map(|key| format!("d{key}"));
            if key.as_ref().is_some_and(|key| used_keys.contains(key)) {
                bodies.push(self.item_body(item, usize::MAX >> 16));
                arrivals.push(Arrival::Duplicate);
                continue;
            }
            self.arrivals += usize::from(item.debounce.is_some());
            let target = item.debounce.filter(|_| !item.stale).and_then(|key| {
                let of_these = opened.iter().find(|other| other.0 == key).map(|other| other.1);
                of_these.or_else(|| self.model.debounce_target(job_type, key))
            });
            bodies.push(self.item_body(item, target.unwrap_or(next)));
            if let Some(target) = target {
                arrivals.push(Arrival::Merged { into: target, arrival: self.arrivals });
                continue;
            }
            opened.extend(item.debounce.filter(|_| !item.stale).map(|key| (key, next)));
            used_keys.extend(key.clone());
            arrivals.push(Arrival::New { item, dedupe: key, arrival: item.debounce.map(|_| self.arrivals) });
            next += 1;
        }
        (arrivals, bodies)
    }

    /// Adds the planned items in the reference.
    fn arrive(&mut self, job: usize, arrivals: Vec<Arrival>) {
        for arrival in arrivals {
            match arrival {
                Arrival::Duplicate => {}
                Arrival::Merged { into, arrival } => self.model.merge(into, arrival),
                Arrival::New { item, dedupe, arrival } => {
                    // A debounced item waits; one that has expired holds no key.
                    let new = NewItem { later: item.later || (item.debounce.is_some() && !item.stale), ..item };
                    let at = self.model.add(job, new, item.serialize_queue.map(usize::from), dedupe);
                    self.model.items[at].arrival = arrival;
                    let job_type = self.model.jobs[job].job_type;
                    self.model.debounced.extend(item.debounce.filter(|_| !item.stale).map(|key| (job_type, key, at)));
                }
            }
        }
    }

    pub(crate) async fn add(&mut self, job: usize, items: &[NewItem], seal: bool, skip: bool) -> Outcome {
        let used_keys: Vec<String> =
            self.model.items_of(job).filter_map(|item| self.model.items[item].dedupe.clone()).collect();
        let waits = !self.model.jobs[job].after.is_empty();
        let items: Vec<NewItem> = items.iter().map(|item| without_start_time(*item, waits)).collect();
        let (arrivals, bodies) = self.plan(self.model.jobs[job].job_type, &items, used_keys);
        let count = |is: fn(&Arrival) -> bool| arrivals.iter().filter(|arrival| is(arrival)).count();
        let duplicates = count(|arrival| matches!(arrival, Arrival::Duplicate));
        let merged = count(|arrival| matches!(arrival, Arrival::Merged { .. }));
        let also = if skip { "&on_duplicate=skip" } else { "" };
        let path = format!("/api/v1/jobs/{}/items?seal={seal}{also}", self.job_ids[job]);
        let refusals = self.model.refusals_of_items(job, seal, duplicates > 0 && !skip);
        let answer = self.api.post(&path, Value::Array(bodies)).await;
        if !refusals.is_empty() {
            return expect_answer(&answer, &refusals);
        }
        expect_answer(&answer, &vec![None])?;
        self.model.jobs[job].sealed |= seal;
        let expected = json!({"accepted": arrivals.len() - duplicates - merged, "duplicates": duplicates, "merged": merged,
            "sealed": self.model.jobs[job].sealed});
        if answer.json() != expected {
            return Err(format!("added {} instead of {expected}", answer.text));
        }
        self.arrive(job, arrivals);
        Ok(())
    }

    pub(crate) async fn create(&mut self, new: &NewTree) -> Outcome {
        let layout = compute_layout(new);
        let first = self.model.jobs.len();
        let tree = self.model.trees.len();
        let mut mark = self.model.items.len();
        let mut bodies = Vec::new();
        let mut of_root = Vec::new();
        for (at, job) in new.jobs.iter().enumerate() {
            let position = &layout.positions[at];
            let waits = !position.after.is_empty();
            let items: Vec<Value> = if at == 0 {
                let (planned, bodies) = self.plan(job.job_type, &items_of(job, true, waits), Vec::new());
                mark += planned.iter().filter(|arrival| matches!(arrival, Arrival::New { .. })).count();
                of_root = planned;
                bodies
            } else {
                let items = items_of(job, false, waits);
                mark += items.len();
                items.iter().enumerate().map(|(n, item)| self.item_body(*item, mark - items.len() + n)).collect()
            };
            let mut body = json!({"type": self.types[job.job_type], "key": format!("j{at}"), "items": items,
                "sealed": position.sealed, "children": []});
            if let Some(feed) = position.feed {
                body["feed"] = feed_rule(feed, &self.tag);
            }
            if !position.after.is_empty() {
                body["after"] = json!(position.after.iter().map(|dep| format!("j{dep}")).collect::<Vec<_>>());
                body["after_outcome"] = json!(if job.after_any { "any" } else { "succeeded" });
            }
            if let Some(max) = job.max_failures.filter(|_| job.job_type != ONCE) {
                body["max_failures"] = json!(max);
            }
            bodies.push(body);
        }
        if let Some(key) = new.dedupe {
            bodies[0]["dedupe_key"] = json!(format!("{}-{key}", self.tag));
        }
        // Children stand behind their parents: put together from the end.
        for at in (1..bodies.len()).rev() {
            let parent = layout.positions[at].parent.unwrap_or(0);
            let child = bodies.remove(at);
            bodies[parent]["children"].as_array_mut().expect("a list").insert(0, child);
        }
        let root_key = new.dedupe.map(|key| (new.jobs[0].job_type, key));
        let mut refusals: Answers = Vec::new();
        if layout.has_cycle {
            refusals.push(Some("cycle"));
        }
        if layout.has_duplicates
            || root_key.is_some_and(|key| self.dedupe.iter().any(|other| (other.0, other.1) == key))
        {
            refusals.push(Some("duplicate"));
        }
        let answer = self.api.post("/api/v1/jobs", bodies.remove(0)).await;
        if !refusals.is_empty() {
            return expect_answer(&answer, &refusals);
        }
        if answer.status != 201 {
            return Err(format!("{} {}", answer.status, answer.text));
        }
        self.dedupe.extend(root_key.map(|(job_type, key)| (job_type, key, tree)));
        let root = answer.json();
        for (at, job) in new.jobs.iter().enumerate() {
            let position = &layout.positions[at];
            let budget = job.max_failures.map_or(3, usize::from);
            self.model.jobs.push(Job {
                tree,
                job_type: job.job_type,
                parent: position.parent.map(|parent| first + parent),
                feed: position.feed,
                after: position.after.iter().map(|dep| first + dep).collect(),
                after_any: job.after_any,
                max_failures: if job.job_type == ONCE { 1 } else { budget },
                sealed: position.sealed,
                sealed_by_feed: false,
                cancelled: false,
                complete: false,
                unblocked: position.after.is_empty(),
                after_failed: false,
                started: false,
                reopened: false,
                ended: false,
                cancel_requested: false,
            });
            let id = by_key(&root, &format!("j{at}")).ok_or("a job is missing in the answer")?;
            self.job_ids.push(id);
        }
        self.model.trees.push(Tree::default());
        self.arrive(first, of_root);
        for (at, job) in new.jobs.iter().enumerate().skip(1) {
            for item in items_of(job, false, !layout.positions[at].after.is_empty()) {
                let key = item.dedupe.map(|key| format!("d{key}"));
                self.model.add(first + at, item, item.serialize_queue.map(usize::from), key);
            }
        }
        Ok(())
    }
}
