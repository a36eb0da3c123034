//! Bodies of endings, and the check of responses.
//!
//! Separate from the sequence itself: this is only the wire format.

use serde_json::{Value, json};

use crate::{command::Ending, ending::Answers, support::Answer, world::Outcome};

/// Longer than a sequence runs, in seconds.
const A_DAY: u32 = 86_400;
/// Event that every wait names.
pub(crate) const EVENT: &str = "go";

/// Action and body of an ending. Different failures have different messages.
pub(crate) fn ending_body(ending: Ending) -> (&'static str, Value) {
    let wait = |later: bool| if later { A_DAY } else { 0 };
    match ending {
        Ending::Result(Some(n)) => ("result", json!({"result": {"list": (0..n).collect::<Vec<_>>()}})),
        Ending::Result(None) => ("result", json!({"result": {"list": null}})),
        Ending::Failure { retryable, later, cancel_tree } => (
            "failure",
            json!({"error": {"message": format!("no {retryable} {later} {cancel_tree}"), "kind": "model"},
                "retryable": retryable, "retry_after_seconds": wait(later), "cancel_tree": cancel_tree}),
        ),
        Ending::Wait { later } => ("wait", json!({"name": EVENT, "timeout_seconds": later.then_some(A_DAY)})),
        Ending::Release { later } => ("release", json!({"retry_after_seconds": wait(later)})),
    }
}

/// Checks that the response is one of the correct answers.
pub(crate) fn expect_answer(answer: &Answer, right: &Answers) -> Outcome {
    let body = answer.json();
    let code = if answer.status.is_success() { None } else { Some(body["code"].as_str().unwrap_or("no code")) };
    if right.contains(&code) {
        return Ok(());
    }
    Err(format!("answered {} {} instead of {right:?}", answer.status, answer.text))
}
