//! Summaries of all trees for lists of jobs: one reader, regardless of the number of watchers.
//!
//! Changed trees are read together, at most four times a second, and cached under an increasing number; each stream
//! sends the changes since its last number that its reader may see. A stream that is too far behind, or may have missed
//! a hint, restarts with a snapshot, which is shared within a scope. Without watchers there is no cost.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use domain::{Job, JobStatus, tree::change::Roots};
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};
use uuid::Uuid;

use engine::{Engine, access::caller::Caller, error::Result, query::TreeSummary, task::unless_silent};

use super::{Hub, LONGEST, SHORTEST};

/// Cached trees: the number of changes that a stream may be behind.
const CACHE_SIZE: usize = 1_000;
/// Trees waiting to be read; beyond it, every stream restarts.
const MAX_DIRTY: usize = 5_000;
/// Trees per read.
const BATCH_SIZE: usize = 200;
/// Newest trees in a snapshot; they are read again every second, so that lost hints heal.
const SNAPSHOT_SIZE: i64 = 100;
/// Lifetime of a snapshot.
const SNAPSHOT_LIFETIME: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct RootsTopic {
    recent: Mutex<Recent>,
    /// Number of the last change.
    seq: watch::Sender<u64>,
    wake_up: Notify,
    snapshots: Mutex<HashMap<Option<Uuid>, Cell>>,
}

/// Snapshot that is read once and shared within a scope.
type Cell = Arc<tokio::sync::Mutex<Option<Snapshot>>>;

/// Newest trees of one owner, or of all.
#[derive(Clone)]
struct Snapshot {
    read_at: Instant,
    /// Later changes may be missing from the snapshot.
    seq: u64,
    json: Arc<str>,
}

#[derive(Default)]
struct Recent {
    /// True while the pump runs, which is while there are watchers.
    running: bool,
    seq: u64,
    /// Streams that have not reached this number restart.
    floor: u64,
    cached: HashMap<Uuid, CachedTree>,
    order: BTreeSet<(u64, Uuid)>,
    dirty: HashSet<Uuid>,
    /// Frames sent since the last change, by scope and start number.
    frames: HashMap<(Option<Uuid>, u64), Option<Arc<str>>>,
}

struct CachedTree {
    seq: u64,
    owner_id: Uuid,
    root: Option<Job>,
}

impl Recent {
    /// Marks everything cached as outdated.
    fn forget(&mut self) {
        self.seq += 1;
        let (running, seq) = (self.running, self.seq);
        *self = Self { running, seq, floor: seq, ..Self::default() };
    }

    /// Caches trees that were read. On the first read, unchanged trees are cached without being broadcast. Returns true
    /// if there is something to send.
    fn update(&mut self, read: Vec<TreeSummary>, marked: &HashSet<Uuid>, first: bool) -> bool {
        let next = self.seq + 1;
        let mut has_changes = false;
        for brief in read {
            let version = |root: &Option<Job>| root.as_ref().map(|root| root.version);
            let before = self.cached.get(&brief.root_id);
            if before.is_some_and(|before| version(&before.root) == version(&brief.root)) {
                continue;
            }
            let silent = before.is_none() && first && !marked.contains(&brief.root_id);
            let seq = if silent { self.floor } else { next };
            has_changes |= !silent;
            let cached = CachedTree { seq, owner_id: brief.owner_id, root: brief.root };
            if let Some(before) = self.cached.insert(brief.root_id, cached) {
                self.order.remove(&(before.seq, brief.root_id));
            }
            self.order.insert((seq, brief.root_id));
        }
        if has_changes {
            self.seq = next;
            self.frames.clear();
        }
        while self.order.len() > CACHE_SIZE {
            let Some((seq, root_id)) = self.order.pop_first() else { break };
            self.cached.remove(&root_id);
            self.floor = self.floor.max(seq);
        }
        has_changes
    }

    /// Changes after `position` of one owner or of all, as JSON.
    fn since(&mut self, position: u64, scope: Option<Uuid>) -> Option<Arc<str>> {
        if let Some(frame) = self.frames.get(&(scope, position)) {
            return frame.clone();
        }
        let mut roots = Roots { jobs: Vec::new(), removed: Vec::new() };
        for (_, root_id) in self.order.range((position + 1, Uuid::nil())..) {
            let Some(cached) = self.cached.get(root_id) else { continue };
            if scope.is_some_and(|owner| owner != cached.owner_id) {
                continue;
            }
            match &cached.root {
                Some(job) => roots.jobs.push(job.clone()),
                None => roots.removed.push(*root_id),
            }
        }
        let nothing = roots.jobs.is_empty() && roots.removed.is_empty();
        let frame = if nothing { None } else { serde_json::to_string(&roots).ok().map(Arc::from) };
        self.frames.insert((scope, position), frame.clone());
        frame
    }

    /// Cached trees that are not complete.
    fn open(&self) -> impl Iterator<Item = Uuid> + '_ {
        let open =
            |cached: &CachedTree| cached.root.as_ref().is_some_and(|root| root.tree.status != JobStatus::Completed);
        self.cached.iter().filter(move |(_, cached)| open(cached)).map(|(root_id, _)| *root_id)
    }
}

impl RootsTopic {
    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks trees as changed.
    pub(super) fn mark(&self, roots: &[Uuid]) {
        let mut recent = self.recent();
        if !recent.running {
            return;
        }
        recent.dirty.extend(roots);
        if recent.dirty.len() > MAX_DIRTY {
            recent.forget();
            self.seq.send_replace(recent.seq);
        }
        drop(recent);
        self.wake_up.notify_one();
    }

    /// Restarts all streams, because hints may have been missed.
    pub(super) fn restart_streams(&self) {
        let mut recent = self.recent();
        if recent.running {
            recent.forget();
            self.seq.send_replace(recent.seq);
        }
    }
}

/// Next step of a stream.
pub enum Next {
    /// A snapshot: it has none, or is too far behind.
    Restart,
    /// Changes: a [`Roots`] as JSON.
    Change(Arc<str>),
    Nothing,
}

/// Watcher of the trees of one owner, or of all.
pub struct RootsWatch {
    hub: Hub,
    seen: watch::Receiver<u64>,
    scope: Option<Uuid>,
    /// Number of the last change sent.
    position: u64,
}

impl RootsWatch {
    /// Resolves when there is a change since the last call of `next_step`.
    pub async fn changed(&mut self) {
        if self.seen.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Returns the next step of this stream.
    pub fn next_step(&mut self) -> Next {
        self.seen.borrow_and_update();
        let mut recent = self.hub.0.roots.recent();
        if self.position < recent.floor {
            return Next::Restart;
        }
        let frame = recent.since(self.position, self.scope);
        self.position = recent.seq;
        frame.map_or(Next::Nothing, Next::Change)
    }

    /// Snapshot of the newest trees, as JSON of a [`Roots`]. Read at most once a second per scope.
    pub async fn snapshot(&mut self, engine: &Engine, caller: &Caller) -> Result<Arc<str>> {
        let topic = &self.hub.0.roots;
        let cell = {
            let mut cells = topic.snapshots.lock().unwrap_or_else(PoisonError::into_inner);
            if cells.len() > CACHE_SIZE {
                cells.retain(|_, cell| Arc::strong_count(cell) > 1);
            }
            Arc::clone(cells.entry(self.scope).or_default())
        };
        let mut shared_snapshot = cell.lock().await;
        let (seq, floor) = {
            let recent = topic.recent();
            (recent.seq, recent.floor)
        };
        if let Some(fresh) =
            shared_snapshot.as_ref().filter(|old| old.seq >= floor && old.read_at.elapsed() < SNAPSHOT_LIFETIME)
        {
            self.position = fresh.seq;
            return Ok(Arc::clone(&fresh.json));
        }
        let read_at = Instant::now();
        let json: Arc<str> = engine.newest_of(caller, SNAPSHOT_SIZE).await?.into();
        *shared_snapshot = Some(Snapshot { read_at, seq, json: Arc::clone(&json) });
        self.position = seq;
        Ok(json)
    }
}

impl Hub {
    /// Subscribes to all trees of an owner, or of all owners. Subscribe first, then take a snapshot, so that no change
    /// is lost.
    pub fn watch_roots(&self, engine: &Engine, scope: Option<Uuid>) -> RootsWatch {
        let mut recent = self.0.roots.recent();
        let seen = self.0.roots.seq.subscribe();
        if !recent.running {
            recent.running = true;
            recent.forget();
            self.0.roots.seq.send_replace(recent.seq);
            tokio::spawn(pump(self.clone(), engine.clone()));
        }
        drop(recent);
        RootsWatch { hub: self.clone(), seen, scope, position: 0 }
    }
}

/// Reads changed trees for all watchers, until there are none.
async fn pump(hub: Hub, engine: Engine) {
    let topic = &hub.0.roots;
    let mut full_read_at: Option<Instant> = None;
    loop {
        let read_at = Instant::now();
        let is_full_read = full_read_at.is_none_or(|at| at.elapsed() >= LONGEST);
        let (marked, mut ids, epoch) = {
            let mut recent = topic.recent();
            let marked: HashSet<Uuid> = recent.dirty.iter().take(BATCH_SIZE).copied().collect();
            recent.dirty.retain(|root_id| !marked.contains(root_id));
            let mut ids: BTreeSet<Uuid> = marked.iter().copied().collect();
            if is_full_read {
                ids.extend(recent.open().take(BATCH_SIZE));
            }
            (marked, ids, recent.floor)
        };
        let read = async {
            if is_full_read {
                ids.extend(engine.newest_roots(SNAPSHOT_SIZE).await?);
            }
            engine.tree_summaries(&ids.into_iter().collect::<Vec<_>>()).await
        };
        match unless_silent(read).await.flatten() {
            Ok((read, rest)) => {
                let mut recent = topic.recent();
                recent.dirty.extend(rest.iter().filter(|root_id| marked.contains(root_id)));
                // After a restart in between, snapshots are newer than this read.
                let first = full_read_at.is_none() || recent.floor != epoch;
                if recent.update(read, &marked, first) {
                    topic.seq.send_replace(recent.seq);
                }
                if is_full_read {
                    full_read_at = Some(read_at);
                }
            }
            Err(error) => {
                tracing::debug!(%error, "reading watched trees failed, will retry");
                topic.recent().dirty.extend(marked);
            }
        }
        {
            let mut recent = topic.recent();
            if topic.seq.receiver_count() == 0 {
                recent.running = false;
                recent.forget();
                return;
            }
            if !recent.dirty.is_empty() {
                topic.wake_up.notify_one();
            }
        }
        tokio::time::sleep_until(read_at + SHORTEST).await;
        tokio::select! {
            () = topic.wake_up.notified() => {}
            () = tokio::time::sleep_until(read_at + LONGEST) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gone(n: u128, owner: u128) -> TreeSummary {
        TreeSummary { root_id: Uuid::from_u128(n), owner_id: Uuid::from_u128(owner), root: None }
    }

    fn removed_roots(frame: Option<Arc<str>>) -> Vec<u128> {
        let roots = frame.map(|json| serde_json::from_str::<Roots>(&json).expect("JSON"));
        roots.map(|roots| roots.removed.iter().map(Uuid::as_u128).collect()).unwrap_or_default()
    }

    #[test]
    fn each_stream_gets_newer_changes_in_its_scope() {
        let mut recent = Recent::default();
        recent.forget();
        let start = recent.floor;
        let none = HashSet::new();
        assert!(!recent.update(vec![gone(1, 7)], &none, true), "read for the first time");
        assert!(recent.update(vec![gone(1, 7), gone(2, 7), gone(3, 8)], &none, false));
        assert!(!recent.update(vec![gone(2, 7)], &none, false), "unchanged");
        assert_eq!(removed_roots(recent.since(start, None)), [2, 3]);
        assert_eq!(removed_roots(recent.since(start, Some(Uuid::from_u128(8)))), [3]);
        assert_eq!(removed_roots(recent.since(recent.seq, None)), [0; 0]);
        let all: Vec<TreeSummary> = (10..10 + CACHE_SIZE as u128).map(|n| gone(n, 7)).collect();
        assert!(recent.update(all, &none, false));
        assert!(start < recent.floor, "a stream this far behind restarts");
        assert_eq!(recent.order.len(), CACHE_SIZE);
        assert_eq!(recent.cached.len(), CACHE_SIZE);
    }
}
