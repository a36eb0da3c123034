//! A small HTTP server that stands for a bank, a ledger or a post office, which the workers call.
//!
//! It does what every downstream of an at-least-once worker must do: a request carries an `Idempotency-Key`, and a
//! second request with the same key returns the first receipt and has no effect. It counts requests, effects, and
//! concurrent requests per account, so that an example can check what really happened outside.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::Result;
use axum::{
    Json, Router,
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
    routing::post,
};
use client::Unfinished;
use serde::{Deserialize, Serialize};
use tokio::{net::TcpListener, task::JoinHandle};

/// Duration of a request; a concurrent one on the same account would be counted in that time.
const TAKES: Duration = Duration::from_millis(5);

/// The downstream server. It stops when dropped.
pub struct Downstream {
    address: SocketAddr,
    books: Arc<Mutex<Books>>,
    serving: JoinHandle<std::io::Result<()>>,
}

#[derive(Default)]
struct Books {
    requests: usize,
    /// By Idempotency-Key.
    receipts: BTreeMap<String, String>,
    effects: Vec<Effect>,
    in_flight: BTreeMap<String, usize>,
    max_in_flight: BTreeMap<String, usize>,
    closed: BTreeSet<String>,
}

/// Side effect of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// `refunds`, `payments`, …
    pub what: String,
    pub account: String,
    pub idempotency_key: String,
    pub receipt: String,
}

/// Body of a request.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    account: String,
}

/// Body of a response.
#[derive(Debug, Serialize, Deserialize)]
struct Receipt {
    receipt: String,
}

impl Downstream {
    /// Starts on a free local port.
    pub async fn open() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let books = Arc::<Mutex<Books>>::default();
        let router = Router::new().route("/{what}", post(serve)).with_state(Arc::clone(&books));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { address, books, serving })
    }

    /// A client of this server.
    pub fn caller(&self) -> Result<Caller> {
        Ok(Caller { address: self.address, http: reqwest::Client::builder().build()? })
    }

    /// Number of requests, including repeated ones.
    pub fn requests(&self) -> usize {
        self.books().requests
    }

    /// Effects in order. A repeated request adds none.
    pub fn effects(&self) -> Vec<Effect> {
        self.books().effects.clone()
    }

    /// Maximum number of concurrent requests on one account.
    pub fn most_at_once(&self, account: &str) -> usize {
        self.books().max_in_flight.get(account).copied().unwrap_or_default()
    }

    /// Closes an account: requests on it fail with 422.
    pub fn close_account(&self, account: &str) {
        self.books().closed.insert(account.to_owned());
    }

    /// Reopens an account.
    pub fn reopen_account(&self, account: &str) {
        self.books().closed.remove(account);
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        lock(&self.books)
    }
}

impl Drop for Downstream {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn lock(books: &Mutex<Books>) -> MutexGuard<'_, Books> {
    books.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(
    State(books): State<Arc<Mutex<Books>>>,
    Path(what): Path<String>,
    headers: HeaderMap,
    Json(order): Json<Order>,
) -> Response {
    let Some(key) = headers.get("idempotency-key").and_then(|key| key.to_str().ok()) else {
        return (StatusCode::BAD_REQUEST, "no Idempotency-Key").into_response();
    };
    {
        let mut books = lock(&books);
        books.requests += 1;
        let in_flight = books.in_flight.entry(order.account.clone()).or_default();
        *in_flight += 1;
        let in_flight = *in_flight;
        let most = books.max_in_flight.entry(order.account.clone()).or_default();
        *most = in_flight.max(*most);
    }
    tokio::time::sleep(TAKES).await;
    let mut books = lock(&books);
    if let Some(in_flight) = books.in_flight.get_mut(&order.account) {
        *in_flight -= 1;
    }
    if books.closed.contains(&order.account) {
        return (StatusCode::UNPROCESSABLE_ENTITY, format!("account {} is closed", order.account)).into_response();
    }
    let first = books.receipts.get(key).cloned();
    let receipt = first.unwrap_or_else(|| {
        let receipt = format!("{what}-{}", books.effects.len() + 1);
        books.receipts.insert(key.to_owned(), receipt.clone());
        let effect = Effect { what, account: order.account, idempotency_key: key.to_owned(), receipt: receipt.clone() };
        books.effects.push(effect);
        receipt
    });
    Json(Receipt { receipt }).into_response()
}

/// Client of a [`Downstream`]. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Caller {
    address: SocketAddr,
    http: reqwest::Client,
}

impl Caller {
    /// Sends a request and returns its receipt. The same key returns the same receipt.
    ///
    /// # Errors
    /// A failure for the worker: not retryable if the request was refused, retryable if there was no response.
    pub async fn order(&self, what: &str, account: &str, idempotency_key: &str) -> Result<String, Unfinished> {
        let unavailable = |error: reqwest::Error| Unfinished::failed(error.to_string()).kind("downstream_away");
        let answer = self
            .http
            .post(format!("http://{}/{what}", self.address))
            .header("idempotency-key", idempotency_key)
            .json(&Order { account: account.to_owned() })
            .send()
            .await
            .map_err(unavailable)?;
        if answer.status() == StatusCode::UNPROCESSABLE_ENTITY {
            let why = answer.text().await.map_err(unavailable)?;
            return Err(Unfinished::failed(why).kind("downstream_refused").not_retryable());
        }
        let receipt: Receipt = answer.error_for_status().map_err(unavailable)?.json().await.map_err(unavailable)?;
        Ok(receipt.receipt)
    }
}
