"""Types of the API, generated from its description by scripts/generate.py."""
from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict


ActorKind: TypeAlias = Literal['user', 'service', 'operator', 'nobody']


class AlertBody(TypedDict):
    """
    Body of `POST /assignments/{id}/alert`.
    """

    message: str


Secret: TypeAlias = None


ToItem: TypeAlias = str


Type: TypeAlias = str


AlertEvent: TypeAlias = Literal['raised', 'cleared', 'test']


AlertKind: TypeAlias = Literal['dead_letters', 'many_failures', 'ending_refused', 'stalled', 'unclaimed', 'delivery_failed', 'broker_away', 'worker']


class Data(TypedDict):
    channel: str
    channel_id: str


AttemptOutcome: TypeAlias = Literal['succeeded', 'failed', 'lease_lost', 'timed_out', 'released', 'cancelled', 'waiting']


class Backoff(TypedDict):
    """
    Backoff b = min(max, min × factor^(failures−1)); with jitter the wait is uniform in [b, 1.5 b].
    """

    factor: NotRequired[float]
    jitter: NotRequired[bool]
    max_seconds: NotRequired[float | None]
    min_seconds: NotRequired[float]


class BasicAuth(TypedDict):
    """
    User and password for HTTP basic authentication.
    """

    password: str
    user: str


BuiltinExecutor: TypeAlias = Literal['validate', 'export', 'echo']


BulkAction: TypeAlias = Literal['retry', 'cancel', 'delete']


class BulkSample(TypedDict):
    """
    Member of a bulk operation, as it was when it was selected.
    """

    id: str
    job_id: str
    message: NotRequired[str | None]
    root_id: str
    state: str
    type: str


class BulkSkipped(TypedDict):
    count: int
    reason: str


BulkState: TypeAlias = Literal['counting', 'ready', 'running', 'completed', 'cancelling', 'cancelled']


BulkTarget: TypeAlias = Literal['items', 'jobs']


CatchUp: TypeAlias = Literal['none', 'last', 'all']


ChannelKind: TypeAlias = Literal['email', 'slack', 'pagerduty', 'webhook']


CheckFormat: TypeAlias = Literal['json', 'csv']


class CheckedRow(TypedDict):
    """
    One row of a checked file.
    """

    cells: list[str]
    column: NotRequired[int | None]
    edited: bool
    left_out: bool
    needs_file: bool
    problem: NotRequired[str | None]
    row: int


class ClaimRequest(TypedDict):
    """
    Body of `POST /assignments`.
    """

    claim_id: NotRequired[str | None]
    item_ids: NotRequired[list[str] | None]
    max: NotRequired[int | None]
    types: NotRequired[list[Type]]
    wait_seconds: NotRequired[int | None]
    worker_id: str


class ConcurrencyBy(TypedDict):
    """
    Limit on the number of items with the same value in their payload that run at once.
    """

    key: str
    limit: int


class Counts(TypedDict):
    """
    Number of items in each state: exact totals at any size.
    """

    available: int
    blocked: int
    cancelled: int
    dead: int
    expired: int
    retryable: int
    running: int
    scheduled: int
    succeeded: int
    superseded: NotRequired[int]
    waiting_for_event: int


class DayTotal(TypedDict):
    """
    Number of items of a type that were added and that ended on one day (UTC).
    """

    added: int
    cancelled: int
    day: str
    dead: int
    expired: int
    succeeded: int


class Debounce(TypedDict):
    """
    Debounce of an item: later items with the same key replace its payload while it waits.
    """

    key: str
    max_seconds: int
    seconds: int


DeliveryState: TypeAlias = Literal['pending', 'delivered', 'failed', 'abandoned', 'superseded']


DeliveryStrategy: TypeAlias = Literal['at_least_once', 'at_most_once']


EditOp: TypeAlias = Literal['set', 'remove']


class EndedSessions(TypedDict):
    """
    Response to a request that ends sessions.
    """

    ended: int


ExecutorKind: TypeAlias = Literal['pull', 'push', 'builtin']


ExportFormat: TypeAlias = Literal['ndjson', 'csv', 'xlsx']


class FeedRule(TypedDict):
    """
    Rule for how a job receives items from its parent. All fields but `each` are templates: JSON in which `{"$from": "<JSON Pointer>"}` is replaced from `{payload, result, item_id, job_id, element?, index?}`.
    """

    dedupe_key: NotRequired[Any]
    each: NotRequired[str | None]
    payload: NotRequired[Any]
    priority: NotRequired[Any]
    run_after: NotRequired[Any]
    serialize_key: NotRequired[Any]


class FieldProblem(TypedDict):
    """
    Invalid place in a body, as a JSON Pointer, and what was expected there.
    """

    detail: str
    pointer: str


FieldType: TypeAlias = Literal['string', 'text', 'number', 'boolean', 'choice']


class FileCheck(TypedDict):
    """
    Result of the check of a file.
    """

    columns: list[str]
    failed: int
    is_cut: bool
    left_out: int
    listed: list[CheckedRow]
    rows: int


class FileForm(TypedDict):
    """
    Form with a file.
    """

    file: bytes


FindingKind: TypeAlias = Literal['missing', 'unknown', 'mismatch']


Choice: TypeAlias = str


class FormField(TypedDict):
    """
    Form field: a member of the event's data.
    """

    choices: NotRequired[list[Choice]]
    description: NotRequired[str | None]
    name: str
    required: NotRequired[bool]
    title: NotRequired[str | None]
    type: FieldType


GroupState: TypeAlias = Literal['open', 'muted', 'resolved', 'regressed']


class Health(TypedDict):
    """
    Response of a healthy server, with a single word.
    """

    status: str


class ImportProperty(TypedDict):
    """
    Payload property that a column can be mapped to.
    """

    name: str
    required: bool
    type: NotRequired[str | None]


Alias: TypeAlias = str


class ImportTemplate(TypedDict):
    """
    Content of a template file.
    """

    examples: NotRequired[list[dict[str, Any]]]


class ItemProgress(TypedDict):
    """
    Progress of a worker on one item.
    """

    done: NotRequired[int | None]
    message: NotRequired[str | None]
    total: NotRequired[int | None]


ItemState: TypeAlias = Literal['available', 'running', 'retryable', 'scheduled', 'blocked', 'waiting_for_event', 'succeeded', 'dead', 'cancelled', 'expired']


class ItemsAdded(TypedDict):
    """
    Response of `POST /jobs/{id}/items`.
    """

    accepted: int
    duplicates: int
    merged: NotRequired[int]
    sealed: bool


class JobEvent1(TypedDict):
    """
    One event: `snapshot` first (data: a Job with its children), then `change` (data: a Change); `busy`, `bye` and `removed` (data: an empty object) end the stream
    """

    data: str
    event: Literal['snapshot']
    id: NotRequired[str]
    retry: NotRequired[int]


class JobEvent2(TypedDict):
    """
    One event: `snapshot` first (data: a Job with its children), then `change` (data: a Change); `busy`, `bye` and `removed` (data: an empty object) end the stream
    """

    data: str
    event: Literal['change']
    id: NotRequired[str]
    retry: NotRequired[int]


class JobEvent3(TypedDict):
    """
    One event: `snapshot` first (data: a Job with its children), then `change` (data: a Change); `busy`, `bye` and `removed` (data: an empty object) end the stream
    """

    data: str
    event: Literal['busy', 'bye', 'removed']
    id: NotRequired[str]
    retry: NotRequired[int]


JobEvent: TypeAlias = JobEvent1 | JobEvent2 | JobEvent3


JobInputs: TypeAlias = list[Any] | str


JobStatus: TypeAlias = Literal['waiting', 'running', 'cancelling', 'completed']


Step: TypeAlias = str


class JobWatch(TypedDict):
    """
    The caller's watch of a tree.
    """

    watching: bool


JsonValue: TypeAlias = Any


LogLevel: TypeAlias = Literal['trace', 'debug', 'info', 'warn', 'error']


class LogLinesAdded(TypedDict):
    """
    Log of an attempt after lines were added.
    """

    added: int
    dropped: int
    last_line: int


MatchKind: TypeAlias = Literal['remembered', 'exact', 'alias', 'fuzzy']


MaxFailures: TypeAlias = int | Literal['unlimited']


AfterItem: TypeAlias = str


class NewPasskey(TypedDict):
    """
    Body of `POST /me/passkeys`.
    """

    credential: JsonValue
    name: str
    state: str


class NewPassword(TypedDict):
    """
    Body of `POST /me/password`.
    """

    current_password: NotRequired[str | None]
    new_password: str


class NewService(TypedDict):
    """
    Body of `POST /services`.
    """

    name: str


class NewUser(TypedDict):
    """
    Body of `POST /users`.
    """

    email: str
    must_change_password: NotRequired[bool | None]
    name: str
    password: NotRequired[str | None]
    proxy_user: NotRequired[str | None]
    reason: NotRequired[str | None]
    role: NotRequired[Literal['user', 'support', 'admin'] | None]


NoticeKind: TypeAlias = Literal['finished', 'needs_attention']


class NoticeSettings(TypedDict):
    """
    Settings for how a person receives notices.
    """

    browser: bool
    email: bool
    has_webhook_secret: bool
    in_page: bool
    webhook_url: NotRequired[str | None]


class OpenBecause(TypedDict):
    """
    Reason why a job is not complete.
    """

    detail: str
    reason: Literal['unsealed', 'items', 'after', 'cancelling']


Outcome: TypeAlias = Literal['succeeded', 'partial', 'failed', 'cancelled']


Overlap: TypeAlias = Literal['skip', 'queue', 'cancel_previous']


OwnerKind: TypeAlias = Literal['user', 'service']


class PasskeyAnswer(TypedDict):
    """
    Response of the browser in a passkey ceremony.
    """

    credential: JsonValue
    state: str


class PasskeyOptions(TypedDict):
    """
    Response to requests that start a passkey ceremony in the browser.
    """

    public_key: JsonValue
    state: str


class PasskeyPatch(TypedDict):
    """
    Body of `PATCH /me/passkeys/{id}`.
    """

    name: str


class PayloadEdit(TypedDict):
    """
    One edit of a payload.
    """

    op: EditOp
    path: str
    value: NotRequired[JsonValue]


class PreviewRow(TypedDict):
    """
    One record of a preview: cells of a table's row, or one JSON value.
    """

    cells: list[str]
    payload: NotRequired[JsonValue]
    problem: NotRequired[str | None]
    row: int


ProblemCode: TypeAlias = Literal['invalid_json', 'invalid_parameter', 'idempotency_key_required', 'cursor_mismatch', 'unauthenticated', 'mfa_required', 'forbidden', 'mfa_enrollment_required', 'password_change_required', 'step_up_required', 'not_found', 'method_not_allowed', 'duplicate', 'id_in_use', 'job_sealed', 'job_is_fed', 'job_cancelled', 'job_completed', 'job_not_complete', 'not_root', 'superseded', 'assignment_closed', 'already_started', 'step_behind', 'item_expired', 'item_final', 'item_not_final', 'not_waiting', 'other_event', 'not_retryable', 'not_resendable', 'profiling_off', 'operation_over', 'job_type_in_use', 'last_admin', 'last_sign_in_method', 'user_disabled', 'wrong_offset', 'upload_in_use', 'job_removed', 'link_used', 'precondition_failed', 'too_large', 'unsupported_media_type', 'range_not_satisfiable', 'misdirected', 'invalid_body', 'unknown_job_type', 'unknown_step', 'cycle', 'idempotency_key_reused', 'reason_required', 'url_not_allowed', 'no_rows', 'bad_header', 'mapping_incomplete', 'schema_too_complex', 'too_many_requests', 'quota_exceeded', 'internal', 'busy', 'database_unavailable', 'shutting_down', 'insufficient_storage']


PushHeaders: TypeAlias = dict[str, str]


class QueueStats(TypedDict):
    """
    Number of messages that wait in one queue.
    """

    messages: int
    type: str


class RateLimit(TypedDict):
    """
    Limit on the number of items that start in a period. Every attempt is a start.
    """

    burst: NotRequired[int | None]
    count: int
    key: NotRequired[str | None]
    per_seconds: int


class ReadNotices(TypedDict):
    """
    Body of `POST /me/notices/read`.
    """

    ids: NotRequired[list[str] | None]


class ReasonBody(TypedDict):
    """
    Reason of an action: `{"reason": "…"}`. Required for another owner's work.
    """

    reason: NotRequired[str | None]


class RecoveryCodes(TypedDict):
    """
    Response to requests that create recovery codes.
    """

    recovery_codes: list[str]


class RefusedItem(TypedDict):
    item_id: str
    reason: str


class ReleaseBody(TypedDict):
    """
    Body of `POST /assignments/{id}/release`.
    """

    retry_after_seconds: NotRequired[float | None]


class ResultBody(TypedDict):
    """
    Body of `POST /assignments/{id}/result`. Absent result: `{}`; null is refused.
    """

    result: NotRequired[JsonValue]


class ResultLine(TypedDict):
    """
    A line of `GET /jobs/{id}/results`.
    """

    item_id: str
    job_id: str
    payload: JsonValue
    result: JsonValue
    row: NotRequired[int | None]


class RootsEvent1(TypedDict):
    """
    One event: `snapshot` first (the newest trees; sent again after too many changes), then `change` (the trees that changed or were removed); `busy` and `bye` (data: an empty object) end the stream. With `topics`, each topic begins with its own `snapshot`
    """

    data: str
    event: Literal['snapshot']
    id: NotRequired[str]
    retry: NotRequired[int]


class RootsEvent2(TypedDict):
    """
    One event: `snapshot` first (the newest trees; sent again after too many changes), then `change` (the trees that changed or were removed); `busy` and `bye` (data: an empty object) end the stream. With `topics`, each topic begins with its own `snapshot`
    """

    data: str
    event: Literal['change']
    id: NotRequired[str]
    retry: NotRequired[int]


class RootsEvent3(TypedDict):
    """
    One event: `snapshot` first (the newest trees; sent again after too many changes), then `change` (the trees that changed or were removed); `busy` and `bye` (data: an empty object) end the stream. With `topics`, each topic begins with its own `snapshot`
    """

    data: str
    event: Literal['snapshot', 'change']
    id: NotRequired[str]
    retry: NotRequired[int]


class RootsEvent4(TypedDict):
    """
    One event: `snapshot` first (the newest trees; sent again after too many changes), then `change` (the trees that changed or were removed); `busy` and `bye` (data: an empty object) end the stream. With `topics`, each topic begins with its own `snapshot`
    """

    data: str
    event: Literal['forbidden', 'removed']
    id: NotRequired[str]
    retry: NotRequired[int]


class RootsEvent5(TypedDict):
    """
    One event: `snapshot` first (the newest trees; sent again after too many changes), then `change` (the trees that changed or were removed); `busy` and `bye` (data: an empty object) end the stream. With `topics`, each topic begins with its own `snapshot`
    """

    data: str
    event: Literal['busy', 'bye']
    id: NotRequired[str]
    retry: NotRequired[int]


RootsEvent: TypeAlias = RootsEvent1 | RootsEvent2 | RootsEvent3 | RootsEvent4 | RootsEvent5


class RowEdit(TypedDict):
    """
    Row with changed cells, or row to omit.
    """

    cells: NotRequired[dict[str, str]]
    leave_out: NotRequired[bool]
    row: int


RunState: TypeAlias = Literal['started', 'queued', 'skipped', 'failed']


class SavedViewPatch(TypedDict):
    """
    Body of `PATCH /views/{id}`: the given fields change; `null` clears `sort`.
    """

    is_default: NotRequired[bool | None]
    name: NotRequired[str | None]
    q: NotRequired[str | None]
    reason: NotRequired[str | None]
    shared: NotRequired[bool | None]
    sort: NotRequired[str | None]


class SearchHit(TypedDict):
    """
    Search result.
    """

    detail: NotRequired[str | None]
    id: str
    matched: str
    path: str
    title: str


SearchKind: TypeAlias = Literal['jobs', 'items', 'errors', 'uploads', 'workers', 'job_types', 'schedules', 'views', 'bulk_operations', 'people', 'services']


SeriesMetric: TypeAlias = Literal['added', 'succeeded', 'failed', 'dead', 'cancelled', 'expired', 'retried', 'wait', 'run']


SeriesStep: TypeAlias = Literal['minute', 'hour', 'day']


class ServicePatch(TypedDict):
    """
    Body of `PATCH /services/{id}`: the given fields change.
    """

    disabled: NotRequired[bool | None]
    reason: NotRequired[str | None]


class SignIn(TypedDict):
    """
    Body of `POST /session`: email and password, a one-time link, or a passkey; the second factor in the same request or
    in a second one.
    """

    code: NotRequired[str | None]
    email: NotRequired[str | None]
    link: NotRequired[str | None]
    passkey: NotRequired[PasskeyAnswer | None]
    password: NotRequired[str | None]
    recovery_code: NotRequired[str | None]
    state: NotRequired[str | None]


SigningSecret1: TypeAlias = str


SigningSecret2: TypeAlias = list[str]


SigningSecret: TypeAlias = SigningSecret1 | SigningSecret2


class StepBody(TypedDict):
    """
    Body of `POST /assignments/{id}/step`.
    """

    data: NotRequired[JsonValue]
    name: str


class StepCount(TypedDict):
    """
    Number of items whose last step is this one.
    """

    items: int
    more: bool
    name: str


class StepCounts(TypedDict):
    """
    Items of a job by the last step that they have reached, in the order of the job type.
    """

    steps: list[StepCount]


class StepUp(TypedDict):
    """
    Body of `POST /me/step-up`: exactly one of the fields. The password is accepted only without a second factor.
    """

    code: NotRequired[str | None]
    passkey: NotRequired[PasskeyAnswer | None]
    password: NotRequired[str | None]
    recovery_code: NotRequired[str | None]


TemplateFormat: TypeAlias = Literal['csv', 'xlsx']


class ThroughputRate(TypedDict):
    """
    Average number of items per second that were added and that ended in a period.
    """

    in_per_second: float
    out_per_second: float
    seconds: int


Timestamp: TypeAlias = str


class Token(TypedDict):
    """
    A token, without its secret.
    """

    created_at: Timestamp
    expires_at: NotRequired[Timestamp | None]
    id: str
    last_used_at: NotRequired[Timestamp | None]
    name: str
    revoked_at: NotRequired[Timestamp | None]
    scopes: list[Literal['jobs:read', 'jobs:write', 'work', 'metrics', 'admin']]
    service: str
    types: NotRequired[list[str] | None]


class TokenPage(TypedDict):
    """
    One page of a list.
    """

    data: list[Token]
    next_cursor: NotRequired[str | None]


class TotpConfirm(TypedDict):
    """
    Body of `POST /me/totp/confirm`.
    """

    code: str


class TotpPatch(TypedDict):
    """
    Body of `PATCH /me/totp`.
    """

    name: str


class TotpStarted(TypedDict):
    """
    Response of `POST /me/totp`: setup data for an authenticator app. Returned only once.
    """

    otpauth_url: str
    qr_svg: str
    secret: str


class Data2(TypedDict):
    completion: int
    counts: Counts
    job_id: str
    metadata: dict[str, Any]
    outcome: Outcome


class TreeCompleted(TypedDict):
    """
    A tree is complete.
    """

    data: Data2
    timestamp: Timestamp
    type: Literal['tree.completed']


class TreeSummary(TypedDict):
    """
    Summary of a job together with everything below it.
    """

    counts: Counts
    item_count: int
    item_progress: int
    outcome: NotRequired[Outcome | None]
    status: JobStatus


class TypeStats(TypedDict):
    """
    Statistics of one job type.
    """

    counts: Counts
    days: list[DayTotal]
    last_asked_at: NotRequired[Timestamp | None]
    oldest_waiting_seconds: NotRequired[float | None]
    open: int
    rates: list[ThroughputRate]
    type: str


UploadFormat: TypeAlias = Literal['csv', 'ndjson', 'json', 'lines', 'xlsx', 'none']


class User(TypedDict):
    """
    A person.
    """

    created_at: Timestamp
    disabled: bool
    email: NotRequired[str | None]
    has_password: bool
    id: str
    last_seen_at: NotRequired[Timestamp | None]
    name: str
    proxy_user: NotRequired[str | None]
    role: Literal['user', 'support', 'admin']


class UserPage(TypedDict):
    """
    One page of a list.
    """

    data: list[User]
    next_cursor: NotRequired[str | None]


class UserPatch(TypedDict):
    """
    Body of `PATCH /users/{id}`: the given fields change.
    """

    disabled: NotRequired[bool | None]
    email: NotRequired[str | None]
    proxy_user: NotRequired[str | None]
    reason: NotRequired[str | None]
    role: NotRequired[Literal['user', 'support', 'admin'] | None]


ValueKind: TypeAlias = Literal['text', 'number', 'integer', 'boolean', 'date']


ViewList: TypeAlias = Literal['jobs', 'items', 'failures']


class WaitingFor(TypedDict):
    """
    Reason why an item is not running.
    """

    detail: NotRequired[str | None]
    reason: Literal['retry', 'run_after', 'debounce', 'after', 'serialize_key', 'paused', 'concurrency', 'concurrency_key', 'rate_limit', 'not_claimed', 'event']
    until: NotRequired[Timestamp | None]


Weekday: TypeAlias = Literal['monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday', 'sunday']


class WorkError(TypedDict):
    """
    Error of an attempt.
    """

    detail: NotRequired[JsonValue]
    kind: NotRequired[str | None]
    message: str


class WorkerSummary(TypedDict):
    """
    Worker that claims items.
    """

    last_seen_at: Timestamp
    open: int
    owner: str
    types: list[str]
    worker_id: str


class WorkerSummaryPage(TypedDict):
    """
    One page of a list.
    """

    data: list[WorkerSummary]
    next_cursor: NotRequired[str | None]


class Actor(TypedDict):
    """
    Actor of an action, with their name at that time.
    """

    kind: ActorKind
    name: str


class Alert(TypedDict):
    """
    Alert, open while `cleared_at` is null. Each kind and subject has at most one open alert.
    """

    cleared_at: NotRequired[Timestamp | None]
    count: int
    id: str
    item_id: NotRequired[str | None]
    job_id: NotRequired[str | None]
    kind: AlertKind
    last_seen_at: Timestamp
    message: str
    raised_at: Timestamp
    root_id: NotRequired[str | None]
    subject: str
    type: NotRequired[str | None]


class AlertCleared(TypedDict):
    """
    An alert was cleared; `data.id` is the id of the alert that was raised.
    """

    data: Alert
    timestamp: Timestamp
    type: Literal['alert.cleared']


class AlertDelivery(TypedDict):
    """
    Message about an alert, in a delivery.
    """

    alert_id: NotRequired[str | None]
    channel: NotRequired[str | None]
    channel_id: str
    event: AlertEvent
    kind: NotRequired[ChannelKind | None]


class AlertPage(TypedDict):
    """
    One page of a list.
    """

    data: list[Alert]
    next_cursor: NotRequired[str | None]


class AlertRaised(TypedDict):
    """
    An alert was raised; `cleared_at` is null.
    """

    data: Alert
    timestamp: Timestamp
    type: Literal['alert.raised']


class AlertTest(TypedDict):
    """
    Test message of an alert channel.
    """

    data: Data
    timestamp: Timestamp
    type: Literal['alert.test']


class AssignmentEnded(TypedDict):
    """
    Response to the end of one assignment, with the current state of the item.
    """

    ended_as: AttemptOutcome
    item_id: str
    item_state: ItemState
    retry_at: NotRequired[Timestamp | None]


class AssignmentEnding(TypedDict):
    """
    End of one assignment: a failure if it has an `error`, else a result.
    """

    assignment_id: str
    cancel_tree: NotRequired[bool]
    error: NotRequired[WorkError | None]
    result: NotRequired[JsonValue]
    retry_after_seconds: NotRequired[float | None]
    retryable: NotRequired[bool]


class AssignmentEndingResult(TypedDict):
    assignment_id: str
    code: NotRequired[ProblemCode | None]
    errors: NotRequired[list[FieldProblem]]
    status: int


class AssignmentHeartbeat(TypedDict):
    assignment_id: str
    progress: NotRequired[ItemProgress | None]


class AssignmentHeartbeatResult(TypedDict):
    assignment_id: str
    cancel: NotRequired[bool | None]
    code: NotRequired[ProblemCode | None]
    errors: NotRequired[list[FieldProblem]]
    lease_expires_at: NotRequired[Timestamp | None]
    status: int


class BrokerStats(TypedDict):
    """
    State of the broker.
    """

    fault: NotRequired[str | None]
    outbox_waiting: int
    queues: list[QueueStats]
    since: Timestamp
    up: bool


class ColumnFinding(TypedDict):
    """
    Mismatch of one column.
    """

    column: NotRequired[str | None]
    kind: FindingKind
    message: str
    row: NotRequired[int | None]


class Connection(TypedDict):
    """
    Connection of the caller's account with an OpenID Connect provider.
    """

    created_at: Timestamp
    id: str
    label: str
    last_used_at: Timestamp
    provider: NotRequired[str | None]
    subject: str


class Connections(TypedDict):
    """
    Response of `GET /me/connections`.
    """

    data: list[Connection]


class CreatedShare(TypedDict):
    """
    Response of `POST /jobs/{id}/share`.
    """

    expires_at: Timestamp
    id: str
    url: str


class CreatedToken(TypedDict):
    """
    Response of `POST /tokens`.
    """

    secret: str
    token: Token


class CreatedUser(User):
    """
    Response of `POST /users`.
    """

    sign_in_link: NotRequired[str | None]


class CurrentCaller(TypedDict):
    """
    Caller, as `GET /me` returns it.
    """

    kind: OwnerKind
    must_change_password: NotRequired[bool]
    name: str
    role: NotRequired[Literal['user', 'support', 'admin'] | None]
    scopes: list[Literal['jobs:read', 'jobs:write', 'work', 'metrics', 'admin']]


class DeliveryTry(TypedDict):
    """
    One attempt of a delivery.
    """

    at: Timestamp
    error: NotRequired[str | None]
    status: NotRequired[int | None]


class ErrorGroup(TypedDict):
    """
    Dead items of one job type whose last errors are equal without their variable parts.
    """

    count: int
    fingerprint: str
    first_seen_at: Timestamp
    kind: NotRequired[str | None]
    last_seen_at: Timestamp
    message: str
    muted_failures: NotRequired[int | None]
    muted_until: NotRequired[Timestamp | None]
    sample_item_id: str
    state: GroupState
    type: str


class ErrorGroupPage(TypedDict):
    """
    One page of a list.
    """

    data: list[ErrorGroup]
    next_cursor: NotRequired[str | None]


class ErrorGroupPatch(TypedDict):
    """
    Change of the state of an error group.
    """

    failures: NotRequired[int | None]
    note: NotRequired[str | None]
    state: GroupState
    until: NotRequired[Timestamp | None]


class EventForm(TypedDict):
    """
    Form that a person fills in to end a wait. Without fields, the person only confirms.
    """

    description: NotRequired[str | None]
    fields: NotRequired[list[FormField]]
    title: NotRequired[str | None]


class EventRequest(TypedDict):
    """
    Body of `POST /items/{id}/events`: the event that the item waits for.
    """

    data: NotRequired[JsonValue]
    name: str
    reason: NotRequired[str | None]


class EventWait(TypedDict):
    """
    Event that an item waits for.
    """

    form: NotRequired[EventForm | None]
    name: str
    since: Timestamp
    until: NotRequired[Timestamp | None]


class Executor(TypedDict):
    """
    Executor of a type. Its other fields depend on `kind`.
    """

    auth: NotRequired[BasicAuth | None]
    headers: NotRequired[PushHeaders | None]
    kind: ExecutorKind
    name: NotRequired[BuiltinExecutor | None]
    secret: NotRequired[SigningSecret | Secret]
    timeout_seconds: NotRequired[float | None]
    url: NotRequired[str | None]


class FailureBody(TypedDict):
    """
    Body of `POST /assignments/{id}/failure`.
    """

    cancel_tree: NotRequired[bool]
    error: WorkError
    retry_after_seconds: NotRequired[float | None]
    retryable: NotRequired[bool]


class FinishRequest(TypedDict):
    """
    Body of `POST /assignments/finish`: ends of assignments, and the next claim.
    """

    claim: NotRequired[ClaimRequest | None]
    endings: NotRequired[list[AssignmentEnding]]


class GroupChange(TypedDict):
    """
    An entry in the history of an error group.
    """

    at: Timestamp
    by: NotRequired[str | None]
    failures: NotRequired[int | None]
    note: NotRequired[str | None]
    state: GroupState
    until: NotRequired[Timestamp | None]


class HeartbeatRequest(TypedDict):
    """
    Body of `POST /assignments/{id}/heartbeat`.
    """

    progress: NotRequired[ItemProgress | None]


class HeartbeatResponse(TypedDict):
    """
    Response to a heartbeat.
    """

    cancel: bool
    lease_expires_at: Timestamp


class HeartbeatsRequest(TypedDict):
    """
    Body of `POST /assignments/heartbeat`.
    """

    heartbeats: list[AssignmentHeartbeat]


class HeartbeatsResponse(TypedDict):
    """
    Response of `POST /assignments/heartbeat`, in request order.
    """

    heartbeats: list[AssignmentHeartbeatResult]


class ImportSettings(TypedDict):
    """
    Import settings of a job type.
    """

    aliases: NotRequired[dict[str, list[Alias]]]
    enabled: NotRequired[bool]
    roles: NotRequired[list[Literal['user', 'support', 'admin']] | None]
    template: NotRequired[ImportTemplate | None]


class ItemDebounce(TypedDict):
    """
    Debounce of an item and its state.
    """

    first_at: Timestamp
    key: str
    last_at: Timestamp
    max_seconds: int
    merged: int
    seconds: int
    starts_by: Timestamp


class ItemError(TypedDict):
    """
    Error of the last attempt.
    """

    at: Timestamp
    detail: NotRequired[JsonValue]
    kind: NotRequired[str | None]
    message: str


class ItemPatch(TypedDict):
    """
    Body of `PATCH /items/{id}` for a waiting item: the given fields change; `null` restores the value of the job.
    """

    expires_at: NotRequired[Timestamp | None]
    priority: NotRequired[int | None]
    reason: NotRequired[str | None]
    run_after: NotRequired[Timestamp | None]


class ItemStep(TypedDict):
    """
    Last recovery point that an item has reached (`steps`).
    """

    data: JsonValue
    name: str


JobType = TypedDict(
    'JobType',
    {
        'backoff': Backoff,
        'concurrency': NotRequired[int | None],
        'concurrency_by': NotRequired[ConcurrencyBy | None],
        'created_at': Timestamp,
        'delivery': DeliveryStrategy,
        'executor': Executor,
        'fair_by': NotRequired[str | None],
        'heartbeat_seconds': float,
        'import': NotRequired[ImportSettings | None],
        'max_failures': MaxFailures,
        'name': str,
        'paused': bool,
        'payload_schema': NotRequired[JsonValue],
        'rate_limit': NotRequired[RateLimit | None],
        'require_idempotency_key': bool,
        'retain_seconds': NotRequired[int | None],
        'run_timeout_seconds': NotRequired[float | None],
        'steps': list[str],
        'updated_at': Timestamp,
        'version': int,
    },
)


class JobTypePage(TypedDict):
    """
    One page of a list.
    """

    data: list[JobType]
    next_cursor: NotRequired[str | None]


JobTypePatch = TypedDict(
    'JobTypePatch',
    {
        'backoff': NotRequired[Backoff],
        'concurrency': NotRequired[int | None],
        'concurrency_by': NotRequired[ConcurrencyBy | None],
        'delivery': NotRequired[DeliveryStrategy],
        'executor': NotRequired[Executor],
        'fair_by': NotRequired[str | None],
        'heartbeat_seconds': NotRequired[float],
        'import': NotRequired[ImportSettings | None],
        'max_failures': NotRequired[MaxFailures | None],
        'name': NotRequired[str],
        'paused': NotRequired[bool],
        'payload_schema': NotRequired[dict[str, Any] | bool | None],
        'rate_limit': NotRequired[RateLimit | None],
        'require_idempotency_key': NotRequired[bool],
        'retain_seconds': NotRequired[int | None],
        'run_timeout_seconds': NotRequired[float | None],
        'steps': NotRequired[list[Step]],
    },
)


JobTypeSpec = TypedDict(
    'JobTypeSpec',
    {
        'backoff': NotRequired[Backoff],
        'concurrency': NotRequired[int | None],
        'concurrency_by': NotRequired[ConcurrencyBy | None],
        'delivery': NotRequired[DeliveryStrategy],
        'executor': NotRequired[Executor],
        'fair_by': NotRequired[str | None],
        'heartbeat_seconds': NotRequired[float],
        'import': NotRequired[ImportSettings | None],
        'max_failures': NotRequired[MaxFailures | None],
        'name': str,
        'paused': NotRequired[bool],
        'payload_schema': NotRequired[dict[str, Any] | bool | None],
        'rate_limit': NotRequired[RateLimit | None],
        'require_idempotency_key': NotRequired[bool],
        'retain_seconds': NotRequired[int | None],
        'run_timeout_seconds': NotRequired[float | None],
        'steps': NotRequired[list[Step]],
    },
)


class JobUpload(TypedDict):
    """
    File that a job is created from.
    """

    delimiter: NotRequired[str | None]
    encoding: NotRequired[str | None]
    format: NotRequired[UploadFormat | None]
    header: NotRequired[bool | None]
    header_row: NotRequired[int | None]
    id: str
    sheet: NotRequired[str | None]


class LeaseHolder(TypedDict):
    """
    Worker that holds the item. The assignment's id is never returned, because it is a capability.
    """

    last_heartbeat_at: Timestamp
    lease_expires_at: Timestamp
    since: Timestamp
    worker_id: str


class LogLine(TypedDict):
    """
    A line of `GET /items/{id}/logs`.
    """

    at: Timestamp
    attempt: int
    fields: NotRequired[JsonValue]
    level: LogLevel
    line: int
    message: str


class LogLinePage(TypedDict):
    """
    One page of a list.
    """

    data: list[LogLine]
    next_cursor: NotRequired[str | None]


MappedColumn = TypedDict(
    'MappedColumn',
    {
        'as': NotRequired[ValueKind],
        'format': NotRequired[str | None],
        'from': str,
        'to': str,
    },
)


class Mapping(TypedDict):
    """
    Columns of a table with a header and the properties that they become. Other columns are dropped.
    """

    columns: list[MappedColumn]


class NewBulk(TypedDict):
    """
    Body of `POST /bulk-operations`.
    """

    action: BulkAction
    dry_run: NotRequired[bool]
    filter: dict[str, Any]
    payload_edit: NotRequired[list[PayloadEdit]]
    rate_per_second: NotRequired[float | None]
    reason: NotRequired[str | None]
    target: BulkTarget


class NewItem(TypedDict):
    """
    Item to add. An absent payload is `null`.
    """

    debounce: NotRequired[Debounce | None]
    dedupe_key: NotRequired[str | None]
    expires_at: NotRequired[Timestamp | None]
    metadata: NotRequired[dict[str, Any] | None]
    payload: NotRequired[JsonValue]
    priority: NotRequired[int | None]
    run_after: NotRequired[Timestamp | None]
    serialize_key: NotRequired[str | None]


class NewLogLine(TypedDict):
    """
    A line that a worker logs.
    """

    at: NotRequired[Timestamp | None]
    fields: NotRequired[JsonValue]
    level: NotRequired[LogLevel]
    message: str


class NewSavedView(TypedDict):
    """
    Body of `POST /views`.
    """

    is_default: NotRequired[bool]
    list: ViewList
    name: str
    q: NotRequired[str]
    shared: NotRequired[bool]
    sort: NotRequired[str | None]


class NewToken(TypedDict):
    """
    Body of `POST /tokens`.
    """

    expires_at: NotRequired[Timestamp | None]
    name: str
    scopes: list[Literal['jobs:read', 'jobs:write', 'work', 'metrics', 'admin']]
    service: str
    types: NotRequired[list[Type] | None]


class Notice(TypedDict):
    """
    A notice to one person. It contains no payloads.
    """

    created_at: Timestamp
    dead: int
    id: str
    is_import: bool
    job_id: str
    job_name: str
    kind: NoticeKind
    outcome: NotRequired[Outcome | None]
    read_at: NotRequired[Timestamp | None]


class NoticeDelivery(TypedDict):
    """
    Message about a notice, in a delivery.
    """

    job_id: NotRequired[str | None]
    kind: NotRequired[NoticeKind | None]
    notice_id: str


class NoticeFinished(TypedDict):
    """
    A watched tree is complete.
    """

    data: Notice
    timestamp: Timestamp
    type: Literal['notice.finished']


class NoticeNeedsAttention(TypedDict):
    """
    A watched tree needs attention.
    """

    data: Notice
    timestamp: Timestamp
    type: Literal['notice.needs_attention']


class NoticePage(TypedDict):
    """
    One page of a list.
    """

    data: list[Notice]
    next_cursor: NotRequired[str | None]


class NoticeSettingsPatch(TypedDict):
    """
    Body of `PATCH /me/notice-settings`: the given fields change; `null` removes the URL or its secret.
    """

    browser: NotRequired[bool | None]
    email: NotRequired[bool | None]
    in_page: NotRequired[bool | None]
    webhook_secret: NotRequired[SigningSecret | None]
    webhook_url: NotRequired[str | None]


class OnCompleted(TypedDict):
    """
    Receiver of the callback of a complete tree.
    """

    secret: NotRequired[SigningSecret | Secret]
    url: str


class Owner(TypedDict):
    """
    Owner of a job.
    """

    kind: OwnerKind
    name: str


class Passkey(TypedDict):
    """
    A passkey.
    """

    created_at: Timestamp
    id: str
    last_used_at: NotRequired[Timestamp | None]
    name: str


class PasskeyMade(Passkey):
    """
    Response of `POST /me/passkeys`.
    """

    recovery_codes: list[str]


class Problem(TypedDict):
    """
    A problem document.
    """

    accepted: NotRequired[int | None]
    code: ProblemCode
    detail: str
    ended_as: NotRequired[AttemptOutcome | None]
    errors: NotRequired[list[FieldProblem]]
    id: NotRequired[str | None]
    item_state: NotRequired[ItemState | None]
    line: NotRequired[int | None]
    methods: NotRequired[list[str]]
    request_id: NotRequired[str | None]
    retry_after_seconds: NotRequired[int | None]
    state: NotRequired[str | None]
    status: int
    title: str
    type: str


QuietHours = TypedDict(
    'QuietHours',
    {
        'days': NotRequired[list[Weekday]],
        'from': str,
        'time_zone': str,
        'to': str,
    },
)


class ReceivedEvent(TypedDict):
    """
    Event or timeout that ended the wait of an item.
    """

    at: Timestamp
    by: NotRequired[Actor | None]
    data: JsonValue
    name: str
    timed_out: bool


class ReplayBody(TypedDict):
    """
    Body of `POST /items/{id}/replay` (`replay`).
    """

    expires_at: NotRequired[Timestamp | None]
    payload: NotRequired[JsonValue]
    reason: NotRequired[str | None]


class ResumableUpload(TypedDict):
    """
    File that is uploaded in pieces (tus 1.0). After its last byte it is an [`Upload`] with the same id.
    """

    bytes: int
    created_at: Timestamp
    filename: str
    id: str
    received: int


class RetryBody(TypedDict):
    """
    Body of `POST /items/{id}/retry` (`manual-retry`).
    """

    expires_at: NotRequired[Timestamp | None]
    payload: NotRequired[JsonValue]
    reason: NotRequired[str | None]
    restart: NotRequired[bool]


class SavedView(TypedDict):
    """
    A saved view.
    """

    created_at: Timestamp
    id: str
    is_default: bool
    list: ViewList
    name: str
    owner: Owner
    q: str
    shared: bool
    sort: NotRequired[str | None]
    updated_at: Timestamp


class SavedViewPage(TypedDict):
    """
    One page of a list.
    """

    data: list[SavedView]
    next_cursor: NotRequired[str | None]


class ScheduleRun(TypedDict):
    """
    Result of one tick.
    """

    at: Timestamp
    by_hand: bool
    job_id: NotRequired[str | None]
    problem: NotRequired[Problem | None]
    reason: NotRequired[str | None]
    seq: int
    state: RunState
    tick: Timestamp


class ScheduleRunPage(TypedDict):
    """
    One page of a list.
    """

    data: list[ScheduleRun]
    next_cursor: NotRequired[str | None]


class SearchGroup(TypedDict):
    """
    Search results of one kind, at most ten.
    """

    hits: list[SearchHit]
    kind: SearchKind


class SearchResults(TypedDict):
    """
    Response of `GET /search`.
    """

    groups: list[SearchGroup]
    q: str


class SeriesPoint(TypedDict):
    """
    One point of a series.
    """

    at: Timestamp
    buckets: NotRequired[list[int]]
    p50: NotRequired[float | None]
    p95: NotRequired[float | None]
    value: int


class Service(TypedDict):
    """
    Program that creates jobs or works on items.
    """

    created_at: Timestamp
    disabled: NotRequired[bool]
    id: str
    name: str


class ServicePage(TypedDict):
    """
    One page of a list.
    """

    data: list[Service]
    next_cursor: NotRequired[str | None]


class Share(TypedDict):
    """
    Share link of a tree, without its secret.
    """

    created_at: Timestamp
    created_by: Owner
    expires_at: Timestamp
    id: str
    job_id: str
    last_seen_at: NotRequired[Timestamp | None]
    open: bool
    revoked_at: NotRequired[Timestamp | None]


class ShareBody(TypedDict):
    """
    Body of `POST /jobs/{id}/share`.
    """

    expires_at: NotRequired[Timestamp | None]
    reason: NotRequired[str | None]


class SharePage(TypedDict):
    """
    One page of a list.
    """

    data: list[Share]
    next_cursor: NotRequired[str | None]


class SignInLink(TypedDict):
    """
    Response of `POST /users/{id}/sign-in-link`.
    """

    expires_at: Timestamp
    url: str


class SignInSession(TypedDict):
    """
    Signed-in browser or program.
    """

    created_at: Timestamp
    current: bool
    device: str
    expires_at: Timestamp
    id: str
    last_seen_at: Timestamp


class SignInSessionPage(TypedDict):
    """
    One page of a list.
    """

    data: list[SignInSession]
    next_cursor: NotRequired[str | None]


class Statistics(TypedDict):
    """
    Response of `GET /stats`.
    """

    age_seconds: NotRequired[float | None]
    broker: NotRequired[BrokerStats | None]
    counted_at: NotRequired[Timestamp | None]
    data: list[TypeStats]


SuggestedColumn = TypedDict(
    'SuggestedColumn',
    {
        'as': ValueKind,
        'confidence': float,
        'format': NotRequired[str | None],
        'from': str,
        'matched': NotRequired[MatchKind | None],
        'to': NotRequired[str | None],
    },
)


class Upload(TypedDict):
    """
    A stored file.
    """

    bytes: int
    created_at: Timestamp
    filename: str
    format: UploadFormat
    id: str
    sha256: str


class WaitBody(TypedDict):
    """
    Body of `POST /assignments/{id}/wait`: ends the attempt until an event of this name arrives.
    """

    form: NotRequired[EventForm | None]
    name: str
    timeout_seconds: NotRequired[float | None]


class AffectedJob(TypedDict):
    """
    Dead items of an error group in one job.
    """

    count: int
    job_id: str
    last_seen_at: Timestamp
    name: NotRequired[str | None]
    owner: Owner
    root_id: str


class AffectedOwner(TypedDict):
    """
    Dead items of an error group of one owner.
    """

    count: int
    last_seen_at: Timestamp
    owner: Owner


class AlertChannel(TypedDict):
    """
    Alert channel. Secrets are never returned.
    """

    after_seconds: int
    created_at: Timestamp
    id: str
    kind: ChannelKind
    kinds: list[AlertKind]
    min_count: int
    name: str
    paused: bool
    quiet_hours: NotRequired[QuietHours | None]
    send_cleared: bool
    to: list[str]
    types: list[str]
    updated_at: Timestamp
    url: NotRequired[str | None]


class AlertChannelPage(TypedDict):
    """
    One page of a list.
    """

    data: list[AlertChannel]
    next_cursor: NotRequired[str | None]


class AlertChannelPatch(TypedDict):
    """
    Body of `PATCH /alert-channels/{id}`: the given fields change; `null` removes `secret` and `quiet_hours`.
    """

    after_seconds: NotRequired[int | None]
    kinds: NotRequired[list[AlertKind] | None]
    min_count: NotRequired[int | None]
    name: NotRequired[str | None]
    paused: NotRequired[bool | None]
    quiet_hours: NotRequired[QuietHours | None]
    routing_key: NotRequired[str | None]
    secret: NotRequired[SigningSecret | Secret]
    send_cleared: NotRequired[bool | None]
    to: NotRequired[list[ToItem] | None]
    types: NotRequired[list[Type] | None]
    url: NotRequired[str | None]


class AssignedItem(TypedDict):
    """
    Item as a worker receives it.
    """

    attempts: int
    created_at: Timestamp
    dedupe_key: NotRequired[str | None]
    delivery: NotRequired[DeliveryStrategy]
    event: NotRequired[ReceivedEvent | None]
    expires_at: NotRequired[Timestamp | None]
    failures: int
    id: str
    job_id: str
    max_failures: MaxFailures
    metadata: dict[str, Any]
    payload: JsonValue
    priority: int
    root_id: str
    row: NotRequired[int | None]
    seq: int
    serialize_key: NotRequired[str | None]
    step: NotRequired[ItemStep | None]
    traceparent: NotRequired[str | None]
    type: str


class Assignment(TypedDict):
    """
    Item assigned to a worker.
    """

    attempt: int
    heartbeat_seconds: float
    id: str
    inputs: NotRequired[dict[str, JobInputs]]
    item: AssignedItem
    lease_expires_at: Timestamp


class Attempt(TypedDict):
    """
    One attempt, as `GET /items/{id}/attempts` lists it.
    """

    attempt: int
    ended_as: NotRequired[AttemptOutcome | None]
    ended_at: NotRequired[Timestamp | None]
    error: NotRequired[ItemError | None]
    result: NotRequired[JsonValue]
    started_at: NotRequired[Timestamp | None]
    step: NotRequired[ItemStep | None]
    waited_for: NotRequired[str | None]
    worker_id: NotRequired[str | None]


class AttemptPage(TypedDict):
    """
    One page of a list.
    """

    data: list[Attempt]
    next_cursor: NotRequired[str | None]


class AuditEntry(TypedDict):
    """
    Entry of `GET /audit`. The objects that it names may have been deleted.
    """

    action: str
    actor: Actor
    address: NotRequired[str | None]
    at: Timestamp
    credential_id: NotRequired[str | None]
    detail: NotRequired[str | None]
    id: str
    item_id: NotRequired[str | None]
    job_id: NotRequired[str | None]
    operation_id: NotRequired[str | None]
    owner: NotRequired[Owner | None]
    reason: NotRequired[str | None]
    root_id: NotRequired[str | None]


class AuditEntryPage(TypedDict):
    """
    One page of a list.
    """

    data: list[AuditEntry]
    next_cursor: NotRequired[str | None]


class BulkOperation(TypedDict):
    """
    A bulk operation.
    """

    action: BulkAction
    created_at: Timestamp
    dry_run: bool
    errored: int
    filter: dict[str, Any]
    finished_at: NotRequired[Timestamp | None]
    id: str
    owner: Owner
    payload_edit: list[PayloadEdit]
    processed: int
    rate_per_second: NotRequired[float | None]
    reason: NotRequired[str | None]
    sample: list[BulkSample]
    skipped: list[BulkSkipped]
    state: BulkState
    stopped_reason: NotRequired[str | None]
    target: BulkTarget
    total: int
    updated_at: Timestamp


class BulkOperationPage(TypedDict):
    """
    One page of a list.
    """

    data: list[BulkOperation]
    next_cursor: NotRequired[str | None]


class CallbackDelivery(TypedDict):
    """
    Delivery of a message: one for each completion of a tree with `on_completed`, one for each event of an alert and
    receiver of an alert channel, and one for each notice and receiver. The first kind outlives its tree by 30 days, the
    others are kept for 30 days.
    """

    alert: NotRequired[AlertDelivery | None]
    completion: NotRequired[int | None]
    created_at: Timestamp
    id: str
    job_id: NotRequired[str | None]
    job_name: NotRequired[str | None]
    next_try_at: NotRequired[Timestamp | None]
    notice: NotRequired[NoticeDelivery | None]
    outcome: NotRequired[Outcome | None]
    state: DeliveryState
    tries: list[DeliveryTry]
    url: NotRequired[str | None]


class CallbackDeliveryPage(TypedDict):
    """
    One page of a list.
    """

    data: list[CallbackDelivery]
    next_cursor: NotRequired[str | None]


class ClaimResponse(TypedDict):
    """
    Response to a claim; may be empty.
    """

    assignments: list[Assignment]
    refused: NotRequired[list[RefusedItem]]


class ColumnCheck(TypedDict):
    """
    Comparison of the columns and first rows of a file with the schema of a job type.
    """

    expected: list[str]
    findings: list[ColumnFinding]
    rows: int
    type: str


class ErrorGroupDetail(TypedDict):
    """
    An error group of all owners, as `GET /dead-letters/groups/{type}/{fingerprint}` returns it.
    """

    group: ErrorGroup
    history: list[GroupChange]
    hours: list[int]
    hours_from: Timestamp
    jobs: list[AffectedJob]
    minutes: list[int]
    minutes_from: Timestamp
    owner_count: int
    owners: list[AffectedOwner]


class Factors(TypedDict):
    """
    Response of `GET /me/factors`.
    """

    passkeys: list[Passkey]
    recovery_codes_left: int
    required: bool
    totp_name: NotRequired[str | None]
    totp_since: NotRequired[Timestamp | None]


class FailureLine(TypedDict):
    """
    A line of `GET /jobs/{id}/failures` as NDJSON.
    """

    attempts: int
    error: NotRequired[ItemError | None]
    item_id: str
    job_id: str
    payload: JsonValue
    row: NotRequired[int | None]
    state: ItemState


class FileCheckBody(TypedDict):
    """
    Job type and options for reading the file; the fields have the same names as in `POST /jobs`.
    """

    delimiter: NotRequired[str | None]
    edits: NotRequired[list[RowEdit]]
    encoding: NotRequired[str | None]
    format: NotRequired[UploadFormat | None]
    header: NotRequired[bool | None]
    header_row: NotRequired[int | None]
    mapping: NotRequired[Mapping | None]
    sheet: NotRequired[str | None]
    type: str


class FinishResponse(TypedDict):
    """
    Response of `POST /assignments/finish`, in request order; a refused ending does not affect the others.
    """

    assignments: list[Assignment]
    endings: list[AssignmentEndingResult]


class Item(TypedDict):
    """
    Unit of work, with its state and result.
    """

    assignment: NotRequired[LeaseHolder | None]
    attempts: int
    cancel_requested_at: NotRequired[Timestamp | None]
    created_at: Timestamp
    debounce: NotRequired[ItemDebounce | None]
    dedupe_key: NotRequired[str | None]
    event: NotRequired[ReceivedEvent | None]
    expires_at: NotRequired[Timestamp | None]
    failures: int
    fed_by: NotRequired[str | None]
    finished_at: NotRequired[Timestamp | None]
    id: str
    job_id: str
    last_error: NotRequired[ItemError | None]
    max_failures: MaxFailures
    metadata: dict[str, Any]
    original_payload: NotRequired[JsonValue]
    payload: NotRequired[JsonValue]
    priority: int
    progress: NotRequired[ItemProgress | None]
    result: NotRequired[JsonValue]
    retry_at: NotRequired[Timestamp | None]
    root_id: str
    row: NotRequired[int | None]
    run_after: NotRequired[Timestamp | None]
    seq: int
    serialize_key: NotRequired[str | None]
    state: ItemState
    step: NotRequired[ItemStep | None]
    superseded_by: NotRequired[str | None]
    type: str
    updated_at: Timestamp
    version: int
    wait: NotRequired[EventWait | None]
    waiting_for: NotRequired[WaitingFor | None]


class ItemPage(TypedDict):
    """
    One page of a list.
    """

    data: list[Item]
    next_cursor: NotRequired[str | None]


class Job(TypedDict):
    """
    A job. `status`, `outcome` and `counts` are those of the job itself; `tree` is the job with everything below it,
    which `percent`, `message`, `started_at` and `completed_at` also describe.
    """

    after: list[str]
    children: NotRequired[list["Job"] | None]
    completed_at: NotRequired[Timestamp | None]
    completion: int
    counts: Counts
    created_at: Timestamp
    dedupe_key: NotRequired[str | None]
    expected_count: NotRequired[int | None]
    expires_at: NotRequired[Timestamp | None]
    feed: NotRequired[FeedRule | None]
    final_stage: bool
    id: str
    idempotency_key: NotRequired[str | None]
    initiated_by: NotRequired[str | None]
    item_count: int
    item_progress: int
    key: str
    max_failures: MaxFailures
    merged: NotRequired[int | None]
    message: str
    metadata: dict[str, Any]
    name: NotRequired[str | None]
    open_because: NotRequired[OpenBecause | None]
    outcome: NotRequired[Outcome | None]
    owner: Owner
    parent_id: NotRequired[str | None]
    percent: NotRequired[int | None]
    pinned: bool
    priority: int
    replay_of: NotRequired[str | None]
    root_id: str
    run_after: NotRequired[Timestamp | None]
    sealed: bool
    started_at: NotRequired[Timestamp | None]
    status: JobStatus
    superseded_by: NotRequired[str | None]
    tree: TreeSummary
    type: str
    updated_at: Timestamp
    upload_id: NotRequired[str | None]
    version: int


class JobChange(TypedDict):
    """
    Changed jobs, without children, and the items that workers currently hold.
    """

    items: list[Item]
    jobs: list[Job]


class JobPage(TypedDict):
    """
    One page of a list.
    """

    data: list[Job]
    next_cursor: NotRequired[str | None]


class JobPatch(TypedDict):
    """
    Body of `PATCH /jobs/{id}`: the given fields change; `null` clears a value.
    """

    expected_count: NotRequired[int | None]
    expires_at: NotRequired[Timestamp | None]
    max_failures: NotRequired[MaxFailures | None]
    metadata: NotRequired[dict[str, Any] | None]
    name: NotRequired[str | None]
    on_completed: NotRequired[OnCompleted | None]
    priority: NotRequired[int | None]
    reason: NotRequired[str | None]
    run_after: NotRequired[Timestamp | None]


class LogLinesRequest(TypedDict):
    """
    Body of `POST /assignments/{id}/logs`.
    """

    lines: list[NewLogLine]


class MappingSuggestion(TypedDict):
    """
    Suggested column mapping of a file: `GET /uploads/{id}/mapping`.
    """

    columns: list[SuggestedColumn]
    missing: list[str]
    properties: list[ImportProperty]


class NewAlertChannel(TypedDict):
    """
    Body of `POST /alert-channels`.
    """

    after_seconds: NotRequired[int | None]
    kind: ChannelKind
    kinds: NotRequired[list[AlertKind]]
    min_count: NotRequired[int | None]
    name: str
    paused: NotRequired[bool]
    quiet_hours: NotRequired[QuietHours | None]
    routing_key: NotRequired[str | None]
    secret: NotRequired[SigningSecret | Secret]
    send_cleared: NotRequired[bool | None]
    to: NotRequired[list[ToItem]]
    types: NotRequired[list[Type]]
    url: NotRequired[str | None]


class NewJob(TypedDict):
    """
    Body of `POST /jobs`: a tree. Only `type` is required; `key` defaults to the type (then `type-2` …).
    """

    after: NotRequired[list[AfterItem]]
    after_outcome: NotRequired[Literal['succeeded', 'any'] | None]
    children: NotRequired[list["NewJob"]]
    dedupe_key: NotRequired[str | None]
    edits: NotRequired[list[RowEdit]]
    expected_count: NotRequired[int | None]
    expires_at: NotRequired[Timestamp | None]
    feed: NotRequired[FeedRule | None]
    final_stage: NotRequired[bool]
    id: NotRequired[str | None]
    initiated_by: NotRequired[str | None]
    items: NotRequired[list[NewItem]]
    key: NotRequired[str | None]
    mapping: NotRequired[Mapping | None]
    max_failures: NotRequired[MaxFailures | None]
    metadata: NotRequired[dict[str, Any] | None]
    name: NotRequired[str | None]
    on_completed: NotRequired[OnCompleted | None]
    priority: NotRequired[int | None]
    run_after: NotRequired[Timestamp | None]
    sealed: NotRequired[bool]
    type: str
    upload: NotRequired[JobUpload | None]


class NewSchedule(TypedDict):
    """
    Body of `POST /schedules`.
    """

    catch_up: NotRequired[CatchUp | None]
    catch_up_window_seconds: NotRequired[int | None]
    cron: str
    ends_at: NotRequired[Timestamp | None]
    job: NewJob
    name: str
    overlap: NotRequired[Overlap | None]
    paused: NotRequired[bool]
    starts_at: NotRequired[Timestamp | None]
    time_zone: NotRequired[str | None]


class PushedItem(TypedDict):
    """
    An item for the worker behind the URL of a job type with a push executor.
    """

    assignment_id: str
    attempt: int
    event: NotRequired[ReceivedEvent]
    inputs: NotRequired[dict[str, JobInputs]]
    item_id: str
    job_id: str
    payload: JsonValue
    step: ItemStep | None
    type: str


class RootsChange(TypedDict):
    """
    List of trees. A page of `GET /jobs` is also a valid list: its jobs, and nothing removed.
    """

    jobs: list[Job]
    removed: list[str]


class Schedule(TypedDict):
    """
    Schedule that creates a tree at each tick of a cron expression.
    """

    catch_up: CatchUp
    catch_up_window_seconds: int
    created_at: Timestamp
    cron: str
    ends_at: NotRequired[Timestamp | None]
    id: str
    job: NewJob
    last_run: NotRequired[ScheduleRun | None]
    name: str
    next_runs: list[Timestamp]
    overlap: Overlap
    owner: Owner
    paused: bool
    starts_at: NotRequired[Timestamp | None]
    time_zone: str
    updated_at: Timestamp


class SchedulePage(TypedDict):
    """
    One page of a list.
    """

    data: list[Schedule]
    next_cursor: NotRequired[str | None]


class SchedulePatch(TypedDict):
    """
    Body of `PATCH /schedules/{id}`: the given fields change; `null` clears a value.
    """

    catch_up: NotRequired[CatchUp | None]
    catch_up_window_seconds: NotRequired[int | None]
    cron: NotRequired[str | None]
    ends_at: NotRequired[Timestamp | None]
    job: NotRequired[NewJob | None]
    name: NotRequired[str | None]
    overlap: NotRequired[Overlap | None]
    paused: NotRequired[bool | None]
    reason: NotRequired[str | None]
    starts_at: NotRequired[Timestamp | None]
    time_zone: NotRequired[str | None]


Series = TypedDict(
    'Series',
    {
        'bounds': list[float],
        'data': list[SeriesPoint],
        'from': Timestamp,
        'metric': SeriesMetric,
        'step': SeriesStep,
        'to': Timestamp,
        'type': NotRequired[str | None],
    },
)


class UploadPreview(TypedDict):
    """
    Response of `GET /uploads/{id}/preview`: the first records of a file.
    """

    check: NotRequired[ColumnCheck | None]
    columns: list[str]
    delimiter: NotRequired[str | None]
    encoding: str
    format: UploadFormat
    problem: NotRequired[str | None]
    rows: list[PreviewRow]
    sheets: NotRequired[list[str]]
    suggested_header_row: NotRequired[int | None]


class Data1(TypedDict):
    entries: list[AuditEntry]


class AuditEntries(TypedDict):
    """
    Entries of the audit log, in order.
    """

    data: Data1
    timestamp: Timestamp
    type: Literal['audit.entries']
