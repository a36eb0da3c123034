//! Second factors of people: authenticator apps, passkeys, recovery codes, and the strength of sessions.
//!
//! Separate from `people`, whose accounts exist without second factors. Secrets arrive sealed or as SHA-256. Every
//! single use is one guarded statement, and its row count decides.

use sqlx::{PgExecutor, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::store::Tx;

/// The factors of a person, apart from the first one.
#[derive(Clone, Debug)]
pub struct FactorSummary {
    pub totp_since: Option<OffsetDateTime>,
    pub totp_name: Option<String>,
    pub passkeys: i64,
    pub recovery_codes: i64,
}

impl FactorSummary {
    /// Returns true if sign-in requires a second factor.
    pub fn any(&self) -> bool {
        self.totp_since.is_some() || self.passkeys > 0
    }

    /// Names of the accepted second factors, as in the API.
    pub fn methods(&self) -> Vec<String> {
        let all = [
            (self.totp_since.is_some(), "totp"),
            (self.passkeys > 0, "passkey"),
            (self.any() && self.recovery_codes > 0, "recovery_code"),
        ];
        all.into_iter().filter(|(there, _)| *there).map(|(_, name)| name.to_owned()).collect()
    }
}

/// The confirmed factors of a person.
pub async fn summary(executor: impl PgExecutor<'_>, owner_id: Uuid) -> sqlx::Result<FactorSummary> {
    sqlx::query_as!(
        FactorSummary,
        r#"select (select confirmed_at from totp where owner_id = $1) as totp_since,
             (select name from totp where owner_id = $1 and confirmed_at is not null) as totp_name,
             (select count(*) from passkey where owner_id = $1) as "passkeys!",
             (select count(*) from recovery_code where owner_id = $1 and used_at is null) as "recovery_codes!""#,
        owner_id
    )
    .fetch_one(executor)
    .await
}

/// Locks the person, so that concurrent changes to their factors are serialized. Returns the account's name, role and
/// email address.
pub async fn lock_person(tx: &mut Tx, owner_id: Uuid) -> sqlx::Result<Option<PersonForFactors>> {
    sqlx::query_as!(
        PersonForFactors,
        r#"select name, role as "role!", email from owner where id = $1 and kind = 'user' for no key update"#,
        owner_id
    )
    .fetch_optional(&mut **tx)
    .await
}

/// A person with second factors.
#[derive(Clone, Debug)]
pub struct PersonForFactors {
    pub name: String,
    pub role: String,
    pub email: Option<String>,
}

/// Stores an unconfirmed secret and replaces an earlier unconfirmed one. Returns false if there is a confirmed one.
pub async fn start_totp(tx: &mut Tx, owner_id: Uuid, secret: &str) -> sqlx::Result<bool> {
    let done = sqlx::query!(
        "insert into totp (owner_id, secret) values ($1, $2)
         on conflict (owner_id) do update
         set secret = excluded.secret, created_at = clock_timestamp(), last_step = 0 where totp.confirmed_at is null",
        owner_id,
        secret
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// The sealed secret of a person, and true if it is confirmed. An unconfirmed secret expires after an hour.
pub async fn find_totp(pool: &PgPool, owner_id: Uuid) -> sqlx::Result<Option<(String, bool)>> {
    let row = sqlx::query!(
        r#"select secret, confirmed_at is not null as "confirmed!" from totp
           where owner_id = $1 and (confirmed_at is not null or created_at > clock_timestamp() - interval '1 hour')"#,
        owner_id
    )
    .fetch_optional(pool)
    .await?;
    Ok(row.map(|row| (row.secret, row.confirmed)))
}

/// Secrets that are sealed with another key than this one.
pub async fn sealed_secrets(pool: &PgPool, key_id: &str) -> sqlx::Result<Vec<(Uuid, String)>> {
    let rows = sqlx::query!(
        "select owner_id, secret from totp where not starts_with(secret, 'sealed:v1:' || $1 || ':') order by owner_id",
        key_id
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(|row| (row.owner_id, row.secret)).collect())
}

/// Replaces a secret that is still as it was read.
pub async fn replace_secret(pool: &PgPool, owner_id: Uuid, old: &str, new: &str) -> sqlx::Result<bool> {
    let done = sqlx::query!("update totp set secret = $3 where owner_id = $1 and secret = $2", owner_id, old, new)
        .execute(pool)
        .await?;
    Ok(done.rows_affected() > 0)
}

/// Confirms a secret with the time step of its first code. Returns false if it was replaced, confirmed or removed in
/// the meantime.
pub async fn confirm_totp(tx: &mut Tx, owner_id: Uuid, secret: &str, step: i64) -> sqlx::Result<bool> {
    let done = sqlx::query!(
        "update totp set confirmed_at = clock_timestamp(), last_step = $3
         where owner_id = $1 and secret = $2 and confirmed_at is null",
        owner_id,
        secret,
        step
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Uses up a code. Returns false if this or a later code was used before.
pub async fn use_totp(executor: impl PgExecutor<'_>, owner_id: Uuid, step: i64) -> sqlx::Result<bool> {
    let done = sqlx::query!(
        "update totp set last_step = $2 where owner_id = $1 and confirmed_at is not null and last_step < $2",
        owner_id,
        step
    )
    .execute(executor)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Renames the confirmed authenticator app of a person. Returns false if there is none.
pub async fn rename_totp(pool: &PgPool, owner_id: Uuid, name: &str) -> sqlx::Result<bool> {
    let done =
        sqlx::query!("update totp set name = $2 where owner_id = $1 and confirmed_at is not null", owner_id, name)
            .execute(pool)
            .await?;
    Ok(done.rows_affected() > 0)
}

/// Removes the authenticator app. Returns false if there was none.
pub async fn remove_totp(tx: &mut Tx, owner_id: Uuid) -> sqlx::Result<bool> {
    let done = sqlx::query!("delete from totp where owner_id = $1", owner_id).execute(&mut **tx).await?;
    Ok(done.rows_affected() > 0)
}

/// Replaces every recovery code of a person.
pub async fn set_recovery_codes(tx: &mut Tx, owner_id: Uuid, hashes: &[Vec<u8>]) -> sqlx::Result<()> {
    sqlx::query!("delete from recovery_code where owner_id = $1", owner_id).execute(&mut **tx).await?;
    sqlx::query!(
        "insert into recovery_code (owner_id, hash) select $1, hash from unnest($2::bytea[]) as hash",
        owner_id,
        hashes
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Uses up a recovery code. Returns false if there is no such code or it was used.
pub async fn use_recovery_code(executor: impl PgExecutor<'_>, owner_id: Uuid, hash: &[u8]) -> sqlx::Result<bool> {
    let done = sqlx::query!(
        "update recovery_code set used_at = clock_timestamp()
         where owner_id = $1 and hash = $2 and used_at is null",
        owner_id,
        hash
    )
    .execute(executor)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// A passkey with its public key.
#[derive(Clone, Debug)]
pub struct PasskeyRow {
    pub id: Uuid,
    pub owner_id: Uuid,
    pub name: String,
    pub credential: String,
    pub created_at: OffsetDateTime,
    pub last_used_at: Option<OffsetDateTime>,
}

impl From<PasskeyRow> for domain::identity::factors::Passkey {
    fn from(row: PasskeyRow) -> Self {
        Self {
            id: row.id,
            name: row.name,
            created_at: domain::Time(row.created_at),
            last_used_at: row.last_used_at.map(domain::Time),
        }
    }
}

/// The passkeys of a person, oldest first.
pub async fn list_passkeys(executor: impl PgExecutor<'_>, owner_id: Uuid) -> sqlx::Result<Vec<PasskeyRow>> {
    sqlx::query_as!(
        PasskeyRow,
        "select id, owner_id, name, credential, created_at, last_used_at from passkey where owner_id = $1 order by id",
        owner_id
    )
    .fetch_all(executor)
    .await
}

/// The passkey with this credential id.
pub async fn find_passkey(pool: &PgPool, credential_id: &[u8]) -> sqlx::Result<Option<PasskeyRow>> {
    sqlx::query_as!(
        PasskeyRow,
        "select id, owner_id, name, credential, created_at, last_used_at from passkey where credential_id = $1",
        credential_id
    )
    .fetch_optional(pool)
    .await
}

/// Stores a new passkey. `None` if its credential exists.
pub async fn insert_passkey(
    tx: &mut Tx,
    id: Uuid,
    owner_id: Uuid,
    credential_id: &[u8],
    credential: &str,
    name: &str,
) -> sqlx::Result<Option<OffsetDateTime>> {
    sqlx::query_scalar!(
        "insert into passkey (id, owner_id, credential_id, credential, name) values ($1, $2, $3, $4, $5)
         on conflict do nothing returning created_at",
        id,
        owner_id,
        credential_id,
        credential,
        name
    )
    .fetch_optional(&mut **tx)
    .await
}

/// Records the use of a passkey, with its new counters.
pub async fn touch_passkey(tx: &mut Tx, id: Uuid, credential: &str) -> sqlx::Result<bool> {
    let done = sqlx::query!(
        "update passkey set last_used_at = clock_timestamp(), credential = $2 where id = $1",
        id,
        credential
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Renames a passkey of a person. Returns false if there is none.
pub async fn rename_passkey(pool: &PgPool, owner_id: Uuid, id: Uuid, name: &str) -> sqlx::Result<bool> {
    let done = sqlx::query!("update passkey set name = $3 where id = $2 and owner_id = $1", owner_id, id, name)
        .execute(pool)
        .await?;
    Ok(done.rows_affected() > 0)
}

/// Removes a passkey of a person. Returns its name.
pub async fn remove_passkey(tx: &mut Tx, owner_id: Uuid, id: Uuid) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar!("delete from passkey where id = $2 and owner_id = $1 returning name", owner_id, id)
        .fetch_optional(&mut **tx)
        .await
}

/// Removes every factor and recovery code of a person. Returns how many factors there were.
pub async fn remove_all(tx: &mut Tx, owner_id: Uuid) -> sqlx::Result<u64> {
    let totp = sqlx::query!("delete from totp where owner_id = $1", owner_id).execute(&mut **tx).await?;
    let passkeys = sqlx::query!("delete from passkey where owner_id = $1", owner_id).execute(&mut **tx).await?;
    remove_recovery_codes(tx, owner_id).await?;
    Ok(totp.rows_affected() + passkeys.rows_affected())
}

/// Removes every recovery code of a person.
pub async fn remove_recovery_codes(tx: &mut Tx, owner_id: Uuid) -> sqlx::Result<()> {
    sqlx::query!("delete from recovery_code where owner_id = $1", owner_id).execute(&mut **tx).await?;
    Ok(())
}

/// Uses up a challenge, and deletes expired ones. Returns false if it was used before.
pub async fn use_challenge(tx: &mut Tx, hash: &[u8], seconds: i32) -> sqlx::Result<bool> {
    sqlx::query!("delete from used_challenge where expires_at < clock_timestamp()").execute(&mut **tx).await?;
    let done = sqlx::query!(
        "insert into used_challenge (hash, expires_at)
         values ($1, clock_timestamp() + make_interval(secs => $2)) on conflict do nothing",
        hash,
        f64::from(seconds)
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Records the sign-in method of a session, and that the person authenticated `age_seconds` ago.
pub async fn describe_session(
    tx: &mut Tx,
    hash: &[u8],
    method: &str,
    mfa: bool,
    age_seconds: i64,
    proxy_user: Option<&str>,
) -> sqlx::Result<()> {
    sqlx::query!(
        "update session
         set method = $2, mfa = $3, proxy_user = $4, authenticated_at = clock_timestamp() - make_interval(secs => $5)
         where hash = $1",
        hash,
        method,
        mfa,
        proxy_user,
        age_seconds as f64
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Strength of a session.
#[derive(Clone, Copy, Debug)]
pub struct SessionStrength {
    /// True if the person authenticated within the given seconds.
    pub recent: bool,
    pub mfa: bool,
}

/// Strength of a session. `None` if it has ended.
pub async fn session_strength(pool: &PgPool, id: Uuid, seconds: i32) -> sqlx::Result<Option<SessionStrength>> {
    sqlx::query_as!(
        SessionStrength,
        r#"select authenticated_at > clock_timestamp() - make_interval(secs => $2) as "recent!", mfa
           from session where id = $1 and ended_at is null"#,
        id,
        f64::from(seconds)
    )
    .fetch_optional(pool)
    .await
}

/// Records that the person of a session has just authenticated.
pub async fn step_up_session(tx: &mut Tx, id: Uuid, mfa: bool) -> sqlx::Result<bool> {
    let done = sqlx::query!(
        "update session set authenticated_at = clock_timestamp(), mfa = mfa or $2
         where id = $1 and ended_at is null",
        id,
        mfa
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Sets for every session of a person whether a second factor was used.
pub async fn set_sessions_mfa(tx: &mut Tx, owner_id: Uuid, mfa: bool) -> sqlx::Result<()> {
    sqlx::query!("update session set mfa = $2 where owner_id = $1 and ended_at is null and mfa <> $2", owner_id, mfa)
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// A person about to sign in, with the fields that the second stage needs.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub name: String,
    pub disabled: bool,
    pub password_hash: Option<String>,
}

/// The person of this id, about to sign in.
pub async fn find_candidate(executor: impl PgExecutor<'_>, owner_id: Uuid) -> sqlx::Result<Option<Candidate>> {
    sqlx::query_as!(
        Candidate,
        r#"select name, disabled_at is not null as "disabled!", password_hash
           from owner where id = $1 and kind = 'user'"#,
        owner_id
    )
    .fetch_optional(executor)
    .await
}

/// Records the creator of a one-time link.
pub async fn set_link_maker(
    executor: impl PgExecutor<'_>,
    hash: &[u8],
    made_by_id: Uuid,
    made_by_name: &str,
) -> sqlx::Result<()> {
    sqlx::query!(
        "update sign_in_link set made_by_id = $2, made_by_name = $3 where hash = $1",
        hash,
        made_by_id,
        made_by_name
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// The person that an open link signs in, and its creator. `None` if the link is not open or is for the first admin.
pub async fn find_link(executor: impl PgExecutor<'_>, hash: &[u8]) -> sqlx::Result<Option<(Uuid, Option<String>)>> {
    let row = sqlx::query!(
        r#"select owner_id as "owner_id!", made_by_name from sign_in_link
           where hash = $1 and owner_id is not null and used_at is null and expires_at > clock_timestamp()"#,
        hash
    )
    .fetch_optional(executor)
    .await?;
    Ok(row.map(|row| (row.owner_id, row.made_by_name)))
}
