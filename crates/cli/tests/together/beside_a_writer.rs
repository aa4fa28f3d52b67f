//! `recover` and `layout flatten` of files that another process writes, on every layout: refused, nothing is changed, and no copy
//! of a part passes for the whole.

use crate::support::Ran;
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thalweg_comm::alone::Alone;
use thalweg_conformance::layout::data_logs;
use thalweg_conformance::scratch::Scratch;
use thalweg_io::{Mode, Session, mounts};
use thalweg_layout::{Layout, OpenWrite, WriterId};
use thalweg_schema::xml;

/// With `folders`: `container` whose files have a folder of logs however short they are.
const LAYOUTS: [&str; 5] = ["direct", "flat", "container", "folders", "small_file"];

struct Room {
    scratch: Scratch,
    table: PathBuf,
}

/// A mount `/LAYOUT` for each layout, each over a folder of its own.
fn room() -> Room {
    let scratch = Scratch::new();
    let mut table = String::new();
    for layout in LAYOUTS {
        std::fs::create_dir(scratch.join(layout)).unwrap();
        let store = scratch.join(layout);
        let (kind, inline) = if layout == "folders" { ("container", "inline = 0\n") } else { (layout, "") };
        table += &format!(
            "[[mount]]\npath = \"/of-{layout}\"\nlayout = \"{kind}\"\nstores = [\"posix:{}\"]\n{inline}",
            store.display()
        );
    }
    let file = scratch.join("mounts.toml");
    std::fs::write(&file, table).unwrap();
    Room { scratch, table: file }
}

impl Room {
    /// Whether a layout's folder holds data logs that are objects: for short files only that of `folders` does.
    fn has_data_logs(&self, layout: &str) -> bool {
        data_logs(&self.scratch.join(layout)) > 0
    }

    /// The mounts as another process has them.
    fn layout(&self) -> Arc<dyn Layout> {
        mounts::of_files(std::slice::from_ref(&self.table)).unwrap()
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        let mut command = crate::support::command();
        command.env("THALWEG_MOUNTS", &self.table).args(arguments).output().expect("the command starts").into()
    }
}

fn is_refused(ran: &Ran, what: &str) {
    assert_eq!(ran.code, 3, "{what}: {}{}", ran.out, ran.err);
    let said = ["being written", "has not closed", "open for writing"].iter().any(|words| ran.err.contains(words));
    assert!(said, "{what}: {}", ran.err);
}

fn bytes_of(layout: &dyn Layout, path: &str) -> Vec<u8> {
    let object = layout.open_read(path).unwrap();
    let mut bytes = vec![0; object.length().unwrap() as usize];
    object.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn recover_leaves_a_file_alone_whose_writer_lives_on_every_layout() {
    let document = r#"<adios-config><adios-group name="g"><var name="n" type="integer"/></adios-group>
        <method group="g" method="MPI"/></adios-config>"#;
    for layout in LAYOUTS {
        let room = room();
        let path = format!("/of-{layout}/run.bp");
        let mounts = room.layout();
        let session =
            Session::with_layout(xml::parse(document, "t.xml").unwrap(), mounts.clone(), Box::new(Alone::new()))
                .unwrap();
        let write = |mode, n: i32| {
            let mut output = session.open("g", &path, mode, Box::new(Alone::new())).unwrap();
            output.write_values("n", &[n]).unwrap();
            if n > 0 {
                is_refused(&room.run(&["recover", &path]), &format!("{layout}: in an output"));
            }
            output.close().unwrap();
        };
        write(Mode::Write, 0);
        assert!(layout != "folders" || room.has_data_logs(layout), "the output is in data logs");
        for arguments in [&["recover", &path][..], &["recover", "--dry-run", &path], &["recover", "--partial", &path]] {
            let before = bytes_of(&*mounts, &path);
            is_refused(&room.run(arguments), &format!("{layout}: between outputs, {arguments:?}"));
            assert_eq!(bytes_of(&*room.layout(), &path), before, "{layout}: {arguments:?}");
        }
        write(Mode::Append, 1);
        session.finalize().unwrap();
        drop((session, mounts));
        let ran = room.run(&["recover", &path]);
        assert_eq!((ran.code, &*ran.err), (0, ""), "{layout}");
        assert!(ran.out.contains("nothing to do") && ran.out.contains("2 steps"), "{layout}: {}", ran.out);
    }
}

#[test]
fn the_flag_recovers_without_asking() {
    let room = room();
    let path = "/of-direct/run.bp";
    let mounts = room.layout();
    let file = crate::support::river();
    let object = mounts.open_write(path, OpenWrite::New, WriterId(0)).unwrap();
    object.write_at(0, &[IoSlice::new(&file.bytes), IoSlice::new(&[0; 100])]).unwrap();
    let lease = object.lease().unwrap().unwrap();
    is_refused(&room.run(&["recover", path]), "leased");
    let ran = room.run(&["recover", "--even-if-written", path]);
    assert_eq!((ran.code, &*ran.err), (0, ""), "{}", ran.out);
    drop(lease);
}

#[test]
fn flatten_refuses_a_file_that_is_being_written_and_leaves_no_target() {
    for layout in LAYOUTS {
        let room = room();
        for target in
            [room.scratch.join("copy").display().to_string(), "/of-direct/copy".into(), "/of-flat/copy".into()]
        {
            let path = format!("/of-{layout}/file");
            let mounts = room.layout();
            let object = mounts.open_write(&path, OpenWrite::Replace, WriterId(0)).unwrap();
            object.write_at(0, &[IoSlice::new(b"prefix ")]).unwrap();
            // On layouts that show bytes at a sync or a close alone, a part of the file is seen.
            object.sync().unwrap();
            assert_eq!(room.has_data_logs(layout), layout == "folders", "{layout}");
            let what = format!("{layout} to {target}");
            is_refused(&room.run(&["layout", "flatten", &path, &target]), &what);
            assert!(room.layout().stat(&target).is_err(), "{what}: a part was left");
            object.write_at(7, &[IoSlice::new(b"and rest")]).unwrap();
            object.close().unwrap();
            drop(mounts);
            let ran = room.run(&["layout", "flatten", &path, &target]);
            assert_eq!((ran.code, &*ran.err), (0, ""), "{what}");
            assert_eq!(bytes_of(&*room.layout(), &target), b"prefix and rest", "{what}");
            room.layout().remove(&target).unwrap();
        }
    }
}

#[test]
fn flatten_refuses_a_plain_file_that_any_program_has_open_to_write() {
    let room = room();
    let below: &Path = &room.scratch.join("direct/file");
    let mut file = std::fs::File::create(below).unwrap();
    std::io::Write::write_all(&mut file, b"prefix").unwrap();
    let copy = room.scratch.join("copy");
    let arguments = ["layout", "flatten", "/of-direct/file", copy.to_str().unwrap()];
    is_refused(&room.run(&arguments), "open");
    assert!(!copy.exists());
    let all = [&arguments[..], &["--even-if-written"]].concat();
    let ran = room.run(&all);
    assert_eq!((ran.code, &*ran.err), (0, ""));
    std::fs::remove_file(&copy).unwrap();
    drop(file);
    assert_eq!(room.run(&arguments).code, 0);
}
