//! HTTP server: one table of all routes, and the layers that they share.
//!
//! Handlers translate between HTTP and the use cases; they hold no business rule and begin no transaction.
//! Every error under `/api` is a problem document, including unknown paths and panics.
//! Pages are in `ui`, the site's files in `assets`.

use std::sync::Arc;

use axum::{
    Extension, Router,
    http::{Method, Uri},
    middleware::{from_fn, from_fn_with_state},
    routing::{any, get, post},
};
use domain::Code;
use tower_http::{
    catch_panic::CatchPanicLayer,
    compression::{CompressionLayer, CompressionLevel},
};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    App,
    http::{callers::origin, error::Error},
};
use openapi::Described;

pub mod access; // services and tokens
mod access_audit; // audit entries of reads and refusals
pub mod actions; // cancel and retry
mod activity; // activity of an HTTP/2 connection
pub mod add_items; // adding items, as an array or as a stream
pub mod admission; // request counters and rate limits
pub mod alert_channels; // receivers of alerts
pub mod alerts; // alerts, listed and raised
pub mod assets; // files of the site
pub mod assignments; // claims, heartbeats and outcomes of workers
pub mod audit; // listing and export of the audit log
mod body_log; // bodies in the log
pub mod bulk; // operations on all rows of a filter
mod byte_range; // range requests
pub mod callers; // callers of requests
mod connections; // connection limits
pub mod cursor; // cursors of lists
pub mod deliveries; // callbacks of complete trees
mod docs; // API description as a page
pub mod error; // errors of handlers
pub mod event_waits; // waits of items for events, and the events
pub mod events; // live events of a job
pub mod extract; // request extractors
pub mod factors; // second factors
pub mod file_check; // all rows of an upload
pub mod idempotency; // idempotent requests
pub mod import_template; // template files of job types
pub mod items; // items and dead letters
pub mod job_types; // definitions of job types
pub mod jobs; // creating, reading and sealing jobs
pub mod layers; // middleware of every request
pub mod logs; // log lines of attempts
pub mod me; // the caller's own account
pub mod metrics; // Prometheus metrics
mod multipart; // forms with a file
pub mod openapi; // API description
pub mod ops; // liveness and readiness
pub mod patch; // partial updates
pub mod people; // accounts
pub mod remove; // deleting and pinning trees
pub mod replay; // replay of trees and items
pub mod results; // results and failures as streams
pub mod resumable; // resumable uploads
pub mod schedules; // schedules and their ticks
pub mod search; // search over all kinds of objects
pub mod series; // activity of job types over time
pub mod serve; // accept loop
pub mod session; // signing in and out
pub mod shares; // share links of a tree
mod sort; // sort orders of lists
pub mod stats; // statistics of every job type
pub mod suggestion; // suggested column mappings
pub mod tls; // TLS of the server itself
mod topics; // topics over one connection
pub mod trace; // trace contexts of requests
pub mod tree_events; // live events of all trees
pub mod ui; // HTML pages
pub mod uploads; // file upload and download
pub mod workers; // workers seen within a day
mod write_timeout; // write timeout of connections

/// Routes of the API, with their descriptions.
fn api() -> OpenApiRouter<App> {
    OpenApiRouter::default()
        .routes(routes!(job_types::create_job_type, job_types::list_job_types))
        .routes(routes!(
            job_types::get_job_type,
            job_types::put_job_type,
            job_types::patch_job_type,
            job_types::delete_job_type
        ))
        .routes(routes!(import_template::get_import_template))
        .routes(routes!(job_types::pause_job_type))
        .routes(routes!(job_types::resume_job_type))
        .routes(routes!(uploads::create_upload))
        .routes(routes!(uploads::get_upload, uploads::delete_upload))
        .routes(routes!(uploads::get_upload_content))
        .routes(routes!(uploads::preview_upload))
        .routes(routes!(suggestion::suggest_mapping))
        .routes(routes!(file_check::check_upload))
        .routes(routes!(resumable::create_resumable_upload, resumable::describe_resumable_uploads))
        .routes(routes!(
            resumable::get_resumable_upload,
            resumable::append_to_upload,
            resumable::delete_resumable_upload
        ))
        .routes(routes!(jobs::create_job, jobs::list_jobs))
        .routes(routes!(jobs::get_job, jobs::put_job))
        .routes(routes!(jobs::seal_job))
        .routes(routes!(actions::cancel_job))
        .routes(routes!(results::stream_results))
        .routes(routes!(results::stream_failures))
        .routes(routes!(add_items::add_items))
        .routes(routes!(items::list_items))
        .routes(routes!(items::get_item))
        .routes(routes!(items::list_attempts))
        .routes(routes!(logs::list_logs))
        .routes(routes!(actions::cancel_item))
        .routes(routes!(actions::retry_item))
        .routes(routes!(replay::replay_job))
        .routes(routes!(replay::replay_item))
        .routes(routes!(event_waits::send_event))
        .routes(routes!(bulk::create_bulk, bulk::list_bulk))
        .routes(routes!(bulk::get_bulk))
        .routes(routes!(bulk::cancel_bulk))
        .routes(routes!(items::list_dead_letters))
        .routes(routes!(items::list_groups))
        .routes(routes!(patch::patch_job))
        .routes(routes!(patch::patch_item))
        .routes(routes!(schedules::create_schedule, schedules::list_schedules))
        .routes(routes!(schedules::get_schedule, schedules::patch_schedule, schedules::delete_schedule))
        .routes(routes!(schedules::list_schedule_runs))
        .routes(routes!(schedules::run_schedule))
        .routes(routes!(schedules::pause_schedule))
        .routes(routes!(schedules::resume_schedule))
        .routes(routes!(search::search))
        .routes(routes!(stats::get_stats))
        .routes(routes!(series::get_series))
        .routes(routes!(workers::list_workers))
        .routes(routes!(assignments::claim_items))
        .routes(routes!(assignments::heartbeat_assignment))
        .routes(routes!(assignments::step_assignment))
        .routes(routes!(logs::log_assignment))
        .routes(routes!(assignments::succeed_assignment))
        .routes(routes!(assignments::fail_assignment))
        .routes(routes!(assignments::release_assignment))
        .routes(routes!(event_waits::wait_assignment))
        .routes(routes!(assignments::finish_assignments))
        .routes(routes!(assignments::heartbeat_assignments))
        .routes(routes!(session::create_session, session::delete_session))
        .routes(routes!(session::get_me))
        .routes(routes!(me::list_sessions, me::end_other_sessions))
        .routes(routes!(me::end_session))
        .routes(routes!(me::set_password))
        .routes(routes!(session::start_passkey_sign_in))
        .routes(routes!(factors::get_factors))
        .routes(routes!(factors::start_totp, factors::patch_totp, factors::delete_totp))
        .routes(routes!(factors::confirm_totp))
        .routes(routes!(factors::create_recovery_codes))
        .routes(routes!(factors::start_passkey))
        .routes(routes!(factors::create_passkey))
        .routes(routes!(factors::patch_passkey, factors::delete_passkey))
        .routes(routes!(factors::create_step_up))
        .routes(routes!(factors::list_connections))
        .routes(routes!(factors::delete_connection))
        .routes(routes!(factors::reset_factors))
        .routes(routes!(people::create_user, people::list_users))
        .routes(routes!(people::get_user, people::patch_user))
        .routes(routes!(people::create_sign_in_link))
        .routes(routes!(people::list_user_sessions, people::end_user_sessions))
        .routes(routes!(people::end_user_session))
        .routes(routes!(shares::share_job))
        .routes(routes!(shares::list_shares))
        .routes(routes!(shares::list_all_shares))
        .routes(routes!(shares::delete_share))
        .routes(routes!(access::create_service, access::list_services))
        .routes(routes!(access::get_service, access::patch_service))
        .routes(routes!(access::create_token, access::list_tokens))
        .routes(routes!(access::delete_token))
        .routes(routes!(audit::list_audit))
        .routes(routes!(alert_channels::create_alert_channel, alert_channels::list_alert_channels))
        .routes(routes!(
            alert_channels::get_alert_channel,
            alert_channels::patch_alert_channel,
            alert_channels::delete_alert_channel
        ))
        .routes(routes!(alert_channels::test_alert_channel))
        .routes(routes!(alerts::list_alerts))
        .routes(routes!(alerts::alert_assignment))
        .routes(routes!(deliveries::list_deliveries))
        .routes(routes!(deliveries::list_job_deliveries))
        .routes(routes!(deliveries::resend_delivery))
        .routes(routes!(remove::delete_job))
        .routes(routes!(remove::pin_job, remove::unpin_job))
}

/// Event streams, separate from the compressed routes: a compressible response holds the compressor's 5 kB for as long
/// as it is open, and thousands are open.
fn streams() -> OpenApiRouter<App> {
    let streams = OpenApiRouter::default().routes(routes!(events::watch_job)).routes(routes!(tree_events::watch_roots));
    OpenApiRouter::default().nest("/api/v1", streams)
}

/// Described parts of the server: the routes except the streams, the streams, and the description.
fn described() -> (Router<App>, Router<App>, Arc<Described>) {
    let (streams, of_streams) = streams().split_for_parts();
    let (routes, document) = OpenApiRouter::with_openapi(openapi::head().merge_from(of_streams))
        .nest("/api/v1", api())
        .routes(routes!(ops::get_health))
        .routes(routes!(ops::get_readiness))
        .split_for_parts();
    (routes, streams, Described::of(document))
}

/// API description as OpenAPI 3.1 or 3.0, generated without a server.
pub fn openapi_document(is_older: bool) -> String {
    described().2.json(is_older).to_owned()
}

/// Router of the whole server.
pub fn router(app: &App) -> Router {
    let (routes, streams, document) = described();
    routes
        .route(
            "/api/v1/uploads/resumable/{id}",
            post(resumable::override_method).options(resumable::describe_resumable_uploads),
        )
        .route("/api/v1/openapi.json", get(openapi::get_document))
        .route("/api/v1/openapi-3.0.json", get(openapi::get_older_document))
        .route("/api/docs", get(openapi::get_docs))
        .route("/metrics", get(metrics::get_metrics))
        .route("/api", any(unknown_path))
        .route("/api/{*rest}", any(unknown_path))
        .method_not_allowed_fallback(unknown_method)
        .layer(Extension(document))
        .merge(assets::router())
        .merge(ui::router(app))
        .layer(CompressionLayer::new().quality(CompressionLevel::Fastest))
        .merge(streams.method_not_allowed_fallback(unknown_method))
        .layer(from_fn_with_state(app.clone(), access_audit::watch))
        .layer(from_fn_with_state(app.clone(), origin::check))
        .layer(from_fn_with_state(app.clone(), origin::check_host))
        .layer(from_fn(resumable::speak_tus))
        .layer(CatchPanicLayer::custom(layers::panicked))
        .layer(from_fn_with_state(app.clone(), layers::harden))
        .layer(from_fn_with_state(app.clone(), layers::identify))
        .with_state(app.clone())
}

/// Router of a process without the role `web`: probes and metrics.
pub fn probe_router(app: &App) -> Router {
    Router::new()
        .route("/healthz", get(ops::get_health))
        .route("/readyz", get(ops::get_readiness))
        .route("/metrics", get(metrics::get_metrics))
        .fallback(not_web)
        .layer(CatchPanicLayer::custom(layers::panicked))
        .layer(from_fn_with_state(app.clone(), layers::harden))
        .layer(from_fn_with_state(app.clone(), layers::identify))
        .with_state(app.clone())
}

async fn not_web(uri: Uri) -> Error {
    let role = "This process has no role `web` (TREELINE_ROLES)";
    Error::refuse(Code::NotFound, format!("There is nothing at {}. {role}.", uri.path()))
}

async fn unknown_path(uri: Uri) -> Error {
    Error::refuse(Code::NotFound, format!("There is nothing at {}; see /api/docs.", uri.path()))
}

async fn unknown_method(method: Method, uri: Uri) -> Error {
    Error::refuse(Code::MethodNotAllowed, format!("{} does not take {method}; see the header Allow.", uri.path()))
}
