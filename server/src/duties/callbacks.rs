//! Tells those who asked for it that a tree is complete (`completion-webhook`): signed posts, tried for a day.
//!
//! A callback is taken from the table for as long as one try may take, posted while no transaction is
//! open, and what came of it is recorded. A server that dies in between leaves it to the next one, which
//! posts it again under the same id: it arrives at least once. Receivers do not wait for each other: to
//! one host, and of one owner, only so much is under way at once.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use domain::{
    Counts, Document, Outcome, Time,
    alert::AlertKind,
    api::OnCompleted,
    delivery::{DeliveryState, Next, Schedule, Tried},
    topic::Topic,
};
use reqwest::{
    StatusCode,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue},
};
use serde::Serialize;
use time::OffsetDateTime;
use tokio::{sync::Notify, time::Instant};
use url::Url;
use uuid::Uuid;

use crate::{
    App,
    error::{Error, Result},
    outbound::{
        Fault, Reply, excerpt, named,
        sign::{keys_of, stamp},
        stored::open_target,
    },
    store::{
        alerts::RaiseRow,
        deliveries::{self, Came, Room, Taken},
    },
};

/// Callbacks under way at once from this server: in all, to one host, of one owner. From half of that on a host
/// or an owner gets no more, and at most as many again in one go.
const ALL: usize = 64;
const PER_HOST: usize = 8;
const PER_OWNER: usize = 32;

/// The pause between two looks when nothing is due.
const PAUSE: Duration = Duration::from_millis(250);

/// The pause after a failure, at most.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is read of an answer, in bytes, and kept of it, in characters.
const READ: usize = 4_096;
const KEPT: usize = 1_000;

/// Tries callbacks until shutdown; those under way then are waited for.
pub(super) async fn run(app: App) {
    let duty = Arc::new(Duty {
        schedule: Schedule {
            retry_seconds: app.config.outbound.callback_retry_seconds,
            give_up_seconds: app.config.outbound.callback_give_up_seconds,
        },
        timeout: Duration::from_secs_f64(app.config.outbound.callback_timeout_seconds),
        under_way: Mutex::default(),
        freed: Notify::new(),
        app,
    });
    let mut failures = 0_u32;
    while !duty.app.shutdown.is_cancelled() {
        let pause = match duty.look().await {
            Ok(found) => {
                failures = 0;
                // There may be more of it, as soon as there is room.
                if found > 0 { Duration::ZERO } else { PAUSE }
            }
            Err(error) => {
                failures += 1;
                if failures.is_power_of_two() {
                    tracing::warn!(duty = "callbacks", %error, failures, "failed; will try again");
                }
                (PAUSE * (1 << failures.min(6))).min(PATIENCE)
            }
        };
        tokio::select! {
            () = duty.app.shutdown.cancelled() => {}
            () = duty.freed.notified(), if pause.is_zero() => {}
            () = tokio::time::sleep(pause.max(PAUSE)) => {}
            () = duty.app.engine.delivery_asked() => {}
        }
    }
}

struct Duty {
    app: App,
    schedule: Schedule,
    timeout: Duration,
    under_way: Mutex<UnderWay>,
    /// One under way has ended.
    freed: Notify,
}

#[derive(Default)]
struct UnderWay {
    all: usize,
    hosts: HashMap<String, usize>,
    owners: HashMap<Uuid, usize>,
}

/// What is posted.
#[derive(Serialize)]
struct Message<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    timestamp: Time,
    data: Data<'a>,
}

#[derive(Serialize)]
struct Data<'a> {
    job_id: Uuid,
    completion: i32,
    outcome: Option<Outcome>,
    counts: Counts,
    metadata: &'a Document,
}

/// How a try ended.
struct Ended {
    tried: Tried,
    status: Option<StatusCode>,
    error: Option<String>,
}

impl Duty {
    /// Takes what is due and begins to post it. Returns how many.
    async fn look(self: &Arc<Self>) -> Result<usize> {
        let (room, hosts, owners) = self.room();
        if room.all == 0 {
            return Ok(0);
        }
        // Long enough for the slowest try and its record, so that no other server begins meanwhile.
        let hold = self.timeout.as_secs_f64() * 1.5 + 2.0;
        let taken = deliveries::take(&self.app.pool, room, &hosts, &owners, hold).await?;
        let n = taken.len();
        for taken in taken {
            self.count(&taken, true);
            let duty = Arc::clone(self);
            self.app.tasks.spawn(async move {
                if let Err(error) = duty.try_one(&taken).await {
                    tracing::warn!(%error, delivery = %taken.id, "a callback's try was not recorded; it is made again");
                }
                duty.count(&taken, false);
                duty.freed.notify_one();
            });
        }
        Ok(n)
    }

    fn room(&self) -> (Room, Vec<String>, Vec<Uuid>) {
        let now = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        let all = ALL.saturating_sub(now.all);
        let hosts = now.hosts.iter().filter(|(_, n)| **n >= PER_HOST / 2).map(|(host, _)| host.clone()).collect();
        let owners = now.owners.iter().filter(|(_, n)| **n >= PER_OWNER / 2).map(|(id, _)| *id).collect();
        let room = Room { all: all as i64, per_host: (PER_HOST / 2) as i64, per_owner: (PER_OWNER / 2) as i64 };
        (room, hosts, owners)
    }

    fn count(&self, taken: &Taken, begins: bool) {
        let mut now = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        let now = &mut *now;
        if begins {
            now.all += 1;
            *now.hosts.entry(taken.host.clone()).or_default() += 1;
            *now.owners.entry(taken.owner_id).or_default() += 1;
            return;
        }
        now.all = now.all.saturating_sub(1);
        for n in [now.hosts.get_mut(&taken.host), now.owners.get_mut(&taken.owner_id)].into_iter().flatten() {
            *n = n.saturating_sub(1);
        }
        now.hosts.retain(|_, n| *n > 0);
        now.owners.retain(|_, n| *n > 0);
    }

    /// Posts one callback and records what came of it.
    async fn try_one(&self, taken: &Taken) -> Result<()> {
        let began = Instant::now();
        let target = taken.target.as_deref().map(|stored| open_target(&self.app.sealer, stored)).transpose();
        let target = match target {
            Ok(target) => target,
            // Another server may have the key; this one lets go of it until then.
            Err(error) => return Err(Error::Broken(format!("cannot open the receiver of a callback: {error}"))),
        };
        let Some(target) = target else {
            let error = Some("The tree names no receiver any more.".to_owned());
            let state = DeliveryState::Abandoned;
            let came = Came { at: taken.now, status: None, error, state, next_try_at: None };
            return Ok(deliveries::record(&self.app.pool, taken, &came).await.map(drop)?);
        };
        #[cfg(feature = "failpoints")]
        if crate::failpoints::broken("record_first", file!()) {
            return self.record_first(taken, &target).await;
        }
        let ended = self.post(taken, &target).await;
        let now = taken.now + began.elapsed();
        let next = self.schedule.next(ended.tried, taken.round + 1, taken.began_at, now, rand::random());
        let (state, next_try_at) = match next {
            Next::TryAt(at) => (DeliveryState::Pending, Some(at)),
            Next::Is(state) => (state, None),
        };
        // Before it is recorded: a server that dies in between tries, and says so, once more.
        if matches!(state, DeliveryState::Failed | DeliveryState::Abandoned) {
            self.app.engine.raise_alert(given_up(taken, ended.error.as_deref().unwrap_or_default())).await;
        }
        let status = ended.status.map(|status| status.as_u16());
        let came = Came { at: taken.now, status, error: ended.error, state, next_try_at };
        deliveries::record(&self.app.pool, taken, &came).await?;
        self.app.hub.changed(Topic::Deliveries);
        if state == DeliveryState::Delivered && taken.tries > 0 {
            self.app.engine.clear_alert(AlertKind::DeliveryFailed, &taken.job_id.to_string()).await?;
        }
        metrics::counter!("treeline_callback_tries_total", "came_to" => state.as_str()).increment(1);
        Ok(())
    }

    /// What would be if a callback were recorded as delivered before it is posted: for the checker of the faults.
    #[cfg(feature = "failpoints")]
    async fn record_first(&self, taken: &Taken, target: &OnCompleted) -> Result<()> {
        let state = DeliveryState::Delivered;
        let came = Came { at: taken.now, status: Some(200), error: None, state, next_try_at: None };
        deliveries::record(&self.app.pool, taken, &came).await?;
        tokio::time::sleep(Duration::from_secs(3)).await;
        self.post(taken, target).await;
        Ok(())
    }

    async fn post(&self, taken: &Taken, target: &OnCompleted) -> Ended {
        let refused = |error: String| Ended { tried: Tried::Refused(None), status: None, error: Some(error) };
        let Ok(url) = Url::parse(&target.url) else { return refused("The URL cannot be read.".to_owned()) };
        let metadata = Document::trusted(taken.metadata.clone());
        let message = Message {
            kind: "tree.completed",
            timestamp: Time(taken.completed_at),
            data: Data {
                job_id: taken.job_id,
                completion: taken.completion,
                outcome: taken.outcome,
                counts: taken.counts,
                metadata: &metadata,
            },
        };
        let body = match serde_json::to_vec(&message) {
            Ok(body) => Bytes::from(body),
            Err(error) => return refused(error.to_string()),
        };
        let outgoing = &self.app.outgoing;
        let keys = keys_of(target.secret.as_ref(), || outgoing.key.of_owner(taken.owner_id));
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let id = taken.id.to_string();
        stamp(&keys, &mut headers, &id, OffsetDateTime::now_utc().unix_timestamp(), &body);
        let until = Instant::now() + self.timeout;
        match outgoing.callbacks.post(&url, headers, body, until).await {
            Ok(reply) => ended(reply).await,
            Err(fault) => refused(fault.to_string()),
        }
    }
}

/// What an answer says. A 2xx is one as soon as its head is here; of any other the beginning is kept.
async fn ended(reply: Reply) -> Ended {
    let (status, retry_after) = (reply.status, reply.retry_after);
    if status.is_success() {
        return Ended { tried: Tried::Taken, status: Some(status), error: None };
    }
    let text = match reply.read(READ).await {
        Ok((body, _)) => excerpt(&body, KEPT),
        Err(Fault::TimedOut) => "(the rest did not come in time)".to_owned(),
        Err(_) => String::new(),
    };
    let error = if text.is_empty() { named(status) } else { format!("{}: {text}", named(status)) };
    let tried = match status {
        StatusCode::GONE => Tried::Unwanted,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => Tried::Refused(retry_after),
        _ => Tried::Refused(None),
    };
    Ended { tried, status: Some(status), error: Some(error) }
}

fn given_up(taken: &Taken, error: &str) -> RaiseRow {
    let tries = match taken.round + 1 {
        1 => "one try".to_owned(),
        n => format!("{n} tries"),
    };
    let short: String = error.chars().take(200).collect();
    RaiseRow {
        kind: AlertKind::DeliveryFailed,
        subject: taken.job_id.to_string(),
        message: format!("The callback to {} was given up after {tries}: {short}", taken.host),
        owner_id: Some(taken.owner_id),
        job_type: None,
        root_id: Some(taken.job_id),
        job_id: Some(taken.job_id),
        item_id: None,
    }
}
