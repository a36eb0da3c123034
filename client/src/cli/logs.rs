//! Standard error of a command as the log of its attempt (`attempt-logs`).
//!
//! The log is best effort: a line that cannot be sent never delays or fails an item. A line is stored once at most: those
//! of a request that the server may have processed are not sent again.

use std::{
    collections::VecDeque,
    pin::pin,
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use client::Error;
use domain::{
    Time,
    api::{LogLevel, NewLogLine},
    limits::MOST_LOG_LINES,
};
use tokio::sync::Notify;

/// Interval at which lines are sent.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);
/// Time for the last lines of a command that has ended. Its result waits for them.
const LAST_LINES_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum size of the buffered messages in bytes: the same as the server's limit (`domain::limits::LARGEST_LOG`).
const MAX_BUFFERED_BYTES: usize = 1 << 20;
/// Maximum size of the messages in one request in bytes, exceeded only by a single longer line. The server drops whole
/// requests, oldest first.
const REQUEST_BYTES: usize = 64 << 10;

/// Lines to be sent; the oldest are dropped when they exceed the server's limit.
#[derive(Debug, Default)]
pub(super) struct Logs(Mutex<Buffer>);

#[derive(Debug, Default)]
struct Buffer {
    lines: VecDeque<NewLogLine>,
    bytes: usize,
}

impl Buffer {
    fn drop_oldest(&mut self) {
        while self.bytes > MAX_BUFFERED_BYTES {
            let Some(oldest) = self.lines.pop_front() else { break };
            self.bytes = self.bytes.saturating_sub(oldest.message.len());
        }
    }
}

impl Logs {
    /// Adds a line, unless it is empty.
    pub(super) fn add(&self, line: &str) {
        let message = line.trim_end();
        if message.is_empty() {
            return;
        }
        let mut buffer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        buffer.bytes += message.len();
        let message = message.replace('\0', "\u{FFFD}");
        buffer.lines.push_back(NewLogLine {
            at: Some(Time(SystemTime::now().into())),
            level: LogLevel::Info,
            message,
            fields: None,
        });
        buffer.drop_oldest();
    }

    fn take(&self) -> Vec<NewLogLine> {
        let mut buffer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = 0;
        let fit = buffer.lines.iter().take(MOST_LOG_LINES).take_while(|line| {
            bytes += line.message.len();
            bytes <= REQUEST_BYTES
        });
        let n = fit.count().max(1).min(buffer.lines.len());
        let lines: Vec<NewLogLine> = buffer.lines.drain(..n).collect();
        buffer.bytes = buffer.bytes.saturating_sub(lines.iter().map(|line| line.message.len()).sum());
        lines
    }

    /// Puts lines back that certainly were not stored.
    fn put_back(&self, lines: Vec<NewLogLine>) {
        let mut buffer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for line in lines.into_iter().rev() {
            buffer.bytes += line.message.len();
            buffer.lines.push_front(line);
        }
        buffer.drop_oldest();
    }

    /// Sends lines with `log` while the command runs, and the last ones when it has ended, unless it `is_stopped`: then
    /// little time is left to report its end.
    pub(super) async fn send_during<T, F>(
        &self,
        log: impl Fn(Vec<NewLogLine>) -> F,
        is_stopped: impl Fn() -> bool,
        command: impl Future<Output = T>,
    ) -> T
    where
        F: Future<Output = Result<(), Error>>,
    {
        let ended = Notify::new();
        let mut command = pin!(command);
        let mut sending = pin!(async {
            let mut failures = 0;
            loop {
                let is_last = tokio::time::timeout(FLUSH_INTERVAL, ended.notified()).await.is_ok();
                match self.send(&log).await {
                    Ok(()) => failures = 0,
                    Err(error) => {
                        failures += 1;
                        if failures == 1 {
                            tracing::warn!(%error, "log lines of an attempt were not stored");
                        }
                        if is_final(&error) {
                            return;
                        }
                    }
                }
                if is_last {
                    return;
                }
            }
        });
        let mut is_sending = true;
        let output = loop {
            tokio::select! {
                output = &mut command => break output,
                () = &mut sending, if is_sending => is_sending = false,
            }
        };
        if is_sending && !is_stopped() {
            ended.notify_one();
            let _ = tokio::time::timeout(LAST_LINES_TIMEOUT, sending).await;
        }
        output
    }

    async fn send<F>(&self, log: impl Fn(Vec<NewLogLine>) -> F) -> Result<(), Error>
    where
        F: Future<Output = Result<(), Error>>,
    {
        loop {
            let lines = self.take();
            if lines.is_empty() {
                return Ok(());
            }
            if let Err(error) = log(lines.clone()).await {
                if error.is_unprocessed() {
                    self.put_back(lines);
                }
                return Err(error);
            }
        }
    }
}

/// True if the log takes no more lines: Treeline refuses them, or the assignment is over.
fn is_final(error: &Error) -> bool {
    error.code().is_some() && matches!(error.status(), Some(404 | 409 | 410 | 413 | 422))
}

#[cfg(test)]
mod tests {
    use domain::{Code, Problem};

    use super::*;

    #[test]
    fn lines_wait_in_order_and_the_oldest_go_first() {
        let logs = Logs::default();
        for line in ["one\r\n", "  two\0", "", "\n"] {
            logs.add(line);
        }
        let taken: Vec<String> = logs.take().into_iter().map(|line| line.message).collect();
        assert_eq!(taken, ["one", "  two\u{FFFD}"]);
        assert_eq!(logs.take().len(), 0);

        let long = "x".repeat(MAX_BUFFERED_BYTES / 2);
        for line in ["first", &long, "last", &long] {
            logs.add(line);
        }
        let taken: Vec<Vec<NewLogLine>> = std::iter::repeat_with(|| logs.take()).take(3).collect();
        assert_eq!(taken.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 0]);
        assert_eq!(taken[0][0].message, "last");
        for n in 0..=MOST_LOG_LINES {
            logs.add(&n.to_string());
        }
        assert_eq!((logs.take().len(), logs.take().len()), (MOST_LOG_LINES, 1));
    }

    fn problem(code: Code) -> Error {
        Error::Problem(Box::new(Problem::new(code, "why")))
    }

    /// Messages that a server stores which answers with these errors first.
    async fn stored(faults: &[Code], is_stopped: bool) -> Vec<String> {
        let (logs, stored, answered) = (Logs::default(), Mutex::new(Vec::new()), Notify::new());
        let faults: Mutex<VecDeque<Code>> = Mutex::new(faults.iter().copied().collect());
        let log = |lines: Vec<NewLogLine>| {
            let fault = faults.lock().expect("a lock").pop_front();
            if fault.is_none() {
                stored.lock().expect("a lock").extend(lines.into_iter().map(|line| line.message));
            }
            answered.notify_one();
            async move { fault.map_or(Ok(()), |code| Err(problem(code))) }
        };
        logs.add("first");
        let command = async {
            let count = faults.lock().expect("a lock").len().max(1);
            for _ in 0..count {
                answered.notified().await;
            }
            logs.add("last");
            "result"
        };
        assert_eq!(logs.send_during(log, || is_stopped, command).await, "result");
        stored.into_inner().expect("a lock")
    }

    #[tokio::test]
    async fn lines_outlive_a_server_that_is_away_for_a_moment() {
        assert_eq!(stored(&[Code::Busy, Code::ShuttingDown], false).await, ["first", "last"]);
        // Without its database, the server may have stored them: sent again, they would be in the log twice.
        assert_eq!(stored(&[Code::DatabaseUnavailable], false).await, ["last"], "no line twice");
        assert_eq!(stored(&[Code::AssignmentClosed], false).await, [""; 0], "nothing is sent after a refusal");
        assert_eq!(stored(&[], true).await, ["first"], "no time for the last line");
    }

    #[tokio::test]
    async fn a_result_does_not_wait_for_a_server_that_does_not_answer() {
        let logs = Logs::default();
        logs.add("line");
        let sent = logs.send_during(|_| std::future::pending(), || false, std::future::ready("result"));
        let result = tokio::time::timeout(LAST_LINES_TIMEOUT * 10, sent).await;
        assert_eq!(result.expect("in time"), "result");
    }
}
