//! Watching a tree until it is complete, over any number of connections.
//!
//! A broken stream is reopened with backoff; a `busy` server is polled instead. State is absolute and versioned, so
//! only the tree itself is kept between connections.

use std::time::Duration;

use domain::{Item, Job, JobStatus, id::Uuid};

use crate::{
    again::backoff,
    client::Client,
    error::{Error, Result},
    events::{Events, JobEvent},
};

/// Seconds of one long poll, used while the server refuses streams.
const POLL_SECONDS: u32 = 20;

/// Event of a watch.
#[derive(Debug)]
#[non_exhaustive]
pub enum Seen {
    /// The state changed; read [`Watch::job`] and [`Watch::in_flight`].
    Changed,
    /// The connection is lost and being reopened.
    Away(Error),
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
    polls: bool,
    failures: u32,
}

impl Client {
    /// Watches a job with everything below it.
    pub fn watch(&self, id: Uuid) -> Watch {
        Watch {
            // No retries in the client: the watch reports a lost connection and pauses itself.
            client: self.with_patience(Duration::ZERO),
            id,
            job: None,
            in_flight: Vec::new(),
            events: None,
            polls: false,
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
    pub async fn next(&mut self) -> Result<Seen> {
        loop {
            match self.step().await {
                Ok(Some(seen)) => {
                    self.failures = 0;
                    return Ok(seen);
                }
                Ok(None) => {}
                Err(error) if error.status() == Some(410) => return Ok(Seen::Removed),
                Err(error) if error.is_passing() => {
                    self.events = None;
                    self.failures += 1;
                    tokio::time::sleep(backoff(self.failures)).await;
                    return Ok(Seen::Away(error));
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn step(&mut self) -> Result<Option<Seen>> {
        if self.polls {
            let version = self.job.as_ref().map_or(0, |job| job.version);
            let newer = self.client.newer_job(self.id, version, POLL_SECONDS).await?;
            return Ok(newer.and_then(|job| self.take(job)));
        }
        let events = match &mut self.events {
            Some(events) => events,
            None => self.events.insert(self.client.events(self.id).await?),
        };
        Ok(match events.next().await? {
            Some(JobEvent::Snapshot(job)) => self.take(*job),
            Some(JobEvent::Change(change)) => {
                let Some(job) = &mut self.job else { return Ok(None) };
                job.apply(&change);
                self.in_flight = change.items;
                self.sight()
            }
            Some(JobEvent::Busy) => {
                self.events = None;
                self.polls = true;
                None
            }
            Some(JobEvent::Removed) => Some(Seen::Removed),
            Some(JobEvent::Bye) | None => {
                self.events = None;
                self.failures += 1;
                tokio::time::sleep(backoff(self.failures)).await;
                None
            }
        })
    }

    fn take(&mut self, job: Job) -> Option<Seen> {
        self.job = Some(job);
        self.sight()
    }

    fn sight(&mut self) -> Option<Seen> {
        let job = self.job.as_ref()?;
        if job.tree.status != JobStatus::Completed {
            return Some(Seen::Changed);
        }
        self.in_flight.clear();
        Some(Seen::Completed)
    }
}
