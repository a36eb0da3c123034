//! Forged ledgers of a receiver: a clean one, and one for each kind of wrong callback.

use domain::{Counts, Outcome};

use super::*;
use crate::{
    checker::history::Delivery,
    receiver::{Heard, Told},
};

/// A tree with one callback, some time after it was complete.
fn told() -> History {
    let mut history = clean("plain");
    for call in &mut history.calls {
        if let What::Create { calls, .. } = &mut call.what {
            *calls = true;
        }
    }
    history.deliveries.push(delivery("one", 1, 2));
    history.heard.push(heard("one", 1));
    history
}

fn delivery(id: &str, completion: i32, state: i16) -> Delivery {
    Delivery { id: id.to_owned(), job_id: Uuid::from_u128(1), completion, state }
}

fn heard(id: &str, completion: i32) -> Heard {
    let counts = Counts { succeeded: 2, ..Counts::default() };
    Heard {
        at_us: 40_000,
        port: 1,
        id: id.to_owned(),
        valid: true,
        hash: format!("body of {completion}"),
        told: Some(Told { job_id: Uuid::from_u128(1), completion, outcome: Some(Outcome::Succeeded), counts }),
        answered: 200,
    }
}

/// The same history, changed.
fn with(change: impl FnOnce(&mut History)) -> History {
    let mut history = told();
    change(&mut history);
    history
}

#[track_caller]
fn clean_of(history: &History) -> Verdict {
    let verdict = rules::judge(history);
    assert!(verdict.is_clean(), "{:?}", verdict.findings().collect::<Vec<_>>());
    verdict
}

#[test]
fn who_is_told_once_or_again_under_one_id_is_told() {
    let verdict = clean_of(&told());
    assert_eq!((verdict.told, verdict.told_again, verdict.undelivered), (1, 0, 0));
    let again = with(|history| history.heard.push(Heard { at_us: 50_000, port: 2, ..heard("one", 1) }));
    assert_eq!(clean_of(&again).told_again, 1);
    // Without a callback target there is no callback.
    clean_of(&clean("plain"));
}

#[test]
fn a_callback_that_never_came_is_missing() {
    // The table says that it was delivered.
    only(&with(|history| history.heard.clear()), Kind::Untold);
    // It came and was refused, and the table says that it was delivered.
    only(&with(|history| history.heard[0].answered = 503), Kind::Untold);
    // Nothing came, and nothing is to be delivered.
    let nothing = |history: &mut History| {
        history.heard.clear();
        history.deliveries.clear();
    };
    only(&with(nothing), Kind::Untold);
    // Superseded by a completion that there was not.
    let superseded = |history: &mut History| {
        history.heard.clear();
        history.deliveries[0].state = 5;
    };
    only(&with(superseded), Kind::Untold);
}

#[test]
fn what_stands_there_as_not_delivered_is_not_missing() {
    for state in [1, 3, 4] {
        let visible = |history: &mut History| {
            history.heard.clear();
            history.deliveries[0].state = state;
        };
        assert_eq!(clean_of(&with(visible)).undelivered, 1);
    }
}

#[test]
fn one_completion_has_one_id_and_one_id_one_completion() {
    only(&with(|history| history.heard.push(heard("two", 1))), Kind::OtherId);
    // The table knows it under another.
    only(&with(|history| history.deliveries[0] = delivery("two", 1, 2)), Kind::OtherId);
    // Complete once more is another event.
    let again = |id: &'static str| {
        with(move |history| {
            if let Some(root) = history.jobs.get_mut(&Uuid::from_u128(1)) {
                root.completion = 2;
            }
            history.deliveries.push(delivery(id, 2, 2));
            history.heard.push(heard(id, 2));
        })
    };
    assert_eq!(clean_of(&again("two")).told, 2);
    assert_eq!(rules::judge(&again("one")).count(Kind::OtherId), 1);
}

#[test]
fn an_earlier_completion_is_told_or_superseded() {
    let again = |state| {
        with(move |history| {
            if let Some(root) = history.jobs.get_mut(&Uuid::from_u128(1)) {
                root.completion = 2;
            }
            history.deliveries = vec![delivery("one", 1, state), delivery("two", 2, 2)];
            history.heard = vec![heard("two", 2)];
        })
    };
    clean_of(&again(5));
    only(&again(2), Kind::Untold);
}

#[test]
fn a_wrong_signature_is_found() {
    let forged = || Heard { valid: false, ..heard("one", 1) };
    only(&with(|history| history.heard.push(forged())), Kind::Unsigned);
    // Who was told by someone else was not told.
    let verdict = rules::judge(&with(|history| history.heard = vec![forged()]));
    assert_eq!((verdict.count(Kind::Untold), verdict.count(Kind::Unsigned)), (1, 1));
}

#[test]
fn a_callback_before_its_time_is_found() {
    // Before the last item was over.
    only(&with(|history| history.heard[0].at_us = 5_000), Kind::TooSoon);
    // Before the tree was complete.
    only(&with(|history| history.heard[0].at_us = 20_000), Kind::TooSoon);
    // Of a completion that there was not.
    only(&with(|history| history.heard.push(heard("two", 2))), Kind::TooSoon);
}

#[test]
fn a_callback_that_says_what_is_not_so_is_found() {
    let says = |change: fn(&mut Told)| with(|history| history.heard[0].told.iter_mut().for_each(change));
    only(&says(|told| told.outcome = Some(Outcome::Partial)), Kind::Untrue);
    only(&says(|told| told.counts.dead = 1), Kind::Untrue);
    let verdict = rules::judge(&says(|told| told.job_id = Uuid::from_u128(9)));
    assert_eq!(verdict.count(Kind::Untrue), 1, "there is no such tree");
    only(&with(|history| history.heard.push(Heard { told: None, ..heard("one", 1) })), Kind::Untrue);
    let other = || Heard { hash: "another body".to_owned(), ..heard("one", 1) };
    only(&with(|history| history.heard.push(other())), Kind::Untrue);
}
