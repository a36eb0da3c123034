//! Live page of an uploader: one sentence, one bar, one number.

use domain::id::Uuid;
use leptos::prelude::*;

use super::{
    liveness::{pill, warning},
    signals::LiveSignals,
};
use crate::{
    components::{
        bar::{Size, bar, in_percent},
        state::legend,
        timestamp::ago,
    },
    job_view::Head,
    pace, t,
};

/// The live part of `/imports/{id}`. `label` names the bar.
#[island]
pub fn LiveImport(id: Uuid, label: String, head: Head) -> impl IntoView {
    let signals = LiveSignals::new(head, Vec::new(), 0, Vec::new());
    wake(id, signals);
    let head = signals.head;
    let meter = Signal::derive(move || head.with(|head| head.meter));
    let completed = move || head.with(Head::completed);
    view! {
        <section class="card hero live" data-live=move || signals.liveness.get().as_str()>
            <div class="row-wrap hero-top">
                <div class="stack-1 grow">
                    <p class="hero-num meter-number" hidden=completed>
                        {move || meter.with(crate::meter::Meter::number)}
                    </p>
                    <p class=move || if completed() { "sentence hero-line" } else { "sentence" }>
                        {move || head.with(Head::sentence)}
                    </p>
                    <p class="stage small soft" hidden=move || head.with(|head| head.stage.is_none())>
                        {move || head.with(Head::stage_in_words)}
                    </p>
                </div>
                {pill(signals.liveness)}
            </div>
            <svg class="wood hero-wood" aria-hidden="true" focusable="false">
                <g transform="translate(0 -8)">
                    <rect width="100%" height="40" fill="url(#woods-off)" />
                    <rect
                        width=move || in_percent(meter.with(|meter| meter.segments()[0].width))
                        height="40"
                        fill="url(#woods-on)"
                    />
                </g>
            </svg>
            {bar(meter, Size::Tall, label)}
            {legend(Signal::derive(move || meter.with(|meter| meter.counts)), true, None)}
            <p class="advice small soft">{move || head.with(Head::advice)}</p>
            {warning(signals.liveness)}
            {facts(signals)}
            <div class="vh" role="status">
                {move || signals.announcement.get()}
            </div>
        </section>
    }
}

/// Start, rate, and time taken, in one line of small print.
pub(super) fn facts(signals: LiveSignals) -> impl IntoView {
    let head = signals.head;
    let started = move || head.with(|head| head.started_at);
    let took = move || {
        head.with(|head| {
            let (started, completed) = (head.started_at?, head.completed_at?);
            Some(took_in_words(completed.seconds_since(started), head.meter.counts.finished(), head.reopened))
        })
    };
    let going = move || took().or_else(|| signals.pace.get()).unwrap_or_default();
    view! {
        <p class="facts">
            {move || started().map(|at| view! { <span>{t!("live-started")} " " {ago(at)}</span> })}
            <span class="facts-going">{going}</span>
        </p>
    }
}

/// Duration, and average rate if known. There is none below a second, and none for a reopened job, which includes
/// idle time.
fn took_in_words(seconds: f64, finished: i64, reopened: bool) -> String {
    let took = pace::took(seconds);
    if reopened {
        t!("live-took-retries", took = &took)
    } else if seconds < 1.0 {
        t!("live-took", took = &took)
    } else {
        t!("live-took-average", took = &took, rate = &pace::per_time(finished as f64 / seconds))
    }
}

#[cfg(feature = "hydrate")]
pub(super) fn wake(job: Uuid, signals: LiveSignals) {
    // Hydration assumes that the signals match the page, so they may change only after it.
    queue_microtask(move || super::session::start(job, signals));
}

#[cfg(not(feature = "hydrate"))]
pub(super) const fn wake(_job: Uuid, _signals: LiveSignals) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn average_rate_is_shown_only_if_known() {
        assert_eq!(took_in_words(20.0, 2_000, false), "Took 20 s, 100/s on average");
        assert_eq!(took_in_words(0.4, 2_000, false), "Took under 1 s");
        assert_eq!(took_in_words(240.0, 2_000, true), "Took 4 min, including later retries");
    }
}
