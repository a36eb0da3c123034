//! The accept loop: connections over HTTP/1 and HTTP/2, with bounds that `axum::serve` does not have.
//!
//! A connection that is slow with its headers, does not read its answers, or says nothing at all, is dropped;
//! one too many is told so. When the server stops, nothing new is accepted, requests under way are finished, and what is still open after ten
//! seconds is cut off; event streams and long polls end by themselves on the shutdown token. Who had
//! connected and not asked yet gets a moment to: its request may be on its way.

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
use domain::{Code, Problem};
use futures::FutureExt as _;
use hyper::{Request, body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::{Notify, Semaphore},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::Service as _;

use super::patient::Patient;
use crate::config::front::Front;

/// How long requests that are under way may take once the server stops.
const DRAIN_PATIENCE: Duration = Duration::from_secs(10);

/// How long one that has connected and not asked for anything yet is waited for then.
const LAST_MOMENT: Duration = Duration::from_secs(1);

/// Those who are one too many and are told so at the same time; more are only closed.
const GOODBYES: usize = 64;

/// Requests at once on one HTTP/2 connection: a worker with 300 slots long-polls on a single one.
const STREAMS_PER_CONNECTION: u32 = 1_000;

/// Serves until `stop`, then drains.
pub async fn serve(listener: TcpListener, router: Router, front: Front, stop: CancellationToken) {
    let patience = front.patience();
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(patience);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_PER_CONNECTION)
        .keep_alive_interval(Duration::from_secs(30));
    let builders = Arc::new(Builders { http1: builder.clone().http1_only(), either: builder });
    let open = TaskTracker::new();
    let room = front.room();
    let goodbyes = Arc::new(Semaphore::new(GOODBYES));
    let talk = |stream: TcpStream, peer: SocketAddr| {
        if open.len() >= room {
            metrics::counter!("treeline_connections_refused_total").increment(1);
            if let Ok(turn) = Arc::clone(&goodbyes).try_acquire_owned() {
                tokio::spawn(async move {
                    say_full(stream).await;
                    drop(turn);
                });
            }
            return;
        }
        let (builders, router, stop) = (Arc::clone(&builders), router.clone(), stop.clone());
        open.spawn(async move {
            if let Some(builder) = builders.of(&stream, peer, patience, &stop).await {
                converse(builder, stream, peer, router, patience, &stop).await;
            }
        });
    };
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, peer)) => talk(stream, peer),
            Err(error) => refused(&error).await,
        }
    }
    // Those that are connected already as far as they know.
    while let Some(Ok((stream, peer))) = listener.accept().now_or_never() {
        talk(stream, peer);
    }
    drop(listener);
    open.close();
    if tokio::time::timeout(DRAIN_PATIENCE, open.wait()).await.is_err() {
        tracing::warn!("some requests were still open after {DRAIN_PATIENCE:?} and were cut off");
    }
}

/// How connections are served.
struct Builders {
    http1: Builder<TokioExecutor>,
    /// HTTP/1 or HTTP/2: it takes the first bytes off the connection to tell, and keeps 8 kB more for as long as it is open.
    either: Builder<TokioExecutor>,
}

impl Builders {
    /// The one that a connection's first bytes ask for: HTTP/2 begins with `PRI`. `None` where nothing comes.
    async fn of(
        &self,
        stream: &TcpStream,
        peer: SocketAddr,
        patience: Duration,
        stop: &CancellationToken,
    ) -> Option<&Builder<TokioExecutor>> {
        let mut first = [0; 2];
        let stopped = async {
            stop.cancelled().await;
            tokio::time::sleep(LAST_MOMENT).await;
        };
        let peeked = tokio::select! {
            peeked = stream.peek(&mut first) => peeked,
            () = tokio::time::sleep(patience) => {
                tracing::debug!(%peer, "connection dropped: it never asked for anything");
                return None;
            }
            () = stopped => return None,
        };
        match peeked {
            Ok(0) | Err(_) => None,
            Ok(n) if b"PRI"[..n] == first[..n] => Some(&self.either),
            Ok(_) => Some(&self.http1),
        }
    }
}

/// One connection, until either side has enough.
async fn converse(
    builder: &Builder<TokioExecutor>,
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    patience: Duration,
    stop: &CancellationToken,
) {
    // Without it a small answer waits for the acknowledgement of the one before.
    let _ = stream.set_nodelay(true);
    let spoke = Arc::new((AtomicBool::new(false), Notify::new()));
    let heard = Arc::clone(&spoke);
    let service = service_fn(move |request: Request<Incoming>| {
        heard.0.store(true, Ordering::Relaxed);
        heard.1.notify_one();
        let mut router = router.clone();
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(peer));
        async move { router.call(request).await }
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(Patient::new(stream, patience)), service));
    // hyper's own bound begins with the first byte; this one is for those that never send it.
    let silent = async {
        tokio::time::sleep(patience).await;
        if spoke.0.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    };
    let ended = tokio::select! {
        ended = &mut connection => Some(ended),
        () = silent => {
            tracing::debug!(%peer, "connection dropped: it never asked for anything");
            return;
        }
        () = stop.cancelled() => None,
    };
    if let Some(ended) = ended {
        return log(peer, ended);
    }
    // A notice of long ago counts too: whoever has spoken once waits for no further request.
    let asked = tokio::time::timeout(LAST_MOMENT, spoke.1.notified());
    tokio::select! {
        ended = &mut connection => return log(peer, ended),
        _ = asked => {}
    }
    connection.as_mut().graceful_shutdown();
    log(peer, connection.await);
}

/// Tells somebody who is one too many to come again, without listening to what they want.
async fn say_full(mut stream: TcpStream) {
    let detail = "Too many are connected. Come again in a moment.";
    let problem = Problem { retry_after_seconds: Some(1), ..Problem::new(Code::TooManyRequests, detail) };
    let body = serde_json::to_string(&problem).unwrap_or_default();
    let answer = format!(
        "HTTP/1.1 {} Too Many Requests\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\n\
         retry-after: 1\r\nconnection: close\r\n\r\n{body}",
        problem.status,
        body.len()
    );
    let farewell = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        // What they were sending is read: a connection closed over it would take the answer with it.
        let mut thrown_away = [0; 1024];
        while stream.read(&mut thrown_away).await? > 0 {}
        Ok::<_, io::Error>(())
    };
    let _ = tokio::time::timeout(LAST_MOMENT, farewell).await;
}

fn log(peer: SocketAddr, ended: Result<(), Box<dyn std::error::Error + Send + Sync>>) {
    if let Err(error) = ended {
        tracing::debug!(%peer, error, "connection ended");
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
