//! Suggested column mapping of a stored file: from the last mapping of the owner, the names, and the first rows.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, HashSet},
};

use domain::{
    Code,
    api::JobUpload,
    import::{
        mapping::{Mapping, ValueKind},
        remembered_mapping::RememberedMapping,
        settings::{ImportProperty, MappingSuggestion, MatchKind, SuggestedColumn},
        upload::Upload,
    },
};
use serde_json::value::RawValue;

use super::{
    find,
    preview::{CHECK_ROWS, known_type},
    reading,
};
use crate::App;
use engine::{
    access::caller::Caller,
    error::{Error, Result},
    import::{
        split::{Head, Match, Notation, Reader, Rules, Target, left_out, match_columns},
        upload_head::{inspect, want},
    },
    schema::{Property, Schema, compiled},
    store::import::import_mappings,
    task::heavy,
};

/// Suggests a mapping of the columns of a file to the properties of a type (422 `unknown_job_type`; `bad_header` for a
/// file without names of columns). `of_import`: mapping of the import whose rows the file corrects; it is used instead of
/// the owner's last one.
pub async fn suggest(
    app: &App,
    caller: &Caller,
    wanted: &JobUpload,
    job_type: &str,
    of_import: Option<Mapping>,
) -> Result<MappingSuggestion> {
    let upload = find(&app.pool, caller, wanted.id).await?;
    let want = want(&upload, wanted)?;
    let found = known_type(app, job_type).await?;
    let reading = reading(app, caller, &upload, wanted);
    let head = inspect(&app.pool, &app.files, reading, want).await?.map_err(Error::Problem)?;
    let Some(columns) = head.data_columns() else {
        let detail = "The file has no names of columns. Expected CSV or a workbook, with a header.";
        return Err(Error::refuse(Code::BadHeader, detail));
    };
    let schema = found.payload_schema.and_then(|text| compiled(text.text()).ok());
    let aliases = found.import.map(|import| import.aliases).unwrap_or_default();
    let properties = properties(schema.as_deref(), &aliases);
    let last = match of_import {
        Some(mapping) => Some(RememberedMapping { columns: mapping.columns, left_out: Vec::new() }),
        None => last_mapping(app, caller, job_type).await?,
    };

    let names: HashSet<&str> = properties.iter().map(|property| property.name.as_str()).collect();
    let is_closed = schema.as_ref().is_some_and(|schema| schema.is_closed());
    let targets: Vec<Target<'_>> = properties.iter().map(|property| target(property, &aliases)).collect();
    let is_allowed = |name: &str| !is_closed || names.contains(name);
    let matches = heavy(|| match_columns(columns, &targets, last.as_ref(), is_allowed));

    let kinds: HashMap<&str, ValueKind> =
        properties.iter().map(|property| (property.name.as_str(), kind(property))).collect();
    let kind_of = |found: &Match| kinds.get(found.to.as_str()).copied().unwrap_or_default();
    // A remembered column keeps its notation.
    let guessed = |found: Option<&Match>| found.filter(|found| found.remembered.is_none()).map(kind_of);
    let mut notations: Vec<Notation> =
        matches.iter().map(|found| Notation::of(guessed(found.as_ref()).unwrap_or_default())).collect();
    look(app, &upload, &head, columns, &mut notations).await?;

    let used: HashSet<&str> = matches.iter().flatten().map(|found| found.to.as_str()).collect();
    let is_missing = |property: &&Property| property.required && !used.contains(property.name.as_str());
    let missing = properties.iter().filter(is_missing).map(|property| property.name.clone()).collect();
    let left_out = left_out(columns, last.as_ref());
    let columns =
        columns.iter().zip(matches).zip(notations).zip(left_out).map(|(((from, found), notation), is_out)| {
            let kind = found.as_ref().map(kind_of).unwrap_or_default();
            let column = column(from, found, kind, &notation);
            if is_out {
                SuggestedColumn { matched: Some(MatchKind::Remembered), confidence: 1.0, ..column }
            } else {
                column
            }
        });
    let columns = columns.collect();
    Ok(MappingSuggestion { columns, missing, properties: properties.into_iter().map(shown).collect() })
}

/// Mapping that the caller's owner used last for a type.
async fn last_mapping(app: &App, caller: &Caller, job_type: &str) -> Result<Option<RememberedMapping>> {
    let last = import_mappings::find(&app.pool, caller.owner_id, job_type).await?;
    Ok(last.and_then(|text| serde_json::from_str(&text).ok()))
}

fn column(from: &str, found: Option<Match>, kind: ValueKind, notation: &Notation) -> SuggestedColumn {
    let (matched, confidence) = (found.as_ref().map(|it| it.kind), found.as_ref().map_or(0.0, |it| it.confidence));
    let (to, remembered) = found.map_or((None, None), |found| (Some(found.to), found.remembered));
    let (kind, format) = match remembered {
        Some(column) => (column.kind, column.format),
        None => (kind, notation.format().map(str::to_owned)),
    };
    SuggestedColumn { from: from.to_owned(), to, kind, format, matched, confidence }
}

/// Properties of the schema, then those that only have aliases, unless the schema forbids them.
fn properties(schema: Option<&Schema>, aliases: &BTreeMap<String, Vec<String>>) -> Vec<Property> {
    let mut properties = schema.map(Schema::properties).unwrap_or_default();
    if schema.is_some_and(Schema::is_closed) {
        return properties;
    }
    let names: HashSet<String> = properties.iter().map(|property| property.name.clone()).collect();
    let others = aliases.keys().filter(|name| !names.contains(*name)).cloned();
    properties.extend(others.map(|name| Property { name, required: false, json_type: None, is_date: false }));
    properties
}

fn target<'a>(property: &'a Property, aliases: &'a BTreeMap<String, Vec<String>>) -> Target<'a> {
    let aliases = aliases.get(&property.name).map(Vec::as_slice).unwrap_or_default();
    Target { name: &property.name, aliases }
}

/// Kind of the values that a property requires.
fn kind(property: &Property) -> ValueKind {
    match property.json_type.as_deref() {
        Some("number") => ValueKind::Number,
        Some("integer") => ValueKind::Integer,
        Some("boolean") => ValueKind::Boolean,
        Some("string") if property.is_date => ValueKind::Date,
        _ => ValueKind::Text,
    }
}

fn shown(property: Property) -> ImportProperty {
    ImportProperty { name: property.name, required: property.required, json_type: property.json_type }
}

/// Looks at the values of the first rows. Cells of a workbook that are numbers already have no notation.
async fn look(app: &App, upload: &Upload, head: &Head, columns: &[String], notations: &mut [Notation]) -> Result<()> {
    let (object_id, bytes) = head.source(upload.id, upload.bytes as u64);
    let source = app.files.read(object_id, head.first.offset, bytes).await?;
    let rules = Rules { column_rules: Vec::new(), payload_limit: app.config.payload_limit.bytes() };
    let mut reader = Reader::new(source, head.clone(), head.first, rules);
    for _ in 0..CHECK_ROWS {
        if notations.iter().all(Notation::is_known) {
            break;
        }
        let Some(row) = reader.next().await? else { break };
        let cells: HashMap<Cow<'_, str>, &RawValue> = match serde_json::from_str(row.payload.text()) {
            Ok(cells) if row.fault.is_none() => cells,
            _ => continue,
        };
        for (name, notation) in columns.iter().zip(&mut *notations).filter(|(_, notation)| !notation.is_known()) {
            let text = cells.get(name.as_str()).filter(|value| value.get().starts_with('"'));
            if let Some(text) = text.and_then(|value| serde_json::from_str::<String>(value.get()).ok()) {
                notation.look(&text);
            }
        }
    }
    Ok(())
}
