-- Trees whose jobs depend on each other: feeds, `after`, serialize keys, and decisions over many items
-- (spec §2 rules 4, 5, 10, 15, 16).
--
-- A decision over many items is one commit on the gates; from then on every claim and read obeys it.
-- The rows follow in batches, and `carry` says how far they have come, so that a crash in between
-- loses nothing.

-- ---- Serialize keys ------------------------------------------------------------------------------

-- The lane travels with the row, so that an ending knows whether somebody waits behind it.
alter table ready add column lane_id bigint;
alter table deferred add column lane_id bigint;
alter table blocked add column lane_id bigint;
alter table lease add column lane_id bigint;

-- ---- `after` and feeds ---------------------------------------------------------------------------

-- How many of the jobs it waits for are not complete, and whether one of them ended otherwise than
-- asked for: then what waits counts as cancelled, and n_after_cancelled says how many of n_cancelled
-- come back when a person repairs that job.
alter table gate add column after_open integer not null default 0;
alter table gate add column after_failed boolean not null default false;
alter table gate add column n_after_cancelled bigint not null default 0;
alter table gate add constraint gate_after check (least(after_open, n_after_cancelled) >= 0);
-- Sealed by the engine when its parent was complete, so that a reopened parent unseals it again.
alter table gate add column sealed_by_feed boolean not null default false;
-- Why, and who says so.
alter table gate add column cancel_reason text;

-- Elements of a feed that did not fit into the commit of their source: from `next` on they follow. The
-- child's gate counts it in open_feeds.
create table feed_rest (
    item_id     uuid not null,
    gate_id     bigint not null,
    next        integer not null,
    primary key (item_id, gate_id)
);

-- ---- Rows that follow a decision -----------------------------------------------------------------

-- kind: 1 rows of a cancelled job end · 2 rows that waited for a job that failed end · 3 rows that
-- waited are let go · 4 rows ended by 2 come back. `seq` is how far the walk over the job's items is.
create table carry (
    gate_id  bigint not null,
    kind     smallint not null,
    seq      bigint not null default 0,
    primary key (gate_id, kind),
    constraint carry_kind check (kind between 1 and 4)
);

-- Jobs that are sealed when their time is up (rule 14).
create table deadline (
    gate_id     bigint primary key,
    expires_at  timestamptz not null
);
create index deadline_due on deadline (expires_at);

-- ---- Attempts ------------------------------------------------------------------------------------

-- A cancelled item keeps what its last worker said in the attempt (rule 15); the outcome then names no
-- assignment. A person's retry moves the final attempt here.
alter table attempt add column final_state smallint;

-- Owners' dead letters by error, over all their jobs; one delta a batch.
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

-- ---- Who did what --------------------------------------------------------------------------------

-- Every action of a person on work, with its reason; outlives the tree (spec §8).
create table audit (
    id          uuid primary key,
    actor_id    uuid not null,
    actor_kind  text not null,
    actor_name  text not null,
    action      text not null,
    -- Whose work it was.
    owner_id    uuid,
    root_id     uuid,
    job_id      uuid,
    item_id     uuid,
    reason      text,
    detail      text,
    at          timestamptz not null default clock_timestamp()
);
create index audit_at on audit (at desc, id);
create index audit_owner on audit (owner_id, at desc);
create index audit_root on audit (root_id, at desc);

-- ---- Trees that are gone -------------------------------------------------------------------------

-- Ninety days of knowing that a job existed: 410 instead of 404 to those who could see it (rule 20).
create table removed (
    job_id      uuid primary key,
    root_id     uuid not null,
    owner_id    uuid not null,
    removed_at  timestamptz not null default clock_timestamp()
);
create index removed_at on removed (removed_at);

-- ---- Idempotency ---------------------------------------------------------------------------------

-- Which call the key was used for ("POST /jobs"), how many lines of a stream are committed, and when
-- the window began.
alter table idempotency add column call text not null default 'POST /jobs';
alter table idempotency add column lines bigint not null default 0;
alter table idempotency add column created_at timestamptz not null default clock_timestamp();
create index idempotency_lapses on idempotency (lapses_at);
create index idempotency_job on idempotency (job_id) where job_id is not null;
