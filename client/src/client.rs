//! Connection to a server: one HTTP client, its token, and retries.
//!
//! A call states its retry policy; [`retry`](crate::retry) applies it. The calls themselves are in
//! [`api`](crate::api).

use std::{
    fmt,
    sync::{Arc, Once},
    time::Duration,
};

use bytes::Bytes;
use domain::problem::MEDIA_TYPE;
use reqwest::{
    Method, Response, StatusCode, Url,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    error::{Error, Result},
    retry::{RetryPolicy, RetryState},
};

/// Longest wait for a response, in addition to the wait of a long poll.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// `type` of a problem document of Treeline, before its code.
const TYPE_PREFIX: &str = "urn:treeline:problem:";
/// Bytes of a response that are read to explain it.
const EXPLANATION_BYTES: usize = 200;

/// A Treeline server and the token for it. Cheap to clone; clones share connections.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
    retry_timeout: Duration,
}

struct Inner {
    http: reqwest::Client,
    base: Url,
}

impl fmt::Debug for Client {
    /// Without the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("base", &self.inner.base.as_str()).finish_non_exhaustive()
    }
}

/// What every problem document of Treeline has, also one of a newer server.
#[derive(Deserialize)]
struct UnreadProblem {
    #[serde(rename = "type")]
    kind: String,
    code: String,
    #[serde(default)]
    detail: String,
}

/// One call, which may take several requests.
pub(crate) struct Call {
    pub(crate) method: Method,
    /// Below `/api/v1`, with query.
    pub(crate) url: Url,
    body: Option<Bytes>,
    headers: HeaderMap,
    retry: RetryPolicy,
    /// `None`: the response body streams without a time limit.
    timeout: Option<Duration>,
}

impl Call {
    pub(crate) fn query(mut self, name: &str, value: &str) -> Self {
        self.url.query_pairs_mut().append_pair(name, value);
        self
    }

    pub(crate) fn query_some(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.query(name, value),
            None => self,
        }
    }

    pub(crate) fn json(mut self, body: &impl Serialize) -> Self {
        // Our own types always serialize; a failure would show as a 400 for an empty body.
        self.body = Some(serde_json::to_vec(body).unwrap_or_default().into());
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self
    }

    pub(crate) fn header(mut self, name: &'static str, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    pub(crate) fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    pub(crate) fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// A long poll: the server may wait this long before it responds.
    pub(crate) fn long_poll(self, seconds: u32) -> Self {
        self.timeout(RESPONSE_TIMEOUT + Duration::from_secs(seconds.into()))
    }

    pub(crate) fn streaming(mut self) -> Self {
        self.timeout = None;
        self
    }

    /// The call in an error message.
    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.method, self.url)
    }
}

impl Client {
    /// A client of the server at `base` (`http://…` or `https://…`, a path before `/api` included).
    ///
    /// # Errors
    /// [`Error::Configuration`] when the URL or the token cannot be used.
    pub fn new(base: &str, token: Option<&str>) -> Result<Self> {
        install_crypto();
        let base = parse_base(base)?;
        let mut headers = HeaderMap::new();
        if let Some(token) = token {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
                .map_err(|_| Error::Configuration("The token holds characters that no token has.".to_owned()))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("treeline/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers)
            .connect_timeout(Duration::from_secs(5))
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never());
        if base.scheme() == "http" {
            // Without TLS, do not load the system's certificates into memory.
            builder = builder.tls_certs_only([]);
        }
        let http = builder.build().map_err(|e| Error::Configuration(format!("No HTTP client: {e}")))?;
        Ok(Self { inner: Arc::new(Inner { http, base }), retry_timeout: Duration::from_secs(30) })
    }

    /// The same client, trying each call for at most this long (30 s unless said otherwise). Zero: once.
    #[must_use]
    pub fn with_retry_timeout(&self, retry_timeout: Duration) -> Self {
        Self { inner: Arc::clone(&self.inner), retry_timeout }
    }

    /// The address of a page of the dashboard, for people: `page(&["jobs", id])`.
    pub fn page(&self, path: &[&str]) -> String {
        extend(&self.inner.base, path).to_string()
    }

    /// A call of `/api/v1/{path…}`. Segments are escaped.
    pub(crate) fn call(&self, method: Method, path: &[&str]) -> Call {
        let mut url = extend(&self.inner.base, &["api", "v1"]);
        url = extend(&url, path);
        let retry = if method == Method::GET { RetryPolicy::Always } else { RetryPolicy::IfNotProcessed };
        Call { method, url, body: None, headers: HeaderMap::new(), retry, timeout: Some(RESPONSE_TIMEOUT) }
    }

    /// Sends the call, again if that is right, and gives back a successful answer.
    pub(crate) async fn send(&self, call: Call) -> Result<Response> {
        let mut tries = RetryState::new(self.retry_timeout);
        loop {
            match self.send_attempt(&call, tries.next()).await {
                Ok(response) => return Ok(response),
                Err(error) => tries.pause(error, call.retry).await?,
            }
        }
    }

    /// Sends the call and reads its JSON answer.
    pub(crate) async fn fetch<T: DeserializeOwned>(&self, call: Call) -> Result<T> {
        Ok(self.answer(call).await?.1)
    }

    /// Sends the call and reads its status and its JSON answer. An answer that breaks off counts as none.
    pub(crate) async fn answer<T: DeserializeOwned>(&self, call: Call) -> Result<(StatusCode, T)> {
        let mut tries = RetryState::new(self.retry_timeout);
        loop {
            let attempt = tries.next();
            let error = match self.send_attempt(&call, attempt).await {
                Ok(response) => {
                    let status = response.status();
                    match response.bytes().await {
                        Ok(body) => {
                            let read = serde_json::from_slice(&body);
                            return read
                                .map(|answer| (status, answer))
                                .map_err(|cause| Error::InvalidResponse { call: call.name(), cause });
                        }
                        Err(cause) => {
                            Error::Transport { call: call.name(), tries: attempt, cause: cause.without_url() }
                        }
                    }
                }
                Err(error) => error,
            };
            tries.pause(error, call.retry).await?;
        }
    }

    async fn send_attempt(&self, call: &Call, attempt: u32) -> Result<Response> {
        let mut request = self.inner.http.request(call.method.clone(), call.url.clone()).headers(call.headers.clone());
        if let Some(body) = &call.body {
            request = request.body(body.clone());
        }
        if let Some(timeout) = call.timeout {
            request = request.timeout(timeout);
        }
        match request.send().await {
            Ok(response) if response.status().is_success() => Ok(response),
            Ok(response) => Err(response_error(&call.name(), response).await),
            Err(cause) => Err(Error::Transport { call: call.name(), tries: attempt, cause: cause.without_url() }),
        }
    }

    /// Sends a call whose body cannot be produced a second time.
    pub(crate) async fn send_once(&self, call: Call, body: reqwest::Body, length: u64) -> Result<Response> {
        let name = call.name();
        let response = self
            .inner
            .http
            .request(call.method, call.url)
            .headers(call.headers)
            .header(reqwest::header::CONTENT_LENGTH, length)
            .body(body)
            .send()
            .await
            .map_err(|cause| Error::Transport { call: name.clone(), tries: 1, cause: cause.without_url() })?;
        if response.status().is_success() { Ok(response) } else { Err(response_error(&name, response).await) }
    }
}

/// Reads a JSON response.
pub(crate) async fn read<T: DeserializeOwned>(call: &str, response: Response) -> Result<T> {
    let body = response.bytes().await.map_err(|cause| Error::Transport {
        call: call.to_owned(),
        tries: 1,
        cause: cause.without_url(),
    })?;
    serde_json::from_slice(&body).map_err(|cause| Error::InvalidResponse { call: call.to_owned(), cause })
}

/// Installs ring as the cryptography provider, once per process, because reqwest is built without one. A provider
/// that the embedding program installed earlier stays.
fn install_crypto() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

fn parse_base(text: &str) -> Result<Url> {
    let refuse = |why: &str| Error::Configuration(format!("The server's URL {text:?} {why}."));
    let url = Url::parse(text).map_err(|e| refuse(&format!("cannot be read: {e}")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(refuse("is not an http:// or https:// address"));
    }
    Ok(url)
}

fn extend(base: &Url, path: &[&str]) -> Url {
    let mut url = base.clone();
    url.set_query(None);
    url.set_fragment(None);
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(path);
    }
    url
}

/// Error of a refused call.
async fn response_error(call: &str, response: Response) -> Error {
    let (status, retry_after) = (response.status(), retry_after(&response));
    let is_problem = response.headers().get(CONTENT_TYPE).is_some_and(|kind| {
        let kind = kind.to_str().unwrap_or_default();
        kind.split(';').next().is_some_and(|kind| kind.trim() == MEDIA_TYPE)
    });
    let body = response.bytes().await.unwrap_or_default();
    if let Some(error) = is_problem.then(|| problem_error(status, retry_after, &body)).flatten() {
        return error;
    }
    let text = String::from_utf8_lossy(&body[..body.len().min(EXPLANATION_BYTES)]);
    let body = if text.trim().is_empty() {
        status.canonical_reason().unwrap_or("no reason given").to_owned()
    } else {
        text.trim().to_owned()
    };
    Error::Unexpected { call: call.to_owned(), status: status.as_u16(), body, retry_after }
}

/// Error of a problem document; `None` if it is not from Treeline. A newer server may send one that this version cannot
/// read, which is its refusal nevertheless.
fn problem_error(status: StatusCode, retry_after: Option<Duration>, body: &[u8]) -> Option<Error> {
    let UnreadProblem { kind, code, detail } = serde_json::from_slice(body).ok()?;
    if kind.strip_prefix(TYPE_PREFIX) != Some(code.as_str()) {
        return None;
    }
    Some(match serde_json::from_slice(body) {
        Ok(problem) => Error::Problem(Box::new(problem)),
        Err(_) => Error::NewerProblem { status: status.as_u16(), code, detail, retry_after },
    })
}

fn retry_after(response: &Response) -> Option<Duration> {
    let seconds: u64 = response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use domain::{Code, Problem};
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    #[test]
    fn a_base_url_keeps_its_path_and_segments_are_escaped() {
        let client = Client::new("http://example.test/treeline/", None).expect("client");
        let call = client.call(Method::GET, &["job-types", "a/b"]).query("q", "x y");
        assert_eq!(call.url.as_str(), "http://example.test/treeline/api/v1/job-types/a%2Fb?q=x+y");
        assert_eq!(client.page(&["jobs", "1"]), "http://example.test/treeline/jobs/1");
    }

    #[test]
    fn what_is_no_address_is_refused_before_anything_is_sent() {
        for bad in ["", "127.0.0.1:3000", "ftp://example.test", "http://"] {
            assert!(matches!(Client::new(bad, None), Err(Error::Configuration(_))), "{bad:?}");
        }
        assert!(matches!(Client::new("http://example.test", Some("a\nb")), Err(Error::Configuration(_))));
    }

    #[test]
    fn a_problem_of_a_newer_server_is_from_treeline() {
        let of = |body: &str| problem_error(StatusCode::FORBIDDEN, None, body.as_bytes());
        let known = serde_json::to_string(&Problem::new(Code::Forbidden, "why")).expect("json");
        assert_eq!(of(&known).and_then(|error| error.code()), Some(Code::Forbidden));
        let newer = of(r#"{"type": "urn:treeline:problem:new_code", "code": "new_code", "detail": "why"}"#);
        assert!(matches!(newer, Some(Error::NewerProblem { status: 403, .. })), "{newer:?}");
        for other in [r#"{"type": "about:blank", "code": "forbidden"}"#, r#"{"title": "Forbidden"}"#, "<html>"] {
            assert!(of(other).is_none(), "{other}");
        }
    }

    #[tokio::test]
    async fn the_error_of_a_proxy_has_its_retry_after() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let answer = "HTTP/1.1 503 x\r\nretry-after: 7\r\ncontent-length: 4\r\nconnection: close\r\n\r\nbusy";
            assert!(stream.read(&mut [0; 4096]).await.expect("a request") > 0);
            stream.write_all(answer.as_bytes()).await.expect("written");
        });
        let client = Client::new(&url, None).expect("client").with_retry_timeout(Duration::ZERO);
        let error = client.send(client.call(Method::GET, &["jobs"])).await.expect_err("an error");
        assert_eq!((error.status(), error.retry_after()), (Some(503), Some(Duration::from_secs(7))));
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_tried_again_and_then_named() {
        let client =
            Client::new("http://127.0.0.1:1", None).expect("client").with_retry_timeout(Duration::from_millis(300));
        let error = client.send(client.call(Method::POST, &["jobs"])).await.expect_err("nobody there");
        let Error::Transport { tries, .. } = &error else { panic!("{error}") };
        assert!(*tries > 1);
        assert!(error.to_string().contains("POST http://127.0.0.1:1/api/v1/jobs"), "{error}");
    }
}
