//! Members of a bulk operation: the list is read page by page with the normal list functions; each page is frozen in
//! one commit that also moves the cursor.
//!
//! The list decides the members, so nothing here evaluates a filter. A dry run only counts.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use domain::{
    Code, Item, ItemState, Job, JobStatus,
    api::{BulkAction, BulkSample},
};
use uuid::Uuid;

use crate::{
    access::caller::Caller,
    error::{Error, Result},
    store::{
        operator::bulk::{self, BulkRow, members},
        page_range::PageRange,
        query::item_list_jobs::ItemOrder,
        tree::completion as tree_states,
    },
};

use super::{
    BulkSelection, Engine, json,
    requester::{self, requester},
};

/// Number of members per step.
const PAGE: i64 = 200;
/// Time after which another server assumes that the server taking a step is gone, in seconds.
const STEP_SECONDS: f64 = 30.0;
/// Number of pages counted during a request, and rows per page.
const RECOUNT_PAGES: usize = 5;
const RECOUNT_PAGE: i64 = 1_000;
/// Number of members in the sample of an operation.
const SAMPLE: usize = 10;

/// One page of members.
struct Page {
    found: Vec<BulkSample>,
    /// Refusals foreseen by a dry run: number of members by code.
    foreseen: BTreeMap<&'static str, i64>,
    next: Option<(i64, i64)>,
}

/// Counts one page of an operation's list; returns true if there may be more for this server.
pub(super) async fn step(engine: &Engine, id: Uuid) -> Result<bool> {
    let core = &engine.0.core;
    if !bulk::lease_scan(&core.pools.read, id, STEP_SECONDS).await? {
        return Ok(false);
    }
    let Some(row) = bulk::list(&core.pools.read, Some(id), None, PageRange::newest(None, 1)).await?.pop() else {
        return Ok(false);
    };
    let Some(caller) = requester(core, &row).await? else { return Ok(false) };
    let page = match page(engine, &caller, &row).await {
        Ok(page) => page,
        // The object of the filter is gone: the list ends here.
        Err(Error::Problem(problem)) if matches!(problem.code, Code::NotFound | Code::JobRemoved) => {
            tracing::info!(%id, %problem, "bulk operation list ended");
            Page { found: Vec::new(), foreseen: BTreeMap::new(), next: None }
        }
        Err(Error::Problem(problem)) => {
            requester::stop(core, id, &problem).await?;
            return Ok(false);
        }
        Err(error) => return Err(error),
    };
    let more = page.next.is_some();
    freeze(engine, &row, page).await?;
    Ok(more)
}

/// Number of rows of a list, or `None` if a few pages do not reach its end.
pub(super) async fn now(engine: &Engine, caller: &Caller, wanted: &BulkSelection) -> Result<Option<i64>> {
    let mut n = 0;
    let (mut items_at, mut jobs_at) = (None, None);
    for _ in 0..RECOUNT_PAGES {
        let more = match wanted {
            BulkSelection::Items(filter) => {
                let (items, next) =
                    engine.list_items(caller, filter, ItemOrder::Oldest, items_at, RECOUNT_PAGE).await?;
                n += items.len() as i64;
                items_at = next;
                next.is_some()
            }
            BulkSelection::Jobs(filter) => {
                let (jobs, next) = engine.list_jobs(caller, filter, false, jobs_at, RECOUNT_PAGE).await?;
                n += jobs.len() as i64;
                jobs_at = next;
                next.is_some()
            }
        };
        if !more {
            return Ok(Some(n));
        }
    }
    Ok(None)
}

async fn page(engine: &Engine, caller: &Caller, row: &BulkRow) -> Result<Page> {
    let wanted: BulkSelection = serde_json::from_str(&row.wanted).map_err(|e| Error::Broken(e.to_string()))?;
    let action = BulkAction::parse(&row.action).filter(|_| row.dry_run);
    let mut foreseen: BTreeMap<&'static str, i64> = BTreeMap::new();
    let mut note = |code: Option<Code>| {
        if let Some(code) = code {
            *foreseen.entry(code.as_str()).or_default() += 1;
        }
    };
    let (found, next) = match &wanted {
        BulkSelection::Items(filter) => {
            let (items, next) = engine
                .list_items(caller, filter, ItemOrder::Oldest, row.place_job_key.zip(row.place_seq), PAGE)
                .await?;
            for item in &items {
                note(action.and_then(|action| item_refusal(action, item)));
            }
            (items.iter().map(of_item).collect(), next)
        }
        BulkSelection::Jobs(filter) => {
            let (jobs, next) = engine.list_jobs(caller, filter, false, row.place_job_key, PAGE).await?;
            for job in &jobs {
                note(action.and_then(|action| job_refusal(caller, action, job)));
            }
            (jobs.iter().map(of_job).collect(), next.map(|job_state| (job_state, 0)))
        }
    };
    Ok(Page { found, foreseen, next })
}

/// Refusal that the item's current state would cause, as far as the item itself shows it.
fn item_refusal(action: BulkAction, item: &Item) -> Option<Code> {
    match (action, item.state) {
        (BulkAction::Retry, ItemState::Succeeded | ItemState::Available | ItemState::Running | ItemState::Blocked) => {
            Some(Code::NotRetryable)
        }
        (BulkAction::Cancel, state) if state.is_final() => Some(Code::ItemFinal),
        _ => None,
    }
}

/// Same for a job.
fn job_refusal(caller: &Caller, action: BulkAction, job: &Job) -> Option<Code> {
    let is_own = (caller.kind, &caller.name) == (job.owner.kind, &job.owner.name);
    match action {
        BulkAction::Delete if job.parent_id.is_some() => Some(Code::NotRoot),
        BulkAction::Delete if !is_own && !caller.is_admin() => Some(Code::Forbidden),
        BulkAction::Delete if job.tree.status != JobStatus::Completed => Some(Code::JobNotComplete),
        BulkAction::Cancel if job.tree.status == JobStatus::Completed => Some(Code::JobCompleted),
        _ => None,
    }
}

fn of_item(item: &Item) -> BulkSample {
    BulkSample {
        id: item.id,
        job_id: item.job_id,
        root_id: item.root_id,
        job_type: item.job_type.clone(),
        state: item.state.as_str().to_owned(),
        message: item.last_error.as_ref().map(|error| error.message.clone()),
    }
}

fn of_job(job: &Job) -> BulkSample {
    BulkSample {
        id: job.id,
        job_id: job.id,
        root_id: job.root_id,
        job_type: job.job_type.clone(),
        state: job.status.as_str().to_owned(),
        message: Some(job.message.clone()),
    }
}

/// Freezes a page, and holds the trees that appear for the first time. If another server has moved the cursor, nothing
/// happens.
async fn freeze(engine: &Engine, row: &BulkRow, page: Page) -> Result<()> {
    let core = &engine.0.core;
    let holds = row.action == BulkAction::Retry.as_str() && !row.dry_run;
    let mut roots_by_job_key: BTreeMap<i64, Uuid> = BTreeMap::new();
    if holds {
        let roots: BTreeSet<Uuid> = page.found.iter().map(|member| member.root_id).collect();
        let graphs = core.graphs.of_all(&core.pools.read, roots).await?;
        roots_by_job_key.extend(graphs.values().map(|graph| (graph.root_job_key(), graph.root_id)));
    }
    let own_jobs = own_jobs(engine, row, &page).await?;
    let mut tx = crate::store::begin(&core.pools.hot).await?;
    let root_job_keys: Vec<i64> = roots_by_job_key.keys().copied().collect();
    let mut alive: HashSet<Uuid> = HashSet::new();
    for job_state in tree_states::lock(&mut tx, &root_job_keys).await? {
        if !job_state.deleted {
            alive.extend(roots_by_job_key.get(&job_state.job_key));
        }
    }
    if !bulk::lock_scan(&mut tx, row).await? {
        return Ok(());
    }
    let mut found: Vec<&BulkSample> =
        page.found.iter().filter(|member| !holds || alive.contains(&member.root_id)).collect();
    if !row.dry_run {
        let ids: Vec<Uuid> = found.iter().map(|member| member.id).collect();
        let roots: Vec<Uuid> = found.iter().map(|member| member.root_id).collect();
        let new: HashSet<Uuid> =
            members::add_members(&mut tx, row.id, row.total, &ids, &roots).await?.into_iter().collect();
        found.retain(|member| new.contains(&member.id));
        if holds {
            let mut members_by_tree: BTreeMap<Uuid, i64> = BTreeMap::new();
            for member in &found {
                *members_by_tree.entry(member.root_id).or_default() += 1;
            }
            let (roots, counts): (Vec<Uuid>, Vec<i64>) = members_by_tree.into_iter().unzip();
            let first = members::add_holds(&mut tx, row.id, &roots, &counts).await?;
            let first: Vec<i64> = roots_by_job_key
                .iter()
                .filter(|(_, root_id)| first.contains(root_id))
                .map(|job_state| *job_state.0)
                .collect();
            tree_states::hold(&mut tx, &first, 1).await?;
        }
    }
    let sample = if (row.total as usize) < SAMPLE { Some(sample(row, &found)?) } else { None };
    let own = found.iter().filter(|member| own_jobs.contains(&member.job_id)).count() as i64;
    bulk::counted(&mut tx, row.id, page.next, found.len() as i64, own, sample.as_deref()).await?;
    members::count_skips(&mut tx, row.id, &page.foreseen).await?;
    crate::store::commit(tx).await?;
    Ok(())
}

/// Jobs of these members that belong to the requester.
async fn own_jobs(engine: &Engine, row: &BulkRow, page: &Page) -> Result<HashSet<Uuid>> {
    let jobs: HashSet<Uuid> = page.found.iter().map(|member| member.job_id).collect();
    let jobs: Vec<Uuid> = jobs.into_iter().collect();
    let owners = engine.owners_of(&jobs).await?;
    Ok(owners.into_iter().filter(|(_, owner_id)| *owner_id == row.actor_id).map(|(job_id, _)| job_id).collect())
}

/// Sample extended by some of these members.
fn sample(row: &BulkRow, found: &[&BulkSample]) -> Result<String> {
    let mut sample: Vec<BulkSample> = serde_json::from_str(&row.sample).map_err(|e| Error::Broken(e.to_string()))?;
    let room = SAMPLE.saturating_sub(sample.len());
    sample.extend(found.iter().take(room).map(|member| (*member).clone()));
    json(&sample)
}
