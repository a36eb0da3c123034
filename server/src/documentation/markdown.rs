//! Markdown to HTML: anchors of headings as GitHub makes them, links to other pages, and no raw HTML.

use std::collections::HashMap;

use pulldown_cmark::{Alignment, CowStr, Event, Options, Parser, Tag, TagEnd, html};

use super::{Document, address};

/// Renders a file of `docs/`.
pub(super) fn render(file: &str, markdown: &str) -> Document {
    let events: Vec<Event<'_>> = Parser::new_ext(markdown, Options::ENABLE_TABLES).collect();
    let mut page = Page { file, anchors: HashMap::new(), links: Vec::new() };
    let mut title = String::new();
    let mut rendered = Vec::with_capacity(events.len());
    for (at, event) in events.iter().enumerate() {
        let heading = || heading_text(&events[at..]);
        if title.is_empty() && matches!(event, Event::Start(Tag::Heading { .. })) {
            title = heading();
        }
        page.push(event, heading, &mut rendered);
    }
    let mut html = String::with_capacity(markdown.len() * 3 / 2);
    html::push_html(&mut html, rendered.into_iter());
    Document { title, html }
}

struct Page<'a> {
    file: &'a str,
    /// Number of headings by anchor.
    anchors: HashMap<String, usize>,
    /// For every open link: whether it is one here, too.
    links: Vec<bool>,
}

impl Page<'_> {
    fn push<'e>(&mut self, event: &Event<'e>, heading: impl Fn() -> String, rendered: &mut Vec<Event<'e>>) {
        match event {
            Event::Html(_) | Event::InlineHtml(_) | Event::Start(Tag::HtmlBlock) | Event::End(TagEnd::HtmlBlock) => {}
            Event::Start(Tag::Heading { level, classes, attrs, .. }) => {
                let id = Some(CowStr::from(self.anchor(&heading())));
                let (level, classes, attrs) = (*level, classes.clone(), attrs.clone());
                rendered.push(Event::Start(Tag::Heading { level, id, classes, attrs }));
            }
            // Alignments would become inline styles. Wide tables scroll, which keyboards can do only with the focus.
            Event::Start(Tag::Table(alignments)) => {
                rendered.push(Event::Html("<div class=\"scroll\" tabindex=\"0\">".into()));
                rendered.push(Event::Start(Tag::Table(vec![Alignment::None; alignments.len()])));
            }
            Event::End(TagEnd::Table) => {
                rendered.push(event.clone());
                rendered.push(Event::Html("</div>".into()));
            }
            Event::Start(Tag::CodeBlock(_)) => {
                rendered.push(Event::Html("<pre class=\"scroll\" tabindex=\"0\"><code>".into()));
            }
            Event::End(TagEnd::CodeBlock) => rendered.push(Event::Html("</code></pre>".into())),
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                let target = self.target(dest_url);
                self.links.push(target.is_some());
                if let Some(target) = target {
                    let (link_type, title, id) = (*link_type, title.clone(), id.clone());
                    rendered.push(Event::Start(Tag::Link { link_type, dest_url: target.into(), title, id }));
                }
            }
            Event::End(TagEnd::Link) => {
                if self.links.pop() == Some(true) {
                    rendered.push(event.clone());
                }
            }
            Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
                // A picture that is not served keeps its description: an empty URL would load the page again.
                let dest_url = self.target(dest_url).unwrap_or_else(|| "data:,".to_owned()).into();
                let (link_type, title, id) = (*link_type, title.clone(), id.clone());
                rendered.push(Event::Start(Tag::Image { link_type, dest_url, title, id }));
            }
            _ => rendered.push(event.clone()),
        }
    }

    fn anchor(&mut self, heading: &str) -> String {
        let words = heading.trim().to_lowercase().replace(' ', "-");
        let anchor: String = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect();
        let count = self.anchors.entry(anchor.clone()).or_default();
        *count += 1;
        if *count == 1 { anchor } else { format!("{anchor}-{}", *count - 1) }
    }

    /// URL of a link's target, if it is served.
    fn target(&self, link: &str) -> Option<String> {
        if link.starts_with("https://") || link.starts_with("http://") {
            return Some(link.to_owned());
        }
        let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
        let page = address(&resolved(self.file, path)?)?;
        Some(anchor.map_or_else(|| page.clone(), |anchor| format!("{page}#{anchor}")))
    }
}

/// Text of the heading that begins with the first event.
fn heading_text(events: &[Event<'_>]) -> String {
    let inside = events.iter().take_while(|event| !matches!(event, Event::End(TagEnd::Heading(_))));
    inside
        .filter_map(|event| match event {
            Event::Text(text) | Event::Code(text) => Some(text.as_ref()),
            _ => None,
        })
        .collect()
}

/// File that a relative path in another file names, if it is below `docs/`.
fn resolved(from: &str, path: &str) -> Option<String> {
    if path.is_empty() {
        return Some(from.to_owned());
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_have_anchors_as_on_github() {
        let document = render("api.md", "# The `API`, in short\n\n## Twice\n\n## Twice\n");
        assert_eq!(document.title, "The API, in short");
        for id in ["the-api-in-short", "twice", "twice-1"] {
            assert!(document.html.contains(&format!(" id=\"{id}\"")), "{id}: {}", document.html);
        }
    }

    #[test]
    fn links_lead_to_pages_and_stay_text_elsewhere() {
        let html = |file: &str, text: &str| render(file, text).html;
        assert_eq!(html("how-to/tls.md", "[a](../api.md#x)"), "<p><a href=\"/docs/api#x\">a</a></p>\n");
        assert_eq!(html("api.md", "[a](README.md)"), "<p><a href=\"/docs\">a</a></p>\n");
        assert_eq!(html("api.md", "[a](#here)"), "<p><a href=\"/docs/api#here\">a</a></p>\n");
        assert_eq!(html("api.md", "[a](https://b.c)"), "<p><a href=\"https://b.c\">a</a></p>\n");
        for elsewhere in ["../README.md", "gallery/README.md", "none.md", "javascript:alert(1)", "../../x"] {
            assert_eq!(html("api.md", &format!("[a]({elsewhere})")), "<p>a</p>\n", "{elsewhere}");
        }
    }

    #[test]
    fn raw_html_and_styles_are_left_out() {
        let html = render("api.md", "<b onclick=\"x\">a</b>\n\n<!-- c -->\n\n| a |\n|--:|\n| b |\n").html;
        assert!(html.starts_with("<p>a</p>"), "{html}");
        assert!(!html.contains("style") && !html.contains("<!--"), "{html}");
    }
}
