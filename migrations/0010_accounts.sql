-- People who sign in with a password, and links that show one tree to strangers (spec §7, §8).

-- ---- People --------------------------------------------------------------------------------------

alter table owner
    add column email          text,
    -- A PHC string of argon2id, which names its own cost. Null: signs in by link alone.
    add column password_hash  text,
    -- From then on nothing of this person's opens anything.
    add column disabled_at    timestamptz,
    add constraint owner_email_is_a_persons check (email is null or kind = 'user'),
    add constraint owner_password_is_a_persons check (password_hash is null or kind = 'user'),
    add constraint owner_password_is_hashed check (password_hash like '$argon2id$%'),
    add constraint owner_disabled_is_a_persons check (disabled_at is null or kind = 'user');

-- One account an address, however it is written.
create unique index owner_email on owner (lower(email)) where email is not null;

-- Whoever came by a link may set a password without knowing the one before.
alter table session add column by_link boolean not null default false;
create index sign_in_link_owner on sign_in_link (owner_id) where used_at is null;

-- ---- Shares --------------------------------------------------------------------------------------

-- A link that shows one tree, read-only, to whoever has it. Like every secret it is kept as its SHA-256.
-- It goes with its tree, which is why it refers to nothing: the tree goes first.
create table share (
    id            uuid primary key,
    root_id       uuid not null,
    -- Whose tree it is.
    owner_id      uuid not null,
    hash          bytea not null,
    made_by_kind  text not null,
    made_by_name  text not null,
    created_at    timestamptz not null default clock_timestamp(),
    -- To the minute.
    last_seen_at  timestamptz,
    revoked_at    timestamptz,
    constraint share_hash unique (hash),
    constraint share_made_by check (made_by_kind in ('user', 'service'))
);
create index share_root on share (root_id, id);

-- ---- What was taken away -------------------------------------------------------------------------

-- Counts everything that takes rights away: roles, disabled people, ended sessions, revoked tokens and
-- shares. Servers remember callers for a moment; each looks here four times a second, and forgets all of them
-- when the number has moved. One row, so that no change can be passed over.
create table credential_change (
    one  boolean primary key default true,
    n    bigint not null default 0,
    constraint credential_change_one check (one)
);
insert into credential_change default values;
