//! All navigation links on one page: the phone's replacement for the sidebar.

use leptos::prelude::*;

use crate::{
    frame::{NavSection, Page, Person},
    shell, t,
};

/// `/menu`.
pub fn page(person: &Person) -> Page {
    let content = view! {
        <div class="page-head">
            <h1>{t!("menu-title")}</h1>
        </div>
        {shell::all(person)}
        <section class="card">
            <ul class="lined">
                <li>
                    <a class="menu-row row" href="/account">
                        {t!("shell-account")}
                    </a>
                </li>
                <li>
                    <a class="menu-row row" href="/shortcuts">
                        {t!("shell-shortcuts")}
                    </a>
                </li>
                <li>
                    <a class="menu-row row" href="/docs">
                        {t!("shell-documentation")}
                    </a>
                </li>
                <li>
                    <a class="menu-row row" href="/api/docs">
                        {t!("shell-api-reference")}
                    </a>
                </li>
            </ul>
        </section>
    }
    .into_any();
    Page {
        title: t!("menu-title").to_owned(),
        nav_section: NavSection::Menu,
        content,
        is_live: false,
        is_translated: true,
    }
}
