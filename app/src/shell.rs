//! Shell around pages for signed-in people: sidebar, top bar, account menu, and a bottom bar on phones.
//!
//! It consists of links and forms, so it works without scripts; the links depend only on the role.

use crate::speech::grouped;
use leptos::prelude::*;

use crate::{
    components::{
        breadcrumbs::{self, Breadcrumbs},
        logo,
    },
    frame::{Frame, NavSection, Person, Theme},
    live::liveness::topics_pill,
    notice_bell, t,
};

/// A link of the navigation.
#[derive(Clone, Copy)]
struct Link {
    to: &'static str,
    /// Finds its label.
    word: fn() -> &'static str,
    icon: &'static str,
    nav_section: NavSection,
}

const fn link(to: &'static str, word: fn() -> &'static str, icon: &'static str, nav_section: NavSection) -> Link {
    Link { to, word, icon, nav_section }
}

const OVERVIEW: Link = link("/", || t!("nav-overview"), "#i-layout-dashboard", NavSection::Overview);
const JOBS: Link = link("/jobs", || t!("nav-jobs"), "#i-list-tree", NavSection::Jobs);
const FAILURES: Link = link("/dead", || t!("nav-failures"), "#i-circle-alert", NavSection::Dead);
const OPERATIONS: Link = link("/bulk", || t!("nav-operations"), "#i-layers", NavSection::Bulk);
const IMPORTS: Link = link("/imports", || t!("nav-imports"), "#i-file-up", NavSection::Imports);
const WORKERS: Link = link("/workers", || t!("nav-workers"), "#i-server", NavSection::Workers);
const TYPES: Link = link("/types", || t!("nav-job-types"), "#i-shapes", NavSection::Types);
const SCHEDULES: Link = link("/schedules", || t!("nav-schedules"), "#i-calendar-clock", NavSection::Schedules);
const WEBHOOKS: Link = link("/deliveries", || t!("nav-webhooks"), "#i-webhook", NavSection::Webhooks);
const PEOPLE: Link = link("/people", || t!("nav-people"), "#i-users", NavSection::People);
const ACCESS: Link = link("/services", || t!("nav-api-access"), "#i-key-round", NavSection::Services);
const AUDIT: Link = link("/audit", || t!("nav-audit-log"), "#i-scroll-text", NavSection::Audit);

/// Groups of links that a person sees, each with its heading.
fn groups(person: &Person) -> Vec<(&'static str, Vec<Link>)> {
    if !person.staff {
        return vec![(t!("nav-group-files"), vec![IMPORTS]), (t!("nav-group-work"), vec![JOBS, FAILURES])];
    }
    let admin = if person.admin { vec![PEOPLE, ACCESS, AUDIT] } else { vec![AUDIT] };
    vec![
        (t!("nav-group-work"), vec![OVERVIEW, JOBS, FAILURES, OPERATIONS]),
        (t!("nav-group-files"), vec![IMPORTS]),
        (t!("nav-group-run"), vec![SCHEDULES, WORKERS, TYPES, WEBHOOKS]),
        (t!("nav-group-admin"), admin),
    ]
}

fn icon(name: &'static str) -> impl IntoView {
    view! {
        <svg class="icon" aria-hidden="true" focusable="false">
            <use href=name />
        </svg>
    }
}

/// The sidebar: brand, navigation, and the form that makes it narrow.
pub(crate) fn side(frame: &Frame, person: &Person, nav_section: NavSection) -> impl IntoView + use<> {
    let (collapsed, back) = (frame.collapsed, frame.address.clone());
    let dead = frame.dead.filter(|&dead| dead > 0);
    let environment = frame.environment.clone().filter(|_| person.staff);
    let groups = groups(person)
        .into_iter()
        .map(|(heading, links)| {
            let links = links
                .into_iter()
                .map(|link| {
                    let dead = dead.filter(|_| link.nav_section == NavSection::Dead);
                    view! {
                        <a
                            class="nav-link"
                            href=link.to
                            title=(link.word)()
                            aria-current=(link.nav_section == nav_section).then_some("page")
                        >
                            {icon(link.icon)}
                            <span class="word">{(link.word)()}</span>
                            {dead.map(|dead| view! { <span class="nav-count bad" data-dead="">{grouped(dead)}</span> })}
                        </a>
                    }
                })
                .collect_view();
            view! {
                <p class="nav-head">{heading}</p>
                {links}
            }
        })
        .collect_view();
    view! {
        <aside class="side">
            <a class="brand" href="/" title="Treeline">
                {logo::brand()}
                <span class="word">"Treeline"</span>
                {environment.map(|name| view! { <span class="env">{name}</span> })}
            </a>
            <nav aria-label=t!("nav-main") id="main-nav" data-refresh="">{groups}</nav>
            <form method="post" action="/sidebar">
                <input type="hidden" name="back" value=back />
                <button
                    class="collapse"
                    name="sidebar"
                    value=if collapsed { "open" } else { "collapsed" }
                    title=if collapsed { t!("shell-expand-sidebar") } else { t!("shell-collapse-sidebar") }
                >
                    {icon("#i-panel-left-close")}
                    <span class="word">{if collapsed { t!("shell-expand") } else { t!("shell-collapse") }}</span>
                </button>
            </form>
        </aside>
    }
}

/// The top bar: the section of the page, help, and the account's menu.
pub(crate) fn top(frame: &Frame, person: &Person, nav_section: NavSection) -> impl IntoView + use<> {
    let trail = use_context::<Breadcrumbs>().map(breadcrumbs::trail);
    let section = trail.is_none().then(|| {
        let link = groups(person).into_iter().flat_map(|(_, links)| links).find(|link| link.nav_section == nav_section);
        view! { <div class="crumbs">{link.map(|link| view! { <span>{(link.word)()}</span> })}</div> }
    });
    view! {
        <header class="top">
            <a class="brand" href="/" aria-label=t!("shell-home")>
                {logo::brand()}
            </a>
            {trail}
            {section}
            {search()}
            {topics_pill(frame)}
            <button class="btn btn-sm show-new" type="button" id="show-new" hidden></button>
            <a
                class="btn btn-quiet btn-icon btn-sm help-link"
                href="/shortcuts"
                id="keys-link"
                aria-label=t!("shell-shortcuts")
                title=t!("shell-shortcuts")
            >
                {icon("#i-circle-question-mark")}
            </a>
            {notice_bell::bell(frame)}
            {menu(frame, person, nav_section)}
        </header>
    }
}

/// Search form; on phones a link to the search page.
fn search() -> impl IntoView {
    view! {
        <form class="search" role="search" action="/search" id="shell-search">
            {icon("#i-search")}
            <input
                type="search"
                name="q"
                aria-label=t!("shell-search")
                placeholder=t!("shell-search-hint")
                maxlength="255"
                autocomplete="off"
                required
            />
            <span class="keys" aria-hidden="true">
                <kbd>{t!("shell-search-keys")}</kbd>
            </span>
            <a class="search-link" href="/search" aria-label=t!("shell-search")>
                {icon("#i-search")}
            </a>
        </form>
    }
}

/// Dialog with search as you type. `palette.js` fills it; without scripts it stays closed.
pub(crate) fn palette() -> impl IntoView {
    view! {
        <dialog class="dialog palette" id="palette" aria-label=t!("shell-palette")>
            <div class="pal-in">
                {icon("#i-search")}
                <input
                    type="search"
                    aria-label=t!("shell-search")
                    placeholder=t!("shell-palette-hint")
                    maxlength="255"
                    autocomplete="off"
                    role="combobox"
                    aria-expanded="true"
                    aria-controls="palette-results"
                    aria-autocomplete="list"
                />
            </div>
            <ul id="palette-results" role="listbox" aria-label=t!("shell-palette-results")></ul>
            <div class="pal-foot">
                <span>
                    <kbd>"↑"</kbd>
                    " "
                    <kbd>"↓"</kbd>
                    " "
                    {t!("shell-palette-move")}
                </span>
                <span>
                    <kbd>{t!("shell-key-enter")}</kbd>
                    " "
                    {t!("shell-palette-open")}
                </span>
                <span>
                    <kbd>"Esc"</kbd>
                    " "
                    {t!("shell-palette-close")}
                </span>
                <span class="end">{t!("shell-palette-paste")}</span>
            </div>
        </dialog>
    }
}

/// The account's menu.
fn menu(frame: &Frame, person: &Person, nav_section: NavSection) -> impl IntoView + use<> {
    let initials: String =
        person.name.split_whitespace().filter_map(|part| part.chars().find(|c| c.is_alphanumeric())).take(2).collect();
    view! {
        <details class="menu" id="account-menu">
            <summary>
                <span class="avatar avatar-lg" aria-hidden="true">
                    {initials.to_uppercase()}
                </span>
                <span class="vh">{t!("shell-account-of", name = &person.name)}</span>
            </summary>
            <div class="menu-list">
                <p class="menu-head">
                    <strong>{person.name.clone()}</strong>
                    <br />
                    {role(person)}
                </p>
                <a class="menu-item" href="/account" aria-current=(nav_section == NavSection::Account).then_some("page")>
                    {icon("#i-user")}
                    {t!("shell-account")}
                </a>
                <a class="menu-item" href="/shortcuts">
                    {icon("#i-keyboard")}
                    {t!("shell-shortcuts")}
                </a>
                <a class="menu-item" href="/docs">
                    {icon("#i-book-open")}
                    {t!("shell-documentation")}
                </a>
                <a class="menu-item" href="/api/docs">
                    {icon("#i-file-text")}
                    {t!("shell-api-reference")}
                </a>
                <p class="menu-head">{t!("shell-theme")}</p>
                {themes(frame)}
                <div class="menu-rule"></div>
                <form method="post" action="/sign-out" id="sign-out">
                    <button class="menu-item">{icon("#i-log-out")} {t!("shell-sign-out")}</button>
                </form>
            </div>
        </details>
    }
}

fn role(person: &Person) -> &'static str {
    match (person.admin, person.staff) {
        (true, _) => t!("role-admin"),
        (false, true) => t!("role-support"),
        (false, false) => t!("role-user"),
    }
}

/// Form that sets the theme and returns to this page.
pub(crate) fn themes(frame: &Frame) -> impl IntoView + use<> {
    let (chosen, back) = (frame.theme, frame.address.clone());
    let choices = Theme::ALL
        .into_iter()
        .map(|theme| {
            let (word, shape) = match theme {
                Theme::System => (t!("theme-system"), "#i-monitor"),
                Theme::Light => (t!("theme-light"), "#i-sun"),
                Theme::Dark => (t!("theme-dark"), "#i-moon"),
            };
            let pressed = if theme == chosen { "true" } else { "false" };
            view! {
                <button type="submit" name="theme" value=theme.as_str() aria-pressed=pressed>
                    {icon(shape)}
                    {word}
                </button>
            }
        })
        .collect_view();
    view! {
        <form method="post" action="/theme" class="seg-control" aria-label=t!("shell-theme")>
            <input type="hidden" name="back" value=back />
            {choices}
        </form>
    }
}

/// Form that sets the language and returns to this page.
pub(crate) fn languages(frame: &Frame) -> impl IntoView + use<> {
    let (spoken, back) = (frame.speech.catalog.tag.as_str(), frame.address.clone());
    let choices = frame
        .languages
        .iter()
        .map(|&(tag, name)| {
            let pressed = if tag == spoken { "true" } else { "false" };
            view! {
                <button type="submit" name="language" value=tag lang=tag aria-pressed=pressed>
                    {name}
                </button>
            }
        })
        .collect_view();
    view! {
        <form method="post" action="/language" class="seg-control" aria-label=t!("shell-language")>
            <input type="hidden" name="back" value=back />
            {choices}
        </form>
    }
}

/// Bottom bar on phones.
pub(crate) fn tabbar(person: &Person, nav_section: NavSection) -> impl IntoView + use<> {
    let links = if person.staff { vec![OVERVIEW, JOBS, FAILURES, IMPORTS] } else { vec![IMPORTS, JOBS, FAILURES] };
    let more = link("/menu", || t!("nav-more"), "#i-menu", NavSection::Menu);
    let links = links
        .into_iter()
        .chain([more])
        .map(|link| {
            view! {
                <a href=link.to aria-current=(link.nav_section == nav_section).then_some("page")>
                    {icon(link.icon)}
                    <span>{(link.word)()}</span>
                </a>
            }
        })
        .collect_view();
    view! {
        <nav class="tabbar" aria-label=t!("shell-sections")>
            {links}
        </nav>
    }
}

/// All links on a page of their own, for phones.
pub(crate) fn all(person: &Person) -> impl IntoView + use<> {
    groups(person)
        .into_iter()
        .map(|(heading, links)| {
            let links = links
                .into_iter()
                .map(|link| {
                    view! {
                        <li>
                            <a class="menu-row row" href=link.to>
                                {icon(link.icon)}
                                {(link.word)()}
                            </a>
                        </li>
                    }
                })
                .collect_view();
            view! {
                <section class="card">
                    <div class="card-head">
                        <h2>{heading}</h2>
                    </div>
                    <ul class="lined">{links}</ul>
                </section>
            }
        })
        .collect_view()
}
