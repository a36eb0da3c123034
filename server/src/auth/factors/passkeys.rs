//! Passkeys (WebAuthn): registration, listing, renaming, removal, and verification of a browser's answer.
//!
//! Ceremonies use `webauthn-rs`; user verification is always required, so a passkey counts as both factors. Ceremony
//! state passes sealed through the browser for five minutes, and each challenge is accepted once. Passkeys are bound to
//! the host of `TREELINE_PUBLIC_URL`, which must be a name: browsers support none for addresses.

use domain::{
    Code, Document, Problem,
    identity::factors::{NewPasskey, Passkey, PasskeyAnswer, PasskeyMade, PasskeyOptions, passkey_name_problem},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use url::Url;
use uuid::Uuid;
use webauthn_rs::{
    Webauthn, WebauthnBuilder,
    prelude::{
        DiscoverableAuthentication, DiscoverableKey, PasskeyRegistration, PublicKeyCredential,
        RegisterPublicKeyCredential,
    },
};

use super::{added, lock, person, removed, require_way_in};
use crate::{
    App,
    auth::{envelope, look_for_changes, people::audit_row, step_up},
    config::PublicUrl,
};
use engine::{
    access::caller::Caller,
    error::{Error, Result},
    secrets::{Hash, hash_of},
    store::{
        Tx,
        access::factors::{self as store, PasskeyRow},
        notify::audit as log,
    },
    task::in_task,
};

/// Minutes until a ceremony expires.
const MINUTES: i64 = 5;

/// Longest browser answer that is read, in bytes.
const MAX_ANSWER_BYTES: usize = 16 * 1024;

/// Maximum number of passkeys per person.
const MOST: usize = 25;

const REGISTER: &str = "register a passkey";
const AUTHENTICATE: &str = "authenticate with a passkey";

/// State of a registration.
#[derive(Serialize, Deserialize)]
struct Registration {
    owner_id: Uuid,
    session_id: Uuid,
    ceremony: PasskeyRegistration,
}

/// Passkey that was just used, and its owner. Valid once [`Proof::record`] is committed.
pub(crate) struct Proof {
    pub(crate) owner_id: Uuid,
    passkey_id: Uuid,
    credential: String,
    challenge: Hash,
}

impl Proof {
    /// Marks the challenge as used and records the use of the passkey.
    pub(crate) async fn record(&self, tx: &mut Tx) -> Result<()> {
        let seconds = i32::try_from(MINUTES * 60 + 60).unwrap_or(i32::MAX);
        if !store::use_challenge(tx, &self.challenge, seconds).await?
            || !store::touch_passkey(tx, self.passkey_id, &self.credential).await?
        {
            return Err(refused());
        }
        Ok(())
    }
}

/// Returns true if browsers support passkeys for the host of the public URL.
pub fn are_possible(public_url: &PublicUrl) -> bool {
    relying_party(public_url).is_ok()
}

/// Returns browser options to create a passkey for the caller.
pub async fn start_registration(app: &App, caller: &Caller) -> Result<PasskeyOptions> {
    person(caller)?;
    step_up::require(app, caller).await?;
    let party = relying_party(&app.public_url)?;
    let passkeys = store::list_passkeys(&app.pool, caller.owner_id).await?;
    if passkeys.len() >= MOST {
        return Err(Error::refuse(Code::Forbidden, format!("A person has at most {MOST} passkeys. Remove one first.")));
    }
    let passkeys = passkeys.iter().map(|row| Ok(stored(row)?.cred_id().clone())).collect::<Result<_>>()?;
    let email = engine::store::access::people::find(&app.pool, caller.owner_id).await?.and_then(|person| person.email);
    let account = email.unwrap_or_else(|| caller.name.clone());
    let (options, ceremony) = party
        .start_passkey_registration(caller.owner_id, &account, &caller.name, Some(passkeys))
        .map_err(|error| broken(&error))?;
    let mut options = serde_json::to_value(options.public_key).map_err(|error| Error::Broken(error.to_string()))?;
    // Discoverable, so that the sign-in page needs no account name.
    options["authenticatorSelection"]["residentKey"] = "required".into();
    options["authenticatorSelection"]["requireResidentKey"] = true.into();
    let state = Registration { owner_id: caller.owner_id, session_id: caller.credential_id, ceremony };
    Ok(PasskeyOptions { public_key: Document::of(&options), state: envelope::seal(app, REGISTER, MINUTES, &state) })
}

/// Stores the passkey that the browser created. Returns recovery codes with the first factor.
pub async fn finish_registration(app: &App, caller: &Caller, new: NewPasskey) -> Result<PasskeyMade> {
    person(caller)?;
    let name = new.name.trim().to_owned();
    check_name(&name)?;
    let over = || fault("this took too long, or was begun in another session: begin again");
    let state: Registration = envelope::open(app, REGISTER, &new.state).ok_or_else(over)?;
    if state.owner_id != caller.owner_id || state.session_id != caller.credential_id {
        return Err(over());
    }
    let answer: RegisterPublicKeyCredential = read(&new.credential)?;
    let created = relying_party(&app.public_url)?
        .finish_passkey_registration(&answer, &state.ceremony)
        .map_err(|error| fault(&format!("this passkey cannot be accepted: {error:?}")))?;
    let credential = serde_json::to_string(&created).map_err(|error| Error::Broken(error.to_string()))?;
    let credential_id: Vec<u8> = created.cred_id().clone();
    let (pool, by, id, challenge) = (app.pool.clone(), caller.clone(), Uuid::now_v7(), fingerprint(&state.ceremony)?);
    let created = in_task("registering a passkey", async move {
        let mut tx = engine::store::begin(&pool).await?;
        lock(&mut tx, by.owner_id).await?;
        let before = store::summary(&mut *tx, by.owner_id).await?;
        if !store::use_challenge(&mut tx, &challenge, 600).await? {
            return Err(refused());
        }
        let created_at = store::insert_passkey(&mut tx, id, by.owner_id, &credential_id, &credential, &name)
            .await?
            .ok_or_else(|| Error::refuse(Code::Duplicate, "This passkey is registered already."))?;
        let recovery_codes = added(&mut tx, &by, &before).await?;
        log::record(&mut tx, &audit_row(&by, "user.passkey_add", by.owner_id, None, Some(name.clone()))).await?;
        engine::store::commit(tx).await?;
        let passkey = Passkey { id, name, created_at: created_at.into(), last_used_at: None };
        Ok(PasskeyMade { passkey, recovery_codes })
    })
    .await?;
    look_for_changes(app).await?;
    Ok(created)
}

/// Renames one of the caller's passkeys.
pub async fn rename(app: &App, caller: &Caller, id: Uuid, name: &str) -> Result<Passkey> {
    person(caller)?;
    let name = name.trim();
    check_name(name)?;
    if !store::rename_passkey(&app.pool, caller.owner_id, id, name).await? {
        return Err(Problem::not_found("passkey").into());
    }
    let all = store::list_passkeys(&app.pool, caller.owner_id).await?;
    all.into_iter().find(|row| row.id == id).map(Into::into).ok_or_else(|| Problem::not_found("passkey").into())
}

/// Removes one of the caller's passkeys; idempotent. 409 `last_sign_in_method` if it is the last way to sign in.
pub async fn remove(app: &App, caller: &Caller, id: Uuid) -> Result<()> {
    person(caller)?;
    step_up::require(app, caller).await?;
    let (pool, by, again) = (app.pool.clone(), caller.clone(), app.clone());
    in_task("removing a passkey", async move {
        let mut tx = engine::store::begin(&pool).await?;
        lock(&mut tx, by.owner_id).await?;
        if let Some(name) = store::remove_passkey(&mut tx, by.owner_id, id).await? {
            log::record(&mut tx, &audit_row(&by, "user.passkey_remove", by.owner_id, None, Some(name))).await?;
            require_way_in(&again, &mut tx, by.owner_id).await?;
            removed(&mut tx, by.owner_id).await?;
        }
        engine::store::commit(tx).await?;
        Ok(())
    })
    .await?;
    look_for_changes(app).await
}

/// Returns browser options to sign in with any person's passkey.
pub fn start_authentication(app: &App) -> Result<PasskeyOptions> {
    let (options, ceremony) =
        relying_party(&app.public_url)?.start_discoverable_authentication().map_err(|error| broken(&error))?;
    Ok(PasskeyOptions {
        public_key: Document::of(&options.public_key),
        state: envelope::seal(app, AUTHENTICATE, MINUTES, &ceremony),
    })
}

/// Verifies the browser's answer and finds the owner of the passkey. 401 if it is invalid.
pub(crate) async fn authenticate(app: &App, answer: &PasskeyAnswer) -> Result<Proof> {
    let ceremony: DiscoverableAuthentication = envelope::open(app, AUTHENTICATE, &answer.state).ok_or_else(refused)?;
    let credential: PublicKeyCredential = read(&answer.credential)?;
    let challenge = fingerprint(&ceremony)?;
    let party = relying_party(&app.public_url)?;
    let (owner_id, credential_id) = party.identify_discoverable_authentication(&credential).map_err(|_| refused())?;
    let row = store::find_passkey(&app.pool, credential_id).await?.ok_or_else(refused)?;
    if row.owner_id != owner_id {
        return Err(refused());
    }
    let mut passkey = stored(&row)?;
    let result = party
        .finish_discoverable_authentication_v2(&credential, ceremony, DiscoverableKey::from(&passkey))
        .map_err(|error| {
            tracing::info!(%owner_id, ?error, "passkey refused");
            refused()
        })?;
    if !result.user_verified() {
        return Err(refused());
    }
    passkey.update_credential(&result);
    Ok(Proof {
        owner_id,
        passkey_id: row.id,
        credential: serde_json::to_string(&passkey).map_err(|error| Error::Broken(error.to_string()))?,
        challenge,
    })
}

/// Hash of a ceremony's content, so that a different encoding of the sealed text is not a different ceremony.
fn fingerprint(ceremony: &impl Serialize) -> Result<Hash> {
    serde_json::to_string(ceremony).map(|text| hash_of(&text)).map_err(|error| Error::Broken(error.to_string()))
}

fn relying_party(public_url: &PublicUrl) -> Result<Webauthn> {
    let impossible =
        || fault("passkeys need a host name, and people reach this server by an address: set TREELINE_PUBLIC_URL");
    let origin = Url::parse(public_url.as_str()).map_err(|_| impossible())?;
    let host = origin.domain().ok_or_else(impossible)?;
    WebauthnBuilder::new(host, &origin)
        .and_then(|builder| builder.rp_name("Treeline").build())
        .map_err(|_| impossible())
}

fn stored(row: &PasskeyRow) -> Result<webauthn_rs::prelude::Passkey> {
    serde_json::from_str(&row.credential)
        .map_err(|error| Error::Broken(format!("table passkey, column credential, row {}: {error}", row.id)))
}

/// Parses a browser document.
fn read<T: DeserializeOwned>(document: &Document) -> Result<T> {
    if document.text().len() > MAX_ANSWER_BYTES {
        return Err(fault("expected at most 16 KiB"));
    }
    serde_json::from_str(document.text())
        .map_err(|_| fault("expected a credential as PublicKeyCredential.toJSON() writes it"))
}

fn check_name(name: &str) -> Result<()> {
    match passkey_name_problem(name) {
        Some(fault) => Err(Problem::invalid_body([("/name".to_owned(), fault.to_owned())]).into()),
        None => Ok(()),
    }
}

fn fault(detail: &str) -> Error {
    Problem::invalid_body([("/credential".to_owned(), detail.to_owned())]).into()
}

fn refused() -> Error {
    Error::refuse(Code::Unauthenticated, "This passkey is not known here, or the request was too old. Try again.")
}

fn broken(error: &webauthn_rs::prelude::WebauthnError) -> Error {
    Error::Broken(format!("a passkey ceremony cannot be begun: {error:?}"))
}
