-- Available items that keep failing, by job, as `deferred_failing` has the deferred ones: few rows. Not made concurrently:
-- no release is without it.
create index ready_failing on ready (job_key) where failures >= 10;
