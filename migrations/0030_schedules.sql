-- Schedules: trees that are created by a cron expression, and what became of each tick.

create table schedule (
    id                      uuid primary key,
    owner_id                uuid not null references owner,
    name                    text not null,
    cron                    text not null,
    -- An IANA time zone.
    time_zone               text not null,
    -- The body of POST /jobs, as it was given.
    job                     text not null,
    overlap                 text not null,
    catch_up                text not null,
    catch_up_window_seconds bigint not null,
    starts_at               timestamptz,
    ends_at                 timestamptz,
    paused                  boolean not null,
    -- The token that stands for the owner. A person's session ends sooner than a schedule: for people, the account counts.
    made_by                 uuid not null,
    made_by_person          boolean not null,
    -- The next tick. Null: paused, or no more ticks.
    next_at                 timestamptz,
    -- When a server looks at it: at the next tick, or sooner while runs wait for the previous tree.
    look_at                 timestamptz,
    -- Ordinal of the last run.
    last_seq                bigint not null default 0,
    -- Runs that wait for the previous tree.
    queued                  integer not null default 0,
    created_at              timestamptz not null default clock_timestamp(),
    updated_at              timestamptz not null default clock_timestamp(),
    constraint schedule_overlap check (overlap in ('skip', 'queue', 'cancel_previous')),
    constraint schedule_catch_up check (catch_up in ('none', 'last', 'all')),
    constraint schedule_queued check (queued >= 0)
) with (fillfactor = 50);
create index schedule_owner on schedule (owner_id, id);
create index schedule_due on schedule (look_at) where look_at is not null;

-- The newest thousand runs of each schedule.
create table schedule_run (
    schedule_id  uuid not null references schedule on delete cascade,
    seq          bigint not null,
    -- The time that the cron expression names; for a run by hand, the time of the request.
    tick         timestamptz not null,
    at           timestamptz not null default clock_timestamp(),
    state        text not null,
    -- The root of its tree. It is derived from the schedule and the tick, so that a tick has one tree at most.
    job_id       uuid,
    -- Why it was skipped.
    reason       text,
    -- Why it failed: a problem document.
    problem      text,
    by_hand      boolean not null default false,
    primary key (schedule_id, seq),
    constraint schedule_run_state check (state in ('started', 'queued', 'skipped', 'failed')),
    constraint schedule_run_started check ((job_id is not null) = (state = 'started'))
);
create unique index schedule_run_tick on schedule_run (schedule_id, tick) where not by_hand;
create index schedule_run_started on schedule_run (schedule_id, seq) where state = 'started';
create index schedule_run_queued on schedule_run (schedule_id, seq) where state = 'queued';
