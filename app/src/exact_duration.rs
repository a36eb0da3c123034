//! Durations in milliseconds: short for people, and exact where times are compared.

use domain::Time;

use crate::{
    pace::duration,
    speech::{tenths, with_decimal_separator},
    t,
};

/// Duration from one time to another: `912 ms`, `1.9 s`, `42 s`, `3 min 12 s`.
pub(crate) fn took(from: Time, to: Time) -> String {
    length(milliseconds(from, to))
}

/// Duration from one time to another, with all its milliseconds.
pub(crate) fn took_precisely(from: Time, to: Time) -> String {
    precise(milliseconds(from, to))
}

fn milliseconds(from: Time, to: Time) -> u64 {
    (to.seconds_since(from) * 1_000.0).round().max(0.0) as u64
}

/// Duration of milliseconds, with one decimal from one second to ten.
pub(crate) fn length(milliseconds: u64) -> String {
    let rounded = milliseconds.saturating_add(50) / 100;
    match milliseconds {
        ..1_000 => precise(milliseconds),
        1_000..9_950 if !rounded.is_multiple_of(10) => t!("time-seconds", n = &tenths(rounded)),
        _ => duration(milliseconds as f64 / 1_000.0),
    }
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
    fn durations_have_at_most_one_decimal() {
        assert_eq!(length(912), "912 ms");
        assert_eq!(length(1_000), "1 s");
        assert_eq!(length(3_357), "3.4 s");
        assert_eq!(length(9_949), "9.9 s");
        assert_eq!(length(9_950), "10 s");
        assert_eq!(length(41_903), "42 s");
        assert_eq!(length(59_999), "1 min");
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
