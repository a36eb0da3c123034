//! State that travels through a stranger's browser: sealed, for one purpose, and for a few minutes.
//!
//! Between two requests of a sign-in nothing is stored, so strangers cannot fill the database, and any server can take
//! the second request. Whatever must happen once is marked as used when it has happened. Nothing here may be trusted to
//! be fresh for longer than its expiry says.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use time::{Duration, OffsetDateTime};

use crate::App;

/// The longest sealed text that is opened: what strangers send is bounded.
const LONGEST: usize = 16 * 1024;

#[derive(Serialize, Deserialize)]
struct Envelope<T> {
    /// Unix time in seconds.
    until: i64,
    content: T,
}

/// Seals a value for so many minutes. `purpose` keeps one kind of state from being sent in place of another.
pub(crate) fn seal<T: Serialize>(app: &App, purpose: &str, minutes: i64, content: &T) -> String {
    let until = (OffsetDateTime::now_utc() + Duration::minutes(minutes)).unix_timestamp();
    let text = serde_json::to_vec(&Envelope { until, content }).unwrap_or_default();
    app.sealer.seal(&context(purpose), &text)
}

/// Opens a value that was sealed for the same purpose. `None`: it is something else, or too old.
pub(crate) fn open<T: DeserializeOwned>(app: &App, purpose: &str, text: &str) -> Option<T> {
    if text.len() > LONGEST {
        return None;
    }
    let opened = app.sealer.open(&context(purpose), text).ok()?;
    let envelope: Envelope<T> = serde_json::from_slice(&opened).ok()?;
    (envelope.until >= OffsetDateTime::now_utc().unix_timestamp()).then_some(envelope.content)
}

fn context(purpose: &str) -> String {
    format!("browser state: {purpose}")
}
