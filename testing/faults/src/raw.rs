//! Requests without retries, which would hide the effect of a fault.
//!
//! [`Api`] uses an HTTP client; [`exchange`] and [`request`] work with bytes on a separate connection, which can be
//! cut.

use std::{io, net::SocketAddr, sync::Once, time::Duration};

use anyhow::{Context as _, Error, Result, anyhow, ensure};
use reqwest::{
    Method,
    header::{COOKIE, HeaderMap, RETRY_AFTER, SET_COOKIE},
};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::inconclusive::Inconclusive;

/// Client of a server, with a token.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    http: reqwest::Client,
    base: String,
    token: String,
    /// Session cookie of a person, used instead of the token.
    cookie: Option<String>,
    /// Headers of every request.
    headers: HeaderMap,
}

/// A response.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<u64>,
    pub(crate) text: String,
}

impl Api {
    /// A client of the server at `http://host:port`.
    pub(crate) fn new(base: &str, token: &str) -> Result<Self> {
        install_crypto();
        let http = reqwest::Client::builder()
            .timeout(Duration::from_secs(40))
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .tls_certs_only([])
            .build()?;
        let headers = HeaderMap::new();
        Ok(Self { http, base: base.to_owned(), token: token.to_owned(), cookie: None, headers })
    }

    /// A client with the session of this cookie, and with these headers in every request.
    pub(crate) fn with_session(base: &str, cookie: &str, headers: HeaderMap) -> Result<Self> {
        Ok(Self { cookie: Some(cookie.to_owned()), headers, ..Self::new(base, "")? })
    }

    /// Signs in a person by email and password.
    pub(crate) async fn sign_in(base: &str, email: &str, password: &str) -> Result<Self> {
        let stranger = Self::new(base, "")?;
        let credentials = serde_json::json!({"email": email, "password": password});
        let answer = stranger.http.post(format!("{base}/api/v1/session")).json(&credentials).send().await?;
        let cookie = answer.headers().get(SET_COOKIE).context("a cookie")?.to_str()?;
        let cookie = cookie.split(';').next().map(str::to_owned);
        Ok(Self { cookie, ..stranger })
    }

    /// Sends one request. Returns an error if there is no complete response.
    pub(crate) async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> reqwest::Result<Answer> {
        self.send_keyed(method, path, body, None).await
    }

    /// Sends one request with an Idempotency-Key.
    pub(crate) async fn send_keyed(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        key: Option<&str>,
    ) -> reqwest::Result<Answer> {
        let request = self.http.request(method, format!("{}/api/v1{path}", self.base)).headers(self.headers.clone());
        // A request with a cookie states its origin, like a browser.
        let mut request = match &self.cookie {
            Some(cookie) => request.header(COOKIE, cookie).header("sec-fetch-site", "same-origin"),
            None => request.bearer_auth(&self.token),
        };
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await?;
        let status = response.status().as_u16();
        let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        Ok(Answer { status, retry_after, text: response.text().await? })
    }

    pub(crate) async fn get(&self, path: &str) -> reqwest::Result<Answer> {
        self.send(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> reqwest::Result<Answer> {
        self.send(Method::POST, path, Some(body)).await
    }

    /// Creates or replaces a job type.
    pub(crate) async fn put_type(&self, name: &str, spec: &Value) -> Result<()> {
        let made = self.send(Method::PUT, &format!("/job-types/{name}"), Some(spec)).await?;
        made.ok().with_context(|| format!("defining the type {name}")).map(drop)
    }

    /// Creates a tree. Returns its id.
    pub(crate) async fn tree(&self, tree: &Value) -> Result<String> {
        let made = self.post("/jobs", tree).await?.ok()?;
        Ok(made["id"].as_str().context("a job without an id")?.to_owned())
    }

    /// Claims items without waiting.
    pub(crate) async fn claim(&self, job_type: &str, max: usize) -> Result<Vec<Value>> {
        let claim = serde_json::json!({"worker_id": "raw", "types": [job_type], "max": max});
        let claimed = self.post("/assignments", &claim).await?.ok()?;
        Ok(claimed["assignments"].as_array().cloned().unwrap_or_default())
    }
}

impl Answer {
    /// The body as JSON; null if it is not JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or(Value::Null)
    }

    /// The body of a successful response; otherwise an error, which is inconclusive if the server rejected the request
    /// for now.
    pub(crate) fn ok(&self) -> Result<Value> {
        if self.is_rejected_for_now() {
            return Err(Inconclusive::Timeout.error(format!("{}: {}", self.status, self.text)));
        }
        ensure!((200..300).contains(&self.status), "{}: {}", self.status, self.text);
        Ok(self.json())
    }

    /// True if the server is busy and says that the request can be repeated.
    pub(crate) fn is_rejected_for_now(&self) -> bool {
        matches!(self.status, 429 | 503)
    }
}

/// Id of an assignment, a job or an item.
pub(crate) fn id(value: &Value) -> Result<&str> {
    value["id"].as_str().with_context(|| format!("no id in {value}"))
}

/// A request as the bytes of HTTP/1.1; the connection closes after the response.
pub(crate) fn request(method: &str, path: &str, token: &str, body: Option<&Value>) -> Vec<u8> {
    let body = body.map(Value::to_string).unwrap_or_default();
    let head = format!(
        "{method} /api/v1{path} HTTP/1.1\r\nhost: treeline\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    (head + &body).into_bytes()
}

/// Sends bytes on a separate connection and reads until its end or the timeout. Returns the received bytes in any case.
pub(crate) async fn exchange(to: SocketAddr, bytes: &[u8], max_wait: Duration) -> Vec<u8> {
    let mut received = Vec::new();
    let talk = async {
        let mut stream = TcpStream::connect(to).await?;
        stream.write_all(bytes).await?;
        stream.read_to_end(&mut received).await?;
        io::Result::Ok(())
    };
    // Errors are expected: the caller checks the received bytes.
    let _ = timeout(max_wait, talk).await;
    received
}

/// Sends bytes on a separate connection. Returns the body of a complete and successful response.
pub(crate) async fn exchange_whole(to: SocketAddr, bytes: &[u8], max_wait: Duration) -> Result<Value> {
    let received = exchange(to, bytes, max_wait).await;
    whole_body(&received).ok_or_else(|| no_answer(&received))
}

/// Error for received bytes that are no complete and successful response. It is inconclusive, unless they are a response
/// after which the request must not be repeated.
pub(crate) fn no_answer(received: &[u8]) -> Error {
    let text = String::from_utf8_lossy(received);
    let status = text.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.split_whitespace().next());
    match status {
        None | Some("200" | "408" | "429" | "502" | "503" | "504") => {
            Inconclusive::Timeout.error(format!("no complete response: {text:?}"))
        }
        Some(status) => anyhow!("rejected with {status}: {text:?}"),
    }
}

/// The body, if these bytes are a complete and successful response.
pub(crate) fn whole_body(answer: &[u8]) -> Option<Value> {
    let text = std::str::from_utf8(answer).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    })?;
    (head.starts_with("HTTP/1.1 200") && body.len() == length).then(|| serde_json::from_str(body).ok())?
}

/// reqwest is built without a cryptography provider of its own.
pub(crate) fn install_crypto() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// Polls until the condition is true or the timeout is over. Then the error names the condition and is inconclusive.
pub(crate) async fn until(
    what: &str,
    max_wait: Duration,
    mut check: impl AsyncFnMut() -> Result<bool>,
) -> Result<Duration> {
    let begun = tokio::time::Instant::now();
    while !check().await? {
        if begun.elapsed() >= max_wait {
            return Err(Inconclusive::Timeout.error(format!("{what}: not within {max_wait:?}")));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(begun.elapsed())
}

/// Quantile of a sample, such as 0.99. Zero for an empty sample.
pub(crate) fn quantile(sample: &mut [Duration], share: f64) -> Duration {
    sample.sort_unstable();
    let at = ((sample.len() as f64 * share).ceil() as usize).clamp(1, sample.len().max(1)) - 1;
    sample.get(at).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inconclusive::is_inconclusive;

    #[test]
    fn a_rejection_is_no_missing_answer() {
        for received in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 503 Service Unavailable\r\n\r\nlater"] {
            assert!(is_inconclusive(&no_answer(received.as_bytes())), "{received}");
        }
        for received in ["HTTP/1.1 409 Conflict\r\n\r\nclosed", "HTTP/1.1 500 Internal Server Error\r\n"] {
            assert!(!is_inconclusive(&no_answer(received.as_bytes())), "{received}");
        }
    }
}
