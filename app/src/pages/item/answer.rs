//! Form of an item that waits for an event: the worker's questions, answered by a person (`waiting-for-events`).
//!
//! A plain POST. A refusal shows the page again with the typed answers and the fault of each field. The form is part of
//! the refreshed sections: it goes when somebody else has answered, and typed text stays until then.

use domain::{
    Item, Problem,
    event_wait::{EventForm, EventWait, FieldType, FormField, ReceivedEvent},
};
use leptos::prelude::*;

use super::Actions;
use crate::components::{
    action_form::problem_notice,
    form::fault,
    json,
    state::icon,
    text_area::plain_text_area,
    timestamp::{ago, clock},
};

/// Name of the action in refusals.
pub(super) const ACTION: &str = "event";

/// The form, and the refusal of an answer.
pub(super) fn section(item: &Item, actions: &Actions) -> Option<AnyView> {
    let refused = actions.refused.as_ref().filter(|refused| refused.action == ACTION).map(|refused| &refused.problem);
    let notice = refused.map(problem_notice);
    let form = item.wait.as_ref().and_then(|wait| Some(form(item, wait, wait.form.as_ref()?, actions, refused)));
    (notice.is_some() || form.is_some()).then(|| view! { {notice} {form} }.into_any())
}

fn form(item: &Item, wait: &EventWait, form: &EventForm, actions: &Actions, refused: Option<&Problem>) -> AnyView {
    let since = wait.since.to_string();
    let title = form.title.clone().unwrap_or_else(|| format!("Answer \u{201c}{}\u{201d}", wait.name));
    let until = wait.until.map(|at| view! { <span class="sub">"until " {clock(at)}</span> });
    let fields = form.fields.iter().enumerate().map(|(at, field)| one(at, field, actions, refused)).collect_view();
    let description = form.description.clone().map(|text| view! { <p class="small soft">{text}</p> });
    view! {
        <form method="post" action=format!("/items/{}/events", item.id) id=format!("answer-{since}")>
            <input type="hidden" name="name" value=wait.name.clone() />
            <input type="hidden" name="since" value=since.clone() />
            <section class="card" aria-labelledby="answer-heading">
                <div class="card-head">
                    <h2 id="answer-heading">{title}</h2>
                    {until}
                </div>
                <div class="card-body">
                    <div class="stack">{description} {fields}</div>
                </div>
                <div class="card-foot">
                    <button class="btn btn-primary" type="submit">
                        {icon("send")}
                        "Send answer"
                    </button>
                </div>
            </section>
        </form>
    }
    .into_any()
}

/// One field with its label, hint and fault.
fn one(at: usize, field: &FormField, actions: &Actions, refused: Option<&Problem>) -> AnyView {
    let (id, name) = (format!("answer-{at}"), format!("answer.{}", field.name));
    let (hint_id, fault_id) = (format!("{id}-hint"), format!("{id}-fault"));
    let fault = fault(refused, &format!("/data/{}", field.name.replace('~', "~0").replace('/', "~1")));
    let typed = actions.edit.answers.iter().find(|(typed, _)| *typed == field.name).map(|(_, value)| value.clone());
    let described: Vec<String> =
        [field.description.is_some().then_some(&hint_id), fault.is_some().then_some(&fault_id)]
            .into_iter()
            .flatten()
            .cloned()
            .collect();
    let described = (!described.is_empty()).then(|| described.join(" "));
    let invalid = fault.is_some().then_some("true");
    let hint = field.description.clone().map(|hint| view! { <span class="help" id=hint_id>{hint}</span> });
    let fault = fault.map(|fault| view! { <span class="field-error" id=fault_id>{fault}</span> });
    if field.field_type == FieldType::Boolean {
        return view! {
            <div class="field">
                <label class="check">
                    <input
                        type="checkbox"
                        id=id
                        name=name
                        value="yes"
                        checked=typed.is_some()
                        aria-invalid=invalid
                        aria-describedby=described
                    />
                    <span>{field.label().to_owned()}</span>
                </label>
                {hint}
                {fault}
            </div>
        }
        .into_any();
    }
    let value = typed.unwrap_or_default();
    let required = field.required;
    let control = match field.field_type {
        FieldType::Choice => {
            let options = field
                .choices
                .iter()
                .map(|choice| {
                    view! {
                        <option value=choice.clone() selected=*choice == value>
                            {choice.clone()}
                        </option>
                    }
                })
                .collect_view();
            view! {
                <select id=id.clone() name=name required=required aria-invalid=invalid aria-describedby=described>
                    <option value="">"Choose…"</option>
                    {options}
                </select>
            }
            .into_any()
        }
        FieldType::Text => plain_text_area(&id, name, &value, described, required, invalid.is_some()),
        _ => {
            let is_number = field.field_type == FieldType::Number;
            view! {
                <input
                    type="text"
                    id=id.clone()
                    name=name
                    value=value
                    required=required
                    inputmode=is_number.then_some("decimal")
                    autocomplete="off"
                    maxlength="1000"
                    aria-invalid=invalid
                    aria-describedby=described
                />
            }
            .into_any()
        }
    };
    let optional = (!required).then(|| view! { " " <em>"optional"</em> });
    view! {
        <div class="field">
            <label class="label" for=id>
                {field.label().to_owned()}
                {optional}
            </label>
            {control}
            {hint}
            {fault}
        </div>
    }
    .into_any()
}

/// Card of the event that the item received.
pub(super) fn received(item: &Item) -> Option<AnyView> {
    let event = item.event.as_ref()?;
    let note = note(event);
    let document = &event.data;
    let data = (document.text() != "null")
        .then(|| json::viewer("event-doc", "Data of the event", document, Some(&format!("/api/v1/items/{}", item.id))));
    let copy = (document.text() != "null").then(|| json::copy_button("event-doc", "data", document));
    Some(
        view! {
            <section class="card" id="event" aria-labelledby="event-heading">
                <div class="card-head">
                    <h2 id="event-heading">"Event \u{201c}" {event.name.clone()} "\u{201d}"</h2>
                    <span class="sub">{note} {ago(event.at)}</span>
                    <div class="end">{copy}</div>
                </div>
                {data}
            </section>
        }
        .into_any(),
    )
}

/// Origin of the event, in words.
fn note(event: &ReceivedEvent) -> String {
    match (&event.by, event.timed_out) {
        (_, true) => "no event came in time, ".to_owned(),
        (Some(by), false) => format!("from {}, ", by.name),
        (None, false) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use domain::{
        Document, Time,
        identity::audit::{Actor, ActorKind},
    };

    use super::*;

    #[test]
    fn note_of_an_event_names_its_origin() {
        let at = Time::parse("2026-12-01T12:00:00Z").expect("a time");
        let by = Some(Actor { kind: ActorKind::User, name: "Ann".to_owned() });
        let event = ReceivedEvent { name: "approval".to_owned(), data: Document::null(), timed_out: false, at, by };
        assert_eq!(note(&event), "from Ann, ");
        assert_eq!(note(&ReceivedEvent { timed_out: true, by: None, ..event }), "no event came in time, ");
    }
}
