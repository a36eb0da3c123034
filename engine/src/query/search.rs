//! Search over everything visible to the caller: jobs, items, errors, files, workers, job types, and what has a name.
//!
//! Each kind uses the indexes of its list or a limited number of the newest rows, so a search costs as much as a few
//! list pages, however much is stored. Work of other owners is not found.

mod names; // operations, schedules, people, services, saved views

use domain::{
    Item, ItemState, Job, JobStatus, Outcome, Problem, Time,
    api::{SearchGroup, SearchHit, SearchKind, SearchResults},
    dispatch::progress::grouped,
    limits::LONGEST_KEY,
};
use uuid::Uuid;

use crate::{
    access::caller::{Caller, Scope},
    error::Result,
    store::{
        page_range::{NamedOrder, NamedPageRange},
        query::{
            item_list_jobs::ItemOrder,
            search,
            search_keys::{self, KeyRange},
        },
    },
};

use super::{super::Engine, GroupFilter, ItemFilter, JobFilter, jobs::like_pattern};

/// Maximum number of hits per kind.
const MOST: i64 = 10;
/// Number of workers, types, and views whose names are searched.
const NAMES: i64 = 1_000;

impl Engine {
    /// Searches everything visible to the caller for these words.
    pub async fn search(&self, caller: &Caller, words: &str) -> Result<SearchResults> {
        caller.require(Scope::JobsRead)?;
        let q = words.trim();
        if q.is_empty() || q.chars().count() > LONGEST_KEY || q.contains('\0') {
            let expected = format!("expected 1 to {LONGEST_KEY} characters");
            return Err(Problem::parameter("q", &expected).into());
        }
        let (jobs, items, errors, uploads, workers, types) = tokio::try_join!(
            self.jobs_with(caller, q),
            self.items_with(caller, q),
            self.errors_with(caller, q),
            self.files_with(caller, q),
            self.workers_with(caller, q),
            self.types_with(caller, q),
        )?;
        // One after another, as a search must not take all connections.
        let (operations, schedules) = (self.operations_with(caller, q).await?, self.schedules_with(caller, q).await?);
        let (people, services) = (self.people_with(caller, q).await?, self.services_with(caller, q).await?);
        let views = self.views_with(caller, q).await?;
        let found = [
            (SearchKind::Jobs, jobs),
            (SearchKind::Items, items),
            (SearchKind::Errors, errors),
            (SearchKind::Uploads, uploads),
            (SearchKind::Workers, workers),
            (SearchKind::JobTypes, types),
            (SearchKind::Schedules, schedules),
            (SearchKind::Views, views),
            (SearchKind::BulkOperations, operations),
            (SearchKind::People, people),
            (SearchKind::Services, services),
        ];
        let groups = found.into_iter().filter(|(_, hits)| !hits.is_empty());
        let groups = groups.map(|(kind, hits)| SearchGroup { kind, hits }).collect();
        Ok(SearchResults { q: q.to_owned(), groups })
    }

    async fn jobs_with(&self, caller: &Caller, q: &str) -> Result<Vec<SearchHit>> {
        let (pool, owner, keys) =
            (self.0.core.pools.reads().await, caller.visible_owner(), KeyRange::beginning_with(q));
        let of_ids = |ids| JobFilter { ids, ..JobFilter::default() };
        let (id, word) = (Uuid::parse_str(q).ok(), Some(q.to_owned()));
        let mut filters: Vec<(&str, JobFilter)> = id.map(|id| ("id", of_ids(vec![id]))).into_iter().collect();
        filters.push(("dedupe_key", JobFilter { dedupe_key: word.clone(), ..JobFilter::default() }));
        filters.push(("idempotency_key", JobFilter { idempotency_key: word.clone(), ..JobFilter::default() }));
        let beginnings = [
            ("dedupe_key", search_keys::jobs_of_dedupe_key(pool, owner, &keys, MOST).await?),
            ("idempotency_key", search_keys::roots_of_idempotency_key(pool, owner, &keys, MOST).await?),
        ];
        let beginnings = beginnings.into_iter().filter(|(_, ids)| !ids.is_empty());
        filters.extend(beginnings.map(|(matched, ids)| (matched, of_ids(ids))));
        if id.is_none() {
            filters.push(("text", JobFilter { q: word, ..JobFilter::default() }));
        }
        let mut hits = Vec::new();
        for (matched, filter) in filters {
            let (jobs, _) = self.list_jobs(caller, &filter, false, None, MOST).await?;
            hits.extend(jobs.iter().map(|job| of_job(job, matched, q)));
        }
        Ok(first_distinct(hits))
    }

    async fn items_with(&self, caller: &Caller, q: &str) -> Result<Vec<SearchHit>> {
        let core = &self.0.core;
        let (pool, owner, keys) = (core.pools.reads().await, caller.visible_owner(), KeyRange::beginning_with(q));
        let of_ids = |ids| ItemFilter { ids, ..ItemFilter::default() };
        let mut filters: Vec<(&str, ItemFilter)> =
            Uuid::parse_str(q).map(|id| ("id", of_ids(vec![id]))).into_iter().collect();
        filters.push(("dedupe_key", ItemFilter { dedupe_key: Some(q.to_owned()), ..ItemFilter::default() }));
        let ids = search_keys::items_of_dedupe_key(pool, owner, &keys, MOST).await?;
        if !ids.is_empty() {
            filters.push(("dedupe_key", of_ids(ids)));
        }
        let mut hits: Vec<SearchHit> = Vec::new();
        for (matched, filter) in filters {
            let (found, _) = self.list_items(caller, &filter, ItemOrder::Newest, None, MOST).await?;
            hits.extend(found.iter().map(|item| of_item(item, matched)));
        }
        let mut serialized = search_keys::pending_items_of_serialize_key(pool, owner, &keys, MOST).await?;
        serialized.extend(search_keys::all_items_of_serialize_key(pool, owner, &keys, MOST).await?);
        hits.extend(core.views(&serialized, false).await?.iter().map(|item| of_item(item, "serialize_key")));
        Ok(first_distinct(hits))
    }

    async fn errors_with(&self, caller: &Caller, q: &str) -> Result<Vec<SearchHit>> {
        let filter = GroupFilter { q: Some(q.to_owned()), ..GroupFilter::default() };
        let groups = self.groups(caller, &filter, MOST).await?;
        let hit = |group: domain::api::ErrorGroup| SearchHit {
            path: format!("/dead?error={}", group.fingerprint),
            id: group.fingerprint,
            title: group.message,
            matched: "message".to_owned(),
            detail: Some(format!("{}, {} failed", group.job_type, grouped(group.count))),
        };
        Ok(groups.into_iter().map(hit).collect())
    }

    async fn files_with(&self, caller: &Caller, q: &str) -> Result<Vec<SearchHit>> {
        let (pool, id, pattern) = (self.0.core.pools.reads().await, Uuid::parse_str(q).ok(), like_pattern(q));
        let stored = search::files(pool, caller.visible_owner(), id, &pattern, MOST).await?;
        let matched = if id.is_some() { "id" } else { "filename" };
        let stored = stored.into_iter().map(|file| of_file(file, caller, matched)).collect();
        if id.is_some() {
            return Ok(stored);
        }
        let files = search::roots_of_files(pool, caller.visible_owner(), &pattern, MOST).await?;
        let ids: Vec<Uuid> = files.iter().map(|(root, _)| *root).collect();
        if ids.is_empty() {
            return Ok(stored);
        }
        let filter = JobFilter { ids, ..JobFilter::default() };
        let (jobs, _) = self.list_jobs(caller, &filter, false, None, MOST).await?;
        let hit = |(root, filename): (Uuid, String)| {
            let job = jobs.iter().find(|job| job.id == root)?;
            Some(SearchHit { title: filename, path: format!("/imports/{root}"), ..of_job(job, "filename", q) })
        };
        Ok(first_distinct(stored.into_iter().chain(files.into_iter().filter_map(hit)).collect()))
    }

    async fn workers_with(&self, caller: &Caller, q: &str) -> Result<Vec<SearchHit>> {
        if !may_open_staff_pages(caller) {
            return Ok(Vec::new());
        }
        let workers = self.workers(caller, NamedOrder::NewestFirst, None, NAMES).await?;
        let named =
            workers.into_iter().map(|(_, worker)| worker).filter(|worker| contains_ignoring_case(&worker.worker_id, q));
        let hit = |worker: domain::api::Worker| SearchHit {
            path: format!("/items?q=worker:{}", encoded(&format!("\"{}\"", worker.worker_id.replace('"', "\\\"")))),
            title: worker.worker_id.clone(),
            matched: "name".to_owned(),
            detail: Some(format!("{}, {} in progress", worker.owner, grouped(worker.open))),
            id: worker.worker_id,
        };
        Ok(named.take(MOST as usize).map(hit).collect())
    }

    async fn types_with(&self, caller: &Caller, q: &str) -> Result<Vec<SearchHit>> {
        if !may_open_staff_pages(caller) {
            return Ok(Vec::new());
        }
        let core = &self.0.core;
        let types = crate::store::tree::job_types::list(
            core.pools.reads().await,
            &core.sealer,
            &NamedPageRange::by_name(NAMES),
        )
        .await?;
        let named = types.into_iter().filter(|it| contains_ignoring_case(&it.name, q));
        let hit = |it: domain::JobType| SearchHit {
            path: format!("/types/{}", it.name),
            title: it.name.clone(),
            matched: "name".to_owned(),
            detail: it.paused.then(|| "paused".to_owned()),
            id: it.name,
        };
        Ok(named.take(MOST as usize).map(hit).collect())
    }
}

/// False for people without a staff role: they may not open the pages of workers and job types.
fn may_open_staff_pages(caller: &Caller) -> bool {
    caller.role.is_none() || caller.sees_all()
}

fn of_job(job: &Job, matched: &str, q: &str) -> SearchHit {
    // Name the field in which the text was found.
    let name = job.name.as_deref().unwrap_or_default();
    let matched = match matched {
        "text" if contains_ignoring_case(name, q) => "name",
        "text" if contains_ignoring_case(&job.key, q) => "key",
        other => other,
    };
    SearchHit {
        id: job.id.to_string(),
        title: if name.is_empty() { job.key.clone() } else { name.to_owned() },
        matched: matched.to_owned(),
        detail: Some(format!("{}, {}, {}", job.job_type, job_state(job), date(job.created_at))),
        path: format!("/jobs/{}", job.id),
    }
}

/// State of a job with the jobs below it, in the words of the pages.
const fn job_state(job: &Job) -> &'static str {
    match (job.tree.status, job.tree.outcome) {
        (JobStatus::Waiting, _) => "waiting",
        (JobStatus::Running, _) => "in progress",
        (JobStatus::Cancelling, _) => "canceling",
        (JobStatus::Completed, Some(Outcome::Partial)) => "partly failed",
        (JobStatus::Completed, Some(Outcome::Failed)) => "failed",
        (JobStatus::Completed, Some(Outcome::Cancelled)) => "canceled",
        (JobStatus::Completed, _) => "completed",
    }
}

/// State of an item in the words of the pages.
const fn item_state(state: ItemState) -> &'static str {
    match state {
        ItemState::Dead => "failed",
        ItemState::Running => "in progress",
        ItemState::Retryable => "retrying",
        ItemState::Available => "waiting",
        ItemState::WaitingForEvent => "waiting for an event",
        ItemState::Cancelled => "canceled",
        other => other.as_str(),
    }
}

/// Date in UTC, such as `Nov 15, 2026`.
fn date(at: Time) -> String {
    format!("{:.3} {}, {}", at.0.month().to_string(), at.0.day(), at.0.year())
}

/// A stored file: the import that was made of it, the import that its owner may begin, or its content.
fn of_file(file: search::FoundFile, caller: &Caller, matched: &str) -> SearchHit {
    let path = match file.root_id {
        Some(root) => format!("/imports/{root}"),
        None if file.owner_id == caller.owner_id && !file.is_export => format!("/imports/new?upload_id={}", file.id),
        None => format!("/api/v1/uploads/{}/content", file.id),
    };
    SearchHit {
        id: file.id.to_string(),
        title: file.filename,
        matched: matched.to_owned(),
        detail: Some(format!("{} bytes", grouped(file.bytes))),
        path,
    }
}

fn of_item(item: &Item, matched: &str) -> SearchHit {
    let key = item.dedupe_key.as_ref().or(item.serialize_key.as_ref());
    SearchHit {
        id: item.id.to_string(),
        title: key.cloned().unwrap_or_else(|| format!("Item {}", grouped(item.seq))),
        matched: matched.to_owned(),
        detail: Some(format!("{}, {}, {}", item.job_type, item_state(item.state), date(item.created_at))),
        path: format!("/items/{}", item.id),
    }
}

/// First ten hits without duplicates; each is kept with the first field that matched.
fn first_distinct(hits: Vec<SearchHit>) -> Vec<SearchHit> {
    let mut first: Vec<SearchHit> = Vec::new();
    for hit in hits {
        if first.iter().all(|it| it.id != hit.id) && first.len() < MOST as usize {
            first.push(hit);
        }
    }
    first
}

/// True if the name contains the words, ignoring case.
fn contains_ignoring_case(name: &str, words: &str) -> bool {
    name.to_lowercase().contains(&words.to_lowercase())
}

fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}
