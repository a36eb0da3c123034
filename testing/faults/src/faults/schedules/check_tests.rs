//! Forged histories of one schedule: a clean one, and one that breaks each rule.

use domain::{api::CatchUp, id::Uuid};

use super::{
    check::{History, Report, Run, check},
    plan::Planned,
};

const MINUTE: i64 = 60;
/// 2026-10-25T00:57:00Z, three minutes before Berlin sets its clocks back.
const FROM: i64 = 1_792_889_820;

fn minutely(catch_up: CatchUp) -> Vec<Planned> {
    let planned = Planned::nth(0).expect("a schedule");
    assert_eq!((planned.cron.as_str(), planned.zone, planned.window), ("* * * * *", "Europe/Berlin", 600));
    vec![Planned { catch_up, ..planned }]
}

fn started(n: i64) -> Run {
    let tick = FROM + n * MINUTE;
    let job_id = Some(Uuid::from_u128(n as u128));
    Run { schedule: 0, tick, at: tick + 1, state: "started".to_owned(), reason: None, job_id }
}

/// The run for missed ticks from this minute on, written by the minute `at`.
fn missed(n: i64, at: i64) -> Run {
    let (state, reason) = ("skipped".to_owned(), Some("missed".to_owned()));
    Run { at: FROM + at * MINUTE, state, reason, job_id: None, ..started(n) }
}

/// Six minutes with these runs and their trees.
fn history(runs: Vec<Run>) -> History {
    let trees = runs.iter().filter_map(|run| run.job_id).collect();
    History { from: FROM, until: FROM + 5 * MINUTE, set_back: Vec::new(), runs, trees }
}

fn judge(catch_up: CatchUp, history: &History) -> [usize; 3] {
    let Report { lost, doubled, violations, .. } = check(&minutely(catch_up), history);
    [lost.len(), doubled.len(), violations.len()]
}

#[test]
fn a_clean_history_has_no_findings() {
    let clean = history((0..6).map(started).collect());
    assert_eq!(judge(CatchUp::None, &clean), [0, 0, 0]);
    let with_missed = history(vec![started(0), missed(1, 4), started(4), started(5)]);
    assert_eq!(judge(CatchUp::None, &with_missed), [0, 0, 0]);
}

#[test]
fn a_tick_without_a_run_is_lost() {
    for gone in 0..6 {
        let runs = (0..6).filter(|n| *n != gone).map(started).collect();
        assert_eq!(judge(CatchUp::None, &history(runs)), [1, 0, 0], "{gone}");
    }
    let mut without_tree = history((0..6).map(started).collect());
    without_tree.trees.remove(&Uuid::from_u128(3));
    assert_eq!(judge(CatchUp::None, &without_tree), [1, 0, 0]);
}

#[test]
fn a_second_run_or_tree_is_doubled() {
    let mut runs: Vec<Run> = (0..6).map(started).collect();
    runs.insert(3, Run { job_id: Some(Uuid::from_u128(9)), ..started(2) });
    assert_eq!(judge(CatchUp::None, &history(runs)), [0, 1, 0]);
    let mut more_trees = history((0..6).map(started).collect());
    more_trees.trees.insert(Uuid::from_u128(9));
    assert_eq!(judge(CatchUp::None, &more_trees), [0, 1, 0]);
}

#[test]
fn runs_against_the_policies_are_noticed() {
    // Skipped within five seconds, or although the policy makes up for it.
    let early = history(vec![
        started(0),
        Run { at: FROM + MINUTE + 2, ..missed(1, 1) },
        started(2),
        started(3),
        started(4),
        started(5),
    ]);
    assert_eq!(judge(CatchUp::None, &early), [0, 0, 1]);
    let window = history(vec![started(0), missed(1, 5), started(4), started(5)]);
    assert_eq!(judge(CatchUp::All, &window), [0, 0, 1]);
    assert_eq!(judge(CatchUp::Last, &window), [0, 0, 0]);
    let last = history(vec![started(0), Run { at: FROM + 4 * MINUTE + 30, ..missed(1, 4) }, started(5)]);
    assert_eq!(judge(CatchUp::Last, &last), [0, 0, 1]);
    // At no tick, failed, and before its tick.
    let other = Run { tick: FROM + 1, at: FROM + 2, job_id: Some(Uuid::from_u128(9)), ..started(0) };
    let mut runs: Vec<Run> = (0..6).map(started).collect();
    runs.insert(1, other);
    assert_eq!(judge(CatchUp::None, &history(runs)), [0, 0, 1]);
    let mut runs: Vec<Run> = (0..6).map(started).collect();
    runs[1] = Run { state: "failed".to_owned(), job_id: None, ..started(1) };
    assert_eq!(judge(CatchUp::None, &history(runs)), [0, 0, 1]);
    let mut runs: Vec<Run> = (0..6).map(started).collect();
    runs[1].at = FROM;
    let mut early = history(runs);
    assert_eq!(judge(CatchUp::None, &early), [0, 0, 1]);
    // Unless the clock was just set back.
    early.set_back.push(FROM - 1);
    assert_eq!(judge(CatchUp::None, &early), [0, 0, 0]);
}

#[test]
fn expected_ticks_follow_the_wall_clock() {
    let berlin = |cron: &str| super::wall_clock::WallClock::of(cron, "Europe/Berlin").expect("valid");
    let first_pass = FROM - 57 * MINUTE;
    let half_past_two = berlin("30 2 * * *");
    assert!(half_past_two.is_tick(first_pass + 30 * MINUTE));
    assert!(!half_past_two.is_tick(first_pass + 90 * MINUTE), "the second pass");
    assert!(berlin("30 * * * *").is_tick(first_pass + 90 * MINUTE), "elapsed time");
    // 2027-03-28T01:00:00Z: the clock skips the hour from two to three.
    let spring = 1_806_195_600;
    assert!(half_past_two.is_tick(spring));
    assert!(!half_past_two.is_tick(spring + 30 * MINUTE));
    assert!(!berlin("30 4 * * *").is_tick(spring));
    assert_eq!(half_past_two.last(first_pass, spring - 1), Some(spring - 86_400 + 30 * MINUTE));
}
