//! Pages through `leptos_axum`: a loader fills a page, the route's view or the layer around all pages draws it.
//!
//! A loader is a handler of axum, with axum's extractors. It answers with a [`Filled`] page in the extensions of its response,
//! whose status, headers and cookies become those of the answer. A form that is refused answers in the same way; as no route
//! of the router is asked then, [`draw_forms`] hands the page to the same renderer. What is drawn twice is a fault of the code.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
};

use app::{
    document::document,
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

use crate::App;

/// Makes a page, inside the reactive owner that its views need.
type Draw = Box<dyn FnOnce() -> Page + Send>;

/// A page with its data, not drawn yet.
#[derive(Clone)]
pub(super) struct Filled(Arc<Mutex<Option<(Frame, Draw)>>>);

impl Filled {
    pub(super) fn new(frame: Frame, draw: impl FnOnce() -> Page + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Some((frame, Box::new(draw))))))
    }

    /// Draws the page; nothing the second time. Its text is made here and now: nothing in it waits, and drawn piece by piece
    /// into a stream it would take half as long again.
    fn draw(&self) -> Option<AnyView> {
        let filled = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        filled.map(|(frame, draw)| InertElement::new(document(&frame, draw).to_html()).into_any())
    }
}

/// The router asks for no options: assets have addresses of their own, and nothing is watched and reloaded.
impl FromRef<App> for LeptosOptions {
    fn from_ref(_: &App) -> Self {
        Self::builder().output_name("treeline").build()
    }
}

/// The view of a route: calls its loader with the request as it came, then draws what the loader has filled.
pub(super) fn page<H, T>(loader: H) -> impl Fn() -> AnyView + Clone + Send + Sync + 'static
where
    H: Handler<T, App> + Sync,
    T: 'static,
{
    move || {
        let (app, Asked(parts), options) =
            (expect_context::<App>(), expect_context::<Asked>(), expect_context::<ResponseOptions>());
        let loader = loader.clone();
        Suspend::new(async move {
            let response = loader.call(Request::from_parts(parts, Body::empty()), app).await;
            let (head, _) = response.into_parts();
            options.set_status(head.status);
            for (name, value) in &head.headers {
                options.append_header(name.clone(), value.clone());
            }
            // A loader that leads elsewhere has filled nothing.
            head.extensions.get::<Filled>().and_then(Filled::draw)
        })
        .into_any()
    }
}

/// The request as it came: what a loader reads.
#[derive(Clone)]
struct Asked(Parts);

/// Answers a request for a route of the router `pages`.
///
/// Axum has chosen the route, and layers before this one have judged the request by that choice. The router of the pages
/// reads addresses in another way (it resolves `..` and `\`), so it is given the route's own address and cannot choose
/// another.
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
    let asked = Asked(parts);
    let context = move || {
        provide_context(app.clone());
        provide_context(asked.clone());
    };
    let response = leptos_axum::handle_response_inner(context, pages, chosen, whole).await;
    with_length(response).await
}

/// An address that a route, as axum writes it, stands for.
fn address_of(route: &str) -> String {
    let filled = |part| if str::starts_with(part, '{') { "x" } else { part };
    route.split('/').map(filled).collect::<Vec<_>>().join("/")
}

/// Draws the pages of handlers that no route of the router was asked for: refused forms, and addresses that lead nowhere.
pub(super) async fn draw_forms(State(app): State<App>, response: Response) -> Response {
    let Some(filled) = response.extensions().get::<Filled>().cloned() else { return response };
    let (mut head, _) = response.into_parts();
    head.extensions.remove::<Filled>();
    let context = move || provide_context(app.clone());
    let drawn = leptos_axum::handle_response_inner(context, move || filled.draw(), Request::default(), whole).await;
    let (_, body) = with_length(drawn).await.into_parts();
    (head.status, head.headers, body).into_response()
}

type Html = Pin<Box<dyn Stream<Item = String> + Send>>;

/// Draws the whole page before the first byte is sent, so that a loader decides about the status. The scripts with data that
/// `leptos_axum` would append are left out: nothing here suspends in the browser.
fn whole<V: IntoView + 'static>(
    view: V,
    _: Box<dyn FnOnce() -> Html + Send>,
    _: bool,
) -> Pin<Box<dyn Future<Output = Html> + Send>> {
    let drawn = view.to_html_stream_in_order();
    Box::pin(async move {
        let mut html: String = drawn.collect().await;
        // Places of views that no island comes back to.
        html.truncate(html.trim_end_matches("<!>").len());
        Box::pin(stream::once(async move { html })) as Html
    })
}

/// The same answer with its length, as it is known.
async fn with_length(response: Response) -> Response {
    let (head, body) = response.into_parts();
    match to_bytes(body, usize::MAX).await {
        Ok(bytes) => Response::from_parts(head, Body::from(bytes)),
        Err(error) => {
            tracing::error!(%error, "a page could not be drawn");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// The headers of every page: its type, its policy with the nonce of this answer, and what it depends on.
pub(super) fn headers(nonce: &str) -> HeaderMap {
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}' 'strict-dynamic' 'wasm-unsafe-eval'; style-src 'self'; \
         font-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; \
         object-src 'none'; frame-ancestors 'none'",
    );
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    // A nonce is base64url, so the policy is always a header.
    if let Ok(policy) = HeaderValue::try_from(policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    // A page differs by caller and by the cookies of theme and time zone.
    headers.insert(header::VARY, HeaderValue::from_static("cookie"));
    headers
}
