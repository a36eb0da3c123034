//! Form of an alert channel: receiver, rule, quiet hours.

use domain::{
    Problem,
    notify::{
        alert::AlertKind,
        alert_channel::{AlertChannel, ChannelKind, Weekday},
    },
};
use leptos::prelude::*;

use crate::components::{action_form::problem_notice, form::Field};

/// Fields of a channel, as typed.
#[expect(clippy::struct_excessive_bools, reason = "each is a checkbox of the form, or a fact about it")]
#[derive(Clone, Debug)]
pub struct Typed {
    pub kind: ChannelKind,
    pub name: String,
    pub url: String,
    /// Email addresses.
    pub to: String,
    pub kinds: Vec<String>,
    pub types: String,
    pub min_count: String,
    pub after_seconds: String,
    pub send_cleared: bool,
    pub quiet: bool,
    pub time_zone: String,
    pub from: String,
    pub until: String,
    pub days: Vec<String>,
    pub paused: bool,
    pub problem: Option<Problem>,
    /// Secrets were typed, and are no longer there.
    pub lost_secrets: bool,
}

impl Typed {
    /// Fields of a new channel.
    pub fn new(kind: ChannelKind) -> Self {
        Self {
            kind,
            name: String::new(),
            url: String::new(),
            to: String::new(),
            kinds: Vec::new(),
            types: String::new(),
            min_count: "1".to_owned(),
            after_seconds: "0".to_owned(),
            send_cleared: true,
            quiet: false,
            time_zone: "UTC".to_owned(),
            from: "22:00".to_owned(),
            until: "07:00".to_owned(),
            days: Vec::new(),
            paused: false,
            problem: None,
            lost_secrets: false,
        }
    }

    /// Fields of a stored channel. The receiver's URL may be secret and is not written into the page.
    pub fn of(one: &AlertChannel) -> Self {
        let new = Self::new(one.kind);
        let quiet = one.quiet_hours.as_ref();
        Self {
            name: one.name.clone(),
            to: one.to.join(", "),
            kinds: one.kinds.iter().map(|kind| kind.as_str().to_owned()).collect(),
            types: one.types.join(", "),
            min_count: one.min_count.to_string(),
            after_seconds: one.after_seconds.to_string(),
            send_cleared: one.send_cleared,
            quiet: quiet.is_some(),
            time_zone: quiet.map_or(new.time_zone, |quiet| quiet.time_zone.clone()),
            from: quiet.map_or(new.from, |quiet| quiet.from.clone()),
            until: quiet.map_or(new.until, |quiet| quiet.to.clone()),
            days: quiet.map_or(new.days, |quiet| quiet.days.iter().map(|day| day.as_str().to_owned()).collect()),
            paused: one.paused,
            url: new.url,
            kind: new.kind,
            problem: new.problem,
            lost_secrets: new.lost_secrets,
        }
    }
}

/// Word for a day.
pub(super) const fn day_word(day: Weekday) -> &'static str {
    match day {
        Weekday::Monday => "Monday",
        Weekday::Tuesday => "Tuesday",
        Weekday::Wednesday => "Wednesday",
        Weekday::Thursday => "Thursday",
        Weekday::Friday => "Friday",
        Weekday::Saturday => "Saturday",
        Weekday::Sunday => "Sunday",
    }
}

/// Renders the form.
pub(super) fn form(typed: &Typed, action: String, button: &'static str, is_new: bool) -> AnyView {
    let problem = typed.problem.as_ref();
    let field =
        |label, name, value: &str, pointer| Field::new(label, name, "text").value(value).judged(problem, pointer);
    let number =
        |label, name, value: &str, pointer| Field::new(label, name, "number").value(value).judged(problem, pointer);
    let types = field("Job types", "types", &typed.types, "/types")
        .optional()
        .hint("Names with commas between them. Empty: all, and alerts that are about no type.");
    let count = number("Smallest count", "min_count", &typed.min_count, "/min_count")
        .hint("Of failures how many there are, of others how often it was raised.");
    let after = number("Open for at least, seconds", "after_seconds", &typed.after_seconds, "/after_seconds");
    view! {
        <form class="form" method="post" action=action id="channel-form">
            {problem.map(problem_notice)}
            <input type="hidden" name="kind" value=typed.kind.as_str() />
            <div class="fields">{field("Name", "name", &typed.name, "/name").view()}</div>
            {receiver(typed, is_new)}
            <fieldset>
                <legend class="label">"Kinds of alerts (none checked: all)"</legend>
                {kinds(typed)}
            </fieldset>
            <div class="fields">{types.view()}</div>
            <div class="fields">{count.view()} {after.view()}</div>
            {check("send_cleared", typed.send_cleared, "Also send when an alert is over")}
            {check("quiet", typed.quiet, "Quiet hours: nothing is sent; what is still open at their end is sent then")}
            <div class="fields">
                {field("From", "from", &typed.from, "/quiet_hours/from").view()}
                {field("To", "until", &typed.until, "/quiet_hours/to").view()}
                {field("Time zone", "time_zone", &typed.time_zone, "/quiet_hours/time_zone").hint("Such as Europe/Berlin.").view()}
            </div>
            <fieldset>
                <legend class="label">"Days on which quiet hours begin (none checked: every day)"</legend>
                {days(typed)}
            </fieldset>
            {check("paused", typed.paused, "Paused: nothing is sent")}
            <div class="actions">
                <button class="btn btn-primary" type="submit">
                    {button}
                </button>
            </div>
        </form>
    }
    .into_any()
}

/// Fields of the receiver, by kind.
fn receiver(typed: &Typed, is_new: bool) -> AnyView {
    let problem = typed.problem.as_ref();
    let unchanged = "It is not shown. Leave it empty to keep it.";
    let secret_field = |field: Field| if is_new { field } else { field.optional().hint(unchanged) };
    let url = |label| secret_field(long(Field::new(label, "url", "url")).value(&typed.url).judged(problem, "/url"));
    let fields = match typed.kind {
        ChannelKind::Email => {
            let to = long(Field::new("Addresses", "to", "text")).value(&typed.to);
            let to = first_fault(to, problem, "/to").hint("With commas between them.");
            first_fault(to, problem, "/kind").view()
        }
        ChannelKind::Slack => url("URL of the incoming webhook").view(),
        ChannelKind::Webhook => {
            let secret = Field::new("Signing secret", "secret", "password").optional().judged(problem, "/secret");
            let hint = if is_new { "Empty: the deployment's key for alerts signs." } else { unchanged };
            let secret = secret.hint(hint).autocomplete("new-password").view();
            view! { {url("URL").view()} {secret} }.into_any()
        }
        ChannelKind::Pagerduty => {
            let key = Field::new("Integration key", "routing_key", "password").judged(problem, "/routing_key");
            let key = secret_field(key.autocomplete("new-password")).view();
            let region = long(Field::new("URL", "url", "url")).optional().value(&typed.url).judged(problem, "/url");
            let region = region.hint("Only for another region, such as https://events.eu.pagerduty.com/v2/enqueue.");
            view! { {key} {region.view()} }.into_any()
        }
    };
    let lost = typed.lost_secrets.then(|| {
        view! {
            <p class="field-error">"Secrets, and URLs that may contain one, are not written into the page: enter them again."</p>
        }
    });
    view! {
        <div class="fields">{fields}</div>
        {lost}
    }
    .into_any()
}

fn long(field: Field) -> Field {
    Field { maxlength: 2_048, ..field }
}

/// Adds the first error below a pointer.
fn first_fault(field: Field, problem: Option<&Problem>, pointer: &str) -> Field {
    if field.fault.is_some() {
        return field;
    }
    let below = problem.and_then(|problem| problem.errors.iter().find(|fault| fault.pointer.starts_with(pointer)));
    Field { fault: below.and_then(|fault| crate::components::form::fault(problem, &fault.pointer)), ..field }
}

fn kinds(typed: &Typed) -> AnyView {
    let boxes = AlertKind::ALL.map(|kind| one_of("kinds", kind.as_str(), kind.title(), &typed.kinds));
    boxes.into_iter().collect_view().into_any()
}

fn days(typed: &Typed) -> AnyView {
    Weekday::ALL.iter().map(|day| one_of("days", day.as_str(), day_word(*day), &typed.days)).collect_view().into_any()
}

fn one_of(name: &'static str, value: &'static str, word: &'static str, chosen: &[String]) -> AnyView {
    view! {
        <label class="check">
            <input type="checkbox" name=name value=value checked=chosen.iter().any(|one| one == value) />
            <span>{word}</span>
        </label>
    }
    .into_any()
}

fn check(name: &'static str, checked: bool, word: &'static str) -> AnyView {
    view! {
        <label class="check">
            <input type="checkbox" name=name value="yes" checked=checked />
            <span>{word}</span>
        </label>
    }
    .into_any()
}
