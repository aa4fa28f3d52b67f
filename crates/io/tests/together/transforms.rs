//! Transformed variables come back as they were written, within any buffer limit, and a file keeps to one transform.

use std::sync::Arc;
use thalweg_comm::Communicator;
use thalweg_comm::alone::Alone;
use thalweg_comm::threads;
use thalweg_io::{Mode, Session, WriteRequest};
use thalweg_layout::{Direct, Layout};
use thalweg_reader::{Reader, RecoverOptions, recover, verify};
use thalweg_store::{Memory, StoreExt};
use thalweg_types::{BoundingBox, ErrorKind, MemorySelection, Selection, Value};

const LOSSLESS: &[&str] = &[
    "identity",
    "zlib:5",
    "bzip2",
    "lz4:lvl=2",
    "blosc",
    "blosc:compressor=lz4,shuffle=byte,lvl=5",
    "blosc:compressor=zstd,shuffle=bit",
    "zstd:7",
];

/// Variable number `i` goes through transform number `i`.
fn xml(method: &str, transforms: &[&str]) -> String {
    let vars: String = transforms
        .iter()
        .enumerate()
        .map(|(i, t)| format!(r#"<var name="v{i}" type="double" dimensions="ny,nx" transform="{t}"/>"#))
        .collect();
    format!(
        r#"<adios-config host-language="C"><adios-group name="g">
        <var name="ny" type="integer"/><var name="nx" type="integer"/>
        <var name="gy" type="integer"/><var name="oy" type="integer"/>
        <global-bounds dimensions="gy,nx" offsets="oy,0">{vars}
          <var name="noise" type="unsigned integer" dimensions="ny,nx" transform="zlib"/>
          <var name="z" type="double complex" dimensions="ny,nx" transform="zlib"/>
          <var name="big" type="unsigned long" dimensions="ny,nx" transform="zstd"/>
        </global-bounds></adios-group>
        <method group="g" method="{method}"/></adios-config>"#
    )
}

const NY: u64 = 40;
const NX: u64 = 30;

fn value(variable: usize, step: u64, y: u64, x: u64) -> f64 {
    // In steps of 1/16, so that there is something to compress.
    ((160.0 + variable as f64) * (0.05 * (y * NX + x) as f64).sin()).round() / 16.0 + step as f64
}

fn noise(y: u64, x: u64) -> u32 {
    let mut h = (y * NX + x + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    h ^= h >> 29;
    (h.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32) as u32
}

/// Rows of rank `rank`; the last rank has none.
fn rows(rank: u64, ranks: u64) -> (u64, u64) {
    let writers = (ranks - 1).max(1);
    if rank >= writers { (NY, 0) } else { (rank * NY / writers, (rank + 1) * NY / writers - rank * NY / writers) }
}

fn write(session: &Session, comm: Box<dyn Communicator>, step: u64, transforms: usize) {
    let (rank, ranks) = (comm.rank() as u64, comm.size() as u64);
    let (from, n) = rows(rank, ranks);
    let mode = if step == 0 { Mode::Write } else { Mode::Append };
    let all = |f: &dyn Fn(u64, u64) -> f64| -> Vec<f64> { (0..n * NX).map(|i| f(from + i / NX, i % NX)).collect() };
    // Lives until close, as deferred memory must.
    let deferred: Vec<Vec<f64>> = (0..transforms).map(|v| all(&|y, x| value(v, step, y, x))).collect();
    let mut out = session.open("g", "f.bp", mode, comm).unwrap();
    out.group_size(8 * n * NX * (transforms as u64 + 4));
    out.write_values("ny", &[n as i32]).unwrap();
    out.write_values("nx", &[NX as i32]).unwrap();
    out.write_values("gy", &[NY as i32]).unwrap();
    out.write_values("oy", &[if n == 0 { 0 } else { from as i32 }]).unwrap();
    for (v, values) in deferred.iter().enumerate() {
        let name = format!("v{v}");
        match v % 3 {
            0 => out.write_values(&name, values).unwrap(),
            1 => out.put(WriteRequest::deferred(&name, bytemuck::cast_slice(values))).unwrap(),
            _ => {
                // The inside of an array with one ghost around.
                let (wide, high) = (NX + 2, n + 2);
                let mut ghosts = vec![f64::NAN; (wide * high) as usize];
                for y in 0..n {
                    let to = ((y + 1) * wide + 1) as usize;
                    ghosts[to..to + NX as usize].copy_from_slice(&values[(y * NX) as usize..((y + 1) * NX) as usize]);
                }
                out.put(
                    WriteRequest::new(&name, bytemuck::cast_slice(&ghosts))
                        .out_of(&MemorySelection::ghosts(&[n, NX], 1)),
                )
                .unwrap();
            }
        }
    }
    let numbers: Vec<u32> = (0..n * NX).map(|i| noise(from + i / NX, i % NX)).collect();
    out.write_values("noise", &numbers).unwrap();
    let z: Vec<f64> = (0..n * NX).flat_map(|i| [(i / 7) as f64, step as f64]).collect();
    out.write_values("z", &z).unwrap();
    out.write_values("big", &vec![u64::MAX / 1000; (n * NX) as usize]).unwrap();
    out.close().unwrap();
}

fn check(layout: &Arc<dyn Layout>, transforms: &[&str], steps: u64, loss: f64) {
    let reader = Reader::open(layout.clone(), "f.bp").unwrap();
    assert_eq!(reader.status().steps, steps);
    for (v, text) in transforms.iter().enumerate() {
        let name = format!("v{v}");
        let variable = reader.variable(&name).unwrap();
        assert_eq!(variable.transform.as_deref(), Some(text.split(':').next().unwrap()));
        assert_eq!((variable.shape.as_slice(), variable.steps.len() as u64), (&[NY, NX][..], steps));
        for step in 0..steps {
            let near = |got: f64, y: u64, x: u64| {
                let wanted = value(v, step, y, x);
                assert!((got - wanted).abs() <= loss, "{text}, step {step}, {y},{x}: {got} is not {wanted}");
            };
            let all = reader.read_as::<f64>(&name, step, &Selection::All).unwrap();
            all.iter().enumerate().for_each(|(i, got)| near(*got, i as u64 / NX, i as u64 % NX));
            let part = BoundingBox::new([NY / 2 - 3, 5], [6, 7]);
            let got = reader.read_as::<f64>(&name, step, &Selection::Box(part)).unwrap();
            got.iter().enumerate().for_each(|(i, got)| near(*got, NY / 2 - 3 + i as u64 / 7, 5 + i as u64 % 7));
            let points = vec![vec![NY - 1, 0], vec![0, NX - 1], vec![NY / 2, 3]];
            let got = reader.read_as::<f64>(&name, step, &Selection::Points(points.clone())).unwrap();
            got.iter().zip(&points).for_each(|(got, p)| near(*got, p[0], p[1]));
            let block = reader.blocks(&name, step).unwrap().into_iter().find(|b| b.elements() > 0).unwrap();
            let got = reader.read_as::<f64>(&name, step, &Selection::Block(block.number)).unwrap();
            got.iter().enumerate().for_each(|(i, got)| near(*got, block.offset[0] + i as u64 / NX, i as u64 % NX));
            // Characteristics are of the values given.
            let summary = reader.summary(&name, step..step + 1).unwrap();
            let values = || (0..NY * NX).map(|i| value(v, step, i / NX, i % NX));
            assert_eq!(summary.min, Some(Value::F64(values().fold(f64::INFINITY, f64::min))));
            assert_eq!(summary.max, Some(Value::F64(values().fold(f64::NEG_INFINITY, f64::max))));
        }
    }
    let got = reader.read_as::<u32>("noise", 0, &Selection::All).unwrap();
    assert!(got.iter().enumerate().all(|(i, n)| *n == noise(i as u64 / NX, i as u64 % NX)));
    let z = reader.summary("z", 0..steps).unwrap();
    assert_eq!(z.complex.unwrap()[2].max, (steps - 1) as f64);
    let big = reader.summary("big", 0..1).unwrap();
    assert_eq!(big.exact_sum, Some(i128::from(u64::MAX / 1000) * i128::from(NY * NX)));
    let report = verify(&**layout, "f.bp").unwrap();
    assert_eq!(report.findings, []);
}

fn memory() -> (Arc<Memory>, Arc<dyn Layout>) {
    let store = Arc::new(Memory::new());
    let layout = Direct::new(store.clone()).unwrap();
    (store, Arc::new(layout))
}

fn session(layout: &Arc<dyn Layout>, xml: &str, comm: Box<dyn Communicator>) -> Session {
    let schema = thalweg_schema::parse(xml, "t.xml").unwrap();
    Session::with_layout(schema, layout.clone(), comm).unwrap()
}

fn run(layout: &Arc<dyn Layout>, method: &str, ranks: u32, limit: Option<u64>, transforms: &'static [&'static str]) {
    let xml = xml(method, transforms);
    threads::run(ranks, |comm| {
        let session = session(layout, &xml, comm.duplicate().unwrap());
        session.set_buffer_limit(limit);
        for step in 0..3 {
            write(&session, comm.duplicate().unwrap(), step, transforms.len());
        }
        session.finalize().unwrap();
        let least = thalweg_io::registry::find(method).unwrap().least;
        assert!(limit.is_none_or(|l| session.buffer().peak() <= l.max(least)), "{}", session.buffer().peak());
        assert_eq!(session.buffer().used(), 0);
    });
}

#[test]
fn every_transform_gives_back_what_was_written_from_any_number_of_ranks() {
    for method in ["MPI", "POSIX"] {
        for ranks in [1, 2, 4] {
            let (_, layout) = memory();
            run(&layout, method, ranks, None, LOSSLESS);
            check(&layout, LOSSLESS, 3, 0.0);
        }
    }
}

#[test]
fn zfp_keeps_to_its_accuracy() {
    let (_, layout) = memory();
    let transforms = &["zfp:accuracy=0.001", "zfp:precision=40", "zfp:rate=32"];
    run(&layout, "MPI", 3, None, transforms);
    check(&layout, transforms, 3, 0.001);
}

#[test]
fn a_buffer_limit_holds_and_costs_size_but_no_value() {
    let (_, layout) = memory();
    for limit in [0, 1000, 70_000, 400_000] {
        run(&layout, "MPI", 2, Some(limit), LOSSLESS);
        check(&layout, LOSSLESS, 3, 0.0);
    }
}

#[test]
fn zfp_without_room_is_refused_and_the_output_goes_on() {
    let (_, layout) = memory();
    let session = session(&layout, &xml("MPI", &["zfp:rate=8"]), Box::new(Alone::new()));
    session.set_buffer_limit(Some(500));
    let mut out = session.open("g", "f.bp", Mode::Write, Box::new(Alone::new())).unwrap();
    for (name, n) in [("ny", 40i32), ("nx", 30), ("gy", 40), ("oy", 0)] {
        out.write_values(name, &[n]).unwrap();
    }
    let e = out.write_values("v0", &[1.0f64; 1200]).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NoMemory);
    assert!(e.to_string().contains("buffer limit"), "{e}");
    out.write_values("noise", &[1u32; 1200]).unwrap();
    out.close().unwrap();
}

#[test]
fn compression_makes_the_file_smaller() {
    let size = |transform: &'static str| {
        let (store, layout) = memory();
        let transforms: &'static [&'static str] = vec![transform; 6].leak();
        run(&layout, "MPI", 2, None, transforms);
        store.read_all("f.bp").unwrap().len()
    };
    let plain = size("identity");
    for transform in ["zlib:9", "zstd", "zfp:accuracy=0.01", "blosc:compressor=zstd,shuffle=byte,lvl=9"] {
        assert!(size(transform) * 10 < plain * 8, "{transform}");
    }
}

#[test]
fn a_lost_index_is_made_again_with_all_that_it_said() {
    let (store, layout) = memory();
    run(&layout, "MPI", 3, None, LOSSLESS);
    let whole = store.read_all("f.bp").unwrap();
    let footer = thalweg_bp::footer::FOOTER as usize;
    store.write_all("f.bp", &whole[..whole.len() - footer]).unwrap();
    // So that nothing of the index is left, every step record's and index's magic is broken.
    let mut bytes = store.read_all("f.bp").unwrap();
    for magic in [thalweg_bp::extension::MAGIC, thalweg_bp::step_record::MAGIC] {
        while let Some(at) = bytes.windows(8).position(|w| w == magic) {
            bytes[at] ^= 0x20;
        }
    }
    store.write_all("f.bp", &bytes).unwrap();
    let done = recover(&*layout, "f.bp", RecoverOptions::default()).unwrap();
    assert_eq!(done.steps, 3, "{done:?}");
    check(&layout, LOSSLESS, 3, 0.0);
}

#[test]
fn a_changed_byte_in_a_stored_block_is_found() {
    let (store, layout) = memory();
    run(&layout, "MPI", 1, None, LOSSLESS);
    let whole = store.read_all("f.bp").unwrap();
    let reader = Reader::open(layout.clone(), "f.bp").unwrap();
    for v in 0..LOSSLESS.len() {
        let block = reader.blocks(&format!("v{v}"), 1).unwrap().remove(0);
        let mut bytes = whole.clone();
        bytes[(block.payload.offset + block.payload.length / 2) as usize] ^= 4;
        store.write_all("f.bp", &bytes).unwrap();
        let report = verify(&*layout, "f.bp").unwrap();
        assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
        assert_eq!(report.findings[0].variable.as_deref(), Some(&*format!("v{v}")));
    }
}

#[test]
fn a_file_keeps_to_the_transform_it_began_with() {
    let (_, layout) = memory();
    let write_as = |transform: &str, mode: Mode| {
        let session = session(&layout, &xml("MPI", &[transform]), Box::new(Alone::new()));
        let mut out = session.open("g", "f.bp", mode, Box::new(Alone::new()))?;
        for (name, n) in [("ny", 40i32), ("nx", 30), ("gy", 40), ("oy", 0)] {
            out.write_values(name, &[n])?;
        }
        out.write_values("v0", &[1.0f64; 1200])?;
        out.close()?;
        session.finalize()
    };
    write_as("zlib:5", Mode::Write).unwrap();
    // Another level of the same is nothing that a reader sees.
    write_as("zlib:9", Mode::Append).unwrap();
    for other in ["zstd", "none", "identity"] {
        let e = write_as(other, Mode::Append).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported);
        assert!(e.to_string().contains("through zlib"), "{e}");
        assert_eq!(e.place().variable.as_deref(), Some("v0"));
    }
    let reader = Reader::open(layout.clone(), "f.bp").unwrap();
    assert_eq!(reader.read_as::<f64>("v0", 1, &Selection::All).unwrap(), vec![1.0; 1200]);
}

#[test]
fn ranks_that_disagree_on_the_transform_are_refused() {
    let (_, layout) = memory();
    threads::run(2, |comm| {
        let transform = ["zlib", "none"][comm.rank() as usize];
        let session = session(&layout, &xml("MPI", &[transform]), comm.duplicate().unwrap());
        let mut out = session.open("g", "f.bp", Mode::Write, comm.duplicate().unwrap()).unwrap();
        for (name, n) in [("ny", 20i32), ("nx", 30), ("gy", 40), ("oy", 20 * comm.rank() as i32)] {
            out.write_values(name, &[n]).unwrap();
        }
        out.write_values("v0", &[1.0f64; 600]).unwrap();
        assert_eq!(out.close().unwrap_err().kind(), ErrorKind::InvalidArgument);
    });
}

#[test]
fn a_wrong_transform_is_named_with_its_place() {
    let said = |transform: &str, element: &str, dimensions: &str| {
        let xml = format!(
            "<adios-config><adios-group name=\"g\"><var name=\"n\" type=\"integer\"/>\n\
             <var name=\"v\" type=\"{element}\" dimensions=\"{dimensions}\" transform=\"{transform}\"/>\n\
             </adios-group><method group=\"g\" method=\"MPI\"/></adios-config>"
        );
        let (schema, mut report) = thalweg_schema::parse_with_warnings(&xml, "t.xml");
        if let Some(schema) = &schema {
            thalweg_io::registry::lint(schema, &mut report);
        }
        // The variable is written all the same.
        Session::from_xml(&xml, "t.xml", Box::new(Alone::new())).unwrap();
        (report.errors(), report.render(false))
    };
    let (errors, text) = said("zlib:12", "double", "n");
    assert!(errors == 1 && text.contains("1 to 9") && text.contains("t.xml:2:"), "{text}");
    assert_eq!(said("zfp:accuracy=0.1", "integer", "n").0, 1);
    assert_eq!(said("zfp:accuracy=0.1", "double", "n,n,n,n,n").0, 1);
    let (errors, text) = said("zfp:accuracy=0.1", "double", "n,n,n,n");
    assert!(errors == 0 && text.contains("4 dimensions is ours alone"), "{text}");
    let (errors, text) = said("zfp:error=0.1", "double", "n,n");
    assert!(errors == 0 && text.contains("refuses those"), "{text}");
    let (errors, text) = said("zfp:error=0.1,relative_error=0.1", "double", "n,n");
    assert!(errors == 1 && text.contains("relative_error=X"), "{text}");
    assert_eq!(said("szip", "double", "n").0, 1);
    let (errors, text) = said("zstd:5", "double", "n");
    assert!(errors == 0 && text.contains("ours alone"), "{text}");
    let (errors, text) = said("zlib", "double", "n");
    assert!(errors == 0 && text.contains("not by adios2"), "{text}");
    let (errors, text) = said("blosc", "double", "n");
    assert!(errors == 0 && text.contains("compressor=lz4"), "{text}");
    let (errors, text) = said("zlib", "double", "");
    assert!(errors == 0 && text.contains("not transformed"), "{text}");
}
