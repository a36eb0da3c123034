//! Alerts that a channel has to announce, in one transaction per channel.
//!
//! The rule of a channel decides whether an alert is announced, quiet hours decide when. What is raised in quiet hours
//! and still open when they end is announced then; what has cleared is not announced. `cleared` follows only `raised`, and
//! never overtakes it: a `raised` that has not arrived by then is superseded.

use domain::{
    Document,
    notify::{
        alert::Alert,
        alert_channel::{AlertEvent, ChannelKind, QuietHours, Weekday},
    },
    query::topic::Topic,
};
use jiff::{Timestamp, tz::TimeZone};
use time::OffsetDateTime;
use uuid::Uuid;

use super::Channel;
use crate::App;
use engine::{
    error::Result,
    live_updates::LiveUpdates as _,
    store::notify::alert_channels::{self as store, Announcement, NewMessage},
};

/// Maximum number of alerts of one channel in one transaction.
const BATCH: i64 = 100;

/// Writes the due messages of all channels. Returns their number.
pub async fn write_due(app: &App) -> Result<usize> {
    let mut written = 0;
    for id in store::with_work(&app.pool).await? {
        match write_due_of(app, id).await {
            Ok(n) => written += n,
            Err(error) if error.is_database_away() => return Err(error),
            // A channel that cannot be opened must not silence the others.
            Err(error) => tracing::warn!(%error, %id, "writing the messages of an alert channel failed"),
        }
    }
    if written > 0 {
        app.hub.changed(Topic::Deliveries);
    }
    Ok(written)
}

async fn write_due_of(app: &App, id: Uuid) -> Result<usize> {
    let mut tx = engine::store::begin(&app.pool).await?;
    let Some(row) = store::lock_free(&mut tx, id).await? else { return Ok(0) };
    let now = row.now;
    let channel = Channel::open(app, row)?;
    let is_quiet = channel.quiet_hours.as_ref().is_some_and(|quiet| is_quiet(quiet, now));

    // Resolving an incident of PagerDuty disturbs nobody, and prevents that it escalates.
    let may_clear = !is_quiet || channel.kind == ChannelKind::Pagerduty;
    let mut cleared = if may_clear { store::cleared(&mut tx, id, BATCH).await? } else { Vec::new() };
    let found = store::candidates(&mut tx, &channel.row, BATCH).await?;
    let mut raised = Vec::new();
    if is_quiet {
        store::record_announcements(&mut tx, id, &ids(&found), Announcement::Postponed).await?;
    } else {
        let dropped = store::dropped(&mut tx, id, BATCH).await?;
        store::record_announcements(&mut tx, id, &dropped, Announcement::Over).await?;
        raised = store::postponed(&mut tx, id, BATCH).await?;
        raised.extend(found);
        store::record_announcements(&mut tx, id, &ids(&raised), Announcement::Raised).await?;
    }
    // From here on deliveries are locked, and nobody else has the rows of this channel.
    let over = store::supersede(&mut tx, id, &ids(&cleared)).await?;
    cleared.retain(|alert| over.contains(&alert.id));
    store::record_announcements(&mut tx, id, &over, Announcement::Over).await?;
    let mut messages: Vec<NewMessage> =
        raised.iter().flat_map(|alert| about(&channel, alert, AlertEvent::Raised)).collect();
    if channel.row.send_cleared {
        messages.extend(cleared.iter().flat_map(|alert| about(&channel, alert, AlertEvent::Cleared)));
    }
    store::insert_messages(&mut tx, id, &channel.target.host(channel.kind), &messages).await?;
    crate::store::commit(tx).await?;
    Ok(messages.len())
}

fn ids(alerts: &[Alert]) -> Vec<Uuid> {
    alerts.iter().map(|alert| alert.id).collect()
}

/// Messages of an event to every receiver of the channel. `raised` describes the alert as it was before it cleared.
fn about(channel: &Channel, alert: &Alert, event: AlertEvent) -> Vec<NewMessage> {
    let mut alert = alert.clone();
    if event == AlertEvent::Raised {
        alert.cleared_at = None;
    }
    let text = Document::of(&alert).text().to_owned();
    to_all(channel, event, Some((alert.id, &text)))
}

/// Test messages to every receiver of the channel.
pub(super) fn test_of(channel: &Channel) -> Vec<NewMessage> {
    to_all(channel, AlertEvent::Test, None)
}

fn to_all(channel: &Channel, event: AlertEvent, alert: Option<(Uuid, &str)>) -> Vec<NewMessage> {
    let message = |recipient: Option<&str>| NewMessage {
        id: Uuid::now_v7(),
        alert_id: alert.map(|(id, _)| id),
        event: event.as_str(),
        alert: alert.map(|(_, text)| text.to_owned()),
        recipient: recipient.map(str::to_owned),
    };
    channel.target.recipients(channel.kind).into_iter().map(message).collect()
}

/// Returns true if a time is within quiet hours. An unknown zone is not quiet.
fn is_quiet(quiet: &QuietHours, now: OffsetDateTime) -> bool {
    let Ok(zone) = TimeZone::get(&quiet.time_zone) else { return false };
    let Ok(now) = Timestamp::from_nanosecond(now.unix_timestamp_nanos()) else { return false };
    let wall = zone.to_datetime(now);
    let day = Weekday::ALL[usize::from(wall.weekday().to_monday_zero_offset().unsigned_abs())];
    quiet.cover(day, u16::from(wall.hour().unsigned_abs()) * 60 + u16::from(wall.minute().unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> OffsetDateTime {
        domain::Time::parse(text).expect("a time").0
    }

    #[test]
    fn quiet_hours_follow_the_wall_clock_of_their_zone() {
        let quiet = |time_zone: &str| QuietHours {
            time_zone: time_zone.to_owned(),
            from: "22:00".to_owned(),
            to: "07:00".to_owned(),
            days: vec![Weekday::Friday],
        };
        // A Friday in winter, an hour ahead of UTC; then in summer, two hours ahead.
        let berlin = quiet("Europe/Berlin");
        assert!(!is_quiet(&berlin, at("2026-01-16T20:59:59Z")) && is_quiet(&berlin, at("2026-01-16T21:00:00Z")));
        assert!(is_quiet(&berlin, at("2026-07-17T20:00:00Z")) && !is_quiet(&berlin, at("2026-07-17T19:59:59Z")));
        assert!(is_quiet(&berlin, at("2026-01-17T05:59:59Z")), "the morning after");
        assert!(!is_quiet(&berlin, at("2026-01-17T06:00:00Z")) && !is_quiet(&berlin, at("2026-01-17T22:00:00Z")));
        // Clocks go forward in the night to Sunday, 2026-03-29.
        let spring = QuietHours { days: vec![Weekday::Saturday], ..quiet("Europe/Berlin") };
        assert!(is_quiet(&spring, at("2026-03-29T04:59:59Z")) && !is_quiet(&spring, at("2026-03-29T05:00:00Z")));
        assert!(!is_quiet(&quiet("Nowhere/Atall"), at("2026-01-16T23:00:00Z")));
    }
}
