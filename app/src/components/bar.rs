//! Progress bar: an SVG whose segments are rectangles with widths as attributes, because the strict
//! content security policy refuses inline styles. The number stands beside the bar, never inside.

use domain::ItemState;
use leptos::prelude::*;

use crate::meter::Meter;

/// Height of a bar: 6 px in a list, 10 px in a tree, 24 px on the page of one job.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Size {
    Thin,
    Middle,
    Tall,
}

impl Size {
    const fn class(self) -> &'static str {
        match self {
            Self::Thin => "bar",
            Self::Middle => "bar bar-2",
            Self::Tall => "bar bar-4",
        }
    }
}

/// A bar with one segment per state. `label` names what it measures and never changes, because a screen
/// reader announces every change.
pub fn bar(meter: Signal<Meter>, size: Size, label: String) -> impl IntoView {
    let segments = ItemState::ALL
        .into_iter()
        .enumerate()
        .map(|(place, state)| {
            let segment = move || meter.with(|meter| meter.segments()[place]);
            let class = format!("seg seg-{}", state.as_str());
            view! {
                <rect
                    class=class
                    fill=pattern(state)
                    x=move || in_percent(segment().from)
                    width=move || in_percent(segment().width)
                    height="100%"
                />
            }
        })
        .collect_view();
    view! {
        <svg
            class=size.class()
            role="progressbar"
            aria-label=label
            aria-valuemin="0"
            aria-valuemax="100"
            aria-valuenow=move || meter.with(|meter| meter.percent.map(|percent| percent.to_string()))
            aria-valuetext=move || meter.with(Meter::in_words)
        >
            <rect class="track" width="100%" height="100%" />
            {segments}
        </svg>
    }
}

/// A bar that does not change.
pub fn still_bar(meter: Meter, size: Size, label: String) -> impl IntoView {
    bar(Signal::stored(meter), size, label)
}

/// Pattern that distinguishes a state without color; `None` for a plain area.
pub(crate) const fn pattern(state: ItemState) -> Option<&'static str> {
    match state {
        ItemState::Retryable => Some("url(#p-retryable)"),
        ItemState::Cancelled => Some("url(#p-cancelled)"),
        ItemState::Expired => Some("url(#p-expired)"),
        ItemState::Scheduled | ItemState::Blocked | ItemState::WaitingForEvent => Some("url(#p-held)"),
        _ => None,
    }
}

/// Percentage in SVG notation.
pub(crate) fn in_percent(share: f64) -> String {
    // In whole numbers: printing a float brings in ten kilobytes of WASM.
    let thousandths = (share * 1000.0).round() as u32;
    format!("{}.{:03}%", thousandths / 1000, thousandths % 1000)
}
