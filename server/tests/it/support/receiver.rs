//! HTTP receiver: passes requests to the test, and responds as the test says.
//!
//! Every message is validated against its schema in the API document, without additional fields.

use std::{collections::HashMap, convert::Infallible, sync::LazyLock, time::Duration};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{OriginalUri, State},
    http::{HeaderMap, StatusCode},
    response::Response,
};
use futures::{StreamExt as _, stream};
use jsonschema::Validator;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::{
    io::AsyncReadExt as _,
    net::TcpListener,
    sync::{mpsc, oneshot},
    time::{Instant, timeout},
};

/// Receiver on its own port.
pub(crate) struct Receiver {
    pub(crate) port: u16,
    posts: mpsc::UnboundedReceiver<Post>,
    task: tokio::task::JoinHandle<()>,
}

/// One request, which waits for its response.
pub(crate) struct Post {
    pub(crate) at: Instant,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
    answer: oneshot::Sender<Response>,
}

type Posts = mpsc::UnboundedSender<Post>;

impl Receiver {
    /// Starts a receiver whose responses are given by the test.
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (sender, posts) = mpsc::unbounded_channel();
        let router = Router::new().fallback(receive).with_state(sender);
        let task = tokio::spawn(async move { axum::serve(listener, router).await.expect("it serves") });
        Self { port, posts, task }
    }

    /// Starts a receiver that closes every connection after the first data, and counts them.
    pub(crate) async fn closing() -> (u16, mpsc::UnboundedReceiver<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (sender, received) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut some = [0; 64];
                let _ = stream.read(&mut some).await;
                if sender.send(()).is_err() {
                    return;
                }
            }
        });
        (port, received)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Waits for the next request, for up to half a minute.
    pub(crate) async fn next(&mut self) -> Post {
        let post = self.next_of_another_service().await;
        post.assert_documented();
        post
    }

    /// Waits for the next request in the format of another service, which the API document does not describe.
    pub(crate) async fn next_of_another_service(&mut self) -> Post {
        let post = timeout(Duration::from_secs(30), self.posts.recv()).await;
        post.expect("somebody posts within half a minute").expect("the receiver runs")
    }

    /// Next request, if it has already arrived.
    pub(crate) fn now(&mut self) -> Option<Post> {
        self.posts.try_recv().ok().inspect(Post::assert_documented)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn receive(
    State(posts): State<Posts>,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Infallible> {
    let (answer, answered) = oneshot::channel();
    let body = String::from_utf8(body.to_vec()).expect("text");
    let _ = posts.send(Post { at: Instant::now(), path: uri.to_string(), headers, body, answer });
    match answered.await {
        Ok(response) => Ok(response),
        // A story that drops the request never answers it.
        Err(_) => std::future::pending().await,
    }
}

/// API document as served.
static DOCUMENT: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(server::http::openapi_document(false)).expect("JSON"));

/// Built once: each holds all schemas of the document, which takes a while.
static VALIDATORS: LazyLock<HashMap<&str, Validator>> = LazyLock::new(|| {
    let build = |name| {
        let schema = json!({"$ref": format!("#/components/schemas/{name}"), "components": DOCUMENT["components"]});
        let validator = jsonschema::options().should_validate_formats(true).build(&schema);
        (name, validator.expect("a schema"))
    };
    let names = [
        "PushedItem",
        "TreeCompleted",
        "AlertRaised",
        "AlertCleared",
        "AlertTest",
        "NoticeFinished",
        "NoticeNeedsAttention",
        "AuditEntries",
    ];
    names.map(build).into()
});

/// Schema name of a message by its `type`; in a pushed item, `type` is the job type.
pub(crate) fn schema_of(message: &Value) -> &'static str {
    match message["type"].as_str() {
        _ if message["assignment_id"].is_string() => "PushedItem",
        Some("tree.completed") => "TreeCompleted",
        Some("alert.raised") => "AlertRaised",
        Some("alert.cleared") => "AlertCleared",
        Some("alert.test") => "AlertTest",
        Some("notice.finished") => "NoticeFinished",
        Some("notice.needs_attention") => "NoticeNeedsAttention",
        Some("audit.entries") => "AuditEntries",
        _ => panic!("the document describes no such message: {message}"),
    }
}

/// Violations of a message's schema in the API document.
pub(crate) fn faults(message: &Value) -> Vec<String> {
    let name = schema_of(message);
    let mut faults: Vec<String> =
        VALIDATORS[name].iter_errors(message).map(|fault| format!("{}: {fault}", fault.instance_path())).collect();
    add_undocumented_fields(&DOCUMENT["components"]["schemas"][name], message, "", &mut faults);
    faults
}

/// Adds the undocumented fields of objects with a fixed shape.
fn add_undocumented_fields(schema: &Value, value: &Value, pointer: &str, faults: &mut Vec<String>) {
    let schema =
        schema["$ref"].as_str().map_or(schema, |reference| DOCUMENT.pointer(&reference[1..]).expect("a schema"));
    match (schema["properties"].as_object(), value) {
        (Some(properties), Value::Object(fields)) => {
            for (name, inner) in fields {
                match properties.get(name) {
                    Some(property) => add_undocumented_fields(property, inner, &format!("{pointer}/{name}"), faults),
                    None => faults.push(format!("{pointer}/{name} is not described")),
                }
            }
        }
        (None, Value::Array(elements)) => {
            for element in elements {
                add_undocumented_fields(&schema["items"], element, pointer, faults);
            }
        }
        _ => {}
    }
}

impl Post {
    /// Panics if the message does not match the API document.
    fn assert_documented(&self) {
        let message = self.json();
        let faults = faults(&message);
        assert!(faults.is_empty(), "{}: {faults:?} in {message}", schema_of(&message));
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("text"))
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }

    pub(crate) fn status(self, status: u16) {
        self.answer(status, &[], Body::empty());
    }

    pub(crate) fn text(self, status: u16, text: &str) {
        self.answer(status, &[], Body::from(text.to_owned()));
    }

    pub(crate) fn answer(self, status: u16, headers: &[(&str, &str)], body: Body) {
        let mut response = Response::builder().status(StatusCode::from_u16(status).expect("a status"));
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        // Who asked may have gone.
        let _ = self.answer.send(response.body(body).expect("a response"));
    }

    /// Sends a truncated response: the connection closes.
    pub(crate) fn broken(self, status: u16, begins: &'static str) {
        let parts = stream::iter([Ok(Bytes::from(begins)), Err(std::io::Error::other("cut off"))]);
        self.answer(status, &[], Body::from_stream(parts));
    }

    /// Sends a body without an end.
    pub(crate) fn endless(self, status: u16) {
        let parts = stream::repeat(Bytes::from(vec![b' '; 65_536])).map(Ok::<_, Infallible>);
        self.answer(status, &[], Body::from_stream(parts));
    }

    /// Sends a body without an end, one byte at a time.
    pub(crate) fn dripping(self, status: u16) {
        let ticks = tokio::time::interval(Duration::from_millis(50));
        let parts = stream::unfold(ticks, |mut ticks| async move {
            ticks.tick().await;
            Some((Ok::<_, Infallible>(Bytes::from_static(b" ")), ticks))
        });
        self.answer(status, &[], Body::from_stream(parts.boxed()));
    }

    /// Verifies the signature with an independent computation: HMAC (RFC 2104) over id, time and body.
    pub(crate) fn is_signed_by(&self, key: &[u8]) -> bool {
        let signed = format!("{}.{}.{}", self.header("webhook-id"), self.header("webhook-timestamp"), self.body);
        let mut block = [0_u8; 64];
        if key.len() > 64 {
            block[..32].copy_from_slice(&Sha256::digest(key));
        } else {
            block[..key.len()].copy_from_slice(key);
        }
        let pad = |with: u8| block.map(|byte| byte ^ with);
        let inner = Sha256::new().chain_update(pad(0x36)).chain_update(signed).finalize();
        let mac = Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize();
        let expected = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, mac);
        self.header("webhook-signature").split(' ').any(|signature| signature == format!("v1,{expected}"))
    }
}
