//! Datatypes with what this library says of them, for a program that makes the same ones with an MPI and compares
//! (`tests/mpi/view.sh`): one per line, the datatype in prefix form, then `|` and the numbers.
//!
//!     datatypes SEED COUNT

use std::fmt::Write;
use thalweg_view::{Block, Datatype, Distribution, Order, Pattern, View};

/// A linear congruential generator: the same datatypes everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low) as u64) as i64
    }

    fn order(&mut self) -> Order {
        if self.below(2) == 0 { Order::C } else { Order::Fortran }
    }

    /// Displacements that rise, so that the type may be a filetype.
    fn rising(&mut self, unit: u64) -> Vec<i64> {
        let mut at = self.below(3) as i64;
        (0..1 + self.below(4))
            .map(|_| {
                let here = at;
                at += (unit + self.below(2 * unit + 3)) as i64;
                here
            })
            .collect()
    }

    fn datatype(&mut self, depth: u64) -> Datatype {
        if depth == 0 || self.below(6) == 0 {
            return Datatype::Elementary(1 << self.below(4));
        }
        let inner = self.datatype(depth - 1);
        let extent = inner.pattern().map_or(1, |p| p.extent()).unsigned_abs();
        let of = Box::new(inner);
        let (count, block) = (1 + self.below(4), 1 + self.below(3));
        match self.below(13) {
            0 => Datatype::Dup(of),
            1 => Datatype::Contiguous { count, of },
            2 => Datatype::Vector { count, block, stride: (block + self.below(4)) as i64, of },
            3 => Datatype::Vector { count, block, stride: self.between(-5, 6), of },
            4 => Datatype::Hvector { count, block, stride: (block * extent + self.below(9)) as i64, of },
            5 => {
                let blocks = self.rising(block).into_iter().map(|displacement| Block { count: block, displacement });
                Datatype::Indexed { blocks: blocks.collect(), of }
            }
            6 => {
                let starts = self.rising(block * extent);
                Datatype::Hindexed {
                    blocks: starts.into_iter().map(|displacement| Block { count: block, displacement }).collect(),
                    of,
                }
            }
            7 => Datatype::IndexedBlock { block, displacements: self.rising(block), of },
            8 => Datatype::HindexedBlock { block, displacements: self.rising(block * extent), of },
            9 => self.members(depth),
            10 => {
                let dimensions: Vec<(u64, u64, u64)> = (0..1 + self.below(3))
                    .map(|_| {
                        let size = 1 + self.below(4);
                        let part = 1 + self.below(size);
                        (size, part, self.below(size - part + 1))
                    })
                    .collect();
                Datatype::Subarray {
                    sizes: dimensions.iter().map(|d| d.0).collect(),
                    subsizes: dimensions.iter().map(|d| d.1).collect(),
                    starts: dimensions.iter().map(|d| d.2).collect(),
                    order: self.order(),
                    of,
                }
            }
            11 => self.distributed(of),
            _ => {
                let (lower, upper) = of.pattern().map_or((0, 1), |p| p.true_bounds());
                let lower = lower - self.below(3) as i64;
                Datatype::Resized { lower, extent: upper - lower + self.below(5) as i64, of }
            }
        }
    }

    /// A struct with stated bounds: MPIs round them up in different ways.
    fn members(&mut self, depth: u64) -> Datatype {
        let mut at = self.below(4) as i64;
        let mut members = Vec::new();
        for _ in 0..1 + self.below(3) {
            let of = self.datatype(depth - 1);
            let (lower, upper) = of.pattern().map_or((0, 1), |p| p.true_bounds());
            let extent = of.pattern().map_or(1, |p| p.extent());
            let count = 1 + self.below(2);
            members.push((Block { count, displacement: at - lower.min(0) }, of));
            at += upper - lower.min(0) + (count - 1) as i64 * extent.max(0) + self.below(6) as i64;
        }
        let of = Box::new(Datatype::Struct(members));
        let pattern = of.pattern().expect("a small struct");
        Datatype::Resized { lower: pattern.lower(), extent: pattern.extent() + self.below(4) as i64, of }
    }

    fn distributed(&mut self, of: Box<Datatype>) -> Datatype {
        let dimensions: Vec<(u64, u64, Distribution)> = (0..1 + self.below(3))
            .map(|_| {
                let (size, processes) = (1 + self.below(7), 1 + self.below(3));
                match self.below(4) {
                    0 => (size, 1, Distribution::None),
                    1 => (size, processes, Distribution::Block(None)),
                    2 => (size, processes, Distribution::Cyclic(None)),
                    _ => (size, processes, Distribution::Cyclic(Some(1 + self.below(3)))),
                }
            })
            .collect();
        let processes: Vec<u64> = dimensions.iter().map(|d| d.1).collect();
        Datatype::Darray {
            rank: self.below(processes.iter().product()),
            sizes: dimensions.iter().map(|d| d.0).collect(),
            distributions: dimensions.iter().map(|d| d.2).collect(),
            processes,
            order: self.order(),
            of,
        }
    }
}

fn words(out: &mut String, of: &Datatype) {
    let mut say = |word: String| write!(out, "{word} ").expect("memory");
    let number = |order: &Order| u8::from(*order == Order::Fortran);
    match of {
        Datatype::Elementary(size) => say(format!("e {size}")),
        Datatype::Dup(inner) => {
            say("d".into());
            words(out, inner);
        }
        Datatype::Contiguous { count, of } => {
            say(format!("c {count}"));
            words(out, of);
        }
        Datatype::Vector { count, block, stride, of } => {
            say(format!("v {count} {block} {stride}"));
            words(out, of);
        }
        Datatype::Hvector { count, block, stride, of } => {
            say(format!("V {count} {block} {stride}"));
            words(out, of);
        }
        Datatype::Indexed { blocks, of: inner } | Datatype::Hindexed { blocks, of: inner } => {
            let letter = if matches!(of, Datatype::Indexed { .. }) { 'i' } else { 'I' };
            say(format!("{letter} {}", blocks.len()));
            blocks.iter().for_each(|b| say(format!("{} {}", b.count, b.displacement)));
            words(out, inner);
        }
        Datatype::IndexedBlock { block, displacements, of } => {
            say(format!("b {} {block}", displacements.len()));
            displacements.iter().for_each(|at| say(at.to_string()));
            words(out, of);
        }
        Datatype::HindexedBlock { block, displacements, of } => {
            say(format!("B {} {block}", displacements.len()));
            displacements.iter().for_each(|at| say(at.to_string()));
            words(out, of);
        }
        Datatype::Struct(members) => {
            say(format!("s {}", members.len()));
            for (block, of) in members {
                write!(out, "{} {} ", block.count, block.displacement).expect("memory");
                words(out, of);
            }
        }
        Datatype::Subarray { sizes, subsizes, starts, order, of } => {
            say(format!("a {} {}", sizes.len(), number(order)));
            [sizes, subsizes, starts].into_iter().flatten().for_each(|n| say(n.to_string()));
            words(out, of);
        }
        Datatype::Darray { rank, sizes, distributions, processes, order, of } => {
            say(format!("D {rank} {} {}", sizes.len(), number(order)));
            for d in 0..sizes.len() {
                let (kind, argument) = match distributions[d] {
                    Distribution::None => (0, None),
                    Distribution::Block(block) => (1, block),
                    Distribution::Cyclic(block) => (2, block),
                };
                say(format!("{} {kind} {} {}", sizes[d], argument.unwrap_or(0), processes[d]));
            }
            words(out, of);
        }
        Datatype::Resized { lower, extent, of } => {
            say(format!("r {lower} {extent}"));
            words(out, of);
        }
    }
}

fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}

const INSTANCES: u64 = 3;

/// The hash of what MPI_Pack gives of `INSTANCES` instances, and the memory that they need.
fn packed(pattern: &Pattern) -> (i64, i64, u64) {
    let (low, high) = pattern.true_bounds();
    let last = (INSTANCES as i64 - 1) * pattern.extent();
    let (low, high) = (low + last.min(0), high + last.max(0));
    let (low, high) = (low.min(0), high.max(0));
    let memory: Vec<u8> = (0..(high - low) as usize).map(|i| (i * 7 + i / 251) as u8).collect();
    let mut out = vec![0; (pattern.size() * INSTANCES) as usize];
    pattern.gather(INSTANCES, &memory, -low, 0, &mut out).expect("the memory holds all instances");
    (low, high, hash(&out))
}

/// The file after bytes `from..from + n` of a view were written; `None` if MPI does not allow the type as a filetype.
fn written(pattern: &Pattern, displacement: u64, from: u64, n: u64) -> Option<(u64, u64, u64)> {
    let byte = Datatype::Elementary(1).pattern().expect("a byte");
    let view = View::new(displacement, &byte, pattern.clone()).ok()?;
    // MPI asks of displacements in a filetype that they are not negative.
    if !view.is_rising() || pattern.size() == 0 || pattern.true_bounds().0 < 0 || pattern.lower() < 0 {
        return None;
    }
    let mut file: Vec<u8> = Vec::new();
    let mut v = from;
    for extent in view.extents(from..from + n) {
        let end = (extent.offset + extent.length) as usize;
        file.resize(file.len().max(end), 0);
        for byte in &mut file[extent.offset as usize..end] {
            *byte = (v * 13 + 5) as u8;
            v += 1;
        }
    }
    Some((view.file_offset(from)?, file.len() as u64, hash(&file)))
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|a| a.parse::<u64>().expect("a number"));
    let (seed, count) = (arguments.next().unwrap_or(1), arguments.next().unwrap_or(500));
    let mut random = Random(seed);
    let mut done = 0;
    while done < count {
        let of = random.datatype(1 + random.0 % 3);
        let Ok(pattern) = of.pattern() else { continue };
        if pattern.size() == 0 || pattern.size() > 4000 || pattern.extent() <= 0 {
            continue;
        }
        let mut line = String::new();
        words(&mut line, &of);
        let (low, high) = pattern.true_bounds();
        write!(line, "| {} {} {} {low} {} ", pattern.size(), pattern.lower(), pattern.extent(), high - low)
            .expect("memory");
        let (low, high, sum) = packed(&pattern);
        write!(line, "{INSTANCES} {low} {high} {sum} ").expect("memory");
        let (displacement, from, n) =
            (random.below(50), random.below(3 * pattern.size()), 1 + random.below(4 * pattern.size()));
        match written(&pattern, displacement, from, n) {
            Some((offset, length, sum)) => println!("{line}1 {displacement} {from} {n} {offset} {length} {sum}"),
            None => println!("{line}0 0 0 0 0 0 0"),
        }
        done += 1;
    }
}
