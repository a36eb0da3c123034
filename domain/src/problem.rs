//! Problem documents (RFC 9457): one closed list of codes that server, client and pages compile.

use serde::{Deserialize, Serialize};

use crate::{
    id::Uuid,
    item::{EndedAs, ItemState},
};

/// The media type of a problem document.
pub const MEDIA_TYPE: &str = "application/problem+json";

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $word:literal, $status:literal, $title:literal;)*) => {
        /// Problem code, a stable word for programs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Code {
            $($(#[$doc])* #[serde(rename = $word)] $name,)*
        }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Code] = &[$(Self::$name),*];

            /// The word on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word),* }
            }

            /// The HTTP status it travels with.
            pub const fn status(self) -> u16 {
                match self { $(Self::$name => $status),* }
            }

            /// A short title for people.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$name => $title),* }
            }
        }
    };
}

codes! {
    InvalidJson = "invalid_json", 400, "The body is not JSON";
    InvalidParameter = "invalid_parameter", 400, "A parameter is not valid";
    IdempotencyKeyRequired = "idempotency_key_required", 400, "This job type requires an Idempotency-Key";
    CursorMismatch = "cursor_mismatch", 400, "The cursor belongs to other filters";
    Unauthenticated = "unauthenticated", 401, "Sign in or send a token";
    /// Carries `methods` and `state`.
    MfaRequired = "mfa_required", 401, "A second factor is required";
    Forbidden = "forbidden", 403, "Not allowed";
    MfaEnrollmentRequired = "mfa_enrollment_required", 403, "Your role requires a second factor";
    PasswordChangeRequired = "password_change_required", 403, "Choose a password of your own";
    StepUpRequired = "step_up_required", 403, "Confirm that it is you";
    NotFound = "not_found", 404, "Not found";
    MethodNotAllowed = "method_not_allowed", 405, "Method not allowed";
    Duplicate = "duplicate", 409, "Already exists";
    IdInUse = "id_in_use", 409, "The id is in use";
    JobSealed = "job_sealed", 409, "The job is sealed";
    JobIsFed = "job_is_fed", 409, "The job is fed by its parent";
    JobCancelled = "job_cancelled", 409, "The job is canceled";
    JobCompleted = "job_completed", 409, "The job is complete";
    JobNotComplete = "job_not_complete", 409, "The job is not complete";
    NotRoot = "not_root", 409, "The job is not a root";
    Superseded = "superseded", 409, "The tree is superseded by a newer one";
    /// Carries `item_state` and `ended_as`.
    AssignmentClosed = "assignment_closed", 409, "The assignment is closed";
    AlreadyStarted = "already_started", 409, "The work has already started";
    StepBehind = "step_behind", 409, "The step comes before the current one";
    ItemExpired = "item_expired", 409, "The item has expired";
    ItemFinal = "item_final", 409, "The item is already in a final state";
    ItemNotFinal = "item_not_final", 409, "The item is not in a final state";
    /// Carries `item_state`.
    NotWaiting = "not_waiting", 409, "The item is not waiting for an event";
    OtherEvent = "other_event", 409, "The item is waiting for another event";
    NotRetryable = "not_retryable", 409, "The item cannot be retried in this state";
    /// A delivery; carries the `id` of the newest one of its tree where it is superseded.
    NotResendable = "not_resendable", 409, "The webhook cannot be sent again";
    /// The server was started without heap sampling.
    ProfilingOff = "profiling_off", 409, "Heap profiles are off";
    OperationOver = "operation_over", 409, "The operation has ended";
    JobTypeInUse = "job_type_in_use", 409, "Jobs use this type";
    LastAdmin = "last_admin", 409, "At least one admin is required";
    LastSignInMethod = "last_sign_in_method", 409, "The last sign-in method cannot be removed";
    UserDisabled = "user_disabled", 409, "The account is disabled";
    /// A resumable upload; the header `Upload-Offset` has the right offset.
    WrongOffset = "wrong_offset", 409, "The offset is not the end of the file";
    UploadInUse = "upload_in_use", 409, "A job uses this upload";
    JobRemoved = "job_removed", 410, "The job was removed";
    LinkUsed = "link_used", 410, "The link was used or has expired";
    PreconditionFailed = "precondition_failed", 412, "There is a newer version";
    TooLarge = "too_large", 413, "Too large";
    UnsupportedMediaType = "unsupported_media_type", 415, "Unsupported media type";
    /// A download; the header `Content-Range` has the length of the file.
    RangeNotSatisfiable = "range_not_satisfiable", 416, "The file has no such range";
    Misdirected = "misdirected", 421, "The host name is not one of this server's";
    InvalidBody = "invalid_body", 422, "The body is not valid";
    UnknownJobType = "unknown_job_type", 422, "No such job type";
    UnknownStep = "unknown_step", 422, "The job type declares no such step";
    Cycle = "cycle", 422, "The jobs depend on each other in a cycle";
    IdempotencyKeyReused = "idempotency_key_reused", 422, "The Idempotency-Key was used with another body";
    ReasonRequired = "reason_required", 422, "A reason is required";
    UrlNotAllowed = "url_not_allowed", 422, "The URL is not allowed";
    NoRows = "no_rows", 422, "The file has no data rows";
    BadHeader = "bad_header", 422, "The header of the file is not valid";
    /// An import; the type requires columns that the mapping does not fill.
    MappingIncomplete = "mapping_incomplete", 422, "Required columns are missing";
    SchemaTooComplex = "schema_too_complex", 422, "The schema is too complex";
    TooManyRequests = "too_many_requests", 429, "Too many requests";
    QuotaExceeded = "quota_exceeded", 429, "A quota is exceeded";
    Internal = "internal", 500, "Something went wrong on the server";
    Busy = "busy", 503, "The server is busy";
    DatabaseUnavailable = "database_unavailable", 503, "The database is unavailable";
    ShuttingDown = "shutting_down", 503, "The server is shutting down";
    InsufficientStorage = "insufficient_storage", 507, "The disk is nearly full";
}

// By hand: the derived one does not see the words through the macro.
#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for Code {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{Object, SchemaType, Type};
        Object::builder()
            .schema_type(SchemaType::Type(Type::String))
            .description(Some("Stable error code for programs."))
            .enum_values(Some(Self::ALL.iter().map(|code| code.as_str())))
            .into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for Code {}

/// Invalid place in a body, as a JSON Pointer, and what was expected there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FieldProblem {
    pub pointer: String,
    pub detail: String,
}

impl FieldProblem {
    /// A sentence with the place and what was expected.
    fn sentence(&self) -> String {
        let place = if self.pointer.is_empty() { "the body" } else { &self.pointer };
        format!("At {place}: {}.", self.detail)
    }
}

/// A problem document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Problem {
    /// URI that ends in the code.
    #[serde(rename = "type")]
    pub kind: String,
    pub title: String,
    pub status: u16,
    pub detail: String,
    pub code: Code,
    #[serde(default)]
    pub request_id: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldProblem>,
    /// `duplicate`, `id_in_use`: id of the existing object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Uuid>,
    /// `assignment_closed`, `not_waiting`: current state of the item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item_state: Option<ItemState>,
    /// `assignment_closed`: how this assignment ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_as: Option<EndedAs>,
    /// Line of an NDJSON stream that was refused, from 1; if the job refuses all, the first one that was not added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<i64>,
    /// Number of items of an NDJSON stream that were added before it was stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<i64>,
    /// Seconds after which to try again, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u32>,
    /// `mfa_required`, `step_up_required`: accepted methods: `totp`, `passkey`, `recovery_code`, `password`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<String>,
    /// `mfa_required`: replaces the first factor for ten minutes; send it with the second factor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

impl Problem {
    /// A problem with a sentence that says what happened and what to do.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("urn:treeline:problem:{}", code.as_str()),
            title: code.title().to_owned(),
            status: code.status(),
            detail: detail.into(),
            code,
            request_id: None,
            errors: Vec::new(),
            id: None,
            item_state: None,
            ended_as: None,
            line: None,
            accepted: None,
            retry_after_seconds: None,
            methods: Vec::new(),
            state: None,
        }
    }

    /// `not_found`, for a thing that does not exist or is not the caller's to see.
    pub fn not_found(object: &str) -> Self {
        Self::new(Code::NotFound, format!("There is no such {object}, or it is not yours to see."))
    }

    /// `invalid_body` with its faults.
    pub fn invalid_body(faults: impl IntoIterator<Item = (String, String)>) -> Self {
        let errors: Vec<FieldProblem> =
            faults.into_iter().map(|(pointer, detail)| FieldProblem { pointer, detail }).collect();
        let detail = errors.first().map_or_else(|| "The body is not valid.".to_owned(), FieldProblem::sentence);
        Self { errors, ..Self::new(Code::InvalidBody, detail) }
    }

    /// A problem at one place of the body.
    pub fn at(code: Code, pointer: String, detail: String) -> Self {
        let fault = FieldProblem { pointer, detail };
        let problem = Self::new(code, fault.sentence());
        Self { errors: vec![fault], ..problem }
    }

    /// The same problem with its faults at other places, and without those that `place` drops. A detail that names the
    /// first fault follows.
    #[must_use]
    pub fn moved(self, place: impl Fn(&str) -> Option<String>) -> Self {
        let is_named = self.errors.first().is_some_and(|first| self.detail == first.sentence());
        let moved = |fault: FieldProblem| Some(FieldProblem { pointer: place(&fault.pointer)?, detail: fault.detail });
        let errors: Vec<FieldProblem> = self.errors.into_iter().filter_map(moved).collect();
        let detail = errors.first().filter(|_| is_named).map_or(self.detail, FieldProblem::sentence);
        Self { detail, errors, ..self }
    }

    /// `invalid_parameter`, naming the parameter.
    pub fn parameter(name: &str, expected: &str) -> Self {
        Self {
            errors: vec![FieldProblem { pointer: format!("?{name}"), detail: expected.to_owned() }],
            ..Self::new(Code::InvalidParameter, format!("Parameter {name}: {expected}."))
        }
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code.as_str(), self.detail)
    }
}

impl std::error::Error for Problem {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_code_round_trips_as_json() {
        for &code in Code::ALL {
            assert_eq!(serde_json::to_string(&code).expect("json"), format!("\"{}\"", code.as_str()));
            assert!((400..600).contains(&code.status()));
        }
    }

    #[test]
    fn invalid_body_names_its_first_error() {
        let problem = Problem::invalid_body([("/type".to_owned(), "expected a name".to_owned())]);
        assert_eq!(problem.detail, "At /type: expected a name.");
        assert_eq!(problem.status, 422);
    }

    #[test]
    fn moved_problem_names_its_new_place() {
        let faults = [("/3/payload", "expected a name"), ("/4/payload", "expected a number")];
        let faults = faults.map(|(pointer, detail)| (pointer.to_owned(), detail.to_owned()));
        let moved = Problem::invalid_body(faults).moved(|pointer| pointer.strip_prefix("/3").map(str::to_owned));
        assert_eq!((moved.detail.as_str(), moved.errors.len()), ("At /payload: expected a name.", 1));
        let named = Problem::at(Code::TooLarge, "/0/payload".to_owned(), "over the limit of 9 bytes".to_owned());
        let moved = named.moved(|pointer| Some(format!("/items{pointer}")));
        assert_eq!(moved.detail, "At /items/0/payload: over the limit of 9 bytes.");
        let other = Problem { detail: "Elsewhere.".to_owned(), ..moved };
        assert_eq!(other.moved(|_| None).detail, "Elsewhere.");
    }
}
