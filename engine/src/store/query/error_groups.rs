//! One error group over all owners, with the jobs and owners that it affects.

use domain::{
    Time,
    api::{AffectedJob, AffectedOwner, GroupChange, GroupState},
    identity::owner::Owner,
    job::OwnerKind,
};
use sqlx::PgPool;

use super::job_views::GroupRow;

fn owner(kind: &str, name: String) -> Owner {
    Owner { kind: if kind == "user" { OwnerKind::User } else { OwnerKind::Service }, name }
}

/// The group of a type, with all its dead items; `None` if no owner has it. A group that was retried has none.
pub async fn find(pool: &PgPool, type_id: i32, fingerprint: &str) -> sqlx::Result<Option<domain::api::ErrorGroup>> {
    let row = sqlx::query_as!(
        GroupRow,
        r#"select $2::text as "fingerprint!", (array_agg(e.message order by e.last_seen_at desc))[1] as "message!",
             (array_agg(e.kind order by e.last_seen_at desc))[1] as "kind?", t.name as "job_type!",
             sum(e.n_dead)::bigint as "n_dead!", min(e.first_seen_at) as "first_seen_at!",
             max(e.last_seen_at) as "last_seen_at!",
             (array_agg(e.sample_item_id order by e.n_dead > 0 desc, e.last_seen_at desc))[1] as "sample_item_id!",
             coalesce(d.state, 1::smallint) as "state!", d.mute_until as "muted_until?", d.mute_failures as "muted_failures?"
           from (select * from owner_error where type_id = $1 and fingerprint = $2
                 order by last_seen_at desc limit 20000) e
           join job_type t on t.id = e.type_id
           left join lateral (
             select case when mute_until <= (select clock_timestamp()) then 1::smallint else state end as state,
               case when mute_until > (select clock_timestamp()) then mute_until end as mute_until,
               case when mute_until <= (select clock_timestamp()) then null else mute_failures end as mute_failures
             from error_decision where type_id = $1 and fingerprint = $2) d on true
           group by t.name, d.state, d.mute_until, d.mute_failures"#,
        type_id,
        fingerprint
    )
    .fetch_optional(pool)
    .await?;
    Ok(row.map(Into::into))
}

/// Newest jobs with dead items of the group, newest first: of the 200 newest jobs that ever failed like this.
pub async fn jobs(pool: &PgPool, type_id: i32, fingerprint: &str, limit: i64) -> sqlx::Result<Vec<AffectedJob>> {
    let rows = sqlx::query!(
        r#"with recursive found (job_key, hops) as (
             (select job_key, 1 from outcome where fingerprint = $2 order by job_key desc, seq desc limit 1)
             union all
             select (select o.job_key from outcome o where o.fingerprint = $2 and o.job_key < f.job_key
                     order by o.job_key desc, o.seq desc limit 1), f.hops + 1
             from found f where f.job_key is not null and f.hops < 200)
           select j.id as "job_id!", j.root_id as "root_id!", j.name, o.kind as "owner_kind!", o.name as "owner_name!",
             g.n_dead as "count!", g.last_seen_at as "last_seen_at!"
           from found f
           join job j on j.job_key = f.job_key and j.type_id = $1
           join job_state s on s.job_key = j.job_key and s.deleted_at is null
           join error_group g on g.job_key = j.job_key and g.fingerprint = $2 and g.n_dead > 0
           join owner o on o.id = j.owner_id
           where f.job_key is not null
           order by f.job_key desc limit $3"#,
        type_id,
        fingerprint,
        limit
    )
    .fetch_all(pool)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| AffectedJob {
            job_id: row.job_id,
            root_id: row.root_id,
            name: row.name,
            owner: owner(&row.owner_kind, row.owner_name),
            count: row.count,
            last_seen_at: Time(row.last_seen_at),
        })
        .collect())
}

/// Owners with the most dead items of the group, and the number of owners with any: of the thousand that failed last.
pub async fn owners(
    pool: &PgPool,
    type_id: i32,
    fingerprint: &str,
    limit: i64,
) -> sqlx::Result<(Vec<AffectedOwner>, i64)> {
    let rows = sqlx::query!(
        r#"select o.kind as "owner_kind!", o.name as "owner_name!", e.n_dead as "count!",
             e.last_seen_at as "last_seen_at!", count(*) over () as "n_owners!"
           from (select * from owner_error where type_id = $1 and fingerprint = $2 and n_dead > 0
                 order by last_seen_at desc limit 1000) e
           join owner o on o.id = e.owner_id
           order by e.n_dead desc, e.last_seen_at desc limit $3"#,
        type_id,
        fingerprint,
        limit
    )
    .fetch_all(pool)
    .await?;
    let n = rows.first().map_or(0, |row| row.n_owners);
    let owners = rows.into_iter().map(|row| AffectedOwner {
        owner: owner(&row.owner_kind, row.owner_name),
        count: row.count,
        last_seen_at: Time(row.last_seen_at),
    });
    Ok((owners.collect(), n))
}

/// Newest changes of the state of a group, newest first.
pub async fn history(pool: &PgPool, type_id: i32, fingerprint: &str, limit: i64) -> sqlx::Result<Vec<GroupChange>> {
    let rows = sqlx::query!(
        "select changed_at, state, changed_by, mute_until, mute_failures, note
         from error_change where type_id = $1 and fingerprint = $2 order by id desc limit $3",
        type_id,
        fingerprint,
        limit
    )
    .fetch_all(pool)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| GroupChange {
            at: Time(row.changed_at),
            state: GroupState::from_code(row.state),
            by: row.changed_by,
            until: row.mute_until.map(Time),
            failures: row.mute_failures,
            note: row.note,
        })
        .collect())
}
