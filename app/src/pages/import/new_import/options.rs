//! Choices of how the file is read and what is done with its rows.

use domain::{
    Problem,
    import::upload::{Upload, UploadFormat},
};
use leptos::prelude::*;

use super::ImportForm;
use crate::{
    components::{form::fault, state::icon},
    t,
};

/// Delimiters that can be chosen; empty: detected.
pub const DELIMITERS: [&str; 5] = ["", ",", ";", "\t", "|"];

/// Encodings that a form offers; the API knows more.
pub const ENCODINGS: [&str; 9] =
    ["", "utf-8", "utf-16le", "windows-1252", "iso-8859-15", "windows-1250", "windows-1251", "shift_jis", "gb18030"];

fn delimiter(value: &'static str) -> (&'static str, &'static str) {
    let word = match value {
        "," => t!("separator-comma"),
        ";" => t!("separator-semicolon"),
        "\t" => t!("separator-tab"),
        "|" => t!("separator-bar"),
        _ => t!("import-detect"),
    };
    (value, word)
}

fn encoding(value: &'static str) -> (&'static str, &'static str) {
    let word = match value {
        "utf-8" => "UTF-8",
        "utf-16le" => "UTF-16",
        "windows-1252" => t!("encoding-windows-1252"),
        "iso-8859-15" => t!("encoding-iso-8859-15"),
        "windows-1250" => t!("encoding-windows-1250"),
        "windows-1251" => t!("encoding-windows-1251"),
        "shift_jis" => t!("encoding-shift-jis"),
        "gb18030" => t!("encoding-gb18030"),
        _ => t!("import-detect"),
    };
    (value, word)
}

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
        select(t!("import-sheet"), "sheet", &sheets, chosen, None, None)
    } else {
        view! { <input type="hidden" name="sheet" value=form.sheet.clone() /> }.into_any()
    };
    let is_text = form.preview.as_ref().is_none_or(|preview| preview.format != UploadFormat::Xlsx);
    let separator = is_text.then(|| {
        view! {
            {select(t!("import-separator"), "delimiter", &DELIMITERS.map(delimiter), &form.delimiter, None, None)}
            {select(t!("import-encoding"), "encoding", &ENCODINGS.map(encoding), &form.encoding, None, None)}
        }
    });
    view! {
        <section class="card">
            <div class="card-body pad fields read-fields">
                <div class="field">
                    <label class="label" for="name">
                        {t!("import-name")}
                    </label>
                    <input type="text" id="name" name="name" value=name maxlength="200" autocomplete="off" />
                    <span class="help">{t!("import-name-help")}</span>
                </div>
                {select(t!("import-type"), "type", &types, &form.job_type, Some(t!("import-type-help")), type_fault)}
                {sheet}
                {separator}
                {select(
                    t!("import-header"),
                    "header",
                    &[("yes", t!("import-header-yes")), ("no", t!("import-header-no"))],
                    chosen(form.header),
                    None,
                    None,
                )}
                <div class="field">
                    <label class="label" for="header_row">
                        {t!("import-header-row")} " " <em>{t!("form-optional")}</em>
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
                        {t!("import-header-row-help")}
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
