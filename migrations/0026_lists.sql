-- Lists in any order: owners by age, as lists of people and services begin with the newest, and when a worker was first seen.

create index owner_by_age on owner (kind, created_at, name);

-- Written once, with the row: how often a worker is seen costs nothing more.
alter table worker add column first_seen_at timestamptz not null default clock_timestamp();
