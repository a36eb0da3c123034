//! Routes whose handlers have no type of their own.
//!
//! Axum wraps each handler in about ten generic types, and the compiler proves for each of them that the handler's
//! future can be sent to another thread. With [`Erased`] handlers it does so once for each handler, and compiles the
//! wrappers once for all: the server is compiled in about two thirds of the time.

use std::sync::Arc;

use axum::{
    extract::Request,
    handler::Handler,
    response::Response,
    routing::{self, MethodRouter},
};
use futures::future::BoxFuture;

use crate::App;

/// Handler without type parameters.
#[derive(Clone)]
pub struct Erased(Arc<dyn Fn(Request, App) -> BoxFuture<'static, Response> + Send + Sync>);

impl Handler<(), App> for Erased {
    type Future = BoxFuture<'static, Response>;

    fn call(self, request: Request, app: App) -> Self::Future {
        (self.0)(request, app)
    }
}

/// Erases the type of a handler.
pub fn erased<H: Handler<T, App> + Sync, T>(handler: H) -> Erased {
    Erased(Arc::new(move |request, app| Box::pin(handler.clone().call(request, app))))
}

/// Route for GET and HEAD.
pub fn get<H: Handler<T, App> + Sync, T>(handler: H) -> MethodRouter<App> {
    routing::get(erased(handler))
}

/// Route for POST.
pub fn post<H: Handler<T, App> + Sync, T>(handler: H) -> MethodRouter<App> {
    routing::post(erased(handler))
}

/// Routes of one path with their descriptions, as `utoipa_axum::routes!`, with erased handlers.
macro_rules! routes {
    ($($handler:path),+ $(,)?) => {{
        use utoipa_axum::PathItemExt as _;
        let mut paths = utoipa::openapi::path::Paths::new();
        let mut schemas = Vec::new();
        let mut router = axum::routing::MethodRouter::new();
        $(
            let (path, operation, methods) = utoipa_axum::routes!(@resolve_types $handler : schemas);
            for method in &methods {
                router = router.on(method.to_method_filter(), $crate::http::routing::erased($handler));
            }
            paths.add_path_operation(&path, methods, operation);
        )+
        (schemas, paths, router)
    }};
}
pub(crate) use routes;
