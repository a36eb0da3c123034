//! Failures of error groups per minute and hour, for their charts.

use std::collections::BTreeMap;

use domain::api::SeriesStep;
use sqlx::PgPool;
use time::OffsetDateTime;

/// Adds failures to the current minute and hour of their groups; `rows` sorted by key, so that servers lock the rows in
/// the same order.
pub async fn add(pool: &PgPool, rows: &BTreeMap<(i32, String), i64>) -> sqlx::Result<()> {
    let types: Vec<i32> = rows.keys().map(|key| key.0).collect();
    let prints: Vec<&str> = rows.keys().map(|key| key.1.as_str()).collect();
    let counts: Vec<i64> = rows.values().copied().collect();
    sqlx::query!(
        "insert into error_history as h (type_id, fingerprint, step, starts_at, n)
         select type_id, fingerprint, step, date_trunc(unit, statement_timestamp(), 'utc'), new.n
         from unnest($1::int[], $2::text[], $3::bigint[]) with ordinality as new (type_id, fingerprint, n, at)
         cross join (values (1::smallint, 'minute'), (2::smallint, 'hour')) as steps (step, unit)
         order by at, step
         on conflict (type_id, fingerprint, step, starts_at) do update set n = h.n + excluded.n",
        &types,
        &prints as &[&str],
        &counts
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Failures of one group in a point of time.
#[derive(Clone, Debug)]
pub struct Failures {
    pub type_name: String,
    pub fingerprint: String,
    pub starts_at: OffsetDateTime,
    pub n: i64,
}

/// Failures of these groups, by type and fingerprint, in the points from `from` on; omits points without failures.
pub async fn points(
    pool: &PgPool,
    groups: &[(&str, &str)],
    step: SeriesStep,
    from: OffsetDateTime,
) -> sqlx::Result<Vec<Failures>> {
    let (types, prints): (Vec<&str>, Vec<&str>) = groups.iter().copied().unzip();
    sqlx::query_as!(
        Failures,
        r#"select t.name as type_name, h.fingerprint, h.starts_at, h.n
           from unnest($1::text[], $2::text[]) as wanted (type_name, fingerprint)
           join job_type t on t.name = wanted.type_name
           join error_history h on h.type_id = t.id and h.fingerprint = wanted.fingerprint
           where h.step = $3 and h.starts_at >= $4"#,
        &types as &[&str],
        &prints as &[&str],
        step.code(),
        from
    )
    .fetch_all(pool)
    .await
}

/// Deletes minutes older than two hours and hours older than eight days, at most a thousand of each.
pub async fn forget(pool: &PgPool) -> sqlx::Result<u64> {
    let done = sqlx::query!(
        "delete from error_history where ctid = any(array(
           select old.ctid
           from (values (1::smallint, interval '2 hours'), (2::smallint, interval '8 days')) as kept (step, age)
           cross join lateral (
             select ctid from error_history h where h.step = kept.step and h.starts_at < (select clock_timestamp()) - kept.age
             order by h.starts_at limit 1000 for update skip locked) as old))"
    )
    .execute(pool)
    .await?;
    Ok(done.rows_affected())
}
