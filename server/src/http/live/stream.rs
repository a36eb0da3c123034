//! Every event stream: its opening, its connection, and its end with the credential.
//!
//! A stream has no queue: when it can send, it sends the newest state. Beyond the limit a stream gets the event `busy`
//! with status 200, because an EventSource never retries after any other status.

use std::{convert::Infallible, net::SocketAddr, time::Duration};

use axum::{
    extract::ConnectInfo,
    http::{HeaderName, HeaderValue, Request, header, request::Parts},
    response::{
        IntoResponse as _, Response, Sse,
        sse::{Event, KeepAlive},
    },
};
use domain::tree::change::event;
use futures::{
    Stream, StreamExt as _,
    future::{BoxFuture, FutureExt as _},
    stream::{self, BoxStream},
};

use crate::{
    App,
    auth::{ClientAddress, Ongoing},
    http::error::{Error, Result},
    live,
};
use engine::{
    access::caller::{Caller, Scope},
    quotas,
};

/// Maximum number of open streams per server; clients beyond it are told to reconnect later.
const STREAMS: usize = 10_000;
/// Interval at which the right to read is checked again. The credential is watched all the time.
const RECHECK: Duration = Duration::from_secs(30);

/// Opened stream, counted while it is open.
pub(super) struct OpenStream {
    app: App,
    ongoing: Ongoing,
    counted: (live::OpenStream, quotas::OpenStream),
}

/// Opens a stream of a caller; `None` beyond the limit ([`busy`]).
pub(super) fn open(app: &App, caller: &Caller) -> Result<Option<OpenStream>> {
    caller.require(Scope::JobsRead)?;
    let counted = app.quotas.stream(caller)?;
    let Some(open) = app.hub.open_stream(STREAMS) else { return Ok(None) };
    Ok(Some(OpenStream { app: app.clone(), ongoing: Ongoing::of(app, caller), counted: (open, counted) }))
}

/// Response to a client beyond the limit of open streams.
pub(super) fn busy() -> Response {
    let event = Event::default().event(event::BUSY).data("{}").retry(retry_after(5_000, 30_000));
    response(stream::iter([Ok(event)]))
}

impl OpenStream {
    /// Response that sends the events until they end, or the credential, the caller's rights, or the server.
    /// `may_read`: asked every 30 seconds.
    pub(super) fn send(
        self,
        events: impl Stream<Item = Event> + Send + 'static,
        may_read: impl Fn() -> BoxFuture<'static, Result<bool>> + Send + 'static,
    ) -> Response {
        let Self { app, ongoing, counted } = self;
        let ending = end(app, ongoing, may_read).boxed();
        let connection = Connection { events: events.boxed(), ending, is_over: false, _counted: counted };
        response(stream::unfold(connection, Connection::next))
    }
}

/// State of one open connection.
struct Connection {
    events: BoxStream<'static, Event>,
    /// Resolves when the connection ends, with the last event.
    ending: BoxFuture<'static, Option<Event>>,
    is_over: bool,
    _counted: (live::OpenStream, quotas::OpenStream),
}

impl Connection {
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        if self.is_over {
            return None;
        }
        tokio::select! {
            biased;
            last = &mut self.ending => {
                self.is_over = true;
                last.map(|last| (Ok(last), self))
            }
            event = self.events.next() => event.map(|event| (Ok(event), self)),
        }
    }
}

/// Waits for the end of the credential, of its permissions, or of the server.
async fn end(
    app: App,
    mut ongoing: Ongoing,
    may_read: impl Fn() -> BoxFuture<'static, Result<bool>> + Send,
) -> Option<Event> {
    loop {
        tokio::select! {
            _ = ongoing.ended() => return None,
            () = app.shutdown.cancelled() => {
                return Some(Event::default().event(event::BYE).data("{}").retry(retry_after(1_000, 8_000)));
            }
            () = tokio::time::sleep(RECHECK) => {}
        }
        match may_read().await {
            Ok(false) => return None,
            Err(Error(engine::error::Error::Problem(problem))) if problem.status < 500 => return None,
            // An unavailable database does not end the stream.
            Ok(true) | Err(_) => {}
        }
    }
}

fn response(events: impl Stream<Item = Result<Event, Infallible>> + Send + 'static) -> Response {
    let keep_alive = KeepAlive::new().interval(Duration::from_secs(15));
    let mut response = Sse::new(events).keep_alive(keep_alive).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store, no-transform"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

/// Random delay in milliseconds, so that clients disconnected together do not reconnect together.
fn retry_after(least: u64, most: u64) -> Duration {
    Duration::from_millis(rand::random_range(least..=most))
}

/// Copies the parts of a request that identify the caller, and nothing else: a stream stays open for hours, and any
/// part of a request keeps the whole buffer read from its connection. A proxy's user is identified by header and peer.
pub(super) fn credentials(app: &App, parts: &Parts) -> Parts {
    let (mut copy, ()) = Request::new(()).into_parts();
    let names = [header::AUTHORIZATION, header::COOKIE].into_iter().chain(app.config.identity.auth_header.clone());
    for name in names {
        for value in parts.headers.get_all(&name) {
            let Ok(value_copy) = HeaderValue::from_bytes(value.as_bytes()) else { continue };
            copy.headers.append(name.clone(), value_copy);
        }
    }
    if let Some(peer) = parts.extensions.get::<ConnectInfo<SocketAddr>>() {
        copy.extensions.insert(*peer);
    }
    if let Some(client) = parts.extensions.get::<ClientAddress>() {
        copy.extensions.insert(*client);
    }
    copy
}
