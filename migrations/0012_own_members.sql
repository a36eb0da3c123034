-- Members of a bulk operation that are its requester's own work. A requester who has lost the staff rights of the request
-- still sees an operation of which these are all. Operations from before this migration count none.
alter table bulk add column own_total bigint not null default 0;
