//! Column mappings that owners used last, by type.

use sqlx::PgPool;
use uuid::Uuid;

use crate::store::Tx;

/// Mapping that an owner used last for a type, as JSON.
pub async fn find(pool: &PgPool, owner_id: Uuid, type_name: &str) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar!(
        "select mapping from import_mapping
         where owner_id = $1 and type_id = (select id from job_type where name = $2)",
        owner_id,
        type_name
    )
    .fetch_optional(pool)
    .await
}

/// Replaces the mapping of an owner for a type.
pub async fn remember(tx: &mut Tx, owner_id: Uuid, type_id: i32, mapping: &str) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into import_mapping (owner_id, type_id, mapping) values ($1, $2, $3)
         on conflict (owner_id, type_id) do update set mapping = excluded.mapping, used_at = clock_timestamp()",
        owner_id,
        type_id,
        mapping
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}
