//! Rule of the audit log: each acknowledged action of a person is there exactly once, under their name, and nothing
//! else is.

use std::collections::BTreeMap;

use domain::id::Uuid;

use super::{Kind, Verdict, history::History};
use crate::journal::{CallOutcome, Request};

/// Retries of one item by one person.
#[derive(Default)]
struct RetryCounts {
    accepted: usize,
    refused: usize,
    unanswered: usize,
    logged: usize,
}

pub(super) fn check(history: &History, verdict: &mut Verdict) {
    let mut retries: BTreeMap<(Uuid, &str), RetryCounts> = BTreeMap::new();
    for call in &history.calls {
        let Request::Retry { item, by: Some(by) } = &call.request else { continue };
        let counts = retries.entry((*item, by)).or_default();
        match call.outcome {
            CallOutcome::Ok => counts.accepted += 1,
            CallOutcome::Fail => counts.refused += 1,
            CallOutcome::Info => counts.unanswered += 1,
        }
    }
    for row in history.audit.iter().filter(|row| row.action == "item.retry") {
        retries.entry((row.item_id, &row.actor_name)).or_default().logged += 1;
    }
    for ((item, by), counts) in retries {
        verdict.audited_actions += counts.accepted;
        verdict.refused_actions += counts.refused;
        let may = counts.accepted..=counts.accepted + counts.unanswered;
        if !may.contains(&counts.logged) {
            let (accepted, logged) = (counts.accepted, counts.logged);
            verdict.add_finding(
                Kind::Audit,
                format!("{by} retried {item} {accepted} times; the audit log has {logged} entries"),
            );
        }
    }
}
