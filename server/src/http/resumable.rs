//! Files in, a piece at a time: the core of tus 1.0 with its extensions `creation` and `termination`.
//!
//! A client says how long the file is, sends pieces, and after a break asks where the file ends and goes
//! on there. Any tus client does; nothing of the protocol is needed beyond three headers. `HEAD` is the
//! headers of `GET`.

use axum::{
    Json as Answer,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use domain::{Code, Document, Problem, upload::ResumableUpload};
use futures::StreamExt as _;
use uuid::Uuid;

use super::{
    extract::{self, Path, Query},
    idempotency::{self, Keep, Key, once},
    uploads::{Naming, announced, hold_piece, impatient, refuse_compressed},
};
use crate::{
    App,
    auth::{Caller, Ongoing, Scope, still_valid},
    error::{Error, Result},
    uploads::partial,
};

/// The version of the protocol, in every answer.
const VERSION: &str = "1.0.0";
const TUS_RESUMABLE: HeaderName = HeaderName::from_static("tus-resumable");
const UPLOAD_OFFSET: HeaderName = HeaderName::from_static("upload-offset");
const UPLOAD_LENGTH: HeaderName = HeaderName::from_static("upload-length");
const UPLOAD_METADATA: HeaderName = HeaderName::from_static("upload-metadata");

/// What a piece says it is.
const PIECE: &str = "application/offset+octet-stream";

/// Begin a file that comes a piece at a time (tus 1.0)
///
/// Then `PATCH` the address in `Location`. The name may come as `?filename=` or as `filename` in
/// `Upload-Metadata`. A file of which nothing comes for a day is removed.
#[utoipa::path(post, path = "/uploads/resumable", tag = "uploads",
    params(Naming, ("Tus-Resumable" = Option<String>, Header, description = "`1.0.0`"),
        ("Upload-Length" = u64, Header, description = "Bytes of the whole file"),
        ("Upload-Metadata" = Option<String>, Header, description = "`filename` and its base64"),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters")),
    responses((status = 201, body = ResumableUpload,
        headers(("Location" = String, description = "Where the pieces go")))))]
pub async fn create_resumable_upload(
    State(app): State<App>,
    caller: Caller,
    Query(naming): Query<Naming>,
    key: Key,
    headers: HeaderMap,
) -> Result<Response> {
    caller.require(Scope::JobsWrite)?;
    check_version(&headers)?;
    let expected = || Problem::parameter("Upload-Length", "expected the number of bytes of the whole file");
    let bytes: u64 =
        number(&headers, &UPLOAD_LENGTH).filter(|&bytes| i64::try_from(bytes).is_ok()).ok_or_else(expected)?;
    let filename = naming.filename.or_else(|| named(&headers)).unwrap_or_default();
    let fingerprint = idempotency::fingerprint(Document::of(&(&filename, naming.format, bytes)).text());
    let (name, maker) = (key.name(&caller), (app.clone(), caller));
    let make = move |keeping| async move {
        let (app, caller) = maker;
        let partial = partial::begin(&app, &caller, &filename, naming.format, bytes, keeping).await?;
        Ok(ResumableUpload::from(partial))
    };
    let (status, text) = once(&app, name, Keep::Plain, "POST /uploads/resumable", fingerprint, make).await?;
    let made: ResumableUpload = serde_json::from_str(&text).map_err(|e| Error::Broken(e.to_string()))?;
    let mut response = idempotency::answer((status, text));
    let location = HeaderValue::try_from(format!("/api/v1/uploads/resumable/{}", made.id));
    response.headers_mut().extend(location.ok().map(|location| (header::LOCATION, location)));
    Ok(speak(response, Some(made.received), Some(made.bytes)))
}

/// How much of a file is here; `HEAD` answers the headers alone (tus 1.0)
///
/// One that is here whole is an upload of the same id by the time this answers: `GET /uploads/{id}`.
#[utoipa::path(get, path = "/uploads/resumable/{id}", tag = "uploads",
    params(("id" = Uuid, Path), ("Tus-Resumable" = Option<String>, Header, description = "`1.0.0`")),
    responses((status = 200, body = ResumableUpload,
        headers(("Upload-Offset" = i64, description = "Where to go on"),
                ("Upload-Length" = i64, description = "What was announced")))))]
pub async fn get_resumable_upload(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<Uuid>,
    headers: HeaderMap,
) -> Result<Response> {
    check_version(&headers)?;
    let partial = ResumableUpload::from(partial::find(&app, &caller, id).await?);
    let (received, bytes) = (partial.received, partial.bytes);
    let mut response = speak(Answer(partial).into_response(), Some(received), Some(bytes));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Append to a file, at its end (tus 1.0)
///
/// What came before a connection breaks is kept. Behind the last byte the file is an upload of the same id.
#[utoipa::path(patch, path = "/uploads/resumable/{id}", tag = "uploads",
    params(("id" = Uuid, Path), ("Tus-Resumable" = Option<String>, Header, description = "`1.0.0`"),
        ("Upload-Offset" = i64, Header, description = "Where the file ends")),
    request_body(content = Vec<u8>, content_type = "application/offset+octet-stream"),
    responses((status = 204, description = "It is here",
        headers(("Upload-Offset" = i64, description = "Where the file ends now"))),
        (status = 409, description = "`wrong_offset`: the file ends elsewhere, as the header `Upload-Offset` says",
         body = Problem, content_type = "application/problem+json")))]
pub async fn append_to_upload(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<Uuid>,
    request: Request,
) -> Result<Response> {
    let found = partial::own(&app, &caller, id).await?;
    hold_piece(&app, &request)?;
    let (parts, body) = request.into_parts();
    check_version(&parts.headers)?;
    refuse_compressed(&parts.headers)?;
    if extract::media_type(&parts.headers).as_deref() != Some(PIECE) {
        return Err(extract::wrong_media_type(PIECE));
    }
    let expected = || Problem::parameter("Upload-Offset", "expected the number of bytes that are there already");
    let offset: i64 = number(&parts.headers, &UPLOAD_OFFSET).ok_or_else(expected)?;
    let announced = announced(&parts.headers);
    let left = (found.bytes - found.received) as u64;
    if offset != found.received || announced.is_some_and(|bytes| bytes > left) {
        // A sender that is still at it would see a broken connection in place of the answer.
        extract::drain(body.into_data_stream()).await;
        return answer(&app, &caller, id, partial::append(&app, found, offset, announced, nothing()).await).await;
    }
    // A task of its own: when the connection breaks, what came before is still to be put away.
    let task = app.tasks.spawn({
        let (app, caller) = (app.clone(), caller.clone());
        async move {
            let mut ongoing = Ongoing::of(&app, &caller);
            let ended = async {
                tokio::select! {
                    () = app.shutdown.cancelled() => {}
                    _ = ongoing.ended() => {}
                }
            };
            let source = Box::pin(impatient(body.into_data_stream()).take_until(Box::pin(ended)));
            partial::append(&app, found, offset, announced, source).await
        }
    });
    let appended = task.await.map_err(|e| Error::Broken(e.to_string()))?;
    // What came before is kept, for whoever goes on with another credential.
    still_valid(&app, &caller).await?;
    answer(&app, &caller, id, appended).await
}

async fn answer(app: &App, caller: &Caller, id: Uuid, appended: Result<i64>) -> Result<Response> {
    match appended {
        Ok(end) => Ok(speak(StatusCode::NO_CONTENT.into_response(), Some(end), None)),
        Err(Error::Problem(problem)) if problem.code == Code::WrongOffset => {
            let now = partial::own(app, caller, id).await?.received;
            Ok(speak(Error::Problem(problem).into_response(), Some(now), None))
        }
        Err(error) => Err(error),
    }
}

/// Remove a file that has not come whole, or an upload that no job was made of
///
/// Bytes that are there already are removed from the store.
#[utoipa::path(delete, path = "/uploads/resumable/{id}", tag = "uploads", params(("id" = Uuid, Path)),
    responses((status = 204, description = "Gone")))]
pub async fn delete_resumable_upload(State(app): State<App>, caller: Caller, Path(id): Path<Uuid>) -> Result<Response> {
    partial::delete(&app, &caller, id).await?;
    Ok(speak(StatusCode::NO_CONTENT.into_response(), None, None))
}

/// An answer with what the protocol wants in its headers.
fn speak(mut response: Response, offset: Option<i64>, length: Option<i64>) -> Response {
    let headers = response.headers_mut();
    headers.insert(TUS_RESUMABLE, HeaderValue::from_static(VERSION));
    headers.extend(offset.map(|offset| (UPLOAD_OFFSET, HeaderValue::from(offset))));
    headers.extend(length.map(|length| (UPLOAD_LENGTH, HeaderValue::from(length))));
    response
}

/// Whoever names a version means ours.
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

/// The name in `Upload-Metadata`: pairs of a key and its value in base64, with commas between.
fn named(headers: &HeaderMap) -> Option<String> {
    let pairs = headers.get(UPLOAD_METADATA)?.to_str().ok()?;
    let value = |key: &str| {
        let (_, value) = pairs.split(',').filter_map(|pair| pair.trim().split_once(' ')).find(|pair| pair.0 == key)?;
        String::from_utf8(STANDARD.decode(value.trim()).ok()?).ok()
    };
    value("filename").or_else(|| value("name"))
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
            named(&headers)
        };
        assert_eq!(read("filetype dGV4dA==,filename YS5jc3Y=").as_deref(), Some("a.csv"));
        assert_eq!(read("name w6kuY3N2").as_deref(), Some("é.csv"));
        for nothing in ["", "filename", "filename !", "filename /w=="] {
            assert_eq!(read(nothing), None, "{nothing}");
        }
    }
}
