//! API description: OpenAPI 3.1, generated from the handlers' annotations.
//!
//! Responses that many operations share (no credential, an invalid body, an unavailable database) are added here once,
//! based on the parameters and the body of the operation. The modules below add everything that the macros cannot
//! express, in the order of [`finished`]. Like everything else, the document needs a session or a token.

mod bounds; // bounds and patterns
mod examples; // examples of bodies
mod names; // names for generated clients
mod older; // the document as OpenAPI 3.0
mod reference; // the document as data for pages
mod shape; // corrections of the macros' output
#[cfg(test)]
mod tests;
mod webhooks; // messages that Treeline sends

use std::sync::{LazyLock, OnceLock};

use app::pages::api_reference::{Operation as ReferenceOperation, Reference};
use axum::{
    extract::Extension,
    http::header,
    response::{IntoResponse, Response},
};
use domain::problem::MEDIA_TYPE;
use serde_json::Value;
use utoipa::{
    OpenApi,
    openapi::{
        ContentBuilder, HttpMethod, Object, Ref, RefOr, ResponseBuilder, Type,
        header::{Header, HeaderBuilder},
        path::{Operation, ParameterIn},
        security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme},
    },
};

use engine::access::caller::Caller;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Treeline",
        version = "1",
        description = "Runs long work for other programs and shows it to people: trees of jobs, their items, and the \
                       workers that claim them.\n\n\
                       Every error response is a problem document (RFC 9457) with a stable `code`. Requests are \
                       strict: unknown fields and text with NUL are refused. Lists are paginated: `next_cursor` of a \
                       page is `cursor` of the next one. Requests that create something can be repeated with the same \
                       `Idempotency-Key`.",
        contact(name = "The Treeline developers"),
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    servers((url = "/", description = "Server of this document")),
    security(("token" = []), ("session" = [])),
    // Schemas that only parameters and events refer to.
    components(schemas(
        domain::Problem,
        domain::tree::change::Change,
        domain::tree::change::Roots,
        domain::import::export::ExportFormat,
        crate::http::import::file_check::CheckFormat,
        crate::http::import::import_template::TemplateFormat
    )),
    tags(
        (name = "job types", description = "Settings shared by all jobs of a kind"),
        (name = "uploads", description = "Files that jobs are created from"),
        (name = "jobs", description = "Trees of jobs: creation, items, progress and results"),
        (name = "schedules", description = "Cron schedules that create trees"),
        (name = "items", description = "Units of work"),
        (name = "assignments", description = "Claims of items by workers: heartbeats, results and failures"),
        (name = "dead letters", description = "Failed items that wait for a person"),
        (name = "views", description = "Saved filters of lists"),
        (name = "bulk", description = "Operations on all rows that a filter matches"),
        (name = "deliveries", description = "Callbacks of complete trees, and messages about alerts"),
        (name = "watch", description = "Live updates"),
        (name = "people", description = "Users, services, tokens and sessions"),
        (name = "ops", description = "Operation and monitoring of the server"),
    )
)]
struct Head;

/// Document without any route.
pub fn head() -> utoipa::openapi::OpenApi {
    Head::openapi()
}

/// Description of the program's API. All of its servers share it.
pub type Description = &'static LazyLock<Described>;

/// Finished document, as text and as data for pages. The data takes 10 MB: it is built for the first page that shows it,
/// and the text of OpenAPI 3.0 for its first reader.
#[derive(Debug)]
pub struct Described {
    json: String,
    older: OnceLock<String>,
    reference: OnceLock<Reference>,
}

impl Described {
    /// Builds the served text from the document of all routes.
    pub fn of(routes: utoipa::openapi::OpenApi) -> Self {
        let json = complete_document(routes).to_string();
        Self { json, older: OnceLock::new(), reference: OnceLock::new() }
    }

    fn document(&self) -> Value {
        serde_json::from_str(&self.json).unwrap_or_default()
    }

    /// Text of the document, as OpenAPI 3.1 or 3.0.
    pub fn json(&self, is_older: bool) -> &str {
        if is_older { self.older.get_or_init(|| older::of(&self.document()).to_string()) } else { &self.json }
    }

    /// Operations for the pages of the API reference.
    pub fn reference(&self) -> &Reference {
        self.reference.get_or_init(|| reference::of(&self.document()))
    }

    /// Operation with this id.
    pub fn operation(&self, id: &str) -> Option<&ReferenceOperation> {
        self.reference().groups.iter().flat_map(|group| &group.operations).find(|operation| operation.id == id)
    }
}

/// Completes the document of all routes.
fn complete_document(mut document: utoipa::openapi::OpenApi) -> Value {
    let components = document.components.get_or_insert_default();
    components.add_security_scheme(
        "token",
        SecurityScheme::Http(
            HttpBuilder::new()
                .scheme(HttpAuthScheme::Bearer)
                .description(Some("Token of a service, as `Authorization: Bearer …`"))
                .build(),
        ),
    );
    let cookie = ApiKeyValue::with_description(
        "treeline_session",
        "Session of a person; over HTTPS the cookie is named `__Host-treeline_session`",
    );
    components.add_security_scheme("session", SecurityScheme::ApiKey(ApiKey::Cookie(cookie)));
    let cookie = ApiKeyValue::with_description(
        "treeline_share",
        "Session of a share link, valid only for its tree; over HTTPS the cookie is named `__Secure-treeline_share`",
    );
    components.add_security_scheme("share", SecurityScheme::ApiKey(ApiKey::Cookie(cookie)));
    for item in document.paths.paths.values_mut() {
        let operations = [
            (HttpMethod::Get, &mut item.get),
            (HttpMethod::Post, &mut item.post),
            (HttpMethod::Put, &mut item.put),
            (HttpMethod::Patch, &mut item.patch),
            (HttpMethod::Delete, &mut item.delete),
            (HttpMethod::Options, &mut item.options),
        ];
        for (method, operation) in operations {
            if let Some(operation) = operation {
                complete(&method, operation);
                describe_answers(operation);
            }
        }
    }
    finished(&document)
}

/// Applies everything that the macros cannot express.
fn finished(document: &utoipa::openapi::OpenApi) -> Value {
    let mut document = serde_json::to_value(document).unwrap_or_default();
    shape::apply(&mut document);
    bounds::apply(&mut document);
    webhooks::add(&mut document);
    examples::apply(&mut document);
    names::apply(&mut document);
    document
}

/// Operations of a document, each with its path.
fn operations(document: &mut Value) -> impl Iterator<Item = (&str, &mut Value)> {
    let paths = document.get_mut("paths").and_then(Value::as_object_mut).into_iter().flatten();
    paths.flat_map(|(path, item)| {
        let operations = item.as_object_mut().into_iter().flatten();
        operations
            .filter(|(_, operation)| operation["responses"].is_object())
            .map(|(_, operation)| (path.as_str(), operation))
    })
}

/// Parameters of an operation.
fn parameters(operation: &mut Value) -> impl Iterator<Item = &mut Value> {
    operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten()
}

/// Adds the refusals that follow from the operation's parameters and body.
fn complete(method: &HttpMethod, operation: &mut Operation) {
    let parameters = operation.parameters.as_deref().unwrap_or_default();
    let takes = |place: ParameterIn| parameters.iter().any(|it| matches!(it, RefOr::T(it) if it.parameter_in == place));
    // An operation without a security entry needs a credential; an open one has an empty entry.
    let nothing = SecurityRequirement::default();
    let named = |name: &str| parameters.iter().any(|it| matches!(it, RefOr::T(it) if it.name == name));
    let piece = named("Tus-Resumable");
    let open = operation.security.as_ref().is_some_and(|needs| needs.contains(&nothing));
    let unsafe_method = !matches!(method, HttpMethod::Get | HttpMethod::Options);
    let body = operation.request_body.is_some();
    let receives_file = matches!(&operation.request_body, Some(RefOr::T(body))
        if ["multipart/form-data", "application/offset+octet-stream"].iter().any(|one| body.content.contains_key(*one)));
    let possible = [
        ("400", body || takes(ParameterIn::Query) || takes(ParameterIn::Header), "The request is malformed"),
        ("401", !open, "The credential is missing or invalid"),
        ("403", !open || unsafe_method, "The credential does not allow it, or the request came from another site"),
        (
            "404",
            takes(ParameterIn::Path) || takes(ParameterIn::Query) || body,
            "It does not exist, or the caller may not see it",
        ),
        ("409", unsafe_method, "The current state does not allow it; see `code`"),
        ("410", takes(ParameterIn::Path), "The job was removed"),
        ("412", named("If-Match") || piece, "The version does not match"),
        ("413", body || piece, "The body is too large"),
        ("415", body || piece, "The media type is not supported"),
        ("422", body || named("Idempotency-Key"), "Well-formed but invalid; `errors` lists the places"),
        (
            "429",
            true,
            "`too_many_requests`: over the rate limit of the credential or address; `quota_exceeded`: over a quota of the \
             owner",
        ),
        ("500", true, "Internal error"),
        (
            "503",
            true,
            "`busy`: the server holds as many requests or bytes as it can; or the database is unavailable, or the \
             server is shutting down",
        ),
        ("507", receives_file || named("Upload-Length"), "`insufficient_storage`: the disk for files is nearly full"),
    ];
    for (status, applies, description) in possible {
        if applies {
            operation.responses.responses.entry(status.to_owned()).or_insert_with(|| problem(description));
        }
    }
    for status in ["429", "503"] {
        if let Some(RefOr::T(answer)) = operation.responses.responses.get_mut(status) {
            answer.headers.entry("Retry-After".to_owned()).or_insert_with(|| RefOr::T(retry_after()));
        }
    }
}

/// Adds missing descriptions of responses: client generators reject a document without them.
fn describe_answers(operation: &mut Operation) {
    for (status, answer) in &mut operation.responses.responses {
        if let RefOr::T(answer) = answer
            && answer.description.is_empty()
        {
            let words = match status.as_str() {
                "200" => "The current state",
                "201" => "Created",
                "202" => "Accepted; the work continues in the background",
                _ => "Done",
            };
            words.clone_into(&mut answer.description);
        }
    }
}

/// Header with the number of seconds after which to repeat a refused request.
fn retry_after() -> Header {
    HeaderBuilder::new()
        .schema(Some(Object::with_type(Type::Integer)))
        .description(Some("Seconds after which to send the request again, if known"))
        .build()
}

fn problem(description: &str) -> RefOr<utoipa::openapi::Response> {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    RefOr::T(ResponseBuilder::new().description(description).content(MEDIA_TYPE, content).build())
}

/// `GET /api/v1/openapi.json`.
pub async fn get_document(_: Caller, Extension(description): Extension<Description>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], description.json(false)).into_response()
}

/// `GET /api/v1/openapi-3.0.json`: the document for clients that do not support 3.1.
pub async fn get_older_document(_: Caller, Extension(description): Extension<Description>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], description.json(true)).into_response()
}
