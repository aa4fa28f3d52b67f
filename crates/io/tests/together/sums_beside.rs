//! By default the BP index has what that of ADIOS 1.13 has, minimum and maximum; what else is known of a block lies beside it, and
//! is known by each method, while a file is written and when it is closed, recovered, extended or damaged.

use crate::common::*;
use std::sync::Arc;
use thalweg_bp::extension::{FOLLOWED, Tag, state_offset};
use thalweg_bp::index::Index;
use thalweg_bp::live::{Base, Live};
use thalweg_bp::statistics::Level;
use thalweg_bp::wire::Cursor;
use thalweg_io::Mode;
use thalweg_movement::output_file::levels::bitmaps;
use thalweg_reader::{Reader, recover, verify};
use thalweg_store::StoreExt;
use thalweg_store::memory::Memory;
use thalweg_store::wrap::Counting;
use thalweg_types::{ByteOrder, ErrorKind};

const RANKS: u32 = 3;
const METHODS: [(&str, &str); 7] = [
    ("POSIX", ""),
    ("MPI", ""),
    ("MPI_COLLECTIVE", "aggregators=2"),
    ("MPI_AGGREGATE", "aggregators=2"),
    ("MPI_SCHEDULED", "num_files=2"),
    ("ADAPTIVE", "num_files=2"),
    ("MPI", "index=each"),
];

fn document((method, parameters): (&str, &str), stats: &str) -> String {
    heat(method, parameters).replace("<adios-group name=\"heat\">", &format!("<adios-group name=\"heat\"{stats}>"))
}

/// Steps, and the file closed for good where `finished` says so.
fn written(place: &Place, document: &str, path: &str, steps: std::ops::Range<u64>, finished: bool) {
    place.run(RANKS, |comm| {
        let own = place.session(document, &comm);
        for step in steps.clone() {
            write_heat(&own, path, if step == 0 { Mode::Write } else { Mode::Append }, &comm, step);
        }
        if finished {
            own.finalize().unwrap();
        } else {
            std::mem::forget(own);
        }
    });
}

/// Checks average and level of each block of these steps, and the average of all.
fn sums_are_known(place: &Place, path: &str, steps: u64, what: &str) {
    let reader = Reader::open(place.layout.clone(), path).unwrap();
    let all: Vec<f64> = (0..steps).flat_map(|step| all_of_t(RANKS, step)).collect();
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    let summary = reader.summary("t", 0..u64::MAX).unwrap();
    assert_eq!((summary.mean, summary.finite), (Some(mean), Some(all.len() as u64)), "{what}");
    let square = all.iter().map(|v| v * v).sum::<f64>() / all.len() as f64;
    assert!((summary.std.unwrap() - (square - mean * mean).sqrt()).abs() < 1e-6 * mean, "{what}: {:?}", summary.std);
    for step in 0..steps {
        for (rank, block) in (0..).zip(reader.blocks("t", step).unwrap()) {
            let s = block.statistics.unwrap();
            assert_eq!((s.level, s.finite, s.sum), (Level::Beside, 8, t(rank, step, 4).iter().sum()), "{what} {step}");
        }
    }
}

fn base(file: &[u8]) -> Base {
    let live = Live::find(file).unwrap();
    assert!(live.step_records.is_empty());
    live.base.unwrap()
}

/// How long each entry of the BP index is.
fn entries(file: &[u8]) -> Vec<(String, u64)> {
    base(file).entries.into_iter().map(|e| (e.head.name, e.extent.length)).collect()
}

#[test]
fn by_each_method_the_bp_index_is_as_of_bounds_alone_and_sums_are_known() {
    for method in METHODS {
        let what = format!("{method:?}");
        let place = Place::memory();
        for (path, stats) in [("default.bp", ""), ("said.bp", " stats=\"default\""), ("bounds.bp", " stats=\"minmax\"")]
        {
            written(&place, &document(method, stats), path, 0..5, true);
        }
        let [default, said, bounds] = ["default.bp", "said.bp", "bounds.bp"].map(|path| bytes(&*place.store, path));
        assert_eq!(entries(&default), entries(&bounds), "{what}");
        assert_eq!(entries(&said), entries(&bounds), "{what}");
        sums_are_known(&place, "default.bp", 5, &what);
        let mean = |path: &str| Reader::open(place.layout.clone(), path).unwrap().summary("t", 0..9).unwrap().mean;
        assert_eq!(mean("bounds.bp"), None, "{what}");
        // 20 bytes of a block.
        let sums: u64 =
            base(&default).entries.iter().filter_map(|e| e.sums.as_ref()).map(|sums| sums.extent.length).sum();
        assert_eq!(sums, 20 * 2 * 5 * u64::from(RANKS), "{what}");
        assert!(verify(&*place.layout, "default.bp").unwrap().findings.is_empty(), "{what}");
        // Whoever wants everything in the index gets it there.
        written(&place, &document(method, " stats=\"On\""), "full.bp", 0..2, true);
        assert!(base(&bytes(&*place.store, "full.bp")).entries.iter().all(|e| e.sums.is_none()), "{what}");
        assert!(mean("full.bp").is_some(), "{what}");
    }
}

#[test]
fn sums_are_known_while_a_file_is_written_and_when_it_is_extended() {
    for method in METHODS {
        let place = Place::memory();
        for steps in 1..=9 {
            let what = format!("{method:?}, step {steps}");
            // Step records and full indexes in turn, as entries double; some steps by a process that ends without a word.
            written(&place, &document(method, ""), "x.bp", steps - 1..steps, steps % 3 == 0);
            sums_are_known(&place, "x.bp", steps, &what);
        }
    }
}

#[test]
fn recovering_finds_sums_in_process_groups() {
    // With an index behind each output the last one is all that says of the last step that it was closed.
    for method in METHODS.into_iter().filter(|m| m.1 != "index=each") {
        let what = format!("{method:?}");
        let place = Place::memory();
        written(&place, &document(method, ""), "x.bp", 0..4, true);
        let whole = bytes(&*place.store, "x.bp");
        let before = entries(&whole);
        // No index is left that checks.
        let base = base(&whole);
        let start = base.extension.as_ref().unwrap().extent.offset;
        let mut damaged = whole.clone();
        damaged[start as usize..].fill(0x55);
        place.store.write_all("x.bp", &damaged).unwrap();
        let Ok(recovery) = recover(&*place.layout, "x.bp", Default::default()) else { panic!("{what}") };
        assert_eq!(recovery.steps, 4, "{what}");
        sums_are_known(&place, "x.bp", 4, &what);
        let mut after = entries(&bytes(&*place.store, "x.bp"));
        after.sort();
        let mut wanted = before;
        wanted.sort();
        assert_eq!(after, wanted, "{what}");
        assert!(verify(&*place.layout, "x.bp").unwrap().findings.is_empty(), "{what}");
    }
}

/// So many steps that their sums are not read with the extension section.
const MANY: u64 = 600;

#[test]
fn damaged_sums_are_noticed_and_name_their_variable() {
    for (steps, at_once) in [(2, true), (MANY, false)] {
        let place = Place::memory();
        written(&place, &document(("MPI", ""), ""), "x.bp", 0..steps, true);
        sums_are_known(&place, "x.bp", steps, "whole");
        let whole = bytes(&*place.store, "x.bp");
        let entry = base(&whole).entries.into_iter().find(|e| e.head.name == "t").unwrap();
        let sums = entry.sums.unwrap();
        assert_eq!(sums.bytes.is_some(), at_once);
        for at in (sums.extent.offset..sums.extent.offset + sums.extent.length).step_by(steps as usize) {
            let mut damaged = whole.clone();
            damaged[at as usize] ^= 0x10;
            place.store.write_all("x.bp", &damaged).unwrap();
            assert!(!verify(&*place.layout, "x.bp").unwrap().findings.is_empty(), "{at}");
            if at_once {
                assert!(Live::find(&damaged).map_or(true, |live| live.end < damaged.len() as u64), "{at}");
                continue;
            }
            let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
            let e = reader.summary("t", 0..9).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Corrupt);
            assert!(e.to_string().contains("the checksum of its sums is wrong"), "{e}");
            assert!(reader.summary("/local/mine", 0..9).unwrap().mean.is_some());
            assert!(Live::find(&damaged).unwrap().load(&damaged).is_err());
            // Where the file is not closed for good, an open looks at all.
            let section = base(&damaged).extension.unwrap().extent;
            let state = state_offset(section) as usize;
            damaged[state..state + 8].copy_from_slice(FOLLOWED);
            assert!(Live::find(&damaged).map_or(true, |live| live.end < damaged.len() as u64));
        }
        // How many there are.
        let section = base(&whole).extension.unwrap().extent;
        for count in [0, 1, 7, u32::MAX] {
            let mut damaged = whole.clone();
            let at = section.offset as usize + 12;
            damaged[at..at + 4].copy_from_slice(&count.to_ne_bytes());
            assert!(Live::find(&damaged).map_or(true, |live| live.end < damaged.len() as u64), "{count}");
        }
    }
}

#[test]
fn an_older_release_that_extends_a_file_leaves_sums_out_and_the_file_is_sound() {
    for steps in [3, MANY] {
        let place = Place::memory();
        written(&place, &document(("MPI", ""), ""), "x.bp", 0..steps, true);
        let file = bytes(&*place.store, "x.bp");
        // It takes the index as it is, and copies records that it does not know.
        let Base { footer, end, extension, .. } = base(&file);
        let extension = extension.unwrap();
        let at = |from: u64, to: u64| Cursor::new(&file[from as usize..to as usize], ByteOrder::NATIVE, from);
        let mut index = Index::default();
        let mut groups = at(footer.process_groups, footer.variables);
        let mut variables = at(footer.variables, footer.attributes);
        index.append_sections(&mut groups, &mut variables, &mut at(footer.attributes, end)).unwrap();
        index.records.append(&extension.records);
        let sums = extension.sums.unwrap();
        index.records.list(Tag::SumsOf).extend(sums.locations.encode());
        let (from, to) = (sums.extent.offset, sums.extent.end().unwrap());
        index.records.list(Tag::Sums).extend(&file[from as usize..to as usize]);
        let mut extended = file[..extension.extent.offset as usize].to_vec();
        extended.extend(index.encode(extension.extent.offset, false, true).unwrap().to_bytes());
        place.store.write_all("x.bp", &extended).unwrap();
        let summary = Reader::open(place.layout.clone(), "x.bp").unwrap().summary("t", 0..9).unwrap();
        assert_eq!((summary.mean, summary.min.is_some()), (None, true));
        assert_eq!(verify(&*place.layout, "x.bp").unwrap().findings, [], "{steps}");
        // This release knows those of later steps again.
        written(&place, &document(("MPI", ""), ""), "x.bp", steps..steps + 1, true);
        let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
        let all = all_of_t(RANKS, steps);
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        assert_eq!(reader.summary("t", steps..steps + 1).unwrap().mean, Some(mean));
        assert_eq!(verify(&*place.layout, "x.bp").unwrap().findings, [], "{steps}");
    }
}

#[test]
fn a_file_that_began_with_bounds_knows_the_sums_of_later_steps() {
    let place = Place::memory();
    written(&place, &document(("MPI", ""), " stats=\"minmax\""), "x.bp", 0..2, true);
    written(&place, &document(("MPI", ""), ""), "x.bp", 2..5, true);
    let file = bytes(&*place.store, "x.bp");
    for entry in Live::find(&file).unwrap().load(&file).unwrap().variables.entries() {
        assert!(bitmaps(&entry.sets).all(|bits| bits == 0x43), "{}", entry.name);
    }
    let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
    let mean = |steps| reader.summary("t", steps).unwrap().mean;
    assert_eq!((mean(0..2), mean(0..5)), (None, None));
    let later: Vec<f64> = (2..5).flat_map(|step| all_of_t(RANKS, step)).collect();
    assert_eq!(mean(2..5), Some(later.iter().sum::<f64>() / later.len() as f64));
}

#[test]
fn sums_cost_no_read_of_their_own_and_where_there_are_many_an_open_does_not_read_them() {
    for (steps, reads) in [(3, 1), (MANY, 2)] {
        let mut of_open = Vec::new();
        for stats in ["", " stats=\"minmax\""] {
            let store = Arc::new(Counting::new(Arc::new(Memory::new())));
            let place = Place::over(store.clone());
            written(&place, &document(("MPI", ""), stats), "x.bp", 0..steps, true);
            let start = store.counted().total();
            let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
            let opened = store.counted().total();
            of_open.push((opened.reads - start.reads, opened.bytes_read - start.bytes_read));
            let known = reader.summary("/local/mine", 0..9).unwrap().mean.is_some();
            assert_eq!(known, stats.is_empty());
            let wanted = if stats.is_empty() { reads } else { 1 };
            assert_eq!(store.counted().total().reads - opened.reads, wanted, "{steps} {stats}");
        }
        let [(reads, bytes), (reads_of_bounds, bytes_of_bounds)] = of_open[..] else { panic!() };
        // Of a large section the head tells how much of it is to be read.
        assert!(reads - reads_of_bounds <= u64::from(steps == MANY), "{steps}: {reads} {reads_of_bounds}");
        let sums = 20 * 2 * steps * u64::from(RANKS);
        let most = if steps == MANY { 200 } else { sums + 100 };
        assert!(bytes - bytes_of_bounds <= most, "{steps}: {bytes} {bytes_of_bounds}");
    }
}
