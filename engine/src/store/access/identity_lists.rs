//! Services and their tokens as lists show them.

use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use super::identity::ServiceRow;
use crate::store::page_range::{NamedPageRange, PageRange, by_age, in_named_order};

/// A page of the list of services.
pub async fn list_services(pool: &PgPool, part: &NamedPageRange) -> sqlx::Result<Vec<ServiceRow>> {
    let (at, name) = part.place();
    macro_rules! listed {
        ($behind:tt, $order:tt) => {
            sqlx::query_as!(
                ServiceRow,
                r#"select id, name, disabled_at is not null as "disabled!", created_at from owner
                   where kind = 'service' and "#
                    + $behind
                    + " order by "
                    + $order
                    + " limit $3",
                at,
                name,
                part.limit
            )
            .fetch_all(pool)
            .await
        };
    }
    in_named_order!(part.order, listed)
}

/// A token as the API lists it; its secret is not stored.
#[derive(Debug)]
pub struct TokenRow {
    pub id: Uuid,
    pub service: String,
    pub name: String,
    pub scopes: Vec<String>,
    pub work_types: Option<Vec<String>>,
    pub created_at: OffsetDateTime,
    pub last_used_at: Option<OffsetDateTime>,
    pub expires_at: Option<OffsetDateTime>,
    pub revoked_at: Option<OffsetDateTime>,
}

impl From<TokenRow> for domain::identity::access::Token {
    fn from(row: TokenRow) -> Self {
        Self {
            id: row.id,
            service: row.service,
            name: row.name,
            scopes: row.scopes,
            types: row.work_types,
            created_at: row.created_at.into(),
            last_used_at: row.last_used_at.map(Into::into),
            expires_at: row.expires_at.map(Into::into),
            revoked_at: row.revoked_at.map(Into::into),
        }
    }
}

/// A page of the list of tokens of services.
pub async fn list_tokens(pool: &PgPool, part: PageRange) -> sqlx::Result<Vec<TokenRow>> {
    macro_rules! listed {
        ($on:tt, $order:tt) => {
            sqlx::query_as!(
                TokenRow,
                "select token.id, owner.name as service, token.name, scopes, work_types, token.created_at, last_used_at,
                   expires_at, revoked_at
                 from token join owner on owner.id = owner_id
                 where $1::uuid is null or token.id "
                    + $on
                    + " $1 order by token.id "
                    + $order + " limit $2",
                part.behind,
                part.limit
            )
            .fetch_all(pool)
            .await
        };
    }
    by_age!(part.oldest_first, listed)
}
