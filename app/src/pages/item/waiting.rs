//! Reason why an item is not running, in one sentence. The reader sees its time on their own clock.

use domain::{
    Item, Time,
    item::{MaxFailures, WaitingFor},
};
use leptos::prelude::*;

use crate::components::timestamp::clock;

/// The sentence.
pub(super) fn sentence(item: &Item, waiting: &WaitingFor) -> AnyView {
    let Sentence { before, at, after } = parts(item, waiting);
    // In one with the period: an empty text would become a space.
    let after = format!("{after}.");
    view! { {before} {at.map(|at| view! { " " {clock(at)} })} {after} }.into_any()
}

/// Sentence without its period: text, time, text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sentence {
    before: String,
    at: Option<Time>,
    after: String,
}

fn parts(item: &Item, waiting: &WaitingFor) -> Sentence {
    let detail = waiting.detail.as_deref().unwrap_or_default().trim_end_matches('.');
    let until = waiting.until;
    let text = |before: &str| Sentence { before: before.to_owned(), ..Sentence::default() };
    let with_detail = |before: &str| match detail {
        "" => text(before),
        _ => text(&format!("{before}: {detail}")),
    };
    let timed = |sentence: Sentence, word: &str| match until {
        Some(at) => Sentence { before: format!("{}{word}", sentence.before), at: Some(at), ..sentence },
        None => sentence,
    };
    match waiting.reason.as_str() {
        "retry" => match until {
            Some(at) => Sentence { at: Some(at), after: format!(", {}", after_attempt(item)), ..text("Retrying at") },
            None => text(&format!("Retrying {}", after_attempt(item))),
        },
        "run_after" if until.is_some() => Sentence { at: until, ..text("Starts") },
        "run_after" => text("Starts at a set time"),
        "debounce" => match until {
            Some(at) => Sentence {
                at: Some(at),
                after: " unless another item with its debounce key comes".to_owned(),
                ..text("Starts at")
            },
            None => text("Starts after a pause without another item with its debounce key"),
        },
        "event" => {
            let name = item.wait.as_ref().map(|wait| format!(" the event \u{201c}{}\u{201d}", wait.name));
            timed(text(&format!("Waits for{}", name.as_deref().unwrap_or(" an event"))), " until")
        }
        "after" if detail.is_empty() => text("Waits for other jobs to complete"),
        "after" => text(&format!("{} to complete", brief_list(detail))),
        "serialize_key" => with_detail("Waits for an older item with the same serialize key"),
        "paused" => text(&format!("The job type {} is paused", item.job_type)),
        "concurrency" | "concurrency_key" => with_detail("Waiting for a free slot"),
        "rate_limit" => timed(with_detail("Waiting for the rate limit"), ", the next one at"),
        _ => match last_claim(detail) {
            Some((no_worker, at)) => Sentence { at: Some(at), ..text(&format!("{no_worker} since")) },
            None if detail.is_empty() => text("Waiting for a worker"),
            None => timed(text(detail), ", until"),
        },
    }
}

/// `after attempt 2 of 3`; with the number of failures, if attempts were returned without one.
fn after_attempt(item: &Item) -> String {
    let (attempts, failures) = (item.attempts, item.failures);
    match item.max_failures {
        MaxFailures::AtMost(most) if attempts == failures => format!("after attempt {attempts} of {most}"),
        MaxFailures::AtMost(most) => format!("after attempt {attempts} ({failures} of {most} failures)"),
        MaxFailures::Unlimited => format!("after attempt {attempts}"),
    }
}

/// Text and time of `No worker has asked for mail since 2026-11-20T13:03:00Z`.
fn last_claim(detail: &str) -> Option<(&str, Time)> {
    let (no_worker, at) = detail.rsplit_once(" since ")?;
    Some((no_worker, Time::parse(at)?))
}

/// List of names, truncated after the third.
fn brief_list(detail: &str) -> String {
    let names: Vec<&str> = detail.split(", ").collect();
    match names.as_slice() {
        [one, two] => format!("{one} and {two}"),
        [first @ .., last] if (2..4).contains(&first.len()) => format!("{}, and {last}", first.join(", ")),
        [first, second, third, more @ ..] => format!("{first}, {second}, {third}, and {} more", more.len()),
        _ => detail.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sentence about an item, with `TIME` in place of its time.
    fn rendered(attempts: i32, reason: &str, detail: &str, until: Option<&str>) -> String {
        let item = r#"{"id": "00000000-0000-0000-0000-000000000001", "job_id": "00000000-0000-0000-0000-000000000002",
            "root_id": "00000000-0000-0000-0000-000000000002", "type": "mail", "seq": 1, "state": "available",
            "attempts": 0, "failures": 2, "max_failures": 3, "metadata": {}, "priority": 0, "version": 1,
            "created_at": "2026-11-20T13:00:00Z", "updated_at": "2026-11-20T13:00:00Z"}"#;
        let item = Item { attempts, ..serde_json::from_str(item).expect("an item") };
        let until = until.map(|at| Time::parse(at).expect("a time"));
        let detail = Some(detail.to_owned()).filter(|detail| !detail.is_empty());
        let Sentence { before, at, after } = parts(&item, &WaitingFor { reason: reason.to_owned(), detail, until });
        format!("{before}{}{after}.", at.map_or("", |_| " TIME"))
    }

    #[test]
    fn each_reason_is_one_sentence() {
        let later = Some("2026-11-20T14:03:00Z");
        for (reason, detail, until, sentence) in [
            ("run_after", "", later, "Starts TIME."),
            ("debounce", "", later, "Starts at TIME unless another item with its debounce key comes."),
            ("retry", "", later, "Retrying at TIME, after attempt 2 of 3."),
            ("paused", "The job type mail is paused.", None, "The job type mail is paused."),
            ("after", "Waits for ledger-export.", None, "Waits for ledger-export to complete."),
            ("after", "Waits for a, b.", None, "Waits for a and b to complete."),
            ("after", "Waits for a, b, c.", None, "Waits for a, b, and c to complete."),
            ("after", "Waits for a, b, c, d, e.", None, "Waits for a, b, c, and 2 more to complete."),
            (
                "concurrency",
                "5 of at most 5 items of mail are running.",
                None,
                "Waiting for a free slot: 5 of at most 5 items of mail are running.",
            ),
            ("not_claimed", "", None, "Waiting for a worker."),
            ("not_claimed", "No worker has asked for mail yet.", None, "No worker has asked for mail yet."),
            (
                "not_claimed",
                "No worker has asked for mail since 2026-11-20T13:03:00Z.",
                None,
                "No worker has asked for mail since TIME.",
            ),
        ] {
            assert_eq!(rendered(2, reason, detail, until), sentence);
        }
        let returned = rendered(4, "retry", "", later);
        assert_eq!(returned, "Retrying at TIME, after attempt 4 (2 of 3 failures).", "an attempt that was returned");
    }
}
