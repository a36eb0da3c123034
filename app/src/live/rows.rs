//! A list of jobs while it lives: rows change in place, and nothing else.
//!
//! No row is ever moved, put in or taken out: what is new waits behind a link that loads the page again, so that
//! nobody ticks a row that has just moved under their hand. The rows and the link are the server's; the island draws
//! the indicator, and `paint` writes into the rest. A page of fifty rows is so no heavier for living.

use domain::progress::grouped;
use leptos::prelude::*;

use super::liveness::{Liveness, pill};

/// Number of new rows, and whether all of them are known to match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fresh {
    pub count: usize,
    pub unsure: bool,
}

/// New jobs that are counted; of more it is said that they are more.
pub const MOST_NEW: usize = 1_000;

impl Fresh {
    /// The link's text.
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

/// The live part of `/jobs`. `children` are the link to what is new, the rows, and what is below them.
#[island]
pub fn LiveJobs(children: Children) -> impl IntoView {
    let liveness = RwSignal::new(Liveness::Off);
    wake(liveness);
    let told = move || match liveness.get() {
        Liveness::Stale | Liveness::SignedOut => "Connection lost.",
        _ => "",
    };
    view! {
        <div class="live live-list" data-live=move || liveness.get().as_str()>
            {pill(liveness)}
            <div class="vh" role="status">
                {told}
            </div>
            {children()}
        </div>
    }
}

#[cfg(feature = "hydrate")]
fn wake(liveness: RwSignal<Liveness>) {
    // Hydration takes the page for what the signals say; so they may change only when it is through.
    queue_microtask(move || super::roots::start(liveness));
}

#[cfg(not(feature = "hydrate"))]
const fn wake(_liveness: RwSignal<Liveness>) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_to_fit_is_not_said_to() {
        assert_eq!(Fresh { count: 37, unsure: false }.words(), "Show 37 new");
        assert_eq!(Fresh { count: 1_000, unsure: false }.words(), "Show 1,000+ new");
        assert_eq!(Fresh { count: 1, unsure: true }.words(), "1 new job: see whether it fits");
        assert_eq!(Fresh { count: 2, unsure: true }.words(), "2 new jobs: see which fit");
    }
}
