//! Limits that requests are checked against: lengths, numbers, sizes.
//!
//! Each bound stands here once. The server checks requests with these constants, and the OpenAPI document says
//! the same ones (`server/src/http/openapi/bounds.rs`), so that a client that follows the document is never
//! refused for a size. Bounds that an administrator configures (bytes of a body, of a payload, of an upload)
//! are not here: they are in the server's configuration.

/// The form of the names of job types, services and steps, and of the keys of jobs.
pub const NAME_PATTERN: &str = "^[a-z0-9][a-z0-9._-]{0,99}$";
/// Characters of such a name.
pub const LONGEST_NAME: usize = 100;
/// Characters of a dedupe, serialize or idempotency key, of `initiated_by`, of a signing secret.
pub const LONGEST_KEY: usize = 255;
/// Characters of the name of a job.
pub const LONGEST_JOB_NAME: usize = 1_000;
/// Characters of a message about progress.
pub const LONGEST_PROGRESS_MESSAGE: usize = 1_000;
/// Characters of the name of a worker.
pub const LONGEST_WORKER_ID: usize = 200;
/// Characters of the message and of the kind of an error.
pub const LONGEST_ERROR_MESSAGE: usize = 65_536;
pub const LONGEST_ERROR_KIND: usize = 255;
/// Characters of the name of a token.
pub const LONGEST_TOKEN_NAME: usize = 100;
/// Characters of a JSON Pointer.
pub const LONGEST_POINTER: usize = 1_000;
/// Characters of a URL.
pub const LONGEST_URL: usize = 2_048;

/// Priorities, higher first.
pub const LEAST_PRIORITY: i16 = -100;
pub const GREATEST_PRIORITY: i16 = 100;
/// The greatest whole number that every reader of JSON keeps exact: bound of counts that clients give.
pub const GREATEST_COUNT: i64 = 9_007_199_254_740_991;

/// Rows on a page of a list: by default, and at most.
pub const DEFAULT_PAGE: i64 = 50;
pub const LARGEST_PAGE: i64 = 1_000;
/// Ids that a list may be asked for at once.
pub const MOST_IDS: usize = 1_000;
/// Jobs of a tree.
pub const MOST_JOBS: usize = 1_000;
/// Items in one JSON body; an NDJSON stream has no bound.
pub const MOST_ITEMS: usize = 10_000;
/// Items of one claim, and types or item ids that it may name.
pub const MOST_CLAIMED: u32 = 1_000;
/// Endings of one request, and heartbeats.
pub const MOST_ENDINGS: usize = 1_000;
pub const MOST_HEARTBEATS: usize = 10_000;
/// Log lines of one request, bytes of a line's message and of its fields, and bytes that an attempt keeps.
pub const MOST_LOG_LINES: usize = 1_000;
pub const LONGEST_LOG_MESSAGE: usize = 16_384;
pub const LONGEST_LOG_FIELDS: usize = 16_384;
pub const LARGEST_LOG: i64 = 1_048_576;
/// Seconds that a claim or a poll may wait.
pub const LONGEST_WAIT_SECONDS: u32 = 30;
/// Seconds that a worker may put an item off for: ten years.
pub const LONGEST_RETRY_AFTER_SECONDS: f64 = 315_360_000.0;

/// Characters of the name of an event, fields of its form and choices of a field, bytes of the form, and characters of
/// the texts in it and of the values typed into it.
pub const LONGEST_EVENT_NAME: usize = 255;
pub const MOST_FORM_FIELDS: usize = 50;
pub const MOST_FORM_CHOICES: usize = 100;
pub const LARGEST_FORM: usize = 16_384;
pub const LONGEST_FORM_TITLE: usize = 200;
pub const LONGEST_FORM_DESCRIPTION: usize = 4_000;
pub const LONGEST_FORM_STRING: usize = 1_000;
pub const LONGEST_FORM_TEXT: usize = 65_536;

/// Steps of a job type.
pub const MOST_STEPS: usize = 100;
/// Seconds between heartbeats, and of an attempt: from, to.
pub const SHORTEST_SECONDS: f64 = 0.1;
pub const LONGEST_SECONDS: f64 = 31_536_000.0;
/// Seconds that a tree may be retained for: a hundred years.
pub const LONGEST_RETENTION_SECONDS: i64 = 3_153_600_000;
/// Seconds that the receiver of a push may take.
pub const LONGEST_PUSH_SECONDS: f64 = 86_400.0;

/// Edits of payloads in one bulk operation, and members a second: from about one a day.
pub const MOST_EDITS: usize = 100;
pub const SLOWEST_BULK: f64 = 0.000_01;
pub const FASTEST_BULK: f64 = 10_000.0;

/// Returns true if `text` has `least` to `most` characters and no NUL, which PostgreSQL cannot store.
pub fn is_text(text: &str, least: usize, most: usize) -> bool {
    // Bytes are at least as many as characters, so that most texts need no counting.
    let fits = text.len() <= most || text.chars().nth(most).is_none();
    let enough = least == 0 || text.chars().nth(least - 1).is_some();
    fits && enough && !text.contains('\0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_count_not_bytes() {
        assert!(is_text("ééé", 3, 3));
        assert!(!is_text("éééé", 0, 3));
        assert!(!is_text("", 1, 3));
        assert!(is_text("", 0, 3));
        assert!(!is_text("a\0", 0, 3));
    }
}
