//! Entries of the audit log: who acts, on what, and details.

use std::net::IpAddr;

use domain::{
    identity::audit::{ActorKind, LONGEST_DETAIL},
    job::OwnerKind,
};
use uuid::Uuid;

use crate::{access::caller::Caller, store::notify::audit::AuditRow};

impl AuditRow {
    /// Action of this caller.
    pub fn by(caller: &Caller, action: &'static str) -> Self {
        Self {
            actor_id: caller.owner_id,
            actor_kind: caller.kind.into(),
            actor_name: caller.name.clone(),
            address: caller.address.map(text),
            credential_id: Some(caller.credential_id),
            ..Self::of(action)
        }
    }

    /// Action of a person who signs in, before there is a caller.
    pub fn by_person(action: &'static str, id: Uuid, name: String, address: Option<IpAddr>) -> Self {
        Self {
            actor_id: id,
            actor_kind: OwnerKind::User.into(),
            actor_name: name,
            owner_id: Some(id),
            address: address.map(text),
            ..Self::of(action)
        }
    }

    /// Attempt without a credential.
    pub fn by_nobody(action: &'static str, address: Option<IpAddr>) -> Self {
        Self { address: address.map(text), ..Self::of(action) }
    }

    /// Action at the command line of the server.
    pub fn by_operator(action: &'static str, owner_id: Option<Uuid>, detail: Option<String>) -> Self {
        let account = ["SUDO_USER", "USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
        Self {
            actor_kind: ActorKind::Operator,
            actor_name: account.unwrap_or_else(|| "operator".to_owned()).chars().take(100).collect(),
            owner_id,
            detail,
            ..Self::of(action)
        }
    }

    fn of(action: &'static str) -> Self {
        Self {
            actor_id: Uuid::nil(),
            actor_kind: ActorKind::Nobody,
            actor_name: String::new(),
            action,
            owner_id: None,
            root_id: None,
            job_id: None,
            item_id: None,
            reason: None,
            detail: None,
            address: None,
            credential_id: None,
            operation_id: None,
        }
    }

    /// Adds the job, or the item, that the action changes.
    #[must_use]
    pub fn about(self, root_id: Uuid, job_id: Uuid, item_id: Option<Uuid>) -> Self {
        Self { root_id: Some(root_id), job_id: Some(job_id), item_id, ..self }
    }

    /// Adds a detail in words.
    #[must_use]
    pub fn with_detail(self, detail: impl Into<String>) -> Self {
        let mut detail: String = detail.into();
        if detail.len() > LONGEST_DETAIL {
            detail.truncate(detail.floor_char_boundary(LONGEST_DETAIL));
            detail.push('\u{2026}');
        }
        Self { detail: Some(detail), ..self }
    }
}

fn text(address: IpAddr) -> String {
    address.to_canonical().to_string()
}
