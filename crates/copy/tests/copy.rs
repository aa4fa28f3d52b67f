//! Copies are equal to their source in what is not changed, and hold exactly what is chosen.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use thalweg_bp::statistics::Level;
use thalweg_choice::{Blocks, Choice, Pattern, Region, Steps};
use thalweg_comm::alone::Alone;
use thalweg_conformance::round_trip::{self, WriteSetup, arbitrary, edge_cases, everything, in_folder, in_memory};
use thalweg_conformance::scratch::Scratch;
use thalweg_conformance::sweep;
use thalweg_copy::copy::Ended;
use thalweg_copy::{Asked, Copied, Existing, Options, copy};
use thalweg_io::{BlockBox, Mode, Session, WriteRequest};
use thalweg_layout::{Direct, Layout};
use thalweg_reader::{Block, Kind, Reader, Wait};
use thalweg_schema::HostLanguage;
use thalweg_store::Memory;
use thalweg_store::wrap::{Failing, Fault, StoreCall};
use thalweg_types::{AttributeValue, ElementType, ErrorKind, Result, Selection};

fn copied(layout: &Arc<dyn Layout>, from: &str, to: &str, options: &Options) -> Result<Copied> {
    copy((layout, from), (layout, to), options, &Asked::default(), &mut |_| ())
}

fn open(layout: &Arc<dyn Layout>, path: &str) -> Reader {
    Reader::open(layout.clone(), path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn pattern(text: &str) -> Pattern {
    Pattern::parse(text).unwrap()
}

/// The blocks of a step that readers see: of several with the same box the last.
fn seen(reader: &Reader, name: &str, step: u64, kind: Kind) -> Vec<Block> {
    let blocks = reader.blocks(name, step).unwrap();
    if kind != Kind::Global {
        return blocks;
    }
    let hidden = |b: &Block| {
        let later = &blocks[b.number as usize + 1..];
        !b.count.contains(&0) && later.iter().any(|other| (&other.offset, &other.count) == (&b.offset, &b.count))
    };
    blocks.iter().filter(|b| !hidden(b)).cloned().collect()
}

/// Equal in everything that readers can ask for, except where bytes lie and which rank wrote them.
fn assert_same(source: &Reader, copy: &Reader, besides: &[&str]) {
    assert_equal(source, copy, besides, true);
}

/// - `statistics`: these too; other libraries count what is not finite.
fn assert_equal(source: &Reader, copy: &Reader, besides: &[&str], statistics: bool) {
    let names = |reader: &Reader| {
        let mut names: Vec<String> = reader.variables().iter().map(|head| head.name.clone()).collect();
        names.retain(|name| !besides.contains(&name.as_str()));
        names.sort();
        names
    };
    assert_eq!(names(source), names(copy));
    assert_eq!(source.status().steps, copy.status().steps);
    for name in names(source) {
        let (a, b) = (source.variable(&name).unwrap(), copy.variable(&name).unwrap());
        let kind = if a.kind == Kind::LocalValue { Kind::Global } else { a.kind };
        assert_eq!((&a.path, &a.short_name, &a.group, a.element), (&b.path, &b.short_name, &b.group, b.element));
        assert_eq!((kind, &a.steps), (b.kind, &b.steps), "{name}");
        for step in &a.steps {
            let (of_a, of_b) = (seen(source, &name, *step, a.kind), seen(copy, &name, *step, b.kind));
            assert_eq!(of_a.len(), of_b.len(), "blocks of {name} in step {step}");
            for (x, y) in of_a.iter().zip(&of_b) {
                assert_eq!((&x.shape, &x.count), (&y.shape, &y.count), "{name}, step {step}");
                // A block without elements lies nowhere.
                assert!(
                    x.offset == y.offset || x.count.contains(&0),
                    "{name}, step {step}: {:?}, {:?}",
                    x.offset,
                    y.offset
                );
                let bytes = |reader: &Reader, b: &Block| {
                    reader
                        .read_to_vec(&name, *step, &Selection::Block(b.number))
                        .unwrap_or_else(|e| panic!("{name}: {e}"))
                };
                assert!(bytes(source, x) == bytes(copy, y), "values of block {} of {name}, step {step}", x.number);
                if let (Some(x), Some(y), true) = (&x.statistics, &y.statistics, statistics) {
                    // Complex values have all statistics or none.
                    assert!(a.element.is_complex() || x.level.has_sums() == y.level.has_sums(), "{name}");
                    if x.finite > 0 && y.finite > 0 && x.level >= Level::MinMax {
                        assert_eq!((&x.min, &x.max), (&y.min, &y.max), "{name}, step {step}");
                    }
                }
            }
        }
    }
    let attributes = |reader: &Reader| -> BTreeMap<String, String> {
        let all = reader.attributes().iter().map(|head| reader.attribute(&head.name).unwrap());
        let own = all.filter(|attribute| !attribute.internal);
        own.map(|a| {
            // adios2 stores single numbers as arrays of one.
            let value = match a.value {
                AttributeValue::Many(element, mut values) if values.len() == 1 && element != ElementType::String => {
                    AttributeValue::One(values.remove(0))
                }
                value => value,
            };
            (a.name, format!("{:?} {:?} {} {value:?}", a.path.trim_end_matches('/'), a.element, a.group))
        })
        .collect()
    };
    assert_eq!(attributes(source), attributes(copy));
}

#[test]
fn a_copy_is_equal_to_its_source_whatever_wrote_it() {
    let folder = Scratch::new();
    for (layout, ranks) in [(in_memory(), 1), (in_folder(folder.path()), 3), (in_memory(), 5)] {
        for (method, language) in [("MPI", HostLanguage::C), ("POSIX", HostLanguage::Fortran)] {
            for scenario in [everything::scenario(ranks, 3, language), edge_cases::scenario(ranks, 3)] {
                eprintln!("{method}, {ranks} ranks, {language:?}, group {}", scenario.schema.groups[0].name);
                round_trip::write_and_check(&layout, "a.bp", &scenario, &WriteSetup::of(method));
                let options = Options { existing: Existing::Replace, ..Options::default() };
                let done = copied(&layout, "a.bp", "b.bp", &options).unwrap();
                assert_eq!((done.steps, done.had, done.ended), (3, 0, Ended::Whole));
                assert_eq!(done.left_out, []);
                let (source, target) = (open(&layout, "a.bp"), open(&layout, "b.bp"));
                assert!(target.status().finished);
                assert_same(&source, &target, &[]);
                let fortran = |reader: &Reader| reader.is_fortran(&scenario.schema.groups[0].name).unwrap();
                assert_eq!(fortran(&source), fortran(&target));
                // However little memory there is.
                copied(&layout, "a.bp", "b.bp", &Options { memory: 64, ..options }).unwrap();
                assert_same(&source, &open(&layout, "b.bp"), &[]);
            }
        }
    }
}

#[test]
fn copies_of_files_made_of_chance_are_equal_to_them() {
    use proptest::prelude::*;
    let config = ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(recipe in arbitrary::recipes())| {
        let layout = in_memory();
        round_trip::write(&layout, "a.bp", &recipe.scenario(), &recipe.write_setup(&["MPI", "POSIX"]), &|_| ());
        match Reader::open(layout.clone(), "a.bp") {
            Ok(source) if source.variables().iter().any(|head| head.blocks > 0) => {
                let done = copied(&layout, "a.bp", "b.bp", &Options::default()).unwrap();
                // Outputs without any variable are no steps of the copy.
                prop_assert!(done.steps <= source.status().steps);
                if done.steps == source.status().steps {
                    assert_same(&source, &open(&layout, "b.bp"), &[]);
                }
            }
            _ => {}
        }
    });
}

#[test]
fn files_of_other_libraries_come_out_equal() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/foreign");
    let mut files: Vec<_> = std::fs::read_dir(&fixtures).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "bp") && path.is_file());
    files.sort();
    assert!(files.len() > 20, "{files:?}");
    let (from, to) = (in_folder(&fixtures), in_memory());
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap();
        eprintln!("{name}");
        let Ok(source) = Reader::open(from.clone(), name) else { continue };
        let done = match copy((&from, name), (&to, name), &Options::default(), &Asked::default(), &mut |_| ()) {
            // Outputs of two groups in one step.
            Err(e) if e.kind() == ErrorKind::Unsupported => {
                assert!(e.to_string().contains("share a step"), "{name}: {e}");
                continue;
            }
            done => done.unwrap_or_else(|e| panic!("{name}: {e}")),
        };
        let besides: Vec<&str> = done.left_out.iter().map(|left| left.name.as_str()).collect();
        assert_equal(&source, &open(&to, name), &besides, false);
    }
}

/// A double of each element's place in the array and its step.
fn value(step: u64, place: &[u64]) -> f64 {
    place.iter().fold(step as f64, |sum, at| sum * 100.0 + *at as f64)
}

const SHAPE: [u64; 2] = [40, 30];

/// Writes steps of `u`, 40 x 30 in 4 x 3 blocks, `n`, and `word`, beginning behind those that are there.
fn write_steps(layout: &Arc<dyn Layout>, path: &str, steps: std::ops::Range<u64>, method: &str, transform: &str) {
    let xml = format!(
        r#"<adios-config host-language="C"><adios-group name="g"><var name="n" type="long"/><var name="word" type="string"/>
             <global-bounds dimensions="40,30" offsets="0,0"><var name="u" type="double" dimensions="10,10" {transform}/></global-bounds>
             <attribute name="unit" value="K"/>
           </adios-group><method group="g" method="{method}"/></adios-config>"#
    );
    let schema = thalweg_schema::xml::parse(&xml, "g.xml").unwrap();
    let session = Session::with_layout(schema, layout.clone(), Box::new(Alone::new())).unwrap();
    for step in steps {
        let mode = if step == 0 { Mode::Write } else { Mode::Append };
        let mut output = session.open("g", path, mode, Box::new(Alone::new())).unwrap();
        output.write_values("n", &[step as i64]).unwrap();
        output.write("word", format!("step {step}").as_bytes()).unwrap();
        for (i, j) in (0..4u64).flat_map(|i| (0..3u64).map(move |j| (i, j))) {
            let offset = vec![10 * i, 10 * j];
            let values: Vec<f64> = (0..100).map(|k| value(step, &[offset[0] + k / 10, offset[1] + k % 10])).collect();
            let place = BlockBox { count: vec![10, 10], shape: Some(SHAPE.to_vec()), offset: Some(offset) };
            output.put(WriteRequest::new("u", bytemuck::cast_slice(&values)).in_box(place)).unwrap();
        }
        output.close().unwrap();
    }
    session.finalize().unwrap();
}

#[test]
fn what_is_chosen_comes_out_and_nothing_else() {
    let layout = in_memory();
    write_steps(&layout, "a.bp", 0..5, "MPI", "");
    let choice = Choice {
        variables: vec![pattern("u"), pattern("w*")],
        without: vec![pattern("word")],
        steps: Steps::parse("1::2").unwrap(),
        regions: vec![(pattern("*"), Region::parse("3:40:4, -7:").unwrap())],
        elements: vec![(pattern("*"), ElementType::F32)],
        ..Choice::default()
    };
    for blocks in [Blocks::AsWritten, Blocks::Merged, Blocks::Grid(vec![2, 2])] {
        let wanted = match &blocks {
            Blocks::AsWritten => 4,
            Blocks::Merged => 1,
            Blocks::Grid(_) => 4,
        };
        let options =
            Options { choice: Choice { blocks, ..choice.clone() }, existing: Existing::Replace, ..Options::default() };
        let done = copied(&layout, "a.bp", "b.bp", &options).unwrap();
        assert_eq!((done.steps, done.blocks, &done.unknown), (2, 2 * wanted, &vec![]));
        let copy = open(&layout, "b.bp");
        assert_eq!(copy.variables().iter().map(|head| head.name.as_str()).collect::<Vec<_>>(), ["u"]);
        assert_eq!(copy.attributes().iter().filter(|head| head.name == "unit").count(), 1);
        for (step, of) in [(0, 1), (1, 3)] {
            assert_eq!(copy.shape("u", step).unwrap(), [10, 7]);
            assert_eq!(copy.block_count("u", step).unwrap(), wanted);
            let values: Vec<f32> = copy.read_as("u", step, &Selection::All).unwrap();
            let expected = (0..70).map(|k| value(of, &[3 + 4 * (k / 7), 23 + k % 7]) as f32);
            assert_eq!(values, expected.collect::<Vec<f32>>());
        }
    }
}

#[test]
fn blocks_are_merged_as_far_as_the_memory_allows() {
    let layout = in_memory();
    write_steps(&layout, "a.bp", 0..1, "POSIX", "");
    for (memory, blocks) in [(256 << 20, 1), (4 * 30 * 8 * 20, 2), (4 * 30 * 8, 40), (4 * 80, 120)] {
        let choice = Choice { blocks: Blocks::Merged, ..Choice::default() };
        let options = Options { choice, memory, existing: Existing::Replace, ..Options::default() };
        copied(&layout, "a.bp", "b.bp", &options).unwrap();
        let copy = open(&layout, "b.bp");
        assert_eq!(copy.block_count("u", 0).unwrap(), blocks, "{memory} bytes");
        let values: Vec<f64> = copy.read_as("u", 0, &Selection::All).unwrap();
        assert_eq!(values, (0..1200).map(|k| value(0, &[k / 30, k % 30])).collect::<Vec<f64>>());
    }
}

#[test]
fn transforms_stay_are_changed_or_undone() {
    let layout = in_memory();
    write_steps(&layout, "a.bp", 0..2, "MPI", r#"transform="zlib:9""#);
    let source = open(&layout, "a.bp");
    let of = |path: &str| open(&layout, path).variable("u").unwrap().transform;
    for (transform, wanted) in [(None, Some("zlib")), (Some("none"), None), (Some("bzip2:3"), Some("bzip2"))] {
        let transforms = transform.iter().map(|text| (pattern("*"), text.to_string())).collect();
        let options = Options {
            choice: Choice { transforms, ..Choice::default() },
            existing: Existing::Replace,
            ..Options::default()
        };
        let done = copied(&layout, "a.bp", "b.bp", &options).unwrap();
        assert_eq!((of("b.bp").as_deref(), done.left_out.len()), (wanted, 0), "{transform:?}");
        assert_same(&source, &open(&layout, "b.bp"), &[]);
    }
    assert_eq!(thalweg_choice::choice::check_transform("nonsense").unwrap_err().kind(), ErrorKind::Config);
    assert!(thalweg_choice::choice::check_transform("zlib:99").is_err());
    // What a lossy transform has kept is not changed again.
    write_steps(&layout, "z.bp", 0..2, "MPI", r#"transform="zfp:accuracy=0.5""#);
    let done = copied(&layout, "z.bp", "y.bp", &Options::default()).unwrap();
    assert_eq!(of("y.bp"), None);
    assert!(done.left_out[0].why.contains("zfp"), "{:?}", done.left_out);
    assert_same(&open(&layout, "z.bp"), &open(&layout, "y.bp"), &[]);
    // Unless it is asked for: errors are then those of the copy.
    let transforms = vec![(pattern("u"), "zfp:error=100".to_string())];
    let options = Options { choice: Choice { transforms, ..Choice::default() }, ..Options::default() };
    copied(&layout, "a.bp", "bounded.bp", &options).unwrap();
    let bounded = open(&layout, "bounded.bp");
    let errors = bounded.summary("u", 0..2).unwrap().errors.unwrap();
    let read = |reader: &Reader| reader.read_as::<f64>("u", 1, &Selection::All).unwrap();
    let largest = read(&source).iter().zip(read(&bounded)).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(largest > 0.0 && largest <= errors.largest && errors.largest <= 100.0, "{largest}, {errors:?}");
    let done = copied(&layout, "bounded.bp", "again.bp", &Options::default()).unwrap();
    assert!(done.left_out[0].why.contains("zfp with the error bound 100.0"), "{:?}", done.left_out);
    assert_same(&bounded, &open(&layout, "again.bp"), &[]);
}

#[test]
fn a_target_that_is_there_is_kept_unless_it_is_to_be_replaced_or_continued() {
    let layout = in_memory();
    write_steps(&layout, "a.bp", 0..3, "MPI", "");
    copied(&layout, "a.bp", "b.bp", &Options::default()).unwrap();
    let into = |existing, from: &str| copied(&layout, from, "b.bp", &Options { existing, ..Options::default() });
    assert_eq!(into(Existing::Refuse, "a.bp").unwrap_err().kind(), ErrorKind::AlreadyExists);
    write_steps(&layout, "a.bp", 3..6, "MPI", "");
    let done = into(Existing::Continue, "a.bp").unwrap();
    assert_eq!((done.had, done.steps), (3, 3));
    assert_same(&open(&layout, "a.bp"), &open(&layout, "b.bp"), &[]);
    let done = into(Existing::Continue, "a.bp").unwrap();
    assert_eq!((done.had, done.steps), (6, 0));
    // Of another choice, or of a shorter file.
    let merged = Options {
        choice: Choice { blocks: Blocks::Merged, ..Choice::default() },
        existing: Existing::Continue,
        ..Options::default()
    };
    let other = copied(&layout, "a.bp", "b.bp", &merged).unwrap_err();
    assert!(
        other.kind() == ErrorKind::InvalidArgument && other.to_string().contains("is no copy of step 0"),
        "{other}"
    );
    write_steps(&layout, "short.bp", 0..2, "MPI", "");
    let shorter = into(Existing::Continue, "short.bp").unwrap_err();
    assert!(shorter.to_string().contains("it has 6 steps, the source only 2"), "{shorter}");
    assert_same(&open(&layout, "a.bp"), &open(&layout, "b.bp"), &[]);
    let itself =
        copied(&layout, "a.bp", "a.bp", &Options { existing: Existing::Replace, ..Options::default() }).unwrap_err();
    assert_eq!(itself.kind(), ErrorKind::InvalidArgument);
    assert_eq!(into(Existing::Replace, "short.bp").unwrap().steps, 2);
    assert_eq!(open(&layout, "b.bp").status().steps, 2);
}

#[test]
fn a_copy_that_is_stopped_holds_whole_steps_and_is_continued() {
    let layout = in_memory();
    write_steps(&layout, "a.bp", 0..8, "MPI", "");
    let stop = Asked::default();
    let mut told = 0;
    let options = Options { memory: 3000, ..Options::default() };
    let done = copy((&layout, "a.bp"), (&layout, "b.bp"), &options, &stop, &mut |_| {
        told += 1;
        stop.at_once.store(told >= 10, Ordering::Relaxed);
    })
    .unwrap();
    assert!(done.ended == Ended::Stopped && (1..8).contains(&done.steps), "{done:?}");
    let copy = open(&layout, "b.bp");
    assert_eq!((copy.status().steps, copy.status().finished, copy.status().torn_bytes), (done.steps, false, 0));
    let rest =
        copied(&layout, "a.bp", "b.bp", &Options { existing: Existing::Continue, ..Options::default() }).unwrap();
    assert_eq!((rest.had, rest.steps), (done.steps, 8 - done.steps));
    assert_same(&open(&layout, "a.bp"), &open(&layout, "b.bp"), &[]);
}

#[test]
fn a_copy_follows_a_program_that_writes() {
    let folder = Scratch::new();
    let layout = in_folder(folder.path());
    let choice = Choice { steps: Steps::parse("::3").unwrap(), ..Choice::default() };
    let wait = Wait { timeout: Some(Duration::from_secs(60)), poll: Duration::from_millis(5) };
    let options = Options { choice, follow: Some(wait), ..Options::default() };
    let done = std::thread::scope(|scope| {
        let copying = scope.spawn(|| copied(&layout, "a.bp", "b.bp", &options).unwrap());
        write_slowly(&layout, 20);
        copying.join().unwrap()
    });
    assert_eq!((done.steps, done.ended), (7, Ended::Whole));
    let target = open(&layout, "b.bp");
    assert!(target.status().finished);
    let steps: Vec<i64> = (0..7).map(|step| target.read_as::<i64>("n", step, &Selection::All).unwrap()[0]).collect();
    assert_eq!(steps, [0, 3, 6, 9, 12, 15, 18]);
    // Nobody writes: the wait is bounded, and can be stopped.
    let nothing = Options {
        follow: Some(Wait { timeout: Some(Duration::from_millis(50)), ..Wait::default() }),
        ..Options::default()
    };
    assert_eq!(copied(&layout, "none.bp", "c.bp", &nothing).unwrap_err().kind(), ErrorKind::NotFound);
    let stopped = Asked::default();
    stopped.at_once.store(true, Ordering::Relaxed);
    let forever = Options { follow: Some(Wait::default()), ..Options::default() };
    let ended = copy((&layout, "none.bp"), (&layout, "c.bp"), &forever, &stopped, &mut |_| ());
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::NotFound);
}

/// One session, so that followers see a program at work.
fn write_slowly(layout: &Arc<dyn Layout>, steps: u64) {
    let xml = r#"<adios-config host-language="C"><adios-group name="g"><var name="n" type="long"/></adios-group>
                 <method group="g" method="MPI"/></adios-config>"#;
    let schema = thalweg_schema::xml::parse(xml, "g.xml").unwrap();
    let session = Session::with_layout(schema, layout.clone(), Box::new(Alone::new())).unwrap();
    for step in 0..steps {
        let mode = if step == 0 { Mode::Write } else { Mode::Append };
        let mut output = session.open("g", "a.bp", mode, Box::new(Alone::new())).unwrap();
        output.write_values("n", &[step as i64]).unwrap();
        output.close().unwrap();
        std::thread::sleep(Duration::from_millis(10));
    }
    session.finalize().unwrap();
}

#[test]
fn blocks_with_holes_between_them_are_not_filled_with_zeros() {
    let layout = in_memory();
    let xml = r#"<adios-config host-language="C"><adios-group name="g">
        <global-bounds dimensions="9" offsets="0"><var name="u" type="integer" dimensions="2"/></global-bounds>
        </adios-group><method group="g" method="MPI"/></adios-config>"#;
    let schema = thalweg_schema::xml::parse(xml, "g.xml").unwrap();
    let session = Session::with_layout(schema, layout.clone(), Box::new(Alone::new())).unwrap();
    let mut output = session.open("g", "a.bp", Mode::Write, Box::new(Alone::new())).unwrap();
    for offset in [0u64, 4, 5] {
        let place = BlockBox { count: vec![2], shape: Some(vec![9]), offset: Some(vec![offset]) };
        output.put(WriteRequest::new("u", bytemuck::cast_slice(&[offset as i32, 7])).in_box(place)).unwrap();
    }
    output.close().unwrap();
    session.finalize().unwrap();
    let options = Options { choice: Choice { blocks: Blocks::Merged, ..Choice::default() }, ..Options::default() };
    let done = copied(&layout, "a.bp", "b.bp", &options).unwrap();
    assert!(done.left_out[0].why.contains("do not cover"), "{:?}", done.left_out);
    assert_same(&open(&layout, "a.bp"), &open(&layout, "b.bp"), &[]);
}

#[test]
fn values_that_do_not_fit_their_new_type_are_errors_that_name_the_place_and_keep_what_was_whole() {
    let layout = in_memory();
    write_steps(&layout, "a.bp", 0..4, "MPI", "");
    let narrow = Choice { elements: vec![(pattern("n"), ElementType::I8)], ..Choice::default() };
    copied(&layout, "a.bp", "b.bp", &Options { choice: narrow, ..Options::default() }).unwrap();
    let values: Vec<i8> = open(&layout, "b.bp").read_as("n", 3, &Selection::All).unwrap();
    assert_eq!(values, [3]);
    let choice = Choice { elements: vec![(pattern("word"), ElementType::F64)], ..Choice::default() };
    let refused = copied(&layout, "a.bp", "c.bp", &Options { choice, ..Options::default() }).unwrap_err();
    assert!(refused.kind() == ErrorKind::InvalidArgument && refused.to_string().contains("word"), "{refused}");

    let xml = r#"<adios-config host-language="C"><adios-group name="g"><var name="x" type="double"/></adios-group>
                 <method group="g" method="MPI"/></adios-config>"#;
    let schema = thalweg_schema::xml::parse(xml, "g.xml").unwrap();
    let session = Session::with_layout(schema, layout.clone(), Box::new(Alone::new())).unwrap();
    for (step, x) in [1.0, 2.0, 1e300, 3.0].iter().enumerate() {
        let mode = if step == 0 { Mode::Write } else { Mode::Append };
        let mut output = session.open("g", "x.bp", mode, Box::new(Alone::new())).unwrap();
        output.write_values("x", &[*x]).unwrap();
        output.close().unwrap();
    }
    session.finalize().unwrap();
    let single = Choice { elements: vec![(pattern("x"), ElementType::F32)], ..Choice::default() };
    let refused = copied(&layout, "x.bp", "y.bp", &Options { choice: single, ..Options::default() }).unwrap_err();
    assert_eq!((refused.kind(), refused.place().step), (ErrorKind::OutOfBounds, Some(2)), "{refused}");
    assert_eq!(refused.still_safe(), Some("2 steps of y.bp"));
    assert_eq!(open(&layout, "y.bp").status().steps, 2);
}

#[test]
fn whichever_operation_of_the_target_fails_its_steps_are_whole_and_the_copy_can_be_continued() {
    let source = in_memory();
    write_steps(&source, "a.bp", 0..4, "MPI", "");
    let options = Options { memory: 8000, ..Options::default() };
    let mut failures = 0;
    for (kind, times) in [(ErrorKind::NoSpace, 1), (ErrorKind::Io, u64::MAX)] {
        for number in (0..).step_by(sweep::stride()) {
            let store = Arc::new(Failing::new(Arc::new(Memory::new())));
            store.fail(Fault::any().skipping(number as u64).times(times).with(kind));
            let target: Arc<dyn Layout> = Arc::new(Direct::new(store.clone()).unwrap());
            let what = format!("operation {number} fails with {kind:?}, {times} times");
            let failed = copy((&source, "a.bp"), (&target, "b.bp"), &options, &Asked::default(), &mut |_| ());
            let hits = store.failed().0;
            store.heal();
            match failed {
                Ok(done) => assert_eq!(done.steps, 4, "{what}"),
                Err(e) => {
                    assert!(hits > 0 && e.still_safe().is_some(), "{what}: {e}");
                    failures += 1;
                    if let Ok(kept) = Reader::open(target.clone(), "b.bp") {
                        for step in 0..kept.status().steps {
                            let values: Vec<f64> = kept.read_as("u", step, &Selection::All).unwrap();
                            assert!(values == expected(step), "{what}: step {step}");
                        }
                    }
                }
            }
            let again = Options { existing: Existing::Continue, ..options.clone() };
            copy((&source, "a.bp"), (&target, "b.bp"), &again, &Asked::default(), &mut |_| ())
                .unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_same(&open(&source, "a.bp"), &open(&target, "b.bp"), &[]);
            if hits == 0 {
                break;
            }
        }
    }
    assert!(failures > 5, "{failures}");
}

/// The values of `u` in a step.
fn expected(step: u64) -> Vec<f64> {
    (0..1200).map(|k| value(step, &[k / 30, k % 30])).collect()
}

#[test]
fn a_source_that_cannot_be_read_is_an_error_and_the_steps_before_stay() {
    let store = Arc::new(Failing::new(Arc::new(Memory::new())));
    let source: Arc<dyn Layout> = Arc::new(Direct::new(store.clone()).unwrap());
    write_steps(&source, "a.bp", 0..4, "MPI", "");
    let mut partly = 0;
    for number in 0.. {
        let target = in_memory();
        let before = store.failed().0;
        store.fail(Fault::of(StoreCall::Read).skipping(number).times(1));
        let done = copy(
            (&source, "a.bp"),
            (&target, "b.bp"),
            &Options { memory: 8000, ..Options::default() },
            &Asked::default(),
            &mut |_| (),
        );
        let hit = store.failed().0 > before;
        store.heal();
        let kept = Reader::open(target.clone(), "b.bp");
        for step in 0..kept.as_ref().map_or(0, |kept| kept.status().steps) {
            let values: Vec<f64> = kept.as_ref().unwrap().read_as("u", step, &Selection::All).unwrap();
            assert!(values == expected(step), "read {number}, step {step}");
        }
        if !hit {
            assert_eq!(done.unwrap().steps, 4);
            break;
        }
        partly += u64::from(done.is_err() && kept.is_ok());
    }
    assert!(partly > 3, "{partly} copies ended in the middle");
}

#[test]
fn a_target_that_fails_is_told_at_once_though_the_source_goes_on() {
    let folder = Scratch::new();
    let source = in_folder(folder.path());
    let store = Arc::new(Failing::new(Arc::new(Memory::new())));
    store.fail(Fault::of(StoreCall::OpenWrite).with(ErrorKind::NoSpace));
    let target: Arc<dyn Layout> = Arc::new(Direct::new(store).unwrap());
    let xml = r#"<adios-config host-language="C"><adios-group name="g"><var name="n" type="long"/></adios-group>
                 <method group="g" method="MPI"/></adios-config>"#;
    let schema = thalweg_schema::xml::parse(xml, "g.xml").unwrap();
    let session = Session::with_layout(schema, source.clone(), Box::new(Alone::new())).unwrap();
    let mut output = session.open("g", "a.bp", Mode::Write, Box::new(Alone::new())).unwrap();
    output.write_values("n", &[1i64]).unwrap();
    output.close().unwrap();
    // The session stays open: its writer lives, and writes nothing.
    let options = Options { follow: Some(Wait::default()), ..Options::default() };
    let ended = copy((&source, "a.bp"), (&target, "b.bp"), &options, &Asked::default(), &mut |_| ());
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::NoSpace);
    session.finalize().unwrap();
}
