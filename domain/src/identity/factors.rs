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

/// Answer to `GET /me/factors`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Factors {
    /// True if the person's role requires a second factor.
    pub required: bool,
    /// Time at which the authenticator app was confirmed; null without one.
    pub totp_since: Option<Time>,
    /// The person's own name for the authenticator app; null without one.
    pub totp_name: Option<String>,
    /// Oldest first.
    pub passkeys: Vec<Passkey>,
    /// Recovery codes that were not used yet.
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

/// Answer to `POST /me/totp`: what an authenticator app needs. Shown this once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TotpStarted {
    /// The secret in base32, to be typed.
    pub secret: String,
    /// The same as a URI that authenticator apps open.
    pub otpauth_url: String,
    /// The URI as a QR code: an SVG image.
    pub qr_svg: String,
}

/// `POST /me/totp/confirm`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TotpConfirm {
    /// The six digits that the app shows now.
    pub code: String,
}

/// Answer to calls that make recovery codes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RecoveryCodes {
    /// Each works once in place of a second factor. Shown this once; empty where earlier codes stay valid.
    pub recovery_codes: Vec<String>,
}

/// Answer to calls that begin a passkey ceremony in the browser.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PasskeyOptions {
    /// The options for `navigator.credentials.create` or `.get`, binary values as base64url
    /// (`PublicKeyCredential.parseCreationOptionsFromJSON` reads them).
    pub public_key: Document,
    /// Sealed; to be sent back with the answer within five minutes.
    pub state: String,
}

/// The answer of the browser to a passkey ceremony.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PasskeyAnswer {
    /// The credential, as `PublicKeyCredential.toJSON()` writes it.
    pub credential: Document,
    /// The `state` of the options.
    pub state: String,
}

/// `POST /me/passkeys`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewPasskey {
    /// The person's own name for it, 1 to 100 characters.
    pub name: String,
    /// The credential, as `PublicKeyCredential.toJSON()` writes it.
    pub credential: Document,
    /// The `state` of the options.
    pub state: String,
}

/// Answer to `POST /me/passkeys`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PasskeyMade {
    #[serde(flatten)]
    pub passkey: Passkey,
    /// Each works once in place of a second factor. Shown this once; empty where earlier codes stay valid.
    pub recovery_codes: Vec<String>,
}

/// `PATCH /me/passkeys/{id}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PasskeyPatch {
    pub name: String,
}

/// `PATCH /me/totp`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TotpPatch {
    pub name: String,
}

/// A connection of one's own account with an OpenID Connect provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Connection {
    pub id: Uuid,
    /// Name of the provider in the settings; null where the settings do not name it anymore.
    pub provider: Option<String>,
    /// Name of the provider as pages show it, or its issuer.
    pub label: String,
    /// The account at the provider.
    pub subject: String,
    pub created_at: Time,
    pub last_used_at: Time,
}

/// Answer to `GET /me/connections`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Connections {
    /// Oldest first.
    pub data: Vec<Connection>,
}

/// `POST /me/step-up`: exactly one of the fields. The password counts only without a second factor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StepUp {
    pub password: Option<String>,
    /// The six digits of the authenticator app.
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
