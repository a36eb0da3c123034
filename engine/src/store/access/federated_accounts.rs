//! Accounts with an external identity: subjects of OpenID Connect providers, and users named by a proxy.

use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::store::Tx;

/// Owner of the account of an issuer's subject; records the use. A concurrent lookup of the same subject waits for this
/// transaction.
pub async fn find_link(tx: &mut Tx, issuer: &str, subject: &str) -> sqlx::Result<Option<Uuid>> {
    let lock = format!("subject {issuer} {subject}");
    sqlx::query!("select pg_advisory_xact_lock(hashtextextended($1::text, 0))", lock).execute(&mut **tx).await?;
    sqlx::query_scalar!(
        "update identity_link set last_used_at = clock_timestamp() where issuer = $1 and subject = $2
         returning owner_id",
        issuer,
        subject
    )
    .fetch_optional(&mut **tx)
    .await
}

/// Connects a subject with an account. Fails if the subject is connected already.
pub async fn insert_link(tx: &mut Tx, issuer: &str, subject: &str, owner_id: Uuid) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into identity_link (issuer, subject, owner_id) values ($1, $2, $3)",
        issuer,
        subject,
        owner_id
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// A person who has an email address.
#[derive(Clone, Debug)]
pub struct Addressee {
    pub id: Uuid,
    pub name: String,
    /// True if the address comes from a provider and not from an admin.
    pub email_by_provider: bool,
}

/// The person with this email address, compared without case.
pub async fn find_by_email(tx: &mut Tx, email: &str) -> sqlx::Result<Option<Addressee>> {
    sqlx::query_as!(
        Addressee,
        "select id, name, email_by_provider from owner where kind = 'user' and lower(email) = lower($1)",
        email
    )
    .fetch_optional(&mut **tx)
    .await
}

/// The account for this value of the proxy header; records the use. A concurrent lookup of the same value waits for
/// this transaction.
pub async fn find_proxy_user(tx: &mut Tx, value: &str) -> sqlx::Result<Option<Uuid>> {
    sqlx::query!("select pg_advisory_xact_lock(hashtextextended('proxy user ' || $1::text, 0))", value)
        .execute(&mut **tx)
        .await?;
    sqlx::query_scalar!(
        "update proxy_user set last_used_at = clock_timestamp() where value = $1 returning owner_id",
        value
    )
    .fetch_optional(&mut **tx)
    .await
}

/// Connects a value of the proxy header with an account. Returns the account that the value belongs to, which is
/// another one if it was connected before.
pub async fn insert_proxy_user(tx: &mut Tx, value: &str, owner_id: Uuid) -> sqlx::Result<Uuid> {
    sqlx::query_scalar!(
        "insert into proxy_user (value, owner_id) values ($1, $2)
         on conflict (value) do update set value = excluded.value
         returning owner_id",
        value,
        owner_id
    )
    .fetch_one(&mut **tx)
    .await
}

/// Removes all values of an account but one. Returns their number.
pub async fn remove_proxy_users(tx: &mut Tx, owner_id: Uuid, all_but: &str) -> sqlx::Result<u64> {
    let done = sqlx::query!("delete from proxy_user where owner_id = $1 and value <> $2", owner_id, all_but)
        .execute(&mut **tx)
        .await?;
    Ok(done.rows_affected())
}

/// Removes the connection of an account by an email address that it does not have anymore.
pub async fn remove_proxy_email(tx: &mut Tx, owner_id: Uuid, email: &str) -> sqlx::Result<()> {
    sqlx::query!("delete from proxy_user where owner_id = $1 and lower(value) = lower($2)", owner_id, email)
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// A new account with an external identity.
#[derive(Clone, Copy, Debug)]
pub struct NewPerson<'a> {
    pub name: &'a str,
    pub email: Option<&'a str>,
    /// True if the email address comes from a provider.
    pub email_by_provider: bool,
    pub role: &'a str,
}

/// Creates an account without a password. Returns false if the name or the email address is taken.
pub async fn insert_person(tx: &mut Tx, id: Uuid, new: NewPerson<'_>) -> sqlx::Result<bool> {
    let done = sqlx::query!(
        "insert into owner (id, kind, name, email, role, email_by_provider) values ($1, 'user', $2, $3, $4, $5)
         on conflict do nothing",
        id,
        new.name,
        new.email,
        new.role,
        new.email_by_provider
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// A connection with a provider.
#[derive(Clone, Debug)]
pub struct ConnectionRow {
    pub id: Uuid,
    pub issuer: String,
    pub subject: String,
    pub created_at: OffsetDateTime,
    pub last_used_at: OffsetDateTime,
}

/// The connections of a person, oldest first.
pub async fn list_links(pool: &PgPool, owner_id: Uuid) -> sqlx::Result<Vec<ConnectionRow>> {
    sqlx::query_as!(
        ConnectionRow,
        "select id, issuer, subject, created_at, last_used_at from identity_link where owner_id = $1
         order by created_at, id",
        owner_id
    )
    .fetch_all(pool)
    .await
}

/// Removes a connection of a person. Returns its issuer and subject.
pub async fn remove_link(tx: &mut Tx, owner_id: Uuid, id: Uuid) -> sqlx::Result<Option<(String, String)>> {
    let row = sqlx::query!(
        "delete from identity_link where owner_id = $1 and id = $2 returning issuer, subject",
        owner_id,
        id
    )
    .fetch_optional(&mut **tx)
    .await?;
    Ok(row.map(|row| (row.issuer, row.subject)))
}

/// Permanent first factors of a person; excludes one-time links.
#[derive(Clone, Debug)]
pub struct SignInMethods {
    /// True if a password and an email address are set.
    pub password: bool,
    pub passkeys: i64,
    /// Issuers of the connected providers.
    pub issuers: Vec<String>,
    /// True if a proxy names this account.
    pub proxy: bool,
}

/// First factors of a person.
pub async fn sign_in_methods(tx: &mut Tx, owner_id: Uuid) -> sqlx::Result<SignInMethods> {
    sqlx::query_as!(
        SignInMethods,
        r#"select password_hash is not null and email is not null as "password!",
             (select count(*) from passkey where owner_id = $1) as "passkeys!",
             array(select issuer from identity_link where owner_id = $1) as "issuers!",
             exists (select from proxy_user where owner_id = $1) as "proxy!"
           from owner where id = $1"#,
        owner_id
    )
    .fetch_one(&mut **tx)
    .await
}
