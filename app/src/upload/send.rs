//! Sending a file with progress, which only `XMLHttpRequest` can tell, and asking for its first rows.

use std::cell::{Cell, RefCell};

use domain::{
    Problem,
    upload::{Preview, Upload},
};
use leptos::prelude::*;
use wasm_bindgen::{JsCast, JsValue, closure::Closure};
use wasm_bindgen_futures::JsFuture;
use web_sys::{DragEvent, Event, File, FormData, HtmlInputElement, ProgressEvent, Response, XmlHttpRequest};

use super::{Desk, Phase, size};

type Listener = Closure<dyn FnMut(ProgressEvent)>;

/// A file on its way. A newer choice aborts it.
struct Sending {
    request: XmlHttpRequest,
    listeners: Vec<Listener>,
}

thread_local! {
    static SENDING: RefCell<Option<Sending>> = const { RefCell::new(None) };
    static GENERATION: Cell<u32> = const { Cell::new(0) };
}

/// Shows what works only now, and keeps the preview in step with the choices.
pub(super) fn wake(desk: Desk) {
    Effect::new(move |_| {
        let upload = desk.phase.with(|phase| if let Phase::Stored(upload) = phase { Some(upload.id) } else { None });
        let (header, delimiter) = (desk.header.get(), desk.delimiter.get());
        match upload {
            None => desk.preview.set(None),
            Some(id) => {
                let mut address = format!("/api/v1/uploads/{id}/preview?header={header}");
                if !delimiter.is_empty() {
                    let quoted = js_sys::encode_uri_component(&delimiter);
                    address = format!("{address}&delimiter={}", String::from(quoted));
                }
                look(desk, address);
            }
        }
    });
    // A page must not be left while its file is half sent.
    let warn = Closure::<dyn FnMut(Event)>::new(move |event: Event| {
        if desk.phase.with_untracked(|phase| matches!(phase, Phase::Sending { .. })) {
            event.prevent_default();
        }
    });
    let _ = window().add_event_listener_with_callback("beforeunload", warn.as_ref().unchecked_ref());
    warn.forget();
}

/// The reader chose a file in the input.
pub(super) fn chosen(desk: Desk, limit: i64) {
    let file = input().and_then(|input| input.files()).and_then(|files| files.get(0));
    if let Some(file) = file {
        send(desk, &file, limit);
    }
}

/// The reader dropped a file.
pub(super) fn dropped(event: &DragEvent, desk: Desk, limit: i64) {
    let file = event.data_transfer().and_then(|data| data.files()).and_then(|files| files.get(0));
    if let Some(file) = file {
        send(desk, &file, limit);
    }
}

fn send(desk: Desk, file: &File, limit: i64) {
    abort();
    let generation = GENERATION.get();
    let filename = file.name();
    let fail = {
        let filename = filename.clone();
        move |why: String| desk.phase.set(Phase::Failed { filename: filename.clone(), why })
    };
    // Numbers of bytes fit a double exactly up to 8 PiB.
    let bytes = file.size() as i64;
    if bytes > limit {
        return fail(format!("it has {}, and {} is the most.", size(bytes), size(limit)));
    }
    if bytes == 0 {
        return fail("it is empty.".to_owned());
    }
    let sent = (|| {
        let form = FormData::new()?;
        form.append_with_blob_and_filename("file", file, &filename)?;
        let request = XmlHttpRequest::new()?;
        request.open("POST", "/api/v1/uploads")?;
        request.set_request_header("Accept", "application/json")?;
        Ok::<_, JsValue>((request, form))
    })();
    let Ok((request, form)) = sent else {
        return fail(
            "this browser could not send it. Try without dropping: choose it and press Start import.".to_owned(),
        );
    };
    desk.phase.set(Phase::Sending { filename: filename.clone(), percent: 0 });

    let current = move || GENERATION.get() == generation;
    let progress = Listener::new({
        let filename = filename.clone();
        move |event: ProgressEvent| {
            if current() && event.length_computable() {
                let percent = (event.loaded() / event.total() * 100.0).clamp(0.0, 100.0) as u8;
                let phase = Phase::Sending { filename: filename.clone(), percent };
                if desk.phase.with_untracked(|before| *before != phase) {
                    desk.phase.set(phase);
                }
            }
        }
    });
    let ended = Listener::new({
        let request = request.clone();
        let fail = fail.clone();
        move |_| {
            if !current() {
                return;
            }
            let text = request.response_text().ok().flatten().unwrap_or_default();
            match (request.status(), serde_json::from_str::<Upload>(&text)) {
                (Ok(200..300), Ok(upload)) => {
                    // The file is stored: it need not travel with the form.
                    if let Some(input) = input() {
                        input.set_value("");
                    }
                    desk.phase.set(Phase::Stored(upload));
                }
                (Ok(401), _) => fail("you are signed out. Sign in and choose it again.".to_owned()),
                _ => fail(serde_json::from_str::<Problem>(&text).map_or_else(
                    |_| "the server did not take it. Try again in a moment.".to_owned(),
                    |problem| problem.detail,
                )),
            }
        }
    });
    let broken = Listener::new(move |_| {
        if current() {
            fail("the connection broke on the way. Choose it again.".to_owned());
        }
    });
    if let Ok(upload) = request.upload() {
        upload.set_onprogress(Some(progress.as_ref().unchecked_ref()));
    }
    request.set_onload(Some(ended.as_ref().unchecked_ref()));
    request.set_onerror(Some(broken.as_ref().unchecked_ref()));
    let _ = request.send_with_opt_form_data(Some(&form));
    SENDING.set(Some(Sending { request, listeners: vec![progress, ended, broken] }));
}

fn abort() {
    GENERATION.set(GENERATION.get() + 1);
    if let Some(Sending { request, listeners }) = SENDING.take() {
        let _ = request.abort();
        drop(listeners);
    }
}

fn input() -> Option<HtmlInputElement> {
    document().get_element_by_id("file").and_then(|input| input.dyn_into().ok())
}

/// Asks for the first rows. An answer to an older question is dropped.
fn look(desk: Desk, address: String) {
    let generation = GENERATION.get();
    leptos::task::spawn_local(async move {
        let preview = fetch_preview(&address).await;
        if GENERATION.get() == generation && desk.phase.with_untracked(|phase| matches!(phase, Phase::Stored(_))) {
            desk.preview.set(preview);
        }
    });
}

async fn fetch_preview(address: &str) -> Option<Preview> {
    let response: Response = JsFuture::from(window().fetch_with_str(address)).await.ok()?.unchecked_into();
    let text = JsFuture::from(response.text().ok()?).await.ok()?.as_string()?;
    serde_json::from_str(&text).ok()
}
