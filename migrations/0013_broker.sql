-- Wake-ups for workers that listen to RabbitMQ (spec §4). Nothing here is written while no server has a
-- broker, and nothing is ever correct because of it: what may be claimed stands in `ready`.

-- What is to be said, written in the commit that made it so: one row for a batch and a type, never one for
-- an item. Whoever takes rows names a time until which they are his; what was confirmed is deleted.
create table outbox (
    id           bigint primary key generated always as identity,
    -- 1 items of one type can be claimed · 2 items are dead · 3 trees are complete (gates of their roots).
    kind         smallint not null,
    type_id      integer,
    item_ids     uuid[] not null,
    -- Beside item_ids: the gates of their jobs.
    gate_ids     bigint[] not null,
    created_at   timestamptz not null default clock_timestamp(),
    taken_until  timestamptz,
    constraint outbox_kind check (kind between 1 and 3),
    constraint outbox_type check ((kind = 1) = (type_id is not null))
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- Wake-ups that were lost are sent again by a walk over `ready`, type by type, in the order in which
-- claims read it. The place is all that is remembered: no row of `ready` is touched. Null: at the start.
create table wake_walk (
    type_id      integer primary key,
    rank         smallint,
    turn         bigint,
    item_id      uuid,
    -- The next round begins then at the earliest, so that no item is named twice within that time.
    rests_until  timestamptz
);

-- What was written before `old_xid` has been there for a while: the walk passes over what is younger, as
-- its own wake-up may still be on its way. Rows of `ready` carry no time, but the transaction that wrote
-- them.
create table wake_horizon (
    only_row     boolean primary key default true,
    old_xid      bigint,
    new_xid      bigint,
    new_at       timestamptz,
    constraint wake_horizon_one check (only_row)
);
insert into wake_horizon default values;
