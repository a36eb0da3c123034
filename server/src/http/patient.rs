//! Write timeout of a connection.
//!
//! Data that a client does not read fills its window and then the system's buffers. From then on a write waits for as
//! long as the client likes. Here a write waits up to the timeout; then the connection is closed.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};

/// Stream that fails if a write makes no progress within the timeout.
pub(super) struct Patient<S> {
    stream: S,
    patience: Duration,
    /// Timer that runs while a write waits; allocated once.
    alarm: Option<Pin<Box<Sleep>>>,
    waits: bool,
}

impl<S> Patient<S> {
    pub(super) fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, alarm: None, waits: false }
    }

    /// Result of a write, or the timeout error if the write has waited too long.
    fn judged<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waits = false;
            return written;
        }
        let patience = self.patience;
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep(patience)));
        if !std::mem::replace(&mut self.waits, true) {
            alarm.as_mut().reset(Instant::now() + patience);
        }
        ready!(alarm.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.judged(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.judged(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.judged(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.judged(cx, shut)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn who_reads_slowly_gets_it_all_and_who_stops_is_left() {
        const PATIENCE: Duration = Duration::from_secs(2);
        let (ours, mut theirs) = duplex(10);
        let mut ours = Patient::new(ours, PATIENCE);
        let sent = tokio::spawn(async move {
            let all = ours.write_all(&[7; 100]).await;
            (all, ours.write_all(&[8; 100]).await)
        });
        let mut ten = [0; 10];
        for _ in 0..10 {
            // The slow reader: longer than the timeout in total.
            sleep(PATIENCE / 8).await;
            theirs.read_exact(&mut ten).await.expect("ten bytes");
        }
        let stopped = Instant::now();
        let (all, more) = sent.await.expect("it ends");
        all.expect("the first hundred");
        assert_eq!(more.expect_err("nobody reads").kind(), io::ErrorKind::TimedOut);
        assert!(stopped.elapsed() >= PATIENCE / 2, "left at once");
    }
}
