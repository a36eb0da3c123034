//! The rows of a checked file: the first and the last ones and every row with a problem, whose cells are fields.
//!
//! Everything is a field of the form of the page. A row with fields also carries its texts in the file, so that the
//! server can tell which cells were changed without reading the file first.

mod fixes; // fixes of a whole column
mod line; // one row

use std::collections::{HashMap, HashSet};

use crate::speech::grouped;
use domain::import::{file_check::FileCheck, row_edit::RowEdit, upload::UploadFormat};
use leptos::prelude::*;

use self::line::{Shape, line};
use super::{ImportForm, columns::kind_in_words};
use crate::{components::state::icon, job_view::counted, t, t_view};

/// Rows that are shown whatever they are, from the start and from the end of the file.
pub const FIRST_ROWS: i64 = 200;
pub const LAST_ROWS: usize = 5;

/// Most columns that are shown, and most cells that are fields.
const MOST_COLUMNS: usize = 1_000;
const MOST_FIELDS: usize = 8_000;

/// Most columns of which a card shows every one.
const CARD_COLUMNS: usize = 8;

/// Filter of the shown rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFilter {
    All,
    Problems,
    Changed,
}

impl RowFilter {
    pub fn parse(word: &str) -> Option<Self> {
        [Self::All, Self::Problems, Self::Changed].into_iter().find(|filter| filter.as_str() == word)
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Problems => "problems",
            Self::Changed => "changed",
        }
    }
}

/// Number of rows that would be imported.
pub(super) fn ready(check: &FileCheck) -> i64 {
    (check.rows - check.failed - check.left_out).max(0)
}

/// Counts in a sentence, such as `9,980 rows are ready, 20 need attention`.
pub(super) fn summary(check: &FileCheck) -> String {
    let ready = match (ready(check), check.failed + check.left_out) {
        (n @ 1.., 0) => t!("grid-all-ready", n = n),
        (n, _) => t!("grid-ready", n = n),
    };
    let failed = match check.failed {
        0 => String::new(),
        n => format!(", {}", t!("grid-attention", n = n)),
    };
    let left_out = match check.left_out {
        0 => String::new(),
        n => format!(", {}", t!("grid-left-out", n = n)),
    };
    format!("{ready}{failed}{left_out}")
}

/// What is to be done, below the heading of the page.
pub(super) fn advice(check: &FileCheck) -> String {
    match check.failed {
        0 if ready(check) == 0 => t!("grid-advice-none").to_owned(),
        0 => t!("grid-advice-start", summary = &summary(check)),
        failed => t!("grid-advice-fix", n = failed, rows = &counted(true, check.rows)),
    }
}

/// Words of the button that starts the import.
pub(super) fn start(check: &FileCheck) -> String {
    match ready(check) {
        0 => t!("import-start").to_owned(),
        n => t!("import-start-rows", n = n),
    }
}

/// Fields that carry edits whose rows are not shown as fields.
pub(super) fn hidden_edits(edits: &[RowEdit], form: &ImportForm) -> AnyView {
    let edits = (!edits.is_empty()).then(|| {
        let text = serde_json::to_string(edits).unwrap_or_default();
        view! { <input type="hidden" name="edits" value=text /> }
    });
    view! {
        <input type="hidden" name="edited-sheet" value=form.sheet.clone() />
        {edits}
    }
    .into_any()
}

/// The section.
pub(super) fn section(check: &FileCheck, form: &ImportForm) -> AnyView {
    let format = form.preview.as_ref().map_or(UploadFormat::Csv, |preview| preview.format);
    let width = width(check);
    let widest = check.listed.iter().map(|row| row.cells.len()).max().unwrap_or(0).max(width);
    let shown = widest.min(MOST_COLUMNS);
    let is_optional = !matches!(format, UploadFormat::Json | UploadFormat::None);
    let open = if format.is_table() { open_rows(check, width) } else { HashSet::new() };
    let shape =
        |row| Shape { row, is_open: open.contains(&row.row), is_optional, columns: &check.columns, width, shown };
    let rows = check.listed.iter().map(|row| line(&shape(row))).collect_view();
    let edited: HashMap<i64, &RowEdit> = form.edits.iter().map(|edit| (edit.row, edit)).collect();
    let is_shown: HashSet<i64> = check.listed.iter().map(|row| row.row).collect();
    let is_field = |edit: &RowEdit| open.contains(&edit.row) || (edit.leave_out && is_shown.contains(&edit.row));
    let hidden: Vec<RowEdit> = form.edits.iter().filter(|edit| !is_field(edit)).cloned().collect();
    let names = (!open.is_empty()).then(|| {
        let name = |(place, name): (usize, &String)| {
            view! { <input type="hidden" name=format!("column-{place}") value=name.clone() /> }
        };
        check.columns.iter().enumerate().take(shown).map(name).collect_view()
    });
    let heads = heads(check, form, shown);
    let out = is_optional.then(|| view! { <th scope="col" class="leave-out">{t!("grid-leave-out")}</th> });
    // On a phone a row is a card, which shows all of a few columns, and of many those that matter.
    let is_wide = shown > CARD_COLUMNS;
    let all_columns = is_wide.then(|| {
        view! {
            <label class="check all-columns">
                <input type="checkbox" id="all-columns" />
                <span>{t!("grid-all-columns", n = shown)}</span>
            </label>
        }
    });
    view! {
        <section class=if is_wide { "card rows-card is-wide" } else { "card rows-card" } aria-labelledby="rows-heading" id="rows">
            <div class="card-head">
                <h2 id="rows-heading" class="vh">
                    {t!("grid-rows")}
                </h2>
                {filter(check, form, edited.len())}
                <span class="sub end" role="status" id="rows-summary">
                    {summary(check)}
                </span>
            </div>
            {names}
            {hidden_edits(&hidden, form)}
            {fixes::section(check)}
            {all_columns}
            <div class="table-wrap sheet-wrap" tabindex="0" role="region" aria-labelledby="rows-heading">
                <table class="sheet" role="table">
                    <thead role="rowgroup">
                        <tr role="row">
                            <th scope="col">{t!("import-line")}</th>
                            {out}
                            {heads}
                        </tr>
                    </thead>
                    // Another way of reading gives other rows: what is typed is brought over by the server.
                    <tbody role="rowgroup" data-key=form.reading()>{rows}</tbody>
                </table>
            </div>
            {foot(check, form, &open, widest, shown)}
        </section>
    }
    .into_any()
}

/// Number of columns of the table: without a header, that of most rows.
fn width(check: &FileCheck) -> usize {
    if !check.columns.is_empty() {
        return check.columns.len();
    }
    let good = check.listed.iter().find(|row| row.problem.is_none());
    good.or(check.listed.first()).map_or(0, |row| row.cells.len())
}

/// Rows whose cells are fields: first those with a problem, then those that were changed, as long as there is room.
fn open_rows(check: &FileCheck, width: usize) -> HashSet<i64> {
    let bad = check.listed.iter().filter(|row| row.problem.is_some() && !row.needs_file);
    let fixed = check.listed.iter().filter(|row| row.problem.is_none() && row.edited);
    let most = MOST_FIELDS / width.max(1);
    bad.chain(fixed).take(if width > MOST_COLUMNS { 0 } else { most }).map(|row| row.row).collect()
}

fn heads(check: &FileCheck, form: &ImportForm, shown: usize) -> impl IntoView + use<> {
    let named = !check.columns.is_empty();
    let target = |name: &str| {
        let choice = form.choices.iter().find(|choice| choice.from == name)?;
        let word = match (choice.to.as_str(), choice.kind.split(' ').next().unwrap_or_default()) {
            ("", _) => t!("grid-not-imported").to_owned(),
            (to, kind) if to == name => kind_in_words(kind).to_owned(),
            (to, kind) => format!("{to}, {}", kind_in_words(kind)),
        };
        Some(view! { <span class="faint">" " {word}</span> })
    };
    (0..shown)
        .map(|place| match check.columns.get(place) {
            Some(name) => view! { <th scope="col">{name.clone()}{target(name)}</th> }.into_any(),
            None if !named => view! { <th scope="col">{t!("import-column", n = place + 1)}</th> }.into_any(),
            None => view! { <th scope="col" class="faint">{t!("import-no-column")}</th> }.into_any(),
        })
        .collect_view()
}

/// Which rows are shown: radio buttons, so that it works without scripts and is sent along with the form.
fn filter(check: &FileCheck, form: &ImportForm, changed: usize) -> AnyView {
    if check.failed == 0 && changed == 0 {
        return ().into_any();
    }
    let default = if check.failed > 0 { RowFilter::Problems } else { RowFilter::All };
    let chosen = match form.rows.unwrap_or(default) {
        RowFilter::Changed if changed == 0 => default,
        chosen => chosen,
    };
    let option = |filter: RowFilter, word: &'static str, count: i64| {
        let mark = match filter {
            RowFilter::All => None,
            RowFilter::Problems => Some(("s-dead", "dead")),
            RowFilter::Changed => Some(("s-succeeded", "pencil")),
        };
        view! {
            <label>
                <input class="vh" type="radio" name="rows" value=filter.as_str() checked=filter == chosen />
                {mark.map(|(class, name)| view! { <span class=class>{icon(name)}</span> })}
                {word}
                " "
                <span class="num">{grouped(count)}</span>
            </label>
        }
    };
    view! {
        <fieldset class="seg-control" id="row-filter">
            <legend class="vh">{t!("grid-show")}</legend>
            {option(RowFilter::All, t!("grid-show-all"), check.rows)}
            {option(RowFilter::Problems, t!("grid-show-problems"), check.failed)}
            {(changed > 0).then(|| option(RowFilter::Changed, t!("grid-show-changed"), changed as i64))}
        </fieldset>
    }
    .into_any()
}

fn foot(check: &FileCheck, form: &ImportForm, open: &HashSet<i64>, widest: usize, shown: usize) -> AnyView {
    let mut notes = Vec::new();
    if check.rows > FIRST_ROWS + LAST_ROWS as i64 {
        let special = check.listed.iter().any(|row| row.problem.is_some() || row.edited || row.left_out);
        let all = counted(true, check.rows);
        notes.push(if special {
            t!("grid-cut-special", rows = &all, first = FIRST_ROWS, last = LAST_ROWS)
        } else {
            t!("grid-cut", rows = &all, first = FIRST_ROWS, last = LAST_ROWS)
        });
    }
    if check.is_cut {
        notes.push(t!("grid-too-many").to_owned());
    }
    let closed = check.listed.iter().filter(|row| row.problem.is_some() && !row.needs_file && !open.contains(&row.row));
    if closed.count() > 0 && !open.is_empty() {
        notes.push(t!("grid-next-fields").to_owned());
    }
    if widest > shown {
        notes.push(t!("grid-columns-cut", shown = shown, all = widest));
    }
    let keys = (!open.is_empty()).then(|| {
        view! {
            <span class="only-script keys-hint">
                {t_view!(
                    "grid-keys",
                    enter = view! { <kbd>{t!("shell-key-enter")}</kbd> },
                    alt = view! { <kbd>"Alt"</kbd> },
                    down = view! { <kbd>"↓"</kbd> },
                    escape = view! { <kbd>"Esc"</kbd> },
                )}
            </span>
        }
    });
    let is_table = form.preview.as_ref().is_some_and(|preview| preview.format.is_table());
    let lines = if is_table { t!("grid-lines") } else { "" };
    view! {
        <div class="table-foot">
            <span>{lines} " " {keys} " " {notes.join(" ")}</span>
            <span class="actions">
                {(check.failed > 0).then(problem_list)}
                <button class="btn btn-sm" type="submit" name="do" value="check">
                    {icon("rotate-cw")}
                    {t!("import-check-again")}
                </button>
            </span>
        </div>
    }
    .into_any()
}

/// Button that downloads the rows with a problem, to correct them elsewhere.
fn problem_list() -> AnyView {
    view! {
        <button class="btn btn-sm" type="submit" name="do" value="problems" id="problem-list" formnovalidate>
            {icon("download")}
            {t!("grid-problems-csv")}
        </button>
    }
    .into_any()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rows: i64, failed: i64, left_out: i64) -> FileCheck {
        FileCheck { rows, failed, left_out, columns: Vec::new(), listed: Vec::new(), is_cut: false }
    }

    #[test]
    fn counts_are_one_sentence() {
        assert_eq!(summary(&check(10_000, 20, 0)), "9,980 rows are ready, 20 need attention");
        assert_eq!(summary(&check(10_000, 1, 1)), "9,998 rows are ready, 1 needs attention, 1 is left out");
        assert_eq!(summary(&check(500, 0, 0)), "All 500 rows are ready");
        assert_eq!(summary(&check(1, 0, 0)), "The only row is ready");
        assert_eq!(summary(&check(2, 2, 0)), "No row is ready, 2 need attention");
    }
}
