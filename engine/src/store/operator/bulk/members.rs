//! Members of bulk operations: frozen once, taken by one server at a time, counted once; and holds on the completion
//! of their trees. A member is marked in the transaction of its action, or after a refusal.

use std::collections::BTreeMap;

use sqlx::PgPool;
use uuid::Uuid;

use super::Tx;

/// Freezes members, in order; returns those that are new.
pub async fn add_members(
    tx: &mut Tx,
    id: Uuid,
    behind: i64,
    members: &[Uuid],
    roots: &[Uuid],
) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "insert into bulk_member (bulk_id, member_id, root_id, pos)
         select $1, member_id, root_id, $2 + n
         from unnest($3::uuid[], $4::uuid[]) with ordinality as new (member_id, root_id, n)
         on conflict do nothing returning member_id",
        id,
        behind,
        members,
        roots
    )
    .fetch_all(&mut **tx)
    .await
}

/// Adds members to the holds of an operation. Returns the trees that it did not hold before.
pub async fn add_holds(tx: &mut Tx, id: Uuid, roots: &[Uuid], members: &[i64]) -> Result<Vec<Uuid>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"insert into bulk_hold as h (bulk_id, root_id, members)
           select $1, root_id, members from unnest($2::uuid[], $3::bigint[]) as new (root_id, members)
           on conflict (bulk_id, root_id) do update set members = h.members + excluded.members
           returning root_id, xmax = 0 as "new!""#,
        id,
        roots,
        members
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows.into_iter().filter(|row| row.new).map(|row| row.root_id).collect())
}

/// Allowed speed of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub rate: Option<f64>,
    /// Seconds since the last member was due; none before the first.
    pub idle_seconds: Option<f64>,
}

/// Locks a running operation.
pub async fn lock_pace(tx: &mut Tx, id: Uuid) -> Result<Option<Pace>, sqlx::Error> {
    sqlx::query_as!(
        Pace,
        "select rate,
           case when next_at > '-infinity' then extract(epoch from clock_timestamp() - next_at)::float8 end
             as idle_seconds
         from bulk where id = $1 and state = 'running' for update",
        id
    )
    .fetch_optional(&mut **tx)
    .await
}

/// Sets the time of the next member, relative to now; negative if members are overdue.
pub async fn set_pace(tx: &mut Tx, id: Uuid, seconds: f64) -> Result<(), sqlx::Error> {
    sqlx::query!("update bulk set next_at = clock_timestamp() + make_interval(secs => $2) where id = $1", id, seconds)
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// A member taken by this server.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    pub member_id: Uuid,
    pub root_id: Uuid,
    pub pos: i64,
    /// Number of times that a server has taken it.
    pub tries: i16,
}

/// Takes members that no server is processing, for `seconds`.
pub async fn take_members(tx: &mut Tx, id: Uuid, n: i64, seconds: f64) -> Result<Vec<Member>, sqlx::Error> {
    let mut taken = sqlx::query_as!(
        Member,
        "update bulk_member set taken_until = clock_timestamp() + make_interval(secs => $3), tries = tries + 1
         where bulk_id = $1 and member_id = any(array(
           select member_id from bulk_member
           where bulk_id = $1 and not done and (taken_until is null or taken_until < clock_timestamp())
           order by pos limit $2 for update skip locked))
         returning member_id, root_id, pos, tries",
        id,
        n,
        seconds
    )
    .fetch_all(&mut **tx)
    .await?;
    taken.sort_unstable_by_key(|member| member.pos);
    Ok(taken)
}

/// Releases members, which can be taken again after `seconds`.
pub async fn give_back(pool: &PgPool, id: Uuid, members: &[Uuid], seconds: f64) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update bulk_member set taken_until = clock_timestamp() + make_interval(secs => $3)
         where bulk_id = $1 and member_id = any($2::uuid[]) and not done",
        id,
        members,
        seconds
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Members that have not been counted yet.
pub async fn uncounted(pool: &PgPool, id: Uuid, members: &[Uuid]) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "select member_id from bulk_member where bulk_id = $1 and member_id = any($2::uuid[]) and not done",
        id,
        members
    )
    .fetch_all(pool)
    .await
}

/// Marks members as counted. Returns the number of those that were not counted before.
pub async fn mark(tx: &mut Tx, id: Uuid, members: &[Uuid]) -> Result<u64, sqlx::Error> {
    let done = sqlx::query!(
        "with pick as materialized (
           select member_id from bulk_member where bulk_id = $1 and member_id = any($2::uuid[]) and not done
           order by member_id for update)
         update bulk_member set done = true
         where bulk_id = $1 and member_id = any(array(select member_id from pick))",
        id,
        members
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected())
}

/// Subtracts members from the holds of an operation. Returns the trees that have none left. Requires the locks of the
/// roots' job state rows.
pub async fn hold_less(tx: &mut Tx, id: Uuid, roots: &[Uuid], members: &[i64]) -> Result<Vec<Uuid>, sqlx::Error> {
    let rows = sqlx::query!(
        "update bulk_hold h set members = h.members - less.n
         from unnest($2::uuid[], $3::bigint[]) as less (root_id, n)
         where h.bulk_id = $1 and h.root_id = less.root_id
         returning h.root_id, h.members",
        id,
        roots,
        members
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows.into_iter().filter(|row| row.members == 0).map(|row| row.root_id).collect())
}

/// Deletes the holds on trees. Returns the trees that were held. Requires the locks of the roots' job state rows.
pub async fn drop_holds(tx: &mut Tx, id: Uuid, roots: &[Uuid]) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "delete from bulk_hold where bulk_id = $1 and root_id = any($2::uuid[]) returning root_id",
        id,
        roots
    )
    .fetch_all(&mut **tx)
    .await
}

/// Results of a batch of members.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub processed: i64,
    /// Number of skipped members by reason.
    pub skipped: BTreeMap<&'static str, i64>,
    pub errored: i64,
}

/// Counts skipped members by reason; in a dry run, those that would be skipped.
pub async fn count_skips(tx: &mut Tx, id: Uuid, skips: &BTreeMap<&'static str, i64>) -> Result<(), sqlx::Error> {
    if skips.is_empty() {
        return Ok(());
    }
    let reasons: Vec<&str> = skips.keys().copied().collect();
    let numbers: Vec<i64> = skips.values().copied().collect();
    sqlx::query!(
        "insert into bulk_skip as s (bulk_id, reason, n)
         select $1, reason, n from unnest($2::text[], $3::bigint[]) as new (reason, n)
         on conflict (bulk_id, reason) do update set n = s.n + excluded.n",
        id,
        &reasons as &[&str],
        &numbers
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Counts members of a running operation, which completes with its last member. Returns false if the operation is not
/// running anymore; the transaction must then be rolled back.
pub async fn count(tx: &mut Tx, id: Uuid, counts: &Counts) -> Result<bool, sqlx::Error> {
    count_skips(tx, id, &counts.skipped).await?;
    let done = sqlx::query!(
        "update bulk set processed = processed + $2, skipped = skipped + $3, errored = errored + $4,
           updated_at = clock_timestamp(),
           state = case when processed + skipped + errored + $2 + $3 + $4 = total then 'completed' else state end,
           finished_at = case when processed + skipped + errored + $2 + $3 + $4 = total then clock_timestamp() end
         where id = $1 and state = 'running'",
        id,
        counts.processed,
        counts.skipped.values().sum::<i64>(),
        counts.errored,
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Trees that an operation holds, at most `limit`.
pub async fn holds(pool: &PgPool, id: Uuid, limit: i64) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!("select root_id from bulk_hold where bulk_id = $1 order by root_id limit $2", id, limit)
        .fetch_all(pool)
        .await
}
