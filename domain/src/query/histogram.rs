//! Histograms of durations: counts in fixed buckets, so that they can be added over time, job types, and servers.

/// Upper bounds of the buckets in seconds, ascending. A last bucket holds everything above.
pub const BOUNDS: [f64; 20] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3_600.0, 10_800.0,
    43_200.0, 86_400.0, 604_800.0,
];

/// Number of buckets: one for each bound, and the last one.
pub const BUCKETS: usize = BOUNDS.len() + 1;

/// Counts of durations by bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram([i64; BUCKETS]);

impl Histogram {
    /// Histogram of stored counts; missing buckets are empty.
    pub fn from_stored(counts: &[i64]) -> Self {
        let mut buckets = [0; BUCKETS];
        for (bucket, count) in buckets.iter_mut().zip(counts) {
            *bucket = *count;
        }
        Self(buckets)
    }

    /// Adds one duration in seconds; a negative one counts as zero.
    pub fn record(&mut self, seconds: f64) {
        self.0[BOUNDS.partition_point(|bound| *bound < seconds)] += 1;
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (bucket, count) in self.0.iter_mut().zip(&other.0) {
            *bucket += count;
        }
    }

    /// Counts by bucket.
    pub const fn counts(&self) -> &[i64; BUCKETS] {
        &self.0
    }

    /// Number of durations.
    pub fn count(&self) -> i64 {
        self.0.iter().sum()
    }

    /// Estimate of a quantile (0 to 1) in seconds, linear within its bucket; `None` if empty. Durations above the last
    /// bound count as the last bound.
    pub fn quantile(&self, quantile: f64) -> Option<f64> {
        let rank = quantile.clamp(0.0, 1.0) * self.count() as f64;
        let mut below = 0.0;
        for (at, &count) in self.0.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = count as f64;
            if below + count >= rank {
                let from = at.checked_sub(1).map_or(0.0, |before| BOUNDS[before]);
                let to = BOUNDS.get(at).copied().unwrap_or(from);
                return Some(from + (to - from) * ((rank - below) / count).clamp(0.0, 1.0));
            }
            below += count;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_counted_up_to_and_including_their_bound() {
        let mut histogram = Histogram::default();
        for seconds in [-1.0, 0.0, 0.005, 0.006, 604_800.0, 604_801.0, f64::MAX] {
            histogram.record(seconds);
        }
        assert_eq!(&histogram.counts()[..3], &[3, 1, 0]);
        assert_eq!(&histogram.counts()[BUCKETS - 2..], &[1, 2]);
        assert_eq!(histogram.count(), 7);
    }

    #[test]
    fn quantiles_lie_within_the_bucket_of_their_rank() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        for _ in 0..90 {
            histogram.record(0.2);
        }
        for _ in 0..10 {
            histogram.record(20.0);
        }
        let (p50, p95) = (histogram.quantile(0.5).expect("p50"), histogram.quantile(0.95).expect("p95"));
        assert!((0.1..=0.25).contains(&p50), "{p50}");
        assert!((10.0..=30.0).contains(&p95), "{p95}");
    }

    #[test]
    fn merging_is_recording_both() {
        let (mut one, mut other, mut both) = (Histogram::default(), Histogram::default(), Histogram::default());
        one.record(0.3);
        other.record(7.0);
        both.record(0.3);
        both.record(7.0);
        one.merge(&other);
        assert_eq!(one, both);
        assert_eq!(Histogram::from_stored(one.counts()), both);
        assert_eq!(Histogram::from_stored(&[]), Histogram::default());
    }
}
