-- Corrected rows take the place of the rows that they correct.

-- Import jobs whose file corrects failed rows of another job, until each of their rows has been matched. Written with the
-- job, so that a crash loses no match.
create table correction (
    gate_id           bigint primary key,
    corrects_gate_id  bigint not null,
    -- Items of the import up to this place have been matched.
    seq               bigint not null default 0
);

-- The item whose corrected row took this one's place; its state is cancelled.
alter table outcome add column superseded_by uuid;

-- Of n_cancelled: items whose corrected rows took their place.
alter table gate add column n_superseded bigint not null default 0;
