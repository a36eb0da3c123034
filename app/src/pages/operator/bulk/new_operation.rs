//! `/bulk/new`: action and filter of a new operation. The form leads to a preview and changes nothing.

use domain::{
    Problem,
    api::{BulkAction, BulkTarget},
    query::filter::Fault,
};
use leptos::prelude::*;

use super::{Stage, stages};
use crate::{
    components::{action_form::problem_notice, breadcrumbs::breadcrumbs, state::icon},
    frame::{NavSection, Page},
};

/// Fields of the form, as typed.
#[derive(Clone, Debug)]
pub struct NewOperationForm {
    pub action: BulkAction,
    pub target: BulkTarget,
    pub q: String,
    pub fault: Option<Fault>,
    pub problem: Option<Problem>,
}

const CHOICES: [(BulkAction, BulkTarget, &str, &str); 4] = [
    (
        BulkAction::Retry,
        BulkTarget::Items,
        "Retry items",
        "Failed or canceled items start again, with an edited payload where you want; expired ones need a new time and are skipped.",
    ),
    (
        BulkAction::Cancel,
        BulkTarget::Items,
        "Cancel items",
        "Items that wait will not run. Those in progress are told to stop.",
    ),
    (
        BulkAction::Cancel,
        BulkTarget::Jobs,
        "Cancel jobs",
        "Whole jobs, with everything below them. Finished results stay.",
    ),
    (
        BulkAction::Delete,
        BulkTarget::Jobs,
        "Delete jobs",
        "Completed jobs, their items, and all results. This cannot be undone.",
    ),
];

pub fn new_page(new_operation: &NewOperationForm) -> Page {
    let choices = CHOICES
        .into_iter()
        .map(|(action, target, word, text)| {
            let value = format!("{} {}", action.as_str(), target.as_str());
            view! {
                <label class="choice-card">
                    <input type="radio" name="what" value=value checked=action == new_operation.action && target == new_operation.target />
                    <span>
                        <strong>{word}</strong>
                        <span class="help">{text}</span>
                    </span>
                </label>
            }
        })
        .collect_view();
    let bad = new_operation.fault.is_some();
    let fault = new_operation.fault.as_ref().map(|fault| {
        view! {
            <p class="field-error" id="bulk-fault" role="alert">
                {icon("circle-alert")}
                " "
                {fault.to_string()}
            </p>
        }
    });
    breadcrumbs(&[("/bulk", "Operations")], "New operation");
    let content = view! {
        <div class="page-head">
            <h1>"New operation"</h1>
        </div>
        {stages(Stage::Choose)}
        {new_operation.problem.as_ref().map(problem_notice)}
        <form class="operation-new stack gap-4" method="post" action="/bulk">
            <section class="card">
                <div class="card-body pad">
                    <div class="stack gap-4">
                        <div class="field">
                            <span class="label" id="bulk-action">"Action"</span>
                            <fieldset class="choice-cards" aria-labelledby="bulk-action">{choices}</fieldset>
                        </div>
                        <div class="field">
                            <label class="label" for="bulk-filter">"Filter"</label>
                            <input
                                type="search"
                                id="bulk-filter"
                                name="q"
                                class="mono"
                                value=new_operation.q.clone()
                                maxlength="2000"
                                required
                                spellcheck="false"
                                autocomplete="off"
                                placeholder="state:dead type:import"
                                aria-describedby=if bad { "bulk-fault bulk-help" } else { "bulk-help" }
                                aria-invalid=bad.then_some("true")
                            />
                            {fault}
                            <p class="help" id="bulk-help">
                                "The same conditions as in the filter of "
                                <a href="/items">"Items"</a>
                                " and "
                                <a href="/jobs">"Jobs"</a>
                                ", such as state:dead, type:import, or created:>2h."
                            </p>
                        </div>
                    </div>
                </div>
                <div class="card-foot">
                    <button class="btn btn-primary" type="submit">
                        "Preview"
                    </button>
                    <span class="sub">"Nothing has changed yet."</span>
                </div>
            </section>
        </form>
    }
    .into_any();
    Page {
        title: "New operation".to_owned(),
        nav_section: NavSection::Bulk,
        content,
        is_live: false,
        is_translated: false,
    }
}
