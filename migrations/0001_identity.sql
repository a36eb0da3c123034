-- Who may ask: owners, and the credentials that stand for them (spec §8).
--
-- An owner is a person or a service. Everything a caller can read hangs on an owner_id, so that one
-- owner's data can live apart from another's. Secrets are never stored: only their SHA-256, which is
-- enough because they are 256 random bits, not passwords.

create table owner (
    id          uuid primary key,
    kind        text not null,
    name        text not null,
    -- Persons have a role; services have scopes on their tokens instead.
    role        text,
    created_at  timestamptz not null default clock_timestamp(),
    constraint owner_kind check (kind in ('user', 'service')),
    constraint owner_role check (role in ('user', 'support', 'admin')),
    constraint owner_role_is_a_persons check ((kind = 'user') = (role is not null)),
    constraint owner_name unique (kind, name)
);

create table token (
    id            uuid primary key,
    owner_id      uuid not null references owner,
    name          text not null,
    hash          bytea not null,
    scopes        text[] not null,
    -- Where `work` is narrowed: the job types it may claim. Null: all.
    work_types    text[],
    created_at    timestamptz not null default clock_timestamp(),
    last_used_at  timestamptz,
    revoked_at    timestamptz,
    constraint token_hash unique (hash),
    constraint token_scopes check (scopes <@ array['jobs:read', 'jobs:write', 'work', 'admin'])
);

create table session (
    id            uuid primary key,
    owner_id      uuid not null references owner,
    hash          bytea not null,
    user_agent    text not null default '',
    created_at    timestamptz not null default clock_timestamp(),
    last_seen_at  timestamptz not null default clock_timestamp(),
    expires_at    timestamptz not null,
    ended_at      timestamptz,
    constraint session_hash unique (hash)
);
create index session_owner on session (owner_id);

-- One-time links. The first one, printed by the terminal, makes the first admin.
create table sign_in_link (
    id          uuid primary key,
    hash        bytea not null,
    -- Whom it signs in. Null: whoever presses the button becomes the first admin.
    owner_id    uuid references owner,
    created_at  timestamptz not null default clock_timestamp(),
    expires_at  timestamptz not null,
    used_at     timestamptz,
    constraint sign_in_link_hash unique (hash)
);
