//! One row of a checked file: its cells as fields or as text, with the problem or the former text below each.

use domain::import::file_check::CheckedRow;
use leptos::prelude::*;

use super::super::preview::short;
use crate::{
    components::{state::icon, text_area::TextCell},
    pages::import::without_place,
    t,
};

/// Most characters of a cell that is a field.
const LONGEST_FIELD: usize = 1_000;

/// How a row is shown.
pub(super) struct Shape<'a> {
    pub(super) row: &'a CheckedRow,
    /// Its cells are fields.
    pub(super) is_open: bool,
    /// It can be left out.
    pub(super) is_optional: bool,
    /// Columns of the table; none without a header.
    pub(super) columns: &'a [String],
    /// Number of columns of the table.
    pub(super) width: usize,
    /// Number of shown cells.
    pub(super) shown: usize,
}

/// The row, with a row below it for a problem of no column.
pub(super) fn line(shape: &Shape<'_>) -> impl IntoView + use<> {
    let row = shape.row;
    let number = row.row;
    let mut class = Vec::new();
    if row.problem.is_none() && !row.edited && !row.left_out {
        class.push("is-fine");
    }
    if row.edited || row.left_out {
        class.push("is-changed");
    }
    if row.left_out {
        class.push("is-out");
    }
    let in_file = row.cells_in_file.as_ref().unwrap_or(&row.cells);
    let texts = shape.is_open.then(|| {
        let texts: Vec<Option<&str>> =
            in_file.iter().take(shape.width).map(|cell| is_typeable(cell).then_some(cell.as_str())).collect();
        let texts = serde_json::to_string(&texts).unwrap_or_default();
        view! { <input type="hidden" name=format!("row-{number}") value=texts /> }
    });
    // A row that was accepted with too many or too few cells stays so.
    let is_filled = shape.is_open && row.edited && in_file.len() != shape.width;
    let filled = is_filled.then(|| view! { <input type="hidden" name=format!("fill-{number}") value="yes" /> });
    let out = shape.is_optional.then(|| {
        view! {
            <td class="leave-out" role="cell" data-label=t!("grid-leave-out")>
                <input
                    type="checkbox"
                    name=format!("out-{number}")
                    value="yes"
                    checked=row.left_out
                    aria-label=t!("grid-leave-out-line", line = &number.to_string())
                />
            </td>
        }
    });
    let bad = row.problem.as_ref().and(row.column).and_then(|column| usize::try_from(column - 1).ok());
    let bad = bad.map(|place| place.min(shape.shown.saturating_sub(1)));
    let cells = row.cells.len().max(if shape.is_open { shape.width } else { 0 }).max(bad.map_or(0, |place| place + 1));
    let cells = (0..cells.min(shape.shown)).map(|place| cell(shape, place, bad == Some(place))).collect_view();
    // A problem of no column stands in a row of its own.
    let below = row.problem.as_ref().filter(|_| bad.is_none()).map(|problem| {
        view! {
            <tr class=format!("row-why {}", class.join(" ")) role="row">
                <td class="cell-bad" role="cell" colspan=(shape.shown + 2).to_string()>
                    <span class="why">{icon("dead")} <span>{in_words(row, problem)}</span></span>
                </td>
            </tr>
        }
    });
    view! {
        <tr class=class.join(" ") role="row" data-key=format!("line-{number}")>
            <th scope="row" role="rowheader" data-label=t!("import-line")>{number} {texts} {filled}</th>
            {out}
            {cells}
        </tr>
        {below}
    }
}

/// Returns true if a text can be a field without being changed by the browser.
fn is_typeable(text: &str) -> bool {
    text.chars().count() <= LONGEST_FIELD && !text.contains('\0')
}

fn cell(shape: &Shape<'_>, place: usize, is_bad: bool) -> AnyView {
    let row = shape.row;
    let number = row.row;
    let text = row.cells.get(place).map_or("", String::as_str);
    let in_file = row.cells_in_file.as_ref().unwrap_or(&row.cells).get(place).map_or("", String::as_str);
    let is_surplus = place >= shape.width;
    let is_changed = !is_surplus && row.edited && text != in_file;
    let why = row.problem.as_ref().filter(|_| is_bad).map(|problem| in_words(row, problem));
    let why_id = format!("why-{number}");
    let field = shape.is_open && !is_surplus && is_typeable(text) && is_typeable(in_file);
    let body = if field {
        let name = shape.columns.get(place).cloned().unwrap_or_else(|| t!("import-column", n = place + 1));
        let label = t!("import-cell-line", name = &name, line = &number.to_string());
        let field = format!("cell-{number}-{place}");
        let described =
            (why.is_some() || is_changed).then(|| if is_bad { why_id.clone() } else { changed_id(number, place) });
        let before = is_changed.then(|| in_file.to_owned());
        if text.contains(['\n', '\r']) || in_file.contains(['\n', '\r']) {
            let cell = TextCell {
                name: field,
                text: text.to_owned(),
                label,
                describes: described,
                in_file: before,
                bad: is_bad,
            };
            cell.view()
        } else {
            view! {
                <input
                    type="text"
                    name=field
                    value=text.to_owned()
                    autocomplete="off"
                    spellcheck="false"
                    aria-label=label
                    aria-describedby=described
                    aria-invalid=is_bad.then_some("true")
                    data-file=before
                />
            }
            .into_any()
        }
    } else {
        view! { <span>{short(text)}</span> }.into_any()
    };
    let class = if is_bad || is_surplus {
        Some("cell-bad")
    } else if is_changed {
        Some("cell-fixed")
    } else {
        None
    };
    let label = label(shape, place);
    let proposal = row.suggestion.as_ref().filter(|_| is_bad && field).map(|text| proposal(number, place, text));
    let fill = why.is_some().then(|| fill(shape)).flatten();
    let why = why.map(|why| view! { <span class="why" id=why_id>{icon("dead")} <span>{why}</span></span> });
    let changed = (is_changed && !is_bad).then(|| {
        let words = if in_file.is_empty() {
            t!("grid-was-empty").to_owned()
        } else {
            t!("grid-changed-from", text = &short(in_file))
        };
        view! { <span class="why" id=changed_id(number, place)>{icon("succeeded")} <span>{words}</span></span> }
    });
    view! {
        <td class=class role="cell" data-label=label>
            {body}
            {why}
            {proposal}
            {fill}
            {changed}
        </td>
    }
    .into_any()
}

/// Name of a column, for a cell on its own.
fn label(shape: &Shape<'_>, place: usize) -> String {
    match shape.columns.get(place) {
        Some(name) => name.clone(),
        None if shape.columns.is_empty() => t!("import-column", n = place + 1),
        None => t!("import-no-column").to_owned(),
    }
}

/// Button that puts the proposed text in the cell.
fn proposal(number: i64, place: usize, text: &str) -> AnyView {
    view! {
        <span class="why">
            <button
                class="btn btn-sm"
                type="submit"
                name="fix"
                value=format!("{number}-{place}")
                data-text=text.to_owned()
                aria-label=t!("grid-use-in-line", text = text, line = &number.to_string())
                formnovalidate
            >
                {icon("pencil")}
                {t!("grid-use", text = &short(text))}
            </button>
        </span>
    }
    .into_any()
}

fn changed_id(number: i64, place: usize) -> String {
    format!("changed-{number}-{place}")
}

/// Way to accept a row with too many or too few cells as it is.
fn fill(shape: &Shape<'_>) -> Option<AnyView> {
    let (row, width) = (shape.row, shape.width);
    let words = match row.cells.len() {
        n if !shape.is_open || n == width => return None,
        n if n > width => t!("grid-extra-cells"),
        _ => t!("grid-missing-cells"),
    };
    Some(
        view! {
            <label class="why">
                <input type="checkbox" name=format!("fill-{}", row.row) value="yes" />
                <span>{words}</span>
            </label>
        }
        .into_any(),
    )
}

/// The reason without its place, which is where it is shown.
fn in_words(row: &CheckedRow, problem: &str) -> String {
    match without_place(problem) {
        Some(reason) if row.needs_file => {
            format!("{} {}", crate::speech::in_words(&reason), t!("grid-correct-in-file"))
        }
        Some(reason) => crate::speech::in_words(&reason),
        None => crate::speech::in_words(problem),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_shown_without_its_place() {
        let row = CheckedRow {
            row: 51,
            cells: Vec::new(),
            cells_in_file: None,
            suggestion: None,
            problem: None,
            column: Some(2),
            needs_file: false,
            edited: false,
            left_out: false,
        };
        let long = "Line 51, column 2 (Betrag): expected a number, found \"51 CHF\".";
        assert_eq!(in_words(&row, long), "Expected a number, found \"51 CHF\".");
        assert_eq!(in_words(&row, "Something else."), "Something else.");
    }
}
