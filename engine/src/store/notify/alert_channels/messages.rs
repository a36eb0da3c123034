//! Messages of a channel: the alerts that it has to announce, what it has done about each, and the deliveries.
//!
//! All of these need the lock of the channel's row. Deliveries are written last.

use domain::notify::alert::Alert;
use uuid::Uuid;

use super::{ChannelRow, Tx};
use crate::store::notify::alerts::AlertRow;

/// State of an alert in a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announcement {
    /// Held back by quiet hours.
    Postponed,
    /// `raised` was sent.
    Raised,
    /// Nothing more is sent.
    Over,
}

impl Announcement {
    /// The number that stands for it.
    const fn code(self) -> i16 {
        match self {
            Self::Postponed => 1,
            Self::Raised => 2,
            Self::Over => 3,
        }
    }
}

/// Alerts that match the channel's rule and have not been looked at, oldest first. One that has cleared in the meantime
/// counts if it was open after the last change of the channel, for a day.
pub async fn candidates(tx: &mut Tx, channel: &ChannelRow, limit: i64) -> Result<Vec<Alert>, sqlx::Error> {
    let rows = sqlx::query_as!(
        AlertRow,
        "select a.id, a.kind, a.subject, a.message, a.job_type, a.root_id, a.job_id, a.item_id, a.count, a.raised_at,
           a.last_seen_at, a.cleared_at
         from alert a
         where a.raised_at >= $2
           and (a.cleared_at is null
                or a.cleared_at > greatest($3, (select clock_timestamp()) - interval '1 day'))
           and (cardinality($4::text[]) = 0 or a.kind = any($4))
           and (cardinality($5::text[]) = 0 or a.job_type = any($5))
           and a.count >= $6
           and coalesce(a.cleared_at, (select clock_timestamp())) - a.raised_at >= make_interval(secs => $7)
           and not (a.kind = 'delivery_failed' and a.subject = $1::uuid::text)
           and not exists (select 1 from alert_announcement n where n.channel_id = $1 and n.alert_id = a.id)
         order by a.raised_at, a.id limit $8",
        channel.id,
        channel.created_at,
        channel.updated_at,
        &channel.kinds,
        &channel.types,
        channel.min_count,
        channel.after_seconds as f64,
        limit
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows.into_iter().filter_map(AlertRow::alert).collect())
}

/// Alerts that quiet hours have held back and that are still open, oldest first.
pub async fn postponed(tx: &mut Tx, channel_id: Uuid, limit: i64) -> Result<Vec<Alert>, sqlx::Error> {
    let rows = sqlx::query_as!(
        AlertRow,
        "select a.id, a.kind, a.subject, a.message, a.job_type, a.root_id, a.job_id, a.item_id, a.count, a.raised_at,
           a.last_seen_at, a.cleared_at
         from alert_announcement n join alert a on a.id = n.alert_id
         where n.channel_id = $1 and n.state = 1 and n.state <> 3 and a.cleared_at is null
         order by a.raised_at, a.id limit $2",
        channel_id,
        limit
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows.into_iter().filter_map(AlertRow::alert).collect())
}

/// Alerts that quiet hours have held back and that have cleared.
pub async fn dropped(tx: &mut Tx, channel_id: Uuid, limit: i64) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "select a.id from alert_announcement n join alert a on a.id = n.alert_id
         where n.channel_id = $1 and n.state = 1 and n.state <> 3 and a.cleared_at is not null limit $2",
        channel_id,
        limit
    )
    .fetch_all(&mut **tx)
    .await
}

/// Announced alerts that have cleared, except those whose `raised` is being sent at the moment: `cleared` must not
/// overtake it.
pub async fn cleared(tx: &mut Tx, channel_id: Uuid, limit: i64) -> Result<Vec<Alert>, sqlx::Error> {
    let rows = sqlx::query_as!(
        AlertRow,
        "select a.id, a.kind, a.subject, a.message, a.job_type, a.root_id, a.job_id, a.item_id, a.count, a.raised_at,
           a.last_seen_at, a.cleared_at
         from alert_announcement n join alert a on a.id = n.alert_id
         where n.channel_id = $1 and n.state = 2 and n.state <> 3 and a.cleared_at is not null
           and not exists (select 1 from delivery d
                           where d.channel_id = $1 and d.alert_id = a.id and d.event = 'raised' and d.state = 1
                             and d.leased_until > clock_timestamp())
         order by a.cleared_at, a.id limit $2",
        channel_id,
        limit
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows.into_iter().filter_map(AlertRow::alert).collect())
}

/// Records what the channel has done about alerts.
pub async fn record_announcements(
    tx: &mut Tx,
    channel_id: Uuid,
    alert_ids: &[Uuid],
    to: Announcement,
) -> Result<(), sqlx::Error> {
    if alert_ids.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "insert into alert_announcement (channel_id, alert_id, state) select $1, id, $3 from unnest($2::uuid[]) as a (id)
         on conflict (channel_id, alert_id) do update set state = excluded.state",
        channel_id,
        alert_ids,
        to.code()
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// A message to one receiver of a channel.
#[derive(Clone, Debug)]
pub struct NewMessage {
    pub id: Uuid,
    /// `None`: a test.
    pub alert_id: Option<Uuid>,
    pub event: &'static str,
    /// JSON.
    pub alert: Option<String>,
    pub recipient: Option<String>,
}

/// Writes messages; each event of an alert to each receiver once.
pub async fn insert_messages(
    tx: &mut Tx,
    channel_id: Uuid,
    host: &str,
    messages: &[NewMessage],
) -> Result<(), sqlx::Error> {
    if messages.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = messages.iter().map(|one| one.id).collect();
    let alert_ids: Vec<Option<Uuid>> = messages.iter().map(|one| one.alert_id).collect();
    let events: Vec<&str> = messages.iter().map(|one| one.event).collect();
    let alerts: Vec<Option<&str>> = messages.iter().map(|one| one.alert.as_deref()).collect();
    let recipients: Vec<Option<&str>> = messages.iter().map(|one| one.recipient.as_deref()).collect();
    sqlx::query!(
        "insert into delivery (id, channel_id, owner_id, host, alert_id, event, alert, recipient, next_try_at, deleted_at)
         select m.id, $1, $1, $2, m.alert_id, m.event, m.alert, m.recipient, clock_timestamp(), clock_timestamp()
         from unnest($3::uuid[], $4::uuid[], $5::text[], $6::text[], $7::text[])
           as m (id, alert_id, event, alert, recipient)
         on conflict (channel_id, alert_id, event, recipient) where alert_id is not null do nothing",
        channel_id,
        host,
        &ids,
        &alert_ids as &[Option<Uuid>],
        &events as &[&str],
        &alerts as &[Option<&str>],
        &recipients as &[Option<&str>]
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Ends `raised` messages of these alerts that have not arrived, unless one is being sent at the moment. Returns the alerts
/// of which none is open any more.
pub async fn supersede(tx: &mut Tx, channel_id: Uuid, alert_ids: &[Uuid]) -> Result<Vec<Uuid>, sqlx::Error> {
    if alert_ids.is_empty() {
        return Ok(Vec::new());
    }
    sqlx::query!(
        "update delivery set state = 5, next_try_at = null
         where channel_id = $1 and alert_id = any($2::uuid[]) and event = 'raised' and state = 1
           and (leased_until is null or leased_until < clock_timestamp())",
        channel_id,
        alert_ids
    )
    .execute(&mut **tx)
    .await?;
    sqlx::query_scalar!(
        r#"select a.id as "id!" from unnest($2::uuid[]) as a (id)
           where not exists (select 1 from delivery d
                             where d.channel_id = $1 and d.alert_id = a.id and d.event = 'raised' and d.state = 1)"#,
        channel_id,
        alert_ids
    )
    .fetch_all(&mut **tx)
    .await
}
