//! The one `<textarea>`: Leptos does not escape what stands between its tags, so nobody else writes one.
//!
//! What a person gets to edit is the text as it is stored, byte for byte: the line break that HTML takes
//! away after the opening tag is written before it. Nothing but this, the title of a document
//! and the viewer of JSON may go through `inner_html` with text from outside.

use leptos::prelude::*;

/// A field of several lines. `describes` names what explains it; `bad` marks it as refused.
pub fn text_area(id: &str, name: &'static str, text: &str, describes: &str, bad: bool) -> AnyView {
    let (id, describes) = (id.to_owned(), describes.to_owned());
    let rows = text.lines().count().clamp(4, 16).to_string();
    view! {
        <textarea
            id=id
            name=name
            rows=rows
            spellcheck="false"
            autocomplete="off"
            class="mono"
            aria-describedby=describes
            aria-invalid=bad.then_some("true")
            inner_html=format!("\n{}", escaped(text))
        ></textarea>
    }
    .into_any()
}

/// Text as it may stand in an element that holds nothing but text.
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
    fn nothing_ends_it_and_nothing_is_lost() {
        let text = "\n{\"n\": 9007199254740993, \"x\": \"</textarea><script>alert(1)</script>&amp;\"}";
        let html = Owner::new().with(|| text_area("payload", "payload", text, "help", false).to_html());
        assert!(html.contains(
            ">\n\n{\"n\": 9007199254740993, \"x\": \"&lt;/textarea&gt;&lt;script&gt;alert(1)&lt;/script&gt;&amp;amp;\"}</textarea>"
        ), "{html}");
        assert!(!html.contains("<script"), "{html}");
    }
}
