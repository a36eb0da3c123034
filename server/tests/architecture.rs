//! Architecture rules that a reader of files can check: allowed dependencies between modules, places of SQL, and module
//! heads. A failure names its file, line and remedy.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Words that are forbidden in a place, and the reason.
struct Rule {
    /// Folder of the workspace.
    folder: &'static str,
    /// Exceptions within the folder.
    exceptions: &'static [&'static str],
    forbidden: &'static [&'static str],
    why: &'static str,
}

const RULES: &[Rule] = &[
    Rule {
        folder: "domain/src",
        exceptions: &[],
        forbidden: &["std::fs", "std::net", "std::io", "std::process", "std::env", "std::thread", "tokio", "sqlx"],
        why: "domain does no I/O; do it in server and hand in the values",
    },
    Rule {
        folder: "domain/src",
        exceptions: &[],
        forbidden: &["SystemTime::now", "Instant::now", "now_utc(", "now_v7(", "new_v4(", "rand::"],
        why: "domain has no clock and no randomness; take `now` or the value as an argument",
    },
    Rule {
        folder: "app/src",
        exceptions: &[],
        forbidden: &["sqlx", "server::", "axum::", "tokio::"],
        why: "pages know domain, never the server or SQL; let server/src/http/ui hand in the data",
    },
    Rule {
        folder: "app/src",
        exceptions: &[],
        forbidden: &[" style=", " style:width", " style:transform", " style:--"],
        why: "the content security policy refuses inline styles",
    },
    Rule {
        folder: "client/src",
        exceptions: &[],
        forbidden: &["sqlx", "server::", "app::", "leptos"],
        why: "the client knows domain and HTTP only",
    },
    Rule {
        folder: "client/src",
        exceptions: &["client/src/worker/rabbitmq.rs", "client/src/cli/mod.rs"],
        forbidden: &["lapin"],
        why: "RabbitMQ is known in worker/rabbitmq.rs only; the command line keeps its log quiet",
    },
    Rule {
        folder: "examples/src",
        exceptions: &[],
        forbidden: &["sqlx", "server::", "app::"],
        why: "an example can do what any program can: use the client",
    },
    Rule {
        folder: "server/src/http",
        exceptions: &["server/src/http/error.rs"],
        forbidden: &[".begin()", "store::begin", "sqlx::", "PgConnection", "Transaction<"],
        why: "http has no transactions; call a use-case",
    },
    Rule {
        folder: "server/src",
        exceptions: &[],
        forbidden: &["sqlx::query", "query!(", "query_as!(", "query_scalar!(", "query_file!("],
        why: "SQL is in engine/src/store only",
    },
    Rule {
        folder: "engine/src",
        exceptions: &["engine/src/store"],
        forbidden: &["sqlx::query", "query!(", "query_as!(", "query_scalar!(", "query_file!("],
        why: "SQL is in store/ only",
    },
    Rule {
        folder: "server/src",
        exceptions: &["server/src/broker"],
        forbidden: &["lapin"],
        why: "RabbitMQ is known in broker/ only",
    },
    Rule {
        folder: "engine/src",
        exceptions: &["engine/src/store/transactions.rs", "engine/src/failpoints.rs"],
        forbidden: &[".begin()", ".commit().await"],
        why: "begin through store::begin, whose future is small, and commit through store::commit, where crashes are tested",
    },
    Rule {
        folder: "server/src",
        exceptions: &[],
        forbidden: &[".begin()", ".commit().await"],
        why: "begin through store::begin, whose future is small, and commit through store::commit, where crashes are tested",
    },
    Rule {
        folder: "server/src/maintenance",
        exceptions: &[],
        forbidden: &["crate::http"],
        why: "background tasks work without HTTP; share the use-case instead",
    },
    Rule {
        folder: "engine/src",
        exceptions: &[],
        forbidden: &["axum", "leptos", "lapin", "server::", "app::"],
        why: "the engine knows neither HTTP, pages, nor the broker",
    },
    Rule {
        folder: "engine/src",
        exceptions: &[],
        forbidden: &["SystemTime::now"],
        why: "the database's clock decides what is stored and compared",
    },
    Rule {
        folder: "engine/src/store",
        exceptions: &[],
        forbidden: &[
            "crate::dispatch",
            "crate::enqueue",
            "crate::tree",
            "crate::operator",
            "crate::retention",
            "crate::notify",
            "crate::query",
        ],
        why: "store is below the use cases",
    },
];

/// Allowed dependencies of domain. Any other would reach the browser and every client.
const DOMAIN_MAY_USE: &[&str] = &["serde", "serde_json", "time", "uuid", "utoipa"];

/// Maximum lines of a file without a reason in its head.
const MAX_LINES: usize = 600;

/// Maximum number of files in a folder.
const MAX_FILES: usize = 20;

#[test]
fn forbidden_dependencies_between_modules() {
    let mut violations = Vec::new();
    for rule in RULES {
        for file in sources(rule.folder) {
            if rule.exceptions.iter().any(|allowed| file.starts_with(root().join(allowed))) {
                continue;
            }
            for (number, line) in code(&file) {
                for word in rule.forbidden.iter().filter(|word| line.contains(**word)) {
                    violations.push(format!("{}:{number}: `{}`: {}", display_path(&file), word.trim(), rule.why));
                }
            }
        }
    }
    assert_no_violations(&violations);
}

#[test]
fn crate_dependencies_are_on_the_allow_list() {
    let mut violations = Vec::new();
    for name in dependencies("domain") {
        if !DOMAIN_MAY_USE.contains(&name.as_str()) {
            violations.push(format!("domain/Cargo.toml: {name}: domain is built from {DOMAIN_MAY_USE:?} alone"));
        }
    }
    for name in dependencies("app").into_iter().chain(dependencies("frontend")) {
        if ["server", "client", "sqlx", "tokio", "axum", "reqwest", "regex", "rand"].contains(&name.as_str()) {
            violations.push(format!("app or frontend: {name}: it would be sent to every browser"));
        }
    }
    for name in dependencies("engine") {
        if ["server", "app", "axum", "hyper", "leptos", "lapin", "tower"].contains(&name.as_str()) {
            violations.push(format!("engine/Cargo.toml: {name}: the engine knows neither HTTP, pages, nor the broker"));
        }
    }
    for name in dependencies("client") {
        if ["server", "app", "sqlx", "leptos"].contains(&name.as_str()) {
            violations.push(format!("client/Cargo.toml: {name}: the client knows domain and HTTP only"));
        }
    }
    assert_no_violations(&violations);
}

#[test]
fn modules_have_head_comment_and_bounded_length() {
    let mut violations = Vec::new();
    for file in all_sources() {
        let text = read(&file);
        if !text.starts_with("//! ") {
            let problem = "begins without `//!`: what this is, why it is apart, what it must not do";
            violations.push(format!("{}:1: {problem}", display_path(&file)));
        }
        let lines = text.lines().count();
        if lines > MAX_LINES && !text.contains("//! Long because ") {
            violations.push(format!("{}: {lines} lines: divide it, or say `//! Long because …`", display_path(&file)));
        }
    }
    assert_no_violations(&violations);
}

#[test]
fn folders_have_at_most_twenty_files() {
    let mut files = BTreeMap::<PathBuf, usize>::new();
    for file in all_sources().into_iter().chain(files_with("style", "css")) {
        *files.entry(file.parent().expect("a folder").to_owned()).or_default() += 1;
    }
    let too_many = files.iter().filter(|(_, count)| **count > MAX_FILES);
    let violations: Vec<_> =
        too_many.map(|(folder, count)| format!("{}: {count} files: group them", display_path(folder))).collect();
    assert_no_violations(&violations);
}

#[test]
fn no_todo_or_debug_macro_remains() {
    // Spelled apart, so that this file is not among its own finds.
    let forbidden =
        [["to", "do!"], ["unimplem", "ented!"], ["TO", "DO"], ["FIX", "ME"], ["db", "g!("]].map(|two| two.concat());
    let mut violations = Vec::new();
    for file in all_sources() {
        for (number, line) in read(&file).lines().enumerate() {
            for word in forbidden.iter().filter(|word| line.contains(*word)) {
                violations.push(format!("{}:{}: {word}", display_path(&file), number + 1));
            }
        }
    }
    assert_no_violations(&violations);
}

/// Words that are not used in names, with the terms to use. A name is a definition of a function, type, module, constant,
/// field, `let` binding or file; its snake_case and CamelCase parts are compared, each as a whole. Left out are words with
/// an ordinary meaning in code: act, asked, own, form, keep, known, posted, settled, walk, follow, hold, reading, turn.
const WORDS: &[(&[&str], &str)] = &[
    (&["gate", "gates"], "job_state, job_key"),
    (&["fence", "fences", "fencing", "lent", "held", "unheld"], "assignment_id, lease, claimed"),
    (&["settle", "settles"], "complete, completion_check"),
    (&["carry", "carried"], "propagation"),
    (&["lane", "lanes"], "serialize_queue"),
    (&["ghost", "ghosts"], "cancelled_jobs"),
    (&["tend", "tended"], "maintenance_check"),
    (&["bury", "buried", "removal"], "tombstone, purge"),
    (&["kept", "keeping"], "stored, stored_response"),
    (&["deed", "deeds", "did"], "action, flash"),
    (&["fate", "unfenced"], "failure_outcome, without_lease_check, push_assignment"),
    (&["news", "parcel", "parcels", "letter", "ear", "deaf"], "message, batch, consumer"),
    (&["tell", "tells", "told", "hear", "hears", "heard"], "publish, sent, receive, received"),
    (&["patience", "patient", "impatient"], "idle_timeout, timeout"),
    (&["pulse", "beat", "beats"], "stall_detector, heartbeat"),
    (&["duty", "duties"], "background_task, maintenance"),
    (&["rails"], "planner_settings"),
    (&["road", "house", "rooms", "chore", "chores", "manners"], "path, project, modules, commands, conventions"),
    (&["asking", "drawn", "said"], "list_query, rendered, received"),
    (&["figures", "tallies"], "statistics"),
    (&["story", "stories"], "test, scenario"),
];

/// Names that come from outside or that clients see, so that they cannot follow [`WORDS`].
const ALLOWED_NAMES: &[&str] = &["dead_letter"];

#[test]
fn names_use_the_terms_of_the_glossary() {
    let mut violations = Vec::new();
    let tests = ["server/tests", "client/tests", "examples/tests"].into_iter().flat_map(sources);
    for file in all_sources().into_iter().chain(tests) {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        for (word, term) in glossary_words(&stem) {
            violations.push(format!("{}: file name: `{word}`: use {term}", display_path(&file)));
        }
        for (at, line) in read(&file).lines().enumerate() {
            for name in defined_names(line) {
                for (word, term) in glossary_words(&name) {
                    violations.push(format!("{}:{}: `{name}`: `{word}`: use {term}", display_path(&file), at + 1));
                }
            }
        }
    }
    assert_no_violations(&violations);
}

/// Parts of a name that are in [`WORDS`], with their terms.
fn glossary_words(name: &str) -> Vec<(String, &'static str)> {
    if ALLOWED_NAMES.contains(&name) {
        return Vec::new();
    }
    let mut parts = vec![String::new()];
    let mut was_lower = false;
    for letter in name.chars() {
        if letter == '_' || (letter.is_uppercase() && was_lower) {
            parts.push(String::new());
        }
        was_lower = letter.is_lowercase();
        if let Some(part) = parts.last_mut().filter(|_| letter != '_') {
            part.extend(letter.to_lowercase());
        }
    }
    let term = |part: &String| WORDS.iter().find(|(words, _)| words.contains(&part.as_str())).map(|word| word.1);
    parts.into_iter().filter_map(|part| term(&part).map(|term| (part, term))).collect()
}

/// Names that a line defines: items, fields (also of struct-like variants and parameters on lines of their own), and `let`
/// bindings. Read by line, without a parser: comments do not count, and text in a string may.
fn defined_names(line: &str) -> Vec<String> {
    let line = line.split("//").next().unwrap_or_default().trim();
    let is_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    let words: Vec<&str> = line.split(|letter: char| !is_name(letter)).filter(|word| !word.is_empty()).collect();
    let keywords = ["fn", "struct", "enum", "trait", "mod", "const", "static", "type"];
    let mut names: Vec<String> = Vec::new();
    let skipped = ["pub", "crate", "super", "self", "in", "async", "unsafe", "const"];
    if let Some(at) = words.iter().position(|word| !skipped.contains(word) || *word == "const") {
        let at = if words[at] == "const" && words.get(at + 1).is_some_and(|next| ["fn", "async"].contains(next)) {
            at + 1
        } else {
            at
        };
        if keywords.contains(&words[at]) {
            names.extend(words.get(at + 1).map(|name| (*name).to_owned()));
        }
    }
    if let Some((_, rest)) = line.split_once("let ") {
        let pattern = rest.split(['=', ':', ';']).next().unwrap_or_default();
        let bound = pattern.split(|letter: char| !is_name(letter));
        // Capitals are types and variants that the pattern takes apart.
        names.extend(bound.filter(|name| name.starts_with(|c: char| c.is_lowercase() || c == '_')).map(str::to_owned));
    } else if let Some((name, rest)) = line.split_once(": ") {
        let name = name.rsplit(' ').next().unwrap_or_default();
        let is_field = !name.is_empty() && name.chars().all(is_name) && rest.ends_with(',') && !rest.contains('(');
        names.extend(is_field.then(|| name.to_owned()));
    }
    names
}

fn assert_no_violations(violations: &[String]) {
    assert!(violations.is_empty(), "{} faults\n{}", violations.len(), violations.join("\n"));
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the workspace")
}

fn display_path(file: &Path) -> String {
    file.strip_prefix(root()).unwrap_or(file).display().to_string()
}

fn read(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn all_sources() -> Vec<PathBuf> {
    let folders = [
        "domain/src",
        "app/src",
        "frontend/src",
        "client/src",
        "engine/src",
        "server/src",
        "examples/src",
        "testing/bench/src",
        "testing/faults/src",
        "xtask/src",
    ];
    folders.into_iter().flat_map(sources).collect()
}

/// Rust files of a folder, at any depth; empty if the folder does not exist.
fn sources(folder: &str) -> Vec<PathBuf> {
    files_with(folder, "rs")
}

/// Files of a folder with this extension, at any depth; empty if the folder does not exist.
fn files_with(folder: &str, extension: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else if entry.path().extension().is_some_and(|found| found == extension) {
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
