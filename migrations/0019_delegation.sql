-- Work that goes on after its request: by whose credential it was asked for, and when links end.

-- ---- Delegated work ------------------------------------------------------------------------------

-- The token or session that asked for a job, and whether it saw everybody's work then. What the server does
-- in the name of the asker (an export) needs both: the credential must still be good, and sees no more than
-- it did. Null: not known, as the job is older than this column.
alter table job
    add column asked_by        uuid,
    add column asked_sees_all  boolean not null default false;

-- The same of a bulk operation, which also says why the server has stopped it.
alter table bulk
    add column asked_by        uuid,
    add column stopped_reason  text;

-- ---- Shares --------------------------------------------------------------------------------------

-- Every link ends. Links from before this column get thirty days from now.
alter table share add column expires_at timestamptz;
update share set expires_at = clock_timestamp() + interval '30 days' where expires_at is null;
alter table share
    alter column expires_at set default clock_timestamp() + interval '30 days',
    alter column expires_at set not null,
    -- Who made it: a link of a disabled person opens nothing. Null: nobody of that name is known.
    add column made_by_id uuid;
update share s set made_by_id = o.id from owner o where o.kind = s.made_by_kind and o.name = s.made_by_name;
-- Lists of all links, newest first: an owner's, and everybody's by the primary key.
create index share_owner on share (owner_id, id);

-- ---- Finding -------------------------------------------------------------------------------------

-- Jobs by the Idempotency-Key that made them. Staff look over all owners.
create index idempotency_key_job on idempotency (key) where job_id is not null;

-- The file of an export goes with its job.
create index upload_made_by on upload (made_by) where made_by is not null;
