//! Assignments that Treeline has posted to a worker: any token that may work on the type ends them.

use sqlx::PgExecutor;
use uuid::Uuid;

/// Of these assignments, those that are open and in the hands of this credential: assignment id and type.
pub async fn open_of(
    executor: impl PgExecutor<'_>,
    fences: &[Uuid],
    credential_id: Uuid,
) -> Result<Vec<(Uuid, i32)>, sqlx::Error> {
    let rows = sqlx::query!(
        "select id, type_id from lease where id = any($1::uuid[]) and credential_id = $2",
        fences,
        credential_id
    )
    .fetch_all(executor)
    .await?;
    Ok(rows.into_iter().map(|row| (row.id, row.type_id)).collect())
}
