//! Services and their tokens, as the API shows them. A token's secret travels once, in the
//! answer that makes it.

use serde::{Deserialize, Serialize};

use crate::{Time, id::Uuid, identity::factors::PasskeyAnswer};

/// `POST /services`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewService {
    /// As job types are named: `[a-z0-9][a-z0-9._-]{0,99}`.
    pub name: String,
}

/// A program that hands work in, or works on items.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Service {
    pub id: Uuid,
    pub name: String,
    /// Its tokens open nothing until it is enabled again; its work stays.
    #[serde(default)]
    pub disabled: bool,
    pub created_at: Time,
}

/// `PATCH /services/{id}`: what is absent stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServicePatch {
    /// `true` refuses everything that its tokens ask for; `false` lets them in again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// Kept in the audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `POST /tokens`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewToken {
    /// The service it belongs to: whose work it is.
    pub service: String,
    /// Display name, 1 to 100 characters.
    pub name: String,
    /// Of `jobs:read`, `jobs:write`, `work`, `metrics`, `admin`; at least one.
    #[serde(deserialize_with = "crate::bounded::list")]
    pub scopes: Vec<String>,
    /// Narrows `work` to these job types. Absent or null: all.
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
    /// To the minute.
    pub last_used_at: Option<Time>,
    /// From then on it opens nothing. Null: it does not expire.
    #[serde(default)]
    pub expires_at: Option<Time>,
    pub revoked_at: Option<Time>,
}

/// Answer to `POST /tokens`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TokenMade {
    pub token: Token,
    /// Token to send as `Authorization: Bearer …`. Shown only once.
    pub secret: String,
}

/// `POST /session`: by email and password, or by the press of a sign-in link's button, for programs; with the second
/// factor at once, or in a second request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SignIn {
    pub email: Option<String>,
    pub password: Option<String>,
    /// The last part of a one-time link, or the whole link, in place of the two.
    pub link: Option<String>,
    /// The `state` of a refusal with `mfa_required`, in place of the first factor.
    pub state: Option<String>,
    /// The second factor, where there is one: six digits of the authenticator app …
    pub code: Option<String>,
    /// … or a recovery code.
    pub recovery_code: Option<String>,
    /// A passkey, in place of everything else.
    pub passkey: Option<PasskeyAnswer>,
}
