//! Log lines of attempts (`attempt-logs`): one row for each request, and the size of each attempt's log.

use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::store::Tx;

/// Open assignment that lines are added to.
#[derive(Clone, Copy, Debug)]
pub struct OpenRow {
    pub item_id: Uuid,
    pub job_key: i64,
    pub attempt: i32,
    /// Time of the database.
    pub now: OffsetDateTime,
}

/// An open assignment of this token, without a lock: a line may arrive just after the attempt has ended.
pub async fn open(tx: &mut Tx, assignment_id: Uuid, credential_id: Uuid) -> sqlx::Result<Option<OpenRow>> {
    sqlx::query_as!(
        OpenRow,
        r#"select item_id, job_key, attempt, clock_timestamp() as "now!" from lease where id = $1 and credential_id = $2"#,
        assignment_id,
        credential_id
    )
    .fetch_optional(&mut **tx)
    .await
}

/// Log of an attempt after lines were added.
#[derive(Clone, Copy, Debug)]
pub struct SizeRow {
    pub n_lines: i64,
    pub n_dropped: i64,
    pub n_bytes: i64,
}

/// Adds lines, a JSON array, to the log of an attempt. Locks the log until the transaction ends.
pub async fn add(tx: &mut Tx, open: OpenRow, n_lines: i32, lines: &str) -> sqlx::Result<SizeRow> {
    sqlx::query_as!(
        SizeRow,
        r#"with size as (
             insert into attempt_log_size as s (item_id, attempt, n_lines, n_bytes) values ($1, $2, $3::int, octet_length($4))
             on conflict (item_id, attempt) do update
               set n_lines = s.n_lines + excluded.n_lines, n_bytes = s.n_bytes + excluded.n_bytes
             returning n_lines, n_dropped, n_bytes),
           added as (
             insert into attempt_log (item_id, attempt, first_line, n_lines, n_bytes, lines)
             select $1, $2, n_lines - $3::int + 1, $3, octet_length($4), $4 from size)
           select n_lines as "n_lines!", n_dropped as "n_dropped!", n_bytes as "n_bytes!" from size"#,
        open.item_id,
        open.attempt,
        n_lines,
        lines
    )
    .fetch_one(&mut **tx)
    .await
}

/// Drops the oldest rows of a log until at most `most` bytes are left. Returns the number of lines dropped so far.
pub async fn trim(tx: &mut Tx, open: OpenRow, most: i64) -> sqlx::Result<i64> {
    sqlx::query_scalar!(
        r#"with sums as materialized (
             select first_line, sum(n_bytes) over (order by first_line desc) as up_to
             from attempt_log where item_id = $1 and attempt = $2),
           gone as (
             delete from attempt_log where item_id = $1 and attempt = $2
               and first_line <= (select max(first_line) from sums where up_to > $3)
             returning n_lines, n_bytes)
           update attempt_log_size set
             n_dropped = n_dropped + (select coalesce(sum(n_lines), 0) from gone),
             n_bytes = n_bytes - (select coalesce(sum(n_bytes), 0) from gone)
           where item_id = $1 and attempt = $2 returning n_dropped"#,
        open.item_id,
        open.attempt,
        most
    )
    .fetch_one(&mut **tx)
    .await
}

/// Row of lines, as one request sent them.
#[derive(Clone, Debug)]
pub struct LinesRow {
    pub attempt: i32,
    pub first_line: i64,
    pub lines: String,
}

/// Rows of the log of an attempt with lines after `behind`, oldest first, or before it, newest first. At most
/// `limit`, because each row has a line. Without `attempt`, of the newest attempt with a log.
pub async fn rows(
    pool: &PgPool,
    item_id: Uuid,
    attempt: Option<i32>,
    newest_first: bool,
    behind: Option<i64>,
    limit: i64,
) -> sqlx::Result<Vec<LinesRow>> {
    macro_rules! listed {
        ($on:tt, $order:tt) => {
            sqlx::query_as!(
                LinesRow,
                "select attempt, first_line, lines from attempt_log
         where item_id = $1 and attempt = coalesce($2, (
             select attempt from attempt_log where item_id = $1 order by attempt desc limit 1))
           and first_line + "
                    + $on
                    + " order by first_line "
                    + $order
                    + " limit $4",
                item_id,
                attempt,
                behind.unwrap_or(if newest_first { i64::MAX } else { 0 }),
                limit
            )
            .fetch_all(pool)
            .await
        };
    }
    if newest_first { listed!("0 < $3::bigint", "desc") } else { listed!("n_lines > $3::bigint + 1", "asc") }
}

/// Attempts of an item that have a log, with the number of dropped lines; newest first, at most `limit`.
pub async fn attempts(pool: &PgPool, item_id: Uuid, limit: i64) -> sqlx::Result<Vec<(i32, i64)>> {
    let rows = sqlx::query!(
        "select attempt, n_dropped from attempt_log_size where item_id = $1 order by attempt desc limit $2",
        item_id,
        limit
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(|row| (row.attempt, row.n_dropped)).collect())
}
