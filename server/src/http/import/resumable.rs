//! Resumable uploads: the core of tus 1.0 with its extensions `creation`, `termination` and `expiration`.
//!
//! A client announces the size of the file, sends it in pieces, asks for the current offset after an interruption, and
//! continues there. Any tus client works; the protocol needs only three headers. `HEAD` returns the headers of `GET`.
//! [`speak_tus`] adds the headers that the protocol requires of every response, refusals included.

use std::time::{Duration, SystemTime};

use axum::{
    Json as Answer,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use domain::{Code, Document, Problem, Time, import::upload::ResumableUpload};
use futures::StreamExt as _;
use time::OffsetDateTime;
use uuid::Uuid;

use super::uploads::{Naming, announced, hold_piece, refuse_compressed, with_idle_timeout};
use crate::http::{
    callers::Writer,
    enqueue::idempotency::{self, Key, ResponseStorage, once},
    extract::{self, Path, Query},
};
use crate::{
    App,
    auth::{Ongoing, still_valid},
    http::error::{Error, Result},
    uploads::partial::{self, NewPartial},
};
use engine::access::caller::Caller;

/// Protocol version in every response.
const VERSION: &str = "1.0.0";
const TUS_RESUMABLE: HeaderName = HeaderName::from_static("tus-resumable");
const UPLOAD_OFFSET: HeaderName = HeaderName::from_static("upload-offset");
const UPLOAD_LENGTH: HeaderName = HeaderName::from_static("upload-length");
const UPLOAD_METADATA: HeaderName = HeaderName::from_static("upload-metadata");
const UPLOAD_CONCAT: HeaderName = HeaderName::from_static("upload-concat");
const UPLOAD_EXPIRES: HeaderName = HeaderName::from_static("upload-expires");
const TUS_VERSION: HeaderName = HeaderName::from_static("tus-version");
const TUS_EXTENSION: HeaderName = HeaderName::from_static("tus-extension");
const TUS_MAX_SIZE: HeaderName = HeaderName::from_static("tus-max-size");
const METHOD_OVERRIDE: &str = "x-http-method-override";

/// Extensions of the protocol that the server supports.
const EXTENSIONS: &str = "creation,termination,expiration";

/// Path of the protocol.
const PLACE: &str = "/api/v1/uploads/resumable";

/// Media type of a piece.
const PIECE: &str = "application/offset+octet-stream";

/// Start a resumable upload (tus 1.0)
///
/// Continue with `PATCH` to the URL in `Location`. The name is given as `?filename=` or as `filename` in
/// `Upload-Metadata`. An incomplete file that receives nothing for a day is deleted.
#[utoipa::path(post, path = "/uploads/resumable", tag = "uploads",
    params(Naming, ("Tus-Resumable" = Option<String>, Header, description = "`1.0.0`"),
        ("Upload-Length" = u64, Header, description = "Size of the whole file in bytes"),
        ("Upload-Metadata" = Option<String>, Header, description = "`filename` and the file name in base64"),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters")),
    responses((status = 201, body = ResumableUpload,
        headers(("Location" = String, description = "URL to send the pieces to")))))]
pub async fn create_resumable_upload(
    State(app): State<App>,
    Writer(caller): Writer,
    Query(naming): Query<Naming>,
    key: Key,
    headers: HeaderMap,
) -> Result<Response> {
    check_version(&headers)?;
    if headers.contains_key(UPLOAD_CONCAT) {
        // Refused before anything is sent: a parallel client would otherwise learn of it after the last piece.
        let detail =
            "expected none: this server does not put uploads together; send one upload, without parallel parts";
        return Err(Problem::parameter("Upload-Concat", detail).into());
    }
    let expected = || Problem::parameter("Upload-Length", "expected the number of bytes of the whole file");
    let bytes: u64 =
        number(&headers, &UPLOAD_LENGTH).filter(|&bytes| i64::try_from(bytes).is_ok()).ok_or_else(expected)?;
    let (metadata, name) = read_metadata(&headers)?;
    let filename = naming.filename.or(name).unwrap_or_default();
    let fingerprint = idempotency::fingerprint(Document::of(&(&filename, naming.format, bytes)).text());
    let (name, maker) = (key.name(&caller), (app.clone(), caller));
    let new = NewPartial { filename, format: naming.format, bytes, metadata };
    let make = move |response_slot| async move {
        let (app, caller) = maker;
        Ok(ResumableUpload::from(partial::begin(&app, &caller, new, response_slot).await?))
    };
    let (status, text) = once(&app, name, ResponseStorage::Plain, "POST /uploads/resumable", fingerprint, make).await?;
    let created: ResumableUpload =
        serde_json::from_str(&text).map_err(|e| Error(engine::error::Error::Broken(e.to_string())))?;
    let mut response = idempotency::answer((status, text));
    let location = HeaderValue::try_from(format!("/api/v1/uploads/resumable/{}", created.id));
    response.headers_mut().extend(location.ok().map(|location| (header::LOCATION, location)));
    expires(&app, &mut response, created.created_at);
    Ok(speak(response, Some(created.received), Some(created.bytes)))
}

/// Get the offset of a resumable upload (tus 1.0)
///
/// `HEAD` returns only the headers. A complete file is an upload with the same id: `GET /uploads/{id}`.
#[utoipa::path(get, path = "/uploads/resumable/{id}", tag = "uploads",
    params(("id" = Uuid, Path), ("Tus-Resumable" = Option<String>, Header, description = "`1.0.0`")),
    responses((status = 200, body = ResumableUpload,
        headers(("Upload-Offset" = i64, description = "Offset in bytes at which to continue"),
                ("Upload-Length" = i64, description = "Announced size in bytes")))))]
pub async fn get_resumable_upload(
    State(app): State<App>,
    Writer(caller): Writer,
    Path(id): Path<Uuid>,
    headers: HeaderMap,
) -> Result<Response> {
    check_version(&headers)?;
    let partial = partial::find(&app, &caller, id).await?;
    let (received, bytes, touched_at) = (partial.received, partial.bytes, partial.touched_at);
    let metadata = partial.metadata.as_deref().and_then(|text| HeaderValue::from_str(text).ok());
    let mut response = speak(Answer(ResumableUpload::from(partial)).into_response(), Some(received), Some(bytes));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response.headers_mut().extend(metadata.map(|metadata| (UPLOAD_METADATA, metadata)));
    if received < bytes {
        expires(&app, &mut response, touched_at);
    }
    Ok(response)
}

/// Append to a resumable upload (tus 1.0)
///
/// Bytes received before a connection breaks are kept. After the last byte the file is an upload with the same id.
#[utoipa::path(patch, path = "/uploads/resumable/{id}", tag = "uploads",
    params(("id" = Uuid, Path), ("Tus-Resumable" = Option<String>, Header, description = "`1.0.0`"),
        ("Upload-Offset" = i64, Header, description = "Current size of the file in bytes")),
    request_body(content = Vec<u8>, content_type = "application/offset+octet-stream"),
    responses((status = 204, description = "Received",
        headers(("Upload-Offset" = i64, description = "New size of the file in bytes"))),
        (status = 409, description = "`wrong_offset`: the file has another size, see the header `Upload-Offset`",
         body = Problem, content_type = "application/problem+json")))]
pub async fn append_to_upload(
    State(app): State<App>,
    Writer(caller): Writer,
    Path(id): Path<Uuid>,
    request: Request,
) -> Result<Response> {
    check_version(request.headers())?;
    let found = partial::own(&app, &caller, id).await?;
    hold_piece(&app, &request)?;
    let (parts, body) = request.into_parts();
    refuse_compressed(&parts.headers)?;
    if extract::media_type(&parts.headers).as_deref() != Some(PIECE) {
        return Err(extract::wrong_media_type(PIECE));
    }
    let expected = || Problem::parameter("Upload-Offset", "expected the number of bytes that are there already");
    let offset: i64 = number(&parts.headers, &UPLOAD_OFFSET).ok_or_else(expected)?;
    let announced = announced(&parts.headers);
    let whole = found.bytes;
    let left = (whole - found.received) as u64;
    if offset != found.received || announced.is_some_and(|bytes| bytes > left) {
        drop(body);
        return answer(&app, &caller, (id, whole), partial::append(&app, found, offset, announced, nothing()).await)
            .await;
    }
    // In its own task: after the connection breaks, the received bytes still have to be stored. Those of the part that arrives
    // while the database falls silent are sent again.
    let task = app.spawn({
        let (app, caller) = (app.clone(), caller.clone());
        async move {
            let mut ongoing = Ongoing::of(&app, &caller);
            let ended = async {
                tokio::select! {
                    () = app.shutdown.cancelled() => {}
                    _ = ongoing.ended() => {}
                }
            };
            let source = Box::pin(with_idle_timeout(body.into_data_stream()).take_until(Box::pin(ended)));
            partial::append(&app, found, offset, announced, source).await
        }
    });
    let appended = task.await.map_err(|e| Error(engine::error::Error::Broken(e.to_string())))?;
    // The received bytes are kept, so that the upload can continue with another credential.
    still_valid(&app, &caller).await?;
    answer(&app, &caller, (id, whole), appended).await
}

async fn answer(
    app: &App,
    caller: &Caller,
    (id, whole): (Uuid, i64),
    appended: engine::error::Result<i64>,
) -> Result<Response> {
    match appended {
        Ok(end) => {
            let mut response = speak(StatusCode::NO_CONTENT.into_response(), Some(end), None);
            if end < whole {
                expires(app, &mut response, Time(OffsetDateTime::now_utc()));
            }
            Ok(response)
        }
        Err(engine::error::Error::Problem(problem)) if problem.code == Code::WrongOffset => {
            let now = partial::own(app, caller, id).await?.received;
            Ok(speak(Error(engine::error::Error::Problem(problem)).into_response(), Some(now), None))
        }
        Err(error) => Err(error.into()),
    }
}

/// Delete an incomplete file or an unused upload
///
/// Bytes received so far are deleted from the store.
#[utoipa::path(delete, path = "/uploads/resumable/{id}", tag = "uploads", params(("id" = Uuid, Path)),
    responses((status = 204, description = "Deleted")))]
pub async fn delete_resumable_upload(
    State(app): State<App>,
    Writer(caller): Writer,
    Path(id): Path<Uuid>,
    headers: HeaderMap,
) -> Result<Response> {
    check_version(&headers)?;
    partial::delete(&app, &caller, id).await?;
    Ok(speak(StatusCode::NO_CONTENT.into_response(), None, None))
}

/// Response with the protocol's headers.
fn speak(mut response: Response, offset: Option<i64>, length: Option<i64>) -> Response {
    let headers = response.headers_mut();
    headers.insert(TUS_RESUMABLE, HeaderValue::from_static(VERSION));
    headers.extend(offset.map(|offset| (UPLOAD_OFFSET, HeaderValue::from(offset))));
    headers.extend(length.map(|length| (UPLOAD_LENGTH, HeaderValue::from(length))));
    response
}

/// Refuses any protocol version but ours; a request without one passes.
fn check_version(headers: &HeaderMap) -> Result<()> {
    match headers.get(TUS_RESUMABLE) {
        Some(version) if version != VERSION => {
            Err(Error::refuse(Code::PreconditionFailed, "This server speaks tus 1.0.0 (Tus-Resumable: 1.0.0)."))
        }
        _ => Ok(()),
    }
}

fn number<T: std::str::FromStr>(headers: &HeaderMap, name: &HeaderName) -> Option<T> {
    headers.get(name)?.to_str().ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()))?.parse().ok()
}

/// Header `Upload-Metadata` as received, and the file name in it: pairs of a key and a base64 value, separated by
/// commas; a value may be missing.
fn read_metadata(headers: &HeaderMap) -> Result<(Option<String>, Option<String>), Problem> {
    let Some(given) = headers.get(UPLOAD_METADATA) else { return Ok((None, None)) };
    let malformed =
        || Problem::parameter("Upload-Metadata", "expected keys, each with its value in base64, and commas");
    let text = given.to_str().map_err(|_| malformed())?;
    let mut name = None;
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once(' ').unwrap_or((pair, ""));
        let value = STANDARD.decode(value.trim()).map_err(|_| malformed())?;
        if key == "filename" || (key == "name" && name.is_none()) {
            name = String::from_utf8(value).ok().filter(|name| !name.is_empty());
        }
    }
    Ok((Some(text.to_owned()), name))
}

/// Adds the time at which the file is deleted if nothing more arrives.
fn expires(app: &App, response: &mut Response, touched_at: Time) {
    let until = SystemTime::from(touched_at.0) + Duration::from_secs(app.config.files.upload_ttl_seconds.into());
    let until = HeaderValue::try_from(httpdate::fmt_http_date(until));
    response.headers_mut().extend(until.ok().map(|until| (UPLOAD_EXPIRES, until)));
}

/// Get the capabilities of resumable uploads (tus 1.0)
///
/// For tus clients that ask before they send; needs no credential.
#[utoipa::path(options, path = "/uploads/resumable", tag = "uploads", security(()),
    responses((status = 204, description = "Version, extensions and maximum file size, in the headers",
        headers(("Tus-Version" = String, description = "`1.0.0`"),
                ("Tus-Extension" = String, description = "Extensions, separated by commas"),
                ("Tus-Max-Size" = i64, description = "Maximum file size in bytes")))))]
pub async fn describe_resumable_uploads(State(app): State<App>) -> Response {
    let headers = [
        (TUS_VERSION, HeaderValue::from_static(VERSION)),
        (TUS_EXTENSION, HeaderValue::from_static(EXTENSIONS)),
        (TUS_MAX_SIZE, HeaderValue::from(app.config.upload_limit.bytes())),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}

/// `POST` to an upload with `X-HTTP-Method-Override`: for clients that cannot send `PATCH` or `DELETE`.
pub async fn override_method(
    app: State<App>,
    Writer(caller): Writer,
    id: Path<Uuid>,
    request: Request,
) -> Result<Response> {
    let override_name =
        request.headers().get(METHOD_OVERRIDE).and_then(|method| method.to_str().ok()).unwrap_or_default();
    match override_name.to_ascii_uppercase().as_str() {
        "PATCH" => append_to_upload(app, Writer(caller), id, request).await,
        "DELETE" => delete_resumable_upload(app, Writer(caller), id, request.headers().clone()).await,
        "HEAD" => get_resumable_upload(app, Writer(caller), id, request.headers().clone()).await,
        _ => {
            let detail = "An upload takes GET, HEAD, PATCH and DELETE, or POST with X-HTTP-Method-Override.";
            let mut response = Error::refuse(Code::MethodNotAllowed, detail).into_response();
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET,HEAD,PATCH,DELETE,OPTIONS"));
            Ok(response)
        }
    }
}

/// Adds the protocol version to every response to a tus client, refusals included; a refusal of another version also
/// names the supported one.
pub async fn speak_tus(request: Request, next: Next) -> Response {
    let is_tus = request.uri().path().strip_prefix(PLACE).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let mut response = next.run(request).await;
    if is_tus {
        let is_other_version = response.status() == StatusCode::PRECONDITION_FAILED;
        let headers = response.headers_mut();
        headers.insert(TUS_RESUMABLE, HeaderValue::from_static(VERSION));
        if is_other_version {
            headers.insert(TUS_VERSION, HeaderValue::from_static(VERSION));
        }
    }
    response
}

fn nothing() -> futures::stream::Empty<std::result::Result<bytes::Bytes, String>> {
    futures::stream::empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_from_the_metadata() {
        let read = |text: &'static str| {
            let headers = HeaderMap::from_iter([(UPLOAD_METADATA, HeaderValue::from_static(text))]);
            read_metadata(&headers).map(|(_, name)| name)
        };
        let name = |text| read(text).ok().flatten();
        assert_eq!(name("filetype dGV4dA==,filename YS5jc3Y=").as_deref(), Some("a.csv"));
        assert_eq!(name("name w6kuY3N2").as_deref(), Some("é.csv"));
        assert_eq!(name("name w6kuY3N2, is_confidential").as_deref(), Some("é.csv"));
        for nothing in ["", "filename", "filename /w=="] {
            assert_eq!(read(nothing), Ok(None), "{nothing}");
        }
        assert!(read("filename %%%").is_err());
    }
}
