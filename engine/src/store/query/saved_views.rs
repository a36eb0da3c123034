//! Saved views, and which of them a person's lists open with.

use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::store::{
    Tx,
    page_range::{PageRange, by_age},
};

/// A view as it is stored, as one owner sees it.
#[derive(Clone, Debug)]
pub struct ViewRow {
    pub id: Uuid,
    pub owner_id: Uuid,
    pub owner_kind: String,
    pub owner_name: String,
    pub list: String,
    pub name: String,
    pub q: String,
    pub sort: Option<String>,
    pub shared: bool,
    /// The viewer's lists open with it.
    pub is_default: bool,
    pub created_at: OffsetDateTime,
    pub updated_at: OffsetDateTime,
}

/// Number of an owner's views. A transaction that adds one holds the lock of their number.
pub async fn count_to_add(tx: &mut Tx, owner_id: Uuid) -> sqlx::Result<i64> {
    sqlx::query!("select pg_advisory_xact_lock(hashtextextended('saved_view ' || $1::uuid::text, 0))", owner_id)
        .fetch_one(&mut **tx)
        .await?;
    sqlx::query_scalar!(r#"select count(*) as "n!" from saved_view where owner_id = $1"#, owner_id)
        .fetch_one(&mut **tx)
        .await
}

/// Adds a view; false if its owner has one of this name.
pub async fn insert(tx: &mut Tx, row: &ViewRow) -> sqlx::Result<bool> {
    let done = sqlx::query!(
        "insert into saved_view (id, owner_id, list, name, q, sort, shared) values ($1, $2, $3, $4, $5, $6, $7)
         on conflict (owner_id, list, name) do nothing",
        row.id,
        row.owner_id,
        row.list,
        row.name,
        row.q,
        row.sort,
        row.shared
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Changes a view; false if its owner has another one of this name.
pub async fn update(tx: &mut Tx, row: &ViewRow) -> sqlx::Result<bool> {
    let done = sqlx::query!(
        "update saved_view v set name = $2, q = $3, sort = $4, shared = $5, updated_at = clock_timestamp()
         where id = $1
           and not exists (select 1 from saved_view o
                           where o.owner_id = v.owner_id and o.list = v.list and o.name = $2 and o.id <> v.id)",
        row.id,
        row.name,
        row.q,
        row.sort,
        row.shared
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Deletes a view. Lists that opened with it open without one.
pub async fn delete(tx: &mut Tx, id: Uuid) -> sqlx::Result<()> {
    sqlx::query!("delete from saved_view where id = $1", id).execute(&mut **tx).await?;
    Ok(())
}

/// Opens an owner's list with a view.
pub async fn set_default(tx: &mut Tx, owner_id: Uuid, list: &str, view_id: Uuid) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into default_view (owner_id, list, view_id) values ($1, $2, $3)
         on conflict (owner_id, list) do update set view_id = excluded.view_id",
        owner_id,
        list,
        view_id
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// No longer opens an owner's list with this view.
pub async fn unset_default(tx: &mut Tx, owner_id: Uuid, view_id: Uuid) -> sqlx::Result<()> {
    sqlx::query!("delete from default_view where owner_id = $1 and view_id = $2", owner_id, view_id)
        .execute(&mut **tx)
        .await?;
    Ok(())
}

macro_rules! select {
    ($these:tt, $($argument:expr),*) => {
        sqlx::query_as!(
            ViewRow,
            r#"select v.id, v.owner_id, o.kind as owner_kind, o.name as owner_name, v.list, v.name, v.q, v.sort, v.shared,
                 d.view_id is not null as "is_default!", v.created_at, v.updated_at
               from saved_view v
               join owner o on o.id = v.owner_id
               left join default_view d on d.owner_id = $1 and d.list = v.list and d.view_id = v.id
               where (v.owner_id = $1 or v.shared) and "#
                + $these,
            $($argument),*
        )
    };
}

/// A view that the viewer may use.
pub async fn find(on: &mut PgConnection, viewer_id: Uuid, id: Uuid) -> sqlx::Result<Option<ViewRow>> {
    select!("v.id = $2", viewer_id, id).fetch_optional(on).await
}

/// Locks a view until the end of the transaction.
pub async fn lock(tx: &mut Tx, id: Uuid) -> sqlx::Result<()> {
    sqlx::query!("select id from saved_view where id = $1 for update", id).fetch_optional(&mut **tx).await?;
    Ok(())
}

/// View that an owner's list opens with.
pub async fn default_of(pool: &PgPool, viewer_id: Uuid, list: &str) -> sqlx::Result<Option<ViewRow>> {
    select!("d.view_id is not null and v.list = $2", viewer_id, list).fetch_optional(pool).await
}

/// Views that the viewer may use, by name: own ones first.
pub async fn by_name(pool: &PgPool, viewer_id: Uuid, list: Option<&str>, limit: i64) -> sqlx::Result<Vec<ViewRow>> {
    select!(
        "($2::text is null or v.list = $2) order by v.owner_id <> $1, lower(v.name), v.id limit $3",
        viewer_id,
        list,
        limit
    )
    .fetch_all(pool)
    .await
}

/// A page of the views that the viewer may use, in order of age.
pub async fn page(pool: &PgPool, viewer_id: Uuid, list: Option<&str>, part: PageRange) -> sqlx::Result<Vec<ViewRow>> {
    macro_rules! listed {
        ($on:tt, $order:tt) => {
            sqlx::query_as!(
                ViewRow,
                r#"select v.id, v.owner_id, o.kind as owner_kind, o.name as owner_name, v.list, v.name, v.q, v.sort,
                     v.shared, d.view_id is not null as "is_default!", v.created_at, v.updated_at
                   from saved_view v
                   join owner o on o.id = v.owner_id
                   left join default_view d on d.owner_id = $1 and d.list = v.list and d.view_id = v.id
                   where (v.owner_id = $1 or v.shared) and ($2::text is null or v.list = $2)
                     and ($3::uuid is null or v.id "#
                    + $on
                    + " $3) order by v.id "
                    + $order
                    + " limit $4",
                viewer_id,
                list,
                part.behind,
                part.limit
            )
            .fetch_all(pool)
            .await
        };
    }
    by_age!(part.oldest_first, listed)
}
