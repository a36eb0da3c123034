//! The first rows of a stored file, as the server reads them, before anything runs.

use domain::upload::{ColumnCheck, Preview, PreviewRow, UploadFormat};
use leptos::prelude::*;

use super::Desk;
use crate::components::state::icon;

/// Most columns shown; the rest are counted.
const MOST_COLUMNS: usize = 12;
/// Most rows shown.
const MOST_ROWS: usize = 8;

/// The table; nothing while there is no preview.
pub fn table(desk: Desk) -> impl IntoView {
    move || desk.preview.get().map(|preview| draw(&preview))
}

/// As much of a preview as is shown.
pub fn brief(mut preview: Preview) -> Preview {
    preview.rows.truncate(MOST_ROWS);
    for cell in preview.rows.iter_mut().flat_map(|row| &mut row.cells) {
        *cell = short(cell);
    }
    preview
}

fn draw(preview: &Preview) -> impl IntoView + use<> {
    let columns = preview.columns.len();
    let names: Vec<String> = preview.columns.iter().take(MOST_COLUMNS).cloned().collect();
    let names = names.into_iter().map(|name| view! { <th scope="col">{name}</th> }).collect_view();
    let rows = preview.rows.iter().take(MOST_ROWS).map(row).collect_view();
    let readable = preview.problem.is_none();
    view! {
        <div class="preview">
            {preview.problem.as_deref().map(|problem| view! { <p class="note note-warn">{in_words(problem)}</p> })}
            {preview.check.as_ref().map(columns_of)}
            <p class="sub" hidden=!readable>{summary(preview)}</p>
            <div class="scroll" tabindex="0" role="region" aria-label="First rows" hidden=!readable>
                <table class="table cells">
                    <thead hidden=columns == 0>
                        <tr>
                            <th scope="col" class="number">"Line"</th>
                            {names}
                        </tr>
                    </thead>
                    <tbody>{rows}</tbody>
                </table>
            </div>
            {(columns > MOST_COLUMNS)
                .then(|| view! { <p class="sub">{format!("and {} more columns", columns - MOST_COLUMNS)}</p> })}
        </div>
    }
}

/// How the columns fit what is done with them.
fn columns_of(check: &ColumnCheck) -> AnyView {
    let name = check.job_type.clone();
    let expected = (!check.expected.is_empty()).then(|| {
        let names: Vec<&str> = check.expected.iter().take(MOST_COLUMNS).map(String::as_str).collect();
        let more = check.expected.len().saturating_sub(MOST_COLUMNS);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("Expected columns: {}{more}.", names.join(", "))
    });
    if check.findings.is_empty() {
        let text = if check.rows == 1 { "row fits" } else { "rows fit" };
        let text = format!("The columns and the first {} {text} what {name} expects.", check.rows);
        return view! { <p class="note note-good">{text}</p> }.into_any();
    }
    let findings = check.findings.iter().map(|finding| view! { <li>{finding.message.clone()}</li> }).collect_view();
    let count = match check.findings.len() {
        1 => "One thing does not fit".to_owned(),
        count => format!("{count} things do not fit"),
    };
    view! {
        <div class="notice notice-warn" id="check" tabindex="-1">
            {icon("retryable")}
            <div>
                <strong>{count} " what " {name} " expects"</strong>
                <ul>{findings}</ul>
                {expected.map(|text| view! { <p class="sub">{text}</p> })}
                <p>
                    "Start the import all the same, and the rows that do not fit are set aside and listed at the end. Or correct the file and choose it again."
                </p>
            </div>
        </div>
    }
    .into_any()
}

fn summary(preview: &Preview) -> String {
    let found = match preview.delimiter.as_deref() {
        Some(",") => "Columns are separated by commas",
        Some(";") => "Columns are separated by semicolons",
        Some("\t") => "Columns are separated by tabs",
        Some("|") => "Columns are separated by vertical bars",
        Some(_) => "Columns are separated",
        None => match preview.format {
            UploadFormat::Xlsx => "The first sheet of the workbook",
            UploadFormat::Json => "One JSON array",
            UploadFormat::Lines => "Each line is a text",
            UploadFormat::None => "The whole file is one item",
            UploadFormat::Csv | UploadFormat::Ndjson => "One JSON document per line",
        },
    };
    let encoding = preview.encoding.to_ascii_uppercase();
    let rows = preview.rows.len();
    match preview.rows.iter().filter(|row| row.problem.is_some()).count() {
        0 => format!("{found}, {encoding}. This is how the first rows are read:"),
        bad => format!("{found}, {encoding}. Of the first {rows} rows, {bad} would not be accepted:"),
    }
}

fn row(row: &PreviewRow) -> impl IntoView + use<> {
    let cells: Vec<String> = match &row.payload {
        Some(payload) if row.cells.is_empty() => vec![short(payload.text())],
        _ => row.cells.iter().take(MOST_COLUMNS).map(|cell| short(cell)).collect(),
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
            {cells.into_iter().map(|cell| view! { <td>{cell}</td> }).collect_view()}
        </tr>
        {problem}
    }
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
