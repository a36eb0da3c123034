//! Current state of tokens, sessions, links, and accounts by id, to decide whether work under them may continue.
//!
//! Separate from `identity`, which looks credentials up by secret and finds only valid ones.

use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

/// Kind of a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialKind {
    Token,
    Session,
    /// A link that shows one tree.
    Share,
    /// A person's account, for which schedules act: nobody signs in with it.
    Account,
}

/// Current state of a credential, valid or not.
#[derive(Clone, Debug)]
pub struct CredentialRow {
    pub id: Uuid,
    pub kind: CredentialKind,
    pub role: Option<String>,
    pub scopes: Vec<String>,
    /// Revoked, or ended.
    pub ended: bool,
    pub expired: bool,
    pub expires_at: Option<OffsetDateTime>,
    /// True if its owner is disabled.
    pub disabled: bool,
}

/// Existing credentials by their ids.
pub async fn by_ids(pool: &PgPool, ids: &[Uuid]) -> sqlx::Result<Vec<CredentialRow>> {
    let rows = sqlx::query!(
        r#"select t.id as "id!", 'token' as "kind!", o.role, t.scopes as "scopes!",
             t.revoked_at is not null as "ended!",
             coalesce(t.expires_at <= clock_timestamp(), false) as "expired!", t.expires_at,
             o.disabled_at is not null as "disabled!"
           from token t join owner o on o.id = t.owner_id where t.id = any($1::uuid[])
           union all
           select s.id, 'session', o.role, '{}', s.ended_at is not null, s.expires_at <= clock_timestamp(),
             s.expires_at, o.disabled_at is not null
           from session s join owner o on o.id = s.owner_id where s.id = any($1::uuid[])
           union all
           select s.id, 'share', null, '{}', s.revoked_at is not null, s.expires_at <= clock_timestamp(),
             s.expires_at,
             exists (select 1 from owner o where o.id in (s.owner_id, s.made_by_id) and o.disabled_at is not null)
           from share s where s.id = any($1::uuid[])
           union all
           select o.id, 'account', o.role, '{}', false, false, null, o.disabled_at is not null
           from owner o where o.id = any($1::uuid[]) and o.kind = 'user'"#,
        ids
    )
    .fetch_all(pool)
    .await?;
    let kind = |word: &str| match word {
        "token" => CredentialKind::Token,
        "session" => CredentialKind::Session,
        "account" => CredentialKind::Account,
        _ => CredentialKind::Share,
    };
    Ok(rows
        .into_iter()
        .map(|row| CredentialRow {
            id: row.id,
            kind: kind(&row.kind),
            role: row.role,
            scopes: row.scopes,
            ended: row.ended,
            expired: row.expired,
            expires_at: row.expires_at,
            disabled: row.disabled,
        })
        .collect())
}
