//! One-time sign-in links.
//!
//! Opening a link changes nothing, so that mail scanners and previews cannot use it up; its page has a button that
//! redeems it. Until an admin exists, each start of the server prints a link that creates the first admin; those links
//! become invalid as soon as there is one.

use domain::Code;
use sqlx::PgExecutor;
use uuid::Uuid;

use super::{
    Key,
    second_stage::{self, FirstFactor, Method, SecondFactor},
    sessions::{self, Cookies, Visitor},
    throttle,
};
use crate::{App, audit, config::PublicUrl};
use engine::{
    access::caller::Caller,
    error::{Error, Result},
    secrets::{hash_of, new_secret},
    store::{
        Tx,
        access::{factors, identity},
        notify::audit::{self as log, AuditRow},
    },
    task::in_task,
};

/// Lifetime of a link, in minutes.
pub(super) const OPEN_MINUTES: i32 = 60;

/// Lifetime of the link for the first admin, in minutes: it is printed to a terminal, perhaps into a log.
const FIRST_ADMIN_MINUTES: i32 = 15;

/// Creates a link for a person, or for the first admin if `owner_id` is `None`. Returns its URL.
pub async fn create(on: impl PgExecutor<'_>, public_url: &PublicUrl, owner_id: Option<Uuid>) -> Result<String> {
    let secret = new_secret("");
    let minutes = if owner_id.is_some() { OPEN_MINUTES } else { FIRST_ADMIN_MINUTES };
    identity::insert_link(on, Uuid::now_v7(), &hash_of(&secret), owner_id, minutes).await?;
    Ok(format!("{}/sign-in/{secret}", public_url.as_str()))
}

/// Creates a link for a person on behalf of the caller: the audit log names the creator of the link for the session.
pub(super) async fn create_for(tx: &mut Tx, public_url: &PublicUrl, owner_id: Uuid, by: &Caller) -> Result<String> {
    let url = create(&mut **tx, public_url, Some(owner_id)).await?;
    let secret = url.rsplit('/').next().unwrap_or_default();
    factors::set_link_maker(&mut **tx, &hash_of(secret), by.owner_id, &by.name).await?;
    Ok(url)
}

/// Returns true if redeeming the link would sign someone in now.
pub async fn is_open(app: &App, token: &str) -> Result<bool> {
    Ok(identity::is_link_open(&app.pool, &hash_of(token)).await?)
}

/// Redeems the link and starts a session. Returns the response cookies. 410 `link_used` if the link is unknown, used,
/// or expired; 429 `too_many_requests` if that happened too often from this address; failed passwords do not count.
///
/// Any person with a second factor is asked for it: 401 `mfa_required`, and the link stays open.
pub async fn redeem(app: &App, token: &str, second: &SecondFactor, visitor: &Visitor<'_>) -> Result<Cookies> {
    let pool = app.pool.clone();
    let hash = hash_of(token);
    let attempt = throttle::begin(app, Key::of_link(visitor.address)).await?;
    if let Some((owner_id, made_by)) = factors::find_link(&app.pool, &hash).await? {
        attempt.succeeded(app).await?;
        let first = FirstFactor { owner_id, method: Method::Link { hash, made_by }, mfa: false, age_seconds: 0 };
        return second_stage::begin(app, first, second, visitor).await;
    }
    let (user_agent, address) = (visitor.user_agent.to_owned(), visitor.address);
    let dead = || {
        Error::refuse(
            Code::LinkUsed,
            "This link was used or has expired. Ask an admin for a new one, or run `treeline-server sign-in-link`.",
        )
    };
    // A separate task: a client disconnect never cancels the transaction.
    let secret = in_task("signing in", async move {
        let mut tx = engine::store::begin(&pool).await?;
        let Some(owner_id) = identity::use_link(&mut tx, &hash).await? else { return Ok(None) };
        if owner_id.is_some() {
            return Ok(None);
        }
        let Some((owner_id, name)) = create_first_admin(&mut tx).await? else { return Ok(None) };
        let row = AuditRow::by_person("user.first_admin", owner_id, name, address);
        log::record(&mut tx, &row.with_detail("by the link that the server printed")).await?;
        let how = "by a one-time link";
        let Some(secret) = sessions::begin(&mut tx, owner_id, &user_agent, true, address, how).await? else {
            return Ok(None);
        };
        factors::describe_session(&mut tx, &hash_of(&secret), "link", false, 0, None).await?;
        engine::store::commit(tx).await?;
        tracing::info!(%owner_id, "signed in by link");
        Ok(Some(secret))
    })
    .await?;
    let Some(secret) = secret else {
        attempt.failed(app).await?;
        audit::record_refused_sign_in(app, None, visitor.address, "by a one-time link: unknown, used, or too old")
            .await;
        return Err(dead());
    };
    attempt.succeeded(app).await?;
    Ok(vec![app.auth.cookie().set(&secret)])
}

/// Creates the first admin, called `admin`, or similarly if somebody has that name. Returns id and name; `None` if there is
/// an admin already.
async fn create_first_admin(tx: &mut Tx) -> Result<Option<(Uuid, String)>> {
    for n in 1..=50 {
        let name = if n == 1 { "admin".to_owned() } else { format!("admin ({n})") };
        if let Some(owner_id) = identity::insert_first_admin(tx, Uuid::now_v7(), &name).await? {
            return Ok(Some((owner_id, name)));
        }
        if identity::has_admin(&mut **tx).await? {
            break;
        }
    }
    Ok(None)
}
