-- Creation that can be sent again (spec §2 rules 11, 12 and 17).
--
-- A client that names its tree by an id may send the same body again: the root remembers what it was
-- made of, as the SHA-256 of the body in its one canonical spelling, without the id. Null: nobody
-- named an id, so nobody can be asking again.

alter table job add column body_hash bytea;

-- What a tree was made again as.
create index job_replays on job (replay_of) where replay_of is not null;
