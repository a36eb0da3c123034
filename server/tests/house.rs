//! Architecture rules that a reader of files can check: allowed dependencies between modules, places of SQL, and module
//! heads. A failure names its file, line and remedy.

use std::path::{Path, PathBuf};

/// Words that are forbidden in a place, and the reason.
struct Rule {
    /// Folder of the workspace.
    place: &'static str,
    /// Exceptions within the folder.
    but: &'static [&'static str],
    words: &'static [&'static str],
    why: &'static str,
}

const RULES: &[Rule] = &[
    Rule {
        place: "domain/src",
        but: &[],
        words: &["std::fs", "std::net", "std::io", "std::process", "std::env", "std::thread", "tokio", "sqlx"],
        why: "domain does no I/O; do it in server and hand in the values",
    },
    Rule {
        place: "domain/src",
        but: &[],
        words: &["SystemTime::now", "Instant::now", "now_utc(", "now_v7(", "new_v4(", "rand::"],
        why: "domain has no clock and no randomness; take `now` or the value as an argument",
    },
    Rule {
        place: "app/src",
        but: &[],
        words: &["sqlx", "server::", "axum::", "tokio::"],
        why: "pages know domain, never the server or SQL; let server/src/http/ui hand in the data",
    },
    Rule {
        place: "app/src",
        but: &[],
        words: &[" style=", " style:width", " style:transform", " style:--"],
        why: "the content security policy refuses inline styles",
    },
    Rule {
        place: "client/src",
        but: &[],
        words: &["sqlx", "server::", "app::", "leptos"],
        why: "the client knows domain and HTTP only",
    },
    Rule {
        place: "client/src",
        but: &["client/src/worker/rabbit.rs", "client/src/cli/mod.rs"],
        words: &["lapin"],
        why: "RabbitMQ is known in worker/rabbit.rs only; the command line keeps its log quiet",
    },
    Rule {
        place: "examples/src",
        but: &[],
        words: &["sqlx", "server::", "app::"],
        why: "an example can do what any program can: use the client",
    },
    Rule {
        place: "server/src/http",
        but: &[],
        words: &[".begin()", "sqlx::", "PgConnection", "Transaction<"],
        why: "http has no transactions; call a use-case",
    },
    Rule {
        place: "server/src",
        but: &["server/src/store"],
        words: &["sqlx::query", "query!(", "query_as!(", "query_scalar!(", "query_file!("],
        why: "SQL stands in store/ only",
    },
    Rule {
        place: "server/src",
        but: &["server/src/broker"],
        words: &["lapin"],
        why: "RabbitMQ is known in broker/ only",
    },
    Rule {
        place: "server/src",
        but: &["server/src/store/commit.rs", "server/src/failpoints.rs"],
        words: &[".commit().await"],
        why: "commit through store::commit, where crashes are tested",
    },
    Rule {
        place: "server/src/duties",
        but: &[],
        words: &["crate::http"],
        why: "duties work without HTTP; share the use-case instead",
    },
    Rule {
        place: "server/src/jobs",
        but: &[],
        words: &["crate::http", "crate::duties", "axum::", "SystemTime::now"],
        why: "use-cases know neither their callers nor a clock of their own: the database's clock decides",
    },
    Rule {
        place: "server/src/store",
        but: &[],
        words: &["crate::jobs", "crate::http", "crate::duties", "axum::"],
        why: "store is below all the others",
    },
];

/// Allowed dependencies of domain. Any other would reach the browser and every client.
const DOMAIN_MAY_USE: &[&str] = &["serde", "serde_json", "time", "uuid", "utoipa"];

/// Maximum lines of a file without a reason in its head.
const LONGEST: usize = 400;

#[test]
fn no_room_knows_what_it_must_not() {
    let mut faults = Vec::new();
    for rule in RULES {
        for file in sources(rule.place) {
            if rule.but.iter().any(|allowed| file.starts_with(root().join(allowed))) {
                continue;
            }
            for (number, line) in code(&file) {
                for word in rule.words.iter().filter(|word| line.contains(**word)) {
                    faults.push(format!("{}:{number}: `{}`: {}", shown(&file), word.trim(), rule.why));
                }
            }
        }
    }
    none(&faults);
}

#[test]
fn domain_pages_and_client_are_built_from_little() {
    let mut faults = Vec::new();
    for name in dependencies("domain") {
        if !DOMAIN_MAY_USE.contains(&name.as_str()) {
            faults.push(format!("domain/Cargo.toml: {name}: domain is built from {DOMAIN_MAY_USE:?} alone"));
        }
    }
    for name in dependencies("app").into_iter().chain(dependencies("frontend")) {
        if ["server", "client", "sqlx", "tokio", "axum", "reqwest", "regex", "rand"].contains(&name.as_str()) {
            faults.push(format!("app or frontend: {name}: it would be sent to every browser"));
        }
    }
    for name in dependencies("client") {
        if ["server", "app", "sqlx", "leptos"].contains(&name.as_str()) {
            faults.push(format!("client/Cargo.toml: {name}: the client knows domain and HTTP only"));
        }
    }
    none(&faults);
}

#[test]
fn a_module_begins_by_saying_what_it_is() {
    let mut faults = Vec::new();
    for file in all_sources() {
        let text = read(&file);
        if !text.starts_with("//! ") {
            let what = "begins without `//!`: what this is, why it is apart, what it must not do";
            faults.push(format!("{}:1: {what}", shown(&file)));
        }
        let lines = text.lines().count();
        if lines > LONGEST && !text.contains("//! Long because ") {
            faults.push(format!("{}: {lines} lines: divide it, or say `//! Long because …`", shown(&file)));
        }
    }
    none(&faults);
}

#[test]
fn nothing_is_left_for_later() {
    // Spelled apart, so that this file is not among its own finds.
    let words =
        [["to", "do!"], ["unimplem", "ented!"], ["TO", "DO"], ["FIX", "ME"], ["db", "g!("]].map(|two| two.concat());
    let mut faults = Vec::new();
    for file in all_sources() {
        for (number, line) in read(&file).lines().enumerate() {
            for word in words.iter().filter(|word| line.contains(*word)) {
                faults.push(format!("{}:{}: {word}", shown(&file), number + 1));
            }
        }
    }
    none(&faults);
}

fn none(faults: &[String]) {
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the workspace")
}

fn shown(file: &Path) -> String {
    file.strip_prefix(root()).unwrap_or(file).display().to_string()
}

fn read(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn all_sources() -> Vec<PathBuf> {
    let rooms = [
        "domain/src",
        "app/src",
        "frontend/src",
        "client/src",
        "server/src",
        "examples/src",
        "bench/src",
        "faults/src",
        "xtask/src",
    ];
    rooms.into_iter().flat_map(sources).collect()
}

/// Rust files of a folder, at any depth; empty if the folder does not exist.
fn sources(place: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![root().join(place)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else if entry.path().extension().is_some_and(|extension| extension == "rs") {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    files
}

/// Numbered lines of product code in a file: without comments, and up to its unit tests.
fn code(file: &Path) -> Vec<(usize, String)> {
    if file.ends_with("tests.rs") {
        return Vec::new();
    }
    read(file)
        .lines()
        .take_while(|line| line.trim() != "#[cfg(test)]")
        .enumerate()
        .map(|(at, line)| (at + 1, line.split("//").next().unwrap_or_default().to_owned()))
        .filter(|(_, line)| !line.trim().is_empty())
        .collect()
}

/// Names under `[dependencies]` of a crate.
fn dependencies(name: &str) -> Vec<String> {
    let manifest = read(&root().join(name).join("Cargo.toml"));
    let section = manifest.split("\n[dependencies]\n").nth(1).unwrap_or_default();
    section
        .lines()
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split(['.', ' ', '=']).next())
        .filter(|name| !name.is_empty() && !name.starts_with('#'))
        .map(str::to_owned)
        .collect()
}
