//! `docs/rules.md` and `docs/promises.md` name existing tests, every rule and promise has tests, and rules are cited by
//! name. Reads files; runs nothing.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

/// Number of public promises.
const PROMISES: usize = 21;

/// Documents that name tests.
const RULES: &str = "docs/rules.md";
const PROMISES_AND_FAULTS: &str = "docs/promises.md";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the workspace")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Files below a folder with this ending.
fn files(place: &str, ending: &str) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    let mut folders = vec![root().join(place)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else if entry.path().to_string_lossy().ends_with(ending) {
                paths.push(entry.path());
            }
        }
    }
    paths
}

/// Every test as `crate/…/file::name`, with `/` between folders.
fn tests() -> HashSet<String> {
    let mut paths = HashSet::new();
    for place in ["domain", "engine", "server", "client", "examples"]
        .iter()
        .flat_map(|name| [format!("{name}/src"), format!("{name}/tests")])
    {
        for file in files(&place, ".rs") {
            let text = std::fs::read_to_string(&file).expect("a readable file");
            let path = file.strip_prefix(root()).expect("it lies in the workspace").with_extension("");
            let mut is_test = false;
            for line in text.lines().map(str::trim) {
                if line.starts_with("#[test") || line.starts_with("#[tokio::test") {
                    is_test = true;
                } else if let Some((_, rest)) = line.split_once("fn ").filter(|_| is_test) {
                    let name = rest.split('(').next().unwrap_or_default();
                    paths.insert(format!("{}::{name}", path.display()));
                    is_test = false;
                }
            }
        }
    }
    paths
}

#[test]
fn cited_tests_exist() {
    let tests = tests();
    let browser: String = files("end2end/tests", ".test.mjs")
        .iter()
        .map(|file| std::fs::read_to_string(file).expect("a readable file"))
        .collect();
    let mut missing = Vec::new();
    for named in [read(RULES), read(PROMISES_AND_FAULTS)].concat().split('`').skip(1).step_by(2) {
        if let Some(title) = named.strip_prefix("end2end \"") {
            let title = title.trim_end_matches('"');
            if title != "…" && !browser.contains(&format!("test('{title}'")) {
                missing.push(named.to_owned());
            }
        } else if let Some((place, name)) = named.rsplit_once("::").filter(|(_, name)| *name != "…") {
            // `domain::dispatch::retry` is domain/src/dispatch/retry.rs: the crate's name may lead, folders in between may be left out.
            let parts: Vec<&str> = place.split("::").collect();
            let is = |test: &String| {
                let Some((file, of_file)) = test.split_once("::") else { return false };
                let segments: Vec<&str> = file.split('/').collect();
                let mut left = segments.iter();
                of_file == name && segments.last() == parts.last() && parts.iter().all(|part| left.any(|s| s == part))
            };
            if !tests.iter().any(is) {
                missing.push(named.to_owned());
            }
        }
    }
    assert!(missing.is_empty(), "tests that are named in docs/ and do not exist: {missing:#?}");
}

#[test]
fn every_promise_has_one_row() {
    let document = read(PROMISES_AND_FAULTS);
    let missing: Vec<String> = (1..=PROMISES)
        .map(|n| format!("| P{n} |"))
        .filter(|row| document.lines().filter(|line| line.starts_with(row.as_str())).count() != 1)
        .collect();
    assert!(missing.is_empty(), "{PROMISES_AND_FAULTS} has not exactly one row for {missing:?}");
}

#[test]
fn every_rule_has_tests() {
    let document = read(RULES);
    let rules: Vec<&str> = document.split("\n### ").skip(1).collect();
    assert!(rules.len() > 20, "rules are headings of the third level");
    for rule in rules {
        assert!(rule.contains("\nTests: `"), "no tests are named under {}", rule.lines().next().unwrap_or_default());
    }
}

#[test]
fn rules_are_cited_by_name() {
    let folders = [
        "app",
        "client",
        "domain",
        "docs",
        "examples",
        "engine",
        "server",
        "testing/bench",
        "testing/faults",
        "testing/fuzz",
        "xtask",
    ];
    let files = folders.iter().flat_map(|folder| files(folder, ".rs").into_iter().chain(files(folder, ".md")));
    let mut numbers = Vec::new();
    for file in files.filter(|file| !file.ends_with("promises.rs")) {
        let text = std::fs::read_to_string(&file).expect("a readable file").to_lowercase();
        for (at, line) in text.lines().enumerate() {
            let by_number = |word: &str| {
                line.split(word).skip(1).any(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
            };
            if by_number("rule ") || by_number("rules ") || line.contains("spec \u{a7}") {
                numbers.push(format!("{}:{}", file.display(), at + 1));
            }
        }
    }
    assert!(numbers.is_empty(), "rules are cited by their names in {RULES}, not by numbers: {numbers:#?}");
}
