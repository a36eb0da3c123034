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

use std::sync::{Arc, OnceLock};

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
        description = "Long work for other programs, shown to people: trees of jobs, their items, and the workers \
                       that claim them.\n\n\
                       Every refusal is a problem document (RFC 9457) with a stable `code`. Requests are strict: a \
                       field that is not described is refused, and so is text with NUL. Lists come in pages: \
                       `next_cursor` of one is `cursor` of the next. Requests that create something can be sent again \
                       under the same `Idempotency-Key`.",
        contact(name = "The Treeline developers"),
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    servers((url = "/", description = "The server that this document comes from")),
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
        (name = "job types", description = "The contract shared by all jobs of a kind"),
        (name = "uploads", description = "Files that jobs are filled from"),
        (name = "jobs", description = "Trees of jobs: made, filled, watched"),
        (name = "schedules", description = "Trees that are made by the clock"),
        (name = "items", description = "The units of work"),
        (name = "assignments", description = "What workers say"),
        (name = "dead letters", description = "Items that wait for a person"),
        (name = "views", description = "Filters of lists under a name"),
        (name = "bulk", description = "One deed to everything that a list shows"),
        (name = "deliveries", description = "Callbacks of complete trees, and messages about alerts"),
        (name = "watch", description = "What changes, as it changes"),
        (name = "people", description = "Who may ask"),
        (name = "ops", description = "For whoever runs the server"),
    )
)]
struct Head;

/// Document without any route.
pub fn head() -> utoipa::openapi::OpenApi {
    Head::openapi()
}

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
    pub fn of(routes: utoipa::openapi::OpenApi) -> Arc<Self> {
        let json = complete_document(routes).to_string();
        Arc::new(Self { json, older: OnceLock::new(), reference: OnceLock::new() })
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
                .description(Some("A service's token, as `Authorization: Bearer …`"))
                .build(),
        ),
    );
    let cookie = ApiKeyValue::with_description(
        "treeline_session",
        "A person's session; under https the cookie is named `__Host-treeline_session`",
    );
    components.add_security_scheme("session", SecurityScheme::ApiKey(ApiKey::Cookie(cookie)));
    let cookie = ApiKeyValue::with_description(
        "treeline_share",
        "Set by the page of a link to one tree, and good for that tree alone; under https the cookie is named \
         `__Secure-treeline_share`",
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
        ("401", !open, "No credential, or not a good one"),
        ("403", !open || unsafe_method, "The credential does not allow it, or another site sent it"),
        (
            "404",
            takes(ParameterIn::Path) || takes(ParameterIn::Query) || body,
            "There is no such thing, or it is not yours to see",
        ),
        ("409", unsafe_method, "The state of things does not allow it; see `code`"),
        ("410", takes(ParameterIn::Path), "The job was removed"),
        ("412", named("If-Match") || piece, "The version that the request names is not the one here"),
        ("413", body || piece, "Too large"),
        ("415", body || piece, "Not the media type that is expected"),
        ("422", body || named("Idempotency-Key"), "Understood, but not valid; `errors` says where"),
        (
            "429",
            true,
            "`too_many_requests`: over the rate limit of the credential or address; `quota_exceeded`: over a quota of the \
             owner",
        ),
        ("500", true, "Something broke on our side"),
        (
            "503",
            true,
            "`busy`: the server holds as many requests or bytes as it can; or the database is away, or the server is \
             shutting down",
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
                "200" => "As it is now",
                "201" => "Made",
                "202" => "Taken on; it goes on by itself",
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
        .description(Some("Seconds after which to send the request again, where the server knows"))
        .build()
}

fn problem(description: &str) -> RefOr<utoipa::openapi::Response> {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    RefOr::T(ResponseBuilder::new().description(description).content(MEDIA_TYPE, content).build())
}

/// `GET /api/v1/openapi.json`.
pub async fn get_document(_: Caller, Extension(described): Extension<Arc<Described>>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], described.json.clone()).into_response()
}

/// `GET /api/v1/openapi-3.0.json`: the document for clients that do not support 3.1.
pub async fn get_older_document(_: Caller, Extension(described): Extension<Arc<Described>>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], described.json(true).to_owned()).into_response()
}
