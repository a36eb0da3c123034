//! Conditions of alerts: new dead letters, items that keep failing, queues without claims.

use sqlx::PgExecutor;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::store::Tx;

/// New dead letters of one type.
#[derive(Clone, Debug)]
pub struct DeadType {
    pub job_type: String,
    pub dead: i64,
    /// Text of the newest of them.
    pub message: String,
}

/// Types with dead letters from the last `within_seconds`, with the number of all their dead letters, including older
/// groups. Reads the newest 5,000 groups; muted ones do not count.
pub async fn newly_dead(on: impl PgExecutor<'_>, within_seconds: f64) -> Result<Vec<DeadType>, sqlx::Error> {
    sqlx::query_as!(
        DeadType,
        r#"select t.name as job_type, sum(e.n_dead)::bigint as "dead!",
             (array_agg(e.message order by e.last_seen_at desc))[1] as "message!"
           from (select type_id, fingerprint, n_dead, message, last_seen_at from owner_error
                 order by last_seen_at desc limit 5000) e
           join job_type t on t.id = e.type_id
           left join error_decision d on d.type_id = e.type_id and d.fingerprint = e.fingerprint and d.state = 2
             and (d.mute_until is null or d.mute_until > (select clock_timestamp()))
           where e.n_dead > 0 and d.state is null
           group by t.name
           having max(e.last_seen_at) > (select clock_timestamp()) - make_interval(secs => $1)"#,
        within_seconds
    )
    .fetch_all(on)
    .await
}

/// A job without a limit of failures in which an item has failed ten times or more.
#[derive(Clone, Debug)]
pub struct FailingJob {
    pub job_id: Uuid,
    pub root_id: Uuid,
    pub owner_id: Uuid,
    pub job_type: String,
    pub item_id: Uuid,
    pub failures: i32,
}

/// Jobs without a failure limit that have items with at least ten failures, at most a thousand, each with the worst
/// of some hundred such items, whether they wait or run. Skips from job to job along indexes that contain only such
/// items.
pub async fn failing_jobs(on: impl PgExecutor<'_>) -> Result<Vec<FailingJob>, sqlx::Error> {
    sqlx::query_as!(
        FailingJob,
        r#"with recursive hop (job_key) as (
             select least(
               (select min(job_key) from deferred where failures >= 10),
               (select min(job_key) from ready where failures >= 10),
               (select min(job_key) from lease where failures >= 10))
             union all
             select least(
               (select min(d.job_key) from deferred d where d.failures >= 10 and d.job_key > hop.job_key),
               (select min(r.job_key) from ready r where r.failures >= 10 and r.job_key > hop.job_key),
               (select min(l.job_key) from lease l where l.failures >= 10 and l.job_key > hop.job_key))
             from hop where hop.job_key is not null)
           select j.id as "job_id!", j.root_id as "root_id!", j.owner_id as "owner_id!", t.name as "job_type!",
             d.item_id as "item_id!", d.failures as "failures!"
           from (select job_key from hop where job_key is not null limit 1000) h
           join job j on j.job_key = h.job_key and j.max_failures is null
           join job_type t on t.id = j.type_id
           cross join lateral (
             select item_id, failures
             from (
               (select item_id, failures from deferred where job_key = h.job_key and failures >= 10 limit 100)
               union all
               (select item_id, failures from ready where job_key = h.job_key and failures >= 10 limit 100)
               union all
               (select item_id, failures from lease where job_key = h.job_key and failures >= 10 limit 100)) worst
             order by failures desc, item_id limit 1) d"#
    )
    .fetch_all(on)
    .await
}

/// Records the head of each type's queue if no item of the type is assigned and the type is neither paused nor capped
/// at 0, nor limited and asked for within a minute. At most two index probes per type: items that a limit of a key parks
/// are under minus their type. While no worker asks for the type, a new head has waited as long as the one before if that
/// one is still queued, behind more urgent items, or has ended without a claim.
pub async fn note_heads(tx: &mut Tx) -> Result<(), sqlx::Error> {
    // A plan that a connection made while `ready` was small would scan all of it until the next `analyze`.
    sqlx::query("set local enable_seqscan = off").execute(&mut **tx).await?;
    let heads = sqlx::query!(
        r#"select t.id, r.item_id as "item_id!",
           case when t.executor::json->>'kind' = 'pull' and not exists (
               select 1 from type_last_claim c where c.type_name = t.name and c.claimed_at >= q.since)
             -- Counted, because for the first row alone a scan of the whole table looks cheaper until it is analyzed.
             and ((select count(*) from ready w where w.item_id = q.item_id) > 0
               or exists (select 1 from outcome o where o.item_id = q.item_id and o.state in (3, 4)))
             then q.since end as since
         from job_type t
         left join queue_head q on q.type_id = t.id
         cross join lateral (
           (select item_id from ready where type_id = t.id
            order by type_id, negated_priority, fair_turn, item_id limit 1)
           union all
           (select item_id from ready where type_id = -t.id
            order by type_id, negated_priority, fair_turn, item_id limit 1)
           limit 1) r
         where not t.paused and t.concurrency is distinct from 0
           and (t.limits is null or not exists (
             select 1 from type_last_claim c
             where c.type_name = t.name and c.claimed_at > clock_timestamp() - interval '1 minute'))
           and not exists (select 1 from lease l where l.type_id = t.id)
         order by t.id"#
    )
    .fetch_all(&mut **tx)
    .await?;
    sqlx::query("set local enable_seqscan = on").execute(&mut **tx).await?;
    let types: Vec<i32> = heads.iter().map(|head| head.id).collect();
    let items: Vec<Uuid> = heads.iter().map(|head| head.item_id).collect();
    let since: Vec<Option<OffsetDateTime>> = heads.iter().map(|head| head.since).collect();
    sqlx::query!(
        "insert into queue_head as q (type_id, item_id, since)
         select type_id, item_id, coalesce(since, clock_timestamp())
         from unnest($1::int[], $2::uuid[], $3::timestamptz[]) as new (type_id, item_id, since)
         on conflict (type_id) do update set item_id = excluded.item_id, since = excluded.since
           where q.item_id <> excluded.item_id",
        &types,
        &items,
        &since as &[Option<OffsetDateTime>]
    )
    .execute(&mut **tx)
    .await?;
    sqlx::query!("delete from queue_head where type_id <> all($1::int[])", &types).execute(&mut **tx).await?;
    Ok(())
}

/// Types whose queue head has not changed for `after_seconds`, with its age in seconds.
pub async fn unclaimed(on: impl PgExecutor<'_>, after_seconds: f64) -> Result<Vec<(String, f64)>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"select t.name, extract(epoch from clock_timestamp() - q.since)::float8 as "seconds!"
           from queue_head q join job_type t on t.id = q.type_id
           where q.since <= clock_timestamp() - make_interval(secs => $1)"#,
        after_seconds
    )
    .fetch_all(on)
    .await?;
    Ok(rows.into_iter().map(|row| (row.name, row.seconds)).collect())
}
