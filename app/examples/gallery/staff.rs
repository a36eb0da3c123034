//! Pages for staff, in their states.

use app::{
    components::{action_form::RefusedAction, filter_bar::ListFilter},
    frame::Page,
    pages::{
        self,
        item::{Actions, Edit},
        job::{Content, Summary},
        jobs::Jobs,
        operator::{
            bulk,
            dead_letters::{GroupTab, Items},
        },
    },
};
use domain::{
    Code, Document, Item, ItemState, Job, Problem,
    api::{
        BulkAction, BulkOperation, BulkSample, BulkSkipped, BulkState, BulkTarget, ErrorGroup, GroupState, LogLevel,
        LogLine, LogTail,
    },
    event_wait::EventWait,
    id::Uuid,
    item::WaitingFor,
    job::{Owner, OwnerKind},
    query::filter::{Filter, lists::List},
};

use crate::{
    Draw, callbacks,
    fixtures::{
        at, attempts, cancelled, complete, dead_item, failed, group_detail, groups, hostile, hostile_groups, item,
        million, partial, running, tree, types, waiting,
    },
    lists,
};

/// Actions on the reader's own job.
pub(crate) fn own_actions() -> pages::job::Actions {
    pages::job::Actions { own: true, ..Default::default() }
}

fn refused(action: &'static str, problem: Problem) -> RefusedAction {
    RefusedAction { action, problem, reason: "the bank was down".to_owned() }
}

fn list_filter(list: List, path: &'static str, typed: &str) -> ListFilter {
    let list_filter = ListFilter { typed: typed.to_owned(), ..ListFilter::nothing(list, path) };
    let now = at("2026-11-20T14:03:07Z");
    match Filter::parse(typed).and_then(|filter| filter.parameters(list, now).map(|_| filter)) {
        Ok(filter) => ListFilter { filter, ..list_filter },
        Err(fault) => ListFilter { fault: Some(fault), ..list_filter },
    }
}

pub(crate) fn all(add: &mut impl FnMut(&'static str, Draw)) {
    lists(add);
    one_item(add);
    operations(add);
}

fn lists(add: &mut impl FnMut(&'static str, Draw)) {
    let jobs = |typed: &str| Jobs {
        list_filter: list_filter(List::Jobs, "/jobs", typed),
        job_types: types(),
        jobs: Vec::new(),
        next: None,
        first: true,
        flash: None,
        live_query: Some(pages::jobs::LiveQuery {
            parameters: Vec::new(),
            as_of: at("2026-11-20T14:03:07Z"),
            cursor: None,
        }),
    };
    add("jobs-empty", Box::new(move || pages::jobs::page(&jobs(""))));
    add("jobs-nothing", Box::new(move || pages::jobs::page(&jobs("payroll created:<2h"))));
    add("jobs-fault", Box::new(move || pages::jobs::page(&jobs("status:running colour:red"))));
    add(
        "jobs",
        Box::new(move || {
            let shown =
                vec![running(), tree(), million(), partial(), waiting(), complete(), cancelled(), failed(), hostile()];
            let next = Some("?after=x".to_owned());
            let list_filter = lists::with_views(list_filter(List::Jobs, "/jobs", ""));
            pages::jobs::page(&Jobs { jobs: shown, next, list_filter, ..jobs("") })
        }),
    );
    add(
        "uploader-jobs",
        Box::new(move || {
            let shown = vec![running(), partial(), complete(), failed()];
            pages::jobs::page(&Jobs { jobs: shown, job_types: Vec::new(), ..jobs("") })
        }),
    );
    let dead = |typed: &str, groups: Option<Vec<ErrorGroup>>, items: Vec<Item>| Items {
        types: types(),
        groups,
        exact: None,
        summaries: items.iter().map(|item| (item.id, payload_beginning())).collect(),
        items,
        ..Items::nothing(list_filter(List::Dead, "/dead", typed))
    };
    add("dead-empty", Box::new(move || pages::operator::dead_letters::page(&dead("", None, Vec::new()))));
    add(
        "dead-nothing",
        Box::new(move || pages::operator::dead_letters::page(&dead("type:import row:7", None, Vec::new()))),
    );
    let decided = move |tab: GroupTab| {
        let mut all = groups();
        all.extend(hostile_groups());
        all[0].count = 12_431;
        all[1].state = GroupState::Regressed;
        all[2].state = if tab == GroupTab::Resolved { GroupState::Resolved } else { GroupState::Muted };
        all[2].muted_until = Some(at("2026-11-21T14:03:00Z"));
        let day =
            |group: &ErrorGroup| (0..24).map(|hour| (hour * 5 + group.count) % 11 * i64::from(hour > 9)).collect();
        let sparklines = all.iter().map(|it| ((it.job_type.clone(), it.fingerprint.clone()), day(it))).collect();
        let next = Some("?".to_owned());
        pages::operator::dead_letters::page(&Items {
            next,
            tab,
            sparklines,
            staff: true,
            ..dead("", Some(all), dead_items())
        })
    };
    add("dead", Box::new(move || decided(GroupTab::Open)));
    add("dead-resolved", Box::new(move || decided(GroupTab::Resolved)));
    add("dead-ignored", Box::new(move || decided(GroupTab::Muted)));
    add(
        "dead-filtered",
        Box::new(move || {
            pages::operator::dead_letters::page(&dead("type:import latitude worker:w-1", None, dead_items()))
        }),
    );
    add(
        "dead-group",
        Box::new(move || {
            let mut one = groups();
            one.truncate(1);
            let typed = "error:5f3a99c0 type:import";
            pages::operator::dead_letters::page(&Items {
                next: Some("?".to_owned()),
                ..dead(typed, Some(one), dead_items())
            })
        }),
    );
    add(
        "dead-group-staff",
        Box::new(move || {
            let detail = Some(group_detail());
            let page_data = dead("error:5f3a99c0 type:import", None, dead_items());
            pages::operator::dead_letters::page(&Items { detail, staff: true, ..page_data })
        }),
    );
    add(
        "items-nothing",
        Box::new(move || {
            let list_filter = list_filter(List::Items, "/items", "4711");
            pages::operator::dead_letters::items_page(&Items { list_filter, ..dead("", None, Vec::new()) })
        }),
    );
    add(
        "items",
        Box::new(move || {
            let job = running();
            let list_filter = list_filter(List::Items, "/items", &format!("root:{} state:running", job.id));
            let items = vec![item(31, 2_042, None), item(32, 2_043, None)];
            let page_data = Items { list_filter, job: Some((job, true)), ..dead("", None, items) };
            pages::operator::dead_letters::items_page(&page_data)
        }),
    );
    let cancel = |actions: pages::job::Actions| {
        move || summary(&running(), Summary { groups: groups()[..1].to_vec(), ..Summary::default() }, &actions)
    };
    let problem = Problem::new(
        Code::ReasonRequired,
        "This is somebody else's work: say why, as `reason`. It is kept in the audit log.",
    );
    add(
        "job-refused",
        Box::new(cancel(pages::job::Actions { refused: Some(refused("cancel", problem)), ..Default::default() })),
    );
    add(
        "job-partial",
        Box::new(|| {
            let content = Summary { groups: groups(), callbacks: callbacks::twice(), ..Summary::default() };
            summary(&partial(), content, &own_actions())
        }),
    );
}

/// Page of a job with its summary.
pub(crate) fn summary(job: &Job, summary: Summary, actions: &pages::job::Actions) -> Page {
    pages::job::page(job, &Content::Summary(Box::new(summary)), actions)
}

/// Beginning of a payload.
fn payload_beginning() -> String {
    "{\"iata\":\"00M\",\"name\":\"Z\\u00fcrich </td><b>Kloten\",\"latitude\":\"n/a\",\"note\":\"cut off he".to_owned()
}

fn dead_items() -> Vec<Item> {
    let mut hostile = dead_item();
    if let Some(error) = &mut hostile.last_error {
        error.message = "<img src=x onerror=alert(1)> ".to_owned() + &"x".repeat(200);
    }
    vec![dead_item(), hostile, Item { row: None, seq: 1_204_331, ..dead_item() }]
}

/// Actions for a reader who sees everything, on an item of a named job.
fn item_actions() -> Actions {
    Actions {
        staff: true,
        job: Some("send-check".to_owned()),
        root: Some("Payroll, March".to_owned()),
        owner: Some("Ada Lovelace".to_owned()),
        ..Actions::default()
    }
}

fn one_item(add: &mut impl FnMut(&'static str, Draw)) {
    add(
        "item-dead",
        Box::new(|| pages::item::page(&dead_item(), &attempts(), &Actions { own: true, ..item_actions() })),
    );
    add(
        "item-edited",
        Box::new(|| {
            let before = "{\"iata\":\"00M\",\"name\":\"Z\\u00fcrich\",\"zip\":\"00917\",\"runways\":[{\"id\":\"15/33\",\"lit\":true}]}";
            let after = before.replace("\"00917\"", "\"10115\"");
            let item = Item {
                payload: Some(Document::trusted(after)),
                original_payload: Some(Document::trusted(before.to_owned())),
                result: Some(Document::trusted("{\"stored\":true,\"amount\":1.10}".to_owned())),
                state: ItemState::Succeeded,
                finished_at: Some(at("2026-11-20T14:02:00Z")),
                dedupe_key: Some("order-4711".to_owned()),
                ..dead_item()
            };
            pages::item::page(&item, &attempts(), &item_actions())
        }),
    );
    add(
        "item-cancel",
        Box::new(|| {
            let actions = Actions { open: Some("cancel".to_owned()), ..item_actions() };
            pages::item::page(&item(41, 13, None), &attempts()[2..], &actions)
        }),
    );
    add(
        "item-retry",
        Box::new(|| {
            let actions = Actions { open: Some("retry".to_owned()), ..item_actions() };
            pages::item::page(&dead_item(), &attempts(), &actions)
        }),
    );
    add(
        "item-refused",
        Box::new(|| {
            let problem = Problem::invalid_body([
                ("/payload/latitude".to_owned(), "\"n/a\" is not of type \"number\"".to_owned()),
                ("/payload".to_owned(), "\"longitude\" is a required property".to_owned()),
            ]);
            let payload = Some("{\"iata\":\"00M\",\n \"latitude\":\"n/a\"}".to_owned());
            let edit = Edit { payload, ..Edit::default() };
            pages::item::page(
                &dead_item(),
                &attempts(),
                &Actions { refused: Some(refused("retry", problem)), edit, ..item_actions() },
            )
        }),
    );
    add(
        "item-waiting",
        Box::new(|| {
            let waiting_for = Some(WaitingFor {
                reason: "not_claimed".to_owned(),
                detail: Some("No worker has asked for send-check since 2026-11-20T13:03:00Z.".to_owned()),
                until: None,
            });
            let item =
                Item { state: ItemState::Available, attempts: 0, assignment: None, waiting_for, ..item(40, 12, None) };
            pages::item::page(&item, &[], &Actions { flash: Some("retried".to_owned()), ..item_actions() })
        }),
    );
    add(
        "item-retrying",
        Box::new(|| {
            let waiting_for =
                Some(WaitingFor { reason: "retry".to_owned(), detail: None, until: Some(at("2026-11-20T14:05:00Z")) });
            let state = ItemState::Retryable;
            let item = Item { state, attempts: 2, failures: 2, assignment: None, waiting_for, ..dead_item() };
            pages::item::page(&item, &attempts()[1..], &item_actions())
        }),
    );
    add(
        "item-waiting-for-event",
        Box::new(|| {
            let payload = Some(Document::trusted("{\"invoice\":4711,\"amount\":12750.00}".to_owned()));
            let form = r#"{"title": "Approve the invoice?", "description": "It is above the limit of 10,000.", "fields": [
                {"name": "decision", "type": "choice", "choices": ["approve", "reject"], "required": true, "title": "Decision"},
                {"name": "amount", "type": "number", "title": "Amount to pay"},
                {"name": "urgent", "type": "boolean", "title": "Pay today"},
                {"name": "note", "type": "text", "title": "Note", "description": "Shown to the sender."}]}"#;
            let wait = Some(EventWait {
                name: "approval".to_owned(),
                since: at("2026-11-20T14:02:00Z"),
                until: Some(at("2026-11-22T14:02:00Z")),
                form: serde_json::from_str(form).ok(),
            });
            let waiting_for =
                Some(WaitingFor { reason: "event".to_owned(), detail: None, until: Some(at("2026-11-22T14:02:00Z")) });
            let item = Item {
                state: ItemState::WaitingForEvent,
                assignment: None,
                waiting_for,
                wait,
                payload,
                ..item(40, 12, None)
            };
            pages::item::page(&item, &[], &item_actions())
        }),
    );
    add(
        "item-log",
        Box::new(|| {
            let line = |line, level, message: &str| LogLine {
                attempt: 1,
                line,
                at: at("2026-11-20T14:02:26Z"),
                level,
                message: message.to_owned(),
                fields: (line == 42).then(|| Document::trusted("{\"account\":\"4711\",\"ms\":912}".to_owned())),
            };
            let lines = vec![
                line(41, LogLevel::Info, "claimed <b>row 13</b>"),
                line(42, LogLevel::Debug, "account found"),
                line(43, LogLevel::Warn, "the card terminal answers slowly"),
                line(44, LogLevel::Error, &("no paper left ".to_owned() + &"x".repeat(200))),
            ];
            let log = Some(LogTail { attempt: 1, attempts: vec![1], dropped: 12, lines });
            pages::item::page(&item(41, 13, None), &attempts()[2..], &Actions { log, ..item_actions() })
        }),
    );
    add("item-running", Box::new(|| pages::item::page(&item(41, 13, None), &attempts()[2..], &item_actions())));
}

fn operation(state: BulkState, dry_run: bool) -> BulkOperation {
    let through = matches!(state, BulkState::Completed);
    let sample = (0..3).map(|n| BulkSample {
        id: Uuid::from_u128(70 + n),
        job_id: Uuid::from_u128(3),
        root_id: Uuid::from_u128(3),
        job_type: "import".to_owned(),
        state: "dead".to_owned(),
        message: Some("Column latitude: expected a number, found \u{201c}n/a\u{201d}".to_owned()),
    });
    BulkOperation {
        id: Uuid::from_u128(90),
        action: BulkAction::Retry,
        target: BulkTarget::Items,
        filter: Document::trusted("{\"state\":\"dead\",\"type\":\"import\",\"error\":\"5f3a99c0\"}".to_owned()),
        payload_edit: Vec::new(),
        reason: (!dry_run).then(|| "The bank was down from 13:00 to 14:00".to_owned()),
        rate_per_second: (!dry_run).then_some(250.0),
        dry_run,
        state,
        stopped_reason: (state == BulkState::Cancelled).then(|| "The token was revoked.".to_owned()),
        total: 12_431,
        processed: if through { 12_390 } else { 4_200 * i64::from(!dry_run) },
        skipped: if dry_run {
            Vec::new()
        } else {
            vec![
                BulkSkipped { reason: "not_retryable".to_owned(), count: 38 },
                BulkSkipped { reason: "job_cancelled".to_owned(), count: 2 },
            ]
        },
        errored: i64::from(through),
        sample: sample.collect(),
        owner: Owner { kind: OwnerKind::User, name: "Ada Lovelace".to_owned() },
        created_at: at("2026-11-20T14:02:00Z"),
        updated_at: at("2026-11-20T14:03:00Z"),
        finished_at: through.then(|| at("2026-11-20T14:03:00Z")),
    }
}

fn operations(add: &mut impl FnMut(&'static str, Draw)) {
    let shown = |one: BulkOperation| bulk::OperationPageData {
        one,
        own: true,
        staff: true,
        flash: None,
        stops: false,
        refused: None,
        reason: String::new(),
        rate: String::new(),
        edits: String::new(),
        before: None,
        edited: None,
    };
    add("bulk-empty", Box::new(|| bulk::list_page(&[], None, true)));
    add(
        "bulk",
        Box::new(|| {
            let all = [
                operation(BulkState::Running, false),
                operation(BulkState::Completed, false),
                operation(BulkState::Ready, true),
            ];
            bulk::list_page(&all, None, true)
        }),
    );
    add(
        "bulk-new",
        Box::new(|| {
            let fault = Filter::parse("state:dead colour:red")
                .expect("a filter")
                .parameters(List::Items, at("2026-11-20T14:03:07Z"))
                .err();
            bulk::new_page(&bulk::NewOperationForm {
                action: BulkAction::Cancel,
                target: BulkTarget::Items,
                q: "state:dead colour:red".to_owned(),
                fault,
                problem: None,
            })
        }),
    );
    add("bulk-counting", Box::new(move || bulk::page(&shown(operation(BulkState::Counting, true)))));
    add("bulk-preview", Box::new(move || bulk::page(&shown(operation(BulkState::Ready, true)))));
    add(
        "bulk-refused",
        Box::new(move || {
            let problem = Problem::invalid_body([(
                "/payload_edit".to_owned(),
                "expected set /place value, or remove /place, found \"put /a 1\"".to_owned(),
            )]);
            let refused = Some(refused("start", problem));
            bulk::page(&bulk::OperationPageData {
                refused,
                edits: "put /a 1".to_owned(),
                rate: "50".to_owned(),
                ..shown(operation(BulkState::Ready, true))
            })
        }),
    );
    add(
        "bulk-changed",
        Box::new(move || {
            let one = BulkOperation {
                action: BulkAction::Delete,
                target: BulkTarget::Jobs,
                total: 24,
                skipped: vec![BulkSkipped { reason: "forbidden".to_owned(), count: 21 }],
                ..operation(BulkState::Ready, true)
            };
            bulk::page(&bulk::OperationPageData { before: Some(54), ..shown(one) })
        }),
    );
    add(
        "bulk-forbidden",
        Box::new(move || {
            let one = BulkOperation {
                action: BulkAction::Delete,
                target: BulkTarget::Jobs,
                total: 1,
                skipped: vec![BulkSkipped { reason: "forbidden".to_owned(), count: 1 }],
                ..operation(BulkState::Ready, true)
            };
            bulk::page(&shown(one))
        }),
    );
    add(
        "bulk-edited",
        Box::new(move || {
            let text = |zip: &str| Document::trusted(format!("{{\"name\":\"Ada\",\"zip\":{zip},\"n\":1.10}}"));
            let edited = bulk::Edited {
                payloads: vec![
                    (Uuid::from_u128(70), text("\"00917\""), Some(text("\"10115\""))),
                    (Uuid::from_u128(71), text("\"10115\""), Some(text("\"10115\""))),
                    (Uuid::from_u128(72), Document::trusted("[]".to_owned()), None),
                ],
                notes: vec![
                    "/zip holds text in these items, so 10115 is kept as the text \u{201c}10115\u{201d}.".to_owned(),
                ],
            };
            let edits = "set /zip 10115".to_owned();
            bulk::page(&bulk::OperationPageData {
                edited: Some(edited),
                edits,
                ..shown(operation(BulkState::Ready, true))
            })
        }),
    );
    add(
        "bulk-stop",
        Box::new(move || {
            bulk::page(&bulk::OperationPageData { stops: true, ..shown(operation(BulkState::Running, false)) })
        }),
    );
    add("bulk-running", Box::new(move || bulk::page(&shown(operation(BulkState::Running, false)))));
    add("bulk-completed", Box::new(move || bulk::page(&shown(operation(BulkState::Completed, false)))));
}
