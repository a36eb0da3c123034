-- Trees made again, and deeds over many items at once (spec §2 rules 16 and 17, §3 "Bulk").

-- ---- Replays -------------------------------------------------------------------------------------

-- Trees that are being filled with the items of another. Both are held (gate.holds) until the rows have
-- followed: the new one completes once, the old one stays.
create table replaying (
    root_id       uuid primary key,
    from_root_id  uuid not null
);

-- Jobs of such trees that still miss items; `seq` is how far the job that they come from was walked.
-- The job's gate counts it in open_feeds. Within a tree the lowest gate goes first.
create table copying (
    root_id       uuid not null,
    gate_id       bigint not null,
    from_gate_id  bigint not null,
    seq           bigint not null default 0,
    primary key (root_id, gate_id)
);

-- ---- Bulk operations -----------------------------------------------------------------------------

create table bulk (
    id            uuid primary key,
    -- Who asked, with the rights of that moment.
    actor_id      uuid not null,
    actor_kind    text not null,
    actor_name    text not null,
    role          text,
    admin         boolean not null,
    action        text not null,
    target        text not null,
    -- As it was given, and as the list understood it.
    filter        text not null,
    wanted        text not null,
    payload_edit  text not null,
    reason        text,
    rate          double precision,
    dry_run       boolean not null,
    state         text not null default 'counting',
    -- How far the list was walked, in its own order.
    place_gate    bigint,
    place_seq     bigint,
    total         bigint not null default 0,
    processed     bigint not null default 0,
    skipped       bigint not null default 0,
    errored       bigint not null default 0,
    sample        text not null default '[]',
    -- The server that walks the list keeps the others from doing the same until then.
    busy_until    timestamptz not null default '-infinity',
    -- When the next member may be taken, where there is a rate.
    next_at       timestamptz not null default '-infinity',
    created_at    timestamptz not null default clock_timestamp(),
    updated_at    timestamptz not null default clock_timestamp(),
    finished_at   timestamptz,
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

-- The frozen membership. `done` is written in the transaction of the deed: a member is counted once.
create table bulk_member (
    bulk_id      uuid not null,
    member_id    uuid not null,
    root_id      uuid not null,
    pos          bigint not null,
    -- A server is at it until then.
    taken_until  timestamptz,
    tries        smallint not null default 0,
    done         boolean not null default false,
    primary key (bulk_id, member_id)
);
create index bulk_member_next on bulk_member (bulk_id, pos) where not done;

create table bulk_skip (
    bulk_id  uuid not null,
    reason   text not null,
    n        bigint not null,
    primary key (bulk_id, reason)
);

-- Trees whose completion a bulk retry holds, and how many of its members each still has.
create table bulk_hold (
    bulk_id  uuid not null,
    root_id  uuid not null,
    members  bigint not null,
    primary key (bulk_id, root_id)
);
