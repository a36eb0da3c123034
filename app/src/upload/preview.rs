//! The first rows of a stored file, as the server reads them, before anything runs.

use domain::upload::{Preview, PreviewRow};
use leptos::prelude::*;

use super::Desk;
use crate::components::state::icon;

/// Most columns shown; the rest are counted.
const MOST_COLUMNS: usize = 12;
/// Most rows shown.
const MOST_ROWS: usize = 8;

/// The table; nothing while there is no preview.
pub fn table(desk: Desk) -> impl IntoView {
    move || desk.preview.get().map(|preview| view! { <div class="preview">{draw(&preview)}</div> })
}

fn draw(preview: &Preview) -> AnyView {
    if let Some(problem) = &preview.problem {
        return view! { <p class="note note-warn">{in_words(problem)}</p> }.into_any();
    }
    let found = match preview.delimiter.as_deref() {
        Some(",") => "Columns are separated by commas",
        Some(";") => "Columns are separated by semicolons",
        Some("\t") => "Columns are separated by tabs",
        Some("|") => "Columns are separated by vertical bars",
        Some(_) => "Columns are separated",
        None => "One JSON document per line",
    };
    let bad = preview.rows.iter().filter(|row| row.problem.is_some()).count();
    let summary = match bad {
        0 => format!("{found}, {}. This is how the first rows are read:", preview.encoding.to_uppercase()),
        bad => format!(
            "{found}, {}. Of the first {} rows, {bad} would not be accepted:",
            preview.encoding.to_uppercase(),
            preview.rows.len()
        ),
    };
    let columns = preview.columns.len();
    let head = (columns > 0).then(|| {
        let names = preview
            .columns
            .iter()
            .take(MOST_COLUMNS)
            .map(|name| view! { <th scope="col">{name.clone()}</th> })
            .collect_view();
        view! {
            <thead>
                <tr>
                    <th scope="col" class="number">
                        "Line"
                    </th>
                    {names}
                </tr>
            </thead>
        }
    });
    let rows = preview.rows.iter().take(MOST_ROWS).map(row).collect_view();
    view! {
        <p class="sub">{summary}</p>
        <div class="scroll" tabindex="0" role="region" aria-label="First rows">
            <table class="table cells">{head} <tbody>{rows}</tbody></table>
        </div>
        {(columns > MOST_COLUMNS)
            .then(|| view! { <p class="sub">{format!("and {} more columns", columns - MOST_COLUMNS)}</p> })}
    }
    .into_any()
}

fn row(row: &PreviewRow) -> AnyView {
    let cells = match &row.payload {
        Some(payload) if row.cells.is_empty() => view! { <td class="mono">{short(payload.text())}</td> }.into_any(),
        _ => row.cells.iter().take(MOST_COLUMNS).map(|cell| view! { <td>{short(cell)}</td> }).collect_view().into_any(),
    };
    let problem = row.problem.clone().map(|problem| {
        view! {
            <tr class="row-bad">
                <td></td>
                <td class="cell-bad" colspan="100">
                    {icon("dead")}
                    " "
                    {problem}
                </td>
            </tr>
        }
    });
    view! {
        <tr class=row.problem.is_some().then_some("row-bad")>
            <td class="number sub">{row.row}</td>
            {cells}
        </tr>
        {problem}
    }
    .into_any()
}

/// The server says a code and a sentence; the sentence is for people.
fn in_words(problem: &str) -> String {
    problem.split_once(": ").map_or(problem, |(_, sentence)| sentence).to_owned()
}

fn short(text: &str) -> String {
    let mut short: String = text.chars().take(60).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
