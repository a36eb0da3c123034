//! Signals that live views read, one for each thing that changes by itself: the head, each line of the tree,
//! each active item. A change of one bar redraws only that bar.

use domain::id::Uuid;
use leptos::prelude::*;

use super::liveness::Liveness;
use crate::job_view::{ActiveItem, Head, Line};

/// Value that changes in place. Entries are identified by id.
pub struct KeyedSignal<T: 'static> {
    pub id: Uuid,
    pub value_signal: ArcRwSignal<T>,
}

impl<T> Clone for KeyedSignal<T> {
    fn clone(&self) -> Self {
        Self { id: self.id, value_signal: self.value_signal.clone() }
    }
}

/// Signals of a live page.
#[derive(Clone, Copy)]
pub struct LiveSignals {
    pub liveness: RwSignal<Liveness>,
    pub head: RwSignal<Head>,
    pub lines: RwSignal<Vec<KeyedSignal<Line>>>,
    /// Number of lines of a large tree that are not shown.
    pub left_out: RwSignal<usize>,
    pub active_items: RwSignal<Vec<KeyedSignal<ActiveItem>>>,
    /// Rate and estimate, as observed by this page.
    pub pace: RwSignal<Option<String>>,
    /// Text of the page's only status region.
    pub announcement: RwSignal<String>,
}

impl LiveSignals {
    /// Creates the signals from the server-rendered state.
    pub fn new(head: Head, lines: Vec<Line>, left_out: usize, active_items: Vec<ActiveItem>) -> Self {
        let liveness = if head.completed() { Liveness::Finished } else { Liveness::Off };
        Self {
            liveness: RwSignal::new(liveness),
            head: RwSignal::new(head),
            lines: RwSignal::new(keyed_signals(lines, |line| line.id)),
            left_out: RwSignal::new(left_out),
            active_items: RwSignal::new(keyed_signals(active_items, |active_item| active_item.id)),
            pace: RwSignal::new(None),
            announcement: RwSignal::new(String::new()),
        }
    }

    /// Sets a newer head. Returns true if it differs.
    pub fn set_head(&self, mut head: Head) -> bool {
        // A shared page does not show the name of the file.
        head.file = self.head.with_untracked(|before| before.file);
        let differs = self.head.with_untracked(|before| *before != head);
        if differs {
            self.head.set(head);
        }
        differs
    }

    /// Sets the lines of the tree.
    pub fn set_lines(&self, lines: Vec<Line>, left_out: usize) {
        update_list(self.lines, lines, |line| line.id);
        if self.left_out.get_untracked() != left_out {
            self.left_out.set(left_out);
        }
    }

    /// Sets the active items. Returns true if any were added, removed, or started again.
    pub fn set_active_items(&self, active_items: Vec<ActiveItem>) -> bool {
        let since = |entry: &KeyedSignal<ActiveItem>| (entry.id, entry.value_signal.with_untracked(|item| item.since));
        let before: Vec<_> = self.active_items.with_untracked(|entries| entries.iter().map(since).collect());
        let is_same = before.iter().copied().eq(active_items.iter().map(|item| (item.id, item.since)));
        update_list(self.active_items, active_items, |active_item| active_item.id);
        !is_same
    }
}

fn keyed_signals<T: Send + Sync>(values: Vec<T>, id: impl Fn(&T) -> Uuid) -> Vec<KeyedSignal<T>> {
    values.into_iter().map(|value| KeyedSignal { id: id(&value), value_signal: ArcRwSignal::new(value) }).collect()
}

/// Writes each changed value into the signal of its id, and the list itself only if its members or their order
/// changed.
fn update_list<T: PartialEq + Send + Sync + 'static>(
    list: RwSignal<Vec<KeyedSignal<T>>>,
    values: Vec<T>,
    id_of: impl Fn(&T) -> Uuid,
) -> bool {
    let before = list.get_untracked();
    let same_members =
        before.len() == values.len() && before.iter().zip(&values).all(|(entry, value)| entry.id == id_of(value));
    let after: Vec<KeyedSignal<T>> = values
        .into_iter()
        .map(|value| match before.iter().find(|entry| entry.id == id_of(&value)) {
            Some(entry) => {
                if entry.value_signal.with_untracked(|before| *before != value) {
                    entry.value_signal.set(value);
                }
                entry.clone()
            }
            None => KeyedSignal { id: id_of(&value), value_signal: ArcRwSignal::new(value) },
        })
        .collect();
    if !same_members {
        list.set(after);
    }
    !same_members
}
