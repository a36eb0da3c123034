//! Views of a job beside its summary, and a job in which items wait for people.

use app::pages::{
    self,
    job::{Activity, Content, Results, Summary, Window},
};
use domain::{Counts, Document, Item, ItemState, event_wait::EventWait};

use crate::{
    Draw, accounts,
    fixtures::{at, item, job, tree},
    staff::{own_actions, summary},
};

pub(crate) fn all(add: &mut impl FnMut(&'static str, Draw)) {
    let view = |content: Content| pages::job::page(&tree(), &content, &own_actions());
    add("job-graph", Box::new(move || view(Content::Graph)));
    add("job-timeline", Box::new(move || view(Content::Timeline(Window::default()))));
    add(
        "job-results",
        Box::new(move || view(Content::Results(Results { items: succeeded(), next: Some("?after=x".to_owned()) }))),
    );
    add("job-results-empty", Box::new(move || view(Content::Results(Results::default()))));
    add(
        "job-activity",
        Box::new(move || {
            let entries = accounts::entries().into_iter().filter(|entry| !entry.action.contains("token")).collect();
            view(Content::Activity(Activity { entries, next: None, staff: true }))
        }),
    );
    add(
        "job-approval",
        Box::new(|| {
            let counts = Counts { succeeded: 118, waiting_for_event: 3, ..Counts::default() };
            let mut shown = job(30, "Supplier invoices, November", "approve-invoice", counts, None, Vec::new());
            shown.upload_id = None;
            let event_waits = [3_u128, 41, 97].map(|n| Item {
                state: ItemState::WaitingForEvent,
                row: None,
                seq: n as i64,
                assignment: None,
                wait: Some(EventWait {
                    name: "approval".to_owned(),
                    since: at("2026-11-20T13:41:00Z"),
                    until: None,
                    form: None,
                }),
                ..item(60 + n, n as i64, None)
            });
            let content = Summary { event_waits: event_waits.into(), ..Summary::default() };
            summary(&shown, content, &pages::job::Actions { watching: Some(true), ..own_actions() })
        }),
    );
}

fn succeeded() -> Vec<Item> {
    let one = |n: u128, result: &str| Item {
        state: ItemState::Succeeded,
        assignment: None,
        result: Some(Document::trusted(result.to_owned())),
        finished_at: Some(at("2026-11-20T14:02:41Z")),
        ..item(n, 2_000 + n as i64, None)
    };
    vec![
        one(51, "{\"check\":\"C-2026-118\",\"amount\":1250.00,\"printed\":true}"),
        one(52, "{\"check\":\"C-2026-119\",\"amount\":12.50,\"printed\":true,\"note\":\"<b>second print</b>\"}"),
        one(53, "null"),
    ]
}
