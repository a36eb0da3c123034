-- What the road of an item costs: less of it.
--
-- Three things were paid for with every claim and every ending and used by few: two indexes on `lease`
-- where one serves both (a job has one type), a look for edits that were never made, and a look into
-- `item` for the place that the claim had just read.

create index lease_work on lease (type_id, gate_id);
drop index lease_type;
drop index lease_gate;

-- The item's place in its job, read when it was handed out. Null: handed out by an older version.
alter table lease add column seq bigint;

-- An edit changes the item: only those that changed are looked up in `item_edit`.
update item set changed_at = clock_timestamp() where id in (select item_id from item_edit);
