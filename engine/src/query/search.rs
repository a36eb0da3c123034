//! Search over everything visible to the caller: jobs, items, errors, files, workers, job types.
//!
//! Each kind uses the indexes of its list or a limited number of the newest rows, so a search costs as much as a few
//! list pages, however much is stored. Work of other owners is not found.

use domain::{
    Item, Job, Problem,
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
        query::{item_list_scan::ItemOrder, search},
    },
};

use super::{super::Engine, GroupFilter, ItemFilter, JobFilter, jobs::like_pattern};

/// Maximum number of hits per kind.
const MOST: i64 = 10;
/// Number of workers and types whose names are searched.
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
        let found = [
            (SearchKind::Jobs, jobs),
            (SearchKind::Items, items),
            (SearchKind::Errors, errors),
            (SearchKind::Uploads, uploads),
            (SearchKind::Workers, workers),
            (SearchKind::JobTypes, types),
        ];
        let groups = found.into_iter().filter(|(_, hits)| !hits.is_empty());
        let groups = groups.map(|(kind, hits)| SearchGroup { kind, hits }).collect();
        Ok(SearchResults { q: q.to_owned(), groups })
    }

    async fn jobs_with(&self, caller: &Caller, q: &str) -> Result<Vec<SearchHit>> {
        let mut filters = Vec::new();
        if let Ok(id) = Uuid::parse_str(q) {
            filters.push(("id", JobFilter { ids: vec![id], ..JobFilter::default() }));
        } else {
            let word = q.to_owned();
            filters.push(("dedupe_key", JobFilter { dedupe_key: Some(word.clone()), ..JobFilter::default() }));
            filters
                .push(("idempotency_key", JobFilter { idempotency_key: Some(word.clone()), ..JobFilter::default() }));
            filters.push(("text", JobFilter { q: Some(word), ..JobFilter::default() }));
        }
        let mut hits = Vec::new();
        for (matched, filter) in filters {
            let (jobs, _) = self.list_jobs(caller, &filter, false, None, MOST).await?;
            hits.extend(jobs.iter().map(|job| of_job(job, matched, q)));
        }
        Ok(first_distinct(hits))
    }

    async fn items_with(&self, caller: &Caller, q: &str) -> Result<Vec<SearchHit>> {
        let filter = match Uuid::parse_str(q) {
            Ok(id) => ItemFilter { ids: vec![id], ..ItemFilter::default() },
            Err(_) => ItemFilter { dedupe_key: Some(q.to_owned()), ..ItemFilter::default() },
        };
        let matched = if filter.ids.is_empty() { "dedupe_key" } else { "id" };
        let (found, _) = self.list_items(caller, &filter, ItemOrder::Newest, None, MOST).await?;
        let mut hits: Vec<SearchHit> = found.iter().map(|item| of_item(item, matched)).collect();
        let core = &self.0.core;
        let queued = search::items_of_serialize_key(core.pools.reads().await, caller.visible_owner(), q, MOST).await?;
        hits.extend(core.views(&queued, false).await?.iter().map(|item| of_item(item, "serialize_key")));
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
        let pool = self.0.core.pools.reads().await;
        let files = search::roots_of_files(pool, caller.visible_owner(), &like_pattern(q), MOST).await?;
        let ids: Vec<Uuid> = files.iter().map(|(root, _)| *root).collect();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let filter = JobFilter { ids, ..JobFilter::default() };
        let (jobs, _) = self.list_jobs(caller, &filter, false, None, MOST).await?;
        let hit = |(root, filename): (Uuid, String)| {
            let job = jobs.iter().find(|job| job.id == root)?;
            Some(SearchHit { title: filename, path: format!("/imports/{root}"), ..of_job(job, "filename", q) })
        };
        Ok(files.into_iter().filter_map(hit).collect())
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
        detail: Some(format!("{}, {}", job.job_type, job.status.as_str())),
        path: format!("/jobs/{}", job.id),
    }
}

fn of_item(item: &Item, matched: &str) -> SearchHit {
    let key = item.dedupe_key.as_ref().or(item.serialize_key.as_ref());
    SearchHit {
        id: item.id.to_string(),
        title: key.cloned().unwrap_or_else(|| format!("Item {}", grouped(item.seq))),
        matched: matched.to_owned(),
        detail: Some(format!("{}, {}", item.job_type, item.state.as_str())),
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
