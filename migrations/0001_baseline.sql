-- The schema of Treeline.
--
-- A job is one piece of work that is made of items. Jobs form a tree: a root and, below it, any number of children.
-- Workers claim items and report how they end. `docs/rules.md` says what the engine promises; names in backticks such
-- as `retry-budget` are its rules.
--
-- Conventions:
--
-- * The table that holds the row is the state. A pending item is in exactly one of `ready`, `deferred`, `blocked` and
--   `lease`; a final item is in `outcome`. `item` is written once. No constraint can express this; the model test and
--   the fault checker verify it.
-- * `job_state` holds one row per job with its counters. Every batch updates it once per job, as its last statement
--   before the commit. Nothing counts rows.
-- * `job_key` (bigint) is a job's internal key, `job.id` (uuid) its public one. Ascending `job_key` is the lock order
--   and is topological within a tree. `job_key` and `seq` together are the order of a job's items.
-- * The hot tables have no foreign keys: each would cost a second lookup per row, and the statements that move items
--   between tables hold both ends anyway. Their column order is part of their measured row layout.
-- * Documents are text, never jsonb: jsonb rewrites numbers (1e400, 1.10, 2^53+1), and nine kilobytes of 1e131071 come
--   back as 131 megabytes.
-- * Everything a caller can read has an `owner_id`. Secrets of callers are stored only as their SHA-256, which is
--   enough for 256 random bits. Secrets that the server must read back are sealed with a key outside the database;
--   sealed texts begin with `sealed:v1:` and the id of the key.
-- * All times come from the database clock (`database-clock`). The order in which transactions lock rows is in the head
--   of `engine/src/lib.rs`.


-- ==== Accounts and credentials ====================================================================

-- One person or service.
create table owner (
    id                    uuid primary key,
    kind                  text not null,
    name                  text not null,
    role                  text,              -- of a person; services have scopes on their tokens instead
    email                 text,
    email_by_provider     boolean not null default false,  -- a provider supplied it and no admin has set it since
    password_hash         text,              -- PHC string of argon2id with its cost; null: signs in without one
    must_change_password  boolean not null default false,  -- someone else chose the password
    created_at            timestamptz not null default clock_timestamp(),
    disabled_at           timestamptz,       -- none of this owner's credentials works from then on
    constraint owner_kind check (kind in ('user', 'service')),
    constraint owner_role check (role in ('user', 'support', 'admin')),
    constraint owner_role_is_a_persons check ((kind = 'user') = (role is not null)),
    constraint owner_name unique (kind, name),
    constraint owner_email_is_a_persons check (email is null or kind = 'user'),
    constraint owner_password_is_a_persons check (password_hash is null or kind = 'user'),
    constraint owner_password_is_hashed check (password_hash like '$argon2id$%')
);
-- One account per address, in whatever case it is written.
create unique index owner_email on owner (lower(email)) where email is not null;
-- Lists of people and of services, newest first.
create index owner_by_age on owner (kind, created_at, name);

-- One API token. The tokens of a disabled service work again when the service is enabled again.
create table token (
    id            uuid primary key,
    owner_id      uuid not null references owner,
    name          text not null,
    hash          bytea not null,            -- SHA-256 of the token
    scopes        text[] not null,
    work_types    text[],                    -- job types that the scope `work` may claim; null: all
    created_at    timestamptz not null default clock_timestamp(),
    last_used_at  timestamptz,
    expires_at    timestamptz,               -- null: never
    revoked_at    timestamptz,
    constraint token_hash unique (hash),
    constraint token_scopes check (scopes <@ array['jobs:read', 'jobs:write', 'work', 'metrics', 'admin'])
);
-- Servers count expired tokens, to drop the cached callers that came with one.
create index token_expiry on token (expires_at) where expires_at is not null;

-- One browser session of a person.
create table session (
    id                uuid primary key,
    owner_id          uuid not null references owner,
    hash              bytea not null,        -- SHA-256 of the cookie's secret
    user_agent        text not null default '',
    method            text not null default 'password',     -- first factor
    -- A second factor was given, a passkey verified its user, or a provider vouched for a second factor.
    mfa               boolean not null default false,
    -- Began with a one-time link: may set a password without the old one.
    by_link           boolean not null default false,
    proxy_user        text,                  -- value of TREELINE_AUTH_HEADER; a request with another one ends it
    -- Last proof of identity. Actions with consequences require a recent one.
    authenticated_at  timestamptz not null default clock_timestamp(),
    created_at        timestamptz not null default clock_timestamp(),
    last_seen_at      timestamptz not null default clock_timestamp(),
    expires_at        timestamptz not null,  -- moves with use, at most 90 days after created_at
    ended_at          timestamptz,
    constraint session_hash unique (hash),
    constraint session_method check (method in ('password', 'link', 'passkey', 'oidc', 'proxy')),
    constraint session_proxy_user check ((proxy_user is not null) = (method = 'proxy'))
);
create index session_owner on session (owner_id);

-- One one-time sign-in link.
create table sign_in_link (
    id            uuid primary key,
    hash          bytea not null,            -- SHA-256 of the link's secret
    owner_id      uuid references owner,     -- account that it signs in to; null: its user becomes the first admin
    made_by_id    uuid,                      -- creator, for the audit log; null: the server
    made_by_name  text,
    created_at    timestamptz not null default clock_timestamp(),
    expires_at    timestamptz not null,
    used_at       timestamptz,
    constraint sign_in_link_hash unique (hash)
);
create index sign_in_link_owner on sign_in_link (owner_id) where used_at is null;

-- One person's authenticator app. A person with at least one confirmed factor (this or a passkey) needs it at every
-- sign-in, whatever the first factor was.
create table totp (
    owner_id      uuid primary key references owner,
    name          text not null default 'Authenticator app',
    secret        text not null,             -- sealed
    -- Time step of the last accepted code: this code and older ones are never accepted again.
    last_step     bigint not null default 0,
    created_at    timestamptz not null default clock_timestamp(),
    confirmed_at  timestamptz,               -- first accepted code; null: protects nothing yet
    constraint totp_is_sealed check (secret like 'sealed:%')
);

-- One passkey of a person.
create table passkey (
    id             uuid primary key,
    owner_id       uuid not null references owner,
    credential_id  bytea not null,           -- id of the authenticator, unique over all people
    credential     text not null,            -- public key and counters, as JSON of the WebAuthn library
    name           text not null,
    created_at     timestamptz not null default clock_timestamp(),
    last_used_at   timestamptz,
    constraint passkey_credential_id unique (credential_id)
);
create index passkey_owner on passkey (owner_id, id);

-- One recovery code: 80 random bits that stand in for a lost factor. Used codes stay, so that the remaining number is
-- right.
create table recovery_code (
    owner_id  uuid not null references owner,
    hash      bytea not null,                -- SHA-256
    used_at   timestamptz,
    primary key (owner_id, hash)
);

-- One answered challenge: each is accepted once. Rows are deleted when the challenge would be too old anyway.
create table used_challenge (
    hash        bytea primary key,
    expires_at  timestamptz not null
);
create index used_challenge_expires on used_challenge (expires_at);

-- One account at an OpenID Connect provider and the person it signs in. Never created because of an email address
-- alone.
create table identity_link (
    issuer        text not null,
    subject       text not null,
    owner_id      uuid not null references owner,
    id            uuid not null default gen_random_uuid(),  -- names the link where its owner removes it
    created_at    timestamptz not null default clock_timestamp(),
    last_used_at  timestamptz not null default clock_timestamp(),
    primary key (issuer, subject),
    constraint identity_link_id unique (id)
);
create index identity_link_owner on identity_link (owner_id);

-- One value of TREELINE_AUTH_HEADER and the person it signs in. An account of the same name that was created in another
-- way is not connected: its name may have been chosen by someone else.
create table proxy_user (
    value         text primary key,
    owner_id      uuid not null references owner,
    created_at    timestamptz not null default clock_timestamp(),
    last_used_at  timestamptz not null default clock_timestamp()
);
create index proxy_user_owner on proxy_user (owner_id);

-- One read-only link to one tree. It is deleted with its tree and has no foreign keys because the tree is deleted
-- first.
create table share (
    id            uuid primary key,
    root_id       uuid not null,
    owner_id      uuid not null,             -- owner of the tree
    hash          bytea not null,            -- SHA-256 of the link's secret
    made_by_kind  text not null,
    made_by_name  text not null,
    made_by_id    uuid,                      -- the link of a disabled creator does not work; null: unknown
    created_at    timestamptz not null default clock_timestamp(),
    last_seen_at  timestamptz,               -- to the minute
    expires_at    timestamptz not null default clock_timestamp() + interval '30 days',
    revoked_at    timestamptz,
    constraint share_hash unique (hash),
    constraint share_made_by check (made_by_kind in ('user', 'service'))
);
create index share_root on share (root_id, id);
-- An owner's links, newest first; lists of all links use the primary key.
create index share_owner on share (owner_id, id);

-- Number of changes that took rights away: roles, disabled owners, ended sessions, revoked tokens and links. Servers
-- cache callers for a moment, read this four times a second, and drop the cache when the number has changed. A single
-- row, so that no change can be missed.
create table credential_change (
    one  boolean primary key default true,
    n    bigint not null default 0,
    constraint credential_change_one check (one)
);
insert into credential_change default values;

-- One counter of failed sign-ins, shared by all servers: per account and address, address, account, device, links of an
-- address, or all together. Unlogged: a crash loses the counters, and a flood of failures writes no WAL.
create unlogged table sign_in_failure (
    key                     bytea primary key,           -- hash of the subject, so that no row names anyone
    failures                double precision not null,   -- at last_at; not whole, as failures are forgiven steadily
    forgiven_after_seconds  double precision not null,   -- time that forgives one failure
    last_at                 timestamptz not null default clock_timestamp()
);
-- Forgiven counters are deleted, and the oldest when there are too many.
create index sign_in_failure_last_at on sign_in_failure (last_at);


-- ==== Job types ===================================================================================

-- One job type. Jobs copy what they must not see change (`job.delivery` and the columns after it).
create table job_type (
    id                       integer primary key generated always as identity,
    name                     text not null,
    delivery                 text not null,
    max_failures             integer,        -- null: unlimited (`retry-budget`)
    concurrency              integer,        -- limit of open assignments, counted under this row's lock; null: none
    limits                   text,           -- JSON, domain::type_limits::TypeLimits, used under this row's lock; null: none
    fair_by                  text,           -- domain::fair_by::FairBy; null: trees take turns
    backoff_min_seconds      double precision not null,
    backoff_max_seconds      double precision,
    backoff_factor           double precision not null,
    backoff_jitter           boolean not null,
    heartbeat_seconds        double precision not null,
    run_timeout_seconds      double precision,               -- null: none
    steps                    text[] not null,
    retain_seconds           bigint,
    payload_schema           text,           -- JSON Schema; null: any payload
    executor                 text not null,  -- JSON: claims by workers, a push target, or a built-in executor
    executor_secrets         text,           -- secrets of a push target, sealed, as `executor` is shown
    import                   text,           -- JSON, domain::import::ImportSettings; null: the defaults
    require_idempotency_key  boolean not null,
    paused                   boolean not null,
    created_at               timestamptz not null default clock_timestamp(),
    updated_at               timestamptz not null default clock_timestamp(),
    version                  bigint not null default 1,
    constraint job_type_name unique (name),
    constraint job_type_delivery check (delivery in ('at_least_once', 'at_most_once')),
    constraint job_type_max_failures check (max_failures >= 1),
    constraint job_type_at_most_once check (delivery <> 'at_most_once' or max_failures = 1),
    constraint job_type_concurrency check (concurrency >= 0)
);

-- Built-in types: `import` validates the rows of a file, `export` writes results, failures or items of a job to a file.
insert into job_type (name, delivery, max_failures, backoff_min_seconds, backoff_max_seconds, backoff_factor,
                      backoff_jitter, heartbeat_seconds, steps, retain_seconds, executor,
                      require_idempotency_key, paused)
values ('import', 'at_least_once', 3, 3, 3600, 2, true, 60, '{}', 604800,
        '{"kind":"builtin","name":"validate"}', false, false),
       ('export', 'at_least_once', 3, 3, 3600, 2, true, 20, '{}', 604800,
        '{"kind":"builtin","name":"export"}', false, false);


-- ==== Uploads and imports =========================================================================

-- One stored file: an upload, or the file that an export job wrote. The bytes are in the file store.
create table upload (
    id            uuid primary key,
    owner_id      uuid not null references owner,
    filename      text not null,
    bytes         bigint not null,
    sha256        text not null,             -- lower-case hexadecimal
    format        text not null,             -- `none`: one item for the whole file
    sheets        text[],                    -- sheet names of a workbook; null: not opened yet
    made_by       uuid,                      -- export job that wrote the file, which is deleted with that job
    created_at    timestamptz not null default clock_timestamp(),
    used_at       timestamptz,               -- first job that reads it; unused uploads are deleted after a day
    last_read_at  timestamptz not null default '-infinity',  -- last check whether a job still uses it
    constraint upload_format check (format in ('csv', 'ndjson', 'json', 'lines', 'xlsx', 'none'))
);
create index upload_owner on upload (owner_id, created_at desc);
-- Files that nothing needs: those that no job ever used, and used ones whose last check is longest ago.
create index upload_unused on upload (created_at) where used_at is null;
create index upload_used on upload (last_read_at) where used_at is not null;
create index upload_made_by on upload (made_by) where made_by is not null;

-- One resumable upload (tus 1.0). Its bytes arrive as parts, each an object of its own in the file store. The insert of
-- a part and the new `received` are one statement that is guarded by the old `received`, so of two senders at the same
-- offset one wins. After the last byte the parts are joined, and an `upload` with the same id appears.
create table upload_partial (
    id           uuid primary key,
    owner_id     uuid not null references owner,
    filename     text not null,
    format       text,                       -- null: detected from the name and the first bytes
    metadata     text,                       -- header Upload-Metadata, which HEAD must return; null: not sent
    bytes        bigint not null,            -- announced size
    received     bigint not null default 0,  -- bytes that have arrived
    created_at   timestamptz not null default clock_timestamp(),
    touched_at   timestamptz not null default clock_timestamp(),
    -- Set in the commit that creates the upload. The row stays a while, because the response may have been lost.
    finished_at  timestamptz,
    constraint upload_partial_received check (received between 0 and bytes),
    constraint upload_partial_finished check (finished_at is null or received = bytes)
);
create index upload_partial_touched on upload_partial (touched_at);
-- Quotas: bytes that an owner is about to store.
create index upload_partial_owner on upload_partial (owner_id) where finished_at is null;

-- One part of a resumable upload.
create table upload_part (
    partial_id  uuid not null references upload_partial on delete cascade,
    at_byte     bigint not null,             -- offset in the file
    bytes       bigint not null,
    object_id   uuid not null,               -- object in the file store
    primary key (partial_id, at_byte),
    constraint upload_part_object unique (object_id),
    constraint upload_part_bytes check (bytes > 0)
);

-- One sheet of a workbook, converted to lines that can be read from any offset. Its object in the file store becomes an
-- orphan when this row is deleted with its upload; a sweep deletes it.
create table converted_sheet (
    upload_id   uuid not null references upload on delete cascade,
    sheet       text not null,               -- empty: the first one
    object_id   uuid not null,
    bytes       bigint not null,
    created_at  timestamptz not null default clock_timestamp(),
    primary key (upload_id, sheet),
    constraint converted_sheet_object unique (object_id)
);

-- One sheet that cannot be read, so that the workbook is not opened again for the same answer.
create table unreadable_sheet (
    upload_id  uuid not null references upload on delete cascade,
    sheet      text not null,                -- empty: the whole file cannot be read
    reason     text not null,
    primary key (upload_id, sheet)
);

-- Progress of one import: the position in its file. It moves in the commit that adds the rows before it, guarded by the
-- old position, so each row becomes one item, also after a crash and with two servers on one file.
create table import_cursor (
    job_key      bigint primary key,
    job_id       uuid not null,
    upload_id    uuid not null references upload,
    format       text not null,
    head         text not null,              -- JSON: encoding, delimiter, columns, first record
    byte_offset  bigint not null,
    line         bigint not null,
    -- Last time a server took a batch. The oldest is next, so that files take turns.
    touched_at   timestamptz not null default clock_timestamp(),
    done_at      timestamptz,
    failed       text                        -- reason why reading stopped early
);
create index import_cursor_open on import_cursor (touched_at) where done_at is null;
create index import_cursor_upload on import_cursor (upload_id);

-- One import that corrects failed rows of another job, until all its rows have been matched (`corrections`). Written
-- with the job, so that a crash loses no match.
create table correction (
    job_key           bigint primary key,
    corrects_job_key  bigint not null,
    seq               bigint not null default 0  -- items of the import up to here have been matched
);

-- The column mapping that an owner last used for a type, as a suggestion for the next file.
create table import_mapping (
    owner_id  uuid not null references owner on delete cascade,
    type_id   integer not null references job_type on delete cascade,
    mapping   text not null,                 -- `mapping` of POST /jobs, and the columns that it left out
    used_at   timestamptz not null default clock_timestamp(),
    primary key (owner_id, type_id)
);
create index import_mapping_type on import_mapping (type_id);


-- ==== Trees and jobs ==============================================================================

-- Keys of jobs. A tree takes its keys together, in topological order.
create sequence job_key as bigint;

-- The definition of one job, written at its creation. What changes all the time is in `job_state`.
create table job (
    id                  uuid primary key,
    root_id             uuid not null,
    job_key             bigint not null,
    ord                 integer not null,    -- topological position in the tree; the root is 0
    parent_id           uuid,
    owner_id            uuid not null references owner,
    type_id             integer not null references job_type,
    key                 text not null,       -- name of the job within its tree
    name                text,
    -- Copied from the type at creation.
    delivery            text not null,
    max_failures        integer,
    steps               text[] not null,
    payload_schema      text,
    retain_seconds      bigint,
    -- Defaults and limits of the items.
    priority            smallint not null default 0,
    run_after           timestamptz,
    expires_at          timestamptz,
    expected_count      bigint,
    -- Relations within the tree.
    final_stage         boolean not null default false,
    feed                text,                -- feed rule, as it was given (`feeding`)
    after               text[] not null default '{}',  -- keys of the jobs it waits for, as given (`after`)
    after_outcome       text,
    fair_turn_job_key   bigint not null,     -- the tree's first job of this type, which counts its fair turns
    metadata            text not null default '{}',
    dedupe_key          text,
    initiated_by        text,
    on_completed        text,                -- JSON, sealed (`completion-webhook`)
    upload_id           uuid references upload,
    replay_of           uuid,
    superseded_by       uuid,                -- root of the newer tree that took over the Idempotency-Key
    -- SHA-256 of the request body in canonical form, without the id: a client that chose the tree's id may send the
    -- same body again. On the root only; null: the client chose no id.
    body_hash           bytea,
    -- Token or session that requested the job, and whether it saw everyone's work. What the server does on behalf of
    -- the requester (an export) needs the credential to be valid still, and sees no more than it did then.
    requested_by        uuid,
    requester_sees_all  boolean not null default false,
    -- W3C trace context of the request that created the job, for its items and its callback; null: it had none.
    traceparent         text,
    created_at          timestamptz not null default clock_timestamp(),
    constraint job_job_key unique (job_key),
    constraint job_place unique (root_id, ord),
    constraint job_root_key unique (root_id, key),
    constraint job_root check ((parent_id is null) = (root_id = id))
);
-- Lists, newest first. Partial, so that a tree of one job pays for none that it does not use.
create index job_owner_roots on job (owner_id, job_key desc) where parent_id is null;
create index job_roots on job (job_key desc) where parent_id is null;
create index job_owner_children on job (owner_id, job_key desc) where parent_id is not null;
create index job_parent on job (parent_id, ord) where parent_id is not null;
create index job_type_jobs on job (type_id, job_key desc);
create index job_initiated_by on job (initiated_by, job_key desc) where initiated_by is not null;
create index job_dedupe_key on job (dedupe_key, job_key desc) where dedupe_key is not null;
create index job_replay_of on job (replay_of, job_key desc) where replay_of is not null;
-- The replays of a tree, in any order.
create index job_replays on job (replay_of) where replay_of is not null;
-- The jobs that use a file.
create index job_upload on job (upload_id) where upload_id is not null;

-- State and counters of one job: the row that every change of the job locks.
--
-- Rows are locked in ascending `job_key`, and no transaction locks one early and then waits for an item: batches lock
-- and update them last, so a row is held for the length of one commit. The lock and the update are two statements: the
-- update sees what was committed while the lock waited, so two batches that end the last two items cannot both believe
-- that one is left, and no claim commits after a cancellation.
--
-- The root's row is also the state of its tree: one row fewer to lock than with a table for trees.
--
-- Half of each page stays free, and the only indexes are on columns that never change, so that updates stay on their
-- page (HOT). That is why due and stalled trees are found through `maintenance_check` instead of an index here.
create table job_state (
    job_key            bigint primary key,
    root_id            uuid not null,
    solo               boolean not null,     -- a tree of one job, which completes in the update of this row
    sealed             boolean not null default false,
    cancelled_at       timestamptz,
    -- Items by state.
    n_available        bigint not null default 0,
    n_running          bigint not null default 0,
    n_retryable        bigint not null default 0,
    n_scheduled        bigint not null default 0,
    n_blocked          bigint not null default 0,
    n_waiting_for_event  bigint not null default 0,
    n_succeeded        bigint not null default 0,
    n_dead             bigint not null default 0,
    n_cancelled        bigint not null default 0,
    n_expired          bigint not null default 0,
    open_feeds         integer not null default 0,   -- recorded feeds and replay copies that still owe items
    next_seq           bigint not null default 1,    -- `item.seq` of the next item
    -- Last fair turn of the tree for a type, in items, ten of which share a turn. On the row of
    -- `job.fair_turn_job_key`.
    last_fair_turn     bigint not null default 0,
    version            bigint not null default 1,
    started_at         timestamptz,
    completed_at       timestamptz,
    completion         integer not null default 0,   -- number of times the tree has completed
    updated_at         timestamptz not null default clock_timestamp(),
    -- The tree: used on the root's row only, except deleted_at.
    open_jobs          integer not null default 0,   -- jobs that are not complete
    -- Replays and bulk retries in progress, which keep the tree from completing and from being deleted.
    holds              integer not null default 0,
    pinned             boolean not null default false,  -- retained indefinitely (`retention`)
    tree_completed_at  timestamptz,
    tree_outcome       smallint,                     -- 1 succeeded, 2 partial, 3 failed, 4 cancelled
    deleted_at         timestamptz,                  -- on every row of the tree; the other rows follow (`purge`)
    -- `after`
    after_open         integer not null default 0,   -- jobs it waits for that are not complete
    after_failed       boolean not null default false,  -- one of them ended with another outcome than required
    n_after_cancelled  bigint not null default 0,    -- of n_cancelled: items that wait again when that job is repaired
    -- Sealed because its parent completed; unsealed when the parent is reopened.
    sealed_by_feed     boolean not null default false,
    cancel_reason      text,
    -- The tree may have a completion webhook; a tree without one completes without a look at `job.on_completed`. On the
    -- root's row. Null: unknown.
    calls              boolean,
    n_superseded       bigint not null default 0,    -- of n_cancelled: items replaced by corrected rows (`corrections`)
    constraint job_state_counts check (
        least(n_available, n_running, n_retryable, n_scheduled, n_blocked, n_waiting_for_event,
              n_succeeded, n_dead, n_cancelled, n_expired, open_feeds, open_jobs, holds) >= 0),
    constraint job_state_complete_is_sealed check (completed_at is null or sealed),
    constraint job_state_after check (least(after_open, n_after_cancelled) >= 0)
) with (fillfactor = 50);
create index job_state_tree on job_state (root_id, job_key);

-- The rules of `completion`, for every statement that needs one. The planner inlines them.

-- Items that have not ended.
create function job_pending(g job_state) returns bigint language sql immutable parallel safe
return g.n_available + g.n_running + g.n_retryable + g.n_scheduled + g.n_blocked + g.n_waiting_for_event;

-- Items that have not ended and are not running.
create function job_waiting(g job_state) returns bigint language sql immutable parallel safe
return g.n_available + g.n_retryable + g.n_scheduled + g.n_blocked + g.n_waiting_for_event;

-- Items that ended, but did not succeed.
create function job_unsuccessful(g job_state) returns bigint language sql immutable parallel safe
return g.n_dead + g.n_cancelled + g.n_expired;

-- A job in a tree of several has nothing pending and nothing to come.
create function job_looks_complete(g job_state) returns boolean language sql immutable parallel safe
return not g.solo and g.sealed and g.completed_at is null and g.open_feeds = 0 and g.after_open = 0
  and job_pending(g) = 0;

-- Outcome of a complete job or tree: 1 succeeded, 2 partial, 3 failed, 4 cancelled.
create function outcome_of(cancelled boolean, unsuccessful bigint, succeeded bigint) returns smallint
language sql immutable parallel safe
return case when cancelled then 4 when unsuccessful = 0 then 1 when succeeded > 0 then 2 else 3 end;

-- One job of a tree of several jobs that looks complete. Written in the commit that made it so and read by the
-- completion that follows, which is a transaction of its own; a sweep repeats it after a crash. A table, because an
-- indexed flag in `job_state` would prevent HOT updates.
create table completion_check (
    job_key  bigint primary key
);

-- One change that follows a decision about a whole job. The decision is one commit on `job_state` that every claim and
-- read obeys from then on; the rows follow in batches, and a crash in between loses nothing.
create table propagation (
    job_key  bigint not null,
    -- 1 cancel: items of a canceled job end. 2 fail: items that waited for a job that failed end. 3 release: items that
    -- waited are released. 4 return: items that 2 ended wait again.
    kind     smallint not null,
    seq      bigint not null default 0,      -- items of the job up to here are done
    primary key (job_key, kind),
    constraint propagation_kind check (kind between 1 and 4)
);

-- One fed child that is owed elements of an array, because they did not fit into the commit that recorded the result of
-- their source (`feeding`). `job_state.open_feeds` of the child counts the row.
create table feed_remainder (
    item_id  uuid not null,                  -- source
    job_key  bigint not null,                -- fed child
    next     integer not null,               -- index of the next element
    primary key (item_id, job_key)
);

-- One job that is sealed when its `expires_at` comes (`start-and-expiry`).
create table deadline (
    job_key     bigint primary key,
    expires_at  timestamptz not null
);
create index deadline_due on deadline (expires_at);

-- One job that a person has changed. Every server drops what it cached of it within a second.
create table job_change (
    job_key     bigint primary key,
    changed_at  timestamptz not null default clock_timestamp()
);
create index job_change_latest on job_change (changed_at);


-- ==== Items and their state tables ================================================================

-- One item. Written once, except for edits by a person and the payloads of debounced items. Lists of items are ordered by (job_key, seq), which never
-- changes. Every further index costs an eighth to a seventh of the speed of adding.
create table item (
    id             uuid primary key,
    job_key        bigint not null,
    seq            bigint not null,          -- position in its job, from 1
    row            bigint,                   -- line of the file that it came from
    priority       smallint not null,
    payload        text not null,            -- as it arrived; a person's edits are in `item_edit`
    metadata       text,
    dedupe_key     text,
    serialize_key  text,
    run_after      timestamptz,              -- of a debounced item its start, which moves with later arrivals
    expires_at     timestamptz,
    fed_by         uuid,                     -- source item (`feeding`)
    traceparent    text,                     -- W3C trace context of the request that added it; null: that of its job
    created_at     timestamptz not null,
    changed_at     timestamptz               -- last edit by a person; null: never, so `item_edit` need not be read
);
create unique index item_order on item (job_key, seq);
-- Partial: items that came from no file cost nothing.
create index item_row on item (job_key, row) where row is not null;

-- One available item: all that a claim reads, so that waiting items cost it nothing.
--
-- Trees, or the groups of `fair_group`, take fair turns within a priority: a batch of a tree gets turns from the greater of the lowest turn here and
-- the tree's last turn plus one, ten items a turn, and a claim reads the primary key in order (`claiming`). Rows are
-- never updated in place: a claim picks them by ctid, which is only safe while a locked row is the row that was seen.
-- Vacuum runs early and unthrottled, because a claim passes over the dead rows at the head of the index.
--
-- Types with a limit for each key (`concurrency-by-key`, `rate-limit`) are the exception. Their items are parked under
-- minus their type, where no claim looks, so that they cost claims nothing. A claim admits as many of a key as its
-- limit allows, by changing the sign in place, under the lock of the type and only of rows that it has locked: whoever
-- waits for such a row finds it again.
create table ready (
    fair_turn           bigint not null,
    item_id             uuid not null,
    job_key             bigint not null,
    expires_at          timestamptz,
    type_id             integer not null,
    attempts            integer not null,    -- attempts so far
    failures            integer not null,    -- those of them that count toward `retry-budget`
    negated_priority    smallint not null,   -- minus the priority, so that ascending order takes the highest first
    serialize_queue_id  bigint,              -- travels with the row: an ending knows whether an item waits behind it
    limit_key           uuid,                -- key whose limit parks or admitted it; null: none
    primary key (type_id, negated_priority, fair_turn, item_id)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
create index ready_item on ready (item_id);
create index ready_limit_key on ready (type_id, limit_key, negated_priority, fair_turn, item_id)
    where limit_key is not null;
create index ready_expiry on ready (expires_at) where expires_at is not null;

-- Last fair turn of one group of a type whose items take turns by owners or keys (`fair-by`), at one priority, counted in
-- items, ten of which share a turn. Turns are reserved in commits of their own, so nobody waits for one; the turns of an add
-- that fails are lost. A group that was idle goes on at the lowest turn that waits or, if nothing waits, at the last one of
-- all groups, so that no group profits from having come late.
create table fair_group (
    type_id           integer not null references job_type on delete cascade,
    negated_priority  smallint not null,
    group_key         uuid not null,         -- owner, or hash of the pointer and the value; nil: no value
    last_turn         bigint not null,
    reserved          bigint not null,       -- number of turns of the last reservation
    used_at           timestamptz not null,
    primary key (type_id, negated_priority, group_key)
) with (fillfactor = 70);
create index fair_group_last on fair_group (type_id, negated_priority, last_turn);
create index fair_group_age on fair_group (used_at);

-- One reason to look at the parked items of a key again: some were added, one ended, or the rate limit allows more from
-- `due_at` on. Only inserted, so that nobody waits for it, and deleted by the next claim of the type, in order of time, so
-- that keys take turns. A parked item always has a hint, or an item of its key is admitted or runs and leaves one.
create table limit_hint (
    type_id    integer not null,
    limit_key  uuid not null,
    due_at     timestamptz not null
);
create index limit_hint_due on limit_hint (type_id, due_at);

-- Recent starts under a rate limit (`rate-limit`): of a type (nil key) or of one key. Read and written only under the
-- lock of the type.
create table rate_window (
    type_id     integer not null,
    limit_key   uuid not null,
    starts      text not null,               -- domain::rate_window::RateWindow
    expires_at  timestamptz not null,        -- from then on it limits nothing
    primary key (type_id, limit_key)
);
create index rate_window_expiry on rate_window (expires_at);

-- One item with a debounce key (`debounce`). While it is open, later items of the type and owner with its key replace the
-- payload of the item if that has not started; claims never look here, so only the next item with the key finds out and
-- then opens a row of its own. The row is the lock of its key.
create table debounce (
    item_id      uuid primary key,
    type_id      integer not null,
    owner_id     uuid not null,
    key          text not null,
    seconds      integer not null,           -- of the last item with the key
    max_seconds  integer not null,           -- of the last item with the key
    first_at     timestamptz not null,
    last_at      timestamptz not null,
    starts_by    timestamptz not null,       -- latest `item.run_after`
    merged       bigint not null default 0,  -- later items that replaced the payload
    is_open      boolean not null default true
);
create unique index debounce_open on debounce (type_id, owner_id, key) where is_open;

-- One item that waits for a time: scheduled (`run_after`) or retryable (backoff). Or one that waits for an event until
-- its timeout, if it has one (`waiting-for-events`); `event_wait` says which.
create table deferred (
    item_id             uuid primary key,
    job_key             bigint not null,
    due_at              timestamptz,         -- null: waits for an event without a timeout
    expires_at          timestamptz,
    type_id             integer not null,
    attempts            integer not null,
    failures            integer not null,
    negated_priority    smallint not null,
    retryable           boolean not null,    -- false: scheduled, or waiting for an event
    for_event           boolean not null default false,
    serialize_queue_id  bigint,
    constraint deferred_due check (for_event or due_at is not null)
);
create index deferred_due on deferred (due_at);
create index deferred_expiry on deferred (expires_at) where expires_at is not null;
create index deferred_job on deferred (job_key, item_id);
-- Items that keep failing (`alerts`). Rows here are written once, so only these pay for it.
create index deferred_failing on deferred (job_key) where failures >= 10;

-- One item that other jobs of its tree (`after`) or an older item of its serialize key (`serialize-key`) block.
create table blocked (
    item_id             uuid primary key,
    job_key             bigint not null,
    by_after            boolean not null,    -- false: by its serialize key only
    due_at              timestamptz,         -- earliest start after its release
    expires_at          timestamptz,
    type_id             integer not null,
    attempts            integer not null,
    failures            integer not null,
    negated_priority    smallint not null,
    serialize_queue_id  bigint
);
create index blocked_job on blocked (job_key, item_id);
create index blocked_expiry on blocked (expires_at) where expires_at is not null;

-- One open assignment: a running item. The id guards every write of the worker (`fencing`); `lease_item` enforces one
-- open assignment per item (`claiming`).
--
-- Heartbeats change no indexed column and pages keep free space, so that they stay on their page (HOT). One index
-- serves both the limit of a type and the assignments of a job, as a job has one type; every claim and every ending
-- pays for it.
create table lease (
    id                   uuid primary key,
    item_id              uuid not null,
    job_key              bigint not null,
    credential_id        uuid not null,      -- token it was given to; the id is useless without it
    started_at           timestamptz not null,
    last_heartbeat_at    timestamptz not null,
    run_until            timestamptz,        -- end by `run_timeout_seconds`
    expires_at           timestamptz,
    lease_seconds        double precision not null,  -- time without a heartbeat after which it is lost (`lease-expiry`)
    progress_done        bigint,
    progress_total       bigint,
    type_id              integer not null,
    attempt              integer not null,
    failures             integer not null,
    negated_priority     smallint not null,
    touched              boolean not null default false,  -- reported a step or progress: `at_most_once` work has begun
    cancel_requested_at  timestamptz,
    worker_id            text not null,
    progress_message     text,
    serialize_queue_id   bigint,
    seq                  bigint,             -- `item.seq`, which the claim reads anyway, so that an ending need not
    limit_key            uuid,               -- key that it counts for (`concurrency-by-key`); null: none
    constraint lease_item unique (item_id)
) with (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
create index lease_work on lease (type_id, job_key);
create index lease_limit_key on lease (type_id, limit_key) where limit_key is not null;

-- One final item, with the attempt that led there: a separate row of `attempt` for it would cost 5 to 8 % of the speed
-- and a fifth more WAL.
create table outcome (
    item_id        uuid primary key,
    job_key        bigint not null,
    seq            bigint not null,
    lease_id       uuid,                     -- null: no assignment led here (an unreadable row, a canceled item)
    started_at     timestamptz,
    ended_at       timestamptz not null,
    attempt        integer not null,
    failures       integer not null,
    state          smallint not null,        -- 1 succeeded, 2 dead, 3 cancelled, 4 expired
    -- 1 succeeded, 2 failed, 3 lease_lost, 4 timed_out, 5 released, 6 cancelled, 7 waiting.
    ended_as       smallint,
    worker_id      text,
    result         text,
    error_message  text,
    error_kind     text,
    error_detail   text,
    fingerprint    text,                     -- equal for errors that read alike (domain::fingerprint)
    superseded_by  uuid,                     -- item with the corrected row (`corrections`); state is then 3
    constraint outcome_state check (state between 1 and 4),
    constraint outcome_result_is_a_successs check ((state = 1) = (result is not null)),
    constraint outcome_lease_or_not check ((lease_id is null) = (started_at is null))
);
create unique index outcome_lease on outcome (lease_id) where lease_id is not null;
-- The state first: one index for the dead items of one job in order, and for everyone's. Success is not indexed.
create index outcome_by_state on outcome (state, job_key, seq) where state <> 1;
create index outcome_by_error on outcome (fingerprint, job_key, seq) where fingerprint is not null;

-- One attempt that did not make its item final. Never written at the claim, which would cost 30 % of the speed. Also
-- keeps the last response of a worker whose item was canceled (the outcome then names no assignment), and the final
-- attempt of an item that a person has retried (`manual-retry`).
create table attempt (
    item_id        uuid not null,
    attempt        integer not null,
    job_key        bigint not null,
    lease_id       uuid not null,
    started_at     timestamptz not null,
    ended_at       timestamptz not null,
    ended_as       smallint not null,        -- as in `outcome`
    worker_id      text not null,
    retry_at       timestamptz,
    error_message  text,
    error_kind     text,
    error_detail   text,
    result         text,
    final_state    smallint,                 -- final state that it led to (`outcome.state`), if any
    waited_for     text,                     -- name of the event that its worker ended it to wait for
    primary key (item_id, attempt),
    constraint attempt_lease unique (lease_id)
);

-- The last step that an item has reached (`steps`).
create table item_step (
    item_id     uuid primary key,
    name        text not null,
    data        text not null,
    reached_at  timestamptz not null default clock_timestamp()
);

-- The last wait of an item for an event, and the event that ended it (`waiting-for-events`). The row stays until the item
-- waits again: every claim after the event carries it, also after a lost lease. `deferred` says whether the item still
-- waits.
create table event_wait (
    item_id      uuid primary key,
    name         text not null,              -- name of the event
    form         text,                       -- JSON: questions that the data must answer
    began_at     timestamptz not null default clock_timestamp(),
    received_at  timestamptz,                -- null: no event yet
    timed_out    boolean not null default false,  -- ended by its timeout
    data         text,                       -- JSON, as it arrived; null after a timeout
    sender_kind  text,                       -- `audit.actor_kind` of the sender; null after a timeout
    sender_name  text,
    constraint event_wait_sender check ((received_at is null or timed_out) = (sender_kind is null))
);

-- One payload that a person has edited; the highest `edit` counts, the original stays in `item`.
create table item_edit (
    item_id    uuid not null,
    edit       integer not null,             -- number of the edit, from 1
    payload    text not null,
    edited_at  timestamptz not null default clock_timestamp(),
    primary key (item_id, edit)
);

-- Log lines of one request of a worker, as they arrived (`attempt-logs`). An attempt keeps its newest mebibyte.
create table attempt_log (
    item_id     uuid not null,
    attempt     integer not null,
    first_line  bigint not null,
    n_lines     integer not null,
    n_bytes     integer not null,
    lines       text not null,
    primary key (item_id, attempt, first_line)
);
comment on column attempt_log.first_line is 'Number of its first line in the attempt, from 1.';
comment on column attempt_log.n_bytes is 'Bytes of `lines`.';
comment on column attempt_log.lines is 'JSON array of lines: at, level, message, fields.';

-- Size of the log of one attempt. Its row is locked while lines are added, so their numbers have no gaps.
create table attempt_log_size (
    item_id    uuid not null,
    attempt    integer not null,
    n_lines    bigint not null,
    n_dropped  bigint not null default 0,
    n_bytes    bigint not null,
    primary key (item_id, attempt)
);
comment on column attempt_log_size.n_lines is 'Lines that were sent, dropped ones included.';
comment on column attempt_log_size.n_bytes is 'Bytes of the lines that are kept.';

-- Dead items of one job whose errors read alike, changed once per batch. At most 1,000 groups a job.
create table error_group (
    job_key         bigint not null,
    fingerprint     text not null,
    message         text not null,           -- of the first of them
    kind            text,
    n_dead          bigint not null,
    first_seen_at   timestamptz not null,
    last_seen_at    timestamptz not null,
    sample_item_id  uuid not null,
    primary key (job_key, fingerprint)
);

-- The same over all jobs of an owner and type.
create table owner_error (
    owner_id        uuid not null,
    type_id         integer not null,
    fingerprint     text not null,
    message         text not null,
    kind            text,
    n_dead          bigint not null,
    first_seen_at   timestamptz not null,
    last_seen_at    timestamptz not null,
    sample_item_id  uuid not null,
    primary key (owner_id, type_id, fingerprint)
);
create index owner_error_latest on owner_error (last_seen_at desc);
create index owner_error_by_error on owner_error (type_id, fingerprint);

-- What operators have decided about the errors of one type that read alike, over all owners (`error-group-states`). No
-- row: open, and always was. Locked after `owner_error`, in order of the key.
create table error_decision (
    type_id        integer not null,
    fingerprint    text not null,
    state          smallint not null,        -- 1 open, 2 muted, 3 resolved, 4 regressed
    mute_until     timestamptz,              -- opens then
    mute_failures  bigint,                   -- opens after so many more failures
    primary key (type_id, fingerprint),
    constraint error_decision_state check (state between 1 and 4),
    constraint error_decision_mute check (state = 2 or (mute_until is null and mute_failures is null))
);
create index error_decision_due on error_decision (mute_until) where mute_until is not null;

-- One change of the state of an error group.
create table error_change (
    id             bigint primary key generated always as identity,
    type_id        integer not null,
    fingerprint    text not null,
    changed_at     timestamptz not null default clock_timestamp(),
    state          smallint not null,        -- from then on, as in `error_decision`
    changed_by     text,                     -- name of the person or service; null: it opened by itself
    mute_until     timestamptz,
    mute_failures  bigint,
    note           text
);
create index error_change_of on error_change (type_id, fingerprint, id);

-- Failures of one error group in one minute (kept two hours) or hour (eight days), in UTC, over all owners. Written when
-- servers flush their statistics, never by counting rows.
create table error_history (
    type_id      integer not null,
    fingerprint  text not null,
    step         smallint not null check (step between 1 and 2),  -- 1 minute, 2 hour
    starts_at    timestamptz not null,
    n            bigint not null,
    primary key (type_id, fingerprint, step, starts_at)
);
create index error_history_age on error_history (step, starts_at);


-- ==== Keys ========================================================================================
-- Idempotency keys and dedupe keys of jobs cross trees. They are locked before anything else, sorted: waiting for a
-- unique index is a lock, too. Serialize queues are locked after leases, before the rows that wait in them, in order of
-- their ids.

-- One serialize key of an owner (`serialize-key`). Created in a commit of its own, so that no transaction waits for an
-- uncommitted one; a background task deletes empty ones.
create table serialize_queue (
    id             bigint primary key generated always as identity,
    owner_id       uuid not null,
    key            text not null,
    next_position  bigint not null default 1,
    constraint serialize_queue_key unique (owner_id, key)
);

-- One pending item of a serialize key. Positions are given out under the lock of the queue, because neither ids nor
-- times are in the order of commits.
create table serialize_queue_entry (
    serialize_queue_id  bigint not null,
    position            bigint not null,
    item_id             uuid not null,
    primary key (serialize_queue_id, position),
    constraint serialize_queue_entry_item unique (item_id)
);

-- One dedupe key of a job (`dedupe-key`).
create table job_dedupe (
    owner_id  uuid not null,
    type_id   integer not null,
    key       text not null,
    job_id    uuid not null,
    primary key (owner_id, type_id, key)
);

-- One dedupe key of an item.
create table item_dedupe (
    job_key  bigint not null,
    key      text not null,
    item_id  uuid not null,
    primary key (job_key, key)
);

-- One Idempotency-Key (`idempotency-key`). Written in the transaction of what it creates: both exist, or neither does.
create table idempotency (
    owner_id     uuid not null,
    scope        text not null,              -- initiator for whom the owner acts; empty: none
    key          text not null,
    fingerprint  bytea not null,             -- SHA-256 of the body
    call         text not null default 'POST /jobs',  -- request that it was used for
    job_id       uuid,                       -- root of the tree that was created
    status       smallint,                   -- stored response of other calls: HTTP status and body
    answer       text,
    lines        bigint not null default 0,  -- committed lines of a stream
    created_at   timestamptz not null default clock_timestamp(),  -- start of the window
    lapses_at    timestamptz not null,       -- end of the window
    primary key (owner_id, scope, key)
);
create index idempotency_lapses on idempotency (lapses_at);
create index idempotency_job on idempotency (job_id) where job_id is not null;
-- Finds jobs by the key that created them; staff search over all owners.
create index idempotency_key_job on idempotency (key) where job_id is not null;

-- One claim with a `claim_id`: the same claim again returns what is still open of it (`claiming`).
create table claim_request (
    credential_id  uuid not null,
    claim_id       uuid not null,
    lease_ids      uuid[] not null,
    created_at     timestamptz not null default clock_timestamp(),
    primary key (credential_id, claim_id)
);


-- ==== Operator actions ============================================================================

-- One bulk operation over items or jobs. Rows are locked in the order job_state, member, hold, operation.
create table bulk (
    id              uuid primary key,
    -- Requester, with the rights at the time of the request.
    actor_id        uuid not null,
    actor_kind      text not null,
    actor_name      text not null,
    role            text,
    admin           boolean not null,
    requested_by    uuid,                    -- token or session
    action          text not null,
    target          text not null,
    filter          text not null,           -- JSON, as it was given
    wanted          text not null,           -- JSON, the same filter as the list of items or jobs understood it
    payload_edit    text not null,
    reason          text,
    rate            double precision,        -- members per second; null: no limit
    dry_run         boolean not null,
    state           text not null default 'counting',
    stopped_reason  text,                    -- why the server stopped it
    -- Last place of the list that was counted, in the order of the list.
    place_job_key   bigint,
    place_seq       bigint,
    total           bigint not null default 0,
    processed       bigint not null default 0,
    skipped         bigint not null default 0,
    errored         bigint not null default 0,
    sample          text not null default '[]',
    busy_until      timestamptz not null default '-infinity',  -- until then one server counts the list
    next_at         timestamptz not null default '-infinity',  -- earliest time of the next member, if there is a rate
    created_at      timestamptz not null default clock_timestamp(),
    updated_at      timestamptz not null default clock_timestamp(),
    finished_at     timestamptz,
    constraint bulk_action check (action in ('retry', 'cancel', 'delete')),
    constraint bulk_target check (target in ('items', 'jobs')),
    constraint bulk_state check (state in ('counting', 'ready', 'running', 'completed', 'cancelling', 'cancelled')),
    constraint bulk_finished check ((finished_at is not null) = (state in ('ready', 'completed', 'cancelled'))),
    constraint bulk_counted check (processed + skipped + errored <= total),
    constraint bulk_rate check (rate > 0)
) with (fillfactor = 50);
create index bulk_owner on bulk (actor_id, id);
create index bulk_open on bulk (id) where finished_at is null;
create index bulk_finished_at on bulk (finished_at) where finished_at is not null;

-- One member of a bulk operation, frozen when it was counted.
create table bulk_member (
    bulk_id      uuid not null,
    member_id    uuid not null,              -- item or job
    root_id      uuid not null,
    pos          bigint not null,            -- order of execution
    taken_until  timestamptz,                -- until then one server works on it
    tries        smallint not null default 0,
    done         boolean not null default false,  -- written in the transaction of the action, so a member counts once
    primary key (bulk_id, member_id)
);
create index bulk_member_next on bulk_member (bulk_id, pos) where not done;

-- Skipped members of a bulk operation, by reason.
create table bulk_skip (
    bulk_id  uuid not null,
    reason   text not null,
    n        bigint not null,
    primary key (bulk_id, reason)
);

-- One tree whose completion a bulk retry holds (`job_state.holds`).
create table bulk_hold (
    bulk_id  uuid not null,
    root_id  uuid not null,
    members  bigint not null,                -- its members that are not done
    primary key (bulk_id, root_id)
);

-- One tree that is being filled with the items of another (`replay`). Both are held (`job_state.holds`) until the rows
-- have followed: the new tree completes once, and the old one is not deleted.
create table replay (
    root_id       uuid primary key,
    from_root_id  uuid not null
);

-- One job of such a tree that is still owed items; `job_state.open_feeds` counts the row. Within a tree the lowest
-- `job_key` goes first.
create table replay_copy (
    root_id       uuid not null,
    job_key       bigint not null,
    from_job_key  bigint not null,
    seq           bigint not null default 0, -- items of the source job up to here are copied
    primary key (root_id, job_key)
);


-- ==== Retention ===================================================================================

-- The next check of one tree that is open or will be deleted: at the end of its retention, or when it would count as
-- stalled. One index probe finds the due trees, and `job_state` needs no index for it. An open tree cannot be due
-- earlier than `retain_seconds` from now, so it is checked rarely.
create table maintenance_check (
    job_key        bigint primary key,       -- of the root
    next_check_at  timestamptz not null
);
create index maintenance_check_due on maintenance_check (next_check_at);

-- Progress of two scans that enter new roots into `maintenance_check`, in order of `job_key`. The first goes to the
-- newest root at once. The second stays a minute behind: it finds roots whose transaction committed after the first had
-- passed them, as keys are not in the order of commits.
create table maintenance_cursor (
    scan     smallint primary key,
    job_key  bigint not null default 0,
    constraint maintenance_cursor_two check (scan in (1, 2))
);
insert into maintenance_cursor (scan) values (1), (2);

-- One job that was deleted: 410 instead of 404 for 90 days, for those who could see it.
create table tombstone (
    job_id      uuid primary key,
    root_id     uuid not null,
    owner_id    uuid not null,
    deleted_at  timestamptz not null default clock_timestamp()
);
create index tombstone_deleted_at on tombstone (deleted_at);

-- One job of a deleted tree whose rows are still to be deleted.
create table purge (
    job_key  bigint primary key,
    seq      bigint not null default 0       -- items up to here are gone
);

-- Sums over deleted trees, by the day (UTC) of their completion. Kept forever.
create table daily_total (
    owner_id     uuid not null,
    day          date not null,
    job_type     text not null,
    outcome      smallint not null,          -- as `job_state.tree_outcome`
    n_jobs       bigint not null,
    n_succeeded  bigint not null,
    n_dead       bigint not null,
    n_cancelled  bigint not null,
    n_expired    bigint not null,
    primary key (owner_id, day, job_type, outcome)
);


-- ==== Notifications, audit, alerts ================================================================

-- One message for the broker (RabbitMQ). Written in the commit that makes it true, once per batch and type and never
-- per item, and only while a server has a broker. Only a hint: what may be claimed is in `ready`. Servers take rows for
-- a while and delete confirmed ones.
create table outbox (
    id           bigint primary key generated always as identity,
    kind         smallint not null,          -- 1 items of a type can be claimed, 2 items are dead, 3 trees are complete
    type_id      integer,                    -- kind 1
    item_ids     uuid[] not null,            -- kinds 1 and 2
    job_keys     bigint[] not null,          -- jobs of item_ids, element by element; kind 3: roots
    created_at   timestamptz not null default clock_timestamp(),
    taken_until  timestamptz,                -- until then one server publishes it
    constraint outbox_kind check (kind between 1 and 3),
    constraint outbox_type check ((kind = 1) = (type_id is not null))
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- Position in `ready` of the scan that sends lost wake-ups of one type again, in the order of claims. The scan changes
-- no row of `ready`. Null columns: at the start.
create table wake_up_cursor (
    type_id           integer primary key,
    negated_priority  smallint,
    fair_turn         bigint,
    item_id           uuid,
    rests_until       timestamptz            -- earliest start of the next round, so that no item is announced too often
);

-- The age from which that scan announces rows. What was written before `old_xid` has been there for a while; the scan
-- skips younger rows, whose own wake-up may still be on its way. Rows of `ready` carry no time, only their transaction.
create table wake_up_horizon (
    only_row  boolean primary key default true,
    old_xid   bigint,
    new_xid   bigint,                        -- becomes old_xid when it is old enough
    new_at    timestamptz,
    constraint wake_up_horizon_one check (only_row)
);
insert into wake_up_horizon default values;

-- One message that is delivered: a completion webhook (one row for each time a tree with `on_completed` completes, written
-- in the commit that completes it, with everything that is posted), or an event of an alert for one receiver of an alert
-- channel. The former outlives its tree by 30 days (`completion-webhook`), the latter is kept for 30 days
-- (`alert-channels`).
create table delivery (
    id            uuid primary key,          -- webhook-id of every try
    job_id        uuid,                      -- root; null: of an alert or a notice
    owner_id      uuid not null,             -- of an alert the channel, so that no channel holds up the others
    completion    integer,                   -- `job_state.completion`
    state         smallint not null default 1,  -- 1 pending, 2 delivered, 3 failed, 4 abandoned, 5 superseded
    target        text,                      -- `on_completed`, sealed; each try reads that of `job`, if it still exists
    host          text not null,             -- host and port: a receiver that hangs does not hold up the others
    outcome       smallint,                  -- as `job_state.tree_outcome`
    counts        text,                      -- JSON
    metadata      text,
    completed_at  timestamptz,
    channel_id    uuid,                      -- alert channel; it may have been deleted since
    alert_id      uuid,                      -- null: of a tree, or a test of the channel
    event         text,                      -- domain::alert_channel::AlertEvent
    alert         text,                      -- the alert as it was at that time: JSON
    recipient     text,                      -- address of mail
    notice_id     uuid,                      -- notice to `owner_id`; null: of a tree or an alert
    created_at    timestamptz not null default clock_timestamp(),
    -- Start of the retry schedule. A person who sends it again restarts it.
    began_at      timestamptz not null default clock_timestamp(),
    round         integer not null default 0,  -- tries since began_at
    tries         integer not null default 0,  -- all tries
    next_try_at   timestamptz,
    leased_until    timestamptz,               -- until then one server posts it
    deleted_at    timestamptz,               -- deletion of its tree; of others when it was written: it goes 30 days later
    constraint delivery_completion unique (job_id, completion),
    constraint delivery_of_tree_alert_or_notice check (
      case when notice_id is not null
        then job_id is null and channel_id is null and target is null and event is null
      when channel_id is null
        then job_id is not null and completion is not null and outcome is not null and counts is not null
          and metadata is not null and completed_at is not null and event is null
        else job_id is null and event is not null
          and (event in ('raised', 'cleared') and alert_id is not null and alert is not null or event = 'test')
      end),
    constraint delivery_state check (state between 1 and 5),
    constraint delivery_pending_has_a_time check ((state = 1) = (next_try_at is not null))
);
create index delivery_due on delivery (next_try_at) where state = 1;
create index delivery_owner on delivery (owner_id, id);
-- Undelivered ones are few among the delivered.
create index delivery_undelivered on delivery (id) where state <> 2;
create index delivery_deleted on delivery (deleted_at) where deleted_at is not null;
-- Each event of an alert goes to each receiver once.
create unique index delivery_alert on delivery (channel_id, alert_id, event, recipient) nulls not distinct
    where alert_id is not null;
-- Each notice goes to each receiver once.
create unique index delivery_notice on delivery (notice_id, recipient) nulls not distinct
    where notice_id is not null;

-- One try of a delivery.
create table delivery_try (
    delivery_id  uuid not null,
    n            integer not null,
    at           timestamptz not null,
    status       smallint,                   -- HTTP status; null: no response
    error        text,
    primary key (delivery_id, n)
);

-- One alert (`alerts`).
create table alert (
    id               uuid primary key,
    kind             text not null,          -- domain::alert::AlertKind
    subject          text not null,
    message          text not null,
    owner_id         uuid,                   -- owner of the work; null: everyone's, shown to staff only
    job_type         text,
    root_id          uuid,
    job_id           uuid,
    item_id          uuid,
    count            bigint not null default 1,
    raised_at        timestamptz not null default clock_timestamp(),
    last_seen_at     timestamptz not null default clock_timestamp(),
    cleared_at       timestamptz,
    sent_at          timestamptz,            -- message to TREELINE_ALERT_URL that it was raised
    cleared_sent_at  timestamptz             -- message that it was cleared
);
-- Several servers look for the same condition; one row wins.
create unique index alert_open on alert (kind, subject) where cleared_at is null;
create index alert_newest on alert (raised_at, id);
create index alert_owner on alert (owner_id, raised_at, id) where owner_id is not null;
create index alert_cleared on alert (cleared_at) where cleared_at is not null;
create index alert_unsent on alert (raised_at) where sent_at is null;
create index alert_cleared_unsent on alert (cleared_at) where cleared_at is not null and cleared_sent_at is null;

-- One alert channel: a receiver of alerts, and the rule by which it receives them (`alert-channels`). The row is locked
-- while its messages are written.
create table alert_channel (
    id             uuid primary key,
    name           text not null,
    kind           text not null,            -- domain::alert_channel::ChannelKind
    target         text not null,            -- URL, secrets and addresses, sealed
    kinds          text[] not null,          -- kinds of alerts; empty: all
    types          text[] not null,          -- job types; empty: all, and alerts about no type
    min_count      bigint not null,          -- smallest `alert.count`
    after_seconds  bigint not null,          -- time for which an alert must be open
    send_cleared   boolean not null,
    quiet_hours    text,                     -- domain::alert_channel::QuietHours: JSON
    paused         boolean not null,
    created_at     timestamptz not null default clock_timestamp(),
    updated_at     timestamptz not null default clock_timestamp(),
    constraint alert_channel_kind check (kind in ('email', 'slack', 'pagerduty', 'webhook'))
);

-- What a channel has done about an alert that its rule matched.
create table alert_announcement (
    channel_id  uuid not null references alert_channel on delete cascade,
    alert_id    uuid not null references alert on delete cascade,
    state       smallint not null,           -- 1 held back by quiet hours, 2 raised was sent, 3 nothing more to send
    primary key (channel_id, alert_id),
    constraint alert_announcement_state check (state between 1 and 3)
);
create index alert_announcement_alert on alert_announcement (alert_id);
create index alert_announcement_open on alert_announcement (channel_id, alert_id) where state <> 3;

-- One person who watches a tree (`notices`). Whoever starts an import watches it. Deleted with its tree.
create table job_watch (
    root_id     uuid not null,
    owner_id    uuid not null,               -- the person
    -- The tree has not completed since, and its watchers have not been told that it needs attention.
    attends     boolean not null default true,
    created_at  timestamptz not null default clock_timestamp(),
    primary key (root_id, owner_id)
);
create index job_watch_attends on job_watch (root_id, owner_id) where attends;

-- How one person receives notices; without a row only in the pages.
create table notice_settings (
    owner_id      uuid primary key references owner,
    in_page       boolean not null,
    browser       boolean not null,
    email         boolean not null,
    webhook       text,                      -- URL and secret, sealed
    webhook_host  text,                      -- its host and port
    constraint notice_settings_webhook check ((webhook is null) = (webhook_host is null))
);

-- One notice to one person about a tree (`notices`). Deleted with its tree, or after thirty days.
create table notice (
    id          uuid primary key,
    owner_id    uuid not null,               -- the person
    root_id     uuid not null,
    kind        text not null,               -- domain::notice::NoticeKind
    completion  integer not null,            -- `job_state.completion`, to be reached or reached
    outcome     smallint,                    -- as `job_state.tree_outcome`; null: not complete
    dead        bigint not null,             -- dead items at that time
    listed      boolean not null,            -- shown in the pages
    created_at  timestamptz not null default clock_timestamp(),
    read_at     timestamptz,
    constraint notice_kind check (kind in ('finished', 'needs_attention')),
    constraint notice_once unique (root_id, owner_id, kind, completion)
);
create index notice_newest on notice (owner_id, id) where listed;
create index notice_unread on notice (owner_id, id) where listed and read_at is null;
create index notice_age on notice (created_at);

-- The first item in the queue of a type, and since when. If it stays the first, nobody claims: alert `unclaimed`.
create table queue_head (
    type_id  integer primary key,
    item_id  uuid not null,
    since    timestamptz not null default clock_timestamp()
);

-- One action of a person or a service, with its reason. Outlives the tree. Servers only add rows: `treeline_grant_app`
-- gives their role no more. Never written on the hot path.
create table audit (
    id             uuid primary key,
    actor_id       uuid not null,
    actor_kind     text not null,
    actor_name     text not null,
    address        text,                     -- address of the client; null: the server itself
    credential_id  uuid,                     -- session or token; null: the server itself
    action         text not null,
    owner_id       uuid,                     -- owner of the work
    root_id        uuid,
    job_id         uuid,
    item_id        uuid,
    operation_id   uuid,                     -- bulk operation
    reason         text,
    detail         text,
    at             timestamptz not null default clock_timestamp()
);
-- Lists are read newest first by (at, id), each filter with an index of its own.
create index audit_at on audit (at desc, id);
create index audit_newest on audit (at, id);
create index audit_owner on audit (owner_id, at desc);
create index audit_root on audit (root_id, at desc);
create index audit_actor on audit (actor_name, at, id);
create index audit_action on audit (action, at, id);
create index audit_job on audit (job_id, at, id) where job_id is not null;
create index audit_item on audit (item_id, at, id) where item_id is not null;
create index audit_operation on audit (operation_id) where operation_id is not null;

-- One owner whose work a bulk operation changed. The operation is a single entry of the log, which each of them sees.
create table audit_operation_owner (
    operation_id  uuid not null,
    owner_id      uuid not null,
    primary key (operation_id, owner_id)
);
create index audit_operation_owner_owner on audit_operation_owner (owner_id, operation_id);

-- The last audit entry that was taken for TREELINE_AUDIT_URL. One row, inserted by the first server with that setting.
create table audit_post (
    singleton   boolean primary key default true,
    at          timestamptz not null default clock_timestamp(),
    id          uuid not null default '00000000-0000-0000-0000-000000000000',
    busy_until  timestamptz not null default '-infinity',  -- until then one server posts
    constraint audit_post_singleton check (singleton)
);

-- One message to a URL of the configuration, such as TREELINE_ALERT_URL. Written in the commit that marks its content
-- as sent; deleted when it was delivered or the tries are used up, which are those of a completion webhook.
create table outbound_post (
    id           text primary key,           -- webhook-id of every try
    purpose      text not null,              -- `alerts` or `audit`: selects the URL and the key that signs
    body         text not null,
    began_at     timestamptz not null default clock_timestamp(),
    next_try_at  timestamptz not null default clock_timestamp(),
    tries        integer not null default 0,
    leased_until   timestamptz,                -- until then one server posts it
    last_error   text
);
create index outbound_post_due on outbound_post (purpose, next_try_at);


-- ==== Schedules ===================================================================================

-- One schedule: creates a tree at each tick of a cron expression. The row is locked while its ticks are handled.
create table schedule (
    id                       uuid primary key,
    owner_id                 uuid not null references owner,
    name                     text not null,
    cron                     text not null,
    time_zone                text not null,  -- IANA name
    job                      text not null,  -- body of POST /jobs, as it was given
    overlap                  text not null,  -- when the previous tree is still open
    catch_up                 text not null,  -- missed ticks
    catch_up_window_seconds  bigint not null,
    starts_at                timestamptz,
    ends_at                  timestamptz,
    paused                   boolean not null,
    -- Credential that stands for the owner. For a person the account counts, as a session ends sooner than a schedule.
    made_by                  uuid not null,
    made_by_person           boolean not null,
    next_at                  timestamptz,    -- next tick; null: paused, or no more ticks
    next_check_at            timestamptz,    -- next tick, or sooner while runs are queued
    last_seq                 bigint not null default 0,   -- `schedule_run.seq` of the last run
    queued                   integer not null default 0,  -- runs that wait for the previous tree
    created_at               timestamptz not null default clock_timestamp(),
    updated_at               timestamptz not null default clock_timestamp(),
    constraint schedule_overlap check (overlap in ('skip', 'queue', 'cancel_previous')),
    constraint schedule_catch_up check (catch_up in ('none', 'last', 'all')),
    constraint schedule_queued check (queued >= 0)
) with (fillfactor = 50);
create index schedule_owner on schedule (owner_id, id);
create index schedule_due on schedule (next_check_at) where next_check_at is not null;

-- One run of a schedule; the newest thousand are kept.
create table schedule_run (
    schedule_id  uuid not null references schedule on delete cascade,
    seq          bigint not null,
    tick         timestamptz not null,       -- time that the cron expression names; of a run by hand, of the request
    at           timestamptz not null default clock_timestamp(),
    state        text not null,
    -- Root of its tree, derived from the schedule and the tick: at most one tree per tick (`schedule-exactly-once`).
    job_id       uuid,
    reason       text,                       -- why it was skipped
    problem      text,                       -- why it failed: a problem document
    by_hand      boolean not null default false,
    primary key (schedule_id, seq),
    constraint schedule_run_state check (state in ('started', 'queued', 'skipped', 'failed')),
    constraint schedule_run_started check ((job_id is not null) = (state = 'started'))
);
create unique index schedule_run_tick on schedule_run (schedule_id, tick) where not by_hand;
create index schedule_run_started on schedule_run (schedule_id, seq) where state = 'started';
create index schedule_run_queued on schedule_run (schedule_id, seq) where state = 'queued';


-- ==== Saved views ================================================================================

-- One saved view: the filter and the order of a list under a name (`saved-views`).
create table saved_view (
    id          uuid primary key,
    owner_id    uuid not null references owner,
    list        text not null,               -- domain::saved_view::ViewList
    name        text not null,
    q           text not null,               -- filter, as it was given
    sort        text,                        -- null: the list's default
    shared      boolean not null,            -- everyone may use it
    created_at  timestamptz not null default clock_timestamp(),
    updated_at  timestamptz not null default clock_timestamp(),
    constraint saved_view_name unique (owner_id, list, name),
    constraint saved_view_list check (list in ('jobs', 'items', 'failures'))
);
create index saved_view_shared on saved_view (list, id) where shared;

-- The view that an owner's list opens with: an own one, or one that is shared.
create table default_view (
    owner_id  uuid not null references owner,
    list      text not null,
    view_id   uuid not null references saved_view on delete cascade,
    primary key (owner_id, list)
);
create index default_view_view on default_view (view_id);

-- ==== Statistics and history ======================================================================

-- One worker that has claimed, up to a few seconds ago; deleted after a day. What it works on is in `lease`.
create table worker (
    credential_id  uuid not null,
    worker_id      text not null,
    owner_id       uuid not null,
    types          text[] not null,          -- job types it asked for
    first_seen_at  timestamptz not null default clock_timestamp(),  -- written once, so later claims cost no more
    last_seen_at   timestamptz not null,
    primary key (credential_id, worker_id)
);
create index worker_latest on worker (last_seen_at desc);

-- The last claim for a type by any worker.
create table type_last_claim (
    type_name   text primary key,
    claimed_at  timestamptz not null
);

-- Items of one type that were added and that ended within ten seconds; an hour is kept.
create table type_tick (
    type_name  text not null,
    tick       bigint not null,              -- number of the ten seconds since 1970
    n_in       bigint not null,
    n_out      bigint not null,
    primary key (type_name, tick)
);
create index type_tick_age on type_tick (tick);

-- Activity of one job type in one minute (kept 48 hours), hour (30 days) or day (2 years), in UTC. Written when servers
-- flush their statistics, never by counting rows.
create table type_history (
    type_name    text not null,
    step         smallint not null check (step between 1 and 3),  -- 1 minute, 2 hour, 3 day
    starts_at    timestamptz not null,
    n_added      bigint not null default 0,
    n_succeeded  bigint not null default 0,
    n_failed     bigint not null default 0,  -- attempts that failed, timed out, or lost their lease
    n_dead       bigint not null default 0,
    n_cancelled  bigint not null default 0,
    n_expired    bigint not null default 0,
    n_retried    bigint not null default 0,  -- final items that a person or a program retried
    waits        bigint[] not null default '{}',  -- numbers by bucket of domain::histogram; empty: none
    runs         bigint[] not null default '{}',
    primary key (type_name, step, starts_at)
);
create index type_history_age on type_history (step, starts_at);

-- Activity of one job's own items in one minute (kept 48 hours), hour (30 days) or day (2 years, at most as long as its
-- tree), in UTC. Written in the same way; only of jobs with at least 20 items, so that small jobs cost nothing here.
create table job_history (
    job_key      bigint not null,
    step         smallint not null check (step between 1 and 3),  -- 1 minute, 2 hour, 3 day
    starts_at    timestamptz not null,
    n_added      bigint not null default 0,
    n_succeeded  bigint not null default 0,
    n_failed     bigint not null default 0,  -- attempts, as in `type_history`
    n_dead       bigint not null default 0,
    n_cancelled  bigint not null default 0,
    n_expired    bigint not null default 0,
    primary key (job_key, step, starts_at)
);
create index job_history_age on job_history (step, starts_at);

-- Attempts of one worker that ended in one minute (kept 3 hours) or hour (48 hours), in UTC. Written in the same way.
create table worker_history (
    credential_id  uuid not null,
    worker_id      text not null,
    step           smallint not null check (step between 1 and 2),  -- 1 minute, 2 hour
    starts_at      timestamptz not null,
    n_succeeded    bigint not null default 0,
    n_failed       bigint not null default 0,
    runs           bigint[] not null default '{}',  -- numbers by bucket of domain::histogram
    primary key (credential_id, worker_id, step, starts_at)
);
create index worker_history_age on worker_history (step, starts_at);

-- One of the last failed attempts of a worker: the newest 20 of each, kept 48 hours. A copy, because attempts are found
-- by their items and not by their workers.
create table worker_error (
    credential_id  uuid not null,
    worker_id      text not null,
    ended_at       timestamptz not null,
    item_id        uuid not null,
    ended_as       smallint not null,        -- as in `outcome`
    message        text not null,            -- its first 500 characters
    primary key (credential_id, worker_id, ended_at, item_id)
);
create index worker_error_age on worker_error (ended_at);

-- Items of one type by state, in the order available, running, retryable, scheduled, blocked, succeeded, dead,
-- cancelled, expired, waiting_for_event.
create table type_statistics (
    type_id  integer primary key,
    n        bigint[] not null,              -- shown: result of the last complete scan
    scanned  bigint[] not null               -- sum of the scan in progress
);

-- Progress of the scan over `job_state` that adds them up, a bounded piece at a time.
create table statistics_cursor (
    only_row    boolean primary key default true,
    job_key     bigint not null default 0,
    began_at    timestamptz not null default clock_timestamp(),
    counted_at  timestamptz,                 -- start of the last complete scan: the time of `n`; null: none yet
    constraint statistics_cursor_one check (only_row)
);
insert into statistics_cursor default values;


-- ==== Servers and keys ============================================================================

-- The last time that any server ran, written by each every second. In a gap of more than five seconds no heartbeat
-- could be received: leases then count from `resumed_at`, five seconds after the return (`lease-expiry`).
create table uptime (
    only_row      boolean primary key default true,
    last_seen_at  timestamptz not null default clock_timestamp(),
    resumed_at    timestamptz not null default clock_timestamp(),
    constraint uptime_one check (only_row)
);
insert into uptime default values;

-- One key that has sealed secrets of this database; only its id, never the key.
create table sealing_key (
    id           text primary key,
    is_current   boolean not null,           -- seals now
    created_at   timestamptz not null default clock_timestamp(),
    complete_at  timestamptz                 -- every secret is sealed with it; null: a rotation is in progress
);
create unique index sealing_key_current on sealing_key (is_current) where is_current;

-- One running server and the keys that it can open, so that a rotation waits for servers without the new key.
create table sealing_server (
    server_id   uuid primary key,
    key_ids     text[] not null,
    seals_with  text not null,
    seen_at     timestamptz not null default clock_timestamp()
);

-- The deployment's key that signs outgoing requests whose target has no secret of its own. Created at the first start,
-- the same for all servers.
create table signing_key (
    only_row  boolean primary key default true,
    key       bytea,                         -- not sealed; a starting server replaces it by `sealed`
    sealed    text,
    constraint signing_key_one check (only_row)
);


-- ==== Privileges of the server's role =============================================================

-- Grants a role that does not own the tables what a server needs (docs/postgres.md). `treeline-server migrate
-- --app-role` calls it after the migrations, as the owner. One transaction: at no moment may the role change the audit
-- log.
create function treeline_grant_app(app name) returns void
language plpgsql as $$
declare
    here text := current_schema();
begin
    execute format('grant usage on schema %I to %I', here, app);
    execute format('grant select, insert, update, delete on all tables in schema %I to %I', here, app);
    execute format('grant usage, select on all sequences in schema %I to %I', here, app);
    execute format('revoke update, delete, truncate, references, trigger on audit from %I', app);
    if to_regclass('_sqlx_migrations') is not null then
        execute format('revoke all on _sqlx_migrations from %I', app);
        execute format('grant select on _sqlx_migrations to %I', app);
    end if;
end
$$;
revoke all on function treeline_grant_app(name) from public;
