//! Fixes of all rows with the same problem: cells changed as proposed, or rows left out.

use std::collections::BTreeMap;

use domain::import::file_check::FileCheck;
use leptos::prelude::*;

use crate::{components::state::icon, t};

/// Rows of a column with a problem.
#[derive(Default)]
struct Column {
    /// Those with a proposal.
    fixable: i64,
    others: i64,
}

/// A line for each column in which several rows have a problem.
pub(super) fn section(check: &FileCheck) -> Option<AnyView> {
    let mut columns: BTreeMap<usize, Column> = BTreeMap::new();
    for row in check.listed.iter().filter(|row| row.problem.is_some()) {
        let Some(place) = row.column.and_then(|column| usize::try_from(column - 1).ok()) else { continue };
        let column = columns.entry(place).or_default();
        if row.suggestion.is_some() { column.fixable += 1 } else { column.others += 1 }
    }
    columns.retain(|_, column| column.fixable > 1 || column.others > 1);
    if columns.is_empty() {
        return None;
    }
    let lines = columns.iter().map(|(&place, column)| line(check, place, column)).collect_view();
    Some(
        view! {
            <ul class="lined quick-fixes" id="quick-fixes" aria-label=t!("fixes-title")>
                {lines}
            </ul>
        }
        .into_any(),
    )
}

fn line(check: &FileCheck, place: usize, column: &Column) -> impl IntoView + use<> {
    let name = check.columns.get(place).cloned().unwrap_or_else(|| t!("import-column", n = place + 1));
    let rows = t!("fixes-rows", n = column.fixable + column.others);
    let fix = (column.fixable > 1).then(|| {
        view! {
            <button class="btn btn-sm" type="submit" name="fix" value=format!("all-{place}") formnovalidate>
                {icon("pencil")}
                {t!("fixes-as-proposed", n = column.fixable)}
            </button>
        }
    });
    let out = (column.others > 1).then(|| {
        view! {
            <button class="btn btn-sm" type="submit" name="fix" value=format!("out-{place}") formnovalidate>
                {t!("fixes-leave-out", n = column.others)}
            </button>
        }
    });
    view! {
        <li class="row-wrap">
            <span class="grow">
                <strong>{name}</strong>
                " "
                <span class="soft">{rows}</span>
            </span>
            {fix}
            {out}
        </li>
    }
}
