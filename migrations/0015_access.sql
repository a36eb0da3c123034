-- What credentials may do and for how long: a scope for monitoring, tokens with an end, services that are disabled.
--
-- A disabled service keeps its work and its tokens; the tokens open nothing until it is enabled again. The column
-- `disabled_at` of owners serves people and services alike.

alter table token drop constraint token_scopes;
alter table token
    add constraint token_scopes check (scopes <@ array['jobs:read', 'jobs:write', 'work', 'metrics', 'admin']);

-- When the token stops by itself. Null: never.
alter table token add column expires_at timestamptz;
-- Servers count those that have expired, to forget callers who came with one.
create index token_expiry on token (expires_at) where expires_at is not null;

-- From then on nothing of this owner's opens anything, be it a person or a service.
alter table owner drop constraint owner_disabled_is_a_persons;
