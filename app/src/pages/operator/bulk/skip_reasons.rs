//! Reasons for which members of an operation are skipped, as sentences.

use crate::speech::grouped;
use domain::api::BulkOperation;

/// `12 were retried by someone else · 1 is not yours`.
pub(super) fn skip_sentence(one: &BulkOperation) -> String {
    one.skipped
        .iter()
        .map(|skip| format!("{} {}", grouped(skip.count), why_skipped(&skip.reason, skip.count == 1)))
        .collect::<Vec<_>>()
        .join(" · ")
}

/// Second half of a sentence about skipped members, by problem code.
fn why_skipped(code: &str, one: bool) -> &'static str {
    let of = |single: &'static str, many: &'static str| if one { single } else { many };
    match code {
        "not_retryable" => of("is not in a state that can be retried", "are not in a state that can be retried"),
        "item_final" => of("had ended already", "had ended already"),
        "item_expired" => of("has expired and needs a new time", "have expired and need a new time"),
        "job_cancelled" => of("belongs to a canceled job", "belong to a canceled job"),
        "superseded" => of("belongs to a job that was replaced", "belong to jobs that were replaced"),
        "job_completed" => of("was complete already", "were complete already"),
        "job_not_complete" => of("is not complete", "are not complete"),
        "not_root" => of("is part of another job", "are parts of other jobs"),
        "not_found" | "job_removed" => of("was deleted", "were deleted"),
        "edit_does_not_fit" => {
            of("has a payload that the edit does not fit", "have a payload that the edit does not fit")
        }
        "payload_invalid" => {
            of("would have a payload that the schema refuses", "would have payloads that the schema refuses")
        }
        "forbidden" => of("is not yours", "are not yours"),
        _ => of("was refused", "were refused"),
    }
}
