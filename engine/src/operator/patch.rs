//! Small edits by people: `PATCH` of jobs and items, guarded by the version that was read.
//!
//! A waiting item is edited in one transaction. A job is edited in one, too, with the jobs below it that inherited its
//! priority and times; their waiting items that had these are updated in batches, each in its own transaction, from a
//! record that was written with the edit.

mod inheriting_items; // waiting items that follow an edit of their job
mod requeue; // placement of edited waiting rows

use std::sync::Arc;

use domain::{
    Code, Item, Job, Problem,
    api::{ItemPatch, JobPatch, OnCompleted},
    item::MaxFailures,
    job_type::{Delivery, SigningSecret},
    limits,
    problem::FieldProblem,
};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::{
    Core, Engine,
    access::caller::{Caller, Scope},
    addresses::display_url,
    error::{Error, Result},
    notify::audit,
    query,
    sealing::stored_secrets::{open_target, seal_target},
    store::{
        notify::{audit as audit_log, deliveries},
        operator::{
            job_edits,
            patch::{self, EditableItem, EditableJob, InheritedSettings, Settings},
        },
        query::{item_views, job_views},
        tree::definitions,
    },
    task::in_task,
};

pub(crate) use inheriting_items::{CONCURRENT_BATCHES, FailedEdits};
use requeue::Requeued;

/// Number of items of a job edited in one transaction.
const BATCH: i64 = 2_000;
/// Maximum number of attempts for an edit that collides with a claim or a sweep.
const TRIES: usize = 20;

/// Audit log entry that is written with the edit, if any.
type OptionalAuditRow = Option<audit_log::AuditRow>;

impl Engine {
    /// Changes the given fields of a job; 412 if `expected` is not its version.
    pub async fn patch_job(&self, caller: &Caller, id: Uuid, body: JobPatch, expected: Option<i64>) -> Result<Job> {
        caller.require(Scope::JobsWrite)?;
        let info = self.visible_job(caller, id).await?;
        let reason = audit::reason_for(caller, info.owner_id, body.reason.as_deref())?;
        self.0.core.check_document_size(body.metadata.as_ref().and_then(Option::as_ref), || "/metadata".to_owned())?;
        let audit_row = audit::row(caller, "job.edit", info.owner_id, reason.as_deref())
            .map(|row| audit_log::AuditRow { detail: Some(edit_summary(&body)), ..row.about(info.root_id, id, None) });
        let (body, root_id) = (Arc::new(body), info.root_id);
        // Again after a deadlock: the last rows of a file lock the state of a job before its definition.
        self.0
            .core
            .in_task_with_retries("editing a job", move |core| {
                let (body, audit_row) = (Arc::clone(&body), audit_row.clone());
                async move { core.edit_job(id, root_id, &body, expected, audit_row).await }
            })
            .await?;
        self.changed_job(caller, id, true).await
    }

    /// Changes the priority and times of a waiting item; 409 if it no longer waits, 412 if `expected` is not its
    /// version.
    pub async fn patch_item(&self, caller: &Caller, id: Uuid, body: ItemPatch, expected: Option<i64>) -> Result<Item> {
        caller.require(Scope::JobsWrite)?;
        let item = self.changed_item(caller, id).await?;
        if let Some(Some(priority)) = body.priority {
            check_priority(priority)?;
        }
        let info = self.visible_job(caller, item.job_id).await?;
        let reason = audit::reason_for(caller, info.owner_id, body.reason.as_deref())?;
        let audit_row = audit::row(caller, "item.edit", info.owner_id, reason.as_deref()).map(|row| {
            audit_log::AuditRow { detail: Some(edit_summary(&body)), ..row.about(info.root_id, info.job_id, Some(id)) }
        });
        let core = Arc::clone(&self.0.core);
        let edit = async move {
            for _ in 0..TRIES {
                if let Some(requeued) = core.edit_item(id, &body, expected, audit_row.as_ref()).await? {
                    requeued.after_commit(&core);
                    core.live.touch(&[info.root_id]);
                    return Ok(());
                }
                // A claim or a sweep holds the row at this moment; look again for its new state.
                tokio::task::yield_now().await;
            }
            Err(not_waiting("It is being handed out."))
        };
        in_task("editing an item", edit).await?;
        self.changed_item(caller, id).await
    }

    /// Drops recently edited jobs from the cache, edits on other servers included. An edit takes effect on every server
    /// within a second; a notification would be faster but may be lost.
    pub async fn refresh_jobs(&self) -> Result<usize> {
        let core = &self.0.core;
        let (now, job_keys) = patch::changes_since(&core.pools.read, core.jobs.checked_at()).await?;
        core.jobs.forget(&job_keys);
        core.jobs.checked(now);
        Ok(job_keys.len())
    }

    /// Deletes records of edits that every server has processed by now. Returns their number.
    pub async fn delete_old_job_changes(&self) -> Result<u64> {
        Ok(patch::forget_changes(&self.0.core.pools.read).await?)
    }
}

impl Core {
    async fn edit_job(
        &self,
        id: Uuid,
        root_id: Uuid,
        body: &JobPatch,
        expected: Option<i64>,
        audit_row: OptionalAuditRow,
    ) -> Result<()> {
        if body.on_completed.is_some() {
            deliveries::set_calls(&self.pools.read, id).await?;
        }
        let mut tx = crate::store::begin(&self.pools.read).await?;
        let tree = patch::lock_tree(&mut tx, root_id).await?;
        let Some(old) = patch::lock_job(&mut tx, id).await? else { return Err(query::job_deleted(id)) };
        if let Some(expected) = expected {
            let views = job_views::of_roots(&mut *tx, &[root_id]).await?;
            if query::job_version(&views, id) != Some(expected) {
                return Err(outdated("job"));
            }
        }
        let Some(before) = tree.iter().find(|job| job.id == id) else { return Err(query::job_deleted(id)) };
        let parent = tree.iter().find(|job| Some(job.id) == before.parent_id);
        let new = self.edited(&old, parent, body)?;
        if new == old {
            return Ok(());
        }
        patch::write_job(&mut tx, &new).await?;
        let after = InheritedSettings {
            priority: new.priority,
            run_after: new.run_after,
            expires_at: new.expires_at,
            ..before.clone()
        };
        let inheritors = if after == *before { Vec::new() } else { inheritance(&tree, before, after) };
        let mut job_keys = vec![old.job_key];
        if !inheritors.is_empty() {
            let rows: Vec<InheritedSettings> = inheritors.iter().map(|(_, new)| new.clone()).collect();
            patch::write_inherited(&mut tx, &rows).await?;
            job_edits::insert(&mut tx, &inheritors).await?;
            job_keys = rows.iter().map(|row| row.job_key).collect();
        }
        patch::mark_changed(&mut tx, &job_keys).await?;
        if new.on_completed != old.on_completed {
            deliveries::redirect(&mut tx, id, new.on_completed.as_deref()).await?;
        }
        if let Some(audit_row) = &audit_row {
            audit_log::record(&mut tx, audit_row).await?;
        }
        crate::store::commit(tx).await?;
        self.jobs.forget(&job_keys);
        self.live.touch(&[root_id]);
        if !inheritors.is_empty() {
            self.edit_items(&job_keys).await;
        }
        Ok(())
    }

    /// Returns the definition after the edit, or the faults of the edit. As at its creation, the job inherits from its
    /// parent (`start-and-expiry`).
    fn edited(&self, old: &EditableJob, parent: Option<&InheritedSettings>, body: &JobPatch) -> Result<EditableJob> {
        let mut new = old.clone();
        let mut faults: Vec<(String, String)> = Vec::new();
        let mut add_fault = |field: &str, detail: &str| faults.push((format!("/{field}"), detail.to_owned()));
        if let Some(name) = &body.name {
            if name.as_ref().is_some_and(|name| !limits::is_text(name, 0, limits::LONGEST_JOB_NAME)) {
                add_fault("name", "expected at most 1000 characters");
            }
            new.name.clone_from(name);
        }
        if let Some(given) = &body.metadata {
            let metadata = given.as_ref().map_or_else(domain::Document::empty_object, Clone::clone);
            if !metadata.text().trim_start().starts_with('{') {
                add_fault("metadata", "expected an object");
            }
            metadata.text().clone_into(&mut new.metadata);
        }
        if let Some(given) = body.priority {
            let priority = given.or(parent.map(|parent| parent.priority)).unwrap_or_default();
            check_priority(priority)?;
            new.priority = priority;
        }
        if let Some(at) = body.run_after {
            new.run_after = later(at.map(|at| at.0), parent.and_then(|parent| parent.run_after));
        }
        if let Some(at) = body.expires_at {
            new.expires_at = earlier(at.map(|at| at.0), parent.and_then(|parent| parent.expires_at));
        }
        if let Some(count) = body.expected_count {
            if count.is_some_and(|n| !(0..=limits::GREATEST_COUNT).contains(&n)) {
                add_fault("expected_count", "expected a whole number from 0");
            }
            new.expected_count = count;
        }
        if let Some(budget) = body.max_failures {
            let once = Delivery::parse(&old.delivery) == Some(Delivery::AtMostOnce);
            if once && budget.is_some_and(|budget| budget != MaxFailures::AtMost(1)) {
                add_fault("max_failures", "expected 1, as the job's delivery is at_most_once");
            }
            let types = self.types.by_id(old.type_id).map_or(MaxFailures::Unlimited, |info| info.max_failures);
            let budget = budget.unwrap_or(if once { MaxFailures::AtMost(1) } else { types });
            new.max_failures = budget.to_stored();
        }
        if let Some(target) = &body.on_completed {
            if !old.is_root {
                add_fault("on_completed", "expected on the root only");
            }
            if target.as_ref().is_some_and(|target| {
                !limits::is_text(&target.url, 1, limits::LONGEST_URL) || url::Url::parse(&target.url).is_err()
            }) {
                add_fault("on_completed/url", "expected a URL");
            }
            let secret = target.as_ref().and_then(|target| target.secret.as_ref());
            if let Some(expected) = secret.and_then(SigningSecret::problem) {
                add_fault("on_completed/secret", expected);
            }
            let before = old.on_completed.as_deref().and_then(|stored| open_target(&self.sealer, stored).ok());
            if *target != before {
                new.on_completed = target.as_ref().map(|target: &OnCompleted| seal_target(&self.sealer, target));
            }
        }
        if !faults.is_empty() {
            return Err(Problem::invalid_body(faults).into());
        }
        if let Some(Some(target)) = &body.on_completed {
            self.callbacks.check(&target.url).map_err(|problem| Problem {
                errors: vec![FieldProblem { pointer: "/on_completed/url".to_owned(), detail: problem.detail.clone() }],
                ..problem
            })?;
        }
        Ok(new)
    }

    /// Edits one item in one transaction; `None` if it is just moving between states and must be looked up again.
    async fn edit_item(
        &self,
        id: Uuid,
        body: &ItemPatch,
        expected: Option<i64>,
        audit_row: Option<&audit_log::AuditRow>,
    ) -> Result<Option<Requeued>> {
        let mut tx = crate::store::begin(&self.pools.hot).await?;
        let missing = || Problem::not_found("item");
        let old = patch::lock_item(&mut tx, id).await?.ok_or_else(missing)?;
        let view = item_views::items(&mut *tx, &[id], false).await?.pop().ok_or_else(missing)?;
        if expected.is_some_and(|expected| expected != query::item_version(&view)) {
            return Err(outdated("item"));
        }
        let state = query::item_state(&view);
        if state.is_final() || state == domain::ItemState::Running {
            return Err(not_waiting(&format!("It is {}.", state.as_str())));
        }
        // Bypasses the cache: another server may have edited the job a moment ago.
        let job = definitions::jobs_by_key(&mut *tx, &[old.job_key]).await?.pop().ok_or_else(missing)?;
        let row = EditableItem {
            priority: body.priority.map_or(old.priority, |given| given.unwrap_or(job.priority)),
            run_after: body.run_after.map_or(old.run_after, |given| later(given.map(|at| at.0), job.run_after)),
            expires_at: body.expires_at.map_or(old.expires_at, |given| earlier(given.map(|at| at.0), job.expires_at)),
            ..old
        };
        if row == old {
            return Ok(Some(Requeued::default()));
        }
        let requeued = match self.requeue(&mut tx, old.job_key, &[row]).await {
            Err(error) if error.is_conflict() => {
                crate::store::roll_back(tx, error).await;
                return Ok(None);
            }
            requeued => requeued?,
        };
        let Some(requeued) = requeued else { return Err(Error::refuse(Code::JobCancelled, "The job is canceled.")) };
        if requeued.left.contains(&id) {
            return Ok(None);
        }
        if let Some(audit_row) = audit_row {
            audit_log::record(&mut tx, audit_row).await?;
        }
        crate::store::commit(tx).await?;
        Ok(Some(requeued))
    }
}

/// The edited job and the jobs below it whose settings change with it: each before and after. `tree` has all jobs.
fn inheritance(
    tree: &[InheritedSettings],
    before: &InheritedSettings,
    after: InheritedSettings,
) -> Vec<(InheritedSettings, InheritedSettings)> {
    let mut changed = vec![(before.clone(), after)];
    let mut done = 0;
    while let Some((old, new)) = changed.get(done).cloned() {
        done += 1;
        for child in tree.iter().filter(|job| job.parent_id == Some(old.id)) {
            let (priority, run_after, expires_at) = inherited(child.values(), old.values(), new.values());
            let child_after = InheritedSettings { priority, run_after, expires_at, ..child.clone() };
            if child_after != *child {
                changed.push((child.clone(), child_after));
            }
        }
    }
    changed
}

/// Settings of a child or an item after those of its parent have changed from `old` to `new`. A value equal to the old one
/// counts as inherited. Where `old` and `new` are equal, the value stays: an item may have been made due before the start
/// of its job.
fn inherited((priority, run_after, expires_at): Settings, old: Settings, new: Settings) -> Settings {
    (
        if priority == old.0 { new.0 } else { priority },
        if old.1 == new.1 { run_after } else { later(run_after.filter(|_| run_after != old.1), new.1) },
        if old.2 == new.2 { expires_at } else { earlier(expires_at.filter(|_| expires_at != old.2), new.2) },
    )
}

fn later(a: Option<OffsetDateTime>, b: Option<OffsetDateTime>) -> Option<OffsetDateTime> {
    a.max(b)
}

fn earlier(a: Option<OffsetDateTime>, b: Option<OffsetDateTime>) -> Option<OffsetDateTime> {
    [a, b].into_iter().flatten().min()
}

fn check_priority(priority: i16) -> Result<(), Problem> {
    if (limits::LEAST_PRIORITY..=limits::GREATEST_PRIORITY).contains(&priority) {
        return Ok(());
    }
    let fault = ("/priority".to_owned(), "expected a whole number from -100 to 100".to_owned());
    Err(Problem::invalid_body([fault]))
}

/// Requested edit for the audit log, without secrets.
fn edit_summary(body: &(impl serde::Serialize + Clone)) -> String {
    let mut fields = serde_json::to_value(body).unwrap_or_default();
    if let Some(fields) = fields.as_object_mut() {
        fields.remove("reason");
        if let Some(target) = fields.get_mut("on_completed").and_then(serde_json::Value::as_object_mut) {
            target.remove("secret");
            if let Some(url) = target.get_mut("url") {
                *url = url.as_str().and_then(|text| url::Url::parse(text).ok()).map(|url| display_url(&url)).into();
            }
        }
    }
    let text = fields.to_string();
    text.chars().take(2_000).collect()
}

fn outdated(what: &str) -> Error {
    Error::refuse(Code::PreconditionFailed, format!("The {what} has changed meanwhile. Read it again."))
}

fn not_waiting(why: &str) -> Error {
    Error::refuse(Code::AlreadyStarted, format!("Only an item that waits can be edited. {why}"))
}
