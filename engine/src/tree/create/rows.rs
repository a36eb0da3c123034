//! Rows of new trees, collected from all trees of a batch.

use std::collections::{BTreeMap, HashMap};

use domain::{Document, import::remembered_mapping::RememberedMapping};
use serde::Deserialize;
use uuid::Uuid;

use crate::{
    error::{Error, Result},
    sealing::{Sealer, stored_secrets::seal_target},
    store::tree::jobs::{JobDedupeKey, NewImportCursor, NewJobRow, NewJobStateRow},
};

use super::{CreateCommand, KeyState, Node, Tree};

/// Rows of all trees, ready to be written.
#[derive(Default)]
pub(super) struct Rows {
    pub(super) jobs: Vec<NewJobRow>,
    pub(super) job_states: Vec<NewJobStateRow>,
    pub(super) keys: Vec<(JobDedupeKey, Uuid)>,
    pub(super) deadlines: Vec<(i64, time::OffsetDateTime)>,
    pub(super) splits: Vec<NewImportCursor>,
    /// Imports of corrected rows, each with the job that it corrects and its owner.
    pub(super) corrections: Vec<(i64, Uuid, Uuid)>,
    /// Trees with a file, each with its owner.
    pub(super) imports: Vec<(Uuid, Uuid)>,
    /// Column mappings by owner and type, to be suggested again; the last one counts.
    pub(super) mappings: BTreeMap<(Uuid, i32), String>,
}

impl Rows {
    pub(super) fn tree(&mut self, sealer: &Sealer, command: &CreateCommand, job_keys: &[i64]) -> Result<()> {
        let tree = &command.tree;
        let nodes = &tree.nodes;
        let is_import = nodes.iter().any(|node| node.head.is_some());
        if is_import {
            self.imports.push((tree.root_id(), tree.owner_id));
        }
        let replay_of = command.key.as_ref().and_then(|take| match take.from {
            KeyState::Failed(before) => Some(before),
            _ => None,
        });
        // The first job of each type in a tree holds the fair turns.
        let mut fair_turn_job_keys: HashMap<i32, i64> = HashMap::new();
        for (at, (node, &job_key)) in nodes.iter().zip(job_keys).enumerate() {
            let fair_turn_job_key = *fair_turn_job_keys.entry(node.info.id).or_insert(job_key);
            self.job_states.push(NewJobStateRow {
                job_key,
                root_id: tree.root_id(),
                solo: nodes.len() == 1,
                open_jobs: if at == 0 { nodes.len() as i32 } else { 0 },
                after_open: node.after.len() as i32,
                calls: at == 0 && (node.new.on_completed.is_some() || is_import),
            });
            self.keys.extend(node.dedupe(tree.owner_id).map(|key| (key, node.id)));
            self.deadlines.extend(node.expires_at.map(|expires_at| (job_key, expires_at.0)));
            self.splits.extend(split(node, job_key)?);
            self.corrections.extend(corrects(node).map(|job_id| (job_key, job_id, tree.owner_id)));
            self.mappings.extend(remembered(node).map(|mapping| ((tree.owner_id, node.info.id), mapping)));
            self.jobs.push(NewJobRow {
                job_key,
                ord: at as i32,
                fair_turn_job_key,
                replay_of: if at == 0 { replay_of } else { None },
                ..job_row(sealer, tree, node)
            });
        }
        Ok(())
    }
}

fn job_row(sealer: &Sealer, tree: &Tree, node: &Node) -> NewJobRow {
    let new = &node.new;
    let after: Vec<&str> = node.after.iter().map(|&other| tree.nodes[other].key.as_str()).collect();
    NewJobRow {
        id: node.id,
        root_id: tree.root_id(),
        job_key: 0,
        ord: 0,
        parent_id: node.parent.map(|parent| tree.nodes[parent].id),
        owner_id: tree.owner_id,
        type_id: node.info.id,
        key: node.key.clone(),
        name: new.name.clone(),
        max_failures: new.max_failures.unwrap_or(node.info.max_failures).to_stored(),
        priority: node.priority,
        run_after: node.run_after.map(|at| at.0),
        expires_at: node.expires_at.map(|at| at.0),
        expected_count: new.expected_count.or_else(|| node.head.as_ref().map(|(_, head)| head.rows)),
        final_stage: new.final_stage,
        feed: new.feed.as_ref().map(|feed| feed.text().to_owned()),
        after: after.join(","),
        after_outcome: new.after_outcome.clone(),
        metadata: new.metadata.as_ref().map_or_else(|| "{}".to_owned(), |m| m.text().to_owned()),
        dedupe_key: new.dedupe_key.clone(),
        initiated_by: new.initiated_by.clone(),
        on_completed: new.on_completed.as_ref().map(|target| seal_target(sealer, target)),
        upload_id: new.upload.as_ref().map(|upload| upload.id),
        replay_of: None,
        body_hash: if node.parent.is_none() { tree.body_hash.clone() } else { None },
        fair_turn_job_key: 0,
        requested_by: tree.requester.0,
        requester_sees_all: tree.requester.1,
        traceparent: tree.traceparent.map(|at| at.to_string()),
    }
}

/// Mapping of a job's file, with the columns that it leaves out. A list of failures lacks those that its import left out.
fn remembered(node: &Node) -> Option<String> {
    let (_, head) = node.head.as_ref().filter(|(_, head)| !head.is_returned())?;
    let columns = head.data_columns().unwrap_or_default();
    let mapping = RememberedMapping::of(node.new.mapping.as_ref()?, columns);
    Some(Document::of(&mapping).text().to_owned())
}

/// The job whose failed rows a job's file corrects: the file is a list of failures that came back, and the job's metadata
/// names the other as `corrects`.
fn corrects(node: &Node) -> Option<Uuid> {
    #[derive(Deserialize)]
    struct Correction {
        corrects: Uuid,
    }
    node.head.as_ref().filter(|(_, head)| head.is_returned())?;
    let correction: Correction = serde_json::from_str(node.new.metadata.as_ref()?.text()).ok()?;
    Some(correction.corrects)
}

fn split(node: &Node, job_key: i64) -> Result<Option<NewImportCursor>> {
    let Some((upload, head)) = &node.head else { return Ok(None) };
    Ok(Some(NewImportCursor {
        job_key,
        job_id: node.id,
        upload_id: upload.id,
        format: head.format.as_str(),
        head: serde_json::to_string(head).map_err(|e| Error::Broken(e.to_string()))?,
        byte_offset: head.first.offset as i64,
        line: head.first.line as i64,
    }))
}
