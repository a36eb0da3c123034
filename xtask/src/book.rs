//! The documentation as a book: docs/ by mdBook, into target/book. Links between its pages are checked.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, ensure};

use crate::{paths, step, supply};

pub(crate) fn build() -> Result<()> {
    let mdbook = supply::mdbook()?;
    let (source, book) = (paths::target()?.join("book-source"), paths::target()?.join("book"));
    for folder in [&source, &book] {
        let _ = std::fs::remove_dir_all(folder);
    }
    copy(&paths::root().join("docs"), &source)?;
    let mut command = Command::new(mdbook);
    command.arg("build").arg(&source).arg("--dest-dir").arg(&book);
    step::run("build the book", command)?;
    let broken = step::time("check its links", || broken_links(&book))?;
    ensure!(broken.is_empty(), "the book has broken links:\n{}", broken.join("\n"));
    println!("    {}", book.join("index.html").display());
    Ok(())
}

/// Copies a folder. Links that leave it are plain text in the copy, because they lead nowhere in the book.
fn copy(from: &Path, to: &Path) -> Result<()> {
    for file in paths::files_below(from) {
        let name = file.strip_prefix(from)?;
        let target = to.join(name);
        std::fs::create_dir_all(target.parent().unwrap_or(to))?;
        if file.extension().is_some_and(|extension| extension == "md") {
            let depth = name.components().count() - 1;
            let mut text = without_outside_links(&std::fs::read_to_string(&file)?, depth);
            // mdBook makes index.html of a README.md, but does not change links to it.
            if !name.ends_with("SUMMARY.md") {
                text = text.replace("/README.md)", "/index.md)");
            }
            std::fs::write(target, text)?;
        } else {
            std::fs::copy(&file, target)?;
        }
    }
    Ok(())
}

/// Replaces links with more `..` than the file's depth by their text.
fn without_outside_links(markdown: &str, depth: usize) -> String {
    let outside = format!("]({}", "../".repeat(depth + 1));
    let mut text = markdown.to_owned();
    while let Some(at) = text.find(&outside) {
        let Some(end) = text[at..].find(')') else { break };
        let begin = text[..at].rfind('[').unwrap_or(at);
        let words = text.get(begin + 1..at).unwrap_or_default().to_owned();
        text.replace_range(begin..=at + end, &words);
    }
    text
}

/// Links of the book to files and anchors that do not exist.
fn broken_links(book: &Path) -> Result<Vec<String>> {
    let pages: HashMap<PathBuf, String> = paths::files_below(book)
        .into_iter()
        .filter(|file| file.extension().is_some_and(|extension| extension == "html"))
        .map(|file| Ok((file.clone(), std::fs::read_to_string(file)?)))
        .collect::<Result<_>>()?;
    let anchors: HashMap<&Path, HashSet<&str>> =
        pages.iter().map(|(file, html)| (file.as_path(), values(html, "id").collect())).collect();
    let mut broken = Vec::new();
    for (file, html) in &pages {
        // mdBook's page for unknown URLs has links relative to the site, and the printed one repeats the others.
        if file.ends_with("404.html") || file.ends_with("print.html") {
            continue;
        }
        for link in values(html, "href").chain(values(html, "src")) {
            if link.contains(':') || link.starts_with("//") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let folder = file.parent().unwrap_or(book);
            let target = if path.is_empty() { file.clone() } else { normal(&folder.join(path)) };
            let has_anchor =
                anchor.is_empty() || anchors.get(target.as_path()).is_none_or(|anchors| anchors.contains(anchor));
            if !target.is_file() || !target.starts_with(book) || !has_anchor {
                broken.push(format!("{}: {link}", file.strip_prefix(book)?.display()));
            }
        }
    }
    broken.sort();
    Ok(broken)
}

/// Values of an attribute, outside of code, whose quotes are escaped.
fn values<'a>(html: &'a str, attribute: &'a str) -> impl Iterator<Item = &'a str> {
    html.match_indices(attribute).filter_map(move |(at, _)| {
        let before = html[..at].chars().next_back()?;
        let rest = html[at + attribute.len()..].strip_prefix("=\"")?;
        before.is_whitespace().then(|| rest.split('"').next()).flatten()
    })
}

/// Path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut whole = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(whole.pop()),
            std::path::Component::CurDir => {}
            part => whole.push(part),
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_leave_the_book_become_text() {
        let text = "See [a](api.md), [b](../README.md#c) and [d](../../x).";
        assert_eq!(without_outside_links(text, 0), "See [a](api.md), b and d.");
        assert_eq!(without_outside_links(text, 1), "See [a](api.md), [b](../README.md#c) and d.");
    }

    #[test]
    fn a_broken_link_is_found() {
        let folder = std::env::temp_dir().join(format!("treeline-book-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let page = "<h1 id=\"top\">a</h1><a href=\"#top\">a</a> <a href=\"b.html#none\">b</a> <img src=\"no.svg\">\
                    <a href=\"https://a.example\">c</a>";
        std::fs::write(folder.join("a.html"), page).expect("written");
        std::fs::write(folder.join("b.html"), "<h1 id=\"x\">b</h1><a href=\"a.html#top\">a</a>").expect("written");
        let broken = broken_links(&folder).expect("read");
        std::fs::remove_dir_all(&folder).expect("removed");
        assert_eq!(broken, ["a.html: b.html#none", "a.html: no.svg"]);
    }
}
