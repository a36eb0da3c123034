//! One HTML document around a page.
//!
//! Drawn in one go to a string: pages have their data before they are drawn, so nothing streams and
//! nothing suspends. The boot script replaces Leptos' own, which would write the nonce into a readable
//! attribute and has no road for a module that fails to load (`docs/decisions/0001-islands.md`).

use std::sync::Arc;

use hydration_context::SsrSharedContext;
use leptos::{prelude::*, tachys::view::RenderHtml};

use crate::{
    components::{mark, moment::Clock, sprite::SPRITE},
    frame::{Frame, Page, Place, Theme},
};

const PAGE_SCRIPT: &str = include_str!("scripts/page.js");
const BOOT_SCRIPT: &str = include_str!("scripts/boot.js");

/// Draws a page. `page` makes it inside the reactive owner that the views need.
pub fn document(frame: &Frame, page: impl FnOnce() -> Page) -> String {
    let owner = Owner::new_root(Some(Arc::new(SsrSharedContext::new_islands())));
    let html = owner.with(|| {
        provide_context(Clock { now: frame.now, offset_minutes: frame.offset_minutes });
        let Page { title, place, content, lives } = page();
        view! {
            <html
                lang="en"
                data-theme=(frame.theme != Theme::System).then(|| frame.theme.as_str())
                data-now=frame.now.unix_millis().to_string()
                data-islands=lives.then_some("loading")
            >
                {head(frame, &title, lives)}
                <body>
                    <div inner_html=SPRITE></div>
                    <a class="skip" href="#main">
                        "Skip to content"
                    </a>
                    {banner(frame, place)}
                    <main id="main" tabindex="-1">
                        {content}
                    </main>
                    {footer(frame)}
                    <script nonce=frame.nonce.clone() inner_html=PAGE_SCRIPT></script>
                    {lives.then(|| boot(frame))}
                </body>
            </html>
        }
        .to_html()
    });
    format!("<!DOCTYPE html>{html}")
}

fn head(frame: &Frame, title: &str, lives: bool) -> impl IntoView + use<> {
    let assets = frame.assets.clone();
    let nonce = frame.nonce.clone();
    view! {
        <head>
            <meta charset="utf-8" />
            <meta name="viewport" content="width=device-width, initial-scale=1, viewport-fit=cover" />
            <meta name="color-scheme" content="light dark" />
            <title>{format!("{title} · Treeline")}</title>
            <link rel="icon" href=mark::icon_address() />
            <link rel="preload" href=assets.font r#as="font" r#type="font/woff2" crossorigin="anonymous" />
            <link rel="stylesheet" href=assets.style />
            {lives
                .then(|| {
                    view! {
                        <link rel="modulepreload" href=assets.script nonce=nonce />
                        <link
                            rel="preload"
                            href=assets.wasm
                            r#as="fetch"
                            r#type="application/wasm"
                            crossorigin="anonymous"
                        />
                    }
                })}
            {frame
                .refresh_seconds
                .map(|seconds| view! { <meta http-equiv="refresh" content=seconds.to_string() /> })}
        </head>
    }
}

/// The script that wakes the islands. The addresses are JSON strings, which are JavaScript strings.
fn boot(frame: &Frame) -> impl IntoView + use<> {
    let quoted = |text: &str| serde_json::to_string(text).unwrap_or_default().replace('<', "\\u003c");
    let call = format!("{}({}, {});", BOOT_SCRIPT.trim_end(), quoted(&frame.assets.script), quoted(&frame.assets.wasm));
    view! { <script type="module" nonce=frame.nonce.clone() inner_html=call></script> }
}

fn banner(frame: &Frame, place: Place) -> impl IntoView + use<> {
    let person = frame.person.clone();
    let current = move |link: Place| (link == place).then_some("page");
    view! {
        <header class="banner">
            <a class="brand" href="/">
                {mark::treeline(4, "brand-mark")}
                <span class="brand-name">"Treeline"</span>
            </a>
            {person
                .map(|person| {
                    let staff = person.staff;
                    view! {
                        <nav aria-label="Main">
                            <a href="/imports" aria-current=current(Place::Imports)>
                                "My uploads"
                            </a>
                            <a href="/jobs" aria-current=current(Place::Jobs)>
                                {if staff { "Jobs" } else { "My jobs" }}
                            </a>
                        </nav>
                        <form class="person" method="post" action="/sign-out">
                            <span class="person-name">{person.name}</span>
                            <button class="quiet" type="submit">
                                "Sign out"
                            </button>
                        </form>
                    }
                })}
        </header>
    }
}

fn footer(frame: &Frame) -> impl IntoView + use<> {
    let chosen = frame.theme;
    let address = frame.address.clone();
    let choices = Theme::ALL
        .into_iter()
        .map(|theme| {
            let word = match theme {
                Theme::System => "System",
                Theme::Light => "Light",
                Theme::Dark => "Dark",
            };
            view! {
                <button
                    class="choice"
                    type="submit"
                    name="theme"
                    value=theme.as_str()
                    aria-pressed=if theme == chosen { "true" } else { "false" }
                >
                    {word}
                </button>
            }
        })
        .collect_view();
    view! {
        <footer class="footer">
            <form method="post" action="/theme" class="choices" aria-label="Colours">
                <input type="hidden" name="back" value=address />
                {choices}
            </form>
            <a href="/api/docs">"API"</a>
        </footer>
    }
}
