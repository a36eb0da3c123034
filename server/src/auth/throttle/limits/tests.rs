//! Counters over time: delays, effects of strangers on others, number of codes that can be guessed, and full memory.

use super::*;

fn from(n: u8) -> IpAddr {
    IpAddr::from([203, 0, 113, n])
}

#[test]
fn delays_grow_and_failures_are_forgiven() {
    let attempts = Attempts::default();
    let (start, here) = (Instant::now(), Key::of_password("ada@example.com", Some(from(1))));
    for _ in 0..10 {
        attempts.begin(&here, start).expect("still free");
    }
    let mut now = start;
    for expected in [5, 10, 20, 40] {
        let wait = attempts.begin(&here, now).expect_err("too often");
        assert_eq!(wait.as_secs().max(1), expected, "{wait:?}");
        now += wait;
        attempts.begin(&here, now).expect("has waited");
    }
    let day = now + Duration::from_hours(24);
    for _ in 0..10 {
        attempts.begin(&here, day).expect("forgiven");
    }
}

#[test]
fn strangers_elsewhere_lock_nobody_out() {
    let attempts = Attempts::default();
    let now = Instant::now();
    for n in 0..250 {
        for _ in 0..10 {
            let _ = attempts.begin(&Key::of_password("ada@example.com", Some(from(n))), now);
        }
    }
    let fresh = Key::of_password("ADA@example.com", Some(from(255)));
    for _ in 0..3 {
        attempts.begin(&fresh, now).expect("a fresh address always has a few tries");
    }
    attempts.begin(&fresh, now).expect_err("and fewer than usual");
    attempts.begin(&Key::of_device_or_session("device 1"), now).expect("a known device is counted apart");
    attempts.begin(&Key::of_link(Some(from(1))), now).expect("so are links");
}

#[test]
fn successful_attempts_cost_nothing() {
    let attempts = Attempts::default();
    let (now, here) = (Instant::now(), Key::of_password("ada@example.com", Some(from(1))));
    for _ in 0..200 {
        attempts.begin(&here, now).expect("never too often");
        attempts.succeeded(&here);
    }
}

#[test]
fn an_ipv6_network_counts_as_one_address() {
    let one = |text: &str| Key::of_link(Some(text.parse().expect("an address")));
    assert_eq!(one("2001:db8:1:2::1"), one("2001:db8:1:2:ffff::9"));
    assert_ne!(one("2001:db8:1:2::1"), one("2001:db8:1:3::1"));
    assert_eq!(one("::ffff:192.0.2.1"), one("192.0.2.1"));
}

#[test]
fn a_full_memory_forgets_the_oldest() {
    let attempts = Attempts::default();
    let start = Instant::now();
    let (old, young) = (Key::of_device_or_session("old"), Key::of_device_or_session("young"));
    for _ in 0..10 {
        attempts.begin(&old, start).expect("still free");
    }
    for n in 0..MAX_COUNTERS as u64 {
        attempts
            .begin(&Key::of_device_or_session(&n.to_string()), start + Duration::from_millis(n / 50))
            .expect("free");
        if n == 40_000 {
            (0..10).for_each(|_| attempts.begin(&young, start + Duration::from_millis(801)).expect("free"));
        }
    }
    assert!(attempts.len() <= MAX_COUNTERS, "{}", attempts.len());
    let now = start + Duration::from_millis(1_001);
    attempts.begin(&old, now).expect("forgotten");
    attempts.begin(&young, now).expect_err("remembered");
}

/// Bound computed in docs/identity.md: three of a million codes are valid at any moment.
#[test]
fn someone_with_the_password_can_try_few_codes_from_any_number_of_addresses() {
    let tried = |addresses: u8, device: Option<&str>, hours: u64, every: usize| {
        let attempts = Attempts::default();
        let keys = |n| Key::of_code("password ada", Some(from(n)), device);
        let all: Vec<Vec<Key>> = (0..addresses).map(keys).collect();
        let (start, mut tries) = (Instant::now(), 0_u32);
        for second in (0..hours * 3_600).step_by(every) {
            let now = start + Duration::from_secs(second);
            for keys in &all {
                while attempts.begin(keys, now).is_ok() {
                    tries += 1;
                }
            }
        }
        let (owner, now) = (Key::of_code("password ada", Some(from(255)), None), start + Duration::from_hours(hours));
        (tries, attempts.begin(&owner, now).is_ok())
    };
    assert_eq!(tried(40, None, 3, 5), (41, false));
    let (days, _) = tried(8, None, 10 * 24, 60);
    assert!((41..=41 + 10 * 12).contains(&days), "{days}");
    // One address alone leaves free attempts for all others.
    let (alone, owner_gets_in) = tried(1, None, 10 * 24, 60);
    assert!(alone <= 16 + 10 * 12 && owner_gets_in, "{alone}");
    let (device, owner_gets_in) = tried(1, Some("device"), 10 * 24, 60);
    assert!(device <= 21 + 10 * 12 && owner_gets_in, "{device}");
}

#[test]
fn failures_on_other_servers_count_here() {
    let attempts = Attempts::default();
    let (now, keys) = (Instant::now(), Key::of_device_or_session("device 1"));
    attempts.learn(keys[0], 12.0, Duration::from_secs(1), now);
    let wait = attempts.begin(&keys, now).expect_err("too often elsewhere");
    assert_eq!(wait, Duration::from_secs(19));
    attempts.learn(keys[0], 2.0, Duration::from_secs(1), now);
    attempts.begin(&keys, now).expect_err("the larger number counts");
}
