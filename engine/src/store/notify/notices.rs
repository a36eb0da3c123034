//! Notices to people about the trees that they watch (`notices`): watches, notices, settings.
//!
//! Notices about completions are written in the commit that completes the tree, under the lock of its root's job state
//! row; those about trees that need attention under the locks of their watches. Each writes its deliveries, last.

mod settings; // how people receive notices
mod watches; // who watches a tree

use domain::{
    Outcome, Time,
    notice::{Notice, NoticeKind},
};
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::{
    sealing::channel_target::MAIL_HOST,
    store::{Tx, page_range::PageRange},
};

pub use settings::{SettingsRow, find_settings, lock_settings, replace_webhook, webhooks, write_settings};
pub use watches::{AttentionScan, is_watched, scan_for_attention, unwatch, watch, watch_imports};

/// A person who is to be told about a tree.
struct Recipient {
    root_id: Uuid,
    owner_id: Uuid,
    completion: i32,
    outcome: Option<i16>,
    dead: i64,
    listed: bool,
    email: Option<String>,
    webhook_host: Option<String>,
}

/// Writes a notice to each watcher of those of these trees that this transaction has completed. Requires the locks of the
/// roots' job state rows. Idempotent.
pub async fn finished(tx: &mut Tx, root_job_keys: &[i64]) -> Result<(), sqlx::Error> {
    // `now()` is the start of the transaction: trees that were complete before are not announced again.
    let recipients = sqlx::query_as!(
        Recipient,
        r#"select w.root_id as "root_id!", w.owner_id as "owner_id!", g.completion as "completion!",
             g.tree_outcome as outcome, s.dead as "dead!",
             coalesce(p.in_page or p.browser, true) as "listed!",
             case when p.email then o.email end as email, p.webhook_host as "webhook_host?"
           from job_state g
           cross join lateral (
             select root_id, owner_id from job_watch where root_id = g.root_id offset 0) w
           cross join lateral (
             select sum(n_dead)::bigint as dead from job_state where root_id = g.root_id offset 0) s
           cross join lateral (select owner_id from job where job_key = g.job_key offset 0) j
           join owner o on o.id = w.owner_id
           left join notice_settings p on p.owner_id = o.id
           where g.job_key = any($1::bigint[]) and g.tree_completed_at >= now() and g.deleted_at is null
             and o.disabled_at is null and (j.owner_id = o.id or o.role in ('support', 'admin'))
           order by w.root_id, w.owner_id"#,
        root_job_keys
    )
    .fetch_all(&mut **tx)
    .await?;
    if recipients.is_empty() {
        return Ok(());
    }
    watches::end_search(tx, &recipients).await?;
    write(tx, NoticeKind::Finished, &recipients).await
}

/// Writes notices that are not there yet, and a delivery for each receiver.
async fn write(tx: &mut Tx, kind: NoticeKind, recipients: &[Recipient]) -> Result<(), sqlx::Error> {
    fn column<'a, T>(rows: &'a [Recipient], of: impl Fn(&'a Recipient) -> T) -> Vec<T> {
        rows.iter().map(of).collect()
    }
    let ids: Vec<Uuid> = recipients.iter().map(|_| Uuid::now_v7()).collect();
    let written = sqlx::query_scalar!(
        "insert into notice (id, owner_id, root_id, kind, completion, outcome, dead, listed)
         select n.id, n.owner_id, n.root_id, $8, n.completion, n.outcome, n.dead, n.listed
         from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::int[], $5::smallint[], $6::bigint[], $7::bool[])
           as n (id, owner_id, root_id, completion, outcome, dead, listed)
         on conflict on constraint notice_once do nothing
         returning id",
        &ids,
        &column(recipients, |one| one.owner_id),
        &column(recipients, |one| one.root_id),
        &column(recipients, |one| one.completion),
        &column(recipients, |one| one.outcome) as &[Option<i16>],
        &column(recipients, |one| one.dead),
        &column(recipients, |one| one.listed),
        kind.as_str()
    )
    .fetch_all(&mut **tx)
    .await?;
    let (mut delivery_ids, mut notice_ids, mut owner_ids) = (Vec::new(), Vec::new(), Vec::new());
    let (mut hosts, mut addresses): (Vec<&str>, Vec<Option<&str>>) = (Vec::new(), Vec::new());
    for (id, one) in ids.iter().zip(recipients).filter(|(id, _)| written.contains(id)) {
        let mail = one.email.as_deref().map(|address| (MAIL_HOST, Some(address)));
        let post = one.webhook_host.as_deref().map(|host| (host, None));
        for (host, address) in [mail, post].into_iter().flatten() {
            delivery_ids.push(Uuid::now_v7());
            notice_ids.push(*id);
            owner_ids.push(one.owner_id);
            hosts.push(host);
            addresses.push(address);
        }
    }
    if delivery_ids.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "insert into delivery (id, notice_id, owner_id, host, recipient, next_try_at, deleted_at)
         select d.id, d.notice_id, d.owner_id, d.host, d.recipient, clock_timestamp(), clock_timestamp()
         from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[])
           as d (id, notice_id, owner_id, host, recipient)",
        &delivery_ids,
        &notice_ids,
        &owner_ids,
        &hosts as &[&str],
        &addresses as &[Option<&str>]
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// A notice as it is stored, with the name of its job.
struct NoticeRow {
    id: Uuid,
    kind: String,
    root_id: Uuid,
    job_name: String,
    outcome: Option<i16>,
    dead: i64,
    is_import: bool,
    created_at: OffsetDateTime,
    read_at: Option<OffsetDateTime>,
}

impl NoticeRow {
    fn notice(self) -> Option<Notice> {
        Some(Notice {
            id: self.id,
            kind: NoticeKind::parse(&self.kind)?,
            job_id: self.root_id,
            job_name: self.job_name,
            is_import: self.is_import,
            outcome: self.outcome.and_then(Outcome::from_code),
            dead: self.dead,
            created_at: Time(self.created_at),
            read_at: self.read_at.map(Time),
        })
    }
}

/// A page of the notices in a person's list, in order of age, about trees that the person may see.
pub async fn list(pool: &PgPool, owner_id: Uuid, sees_all: bool, part: PageRange) -> Result<Vec<Notice>, sqlx::Error> {
    macro_rules! listed {
        ($on:tt, $order:tt) => {
            sqlx::query_as!(
                NoticeRow,
                r#"select n.id, n.kind, n.root_id, coalesce(j.name, j.key) as "job_name!", n.outcome, n.dead, n.created_at,
                     n.read_at, j.upload_id is not null as "is_import!"
                   from notice n
                   join job j on j.id = n.root_id
                   join job_state g on g.job_key = j.job_key and g.deleted_at is null
                   where n.owner_id = $1 and n.listed and ($2 or j.owner_id = $1) and ($3::uuid is null or n.id "#
                    + $on
                    + " $3) order by n.id "
                    + $order
                    + " limit $4",
                owner_id,
                sees_all,
                part.behind,
                part.limit
            )
            .fetch_all(pool)
            .await?
        };
    }
    let rows = if part.oldest_first { listed!(">", "asc") } else { listed!("<", "desc") };
    Ok(rows.into_iter().filter_map(NoticeRow::notice).collect())
}

/// Number of a person's unread notices about trees that the person may see, counted up to a hundred.
pub async fn unread(pool: &PgPool, owner_id: Uuid, sees_all: bool) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select count(*) as "n!" from (
             select 1 from notice n
             join job j on j.id = n.root_id
             join job_state g on g.job_key = j.job_key and g.deleted_at is null
             where n.owner_id = $1 and n.listed and n.read_at is null and ($2 or j.owner_id = $1) limit 100) as counted"#,
        owner_id,
        sees_all
    )
    .fetch_one(pool)
    .await
}

/// Marks a person's notices as read: those with these ids, or about this tree, or all. Returns their number.
pub async fn mark_read(
    pool: &PgPool,
    owner_id: Uuid,
    ids: Option<&[Uuid]>,
    root_id: Option<Uuid>,
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query!(
        "update notice set read_at = clock_timestamp()
         where owner_id = $1 and listed and read_at is null
           and ($2::uuid[] is null or id = any($2)) and ($3::uuid is null or root_id = $3)",
        owner_id,
        ids,
        root_id
    )
    .execute(pool)
    .await?;
    Ok(done.rows_affected())
}

/// A notice about to be sent, with the settings of its person as they are now.
#[derive(Clone, Debug)]
pub struct NoticeNow {
    pub notice: Notice,
    /// Address of the account, if mail is wanted.
    pub email: Option<String>,
    /// Sealed.
    pub webhook: Option<String>,
}

/// Those of these notices whose person may still see the tree.
pub async fn to_send(pool: &PgPool, ids: &[Uuid]) -> Result<Vec<NoticeNow>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"select n.id as "id!", n.kind as "kind!", n.root_id as "root_id!", coalesce(j.name, j.key) as "job_name!",
             n.outcome, n.dead as "dead!", n.created_at as "created_at!", n.read_at,
             case when p.email then o.email end as email, p.webhook as "webhook?", j.upload_id is not null as "is_import!"
           from notice n
           join job j on j.id = n.root_id
           join job_state g on g.job_key = j.job_key and g.deleted_at is null
           join owner o on o.id = n.owner_id
           left join notice_settings p on p.owner_id = n.owner_id
           where n.id = any($1::uuid[]) and o.disabled_at is null
             and (j.owner_id = o.id or o.role in ('support', 'admin'))"#,
        ids
    )
    .fetch_all(pool)
    .await?;
    let found = rows.into_iter().filter_map(|row| {
        let notice = NoticeRow {
            id: row.id,
            kind: row.kind,
            root_id: row.root_id,
            job_name: row.job_name,
            outcome: row.outcome,
            dead: row.dead,
            is_import: row.is_import,
            created_at: row.created_at,
            read_at: row.read_at,
        };
        Some(NoticeNow { notice: notice.notice()?, email: row.email, webhook: row.webhook })
    });
    Ok(found.collect())
}

/// Deletes notices older than thirty days, at most a thousand. Returns their number.
pub async fn delete_old(pool: &PgPool) -> Result<u64, sqlx::Error> {
    let done = sqlx::query!(
        "delete from notice where ctid = any(array(
           select ctid from notice where created_at < (select clock_timestamp()) - interval '30 days'
           order by created_at limit 1000 for update skip locked))"
    )
    .execute(pool)
    .await?;
    Ok(done.rows_affected())
}

/// Deletes the notices and watches of trees, in the commit that deletes them and under the locks of their job state rows.
pub async fn forget_trees(tx: &mut Tx, root_ids: &[Uuid]) -> Result<(), sqlx::Error> {
    sqlx::query!("delete from job_watch where root_id = any($1::uuid[])", root_ids).execute(&mut **tx).await?;
    sqlx::query!("delete from notice where root_id = any($1::uuid[])", root_ids).execute(&mut **tx).await?;
    Ok(())
}

/// Notices written within the last few seconds, and their persons, newest first.
pub async fn recent(pool: &PgPool) -> Result<Vec<(Uuid, Uuid)>, sqlx::Error> {
    let rows = sqlx::query!(
        "select id, owner_id from notice
         where listed and created_at > (select clock_timestamp()) - interval '5 seconds'
         order by created_at desc limit 10000"
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(|row| (row.id, row.owner_id)).collect())
}
