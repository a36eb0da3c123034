//! Settings of people: how they receive notices.

use sqlx::PgPool;
use uuid::Uuid;

use super::Tx;

/// Settings of a person, and the address of the account.
#[derive(Clone, Debug, Default)]
pub struct SettingsRow {
    pub in_page: bool,
    pub browser: bool,
    pub email: bool,
    /// Sealed.
    pub webhook: Option<String>,
    pub webhook_host: Option<String>,
    pub address: Option<String>,
}

macro_rules! select {
    ($owner_id:expr, $lock:tt) => {
        sqlx::query_as!(
            SettingsRow,
            r#"select coalesce(p.in_page, true) as "in_page!", coalesce(p.browser, false) as "browser!",
                 coalesce(p.email, false) as "email!", p.webhook as "webhook?", p.webhook_host as "webhook_host?",
                 o.email as address
               from owner o left join notice_settings p on p.owner_id = o.id where o.id = $1 "#
                + $lock,
            $owner_id
        )
    };
}

/// Settings of a person.
pub async fn find_settings(pool: &PgPool, owner_id: Uuid) -> Result<SettingsRow, sqlx::Error> {
    select!(owner_id, "").fetch_one(pool).await
}

/// Settings of a person, to be changed; the account is locked until then.
pub async fn lock_settings(tx: &mut Tx, owner_id: Uuid) -> Result<SettingsRow, sqlx::Error> {
    select!(owner_id, "for no key update of o").fetch_one(&mut **tx).await
}

/// Stores settings of a person.
pub async fn write_settings(tx: &mut Tx, owner_id: Uuid, row: &SettingsRow) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into notice_settings (owner_id, in_page, browser, email, webhook, webhook_host)
         values ($1, $2, $3, $4, $5, $6)
         on conflict (owner_id) do update
         set in_page = excluded.in_page, browser = excluded.browser, email = excluded.email,
           webhook = excluded.webhook, webhook_host = excluded.webhook_host",
        owner_id,
        row.in_page,
        row.browser,
        row.email,
        row.webhook,
        row.webhook_host
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Webhooks of people after an id, in order.
pub async fn webhooks(pool: &PgPool, after: Uuid) -> Result<Vec<(Uuid, String)>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"select owner_id, webhook as "webhook!" from notice_settings
           where owner_id > $1 and webhook is not null order by owner_id limit 500"#,
        after
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(|row| (row.owner_id, row.webhook)).collect())
}

/// Replaces a webhook that is still as it was read.
pub async fn replace_webhook(pool: &PgPool, owner_id: Uuid, old: &str, new: &str) -> Result<bool, sqlx::Error> {
    let done = sqlx::query!(
        "update notice_settings set webhook = $3 where owner_id = $1 and webhook = $2",
        owner_id,
        old,
        new
    )
    .execute(pool)
    .await?;
    Ok(done.rows_affected() == 1)
}
