//! Activity of one HTTP/2 connection: requests that are being handled, answers that are being sent.
//!
//! A connection over which nothing is asked, and one whose answers nobody reads, end after a while. HTTP/1 needs none of
//! this: there the time for the next request's headers runs while nothing is asked, and a reader who stops blocks the
//! connection itself (`patient`).

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

/// Counts of one connection.
#[derive(Debug)]
pub(super) struct Activity {
    /// Requests without an answer yet.
    handling: AtomicUsize,
    /// Answers whose end was not sent yet, and those of them that wait for more to send.
    sending: AtomicUsize,
    waiting: AtomicUsize,
    progress: Mutex<Instant>,
    changed: Notify,
}

impl Activity {
    pub(super) fn new() -> Arc<Self> {
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

    /// A request that is being handled.
    pub(super) fn handle(self: &Arc<Self>) -> Handling {
        self.handling.fetch_add(1, Relaxed);
        self.changed.notify_one();
        Handling(Arc::clone(self))
    }

    /// Waits until no request came for `idle`, or the client took none of an answer for `write_timeout`.
    pub(super) async fn is_over(&self, idle: Duration, write_timeout: Duration) {
        loop {
            let is_idle = || self.handling.load(Relaxed) == 0 && self.sending.load(Relaxed) == 0;
            if is_idle() {
                let asked = tokio::time::timeout(idle, self.changed.notified()).await;
                if asked.is_err() && is_idle() {
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

/// Dropped when the answer begins, or the request is given up.
#[derive(Debug)]
pub(super) struct Handling(Arc<Activity>);

impl Handling {
    /// The body of the answer, counted until its end.
    pub(super) fn answer(self, body: Body) -> Body {
        let activity = Arc::clone(&self.0);
        activity.sending.fetch_add(1, Relaxed);
        activity.progressed();
        Body::new(Counted { body, activity, is_waiting: false })
    }
}

impl Drop for Handling {
    fn drop(&mut self) {
        self.0.handling.fetch_sub(1, Relaxed);
        self.0.changed.notify_one();
    }
}

/// A body that is counted.
struct Counted {
    body: Body,
    activity: Arc<Activity>,
    /// It has nothing to send at this moment.
    is_waiting: bool,
}

impl Counted {
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

impl HttpBody for Counted {
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

impl Drop for Counted {
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
    async fn what_is_idle_or_not_read_is_over() {
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
