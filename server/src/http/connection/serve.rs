//! Accept loop: connections over HTTP/1 and HTTP/2, with limits that `axum::serve` does not have.
//!
//! A connection that is slow with its headers, does not read its responses, or sends nothing is closed. A connection
//! over the limit gets 429, unless its first request has a credential (`connections`). When the server stops, it
//! accepts no new connections and finishes open requests; after ten seconds it closes the rest. Event streams and long
//! polls end by the shutdown token. A new connection gets a moment to send its first request, which may be on its way.

use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::ConnectInfo,
    http::{HeaderValue, Version, header},
    response::Response,
};
use domain::{Code, Problem};
use futures::FutureExt as _;
use hyper::{Request, body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::{Notify, Semaphore},
};
use tokio_rustls::server::TlsStream;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::Service as _;

use super::{
    activity::Activity,
    connections::{Admitted, Connections},
    tls::Tls,
    write_timeout::WriteTimeout,
};
use crate::{
    config::{http::HttpSettings, trusted_proxies::TrustedProxies},
    http::{callers::SeenCaller, error::problem_response},
};

/// Timeout for open requests once the server stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout for the first request of a connection once the server stops.
const GRACE_PERIOD: Duration = Duration::from_secs(1);

/// Maximum number of connections refused with a response at the same time; more are only closed.
const MAX_REFUSALS: usize = 64;

/// Limits of one HTTP/2 connection: concurrent requests, then bytes in memory: unread bytes of one body, of all bodies
/// together, of one unread response, and of one request's headers.
const STREAMS_PER_CONNECTION: u32 = 256;
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
const SEND_BUFFER: usize = 64 << 10;
const HEADERS: u32 = 16 << 10;

/// Serves until `stop`, then drains.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Tls>,
    router: Router,
    http_settings: HttpSettings,
    proxies: TrustedProxies,
    stop: CancellationToken,
) {
    let idle_timeout = http_settings.idle_timeout();
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(idle_timeout);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_PER_CONNECTION)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .max_header_list_size(HEADERS)
        .keep_alive_interval(Duration::from_secs(30));
    let builders = Arc::new(Builders { http1: builder.clone().http1_only(), either: builder });
    let open = TaskTracker::new();
    let connections = Connections::new(http_settings.max_connections(), http_settings.connections_per_address, proxies);
    let refusal_slots = Arc::new(Semaphore::new(MAX_REFUSALS));
    let handle_connection = |stream: TcpStream, peer: SocketAddr| {
        let Some(admitted) = connections.admit(peer.ip()) else {
            metrics::counter!("treeline_connections_refused_total").increment(1);
            if let Ok(permit) = Arc::clone(&refusal_slots).try_acquire_owned() {
                tokio::spawn(async move {
                    refuse_connection(stream).await;
                    drop(permit);
                });
            }
            return;
        };
        let (builders, router, stop, tls) = (Arc::clone(&builders), router.clone(), stop.clone(), tls.clone());
        open.spawn(async move {
            let over = admitted.trial().map_or_else(CancellationToken::new, |trial| trial.over);
            let conversation = async {
                // Without it a small response waits for the acknowledgement of the previous one.
                let _ = stream.set_nodelay(true);
                if let Some(tls) = tls {
                    let handshake = Box::pin(tls_handshake(&tls, stream, peer, idle_timeout, &stop));
                    let Some(tls_stream) = handshake.await.map(Box::new) else { return };
                    let is_http2 = tls_stream.get_ref().1.alpn_protocol() == Some(b"h2");
                    let builder = if is_http2 { &builders.either } else { &builders.http1 };
                    let http2 = is_http2.then(Activity::new);
                    let context = ConnectionContext { peer, router, http_settings, http2, admitted: &admitted };
                    return context.run(builder, tls_stream, &stop).await;
                }
                if let Some((builder, is_http2)) = builders.of(&stream, peer, idle_timeout, &stop).await {
                    let http2 = is_http2.then(Activity::new);
                    let context = ConnectionContext { peer, router, http_settings, http2, admitted: &admitted };
                    context.run(builder, stream, &stop).await;
                }
            };
            // The place of a connection on trial may be needed for another. Boxed: an async function keeps a future that
            // it is given twice, and a thousand watchers keep theirs for hours.
            over.run_until_cancelled(Box::pin(conversation)).await;
        });
    };
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, peer)) => handle_connection(stream, peer),
            Err(error) => log_accept_error(&error).await,
        }
    }
    // Connections that the client already considers established.
    while let Some(Ok((stream, peer))) = listener.accept().now_or_never() {
        handle_connection(stream, peer);
    }
    drop(listener);
    open.close();
    if tokio::time::timeout(DRAIN_TIMEOUT, open.wait()).await.is_err() {
        tracing::warn!("open requests aborted after {DRAIN_TIMEOUT:?}");
    }
}

/// Builders for connections, by protocol.
struct Builders {
    http1: Builder<TokioExecutor>,
    /// HTTP/1 or HTTP/2: it reads the first bytes to tell, and keeps 8 kB more while the connection is open.
    either: Builder<TokioExecutor>,
}

impl Builders {
    /// Builder for a connection's first bytes: HTTP/2 begins with `PRI`. `None` if nothing arrives.
    async fn of(
        &self,
        stream: &TcpStream,
        peer: SocketAddr,
        idle_timeout: Duration,
        stop: &CancellationToken,
    ) -> Option<(&Builder<TokioExecutor>, bool)> {
        let mut first = [0; 2];
        let stopped = async {
            stop.cancelled().await;
            tokio::time::sleep(GRACE_PERIOD).await;
        };
        let peeked = tokio::select! {
            peeked = stream.peek(&mut first) => peeked,
            () = tokio::time::sleep(idle_timeout) => {
                tracing::debug!(%peer, "connection dropped: no request");
                return None;
            }
            () = stopped => return None,
        };
        match peeked {
            Ok(0) | Err(_) => None,
            Ok(n) if b"PRI"[..n] == first[..n] => Some((&self.either, true)),
            Ok(_) => Some((&self.http1, false)),
        }
    }
}

/// Performs the TLS handshake, within the timeout of request headers.
async fn tls_handshake(
    tls: &Tls,
    stream: TcpStream,
    peer: SocketAddr,
    idle_timeout: Duration,
    stop: &CancellationToken,
) -> Option<TlsStream<TcpStream>> {
    match stop.run_until_cancelled(tls.accept(stream, idle_timeout)).await? {
        Ok(stream) => Some(stream),
        Err(error) => {
            tracing::debug!(%peer, %error, "connection dropped: TLS handshake failed");
            None
        }
    }
}

/// Context of one connection.
struct ConnectionContext<'a> {
    peer: SocketAddr,
    router: Router,
    http_settings: HttpSettings,
    /// Activity of an HTTP/2 connection.
    http2: Option<Arc<Activity>>,
    admitted: &'a Admitted,
}

impl ConnectionContext<'_> {
    /// Serves the connection until either side ends it.
    async fn run<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        self,
        builder: &Builder<TokioExecutor>,
        stream: S,
        stop: &CancellationToken,
    ) {
        let Self { peer, router, http_settings, http2, admitted } = self;
        let idle_timeout = http_settings.idle_timeout();
        let first_request = Arc::new((AtomicBool::new(false), Notify::new()));
        let first_request_signal = Arc::clone(&first_request);
        let activity = http2.clone();
        let seen = SeenCaller::default();
        let (trial, connections) = (admitted.trial(), admitted.connections());
        // Canceled when the first request of a connection on trial has no valid credential.
        let failed = CancellationToken::new();
        let fails = failed.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            first_request_signal.0.store(true, Ordering::Relaxed);
            first_request_signal.1.notify_one();
            let handling = activity.as_ref().map(Activity::handle);
            let mut router = router.clone();
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(ConnectInfo(peer));
            let trial = trial.clone().filter(|_| !seen.0.load(Ordering::Relaxed));
            let (seen, connections, fails) = (seen.clone(), Arc::clone(&connections), fails.clone());
            async move {
                let mut response = if trial.is_some() && !has_credential(&request) {
                    too_many_response()
                } else {
                    request.extensions_mut().insert(seen.clone());
                    let Ok(response) = router.call(request).await;
                    response
                };
                if let Some(trial) = trial {
                    if seen.0.load(Ordering::Relaxed) {
                        Admitted::passed(&connections, &trial);
                    } else {
                        if response.version() < Version::HTTP_2 {
                            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                        }
                        fails.cancel();
                    }
                }
                Ok::<_, Infallible>(match handling {
                    Some(handling) => response.map(|body| handling.answer(body)),
                    None => response,
                })
            }
        });
        let mut connection =
            pin!(builder.serve_connection(TokioIo::new(WriteTimeout::new(stream, idle_timeout)), service));
        // hyper's own timeout begins with the first byte; this one covers connections that never send it.
        let silent = async {
            tokio::time::sleep(idle_timeout).await;
            if first_request.0.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
        };
        let over = async {
            match &http2 {
                Some(activity) => activity.is_over(http_settings.http2_idle(), idle_timeout).await,
                None => std::future::pending().await,
            }
        };
        let ended = tokio::select! {
            ended = &mut connection => Some(ended),
            () = silent => {
                tracing::debug!(%peer, "connection dropped: no request");
                return;
            }
            () = over => {
                connection.as_mut().graceful_shutdown();
                let _ = tokio::time::timeout(GRACE_PERIOD, connection).await;
                tracing::debug!(%peer, "connection dropped: idle or stalled");
                return;
            }
            () = failed.cancelled() => {
                connection.as_mut().graceful_shutdown();
                let _ = tokio::time::timeout(idle_timeout, connection).await;
                return;
            }
            () = stop.cancelled() => None,
        };
        if let Some(ended) = ended {
            return log(peer, ended);
        }
        // An earlier notification counts too: a connection with a past request gets no extra time.
        let next_request = tokio::time::timeout(GRACE_PERIOD, first_request.1.notified());
        tokio::select! {
            ended = &mut connection => return log(peer, ended),
            _ = next_request => {}
        }
        connection.as_mut().graceful_shutdown();
        log(peer, connection.await);
    }
}

/// Returns true if a request has something that may be a credential; a handler checks it.
fn has_credential(request: &Request<Body>) -> bool {
    request.headers().contains_key(header::AUTHORIZATION) || request.headers().contains_key(header::COOKIE)
}

/// Refusal with `Retry-After` for a connection beyond the limit.
fn too_many_response() -> Response {
    metrics::counter!("treeline_connections_refused_total").increment(1);
    problem_response(&too_many())
}

fn too_many() -> Problem {
    let detail = "Too many connections are open. Try again in a moment.";
    Problem { retry_after_seconds: Some(1), ..Problem::new(Code::TooManyRequests, detail) }
}

/// Refuses a connection beyond the limit with `Retry-After`, without reading its request.
async fn refuse_connection(mut stream: TcpStream) {
    let problem = too_many();
    let body = serde_json::to_string(&problem).unwrap_or_default();
    let answer = format!(
        "HTTP/1.1 {} Too Many Requests\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\n\
         retry-after: 1\r\nconnection: close\r\n\r\n{body}",
        problem.status,
        body.len()
    );
    let refusal = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        // Reads what the client still sends: closing the connection before would discard the response.
        let mut discarded = [0; 1024];
        while stream.read(&mut discarded).await? > 0 {}
        Ok::<_, io::Error>(())
    };
    let _ = tokio::time::timeout(GRACE_PERIOD, refusal).await;
}

fn log(peer: SocketAddr, ended: Result<(), Box<dyn std::error::Error + Send + Sync>>) {
    if let Err(error) = ended {
        tracing::debug!(%peer, error, "connection ended");
    }
}

/// Logs a failed accept and pauses. Without file descriptors, trying again at once would spin, because no event tells
/// when one is free.
async fn log_accept_error(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
        tracing::error!(%error, "accept failed");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
