-- Secrets at rest. They are sealed by the server with a key that is not in the database; texts that are sealed begin
-- with `sealed:v1:` and the id of the key. Rows from before are sealed by the server at its first start.

-- Ids of the keys that this database was sealed with, and which of them seals now. No key is in here.
create table sealing_key (
    id           text primary key,
    is_current   boolean not null,
    created_at   timestamptz not null default clock_timestamp(),
    -- When every secret was sealed with it; null: some are plain or sealed with the key before.
    complete_at  timestamptz
);
create unique index sealing_key_current on sealing_key (is_current) where is_current;

-- Keys that the running servers can open with, so that a rotation waits for servers that lack the new one.
create table sealing_server (
    server_id  uuid primary key,
    key_ids    text[] not null,
    -- The one that it seals with.
    seals_with text not null,
    seen_at    timestamptz not null default clock_timestamp()
);

-- The deployment's own signing key, sealed; it takes the place of `key`, which is emptied.
alter table signing_key add column sealed text;
alter table signing_key alter column key drop not null;

-- ---- Posts to URLs of the configuration ----------------------------------------------------------

-- Messages that are to be posted to a URL of the configuration, such as TREELINE_ALERT_URL: written in the commit that
-- marks what they tell of as told, and deleted when they arrived or were tried for as long as callbacks are.
create table outbound_post (
    -- The webhook-id of every try.
    id           text primary key,
    -- `alerts`, `audit`: which URL, and which key signs.
    purpose      text not null,
    body         text not null,
    began_at     timestamptz not null default clock_timestamp(),
    next_try_at  timestamptz not null default clock_timestamp(),
    tries        integer not null default 0,
    -- A server is posting it: until then no other does.
    held_until   timestamptz,
    last_error   text
);
create index outbound_post_due on outbound_post (purpose, next_try_at);

-- When the message that an alert was cleared was written; `told_at` is that of the message that it was raised.
alter table alert add column cleared_told_at timestamptz;
update alert set cleared_told_at = cleared_at where cleared_at is not null;
update alert set told_at = coalesce(told_at, clock_timestamp()) where cleared_at is not null;
drop index alert_untold;
create index alert_untold on alert (raised_at) where told_at is null;
create index alert_cleared_untold on alert (cleared_at) where cleared_at is not null and cleared_told_at is null;
