//! `process_*`: CPU, memory, file descriptors, threads, and start time of the process, under the names that all
//! Prometheus clients use. Read from `/proc` and therefore only on Linux. Written here, as the recorder's counters are
//! whole numbers.

use std::fmt::Write as _;

/// Metrics of the process: name, type, help.
pub const PROCESS: [(&str, &str, &str); 7] = [
    ("process_cpu_seconds_total", "counter", "CPU time of the process, in seconds."),
    ("process_resident_memory_bytes", "gauge", "Resident memory of the process, in bytes."),
    ("process_virtual_memory_bytes", "gauge", "Virtual memory of the process, in bytes."),
    ("process_open_fds", "gauge", "Open file descriptors."),
    ("process_max_fds", "gauge", "Highest possible number of open file descriptors."),
    ("process_threads", "gauge", "Threads of the process."),
    ("process_start_time_seconds", "gauge", "Start of the process, in seconds since 1970."),
];

/// Prometheus text of the process; values that cannot be read are left out.
pub(super) fn render() -> String {
    let mut text = String::new();
    for ((name, kind, help), value) in PROCESS.into_iter().zip(values()) {
        if let Some(value) = value {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
        }
    }
    text
}

/// Values in the order of [`PROCESS`].
fn values() -> [Option<f64>; 7] {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let stat = Stat::of(&stat);
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    let boot_time = std::fs::read_to_string("/proc/stat").ok().and_then(|text| boot_time(&text));
    let fds = std::fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count() as f64);
    let max_fds = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    [
        stat.number(13).zip(stat.number(14)).map(|(user, system)| (user + system) / ticks),
        stat.number(23).map(|pages| pages * rustix::param::page_size() as f64),
        stat.number(22),
        fds,
        max_fds.map(|most| most as f64),
        stat.number(19),
        stat.number(21).zip(boot_time).map(|(start, boot)| boot + start / ticks),
    ]
}

/// Fields of `/proc/self/stat` after the name of the program, which may contain spaces.
struct Stat<'a>(Vec<&'a str>);

impl<'a> Stat<'a> {
    fn of(text: &'a str) -> Self {
        Self(text.rsplit_once(')').map(|(_, rest)| rest.split_ascii_whitespace().collect()).unwrap_or_default())
    }

    /// Field by its index in proc(5), counted from 0.
    fn number(&self, index: usize) -> Option<f64> {
        self.0.get(index.checked_sub(2)?)?.parse().ok()
    }
}

/// Time of the machine's start, from `/proc/stat`.
fn boot_time(text: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_program_may_contain_spaces_and_parentheses() {
        let text = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 12 0 100 4096000 25 18446744073709551615";
        let stat = Stat::of(text);
        assert_eq!(
            [13, 14, 19, 21, 22, 23].map(|at| stat.number(at)),
            [250.0, 50.0, 12.0, 100.0, 4_096_000.0, 25.0].map(Some)
        );
        assert_eq!(boot_time("cpu 1 2\nbtime 1700000000\n"), Some(1_700_000_000.0));
        assert_eq!(Stat::of("").number(13), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn all_values_are_read() {
        assert!(values().iter().all(Option::is_some), "{:?}", values());
    }
}
