-- What is known of a workbook once it has been opened, so that it is not opened again for the same answer, and what the
-- limits of each owner are held against.

-- The names of its sheets; null until it has been read.
alter table upload add column sheets text[];

-- A sheet that cannot be read, and why. Empty: the first one.
create table unreadable_sheet (
    upload_id   uuid not null references upload on delete cascade,
    sheet       text not null,
    reason      text not null,
    primary key (upload_id, sheet)
);

-- What an owner is about to store.
create index upload_partial_owner on upload_partial (owner_id) where finished_at is null;
