//! Validation of requested endings: their kind, and the size and form of their fields.

use domain::{
    Code, Document, Problem,
    api::{Ending, FailureBody},
    limits,
};

use crate::{Engine, ending_batch::EndingKind};

impl Engine {
    /// Checks sizes and forms of an ending; these checks do not depend on state.
    pub(crate) fn check_ending(&self, kind: EndingKind, pointer: &str) -> Result<EndingKind, Problem> {
        let fault =
            |field: &str, detail: &str| Err(Problem::invalid_body([(format!("{pointer}/{field}"), detail.to_owned())]));
        let seconds = |s: Option<f64>| s.is_none_or(|s| (0.0..=limits::LONGEST_RETRY_AFTER_SECONDS).contains(&s));
        match &kind {
            EndingKind::Result(document) if document.text() == "null" => {
                return fault("result", "expected a JSON value other than null");
            }
            EndingKind::Result(document) if document.text().len() > self.0.core.payload_limit => {
                let limit = self.0.core.payload_limit;
                return Err(Problem::new(Code::TooLarge, format!("A result has at most {limit} bytes.")));
            }
            EndingKind::Failure(body) => {
                if body.error.message.is_empty() || body.error.message.contains('\0') {
                    return fault("error/message", "expected text that is not empty, without NUL");
                }
                if !limits::is_text(&body.error.message, 0, limits::LONGEST_ERROR_MESSAGE) {
                    return fault("error/message", "expected at most 65536 characters");
                }
                let detail = body.error.detail.as_ref().map_or(0, |detail| detail.text().len());
                if detail > self.0.core.payload_limit {
                    let limit = self.0.core.payload_limit;
                    return Err(Problem::new(
                        Code::TooLarge,
                        format!("The detail of an error has at most {limit} bytes."),
                    ));
                }
                if body.error.kind.as_ref().is_some_and(|k| !limits::is_text(k, 1, limits::LONGEST_ERROR_KIND)) {
                    return fault("error/kind", "expected 1 to 255 characters");
                }
                if !seconds(body.retry_after_seconds) {
                    return fault("retry_after_seconds", "expected null or a number of seconds from 0 to 315360000");
                }
            }
            EndingKind::Release(body) if !seconds(body.retry_after_seconds) => {
                return fault("retry_after_seconds", "expected null or a number of seconds from 0 to 315360000");
            }
            EndingKind::Wait(body) => {
                let faults = body.faults();
                if !faults.is_empty() {
                    let placed = faults.into_iter().map(|(field, detail)| (format!("{pointer}{field}"), detail));
                    return Err(Problem::invalid_body(placed));
                }
            }
            _ => {}
        }
        Ok(kind)
    }
}

/// Kind of one ending in a list: a failure if it has an error, else a result.
///
/// `invalid_body` if it has both, or neither and a field that only a failure has: which one was meant?
pub(crate) fn kind_of(ending: Ending) -> Result<EndingKind, Problem> {
    let fault = |field: &str, detail: &str| Err(Problem::invalid_body([(field.to_owned(), detail.to_owned())]));
    let Some(error) = ending.error else {
        let only_of_failure = "expected only beside error";
        return match ending {
            Ending { result: Some(result), .. } => Ok(EndingKind::Result(result)),
            Ending { retryable: false, .. } => fault("/retryable", only_of_failure),
            Ending { retry_after_seconds: Some(_), .. } => fault("/retry_after_seconds", only_of_failure),
            Ending { cancel_tree: true, .. } => fault("/cancel_tree", only_of_failure),
            _ => Ok(EndingKind::Result(Document::empty_object())),
        };
    };
    if ending.result.is_some() {
        return fault("/error", "expected either result or error");
    }
    Ok(EndingKind::Failure(FailureBody {
        error,
        retryable: ending.retryable,
        retry_after_seconds: ending.retry_after_seconds,
        cancel_tree: ending.cancel_tree,
    }))
}
