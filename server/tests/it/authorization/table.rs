//! Authorization table: every operation of the API, and the result for each kind of caller.
//!
//! This is the single source; docs/authorization.md is generated from it, and the test checks every cell against a real
//! server. A new operation needs one line here: [`line`] with the operation as in the OpenAPI document, a call, its
//! body, and one of the rules below (with [`Line::but`] for an exceptional caller).

use serde_json::{Value, json};

use super::callers::CallerKind;

/// Result for a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Allowed.
    Yes,
    /// A list that contains only the caller's own objects.
    OwnOnly,
    /// Refused with this status.
    No(u16),
}
use Access::{No, OwnOnly, Yes};

/// Results for all kinds of callers, in the order of [`Who::ALL`].
pub(super) type Rule = [Access; CallerKind::ALL.len()];

const fn rule(nobody: Access, share: Access, people: [Access; 4], tokens: [Access; 4], others: [Access; 3]) -> Rule {
    let ([user, other, support, admin], [read, write, work, metrics]) = (people, tokens);
    let [admin_token, narrowed, other_owner] = others;
    [nobody, share, user, other, support, admin, read, write, work, metrics, admin_token, narrowed, other_owner]
}

const UNAUTHENTICATED: Access = No(401);
const FORBIDDEN: Access = No(403);
const HIDDEN: Access = No(404);

/// Everyone, even without a credential.
pub(super) const OPEN: Rule = [Yes; 13];
/// Everyone with a credential.
pub(super) const SIGNED_IN: Rule = rule(UNAUTHENTICATED, UNAUTHENTICATED, [Yes; 4], [Yes; 4], [Yes; 3]);
/// Reads one object: its owner, staff, and tokens of its owner that may read. For others it does not exist.
pub(super) const READ: Rule = rule(
    UNAUTHENTICATED,
    UNAUTHENTICATED,
    [Yes, HIDDEN, Yes, Yes],
    [Yes, FORBIDDEN, FORBIDDEN, FORBIDDEN],
    [Yes, FORBIDDEN, HIDDEN],
);
/// Like [`READ`], plus holders of a share link of the tree.
pub(super) const READ_SHARED: Rule = rule(
    UNAUTHENTICATED,
    Yes,
    [Yes, HIDDEN, Yes, Yes],
    [Yes, FORBIDDEN, FORBIDDEN, FORBIDDEN],
    [Yes, FORBIDDEN, HIDDEN],
);
/// Reads a list: everyone their own, staff all.
pub(super) const LIST: Rule = rule(
    UNAUTHENTICATED,
    UNAUTHENTICATED,
    [OwnOnly, OwnOnly, Yes, Yes],
    [OwnOnly, FORBIDDEN, FORBIDDEN, FORBIDDEN],
    [Yes, FORBIDDEN, OwnOnly],
);
/// Reads a list of personal objects: everyone their own, staff too.
pub(super) const VIEWS: Rule = rule(
    UNAUTHENTICATED,
    UNAUTHENTICATED,
    [OwnOnly; 4],
    [OwnOnly, FORBIDDEN, FORBIDDEN, FORBIDDEN],
    [OwnOnly, FORBIDDEN, OwnOnly],
);
/// Changes one object: its owner, staff, and tokens of its owner that may write.
pub(super) const WRITE: Rule = rule(
    UNAUTHENTICATED,
    UNAUTHENTICATED,
    [Yes, HIDDEN, Yes, Yes],
    [FORBIDDEN, Yes, FORBIDDEN, FORBIDDEN],
    [Yes, FORBIDDEN, HIDDEN],
);
/// Watches one object: people who may see it.
pub(super) const WATCH: Rule =
    rule(UNAUTHENTICATED, UNAUTHENTICATED, [Yes, HIDDEN, Yes, Yes], [FORBIDDEN; 4], [FORBIDDEN; 3]);
/// Creates an object of the caller.
pub(super) const CREATE: Rule =
    rule(UNAUTHENTICATED, UNAUTHENTICATED, [Yes; 4], [FORBIDDEN, Yes, FORBIDDEN, FORBIDDEN], [Yes, FORBIDDEN, Yes]);
/// Processes the item of one assignment: the token that holds it.
pub(super) const ASSIGNMENT_HOLDER: Rule = rule(
    UNAUTHENTICATED,
    UNAUTHENTICATED,
    [FORBIDDEN; 4],
    [FORBIDDEN, FORBIDDEN, Yes, FORBIDDEN],
    [FORBIDDEN, HIDDEN, HIDDEN],
);
/// Processes items in batches: tokens with the scope `work`. Each assignment is checked separately.
pub(super) const WORK: Rule = rule(
    UNAUTHENTICATED,
    UNAUTHENTICATED,
    [FORBIDDEN; 4],
    [FORBIDDEN, FORBIDDEN, Yes, FORBIDDEN],
    [FORBIDDEN, Yes, Yes],
);
/// For staff: support, admins, and tokens with the scope `admin`.
pub(super) const STAFF: Rule = rule(
    UNAUTHENTICATED,
    UNAUTHENTICATED,
    [FORBIDDEN, FORBIDDEN, Yes, Yes],
    [FORBIDDEN; 4],
    [Yes, FORBIDDEN, FORBIDDEN],
);
/// For admins, and tokens with the scope `admin`.
pub(super) const ADMIN: Rule = rule(
    UNAUTHENTICATED,
    UNAUTHENTICATED,
    [FORBIDDEN, FORBIDDEN, FORBIDDEN, Yes],
    [FORBIDDEN; 4],
    [Yes, FORBIDDEN, FORBIDDEN],
);
/// Objects that only people have: sessions, a password.
pub(super) const PEOPLE: Rule = rule(UNAUTHENTICATED, UNAUTHENTICATED, [Yes; 4], [FORBIDDEN; 4], [FORBIDDEN; 3]);

/// What each kind of caller gets from one operation.
pub(super) struct Expectation {
    /// Method and path as in the OpenAPI document, without `/api/v1`.
    pub(super) operation: &'static str,
    /// Path of the call with placeholders; by default that of the operation.
    pub(super) call: &'static str,
    pub(super) body: Value,
    pub(super) rule: Rule,
    /// True if the call may end the caller's session: each request uses a new caller.
    pub(super) fresh: bool,
}

impl Expectation {
    /// Adds an exception to the rule.
    fn but(mut self, caller_kind: CallerKind, access: Access) -> Self {
        self.rule[caller_kind as usize] = access;
        self
    }

    /// Uses new callers, because the call may sign them out.
    fn fresh(self) -> Self {
        Self { fresh: true, ..self }
    }
}

/// Builds a line of the table. A null body is empty, a string is CSV.
fn line(operation: &'static str, call: &'static str, body: Value, rule: Rule) -> Expectation {
    Expectation { operation, call, body, rule, fresh: false }
}

fn get(operation: &'static str, call: &'static str, rule: Rule) -> Expectation {
    line(operation, call, Value::Null, rule)
}

/// All operations. The document shows the first line of an operation; further lines are variants.
pub(super) fn table() -> Vec<Expectation> {
    let none = || Value::Null;
    let why = || json!({"reason": "asked"});
    vec![
        // Job types
        get("GET /job-types", "/job-types", SIGNED_IN),
        line("POST /job-types", "/job-types", json!({"name": "new"}), ADMIN),
        get("GET /job-types/{name}", "/job-types/a", SIGNED_IN),
        get("GET /job-types/{name}/template", "/job-types/a/template", SIGNED_IN),
        line("PUT /job-types/{name}", "/job-types/{type}", json!({}), ADMIN),
        line("PATCH /job-types/{name}", "/job-types/{type}", json!({}), ADMIN),
        line("DELETE /job-types/{name}", "/job-types/{type}", none(), ADMIN),
        line("POST /job-types/{name}/pause", "/job-types/{type}/pause", none(), ADMIN),
        line("POST /job-types/{name}/resume", "/job-types/{type}/resume", none(), ADMIN),
        // Uploads
        line("POST /uploads", "/uploads?filename=own.csv", json!("own"), CREATE),
        get("GET /uploads/{id}", "/uploads/{upload}", READ)
            .but(CallerKind::Work, HIDDEN)
            .but(CallerKind::Narrowed, HIDDEN),
        line("DELETE /uploads/{id}", "/uploads/{upload}?reason=asked", none(), WRITE)
            .but(CallerKind::Support, FORBIDDEN),
        get("GET /uploads/{id}/content", "/uploads/{upload}/content", READ)
            .but(CallerKind::Work, HIDDEN)
            .but(CallerKind::Narrowed, HIDDEN),
        get("GET /uploads/{id}/preview", "/uploads/{upload}/preview", READ)
            .but(CallerKind::Work, HIDDEN)
            .but(CallerKind::Narrowed, HIDDEN),
        line("POST /uploads/{id}/check", "/uploads/{upload}/check", json!({"type": "import"}), READ)
            .but(CallerKind::Work, HIDDEN)
            .but(CallerKind::Narrowed, HIDDEN),
        get("GET /uploads/{id}/mapping", "/uploads/{upload}/mapping?type=import", READ)
            .but(CallerKind::Work, HIDDEN)
            .but(CallerKind::Narrowed, HIDDEN),
        get("OPTIONS /uploads/resumable", "/uploads/resumable", OPEN),
        line("POST /uploads/resumable", "/uploads/resumable?filename=own.csv", none(), CREATE),
        get("GET /uploads/resumable/{id}", "/uploads/resumable/{partial}", WRITE)
            .but(CallerKind::Support, HIDDEN)
            .but(CallerKind::Admin, HIDDEN)
            .but(CallerKind::AdminToken, HIDDEN),
        line("PATCH /uploads/resumable/{id}", "/uploads/resumable/{partial}", json!("x"), WRITE)
            .but(CallerKind::Support, HIDDEN)
            .but(CallerKind::Admin, HIDDEN)
            .but(CallerKind::AdminToken, HIDDEN),
        line("DELETE /uploads/resumable/{id}", "/uploads/resumable/{partial}", none(), WRITE)
            .but(CallerKind::Support, HIDDEN)
            .but(CallerKind::Admin, HIDDEN)
            .but(CallerKind::AdminToken, HIDDEN),
        // Jobs
        get("GET /jobs", "/jobs", LIST),
        get("GET /jobs", "/jobs?root_id={job}", LIST),
        get("GET /jobs", "/jobs?owner=ada", LIST),
        get("GET /jobs", "/jobs?q=secret", LIST),
        line("POST /jobs", "/jobs", json!({"type": "a"}), CREATE),
        line("POST /jobs", "/jobs", json!({"type": "import", "upload": {"id": "{upload}"}}), WRITE),
        line("PUT /jobs/{id}", "/jobs/{job}", json!({"type": "a"}), CREATE)
            .but(CallerKind::OtherUser, No(409))
            .but(CallerKind::OtherOwner, No(409)),
        get("GET /jobs/{id}", "/jobs/{job}", READ),
        get("GET /jobs/{id}", "/jobs/{job}?wait_seconds=1", READ),
        line("PATCH /jobs/{id}", "/jobs/{job}", json!({"name": "secret", "reason": "asked"}), WRITE),
        line("DELETE /jobs/{id}", "/jobs/{job}?reason=asked", none(), WRITE).but(CallerKind::Support, FORBIDDEN),
        line("POST /jobs/{id}/items", "/jobs/{job}/items?reason=asked", json!([{"payload": 1}]), WRITE),
        line("POST /jobs/{id}/seal", "/jobs/{job}/seal?reason=asked", none(), WRITE),
        line("POST /jobs/{id}/cancel", "/jobs/{job}/cancel", why(), WRITE),
        line("POST /jobs/{id}/replay", "/jobs/{job}/replay", why(), WRITE),
        line("POST /jobs/{id}/pin", "/jobs/{job}/pin", why(), WRITE),
        line("DELETE /jobs/{id}/pin", "/jobs/{job}/pin", none(), WRITE),
        get("GET /jobs/{id}/watch", "/jobs/{job}/watch", WATCH),
        line("POST /jobs/{id}/watch", "/jobs/{job}/watch", none(), WATCH),
        line("DELETE /jobs/{id}/watch", "/jobs/{job}/watch", none(), WATCH),
        line("POST /jobs/{id}/share", "/jobs/{job}/share", why(), WRITE).but(CallerKind::Write, FORBIDDEN),
        get("GET /jobs/{id}/shares", "/jobs/{job}/shares", READ),
        get("GET /shares", "/shares", LIST),
        line("DELETE /shares/{id}", "/shares/{share}?reason=asked", none(), WRITE),
        get("GET /jobs/{id}/results", "/jobs/{shared}/results", READ_SHARED),
        get("GET /jobs/{id}/failures", "/jobs/{shared}/failures?format=csv", READ_SHARED),
        get("GET /jobs/{id}/events", "/jobs/{shared}/events", READ_SHARED),
        get("GET /jobs/{id}/steps", "/jobs/{done}/steps", READ),
        get("GET /jobs/{id}/deliveries", "/jobs/{done}/deliveries", READ),
        // Schedules
        get("GET /schedules", "/schedules", LIST),
        line(
            "POST /schedules",
            "/schedules",
            json!({"name": "own", "cron": "@yearly", "paused": true, "job": {"type": "a"}}),
            CREATE,
        ),
        get("GET /schedules/{id}", "/schedules/{schedule}", READ),
        get("GET /schedules/{id}/runs", "/schedules/{schedule}/runs", READ),
        line("PATCH /schedules/{id}", "/schedules/{schedule}", json!({"name": "secret", "reason": "asked"}), WRITE),
        line("DELETE /schedules/{id}", "/schedules/{schedule}?reason=asked", none(), WRITE),
        line("POST /schedules/{id}/run", "/schedules/{schedule}/run", why(), WRITE),
        line("POST /schedules/{id}/pause", "/schedules/{schedule}/pause", why(), WRITE),
        line("POST /schedules/{id}/resume", "/schedules/{schedule}/resume", why(), WRITE),
        // Saved views
        get("GET /views", "/views", VIEWS),
        line("POST /views", "/views", json!({"list": "jobs", "name": "own"}), CREATE),
        get("GET /views/{id}", "/views/{view}", READ)
            .but(CallerKind::Support, HIDDEN)
            .but(CallerKind::Admin, HIDDEN)
            .but(CallerKind::AdminToken, HIDDEN),
        line("PATCH /views/{id}", "/views/{view}", json!({"name": "secret too"}), WRITE)
            .but(CallerKind::Support, HIDDEN)
            .but(CallerKind::Admin, HIDDEN)
            .but(CallerKind::AdminToken, HIDDEN),
        line("DELETE /views/{id}", "/views/{view}?reason=asked", none(), WRITE)
            .but(CallerKind::Support, HIDDEN)
            .but(CallerKind::Admin, HIDDEN)
            .but(CallerKind::AdminToken, HIDDEN),
        // Items
        get("GET /items", "/items", LIST),
        get("GET /items", "/items?job={job}", READ),
        get("GET /items", "/items?root={job}&state=dead", READ),
        get("GET /items", "/items?worker=w", LIST),
        get("GET /items/{id}", "/items/{item}", READ),
        line("PATCH /items/{id}", "/items/{item}?reason=asked", json!({"priority": 5}), WRITE),
        get("GET /items/{id}/attempts", "/items/{item}/attempts", READ),
        get("GET /items/{id}/logs", "/items/{item}/logs", READ),
        line("POST /items/{id}/retry", "/items/{dead}/retry", why(), WRITE),
        line("POST /items/{id}/events", "/items/{item}/events", json!({"name": "approval"}), WRITE),
        line("POST /items/{id}/cancel", "/items/{item}/cancel", why(), WRITE),
        line("POST /items/{id}/replay", "/items/{item}/replay", why(), WRITE),
        get("GET /dead-letters", "/dead-letters", LIST),
        get("GET /dead-letters/groups", "/dead-letters/groups", LIST),
        get("GET /dead-letters/groups", "/dead-letters/groups?job={job}", READ),
        get("GET /dead-letters/groups", "/dead-letters/groups?owner=ada", LIST),
        get("GET /dead-letters/groups/{type}/{fingerprint}", "/dead-letters/groups/{group}", STAFF),
        line(
            "PATCH /dead-letters/groups/{type}/{fingerprint}",
            "/dead-letters/groups/{group}",
            json!({"state": "muted"}),
            STAFF,
        ),
        // Bulk operations
        line(
            "POST /bulk-operations",
            "/bulk-operations",
            json!({"action": "cancel", "target": "items", "filter": {"state": "dead"}, "dry_run": true}),
            CREATE,
        )
        .but(CallerKind::Write, FORBIDDEN),
        get("GET /bulk-operations", "/bulk-operations", LIST),
        get("GET /bulk-operations/{id}", "/bulk-operations/{bulk}", READ),
        line("POST /bulk-operations/{id}/cancel", "/bulk-operations/{bulk}/cancel", none(), WRITE),
        // Working on items
        line("POST /assignments", "/assignments", json!({"worker_id": "w", "types": ["idle"]}), WORK)
            .but(CallerKind::Narrowed, FORBIDDEN),
        line("POST /assignments/{id}/heartbeat", "/assignments/{assignment}/heartbeat", json!({}), ASSIGNMENT_HOLDER),
        line(
            "POST /assignments/{id}/step",
            "/assignments/{assignment}/step",
            json!({"name": "one"}),
            ASSIGNMENT_HOLDER,
        ),
        line(
            "POST /assignments/{id}/logs",
            "/assignments/{assignment}/logs",
            json!({"lines": [{"message": "x"}]}),
            ASSIGNMENT_HOLDER,
        ),
        line("POST /assignments/{id}/result", "/assignments/{assignment}/result", json!({}), ASSIGNMENT_HOLDER),
        line(
            "POST /assignments/{id}/failure",
            "/assignments/{assignment}/failure",
            json!({"error": {"message": "x"}}),
            ASSIGNMENT_HOLDER,
        ),
        line("POST /assignments/{id}/release", "/assignments/{assignment}/release", json!({}), ASSIGNMENT_HOLDER),
        line("POST /assignments/{id}/wait", "/assignments/{assignment}/wait", json!({"name": "x"}), ASSIGNMENT_HOLDER),
        line(
            "POST /assignments/{id}/alert",
            "/assignments/{assignment}/alert",
            json!({"message": "x"}),
            ASSIGNMENT_HOLDER,
        ),
        line("POST /assignments/finish", "/assignments/finish", json!({"endings": []}), WORK),
        line("POST /assignments/heartbeat", "/assignments/heartbeat", json!({"heartbeats": []}), WORK),
        // Watching
        get("GET /events", "/events", LIST),
        get("GET /events", "/events?topics=roots,failures,imports,types", LIST),
        get("GET /stats", "/stats", STAFF),
        get("GET /stats/series", "/stats/series?metric=added", STAFF),
        get("GET /search", "/search?q=nothing", LIST),
        get("GET /workers", "/workers", LIST).but(CallerKind::Work, OwnOnly).but(CallerKind::Narrowed, OwnOnly),
        get("GET /alert-channels", "/alert-channels", STAFF),
        line(
            "POST /alert-channels",
            "/alert-channels",
            json!({"name": "secret", "kind": "webhook", "url": "https://example.com/secret"}),
            ADMIN,
        ),
        get("GET /alert-channels/{id}", "/alert-channels/{channel}", STAFF),
        line("PATCH /alert-channels/{id}", "/alert-channels/{channel}", json!({"paused": true}), ADMIN),
        line("DELETE /alert-channels/{id}", "/alert-channels/{channel}", none(), ADMIN),
        line("POST /alert-channels/{id}/test", "/alert-channels/{channel}/test", none(), ADMIN),
        get("GET /alerts", "/alerts?all=true", LIST),
        get("GET /audit", "/audit", LIST),
        get("GET /audit", "/audit?job={job}", LIST),
        get("GET /deliveries", "/deliveries", LIST),
        get("GET /deliveries", "/deliveries?owner=ada", LIST),
        get("GET /deliveries", "/deliveries?job={done}", LIST),
        line("POST /deliveries/{id}/resend", "/deliveries/{delivery}/resend", why(), WRITE),
        // Signing in, and one's own account
        line("POST /session", "/session", json!({"link": "x"}), OPEN).but(CallerKind::Nobody, Yes),
        line("DELETE /session", "/session", none(), PEOPLE).fresh(),
        get("GET /me", "/me", SIGNED_IN),
        get("GET /me/sessions", "/me/sessions", PEOPLE),
        line("DELETE /me/sessions", "/me/sessions", none(), PEOPLE).fresh(),
        line("DELETE /me/sessions/{id}", "/me/sessions/{session}", none(), PEOPLE)
            .but(CallerKind::OtherUser, HIDDEN)
            .but(CallerKind::Support, HIDDEN)
            .but(CallerKind::Admin, HIDDEN),
        get("GET /me/notices", "/me/notices", PEOPLE),
        line("POST /me/notices/read", "/me/notices/read", none(), PEOPLE),
        get("GET /me/notice-settings", "/me/notice-settings", PEOPLE),
        line("PATCH /me/notice-settings", "/me/notice-settings", json!({"in_page": true}), PEOPLE),
        line("POST /me/password", "/me/password", json!({"new_password": "short"}), PEOPLE),
        line("POST /session/passkey/options", "/session/passkey/options", none(), OPEN),
        get("GET /me/factors", "/me/factors", PEOPLE),
        line("POST /me/totp", "/me/totp", none(), PEOPLE),
        line("DELETE /me/totp", "/me/totp", none(), PEOPLE),
        line("PATCH /me/totp", "/me/totp", json!({"name": ""}), PEOPLE),
        line("POST /me/totp/confirm", "/me/totp/confirm", json!({"code": "x"}), PEOPLE),
        line("POST /me/recovery-codes", "/me/recovery-codes", none(), PEOPLE),
        line("POST /me/passkeys/options", "/me/passkeys/options", none(), PEOPLE),
        line("POST /me/passkeys", "/me/passkeys", json!({"name": "x", "credential": {}, "state": "x"}), PEOPLE),
        line("PATCH /me/passkeys/{id}", "/me/passkeys/{item}", json!({"name": ""}), PEOPLE),
        line("DELETE /me/passkeys/{id}", "/me/passkeys/{item}", none(), PEOPLE),
        get("GET /me/connections", "/me/connections", PEOPLE),
        line("DELETE /me/connections/{id}", "/me/connections/{item}", none(), PEOPLE),
        line("POST /me/step-up", "/me/step-up", json!({"password": "x"}), PEOPLE),
        // People, services and tokens
        get("GET /users", "/users", ADMIN),
        line("POST /users", "/users", json!({"name": "x", "email": "x@example.com"}), ADMIN),
        get("GET /users/{id}", "/users/{person}", ADMIN),
        line("PATCH /users/{id}", "/users/{person}", json!({"role": "support"}), ADMIN),
        line("POST /users/{id}/sign-in-link", "/users/{person}/sign-in-link", json!({}), ADMIN),
        get("GET /users/{id}/sessions", "/users/{person}/sessions", ADMIN),
        line("DELETE /users/{id}/factors", "/users/{person}/factors", none(), ADMIN),
        line("DELETE /users/{id}/sessions", "/users/{person}/sessions", none(), ADMIN),
        line("DELETE /users/{id}/sessions/{session_id}", "/users/{person-session}", none(), ADMIN),
        get("GET /services", "/services", ADMIN),
        line("POST /services", "/services", json!({"name": "new"}), ADMIN),
        get("GET /services/{id}", "/services/{service}", ADMIN),
        line("PATCH /services/{id}", "/services/{service}", json!({"disabled": true}), ADMIN),
        get("GET /tokens", "/tokens", ADMIN),
        line("POST /tokens", "/tokens", json!({"service": "payroll", "name": "x", "scopes": ["work"]}), ADMIN),
        line("DELETE /tokens/{id}", "/tokens/{token}", none(), ADMIN),
        // Expectation
        get("GET /healthz", "/healthz", OPEN),
        get("GET /readyz", "/readyz", OPEN),
        get("GET /metrics", "/metrics", ADMIN).but(CallerKind::Metrics, Yes),
        get("GET /debug/pprof/profile", "/debug/pprof/profile?seconds=1", ADMIN),
        get("GET /debug/pprof/heap", "/debug/pprof/heap", ADMIN),
    ]
}
