//! Invariants of the idle database that span several tables, so that no constraint can express them.
//!
//! Used by the races and by the model test. Reads only.

use std::time::{Duration, Instant};

use sqlx::PgPool;

/// Statements that find violations; `$1` is the roots to check, null for all.
const FAULTS: &[(&str, &str)] = &[
    (
        "items that stand in none or in several of ready, deferred, blocked, lease and outcome",
        "select i.id::text || ' stands in ' || s.n from item i join gate g on g.gate_id = i.gate_id
         cross join lateral (select (select count(*) from ready r where r.item_id = i.id)
             + (select count(*) from deferred d where d.item_id = i.id)
             + (select count(*) from blocked b where b.item_id = i.id)
             + (select count(*) from lease l where l.item_id = i.id)
             + (select count(*) from outcome o where o.item_id = i.id) as n) s
         where s.n <> 1 and g.removed_at is null and ($1::text[] is null or g.root_id::text = any($1))",
    ),
    (
        "gates whose counters are not what their rows are",
        "select g.gate_id || ': ' || c.shown || ' but ' || c.counted from gate g cross join lateral (select
             array[n_available, n_running, n_retryable, n_scheduled, n_blocked, n_succeeded, n_dead, n_cancelled,
               n_expired]::text as shown,
             array[(select count(*) from ready r where r.gate_id = g.gate_id),
               (select count(*) from lease l where l.gate_id = g.gate_id),
               (select count(*) from deferred d where d.gate_id = g.gate_id and d.retryable),
               (select count(*) from deferred d where d.gate_id = g.gate_id and not d.retryable),
               (select count(*) from blocked b where b.gate_id = g.gate_id),
               (select count(*) from outcome o where o.gate_id = g.gate_id and o.state = 1),
               (select count(*) from outcome o where o.gate_id = g.gate_id and o.state = 2),
               (select count(*) from outcome o where o.gate_id = g.gate_id and o.state = 3),
               (select count(*) from outcome o where o.gate_id = g.gate_id and o.state = 4)]::text as counted) c
         where c.shown <> c.counted and g.removed_at is null and ($1::text[] is null or g.root_id::text = any($1))",
    ),
    (
        "items of cancelled jobs that may still be had",
        "select r.item_id::text from ready r join gate g on g.gate_id = r.gate_id
         where g.cancelled_at is not null and ($1::text[] is null or g.root_id::text = any($1))",
    ),
    (
        "jobs that are complete with something pending, or look complete and are not",
        "select g.gate_id::text from gate g
         where g.removed_at is null and ($1::text[] is null or g.root_id::text = any($1))
           and case when g.completed_at is not null
             then n_available + n_running + n_retryable + n_scheduled + n_blocked + open_feeds > 0
             else (sealed and after_open = 0 and holds = 0
               and n_available + n_running + n_retryable + n_scheduled + n_blocked + open_feeds = 0) end",
    ),
    (
        "trees that are complete with an open job, or have none and are not",
        "select g.root_id::text from gate g where g.gate_id = (select min(o.gate_id) from gate o where o.root_id = g.root_id)
           and g.removed_at is null and ($1::text[] is null or g.root_id::text = any($1))
           and (g.tree_completed_at is not null) <> (g.holds = 0
             and not exists (select 1 from gate o where o.root_id = g.root_id and o.completed_at is null))",
    ),
    (
        "places in a lane whose item is final, or items in a lane without a place",
        "select e.item_id::text from lane_entry e join item i on i.id = e.item_id join gate g on g.gate_id = i.gate_id
         where exists (select 1 from outcome o where o.item_id = e.item_id)
           and ($1::text[] is null or g.root_id::text = any($1))
         union all
         select w.item_id::text from (select item_id, gate_id, lane_id from ready
             union all select item_id, gate_id, lane_id from deferred
             union all select item_id, gate_id, lane_id from blocked
             union all select item_id, gate_id, lane_id from lease) w join gate g on g.gate_id = w.gate_id
         where w.lane_id is not null and ($1::text[] is null or g.root_id::text = any($1))
           and not exists (select 1 from lane_entry e where e.lane_id = w.lane_id and e.item_id = w.item_id)",
    ),
    (
        "items that may be had or run behind an older one of their key, or heads that are held",
        "select e.item_id::text from lane_entry e join item i on i.id = e.item_id join gate g on g.gate_id = i.gate_id
         where ($1::text[] is null or g.root_id::text = any($1))
           and (exists (select 1 from lane_entry o where o.lane_id = e.lane_id and o.pos < e.pos)
             and (exists (select 1 from ready r where r.item_id = e.item_id)
               or exists (select 1 from lease l where l.item_id = e.item_id))
             or not exists (select 1 from lane_entry o where o.lane_id = e.lane_id and o.pos < e.pos)
             and exists (select 1 from blocked b where b.item_id = e.item_id))",
    ),
];

/// Waits until all decisions are propagated, then looks for violations. `roots`: the trees to check; `None` for all.
pub(crate) async fn hold(pool: &PgPool, roots: Option<&[String]>, patience: Duration) -> Result<(), String> {
    let begin = Instant::now();
    loop {
        let found = faults(pool, roots).await.map_err(|error| error.to_string())?;
        let Some(fault) = found else { return Ok(()) };
        if begin.elapsed() > patience {
            return Err(fault);
        }
        // Each look is a round trip to the database; what is on its way arrives in between.
        tokio::task::yield_now().await;
    }
}

async fn faults(pool: &PgPool, roots: Option<&[String]>) -> Result<Option<String>, sqlx::Error> {
    let (open,): (i64,) = sqlx::query_as(
        "select (select count(*) from carry c join gate g on g.gate_id = c.gate_id
                 where $1::text[] is null or g.root_id::text = any($1))
              + (select count(*) from settle s join gate g on g.gate_id = s.gate_id
                 where $1::text[] is null or g.root_id::text = any($1))
              + (select count(*) from feed_rest f join gate g on g.gate_id = f.gate_id
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
    for (what, statement) in FAULTS {
        let rows: Vec<(String,)> = sqlx::query_as(*statement).bind(roots).fetch_all(&mut *tx).await?;
        if !rows.is_empty() {
            let first: Vec<&str> = rows.iter().take(5).map(|row| row.0.as_str()).collect();
            return Ok(Some(format!("{} {what}: {}", rows.len(), first.join(" · "))));
        }
    }
    Ok(None)
}
