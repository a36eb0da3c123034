//! Validity checks of credentials for work that outlasts its request: streams in both directions, waiting claims, bulk
//! operations, exports.
//!
//! The result is cached until any rights are revoked ([`Auth::changes`]), so a check before every commit is free; after
//! that, concurrent checks share one statement. Permissions themselves are decided elsewhere.

use std::{
    collections::HashMap,
    sync::PoisonError,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use sqlx::PgPool;
use tokio::{sync::watch, time::Instant};
use uuid::Uuid;

use super::Auth;
use crate::App;
use engine::{
    access::{caller::Caller, rights::Rights},
    error::{Error, Result},
    flush::Batch,
    primary::RELEASE_TIMEOUT,
    store::access::credentials::{self, CredentialRow},
};

/// Longest time for which a result is cached.
const CACHE_LIFETIME: Duration = Duration::from_mins(1);

/// Maximum number of cached results; beyond it, the cache is cleared.
const CACHE_SIZE: usize = 20_000;

/// Batched lookup of credentials.
pub(super) struct Lookup(pub(super) PgPool);

impl Batch for Lookup {
    type Command = Uuid;
    type Answer = Option<CredentialRow>;
    type Done = HashMap<Uuid, CredentialRow>;

    const REFUSES_WHEN_STALLED: bool = false;
    const TIME_LIMIT: Option<Duration> = Some(RELEASE_TIMEOUT);

    fn weight(_: &Uuid) -> usize {
        1
    }

    async fn run(&self, ids: &[&Uuid]) -> Result<HashMap<Uuid, CredentialRow>> {
        let mut ids: Vec<Uuid> = ids.iter().map(|id| **id).collect();
        ids.sort_unstable();
        ids.dedup();
        Ok(credentials::by_ids(&self.0, &ids).await?.into_iter().map(|row| (row.id, row)).collect())
    }

    async fn answer(&self, ids: &[Uuid], found: HashMap<Uuid, CredentialRow>) -> Vec<Result<Option<CredentialRow>>> {
        ids.iter().map(|id| Ok(found.get(id).cloned())).collect()
    }
}

/// Cached rights.
#[derive(Debug)]
pub(super) struct CachedRights {
    rights: Rights,
    /// Value of [`Auth::changes`] before the lookup.
    changes: i64,
    until: Instant,
}

impl Auth {
    /// Rights of a credential and the time until which they may be cached, unless rights are revoked earlier.
    async fn rights(&self, id: Uuid) -> Result<(Rights, Instant)> {
        let changes = *self.changes.borrow();
        {
            let cached = self.rights_cache.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(cached) =
                cached.get(&id).filter(|cached| cached.changes == changes && cached.until > Instant::now())
            {
                return Ok((cached.rights.clone(), cached.until));
            }
        }
        let rights = Rights::of(self.lookups.run(id).await?)?;
        let remaining = rights.expires_at.map(|end| end.duration_since(SystemTime::now()).unwrap_or_default());
        let until = Instant::now() + remaining.map_or(CACHE_LIFETIME, |remaining| remaining.min(CACHE_LIFETIME));
        let mut cached = self.rights_cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cached.len() >= CACHE_SIZE {
            cached.clear();
        }
        cached.insert(id, CachedRights { rights: rights.clone(), changes, until });
        Ok((rights, until))
    }
}

/// Checks that the caller's credential still has all its rights: 401 if it was revoked, has ended or expired, or its
/// owner is disabled; 403 if its rights were reduced.
pub async fn still_valid(app: &App, caller: &Caller) -> Result<()> {
    let (rights, _) = app.auth.rights(caller.credential_id).await?;
    Ok(rights.cover(caller)?)
}

/// Long-running work under a credential.
pub struct Ongoing {
    app: App,
    caller: Caller,
    changes: watch::Receiver<i64>,
}

impl Ongoing {
    pub fn of(app: &App, caller: &Caller) -> Self {
        Self { app: app.clone(), caller: caller.clone(), changes: app.auth.changes() }
    }

    /// See [`still_valid`].
    pub async fn check(&self) -> Result<()> {
        still_valid(&self.app, &self.caller).await
    }

    /// Resolves with the refusal when the credential becomes invalid. An unavailable database revokes nothing.
    pub async fn ended(&mut self) -> Error {
        const PAUSE: Duration = Duration::from_secs(1);
        loop {
            self.changes.mark_unchanged();
            let until = match self.app.auth.rights(self.caller.credential_id).await {
                Ok((rights, until)) => match rights.cover(&self.caller) {
                    Ok(()) => until,
                    Err(reduced) => return reduced.into(),
                },
                Err(error @ Error::Problem(_)) => return error,
                Err(_) => Instant::now() + PAUSE,
            };
            tokio::select! {
                Ok(()) = self.changes.changed() => {}
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }

    /// Wraps a body so that it fails when the credential becomes invalid.
    pub fn guard(
        mut self,
        body: impl Stream<Item = Result<Bytes>> + Send + 'static,
    ) -> impl Stream<Item = Result<Bytes>> + Send + 'static {
        let ended = futures::stream::once(async move { Some(Err(self.ended().await)) });
        let body = body.map(Some).chain(futures::stream::iter([None]));
        futures::stream::select(Box::pin(body), Box::pin(ended))
            .take_while(|piece| std::future::ready(piece.is_some()))
            .filter_map(std::future::ready)
    }
}

impl engine::access::rights::Ongoing for Ongoing {
    async fn check(&self) -> Result<()> {
        Self::check(self).await
    }

    async fn ended(&mut self) -> Error {
        Self::ended(self).await
    }
}
