//! The life of a list of jobs in the browser: what is known of its rows, what is new, and when it is drawn.
//!
//! A snapshot of the stream carries the newest trees only; rows that are older are then asked for by their ids, so
//! that after a break the whole page is true again. All is drawn once per animation frame.

use std::{cell::RefCell, time::Duration};

use domain::{Job, change::Roots, filter::fit::fits, id::Uuid};
use leptos::prelude::*;

use super::{
    link,
    liveness::Liveness,
    paint::{self, Asked, Row, Stay},
    rows::{Fresh, MOST_NEW},
    watched::Watched,
};

/// Milliseconds after which a question for rows that was not answered is asked again.
const PAUSE: f64 = 2_000.0;
/// Rows that are asked for at once: an answer of so few is never cut short, however large their trees.
const AT_ONCE: usize = 20;

struct Session {
    asked: Asked,
    rows: Vec<Row>,
    /// New jobs, and whether each is known to fit.
    fresh: Vec<(Uuid, bool)>,
    /// Notice about them on the page.
    shown: Fresh,
    drawing: bool,
    /// Rows that have to be asked for, until they are answered; when they were asked for last.
    wanted: Vec<Uuid>,
    asked_at: f64,
}

thread_local! {
    static SESSION: RefCell<Option<Session>> = const { RefCell::new(None) };
}

/// Begins to live.
pub(super) fn start(liveness: RwSignal<Liveness>) {
    let session = Session {
        asked: Asked::read(),
        rows: Row::all(),
        fresh: Vec::new(),
        shown: Fresh::default(),
        drawing: false,
        wanted: Vec::new(),
        asked_at: f64::NEG_INFINITY,
    };
    SESSION.set(Some(session));
    link::start(Watched::Roots, liveness, false);
    // As long as the page.
    let _ = set_interval_with_handle(tick, Duration::from_secs(1));
}

/// Address for rows: of some wanted trees, or of all.
pub(super) fn address() -> String {
    SESSION.with_borrow_mut(|session| {
        let Some(session) = session else { return String::new() };
        if session.wanted.is_empty() {
            session.wanted = session.rows.iter().map(|row| row.id).collect();
        }
        let ids: Vec<String> = session.wanted.iter().take(AT_ONCE).map(Uuid::to_string).collect();
        // An empty list asks for something, too: that it may is the answer.
        let which = if ids.is_empty() { "limit=1".to_owned() } else { format!("id={}", ids.join(",")) };
        format!("/api/v1/jobs?{which}")
    })
}

/// Takes in what the stream said. `newest`: a snapshot.
pub(super) fn hear(roots: Roots, newest: bool) {
    change(|session| {
        if newest {
            let told = |id: Uuid| roots.jobs.iter().any(|job| job.id == id);
            session.wanted = session.rows.iter().map(|row| row.id).filter(|&id| !told(id)).collect();
        }
        for id in roots.removed {
            session.remove(id);
        }
        session.take_in(roots.jobs);
    });
    ask();
}

/// Takes in rows that were asked for by an address. What it names and is not among them is gone.
pub(super) fn answered(jobs: Vec<Job>, address: &str) {
    change(|session| {
        for id in std::mem::take(&mut session.wanted) {
            if !address.contains(&id.to_string()) {
                session.wanted.push(id);
            } else if !jobs.iter().any(|job| job.id == id) {
                session.remove(id);
            }
        }
        if !session.wanted.is_empty() {
            session.asked_at = f64::NEG_INFINITY;
        }
        if !session.rows.is_empty() {
            session.take_in(jobs);
        }
    });
    ask();
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
    fn take_in(&mut self, jobs: Vec<Job>) {
        for job in jobs {
            let fit = fits(&self.asked.filter, &job);
            match self.rows.iter_mut().find(|row| row.id == job.id) {
                Some(row) => row.hear(job, fit),
                None => self.news(&job, fit),
            }
        }
    }

    fn news(&mut self, job: &Job, fit: Option<bool>) {
        let Some(as_of) = self.asked.as_of else { return };
        let new = match fit {
            Some(fit) => fit && self.asked.after.is_none_or(|after| job.created_at > after),
            None => job.created_at > as_of,
        };
        let known = self.fresh.iter().position(|fresh| fresh.0 == job.id);
        match known {
            Some(at) if !new => drop(self.fresh.swap_remove(at)),
            None if new && self.fresh.len() < MOST_NEW => self.fresh.push((job.id, fit.is_some())),
            _ => {}
        }
    }

    fn remove(&mut self, id: Uuid) {
        self.fresh.retain(|fresh| fresh.0 != id);
        if let Some(row) = self.rows.iter_mut().find(|row| row.id == id) {
            row.stay = Stay::Gone;
        }
    }
}

/// Paints what is known.
fn draw() {
    SESSION.with_borrow_mut(|session| {
        let Some(session) = session else { return };
        session.drawing = false;
        session.rows.iter_mut().for_each(Row::paint);
        let unsure = session.fresh.iter().any(|fresh| !fresh.1);
        let fresh = Fresh { count: session.fresh.len(), unsure };
        if session.shown != fresh {
            session.shown = fresh;
            paint::fresh(fresh);
        }
    });
}

/// Once a second.
fn tick() {
    link::tick();
    ask();
}

/// Asks for rows where that is due.
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
