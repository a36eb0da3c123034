//! A row of jobs as the server drew it, and how it is written over: state, bar and numbers, each in its place. So is the
//! link to what is new.
//!
//! It writes text and attributes and touches nothing else, so focus, ticks and the row itself stay. What stands where is
//! drawn by `pages::jobs`; the browser tests hold the two together.

use domain::{Job, Time, id::Uuid, progress::grouped};
use leptos::prelude::document;
use wasm_bindgen::JsCast as _;
use web_sys::Element;

use crate::{
    components::bar::in_percent,
    live::rows::Fresh,
    meter::Meter,
    reading::{job_shape, job_word},
};

/// Query of the list, as the server wrote it beside the link to new rows.
pub(super) struct Asked {
    /// Parameters of `GET /jobs`; ages are points in time.
    pub(super) filter: Vec<(String, String)>,
    /// Created after this, a job that fits is new; `None`: whenever it was created.
    pub(super) after: Option<Time>,
    /// Time at which the page was drawn: a job that may or may not match is new if it is newer. `None`: nothing is
    /// new here, as this is not the first page.
    pub(super) as_of: Option<Time>,
}

impl Asked {
    pub(super) fn read() -> Self {
        let link = document().get_element_by_id("fresh");
        let of = |name: &str| link.as_ref()?.get_attribute(name);
        let words: Vec<String> = of("data-asked").and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        let filter = words.as_chunks().0.iter().map(|[name, value]| (name.clone(), value.clone())).collect();
        let time = |name| Time::parse(&of(name)?);
        Self { filter, after: time("data-after"), as_of: time("data-as-of") }
    }
}

/// Shows how many new jobs there are, in the link that the server drew; says once that there are some.
pub(super) fn fresh(fresh: Fresh) {
    let any = fresh.count > 0;
    let write = |id: &str, text: &str| {
        let part = document().get_element_by_id(id);
        part.inspect(|part| part.set_text_content(Some(text)))
    };
    if let Some(link) = write("fresh", &fresh.words()) {
        let _ = if any { link.remove_attribute("hidden") } else { link.set_attribute("hidden", "") };
    }
    write("fresh-told", if any { "There are new jobs. A link above the list shows them." } else { "" });
}

/// Visibility of a row if the page were loaded now.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stay {
    Fits,
    /// The filter does not meet it any more.
    Left,
    /// The job was removed.
    Gone,
}

/// One row.
pub(super) struct Row {
    pub(super) id: Uuid,
    pub(super) stay: Stay,
    version: i64,
    /// State that is not drawn yet.
    newest: Option<Job>,
    element: Element,
}

impl Row {
    /// The rows of the page.
    pub(super) fn all() -> Vec<Self> {
        let Ok(found) = document().query_selector_all("tr[data-job]") else { return Vec::new() };
        let elements = (0..found.length()).filter_map(|at| found.get(at)?.dyn_into::<Element>().ok());
        elements
            .filter_map(|element| {
                let id = Uuid::parse_str(&element.get_attribute("data-job")?).ok()?;
                let version = element.get_attribute("data-version")?.parse().ok()?;
                Some(Self { id, version, stay: Stay::Fits, newest: None, element })
            })
            .collect()
    }

    /// Takes in the job as it is now, unless that is older than what is known.
    pub(super) fn hear(&mut self, job: Job, fit: Option<bool>) {
        if job.version >= self.version && self.stay != Stay::Gone {
            self.version = job.version;
            self.stay = if fit == Some(false) { Stay::Left } else { Stay::Fits };
            self.newest = Some(job);
        }
    }

    /// Paints what is not yet painted.
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
        if self.stay == Stay::Gone {
            self.state("cancelled", "Removed");
        }
        // Such a row stays where it is, in grey.
        self.element.set_class_name(if self.stay == Stay::Fits { "" } else { "row-left" });
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
