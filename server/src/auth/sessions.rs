//! Sessions of people: begun by a sign-in link, ended by signing out or by 30 idle days.
//!
//! A session is a random secret in a cookie; the database holds its hash and when it was last seen.
//! What a person may do is not in it but on the owner, so that a change of role acts at once.

use axum::http::{HeaderMap, HeaderValue};
use sqlx::PgConnection;
use uuid::Uuid;

use super::{hash_of, new_secret};
use crate::{App, error::Result, store::identity};

/// After this many days without a request a session is over.
pub(super) const IDLE_DAYS: i32 = 30;

/// The longest user agent that is kept, in characters; it is shown in the list of sessions.
const LONGEST_USER_AGENT: usize = 200;

/// Begins a session within the caller's transaction. Gives its secret, for the cookie.
pub(super) async fn begin(connection: &mut PgConnection, owner_id: Uuid, user_agent: &str) -> sqlx::Result<String> {
    let secret = new_secret("");
    let user_agent: String = user_agent.chars().filter(|c| !c.is_control()).take(LONGEST_USER_AGENT).collect();
    identity::insert_session(connection, Uuid::now_v7(), owner_id, &hash_of(&secret), &user_agent, IDLE_DAYS).await?;
    Ok(secret)
}

/// Ends the session that the request's cookie names, if any. Gives the `Set-Cookie` that removes it.
pub async fn end(app: &App, headers: &HeaderMap) -> Result<HeaderValue> {
    let cookie = app.auth.cookie();
    if let Some(secret) = cookie.read(headers) {
        let hash = hash_of(secret);
        identity::end_session(&app.pool, &hash).await?;
        app.auth.forget(&hash);
    }
    Ok(cookie.clear())
}
