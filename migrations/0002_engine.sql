-- The engine: trees of jobs, their items, and where each item stands (spec §2).
--
-- State is the narrow table that holds the row. A pending item is in exactly one of ready, deferred,
-- blocked and lease; a final one is in outcome. `item` itself is written once. What is hot is narrow:
-- a claim reads `ready` and nothing else, and counters are on `gate`, one row a job, written once for
-- a whole batch.
--
-- There are no foreign keys between the hot tables: every one of them would be a second look-up per
-- row, and the statements that move items between tables hold both ends anyway.
--
-- Documents are text, never jsonb: jsonb rewrites numbers (1e400, 1.10, 2^53+1), and nine kilobytes of
-- 1e131071 come back as 131 megabytes.

-- ---- Job types ----------------------------------------------------------------------------------

create table job_type (
    id                       integer primary key generated always as identity,
    name                     text not null,
    delivery                 text not null,
    -- Null: unlimited.
    max_failures             integer,
    concurrency              integer,
    backoff_min_seconds      double precision not null,
    backoff_max_seconds      double precision,
    backoff_factor           double precision not null,
    backoff_jitter           boolean not null,
    heartbeat_seconds        double precision not null,
    run_timeout_seconds      double precision,
    steps                    text[] not null,
    retain_seconds           bigint,
    payload_schema           text,
    executor                 text not null,
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

-- ---- Uploaded files -----------------------------------------------------------------------------

create table upload (
    id          uuid primary key,
    owner_id    uuid not null references owner,
    filename    text not null,
    bytes       bigint not null,
    sha256      text not null,
    format      text not null,
    -- Set by the first job that reads it; unused uploads are removed after a day.
    used_at     timestamptz,
    created_at  timestamptz not null default clock_timestamp(),
    constraint upload_format check (format in ('csv', 'ndjson'))
);
create index upload_owner on upload (owner_id, created_at desc);

-- ---- Jobs ---------------------------------------------------------------------------------------

-- What was asked for; written at creation. What changes all the time is on the gate.
create table job (
    id              uuid primary key,
    root_id         uuid not null,
    gate_id         bigint not null,
    -- Topological place within the tree; the root is 0.
    ord             integer not null,
    parent_id       uuid,
    owner_id        uuid not null references owner,
    type_id         integer not null references job_type,
    key             text not null,
    name            text,
    -- Frozen from the type at creation.
    delivery        text not null,
    max_failures    integer,
    steps           text[] not null,
    payload_schema  text,
    retain_seconds  bigint,
    --
    priority        smallint not null default 0,
    run_after       timestamptz,
    expires_at      timestamptz,
    expected_count  bigint,
    final_stage     boolean not null default false,
    -- Feed rule and `after` keys as they were given.
    feed            text,
    after           text[] not null default '{}',
    after_outcome   text,
    metadata        text not null default '{}',
    dedupe_key      text,
    initiated_by    text,
    on_completed    text,
    upload_id       uuid references upload,
    replay_of       uuid,
    superseded_by   uuid,
    -- The gate of the tree's first job of this type: it carries the tree's turns.
    turn_gate_id    bigint not null,
    created_at      timestamptz not null default clock_timestamp(),
    constraint job_gate unique (gate_id),
    constraint job_place unique (root_id, ord),
    constraint job_key unique (root_id, key),
    constraint job_root check ((parent_id is null) = (root_id = id))
);
create index job_owner_roots on job (owner_id, gate_id desc) where parent_id is null;
create index job_roots on job (gate_id desc) where parent_id is null;
create index job_parent on job (parent_id, ord) where parent_id is not null;
create index job_type_jobs on job (type_id, gate_id desc);

create sequence gate_id as bigint;

-- One row a job: the lock, the counters, the completion. Gates are locked in order of gate_id, which
-- is topological within a tree, and nothing locks a gate early and then waits for an item.
create table gate (
    gate_id            bigint primary key,
    root_id            uuid not null,
    -- A tree of one job that waits for nothing else completes in the gate's own update.
    solo               boolean not null,
    sealed             boolean not null default false,
    cancelled_at       timestamptz,
    n_available        bigint not null default 0,
    n_running          bigint not null default 0,
    n_retryable        bigint not null default 0,
    n_scheduled        bigint not null default 0,
    n_blocked          bigint not null default 0,
    n_succeeded        bigint not null default 0,
    n_dead             bigint not null default 0,
    n_cancelled        bigint not null default 0,
    n_expired          bigint not null default 0,
    -- Feeds that are recorded but not carried out yet.
    open_feeds         integer not null default 0,
    next_seq           bigint not null default 1,
    -- In items, ten of which share a turn; kept on the tree's first gate of a type.
    last_turn          bigint not null default 0,
    version            bigint not null default 1,
    started_at         timestamptz,
    completed_at       timestamptz,
    completion         integer not null default 0,
    updated_at         timestamptz not null default clock_timestamp(),
    -- The tree, on its root's gate only: jobs not complete, people's holds, and the end.
    open_jobs          integer not null default 0,
    holds              integer not null default 0,
    keep               boolean not null default false,
    tree_completed_at  timestamptz,
    tree_outcome       smallint,
    removed_at         timestamptz,
    constraint gate_counts check (
        least(n_available, n_running, n_retryable, n_scheduled, n_blocked,
              n_succeeded, n_dead, n_cancelled, n_expired, open_feeds, open_jobs, holds) >= 0),
    constraint gate_complete_is_sealed check (completed_at is null or sealed)
) with (fillfactor = 50);
create index gate_tree on gate (root_id, gate_id);

-- Jobs of trees of several jobs that look complete: written in the commit that made them so, read by
-- the settling that follows, and swept in case the server died in between.
create table settle (
    gate_id  bigint primary key
);

-- ---- Items --------------------------------------------------------------------------------------

create table item (
    id             uuid primary key,
    gate_id        bigint not null,
    seq            bigint not null,
    row            bigint,
    priority       smallint not null,
    payload        text not null,
    metadata       text,
    dedupe_key     text,
    serialize_key  text,
    run_after      timestamptz,
    expires_at     timestamptz,
    fed_by         uuid,
    created_at     timestamptz not null
);
create unique index item_order on item (gate_id, seq);

-- What a claim may take. Rows are never updated in place: a claim picks by ctid, which is only safe
-- while a row that is locked is the row that was seen.
create table ready (
    turn        bigint not null,
    item_id     uuid not null,
    gate_id     bigint not null,
    expires_at  timestamptz,
    type_id     integer not null,
    attempts    integer not null,
    failures    integer not null,
    -- Minus the priority, so that ascending order takes the highest first.
    rank        smallint not null,
    primary key (type_id, rank, turn, item_id)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
create index ready_item on ready (item_id);
create index ready_expiry on ready (expires_at) where expires_at is not null;

-- Waiting for a time: scheduled (run_after) and retryable (backoff).
create table deferred (
    item_id     uuid primary key,
    gate_id     bigint not null,
    due_at      timestamptz not null,
    expires_at  timestamptz,
    type_id     integer not null,
    attempts    integer not null,
    failures    integer not null,
    rank        smallint not null,
    retryable   boolean not null
);
create index deferred_due on deferred (due_at);
create index deferred_expiry on deferred (expires_at) where expires_at is not null;

-- Held by other jobs of the tree (`after`), or behind an older item of its serialize key.
create table blocked (
    item_id     uuid primary key,
    gate_id     bigint not null,
    by_after    boolean not null,
    due_at      timestamptz,
    expires_at  timestamptz,
    type_id     integer not null,
    attempts    integer not null,
    failures    integer not null,
    rank        smallint not null
);
create index blocked_gate on blocked (gate_id, item_id);
create index blocked_expiry on blocked (expires_at) where expires_at is not null;

-- Open assignments. The id is the fence; one open assignment per item is lease_item's to enforce.
-- Heartbeats touch no indexed column, so that they stay on their page.
create table lease (
    id             uuid primary key,
    item_id        uuid not null,
    gate_id        bigint not null,
    -- The token it was given to: the fence opens nothing without it.
    credential_id  uuid not null,
    started_at     timestamptz not null,
    last_beat      timestamptz not null,
    run_until      timestamptz,
    expires_at     timestamptz,
    lease_seconds  double precision not null,
    progress_done  bigint,
    progress_total bigint,
    type_id        integer not null,
    attempt        integer not null,
    failures       integer not null,
    rank           smallint not null,
    -- A step or progress was reported: at_most_once work has begun.
    touched        boolean not null default false,
    cancel_requested_at timestamptz,
    worker_id      text not null,
    progress_message text,
    constraint lease_item unique (item_id)
) with (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
create index lease_gate on lease (gate_id, started_at);
create index lease_type on lease (type_id);

-- Final states, with the attempt that led there.
create table outcome (
    item_id        uuid primary key,
    gate_id        bigint not null,
    seq            bigint not null,
    -- Null where no assignment led here (a row that could not be read, a cancelled item).
    lease_id       uuid,
    started_at     timestamptz,
    ended_at       timestamptz not null,
    attempt        integer not null,
    failures       integer not null,
    state          smallint not null,
    ended_as       smallint,
    worker_id      text,
    result         text,
    error_message  text,
    error_kind     text,
    error_detail   text,
    fingerprint    text,
    constraint outcome_state check (state between 1 and 4),
    constraint outcome_result_is_a_successs check ((state = 1) = (result is not null)),
    constraint outcome_lease_or_not check ((lease_id is null) = (started_at is null))
);
create unique index outcome_lease on outcome (lease_id) where lease_id is not null;
create index outcome_unsuccessful on outcome (gate_id, state, seq) where state <> 1;
create index outcome_fingerprint on outcome (gate_id, fingerprint, seq) where fingerprint is not null;

-- Attempts that did not make their item final.
create table attempt (
    item_id        uuid not null,
    attempt        integer not null,
    gate_id        bigint not null,
    lease_id       uuid not null,
    started_at     timestamptz not null,
    ended_at       timestamptz not null,
    ended_as       smallint not null,
    worker_id      text not null,
    retry_at       timestamptz,
    error_message  text,
    error_kind     text,
    error_detail   text,
    result         text,
    primary key (item_id, attempt),
    constraint attempt_lease unique (lease_id)
);

-- The last recovery point of an item (rule 13).
create table item_step (
    item_id     uuid primary key,
    name        text not null,
    data        text not null,
    reached_at  timestamptz not null default clock_timestamp()
);

-- Payloads that a person has edited; the original stays in `item`.
create table item_edit (
    item_id    uuid not null,
    edit       integer not null,
    payload    text not null,
    edited_at  timestamptz not null default clock_timestamp(),
    primary key (item_id, edit)
);

-- Dead items of one job whose errors read alike; one delta a batch.
create table error_group (
    gate_id         bigint not null,
    fingerprint     text not null,
    message         text not null,
    kind            text,
    n_dead          bigint not null,
    first_seen_at   timestamptz not null,
    last_seen_at    timestamptz not null,
    sample_item_id  uuid not null,
    primary key (gate_id, fingerprint)
);

-- ---- Keys ---------------------------------------------------------------------------------------

-- Serialize keys: one lane per owner and key, positions given out under the lane's lock, because ids
-- and times are not the order of commits (rule 10).
create table lane (
    id        bigint primary key generated always as identity,
    owner_id  uuid not null,
    key       text not null,
    next_pos  bigint not null default 1,
    constraint lane_key unique (owner_id, key)
);
create table lane_entry (
    lane_id  bigint not null,
    pos      bigint not null,
    item_id  uuid not null,
    primary key (lane_id, pos),
    constraint lane_entry_item unique (item_id)
);

create table job_dedupe (
    owner_id  uuid not null,
    type_id   integer not null,
    key       text not null,
    job_id    uuid not null,
    primary key (owner_id, type_id, key)
);
create table item_dedupe (
    gate_id  bigint not null,
    key      text not null,
    item_id  uuid not null,
    primary key (gate_id, key)
);

-- Idempotency-Keys (rule 12). `scope` is the initiator, empty where none is named.
create table idempotency (
    owner_id     uuid not null,
    scope        text not null,
    key          text not null,
    fingerprint  bytea not null,
    job_id       uuid,
    status       smallint,
    answer       text,
    lapses_at    timestamptz not null,
    primary key (owner_id, scope, key)
);

-- A claim that named itself: the same again returns what is still open of it (rule 6).
create table claim_request (
    credential_id  uuid not null,
    claim_id       uuid not null,
    lease_ids      uuid[] not null,
    created_at     timestamptz not null default clock_timestamp(),
    primary key (credential_id, claim_id)
);

-- ---- Splitting files ----------------------------------------------------------------------------

-- How far a file has been cut into items. The place moves in the commit that adds the rows before it.
create table split (
    gate_id      bigint primary key,
    job_id       uuid not null,
    upload_id    uuid not null references upload,
    format       text not null,
    -- What the head of the file says: encoding, delimiter, columns, first record.
    head         text not null,
    byte_offset  bigint not null,
    line         bigint not null,
    -- The last server that took a batch, so that files take turns.
    touched_at   timestamptz not null default clock_timestamp(),
    done_at      timestamptz,
    failed       text
);
create index split_open on split (touched_at) where done_at is null;

-- ---- The clock ----------------------------------------------------------------------------------

-- Ticked every five seconds by any server. A gap means that nobody could have received a heartbeat:
-- leases then count from resumed_at (rule 7).
create table uptime (
    only_row      boolean primary key default true,
    last_seen_at  timestamptz not null default clock_timestamp(),
    resumed_at    timestamptz not null default clock_timestamp(),
    constraint uptime_one check (only_row)
);
insert into uptime default values;

-- ---- Ready-made job types -----------------------------------------------------------------------

insert into job_type (name, delivery, max_failures, backoff_min_seconds, backoff_max_seconds, backoff_factor,
                      backoff_jitter, heartbeat_seconds, steps, retain_seconds, executor,
                      require_idempotency_key, paused)
values ('import', 'at_least_once', 3, 3, 3600, 2, true, 60, '{}', 604800,
        '{"kind":"builtin","name":"validate"}', false, false);
