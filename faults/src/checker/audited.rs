//! Rule of the audit log: each acknowledged action of a person is there exactly once, under their name, and nothing
//! else is.

use std::collections::BTreeMap;

use domain::id::Uuid;

use super::{Kind, Verdict, history::History};
use crate::journal::{Said, What};

/// Retries of one item by one person.
#[derive(Default)]
struct Pressed {
    accepted: usize,
    refused: usize,
    unanswered: usize,
    logged: usize,
}

pub(super) fn judge(history: &History, verdict: &mut Verdict) {
    let mut presses: BTreeMap<(Uuid, &str), Pressed> = BTreeMap::new();
    for call in &history.calls {
        let What::Retry { item, by: Some(by) } = &call.what else { continue };
        let pressed = presses.entry((*item, by)).or_default();
        match call.said {
            Said::Ok => pressed.accepted += 1,
            Said::Fail => pressed.refused += 1,
            Said::Info => pressed.unanswered += 1,
        }
    }
    for row in history.audit.iter().filter(|row| row.action == "item.retry") {
        presses.entry((row.item_id, &row.actor_name)).or_default().logged += 1;
    }
    for ((item, by), pressed) in presses {
        verdict.audited += pressed.accepted;
        verdict.refused_presses += pressed.refused;
        let may = pressed.accepted..=pressed.accepted + pressed.unanswered;
        if !may.contains(&pressed.logged) {
            let (accepted, logged) = (pressed.accepted, pressed.logged);
            verdict.find(Kind::Audit, format!("{by} gave {item} back {accepted} times, logged {logged} times"));
        }
    }
}
