-- Log lines that workers sent during an attempt (`attempt-logs`). One row for each request, as it arrived; an attempt keeps
-- its newest mebibyte.
create table attempt_log (
    item_id     uuid not null,
    attempt     integer not null,
    first_line  bigint not null,
    n_lines     integer not null,
    n_bytes     integer not null,
    lines       text not null,
    primary key (item_id, attempt, first_line)
);

comment on column attempt_log.first_line is 'Number of its first line in the attempt, from 1.';
comment on column attempt_log.n_bytes is 'Bytes of `lines`.';
comment on column attempt_log.lines is 'JSON array of lines: at, level, message, fields.';

-- Size of the log of an attempt. Its row is locked while lines are added, so their numbers have no gaps.
create table attempt_log_size (
    item_id    uuid not null,
    attempt    integer not null,
    n_lines    bigint not null,
    n_dropped  bigint not null default 0,
    n_bytes    bigint not null,
    primary key (item_id, attempt)
);

comment on column attempt_log_size.n_lines is 'Lines that were sent, dropped ones included.';
comment on column attempt_log_size.n_bytes is 'Bytes of the lines that are kept.';
