//! Validation of a requested tree, and its jobs as they are created, parents first.
//!
//! All faults that can be found without the database are reported here, each with its pointer. Items are not checked:
//! that happens against the jobs once these exist.

use std::{collections::HashMap, collections::HashSet, sync::Arc};

use domain::{
    Code, Problem, Time,
    api::{JobUpload, NewJob},
    id::{Uuid, is_key, is_name},
    import::{mapping::Mapping, row_edit::RowEdit},
    item::MaxFailures,
    job_type::{Builtin, Delivery, SigningSecret},
    limits::{self, MOST_ITEMS, MOST_JOBS, is_text},
    problem::FieldProblem,
    tree::feed::Feed,
};

use crate::{
    addresses::Reach,
    import::{
        split::Head,
        upload_head::{HEADER_ROWS, UNKNOWN_HEADER_ROW},
    },
    store::tree::{definitions::TypeInfo, jobs::JobDedupeKey},
};

/// Job of the tree to be created.
pub(super) struct Node {
    pub(super) new: NewJob,
    /// Id; generated if the client gave none.
    pub(super) id: Uuid,
    pub(super) pointer: String,
    pub(super) parent: Option<usize>,
    pub(super) key: String,
    pub(super) info: Arc<TypeInfo>,
    /// Jobs that it waits for, without duplicates.
    pub(super) after: Vec<usize>,
    /// Effective priority, including the ancestors' values.
    pub(super) priority: i16,
    pub(super) run_after: Option<Time>,
    pub(super) expires_at: Option<Time>,
    pub(super) head: Option<(JobUpload, Head)>,
}

impl Node {
    /// Requested dedupe key.
    pub(super) fn dedupe(&self, owner_id: Uuid) -> Option<JobDedupeKey> {
        let key = self.new.dedupe_key.clone()?;
        Some(JobDedupeKey { owner_id, type_id: self.info.id, key })
    }
}

/// Lookup of a type by name.
pub(super) type Types<'a> = &'a dyn Fn(&str) -> Option<Arc<TypeInfo>>;

type Faults = Vec<(String, String)>;

/// Validates a tree. Returns its jobs, parents first.
pub(super) fn validated_tree(root: NewJob, types: Types<'_>, callbacks: &Reach) -> Result<Vec<Node>, Problem> {
    let mut faults = Faults::new();
    let mut nodes = lay_out(root, types)?;
    let items: usize = nodes.iter().map(|node| node.new.items.len()).sum();
    if items > MOST_ITEMS {
        return Err(Problem::new(
            Code::TooLarge,
            format!("A body has at most {MOST_ITEMS} items; stream more to /jobs/{{id}}/items."),
        ));
    }
    for node in &nodes {
        check(node, &mut faults);
    }
    let by_key = name(&mut nodes, &mut faults);
    for node in &mut nodes {
        node.after = waits_for(node, &by_key, &mut faults);
    }
    inherit(&mut nodes);
    distinct(&nodes, &mut faults)?;
    if !faults.is_empty() {
        return Err(Problem::invalid_body(faults));
    }
    refuse_cycles(&nodes)?;
    if let Some(on_completed) = &nodes[0].new.on_completed {
        callbacks.check(&on_completed.url).map_err(|problem| at("/on_completed/url".to_owned(), problem))?;
    }
    Ok(nodes)
}

/// Adds the pointer to a refusal.
fn at(pointer: String, problem: Problem) -> Problem {
    Problem { errors: vec![FieldProblem { pointer, detail: problem.detail.clone() }], ..problem }
}

fn lay_out(root: NewJob, types: Types<'_>) -> Result<Vec<Node>, Problem> {
    let mut nodes: Vec<Node> = Vec::new();
    let mut open = vec![(root, String::new(), None)];
    while let Some((mut new, pointer, parent)) = open.pop() {
        if nodes.len() == MOST_JOBS {
            return Err(Problem::new(Code::TooLarge, format!("A tree has at most {MOST_JOBS} jobs.")));
        }
        let info = types(&new.job_type).ok_or_else(|| {
            let problem =
                Problem::new(Code::UnknownJobType, format!("There is no job type \"{:.100}\".", new.job_type));
            at(format!("{pointer}/type"), problem)
        })?;
        let place = nodes.len();
        let children = std::mem::take(&mut new.children);
        // Popped from the end: reversed, so that children keep their order.
        for (n, child) in children.into_iter().enumerate().rev() {
            open.push((child, format!("{pointer}/children/{n}"), Some(place)));
        }
        nodes.push(Node {
            id: new.id.unwrap_or_else(Uuid::now_v7),
            key: String::new(),
            after: Vec::new(),
            priority: 0,
            run_after: None,
            expires_at: None,
            head: None,
            new,
            pointer,
            parent,
            info,
        });
    }
    Ok(nodes)
}

/// Checks the parts of a job that do not depend on the rest of its tree.
fn check(node: &Node, faults: &mut Faults) {
    let (new, pointer, is_root) = (&node.new, &node.pointer, node.parent.is_none());
    let mut add_fault = |field: &str, detail: &str| faults.push((format!("{pointer}/{field}"), detail.to_owned()));
    if new.key.as_ref().is_some_and(|key| !is_name(key)) {
        add_fault("key", "expected [a-z0-9][a-z0-9._-]{0,99}");
    }
    if new.name.as_ref().is_some_and(|name| !is_text(name, 0, limits::LONGEST_JOB_NAME)) {
        add_fault("name", "expected at most 1000 characters");
    }
    if new.initiated_by.as_ref().is_some_and(|name| !is_key(name)) {
        add_fault("initiated_by", "expected 1 to 255 characters");
    }
    if new.dedupe_key.as_ref().is_some_and(|key| !is_key(key)) {
        add_fault("dedupe_key", "expected 1 to 255 characters");
    }
    if new.priority.is_some_and(|p| !(limits::LEAST_PRIORITY..=limits::GREATEST_PRIORITY).contains(&p)) {
        add_fault("priority", "expected a whole number from -100 to 100");
    }
    if new.expected_count.is_some_and(|n| !(0..=limits::GREATEST_COUNT).contains(&n)) {
        add_fault("expected_count", "expected a whole number from 0");
    }
    if node.info.delivery == Delivery::AtMostOnce && new.max_failures.is_some_and(|m| m != MaxFailures::AtMost(1)) {
        add_fault("max_failures", "expected 1, as the type's delivery is at_most_once");
    }
    if new.metadata.as_ref().is_some_and(|m| !m.text().trim_start().starts_with('{')) {
        add_fault("metadata", "expected an object");
    }
    if new.upload.is_some() && !new.items.is_empty() {
        add_fault("upload", "expected either upload or items");
    }
    if let Some(upload) = &new.upload
        && upload.delimiter.as_ref().is_some_and(|d| crate::import::split::Want::delimiter(d).is_none())
    {
        add_fault("upload/delimiter", "expected one ASCII character other than a quote or a line end");
    }
    if let Some(upload) = &new.upload
        && upload.encoding.as_ref().is_some_and(|label| crate::import::split::Encoding::of_label(label).is_none())
    {
        add_fault("upload/encoding", crate::import::upload_head::UNKNOWN_ENCODING);
    }
    if new.upload.as_ref().and_then(|upload| upload.header_row).is_some_and(|row| !HEADER_ROWS.contains(&row)) {
        add_fault("upload/header_row", UNKNOWN_HEADER_ROW);
    }
    if new.upload.is_some() && !node.info.import.enabled {
        add_fault("upload", "expected no file, as the type has import.enabled false");
    }
    if new.upload.is_some() && node.info.executor.name == Some(Builtin::Export) {
        add_fault("upload", "expected no file, as the type writes files");
    }
    if new.mapping.is_some() && new.upload.is_none() {
        add_fault("mapping", "expected only with an upload");
    }
    for (inner, detail) in new.mapping.iter().flat_map(Mapping::problems) {
        add_fault(&format!("mapping{inner}"), &detail);
    }
    if !new.edits.is_empty() && new.upload.is_none() {
        add_fault("edits", "expected only with an upload");
    }
    for (inner, detail) in RowEdit::problems(&new.edits) {
        add_fault(&format!("edits{inner}"), &detail);
    }
    if !is_root && new.initiated_by.is_some() {
        add_fault("initiated_by", "expected on the root only");
    }
    match &new.on_completed {
        Some(_) if !is_root => add_fault("on_completed", "expected on the root only"),
        Some(given) if !is_text(&given.url, 1, limits::LONGEST_URL) || url::Url::parse(&given.url).is_err() => {
            add_fault("on_completed/url", "expected a URL");
        }
        Some(given) => {
            if let Some(expected) = given.secret.as_ref().and_then(SigningSecret::problem) {
                add_fault("on_completed/secret", expected);
            }
        }
        None => {}
    }
    if !matches!(new.after_outcome.as_deref(), None | Some("succeeded" | "any")) {
        add_fault("after_outcome", "expected succeeded or any");
    }
    if let Some(feed) = &new.feed {
        if is_root {
            add_fault("feed", "expected on a child only: a job is fed by its parent");
        }
        if new.sealed {
            add_fault("sealed", "expected false, as a fed job is sealed by its parent's completion");
        }
        if new.upload.is_some() {
            add_fault("upload", "expected no file, as its end would seal a job that is fed");
        }
        for (inner, detail) in Feed::parse(feed).err().into_iter().flatten() {
            add_fault(&format!("feed{inner}"), &detail);
        }
    }
}

/// Assigns every job its key: the requested one, else the name of its type or the first free of `type-2`, `type-3` …
fn name(nodes: &mut [Node], faults: &mut Faults) -> HashMap<String, usize> {
    let mut by_key: HashMap<String, usize> = HashMap::new();
    for (place, node) in nodes.iter_mut().enumerate() {
        if let Some(key) = &node.new.key {
            node.key.clone_from(key);
            if by_key.insert(key.clone(), place).is_some() {
                faults.push((format!("{}/key", node.pointer), "expected a key of its own within the tree".to_owned()));
            }
        }
    }
    let mut next: HashMap<String, usize> = HashMap::new();
    for (place, node) in nodes.iter_mut().enumerate().filter(|(_, node)| node.new.key.is_none()) {
        let n = next.entry(node.new.job_type.clone()).or_insert(1);
        loop {
            let key = if *n == 1 { node.new.job_type.clone() } else { format!("{}-{n}", node.new.job_type) };
            *n += 1;
            if let std::collections::hash_map::Entry::Vacant(free) = by_key.entry(key) {
                node.key.clone_from(free.key());
                free.insert(place);
                break;
            }
        }
    }
    by_key
}

fn waits_for(node: &Node, by_key: &HashMap<String, usize>, faults: &mut Faults) -> Vec<usize> {
    let mut after = Vec::new();
    for (n, key) in node.new.after.iter().enumerate() {
        match by_key.get(key) {
            Some(&other) if !after.contains(&other) => after.push(other),
            Some(_) => {}
            None => faults
                .push((format!("{}/after/{n}", node.pointer), "expected the key of a job of the same tree".to_owned())),
        }
    }
    after
}

/// Inheritance by `start-and-expiry`: the later run_after, the earlier expires_at, the nearest given priority.
fn inherit(nodes: &mut [Node]) {
    for place in 0..nodes.len() {
        let above = nodes[place].parent.map(|parent| {
            let parent = &nodes[parent];
            (parent.priority, parent.run_after, parent.expires_at)
        });
        let (priority, run_after, expires_at) = above.unwrap_or((0, None, None));
        let node = &mut nodes[place];
        node.priority = node.new.priority.unwrap_or(priority);
        node.run_after = node.new.run_after.max(run_after);
        node.expires_at = [node.new.expires_at, expires_at].into_iter().flatten().min();
    }
}

/// Refuses ids and dedupe keys that occur twice in one body.
fn distinct(nodes: &[Node], faults: &mut Faults) -> Result<(), Problem> {
    let mut ids = HashSet::new();
    let mut keys = HashSet::new();
    for node in nodes {
        if !ids.insert(node.id) {
            faults.push((format!("{}/id", node.pointer), "expected an id of its own".to_owned()));
        }
        if node.dedupe(Uuid::nil()).is_some_and(|key| !keys.insert(key)) {
            let problem = Problem::new(Code::Duplicate, "Two jobs of one type in this tree have one dedupe key.");
            return Err(at(format!("{}/dedupe_key", node.pointer), problem));
        }
    }
    Ok(())
}

/// Refuses cycles. Fed jobs wait for their parents and jobs with `after` for the jobs they name; in a cycle, none of
/// them would ever be complete.
fn refuse_cycles(nodes: &[Node]) -> Result<(), Problem> {
    let mut open: Vec<usize> = vec![0; nodes.len()];
    let mut behind: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (place, node) in nodes.iter().enumerate() {
        let fed_by = node.new.feed.as_ref().and(node.parent);
        for before in node.after.iter().copied().chain(fed_by) {
            open[place] += 1;
            behind[before].push(place);
        }
    }
    let mut free: Vec<usize> = (0..nodes.len()).filter(|&place| open[place] == 0).collect();
    while let Some(place) = free.pop() {
        for &next in &behind[place] {
            open[next] -= 1;
            if open[next] == 0 {
                free.push(next);
            }
        }
    }
    let stuck: Vec<usize> = (0..nodes.len()).filter(|&place| open[place] > 0).collect();
    let Some(&first) = stuck.iter().find(|&&place| !nodes[place].after.is_empty()) else { return Ok(()) };
    let keys: Vec<&str> = stuck.iter().map(|&place| nodes[place].key.as_str()).take(10).collect();
    let problem = Problem::new(
        Code::Cycle,
        format!("These jobs wait for each other in a circle, or behind one: {}.", keys.join(", ")),
    );
    Err(at(format!("{}/after", nodes[first].pointer), problem))
}
