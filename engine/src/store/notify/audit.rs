//! The audit log: written in the transaction of the action, read newest first by people and oldest first by copies.
//! Entries are never changed or referenced. They are deleted by age only, if the operator has set a limit and the
//! database role permits it.

use domain::{
    Time,
    identity::audit::{Actor, ActorKind, AuditEntry},
    job::{Owner, OwnerKind},
};
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

/// An entry to be written.
#[derive(Clone, Debug)]
pub struct AuditRow {
    pub actor_id: Uuid,
    pub actor_kind: ActorKind,
    pub actor_name: String,
    /// Such as `job.delete`: what it is done to, and the verb.
    pub action: &'static str,
    /// Owner of the work.
    pub owner_id: Option<Uuid>,
    pub root_id: Option<Uuid>,
    pub job_id: Option<Uuid>,
    pub item_id: Option<Uuid>,
    pub reason: Option<String>,
    pub detail: Option<String>,
    /// The client's address.
    pub address: Option<String>,
    /// The session or token that was used.
    pub credential_id: Option<Uuid>,
    /// The bulk operation that it began or stopped.
    pub operation_id: Option<Uuid>,
}

/// Writes an entry, in the transaction of the action.
pub async fn record(on: &mut PgConnection, row: &AuditRow) -> Result<(), sqlx::Error> {
    record_all(on, std::slice::from_ref(row)).await
}

/// Writes entries, in order, in the transaction of the actions.
pub async fn record_all(on: &mut PgConnection, rows: &[AuditRow]) -> Result<(), sqlx::Error> {
    if rows.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = rows.iter().map(|_| Uuid::now_v7()).collect();
    let actors: Vec<Uuid> = rows.iter().map(|row| row.actor_id).collect();
    let kinds: Vec<&str> = rows.iter().map(|row| row.actor_kind.as_str()).collect();
    let names: Vec<&str> = rows.iter().map(|row| row.actor_name.as_str()).collect();
    let actions: Vec<&str> = rows.iter().map(|row| row.action).collect();
    let owners: Vec<Option<Uuid>> = rows.iter().map(|row| row.owner_id).collect();
    let roots: Vec<Option<Uuid>> = rows.iter().map(|row| row.root_id).collect();
    let jobs: Vec<Option<Uuid>> = rows.iter().map(|row| row.job_id).collect();
    let items: Vec<Option<Uuid>> = rows.iter().map(|row| row.item_id).collect();
    let reasons: Vec<Option<&str>> = rows.iter().map(|row| row.reason.as_deref()).collect();
    let details: Vec<Option<&str>> = rows.iter().map(|row| row.detail.as_deref()).collect();
    let addresses: Vec<Option<&str>> = rows.iter().map(|row| row.address.as_deref()).collect();
    let credentials: Vec<Option<Uuid>> = rows.iter().map(|row| row.credential_id).collect();
    let operations: Vec<Option<Uuid>> = rows.iter().map(|row| row.operation_id).collect();
    // `settled_before` searches for the text `insert into audit`.
    sqlx::query!(
        "insert into audit (id, actor_id, actor_kind, actor_name, action, owner_id, root_id, job_id, item_id,
           reason, detail, address, credential_id, operation_id)
         select * from unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::uuid[], $7::uuid[],
                              $8::uuid[], $9::uuid[], $10::text[], $11::text[], $12::text[], $13::uuid[],
                              $14::uuid[])",
        &ids,
        &actors,
        &kinds as &[&str],
        &names as &[&str],
        &actions as &[&str],
        &owners as &[Option<Uuid>],
        &roots as &[Option<Uuid>],
        &jobs as &[Option<Uuid>],
        &items as &[Option<Uuid>],
        &reasons as &[Option<&str>],
        &details as &[Option<&str>],
        &addresses as &[Option<&str>],
        &credentials as &[Option<Uuid>],
        &operations as &[Option<Uuid>],
    )
    .execute(on)
    .await?;
    Ok(())
}

/// Returns true if the log has an action of the last minute by the same credential on the same object.
pub async fn is_recorded(pool: &PgPool, row: &AuditRow) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select exists (
             select 1 from audit
             where actor_name = $1 and at > clock_timestamp() - interval '1 minute' and credential_id = $2
               and owner_id = $3 and job_id is not distinct from $4 and item_id is not distinct from $5
               and (job_id is not null or detail is not distinct from $6) and action <> 'access.refuse') as "is!""#,
        row.actor_name,
        row.credential_id,
        row.owner_id,
        row.job_id,
        row.item_id,
        row.detail
    )
    .fetch_one(pool)
    .await
}

/// Records the owners whose work a bulk operation touches, so that they see its entry.
pub async fn note_owners(on: &mut PgConnection, operation_id: Uuid, owners: &[Uuid]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into audit_operation_owner (operation_id, owner_id)
         select $1, owner_id from unnest($2::uuid[]) as t (owner_id) order by owner_id on conflict do nothing",
        operation_id,
        owners
    )
    .execute(on)
    .await?;
    Ok(())
}

/// The name of an owner, for an entry that is written about it.
pub async fn owner_name(on: &mut PgConnection, owner_id: Uuid) -> Result<Option<String>, sqlx::Error> {
    sqlx::query_scalar!("select name from owner where id = $1", owner_id).fetch_optional(on).await
}

/// Filters of a list of entries; an entry matches if it matches every filter that is set.
#[derive(Clone, Debug, Default)]
pub struct AuditQuery {
    /// Only what was done to this owner's work.
    pub owner_id: Option<Uuid>,
    /// The name of a person or service.
    pub actor: Option<String>,
    pub action: Option<String>,
    pub job_id: Option<Uuid>,
    pub root_id: Option<Uuid>,
    pub item_id: Option<Uuid>,
    pub since: Option<OffsetDateTime>,
    /// The oldest first; else the newest.
    pub oldest_first: bool,
    /// The last one of the page before.
    pub behind: Option<(OffsetDateTime, Uuid)>,
    pub limit: i64,
}

struct Row {
    id: Uuid,
    at: OffsetDateTime,
    actor_kind: String,
    actor_name: String,
    action: String,
    root_id: Option<Uuid>,
    job_id: Option<Uuid>,
    item_id: Option<Uuid>,
    reason: Option<String>,
    detail: Option<String>,
    address: Option<String>,
    credential_id: Option<Uuid>,
    operation_id: Option<Uuid>,
    owner_kind: Option<String>,
    owner_name: Option<String>,
}

impl From<Row> for AuditEntry {
    fn from(row: Row) -> Self {
        let owner = row.owner_kind.zip(row.owner_name);
        Self {
            id: row.id,
            at: Time(row.at),
            actor: Actor { kind: ActorKind::parse(&row.actor_kind).unwrap_or(ActorKind::Nobody), name: row.actor_name },
            action: row.action,
            owner: owner.map(|(kind, name)| Owner { kind: owner_kind(&kind), name }),
            root_id: row.root_id,
            job_id: row.job_id,
            item_id: row.item_id,
            reason: row.reason,
            detail: row.detail,
            address: row.address,
            credential_id: row.credential_id,
            operation_id: row.operation_id,
        }
    }
}

/// Entries that match a query: the columns and filters that both orders share ($1 to $7), the rest of the statement,
/// and its further arguments ($8 and on). A macro, because statements must be literals to be checked at compile time.
macro_rules! matching_entries {
    ($query:expr, $rest:tt, $($argument:expr),+ $(,)?) => {
        sqlx::query_as!(
            Row,
            r#"select a.id, a.at, a.actor_kind, a.actor_name, a.action, a.root_id, a.job_id, a.item_id, a.reason,
                 a.detail, a.address, a.credential_id, a.operation_id,
                 o.kind as "owner_kind?", o.name as "owner_name?"
               from audit a left join owner o on o.id = a.owner_id
               where ($1::uuid is null or a.owner_id = $1
                      or a.operation_id in (select operation_id from audit_operation_owner where owner_id = $1))
                 and ($2::text is null or a.actor_name = $2)
                 and ($3::text is null or a.action = $3)
                 and ($4::uuid is null or a.job_id = $4)
                 and ($5::uuid is null or a.root_id = $5)
                 and ($6::uuid is null or a.item_id = $6)
                 and ($7::timestamptz is null or a.at >= $7)"# + $rest,
            $query.owner_id,
            $query.actor,
            $query.action,
            $query.job_id,
            $query.root_id,
            $query.item_id,
            $query.since,
            $($argument),+
        )
    };
}

/// Entries that match, in order of age.
pub async fn list(pool: &PgPool, query: &AuditQuery) -> Result<Vec<AuditEntry>, sqlx::Error> {
    macro_rules! listed {
        ($rest:tt) => {
            matching_entries!(
                query,
                $rest,
                query.behind.map(|place| place.0),
                query.behind.map(|place| place.1),
                query.limit
            )
            .fetch_all(pool)
            .await?
        };
    }
    let rows = if query.oldest_first {
        listed!(" and ($8::timestamptz is null or (a.at, a.id) > ($8, $9::uuid)) order by a.at, a.id limit $10")
    } else {
        listed!(
            " and ($8::timestamptz is null or (a.at, a.id) < ($8, $9::uuid)) order by a.at desc, a.id desc limit $10"
        )
    };
    Ok(rows.into_iter().map(Into::into).collect())
}

/// Matching entries after `after` and older than `until`, oldest first, at most `limit`.
pub async fn list_oldest(
    pool: &PgPool,
    query: &AuditQuery,
    after: Option<(OffsetDateTime, Uuid)>,
    until: OffsetDateTime,
) -> Result<Vec<AuditEntry>, sqlx::Error> {
    let rows = matching_entries!(
        query,
        " and ($8::timestamptz is null or (a.at, a.id) > ($8, $9::uuid)) and a.at < $10 order by a.at, a.id limit $11",
        after.map(|after| after.0),
        after.map(|after| after.1),
        until,
        query.limit
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// The database's clock, and a time before which no further entry will appear. An entry carries the time of its
/// insert but becomes visible at the commit, so entries of open transactions are younger than the start of those
/// transactions. A reader that stops at this time misses nothing.
pub async fn complete_before(pool: &PgPool) -> Result<(OffsetDateTime, OffsetDateTime), sqlx::Error> {
    let row = sqlx::query!(
        r#"with now as materialized (select clock_timestamp() as at)
           select now.at as "now!",
             least(now.at, (select min(xact_start) from pg_stat_activity
                            where datname = current_database() and pid <> pg_backend_pid()
                              and xact_start is not null
                              and (backend_xid is not null or query like 'insert into audit%'))) as "settled!"
           from now"#
    )
    .fetch_one(pool)
    .await?;
    Ok((row.now, row.settled))
}

/// Time when an entry was written; `None` if there is no such entry.
pub async fn time_of(pool: &PgPool, id: Uuid) -> Result<Option<OffsetDateTime>, sqlx::Error> {
    sqlx::query_scalar!("select at from audit where id = $1", id).fetch_optional(pool).await
}

/// Starts posting with the entries from now on, if nothing has been posted yet.
pub async fn begin_posting(pool: &PgPool) -> Result<(), sqlx::Error> {
    sqlx::query!("insert into audit_post default values on conflict do nothing").execute(pool).await.map(drop)
}

/// Leases the posting of the log for `seconds`, unless another server has it. Returns the last posted entry.
pub async fn take_posting(pool: &PgPool, seconds: f64) -> Result<Option<(OffsetDateTime, Uuid)>, sqlx::Error> {
    let row = sqlx::query!(
        "update audit_post set busy_until = clock_timestamp() + make_interval(secs => $1)
         where busy_until < clock_timestamp() returning at, id",
        seconds
    )
    .fetch_optional(pool)
    .await?;
    Ok(row.map(|row| (row.at, row.id)))
}

/// Releases the posting after this entry.
pub async fn leave_posting(pool: &PgPool, place: (OffsetDateTime, Uuid)) -> Result<(), sqlx::Error> {
    sqlx::query!("update audit_post set at = $1, id = $2, busy_until = '-infinity' where at <= $1", place.0, place.1)
        .execute(pool)
        .await
        .map(drop)
}

/// Deletes entries older than `days`, oldest first, at most `limit`.
pub async fn expire(pool: &PgPool, days: i32, limit: i64) -> Result<u64, sqlx::Error> {
    let done = sqlx::query!(
        "delete from audit where id in
           (select id from audit where at < (select clock_timestamp()) - make_interval(days => $1) order by at limit $2)",
        days,
        limit
    )
    .execute(pool)
    .await?;
    Ok(done.rows_affected())
}

/// Returns true if this database role may delete entries.
pub async fn may_expire(pool: &PgPool) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(r#"select has_table_privilege('audit', 'delete') as "may!""#).fetch_one(pool).await
}

fn owner_kind(word: &str) -> OwnerKind {
    if word == "user" { OwnerKind::User } else { OwnerKind::Service }
}
