//! Forms that change the state of an error group: resolve with a note, ignore until a time or a number of failures, reopen.

use domain::{
    Problem,
    api::{ErrorGroup, GroupState},
    query::filter::Filter,
};
use leptos::prelude::*;

use crate::components::action_form::problem_notice;

/// Times for which a group can be ignored: hours, and what they are called. Without one it stays ignored.
pub const MUTE_HOURS: [(&str, &str); 5] = [
    ("", "Until I reopen it"),
    ("1", "For 1 hour"),
    ("24", "For 1 day"),
    ("168", "For 1 week"),
    ("720", "For 30 days"),
];

/// Refused change: the form, the problem, and what was typed.
#[derive(Clone, Debug)]
pub struct RefusedState {
    pub state: GroupState,
    pub problem: Problem,
    pub hours: String,
    pub failures: String,
    pub note: String,
}

/// URL that the forms of a group are posted to.
fn url(group: &ErrorGroup) -> String {
    format!("/dead/groups/{}/{}", group.job_type, group.fingerprint)
}

/// Forms that fit the state of a group. `filter` is the filter of the page, to which they return.
pub(super) fn forms(group: &ErrorGroup, filter: &Filter, refused: Option<&RefusedState>) -> AnyView {
    let form = |state: GroupState| Form { group, filter, refused: refused.filter(|refused| refused.state == state) };
    match group.state {
        GroupState::Open | GroupState::Regressed => {
            view! { {resolve(&form(GroupState::Resolved))} {mute(&form(GroupState::Muted))} }.into_any()
        }
        GroupState::Muted => {
            view! { {resolve(&form(GroupState::Resolved))} {reopen(&form(GroupState::Open))} }.into_any()
        }
        GroupState::Resolved => reopen(&form(GroupState::Open)),
    }
}

struct Form<'a> {
    group: &'a ErrorGroup,
    filter: &'a Filter,
    refused: Option<&'a RefusedState>,
}

impl Form<'_> {
    fn typed(&self, of: fn(&RefusedState) -> &String) -> String {
        self.refused.map(of).cloned().unwrap_or_default()
    }

    fn hidden(&self, state: &'static str) -> AnyView {
        view! {
            <input type="hidden" name="state" value=state />
            <input type="hidden" name="q" value=self.filter.to_string() />
        }
        .into_any()
    }

    fn note(&self, id: &'static str, label: &'static str, required: bool) -> AnyView {
        view! {
            <label class="field">
                <span class="label">{label}</span>
                <input type="text" name="note" id=id value=self.typed(|it| &it.note) maxlength="2000" required=required />
            </label>
        }
        .into_any()
    }
}

fn resolve(form: &Form<'_>) -> AnyView {
    view! {
        <details class="action-form" id="resolve" open=form.refused.is_some()>
            <summary class="btn">"Resolve"</summary>
            <form class="form action-form-body" method="post" action=url(form.group)>
                {form.refused.map(|refused| problem_notice(&refused.problem))}
                <p>"The cause is fixed. If the error happens again, it comes back here. Its failed items stay until they are retried."</p>
                {form.hidden("resolved")}
                {form.note("resolve-note", "What fixed it, such as the deployed version", true)}
                <div class="actions">
                    <button class="btn btn-primary" type="submit">"Resolve"</button>
                </div>
            </form>
        </details>
    }
    .into_any()
}

fn mute(form: &Form<'_>) -> AnyView {
    let chosen = form.typed(|it| &it.hours);
    let options = MUTE_HOURS
        .map(|(hours, title)| view! { <option value=hours selected=hours == chosen>{title}</option> })
        .collect_view();
    view! {
        <details class="action-form" id="mute" open=form.refused.is_some()>
            <summary class="btn">"Ignore"</summary>
            <form class="form action-form-body" method="post" action=url(form.group)>
                {form.refused.map(|refused| problem_notice(&refused.problem))}
                <p>"An ignored error raises no alerts. Its failed items stay as they are."</p>
                {form.hidden("muted")}
                <label class="field">
                    <span class="label">"How long"</span>
                    <select name="hours" id="mute-hours">{options}</select>
                </label>
                <label class="field">
                    <span class="label">"At most for so many more failures (optional)"</span>
                    <input type="text" inputmode="numeric" name="failures" id="mute-failures" value=form.typed(|it| &it.failures) maxlength="12" />
                </label>
                {form.note("mute-note", "Note (optional)", false)}
                <div class="actions">
                    <button class="btn btn-primary" type="submit">"Ignore"</button>
                </div>
            </form>
        </details>
    }
    .into_any()
}

fn reopen(form: &Form<'_>) -> AnyView {
    view! {
        <form method="post" action=url(form.group) id="reopen">
            {form.hidden("open")}
            <button class="btn" type="submit">"Reopen"</button>
        </form>
        {form.refused.map(|refused| problem_notice(&refused.problem))}
    }
    .into_any()
}
