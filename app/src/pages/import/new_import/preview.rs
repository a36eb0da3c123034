//! The first rows of a stored file, as the server reads them, and how its columns fit what is done with them.

use domain::{
    dispatch::progress::grouped,
    import::upload::{ColumnCheck, FindingKind, Preview, PreviewRow, UploadFormat},
};
use leptos::prelude::*;

use super::ImportForm;
use crate::components::state::icon;

/// Most columns of the table; a file may have ten thousand, which no page can hold.
const MOST_COLUMNS: usize = 1_000;
/// Most names in a sentence.
const MOST_NAMES: usize = 30;
/// Most letters of a cell.
const LETTERS: usize = 200;
/// Rows of a preview that are all there are, if they are fewer.
const PREVIEW_ROWS: usize = 20;

/// A preview with cells of the length that is shown.
pub fn brief(mut preview: Preview) -> Preview {
    for cell in preview.rows.iter_mut().flat_map(|row| &mut row.cells) {
        *cell = short(cell);
    }
    preview
}

/// Way in which the file is read, in a few words.
pub(super) fn facts(preview: &Preview, sheet: &str) -> String {
    let found = match preview.delimiter.as_deref() {
        Some(",") => "comma",
        Some(";") => "semicolon",
        Some("\t") => "tab",
        Some("|") => "vertical bar",
        Some(_) => "table",
        None => match preview.format {
            UploadFormat::Xlsx if sheet.is_empty() => "first sheet of the workbook",
            UploadFormat::Xlsx => sheet,
            UploadFormat::Json => "JSON array",
            UploadFormat::Lines => "lines of text",
            UploadFormat::None => "one item",
            UploadFormat::Csv | UploadFormat::Ndjson => "one JSON value per line",
        },
    };
    let columns = match preview.columns.len() {
        0 => String::new(),
        1 => " · 1 column".to_owned(),
        n => format!(" · {} columns", grouped(n as i64)),
    };
    if preview.problem.is_some() {
        return String::new();
    }
    format!("{columns} · {found}, {}", encoding(&preview.encoding))
}

/// The name of an encoding as people write it.
fn encoding(name: &str) -> String {
    match name.split_once('-') {
        Some(("windows", page)) => format!("Windows-{page}"),
        _ => name.to_ascii_uppercase(),
    }
}

/// The words of the button that starts the import: with the number of rows where all of them have been seen.
pub(super) fn start(preview: &Preview) -> String {
    let all = preview.rows.len();
    let bad = preview.rows.iter().filter(|row| row.problem.is_some()).count();
    if all == 0 || all >= PREVIEW_ROWS || preview.check.as_ref().is_some_and(|check| !check.findings.is_empty()) {
        return "Start import".to_owned();
    }
    match all - bad {
        0 => "Start import".to_owned(),
        1 => "Import 1 row".to_owned(),
        n => format!("Import {n} rows"),
    }
}

/// The table.
pub(super) fn table(preview: &Preview, header: bool) -> AnyView {
    if let Some(problem) = &preview.problem {
        return unreadable(problem, header);
    }
    // A line that is too long has more cells than there are columns.
    let width = preview.rows.iter().map(|row| row.cells.len()).chain([preview.columns.len()]).max().unwrap_or(0);
    let shown = width.min(MOST_COLUMNS);
    let names = (0..shown)
        .map(|place| match preview.columns.get(place) {
            Some(name) => view! { <th scope="col">{name.clone()}</th> }.into_any(),
            None if preview.columns.is_empty() => {
                view! { <th scope="col">{format!("Column {}", place + 1)}</th> }.into_any()
            }
            None => view! { <th scope="col" class="faint">"no column"</th> }.into_any(),
        })
        .collect_view();
    let rows = preview.rows.iter().map(|each| row(each, shown, preview.columns.len())).collect_view();
    let count = preview.rows.len();
    let bad = preview.rows.iter().filter(|row| row.problem.is_some()).count();
    let heading = if count < PREVIEW_ROWS { "All rows" } else { "First rows" };
    let sub = match (count, bad) {
        (1, 0) => "1 row, as it is read".to_owned(),
        (n, 0) => format!("{n} rows, as they are read"),
        (n, 1) => format!("{n} rows, 1 has a problem and will be set aside"),
        (n, bad) => format!("{n} rows, {bad} have problems and will be set aside"),
    };
    let more = (width > shown).then(|| {
        view! { <div class="table-foot">{format!("The first {} of {} columns", grouped(shown as i64), grouped(width as i64))}</div> }
    });
    view! {
        <section class="card" aria-labelledby="rows-heading">
            <div class="card-head">
                <h2 id="rows-heading">{heading}</h2>
                <span class="sub">{sub}</span>
            </div>
            <div class="table-wrap sheet-wrap" tabindex="0" role="region" aria-label=heading>
                <table class="sheet">
                    <thead>
                        <tr>
                            <th scope="col">"Line"</th>
                            {names}
                        </tr>
                    </thead>
                    <tbody>{rows}</tbody>
                </table>
            </div>
            {more}
        </section>
    }
    .into_any()
}

/// A file of which not even the first row can be read as it was chosen.
fn unreadable(problem: &str, header: bool) -> AnyView {
    let title = match problem.split(": ").next() {
        Some("no_rows") => "The file has no rows",
        Some("bad_header") => "The header has empty or repeated column names",
        _ => "The file cannot be read",
    };
    let way = if header && problem.starts_with("bad_header") {
        " Choose the row that names the columns above, or “No header”. Or correct the file and upload it again."
    } else {
        " Correct the file and upload it again."
    };
    view! {
        <div class="notice notice-bad" id="unreadable">
            {icon("dead")}
            <div>
                <strong>{title}</strong>
                <p>{in_words(problem)} {way}</p>
            </div>
        </div>
    }
    .into_any()
}

/// Line above the first rows of a file that was not checked yet. `review.js` requests the check at once.
pub(super) fn unchecked() -> AnyView {
    view! {
        <div class="notice notice-info" id="unchecked">
            {icon("info")}
            <div>
                <strong>"These are the first rows"</strong>
                <p>"All rows of the file are checked before the start, so that you can fix those with problems here."</p>
            </div>
            <span class="actions">
                <span class="small soft" role="status" id="checking"></span>
                <button class="btn btn-sm" type="submit" name="do" value="check" id="check-all">
                    "Check the whole file"
                </button>
            </span>
        </div>
    }
    .into_any()
}

/// Row below a title that seems to name the columns.
pub(super) fn below_title(preview: &Preview) -> Option<AnyView> {
    let row = preview.suggested_header_row?;
    Some(
        view! {
            <div class="notice notice-info" id="header-suggestion">
                {icon("info")}
                <div>
                    <p>{format!("The column names seem to be in row {row}. What is above it is then not imported.")}</p>
                </div>
                <span class="actions">
                    <button class="btn btn-sm" type="submit" name="use_header_row" value=row.to_string() formnovalidate>
                        {format!("Use row {row}")}
                    </button>
                </span>
            </div>
        }
        .into_any(),
    )
}

/// Result of comparing the columns with the schema of the type. Of checked rows each problem is said in its place.
pub(super) fn columns_that_do_not_fit(preview: &Preview, form: &ImportForm) -> Option<AnyView> {
    let mut check = preview.check.clone().filter(|_| preview.problem.is_none())?;
    // The first rows were read without the edits.
    if form.check.is_some() && !form.edits.is_empty() {
        check.findings.retain(|finding| finding.kind != FindingKind::Mismatch);
    }
    let is_listed = form.check.is_some() && check.findings.is_empty();
    let bad = preview.rows.iter().filter(|row| row.problem.is_some()).count();
    (!is_listed).then(|| columns_of(&check, bad))
}

/// `bad`: number of shown rows that could not be read.
fn columns_of(check: &ColumnCheck, bad: usize) -> AnyView {
    let name = check.job_type.clone();
    if check.findings.is_empty() && bad > 0 {
        let title = if bad == 1 { "1 row cannot be read".to_owned() } else { format!("{bad} rows cannot be read") };
        return view! {
            <div class="notice notice-warn" id="check">
                {icon("partial")}
                <div>
                    <strong>{title}</strong>
                    <p>
                        "The reason is below each. You can start and fix them later: they are set aside. Or correct the file and replace it."
                    </p>
                </div>
            </div>
        }
        .into_any();
    }
    if check.findings.is_empty() {
        let rows = if check.rows == 1 { "1 row fits".to_owned() } else { format!("{} rows fit", check.rows) };
        let text = format!("The columns and the first {rows} what {name} expects.");
        return view! {
            <div class="notice notice-ok" id="check">
                {icon("succeeded")}
                <div>
                    <p>{text}</p>
                </div>
            </div>
        }
        .into_any();
    }
    let expected = (!check.expected.is_empty()).then(|| {
        let names: Vec<&str> = check.expected.iter().take(MOST_NAMES).map(String::as_str).collect();
        let more = check.expected.len().saturating_sub(MOST_NAMES);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("Expected columns: {}{more}.", names.join(", "))
    });
    let findings = check.findings.iter().map(|finding| view! { <li>{finding.message.clone()}</li> }).collect_view();
    let count = match check.findings.len() {
        1 => "1 thing does not fit".to_owned(),
        count => format!("{count} things do not fit"),
    };
    view! {
        <div class="notice notice-warn" id="check" tabindex="-1">
            {icon("partial")}
            <div>
                <strong>{count} " what " {name} " expects"</strong>
                <ul class="findings">{findings}</ul>
                {expected.map(|text| view! { <p class="small">{text}</p> })}
                <p>
                    "You can start and fix them later: rows that do not fit are set aside with the reason. Or correct the file and replace it."
                </p>
            </div>
        </div>
    }
    .into_any()
}

/// A row, and what is wrong with it in the cells below. `columns`: how many the file has.
fn row(row: &PreviewRow, shown: usize, columns: usize) -> impl IntoView + use<> {
    let cells = match &row.payload {
        Some(payload) if row.cells.is_empty() => {
            let text = short(payload.text());
            view! {
                <td class="mono">
                    <span>{text}</span>
                </td>
            }
            .into_any()
        }
        _ => row
            .cells
            .iter()
            .take(shown)
            .enumerate()
            .map(|(place, cell)| {
                let surplus = columns > 0 && place >= columns;
                view! {
                    <td class=surplus.then_some("cell-bad")>
                        <span>{short(cell)}</span>
                    </td>
                }
            })
            .collect_view()
            .into_any(),
    };
    let width = (shown.max(1) + 1).to_string();
    let problem = row.problem.clone().map(|problem| {
        view! {
            <tr class="row-why">
                <td class="cell-bad" colspan=width>
                    <span class="why">{icon("dead")} <span>{problem}</span></span>
                </td>
            </tr>
        }
    });
    view! {
        <tr>
            <th scope="row">{row.row}</th>
            {cells}
        </tr>
        {problem}
    }
}

/// The server says a code and a sentence; the sentence is for people.
fn in_words(problem: &str) -> String {
    problem.split_once(": ").map_or(problem, |(_, sentence)| sentence).to_owned()
}

pub(super) fn short(text: &str) -> String {
    let mut short: String = text.chars().take(LETTERS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
