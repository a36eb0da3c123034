-- One edit of the priority and times of a job, until the waiting items that inherited them have followed. Written in the
-- commit of the edit; the items follow in batches, and a crash in between loses nothing. Edits of one job follow each
-- other.
create table job_edit (
    id               bigint primary key generated always as identity,
    job_key          bigint not null,
    seq              bigint not null default 0,  -- items of the job up to here are done
    from_priority    smallint not null,
    from_run_after   timestamptz,
    from_expires_at  timestamptz,
    to_priority      smallint not null,
    to_run_after     timestamptz,
    to_expires_at    timestamptz
);
create index job_edit_job on job_edit (job_key, id);
