//! Sessions of people: started by a sign-in, ended by signing out, by an authorized person, after 30 idle days, or
//! after 90 days.
//!
//! A session is a random secret in a cookie; the database stores its hash and the time of last use. Permissions are
//! stored with the owner, so that a change of role takes effect at once.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderValue, header};
use domain::{Code, Problem, Time, identity::account};
use sqlx::PgConnection;
use uuid::Uuid;

use super::{ClientAddress, look_for_changes, people};
use crate::{App, audit};
use engine::{
    access::caller::{Caller, Scope},
    error::{Error, Result},
    secrets::{hash_of, new_secret},
    store::{
        Tx,
        access::{identity, people as store},
        notify::audit::{self as log, AuditRow},
        page_range::PageRange,
    },
    task::in_task,
};

/// Days without a request after which a session ends.
pub(crate) const IDLE_DAYS: i32 = 30;

/// `Set-Cookie` headers of a response.
pub type Cookies = Vec<HeaderValue>;

/// Facts about the request of a sign-in.
#[derive(Clone, Copy, Debug)]
pub struct Visitor<'a> {
    pub user_agent: &'a str,
    pub address: Option<IpAddr>,
    /// Known-device cookie.
    pub device: Option<&'a str>,
}

impl<'a> Visitor<'a> {
    /// Reads them from a request.
    pub fn of(app: &App, headers: &'a HeaderMap, ClientAddress(address): ClientAddress) -> Self {
        let user_agent = headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        Self { user_agent, address, device: app.auth.cookie().read_device(headers) }
    }
}

/// Longest user agent that is stored, in characters; it is shown in the list of sessions.
const LONGEST_USER_AGENT: usize = 200;

/// Starts a session within the caller's transaction. Returns its secret for the cookie; `None` if the person is
/// disabled.
pub(super) async fn begin(
    connection: &mut PgConnection,
    owner_id: Uuid,
    user_agent: &str,
    by_link: bool,
    address: Option<IpAddr>,
    how: &str,
) -> sqlx::Result<Option<String>> {
    let (secret, id) = (new_secret(""), Uuid::now_v7());
    let user_agent: String = user_agent.chars().filter(|c| !c.is_control()).take(LONGEST_USER_AGENT).collect();
    let hash = hash_of(&secret);
    let begun =
        identity::insert_session(&mut *connection, id, owner_id, &hash, &user_agent, by_link, IDLE_DAYS).await?;
    if begun {
        let row = audit::session_row(&mut *connection, owner_id, id, address, how).await?;
        log::record(connection, &row).await?;
    }
    Ok(begun.then_some(secret))
}

/// Replaces the secret of a session, which invalidates the old one. Returns the new secret.
pub(super) async fn renew(tx: &mut Tx, id: Uuid) -> sqlx::Result<String> {
    let secret = new_secret("");
    identity::renew_session(tx, id, &hash_of(&secret)).await?;
    Ok(secret)
}

/// Ends the session of the request's cookie, if any: at once on this server, within a second on others and in open
/// streams. Returns the `Set-Cookie` that removes it.
pub async fn end(app: &App, headers: &HeaderMap, address: Option<IpAddr>) -> Result<HeaderValue> {
    let cookie = app.auth.cookie();
    if let Some(secret) = cookie.read(headers) {
        let (hash, pool) = (hash_of(secret), app.pool.clone());
        // A separate task: a client disconnect never cancels the transaction.
        in_task("signing out", async move {
            let mut tx = engine::store::begin(&pool).await?;
            if let Some((id, owner_id)) = identity::end_session(&mut tx, &hash).await? {
                let name = log::owner_name(&mut tx, owner_id).await?.unwrap_or_default();
                let row = AuditRow::by_person("session.end", owner_id, name, address).with_detail("signed out");
                log::record(&mut tx, &AuditRow { credential_id: Some(id), ..row }).await?;
                store::count_change(&mut tx).await?;
            }
            engine::store::commit(tx).await?;
            Ok(())
        })
        .await?;
        app.auth.forget(&hash);
        look_for_changes(app).await?;
    }
    Ok(cookie.clear())
}

/// Returns a page of a person's open sessions. Everyone sees their own, admins all.
pub async fn list(app: &App, caller: &Caller, owner_id: Uuid, part: PageRange) -> Result<Vec<account::Session>> {
    may_see(app, caller, owner_id).await?;
    let rows = store::list_sessions(&app.pool, owner_id, part).await?;
    let session = |row: store::SessionRow| account::Session {
        id: row.id,
        device: account::device(&row.user_agent),
        created_at: Time(row.created_at),
        last_seen_at: Time(row.last_seen_at),
        expires_at: Time(row.expires_at),
        current: row.id == caller.credential_id,
    };
    Ok(rows.into_iter().map(session).collect())
}

/// Ends one session of a person, or all except the caller's. Returns the number that were open. 404 if the session
/// belongs to someone else.
pub async fn end_some(app: &App, caller: &Caller, owner_id: Uuid, only: Option<Uuid>) -> Result<i64> {
    may_see(app, caller, owner_id).await?;
    if let Some(id) = only
        && !store::has_session(&app.pool, owner_id, id).await?
    {
        return Err(Problem::not_found("session").into());
    }
    let all_but = only.is_none().then_some(caller.credential_id);
    let row = people::audit_row(caller, "session.end", owner_id, None, only.map(|id| format!("session {id}")));
    let pool = app.pool.clone();
    // A separate task: a client disconnect never cancels the transaction.
    let ended = in_task("ending sessions", async move {
        let mut tx = engine::store::begin(&pool).await?;
        let ended = store::end_sessions(&mut tx, owner_id, only, all_but).await?;
        if ended > 0 {
            let many = (only.is_none()).then(|| format!("{ended} sessions"));
            log::record(&mut tx, &AuditRow { detail: many.or(row.detail.clone()), ..row }).await?;
            store::count_change(&mut tx).await?;
        }
        engine::store::commit(tx).await?;
        Ok(ended)
    })
    .await?;
    look_for_changes(app).await?;
    Ok(ended as i64)
}

/// 404 unless the person exists and the caller is that person or an admin; 403 for tokens without `admin`.
async fn may_see(app: &App, caller: &Caller, owner_id: Uuid) -> Result<()> {
    if caller.owner_id == owner_id {
        return if caller.role.is_some() {
            Ok(())
        } else {
            Err(Error::refuse(Code::Forbidden, "A token has no sessions."))
        };
    }
    caller.require(Scope::Admin)?;
    store::find(&app.pool, owner_id).await?.map(drop).ok_or_else(|| Problem::not_found("person").into())
}
