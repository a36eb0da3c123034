//! Hints between servers by NOTIFY: changed trees and topics, and types with work.
//!
//! Never sent in a data transaction (NOTIFY holds a database-wide lock until the commit), at most ten times a second,
//! on a separate connection. Correctness never depends on a hint: the pumps and sweeps find everything by polling.
//!
//! The connection that receives hints also finds out that the database is silent: its host has vanished without closing
//! connections, which then look open for ever. It asks for an answer whenever no hint has arrived for a while.

use std::time::Duration;

use domain::query::topic::Topic;
use serde::{Deserialize, Serialize};
use sqlx::postgres::PgListener;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use engine::{Engine, primary::note_silence, store, task::unless_silent};

use super::{Hub, notices};

/// Time for which changes are collected into one hint.
const BATCH_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum roots in one hint: a payload has less than 8,000 bytes.
const MAX_ROOTS: usize = 150;
/// Time without a hint after which the database is asked for an answer, and the time that it has to answer.
const QUIET: Duration = Duration::from_secs(5);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Serialize, Deserialize)]
struct Hint {
    /// Sending server.
    from: Uuid,
    #[serde(default)]
    roots: Vec<Uuid>,
    #[serde(default)]
    types: Vec<i32>,
    /// Names of topics: a server skips names it does not know.
    #[serde(default)]
    topics: Vec<String>,
}

/// Sends hints to other servers, receives theirs, and looks for new notices, until shutdown.
pub async fn listen(hub: Hub, engine: Engine, pools: store::Pools, shutdown: CancellationToken) {
    let me = Uuid::now_v7();
    tokio::join!(
        publish(hub.clone(), pools.clone(), me, shutdown.clone()),
        notices::follow(hub.clone(), engine.clone(), shutdown.clone()),
        subscribe(hub, engine, pools, me, shutdown)
    );
}

async fn publish(hub: Hub, pools: store::Pools, me: Uuid, shutdown: CancellationToken) {
    loop {
        tokio::select! {
            () = hub.0.outgoing_changed.notified() => {}
            () = shutdown.cancelled() => return,
        }
        let outgoing = std::mem::take(&mut *hub.0.outgoing.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        let roots: Vec<Uuid> = outgoing.roots.into_iter().collect();
        let mut types: Vec<i32> = outgoing.types.into_iter().collect();
        let mut topics: Vec<String> = outgoing.topics.iter().map(Topic::to_string).collect();
        let parts: Vec<&[Uuid]> = if roots.is_empty() { vec![&[]] } else { roots.chunks(MAX_ROOTS).collect() };
        for part in parts {
            let (types, topics) = (std::mem::take(&mut types), std::mem::take(&mut topics));
            let hint = Hint { from: me, roots: part.to_vec(), types, topics };
            let Ok(text) = serde_json::to_string(&hint) else { continue };
            if let Err(error) =
                unless_silent(store::hints::notify(&pools.hints, &text)).await.and_then(|sent| Ok(sent?))
            {
                tracing::debug!(%error, "sending a hint failed, other servers poll");
            }
        }
        tokio::select! {
            () = tokio::time::sleep(BATCH_INTERVAL) => {}
            () = shutdown.cancelled() => return,
        }
    }
}

async fn subscribe(hub: Hub, engine: Engine, pools: store::Pools, me: Uuid, shutdown: CancellationToken) {
    let mut wait = Duration::from_millis(100);
    loop {
        let subscription = async {
            let mut listener = PgListener::connect_with(&pools.hints).await?;
            let listening = listener.listen(store::hints::CHANNEL);
            timeout(ANSWER_TIMEOUT, listening).await.unwrap_or_else(|_| {
                note_silence();
                Err(sqlx::Error::PoolTimedOut)
            })?;
            // Hints may have been missed before the subscription.
            hub.mark_all();
            loop {
                let Ok(received) = timeout(QUIET, listener.try_recv()).await else {
                    expect_answer(&mut listener).await?;
                    continue;
                };
                match received? {
                    Some(note) => {
                        let Ok(hint) = serde_json::from_str::<Hint>(note.payload()) else { continue };
                        if hint.from != me {
                            hub.mark(&hint.roots);
                            let topics = hint.topics.iter().filter_map(|name| Topic::parse(name));
                            topics.for_each(|topic| hub.0.views.mark_topic(topic));
                            hint.types.iter().for_each(|&type_id| engine.wake(type_id));
                        }
                    }
                    // The connection is being re-established: hints may be missing.
                    None => hub.mark_all(),
                }
            }
            #[expect(unreachable_code, reason = "names the error type of the block")]
            Ok::<(), sqlx::Error>(())
        };
        tokio::select! {
            result = subscription => if let Err(error) = result {
                tracing::debug!(%error, "listening for hints failed, will retry");
            },
            () = shutdown.cancelled() => return,
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(Duration::from_secs(5));
    }
}

/// Asks the database for an answer. Without one, all connections of this process are replaced.
async fn expect_answer(listener: &mut PgListener) -> Result<(), sqlx::Error> {
    let answer = timeout(ANSWER_TIMEOUT, store::hints::probe(listener)).await.unwrap_or(Err(sqlx::Error::PoolTimedOut));
    if let Err(error) = &answer {
        tracing::warn!(%error, "the database does not answer, its connections are replaced");
        note_silence();
    }
    answer
}
