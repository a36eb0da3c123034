//! Browser state of a live job page: the state received so far, and the pending rendering.
//!
//! Events are applied to plain data as they arrive; the signals are written once per animation frame, so a burst
//! of a thousand events causes one rendering.

use std::{cell::RefCell, time::Duration};

use domain::{Item, Job, id::Uuid, tree::change::Change};
use leptos::prelude::*;

use super::{
    announce::Announcer,
    connection,
    liveness::Liveness,
    signals::LiveSignals,
    subscription::{StreamMessage, Subscription},
};
use crate::{
    job_view::{ActiveItem, Head, Line},
    pace::{self, Pace},
};

/// Minimum milliseconds between two refreshes of the sections around the island; longer if only counts changed, which
/// every reader fetches.
const REFRESH: f64 = 1_000.0;
const COUNTS: f64 = 5_000.0;

struct Session {
    signals: LiveSignals,
    root: Option<Job>,
    items: Option<Vec<Item>>,
    pace: Pace,
    announcer: Announcer,
    title: String,
    drawing: bool,
    /// State at the last refresh of the surrounding sections, and its time.
    refreshed: (SectionBasis, f64),
}

/// State that the sections around a tree are rendered from.
#[derive(Clone, Copy, PartialEq, Eq)]
struct SectionBasis {
    completed: bool,
    dead: i64,
    is_running: bool,
    finished: i64,
    waiting_for_event: i64,
    total: i64,
}

impl SectionBasis {
    fn of(head: &Head) -> Self {
        let counts = head.meter.counts;
        Self {
            completed: head.completed(),
            dead: counts.dead,
            is_running: counts.running > 0,
            finished: counts.finished(),
            waiting_for_event: counts.waiting_for_event,
            total: counts.total(),
        }
    }

    /// Returns true if only numbers differ that are shown exactly elsewhere on the page.
    fn is_like(self, other: Self) -> bool {
        (self.completed, self.dead, self.is_running) == (other.completed, other.dead, other.is_running)
            && (self.finished > 0) == (other.finished > 0)
            && (self.waiting_for_event > 0) == (other.waiting_for_event > 0)
    }
}

thread_local! {
    static SESSION: RefCell<Option<Session>> = const { RefCell::new(None) };
}

/// Starts the live page; also of a complete tree, which can be retried.
pub(super) fn start(job: Uuid, signals: LiveSignals) {
    let head = signals.head.get_untracked();
    let session = Session {
        signals,
        root: None,
        items: None,
        pace: Pace::default(),
        announcer: Announcer::from(&head),
        title: document().title(),
        drawing: false,
        refreshed: (SectionBasis::of(&head), f64::NEG_INFINITY),
    };
    SESSION.set(Some(session));
    connection::start(Subscription::Job(job), signals.liveness, head.completed());
    // The timer lives as long as the page.
    let _ = set_interval_with_handle(tick, Duration::from_secs(1));
}

/// Applies a message of the stream.
pub(super) fn receive(message: StreamMessage) {
    let needs_frame = SESSION.with_borrow_mut(|session| {
        let Some(session) = session else { return false };
        session.apply(message);
        !std::mem::replace(&mut session.drawing, true)
    });
    if needs_frame {
        request_animation_frame(draw);
    }
}

impl Session {
    fn apply(&mut self, message: StreamMessage) {
        let (message, is_polled) = match message {
            StreamMessage::Polled(job) => (StreamMessage::Snapshot(job), true),
            message => (message, false),
        };
        let is_snapshot = matches!(message, StreamMessage::Snapshot(_));
        match (message, &mut self.root) {
            (StreamMessage::Snapshot(job), Some(root)) if job.subtree().len() == root.subtree().len() => {
                // The shape of a tree is fixed, so a snapshot is applied as a change that contains every job. An
                // older snapshot (from another server, or a poll overtaken by an event) reverts nothing.
                let jobs = job.subtree().into_iter().cloned().map(|job| Job { children: None, ..job }).collect();
                root.apply(&Change { jobs, items: Vec::new() });
            }
            (StreamMessage::Snapshot(job), root) => *root = Some(*job),
            (StreamMessage::Change(change), Some(root)) => {
                let is_late = root.is_ahead_of(&change);
                root.apply(&change);
                if !is_late {
                    self.items = Some(change.items);
                }
            }
            (StreamMessage::Change(_), None)
            | (StreamMessage::Polled(_) | StreamMessage::Roots(..) | StreamMessage::Rows(..), _) => {}
        }
        if let Some(root) = &self.root {
            // A snapshot has no items. A message with the running ones follows, if there are any; after a poll, none does.
            if is_polled || is_snapshot && Head::of(root).meter.counts.running == 0 {
                self.items = Some(Vec::new());
            }
            self.pace.note(connection::now(), root.tree.counts.finished());
        }
    }
}

/// Writes the received state into the signals.
fn draw() {
    let rendered = SESSION.with_borrow_mut(|session| {
        let session = session.as_mut()?;
        session.drawing = false;
        let root = session.root.as_ref()?;
        let (lines, left_out) = Line::of_tree(root);
        let active_items = session.items.as_ref().map(|items| ActiveItem::of_items(root, items));
        Some((session.signals, Head::of(root), lines, left_out, active_items))
    });
    // The signals are written outside the borrow, because their readers may call back.
    let Some((signals, head, lines, left_out, active_items)) = rendered else { return };
    let completed = head.completed();
    let started = signals.head.with_untracked(|before| before.started_at != head.started_at);
    signals.set_head(head);
    signals.set_lines(lines, left_out);
    let moved = started
        | if completed {
            signals.set_active_items(Vec::new())
        } else {
            active_items.is_some_and(|active_items| signals.set_active_items(active_items))
        };
    if completed {
        signals.pace.set(None);
    }
    connection::set_finished(completed);
    if moved {
        // After the effects of this frame have run, the page script formats new timestamps.
        request_animation_frame(|| dispatch_event("treeline:drawn"));
    }
    tick();
}

/// Slow updates: once a second, and after every rendering.
fn tick() {
    connection::tick();
    let refresh = SESSION.with_borrow_mut(|session| {
        let session = session.as_mut()?;
        let signals = session.signals;
        let now = connection::now();
        let liveness = signals.liveness.get_untracked();
        let head = signals.head.get_untracked();

        if let Some(text) = session.announcer.consider(now, &head, liveness) {
            signals.announcement.set(text);
        }
        let pace = (!head.completed() && liveness == Liveness::Live).then(|| in_words(&session.pace, &head)).flatten();
        if signals.pace.with_untracked(|before| *before != pace) {
            signals.pace.set(pace);
        }
        let title = match head.meter.percent {
            Some(percent) if !head.completed() => {
                format!("{} · {}", crate::t!("live-percent", n = percent), session.title)
            }
            _ => session.title.clone(),
        };
        if document().title() != title {
            document().set_title(&title);
        }

        let (before, at) = session.refreshed;
        let basis = SectionBasis::of(&head);
        let pause = if basis.is_like(before) { COUNTS } else { REFRESH };
        let due = basis != before && (basis.completed != before.completed || now - at > pause);
        if due {
            session.refreshed = (basis, now);
        }
        Some(due)
    });
    if refresh == Some(true) {
        dispatch_event("treeline:refresh");
    }
}

fn in_words(pace: &Pace, head: &Head) -> Option<String> {
    let rate = pace::per_time(pace.rate()?);
    let left = (head.meter.whole - head.meter.counts.finished()).max(0);
    Some(match pace.remaining(left).filter(|_| head.meter.percent.is_some()) {
        Some((from, to)) => format!("{rate}, {}", pace::range(from, to)),
        None => rate,
    })
}

fn dispatch_event(name: &str) {
    if let Ok(event) = web_sys::CustomEvent::new(name) {
        let _ = document().dispatch_event(&event);
    }
}
