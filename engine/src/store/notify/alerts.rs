//! Alerts, and the checks that raise and clear them. Each check is bounded and reads an index with few rows; none
//! reads all items, all trees or all job state rows.

mod conditions; // current conditions

use domain::{
    Time,
    notify::alert::{Alert, AlertKind},
};
use sqlx::{PgExecutor, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

pub use conditions::{DeadType, FailingJob, failing_jobs, newly_dead, note_heads, unclaimed};

use crate::store::{
    Tx,
    page_range::{PageRange, by_age},
};

/// An alert to be raised.
#[derive(Clone, Debug)]
pub struct RaiseRow {
    pub kind: AlertKind,
    /// One open alert for each kind and subject.
    pub subject: String,
    pub message: String,
    /// Owner of the work that it is about; `None` is shown only to staff.
    pub owner_id: Option<Uuid>,
    pub job_type: Option<String>,
    pub root_id: Option<Uuid>,
    pub job_id: Option<Uuid>,
    pub item_id: Option<Uuid>,
}

/// Raises an alert. If one is open already, counts it again if `count_again` is set, else leaves it. Returns whether
/// the alert is new, which is true on one server only.
pub async fn raise(on: impl PgExecutor<'_>, row: &RaiseRow, count_again: bool) -> Result<bool, sqlx::Error> {
    let is_new = sqlx::query_scalar!(
        r#"insert into alert as a (id, kind, subject, message, owner_id, job_type, root_id, job_id, item_id)
           values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
           on conflict (kind, subject) where cleared_at is null do update
             set count = a.count + 1, message = excluded.message, last_seen_at = excluded.last_seen_at where $10
           returning (xmax = 0) as "new!""#,
        Uuid::now_v7(),
        row.kind.as_str(),
        row.subject,
        row.message,
        row.owner_id,
        row.job_type,
        row.root_id,
        row.job_id,
        row.item_id,
        count_again
    )
    .fetch_optional(on)
    .await?;
    Ok(is_new.unwrap_or(false))
}

/// Subjects of the open alerts of a kind.
pub async fn open_subjects(on: impl PgExecutor<'_>, kind: AlertKind) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar!("select subject from alert where kind = $1 and cleared_at is null", kind.as_str())
        .fetch_all(on)
        .await
}

/// Clears open alerts of a kind by their subjects.
pub async fn clear(on: impl PgExecutor<'_>, kind: AlertKind, subjects: &[String]) -> Result<u64, sqlx::Error> {
    let done = sqlx::query!(
        "update alert set cleared_at = clock_timestamp()
         where kind = $1 and cleared_at is null and subject = any($2::text[])",
        kind.as_str(),
        subjects
    )
    .execute(on)
    .await?;
    Ok(done.rows_affected())
}

/// Updates count, message, and item of open alerts of a kind; skips rows that have them already.
pub async fn restate(on: impl PgExecutor<'_>, kind: AlertKind, found: &[(RaiseRow, i64)]) -> Result<u64, sqlx::Error> {
    let subjects: Vec<&str> = found.iter().map(|(row, _)| row.subject.as_str()).collect();
    let counts: Vec<i64> = found.iter().map(|(_, count)| *count).collect();
    let messages: Vec<&str> = found.iter().map(|(row, _)| row.message.as_str()).collect();
    let items: Vec<Option<Uuid>> = found.iter().map(|(row, _)| row.item_id).collect();
    let done = sqlx::query!(
        "update alert a set count = now.count, message = now.message, item_id = now.item_id,
           last_seen_at = clock_timestamp()
         from unnest($2::text[], $3::bigint[], $4::text[], $5::uuid[]) as now (subject, count, message, item_id)
         where a.kind = $1 and a.cleared_at is null and a.subject = now.subject
           and (a.count, a.message, a.item_id) is distinct from (now.count, now.message, now.item_id)",
        kind.as_str(),
        &subjects as &[&str],
        &counts,
        &messages as &[&str],
        &items as &[Option<Uuid>]
    )
    .execute(on)
    .await?;
    Ok(done.rows_affected())
}

/// Makes this transaction the only one that evaluates alerts until it ends; false if another one is.
pub async fn take_turn(tx: &mut Tx) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(r#"select pg_try_advisory_xact_lock(hashtext('alert')::bigint) as "mine!""#)
        .fetch_one(&mut **tx)
        .await
}

/// Confirms that the condition of an open alert still holds.
pub async fn confirm(on: impl PgExecutor<'_>, kind: AlertKind, subject: &str) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update alert set last_seen_at = clock_timestamp() where kind = $1 and subject = $2 and cleared_at is null",
        kind.as_str(),
        subject
    )
    .execute(on)
    .await?;
    Ok(())
}

/// Clears open alerts of a kind that have not been confirmed for this many seconds.
pub async fn clear_unconfirmed(on: impl PgExecutor<'_>, kind: AlertKind, seconds: f64) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update alert set cleared_at = clock_timestamp()
         where kind = $1 and cleared_at is null
           and last_seen_at < (select clock_timestamp()) - make_interval(secs => $2)",
        kind.as_str(),
        seconds
    )
    .execute(on)
    .await?;
    Ok(())
}

/// Clears alerts about single events that have not recurred: refused endings, failed callbacks, and worker messages
/// about closed assignments.
pub async fn clear_quiet(on: impl PgExecutor<'_>, quiet_seconds: f64) -> Result<u64, sqlx::Error> {
    let done = sqlx::query!(
        "update alert a set cleared_at = clock_timestamp()
         where kind in ('ending_refused', 'delivery_failed', 'worker') and cleared_at is null
           and last_seen_at < (select clock_timestamp()) - make_interval(secs => $1)
           and not (kind = 'worker' and exists (select 1 from lease l where l.item_id = a.item_id))",
        quiet_seconds
    )
    .execute(on)
    .await?;
    Ok(done.rows_affected())
}

/// Clears `stalled` alerts of trees that have progressed, completed or been deleted.
pub async fn clear_moved(on: impl PgExecutor<'_>) -> Result<u64, sqlx::Error> {
    let done = sqlx::query!(
        "update alert a set cleared_at = clock_timestamp()
         where kind = 'stalled' and cleared_at is null
           and (not exists (select 1 from job_state g where g.root_id = a.root_id)
                or exists (select 1 from job_state g where g.root_id = a.root_id
                           and (g.updated_at > a.raised_at or g.n_running > 0 or g.deleted_at is not null
                                or g.tree_completed_at is not null)))"
    )
    .execute(on)
    .await?;
    Ok(done.rows_affected())
}

/// Clears `many_failures` alerts of jobs in which no item keeps failing that runs, is deferred, or is available.
pub async fn clear_recovered(on: impl PgExecutor<'_>) -> Result<u64, sqlx::Error> {
    let done = sqlx::query!(
        "update alert a set cleared_at = clock_timestamp()
         where kind = 'many_failures' and cleared_at is null
           and not exists (select 1 from job j join deferred d on d.job_key = j.job_key
                           where j.id = a.job_id and d.failures >= 10)
           and not exists (select 1 from job j join lease l on l.type_id = j.type_id and l.job_key = j.job_key
                           where j.id = a.job_id and l.failures >= 10)
           and not exists (select 1 from job j join ready r on r.job_key = j.job_key
                           where j.id = a.job_id and r.failures >= 10)"
    )
    .execute(on)
    .await?;
    Ok(done.rows_affected())
}

/// Filter of a list of alerts.
#[derive(Clone, Debug)]
pub struct AlertQuery {
    /// Only those about this owner's work.
    pub owner_id: Option<Uuid>,
    pub kind: Option<AlertKind>,
    /// Cleared ones too.
    pub all: bool,
    pub part: PageRange<(OffsetDateTime, Uuid)>,
}

pub(crate) struct AlertRow {
    pub(crate) id: Uuid,
    pub(crate) kind: String,
    pub(crate) subject: String,
    pub(crate) message: String,
    pub(crate) job_type: Option<String>,
    pub(crate) root_id: Option<Uuid>,
    pub(crate) job_id: Option<Uuid>,
    pub(crate) item_id: Option<Uuid>,
    pub(crate) count: i64,
    pub(crate) raised_at: OffsetDateTime,
    pub(crate) last_seen_at: OffsetDateTime,
    pub(crate) cleared_at: Option<OffsetDateTime>,
}

impl AlertRow {
    /// Converts the row; `None` for a kind that this version does not know.
    pub(crate) fn alert(self) -> Option<Alert> {
        Some(Alert {
            id: self.id,
            kind: AlertKind::parse(&self.kind)?,
            subject: self.subject,
            message: self.message,
            job_type: self.job_type,
            root_id: self.root_id,
            job_id: self.job_id,
            item_id: self.item_id,
            count: self.count,
            raised_at: Time(self.raised_at),
            last_seen_at: Time(self.last_seen_at),
            cleared_at: self.cleared_at.map(Time),
        })
    }
}

/// Alerts that match, in order of age.
pub async fn list(pool: &PgPool, query: &AlertQuery) -> Result<Vec<Alert>, sqlx::Error> {
    macro_rules! listed {
        ($on:tt, $order:tt) => {
            sqlx::query_as!(
                AlertRow,
                "select id, kind, subject, message, job_type, root_id, job_id, item_id, count, raised_at, last_seen_at,
                   cleared_at
                 from alert
                 where ($1::uuid is null or owner_id = $1) and ($2::text is null or kind = $2)
                   and ($3 or cleared_at is null)
                   and ($4::timestamptz is null or (raised_at, id) "
                    + $on
                    + " ($4, $5::uuid)) order by raised_at "
                    + $order
                    + ", id "
                    + $order
                    + " limit $6",
                query.owner_id,
                query.kind.map(AlertKind::as_str),
                query.all,
                query.part.behind.map(|place| place.0),
                query.part.behind.map(|place| place.1),
                query.part.limit
            )
            .fetch_all(pool)
            .await?
        };
    }
    let rows = by_age!(query.part.oldest_first, listed);
    Ok(rows.into_iter().filter_map(AlertRow::alert).collect())
}

/// Marks unsent alerts as sent, in the transaction that writes the messages. An alert that was raised and cleared in
/// between is sent twice as well. An alert raised more than a day ago, when no receiver was configured, stays unsent.
pub async fn take_raised(tx: &mut Tx, limit: i64) -> Result<Vec<Alert>, sqlx::Error> {
    let rows = sqlx::query_as!(
        AlertRow,
        "update alert set sent_at = clock_timestamp()
         where id = any(array(
           select id from alert
           where sent_at is null and raised_at > (select clock_timestamp()) - interval '1 day'
           order by raised_at limit $1 for update skip locked))
         returning id, kind, subject, message, job_type, root_id, job_id, item_id, count, raised_at, last_seen_at,
           null::timestamptz as cleared_at",
        limit
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows.into_iter().filter_map(AlertRow::alert).collect())
}

/// Marks cleared alerts as sent, like [`take_raised`].
pub async fn take_cleared(tx: &mut Tx, limit: i64) -> Result<Vec<Alert>, sqlx::Error> {
    let rows = sqlx::query_as!(
        AlertRow,
        "update alert set cleared_sent_at = clock_timestamp()
         where id = any(array(
           select id from alert
           where cleared_at is not null and cleared_sent_at is null and sent_at is not null
           order by cleared_at limit $1 for update skip locked))
         returning id, kind, subject, message, job_type, root_id, job_id, item_id, count, raised_at, last_seen_at,
           cleared_at",
        limit
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows.into_iter().filter_map(AlertRow::alert).collect())
}

/// Number of open alerts of each kind.
pub async fn open_counts(pool: &PgPool) -> Result<Vec<(String, i64)>, sqlx::Error> {
    let rows = sqlx::query!(r#"select kind, count(*) as "n!" from alert where cleared_at is null group by kind"#)
        .fetch_all(pool)
        .await?;
    Ok(rows.into_iter().map(|row| (row.kind, row.n)).collect())
}

/// Deletes alerts that were cleared more than ninety days ago. Returns their number.
pub async fn forget(pool: &PgPool) -> Result<u64, sqlx::Error> {
    let gone = sqlx::query!(
        "delete from alert where ctid = any(array(
           select ctid from alert where cleared_at < (select clock_timestamp()) - interval '90 days' limit 5000))"
    )
    .execute(pool)
    .await?;
    Ok(gone.rows_affected())
}

/// Item of an open assignment, for an alert with a message of its worker.
#[derive(Clone, Debug)]
pub struct AssignedItem {
    pub item_id: Uuid,
    pub job_id: Uuid,
    pub root_id: Uuid,
    pub owner_id: Uuid,
    pub job_type: String,
    pub worker_id: String,
}

/// Item of an open assignment of this token; `None` if the assignment is closed or belongs to another token.
pub async fn assigned_item(
    pool: &PgPool,
    assignment_id: Uuid,
    credential_id: Uuid,
) -> Result<Option<AssignedItem>, sqlx::Error> {
    sqlx::query_as!(
        AssignedItem,
        "select l.item_id, j.id as job_id, j.root_id, j.owner_id, t.name as job_type, l.worker_id
         from lease l join job j on j.job_key = l.job_key join job_type t on t.id = j.type_id
         where l.id = $1 and l.credential_id = $2",
        assignment_id,
        credential_id
    )
    .fetch_optional(pool)
    .await
}
