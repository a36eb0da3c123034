-- Who may start an import of a type, other names of its columns, and examples: a document, see domain::import.
-- Null: everybody may, and no other names are known.
alter table job_type add column import text;

-- The column mapping that an owner used last for a type, to suggest it for the next file.
create table import_mapping (
    owner_id  uuid not null references owner on delete cascade,
    type_id   integer not null references job_type on delete cascade,
    -- The `mapping` of POST /jobs.
    mapping   text not null,
    used_at   timestamptz not null default clock_timestamp(),
    primary key (owner_id, type_id)
);
create index import_mapping_type on import_mapping (type_id);
