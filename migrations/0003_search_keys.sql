-- Search for keys by their beginning, whatever the collation of the database. Not made concurrently: no release is
-- without these indexes.
create index job_dedupe_prefix on job_dedupe (owner_id, key text_pattern_ops);
create index idempotency_prefix on idempotency (owner_id, key text_pattern_ops) where job_id is not null;
create index serialize_queue_prefix on serialize_queue (owner_id, key text_pattern_ops);
-- Items have no owner; that of their job is looked up.
create index item_dedupe_prefix on item_dedupe (key text_pattern_ops);
