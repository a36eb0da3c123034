//! `/imports/{id}/correct`: the failed rows of an import as a table of fields, the error beside each row, and one
//! button that retries the corrected rows.
//!
//! A plain form. On a phone each row is a card and each cell has a label.

use domain::{Job, Problem, dispatch::progress::grouped, id::Uuid};
use leptos::prelude::*;

use crate::pages::import::progress;
use crate::{
    components::{
        action_form::{problem_notice, reason},
        breadcrumbs::breadcrumbs,
        panel::{empty, note},
        state::icon,
    },
    frame::{NavSection, Page},
};

/// Content of the page.
#[derive(Clone, Debug, Default)]
pub struct Correct {
    pub columns: Vec<String>,
    pub rows: Vec<CorrectRow>,
    /// True if there are more failed rows than fit on the page.
    pub is_cut: bool,
    /// True if unchanged rows are retried, too.
    pub others_too: bool,
    /// True if it is someone else's work.
    pub needs_reason: bool,
    pub reason: String,
    pub problem: Option<Problem>,
}

/// A failed row.
#[derive(Clone, Debug)]
pub struct CorrectRow {
    /// Id of the item.
    pub id: Uuid,
    pub row: Option<i64>,
    /// Reason of the failure.
    pub problem: String,
    /// As typed, or as imported.
    pub cells: Vec<String>,
    /// Reason why the input was refused.
    pub fault: Option<String>,
    /// Index of the invalid cell.
    pub bad: Option<usize>,
}

pub fn page(job: &Job, page_data: &Correct) -> Page {
    let name = progress::name(job);
    let content = if page_data.rows.is_empty() {
        let back = view! {
            <a class="btn" href=format!("/imports/{}", job.id)>
                "Back to the import"
            </a>
        };
        empty("Nothing to fix", "No row of this import has failed, or all of them are being retried.", back.into_any())
    } else {
        form(job, page_data)
    };
    let heading = match page_data.rows.len() {
        0 => "Fix failed rows".to_owned(),
        1 => "Fix 1 row".to_owned(),
        n => format!("Fix {n} rows"),
    };
    breadcrumbs(&[("/imports", "Imports"), (&format!("/imports/{}", job.id), &name)], heading.clone());
    let content = view! {
        <div class="page-head">
            <h1>{heading}</h1>
            <p class="sub">"Change what is wrong. Rows that you change are retried; the others stay as they are."</p>
        </div>
        {content}
    }
    .into_any();
    let title = if page_data.problem.is_some() { "Nothing was retried: fix failed rows" } else { "Fix failed rows" };
    Page { title: format!("{title} of {name}"), nav_section: NavSection::Imports, content, is_live: false }
}

fn form(job: &Job, page_data: &Correct) -> AnyView {
    let id = job.id;
    let cut = page_data.is_cut.then(|| {
        note(view! {
            "Showing the first " {grouped(page_data.rows.len() as i64)} " of " {grouped(job.counts.dead)}
            " failed rows. For many it is easier to "
            <a href=format!("/api/v1/jobs/{id}/failures?format=csv")>"download them"</a>
            ", fix them there, and "
            <a href=format!("/imports/new?again={id}")>"upload them"</a>
            "."
        })
    });
    let names = page_data.columns.iter().map(|name| view! { <th scope="col">{name.clone()}</th> }).collect_view();
    let width = (page_data.columns.len() + 1).to_string();
    let rows = page_data.rows.iter().map(|row| one(row, &page_data.columns, &width)).collect_view();
    view! {
        {page_data.problem.as_ref().map(problem_notice)}
        {cut}
        <form class="card correct-form" method="post" action=format!("/imports/{id}/correct")>
            <div class="table-wrap scroll" tabindex="0" role="region" aria-label="Failed rows">
                <table class="table correct">
                    <thead>
                        <tr>
                            <th scope="col" class="num">
                                "Line"
                            </th>
                            {names}
                        </tr>
                    </thead>
                    {rows}
                </table>
            </div>
            <div class="card-body">
                <div class="stack">
                    <label class="check">
                        <input type="checkbox" name="others" value="yes" checked=page_data.others_too />
                        <span>"Also retry the rows I did not change"</span>
                    </label>
                    {page_data.needs_reason.then(|| reason("correct", &page_data.reason, true))}
                </div>
            </div>
            <div class="card-foot">
                <button class="btn btn-primary" type="submit">
                    {icon("rotate-cw")}
                    "Retry changed rows"
                </button>
                <a class="btn btn-quiet" href=format!("/imports/{id}")>"Back to the import"</a>
            </div>
        </form>
    }
    .into_any()
}

/// One row: its cells, and below them the error.
fn one(row: &CorrectRow, columns: &[String], width: &str) -> impl IntoView + use<> {
    let line = row.row.map_or_else(|| "?".to_owned(), |row| row.to_string());
    let why = format!("why-{}", row.id);
    let bad = row.bad;
    let cells = columns
        .iter()
        .zip(&row.cells)
        .enumerate()
        .map(|(place, (name, cell))| {
            view! {
                <td>
                    <span class="correct-name" aria-hidden="true">
                        {name.clone()}
                    </span>
                    <input
                        type="text"
                        name=format!("c.{}.{place}", row.id)
                        value=cell.clone()
                        size=cell.chars().count().clamp(6, 32).to_string()
                        autocomplete="off"
                        spellcheck="false"
                        aria-label=format!("{name}, line {line}")
                        aria-describedby=why.clone()
                        aria-invalid=(bad == Some(place)).then_some("true")
                    />
                </td>
            }
        })
        .collect_view();
    let message = row.fault.clone().unwrap_or_else(|| row.problem.clone());
    view! {
        <tbody>
            <tr>
                <th scope="row" class="number sub">
                    <span class="correct-name" aria-hidden="true">
                        "Line "
                    </span>
                    {line}
                </th>
                {cells}
            </tr>
            <tr class="row-bad">
                <td colspan=width.to_owned() class="cell-bad" id=why>
                    {icon("dead")}
                    " "
                    {message}
                </td>
            </tr>
        </tbody>
    }
}
