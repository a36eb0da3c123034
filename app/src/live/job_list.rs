//! Live list of jobs: rows change in place, and nothing else.
//!
//! No row is moved, inserted or removed. New jobs wait behind a link that reloads the page, so that nobody selects a
//! row that has just moved. The server renders the rows and the link; the island renders the indicator, and `job_row`
//! updates the rest. So a live page of fifty rows is no larger than a static one.

use crate::speech::grouped;
use leptos::prelude::*;

use super::liveness::{Liveness, pill};

/// Number of new jobs, and whether some of them may not match the filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewJobs {
    pub count: usize,
    pub unsure: bool,
}

/// Maximum number of new jobs that are counted.
pub const MOST_NEW: usize = 1_000;

impl NewJobs {
    /// Label of the link.
    pub fn words(self) -> String {
        let more = if self.count >= MOST_NEW { "+" } else { "" };
        let n = format!("{}{more}", grouped(self.count as i64));
        match (self.unsure, self.count) {
            (false, _) => format!("Show {n} new"),
            (true, 1) => "1 new job: see whether it fits".to_owned(),
            (true, _) => format!("{n} new jobs: see which fit"),
        }
    }
}

/// Live part of `/jobs`. `children` are the link to new jobs, the rows, and the content below them.
#[island]
pub fn LiveJobs(children: Children) -> impl IntoView {
    let liveness = RwSignal::new(Liveness::Off);
    wake(liveness);
    let status = move || match liveness.get() {
        Liveness::Stale | Liveness::SignedOut => "Connection lost, numbers may be out of date.",
        _ => "",
    };
    view! {
        <div class="live live-list" data-live=move || liveness.get().as_str()>
            {pill(liveness)}
            <div class="vh" role="status">
                {status}
            </div>
            {children()}
        </div>
    }
}

#[cfg(feature = "hydrate")]
fn wake(liveness: RwSignal<Liveness>) {
    // Hydration assumes that the signals match the page, so they may change only after it.
    queue_microtask(move || super::job_list_session::start(liveness));
}

#[cfg(not(feature = "hydrate"))]
const fn wake(_liveness: RwSignal<Liveness>) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uncertain_matches_are_worded_as_uncertain() {
        assert_eq!(NewJobs { count: 37, unsure: false }.words(), "Show 37 new");
        assert_eq!(NewJobs { count: 1_000, unsure: false }.words(), "Show 1,000+ new");
        assert_eq!(NewJobs { count: 1, unsure: true }.words(), "1 new job: see whether it fits");
        assert_eq!(NewJobs { count: 2, unsure: true }.words(), "2 new jobs: see which fit");
    }
}
