//! The world behind the workers: a tiny HTTP server that stands for a bank, a ledger, a post office.
//!
//! It does what every downstream of an at-least-once worker must do: a request carries an
//! `Idempotency-Key`, and the same key again gets the first receipt and has no second effect. It counts
//! requests and effects apart, and how many it had in hand at once on one account, so that a story can say
//! what really happened outside.

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

/// How long it takes over a request: the time in which a second one on the same account would show.
const TAKES: Duration = Duration::from_millis(5);

/// A server downstream; it goes when this is dropped.
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
    in_hand: BTreeMap<String, usize>,
    most_in_hand: BTreeMap<String, usize>,
    closed: BTreeSet<String>,
}

/// Something that happened in the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// `refunds`, `payments`, …
    pub what: String,
    pub account: String,
    pub idempotency_key: String,
    pub receipt: String,
}

/// What it is asked.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    account: String,
}

/// What it answers.
#[derive(Debug, Serialize, Deserialize)]
struct Receipt {
    receipt: String,
}

impl Downstream {
    /// Opens for business on a free port of this machine.
    pub async fn open() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let books = Arc::<Mutex<Books>>::default();
        let router = Router::new().route("/{what}", post(serve)).with_state(Arc::clone(&books));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { address, books, serving })
    }

    /// Somebody who asks it.
    pub fn caller(&self) -> Result<Caller> {
        Ok(Caller { address: self.address, http: reqwest::Client::builder().build()? })
    }

    /// Requests that have arrived, repeated ones included.
    pub fn requests(&self) -> usize {
        self.books().requests
    }

    /// What has happened, in order. A repeated request adds nothing.
    pub fn effects(&self) -> Vec<Effect> {
        self.books().effects.clone()
    }

    /// The most requests on one account that it ever had in hand at once.
    pub fn most_at_once(&self, account: &str) -> usize {
        self.books().most_in_hand.get(account).copied().unwrap_or_default()
    }

    /// From now on refuses an account for good (422).
    pub fn close_account(&self, account: &str) {
        self.books().closed.insert(account.to_owned());
    }

    /// Takes it back.
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
        let in_hand = books.in_hand.entry(order.account.clone()).or_default();
        *in_hand += 1;
        let in_hand = *in_hand;
        let most = books.most_in_hand.entry(order.account.clone()).or_default();
        *most = in_hand.max(*most);
    }
    tokio::time::sleep(TAKES).await;
    let mut books = lock(&books);
    if let Some(in_hand) = books.in_hand.get_mut(&order.account) {
        *in_hand -= 1;
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

/// Asks a [`Downstream`]. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Caller {
    address: SocketAddr,
    http: reqwest::Client,
}

impl Caller {
    /// Has something done and gives back its receipt. The same key again gives the same receipt.
    ///
    /// # Errors
    /// A worker's failure: not retryable where it was refused, retryable where nobody answered.
    pub async fn order(&self, what: &str, account: &str, idempotency_key: &str) -> Result<String, Unfinished> {
        let away = |error: reqwest::Error| Unfinished::failed(error.to_string()).kind("downstream_away");
        let answer = self
            .http
            .post(format!("http://{}/{what}", self.address))
            .header("idempotency-key", idempotency_key)
            .json(&Order { account: account.to_owned() })
            .send()
            .await
            .map_err(away)?;
        if answer.status() == StatusCode::UNPROCESSABLE_ENTITY {
            let why = answer.text().await.map_err(away)?;
            return Err(Unfinished::failed(why).kind("downstream_refused").not_retryable());
        }
        let receipt: Receipt = answer.error_for_status().map_err(away)?.json().await.map_err(away)?;
        Ok(receipt.receipt)
    }
}
