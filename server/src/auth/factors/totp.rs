//! Authenticator apps: time-based one-time codes (RFC 6238), six digits, thirty seconds.
//!
//! The secret is sealed before it is stored and shown only during setup. A code is accepted from one time step before
//! to one after the current one, and each time step is accepted once.

use domain::{
    Code, Problem,
    identity::factors::{RecoveryCodes, TotpStarted, passkey_name_problem},
};
use qrcode::{EcLevel, QrCode, render::svg};
use totp_rs::{Algorithm, Builder, Totp};
use uuid::Uuid;

use super::{added, lock, person, removed};
use crate::{
    App,
    auth::{look_for_changes, people::audit_row, step_up},
};
use engine::{
    access::caller::Caller,
    error::{Error, Result},
    store::{access::factors as store, notify::audit as log},
    task::in_task,
};
use time::OffsetDateTime;

/// Bytes of a secret: the size RFC 4226 recommends for SHA-1, which every app supports.
const SECRET_BYTES: usize = 20;

/// Issuer that authenticator apps show above the account.
const ISSUER: &str = "Treeline";

/// Starts the setup of an authenticator app; [`confirm`] completes it. 409 `duplicate` if there is one already.
pub async fn start(app: &App, caller: &Caller) -> Result<TotpStarted> {
    person(caller)?;
    step_up::require(app, caller).await?;
    let secret: [u8; SECRET_BYTES] = rand::random();
    let sealed = app.sealer.seal(&context(caller.owner_id), &secret);
    let (pool, id) = (app.pool.clone(), caller.owner_id);
    let person = in_task("setting up an authenticator app", async move {
        let mut tx = engine::store::begin(&pool).await?;
        let person = lock(&mut tx, id).await?;
        if !store::start_totp(&mut tx, id, &sealed).await? {
            return Err(Error::refuse(Code::Duplicate, "There is an authenticator app already. Remove it first."));
        }
        engine::store::commit(tx).await?;
        Ok(person)
    })
    .await?;
    totp_started(&secret, person.email.as_deref().unwrap_or(&person.name))
}

/// Returns the secret of a pending setup, to show it again. `None` if there is none, it is confirmed, or it is an hour
/// old. Requires a recent sign-in like the start: a secret that someone else has seen is not a factor.
pub async fn pending(app: &App, caller: &Caller) -> Result<Option<TotpStarted>> {
    person(caller)?;
    step_up::require(app, caller).await?;
    let Some((sealed, false)) = store::find_totp(&app.pool, caller.owner_id).await? else { return Ok(None) };
    let secret = open(app, caller.owner_id, &sealed)?;
    let email = engine::store::access::people::find(&app.pool, caller.owner_id).await?.and_then(|person| person.email);
    totp_started(&secret, email.as_deref().unwrap_or(&caller.name)).map(Some)
}

/// Completes the setup with a valid code from the app. Returns recovery codes with the first factor.
pub async fn confirm(app: &App, caller: &Caller, code: &str) -> Result<RecoveryCodes> {
    person(caller)?;
    step_up::require(app, caller).await?;
    let Some((sealed, false)) = store::find_totp(&app.pool, caller.owner_id).await? else {
        return Err(not_begun());
    };
    let secret = open(app, caller.owner_id, &sealed)?;
    let step = check(&secret, code)?.ok_or_else(wrong_code)?;
    let (pool, by) = (app.pool.clone(), caller.clone());
    let recovery_codes = in_task("confirming an authenticator app", async move {
        let mut tx = engine::store::begin(&pool).await?;
        lock(&mut tx, by.owner_id).await?;
        let before = store::summary(&mut *tx, by.owner_id).await?;
        if !store::confirm_totp(&mut tx, by.owner_id, &sealed, step).await? {
            return Err(not_begun());
        }
        let codes = added(&mut tx, &by, &before).await?;
        log::record(&mut tx, &audit_row(&by, "user.totp_add", by.owner_id, None, None)).await?;
        engine::store::commit(tx).await?;
        Ok(codes)
    })
    .await?;
    look_for_changes(app).await?;
    Ok(RecoveryCodes { recovery_codes })
}

/// Renames the caller's authenticator app.
pub async fn rename(app: &App, caller: &Caller, name: &str) -> Result<()> {
    person(caller)?;
    let name = name.trim();
    if let Some(fault) = passkey_name_problem(name) {
        return Err(Problem::invalid_body([("/name".to_owned(), fault.to_owned())]).into());
    }
    let renamed = store::rename_totp(&app.pool, caller.owner_id, name).await?;
    if renamed { Ok(()) } else { Err(Problem::not_found("authenticator app").into()) }
}

/// Removes the authenticator app, confirmed or not; idempotent.
pub async fn remove(app: &App, caller: &Caller) -> Result<()> {
    person(caller)?;
    step_up::require(app, caller).await?;
    let (pool, by) = (app.pool.clone(), caller.clone());
    in_task("removing an authenticator app", async move {
        let mut tx = engine::store::begin(&pool).await?;
        lock(&mut tx, by.owner_id).await?;
        if store::remove_totp(&mut tx, by.owner_id).await? {
            log::record(&mut tx, &audit_row(&by, "user.totp_remove", by.owner_id, None, None)).await?;
            removed(&mut tx, by.owner_id).await?;
        }
        engine::store::commit(tx).await?;
        Ok(())
    })
    .await?;
    look_for_changes(app).await
}

/// Marks a code as used. False if it is wrong, too old, or already used.
pub(crate) async fn accept(app: &App, owner_id: Uuid, code: &str) -> Result<bool> {
    let Some((sealed, true)) = store::find_totp(&app.pool, owner_id).await? else { return Ok(false) };
    match check(&open(app, owner_id, &sealed)?, code)? {
        Some(step) => Ok(store::use_totp(&app.pool, owner_id, step).await?),
        None => Ok(false),
    }
}

/// Builds 422 `invalid_body` for the field `code`.
pub(crate) fn wrong_code() -> Error {
    let detail = "expected the six digits that the app shows now".to_owned();
    Problem::invalid_body([("/code".to_owned(), detail)]).into()
}

fn not_begun() -> Error {
    let detail = "no authenticator app is being set up; begin with POST /me/totp".to_owned();
    Problem::invalid_body([(String::new(), detail)]).into()
}

/// Sealing context of the secret.
pub(crate) fn context(owner_id: Uuid) -> String {
    format!("totp {owner_id}")
}

fn open(app: &App, owner_id: Uuid, sealed: &str) -> Result<Vec<u8>> {
    app.sealer
        .open(&context(owner_id), sealed)
        .map_err(|error| Error::Broken(format!("the TOTP secret of {owner_id} cannot be opened: {error}")))
}

fn totp(secret: &[u8], account: &str) -> Result<Totp> {
    // A colon separates issuer and account in the URI.
    let account = account.replace(':', " ");
    Builder::new()
        .with_algorithm(Algorithm::SHA1)
        .with_digits(6)
        .with_skew(1)
        .with_step_duration(30)
        .with_secret(secret.to_vec())
        .with_issuer(Some(ISSUER))
        .with_account_name(account)
        .build()
        .map_err(|error| Error::Broken(format!("a TOTP secret cannot be used: {error}")))
}

/// Time step of a code; `None` if no accepted step matches.
fn check(secret: &[u8], code: &str) -> Result<Option<i64>> {
    let digits: String = code.chars().take(50).filter(|c| !c.is_whitespace()).collect();
    if digits.len() != 6 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Ok(None);
    }
    let now = u64::try_from(OffsetDateTime::now_utc().unix_timestamp()).unwrap_or_default();
    Ok(totp(secret, "account")?.check(&digits, now).and_then(|step| i64::try_from(step).ok()))
}

/// Setup data of a secret, as an app needs it.
fn totp_started(secret: &[u8], account: &str) -> Result<TotpStarted> {
    let totp = totp(secret, account)?;
    let broken = |why: String| Error::Broken(format!("a TOTP secret cannot be shown: {why}"));
    let otpauth_url = totp.to_url().map_err(|error| broken(error.to_string()))?;
    let code =
        QrCode::with_error_correction_level(&otpauth_url, EcLevel::M).map_err(|error| broken(error.to_string()))?;
    let svg = code
        .render::<svg::Color<'_>>()
        .min_dimensions(220, 220)
        .dark_color(svg::Color("#000"))
        .light_color(svg::Color("#fff"))
        .build();
    // Drop the XML declaration, which is invalid inside a page.
    let qr_svg = svg.find("<svg").map_or_else(String::new, |at| svg[at..].to_owned());
    Ok(TotpStarted { secret: totp.secret().to_base32(), otpauth_url, qr_svg })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_app_gets_a_uri_and_a_picture() {
        let started = totp_started(&[7; SECRET_BYTES], "ada:l@example.com").expect("shown");
        assert!(started.otpauth_url.starts_with("otpauth://totp/Treeline:ada%20l%40example.com?"), "{started:?}");
        assert!(started.qr_svg.starts_with("<svg") && !started.qr_svg.contains("style="), "{}", started.qr_svg);
        assert_eq!(started.secret.len(), 32);
    }

    #[test]
    fn only_six_digits_of_about_now_are_a_code() {
        let secret = [7; SECRET_BYTES];
        let now = u64::try_from(OffsetDateTime::now_utc().unix_timestamp()).expect("after 1970");
        let code = |time: u64| totp(&secret, "a").expect("built").generate(time).to_string();
        let current = code(now);
        let spaced = format!("{} {}", &current[..3], &current[3..]);
        let step = check(&secret, &current).expect("checked").expect("right");
        assert!(step.abs_diff(i64::try_from(now / 30).expect("small")) <= 1);
        assert_eq!(check(&secret, &spaced).expect("checked"), Some(step));
        for invalid in ["", "12345", "abcdef", "1234567", &code(now - 3_600), "١٢٣٤٥٦"] {
            assert_eq!(check(&secret, invalid).expect("checked"), None, "{invalid}");
        }
    }
}
