//! Alert channels, and their messages. A channel's row is locked while it changes and while its messages are written.

mod messages; // alerts to be announced, and deliveries

use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::store::{
    Tx,
    page_range::{PageRange, by_age},
};

pub use messages::{
    Announcement, NewMessage, candidates, cleared, dropped, insert_messages, postponed, record_announcements, supersede,
};

/// A channel as it is stored.
#[derive(Clone, Debug)]
pub struct ChannelRow {
    pub id: Uuid,
    pub name: String,
    pub kind: String,
    /// Sealed.
    pub target: String,
    pub kinds: Vec<String>,
    pub types: Vec<String>,
    pub min_count: i64,
    pub after_seconds: i64,
    pub send_cleared: bool,
    /// JSON.
    pub quiet_hours: Option<String>,
    pub paused: bool,
    pub created_at: OffsetDateTime,
    pub updated_at: OffsetDateTime,
    /// The database's clock.
    pub now: OffsetDateTime,
}

macro_rules! select {
    ($these:tt, $($argument:expr),*) => {
        sqlx::query_as!(
            ChannelRow,
            r#"select id, name, kind, target, kinds, types, min_count, after_seconds, send_cleared, quiet_hours, paused,
                 created_at, updated_at, clock_timestamp() as "now!"
               from alert_channel "#
                + $these,
            $($argument),*
        )
    };
}

/// Number of channels. A transaction that adds one holds the lock of their number.
pub async fn count_to_add(tx: &mut Tx) -> Result<i64, sqlx::Error> {
    sqlx::query!("select pg_advisory_xact_lock(hashtext('alert_channel')::bigint)").fetch_one(&mut **tx).await?;
    sqlx::query_scalar!(r#"select count(*) as "n!" from alert_channel"#).fetch_one(&mut **tx).await
}

/// Adds a channel; the database's clock says when.
pub async fn insert(tx: &mut Tx, row: &ChannelRow) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into alert_channel (id, name, kind, target, kinds, types, min_count, after_seconds, send_cleared,
           quiet_hours, paused)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        row.id,
        row.name,
        row.kind,
        row.target,
        &row.kinds,
        &row.types,
        row.min_count,
        row.after_seconds,
        row.send_cleared,
        row.quiet_hours,
        row.paused
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Changes a channel; the database's clock says when.
pub async fn update(tx: &mut Tx, row: &ChannelRow) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update alert_channel
         set name = $2, target = $3, kinds = $4, types = $5, min_count = $6, after_seconds = $7, send_cleared = $8,
           quiet_hours = $9, paused = $10, updated_at = clock_timestamp()
         where id = $1",
        row.id,
        row.name,
        row.target,
        &row.kinds,
        &row.types,
        row.min_count,
        row.after_seconds,
        row.send_cleared,
        row.quiet_hours,
        row.paused
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Deletes a channel. Its deliveries stay.
pub async fn delete(tx: &mut Tx, id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!("delete from alert_channel where id = $1", id).execute(&mut **tx).await?;
    Ok(())
}

/// A channel.
pub async fn find(on: &mut PgConnection, id: Uuid) -> Result<Option<ChannelRow>, sqlx::Error> {
    select!("where id = $1", id).fetch_optional(on).await
}

/// A channel, locked until the end of the transaction.
pub async fn lock(tx: &mut Tx, id: Uuid) -> Result<Option<ChannelRow>, sqlx::Error> {
    select!("where id = $1 for update", id).fetch_optional(&mut **tx).await
}

/// A channel that is not paused, locked; `None` if another transaction has locked it.
pub async fn lock_free(tx: &mut Tx, id: Uuid) -> Result<Option<ChannelRow>, sqlx::Error> {
    select!("where id = $1 and not paused for update skip locked", id).fetch_optional(&mut **tx).await
}

/// Ids of the channels that may have messages to write: there is an alert that they have not looked at, have held back,
/// or have announced and that is over. Thresholds are not looked at.
pub async fn with_work(pool: &PgPool) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "select c.id from alert_channel c
         where not c.paused
           and (exists (select 1 from alert_announcement n join alert a on a.id = n.alert_id
                        where n.channel_id = c.id and n.state <> 3 and (n.state = 1 or a.cleared_at is not null))
                or exists (select 1 from alert a
                           where a.raised_at >= c.created_at
                             and (a.cleared_at is null
                                  or a.cleared_at > greatest(c.updated_at, (select clock_timestamp()) - interval '1 day'))
                             and (cardinality(c.kinds) = 0 or a.kind = any(c.kinds))
                             and (cardinality(c.types) = 0 or a.job_type = any(c.types))
                             and not exists (select 1 from alert_announcement n
                                             where n.channel_id = c.id and n.alert_id = a.id)))
         order by c.id"
    )
    .fetch_all(pool)
    .await
}

/// A page of channels, in order of age.
pub async fn list(pool: &PgPool, part: PageRange) -> Result<Vec<ChannelRow>, sqlx::Error> {
    macro_rules! listed {
        ($on:tt, $order:tt) => {
            sqlx::query_as!(
                ChannelRow,
                r#"select id, name, kind, target, kinds, types, min_count, after_seconds, send_cleared, quiet_hours,
                     paused, created_at, updated_at, clock_timestamp() as "now!"
                   from alert_channel where $1::uuid is null or id "#
                    + $on
                    + " $1 order by id "
                    + $order
                    + " limit $2",
                part.behind,
                part.limit
            )
            .fetch_all(pool)
            .await
        };
    }
    by_age!(part.oldest_first, listed)
}

/// Receivers of channels after an id, in order.
pub async fn targets(pool: &PgPool, after: Uuid) -> Result<Vec<(Uuid, String)>, sqlx::Error> {
    let rows = sqlx::query!("select id, target from alert_channel where id > $1 order by id limit 500", after)
        .fetch_all(pool)
        .await?;
    Ok(rows.into_iter().map(|row| (row.id, row.target)).collect())
}

/// Replaces a receiver that is still as it was read.
pub async fn replace_target(pool: &PgPool, id: Uuid, old: &str, new: &str) -> Result<bool, sqlx::Error> {
    let done = sqlx::query!("update alert_channel set target = $3 where id = $1 and target = $2", id, old, new)
        .execute(pool)
        .await?;
    Ok(done.rows_affected() == 1)
}
