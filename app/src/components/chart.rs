//! Charts of activity over time: SVG drawn by the server, with the same numbers in a table.

use std::fmt::Write as _;

use crate::speech::grouped;
use domain::{
    Time,
    api::{Activity, SeriesStep},
    query::histogram::Histogram,
};
use leptos::prelude::*;

use super::timestamp::{Clock, clock, is_same_day, time_of_day};
use crate::{pace::duration, speech::with_decimal_separator};

/// Height of the drawing; its width is one [`COLUMN`] for each point. The page stretches both.
const HEIGHT: f64 = 200.0;
const COLUMN: f64 = 10.0;
/// Width of a bar within its column.
const BAR: f64 = 7.6;
/// Lines of the grid above the base.
const LINES: i64 = 4;

/// Range of a chart: its step and the number of its points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Range {
    #[default]
    Hour,
    Day,
    Month,
}

impl Range {
    const ALL: [Self; 3] = [Self::Hour, Self::Day, Self::Month];

    /// Value of the query parameter `range`; an unknown one is the hour.
    pub fn read(word: &str) -> Self {
        Self::ALL.into_iter().find(|range| range.word() == word).unwrap_or_default()
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Hour => "1h",
            Self::Day => "48h",
            Self::Month => "30d",
        }
    }

    pub const fn step(self) -> SeriesStep {
        match self {
            Self::Hour => SeriesStep::Minute,
            Self::Day => SeriesStep::Hour,
            Self::Month => SeriesStep::Day,
        }
    }

    /// Number of points.
    pub const fn points(self) -> i64 {
        match self {
            Self::Hour => 60,
            Self::Day => 48,
            Self::Month => 30,
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Hour => "Last hour",
            Self::Day => "Last 48 hours",
            Self::Month => "Last 30 days",
        }
    }

    const fn unit(self) -> &'static str {
        match self {
            Self::Hour => "per minute",
            Self::Day => "per hour",
            Self::Month => "per day (UTC)",
        }
    }
}

/// Activity in each point of a range, oldest first.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub range: Range,
    pub points: Vec<(Time, Activity)>,
    /// End of the axis; `None`: now.
    pub until: Option<Time>,
}

/// Time axis of a chart.
#[derive(Clone, Copy)]
struct Axis {
    /// Length of a point, such as "per minute".
    unit: &'static str,
    /// End of the axis; `None`: now.
    until: Option<Time>,
}

impl Axis {
    /// Labels of the first point, each quarter, and the end; of a few points, only of the middle. The date is only where the
    /// day changes, and on the first label unless the axis ends now and it is today.
    fn labels(self, points: &[Time]) -> Vec<AnyView> {
        let now = use_context::<Clock>().map(|clock| clock.now);
        let mut before = now.filter(|_| self.until.is_none());
        let parts = match points.len() {
            0..2 => 1,
            2..12 => 2,
            _ => 4,
        };
        let begins = (0..parts).filter_map(|part| points.get(part * points.len() / parts));
        let times = begins.copied().chain(self.until);
        let mut labels: Vec<AnyView> = times
            .map(|at| {
                let is_same_as_before = before.replace(at).is_some_and(|before| is_same_day(before, at));
                if is_same_as_before { time_of_day(at).into_any() } else { clock(at).into_any() }
            })
            .collect();
        labels.extend(self.until.is_none().then(|| "now".into_any()));
        labels
    }
}

impl History {
    const fn axis(&self) -> Axis {
        Axis { unit: self.range.unit(), until: self.until }
    }

    /// Sum over all points.
    pub fn sum(&self, value: fn(&Activity) -> i64) -> i64 {
        self.points.iter().map(|(_, activity)| value(activity)).sum()
    }
}

/// Links to the ranges of a page's charts. The path may have a query.
pub fn ranges(path: &str, chosen: Range) -> AnyView {
    links(path, chosen, &Range::ALL)
}

/// Links to the ranges of a worker's charts; a worker has no history of months.
pub fn short_ranges(path: &str, chosen: Range) -> AnyView {
    links(path, chosen, &[Range::Hour, Range::Day])
}

fn links(path: &str, chosen: Range, ranges: &[Range]) -> AnyView {
    let mark = if path.contains('?') { '&' } else { '?' };
    let links = ranges.iter().map(|&range| {
        let to =
            if range == Range::default() { path.to_owned() } else { format!("{path}{mark}range={}", range.word()) };
        view! {
            <a href=to aria-current=(range == chosen).then_some("true")>{range.title()}</a>
        }
    });
    view! { <nav class="seg-control" aria-label="Range of the charts">{links.collect_view()}</nav> }.into_any()
}

/// Items that succeeded and failed, and items added.
pub fn throughput(history: &History) -> AnyView {
    let of = |value: fn(&Activity) -> i64| -> Vec<i64> { history.points.iter().map(|(_, it)| value(it)).collect() };
    let (succeeded, dead, added) = (of(|it| it.ended.succeeded), of(|it| it.ended.dead), of(|it| it.added));
    let most = succeeded.iter().zip(&dead).map(|(ok, bad)| ok + bad).chain(added.iter().copied()).max().unwrap_or(0);
    let top = round_up(most as f64, 4.0);
    let y = |value: i64| HEIGHT - value as f64 / top * HEIGHT;
    let nothing = vec![0; succeeded.len()];
    let drawing = view! {
        <path class="f-ok" d=bars(&nothing, &succeeded, y) />
        <path class="f-bad" d=bars(&succeeded, &dead, y) />
        <path class="l l-added" d=line(added.iter().map(|&n| Some(y(n)))) />
    };
    let rows = history
        .points
        .iter()
        .map(|(at, it)| (*at, vec![grouped(it.ended.succeeded), grouped(it.ended.dead), grouped(it.added)]));
    let keys = [("key-ok", "Succeeded"), ("key-bad", "Failed"), ("key-added", "Added")];
    let label = format!("Items that succeeded and failed {}, and items added", history.range.unit());
    let scale = (0..=LINES).rev().map(|n| short(top * n as f64 / LINES as f64)).collect();
    figure(history.axis(), "throughput", "Throughput", &label, keys, scale, drawing.into_any(), rows.collect())
}

/// Failures in each point, oldest first.
pub fn failures(id: &'static str, heading: &'static str, unit: &'static str, points: &[(Time, i64)]) -> AnyView {
    let counts: Vec<i64> = points.iter().map(|(_, n)| *n).collect();
    let top = round_up(counts.iter().copied().max().unwrap_or(0) as f64, 4.0);
    let y = |value: i64| HEIGHT - value as f64 / top * HEIGHT;
    let drawing = view! { <path class="f-bad" d=bars(&vec![0; counts.len()], &counts, y) /> };
    let rows = points.iter().map(|(at, n)| (*at, vec![grouped(*n)])).collect();
    let scale = (0..=LINES).rev().map(|n| short(top * n as f64 / LINES as f64)).collect();
    let label = format!("Failures {unit}");
    figure(Axis { unit, until: None }, id, heading, &label, [("key-bad", "Failed")], scale, drawing.into_any(), rows)
}

/// Failures in each hour of a day, oldest first, as bars in a row of a list.
pub fn sparkline(counts: &[i64]) -> AnyView {
    let top = counts.iter().copied().max().unwrap_or(0).max(1) as f64;
    let y = |value: i64| HEIGHT - value as f64 / top * HEIGHT;
    let width = counts.len().max(1) as f64 * COLUMN;
    let label = match counts.iter().sum::<i64>() {
        1 => "1 failure in the last 24 hours".to_owned(),
        n => format!("{} failures in the last 24 hours", grouped(n)),
    };
    view! {
        <svg class="bars-mini" viewBox=format!("0 0 {width} {HEIGHT}") preserveAspectRatio="none" role="img" aria-label=label>
            <path class="rest" d=format!("M0 {HEIGHT}h{width}v-4H0z") />
            <path d=bars(&vec![0; counts.len()], counts, y) />
        </svg>
    }
    .into_any()
}

/// Attempts that succeeded and failed.
pub fn attempts(history: &History) -> AnyView {
    let of = |value: fn(&Activity) -> i64| -> Vec<i64> { history.points.iter().map(|(_, it)| value(it)).collect() };
    let (succeeded, failed) = (of(|it| it.ended.succeeded), of(|it| it.failed));
    let most = succeeded.iter().zip(&failed).map(|(ok, bad)| ok + bad).max().unwrap_or(0);
    let top = round_up(most as f64, 4.0);
    let y = |value: i64| HEIGHT - value as f64 / top * HEIGHT;
    let nothing = vec![0; succeeded.len()];
    let drawing = view! {
        <path class="f-ok" d=bars(&nothing, &succeeded, y) />
        <path class="f-bad" d=bars(&succeeded, &failed, y) />
    };
    let rows =
        history.points.iter().map(|(at, it)| (*at, vec![grouped(it.ended.succeeded), grouped(it.failed)])).collect();
    let keys = [("key-ok", "Succeeded"), ("key-bad", "Failed")];
    let label = format!("Attempts that succeeded and failed {}", history.range.unit());
    let scale = (0..=LINES).rev().map(|n| short(top * n as f64 / LINES as f64)).collect();
    figure(history.axis(), "attempts", "Attempts", &label, keys, scale, drawing.into_any(), rows)
}

/// Median and 95th percentile of the run time.
pub fn run_times(history: &History) -> AnyView {
    let of = |quantile: f64| -> Vec<Option<f64>> {
        history.points.iter().map(|(_, it)| it.run.quantile(quantile)).collect()
    };
    let (half, most_of) = (of(0.5), of(0.95));
    let most = half.iter().chain(&most_of).flatten().copied().fold(0.0, f64::max);
    let top = round_up_time(most);
    let y = |seconds: f64| HEIGHT - seconds / top * HEIGHT;
    let drawing = view! {
        <path class="l l-p50" d=line(half.iter().map(|seconds| seconds.map(y))) />
        <path class="l l-p95" d=line(most_of.iter().map(|seconds| seconds.map(y))) />
    };
    let text = |seconds: Option<f64>| seconds.map_or_else(|| "–".to_owned(), brief);
    let rows = history.points.iter().zip(half.iter().zip(&most_of));
    let rows = rows.map(|((at, _), (half, most_of))| (*at, vec![text(*half), text(*most_of)])).collect();
    let keys = [("key-p50", "p50"), ("key-p95", "p95")];
    let label = format!("Median and 95th percentile of the run time, {}", history.range.unit());
    let scale = (0..=LINES).rev().map(|n| brief(top * n as f64 / LINES as f64)).collect();
    figure(history.axis(), "durations", "Run time", &label, keys, scale, drawing.into_any(), rows)
}

/// 95th percentiles of the wait for the first attempt and of the run time.
pub fn durations(history: &History) -> AnyView {
    let p95 = |of: fn(&Activity) -> &Histogram| -> Vec<Option<f64>> {
        history.points.iter().map(|(_, it)| of(it).quantile(0.95)).collect()
    };
    let (wait, run) = (p95(|it| &it.wait), p95(|it| &it.run));
    let most = wait.iter().chain(&run).flatten().copied().fold(0.0, f64::max);
    let top = round_up_time(most);
    let y = |seconds: f64| HEIGHT - seconds / top * HEIGHT;
    let drawing = view! {
        <path class="l l-p50" d=line(wait.iter().map(|seconds| seconds.map(y))) />
        <path class="l l-p95" d=line(run.iter().map(|seconds| seconds.map(y))) />
    };
    let text = |seconds: Option<f64>| seconds.map_or_else(|| "–".to_owned(), brief);
    let rows = history.points.iter().zip(wait.iter().zip(&run));
    let rows = rows.map(|((at, _), (wait, run))| (*at, vec![text(*wait), text(*run)]));
    let keys = [("key-p50", "Wait"), ("key-p95", "Run time")];
    let label =
        format!("95th percentile of the wait for the first attempt and of the run time, {}", history.range.unit());
    let scale = (0..=LINES).rev().map(|n| brief(top * n as f64 / LINES as f64)).collect();
    figure(
        history.axis(),
        "durations",
        "Wait and run time, p95",
        &label,
        keys,
        scale,
        drawing.into_any(),
        rows.collect(),
    )
}

#[expect(clippy::too_many_arguments, reason = "one drawing with all its words")]
fn figure<const N: usize>(
    axis: Axis,
    id: &'static str,
    heading: &'static str,
    label: &str,
    keys: [(&'static str, &'static str); N],
    scale: Vec<String>,
    drawing: AnyView,
    rows: Vec<(Time, Vec<String>)>,
) -> AnyView {
    let width = rows.len().max(1) as f64 * COLUMN;
    let grid = (0..=LINES).map(|n| {
        let class = if n == LINES { "g-base" } else { "g-line" };
        view! { <path class=class d=format!("M0 {}H{width}", HEIGHT * n as f64 / LINES as f64) /> }
    });
    let legend = keys.map(|(class, word)| view! { <li><i class=format!("key {class}")></i>{word}</li> }).collect_view();
    let tips = rows.iter().map(|(at, values)| {
        let values = keys.iter().zip(values.clone()).map(|(&(class, word), value)| {
            view! {
                <i class=format!("key {class}")></i>
                <span>{word}</span>
                <b>{value}</b>
            }
        });
        view! {
            <li>
                <span class="tip">
                    <span>{clock(*at)}</span>
                    {values.collect_view()}
                </span>
            </li>
        }
    });
    let times = axis.labels(&rows.iter().map(|(at, _)| *at).collect::<Vec<_>>());
    view! {
        <section class="card" id=id aria-labelledby=format!("{id}-heading")>
            <div class="card-head">
                <h2 id=format!("{id}-heading")>{heading}</h2>
                <span class="sub">{axis.unit}</span>
                <div class="end">
                    <ul class="chart-key">{legend}</ul>
                </div>
            </div>
            <div class="card-body">
                <figure>
                    <div class="chart">
                        <div class="chart-y" aria-hidden="true">
                            {scale.into_iter().map(|text| view! { <span>{text}</span> }).collect_view()}
                        </div>
                        <div class="plot plot-tall">
                            <svg viewBox=format!("0 0 {width} {HEIGHT}") preserveAspectRatio="none" role="img" aria-label=label.to_owned()>
                                {grid.collect_view()}
                                {drawing}
                            </svg>
                            <ol class="cols" aria-hidden="true">
                                {tips.collect_view()}
                            </ol>
                        </div>
                        <div class="chart-x" aria-hidden="true">
                            {times.into_iter().map(|time| view! { <span>{time}</span> }).collect_view()}
                        </div>
                    </div>
                    {data(id, label, keys.map(|(_, word)| word), rows)}
                </figure>
            </div>
        </section>
    }
    .into_any()
}

/// The numbers of a chart as a table, newest first.
fn data<const N: usize>(
    id: &'static str,
    label: &str,
    words: [&'static str; N],
    rows: Vec<(Time, Vec<String>)>,
) -> AnyView {
    let heads = std::iter::once(view! { <th scope="col" role="columnheader">"Time"</th> }.into_any())
        .chain(words.map(|word| view! { <th scope="col" role="columnheader" class="num">{word}</th> }.into_any()));
    let rows = rows.into_iter().rev().map(|(at, values)| {
        let cells = words
            .iter()
            .zip(values)
            .map(|(&word, value)| view! { <td role="cell" class="num" data-label=word>{value}</td> });
        view! {
            <tr role="row">
                <td role="cell" data-label="Time">{clock(at)}</td>
                {cells.collect_view()}
            </tr>
        }
    });
    view! {
        <details class="chart-data" id=format!("{id}-data")>
            <summary>"Data table"</summary>
            <div class="table-wrap" role="region" aria-label=label.to_owned() tabindex="0">
                <table class="table" role="table" aria-label=label.to_owned()>
                    <thead role="rowgroup">
                        <tr role="row">{heads.collect_view()}</tr>
                    </thead>
                    <tbody role="rowgroup">{rows.collect_view()}</tbody>
                </table>
            </div>
        </details>
    }
    .into_any()
}

/// Path of bars that stand on `below`; values of 0 draw nothing.
fn bars(below: &[i64], values: &[i64], y: impl Fn(i64) -> f64) -> String {
    let mut path = String::new();
    for (at, (&below, &value)) in below.iter().zip(values).enumerate().filter(|(_, (_, value))| **value > 0) {
        let (left, right) = (at as f64 * COLUMN + (COLUMN - BAR) / 2.0, BAR);
        let (bottom, top) = (y(below), y(below + value));
        // Writing to a String cannot fail.
        let _ = write!(path, "M{left:.1} {bottom:.1}V{top:.1}h{right:.1}V{bottom:.1}z");
    }
    path
}

/// Path through the middles of the columns, interrupted where there is no value.
fn line(values: impl Iterator<Item = Option<f64>>) -> String {
    let mut path = String::new();
    let mut drawing = false;
    for (at, y) in values.enumerate() {
        if let Some(y) = y {
            let x = (at as f64 + 0.5) * COLUMN;
            // A point between two gaps is a dot: a line of no length with round ends.
            let _ = if drawing { write!(path, "L{x:.1} {y:.1}") } else { write!(path, "M{x:.1} {y:.1}h0") };
        }
        drawing = y.is_some();
    }
    path
}

/// The next of 1, 2, 4, 6 and 8 times a power of ten, at least `least`.
fn round_up(value: f64, least: f64) -> f64 {
    let value = value.max(least);
    let power = 10_f64.powf(value.log10().floor());
    let step = [1.0, 2.0, 4.0, 6.0, 8.0, 10.0].into_iter().find(|step| step * power >= value * (1.0 - 1e-9));
    step.unwrap_or(10.0) * power
}

/// Seconds of a scale whose lines are at usual times, such as every 15 s or 2 min: at least `seconds`.
fn round_up_time(seconds: f64) -> f64 {
    const MINUTE: f64 = 60.0;
    const HOUR: f64 = 60.0 * MINUTE;
    const DISTANCES: [f64; 14] = [
        5.0,
        10.0,
        15.0,
        30.0,
        MINUTE,
        2.0 * MINUTE,
        5.0 * MINUTE,
        10.0 * MINUTE,
        15.0 * MINUTE,
        30.0 * MINUTE,
        HOUR,
        2.0 * HOUR,
        6.0 * HOUR,
        12.0 * HOUR,
    ];
    let lines = LINES as f64;
    if seconds <= 10.0 {
        return round_up(seconds, 0.004);
    }
    let enough = DISTANCES.into_iter().find(|distance| distance * lines >= seconds);
    enough.map_or_else(|| round_up(seconds / 24.0 / HOUR, 4.0) * 24.0 * HOUR, |distance| distance * lines)
}

/// Number of at most four characters: `950`, `1.5k`, `20k`, `3M`.
fn short(value: f64) -> String {
    let (value, unit) = match value {
        value if value >= 1e9 => (value / 1e9, "G"),
        value if value >= 1e6 => (value / 1e6, "M"),
        value if value >= 1e3 => (value / 1e3, "k"),
        value => (value, ""),
    };
    if value >= 10.0 || value.fract() == 0.0 {
        format!("{value:.0}{unit}")
    } else {
        with_decimal_separator(&format!("{value:.1}{unit}"))
    }
}

/// Duration, in milliseconds below a second.
fn brief(seconds: f64) -> String {
    match seconds {
        0.0 => "0".to_owned(),
        seconds if seconds < 0.995 => format!("{:.0} ms", (seconds * 1_000.0).max(1.0)),
        seconds if seconds < 10.0 => with_decimal_separator(&format!("{seconds:.1} s")),
        seconds => duration(seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_ends_on_a_round_number() {
        for (value, top) in [(0.0, 4.0), (3.0, 4.0), (4.0, 4.0), (5.0, 6.0), (101.0, 200.0), (999.0, 1_000.0)] {
            assert!((round_up(value, 4.0) - top).abs() < 1e-9, "{value}");
        }
        assert!((round_up(0.03, 0.004) - 0.04).abs() < 1e-9);
        let times = [(0.03, 0.04), (9.0, 10.0), (11.0, 20.0), (58.0, 60.0), (250.0, 480.0), (7_300.0, 14_400.0)];
        for (value, top) in times.into_iter().chain([(3.0 * 86_400.0, 4.0 * 86_400.0)]) {
            assert!((round_up_time(value) - top).abs() < 1e-9, "{value}");
        }
        assert_eq!((short(950.0), short(1_500.0), short(20_000.0)), ("950".into(), "1.5k".into(), "20k".into()));
    }

    #[test]
    fn labels_have_a_date_where_the_day_changes() {
        let time = |text: &str| Time::parse(text).expect("a time");
        let labels = |until: Option<&str>, points: [&str; 2]| {
            let axis = Axis { unit: "per minute", until: until.map(time) };
            Owner::new().with(|| {
                provide_context(Clock { now: time("2026-11-20T14:30:00Z"), offset_minutes: Some(60) });
                let labels = axis.labels(&points.map(time)).into_iter().map(AnyView::to_html);
                labels.map(|html| html.split(['<', '>']).nth(2).map_or(html.clone(), str::to_owned)).collect::<Vec<_>>()
            })
        };
        let of =
            |labels: [&str; 3]| labels.map(|label| label.replace(" PM", "\u{202f}PM").replace(" AM", "\u{202f}AM"));
        let today = labels(None, ["2026-11-20T13:30:00Z", "2026-11-20T14:00:00Z"]);
        assert_eq!(today, of(["2:30 PM", "3:00 PM", "now"]));
        let midnight = labels(None, ["2026-11-19T22:30:00Z", "2026-11-19T23:30:00Z"]);
        assert_eq!(midnight, of(["Nov 19, 11:30 PM", "Nov 20, 12:30 AM", "now"]));
        let over = labels(Some("2026-11-20T10:20:00Z"), ["2026-11-20T10:00:00Z", "2026-11-20T10:10:00Z"]);
        assert_eq!(over, of(["Nov 20, 11:00 AM", "11:10 AM", "11:20 AM"]));
    }

    #[test]
    fn bars_stack_and_lines_break_at_gaps() {
        let y = |value: i64| HEIGHT - value as f64 * 10.0;
        assert_eq!(bars(&[0, 0], &[2, 0], y), "M1.2 200.0V180.0h7.6V200.0z");
        assert_eq!(bars(&[2, 0], &[1, 0], y), "M1.2 180.0V170.0h7.6V180.0z");
        let path = line([Some(1.0), Some(2.0), None, Some(3.0)].into_iter());
        assert_eq!(path, "M5.0 1.0h0L15.0 2.0M35.0 3.0h0");
    }
}
