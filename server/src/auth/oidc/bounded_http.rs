//! HTTP client for provider requests: limits on time and size, no redirects, no proxies from the environment.
//!
//! It does not use `outbound`, whose clients refuse private addresses: providers are configured by the operator and may
//! be internal.

use std::{sync::OnceLock, time::Duration};

use openidconnect::{HttpRequest, HttpResponse};

/// Timeout of a whole request with its response.
const LIMIT: Duration = Duration::from_secs(10);

/// Largest response that is read, in bytes: key sets are the largest, at about ten kilobytes.
const LARGEST: usize = 1 << 20;

/// Reasons for a missing response.
#[derive(Debug, thiserror::Error)]
pub(super) enum HttpError {
    #[error("{0}")]
    Sending(#[from] reqwest::Error),
    #[error("{0}")]
    Building(#[from] openidconnect::http::Error),
    #[error("the answer has more than {LARGEST} bytes")]
    TooLarge,
}

/// Sends a request of the `openidconnect` library.
pub(super) async fn send(request: HttpRequest) -> Result<HttpResponse, HttpError> {
    let request = reqwest::Request::try_from(request.map(reqwest::Body::from))?;
    let mut response = client()?.execute(request).await?;
    let mut answer = openidconnect::http::Response::builder().status(response.status());
    for (name, value) in response.headers() {
        answer = answer.header(name, value);
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > LARGEST {
            return Err(HttpError::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(answer.body(body)?)
}

fn client() -> Result<&'static reqwest::Client, HttpError> {
    static CLIENT: OnceLock<reqwest::Client> = OnceLock::new();
    if let Some(client) = CLIENT.get() {
        return Ok(client);
    }
    // Install ring once per process; a provider that was installed earlier stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let built = reqwest::Client::builder()
        .user_agent(concat!("Treeline/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .no_proxy()
        .referer(false)
        .connect_timeout(Duration::from_secs(5))
        .timeout(LIMIT)
        .build()?;
    Ok(CLIENT.get_or_init(|| built))
}
