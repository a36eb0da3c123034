//! The form that starts an import: an island around a form that works without it.
//!
//! Without WASM the form posts the file itself, and comes back once where its columns do not fit. With
//! it, the file is sent as soon as it is chosen or dropped, over connections that break, and its first
//! rows are shown before anything runs; the form then posts only the id of the stored file. The server
//! checks everything again; what is said here is a courtesy.

#[cfg(feature = "hydrate")]
mod memory; // files that were not sent whole
pub mod preview;
#[cfg(feature = "hydrate")]
mod send;
#[cfg(feature = "hydrate")]
mod wire; // one request

use std::fmt;

use domain::{
    id::Uuid,
    upload::{Preview, Upload},
};
use leptos::prelude::*;

use crate::components::state::icon;

/// What the form needs from the server: the choices, and what was typed before a refusal.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct ImportForm {
    /// Names of the job types that can be chosen.
    pub job_types: Vec<String>,
    pub job_type: String,
    pub header: bool,
    /// One of [`DELIMITERS`], empty for "find out".
    pub delimiter: String,
    /// A file that is stored already, from before a refusal.
    pub upload: Option<Upload>,
    /// Its first rows, where something does not fit.
    pub preview: Option<Preview>,
    /// What the reader has seen the first rows of: a [`Seen`].
    pub checked: String,
    /// The import whose failed rows this file corrects.
    pub corrects: Option<Corrects>,
    /// Largest file, in bytes.
    pub limit_bytes: i64,
    /// Largest workbook, in bytes.
    pub xlsx_limit_bytes: i64,
}

/// An import whose failed rows are corrected.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Corrects {
    pub id: Uuid,
    pub name: String,
}

/// A file and the type that it was held against.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a>(pub Uuid, pub &'a str);

impl fmt::Display for Seen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0, self.1)
    }
}

/// Delimiters that can be chosen, with their names.
pub const DELIMITERS: [(&str, &str); 5] =
    [("", "Find out"), (",", "Comma"), (";", "Semicolon"), ("\t", "Tab"), ("|", "Vertical bar")];

/// Where a file stands on its way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    #[default]
    Idle,
    /// Nothing is chosen, but a file was not sent whole before; so much of it is here.
    Unfinished {
        filename: String,
        percent: u8,
    },
    /// Share sent, in percent; `broken` while there is no connection.
    Sending {
        filename: String,
        percent: u8,
        broken: bool,
    },
    Stored(Upload),
    Failed {
        filename: String,
        why: String,
    },
}

/// The signals that form and sending share.
#[derive(Clone, Copy)]
pub struct Desk {
    pub phase: RwSignal<Phase>,
    pub preview: RwSignal<Option<Preview>>,
    pub job_type: RwSignal<String>,
    pub header: RwSignal<bool>,
    pub delimiter: RwSignal<String>,
    /// A file is being dragged over the page.
    pub over: RwSignal<bool>,
}

/// The whole form of `/imports/new`.
#[island]
pub fn UploadForm(form: ImportForm) -> impl IntoView {
    let ImportForm { job_types, job_type, header, delimiter, upload, preview, corrects, .. } = form;
    let (limit, xlsx_limit) = (form.limit_bytes, form.xlsx_limit_bytes);
    let desk = Desk {
        phase: RwSignal::new(upload.map_or(Phase::Idle, Phase::Stored)),
        preview: RwSignal::new(preview),
        job_type: RwSignal::new(job_type.clone()),
        header: RwSignal::new(header),
        delimiter: RwSignal::new(delimiter.clone()),
        over: RwSignal::new(false),
    };
    wake(desk, limit);
    let stored =
        move || desk.phase.with(|phase| if let Phase::Stored(upload) = phase { Some(upload.id) } else { None });
    let sending = move || desk.phase.with(|phase| matches!(phase, Phase::Sending { .. }));
    // What is on the page has been seen.
    let seen = move || {
        let checked = desk.preview.with(|preview| Some(preview.as_ref()?.check.as_ref()?.job_type.clone()));
        stored().zip(checked).map(|(id, job_type)| Seen(id, &job_type).to_string())
    };
    view! {
        <form
            class="form"
            method="post"
            action="/imports"
            enctype="multipart/form-data"
            data-upload=move || phase_word(&desk.phase.get())
        >
            <input
                type="hidden"
                name="upload_id"
                value=move || stored().map(|id| id.to_string()).unwrap_or_default()
                disabled=move || stored().is_none()
            />
            <input type="hidden" name="checked" value=move || seen().unwrap_or_default() disabled=move || seen().is_none() />
            {corrects.map(|first| view! { <input type="hidden" name="corrects" value=first.id.to_string() /> })}
            <div class=move || if desk.over.get() { "drop drop-over" } else { "drop" }>
                {icon("upload")}
                <label for="file">
                    <strong>"Choose a file"</strong>
                    <span class="only-awake">" or drop it anywhere here"</span>
                </label>
                <input
                    type="file"
                    id="file"
                    name="file"
                    accept=".csv,.tsv,.txt,.log,.ndjson,.jsonl,.json,.xlsx,text/csv,text/plain,application/json,application/x-ndjson"
                    aria-describedby="limits"
                    required=move || stored().is_none()
                    on:change=move |_| chosen(desk, limit)
                />
                <p id="limits" class="sub">
                    {format!(
                        "CSV, Excel (XLSX), JSON (an array, or a value per line) or lines of text, up to {}; Excel up to {}.",
                        size(limit),
                        size(xlsx_limit),
                    )}
                </p>
            </div>
            {file_line(desk)} {preview::table(desk)}
            <div class="fields">
                <label class="field">
                    <span>"What to do with the rows"</span>
                    <select name="type" on:change=move |event| desk.job_type.set(event_target_value(&event))>
                        {job_types
                            .iter()
                            .map(|name| {
                                view! {
                                    <option value=name.clone() selected=*name == job_type>
                                        {name.clone()}
                                    </option>
                                }
                            })
                            .collect_view()}
                    </select>
                </label>
                <label class="field">
                    <span>"Between columns"</span>
                    <select name="delimiter" on:change=move |event| desk.delimiter.set(event_target_value(&event))>
                        {DELIMITERS
                            .iter()
                            .map(|&(value, word)| {
                                view! {
                                    <option value=value selected=value == delimiter>
                                        {word}
                                    </option>
                                }
                            })
                            .collect_view()}
                    </select>
                </label>
                <label class="check">
                    <input
                        type="checkbox"
                        name="header"
                        value="yes"
                        checked=header
                        on:change=move |event| desk.header.set(event_target_checked(&event))
                    />
                    <span>"The first row names the columns"</span>
                </label>
            </div>
            <div class="actions">
                <button class="primary" type="submit" disabled=sending>
                    "Start import"
                </button>
                <a href="/imports">"Back to my uploads"</a>
            </div>
        </form>
    }
}

/// The chosen file: how far it has come, or what is wrong with it.
fn file_line(desk: Desk) -> impl IntoView {
    let percent =
        move || desk.phase.with(|phase| if let Phase::Sending { percent, .. } = phase { Some(*percent) } else { None });
    let words = move || {
        desk.phase.with(|phase| match phase {
            Phase::Idle => String::new(),
            Phase::Unfinished { filename, percent } => format!(
                "{filename} was not sent whole: {percent}% of it is here. Choose it again, and it goes on from there."
            ),
            Phase::Sending { filename, percent, broken: true } => {
                format!("{filename}: connection lost, going on by itself at {percent}%.")
            }
            Phase::Sending { filename, percent: 100, .. } => format!("{filename}: sent, being checked…"),
            Phase::Sending { filename, percent, .. } => {
                format!("{filename}: {percent}% sent. Keep this page open until it is done.")
            }
            Phase::Stored(upload) => format!("{}: stored, {}.", upload.filename, size(upload.bytes)),
            Phase::Failed { filename, why } => format!("{filename}: {why}"),
        })
    };
    let class = move || {
        desk.phase.with(|phase| match phase {
            Phase::Failed { .. } => "file file-bad",
            Phase::Sending { broken: true, .. } | Phase::Unfinished { .. } => "file file-held",
            Phase::Stored(_) => "file file-good",
            _ => "file",
        })
    };
    view! {
        <div class=class role="status" hidden=move || words().is_empty()>
            <p>{words}</p>
            <progress
                aria-label="File sent"
                max="100"
                value=move || percent().unwrap_or(0).to_string()
                hidden=move || percent().is_none()
            ></progress>
        </div>
    }
}

const fn phase_word(phase: &Phase) -> &'static str {
    match phase {
        Phase::Idle | Phase::Unfinished { .. } => "idle",
        Phase::Sending { broken: true, .. } => "broken",
        Phase::Sending { .. } => "sending",
        Phase::Stored(_) => "stored",
        Phase::Failed { .. } => "failed",
    }
}

/// A size for people, in binary units: `2 GiB`, `340 KiB`.
pub fn size(bytes: i64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit < UNITS.len() - 1 {
        value /= 1024.0;
        unit += 1;
    }
    let tenths = (value * 10.0).round() as u64;
    if tenths.is_multiple_of(10) || tenths >= 1_000 {
        format!("{} {}", (tenths + 5) / 10, UNITS[unit])
    } else {
        format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
    }
}

#[cfg(feature = "hydrate")]
fn wake(desk: Desk, limit: i64) {
    send::wake(desk, limit);
}

#[cfg(feature = "hydrate")]
fn chosen(desk: Desk, limit: i64) {
    send::chosen(desk, limit);
}

#[cfg(not(feature = "hydrate"))]
const fn wake(_desk: Desk, _limit: i64) {}

#[cfg(not(feature = "hydrate"))]
const fn chosen(_desk: Desk, _limit: i64) {}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_read_plainly() {
        assert_eq!(size(900), "900 bytes");
        assert_eq!(size(2 << 30), "2 GiB");
        assert_eq!(size(1_572_864), "1.5 MiB");
    }
}
