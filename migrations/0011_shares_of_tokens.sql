-- Credential that created a share: links to others' trees end with the token that made them. Null: made before this
-- migration, or by a server from before it.
alter table share add column credential_id uuid;
create index share_credential on share (credential_id) where revoked_at is null;
