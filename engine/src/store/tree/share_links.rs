//! Links that show one tree without sign-in. Their secrets arrive as SHA-256 and are not stored otherwise; the tree
//! itself says whether it still exists. `engine/src/tree/share_links.rs` refuses expired and revoked ones.

use domain::{
    Time,
    job::{Owner, OwnerKind},
    tree::share_link::Share,
};
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::store::{
    Tx,
    page_range::{PageRange, by_age},
};

/// Tree of a share, and the owner for whom it acts.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "four answers of one statement, each with a meaning of its own")]
pub struct ShareRow {
    pub id: Uuid,
    pub root_id: Uuid,
    pub owner_id: Uuid,
    pub revoked: bool,
    pub expired: bool,
    /// Its owner or its maker is disabled.
    pub disabled: bool,
    /// True if its last use was recorded within the minute.
    pub seen_lately: bool,
}

/// A new share.
#[derive(Clone, Debug)]
pub struct NewShare {
    pub id: Uuid,
    pub root_id: Uuid,
    pub owner_id: Uuid,
    pub hash: Vec<u8>,
    pub made_by: Owner,
    pub made_by_id: Uuid,
    pub credential_id: Uuid,
    pub expires_at: OffsetDateTime,
}

/// Stores a new share.
pub async fn insert(tx: &mut Tx, new: &NewShare) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into share
           (id, root_id, owner_id, hash, made_by_kind, made_by_name, made_by_id, credential_id, expires_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        new.id,
        new.root_id,
        new.owner_id,
        new.hash,
        if new.made_by.kind == OwnerKind::User { "user" } else { "service" },
        new.made_by.name,
        new.made_by_id,
        new.credential_id,
        new.expires_at
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// The share with this hash, valid or not.
pub async fn find_by_hash(pool: &PgPool, hash: &[u8]) -> sqlx::Result<Option<ShareRow>> {
    sqlx::query_as!(
        ShareRow,
        r#"select id, root_id, owner_id, revoked_at is not null as "revoked!",
             expires_at <= clock_timestamp() as "expired!",
             exists (select 1 from owner o where o.id in (s.owner_id, s.made_by_id) and o.disabled_at is not null)
               as "disabled!",
             coalesce(last_seen_at > clock_timestamp() - interval '1 minute', false) as "seen_lately!"
           from share s where hash = $1"#,
        hash
    )
    .fetch_optional(pool)
    .await
}

/// The share with this id, valid or not.
pub async fn find(pool: &PgPool, id: Uuid) -> sqlx::Result<Option<ShareRow>> {
    sqlx::query_as!(
        ShareRow,
        r#"select id, root_id, owner_id, revoked_at is not null as "revoked!",
             expires_at <= clock_timestamp() as "expired!", false as "disabled!", false as "seen_lately!"
           from share where id = $1"#,
        id
    )
    .fetch_optional(pool)
    .await
}

/// Records the use of a share.
pub async fn touch(pool: &PgPool, id: Uuid) -> sqlx::Result<()> {
    sqlx::query!("update share set last_seen_at = clock_timestamp() where id = $1 and revoked_at is null", id)
        .execute(pool)
        .await?;
    Ok(())
}

/// A page of a tree's shares, including invalid ones.
pub async fn list(pool: &PgPool, root_id: Uuid, part: PageRange) -> sqlx::Result<Vec<Share>> {
    macro_rules! listed {
        ($on:tt, $order:tt) => {
            sqlx::query_as!(
                Row,
                r#"select id, root_id, made_by_kind, made_by_name, created_at, expires_at, last_seen_at, revoked_at,
                     revoked_at is null and expires_at > clock_timestamp() and not exists (
                       select 1 from owner o where o.id in (s.owner_id, s.made_by_id) and o.disabled_at is not null)
                       as "open!"
                   from share s
                   where root_id = $1 and ($2::uuid is null or id "#
                    + $on
                    + " $2) order by id "
                    + $order
                    + " limit $3",
                root_id,
                part.behind,
                part.limit
            )
            .fetch_all(pool)
            .await?
        };
    }
    let rows = by_age!(part.oldest_first, listed);
    Ok(rows.into_iter().map(Share::from).collect())
}

/// A page of the list of all trees' shares, or of an owner's.
pub async fn list_all(pool: &PgPool, owner_id: Option<Uuid>, part: PageRange) -> sqlx::Result<Vec<Share>> {
    // One branch each, so that both are ordered scans of their index.
    macro_rules! listed {
        ($on:tt, $order:tt) => {
            sqlx::query_as!(
                Row,
                r#"select s.id as "id!", root_id as "root_id!", made_by_kind as "made_by_kind!",
                     made_by_name as "made_by_name!", created_at as "created_at!", expires_at as "expires_at!",
                     last_seen_at, revoked_at,
                     revoked_at is null and expires_at > clock_timestamp() and not exists (
                       select 1 from owner o where o.id in (s.owner_id, s.made_by_id) and o.disabled_at is not null)
                       as "open!"
                   from ((select * from share where $1::uuid is null and ($2::uuid is null or id "#
                    + $on
                    + " $2) order by id "
                    + $order
                    + " limit $3)
                         union all
                         (select * from share where owner_id = $1 and ($2::uuid is null or id "
                    + $on
                    + " $2) order by id "
                    + $order
                    + " limit $3)) s
                   order by s.id "
                    + $order
                    + " limit $3",
                owner_id,
                part.behind,
                part.limit
            )
            .fetch_all(pool)
            .await?
        };
    }
    let rows = by_age!(part.oldest_first, listed);
    Ok(rows.into_iter().map(Share::from).collect())
}

struct Row {
    id: Uuid,
    root_id: Uuid,
    made_by_kind: String,
    made_by_name: String,
    created_at: OffsetDateTime,
    expires_at: OffsetDateTime,
    last_seen_at: Option<OffsetDateTime>,
    revoked_at: Option<OffsetDateTime>,
    open: bool,
}

impl From<Row> for Share {
    fn from(row: Row) -> Self {
        let kind = if row.made_by_kind == "user" { OwnerKind::User } else { OwnerKind::Service };
        Self {
            id: row.id,
            job_id: row.root_id,
            created_by: Owner { kind, name: row.made_by_name },
            created_at: Time(row.created_at),
            expires_at: Time(row.expires_at),
            open: row.open,
            last_seen_at: row.last_seen_at.map(Time),
            revoked_at: row.revoked_at.map(Time),
        }
    }
}

/// Revokes every share of a person's trees, and every share that the person created.
pub async fn revoke_all_of(tx: &mut Tx, owner_id: Uuid) -> sqlx::Result<()> {
    sqlx::query!(
        "update share set revoked_at = clock_timestamp()
         where (owner_id = $1 or made_by_id = $1) and revoked_at is null",
        owner_id
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Revokes every share of others' trees that a person created.
pub async fn revoke_for_others(tx: &mut Tx, made_by_id: Uuid) -> sqlx::Result<()> {
    sqlx::query!(
        "update share set revoked_at = clock_timestamp()
         where made_by_id = $1 and owner_id <> $1 and revoked_at is null",
        made_by_id
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Revokes every share of others' trees that was created with a token.
pub async fn revoke_of_token(tx: &mut Tx, credential_id: Uuid) -> sqlx::Result<()> {
    sqlx::query!(
        "update share set revoked_at = clock_timestamp()
         where credential_id = $1 and owner_id <> made_by_id and revoked_at is null",
        credential_id
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Revokes a share. Returns whether it was open.
pub async fn revoke(tx: &mut Tx, id: Uuid) -> sqlx::Result<bool> {
    let done = sqlx::query!("update share set revoked_at = clock_timestamp() where id = $1 and revoked_at is null", id)
        .execute(&mut **tx)
        .await?;
    Ok(done.rows_affected() > 0)
}
