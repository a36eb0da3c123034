//! Accounts that others vouch for: subjects of OpenID Connect providers, people whom a proxy names.

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
