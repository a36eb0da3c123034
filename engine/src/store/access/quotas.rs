//! Usage for the quotas of an owner: open trees, waiting items, bytes of files.
//!
//! Read when a server first sees an owner, once a minute, and when a quota is reached; never during an admitted
//! request. Scans a bounded number of the newest jobs.

use std::ops::{Add, Sub};

use sqlx::PgPool;
use uuid::Uuid;

/// Maximum number of jobs of an owner that are scanned.
const MOST_JOBS: i64 = 200_000;

/// Amounts that quotas limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub trees: i64,
    pub items: i64,
    pub bytes: i64,
}

impl Add for Usage {
    type Output = Self;

    fn add(self, more: Self) -> Self {
        Self { trees: self.trees + more.trees, items: self.items + more.items, bytes: self.bytes + more.bytes }
    }
}

impl Sub for Usage {
    type Output = Self;

    fn sub(self, less: Self) -> Self {
        Self { trees: self.trees - less.trees, items: self.items - less.items, bytes: self.bytes - less.bytes }
    }
}

/// Counts the usage of an owner.
pub async fn usage(pool: &PgPool, owner_id: Uuid) -> Result<Usage, sqlx::Error> {
    sqlx::query_as!(
        Usage,
        r#"with mine as (
             (select job_key, true as is_root from job where owner_id = $1 and parent_id is null
              order by job_key desc limit $2)
             union all
             (select job_key, false from job where owner_id = $1 and parent_id is not null
              order by job_key desc limit $2))
           select
             count(*) filter (where m.is_root and g.tree_completed_at is null and g.deleted_at is null) as "trees!",
             coalesce(sum(job_waiting(g))
                      filter (where g.cancelled_at is null and g.deleted_at is null), 0)::bigint as "items!",
             coalesce((select sum(bytes) from upload where owner_id = $1), 0)::bigint
             + coalesce((select sum(c.bytes) from converted_sheet c join upload u on u.id = c.upload_id
                         where u.owner_id = $1), 0)::bigint
             + coalesce((select sum(bytes) from upload_partial where owner_id = $1 and finished_at is null), 0)::bigint as "bytes!"
           from mine m join job_state g on g.job_key = m.job_key"#,
        owner_id,
        MOST_JOBS
    )
    .fetch_one(pool)
    .await
}
