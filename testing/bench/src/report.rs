//! Report: figures, the limits that they are compared with, and thresholds.

use std::fmt::Write as _;

use crate::{
    pages::PageTime,
    peers::{self, Peer},
    statistics::{meter::Cost, plot::Plot, ratios::RATIOS},
};

/// Threshold of a ratio.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Threshold {
    AtLeast(f64),
    AtMost(f64),
}

/// A comparison.
#[derive(Debug)]
struct Comparison {
    what: String,
    against: String,
    ratio: f64,
    threshold: Option<Threshold>,
}

/// A table of one kind of work.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub(crate) title: &'static str,
    pub(crate) about: &'static str,
    pub(crate) columns: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// Everything measured so far.
#[derive(Debug)]
pub(crate) struct Report {
    length: &'static str,
    machine: Vec<String>,
    /// In the order in which they were first measured.
    figures: Vec<(&'static str, Vec<Cost>)>,
    compared: Vec<Comparison>,
    tables: Vec<Table>,
    plots: Vec<Plot>,
    pages: Vec<PageTime>,
    /// Peers that ran: name, version and settings.
    ran: Vec<(&'static str, String, String)>,
    /// Peers that did not run, with the reason.
    absent: Vec<(&'static str, String)>,
    /// Kinds of work whose measurement failed, with the reason.
    broken: Vec<(&'static str, String)>,
}

impl Report {
    pub(crate) const fn new(length: &'static str, machine: Vec<String>) -> Self {
        Self {
            length,
            machine,
            figures: Vec::new(),
            compared: Vec::new(),
            tables: Vec::new(),
            plots: Vec::new(),
            pages: Vec::new(),
            ran: Vec::new(),
            absent: Vec::new(),
            broken: Vec::new(),
        }
    }

    /// Adds a measurement of a figure, and prints it as progress.
    pub(crate) fn add(&mut self, what: &'static str, cost: Cost) {
        eprintln!("  {what}: {:.0} a second ({})", cost.rate(), cost.waits());
        match self.figures.iter_mut().find(|(name, _)| *name == what) {
            Some((_, costs)) => costs.push(cost),
            None => self.figures.push((what, vec![cost])),
        }
    }

    /// Adds a ratio with its threshold.
    pub(crate) fn compare(&mut self, what: String, against: String, ratio: f64, threshold: Option<Threshold>) {
        eprintln!("  {what} / {against}: {ratio:.2}");
        self.compared.push(Comparison { what, against, ratio, threshold });
    }

    pub(crate) fn table(&mut self, table: Table) {
        for row in &table.rows {
            eprintln!("  {}: {}", table.title, row.join(" | "));
        }
        self.tables.push(table);
    }

    pub(crate) fn plot(&mut self, plot: Plot) {
        self.plots.push(plot);
    }

    pub(crate) fn plots(&self) -> &[Plot] {
        &self.plots
    }

    pub(crate) fn pages(&mut self, times: Vec<PageTime>) {
        self.pages = times;
    }

    /// Records the settings of a peer.
    pub(crate) fn settings(&mut self, peer: &Peer, version: &str, settings: &str) {
        if !self.ran.iter().any(|(name, ..)| *name == peer.name) {
            self.ran.push((peer.name, version.to_owned(), settings.to_owned()));
        }
    }

    pub(crate) fn absent(&mut self, peer: &'static str, why: String) {
        self.absent.push((peer, why));
    }

    pub(crate) fn broke(&mut self, work: &'static str, why: String) {
        self.broken.push((work, why));
    }

    pub(crate) fn broken(&self) -> usize {
        self.broken.len()
    }

    pub(crate) fn is_absent(&self, peer: &str) -> bool {
        self.absent.iter().any(|(name, _)| *name == peer)
    }

    /// The rate of a figure, if it was measured.
    pub(crate) fn rate(&self, what: &str) -> Option<f64> {
        self.figure(what).map(Cost::rate)
    }

    /// The figure among these with the highest median.
    fn best(&self, names: &'static [&'static str]) -> Option<(&'static str, f64)> {
        let rates = names.iter().filter_map(|name| Some((*name, self.rate(name)?)));
        rates.max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The median measurement; of an even number, the lower one in the middle.
    fn figure(&self, what: &str) -> Option<&Cost> {
        let (_, costs) = self.figures.iter().find(|(name, _)| *name == what)?;
        let mut by_rate: Vec<&Cost> = costs.iter().collect();
        by_rate.sort_by(|a, b| a.rate().total_cmp(&b.rate()));
        by_rate.get(by_rate.len().saturating_sub(1) / 2).copied()
    }

    pub(crate) fn markdown(&self) -> String {
        let mut text = HEAD.replace("LENGTH", self.length);
        for line in &self.machine {
            let _ = writeln!(text, "- {line}");
        }
        for (work, why) in &self.broken {
            let _ = writeln!(text, "- **not measured completely**: {work}: {}", why.replace('\n', " "));
        }
        text.push_str(RATIOS_HEAD);
        for &(ours, limits, threshold) in RATIOS {
            let (Some((what, rate)), Some((limit, limit_rate))) = (self.best(ours), self.best(limits)) else {
                continue;
            };
            let most = |names: &[&str]| if names.len() > 1 { "best: " } else { "" };
            let what = format!("{}{what}", most(ours));
            let against = format!("{}{}", most(limits), limit.trim_start_matches("limit: "));
            let compared =
                Comparison { what, against, ratio: rate / limit_rate, threshold: threshold.map(Threshold::AtLeast) };
            compared.write(&mut text);
        }
        for compared in &self.compared {
            compared.write(&mut text);
        }
        self.write_peers(&mut text);
        self.write_pages(&mut text);
        for table in &self.tables {
            table.write(&mut text);
        }
        if !self.plots.is_empty() {
            text.push_str("\n## How cost grows\n\n");
        }
        for plot in &self.plots {
            let _ = writeln!(text, "![{}](benchmarks/{}.svg)\n", plot.title, plot.name);
        }
        self.write_results(&mut text);
        text
    }

    fn write_peers(&self, text: &mut String) {
        if self.ran.is_empty() && self.absent.is_empty() {
            return;
        }
        text.push_str(PEERS_HEAD);
        let mut table = Table { columns: peers::CONTRACT.to_vec(), ..Table::default() };
        table.columns.push("how it ran");
        let how = "a new installation's settings".to_owned();
        table.rows.push(peers::OURS.iter().map(|&cell| cell.to_owned()).chain([how]).collect());
        for (name, version, settings) in &self.ran {
            let Some(peer) = peers::PEERS.iter().find(|peer| peer.name == *name) else { continue };
            let mut row = vec![format!("{name} {version}")];
            row.extend(peer.contract.iter().map(|&cell| cell.to_owned()));
            row.push(settings.clone());
            table.rows.push(row);
        }
        table.write_rows(text);
        for (name, why) in &self.absent {
            let _ = writeln!(text, "\n{name} was not measured: {}", why.replace('\n', " "));
        }
    }

    fn write_pages(&self, text: &mut String) {
        if !self.pages.is_empty() {
            text.push_str(PAGES_HEAD);
        }
        for PageTime { page, large, small, again } in &self.pages {
            let (ratio, noise) = (large / small, again / small);
            let is_met = if *large <= 50.0 && ratio <= 1.25 { "yes" } else { "**no**" };
            let _ = writeln!(
                text,
                "| {page} | {large:.1} | {small:.1} | {again:.1} | {ratio:.2} | {noise:.2} | ≤ 50 ms, ≤ 1.25 | {is_met} |"
            );
        }
    }

    fn write_results(&self, text: &mut String) {
        text.push_str(RESULTS_HEAD);
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
                cost.process_us / cost.items,
                cost.waits(),
            );
        }
    }
}

impl Comparison {
    fn write(&self, text: &mut String) {
        let Self { what, against, ratio, threshold } = self;
        let (threshold, is_met) = match threshold {
            Some(Threshold::AtLeast(threshold)) => (format!("≥ {threshold:.2}"), Some(ratio >= threshold)),
            Some(Threshold::AtMost(threshold)) => (format!("≤ {threshold:.2}"), Some(ratio <= threshold)),
            None => (String::new(), None),
        };
        let is_met = is_met.map_or("", |is_met| if is_met { "yes" } else { "**no**" });
        let _ = writeln!(text, "| {what} | {against} | {ratio:.2} | {threshold} | {is_met} |");
    }
}

impl Table {
    fn write(&self, text: &mut String) {
        let _ = writeln!(text, "\n## {}\n\n{}\n", self.title, self.about);
        self.write_rows(text);
    }

    fn write_rows(&self, text: &mut String) {
        let _ = writeln!(text, "| {} |", self.columns.join(" | "));
        let _ = writeln!(text, "|---|{}", "--:|".repeat(self.columns.len().saturating_sub(1)));
        for row in &self.rows {
            let _ = writeln!(text, "| {} |", row.join(" | "));
        }
    }
}

const HEAD: &str = "# Benchmarks

Written by `cargo xtask bench LENGTH`: one run on a private, durable PostgreSQL; clients, server, and database share the
same cores. The thresholds are Treeline's own. The *limit* of a row is measured in the same run: SQL that does only the necessary
work (an item waits, is leased, ends with a result, is counted; narrow tables, small keys, two commits per batch), or an HTTP
server that does nothing. If a limit or the engine has several figures, the best ones are compared. [performance.md](performance.md)
explains what limits the figures and what was tried.

";

const RATIOS_HEAD: &str = "
## Ratios

| what | compared with | ratio | threshold | met |
|---|---|--:|--:|---|
";

const PEERS_HEAD: &str = "
## Peers

Other queues on the same PostgreSQL, in the same rounds, alternating with the engine, with the same payload, each with the settings that its
own documentation recommends for durable work at full speed. Each run has its own database, analyzed between adding and draining. The clock stops when the
database shows the end of the last item; afterwards every item is counted there, once. Other features are not compared.
Each peer runs in new processes with open connections, and the start of its workers is inside the clock; its runs are long enough for that to
be a small part. The engine has been running all along.

";

const PAGES_HEAD: &str = "
## Pages

Time to the last byte of a page over HTTP while 1,000 items of the large job end every second (p95). Both jobs are live and have
running items and failures of the same kinds. *Again* is the small page, requested a second time in the same rounds: its difference is noise.

| page | 1,000,000 items, ms | 1,000 items, ms | again, ms | ratio | noise | threshold | met |
|---|--:|--:|--:|--:|--:|---|---|
";

const RESULTS_HEAD: &str = "
## Figures

Medians of the rounds, with the lowest and the highest. Commits are transactions that wrote. Processor times are those of all
PostgreSQL processes, and of server and client together (for a peer: of its program). The last column shows what connections with an open transaction
were doing: *between statements* is the time of the server and of the network.

| what | items/s | lowest to highest | commits/item | WAL B/item | PostgreSQL µs/item | server and client µs/item | waiting for |
|---|--:|--:|--:|--:|--:|--:|---|
";

/// 12345.6 as `12,346`.
pub(crate) fn thousands(value: f64) -> String {
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
