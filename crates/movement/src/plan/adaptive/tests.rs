use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

const EAGER: Params = Params { writers_per_target: 1, stuck: 2.0, patience: 0.0, copies: 3, align: 1 };

const MIB: u64 = 1 << 20;

/// Carries decisions out: targets write one byte after the other at their own speed, however many write at a time.
struct Bench {
    seconds_per_mib: Vec<f64>,
    /// Writes that fail: by how many a target carried out before.
    fails_behind: Vec<Option<u32>>,
    carried: Vec<u32>,
    /// A rank that gets a second order abandons its first write, which is then never reported.
    leaves: bool,
}

struct Ran {
    state: State,
    seconds: f64,
    places: Vec<(u32, u64, u64)>,
    lost: Vec<u32>,
}

impl Bench {
    fn new(seconds_per_mib: Vec<f64>) -> Bench {
        let n = seconds_per_mib.len();
        Bench { seconds_per_mib, fails_behind: vec![None; n], carried: vec![0; n], leaves: false }
    }

    fn run(&mut self, mut state: State, sizes: &[u64]) -> Ran {
        let mut waiting: Vec<(f64, u64, Event)> = vec![(0.0, 0, Event::Begin { now: 0.0 })];
        let (mut count, mut places, mut lost) = (0u64, Vec::new(), Vec::new());
        let mut seconds = 0.0;
        let (mut in_flight, mut first_copy) = (HashMap::new(), HashMap::new());
        while !waiting.is_empty() {
            let first = (0..waiting.len())
                .min_by(|a, b| waiting[*a].0.total_cmp(&waiting[*b].0).then(waiting[*a].1.cmp(&waiting[*b].1)));
            let (now, _, event) = waiting.swap_remove(first.unwrap());
            if let Event::Wrote { group, target, .. }
            | Event::Failed { group, target, .. }
            | Event::Left { group, target, .. } = event
            {
                let offset = in_flight.remove(&(group, target)).expect("the write was ordered");
                if let Event::Wrote { .. } = event {
                    first_copy.entry(group).or_insert(Rests { target, offset });
                }
            }
            let again = state.clone();
            let (then, decisions) = next(state, event);
            assert_eq!(next(again, event).1, decisions, "the same twice");
            state = then;
            for decision in decisions {
                count += 1;
                assert!(count < 1_000_000, "it ends");
                match decision {
                    Decision::Write { group, target, offset } => {
                        let (t, bytes) = (target as usize, sizes[group as usize]);
                        // Reports name the target alone, so that a group has one write in flight at each.
                        assert_eq!(in_flight.insert((group, target), offset), None, "group {group} twice at {target}");
                        let of = |event: &Event| match event {
                            Event::Wrote { group: g, target, .. } | Event::Failed { group: g, target, .. } => {
                                (*g == group).then_some(*target)
                            }
                            _ => None,
                        };
                        let before = waiting.iter().position(|(_, _, event)| of(event).is_some());
                        if let Some(before) = before.filter(|_| self.leaves) {
                            let target = of(&waiting.swap_remove(before).2).unwrap();
                            waiting.push((now, count, Event::Left { group, target, now }));
                            count += 1;
                        }
                        places.push((target, offset, bytes));
                        let end = now + bytes.max(1) as f64 / MIB as f64 * self.seconds_per_mib[t];
                        let fails = self.fails_behind[t].is_some_and(|n| self.carried[t] >= n);
                        self.carried[t] += 1;
                        waiting.push((
                            end,
                            count,
                            if fails {
                                Event::Failed { group, target, now: end }
                            } else {
                                Event::Wrote { group, target, now: end }
                            },
                        ));
                    }
                    Decision::Wake { at } => waiting.push((at, count, Event::Tick { now: at })),
                    Decision::Lost { group } => lost.push(group),
                    Decision::Done => seconds = now,
                }
            }
        }
        assert!(state.is_done());
        for (group, rests) in first_copy {
            assert_eq!(state.rests(group), Some(rests), "group {group}: the first copy that ended");
        }
        Ran { state, seconds, places, lost }
    }
}

fn ends_of(state: &State) -> Vec<u64> {
    (0..state.targets.len() as u32).map(|t| state.end(t)).collect()
}

#[test]
fn a_slow_target_is_tried_again_when_it_did_nothing_for_some_outputs() {
    let (sizes, state) = even(80, 8);
    let mut speeds = vec![1.0; 8];
    speeds[3] = 100.0;
    let mut bench = Bench::new(speeds);
    let mut ran = bench.run(state, &sizes);
    bench.seconds_per_mib[3] = 1.0;
    for output in 0.. {
        assert!(output < 12, "it is never tried");
        bench.carried.fill(0);
        let again = ran.state.clone().again(EAGER, sizes.clone(), &ends_of(&ran.state), &[]);
        ran = bench.run(again, &sizes);
        if bench.carried[3] > 0 {
            assert!(output > 1, "at once");
            break;
        }
    }
    let again = ran.state.clone().again(EAGER, sizes.clone(), &ends_of(&ran.state), &[]);
    assert!(bench.run(again, &sizes).seconds <= 11.0, "it carries its share");
}

#[test]
fn what_was_left_to_itself_says_how_slow_its_target_is() {
    let (sizes, state) = even(80, 8);
    let (state, _) = next(state, Event::Begin { now: 0.0 });
    let late = [Late { target: 3, bytes: MIB, seconds: 50.0, landed: false }];
    let mut bench = Bench::new(vec![1.0; 8]);
    let ran = bench.run(state.again(EAGER, sizes.clone(), &[], &late), &sizes);
    assert_eq!((bench.carried[3], ran.lost.len()), (0, 0));
    // Left to itself at a target and failing at all others, a group is lost and not waited for.
    let (_, state) = even(1, 2);
    let (state, first) = next(state, Event::Begin { now: 0.0 });
    assert_eq!(first, [Decision::Write { group: 0, target: 0, offset: 0 }]);
    let (state, _) = next(state, Event::Left { group: 0, target: 0, now: 1.0 });
    let (state, _) = next(state, Event::Broken { group: 0, now: 2.0 });
    assert!(state.is_done() && state.rests(0).is_none());
}

fn homes(groups: usize, targets: u32) -> Vec<u32> {
    (0..groups as u32).map(|group| group % targets).collect()
}

fn even(groups: usize, targets: u32) -> (Vec<u64>, State) {
    let sizes = vec![MIB; groups];
    let state = State::new(EAGER, sizes.clone(), &homes(groups, targets), targets, &[]);
    (sizes, state)
}

#[test]
fn where_all_are_equal_the_plan_is_kept() {
    let (sizes, state) = even(80, 8);
    let ran = Bench::new(vec![1.0; 8]).run(state, &sizes);
    assert_eq!(ran.seconds, 10.0);
    assert_eq!((ran.state.moved(), ran.state.dead_bytes()), (0, 0));
    assert!((0..80).all(|g| ran.state.rests(g) == Some(Rests { target: g % 8, offset: u64::from(g / 8) * MIB })));
}

#[test]
fn one_of_eight_targets_a_hundred_times_slower_costs_less_than_half_the_time() {
    let (sizes, state) = even(80, 8);
    let mut speeds = vec![1.0; 8];
    speeds[3] = 100.0;
    let mut bench = Bench::new(speeds);
    let ran = bench.run(state, &sizes);
    assert!(ran.seconds < 15.0, "{} s", ran.seconds);
    assert_eq!((ran.state.moved(), ran.state.dead_bytes()), (10, 2 * MIB));
    // What was learnt helps the next output: nothing begins there, nothing is written twice.
    bench.carried.fill(0);
    let ran = bench.run(ran.state.clone().again(EAGER, sizes.clone(), &ends_of(&ran.state), &[]), &sizes);
    assert!(ran.seconds <= 12.0, "{} s", ran.seconds);
    assert_eq!((bench.carried[3], ran.state.dead_bytes()), (0, 0));
}

#[test]
fn a_target_that_fails_loses_no_group_as_long_as_there_is_another() {
    let (sizes, state) = even(20, 2);
    let mut bench = Bench::new(vec![1.0; 2]);
    bench.fails_behind[1] = Some(3);
    let ran = bench.run(state, &sizes);
    assert!(ran.lost.is_empty());
    assert_eq!((0..20).filter(|g| ran.state.rests(*g).unwrap().target == 1).count(), 3);
}

#[test]
fn where_every_target_fails_what_was_not_written_is_named() {
    let (sizes, state) = even(20, 2);
    let mut bench = Bench::new(vec![1.0; 2]);
    bench.fails_behind = vec![Some(3), Some(2)];
    let ran = bench.run(state, &sizes);
    assert_eq!(ran.lost.len(), 15);
    assert!(ran.lost.iter().all(|g| ran.state.rests(*g).is_none()));
}

proptest! {
    #[test]
    fn every_group_rests_once_and_no_two_places_meet(
        sizes in prop::collection::vec(0u64..4 * MIB, 0..120),
        speeds in prop::collection::vec(prop_oneof![4 => 0.5f64..2.0, 1 => 10.0f64..200.0], 1..12),
        fails in prop::collection::vec(prop::option::weighted(0.2, 0u32..5), 12),
        writers in 0u32..4,
        align in prop_oneof![Just(0u64), Just(1), Just(65536)],
        end in 0u64..1000,
        leaves in any::<bool>(),
        stuck in prop_oneof![Just(1.0), Just(2.0)],
    ) {
        let targets = speeds.len() as u32;
        let params = Params { writers_per_target: writers, stuck, align, ..EAGER };
        let ends = vec![end; speeds.len()];
        let state = State::new(params, sizes.clone(), &homes(sizes.len(), targets), targets, &ends);
        let mut bench = Bench::new(speeds);
        bench.fails_behind = fails[..targets as usize].to_vec();
        bench.leaves = leaves;
        let mut ran = bench.run(state, &sizes);
        for output in 0..2 {
            let all_failed = bench.fails_behind.iter().all(Option::is_some);
            prop_assert!(ran.lost.is_empty() || all_failed);
            let mut by_target: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
            for (target, offset, bytes) in &ran.places {
                prop_assert_eq!(offset % align.max(1), 0);
                prop_assert!(*offset >= end);
                by_target.entry(*target).or_default().push((*offset, *bytes));
            }
            for places in by_target.values_mut() {
                places.sort();
                prop_assert!(places.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0));
            }
            for group in 0..sizes.len() as u32 {
                let lost = ran.lost.contains(&group);
                match ran.state.rests(group) {
                    Some(rests) => {
                        prop_assert!(!lost);
                        prop_assert!(ran.places.contains(&(rests.target, rests.offset, sizes[group as usize])));
                    }
                    None => prop_assert!(lost),
                }
            }
            if output == 0 {
                let before = ran.places.clone();
                ran = bench.run(ran.state.clone().again(params, sizes.clone(), &ends_of(&ran.state), &[]), &sizes);
                ran.places.extend(before);
            }
        }
    }

    #[test]
    fn no_target_has_more_writers_than_may(
        groups in 1usize..100, targets in 1u32..8, writers in 1u32..4, steps in prop::collection::vec(any::<prop::sample::Index>(), 200),
    ) {
        let params = Params { writers_per_target: writers, ..EAGER };
        let state = State::new(params, vec![MIB; groups], &homes(groups, targets), targets, &[]);
        let mut under_way = Vec::new();
        let mut now = 0.0;
        let (mut state, mut decisions) = next(state, Event::Begin { now });
        for step in &steps {
            for decision in &decisions {
                if let Decision::Write { group, target, .. } = decision {
                    under_way.push((*group, *target));
                }
            }
            prop_assert!((0..targets).all(|t| state.writing(t) <= writers));
            now += 1.0;
            if under_way.is_empty() {
                break;
            }
            // Any write may end next; a look at stuck ones comes at any time.
            let (group, target) = under_way.swap_remove(step.index(under_way.len()));
            let (then, mut more) = next(state, Event::Wrote { group, target, now });
            let (then, looked) = next(then, Event::Tick { now });
            more.extend(looked);
            (state, decisions) = (then, more);
        }
    }
}
