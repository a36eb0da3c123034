//! The form that starts an import: an island around a form that works without it.
//!
//! Without WASM the form posts the file itself. With it, the file is sent as soon as it is chosen or
//! dropped, with progress, and its first rows are shown before anything runs; the form then posts only
//! the id of the stored file. The server checks everything again; what is said here is a courtesy.

pub mod preview;
#[cfg(feature = "hydrate")]
mod send;

use domain::upload::Upload;
use leptos::{ev::DragEvent, prelude::*};

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
    /// Largest file, in bytes.
    pub limit_bytes: i64,
    /// Largest workbook, in bytes.
    pub xlsx_limit_bytes: i64,
}

/// Delimiters that can be chosen, with their names.
pub const DELIMITERS: [(&str, &str); 5] =
    [("", "Find out"), (",", "Comma"), (";", "Semicolon"), ("\t", "Tab"), ("|", "Vertical bar")];

/// Where a file stands on its way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    #[default]
    Idle,
    /// Share sent, in percent.
    Sending {
        filename: String,
        percent: u8,
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
    pub preview: RwSignal<Option<domain::upload::Preview>>,
    pub header: RwSignal<bool>,
    pub delimiter: RwSignal<String>,
    /// A file is being dragged over the page.
    pub over: RwSignal<bool>,
}

/// The whole form of `/imports/new`.
#[island]
pub fn UploadForm(form: ImportForm) -> impl IntoView {
    let ImportForm { job_types, job_type, header, delimiter, upload, limit_bytes: limit, xlsx_limit_bytes: xlsx_limit } =
        form;
    let desk = Desk {
        phase: RwSignal::new(upload.map_or(Phase::Idle, Phase::Stored)),
        preview: RwSignal::new(None),
        header: RwSignal::new(header),
        delimiter: RwSignal::new(delimiter.clone()),
        over: RwSignal::new(false),
    };
    wake(desk);
    let stored = move || {
        desk.phase.with(|phase| if let Phase::Stored(upload) = phase { Some(upload.id.to_string()) } else { None })
    };
    let sending = move || desk.phase.with(|phase| matches!(phase, Phase::Sending { .. }));
    view! {
        <form
            class="form"
            method="post"
            action="/imports"
            enctype="multipart/form-data"
            data-upload=move || phase_word(&desk.phase.get())
        >
            <input type="hidden" name="upload_id" value=move || stored().unwrap_or_default() disabled=move || stored().is_none() />
            <div
                class=move || if desk.over.get() { "drop drop-over" } else { "drop" }
                on:dragover=move |event| hover(&event, desk, true)
                on:dragleave=move |event| hover(&event, desk, false)
                on:drop=move |event| dropped(&event, desk, limit)
            >
                {icon("upload")}
                <label for="file">
                    <strong>"Choose a file"</strong>
                    <span class="only-awake">" or drop it here"</span>
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
                    <select name="type">
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
            Phase::Sending { filename, percent: 100 } => format!("{filename}: sent, being checked…"),
            Phase::Sending { filename, percent } => {
                format!("{filename}: {percent}% sent. Keep this page open until it is done.")
            }
            Phase::Stored(upload) => format!("{}: stored, {}.", upload.filename, size(upload.bytes)),
            Phase::Failed { filename, why } => format!("{filename}: {why}"),
        })
    };
    let class = move || {
        desk.phase.with(|phase| match phase {
            Phase::Failed { .. } => "file file-bad",
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
        Phase::Idle => "idle",
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
fn wake(desk: Desk) {
    send::wake(desk);
}

#[cfg(feature = "hydrate")]
fn chosen(desk: Desk, limit: i64) {
    send::chosen(desk, limit);
}

#[cfg(feature = "hydrate")]
fn hover(event: &DragEvent, desk: Desk, over: bool) {
    event.prevent_default();
    desk.over.set(over);
}

#[cfg(feature = "hydrate")]
fn dropped(event: &DragEvent, desk: Desk, limit: i64) {
    event.prevent_default();
    desk.over.set(false);
    send::dropped(event, desk, limit);
}

#[cfg(not(feature = "hydrate"))]
const fn wake(_desk: Desk) {}

#[cfg(not(feature = "hydrate"))]
const fn chosen(_desk: Desk, _limit: i64) {}

#[cfg(not(feature = "hydrate"))]
const fn hover(_event: &DragEvent, _desk: Desk, _over: bool) {}

#[cfg(not(feature = "hydrate"))]
const fn dropped(_event: &DragEvent, _desk: Desk, _limit: i64) {}

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
