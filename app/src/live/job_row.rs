//! A server-rendered row of a job list, updated in place: state, bar and numbers; and the link to new jobs.
//!
//! It changes only text and attributes, so focus, selection and the row itself stay. The markup is rendered by
//! `pages::jobs`; browser tests keep the two consistent.

use crate::speech::grouped;
use domain::{Job, Time, id::Uuid};
use leptos::prelude::document;
use wasm_bindgen::JsCast as _;
use web_sys::Element;

use crate::{
    components::bar::in_percent,
    job_view::{job_shape, job_word},
    live::job_list::NewJobs,
    meter::Meter,
};

/// Query of the list, as the server rendered it on the link to new jobs.
pub(super) struct RenderedQuery {
    /// Parameters of `GET /jobs`; ages are points in time.
    pub(super) filter: Vec<(String, String)>,
    /// A matching job is new if it was created after this; `None`: always.
    pub(super) after: Option<Time>,
    /// Render time. A job that may match is new if it was created later. `None`: not the first page, so no job is new.
    pub(super) as_of: Option<Time>,
}

impl RenderedQuery {
    pub(super) fn read() -> Self {
        let link = document().get_element_by_id("new-jobs");
        let of = |name: &str| link.as_ref()?.get_attribute(name);
        let words: Vec<String> = of("data-query").and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        let filter = words.as_chunks().0.iter().map(|[name, value]| (name.clone(), value.clone())).collect();
        let time = |name| Time::parse(&of(name)?);
        Self { filter, after: time("data-after"), as_of: time("data-as-of") }
    }
}

/// Shows the number of new jobs in the server-rendered link, and announces the first of them once.
pub(super) fn show_new_jobs(new_jobs: NewJobs) {
    let any = new_jobs.count > 0;
    let write = |id: &str, text: &str| {
        let part = document().get_element_by_id(id);
        part.inspect(|part| part.set_text_content(Some(text)))
    };
    if let Some(link) = write("new-jobs", &new_jobs.words()) {
        let _ = if any { link.remove_attribute("hidden") } else { link.set_attribute("hidden", "") };
    }
    write("new-jobs-status", if any { "There are new jobs. A link above the list shows them." } else { "" });
}

/// State of a row relative to a reload of the page.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RowState {
    Fits,
    /// The job no longer matches the filter.
    Left,
    /// The job was deleted.
    Gone,
}

/// One row.
pub(super) struct JobRow {
    pub(super) id: Uuid,
    pub(super) row_state: RowState,
    version: i64,
    /// State that is not rendered yet.
    newest: Option<Job>,
    element: Element,
}

impl JobRow {
    /// The rows of the page.
    pub(super) fn all() -> Vec<Self> {
        let Ok(found) = document().query_selector_all("tr[data-job]") else { return Vec::new() };
        let elements = (0..found.length()).filter_map(|at| found.get(at)?.dyn_into::<Element>().ok());
        elements
            .filter_map(|element| {
                let id = Uuid::parse_str(&element.get_attribute("data-job")?).ok()?;
                let version = element.get_attribute("data-version")?.parse().ok()?;
                Some(Self { id, version, row_state: RowState::Fits, newest: None, element })
            })
            .collect()
    }

    /// Takes a newer state of the job; ignores an older one.
    pub(super) fn update(&mut self, job: Job, fit: Option<bool>) {
        if job.version >= self.version && self.row_state != RowState::Gone {
            self.version = job.version;
            self.row_state = if fit == Some(false) { RowState::Left } else { RowState::Fits };
            self.newest = Some(job);
        }
    }

    /// Renders the pending state.
    pub(super) fn paint(&mut self) {
        if let Some(job) = self.newest.take() {
            self.state(job_shape(job.tree.status, job.tree.outcome), job_word(job.tree.status, job.tree.outcome));
            let meter = Meter::of_tree(&job);
            for segment in meter.segments() {
                let which = format!(".seg-{}", segment.state.as_str());
                self.set(&which, "x", &in_percent(segment.from));
                self.set(&which, "width", &in_percent(segment.width));
            }
            match meter.percent {
                Some(percent) => self.set(".bar", "aria-valuenow", &percent.to_string()),
                None => drop(self.part(".bar").map(|bar| bar.remove_attribute("aria-valuenow"))),
            }
            self.set(".bar", "aria-valuetext", &meter.in_words());
            self.write(".meter-number", &meter.number());
            for (which, n) in [("Done", meter.counts.succeeded), ("Failed", meter.counts.dead), ("All", meter.whole)] {
                self.write(&format!("[data-label={which}]"), &grouped(n));
            }
        }
        if self.row_state == RowState::Gone {
            self.state("cancelled", "Removed");
        }
        // Such a row stays in place and is grayed out.
        self.element.set_class_name(if self.row_state == RowState::Fits { "" } else { "row-left" });
    }

    fn state(&self, shape: &str, word: &str) {
        self.set(".state", "class", &format!("state s-{shape} badge"));
        self.set(".state use", "href", &format!("#i-{shape}"));
        self.write(".state-word", word);
    }

    fn part(&self, which: &str) -> Option<Element> {
        self.element.query_selector(which).ok().flatten()
    }

    fn set(&self, which: &str, name: &str, value: &str) {
        if let Some(part) = self.part(which) {
            let _ = part.set_attribute(name, value);
        }
    }

    fn write(&self, which: &str, text: &str) {
        if let Some(part) = self.part(which).filter(|part| part.text_content().as_deref() != Some(text)) {
            part.set_text_content(Some(text));
        }
    }
}
