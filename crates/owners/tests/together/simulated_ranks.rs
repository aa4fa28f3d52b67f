//! The pure part with thousands of simulated ranks, against a model of the file: no communicator, no store.

use proptest::prelude::*;
use proptest::test_runner::Config;
use std::sync::Arc;
use thalweg_owners::domains::{Domains, Piece};
use thalweg_owners::gather::{Gather, PIECE, memory_of};
use thalweg_owners::{Machine, Options, Owners};
use thalweg_types::Extent;

/// What the owners wrote, and how.
struct Disk {
    bytes: Vec<u8>,
    written: Vec<u8>,
    /// Writes of less than a whole fraction, although nothing was hurried.
    early: u32,
}

impl Disk {
    fn write(&mut self, domains: &Domains, gather: &mut Gather, hurried: bool) -> bool {
        let Some(write) = gather.next_write(hurried) else { return false };
        let fraction = domains.fraction_of(write.offset).extent;
        assert!(write.length() <= domains.fraction(), "a write is at most a fraction");
        assert!(write.offset + write.length() <= fraction.offset + fraction.length, "a write stays in its fraction");
        if !hurried && (write.offset, write.length()) != (fraction.offset, fraction.length) {
            self.early += 1;
        }
        let mut at = write.offset as usize;
        for piece in write.pieces {
            self.bytes[at..at + piece.len()].copy_from_slice(&piece);
            self.written[at..at + piece.len()].iter_mut().for_each(|times| *times += 1);
            at += piece.len();
        }
        true
    }
}

fn value(byte: u64) -> u8 {
    (byte.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

fn content(extent: Extent) -> Vec<u8> {
    (extent.offset..extent.offset + extent.length).map(value).collect()
}

/// A sequence that looks random, the same in every run.
struct Sequence(u64);

impl Sequence {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound.max(1)
    }
}

/// Cuts the window into the parts of `ranks` ranks and mixes their order.
fn parts(window: Extent, ranks: u64, sequence: &mut Sequence) -> Vec<Extent> {
    let mut cuts: Vec<u64> = (1..ranks).map(|_| window.offset + sequence.below(window.length + 1)).collect();
    cuts.extend([window.offset, window.offset + window.length]);
    cuts.sort_unstable();
    let mut parts: Vec<Extent> = cuts.windows(2).map(|pair| Extent::new(pair[0], pair[1] - pair[0])).collect();
    for at in (1..parts.len()).rev() {
        parts.swap(at, sequence.below(at as u64 + 1) as usize);
    }
    parts
}

struct Case {
    window: Extent,
    options: Options,
    ranks: u32,
    seed: u64,
    /// Memory of an owner.
    memory: u64,
    /// Parts that no rank writes, and parts that two ranks write.
    left_out: usize,
    twice: usize,
}

fn run(case: &Case) {
    let machine = Machine { ranks: case.ranks, leaders: vec![0], targets: None };
    let domains = Arc::new(Domains::new(case.window, &case.options, &machine).unwrap());
    let mut owners: Vec<Gather> =
        (0..domains.owners().len()).map(|number| Gather::new(domains.clone(), number)).collect();
    let end = (case.window.offset + case.window.length) as usize;
    let mut disk = Disk { bytes: vec![0; end], written: vec![0; end], early: 0 };
    let mut sequence = Sequence(case.seed | 1);
    let mut parts = parts(case.window, u64::from(case.ranks), &mut sequence);
    let left_out: Vec<Extent> = parts.drain(..case.left_out.min(parts.len())).collect();
    let again: Vec<Extent> = parts.iter().take(case.twice).copied().collect();
    let (mut hurried, mut sent) = (false, 0);
    for part in parts.iter().chain(&again) {
        for Piece { owner, extent } in domains.cut(*part).unwrap() {
            let bytes = content(extent);
            // As the engine does: room first.
            while owners[owner].memory() + memory_of(&bytes) > case.memory && owners[owner].holds_bytes() {
                hurried = true;
                assert!(disk.write(&domains, &mut owners[owner], true), "memory can always be freed");
            }
            sent += extent.length;
            owners[owner].insert(extent.offset, bytes).unwrap();
            assert!(owners[owner].memory() <= case.memory.max(extent.length + PIECE), "memory is bounded");
            if sequence.below(3) == 0 {
                disk.write(&domains, &mut owners[owner], false);
            }
        }
    }
    for owner in &mut owners {
        while disk.write(&domains, owner, false) {}
        let whole_before_end = owner.missing().bytes == 0;
        assert!(!whole_before_end || !owner.holds_bytes(), "complete stripes are written without hurry");
        while disk.write(&domains, owner, true) {}
        assert!(!owner.holds_bytes() && owner.memory() == 0, "nothing is left, and no memory");
    }
    assert!(hurried || disk.early == 0, "{} writes of less than a fraction without need", disk.early);
    assert_eq!(owners.iter().map(Gather::received).sum::<u64>(), sent);

    let missing: u64 = left_out.iter().map(|part| part.length).sum();
    assert_eq!(owners.iter().map(|owner| owner.missing().bytes).sum::<u64>(), missing);
    let first = left_out.iter().filter(|part| part.length > 0).map(|part| part.offset).min();
    assert_eq!(owners.iter().map(Gather::missing).filter(|m| m.bytes > 0).map(|m| m.first).min(), first);
    let repeated: u64 = again.iter().map(|part| part.length).sum();
    assert_eq!(owners.iter().map(|owner| owner.repeated().bytes).sum::<u64>(), repeated);
    let first = again.iter().filter(|part| part.length > 0).map(|part| part.offset).min();
    assert_eq!(owners.iter().map(Gather::repeated).filter(|m| m.bytes > 0).map(|m| m.first).min(), first);
    for byte in 0..end as u64 {
        let inside = byte >= case.window.offset;
        let left = left_out.iter().any(|part| (part.offset..part.offset + part.length).contains(&byte));
        let expected = if inside && !left { (1, value(byte)) } else { (0, 0) };
        assert_eq!((disk.written[byte as usize], disk.bytes[byte as usize]), expected, "byte {byte}");
    }
}

#[test]
fn five_thousand_ranks_fill_a_window() {
    let options = Options {
        owners: Owners::Every { active: 40, base: 7, skip: 120 },
        write_stripe: 4096,
        fraction: 1024,
        alignment: 512,
        ..Options::default()
    };
    let window = Extent::new(1000, 2_000_000);
    run(&Case { window, options, ranks: 5000, seed: 42, memory: u64::MAX, left_out: 0, twice: 0 });
}

#[test]
fn five_thousand_ranks_with_little_memory_and_holes() {
    let options = Options {
        owners: Owners::Every { active: 33, base: 0, skip: 150 },
        owner_stripe: Some(3000),
        write_stripe: 1000,
        fraction: 300,
        ..Options::default()
    };
    let window = Extent::new(77, 500_000);
    run(&Case { window, options, ranks: 5000, seed: 7, memory: 2000, left_out: 20, twice: 30 });
}

proptest! {
    #![proptest_config(Config::with_cases(400))]
    #[test]
    fn any_geometry_is_written_as_the_model_says(
        offset in 0u64..5000, length in 0u64..6000, ranks in 1u32..300, active in 1u32..20, base in 0u32..5,
        owner_stripe in proptest::option::of(1u64..900), write_stripe in 1u64..700, fraction in 1u64..300, alignment in 1u64..200,
        memory in prop_oneof![Just(u64::MAX), 200u64..3000], seed in 1u64.., left_out in 0usize..4, twice in 0usize..4,
    ) {
        let active = active.min(ranks);
        let base = base.min(ranks - active);
        let owners = Owners::Every { active, base, skip: 1 };
        let options = Options { owners, owner_stripe, write_stripe, fraction, alignment, ..Options::default() };
        run(&Case { window: Extent::new(offset, length), options, ranks, seed, memory, left_out, twice });
    }
}
