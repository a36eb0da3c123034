-- Items by the beginning of their serialize key, newest first, for the search; `serialize_queue_entry` has the pending
-- ones only. Not made concurrently: every release has it.
create index item_serialize_key on item (serialize_key text_pattern_ops, id desc) where serialize_key is not null;
