//! Indicator of how current the page is, as a shape and a word.

use leptos::prelude::*;

#[cfg(feature = "ssr")]
use crate::{address::address, components::timestamp::time_of_day, frame::Frame, t_view};
use crate::{components::state::icon, t};

/// Degree to which the page is current.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Liveness {
    /// As the server rendered it; no script runs.
    #[default]
    Off,
    Connecting,
    Live,
    /// The stream was lost a moment ago.
    Reconnecting,
    /// The stream has been lost for so long that the numbers may be wrong.
    Stale,
    /// The server has too many streams: the page polls every ten seconds.
    Polling,
    /// Paused by the reader.
    Paused,
    /// The tree is complete.
    Finished,
    /// The job no longer exists.
    Removed,
    /// The session ended.
    SignedOut,
    /// The share link no longer works.
    Closed,
}

impl Liveness {
    /// Value of `data-live`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Connecting => "connecting",
            Self::Live => "live",
            Self::Reconnecting => "reconnecting",
            Self::Stale => "stale",
            Self::Polling => "polling",
            Self::Paused => "paused",
            Self::Finished => "finished",
            Self::Removed => "removed",
            Self::SignedOut => "signed-out",
            Self::Closed => "closed",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Off => t!("live-off"),
            Self::Connecting => t!("live-connecting"),
            Self::Live => t!("live-on"),
            Self::Reconnecting => t!("live-reconnecting"),
            Self::Stale => t!("live-stale"),
            Self::Polling => t!("live-polling"),
            Self::Paused => t!("live-paused"),
            Self::Finished => t!("live-finished"),
            Self::Removed => t!("live-removed"),
            Self::SignedOut => t!("live-signed-out"),
            Self::Closed => t!("live-closed"),
        }
    }

    const fn shape(self) -> &'static str {
        match self {
            Self::Off | Self::Connecting => "available",
            // No check mark: the outcome may be a failure.
            Self::Live | Self::Finished => "live",
            Self::Reconnecting => "retryable",
            Self::Stale | Self::SignedOut => "partial",
            Self::Polling => "scheduled",
            Self::Paused => "pause",
            Self::Removed | Self::Closed => "dead",
        }
    }

    /// True if the reader can pause or resume.
    const fn can_pause(self) -> bool {
        !matches!(self, Self::Off | Self::Finished | Self::Removed | Self::SignedOut | Self::Closed)
    }
}

/// Indicator with its pause button; without a live connection, with links that reload the page.
pub fn pill(liveness: RwSignal<Liveness>) -> impl IntoView {
    view! {
        <div class="pill-group">
            <span class=move || format!("pill pill-{}", liveness.get().as_str())>
                <svg class="icon" aria-hidden="true" focusable="false">
                    <use href=move || format!("#i-{}", liveness.get().shape()) />
                </svg>
                " "
                {move || liveness.get().words()}
            </span>
            <button
                class="btn btn-quiet btn-sm pill-button"
                type="button"
                hidden=move || !liveness.get().can_pause()
                on:click=move |_| pause_or_resume()
            >
                {move || if liveness.get() == Liveness::Paused { t!("live-resume") } else { t!("live-pause") }}
            </button>
            <a class="pill-link" href="" hidden=move || !matches!(liveness.get(), Liveness::Off | Liveness::Removed)>
                {t!("live-refresh")}
            </a>
            <a class="pill-link only-still" href="?refresh=10" hidden=move || liveness.get() != Liveness::Off>
                {t!("live-every-10s")}
            </a>
            <a class="pill-link" href=move || sign_in_from(liveness.get()) hidden=move || liveness.get() != Liveness::SignedOut>
                {t!("live-sign-in")}
            </a>
        </div>
    }
}

/// Indicator in the top bar of a page whose sections are refreshed by topics. `topics.js` shows the word of the current
/// state; CSS hides all of it on other pages and without scripts.
#[cfg(feature = "ssr")]
pub(crate) fn topics_pill(frame: &Frame) -> impl IntoView + use<> {
    let (now, sign_in) = (frame.now, address("/sign-in", &[("back", &frame.address)]));
    let shown = |liveness: Liveness| {
        let word = match liveness {
            Liveness::Stale => t_view!("live-stale-since", time = time_of_day(now)).into_any(),
            _ => liveness.words().into_any(),
        };
        // A link where the reader has something to do.
        let href = match liveness {
            Liveness::Stale | Liveness::Removed => Some(String::new()),
            Liveness::SignedOut => Some(sign_in.clone()),
            _ => None,
        };
        let class = format!("pill pill-{}", liveness.as_str());
        view! {
            <a class=class href=href data-stream=liveness.as_str() hidden=liveness != Liveness::Connecting>
                {icon(liveness.shape())}
                <span>{word}</span>
            </a>
        }
    };
    let words = [
        Liveness::Connecting,
        Liveness::Live,
        Liveness::Reconnecting,
        Liveness::Stale,
        Liveness::SignedOut,
        Liveness::Removed,
    ];
    view! {
        <div class="stream" id="stream">
            {words.map(shown).into_iter().collect_view()}
            <span class="vh" role="status"></span>
        </div>
    }
}

/// Note beside stale numbers.
pub fn warning(liveness: RwSignal<Liveness>) -> impl IntoView {
    let words = move || match liveness.get() {
        Liveness::Stale => t!("live-warning-stale"),
        Liveness::Removed => t!("live-warning-removed"),
        Liveness::Closed => t!("live-warning-closed"),
        Liveness::SignedOut => t!("live-warning-signed-out"),
        _ => "",
    };
    view! { <p class="note note-warn" hidden=move || words().is_empty()>{icon("partial")} " " {words}</p> }
}

/// Address of the sign-in, which returns to this page.
#[cfg(feature = "hydrate")]
fn sign_in_from(liveness: Liveness) -> String {
    if liveness != Liveness::SignedOut {
        return "/sign-in".to_owned();
    }
    let location = window().location();
    let here = [location.pathname(), location.search()].map(Result::unwrap_or_default).concat();
    format!("/sign-in?back={}", js_sys::encode_uri_component(&here))
}

#[cfg(not(feature = "hydrate"))]
fn sign_in_from(_liveness: Liveness) -> String {
    "/sign-in".to_owned()
}

#[cfg(feature = "hydrate")]
fn pause_or_resume() {
    super::connection::pause_or_resume();
}

#[cfg(not(feature = "hydrate"))]
const fn pause_or_resume() {}
