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
pub(crate) struct WriteTimeout<S> {
    stream: S,
    timeout: Duration,
    /// Timer that runs while a write waits; allocated once.
    alarm: Option<Pin<Box<Sleep>>>,
    is_waiting: bool,
}

impl<S> WriteTimeout<S> {
    pub(crate) fn new(stream: S, timeout: Duration) -> Self {
        Self { stream, timeout, alarm: None, is_waiting: false }
    }

    /// Result of a write, or the timeout error if the write has waited too long.
    fn or_timeout<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.is_waiting = false;
            return written;
        }
        let timeout = self.timeout;
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep(timeout)));
        if !std::mem::replace(&mut self.is_waiting, true) {
            alarm.as_mut().reset(Instant::now() + timeout);
        }
        ready!(alarm.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.or_timeout(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.or_timeout(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.or_timeout(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.or_timeout(cx, shut)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn a_slow_reader_gets_everything_and_a_stalled_one_is_disconnected() {
        const TIMEOUT: Duration = Duration::from_secs(2);
        let (ours, mut theirs) = duplex(10);
        let mut ours = WriteTimeout::new(ours, TIMEOUT);
        let sent = tokio::spawn(async move {
            let all = ours.write_all(&[7; 100]).await;
            (all, ours.write_all(&[8; 100]).await)
        });
        let mut ten = [0; 10];
        for _ in 0..10 {
            // The slow reader: longer than the timeout in total.
            sleep(TIMEOUT / 8).await;
            theirs.read_exact(&mut ten).await.expect("ten bytes");
        }
        let stopped = Instant::now();
        let (all, more) = sent.await.expect("it ends");
        all.expect("the first hundred");
        assert_eq!(more.expect_err("nobody reads").kind(), io::ErrorKind::TimedOut);
        assert!(stopped.elapsed() >= TIMEOUT / 2, "left at once");
    }
}
