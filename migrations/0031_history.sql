-- Activity of each job type per minute (kept 48 hours), hour (30 days) and day (2 years), in UTC. Written by the
-- flush of the statistics, never by counting rows.
create table type_history (
    type_name       text not null,
    step            smallint not null check (step between 1 and 3),  -- 1 minute, 2 hour, 3 day
    starts_at       timestamptz not null,
    n_added         bigint not null default 0,
    n_succeeded     bigint not null default 0,
    n_failed        bigint not null default 0,   -- attempts that failed, timed out, or lost their lease
    n_dead          bigint not null default 0,
    n_cancelled     bigint not null default 0,
    n_expired       bigint not null default 0,
    n_retried       bigint not null default 0,   -- final items that a person or a program put back
    waits           bigint[] not null default '{}',  -- counts by bucket, see domain::histogram; empty: none
    runs            bigint[] not null default '{}',
    primary key (type_name, step, starts_at)
);
create index type_history_age on type_history (step, starts_at);

insert into type_history (type_name, step, starts_at, n_added, n_succeeded, n_dead, n_cancelled, n_expired)
select type_name, 3, day::timestamp at time zone 'utc', n_in, n_succeeded, n_dead, n_cancelled, n_expired from type_day;

drop table type_day;
