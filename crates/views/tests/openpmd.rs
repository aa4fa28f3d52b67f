//! Views for openPMD: their names, attributes and blocks, as this library's reader has them.

use std::path::Path;
use std::sync::Arc;
use thalweg_comm::{Communicator, threads};
use thalweg_conformance::scratch::Scratch;
use thalweg_io::{Mode, Session};
use thalweg_layout::{Direct, Layout};
use thalweg_reader::{Reader, Reads};
use thalweg_store::Posix;
use thalweg_types::{AttributeValue, ErrorKind, Selection, Value};
use thalweg_views::openpmd::{file, safe, view};

fn xml(group: &str, method: &str) -> String {
    format!(
        r#"<adios-config host-language="C" schema-version="1.1"><adios-group name="g" {group}>
          <var name="first" type="integer"/>
          <var name="time" type="double"/>
          <global-bounds dimensions="4" offsets="first">
            <var name="v_x" type="double" dimensions="2"/><var name="v_y" type="double" dimensions="2"/>
            <var name="n.o" type="integer" dimensions="2" mesh="m" center="point"/>
          </global-bounds>
          <var name="own" type="float" dimensions="3"/>
          <mesh name="m" type="uniform"><dimensions value="4"/><origin value="1"/><spacing value="0.25"/></mesh>
          <attribute name="units" path="/v_x" value="furlong" type="string"/>
          <attribute name="unitSI" path="/n.o" value="2.5" type="double"/>
          <attribute name="units" path="/time" value="min" type="string"/>
        </adios-group><method group="g" method="{method}"/></adios-config>"#
    )
}

/// Two ranks, two steps.
fn written(folder: &Path, group: &str, method: &str) -> Reader {
    let schema = thalweg_schema::xml::parse(&xml(group, method), "g.xml").unwrap();
    let layout: Arc<dyn Layout> = Arc::new(Direct::new(Arc::new(Posix::at(folder).unwrap())).unwrap());
    threads::run(2, |comm| {
        let session = Session::with_layout(schema.clone(), layout.clone(), comm.duplicate().unwrap()).unwrap();
        let first = 2 * comm.rank();
        for (step, mode) in [(0, Mode::Write), (1, Mode::Append)] {
            let mut output = session.open("g", "x.bp", mode, comm.duplicate().unwrap()).unwrap();
            let of = |added: u32| f64::from(100 * step + 10 * added + first);
            output.write_values("first", &[first as i32]).unwrap();
            output.write_values("time", &[1.5 * f64::from(step)]).unwrap();
            output.write_values("v_x", &[of(0), of(0) + 1.0]).unwrap();
            output.write_values("v_y", &[of(1), of(1) + 1.0]).unwrap();
            output.write_values("n.o", &[of(2) as i32, of(2) as i32 + 1]).unwrap();
            output.write_values("own", &[f32::from(first as u16); 3]).unwrap();
            output.close().unwrap();
        }
        session.finalize().unwrap();
    });
    Reader::open(layout, "x.bp").unwrap()
}

/// A view. Its process groups do not exist: they cannot be compared with those of the data.
fn shown(layout: Arc<dyn Layout>, name: &str) -> Reader {
    Reader::open(layout, name).unwrap().with_reads(Reads::Unchecked)
}

fn real(reader: &Reader, name: &str) -> f64 {
    match reader.attribute(name).unwrap().value {
        AttributeValue::One(one) => one.as_f64().unwrap(),
        AttributeValue::Many(_, all) => all[0].as_f64().unwrap(),
        AttributeValue::Variable(_) => panic!("{name}"),
    }
}

#[test]
fn each_step_is_an_iteration_with_the_blocks_of_the_file() {
    for method in ["MPI", "POSIX"] {
        let folder = Scratch::new();
        let reader = written(folder.path(), "", method);
        let made = view::view(&reader).unwrap();
        let told: Vec<String> = made.left_out.iter().map(|left| format!("{}: {}", left.name, left.why)).collect();
        assert_eq!(told, ["unit of v_x: 'furlong' is no unit that is understood here: 1 of the SI is taken"]);
        // 3 arrays of two blocks in two steps, and two local arrays in each step.
        assert_eq!((made.arrays, made.blocks), (7, 16));
        let target = file::beside(&folder.join("x.bp"));
        for _ in 0..2 {
            file::write(&made, &target).unwrap();
        }
        let shown = shown(reader.layout().clone(), "x.openpmd.bp");
        assert_eq!(shown.status().steps, 1);
        for step in [0, 1] {
            let at = |name: &str| format!("/data/{step}/meshes/{name}");
            for (own, of) in [("v/x", "v_x"), ("v/y", "v_y"), ("n_o", "n.o")] {
                let read = |reader: &Reader, name: &str, step| reader.read_to_vec(name, step, &Selection::All).unwrap();
                assert_eq!(read(&shown, &at(own), 0), read(&reader, of, step), "{own}");
            }
            assert_eq!(shown.shape(&at("own_block_1"), 0).unwrap(), [3]);
            assert_eq!(real(&shown, &format!("/data/{step}/time")), 1.5 * step as f64);
            assert_eq!(real(&shown, &format!("/data/{step}/timeUnitSI")), 60.0);
            assert_eq!(real(&shown, &at("n_o/gridSpacing")), 0.25);
            assert_eq!(real(&shown, &at("n_o/gridGlobalOffset")), 1.0);
            assert_eq!(real(&shown, &at("n_o/unitSI")), 2.5);
            assert_eq!(real(&shown, &at("v/x/unitSI")), 1.0);
        }
        let text = AttributeValue::One(Value::String(b"groupBased".to_vec()));
        assert_eq!(shown.attribute("/iterationEncoding").unwrap().value, text);
        let e = view::view(&shown).unwrap_err();
        assert!(e.kind() == ErrorKind::Unsupported && e.what().contains("openPMD already"), "{e}");
    }
}

#[test]
fn the_schema_of_a_group_makes_the_view_at_the_end() {
    let folder = Scratch::new();
    let reader = written(folder.path(), r#"schema="openPMD""#, "POSIX");
    let own = std::fs::read(folder.join("x.openpmd.bp")).unwrap();
    assert_eq!(own, view::view(&reader).unwrap().index);
    let names: Vec<_> =
        std::fs::read_dir(folder.join("x.openpmd.bp.dir")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2);
    let without = Scratch::new();
    written(without.path(), r#"schema="ADIOS""#, "POSIX");
    assert!(!without.join("x.openpmd.bp").exists());
}

#[test]
fn files_are_found_through_relative_links_and_others_are_kept() {
    let folder = Scratch::new();
    let made = view::view(&written(folder.path(), "", "POSIX")).unwrap();
    let target = folder.join("deep/er/v.bp");
    std::fs::create_dir_all(target.parent().unwrap()).unwrap();
    file::write(&made, &target).unwrap();
    let link = folder.join("deep/er/v.bp.dir/v.bp.1");
    assert_eq!(std::fs::read_link(&link).unwrap(), Path::new("../../../x.bp.dir/x.bp.1"));
    assert!(link.is_file());
    // The folder of the data itself, and a name that readers do not know.
    let e = file::write(&made, &folder.join("x.bp")).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
    let e = file::write(&made, &folder.join("v.view")).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
}

#[test]
fn files_of_the_other_byte_order_have_views_in_theirs() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/foreign");
    for name in ["encoded-big-01.bp", "encoded-big-fortran.bp", "encoded-big-subfiles.bp", "encoded-subfiles.bp"] {
        let layout: Arc<dyn Layout> = Arc::new(Direct::new(Arc::new(Posix::at(&fixtures).unwrap())).unwrap());
        let reader = Reader::open(layout, name).unwrap();
        let made = view::view(&reader).unwrap();
        let folder = Scratch::new();
        file::write(&made, &folder.join("view.bp")).unwrap();
        let layout: Arc<dyn Layout> = Arc::new(Direct::new(Arc::new(Posix::at(folder.path()).unwrap())).unwrap());
        let shown = shown(layout, "view.bp");
        assert_eq!(shown.byte_order(), reader.byte_order());
        let mut compared = 0;
        for head in reader.variables() {
            let variable = reader.variable(&head.name).unwrap();
            for step in variable.steps {
                let own = format!("/data/{step}/meshes/{}", safe(head.name.trim_matches('/')));
                if shown.variable(&own).is_err() {
                    continue;
                }
                let read = |reader: &Reader, name: &str, step| reader.read_to_vec(name, step, &Selection::All).unwrap();
                assert_eq!(read(&shown, &own, 0), read(&reader, &head.name, step), "{name} {own}");
                compared += 1;
            }
        }
        assert!(compared > 5, "{name}: {compared}");
    }
}
