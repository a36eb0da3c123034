//! Layouts of small and large trees.

use domain::{
    Counts, Document, Job, JobStatus, Time,
    id::Uuid,
    item::MaxFailures,
    job::{Owner, OwnerKind, TreeSummary},
};

use super::layout::{MOST, Relation, Shown, layout};

/// A job with this key, whose items are all available.
pub(in super::super) fn job(n: u128, key: &str, feed: bool, after: &[&str], children: Vec<Job>) -> Job {
    let at = Time::parse("2026-11-20T14:00:00Z").expect("a time");
    let counts = Counts { available: 2, ..Counts::default() };
    Job {
        id: Uuid::from_u128(n),
        root_id: Uuid::from_u128(1),
        parent_id: (n != 1).then(|| Uuid::from_u128(1)),
        key: key.to_owned(),
        job_type: "t".to_owned(),
        name: None,
        status: JobStatus::Waiting,
        outcome: None,
        sealed: true,
        item_count: 2,
        item_progress: 0,
        expected_count: None,
        percent: Some(0),
        message: String::new(),
        counts,
        tree: TreeSummary { status: JobStatus::Waiting, outcome: None, item_count: 2, item_progress: 0, counts },
        after: after.iter().map(|&key| key.to_owned()).collect(),
        feed: feed.then(|| Document::trusted("{}".to_owned())),
        final_stage: false,
        max_failures: MaxFailures::AtMost(3),
        metadata: Document::trusted("{}".to_owned()),
        dedupe_key: None,
        merged: None,
        idempotency_key: None,
        owner: Owner { kind: OwnerKind::Service, name: "shop".to_owned() },
        initiated_by: None,
        upload_id: None,
        replay_of: None,
        superseded_by: None,
        completion: 0,
        pinned: false,
        open_because: None,
        created_at: at,
        started_at: None,
        completed_at: None,
        updated_at: at,
        run_after: None,
        expires_at: None,
        priority: 0,
        version: 1,
        children: Some(children),
    }
}

#[test]
fn jobs_stand_behind_what_leads_to_them() {
    let mail = job(3, "mail", true, &[], vec![]);
    let check = job(2, "check", true, &[], vec![mail]);
    let report = job(5, "report", false, &["check", "ledger"], vec![]);
    let root = job(1, "calculate", false, &[], vec![check, job(4, "ledger", false, &[], vec![]), report]);
    let graph = layout(&root);
    let at = |key: &str| {
        let of = |shown: &Shown<'_>| matches!(shown, Shown::Job(job) if job.key == key);
        let node = graph.nodes.iter().find(|node| of(&node.shown)).expect("a node");
        (node.column, node.row)
    };
    assert_eq!((at("calculate"), at("check"), at("ledger")), ((0, 0), (1, 0), (1, 1)));
    assert_eq!((at("mail").0, at("report").0, graph.columns, graph.rows), (2, 2, 3, 2));
    let key = |at: usize| match graph.nodes[at].shown {
        Shown::Job(job) => job.key.clone(),
        _ => String::new(),
    };
    let mut edges: Vec<_> = graph.edges.iter().map(|it| (it.relation, key(it.from), key(it.to))).collect();
    edges.sort();
    let edge = |relation, from: &str, to: &str| (relation, from.to_owned(), to.to_owned());
    assert_eq!(
        edges,
        [
            edge(Relation::Feeds, "calculate", "check"),
            edge(Relation::Feeds, "check", "mail"),
            edge(Relation::After, "check", "report"),
            edge(Relation::After, "ledger", "report"),
            edge(Relation::Contains, "calculate", "ledger"),
            edge(Relation::Contains, "calculate", "report"),
        ]
    );
}

#[test]
fn large_trees_collapse_by_job_and_lose_none() {
    let group = |n: u128| {
        let below = (0..49).map(|m| job(1_000 * n + m, &format!("g{n}-{m}"), false, &[], vec![])).collect();
        job(10 + n, &format!("g{n}"), false, &[], below)
    };
    let root = job(1, "root", false, &[], (0..10).map(group).collect());
    assert_eq!(root.subtree().len(), 501);
    let graph = layout(&root);
    assert!(graph.nodes.len() <= MOST, "{}", graph.nodes.len());
    let number = |shown: &Shown<'_>| match shown {
        Shown::Job(_) => 1,
        Shown::Collapsed(_, jobs) | Shown::Others { jobs, .. } => *jobs,
    };
    assert_eq!(graph.nodes.iter().map(|node| number(&node.shown)).sum::<usize>(), 501);
    assert!(graph.nodes.iter().any(|node| matches!(node.shown, Shown::Collapsed(_, 50))));

    let root = job(1, "root", false, &[], (0..999).map(|n| job(10 + n, &n.to_string(), true, &[], vec![])).collect());
    let graph = layout(&root);
    assert_eq!(graph.nodes.len(), MOST);
    let others = graph.nodes.iter().find_map(|node| match node.shown {
        Shown::Others { jobs, counts, .. } => Some((jobs, counts.available)),
        _ => None,
    });
    assert_eq!(others, Some((801, 1_602)), "the other jobs are one node with their items");
}

#[test]
fn collapsed_jobs_that_lead_to_each_other_have_a_column() {
    let many = |n: u128, after: &'static [&'static str]| {
        let below = (0..150).map(|m| {
            let after = if m == 1 { after } else { &[] };
            job(1_000 * n + m, &format!("g{n}-{m}"), false, after, vec![])
        });
        job(10 + n, &format!("g{n}"), false, &[], below.collect())
    };
    let root = job(1, "root", false, &[], vec![many(1, &[]), many(2, &["g3-0"]), many(3, &["g2-0"])]);
    let graph = layout(&root);
    assert!(graph.columns <= 4, "{}", graph.columns);
    assert_eq!(graph.nodes.iter().filter(|node| matches!(node.shown, Shown::Collapsed(..))).count(), 2);
}
