-- Files in and out: more formats, what is made of workbooks, files that exports have written, and
-- finding those that nobody needs any more (spec §5).

alter table upload drop constraint upload_format;
alter table upload add constraint upload_format
    check (format in ('csv', 'ndjson', 'json', 'lines', 'xlsx', 'none'));

-- The job whose export this file is: it stays as long as that job.
alter table upload add column made_by uuid;

-- Whose turn it is to be looked at for being needed no more.
alter table upload add column looked_at timestamptz not null default '-infinity';
create index upload_unused on upload (created_at) where used_at is null;
create index upload_used on upload (looked_at) where used_at is not null;
create index job_upload on job (upload_id) where upload_id is not null;
create index split_upload on split (upload_id);

-- A sheet of a workbook as lines that can be cut from any place; an object of its own in the store,
-- which goes as an orphan once this row has gone with its upload.
create table staged (
    upload_id   uuid not null references upload on delete cascade,
    -- Empty: the first one.
    sheet       text not null,
    object_id   uuid not null,
    bytes       bigint not null,
    created_at  timestamptz not null default clock_timestamp(),
    primary key (upload_id, sheet),
    constraint staged_object unique (object_id)
);

-- Results, failures or items of a job, written to a file.
insert into job_type (name, delivery, max_failures, backoff_min_seconds, backoff_max_seconds, backoff_factor,
                      backoff_jitter, heartbeat_seconds, steps, retain_seconds, executor,
                      require_idempotency_key, paused)
values ('export', 'at_least_once', 3, 3, 3600, 2, true, 20, '{}', 604800,
        '{"kind":"builtin","name":"export"}', false, false)
on conflict (name) do nothing;
