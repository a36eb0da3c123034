//! Audit log entries outside the use cases: the actor of an entry, entries about reads and refusals, and copies of the
//! log.
//!
//! An action is recorded in its own transaction by its use case. This module writes the entries that belong to no
//! transaction; their number is bounded, because repetitions are counted (`repeats`). Nothing here decides permissions.

mod access;
mod copy; // the log in order, for external copies
mod repeats; // repetitions within one hour // reads and refusals

use std::net::IpAddr;

use domain::{
    audit::{ActorKind, AuditEntry, LONGEST_DETAIL},
    job::OwnerKind,
};
use sqlx::PgPool;
use uuid::Uuid;

use crate::{
    auth::Caller,
    error::Result,
    store::{self, audit::AuditRow},
};

pub(crate) use access::session_row;
pub use access::{
    AuditedRead, Object, record_export, record_read, record_refusal, record_refused_sign_in, record_share_use,
};
pub use copy::{FinalEntries, LogCursor, export, final_entries};
pub use repeats::Repeats;

impl AuditRow {
    /// Action of this caller.
    pub(crate) fn by(caller: &Caller, action: &'static str) -> Self {
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
    pub(crate) fn by_person(action: &'static str, id: Uuid, name: String, address: Option<IpAddr>) -> Self {
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
    pub(crate) fn by_nobody(action: &'static str, address: Option<IpAddr>) -> Self {
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
    pub(crate) fn about(self, root_id: Uuid, job_id: Uuid, item_id: Option<Uuid>) -> Self {
        Self { root_id: Some(root_id), job_id: Some(job_id), item_id, ..self }
    }

    /// Adds a detail in words.
    #[must_use]
    pub(crate) fn with_detail(self, detail: impl Into<String>) -> Self {
        let mut detail: String = detail.into();
        if detail.len() > LONGEST_DETAIL {
            detail.truncate(detail.floor_char_boundary(LONGEST_DETAIL));
            detail.push('\u{2026}');
        }
        Self { detail: Some(detail), ..self }
    }
}

/// Writes an entry that belongs to no other transaction.
pub async fn record(pool: &PgPool, row: &AuditRow) -> Result<()> {
    record_all(pool, std::slice::from_ref(row)).await
}

/// Writes entries that belong to no other transaction.
pub async fn record_all(pool: &PgPool, rows: &[AuditRow]) -> Result<()> {
    let mut tx = pool.begin().await?;
    store::audit::record_all(&mut tx, rows).await?;
    Ok(store::commit(tx).await?)
}

fn text(address: IpAddr) -> String {
    address.to_canonical().to_string()
}

/// An entry as a line of NDJSON.
fn line(entry: &AuditEntry) -> Vec<u8> {
    let mut line = serde_json::to_vec(entry).unwrap_or_default();
    line.push(b'\n');
    line
}
