//! HTML document around a page.
//!
//! A page has its data before it renders, so nothing streams. The boot script replaces the one of Leptos, which would
//! write the nonce into a readable attribute and does not handle a module that fails to load
//! (`docs/decisions/0001-islands.md`).

use std::sync::Arc;

use hydration_context::SsrSharedContext;
use leptos::{prelude::*, tachys::view::RenderHtml};

use crate::{
    components::{logo, sprite, text_area::escaped, timestamp::Clock},
    frame::{Frame, NavSection, Page, Theme},
    pages::shortcuts,
    shell,
    speech::speaking,
    t,
};

const BOOT_SCRIPT: &str = include_str!("scripts/boot.js");

/// Renders a page as text in its own reactive owner, for callers without a server.
pub fn html(frame: &Frame, page: impl FnOnce() -> Page) -> String {
    let owner = Owner::new_root(Some(Arc::new(SsrSharedContext::new_islands())));
    owner.with(|| document_text(frame, page))
}

/// Renders a page into its document, as text, in the reader's language.
pub fn document_text(frame: &Frame, page: impl FnOnce() -> Page) -> String {
    let (view, is_live) = speaking(frame.speech, || document(frame, page));
    sprite::fill(&view, is_live)
}

/// Renders a page into its document without icons, and returns whether it has islands. `page` runs inside the reactive
/// owner that the views need.
fn document(frame: &Frame, page: impl FnOnce() -> Page) -> (String, bool) {
    if let Some(shared) = Owner::current_shared_context() {
        // Only islands are hydrated, as with Leptos's own boot script.
        shared.set_is_hydrating(false);
    }
    provide_context(Clock { now: frame.now, offset_minutes: frame.offset_minutes });
    let Page { title, nav_section, content, is_live, is_translated } = page();
    let speech = frame.speech;
    let lang = (!is_translated && speech.catalog.tag != "en").then_some("en");
    let document = view! {
        <!DOCTYPE html>
        <html
            lang=speech.notation.tag.clone()
            data-words=speech.for_browser(is_live)
            data-sidebar=(frame.collapsed && frame.person.is_some()).then_some("collapsed")
            data-theme=(frame.theme != Theme::System).then(|| frame.theme.as_str())
            data-now=frame.now.unix_millis().to_string()
            data-read=frame.requested_at.unix_millis().to_string()
            data-offset=frame.offset_minutes.map(|minutes| minutes.to_string())
            data-islands=is_live.then_some("loading")
        >
            {head(frame, nav_section, &title)}
            <body>
                <div inner_html=sprite::PLACE></div>
                <a class="skip" href="#main">
                    {t!("shell-skip")}
                </a>
                {page_frame(frame, nav_section, lang, content)}
                {is_live.then(|| boot(frame))}
            </body>
        </html>
    };
    (document.to_html(), is_live)
}

/// Page in the shell of the signed-in person, or standalone between two plain lines.
/// `lang` is the language of the page if it is not that of the document.
fn page_frame(frame: &Frame, nav_section: NavSection, lang: Option<&'static str>, content: AnyView) -> AnyView {
    let brand = (nav_section == NavSection::Standalone && frame.person.is_none())
        .then(|| view! { <p class="standalone-brand">{logo::brand()} "Treeline"</p> });
    let main = view! {
        <main id="main" tabindex="-1" lang=lang>
            {brand} {content}
        </main>
    };
    let Some(person) = &frame.person else {
        if nav_section == NavSection::Standalone {
            return view! {
                <div class="outside">
                    {main}
                    {footer(frame)}
                    {logo::ridges()}
                </div>
            }
            .into_any();
        }
        return view! {
            {banner()}
            {main}
            {footer(frame)}
        }
        .into_any();
    };
    view! {
        <div class="app">
            {shell::side(frame, person, nav_section)}
            {shell::top(frame, person, nav_section)}
            {main}
        </div>
        {shell::tabbar(person, nav_section)}
        {shortcuts::dialog()}
        {shell::palette()}
    }
    .into_any()
}

fn head(frame: &Frame, nav_section: NavSection, title: &str) -> impl IntoView + use<> {
    let assets = frame.assets.clone();
    let section_style = match nav_section {
        NavSection::Imports => Some(assets.imports_style),
        NavSection::Documentation => Some(assets.documentation_style),
        _ => None,
    };
    view! {
        <head>
            <meta charset="utf-8" />
            <meta name="viewport" content="width=device-width, initial-scale=1, viewport-fit=cover" />
            <meta name="color-scheme" content="light dark" />
            {titled(title)}
            <link rel="icon" href=logo::icon_address() />
            <link rel="preload" href=assets.font r#as="font" r#type="font/woff2" crossorigin="anonymous" />
            <link rel="stylesheet" href=assets.style />
            {section_style.map(|style| view! { <link rel="stylesheet" href=style /> })}
            <script defer nonce=frame.nonce.clone() src=assets.page_script></script>
            {frame
                .refresh_seconds
                .map(|seconds| view! { <meta http-equiv="refresh" content=seconds.to_string() /> })}
        </head>
    }
}

/// Title as plain text: a marker that Leptos appends would be read out as part of it.
fn titled(title: &str) -> impl IntoView + use<> {
    view! { <title inner_html=escaped(&format!("{title} · Treeline"))></title> }
}

/// Script that hydrates the islands. The URLs are JSON strings, which are also JavaScript strings.
fn boot(frame: &Frame) -> impl IntoView + use<> {
    let quoted = |text: &str| serde_json::to_string(text).unwrap_or_default().replace('<', "\\u003c");
    let call = format!("{}({}, {});", BOOT_SCRIPT.trim_end(), quoted(&frame.assets.script), quoted(&frame.assets.wasm));
    view! { <script type="module" nonce=frame.nonce.clone() inner_html=call></script> }
}

/// Header of public pages.
fn banner() -> impl IntoView {
    view! {
        <header class="banner">
            <a class="brand" href="/">
                {logo::brand()}
                <span class="brand-name">"Treeline"</span>
            </a>
        </header>
    }
}

/// Footer of public pages.
fn footer(frame: &Frame) -> impl IntoView + use<> {
    view! { <footer class="footer">{shell::themes(frame)} {shell::languages(frame)}</footer> }
}

#[cfg(test)]
mod tests {
    use domain::Time;

    use super::*;
    use crate::frame::{Assets, Person};

    const HOSTILE: &str = "</title></textarea><script>alert(1)</script><img src=x onerror=alert(1)>\"'";

    fn rendered(page: impl FnOnce() -> Page) -> String {
        rendered_in(crate::speech::Languages::english(), page)
    }

    fn rendered_in(speech: crate::speech::Speech, page: impl FnOnce() -> Page) -> String {
        let frame = Frame {
            nonce: "n0nce".to_owned(),
            assets: Assets { script: "/pkg/1/</script>.js".to_owned(), ..Assets::default() },
            theme: Theme::Dark,
            collapsed: false,
            environment: None,
            dead: Some(1),
            notices: None,
            now: Time::parse("2026-11-20T14:03:07Z").expect("a time"),
            requested_at: Time::parse("2026-11-20T14:03:07Z").expect("a time"),
            offset_minutes: None,
            speech,
            languages: Vec::new(),
            person: Some(Person { name: HOSTILE.to_owned(), staff: true, admin: true }),
            address: format!("/?q={HOSTILE}"),
            refresh_seconds: None,
        };
        html(&frame, page)
    }

    fn hostile_page() -> Page {
        let content = view! { <h1 title=HOSTILE>{HOSTILE}</h1> }.into_any();
        Page {
            title: HOSTILE.to_owned(),
            nav_section: NavSection::Elsewhere,
            content,
            is_live: true,
            is_translated: false,
        }
    }

    #[test]
    fn hostile_text_stays_text() {
        let html = rendered(hostile_page);
        assert!(!html.contains("<script>") && !html.contains("<img"), "{html}");
        assert!(!html.contains("/pkg/1/</script>"), "{html}");
    }

    #[test]
    fn an_english_page_says_so_in_a_german_document() {
        let languages = crate::speech::Languages::default();
        let german = languages.speech(Some("de"), None);
        let main = "<main id=\"main\" tabindex=\"-1\"";
        let html = rendered_in(german, hostile_page);
        assert!(html.contains("lang=\"de\"") && html.contains(&format!("{main} lang=\"en\">")), "{html}");
        for html in [rendered_in(german, || Page { is_translated: true, ..hostile_page() }), rendered(hostile_page)] {
            assert!(html.contains(&format!("{main}>")), "{html}");
        }
    }

    #[test]
    fn title_is_escaped_text() {
        let html = rendered(|| Page { title: "A & B".to_owned(), ..hostile_page() });
        assert!(html.contains("<title>A &amp; B · Treeline</title>"), "{html}");
    }

    #[test]
    fn page_obeys_the_strict_content_security_policy() {
        let html = rendered(hostile_page);
        assert!(!html.contains(" style=") && !html.contains(" onclick="), "{html}");
        let scripts = html.matches("<script").count();
        assert_eq!(scripts, html.matches("nonce=\"n0nce\"").count());
        assert_eq!(scripts, 2);
    }

    #[test]
    fn a_page_without_islands_loads_no_module() {
        let html = rendered(|| Page { is_live: false, ..hostile_page() });
        assert!(!html.contains("type=\"module\"") && !html.contains("data-islands"), "{html}");
    }
}
