//! Assignments: the id that a worker names, and how long one lives without a sign of life (`lease-expiry`).
//!
//! A claimed assignment is named by its UUID alone, as only the credential that claimed it may end it. A pushed one is
//! handed to a worker that may use any token for its type; its id carries an unguessable capability besides. Making and
//! checking a capability needs a key and happens in the server.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Visitor};

use crate::id::Uuid;

/// A lease is lost after this many missed heartbeats.
pub const MISSED_HEARTBEATS: f64 = 3.0;

/// Seconds without a heartbeat after which an assignment is lost.
pub fn lease_seconds(heartbeat_seconds: f64) -> f64 {
    heartbeat_seconds * MISSED_HEARTBEATS
}

/// Characters of a capability: 32 bytes in base64url without padding.
pub const CAPABILITY_CHARACTERS: usize = 43;

/// Form of the id of an assignment: a UUID, and after a dot the capability of a pushed one.
pub const ASSIGNMENT_ID_PATTERN: &str = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(\.[A-Za-z0-9_-]{43})?$";

/// Proof that a pushed assignment was handed to whoever shows it: 256 bits as base64url text.
///
/// `Debug` hides it, and comparing two takes the same time wherever they differ.
#[derive(Clone, Copy)]
pub struct Capability([u8; CAPABILITY_CHARACTERS]);

impl Capability {
    /// The text as bytes, for a comparison in constant time.
    pub const fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl PartialEq for Capability {
    fn eq(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).fold(0, |differences, (a, b)| differences | (a ^ b)) == 0
    }
}

impl Eq for Capability {}

impl fmt::Debug for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A text that is not the id of an assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAnAssignmentId;

impl fmt::Display for NotAnAssignmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected the id of an assignment: a UUID, and for a pushed item `.` and 43 characters")
    }
}

impl std::error::Error for NotAnAssignmentId {}

impl FromStr for Capability {
    type Err = NotAnAssignmentId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_base64url = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let bytes: [u8; CAPABILITY_CHARACTERS] = text.as_bytes().try_into().map_err(|_| NotAnAssignmentId)?;
        if bytes.iter().all(is_base64url) { Ok(Self(bytes)) } else { Err(NotAnAssignmentId) }
    }
}

/// Id of an assignment as workers send it: `UUID`, or `UUID.CAPABILITY` for a pushed item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AssignmentId {
    pub id: Uuid,
    /// Only of a pushed assignment.
    pub capability: Option<Capability>,
}

impl From<Uuid> for AssignmentId {
    fn from(id: Uuid) -> Self {
        Self { id, capability: None }
    }
}

impl fmt::Display for AssignmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.id, f)?;
        let capability = self.capability.as_ref().and_then(|capability| str::from_utf8(&capability.0).ok());
        capability.map_or(Ok(()), |capability| write!(f, ".{capability}"))
    }
}

impl FromStr for AssignmentId {
    type Err = NotAnAssignmentId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (id, capability) = match text.split_once('.') {
            Some((id, capability)) => (id, Some(capability.parse()?)),
            None => (text, None),
        };
        Ok(Self { id: Uuid::parse_str(id).map_err(|_| NotAnAssignmentId)?, capability })
    }
}

impl Serialize for AssignmentId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for AssignmentId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(IdVisitor)
    }
}

/// Assignment ID in the answer to a list: the text from the request, even if it is not a valid ID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum NamedAssignment {
    Id(AssignmentId),
    /// Other text; empty where the request gave none.
    Text(String),
}

impl NamedAssignment {
    /// The UUID, if the request gave one.
    pub fn uuid(&self) -> Option<Uuid> {
        match self {
            Self::Id(id) => Some(id.id),
            Self::Text(_) => None,
        }
    }
}

impl From<AssignmentId> for NamedAssignment {
    fn from(id: AssignmentId) -> Self {
        Self::Id(id)
    }
}

/// Reads the id without copying its text: heartbeats and results of busy workers hold thousands.
struct IdVisitor;

impl Visitor<'_> for IdVisitor {
    type Value = AssignmentId;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the id of an assignment")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<AssignmentId, E> {
        text.parse().map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0190a5e0-0000-7000-8000-000000000000";

    #[test]
    fn assignment_id_round_trips() {
        for text in [ID.to_owned(), format!("{ID}.{}", "aZ0-_".repeat(9).split_at(43).0)] {
            let id: AssignmentId = text.parse().expect("an id");
            assert_eq!(id.to_string(), text);
            assert_eq!(serde_json::to_string(&id).expect("JSON"), format!("\"{text}\""));
            assert_eq!(id.capability.is_some(), text.contains('.'));
            assert!(!format!("{id:?}").contains("aZ0"), "a capability is not logged: {id:?}");
        }
    }

    #[test]
    fn malformed_assignment_id_is_refused() {
        let short = format!("{ID}.{}", "a".repeat(42));
        let long = format!("{ID}.{}", "a".repeat(44));
        let padded = format!("{ID}.{}=", "a".repeat(42));
        for text in ["", "1", &format!("{ID}."), &format!(".{}", "a".repeat(43)), &short, &long, &padded] {
            assert!(text.parse::<AssignmentId>().is_err(), "{text}");
        }
    }
}
