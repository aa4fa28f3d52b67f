//! A file keeps the statistics it began with: ADIOS 1.13's `bpls` crashes where a variable's blocks record different ones.

use crate::common::*;
use std::path::Path;
use thalweg_bp::live::Live;
use thalweg_bp::statistics::Level;
use thalweg_comm::Communicator;
use thalweg_io::Mode;
use thalweg_movement::output_file::levels::bitmaps;
use thalweg_reader::Reader;
use thalweg_store::StoreExt;
use thalweg_types::{ErrorKind, Selection};

fn document(method: &str, stats: &str, of_mine: &str) -> String {
    heat(method, "")
        .replace("<adios-group name=\"heat\">", &format!("<adios-group name=\"heat\" stats=\"{stats}\">"))
        .replace("name=\"mine\"", &format!("name=\"mine\" stats=\"{of_mine}\""))
}

fn levels(place: &Place, name: &str) -> Vec<Option<Level>> {
    let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
    let steps = reader.variable(name).unwrap().steps;
    let blocks = steps.into_iter().flat_map(|s| reader.blocks(name, s).unwrap());
    blocks.map(|b| b.statistics.map(|s| s.level)).collect()
}

#[test]
fn another_level_in_a_later_run_gives_way_to_that_of_the_file() {
    let choices =
        [("off", None), ("minmax", Some(Level::MinMax)), ("default", Some(Level::Beside)), ("full", Some(Level::Full))];
    for method in ["MPI", "POSIX"] {
        for (first, level) in choices {
            for (later, asked) in choices {
                let place = Place::memory();
                for (session, stats) in [(0u64, first), (1, later), (2, later)] {
                    place.run(2, |comm| {
                        // The variable with a level of its own never changes it.
                        let own = place.session(&document(method, stats, "minmax"), &comm);
                        for step in 2 * session..2 * session + 2 {
                            write_heat(&own, "x.bp", if step == 0 { Mode::Write } else { Mode::Append }, &comm, step);
                        }
                        own.finalize().unwrap();
                    });
                }
                let what = format!("{method} {first} and then {later}");
                // Beside bounds in the index there is room for sums.
                let bounds = |level: Option<Level>| matches!(level, Some(Level::MinMax | Level::Beside));
                let kept = match level {
                    level if !bounds(level) => level,
                    _ if asked.is_some_and(Level::has_sums) => Some(Level::Beside),
                    _ => Some(Level::MinMax),
                };
                let wanted: Vec<Option<Level>> = [level; 4].into_iter().chain([kept; 8]).collect();
                assert_eq!(levels(&place, "t"), wanted, "{what}");
                assert_eq!(levels(&place, "/local/mine"), vec![Some(Level::MinMax); 12], "{what}");
                for step in 0..6 {
                    assert_eq!(read_heat(&place.layout, "x.bp", step), all_of_t(2, step), "{what}");
                }
                let file = bytes(&*place.store, "x.bp");
                let index = Live::find(&file).unwrap().load(&file).unwrap();
                for entry in index.variables.entries() {
                    let bits: Vec<u32> = bitmaps(&entry.sets).collect();
                    assert!(bits.windows(2).all(|w| w[0] == w[1]), "{what}: {} {bits:?}", entry.name);
                }
            }
        }
    }
}

#[test]
fn a_new_file_has_the_level_that_is_asked_for() {
    let place = Place::memory();
    for (stats, level) in [("full", Some(Level::Full)), ("off", None)] {
        place.run(2, |comm| {
            let own = place.session(&document("MPI", stats, stats), &comm);
            write_heat(&own, "x.bp", Mode::Write, &comm, 0);
            own.finalize().unwrap();
        });
        assert_eq!(levels(&place, "t"), [level; 2]);
    }
}

#[test]
fn ranks_that_declare_different_levels_do_not_mix_them_in_a_file() {
    for method in ["MPI", "POSIX"] {
        let place = Place::memory();
        let outcomes = place.run(3, |comm| {
            let own = place.session(&document(method, if comm.rank() == 2 { "off" } else { "full" }, "full"), &comm);
            let outcome = try_heat(&own, "x.bp", Mode::Write, &comm, 0);
            own.finalize().unwrap();
            outcome
        });
        all_failed_alike(&outcomes, &[0], ErrorKind::InvalidArgument);
        let e = words(&outcomes);
        assert!(e.contains("the part of rank 2 is left out: its blocks record different statistics"), "{e}");
        assert_eq!(levels(&place, "t"), vec![Some(Level::Full); 2], "{method}");
    }
}

#[test]
fn statistics_that_only_adios_1_13_writes_are_not_continued() {
    let place = Place::memory();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/foreign");
    let name = "adios1-complex-full.bp";
    place.store.make_folder(&format!("{name}.dir")).unwrap();
    for file in [name.to_string(), format!("{name}.dir/{name}.0")] {
        place.store.write_all(&file, &std::fs::read(folder.join(&file)).unwrap()).unwrap();
    }
    let document = r#"<adios-config host-language="C"><adios-group name="complexes">
      <var name="c32" type="complex" dimensions="3,2"/><var name="after" type="double" dimensions="3,2"/>
      </adios-group><method group="complexes" method="POSIX"/></adios-config>"#;
    place.run(1, |comm| {
        let own = place.session(document, &comm);
        let e = own.open("complexes", name, Mode::Append, comm.duplicate().unwrap()).err().unwrap();
        assert_eq!(e.kind(), ErrorKind::Unsupported);
        assert!(e.to_string().contains("\"c32\"") && e.to_string().contains("write a new file"), "{e}");
        // Without that variable the file can be extended.
        let own =
            place.session(&document.replace("<var name=\"c32\" type=\"complex\" dimensions=\"3,2\"/>", ""), &comm);
        let mut output = own.open("complexes", name, Mode::Append, comm.duplicate().unwrap()).unwrap();
        output.write_values("after", &[2.0f64; 6]).unwrap();
        output.close().unwrap();
    });
    let reader = Reader::open(place.layout.clone(), name).unwrap();
    assert_eq!(reader.read_as::<f64>("after", 2, &Selection::Block(0)).unwrap(), [2.0; 6]);
}
