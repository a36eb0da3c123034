//! Fair turns of groups (`fair-by`).

use sqlx::PgPool;
use uuid::Uuid;

/// Reserves turns for groups of a type at a priority, so many for each as is said at its index. Returns the turn before
/// the first of each group. `lowest` is the lowest turn that waits.
pub async fn reserve(
    pool: &PgPool,
    (type_id, negated_priority): (i32, i16),
    groups: &[Uuid],
    numbers: &[i64],
    lowest: i64,
) -> Result<Vec<(Uuid, i64)>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"insert into fair_group as g (type_id, negated_priority, group_key, last_turn, reserved, used_at)
           select $1, $2, new.group_key, $5 + new.n, new.n, clock_timestamp()
           from unnest($3::uuid[], $4::bigint[]) as new (group_key, n)
           order by new.group_key
           on conflict (type_id, negated_priority, group_key) do update
             set last_turn = greatest(g.last_turn, excluded.last_turn - excluded.reserved) + excluded.reserved,
               reserved = excluded.reserved, used_at = excluded.used_at
           returning group_key, last_turn - reserved as "before!""#,
        type_id,
        negated_priority,
        groups,
        numbers,
        lowest
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(|row| (row.group_key, row.before)).collect())
}

/// Deletes groups that were not used for an hour and that would go on like new ones: their turns are over. Of each type and
/// priority the last turn stays.
pub async fn delete_idle(pool: &PgPool, items_per_turn: i64, limit: i64) -> Result<u64, sqlx::Error> {
    let done = sqlx::query!(
        "delete from fair_group where ctid = any(array(
           select g.ctid from fair_group g
           where g.used_at < (select clock_timestamp()) - interval '1 hour'
             and g.last_turn < least(
               (select r.fair_turn * $1 from ready r
                where r.type_id = g.type_id and r.negated_priority = g.negated_priority order by r.fair_turn limit 1),
               (select r.fair_turn * $1 from ready r
                where r.type_id = -g.type_id and r.negated_priority = g.negated_priority order by r.fair_turn limit 1),
               (select l.last_turn from fair_group l
                where l.type_id = g.type_id and l.negated_priority = g.negated_priority
                order by l.last_turn desc limit 1))
           order by g.used_at limit $2))",
        items_per_turn,
        limit
    )
    .execute(pool)
    .await?;
    Ok(done.rows_affected())
}
