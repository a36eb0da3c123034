//! Documentation: links lead to files and headings that exist, the book has every page, and the code that verifies webhooks
//! verifies the example of the specification. Reads files, and runs Python and Node.js.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    process::Command,
};

/// Folders without documents of ours.
const SKIPPED: &[&str] = &["target", "node_modules", ".git", "site", "corpus"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the workspace")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All Markdown files below a folder.
fn documents(folder: &Path) -> Vec<PathBuf> {
    files(folder, "md")
}

/// All files below a folder whose names end so.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            if path.is_dir() && !SKIPPED.iter().any(|skipped| name == *skipped) {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == ending) {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// Lines outside of fenced code.
fn prose(text: &str) -> Vec<&str> {
    let mut is_code = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            lines.push(line);
        }
    }
    lines
}

/// Targets of the links in a line.
fn targets(line: &str) -> Vec<&str> {
    let links = line.match_indices("](").filter(|(at, _)| line[..*at].matches('`').count().is_multiple_of(2));
    links.filter_map(|(at, _)| line[at + 2..].split(')').next()).filter(|target| !target.is_empty()).collect()
}

/// Anchors of the headings, as GitHub and mdBook make them.
fn anchors(text: &str) -> HashSet<String> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    let headings = prose(text).into_iter().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let words = line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
            let anchor: String = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect();
            let count = counts.entry(anchor.clone()).or_default();
            *count += 1;
            if *count == 1 { anchor } else { format!("{anchor}-{}", *count - 1) }
        })
        .collect()
}

#[test]
fn links_lead_to_files_and_headings() {
    let mut broken = Vec::new();
    for file in documents(root()) {
        let text = read(&file);
        for target in prose(&text).into_iter().flat_map(targets) {
            if target.starts_with("http://") || target.starts_with("https://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let linked = if path.is_empty() { file.clone() } else { file.parent().expect("a folder").join(path) };
            let is_missing = !linked.exists()
                || !anchor.is_empty()
                    && linked.extension().is_some_and(|extension| extension == "md")
                    && !anchors(&read(&linked)).contains(anchor);
            if is_missing {
                broken.push(format!("{}: {target}", file.strip_prefix(root()).unwrap_or(&file).display()));
            }
        }
    }
    assert!(broken.is_empty(), "broken links: {broken:#?}");
}

#[test]
fn book_has_every_page() {
    let docs = root().join("docs");
    let summary = read(&docs.join("SUMMARY.md"));
    let listed: HashSet<PathBuf> = summary.lines().flat_map(targets).map(|target| docs.join(target)).collect();
    let pages = documents(&docs).into_iter().filter(|page| !page.ends_with("SUMMARY.md"));
    let missing: Vec<PathBuf> = pages.filter(|page| !listed.contains(page)).collect();
    assert!(missing.is_empty(), "docs/SUMMARY.md does not list {missing:?}");
}

/// Bold words of a tutorial are what a reader looks for on a page: a whole label there, or its words before a number.
#[test]
fn tutorials_name_buttons_as_the_pages_do() {
    let english = read(&root().join("app/languages/en.ftl"));
    let texts = english.lines().filter_map(|line| line.split_once("= ").or_else(|| line.split_once("] ")));
    let sources: Vec<_> = files(&root().join("app/src"), "rs").iter().map(|path| read(path)).collect();
    let mut labels: HashSet<&str> = sources.iter().flat_map(|source| source.split('"')).collect();
    labels.extend(texts.filter_map(|(_, text)| text.split('{').next()).map(str::trim));
    for path in documents(&root().join("docs/tutorials")) {
        let text = prose(&read(&path)).join(" ");
        let bold = text.split("**").skip(1).step_by(2);
        let missing: Vec<_> = bold.filter(|label| !labels.contains(label)).collect();
        assert!(missing.is_empty(), "{}: no page has these labels: {missing:?}", path.display());
    }
}

#[test]
fn release_guide_has_the_checklist_that_is_walked() {
    let program = read(&root().join("xtask/src/release.rs"));
    let walked: Vec<&str> = program.split("title: \"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let guide = read(&root().join("docs/releasing.md"));
    let documented: Vec<&str> = guide.split("\n1. **").skip(1).filter_map(|rest| rest.split(".**").next()).collect();
    assert_eq!(documented, walked);
}

/// The fenced code of a language in a document.
fn code(document: &str, language: &str) -> String {
    let (_, rest) = document.split_once(&format!("```{language}\n")).unwrap_or_else(|| panic!("no {language}"));
    rest.split("```").next().unwrap_or_default().to_owned()
}

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn documented_code_verifies_webhooks() {
    // The example of the specification of Standard Webhooks.
    let (secret, id, at) = ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330);
    let (body, signature) = (r#"{"test": 2432232314}"#, "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    let headers = format!(
        r#"{{"webhook-id": "{id}", "webhook-timestamp": "{at}", "webhook-signature": "v1,old v1,{signature}"}}"#
    );
    let guide = read(&root().join("docs/how-to/webhooks.md"));

    let python = format!(
        "{}\nheaders = {headers}\nassert verify(b'{body}', headers, '{secret}', {at}) == {{'test': 2432232314}}\n\
         for body, now in ((b'{{}}', {at}), (b'{body}', {at} + 301)):\n    try:\n        verify(body, headers, '{secret}', now)\n\
         \x20   except ValueError as error:\n        print(error)\n",
        code(&guide, "python")
    );
    assert_eq!(output("python3", &["-c", &python]), "wrong signature\ntoo old, or from the future");

    let node = format!(
        "{}\nconst headers = {headers};\nconsole.log(verify(Buffer.from('{body}'), headers, '{secret}', {at}).test);\n\
         for (const [body, now] of [['{{}}', {at}], ['{body}', {at} + 301]]) {{\n\
         try {{ verify(Buffer.from(body), headers, '{secret}', now); }} catch (error) {{ console.log(error.message); }} }}",
        code(&guide, "js")
    );
    let printed = output("node", &["--input-type=module", "--eval", &node]);
    assert_eq!(printed, "2432232314\nwrong signature\ntoo old, or from the future");

    let shell = format!("SECRET='{secret}' ID='{id}' TIMESTAMP={at} BODY='{body}'\n{}", code(&guide, "sh"));
    assert_eq!(output("bash", &["-c", &shell]), signature);
}
