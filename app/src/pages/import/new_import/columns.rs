//! Matching of the columns of a file with the properties of a job type: one line per column, with what is suggested or was
//! chosen.

use domain::import::{
    mapping::{DateFormat, MappedColumn, Mapping, NumberFormat, ValueKind},
    settings::{ImportProperty, MappingSuggestion, MatchKind, SuggestedColumn},
    upload::Preview,
};
use leptos::prelude::*;

use super::ImportForm;
use crate::{components::state::icon, t};

/// Most columns that a form offers to match; the API maps more.
pub const MOST_COLUMNS: usize = 200;
/// Most values of a column that are shown.
const SAMPLES: usize = 3;

/// What a form chose for one column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Name in the header.
    pub from: String,
    /// Property; empty: the column is left out.
    pub to: String,
    /// Kind and notation, as [`word`] writes them.
    pub kind: String,
}

/// Choices that a suggestion makes.
pub fn suggested(suggestion: &MappingSuggestion) -> Vec<Choice> {
    let choice = |column: &SuggestedColumn| Choice {
        from: column.from.clone(),
        to: column.to.clone().unwrap_or_default(),
        kind: word(column.kind, column.format.as_deref()),
    };
    suggestion.columns.iter().map(choice).collect()
}

impl ImportForm {
    /// Mapping that the choices make. `None` where the file is read the same without one: its columns have the names of
    /// the properties, in the notation of JSON, and nothing else was chosen.
    pub fn mapping(&self) -> Option<Mapping> {
        let is_plain = |choice: &Choice| {
            choice.from == choice.to && ["text", "number", "integer", "date"].contains(&&*choice.kind)
        };
        let suggested = self.suggestion.as_ref().map(suggested);
        if suggested.is_some_and(|suggested| suggested == self.choices && suggested.iter().all(is_plain)) {
            return None;
        }
        // What was remembered is replaced, even if the file would be read the same without a mapping.
        let remembers =
            |one: &MappingSuggestion| one.columns.iter().any(|column| column.matched == Some(MatchKind::Remembered));
        if self.suggestion.as_ref().is_some_and(remembers) {
            return Some(Mapping { columns: chosen(&self.choices) });
        }
        mapping(&self.choices)
    }
}

/// Mapping of these choices; `None` if each column of text keeps its name.
fn mapping(choices: &[Choice]) -> Option<Mapping> {
    let columns = chosen(choices);
    let keeps = |column: &MappedColumn| column.from == column.to && column.kind == ValueKind::Text;
    let unchanged = columns.len() == choices.len() && columns.iter().all(keeps);
    (!unchanged).then_some(Mapping { columns })
}

fn chosen(choices: &[Choice]) -> Vec<MappedColumn> {
    choices.iter().filter(|choice| !choice.to.is_empty()).map(mapped).collect()
}

fn mapped(choice: &Choice) -> MappedColumn {
    let (kind, format) =
        choice.kind.split_once(' ').map_or((choice.kind.as_str(), None), |(kind, format)| (kind, Some(format)));
    let kind = KINDS.into_iter().find(|(_, name)| *name == kind).map_or(ValueKind::Text, |(kind, _)| kind);
    MappedColumn { from: choice.from.clone(), to: choice.to.clone(), kind, format: format.map(str::to_owned) }
}

const KINDS: [(ValueKind, &str); 5] = [
    (ValueKind::Text, "text"),
    (ValueKind::Number, "number"),
    (ValueKind::Integer, "integer"),
    (ValueKind::Boolean, "boolean"),
    (ValueKind::Date, "date"),
];

/// Label of a kind in a list of choices.
fn label(kind: ValueKind) -> &'static str {
    match kind {
        ValueKind::Text => t!("kind-text"),
        ValueKind::Number => t!("kind-number"),
        ValueKind::Integer => t!("kind-integer"),
        ValueKind::Boolean => t!("kind-boolean"),
        ValueKind::Date => t!("kind-date"),
    }
}

/// A kind within a line of text.
pub(super) fn kind_in_words(word: &str) -> &'static str {
    match word {
        "number" => t!("kind-in-text-number"),
        "integer" => t!("kind-in-text-integer"),
        "boolean" => t!("kind-in-text-boolean"),
        "date" => t!("kind-in-text-date"),
        _ => t!("kind-in-text-text"),
    }
}

/// Kind and notation in one word for a form, such as `number 1.234,56`.
fn word(kind: ValueKind, format: Option<&str>) -> String {
    let name = KINDS.into_iter().find(|(one, _)| *one == kind).map_or("text", |(_, name)| name);
    format.map_or_else(|| name.to_owned(), |format| format!("{name} {format}"))
}

/// Kinds with their notations: word of the form, and name.
fn kinds() -> Vec<(String, String)> {
    let mut kinds = Vec::new();
    for (kind, _) in KINDS {
        let name = label(kind);
        let formats: Vec<(&str, &str)> = match kind {
            ValueKind::Text | ValueKind::Boolean => Vec::new(),
            ValueKind::Number => NumberFormat::ALL.map(|format| (format.as_str(), format.as_str())).to_vec(),
            ValueKind::Integer => NumberFormat::ALL.map(|format| (format.as_str(), format.whole_example())).to_vec(),
            ValueKind::Date => DateFormat::ALL.map(|format| (format.as_str(), format.as_str())).to_vec(),
        };
        if formats.is_empty() {
            kinds.push((word(kind, None), name.to_owned()));
        }
        for (place, (format, example)) in formats.into_iter().enumerate() {
            // The first notation is the default.
            kinds.push((word(kind, (place > 0).then_some(format)), format!("{name}, {example}")));
        }
    }
    kinds
}

/// The section of the form.
pub(super) fn section(suggestion: &MappingSuggestion, form: &ImportForm) -> AnyView {
    let all = suggestion.columns.len();
    let by_name = suggested(suggestion);
    let choices = if form.choices.len() == all { &form.choices } else { &by_name };
    let lines = suggestion
        .columns
        .iter()
        .zip(choices)
        .enumerate()
        .map(|(place, (column, choice))| line(place, column, choice, &suggestion.properties, form.preview.as_ref()))
        .collect_view();
    let matched = suggestion.columns.iter().filter(|column| column.to.is_some()).count();
    let sub = t!("columns-matched", n = matched, all = all);
    view! {
        <section class="card" aria-labelledby="columns-heading" id="columns">
            <div class="card-head">
                <h2 id="columns-heading">{t!("columns-title")}</h2>
                <span class="sub">{sub}</span>
            </div>
            <input type="hidden" name="matched" value=form.reading() />
            // Another way of reading gives other columns: their fields are not taken over.
            <ul class="lined" data-key=form.reading()>{lines}</ul>
            <div class="card-foot">{foot(suggestion, choices)}</div>
        </section>
    }
    .into_any()
}

fn foot(suggestion: &MappingSuggestion, choices: &[Choice]) -> AnyView {
    let required: Vec<&str> =
        suggestion.properties.iter().filter(|one| one.required).map(|one| one.name.as_str()).collect();
    let missing: Vec<&str> =
        required.iter().copied().filter(|name| !choices.iter().any(|choice| choice.to == *name)).collect();
    let required = match required.as_slice() {
        [] => t!("columns-none-required").to_owned(),
        names => t!("columns-required", names = &names.join(", ")),
    };
    let missing = (!missing.is_empty()).then(|| {
        let text = t!("columns-missing", names = &missing.join(", "));
        view! {
            <span class="state s-dead" id="columns-missing">
                {icon("dead")}
                {text}
            </span>
        }
    });
    view! {
        {missing}
        <span class="soft">{required} " " {t!("columns-remembered")}</span>
    }
    .into_any()
}

/// One column of the file.
fn line(
    place: usize,
    column: &SuggestedColumn,
    choice: &Choice,
    properties: &[ImportProperty],
    preview: Option<&Preview>,
) -> impl IntoView + use<> {
    let Choice { to, kind, .. } = choice.clone();
    let mut known: Vec<String> = properties.iter().map(|property| property.name.clone()).collect();
    // Columns that the type does not know may keep their names.
    for name in [&column.from, &to] {
        if !name.is_empty() && !known.contains(name) {
            known.push(name.clone());
        }
    }
    let properties = known
        .into_iter()
        .map(|name| {
            let (chosen, value) = (name == to, name.clone());
            view! {
                <option value=value selected=chosen>
                    {name}
                </option>
            }
        })
        .collect_view();
    let kinds = kinds()
        .into_iter()
        .map(|(word, name)| {
            let chosen = word == kind;
            view! {
                <option value=word selected=chosen>
                    {name}
                </option>
            }
        })
        .collect_view();
    let name = column.from.clone();
    // What a script compares a choice with.
    let (suggested_to, suggested_kind) =
        (column.to.clone().unwrap_or_default(), word(column.kind, column.format.as_deref()));
    let (property_label, values_label) =
        (t!("columns-property-for", name = &name), t!("columns-values-of", name = &name));
    view! {
        <li class="map-row">
            <div class="stack-1">
                <strong class="clip">{name.clone()}</strong>
                <span class="samples clip">{samples(place, preview)}</span>
            </div>
            <span class="faint">{icon("arrow-right")}</span>
            <div class="row">
                <label class="grow">
                    <span class="vh">{property_label}</span>
                    <select name=format!("to-{place}") data-column=suggested_to>
                        <option value="" selected=to.is_empty()>
                            {t!("columns-do-not-import")}
                        </option>
                        {properties}
                    </select>
                </label>
                <label>
                    <span class="vh">{values_label}</span>
                    <select name=format!("as-{place}") data-column=suggested_kind>
                        {kinds}
                    </select>
                </label>
            </div>
            <div class="small">{reason(column, &choice.to)}</div>
            <input type="hidden" name=format!("from-{place}") value=name />
        </li>
    }
}

/// First values of a column.
fn samples(place: usize, preview: Option<&Preview>) -> String {
    let cells = preview.into_iter().flat_map(|preview| &preview.rows).filter_map(|row| row.cells.get(place));
    let cells: Vec<&str> = cells.map(String::as_str).filter(|cell| !cell.is_empty()).take(SAMPLES).collect();
    cells.join(", ")
}

/// Why the property is suggested, or that another one was chosen.
fn reason(column: &SuggestedColumn, to: &str) -> AnyView {
    let (shape, word, why) = match column.matched {
        _ if to != column.to.as_deref().unwrap_or_default() => {
            if to.is_empty() {
                ("cancelled", t!("columns-left-out"), t!("columns-your-choice"))
            } else {
                ("succeeded", t!("columns-match"), t!("columns-your-choice"))
            }
        }
        Some(MatchKind::Remembered) if to.is_empty() => {
            ("cancelled", t!("columns-left-out"), t!("columns-remembered-choice"))
        }
        Some(MatchKind::Remembered) => ("succeeded", t!("columns-match"), t!("columns-remembered-choice")),
        Some(MatchKind::Exact) => ("succeeded", t!("columns-match"), t!("columns-same-name")),
        // The engine does not tell an alias from another spelling of the name.
        Some(MatchKind::Alias) => ("succeeded", t!("columns-match"), t!("columns-similar-name")),
        Some(MatchKind::Fuzzy) => ("partial", t!("columns-check"), t!("columns-similar-name")),
        None => ("cancelled", t!("columns-left-out"), t!("columns-nothing-fits")),
    };
    view! {
        <span class=format!("state s-{shape}")>
            {icon(shape)}
            {word}
        </span>
        <span class="xs faint block">{why}</span>
    }
    .into_any()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(from: &str, to: &str, kind: &str) -> Choice {
        Choice { from: from.to_owned(), to: to.to_owned(), kind: kind.to_owned() }
    }

    #[test]
    fn choices_become_a_mapping_unless_every_column_keeps_its_name() {
        assert_eq!(mapping(&[choice("name", "name", "text"), choice("n", "n", "text")]), None);
        let chosen = [choice("Betrag", "amount", "number 1.234,56"), choice("Notes", "", "text")];
        let column = MappedColumn {
            from: "Betrag".to_owned(),
            to: "amount".to_owned(),
            kind: ValueKind::Number,
            format: Some("1.234,56".to_owned()),
        };
        assert_eq!(mapping(&chosen), Some(Mapping { columns: vec![column] }));
        // A column that is left out is a choice, too.
        assert!(mapping(&[choice("name", "name", "text"), choice("n", "", "text")]).is_some());
    }

    #[test]
    fn every_kind_that_a_form_offers_is_read_back() {
        for (word, name) in kinds() {
            let column = mapped(&choice("a", "b", &word));
            assert!(column.conversion().is_ok(), "{word}");
            let text = self::word(column.kind, column.format.as_deref());
            assert_eq!(text, word, "{name}");
        }
    }
}
