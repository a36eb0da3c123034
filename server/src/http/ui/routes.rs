//! Table of pages: every URL with an HTML response, its loader, and its forms.
//!
//! Pages are routes of `leptos_router`, listed and rendered by `leptos_axum` on the server only: no island and no
//! function of the browser module uses the router, so it is not part of that module. Forms are plain axum handlers that
//! respond with 303 or with the page again. Nothing here reads or writes data.

use std::sync::LazyLock;

use axum::{
    Router,
    extract::{Request, State},
    http::{Method, Uri},
    middleware::{from_fn_with_state, map_response_with_state},
    response::{IntoResponse as _, Redirect, Response},
};
use domain::Code;
use leptos::prelude::*;
use leptos_axum::{AxumRouteListing, LeptosRoutes as _, generate_route_list};
use leptos_router::{
    SsrMode,
    components::{Route, Router as Pages, Routes},
    path,
};

use super::{
    Signed, Visit, address, alert_channels, audit, deliveries, error_groups, jobs, menu, notices,
    render::{page, render, render_forms},
    schedules, search, see_other, start_job, theme, types, views,
};
use crate::App;
use crate::http::{
    routing::{erased, get, post},
    ui::{
        identity::{account, factors, language, oidc, people, services, share_links, sign_in, step_up},
        import::{correct, imports, new_import},
        operator::{bulk, items, overview, workers},
        reference::{api_reference, documentation},
    },
};
use engine::error::Error;

/// Pages with their loaders.
fn pages() -> impl IntoView {
    view! {
        <Pages>
            <Routes fallback=page(erased(unknown_page))>
                <Route path=path!("/") ssr=SsrMode::Async view=page(erased(overview::start)) />
                <Route path=path!("/sign-in") ssr=SsrMode::Async view=page(erased(sign_in::show)) />
                <Route path=path!("/sign-in/oidc/:provider") ssr=SsrMode::Async view=page(erased(oidc::start_authorization)) />
                <Route path=path!("/sign-in/oidc/:provider/callback") ssr=SsrMode::Async view=page(erased(oidc::handle_callback)) />
                <Route path=path!("/sign-in/:token") ssr=SsrMode::Async view=page(erased(sign_in::confirm)) />
                <Route path=path!("/imports") ssr=SsrMode::Async view=page(erased(imports::list)) />
                <Route path=path!("/imports/new") ssr=SsrMode::Async view=page(erased(new_import::new)) />
                <Route path=path!("/imports/:id") ssr=SsrMode::Async view=page(erased(imports::show)) />
                <Route path=path!("/imports/:id/correct") ssr=SsrMode::Async view=page(erased(correct::show)) />
                <Route path=path!("/s/:token") ssr=SsrMode::Async view=page(erased(share_links::show)) />
                <Route path=path!("/step-up") ssr=SsrMode::Async view=page(erased(step_up::show)) />
                <Route path=path!("/account") ssr=SsrMode::Async view=page(erased(account::show)) />
                <Route path=path!("/audit") ssr=SsrMode::Async view=page(erased(audit::show)) />
                <Route path=path!("/jobs") ssr=SsrMode::Async view=page(erased(jobs::list)) />
                <Route path=path!("/jobs/new") ssr=SsrMode::Async view=page(erased(start_job::new)) />
                <Route path=path!("/jobs/:id") ssr=SsrMode::Async view=page(erased(jobs::show)) />
                <Route path=path!("/deliveries") ssr=SsrMode::Async view=page(erased(deliveries::list)) />
                <Route path=path!("/deliveries/:id") ssr=SsrMode::Async view=page(erased(deliveries::show)) />
                <Route path=path!("/dead") ssr=SsrMode::Async view=page(erased(items::dead)) />
                <Route path=path!("/items") ssr=SsrMode::Async view=page(erased(items::list)) />
                <Route path=path!("/items/:id") ssr=SsrMode::Async view=page(erased(items::show)) />
                <Route path=path!("/bulk") ssr=SsrMode::Async view=page(erased(bulk::list)) />
                <Route path=path!("/bulk/new") ssr=SsrMode::Async view=page(erased(bulk::new)) />
                <Route path=path!("/bulk/:id") ssr=SsrMode::Async view=page(erased(bulk::show)) />
                <Route path=path!("/workers") ssr=SsrMode::Async view=page(erased(workers::workers)) />
                <Route path=path!("/workers/:credential") ssr=SsrMode::Async view=page(erased(workers::show_worker)) />
                <Route path=path!("/types") ssr=SsrMode::Async view=page(erased(types::list)) />
                <Route path=path!("/new-type") ssr=SsrMode::Async view=page(erased(types::new)) />
                <Route path=path!("/schedules") ssr=SsrMode::Async view=page(erased(schedules::list)) />
                <Route path=path!("/schedules/new") ssr=SsrMode::Async view=page(erased(schedules::new)) />
                <Route path=path!("/schedules/:id") ssr=SsrMode::Async view=page(erased(schedules::show)) />
                <Route path=path!("/alert-channels") ssr=SsrMode::Async view=page(erased(alert_channels::list)) />
                <Route path=path!("/alert-channels/new") ssr=SsrMode::Async view=page(erased(alert_channels::new)) />
                <Route path=path!("/alert-channels/:id") ssr=SsrMode::Async view=page(erased(alert_channels::show)) />
                <Route path=path!("/views") ssr=SsrMode::Async view=page(erased(views::list)) />
                <Route path=path!("/search") ssr=SsrMode::Async view=page(erased(search::show)) />
                <Route path=path!("/menu") ssr=SsrMode::Async view=page(erased(menu::menu)) />
                <Route path=path!("/docs") ssr=SsrMode::Async view=page(erased(documentation::first)) />
                <Route path=path!("/docs/*page") ssr=SsrMode::Async view=page(erased(documentation::show)) />
                <Route path=path!("/api/docs") ssr=SsrMode::Async view=page(erased(api_reference::index)) />
                <Route path=path!("/api/docs/:operation") ssr=SsrMode::Async view=page(erased(api_reference::show)) />
                <Route path=path!("/shortcuts") ssr=SsrMode::Async view=page(erased(menu::shortcuts)) />
                <Route path=path!("/account/totp") ssr=SsrMode::Async view=page(erased(factors::show_totp)) />
                <Route path=path!("/people") ssr=SsrMode::Async view=page(erased(people::list)) />
                <Route path=path!("/people/:id") ssr=SsrMode::Async view=page(erased(people::show)) />
                <Route path=path!("/services") ssr=SsrMode::Async view=page(erased(services::show)) />
                <Route path=path!("/types/:name") ssr=SsrMode::Async view=page(erased(types::show)) />
            </Routes>
        </Pages>
    }
}

/// Routes of all pages.
static ROUTES: LazyLock<Vec<AxumRouteListing>> = LazyLock::new(|| generate_route_list(pages));

/// Paths of all pages in axum's syntax.
pub fn addresses() -> impl Iterator<Item = &'static str> {
    ROUTES.iter().map(AxumRouteListing::path)
}

/// Router of pages and forms. An unknown URL gets the error page.
pub fn router(app: &App) -> Router<App> {
    let draw = async |State(app): State<App>, request: Request| render(app, request, pages).await;
    Router::new()
        .leptos_routes_with_handler(ROUTES.clone(), draw)
        .route("/docs/benchmarks/{name}", get(documentation::chart))
        .route("/sample.csv", get(new_import::sample))
        .route("/sign-in/second-step", get(sign_in::start_over))
        .route("/sign-in", post(sign_in::begin))
        .route("/sign-in/{token}", post(sign_in::redeem))
        .route("/sign-out", post(sign_in::end))
        .route("/theme", post(theme::choose))
        .route("/sidebar", post(theme::fold))
        .route("/language", post(language::choose))
        .route("/imports", post(new_import::create))
        .route("/imports/new", post(new_import::upload))
        .route("/imports/sample", post(new_import::try_sample))
        .route("/imports/{id}/cancel", post(imports::cancel))
        .route("/imports/{id}/delete", post(imports::delete))
        .route("/imports/{id}/correct", post(correct::retry))
        .route("/imports/{id}/share", post(share_links::create))
        .route("/shares/{id}/revoke", post(share_links::revoke))
        .route("/step-up", post(step_up::confirm))
        .route("/sign-in/second-step", post(sign_in::second_step))
        .route("/account/totp/confirm", post(factors::confirm_totp))
        .route("/account/passkeys/{id}/rename", post(factors::rename_passkey))
        .route("/account/totp/rename", post(factors::rename_totp))
        .route("/account/sessions/end", post(account::end_others))
        .route("/account/sessions/{id}/end", post(account::end_session))
        .route("/people/{id}/sessions/end", post(people::end_sessions))
        .route("/people/{id}/sessions/{session}/end", post(people::end_session))
        .route("/jobs", post(start_job::create))
        .route("/jobs/{id}/cancel", post(jobs::cancel))
        .route("/jobs/{id}/replay", post(jobs::replay))
        .route("/jobs/{id}/watch", post(notices::watch))
        .route("/jobs/{id}/unwatch", post(notices::unwatch))
        .route("/notices/read", post(notices::read))
        .route("/account/notices", post(notices::change))
        .route("/jobs/{id}/pin", post(jobs::pin))
        .route("/jobs/{id}/unpin", post(jobs::unpin))
        .route("/jobs/{id}/delete", post(jobs::delete))
        .route("/deliveries/{id}/resend", post(deliveries::resend))
        .route("/dead/groups/{type}/{fingerprint}", get(error_groups::show).post(erased(error_groups::change)))
        .route("/items/{id}/retry", post(items::retry))
        .route("/items/{id}/cancel", post(items::cancel))
        .route("/items/{id}/replay", post(items::replay))
        .route("/items/{id}/events", post(items::answer))
        .route("/bulk", post(bulk::preview))
        .route("/bulk/{id}/start", post(bulk::start))
        .route("/bulk/{id}/cancel", post(bulk::cancel))
        .route("/schedules", post(schedules::create))
        .route("/schedules/{id}", post(schedules::change))
        .route("/schedules/{id}/run", post(schedules::run))
        .route("/schedules/{id}/pause", post(schedules::pause))
        .route("/schedules/{id}/resume", post(schedules::resume))
        .route("/schedules/{id}/delete", post(schedules::delete))
        .route("/alert-channels", post(alert_channels::create))
        .route("/alert-channels/{id}", post(alert_channels::change))
        .route("/alert-channels/{id}/test", post(alert_channels::test))
        .route("/alert-channels/{id}/delete", post(alert_channels::delete))
        .route("/api/docs/{operation}", post(api_reference::send))
        .route("/views", post(views::create))
        .route("/views/{id}", post(views::change))
        .route("/views/{id}/default", post(views::set_default))
        .route("/views/{id}/delete", post(views::delete))
        .route("/types/{name}/pause", post(types::pause))
        .route("/types/{name}/resume", post(types::resume))
        .merge(guarded(app))
        .method_not_allowed_fallback(back)
        .fallback(fallback)
        .layer(map_response_with_state(app.clone(), render_forms))
}

/// Forms that require a recent sign-in.
fn guarded(app: &App) -> Router<App> {
    Router::new()
        .route("/account/totp", post(factors::start_totp))
        .route("/account/password", post(account::set_password))
        .route("/account/providers/{provider}", post(oidc::connect))
        .route("/account/connections/{id}/remove", post(oidc::disconnect))
        .route("/account/totp/remove", post(factors::remove_totp))
        .route("/account/recovery-codes", post(factors::renew_codes))
        .route("/account/passkeys/{id}/remove", post(factors::remove_passkey))
        .route("/people", post(people::create))
        .route("/people/{id}", post(people::change))
        .route("/people/{id}/disable", post(people::disable))
        .route("/people/{id}/enable", post(people::enable))
        .route("/people/{id}/sign-in-link", post(people::make_link))
        .route("/people/{id}/reset-factors", post(people::reset_factors))
        .route("/services", post(services::create))
        .route("/services/tokens", post(services::create_token))
        .route("/services/{id}/disable", post(services::disable))
        .route("/services/{id}/enable", post(services::enable))
        .route("/tokens/{id}/revoke", post(services::revoke_token))
        .route("/types", post(types::create))
        .route("/types/{name}", post(types::change))
        .route("/types/{name}/delete", post(types::delete))
        .route_layer(from_fn_with_state(app.clone(), step_up::challenge))
}

/// Redirects a URL with a trailing slash to the one without it; otherwise shows the page for unknown URLs.
async fn fallback(visit: Visit, uri: Uri) -> Response {
    let path = uri.path().trim_end_matches('/');
    let ours = path.starts_with('/') && !path.starts_with("//") && !path.contains('\\');
    if ours && path.len() < uri.path().len() {
        let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        return Redirect::permanent(&format!("{path}{query}")).into_response();
    }
    unknown_page(visit, uri).await
}

async fn unknown_page(visit: Visit, uri: Uri) -> Response {
    visit.error_page(Error::refuse(Code::NotFound, format!("There is nothing at {}.", uri.path())))
}

/// Handles a GET on the URL of a form: shows the form's page, with the form open if it is the page's own.
async fn back(signed: Signed, method: Method, uri: Uri) -> Response {
    if method != Method::GET && method != Method::HEAD {
        return signed.visit.error_page(Error::refuse(Code::MethodNotAllowed, format!("{method} does nothing here.")));
    }
    let mut page = uri.path();
    let mut above = Vec::new();
    loop {
        let (parent, last) = page.rsplit_once('/').unwrap_or(("/", page));
        above.push(last);
        page = parent;
        if addresses().any(|address| is_at(address, page)) {
            break;
        }
    }
    let form = if let [form] = above[..] { form } else { "" };
    see_other(&address(page, &[("open", form)]))
}

/// Returns true if a route matches the path.
fn is_at(route: &str, path: &str) -> bool {
    let (mut route, mut path) = (route.split('/'), path.split('/'));
    loop {
        match (route.next(), path.next()) {
            (None, None) => return true,
            (Some(part), Some(found)) if part == found || part.starts_with('{') && !found.is_empty() => {}
            _ => return false,
        }
    }
}
