-- Files that arrive a piece at a time, over connections that break (spec §5; the protocol is tus 1.0).
--
-- What has arrived is kept as parts, each an object of its own in the store. A part counts once it has
-- a row, and its row and the new end of the file are one statement, guarded by the old end: of two
-- senders at one place one is first. When the last byte is in, the parts are read together into the
-- file, and an ordinary `upload` of the same id appears.

create table upload_partial (
    id          uuid primary key,
    owner_id    uuid not null references owner,
    filename    text not null,
    -- Null: found from its name and its first bytes.
    format      text,
    -- What was announced, and what is here.
    bytes       bigint not null,
    received    bigint not null default 0,
    created_at  timestamptz not null default clock_timestamp(),
    touched_at  timestamptz not null default clock_timestamp(),
    -- Set in the commit that makes the upload; the row stays a while, to answer whoever did not hear of it.
    finished_at timestamptz,
    constraint upload_partial_received check (received between 0 and bytes),
    constraint upload_partial_finished check (finished_at is null or received = bytes)
);
create index upload_partial_touched on upload_partial (touched_at);

create table upload_part (
    partial_id  uuid not null references upload_partial on delete cascade,
    -- Where it begins in the file.
    at_byte     bigint not null,
    bytes       bigint not null,
    object_id   uuid not null,
    primary key (partial_id, at_byte),
    constraint upload_part_object unique (object_id),
    constraint upload_part_bytes check (bytes > 0)
);
