//! Invariants of the idle database that span several tables, so that no constraint can express them.
//!
//! Used by the races and by the model test. Reads only.

use std::time::{Duration, Instant};

use sqlx::PgPool;

/// Statements that find violations; `$1` is the roots to check, null for all.
const FAULTS: &[(&str, &str)] = &[
    (
        "items that stand in none or in several of ready, deferred, blocked, lease and outcome",
        "select i.id::text || ' stands in ' || s.n from item i join job_state g on g.job_key = i.job_key
         cross join lateral (select (select count(*) from ready r where r.item_id = i.id)
             + (select count(*) from deferred d where d.item_id = i.id)
             + (select count(*) from blocked b where b.item_id = i.id)
             + (select count(*) from lease l where l.item_id = i.id)
             + (select count(*) from outcome o where o.item_id = i.id) as n) s
         where s.n <> 1 and g.deleted_at is null and ($1::text[] is null or g.root_id::text = any($1))",
    ),
    (
        "gates whose counters are not what their rows are",
        "with counted as (
           select job_key, array[sum(ready), sum(lease), sum(retryable), sum(scheduled), sum(blocked), sum(succeeded), sum(dead),
               sum(cancelled), sum(expired), sum(for_event)]::bigint[] as n
           from (
             select job_key, count(*) as ready, 0 as lease, 0 as retryable, 0 as scheduled, 0 as blocked, 0 as succeeded, 0 as dead,
               0 as cancelled, 0 as expired, 0 as for_event from ready group by job_key
             union all
             select job_key, 0, count(*), 0, 0, 0, 0, 0, 0, 0, 0 from lease group by job_key
             union all
             select job_key, 0, 0, count(*) filter (where retryable), count(*) filter (where not retryable and not for_event), 0, 0, 0,
               0, 0, count(*) filter (where for_event) from deferred group by job_key
             union all
             select job_key, 0, 0, 0, 0, count(*), 0, 0, 0, 0, 0 from blocked group by job_key
             union all
             select job_key, 0, 0, 0, 0, 0, count(*) filter (where state = 1), count(*) filter (where state = 2),
               count(*) filter (where state = 3), count(*) filter (where state = 4), 0 from outcome group by job_key) each
           group by job_key)
         select g.job_key || ': ' || s.n::text || ' but ' || coalesce(c.n::text, 'none') from job_state g
         cross join lateral (select array[n_available, n_running, n_retryable, n_scheduled, n_blocked, n_succeeded, n_dead,
           n_cancelled, n_expired, n_waiting_for_event]::bigint[] as n) s
         left join counted c on c.job_key = g.job_key
         where s.n <> coalesce(c.n, array_fill(0::bigint, array[10])) and g.deleted_at is null
           and ($1::text[] is null or g.root_id::text = any($1))",
    ),
    (
        "items of cancelled jobs that may still be had",
        "select r.item_id::text from ready r join job_state g on g.job_key = r.job_key
         where g.cancelled_at is not null and ($1::text[] is null or g.root_id::text = any($1))",
    ),
    (
        "jobs that are complete with something pending, or look complete and are not",
        "select g.job_key::text from job_state g
         where g.deleted_at is null and ($1::text[] is null or g.root_id::text = any($1))
           and case when g.completed_at is not null
             then n_available + n_running + n_retryable + n_scheduled + n_blocked + n_waiting_for_event + open_feeds > 0
             else (sealed and after_open = 0 and holds = 0
               and n_available + n_running + n_retryable + n_scheduled + n_blocked + n_waiting_for_event + open_feeds = 0) end",
    ),
    (
        "items that wait for an event that has come, or whose wait is not described",
        "select d.item_id::text from deferred d join job_state g on g.job_key = d.job_key
         where d.for_event and ($1::text[] is null or g.root_id::text = any($1))
           and not exists (select 1 from event_wait w where w.item_id = d.item_id and w.received_at is null)",
    ),
    (
        "trees that are complete with an open job, or have none and are not",
        "select g.root_id::text from job_state g where g.job_key = (select min(o.job_key) from job_state o where o.root_id = g.root_id)
           and g.deleted_at is null and ($1::text[] is null or g.root_id::text = any($1))
           and (g.tree_completed_at is not null) <> (g.holds = 0
             and not exists (select 1 from job_state o where o.root_id = g.root_id and o.completed_at is null))",
    ),
    (
        "places in a serialize queue whose item is final, or items in a serialize queue without a place",
        "select e.item_id::text from serialize_queue_entry e join item i on i.id = e.item_id join job_state g on g.job_key = i.job_key
         where exists (select 1 from outcome o where o.item_id = e.item_id)
           and ($1::text[] is null or g.root_id::text = any($1))
         union all
         select w.item_id::text from (select item_id, job_key, serialize_queue_id from ready
             union all select item_id, job_key, serialize_queue_id from deferred
             union all select item_id, job_key, serialize_queue_id from blocked
             union all select item_id, job_key, serialize_queue_id from lease) w join job_state g on g.job_key = w.job_key
         where w.serialize_queue_id is not null and ($1::text[] is null or g.root_id::text = any($1))
           and not exists (select 1 from serialize_queue_entry e where e.serialize_queue_id = w.serialize_queue_id and e.item_id = w.item_id)",
    ),
    (
        "items that may be had or run behind an older one of their key, or heads that are held",
        "select e.item_id::text from serialize_queue_entry e join item i on i.id = e.item_id join job_state g on g.job_key = i.job_key
         where ($1::text[] is null or g.root_id::text = any($1))
           and (exists (select 1 from serialize_queue_entry o where o.serialize_queue_id = e.serialize_queue_id and o.position < e.position)
             and (exists (select 1 from ready r where r.item_id = e.item_id)
               or exists (select 1 from lease l where l.item_id = e.item_id))
             or not exists (select 1 from serialize_queue_entry o where o.serialize_queue_id = e.serialize_queue_id and o.position < e.position)
             and exists (select 1 from blocked b where b.item_id = e.item_id))",
    ),
    (
        "items that a limit of their key holds and that nothing will admit",
        "select r.item_id::text from ready r join job_state g on g.job_key = r.job_key
         where r.type_id < 0 and ($1::text[] is null or g.root_id::text = any($1))
           and not exists (select 1 from limit_hint h where h.type_id = -r.type_id and h.limit_key = r.limit_key)
           and not exists (select 1 from ready a where a.type_id = -r.type_id and a.limit_key = r.limit_key)
           and not exists (select 1 from lease l where l.type_id = -r.type_id and l.limit_key = r.limit_key)",
    ),
    (
        "keys of which more items are running than may",
        "select l.limit_key || ': ' || count(*) from lease l join job_type t on t.id = l.type_id
         where l.limit_key is not null and t.limits::json -> 'concurrency_by' is not null
           and ($1::text[] is null or exists (
             select 1 from job_state g where g.job_key = l.job_key and g.root_id::text = any($1)))
         group by l.type_id, l.limit_key, t.limits
         having count(*) > (t.limits::json -> 'concurrency_by' ->> 'limit')::bigint",
    ),
];

/// Waits until all decisions are propagated, then looks for violations. `roots`: the trees to check; `None` for all.
pub(crate) async fn check(pool: &PgPool, roots: Option<&[String]>, timeout: Duration) -> Result<(), String> {
    let begin = Instant::now();
    loop {
        let found = faults(pool, roots).await.map_err(|error| error.to_string())?;
        let Some(fault) = found else { return Ok(()) };
        if begin.elapsed() > timeout {
            return Err(fault);
        }
        // Each look is a round trip to the database; what is on its way arrives in between.
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

async fn faults(pool: &PgPool, roots: Option<&[String]>) -> Result<Option<String>, sqlx::Error> {
    let (open,): (i64,) = sqlx::query_as(
        "select (select count(*) from propagation c join job_state g on g.job_key = c.job_key
                 where $1::text[] is null or g.root_id::text = any($1))
              + (select count(*) from completion_check s join job_state g on g.job_key = s.job_key
                 where $1::text[] is null or g.root_id::text = any($1))
              + (select count(*) from feed_remainder f join job_state g on g.job_key = f.job_key
                 where $1::text[] is null or g.root_id::text = any($1))",
    )
    .bind(roots)
    .fetch_one(pool)
    .await?;
    if open > 0 {
        return Ok(Some(format!("{open} decisions whose rows have not followed")));
    }
    // One snapshot for all of them.
    let mut tx = pool.begin().await?;
    sqlx::query("set transaction isolation level repeatable read, read only").execute(&mut *tx).await?;
    for (description, statement) in FAULTS {
        let rows: Vec<(String,)> = sqlx::query_as(*statement).bind(roots).fetch_all(&mut *tx).await?;
        if !rows.is_empty() {
            let first: Vec<&str> = rows.iter().take(5).map(|row| row.0.as_str()).collect();
            return Ok(Some(format!("{} {description}: {}", rows.len(), first.join(" · "))));
        }
    }
    Ok(None)
}
