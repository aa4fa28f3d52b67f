//! A subfile that holds what another rank, another run or an older state of the file wrote is met by readers: they say so,
//! and no value of it is handed over.

mod common;

use common::*;
use std::sync::Arc;
use thalweg_io::Mode;
use thalweg_layout::Layout;
use thalweg_reader::Reader;
use thalweg_store::{Store, StoreExt};
use thalweg_types::{BoundingBox, Error, ErrorKind, Result, Selection};

const NAME: &str = "x.bp";
const RANKS: u32 = 4;
const STEPS: u64 = 3;

const WAYS: &[(&str, &str)] = &[
    ("POSIX", ""),
    ("MPI_AGGREGATE", "aggregators=2;chunk=300"),
    ("MPI_SCHEDULED", "num_files=2;targets=1;writers_per_target=1"),
    ("ADAPTIVE", "num_files=2;chunk=8k"),
];

/// What became of a subfile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Harm {
    /// Two subfiles have changed places.
    Swapped,
    /// It is that of a run with the same names and sizes.
    OfAnotherRun,
    /// It is as it was before steps were dropped and written again.
    Older,
    /// Its second half was lost, and zeros are in its place.
    Zeros,
}

impl Harm {
    const ALL: [Harm; 4] = [Harm::Swapped, Harm::OfAnotherRun, Harm::Older, Harm::Zeros];
}

/// Writes steps whose values tell the run.
fn write(place: &Place, way: (&str, &str), run: u64, first: Mode, steps: std::ops::Range<u64>) {
    place.run(RANKS, |comm| {
        let session = place.session(&values_of_runs(way), &comm);
        for step in steps.clone() {
            let mode = if step == steps.start { first } else { Mode::Append };
            let rank = thalweg_comm::Communicator::rank(&comm);
            let mut output =
                session.open("heat", NAME, mode, thalweg_comm::Communicator::duplicate(&comm).unwrap()).unwrap();
            let base = run as f64 * 1e6 + step as f64 * 1e4 + f64::from(rank) * 100.0;
            let values: Vec<f64> = (0..8).map(|i| base + f64::from(i)).collect();
            output.write_values("rank", &[rank as i32]).unwrap();
            output.write_values("t", &values).unwrap();
            output.write_values("coded", &values).unwrap();
            output.write_values("mine", &values).unwrap();
            output.close().unwrap();
        }
        session.finalize().unwrap();
    });
}

fn values_of_runs(way: (&str, &str)) -> String {
    format!(
        r#"<adios-config host-language="C">
  <adios-group name="heat">
    <var name="rank" type="integer"/>
    <global-bounds dimensions="4,8" offsets="rank,0">
      <var name="t" type="double" dimensions="1,8"/>
      <var name="coded" type="double" dimensions="1,8" transform="zlib"/>
    </global-bounds>
    <var name="mine" type="double" dimensions="8"/>
  </adios-group>
  <method group="heat" method="{}">{}</method>
</adios-config>"#,
        way.0, way.1
    )
}

/// A file of three steps; with `Older`, the last two were written again. Returns what the subfiles are to be replaced by.
fn written(way: (&str, &str), harm: Harm) -> (Place, Vec<(String, Vec<u8>)>) {
    let place = Place::memory();
    write(&place, way, 1, Mode::Write, 0..STEPS);
    let subfiles = |place: &Place| -> Vec<(String, Vec<u8>)> {
        let names = place.store.list("x.bp.dir").unwrap();
        names.iter().map(|n| format!("x.bp.dir/{n}")).map(|n| (n.clone(), place.store.read_all(&n).unwrap())).collect()
    };
    let others = match harm {
        Harm::Swapped => {
            let mut all = subfiles(&place);
            let (first, second) = (all[0].1.clone(), all[1].1.clone());
            (all[0].1, all[1].1) = (second, first);
            all.truncate(2);
            all
        }
        Harm::OfAnotherRun => {
            let other = Place::memory();
            write(&other, way, 2, Mode::Write, 0..STEPS);
            subfiles(&other)
        }
        Harm::Older => {
            let older = subfiles(&place);
            write(&place, way, 3, Mode::AppendAfter(0), 1..STEPS);
            older
        }
        Harm::Zeros => subfiles(&place)
            .into_iter()
            .map(|(name, mut bytes)| {
                let half = bytes.len() / 2;
                bytes[half..].fill(0);
                (name, bytes)
            })
            .collect(),
    };
    (place, others)
}

/// One way to ask for values.
type Ask = (&'static str, fn(&Reader, u64) -> Result<Vec<u8>>);

const ASKED: &[Ask] = &[
    ("whole", |r, step| r.read_to_vec("t", step, &Selection::All)),
    ("rows", |r, step| r.read_to_vec("t", step, &Selection::Box(BoundingBox::new([1, 2], [2, 3])))),
    ("points", |r, step| r.read_to_vec("t", step, &Selection::Points(vec![vec![0, 3], vec![3, 7]]))),
    ("many points", |r, step| {
        r.read_to_vec("t", step, &Selection::Points((0..96).map(|i| vec![i % 4, i % 8]).collect()))
    }),
    ("a block", |r, step| r.read_to_vec("t", step, &Selection::Block(1))),
    ("a local block", |r, step| r.read_to_vec("mine", step, &Selection::Block(0))),
    ("another local block", |r, step| r.read_to_vec("mine", step, &Selection::Block(3))),
    ("compressed", |r, step| r.read_to_vec("coded", step, &Selection::All)),
    ("a batch", |r, step| {
        let mut batch = r.batch();
        batch.add("mine", &[step], &Selection::Block(2), None)?;
        batch.add("t", &[step], &Selection::Block(0), None)?;
        let mut memory: Vec<Vec<u8>> = (0..2).map(|n| vec![0; batch.bytes(n) as usize]).collect();
        let mut out: Vec<&mut [u8]> = memory.iter_mut().map(Vec::as_mut_slice).collect();
        batch.perform(&mut out)?;
        Ok(memory.concat())
    }),
];

fn says_where(e: &Error, what: &str) {
    let text = e.to_string();
    assert!(
        text.contains("x.bp.dir/x.bp.") && text.contains("step") && text.contains("rank") && text.contains("still safe"),
        "{what}: {text}"
    );
    assert_eq!(e.kind(), ErrorKind::Corrupt, "{what}: {text}");
}

#[test]
fn values_of_another_rank_run_or_state_are_never_handed_over() {
    for way in WAYS {
        for harm in Harm::ALL {
            let (place, others) = written(*way, harm);
            let open = || Reader::open(place.layout.clone(), NAME).unwrap();
            let right = open();
            // Where nothing is wrong nothing is refused.
            let values: Vec<Vec<Vec<u8>>> = ASKED
                .iter()
                .map(|(what, ask)| {
                    (0..STEPS)
                        .map(|s| ask(&right, s).unwrap_or_else(|e| panic!("{way:?} {harm:?} {what}, step {s}: {e}")))
                        .collect()
                })
                .collect();
            let minima: Vec<_> = (0..STEPS).map(|s| right.summary("t", s..s + 1).unwrap().min).collect();
            let harms: Vec<&[(String, Vec<u8>)]> =
                if harm == Harm::Swapped { vec![&others] } else { others.chunks(1).collect() };
            for files in harms {
                let whole: Vec<Vec<u8>> = files.iter().map(|(n, _)| place.store.read_all(n).unwrap()).collect();
                if files.iter().zip(&whole).all(|((_, bytes), whole)| bytes == whole) {
                    continue;
                }
                for (name, bytes) in files {
                    place.store.write_all(name, bytes).unwrap();
                }
                let mut refused = 0;
                for (asked, values) in ASKED.iter().zip(&values) {
                    for step in 0..STEPS {
                        let what = format!("{way:?}, {harm:?} {}, {}, step {step}", files[0].0, asked.0);
                        // Each by a reader that knows nothing, and by one that has read the steps before.
                        let reader = open();
                        for _ in 0..2 {
                            match (asked.1)(&reader, step) {
                                Ok(read) => assert!(read == values[step as usize], "{what}: other values"),
                                Err(e) if e.kind() == ErrorKind::Torn => refused += 1,
                                Err(e) => {
                                    says_where(&e, &what);
                                    refused += 1;
                                }
                            }
                        }
                    }
                }
                assert!(refused > 0, "{way:?}, {harm:?} {}: nothing is wrong", files[0].0);
                // The index is as it was.
                let reader = open();
                for step in 0..STEPS {
                    assert_eq!(reader.summary("t", step..step + 1).unwrap().min, minima[step as usize]);
                    assert_eq!(reader.value("rank", step).unwrap(), right.value("rank", step).unwrap());
                }
                for ((name, _), whole) in files.iter().zip(&whole) {
                    place.store.write_all(name, whole).unwrap();
                }
            }
        }
    }
}
