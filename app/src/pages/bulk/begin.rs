//! `/bulk/new`: what is to be done to what. It leads to a preview, and does nothing itself.

use domain::{
    Problem,
    api::{BulkAction, BulkTarget},
    filter::Fault,
};
use leptos::prelude::*;

use crate::{
    components::{deed::trouble, state::icon},
    frame::{Page, Place},
};

/// What was typed.
#[derive(Clone, Debug)]
pub struct Asking {
    pub action: BulkAction,
    pub target: BulkTarget,
    pub q: String,
    pub fault: Option<Fault>,
    pub problem: Option<Problem>,
}

pub fn new_page(asking: &Asking) -> Page {
    let choices = [
        (BulkAction::Retry, BulkTarget::Items, "Retry items"),
        (BulkAction::Cancel, BulkTarget::Items, "Cancel items"),
        (BulkAction::Cancel, BulkTarget::Jobs, "Cancel jobs"),
        (BulkAction::Delete, BulkTarget::Jobs, "Delete jobs"),
    ]
    .map(|(action, target, word)| {
        let selected = action == asking.action && target == asking.target;
        view! {
            <option value=format!("{} {}", action.as_str(), target.as_str()) selected=selected>
                {word}
            </option>
        }
    })
    .collect_view();
    let bad = asking.fault.is_some();
    let fault = asking.fault.as_ref().map(|fault| {
        view! {
            <p class="field-fault" id="bulk-fault" role="alert">
                {icon("dead")}
                " "
                {fault.to_string()}
            </p>
        }
    });
    let content = view! {
        <div class="narrow">
            <p class="crumbs">
                <a href="/bulk">"Operations"</a>
            </p>
            <h1>"New operation"</h1>
            {asking.problem.as_ref().map(trouble)}
            <form class="form" method="post" action="/bulk">
                <label class="field">
                    <span>"What to do"</span>
                    <select name="what">{choices}</select>
                </label>
                <label class="field">
                    <span>"To all that match (the filter of /items or of /jobs)"</span>
                    <input
                        type="search"
                        name="q"
                        class="mono"
                        value=asking.q.clone()
                        maxlength="2000"
                        required
                        spellcheck="false"
                        autocomplete="off"
                        aria-describedby=bad.then_some("bulk-fault")
                        aria-invalid=bad.then_some("true")
                    />
                </label>
                {fault}
                <div class="actions">
                    <button class="primary" type="submit">
                        "Preview"
                    </button>
                    <span class="sub">"Counts exactly and shows some of them. Nothing is done yet."</span>
                </div>
            </form>
        </div>
    }
    .into_any();
    Page { title: "New operation".to_owned(), place: Place::Bulk, content, lives: false }
}
