//! Alert channels: creation, changes, lists, and tests (`alert-channels`).
//!
//! Admins write, staff read. A channel's receiver is sealed and never returned. `messages` decides which alerts a channel
//! receives, `formats` how they look; `maintenance` sends them. Nothing is sent here.

pub mod formats; // messages of each kind of channel
pub mod messages; // alerts to be announced

use domain::{
    Code, Problem, Time,
    id::is_name,
    job_type::SigningSecret,
    limits::{GREATEST_COUNT, LONGEST_URL, is_text},
    notify::{
        alert::AlertKind,
        alert_channel::{
            AlertChannel, AlertChannelPatch, ChannelKind, LONGEST_AFTER_SECONDS, LONGEST_CHANNEL_NAME,
            LONGEST_RECIPIENT, LONGEST_ROUTING_KEY, MOST_CHANNEL_TYPES, MOST_CHANNELS, MOST_RECIPIENTS,
            NewAlertChannel, QuietHours, minute_of,
        },
        delivery::CallbackDelivery,
    },
    problem::FieldProblem,
    query::topic::Topic,
};
use jiff::tz::TimeZone;
use time::OffsetDateTime;
use url::Url;
use uuid::Uuid;

use crate::App;
use engine::live_updates::LiveUpdates as _;
use engine::{
    access::caller::{Caller, Scope},
    addresses::Reach,
    error::{Error, Result},
    sealing::channel_target::ChannelTarget,
    store::{
        Tx,
        notify::{
            alert_channels::{self as store, ChannelRow},
            audit::{self as audit_log, AuditRow},
            deliveries,
        },
        page_range::PageRange,
    },
    stored_response::ResponseSlot,
    task::in_task,
};

/// A channel with its opened receiver.
struct Channel {
    row: ChannelRow,
    kind: ChannelKind,
    target: ChannelTarget,
    quiet_hours: Option<QuietHours>,
}

impl Channel {
    fn open(app: &App, row: ChannelRow) -> Result<Self> {
        let broken = |what: &str| Error::Broken(format!("the {what} of an alert channel cannot be read"));
        let kind = ChannelKind::parse(&row.kind).ok_or_else(|| broken("kind"))?;
        let target = ChannelTarget::open(&app.sealer, &row.target).map_err(|_| broken("receiver"))?;
        let quiet = row.quiet_hours.as_deref().map(serde_json::from_str).transpose();
        Ok(Self { kind, target, quiet_hours: quiet.map_err(|_| broken("quiet hours"))?, row })
    }

    fn shown(&self) -> AlertChannel {
        let row = &self.row;
        AlertChannel {
            id: row.id,
            name: row.name.clone(),
            kind: self.kind,
            url: self.target.shown_url(self.kind),
            to: self.target.to.clone(),
            kinds: row.kinds.iter().filter_map(|kind| AlertKind::parse(kind)).collect(),
            types: row.types.clone(),
            min_count: row.min_count,
            after_seconds: row.after_seconds,
            send_cleared: row.send_cleared,
            quiet_hours: self.quiet_hours.clone(),
            paused: row.paused,
            created_at: Time(row.created_at),
            updated_at: Time(row.updated_at),
        }
    }

    /// Refuses what is outside its limits: 422 with the fields, or `url_not_allowed`.
    fn check(&self, app: &App) -> Result<(), Problem> {
        let mut faults = Vec::new();
        let mut report = |pointer: String, detail: String| faults.push((pointer, detail));
        let row = &self.row;
        if !is_text(&row.name, 1, LONGEST_CHANNEL_NAME) {
            report("/name".to_owned(), format!("expected 1 to {LONGEST_CHANNEL_NAME} characters"));
        }
        if row.types.len() > MOST_CHANNEL_TYPES {
            report("/types".to_owned(), format!("expected at most {MOST_CHANNEL_TYPES} types"));
        }
        for (at, _) in row.types.iter().enumerate().filter(|(_, name)| !is_name(name)) {
            report(format!("/types/{at}"), "expected the name of a job type".to_owned());
        }
        if !(1..=GREATEST_COUNT).contains(&row.min_count) {
            report("/min_count".to_owned(), format!("expected 1 to {GREATEST_COUNT}"));
        }
        if !(0..=LONGEST_AFTER_SECONDS).contains(&row.after_seconds) {
            report("/after_seconds".to_owned(), format!("expected 0 to {LONGEST_AFTER_SECONDS}"));
        }
        if let Some(quiet) = &self.quiet_hours {
            if TimeZone::get(&quiet.time_zone).is_err() {
                let expected = "expected an IANA time zone, such as Europe/Berlin";
                report("/quiet_hours/time_zone".to_owned(), expected.to_owned());
            }
            for (field, text) in [("from", &quiet.from), ("to", &quiet.to)] {
                if minute_of(text).is_none() {
                    report(format!("/quiet_hours/{field}"), "expected a time of day such as 22:00".to_owned());
                }
            }
        }
        self.check_receiver(&mut report);
        if !faults.is_empty() {
            return Err(Problem::invalid_body(faults));
        }
        let Some(url) = &self.target.url else { return Ok(()) };
        Reach::of_callbacks(app.config.callback_allow.clone()).check(url).map_err(|problem| Problem {
            errors: vec![FieldProblem { pointer: "/url".to_owned(), detail: problem.detail.clone() }],
            ..problem
        })
    }

    /// Reports missing fields of the receiver, and those that the kind does not have.
    fn check_receiver(&self, report: &mut impl FnMut(String, String)) {
        let (kind, target) = (self.kind, &self.target);
        let mut expect = |field: &str, given: bool, needed: bool, allowed: bool| {
            if given && !allowed {
                report(format!("/{field}"), format!("expected no {field} in a channel of the kind {}", kind.as_str()));
            } else if needed && !given {
                report(format!("/{field}"), format!("expected a {field}"));
            }
        };
        let posts = kind != ChannelKind::Email;
        expect("url", target.url.is_some(), posts && kind != ChannelKind::Pagerduty, posts);
        expect("secret", target.secret.is_some(), false, kind == ChannelKind::Webhook);
        let pages = kind == ChannelKind::Pagerduty;
        expect("routing_key", target.routing_key.is_some(), pages, pages);
        expect("to", !target.to.is_empty(), !posts, !posts);
        if target.url.as_ref().is_some_and(|url| url.len() > LONGEST_URL) {
            report("/url".to_owned(), format!("expected at most {LONGEST_URL} bytes"));
        }
        if let Some(expected) = target.secret.as_ref().and_then(SigningSecret::problem) {
            report("/secret".to_owned(), expected.to_owned());
        }
        let is_key = |key: &String| {
            (1..=LONGEST_ROUTING_KEY).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_alphanumeric())
        };
        if target.routing_key.as_ref().is_some_and(|key| !is_key(key)) {
            report("/routing_key".to_owned(), "expected the integration key of a PagerDuty service".to_owned());
        }
        if target.to.len() > MOST_RECIPIENTS {
            report("/to".to_owned(), format!("expected at most {MOST_RECIPIENTS} addresses"));
        }
        for (at, to) in target.to.iter().enumerate() {
            if to.len() > LONGEST_RECIPIENT || to.parse::<lettre::Address>().is_err() {
                report(format!("/to/{at}"), "expected an email address".to_owned());
            } else if target.to[..at].contains(to) {
                report(format!("/to/{at}"), "expected each address once".to_owned());
            }
        }
    }
}

/// Creates a channel. 422 if a field or the receiver is refused.
pub async fn create(
    app: &App,
    caller: &Caller,
    new: NewAlertChannel,
    response_slot: ResponseSlot,
) -> Result<AlertChannel> {
    caller.require(Scope::Admin)?;
    if new.kind == ChannelKind::Email && app.outgoing.mail.is_none() {
        let detail = "expected another kind: TREELINE_SMTP_URL names no mail server".to_owned();
        return Err(Problem::invalid_body([("/kind".to_owned(), detail)]).into());
    }
    let target = ChannelTarget { url: new.url, secret: new.secret, routing_key: new.routing_key, to: new.to };
    let now = OffsetDateTime::now_utc();
    let row = ChannelRow {
        id: Uuid::now_v7(),
        name: new.name,
        kind: new.kind.as_str().to_owned(),
        target: target.seal(&app.sealer),
        kinds: words(&new.kinds),
        types: new.types,
        min_count: new.min_count.unwrap_or(1),
        after_seconds: new.after_seconds.unwrap_or(0),
        send_cleared: new.send_cleared.unwrap_or(true),
        quiet_hours: new.quiet_hours.as_ref().map(stored),
        paused: new.paused,
        created_at: now,
        updated_at: now,
        now,
    };
    Channel { row: row.clone(), kind: new.kind, target, quiet_hours: new.quiet_hours }.check(app)?;
    let (inner, caller) = (app.clone(), caller.clone());
    in_task("creating an alert channel", async move {
        let mut tx = engine::store::begin(&inner.pool).await?;
        if store::count_to_add(&mut tx).await? >= MOST_CHANNELS {
            let detail = format!("expected at most {MOST_CHANNELS} channels; delete one first");
            return Err(Problem::invalid_body([(String::new(), detail)]).into());
        }
        store::insert(&mut tx, &row).await?;
        let created = Channel::open(&inner, found(&mut tx, row.id).await?)?.shown();
        record(&mut tx, &caller, "alert_channel.create", &created).await?;
        response_slot.store(&mut tx, &created).await?;
        crate::store::commit(tx).await?;
        Ok(created)
    })
    .await
}

/// Returns a page of the channels.
pub async fn list(app: &App, caller: &Caller, part: PageRange) -> Result<Vec<AlertChannel>> {
    require_staff(caller)?;
    let rows = store::list(&app.pool, part).await?;
    rows.into_iter().map(|row| Ok(Channel::open(app, row)?.shown())).collect()
}

/// Returns a channel.
pub async fn find(app: &App, caller: &Caller, id: Uuid) -> Result<AlertChannel> {
    require_staff(caller)?;
    let mut connection = app.pool.acquire().await?;
    Ok(Channel::open(app, found(&mut connection, id).await?)?.shown())
}

/// Changes a channel. Messages that have not arrived follow the change.
pub async fn change(app: &App, caller: &Caller, id: Uuid, patch: AlertChannelPatch) -> Result<AlertChannel> {
    caller.require(Scope::Admin)?;
    let (app, caller) = (app.clone(), caller.clone());
    in_task("changing an alert channel", async move {
        let mut tx = engine::store::begin(&app.pool).await?;
        let row = store::lock(&mut tx, id).await?.ok_or_else(|| Problem::not_found("alert channel"))?;
        let mut channel = Channel::open(&app, row)?;
        apply(&mut channel, patch)?;
        channel.check(&app)?;
        channel.row.target = channel.target.seal(&app.sealer);
        store::update(&mut tx, &channel.row).await?;
        let changed = Channel::open(&app, found(&mut tx, id).await?)?.shown();
        record(&mut tx, &caller, "alert_channel.change", &changed).await?;
        crate::store::commit(tx).await?;
        Ok(changed)
    })
    .await
}

/// Deletes a channel. Its deliveries stay for thirty days; what has not arrived is not sent any more.
pub async fn delete(app: &App, caller: &Caller, id: Uuid) -> Result<()> {
    caller.require(Scope::Admin)?;
    let (app, caller) = (app.clone(), caller.clone());
    in_task("deleting an alert channel", async move {
        let mut tx = engine::store::begin(&app.pool).await?;
        let row = store::lock(&mut tx, id).await?.ok_or_else(|| Problem::not_found("alert channel"))?;
        let channel = Channel::open(&app, row)?.shown();
        store::delete(&mut tx, id).await?;
        record(&mut tx, &caller, "alert_channel.delete", &channel).await?;
        crate::store::commit(tx).await?;
        app.hub.changed(Topic::Deliveries);
        Ok(())
    })
    .await
}

/// Writes a test message for each receiver of a channel, whatever its rule says. Returns the deliveries.
pub async fn test(app: &App, caller: &Caller, id: Uuid) -> Result<Vec<CallbackDelivery>> {
    caller.require(Scope::Admin)?;
    let (app, caller) = (app.clone(), caller.clone());
    in_task("testing an alert channel", async move {
        let mut tx = engine::store::begin(&app.pool).await?;
        let channel = Channel::open(&app, found(&mut tx, id).await?)?;
        let messages = messages::test_of(&channel);
        record(&mut tx, &caller, "alert_channel.test", &channel.shown()).await?;
        store::insert_messages(&mut tx, id, &channel.target.host(channel.kind), &messages).await?;
        crate::store::commit(tx).await?;
        app.hub.changed(Topic::Deliveries);
        let mut written = Vec::new();
        for message in messages {
            written.extend(deliveries::find(&app.pool, &app.sealer, message.id).await?.map(|(delivery, _)| delivery));
        }
        Ok(written)
    })
    .await
}

fn require_staff(caller: &Caller) -> Result<(), Problem> {
    let refused = || Problem::new(Code::Forbidden, "Only staff may see alert channels.");
    if caller.sees_all() { Ok(()) } else { Err(refused()) }
}

async fn found(on: &mut sqlx::PgConnection, id: Uuid) -> Result<ChannelRow> {
    Ok(store::find(on, id).await?.ok_or_else(|| Problem::not_found("alert channel"))?)
}

async fn record(tx: &mut Tx, caller: &Caller, action: &'static str, channel: &AlertChannel) -> Result<()> {
    let receiver = channel.url.clone().unwrap_or_else(|| channel.to.join(", "));
    let detail = format!("{} ({}): {receiver}", channel.name, channel.kind.as_str());
    Ok(audit_log::record(tx, &AuditRow::by(caller, action).with_detail(detail)).await?)
}

/// Applies a change. The key of PagerDuty may not follow a URL to another host.
fn apply(channel: &mut Channel, patch: AlertChannelPatch) -> Result<(), Problem> {
    let row = &mut channel.row;
    row.name = patch.name.unwrap_or_else(|| row.name.clone());
    row.kinds = patch.kinds.map_or_else(|| row.kinds.clone(), |kinds| words(&kinds));
    row.types = patch.types.unwrap_or_else(|| row.types.clone());
    row.min_count = patch.min_count.unwrap_or(row.min_count);
    row.after_seconds = patch.after_seconds.unwrap_or(row.after_seconds);
    row.send_cleared = patch.send_cleared.unwrap_or(row.send_cleared);
    row.paused = patch.paused.unwrap_or(row.paused);
    if let Some(quiet) = patch.quiet_hours {
        row.quiet_hours = quiet.as_ref().map(stored);
        channel.quiet_hours = quiet;
    }
    let before = channel.target.url(channel.kind).as_ref().map(Url::origin);
    let target = &mut channel.target;
    target.url = patch.url.or(target.url.take());
    target.to = patch.to.unwrap_or_else(|| std::mem::take(&mut target.to));
    if let Some(secret) = patch.secret {
        target.secret = secret;
    }
    let new_key = patch.routing_key.is_some();
    target.routing_key = patch.routing_key.or(target.routing_key.take());
    let moved = channel.target.url(channel.kind).as_ref().map(Url::origin) != before;
    if moved && channel.kind == ChannelKind::Pagerduty && !new_key {
        let detail = "expected the routing_key with a url of another host, to which it is sent".to_owned();
        return Err(Problem::invalid_body([("/routing_key".to_owned(), detail)]));
    }
    Ok(())
}

fn words(kinds: &[AlertKind]) -> Vec<String> {
    kinds.iter().map(|kind| kind.as_str().to_owned()).collect()
}

fn stored(quiet: &QuietHours) -> String {
    domain::Document::of(quiet).text().to_owned()
}
