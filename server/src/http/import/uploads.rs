//! HTTP handlers for uploads: files arrive as a form or as the raw body, and are downloaded as attachments.
//!
//! Bodies are streamed to the object store; nothing here buffers a file. A compressed body is refused, because its
//! length does not tell the file's length.

use std::time::Duration;

use axum::{
    Json as Answer,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use domain::{
    Code, Document, Problem,
    api::JobUpload,
    identity::audit::ReasonBody,
    import::upload::{Preview, Upload, UploadFormat},
};
use futures::{Stream, StreamExt as _, TryStreamExt as _};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::{
    byte_range::{self, RequestedRange},
    multipart::Form,
    reading_parameters::of_query,
};
use crate::http::{
    callers::{ReaderOrWorker, Writer},
    enqueue::idempotency::{self, Key, ResponseSlot, ResponseStorage, once},
    extract::{self, Path, Query, Reason, ReasonParameter},
    security_headers::DOWNLOAD,
};
use crate::{
    App,
    auth::Ongoing,
    body_memory::BodyShare,
    http::error::{Error, Result},
    uploads,
};
use engine::access::caller::Caller;

/// Idle timeout of a sender.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Allowance for the parts of a form around its file, in bytes.
const AROUND_FILE: u64 = 64 << 10;

/// Query parameters of a file sent as the raw body.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Naming {
    /// Name of the file, if the body is the file itself
    pub(crate) filename: Option<String>,
    /// Format of the file; default: detected from its name and first bytes. `none`: a file of any kind
    pub(crate) format: Option<UploadFormat>,
}

/// Form with a file.
#[derive(ToSchema)]
#[expect(dead_code, reason = "says in the API's description what the form holds")]
struct FileForm {
    #[schema(value_type = String, format = Binary)]
    file: Vec<u8>,
}

/// Upload a file
///
/// As a form with the field `file`, or as the raw body with `?filename=`. The body is streamed to the store. The upload
/// becomes part of a job with `POST /jobs` and `upload.id`; an unused one is deleted after a day. Larger files can be
/// sent in pieces: `POST /uploads/resumable`.
#[utoipa::path(post, path = "/uploads", tag = "uploads",
    params(Naming, ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters")),
    request_body(content((FileForm = "multipart/form-data"), (Vec<u8> = "application/octet-stream"),
        (String = "text/csv"), (String = "application/x-ndjson"), (String = "application/json"),
        (Vec<u8> = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"))),
    responses((status = 201, body = Upload)))]
pub async fn create_upload(
    State(app): State<App>,
    Writer(caller): Writer,
    Query(naming): Query<Naming>,
    key: Key,
    request: Request,
) -> Result<Response> {
    refuse_compressed(request.headers())?;
    let media_type = extract::media_type(request.headers());
    let is_form = media_type.as_deref() == Some("multipart/form-data");
    let is_anything = naming.format == Some(UploadFormat::None);
    let is_file = naming.filename.is_some() && (is_anything || may_be_a_file(media_type.as_deref()));
    if !is_form && !is_file {
        return Err(extract::wrong_media_type("multipart/form-data, or a file with ?filename="));
    }
    let limit = app.config.upload_limit.bytes() as u64;
    if announced(request.headers()).is_some_and(|bytes| bytes > limit + AROUND_FILE) {
        return Err(Error::refuse(Code::TooLarge, format!("A file may have at most {limit} bytes.")));
    }
    hold_piece(&app, &request)?;
    uploads::admit(&app, &caller, announced(request.headers()).unwrap_or(0)).await?;
    let upload = if is_form {
        receive_form(&app, &caller, naming, request).await?
    } else {
        receive_body(&app, &caller, naming, request).await?
    };
    let (upload, mut response) = stored_once(&app, &caller, key, upload).await?;
    let location = HeaderValue::from_str(&format!("/api/v1/uploads/{}", upload.id));
    if let Ok(location) = location {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// Returns the first upload for a repeat with the same key, name and bytes; the second one is deleted.
async fn stored_once(app: &App, caller: &Caller, key: Key, upload: Upload) -> Result<(Upload, Response)> {
    let what = Document::of(&(&upload.filename, upload.format, &upload.sha256));
    let fingerprint = idempotency::fingerprint(what.text());
    let (name, created, pool) = (key.name(caller), upload.clone(), app.pool.clone());
    let make = |response_slot: ResponseSlot| async move {
        response_slot.store_separately(&pool, &created).await.map(|()| created)
    };
    let answered = once(app, name, ResponseStorage::Plain, "POST /uploads", fingerprint, make).await;
    let first = answered.as_ref().ok().and_then(|(_, text)| serde_json::from_str::<Upload>(text).ok());
    match &first {
        Some(first) if first.id == upload.id => {}
        _ => uploads::delete(app, caller, upload.id, None).await?,
    }
    let first = first.unwrap_or(upload);
    Ok((first, idempotency::answer(answered?)))
}

async fn receive_form(app: &App, caller: &Caller, naming: Naming, request: Request) -> Result<Upload> {
    let mut form = Form::open(request).await?;
    while let Some(field) = form.next().await? {
        if field.name() != "file" {
            continue;
        }
        let filename = naming.filename.or_else(|| field.file_name().map(str::to_owned)).unwrap_or_default();
        let source = Box::pin(with_idle_timeout(field.into_file()));
        return Ok(uploads::store(app, caller, &filename, naming.format, source).await?);
    }
    Err(Problem::invalid_body([("/file".to_owned(), "expected a file in the field `file`".to_owned())]).into())
}

async fn receive_body(app: &App, caller: &Caller, naming: Naming, request: Request) -> Result<Upload> {
    let source = Box::pin(with_idle_timeout(request.into_body().into_data_stream()));
    let filename = naming.filename.unwrap_or_default();
    Ok(uploads::store(app, caller, &filename, naming.format, source).await?)
}

/// Chunks of a body; a sender that exceeds the idle timeout fails the stream.
pub(crate) fn with_idle_timeout<S, E>(source: S) -> impl Stream<Item = Result<Bytes, String>> + Send
where
    S: Stream<Item = Result<Bytes, E>> + Send,
    E: std::fmt::Display,
{
    tokio_stream::StreamExt::timeout(source, IDLE_TIMEOUT).map(|piece| match piece {
        Ok(Ok(piece)) => Ok(piece),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("nothing came for {} seconds", IDLE_TIMEOUT.as_secs())),
    })
}

/// Returns true if a body of this type can be a file of rows. Default types of command-line tools are accepted.
fn may_be_a_file(media_type: Option<&str>) -> bool {
    let Some(media_type) = media_type else { return true };
    media_type.starts_with("text/")
        || matches!(
            media_type,
            "application/octet-stream"
                | "application/csv"
                | "application/x-ndjson"
                | "application/ndjson"
                | "application/jsonl"
                | "application/x-jsonlines"
                | "application/json"
                | "application/vnd.ms-excel"
                | "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
                | "application/x-www-form-urlencoded"
        )
}

/// Counts the memory for a file on its way to the store: the store's buffer, or the whole of a small file.
pub(crate) fn hold_piece(app: &App, request: &Request) -> Result<()> {
    let whole = announced(request.headers()).and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(usize::MAX);
    if let Some(share) = request.extensions().get::<BodyShare>() {
        share.hold_file(whole.min(app.files.buffered()))?;
    }
    Ok(())
}

pub(crate) fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

pub(crate) fn refuse_compressed(headers: &HeaderMap) -> Result<()> {
    match headers.get(header::CONTENT_ENCODING) {
        Some(encoding) if encoding != "identity" => {
            Err(Error::refuse(Code::UnsupportedMediaType, "Send the file as it is, without Content-Encoding."))
        }
        _ => Ok(()),
    }
}

/// Get an upload
///
/// Its name, size, checksum and format.
#[utoipa::path(get, path = "/uploads/{id}", tag = "uploads", params(("id" = Uuid, Path)),
    responses((status = 200, body = Upload)))]
pub async fn get_upload(
    State(app): State<App>,
    ReaderOrWorker(caller): ReaderOrWorker,
    Path(id): Path<Uuid>,
) -> Result<Answer<Upload>> {
    Ok(Answer(uploads::find(&app.pool, &caller, id).await?))
}

/// Delete an unused upload
///
/// 409 `upload_in_use` while a job reads from it. Owners delete their own uploads, admins any, with a `reason` for
/// another owner's.
#[utoipa::path(delete, path = "/uploads/{id}", tag = "uploads", params(("id" = Uuid, Path), ReasonParameter),
    request_body = Option<ReasonBody>, responses((status = 204, description = "Deleted")))]
pub async fn delete_upload(
    State(app): State<App>,
    Writer(caller): Writer,
    Path(id): Path<Uuid>,
    Reason(reason): Reason,
) -> Result<StatusCode> {
    uploads::delete(&app, &caller, id, reason.as_deref()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Download a file, or one range of it
///
/// Returns the original bytes, always as an attachment, never as a page of this site.
#[utoipa::path(get, path = "/uploads/{id}/content", tag = "uploads",
    params(("id" = Uuid, Path),
        ("Range" = Option<String>, Header, description = "One range of bytes: `bytes=100-`, `bytes=100-199`, `bytes=-100`"),
        ("If-Range" = Option<String>, Header,
         description = "ETag of the bytes already received; if it differs, the whole file is sent")),
    responses((status = 200, body = Vec<u8>, content_type = "application/octet-stream",
        headers(("ETag" = String, description = "SHA-256 of the file"))),
        (status = 206, body = Vec<u8>, content_type = "application/octet-stream", description = "Requested range",
         headers(("Content-Range" = String))),
        (status = 416, description = "`range_not_satisfiable`: the file is shorter, see `Content-Range`",
         body = Problem, content_type = "application/problem+json")))]
pub async fn get_upload_content(
    State(app): State<App>,
    ReaderOrWorker(caller): ReaderOrWorker,
    Path(id): Path<Uuid>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response> {
    let upload = uploads::find(&app.pool, &caller, id).await?;
    let (bytes, tag) = (upload.bytes as u64, format!("\"{}\"", upload.sha256));
    if extract::is_known(&headers, &tag) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response());
    }
    // A range is part of `GET` only.
    let wanted = match method {
        Method::GET => byte_range::requested_range(&headers, bytes, &tag),
        _ => RequestedRange::Whole,
    };
    let (status, from, to) = match wanted {
        RequestedRange::Whole => (StatusCode::OK, 0, bytes),
        RequestedRange::Part(from, to) => (StatusCode::PARTIAL_CONTENT, from, to),
        RequestedRange::Outside => {
            let refused = Error::refuse(Code::RangeNotSatisfiable, format!("The file has {bytes} bytes."));
            let length = [(header::CONTENT_RANGE, format!("bytes */{bytes}"))];
            return Ok((length, refused).into_response());
        }
    };
    let body = app.files.read(upload.id, from, to).await?.map_err(engine::error::Error::Files);
    let body = Body::from_stream(Ongoing::of(&app, &caller).guard(body));
    let mut response = attachment(&upload.filename, "application/octet-stream", body);
    *response.status_mut() = status;
    let fields = response.headers_mut();
    fields.insert(header::CONTENT_LENGTH, HeaderValue::from(to - from));
    fields.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    fields.extend(HeaderValue::try_from(tag).ok().map(|tag| (header::ETAG, tag)));
    if status == StatusCode::PARTIAL_CONTENT {
        let range = HeaderValue::try_from(format!("bytes {from}-{}/{bytes}", to - 1));
        fields.extend(range.ok().map(|range| (header::CONTENT_RANGE, range)));
    }
    Ok(response)
}

/// Query parameters of a preview: how to read the file.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Reading {
    /// Format; default: the upload's own
    format: Option<UploadFormat>,
    /// Table: `true` (default) if the first record contains the column names
    header: Option<bool>,
    /// Table: line of the row with the column names, from 1; default: the first record
    header_row: Option<i64>,
    /// CSV: one character; default: detected from the first lines
    delimiter: Option<String>,
    /// Text: an encoding such as `windows-1252`; default: detected from the byte order mark and the first lines
    encoding: Option<String>,
    /// XLSX: name of the sheet; default: the first one
    sheet: Option<String>,
    /// Job type: `check` in the response compares the columns and the first 200 rows with its schema
    #[serde(rename = "type")]
    job_type: Option<String>,
}

/// Preview the first 20 rows of an upload
///
/// Reads them as a job would. With a type, the columns are compared with its payload schema. Nothing is stored.
#[utoipa::path(get, path = "/uploads/{id}/preview", tag = "uploads", params(("id" = Uuid, Path), Reading),
    responses((status = 200, body = Preview),
              (status = 422, description = "The file cannot be read that way", body = Problem,
               content_type = "application/problem+json")))]
pub async fn preview_upload(
    State(app): State<App>,
    ReaderOrWorker(caller): ReaderOrWorker,
    Path(id): Path<Uuid>,
    Query(Reading { format, header, header_row, delimiter, encoding, sheet, job_type }): Query<Reading>,
) -> Result<Answer<Preview>> {
    let wanted = JobUpload { id, format, header, header_row, delimiter, encoding, sheet };
    let preview = uploads::preview(&app, &caller, &wanted, job_type.as_deref(), None).await;
    Ok(Answer(preview.map_err(of_query)?))
}

/// Response that a browser always saves and never displays.
pub fn attachment(filename: &str, media_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(DOWNLOAD));
    // The plain name for old clients, the full one in UTF-8 (RFC 6266).
    let plain: String =
        filename.chars().map(|c| if c.is_ascii_alphanumeric() || "._- ".contains(c) { c } else { '_' }).collect();
    let whole: String = filename.bytes().fold(String::new(), |mut text, byte| {
        use std::fmt::Write as _;
        if byte.is_ascii_alphanumeric() || b"._-".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
        text
    });
    let disposition = format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{whole}");
    if let Ok(value) = HeaderValue::from_str(&disposition) {
        headers.insert(header::CONTENT_DISPOSITION, value);
    }
    response
}
