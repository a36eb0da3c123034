//! `/jobs/{id}?view=activity`: what people and services did to the tree of a job, from the audit log.

use std::collections::HashMap;

use domain::identity::audit::AuditEntry;
use leptos::prelude::*;

use super::super::audit;
use crate::components::panel::{empty, next_page};

/// Entries, newest first, and the URL of the next page.
#[derive(Clone, Debug, Default)]
pub struct Activity {
    pub entries: Vec<AuditEntry>,
    pub next: Option<String>,
    /// The reader may open the whole audit log.
    pub staff: bool,
}

pub(super) fn activity(activity: &Activity) -> AnyView {
    let list = if activity.entries.is_empty() {
        let link = view! { <a class="btn" href="?">"Summary"</a> }.into_any();
        empty("No entries", "What people and services do to this job and its items is recorded here.", link)
    } else {
        view! {
            {audit::entries(&activity.entries, &HashMap::new(), activity.staff)}
            {next_page(activity.next.as_ref(), "Older")}
        }
        .into_any()
    };
    view! {
        <section class="card" id="activity" data-refresh="" aria-labelledby="activity-heading">
            <div class="card-head">
                <h2 id="activity-heading">"Activity"</h2>
                <span class="sub">"audit log of this tree, newest first"</span>
                {activity.staff.then(|| view! { <div class="end"><a href="/audit">"Audit log"</a></div> })}
            </div>
            {list}
        </section>
    }
    .into_any()
}
