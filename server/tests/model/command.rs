//! Commands of a sequence, and their generator.
//!
//! Commands refer to objects by number, modulo the number that exist when they run, so that a sequence stays meaningful
//! if some commands are left out. Nothing here knows the correct results.

use proptest::{collection::vec, option, prelude::*, sample::Index};

/// Job types of a sequence: 0 has steps and three failures, 1 and 2 are plain, 3 is at most once.
pub(crate) const TYPES: usize = 4;
/// Maximum jobs of one tree.
const JOBS: usize = 5;

/// Tree to create; the first job is the root.
#[derive(Clone, Debug)]
pub(crate) struct NewTree {
    pub(crate) jobs: Vec<NewJob>,
    /// Dedupe key of the root.
    pub(crate) dedupe: Option<u8>,
}

/// Job of a new tree.
#[derive(Clone, Debug)]
pub(crate) struct NewJob {
    pub(crate) job_type: usize,
    /// Index of its parent among the jobs before it.
    pub(crate) parent: Index,
    pub(crate) feed: Option<Feed>,
    /// Jobs it waits for: any before it, rarely one after it.
    pub(crate) after: Vec<Index>,
    pub(crate) after_backwards: bool,
    pub(crate) after_any: bool,
    pub(crate) sealed: bool,
    pub(crate) max_failures: Option<u8>,
    pub(crate) items: Vec<NewItem>,
}

/// Feed of a job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Feed {
    pub(crate) each: bool,
    pub(crate) serialize_queue: Option<u8>,
    /// True if all its items have the same dedupe key: one is created, the others are duplicates.
    pub(crate) dedupe: bool,
}

/// Item that is added from outside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewItem {
    pub(crate) serialize_queue: Option<u8>,
    pub(crate) dedupe: Option<u8>,
    pub(crate) priority: i16,
    /// True if its run_after is a day ahead.
    pub(crate) later: bool,
    /// True if its expires_at has passed.
    pub(crate) stale: bool,
    /// Debounce key, with a pause of a week. Excludes `dedupe` and `later`.
    pub(crate) debounce: Option<u8>,
}

/// Assignment: an open one, or any.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pick {
    pub(crate) at: Index,
    pub(crate) any: bool,
}

/// Ending sent by a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// With a list of this length, or without one.
    Result(Option<u8>),
    Failure {
        retryable: bool,
        later: bool,
        cancel_tree: bool,
    },
    Release {
        later: bool,
    },
    /// Waits for an event without a timeout, or with a day.
    Wait {
        later: bool,
    },
}

/// Single action.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    Create(NewTree),
    Add {
        job: Index,
        items: Vec<NewItem>,
        seal: bool,
        skip: bool,
    },
    Seal(Index),
    Claim {
        types: u8,
        max: u8,
    },
    End(Pick, Ending),
    Finish {
        ends: Vec<(Index, Ending)>,
        claim: Option<(u8, u8)>,
    },
    Step {
        of: Pick,
        step: u8,
        data: u8,
    },
    Heartbeat {
        of: Pick,
        progress: bool,
    },
    CancelJob(Index),
    CancelItem(Index),
    /// Sends an item the event that every wait names, with this number as its data, or another one.
    Event {
        item: Index,
        data: u8,
        other: bool,
    },
    Retry {
        item: Index,
        restart: bool,
        renew: bool,
    },
    Pause(u8),
    Resume(u8),
    Cap(u8, Option<u8>),
    /// Deletes a tree.
    Delete(Index),
}

/// Generates sequences: at least one tree, and actions on it.
pub(crate) fn sequences() -> impl Strategy<Value = Vec<Command>> {
    (tree(), vec(command(), 5..40)).prop_map(|(first, mut rest)| {
        rest.insert(0, Command::Create(first));
        rest
    })
}

fn command() -> impl Strategy<Value = Command> {
    let at = || any::<Index>();
    let kind = || 0..TYPES as u8;
    prop_oneof![
        1 => tree().prop_map(Command::Create),
        3 => (at(), vec(item(), 1..4), prop::bool::weighted(0.3), any::<bool>())
            .prop_map(|(job, items, seal, skip)| Command::Add { job, items, seal, skip }),
        3 => at().prop_map(Command::Seal),
        10 => (1..16_u8, 1..6_u8).prop_map(|(types, max)| Command::Claim { types, max }),
        14 => (pick(), ending()).prop_map(|(of, ending)| Command::End(of, ending)),
        4 => (vec((at(), ending()), 1..4), option::of((1..16_u8, 1..5_u8)))
            .prop_map(|(ends, claim)| Command::Finish { ends, claim }),
        2 => (pick(), 0..4_u8, 0..2_u8).prop_map(|(of, step, data)| Command::Step { of, step, data }),
        1 => (pick(), any::<bool>()).prop_map(|(of, progress)| Command::Heartbeat { of, progress }),
        2 => at().prop_map(Command::CancelJob),
        3 => at().prop_map(Command::CancelItem),
        6 => (at(), any::<u8>(), prop::bool::weighted(0.1))
            .prop_map(|(item, data, other)| Command::Event { item, data, other }),
        7 => (at(), any::<bool>(), prop::bool::weighted(0.7))
            .prop_map(|(item, restart, renew)| Command::Retry { item, restart, renew }),
        1 => kind().prop_map(Command::Pause),
        2 => kind().prop_map(Command::Resume),
        1 => (kind(), option::of(0..2_u8)).prop_map(|(kind, cap)| Command::Cap(kind, cap)),
        1 => kind().prop_map(|kind| Command::Cap(kind, None)),
        1 => at().prop_map(Command::Delete),
    ]
}

fn pick() -> impl Strategy<Value = Pick> {
    (any::<Index>(), prop::bool::weighted(0.12)).prop_map(|(at, any)| Pick { at, any })
}

fn ending() -> impl Strategy<Value = Ending> {
    prop_oneof![
        8 => option::weighted(0.85, 0..4_u8).prop_map(Ending::Result),
        6 => (prop::bool::weighted(0.5), prop::bool::weighted(0.3), prop::bool::weighted(0.06))
            .prop_map(|(retryable, later, cancel_tree)| Ending::Failure { retryable, later, cancel_tree }),
        1 => prop::bool::weighted(0.3).prop_map(|later| Ending::Release { later }),
        3 => any::<bool>().prop_map(|later| Ending::Wait { later }),
    ]
}

fn tree() -> impl Strategy<Value = NewTree> {
    (vec(job(), 1..=JOBS), option::weighted(0.1, 0..2_u8)).prop_map(|(jobs, dedupe)| NewTree { jobs, dedupe })
}

fn job() -> impl Strategy<Value = NewJob> {
    let feed = (any::<bool>(), option::weighted(0.25, 0..2_u8), prop::bool::weighted(0.1))
        .prop_map(|(each, serialize_queue, dedupe)| Feed { each, serialize_queue, dedupe });
    let place = (0..TYPES, any::<Index>(), option::weighted(0.5, feed));
    let after = (
        prop_oneof![3 => Just(0), 2 => Just(1), 1 => Just(2)].prop_flat_map(|n| vec(any::<Index>(), n)),
        prop::bool::weighted(0.04),
        prop::bool::weighted(0.3),
    );
    let rest = (prop::bool::weighted(0.6), option::weighted(0.4, 1..4_u8), vec(item(), 0..4));
    (place, after, rest).prop_map(
        |((job_type, parent, feed), (after, after_backwards, after_any), (sealed, max_failures, items))| NewJob {
            job_type,
            parent,
            feed,
            after,
            after_backwards,
            after_any,
            sealed,
            max_failures,
            items,
        },
    )
}

fn item() -> impl Strategy<Value = NewItem> {
    (
        option::weighted(0.35, 0..2_u8),
        option::weighted(0.15, 0..3_u8),
        prop_oneof![6 => Just(0), 1 => Just(5), 1 => Just(-5)],
        prop::bool::weighted(0.08),
        prop::bool::weighted(0.03),
        option::weighted(0.2, 0..2_u8),
    )
        .prop_map(|(serialize_queue, dedupe, priority, later, stale, debounce)| NewItem {
            serialize_queue,
            dedupe: dedupe.filter(|_| debounce.is_none()),
            priority,
            later: later && debounce.is_none(),
            stale,
            debounce,
        })
}
