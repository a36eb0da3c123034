//! Services and their tokens, as the API shows them. A token's secret travels once, in the
//! answer that makes it.

use serde::{Deserialize, Serialize};

use crate::{Time, id::Uuid, identity::factors::PasskeyAnswer};

/// Body of `POST /services`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewService {
    /// Name, in the form of job type names: `[a-z0-9][a-z0-9._-]{0,99}`.
    pub name: String,
}

/// Program that creates jobs or works on items.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Service {
    pub id: Uuid,
    pub name: String,
    /// True if disabled: all requests with its tokens are refused. Its jobs continue.
    #[serde(default)]
    pub disabled: bool,
    pub created_at: Time,
}

/// Body of `PATCH /services/{id}`: the given fields change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServicePatch {
    /// `true`: all requests with its tokens are refused; `false`: they are accepted again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// Reason, stored in the audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Body of `POST /tokens`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewToken {
    /// Name of the service that the token belongs to, and that owns its work.
    pub service: String,
    /// Display name, 1 to 100 characters.
    pub name: String,
    /// One or more of `jobs:read`, `jobs:write`, `work`, `metrics`, `admin`.
    #[serde(deserialize_with = "crate::bounded::list")]
    pub scopes: Vec<String>,
    /// Job types that the scope `work` is restricted to. Absent or null: all.
    #[serde(default)]
    pub types: Option<Vec<String>>,
    /// Time when the token expires. Absent or null: it never expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
}

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Token {
    pub id: Uuid,
    pub service: String,
    pub name: String,
    pub scopes: Vec<String>,
    pub types: Option<Vec<String>>,
    pub created_at: Time,
    /// Time of the last use, to the minute.
    pub last_used_at: Option<Time>,
    /// Time from which the token is refused; null: it does not expire.
    #[serde(default)]
    pub expires_at: Option<Time>,
    pub revoked_at: Option<Time>,
}

/// Response of `POST /tokens`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TokenMade {
    pub token: Token,
    /// Token to send as `Authorization: Bearer …`. Returned only once.
    pub secret: String,
}

/// Body of `POST /session`: email and password, a one-time link, or a passkey; the second factor in the same request or
/// in a second one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SignIn {
    pub email: Option<String>,
    pub password: Option<String>,
    /// One-time link or the last part of it, instead of email and password.
    pub link: Option<String>,
    /// `state` of a refusal with `mfa_required`, instead of the first factor.
    pub state: Option<String>,
    /// Second factor, if the person has one: six digits of the authenticator app.
    pub code: Option<String>,
    /// Recovery code, instead of `code`.
    pub recovery_code: Option<String>,
    /// Passkey, instead of everything else.
    pub passkey: Option<PasskeyAnswer>,
}
