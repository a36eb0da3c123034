//! Owners and the credentials that stand for them: tokens, sessions, sign-in links.
//!
//! Secrets come in as SHA-256 and are never stored otherwise. Nothing here decides what a caller may
//! do; see `auth`.

use sqlx::{PgConnection, PgExecutor, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::store::Tx;

/// A token that may be used, with its service.
#[derive(Debug)]
pub struct TokenOwner {
    pub id: Uuid,
    pub owner_id: Uuid,
    pub owner_name: String,
    pub name: String,
    pub scopes: Vec<String>,
    pub work_types: Option<Vec<String>>,
}

/// The token with this hash, unless it was revoked or has expired, or its service is disabled.
pub async fn find_token(pool: &PgPool, hash: &[u8]) -> sqlx::Result<Option<TokenOwner>> {
    sqlx::query_as!(
        TokenOwner,
        r#"select token.id, owner_id, owner.name as owner_name, token.name, scopes, work_types
           from token join owner on owner.id = owner_id
           where hash = $1 and revoked_at is null and disabled_at is null
             and (token.expires_at is null or token.expires_at > clock_timestamp())"#,
        hash
    )
    .fetch_optional(pool)
    .await
}

/// Records the use of the token with this hash, at most every ten minutes.
pub async fn touch_token_with(pool: &PgPool, hash: &[u8]) -> sqlx::Result<()> {
    sqlx::query!(
        "update token set last_used_at = clock_timestamp()
         where hash = $1 and revoked_at is null
           and (last_used_at is null or last_used_at < clock_timestamp() - interval '10 minutes')",
        hash
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Records the use of a token, at most once a minute.
pub async fn touch_token(pool: &PgPool, id: Uuid) -> sqlx::Result<()> {
    sqlx::query!(
        "update token set last_used_at = clock_timestamp()
         where id = $1 and (last_used_at is null or last_used_at < clock_timestamp() - interval '1 minute')",
        id
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// A session that may be used, with its person.
#[derive(Debug)]
pub struct SessionOwner {
    pub id: Uuid,
    pub owner_id: Uuid,
    pub owner_name: String,
    pub role: Option<String>,
    pub must_change_password: bool,
    /// True if it was begun with a second factor.
    pub mfa: bool,
    /// Value of the proxy header with which it was begun.
    pub proxy_user: Option<String>,
}

/// The session with this hash, unless it was ended or has been idle too long.
pub async fn find_session(pool: &PgPool, hash: &[u8]) -> sqlx::Result<Option<SessionOwner>> {
    sqlx::query_as!(
        SessionOwner,
        r#"select session.id, owner_id, name as owner_name, role, must_change_password, mfa, proxy_user
           from session join owner on owner.id = owner_id
           where hash = $1 and ended_at is null and expires_at > clock_timestamp() and disabled_at is null"#,
        hash
    )
    .fetch_optional(pool)
    .await
}

/// Records the use of a session, at most once a minute, and extends it, to at most 90 days from its start.
pub async fn touch_session(pool: &PgPool, id: Uuid, idle_days: i32) -> sqlx::Result<()> {
    sqlx::query!(
        "update session
         set last_seen_at = clock_timestamp(),
             expires_at = least(clock_timestamp() + make_interval(days => $2), created_at + interval '90 days')
         where id = $1 and ended_at is null and last_seen_at < clock_timestamp() - interval '1 minute'",
        id,
        idle_days
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Starts a session, unless the person is disabled. Returns whether it did.
pub async fn insert_session(
    connection: &mut PgConnection,
    id: Uuid,
    owner_id: Uuid,
    hash: &[u8],
    user_agent: &str,
    by_link: bool,
    idle_days: i32,
) -> sqlx::Result<bool> {
    let done = sqlx::query!(
        "insert into session (id, owner_id, hash, user_agent, by_link, expires_at)
         select $1, owner.id, $3, $4, $5, clock_timestamp() + make_interval(days => $6)
         from owner where owner.id = $2 and kind = 'user' and disabled_at is null for share",
        id,
        owner_id,
        hash,
        user_agent,
        by_link,
        idle_days
    )
    .execute(connection)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Ends the session with this hash. Returns its id and owner; `None` if it was not open.
pub async fn end_session(tx: &mut Tx, hash: &[u8]) -> sqlx::Result<Option<(Uuid, Uuid)>> {
    let row = sqlx::query!(
        "update session set ended_at = clock_timestamp() where hash = $1 and ended_at is null returning id, owner_id",
        hash
    )
    .fetch_optional(&mut **tx)
    .await?;
    Ok(row.map(|row| (row.id, row.owner_id)))
}

/// Replaces the secret of a session.
pub async fn renew_session(tx: &mut Tx, id: Uuid, hash: &[u8]) -> sqlx::Result<()> {
    sqlx::query!("update session set hash = $2 where id = $1", id, hash).execute(&mut **tx).await?;
    Ok(())
}

/// Returns true if there is an admin.
pub async fn has_admin(on: impl PgExecutor<'_>) -> sqlx::Result<bool> {
    sqlx::query_scalar!(r#"select exists (select 1 from owner where role = 'admin') as "exists!""#).fetch_one(on).await
}

/// The person of this name.
pub async fn find_user(pool: &PgPool, name: &str) -> sqlx::Result<Option<Uuid>> {
    sqlx::query_scalar!("select id from owner where kind = 'user' and name = $1", name).fetch_optional(pool).await
}

/// The admins, oldest first.
pub async fn list_admins(pool: &PgPool) -> sqlx::Result<Vec<(Uuid, String)>> {
    let rows =
        sqlx::query!("select id, name from owner where role = 'admin' and disabled_at is null order by created_at, id")
            .fetch_all(pool)
            .await?;
    Ok(rows.into_iter().map(|row| (row.id, row.name)).collect())
}

/// Creates the first admin. `None` if there is an admin already, or the name is taken.
pub async fn insert_first_admin(connection: &mut PgConnection, id: Uuid, name: &str) -> sqlx::Result<Option<Uuid>> {
    // Of two concurrent inserts, the second waits for owner_name and then finds the first.
    sqlx::query_scalar!(
        "insert into owner (id, kind, name, role)
         select $1, 'user', $2, 'admin' where not exists (select 1 from owner where role = 'admin')
         on conflict on constraint owner_name do nothing
         returning id",
        id,
        name
    )
    .fetch_optional(connection)
    .await
}

/// Stores a sign-in link, and voids older links of the same person. Without `owner_id`, the link is for the first
/// admin, and each server has its own.
pub async fn insert_link(
    executor: impl PgExecutor<'_>,
    id: Uuid,
    hash: &[u8],
    owner_id: Option<Uuid>,
    minutes: i32,
) -> sqlx::Result<()> {
    sqlx::query!(
        "with voided as (
           update sign_in_link set used_at = clock_timestamp() where owner_id = $3 and used_at is null)
         insert into sign_in_link (id, hash, owner_id, expires_at)
         values ($1, $2, $3, clock_timestamp() + make_interval(mins => $4))",
        id,
        hash,
        owner_id,
        minutes
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// Returns true if the link with this hash is still valid.
pub async fn is_link_open(pool: &PgPool, hash: &[u8]) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"select exists (
             select 1 from sign_in_link
             where hash = $1 and used_at is null and expires_at > clock_timestamp()
               and (owner_id is not null or not exists (select 1 from owner where role = 'admin'))) as "exists!""#,
        hash
    )
    .fetch_one(pool)
    .await
}

/// Uses up a link. Returns the person that it signs in; `None` if there is no such link or it was used or has
/// expired.
pub async fn use_link(connection: &mut PgConnection, hash: &[u8]) -> sqlx::Result<Option<Option<Uuid>>> {
    sqlx::query_scalar!(
        "update sign_in_link set used_at = clock_timestamp()
         where hash = $1 and used_at is null and expires_at > clock_timestamp()
         returning owner_id",
        hash
    )
    .fetch_optional(connection)
    .await
}

/// A service as the API lists it.
#[derive(Debug)]
pub struct ServiceRow {
    pub id: Uuid,
    pub name: String,
    pub disabled: bool,
    pub created_at: OffsetDateTime,
}

impl From<ServiceRow> for domain::identity::access::Service {
    fn from(row: ServiceRow) -> Self {
        Self { id: row.id, name: row.name, disabled: row.disabled, created_at: row.created_at.into() }
    }
}

/// Creates a service. `None` if the name is taken.
pub async fn insert_service(executor: impl PgExecutor<'_>, id: Uuid, name: &str) -> sqlx::Result<Option<ServiceRow>> {
    sqlx::query_as!(
        ServiceRow,
        r#"insert into owner (id, kind, name) values ($1, 'service', $2)
           on conflict on constraint owner_name do nothing
           returning id, name, disabled_at is not null as "disabled!", created_at"#,
        id,
        name
    )
    .fetch_optional(executor)
    .await
}

/// The service of this name.
pub async fn find_service(pool: &PgPool, name: &str) -> sqlx::Result<Option<ServiceRow>> {
    sqlx::query_as!(
        ServiceRow,
        r#"select id, name, disabled_at is not null as "disabled!", created_at
           from owner where kind = 'service' and name = $1"#,
        name
    )
    .fetch_optional(pool)
    .await
}

/// The service of this id.
pub async fn get_service(executor: impl PgExecutor<'_>, id: Uuid) -> sqlx::Result<Option<ServiceRow>> {
    sqlx::query_as!(
        ServiceRow,
        r#"select id, name, disabled_at is not null as "disabled!", created_at
           from owner where kind = 'service' and id = $1"#,
        id
    )
    .fetch_optional(executor)
    .await
}

/// Disables or enables a service. Returns whether this changed it; `false` also if it does not exist.
pub async fn set_service_disabled(connection: &mut PgConnection, id: Uuid, disabled: bool) -> sqlx::Result<bool> {
    let done = sqlx::query!(
        "update owner set disabled_at = case when $2 then clock_timestamp() end
         where id = $1 and kind = 'service' and (disabled_at is not null) <> $2",
        id,
        disabled
    )
    .execute(connection)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Stores a new token.
#[expect(clippy::too_many_arguments, reason = "one row, column by column")]
pub async fn insert_token(
    executor: impl PgExecutor<'_>,
    id: Uuid,
    owner_id: Uuid,
    name: &str,
    hash: &[u8],
    scopes: &[String],
    work_types: Option<&[String]>,
    expires_at: Option<OffsetDateTime>,
) -> sqlx::Result<OffsetDateTime> {
    sqlx::query_scalar!(
        "insert into token (id, owner_id, name, hash, scopes, work_types, expires_at) values ($1, $2, $3, $4, $5, $6, $7)
         returning created_at",
        id,
        owner_id,
        name,
        hash,
        scopes,
        work_types,
        expires_at
    )
    .fetch_one(executor)
    .await
}

/// Stores a token that may exist; a revoked one is restored with the current scopes, and counts as used.
pub async fn ensure_token(
    pool: &PgPool,
    id: Uuid,
    owner_id: Uuid,
    name: &str,
    hash: &[u8],
    scopes: &[String],
) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into token (id, owner_id, name, hash, scopes) values ($1, $2, $3, $4, $5)
         on conflict on constraint token_hash do update
           set revoked_at = null, scopes = excluded.scopes, last_used_at = clock_timestamp()",
        id,
        owner_id,
        name,
        hash,
        scopes
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// A token that was revoked because nobody used it, and its service.
#[derive(Clone, Copy, Debug)]
pub struct UnusedToken {
    pub id: Uuid,
    pub owner_id: Uuid,
}

/// Revokes the tokens of a service that were not used for an hour.
pub async fn revoke_unused_tokens(connection: &mut PgConnection, service: &str) -> sqlx::Result<Vec<UnusedToken>> {
    sqlx::query_as!(
        UnusedToken,
        "update token set revoked_at = clock_timestamp()
         where owner_id = (select id from owner where kind = 'service' and name = $1) and revoked_at is null
           and coalesce(last_used_at, created_at) < clock_timestamp() - interval '1 hour'
         returning id, owner_id",
        service
    )
    .fetch_all(connection)
    .await
}

/// Revokes a token; idempotent. Returns whether it was open; `None` if it does not exist.
pub async fn revoke_token(executor: impl PgExecutor<'_>, id: Uuid) -> sqlx::Result<Option<RevokedToken>> {
    sqlx::query_as!(
        RevokedToken,
        r#"update token set revoked_at = coalesce(token.revoked_at, clock_timestamp())
           from token before where token.id = $1 and before.id = token.id
           returning token.owner_id, token.name, before.revoked_at is null as "was_open!""#,
        id
    )
    .fetch_optional(executor)
    .await
}

/// A revoked token.
#[derive(Debug)]
pub struct RevokedToken {
    pub owner_id: Uuid,
    pub name: String,
    pub was_open: bool,
}
