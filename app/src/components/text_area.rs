//! The only `<textarea>`: Leptos does not escape its content, so nothing else may write one.
//!
//! The editable text is the stored text, byte for byte. HTML drops a line break after the opening tag, so one is
//! written before the text. Only this module, the title of a document and the JSON viewer may pass outside text
//! through `inner_html`.

use leptos::prelude::*;

/// Multi-line field. `describes` is the id of its description; `bad` marks it as invalid.
pub fn text_area(id: &str, name: impl Into<String>, text: &str, describes: &str, bad: bool) -> AnyView {
    let (id, name, describes) = (id.to_owned(), name.into(), describes.to_owned());
    let rows = text.lines().count().clamp(4, 16).to_string();
    view! {
        <textarea
            id=id
            name=name
            rows=rows
            spellcheck="false"
            autocomplete="off"
            class="mono"
            aria-describedby=(!describes.is_empty()).then_some(describes)
            aria-invalid=bad.then_some("true")
            inner_html=format!("\n{}", escaped(text))
        ></textarea>
    }
    .into_any()
}

/// Multi-line field for prose.
pub fn plain_text_area(
    id: &str,
    name: String,
    text: &str,
    describes: Option<String>,
    required: bool,
    bad: bool,
) -> AnyView {
    let id = id.to_owned();
    view! {
        <textarea
            id=id
            name=name
            rows="4"
            autocomplete="off"
            required=required
            aria-describedby=describes
            aria-invalid=bad.then_some("true")
            inner_html=format!("\n{}", escaped(text))
        ></textarea>
    }
    .into_any()
}

/// Text that a copy button copies, as `{id}-source`.
pub fn hidden_source(id: &str, text: &str) -> AnyView {
    view! { <textarea id=format!("{id}-source") hidden=true readonly=true inner_html=format!("\n{}", escaped(text))></textarea> }
        .into_any()
}

/// A cell of a table, for a text with line breaks.
#[derive(Clone, Debug)]
#[must_use = "a cell is drawn by its view"]
pub struct TextCell {
    pub name: String,
    pub text: String,
    pub label: String,
    pub describes: Option<String>,
    /// Original text, restored on reset if it differs.
    pub in_file: Option<String>,
    pub bad: bool,
}

impl TextCell {
    pub fn view(self) -> AnyView {
        let Self { name, text, label, describes, in_file, bad } = self;
        view! {
            <textarea
                name=name
                rows="2"
                spellcheck="false"
                autocomplete="off"
                aria-label=label
                aria-describedby=describes
                aria-invalid=bad.then_some("true")
                data-file=in_file
                inner_html=format!("\n{}", escaped(&text))
            ></textarea>
        }
        .into_any()
    }
}

/// Escapes text for an element that contains only text.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(all(test, feature = "ssr"))]
mod tests {
    use super::*;

    #[test]
    fn content_round_trips_and_cannot_close_the_element() {
        let text = "\n{\"n\": 9007199254740993, \"x\": \"</textarea><script>alert(1)</script>&amp;\"}";
        let html = Owner::new().with(|| text_area("payload", "payload", text, "help", false).to_html());
        assert!(html.contains(
            ">\n\n{\"n\": 9007199254740993, \"x\": \"&lt;/textarea&gt;&lt;script&gt;alert(1)&lt;/script&gt;&amp;amp;\"}</textarea>"
        ), "{html}");
        assert!(!html.contains("<script"), "{html}");
    }
}
