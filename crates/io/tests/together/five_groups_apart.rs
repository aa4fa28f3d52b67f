//! First requirement: groups are configured independently, each with its own methods.

use crate::common::*;
use thalweg_comm::Communicator;
use thalweg_io::Mode;
use thalweg_reader::Reader;
use thalweg_types::Selection;

const TWO_GROUPS: &str = r#"<adios-config host-language="C">
  <adios-group name="fields" stats="off">
    <var name="n" type="integer"/><var name="ranks" type="integer"/><var name="rank" type="integer"/>
    <global-bounds dimensions="ranks,n" offsets="rank,0"><var name="u" type="double" dimensions="1,n"/></global-bounds>
  </adios-group>
  <adios-group name="restart">
    <var name="n" type="integer"/>
    <var name="state" type="real" dimensions="n"/>
  </adios-group>
  <method group="fields" method="MPI"/>
  <method group="restart" method="POSIX" base-path="checkpoints">index=each</method>
</adios-config>"#;

#[test]
fn two_groups_with_two_methods_are_written_interleaved() {
    let place = Place::memory();
    place.store.make_folder("checkpoints").unwrap();
    place.run(3, |comm| {
        let session = place.session(TWO_GROUPS, &comm);
        let rank = comm.rank() as i32;
        for step in 0..3 {
            let mode = if step == 0 { Mode::Write } else { Mode::Append };
            let mut fields = session.open("fields", "fields.bp", mode, comm.duplicate().unwrap()).unwrap();
            let mut restart = session.open("restart", "restart.bp", mode, comm.duplicate().unwrap()).unwrap();
            // A name of one group says nothing about the other's.
            fields.write_values("n", &[2i32]).unwrap();
            restart.write_values("n", &[3i32]).unwrap();
            fields.write_values("ranks", &[3i32]).unwrap();
            restart.write_values("state", &[(10 * step + rank) as f32; 3]).unwrap();
            fields.write_values("rank", &[rank]).unwrap();
            fields.write_values("u", &[f64::from(step), f64::from(rank)]).unwrap();
            restart.close().unwrap();
            fields.close().unwrap();
        }
        session.finalize().unwrap();
    });

    let fields = Reader::open(place.layout.clone(), "fields.bp").unwrap();
    assert!(!fields.status().subfiles);
    assert_eq!(fields.read_as::<f64>("u", 2, &Selection::All).unwrap(), [2.0, 0.0, 2.0, 1.0, 2.0, 2.0]);
    assert_eq!(fields.blocks("u", 0).unwrap()[0].statistics, None, "stats=\"off\"");

    let restart = Reader::open(place.layout.clone(), "checkpoints/restart.bp").unwrap();
    assert!(restart.status().subfiles);
    assert_eq!(restart.read_as::<f32>("state", 1, &Selection::Block(2)).unwrap(), [12.0; 3]);
    assert!(restart.blocks("state", 1).unwrap()[2].statistics.is_some());
    assert_eq!(place.store.list("checkpoints/restart.bp.dir").unwrap().len(), 3);
}

#[test]
fn one_group_through_two_methods_makes_two_equal_files() {
    let place = Place::memory();
    for folder in ["a", "b"] {
        place.store.make_folder(folder).unwrap();
    }
    let document = heat("MPI", "").replace(
        "<method group=\"heat\" method=\"MPI\"></method>",
        "<method group=\"heat\" method=\"MPI\" base-path=\"a\"/><method group=\"heat\" method=\"POSIX\" base-path=\"b\"/>
         <method group=\"heat\" method=\"NULL\"/>",
    );
    for buffer in [None, Some(0)] {
        place.run(3, |comm| {
            let session = place.session(&document, &comm);
            session.set_buffer_limit(buffer);
            for step in 0..3 {
                write_heat(&session, "x.bp", if step == 0 { Mode::Write } else { Mode::Append }, &comm, step);
            }
            session.finalize().unwrap();
        });
        let a = contents(&place.layout, "a/x.bp").unwrap();
        assert_eq!(a, contents(&place.layout, "b/x.bp").unwrap());
        assert_eq!(a.len(), 6 * 3);
        assert_eq!(read_heat(&place.layout, "a/x.bp", 2), all_of_t(3, 2));
    }
}
