//! A datatype as the standard defines it: the list of its bytes, made literally; and datatypes of every kind.

use proptest::prelude::*;
use thalweg_view::{Block, Datatype, Distribution, Order};

/// The bytes of one instance in their order, and its bounds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Listed {
    pub bytes: Vec<i64>,
    pub lower: i64,
    pub upper: i64,
}

/// Instances of types at displacements, one after another.
fn instances(all: impl IntoIterator<Item = (i64, Listed)>) -> Listed {
    let mut out: Option<Listed> = None;
    for (at, one) in all.into_iter().filter(|(_, one)| *one != Listed::default()) {
        let (lower, upper) = (one.lower + at, one.upper + at);
        let out = out.get_or_insert(Listed { bytes: Vec::new(), lower, upper });
        out.lower = out.lower.min(lower);
        out.upper = out.upper.max(upper);
        out.bytes.extend(one.bytes.iter().map(|byte| byte + at));
    }
    out.unwrap_or_default()
}

fn run(of: &Listed, count: u64, at: i64) -> impl Iterator<Item = (i64, Listed)> + '_ {
    (0..count as i64).map(move |i| (at + i * (of.upper - of.lower), of.clone()))
}

pub fn listed(of: &Datatype) -> Listed {
    match of {
        Datatype::Elementary(size) => Listed { bytes: (0..*size as i64).collect(), lower: 0, upper: *size as i64 },
        Datatype::Dup(of) => listed(of),
        Datatype::Contiguous { count, of } => instances(run(&listed(of), *count, 0)),
        Datatype::Vector { count, block, stride, of } => {
            let of = listed(of);
            let step = stride * (of.upper - of.lower);
            instances((0..*count as i64).flat_map(|i| run(&of, *block, i * step)).collect::<Vec<_>>())
        }
        Datatype::Hvector { count, block, stride, of } => {
            let of = listed(of);
            instances((0..*count as i64).flat_map(|i| run(&of, *block, i * stride)).collect::<Vec<_>>())
        }
        Datatype::Indexed { blocks, of } => {
            let of = listed(of);
            let unit = of.upper - of.lower;
            instances(blocks.iter().flat_map(|b| run(&of, b.count, b.displacement * unit)).collect::<Vec<_>>())
        }
        Datatype::Hindexed { blocks, of } => {
            let of = listed(of);
            instances(blocks.iter().flat_map(|b| run(&of, b.count, b.displacement)).collect::<Vec<_>>())
        }
        Datatype::IndexedBlock { block, displacements, of } => {
            let of = listed(of);
            let unit = of.upper - of.lower;
            instances(displacements.iter().flat_map(|at| run(&of, *block, at * unit)).collect::<Vec<_>>())
        }
        Datatype::HindexedBlock { block, displacements, of } => {
            let of = listed(of);
            instances(displacements.iter().flat_map(|at| run(&of, *block, *at)).collect::<Vec<_>>())
        }
        Datatype::Struct(members) => instances(
            members
                .iter()
                .flat_map(|(b, of)| run(&listed(of), b.count, b.displacement).collect::<Vec<_>>())
                .collect::<Vec<_>>(),
        ),
        Datatype::Subarray { sizes, subsizes, starts, order, of } => {
            let owned = |d: usize, i: u64| (starts[d]..starts[d] + subsizes[d]).contains(&i);
            array(sizes, *order, &listed(of), owned)
        }
        Datatype::Darray { rank, sizes, distributions, processes, order, of } => {
            let mut coordinates = vec![0; sizes.len()];
            let mut left = *rank;
            for d in (0..sizes.len()).rev() {
                coordinates[d] = left % processes[d];
                left /= processes[d];
            }
            let owned = |d: usize, i: u64| match distributions[d] {
                Distribution::None => true,
                Distribution::Block(block) => i / block.unwrap_or(sizes[d].div_ceil(processes[d])) == coordinates[d],
                Distribution::Cyclic(block) => i / block.unwrap_or(1) % processes[d] == coordinates[d],
            };
            array(sizes, *order, &listed(of), owned)
        }
        Datatype::Resized { lower, extent, of } => Listed { lower: *lower, upper: lower + extent, ..listed(of) },
    }
}

/// The elements of an array that are owned in each dimension.
fn array(sizes: &[u64], order: Order, of: &Listed, owned: impl Fn(usize, u64) -> bool) -> Listed {
    let unit = of.upper - of.lower;
    let all: u64 = sizes.iter().product();
    let mut bytes = Vec::new();
    for number in 0..all {
        let mut left = number;
        let dimensions: Vec<usize> = match order {
            Order::C => (0..sizes.len()).rev().collect(),
            Order::Fortran => (0..sizes.len()).collect(),
        };
        let here = dimensions.into_iter().all(|d| {
            let i = left % sizes[d];
            left /= sizes[d];
            owned(d, i)
        });
        if here {
            bytes.extend(of.bytes.iter().map(|byte| byte + number as i64 * unit));
        }
    }
    Listed { bytes, lower: 0, upper: all as i64 * unit }
}

fn order() -> impl Strategy<Value = Order> {
    prop_oneof![Just(Order::C), Just(Order::Fortran)]
}

fn subarray(of: Datatype) -> impl Strategy<Value = Datatype> {
    let dimension = (1u64..5)
        .prop_flat_map(|size| (Just(size), 0..=size))
        .prop_flat_map(|(size, part)| (Just(size), Just(part), 0..=size - part));
    (prop::collection::vec(dimension, 1..4), order()).prop_map(move |(dimensions, order)| Datatype::Subarray {
        sizes: dimensions.iter().map(|d| d.0).collect(),
        subsizes: dimensions.iter().map(|d| d.1).collect(),
        starts: dimensions.iter().map(|d| d.2).collect(),
        order,
        of: Box::new(of.clone()),
    })
}

fn darray(of: Datatype) -> impl Strategy<Value = Datatype> {
    let kind = prop_oneof![
        Just((Distribution::None, true)),
        Just((Distribution::Block(None), false)),
        Just((Distribution::Cyclic(None), false)),
        (1u64..4).prop_map(|n| (Distribution::Cyclic(Some(n)), false)),
    ];
    let dimension = (1u64..7, 1u64..4, kind)
        .prop_map(|(size, processes, (kind, alone))| (size, if alone { 1 } else { processes }, kind));
    (prop::collection::vec(dimension, 1..4), order(), any::<u64>()).prop_map(move |(dimensions, order, rank)| {
        let processes: Vec<u64> = dimensions.iter().map(|d| d.1).collect();
        Datatype::Darray {
            rank: rank % processes.iter().product::<u64>(),
            sizes: dimensions.iter().map(|d| d.0).collect(),
            distributions: dimensions.iter().map(|d| d.2).collect(),
            processes,
            order,
            of: Box::new(of.clone()),
        }
    })
}

/// Datatypes of every constructor, some levels deep, of at most a few thousand bytes.
pub fn datatype() -> impl Strategy<Value = Datatype> {
    let leaf = prop_oneof![8 => (1u64..9).prop_map(Datatype::Elementary), 1 => Just(Datatype::Elementary(0))];
    let block = || (0u64..3, -9i64..20).prop_map(|(count, displacement)| Block { count, displacement });
    let all = leaf.prop_recursive(3, 20, 3, move |inner| {
        let of = || inner.clone().prop_map(Box::new);
        prop_oneof![
            of().prop_map(Datatype::Dup),
            (0u64..4, of()).prop_map(|(count, of)| Datatype::Contiguous { count, of }),
            (0u64..4, 0u64..3, -3i64..6, of()).prop_map(|(count, block, stride, of)| Datatype::Vector {
                count,
                block,
                stride,
                of
            }),
            (0u64..4, 0u64..3, -20i64..60, of()).prop_map(|(count, block, stride, of)| Datatype::Hvector {
                count,
                block,
                stride,
                of
            }),
            (prop::collection::vec(block(), 0..4), of()).prop_map(|(blocks, of)| Datatype::Indexed { blocks, of }),
            (prop::collection::vec(block(), 0..4), of()).prop_map(|(blocks, of)| Datatype::Hindexed { blocks, of }),
            (0u64..3, prop::collection::vec(-9i64..20, 0..4), of())
                .prop_map(|(block, displacements, of)| Datatype::IndexedBlock { block, displacements, of }),
            (0u64..3, prop::collection::vec(-9i64..60, 0..4), of())
                .prop_map(|(block, displacements, of)| Datatype::HindexedBlock { block, displacements, of }),
            prop::collection::vec((block(), inner.clone()), 0..4).prop_map(Datatype::Struct),
            inner.clone().prop_flat_map(subarray),
            inner.clone().prop_flat_map(darray),
            (-9i64..9, 0i64..80, of()).prop_map(|(lower, extent, of)| Datatype::Resized { lower, extent, of }),
            // Filetypes of views: they rise, and their instances do not overlap.
            (1u64..4, 1u64..3, 2i64..6, of()).prop_map(|(count, block, stride, of)| Datatype::Vector {
                count,
                block,
                stride,
                of
            }),
        ]
    });
    all.prop_filter("of some thousand bytes", |of| listed(of).bytes.len() < 3000)
}
