//! Accounts that others vouch for: subjects of OpenID Connect providers, people whom a proxy names.

use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use super::Tx;

/// Owner of the account of an issuer's subject; notes the use.
pub async fn find_link(tx: &mut Tx, issuer: &str, subject: &str) -> sqlx::Result<Option<Uuid>> {
    sqlx::query_scalar!(
        "update identity_link set last_used_at = clock_timestamp() where issuer = $1 and subject = $2
         returning owner_id",
        issuer,
        subject
    )
    .fetch_optional(&mut **tx)
    .await
}

/// Connects a subject with an account. Fails where it is connected already.
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

/// The person who has this email address, however it is written, with their name.
pub async fn find_by_email(tx: &mut Tx, email: &str) -> sqlx::Result<Option<(Uuid, String)>> {
    let row = sqlx::query!("select id, name from owner where kind = 'user' and lower(email) = lower($1)", email)
        .fetch_optional(&mut **tx)
        .await?;
    Ok(row.map(|row| (row.id, row.name)))
}

/// The person of this name.
pub async fn find_by_name(tx: &mut Tx, name: &str) -> sqlx::Result<Option<(Uuid, String)>> {
    let row = sqlx::query!("select id, name from owner where kind = 'user' and name = $1", name)
        .fetch_optional(&mut **tx)
        .await?;
    Ok(row.map(|row| (row.id, row.name)))
}

/// Creates an account without a password. False: the name or the email address is taken.
pub async fn insert_person(tx: &mut Tx, id: Uuid, name: &str, email: Option<&str>, role: &str) -> sqlx::Result<bool> {
    let done = sqlx::query!(
        "insert into owner (id, kind, name, email, role) values ($1, 'user', $2, $3, $4) on conflict do nothing",
        id,
        name,
        email,
        role
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

/// First factors of a person that last: one-time links are not among them.
#[derive(Clone, Debug)]
pub struct SignInMethods {
    /// True with a password and the email address that goes with it.
    pub password: bool,
    pub passkeys: i64,
    /// Issuers of the connected providers.
    pub issuers: Vec<String>,
}

/// First factors of a person.
pub async fn sign_in_methods(tx: &mut Tx, owner_id: Uuid) -> sqlx::Result<SignInMethods> {
    sqlx::query_as!(
        SignInMethods,
        r#"select password_hash is not null and email is not null as "password!",
             (select count(*) from passkey where owner_id = $1) as "passkeys!",
             array(select issuer from identity_link where owner_id = $1) as "issuers!"
           from owner where id = $1"#,
        owner_id
    )
    .fetch_one(&mut **tx)
    .await
}
