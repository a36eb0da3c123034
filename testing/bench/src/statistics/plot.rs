//! Line plots as SVG, for light and dark backgrounds.
//!
//! Written without a library, because there are only a few lines. Nothing is smoothed or left out.

use std::fmt::Write as _;

use crate::statistics::times::short;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 52.0;
const BOTTOM: f64 = 52.0;
const COLORS: [&str; 3] = ["one", "two", "three"];

/// One plot.
#[derive(Clone, Debug)]
pub(crate) struct Plot {
    /// File name without extension.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// Label of the x axis, which is logarithmic.
    pub(crate) x_axis: &'static str,
    /// Label of the y axis with its unit; it starts at zero.
    pub(crate) y_axis: &'static str,
    pub(crate) lines: Vec<Line>,
}

#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) points: Vec<(f64, f64)>,
}

impl Plot {
    pub(crate) fn svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let (mut least, mut most) = (f64::INFINITY, 1.0_f64);
        let mut high = 0.0_f64;
        for &(x, y) in points() {
            (least, most, high) = (least.min(x.max(1.0)), most.max(x), high.max(y));
        }
        let high = round_up(high * 1.05);
        let wide = (most / least).ln().max(1e-9);
        let x_of = |x: f64| LEFT + (WIDTH - LEFT - RIGHT) * ((x.max(1.0) / least).ln() / wide);
        let y_of = |y: f64| HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * y / high;

        let mut svg = head(self.title);
        for step in 0..=4 {
            let value = high * f64::from(step) / 4.0;
            let y = y_of(value);
            let _ = writeln!(svg, r#"<path class="grid" d="M{LEFT} {y:.1}H{:.1}"/>"#, WIDTH - RIGHT);
            let _ = writeln!(
                svg,
                r#"<text x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"#,
                LEFT - 8.0,
                y + 4.0,
                number(value)
            );
        }
        let mut x_values: Vec<f64> = points().map(|&(x, _)| x).collect();
        x_values.sort_by(f64::total_cmp);
        x_values.dedup();
        for x in x_values {
            let _ = writeln!(
                svg,
                r#"<text x="{:.1}" y="{:.1}" text-anchor="middle">{}</text>"#,
                x_of(x),
                HEIGHT - BOTTOM + 18.0,
                number(x)
            );
        }
        let _ = writeln!(
            svg,
            r#"<text x="{:.1}" y="{:.1}" text-anchor="middle">{}</text>"#,
            f64::midpoint(LEFT, WIDTH - RIGHT),
            HEIGHT - 12.0,
            self.x_axis
        );
        let _ = writeln!(svg, r#"<text x="{LEFT}" y="{:.1}">{}</text>"#, TOP - 10.0, self.y_axis);
        for (line, color) in self.lines.iter().zip(COLORS.iter().cycle()) {
            let path: Vec<String> =
                line.points.iter().map(|&(x, y)| format!("{:.1} {:.1}", x_of(x), y_of(y))).collect();
            let _ = writeln!(svg, r#"<path class="line {color}" d="M{}"/>"#, path.join("L"));
            for &(x, y) in &line.points {
                let _ = writeln!(
                    svg,
                    r#"<circle class="{color}" cx="{:.1}" cy="{:.1}" r="3.5"><title>{}: {}</title></circle>"#,
                    x_of(x),
                    y_of(y),
                    number(x),
                    short(y)
                );
            }
        }
        for (at, (line, color)) in self.lines.iter().zip(COLORS.iter().cycle()).enumerate() {
            let x = WIDTH - RIGHT - 150.0 * (self.lines.len() - at) as f64;
            let _ = writeln!(svg, r#"<path class="line {color}" d="M{x} {:.1}h18"/>"#, TOP - 14.0);
            let _ = writeln!(svg, r#"<text x="{:.1}" y="{:.1}">{}</text>"#, x + 24.0, TOP - 10.0, line.name);
        }
        svg.push_str("</svg>\n");
        svg
    }
}

fn head(title: &str) -> String {
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">
<style>
text {{ font: 12px system-ui, sans-serif; fill: #57606a }}
.title {{ font-size: 15px; font-weight: 600; fill: #1f2328 }}
.grid {{ stroke: #8c959f; stroke-opacity: .3; fill: none }}
.line {{ fill: none; stroke-width: 2 }}
.one {{ stroke: #0969da; fill: #0969da }} .two {{ stroke: #bc4c00; fill: #bc4c00 }} .three {{ stroke: #1a7f37; fill: #1a7f37 }}
.line.one, .line.two, .line.three {{ fill: none }}
@media (prefers-color-scheme: dark) {{
  text {{ fill: #9198a1 }} .title {{ fill: #f0f6fc }}
  .one {{ stroke: #4493f8; fill: #4493f8 }} .two {{ stroke: #f0883e; fill: #f0883e }} .three {{ stroke: #3fb950; fill: #3fb950 }}
}}
</style>
<text class="title" x="{LEFT}" y="22">{title}</text>
"#
    )
}

/// Rounds up to 1, 2, 4, 5 or 8 times a power of ten.
fn round_up(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 4.0, 5.0, 8.0, 10.0].into_iter().map(|n| n * power).find(|&n| n >= value).unwrap_or(value)
}

fn number(value: f64) -> String {
    match value {
        _ if value >= 1e6 => format!("{}M", (value / 1e5).round() / 10.0),
        _ if value >= 1e3 => format!("{}k", (value / 1e2).round() / 10.0),
        _ => format!("{}", (value * 100.0).round() / 100.0),
    }
}
