-- What goes out over HTTP: callbacks of complete trees, and posts to the workers of push types (spec §2
-- rule 18, §4 "Push").

-- ---- Callbacks ----------------------------------------------------------------------------------

-- Whether the tree may have somebody to call, on its root's gate, so that completing a tree that has not
-- costs nothing. Null: not known; a tree that a server before this one made is asked.
alter table gate add column calls boolean;

-- One for each time that a tree with `on_completed` is complete, written in the commit that completes it,
-- with all that is posted: it outlives its tree by 30 days.
create table delivery (
    -- The webhook-id of every try.
    id            uuid primary key,
    -- The root.
    job_id        uuid not null,
    owner_id      uuid not null,
    completion    integer not null,
    -- 1 pending, 2 delivered, 3 failed, 4 abandoned, 5 superseded.
    state         smallint not null default 1,
    -- `on_completed` as it was; while the tree is there, its own is asked again before each try.
    target        text,
    -- Host and port of it, so that one receiver that hangs does not hold up the others.
    host          text not null,
    -- As on the gate: 1 succeeded, 2 partial, 3 failed, 4 cancelled.
    outcome       smallint not null,
    counts        text not null,
    metadata      text not null,
    completed_at  timestamptz not null,
    created_at    timestamptz not null default clock_timestamp(),
    -- When the schedule began, and the tries since then; a person who sends it again begins anew.
    began_at      timestamptz not null default clock_timestamp(),
    round         integer not null default 0,
    tries         integer not null default 0,
    next_try_at   timestamptz,
    -- A server is posting it: until then no other does.
    held_until    timestamptz,
    -- When its tree was removed.
    gone_at       timestamptz,
    constraint delivery_completion unique (job_id, completion),
    constraint delivery_state check (state between 1 and 5),
    constraint delivery_pending_has_a_time check ((state = 1) = (next_try_at is not null))
);
create index delivery_due on delivery (next_try_at) where state = 1;
create index delivery_owner on delivery (owner_id, id);
-- Those that did not arrive are few among those that did.
create index delivery_undelivered on delivery (id) where state <> 2;
create index delivery_gone on delivery (gone_at) where gone_at is not null;

create table delivery_try (
    delivery_id  uuid not null,
    n            integer not null,
    at           timestamptz not null,
    -- What the receiver answered; null where it did not.
    status       smallint,
    error        text,
    primary key (delivery_id, n)
);

-- ---- Keys and secrets ---------------------------------------------------------------------------

-- What signs where nobody named a secret: made at the first start, the same for all servers.
create table signing_key (
    only_row  boolean primary key default true,
    key       bytea not null,
    constraint signing_key_one check (only_row)
);

-- What a push executor sends along (password, headers, secret): apart from `executor`, which is shown.
alter table job_type add column executor_secrets text;
