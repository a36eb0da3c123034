//! Pages through `leptos_axum`: a loader fills a page, and the route's view or the layer around all pages renders it.
//!
//! A loader is an axum handler with axum's extractors. It puts a [`Filled`] page in the extensions of its response;
//! status, headers and cookies are copied to the page's response. A refused form responds the same way, but without a
//! route of the router: [`render_forms`] passes its page to the same renderer. Rendering a page twice is a bug.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
};

use app::{
    document::document_text,
    frame::{Frame, Page},
};
use axum::{
    body::{Body, to_bytes},
    extract::{FromRef, MatchedPath, Request, State},
    handler::Handler,
    http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use futures::{Stream, StreamExt as _, stream};
use leptos::{prelude::*, tachys::html::InertElement};
use leptos_axum::ResponseOptions;

use crate::{
    App,
    http::{routing::Erased, security_headers::page_policy},
};

/// Function that creates a page inside the reactive owner that its views need.
type RenderPage = Box<dyn FnOnce() -> Page + Send>;

/// Page with its data, not rendered yet.
#[derive(Clone)]
pub(super) struct Filled(Arc<Mutex<Option<(Frame, RenderPage)>>>);

impl Filled {
    pub(super) fn new(frame: Frame, draw: impl FnOnce() -> Page + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Some((frame, Box::new(draw))))))
    }

    /// Renders the page; `None` the second time. Renders the text at once: nothing in a page waits, and a stream of
    /// pieces takes longer.
    fn draw(&self) -> Option<AnyView> {
        let filled = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        filled.map(|(frame, draw)| InertElement::new(document_text(&frame, draw)).into_any())
    }
}

/// Default options: assets have their own URLs, and nothing is watched and reloaded.
impl FromRef<App> for LeptosOptions {
    fn from_ref(_: &App) -> Self {
        Self::builder().output_name("treeline").build()
    }
}

/// View of a route: calls its loader with the original request, then renders the page that the loader filled.
pub(super) fn page(loader: Erased) -> impl Fn() -> AnyView + Clone + Send + Sync + 'static {
    move || {
        let (app, OriginalRequest(parts), options) =
            (expect_context::<App>(), expect_context::<OriginalRequest>(), expect_context::<ResponseOptions>());
        let loader = loader.clone();
        Suspend::new(async move {
            let response = loader.call(Request::from_parts(parts, Body::empty()), app).await;
            let (head, _) = response.into_parts();
            options.set_status(head.status);
            for (name, value) in &head.headers {
                options.append_header(name.clone(), value.clone());
            }
            // A loader that redirects has filled no page.
            head.extensions.get::<Filled>().and_then(Filled::draw)
        })
        .into_any()
    }
}

/// Original request, read by the loaders.
#[derive(Clone)]
struct OriginalRequest(Parts);

/// Responds to a request for a route of the router `pages`.
///
/// Axum has matched the route, and earlier layers have checked the request for that route. The router of the pages
/// parses URLs differently (it resolves `..` and `\`), so it gets the route's own path and cannot match another route.
pub(super) async fn render<V: IntoView + 'static>(app: App, request: Request, pages: fn() -> V) -> Response {
    let (parts, _) = request.into_parts();
    let Some(route) = parts.extensions.get::<MatchedPath>() else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let mut chosen = Request::default();
    match address_of(route.as_str()).parse() {
        Ok(uri) => *chosen.uri_mut() = uri,
        Err(_) => return StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
    let request_parts = OriginalRequest(parts);
    let context = move || {
        provide_context(app.clone());
        provide_context(request_parts.clone());
    };
    let response = leptos_axum::handle_response_inner(context, pages, chosen, whole).await;
    with_length(response).await
}

/// Example path of a route in axum's syntax.
fn address_of(route: &str) -> String {
    let filled = |part| if str::starts_with(part, '{') { "x" } else { part };
    route.split('/').map(filled).collect::<Vec<_>>().join("/")
}

/// Renders the pages of handlers without a route of the router: refused forms, and unknown URLs.
pub(super) async fn render_forms(State(app): State<App>, response: Response) -> Response {
    let Some(filled) = response.extensions().get::<Filled>().cloned() else { return response };
    let (mut head, _) = response.into_parts();
    head.extensions.remove::<Filled>();
    let context = move || provide_context(app.clone());
    let rendered = leptos_axum::handle_response_inner(context, move || filled.draw(), Request::default(), whole).await;
    let (_, body) = with_length(rendered).await.into_parts();
    (head.status, head.headers, body).into_response()
}

type Html = Pin<Box<dyn Stream<Item = String> + Send>>;

/// Renders the whole page before the first byte is sent, so that a loader sets the status. The data scripts that
/// `leptos_axum` would append are left out: nothing suspends in the browser.
fn whole<V: IntoView + 'static>(
    view: V,
    _: Box<dyn FnOnce() -> Html + Send>,
    _: bool,
) -> Pin<Box<dyn Future<Output = Html> + Send>> {
    let rendered = view.to_html_stream_in_order();
    Box::pin(async move {
        let mut html: String = rendered.collect().await;
        // Trailing markers of views; no island hydrates them.
        html.truncate(html.trim_end_matches("<!>").len());
        Box::pin(stream::once(async move { html })) as Html
    })
}

/// Adds the length to a response.
async fn with_length(response: Response) -> Response {
    let (head, body) = response.into_parts();
    match to_bytes(body, usize::MAX).await {
        Ok(bytes) => Response::from_parts(head, Body::from(bytes)),
        Err(error) => {
            tracing::error!(%error, "page rendering failed");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// Headers of every page: content type, policy with the response's nonce, and `Vary`.
pub(super) fn headers(nonce: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    // A nonce is base64url, so the policy is always a valid header.
    if let Ok(policy) = HeaderValue::try_from(page_policy(nonce)) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    // A page depends on the caller, on the cookies for theme, language and time zone, and on the browser's languages.
    headers.insert(header::VARY, HeaderValue::from_static("cookie, accept-language"));
    headers
}
