//! New trees: checked as a whole, written in one transaction, with the items that came along.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use domain::{
    Code, Problem,
    api::{JobUpload, NewItem, NewJob},
    id::{is_key, is_name},
    item::MaxFailures,
    job_type::Delivery,
    problem::FieldProblem,
};
use uuid::Uuid;

use crate::{
    auth::{Caller, Scope},
    error::{Error, Result},
    split::Head,
    store::{
        contracts::{JobInfo, TypeInfo},
        gates::{self, NewGate},
        jobs::{self, NewJobRow, NewSplit},
    },
};

use super::{
    Core, Engine,
    add::{self, AddCommand},
};

/// Jobs of one tree, at most.
const MAX_JOBS: usize = 1_000;
/// Items in one body, at most.
const MAX_ITEMS: usize = 10_000;

/// A job of the tree to be created, in order: parents before their children.
struct Node {
    new: NewJob,
    pointer: String,
    parent: Option<usize>,
    key: String,
    info: Arc<TypeInfo>,
    head: Option<(JobUpload, Head)>,
}

impl Engine {
    /// Creates a tree and returns its root's id.
    pub async fn create_job(&self, caller: &Caller, new: NewJob) -> Result<Uuid> {
        caller.require(Scope::JobsWrite)?;
        if let Some(name) = self.unknown_type(&new) {
            self.types().find(&name).await?;
        }
        let mut nodes = self.0.core.plan(new)?;
        for node in &mut nodes {
            if let Some(upload) = node.new.upload.clone() {
                let core = &self.0.core;
                let head = crate::uploads::read_head(&core.pools.read, &core.files, caller, &upload).await?;
                node.head = Some((upload, head));
            }
        }
        let core = Arc::clone(&self.0.core);
        let caller = caller.clone();
        // A task of its own: a client that goes away cannot leave a transaction open.
        tokio::spawn(async move { core.write_tree(&caller, nodes).await })
            .await
            .map_err(|e| Error::Broken(e.to_string()))?
    }
}

impl Engine {
    /// The first type in a tree that this server has not heard of.
    fn unknown_type(&self, job: &NewJob) -> Option<String> {
        if self.types().get(&job.job_type).is_none() {
            return Some(job.job_type.clone());
        }
        job.children.iter().find_map(|child| self.unknown_type(child))
    }
}

impl Core {
    /// Checks a tree and lays it out, parents first.
    fn plan(&self, root: NewJob) -> Result<Vec<Node>, Problem> {
        let mut nodes: Vec<Node> = Vec::new();
        let mut faults: Vec<(String, String)> = Vec::new();
        let mut open = vec![(root, String::new(), None)];
        let mut keys: HashSet<String> = HashSet::new();
        while let Some((mut new, pointer, parent)) = open.pop() {
            if nodes.len() == MAX_JOBS {
                return Err(Problem::new(Code::TooLarge, format!("A tree has at most {MAX_JOBS} jobs.")));
            }
            let info = self.types.get(&new.job_type).ok_or_else(|| Problem {
                errors: vec![FieldProblem {
                    pointer: format!("{pointer}/type"),
                    detail: "expected the name of a job type".to_owned(),
                }],
                ..Problem::new(Code::UnknownJobType, format!("There is no job type {:?}.", new.job_type))
            })?;
            let at = nodes.len();
            let children = std::mem::take(&mut new.children);
            // Popped from the end: reversed, so that children keep their order.
            for (n, child) in children.into_iter().enumerate().rev() {
                open.push((child, format!("{pointer}/children/{n}"), Some(at)));
            }
            check(&new, &info, &pointer, parent.is_none(), &mut faults);
            let key = match &new.key {
                Some(key) if !keys.insert(key.clone()) => {
                    faults.push((format!("{pointer}/key"), "expected a key of its own within the tree".to_owned()));
                    key.clone()
                }
                Some(key) => key.clone(),
                None => free_key(&new.job_type, &mut keys),
            };
            nodes.push(Node { new, pointer, parent, key, info, head: None });
        }
        let items: usize = nodes.iter().map(|node| node.new.items.len()).sum();
        if items > MAX_ITEMS {
            return Err(Problem::new(
                Code::TooLarge,
                format!("A body has at most {MAX_ITEMS} items; stream more to /jobs/{{id}}/items."),
            ));
        }
        if faults.is_empty() { Ok(nodes) } else { Err(Problem::invalid_body(faults)) }
    }

    async fn write_tree(self: &Arc<Self>, caller: &Caller, nodes: Vec<Node>) -> Result<Uuid> {
        let root_id = nodes[0].new.id.unwrap_or_else(Uuid::now_v7);
        let solo = nodes.len() == 1;
        let from_file = nodes.iter().any(|node| node.head.is_some());
        let mut tx = self.pools.hot.begin().await?;
        let gate_ids = gates::reserve(&mut tx, nodes.len() as i64).await?;
        let gates: Vec<NewGate> = gate_ids
            .iter()
            .enumerate()
            .map(|(at, &gate_id)| NewGate {
                gate_id,
                solo,
                open_jobs: if at == 0 { nodes.len() as i32 } else { 0 },
                after_open: 0,
            })
            .collect();
        gates::insert(&mut tx, root_id, &gates).await?;

        let mut ids: Vec<Uuid> = Vec::with_capacity(nodes.len());
        let mut turn_gates: HashMap<i32, i64> = HashMap::new();
        let mut commands = Vec::with_capacity(nodes.len());
        for (at, node) in nodes.into_iter().enumerate() {
            let id = if at == 0 { root_id } else { node.new.id.unwrap_or_else(Uuid::now_v7) };
            ids.push(id);
            let turn_gate_id = *turn_gates.entry(node.info.id).or_insert(gate_ids[at]);
            let row = job_row(&node, id, root_id, caller.owner_id, (gate_ids[at], turn_gate_id), at, &ids);
            insert_job(&mut tx, &row).await?;
            if let Some((upload, head)) = &node.head {
                insert_split(&mut tx, &row, upload, head).await?;
            }
            let job = Arc::new(job_info(&row, &node.info));
            let items: Vec<NewItem> = node.new.items;
            let items = self.prepare(&job, items, &format!("{}/items", node.pointer))?;
            // A job that is filled from a file is sealed at the file's end.
            let seal = node.new.sealed && node.head.is_none();
            if seal || !items.is_empty() {
                commands.push(AddCommand { job, items, seal, on_duplicate: add::OnDuplicate::Refuse, place: None });
            }
        }
        let added = if commands.is_empty() {
            None
        } else {
            Some(add::add(self, &mut tx, &commands.iter().collect::<Vec<_>>()).await?)
        };
        tx.commit().await?;
        if let Some(added) = added {
            added.after_commit(self).await;
        }
        if from_file {
            self.split_asked.notify_one();
        }
        self.hub.touch(&[root_id]);
        Ok(root_id)
    }
}

/// Everything about one job that can be checked without the rest of its tree.
fn check(new: &NewJob, info: &TypeInfo, pointer: &str, is_root: bool, faults: &mut Vec<(String, String)>) {
    let mut say = |field: &str, detail: &str| faults.push((format!("{pointer}/{field}"), detail.to_owned()));
    if new.key.as_ref().is_some_and(|key| !is_name(key)) {
        say("key", "expected [a-z0-9][a-z0-9._-]{0,99}");
    }
    if new.name.as_ref().is_some_and(|name| name.len() > 1_000 || name.contains('\0')) {
        say("name", "expected at most 1000 bytes without NUL");
    }
    if new.initiated_by.as_ref().is_some_and(|name| !is_key(name)) {
        say("initiated_by", "expected 1 to 255 characters");
    }
    if new.priority.is_some_and(|p| !(-100..=100).contains(&p)) {
        say("priority", "expected a whole number from -100 to 100");
    }
    if new.expected_count.is_some_and(|n| n < 0) {
        say("expected_count", "expected a whole number from 0");
    }
    if info.delivery == Delivery::AtMostOnce && new.max_failures.is_some_and(|m| m != MaxFailures::AtMost(1)) {
        say("max_failures", "expected 1, as the type's delivery is at_most_once");
    }
    if new.metadata.as_ref().is_some_and(|m| !m.text().trim_start().starts_with('{')) {
        say("metadata", "expected an object");
    }
    if new.upload.is_some() && !new.items.is_empty() {
        say("upload", "expected either upload or items");
    }
    if let Some(upload) = &new.upload
        && upload.delimiter.as_ref().is_some_and(|d| crate::split::Want::delimiter(d).is_none())
    {
        say("upload/delimiter", "expected one ASCII character other than a quote or a line end");
    }
    for (field, given) in [
        ("dedupe_key", new.dedupe_key.is_some()),
        ("after", !new.after.is_empty() || new.after_outcome.is_some()),
        ("feed", new.feed.is_some()),
        ("on_completed", new.on_completed.is_some()),
    ] {
        if given {
            say(field, "not in this version");
        }
    }
    if !is_root && (new.initiated_by.is_some() || new.on_completed.is_some()) {
        say("initiated_by", "expected on the root only");
    }
}

/// The type's name, or the first of `type-2`, `type-3` … that is free.
fn free_key(job_type: &str, keys: &mut HashSet<String>) -> String {
    let mut key = job_type.to_owned();
    let mut n = 2;
    while !keys.insert(key.clone()) {
        key = format!("{job_type}-{n}");
        n += 1;
    }
    key
}

fn job_row(
    node: &Node,
    id: Uuid,
    root_id: Uuid,
    owner_id: Uuid,
    (gate_id, turn_gate_id): (i64, i64),
    ord: usize,
    ids: &[Uuid],
) -> NewJobRow {
    let (new, info) = (&node.new, &node.info);
    NewJobRow {
        id,
        root_id,
        gate_id,
        ord: ord as i32,
        parent_id: node.parent.map(|at| ids[at]),
        owner_id,
        type_id: info.id,
        key: node.key.clone(),
        name: new.name.clone(),
        delivery: info.delivery.as_str(),
        max_failures: new.max_failures.unwrap_or(info.max_failures).to_stored(),
        steps: info.steps.clone(),
        payload_schema: info.payload_schema.clone(),
        retain_seconds: info.retain_seconds,
        priority: new.priority.unwrap_or(0),
        run_after: new.run_after.map(|at| at.0),
        expires_at: new.expires_at.map(|at| at.0),
        expected_count: new.expected_count.or_else(|| node.head.as_ref().map(|(_, head)| head.rows)),
        final_stage: new.final_stage,
        metadata: new.metadata.as_ref().map_or_else(|| "{}".to_owned(), |m| m.text().to_owned()),
        initiated_by: new.initiated_by.clone(),
        on_completed: None,
        upload_id: new.upload.as_ref().map(|upload| upload.id),
        turn_gate_id,
    }
}

fn job_info(row: &NewJobRow, info: &TypeInfo) -> JobInfo {
    JobInfo {
        gate_id: row.gate_id,
        turn_gate_id: row.turn_gate_id,
        job_id: row.id,
        root_id: row.root_id,
        owner_id: row.owner_id,
        type_id: row.type_id,
        type_name: info.name.clone(),
        delivery: info.delivery,
        max_failures: MaxFailures::from_stored(row.max_failures),
        steps: row.steps.clone(),
        payload_schema: row.payload_schema.clone(),
        priority: row.priority,
        run_after: row.run_after,
        expires_at: row.expires_at,
        solo: true,
        fed: false,
        waits: false,
    }
}

async fn insert_job(tx: &mut crate::store::Tx, row: &NewJobRow) -> Result<()> {
    match jobs::insert(tx, row).await {
        Err(sqlx::Error::Database(e)) if e.constraint() == Some("job_pkey") => Err(Problem {
            id: Some(row.id),
            ..Problem::new(Code::IdInUse, format!("A job with the id {} exists already.", row.id))
        }
        .into()),
        other => Ok(other?),
    }
}

async fn insert_split(tx: &mut crate::store::Tx, row: &NewJobRow, upload: &JobUpload, head: &Head) -> Result<()> {
    let split = NewSplit {
        gate_id: row.gate_id,
        job_id: row.id,
        upload_id: upload.id,
        format: head.format.as_str(),
        head: serde_json::to_string(head).map_err(|e| Error::Broken(e.to_string()))?,
        byte_offset: head.first.offset as i64,
        line: head.first.line as i64,
    };
    Ok(jobs::insert_split(tx, &split).await?)
}
