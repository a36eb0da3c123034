//! Report: one row per fault, on the terminal and as a table in docs/promises.md.

use std::{fmt::Write as _, path::Path, time::Duration};

use anyhow::{Context as _, Error, Result};

use crate::checker::{Kind, Verdict};

/// Result of one fault.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) id: &'static str,
    /// Summary, with counts.
    pub(crate) done: String,
    pub(crate) verdict: Verdict,
    pub(crate) seconds: f64,
}

impl Row {
    /// Row of a fault whose scenario did not come to its end.
    pub(crate) fn of_error(id: &'static str, error: &Error, took: Duration) -> Self {
        let mut verdict = Verdict::default();
        verdict.add_finding(Kind::Scenario, format!("{error:#}"));
        Self { id, done: "ended with an error".to_owned(), verdict, seconds: took.as_secs_f64() }
    }

    /// One line for the terminal.
    pub(crate) fn line(&self) -> String {
        let v = &self.verdict;
        let how = match v {
            _ if v.is_clean() => "ok  ",
            _ if v.is_only_slow() => "SLOW",
            _ => "FAIL",
        };
        let [acknowledged, lost, doubled, stuck] = self.counts();
        let mut line = format!(
            "{how} {}  {} · acknowledged {acknowledged} · lost {lost} · doubled {doubled} · stuck {stuck} · {:.1} s",
            self.id, self.done, self.seconds
        );
        if let Some(callbacks) = self.callback_summary() {
            let _ = write!(line, " · {callbacks}");
        }
        for (kind, n, examples) in v.findings() {
            let _ = write!(line, "\n       {n} {}: {}", kind.label(), examples.join(" · "));
        }
        line
    }

    fn cells(&self) -> String {
        let v = &self.verdict;
        let mut other: Vec<String> = v
            .findings()
            .filter(|(kind, ..)| !matches!(kind, Kind::Lost | Kind::Doubled | Kind::Stuck))
            .map(|(kind, n, _)| format!("**{n} {}**", kind.label()))
            .collect();
        if v.leases_lost + v.repeated + v.refused_late > 0 {
            let allowed = format!(
                "allowed: {} leases expired, {} items assigned again, {} late results rejected",
                v.leases_lost, v.repeated, v.refused_late
            );
            other.push(allowed);
        }
        other.extend(self.callback_summary());
        if other.is_empty() {
            other.push("none".to_owned());
        }
        let counts = self.counts().map(|n| n.to_string()).join(" | ");
        format!("| {} | {} | {counts} | {} | {:.0} |", self.id, self.done, other.join("; "), self.seconds)
    }

    /// Summary of the callbacks, if there were any.
    fn callback_summary(&self) -> Option<String> {
        let v = &self.verdict;
        let undelivered = match v.undelivered {
            0 => String::new(),
            n => format!(", {n} listed as undelivered"),
        };
        let text =
            || format!("{} callbacks delivered, {} retries{undelivered}", v.callbacks_delivered, v.callback_retries);
        (v.callbacks_delivered + v.undelivered > 0).then(text)
    }

    /// Acknowledged, lost, doubled, stuck.
    fn counts(&self) -> [usize; 4] {
        let v = &self.verdict;
        [v.acknowledged, v.count(Kind::Lost), v.count(Kind::Doubled), v.count(Kind::Stuck)]
    }
}

/// Writes the table between the two marks of this name, which the page must have.
pub(crate) fn write(path: &Path, mark: &str, rows: &[Row], how: &str) -> Result<()> {
    let (begin, end) = (format!("<!-- {mark}: written by `cargo xtask faults` -->"), format!("<!-- {mark}: end -->"));
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let mut table = format!("{begin}\n{how}\n\n");
    table += "| fault | scenario | acknowledged | lost | doubled | stuck | other findings | seconds |\n";
    table += "|---|---|---|---|---|---|---|---|\n";
    for row in rows {
        table += &row.cells();
        table.push('\n');
    }
    table += &end;
    let (before, rest) = text.split_once(&begin).with_context(|| format!("{} lacks {begin}", path.display()))?;
    let (_, after) = rest.split_once(&end).with_context(|| format!("{} lacks {end}", path.display()))?;
    std::fs::write(path, format!("{before}{table}{after}")).with_context(|| path.display().to_string())
}
