//! Links to the template files of job types.

use leptos::prelude::*;

use crate::{components::state::icon, t};

/// Most types that are listed.
const MOST: usize = 100;

/// Links to the template of a type.
pub fn links(name: &str) -> AnyView {
    let link = |format: &'static str, word: &'static str| {
        let label = t!("template-of", name = name, kind = word);
        let href = format!("/api/v1/job-types/{name}/template?format={format}");
        let file = format!("{name}-template.{format}");
        view! {
            <a class="btn btn-sm" href=href download=file aria-label=label>
                {icon("download")}
                {word}
            </a>
        }
    };
    view! {
        <span class="row template-links">
            {link("xlsx", t!("template-excel"))}
            {link("csv", t!("template-csv"))}
        </span>
    }
    .into_any()
}

/// Section of the upload page: a template for each type that has one.
pub(super) fn section(types: &[String]) -> Option<AnyView> {
    if types.is_empty() {
        return None;
    }
    let rows = types
        .iter()
        .take(MOST)
        .map(|name| {
            view! {
                <li class="row-wrap">
                    <span class="grow clip">{name.clone()}</span>
                    {links(name)}
                </li>
            }
        })
        .collect_view();
    Some(
        view! {
            <details class="card fold" id="templates">
                <summary>{t!("template-title")}</summary>
                <p class="pad soft small">{t!("template-text")}</p>
                <ul class="lined">{rows}</ul>
            </details>
        }
        .into_any(),
    )
}
