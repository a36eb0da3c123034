//! All navigation links on one page: the phone's replacement for the sidebar.

use leptos::prelude::*;

use crate::{
    frame::{NavSection, Page, Person},
    shell,
};

/// `/menu`.
pub fn page(person: &Person) -> Page {
    let content = view! {
        <div class="page-head">
            <h1>"Menu"</h1>
        </div>
        {shell::all(person)}
        <section class="card">
            <ul class="lined">
                <li>
                    <a class="menu-row row" href="/account">
                        "Account"
                    </a>
                </li>
                <li>
                    <a class="menu-row row" href="/shortcuts">
                        "Keyboard shortcuts"
                    </a>
                </li>
                <li>
                    <a class="menu-row row" href="/docs">
                        "Documentation"
                    </a>
                </li>
                <li>
                    <a class="menu-row row" href="/api/docs">
                        "API reference"
                    </a>
                </li>
            </ul>
        </section>
    }
    .into_any();
    Page { title: "Menu".to_owned(), nav_section: NavSection::Menu, content, is_live: false }
}
