-- What the audit log says about where an action came from, and who is told of it.

-- Rows are only ever added. `address` is the client's, `credential_id` the session or token that was used; both are
-- unknown for what was written before, and for what the server does by itself. `operation_id` is the bulk operation.
alter table audit
    add column if not exists address       text,
    add column if not exists credential_id uuid,
    add column if not exists operation_id  uuid;
create index if not exists audit_operation on audit (operation_id) where operation_id is not null;

-- Whose work a bulk operation touched: the operation is one entry of the log, and each of these owners sees it.
create table if not exists audit_operation_owner (
    operation_id  uuid not null,
    owner_id      uuid not null,
    primary key (operation_id, owner_id)
);
create index if not exists audit_operation_owner_owner on audit_operation_owner (owner_id, operation_id);

-- How far the log was posted to TREELINE_AUDIT_URL: the last entry that was taken there. One row, made when the first
-- server starts with that setting.
create table if not exists audit_post (
    singleton   boolean primary key default true,
    at          timestamptz not null default clock_timestamp(),
    id          uuid not null default '00000000-0000-0000-0000-000000000000',
    -- The server that is posting keeps the others from doing the same until then.
    busy_until  timestamptz not null default '-infinity',
    constraint audit_post_singleton check (singleton)
);
