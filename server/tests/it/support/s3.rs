//! Minimal S3-compatible store in this process: it runs everywhere and can be inspected. The same tests were run
//! manually against the server of the Python package `moto`.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Arc, Mutex, MutexGuard},
};

use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, RawQuery, Request, State},
    http::{Method, StatusCode, Uri, header},
    response::{IntoResponse as _, Response},
};
use engine::settings::files::FileSettings;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

/// Bucket named `files`.
#[derive(Clone)]
pub(crate) struct Bucket {
    endpoint: String,
    state: Arc<Mutex<BucketState>>,
}

#[derive(Default)]
struct BucketState {
    objects: BTreeMap<String, Vec<u8>>,
    /// Multipart uploads: key, and parts by number.
    uploads: BTreeMap<String, (String, BTreeMap<u32, Bytes>)>,
    parts: usize,
    /// Creation time of the bucket, used for all objects: an object that looks old would be swept before its row is
    /// written.
    since: String,
}

impl Bucket {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
        let since = OffsetDateTime::now_utc().replace_nanosecond(0).expect("whole seconds").format(&Rfc3339);
        let state = BucketState { since: since.expect("a time"), ..BucketState::default() };
        let bucket = Self { endpoint, state: Arc::new(Mutex::new(state)) };
        let router = Router::new().fallback(answer).layer(DefaultBodyLimit::disable()).with_state(bucket.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        bucket
    }

    pub(crate) fn configure(&self, settings: &mut FileSettings) {
        settings.store_url = Some("s3://files/a/prefix".to_owned());
        settings.store_endpoint = Some(self.endpoint.clone());
        settings.store_key_id = Some("key".to_owned());
        settings.store_key = Some("secret".parse().expect("a secret"));
    }

    /// Keys of all objects.
    pub(crate) fn objects(&self) -> Vec<String> {
        self.state().objects.keys().filter(|key| !key.ends_with("/deployment")).cloned().collect()
    }

    /// Total number of parts received.
    pub(crate) fn parts(&self) -> usize {
        self.state().parts
    }

    /// Number of unfinished multipart uploads.
    pub(crate) fn unfinished(&self) -> usize {
        self.state().uploads.len()
    }

    fn state(&self) -> MutexGuard<'_, BucketState> {
        self.state.lock().expect("not poisoned")
    }
}

async fn answer(
    State(bucket): State<Bucket>,
    method: Method,
    uri: Uri,
    RawQuery(query): RawQuery,
    request: Request,
) -> Response {
    assert!(request.headers()[header::AUTHORIZATION].to_str().expect("text").contains("Credential=key/"));
    let range = request.headers().get(header::RANGE).map(|range| range.to_str().expect("text").to_owned());
    let body = axum::body::to_bytes(request.into_body(), usize::MAX).await.expect("a body");
    let path = uri.path().strip_prefix("/files").expect("the bucket");
    let key = path.strip_prefix('/').unwrap_or_default().to_owned();
    let query: BTreeMap<String, String> =
        form_urlencoded::parse(query.unwrap_or_default().as_bytes()).into_owned().collect();
    let mut state = bucket.state();
    let upload = query.get("uploadId").cloned();
    match (method.as_str(), upload) {
        ("GET", None) if key.is_empty() => list(&state, query.get("prefix").map_or("", String::as_str)),
        ("GET" | "HEAD", None) => get(&state, &key, range.as_deref()),
        ("POST", None) if query.contains_key("uploads") => {
            let id = format!("upload-{}", state.parts + state.uploads.len() + state.objects.len());
            let xml = format!(
                "<InitiateMultipartUploadResult><Bucket>files</Bucket><Key>{key}</Key><UploadId>{id}</UploadId>\
                 </InitiateMultipartUploadResult>"
            );
            state.uploads.insert(id, (key, BTreeMap::new()));
            xml.into_response()
        }
        ("PUT", Some(id)) => {
            let number: u32 = query["partNumber"].parse().expect("a number");
            state.parts += 1;
            state.uploads.get_mut(&id).expect("a begun upload").1.insert(number, body);
            [(header::ETAG, format!("\"{number}\""))].into_response()
        }
        ("POST", Some(id)) => {
            let (key, parts) = state.uploads.remove(&id).expect("a begun upload");
            let last = parts.len();
            let small = parts.values().take(last.saturating_sub(1)).any(|part| part.len() < 5 << 20);
            assert!(!small, "a part before the last has less than 5 MiB");
            state.objects.insert(key, parts.into_values().flatten().collect());
            "<CompleteMultipartUploadResult><ETag>\"whole\"</ETag></CompleteMultipartUploadResult>".into_response()
        }
        ("PUT", None) => {
            state.objects.insert(key, body.to_vec());
            [(header::ETAG, "\"whole\"")].into_response()
        }
        ("DELETE", Some(id)) => {
            state.uploads.remove(&id);
            StatusCode::NO_CONTENT.into_response()
        }
        ("DELETE", None) => {
            state.objects.remove(&key);
            StatusCode::NO_CONTENT.into_response()
        }
        // Several at once: <Delete><Object><Key>…</Key></Object>…</Delete>
        ("POST", None) => {
            let text = String::from_utf8(body.to_vec()).expect("text");
            let keys = text.split("<Key>").skip(1).filter_map(|rest| rest.split("</Key>").next());
            let mut deleted = String::new();
            for key in keys {
                state.objects.remove(key);
                let _ = write!(deleted, "<Deleted><Key>{key}</Key></Deleted>");
            }
            format!("<DeleteResult>{deleted}</DeleteResult>").into_response()
        }
        other => panic!("{other:?} {uri}"),
    }
}

fn list(state: &BucketState, prefix: &str) -> Response {
    let contents: String = state
        .objects
        .iter()
        .filter(|(key, _)| key.starts_with(prefix))
        .map(|(key, bytes)| {
            format!(
                "<Contents><Key>{key}</Key><Size>{}</Size><LastModified>{}</LastModified>\
                 <ETag>\"whole\"</ETag></Contents>",
                bytes.len(),
                state.since
            )
        })
        .collect();
    format!("<ListBucketResult><IsTruncated>false</IsTruncated>{contents}</ListBucketResult>").into_response()
}

fn get(state: &BucketState, key: &str, range: Option<&str>) -> Response {
    let Some(bytes) = state.objects.get(key) else {
        return (StatusCode::NOT_FOUND, "<Error><Code>NoSuchKey</Code></Error>").into_response();
    };
    let length = bytes.len();
    let common =
        [(header::ETAG, "\"whole\"".to_owned()), (header::LAST_MODIFIED, "Wed, 01 Jan 2025 00:00:00 GMT".to_owned())];
    let Some(range) = range else { return (common, bytes.clone()).into_response() };
    let (from, to) = range.strip_prefix("bytes=").and_then(|r| r.split_once('-')).expect("a range");
    let from: usize = from.parse().expect("a number");
    let to = to.parse::<usize>().map_or(length, |to| (to + 1).min(length));
    let content_range = [(header::CONTENT_RANGE, format!("bytes {from}-{}/{length}", to - 1))];
    (StatusCode::PARTIAL_CONTENT, common, content_range, bytes[from..to].to_vec()).into_response()
}
