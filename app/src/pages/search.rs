//! `/search`: search results in groups, each hit a link. A GET form, so that a search has a URL.

use domain::api::{SearchGroup, SearchHit, SearchKind, SearchResults};
use leptos::prelude::*;

use crate::frame::{NavSection, Page};

/// A search and its results.
#[derive(Clone, Debug, Default)]
pub struct Search {
    pub q: String,
    /// `None` before the first search.
    pub results: Option<SearchResults>,
    /// Error in the query.
    pub fault: Option<String>,
}

/// Renders the form and the results.
pub fn page(search: &Search) -> Page {
    let found = match &search.results {
        None => view! { <p class="note">"Searches ids, names, keys, file names, workers, and error messages."</p> }
            .into_any(),
        Some(results) if results.groups.is_empty() => {
            let text = format!("Nothing that you can see matches \u{201c}{}\u{201d}.", results.q);
            view! {
                <div class="empty" id="nothing">
                    <h2>"No results"</h2>
                    <p>{text}</p>
                    <p class="sub">"Ids have to be complete. Of keys the beginning is enough, of names, files, workers, and errors any part."</p>
                </div>
            }
            .into_any()
        }
        Some(results) => results.groups.iter().map(group).collect_view().into_any(),
    };
    let fault = search.fault.clone().map(|fault| view! { <p class="field-error" role="alert" id="fault">{fault}</p> });
    let described = search.fault.is_some().then_some("fault");
    let content = view! {
        <div class="page-head">
            <h1>"Search"</h1>
        </div>
        <form class="page-search row" method="get" action="/search" role="search" aria-label="Everything">
            <label class="vh" for="words">
                "Search everything"
            </label>
            <input
                type="search"
                name="q"
                id="words"
                value=search.q.clone()
                placeholder="Search jobs, items, errors…"
                maxlength="255"
                autocomplete="off"
                aria-describedby=described
                required
            />
            <button class="btn btn-primary" type="submit">
                "Search"
            </button>
        </form>
        {fault}
        {found}
    }
    .into_any();
    Page {
        title: "Search".to_owned(),
        nav_section: NavSection::Elsewhere,
        content,
        is_live: false,
        is_translated: false,
    }
}

fn group(group: &SearchGroup) -> impl IntoView + use<> {
    let (id, heading) = match group.kind {
        SearchKind::Jobs => ("jobs", "Jobs"),
        SearchKind::Items => ("items", "Items"),
        SearchKind::Errors => ("errors", "Errors"),
        SearchKind::Uploads => ("uploads", "Imports"),
        SearchKind::Workers => ("workers", "Workers"),
        SearchKind::JobTypes => ("types", "Job types"),
        SearchKind::Schedules => ("schedules", "Schedules"),
        SearchKind::Views => ("views", "Saved views"),
        SearchKind::BulkOperations => ("operations", "Operations"),
        SearchKind::People => ("people", "People"),
        SearchKind::Services => ("services", "Services"),
    };
    let hits = group.hits.iter().map(hit).collect_view();
    view! {
        <section class="card" id=id aria-labelledby=format!("{id}-heading")>
            <div class="card-head">
                <h2 id=format!("{id}-heading")>{heading}</h2>
            </div>
            <ul class="lined">{hits}</ul>
        </section>
    }
}

fn hit(hit: &SearchHit) -> impl IntoView + use<> {
    let by = match hit.matched.as_str() {
        "id" => "found by its id",
        "key" => "found by its key",
        "dedupe_key" => "found by its dedupe key",
        "serialize_key" => "found by its serialize key",
        "idempotency_key" => "found by its idempotency key",
        "text" => "found by its metadata",
        "reason" => "found by its reason",
        "email" => "found by the address",
        _ => "",
    };
    let subtitle = [hit.detail.as_deref().unwrap_or_default(), by];
    let subtitle = subtitle.into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join(" · ");
    view! {
        <li class="hit-row">
            <a class="clip" href=hit.path.clone()>
                {hit.title.clone()}
            </a>
            <span class="sub">{subtitle}</span>
        </li>
    }
}
