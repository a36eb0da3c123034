//! Standard error of a command as the log of its attempt (`attempt-logs`).
//!
//! The log is best effort: a line that cannot be sent never delays or fails an item.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use client::{Error, Task};
use domain::{
    Time,
    api::{LogLevel, NewLogLine},
    limits::MOST_LOG_LINES,
};
use tokio::sync::Notify;

/// Interval at which lines are sent.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);
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
        while buffer.bytes > MAX_BUFFERED_BYTES {
            let Some(oldest) = buffer.lines.pop_front() else { break };
            buffer.bytes = buffer.bytes.saturating_sub(oldest.message.len());
        }
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

    /// Sends lines while the command runs, and the last ones when it has ended.
    pub(super) async fn send_during<T>(&self, task: &Task, command: impl Future<Output = T>) -> T {
        let ended = Notify::new();
        let run = async {
            let output = command.await;
            ended.notify_one();
            output
        };
        let send = async {
            loop {
                let is_last = tokio::time::timeout(FLUSH_INTERVAL, ended.notified()).await.is_ok();
                if let Err(error) = self.send(task).await {
                    tracing::warn!(%error, assignment = %task.assignment_id(), "log lines of an attempt were not stored");
                    return;
                }
                if is_last {
                    return;
                }
            }
        };
        tokio::join!(run, send).0
    }

    async fn send(&self, task: &Task) -> Result<(), Error> {
        loop {
            let lines = self.take();
            if lines.is_empty() {
                return Ok(());
            }
            task.log(lines).await?;
        }
    }
}

#[cfg(test)]
mod tests {
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
}
