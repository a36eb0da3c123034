//! Percentiles of durations.

/// Times in milliseconds, sorted.
#[derive(Clone, Debug)]
pub(crate) struct Times(Vec<f64>);

impl Times {
    pub(crate) fn new(mut milliseconds: Vec<f64>) -> Self {
        milliseconds.sort_by(f64::total_cmp);
        Self(milliseconds)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Percentile; NaN if there are no times.
    pub(crate) fn within(&self, hundredths: f64) -> f64 {
        let at = (self.0.len() as f64 * hundredths / 100.0).ceil() as usize;
        self.0.get(at.saturating_sub(1)).copied().unwrap_or(f64::NAN)
    }

    pub(crate) fn median(&self) -> f64 {
        self.within(50.0)
    }

    pub(crate) fn longest(&self) -> f64 {
        self.0.last().copied().unwrap_or(f64::NAN)
    }

    /// Count, p50, p99, p99.9 and the longest: cells of a table.
    pub(crate) fn cells(&self) -> Vec<String> {
        let mut cells = vec![self.len().to_string()];
        for value in [self.median(), self.within(99.0), self.within(99.9), self.longest()] {
            cells.push(short(value));
        }
        cells
    }
}

/// Names of [`Times::cells`].
pub(crate) const COLUMNS: [&str; 5] = ["n", "p50 ms", "p99 ms", "p99.9 ms", "longest ms"];

/// Formats a value with three significant digits.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
