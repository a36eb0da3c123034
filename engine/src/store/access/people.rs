//! Accounts of people: list, credentials and sessions.
//!
//! Separate from `identity`, which serves every request. Statements that revoke rights increment `credential_change`
//! in the same transaction, so that no server uses cached credentials.

use sqlx::{PgExecutor, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::store::{
    Tx,
    page_range::{NamedPageRange, PageRange, by_age, in_named_order},
};

/// A person as lists show them.
#[derive(Clone, Debug)]
pub struct PersonRow {
    pub id: Uuid,
    pub name: String,
    pub email: Option<String>,
    pub role: String,
    pub disabled: bool,
    pub has_password: bool,
    pub proxy_user: Option<String>,
    pub created_at: OffsetDateTime,
    pub last_seen_at: Option<OffsetDateTime>,
}

impl From<PersonRow> for domain::identity::account::User {
    fn from(row: PersonRow) -> Self {
        Self {
            id: row.id,
            name: row.name,
            email: row.email,
            role: row.role,
            disabled: row.disabled,
            has_password: row.has_password,
            proxy_user: row.proxy_user,
            created_at: domain::Time(row.created_at),
            last_seen_at: row.last_seen_at.map(domain::Time),
        }
    }
}

/// A page of the list of people.
pub async fn list(pool: &PgPool, part: &NamedPageRange) -> sqlx::Result<Vec<PersonRow>> {
    let (at, name) = part.place();
    macro_rules! listed {
        ($behind:tt, $order:tt) => {
            sqlx::query_as!(
                PersonRow,
                r#"select id, name, email, role as "role!", disabled_at is not null as "disabled!",
                     password_hash is not null as "has_password!", created_at,
                     (select min(p.value) from proxy_user p where p.owner_id = owner.id) as proxy_user,
                     (select max(s.last_seen_at) from session s where s.owner_id = owner.id) as last_seen_at
                   from owner where kind = 'user' and "#
                    + $behind
                    + " order by "
                    + $order
                    + " limit $3",
                at,
                name,
                part.limit
            )
            .fetch_all(pool)
            .await
        };
    }
    in_named_order!(part.order, listed)
}

/// The person of this id.
pub async fn find(executor: impl PgExecutor<'_>, id: Uuid) -> sqlx::Result<Option<PersonRow>> {
    sqlx::query_as!(
        PersonRow,
        r#"select id, name, email, role as "role!", disabled_at is not null as "disabled!",
             password_hash is not null as "has_password!", created_at,
             (select min(p.value) from proxy_user p where p.owner_id = owner.id) as proxy_user,
             (select max(s.last_seen_at) from session s where s.owner_id = owner.id) as last_seen_at
           from owner where kind = 'user' and id = $1"#,
        id
    )
    .fetch_optional(executor)
    .await
}

/// Creates a person. `None` if the name or the address is taken.
pub async fn insert(
    tx: &mut Tx,
    id: Uuid,
    name: &str,
    email: &str,
    role: &str,
    password_hash: Option<&str>,
    must_change_password: bool,
) -> sqlx::Result<Option<PersonRow>> {
    sqlx::query_as!(
        PersonRow,
        r#"insert into owner (id, kind, name, email, role, password_hash, must_change_password)
           values ($1, 'user', $2, $3, $4, $5, $6)
           on conflict do nothing
           returning id, name, email, role as "role!", false as "disabled!",
             password_hash is not null as "has_password!", created_at,
             null::text as proxy_user, null::timestamptz as last_seen_at"#,
        id,
        name,
        email,
        role,
        password_hash,
        must_change_password
    )
    .fetch_optional(&mut **tx)
    .await
}

/// Person with this name or address, compared without case; true if the name matches.
pub async fn find_duplicate(pool: &PgPool, name: &str, email: &str) -> sqlx::Result<Option<(Uuid, bool)>> {
    let row = sqlx::query!(
        r#"select id, name = $1 as "by_name!" from owner
           where kind = 'user' and (name = $1 or lower(email) = lower($2)) order by 2 desc limit 1"#,
        name,
        email
    )
    .fetch_optional(pool)
    .await?;
    Ok(row.map(|row| (row.id, row.by_name)))
}

/// Locks and returns every enabled admin, in order, so that two admins who demote each other do not both succeed.
pub async fn lock_admins(tx: &mut Tx) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar!(
        "select id from owner where role = 'admin' and disabled_at is null order by id for no key update"
    )
    .fetch_all(&mut **tx)
    .await
}

/// Changes the given fields. Returns whether the person exists; fails on `owner_email` if another person has the
/// address.
pub async fn update(
    tx: &mut Tx,
    id: Uuid,
    role: Option<&str>,
    disabled: Option<bool>,
    email: Option<&str>,
) -> sqlx::Result<bool> {
    let done = sqlx::query!(
        "update owner
         set role = coalesce($2, role),
             email = coalesce($3, email),
             -- An address that an admin gives is the admin's word.
             email_by_provider = email_by_provider and email is not distinct from coalesce($3, email),
             disabled_at = case when $4::boolean then coalesce(disabled_at, clock_timestamp())
                                when not $4::boolean then null else disabled_at end
         where id = $1 and kind = 'user'",
        id,
        role,
        email,
        disabled
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Voids every open link of a person.
pub async fn void_links(tx: &mut Tx, owner_id: Uuid) -> sqlx::Result<()> {
    sqlx::query!(
        "update sign_in_link set used_at = clock_timestamp() where owner_id = $1 and used_at is null",
        owner_id
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Credentials with which a person signs in.
#[derive(Clone, Debug)]
pub struct Account {
    pub id: Uuid,
    pub password_hash: Option<String>,
    pub disabled: bool,
}

/// The account of this address, however it is written.
pub async fn find_account(pool: &PgPool, email: &str) -> sqlx::Result<Option<Account>> {
    sqlx::query_as!(
        Account,
        r#"select id, password_hash, disabled_at is not null as "disabled!"
           from owner where kind = 'user' and email is not null and lower(email) = lower($1)"#,
        email
    )
    .fetch_optional(pool)
    .await
}

/// A person's password hash, and true if this session may set a password without the old one: within an hour of a
/// one-time link. `None` if the person does not exist or the session has ended.
pub async fn find_password(
    pool: &PgPool,
    owner_id: Uuid,
    session_id: Uuid,
) -> sqlx::Result<Option<(Option<String>, bool)>> {
    let row = sqlx::query!(
        r#"select password_hash,
             s.by_link and s.created_at > clock_timestamp() - interval '1 hour' as "by_link!"
           from owner join session s on s.owner_id = owner.id
           where owner.id = $1 and s.id = $2 and s.ended_at is null"#,
        owner_id,
        session_id
    )
    .fetch_optional(pool)
    .await?;
    Ok(row.map(|row| (row.password_hash, row.by_link)))
}

/// Sets a password, unless another was set meanwhile.
pub async fn set_password(tx: &mut Tx, owner_id: Uuid, before: Option<&str>, hash: &str) -> sqlx::Result<bool> {
    let done = sqlx::query!(
        "update owner set password_hash = $3, must_change_password = false
         where id = $1 and kind = 'user' and password_hash is not distinct from $2",
        owner_id,
        before,
        hash
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Stores the same password under another hash, unless another was set meanwhile.
pub async fn rehash_password(pool: &PgPool, owner_id: Uuid, before: &str, hash: &str) -> sqlx::Result<()> {
    sqlx::query!("update owner set password_hash = $3 where id = $1 and password_hash = $2", owner_id, before, hash)
        .execute(pool)
        .await?;
    Ok(())
}

/// A session as lists show it.
#[derive(Clone, Debug)]
pub struct SessionRow {
    pub id: Uuid,
    pub user_agent: String,
    pub created_at: OffsetDateTime,
    pub last_seen_at: OffsetDateTime,
    pub expires_at: OffsetDateTime,
}

/// A page of the list of a person's open sessions.
pub async fn list_sessions(pool: &PgPool, owner_id: Uuid, part: PageRange) -> sqlx::Result<Vec<SessionRow>> {
    macro_rules! listed {
        ($on:tt, $order:tt) => {
            sqlx::query_as!(
                SessionRow,
                "select id, user_agent, created_at, last_seen_at, expires_at from session
                 where owner_id = $1 and ended_at is null and expires_at > clock_timestamp()
                   and ($2::uuid is null or id "
                    + $on
                    + " $2) order by id "
                    + $order
                    + " limit $3",
                owner_id,
                part.behind,
                part.limit
            )
            .fetch_all(pool)
            .await
        };
    }
    by_age!(part.oldest_first, listed)
}

/// Ends sessions of a person: only one, or all but one. Returns the number of open ones.
pub async fn end_sessions(tx: &mut Tx, owner_id: Uuid, only: Option<Uuid>, all_but: Option<Uuid>) -> sqlx::Result<u64> {
    let done = sqlx::query!(
        "update session set ended_at = clock_timestamp()
         where owner_id = $1 and ended_at is null
           and ($2::uuid is null or id = $2) and ($3::uuid is null or id <> $3)",
        owner_id,
        only,
        all_but
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected())
}

/// Returns true if a person has or had a session with this id.
pub async fn has_session(pool: &PgPool, owner_id: Uuid, id: Uuid) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"select exists (select 1 from session where owner_id = $1 and id = $2) as "exists!""#,
        owner_id,
        id
    )
    .fetch_one(pool)
    .await
}

/// Announces to every server that rights were revoked. Must be the last statement of its transaction, because
/// concurrent ones wait for it.
pub async fn count_change(tx: &mut Tx) -> sqlx::Result<()> {
    sqlx::query!("update credential_change set n = n + 1").execute(&mut **tx).await?;
    Ok(())
}

/// Number of revocations of rights so far, including expired tokens.
pub async fn changes(pool: &PgPool) -> sqlx::Result<i64> {
    sqlx::query_scalar!(
        r#"select n + (select count(*) from token where expires_at <= clock_timestamp()) as "n!" from credential_change"#
    )
    .fetch_one(pool)
    .await
}

/// Deletes sessions and links that ended thirty days ago, and shares of trees without a tombstone, at most a thousand of
/// each. Returns the number of rows.
pub async fn forget(pool: &PgPool) -> sqlx::Result<u64> {
    let sessions = sqlx::query!(
        "delete from session where ctid = any(array(
           select ctid from session where coalesce(ended_at, expires_at) < (select clock_timestamp()) - interval '30 days'
           limit 1000 for update skip locked))"
    )
    .execute(pool)
    .await?;
    let links = sqlx::query!(
        "delete from sign_in_link where ctid = any(array(
           select ctid from sign_in_link where expires_at < (select clock_timestamp()) - interval '30 days'
           limit 1000 for update skip locked))"
    )
    .execute(pool)
    .await?;
    let shares = sqlx::query!(
        "delete from share where ctid = any(array(
           select s.ctid from share s
           where not exists (select 1 from job where id = s.root_id)
             and not exists (select 1 from tombstone where job_id = s.root_id)
           limit 1000 for update of s skip locked))"
    )
    .execute(pool)
    .await?;
    Ok(sessions.rows_affected() + links.rows_affected() + shares.rows_affected())
}

/// Language that a person chose.
pub async fn language(pool: &PgPool, owner_id: Uuid) -> sqlx::Result<Option<String>> {
    let language =
        sqlx::query_scalar!("select language from owner where id = $1", owner_id).fetch_optional(pool).await?;
    Ok(language.flatten())
}

/// Sets the language of a person; `None`: that of the browser.
pub async fn set_language(pool: &PgPool, owner_id: Uuid, language: Option<&str>) -> sqlx::Result<()> {
    sqlx::query!("update owner set language = $2 where id = $1 and kind = 'user'", owner_id, language)
        .execute(pool)
        .await?;
    Ok(())
}
