//! Matching of the columns of a file with the properties of a payload, by name.

use std::collections::{HashMap, HashSet};

use domain::import::{mapping::MappedColumn, remembered_mapping::RememberedMapping, settings::MatchKind};
use unicode_normalization::UnicodeNormalization as _;

/// Similarity from which a name is suggested.
const SIMILAR: f64 = 0.85;

/// Confidence of names that are equal only when normalized, and maximum confidence of similar names.
const NORMALIZED: f64 = 0.95;
const MOST_SIMILAR: f64 = 0.9;

/// Lengths of normalized names that are compared by similarity, in characters: shorter ones are all alike.
const COMPARED: std::ops::RangeInclusive<usize> = 3..=64;

/// Maximum number of pairs of names that are compared by similarity; with more, only equal names are matched.
const MOST_PAIRS: usize = 50_000;

/// Property that a column can become.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    pub name: &'a str,
    pub aliases: &'a [String],
}

/// Property found for a column.
#[derive(Clone, Debug, PartialEq)]
pub struct Match {
    pub to: String,
    pub kind: MatchKind,
    /// From 0 to 1.
    pub confidence: f64,
    /// Column of the remembered mapping.
    pub remembered: Option<MappedColumn>,
}

/// Finds a property for each column, each property at most once: from the last mapping, then by equal names, by equal
/// normalized names and aliases, by names similar to these or to those of the last mapping. `last`: its columns are used
/// only if `is_allowed` for the property, and what it left out ([`left_out`]) is not matched.
pub fn match_columns(
    columns: &[String],
    targets: &[Target<'_>],
    last: Option<&RememberedMapping>,
    is_allowed: impl Fn(&str) -> bool,
) -> Vec<Option<Match>> {
    let mut matcher = Matcher::new(columns, left_out(columns, last));
    let last: Vec<&MappedColumn> =
        last.iter().flat_map(|last| &last.columns).filter(|column| is_allowed(&column.to)).collect();
    for column in &last {
        let place = matcher.by_name.get(column.from.as_str()).copied();
        matcher.take(place, &column.to, MatchKind::Remembered, 1.0, Some(column));
    }
    for column in &last {
        let place = matcher.free_place(&column.from);
        matcher.take(place, &column.to, MatchKind::Remembered, NORMALIZED, Some(column));
    }
    for target in targets {
        let place = matcher.by_name.get(target.name).copied();
        matcher.take(place, target.name, MatchKind::Exact, 1.0, None);
    }
    for target in targets {
        let place = matcher.free_place(target.name);
        matcher.take(place, target.name, MatchKind::Alias, NORMALIZED, None);
    }
    for (target, alias) in targets.iter().flat_map(|target| target.aliases.iter().map(move |alias| (target, alias))) {
        let place = matcher.free_place(alias);
        matcher.take(place, target.name, MatchKind::Alias, NORMALIZED, None);
    }
    matcher.take_similar(targets, &last);
    matcher.found
}

/// Tells for each column whether the last mapping left it out, by its name or its normalized name. A column that became
/// a property in that mapping was not left out.
pub fn left_out(columns: &[String], last: Option<&RememberedMapping>) -> Vec<bool> {
    let Some(last) = last else { return vec![false; columns.len()] };
    let names: HashSet<String> = last.left_out.iter().map(|name| normalize(name)).filter(|it| !it.is_empty()).collect();
    let exact: HashSet<&str> = last.left_out.iter().map(String::as_str).collect();
    let mapped: HashSet<&str> = last.columns.iter().map(|column| column.from.as_str()).collect();
    let is_out = |name: &String| {
        exact.contains(name.as_str()) || (names.contains(&normalize(name)) && !mapped.contains(name.as_str()))
    };
    columns.iter().map(is_out).collect()
}

/// Matches found so far.
struct Matcher<'a> {
    left_out: Vec<bool>,
    by_name: HashMap<&'a str, usize>,
    normalized: Vec<String>,
    by_normalized: HashMap<String, Vec<usize>>,
    found: Vec<Option<Match>>,
    used: HashSet<String>,
}

impl<'a> Matcher<'a> {
    fn new(columns: &'a [String], left_out: Vec<bool>) -> Self {
        let normalized: Vec<String> = columns.iter().map(|name| normalize(name)).collect();
        let mut by_normalized: HashMap<String, Vec<usize>> = HashMap::new();
        for (place, name) in normalized.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            by_normalized.entry(name.clone()).or_default().push(place);
        }
        Self {
            left_out,
            by_name: columns.iter().enumerate().map(|(place, name)| (name.as_str(), place)).collect(),
            normalized,
            by_normalized,
            found: vec![None; columns.len()],
            used: HashSet::new(),
        }
    }

    /// Returns true for a column that is neither matched nor left out.
    fn is_free(&self, place: usize) -> bool {
        self.found[place].is_none() && !self.left_out[place]
    }

    /// First unmatched column whose name is equal when normalized.
    fn free_place(&self, name: &str) -> Option<usize> {
        let places = self.by_normalized.get(&normalize(name))?;
        places.iter().copied().find(|&place| self.is_free(place))
    }

    /// Matches an unmatched column with an unused property.
    fn take(
        &mut self,
        place: Option<usize>,
        to: &str,
        kind: MatchKind,
        confidence: f64,
        remembered: Option<&MappedColumn>,
    ) {
        let Some(place) = place.filter(|&place| self.is_free(place)) else { return };
        if self.used.insert(to.to_owned()) {
            self.found[place] = Some(Match { to: to.to_owned(), kind, confidence, remembered: remembered.cloned() });
        }
    }

    /// Matches the remaining columns by similar names, the most similar ones first.
    fn take_similar(&mut self, targets: &[Target<'_>], last: &[&MappedColumn]) {
        let is_compared = |name: &str| COMPARED.contains(&name.chars().count());
        let free: Vec<usize> = (0..self.found.len())
            .filter(|&place| self.is_free(place) && is_compared(&self.normalized[place]))
            .collect();
        let names: Vec<(&str, String, Option<&MappedColumn>)> = last
            .iter()
            .map(|&column| (column.to.as_str(), normalize(&column.from), Some(column)))
            .chain(targets.iter().flat_map(|target| {
                let names = std::iter::once(target.name).chain(target.aliases.iter().map(String::as_str));
                names.map(|name| (target.name, normalize(name), None))
            }))
            .filter(|(to, name, _)| !self.used.contains(*to) && is_compared(name))
            .collect();
        if free.len().saturating_mul(names.len()) > MOST_PAIRS {
            return;
        }
        let mut pairs: Vec<(f64, usize, &str, Option<&MappedColumn>)> = Vec::new();
        for &place in &free {
            let column = &self.normalized[place];
            let alike = names.iter().map(|(to, name, known)| (similarity(column, name), place, *to, *known));
            pairs.extend(alike.filter(|(similarity, ..)| *similarity >= SIMILAR));
        }
        pairs.sort_by(|a, b| b.0.total_cmp(&a.0));
        for (similarity, place, to, known) in pairs {
            let confidence = (similarity * 100.0).round() / 100.0;
            self.take(Some(place), to, MatchKind::Fuzzy, confidence.min(MOST_SIMILAR), known);
        }
    }
}

/// Similarity of two normalized names from 0 to 1. Names with other digits are not similar: `address1`, `address2`.
fn similarity(one: &str, other: &str) -> f64 {
    let digits = |name: &str| name.chars().filter(|c| c.is_numeric()).collect::<String>();
    if digits(one) == digits(other) { strsim::jaro_winkler(one, other) } else { 0.0 }
}

/// Name in lower case, without accents, spaces, and punctuation.
fn normalize(name: &str) -> String {
    // Lower case before and after, as a compatibility form may be a capital.
    let letters = name.to_lowercase().nfkd().filter(|c| c.is_alphanumeric()).collect::<String>().to_lowercase();
    letters.replace('ß', "ss").replace('ø', "o").replace('æ', "ae").replace('œ', "oe").replace('ł', "l")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn found(
        columns: &[&str],
        targets: &[Target<'_>],
        last: Option<&RememberedMapping>,
    ) -> Vec<Option<(String, MatchKind)>> {
        let found = match_columns(&texts(columns), targets, last, |_| true);
        found.into_iter().map(|found| found.map(|found| (found.to, found.kind))).collect()
    }

    fn to(name: &str, kind: MatchKind) -> (String, MatchKind) {
        (name.to_owned(), kind)
    }

    #[test]
    fn names_are_compared_without_case_accents_and_punctuation() {
        for (name, normalized) in [
            ("Kunden-Nr.", "kundennr"),
            ("  Größe (m²)", "grossem2"),
            ("Prénom", "prenom"),
            ("customer_name", "customername"),
            ("\u{ff21}mount", "amount"),
            ("ŁÓDŹ", "lodz"),
            ("名前", "名前"),
            ("%", ""),
        ] {
            assert_eq!(normalize(name), normalized, "{name}");
        }
    }

    #[test]
    fn the_strongest_reason_comes_first() {
        let aliases = [texts(&["Betrag", "Total"]), texts(&[])];
        let targets =
            [Target { name: "amount", aliases: &aliases[0] }, Target { name: "customer", aliases: &aliases[1] }];
        let last: RememberedMapping =
            serde_json::from_str(r#"{"columns":[{"from":"Summe CHF","to":"amount"}]}"#).expect("a mapping");
        assert_eq!(
            found(&["amount", "Customer"], &targets, None),
            [Some(to("amount", MatchKind::Exact)), Some(to("customer", MatchKind::Alias))]
        );
        assert_eq!(
            found(&["amount", "summe_chf"], &targets, Some(&last)),
            [None, Some(to("amount", MatchKind::Remembered))]
        );
        assert_eq!(
            found(&["betrag", "Custommer", "Total"], &targets, None),
            [Some(to("amount", MatchKind::Alias)), Some(to("customer", MatchKind::Fuzzy)), None]
        );
        assert_eq!(found(&["Note", "%", ""], &targets, None), [None, None, None]);
    }

    #[test]
    fn the_most_similar_name_wins_and_other_digits_do_not() {
        let targets = ["address1", "name"].map(|name| Target { name, aliases: &[] });
        let columns = ["Adress 2", "Names", "Nam", "Adress-1"];
        assert_eq!(
            found(&columns, &targets, None),
            [None, Some(to("name", MatchKind::Fuzzy)), None, Some(to("address1", MatchKind::Fuzzy))]
        );
        let confidence = match_columns(&texts(&columns), &targets, None, |_| true)[1].as_ref().map(|it| it.confidence);
        assert_eq!(confidence, Some(MOST_SIMILAR));
    }

    #[test]
    fn a_remembered_property_that_is_gone_is_not_suggested() {
        let last: RememberedMapping =
            serde_json::from_str(r#"{"columns":[{"from":"a","to":"old"}]}"#).expect("a mapping");
        assert_eq!(match_columns(&texts(&["a"]), &[], Some(&last), |name| name != "old"), [None]);
        assert_eq!(found(&["a"], &[], Some(&last)), [Some(to("old", MatchKind::Remembered))]);
    }

    #[test]
    fn a_column_that_was_left_out_stays_left_out() {
        let last: RememberedMapping =
            serde_json::from_str(r#"{"columns":[{"from":"a","to":"x"}],"left_out":["Note","memo"]}"#)
                .expect("a mapping");
        let targets = ["note", "x", "city"].map(|name| Target { name, aliases: &[] });
        let columns = ["NOTE", "a", "City", "memo", "notes"];
        let expected = [
            None,
            Some(to("x", MatchKind::Remembered)),
            Some(to("city", MatchKind::Alias)),
            None,
            Some(to("note", MatchKind::Fuzzy)),
        ];
        assert_eq!(found(&columns, &targets, Some(&last)), expected);
        assert_eq!(left_out(&texts(&columns), Some(&last)), [true, false, false, true, false]);
    }

    #[test]
    fn a_name_like_a_remembered_one_is_suggested_with_its_notation() {
        let last: RememberedMapping =
            serde_json::from_str(r#"{"columns":[{"from":"Betrag","to":"amount","as":"number","format":"1.234,56"}]}"#)
                .expect("a mapping");
        let found = match_columns(&texts(&["Beträge"]), &[], Some(&last), |_| true);
        let found = found[0].as_ref().expect("a match");
        assert_eq!((found.to.as_str(), found.kind), ("amount", MatchKind::Fuzzy));
        assert_eq!(found.remembered.as_ref(), last.columns.first());
    }

    #[test]
    fn too_many_names_are_matched_only_if_they_are_equal() {
        let names: Vec<String> = (0..300).map(|at| format!("column number {at} of many")).collect();
        let targets: Vec<Target<'_>> = names.iter().map(|name| Target { name, aliases: &[] }).collect();
        let columns: Vec<String> = names.iter().map(|name| format!("{name}s")).collect();
        assert!(match_columns(&columns, &targets, None, |_| true).iter().all(Option::is_none));
        assert!(match_columns(&names, &targets, None, |_| true).iter().all(Option::is_some));
    }
}
