//! Event stream of a job: a parser for `text/event-stream`, and the events in it.
//!
//! The parser is our own because it takes fifty lines and must bound its memory. It reads one connection;
//! [`watch`](crate::watch) reconnects and keeps the newest state.

use std::time::Duration;

use domain::{
    Job,
    id::Uuid,
    query::topic::Topic,
    tree::change::{Change, event},
};
use reqwest::{Method, Response, header::HeaderValue};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::{
    client::{Call, Client},
    error::{Error, Result},
};

/// Idle timeout of a stream: three keep-alives, which arrive every 15 s.
const IDLE_TIMEOUT: Duration = Duration::from_secs(45);
/// Maximum size of one event in bytes; a snapshot of 1,000 jobs is about 1 MiB.
const MAX_EVENT: usize = 16 * 1024 * 1024;

/// One event of `text/event-stream`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// `message` when the stream named none.
    pub event: String,
    /// Lines of data, joined by `\n`.
    pub data: String,
}

/// Splits bytes into frames. It ignores comments, `id` and `retry`: state is absolute, so a reconnect needs no
/// position.
#[derive(Debug, Default)]
pub struct Parser {
    line: Vec<u8>,
    event: String,
    data: String,
    has_data: bool,
    /// True if the last byte was CR: an LF right after it belongs to the same line end.
    after_cr: bool,
    begun: bool,
}

/// An event larger than the parser holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

impl Parser {
    /// Takes the next bytes of the stream and appends the frames they complete.
    pub fn feed(&mut self, bytes: &[u8], frames: &mut Vec<Frame>) -> Result<(), TooLarge> {
        for &byte in bytes {
            let after_cr = std::mem::take(&mut self.after_cr);
            match byte {
                b'\n' if after_cr => {}
                b'\n' => self.end_line(frames),
                b'\r' => {
                    self.after_cr = true;
                    self.end_line(frames);
                }
                _ if self.line.len() + self.data.len() >= MAX_EVENT => return Err(TooLarge),
                _ => self.line.push(byte),
            }
        }
        Ok(())
    }

    fn end_line(&mut self, frames: &mut Vec<Frame>) {
        let line = std::mem::take(&mut self.line);
        let mut text = String::from_utf8_lossy(&line);
        if !self.begun {
            self.begun = true;
            if let Some(rest) = text.strip_prefix('\u{feff}') {
                text = rest.to_owned().into();
            }
        }
        if text.is_empty() {
            self.end_event(frames);
            return;
        }
        let (field, value) = text.split_once(':').unwrap_or((&text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event),
            "data" => {
                if self.has_data {
                    self.data.push('\n');
                }
                self.has_data = true;
                self.data.push_str(value);
            }
            _ => {}
        }
    }

    fn end_event(&mut self, frames: &mut Vec<Frame>) {
        let event = std::mem::take(&mut self.event);
        let data = std::mem::take(&mut self.data);
        if std::mem::take(&mut self.has_data) {
            frames.push(Frame { event: if event.is_empty() { "message".to_owned() } else { event }, data });
        }
    }
}

/// Event of a job's stream.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum JobEvent {
    /// The job with its subtree; first on every connection.
    Snapshot(Box<Job>),
    /// Change, absolute and versioned.
    Change(Box<Change>),
    /// Too many watchers: poll instead.
    Busy,
    /// The server is shutting down: reconnect.
    Bye,
    /// The job no longer exists. The last event.
    Removed,
}

/// One connection to a job's event stream.
#[derive(Debug)]
pub struct Events {
    call: String,
    response: Response,
    parser: Parser,
    frames: std::collections::VecDeque<Frame>,
}

impl Client {
    /// Opens the event stream of a job.
    pub async fn events(&self, job: Uuid) -> Result<Events> {
        self.open_events(self.call(Method::GET, &["jobs", &job.to_string(), "events"])).await
    }

    /// Opens one stream of many topics, such as `operations`; read it with [`Events::next_frame`].
    pub async fn topics(&self, topics: &[Topic]) -> Result<Events> {
        let names: Vec<String> = topics.iter().map(Topic::to_string).collect();
        self.open_events(self.call(Method::GET, &["events"]).query("topics", &names.join(","))).await
    }

    async fn open_events(&self, call: Call) -> Result<Events> {
        let call = call.header("accept", HeaderValue::from_static("text/event-stream")).streaming();
        let name = call.name();
        // A stream has no request timeout, so a response that does not begin counts as idle, too.
        let response =
            timeout(IDLE_TIMEOUT, self.send(call)).await.map_err(|_| Error::IdleTimeout { call: name.clone() })??;
        Ok(Events { call: name, response, parser: Parser::default(), frames: std::collections::VecDeque::new() })
    }
}

impl Events {
    /// The next event; `None` when the server has ended the stream. Cancel safe.
    ///
    /// # Errors
    /// [`Error::Transport`] and [`Error::IdleTimeout`] when the connection broke; open another.
    pub async fn next(&mut self) -> Result<Option<JobEvent>> {
        while let Some(frame) = self.next_frame().await? {
            if let Some(event) = self.read(&frame)? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// The next event as it was sent; `None` when the server has ended the stream. Cancel safe.
    ///
    /// # Errors
    /// As for [`Events::next`].
    pub async fn next_frame(&mut self) -> Result<Option<Frame>> {
        loop {
            if let Some(frame) = self.frames.pop_front() {
                return Ok(Some(frame));
            }
            let chunk = timeout(IDLE_TIMEOUT, self.response.chunk())
                .await
                .map_err(|_| Error::IdleTimeout { call: self.call.clone() })?
                .map_err(|cause| Error::Transport { call: self.call.clone(), tries: 1, cause: cause.without_url() })?;
            let Some(chunk) = chunk else { return Ok(None) };
            let mut frames = Vec::new();
            self.parser.feed(&chunk, &mut frames).map_err(|TooLarge| Error::Stream {
                call: self.call.clone(),
                what: "an event is larger than 16 MiB",
            })?;
            self.frames.extend(frames);
        }
    }

    /// Reads a frame. It ignores unknown event names, so that a newer server can add events.
    fn read(&self, frame: &Frame) -> Result<Option<JobEvent>> {
        Ok(match frame.event.as_str() {
            event::SNAPSHOT => Some(JobEvent::Snapshot(Box::new(self.json(&frame.data)?))),
            event::CHANGE => Some(JobEvent::Change(Box::new(self.json(&frame.data)?))),
            event::BUSY => Some(JobEvent::Busy),
            event::BYE => Some(JobEvent::Bye),
            event::REMOVED => Some(JobEvent::Removed),
            _ => None,
        })
    }

    fn json<T: DeserializeOwned>(&self, data: &str) -> Result<T> {
        serde_json::from_str(data).map_err(|cause| Error::InvalidResponse { call: self.call.clone(), cause })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(text: &str) -> Vec<Frame> {
        let mut frames = Vec::new();
        Parser::default().feed(text.as_bytes(), &mut frames).expect("small");
        frames
    }

    fn frame(event: &str, data: &str) -> Frame {
        Frame { event: event.to_owned(), data: data.to_owned() }
    }

    #[test]
    fn events_have_a_name_and_lines_of_data() {
        let text = ": hello\n\nevent: snapshot\nid: 7\ndata: {\"a\":\ndata: 1}\n\ndata:x\n\nevent: bye\ndata:\n\n";
        assert_eq!(frames(text), [frame("snapshot", "{\"a\":\n1}"), frame("message", "x"), frame("bye", "")]);
    }

    #[test]
    fn an_event_without_data_or_without_its_end_is_none() {
        assert_eq!(frames("event: lonely\n\n"), []);
        assert_eq!(frames("data: half"), []);
        assert_eq!(frames("data: half\n"), []);
        assert_eq!(frames("event: lonely\n\ndata: a\n\n"), [frame("message", "a")]);
    }

    #[test]
    fn every_line_end_and_every_cut_gives_the_same_events() {
        let plain = "\u{feff}event: change\ndata: {\"é\":1}\n\n:\n\ndata: b\ndata\ndata: c\n\n";
        let expected = [frame("change", "{\"é\":1}"), frame("message", "b\n\nc")];
        for end in ["\n", "\r", "\r\n"] {
            let text = plain.replace('\n', end);
            for cut in 0..=text.len() {
                let (head, tail) = text.as_bytes().split_at(cut);
                let (mut parser, mut frames) = (Parser::default(), Vec::new());
                parser.feed(head, &mut frames).expect("small");
                parser.feed(tail, &mut frames).expect("small");
                assert_eq!(frames, expected, "{end:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut parser = Parser::default();
        let line = vec![b'a'; 1 << 20];
        let refused = (0..20).any(|_| parser.feed(&line, &mut Vec::new()).is_err());
        assert!(refused);
    }
}
