//! The life of a list of jobs in the browser: what is known of its rows, what is new, and when it is drawn.
//!
//! A snapshot of the stream carries the newest trees only; rows that are older are then asked for by their ids, so
//! that after a break the whole page is true again. The signals are written once per animation frame.

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
    time::Duration,
};

use domain::{Job, api::Page, change::Roots, filter::fit::fits, id::Uuid};
use leptos::prelude::*;

use super::{
    link,
    rows::{Fresh, Listed, MOST_NEW, Row, RowBoard, Stay},
    watched::Watched,
};

/// Milliseconds between two questions for rows.
const PAUSE: f64 = 2_000.0;

struct Session {
    board: RowBoard,
    listed: Listed,
    /// The rows as they are known; drawn or not.
    known: HashMap<Uuid, Row>,
    /// Rows that are to be drawn.
    changed: HashSet<Uuid>,
    /// New jobs, and whether each is known to fit.
    fresh: HashMap<Uuid, bool>,
    drawing: bool,
    /// Rows that have to be asked for, until they are answered; when they were asked for last.
    wanted: HashSet<Uuid>,
    asked_at: f64,
}

thread_local! {
    static SESSION: RefCell<Option<Session>> = const { RefCell::new(None) };
}

/// Begins to live.
pub(super) fn start(listed: Listed, board: RowBoard) {
    let known = listed.rows.iter().map(|row| (row.id, row.clone())).collect();
    let session = Session {
        board,
        listed,
        known,
        changed: HashSet::new(),
        fresh: HashMap::new(),
        drawing: false,
        wanted: HashSet::new(),
        asked_at: f64::NEG_INFINITY,
    };
    SESSION.set(Some(session));
    link::start(Watched::Roots, board.liveness);
    // As long as the page.
    let _ = set_interval_with_handle(tick, Duration::from_secs(1));
}

/// Where rows are asked for: those that are wanted, else all.
pub(super) fn address() -> String {
    SESSION.with_borrow_mut(|session| {
        let Some(session) = session else { return "/api/v1/jobs?limit=1".to_owned() };
        if session.wanted.is_empty() {
            session.wanted.extend(session.known.keys());
        }
        let ids: Vec<String> = session.wanted.iter().map(Uuid::to_string).collect();
        // An empty list asks for something, too: that it may is the answer.
        let which = if ids.is_empty() { "limit=1".to_owned() } else { format!("limit=1000&id={}", ids.join(",")) };
        format!("/api/v1/jobs?{which}")
    })
}

/// Takes in what the stream said. `newest`: a snapshot.
pub(super) fn hear(roots: Roots, newest: bool) {
    change(|session| {
        if newest {
            let told: HashSet<Uuid> = roots.jobs.iter().map(|job| job.id).collect();
            session.wanted.extend(session.known.keys().filter(|id| !told.contains(id)));
        }
        for id in roots.removed {
            session.remove(id);
        }
        for job in &roots.jobs {
            session.take_in(job);
        }
    });
    ask();
}

/// Takes in rows that were asked for by an address. What it names and is not among them is gone, unless there is more
/// to the answer.
pub(super) fn answered(page: &Page<Job>, address: &str) {
    change(|session| {
        for job in &page.data {
            if session.wanted.remove(&job.id) {
                session.take_in(job);
            }
        }
        if page.next_cursor.is_none() {
            let gone: Vec<Uuid> =
                session.wanted.iter().filter(|id| address.contains(&id.to_string())).copied().collect();
            for id in gone {
                session.wanted.remove(&id);
                session.remove(id);
            }
        }
    });
}

fn change(what: impl FnOnce(&mut Session)) {
    let draw_soon = SESSION.with_borrow_mut(|session| {
        let Some(session) = session else { return false };
        what(session);
        !std::mem::replace(&mut session.drawing, true)
    });
    if draw_soon {
        request_animation_frame(draw);
    }
}

impl Session {
    fn take_in(&mut self, job: &Job) {
        let fit = fits(&self.listed.asked, job);
        if let Some(row) = self.known.get_mut(&job.id) {
            if job.version >= row.version && row.stay != Stay::Gone {
                let stay = if fit == Some(false) { Stay::Left } else { Stay::Fits };
                *row = Row { stay, ..Row::of(job) };
                self.changed.insert(job.id);
            }
            return;
        }
        let Some(news) = self.listed.news else { return };
        let new = match fit {
            Some(true) => news.floor.is_none_or(|floor| job.created_at > floor),
            Some(false) => false,
            None => job.created_at > news.as_of,
        };
        if !new {
            self.fresh.remove(&job.id);
        } else if self.fresh.len() < MOST_NEW || self.fresh.contains_key(&job.id) {
            self.fresh.insert(job.id, fit.is_some());
        }
    }

    fn remove(&mut self, id: Uuid) {
        self.fresh.remove(&id);
        if let Some(row) = self.known.get_mut(&id) {
            row.stay = Stay::Gone;
            self.changed.insert(id);
        }
    }
}

/// Writes what is known into the signals.
fn draw() {
    let drawn = SESSION.with_borrow_mut(|session| {
        let session = session.as_mut()?;
        session.drawing = false;
        let changed: Vec<Row> = session.changed.drain().filter_map(|id| session.known.get(&id)).cloned().collect();
        let fresh = Fresh { count: session.fresh.len(), unsure: session.fresh.values().any(|sure| !sure) };
        Some((session.board, changed, fresh))
    });
    // The signals are written outside the borrow: what reads them may call back.
    let Some((board, changed, fresh)) = drawn else { return };
    let rows = board.rows.with_value(Clone::clone);
    for row in changed {
        if let Some(kept) = rows.iter().find(|kept| kept.id == row.id)
            && kept.now.with_untracked(|before| *before != row)
        {
            kept.now.set(row);
        }
    }
    if board.fresh.get_untracked() != fresh {
        board.fresh.set(fresh);
    }
}

/// Once a second.
fn tick() {
    link::tick();
    ask();
}

/// Asks for the rows where that is due.
fn ask() {
    let due = SESSION.with_borrow_mut(|session| {
        let Some(session) = session else { return false };
        let due = !session.wanted.is_empty() && link::now() - session.asked_at > PAUSE;
        if due {
            session.asked_at = link::now();
        }
        due
    });
    if due {
        link::look();
    }
}
