//! Deliveries. Callbacks of complete trees: written in the commit that completes a tree, tried by any server, stored
//! until long after the tree is deleted. Messages about alerts are written by `alert_channels` and tried in the same way.
//!
//! Completing a tree requires a call of [`announce`] in the same transaction; only `job_states` and `tree_completion`
//! complete trees. Deliveries are last in the lock order: a transaction that holds one waits for nothing else.

mod due; // due deliveries

use std::collections::HashMap;

use domain::{
    Counts, Outcome, Time,
    notice::NoticeKind,
    notify::{
        alert_channel::{AlertEvent, ChannelKind},
        delivery::{AlertDelivery, CallbackDelivery, DeliveryState, DeliveryTry, NoticeDelivery},
    },
};
use sqlx::PgPool;
use time::OffsetDateTime;
use url::Url;
use uuid::Uuid;

use crate::{
    addresses::display_url,
    sealing::{
        Sealer,
        channel_target::ChannelTarget,
        stored_secrets::{host_of, open_target},
    },
    store::{Tx, notify::notices},
};

pub use due::{
    AlertContent, ChannelNow, DeliveryCapacity, DeliveryContent, DeliveryResult, NoticeContent, TakenDelivery,
    TreeContent, record, take,
};

/// A row to be written.
struct NewDelivery {
    id: Uuid,
    job_id: Uuid,
    owner_id: Uuid,
    completion: i32,
    target: String,
    host: String,
    outcome: i16,
    counts: String,
    metadata: String,
    completed_at: OffsetDateTime,
}

/// Writes a delivery for each of these roots whose tree this transaction has completed and which has a receiver, and
/// supersedes open deliveries of earlier completions; also writes notices to those who watch. Requires the locks of the
/// roots' job state rows. Idempotent.
pub async fn announce(tx: &mut Tx, root_job_keys: &[i64]) -> Result<(), sqlx::Error> {
    notices::finished(tx, root_job_keys).await?;
    // `now()` is the start of the transaction: trees that were complete before are not announced again.
    let found = sqlx::query!(
        r#"select j.id, j.owner_id, j.metadata, j.on_completed as "on_completed!", g.completion,
             g.tree_outcome as "outcome!", g.tree_completed_at as "completed_at!",
             s.available as "available!", s.running as "running!", s.retryable as "retryable!",
             s.scheduled as "scheduled!", s.blocked as "blocked!", s.waiting_for_event as "waiting_for_event!", s.succeeded as "succeeded!", s.dead as "dead!",
             s.cancelled as "cancelled!", s.expired as "expired!",
             s.superseded as "superseded!"
           from job_state g
           cross join lateral (
             select id, owner_id, metadata, on_completed from job where job_key = g.job_key offset 0) j
           cross join lateral (
             select sum(n_available)::bigint as available, sum(n_running)::bigint as running,
               sum(n_retryable)::bigint as retryable, sum(n_scheduled)::bigint as scheduled,
               sum(n_blocked)::bigint as blocked, sum(n_waiting_for_event)::bigint as waiting_for_event, sum(n_succeeded)::bigint as succeeded,
               sum(n_dead)::bigint as dead, sum(n_cancelled)::bigint as cancelled,
               sum(n_expired)::bigint as expired, sum(n_superseded)::bigint as superseded
             from job_state where root_id = g.root_id offset 0) s
           where g.job_key = any($1::bigint[]) and g.tree_completed_at >= now() and j.on_completed is not null"#,
        root_job_keys
    )
    .fetch_all(&mut **tx)
    .await?;
    if found.is_empty() {
        return Ok(());
    }
    let new: Vec<NewDelivery> = found
        .into_iter()
        .map(|row| {
            let counts = Counts {
                available: row.available,
                running: row.running,
                retryable: row.retryable,
                scheduled: row.scheduled,
                blocked: row.blocked,
                waiting_for_event: row.waiting_for_event,
                succeeded: row.succeeded,
                dead: row.dead,
                cancelled: row.cancelled,
                expired: row.expired,
                superseded: row.superseded,
            };
            NewDelivery {
                id: Uuid::now_v7(),
                job_id: row.id,
                owner_id: row.owner_id,
                completion: row.completion,
                host: host_of(&row.on_completed),
                target: row.on_completed,
                outcome: row.outcome,
                counts: serde_json::to_string(&counts).unwrap_or_default(),
                metadata: row.metadata,
                completed_at: row.completed_at,
            }
        })
        .collect();
    insert(tx, &new).await?;
    for row in new.iter().filter(|row| row.completion > 1) {
        sqlx::query!(
            "update delivery set state = 5, next_try_at = null where job_id = $1 and completion < $2 and state = 1",
            row.job_id,
            row.completion
        )
        .execute(&mut **tx)
        .await?;
    }
    Ok(())
}

async fn insert(tx: &mut Tx, new: &[NewDelivery]) -> Result<(), sqlx::Error> {
    fn column<'a, T>(rows: &'a [NewDelivery], of: impl Fn(&'a NewDelivery) -> T) -> Vec<T> {
        rows.iter().map(of).collect()
    }
    sqlx::query!(
        "insert into delivery (id, job_id, owner_id, completion, target, host, outcome, counts, metadata, completed_at,
           next_try_at)
         select *, clock_timestamp()
         from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::int[], $5::text[], $6::text[], $7::smallint[], $8::text[],
           $9::text[], $10::timestamptz[])
         on conflict on constraint delivery_completion do nothing",
        &column(new, |row| row.id),
        &column(new, |row| row.job_id),
        &column(new, |row| row.owner_id),
        &column(new, |row| row.completion),
        &column(new, |row| row.target.as_str()) as &[&str],
        &column(new, |row| row.host.as_str()) as &[&str],
        &column(new, |row| row.outcome),
        &column(new, |row| row.counts.as_str()) as &[&str],
        &column(new, |row| row.metadata.as_str()) as &[&str],
        &column(new, |row| row.completed_at),
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Records that a tree may have a receiver. Commits separately before the edit that sets the receiver, because job
/// state rows precede definitions in the lock order.
pub async fn set_calls(pool: &PgPool, job_id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update job_state set calls = true
         where job_key = (select job_key from job where id = $1 and parent_id is null)
           and calls is distinct from true and deleted_at is null",
        job_id
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Sets or removes the receiver of a tree's deliveries.
pub async fn redirect(tx: &mut Tx, job_id: Uuid, target: Option<&str>) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update delivery set target = $2, host = $3 where job_id = $1",
        job_id,
        target,
        target.map(host_of).unwrap_or_default()
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Copies the receivers of deleted trees into their deliveries. Requires the locks of the job state rows.
pub async fn keep_after_tree(tx: &mut Tx, job_keys: &[i64]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update delivery d set target = j.on_completed, deleted_at = clock_timestamp()
         from job j where j.job_key = any($1::bigint[]) and j.parent_id is null and d.job_id = j.id",
        job_keys
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Deletes deliveries of trees that were deleted thirty days ago, with their tries. Returns their number.
pub async fn forget(pool: &PgPool) -> Result<u64, sqlx::Error> {
    let gone = sqlx::query!(
        "with gone as (
           delete from delivery where id = any(array(
             select id from delivery where deleted_at < (select clock_timestamp()) - interval '30 days' limit 5000))
           returning id)
         delete from delivery_try where delivery_id in (select id from gone)"
    )
    .execute(pool)
    .await?;
    Ok(gone.rows_affected())
}

/// Number of pending deliveries.
pub async fn pending(pool: &PgPool) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(r#"select count(*) as "n!" from delivery where state = 1"#).fetch_one(pool).await
}

/// Filter of a list of deliveries; all given conditions must match.
#[derive(Clone, Debug, Default)]
pub struct DeliveryQuery {
    /// Only of this owner's trees.
    pub owner_id: Option<Uuid>,
    /// Only of trees of the owner with this name.
    pub owner: Option<String>,
    /// Only of this tree.
    pub job_id: Option<Uuid>,
    /// Only of this alert channel.
    pub channel_id: Option<Uuid>,
    /// Any of these; empty: all.
    pub states: Vec<DeliveryState>,
    pub created_after: Option<OffsetDateTime>,
    pub created_before: Option<OffsetDateTime>,
    /// The oldest first; else the newest.
    pub oldest_first: bool,
    /// The last one of the page before.
    pub behind: Option<Uuid>,
    pub limit: i64,
}

struct Row {
    id: Uuid,
    job_id: Option<Uuid>,
    completion: Option<i32>,
    outcome: Option<i16>,
    state: i16,
    target: Option<String>,
    channel_id: Option<Uuid>,
    alert_id: Option<Uuid>,
    event: Option<String>,
    recipient: Option<String>,
    notice_id: Option<Uuid>,
    next_try_at: Option<OffsetDateTime>,
    created_at: OffsetDateTime,
}

/// Selects deliveries that match, in order of age, from those that `$which` leads to by an index.
macro_rules! listed {
    ($on:tt, $order:tt, $which:tt, $query:expr, $codes:expr, $pool:expr) => {
        sqlx::query_as!(
            Row,
            "select d.id, d.job_id, d.completion, d.outcome, d.state, d.target, d.channel_id, d.alert_id, d.event, d.recipient,
               d.notice_id, d.next_try_at, d.created_at
             from delivery d
             where ($1::uuid is null or d.owner_id = $1) and ($2::uuid is null or d.job_id = $2)
               and ($3::smallint[] is null or d.state = any($3))
               and ($4::text is null or d.owner_id in (select id from owner where name = $4))
               and ($5::timestamptz is null or d.created_at >= $5)
               and ($6::timestamptz is null or d.created_at < $6)
               and ($7::uuid is null or d.id "
                + $on
                + " $7) and ($9::uuid is null or d.channel_id = $9)"
                + $which
                + " order by d.id "
                + $order
                + " limit $8",
            $query.owner_id,
            $query.job_id,
            $codes as Option<&[i16]>,
            $query.owner,
            $query.created_after,
            $query.created_before,
            $query.behind,
            $query.limit,
            $query.channel_id
        )
        .fetch_all($pool)
        .await?
    };
}

/// Deliveries that match, with their tries.
pub async fn list(pool: &PgPool, sealer: &Sealer, query: &DeliveryQuery) -> Result<Vec<CallbackDelivery>, sqlx::Error> {
    let codes: Vec<i16> = query.states.iter().map(|state| state.code()).collect();
    let codes = (!codes.is_empty()).then_some(&codes[..]);
    let undelivered = codes.is_some_and(|codes| !codes.contains(&DeliveryState::Delivered.code()));
    let rows = match (undelivered, query.oldest_first) {
        (true, false) => listed!("<", "desc", " and d.state <> 2", query, codes, pool),
        (true, true) => listed!(">", "asc", " and d.state <> 2", query, codes, pool),
        (false, false) => listed!("<", "desc", "", query, codes, pool),
        (false, true) => listed!(">", "asc", "", query, codes, pool),
    };
    with_tries(pool, sealer, rows).await
}

/// A delivery, and its owner.
pub async fn find(pool: &PgPool, sealer: &Sealer, id: Uuid) -> Result<Option<(CallbackDelivery, Uuid)>, sqlx::Error> {
    let owner = sqlx::query_scalar!("select owner_id from delivery where id = $1", id).fetch_optional(pool).await?;
    let Some(owner_id) = owner else { return Ok(None) };
    let row = sqlx::query_as!(
        Row,
        "select id, job_id, completion, outcome, state, target, channel_id, alert_id, event, recipient, notice_id,
           next_try_at, created_at
         from delivery where id = $1",
        id
    )
    .fetch_all(pool)
    .await?;
    Ok(with_tries(pool, sealer, row).await?.pop().map(|delivery| (delivery, owner_id)))
}

/// The newest delivery of the same tree.
pub async fn newest_of(pool: &PgPool, job_id: Uuid) -> Result<Option<Uuid>, sqlx::Error> {
    sqlx::query_scalar!("select id from delivery where job_id = $1 order by completion desc limit 1", job_id)
        .fetch_optional(pool)
        .await
}

/// Restarts the retry schedule of a delivery now. Returns false if it is superseded or has no receiver.
pub async fn resend(tx: &mut Tx, id: Uuid) -> Result<bool, sqlx::Error> {
    let done = sqlx::query!(
        "update delivery set state = 1, next_try_at = clock_timestamp(), began_at = clock_timestamp(), round = 0
         where id = $1 and state <> 5
           and not (event = 'raised'
                    and exists (select 1 from alert a where a.id = delivery.alert_id and a.cleared_at is not null))
           and (target is not null or channel_id in (select c.id from alert_channel c)
                or notice_id in (select n.id from notice n))",
        id
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() == 1)
}

async fn with_tries(pool: &PgPool, sealer: &Sealer, rows: Vec<Row>) -> Result<Vec<CallbackDelivery>, sqlx::Error> {
    let ids: Vec<Uuid> = rows.iter().map(|row| row.id).collect();
    let tries = sqlx::query!(
        "select delivery_id, at, status, error from delivery_try where delivery_id = any($1::uuid[])
         order by delivery_id, n",
        &ids
    )
    .fetch_all(pool)
    .await?;
    let channels = channels_of(pool, &rows).await?;
    let notices = notices_of(pool, &rows).await?;
    let jobs: Vec<Uuid> = rows.iter().filter_map(|row| row.job_id).collect();
    let names =
        sqlx::query!(r#"select id, name as "name!" from job where id = any($1::uuid[]) and name is not null"#, &jobs)
            .fetch_all(pool)
            .await?;
    let names: HashMap<Uuid, String> = names.into_iter().map(|row| (row.id, row.name)).collect();
    Ok(rows
        .into_iter()
        .map(|row| CallbackDelivery {
            id: row.id,
            job_id: row.job_id,
            job_name: row.job_id.and_then(|id| names.get(&id).cloned()),
            completion: row.completion,
            outcome: row.outcome.and_then(Outcome::from_code),
            alert: alert_of(&row, &channels),
            state: DeliveryState::from_code(row.state).unwrap_or(DeliveryState::Pending),
            notice: row.notice_id.map(|id| notice_of(id, &notices)),
            url: shown_url(sealer, &row, &channels, &notices),
            tries: tries
                .iter()
                .filter(|one| one.delivery_id == row.id)
                .map(|one| DeliveryTry {
                    at: Time(one.at),
                    status: one.status.and_then(|status| u16::try_from(status).ok()),
                    error: one.error.clone(),
                })
                .collect(),
            next_try_at: row.next_try_at.map(Time),
            created_at: Time(row.created_at),
        })
        .collect())
}

/// Channels of these rows that still exist, by id.
async fn channels_of(pool: &PgPool, rows: &[Row]) -> Result<HashMap<Uuid, ChannelNow>, sqlx::Error> {
    let ids: Vec<Uuid> = rows.iter().filter_map(|row| row.channel_id).collect();
    due::channels(pool, &ids).await
}

/// What a notice is about, and the webhook of its person as it is now.
struct NoticeReceiver {
    kind: Option<NoticeKind>,
    root_id: Uuid,
    webhook: Option<String>,
}

/// Notices of these rows whose person may still see their trees, by id.
async fn notices_of(pool: &PgPool, rows: &[Row]) -> Result<HashMap<Uuid, NoticeReceiver>, sqlx::Error> {
    let ids: Vec<Uuid> = rows.iter().filter_map(|row| row.notice_id).collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let found = sqlx::query!(
        r#"select n.id as "id!", n.kind as "kind!", n.root_id as "root_id!", p.webhook as "webhook?"
           from notice n
           join job j on j.id = n.root_id
           join job_state g on g.job_key = j.job_key and g.deleted_at is null
           join owner o on o.id = n.owner_id and (j.owner_id = o.id or o.role in ('support', 'admin'))
           left join notice_settings p on p.owner_id = n.owner_id
           where n.id = any($1::uuid[])"#,
        &ids
    )
    .fetch_all(pool)
    .await?;
    let receiver = |kind: &str, root_id, webhook| NoticeReceiver { kind: NoticeKind::parse(kind), root_id, webhook };
    Ok(found.into_iter().map(|row| (row.id, receiver(&row.kind, row.root_id, row.webhook))).collect())
}

fn notice_of(notice_id: Uuid, notices: &HashMap<Uuid, NoticeReceiver>) -> NoticeDelivery {
    let notice = notices.get(&notice_id);
    NoticeDelivery {
        notice_id,
        kind: notice.and_then(|notice| notice.kind),
        job_id: notice.map(|notice| notice.root_id),
    }
}

fn alert_of(row: &Row, channels: &HashMap<Uuid, ChannelNow>) -> Option<AlertDelivery> {
    let channel_id = row.channel_id?;
    let channel = channels.get(&channel_id);
    Some(AlertDelivery {
        channel_id,
        channel: channel.map(|channel| channel.name.clone()),
        kind: channel.map(|channel| channel.kind),
        event: row.event.as_deref().and_then(AlertEvent::parse)?,
        alert_id: row.alert_id,
    })
}

/// Receiver for display, without parts that may be secret.
fn shown_url(
    sealer: &Sealer,
    row: &Row,
    channels: &HashMap<Uuid, ChannelNow>,
    notices: &HashMap<Uuid, NoticeReceiver>,
) -> Option<String> {
    if let Some(notice_id) = row.notice_id {
        let notice = notices.get(&notice_id)?;
        if let Some(recipient) = &row.recipient {
            return Some(format!("mailto:{recipient}"));
        }
        return ChannelTarget::open(sealer, notice.webhook.as_ref()?).ok()?.shown_url(ChannelKind::Webhook);
    }
    let Some(channel_id) = row.channel_id else {
        let target = open_target(sealer, row.target.as_deref()?).ok()?;
        return Url::parse(&target.url).ok().map(|url| display_url(&url));
    };
    let channel = channels.get(&channel_id)?;
    if let Some(recipient) = &row.recipient {
        return Some(format!("mailto:{recipient}"));
    }
    ChannelTarget::open(sealer, &channel.target).ok()?.shown_url(channel.kind)
}
