//! Callers that are people: their accounts, sign-ins and sessions.
//!
//! Each sign-in has a client address of its own, which the servers believe from their trusted proxy: failed attempts of
//! crashed servers do not slow down the others.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use reqwest::{
    Method, Response,
    header::{HeaderMap, HeaderName, HeaderValue, SET_COOKIE},
};
use serde_json::{Value, json};

use super::{Caller, ensure_time_left};
use crate::raw::{Api, id};

const SESSION_COOKIE: &str = "treeline_session";

/// An account with a password.
pub(super) struct Person {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) email: String,
    pub(super) password: &'static str,
}

impl Person {
    pub(super) fn credentials(&self) -> Value {
        json!({"email": self.email, "password": self.password})
    }
}

impl Caller {
    /// URL of one of the servers; every number is valid.
    pub(super) fn base(&self, at: usize) -> &str {
        let bases = &self.shared.environment.bases;
        &bases[at % bases.len()]
    }

    /// Creates an account.
    pub(super) async fn person(&self, n: usize) -> Result<Person> {
        let (name, email) = (format!("person {n}"), format!("person-{n}@example.org"));
        let password = "long enough to be one";
        let new = json!({"name": name, "email": email, "password": password});
        // 409 if an earlier attempt succeeded.
        self.send_idempotent(Method::POST, "/users", Some(&new), &[409]).await?;
        let account = self.only_account("email", &email).await?;
        Ok(Person { id: id(&account)?.to_owned(), name, email, password })
    }

    /// Signs in by password, which must succeed.
    pub(super) async fn signed_in(&self, person: &Person) -> Result<Self> {
        self.in_session(&self.sign_in(&person.credentials()).await?, None)
    }

    /// Sends a sign-in until a server answers.
    pub(super) async fn sign_in(&self, credentials: &Value) -> Result<Response> {
        self.until_response(Method::POST, "/api/v1/session", &[], Some(credentials)).await
    }

    /// Requests a page until a server answers.
    pub(super) async fn page(&self, path: &str, headers: &[(&'static str, &str)]) -> Result<Response> {
        self.until_response(Method::GET, path, headers, None).await
    }

    async fn until_response(
        &self,
        method: Method,
        path: &str,
        headers: &[(&'static str, &str)],
        body: Option<&Value>,
    ) -> Result<Response> {
        let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build()?;
        let began = Instant::now();
        for at in self.name().. {
            let mut request = http.request(method.clone(), format!("{}{path}", self.base(at)));
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            request = request.header("x-forwarded-for", self.new_address());
            if let Some(body) = body {
                request = request.json(body);
            }
            match request.send().await {
                Ok(answer) if !answer.status().is_server_error() && answer.status() != 429 => return Ok(answer),
                last => ensure_time_left(began, || format!("{method} {path} got no response: {last:?}"))?,
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        bail!("no server")
    }

    /// A client address that no other request has.
    fn new_address(&self) -> String {
        let [_, a, b, c] = (self.name() as u32).to_be_bytes();
        format!("10.{a}.{b}.{c}")
    }

    /// The person whose session this response has started. `proxy_user` is the name that a proxy adds to each request.
    pub(super) fn in_session(&self, answer: &Response, proxy_user: Option<&str>) -> Result<Self> {
        let cookie = cookie(answer, SESSION_COOKIE)?;
        let mut headers = HeaderMap::new();
        if let Some(user) = proxy_user {
            headers.insert(HeaderName::from_static(super::other_sign_ins::PROXY_HEADER), HeaderValue::from_str(user)?);
        }
        let bases = self.shared.environment.bases.iter();
        let apis = bases.map(|base| Api::with_session(base, &cookie, headers.clone())).collect::<Result<_>>()?;
        Ok(Self { apis, shared: self.shared.clone() })
    }
}

/// A cookie that a response sets, as `name=value`.
pub(super) fn cookie(answer: &Response, name: &str) -> Result<String> {
    let all = answer.headers().get_all(SET_COOKIE).iter().filter_map(|line| line.to_str().ok()?.split(';').next());
    let mut found =
        all.filter(|pair| pair.split_once('=').is_some_and(|(cookie, value)| cookie == name && !value.is_empty()));
    found.next().map(str::to_owned).with_context(|| format!("no cookie {name} in {answer:?}"))
}
