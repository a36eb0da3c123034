//! `/bulk/{id}`: one operation as it goes, and what became of each of its members in numbers.
//!
//! The part that changes is drawn by the server and fetched again while it changes; without scripts a link asks
//! for that. Every member is in exactly one of the numbers.

use domain::{
    Problem,
    api::{BulkAction, BulkOperation, BulkSample, BulkState, BulkTarget, EditOp, PayloadEdit},
    filter::Filter,
    progress::grouped,
};
use leptos::prelude::*;

use super::{filter, list_of, name, skipped, state, things, told as terms_of};
use crate::{
    address::address,
    components::{
        deed::{Deed, Refused, deed, field_fault, reason, told, trouble},
        moment::{clock, since},
        panel::{note, section},
        state::icon,
        text_area::text_area,
    },
    frame::{Page, Place},
};

/// What the page shows.
#[derive(Clone, Debug)]
pub struct Shown {
    pub one: BulkOperation,
    /// Asked for by the reader.
    pub own: bool,
    /// The reader sees everybody's work, so a reason is asked for.
    pub staff: bool,
    pub did: Option<String>,
    pub refused: Option<Refused>,
    /// As typed into the form that begins it.
    pub rate: String,
    pub edits: String,
}

pub fn page(shown: &Shown) -> Page {
    let one = &shown.one;
    let title = name(one);
    let open = matches!(one.state, BulkState::Counting | BulkState::Running | BulkState::Cancelling);
    // A preview that is counted changes no more.
    let live = open || !one.dry_run;
    let refused = shown.refused.as_ref();
    let begin = (one.dry_run && one.state == BulkState::Ready && one.total > 0).then(|| begin(shown));
    let stop = (open && !one.dry_run).then(|| {
        let left = one.total - one.processed - skipped(one) - one.errored;
        let form = Deed {
            deed: "cancel",
            action: format!("/bulk/{}/cancel", one.id),
            verb: "Stop…",
            text: format!(
                "{} are left. Nothing more is done to them; what was done stays done.",
                things(one.target, left)
            )
            .into_any(),
            fields: None,
            button: "Stop the operation".to_owned(),
            dangerous: true,
            others: !shown.own,
        };
        view! { <div class="deeds">{deed(form, refused)}</div> }
    });
    let content = view! {
        <p class="crumbs">
            <a href="/bulk">"Operations"</a>
        </p>
        <h1 id="name" data-refresh="">
            {title.clone()}
        </h1>
        {told(shown.did.as_deref())}
        <div class="operation" id="operation" data-refresh="" data-topics=live.then_some("operations")>
            {progress(one)}
            {(open && !one.dry_run || one.state == BulkState::Counting).then(|| still(one))}
            {after(one)}
        </div>
        <div class="bare" id="what-now" data-refresh="">
            {begin}
            {stop}
        </div>
        <div class="bare" id="about" data-refresh="">
            {(!one.sample.is_empty()).then(|| section("sample", "Some of them, as they were when they were found", sample(one)))}
            {section("details", "Details", details(one))}
        </div>
    }
    .into_any();
    Page { title, place: Place::Bulk, content, lives: false }
}

fn progress(one: &BulkOperation) -> AnyView {
    let dealt = one.processed + skipped(one) + one.errored;
    let (shape, word) = state(one);
    let all = things(one.target, one.total);
    let sentence = match one.state {
        BulkState::Counting => format!("Counting: {} so far.", grouped(one.total)),
        BulkState::Ready if one.total == 0 => "Nothing matches now. It may have been dealt with meanwhile.".to_owned(),
        BulkState::Ready => format!("{all} would be met. Nothing has been done."),
        BulkState::Running => format!("{} of {all} dealt with.", grouped(dealt)),
        BulkState::Completed => format!("Through: each of {all} was dealt with once."),
        BulkState::Cancelling => format!("Stopping, after {} of {all}.", grouped(dealt)),
        BulkState::Cancelled => format!("Stopped, after {} of {all}.", grouped(dealt)),
    };
    let verb = match one.action {
        BulkAction::Retry => "retried",
        BulkAction::Cancel => "cancelled",
        BulkAction::Delete => "deleted",
    };
    let bar = (!one.dry_run).then(|| {
        let figure = |shape: &'static str, n: i64, word: &'static str| {
            view! {
                <li class=format!("count count-{shape}")>
                    {icon(shape)} <span class="count-number">{grouped(n)}</span> " " <span class="count-word">{word}</span>
                </li>
            }
        };
        let reasons = one
            .skipped
            .iter()
            .map(|skip| {
                view! { <li>{grouped(skip.count)} " " {why_skipped(&skip.reason)} " " <span class="sub mono">{skip.reason.clone()}</span></li> }
            })
            .collect_view();
        let reasons = (!one.skipped.is_empty()).then(|| view! { <div><h2>"Skipped"</h2> <ul class="reasons">{reasons}</ul></div> });
        view! {
            <progress max=one.total.max(1).to_string() value=dealt.to_string() aria-label="Dealt with"></progress>
            <ul class="counts">
                {figure("succeeded", one.processed, verb)} {figure("cancelled", skipped(one), "skipped")}
                {figure("dead", one.errored, "went wrong")} {figure("available", one.total - dealt, "left")}
            </ul>
            {reasons}
            {(one.errored > 0).then(|| note("What went wrong did so on our side; the server's log says why. It can be tried again."))}
        }
    });
    view! {
        <p class="stage" role="status">
            <span class=format!("state state-{shape}")>{icon(shape)} " " {word}</span>
            <span class="message">{sentence}</span>
        </p>
        {bar}
    }
    .into_any()
}

/// A refusal's code as a sentence about the ones it met.
fn why_skipped(code: &str) -> &'static str {
    match code {
        "not_retryable" => "were not in a state that can be retried any more",
        "item_final" => "had ended already",
        "item_expired" => "are past their time and need a new one",
        "job_cancelled" => "are below a cancelled job",
        "superseded" => "are in a tree that was made anew",
        "job_completed" => "were complete already",
        "job_not_complete" => "are not complete",
        "not_root" => "are not roots of a tree",
        "not_found" | "job_removed" => "are gone",
        "edit_does_not_fit" => "have a payload that the edit does not fit",
        "payload_invalid" => "would have had a payload that the type's schema refuses",
        "forbidden" => "are not yours to do this to",
        _ => "were refused",
    }
}

fn still(one: &BulkOperation) -> AnyView {
    let path = format!("/bulk/{}", one.id);
    view! {
        <p class="sub only-still">
            "This page does not change by itself without scripts. " <a href=path.clone()>"Refresh"</a> " or "
            <a href=address(&path, &[("refresh", "5")])>"refresh every 5 s"</a> "."
        </p>
    }
    .into_any()
}

/// Where to go when it is over.
fn after(one: &BulkOperation) -> Option<AnyView> {
    if one.dry_run || !matches!(one.state, BulkState::Completed | BulkState::Cancelled) {
        return None;
    }
    let rest = filter(one);
    let path = if one.target == BulkTarget::Items { "/items" } else { "/jobs" };
    let there = address(path, &[("q", &rest.to_string())]);
    let job = rest.terms.iter().find(|term| matches!(term.name.as_deref(), Some("job" | "root" | "root_id")));
    let job = job.and_then(|term| match &term.test {
        domain::filter::Test::Any(words) => words.first().map(|id| format!("/jobs/{id}")),
        _ => None,
    });
    Some(
        view! {
            <p class="actions">
                <a href=there>"See what matches now"</a>
                {job.map(|job| view! { <a href=job>"See the job"</a> })}
            </p>
        }
        .into_any(),
    )
}

fn begin(shown: &Shown) -> AnyView {
    let one = &shown.one;
    let here = shown.refused.as_ref().filter(|refused| refused.deed == "start");
    let problem: Option<&Problem> = here.map(|refused| &refused.problem);
    let verb = match one.action {
        BulkAction::Retry => "Retry",
        BulkAction::Cancel => "Cancel",
        BulkAction::Delete => "Delete",
    };
    let what = match one.action {
        BulkAction::Retry => {
            "Each is given back to the workers with a fresh budget. Their trees stay open until the operation is through."
        }
        BulkAction::Cancel => "What waits will never start; what is in work is told to stop. This cannot be undone.",
        BulkAction::Delete => "The trees go at once and for ever, with all their items and results.",
    };
    let edits = (one.action == BulkAction::Retry).then(|| {
        let faults = field_fault(problem, "/payload_edit", "edits-fault");
        view! {
            <details class="field" open=!shown.edits.is_empty()>
                <summary>"Edit the payloads…"</summary>
                <label for="edits">"One edit a line: set /amount 12.50, or remove /draft"</label>
                {text_area("edits", "edits", &shown.edits, "edits-help", faults.is_some())}
                <p class="sub" id="edits-help">
                    "The place is a JSON Pointer, the value is JSON. What an edit does not fit, or the type's schema refuses, is skipped and counted."
                </p>
                {faults}
            </details>
        }
    });
    let rate_faults = field_fault(problem, "/rate_per_second", "rate-fault");
    let content = view! {
        <form class="form" method="post" action=format!("/bulk/{}/start", one.id)>
            {problem.map(trouble)}
            <p>{what} " Which ones is settled when it begins; each is dealt with once."</p>
            {reason("start", here.map(|refused| refused.reason.as_str()).unwrap_or_default(), shown.staff)}
            <label class="field">
                <span>"At most so many a second (empty: as fast as it goes)"</span>
                <input type="text" inputmode="decimal" name="rate" value=shown.rate.clone() maxlength="10" aria-invalid=rate_faults.is_some().then_some("true") />
            </label>
            {rate_faults}
            {edits}
            <div class="actions">
                <button class=if one.action == BulkAction::Retry { "primary" } else { "danger" } type="submit">
                    {format!("{verb} {}", things(one.target, one.total))}
                </button>
                <a href="/bulk">"Not now"</a>
            </div>
        </form>
    };
    section("begin", "Do it", content.into_any())
}

fn sample(one: &BulkOperation) -> AnyView {
    let link = |sample: &BulkSample| match one.target {
        BulkTarget::Items => format!("/items/{}", sample.id),
        BulkTarget::Jobs => format!("/jobs/{}", sample.id),
    };
    let rows = one
        .sample
        .iter()
        .take(10)
        .map(|sample| {
            view! {
                <li>
                    <a class="mono" href=link(sample)>{sample.id.to_string()}</a>
                    " " <span class="sub">{sample.job_type.clone()} " · " {sample.state.clone()}</span>
                    {sample.message.clone().map(|message| view! { <span class="clamp">{message}</span> })}
                </li>
            }
        })
        .collect_view();
    view! { <ul class="samples">{rows}</ul> }.into_any()
}

fn details(one: &BulkOperation) -> AnyView {
    let fact = |term: &'static str, value: AnyView| view! { <div class="fact"><dt>{term}</dt> <dd>{value}</dd></div> };
    let mono = |value: String| view! { <span class="mono">{value}</span> }.into_any();
    let asked: Filter = filter(one);
    let again = address(
        "/bulk/new",
        &[("what", &format!("{} {}", one.action.as_str(), one.target.as_str())), ("q", &asked.to_string())],
    );
    let edits = one.payload_edit.iter().map(edit).collect::<Vec<_>>().join("\n");
    let terms = terms_of(&asked);
    view! {
        <dl class="details">
            {fact("All that match", mono(terms))} {fact("By", one.owner.name.clone().into_any())}
            {one.reason.clone().map(|reason| fact("Reason", reason.into_any()))}
            {one.stopped_reason.clone().map(|why| fact("Stopped because", why.into_any()))} {fact("Begun", clock(one.created_at).into_any())}
            {one.finished_at.map(|at| fact("Over", clock(at).into_any()))}
            {one.finished_at.is_none().then(|| fact("For", since(one.created_at).into_any()))}
            {one.rate_per_second.map(|rate| fact("At most", format!("{rate} a second").into_any()))}
            {(!edits.is_empty()).then(|| fact("Edits", mono(edits)))}
        </dl>
        <p class="sub">
            <a href=again>{format!("Begin another over the {} that match then", list_word(one.target))}</a>
        </p>
    }
    .into_any()
}

fn list_word(target: BulkTarget) -> &'static str {
    match list_of(target) {
        domain::filter::lists::List::Jobs => "jobs",
        _ => "items",
    }
}

/// An edit as it is typed.
pub fn edit(edit: &PayloadEdit) -> String {
    match (edit.op, &edit.value) {
        (EditOp::Remove, _) => format!("remove {}", edit.path),
        (EditOp::Set, value) => {
            let value = value.as_ref().map_or("null", |value| value.text());
            format!("set {} {value}", edit.path)
        }
    }
}
