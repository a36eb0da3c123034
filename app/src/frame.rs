//! Data around every page: signed-in person, URLs of the assets, display preferences.
//!
//! The server fills it in from the request; it never contains a page's own data.

use domain::{Time, notice::NoticeList};
use leptos::prelude::AnyView;

/// URLs of the built site.
#[derive(Clone, Debug, Default)]
pub struct Assets {
    /// Address of the script of every page, which works without WASM (`app/src/scripts`).
    pub page_script: String,
    /// The JavaScript half of the WASM module.
    pub script: String,
    pub wasm: String,
    pub style: String,
    /// Style of the pages of imports, beside `style`.
    pub imports_style: String,
    /// Style of the documentation and the API reference, beside `style`.
    pub documentation_style: String,
    /// The sans font, fetched early because every page needs it.
    pub font: String,
}

/// Signed-in person.
#[derive(Clone, Debug)]
pub struct Person {
    pub name: String,
    /// Sees everybody's jobs.
    pub staff: bool,
    /// Manages job types, people, services and tokens.
    pub admin: bool,
}

/// The reader's choice of theme.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    #[default]
    System,
    Light,
    Dark,
}

impl Theme {
    pub const ALL: [Theme; 3] = [Self::System, Self::Light, Self::Dark];

    /// Value in the cookie and in the form.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|theme| theme.as_str() == word)
    }
}

/// Everything around a page.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The nonce of this response's content security policy.
    pub nonce: String,
    pub assets: Assets,
    pub theme: Theme,
    /// Language of the page.
    #[cfg(feature = "ssr")]
    pub speech: crate::speech::Speech,
    /// Tag and own name of each language.
    pub languages: Vec<(&'static str, &'static str)>,
    /// True if the reader collapsed the sidebar.
    pub collapsed: bool,
    pub now: Time,
    /// Time before the content was read: the page has every change that was made until then.
    pub requested_at: Time,
    /// Minutes east of UTC, if a cookie has it.
    pub offset_minutes: Option<i32>,
    pub person: Option<Person>,
    /// Path and query of this page; changing the theme or the sidebar returns to it.
    pub address: String,
    /// Reload interval in seconds that a reader without JavaScript chose.
    pub refresh_seconds: Option<u16>,
    /// Name of the environment, such as `Staging`.
    pub environment: Option<String>,
    /// Number of dead items of all owners, for staff.
    pub dead: Option<i64>,
    /// Newest notices of the person.
    pub notices: Option<NoticeList>,
}

/// Page: its content is rendered, but not yet inside a document.
pub struct Page {
    pub title: String,
    /// Navigation link that is highlighted.
    pub nav_section: NavSection,
    pub content: AnyView,
    /// True if it has islands and so needs the WASM module.
    pub is_live: bool,
    /// True if all its text is in the reader's language; false if it is English.
    pub is_translated: bool,
}

/// Sections of the navigation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NavSection {
    Overview,
    Imports,
    Jobs,
    Dead,
    Bulk,
    Workers,
    Types,
    People,
    Services,
    Audit,
    Account,
    Webhooks,
    Schedules,
    /// Documentation and API reference.
    Documentation,
    /// The page that has all links, for phones.
    Menu,
    /// Sign-in and error pages: outside the shell if nobody is signed in.
    Standalone,
    Elsewhere,
}
