//! Watching a tree to its end: the newest state, whatever happens to the connection.
//!
//! A broken stream is opened again with backoff; a `busy` server is asked by long poll instead. Because
//! all state is absolute and versioned, nothing is remembered between connections but the tree itself.

use std::time::Duration;

use domain::{Item, Job, JobStatus, id::Uuid};

use crate::{
    again::backoff,
    client::Client,
    error::{Error, Result},
    events::{Events, JobEvent},
};

/// Seconds of one long poll while the server has no stream to give.
const POLL_SECONDS: u32 = 20;

/// Message to a watcher.
#[derive(Debug)]
#[non_exhaustive]
pub enum Seen {
    /// Something is new; read [`Watch::job`] and [`Watch::in_flight`].
    Changed,
    /// The connection is lost; it is being opened again.
    Away(Error),
    /// The tree is complete. The last sight; [`Watch::job`] is final.
    Completed,
    /// The tree no longer exists. The last sight.
    Removed,
}

/// A job under watch.
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
            // One try at a time: what is broken is shown, and the pause is the watcher's own.
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
    /// The newest state; `None` before the first sight.
    pub fn job(&self) -> Option<&Job> {
        self.job.as_ref()
    }

    /// The items that workers hold now, oldest first, at most 50, without payloads.
    pub fn in_flight(&self) -> &[Item] {
        &self.in_flight
    }

    /// Waits for the next sight.
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
