//! HTTP server: one table of all routes, and the layers that they share.
//!
//! Handlers translate between HTTP and the use cases; they hold no business rule and begin no transaction.
//! Every error under `/api` is a problem document, including unknown paths and panics.
//! Pages are in `ui`, the site's files in `assets`.

use std::sync::LazyLock;

use axum::{
    Extension, Router,
    http::{Extensions, HeaderMap, Method, StatusCode, Uri, Version, header},
    middleware::{from_fn, from_fn_with_state},
    routing::any,
};
use domain::Code;
use tower_http::{
    catch_panic::CatchPanicLayer,
    compression::{CompressionLayer, CompressionLevel},
};
use utoipa_axum::router::OpenApiRouter;

use crate::{
    App,
    http::{callers::origin, error::Error},
};
use openapi::Described;
use routing::{get, post, routes};
use ui::reference::api_reference::OwnRoutes;

mod access_audit; // audit entries of reads and refusals
pub mod admission; // request counters and rate limits
pub mod assets; // files of the site
pub mod callers; // callers of requests
pub mod connection; // accept loop, TLS, limits of connections
pub mod dispatch; // routes of workers
pub mod enqueue; // adding items
pub mod error; // errors of handlers
pub mod extract; // request extractors
pub mod identity; // people, services, sign-in
pub mod import; // files
pub mod job_types; // definitions of job types
pub mod layers; // middleware of every request
pub mod live; // event streams
pub mod metrics; // Prometheus metrics
pub mod notices; // notices of the caller, and watches
pub mod notify; // alerts, deliveries, audit log
pub mod openapi; // API description
pub mod operator; // cancel, retry, replay, edits, bulk operations
pub mod probes; // liveness and readiness
pub mod profiles; // CPU and heap profiles
pub mod query; // lists, statistics, search
pub mod routing; // routes of erased handlers
mod security_headers; // headers for browsers, content security policies
mod standby_reads; // reads from a standby
pub mod trace; // trace contexts of requests
pub mod tree; // jobs, schedules, shares
pub mod ui; // HTML pages
mod unknown_parameters; // query parameters of reads that have none

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
        .routes(routes!(import::import_template::get_import_template))
        .routes(routes!(job_types::pause_job_type))
        .routes(routes!(job_types::resume_job_type))
        .routes(routes!(import::uploads::create_upload))
        .routes(routes!(import::uploads::get_upload, import::uploads::delete_upload))
        .routes(routes!(import::uploads::get_upload_content))
        .routes(routes!(import::uploads::preview_upload))
        .routes(routes!(import::suggestion::suggest_mapping))
        .routes(routes!(import::file_check::check_upload))
        .routes(routes!(import::resumable::create_resumable_upload, import::resumable::describe_resumable_uploads))
        .routes(routes!(
            import::resumable::get_resumable_upload,
            import::resumable::append_to_upload,
            import::resumable::delete_resumable_upload
        ))
        .routes(routes!(tree::jobs::create_job, tree::jobs::list_jobs))
        .routes(routes!(tree::jobs::get_job, tree::jobs::put_job))
        .routes(routes!(tree::jobs::seal_job))
        .routes(routes!(operator::actions::cancel_job))
        .routes(routes!(query::results::stream_results))
        .routes(routes!(query::results::stream_failures))
        .routes(routes!(enqueue::add_items::add_items))
        .routes(routes!(query::items::list_items))
        .routes(routes!(query::items::get_item))
        .routes(routes!(query::items::list_attempts))
        .routes(routes!(query::items::count_job_steps))
        .routes(routes!(dispatch::logs::list_logs))
        .routes(routes!(operator::actions::cancel_item))
        .routes(routes!(operator::actions::retry_item))
        .routes(routes!(operator::replay::replay_job))
        .routes(routes!(operator::replay::replay_item))
        .routes(routes!(dispatch::event_waits::send_event))
        .routes(routes!(operator::bulk::create_bulk, operator::bulk::list_bulk))
        .routes(routes!(operator::bulk::get_bulk))
        .routes(routes!(operator::bulk::cancel_bulk))
        .routes(routes!(query::items::list_dead_letters))
        .routes(routes!(query::items::list_groups))
        .routes(routes!(query::items::get_group, query::items::patch_group))
        .routes(routes!(operator::patch::patch_job))
        .routes(routes!(operator::patch::patch_item))
        .routes(routes!(tree::schedules::create_schedule, tree::schedules::list_schedules))
        .routes(routes!(
            tree::schedules::get_schedule,
            tree::schedules::patch_schedule,
            tree::schedules::delete_schedule
        ))
        .routes(routes!(tree::schedules::list_schedule_runs))
        .routes(routes!(tree::schedules::run_schedule))
        .routes(routes!(tree::schedules::pause_schedule))
        .routes(routes!(tree::schedules::resume_schedule))
        .routes(routes!(query::views::create_view, query::views::list_views))
        .routes(routes!(query::views::get_view, query::views::patch_view, query::views::delete_view))
        .routes(routes!(query::search::search))
        .routes(routes!(query::stats::get_stats))
        .routes(routes!(query::series::get_series))
        .routes(routes!(dispatch::workers::list_workers))
        .routes(routes!(dispatch::assignments::claim_items))
        .routes(routes!(dispatch::assignments::heartbeat_assignment))
        .routes(routes!(dispatch::assignments::step_assignment))
        .routes(routes!(dispatch::logs::log_assignment))
        .routes(routes!(dispatch::assignments::succeed_assignment))
        .routes(routes!(dispatch::assignments::fail_assignment))
        .routes(routes!(dispatch::assignments::release_assignment))
        .routes(routes!(dispatch::event_waits::wait_assignment))
        .routes(routes!(dispatch::assignments::finish_assignments))
        .routes(routes!(dispatch::assignments::heartbeat_assignments))
        .routes(routes!(identity::session::create_session, identity::session::delete_session))
        .routes(routes!(identity::session::get_me))
        .routes(routes!(identity::me::list_sessions, identity::me::end_other_sessions))
        .routes(routes!(identity::me::end_session))
        .routes(routes!(identity::me::set_password))
        .routes(routes!(notices::list_notices))
        .routes(routes!(notices::read_notices))
        .routes(routes!(notices::get_notice_settings, notices::patch_notice_settings))
        .routes(routes!(notices::get_job_watch, notices::start_job_watch, notices::stop_job_watch))
        .routes(routes!(identity::session::start_passkey_sign_in))
        .routes(routes!(identity::factors::get_factors))
        .routes(routes!(identity::factors::start_totp, identity::factors::patch_totp, identity::factors::delete_totp))
        .routes(routes!(identity::factors::confirm_totp))
        .routes(routes!(identity::factors::create_recovery_codes))
        .routes(routes!(identity::factors::start_passkey))
        .routes(routes!(identity::factors::create_passkey))
        .routes(routes!(identity::factors::patch_passkey, identity::factors::delete_passkey))
        .routes(routes!(identity::factors::create_step_up))
        .routes(routes!(identity::factors::list_connections))
        .routes(routes!(identity::factors::delete_connection))
        .routes(routes!(identity::factors::reset_factors))
        .routes(routes!(identity::people::create_user, identity::people::list_users))
        .routes(routes!(identity::people::get_user, identity::people::patch_user))
        .routes(routes!(identity::people::create_sign_in_link))
        .routes(routes!(identity::people::list_user_sessions, identity::people::end_user_sessions))
        .routes(routes!(identity::people::end_user_session))
        .routes(routes!(tree::share_links::share_job))
        .routes(routes!(tree::share_links::list_shares))
        .routes(routes!(tree::share_links::list_all_shares))
        .routes(routes!(tree::share_links::delete_share))
        .routes(routes!(identity::access::create_service, identity::access::list_services))
        .routes(routes!(identity::access::get_service, identity::access::patch_service))
        .routes(routes!(identity::access::create_token, identity::access::list_tokens))
        .routes(routes!(identity::access::delete_token))
        .routes(routes!(notify::audit::list_audit))
        .routes(routes!(notify::alert_channels::create_alert_channel, notify::alert_channels::list_alert_channels))
        .routes(routes!(
            notify::alert_channels::get_alert_channel,
            notify::alert_channels::patch_alert_channel,
            notify::alert_channels::delete_alert_channel
        ))
        .routes(routes!(notify::alert_channels::test_alert_channel))
        .routes(routes!(notify::alerts::list_alerts))
        .routes(routes!(notify::alerts::alert_assignment))
        .routes(routes!(notify::deliveries::list_deliveries))
        .routes(routes!(notify::deliveries::list_job_deliveries))
        .routes(routes!(notify::deliveries::resend_delivery))
        .routes(routes!(tree::remove::delete_job))
        .routes(routes!(tree::remove::pin_job, tree::remove::unpin_job))
}

/// Event streams, separate from the compressed routes: a compressible response holds the compressor's 5 kB for as long
/// as it is open, and thousands are open.
fn streams() -> OpenApiRouter<App> {
    let streams = OpenApiRouter::default()
        .routes(routes!(live::job_events::watch_job))
        .routes(routes!(live::all_trees_events::watch_roots));
    OpenApiRouter::default().nest("/api/v1", streams)
}

/// Described parts of the server: the routes except the streams, the streams, and their description.
fn described() -> (Router<App>, Router<App>, utoipa::openapi::OpenApi) {
    let (streams, of_streams) = streams().split_for_parts();
    let (routes, document) = OpenApiRouter::with_openapi(openapi::head().merge_from(of_streams))
        .nest("/api/v1", api())
        .routes(routes!(probes::get_health))
        .routes(routes!(probes::get_readiness))
        .split_for_parts();
    (routes, streams, document)
}

/// Routes and streams, which are the same for every server of a process.
static ROUTES: LazyLock<(Router<App>, Router<App>)> = LazyLock::new(|| {
    let (routes, streams, _) = described();
    (routes, streams)
});

/// Description, built for its first reader.
static DESCRIPTION: LazyLock<Described> = LazyLock::new(|| Described::of(described().2));

/// API description as OpenAPI 3.1 or 3.0, generated without a server.
pub fn openapi_document(is_older: bool) -> &'static str {
    DESCRIPTION.json(is_older)
}

/// Router of the whole server.
pub fn router(app: &App) -> Router {
    let (routes, streams) = ROUTES.clone();
    let routes = routes
        .route(
            "/api/v1/uploads/resumable/{id}",
            post(import::resumable::override_method).options(import::resumable::describe_resumable_uploads),
        )
        .route("/api/v1/openapi.json", get(openapi::get_document))
        .route("/api/v1/openapi-3.0.json", get(openapi::get_older_document))
        .route("/metrics", get(metrics::get_metrics))
        .merge(profile_routes())
        .route("/api", any(unknown_path))
        .route("/api/{*rest}", any(unknown_path))
        .method_not_allowed_fallback(unknown_method)
        .merge(assets::router())
        .merge(ui::router(app));
    let routes = match app.pools.standby {
        Some(_) => routes.layer(from_fn_with_state(app.clone(), standby_reads::read)),
        None => routes,
    };
    let routes = routes
        .layer(Extension(&DESCRIPTION))
        .layer(CompressionLayer::new().quality(CompressionLevel::Precise(5)).compress_when(is_page))
        .layer(CompressionLayer::new().quality(CompressionLevel::Fastest))
        .merge(streams.method_not_allowed_fallback(unknown_method))
        .layer(from_fn(unknown_parameters::refuse))
        .layer(from_fn_with_state(app.clone(), access_audit::watch))
        .layer(from_fn_with_state(app.clone(), origin::check))
        .layer(from_fn(import::resumable::speak_tus))
        .layer(CatchPanicLayer::custom(layers::panicked))
        .layer(from_fn_with_state(app.clone(), security_headers::harden))
        .layer(from_fn_with_state(app.clone(), layers::identify))
        .with_state(app.clone());
    // The API reference sends requests to the routes that its own server has, through all of their layers.
    routes.clone().layer(Extension(OwnRoutes(routes)))
}

/// Profiles of the process, whatever its roles.
fn profile_routes() -> Router<App> {
    Router::new()
        .route("/debug/pprof/profile", get(profiles::get_cpu_profile))
        .route("/debug/pprof/heap", get(profiles::get_heap_profile))
}

/// Router of a process without the role `web`: probes, metrics, and profiles.
pub fn probe_router(app: &App) -> Router {
    Router::new()
        .route("/healthz", get(probes::get_health))
        .route("/readyz", get(probes::get_readiness))
        .route("/metrics", get(metrics::get_metrics))
        .merge(profile_routes())
        .fallback(not_web)
        .layer(CatchPanicLayer::custom(layers::panicked))
        .layer(from_fn_with_state(app.clone(), security_headers::harden))
        .layer(from_fn_with_state(app.clone(), layers::identify))
        .with_state(app.clone())
}

async fn not_web(uri: Uri) -> Error {
    let role = "This process has no role `web` (TREELINE_ROLES)";
    Error::refuse(Code::NotFound, format!("There is nothing at {}. {role}.", uri.path()))
}

/// Returns true for pages: they compress to a third less with more effort, which saves phones a round trip.
fn is_page(_: StatusCode, _: Version, headers: &HeaderMap, _: &Extensions) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"))
}

async fn unknown_path(uri: Uri) -> Error {
    Error::refuse(Code::NotFound, format!("There is nothing at {}; see /api/docs.", uri.path()))
}

async fn unknown_method(method: Method, uri: Uri) -> Error {
    Error::refuse(Code::MethodNotAllowed, format!("{} does not take {method}; see the header Allow.", uri.path()))
}
