//! Documentation: the table of contents and one page of text, which the server has rendered from Markdown.

use leptos::prelude::*;

use crate::frame::{NavSection, Page};

/// Chapter of the table of contents; the first has no title.
#[derive(Clone, Debug)]
pub struct Chapter {
    pub title: String,
    pub links: Vec<ChapterLink>,
}

/// Link to a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChapterLink {
    pub title: String,
    pub address: String,
}

/// `/docs` and its pages. `html` is trusted: it is made of the product's own files.
pub fn page(title: &str, html: &'static str, contents: &[Chapter], address: &str) -> Page {
    let content = view! {
        <div class="book">
            <details class="book-contents" open>
                <summary>"Contents"</summary>
                <nav aria-label="Documentation">{contents.iter().map(|it| chapter(it, address)).collect_view()}</nav>
            </details>
            <article class="book-text" inner_html=html></article>
        </div>
    }
    .into_any();
    Page {
        title: title.to_owned(),
        nav_section: NavSection::Documentation,
        content,
        is_live: false,
        is_translated: false,
    }
}

fn chapter(chapter: &Chapter, address: &str) -> impl IntoView + use<> {
    let links = chapter.links.iter().map(|link| {
        let (title, is_this) = (link.title.clone(), link.address == address);
        view! {
            <li>
                <a href=link.address.clone() aria-current=is_this.then_some("page")>
                    {title}
                </a>
            </li>
        }
    });
    let links = links.collect_view();
    let title = (!chapter.title.is_empty()).then(|| view! { <p>{chapter.title.clone()}</p> });
    view! {
        {title}
        <ul>{links}</ul>
    }
}
