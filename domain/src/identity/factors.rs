//! Second factors of people, as the API shows them: authenticator apps, passkeys, recovery codes.
//!
//! A secret travels once, in the answer that makes it. What a passkey's browser sends is kept as the text it came
//! in: only the WebAuthn library of the server reads it.

use serde::{Deserialize, Serialize};

use crate::{Document, Time, id::Uuid};

/// The longest name of a passkey, in characters.
pub const LONGEST_PASSKEY_NAME: usize = 100;

/// Number of recovery codes that a person gets.
pub const RECOVERY_CODES: usize = 10;

/// Response of `GET /me/factors`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Factors {
    /// True if the person's role requires a second factor.
    pub required: bool,
    /// Time at which the authenticator app was confirmed; null without an app.
    pub totp_since: Option<Time>,
    /// Name that the person gave the authenticator app; null without an app.
    pub totp_name: Option<String>,
    /// Passkeys, oldest first.
    pub passkeys: Vec<Passkey>,
    /// Number of unused recovery codes.
    pub recovery_codes_left: i64,
}

impl Factors {
    /// True if signing in asks for a second factor.
    pub fn any(&self) -> bool {
        self.totp_since.is_some() || !self.passkeys.is_empty()
    }
}

/// A passkey.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Passkey {
    pub id: Uuid,
    pub name: String,
    pub created_at: Time,
    pub last_used_at: Option<Time>,
}

/// Response of `POST /me/totp`: setup data for an authenticator app. Returned only once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TotpStarted {
    /// Secret in base32, to be typed.
    pub secret: String,
    /// Secret as a URI that authenticator apps open.
    pub otpauth_url: String,
    /// URI as a QR code: an SVG image.
    pub qr_svg: String,
}

/// Body of `POST /me/totp/confirm`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TotpConfirm {
    /// Six digits that the app shows now.
    pub code: String,
}

/// Response to requests that create recovery codes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RecoveryCodes {
    /// Recovery codes, each valid once instead of a second factor. Returned only once; empty if earlier codes stay
    /// valid.
    pub recovery_codes: Vec<String>,
}

/// Response to requests that start a passkey ceremony in the browser.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PasskeyOptions {
    /// Options for `navigator.credentials.create` or `.get`, with binary values as base64url (for
    /// `PublicKeyCredential.parseCreationOptionsFromJSON`).
    pub public_key: Document,
    /// Sealed state, to be sent back with the credential within five minutes.
    pub state: String,
}

/// Response of the browser in a passkey ceremony.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PasskeyAnswer {
    /// Credential as returned by `PublicKeyCredential.toJSON()`.
    pub credential: Document,
    /// `state` of the options response.
    pub state: String,
}

/// Body of `POST /me/passkeys`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewPasskey {
    /// Name that the person gives the passkey, 1 to 100 characters.
    pub name: String,
    /// Credential as returned by `PublicKeyCredential.toJSON()`.
    pub credential: Document,
    /// `state` of the options response.
    pub state: String,
}

/// Response of `POST /me/passkeys`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PasskeyMade {
    #[serde(flatten)]
    pub passkey: Passkey,
    /// Recovery codes, each valid once instead of a second factor. Returned only once; empty if earlier codes stay
    /// valid.
    pub recovery_codes: Vec<String>,
}

/// Body of `PATCH /me/passkeys/{id}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PasskeyPatch {
    pub name: String,
}

/// Body of `PATCH /me/totp`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TotpPatch {
    pub name: String,
}

/// Connection of the caller's account with an OpenID Connect provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Connection {
    pub id: Uuid,
    /// Name of the provider in the settings; null if the settings no longer contain it.
    pub provider: Option<String>,
    /// Display name of the provider, or its issuer.
    pub label: String,
    /// Id of the account at the provider.
    pub subject: String,
    pub created_at: Time,
    pub last_used_at: Time,
}

/// Response of `GET /me/connections`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Connections {
    /// Connections, oldest first.
    pub data: Vec<Connection>,
}

/// Body of `POST /me/step-up`: exactly one of the fields. The password is accepted only without a second factor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StepUp {
    pub password: Option<String>,
    /// Six digits of the authenticator app.
    pub code: Option<String>,
    pub recovery_code: Option<String>,
    pub passkey: Option<PasskeyAnswer>,
}

/// Fault in the name of a passkey, in words; `None`: nothing is wrong.
pub fn passkey_name_problem(name: &str) -> Option<&'static str> {
    let name = name.trim();
    let fits = !name.is_empty() && name.chars().count() <= LONGEST_PASSKEY_NAME && !name.chars().any(char::is_control);
    (!fits).then_some("expected 1 to 100 characters")
}
