-- What lists, pages and figures stand on (spec §3), and small edits by people.
--
-- Lists of items are ordered by (gate_id, seq), which never changes. What is sought by more than that
-- has an index here, on tables that are narrow or rarely written: another index on `item` or `ready`
-- would cost a seventh of the speed of adding.

-- ---- Items ---------------------------------------------------------------------------------------

-- The state first: one job's dead letters in order, and everybody's.
create index outcome_by_state on outcome (state, gate_id, seq) where state <> 1;
drop index outcome_unsuccessful;
create index outcome_by_error on outcome (fingerprint, gate_id, seq) where fingerprint is not null;
drop index outcome_fingerprint;
-- Partial: items that came from no file cost nothing.
create index item_row on item (gate_id, row) where row is not null;
create index deferred_gate on deferred (gate_id, item_id);
-- When a person last changed its priority or times; null: never.
alter table item add column changed_at timestamptz;

-- ---- Jobs ----------------------------------------------------------------------------------------

-- Partial, so that a tree of one job pays for none that it does not use.
create index job_owner_children on job (owner_id, gate_id desc) where parent_id is not null;
create index job_initiated_by on job (initiated_by, gate_id desc) where initiated_by is not null;
create index job_dedupe_key on job (dedupe_key, gate_id desc) where dedupe_key is not null;
create index job_replay_of on job (replay_of, gate_id desc) where replay_of is not null;

-- Jobs that a person has changed: every server forgets what it remembers of them within a second.
create table job_change (
    gate_id     bigint primary key,
    changed_at  timestamptz not null default clock_timestamp()
);
create index job_change_latest on job_change (changed_at);

-- ---- Workers -------------------------------------------------------------------------------------

-- Who asked for work, as far as a few seconds ago; forgotten after a day.
create table worker (
    credential_id  uuid not null,
    worker_id      text not null,
    owner_id       uuid not null,
    types          text[] not null,
    last_seen_at   timestamptz not null,
    primary key (credential_id, worker_id)
);
create index worker_latest on worker (last_seen_at desc);

-- When anybody last asked for a type.
create table type_asked (
    type_name  text primary key,
    asked_at   timestamptz not null
);

-- ---- Figures -------------------------------------------------------------------------------------

-- Items that came in and ended, in steps of ten seconds (`tick` counts them since 1970); an hour is kept.
create table type_tick (
    type_name  text not null,
    tick       bigint not null,
    n_in       bigint not null,
    n_out      bigint not null,
    primary key (type_name, tick)
);
create index type_tick_age on type_tick (tick);

-- The same by day and outcome, for ever.
create table type_day (
    type_name    text not null,
    day          date not null,
    n_in         bigint not null default 0,
    n_succeeded  bigint not null default 0,
    n_dead       bigint not null default 0,
    n_cancelled  bigint not null default 0,
    n_expired    bigint not null default 0,
    primary key (type_name, day)
);

-- Items of each type by state: a walk over the gates, a bounded piece at a time, adds them up; when it
-- is through, what it found is what is shown, with the time when it began.
create table type_figures (
    type_id      integer primary key,
    n            bigint[] not null,
    walked       bigint[] not null
);
create table figures_walk (
    only_row     boolean primary key default true,
    gate_id      bigint not null default 0,
    began_at     timestamptz not null default clock_timestamp(),
    -- The time of what is shown; null before the first walk is through.
    counted_at   timestamptz,
    constraint figures_walk_one check (only_row)
);
insert into figures_walk default values;
