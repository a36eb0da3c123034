//! Items that a person gives back to the workers: what they were, and what becomes of that (rule 16).

use domain::ItemState;
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use super::Tx;

/// What does not change of an item.
#[derive(Clone, Debug)]
pub struct ItemRow {
    pub gate_id: i64,
    pub priority: i16,
    pub serialize_key: Option<String>,
    pub run_after: Option<OffsetDateTime>,
    pub expires_at: Option<OffsetDateTime>,
}

/// One item.
pub async fn item(pool: &PgPool, item_id: Uuid) -> Result<Option<ItemRow>, sqlx::Error> {
    sqlx::query_as!(
        ItemRow,
        "select gate_id, priority, serialize_key, run_after, expires_at from item where id = $1",
        item_id
    )
    .fetch_optional(pool)
    .await
}

/// The final state of an item, where it has one.
pub async fn final_state(tx: &mut Tx, item_id: Uuid) -> Result<Option<ItemState>, sqlx::Error> {
    let code =
        sqlx::query_scalar!("select state from outcome where item_id = $1", item_id).fetch_optional(&mut **tx).await?;
    Ok(code.and_then(ItemState::from_code))
}

/// What an item had come to.
#[derive(Clone, Debug)]
pub struct Past {
    pub state: i16,
    pub attempt: i32,
    pub fingerprint: Option<String>,
}

/// Takes the outcome of a dead, expired or singly cancelled item away; its final attempt moves into the
/// history. Nothing: the item is in no such state.
pub async fn take_outcome(tx: &mut Tx, item_id: Uuid) -> Result<Option<Past>, sqlx::Error> {
    sqlx::query_as!(
        Past,
        r#"with gone as (
             delete from outcome
             where item_id = $1 and state in (2, 3, 4) and not (state = 3 and coalesce(error_kind, '') = 'after_failed')
             returning *),
           kept as (
             insert into attempt (item_id, attempt, gate_id, lease_id, started_at, ended_at, ended_as, worker_id,
               error_message, error_kind, error_detail, final_state)
             select item_id, attempt, gate_id, lease_id, started_at, ended_at, ended_as, worker_id, error_message,
               error_kind, error_detail, state
             from gone where lease_id is not null)
           select state as "state!", attempt as "attempt!", fingerprint from gone"#,
        item_id
    )
    .fetch_optional(&mut **tx)
    .await
}

/// Keeps a payload that a person has edited; the original stays where it is. Edited items are marked as
/// changed: claims look for edits of those alone.
pub async fn edit(tx: &mut Tx, item_id: Uuid, payload: &str) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "with changed as (update item set changed_at = clock_timestamp() where id = $1)
         insert into item_edit (item_id, edit, payload)
         values ($1, (select coalesce(max(edit), 0) + 1 from item_edit where item_id = $1), $2)",
        item_id,
        payload
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// The payload as it is now: the last edit, or the original.
pub async fn payload(pool: &PgPool, item_id: Uuid) -> Result<Option<String>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select coalesce((select e.payload from item_edit e where e.item_id = i.id order by e.edit desc limit 1),
                           i.payload) as "payload!"
           from item i where i.id = $1"#,
        item_id
    )
    .fetch_optional(pool)
    .await
}

/// Forgets the steps an item has reached.
pub async fn restart(tx: &mut Tx, item_id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!("delete from item_step where item_id = $1", item_id).execute(&mut **tx).await?;
    Ok(())
}

/// A later end of an item's time.
pub async fn set_expiry(tx: &mut Tx, item_id: Uuid, at: OffsetDateTime) -> Result<(), sqlx::Error> {
    sqlx::query!("update item set expires_at = $2 where id = $1", item_id, at).execute(&mut **tx).await?;
    Ok(())
}
