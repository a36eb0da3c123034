//! `treeline logs`: prints the log of an item's attempt, and follows it.

use std::time::Duration;

use client::{Client, Events, PageQuery};
use domain::{Item, api::LogLine, id::Uuid, query::topic::Topic};

use super::{Exit, jobs::PAGE, show};

/// Pause before the stream is opened again.
const REOPEN_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause that a `Retry-After` can cause.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// ID of the item.
    #[arg(value_parser = super::object_id)]
    id: Uuid,
    /// Number of the attempt; by default the newest one that has a log.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    attempt: Option<i32>,
    /// Continue with new lines, and with later attempts, until the item is final.
    #[arg(long, short, conflicts_with = "attempt")]
    follow: bool,
}

pub(super) async fn print(client: &Client, options: &Options, json: bool) -> anyhow::Result<Exit> {
    let mut reader = Reader { client, item: options.id, attempt: options.attempt, cursor: None, line: 0, json };
    if !options.follow {
        reader.read().await?;
        return Ok(Exit::Done);
    }
    loop {
        // Opened before the state is read, so that no change in between is missed.
        let (mut events, pause) = match client.topics(&[Topic::Item(options.id)]).await {
            Ok(events) => (Some(events), REOPEN_PAUSE),
            // Too many streams are open: the log is read without one.
            Err(error) if error.status() == Some(429) => (None, error.retry_after().unwrap_or(REOPEN_PAUSE)),
            Err(error) => return Err(error.into()),
        };
        loop {
            let item = client.item(options.id).await?;
            reader.follow(&item).await?;
            if item.state.is_final() {
                return Ok(Exit::Done);
            }
            if !changed(events.as_mut()).await {
                break;
            }
        }
        // A server with too many streams, or one that stops, ends each of them at once.
        tokio::time::sleep(pause.clamp(REOPEN_PAUSE, LONGEST_PAUSE)).await;
    }
}

/// Waits for a change; false if the stream has ended, or if there is none.
async fn changed(events: Option<&mut Events>) -> bool {
    let Some(events) = events else { return false };
    matches!(events.next_frame().await, Ok(Some(_)))
}

/// Position in the log of an item.
struct Reader<'a> {
    client: &'a Client,
    item: Uuid,
    attempt: Option<i32>,
    /// Cursor of the last page that was read.
    cursor: Option<String>,
    /// Last line of the attempt that was printed.
    line: i64,
    json: bool,
}

impl Reader<'_> {
    /// Prints the lines that are new, of all attempts up to the item's newest.
    async fn follow(&mut self, item: &Item) -> client::Result<()> {
        self.read().await?;
        while let Some(attempt) = self.attempt.filter(|attempt| *attempt < item.attempts) {
            (self.attempt, self.cursor, self.line) = (Some(attempt + 1), None, 0);
            self.read().await?;
        }
        Ok(())
    }

    /// Prints the lines of the attempt that are new. Without an attempt, the pages are of the newest one that has a log,
    /// which is the attempt from then on.
    async fn read(&mut self) -> client::Result<()> {
        let requested = self.attempt;
        loop {
            let query = PageQuery { limit: Some(PAGE), cursor: self.cursor.clone() };
            let page = self.client.logs(self.item, requested, &query).await?;
            for line in &page.data {
                if line.line > self.line {
                    (self.attempt, self.line) = (Some(line.attempt), line.line);
                    self.print(line);
                }
            }
            match page.next_cursor {
                Some(cursor) => self.cursor = Some(cursor),
                None => break,
            }
        }
        if self.attempt != requested {
            // A cursor is only valid for the same list.
            self.cursor = None;
        }
        Ok(())
    }

    fn print(&self, line: &LogLine) {
        if self.json {
            return show::json(line);
        }
        let fields = line.fields.as_ref().map(|fields| format!("  {}", show::plain(fields.text()))).unwrap_or_default();
        let (at, level) = (line.at, line.level.as_str());
        show::print_line(&format!("{at}  {}  {level:<5}  {}{fields}", line.attempt, show::plain(&line.message)));
    }
}

#[cfg(test)]
mod tests {
    use domain::{Code, Problem};
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    #[tokio::test]
    async fn a_log_is_followed_without_a_stream_if_too_many_are_open() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        tokio::spawn(async move {
            for code in [Code::QuotaExceeded, Code::NotFound] {
                let (mut stream, _) = listener.accept().await.expect("a connection");
                assert!(stream.read(&mut [0; 4096]).await.expect("a request") > 0);
                let body = serde_json::to_string(&Problem::new(code, "why")).expect("JSON");
                let (status, length, kind) = (code.status(), body.len(), domain::problem::MEDIA_TYPE);
                let head = format!("HTTP/1.1 {status} x\r\ncontent-length: {length}\r\nconnection: close\r\n");
                let answer = format!("{head}content-type: {kind}\r\n\r\n{body}");
                stream.write_all(answer.as_bytes()).await.expect("written");
            }
        });
        let client = Client::new(&url, None).expect("a client").with_retry_timeout(Duration::ZERO);
        let options = Options { id: Uuid::nil(), attempt: None, follow: true };
        let error = print(&client, &options, false).await.expect_err("the item is read, and not found");
        let error = error.downcast::<client::Error>().expect("an error of a call");
        assert_eq!(error.code(), Some(Code::NotFound));
    }
}
