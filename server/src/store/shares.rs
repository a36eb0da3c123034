//! Links that show one tree to whoever has them. Their secrets come in as SHA-256 and are never stored
//! otherwise; whether a tree is still there is asked of the tree.

use domain::{Time, job::Owner, job::OwnerKind, share::Share};
use sqlx::PgPool;
use uuid::Uuid;

use super::Tx;

/// What a share opens, and for whom it stands.
#[derive(Clone, Copy, Debug)]
pub struct Shared {
    pub id: Uuid,
    pub root_id: Uuid,
    pub owner_id: Uuid,
    pub revoked: bool,
    /// Whether its last use was noted within the minute.
    pub seen_lately: bool,
}

/// Keeps a new share.
pub async fn insert(tx: &mut Tx, id: Uuid, root_id: Uuid, owner_id: Uuid, hash: &[u8], by: &Owner) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into share (id, root_id, owner_id, hash, made_by_kind, made_by_name) values ($1, $2, $3, $4, $5, $6)",
        id,
        root_id,
        owner_id,
        hash,
        if by.kind == OwnerKind::User { "user" } else { "service" },
        by.name
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// The share with this hash, also one that was revoked.
pub async fn find_by_hash(pool: &PgPool, hash: &[u8]) -> sqlx::Result<Option<Shared>> {
    sqlx::query_as!(
        Shared,
        r#"select id, root_id, owner_id, revoked_at is not null as "revoked!",
             coalesce(last_seen_at > clock_timestamp() - interval '1 minute', false) as "seen_lately!"
           from share where hash = $1"#,
        hash
    )
    .fetch_optional(pool)
    .await
}

/// The share of this id, also one that was revoked.
pub async fn find(pool: &PgPool, id: Uuid) -> sqlx::Result<Option<Shared>> {
    sqlx::query_as!(
        Shared,
        r#"select id, root_id, owner_id, revoked_at is not null as "revoked!", false as "seen_lately!"
           from share where id = $1"#,
        id
    )
    .fetch_optional(pool)
    .await
}

/// Notes that somebody looks.
pub async fn touch(pool: &PgPool, id: Uuid) -> sqlx::Result<()> {
    sqlx::query!("update share set last_seen_at = clock_timestamp() where id = $1 and revoked_at is null", id)
        .execute(pool)
        .await?;
    Ok(())
}

/// Shares of a tree, newest first, behind (older than) `before`; revoked ones too.
pub async fn list(pool: &PgPool, root_id: Uuid, before: Option<Uuid>, limit: i64) -> sqlx::Result<Vec<Share>> {
    let rows = sqlx::query!(
        "select id, root_id, made_by_kind, made_by_name, created_at, last_seen_at, revoked_at from share
         where root_id = $1 and ($2::uuid is null or id < $2) order by id desc limit $3",
        root_id,
        before,
        limit
    )
    .fetch_all(pool)
    .await?;
    let kind = |word: &str| if word == "user" { OwnerKind::User } else { OwnerKind::Service };
    Ok(rows
        .into_iter()
        .map(|row| Share {
            id: row.id,
            job_id: row.root_id,
            created_by: Owner { kind: kind(&row.made_by_kind), name: row.made_by_name },
            created_at: Time(row.created_at),
            last_seen_at: row.last_seen_at.map(Time),
            revoked_at: row.revoked_at.map(Time),
        })
        .collect())
}

/// Revokes a share. Says whether it was open.
pub async fn revoke(tx: &mut Tx, id: Uuid) -> sqlx::Result<bool> {
    let done = sqlx::query!("update share set revoked_at = clock_timestamp() where id = $1 and revoked_at is null", id)
        .execute(&mut **tx)
        .await?;
    Ok(done.rows_affected() > 0)
}
