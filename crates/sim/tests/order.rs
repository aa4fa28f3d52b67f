//! Whatever the machine and the method: every rank's bytes come to rest, in turn, no faster than the machine is.

use proptest::prelude::*;
use std::collections::HashMap;
use thalweg_sim::methods::METHODS;
use thalweg_sim::{Job, Machine, Outcome, parameters, run};

fn output(machine: &Machine, method: &str, ranks: u32, size: u64, text: &str, seed: u64) -> Outcome {
    let parameters = parameters(text).unwrap();
    run(machine, &Job { method: method.into(), ranks, size, parameters, seed }).unwrap()
}

/// Most writes at a target at a time; those that end and begin in one moment don't meet.
fn most_at_a_time(outcome: &Outcome) -> usize {
    let mut by_target: HashMap<u32, Vec<(f32, i32)>> = HashMap::new();
    for times in &outcome.times {
        let of = by_target.entry(times.target).or_default();
        of.push((times.began, 1));
        of.push((times.ended, -1));
    }
    let mut most = 0;
    for mut moments in by_target.into_values() {
        moments.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut now = 0;
        for (_, change) in moments {
            now += change;
            most = most.max(now);
        }
    }
    most as usize
}

#[test]
fn no_more_ranks_write_to_a_target_at_a_time_than_their_turns_allow() {
    let machine = Machine::shipped("jaguarpf-xt5").unwrap();
    for writers in [1, 2, 5] {
        let params = format!("writers_per_target={writers}");
        let outcome = output(&machine, "MPI_SCHEDULED", 10_000, 64 << 20, &params, 1);
        assert_eq!(most_at_a_time(&outcome), writers as usize);
    }
    let free = output(&machine, "POSIX", 10_000, 64 << 20, "", 1);
    assert_eq!(most_at_a_time(&free), 10_000_usize.div_ceil(672));
}

#[test]
fn ranks_of_a_file_open_one_after_the_other() {
    let machine = Machine::shipped("jaguarpf-xt5").unwrap();
    let outcome = output(&machine, "MPI_SCHEDULED", 1000, 1 << 20, "num_files=10", 1);
    for rank in 10..1000 {
        assert!(outcome.times[rank].opened > outcome.times[rank - 10].opened);
    }
    // The first of a file opens behind the first of the file before.
    assert!((1..10).all(|rank| outcome.times[rank].opened > outcome.times[rank - 1].opened));
}

#[test]
fn the_same_seed_gives_the_same_seconds_and_another_one_others() {
    let machine = Machine::shipped("jaguarpf-xt5").unwrap();
    for method in METHODS {
        let one = |seed| output(&machine, method, 2000, 64 << 20, "", seed);
        assert_eq!(one(5).times, one(5).times, "{method}");
        assert_eq!(one(5).seconds, one(5).seconds);
        assert!(method == "NULL" || one(5).seconds != one(6).seconds, "{method}");
    }
}

#[test]
fn load_of_others_and_seeks_cost_what_they_take() {
    let mut machine = Machine::shipped("jaguarpf-xt5").unwrap();
    machine.noise.stalled_share.0 = 0.0;
    machine.noise.jitter.0 = 0.0;
    let (one, two) = ("writers_per_target=1", "writers_per_target=2");
    let bandwidth =
        |machine: &Machine, params| output(machine, "MPI_SCHEDULED", 672 * 20, 768 << 20, params, 1).bandwidth();
    let quiet = bandwidth(&machine, one);
    // Two writers: half of all runs of 8 MiB follow a seek of 8 ms.
    let seeks = 0.008 * (110e9 / 672.0) / f64::from(8 << 20) / 2.0;
    assert!((quiet / bandwidth(&machine, two) - 1.0 - seeks).abs() < 0.01);
    machine.background.share.0 = 0.2;
    // The most loaded target has twice the average.
    let loaded = bandwidth(&machine, one) / quiet;
    assert!((0.59..0.63).contains(&loaded), "{loaded}");
}

#[test]
fn what_does_not_fit_the_memory_is_said() {
    let machine = Machine::shipped("jaguarpf-xt5").unwrap();
    let outcome = output(&machine, "MPI", 10, 3 << 30, "", 1);
    assert_eq!(outcome.remarks, ["a rank needs 3.00 GiB and has 2"]);
}

#[test]
fn a_job_that_makes_no_sense_is_refused() {
    let machine = Machine::shipped("jaguarpf-xt5").unwrap();
    let job = |method: &str, ranks, size| Job {
        method: method.into(),
        ranks,
        size,
        parameters: parameters("").unwrap(),
        seed: 1,
    };
    for (wrong, says) in [
        (job("MPI_FAST", 1, 1), "MPI_FAST"),
        (job("MPI", 0, 1), "0 ranks"),
        (job("MPI", 10_000_001, 1), "10000001 ranks"),
        (job("MPI", 1_000_000, 1 << 60), "exceed the largest offset"),
        (job("MPI_SCHEDULED", 1_000_000, 1 << 60), "do not fit"),
        (job("MPI_COLLECTIVE", 1_000_000, 1 << 60), "exceed the largest offset"),
        (job("ADAPTIVE", 1_000_000, 1 << 60), "do not fit"),
    ] {
        let error = run(&machine, &wrong).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn every_rank_comes_to_rest_and_nothing_is_faster_than_the_machine(
        method in prop::sample::select(&METHODS[1..]),
        ranks in 1u32..3000,
        size in prop_oneof![Just(0u64), 1u64..1 << 20, 1u64..1 << 30],
        targets in 1u32..100,
        per_file in 1u32..200,
        slow in 0.0f64..0.5,
        background in 0.0f64..0.4,
        writers in prop::option::of(1u32..6),
        files in prop::option::of(1u32..150),
        seed in any::<u64>(),
    ) {
        let mut machine = Machine::shipped("jaguarpf-xt5").unwrap();
        machine.targets.count.0 = targets;
        machine.targets.per_file.0 = per_file;
        machine.slow.share.0 = slow;
        machine.background.share.0 = background;
        let writers = writers.map_or(String::new(), |n| format!("writers_per_target={n};"));
        let files = files.map_or(String::new(), |n| format!("num_files={n};aggregators={n}"));
        let outcome = output(&machine, method, ranks, size, &(writers + &files), seed);
        // A write may take a fifth less than its bytes do.
        prop_assert!(outcome.share() <= 1.0 / 0.8);
        prop_assert!(outcome.seconds.is_finite() && outcome.seconds > 0.0);
        for times in &outcome.times {
            prop_assert!(times.ended > 0.0 && times.ended >= times.began);
            prop_assert!(f64::from(times.ended) <= outcome.seconds * 1.0001);
            prop_assert!(times.target < targets);
        }
    }
}
