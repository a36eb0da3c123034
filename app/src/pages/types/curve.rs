//! Drawing of the waits between attempts: one point for each wait on a logarithmic scale, with a band for the jitter.

use std::fmt::Write as _;

use domain::dispatch::retry::Backoff;
use leptos::prelude::*;

use crate::{pace::duration, speech::with_decimal_separator};

/// Size of the drawing, and the place of its points.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 176.0;
const LEFT: f64 = 56.0;
const TOP: f64 = 24.0;
const BASE: f64 = 150.0;

/// Most waits that are drawn.
const MOST_WAITS: u32 = 10;

/// Lines of the grid, in seconds.
const GRID: [(f64, &str); 11] = [
    (0.001, "1 ms"),
    (0.1, "0.1 s"),
    (1.0, "1 s"),
    (10.0, "10 s"),
    (60.0, "1 min"),
    (600.0, "10 min"),
    (3_600.0, "1 h"),
    (36_000.0, "10 h"),
    (259_200.0, "3 d"),
    (2_592_000.0, "30 d"),
    (31_536_000.0, "1 y"),
];

/// Drawing and description of a policy; `most` is the number of attempts, `None` without a limit.
pub(super) fn curve(backoff: &Backoff, most: Option<u32>) -> AnyView {
    let waits = most.map_or(MOST_WAITS, |most| most.saturating_sub(1));
    if waits == 0 {
        return view! { <p class="small soft">"An item that fails is not retried."</p> }.into_any();
    }
    let of = |random: f64| -> Vec<f64> {
        (1..=waits.min(MOST_WAITS)).map(|n| backoff.delay_seconds(i32::try_from(n).unwrap_or(1), random)).collect()
    };
    let (shortest, longest) = (of(0.0), of(1.0));
    let words: Vec<String> = shortest.iter().map(|&seconds| wait(seconds)).collect();
    let more = if waits > MOST_WAITS || most.is_none() { ", and so on" } else { "" };
    let jitter = if backoff.jitter { ", each up to half as long again" } else { "" };
    let label = format!("Waits between attempts: {}{more}{jitter}", words.join(", "));
    let band = backoff.jitter.then(|| view! { <span class="end faint xs">"band: with jitter"</span> });
    view! {
        <p class="row small">
            <strong>"Waits between attempts"</strong>
            {band}
        </p>
        <div class="scroller" tabindex="0" role="group" aria-label="Waits between attempts">
            {drawing(&shortest, &longest, &words, label)}
        </div>
        <p class="small soft">{total(backoff, most)}</p>
    }
    .into_any()
}

/// Logarithmic scale from one grid line to another.
#[derive(Clone, Copy)]
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    /// Scale for waits: from the grid line below the shortest to the one above the longest.
    fn of(shortest: &[f64], longest: &[f64]) -> Self {
        let all = || shortest.iter().chain(longest).copied().filter(|seconds| *seconds > 0.0);
        let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
        let low = GRID.iter().rev().find(|(at, _)| *at <= least).filter(|_| least.is_finite()).unwrap_or(&GRID[0]).0;
        let high = GRID.iter().find(|(at, _)| *at >= most).map_or(most, |line| line.0).max(low * 10.0);
        Self { low, high }
    }

    fn y(self, seconds: f64) -> f64 {
        let part = (seconds.max(self.low) / self.low).ln() / (self.high / self.low).ln();
        BASE - part.clamp(0.0, 1.0) * (BASE - TOP)
    }
}

fn drawing(shortest: &[f64], longest: &[f64], words: &[String], label: String) -> AnyView {
    let scale = Scale::of(shortest, longest);
    let step = (WIDTH - LEFT) / shortest.len() as f64;
    let x = |place: usize| LEFT + step * (place as f64 + 0.5);
    let lines = GRID
        .iter()
        .filter(|(at, _)| (scale.low..=scale.high).contains(at))
        .map(|(at, word)| {
            let y = scale.y(*at);
            view! {
                <line class="g-line" x1=round(LEFT) x2=round(WIDTH) y1=round(y) y2=round(y) />
                <text x=round(LEFT - 8.0) y=round(y + 4.0) text-anchor="end">
                    {*word}
                </text>
            }
        })
        .collect_view();
    let points = words
        .iter()
        .zip(shortest)
        .zip(longest)
        .enumerate()
        .map(|(place, ((word, &shortest), &longest))| {
            let x = round(x(place));
            // The word is above the band.
            let above = (scale.y(longest) - 8.0).max(11.0);
            view! {
                <circle class="f-ok" cx=x.clone() cy=round(scale.y(shortest)) r="3.5" />
                <text class="t-ink" x=x.clone() y=round(above) text-anchor="middle">
                    {word.clone()}
                </text>
                <text x=x y=round(HEIGHT - 6.0) text-anchor="middle">
                    {place + 1}
                </text>
            }
        })
        .collect_view();
    let at = |(place, &seconds): (usize, &f64)| (x(place), scale.y(seconds));
    let line = path(shortest.iter().enumerate().map(at));
    let band = path(longest.iter().enumerate().map(at).chain(shortest.iter().enumerate().rev().map(at)));
    view! {
        <svg
            class="backoff"
            width=round(WIDTH)
            height=round(HEIGHT)
            viewBox=format!("0 0 {WIDTH} {HEIGHT}")
            role="img"
            aria-label=label
        >
            {lines}
            <path class="a-ok" d=format!("{band}Z") />
            <path class="l l-ok" d=line />
            {points}
        </svg>
    }
    .into_any()
}

fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    points.enumerate().fold(String::new(), |mut path, (place, (x, y))| {
        let _ = write!(path, "{}{} {}", if place == 0 { "M" } else { "L" }, round(x), round(y));
        path
    })
}

fn round(value: f64) -> String {
    ((value * 10.0).round() / 10.0).to_string()
}

/// A wait in words; short ones with their fraction.
fn wait(seconds: f64) -> String {
    if seconds >= 10.0 {
        return duration(seconds);
    }
    with_decimal_separator(&format!("{} s", (seconds * 1_000.0).round() / 1_000.0))
}

/// Time until an item that keeps failing has failed for good.
fn total(backoff: &Backoff, most: Option<u32>) -> String {
    let Some(most) = most else {
        return "There is no limit of attempts: an item is retried until it succeeds or someone cancels it.".to_owned();
    };
    // The waits grow to the longest one and stay there; the sum of very many is not shown.
    if most > 10_000 {
        return format!("An item that keeps failing is marked failed after {most} attempts.");
    }
    let sum = |random: f64| -> f64 {
        (1..most).map(|n| backoff.delay_seconds(i32::try_from(n).unwrap_or(i32::MAX), random)).sum()
    };
    let (from, to) = (wait(sum(0.0)), wait(sum(1.0)));
    let span = if from == to { from } else { format!("{from} to {to}") };
    format!(
        "An item that keeps failing is marked failed {span} after its first attempt, and the time that its attempts take."
    )
}

#[cfg(all(test, feature = "ssr"))]
mod tests {
    use super::*;

    fn rendered(backoff: Backoff, most: Option<u32>) -> String {
        Owner::new().with(|| curve(&backoff, most).to_html())
    }

    #[test]
    fn the_curve_shows_every_wait() {
        let html = rendered(Backoff::default(), Some(4));
        assert!(html.contains("Waits between attempts: 3 s, 6 s, 12 s, each up to half as long again\""), "{html}");
        assert_eq!(html.matches("<circle").count(), 3);
        assert!(html.contains("marked failed 21 s to 32 s after"), "{html}");
    }

    #[test]
    fn no_policy_breaks_the_drawing() {
        let endless = f64::from(u32::MAX);
        let policies = [
            Backoff { min_seconds: 0.0, max_seconds: None, factor: 1.0, jitter: false },
            Backoff { min_seconds: 0.001, max_seconds: None, factor: 1_000.0, jitter: true },
            Backoff { min_seconds: endless, max_seconds: Some(endless), factor: 1_000.0, jitter: true },
        ];
        for policy in policies {
            for most in [None, Some(2), Some(11), Some(u32::MAX)] {
                let html = rendered(policy, most);
                assert!(html.contains("<circle") && !html.contains("NaN") && !html.contains("inf"), "{html}");
            }
            assert!(rendered(policy, Some(1)).contains("not retried"));
        }
    }
}
