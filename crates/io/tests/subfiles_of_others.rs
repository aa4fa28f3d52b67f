//! A subfile that holds what another rank, another run or an older state of the file wrote is met by readers: they say so,
//! and no value of it is handed over.

mod common;

use common::*;
use std::sync::Arc;
use thalweg_io::Mode;
use thalweg_reader::{Reader, Reads};
use thalweg_store::StoreExt;
use thalweg_types::{BoundingBox, Error, ErrorKind, Result, Selection};

const NAME: &str = "x.bp";
const RANKS: u32 = 4;
const STEPS: u64 = 3;

const METHODS: &[(&str, &str)] = &[
    ("POSIX", ""),
    ("MPI_AGGREGATE", "aggregators=2;chunk=300"),
    ("MPI_SCHEDULED", "num_files=2;targets=1;writers_per_target=1"),
    ("ADAPTIVE", "num_files=2;chunk=8k"),
    ("ASYNC", "async=no;subfiles=2;stripe=256"),
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
fn write(place: &Place, setup: (&str, &str), run: u64, first: Mode, steps: std::ops::Range<u64>) {
    place.run(RANKS, |comm| {
        let session = place.session(&values_of_runs(setup), &comm);
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

fn values_of_runs(setup: (&str, &str)) -> String {
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
        setup.0, setup.1
    )
}

/// A file of three steps; with `Older`, the last two were written again. Returns what the subfiles are to be replaced by.
fn written(setup: (&str, &str), harm: Harm) -> (Place, Vec<(String, Vec<u8>)>) {
    let place = Place::memory();
    write(&place, setup, 1, Mode::Write, 0..STEPS);
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
            write(&other, setup, 2, Mode::Write, 0..STEPS);
            subfiles(&other)
        }
        Harm::Older => {
            let older = subfiles(&place);
            write(&place, setup, 3, Mode::AppendAfter(0), 1..STEPS);
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
        text.contains("x.bp.dir/x.bp.")
            && text.contains("step")
            && text.contains("rank")
            && text.contains("still safe"),
        "{what}: {text}"
    );
    assert_eq!(e.kind(), ErrorKind::Corrupt, "{what}: {text}");
}

#[test]
fn values_of_another_rank_run_or_state_are_never_handed_over() {
    for setup in METHODS {
        for harm in Harm::ALL {
            let (place, others) = written(*setup, harm);
            let open = || Reader::open(place.layout.clone(), NAME).unwrap();
            let right = open();
            // Where nothing is wrong nothing is refused.
            let values: Vec<Vec<Vec<u8>>> = ASKED
                .iter()
                .map(|(what, ask)| {
                    (0..STEPS)
                        .map(|s| ask(&right, s).unwrap_or_else(|e| panic!("{setup:?} {harm:?} {what}, step {s}: {e}")))
                        .collect()
                })
                .collect();
            assert_eq!(thalweg_reader::verify(&*place.layout, NAME).unwrap().findings, [], "{setup:?} {harm:?}");
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
                        let what = format!("{setup:?}, {harm:?} {}, {}, step {step}", files[0].0, asked.0);
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
                assert!(refused > 0, "{setup:?}, {harm:?} {}: nothing is wrong", files[0].0);
                let findings = thalweg_reader::verify(&*place.layout, NAME).unwrap().findings;
                assert!(
                    findings.iter().any(|f| files.iter().any(|(n, _)| *n == f.object)),
                    "{setup:?}, {harm:?}: {findings:?}"
                );
                if harm == Harm::OfAnotherRun {
                    assert!(findings.iter().any(|f| f.words.contains("run")), "{setup:?}: {findings:?}");
                }
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

/// Changes one bit in the middle of every payload of a file, one after the other, and hands each state to `look`.
fn with_each_payload_damaged(place: &Place, look: &mut dyn FnMut(&str, u64, u64)) {
    let reader = Reader::open(place.layout.clone(), NAME).unwrap();
    let mut payloads = Vec::new();
    for head in reader.variables().iter().filter(|h| h.name != "rank") {
        reader
            .for_each_block(&head.name, 0..u64::MAX, &mut |block| {
                payloads.push((head.name.clone(), block));
                Ok(())
            })
            .unwrap();
    }
    for (variable, block) in payloads {
        let name = block.subfile.map_or(NAME.to_string(), |k| format!("x.bp.dir/{NAME}.{k}"));
        let whole = place.store.read_all(&name).unwrap();
        let mut damaged = whole.clone();
        damaged[(block.payload.offset + block.payload.length / 2) as usize] ^= 4;
        place.store.write_all(&name, &damaged).unwrap();
        look(&variable, block.step, block.number);
        place.store.write_all(&name, &whole).unwrap();
    }
}

#[test]
fn checked_reads_find_one_changed_bit_in_any_payload() {
    for setup in METHODS.iter().chain(&[("MPI", ""), ("MPI_COLLECTIVE", "aggregators=2;stripe=256;buffer=8k")]) {
        let place = Place::memory();
        write(&place, *setup, 1, Mode::Write, 0..2);
        let open = |reads| Reader::open(place.layout.clone(), NAME).unwrap().with_reads(reads);
        let right: Vec<Vec<Vec<u8>>> =
            ASKED.iter().map(|(_, ask)| (0..2).map(|s| ask(&open(Reads::Compared), s).unwrap()).collect()).collect();
        for ((what, ask), values) in ASKED.iter().zip(&right) {
            let reader = open(Reads::Checked);
            for step in 0..2 {
                assert!(ask(&reader, step).unwrap() == values[step as usize], "{setup:?} {what}, step {step}");
            }
            assert_eq!(reader.blocks_without_checksum(), 0, "{setup:?} {what}");
        }
        // A reader that has looked at the groups before it was to check.
        let seen = open(Reads::Compared);
        seen.read_to_vec("t", 0, &Selection::All).unwrap();
        with_each_payload_damaged(&place, &mut |variable, step, number| {
            let what = format!("{setup:?}, {variable}, step {step}, block {number}");
            for reader in [open(Reads::Checked), seen.clone().with_reads(Reads::Checked)] {
                let all = if variable == "mine" { Selection::Block(number) } else { Selection::All };
                let e = reader.read_to_vec(variable, step, &all).unwrap_err();
                let text = e.to_string();
                assert_eq!(e.kind(), ErrorKind::Corrupt, "{what}: {text}");
                assert_eq!(e.place().step, Some(step), "{what}: {text}");
                assert!(text.contains("checksum") && text.contains("x.bp") && text.contains("still safe"), "{text}");
                if variable != "mine" {
                    // One element of another block than the damaged one is read, and one of this is not.
                    let point = |row: u64| Selection::Points(vec![vec![row, 0]]);
                    let rows = reader.blocks(variable, step).unwrap();
                    let own = rows[number as usize].offset[0];
                    reader.read_to_vec(variable, step, &point(own)).unwrap_err();
                    reader.read_to_vec(variable, step, &point((own + 1) % u64::from(RANKS))).unwrap();
                }
                assert!(reader.summary(variable, step..step + 1).is_ok(), "{what}: no value is read");
            }
            for ((what, ask), values) in ASKED.iter().zip(&right) {
                for step in 0..2 {
                    if let Ok(read) = ask(&open(Reads::Checked), step) {
                        assert!(read == values[step as usize], "{setup:?} {what}, step {step}: other values");
                    }
                }
            }
        });
    }
}

#[test]
fn unchecked_reads_give_what_is_there() {
    let (place, others) = written(("POSIX", ""), Harm::OfAnotherRun);
    place.store.write_all(&others[0].0, &others[0].1).unwrap();
    let reader = Reader::open(place.layout.clone(), NAME).unwrap();
    reader.read_to_vec("mine", 0, &Selection::Block(0)).unwrap_err();
    let read = reader.with_reads(Reads::Unchecked).read_as::<f64>("mine", 0, &Selection::Block(0)).unwrap();
    assert_eq!(read[0], 2e6);
}

#[test]
fn an_index_file_misses_the_data_it_was_made_of() {
    let (place, other) = (Place::memory(), Place::memory());
    write(&place, ("MPI", ""), 1, Mode::Write, 0..STEPS);
    write(&other, ("MPI", ""), 2, Mode::Write, 0..STEPS);
    let index = thalweg_reader::index_only(&*place.layout, NAME).unwrap();
    place.store.write_all("x.idx", &index).unwrap();
    let open = || Reader::open(place.layout.clone(), "x.idx").unwrap();
    let right = open().read_to_vec("t", 0, &Selection::All).unwrap();
    assert_eq!(right, Reader::open(place.layout.clone(), NAME).unwrap().read_to_vec("t", 0, &Selection::All).unwrap());
    place.store.write_all(NAME, &other.store.read_all(NAME).unwrap()).unwrap();
    open().read_to_vec("t", 1, &Selection::All).unwrap_err();
    let e = open().read_to_vec("t", 0, &Selection::All).unwrap_err();
    assert!(e.kind() == ErrorKind::Corrupt && e.to_string().contains("run"), "{e}");
}

#[test]
fn a_reader_beside_the_writer_compares_each_step_as_it_comes() {
    for setup in METHODS {
        let place = Place::memory();
        place.run(RANKS, |comm| {
            let session = place.session(&heat(setup.0, setup.1), &comm);
            let mut reader = None;
            for step in 0..6 {
                write_heat(&session, NAME, if step == 0 { Mode::Write } else { Mode::Append }, &comm, step);
                thalweg_comm::Communicator::barrier(&comm).unwrap();
                if thalweg_comm::Communicator::rank(&comm) == 0 {
                    let reader = reader.get_or_insert_with(|| {
                        Reader::open(place.layout.clone(), NAME).unwrap().with_reads(Reads::Checked)
                    });
                    reader.catch_up().unwrap();
                    for step in [0, step] {
                        let read: Vec<f64> = reader.read_as("t", step, &Selection::All).unwrap();
                        assert_eq!(read, all_of_t(RANKS, step), "{setup:?}");
                    }
                }
                thalweg_comm::Communicator::barrier(&comm).unwrap();
            }
            session.finalize().unwrap();
        });
    }
}

#[test]
fn a_step_that_a_second_run_adds_to_is_not_refused() {
    let twice = r#"<adios-config host-language="C">
  <adios-group name="a"><var name="x" type="double" dimensions="8"/></adios-group>
  <adios-group name="b"><var name="y" type="double" dimensions="8"/></adios-group>
  <method group="a" method="POSIX"/><method group="b" method="POSIX"/>
</adios-config>"#;
    let place = Place::memory();
    let output = |group: &str, name: &str, mode: Mode| {
        place.run(2, |comm| {
            let session = place.session(twice, &comm);
            let comm = thalweg_comm::Communicator::duplicate(&comm).unwrap();
            let mut output = session.open(group, NAME, mode, comm).unwrap();
            output.write_values(name, &[1.0f64; 8]).unwrap();
            output.close().unwrap();
            session.finalize().unwrap();
        });
    };
    output("a", "x", Mode::Write);
    output("a", "x", Mode::Append);
    output("b", "y", Mode::Update);
    output("a", "x", Mode::Append);
    let all = |what: &str| {
        let reader = Reader::open(place.layout.clone(), NAME).unwrap().with_reads(Reads::Checked);
        for (name, steps) in [("x", [0, 1, 2].as_slice()), ("y", &[1])] {
            for step in steps {
                let read = reader.read_as::<f64>(name, *step, &Selection::Block(1));
                assert_eq!(read.unwrap_or_else(|e| panic!("{what}: {e}")), [1.0; 8]);
            }
        }
    };
    all("as written");
    place.store.remove(NAME).unwrap();
    thalweg_reader::recover(&*place.layout, NAME, thalweg_reader::RecoverOptions::default()).unwrap();
    all("recovered");
}

#[test]
#[ignore = "long, measures: cargo test --release --test subfiles_of_others -- --ignored --nocapture"]
fn what_comparing_and_checking_cost() {
    use std::time::Instant;
    let folder = std::env::temp_dir().join(format!("thalweg-reads-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let place = Place::over(Arc::new(thalweg_store::Posix::at(&folder).unwrap()));
    let median = |run: &mut dyn FnMut() -> f64| {
        let mut times: Vec<f64> = (0..7).map(|_| run()).collect();
        times.sort_by(f64::total_cmp);
        times[3]
    };
    // 10,000 process groups.
    let (ranks, steps, cells) = (100u32, 100u64, 64u64);
    for method in [("POSIX", ""), ("MPI_AGGREGATE", "aggregators=10"), ("MPI", "")] {
        let document = format!(
            r#"<adios-config host-language="C"><adios-group name="g"><var name="ranks" type="integer"/><var name="rank" type="integer"/>
<global-bounds dimensions="ranks,{cells}" offsets="rank,0"><var name="t" type="double" dimensions="1,{cells}"/></global-bounds>
</adios-group><method group="g" method="{}">{}</method></adios-config>"#,
            method.0, method.1
        );
        place.run(ranks, |comm| {
            let session = place.session(&document, &comm);
            for step in 0..steps {
                let mode = if step == 0 { Mode::Write } else { Mode::Append };
                let rank = thalweg_comm::Communicator::rank(&comm);
                let mut output =
                    session.open("g", NAME, mode, thalweg_comm::Communicator::duplicate(&comm).unwrap()).unwrap();
                output.write_values("ranks", &[ranks as i32]).unwrap();
                output.write_values("rank", &[rank as i32]).unwrap();
                output.write_values("t", &vec![step as f64; cells as usize]).unwrap();
                output.close().unwrap();
            }
            session.finalize().unwrap();
        });
        for reads in [Reads::Unchecked, Reads::Compared, Reads::Checked] {
            let open = || {
                let reader = Reader::open(place.layout.clone(), NAME).unwrap().with_reads(reads);
                reader.variable("t").unwrap();
                reader
            };
            let points = |reader: &Reader, n: u64| {
                let start = Instant::now();
                for i in 0..n {
                    let point = Selection::Points(vec![vec![i * 37 % u64::from(ranks), i % cells]]);
                    reader.read_to_vec("t", i / 100, &point).unwrap();
                }
                start.elapsed().as_secs_f64() * 1e6 / n as f64
            };
            let first = median(&mut || points(&open(), 10_000));
            let reader = open();
            points(&reader, 10_000);
            let again = median(&mut || points(&reader, 10_000));
            let one = median(&mut || points(&open(), 1));
            let all: Vec<u64> = (0..steps).collect();
            let mut out = vec![0u8; (steps * u64::from(ranks) * cells * 8) as usize];
            let whole = median(&mut || {
                let reader = open();
                let start = Instant::now();
                reader.read_steps("t", &all, &Selection::All, &mut out).unwrap();
                start.elapsed().as_secs_f64() * 1e3
            });
            let step = median(&mut || {
                let reader = open();
                let start = Instant::now();
                reader.read_to_vec("t", 50, &Selection::All).unwrap();
                start.elapsed().as_secs_f64() * 1e3
            });
            println!(
                "{:14} {reads:?}: a point of each group {first:.1} µs, again {again:.1} µs; one point {one:.0} µs; all steps {whole:.1} ms, one {step:.2} ms",
                method.0
            );
        }
        std::fs::remove_dir_all(&folder).unwrap();
        std::fs::create_dir_all(&folder).unwrap();
    }
    // Large blocks: 4 of 64 MiB.
    let rows = 8 << 10;
    let document = format!(
        r#"<adios-config host-language="C"><adios-group name="g"><var name="ranks" type="integer"/><var name="rank" type="integer"/>
<global-bounds dimensions="{rows}*ranks,1024" offsets="{rows}*rank,0"><var name="t" type="double" dimensions="{rows},1024"/></global-bounds>
</adios-group><method group="g" method="POSIX"/></adios-config>"#
    );
    place.run(4, |comm| {
        let session = place.session(&document, &comm);
        let rank = thalweg_comm::Communicator::rank(&comm);
        let copy = thalweg_comm::Communicator::duplicate(&comm).unwrap();
        let mut output = session.open("g", NAME, Mode::Write, copy).unwrap();
        output.write_values("ranks", &[4i32]).unwrap();
        output.write_values("rank", &[rank as i32]).unwrap();
        output.write_values("t", &vec![f64::from(rank) + 0.5; rows * 1024]).unwrap();
        output.close().unwrap();
        session.finalize().unwrap();
    });
    let mut out = vec![0u8; 4 * rows * 1024 * 8];
    for reads in [Reads::Unchecked, Reads::Compared, Reads::Checked] {
        let reader = Reader::open(place.layout.clone(), NAME).unwrap().with_reads(reads);
        let mut timed = |selection: &Selection| {
            let n = reader.length("t", 0, selection).unwrap() as usize;
            median(&mut || {
                let start = Instant::now();
                reader.read("t", 0, selection, &mut out[..n]).unwrap();
                start.elapsed().as_secs_f64() * 1e3
            })
        };
        let whole = timed(&Selection::All);
        let slab = timed(&Selection::Box(BoundingBox::new([100, 0], [8, 1024])));
        println!("4 blocks of 64 MiB, {reads:?}: whole {whole:.1} ms, a slab of 64 KiB {slab:.3} ms");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
