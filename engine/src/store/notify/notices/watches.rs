//! Watches of trees, and the search for watched trees that need attention.

use domain::notice::NoticeKind;
use sqlx::PgPool;
use uuid::Uuid;

use super::{Recipient, Tx, write};

/// Number of watched trees that one search looks at.
const SCANNED: i64 = 1_000;

/// Adds the creators of these new trees as watchers, if they are people.
pub async fn watch_imports(tx: &mut Tx, trees: &[(Uuid, Uuid)]) -> Result<(), sqlx::Error> {
    let (roots, owners): (Vec<Uuid>, Vec<Uuid>) = trees.iter().copied().unzip();
    sqlx::query!(
        "insert into job_watch (root_id, owner_id)
         select t.root_id, o.id from unnest($1::uuid[], $2::uuid[]) as t (root_id, owner_id)
         join owner o on o.id = t.owner_id and o.kind = 'user'
         on conflict do nothing",
        &roots,
        &owners
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Adds a watcher. The row of the root is updated first, so that a completion either is over or sees the watch, and a
/// deletion removes it. Has no effect if the tree was deleted.
pub async fn watch(tx: &mut Tx, root_job_key: i64, root_id: Uuid, owner_id: Uuid) -> Result<(), sqlx::Error> {
    let is_open = sqlx::query_scalar!(
        r#"update job_state set calls = true where job_key = $1 and deleted_at is null
           returning tree_completed_at is null as "is_open!""#,
        root_job_key
    )
    .fetch_optional(&mut **tx)
    .await?;
    let Some(is_open) = is_open else { return Ok(()) };
    sqlx::query!(
        "insert into job_watch (root_id, owner_id, attends) values ($1, $2, $3) on conflict do nothing",
        root_id,
        owner_id,
        is_open
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Removes a watcher.
pub async fn unwatch(pool: &PgPool, root_id: Uuid, owner_id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!("delete from job_watch where root_id = $1 and owner_id = $2", root_id, owner_id).execute(pool).await?;
    Ok(())
}

/// Returns true if the person watches the tree.
pub async fn is_watched(pool: &PgPool, root_id: Uuid, owner_id: Uuid) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select exists (select 1 from job_watch where root_id = $1 and owner_id = $2) as "is!""#,
        root_id,
        owner_id
    )
    .fetch_one(pool)
    .await
}

/// Records that these watchers were told, so that nobody searches for more.
pub(super) async fn end_search(tx: &mut Tx, recipients: &[Recipient]) -> Result<(), sqlx::Error> {
    let roots: Vec<Uuid> = recipients.iter().map(|one| one.root_id).collect();
    sqlx::query!("update job_watch set attends = false where root_id = any($1::uuid[]) and attends", &roots)
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// Result of a search.
#[derive(Clone, Copy, Debug)]
pub struct AttentionScan {
    /// Where the next one continues; `None`: from the start.
    pub next: Option<Uuid>,
    /// Number of trees that need attention.
    pub found: usize,
}

/// Searches the next thousand watched trees after a root for those that need attention, and writes notices to their
/// watchers.
pub async fn scan_for_attention(tx: &mut Tx, after: Uuid) -> Result<AttentionScan, sqlx::Error> {
    let roots = sqlx::query_scalar!(
        "select distinct root_id from job_watch where attends and root_id > $1 order by root_id limit $2",
        after,
        SCANNED
    )
    .fetch_all(&mut **tx)
    .await?;
    let next = roots.last().copied().filter(|_| roots.len() as i64 == SCANNED);
    // Waiting items are looked at only where a counter says that there are any.
    let found = sqlx::query_scalar!(
        r#"select t.root_id as "root_id!" from unnest($1::uuid[]) as t (root_id)
           where exists (select 1 from job_state g where g.root_id = t.root_id and g.n_dead > 0)
              or exists (
                select 1 from job_state g
                join deferred d on d.job_key = g.job_key and d.for_event
                join event_wait e on e.item_id = d.item_id and e.form is not null and e.received_at is null
                where g.root_id = t.root_id and g.n_waiting_for_event > 0)"#,
        &roots
    )
    .fetch_all(&mut **tx)
    .await?;
    if found.is_empty() {
        return Ok(AttentionScan { next, found: 0 });
    }
    let recipients = sqlx::query_as!(
        Recipient,
        r#"select w.root_id as "root_id!", w.owner_id as "owner_id!", g.completion + 1 as "completion!", null::smallint as outcome,
             (select sum(n_dead)::bigint from job_state where root_id = w.root_id) as "dead!",
             coalesce(p.in_page or p.browser, true) as "listed!",
             case when p.email then o.email end as email, p.webhook_host as "webhook_host?"
           from job_watch w
           join job j on j.id = w.root_id
           join job_state g on g.job_key = j.job_key and g.tree_completed_at is null and g.deleted_at is null
           join owner o on o.id = w.owner_id
           left join notice_settings p on p.owner_id = o.id
           where w.root_id = any($1::uuid[]) and w.attends
             and o.disabled_at is null and (j.owner_id = o.id or o.role in ('support', 'admin'))
           order by w.root_id, w.owner_id
           for update of w skip locked"#,
        &found
    )
    .fetch_all(&mut **tx)
    .await?;
    end_search(tx, &recipients).await?;
    write(tx, NoticeKind::NeedsAttention, &recipients).await?;
    Ok(AttentionScan { next, found: recipients.len() })
}
