//! Catalogs are complete and agree with the code; numbers, dates and plurals are those of the locale.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use super::{Catalog, Languages, Notation, catalog::messages, grouped, speaking, tenths};
use crate::t;

const EN: &str = include_str!("../../languages/en.ftl");
const DE: &str = include_str!("../../languages/de.ftl");

/// Modules that the browser has, too: their texts must be among those that a page carries.
const OF_BROWSER: [&str; 9] =
    ["components/bar", "components/form", "components/state", "frame", "job_view", "live", "meter", "pace", "upload"];

#[test]
fn english_and_german_have_the_same_keys_and_placeholders() {
    let (en, de) = (messages(EN).expect("English"), messages(DE).expect("German"));
    let placeholders = |texts: BTreeMap<String, super::catalog::Message>| -> BTreeMap<String, BTreeSet<String>> {
        texts.into_iter().map(|(key, message)| (key, message.placeholders)).collect()
    };
    assert_eq!(placeholders(en), placeholders(de));
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "js") {
            found.push(path);
        }
    }
}

/// Calls of `t!` and `t_view!` in a file: key, and names of placeholders.
fn calls(source: &str) -> Vec<(String, BTreeSet<String>)> {
    let mut calls = Vec::new();
    for opening in ["t!(", "t_view!("] {
        for (at, _) in source.match_indices(opening) {
            let before = source[..at].chars().next_back().unwrap_or(' ');
            let rest = source[at + opening.len()..].trim_start();
            let Some(rest) = rest.strip_prefix('"').filter(|_| !before.is_alphanumeric() && before != '_') else {
                continue;
            };
            let Some((key, rest)) = rest.split_once('"') else { continue };
            calls.push((key.to_owned(), names(rest)));
        }
    }
    calls
}

/// Names before `=` up to the parenthesis that closes the call, at its own level.
fn names(rest: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let (mut depth, mut word, mut is_text) = (0, String::new(), false);
    let mut chars = rest.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '"' => is_text = !is_text,
            _ if is_text => {}
            '(' | '{' | '[' => depth += 1,
            ')' if depth == 0 => break,
            ')' | '}' | ']' => depth -= 1,
            '=' if depth == 0 && chars.peek() != Some(&'=') && !word.is_empty() => {
                names.insert(std::mem::take(&mut word));
            }
            ',' | ';' => word.clear(),
            char if depth == 0 && (char.is_alphanumeric() || char == '_') => word.push(char),
            char if char.is_whitespace() => {}
            _ => word.clear(),
        }
    }
    names
}

#[test]
fn code_and_catalog_name_the_same_texts_and_placeholders() {
    let english = messages(EN).expect("English");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut used: BTreeSet<String> = BTreeSet::from(["language-name".to_owned()]);
    let mut faults = Vec::new();
    for file in files.iter().filter(|file| !file.ends_with("speech.rs") && !file.ends_with("speech/tests.rs")) {
        let source = fs::read_to_string(file).expect("a file");
        let name = file.strip_prefix(&root).expect("below").display().to_string();
        if file.extension().is_some_and(|extension| extension == "js") {
            let of_scripts = |key: &&String| key.starts_with("script-") || key.starts_with("time-");
            used.extend(
                english.keys().filter(of_scripts).filter(|key| source.contains(&format!("\"{key}\""))).cloned(),
            );
            continue;
        }
        let is_of_browser = OF_BROWSER.iter().any(|module| name.starts_with(module));
        for (key, names) in calls(&source) {
            match english.get(&key) {
                None => faults.push(format!("{name}: no text has the key {key}")),
                Some(message) if message.placeholders != names => {
                    faults.push(format!("{name}: {key} has {:?}, the code gives {names:?}", message.placeholders));
                }
                Some(_)
                    if is_of_browser && !["live-", "time-", "script-"].iter().any(|start| key.starts_with(start)) =>
                {
                    faults.push(format!("{name}: {key} is not among the texts that the browser gets"));
                }
                Some(_) => {}
            }
            used.insert(key);
        }
    }
    faults.extend(english.keys().filter(|key| !used.contains(*key)).map(|key| format!("nothing uses {key}")));
    assert_eq!(faults, Vec::<String>::new());
}

#[test]
fn numbers_follow_the_locale() {
    let languages = Languages::default();
    let written = |accepted: &str, n: i64| speaking(languages.speech(None, Some(accepted)), || grouped(n));
    assert_eq!(written("en-US", 1_234_567), "1,234,567");
    assert_eq!(written("en-IN", 1_234_567), "12,34,567");
    assert_eq!(written("de-DE", 10_000), "10.000");
    assert_eq!(written("de-CH", -10_000), "-10'000");
    assert_eq!(written("xx", 10_000), "10,000");
    assert_eq!(speaking(languages.speech(Some("de"), None), || tenths(32)), "3,2");
    let number_format = |tag: &str, n: i64| Notation::of(tag).expect("a locale").number_format.grouped(n);
    assert_eq!((number_format("fr", 10_000).as_str(), number_format("es", 1_000).as_str()), ("10\u{202f}000", "1000"));
}

#[test]
fn the_language_is_chosen_accepted_or_english() {
    let languages = Languages::default();
    let found = |chosen, accepted| {
        let speech = languages.speech(chosen, accepted);
        (speech.catalog.tag.clone(), speech.notation.tag.clone())
    };
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(found(None, None), pair("en", "en"));
    assert_eq!(found(None, Some("fr-FR, de-AT;q=0.8, en;q=0.5")), pair("de", "de-AT"));
    assert_eq!(found(None, Some("en;q=0.1, de;q=0.9")), pair("de", "de"));
    assert_eq!(found(Some("en"), Some("de-DE, en-GB;q=0.3")), pair("en", "en-GB"));
    assert_eq!(found(Some("no-such"), Some("de;q=0, *")), pair("en", "en"));
    assert_eq!(found(None, Some("q=;;,-, \u{fffd}")), pair("en", "en"));
}

#[test]
fn plural_forms_are_those_of_the_language() {
    let source = "live-percent = { $n ->\n    [one] { $n } jeden\n    [few] { $n } dwa\n   *[many] { $n } wiele\n  }\n";
    let (polish, unknown) = Catalog::read("pl", source, Some(EN)).expect("a catalog");
    assert!(unknown.is_empty());
    let polish: &'static Catalog = Box::leak(Box::new(polish));
    let speech = super::Speech { catalog: polish, notation: languages_notation() };
    let written = |n: i64| speaking(speech, || t!("live-percent", n = n));
    assert_eq!([written(1), written(3), written(5)], ["1 jeden", "3 dwa", "5 wiele"]);
    // Texts that it lacks are English.
    assert_eq!(speaking(speech, || t!("nav-imports")), "Imports");
}

fn languages_notation() -> &'static Notation {
    Languages::english().notation
}

#[test]
fn a_bad_file_is_refused_with_its_line_and_what_was_expected() {
    let refused = |source: &str| Catalog::read("fr", source, Some(EN)).map(drop).expect_err("refused").to_string();
    assert!(refused("nav-jobs = Tâches\nnonsense\n").starts_with("line 2: expected a text as key = text"));
    assert_eq!(
        refused("nav-jobs = Tâches\nlive-percent = { $count } %\n"),
        "line 2: expected these placeholders in live-percent: $n; found $count"
    );
    assert!(refused("nav-jobs = { NUMBER($n) }\n").starts_with("line 1: expected a placeholder"));
    assert!(Catalog::read("not a tag", "", Some(EN)).is_err());
    let (_, unknown) = Catalog::read("fr", "of-another-version = Texte\n", Some(EN)).expect("a catalog");
    assert_eq!(unknown, ["of-another-version"]);
}

#[test]
fn languages_of_a_folder_are_added() {
    let folder = std::env::temp_dir().join(format!("treeline-languages-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("fr.ftl"), "language-name = Français\nnav-imports = Importations\n").expect("a file");
    let (languages, unknown) = Languages::with_folder(&folder).expect("languages");
    assert!(unknown.is_empty() && languages.choices().contains(&("fr", "Français")));
    let speech = languages.speech(None, Some("fr-CA"));
    assert_eq!((speech.notation.tag.as_str(), speaking(speech, || t!("nav-imports"))), ("fr-CA", "Importations"));
    fs::write(folder.join("it.ftl"), "\n\n= x\n").expect("a file");
    let refused = Languages::with_folder(&folder).map(drop).expect_err("refused");
    assert!(refused.contains("it.ftl, line 3: expected"), "{refused}");
    fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn an_import_is_described_in_german() {
    let languages = Languages::default();
    let german = languages.speech(Some("de"), None);
    let count = |n: i64| speaking(german, || crate::job_view::counted(true, n));
    assert_eq!([count(1), count(10_000)], ["1 Zeile", "10.000 Zeilen"]);
    assert_eq!(speaking(german, || crate::upload::size(1_500_000)), "1,5 MB");
    let reason = "Line 51, column 2 (Betrag): expected a number, found \"51 CHF\".";
    assert_eq!(
        speaking(german, || super::in_words(reason)),
        "Zeile 51, Spalte 2 (Betrag): erwartet: eine Zahl; gefunden: \"51 CHF\"."
    );
    let finding = "Column amount: expected a whole number, found \"x\" in line 3.";
    assert_eq!(
        speaking(german, || super::in_words(finding)),
        "Spalte amount: erwartet: eine ganze Zahl; gefunden: \"x\" in Zeile 3."
    );
    assert_eq!(super::in_words(finding), finding);
    // In English a sentence is what the engine says, and what is not known stays.
    for same in [reason, "Line 4, column 3 (age): expected 3 fields, found 2.", "Expected at least 5, found 2."] {
        assert_eq!(super::in_words(same), same);
    }
    assert_eq!(speaking(german, || super::in_words("Something else.")), "Something else.");
    let corrected = "Column amount: expected a number, found \"a few in line 5\".";
    assert_eq!(
        speaking(german, || super::in_words(corrected)),
        "Spalte amount: erwartet: eine Zahl; gefunden: \"a few in line 5\"."
    );
    let archive = "The file is a ZIP archive that is no Excel workbook. Unpack it, and upload that.";
    assert!(speaking(german, || super::in_words(archive)).starts_with("Die Datei ist ein ZIP-Archiv"));
    assert_eq!(super::in_words(archive), archive);
    assert_eq!(super::upload_refusals(), []);
    assert_eq!(speaking(german, || crate::pace::duration(192.0)), "3 Min. 12 Sek.");
    assert_eq!(speaking(german, || crate::exact_duration::length(192_250)), "3 Min. 12 Sek.");
}
