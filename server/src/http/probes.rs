//! Liveness and readiness probes. Open to everybody; they return nothing else.

use axum::{Json, extract::State};
use domain::Code;
use serde::Serialize;
use tokio::time::timeout;
use utoipa::ToSchema;

use crate::{
    App,
    http::error::{Error, Result},
};

/// Response of a healthy server, with a single word.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct Health {
    status: &'static str,
}

/// Check liveness
///
/// Responds as long as the process does, even without the database. For a supervisor that restarts the process.
#[utoipa::path(get, path = "/healthz", tag = "ops", security(()), responses((status = 200, body = Health)))]
pub async fn get_health() -> Json<Health> {
    Json(Health { status: "alive" })
}

/// Check readiness
///
/// 503 while the database is unavailable or not migrated, and while the server stops. For a load balancer.
#[utoipa::path(get, path = "/readyz", tag = "ops", security(()), responses((status = 200, body = Health)))]
pub async fn get_readiness(State(app): State<App>) -> Result<Json<Health>> {
    if app.shutdown.is_cancelled() {
        return Err(Error::refuse(Code::ShuttingDown, "The server finishes what it has and stops."));
    }
    // Not the pool of pages: slow searches must not make the server look dead. Lookups of callers may wait longer for it.
    let checked = timeout(engine::store::WAIT, crate::store::migrations::is_ready(&app.pools.credentials)).await;
    let not_ready = |why: &str| Error::refuse(Code::DatabaseUnavailable, why);
    let checked = checked.map_err(|_| not_ready("The database does not answer."))?;
    checked.map_err(|error| match Error::from(error) {
        error if error.0.is_database_away() => error,
        error => {
            tracing::warn!(error = %error.0, "not ready");
            not_ready("The database is not migrated.")
        }
    })?;
    Ok(Json(Health { status: "ready" }))
}
