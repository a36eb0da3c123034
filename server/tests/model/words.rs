//! What is sent and what may come back: bodies of endings, and answers held against those that are right.
//!
//! Apart from the sequence itself, which says when; here is only how it is said.

use serde_json::{Value, json};

use crate::{command::Ending, ending::Answers, support::Answer, world::Outcome};

/// Seconds that do not pass while a sequence runs.
const A_DAY: u32 = 86_400;

/// The verb and the body of an ending. Failures that differ say different things.
pub(crate) fn body_of(ending: Ending) -> (&'static str, Value) {
    let wait = |later: bool| if later { A_DAY } else { 0 };
    match ending {
        Ending::Result(Some(n)) => ("result", json!({"result": {"list": (0..n).collect::<Vec<_>>()}})),
        Ending::Result(None) => ("result", json!({"result": {"list": null}})),
        Ending::Failure { retryable, later, cancel_tree } => (
            "failure",
            json!({"error": {"message": format!("no {retryable} {later} {cancel_tree}"), "kind": "model"},
                "retryable": retryable, "retry_after_seconds": wait(later), "cancel_tree": cancel_tree}),
        ),
        Ending::Release { later } => ("release", json!({"retry_after_seconds": wait(later)})),
    }
}

/// Whether a caller was told one of the right answers.
pub(crate) fn told(answer: &Answer, right: &Answers) -> Outcome {
    let body = answer.json();
    let code = if answer.status.is_success() { None } else { Some(body["code"].as_str().unwrap_or("no code")) };
    if right.contains(&code) {
        return Ok(());
    }
    Err(format!("answered {} {} instead of {right:?}", answer.status, answer.text))
}
