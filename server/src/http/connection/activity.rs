//! Activity of one HTTP/2 connection: requests in progress and responses being sent.
//!
//! A connection without requests, and one whose client does not read its responses, is closed after a timeout. HTTP/1
//! needs none of this: the header timeout runs while no request is open, and a client that stops reading blocks the
//! connection itself (`write_timeout`).

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::sync::Notify;

/// Counters of one connection.
#[derive(Debug)]
pub(crate) struct Activity {
    /// Number of requests without a response yet.
    handling: AtomicUsize,
    /// Number of responses not sent completely, and of those among them that wait for more data to send.
    sending: AtomicUsize,
    waiting: AtomicUsize,
    progress: Mutex<Instant>,
    changed: Notify,
}

impl Activity {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            handling: AtomicUsize::new(0),
            sending: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            progress: Mutex::new(Instant::now()),
            changed: Notify::new(),
        })
    }

    fn progressed(&self) {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn quiet_for(&self) -> Duration {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// Counts a request in progress until the returned guard is dropped.
    pub(crate) fn handle(self: &Arc<Self>) -> RequestGuard {
        self.handling.fetch_add(1, Relaxed);
        self.changed.notify_one();
        RequestGuard(Arc::clone(self))
    }

    /// Waits until no request arrived for `idle`, or until the client read nothing of a response for `write_timeout`.
    pub(crate) async fn is_over(&self, idle: Duration, write_timeout: Duration) {
        loop {
            let is_idle = || self.handling.load(Relaxed) == 0 && self.sending.load(Relaxed) == 0;
            if is_idle() {
                let notified = tokio::time::timeout(idle, self.changed.notified()).await;
                if notified.is_err() && is_idle() {
                    return;
                }
                continue;
            }
            let changed = tokio::time::timeout(write_timeout, self.changed.notified()).await;
            let is_stuck =
                self.handling.load(Relaxed) == 0 && self.waiting.load(Relaxed) == 0 && self.sending.load(Relaxed) > 0;
            if changed.is_err() && is_stuck && self.quiet_for() >= write_timeout {
                return;
            }
        }
    }
}

/// Guard of a request in progress, dropped when the response begins or the request is abandoned.
#[derive(Debug)]
pub(crate) struct RequestGuard(Arc<Activity>);

impl RequestGuard {
    /// Wraps the response body so that it is counted until its end.
    pub(crate) fn answer(self, body: Body) -> Body {
        let activity = Arc::clone(&self.0);
        activity.sending.fetch_add(1, Relaxed);
        activity.progressed();
        Body::new(CountedBody { body, activity, is_waiting: false })
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.handling.fetch_sub(1, Relaxed);
        self.0.changed.notify_one();
    }
}

/// Response body that is counted.
struct CountedBody {
    body: Body,
    activity: Arc<Activity>,
    /// True if it has nothing to send at the moment.
    is_waiting: bool,
}

impl CountedBody {
    fn set_waiting(&mut self, is_waiting: bool) {
        if is_waiting != self.is_waiting {
            self.is_waiting = is_waiting;
            if is_waiting {
                self.activity.waiting.fetch_add(1, Relaxed)
            } else {
                self.activity.waiting.fetch_sub(1, Relaxed)
            };
        }
    }
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        self.activity.progressed();
        self.set_waiting(polled.is_pending());
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for CountedBody {
    fn drop(&mut self) {
        self.set_waiting(false);
        self.activity.sending.fetch_sub(1, Relaxed);
        self.activity.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use http_body_util::BodyExt as _;

    use super::*;

    const SHORT: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn idle_and_stalled_connections_end() {
        let activity = Activity::new();
        let handling = activity.handle();
        assert!(tokio::time::timeout(SHORT * 10, activity.is_over(SHORT, SHORT)).await.is_err(), "it is handled");
        let body = handling.answer(Body::from_stream(futures::stream::pending::<Result<Bytes, axum::Error>>()));
        let mut body = Box::pin(body.collect());
        assert!(body.as_mut().now_or_never().is_none());
        assert!(tokio::time::timeout(SHORT * 10, activity.is_over(SHORT, SHORT)).await.is_err(), "it waits for more");
        drop(body);
        activity.is_over(SHORT, SHORT).await;
        let unread = activity.handle().answer(Body::from("whole"));
        std::thread::sleep(SHORT);
        activity.is_over(Duration::from_hours(1), SHORT).await;
        drop(unread);
    }
}
