-- Pending deliveries by host, so that those of a receiver that hangs are not read again whenever one is taken. Servers from
-- before use `delivery_due`.
create index delivery_due_of_host on delivery (host, next_try_at) where state = 1;
