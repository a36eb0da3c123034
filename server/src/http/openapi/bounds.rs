//! Constraints in the document: bounds, patterns and the values of enumerations.
//!
//! The macros of utoipa only take literals, which would duplicate every limit. This module assigns the constants of
//! `domain` to the fields that they limit. A test fails for a request field without an entry and names it. Nothing is
//! validated here; requests are validated where they are read.

use domain::{
    ItemState,
    api::{
        GroupState, LONGEST_CATCH_UP_SECONDS, LONGEST_CRON, LONGEST_SCHEDULE_NAME, LONGEST_TIME_ZONE,
        MOST_MUTED_FAILURES, SeriesMetric, SeriesStep,
    },
    debounce,
    dispatch::{assignment::ASSIGNMENT_ID_PATTERN, retry, type_limits},
    identity::{account, audit::LONGEST_REASON, factors},
    import::{
        mapping::{DateFormat, LONGEST_COLUMN, MOST_MAPPED_COLUMNS, NumberFormat},
        row_edit::{LONGEST_EDITED_CELL, MOST_ROW_EDITS},
        settings::{MOST_ALIASED, MOST_ALIASES, MOST_EXAMPLES, ROLES},
    },
    job_type,
    limits::{
        DEFAULT_PAGE, FASTEST_BULK, GREATEST_COUNT, GREATEST_PRIORITY, LARGEST_LOG, LARGEST_PAGE, LEAST_PRIORITY,
        LONGEST_ERROR_KIND, LONGEST_ERROR_MESSAGE, LONGEST_EVENT_NAME, LONGEST_FORM_DESCRIPTION, LONGEST_FORM_TITLE,
        LONGEST_JOB_NAME, LONGEST_KEY, LONGEST_NAME, LONGEST_POINTER, LONGEST_PROGRESS_MESSAGE, LONGEST_PUSH_SECONDS,
        LONGEST_RETENTION_SECONDS, LONGEST_RETRY_AFTER_SECONDS, LONGEST_SECONDS, LONGEST_TOKEN_NAME, LONGEST_URL,
        LONGEST_WAIT_SECONDS, LONGEST_WORKER_ID, MOST_CLAIMED, MOST_EDITS, MOST_ENDINGS, MOST_FORM_CHOICES,
        MOST_FORM_FIELDS, MOST_HEARTBEATS, MOST_IDS, MOST_ITEMS, MOST_JOBS, MOST_LOG_LINES, MOST_STEPS, NAME_PATTERN,
        SHORTEST_SECONDS,
    },
    notice::MOST_READ_IDS,
    notify::{
        alert::{AlertKind, LONGEST_MESSAGE},
        alert_channel::{
            LONGEST_AFTER_SECONDS, LONGEST_CHANNEL_NAME, LONGEST_RECIPIENT, LONGEST_ROUTING_KEY, MOST_CHANNEL_TYPES,
            MOST_RECIPIENTS, TIME_OF_DAY_PATTERN, Weekday,
        },
        delivery::DeliveryState,
    },
    saved_view::{LONGEST_VIEW_FILTER, LONGEST_VIEW_NAME, ViewList},
};
use serde_json::{Value, json};

use crate::http::query::sort;
use engine::{
    access::caller::{Role, Scope},
    import::{
        split::LONGEST_LABEL,
        upload_head::{HEADER_ROWS, LONGEST_SHEET},
    },
};

/// Keywords for a field of a schema; `None` without a rule.
///
/// Rules that name their schema come first. The others apply to the fields of every request body.
fn field(schema: &str, name: &str, is_request: bool) -> Option<Value> {
    let schema = if schema == "JobTypePatch" { "JobTypeSpec" } else { schema };
    let of_schema = match (schema, name) {
        ("NewJob" | "JobPatch", "name") => text(0, LONGEST_JOB_NAME),
        ("NewJob", "key" | "type")
        | ("FileCheckBody", "type")
        | ("JobTypeSpec" | "NewService" | "StepBody", "name")
        | ("NewToken", "service") => named(),
        ("NewToken", "name") => text(1, LONGEST_TOKEN_NAME),
        ("NewToken" | "Token" | "Me", "scopes") => {
            let least = usize::from(is_request);
            json!({"minItems": least, "maxItems": 100, "items": {"type": "string", "enum": Scope::ALL.map(Scope::as_str)}})
        }
        ("NewToken" | "Claim", "types") => json!({"maxItems": MOST_IDS, "items": named()}),
        ("NewUser" | "UserPatch" | "User" | "Me", "role") => json!({"enum": Role::ALL.map(Role::as_str)}),
        ("NewUser", "name") => json!({"minLength": 1, "maxLength": account::LONGEST_NAME,
            "pattern": r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"}),
        ("NewUser" | "UserPatch", "email") => {
            json!({"format": "email", "maxLength": account::LONGEST_EMAIL, "pattern": EMAIL})
        }
        ("NewUser" | "UserPatch", "proxy_user") => json!({"maxLength": account::LONGEST_NAME, "pattern": PROXY_USER}),
        ("NewUser", "password") | ("NewPassword", "new_password") => {
            text(account::SHORTEST_PASSWORD, account::LONGEST_PASSWORD)
        }
        ("SignIn" | "NewPasskey" | "PasskeyAnswer", "state") => text(0, 16 * 1024),
        ("SignIn" | "StepUp" | "TotpConfirm", "code") | ("SignIn" | "StepUp", "recovery_code") => text(0, 100),
        ("NewSchedule" | "SchedulePatch", "name") => text(1, LONGEST_SCHEDULE_NAME),
        ("NewSchedule" | "SchedulePatch", "cron") => text(1, LONGEST_CRON),
        ("NewSchedule" | "SchedulePatch" | "QuietHours", "time_zone") => text(1, LONGEST_TIME_ZONE),
        ("NewSchedule" | "SchedulePatch", "catch_up_window_seconds") => whole(0, LONGEST_CATCH_UP_SECONDS),
        ("NewSavedView" | "SavedViewPatch", "name") => {
            json!({"minLength": 1, "maxLength": LONGEST_VIEW_NAME, "pattern": r"^\S(.*\S)?$"})
        }
        ("NewSavedView" | "SavedViewPatch", "q") => text(0, LONGEST_VIEW_FILTER),
        ("NewSavedView" | "SavedViewPatch", "sort") => {
            json!({"pattern": format!("^({})$", ViewList::Items.orders().join("|"))})
        }
        ("NewAlertChannel" | "AlertChannelPatch", "name") => text(1, LONGEST_CHANNEL_NAME),
        ("NewAlertChannel" | "AlertChannelPatch", "routing_key") => {
            json!({"minLength": 1, "maxLength": LONGEST_ROUTING_KEY, "pattern": "^[A-Za-z0-9]+$"})
        }
        ("NewAlertChannel" | "AlertChannelPatch", "to") => {
            let address = json!({"type": "string", "format": "email", "maxLength": LONGEST_RECIPIENT});
            json!({"maxItems": MOST_RECIPIENTS, "uniqueItems": true, "items": address})
        }
        ("NewAlertChannel" | "AlertChannelPatch", "kinds") => json!({"maxItems": AlertKind::ALL.len()}),
        ("NewAlertChannel" | "AlertChannelPatch", "types") => json!({"maxItems": MOST_CHANNEL_TYPES, "items": named()}),
        ("NewAlertChannel" | "AlertChannelPatch", "after_seconds") => whole(0, LONGEST_AFTER_SECONDS),
        ("QuietHours", "from" | "to") => json!({"pattern": TIME_OF_DAY_PATTERN}),
        ("QuietHours", "days") => json!({"maxItems": Weekday::ALL.len()}),
        ("NewPasskey" | "PasskeyPatch" | "TotpPatch", "name") => text(1, factors::LONGEST_PASSKEY_NAME),
        ("NewPassword", "current_password") | ("SignIn", "password" | "link" | "email") | ("StepUp", "password") => {
            text(0, account::LONGEST_PASSWORD)
        }
        ("NewJob", "after_outcome") => json!({"enum": ["succeeded", "any"]}),
        ("NewJob", "after") => json!({"maxItems": MOST_JOBS, "items": named()}),
        ("NewJob", "children") => json!({"maxItems": MOST_JOBS}),
        ("NewJob", "items") => json!({"maxItems": MOST_ITEMS}),
        ("Job" | "NewJob", "feed") => {
            json!({"$replace": {"oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/FeedRule"}]}})
        }
        ("NewJob" | "NewItem" | "JobPatch", "metadata") => {
            json!({"$replace": {"type": ["object", "null"], "additionalProperties": true}})
        }
        ("Job" | "Item" | "AssignedItem", "metadata") | ("NewBulk" | "BulkOperation", "filter") => {
            json!({"$replace": {"type": "object", "additionalProperties": true}})
        }
        ("JobTypeSpec", "payload_schema") => json!({"$replace": {"type": ["object", "boolean", "null"]}}),
        ("JobTypeSpec", "fair_by") => json!({
            "minLength": 1, "maxLength": LONGEST_POINTER, "pattern": r"^(tree|owner|(/([^~/]|~[01])*)+)$"
        }),
        ("JobTypeSpec", "concurrency") => whole(0, i32::MAX.into()),
        ("RateLimit", "count" | "burst") | ("ConcurrencyBy", "limit") => whole(1, type_limits::HIGHEST_LIMIT),
        ("Debounce", "key") => text(1, LONGEST_KEY),
        ("Debounce", "seconds" | "max_seconds") => whole(1, debounce::LONGEST_SECONDS),
        ("RateLimit", "per_seconds") => whole(1, type_limits::LONGEST_WINDOW_SECONDS),
        ("RateLimit" | "ConcurrencyBy", "key") => {
            json!({"minLength": 1, "maxLength": LONGEST_POINTER, "pattern": POINTER})
        }
        ("JobTypeSpec", "heartbeat_seconds" | "run_timeout_seconds") => number(SHORTEST_SECONDS, LONGEST_SECONDS),
        ("JobTypeSpec", "retain_seconds") => whole(0, LONGEST_RETENTION_SECONDS),
        ("JobTypeSpec", "steps") => json!({"maxItems": MOST_STEPS, "uniqueItems": true, "items": named()}),
        ("ImportSettings", "roles") => {
            json!({"maxItems": ROLES.len(), "uniqueItems": true, "items": {"type": "string", "enum": ROLES}})
        }
        ("ImportSettings", "aliases") => json!({
            "maxProperties": MOST_ALIASED,
            "propertyNames": text(1, LONGEST_COLUMN),
            "additionalProperties": {"type": "array", "maxItems": MOST_ALIASES,
                "items": {"type": "string", "minLength": 1, "maxLength": LONGEST_COLUMN}}
        }),
        ("ImportTemplate", "examples") => {
            let row = json!({"$replace": {"type": "object", "additionalProperties": true}});
            json!({"maxItems": MOST_EXAMPLES, "items": row})
        }
        ("Backoff", "factor") => number(1.0, 1_000.0),
        ("Backoff", "min_seconds" | "max_seconds") => number(0.0, retry::LONGEST_SECONDS),
        ("Executor", "timeout_seconds") => number(SHORTEST_SECONDS, LONGEST_PUSH_SECONDS),
        ("BasicAuth", "user") => json!({"minLength": 1, "maxLength": job_type::LONGEST_VALUE,
            "pattern": r"^[^:\x00-\x1f\x7f-\x9f]+$"}),
        ("BasicAuth", "password") => {
            json!({"maxLength": job_type::LONGEST_VALUE, "pattern": r"^[^\x00-\x1f\x7f-\x9f]*$"})
        }
        ("Mapping", "columns") => json!({"minItems": 1, "maxItems": MOST_MAPPED_COLUMNS}),
        ("MappedColumn", "from" | "to") => text(1, LONGEST_COLUMN),
        ("MappedColumn", "format") => {
            let numbers = NumberFormat::ALL.map(NumberFormat::as_str);
            let dates = DateFormat::ALL.map(DateFormat::as_str);
            // A pattern and not an enumeration: generators cannot make names of `1.234,56` and `1,234.56`.
            let formats = [&numbers[..], &dates[..]].concat().join("|").replace('.', "\\.");
            json!({"pattern": format!("^({formats})$")})
        }
        ("JobUpload" | "FileCheckBody", "delimiter") => json!({"pattern": DELIMITER}),
        ("JobUpload" | "FileCheckBody", "encoding") => text(1, LONGEST_LABEL),
        ("JobUpload" | "FileCheckBody", "sheet") => text(1, LONGEST_SHEET),
        ("JobUpload" | "FileCheckBody", "header_row") => whole(*HEADER_ROWS.start(), *HEADER_ROWS.end()),
        ("NewJob" | "FileCheckBody", "edits") => json!({"maxItems": MOST_ROW_EDITS}),
        ("NewAlertChannel" | "AlertChannelPatch", "min_count") | ("RowEdit", "row") => whole(1, GREATEST_COUNT),
        ("RowEdit", "cells") => json!({
            "propertyNames": text(1, LONGEST_COLUMN),
            "additionalProperties": {"type": "string", "maxLength": LONGEST_EDITED_CELL}
        }),
        ("Claim", "item_ids") => json!({"maxItems": MOST_IDS}),
        ("Claim", "max") => whole(1, MOST_CLAIMED.into()),
        ("Claim", "wait_seconds") => whole(0, LONGEST_WAIT_SECONDS.into()),
        (_, "assignment_id") => json!({"pattern": ASSIGNMENT_ID_PATTERN}),
        ("ErrorGroupPatch", "failures") => whole(1, MOST_MUTED_FAILURES),
        ("FinishBody", "endings") => json!({"maxItems": MOST_ENDINGS}),
        ("NoticeSettingsPatch", "webhook_url") => json!({"format": "uri", "maxLength": LONGEST_URL}),
        ("ReadNotices", "ids") => json!({"maxItems": MOST_READ_IDS}),
        ("HeartbeatsBody", "heartbeats") => json!({"maxItems": MOST_HEARTBEATS}),
        ("NewLogLine", "message") => text(0, LARGEST_LOG as usize),
        ("LogsBody", "lines") => json!({"minItems": 1, "maxItems": MOST_LOG_LINES}),
        ("ItemProgress", "done" | "total") => whole(0, GREATEST_COUNT),
        ("ItemProgress", "message") => text(0, LONGEST_PROGRESS_MESSAGE),
        ("WorkError", "message") => text(1, LONGEST_ERROR_MESSAGE),
        ("WorkError", "kind") => text(1, LONGEST_ERROR_KIND),
        ("WaitBody" | "EventBody", "name") => text(1, LONGEST_EVENT_NAME),
        ("WaitBody", "timeout_seconds") => {
            json!({"exclusiveMinimum": 0, "maximum": LONGEST_RETRY_AFTER_SECONDS})
        }
        ("EventForm" | "FormField", "title") => text(1, LONGEST_FORM_TITLE),
        ("EventForm" | "FormField", "description") => text(0, LONGEST_FORM_DESCRIPTION),
        ("EventForm", "fields") => json!({"maxItems": MOST_FORM_FIELDS}),
        ("FormField", "name") => text(1, LONGEST_NAME),
        ("FormField", "choices") => json!({"maxItems": MOST_FORM_CHOICES, "uniqueItems": true,
            "items": {"type": "string", "minLength": 1, "maxLength": LONGEST_FORM_TITLE}}),
        ("AlertBody", "message") => json!({"minLength": 1, "maxLength": LONGEST_MESSAGE, "pattern": r"\S"}),
        ("NewBulk", "payload_edit") => json!({"maxItems": MOST_EDITS}),
        ("NewBulk", "rate_per_second") => json!({"exclusiveMinimum": 0, "maximum": FASTEST_BULK}),
        ("PayloadEdit", "path") => json!({"pattern": "^(/([^~/]|~[01])*)*$", "maxLength": LONGEST_POINTER}),
        ("OpenBecause", "reason") => json!({"enum": ["unsealed", "items", "after", "cancelling"]}),
        ("WaitingFor", "reason") => json!({"enum": domain::item::WAITING_REASONS}),
        _ => Value::Null,
    };
    if !of_schema.is_null() {
        return Some(of_schema);
    }
    // The fields of a feed rule are templates of the values, so the limits do not apply to them.
    if !is_request || schema == "FeedRule" {
        return None;
    }
    Some(match name {
        "reason" | "note" => text(0, LONGEST_REASON),
        "dedupe_key" | "serialize_key" | "initiated_by" | "secret" => text(1, LONGEST_KEY),
        "priority" => whole(LEAST_PRIORITY.into(), GREATEST_PRIORITY.into()),
        "expected_count" => whole(0, GREATEST_COUNT),
        "retry_after_seconds" => number(0.0, LONGEST_RETRY_AFTER_SECONDS),
        "worker_id" => text(1, LONGEST_WORKER_ID),
        "url" => json!({"format": "uri", "maxLength": LONGEST_URL}),
        _ => return None,
    })
}

/// Keywords for a whole schema that is not an object, by its name.
fn whole_schema(name: &str) -> Option<Value> {
    Some(match name {
        "SigningSecret" => text(1, LONGEST_KEY),
        "Headers" => json!({
            "maxProperties": job_type::MOST_HEADERS,
            "propertyNames": {"pattern": r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$"},
            "additionalProperties": {"type": "string", "maxLength": job_type::LONGEST_VALUE, "pattern": r"^[\t\x20-\x7e]*$"}
        }),
        _ => return None,
    })
}

/// Keywords for a query, path or header parameter. An empty object means any text.
pub(super) fn parameter(operation: &str, name: &str) -> Option<Value> {
    let states = ItemState::ALL.map(ItemState::as_str).join("|");
    Some(match (operation, name) {
        ("watch_roots", "topics") => json!({"pattern": format!("^{TOPIC}(,{TOPIC})*$")}),
        (_, "limit") => json!({"minimum": 1, "maximum": LARGEST_PAGE, "default": DEFAULT_PAGE}),
        (_, "cursor") => json!({"pattern": "^[A-Za-z0-9_-]+$"}),
        (_, "sort") => {
            let words = sort::words(operation);
            json!({"enum": words, "default": words[0]})
        }
        ("list_dead_letters", "state") => json!({"enum": ["dead"]}),
        ("list_items", "state") => json!({"pattern": format!("^({states})(,({states}))*$")}),
        ("list_groups", "state") => {
            let states = GroupState::ALL.map(GroupState::as_str).join("|");
            json!({"pattern": format!("^({states})(,({states}))*$")})
        }
        ("stream_results" | "stream_failures", "delimiter") => text(1, 1),
        ("list_deliveries", "state") => {
            let states = DeliveryState::ALL.map(DeliveryState::as_str).join("|");
            json!({"pattern": format!("^({states})(,({states}))*$")})
        }
        ("list_alerts", "kind") => json!({"enum": AlertKind::ALL.map(AlertKind::as_str)}),
        ("add_items", "on_duplicate") => json!({"enum": ["refuse", "skip"]}),
        ("list_items" | "list_dead_letters" | "list_jobs", "id") => json!({"pattern": IDS}),
        (
            "heartbeat_assignment"
            | "step_assignment"
            | "succeed_assignment"
            | "fail_assignment"
            | "release_assignment"
            | "wait_assignment"
            | "alert_assignment"
            | "log_assignment",
            "id",
        ) => json!({"pattern": ASSIGNMENT_ID_PATTERN}),
        ("preview_upload" | "suggest_mapping", "delimiter") => json!({"pattern": DELIMITER}),
        ("preview_upload" | "suggest_mapping", "encoding") => text(1, LONGEST_LABEL),
        ("preview_upload" | "suggest_mapping", "header_row") => whole(*HEADER_ROWS.start(), *HEADER_ROWS.end()),
        (_, "name") => named(),
        (_, "wait_seconds") => json!({"minimum": 0, "maximum": LONGEST_WAIT_SECONDS}),
        ("get_series", "metric") => json!({"enum": SeriesMetric::ALL.map(SeriesMetric::as_str)}),
        ("get_series", "step") => json!({"enum": SeriesStep::ALL.map(SeriesStep::as_str), "default": "minute"}),
        ("list_audit", "format") => json!({"enum": ["json", "ndjson"], "default": "json"}),
        ("list_logs", "attempt") => json!({"minimum": 1}),
        (_, "row") => json!({"minimum": 1, "maximum": GREATEST_COUNT}),
        (_, "Idempotency-Key") => json!({"minLength": 1, "maxLength": LONGEST_KEY}),
        (_, "If-Match") => json!({"pattern": r#"^(\*|(W/)?"[0-9]{1,18}")$"#}),
        (_, "Tus-Resumable") => json!({"enum": ["1.0.0"]}),
        (_, "Upload-Length" | "Upload-Offset") => json!({"minimum": 0, "maximum": GREATEST_COUNT}),
        (_, "Upload-Metadata") => json!({"pattern": METADATA}),
        (_, "reason") => json!({"maxLength": LONGEST_REASON}),
        (_, "sheet") => text(0, LONGEST_SHEET),
        // Filters: a value that matches nothing finds nothing, so any text is valid. An invalid trace context is ignored.
        (
            _,
            "type" | "fingerprint" | "q" | "owner" | "error" | "worker" | "dedupe_key" | "serialize_key"
            | "initiated_by" | "actor" | "action" | "filename" | "metadata.name" | "If-None-Match" | "step"
            | "idempotency_key" | "Range" | "If-Range" | "traceparent",
        ) => json!({}),
        _ => return None,
    })
}

/// Pattern of a [`domain::query::topic::Topic`].
const TOPIC: &str = "(roots|imports|failures|operations|workers|types|overview|deliveries|schedules|notices\
    |(job|item):[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})";

/// Pattern of a JSON Pointer into a payload.
const POINTER: &str = r"^(/([^/~]|~[01])*)+$";

/// Pattern of an email address: ASCII without spaces; the domain neither begins nor ends with a dot.
const EMAIL: &str = r"^[!-?A-~]+@[!-\-/-?A-~]([!-?A-~]*[!-\-/-?A-~])?$";
/// Pattern of a proxy user: ASCII without commas and without spaces at either end; may be empty.
const PROXY_USER: &str = r"^([!-+\--~]([ -+\--~]*[!-+\--~])?)?$";
/// Pattern of a delimiter: a tab, a space, or ASCII punctuation other than quote, minus and dot.
const DELIMITER: &str = r"^[\t !#$%&'()*+,/:;<=>?@\[\\\]^_`{|}~]$";
const IDS: &str =
    "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(,[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}){0,999}$";
/// Pattern of tus metadata: keys, each with a base64 value, separated by commas.
const METADATA: &str = r"^[!-+\--~]+( [A-Za-z0-9+/]*={0,2})?(, ?[!-+\--~]+( [A-Za-z0-9+/]*={0,2})?)*$";

fn text(least: usize, most: usize) -> Value {
    if least == 0 { json!({"maxLength": most}) } else { json!({"minLength": least, "maxLength": most}) }
}

fn named() -> Value {
    json!({"pattern": NAME_PATTERN, "maxLength": LONGEST_NAME})
}

fn whole(least: i64, most: i64) -> Value {
    json!({"minimum": least, "maximum": most})
}

fn number(least: f64, most: f64) -> Value {
    json!({"minimum": least, "maximum": most})
}

/// Returns true if a schema is a request body or part of one: such a schema allows no other fields.
pub(super) fn is_request(schema: &Value) -> bool {
    schema["additionalProperties"] == false
}

/// Adds the bounds to all schemas and parameters.
pub(super) fn apply(document: &mut Value) {
    let schemas = document["components"]["schemas"].as_object_mut();
    for (name, schema) in schemas.into_iter().flatten() {
        if let Some(bounds) = whole_schema(name) {
            merge(schema, &bounds);
        }
        let is_request = is_request(schema);
        let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
        for (property, of) in properties.into_iter().flatten() {
            if let Some(bounds) = field(name, property, is_request) {
                merge(of, &bounds);
            }
        }
    }
    for (_, operation) in super::operations(document) {
        let id = operation["operationId"].as_str().unwrap_or_default().to_owned();
        for one in super::parameters(operation) {
            if let Some(bounds) = one["name"].as_str().and_then(|name| parameter(&id, name)) {
                merge(&mut one["schema"], &bounds);
            }
        }
    }
}

/// Adds keywords to a schema. `$replace` replaces everything but the description. If null is allowed, it is added to
/// the values of an `enum`.
fn merge(schema: &mut Value, bounds: &Value) {
    if let Some(whole) = bounds.get("$replace") {
        let description = schema.get("description").cloned();
        *schema = whole.clone();
        if let Some(description) = description {
            schema["description"] = description;
        }
        return;
    }
    let nullable = schema["type"].as_array().is_some_and(|types| types.iter().any(|one| one == "null"));
    let Some(fields) = schema.as_object_mut() else { return };
    for (keyword, value) in bounds.as_object().into_iter().flatten() {
        let mut value = value.clone();
        if keyword == "items"
            && let Some(items) = fields.get_mut("items")
        {
            merge(items, &value);
            continue;
        }
        if keyword == "enum"
            && nullable
            && let Some(words) = value.as_array_mut()
        {
            words.push(Value::Null);
        }
        fields.insert(keyword.clone(), value);
    }
}
