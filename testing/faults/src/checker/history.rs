//! History of a run, as plain rows. Reads the tables, without checks.

use std::collections::{HashMap, HashSet};

use anyhow::Result;
use domain::id::Uuid;
use sqlx::{FromRow, PgPool};

use crate::{journal::Call, ledger::Entry, receiver::ReceivedCallback};

/// A job in the tables.
#[derive(Clone, Debug, FromRow)]
pub(crate) struct Job {
    pub(crate) id: Uuid,
    pub(crate) root_id: Uuid,
    pub(crate) parent_id: Option<Uuid>,
    pub(crate) name: Option<String>,
    pub(crate) of_type: String,
    pub(crate) once: bool,
    pub(crate) fed: bool,
    pub(crate) max_failures: Option<i32>,
    pub(crate) cap: Option<i32>,
    pub(crate) lease_us: i64,
    pub(crate) cancelled_us: Option<i64>,
    pub(crate) complete: bool,
    /// Number of completions of the tree; for roots.
    pub(crate) completion: i32,
    /// Outcome and completion time of the tree; for roots.
    pub(crate) outcome: Option<i16>,
    pub(crate) completed_us: Option<i64>,
}

/// An item and its state.
#[derive(Clone, Debug, FromRow)]
pub(crate) struct Item {
    pub(crate) id: Uuid,
    pub(crate) job_id: Uuid,
    pub(crate) seq: i64,
    pub(crate) dedupe_key: Option<String>,
    pub(crate) serialize_key: Option<String>,
    pub(crate) fed_by: Option<Uuid>,
    /// 1 succeeded, 2 dead, 3 cancelled, 4 expired; none: not final.
    pub(crate) state: Option<i16>,
    pub(crate) failures: Option<i32>,
    pub(crate) error_kind: Option<String>,
    pub(crate) created_us: i64,
    /// Id of the assignment that produced the result, according to the result itself.
    pub(crate) result_by: Option<String>,
}

/// One assignment, open or closed.
#[derive(Clone, Debug, FromRow)]
pub(crate) struct AssignmentRow {
    pub(crate) id: Uuid,
    pub(crate) item_id: Uuid,
    pub(crate) attempt: i32,
    pub(crate) started_us: i64,
    /// None: open.
    pub(crate) ended_us: Option<i64>,
    /// 1 succeeded, 2 failed, 3 lease lost, 4 timed out, 5 released, 6 cancelled.
    pub(crate) ended_as: Option<i16>,
}

/// A callback in the tables.
#[derive(Clone, Debug, FromRow)]
pub(crate) struct Delivery {
    /// `webhook-id` of every attempt.
    pub(crate) id: String,
    pub(crate) job_id: Uuid,
    pub(crate) completion: i32,
    /// 1 pending, 2 delivered, 3 failed, 4 abandoned, 5 superseded.
    pub(crate) state: i16,
}

/// One line of the audit log about an item.
#[derive(Clone, Debug, FromRow)]
pub(crate) struct AuditRow {
    pub(crate) item_id: Uuid,
    pub(crate) actor_name: String,
    pub(crate) action: String,
}

/// Everything recorded of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) calls: Vec<Call>,
    pub(crate) work_events: Vec<Entry>,
    pub(crate) jobs: HashMap<Uuid, Job>,
    pub(crate) items: Vec<Item>,
    pub(crate) assignments: Vec<AssignmentRow>,
    pub(crate) deliveries: Vec<Delivery>,
    pub(crate) audit: Vec<AuditRow>,
    /// Trees that were deleted.
    pub(crate) deleted_jobs: HashSet<Uuid>,
    /// Received callbacks.
    pub(crate) received: Vec<ReceivedCallback>,
}

const JOBS: &str = "select j.id, j.root_id, j.parent_id, j.name, t.name as of_type,
      j.delivery = 'at_most_once' as once, j.feed is not null as fed, j.max_failures, t.concurrency as cap,
      (t.heartbeat_seconds * 3000000)::bigint as lease_us,
      (extract(epoch from g.cancelled_at) * 1000000)::bigint as cancelled_us, g.completed_at is not null as complete,
      g.completion, g.tree_outcome as outcome, (extract(epoch from g.tree_completed_at) * 1000000)::bigint as completed_us
    from job j join job_state g on g.job_key = j.job_key join job_type t on t.id = j.type_id";

const ITEMS: &str = "select i.id, j.id as job_id, i.seq, i.dedupe_key, i.serialize_key, i.fed_by, o.state, o.failures,
      o.error_kind, (extract(epoch from i.created_at) * 1000000)::bigint as created_us, o.result::json ->> 'by' as result_by
    from item i join job j on j.job_key = i.job_key left join outcome o on o.item_id = i.id";

const ASSIGNMENTS: &str = "select lease_id as id, item_id, attempt, (extract(epoch from started_at) * 1000000)::bigint as started_us,
      (extract(epoch from ended_at) * 1000000)::bigint as ended_us, coalesce(ended_as, case when state = 1 then 1::smallint end) as ended_as
    from outcome where lease_id is not null
    union all select lease_id, item_id, attempt, (extract(epoch from started_at) * 1000000)::bigint,
      (extract(epoch from ended_at) * 1000000)::bigint, ended_as from attempt
    union all select id, item_id, attempt, (extract(epoch from started_at) * 1000000)::bigint, null, null from lease";

const AUDIT: &str = "select item_id, actor_name, action from audit where item_id is not null";

/// Without messages to alert channels and about notices, which are no callbacks.
const DELIVERIES: &str = "select id::text as id, job_id, completion, state from delivery where job_id is not null";

/// Reads the tables, in one snapshot.
pub(crate) async fn read(pool: &PgPool) -> Result<History> {
    let mut tx = pool.begin().await?;
    sqlx::query("set transaction isolation level repeatable read, read only").execute(&mut *tx).await?;
    let jobs: Vec<Job> = sqlx::query_as(JOBS).fetch_all(&mut *tx).await?;
    let items = sqlx::query_as(ITEMS).fetch_all(&mut *tx).await?;
    let assignments = sqlx::query_as(ASSIGNMENTS).fetch_all(&mut *tx).await?;
    let deliveries = sqlx::query_as(DELIVERIES).fetch_all(&mut *tx).await?;
    let deleted_jobs: Vec<Uuid> = sqlx::query_scalar("select job_id from tombstone").fetch_all(&mut *tx).await?;
    let deleted_jobs = deleted_jobs.into_iter().collect();
    let audit = sqlx::query_as(AUDIT).fetch_all(&mut *tx).await?;
    let jobs = jobs.into_iter().map(|job| (job.id, job)).collect();
    Ok(History { jobs, items, assignments, deliveries, audit, deleted_jobs, ..History::default() })
}
