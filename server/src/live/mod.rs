//! Live updates: each watched tree is read at most four times a second, regardless of the number of watchers and of
//! finished items.
//!
//! A commit marks its roots dirty, here and, by a NOTIFY hint, on other servers. One pump per watched root reads the
//! tree and publishes the newest state to all its streams: a slow reader gets the latest state, never a queue. Watched
//! roots are also read once a second, so that lost hints heal. Without watchers there is no cost.

mod hints;
mod notices; // new notices
mod roots; // summaries of all trees
mod state;
mod views; // topics with one document each

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError, atomic::AtomicUsize},
    time::Duration,
};

use domain::{Job, query::topic::Topic};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use uuid::Uuid;

use engine::{Engine, access::caller::Caller, error::Error, live_updates::LiveUpdates, task::unless_silent};

pub use hints::listen;
pub use roots::{Next, RootsWatch};
pub use state::TreeState;
pub use views::{Read, State, View, ViewWatch, next_version, of_topic};

/// Shortest interval between two reads of one tree.
const SHORTEST: Duration = Duration::from_millis(250);
/// Longest interval: heals lost hints.
const LONGEST: Duration = Duration::from_secs(1);

/// Watched trees of one server. Cheap to clone.
#[derive(Clone, Default)]
pub struct Hub(Arc<Inner>);

#[derive(Default)]
struct Inner {
    topics: Mutex<HashMap<Uuid, Arc<Tree>>>,
    roots: roots::RootsTopic,
    views: views::Views,
    /// Changes to send to other servers.
    outgoing: Mutex<OutgoingHints>,
    outgoing_changed: Notify,
    /// Signals work added here since the last run of the relay.
    work_arrived: Notify,
    /// Number of open event streams.
    streams: AtomicUsize,
}

#[derive(Default)]
struct OutgoingHints {
    roots: HashSet<Uuid>,
    types: HashSet<i32>,
    topics: HashSet<Topic>,
}

struct Tree {
    state: watch::Sender<Latest>,
    dirty: Notify,
}

/// Newest state of a tree, once read.
#[derive(Clone, Default)]
pub enum Latest {
    #[default]
    Unread,
    Is(Arc<TreeState>),
    /// The tree was deleted.
    Removed,
}

/// Watcher of one tree.
pub struct Watch(watch::Receiver<Latest>);

impl Watch {
    /// Resolves when there is a state that was not yet read.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            // The pump ended with the tree; there are no further changes.
            std::future::pending::<()>().await;
        }
    }

    /// Returns the newest state and marks it as read.
    pub fn latest(&mut self) -> Latest {
        self.0.borrow_and_update().clone()
    }
}

impl LiveUpdates for Hub {
    /// Announces changed trees to their watchers, here and on other servers.
    fn touch(&self, roots: &[Uuid]) {
        if roots.is_empty() {
            return;
        }
        self.mark(roots);
        let mut outgoing = self.0.outgoing.lock().unwrap_or_else(PoisonError::into_inner);
        outgoing.roots.extend(roots);
        drop(outgoing);
        self.0.outgoing_changed.notify_one();
    }

    /// Announces a changed topic to its watchers, here and on other servers.
    fn changed(&self, topic: Topic) {
        self.0.views.mark_topic(topic);
        self.0.outgoing.lock().unwrap_or_else(PoisonError::into_inner).topics.insert(topic);
        self.0.outgoing_changed.notify_one();
    }

    /// Announces work of a type to waiting claims on other servers.
    fn work_added(&self, type_id: i32) {
        self.0.outgoing.lock().unwrap_or_else(PoisonError::into_inner).types.insert(type_id);
        self.0.outgoing_changed.notify_one();
        self.0.work_arrived.notify_one();
    }
}

impl Hub {
    /// Resolves when work was added here since the last call. A hint, for one listener.
    pub async fn work_arrived(&self) {
        self.0.work_arrived.notified().await;
    }

    /// Marks watched trees as changed, on this server only.
    fn mark(&self, roots: &[Uuid]) {
        self.0.roots.mark(roots);
        self.0.views.mark(roots);
        let topics = self.0.topics.lock().unwrap_or_else(PoisonError::into_inner);
        if topics.is_empty() {
            return;
        }
        for topic in roots.iter().filter_map(|root| topics.get(root)) {
            topic.dirty.notify_one();
        }
    }

    /// Marks every watched tree as changed, because hints may have been missed.
    fn mark_all(&self) {
        self.0.roots.restart_streams();
        self.0.views.mark_all();
        let topics = self.0.topics.lock().unwrap_or_else(PoisonError::into_inner);
        topics.values().for_each(|topic| topic.dirty.notify_one());
    }

    /// Subscribes to a tree. Subscribe first, then read, so that no change is lost.
    pub fn watch(&self, engine: &Engine, root_id: Uuid) -> Watch {
        let mut topics = self.0.topics.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(topic) = topics.get(&root_id) {
            return Watch(topic.state.subscribe());
        }
        let (state, watcher) = watch::channel(Latest::Unread);
        let topic = Arc::new(Tree { state, dirty: Notify::new() });
        topics.insert(root_id, Arc::clone(&topic));
        tokio::spawn(pump(self.clone(), engine.clone(), root_id, topic));
        Watch(watcher)
    }

    /// Returns the job once its version exceeds `version`, or its current state after `wait`. Callers that wait for one
    /// tree share one reader of it and send no queries of their own.
    pub async fn job_newer_than(
        &self,
        engine: &Engine,
        caller: &Caller,
        id: Uuid,
        version: i64,
        wait: Duration,
    ) -> Result<Job, Error> {
        let deadline = Instant::now() + wait;
        let root_id = engine.visible_job(caller, id).await?.root_id;
        let mut watch = self.watch(engine, root_id);
        loop {
            match watch.latest() {
                Latest::Is(state) => {
                    if let Some(job) = state.job(id).filter(|job| job.version > version) {
                        return Ok(job.clone());
                    }
                }
                Latest::Removed => return engine.job(caller, id, true).await,
                Latest::Unread => {}
            }
            if tokio::time::timeout_at(deadline, watch.changed()).await.is_err() {
                return engine.job(caller, id, true).await;
            }
        }
    }

    /// Counts a stream while the guard lives; `None` if there are too many.
    pub fn open_stream(&self, limit: usize) -> Option<OpenStream> {
        use std::sync::atomic::Ordering::Relaxed;
        let open = self.0.streams.fetch_add(1, Relaxed);
        let guard = OpenStream(self.clone());
        (open < limit).then_some(guard)
    }

    /// Number of open event streams.
    pub fn open_streams(&self) -> usize {
        self.0.streams.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Removes a tree without watchers. False if a watcher has arrived meanwhile.
    fn forget(&self, root_id: Uuid, topic: &Tree) -> bool {
        let mut topics = self.0.topics.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = topic.state.receiver_count() == 0;
        if idle {
            topics.remove(&root_id);
        }
        idle
    }
}

/// Open event stream, counted until it is dropped.
pub struct OpenStream(Hub);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.0.streams.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
    }
}

/// Reads one tree for all its watchers, until there are none or the tree is deleted.
async fn pump(hub: Hub, engine: Engine, root_id: Uuid, topic: Arc<Tree>) {
    let mut seq = 0;
    loop {
        let read_at = Instant::now();
        match unless_silent(read(&engine, root_id)).await.flatten() {
            Ok((job, items)) => {
                topic.state.send_if_modified(|latest| {
                    let fresh = match latest {
                        Latest::Is(before) => before.next(seq, job, items),
                        _ => Some(TreeState::first(seq, job, items)),
                    };
                    let changed = fresh.is_some();
                    if let Some(fresh) = fresh {
                        *latest = Latest::Is(Arc::new(fresh));
                        seq += 1;
                    }
                    changed
                });
            }
            Err(Error::Problem(_)) => {
                topic.state.send_replace(Latest::Removed);
                hub.0.topics.lock().unwrap_or_else(PoisonError::into_inner).remove(&root_id);
                return;
            }
            Err(error) => tracing::debug!(%error, %root_id, "reading a watched tree failed, will retry"),
        }
        if topic.state.receiver_count() == 0 && hub.forget(root_id, &topic) {
            return;
        }
        tokio::time::sleep_until(read_at + SHORTEST).await;
        tokio::select! {
            () = topic.dirty.notified() => {}
            () = tokio::time::sleep_until(read_at + LONGEST) => {}
        }
    }
}

async fn read(engine: &Engine, root_id: Uuid) -> Result<(domain::Job, Vec<domain::Item>), Error> {
    let job = engine.read_tree(root_id, root_id).await?;
    let items = engine.running_items(&job).await?;
    Ok((job, items))
}
