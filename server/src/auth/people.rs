//! People: creation, lists, changes by admins, sign-in with a password, and password changes.
//!
//! Every action on an account is audited in its own transaction. Revocations take effect at once on this server and
//! within a second on the others. A refused sign-in reveals neither by text nor by timing whether the account exists.

mod change; // changes of one person, in a transaction

use std::net::IpAddr;

use domain::{
    Code, Problem, Time,
    identity::account::{LinkMade, NewPassword, NewUser, User, UserMade, UserPatch, email_problem, name_problem},
};
use sqlx::PgPool;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::{
    Key, Queue, device, look_for_changes, passwords, proxy_header,
    second_stage::{self, FirstFactor, Method, SecondFactor},
    sessions::{self, Cookies, Visitor},
    sign_in_links, step_up, throttle,
};
use change::Change;
use engine::{
    access::caller::{Caller, Role, Scope},
    error::{Error, Result},
    notify::audit::reason_for,
    store::{
        access::{
            factors,
            people::{self as store, Account},
        },
        notify::audit::{self as log, AuditRow},
        page_range::NamedPageRange,
    },
    stored_response::ResponseSlot,
    task::{in_task, unless_silent},
};

use crate::{App, audit};

/// Audit entry of an action on an account. Unlike actions on own work, all of them are audited.
pub(crate) fn audit_row(
    caller: &Caller,
    action: &'static str,
    owner_id: Uuid,
    reason: Option<String>,
    detail: Option<String>,
) -> AuditRow {
    AuditRow { owner_id: Some(owner_id), reason, detail, ..AuditRow::by(caller, action) }
}

/// Creates a person. 409 `duplicate` if the name or the address is taken.
pub async fn create(app: &App, caller: &Caller, new: NewUser, response_slot: ResponseSlot) -> Result<UserMade> {
    caller.require(Scope::Admin)?;
    step_up::require(app, caller).await?;
    let reason = reason_for(caller, caller.owner_id, new.reason.as_deref())?;
    let (name, email) = (new.name.trim().to_owned(), new.email.trim().to_owned());
    let role = new.role.as_deref().map_or(Some(Role::User), Role::parse);
    let faults = [
        ("/name", name_problem(&name)),
        ("/email", email_problem(&email)),
        ("/role", role.is_none().then_some(ROLES)),
        ("/password", new.password.as_deref().and_then(|it| passwords::fault_of(it, &[&name, &email]))),
        ("/proxy_user", new.proxy_user.as_deref().and_then(proxy_header::fault_of_user)),
    ];
    refuse(faults)?;
    // A person who creates the account knows the password. A program may have asked its owner for it.
    let must_change = new.password.is_some() && new.must_change_password.unwrap_or(caller.role.is_some());
    let role = role.unwrap_or(Role::User);
    let hash = match new.password {
        Some(password) => Some(app.auth.passwords.hash(password).await?),
        None => None,
    };
    let (pool, id) = (app.pool.clone(), Uuid::now_v7());
    let detail = format!("{name}, {}", role.as_str());
    let row = audit_row(caller, "user.create", id, reason, Some(detail));
    let by = caller.clone();
    let (wanted_name, wanted_email, public_url) = (name.clone(), email.clone(), app.public_url.clone());
    let created = in_task("making a person", async move {
        let mut tx = engine::store::begin(&pool).await?;
        let inserted = store::insert(&mut tx, id, &name, &email, role.as_str(), hash.as_deref(), must_change).await?;
        let Some(mut person) = inserted else { return Ok(None) };
        log::record(&mut tx, &row).await?;
        if let Some(value) = new.proxy_user {
            proxy_header::assign(&mut tx, &by, id, &value, row.reason.clone()).await?;
            person.proxy_user = (!value.is_empty()).then_some(value);
        }
        let sign_in_link = match hash {
            Some(_) => None,
            None => Some(sign_in_links::create_for(&mut tx, &public_url, id, &by).await?),
        };
        let created = UserMade { user: person.into(), sign_in_link };
        response_slot.store(&mut tx, &created).await?;
        engine::store::commit(tx).await?;
        Ok(Some(created))
    })
    .await?;
    let Some(created) = created else { return Err(double(&app.pool, &wanted_name, &wanted_email).await) };
    tracing::info!(person = %id, by = caller.name, "person created");
    Ok(created)
}

/// Returns a page of the list of people.
pub async fn list(app: &App, caller: &Caller, part: &NamedPageRange) -> Result<Vec<User>> {
    caller.require(Scope::Admin)?;
    Ok(store::list(&app.pool, part).await?.into_iter().map(Into::into).collect())
}

/// Returns one person: the caller, or any person for admins.
pub async fn find(app: &App, caller: &Caller, id: Uuid) -> Result<User> {
    if caller.owner_id != id || caller.role.is_none() {
        caller.require(Scope::Admin)?;
    }
    Ok(store::find(&app.pool, id).await?.ok_or_else(|| Problem::not_found("person"))?.into())
}

/// Changes a person's role, address, or disabled state. 409 `last_admin` if no admin would remain, `duplicate` if the
/// address is taken.
pub async fn change(app: &App, caller: &Caller, id: Uuid, patch: UserPatch) -> Result<User> {
    caller.require(Scope::Admin)?;
    step_up::require(app, caller).await?;
    let reason = reason_for(caller, caller.owner_id, patch.reason.as_deref())?;
    let role = patch.role.as_deref().map(Role::parse);
    let email = patch.email.map(|email| email.trim().to_owned());
    refuse([
        ("/role", (role == Some(None)).then_some(ROLES)),
        ("/email", email.as_deref().and_then(email_problem)),
        ("/proxy_user", patch.proxy_user.as_deref().and_then(proxy_header::fault_of_user)),
    ])?;
    let proxy_user = patch.proxy_user;
    let wanted = Change { role: role.flatten(), disabled: patch.disabled, email: email.clone(), proxy_user };
    let (pool, by) = (app.pool.clone(), caller.clone());
    let changed = in_task("changing a person", async move {
        let mut tx = engine::store::begin(&pool).await?;
        let changed = wanted.apply(&mut tx, &by, id, reason).await?;
        engine::store::commit(tx).await?;
        Ok(changed)
    })
    .await;
    look_for_changes(app).await?;
    match changed {
        Err(Error::Database(sqlx::Error::Database(e))) if e.constraint() == Some("owner_email") => {
            Err(double(&app.pool, "", &email.unwrap_or_default()).await)
        }
        other => other.map(Into::into),
    }
}

/// Creates a one-time link for a person who forgot the password. 409 `user_disabled`.
pub async fn make_link(
    app: &App,
    caller: &Caller,
    id: Uuid,
    reason: Option<&str>,
    response_slot: ResponseSlot,
) -> Result<LinkMade> {
    caller.require(Scope::Admin)?;
    step_up::require(app, caller).await?;
    let reason = reason_for(caller, caller.owner_id, reason)?;
    let person = store::find(&app.pool, id).await?.ok_or_else(|| Problem::not_found("person"))?;
    if person.disabled {
        return Err(Error::refuse(Code::UserDisabled, "A disabled person cannot sign in. Enable the account first."));
    }
    let row = audit_row(caller, "user.sign_in_link", id, reason, None);
    let (pool, public_url, by) = (app.pool.clone(), app.public_url.clone(), caller.clone());
    in_task("making a sign-in link", async move {
        let mut tx = engine::store::begin(&pool).await?;
        log::record(&mut tx, &row).await?;
        let url = sign_in_links::create_for(&mut tx, &public_url, id, &by).await?;
        // For display; the database clock decides.
        let expires_at = OffsetDateTime::now_utc() + Duration::minutes(sign_in_links::OPEN_MINUTES.into());
        let created = LinkMade { url, expires_at: Time(expires_at) };
        response_slot.store(&mut tx, &created).await?;
        engine::store::commit(tx).await?;
        Ok(created)
    })
    .await
}

/// Signs a person in, and audits refusals. Returns the response cookies.
pub async fn sign_in(
    app: &App,
    email: &str,
    password: String,
    second: &SecondFactor,
    visitor: &Visitor<'_>,
) -> Result<Cookies> {
    let signed_in = sign_in_by_password(app, email, password, second, visitor).await;
    match &signed_in {
        Err(Error::Problem(problem)) if problem.code == Code::Unauthenticated => {
            record_wrong_password(app, email.trim().to_owned(), visitor.address);
        }
        Err(Error::Problem(problem)) if problem.code == Code::TooManyRequests => {
            audit::record_refused_sign_in(app, None, visitor.address, "by password: too many failed").await;
        }
        _ => {}
    }
    signed_in
}

/// Audits a wrong password off the request path: the response must take the same time if there is no such account.
fn record_wrong_password(app: &App, email: String, address: Option<IpAddr>) {
    let app = app.clone();
    app.clone().tasks.spawn(async move {
        let recorded = async {
            let account = find_account(&app, &email).await?.map(|account| account.id);
            audit::record_refused_sign_in(&app, account, address, "by password: it does not fit").await;
            Ok(())
        };
        if let Err(error) = unless_silent(recorded).await.flatten() {
            tracing::warn!(%error, "audit of a refused sign-in failed");
        }
    });
}

/// Signs a person in. Returns the response cookies. 401 `unauthenticated` for any mismatch; 429 `too_many_requests`
/// after too many failures from this address, or with this account from there.
async fn sign_in_by_password(
    app: &App,
    email: &str,
    password: String,
    second: &SecondFactor,
    visitor: &Visitor<'_>,
) -> Result<Cookies> {
    let email = email.trim();
    let device_keys = match visitor.device {
        Some(device) => known_device(app, email, device).await?,
        None => None,
    };
    let is_known = device_keys.is_some();
    let attempt = throttle::begin(app, device_keys.unwrap_or_else(|| Key::of_password(email, visitor.address))).await?;
    let queue = match (is_known, attempt.is_suspect()) {
        (_, true) => Queue::Suspect,
        (true, false) => Queue::KnownDevice,
        (false, false) => Queue::Fresh,
    };
    let Some(account) = account_that_fits(app, email, password.clone(), queue).await? else {
        attempt.failed(app).await?;
        let detail = "No account has this email address and this password together.";
        return Err(Error::refuse(Code::Unauthenticated, detail));
    };
    attempt.succeeded(app).await?;
    renew_hash(app, &account, password).await?;
    let first = FirstFactor { owner_id: account.id, method: Method::Password, mfa: false, age_seconds: 0 };
    second_stage::begin(app, first, second, visitor).await
}

/// Account of this address. An address is ASCII: PostgreSQL takes some other letters, such as the Kelvin sign, for those of
/// an account's address, so that each spelling of it would have counters of its own.
async fn find_account(app: &App, email: &str) -> Result<Option<Account>> {
    if !email.is_ascii() {
        return Ok(None);
    }
    Ok(store::find_account(&app.pool, email).await?)
}

/// Counters of this device, if it is known for this account.
async fn known_device(app: &App, email: &str, device: &str) -> Result<Option<Vec<Key>>> {
    let account = find_account(app, email).await?;
    let device = account.and_then(|account| device::open(device, account.id, account.password_hash.as_deref()?));
    Ok(device.map(|device| device.keys()))
}

/// Finds the account of this address if the password matches and it is not disabled. Takes the same time otherwise.
async fn account_that_fits(app: &App, email: &str, password: String, queue: Queue) -> Result<Option<Account>> {
    let found = find_account(app, email).await?;
    let stored = found.as_ref().and_then(|account| account.password_hash.clone());
    let fits = app.auth.passwords.fits(password, stored, queue).await?;
    Ok(found.filter(|account| fits && !account.disabled))
}

/// Rehashes a password whose stored hash has outdated parameters.
async fn renew_hash(app: &App, account: &Account, password: String) -> Result<()> {
    let stored = account.password_hash.clone().unwrap_or_default();
    if !passwords::is_outdated(&stored) {
        return Ok(());
    }
    let hash = app.auth.passwords.hash(password).await?;
    store::rehash_password(&app.pool, account.id, &stored, &hash).await?;
    Ok(())
}

/// Returns true if a new password requires the current one: one exists and no link was used within the hour.
pub async fn asks_current(app: &App, caller: &Caller) -> Result<bool> {
    let found = store::find_password(&app.pool, caller.owner_id, caller.credential_id).await?;
    Ok(found.is_none_or(|(password, by_link)| password.is_some() && !by_link))
}

/// Sets the caller's password, ends the other sessions, and renews the secret of this one. Returns the response
/// cookies. 422 if the current password is wrong or the new one is easy to guess; 403 `step_up_required` if no current
/// password is required and the sign-in is not recent.
pub async fn set_password(app: &App, caller: &Caller, new: NewPassword) -> Result<Cookies> {
    if caller.role.is_none() {
        return Err(Error::refuse(Code::Forbidden, "A token has no password."));
    }
    let person = store::find(&app.pool, caller.owner_id).await?;
    let email = person.and_then(|person| person.email).unwrap_or_default();
    refuse([("/new_password", passwords::fault_of(&new.new_password, &[&caller.name, &email]))])?;
    let (id, session) = (caller.owner_id, caller.credential_id);
    let ended = || Error::refuse(Code::Unauthenticated, "The session has ended. Sign in again.");
    let (before, by_link) = store::find_password(&app.pool, id, session).await?.ok_or_else(ended)?;
    if before.is_some() && !by_link {
        let current = new.current_password.unwrap_or_default();
        if caller.must_change_password && current == new.new_password {
            refuse([("/new_password", Some("expected another password than the one you were given"))])?;
        }
        check_current(app, caller, current, before.clone()).await?;
    } else {
        // Without a current password the sign-in must be recent: a new password would prove enough for anything else.
        step_up::require(app, caller).await?;
    }
    let hash = app.auth.passwords.hash(new.new_password).await?;
    let (pool, row, stored) = (app.pool.clone(), audit_row(caller, "user.password", id, None, None), hash.clone());
    let renewed = in_task("setting a password", async move {
        let mut tx = engine::store::begin(&pool).await?;
        let mut secret = None;
        if store::set_password(&mut tx, id, before.as_deref(), &stored).await? {
            log::record(&mut tx, &row).await?;
            store::end_sessions(&mut tx, id, None, Some(session)).await?;
            store::void_links(&mut tx, id).await?;
            secret = Some(sessions::renew(&mut tx, session).await?);
            store::count_change(&mut tx).await?;
        }
        engine::store::commit(tx).await?;
        Ok(secret)
    })
    .await?;
    look_for_changes(app).await?;
    let strength = factors::session_strength(&app.pool, session, step_up::RECENT_SECONDS).await?;
    let Some(secret) = renewed else {
        let detail = "it was changed elsewhere just now".to_owned();
        return Err(Problem::invalid_body([("/current_password".to_owned(), detail)]).into());
    };
    let cookie = app.auth.cookie();
    Ok(vec![cookie.set(&secret), cookie.set_device(&device::seal(id, &hash, strength.is_some_and(|it| it.mfa)))])
}

/// Verifies the current password of a signed-in person: 422 if it is wrong.
async fn check_current(app: &App, caller: &Caller, current: String, stored: Option<String>) -> Result<()> {
    let attempt = throttle::begin(app, Key::of_device_or_session(&format!("session {}", caller.credential_id))).await?;
    if app.auth.passwords.fits(current, stored, Queue::KnownDevice).await? {
        return attempt.succeeded(app).await;
    }
    attempt.failed(app).await?;
    let detail = "this is not your password".to_owned();
    Err(Problem::invalid_body([("/current_password".to_owned(), detail)]).into())
}

const ROLES: &str = "expected user, support or admin";

fn refuse<const N: usize>(faults: [(&str, Option<&str>); N]) -> Result<(), Problem> {
    let faults: Vec<(String, String)> =
        faults.into_iter().filter_map(|(place, fault)| Some((place.to_owned(), fault?.to_owned()))).collect();
    if faults.is_empty() { Ok(()) } else { Err(Problem::invalid_body(faults)) }
}

/// Builds 409 `duplicate`, naming the other account.
async fn double(pool: &PgPool, name: &str, email: &str) -> Error {
    match store::find_duplicate(pool, name, email).await {
        Err(error) => error.into(),
        Ok(found) => {
            let what = if found.is_some_and(|(_, by_name)| by_name) { "name" } else { "email address" };
            let detail = format!("This {what} is taken.");
            Problem { id: found.map(|(id, _)| id), ..Problem::new(Code::Duplicate, detail) }.into()
        }
    }
}
