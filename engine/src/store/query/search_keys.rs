//! Jobs and items by the beginning of a key.
//!
//! The range of a beginning is compared byte by byte (`~>=~`), as its indexes are sorted, so that it is found in every
//! collation, and with every plan. Keys have an owner, or the newest 5,000 owners are looked up one after another.

use sqlx::PgPool;
use uuid::Uuid;

/// Keys that begin with a text.
#[derive(Clone, Debug)]
pub struct KeyRange {
    first: String,
    last: String,
}

impl KeyRange {
    pub fn beginning_with(text: &str) -> Self {
        Self { first: text.to_owned(), last: format!("{text}{}", char::MAX) }
    }
}

/// Jobs by their dedupe key, in order of the keys of each owner.
pub async fn jobs_of_dedupe_key(
    pool: &PgPool,
    owner_id: Option<Uuid>,
    keys: &KeyRange,
    limit: i64,
) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar!(
        r#"select k.job_id as "job_id!"
           from (
             (select id from owner where $1::uuid is null order by id desc limit 5000)
             union all
             (select $1 where $1 is not null)) o (id)
           cross join lateral (
             select job_id from job_dedupe where owner_id = o.id and key ~>=~ $2 and key ~<=~ $3
             order by owner_id, key using ~<~ limit $4) k
           limit $4"#,
        owner_id,
        keys.first,
        keys.last,
        limit
    )
    .fetch_all(pool)
    .await
}

/// Roots by the Idempotency-Key that created them, in order of the keys of each owner.
pub async fn roots_of_idempotency_key(
    pool: &PgPool,
    owner_id: Option<Uuid>,
    keys: &KeyRange,
    limit: i64,
) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar!(
        r#"select k.job_id as "job_id!"
           from (
             (select id from owner where $1::uuid is null order by id desc limit 5000)
             union all
             (select $1 where $1 is not null)) o (id)
           cross join lateral (
             select job_id from idempotency
             where owner_id = o.id and key ~>=~ $2 and key ~<=~ $3 and job_id is not null
             order by owner_id, key using ~<~ limit $4) k
           limit $4"#,
        owner_id,
        keys.first,
        keys.last,
        limit
    )
    .fetch_all(pool)
    .await
}

/// Pending items by their serialize key, in order of the keys of each owner, the first of its queue first.
pub async fn pending_items_of_serialize_key(
    pool: &PgPool,
    owner_id: Option<Uuid>,
    keys: &KeyRange,
    limit: i64,
) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar!(
        r#"select e.item_id as "item_id!"
           from (
             (select id from owner where $1::uuid is null order by id desc limit 5000)
             union all
             (select $1 where $1 is not null)) o (id)
           cross join lateral (
             select id from serialize_queue where owner_id = o.id and key ~>=~ $2 and key ~<=~ $3
             order by owner_id, key using ~<~ limit $4::bigint * 10) l
           cross join lateral (
             select item_id from serialize_queue_entry where serialize_queue_id = l.id order by position limit $4) e
           limit $4"#,
        owner_id,
        keys.first,
        keys.last,
        limit
    )
    .fetch_all(pool)
    .await
}

/// Items by their serialize key, pending or ended, in order of the keys, newest first: those of an owner among the first
/// 5,000, or of all.
pub async fn all_items_of_serialize_key(
    pool: &PgPool,
    owner_id: Option<Uuid>,
    keys: &KeyRange,
    limit: i64,
) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar!(
        r#"select i.id as "item_id!"
           from (
             select id, job_key from item where serialize_key ~>=~ $2 and serialize_key ~<=~ $3
             order by serialize_key using ~<~, id desc limit 5000) i
           cross join lateral (select owner_id from job where job_key = i.job_key offset 0) j
           where $1::uuid is null or j.owner_id = $1
           limit $4"#,
        owner_id,
        keys.first,
        keys.last,
        limit
    )
    .fetch_all(pool)
    .await
}

/// Items by their dedupe key, in order of the keys: those of an owner among the first 5,000, or of all.
pub async fn items_of_dedupe_key(
    pool: &PgPool,
    owner_id: Option<Uuid>,
    keys: &KeyRange,
    limit: i64,
) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar!(
        r#"select d.item_id as "item_id!"
           from (
             select item_id, job_key from item_dedupe where key ~>=~ $2 and key ~<=~ $3
             order by key using ~<~ limit 5000) d
           cross join lateral (select owner_id from job where job_key = d.job_key offset 0) j
           where $1::uuid is null or j.owner_id = $1
           limit $4"#,
        owner_id,
        keys.first,
        keys.last,
        limit
    )
    .fetch_all(pool)
    .await
}
