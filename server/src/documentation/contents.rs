//! Table of contents: `docs/SUMMARY.md`, as mdBook reads it.

use app::pages::documentation::{Chapter, ChapterLink};

/// Chapters with links to the pages that are served.
pub(super) fn chapters(summary: &str) -> Vec<Chapter> {
    let mut chapters = Vec::new();
    for line in summary.lines() {
        if let Some(title) = line.strip_prefix("# ") {
            let title = if title == "Summary" { "" } else { title };
            chapters.push(Chapter { title: title.to_owned(), links: Vec::new() });
        } else if let (Some(link), Some(chapter)) = (link(line), chapters.last_mut()) {
            chapter.links.push(link);
        }
    }
    chapters
}

/// `- [title](file)`. An entry without a file is only a heading, and a page may not be served.
fn link(line: &str) -> Option<ChapterLink> {
    let (title, file) = line.trim().trim_start_matches("- ").strip_prefix('[')?.strip_suffix(')')?.split_once("](")?;
    Some(ChapterLink { title: title.to_owned(), address: super::address(file)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_becomes_chapters() {
        let read = chapters(
            "# Summary\n\n[Treeline](README.md)\n\n# Reference\n\n- [API](api.md)\n- [Draft]()\n  - [No](no.md)\n",
        );
        let titles: Vec<&str> = read.iter().map(|chapter| chapter.title.as_str()).collect();
        assert_eq!(titles, ["", "Reference"]);
        assert_eq!(read[0].links, [ChapterLink { title: "Treeline".to_owned(), address: "/docs".to_owned() }]);
        assert_eq!(read[1].links, [ChapterLink { title: "API".to_owned(), address: "/docs/api".to_owned() }]);
    }
}
