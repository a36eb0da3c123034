//! Lists of jobs, newest or oldest first.
//!
//! One filter, the anchor, selects the index that is scanned; the others are tested on its rows, at most
//! [`MAX_SCANNED`] a page. The branches of the scan are separate, so that each is an ordered scan of its index
//! whatever the planner assumes; all but one end at once. Limits are lazy: a page that fills early reads no further.

use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

/// Maximum number of rows that one page scans.
pub const MAX_SCANNED: i64 = 20_000;

/// The index that is scanned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Anchor {
    #[default]
    All,
    Roots,
    /// An owner's jobs.
    Owner(Uuid),
    OwnerRoots(Uuid),
    OwnerChildren(Uuid),
    Root(Uuid),
    Parent(Uuid),
    ReplayOf(Uuid),
    Type(i32),
    Initiator(String),
    DedupeKey(String),
    /// Exactly these.
    Ids(Vec<Uuid>),
}

impl Anchor {
    /// Name, id, number, text and ids, as the statements take them.
    fn parts(&self) -> (&'static str, Option<Uuid>, Option<i32>, Option<&str>, &[Uuid]) {
        match self {
            Self::All => ("all", None, None, None, &[]),
            Self::Roots => ("roots", None, None, None, &[]),
            Self::Owner(id) => ("owner", Some(*id), None, None, &[]),
            Self::OwnerRoots(id) => ("owner roots", Some(*id), None, None, &[]),
            Self::OwnerChildren(id) => ("owner children", Some(*id), None, None, &[]),
            Self::Root(id) => ("root", Some(*id), None, None, &[]),
            Self::Parent(id) => ("parent", Some(*id), None, None, &[]),
            Self::ReplayOf(id) => ("replay", Some(*id), None, None, &[]),
            Self::Type(id) => ("type", None, Some(*id), None, &[]),
            Self::Initiator(name) => ("initiator", None, None, Some(name), &[]),
            Self::DedupeKey(key) => ("dedupe key", None, None, Some(key), &[]),
            Self::Ids(ids) => ("ids", None, None, None, ids),
        }
    }
}

/// Filter of a list of jobs; a field that is `None` matches everything.
#[derive(Clone, Debug, Default)]
pub struct JobQuery {
    pub anchor: Anchor,
    /// The oldest first; else the newest.
    pub oldest_first: bool,
    /// After this job key in that order.
    pub behind: Option<i64>,
    pub limit: i64,
    pub owner_id: Option<Uuid>,
    /// Roots only, or children only. For roots, status and outcome are those of the tree.
    pub roots: Option<bool>,
    /// Only jobs created from a file.
    pub uploads_only: bool,
    pub root_id: Option<Uuid>,
    pub parent_id: Option<Uuid>,
    pub replay_of: Option<Uuid>,
    pub dedupe_key: Option<String>,
    pub type_id: Option<i32>,
    pub owner_name: Option<String>,
    pub initiated_by: Option<String>,
    /// Part of a name, key or metadata, already escaped for `like`.
    pub text: Option<String>,
    /// Names and values of metadata, as text.
    pub metadata: Vec<(String, String)>,
    pub created_after: Option<OffsetDateTime>,
    pub created_before: Option<OffsetDateTime>,
    /// 1 succeeded, 2 partial, 3 failed, 4 cancelled.
    pub outcome: Option<i16>,
    /// `waiting`, `running`, `cancelling` or `completed`.
    pub status: Option<String>,
    /// Open, and nothing has happened for an hour.
    pub stalled: Option<bool>,
}

impl JobQuery {
    /// Job key after which the page begins.
    fn start(&self) -> i64 {
        self.behind.unwrap_or(if self.oldest_first { 0 } else { i64::MAX })
    }
}

/// A row of a list: job key, job, root.
pub type JobListRow = (i64, Uuid, Uuid);

/// A statement around the scan of the anchor's index (`$1` to `$6`): the text before and after it. `$on` is `<` or
/// `>`, `$order` is `desc` or `asc`.
macro_rules! around_scan {
    ($on:tt, $order:tt, $before:tt, [$($behind:tt)+], $($values:tt)+) => {
        sqlx::query!(
            $before
                + "(select job_key from job where $1 = 'all' and job_key "
                + $on + " $2 order by job_key " + $order
                + " limit 20000) union all (select job_key from job
                   where $1 = 'roots' and parent_id is null and job_key "
                + $on + " $2 order by job_key " + $order
                + " limit 20000) union all (select job_key from job
                   where $1 in ('owner', 'owner roots') and owner_id = $3 and parent_id is null and job_key "
                + $on + " $2 order by job_key " + $order
                + " limit 20000) union all (select job_key from job
                   where $1 in ('owner', 'owner children') and owner_id = $3 and parent_id is not null and job_key "
                + $on + " $2 order by job_key " + $order
                + " limit 20000) union all (select job_key from job
                   where $1 = 'root' and root_id = $3 and job_key "
                + $on + " $2 order by job_key " + $order
                + " limit 20000) union all (select job_key from job
                   where $1 = 'parent' and parent_id = $3 and job_key "
                + $on + " $2 order by job_key " + $order
                + " limit 20000) union all (select job_key from job
                   where $1 = 'replay' and replay_of = $3 and job_key "
                + $on + " $2 order by job_key " + $order
                + " limit 20000) union all (select job_key from job
                   where $1 = 'type' and type_id = $4 and job_key "
                + $on + " $2 order by job_key " + $order
                + " limit 20000) union all (select job_key from job
                   where $1 = 'initiator' and initiated_by = $5 and job_key "
                + $on + " $2 order by job_key " + $order
                + " limit 20000) union all (select job_key from job
                   where $1 = 'dedupe key' and dedupe_key = $5 and job_key "
                + $on + " $2 order by job_key " + $order
                + " limit 20000) union all (select job_key from job
                   where $1 = 'ids' and id = any($6::uuid[]) and job_key "
                + $on + " $2 order by job_key " + $order
                + " limit 20000)"
                + $($behind)+,
            $($values)+
        )
    };
}

/// Jobs that match, in order.
///
/// Metadata is read as `json`, not `jsonb`: its numbers stay text, and none grows.
pub async fn list(pool: &PgPool, query: &JobQuery) -> Result<Vec<JobListRow>, sqlx::Error> {
    let (anchor, id, number, text, ids) = query.anchor.parts();
    let names: Vec<&str> = query.metadata.iter().map(|(name, _)| name.as_str()).collect();
    let values: Vec<&str> = query.metadata.iter().map(|(_, value)| value.as_str()).collect();
    macro_rules! listed {
        ($on:tt, $order:tt) => {
    around_scan!(
        $on,
        $order,
        "select s.job_key, s.id, s.root_id from (select job_key from (",
        [r#") one_of
             order by job_key "# + $order + r#" limit 20000) scanned
           join job s on s.job_key = scanned.job_key
           join job_state g on g.job_key = scanned.job_key
           where g.deleted_at is null
             and ($7::uuid is null or s.owner_id = $7)
             and ($8::bool is null or (s.parent_id is null) = $8)
             and (not $9::bool or s.upload_id is not null)
             and ($10::uuid is null or s.root_id = $10)
             and ($11::uuid is null or s.parent_id = $11)
             and ($12::uuid is null or s.replay_of = $12)
             and ($13::text is null or s.dedupe_key = $13)
             and ($14::int is null or s.type_id = $14)
             and ($15::text is null or s.owner_id in (select o.id from owner o where o.name = $15))
             and ($16::text is null or s.initiated_by = $16)
             and ($17::text is null or s.name ilike $17 or s.key ilike $17 or s.metadata ilike $17)
             and (cardinality($18::text[]) = 0 or s.metadata <> '{}' and not exists (
               select 1 from unnest($18::text[], $19::text[]) as wanted (name, value)
               where (s.metadata::json ->> wanted.name) is distinct from wanted.value))
             and ($20::timestamptz is null or s.created_at > $20)
             and ($21::timestamptz is null or s.created_at < $21)
             and ($22::smallint is null or $22 = case
               when coalesce($8, false) then case when g.tree_completed_at is not null then g.tree_outcome end
               when g.completed_at is null then null
               when g.cancelled_at is not null then 4
               when g.n_dead + g.n_cancelled + g.n_expired = 0 then 1
               when g.n_succeeded > 0 then 2
               else 3 end)
             and ($23::text is null or $23 = case
               when coalesce($8, false) and g.tree_completed_at is not null then 'completed'
               when not coalesce($8, false) and g.completed_at is not null then 'completed'
               when g.cancelled_at is not null then 'cancelling'
               when g.started_at is not null or g.n_running + g.n_succeeded + g.n_dead + g.n_cancelled + g.n_expired > 0
                 or coalesce($8, false) and exists (
                   select 1 from job_state b where b.root_id = s.root_id
                     and (b.started_at is not null or b.n_running + b.n_succeeded + b.n_dead + b.n_cancelled
                          + b.n_expired > 0))
                 then 'running'
               else 'waiting' end)
             and ($24::bool is null or $24 = case
               when s.parent_id is null then g.tree_completed_at is null and not exists (
                 select 1 from job_state b where b.root_id = s.root_id
                   and b.updated_at > clock_timestamp() - interval '1 hour')
               else g.completed_at is null and g.updated_at <= clock_timestamp() - interval '1 hour' end)
           order by s.job_key "# + $order + " limit $25"],
        anchor,
        query.start(),
        id,
        number,
        text,
        ids,
        query.owner_id,
        query.roots,
        query.uploads_only,
        query.root_id,
        query.parent_id,
        query.replay_of,
        query.dedupe_key,
        query.type_id,
        query.owner_name,
        query.initiated_by,
        query.text,
        &names as &[&str],
        &values as &[&str],
        query.created_after,
        query.created_before,
        query.outcome,
        query.status,
        query.stalled,
        query.limit
    )
    .fetch_all(pool)
    .await?
    .into_iter()
    .map(|row| (row.job_key, row.id, row.root_id))
    .collect::<Vec<_>>()
        };
    }
    Ok(if query.oldest_first { listed!(">", "asc") } else { listed!("<", "desc") })
}

/// Job key at which a page of `found` rows ended its scan because it had reached the maximum; `None` for a full page
/// and for a page that reached the end. Independent of the rows, so a caller can read both at once.
pub async fn scan_end(pool: &PgPool, query: &JobQuery, found: usize) -> Result<Option<i64>, sqlx::Error> {
    if found as i64 >= query.limit {
        return Ok(None);
    }
    let (anchor, id, number, text, ids) = query.anchor.parts();
    macro_rules! last {
        ($on:tt, $order:tt) => {
            around_scan!(
                $on,
                $order,
                r#"select job_key as "job_key!" from ("#,
                [") one_of order by job_key " + $order + " offset 19999 limit 1"],
                anchor,
                query.start(),
                id,
                number,
                text,
                ids
            )
            .fetch_optional(pool)
            .await?
            .map(|row| row.job_key)
        };
    }
    Ok(if query.oldest_first { last!(">", "asc") } else { last!("<", "desc") })
}
