//! State sealed for a round trip through an unauthenticated browser, for one purpose and a few minutes.
//!
//! Nothing is stored between two requests of a sign-in, so strangers cannot fill the database and any server can handle
//! the second request. Steps that must happen once are marked as used when they happen. Sealed state is fresh only
//! until its expiry.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use time::{Duration, OffsetDateTime};

use crate::App;

/// Longest sealed text that is opened: bounds input from strangers.
const LONGEST: usize = 16 * 1024;

#[derive(Serialize, Deserialize)]
struct Envelope<T> {
    /// Unix time in seconds.
    until: i64,
    content: T,
}

/// Seals a value for this many minutes. `purpose` prevents one kind of state from being used as another.
pub(crate) fn seal<T: Serialize>(app: &App, purpose: &str, minutes: i64, content: &T) -> String {
    let until = OffsetDateTime::now_utc() + Duration::minutes(minutes);
    seal_until(app, purpose, until.unix_timestamp(), content)
}

/// Seals a value until this Unix time, in seconds.
pub(crate) fn seal_until<T: Serialize>(app: &App, purpose: &str, until: i64, content: &T) -> String {
    let text = serde_json::to_vec(&Envelope { until, content }).unwrap_or_default();
    app.sealer.seal(&context(purpose), &text)
}

/// Opens a value sealed for the same purpose. `None` if it was not, if it has expired, or if it is longer than what a
/// stranger may send.
pub(crate) fn open<T: DeserializeOwned>(app: &App, purpose: &str, text: &str) -> Option<T> {
    open_up_to(app, purpose, text, LONGEST)
}

/// As [`open`], with the Unix time at which the value expires.
pub(crate) fn open_with_end<T: DeserializeOwned>(app: &App, purpose: &str, text: &str) -> Option<(T, i64)> {
    open_envelope(app, purpose, text, LONGEST).map(|envelope| (envelope.content, envelope.until))
}

/// Opens a value sealed for the same purpose, of at most `longest` bytes, for callers who are known.
pub(crate) fn open_up_to<T: DeserializeOwned>(app: &App, purpose: &str, text: &str, longest: usize) -> Option<T> {
    open_envelope(app, purpose, text, longest).map(|envelope| envelope.content)
}

fn open_envelope<T: DeserializeOwned>(app: &App, purpose: &str, text: &str, longest: usize) -> Option<Envelope<T>> {
    if text.len() > longest {
        return None;
    }
    let opened = app.sealer.open(&context(purpose), text).ok()?;
    let envelope: Envelope<T> = serde_json::from_slice(&opened).ok()?;
    (envelope.until >= OffsetDateTime::now_utc().unix_timestamp()).then_some(envelope)
}

fn context(purpose: &str) -> String {
    format!("browser state: {purpose}")
}
