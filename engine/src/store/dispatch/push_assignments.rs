//! Push assignments: any token that may work on the type can end them.

use sqlx::PgExecutor;
use uuid::Uuid;

/// Open assignments of this credential among these: assignment id and type.
pub async fn open_of(
    executor: impl PgExecutor<'_>,
    assignment_ids: &[Uuid],
    credential_id: Uuid,
) -> Result<Vec<(Uuid, i32)>, sqlx::Error> {
    let rows = sqlx::query!(
        "select id, type_id from lease where id = any($1::uuid[]) and credential_id = $2",
        assignment_ids,
        credential_id
    )
    .fetch_all(executor)
    .await?;
    Ok(rows.into_iter().map(|row| (row.id, row.type_id)).collect())
}
