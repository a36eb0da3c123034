//! Shapes of icons and patterns of bars, inline: this needs no second request, and patterns can be referenced only
//! within their own document. A document has the icons that it uses and those that its islands may draw.

use std::sync::LazyLock;

const SPRITE: &str = include_str!("sprite.svg");
const SYMBOL: &str = "<symbol id=\"i-";
const USE: &str = "#i-";

/// Place of the shapes in a document that has none yet.
pub(crate) const PLACE: &str =
    r#"<svg class="sprite" width="0" height="0" aria-hidden="true" focusable="false"></svg>"#;

/// Icons that only islands draw, beside the shapes of states.
const OF_ISLANDS: [&str; 6] = ["cancelled", "chevron-down", "file-text", "file-up", "pause", "upload"];

/// Sprite in parts.
struct Parts {
    before_icons: &'static str,
    /// Symbols by the names of their icons.
    icons: Vec<(&'static str, &'static str)>,
    after_icons: &'static str,
}

static PARTS: LazyLock<Parts> = LazyLock::new(|| {
    let symbols_end = SPRITE.rfind("</symbol>").map_or(0, |at| at + "</symbol>".len());
    let (symbols, after_icons) = SPRITE.split_at(symbols_end);
    let starts: Vec<usize> = symbols.match_indices(SYMBOL).map(|(at, _)| at).chain([symbols_end]).collect();
    let icons = starts.windows(2).map(|pair| {
        let symbol = symbols[pair[0]..pair[1]].trim_end();
        (name_at(&symbol[SYMBOL.len()..]), symbol)
    });
    Parts { before_icons: &symbols[..starts[0]], icons: icons.collect(), after_icons }
});

/// Puts the shapes into a rendered document, in `PLACE`.
pub(crate) fn fill(document: &str, has_islands: bool) -> String {
    let Some((before, after)) = document.split_once(PLACE) else { return document.to_owned() };
    let used: Vec<&str> = after.match_indices(USE).map(|(at, _)| name_at(&after[at + USE.len()..])).collect();
    let is_needed = |name: &str, symbol: &str| {
        used.contains(&name) || has_islands && (is_state(symbol) || OF_ISLANDS.contains(&name))
    };
    let mut filled = String::with_capacity(document.len() + SPRITE.len());
    filled.push_str(before);
    filled.push_str(PARTS.before_icons);
    for (name, symbol) in &PARTS.icons {
        if is_needed(name, symbol) {
            filled.push_str(symbol);
        }
    }
    filled.push_str(PARTS.after_icons);
    filled.push_str(after);
    filled
}

fn name_at(text: &str) -> &str {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_')).next().unwrap_or_default()
}

/// Shapes of states have a grid of their own.
fn is_state(symbol: &str) -> bool {
    symbol.contains("viewBox=\"0 0 16 16\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_has_the_icons_it_uses_and_those_of_its_islands() {
        let page = format!(r##"<body>{PLACE}<svg><use href="#i-x"/></svg><use href="#i-arrow-left">"##);
        let names = |document: &str| -> Vec<String> {
            document.match_indices(SYMBOL).map(|(at, _)| name_at(&document[at + SYMBOL.len()..]).to_owned()).collect()
        };
        let still = fill(&page, false);
        assert_eq!(names(&still), ["arrow-left", "x"]);
        assert!(still.contains("p-retryable") && still.ends_with(r##"<use href="#i-arrow-left">"##), "{still}");
        let live = names(&fill(&page, true));
        for name in ["succeeded", "waiting_for_event", "x"].iter().chain(&OF_ISLANDS) {
            assert!(live.contains(&(*name).to_owned()), "{name}: {live:?}");
        }
        assert!(live.len() < PARTS.icons.len(), "{live:?}");
    }

    #[test]
    fn icons_named_in_islands_are_known() {
        let sources = ["live", "upload", "live.rs", "upload.rs"].map(|name| {
            let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(name);
            if path.is_file() {
                vec![path]
            } else {
                path.read_dir().expect("a folder").map(|file| file.expect("a file").path()).collect()
            }
        });
        let mut seen = 0;
        for file in sources.concat() {
            let text = std::fs::read_to_string(&file).expect("a source");
            for (at, call) in text.match_indices("icon(\"") {
                let name = name_at(&text[at + call.len()..]);
                let symbol = PARTS.icons.iter().find(|(icon, _)| *icon == name).map(|(_, symbol)| symbol);
                assert!(
                    OF_ISLANDS.contains(&name) || symbol.is_some_and(|symbol| is_state(symbol)),
                    "{name} in {}",
                    file.display()
                );
                seen += 1;
            }
        }
        assert!(seen > 5, "the search finds icons: {seen}");
    }
}
