//! Blocks that went through a lossy transform match by the values that readers get, whatever their characteristics are of.

use std::sync::Arc;
use thalweg_comm::Communicator;
use thalweg_comm::alone::Alone;
use thalweg_io::{Mode, Session};
use thalweg_layout::{Direct, Layout};
use thalweg_query::{NonFinite, Number, Operator, Query};
use thalweg_reader::Reader;
use thalweg_store::Memory;
use thalweg_types::Selection;

const BLOCKS: u64 = 8;
const LENGTH: u64 = 64;

fn written(transform: &str) -> Reader {
    let xml = format!(
        "<adios-config><adios-group name=\"g\"><var name=\"at\" type=\"unsigned long\"/>\
         <global-bounds dimensions=\"{}\" offsets=\"at\"><var name=\"v\" type=\"double\" dimensions=\"{LENGTH}\" \
         transform=\"{transform}\"/></global-bounds></adios-group><method group=\"g\" method=\"MPI\"/></adios-config>",
        BLOCKS * LENGTH
    );
    let layout: Arc<dyn Layout> = Arc::new(Direct::new(Arc::new(Memory::new())).unwrap());
    let schema = thalweg_schema::parse(&xml, "t.xml").unwrap();
    let session = Session::with_layout(schema, layout.clone(), Alone::new().duplicate().unwrap()).unwrap();
    let mut output = session.open("g", "x.bp", Mode::Write, Box::new(Alone::new())).unwrap();
    for block in 0..BLOCKS {
        output.write_values("at", &[block * LENGTH]).unwrap();
        let values: Vec<f64> =
            (0..LENGTH).map(|i| block as f64 + (0.37 * (i * i) as f64).sin() * (1.0 + block as f64)).collect();
        output.write_values("v", &values).unwrap();
    }
    output.close().unwrap();
    session.finalize().unwrap();
    Reader::open(layout, "x.bp").unwrap()
}

#[test]
fn matches_are_those_of_the_values_that_are_read() {
    for transform in ["zfp:error=0.4", "zfp:relative_error=0.05", "zfp:accuracy=0.4", "zfp:rate=4", "zlib"] {
        let reader = written(transform);
        let values = reader.read_as::<f64>("v", 0, &Selection::All).unwrap();
        let mut extremes = Vec::new();
        for (block, values) in reader.blocks("v", 0).unwrap().iter().zip(values.chunks(LENGTH as usize)) {
            let statistics = block.statistics.as_ref().unwrap();
            for number in [&statistics.min, &statistics.max].map(|v| Number::of(v).unwrap().as_f64()) {
                extremes.extend([number.next_down(), number, number.next_up()]);
            }
            extremes.extend(values.iter().copied().reduce(f64::min));
            extremes.extend(values.iter().copied().reduce(f64::max));
        }
        for threshold in extremes {
            for (operator, holds) in [
                (Operator::Greater, (|v, t| v > t) as fn(&f64, &f64) -> bool),
                (Operator::GreaterOrEqual, |v, t| v >= t),
                (Operator::Less, |v, t| v < t),
                (Operator::LessOrEqual, |v, t| v <= t),
                (Operator::Equal, |v, t| v == t),
            ] {
                let expected: Vec<u64> =
                    values.iter().enumerate().filter(|(_, v)| holds(v, &threshold)).map(|(i, _)| i as u64).collect();
                let query = Query::compare("v", operator, Number::Real(threshold));
                let found = query.evaluate(&reader, 0).unwrap().next_batch(10_000).unwrap();
                assert_eq!(found.places, expected, "{transform}: {operator:?} {threshold}");
            }
        }
    }
}

#[test]
fn measured_blocks_are_not_read_where_their_characteristics_decide() {
    let candidates = |transform: &str| {
        let query = Query::compare("v", Operator::Less, Number::Real(-1e6));
        query.blocks(&written(transform), 0, NonFinite::Compared).unwrap().len()
    };
    assert_eq!(candidates("zfp:error=0.4"), 0);
    assert_eq!(candidates("zfp:accuracy=0.4"), BLOCKS as usize);
}
