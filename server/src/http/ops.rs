//! Is it alive, is it ready: for whoever runs the server. Open to everybody, and says nothing else.

use axum::{Json, extract::State};
use domain::Code;
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    App,
    error::{Error, Result},
};

/// The one word of a healthy server.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct Health {
    status: &'static str,
}

/// Alive: the process answers.
///
/// Answers as long as the process does, whatever the database does. For a supervisor that restarts it.
#[utoipa::path(get, path = "/healthz", tag = "ops", security(()), responses((status = 200, body = Health)))]
pub async fn get_health() -> Json<Health> {
    Json(Health { status: "alive" })
}

/// Ready: the database is reachable and migrated, and the server is not on its way out.
///
/// 503 while the database is away or not migrated, and while the server stops. For a balancer that routes
/// to it.
#[utoipa::path(get, path = "/readyz", tag = "ops", security(()), responses((status = 200, body = Health)))]
pub async fn get_readiness(State(app): State<App>) -> Result<Json<Health>> {
    if app.shutdown.is_cancelled() {
        return Err(Error::refuse(Code::ShuttingDown, "The server finishes what it has and stops."));
    }
    crate::store::migrations::is_ready(&app.pool).await?;
    Ok(Json(Health { status: "ready" }))
}
