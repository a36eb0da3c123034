//! Browser state of a live job page: the state received so far, and the pending rendering.
//!
//! Events are applied to plain data as they arrive; the signals are written once per animation frame, so a burst
//! of a thousand events causes one rendering.

use std::{cell::RefCell, time::Duration};

use domain::{Item, Job, change::Change, id::Uuid};
use leptos::prelude::*;

use super::{
    announce::Announcer,
    board::Board,
    link,
    liveness::Liveness,
    watched::{Heard, Watched},
};
use crate::{
    pace::{self, Pace},
    reading::{Flight, Head, Line},
};

/// Minimum milliseconds between two refreshes of the sections around the island; longer if only counts changed, which
/// every reader fetches.
const REFRESH: f64 = 1_000.0;
const COUNTS: f64 = 5_000.0;

struct Session {
    board: Board,
    root: Option<Job>,
    items: Option<Vec<Item>>,
    pace: Pace,
    announcer: Announcer,
    title: String,
    drawing: bool,
    /// State at the last refresh of the surrounding sections, and its time.
    refreshed: (Around, f64),
}

/// State that the sections around a tree are rendered from.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Around {
    completed: bool,
    dead: i64,
    is_running: bool,
    finished: i64,
    total: i64,
}

impl Around {
    fn of(head: &Head) -> Self {
        let counts = head.meter.counts;
        Self {
            completed: head.completed(),
            dead: counts.dead,
            is_running: counts.running > 0,
            finished: counts.finished(),
            total: counts.total(),
        }
    }

    /// Returns true if only numbers differ that are shown exactly elsewhere on the page.
    fn is_like(self, other: Self) -> bool {
        (self.completed, self.dead, self.is_running) == (other.completed, other.dead, other.is_running)
            && (self.finished > 0) == (other.finished > 0)
    }
}

thread_local! {
    static SESSION: RefCell<Option<Session>> = const { RefCell::new(None) };
}

/// Starts the live page; also of a complete tree, which can be retried.
pub(super) fn start(job: Uuid, board: Board) {
    let head = board.head.get_untracked();
    let session = Session {
        board,
        root: None,
        items: None,
        pace: Pace::default(),
        announcer: Announcer::from(&head),
        title: document().title(),
        drawing: false,
        refreshed: (Around::of(&head), f64::NEG_INFINITY),
    };
    SESSION.set(Some(session));
    link::start(Watched::Job(job), board.liveness, head.completed());
    // The timer lives as long as the page.
    let _ = set_interval_with_handle(tick, Duration::from_secs(1));
}

/// Applies a message of the stream.
pub(super) fn hear(heard: Heard) {
    let draw_soon = SESSION.with_borrow_mut(|session| {
        let Some(session) = session else { return false };
        session.take_in(heard);
        !std::mem::replace(&mut session.drawing, true)
    });
    if draw_soon {
        request_animation_frame(draw);
    }
}

impl Session {
    fn take_in(&mut self, heard: Heard) {
        match (heard, &mut self.root) {
            (Heard::Snapshot(job), Some(root)) if job.walk().len() == root.walk().len() => {
                // The shape of a tree is fixed, so a snapshot is applied as a change that contains every job. An
                // older snapshot (from another server, or a poll overtaken by an event) reverts nothing.
                let jobs = job.walk().into_iter().cloned().map(|job| Job { children: None, ..job }).collect();
                root.apply(&Change { jobs, items: Vec::new() });
            }
            (Heard::Snapshot(job), root) => *root = Some(*job),
            (Heard::Change(change), Some(root)) => {
                root.apply(&change);
                self.items = Some(change.items);
            }
            (Heard::Change(_), None) | (Heard::Roots(..) | Heard::Rows(..), _) => {}
        }
        if let Some(root) = &self.root {
            self.pace.note(link::now(), root.tree.counts.finished());
        }
    }
}

/// Writes the received state into the signals.
fn draw() {
    let drawn = SESSION.with_borrow_mut(|session| {
        let session = session.as_mut()?;
        session.drawing = false;
        let root = session.root.as_ref()?;
        let (lines, left_out) = Line::of_tree(root);
        let flights = session.items.as_ref().map(|items| Flight::of_items(root, items));
        Some((session.board, Head::of(root), lines, left_out, flights))
    });
    // The signals are written outside the borrow, because their readers may call back.
    let Some((board, head, lines, left_out, flights)) = drawn else { return };
    let completed = head.completed();
    let started = board.head.with_untracked(|before| before.started_at != head.started_at);
    board.show_head(head);
    board.show_lines(lines, left_out);
    let moved = started
        | if completed {
            board.show_flights(Vec::new())
        } else {
            flights.is_some_and(|flights| board.show_flights(flights))
        };
    if completed {
        board.pace.set(None);
    }
    link::set_finished(completed);
    if moved {
        // After the effects of this frame have run, the page script formats new timestamps.
        request_animation_frame(|| tell_page("treeline:drawn"));
    }
    tick();
}

/// Slow updates: once a second, and after every rendering.
fn tick() {
    link::tick();
    let refresh = SESSION.with_borrow_mut(|session| {
        let session = session.as_mut()?;
        let board = session.board;
        let now = link::now();
        let liveness = board.liveness.get_untracked();
        let head = board.head.get_untracked();

        if let Some(text) = session.announcer.consider(now, &head, liveness) {
            board.announcement.set(text);
        }
        let pace = (!head.completed() && liveness == Liveness::Live).then(|| in_words(&session.pace, &head)).flatten();
        if board.pace.with_untracked(|before| *before != pace) {
            board.pace.set(pace);
        }
        let title = match head.meter.percent {
            Some(percent) if !head.completed() => format!("{percent}% · {}", session.title),
            _ => session.title.clone(),
        };
        if document().title() != title {
            document().set_title(&title);
        }

        let (before, at) = session.refreshed;
        let around = Around::of(&head);
        let pause = if around.is_like(before) { COUNTS } else { REFRESH };
        let due = around != before && (around.completed != before.completed || now - at > pause);
        if due {
            session.refreshed = (around, now);
        }
        Some(due)
    });
    if refresh == Some(true) {
        tell_page("treeline:refresh");
    }
}

fn in_words(seen: &Pace, head: &Head) -> Option<String> {
    let rate = pace::per_time(seen.rate()?);
    let left = (head.meter.whole - head.meter.counts.finished()).max(0);
    Some(match seen.remaining(left).filter(|_| head.meter.percent.is_some()) {
        Some((from, to)) => format!("{rate}, {}", pace::range(from, to)),
        None => rate,
    })
}

fn tell_page(name: &str) {
    if let Ok(event) = web_sys::CustomEvent::new(name) {
        let _ = document().dispatch_event(&event);
    }
}
