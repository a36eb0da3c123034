//! Claims with a `claim_id`: a repeated claim returns the assignments that are still open (`claiming`).

use domain::id::Uuid;
use sqlx::PgPool;

use crate::store::Tx;

/// Assignments of a claim_id that are still open; `None` if the claim_id is new.
pub async fn assignments_of(
    tx: &mut Tx,
    credential_id: Uuid,
    claim_id: Uuid,
) -> Result<Option<Vec<Uuid>>, sqlx::Error> {
    sqlx::query_scalar!(
        "select lease_ids from claim_request where credential_id = $1 and claim_id = $2",
        credential_id,
        claim_id
    )
    .fetch_optional(&mut **tx)
    .await
}

/// Stores the assignments of a claim_id. A concurrent claim with the same id fails on the primary key.
pub async fn insert(
    tx: &mut Tx,
    credential_id: Uuid,
    claim_id: Uuid,
    assignment_ids: &[Uuid],
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into claim_request (credential_id, claim_id, lease_ids) values ($1, $2, $3)",
        credential_id,
        claim_id,
        assignment_ids
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Deletes claims older than an hour.
pub async fn forget(pool: &PgPool) -> Result<u64, sqlx::Error> {
    let gone = sqlx::query!(
        "delete from claim_request where ctid = any(array(
           select ctid from claim_request where created_at < (select clock_timestamp()) - interval '1 hour' limit 5000))"
    )
    .execute(pool)
    .await?;
    Ok(gone.rows_affected())
}
