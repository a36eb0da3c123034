//! Watching a tree until it is complete, over any number of connections.
//!
//! A broken stream is reopened with backoff; a `busy` server is polled instead. State is absolute and versioned, so
//! only the tree itself is kept between connections.

use std::time::Duration;

use domain::{Item, Job, JobStatus, id::Uuid};

use crate::{
    client::Client,
    error::{Error, Result},
    events::{Events, JobEvent},
    retry::backoff,
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
                    tokio::time::sleep(backoff(self.failures)).await;
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
            None => self.events.insert(self.client.events(self.id).await?),
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
                self.events = None;
                self.long_polls = true;
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
