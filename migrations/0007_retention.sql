-- What goes, what stays, and what somebody should look at (spec §2 rules 20 and 22, §8).

-- ---- Who did what --------------------------------------------------------------------------------

-- Lists are read newest first by (at, id), each filter along an index of its own. People write here,
-- never the hot path.
create index audit_newest on audit (at, id);
create index audit_actor on audit (actor_name, at, id);
create index audit_action on audit (action, at, id);
create index audit_job on audit (job_id, at, id) where job_id is not null;
create index audit_item on audit (item_id, at, id) where item_id is not null;

-- ---- Trees that are looked at again --------------------------------------------------------------

-- Every root that is open or will go, with the time at which to look at it next: when its retention
-- ends, or when it would count as stalled. So due trees are found by one index probe, and the gates,
-- which every batch updates in place, carry no index for it. A tree that is open now cannot be due
-- before its retain_seconds have passed again, so even open trees are looked at rarely.
create table tended (
    gate_id   bigint primary key,
    look_at   timestamptz not null
);
create index tended_due on tended (look_at);

-- How far two walks over the roots, in order of gate_id, have come. The first goes to the newest root at
-- once; the second stays a minute behind and finds those whose transaction committed after the first
-- had passed their place.
create table tended_walk (
    walk      smallint primary key,
    gate_id   bigint not null default 0,
    constraint tended_walk_two check (walk in (1, 2))
);
insert into tended_walk (walk) values (1), (2);

-- Jobs of trees that are gone, whose rows still have to follow; `seq` is how far their items are.
create table removal (
    gate_id   bigint primary key,
    seq       bigint not null default 0
);

-- What trees that are gone amounted to, by the day (UTC) on which they were complete.
create table daily_total (
    owner_id     uuid not null,
    day          date not null,
    job_type     text not null,
    -- As on the gate: 1 succeeded, 2 partial, 3 failed, 4 cancelled.
    outcome      smallint not null,
    n_jobs       bigint not null,
    n_succeeded  bigint not null,
    n_dead       bigint not null,
    n_cancelled  bigint not null,
    n_expired    bigint not null,
    primary key (owner_id, day, job_type, outcome)
);

-- ---- Alerts --------------------------------------------------------------------------------------

create table alert (
    id            uuid primary key,
    kind          text not null,
    subject       text not null,
    message       text not null,
    -- Whose work it is about; null: everybody's, shown to staff alone.
    owner_id      uuid,
    job_type      text,
    root_id       uuid,
    job_id        uuid,
    item_id       uuid,
    count         bigint not null default 1,
    raised_at     timestamptz not null default clock_timestamp(),
    last_seen_at  timestamptz not null default clock_timestamp(),
    cleared_at    timestamptz,
    -- When a server took it to tell TREELINE_ALERT_URL.
    told_at       timestamptz
);
-- Several servers look; one row wins.
create unique index alert_open on alert (kind, subject) where cleared_at is null;
create index alert_newest on alert (raised_at, id);
create index alert_owner on alert (owner_id, raised_at, id) where owner_id is not null;
create index alert_untold on alert (raised_at) where cleared_at is null and told_at is null;
create index alert_cleared on alert (cleared_at) where cleared_at is not null;

-- The head of each type's queue, and since when it has been the head: a head that stays means that
-- nobody claims.
create table queue_head (
    type_id   integer primary key,
    item_id   uuid not null,
    since     timestamptz not null default clock_timestamp()
);

-- Items that keep failing: rows of `deferred` are written once, so this costs only those in it.
create index deferred_failing on deferred (gate_id) where failures >= 10;
