//! Arrays with an error bound are read back within it from any number of ranks, and the file says how large the errors are.

use std::sync::Arc;
use thalweg_comm::Communicator;
use thalweg_comm::threads;
use thalweg_io::{Mode, Session};
use thalweg_layout::{Direct, Layout};
use thalweg_reader::{BoundedForm, ErrorBound, Lossless, Reader, RecoverOptions, recover, verify};
use thalweg_store::{Memory, StoreExt};
use thalweg_types::{Selection, Value};

const NY: u64 = 48;
const NX: u64 = 40;
const STEPS: u64 = 2;

fn xml(method: &str, transform: &str) -> String {
    let array = |name: &str, element: &str| {
        format!(r#"<var name="{name}" type="{element}" dimensions="ny,{NX}" transform="{transform}"/>"#)
    };
    format!(
        r#"<adios-config host-language="C"><adios-group name="g">
        <var name="ny" type="unsigned long"/><var name="oy" type="unsigned long"/>
        <global-bounds dimensions="{NY},{NX}" offsets="oy,0">{}{}{}{}</global-bounds></adios-group>
        <method group="g" method="{method}"/></adios-config>"#,
        array("double", "double"),
        array("single", "real"),
        array("spiked", "real"),
        array("masked", "double")
    )
}

fn value(step: u64, y: u64, x: u64) -> f64 {
    280.0 + 15.0 * (0.11 * y as f64).sin() * (0.07 * x as f64).cos() + step as f64
}

/// NaN in the first rows.
fn masked(step: u64, y: u64, x: u64) -> f64 {
    if y < 5 && x > 7 { f64::NAN } else { value(step, y, x) }
}

/// Large values, beside which zfp has few digits for small ones.
fn spiked(step: u64, y: u64, x: u64) -> f64 {
    let scale = if x.is_multiple_of(7) { 1e6 } else { 1.0 };
    f64::from((value(step, y, x) * scale) as f32)
}

fn write(layout: &Arc<dyn Layout>, method: &str, transform: &str, ranks: u32, limit: Option<u64>) {
    let text = xml(method, transform);
    threads::run(ranks, |comm| {
        let schema = thalweg_schema::parse(&text, "t.xml").unwrap();
        let session = Session::with_layout(schema, layout.clone(), comm.duplicate().unwrap()).unwrap();
        session.set_buffer_limit(limit);
        let (rank, ranks) = (comm.rank() as u64, comm.size() as u64);
        let (from, to) = (rank * NY / ranks, (rank + 1) * NY / ranks);
        for step in 0..STEPS {
            let mode = if step == 0 { Mode::Write } else { Mode::Append };
            let all = |f: &dyn Fn(u64, u64, u64) -> f64| -> Vec<f64> {
                (0..(to - from) * NX).map(|i| f(step, from + i / NX, i % NX)).collect()
            };
            let mut out = session.open("g", "f.bp", mode, comm.duplicate().unwrap()).unwrap();
            out.write_values("ny", &[to - from]).unwrap();
            out.write_values("oy", &[from]).unwrap();
            out.write_values("double", &all(&value)).unwrap();
            out.write_values("single", &all(&value).iter().map(|v| *v as f32).collect::<Vec<f32>>()).unwrap();
            out.write_values("spiked", &all(&spiked).iter().map(|v| *v as f32).collect::<Vec<f32>>()).unwrap();
            out.write_values("masked", &all(&masked)).unwrap();
            out.close().unwrap();
        }
        session.finalize().unwrap();
        let least = thalweg_io::registry::find(method).unwrap().least;
        assert!(limit.is_none_or(|l| session.buffer().peak() <= l.max(least)), "{}", session.buffer().peak());
        assert_eq!(session.buffer().used(), 0);
    });
}

fn memory() -> (Arc<Memory>, Arc<dyn Layout>) {
    let store = Arc::new(Memory::new());
    let layout = Direct::new(store.clone()).unwrap();
    (store, Arc::new(layout))
}

/// Compares every block with its error record and statistics; returns how many are without loss.
fn check(layout: &Arc<dyn Layout>, bound: ErrorBound) -> u64 {
    let reader = Reader::open(layout.clone(), "f.bp").unwrap();
    let mut lossless = 0;
    for name in ["double", "single", "spiked", "masked"] {
        let given = |step: u64, y: u64, x: u64| match name {
            "double" => value(step, y, x),
            "single" => f64::from(value(step, y, x) as f32),
            "spiked" => spiked(step, y, x),
            _ => masked(step, y, x),
        };
        let (mut largest_of_all, mut lossless_of_all) = (0f64, 0);
        for block in (0..STEPS).flat_map(|step| reader.blocks(name, step).unwrap()) {
            let record = block.error_record().unwrap().unwrap();
            assert_eq!(record.bound, bound);
            let selection = Selection::Block(block.number);
            let got: Vec<f64> = match name {
                "single" | "spiked" => {
                    let got = reader.read_as::<f32>(name, block.step, &selection).unwrap();
                    got.into_iter().map(f64::from).collect()
                }
                _ => reader.read_as(name, block.step, &selection).unwrap(),
            };
            let wanted: Vec<f64> =
                (0..got.len() as u64).map(|i| given(block.step, block.offset[0] + i / NX, i % NX)).collect();
            if record.form != BoundedForm::Encoded {
                let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<u64>>();
                assert_eq!(bits(&got), bits(&wanted), "{name}");
                lossless_of_all += 1;
            } else {
                let (min, max) = wanted.iter().fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(*v), b.max(*v)));
                assert_eq!(record.allowed, bound.allowed(max - min));
                let largest = got.iter().zip(&wanted).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(largest <= record.allowed && largest > 0.0, "{name}: {largest} of {}", record.allowed);
                assert!(record.largest == largest || record.largest == largest.next_up());
                largest_of_all = largest_of_all.max(record.largest);
            }
            // Characteristics are of the values that are read.
            let statistics = block.statistics.as_ref().unwrap();
            let finite = || got.iter().copied().filter(|v| v.is_finite());
            let as_real = |v: &Value| v.as_f64().unwrap();
            assert_eq!(as_real(&statistics.min), finite().fold(f64::INFINITY, f64::min), "{name}");
            assert_eq!(as_real(&statistics.max), finite().fold(f64::NEG_INFINITY, f64::max), "{name}");
        }
        let errors = reader.summary(name, 0..STEPS).unwrap().errors.unwrap();
        assert_eq!((errors.bound, errors.largest), (Some(bound), largest_of_all));
        assert_eq!((errors.lossless, errors.unrecorded), (lossless_of_all, 0));
        lossless += lossless_of_all;
    }
    assert_eq!(verify(&**layout, "f.bp").unwrap().findings, []);
    lossless
}

#[test]
fn values_from_any_number_of_ranks_keep_to_the_bound() {
    for (text, bound) in
        [("zfp:error=0.01", ErrorBound::Absolute(0.01)), ("zfp:relative_error=1e-4", ErrorBound::Relative(1e-4))]
    {
        for method in ["MPI", "POSIX"] {
            for ranks in [1, 2, 4] {
                let (_, layout) = memory();
                write(&layout, method, text, ranks, None);
                // The rank that has the NaNs, and where an absolute bound cannot be kept, in each step.
                let spiked = if matches!(bound, ErrorBound::Absolute(_)) { u64::from(ranks) } else { 0 };
                assert_eq!(check(&layout, bound), STEPS * (1 + spiked), "{text}, {method}, {ranks}");
            }
        }
    }
}

#[test]
fn the_reason_for_a_block_without_loss_is_recorded() {
    let (_, layout) = memory();
    write(&layout, "MPI", "zfp:error=0.01", 3, None);
    let reader = Reader::open(layout, "f.bp").unwrap();
    let reasons = |name: &str| -> Vec<Option<Lossless>> {
        let blocks = reader.blocks(name, 0).unwrap();
        blocks.iter().map(|b| b.error_record().unwrap().unwrap().lossless).collect()
    };
    assert_eq!(reasons("spiked"), [Some(Lossless::Exceeded); 3]);
    assert_eq!(reasons("double"), [None; 3]);
    assert_eq!(reasons("masked"), [Some(Lossless::NotFinite), None, None]);
}

#[test]
fn a_buffer_limit_holds_and_blocks_without_room_are_lossless() {
    let bound = ErrorBound::Absolute(0.01);
    for (limit, lossless) in [(0, 16), (70_000, 16), (4_000_000, STEPS * (1 + 2))] {
        let (_, layout) = memory();
        write(&layout, "MPI", "zfp:error=0.01", 2, Some(limit));
        assert_eq!(check(&layout, bound), lossless, "{limit}");
    }
}

#[test]
fn a_lost_index_is_made_again_with_the_recorded_errors() {
    let (store, layout) = memory();
    write(&layout, "MPI", "zfp:error=0.01", 3, None);
    let mut bytes = store.read_all("f.bp").unwrap();
    bytes.truncate(bytes.len() - thalweg_bp::footer::FOOTER as usize);
    for magic in [thalweg_bp::extension::MAGIC, thalweg_bp::step_record::MAGIC] {
        while let Some(at) = bytes.windows(8).position(|w| w == magic) {
            bytes[at] ^= 0x20;
        }
    }
    store.write_all("f.bp", &bytes).unwrap();
    assert_eq!(recover(&*layout, "f.bp", RecoverOptions::default()).unwrap().steps, STEPS);
    assert_eq!(check(&layout, ErrorBound::Absolute(0.01)), STEPS * (1 + 3));
}

#[test]
fn other_transforms_of_zfp_say_that_errors_are_not_measured() {
    let (_, layout) = memory();
    write(&layout, "MPI", "zfp:accuracy=0.01", 2, None);
    let reader = Reader::open(layout, "f.bp").unwrap();
    let errors = reader.summary("double", 0..STEPS).unwrap().errors.unwrap();
    assert_eq!((errors.blocks, errors.unrecorded, errors.bound), (0, 2 * STEPS, None));
    assert_eq!(reader.summary("ny", 0..STEPS).unwrap().errors, None);
}
