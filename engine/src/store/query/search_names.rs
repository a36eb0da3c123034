//! Bulk operations, schedules, people, and services by id, or else by a part of their name, among the newest 5,000.

use sqlx::PgPool;
use uuid::Uuid;

/// Bulk operation that a search has found.
#[derive(Clone, Debug)]
pub struct FoundOperation {
    pub id: Uuid,
    pub action: String,
    pub target: String,
    pub state: String,
    pub reason: Option<String>,
    pub total: i64,
}

/// Operations that an actor sees (as in `store::operator::bulk::list`) or all, newest first, with this id or a matching
/// reason. `pattern` is escaped for `like`.
pub async fn operations(
    pool: &PgPool,
    actor_id: Option<Uuid>,
    id: Option<Uuid>,
    pattern: &str,
    limit: i64,
) -> sqlx::Result<Vec<FoundOperation>> {
    sqlx::query_as!(
        FoundOperation,
        r#"select id as "id!", action as "action!", target as "target!", state as "state!", reason,
             total as "total!"
           from (
             (select id, action, target, state, reason, total from bulk
              where id = $2
                and ($1::uuid is null
                     or actor_id = $1 and (own_total = total or not admin and coalesce(role, 'user') = 'user')))
             union all
             (select id, action, target, state, reason, total from bulk
              where $2::uuid is null and $1::uuid is null order by id desc limit 5000)
             union all
             (select id, action, target, state, reason, total from bulk
              where $2::uuid is null and actor_id = $1
                and (own_total = total or not admin and coalesce(role, 'user') = 'user')
              order by id desc limit 5000)) newest
           where id = $2 or reason ilike $3
           order by id desc limit $4"#,
        actor_id,
        id,
        pattern,
        limit
    )
    .fetch_all(pool)
    .await
}

/// Schedule that a search has found.
#[derive(Clone, Debug)]
pub struct FoundSchedule {
    pub id: Uuid,
    pub name: String,
    pub cron: String,
    pub time_zone: String,
    pub paused: bool,
}

/// Schedules of an owner or of all, newest first, with this id or a matching name. `pattern` is escaped for `like`.
pub async fn schedules(
    pool: &PgPool,
    owner_id: Option<Uuid>,
    id: Option<Uuid>,
    pattern: &str,
    limit: i64,
) -> sqlx::Result<Vec<FoundSchedule>> {
    sqlx::query_as!(
        FoundSchedule,
        r#"select id as "id!", name as "name!", cron as "cron!", time_zone as "time_zone!", paused as "paused!"
           from (
             (select id, name, cron, time_zone, paused from schedule
              where id = $2 and ($1::uuid is null or owner_id = $1))
             union all
             (select id, name, cron, time_zone, paused from schedule
              where $2::uuid is null and $1::uuid is null order by id desc limit 5000)
             union all
             (select id, name, cron, time_zone, paused from schedule
              where $2::uuid is null and owner_id = $1 order by id desc limit 5000)) newest
           where id = $2 or name ilike $3
           order by id desc limit $4"#,
        owner_id,
        id,
        pattern,
        limit
    )
    .fetch_all(pool)
    .await
}

/// Person or service that a search has found.
#[derive(Clone, Debug)]
pub struct FoundOwner {
    pub id: Uuid,
    pub name: String,
    pub email: Option<String>,
    pub role: Option<String>,
    pub disabled: bool,
}

/// People (`kind` is `user`) or services, newest first, with this id or a matching name or address. `pattern` is
/// escaped for `like`.
pub async fn owners(
    pool: &PgPool,
    kind: &str,
    id: Option<Uuid>,
    pattern: &str,
    limit: i64,
) -> sqlx::Result<Vec<FoundOwner>> {
    sqlx::query_as!(
        FoundOwner,
        r#"select id as "id!", name as "name!", email, role, disabled as "disabled!"
           from (
             (select id, name, email, role, disabled_at is not null as disabled from owner where id = $2 and kind = $1)
             union all
             (select id, name, email, role, disabled_at is not null from owner
              where $2::uuid is null and kind = $1 order by created_at desc, name desc limit 5000)) newest
           where id = $2 or name ilike $3 or email ilike $3
           limit $4"#,
        kind,
        id,
        pattern,
        limit
    )
    .fetch_all(pool)
    .await
}
