-- Id of this database. The file store carries it, too: a server deletes files without a row only from a store that
-- belongs to its database.
create table deployment (
    only_row  boolean primary key default true,
    id        uuid not null default gen_random_uuid(),
    constraint deployment_one check (only_row)
);
insert into deployment default values;
