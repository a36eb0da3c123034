//! Layout of the graph of a tree: which jobs are shown, in which column and row, and the edges between them.
//!
//! Pure, and linear in the number of jobs. A large tree is collapsed: jobs are shown from the root down as long as there
//! is room, and a job whose descendants have none stands for them.

use std::collections::{HashMap, HashSet};

use domain::{Counts, Job, id::Uuid};

/// Maximum number of nodes.
pub(super) const MOST: usize = 200;

/// Relation of two jobs; the first waits for nothing of the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Relation {
    /// The second gets items from the results of the first.
    Feeds,
    /// The second waits for the first to complete.
    After,
    /// The second is below the first in the tree, no more.
    Contains,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) relation: Relation,
}

/// What a node stands for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shown<'a> {
    /// A job alone.
    Job(&'a Job),
    /// A job with all jobs below it; their number.
    Collapsed(&'a Job, usize),
    /// The other jobs below the root: their number, and their items.
    Others { root: &'a Job, jobs: usize, counts: Counts },
}

#[derive(Debug)]
pub(super) struct Node<'a> {
    pub(super) shown: Shown<'a>,
    pub(super) column: usize,
    pub(super) row: usize,
}

#[derive(Debug)]
pub(super) struct Graph<'a> {
    /// By column and row.
    pub(super) nodes: Vec<Node<'a>>,
    pub(super) edges: Vec<Edge>,
    pub(super) columns: usize,
    pub(super) rows: usize,
}

fn children(job: &Job) -> &[Job] {
    job.children.as_deref().unwrap_or_default()
}

/// Shown nodes, and the node that stands for each job.
fn choose(root: &Job) -> (Vec<Shown<'_>>, HashMap<Uuid, usize>) {
    let mut shown = vec![Shown::Job(root)];
    let mut stands_for = HashMap::from([(root.id, 0)]);
    let mut at = 0;
    while let Some(&Shown::Job(job)) = shown.get(at) {
        let below = children(job);
        let room = MOST - shown.len();
        if below.len() <= room {
            for child in below {
                stands_for.insert(child.id, shown.len());
                shown.push(Shown::Job(child));
            }
        } else if at == 0 {
            // One node stays for the rest.
            let (first, rest) = below.split_at(room - 1);
            for child in first {
                stands_for.insert(child.id, shown.len());
                shown.push(Shown::Job(child));
            }
            let all: Vec<&Job> = rest.iter().flat_map(Job::subtree).collect();
            stands_for.extend(all.iter().map(|job| (job.id, shown.len())));
            let counts = all.iter().map(|job| job.counts).sum();
            shown.push(Shown::Others { root, jobs: all.len(), counts });
        } else {
            let all = job.subtree();
            stands_for.extend(all.iter().map(|job| (job.id, at)));
            shown[at] = Shown::Collapsed(job, all.len());
        }
        at += 1;
    }
    (shown, stands_for)
}

/// Edges between the shown nodes, each once; of two relations of the same nodes the stronger one.
fn edges(root: &Job, stands_for: &HashMap<Uuid, usize>) -> Vec<Edge> {
    let jobs = root.subtree();
    let by_key: HashMap<&str, Uuid> = jobs.iter().map(|job| (job.key.as_str(), job.id)).collect();
    let mut seen = HashSet::new();
    let mut edges = Vec::new();
    let mut add = |from: Uuid, to: Uuid, relation| {
        let (Some(&from), Some(&to)) = (stands_for.get(&from), stands_for.get(&to)) else { return };
        if from != to && seen.insert((from, to, relation)) {
            edges.push(Edge { from, to, relation });
        }
    };
    for job in &jobs {
        for child in children(job) {
            add(job.id, child.id, if child.feed.is_some() { Relation::Feeds } else { Relation::Contains });
        }
        for key in &job.after {
            if let Some(&first) = by_key.get(key.as_str()) {
                add(first, job.id, Relation::After);
            }
        }
    }
    let strong: HashSet<(usize, usize)> =
        edges.iter().filter(|edge| edge.relation != Relation::Contains).map(|edge| (edge.from, edge.to)).collect();
    edges.retain(|edge| edge.relation != Relation::Contains || !strong.contains(&(edge.from, edge.to)));
    edges
}

/// Column of each node: behind everything that leads to it. Collapsed jobs can lead to each other; an edge that closes
/// such a circle does not count.
fn columns(n: usize, edges: &[Edge]) -> Vec<usize> {
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); n];
    for edge in edges {
        before[edge.to].push(edge.from);
    }
    let mut columns: Vec<Option<usize>> = vec![None; n];
    let mut open = vec![false; n];
    for start in 0..n {
        // Depth first without recursion: a tree may be a thousand jobs deep.
        let mut stack = vec![start];
        while let Some(&node) = stack.last() {
            if columns[node].is_some() {
                stack.pop();
                continue;
            }
            open[node] = true;
            let next = before[node].iter().find(|&&from| columns[from].is_none() && !open[from]);
            if let Some(&from) = next {
                stack.push(from);
                continue;
            }
            let last = before[node].iter().filter_map(|&from| columns[from]).max();
            columns[node] = Some(last.map_or(0, |last| last + 1));
            open[node] = false;
            stack.pop();
        }
    }
    columns.into_iter().map(Option::unwrap_or_default).collect()
}

/// Lays out a job with its descendants.
pub(super) fn layout(root: &Job) -> Graph<'_> {
    let (shown, stands_for) = choose(root);
    let edges = edges(root, &stands_for);
    let columns = columns(shown.len(), &edges);
    let number = columns.iter().max().map_or(0, |last| last + 1);
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); shown.len()];
    for edge in &edges {
        before[edge.to].push(edge.from);
    }
    // In each column by the mean row of what leads there, so that edges cross little.
    let mut rows = vec![0; shown.len()];
    let mut order = Vec::with_capacity(shown.len());
    for column in 0..number {
        let mean = |node: usize| {
            let from: Vec<usize> =
                before[node].iter().filter(|&&from| columns[from] < column).map(|&it| rows[it]).collect();
            if from.is_empty() { 0.0 } else { from.iter().sum::<usize>() as f64 / from.len() as f64 }
        };
        let mut nodes: Vec<(f64, usize)> =
            (0..shown.len()).filter(|&node| columns[node] == column).map(|node| (mean(node), node)).collect();
        nodes.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        for (row, &(_, node)) in nodes.iter().enumerate() {
            rows[node] = row;
        }
        order.extend(nodes.iter().map(|it| it.1));
    }
    let mut place = vec![0; shown.len()];
    for (at, &node) in order.iter().enumerate() {
        place[node] = at;
    }
    let nodes = order.iter().map(|&node| Node { shown: shown[node], column: columns[node], row: rows[node] }).collect();
    let edges = edges.into_iter().map(|edge| Edge { from: place[edge.from], to: place[edge.to], ..edge }).collect();
    Graph { nodes, edges, columns: number, rows: rows.iter().max().map_or(0, |last| last + 1) }
}
