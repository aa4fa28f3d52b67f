//! Patterns and views beside a model that lists every byte of a datatype, one after another, as the standard defines them.

mod common;

use common::{Listed, datatype, listed};
use proptest::prelude::*;
use thalweg_types::{ErrorKind, Extent};
use thalweg_view::{Block, Datatype, Distribution, Order, Outline, Pattern, View};

fn bytes_of(pattern: &Pattern, from: u64) -> Vec<i64> {
    pattern.runs(from).flat_map(|run| (0..run.length as i64).map(move |i| run.displacement + i)).collect()
}

fn elementary(size: u64) -> Box<Datatype> {
    Box::new(Datatype::Elementary(size))
}

/// The first bytes of a view, from its model.
fn view_bytes(displacement: u64, model: &Listed, n: usize) -> Vec<u64> {
    (0..n)
        .map(|v| {
            let (instance, inside) = (v / model.bytes.len(), v % model.bytes.len());
            let at = displacement as i64 + instance as i64 * (model.upper - model.lower) + model.bytes[inside];
            u64::try_from(at).unwrap()
        })
        .collect()
}

fn joined(bytes: &[u64]) -> Vec<Extent> {
    let mut out: Vec<Extent> = Vec::new();
    for at in bytes {
        match out.last_mut() {
            Some(last) if last.end() == Some(*at) => last.length += 1,
            _ => out.push(Extent::new(*at, 1)),
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_pattern_covers_the_bytes_of_its_datatype_in_their_order(of in datatype(), from in 0.0..1.0) {
        let model = listed(&of);
        let pattern = of.pattern().unwrap();
        prop_assert_eq!(pattern.size(), model.bytes.len() as u64);
        prop_assert_eq!((pattern.lower(), pattern.extent()), (model.lower, model.upper - model.lower));
        prop_assert_eq!(bytes_of(&pattern, 0), model.bytes.clone());
        let bounds = model.bytes.iter().min().map_or((0, 0), |low| (*low, model.bytes.iter().max().unwrap() + 1));
        prop_assert_eq!(pattern.true_bounds(), bounds);
        prop_assert_eq!(pattern.is_rising(), model.bytes.windows(2).all(|pair| pair[0] < pair[1]));
        let from = (from * model.bytes.len() as f64) as usize;
        prop_assert_eq!(bytes_of(&pattern, from as u64), model.bytes[from..].to_vec());
        for (i, at) in model.bytes.iter().enumerate() {
            prop_assert_eq!(pattern.place_of(i as u64), Some(*at));
        }
        prop_assert_eq!(pattern.place_of(model.bytes.len() as u64), None);
        if pattern.is_rising() {
            for place in bounds.0 - 2..bounds.1 + 2 {
                let below = model.bytes.iter().filter(|at| **at < place).count() as u64;
                prop_assert_eq!(pattern.count_below(place), Some(below), "below {}", place);
            }
        }
    }

    #[test]
    fn what_is_gathered_is_what_pack_copies_and_scattering_puts_it_back(of in datatype(), count in 0u64..4, cut in 0.0..1.0) {
        let (model, pattern) = (listed(&of), of.pattern().unwrap());
        let extent = model.upper - model.lower;
        let places: Vec<i64> =
            (0..count as i64).flat_map(|n| model.bytes.iter().map(move |at| n * extent + at)).collect();
        let low = places.iter().min().copied().unwrap_or(0).min(0);
        let high = places.iter().max().map_or(0, |last| last + 1).max(0);
        let origin = -low;
        let memory: Vec<u8> = (0..(high - low) as usize).map(|i| (i * 7 + i / 251) as u8).collect();
        let packed: Vec<u8> = places.iter().map(|at| memory[(at - low) as usize]).collect();
        let from = (cut * packed.len() as f64) as usize;
        let mut out = vec![0; packed.len() - from];
        pattern.gather(count, &memory, origin, from as u64, &mut out).unwrap();
        prop_assert_eq!(&out[..], &packed[from..]);

        let mut there = vec![0xaa; memory.len()];
        let mut expected = there.clone();
        let new: Vec<u8> = (0..packed.len()).map(|i| i as u8).collect();
        places[from..].iter().zip(&new[from..]).for_each(|(at, byte)| expected[(at - low) as usize] = *byte);
        pattern.scatter(count, &mut there, origin, from as u64, &new[from..]).unwrap();
        prop_assert_eq!(there, expected);

        let mut more = vec![0; packed.len() + 1];
        prop_assert_eq!(pattern.gather(count, &memory, origin, 0, &mut more).unwrap_err().kind(), ErrorKind::OutOfBounds);
        if !packed.is_empty() {
            let highest = memory.len() - 1;
            let e = pattern.gather(count, &memory[..highest], origin, 0, &mut vec![0; packed.len()]);
            let touched = places.iter().any(|at| (at - low) as usize == highest);
            prop_assert_eq!(e.is_err(), touched);
        }
    }

    #[test]
    fn a_view_maps_its_bytes_to_the_file_and_back(of in datatype(), displacement in 0u64..200, from in 0u64..40, n in 0u64..60) {
        let model = listed(&of);
        let unit = Datatype::Elementary(1).pattern().unwrap();
        let made = View::new(displacement, &unit, of.pattern().unwrap());
        let extent = model.upper - model.lower;
        let low = model.bytes.iter().min().copied().unwrap_or(0);
        if low + (displacement as i64) < 0 || (extent <= 0 && !model.bytes.is_empty()) {
            prop_assert_eq!(made.unwrap_err().kind(), ErrorKind::InvalidArgument);
            return Ok(());
        }
        let view = made.unwrap();
        prop_assert_eq!(View::decode(&view.encode()).unwrap(), view.clone());
        if model.bytes.is_empty() {
            prop_assert_eq!(view.extents(from..from + n).count(), 0);
            prop_assert_eq!(view.file_offset(0), None);
            return Ok(());
        }
        let all = view_bytes(displacement, &model, 200 + 3 * model.bytes.len());
        let range = from as usize..(from + n) as usize;
        prop_assert_eq!(view.extents(from..from + n).collect::<Vec<_>>(), joined(&all[range]));
        for (v, at) in all.iter().enumerate() {
            prop_assert_eq!(view.file_offset(v as u64), Some(*at));
        }
        let rises = all.windows(2).all(|pair| pair[0] < pair[1]);
        prop_assert_eq!(view.is_rising(), rises);
        if rises {
            for offset in 0..*all.last().unwrap() {
                let below = all.iter().filter(|at| **at < offset).count() as u64;
                prop_assert_eq!(view.count_below(offset), Some(below), "below {}", offset);
            }
        } else {
            prop_assert_eq!(view.count_below(5), None);
        }
    }

    #[test]
    fn two_views_share_the_bytes_that_are_in_both(
        a in (datatype(), 0u64..100, 0u64..30, 0u64..80),
        b in (datatype(), 0u64..100, 0u64..30, 0u64..80),
    ) {
        let unit = Datatype::Elementary(1).pattern().unwrap();
        let made = |(of, displacement, ..): &(Datatype, u64, u64, u64)| {
            View::new(*displacement, &unit, of.pattern().unwrap()).ok().filter(|v| v.is_rising() && v.pattern().size() > 0)
        };
        let (Some(first), Some(second)) = (made(&a), made(&b)) else { return Ok(()) };
        let (mine, theirs) = (a.2..a.2 + a.3, b.2..b.2 + b.3);
        let mut expected = Vec::new();
        for v in mine.clone() {
            let at = first.file_offset(v).unwrap();
            let w = second.count_below(at).unwrap();
            if theirs.contains(&w) && second.file_offset(w) == Some(at) {
                expected.push((at, v, w));
            }
        }
        let shared: Vec<(u64, u64, u64)> = first
            .overlaps(mine, &second, theirs)
            .unwrap()
            .flat_map(|o| (0..o.file.length).map(move |i| (o.file.offset + i, o.first + i, o.second + i)))
            .collect();
        prop_assert_eq!(shared, expected);
    }

    #[test]
    fn bytes_of_any_kind_never_panic_as_a_view(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(view) = View::decode(&bytes) {
            prop_assert_eq!(View::decode(&view.encode()).unwrap(), view.clone());
            view.extents(0..1000).take(1000).for_each(drop);
            view.count_below(1 << 20);
            view.file_offset(u64::MAX);
        }
    }

    #[test]
    fn a_changed_view_never_panics(of in datatype(), at in 0.0..1.0, bit in 0u32..8) {
        let unit = Datatype::Elementary(1).pattern().unwrap();
        let Ok(view) = View::new(1000, &unit, of.pattern().unwrap()) else { return Ok(()) };
        let mut bytes = view.encode();
        let at = (at * bytes.len() as f64) as usize;
        bytes[at] ^= 1 << bit;
        if let Ok(other) = View::decode(&bytes) {
            other.extents(0..100).take(100).for_each(drop);
            other.count_below(5000);
            if let Some(shared) = other.overlaps(0..100, &view, 0..100) {
                shared.take(100).for_each(drop);
            }
        }
    }
}

#[test]
fn the_worked_example_of_the_paper() {
    // A vector of 4 blocks of 1 byte at stride 4; stripes of 8 bytes on two servers.
    let filetype = Datatype::Vector { count: 4, block: 1, stride: 4, of: elementary(1) }.pattern().unwrap();
    let view = View::new(0, &Datatype::Elementary(1).pattern().unwrap(), filetype).unwrap();
    let extents = |range| view.extents(range).map(|e| (e.offset, e.length)).collect::<Vec<_>>();
    assert_eq!(extents(0..2), [(0, 1), (4, 1)]);
    assert_eq!(extents(2..4), [(8, 1), (12, 1)]);
    // Where the view crosses from the first stripe to the second.
    assert_eq!(view.count_below(8), Some(2));
}

#[test]
fn an_outline_keeps_the_outermost_repetitions() {
    // A box of 3 x 4 x 5 elements of 8 bytes in an array of 10 x 20 x 30, from (1, 2, 3) on.
    let of = Datatype::Subarray {
        sizes: vec![10, 20, 30],
        subsizes: vec![3, 4, 5],
        starts: vec![1, 2, 3],
        order: Order::C,
        of: elementary(8),
    };
    let pattern = of.pattern().unwrap();
    assert_eq!(pattern.depth(), 2);
    let first = (600 + 2 * 30 + 3) * 8;
    let outlines = [
        (0, vec![], first + (2 * 600 + 3 * 30 + 5) * 8),
        (1, vec![(3, 4800)], first + (3 * 30 + 5) * 8),
        (2, vec![(3, 4800), (4, 240)], first + 5 * 8),
        (9, vec![(3, 4800), (4, 240)], first + 5 * 8),
    ];
    for (depth, repeats, high) in outlines {
        let outline = pattern.outline(depth);
        assert_eq!((&outline.repeats, outline.low, outline.high), (&repeats, first, high));
        // Its runs cover the bytes of the view, instances included.
        let covers = View::of_outline(100, &outline, pattern.extent()).unwrap();
        let view = View::new(100, &Datatype::Elementary(1).pattern().unwrap(), pattern.clone()).unwrap();
        for v in 0..3 * pattern.size() {
            let at = view.file_offset(v).unwrap();
            assert_eq!(covers.count_below(at + 1).unwrap(), covers.count_below(at).unwrap() + 1, "byte {v}");
        }
        let all = covers.extents(0..covers.pattern().size()).count() as u64;
        assert!(all <= repeats.iter().map(|(count, _)| count).product::<u64>());
    }
    let outside = Outline { repeats: vec![(2, 1 << 62)], low: 0, high: 1 << 61 };
    assert!(View::of_outline(0, &outside, 1).is_err());
    assert!(View::of_outline(0, &Outline { repeats: vec![], low: 5, high: 4 }, 1).is_err());
}

#[test]
fn constructors_of_the_same_bytes_have_one_normal_form() {
    let float = || elementary(4);
    let block = |count, displacement| Block { count, displacement };
    // Rows 2 to 4 of 8 rows of 10, all of each: one run.
    let rows = Datatype::Subarray {
        sizes: vec![8, 10],
        subsizes: vec![3, 10],
        starts: vec![2, 0],
        order: Order::C,
        of: float(),
    };
    assert!(rows.pattern().unwrap().is_contiguous());
    // A column, five ways.
    let column = Datatype::Vector { count: 8, block: 1, stride: 10, of: float() };
    let same = [
        Datatype::Hvector { count: 8, block: 1, stride: 40, of: float() },
        Datatype::Indexed { blocks: (0..8).map(|i| block(1, 10 * i)).collect(), of: float() },
        Datatype::HindexedBlock { block: 1, displacements: (0..8).map(|i| 40 * i).collect(), of: float() },
        Datatype::Struct((0..8).map(|i| (block(1, 40 * i), Datatype::Elementary(4))).collect()),
        Datatype::Hvector {
            count: 2,
            block: 1,
            stride: 160,
            of: Box::new(Datatype::Hvector { count: 4, block: 1, stride: 40, of: float() }),
        },
    ];
    for of in same {
        assert_eq!(of.pattern().unwrap(), column.pattern().unwrap(), "{of:?}");
    }
}

#[test]
fn a_distributed_array_is_divided_among_its_processes() {
    // Each element belongs to one process, for every kind of distribution.
    let kinds = [
        (Distribution::Block(None), 3),
        (Distribution::Block(Some(5)), 3),
        (Distribution::Cyclic(None), 2),
        (Distribution::Cyclic(Some(3)), 4),
        (Distribution::None, 1),
    ];
    for (first, p) in kinds {
        for (second, q) in kinds {
            for order in [Order::C, Order::Fortran] {
                let mut seen = vec![0; 13 * 11 * 2];
                for rank in 0..p * q {
                    let of = Datatype::Darray {
                        rank,
                        sizes: vec![13, 11],
                        distributions: vec![first, second],
                        processes: vec![p, q],
                        order,
                        of: elementary(2),
                    };
                    let pattern = of.pattern().unwrap();
                    assert_eq!((pattern.lower(), pattern.extent()), (0, 13 * 11 * 2));
                    assert!(pattern.is_rising());
                    bytes_of(&pattern, 0).into_iter().for_each(|at| seen[at as usize] += 1);
                }
                assert!(seen.iter().all(|n| *n == 1), "{first:?} {second:?} {order:?}");
            }
        }
    }
}

#[test]
fn large_counts_cost_nothing() {
    // 2^40 doubles, every third one.
    let of = Datatype::Vector { count: 1 << 40, block: 1, stride: 3, of: elementary(8) };
    let view = View::new(64, &Datatype::Elementary(8).pattern().unwrap(), of.pattern().unwrap()).unwrap();
    assert!(view.encode().len() < 40);
    let middle = 8 * (1 << 39);
    assert_eq!(view.file_offset(middle), Some(64 + 24 * (1 << 39)));
    assert_eq!(view.count_below(64 + 24 * (1 << 39)), Some(middle));
    assert_eq!(view.extents(middle..middle + 16).count(), 2);
    // Two views that meet once, far away: passed over at once, not block by block.
    let one = View::new(64 + 24 * (1 << 39), &Datatype::Elementary(1).pattern().unwrap(), {
        let of = Datatype::Resized { lower: 0, extent: 1 << 50, of: elementary(100) };
        of.pattern().unwrap()
    })
    .unwrap();
    let shared: Vec<_> = view.overlaps(0..8 << 40, &one, 0..100).unwrap().collect();
    assert_eq!(shared.len(), 5);
    assert_eq!((shared[0].first, shared[0].second), (middle, 0));
}

#[test]
fn what_is_no_datatype_is_refused() {
    let refused = |of: Datatype, kind| assert_eq!(of.pattern().unwrap_err().kind(), kind, "{of:?}");
    use ErrorKind::{InvalidArgument, OutOfBounds};
    refused(Datatype::Contiguous { count: 1 << 60, of: elementary(8) }, OutOfBounds);
    refused(Datatype::Hvector { count: 3, block: 1, stride: i64::MAX, of: elementary(1) }, OutOfBounds);
    refused(Datatype::Elementary(u64::MAX), OutOfBounds);
    let part = |sizes: &[u64], subsizes: &[u64], starts: &[u64]| Datatype::Subarray {
        sizes: sizes.into(),
        subsizes: subsizes.into(),
        starts: starts.into(),
        order: Order::C,
        of: elementary(1),
    };
    refused(part(&[4], &[3], &[2]), InvalidArgument);
    refused(part(&[4, 4], &[3], &[0, 0]), InvalidArgument);
    refused(part(&[], &[], &[]), InvalidArgument);
    let divided = |rank, distribution, processes| Datatype::Darray {
        rank,
        sizes: vec![10],
        distributions: vec![distribution],
        processes: vec![processes],
        order: Order::C,
        of: elementary(1),
    };
    refused(divided(3, Distribution::Block(None), 3), InvalidArgument);
    refused(divided(0, Distribution::Block(Some(3)), 3), InvalidArgument);
    refused(divided(0, Distribution::None, 2), InvalidArgument);
    refused(divided(0, Distribution::Cyclic(Some(0)), 2), InvalidArgument);
    let mut deep = Datatype::Elementary(1);
    for _ in 0..1000 {
        deep = Datatype::Dup(Box::new(deep));
    }
    refused(deep, InvalidArgument);

    let byte = Datatype::Elementary(1).pattern().unwrap();
    let view = |displacement, etype: u64, of: Datatype| {
        View::new(displacement, &Datatype::Elementary(etype).pattern().unwrap(), of.pattern().unwrap())
            .map_err(|e| e.kind())
    };
    assert_eq!(view(0, 8, Datatype::Elementary(12)), Err(InvalidArgument));
    assert_eq!(view(0, 0, Datatype::Elementary(12)), Err(InvalidArgument));
    let before = || Datatype::Hindexed { blocks: vec![Block { count: 1, displacement: -4 }], of: elementary(4) };
    assert_eq!(view(3, 1, before()), Err(InvalidArgument));
    assert!(view(4, 1, before()).is_ok());
    let still = Datatype::Resized { lower: 0, extent: 0, of: elementary(4) };
    assert_eq!(view(0, 1, still), Err(InvalidArgument));
    assert!(View::new(0, &byte, Datatype::Elementary(0).pattern().unwrap()).is_ok());
}
