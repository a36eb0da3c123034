//! Forged ledgers of a receiver: a clean one, and one for each kind of wrong callback.

use domain::{Counts, Outcome};

use super::*;
use crate::{
    checker::history::Delivery,
    receiver::{CallbackPayload, ReceivedCallback},
};

/// A tree with one callback, some time after it was complete.
fn with_callback() -> History {
    let mut history = clean("plain");
    for call in &mut history.calls {
        if let Request::Create { calls, .. } = &mut call.request {
            *calls = true;
        }
    }
    history.deliveries.push(delivery("one", 1, 2));
    history.received.push(received("one", 1));
    history
}

fn delivery(id: &str, completion: i32, state: i16) -> Delivery {
    Delivery { id: id.to_owned(), job_id: Uuid::from_u128(1), completion, state }
}

fn received(id: &str, completion: i32) -> ReceivedCallback {
    let counts = Counts { succeeded: 2, ..Counts::default() };
    ReceivedCallback {
        at_us: 40_000,
        port: 1,
        id: id.to_owned(),
        valid: true,
        hash: format!("body of {completion}"),
        payload: Some(CallbackPayload {
            job_id: Uuid::from_u128(1),
            completion,
            outcome: Some(Outcome::Succeeded),
            counts,
        }),
        response_status: 200,
    }
}

/// The same history, changed.
fn with(change: impl FnOnce(&mut History)) -> History {
    let mut history = with_callback();
    change(&mut history);
    history
}

#[track_caller]
fn clean_of(history: &History) -> Verdict {
    let verdict = rules::check(history);
    assert!(verdict.is_clean(), "{:?}", verdict.findings().collect::<Vec<_>>());
    verdict
}

#[test]
fn a_callback_delivered_once_or_repeated_under_one_id_is_clean() {
    let verdict = clean_of(&with_callback());
    assert_eq!((verdict.callbacks_delivered, verdict.callback_retries, verdict.undelivered), (1, 0, 0));
    let again =
        with(|history| history.received.push(ReceivedCallback { at_us: 50_000, port: 2, ..received("one", 1) }));
    assert_eq!(clean_of(&again).callback_retries, 1);
    // Without a callback target there is no callback.
    clean_of(&clean("plain"));
}

#[test]
fn a_callback_that_never_came_is_missing() {
    // The table says that it was delivered.
    only(&with(|history| history.received.clear()), Kind::CallbackMissing);
    // It came and was refused, and the table says that it was delivered.
    only(&with(|history| history.received[0].response_status = 503), Kind::CallbackMissing);
    // Nothing came, and nothing is to be delivered.
    let nothing = |history: &mut History| {
        history.received.clear();
        history.deliveries.clear();
    };
    only(&with(nothing), Kind::CallbackMissing);
    // Superseded by a completion that there was not.
    let superseded = |history: &mut History| {
        history.received.clear();
        history.deliveries[0].state = 5;
    };
    only(&with(superseded), Kind::CallbackMissing);
}

#[test]
fn what_stands_there_as_not_delivered_is_not_missing() {
    for state in [3, 4] {
        let visible = |history: &mut History| {
            history.received.clear();
            history.deliveries[0].state = state;
        };
        assert_eq!(clean_of(&with(visible)).undelivered, 1);
    }
}

#[test]
fn a_callback_that_is_pending_at_the_end_is_stuck() {
    let pending = |history: &mut History| {
        history.received.clear();
        history.deliveries[0].state = 1;
    };
    only(&with(pending), Kind::Stuck);
    // It came and was refused, and the next attempt is due.
    let refused = |history: &mut History| {
        history.received[0].response_status = 503;
        history.deliveries[0].state = 1;
    };
    only(&with(refused), Kind::Stuck);
}

#[test]
fn one_completion_has_one_id_and_one_id_one_completion() {
    only(&with(|history| history.received.push(received("two", 1))), Kind::CallbackIdChanged);
    // The table knows it under another.
    only(&with(|history| history.deliveries[0] = delivery("two", 1, 2)), Kind::CallbackIdChanged);
    // Complete once more is another event.
    let again = |id: &'static str| {
        with(move |history| {
            if let Some(root) = history.jobs.get_mut(&Uuid::from_u128(1)) {
                root.completion = 2;
            }
            history.deliveries.push(delivery(id, 2, 2));
            history.received.push(received(id, 2));
        })
    };
    assert_eq!(clean_of(&again("two")).callbacks_delivered, 2);
    assert_eq!(rules::check(&again("one")).count(Kind::CallbackIdChanged), 1);
}

#[test]
fn an_earlier_completion_is_delivered_or_superseded() {
    let again = |state| {
        with(move |history| {
            if let Some(root) = history.jobs.get_mut(&Uuid::from_u128(1)) {
                root.completion = 2;
            }
            history.deliveries = vec![delivery("one", 1, state), delivery("two", 2, 2)];
            history.received = vec![received("two", 2)];
        })
    };
    clean_of(&again(5));
    only(&again(2), Kind::CallbackMissing);
}

#[test]
fn a_wrong_signature_is_found() {
    let forged = || ReceivedCallback { valid: false, ..received("one", 1) };
    only(&with(|history| history.received.push(forged())), Kind::CallbackUnsigned);
    // Who was told by someone else was not told.
    let verdict = rules::check(&with(|history| history.received = vec![forged()]));
    assert_eq!((verdict.count(Kind::CallbackMissing), verdict.count(Kind::CallbackUnsigned)), (1, 1));
}

#[test]
fn a_callback_before_its_time_is_found() {
    // Before the last item was over.
    only(&with(|history| history.received[0].at_us = 5_000), Kind::CallbackEarly);
    // Before the tree was complete.
    only(&with(|history| history.received[0].at_us = 20_000), Kind::CallbackEarly);
    // Of a completion that there was not.
    only(&with(|history| history.received.push(received("two", 2))), Kind::CallbackEarly);
}

#[test]
fn a_callback_that_says_what_is_not_so_is_found() {
    let says =
        |change: fn(&mut CallbackPayload)| with(|history| history.received[0].payload.iter_mut().for_each(change));
    only(&says(|payload| payload.outcome = Some(Outcome::Partial)), Kind::CallbackWrong);
    only(&says(|payload| payload.counts.dead = 1), Kind::CallbackWrong);
    let verdict = rules::check(&says(|payload| payload.job_id = Uuid::from_u128(9)));
    assert_eq!(verdict.count(Kind::CallbackWrong), 1, "there is no such tree");
    only(
        &with(|history| history.received.push(ReceivedCallback { payload: None, ..received("one", 1) })),
        Kind::CallbackWrong,
    );
    let other = || ReceivedCallback { hash: "another body".to_owned(), ..received("one", 1) };
    only(&with(|history| history.received.push(other())), Kind::CallbackWrong);
}
