-- Running items that keep failing, by job, as `deferred_failing` and `ready_failing` have the waiting ones: few rows.
create index lease_failing on lease (job_key) where failures >= 10;
