//! Durations to the millisecond, where times are compared.

use domain::Time;

use crate::{pace::duration, speech::with_decimal_separator};

/// Duration from one time to another: `912 ms`, `1.903 s`, `3 min 12 s`.
pub(crate) fn took(from: Time, to: Time) -> String {
    length((to.seconds_since(from) * 1_000.0).round().max(0.0) as u64)
}

/// Duration of milliseconds. A minute and more is shown without them.
pub(crate) fn length(milliseconds: u64) -> String {
    if milliseconds < 60_000 { precise(milliseconds) } else { duration(milliseconds as f64 / 1_000.0) }
}

/// Duration with all its milliseconds, for times that are close together: `3 min 0.004 s`.
pub(crate) fn precise(milliseconds: u64) -> String {
    let (seconds, rest) = (milliseconds / 1_000, milliseconds % 1_000);
    let text = match seconds {
        0 => format!("{rest} ms"),
        1..60 => format!("{seconds}.{rest:03} s"),
        60..3_600 => format!("{} min {}.{rest:03} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min {}.{rest:03} s", seconds / 3_600, seconds / 60 % 60, seconds % 60),
    };
    with_decimal_separator(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_below_a_minute_are_shown_in_milliseconds() {
        assert_eq!(length(912), "912 ms");
        assert_eq!(length(1_903), "1.903 s");
        assert_eq!(length(59_999), "59.999 s");
        assert_eq!(length(60_000), "1 min");
        assert_eq!(length(180_004), "3 min");
        assert_eq!(length(192_501), "3 min 13 s");
        assert_eq!(length(3_723_040), "1 h 2 min");
    }

    #[test]
    fn close_times_keep_their_milliseconds() {
        assert_eq!(precise(180_004), "3 min 0.004 s");
        assert_eq!(precise(3_723_040), "1 h 2 min 3.040 s");
    }
}
