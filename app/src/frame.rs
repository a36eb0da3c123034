//! What surrounds every page: who is signed in, where the assets are, how the reader likes it.
//!
//! Filled in by the server from the request; a page's own data never passes through here.

use domain::Time;
use leptos::prelude::AnyView;

/// Addresses of the built site.
#[derive(Clone, Debug, Default)]
pub struct Assets {
    /// Address of the script of every page, which works without WASM (`app/src/scripts`).
    pub page_script: String,
    /// The JavaScript half of the WASM module.
    pub script: String,
    pub wasm: String,
    pub style: String,
    /// The sans font, fetched early because every page needs it.
    pub font: String,
}

/// Signed-in person.
#[derive(Clone, Debug)]
pub struct Person {
    pub name: String,
    /// Sees everybody's jobs.
    pub staff: bool,
    /// Keeps job types, people, services and tokens.
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

    /// The word in the cookie and in the form.
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
    /// The reader made the sidebar narrow.
    pub collapsed: bool,
    pub now: Time,
    /// Minutes east of UTC, where a cookie tells.
    pub offset_minutes: Option<i32>,
    pub person: Option<Person>,
    /// Path and query of this page: a change of theme or sidebar comes back to it.
    pub address: String,
    /// Seconds after which a reader without JavaScript asked to load the page again.
    pub refresh_seconds: Option<u16>,
    /// Name of the environment, such as `Staging`.
    pub environment: Option<String>,
    /// Number of dead items of all owners, for staff.
    pub dead: Option<i64>,
}

/// A page: its data already drawn, but not yet in a document.
pub struct Page {
    pub title: String,
    /// The link of the navigation that leads here.
    pub place: Place,
    pub content: AnyView,
    /// True if it has islands and so needs the WASM module.
    pub lives: bool,
}

/// The places that the navigation knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
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
    /// The page that has all links, for phones.
    Menu,
    /// Signing in, and what cannot be shown: alone on the page for whoever is not signed in.
    Gate,
    Elsewhere,
}
