//! Live updates: each watched tree is read at most four times a second, however many watch it and
//! however fast items end.
//!
//! A commit marks its roots dirty, here and, by a NOTIFY hint, on other servers. One pump for each
//! watched root reads the tree and puts the newest state where all its streams see it: a slow reader
//! gets the latest state, never a queue. Watched roots are read once a second anyway, so that a lost
//! hint heals. Nobody watching costs nothing.

mod hints;
mod roots; // all trees in brief
mod state;
mod views; // topics that are one document each

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError, atomic::AtomicUsize},
    time::Duration,
};

use domain::topic::Topic;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use uuid::Uuid;

use crate::{error::Error, jobs::Engine};

pub use hints::listen;
pub use roots::{Brief, Next, RootsWatch};
pub use state::TreeState;
pub use views::{Read, State, View, ViewWatch, next_version, of_topic};

/// The shortest time between two reads of one tree.
const SHORTEST: Duration = Duration::from_millis(250);
/// The longest: what heals a lost hint.
const LONGEST: Duration = Duration::from_secs(1);

/// The watched trees of one server. Cheap to clone.
#[derive(Clone, Default)]
pub struct Hub(Arc<Inner>);

#[derive(Default)]
struct Inner {
    topics: Mutex<HashMap<Uuid, Arc<Tree>>>,
    roots: roots::RootsTopic,
    views: views::Views,
    /// What other servers are to be told.
    news: Mutex<News>,
    news_came: Notify,
    /// Work was added here since the relay last looked.
    work_came: Notify,
    /// Open event streams.
    streams: AtomicUsize,
}

#[derive(Default)]
struct News {
    roots: HashSet<Uuid>,
    types: HashSet<i32>,
    topics: HashSet<Topic>,
}

struct Tree {
    state: watch::Sender<Latest>,
    dirty: Notify,
}

/// The newest state of a tree, if it was read yet.
#[derive(Clone, Default)]
pub enum Latest {
    #[default]
    Unread,
    Is(Arc<TreeState>),
    /// The tree is gone.
    Removed,
}

/// One watcher of one tree.
pub struct Watch(watch::Receiver<Latest>);

impl Watch {
    /// Resolves when there is a newer state than the one last looked at.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            // The pump ended with the tree; nothing will change any more.
            std::future::pending::<()>().await;
        }
    }

    /// The newest state; marks it as looked at.
    pub fn latest(&mut self) -> Latest {
        self.0.borrow_and_update().clone()
    }
}

impl Hub {
    /// Trees have changed: whoever watches them is told soon, here and elsewhere.
    pub fn touch(&self, roots: &[Uuid]) {
        if roots.is_empty() {
            return;
        }
        self.mark(roots);
        let mut news = self.0.news.lock().unwrap_or_else(PoisonError::into_inner);
        news.roots.extend(roots);
        drop(news);
        self.0.news_came.notify_one();
    }

    /// Tells the watchers of a topic, here and on other servers, that its state has changed; trees are told apart.
    pub fn changed(&self, topic: Topic) {
        self.0.views.mark_topic(topic);
        self.0.news.lock().unwrap_or_else(PoisonError::into_inner).topics.insert(topic);
        self.0.news_came.notify_one();
    }

    /// Work of a type can be had: waiting claims on other servers are told.
    pub fn work_added(&self, type_id: i32) {
        self.0.news.lock().unwrap_or_else(PoisonError::into_inner).types.insert(type_id);
        self.0.news_came.notify_one();
        self.0.work_came.notify_one();
    }

    /// Resolves when work was added here since the last time. A hint, for one listener.
    pub async fn work_came(&self) {
        self.0.work_came.notified().await;
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

    /// Marks every watched tree as changed: hints may have been missed.
    fn mark_all(&self) {
        self.0.roots.begin_anew();
        self.0.views.mark_all();
        let topics = self.0.topics.lock().unwrap_or_else(PoisonError::into_inner);
        topics.values().for_each(|topic| topic.dirty.notify_one());
    }

    /// Starts to watch a tree. Subscribe first, then read: nothing is missed in between.
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

    /// Counts an open stream for as long as the guard lives; `None` when there are too many.
    pub fn open_stream(&self, limit: usize) -> Option<OpenStream> {
        use std::sync::atomic::Ordering::Relaxed;
        let open = self.0.streams.fetch_add(1, Relaxed);
        let guard = OpenStream(self.clone());
        (open < limit).then_some(guard)
    }

    /// Event streams that are open now.
    pub fn open_streams(&self) -> usize {
        self.0.streams.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Forgets a tree that nobody watches any more. False: somebody came meanwhile.
    fn forget(&self, root_id: Uuid, topic: &Tree) -> bool {
        let mut topics = self.0.topics.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = topic.state.receiver_count() == 0;
        if idle {
            topics.remove(&root_id);
        }
        idle
    }
}

/// An open event stream, counted until it is dropped.
pub struct OpenStream(Hub);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.0.streams.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
    }
}

/// Reads one tree for all who watch it, until nobody does or it is gone.
async fn pump(hub: Hub, engine: Engine, root_id: Uuid, topic: Arc<Tree>) {
    let mut seq = 0;
    loop {
        let read_at = Instant::now();
        match read(&engine, root_id).await {
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
            Err(error) => tracing::debug!(%error, %root_id, "a watched tree could not be read; trying again"),
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
    let items = engine.flights(&job).await?;
    Ok((job, items))
}
