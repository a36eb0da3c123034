//! Browser state of a live list of jobs: its rows, the new jobs, and the pending rendering.
//!
//! A snapshot of the stream contains only the newest trees. Older rows are then requested by id, so that the whole page
//! is correct after an outage. Everything is rendered once per animation frame.

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

/// Milliseconds after which an unanswered request for rows is repeated.
const PAUSE: f64 = 2_000.0;
/// Rows per request: so few that the response is never truncated, however large the trees are.
const AT_ONCE: usize = 20;

struct Session {
    asked: Asked,
    rows: Vec<Row>,
    /// New jobs, each with whether it certainly matches.
    fresh: Vec<(Uuid, bool)>,
    /// Rendered notice about them.
    shown: Fresh,
    drawing: bool,
    /// Rows that are requested and not answered yet, and the time of the last request.
    wanted: Vec<Uuid>,
    asked_at: f64,
}

thread_local! {
    static SESSION: RefCell<Option<Session>> = const { RefCell::new(None) };
}

/// Starts the live list.
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
    // The timer lives as long as the page.
    let _ = set_interval_with_handle(tick, Duration::from_secs(1));
}

/// URL that requests rows: the requested ones, or all of them.
pub(super) fn address() -> String {
    SESSION.with_borrow_mut(|session| {
        let Some(session) = session else { return String::new() };
        if session.wanted.is_empty() {
            session.wanted = session.rows.iter().map(|row| row.id).collect();
        }
        let ids: Vec<String> = session.wanted.iter().take(AT_ONCE).map(Uuid::to_string).collect();
        // An empty list also sends a request, which tells whether the session is still valid.
        let which = if ids.is_empty() { "limit=1".to_owned() } else { format!("id={}", ids.join(",")) };
        format!("/api/v1/jobs?{which}")
    })
}

/// Applies a message of the stream. `newest`: it is a snapshot.
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

/// Applies the response to a request for rows. Requested rows that it does not contain are deleted.
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

/// Renders the pending state.
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

/// Called once a second.
fn tick() {
    link::tick();
    ask();
}

/// Sends a request for rows if one is due.
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
