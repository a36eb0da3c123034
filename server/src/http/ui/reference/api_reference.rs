//! `/api/docs`: the API reference, and requests sent from it.
//!
//! A request is answered by this server's own routes, inside this process, through all of their layers and with the
//! credential of the form's request: every check of the API holds for it, and the audit log has it like any other call.
//! Nothing else can be reached: the path is the one of the operation. What is dangerous needs a confirmation that
//! names exactly this request.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use app::{
    address::segment,
    pages::api_reference::{self as page, Operation, Parameter, Place, Received, RequestParts, Try, field_name},
};
use axum::{
    Router,
    body::Body,
    extract::{ConnectInfo, Extension, Path, RawQuery, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::Response,
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use domain::{Code, Document, Problem};
use futures::StreamExt as _;
use sha2::{Digest as _, Sha256};
use tower::ServiceExt as _;

use crate::{
    App,
    http::{
        openapi::Description,
        ui::{Signed, form::Fields, pairs, status},
    },
};
use engine::error::{Error, Result};

/// Bytes of a response that are shown.
const MOST_BYTES: usize = 64 << 10;

/// Maximum bytes of a body that is sent from here: the page repeats it in every programming language.
const MOST_BODY_BYTES: usize = 64 << 10;

/// Maximum characters of a parameter.
const MOST_CHARACTERS: usize = 2_000;

/// Time that a response may take: a little more than the longest wait that an operation has.
const LONGEST: Duration = Duration::from_secs(35);

/// This server's routes, for the requests of the reference.
#[derive(Clone, Debug)]
pub struct OwnRoutes(pub(crate) Router);

/// `GET /api/docs`, with `?q=` those operations that have all of its words.
pub(crate) async fn index(
    signed: Signed,
    Extension(description): Extension<Description>,
    RawQuery(query): RawQuery,
) -> Response {
    let filter = pairs(query.as_deref()).find(|(name, _)| name == "q").map(|(_, words)| words).unwrap_or_default();
    signed.visit.page(StatusCode::OK, move || page::index_page(description.reference(), filter.trim()))
}

/// `GET /api/docs/{operation}`. Parameters of the URL fill the form, but not its body: a link must not decide what is
/// sent.
pub(crate) async fn show(
    signed: Signed,
    Extension(description): Extension<Description>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    let mut tried = Try::default();
    tried.values.extend(pairs(query.as_deref()));
    draw(&signed, StatusCode::OK, description, &id, tried)
}

fn draw(signed: &Signed, status: StatusCode, description: Description, id: &str, tried: Try) -> Response {
    let Some(operation) = description.operation(id).cloned() else { return unknown(signed) };
    signed.visit.page(status, move || page::operation_page(description.reference(), &operation, &tried))
}

fn unknown(signed: &Signed) -> Response {
    signed.visit.error_page(Error::refuse(Code::NotFound, "The API has no such operation."))
}

/// `POST /api/docs/{operation}`: sends the request of the form.
pub(in crate::http::ui) async fn send(
    State(app): State<App>,
    signed: Signed,
    Extension(description): Extension<Description>,
    Extension(OwnRoutes(routes)): Extension<OwnRoutes>,
    Path(id): Path<String>,
    (headers, peer): (HeaderMap, Option<Extension<ConnectInfo<SocketAddr>>>),
    fields: Fields,
) -> Response {
    let Some(operation) = description.operation(&id).filter(|operation| operation.not_here.is_none()) else {
        return unknown(&signed);
    };
    let body = fields.lines("body");
    if body.as_ref().is_some_and(|body| body.len() > MOST_BODY_BYTES) {
        let why = "A body that is sent from here has at most 64 KiB. Send a longer one from a program.";
        return signed.visit.error_page(Error::refuse(Code::TooLarge, why));
    }
    let value = |parameter: &Parameter| (field_name(parameter), fields.trimmed(&field_name(parameter)));
    let mut tried = Try { values: operation.parameters.iter().map(value).collect(), body, ..Try::default() };
    let request = match request_of(operation, &tried) {
        Ok(request) => request,
        Err(problem) => return refused(&signed, description, &id, tried, problem),
    };
    let line = format!("{} {}", request.method, request.target());
    let token = confirmation(&line, &request);
    if operation.dangerous && fields.text("confirmed") != token {
        tried.unconfirmed = Some((line, token));
        return draw(&signed, StatusCode::OK, description, &id, tried);
    }
    let credential = sender_headers(&headers, app.config.identity.auth_header.as_ref());
    match Box::pin(dispatch(routes, &request, credential, peer)).await {
        Ok(received) => tried.response = Some(Received { request: line, ..received }),
        Err(Error::Problem(problem)) => return refused(&signed, description, &id, tried, *problem),
        Err(error) => return signed.visit.error_page(error),
    }
    tried.sent = Some(request);
    draw(&signed, StatusCode::OK, description, &id, tried)
}

fn refused(signed: &Signed, description: Description, id: &str, tried: Try, problem: Problem) -> Response {
    let status = status(&problem);
    draw(signed, status, description, id, Try { problem: Some(problem), ..tried })
}

/// The value that confirms exactly this request.
fn confirmation(line: &str, request: &RequestParts) -> String {
    let mut hash = Sha256::new_with_prefix(line);
    for (name, value) in &request.headers {
        hash.update(format!("\n{name}: {value}"));
    }
    hash.update("\n\n");
    hash.update(request.body.as_ref().map_or("", Document::text));
    URL_SAFE_NO_PAD.encode(hash.finalize())
}

/// Request of the typed values. Every fault has the name of its field.
pub fn request_of(operation: &Operation, tried: &Try) -> Result<RequestParts, Problem> {
    let mut faults = Vec::new();
    let mut request =
        RequestParts { method: operation.method.clone(), path: operation.path.clone(), ..RequestParts::default() };
    for parameter in &operation.parameters {
        let field = field_name(parameter);
        let value = tried.values.get(&field).cloned().unwrap_or_default();
        let mut fault = |expected: &str| faults.push((format!("/{field}"), expected.to_owned()));
        if value.is_empty() {
            if parameter.required {
                fault("expected a value");
            }
            continue;
        }
        if value.chars().nth(MOST_CHARACTERS).is_some() {
            fault("expected at most 2,000 characters");
            continue;
        }
        match parameter.place {
            // A segment of dots would leave the operation's path.
            Place::Path if value.chars().all(|c| c == '.') => fault("expected a name or an id, not only dots"),
            Place::Path => {
                request.path = request.path.replace(&format!("{{{}}}", parameter.name), &segment(&value));
                request.values.push(value);
            }
            Place::Query => request.query.push((parameter.name.clone(), value)),
            Place::Header if HeaderValue::from_str(&value).is_ok() => {
                request.headers.push((parameter.name.clone(), value));
            }
            Place::Header => fault("expected text that a header can have"),
        }
    }
    let typed = tried.body.as_deref().map(str::trim).filter(|typed| !typed.is_empty());
    if let Some(typed) = typed.filter(|_| operation.json_body().is_some()) {
        match Document::parse(typed.to_owned()) {
            Ok(body) => request.body = Some(body),
            Err(error) => faults.push(("/body".to_owned(), format!("expected JSON; found {error}"))),
        }
    }
    if faults.is_empty() { Ok(request) } else { Err(Problem::invalid_body(faults)) }
}

/// Headers of the form's request that say who asks, and from where.
fn sender_headers(headers: &HeaderMap, auth_header: Option<&HeaderName>) -> HeaderMap {
    let names =
        [header::AUTHORIZATION, header::COOKIE, header::HOST, header::ORIGIN, header::USER_AGENT, header::FORWARDED];
    let mut passed_on = HeaderMap::new();
    for (name, value) in headers {
        let is_of_sender = names.contains(name)
            || Some(name) == auth_header
            || name.as_str().starts_with("x-forwarded-")
            || name.as_str().starts_with("sec-fetch-");
        if is_of_sender {
            passed_on.append(name.clone(), value.clone());
        }
    }
    passed_on
}

/// Sends a request to this server's routes.
async fn dispatch(
    routes: Router,
    parts: &RequestParts,
    credential: HeaderMap,
    peer: Option<Extension<ConnectInfo<SocketAddr>>>,
) -> Result<Received> {
    let request = http_request(parts, credential, peer)
        .map_err(|error| Error::Broken(format!("a request of the API reference: {error}")))?;
    let began = Instant::now();
    let answered = tokio::time::timeout(LONGEST, async {
        let response = routes.oneshot(request).await.unwrap_or_else(|never| match never {});
        let (head, body) = response.into_parts();
        (head, beginning(body).await)
    });
    let (head, (bytes, is_cut)) = answered.await.map_err(|_| {
        Error::refuse(Code::Busy, "There was no response for 35 seconds. The request may still have had its effect.")
    })?;
    let kind = head.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let shown = head.headers.iter().filter(|(name, _)| !HIDDEN.contains(&name.as_str()));
    let problem = head.status.is_client_error().then(|| serde_json::from_slice::<Problem>(&bytes).ok()).flatten();
    Ok(Received {
        request: String::new(),
        status: head.status.as_u16(),
        reason: head.status.canonical_reason().unwrap_or_default().to_owned(),
        milliseconds: began.elapsed().as_millis() as u64,
        headers: shown
            .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
            .collect(),
        is_json: kind.contains("json"),
        needs_step_up: problem.is_some_and(|problem| problem.code == Code::StepUpRequired),
        text: text_of(bytes, is_cut),
        is_cut,
    })
}

/// Headers for browsers, which say nothing about the operation, and cookies.
const HIDDEN: [&str; 10] = [
    "cache-control",
    "content-length",
    "content-security-policy",
    "cross-origin-opener-policy",
    "permissions-policy",
    "referrer-policy",
    "set-cookie",
    "strict-transport-security",
    "vary",
    "x-content-type-options",
];

fn http_request(
    parts: &RequestParts,
    credential: HeaderMap,
    peer: Option<Extension<ConnectInfo<SocketAddr>>>,
) -> Result<Request, axum::http::Error> {
    let mut request = Request::builder().method(parts.method.as_str()).uri(parts.target());
    if let Some(headers) = request.headers_mut() {
        *headers = credential;
    }
    if parts.body.is_some() {
        request = request.header(header::CONTENT_TYPE, "application/json");
    }
    for (name, value) in &parts.headers {
        request = request.header(name, value);
    }
    if let Some(Extension(peer)) = peer {
        request = request.extension(peer);
    }
    request.body(parts.body.as_ref().map_or_else(Body::empty, |body| Body::from(body.text().to_owned())))
}

/// Beginning of a body, and true if there is more.
async fn beginning(body: Body) -> (Vec<u8>, bool) {
    let mut bytes = Vec::new();
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        // A response that breaks off is not complete.
        let Ok(piece) = piece else { return (bytes, true) };
        bytes.extend_from_slice(&piece);
        if bytes.len() > MOST_BYTES {
            bytes.truncate(MOST_BYTES);
            return (bytes, true);
        }
    }
    (bytes, false)
}

/// Body as text; `None` if it is something else. The last character of a beginning may be incomplete.
fn text_of(mut bytes: Vec<u8>, is_cut: bool) -> Option<String> {
    if let Err(error) = std::str::from_utf8(&bytes)
        && is_cut
        && error.error_len().is_none()
    {
        bytes.truncate(error.valid_up_to());
    }
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation() -> Operation {
        let parameter =
            |name: &str, place, required| Parameter { name: name.to_owned(), place, required, ..Parameter::default() };
        Operation {
            method: "DELETE".to_owned(),
            path: "/api/v1/jobs/{id}".to_owned(),
            parameters: vec![
                parameter("id", Place::Path, true),
                parameter("reason", Place::Query, false),
                parameter("If-Match", Place::Header, false),
            ],
            ..Operation::default()
        }
    }

    fn typed(values: &[(&str, &str)]) -> Try {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Try { values, ..Try::default() }
    }

    #[test]
    fn typed_values_cannot_leave_the_path_of_their_operation() {
        let request = request_of(&operation(), &typed(&[("path.id", "../users?a=b#c"), ("query.reason", "a&b=c")]));
        assert_eq!(request.expect("a request").target(), "/api/v1/jobs/..%2Fusers%3Fa%3Db%23c?reason=a%26b%3Dc");
        for (name, value) in [("path.id", ""), ("path.id", ".."), ("path.id", ".")] {
            let problem = request_of(&operation(), &typed(&[(name, value)])).expect_err(value);
            assert_eq!(problem.errors[0].pointer, "/path.id", "{value}");
        }
        let header = typed(&[("path.id", "a"), ("header.If-Match", "1\r\nCookie: a=b")]);
        assert_eq!(request_of(&operation(), &header).expect_err("a header").errors[0].pointer, "/header.If-Match");
    }

    #[test]
    fn confirmation_is_for_one_request() {
        let of = |values: &[(&str, &str)]| {
            let request = request_of(&operation(), &typed(values)).expect("a request");
            confirmation(&request.target(), &request)
        };
        let one = of(&[("path.id", "a")]);
        assert_eq!(one, of(&[("path.id", "a")]));
        for other in [
            &[("path.id", "b")][..],
            &[("path.id", "a"), ("query.reason", "x")],
            &[("path.id", "a"), ("header.If-Match", "1")],
        ] {
            assert_ne!(one, of(other), "{other:?}");
        }
    }

    #[test]
    fn only_the_sender_is_passed_on() {
        let headers = [
            "cookie",
            "host",
            "origin",
            "sec-fetch-site",
            "x-forwarded-for",
            "x-user",
            "range",
            "x-http-method-override",
        ];
        let headers: HeaderMap =
            headers.into_iter().map(|name| (HeaderName::from_static(name), HeaderValue::from_static("1"))).collect();
        let passed_on = sender_headers(&headers, Some(&HeaderName::from_static("x-user")));
        assert_eq!(passed_on.len(), 6, "{passed_on:?}");
        assert!(!passed_on.contains_key("range") && !passed_on.contains_key("x-http-method-override"));
    }

    #[test]
    fn the_beginning_of_a_text_ends_at_a_character() {
        let text = "é".as_bytes().to_vec();
        assert_eq!(text_of(text.clone(), false).as_deref(), Some("é"));
        assert_eq!(text_of(text[..1].to_vec(), true).as_deref(), Some(""));
        assert_eq!(text_of(text[..1].to_vec(), false), None);
        assert_eq!(text_of(vec![0xff, b'a'], true), None);
    }
}
