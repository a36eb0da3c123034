//! Upload field: an island around a form that also works without it.
//!
//! Without WASM the form posts the file itself. With it, the file is sent as soon as it is chosen or dropped, and the
//! upload survives lost connections. In both cases the file is only stored; the next page, rendered by the server,
//! shows its first rows and starts the import.

#[cfg(feature = "hydrate")]
mod http_request;
#[cfg(feature = "hydrate")]
mod memory; // files that were not sent whole
#[cfg(feature = "hydrate")]
mod send; // one request

use leptos::prelude::*;

use crate::{components::state::icon, t};

/// Progress of an upload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    #[default]
    Idle,
    /// In the queue behind other files.
    Waiting {
        filename: String,
    },
    /// Nothing is chosen, but the upload of this file is incomplete; `percent` is stored.
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
    /// Stored: the next page is being opened.
    Stored {
        filename: String,
    },
    Failed {
        filename: String,
        why: String,
    },
}

impl Phase {
    fn filename(&self) -> String {
        match self {
            Self::Idle => String::new(),
            Self::Waiting { filename }
            | Self::Unfinished { filename, .. }
            | Self::Sending { filename, .. }
            | Self::Stored { filename }
            | Self::Failed { filename, .. } => filename.clone(),
        }
    }

    const fn percent(&self) -> Option<u8> {
        if let Self::Sending { percent, .. } = self { Some(*percent) } else { None }
    }

    /// State in words. `opens`: the next page opens by itself.
    fn words(&self, opens: bool) -> String {
        match self {
            Self::Idle => String::new(),
            Self::Waiting { .. } => t!("live-upload-waits").to_owned(),
            Self::Unfinished { percent, .. } => {
                t!("live-upload-unfinished", n = *percent)
            }
            Self::Sending { percent, broken: true, .. } => {
                t!("live-upload-broken", n = *percent)
            }
            Self::Sending { percent: 100, .. } => t!("live-upload-checking").to_owned(),
            Self::Sending { percent, .. } => t!("live-upload-sending", n = *percent),
            Self::Stored { .. } if opens => t!("live-upload-opening").to_owned(),
            Self::Stored { .. } => t!("live-upload-stored").to_owned(),
            Self::Failed { why, .. } => why.clone(),
        }
    }
}

/// File of several, and the page that reviews it once it is stored.
#[derive(Clone, Copy)]
pub struct QueuedFile {
    pub number: u32,
    pub phase: RwSignal<Phase>,
    pub page: RwSignal<String>,
}

/// Signals shared by the form and the upload.
#[derive(Clone, Copy)]
pub struct Desk {
    pub phase: RwSignal<Phase>,
    /// A file is being dragged over the page.
    pub over: RwSignal<bool>,
    /// Several files, sent one after another.
    pub queue: RwSignal<Vec<QueuedFile>>,
}

/// Most bytes of a file and of a workbook.
#[derive(Clone, Copy)]
pub struct Limits {
    pub file_bytes: i64,
    pub workbook_bytes: i64,
}

/// Upload form. `again`: the import whose rows this file corrects. `refusals`: beginnings of the server's reasons for not
/// taking a file, with the reader's text for each.
#[island]
pub fn UploadForm(
    limit_bytes: i64,
    xlsx_limit_bytes: i64,
    again: Option<String>,
    refusals: Vec<(String, String)>,
) -> impl IntoView {
    let desk = Desk { phase: RwSignal::new(Phase::Idle), over: RwSignal::new(false), queue: RwSignal::new(Vec::new()) };
    let (heading, choose) = if again.is_some() {
        (t!("live-upload-drop-one"), t!("live-upload-choose-one"))
    } else {
        (t!("live-upload-drop"), t!("live-upload-choose"))
    };
    let several = again.is_none();
    let limits = Limits { file_bytes: limit_bytes, workbook_bytes: xlsx_limit_bytes };
    wake(desk, limits, again.clone(), refusals);
    view! {
        <form
            class=move || if desk.over.get() { "drop is-over" } else { "drop" }
            method="post"
            action="/imports/new"
            enctype="multipart/form-data"
            data-upload=move || phase_word(&desk.phase.get())
        >
            {again.map(|id| view! { <input type="hidden" name="corrects" value=id /> })}
            {file_line(desk)}
            {queue(desk)}
            <span class="drop-mark">{icon("upload")}</span>
            <h2>{heading}</h2>
            <p class="soft small" id="limits">
                {t!("live-upload-limits", size = &size(limit_bytes), excel = &size(xlsx_limit_bytes))}
            </p>
            <label class="btn btn-primary btn-lg file-btn" for="file">
                {icon("file-up")}
                {choose}
            </label>
            <input
                type="file"
                class="file-input"
                id="file"
                name="file"
                accept=".csv,.tsv,.txt,.log,.ndjson,.jsonl,.json,.xlsx,text/csv,text/plain,application/json,application/x-ndjson"
                aria-describedby="limits"
                required
                multiple=several
                on:change=move |_| chosen(desk, limits)
            />
            <button class="btn btn-lg file-send" type="submit">
                {t!("live-upload-send")}
            </button>
            <svg class="wood" aria-hidden="true" focusable="false">
                <rect width="100%" height="40" fill="url(#woods-off)" />
            </svg>
        </form>
    }
}

/// The chosen file: its progress or its error.
fn file_line(desk: Desk) -> impl IntoView {
    let phase = desk.phase;
    let percent = move || phase.with(Phase::percent);
    let idle = move || phase.with(|phase| *phase == Phase::Idle);
    view! {
        <div class="file-card drop-file" role="status" hidden=idle>
            <span class="file-icon">{icon("file-text")}</span>
            {progress(phase, true)}
            <button class="btn btn-sm" type="button" hidden=move || percent().is_none() on:click=move |_| cancel(desk)>
                {t!("live-upload-cancel")}
            </button>
        </div>
    }
}

/// Name, progress and state of a file.
fn progress(phase: RwSignal<Phase>, opens: bool) -> impl IntoView {
    let percent = move || phase.with(Phase::percent);
    view! {
        <div class="stack-1 grow">
            <strong class="clip">{move || phase.with(Phase::filename)}</strong>
            <progress
                aria-label=t!("live-upload-progress")
                max="100"
                value=move || percent().unwrap_or(0).to_string()
                hidden=move || percent().is_none()
            ></progress>
            <span class="small soft">{move || phase.with(|phase| phase.words(opens))}</span>
        </div>
    }
}

/// Several files, each with its progress, a button that stops it, and a link to the review of its rows.
fn queue(desk: Desk) -> impl IntoView {
    let row = move |file: QueuedFile| {
        let QueuedFile { phase, page, .. } = file;
        let may_stop = move || phase.with(|phase| matches!(phase, Phase::Waiting { .. } | Phase::Sending { .. }));
        view! {
            <li class="file-card" data-upload=move || phase_word(&phase.get())>
                <span class="file-icon">{icon("file-text")}</span>
                {progress(phase, false)}
                <button
                    class="btn btn-sm"
                    type="button"
                    aria-label=move || t!("live-upload-stop-file", name = &phase.with(Phase::filename))
                    hidden=move || !may_stop()
                    on:click=move |_| stop(desk, file)
                >
                    {t!("live-upload-stop")}
                </button>
                <a
                    class="btn btn-sm"
                    href=move || page.get()
                    aria-label=move || t!("live-upload-review-file", name = &phase.with(Phase::filename))
                    hidden=move || page.with(String::is_empty)
                >
                    {t!("live-upload-review")}
                </a>
            </li>
        }
    };
    view! {
        <ul class="lined drop-queue" aria-label=t!("live-upload-files") hidden=move || desk.queue.with(Vec::is_empty)>
            {move || desk.queue.get().into_iter().map(row).collect_view()}
        </ul>
    }
}

const fn phase_word(phase: &Phase) -> &'static str {
    match phase {
        Phase::Idle | Phase::Unfinished { .. } => "idle",
        Phase::Waiting { .. } => "waiting",
        Phase::Sending { broken: true, .. } => "broken",
        Phase::Sending { .. } => "sending",
        Phase::Stored { .. } => "sent",
        Phase::Failed { .. } => "failed",
    }
}

/// A size for people, in decimal units: `2 GB`, `340 KB`.
pub fn size(bytes: i64) -> String {
    const UNITS: [&str; 5] = ["", "KB", "MB", "GB", "TB"];
    let mut unit = 0;
    let mut tenths = bytes.saturating_mul(10);
    // Rounded before the unit is chosen: 999,960 bytes are 1 MB.
    while (tenths + 5) / 10 >= 1_000 && unit < UNITS.len() - 1 {
        tenths = (tenths + 500) / 1_000;
        unit += 1;
    }
    if tenths % 10 == 0 || tenths >= 1_000 {
        {
            let whole = (tenths + 5) / 10;
            if unit == 0 { t!("live-bytes", n = whole) } else { format!("{whole} {}", UNITS[unit]) }
        }
    } else {
        format!("{} {}", crate::speech::tenths(tenths as u64), UNITS[unit])
    }
}

#[cfg(feature = "hydrate")]
fn wake(desk: Desk, limits: Limits, again: Option<String>, refusals: Vec<(String, String)>) {
    send::wake(desk, limits, again, refusals);
}

#[cfg(feature = "hydrate")]
fn chosen(desk: Desk, limits: Limits) {
    send::chosen(desk, limits);
}

#[cfg(feature = "hydrate")]
fn cancel(desk: Desk) {
    send::cancel(desk);
}

#[cfg(feature = "hydrate")]
fn stop(desk: Desk, file: QueuedFile) {
    send::stop(desk, file);
}

#[cfg(not(feature = "hydrate"))]
fn wake(_desk: Desk, _limits: Limits, _again: Option<String>, _refusals: Vec<(String, String)>) {}

#[cfg(not(feature = "hydrate"))]
const fn chosen(_desk: Desk, _limits: Limits) {}

#[cfg(not(feature = "hydrate"))]
const fn cancel(_desk: Desk) {}

#[cfg(not(feature = "hydrate"))]
const fn stop(_desk: Desk, _file: QueuedFile) {}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_read_plainly() {
        assert_eq!(size(900), "900 bytes");
        assert_eq!(size(2_000_000_000), "2 GB");
        assert_eq!(size(1_500_000), "1.5 MB");
        assert_eq!(size(999_960), "1 MB");
        assert_eq!(size(61_440), "61.4 KB");
    }
}
