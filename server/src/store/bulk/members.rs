//! Members of bulk operations: frozen once, taken by one server at a time, counted once; and the trees
//! whose completion they hold. A member is marked in the transaction of the deed that was done to it, or
//! after a deed that may be done twice.

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

/// Counts members of trees that the operation holds; returns the trees that it did not hold before.
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

/// How fast an operation may go on.
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

/// The next member is due in so many seconds; negative where some are already.
pub async fn set_pace(tx: &mut Tx, id: Uuid, seconds: f64) -> Result<(), sqlx::Error> {
    sqlx::query!("update bulk set next_at = clock_timestamp() + make_interval(secs => $2) where id = $1", id, seconds)
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// A member that is this server's for a while.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    pub member_id: Uuid,
    pub root_id: Uuid,
    pub pos: i64,
    /// How often somebody has begun with it.
    pub tries: i16,
}

/// Takes members that nobody is at, for some seconds.
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

/// Lets members be taken again, in so many seconds.
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

/// Marks a member as counted. False: it was.
pub async fn mark(tx: &mut Tx, id: Uuid, member_id: Uuid) -> Result<bool, sqlx::Error> {
    let done = sqlx::query!(
        "update bulk_member set done = true where bulk_id = $1 and member_id = $2 and not done",
        id,
        member_id
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// One member less of a tree that is held; how many it still has. None: the tree is not held.
pub async fn hold_less(tx: &mut Tx, id: Uuid, root_id: Uuid) -> Result<Option<i64>, sqlx::Error> {
    sqlx::query_scalar!(
        "update bulk_hold set members = members - 1 where bulk_id = $1 and root_id = $2 returning members",
        id,
        root_id
    )
    .fetch_optional(&mut **tx)
    .await
}

/// Forgets that a tree is held. False: it was not. Under the root's gate.
pub async fn drop_hold(tx: &mut Tx, id: Uuid, root_id: Uuid) -> Result<bool, sqlx::Error> {
    let done = sqlx::query!("delete from bulk_hold where bulk_id = $1 and root_id = $2", id, root_id)
        .execute(&mut **tx)
        .await?;
    Ok(done.rows_affected() == 1)
}

/// What became of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted<'a> {
    Processed,
    Skipped(&'a str),
    Errored,
}

/// Counts a member of a running operation, which is completed with its last one. False: it does not run
/// any more, and what this transaction did is to be rolled back.
pub async fn count(tx: &mut Tx, id: Uuid, as_what: Counted<'_>) -> Result<bool, sqlx::Error> {
    if let Counted::Skipped(reason) = as_what {
        sqlx::query!(
            "insert into bulk_skip as s (bulk_id, reason, n) values ($1, $2, 1)
             on conflict (bulk_id, reason) do update set n = s.n + 1",
            id,
            reason
        )
        .execute(&mut **tx)
        .await?;
    }
    let of = |it: bool| i64::from(it);
    let done = sqlx::query!(
        "update bulk set processed = processed + $2, skipped = skipped + $3, errored = errored + $4,
           updated_at = clock_timestamp(),
           state = case when processed + skipped + errored + 1 = total then 'completed' else state end,
           finished_at = case when processed + skipped + errored + 1 = total then clock_timestamp() end
         where id = $1 and state = 'running'",
        id,
        of(as_what == Counted::Processed),
        of(matches!(as_what, Counted::Skipped(_))),
        of(as_what == Counted::Errored),
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
