//! JSON viewer: one member per line, colored, foldable, with readable text; and a diff of two documents. Rendered
//! on the server from the stored text, so every number keeps its digits.
//!
//! Payloads, results, steps, metadata and error details all use it.

mod diff;
mod lines;

use std::fmt::Write as _;

use domain::Document;
use leptos::prelude::*;

pub use diff::changes;
pub use lines::summary;
use lines::{Piece, lines};

use super::{
    state::icon,
    text_area::{escaped, hidden_source},
};

/// Maximum bytes of a document on a page; the API returns all of it.
pub const MOST_BYTES: usize = 32 << 10;

/// Depth below which nothing is folded initially.
const FOLDS: usize = 8;

/// Viewer of a document. `id` is unique on the page; `raw` links to the whole document.
pub fn viewer(id: &str, label: &str, document: &Document, raw: Option<&str>) -> AnyView {
    let text = document.text();
    let cut = text.len() > MOST_BYTES;
    let excerpt = &text[..text.floor_char_boundary(MOST_BYTES)];
    let more = cut.then(|| {
        let link = raw.map(|raw| view! { " " <a href=raw.to_owned()>"Open raw JSON"</a> });
        view! { <p class="doc-cut">"Showing the first 32 KB." {link}</p> }
    });
    // The copy button copies the stored text. A truncated document has none: a part of it is not valid JSON.
    let source = (!cut).then(|| hidden_source(id, text));
    view! {
        <div class="doc" id=id.to_owned() tabindex="0" role="group" aria-label=label.to_owned() inner_html=html(excerpt)></div>
        {source}
        {more}
    }
    .into_any()
}

/// The button that copies a document of a viewer, for the head of its card.
pub fn copy_button(id: &str, what: &str, document: &Document) -> Option<AnyView> {
    (document.text().len() <= MOST_BYTES).then(|| {
        view! {
            <button
                type="button"
                class="btn btn-sm only-scripted"
                data-copy=format!("{id}-source")
                aria-label=format!("Copy {what}")
            >
                {icon("copy")}
                <span>{crate::t!("script-copy")}</span>
            </button>
        }
        .into_any()
    })
}

/// Document with one member per line for editing; a long document as it is stored.
pub fn pretty(document: &Document) -> String {
    let text = document.text();
    if text.len() > MOST_BYTES || text.contains('\n') {
        return text.to_owned();
    }
    lines(text).iter().map(lines::Line::text).collect::<Vec<_>>().join("\n")
}

/// Renders the lines of a document as HTML. All outside text is escaped here.
fn html(text: &str) -> String {
    let mut html = String::with_capacity(text.len() * 3);
    let mut open = 0_usize;
    for line in lines(text) {
        let indent = "  ".repeat(line.depth);
        let key = line.key.as_ref().map(|key| format!("<span class=\"j-k\">{}</span>: ", escaped(key)));
        let key = key.unwrap_or_default();
        let comma = if line.comma { "," } else { "" };
        let folds = (1..FOLDS).contains(&line.depth);
        let _ = match line.piece {
            Piece::Open(bracket, n) if folds => {
                open += 1;
                let unit = match (bracket, n) {
                    ('{', 1) => "1 field",
                    ('{', _) => "fields",
                    (_, 1) => "1 element",
                    _ => "elements",
                };
                let length = if n == 1 { unit.to_owned() } else { format!("{n} {unit}") };
                write!(html, "<details open><summary data-length=\"{length}\">{indent}{key}{bracket}</summary>")
            }
            Piece::Open(bracket, _) => writeln!(html, "{indent}{key}{bracket}"),
            Piece::Close(bracket) if folds && open > 0 => {
                open -= 1;
                writeln!(html, "</details>{indent}{bracket}{comma}")
            }
            Piece::Close(bracket) => writeln!(html, "{indent}{bracket}{comma}"),
            Piece::Empty(brackets) => writeln!(html, "{indent}{key}{brackets}{comma}"),
            Piece::Scalar(ref value) => {
                let class = match value.as_bytes().first() {
                    Some(b'"') => "j-s",
                    Some(b'-' | b'0'..=b'9') => "j-n",
                    _ => "j-w",
                };
                writeln!(html, "{indent}{key}<span class=\"{class}\">{}</span>{comma}", escaped(value))
            }
        };
    }
    html.push_str(&"</details>".repeat(open));
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_readable_fold_and_keep_their_digits() {
        let rendered =
            html(r#"{"name":"M\u00fcller","n":1.10,"big":9007199254740993,"runways":[{"lit":null}],"none":[]}"#);
        for part in [
            "<span class=\"j-k\">\"name\"</span>: <span class=\"j-s\">\"Müller\"</span>,\n",
            "<span class=\"j-n\">1.10</span>",
            "<span class=\"j-n\">9007199254740993</span>",
            "<summary data-length=\"1 element\">  <span class=\"j-k\">\"runways\"</span>: [</summary>",
            "<span class=\"j-w\">null</span>",
            ": []\n",
        ] {
            assert!(rendered.contains(part), "{part} in {rendered}");
        }
        assert_eq!(rendered.matches("<details").count(), rendered.matches("</details>").count());
    }

    #[test]
    fn documents_are_escaped() {
        let rendered = html(r#"{"</div><script>alert(1)</script>":"\u003cimg src=x onerror=alert(1)\u003e"}"#);
        assert!(!rendered.contains("<script") && !rendered.contains("<img"), "{rendered}");
    }

    #[test]
    fn truncated_document_renders_up_to_the_cut() {
        let whole = r#"{"a":[{"b":"text"},{"c":[1,2,{"d":"long"#;
        for at in 0..=whole.len() {
            let rendered = html(&whole[..at]);
            assert_eq!(rendered.matches("<details").count(), rendered.matches("</details>").count(), "{rendered}");
        }
    }
}
