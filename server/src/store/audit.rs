//! Who did what: written in the transaction of the deed, read newest first. Nothing here is ever
//! changed or removed, and nothing refers to it.

use domain::{Time, audit::AuditEntry, job::OwnerKind};
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use super::Tx;

/// A deed to be written down.
#[derive(Clone, Debug)]
pub struct AuditRow {
    pub actor_id: Uuid,
    pub actor_kind: OwnerKind,
    pub actor_name: String,
    /// Such as `job.delete`: what it is done to, and the verb.
    pub action: &'static str,
    /// Whose work it was.
    pub owner_id: Option<Uuid>,
    pub root_id: Option<Uuid>,
    pub job_id: Option<Uuid>,
    pub item_id: Option<Uuid>,
    pub reason: Option<String>,
    pub detail: Option<String>,
}

/// Writes a deed down, in the transaction that does it.
pub async fn record(tx: &mut Tx, row: &AuditRow) -> Result<(), sqlx::Error> {
    record_all(tx, std::slice::from_ref(row)).await
}

/// Writes deeds down, in order, in the transaction that does them.
pub async fn record_all(tx: &mut Tx, rows: &[AuditRow]) -> Result<(), sqlx::Error> {
    if rows.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = rows.iter().map(|_| Uuid::now_v7()).collect();
    let actors: Vec<Uuid> = rows.iter().map(|row| row.actor_id).collect();
    let kinds: Vec<&str> = rows.iter().map(|row| kind_word(row.actor_kind)).collect();
    let names: Vec<&str> = rows.iter().map(|row| row.actor_name.as_str()).collect();
    let actions: Vec<&str> = rows.iter().map(|row| row.action).collect();
    let owners: Vec<Option<Uuid>> = rows.iter().map(|row| row.owner_id).collect();
    let roots: Vec<Option<Uuid>> = rows.iter().map(|row| row.root_id).collect();
    let jobs: Vec<Option<Uuid>> = rows.iter().map(|row| row.job_id).collect();
    let items: Vec<Option<Uuid>> = rows.iter().map(|row| row.item_id).collect();
    let reasons: Vec<Option<&str>> = rows.iter().map(|row| row.reason.as_deref()).collect();
    let details: Vec<Option<&str>> = rows.iter().map(|row| row.detail.as_deref()).collect();
    sqlx::query!(
        "insert into audit (id, actor_id, actor_kind, actor_name, action, owner_id, root_id, job_id, item_id,
           reason, detail)
         select * from unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::uuid[], $7::uuid[],
                              $8::uuid[], $9::uuid[], $10::text[], $11::text[])",
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
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// What a list of deeds is filtered by; all that are given must hold.
#[derive(Clone, Debug, Default)]
pub struct AuditQuery {
    /// Only deeds on this owner's work.
    pub owner_id: Option<Uuid>,
    /// The name of a person or service.
    pub actor: Option<String>,
    pub action: Option<String>,
    pub job_id: Option<Uuid>,
    pub root_id: Option<Uuid>,
    pub item_id: Option<Uuid>,
    pub since: Option<OffsetDateTime>,
    /// The last one of the page before.
    pub before: Option<(OffsetDateTime, Uuid)>,
    pub limit: i64,
}

/// Deeds that match, newest first.
pub async fn list(pool: &PgPool, query: &AuditQuery) -> Result<Vec<AuditEntry>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"select a.id, a.at, a.actor_kind, a.actor_name, a.action, a.root_id, a.job_id, a.item_id, a.reason,
             a.detail, o.kind as "owner_kind?", o.name as "owner_name?"
           from audit a left join owner o on o.id = a.owner_id
           where ($1::uuid is null or a.owner_id = $1)
             and ($2::text is null or a.actor_name = $2)
             and ($3::text is null or a.action = $3)
             and ($4::uuid is null or a.job_id = $4)
             and ($5::uuid is null or a.root_id = $5)
             and ($6::uuid is null or a.item_id = $6)
             and ($7::timestamptz is null or a.at >= $7)
             and ($8::timestamptz is null or (a.at, a.id) < ($8, $9::uuid))
           order by a.at desc, a.id desc limit $10"#,
        query.owner_id,
        query.actor,
        query.action,
        query.job_id,
        query.root_id,
        query.item_id,
        query.since,
        query.before.map(|before| before.0),
        query.before.map(|before| before.1),
        query.limit
    )
    .fetch_all(pool)
    .await?;
    let owner = |kind: &str, name: String| domain::job::Owner { kind: kind_of(kind), name };
    Ok(rows
        .into_iter()
        .map(|row| AuditEntry {
            id: row.id,
            at: Time(row.at),
            actor: owner(&row.actor_kind, row.actor_name),
            action: row.action,
            owner: row.owner_kind.zip(row.owner_name).map(|(kind, name)| owner(&kind, name)),
            root_id: row.root_id,
            job_id: row.job_id,
            item_id: row.item_id,
            reason: row.reason,
            detail: row.detail,
        })
        .collect())
}

const fn kind_word(kind: OwnerKind) -> &'static str {
    match kind {
        OwnerKind::User => "user",
        OwnerKind::Service => "service",
    }
}

fn kind_of(word: &str) -> OwnerKind {
    if word == "user" { OwnerKind::User } else { OwnerKind::Service }
}
