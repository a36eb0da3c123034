//! Signals that live views read, one for each thing that changes by itself: the head, each line of the tree,
//! each active item. A change of one bar redraws only that bar.

use domain::id::Uuid;
use leptos::prelude::*;

use super::liveness::Liveness;
use crate::reading::{Flight, Head, Line};

/// Value that changes in place. Entries are identified by id.
pub struct Kept<T: 'static> {
    pub id: Uuid,
    pub now: ArcRwSignal<T>,
}

impl<T> Clone for Kept<T> {
    fn clone(&self) -> Self {
        Self { id: self.id, now: self.now.clone() }
    }
}

/// Signals of a live page.
#[derive(Clone, Copy)]
pub struct Board {
    pub liveness: RwSignal<Liveness>,
    pub head: RwSignal<Head>,
    pub lines: RwSignal<Vec<Kept<Line>>>,
    /// Number of lines of a large tree that are not shown.
    pub left_out: RwSignal<usize>,
    pub flights: RwSignal<Vec<Kept<Flight>>>,
    /// Rate and estimate, as observed by this page.
    pub pace: RwSignal<Option<String>>,
    /// Text of the page's only status region.
    pub announcement: RwSignal<String>,
}

impl Board {
    /// Creates the signals from the server-rendered state.
    pub fn new(head: Head, lines: Vec<Line>, left_out: usize, flights: Vec<Flight>) -> Self {
        let liveness = if head.completed() { Liveness::Finished } else { Liveness::Off };
        Self {
            liveness: RwSignal::new(liveness),
            head: RwSignal::new(head),
            lines: RwSignal::new(keep(lines, |line| line.id)),
            left_out: RwSignal::new(left_out),
            flights: RwSignal::new(keep(flights, |flight| flight.id)),
            pace: RwSignal::new(None),
            announcement: RwSignal::new(String::new()),
        }
    }

    /// Sets a newer head. Returns true if it differs.
    pub fn show_head(&self, mut head: Head) -> bool {
        // A shared page does not show the name of the file.
        head.file = self.head.with_untracked(|before| before.file);
        let differs = self.head.with_untracked(|before| *before != head);
        if differs {
            self.head.set(head);
        }
        differs
    }

    /// Sets the lines of the tree.
    pub fn show_lines(&self, lines: Vec<Line>, left_out: usize) {
        show(self.lines, lines, |line| line.id);
        if self.left_out.get_untracked() != left_out {
            self.left_out.set(left_out);
        }
    }

    /// Sets the active items. Returns true if any were added or removed.
    pub fn show_flights(&self, flights: Vec<Flight>) -> bool {
        show(self.flights, flights, |flight| flight.id)
    }
}

fn keep<T: Send + Sync>(values: Vec<T>, id: impl Fn(&T) -> Uuid) -> Vec<Kept<T>> {
    values.into_iter().map(|value| Kept { id: id(&value), now: ArcRwSignal::new(value) }).collect()
}

/// Writes each changed value into the signal of its id, and the list itself only if its members or their order
/// changed.
fn show<T: PartialEq + Send + Sync + 'static>(
    kept: RwSignal<Vec<Kept<T>>>,
    values: Vec<T>,
    id_of: impl Fn(&T) -> Uuid,
) -> bool {
    let before = kept.get_untracked();
    let same_members =
        before.len() == values.len() && before.iter().zip(&values).all(|(kept, value)| kept.id == id_of(value));
    let after: Vec<Kept<T>> = values
        .into_iter()
        .map(|value| match before.iter().find(|kept| kept.id == id_of(&value)) {
            Some(kept) => {
                if kept.now.with_untracked(|before| *before != value) {
                    kept.now.set(value);
                }
                kept.clone()
            }
            None => Kept { id: id_of(&value), now: ArcRwSignal::new(value) },
        })
        .collect();
    if !same_members {
        kept.set(after);
    }
    !same_members
}
