//! Topics with one document each: the failures of an owner, one item, the operations.
//!
//! A view is read once per topic and scope for all its watchers: after a commit that may concern it, at most four times
//! a second, and also once a second, so that lost hints heal. Only the newest state is stored. The follower supplies
//! the function that reads; this module decides when, and for whom.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use domain::query::topic::Topic;
use futures::future::BoxFuture;
use tokio::{
    sync::{Notify, Semaphore, watch},
    time::Instant,
};
use uuid::Uuid;

use engine::{Engine, error::Result, task::unless_silent};

use super::{Hub, LONGEST, SHORTEST};

/// Concurrent reads of views per server, so that they never occupy the whole pool of the pages.
const MAX_CONCURRENT_READS: usize = 8;
/// Trees waiting for the lookup of their owners; beyond it, the views of all owners are read.
const MAX_DIRTY: usize = 5_000;
/// Longest interval between two reads of a person's notices, which every page shows: new ones are found by `notices`.
const LONGEST_NOTICES: Duration = Duration::from_secs(10);
/// Pause after a read, as a multiple of its duration.
const PAUSE_FACTOR: u32 = 3;

/// Topic in one scope.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct View {
    pub topic: Topic,
    /// Owner of the contents; `None` means all owners.
    pub owner: Option<Uuid>,
    /// True for the version of admins, or of notices the one of staff, if others see less.
    pub is_admin: bool,
}

/// Function that reads a view: its state as a JSON object; `None` if the subject no longer exists.
pub type Read = Arc<dyn Fn() -> BoxFuture<'static, Result<Option<String>>> + Send + Sync>;

/// Newest state of a view.
#[derive(Clone, Debug, Default)]
pub enum State {
    #[default]
    Unread,
    /// Data of its event.
    Is(Arc<str>),
    Gone,
}

/// Watcher of one view.
pub struct ViewWatch(watch::Receiver<State>);

impl ViewWatch {
    /// Waits for the next state that this watcher has not seen. Skips intermediate states.
    pub async fn next(&mut self) -> State {
        loop {
            if self.0.changed().await.is_err() {
                return State::Gone;
            }
            let state = self.0.borrow_and_update().clone();
            if !matches!(state, State::Unread) {
                return state;
            }
        }
    }
}

struct Followed {
    state: watch::Sender<State>,
    dirty: Notify,
}

/// Views of one server.
pub(super) struct Views {
    index: Mutex<Index>,
    /// Number of views, readable without the lock.
    n: AtomicUsize,
    wake_up: Notify,
    reads: Semaphore,
    /// Number of reads since startup.
    n_read: AtomicU64,
}

impl Default for Views {
    fn default() -> Self {
        Self {
            index: Mutex::default(),
            n: AtomicUsize::new(0),
            wake_up: Notify::new(),
            reads: Semaphore::new(MAX_CONCURRENT_READS),
            n_read: AtomicU64::new(0),
        }
    }
}

#[derive(Default)]
struct Index {
    views: HashMap<View, Arc<Followed>>,
    /// Views of one tree, unaffected by other trees.
    of_trees: HashMap<Uuid, HashSet<View>>,
    /// Views of one owner that depend on trees.
    of_owners: HashMap<Uuid, HashSet<View>>,
    /// Views that depend on the trees of all owners.
    of_all: HashSet<View>,
    /// Changed trees whose owners' views must be marked.
    dirty: HashSet<Uuid>,
    /// True if more trees changed than are stored.
    is_flooded: bool,
    /// True while the task that marks owners' views runs.
    is_routed: bool,
}

/// Returns true for topics that change with commits in trees.
const fn shows_trees(topic: Topic) -> bool {
    matches!(topic, Topic::Failures | Topic::Imports | Topic::Deliveries)
}

impl Index {
    fn insert_view(&mut self, view: View, root_id: Option<Uuid>, followed: Arc<Followed>) {
        if let Some(root_id) = root_id {
            self.of_trees.entry(root_id).or_default().insert(view.clone());
        } else if shows_trees(view.topic) {
            match view.owner {
                Some(owner) => self.of_owners.entry(owner).or_default().insert(view.clone()),
                None => self.of_all.insert(view.clone()),
            };
        }
        self.views.insert(view, followed);
    }

    fn remove_view(&mut self, view: &View, root_id: Option<Uuid>) {
        self.views.remove(view);
        self.of_all.remove(view);
        for (of, key) in [(&mut self.of_trees, root_id), (&mut self.of_owners, view.owner)] {
            let Some(key) = key else { continue };
            if let Some(views) = of.get_mut(&key) {
                views.remove(view);
                if views.is_empty() {
                    of.remove(&key);
                }
            }
        }
    }

    fn wake(&self, views: &HashSet<View>) {
        for followed in views.iter().filter_map(|view| self.views.get(view)) {
            followed.dirty.notify_one();
        }
    }
}

impl Views {
    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks trees as changed.
    pub(super) fn mark(&self, roots: &[Uuid]) {
        if self.n.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut index = self.index();
        index.wake(&index.of_all);
        if !index.of_trees.is_empty() {
            for views in roots.iter().filter_map(|root| index.of_trees.get(root)) {
                index.wake(views);
            }
        }
        if !index.of_owners.is_empty() {
            index.dirty.extend(roots);
            if index.dirty.len() > MAX_DIRTY {
                index.dirty.clear();
                index.is_flooded = true;
            }
            drop(index);
            self.wake_up.notify_one();
        }
    }

    /// Marks a topic as changed for a reason other than a tree.
    pub(super) fn mark_topic(&self, topic: Topic) {
        if self.n.load(Ordering::Relaxed) == 0 {
            return;
        }
        let index = self.index();
        let of_topic = index.views.iter().filter(|(view, _)| view.topic == topic);
        of_topic.for_each(|(_, followed)| followed.dirty.notify_one());
    }

    /// Marks a topic as changed for these owners.
    pub(super) fn mark_owners(&self, topic: Topic, owners: &HashSet<Uuid>) {
        if owners.is_empty() {
            return;
        }
        let index = self.index();
        let of_owners = index
            .views
            .iter()
            .filter(|(view, _)| view.topic == topic && view.owner.is_some_and(|owner| owners.contains(&owner)));
        of_owners.for_each(|(_, followed)| followed.dirty.notify_one());
    }

    /// Returns true if somebody watches this topic.
    pub(super) fn has_topic(&self, topic: Topic) -> bool {
        self.n.load(Ordering::Relaxed) > 0 && self.index().views.keys().any(|view| view.topic == topic)
    }

    /// Marks all views as changed.
    pub(super) fn mark_all(&self) {
        self.index().views.values().for_each(|followed| followed.dirty.notify_one());
    }
}

impl Hub {
    /// Follows a view, which `read` reads for all watchers of its scope. A view of one tree names its root.
    pub fn follow(&self, engine: &Engine, view: View, root_id: Option<Uuid>, read: Read) -> ViewWatch {
        let views = &self.0.views;
        let mut index = views.index();
        if let Some(followed) = index.views.get(&view) {
            let mut seen = followed.state.subscribe();
            seen.mark_changed();
            return ViewWatch(seen);
        }
        let (state, seen) = watch::channel(State::Unread);
        let followed = Arc::new(Followed { state, dirty: Notify::new() });
        index.insert_view(view.clone(), root_id, Arc::clone(&followed));
        views.n.store(index.views.len(), Ordering::Relaxed);
        if !index.of_owners.is_empty() && !std::mem::replace(&mut index.is_routed, true) {
            tokio::spawn(route(self.clone(), engine.clone()));
        }
        drop(index);
        tokio::spawn(pump(self.clone(), view, root_id, followed, read));
        ViewWatch(seen)
    }

    /// Number of followed views.
    pub fn open_views(&self) -> usize {
        self.0.views.n.load(Ordering::Relaxed)
    }

    /// Number of reads of views since startup.
    pub fn view_reads(&self) -> u64 {
        self.0.views.n_read.load(Ordering::Relaxed)
    }

    /// Removes a view that has no watchers or is `gone`. False if a watcher has arrived meanwhile.
    fn unfollow(&self, view: &View, root_id: Option<Uuid>, followed: &Followed, gone: bool) -> bool {
        let mut index = self.0.views.index();
        let over = gone || followed.state.receiver_count() == 0;
        if over {
            index.remove_view(view, root_id);
            self.0.views.n.store(index.views.len(), Ordering::Relaxed);
            if index.of_owners.is_empty() {
                self.0.views.wake_up.notify_one();
            }
        }
        over
    }
}

/// Reads one view for all its watchers, until there are none or it is gone.
async fn pump(hub: Hub, view: View, root_id: Option<Uuid>, followed: Arc<Followed>, read: Read) {
    let prefix = format!("{{\"topic\":\"{}\"", view.topic);
    // An item has its own version.
    let has_version = matches!(view.topic, Topic::Item(_));
    let longest = if view.topic == Topic::Notices { LONGEST_NOTICES } else { LONGEST };
    let mut version = 0;
    let mut last = String::new();
    loop {
        let Ok(permit) = hub.0.views.reads.acquire().await else { return };
        let read_at = Instant::now();
        hub.0.views.n_read.fetch_add(1, Ordering::Relaxed);
        let state = unless_silent(read()).await.flatten();
        drop(permit);
        match state {
            Ok(Some(json)) if json != last => {
                version = next_version(version);
                let data = with_topic(&prefix, (!has_version).then_some(version), &json);
                followed.state.send_replace(State::Is(data.into()));
                last = json;
            }
            Ok(Some(_)) => {}
            Ok(None) => {
                followed.state.send_replace(State::Gone);
                hub.unfollow(&view, root_id, &followed, true);
                return;
            }
            Err(error) => tracing::debug!(%error, topic = %view.topic, "reading a topic failed, will retry"),
        }
        if followed.state.receiver_count() == 0 && hub.unfollow(&view, root_id, &followed, false) {
            return;
        }
        let took = read_at.elapsed();
        tokio::time::sleep_until(read_at + SHORTEST.max(took * (PAUSE_FACTOR + 1))).await;
        tokio::select! {
            () = followed.dirty.notified() => {}
            () = tokio::time::sleep_until(read_at + longest) => {}
        }
    }
}

/// Marks the owners' views that a changed tree concerns, as long as there are such views.
async fn route(hub: Hub, engine: Engine) {
    let views = &hub.0.views;
    loop {
        views.wake_up.notified().await;
        let (dirty, is_flooded): (Vec<Uuid>, bool) = {
            let mut index = views.index();
            if index.of_owners.is_empty() {
                index.dirty.clear();
                index.is_flooded = false;
                index.is_routed = false;
                return;
            }
            (index.dirty.drain().collect(), std::mem::take(&mut index.is_flooded))
        };
        let owners = unless_silent(engine.owners_of(&dirty)).await.flatten();
        let index = views.index();
        match owners {
            // A deleted tree has no owner here: mark the views of all owners.
            Ok(owners) if !is_flooded && owners.len() == dirty.len() => {
                let owners: HashSet<Uuid> = owners.into_values().collect();
                owners.iter().filter_map(|owner| index.of_owners.get(owner)).for_each(|of| index.wake(of));
            }
            _ => index.of_owners.values().for_each(|of| index.wake(of)),
        }
    }
}

/// Increasing version from this server's clock, so that it continues after another server or a restart.
pub fn next_version(before: i64) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(now.as_micros()).unwrap_or(i64::MAX).max(before + 1)
}

/// Adds the topic to an object, and a version if it has none. `prefix` is the start of the object.
fn with_topic(prefix: &str, version: Option<i64>, object: &str) -> String {
    let rest = object.strip_prefix('{').unwrap_or("}");
    let comma = if rest == "}" { "" } else { "," };
    match version {
        Some(version) => format!("{prefix},\"version\":{version}{comma}{rest}"),
        None => format!("{prefix}{comma}{rest}"),
    }
}

/// Data of an event: an object with its topic, and a version if it has none.
pub fn of_topic(topic: Topic, version: Option<i64>, object: &str) -> String {
    with_topic(&format!("{{\"topic\":\"{topic}\""), version, object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_has_its_topic_and_its_version() {
        assert_eq!(of_topic(Topic::Types, Some(7), r#"{"a":1}"#), r#"{"topic":"types","version":7,"a":1}"#);
        assert_eq!(of_topic(Topic::Types, None, r#"{"version":1}"#), r#"{"topic":"types","version":1}"#);
        assert_eq!(of_topic(Topic::Roots, None, "{}"), r#"{"topic":"roots"}"#);
    }

    #[test]
    fn a_version_only_grows() {
        let now = next_version(0);
        assert!(now > 1_700_000_000_000_000);
        assert_eq!(next_version(i64::MAX - 1), i64::MAX);
    }

    #[test]
    fn a_removed_view_leaves_nothing() {
        let mut index = Index::default();
        let owner = Some(Uuid::from_u128(7));
        let tree = Some(Uuid::from_u128(9));
        let view = |topic, owner| View { topic, owner, is_admin: false };
        let all = [
            (view(Topic::Failures, owner), None),
            (view(Topic::Imports, owner), None),
            (view(Topic::Failures, None), None),
            (view(Topic::Workers, owner), None),
            (view(Topic::Item(Uuid::from_u128(8)), None), tree),
        ];
        for (view, root_id) in &all {
            let (state, _) = watch::channel(State::Unread);
            index.insert_view(view.clone(), *root_id, Arc::new(Followed { state, dirty: Notify::new() }));
        }
        assert_eq!((index.of_owners.len(), index.of_all.len(), index.of_trees.len()), (1, 1, 1));
        for (view, root_id) in &all {
            index.remove_view(view, *root_id);
        }
        assert!(index.views.is_empty() && index.of_owners.is_empty());
        assert!(index.of_all.is_empty() && index.of_trees.is_empty());
    }
}
