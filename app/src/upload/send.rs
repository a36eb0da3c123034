//! Sends a file: a small one at once, a large one in pieces, so that a lost connection costs one piece. When the file
//! is stored, the page with its first rows is opened.
//!
//! Only a refusal ends the upload. After any other error it asks the server for the offset and resumes there, after a
//! growing, jittered pause.

use std::cell::{Cell, RefCell};

use leptos::prelude::*;
use wasm_bindgen::{JsCast, closure::Closure};
use web_sys::{DragEvent, Event, File, FileList, FormData, HtmlInputElement};

use crate::t;

use super::{
    Desk, Limits, Phase, QueuedFile,
    http_request::{self, Body, Progress, Reply, exchange, pause},
    memory, size,
};

/// Files larger than this are sent in pieces.
const AT_ONCE: f64 = 1_048_576.0;
/// Bytes of a piece.
const PIECE: f64 = 4.0 * 1_048_576.0;
/// First and maximum pause after an error, in milliseconds.
const SHORTEST: f64 = 400.0;
const LONGEST: f64 = 15_000.0;
/// Shortest `Retry-After` of a quota that waiting does not free, in seconds.
const LASTING_QUOTA: f64 = 60.0;

thread_local! {
    /// Number of the newest chosen file; older uploads stop.
    static GENERATION: Cell<u32> = const { Cell::new(0) };
    /// The import whose rows this file corrects.
    static AGAIN: RefCell<Option<String>> = const { RefCell::new(None) };
    /// Beginnings of the server's reasons for not taking a file, with the reader's text for each.
    static REFUSALS: RefCell<Vec<(String, String)>> = const { RefCell::new(Vec::new()) };
    /// Files of the queue, by their number.
    static FILES: RefCell<Vec<File>> = const { RefCell::new(Vec::new()) };
    /// True while files of the queue are sent.
    static IS_SENDING_QUEUE: Cell<bool> = const { Cell::new(false) };
}

/// Accepts files that are dropped anywhere on the page, and shows an incomplete earlier upload.
pub(super) fn wake(desk: Desk, limits: Limits, again: Option<String>, refusals: Vec<(String, String)>) {
    AGAIN.set(again);
    REFUSALS.set(refusals);
    // Warns before the page is left during an upload.
    listen("beforeunload", move |event: Event| {
        if IS_SENDING_QUEUE.get() || desk.phase.with_untracked(|phase| matches!(phase, Phase::Sending { .. })) {
            event.prevent_default();
        }
    });
    listen("dragover", move |event: DragEvent| hover(&event, desk, true));
    listen("dragleave", move |event: DragEvent| hover(&event, desk, event.related_target().is_some()));
    listen("drop", move |event: DragEvent| {
        hover(&event, desk, false);
        if let Some(files) = event.data_transfer().and_then(|data| data.files()) {
            take(desk, &files, limits);
        }
    });
    if desk.phase.with_untracked(|phase| *phase == Phase::Idle)
        && let Some((key, filename, upload_url)) = memory::any()
    {
        leptos::task::spawn_local(async move {
            let Ok(reply) = exchange("GET", &upload_url, &[], Body::Nothing, None).await else { return };
            match (reply.status, number(&reply, "Upload-Offset"), number(&reply, "Upload-Length")) {
                (200, Some(here), Some(whole)) if here < whole => {
                    let percent = (here / whole * 100.0) as u8;
                    // A file may have been chosen in the meantime.
                    desk.phase.maybe_update(|phase| {
                        let idle = *phase == Phase::Idle;
                        if idle {
                            *phase = Phase::Unfinished { filename, percent };
                        }
                        idle
                    });
                }
                (200, Some(_), Some(_)) => memory::forget(&key),
                (404, ..) if problem(&reply).is_some() => memory::forget(&key),
                _ => {}
            }
        });
    }
}

fn listen<E: wasm_bindgen::convert::FromWasmAbi + 'static>(event: &str, listener: impl FnMut(E) + 'static) {
    let listener = Closure::<dyn FnMut(E)>::new(listener);
    let _ = window().add_event_listener_with_callback(event, listener.as_ref().unchecked_ref());
    listener.forget();
}

fn hover(event: &DragEvent, desk: Desk, over: bool) {
    event.prevent_default();
    if desk.over.get_untracked() != over {
        desk.over.set(over);
    }
}

/// Handles a file chosen in the input.
pub(super) fn chosen(desk: Desk, limits: Limits) {
    if let Some(files) = input().and_then(|input| input.files()) {
        take(desk, &files, limits);
    }
}

/// Sends a file and opens its page, or queues several. A corrected file is always one.
fn take(desk: Desk, files: &FileList, limits: Limits) {
    let is_one = files.length() < 2 || AGAIN.with_borrow(Option::is_some);
    if is_one && desk.queue.with_untracked(Vec::is_empty) {
        if let Some(file) = files.get(0) {
            send(desk, file, limits);
        }
        return;
    }
    if desk.queue.with_untracked(Vec::is_empty) {
        cancel(desk);
    }
    let mut queued = Vec::new();
    for file in (0..files.length()).filter_map(|at| files.get(at)) {
        let filename = file.name();
        let phase = match unfit(&file, limits) {
            Some(why) => Phase::Failed { filename, why },
            None => Phase::Waiting { filename },
        };
        let number = FILES.with_borrow_mut(|files| {
            files.push(file);
            files.len() as u32 - 1
        });
        queued.push(QueuedFile { number, phase: RwSignal::new(phase), page: RwSignal::new(String::new()) });
    }
    desk.queue.update(|queue| queue.extend(queued));
    // The same files can be chosen again.
    if let Some(input) = input() {
        input.set_value("");
    }
    if !IS_SENDING_QUEUE.replace(true) {
        leptos::task::spawn_local(async move {
            while let Some(next) = next(desk) {
                send_queued(next).await;
            }
            IS_SENDING_QUEUE.set(false);
        });
    }
}

/// The first file of the queue that waits.
fn next(desk: Desk) -> Option<QueuedFile> {
    let waits = |file: &QueuedFile| file.phase.with_untracked(|phase| matches!(phase, Phase::Waiting { .. }));
    desk.queue.with_untracked(|queue| queue.iter().copied().find(waits))
}

async fn send_queued(queued: QueuedFile) {
    let Some(file) = FILES.with_borrow(|files| files.get(queued.number as usize).cloned()) else { return };
    let sending = Sending::of(queued.phase, &file);
    sending.show(0.0);
    let sent = sending.send(&file).await;
    if !sending.is_current() {
        return;
    }
    match sent {
        Ok(stored) => {
            queued.page.set(stored.page());
            queued.phase.set(Phase::Stored { filename: sending.filename.clone() });
        }
        Err(why) => sending.fail(why),
    }
}

/// Stops a file of the queue; those behind it go on.
pub(super) fn stop(_desk: Desk, file: QueuedFile) {
    let is_under_way = file.phase.with_untracked(|phase| matches!(phase, Phase::Sending { .. }));
    file.phase.update(|phase| {
        *phase = Phase::Failed { filename: phase.filename(), why: t!("live-upload-stopped").to_owned() }
    });
    if is_under_way {
        GENERATION.set(GENERATION.get() + 1);
        http_request::abort();
    }
}

/// Reason not to send a file.
fn unfit(file: &File, limits: Limits) -> Option<String> {
    let is_workbook = file.name().to_lowercase().ends_with(".xlsx");
    let limit = if is_workbook { limits.workbook_bytes } else { limits.file_bytes };
    // A double holds numbers of bytes exactly up to 8 PiB.
    let bytes = file.size() as i64;
    if bytes > limit {
        return Some(t!("live-upload-too-large", limit = &size(limit), size = &size(bytes)));
    }
    (bytes == 0).then(|| t!("live-upload-empty").to_owned())
}

/// Cancels the upload.
pub(super) fn cancel(desk: Desk) {
    GENERATION.set(GENERATION.get() + 1);
    http_request::abort();
    if let Some(input) = input() {
        input.set_value("");
    }
    desk.phase.set(Phase::Idle);
}

fn send(desk: Desk, file: File, limits: Limits) {
    let sending = Sending::of(desk.phase, &file);
    if let Some(why) = unfit(&file, limits) {
        return sending.fail(why);
    }
    sending.show(0.0);
    leptos::task::spawn_local(async move {
        let sent = sending.send(&file).await;
        if !sending.is_current() {
            return;
        }
        match sent {
            Ok(stored) => {
                desk.phase.set(Phase::Stored { filename: sending.filename.clone() });
                let _ = window().location().assign(&stored.page());
            }
            Err(why) => sending.fail(why),
        }
    });
}

/// An upload in progress.
#[derive(Clone)]
struct Sending {
    phase: RwSignal<Phase>,
    filename: String,
    whole: f64,
    generation: u32,
}

impl Sending {
    /// Begins with a file; what was under way stops.
    fn of(phase: RwSignal<Phase>, file: &File) -> Self {
        GENERATION.set(GENERATION.get() + 1);
        http_request::abort();
        Self { phase, filename: file.name(), whole: file.size(), generation: GENERATION.get() }
    }

    async fn send(&self, file: &File) -> Result<Stored, String> {
        if self.whole > AT_ONCE { in_pieces(self, file).await } else { at_once(self, file).await }
    }

    fn is_current(&self) -> bool {
        GENERATION.get() == self.generation
    }

    fn show(&self, sent: f64) {
        let percent = (sent / self.whole * 100.0).clamp(0.0, 100.0) as u8;
        let phase = Phase::Sending { filename: self.filename.clone(), percent, broken: false };
        if self.is_current() && self.phase.with_untracked(|before| *before != phase) {
            self.phase.set(phase);
        }
    }

    /// Shows that there is no connection. The progress stays until the server reports its offset.
    fn show_connection_lost(&self) {
        if self.is_current() {
            self.phase.update(|phase| {
                if let Phase::Sending { broken, .. } = phase {
                    *broken = true;
                }
            });
        }
    }

    fn fail(&self, why: String) {
        self.phase.set(Phase::Failed { filename: self.filename.clone(), why });
    }

    /// Callback for the progress of a request that starts at the offset `at`.
    fn from(&self, at: f64) -> Progress {
        let sending = self.clone();
        Box::new(move |sent| sending.show(at + sent))
    }
}

async fn at_once(sending: &Sending, file: &File) -> Result<Stored, String> {
    let form = FormData::new().map_err(|_| unreadable_file())?;
    form.append_with_blob_and_filename("file", file, &sending.filename).map_err(|_| unreadable_file())?;
    let accept = [("Accept", "application/json")];
    // The request also contains the form's own bytes.
    let (sender, whole) = (sending.clone(), sending.whole);
    let progress: Progress = Box::new(move |sent: f64| sender.show(sent.min(whole)));
    let reply = exchange("POST", "/api/v1/uploads", &accept, Body::Form(&form), Some(progress))
        .await
        .map_err(|_| unreadable_file())?;
    match reply.status {
        200..300 => read(&reply),
        _ if is_temporary_error(&reply) => in_pieces(sending, file).await,
        _ => Err(refusal(&reply)),
    }
}

/// Starts or resumes an upload and sends it piece by piece.
async fn in_pieces(sending: &Sending, file: &File) -> Result<Stored, String> {
    let key = memory::key(file);
    let mut upload_url = memory::recall(&key);
    let mut at: Option<f64> = None;
    let mut failures = 0;
    while sending.is_current() {
        let reply = match (&upload_url, at) {
            (None, _) => begin(sending).await,
            // GET: the body of a refusal says whether it is Treeline's.
            (Some(upload_url), None) => exchange("GET", upload_url, &[], Body::Nothing, None).await,
            (Some(upload_url), Some(at)) if at < sending.whole => piece(sending, file, upload_url, at).await,
            (Some(upload_url), _) => {
                let status_url = upload_url.replace("/resumable", "");
                exchange("GET", &status_url, &[], Body::Nothing, None).await
            }
        };
        let reply = reply.map_err(|_| unreadable_file())?;
        let (offset, is_own_refusal) = (number(&reply, "Upload-Offset"), problem(&reply).is_some());
        match reply.status {
            200..300 if at.is_some_and(|at| at >= sending.whole) => {
                let stored = read(&reply)?;
                memory::forget(&key);
                return Ok(stored);
            }
            200..300 if offset.is_some() => {
                if upload_url.is_none() {
                    upload_url = reply.header("Location");
                    if let Some(upload_url) = &upload_url {
                        memory::remember(&key, upload_url);
                    }
                }
                at = offset;
                failures = 0;
                sending.show(at.unwrap_or(0.0));
            }
            // The offset differs: data that was under way when the connection broke may have arrived after all.
            409 if is_own_refusal && at.is_some() => at = None,
            404 if is_own_refusal && upload_url.is_some() => {
                memory::forget(&key);
                (upload_url, at) = (None, None);
            }
            _ if is_temporary_error(&reply) => {
                sending.show_connection_lost();
                let longest = (SHORTEST * f64::from(1 << failures.min(8))).min(LONGEST);
                let asked_for = number(&reply, "Retry-After").unwrap_or(0.0) * 1_000.0;
                pause((longest * (0.5 + js_sys::Math::random() / 2.0)).max(asked_for)).await;
                failures += 1;
                at = None;
            }
            status => {
                // What has arrived is still there when somebody has signed in or made room.
                if is_own_refusal && !matches!(status, 401 | 429 | 507) {
                    memory::forget(&key);
                }
                return Err(refusal(&reply));
            }
        }
    }
    Err(String::new())
}

async fn begin(sending: &Sending) -> Result<Reply, wasm_bindgen::JsValue> {
    let name = String::from(js_sys::encode_uri_component(&sending.filename));
    let length = whole_number(sending.whole);
    let address = format!("/api/v1/uploads/resumable?filename={name}");
    exchange("POST", &address, &[("Upload-Length", &length)], Body::Nothing, None).await
}

async fn piece(sending: &Sending, file: &File, upload_url: &str, at: f64) -> Result<Reply, wasm_bindgen::JsValue> {
    let piece = file.slice_with_f64_and_f64(at, (at + PIECE).min(sending.whole))?;
    let headers = [("Content-Type", "application/offset+octet-stream"), ("Upload-Offset", &whole_number(at))];
    exchange("PATCH", upload_url, &headers, Body::Piece(&piece), Some(sending.from(at))).await
}

/// Returns true for temporary errors: no connection, a body that broke off, a busy server, a quota that is soon free again,
/// or a page of a proxy, such as its 404 while it is reloading. Other refusals of a proxy are final: it will not change its
/// mind. Only an admin or the deletion of other files makes room.
fn is_temporary_error(reply: &Reply) -> bool {
    let Some(problem) = problem(reply) else {
        return matches!(reply.status, ..400 | 404 | 408 | 425 | 429 | 500..=506 | 508..);
    };
    match reply.status {
        507 => false,
        429 => {
            problem.code != "quota_exceeded"
                || number(reply, "Retry-After").is_some_and(|seconds| seconds < LASTING_QUOTA)
        }
        status => matches!(status, 408 | 422 | 500..),
    }
}

fn number(reply: &Reply, name: &str) -> Option<f64> {
    reply.header(name)?.parse::<i64>().ok().map(|bytes| bytes as f64)
}

/// Bytes as text. In whole numbers: printing and reading floats brings in twenty kilobytes of WASM.
fn whole_number(bytes: f64) -> String {
    (bytes as i64).to_string()
}

fn read(reply: &Reply) -> Result<Stored, String> {
    serde_json::from_str(&reply.text).map_err(|_| refusal(reply))
}

fn refusal(reply: &Reply) -> String {
    if reply.status == 401 {
        return t!("live-upload-signed-out").to_owned();
    }
    let Some(Refusal { detail, .. }) = problem(reply) else { return t!("live-upload-refused").to_owned() };
    let known = |refusals: &Vec<(String, String)>| {
        refusals.iter().find(|(start, _)| detail.starts_with(start.as_str())).map(|(_, text)| text.clone())
    };
    REFUSALS.with_borrow(known).unwrap_or(detail)
}

/// The problem document of a refusal, which only Treeline sends.
fn problem(reply: &Reply) -> Option<Refusal> {
    reply
        .header("Content-Type")?
        .starts_with(domain::problem::MEDIA_TYPE)
        .then(|| serde_json::from_str(&reply.text).ok())?
}

/// Needed fields of a stored [`domain::import::upload::Upload`]; parsing all of them costs more.
#[derive(serde::Deserialize)]
struct Stored {
    id: String,
}

impl Stored {
    /// The page with its first rows.
    fn page(&self) -> String {
        let mut page = format!("/imports/new?upload_id={}", self.id);
        // It stays: another file may be chosen after going back to this page.
        if let Some(again) = AGAIN.with_borrow(Clone::clone) {
            page = format!("{page}&corrects={again}");
        }
        page
    }
}

/// Shown fields of a [`domain::Problem`]; parsing all of them costs two kilobytes of WASM.
#[derive(serde::Deserialize)]
struct Refusal {
    code: String,
    detail: String,
}

fn unreadable_file() -> String {
    t!("live-upload-unreadable").to_owned()
}

fn input() -> Option<HtmlInputElement> {
    document().get_element_by_id("file").and_then(|input| input.dyn_into().ok())
}
