//! Test of a job against the filter of a list, as far as the job alone decides it.
//!
//! Used by live pages, which receive changed jobs and cannot query the database. Conditions that the job alone does not
//! decide (text in metadata, time without activity) stay undecided. Status and outcome are those of the tree, as in a
//! list of roots.

use crate::{Job, Time};

/// Returns true if a root matches the parameters of `GET /jobs`; `None` if that cannot be decided.
pub fn matches_job(parameters: &[(String, String)], job: &Job) -> Option<bool> {
    let results: Vec<Option<bool>> = parameters.iter().map(|(name, value)| term_matches(name, value, job)).collect();
    if results.contains(&Some(false)) {
        return Some(false);
    }
    (!results.contains(&None)).then_some(true)
}

fn term_matches(name: &str, value: &str, job: &Job) -> Option<bool> {
    let id = |id: Option<crate::id::Uuid>| id.is_some_and(|id| id.to_string() == value);
    Some(match name {
        "id" => value.split(',').any(|one| one == job.id.to_string()),
        "root" => value == "true" && job.parent_id.is_none(),
        "root_id" => id(Some(job.root_id)),
        "parent" => id(job.parent_id),
        "replay_of" => id(job.replay_of),
        "status" => job.tree.status.as_str() == value,
        "outcome" => job.tree.outcome.is_some_and(|outcome| outcome.as_str() == value),
        "type" => job.job_type == value,
        "owner" => job.owner.name == value,
        "initiated_by" => job.initiated_by.as_deref() == Some(value),
        "dedupe_key" => job.dedupe_key.as_deref() == Some(value),
        "idempotency_key" => job.idempotency_key.as_deref() == Some(value),
        "created_after" => job.created_at > Time::parse(value)?,
        "created_before" => job.created_at < Time::parse(value)?,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Counts, Document, JobStatus,
        id::Uuid,
        item::MaxFailures,
        job::{Owner, OwnerKind, TreeSummary},
    };

    fn running() -> Job {
        let at = Time::parse("2026-11-20T14:03:07Z").expect("a time");
        let id = Uuid::from_u128(7);
        let status = JobStatus::Running;
        let counts = Counts { running: 1, ..Counts::default() };
        Job {
            id,
            root_id: id,
            parent_id: None,
            key: "march".to_owned(),
            job_type: "payroll".to_owned(),
            name: None,
            status: JobStatus::Waiting,
            outcome: None,
            sealed: true,
            item_count: 1,
            item_progress: 0,
            expected_count: None,
            percent: Some(0),
            message: String::new(),
            counts,
            tree: TreeSummary { status, outcome: None, item_count: 1, item_progress: 0, counts },
            after: Vec::new(),
            feed: None,
            final_stage: false,
            max_failures: MaxFailures::Unlimited,
            metadata: Document::trusted("{\"team\":\"hr\"}".to_owned()),
            dedupe_key: None,
            idempotency_key: None,
            owner: Owner { kind: OwnerKind::Service, name: "shop".to_owned() },
            initiated_by: None,
            upload_id: None,
            replay_of: None,
            merged: None,
            superseded_by: None,
            completion: 0,
            pinned: false,
            open_because: None,
            created_at: at,
            started_at: None,
            completed_at: None,
            updated_at: at,
            run_after: None,
            expires_at: None,
            priority: 0,
            version: 1,
            children: None,
        }
    }

    #[test]
    fn filter_match_is_unknown_unless_decidable() {
        let results = |pairs: &[(&str, &str)]| {
            let parameters: Vec<(String, String)> =
                pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            matches_job(&parameters, &running())
        };
        assert_eq!(results(&[]), Some(true));
        assert_eq!(results(&[("status", "running"), ("type", "payroll"), ("root", "true")]), Some(true));
        assert_eq!(results(&[("status", "waiting")]), Some(false), "its tree runs");
        assert_eq!(results(&[("outcome", "failed")]), Some(false));
        assert_eq!(results(&[("created_after", "2026-11-20T14:03:07Z")]), Some(false));
        assert_eq!(results(&[("created_before", "2026-11-21T00:00:00Z"), ("owner", "shop")]), Some(true));
        assert_eq!(results(&[("id", "00000000-0000-0000-0000-000000000007")]), Some(true));
        assert_eq!(results(&[("metadata.team", "hr")]), None);
        assert_eq!(results(&[("q", "march"), ("status", "waiting")]), Some(false), "one is enough");
        assert_eq!(results(&[("status", "running"), ("stalled", "true")]), None);
    }
}
