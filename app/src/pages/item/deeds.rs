//! What can be done to an item: retried (with the payload as it is or edited), cancelled, made again.
//!
//! The payload in the field is the text as it is stored; unless somebody edits it, none is sent, so that no number
//! is ever written anew. What the type's schema refuses is said under the field, with its place in the document.

use domain::{Item, ItemState};
use leptos::prelude::*;

use crate::components::{
    deed::{Deed, Refused, deed_open, field_fault},
    panel::section,
    text_area::text_area,
};

/// Who looks, and what they tried.
#[derive(Clone, Debug, Default)]
pub struct Deeds {
    /// The item is the reader's own.
    pub own: bool,
    /// The form that a link asks to be open.
    pub open: Option<String>,
    pub refused: Option<Refused>,
    /// As typed, where a retry or a replay was refused.
    pub edit: Edit,
    /// What was just done.
    pub did: Option<String>,
}

/// What was typed into the fields of a retry or a replay.
#[derive(Clone, Debug, Default)]
pub struct Edit {
    pub payload: Option<String>,
    pub expires_at: String,
    pub restart: bool,
}

pub(super) fn section_of(item: &Item, deeds: &Deeds) -> Option<AnyView> {
    let tried = |name: &str| deeds.refused.as_ref().is_some_and(|refused| refused.deed == name);
    let state = item.state;
    let mut forms: Vec<AnyView> = Vec::new();
    if matches!(
        state,
        ItemState::Dead | ItemState::Expired | ItemState::Cancelled | ItemState::Retryable | ItemState::Scheduled
    ) || tried("retry")
    {
        forms.push(retry(item, deeds));
    }
    if !state.is_final() || tried("cancel") {
        forms.push(cancel(item, deeds));
    }
    if state.is_final() || tried("replay") {
        forms.push(replay(item, deeds));
    }
    (!forms.is_empty())
        .then(|| section("deeds", "What you can do", view! { <div class="deeds">{forms}</div> }.into_any()))
}

fn form(item: &Item, deeds: &Deeds, name: &'static str, verb: &'static str) -> Deed {
    Deed {
        deed: name,
        action: format!("/items/{}/{name}", item.id),
        verb,
        text: ().into_any(),
        fields: None,
        button: String::new(),
        dangerous: false,
        others: !deeds.own,
    }
}

fn retry(item: &Item, deeds: &Deeds) -> AnyView {
    let now = matches!(item.state, ItemState::Retryable | ItemState::Scheduled);
    let text = if now {
        "It waits for its time. It is due now, and a worker takes it when its turn comes."
    } else {
        "The same item is given back to the workers. Its failures count from 0 again; its history and the payload as it came are kept. Its job opens again until it is through."
    };
    let restart = item.step.as_ref().map(|step| {
        let text = format!("Begin at the start, not after the step {}", step.name);
        view! {
            <label class="check">
                <input type="checkbox" name="restart" value="yes" checked=deeds.edit.restart />
                <span>{text}</span>
            </label>
        }
    });
    let fields = view! { {payload(item, deeds, "retry")} {(!now).then(|| expires(item, deeds, "retry"))} {restart} };
    let button = if now { "Run it now" } else { "Retry it" };
    let form = Deed {
        text: text.into_any(),
        fields: Some(fields.into_any()),
        button: button.to_owned(),
        ..form(item, deeds, "retry", if now { "Run now…" } else { "Retry…" })
    };
    opened(form, deeds)
}

fn cancel(item: &Item, deeds: &Deeds) -> AnyView {
    let text = if item.state == ItemState::Running {
        "It is in work: the worker is told to stop, and whatever it hands in makes the item cancelled."
    } else {
        "It will not start. A person can retry it later."
    };
    let form = Deed {
        text: text.into_any(),
        button: "Cancel this item".to_owned(),
        dangerous: true,
        ..form(item, deeds, "cancel", "Cancel…")
    };
    opened(form, deeds)
}

fn replay(item: &Item, deeds: &Deeds) -> AnyView {
    let text = "A new tree of one item is made, with the same type, keys and priority. This item stays as it is.";
    let fields = view! { {payload(item, deeds, "replay")} {expires(item, deeds, "replay")} };
    let form = Deed {
        text: text.into_any(),
        fields: Some(fields.into_any()),
        button: "Make it again".to_owned(),
        ..form(item, deeds, "replay", "Make again…")
    };
    opened(form, deeds)
}

/// A form, open where a link asks for it.
fn opened(form: Deed, deeds: &Deeds) -> AnyView {
    let asked = deeds.refused.is_none() && deeds.open.as_deref() == Some(form.deed);
    deed_open(form, deeds.refused.as_ref(), asked)
}

fn payload(item: &Item, deeds: &Deeds, form: &str) -> AnyView {
    let (id, help, fault) =
        (format!("{form}-payload"), format!("{form}-payload-help"), format!("{form}-payload-fault"));
    let here = deeds.refused.as_ref().filter(|refused| refused.deed == form);
    let stored = item.payload.as_ref().map_or("null", |payload| payload.text());
    let typed = here.and(deeds.edit.payload.as_deref()).unwrap_or(stored);
    let faults = field_fault(here.map(|refused| &refused.problem), "/payload", &fault);
    let describes = if faults.is_some() { format!("{help} {fault}") } else { help.clone() };
    view! {
        <div class="field">
            <label for=id.clone()>"Payload"</label>
            {text_area(&id, "payload", typed, &describes, faults.is_some())}
            <p class="sub" id=help>
                "JSON. Left as it is, it is used byte for byte; edited, every number is kept as you write it."
            </p>
            {faults}
        </div>
    }
    .into_any()
}

fn expires(item: &Item, deeds: &Deeds, form: &str) -> Option<AnyView> {
    item.expires_at?;
    let here = deeds.refused.as_ref().filter(|refused| refused.deed == form);
    let fault = format!("{form}-expires-fault");
    let faults = field_fault(here.map(|refused| &refused.problem), "/expires_at", &fault);
    let typed = here.map(|_| deeds.edit.expires_at.clone()).unwrap_or_default();
    Some(
        view! {
            <label class="field">
                <span>"Not after, anew (such as 2026-12-01T12:00:00Z; empty: as it was)"</span>
                <input type="text" name="expires_at" class="mono" value=typed aria-invalid=faults.is_some().then_some("true") />
            </label>
            {faults}
        }
        .into_any(),
    )
}
