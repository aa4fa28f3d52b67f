//! Whatever is asked, the matches are those that looking at every value finds.

mod common;

use common::*;
use proptest::prelude::*;
use thalweg_query::{Answer, How, NonFinite, Number, Operator, Query};
use thalweg_reader::{Kind, Reader};
use thalweg_types::{BoundingBox, ByteOrder, ElementType, Selection, Value};

const OPERATORS: [Operator; 6] = [
    Operator::Less,
    Operator::LessOrEqual,
    Operator::Greater,
    Operator::GreaterOrEqual,
    Operator::Equal,
    Operator::NotEqual,
];

/// Values that collide with each other and with what is asked.
fn values(element: ElementType) -> BoxedStrategy<Value> {
    use ElementType::*;
    let odd = prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(f64::NEG_INFINITY), Just(-0.0)];
    let real = prop_oneof![8 => (-4i8..5).prop_map(|v| f64::from(v) / 2.0), 1 => odd].boxed();
    match element {
        F64 => real.prop_map(Value::F64).boxed(),
        F32 => real.prop_map(|v| Value::F32(v as f32)).boxed(),
        Complex => (real.clone(), real).prop_map(|(a, b)| Value::Complex([a as f32, b as f32])).boxed(),
        DoubleComplex => (real.clone(), real).prop_map(|(a, b)| Value::DoubleComplex([a, b])).boxed(),
        I8 => (-3i8..4).prop_map(Value::I8).boxed(),
        I32 => (-3i32..4).prop_map(Value::I32).boxed(),
        I64 => prop_oneof![-2i64..3, Just(i64::MIN), Just(i64::MAX), Just((1 << 53) + 1)].prop_map(Value::I64).boxed(),
        _ => prop_oneof![0u64..3, Just(u64::MAX), Just(u64::MAX - 1)].prop_map(Value::U64).boxed(),
    }
}

fn numbers() -> impl Strategy<Value = Number> {
    prop_oneof![
        4 => (-5i8..6).prop_map(|v| Number::Real(f64::from(v) / 2.0)),
        2 => (-3i8..4).prop_map(Number::from),
        1 => prop_oneof![
            Just(Number::from(i64::MIN)),
            Just(Number::from(i64::MAX)),
            Just(Number::from(u64::MAX)),
            Just(Number::Real(9_007_199_254_740_992.0)),
            Just(Number::GREATEST),
            Just(Number::LEAST),
        ],
    ]
}

/// Boxes inside a shape; they may overlap, be empty, and leave holes.
fn boxes(shape: [u64; 2], most: usize) -> impl Strategy<Value = Vec<BoundingBox>> {
    prop::collection::vec(one_box(shape), 1..most)
}

fn one_box(shape: [u64; 2]) -> impl Strategy<Value = BoundingBox> {
    (0..=shape[0], 0..=shape[0], 0..=shape[1], 0..=shape[1]).prop_map(|(a, b, c, d)| {
        let (y, x) = ((a.min(b), a.max(b)), (c.min(d), c.max(d)));
        BoundingBox::new([y.0, x.0], [y.1 - y.0, x.1 - x.0])
    })
}

/// Blocks cut from the whole as programs cut them.
fn tiles(shape: [u64; 2]) -> impl Strategy<Value = Vec<BoundingBox>> {
    (1..=shape[0], 1..=shape[1]).prop_map(move |(h, w)| {
        let rows = (0..shape[0].div_ceil(h)).map(move |i| (i * h, h.min(shape[0] - i * h)));
        rows.flat_map(|(y, h)| {
            (0..shape[1].div_ceil(w)).map(move |j| BoundingBox::new([y, j * w], [h, w.min(shape[1] - j * w)]))
        })
        .collect()
    })
}

fn array(shape: [u64; 2]) -> impl Strategy<Value = Array> {
    use ElementType::*;
    let types = prop::sample::select(vec![F64, F32, I8, I32, I64, U64, Complex, DoubleComplex]);
    let stats = prop::sample::select(vec!["full", "full", "minmax", "off"]);
    let blocks = prop_oneof![2 => tiles(shape).boxed(), 1 => boxes(shape, 5).boxed()];
    (types, stats, blocks).prop_flat_map(move |(element, stats, boxes)| {
        let sizes: Vec<usize> = boxes.iter().map(|b| b.elements().unwrap() as usize).collect();
        // Blocks of few different values, so that some match or fail as a whole.
        let block = move |n: usize| {
            let same = values(element).prop_map(move |v| vec![v; n]);
            prop_oneof![1 => same.boxed(), 2 => prop::collection::vec(values(element), n).boxed()]
        };
        let values: Vec<_> = sizes.into_iter().map(block).collect();
        (Just(element), Just(stats), Just(boxes), values).prop_map(move |(element, stats, boxes, values)| Array {
            element,
            stats,
            shape,
            blocks: last_values(boxes.into_iter().zip(values)),
        })
    })
}

/// Blocks as a file has them: a box that a rank writes again has the place of the first and the values of the last.
fn last_values(written: impl Iterator<Item = (BoundingBox, Vec<Value>)>) -> Vec<(BoundingBox, Vec<Value>)> {
    let mut blocks: Vec<(BoundingBox, Vec<Value>)> = Vec::new();
    for (place, values) in written {
        match blocks.iter_mut().find(|(known, _)| *known == place && !values.is_empty()) {
            Some((_, known)) => *known = values,
            None => blocks.push((place, values)),
        }
    }
    blocks
}

/// A comparison before it knows its selection: variable, operator, number.
#[derive(Debug, Clone)]
enum Tree {
    Compare(usize, Operator, Number),
    All(Vec<Tree>),
    Any(Vec<Tree>),
}

fn trees() -> impl Strategy<Value = Tree> {
    let leaf = (0usize..2, prop::sample::select(OPERATORS.to_vec()), numbers());
    let leaf = leaf.prop_map(|(v, o, n)| Tree::Compare(v, o, n));
    leaf.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..4).prop_map(Tree::All),
            prop::collection::vec(inner, 1..4).prop_map(Tree::Any),
        ]
    })
}

/// Where values of both variables are compared.
#[derive(Debug, Clone)]
enum Region {
    Whole,
    /// A box of this size at two places.
    Boxes([BoundingBox; 2]),
    Points([Vec<Vec<u64>>; 2]),
    /// The same block of the first variable in both comparisons.
    Block(usize),
}

impl Region {
    fn of(&self, variable: usize) -> Selection {
        match self {
            Region::Whole => Selection::All,
            Region::Boxes(boxes) => Selection::Box(boxes[variable].clone()),
            Region::Points(points) => Selection::Points(points[variable].clone()),
            Region::Block(n) => Selection::Block(*n as u64),
        }
    }
}

fn regions(shape: [u64; 2]) -> impl Strategy<Value = Region> {
    let place = move |count: [u64; 2]| {
        (0..=shape[0] - count[0], 0..=shape[1] - count[1])
            .prop_map(move |(y, x)| BoundingBox::new([y, x], [count[0], count[1]]))
    };
    let boxes = (0..=shape[0], 0..=shape[1]).prop_flat_map(move |(h, w)| [place([h, w]), place([h, w])]);
    let point = (0..shape[0], 0..shape[1]).prop_map(|(y, x)| vec![y, x]);
    let points = prop::collection::vec((point.clone(), point), 0..12);
    prop_oneof![
        2 => Just(Region::Whole),
        3 => boxes.prop_map(Region::Boxes),
        2 => points.prop_map(|p| { let (a, b) = p.into_iter().unzip(); Region::Points([a, b]) }),
        1 => (0usize..5).prop_map(Region::Block),
    ]
}

fn query(tree: &Tree, region: &Region) -> Query {
    match tree {
        Tree::Compare(v, o, n) => {
            let v = if matches!(region, Region::Block(_)) { 0 } else { *v };
            Query::compare(NAMES[v], *o, *n).within(&region.of(v))
        }
        Tree::All(parts) => Query::All(parts.iter().map(|p| query(p, region)).collect()),
        Tree::Any(parts) => Query::Any(parts.iter().map(|p| query(p, region)).collect()),
    }
}

/// Whether one value matches, as plainly as can be said.
fn holds(value: &Value, operator: Operator, number: Number, non_finite: NonFinite) -> bool {
    let parts: Vec<f64> = match value {
        Value::F64(v) => vec![*v],
        Value::F32(v) => vec![f64::from(*v)],
        Value::Complex(v) => v.iter().map(|v| f64::from(*v)).collect(),
        Value::DoubleComplex(v) => v.to_vec(),
        _ => vec![],
    };
    if non_finite == NonFinite::Left && parts.iter().any(|p| !p.is_finite()) {
        return false;
    }
    let of = match parts[..] {
        [re, im] => Number::Real(re.hypot(im)),
        _ => Number::of(value).unwrap(),
    };
    if of.is_nan() { operator == Operator::NotEqual } else { operator.holds(of.compare(number)) }
}

/// The value at a place: that of the last block that holds it.
fn value_at(array: &Array, at: &[u64]) -> Option<Value> {
    let (bounds, values) =
        array.blocks.iter().rev().find(|(b, _)| b.intersect(&BoundingBox::new(at, [1, 1])).is_some())?;
    let place = (at[0] - bounds.offset[0]) * bounds.count[1] + at[1] - bounds.offset[1];
    Some(values[place as usize].clone())
}

/// The values of a selection, in order; `None` where no block covers a place.
fn values_in(array: &Array, selection: &Selection) -> Vec<Option<Value>> {
    let in_box = |b: &BoundingBox| -> Vec<Option<Value>> {
        let rows = b.offset[0]..b.offset[0] + b.count[0];
        rows.flat_map(|y| (b.offset[1]..b.offset[1] + b.count[1]).map(move |x| [y, x]))
            .map(|p| value_at(array, &p))
            .collect()
    };
    match selection {
        Selection::All => in_box(&BoundingBox::new([0, 0], array.shape)),
        Selection::Box(b) => in_box(b),
        Selection::Points(points) => points.iter().map(|p| value_at(array, p)).collect(),
        Selection::Block(n) => array.blocks[*n as usize].1.iter().cloned().map(Some).collect(),
        Selection::Strided { .. } => unreachable!("queries refuse it"),
    }
}

fn brute(query: &Query, arrays: &[Array; 2], non_finite: NonFinite) -> Vec<bool> {
    match query {
        Query::Compare(c) => {
            let array = &arrays[NAMES.iter().position(|n| *n == c.variable).unwrap()];
            let all = values_in(array, &c.selection).into_iter();
            all.map(|v| v.is_some_and(|v| holds(&v, c.operator, c.number, non_finite))).collect()
        }
        Query::All(parts) | Query::Any(parts) => {
            let all = matches!(query, Query::All(_));
            let parts: Vec<Vec<bool>> = parts.iter().map(|p| brute(p, arrays, non_finite)).collect();
            let fits = |i: usize| if all { parts.iter().all(|p| p[i]) } else { parts.iter().any(|p| p[i]) };
            (0..parts[0].len()).map(fits).collect()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 1000 } else { 4000 }))]

    #[test]
    fn a_query_finds_what_looking_at_every_value_finds(
        (a, b, region) in (1u64..8, 1u64..8).prop_flat_map(|(h, w)| (array([h, w]), array([h, w]), regions([h, w]))),
        tree in trees(),
        memory in prop_oneof![Just(1u64), 1u64..2000, Just(1 << 20)],
        batch in 1u64..20,
        compared in any::<bool>(),
    ) {
        let region = match region {
            Region::Block(n) => Region::Block(n % a.blocks.len()),
            other => other,
        };
        let non_finite = if compared { NonFinite::Compared } else { NonFinite::Left };
        let arrays = [a, b];
        let reader = written(&arrays);
        let query = query(&tree, &region);
        let expected: Vec<u64> = brute(&query, &arrays, non_finite)
            .into_iter()
            .enumerate()
            .filter_map(|(i, m)| m.then_some(i as u64))
            .collect();

        let mut evaluation = query.evaluate_with(&reader, 0, &How { memory, non_finite }).unwrap();
        let mut found = Vec::new();
        loop {
            let next = evaluation.next_batch(batch).unwrap();
            prop_assert!(next.places.len() as u64 <= batch);
            prop_assert_eq!(next.more, found.len() + next.places.len() < expected.len(), "{}", query);
            found.extend(next.places);
            prop_assert_eq!(evaluation.found(), found.len() as u64);
            if !next.more {
                break;
            }
        }
        prop_assert_eq!(&found, &expected, "{}", query);
        prop_assert_eq!(evaluation.next_batch(batch).unwrap().places.len(), 0);

        if compared {
            let estimate = query.estimate(&reader, 0).unwrap();
            let n = expected.len() as u64;
            prop_assert!(estimate.least <= n && n <= estimate.most, "{} {:?} {}", query, estimate, n);
            prop_assert!((estimate.least..=estimate.most).contains(&estimate.likely));
        }

        // No block with a match is ruled out, and one that is certain matches as a whole.
        let first = query.comparisons()[0].clone();
        let array = &arrays[NAMES.iter().position(|n| *n == first.variable).unwrap()];
        let candidates = query.blocks(&reader, 0, non_finite).unwrap();
        let last_of = |at: &[u64]| {
            let point = BoundingBox::new(at, [1, 1]);
            array.blocks.iter().rposition(|(b, _)| b.intersect(&point).is_some())
        };
        let owner = |place: u64| match &first.selection {
            Selection::Block(n) => Some(*n as usize),
            _ => last_of(&evaluation.index_of(place)),
        };
        for place in &expected {
            if let Some(n) = owner(*place) {
                prop_assert!(candidates.iter().any(|c| c.block == n as u64), "{} {:?}", query, candidates);
            }
        }
        let all = brute(&query, &arrays, non_finite);
        for certain in candidates.iter().filter(|c| c.answer == Answer::Yes) {
            for (place, matches) in all.iter().enumerate() {
                if owner(place as u64) == Some(certain.block as usize) {
                    prop_assert!(*matches, "{} {:?}", query, certain);
                }
            }
        }
    }
}

/// Every number of every file that other programs wrote, compared with one of its own values.
#[test]
fn files_of_other_writers_are_searched_right() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/foreign");
    let mut compared = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !name.ends_with(".bp") {
            continue;
        }
        let Ok(reader) = Reader::open(disk(&folder), &name) else { continue };
        for head in reader.variables() {
            let Ok(variable) = reader.variable(&head.name) else { continue };
            if variable.element.is_text() || variable.kind == Kind::Scalar {
                continue;
            }
            let size = variable.element.size() as usize;
            for step in variable.steps {
                for block in reader.blocks(&head.name, step).unwrap() {
                    let selection = Selection::Block(block.number);
                    let Ok(bytes) = reader.read_to_vec(&head.name, step, &selection) else { continue };
                    let all: Vec<Value> = bytes
                        .chunks_exact(size)
                        .map(|b| Value::from_bytes(variable.element, b, ByteOrder::NATIVE).unwrap())
                        .collect();
                    let Some(number) = all.first().and_then(|v| match v {
                        Value::Complex([re, im]) => Some(Number::Real(f64::from(*re).hypot(f64::from(*im)))),
                        Value::DoubleComplex([re, im]) => Some(Number::Real(re.hypot(*im))),
                        other => Number::of(other),
                    }) else {
                        continue;
                    };
                    if number.is_nan() {
                        continue;
                    }
                    for operator in OPERATORS {
                        let query = Query::compare(&*head.name, operator, number).within(&selection);
                        let expected: Vec<u64> = all
                            .iter()
                            .enumerate()
                            .filter(|(_, v)| holds(v, operator, number, NonFinite::Compared))
                            .map(|(i, _)| i as u64)
                            .collect();
                        let found = query.evaluate(&reader, step).unwrap().next_batch(u64::MAX).unwrap();
                        assert_eq!(found.places, expected, "{name}: {query} in block {} of step {step}", block.number);
                        compared += 1;
                    }
                }
            }
        }
    }
    assert!(compared > 1000, "{compared} comparisons");
}
