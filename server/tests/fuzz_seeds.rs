//! Fuzz targets with real inputs and some thousands of mutations: no panics, bounded time and memory, and the
//! properties of the targets hold. The targets and their seeds are those of the fuzzer, in `testing/fuzz/`; the mutations are
//! the same in every run.

#[path = "../../testing/fuzz/src/lib.rs"]
#[expect(unreachable_pub, reason = "the fuzzer calls them from another crate")]
mod targets;

use std::{
    panic::catch_unwind,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use targets::{TARGETS, Target};

/// Mutated inputs per target, unless `TREELINE_FUZZ_CHANGES` sets another number.
const CHANGES: u32 = 3_000;
/// Maximum duration of one input.
const INPUT_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum growth of the process in KiB.
const MOST_KIB: u64 = 64 << 10;
/// Maximum bytes of an input.
const LONGEST: usize = 4 << 10;

/// Fragments that are inserted more often than random bytes would be.
const PIECES: &[&[u8]] = &[
    b"\"",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"\0",
    b"\n",
    b"\r\n",
    b"\r",
    b",",
    b";",
    b":",
    b"..",
    b"-",
    b">",
    b"<",
    b"{",
    b"}",
    b"[",
    b"]",
    b"{}",
    b"[[[[",
    b"\xEF\xBB\xBF",
    b"\xFF\xFE",
    b"\xFE\xFF",
    b"\xC3\x28",
    b"\xED\xA0\x80",
    b"\xF0\x9F\x98\x80",
    b"1e400",
    b"-0",
    b"9223372036854775808",
    b"null",
    b"{\"$from\":\"/\"}",
    b"~1",
    b"%00",
    b"&",
    b"data:",
    b"</c>",
    b"<row>",
    b"99999999999999999999",
];

/// Deterministic pseudo-random numbers.
struct PseudoRandom(u64);

impl PseudoRandom {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

/// Mutates a seed; sometimes joins halves of two seeds.
fn changed(seeds: &[Vec<u8>], chance: &mut PseudoRandom) -> Vec<u8> {
    let mut input = seeds[chance.below(seeds.len())].clone();
    for _ in 0..=chance.below(4) {
        let at = chance.below(input.len() + 1);
        let behind = at + chance.below((input.len() - at).min(32) + 1);
        match chance.below(6) {
            0 if at < input.len() => input[at] ^= 1 << chance.below(8),
            1 => drop(input.drain(at..behind)),
            2 => {
                let again = input[at..behind].repeat(1 + chance.below(8));
                input.splice(at..at, again);
            }
            3 => {
                let other = &seeds[chance.below(seeds.len())];
                input.truncate(at);
                input.extend_from_slice(&other[chance.below(other.len() + 1)..]);
            }
            4 => input.insert(at, chance.below(256) as u8),
            _ => {
                let piece = PIECES[chance.below(PIECES.len())];
                input.splice(at..at, piece.iter().copied());
            }
        }
    }
    input.truncate(LONGEST);
    input
}

/// Runs one input. A busy machine may delay any input, but hardly the same one three times.
fn run(name: &str, target: Target, input: &[u8]) {
    for tries in 1.. {
        let began = Instant::now();
        assert!(catch_unwind(|| target(input)).is_ok(), "{name}, {} bytes: {}", input.len(), input.escape_ascii());
        if began.elapsed() < INPUT_TIMEOUT {
            return;
        }
        assert!(tries < 3, "{name}: {:?} for {}", began.elapsed(), input.escape_ascii());
    }
}

fn seeds(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testing/fuzz/seeds").join(name);
    let listed = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = listed.map(|file| file.expect("a file").path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).expect("a seed")).collect()
}

/// Peak memory of this process, in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a process");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("its peak");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
}

#[test]
fn fuzz_targets_terminate_and_keep_their_invariants() {
    let before = peak_kib();
    let changes = std::env::var("TREELINE_FUZZ_CHANGES").map_or(CHANGES, |text| text.parse().expect("a number"));
    for &(name, target) in TARGETS {
        let seeds = seeds(name);
        assert!(seeds.len() >= 3, "{name} has {} seeds", seeds.len());
        for seed in &seeds {
            run(name, target, seed);
        }
        let mut chance = PseudoRandom(0x9E37_79B9_7F4A_7C15);
        for _ in 0..changes {
            run(name, target, &changed(&seeds, &mut chance));
        }
    }
    let grown = peak_kib() - before;
    assert!(grown <= MOST_KIB, "{grown} KiB more");
}

#[test]
fn fuzz_targets_match_cargo_fuzz_manifest() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testing/fuzz");
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).expect("its manifest");
    for (name, _) in TARGETS {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name} is missing in testing/fuzz/Cargo.toml");
        let call = std::fs::read_to_string(folder.join(format!("fuzz_targets/{name}.rs"))).expect("a target");
        assert!(call.contains(&format!("fuzz::{name}(data)")), "{name}: {call}");
    }
}
