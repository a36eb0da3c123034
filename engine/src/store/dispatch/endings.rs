//! Results of assignments: outcomes (final), attempts (not final), error groups.

use time::OffsetDateTime;
use uuid::Uuid;

use crate::store::Tx;

/// An assignment that ended with a result.
#[derive(Clone, Debug)]
pub struct Succeeded {
    pub assignment_id: Uuid,
    pub item_id: Uuid,
    pub job_key: i64,
    pub serialize_queue_id: Option<i64>,
    pub type_id: i32,
    /// Key that it counted for (`concurrency-by-key`).
    pub limit_key: Option<Uuid>,
    pub worker_id: String,
    /// Time since the start of the attempt.
    pub seconds: f64,
}

/// Ends assignments as succeeded in one statement: deletes the lease and inserts the outcome. `assignment_ids`
/// ascending, with credentials and results at the same indexes. Assignments that are closed or canceled, singly or
/// with a job in `cancelled`, are not returned.
pub async fn succeed(
    tx: &mut Tx,
    assignment_ids: &[Uuid],
    credentials: &[Uuid],
    results: &[&str],
    cancelled: &[i64],
) -> Result<Vec<Succeeded>, sqlx::Error> {
    sqlx::query_as!(
        Succeeded,
        r#"with gone as (
             delete from lease l using unnest($1::uuid[], $2::uuid[], $3::text[]) as ended (id, credential_id, result)
             where l.id = ended.id and l.credential_id = ended.credential_id
               and l.cancel_requested_at is null and l.job_key <> all($4::bigint[])
             returning l.id, l.item_id, l.job_key, l.seq, l.started_at, l.attempt, l.failures, l.worker_id, l.serialize_queue_id,
               l.type_id, l.limit_key, ended.result),
           done as (
             insert into outcome (item_id, job_key, seq, lease_id, started_at, ended_at, attempt, failures, state,
               ended_as, worker_id, result)
             select item_id, job_key, coalesce(seq, (select i.seq from item i where i.id = item_id)), id, started_at,
               clock_timestamp(), attempt, failures, 1, 1, worker_id, result
             from gone)
           select id as "assignment_id!", item_id as "item_id!", job_key as "job_key!", serialize_queue_id,
             type_id as "type_id!", limit_key, worker_id as "worker_id!",
             date_part('epoch', clock_timestamp() - started_at) as "seconds!" from gone"#,
        assignment_ids,
        credentials,
        results as &[&str],
        cancelled
    )
    .fetch_all(&mut **tx)
    .await
}

/// A final state to be written, other than succeeded through [`succeed`].
#[derive(Clone, Debug)]
pub struct FinalRow {
    pub item_id: Uuid,
    pub job_key: i64,
    /// The assignment that led here, with its start.
    pub lease: Option<(Uuid, OffsetDateTime)>,
    pub attempt: i32,
    pub failures: i32,
    /// `ItemState::code`.
    pub state: i16,
    /// `EndedAs::code`.
    pub ended_as: Option<i16>,
    pub worker_id: Option<String>,
    pub error: Option<ErrorText>,
}

/// An error as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorText {
    pub message: String,
    pub kind: Option<String>,
    pub detail: Option<String>,
    pub fingerprint: String,
}

/// Writes final states.
pub async fn finish(tx: &mut Tx, rows: &[FinalRow]) -> Result<(), sqlx::Error> {
    if rows.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = rows.iter().map(|r| r.item_id).collect();
    let job_keys: Vec<i64> = rows.iter().map(|r| r.job_key).collect();
    let leases: Vec<Option<Uuid>> = rows.iter().map(|r| r.lease.map(|l| l.0)).collect();
    let starts: Vec<Option<OffsetDateTime>> = rows.iter().map(|r| r.lease.map(|l| l.1)).collect();
    let attempts: Vec<i32> = rows.iter().map(|r| r.attempt).collect();
    let failures: Vec<i32> = rows.iter().map(|r| r.failures).collect();
    let states: Vec<i16> = rows.iter().map(|r| r.state).collect();
    let ended: Vec<Option<i16>> = rows.iter().map(|r| r.ended_as).collect();
    let workers: Vec<Option<&str>> = rows.iter().map(|r| r.worker_id.as_deref()).collect();
    let messages: Vec<Option<&str>> = rows.iter().map(|r| r.error.as_ref().map(|e| e.message.as_str())).collect();
    let kinds: Vec<Option<&str>> = rows.iter().map(|r| r.error.as_ref().and_then(|e| e.kind.as_deref())).collect();
    let details: Vec<Option<&str>> = rows.iter().map(|r| r.error.as_ref().and_then(|e| e.detail.as_deref())).collect();
    let prints: Vec<Option<&str>> = rows.iter().map(|r| r.error.as_ref().map(|e| e.fingerprint.as_str())).collect();
    sqlx::query!(
        "insert into outcome (item_id, job_key, seq, lease_id, started_at, ended_at, attempt, failures, state,
           ended_as, worker_id, error_message, error_kind, error_detail, fingerprint)
         select item_id, job_key, (select i.seq from item i where i.id = item_id), lease_id, started_at,
           clock_timestamp(), attempt, failures, state, ended_as, worker_id, message, kind, detail, fingerprint
         from unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::timestamptz[], $5::int[], $6::int[], $7::smallint[],
                     $8::smallint[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[])
           as new (item_id, job_key, lease_id, started_at, attempt, failures, state, ended_as, worker_id, message,
                   kind, detail, fingerprint)",
        &ids,
        &job_keys,
        &leases as &[Option<Uuid>],
        &starts as &[Option<OffsetDateTime>],
        &attempts,
        &failures,
        &states,
        &ended as &[Option<i16>],
        &workers as &[Option<&str>],
        &messages as &[Option<&str>],
        &kinds as &[Option<&str>],
        &details as &[Option<&str>],
        &prints as &[Option<&str>],
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// An attempt that did not make its item final.
#[derive(Clone, Debug)]
pub struct AttemptRow {
    pub item_id: Uuid,
    pub job_key: i64,
    pub attempt: i32,
    pub lease_id: Uuid,
    pub started_at: OffsetDateTime,
    /// `EndedAs::code`.
    pub ended_as: i16,
    pub worker_id: String,
    pub retry_at: Option<OffsetDateTime>,
    pub error: Option<ErrorText>,
    /// A result that came too late (`cancellation`).
    pub result: Option<String>,
    /// The final state of the item, as `ItemState::code`, if the attempt ended with one.
    pub final_state: Option<i16>,
    /// Event that the attempt ended to wait for.
    pub waited_for: Option<String>,
}

/// Writes attempts into the history. `ended_at`: time from which their backoffs count, so that no retry is early.
pub async fn record_attempts(tx: &mut Tx, rows: &[AttemptRow], ended_at: OffsetDateTime) -> Result<(), sqlx::Error> {
    if rows.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = rows.iter().map(|r| r.item_id).collect();
    let job_keys: Vec<i64> = rows.iter().map(|r| r.job_key).collect();
    let attempts: Vec<i32> = rows.iter().map(|r| r.attempt).collect();
    let leases: Vec<Uuid> = rows.iter().map(|r| r.lease_id).collect();
    let starts: Vec<OffsetDateTime> = rows.iter().map(|r| r.started_at).collect();
    let ended: Vec<i16> = rows.iter().map(|r| r.ended_as).collect();
    let workers: Vec<&str> = rows.iter().map(|r| r.worker_id.as_str()).collect();
    let retry: Vec<Option<OffsetDateTime>> = rows.iter().map(|r| r.retry_at).collect();
    let messages: Vec<Option<&str>> = rows.iter().map(|r| r.error.as_ref().map(|e| e.message.as_str())).collect();
    let kinds: Vec<Option<&str>> = rows.iter().map(|r| r.error.as_ref().and_then(|e| e.kind.as_deref())).collect();
    let details: Vec<Option<&str>> = rows.iter().map(|r| r.error.as_ref().and_then(|e| e.detail.as_deref())).collect();
    let results: Vec<Option<&str>> = rows.iter().map(|r| r.result.as_deref()).collect();
    let finals: Vec<Option<i16>> = rows.iter().map(|r| r.final_state).collect();
    let waited_for: Vec<Option<&str>> = rows.iter().map(|r| r.waited_for.as_deref()).collect();
    sqlx::query!(
        "insert into attempt (item_id, job_key, attempt, lease_id, started_at, ended_at, ended_as, worker_id,
           retry_at, error_message, error_kind, error_detail, result, final_state, waited_for)
         select item_id, job_key, attempt, lease_id, started_at, $15, ended_as, worker_id, retry_at,
           message, kind, detail, result, final_state, waited_for
         from unnest($1::uuid[], $2::bigint[], $3::int[], $4::uuid[], $5::timestamptz[], $6::smallint[], $7::text[],
                     $8::timestamptz[], $9::text[], $10::text[], $11::text[], $12::text[], $13::smallint[], $14::text[])
           as new (item_id, job_key, attempt, lease_id, started_at, ended_as, worker_id, retry_at, message, kind,
                   detail, result, final_state, waited_for)",
        &ids,
        &job_keys,
        &attempts,
        &leases,
        &starts,
        &ended,
        &workers as &[&str],
        &retry as &[Option<OffsetDateTime>],
        &messages as &[Option<&str>],
        &kinds as &[Option<&str>],
        &details as &[Option<&str>],
        &results as &[Option<&str>],
        &finals as &[Option<i16>],
        &waited_for as &[Option<&str>],
        ended_at,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Outcome of an assignment that is not open anymore.
#[derive(Clone, Debug)]
pub struct ClosedAssignmentRow {
    pub lease_id: Uuid,
    pub item_id: Uuid,
    pub job_key: i64,
    pub ended_as: i16,
    pub result: Option<String>,
    pub error_message: Option<String>,
    pub error_kind: Option<String>,
    pub retry_at: Option<OffsetDateTime>,
    /// The final state; null if the attempt did not make the item final.
    pub state: Option<i16>,
    /// Event that it ended to wait for.
    pub waited_for: Option<String>,
    /// True for a push assignment.
    pub pushed: bool,
}

/// Closed assignments by assignment id.
pub async fn closed_assignments(tx: &mut Tx, assignment_ids: &[Uuid]) -> Result<Vec<ClosedAssignmentRow>, sqlx::Error> {
    let mut rows = sqlx::query_as!(
        ClosedAssignmentRow,
        r#"select lease_id as "lease_id!", item_id, job_key, coalesce(ended_as, 0::smallint) as "ended_as!", result,
             error_message, error_kind, null::timestamptz as "retry_at?", state as "state?",
             null::text as "waited_for?", coalesce(starts_with(worker_id, 'push:'), false) as "pushed!"
           from outcome where lease_id = any($1::uuid[])"#,
        assignment_ids
    )
    .fetch_all(&mut **tx)
    .await?;
    let attempts = sqlx::query_as!(
        ClosedAssignmentRow,
        r#"select lease_id, item_id, job_key, ended_as, result, error_message, error_kind, retry_at,
             final_state as "state?", waited_for, starts_with(worker_id, 'push:') as "pushed!"
           from attempt where lease_id = any($1::uuid[])"#,
        assignment_ids
    )
    .fetch_all(&mut **tx)
    .await?;
    rows.extend(attempts);
    Ok(rows)
}

/// More dead items of one fingerprint.
#[derive(Clone, Debug)]
pub struct GroupDelta {
    pub job_key: i64,
    pub fingerprint: String,
    pub message: String,
    pub kind: Option<String>,
    pub n: i64,
    pub sample_item_id: Uuid,
}

/// Counts dead items into their groups; one row a group, sorted by key, after the job state rows.
pub async fn count_groups(tx: &mut Tx, deltas: &[GroupDelta]) -> Result<(), sqlx::Error> {
    if deltas.is_empty() {
        return Ok(());
    }
    let job_keys: Vec<i64> = deltas.iter().map(|d| d.job_key).collect();
    let prints: Vec<&str> = deltas.iter().map(|d| d.fingerprint.as_str()).collect();
    let messages: Vec<&str> = deltas.iter().map(|d| d.message.as_str()).collect();
    let kinds: Vec<Option<&str>> = deltas.iter().map(|d| d.kind.as_deref()).collect();
    let ns: Vec<i64> = deltas.iter().map(|d| d.n).collect();
    let samples: Vec<Uuid> = deltas.iter().map(|d| d.sample_item_id).collect();
    sqlx::query!(
        "insert into error_group as g (job_key, fingerprint, message, kind, n_dead, first_seen_at, last_seen_at,
           sample_item_id)
         select job_key, fingerprint, message, kind, n, clock_timestamp(), clock_timestamp(), sample
         from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::uuid[])
           as new (job_key, fingerprint, message, kind, n, sample)
         on conflict (job_key, fingerprint) do update
           set n_dead = g.n_dead + excluded.n_dead, last_seen_at = clock_timestamp()",
        &job_keys,
        &prints as &[&str],
        &messages as &[&str],
        &kinds as &[Option<&str>],
        &ns,
        &samples
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Number of groups of a job, at most 1,001.
pub async fn group_count(tx: &mut Tx, job_key: i64) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select count(*) as "n!" from (select 1 from error_group where job_key = $1 limit 1001) as groups"#,
        job_key
    )
    .fetch_one(&mut **tx)
    .await
}

/// Fingerprints for which a job has a group.
pub async fn known_groups(tx: &mut Tx, job_key: i64, fingerprints: &[String]) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar!(
        "select fingerprint from error_group where job_key = $1 and fingerprint = any($2::text[])",
        job_key,
        fingerprints
    )
    .fetch_all(&mut **tx)
    .await
}

/// More dead items of one fingerprint, over all jobs of an owner and type.
#[derive(Clone, Debug)]
pub struct OwnerDelta {
    pub owner_id: Uuid,
    pub type_id: i32,
    pub fingerprint: String,
    pub message: String,
    pub kind: Option<String>,
    pub n: i64,
    pub sample_item_id: Uuid,
}

/// Counts dead items for their owners; one row a group, sorted by key, after the jobs' groups. Then takes them off what
/// muted groups may still fail, and brings resolved groups back.
pub async fn count_owner_errors(tx: &mut Tx, deltas: &[OwnerDelta]) -> Result<(), sqlx::Error> {
    let owners: Vec<Uuid> = deltas.iter().map(|d| d.owner_id).collect();
    let types: Vec<i32> = deltas.iter().map(|d| d.type_id).collect();
    let prints: Vec<&str> = deltas.iter().map(|d| d.fingerprint.as_str()).collect();
    let messages: Vec<&str> = deltas.iter().map(|d| d.message.as_str()).collect();
    let kinds: Vec<Option<&str>> = deltas.iter().map(|d| d.kind.as_deref()).collect();
    let ns: Vec<i64> = deltas.iter().map(|d| d.n).collect();
    let samples: Vec<Uuid> = deltas.iter().map(|d| d.sample_item_id).collect();
    sqlx::query!(
        "with new as materialized (
           select * from unnest($1::uuid[], $2::int[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::uuid[])
             with ordinality as new (owner_id, type_id, fingerprint, message, kind, n, sample, at)),
         decided as materialized (
           select d.type_id, d.fingerprint, failed.n
           from (select type_id, fingerprint, sum(n)::bigint as n from new group by type_id, fingerprint) as failed
           join error_decision d on d.type_id = failed.type_id and d.fingerprint = failed.fingerprint
           where d.state = 3 or d.mute_failures is not null
           order by d.type_id, d.fingerprint for no key update of d),
         counted as (
           update error_decision d set
             state = case when d.state = 3 then 4 when d.mute_failures > decided.n then 2 else 1 end,
             mute_failures = case when d.mute_failures > decided.n then d.mute_failures - decided.n end,
             mute_until = case when d.mute_failures > decided.n then d.mute_until end
           from decided
           where d.type_id = decided.type_id and d.fingerprint = decided.fingerprint
             and (d.state = 3 or d.mute_failures is not null)
           returning d.type_id, d.fingerprint, d.state),
         opened as (
           insert into error_change (type_id, fingerprint, state)
           select type_id, fingerprint, state from counted where state <> 2)
         insert into owner_error as e (owner_id, type_id, fingerprint, message, kind, n_dead, first_seen_at,
           last_seen_at, sample_item_id)
         select owner_id, type_id, fingerprint, message, kind, n, clock_timestamp(), clock_timestamp(), sample
         from new order by at
         on conflict (owner_id, type_id, fingerprint) do update
           set n_dead = e.n_dead + excluded.n_dead, last_seen_at = clock_timestamp(),
             sample_item_id = case when e.n_dead <= 0 then excluded.sample_item_id else e.sample_item_id end",
        &owners,
        &types,
        &prints as &[&str],
        &messages as &[&str],
        &kinds as &[Option<&str>],
        &ns,
        &samples
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}
