//! Choices of how the file is read and what is done with its rows.

use domain::{
    Problem,
    import::upload::{Upload, UploadFormat},
};
use leptos::prelude::*;

use super::ImportForm;
use crate::components::{form::fault, state::icon};

/// Delimiters that can be chosen, with their names.
pub const DELIMITERS: [(&str, &str); 5] =
    [("", "Detect from the file"), (",", "Comma"), (";", "Semicolon"), ("\t", "Tab"), ("|", "Vertical bar")];

/// Encodings that a form offers; the API knows more.
pub const ENCODINGS: [(&str, &str); 9] = [
    ("", "Detect from the file"),
    ("utf-8", "UTF-8"),
    ("utf-16le", "UTF-16"),
    ("windows-1252", "Windows-1252 (Western Europe)"),
    ("iso-8859-15", "ISO-8859-15 (Western Europe)"),
    ("windows-1250", "Windows-1250 (Central Europe)"),
    ("windows-1251", "Windows-1251 (Cyrillic)"),
    ("shift_jis", "Shift JIS (Japanese)"),
    ("gb18030", "GB 18030 (Chinese)"),
];

/// Fields that decide how the file is read and how its rows are processed.
pub(super) fn section(form: &ImportForm, upload: &Upload, problem: Option<&Problem>) -> AnyView {
    let chosen = |value: bool| if value { "yes" } else { "no" };
    let name = if form.name.is_empty() { upload.filename.clone() } else { form.name.clone() };
    let types: Vec<(&str, &str)> = form.job_types.iter().map(|name| (name.as_str(), name.as_str())).collect();
    let type_fault = fault(problem, "/type");
    let sheets = form.preview.as_ref().map(|preview| preview.sheets.as_slice()).unwrap_or_default();
    let sheet = if sheets.len() > 1 {
        let first = sheets.first().map(|name| ("", name.as_str()));
        let others = sheets.iter().skip(1).map(|name| (name.as_str(), name.as_str()));
        let sheets: Vec<(&str, &str)> = first.into_iter().chain(others).collect();
        let chosen = if sheets.first().is_some_and(|(_, name)| *name == form.sheet) { "" } else { &form.sheet };
        select("Sheet", "sheet", &sheets, chosen, None, None)
    } else {
        view! { <input type="hidden" name="sheet" value=form.sheet.clone() /> }.into_any()
    };
    let is_text = form.preview.as_ref().is_none_or(|preview| preview.format != UploadFormat::Xlsx);
    let separator = is_text.then(|| {
        view! {
            {select("Separator", "delimiter", &DELIMITERS, &form.delimiter, None, None)}
            {select("Encoding", "encoding", &ENCODINGS, &form.encoding, None, None)}
        }
    });
    view! {
        <section class="card">
            <div class="card-body pad fields">
                <div class="field">
                    <label class="label" for="name">
                        "Name"
                    </label>
                    <input type="text" id="name" name="name" value=name maxlength="200" autocomplete="off" />
                    <span class="help">"How you will find the import again."</span>
                </div>
                {select("Job type", "type", &types, &form.job_type, Some("Decides what happens with each row."), type_fault)}
                {sheet}
                {separator}
                {select(
                    "Header",
                    "header",
                    &[("yes", "A row names the columns"), ("no", "No header")],
                    chosen(form.header),
                    None,
                    None,
                )}
                <div class="field">
                    <label class="label" for="header_row">
                        "Header row " <em>"(optional)"</em>
                    </label>
                    <input
                        type="number"
                        id="header_row"
                        name="header_row"
                        min="1"
                        max="1000"
                        inputmode="numeric"
                        value=form.header_row.clone()
                        placeholder="1"
                        autocomplete="off"
                        data-preview=""
                        aria-describedby="header_row-help"
                    />
                    <span class="help" id="header_row-help">
                        "Empty: the first row. Rows above it are skipped."
                    </span>
                </div>
            </div>
        </section>
    }
    .into_any()
}

fn select(
    label: &'static str,
    name: &'static str,
    words: &[(&str, &str)],
    chosen: &str,
    help: Option<&'static str>,
    fault: Option<String>,
) -> AnyView {
    let options = words
        .iter()
        .map(|(value, word)| {
            view! {
                <option value=(*value).to_owned() selected=*value == chosen>
                    {(*word).to_owned()}
                </option>
            }
        })
        .collect_view();
    let (help_id, fault_id) = (format!("{name}-help"), format!("{name}-fault"));
    let described = match (help, &fault) {
        (_, Some(_)) => Some(fault_id.clone()),
        (Some(_), None) => Some(help_id.clone()),
        (None, None) => None,
    };
    view! {
        <div class="field">
            <label class="label" for=name>
                {label}
            </label>
            <select
                id=name
                name=name
                data-preview=""
                aria-describedby=described
                aria-invalid=fault.is_some().then_some("true")
            >
                {options}
            </select>
            {help.map(|help| view! { <span class="help" id=help_id>{help}</span> })}
            {fault.map(|fault| view! { <span class="field-error" id=fault_id>{icon("dead")} {fault}</span> })}
        </div>
    }
    .into_any()
}
