//! States of error groups: what operators decide, and mutes that end at their time. Failures change them in
//! `dispatch::endings`.

use domain::api::ErrorGroupPatch;
use sqlx::PgPool;

use crate::store::Tx;

/// Sets the state of a group and adds it to the group's history.
pub async fn decide(
    tx: &mut Tx,
    type_id: i32,
    fingerprint: &str,
    patch: &ErrorGroupPatch,
    by: &str,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "with decided as (
           insert into error_decision (type_id, fingerprint, state, mute_until, mute_failures)
           values ($1, $2, $3, $4, $5)
           on conflict (type_id, fingerprint) do update set state = excluded.state, mute_until = excluded.mute_until,
             mute_failures = excluded.mute_failures)
         insert into error_change (type_id, fingerprint, state, changed_by, mute_until, mute_failures, note)
         values ($1, $2, $3, $6, $4, $5, $7)",
        type_id,
        fingerprint,
        patch.state.code(),
        patch.until.map(|until| until.0),
        patch.failures,
        by,
        patch.note
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Opens muted groups whose time has come, at most a thousand. Returns their number.
pub async fn end_mutes(pool: &PgPool) -> Result<u64, sqlx::Error> {
    let done = sqlx::query!(
        "with due as materialized (
           select type_id, fingerprint from error_decision where mute_until <= (select clock_timestamp())
           order by type_id, fingerprint limit 1000 for no key update skip locked),
         opened as (
           update error_decision d set state = 1, mute_until = null, mute_failures = null
           from due where d.type_id = due.type_id and d.fingerprint = due.fingerprint
           returning d.type_id, d.fingerprint)
         insert into error_change (type_id, fingerprint, state) select type_id, fingerprint, 1 from opened"
    )
    .execute(pool)
    .await?;
    Ok(done.rows_affected())
}
