//! The lock table of a server beside a model: for each byte, what each owner has.

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use thalweg_layout::locks::{Count, Family, Kind, Range, Refused};
use thalweg_partition::server::locks::{MOST_LOCKS, TURN, Table};
use thalweg_types::ErrorKind;

/// Bytes that the model knows; the last one stands for all that follow.
const BYTES: u64 = 12;
const OWNERS: u64 = 4;

#[derive(Debug, Clone)]
enum Step {
    Lock(u64, Family, Kind, Range),
    Release(u64),
    MakeCounter(u64, u64),
    Count(u64, Count),
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![Just(Kind::Shared), Just(Kind::Exclusive), Just(Kind::None)]
}

fn range() -> impl Strategy<Value = Range> {
    // A range that has the last byte has all that follow.
    let within = |start: u64, length: u64| if start + length < BYTES { length } else { 0 };
    (0..BYTES, 0..BYTES).prop_map(move |(start, length)| Range { start, length: within(start, length) })
}

fn step() -> impl Strategy<Value = Step> {
    let count = prop_oneof![Just(Count::Read), any::<u64>().prop_map(Count::Set), any::<u64>().prop_map(Count::Add)];
    let family = prop_oneof![3 => Just(Family::Ranges), 1 => Just(Family::Whole)];
    prop_oneof![
        12 => (0..OWNERS, family, kind(), range()).prop_map(|(o, f, k, r)| Step::Lock(o, f, k, r)),
        1 => (0..OWNERS).prop_map(Step::Release),
        1 => (0..OWNERS, 0..3u64).prop_map(|(o, key)| Step::MakeCounter(o, key)),
        2 => (0..3u64, count).prop_map(|(key, count)| Step::Count(key, count)),
    ]
}

fn of(range: Range) -> std::ops::Range<usize> {
    // A byte behind the model's last one is that one.
    range.start as usize..range.end().min(BYTES) as usize
}

/// What an owner has on each byte.
type Held = [Kind; BYTES as usize];

fn conflicts(model: &BTreeMap<u64, Held>, owner: u64, kind: Kind, range: Range) -> bool {
    model.iter().filter(|(other, _)| **other != owner).any(|(_, held)| {
        held[of(range)].iter().any(|held| match (kind, held) {
            (Kind::None, _) | (_, Kind::None) => false,
            (wanted, held) => wanted == Kind::Exclusive || *held == Kind::Exclusive,
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn a_table_grants_what_a_model_of_bytes_grants(steps in prop::collection::vec(step(), 1..80)) {
        let (mut table, now) = (Table::default(), Instant::now());
        let empty = || (0..OWNERS).map(|owner| (owner, [Kind::None; BYTES as usize])).collect::<BTreeMap<u64, Held>>();
        let (mut ranges, mut whole) = (empty(), empty());
        let mut counters: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Lock(owner, family, kind, range) => {
                    let model = if family == Family::Ranges { &mut ranges } else { &mut whole };
                    let range = if family == Family::Ranges { range } else { Range::ALL };
                    let refused = conflicts(model, owner, kind, range);
                    let got = table.lock(owner, (family, kind, range), now, false).unwrap();
                    prop_assert_eq!(got.is_some(), refused);
                    if let Some(Refused { met, .. }) = got {
                        // It is one that somebody has.
                        let is_held = |held: &Held| held[of(met.range)].iter().all(|held| *held == met.kind);
                        prop_assert!(model.iter().any(|(other, held)| *other != owner && is_held(held)), "{:?}", met);
                    } else if let Some(held) = model.get_mut(&owner) {
                        held[of(range)].fill(kind);
                    }
                }
                Step::Release(owner) => {
                    table.release(owner);
                    ranges.insert(owner, [Kind::None; BYTES as usize]);
                    whole.insert(owner, [Kind::None; BYTES as usize]);
                    counters.retain(|_, (of, _)| *of != owner);
                }
                Step::MakeCounter(owner, key) => {
                    let made = table.make_counter(owner, key);
                    prop_assert_eq!(made.is_err(), counters.contains_key(&key));
                    counters.entry(key).or_insert((owner, 0));
                }
                Step::Count(key, count) => match (table.count(key, count), counters.get_mut(&key)) {
                    (Ok(before), Some((_, value))) => {
                        prop_assert_eq!(before, *value);
                        *value = match count {
                            Count::Read => *value,
                            Count::Set(to) => to,
                            Count::Add(more) => value.checked_add(more).unwrap_or(u64::MAX),
                        };
                    }
                    (Err(e), None) => prop_assert_eq!(e.kind(), ErrorKind::PeerLost),
                    other => prop_assert!(false, "{:?}", other),
                },
            }
            // Neighbours of one owner and kind are one lock.
            let runs = |held: &Held| held.chunk_by(|a, b| a == b).filter(|run| run[0] != Kind::None).count();
            let locks: usize = ranges.values().chain(whole.values()).map(runs).sum();
            prop_assert_eq!(table.held(), (locks, counters.len()));
            for start in 0..BYTES {
                let byte = Range { start, length: if start + 1 == BYTES { 0 } else { 1 } };
                for (owner, kind) in (0..OWNERS).flat_map(|owner| [(owner, Kind::Shared), (owner, Kind::Exclusive)]) {
                    let wanted = conflicts(&ranges, owner, kind, byte);
                    prop_assert_eq!(table.test(owner, kind, byte).is_some(), wanted, "byte {}", start);
                }
            }
        }
    }
}

#[test]
fn a_full_table_refuses_locks_and_releases_them() {
    let (mut table, now) = (Table::default(), Instant::now());
    let byte = |n: usize| Range { start: 2 * n as u64, length: 1 };
    let mut taken = 0;
    let refused = loop {
        match table.lock(taken as u64, (Family::Ranges, Kind::Shared, byte(taken)), now, false) {
            Ok(None) => taken += 1,
            other => break other,
        }
    };
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::NoMemory);
    assert!(taken <= MOST_LOCKS && taken + 2 >= MOST_LOCKS, "{taken}");
    table.lock(0, (Family::Ranges, Kind::None, Range::ALL), now, false).unwrap();
    assert!(table.lock(0, (Family::Ranges, Kind::Shared, byte(0)), now, false).unwrap().is_none());
}

#[test]
fn a_lock_behind_the_largest_file_is_refused() {
    let range = Range { start: 1 << 63, length: 1 };
    let refused = Table::default().lock(1, (Family::Ranges, Kind::Shared, range), Instant::now(), false).unwrap_err();
    assert_eq!((refused.kind(), refused.place().byte), (ErrorKind::OutOfBounds, Some(1 << 63)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    /// Callers that have one lock at a time and ask again get it in the order in which they first asked, as far as they conflict.
    #[test]
    fn a_callers_turn_is_not_taken_by_those_who_asked_later(
        steps in prop::collection::vec((0..OWNERS, prop::bool::weighted(0.3), 0..BYTES - 1, any::<bool>(), 0..60u64), 1..120)
    ) {
        let (mut table, mut now) = (Table::default(), Instant::now());
        // What each owner waits for or has.
        let mut wants: BTreeMap<u64, (Kind, Range)> = BTreeMap::new();
        let mut held: BTreeMap<u64, (Kind, Range)> = BTreeMap::new();
        let mut line: Vec<(u64, Instant)> = Vec::new();
        let against = |one: (Kind, Range), other: (Kind, Range)| {
            let meets = one.1.start < other.1.end() && other.1.start < one.1.end();
            meets && (one.0 == Kind::Exclusive || other.0 == Kind::Exclusive)
        };
        for (owner, exclusive, start, release, passed) in steps {
            now += Duration::from_millis(passed);
            if release && let Some((_, range)) = held.remove(&owner) {
                prop_assert!(table.lock(owner, (Family::Ranges, Kind::None, range), now, true).unwrap().is_none());
                continue;
            }
            if held.contains_key(&owner) {
                continue;
            }
            let kind = if exclusive { Kind::Exclusive } else { Kind::Shared };
            let wanted = *wants.entry(owner).or_insert((kind, Range { start, length: 3 }));
            line.retain(|(_, asked)| now - *asked <= TURN);
            let place = line.iter().position(|(of, _)| *of == owner);
            let first: Vec<u64> = line[..place.unwrap_or(line.len())].iter().map(|(of, _)| *of).collect();
            let ahead = first.iter().filter(|of| against(wants[*of], wanted)).count();
            let meets = held.values().any(|other| against(*other, wanted));
            let got = table.lock(owner, (Family::Ranges, wanted.0, wanted.1), now, true).unwrap();
            prop_assert_eq!(got.is_some(), ahead > 0 || meets);
            match (got, place) {
                (Some(refused), place) => {
                    prop_assert_eq!(refused.ahead as usize, ahead);
                    match place {
                        Some(place) => line[place].1 = now,
                        None => line.push((owner, now)),
                    }
                }
                (None, place) => {
                    place.map(|place| line.remove(place));
                    held.extend(wants.remove(&owner).map(|wanted| (owner, wanted)));
                }
            }
        }
    }
}

#[test]
fn who_has_a_lock_or_does_not_ask_again_needs_no_turn() {
    let (mut table, now) = (Table::default(), Instant::now());
    let mut takes = |owner, kind, start, again| {
        let range = Range { start, length: 10 };
        table.lock(owner, (Family::Ranges, kind, range), now, again).unwrap().is_none()
    };
    assert!(takes(1, Kind::Shared, 0, true));
    assert!(!takes(2, Kind::Exclusive, 5, true), "it waits");
    assert!(!takes(3, Kind::Shared, 8, true), "its turn is behind that of 2");
    assert!(takes(4, Kind::Shared, 12, false), "it does not wait");
    assert!(takes(1, Kind::Exclusive, 0, true), "2 waits for a lock of 1");
    assert!(takes(4, Kind::None, 12, false) && takes(1, Kind::None, 0, false));
    assert!(!takes(3, Kind::Shared, 8, true));
    assert!(takes(2, Kind::Exclusive, 5, true), "its turn");
}
