//! Treeline for Rust programs: typed calls of the HTTP API, and a worker loop.
//!
//! The wire types come from the crate `domain`, which the server also uses. A [`Client`] makes calls, a [`Worker`]
//! processes items, and a [`Watch`] follows a tree. The crate uses only HTTP, never the database, and no result
//! depends on a connection that stays open. With the feature `rabbitmq` (enabled by default) a worker can receive
//! wake-ups from the broker: [`Worker::rabbitmq`].
//!
//! ```no_run
//! use client::{Client, Document, Task, Unfinished, Worker};
//! use domain::{
//!     api::{NewItem, NewJob},
//!     item::ItemProgress,
//! };
//!
//! # async fn example() -> Result<(), client::Error> {
//! let client = Client::new("http://127.0.0.1:3000", Some("the token"))?;
//!
//! // Submit work …
//! let items = vec![NewItem { payload: Some(Document::of(&"Ada")), ..NewItem::default() }];
//! let job = client.create_job(&NewJob { items, sealed: true, ..NewJob::of("greet") }).await?;
//! println!("{}", client.page(&["jobs", &job.id.to_string()]));
//!
//! // … and process it, four items at a time, until SIGTERM.
//! async fn greet(task: Task) -> Result<Document, Unfinished> {
//!     task.progress(ItemProgress { done: Some(1), total: Some(2), message: None });
//!     match task.item().payload.text() {
//!         "null" => Err(Unfinished::failed("no one to greet").kind("no_name").not_retryable()),
//!         name => Ok(Document::of(&format!("Hello, {}", name.trim_matches('"')))),
//!     }
//! }
//! let summary = Worker::new(client, ["greet"]).concurrency(4).run(greet).await?;
//! println!("{} done", summary.succeeded);
//! # Ok(())
//! # }
//! ```

mod admin;
mod alert_channels;
mod api;
mod bulk;
mod client;
#[cfg(feature = "demo")]
pub mod demo;
mod error;
mod events;
mod files;
mod idempotent_create;
mod items;
mod job_actions;
mod paging;
mod people;
mod retry;
mod schedules;
mod watch;
mod worker;

pub use admin::AuditFilter;
pub use api::JobFilter;
pub use client::Client;
pub use domain::Document;
pub use error::{Error, Result};
pub use events::{Events, Frame, JobEvent, Parser, TooLarge};
pub use files::{Download, Lines, RowFormat};
pub use idempotent_create::CreateOutcome;
pub use items::ItemFilter;
pub use paging::PageQuery;
pub use watch::{Watch, WatchEvent};
pub use worker::{Drain, Summary, Task, Unfinished, Worker};
