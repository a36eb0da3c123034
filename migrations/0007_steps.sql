-- Items of a job by their last step, to count them. Null: the step was recorded before this migration, or by a server
-- from before it. This index and those of the next two migrations are not made concurrently: every release has them.
alter table item_step add column job_key bigint;
create index item_step_of_job on item_step (job_key, name);

-- Steps that attempts had reached before a later attempt reached another one, or before a person restarted the item
-- (`steps`). `item_step` has the last one.
create table earlier_step (
    item_id     uuid not null,
    name        text not null,
    data        text not null,
    reached_at  timestamptz not null,
    primary key (item_id, reached_at)
);
