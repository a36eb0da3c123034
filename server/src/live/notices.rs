//! New notices: wakes the views of their persons.
//!
//! Notices are written in commits of trees, which do not announce them. One query reads the newest of all persons, while
//! somebody on this server has a list of notices open.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use domain::query::topic::Topic;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use engine::{Engine, task::unless_silent};

use super::Hub;

/// Interval between two queries.
const INTERVAL: Duration = Duration::from_millis(400);

/// Wakes views of notices until shutdown.
pub(super) async fn follow(hub: Hub, engine: Engine, shutdown: CancellationToken) {
    let mut seen: HashMap<Uuid, Uuid> = HashMap::new();
    loop {
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            () = shutdown.cancelled() => return,
        }
        if !hub.0.views.has_topic(Topic::Notices) {
            seen.clear();
            continue;
        }
        match unless_silent(engine.recent_notices()).await.flatten() {
            Ok(recent) => {
                let recent: HashMap<Uuid, Uuid> = recent.into_iter().collect();
                let owners: HashSet<Uuid> =
                    recent.iter().filter(|(id, _)| !seen.contains_key(id)).map(|(_, owner_id)| *owner_id).collect();
                hub.0.views.mark_owners(Topic::Notices, &owners);
                seen = recent;
            }
            Err(error) => tracing::debug!(%error, "reading new notices failed, will retry"),
        }
    }
}
