//! Logo: a line of conifers that is also a progress bar. The only ornament of the site.

use leptos::prelude::*;

/// Height and half width of each tree of the line, from left to right.
const TREES: [(f32, f32); 7] =
    [(13.0, 4.6), (18.0, 5.4), (15.0, 4.8), (21.0, 6.0), (16.0, 5.0), (19.0, 5.6), (12.0, 4.4)];

/// A line of conifers, the first `done` of seven in the accent color. Decorative: hidden from assistive
/// technology.
pub fn treeline(done: usize, class: &'static str) -> impl IntoView {
    let mut x = 0.0;
    let trees = TREES
        .iter()
        .enumerate()
        .map(|(place, &(height, half))| {
            x += half;
            let path = conifer(x, 24.0, height, half);
            x += half - 0.6;
            view! { <path class=if place < done { "conifer conifer-done" } else { "conifer" } d=path /> }
        })
        .collect_view();
    view! {
        <svg class=class viewBox="0 0 68 24" aria-hidden="true" focusable="false">
            {trees}
        </svg>
    }
}

/// Logo beside the name: three conifers, one of them only an outline.
pub fn brand() -> impl IntoView {
    view! {
        <svg class="brand-mark" viewBox="0 0 26 22" aria-hidden="true" focusable="false">
            <path class="tree-2" d=conifer(5.6, 21.5, 13.5, 5.0) />
            <path class="tree-off" d=conifer(20.8, 21.5, 11.5, 4.6) />
            <path class="tree" d=conifer(13.0, 21.5, 20.5, 6.6) />
        </svg>
    }
}

/// Three rows of conifers at the bottom of standalone pages, from far to near, as repeating patterns.
pub fn ridges() -> impl IntoView {
    let rows = [(1, 94.0, 44.0, 34.0), (2, 116.0, 38.0, 32.0), (3, 136.0, 26.0, 30.0)];
    let woods = rows
        .into_iter()
        .map(|(row, ground, height, sway)| {
            let trees: String = (0..13_u8)
                .map(|tree| {
                    // Pseudo-random heights.
                    let share = f32::from((u16::from(tree) * (5 + 2 * row) + 3 * row) % 13) / 13.0;
                    let high = height * 0.6 + sway * share;
                    conifer(12.0 + f32::from(tree) * 24.0, ground, high, 6.0 + high * 0.17)
                })
                .collect();
            let (id, name) = (format!("ridge-{row}"), format!("url(#ridge-{row})"));
            // The lower end of each tree overlaps the ground.
            let (top, foot) = (ground - 2.5, 138.5 - ground);
            view! {
                <pattern id=id width="312" height="136" patternUnits="userSpaceOnUse">
                    <path class=format!("ridge-{row}") d=trees />
                </pattern>
                <rect width="1440" height="136" fill=name />
                <rect class=format!("ridge-{row}") y=top.to_string() width="1440" height=foot.to_string() />
            }
        })
        .collect_view();
    view! {
        <svg class="standalone-wood" viewBox="0 0 1440 136" preserveAspectRatio="xMidYMax slice" aria-hidden="true" focusable="false">
            {woods}
        </svg>
    }
}

/// A conifer of three tiers that stands at `x` on `ground`.
fn conifer(x: f32, ground: f32, height: f32, half: f32) -> String {
    let trunk = 2.0;
    let foot = ground - trunk;
    let tier = (height - trunk) / 3.0;
    let (w1, w2, w3) = (half * 0.55, half * 0.78, half);
    let (y1, y2) = (foot - tier * 1.75, foot - tier * 0.85);
    format!(
        "M{x:.1} {top:.1}L{a:.1} {y1:.1}H{b:.1}L{c:.1} {y2:.1}H{d:.1}L{e:.1} {foot:.1}H{f:.1}V{ground:.1}H{g:.1}V{foot:.1}H{h:.1}L{i:.1} {y2:.1}H{j:.1}L{k:.1} {y1:.1}H{l:.1}Z",
        top = ground - height,
        a = x + w1,
        b = x + w1 * 0.55,
        c = x + w2,
        d = x + w2 * 0.6,
        e = x + w3,
        f = x + 0.9,
        g = x - 0.9,
        h = x - w3,
        i = x - w2 * 0.6,
        j = x - w2,
        k = x - w1 * 0.55,
        l = x - w1,
    )
}

/// Favicon: one conifer as a data URL, so that it needs no request.
pub fn icon_address() -> String {
    let path = conifer(16.0, 30.0, 28.0, 11.0).replace(' ', "%20");
    format!(
        "data:image/svg+xml,%3Csvg%20xmlns='http://www.w3.org/2000/svg'%20viewBox='0%200%2032%2032'%3E%3Cpath%20fill='%231f7a4d'%20d='{path}'/%3E%3C/svg%3E"
    )
}
