//! Form that starts an operation after its preview, and the effect of its edits on sample payloads.

use domain::{
    Document, Problem,
    api::{BulkAction, BulkTarget},
    id::Uuid,
};
use leptos::prelude::*;

use super::{operation::OperationPageData, things};
use crate::components::{
    action_form::{field_fault, problem_notice, reason_of_operation},
    json,
    state::icon,
    text_area::text_area,
};

/// Outcome of edits on a sample.
#[derive(Clone, Debug, Default)]
pub struct Edited {
    /// Payloads before and after the edits; `None` after an edit that does not apply.
    pub payloads: Vec<(Uuid, Document, Option<Document>)>,
    /// Notes on values that differ from what was typed.
    pub notes: Vec<String>,
}

impl Edited {
    pub(super) fn card(&self) -> AnyView {
        let notes = self.notes.iter().map(|note| view! { <li>{note.clone()}</li> }).collect_view();
        let notes = (!self.notes.is_empty())
            .then(|| view! { <ul class="card-body stack-1 small" id="edit-notes">{notes}</ul> });
        let rows = self
            .payloads
            .iter()
            .map(|(id, before, after)| {
                let change = match after {
                    None => view! { <p class="card-body small soft">"The edit does not fit this payload; the item will be skipped."</p> }.into_any(),
                    Some(after) => json::changes(before, after).unwrap_or_else(|| {
                        view! { <p class="card-body small soft">"Nothing changes in this payload."</p> }.into_any()
                    }),
                };
                view! {
                    <li>
                        <p class="card-sum"><a class="mono" href=format!("/items/{id}")>{id.to_string()}</a></p>
                        {change}
                    </li>
                }
            })
            .collect_view();
        view! {
            <section class="card" id="edited" aria-labelledby="edited-heading">
                <div class="card-head">
                    <h2 id="edited-heading">"Payloads before and after"</h2>
                    <span class="sub">"a sample"</span>
                </div>
                {notes}
                <ul class="lined">{rows}</ul>
            </section>
        }
        .into_any()
    }
}

/// Start form. `will` is the number of members to act on.
pub(super) fn form(page_data: &OperationPageData, will: i64) -> AnyView {
    let one = &page_data.one;
    let here = page_data.refused.as_ref().filter(|refused| refused.action == "start");
    let problem: Option<&Problem> = here.map(|refused| &refused.problem);
    let (verb, text) = match (one.action, one.target) {
        (BulkAction::Retry, _) => ("Retry", "Attempts start again at 0. Jobs stay open until the operation is done."),
        (BulkAction::Cancel, BulkTarget::Items) => {
            ("Cancel", "Waiting items will not run. Those in progress are told to stop.")
        }
        (BulkAction::Cancel, BulkTarget::Jobs) => (
            "Cancel",
            "Waiting items will not run. Those in progress are told to stop. Finished results stay. This cannot be undone.",
        ),
        (BulkAction::Delete, _) => {
            ("Delete", "The jobs, their items, and all results are removed. This cannot be undone.")
        }
    };
    let edits = (one.action == BulkAction::Retry).then(|| edits(page_data, problem));
    let rate_faults = field_fault(problem, "/rate_per_second", "rate-fault");
    let class = if one.action == BulkAction::Retry { "btn btn-primary" } else { "btn btn-danger-solid" };
    let seen = page_data.edited.as_ref().map(|_| page_data.edits.clone());
    view! {
        <form class="card" method="post" action=format!("/bulk/{}/start", one.id) aria-labelledby="run-heading" id="begin">
            <div class="card-head"><h2 id="run-heading">"Run"</h2></div>
            <div class="card-body">
                <div class="stack">
                    {problem.map(problem_notice)}
                    <p class="small soft">{text}</p>
                    <input type="hidden" name="count" value=one.total.to_string() />
                    {seen.map(|seen| view! { <input type="hidden" name="seen_edits" value=seen.replace('\n', ";") /> })}
                    {reason_of_operation("start", &page_data.reason, page_data.staff)}
                    <label class="field">
                        <span class="label">"Speed limit " <em>"optional"</em></span>
                        <span class="with-unit">
                            <input
                                type="text"
                                inputmode="decimal"
                                name="rate"
                                value=page_data.rate.clone()
                                maxlength="10"
                                aria-invalid=rate_faults.is_some().then_some("true")
                                aria-describedby=rate_faults.is_some().then_some("rate-fault")
                            />
                            <span>{if one.target == BulkTarget::Items { "items per second" } else { "jobs per second" }}</span>
                        </span>
                    </label>
                    {rate_faults}
                    {edits}
                </div>
            </div>
            <div class="card-foot">
                <button class=class type="submit">{icon(if one.action == BulkAction::Retry { "rotate-cw" } else { "ban" })} {format!("{verb} {}", things(one.target, will))}</button>
                <a class="btn btn-quiet" href="/bulk">"Back"</a>
            </div>
        </form>
    }
    .into_any()
}

fn edits(page_data: &OperationPageData, problem: Option<&Problem>) -> AnyView {
    let faults = field_fault(problem, "/payload_edit", "edits-fault");
    view! {
        <details class="field" open=!page_data.edits.is_empty() id="payload-edits">
            <summary>"Edit payloads…"</summary>
            <label class="label" for="edits">"One edit a line"</label>
            {text_area("edits", "edits", &page_data.edits, "edits-help", faults.is_some())}
            {faults}
            <p class="help" id="edits-help">
                "set /amount 12.50 or remove /draft. Where a field holds text, what you write is kept as text. You see some payloads before and after first; items that an edit does not fit are skipped and counted."
            </p>
            <button class="btn btn-sm" type="submit" name="show" value="edits">"Preview edits"</button>
        </details>
    }
    .into_any()
}
