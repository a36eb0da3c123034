//! `/alert-channels`, `/alert-channels/new` and `/alert-channels/{id}`: alert channels and their forms.

use app::{
    components::action_form::RefusedAction,
    pages::alert_channels::{self as page, AlertChannelPageData, AlertChannels, Typed},
};
use axum::{
    extract::{RawQuery, State},
    http::StatusCode,
    response::Response,
};
use domain::{
    Problem,
    job_type::SigningSecret,
    notify::{
        alert::AlertKind,
        alert_channel::{
            AlertChannel, AlertChannelPatch, ChannelKind, MOST_CHANNELS, NewAlertChannel, QuietHours, Weekday,
        },
    },
};
use uuid::Uuid;

use super::{
    Signed, address,
    form::{Fields, in_the_form},
    pairs, see_other,
};
use crate::{
    App, alert_channels,
    http::extract::{Path, TriedPath},
};
use engine::{
    access::caller::Role,
    error::{Error, Result},
    store::page_range::PageRange,
    stored_response::ResponseSlot,
};

fn word(query: Option<&str>, wanted: &str) -> Option<String> {
    pairs(query).find(|(name, _)| name == wanted).map(|(_, word)| word)
}

/// `GET /alert-channels`
pub(super) async fn list(State(app): State<App>, signed: Signed, RawQuery(query): RawQuery) -> Response {
    if let Err(refused) = signed.require(Role::Support) {
        return *refused;
    }
    match alert_channels::list(&app, &signed.caller, PageRange::newest(None, MOST_CHANNELS)).await {
        Ok(all) => {
            let flash = word(query.as_deref(), "did");
            let page_data = AlertChannels { all, admin: signed.caller.is_admin(), flash };
            signed.visit.page(StatusCode::OK, move || page::list_page(&page_data))
        }
        Err(error) => signed.visit.error_page(error),
    }
}

/// `GET /alert-channels/new`
pub(super) async fn new(signed: Signed, RawQuery(query): RawQuery) -> Response {
    if let Err(refused) = signed.require(Role::Admin) {
        return *refused;
    }
    let kind = word(query.as_deref(), "kind").as_deref().and_then(ChannelKind::parse);
    let typed = Typed::new(kind.unwrap_or(ChannelKind::Email));
    signed.visit.page(StatusCode::OK, move || page::new_page(&typed))
}

/// `POST /alert-channels`
pub(super) async fn create(State(app): State<App>, signed: Signed, fields: Fields) -> Response {
    let kind = ChannelKind::parse(fields.text("kind")).unwrap_or(ChannelKind::Email);
    let typed = typed(&fields, kind);
    let created = async {
        let patch = patch_of(&fields, &typed)?;
        let new = NewAlertChannel {
            name: typed.name.clone(),
            kind,
            url: patch.url,
            secret: patch.secret.flatten(),
            routing_key: patch.routing_key,
            to: patch.to.unwrap_or_default(),
            kinds: patch.kinds.unwrap_or_default(),
            types: patch.types.unwrap_or_default(),
            min_count: patch.min_count,
            after_seconds: patch.after_seconds,
            send_cleared: patch.send_cleared,
            quiet_hours: patch.quiet_hours.flatten(),
            paused: typed.paused,
        };
        alert_channels::create(&app, &signed.caller, new, ResponseSlot::none()).await
    };
    let problem = match created.await {
        Ok(made) => return see_other(&address(&format!("/alert-channels/{}", made.id), &[("did", "created")])),
        Err(error) => match in_the_form(error) {
            Ok(problem) => problem,
            Err(error) => return signed.visit.error_page(error),
        },
    };
    let typed = Typed { problem: Some(problem), ..typed };
    signed.visit.page(StatusCode::UNPROCESSABLE_ENTITY, move || page::new_page(&typed))
}

/// Fields of the form, as typed. Secrets are not among them: the URL of Slack is one, and other URLs may contain one
/// where `display_url` hides it.
fn typed(fields: &Fields, kind: ChannelKind) -> Typed {
    let url = fields.trimmed("url");
    let may_be_secret = kind == ChannelKind::Slack || url.contains(['@', '?', '#']);
    let has_secret = fields.given("secret").is_some() || fields.given("routing_key").is_some();
    let lost_secrets = has_secret || (may_be_secret && !url.is_empty());
    Typed {
        kind,
        name: fields.trimmed("name"),
        url: if may_be_secret { String::new() } else { url },
        to: fields.trimmed("to"),
        kinds: fields.all("kinds"),
        types: fields.trimmed("types"),
        min_count: fields.trimmed("min_count"),
        after_seconds: fields.trimmed("after_seconds"),
        send_cleared: fields.ticked("send_cleared"),
        quiet: fields.ticked("quiet"),
        time_zone: fields.trimmed("time_zone"),
        from: fields.trimmed("from"),
        until: fields.trimmed("until"),
        days: fields.all("days"),
        paused: fields.ticked("paused"),
        problem: None,
        lost_secrets,
    }
}

/// Change that a form asks for. An empty field of a secret changes nothing.
fn patch_of(fields: &Fields, typed: &Typed) -> Result<AlertChannelPatch, Problem> {
    let days = words(&typed.days, Weekday::parse, "/quiet_hours/days")?;
    let quiet =
        QuietHours { time_zone: typed.time_zone.clone(), from: typed.from.clone(), to: typed.until.clone(), days };
    let secret = fields.given("secret").map(|secret| Some(SigningSecret::One(secret.to_owned())));
    Ok(AlertChannelPatch {
        name: Some(typed.name.clone()),
        url: fields.given("url").map(str::to_owned),
        secret,
        routing_key: fields.given("routing_key").map(str::to_owned),
        to: (typed.kind == ChannelKind::Email).then(|| listed(&typed.to)),
        kinds: Some(words(&typed.kinds, AlertKind::parse, "/kinds")?),
        types: Some(listed(&typed.types)),
        min_count: Some(whole(&typed.min_count, "/min_count")?),
        after_seconds: Some(whole(&typed.after_seconds, "/after_seconds")?),
        send_cleared: Some(typed.send_cleared),
        quiet_hours: Some(typed.quiet.then_some(quiet)),
        paused: Some(typed.paused),
    })
}

/// Words with commas between them.
fn listed(typed: &str) -> Vec<String> {
    typed.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn words<T>(typed: &[String], parse: impl Fn(&str) -> Option<T>, pointer: &str) -> Result<Vec<T>, Problem> {
    let fault = || Problem::invalid_body([(pointer.to_owned(), "expected some of the choices".to_owned())]);
    typed.iter().map(|word| parse(word).ok_or_else(fault)).collect()
}

fn whole(typed: &str, pointer: &str) -> Result<i64, Problem> {
    let fault = || Problem::invalid_body([(pointer.to_owned(), "expected a whole number".to_owned())]);
    typed.parse().map_err(|_| fault())
}

/// `GET /alert-channels/{id}`
pub(super) async fn show(
    State(app): State<App>,
    signed: Signed,
    RawQuery(query): RawQuery,
    id: TriedPath<Uuid>,
) -> Response {
    if let Err(refused) = signed.require(Role::Support) {
        return *refused;
    }
    let rendered = async {
        let page_data = read(&app, &signed, id?.0).await?;
        Ok(AlertChannelPageData { flash: word(query.as_deref(), "did"), ..page_data })
    };
    signed.answer(rendered.await.map(|page_data| move || page::page(&page_data)))
}

async fn read(app: &App, signed: &Signed, id: Uuid) -> Result<AlertChannelPageData> {
    let one = alert_channels::find(app, &signed.caller, id).await?;
    let typed = Typed::of(&one);
    Ok(AlertChannelPageData { one, admin: signed.caller.is_admin(), typed, refused: None, flash: None })
}

/// `POST /alert-channels/{id}`
pub(super) async fn change(State(app): State<App>, signed: Signed, id: TriedPath<Uuid>, fields: Fields) -> Response {
    let id = match id {
        Ok(Path(id)) => id,
        Err(error) => return signed.visit.error_page(error),
    };
    let stored: AlertChannel = match alert_channels::find(&app, &signed.caller, id).await {
        Ok(stored) => stored,
        Err(error) => return signed.visit.error_page(error),
    };
    let typed = typed(&fields, stored.kind);
    let changed = async { alert_channels::change(&app, &signed.caller, id, patch_of(&fields, &typed)?).await };
    match changed.await {
        Ok(_) => see_other(&address(&format!("/alert-channels/{id}"), &[("did", "changed")])),
        Err(error) => {
            let put_in = |page_data, problem| AlertChannelPageData {
                typed: Typed { problem: Some(problem), ..typed },
                ..page_data
            };
            refused(&app, &signed, id, error, put_in).await
        }
    }
}

/// Page of a channel with the problem of a form.
async fn refused(
    app: &App,
    signed: &Signed,
    id: Uuid,
    error: Error,
    put_in: impl FnOnce(AlertChannelPageData, Problem) -> AlertChannelPageData,
) -> Response {
    let problem = match in_the_form(error) {
        Ok(problem) => problem,
        Err(error) => return signed.visit.error_page(error),
    };
    match read(app, signed, id).await {
        Ok(page_data) => {
            let page_data = put_in(page_data, problem);
            signed.visit.page(StatusCode::UNPROCESSABLE_ENTITY, move || page::page(&page_data))
        }
        Err(error) => signed.visit.error_page(error),
    }
}

/// `POST /alert-channels/{id}/test`
pub(super) async fn test(State(app): State<App>, signed: Signed, id: TriedPath<Uuid>) -> Response {
    let id = match id {
        Ok(Path(id)) => id,
        Err(error) => return signed.visit.error_page(error),
    };
    match alert_channels::test(&app, &signed.caller, id).await {
        Ok(written) => match &written[..] {
            [one] => see_other(&address(&format!("/deliveries/{}", one.id), &[("did", "tested")])),
            _ => see_other("/deliveries"),
        },
        Err(error) => {
            let put_in = |page_data, problem| {
                let refused = RefusedAction { action: "test", problem, reason: String::new() };
                AlertChannelPageData { refused: Some(refused), ..page_data }
            };
            refused(&app, &signed, id, error, put_in).await
        }
    }
}

/// `POST /alert-channels/{id}/delete`
pub(super) async fn delete(State(app): State<App>, signed: Signed, id: TriedPath<Uuid>) -> Response {
    let deleted = async { alert_channels::delete(&app, &signed.caller, id?.0).await };
    match deleted.await {
        Ok(()) => see_other(&address("/alert-channels", &[("did", "channel-deleted")])),
        Err(error) => signed.visit.error_page(error),
    }
}
