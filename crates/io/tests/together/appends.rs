//! Steps are appended across sessions, by another number of ranks, after foreign writers, and with more than one group in
//! a file; what was there before stays as it is.

use crate::common::*;
use std::path::Path;
use thalweg_comm::Communicator;
use thalweg_io::Mode;
use thalweg_reader::Reader;
use thalweg_store::StoreExt;
use thalweg_types::{ErrorKind, Selection};

#[test]
fn another_number_of_ranks_goes_on_where_the_last_session_ended() {
    for method in ["MPI", "POSIX"] {
        let place = Place::memory();
        let sessions = [4u32, 2, 5, 1, 3];
        for (session, ranks) in (0..).zip(sessions) {
            let before_it = if session == 0 { Contents::new() } else { contents(&place.layout, "x.bp").unwrap() };
            place.run(ranks, |comm| {
                let own = place.session(&heat(method, ""), &comm);
                for step in 2 * session..2 * session + 2 {
                    write_heat(&own, "x.bp", if step == 0 { Mode::Write } else { Mode::Append }, &comm, step);
                }
                own.finalize().unwrap();
            });
            let now = contents(&place.layout, "x.bp").unwrap();
            assert_eq!(before(&now, 2 * session), before_it, "{method}");
            for step in 0..2 * session + 2 {
                let ranks = sessions[step as usize / 2];
                assert_eq!(read_heat(&place.layout, "x.bp", step), all_of_t(ranks, step), "{method} {step}");
            }
        }
    }
}

#[test]
fn an_update_adds_to_the_last_step() {
    for method in ["MPI", "POSIX"] {
        let place = Place::memory();
        place.run(2, |comm| {
            let session = place.session(&heat(method, ""), &comm);
            let rank = comm.rank();
            for round in 0..3 {
                write_heat(&session, "x.bp", if round == 0 { Mode::Write } else { Mode::Append }, &comm, round);
                for again in 0..2 {
                    let mut more = session.open("heat", "x.bp", Mode::Update, comm.duplicate().unwrap()).unwrap();
                    assert_eq!(more.step(), round);
                    more.write_values("NX", &[3i32]).unwrap();
                    more.write_values("mine", &[(100 + 10 * again + rank) as f32; 3]).unwrap();
                    more.close().unwrap();
                }
            }
            session.finalize().unwrap();
        });
        let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
        assert_eq!(reader.status().steps, 3);
        for step in 0..3 {
            let blocks = reader.blocks("/local/mine", step).unwrap();
            let firsts: Vec<f32> = (0..blocks.len() as u64)
                .map(|n| reader.read_as::<f32>("/local/mine", step, &Selection::Block(n)).unwrap()[0])
                .collect();
            assert_eq!(firsts, [0.0, 1.0, 100.0, 101.0, 110.0, 111.0], "{method}");
            assert_eq!(read_heat(&place.layout, "x.bp", step), all_of_t(2, step));
        }
    }
}

#[test]
fn appending_to_what_is_not_there_begins_a_file_and_its_attributes_are_in_it() {
    for method in ["MPI", "POSIX"] {
        let place = Place::memory();
        place.run(2, |comm| {
            for _ in 0..2 {
                let session = place.session(&heat(method, ""), &comm);
                write_heat(&session, "x.bp", Mode::Append, &comm, 0);
                write_heat(&session, "x.bp", Mode::Append, &comm, 1);
                comm.barrier().unwrap();
                let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
                let written: Vec<_> = reader.attributes().iter().map(|a| (a.name.as_str(), a.blocks)).collect();
                assert_eq!(written, [("/t/units", 1)], "once in a file, also in the second one");
                comm.barrier().unwrap();
                session.finalize().unwrap();
                comm.barrier().unwrap();
                // Somebody takes the file away between two sessions; between two outputs of one it would be missed.
                if comm.rank() == 0 {
                    place.store.remove("x.bp").unwrap();
                    if method == "POSIX" {
                        (0..2).for_each(|k| place.store.remove(&format!("x.bp.dir/x.bp.{k}")).unwrap());
                    }
                }
                comm.barrier().unwrap();
            }
        });
    }
}

#[test]
fn a_file_is_open_for_one_output_at_a_time() {
    for method in ["MPI", "POSIX"] {
        let place = Place::memory();
        place.run(2, |comm| {
            let session = place.session(&heat(method, ""), &comm);
            write_heat(&session, "x.bp", Mode::Write, &comm, 0);
            let first = session.open("heat", "x.bp", Mode::Append, comm.duplicate().unwrap()).unwrap();
            let second = session.open("heat", "x.bp", Mode::Append, comm.duplicate().unwrap()).err().unwrap();
            assert_eq!(second.kind(), ErrorKind::InvalidArgument);
            if comm.rank() == 0 {
                assert!(second.to_string().contains("open for another output"), "{second}");
            }
            first.close().unwrap();
            write_heat(&session, "x.bp", Mode::Append, &comm, 2);
            session.finalize().unwrap();
        });
        assert_eq!(Reader::open(place.layout.clone(), "x.bp").unwrap().status().steps, 3, "{method}");
    }
}

#[test]
fn an_append_with_the_other_method_is_refused_and_says_which_one_wrote_the_file() {
    for (method, other, words) in
        [("MPI", "POSIX", "holds its data itself"), ("POSIX", "MPI", "has its data in subfiles")]
    {
        let place = Place::memory();
        place.run(2, |comm| {
            let session = place.session(&heat(method, ""), &comm);
            write_heat(&session, "x.bp", Mode::Write, &comm, 0);
            session.finalize().unwrap();
            let session = place.session(&heat(other, ""), &comm);
            let e = session.open("heat", "x.bp", Mode::Append, comm.duplicate().unwrap()).err().unwrap();
            assert_eq!(e.kind(), ErrorKind::Unsupported);
            assert!(comm.rank() > 0 || e.to_string().contains(words), "{e}");
        });
        assert_eq!(read_heat(&place.layout, "x.bp", 0), all_of_t(2, 0));
    }
}

const TWO_GROUPS: &str = r#"<adios-config host-language="C">
  <adios-group name="a"><var name="x" type="double"/><var name="shared" type="integer"/></adios-group>
  <adios-group name="b"><var name="y" type="real"/><var name="shared" type="integer"/></adios-group>
  <method group="a" method="METHOD"/><method group="b" method="METHOD"/>
</adios-config>"#;

#[test]
fn two_groups_take_turns_in_one_file() {
    for method in ["MPI", "POSIX"] {
        let place = Place::memory();
        place.run(3, |comm| {
            let session = place.session(&TWO_GROUPS.replace("METHOD", method), &comm);
            for step in 0..6 {
                let mode = if step == 0 { Mode::Write } else { Mode::Append };
                let (group, name) = if step % 2 == 0 { ("a", "x") } else { ("b", "y") };
                let mut output = session.open(group, "ab.bp", mode, comm.duplicate().unwrap()).unwrap();
                match name {
                    "x" => output.write_values("x", &[step as f64]).unwrap(),
                    _ => output.write_values("y", &[step as f32]).unwrap(),
                }
                output.close().unwrap();
            }
            session.finalize().unwrap();
        });
        let reader = Reader::open(place.layout.clone(), "ab.bp").unwrap();
        assert_eq!(reader.status().groups, ["a", "b"]);
        assert_eq!(reader.variable("x").unwrap().steps, [0, 2, 4]);
        assert_eq!(reader.variable("y").unwrap().steps, [1, 3, 5]);
        assert_eq!(reader.value("y", 3).unwrap().as_f64(), Some(3.0), "{method}");
    }
}

#[test]
fn a_name_of_two_groups_is_refused_before_it_spoils_the_file() {
    for method in ["MPI", "POSIX"] {
        let place = Place::memory();
        let outcomes = place.run(3, |comm| {
            let session = place.session(&TWO_GROUPS.replace("METHOD", method), &comm);
            let write = |group: &str, mode| {
                let mut output = session.open(group, "ab.bp", mode, comm.duplicate().unwrap()).unwrap();
                output.write_values("shared", &[1i32]).unwrap();
                output.close().map(|_| ())
            };
            write("a", Mode::Write).unwrap();
            write("a", Mode::Append).unwrap();
            write("a", Mode::Append).unwrap();
            let outcome = write("b", Mode::Append);
            write("a", Mode::Append).unwrap();
            session.finalize().unwrap();
            outcome
        });
        all_failed_alike(&outcomes, &[0], ErrorKind::InvalidArgument);
        let e = words(&outcomes);
        assert!(e.contains("in group \"a\"; a file holds a name once") && e.contains("\"shared\""), "{e}");
        let reader = Reader::open(place.layout.clone(), "ab.bp").unwrap();
        assert_eq!((reader.status().steps, reader.status().finished), (4, true), "{method}");
        assert_eq!(reader.status().groups, ["a"]);
    }
}

#[test]
fn a_rank_that_declares_another_type_loses_its_own_part_alone() {
    for method in ["MPI", "POSIX"] {
        let place = Place::memory();
        let outcomes = place.run(3, |comm| {
            let document = TWO_GROUPS.replace("METHOD", method);
            let document = if comm.rank() == 1 { document.replace("\"double\"", "\"long\"") } else { document };
            let session = place.session(&document, &comm);
            let mut output = session.open("a", "a.bp", Mode::Write, comm.duplicate().unwrap()).unwrap();
            output.write_values("x", &[1.5f64]).unwrap();
            let outcome = output.close().map(|_| ());
            session.finalize().unwrap();
            outcome
        });
        all_failed_alike(&outcomes, &[0], ErrorKind::InvalidArgument);
        assert!(words(&outcomes).contains("the part of rank 1 is left out"), "{}", words(&outcomes));
        let reader = Reader::open(place.layout.clone(), "a.bp").unwrap();
        assert_eq!(reader.status().partial.iter().map(|p| p.rank).collect::<Vec<_>>(), [1]);
        assert_eq!(reader.blocks("x", 0).unwrap().len(), 2, "{method}");
    }
}

/// Copies a fixture into a place, subfiles included.
fn fixture(place: &Place, name: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/foreign");
    place.store.write_all(name, &std::fs::read(folder.join(name)).unwrap()).unwrap();
    if let Ok(list) = std::fs::read_dir(folder.join(format!("{name}.dir"))) {
        place.store.make_folder(&format!("{name}.dir")).unwrap();
        for entry in list {
            let entry = entry.unwrap();
            let to = format!("{name}.dir/{}", entry.file_name().into_string().unwrap());
            place.store.write_all(&to, &std::fs::read(entry.path()).unwrap()).unwrap();
        }
    }
}

/// The group of the fixtures that ADIOS 1.13 wrote on four ranks.
fn ranks_group(method: &str) -> String {
    let numbers = ["NX", "NY", "nx", "ox", "row"].map(|n| format!("<var name=\"{n}\" type=\"integer\"/>")).join("");
    format!(
        r#"<adios-config host-language="C"><adios-group name="ranks">{numbers}
             <var name="T" type="double" dimensions="nx,NY" global="NX,NY"/>
             <global-bounds dimensions="NX,NY" offsets="ox,0"><var name="T" type="double" dimensions="nx,NY"/></global-bounds>
             <var name="time" type="double"/>
             <var name="new" type="real" dimensions="nx"/>
           </adios-group><method group="ranks" method="{method}"/></adios-config>"#
    )
    .replace("<var name=\"T\" type=\"double\" dimensions=\"nx,NY\" global=\"NX,NY\"/>", "")
}

#[test]
fn files_of_adios_1_13_keep_their_steps_and_get_more() {
    for (name, method) in [("adios1-ranks.bp", "MPI"), ("adios1-no-stats.bp", "MPI"), ("adios1-subfiles.bp", "POSIX")] {
        for ranks in [4u32, 3] {
            let place = Place::memory();
            fixture(&place, name);
            let theirs = contents(&place.layout, name).unwrap();
            let steps = Reader::open(place.layout.clone(), name).unwrap().status().steps;
            for session in 0..2 {
                place.run(ranks, |comm| {
                    let own = place.session(&ranks_group(method), &comm);
                    for step in 0..2 {
                        let mut output = own.open("ranks", name, Mode::Append, comm.duplicate().unwrap()).unwrap();
                        assert_eq!(output.step(), steps + 2 * session + step);
                        let rank = comm.rank() as i32;
                        for (name, value) in [("NX", 2 * ranks as i32), ("NY", 3), ("nx", 2), ("ox", 2 * rank)] {
                            output.write_values(name, &[value]).unwrap();
                        }
                        output.write_values("T", &[f64::from(rank); 6]).unwrap();
                        output.write_values("new", &[rank as f32; 2]).unwrap();
                        output.close().unwrap();
                    }
                    own.finalize().unwrap();
                });
            }
            let reader = Reader::open(place.layout.clone(), name).unwrap();
            assert_eq!((reader.status().steps, reader.status().finished), (steps + 4, true), "{name}");
            assert_eq!(before(&contents(&place.layout, name).unwrap(), steps), theirs, "{name}");
            for step in steps..steps + 4 {
                let expected: Vec<f64> = (0..ranks).flat_map(|r| [f64::from(r); 6]).collect();
                assert_eq!(reader.read_as::<f64>("T", step, &Selection::All).unwrap(), expected, "{name} {step}");
                assert_eq!(reader.blocks("new", step).unwrap().len(), ranks as usize);
            }
        }
    }
}

#[test]
fn looking_at_a_foreign_file_in_append_mode_leaves_it_as_it_was() {
    let place = Place::memory();
    fixture(&place, "adios1-ranks.bp");
    let theirs = bytes(&*place.store, "adios1-ranks.bp");
    place.run(2, |comm| {
        let own = place.session(&ranks_group("MPI"), &comm);
        drop(own.open("ranks", "adios1-ranks.bp", Mode::Append, comm.duplicate().unwrap()).unwrap());
        own.finalize().unwrap();
    });
    assert!(bytes(&*place.store, "adios1-ranks.bp") == theirs);
}

#[test]
fn a_file_of_the_other_byte_order_can_be_read_but_not_extended() {
    let place = Place::memory();
    fixture(&place, "encoded-big-01.bp");
    let theirs = bytes(&*place.store, "encoded-big-01.bp");
    place.run(2, |comm| {
        let own = place.session(&ranks_group("MPI"), &comm);
        let e = own.open("ranks", "encoded-big-01.bp", Mode::Append, comm.duplicate().unwrap()).err().unwrap();
        assert_eq!(e.kind(), ErrorKind::Unsupported, "{e}");
        own.finalize().unwrap();
    });
    assert!(bytes(&*place.store, "encoded-big-01.bp") == theirs);
}
