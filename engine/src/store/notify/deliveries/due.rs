//! Due deliveries: taken by one server for the duration of a try, and the result of the try.

use std::collections::HashMap;

use domain::{
    Counts, Outcome,
    notify::{
        alert_channel::{AlertEvent, ChannelKind},
        delivery::DeliveryState,
    },
};
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::store::notify::notices::{self, NoticeNow};

/// Maximum number of due rows that one call locks, and up to which it reads them all.
const MAX_LOCKED: i64 = 500;

/// A delivery taken by this server until `leased_until`.
#[derive(Clone, Debug)]
pub struct TakenDelivery {
    pub id: Uuid,
    /// Owner of the tree; of an alert the channel.
    pub owner_id: Uuid,
    /// Host for which it counts as in progress.
    pub host: String,
    pub content: DeliveryContent,
    /// Start of its retry schedule, the tries since then, and all tries.
    pub began_at: OffsetDateTime,
    pub round: i32,
    pub tries: i32,
    pub leased_until: OffsetDateTime,
    /// The database's clock.
    pub now: OffsetDateTime,
}

/// Content of a delivery.
#[derive(Clone, Debug)]
pub enum DeliveryContent {
    Tree(Box<TreeContent>),
    Alert(Box<AlertContent>),
    Notice(Box<NoticeContent>),
}

/// A notice to a person.
#[derive(Clone, Debug)]
pub struct NoticeContent {
    /// `None` if it was deleted, or if the person may not see its tree.
    pub now: Option<NoticeNow>,
    /// Address of mail; `None` for a webhook.
    pub recipient: Option<String>,
}

/// A complete tree.
#[derive(Clone, Debug)]
pub struct TreeContent {
    pub job_id: Uuid,
    pub completion: i32,
    /// `on_completed`, as it is now, sealed.
    pub target: Option<String>,
    /// Trace context of the tree, while the tree exists.
    pub traceparent: Option<String>,
    pub outcome: Option<Outcome>,
    pub counts: Counts,
    pub metadata: String,
    pub completed_at: OffsetDateTime,
}

/// An event of an alert.
#[derive(Clone, Debug)]
pub struct AlertContent {
    pub channel_id: Uuid,
    /// The channel as it is now; `None` if it was deleted.
    pub channel: Option<ChannelNow>,
    pub alert_id: Option<Uuid>,
    pub event: AlertEvent,
    /// The alert as it was: JSON.
    pub alert: Option<String>,
    pub recipient: Option<String>,
    pub created_at: OffsetDateTime,
}

/// An alert channel as it is now.
#[derive(Clone, Debug)]
pub struct ChannelNow {
    pub name: String,
    pub kind: ChannelKind,
    /// Sealed.
    pub target: String,
}

/// Maximum numbers of deliveries that are taken.
#[derive(Clone, Copy, Debug)]
pub struct DeliveryCapacity {
    pub all: i64,
    pub per_host: i64,
    pub per_owner: i64,
}

/// Takes due deliveries for `hold_seconds`, except those to hosts and of owners that have enough in progress. If many are due,
/// it reads the first ones of each host, so that the backlog of a host that has enough in progress is not read.
pub async fn take(
    pool: &PgPool,
    room: DeliveryCapacity,
    busy_hosts: &[String],
    busy_owners: &[Uuid],
    hold_seconds: f64,
) -> Result<Vec<TakenDelivery>, sqlx::Error> {
    let rows = sqlx::query!(
        // With few due ones, hosts are not enumerated, as many may have deliveries that are due much later. With many, they are
        // enumerated in `delivery_due_of_host`. Comparisons of rows bound its scan and fit no other index: the planner would
        // go through the due deliveries of all hosts in the order of their times.
        r#"with recursive due_now as (
             select count(*) > $6::bigint as many from (
               select 1 from delivery where state = 1 and next_try_at <= (select clock_timestamp()) limit $6::bigint + 1) counted),
           pending as (
             (select host from delivery where (select many from due_now) and state = 1 order by host limit 1)
             union all
             select (select d.host from delivery d where d.state = 1 and d.host > pending.host order by d.host limit 1)
             from pending where pending.host is not null),
           candidate as (
             (select id from delivery
              where not (select many from due_now) and state = 1 and next_try_at <= (select clock_timestamp())
                and host <> all($4::text[]) and owner_id <> all($5::uuid[])
                and (leased_until is null or leased_until < clock_timestamp())
              order by next_try_at limit $6)
             union all
             (select d.id from pending cross join lateral (
               select id, next_try_at from delivery
               where state = 1 and (host, next_try_at) >= (pending.host, '-infinity'::timestamptz)
                 and (host, next_try_at) <= (pending.host, (select clock_timestamp()))
                 and (leased_until is null or leased_until < clock_timestamp()) and owner_id <> all($5::uuid[])
               order by host, next_try_at limit $2) d
             where pending.host <> all($4::text[])
             order by d.next_try_at limit $6)),
           due as materialized (
             select id, host, owner_id, next_try_at from delivery
             where id in (select id from candidate) and state = 1 and next_try_at <= (select clock_timestamp())
               and (leased_until is null or leased_until < clock_timestamp())
             for update skip locked),
           ranked as (
             select id, next_try_at, row_number() over (partition by host order by next_try_at) as of_host,
               row_number() over (partition by owner_id order by next_try_at) as of_owner
             from due),
           picked as (
             select id from ranked where of_host <= $2 and of_owner <= $3 order by next_try_at limit $1)
           update delivery d set leased_until = clock_timestamp() + make_interval(secs => $7)
           from picked where d.id = picked.id
           returning d.id, d.job_id, d.owner_id, d.completion, d.target, d.host, d.outcome, d.counts, d.metadata,
             d.completed_at, d.channel_id, d.alert_id, d.event, d.alert, d.recipient, d.notice_id, d.created_at, d.began_at, d.round,
             d.tries, d.leased_until as "leased_until!", clock_timestamp() as "now!"
        "#,
        room.all,
        room.per_host,
        room.per_owner,
        busy_hosts,
        busy_owners,
        MAX_LOCKED,
        hold_seconds
    )
    .fetch_all(pool)
    .await?;
    let jobs: Vec<Uuid> = rows.iter().filter_map(|row| row.job_id).collect();
    // While the tree exists, its definition contains the receiver, so an edit affects the next try.
    let targets = sqlx::query!("select id, on_completed, traceparent from job where id = any($1::uuid[])", &jobs)
        .fetch_all(pool)
        .await?;
    let channel_ids: Vec<Uuid> = rows.iter().filter_map(|row| row.channel_id).collect();
    let channels = channels(pool, &channel_ids).await?;
    let notice_ids: Vec<Uuid> = rows.iter().filter_map(|row| row.notice_id).collect();
    let notices = if notice_ids.is_empty() { Vec::new() } else { notices::to_send(pool, &notice_ids).await? };
    let taken = rows.into_iter().filter_map(|row| {
        let content = if let Some(id) = row.notice_id {
            let now = notices.iter().find(|now| now.notice.id == id).cloned();
            DeliveryContent::Notice(Box::new(NoticeContent { now, recipient: row.recipient }))
        } else if let Some(channel_id) = row.channel_id {
            DeliveryContent::Alert(Box::new(AlertContent {
                channel_id,
                channel: channels.get(&channel_id).cloned(),
                alert_id: row.alert_id,
                event: AlertEvent::parse(row.event.as_deref()?)?,
                alert: row.alert,
                recipient: row.recipient,
                created_at: row.created_at,
            }))
        } else {
            let definition = targets.iter().find(|job| Some(job.id) == row.job_id);
            DeliveryContent::Tree(Box::new(TreeContent {
                job_id: row.job_id?,
                completion: row.completion?,
                traceparent: definition.and_then(|job| job.traceparent.clone()),
                target: definition.map_or(row.target, |job| job.on_completed.clone()),
                outcome: row.outcome.and_then(Outcome::from_code),
                counts: serde_json::from_str(&row.counts?).unwrap_or_default(),
                metadata: row.metadata?,
                completed_at: row.completed_at?,
            }))
        };
        Some(TakenDelivery {
            id: row.id,
            owner_id: row.owner_id,
            host: row.host,
            content,
            began_at: row.began_at,
            round: row.round,
            tries: row.tries,
            leased_until: row.leased_until,
            now: row.now,
        })
    });
    Ok(taken.collect())
}

/// Alert channels with these ids that exist.
pub(super) async fn channels(pool: &PgPool, ids: &[Uuid]) -> Result<HashMap<Uuid, ChannelNow>, sqlx::Error> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = sqlx::query!("select id, name, kind, target from alert_channel where id = any($1::uuid[])", ids)
        .fetch_all(pool)
        .await?;
    Ok(rows
        .into_iter()
        .filter_map(|row| {
            Some((row.id, ChannelNow { name: row.name, kind: ChannelKind::parse(&row.kind)?, target: row.target }))
        })
        .collect())
}

/// Result of a try.
#[derive(Clone, Debug)]
pub struct DeliveryResult {
    pub at: OffsetDateTime,
    pub status: Option<u16>,
    pub error: Option<String>,
    pub state: DeliveryState,
    /// Time of the next try if it stays pending.
    pub next_try_at: Option<OffsetDateTime>,
}

/// Records a try of a delivery that this server still holds. A delivery that was superseded in the meantime stays
/// superseded. Returns false if the try took so long that another server has taken the callback; this try then does
/// not count.
pub async fn record(pool: &PgPool, taken: &TakenDelivery, result: &DeliveryResult) -> Result<bool, sqlx::Error> {
    let done = sqlx::query!(
        "with leased as (
           update delivery
           set tries = tries + 1, round = round + 1, leased_until = null,
             state = case when state = 1 then $3 else state end,
             next_try_at = case when state = 1 then $4::timestamptz end
           where id = $1 and leased_until = $2
           returning id, tries)
         insert into delivery_try (delivery_id, n, at, status, error)
         select id, tries, $5, $6, $7 from leased",
        taken.id,
        taken.leased_until,
        result.state.code(),
        result.next_try_at,
        result.at,
        result.status.map(|status| status as i16),
        result.error
    )
    .execute(pool)
    .await?;
    Ok(done.rows_affected() == 1)
}
