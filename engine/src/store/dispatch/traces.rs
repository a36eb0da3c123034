//! What the spans of ended attempts need of their items.

use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

/// An item that was added within a trace, alone or with its job.
#[derive(Clone, Debug)]
pub struct TracedItem {
    pub id: Uuid,
    pub job_id: Uuid,
    pub job_type: String,
    pub created_at: OffsetDateTime,
    pub traceparent: Option<String>,
    /// `ItemState::code`, if it is final.
    pub state: Option<i16>,
    /// The assignment that made it final, if one did.
    pub last_assignment: Option<Uuid>,
}

/// Those of these items that belong to a trace, in no order.
pub async fn of_items(pool: &PgPool, ids: &[Uuid]) -> Result<Vec<TracedItem>, sqlx::Error> {
    sqlx::query_as!(
        TracedItem,
        r#"select i.id, j.id as job_id, t.name as job_type, i.created_at, coalesce(i.traceparent, j.traceparent) as traceparent,
             o.state as "state?", o.lease_id as last_assignment
           from item i
           join job j on j.job_key = i.job_key
           join job_type t on t.id = j.type_id
           left join outcome o on o.item_id = i.id
           where i.id = any($1::uuid[]) and coalesce(i.traceparent, j.traceparent) is not null"#,
        ids
    )
    .fetch_all(pool)
    .await
}
