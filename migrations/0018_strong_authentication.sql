-- Strong authentication: second factors of people, sign-in by OpenID Connect, and how a session began.
--
-- A person with at least one confirmed factor (a TOTP authenticator or a passkey) is asked for it at every
-- sign-in, whatever the first factor was. Recovery codes stand in for a lost factor and are no factor themselves.

-- ---- Factors -------------------------------------------------------------------------------------

-- One authenticator app a person. The secret is sealed (see server/src/sealing.rs).
create table totp (
    owner_id      uuid primary key references owner,
    secret        text not null,
    created_at    timestamptz not null default clock_timestamp(),
    -- Null until the first code was entered; it protects nothing before.
    confirmed_at  timestamptz,
    -- The time step of the last accepted code: that code and older ones are never accepted again.
    last_step     bigint not null default 0,
    constraint totp_is_sealed check (secret like 'sealed:%')
);

create table passkey (
    id             uuid primary key,
    owner_id       uuid not null references owner,
    -- What the authenticator calls it; unique over all people.
    credential_id  bytea not null,
    -- The public key with its counters, as JSON of the WebAuthn library.
    credential     text not null,
    name           text not null,
    created_at     timestamptz not null default clock_timestamp(),
    last_used_at   timestamptz,
    constraint passkey_credential_id unique (credential_id)
);
create index passkey_owner on passkey (owner_id, id);

-- 80 random bits each, kept as SHA-256. A code that was used stays, so that the count of the rest is right.
create table recovery_code (
    owner_id  uuid not null references owner,
    hash      bytea not null,
    used_at   timestamptz,
    primary key (owner_id, hash)
);

-- Challenges that were answered. Each is accepted once; rows go when the challenge would be too old anyway.
create table used_challenge (
    hash        bytea primary key,
    expires_at  timestamptz not null
);
create index used_challenge_expires on used_challenge (expires_at);

-- ---- Accounts of OpenID Connect providers ----------------------------------------------------------

-- Who a subject of an issuer is here. Never decided by an email address alone.
create table identity_link (
    issuer        text not null,
    subject       text not null,
    owner_id      uuid not null references owner,
    created_at    timestamptz not null default clock_timestamp(),
    last_used_at  timestamptz not null default clock_timestamp(),
    primary key (issuer, subject)
);
create index identity_link_owner on identity_link (owner_id);

-- ---- Sessions --------------------------------------------------------------------------------------

alter table session
    -- The first factor: password, link, passkey, oidc or proxy.
    add column method            text not null default 'password',
    -- Whether a second factor was given, or a passkey that verified its user, or a provider vouched for one.
    add column mfa               boolean not null default false,
    -- The last time the person proved who they are; actions with consequences ask for it to be recent.
    add column authenticated_at  timestamptz not null default clock_timestamp(),
    -- Sessions begun by TREELINE_AUTH_HEADER: the value of the header. Another value ends their use.
    add column proxy_user        text,
    add constraint session_method check (method in ('password', 'link', 'passkey', 'oidc', 'proxy')),
    add constraint session_proxy_user check ((proxy_user is not null) = (method = 'proxy'));
update session set method = 'link' where by_link;
update session set authenticated_at = created_at;

-- Who made a one-time link, for the audit log of the session that it begins. Null: the server itself.
alter table sign_in_link
    add column made_by_id    uuid,
    add column made_by_name  text;
