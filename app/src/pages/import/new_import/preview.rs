//! The first rows of a stored file, as the server reads them, and how its columns fit what is done with them.

use domain::import::upload::{ColumnCheck, FindingKind, Preview, PreviewRow, UploadFormat};
use leptos::prelude::*;

use super::ImportForm;
use crate::{components::state::icon, job_view::counted, t};

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
        Some(",") => t!("facts-comma"),
        Some(";") => t!("facts-semicolon"),
        Some("\t") => t!("facts-tab"),
        Some("|") => t!("facts-bar"),
        Some(_) => t!("facts-table"),
        None => match preview.format {
            UploadFormat::Xlsx if sheet.is_empty() => t!("facts-first-sheet"),
            UploadFormat::Xlsx => sheet,
            UploadFormat::Json => t!("facts-json-array"),
            UploadFormat::Lines => t!("facts-lines"),
            UploadFormat::None => t!("facts-one"),
            UploadFormat::Csv | UploadFormat::Ndjson => t!("facts-ndjson"),
        },
    };
    let columns = match preview.columns.len() {
        0 => String::new(),
        n => format!(" · {}", t!("facts-columns", n = n)),
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
        return t!("import-start").to_owned();
    }
    match all - bad {
        0 => t!("import-start").to_owned(),
        n => t!("import-start-rows", n = n),
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
                view! { <th scope="col">{t!("import-column", n = place + 1)}</th> }.into_any()
            }
            None => view! { <th scope="col" class="faint">{t!("import-no-column")}</th> }.into_any(),
        })
        .collect_view();
    let rows = preview.rows.iter().map(|each| row(each, shown, preview.columns.len())).collect_view();
    let count = preview.rows.len();
    let bad = preview.rows.iter().filter(|row| row.problem.is_some()).count();
    let heading = if count < PREVIEW_ROWS { t!("preview-all") } else { t!("preview-first") };
    let sub = match (count, bad) {
        (n, 0) => t!("preview-read", n = n),
        (n, bad) => t!("preview-read-bad", rows = &counted(true, n as i64), n = bad),
    };
    let more = (width > shown).then(|| {
        view! { <div class="table-foot">{t!("preview-columns-cut", shown = shown, all = width)}</div> }
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
                            <th scope="col">{t!("import-line")}</th>
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
        Some("no_rows") => t!("import-no-rows"),
        Some("bad_header") => t!("import-bad-header"),
        _ => t!("import-unreadable"),
    };
    let way = if header && problem.starts_with("bad_header") {
        t!("import-unreadable-header")
    } else {
        t!("import-unreadable-file")
    };
    view! {
        <div class="notice notice-bad" id="unreadable">
            {icon("dead")}
            <div>
                <strong>{title}</strong>
                <p>{in_words(problem)} " " {way}</p>
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
                <strong>{t!("preview-unchecked")}</strong>
                <p>{t!("preview-unchecked-text")}</p>
            </div>
            <span class="actions">
                <span class="small soft" role="status" id="checking"></span>
                <button class="btn btn-sm" type="submit" name="do" value="check" id="check-all">
                    {t!("script-check-all")}
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
                    <p>{t!("preview-header", row = row)}</p>
                </div>
                <span class="actions">
                    <button class="btn btn-sm" type="submit" name="use_header_row" value=row.to_string() formnovalidate>
                        {t!("preview-header-use", row = row)}
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
        let title = t!("preview-cannot-read", n = bad);
        return view! {
            <div class="notice notice-warn" id="check">
                {icon("partial")}
                <div>
                    <strong>{title}</strong>
                    <p>
                        {t!("preview-cannot-read-text")}
                    </p>
                </div>
            </div>
        }
        .into_any();
    }
    if check.findings.is_empty() {
        let text = t!("preview-fits", n = check.rows, name = &name);
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
        if more > 0 {
            t!("preview-expected-more", names = &names.join(", "), n = more)
        } else {
            t!("preview-expected", names = &names.join(", "))
        }
    });
    let findings = check
        .findings
        .iter()
        .map(|finding| view! { <li>{crate::speech::in_words(&finding.message)}</li> })
        .collect_view();
    let title = t!("preview-findings", n = check.findings.len(), name = &name);
    view! {
        <div class="notice notice-warn" id="check" tabindex="-1">
            {icon("partial")}
            <div>
                <strong>{title}</strong>
                <ul class="findings">{findings}</ul>
                {expected.map(|text| view! { <p class="small">{text}</p> })}
                <p>
                    {t!("preview-findings-text")}
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
                    <span class="why">{icon("dead")} <span>{crate::speech::in_words(&problem)}</span></span>
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
    crate::speech::in_words(problem.split_once(": ").map_or(problem, |(_, sentence)| sentence))
}

pub(super) fn short(text: &str) -> String {
    let mut short: String = text.chars().take(LETTERS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
