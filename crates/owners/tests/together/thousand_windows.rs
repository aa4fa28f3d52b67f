//! A thousand windows of random geometry against a model of the file: overlapping, short, empty and unaligned ones, several at once.

use crate::common::{Sequence, direct, open};
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;
use thalweg_comm::{Communicator, threads};
use thalweg_layout::container::Options as ContainerOptions;
use thalweg_layout::{Container, Layout};
use thalweg_owners::{Commit, File, Options, Owners, WindowId};
use thalweg_store::{Memory, Store};
use thalweg_types::Extent;

const WINDOWS: u64 = 1000;
/// Windows that are under way at the same time.
const AT_ONCE: u64 = 5;
const LARGEST: u64 = 30_000;

struct Geometry {
    window: Extent,
    options: Options,
    commit: Option<Commit>,
    /// Each part: its rank, and its bytes.
    parts: Vec<(u32, Extent)>,
}

/// The same on all ranks.
fn geometry(number: u64, ranks: u32) -> Geometry {
    let mut random = Sequence(number.wrapping_mul(0x2545_F491_4F6C_DD1D) | 1);
    for _ in 0..5 {
        random.below(2);
    }
    let offset = random.below(5000);
    let length = match random.below(8) {
        0 => 0,
        1 => random.below(3),
        _ => random.below(LARGEST),
    };
    let active = 1 + random.below(u64::from(ranks)) as u32;
    let base = random.below(u64::from(ranks - active + 1)) as u32;
    let owners = match random.below(3) {
        0 => Owners::PerNode,
        1 => Owners::Every { active, base, skip: 1 },
        _ => Owners::Ranks((0..active).rev().collect()),
    };
    let options = Options {
        owners,
        owner_stripe: (random.below(2) == 0).then(|| 1 + random.below(9000)),
        write_stripe: 1 + random.below(5000),
        fraction: 1 + random.below(2000),
        alignment: 1 + random.below(600),
        time_limit: Some(Duration::from_secs(60)),
        durable: random.below(4) == 0,
        holes: false,
        closes: random.below(3) == 0,
    };
    let mut cuts: Vec<u64> = (0..random.below(60)).map(|_| offset + random.below(length + 1)).collect();
    cuts.extend([offset, offset + length]);
    cuts.sort_unstable();
    let parts = cuts
        .windows(2)
        .map(|pair| (random.below(u64::from(ranks)) as u32, Extent::new(pair[0], pair[1] - pair[0])))
        .collect();
    let commit = (random.below(3) == 0)
        .then(|| Commit { offset: random.below(40_000), bytes: vec![9; 1 + random.below(30) as usize] });
    Geometry { window: Extent::new(offset, length), options, commit, parts }
}

/// The byte that window `number` writes at an offset.
fn value(number: u64, byte: u64) -> u8 {
    (byte.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(number.wrapping_mul(0xD134_2543_DE82_EF95)) >> 56) as u8
}

fn run(ranks: u32, memory: u64, layout: Arc<dyn Layout>) {
    threads::Machine::new(ranks).ranks_per_node(2).run(|comm| {
        let mut file = open(&comm, &layout, memory);
        let mut random = Sequence(u64::from(comm.rank()) * 77 + 13);
        for first in (0..WINDOWS).step_by(AT_ONCE as usize) {
            let numbers = first..first + AT_ONCE;
            let geometries: Vec<Geometry> = numbers.clone().map(|number| geometry(number, ranks)).collect();
            let ids: Vec<WindowId> = geometries
                .iter()
                .map(|g| {
                    file.start_with_commit(g.window.offset, g.window.length, &g.options, g.commit.clone()).unwrap()
                })
                .collect();
            let mut todo: Vec<(usize, Extent)> = Vec::new();
            for (at, geometry) in geometries.iter().enumerate() {
                todo.extend(
                    geometry.parts.iter().filter(|(rank, _)| *rank == comm.rank()).map(|(_, part)| (at, *part)),
                );
            }
            for at in (1..todo.len()).rev() {
                todo.swap(at, random.below(at as u64 + 1) as usize);
            }
            for (at, part) in todo {
                let bytes: Vec<u8> =
                    (part.offset..part.offset + part.length).map(|byte| value(first + at as u64, byte)).collect();
                // Whole stripes of its own go straight to the store, in every other window.
                write(&mut file, ids[at], part.offset, &bytes, at % 2 == 1);
                assert!(file.memory() <= memory, "{} of {memory} bytes", file.memory());
                if random.below(4) == 0 {
                    file.progress();
                }
            }
            ids.iter().for_each(|id| file.end(*id).unwrap());
            for (geometry, id) in geometries.iter().zip(ids) {
                assert_eq!(file.wait(id).unwrap().bytes, geometry.window.length);
            }
            comm.barrier().unwrap();
            if comm.rank() == 0 {
                check(&*layout, first, &geometries);
            }
            comm.barrier().unwrap();
        }
        file.close().unwrap();
    });
}

/// - `own`: whether stripes that this rank owns, and writes as a whole, are written without a copy.
fn write(file: &mut File, window: WindowId, offset: u64, bytes: &[u8], own: bool) {
    let (domains, rank) = (file.domains(window).unwrap(), file.rank());
    let end = offset + bytes.len() as u64;
    let mut at = offset;
    while at < end {
        let stripe = domains.write_stripe(at);
        let fraction = domains.fraction_of(at);
        let is_own =
            domains.owners()[fraction.owner] == rank && stripe.offset >= offset && stripe.end().unwrap() <= end;
        let until = if own && is_own { fraction.extent.end().unwrap() } else { end.min(stripe.end().unwrap()) };
        let part = &bytes[(at - offset) as usize..(until - offset) as usize];
        if own && is_own {
            file.write_own(window, at, &[IoSlice::new(part)]).unwrap();
        } else {
            file.write(window, at, part).unwrap();
        }
        at = until;
    }
}

/// Where windows that were under way at the same time overlap, each byte is that of one of them.
fn check(layout: &dyn Layout, first: u64, geometries: &[Geometry]) {
    let object = layout.open_read("out").unwrap();
    let mut bytes = vec![0; object.length().unwrap() as usize];
    object.read_exact_at(0, &mut bytes).unwrap();
    for (at, byte) in bytes.iter().enumerate() {
        let at = at as u64;
        let mut allowed: Vec<u8> = Vec::new();
        for (number, geometry) in (first..).zip(geometries) {
            let Extent { offset, length } = geometry.window;
            if (offset..offset + length).contains(&at) {
                allowed.push(value(number, at));
            }
            if let Some(commit) = &geometry.commit
                && (commit.offset..commit.offset + commit.bytes.len() as u64).contains(&at)
            {
                // After the window's own bytes.
                if (offset..offset + length).contains(&at) {
                    allowed.pop();
                }
                allowed.push(9);
            }
        }
        assert!(
            allowed.is_empty() || allowed.contains(byte),
            "byte {at} of windows {first}..: {byte}, not {allowed:?}"
        );
    }
    let end = geometries.iter().filter(|g| g.window.length > 0).map(|g| g.window.offset + g.window.length).max();
    assert!(end.is_none_or(|end| end <= bytes.len() as u64), "the file ends at {}, a window at {end:?}", bytes.len());
}

#[test]
fn a_thousand_windows_on_three_ranks() {
    run(3, 256 << 20, direct(Arc::new(Memory::new())));
}

#[test]
fn a_thousand_windows_with_little_memory() {
    run(5, 64 << 10, direct(Arc::new(Memory::new())));
}

#[test]
fn a_thousand_windows_on_one_rank() {
    run(1, 64 << 10, direct(Arc::new(Memory::new())));
}

/// Bytes of a later window replace those of an earlier one also where each writer has a log of its own.
#[test]
fn a_thousand_windows_of_a_container() {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    run(4, 1 << 20, Arc::new(Container::new(vec![store], ContainerOptions::default()).unwrap()));
}
