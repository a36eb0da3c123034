//! Messages to configured URLs: written in the commit of their event, tried by any server, deleted when they arrived
//! or expired.

use sqlx::PgPool;
use time::OffsetDateTime;

use crate::store::Tx;

/// A message taken by this server.
#[derive(Clone, Debug)]
pub struct TakenPost {
    pub id: String,
    pub purpose: String,
    pub body: String,
    /// Time when it was first due, and the number of tries since then.
    pub began_at: OffsetDateTime,
    pub tries: i32,
    pub leased_until: OffsetDateTime,
    /// The database's clock.
    pub now: OffsetDateTime,
}

/// Writes a message; idempotent by id.
pub async fn add(tx: &mut Tx, id: &str, purpose: &str, body: &str) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into outbound_post (id, purpose, body) values ($1, $2, $3) on conflict (id) do nothing",
        id,
        purpose,
        body
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Takes at most `limit` due messages of these purposes, for `hold_seconds`. That an alert was cleared waits until nothing
/// says any more that it was raised.
pub async fn take(
    pool: &PgPool,
    purposes: &[String],
    limit: i64,
    hold_seconds: f64,
) -> Result<Vec<TakenPost>, sqlx::Error> {
    sqlx::query_as!(
        TakenPost,
        r#"update outbound_post set leased_until = clock_timestamp() + make_interval(secs => $3)
           where id = any(array(
             select p.id from outbound_post p
             where p.purpose = any($1::text[]) and p.next_try_at <= (select clock_timestamp())
               and (p.leased_until is null or p.leased_until < (select clock_timestamp()))
               and (p.id not like '%-cleared' or not exists (
                 select 1 from outbound_post raised where raised.id = left(p.id, -7) || 'raised'))
             order by p.next_try_at, p.id limit $2 for update of p skip locked))
           returning id, purpose, body, began_at, tries, leased_until as "leased_until!", clock_timestamp() as "now!""#,
        purposes,
        limit,
        hold_seconds
    )
    .fetch_all(pool)
    .await
}

/// Deletes a message that arrived or is not wanted anymore.
pub async fn done(pool: &PgPool, id: &str) -> Result<(), sqlx::Error> {
    sqlx::query!("delete from outbound_post where id = $1", id).execute(pool).await?;
    Ok(())
}

/// Postpones a message that failed, unless another server has taken it in the meantime.
pub async fn put_off(pool: &PgPool, taken: &TakenPost, until: OffsetDateTime, error: &str) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update outbound_post set next_try_at = $3, tries = tries + 1, leased_until = null, last_error = $4
         where id = $1 and leased_until = $2",
        taken.id,
        taken.leased_until,
        until,
        error
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Deletes messages that no server has tried for so long, because their URL is not configured any more. Returns their
/// number. Servers must have run without a pause (`uptime::tick`) for as long, so that an outage or an old dump loses none;
/// for messages that are seven times as old, an hour is enough, because servers may be restarted every night.
pub async fn forget(pool: &PgPool, seconds: f64) -> Result<u64, sqlx::Error> {
    let gone = sqlx::query!(
        "delete from outbound_post where id = any(array(
           select id from outbound_post where next_try_at < (select clock_timestamp()) - make_interval(secs => $1)
             and exists (
               select 1 from uptime
               where resumed_at < clock_timestamp()
                   - case when next_try_at < clock_timestamp() - make_interval(secs => 7 * $1) then interval '1 hour'
                          else make_interval(secs => $1) end
                 and last_seen_at > clock_timestamp() - interval '5 seconds')
           limit 1000 for update skip locked))",
        seconds
    )
    .execute(pool)
    .await?;
    Ok(gone.rows_affected())
}

/// Number of messages that wait.
pub async fn pending(pool: &PgPool) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(r#"select count(*) as "n!" from outbound_post"#).fetch_one(pool).await
}
