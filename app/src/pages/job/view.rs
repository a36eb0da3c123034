//! Views of a job: its summary, and tabs with one view each. Links with `?view=`, so that they work without a script.

use crate::speech::grouped;
use domain::{
    Job,
    query::filter::{Term, lists::List},
};
use leptos::prelude::*;

use crate::pages::operator::dead_letters;

/// View of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JobView {
    #[default]
    Summary,
    Graph,
    Timeline,
    Results,
    Activity,
}

impl JobView {
    const ALL: [Self; 5] = [Self::Summary, Self::Graph, Self::Timeline, Self::Results, Self::Activity];

    /// Value of the query parameter `view`; an unknown one is the summary.
    pub fn read(word: &str) -> Self {
        Self::ALL.into_iter().find(|view| view.word() == word).unwrap_or_default()
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Summary => "summary",
            Self::Graph => "graph",
            Self::Timeline => "timeline",
            Self::Results => "results",
            Self::Activity => "activity",
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Summary => "Summary",
            Self::Graph => "Graph",
            Self::Timeline => "Timeline",
            Self::Results => "Results",
            Self::Activity => "Activity",
        }
    }

    /// URL of this view.
    pub(super) fn address(self, job: &Job) -> String {
        match self {
            Self::Summary => format!("/jobs/{}", job.id),
            view => format!("/jobs/{}?view={}", job.id, view.word()),
        }
    }
}

/// Links to the views, and to the job's items.
pub(super) fn tabs(job: &Job, chosen: JobView, term: &Term) -> AnyView {
    // As the lists: of a whole tree, and below its root of the job alone.
    let counts = if job.parent_id.is_none() { job.tree.counts } else { job.counts };
    let tab = |view: JobView| {
        let count = match view {
            JobView::Graph => Some(job.subtree().len() as i64),
            JobView::Results => Some(counts.succeeded),
            _ => None,
        };
        view! {
            <a href=view.address(job) aria-current=(view == chosen).then_some("page")>
                {view.title()}
                {count.map(|count| view! { <span class="count">{grouped(count)}</span> })}
            </a>
        }
    };
    let items = dead_letters::rows_of("/items", List::Items, vec![term.clone()]);
    view! {
        <nav class="tabs" aria-label="Views of the job" id="tabs" data-refresh="">
            {[JobView::Summary, JobView::Graph, JobView::Timeline].map(tab).collect_view()}
            <a href=items>"Items" <span class="count">{grouped(counts.total())}</span></a>
            {[JobView::Results, JobView::Activity].map(tab).collect_view()}
        </nav>
    }
    .into_any()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_are_found_by_their_words() {
        for view in JobView::ALL {
            assert_eq!(JobView::read(view.word()), view);
        }
        assert_eq!(JobView::read("nothing"), JobView::Summary);
    }
}
