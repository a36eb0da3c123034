//! Treeline for Rust programs: typed calls of the HTTP API, and a worker loop.
//!
//! The types on the wire are those of the crate `domain`, the same that the server compiles. A
//! [`Client`] speaks; a [`Worker`] works; a [`Watch`] looks on. The crate knows HTTP: it never
//! touches the database, and nothing is correct because a connection stayed open. With the feature `rabbitmq` (on
//! unless switched off) a worker can listen to the broker for wake-ups: [`Worker::rabbitmq`].
//!
//! ```no_run
//! use client::{Client, Document, Task, Unfinished, Worker};
//! use domain::{api::NewJob, item::ItemProgress};
//!
//! # async fn example() -> Result<(), client::Error> {
//! let client = Client::new("http://127.0.0.1:3000", Some("the token"))?;
//!
//! // Hand over work …
//! let job = client.create_job(&NewJob { sealed: true, ..NewJob::of("greet") }).await?;
//! println!("{}", client.page(&["jobs", &job.id.to_string()]));
//!
//! // … and do it, four items at once, until SIGTERM.
//! async fn greet(task: Task) -> Result<Document, Unfinished> {
//!     task.progress(ItemProgress { done: Some(1), total: Some(2), message: None });
//!     match task.item().payload.text() {
//!         "null" => Err(Unfinished::failed("no one to greet").kind("no_name").not_retryable()),
//!         name => Ok(Document::of(&format!("Hello, {name}"))),
//!     }
//! }
//! let summary = Worker::new(client, ["greet"]).concurrency(4).run(greet).await?;
//! println!("{} done", summary.succeeded);
//! # Ok(())
//! # }
//! ```

mod again;
mod bulk;
mod calls;
mod client;
mod deeds;
mod error;
mod events;
mod files;
mod house;
mod items;
mod lists;
mod made;
mod people;
mod watch;
mod worker;

pub use calls::JobFilter;
pub use client::Client;
pub use domain::Document;
pub use error::{Error, Result};
pub use events::{Events, Frame, JobEvent, Parser, TooLarge};
pub use files::{Download, Lines, RowFormat};
pub use house::AuditFilter;
pub use items::ItemFilter;
pub use lists::Part;
pub use made::Made;
pub use watch::{Seen, Watch};
pub use worker::{Drain, Summary, Task, Unfinished, Worker};
