//! The table of figures, with the limit that each is compared to and the bar it is to reach.

use std::fmt::Write as _;

use crate::{meter::Cost, pages::PageTime};

/// What is compared: a figure, a limit of the same run, the bar, and what the bar says.
const RATIOS: &[(&str, &str, Option<f64>)] = &[
    ("add in process, 5,000 a call, 2 callers", BARE_ADD, Some(0.60)),
    ("add over HTTP, 5,000 a request, 2 callers", BARE_ADD, Some(0.60)),
    ("add in process, the million", BARE_ADD, None),
    ("drain in process, 100 a call, claim and end apart, 2 workers", BARE_DRAIN, Some(0.70)),
    ("drain in process, 100 a call, fused, 2 workers", BARE_DRAIN, Some(0.85)),
    ("drain in process, 100 a call, claim and end apart, 8 workers", BARE_DRAIN, None),
    ("drain in process, 100 a call, fused, 8 workers", BARE_DRAIN, None),
    ("drain over HTTP, 100 a request, fused, 8 workers", BARE_DRAIN, None),
    ("drain over HTTP, 1 a request, fused, 64 workers", SINGLES, Some(0.60)),
    ("drain over HTTP, 1 a request, fused, 64 workers", EMPTY_HTTP, None),
    ("drain in process, 100 a call, fused, 2 workers", "drain in process, the items in 1,000 jobs, fused", Some(0.90)),
    ("push, one post an item, 100 under way", "limit: the bare HTTP client, 100 posts under way", Some(0.50)),
    ("create and drain in process, trees of one item, fused", "add and drain in process, one job, fused", Some(0.40)),
];

const BARE_ADD: &str = "limit: bare INSERT, 5,000 a statement, 2 connections";
const BARE_DRAIN: &str = "limit: bare claim and end of 100, 2 connections";
const SINGLES: &str = "limit: one row a commit, 64 connections";
const EMPTY_HTTP: &str = "limit: HTTP with an empty handler, 64 connections";

/// Everything measured so far.
#[derive(Debug)]
pub(crate) struct Report {
    machine: Vec<String>,
    /// In the order in which they were first measured.
    figures: Vec<(&'static str, Vec<Cost>)>,
    /// Medians of claims of ten, in microseconds: with a thousand waiting, with a million.
    claims: Option<(f64, f64)>,
    pages: Vec<PageTime>,
}

impl Report {
    pub(crate) const fn new(machine: Vec<String>) -> Self {
        Self { machine, figures: Vec::new(), claims: None, pages: Vec::new() }
    }

    /// One more measurement of a figure; shown at once, as a sign of life.
    pub(crate) fn add(&mut self, what: &'static str, cost: Cost) {
        eprintln!("  {what}: {:.0} a second ({})", cost.rate(), cost.waits());
        match self.figures.iter_mut().find(|(name, _)| *name == what) {
            Some((_, costs)) => costs.push(cost),
            None => self.figures.push((what, vec![cost])),
        }
    }

    pub(crate) fn claims(&mut self, few: Vec<f64>, many: Vec<f64>) {
        self.claims = Some((median(few), median(many)));
    }

    pub(crate) fn pages(&mut self, times: Vec<PageTime>) {
        self.pages = times;
    }

    /// The measurement in the middle.
    fn figure(&self, what: &str) -> Option<&Cost> {
        let (_, costs) = self.figures.iter().find(|(name, _)| *name == what)?;
        let mut by_rate: Vec<&Cost> = costs.iter().collect();
        by_rate.sort_by(|a, b| a.rate().total_cmp(&b.rate()));
        by_rate.get(by_rate.len() / 2).copied()
    }

    pub(crate) fn markdown(&self) -> String {
        let mut text = String::from(HEAD);
        for line in &self.machine {
            let _ = writeln!(text, "- {line}");
        }
        text.push_str(RATIOS_HEAD);
        for &(what, limit, bar) in RATIOS {
            let (Some(cost), Some(limit_cost)) = (self.figure(what), self.figure(limit)) else { continue };
            let ratio = cost.rate() / limit_cost.rate();
            let (bar, held) = bar.map_or((String::new(), ""), |bar| {
                (format!("≥ {bar:.2}"), if ratio >= bar { "yes" } else { "**no**" })
            });
            let against = limit.trim_start_matches("limit: ");
            let _ = writeln!(text, "| {what} | {against} | {ratio:.2} | {bar} | {held} |");
        }
        if let Some((few, many)) = self.claims {
            let ratio = many / few;
            let held = if ratio <= 1.2 { "yes" } else { "**no**" };
            let _ = writeln!(
                text,
                "| claim of 10 with 1,000,000 waiting, p50 {many:.0} µs | with 1,000, p50 {few:.0} µs | {ratio:.2} | ≤ 1.20 | {held} |"
            );
        }
        if !self.pages.is_empty() {
            text.push_str(PAGES_HEAD);
        }
        for PageTime { page, large, small, again } in &self.pages {
            let (ratio, noise) = (large / small, again / small);
            let held = if *large <= 50.0 && ratio <= 1.25 { "yes" } else { "**no**" };
            let _ = writeln!(
                text,
                "| {page} | {large:.1} | {small:.1} | {again:.1} | {ratio:.2} | {noise:.2} | ≤ 50 ms, ≤ 1.25 | {held} |"
            );
        }
        text.push_str(FIGURES_HEAD);
        for (what, costs) in &self.figures {
            let Some(cost) = self.figure(what) else { continue };
            let rates = || costs.iter().map(Cost::rate);
            let (low, high) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
            let _ = writeln!(
                text,
                "| {what} | {} | {} to {} | {:.4} | {:.0} | {:.1} | {:.1} | {} |",
                thousands(cost.rate()),
                thousands(low),
                thousands(high),
                cost.commits / cost.items,
                cost.log_bytes / cost.items,
                cost.postgres_us / cost.items,
                cost.own_us / cost.items,
                cost.waits(),
            );
        }
        text
    }
}

const HEAD: &str = "# Benchmarks

Written by `cargo xtask bench quick`: one run, one private PostgreSQL with its own folder, durable, clients, server and database
on the same cores. The bars are those that Treeline sets itself. The *limit* of a row is measured in the same run: SQL that does
nothing but the bare work (an item waits, is leased, ends with a result, is counted; narrow tables, small keys, two commits a
batch), or an HTTP server that does nothing. Peers are not measured here. What limits the figures, and what was tried, stands in
[performance.md](performance.md).

";

const RATIOS_HEAD: &str = "
## Ratios

| what | against | ratio | bar | held |
|---|---|--:|--:|---|
";

const PAGES_HEAD: &str = "
## Pages

The time to the last byte of a page while 1,000 items of the large job end every second, over HTTP from this machine; 95 of 100
answers came within it. Both jobs live, have items in work and failures of the same kinds. *Again* is the small page asked for a second time in the same turns: what that differs is noise.

| page | 1,000,000 items, ms | 1,000 items, ms | again, ms | ratio | noise | bar | held |
|---|--:|--:|--:|--:|--:|---|---|
";

const FIGURES_HEAD: &str = "
## Figures

Medians of the rounds, with the lowest and the highest. Commits are transactions that wrote; processor times are those of all of
PostgreSQL's processes, and of server and client together. The last column is what connections with a transaction were seen
doing: *between statements* is the server's own time and the road between.

| what | items/s | lowest to highest | commits/item | WAL B/item | PostgreSQL µs/item | server and client µs/item | seen doing |
|---|--:|--:|--:|--:|--:|--:|---|
";

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// 12345.6 as `12,346`.
fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
