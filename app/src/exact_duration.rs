//! Durations to the millisecond, where times are compared.

use domain::Time;

/// Duration from one time to another: `912 ms`, `1.903 s`, `3 min 0.004 s`.
pub(crate) fn took(from: Time, to: Time) -> String {
    length((to.seconds_since(from) * 1_000.0).round().max(0.0) as u64)
}

/// Duration of milliseconds.
pub(crate) fn length(milliseconds: u64) -> String {
    let (seconds, rest) = (milliseconds / 1_000, milliseconds % 1_000);
    match seconds {
        0 => format!("{rest} ms"),
        1..60 => format!("{seconds}.{rest:03} s"),
        60..3_600 => format!("{} min {}.{rest:03} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min {}.{rest:03} s", seconds / 3_600, seconds / 60 % 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_shown_in_milliseconds() {
        assert_eq!(length(912), "912 ms");
        assert_eq!(length(1_903), "1.903 s");
        assert_eq!(length(180_004), "3 min 0.004 s");
        assert_eq!(length(3_723_040), "1 h 2 min 3.040 s");
    }
}
