//! Release checklist of docs/releasing.md, walked: what can be checked is checked, the rest is run or named.

use std::{fs, process::Command};

use anyhow::{Context, Result, ensure};

use crate::{paths, step};

/// Step of the checklist. Its title stands in docs/releasing.md.
struct Item {
    title: &'static str,
    work: Work,
}

enum Work {
    /// Changes nothing.
    Check(fn(&str) -> Result<()>),
    /// Runs unless it is a dry run.
    Command(&'static [&'static str]),
    /// The same: the upgrade from the newest released version.
    Upgrade,
    /// A person does it.
    ByHand,
}

const CHECKLIST: [Item; 11] = [
    Item { title: "Everything is committed", work: Work::Check(is_committed) },
    Item { title: "All packages have the same version", work: Work::Check(versions_agree) },
    Item { title: "The changelog has a section for the version", work: Work::Check(changelog_has_the_version) },
    Item { title: "Released migrations are unchanged", work: Work::Check(migrations_are_unchanged) },
    Item { title: "The tag is free", work: Work::Check(tag_is_free) },
    Item { title: "All tests pass", work: Work::Command(&["xtask", "test"]) },
    Item { title: "Every promise holds under every fault", work: Work::Command(&["xtask", "faults", "full"]) },
    Item { title: "The upgrade from the previous version works", work: Work::Upgrade },
    Item { title: "The release files install and work", work: Work::Command(&["xtask", "dist", "--verify"]) },
    Item { title: "The release is tagged and pushed", work: Work::ByHand },
    Item { title: "The files and packages are published", work: Work::ByHand },
];

/// Walks the checklist. A dry run names every problem; otherwise, the first one ends it.
pub(crate) fn run(is_dry: bool) -> Result<()> {
    let version = workspace_version()?;
    println!("Release {version}");
    let mut problems = 0;
    for item in &CHECKLIST {
        match &item.work {
            Work::Check(check) => match check(&version) {
                Ok(()) => println!("  [x] {}", item.title),
                Err(error) if is_dry => {
                    problems += 1;
                    println!("  [ ] {}: {error:#}", item.title);
                }
                Err(error) => return Err(error.context(item.title)),
            },
            Work::Command(words) => run_cargo(item.title, words, is_dry)?,
            Work::Upgrade => run_cargo(item.title, &upgrade(newest_tag()?.as_deref()), is_dry)?,
            Work::ByHand => println!("  [ ] {}: by hand, see docs/releasing.md", item.title),
        }
    }
    ensure!(problems == 0, "{problems} of the checks failed; nothing was run or changed");
    Ok(())
}

fn run_cargo(title: &str, words: &[&str], is_dry: bool) -> Result<()> {
    if is_dry {
        println!("  [ ] {title}: cargo {}", words.join(" "));
        return Ok(());
    }
    let mut command = Command::new("cargo");
    command.args(words);
    step::show(title, command)
}

/// Arguments of cargo for the upgrade from this tag; without one, from the revision before the newest migration.
fn upgrade(tag: Option<&str>) -> Vec<&str> {
    let mut words = vec!["xtask", "faults", "upgrade"];
    words.extend(tag.into_iter().flat_map(|tag| ["--from", tag]));
    words
}

fn read(file: &str) -> Result<String> {
    fs::read_to_string(paths::root().join(file)).with_context(|| file.to_owned())
}

fn git(arguments: &[&str]) -> Result<String> {
    let output = Command::new("git").args(arguments).output().context("running git")?;
    ensure!(output.status.success(), "git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Text between quotation marks in the first line that starts with a key.
fn quoted<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let line = text.lines().map(str::trim).find(|line| line.starts_with(key))?;
    line[key.len()..].split('"').nth(1)
}

fn workspace_version() -> Result<String> {
    Ok(quoted(&read("Cargo.toml")?, "version =").context("Cargo.toml has no version")?.to_owned())
}

fn is_committed(_: &str) -> Result<()> {
    let changes = git(&["status", "--porcelain"])?;
    ensure!(changes.is_empty(), "{} files differ from the last commit", changes.lines().count());
    Ok(())
}

fn versions_agree(version: &str) -> Result<()> {
    let python = read("sdk/python/pyproject.toml")?;
    let typescript: serde_json::Value = serde_json::from_str(&read("sdk/typescript/package.json")?)?;
    let chart = read("packaging/helm/treeline/Chart.yaml")?;
    let chart = chart.lines().find_map(|line| line.strip_prefix("version:")).map(|text| text.trim().trim_matches('"'));
    let packages = [
        ("sdk/python", quoted(&python, "version =")),
        ("sdk/typescript", typescript["version"].as_str()),
        ("packaging/helm", chart),
    ];
    for (package, found) in packages {
        ensure!(found == Some(version), "{package} has the version {found:?}");
    }
    let guide = read("docs/installing.md")?;
    ensure!(guide.contains(&format!("treeline_{version}_")), "docs/installing.md names files of another version");
    Ok(())
}

fn changelog_has_the_version(version: &str) -> Result<()> {
    let changelog = read("CHANGELOG.md")?;
    let section = changelog.split("\n## ").find(|section| section.starts_with(&format!("[{version}]")));
    let section = section.with_context(|| format!("CHANGELOG.md has no section \"## [{version}] - YYYY-MM-DD\""))?;
    ensure!(section.lines().any(|line| line.starts_with("- ")), "its section in CHANGELOG.md is empty");
    Ok(())
}

/// Compares with the newest tag of a release, if there is one.
fn migrations_are_unchanged(_: &str) -> Result<()> {
    let Some(last) = newest_tag()? else { return Ok(()) };
    let changed = git(&["diff", "--name-only", "--diff-filter=DMR", &last, "--", "migrations"])?;
    ensure!(changed.is_empty(), "changed since {last}: {changed}");
    Ok(())
}

/// Tag of the newest released version, if there is one.
fn newest_tag() -> Result<Option<String>> {
    let tags = git(&["tag", "--list", "v*", "--sort=-version:refname"])?;
    Ok(tags.lines().next().map(str::to_owned))
}

fn tag_is_free(version: &str) -> Result<()> {
    let tags = git(&["tag", "--list", &format!("v{version}")])?;
    ensure!(tags.is_empty(), "there is a tag v{version}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_read_from_manifests() {
        assert_eq!(quoted("[package]\nname = \"a\"\nversion = \"1.2.3\" # yes\n", "version ="), Some("1.2.3"));
        assert_eq!(quoted("name = \"a\"\n", "version ="), None);
    }

    #[test]
    fn upgrade_begins_with_the_newest_released_version() {
        assert_eq!(upgrade(Some("v0.1.0")), ["xtask", "faults", "upgrade", "--from", "v0.1.0"]);
        assert_eq!(upgrade(None), ["xtask", "faults", "upgrade"]);
    }
}
