//! All languages, and which one a reader gets.

use std::{
    collections::BTreeMap,
    fs, io,
    path::Path,
    sync::{LazyLock, Mutex, PoisonError},
};

use super::{Catalog, notation::Notation};

/// The complete catalogs. English is first: it has all keys.
const EMBEDDED: [(&str, &str); 2] =
    [("en", include_str!("../../languages/en.ftl")), ("de", include_str!("../../languages/de.ftl"))];

/// Largest file, in bytes.
const LARGEST_FILE: u64 = 1 << 20;

static BUILT_IN: LazyLock<Vec<&'static Catalog>> = LazyLock::new(|| {
    let read = |(tag, source)| Catalog::read(tag, source, Some(EMBEDDED[0].1));
    EMBEDDED.into_iter().map(read).filter_map(Result::ok).map(|(catalog, _)| &*Box::leak(Box::new(catalog))).collect()
});

/// The languages of a server.
#[derive(Clone, Debug)]
pub struct Languages(Vec<&'static Catalog>);

impl Default for Languages {
    fn default() -> Self {
        Self(BUILT_IN.clone())
    }
}

/// Language of a page: its texts, and its notation of numbers and dates.
#[derive(Clone, Copy, Debug)]
pub struct Speech {
    pub catalog: &'static Catalog,
    pub notation: &'static Notation,
}

impl Speech {
    /// Texts for the browser: the notation of numbers, then a line per text.
    pub(crate) fn for_browser(self, is_live: bool) -> String {
        let number_format = &self.notation.number_format;
        let (last, other) = number_format.sizes;
        let head =
            format!("{}\t{}\t{last}\t{other}\t{}", number_format.group, number_format.decimal, number_format.least);
        let prefixes: &[&str] = if is_live { &["script-", "time-", "live-"] } else { &["script-", "time-"] };
        format!("{head}{}", self.catalog.lines(prefixes))
    }
}

impl Languages {
    /// The built-in languages, and those of the files `TAG.ftl` in a folder. A file replaces a built-in language.
    /// Also returns keys that no text of this version has, as sentences for the log.
    ///
    /// # Errors
    /// The first bad file, with its line and what was expected.
    pub fn with_folder(folder: &Path) -> Result<(Self, Vec<String>), String> {
        let mut languages = Self::default();
        let mut unknown = Vec::new();
        let fail = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
        let mut paths = Vec::new();
        for entry in fs::read_dir(folder).map_err(|error| fail(folder, error))? {
            let path = entry.map_err(|error| fail(folder, error))?.path();
            if path.extension().is_some_and(|extension| extension == "ftl") {
                paths.push(path);
            }
        }
        paths.sort();
        for path in paths {
            let size = fs::metadata(&path).map_err(|error| fail(&path, error))?.len();
            if size > LARGEST_FILE {
                return Err(format!("{}: expected at most {LARGEST_FILE} bytes, found {size}", path.display()));
            }
            let source = fs::read_to_string(&path).map_err(|error| fail(&path, error))?;
            let tag = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            let (catalog, keys) = Catalog::read(tag, &source, Some(EMBEDDED[0].1))
                .map_err(|error| format!("{}, {error}", path.display()))?;
            unknown.extend(keys.into_iter().map(|key| format!("{}: no text has the key {key}", path.display())));
            languages.0.retain(|other| !other.tag.eq_ignore_ascii_case(&catalog.tag));
            languages.0.push(Box::leak(Box::new(catalog)));
        }
        Ok((languages, unknown))
    }

    /// Tag and own name of each language.
    pub fn choices(&self) -> Vec<(&'static str, &'static str)> {
        self.0.iter().map(|catalog| (catalog.tag.as_str(), catalog.name.as_str())).collect()
    }

    /// The language with this tag.
    fn find(&self, tag: &str) -> Option<&'static Catalog> {
        self.0.iter().copied().find(|catalog| catalog.tag.eq_ignore_ascii_case(tag))
    }

    /// True if there is a language with this tag.
    pub fn has(&self, tag: &str) -> bool {
        self.find(tag).is_some()
    }

    /// The best language: the chosen one, otherwise by `Accept-Language`, otherwise English. Numbers and dates follow
    /// the region that the browser names for that language.
    pub fn speech(&self, chosen: Option<&str>, accepted: Option<&str>) -> Speech {
        let accepted = ranges(accepted.unwrap_or_default());
        let found = chosen
            .and_then(|tag| self.find(tag))
            .or_else(|| accepted.iter().find_map(|range| self.find(range).or_else(|| self.find(primary(range)))));
        let Some(catalog) = found.or_else(|| self.find("en")) else { return Self::english() };
        let own = accepted.iter().find(|range| primary(range).eq_ignore_ascii_case(primary(&catalog.tag)));
        let region = own.and_then(|range| region(range)).filter(|_| !catalog.tag.contains('-'));
        let tag = region.map_or_else(|| catalog.tag.clone(), |region| format!("{}-{region}", catalog.tag));
        Speech { catalog, notation: notation(&tag) }
    }

    /// English, without a region.
    pub fn english() -> Speech {
        Speech { catalog: BUILT_IN[0], notation: notation("en") }
    }
}

/// Languages of an `Accept-Language` header, the most wanted first.
fn ranges(header: &str) -> Vec<&str> {
    let mut ranges: Vec<(&str, f32)> = header
        .split(',')
        .take(20)
        .filter_map(|range| {
            let mut parts = range.split(';');
            let tag = parts.next()?.trim();
            let weight =
                parts.find_map(|part| part.trim().strip_prefix("q=")).map_or(Some(1.0), |q| q.trim().parse().ok());
            weight.filter(|&weight| weight > 0.0 && !tag.is_empty()).map(|weight| (tag, weight))
        })
        .collect();
    ranges.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    ranges.into_iter().map(|(tag, _)| tag).collect()
}

fn primary(tag: &str) -> &str {
    tag.split('-').next().unwrap_or(tag)
}

/// Region of two letters: `CH` of `de-ch`.
fn region(tag: &str) -> Option<String> {
    let is_region = |part: &&str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_alphabetic());
    tag.split('-').skip(1).find(is_region).map(str::to_ascii_uppercase)
}

/// Notation of a locale, made on first use. Tags are those of languages with a region of two letters, so their number is
/// bounded.
fn notation(tag: &str) -> &'static Notation {
    static NOTATIONS: Mutex<BTreeMap<String, &'static Notation>> = Mutex::new(BTreeMap::new());
    let mut notations = NOTATIONS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = notations.get(tag) {
        return found;
    }
    let made: &'static Notation =
        Box::leak(Box::new(Notation::of(tag).or_else(|| Notation::of("en")).expect("English")));
    notations.insert(tag.to_owned(), made);
    made
}
