//! Diff of two documents by line, with a little context.

use domain::Document;
use leptos::prelude::*;

use super::{
    MOST_BYTES,
    lines::{Line, lines},
};

/// Number of context lines around a change.
const AROUND: usize = 2;
/// Maximum number of line pairs to compare.
const MOST_PAIRS: usize = 1_000_000;

/// A line of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change<'a> {
    Same(&'a str),
    Removed(&'a str),
    Added(&'a str),
}

/// Diff of two documents. `None` if they are equal or too long to compare.
pub fn changes(before: &Document, after: &Document) -> Option<AnyView> {
    if before.text().len() > MOST_BYTES || after.text().len() > MOST_BYTES {
        return None;
    }
    let texts = |document: &Document| -> Vec<String> { lines(document.text()).iter().map(Line::text).collect() };
    let (old, new) = (texts(before), texts(after));
    let changes = compare(&old, &new)?;
    let near = |at: usize| {
        let (from, to) = (at.saturating_sub(AROUND), (at + AROUND + 1).min(changes.len()));
        changes[from..to].iter().any(|change| !matches!(change, Change::Same(_)))
    };
    let mut rows = Vec::new();
    let mut gap = false;
    for (at, change) in changes.iter().enumerate() {
        if !near(at) {
            gap = true;
            continue;
        }
        if std::mem::take(&mut gap) {
            rows.push(view! { <span class="diff-gap">"…"</span> }.into_any());
        }
        rows.push(match *change {
            Change::Same(line) => view! { <span class="diff-same">{format!("  {line}")}</span> }.into_any(),
            Change::Removed(line) => view! { <del class="diff-del">{format!("- {line}")}</del> }.into_any(),
            Change::Added(line) => view! { <ins class="diff-add">{format!("+ {line}")}</ins> }.into_any(),
        });
    }
    (!rows.is_empty())
        .then(|| view! { <div class="doc" tabindex="0" role="group" aria-label="Changes">{rows}</div> }.into_any())
}

/// Longest common subsequence of the lines, as changes.
fn compare<'a>(old: &'a [String], new: &'a [String]) -> Option<Vec<Change<'a>>> {
    // A comma after the last member is not a change.
    let bare = |line: &'a str| line.strip_suffix(',').unwrap_or(line);
    let same = |a: &'a String, b: &'a String| bare(a) == bare(b);
    let head = old.iter().zip(new).take_while(|(a, b)| same(a, b)).count();
    let tail = old[head..].iter().rev().zip(new[head..].iter().rev()).take_while(|(a, b)| same(a, b)).count();
    let (gone, come) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
    if gone.len().saturating_mul(come.len()) > MOST_PAIRS {
        return None;
    }
    let mut longest = vec![vec![0_u32; come.len() + 1]; gone.len() + 1];
    for row in (0..gone.len()).rev() {
        for column in (0..come.len()).rev() {
            longest[row][column] = if same(&gone[row], &come[column]) {
                longest[row + 1][column + 1] + 1
            } else {
                longest[row + 1][column].max(longest[row][column + 1])
            };
        }
    }
    let mut changes: Vec<Change<'a>> = old[..head].iter().map(|line| Change::Same(line)).collect();
    let (mut row, mut column) = (0, 0);
    while row < gone.len() || column < come.len() {
        if row < gone.len() && column < come.len() && same(&gone[row], &come[column]) {
            changes.push(Change::Same(&come[column]));
            (row, column) = (row + 1, column + 1);
        } else if row < gone.len() && (column == come.len() || longest[row + 1][column] >= longest[row][column + 1]) {
            changes.push(Change::Removed(bare(&gone[row])));
            row += 1;
        } else {
            changes.push(Change::Added(bare(&come[column])));
            column += 1;
        }
    }
    changes.extend(new[new.len() - tail..].iter().map(|line| Change::Same(line)));
    Some(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_lines_are_marked() {
        let texts = |text: &str| -> Vec<String> { lines(text).iter().map(Line::text).collect() };
        let (old, new) = (texts(r#"{"zip":"00917","n":1}"#), texts(r#"{"zip":10115,"n":1,"x":true}"#));
        let marked: Vec<Change<'_>> =
            compare(&old, &new).expect("short").into_iter().filter(|c| !matches!(c, Change::Same(_))).collect();
        assert_eq!(
            marked,
            [
                Change::Removed("  \"zip\": \"00917\""),
                Change::Added("  \"zip\": 10115"),
                Change::Added("  \"x\": true")
            ]
        );
    }
}
