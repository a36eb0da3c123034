//! Browser state of a live list of jobs: its rows, the new jobs, and the pending rendering.
//!
//! A snapshot of the stream contains only the newest trees. Older rows are then requested by id, so that the whole page
//! is correct after an outage. Everything is rendered once per animation frame.

use std::{cell::RefCell, time::Duration};

use domain::{Job, id::Uuid, query::filter::job_match::matches_job, tree::change::Roots};
use leptos::prelude::*;

use super::{
    connection,
    job_list::{MOST_NEW, NewJobs},
    job_row::{self, JobRow, RenderedQuery, RowState},
    liveness::Liveness,
    subscription::Subscription,
};

/// Milliseconds after which an unanswered request for rows is repeated.
const PAUSE: f64 = 2_000.0;
/// Rows per request: so few that the response is never truncated, however large the trees are.
const AT_ONCE: usize = 20;

struct Session {
    query: RenderedQuery,
    rows: Vec<JobRow>,
    /// New jobs, each with whether it certainly matches.
    new_jobs: Vec<(Uuid, bool)>,
    /// Rendered notice about them.
    rendered: NewJobs,
    drawing: bool,
    /// Rows that are requested and not answered yet, and the time of the last request.
    requested: Vec<Uuid>,
    requested_at: f64,
}

thread_local! {
    static SESSION: RefCell<Option<Session>> = const { RefCell::new(None) };
}

/// Starts the live list.
pub(super) fn start(liveness: RwSignal<Liveness>) {
    let session = Session {
        query: RenderedQuery::read(),
        rows: JobRow::all(),
        new_jobs: Vec::new(),
        rendered: NewJobs::default(),
        drawing: false,
        requested: Vec::new(),
        requested_at: f64::NEG_INFINITY,
    };
    SESSION.set(Some(session));
    connection::start(Subscription::Roots, liveness, false);
    // The timer lives as long as the page.
    let _ = set_interval_with_handle(tick, Duration::from_secs(1));
}

/// URL that requests rows: the requested ones, or all of them.
pub(super) fn address() -> String {
    SESSION.with_borrow_mut(|session| {
        let Some(session) = session else { return String::new() };
        if session.requested.is_empty() {
            session.requested = session.rows.iter().map(|row| row.id).collect();
        }
        let ids: Vec<String> = session.requested.iter().take(AT_ONCE).map(Uuid::to_string).collect();
        // An empty list also sends a request, which tells whether the session is still valid.
        let which = if ids.is_empty() { "limit=1".to_owned() } else { format!("id={}", ids.join(",")) };
        format!("/api/v1/jobs?{which}")
    })
}

/// Applies a message of the stream. `newest`: it is a snapshot.
pub(super) fn receive(roots: Roots, newest: bool) {
    change(|session| {
        if newest {
            let included = |id: Uuid| roots.jobs.iter().any(|job| job.id == id);
            session.requested = session.rows.iter().map(|row| row.id).filter(|&id| !included(id)).collect();
        }
        for id in roots.removed {
            session.remove(id);
        }
        session.apply(roots.jobs);
    });
    request_rows();
}

/// Applies the response to a request for rows. Requested rows that it does not contain are deleted.
pub(super) fn receive_rows(jobs: Vec<Job>, address: &str) {
    change(|session| {
        for id in std::mem::take(&mut session.requested) {
            if !address.contains(&id.to_string()) {
                session.requested.push(id);
            } else if !jobs.iter().any(|job| job.id == id) {
                session.remove(id);
            }
        }
        if !session.requested.is_empty() {
            session.requested_at = f64::NEG_INFINITY;
        }
        if !session.rows.is_empty() {
            session.apply(jobs);
        }
    });
    request_rows();
}

fn change(what: impl FnOnce(&mut Session)) {
    let needs_frame = SESSION.with_borrow_mut(|session| {
        let Some(session) = session else { return false };
        what(session);
        !std::mem::replace(&mut session.drawing, true)
    });
    if needs_frame {
        request_animation_frame(draw);
    }
}

impl Session {
    fn apply(&mut self, jobs: Vec<Job>) {
        for job in jobs {
            let job_match = matches_job(&self.query.filter, &job);
            match self.rows.iter_mut().find(|row| row.id == job.id) {
                Some(row) => row.update(job, job_match),
                None => self.add_new_job(&job, job_match),
            }
        }
    }

    fn add_new_job(&mut self, job: &Job, job_match: Option<bool>) {
        let Some(as_of) = self.query.as_of else { return };
        let new = match job_match {
            Some(job_match) => job_match && self.query.after.is_none_or(|after| job.created_at > after),
            None => job.created_at > as_of,
        };
        let position = self.new_jobs.iter().position(|new_job| new_job.0 == job.id);
        match position {
            Some(at) if !new => drop(self.new_jobs.swap_remove(at)),
            None if new && self.new_jobs.len() < MOST_NEW => self.new_jobs.push((job.id, job_match.is_some())),
            _ => {}
        }
    }

    fn remove(&mut self, id: Uuid) {
        self.new_jobs.retain(|new_job| new_job.0 != id);
        if let Some(row) = self.rows.iter_mut().find(|row| row.id == id) {
            row.row_state = RowState::Gone;
        }
    }
}

/// Renders the pending state.
fn draw() {
    SESSION.with_borrow_mut(|session| {
        let Some(session) = session else { return };
        session.drawing = false;
        session.rows.iter_mut().for_each(JobRow::paint);
        let unsure = session.new_jobs.iter().any(|new_jobs| !new_jobs.1);
        let new_jobs = NewJobs { count: session.new_jobs.len(), unsure };
        if session.rendered != new_jobs {
            session.rendered = new_jobs;
            job_row::show_new_jobs(new_jobs);
        }
    });
}

/// Called once a second.
fn tick() {
    connection::tick();
    request_rows();
}

/// Sends a request for rows if one is due.
fn request_rows() {
    let due = SESSION.with_borrow_mut(|session| {
        let Some(session) = session else { return false };
        let due = !session.requested.is_empty() && connection::now() - session.requested_at > PAUSE;
        if due {
            session.requested_at = connection::now();
        }
        due
    });
    if due {
        connection::fetch_once();
    }
}
