//! The accept loop: connections over HTTP/1 and HTTP/2, with bounds that `axum::serve` does not have.
//!
//! A connection that is slow with its headers, or says nothing at all, is dropped. When the server
//! stops, nothing new is accepted, requests under way are finished, and what is still open after ten
//! seconds is cut off; event streams and long polls end by themselves on the shutdown token.

use std::{
    io,
    net::SocketAddr,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{Router, body::Body, extract::ConnectInfo};
use hyper::{Request, body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{
        conn::auto::Builder,
        graceful::{GracefulShutdown, Watcher},
    },
};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tower::Service as _;

/// How long a client may take to send a request's headers, from the first on a new connection.
const HEADER_PATIENCE: Duration = Duration::from_secs(30);

/// How long requests that are under way may take once the server stops.
const DRAIN_PATIENCE: Duration = Duration::from_secs(10);

/// Requests at once on one HTTP/2 connection: a worker with 300 slots long-polls on a single one.
const STREAMS_PER_CONNECTION: u32 = 1_000;

/// Serves until `stop`, then drains.
pub async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_PATIENCE);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_PER_CONNECTION)
        .keep_alive_interval(Duration::from_secs(30));
    let builder = Arc::new(builder);
    let open = GracefulShutdown::new();
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, peer)) => {
                let (builder, router, watcher) = (Arc::clone(&builder), router.clone(), open.watcher());
                tokio::spawn(async move { converse(&builder, stream, peer, router, watcher).await });
            }
            Err(error) => refused(&error).await,
        }
    }
    drop(listener);
    if tokio::time::timeout(DRAIN_PATIENCE, open.shutdown()).await.is_err() {
        tracing::warn!("some requests were still open after {DRAIN_PATIENCE:?} and were cut off");
    }
}

/// One connection, until either side has enough.
async fn converse(
    builder: &Builder<TokioExecutor>,
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    watcher: Watcher,
) {
    // Without it a small answer waits for the acknowledgement of the one before.
    let _ = stream.set_nodelay(true);
    let spoke = Arc::new(AtomicBool::new(false));
    let heard = Arc::clone(&spoke);
    let service = service_fn(move |request: Request<Incoming>| {
        heard.store(true, Ordering::Relaxed);
        let mut router = router.clone();
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(peer));
        async move { router.call(request).await }
    });
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(watcher.watch(connection));
    // hyper's own bound begins with the first byte; this one is for those that never send it.
    let silent = async {
        tokio::time::sleep(HEADER_PATIENCE).await;
        if spoke.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        ended = &mut connection => {
            if let Err(error) = ended {
                tracing::debug!(%peer, error, "connection ended");
            }
        }
        () = silent => tracing::debug!(%peer, "connection dropped: it never asked for anything"),
    }
}

/// A connection could not be accepted. When the process is out of file descriptors, trying again at
/// once would spin: there is no event that tells when one is free.
async fn refused(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
        tracing::error!(%error, "cannot accept connections");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
