//! `/bulk/{id}`: the progress of one operation and the outcome of its members in numbers.
//!
//! The server renders the changing part, which is refreshed while it changes; without scripts a link reloads it. Every
//! member is in exactly one of the numbers.

use crate::speech::grouped;
use domain::{
    api::{BulkAction, BulkOperation, BulkSample, BulkState, BulkTarget, EditOp, PayloadEdit},
    query::filter::Filter,
};
use leptos::prelude::*;

use super::{
    Stage, badge, bar, filter, filter_text, list_of, name, percent,
    skip_reasons::skip_sentence,
    skipped, stages,
    start_form::{Edited, form},
    state, things, title,
};
use crate::{
    address::address,
    components::{
        action_form::{RefusedAction, flash, problem_notice, reason},
        breadcrumbs::breadcrumbs,
        state::icon,
        timestamp::{clock, since},
    },
    frame::{NavSection, Page},
    pace::per_time,
};

/// Content of the page.
#[derive(Clone, Debug)]
pub struct OperationPageData {
    pub one: BulkOperation,
    /// The reader requested it.
    pub own: bool,
    /// The reader sees everybody's work, so a reason is required.
    pub staff: bool,
    pub flash: Option<String>,
    /// Shows the form that stops the operation.
    pub stops: bool,
    pub refused: Option<RefusedAction>,
    /// Fields of the start form, as typed.
    pub reason: String,
    pub rate: String,
    pub edits: String,
    /// Number of members on the submitted page, if it has changed since.
    pub before: Option<i64>,
    /// Outcome of the edits on the sample's payloads.
    pub edited: Option<Edited>,
}

pub fn page(page_data: &OperationPageData) -> Page {
    let one = &page_data.one;
    let title = title(one);
    let open = matches!(one.state, BulkState::Counting | BulkState::Running | BulkState::Cancelling);
    // A counted preview no longer changes.
    let live = open || !one.dry_run;
    let stopping = open && !one.dry_run && one.state != BulkState::Cancelling;
    let stop_requested =
        page_data.stops || page_data.refused.as_ref().is_some_and(|refused| refused.action == "cancel");
    let stop = stopping.then(|| {
        view! {
            <a class="btn btn-danger" href=format!("/bulk/{}?open=cancel", one.id)>
                {icon("ban")}
                "Stop…"
            </a>
        }
    });
    // What was typed and its effect are not on the page of the address.
    let is_answer = page_data.edited.is_some() || page_data.before.is_some();
    let stage = if one.dry_run { Stage::Preview } else { Stage::Run };
    breadcrumbs(&[("/bulk", "Operations")], title.as_str());
    let content = view! {
        <div class="job-title" id="name" data-refresh="">
            <h1>{name(one)}</h1>
            {badge(one)}
            // Its words change only with the state, unlike the numbers below.
            <p class="vh" role="status">{state(one).1}</p>
            <div class="actions">{stop}</div>
        </div>
        {stages(stage)}
        {flash(page_data.flash.as_deref())}
        {(stop_requested && stopping).then(|| stop_form(page_data))}
        <div class="stack gap-4" id="operation" data-refresh="" data-answer=is_answer.then_some("") data-topics=live.then_some("operations")>
            {if one.dry_run { preview(page_data) } else { progress(one) }}
            {(open && !one.dry_run || one.state == BulkState::Counting).then(|| still(one))}
        </div>
        {(!one.dry_run).then(|| about(one))}
    }
    .into_any();
    Page { title, nav_section: NavSection::Bulk, content, is_live: false, is_translated: false }
}

/// Dry run: the expected effect, and the form that starts the operation.
fn preview(page_data: &OperationPageData) -> AnyView {
    let one = &page_data.one;
    let will = permitted(one);
    let ready = one.state == BulkState::Ready;
    let verb = match one.action {
        BulkAction::Retry => "Will be retried",
        BulkAction::Cancel => "Will be canceled",
        BulkAction::Delete => "Will be deleted",
    };
    let kpi = |shape: &'static str, label: &'static str, n: i64, note: Option<String>| {
        view! {
            <div class="kpi">
                <span class="kpi-label">{icon(shape)} <span class="soft">{label}</span></span>
                <span class="kpi-value">{grouped(n)}</span>
                {note.map(|note| view! { <span class="kpi-note">{note}</span> })}
            </div>
        }
    };
    let match_word = if one.total == 1 { "Matches the filter" } else { "Match the filter" };
    let sentence = match (one.state, one.total) {
        (BulkState::Counting, n) => format!("Counting: {} so far. Nothing has changed yet.", grouped(n)),
        (_, 0) => "Nothing matches now. Someone may have retried or removed it.".to_owned(),
        (_, 1) => format!("{} matches. Nothing has changed yet.", things(one.target, 1)),
        (_, n) => format!("{} match. Nothing has changed yet.", things(one.target, n)),
    };
    let skipped = (ready && skipped(one) > 0).then(|| kpi("ban", "Will be skipped", skipped(one), None));
    let not = (ready && one.total > 0 && will == 0).then(|| {
        view! {
            <div class="notice notice-warn" id="nothing-to-do">
                {icon("triangle-alert")}
                <div>
                    <strong>"Nothing to do"</strong>
                    <p>{skip_sentence(one)}</p>
                </div>
            </div>
        }
    });
    let counts = view! {
        <section class="card" aria-labelledby="will-heading">
            <div class="card-head">
                <h2 id="will-heading">"What will happen"</h2>
                <span class="sub">{sentence}</span>
            </div>
            <div class="card-body">
                <div class="kpis flat">
                    {kpi("filter", match_word, one.total, None)}
                    {(ready && one.total > 0).then(|| kpi("rotate-cw", verb, will, None))} {skipped}
                </div>
                {facts(one)}
            </div>
        </section>
    };
    let changed = page_data.before.filter(|_| ready).map(|before| {
        view! {
            <div class="notice notice-warn" role="alert" id="changed" tabindex="-1">
                {icon("triangle-alert")}
                <div>
                    <strong>"The number changed while you were looking"</strong>
                    <p>
                        {format!(
                            "It was {}, now it is {}. Nothing has changed yet: check it and confirm again.",
                            things(one.target, before),
                            things(one.target, one.total),
                        )}
                    </p>
                </div>
            </div>
        }
    });
    let begin = (ready && will > 0).then(|| form(page_data, will));
    view! {
        {changed}
        {not}
        <div class="grid">
            <div class="c8 stack gap-4">
                {counts}
                {page_data.edited.as_ref().map(Edited::card)}
                {(!one.sample.is_empty() && page_data.edited.is_none()).then(|| sample(one))}
            </div>
            <div class="c4 stack gap-4">{begin}</div>
        </div>
    }
    .into_any()
}

/// Members of a dry run that the operation would act on, as counted.
pub(super) fn permitted(one: &BulkOperation) -> i64 {
    (one.total - skipped(one)).max(0)
}

fn progress(one: &BulkOperation) -> AnyView {
    let handled = one.processed + skipped(one) + one.errored;
    let all = things(one.target, one.total);
    let done = match one.action {
        BulkAction::Retry => "retried",
        BulkAction::Cancel => "canceled",
        BulkAction::Delete => "deleted",
    };
    let were = if one.processed == 1 { "was" } else { "were" };
    let sentence = match one.state {
        BulkState::Counting => format!("Counting: {} so far", grouped(one.total)),
        BulkState::Completed if one.processed == one.total && one.total == 1 => format!("Done: {all} was {done}"),
        BulkState::Completed if one.processed == one.total => format!("Done: all {all} were {done}"),
        BulkState::Completed => format!("Done: {} of {all} {were} {done}", grouped(one.processed)),
        BulkState::Cancelling => format!("Stopping after {} of {all}", grouped(handled)),
        BulkState::Cancelled => format!("Stopped after {} of {all}", grouped(handled)),
        BulkState::Running | BulkState::Ready => format!("{} of {all} {done}", grouped(one.processed)),
    };
    let figure = |shape: &'static str, n: i64, word: &'static str| {
        view! { <li><span class=format!("s-{shape}")>{icon(shape)}</span> " " <b>{grouped(n)}</b> " " {word}</li> }
    };
    let rate = one.rate_per_second.map(|rate| {
        view! { <div><dt>"Speed limit"</dt><dd class="num">{per_time(rate)}</dd></div> }
    });
    let errors = (one.errored > 0).then(|| {
        view! { <p class="sub top-gap">"Errors are problems of the server; its log says why. You can try these again."</p> }
    });
    view! {
        <section class="card hero" aria-label="Progress">
            <div class="row-wrap">
                <div class="stack-1">
                    <p class="hero-num">{percent(one)} <small>"%"</small></p>
                    <p class="soft">{sentence} "."</p>
                </div>
                <dl class="facts end-facts">
                    {rate} <div><dt>"Skipped"</dt><dd class="num">{grouped(skipped(one))}</dd></div>
                    <div><dt>"Errors"</dt><dd class="num">{grouped(one.errored)}</dd></div>
                </dl>
            </div>
            <div class="top-gap">{bar(one, "bar bar-4")}</div>
            <ul class="legend top-gap">
                {figure("succeeded", one.processed, done)} {figure("cancelled", skipped(one), "skipped")}
                {(one.errored > 0).then(|| figure("dead", one.errored, if one.errored == 1 { "error" } else { "errors" }))}
                {(one.total > handled).then(|| figure("available", one.total - handled, "left"))}
            </ul>
            {errors}
        </section>
    }
    .into_any()
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

fn stop_form(page_data: &OperationPageData) -> AnyView {
    let one = &page_data.one;
    let here = page_data.refused.as_ref().filter(|refused| refused.action == "cancel");
    let left = (one.total - one.processed - skipped(one) - one.errored).max(0);
    let done = match one.action {
        BulkAction::Retry => "retried",
        BulkAction::Cancel => "canceled",
        BulkAction::Delete => "deleted",
    };
    let stay = if one.processed == 1 { "stays" } else { "stay" };
    let text = format!(
        "{} {stay} {done}, {} {} left as {}.",
        things(one.target, one.processed),
        grouped(left),
        if left == 1 { "is" } else { "are" },
        if left == 1 { "it is" } else { "they are" },
    );
    view! {
        <form class="narrow" method="post" action=format!("/bulk/{}/cancel", one.id) id="cancel" data-refresh="">
            {here.map(|refused| problem_notice(&refused.problem))}
            <section class="card" aria-labelledby="stop-heading">
                <div class="card-head"><h2 id="stop-heading">"Stop this operation?"</h2></div>
                <div class="card-body">
                    <div class="stack">
                        <p class="small soft">{text}</p>
                        {reason("cancel", here.map(|refused| refused.reason.as_str()).unwrap_or_default(), !page_data.own)}
                    </div>
                </div>
                <div class="card-foot">
                    <button class="btn btn-danger-solid" type="submit">"Stop"</button>
                    <a class="btn btn-quiet" href=format!("/bulk/{}", one.id)>"Keep going"</a>
                </div>
            </section>
        </form>
    }
    .into_any()
}

/// Sample and details of an operation that runs or ran.
fn about(one: &BulkOperation) -> AnyView {
    let over = matches!(one.state, BulkState::Completed | BulkState::Cancelled);
    let rest = filter(one);
    let path = if one.target == BulkTarget::Items { "/items" } else { "/jobs" };
    let there = address(path, &[("q", &rest.to_string())]);
    let job = rest.terms.iter().find(|term| matches!(term.name.as_deref(), Some("job" | "root" | "root_id")));
    let job = job.and_then(|term| match &term.test {
        domain::query::filter::Test::Any(words) => words.first().map(|id| format!("/jobs/{id}")),
        _ => None,
    });
    let repeat_url = address(
        "/bulk/new",
        &[("what", &format!("{} {}", one.action.as_str(), one.target.as_str())), ("q", &rest.to_string())],
    );
    view! {
        <div class="grid" id="about" data-refresh="">
            <div class="c8 stack gap-4">{(!one.sample.is_empty()).then(|| sample(one))}</div>
            <div class="c4">
                <section class="card" aria-labelledby="details-heading">
                    <div class="card-head"><h2 id="details-heading">"Details"</h2></div>
                    <div class="card-body">{facts(one)}</div>
                    <div class="card-foot">
                        {over.then(|| view! { <a href=there>"See what matches now"</a> })}
                        {job.map(|job| view! { <a href=job>"Open job"</a> })}
                        <a href=repeat_url>"Repeat with the same filter"</a>
                    </div>
                </section>
            </div>
        </div>
    }
    .into_any()
}

fn sample(one: &BulkOperation) -> AnyView {
    let link = |sample: &BulkSample| match one.target {
        BulkTarget::Items => format!("/items/{}", sample.id),
        BulkTarget::Jobs => format!("/jobs/{}", sample.id),
    };
    let sample_rows = one.sample.len().min(10);
    let rows = one
        .sample
        .iter()
        .take(10)
        .map(|sample| {
            let id = sample.id.to_string();
            let short = id.chars().rev().take(8).collect::<Vec<_>>().into_iter().rev().collect::<String>();
            view! {
                <li class="sample-row">
                    <a class="mono" href=link(sample) title=id>{format!("…{short}")}</a>
                    <span class="soft">{sample.job_type.clone()}</span>
                    <span class="soft clamp">{sample.message.clone()}</span>
                </li>
            }
        })
        .collect_view();
    view! {
        <section class="card" id="sample" aria-labelledby="sample-heading">
            <div class="card-head">
                <h2 id="sample-heading">"Sample"</h2>
                <span class="sub">{format!("{sample_rows} of {}", grouped(one.total))}</span>
            </div>
            <ul class="lined samples">{rows}</ul>
        </section>
    }
    .into_any()
}

fn facts(one: &BulkOperation) -> AnyView {
    let fact = |term: &'static str, value: AnyView| view! { <dt>{term}</dt> <dd>{value}</dd> };
    let mono = |value: String| view! { <span class="mono">{value}</span> }.into_any();
    let requested: Filter = filter(one);
    let edits = one.payload_edit.iter().map(edit).collect::<Vec<_>>().join("\n");
    let why = skip_sentence(one);
    let counted = if one.dry_run { "Counted" } else { "Started" };
    let list = match list_of(one.target) {
        domain::query::filter::lists::List::Jobs => "Filter of jobs",
        _ => "Filter of items",
    };
    view! {
        <dl class="kv top-gap">
            {fact(list, mono(filter_text(&requested)))}
            {(!one.dry_run).then(|| fact("By", one.owner.name.clone().into_any()))}
            {one.reason.clone().map(|reason| fact("Reason", reason.into_any()))}
            {fact(counted, clock(one.created_at).into_any())}
            {one.finished_at.filter(|_| !one.dry_run).map(|at| fact("Ended", clock(at).into_any()))}
            {(one.finished_at.is_none() && !one.dry_run).then(|| fact("Running for", since(one.created_at).into_any()))}
            {one.stopped_reason.clone().map(|why| fact("Stopped because", why.into_any()))}
            {(!why.is_empty()).then(|| fact(if one.dry_run { "Skipped because" } else { "Skipped" }, why.clone().into_any()))}
            {(!edits.is_empty()).then(|| fact("Edits", mono(edits)))}
        </dl>
    }
    .into_any()
}

/// Edit in the notation in which it is typed.
pub fn edit(edit: &PayloadEdit) -> String {
    match (edit.op, &edit.value) {
        (EditOp::Remove, _) => format!("remove {}", edit.path),
        (EditOp::Set, value) => {
            let value = value.as_ref().map_or("null", |value| value.text());
            format!("set {} {value}", edit.path)
        }
    }
}
