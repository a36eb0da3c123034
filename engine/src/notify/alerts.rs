//! Alerts: conditions and events that need attention (`alerts`), raised once and cleared automatically.
//!
//! Events are raised where they occur (a worker reports one, an ending is refused). Conditions
//! (`store/notify/alerts/conditions.rs`) are evaluated every few seconds by a background task on every server, using
//! indexes that contain nothing else. A unique index decides which server raises an alert. A failure to raise an alert
//! never fails the related work.

use std::time::Duration;

use domain::{
    Problem, Time,
    dispatch::{assignment::AssignmentId, progress},
    limits,
    notify::alert::{Alert, AlertKind, LONGEST_MESSAGE},
};
use serde::Serialize;

use crate::{
    Core, Engine,
    access::{
        assignment_holder::{Holder, PUSH},
        caller::{Caller, Scope},
    },
    error::{Error, Result},
    store::{
        Tx,
        notify::{
            alerts::{self, AlertQuery, RaiseRow},
            outbound_posts,
        },
        tree::definitions::JobInfo,
    },
};

/// Time after which an alert that servers keep open is cleared if none has confirmed it.
const UNCONFIRMED_SECONDS: f64 = 10.0;

/// Thresholds of the alerts.
#[derive(Clone, Copy, Debug)]
pub struct AlertThresholds {
    /// Time for which work of a type may wait unclaimed.
    pub unclaimed_after: Duration,
    /// Quiet time after which event alerts and alerts on new dead letters are cleared.
    pub quiet_after: Duration,
}

impl Engine {
    /// Returns matching alerts, newest first: all of them for staff, those about their own work for others.
    pub async fn alerts(&self, caller: &Caller, query: AlertQuery) -> Result<Vec<Alert>> {
        caller.require(Scope::JobsRead)?;
        let owner_id = caller.visible_owner();
        Ok(alerts::list(self.0.core.pools.reads().await, &AlertQuery { owner_id, ..query }).await?)
    }

    /// Raises a worker's own alert about the item that it holds. Returns 404 if the assignment is unknown, 409
    /// `assignment_closed` if it is closed.
    pub async fn alert(&self, caller: &Caller, assignment_id: AssignmentId, message: &str) -> Result<()> {
        caller.require(Scope::Work)?;
        let message = message.trim();
        if !limits::is_text(message, 1, LONGEST_MESSAGE) {
            let detail = format!("expected 1 to {LONGEST_MESSAGE} characters");
            return Err(Problem::invalid_body([("/message".to_owned(), detail)]).into());
        }
        let pool = &self.0.core.pools.read;
        let lease_id = assignment_id.id;
        let mut assigned_item = alerts::assigned_item(pool, lease_id, caller.credential_id).await?;
        if assigned_item.is_none()
            && !self.0.core.open_push_assignments(pool, [((), assignment_id, &Holder::of(caller))]).await?.is_empty()
        {
            assigned_item = alerts::assigned_item(pool, lease_id, PUSH).await?;
        }
        let Some(assigned_item) = assigned_item else {
            return Err(self.why_closed(caller, assignment_id).await?.into());
        };
        let row = RaiseRow {
            kind: AlertKind::Worker,
            subject: assigned_item.item_id.to_string(),
            message: format!("{}: {message}", assigned_item.worker_id),
            owner_id: Some(assigned_item.owner_id),
            job_type: Some(assigned_item.job_type),
            root_id: Some(assigned_item.root_id),
            job_id: Some(assigned_item.job_id),
            item_id: Some(assigned_item.item_id),
        };
        count_new(alerts::raise(pool, &row, true).await?, row.kind);
        Ok(())
    }

    /// Raises an alert for another part of the server; an open one of the same kind and subject is counted again. A
    /// failure is only logged.
    pub async fn raise_alert(&self, row: RaiseRow) {
        raise(&self.0.core, row).await;
    }

    /// Clears an alert whose cause is over, such as a restored broker or a delivered callback. Idempotent.
    pub async fn clear_alert(&self, kind: AlertKind, subject: &str) -> Result<()> {
        alerts::clear(&self.0.core.pools.read, kind, &[subject.to_owned()]).await?;
        Ok(())
    }

    /// Evaluates all conditions; raises and clears alerts. Returns the number of new alerts; 0 while another server is
    /// evaluating them, because two would clear what the other has just raised.
    pub async fn evaluate_alerts(&self, thresholds: AlertThresholds) -> Result<usize> {
        let mut tx = crate::store::begin(&self.0.core.pools.read).await?;
        if !alerts::take_turn(&mut tx).await? {
            return Ok(0);
        }
        let quiet = thresholds.quiet_after.as_secs_f64();
        let dead = alerts::newly_dead(&mut *tx, quiet).await?;
        let dead = dead.into_iter().map(|found| {
            let n = progress::grouped(found.dead);
            let items = if found.dead == 1 { "failed item" } else { "failed items" };
            let message = format!("{n} {items} in {}, the latest: {}", found.job_type, truncated(&found.message));
            (of_type(AlertKind::DeadLetters, found.job_type, message), found.dead)
        });
        let mut new =
            vec![(AlertKind::DeadLetters, replace_open(&mut tx, AlertKind::DeadLetters, dead.collect()).await?)];

        alerts::note_heads(&mut tx).await?;
        let unclaimed = alerts::unclaimed(&mut *tx, thresholds.unclaimed_after.as_secs_f64()).await?;
        let unclaimed = unclaimed.into_iter().map(|(job_type, seconds)| {
            let message =
                format!("Items of {job_type} wait and nobody has claimed one for {}.", duration_text(seconds));
            (of_type(AlertKind::Unclaimed, job_type, message), 1)
        });
        new.push((AlertKind::Unclaimed, replace_open(&mut tx, AlertKind::Unclaimed, unclaimed.collect()).await?));

        let failing = alerts::failing_jobs(&mut *tx).await?.into_iter().map(|failing| {
            let row = RaiseRow {
                kind: AlertKind::ManyFailures,
                subject: failing.job_id.to_string(),
                message: format!(
                    "An item of {} has failed {} times and is retried without limit.",
                    failing.job_type, failing.failures
                ),
                owner_id: Some(failing.owner_id),
                job_type: Some(failing.job_type),
                root_id: Some(failing.root_id),
                job_id: Some(failing.job_id),
                item_id: Some(failing.item_id),
            };
            (row, i64::from(failing.failures))
        });
        let raised = raise_or_restate(&mut tx, AlertKind::ManyFailures, failing.collect()).await?;
        new.push((AlertKind::ManyFailures, raised));
        alerts::clear_recovered(&mut *tx).await?;
        alerts::clear_moved(&mut *tx).await?;
        alerts::clear_quiet(&mut *tx, quiet).await?;
        // By every server: the one that reported its broker may be gone, or have none any more.
        alerts::clear_unconfirmed(&mut *tx, AlertKind::BrokerAway, UNCONFIRMED_SECONDS).await?;
        crate::store::commit(tx).await?;
        for kind in new.iter().flat_map(|&(kind, n)| std::iter::repeat_n(kind, n)) {
            count_new(true, kind);
        }
        Ok(new.iter().map(|(_, n)| n).sum())
    }

    /// Reports that this server's broker is away, with the reason, or is back. The alert stays open while any server
    /// reports the broker as away; `evaluate_alerts` clears it.
    pub async fn report_broker(&self, place: &str, away: Option<&str>) -> Result<()> {
        let pool = &self.0.core.pools.read;
        let kind = AlertKind::BrokerAway;
        if let Some(why) = away {
            let row = RaiseRow {
                kind,
                subject: place.to_owned(),
                message: format!("RabbitMQ at {place} is away: {}. Workers are woken without it.", truncated(why)),
                owner_id: None,
                job_type: None,
                root_id: None,
                job_id: None,
                item_id: None,
            };
            if !count_new(alerts::raise(pool, &row, false).await?, kind) {
                alerts::confirm(pool, kind, place).await?;
            }
        }
        Ok(())
    }

    /// Writes messages about raised and cleared alerts that were not announced yet. Returns their number.
    pub async fn write_alert_messages(&self, limit: i64) -> Result<usize> {
        let mut tx = crate::store::begin(&self.0.core.pools.read).await?;
        let raised = alerts::take_raised(&mut tx, limit).await?;
        let cleared = alerts::take_cleared(&mut tx, limit).await?;
        let raised = raised.iter().map(|alert| ("raised", alert.raised_at, alert));
        let all =
            raised.chain(cleared.iter().map(|alert| ("cleared", alert.cleared_at.unwrap_or(alert.raised_at), alert)));
        let mut n = 0;
        for (event, timestamp, alert) in all {
            let message = Message { kind: format!("alert.{event}"), timestamp, data: alert };
            let body = serde_json::to_string(&message).map_err(|error| Error::Broken(error.to_string()))?;
            outbound_posts::add(&mut tx, &format!("{}-{event}", alert.id), ALERTS, &body).await?;
            n += 1;
        }
        crate::store::commit(tx).await?;
        Ok(n)
    }
}

/// Purpose of messages about alerts.
pub const ALERTS: &str = "alerts";

/// Body of a message.
#[derive(Serialize)]
struct Message<'a> {
    #[serde(rename = "type")]
    kind: String,
    timestamp: Time,
    data: &'a Alert,
}

/// Replaces the open alerts of a kind by the current ones, each with its count. Returns the number of new ones.
async fn replace_open(tx: &mut Tx, kind: AlertKind, found: Vec<(RaiseRow, i64)>) -> Result<usize> {
    let open = alerts::open_subjects(&mut **tx, kind).await?;
    let ended: Vec<String> =
        open.iter().filter(|subject| found.iter().all(|(row, _)| row.subject != **subject)).cloned().collect();
    if !ended.is_empty() {
        alerts::clear(&mut **tx, kind, &ended).await?;
    }
    raise_or_restate(tx, kind, found).await
}

/// Raises new alerts and updates the message and count of open ones. Returns the number of new ones.
async fn raise_or_restate(tx: &mut Tx, kind: AlertKind, found: Vec<(RaiseRow, i64)>) -> Result<usize> {
    let open = alerts::open_subjects(&mut **tx, kind).await?;
    let mut raised = 0;
    for (row, _) in found.iter().filter(|(row, _)| !open.contains(&row.subject)) {
        raised += usize::from(alerts::raise(&mut **tx, row, false).await?);
    }
    if !found.is_empty() {
        alerts::restate(&mut **tx, kind, &found).await?;
    }
    Ok(raised)
}

/// Duration in words: seconds below two minutes, then minutes or hours, so that the message rarely changes.
fn duration_text(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} seconds"),
        s if s < 7_200.0 => format!("{:.0} minutes", (s / 60.0).floor()),
        s => format!("{:.0} hours", (s / 3_600.0).floor()),
    }
}

/// Raises an alert for a result that was refused because its job is canceled (`cancellation`): the work was unwanted
/// and may have to be undone. The engine calls this after its commit.
pub(crate) async fn ending_refused(core: &Core, job: &JobInfo) {
    let row = RaiseRow {
        kind: AlertKind::EndingRefused,
        subject: job.job_id.to_string(),
        message: format!("A worker handed in a result of {} after the job was canceled.", job.type_name),
        owner_id: Some(job.owner_id),
        job_type: Some(job.type_name.clone()),
        root_id: Some(job.root_id),
        job_id: Some(job.job_id),
        item_id: None,
    };
    raise(core, row).await;
}

async fn raise(core: &Core, row: RaiseRow) {
    match alerts::raise(&core.pools.read, &row, true).await {
        Ok(is_new) => {
            count_new(is_new, row.kind);
        }
        Err(error) => {
            tracing::warn!(%error, kind = row.kind.as_str(), subject = row.subject, "alert not raised");
        }
    }
}

/// Counts a new alert for `/metrics`.
pub(crate) fn count_new(is_new: bool, kind: AlertKind) -> bool {
    if is_new {
        metrics::counter!("treeline_alerts_total", "kind" => kind.as_str()).increment(1);
    }
    is_new
}

fn of_type(kind: AlertKind, job_type: String, message: String) -> RaiseRow {
    RaiseRow {
        kind,
        subject: job_type.clone(),
        message,
        owner_id: None,
        job_type: Some(job_type),
        root_id: None,
        job_id: None,
        item_id: None,
    }
}

/// First characters of an error message.
fn truncated(message: &str) -> String {
    const LONGEST: usize = 200;
    let mut short: String = message.chars().take(LONGEST).collect();
    if message.chars().nth(LONGEST).is_some() {
        short.push('…');
    }
    short
}
