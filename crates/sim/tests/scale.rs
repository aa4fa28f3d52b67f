//! 140,000 ranks are simulated with a bounded number of events and in bounded memory. Seconds are printed, not judged.

use std::time::Instant;
use thalweg_sim::methods::METHODS;
use thalweg_sim::{Job, Machine, parameters, run};

/// The most memory that this process ever had, in bytes; `None` where the system doesn't say.
fn most_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? << 10)
}

#[test]
fn a_hundred_and_forty_thousand_ranks_fit_time_and_memory() {
    const RANKS: u32 = 140_000;
    let mut machine = Machine::shipped("jaguarpf-xt5").unwrap();
    machine.slow.share.0 = 0.01;
    for method in METHODS {
        let since = Instant::now();
        let job =
            Job { method: method.into(), ranks: RANKS, size: 128 << 20, parameters: parameters("").unwrap(), seed: 1 };
        let outcome = run(&machine, &job).unwrap();
        let events = outcome.events as f64 / f64::from(RANKS);
        println!(
            "{method}: {:.2} s, {events:.1} events a rank; {:.1} s simulated, {:.1} GB/s",
            since.elapsed().as_secs_f64(),
            outcome.seconds,
            outcome.bandwidth() / 1e9
        );
        // A piece of a shared file takes two; there are sixteen.
        let most = if method == "MPI" { 40.0 } else { 5.0 };
        assert!(events <= most, "{method}: {events} events a rank");
    }
    if let Some(bytes) = most_memory() {
        println!("{} MiB", bytes >> 20);
        assert!(bytes < 2 << 30, "{bytes} bytes");
    }
}
