//! Comparison with an independent implementation over ten years (`schedule-ticks`): `testing/reference_ticks.py` writes the
//! reference and names the exception.

use std::thread;

use domain::Time;

use super::*;

const REFERENCE: &str = include_str!("reference.txt");

/// Number of ticks in ten years, the first one, and a hash of all, as in the reference.
fn ten_years(zone: &str, cron: &str) -> String {
    let ticks = Ticks::of(cron, zone).expect("valid");
    let [from, to] = ["2026-01-01T00:00:00Z", "2036-01-01T00:00:00Z"].map(|at| Time::parse(at).expect("a time").0);
    let all = std::iter::successors(ticks.after(from), |tick| ticks.after(*tick)).take_while(|tick| *tick < to);
    let (mut count, mut first, mut hash) = (0_u64, None, 0xcbf2_9ce4_8422_2325_u64);
    for tick in all.map(OffsetDateTime::unix_timestamp) {
        count += 1;
        first = first.or(Some(tick));
        for byte in tick.to_be_bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    format!("{zone}\t{cron}\t{count}\t{}\t{hash:016x}", first.unwrap_or_default())
}

#[test]
fn ticks_of_ten_years_equal_the_reference() {
    let lines: Vec<&str> = REFERENCE.lines().collect();
    assert_eq!(lines.len(), 119);
    let at_once = thread::available_parallelism().map_or(2, usize::from);
    let check = |lines: &[&str]| {
        let differs = |line: &&str| {
            let mut fields = line.split('\t');
            let (zone, cron) = (fields.next().expect("a zone"), fields.next().expect("an expression"));
            let ours = ten_years(zone, cron);
            (ours != *line).then(|| format!("{ours} instead of {line}"))
        };
        lines.iter().filter_map(differs).collect::<Vec<String>>()
    };
    let different: Vec<String> = thread::scope(|scope| {
        let parts: Vec<_> =
            lines.chunks(lines.len().div_ceil(at_once)).map(|part| scope.spawn(move || check(part))).collect();
        parts.into_iter().flat_map(|part| part.join().expect("a part")).collect()
    });
    assert!(different.is_empty(), "{different:#?}");
}
