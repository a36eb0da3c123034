//! Documentation: the pages of `docs/` as HTML, from inside the binary.
//!
//! The pages are rendered once, at the first request. Raw HTML is left out, and nothing has inline styles, so the strict
//! content security policy of pages holds. The gallery stays out because of its size; links to it, and to files outside
//! of `docs/`, are plain text here.

mod contents;
mod markdown;

use std::{borrow::Cow, collections::HashMap, sync::LazyLock};

use app::pages::documentation::Chapter;
use rust_embed::Embed;

/// The Markdown files of the documentation and the charts in them.
#[derive(Embed)]
#[folder = "../docs"]
#[include = "*.md"]
#[include = "benchmarks/*.svg"]
#[exclude = "gallery/*"]
struct Files;

/// First page.
const FIRST: &str = "README.md";

/// One page: its title and its text as HTML.
#[derive(Debug)]
pub struct Document {
    pub title: String,
    pub html: String,
}

static DOCUMENTS: LazyLock<HashMap<String, Document>> = LazyLock::new(|| {
    Files::iter()
        .filter(|file| file.ends_with(".md") && file != "SUMMARY.md")
        .filter_map(|file| Some((file.to_string(), markdown::render(&file, &text(&file)?))))
        .collect()
});

static CONTENTS: LazyLock<Vec<Chapter>> = LazyLock::new(|| contents::chapters(&text("SUMMARY.md").unwrap_or_default()));

/// Page at a path below `/docs`, such as `how-to/proxy`; the empty path is the first page.
pub fn document(path: &str) -> Option<&'static Document> {
    DOCUMENTS.get(&if path.is_empty() { FIRST.to_owned() } else { format!("{path}.md") })
}

/// Table of contents.
pub fn contents() -> &'static [Chapter] {
    &CONTENTS
}

/// Chart of the page `benchmarks`.
pub fn chart(name: &str) -> Option<Cow<'static, [u8]>> {
    name.strip_suffix(".svg").and_then(|stem| Files::get(&format!("benchmarks/{stem}.svg"))).map(|file| file.data)
}

fn text(file: &str) -> Option<String> {
    String::from_utf8(Files::get(file)?.data.into()).ok()
}

/// URL of a file of `docs/`, if it is served.
fn address(file: &str) -> Option<String> {
    Files::get(file)?;
    if file == FIRST {
        return Some("/docs".to_owned());
    }
    Some(format!("/docs/{}", file.strip_suffix(".md").unwrap_or(file)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of an attribute.
    fn values<'a>(html: &'a str, attribute: &str) -> Vec<&'a str> {
        let begin = format!(" {attribute}=\"");
        html.split(begin.as_str()).skip(1).filter_map(|rest| rest.split('"').next()).collect()
    }

    #[test]
    fn every_link_leads_to_a_page_and_a_heading() {
        let mut broken = Vec::new();
        for (file, document) in DOCUMENTS.iter() {
            for link in values(&document.html, "href").into_iter().chain(values(&document.html, "src")) {
                if link.starts_with("https://") || link.starts_with("http://") {
                    continue;
                }
                let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
                let path = path.strip_prefix("/docs").expect("a page of the documentation").trim_start_matches('/');
                let is_there = path.strip_prefix("benchmarks/").is_some_and(|name| chart(name).is_some())
                    || super::document(path)
                        .is_some_and(|target| anchor.is_empty() || values(&target.html, "id").contains(&anchor));
                if !is_there {
                    broken.push(format!("{file}: {link}"));
                }
            }
        }
        assert!(broken.is_empty(), "{broken:#?}");
    }

    #[test]
    fn pages_obey_the_strict_content_security_policy() {
        assert!(DOCUMENTS.len() > 20, "{}", DOCUMENTS.len());
        for (file, document) in DOCUMENTS.iter() {
            for forbidden in [" style=", "<style", "<script", " onclick="] {
                assert!(!document.html.contains(forbidden), "{file}: {forbidden}");
            }
            assert!(!document.title.is_empty(), "{file}");
        }
    }

    #[test]
    fn contents_lead_to_every_page() {
        let links: Vec<&str> =
            contents().iter().flat_map(|chapter| &chapter.links).map(|link| link.address.as_str()).collect();
        for file in DOCUMENTS.keys() {
            let address = address(file).expect("a page");
            assert!(links.contains(&address.as_str()), "{address} is in none of {links:?}");
        }
        assert_eq!(links.len(), DOCUMENTS.len(), "{links:?}");
    }

    #[test]
    fn only_pages_and_charts_are_served() {
        assert!(document("").is_some_and(|first| first.title == "Treeline"));
        assert!(document("how-to/proxy").is_some());
        for nothing in ["README.md", "SUMMARY", "gallery/README", "../README", "book.toml", "how-to"] {
            assert!(document(nothing).is_none(), "{nothing}");
        }
        assert!(chart("depth.svg").is_some());
        assert!(chart("../README.md").is_none() && chart("none.svg").is_none());
    }
}
