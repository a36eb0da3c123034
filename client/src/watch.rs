//! Watching a tree until it is complete, over any number of connections.
//!
//! A broken stream is reopened with backoff; a server that has too many (`busy`, or 429) is polled instead. State is
//! absolute and versioned, so only the tree itself is kept between connections.

use std::time::Duration;

use domain::{Code, Item, Job, JobStatus, id::Uuid};

use crate::{
    client::Client,
    error::{Error, Result},
    events::{Events, JobEvent},
    retry::{backoff, pause_after},
};

/// Seconds of one long poll, used while the server refuses streams.
const POLL_SECONDS: u32 = 20;

/// Event of a watch.
#[derive(Debug)]
#[non_exhaustive]
pub enum WatchEvent {
    /// The state changed; read [`Watch::job`] and [`Watch::in_flight`].
    Changed,
    /// The connection is lost and being reopened.
    Disconnected(Error),
    /// The tree is complete. The last event; [`Watch::job`] is final.
    Completed,
    /// The tree no longer exists. The last event.
    Removed,
}

/// A watched job.
#[derive(Debug)]
pub struct Watch {
    client: Client,
    id: Uuid,
    job: Option<Job>,
    in_flight: Vec<Item>,
    events: Option<Events>,
    long_polls: bool,
    failures: u32,
}

impl Client {
    /// Watches a job with everything below it.
    pub fn watch(&self, id: Uuid) -> Watch {
        Watch {
            // No retries in the client: the watch reports a lost connection and pauses itself.
            client: self.with_retry_timeout(Duration::ZERO),
            id,
            job: None,
            in_flight: Vec::new(),
            events: None,
            long_polls: false,
            failures: 0,
        }
    }
}

impl Watch {
    /// The newest state; `None` before the first event.
    pub fn job(&self) -> Option<&Job> {
        self.job.as_ref()
    }

    /// The items that workers hold now, oldest first, at most 50, without payloads.
    pub fn in_flight(&self) -> &[Item] {
        &self.in_flight
    }

    /// Waits for the next event.
    ///
    /// # Errors
    /// Errors that do not go away: no such job, not allowed, an unreadable response.
    pub async fn next(&mut self) -> Result<WatchEvent> {
        loop {
            match self.step().await {
                Ok(Some(event)) => {
                    self.failures = 0;
                    return Ok(event);
                }
                Ok(None) => {}
                Err(error) if error.status() == Some(410) => return Ok(WatchEvent::Removed),
                Err(error) if error.is_transient() => {
                    self.events = None;
                    self.failures += 1;
                    tokio::time::sleep(pause_after(&error, self.failures)).await;
                    return Ok(WatchEvent::Disconnected(error));
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn step(&mut self) -> Result<Option<WatchEvent>> {
        if self.long_polls {
            let version = self.job.as_ref().map_or(0, |job| job.version);
            let newer_job = self.client.newer_job(self.id, version, POLL_SECONDS).await?;
            return Ok(newer_job.and_then(|job| self.replace_job(job)));
        }
        let events = match &mut self.events {
            Some(events) => events,
            None => match self.client.events(self.id).await {
                Ok(events) => self.events.insert(events),
                Err(error) if error.status() == Some(429) => {
                    self.poll_instead();
                    // The quota is that of open streams; any other limit may be one of requests, so a poll waits, too.
                    return if error.code() == Some(Code::QuotaExceeded) { Ok(None) } else { Err(error) };
                }
                Err(error) => return Err(error),
            },
        };
        Ok(match events.next().await? {
            Some(JobEvent::Snapshot(job)) => self.replace_job(*job),
            Some(JobEvent::Change(change)) => {
                let Some(job) = &mut self.job else { return Ok(None) };
                job.apply(&change);
                self.in_flight = change.items;
                self.event_for_state()
            }
            Some(JobEvent::Busy) => {
                self.poll_instead();
                None
            }
            Some(JobEvent::Removed) => Some(WatchEvent::Removed),
            Some(JobEvent::Bye) | None => {
                self.events = None;
                self.failures += 1;
                tokio::time::sleep(backoff(self.failures)).await;
                None
            }
        })
    }

    /// Uses long polls from now on, which do not know the items in flight.
    fn poll_instead(&mut self) {
        self.events = None;
        self.long_polls = true;
        self.in_flight.clear();
    }

    fn replace_job(&mut self, job: Job) -> Option<WatchEvent> {
        self.job = Some(job);
        self.event_for_state()
    }

    fn event_for_state(&mut self) -> Option<WatchEvent> {
        let job = self.job.as_ref()?;
        if job.tree.status != JobStatus::Completed {
            return Some(WatchEvent::Changed);
        }
        self.in_flight.clear();
        Some(WatchEvent::Completed)
    }
}

#[cfg(test)]
mod tests {
    use domain::Problem;
    use tokio::{
        io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
        net::TcpListener,
    };

    use super::*;

    /// Answers one request after the other with these problems. Returns the paths of the requests.
    async fn serve(listener: TcpListener, problems: Vec<Problem>) -> Vec<String> {
        let mut paths = Vec::new();
        for problem in problems {
            let mut stream = BufReader::new(listener.accept().await.expect("a connection").0);
            let (mut line, mut request) = (String::new(), String::new());
            while stream.read_line(&mut line).await.expect("a line") > 2 {
                request.push_str(&line);
                line.clear();
            }
            paths.push(request.split(' ').nth(1).expect("a path").to_owned());
            let body = serde_json::to_string(&problem).expect("JSON");
            let (status, length) = (problem.status, body.len());
            let head = format!("HTTP/1.1 {status} x\r\ncontent-length: {length}\r\nconnection: close\r\n");
            let kind = domain::problem::MEDIA_TYPE;
            stream.write_all(format!("{head}content-type: {kind}\r\n\r\n{body}").as_bytes()).await.expect("written");
        }
        paths
    }

    // A watch once reopened the stream forever and never read the job.
    #[tokio::test]
    async fn a_job_is_polled_when_its_stream_exceeds_a_limit() {
        let of = |code, retry_after_seconds| Problem { retry_after_seconds, ..Problem::new(code, "why") };
        for refusal in [of(Code::QuotaExceeded, Some(3_600)), of(Code::TooManyRequests, None)] {
            let is_quota = refusal.code == Code::QuotaExceeded;
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let url = format!("http://{}", listener.local_addr().expect("an address"));
            let serving = tokio::spawn(serve(listener, vec![refusal, of(Code::JobRemoved, None)]));
            let mut watch = Client::new(&url, None).expect("a client").watch(Uuid::nil());
            if !is_quota {
                let event = watch.next().await.expect("an event");
                assert!(matches!(event, WatchEvent::Disconnected(_)), "{event:?}");
            }
            let event = watch.next().await.expect("an event");
            assert!(matches!(event, WatchEvent::Removed), "{event:?}");
            let paths = serving.await.expect("served");
            let job = format!("/api/v1/jobs/{}", Uuid::nil());
            assert_eq!(paths, [format!("{job}/events"), format!("{job}?wait_seconds={POLL_SECONDS}")]);
        }
    }
}
