-- Connections with OpenID Connect providers are shown to their owners and removed one by one; authenticator apps have names.

alter table identity_link add column id uuid not null default gen_random_uuid();
alter table identity_link add constraint identity_link_id unique (id);

alter table totp add column name text not null default 'Authenticator app';
