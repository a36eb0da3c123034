//! Import cycles between the modules of each crate: there are none, so every crate reads from top to bottom.
//!
//! A module is a direct child of a crate's root, with everything below it. Paths in `use` declarations and in
//! expressions count, in product code only. The root itself ties its modules together and does not count.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

const CRATES: &[&str] = &[
    "domain/src",
    "engine/src",
    "server/src",
    "app/src",
    "client/src",
    "testing/bench/src",
    "testing/faults/src",
    "xtask/src",
];

#[test]
fn modules_of_a_crate_import_each_other_in_one_direction() {
    let mut found = Vec::new();
    for folder in CRATES {
        let imports = imports_of(folder);
        for (from, to) in imports.keys() {
            if from < to && reaches(&imports, to, from) && reaches(&imports, from, to) {
                let places = |from: &str, to: &str| {
                    imports.get(&(from.to_owned(), to.to_owned())).map_or_else(
                        || format!("  {from} reaches {to} through others"),
                        |places| {
                            format!("  {from} imports {to}: {}", places.iter().cloned().collect::<Vec<_>>().join(", "))
                        },
                    )
                };
                found.push(format!("{folder}: a cycle\n{}\n{}", places(from, to), places(to, from)));
            }
        }
    }
    assert!(found.is_empty(), "{} cycles\n{}", found.len(), found.join("\n"));
}

#[test]
fn paths_are_read_from_nested_use_declarations() {
    let text = "use crate::{\n    a::{self, b as c},\n    d,\n};\nfn f() { crate::e::g(); super::h::i(); }";
    let paths = paths(text);
    let expected = ["crate::a::self", "crate::a::b", "crate::d", "crate::e::g", "super::h::i"];
    for path in expected {
        assert!(paths.iter().any(|found| found.join("::") == path), "{path} is missing in {paths:?}");
    }
}

/// Imports between modules, with the files that they are in.
type Imports = BTreeMap<(String, String), BTreeSet<String>>;

fn imports_of(folder: &str) -> Imports {
    let base = root().join(folder);
    let mut imports = Imports::new();
    for file in sources(&base) {
        let here = module_path(&base, &file);
        let Some(from) = here.first() else { continue };
        let text = product_code(&file);
        for path in paths(&text) {
            let Some(to) = target(&here, &path) else { continue };
            let is_module = base.join(&to).is_dir() || base.join(format!("{to}.rs")).is_file();
            if is_module && to != *from {
                let place = file.strip_prefix(root()).unwrap_or(&file).display().to_string();
                imports.entry((from.clone(), to)).or_default().insert(place);
            }
        }
    }
    imports
}

/// Returns true if `to` can be reached from `from` by imports.
fn reaches(imports: &Imports, from: &str, to: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = vec![from.to_owned()];
    while let Some(at) = open.pop() {
        for (_, next) in imports.keys().filter(|(module, _)| *module == at) {
            if next == to {
                return true;
            }
            if seen.insert(next.clone()) {
                open.push(next.clone());
            }
        }
    }
    false
}

/// Path of a file's module below the crate's root.
fn module_path(base: &Path, file: &Path) -> Vec<String> {
    let inside = file.strip_prefix(base).expect("a file of the crate").with_extension("");
    let mut path: Vec<String> = inside.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if path.last().is_some_and(|last| ["mod", "lib", "main"].contains(&&**last)) {
        path.pop();
    }
    path
}

/// First module of the path that is meant at this place; `None` for other crates and for the root.
fn target(here: &[String], path: &[String]) -> Option<String> {
    let (first, mut rest) = path.split_first()?;
    if first == "crate" {
        return rest.first().cloned();
    }
    let mut at = here.to_vec();
    if first == "super" {
        at.pop();
    }
    while let Some((word, more)) = rest.split_first().filter(|(word, _)| *word == "super") {
        at.pop();
        rest = more;
        let _ = word;
    }
    at.first().or(rest.first()).cloned()
}

/// Paths that begin with `crate` or `super`, those of nested `use` declarations included.
fn paths(text: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for root in ["crate::", "super::"] {
        for (at, _) in text.match_indices(root) {
            let before = text[..at].chars().next_back();
            if before.is_some_and(|before| before.is_alphanumeric() || "_:$".contains(before)) {
                continue;
            }
            read_tree(&text[at..], &[], &mut found);
        }
    }
    found
}

/// Reads a path or a tree of paths; returns the text behind it.
fn read_tree<'a>(mut text: &'a str, prefix: &[String], found: &mut Vec<Vec<String>>) -> &'a str {
    let mut path = prefix.to_vec();
    loop {
        text = text.trim_start();
        if let Some(mut inner) = text.strip_prefix('{') {
            loop {
                inner = inner.trim_start().trim_start_matches(',').trim_start();
                if let Some(rest) = inner.strip_prefix('}') {
                    return rest;
                }
                let rest = read_tree(inner, &path, found);
                if rest.len() == inner.len() {
                    return rest;
                }
                inner = rest.trim_start();
                if let Some(alias) = inner.strip_prefix("as ") {
                    inner = alias.trim_start().trim_start_matches(|c: char| c.is_alphanumeric() || c == '_');
                }
            }
        }
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '*').unwrap_or(text.len());
        if end == 0 {
            found.push(path);
            return text;
        }
        path.push(text[..end].to_owned());
        text = &text[end..];
        let Some(rest) = text.strip_prefix("::") else {
            found.push(path);
            return text;
        };
        text = rest;
    }
}

/// Text of a file without comments and unit tests.
fn product_code(file: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    if file.ends_with("tests.rs") {
        return String::new();
    }
    let lines = text.lines().take_while(|line| line.trim() != "#[cfg(test)]");
    lines.map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the workspace")
}

/// Rust files of a folder, at any depth.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())).flatten() {
        let path = entry.path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}
