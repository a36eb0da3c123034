//! Webhook deliveries of complete trees, in each state.

use app::{
    components::action_form::RefusedAction,
    pages::deliveries::{Deliveries, DeliveryPageData, list_page, page},
};
use domain::{
    Code, Outcome, Problem,
    id::Uuid,
    notify::delivery::{CallbackDelivery, DeliveryState, DeliveryTry},
};

use crate::{Draw, fixtures::at};

/// Deliveries in each of their states.
pub(crate) fn deliveries() -> Vec<CallbackDelivery> {
    let one = |n: u128, state, completion, url: &str, tries: Vec<DeliveryTry>, next: Option<&str>| CallbackDelivery {
        id: Uuid::from_u128((0x01a1_fcd8 << 96) + n),
        job_id: Some(Uuid::from_u128(0x01a1_fcd8_0c63_710f_95ad_a94a_c199_316b)),
        job_name: (n % 2 == 1).then(|| "Payroll, November 2026".to_owned()),
        completion: Some(completion),
        alert: None,
        notice: None,
        outcome: Some(Outcome::Partial),
        state,
        url: (!url.is_empty()).then(|| url.to_owned()),
        tries,
        next_try_at: next.map(at),
        created_at: at("2026-11-20T13:58:00Z"),
    };
    let tried =
        |time: &str, status, error: Option<&str>| DeliveryTry { at: at(time), status, error: error.map(str::to_owned) };
    let hostile = "<script>alert(1)</script>".to_owned() + &"x".repeat(200);
    let payroll = "https://payroll.example/hooks/treeline";
    vec![
        one(1, DeliveryState::Delivered, 1, payroll, vec![tried("2026-11-20T13:58:01Z", Some(204), None)], None),
        one(
            2,
            DeliveryState::Pending,
            1,
            "https://hooks.example:8443/done?…",
            vec![
                tried("2026-11-20T13:58:01Z", Some(503), Some("503 Service Unavailable: we are painting the walls")),
                tried("2026-11-20T14:00:01Z", None, Some("No connection: Connection refused (os error 111).")),
            ],
            Some("2026-11-20T14:09:00Z"),
        ),
        one(3, DeliveryState::Delivered, 2, payroll, vec![tried("2026-11-20T14:02:01Z", Some(200), None)], None),
        one(
            4,
            DeliveryState::Superseded,
            1,
            payroll,
            vec![tried("2026-11-20T13:58:01Z", Some(500), Some("500 Internal Server Error"))],
            None,
        ),
        one(
            5,
            DeliveryState::Failed,
            1,
            payroll,
            vec![tried("2026-11-20T13:58:01Z", Some(410), Some("410 Gone"))],
            None,
        ),
        one(
            6,
            DeliveryState::Abandoned,
            1,
            "http://old.example/",
            vec![tried("2026-11-20T13:58:01Z", Some(400), Some(&hostile)); 19],
            None,
        ),
        one(
            7,
            DeliveryState::Abandoned,
            1,
            "",
            vec![tried("2026-11-20T13:58:01Z", None, Some("The tree names no receiver any more."))],
            None,
        ),
        one(8, DeliveryState::Pending, 1, payroll, Vec::new(), Some("2026-11-20T14:03:07Z")),
    ]
}

/// Deliveries of a tree that was completed twice.
pub(crate) fn twice() -> Vec<CallbackDelivery> {
    deliveries().drain(2..4).collect()
}

pub(crate) fn all(add: &mut impl FnMut(&'static str, Draw)) {
    let list = |state: &str, all| Deliveries {
        state: state.to_owned(),
        all,
        next: Some("?".to_owned()),
        first: true,
        problem: None,
    };
    add("deliveries", Box::new(move || list_page(&list("", deliveries()))));
    add("deliveries-empty", Box::new(move || list_page(&list("", Vec::new()))));
    add("deliveries-nothing", Box::new(move || list_page(&list("failed", Vec::new()))));
    let one = |at: usize, own| DeliveryPageData {
        one: deliveries().remove(at),
        own,
        staff: true,
        open: false,
        refused: None,
        flash: None,
    };
    add(
        "delivery-pending",
        Box::new(move || page(&DeliveryPageData { flash: Some("resent".to_owned()), ..one(1, true) })),
    );
    add("delivery-given-up", Box::new(move || page(&DeliveryPageData { open: true, ..one(5, false) })));
    add("delivery-superseded", Box::new(move || page(&one(3, true))));
    add(
        "delivery-refused",
        Box::new(move || {
            let problem = Problem::new(Code::ReasonRequired, "This is somebody else's work: say why, as `reason`.");
            let refused = RefusedAction { action: "resend", problem, reason: String::new() };
            page(&DeliveryPageData { refused: Some(refused), ..one(4, false) })
        }),
    );
}
