//! HTTP requests with upload progress, which only `XMLHttpRequest` reports; and pauses.

use std::cell::RefCell;

use js_sys::{Function, Promise};
use leptos::prelude::window;
use wasm_bindgen::{JsCast, JsValue, closure::Closure};
use wasm_bindgen_futures::JsFuture;
use web_sys::{Blob, FormData, ProgressEvent, XmlHttpRequest};

/// Response. Status 0: none, because the connection was lost.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) text: String,
    request: XmlHttpRequest,
}

impl Reply {
    pub(super) fn header(&self, name: &str) -> Option<String> {
        self.request.get_response_header(name).ok()?
    }
}

/// Body of a request.
pub(super) enum Body<'a> {
    Nothing,
    Form(&'a FormData),
    Piece(&'a Blob),
}

/// Receives the number of bytes sent. Boxed: every other closure type would be another copy of [`exchange`].
pub(super) type Progress = Box<dyn FnMut(f64)>;

thread_local! {
    /// The request in progress. Choosing another file aborts it.
    static OPEN: RefCell<Option<XmlHttpRequest>> = const { RefCell::new(None) };
}

/// Aborts the request in progress.
pub(super) fn abort() {
    if let Some(request) = OPEN.take() {
        let _ = request.abort();
    }
}

/// Sends a request; `progress` receives the number of bytes sent. The error comes from the browser.
pub(super) async fn exchange(
    method: &str,
    address: &str,
    headers: &[(&str, &str)],
    body: Body<'_>,
    progress: Option<Progress>,
) -> Result<Reply, JsValue> {
    let request = XmlHttpRequest::new()?;
    request.open(method, address)?;
    for (name, value) in headers {
        request.set_request_header(name, value)?;
    }
    let listener = progress.map(|mut progress| {
        Closure::<dyn FnMut(ProgressEvent)>::new(move |event: ProgressEvent| progress(event.loaded()))
    });
    if let Some(listener) = &listener {
        request.upload()?.set_onprogress(Some(listener.as_ref().unchecked_ref()));
    }
    let ended = Promise::new(&mut |resolve: Function, _| request.set_onloadend(Some(&resolve)));
    match body {
        Body::Nothing => request.send()?,
        Body::Form(form) => request.send_with_opt_form_data(Some(form))?,
        Body::Piece(piece) => request.send_with_opt_blob(Some(piece))?,
    }
    OPEN.set(Some(request.clone()));
    JsFuture::from(ended).await?;
    let text = request.response_text().ok().flatten().unwrap_or_default();
    Ok(Reply { status: request.status().unwrap_or(0), text, request })
}

/// Waits for the given time, or until the browser is online again.
pub(super) async fn pause(milliseconds: f64) {
    let over = Promise::new(&mut |resolve: Function, _| {
        window().set_ononline(Some(&resolve));
        let _ = window().set_timeout_with_callback_and_timeout_and_arguments_0(&resolve, milliseconds as i32);
    });
    let _ = JsFuture::from(over).await;
}
