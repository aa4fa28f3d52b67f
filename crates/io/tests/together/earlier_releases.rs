//! Files and stores that earlier releases have written are read, appended to and recovered.
//!
//! `tests/fixtures/earlier/RELEASE/NAME.tar.gz` holds a folder with `said.json`, which `examples/earlier.rs` of that release
//! wrote and describes. None of them is ever made anew.

use serde_json::Value as Json;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use thalweg_comm::{Communicator, threads};
use thalweg_conformance::scratch::Scratch;
use thalweg_io::mounts;
use thalweg_io::{Mode, Session};
use thalweg_layout::{Direct, Layout, OpenWrite, WriterId, write_all_at};
use thalweg_reader::{FindingKind, Partial, Reader, RecoverOptions, recover, verify};
use thalweg_schema::xml;
use thalweg_store::Posix;
use thalweg_types::{ErrorKind, Selection};

/// A fixture, unpacked where it may be changed.
struct Fixture {
    name: String,
    said: Json,
    layout: Arc<dyn Layout>,
    _folder: Scratch,
}

fn archives() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/earlier");
    let folders = |folder: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    let releases = folders(&folder).into_iter().filter(|path| path.is_dir());
    let mut archives: Vec<PathBuf> = releases.flat_map(|release| folders(&release)).collect();
    archives.retain(|path| path.to_string_lossy().ends_with(".tar.gz"));
    archives.sort();
    assert!(archives.len() >= 83, "{archives:?}");
    archives
}

impl Fixture {
    fn unpack(archive: &Path) -> Fixture {
        let folder = Scratch::new();
        let status =
            Command::new("tar").args(["--xattrs", "-xzpf"]).arg(archive).arg("-C").arg(folder.path()).status().unwrap();
        assert!(status.success(), "tar: {}", archive.display());
        let name = archive.file_name().unwrap().to_string_lossy().replace(".tar.gz", "");
        let place = folder.join(&name);
        let said: Json = serde_json::from_slice(&std::fs::read(place.join("said.json")).unwrap()).unwrap();
        let layout: Arc<dyn Layout> = match said["mounts"].as_str() {
            None => Arc::new(Direct::new(Arc::new(Posix::at(&place).unwrap())).unwrap()),
            Some(table) => {
                let path = folder.join("mounts.toml");
                std::fs::write(&path, table.replace('@', &place.display().to_string())).unwrap();
                mounts::of_files(&[path]).unwrap()
            }
        };
        Fixture { name, said, layout, _folder: folder }
    }

    /// Every fixture, one after the other.
    fn each(act: impl Fn(&Fixture)) {
        for archive in archives() {
            let fixture = Fixture::unpack(&archive);
            eprintln!("{}", fixture.name);
            act(&fixture);
        }
    }

    fn files(&self) -> Vec<File<'_>> {
        let text = |json: &'static str, file: &Json| file[json].as_str().unwrap().to_string();
        let files = self.said["files"].as_array().unwrap().iter();
        let file = |file| File {
            fixture: self,
            path: text("path", file),
            method: text("method", file),
            parameters: text("parameters", file),
            state: text("state", file),
            t: file["t"].as_array().unwrap().iter().map(|step| step.as_array().unwrap().clone()).collect(),
            document: file["document"].as_str().map(str::to_string),
        };
        files.map(file).collect()
    }
}

/// A BP file of a fixture.
struct File<'f> {
    fixture: &'f Fixture,
    path: String,
    method: String,
    parameters: String,
    state: String,
    /// By step and rank.
    t: Vec<Vec<Json>>,
    /// The XML, where it is another than that of the methods.
    document: Option<String>,
}

fn doubles(json: &Json) -> Vec<f64> {
    json.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

/// What every rank of an append writes.
fn appended(rank: u32, length: usize) -> Vec<f64> {
    (0..length).map(|i| -1.0 - i as f64 - 10.0 * f64::from(rank)).collect()
}

impl File<'_> {
    fn name(&self) -> String {
        format!("{}: {}", self.fixture.name, self.path)
    }

    fn reader(&self) -> Reader {
        Reader::open(self.fixture.layout.clone(), &self.path).unwrap_or_else(|e| panic!("{}: {e}", self.name()))
    }

    /// All that was written is there, with `more` steps of [`appended`] behind it, and nothing else.
    fn reads(&self, more: usize) {
        let (reader, name) = (self.reader(), self.name());
        assert_eq!(reader.status().steps as usize, self.t.len() + more, "{name}: steps");
        for step in 0..self.t.len() + more {
            let rows: Vec<Option<Vec<f64>>> = match self.t.get(step) {
                Some(rows) => rows.iter().map(|row| (!row.is_null()).then(|| doubles(row))).collect(),
                None => (0..3).map(|rank| Some(appended(rank, self.row()))).collect(),
            };
            let blocks = reader.blocks("t", step as u64).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(blocks.len(), rows.iter().flatten().count(), "{name}: blocks of step {step}");
            for block in blocks {
                let values: Vec<f64> = reader.read_as("t", step as u64, &Selection::Block(block.number)).unwrap();
                let wanted = rows[block.offset[0] as usize].as_ref().unwrap();
                // Of what was compressed with a loss, the accuracy that was asked for.
                let lossy = self.document.as_ref().is_some_and(|document| document.contains("accuracy="));
                let near = values.iter().zip(wanted).all(|(a, b)| (a - b).abs() <= if lossy { 0.0001 } else { 0.0 });
                assert!(near && values.len() == wanted.len(), "{name}: step {step}, {block:?}: {values:?}");
            }
        }
        let lost: Vec<u64> =
            (0..).zip(&self.t).filter(|(_, rows)| rows.iter().any(Json::is_null)).map(|s| s.0).collect();
        let partial: Vec<Partial> =
            lost.iter().map(|step| Partial { step: *step, rank: 1, kind: ErrorKind::NoSpace }).collect();
        assert_eq!(reader.status().partial, partial, "{name}");
        assert!(!reader.attributes().is_empty(), "{name}: its attribute");
    }

    /// Nothing is wrong but what a rank could not write.
    fn verifies(&self) {
        let report = verify(&*self.fixture.layout, &self.path).unwrap();
        let findings: Vec<_> =
            report.findings.iter().filter(|f| ![FindingKind::Gap, FindingKind::Partial].contains(&f.kind)).collect();
        assert!(findings.is_empty(), "{}: {findings:?}", self.name());
    }

    /// Values of a row.
    fn row(&self) -> usize {
        self.t.iter().flatten().find_map(|row| row.as_array()).map_or(5, Vec::len)
    }

    fn append(&self) {
        let plain = format!(
            r#"<adios-config host-language="C"><adios-group name="heat">
  <var name="NX" type="integer"/><var name="ranks" type="integer"/><var name="rank" type="integer"/>
  <var name="note" type="string"/>
  <global-bounds dimensions="ranks,NX" offsets="rank,0"><var name="t" type="double" dimensions="1,NX"/></global-bounds>
  <attribute name="units" path="/t" type="string" value="K"/>
</adios-group><method group="heat" method="{}">{}</method></adios-config>"#,
            self.method, self.parameters
        );
        let document = self.document.as_ref().unwrap_or(&plain);
        threads::run(3, |comm| {
            let (schema, layout) = (xml::parse(document, "heat.xml").unwrap(), self.fixture.layout.clone());
            let session = Session::with_layout(schema, layout, comm.duplicate().unwrap()).unwrap();
            let mut output = session.open("heat", &self.path, Mode::Append, comm.duplicate().unwrap()).unwrap();
            assert_eq!(output.step() as usize, self.t.len(), "{}: the step that open tells", self.name());
            output.write_values("NX", &[self.row() as i32]).unwrap();
            output.write_values("ranks", &[3i32]).unwrap();
            output.write_values("rank", &[comm.rank() as i32]).unwrap();
            output.write("note", b"appended").unwrap();
            output.write_values("t", &appended(comm.rank(), self.row())).unwrap();
            output.close().unwrap_or_else(|e| panic!("{}: {e}", self.name()));
            session.finalize().unwrap();
        });
    }
}

#[test]
fn files_of_every_method_and_layout_are_read() {
    Fixture::each(|fixture| {
        for file in fixture.files() {
            file.reads(0);
            let status = file.reader().status().clone();
            let finished = ["finished", "partial", "left"].contains(&file.state.as_str());
            assert_eq!((status.finished, status.torn_bytes > 0), (finished, file.state == "torn"), "{}", file.name());
            // Half a process group lies where an output was torn or could not be written.
            if !["torn", "partial"].contains(&file.state.as_str()) {
                file.verifies();
            }
        }
    });
}

#[test]
fn files_of_every_method_and_layout_are_appended_to() {
    Fixture::each(|fixture| {
        for file in fixture.files() {
            file.append();
            file.reads(1);
            file.verifies();
            assert!(file.reader().status().finished, "{}", file.name());
        }
    });
}

#[test]
fn files_of_every_method_and_layout_are_recovered_and_then_appended_to() {
    Fixture::each(|fixture| {
        for file in fixture.files() {
            let done = recover(&*fixture.layout, &file.path, RecoverOptions::default()).unwrap();
            // Process groups of an output that was torn stay where they are whole, and are told.
            let kept = file.t.len() as u64;
            assert_eq!(done.steps, kept, "{}", file.name());
            let told = done.dropped.iter().all(|step| *step == kept && ["torn", "left"].contains(&file.state.as_str()));
            assert!(told, "{}: dropped {:?}", file.name(), done.dropped);
            file.reads(0);
            if file.state != "partial" {
                file.verifies();
            }
            assert!(file.reader().status().finished, "{}", file.name());
            file.append();
            file.reads(1);
        }
    });
}

#[test]
fn process_groups_that_an_earlier_recover_left_are_told_and_indexed_when_asked_for() {
    let left = std::cell::Cell::new(0);
    Fixture::each(|fixture| {
        for file in fixture.files().iter().filter(|file| file.state == "left") {
            let (name, kept) = (file.name(), file.t.len() as u64);
            let again = recover(&*fixture.layout, &file.path, RecoverOptions::default()).unwrap();
            assert_eq!(
                (again.changed, again.dropped),
                (false, vec![kept]),
                "{name}: record 11 says that they are there"
            );
            let options = RecoverOptions { keep_partial: true, ..RecoverOptions::default() };
            let done = recover(&*fixture.layout, &file.path, options).unwrap();
            assert_eq!((done.steps, done.dropped), (kept + 1, vec![]), "{name}");
            assert_eq!(file.reader().blocks("t", kept).unwrap().len(), 3, "{name}: one of each rank");
            file.verifies();
            left.set(left.get() + 1);
        }
    });
    assert!(left.get() >= 6, "{}", left.get());
}

fn read_whole(layout: &dyn Layout, path: &str) -> Vec<u8> {
    let object = layout.open_read(path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let mut bytes = vec![0; object.length().unwrap() as usize];
    object.read_exact_at(0, &mut bytes).unwrap_or_else(|e| panic!("{path}: {e}"));
    bytes
}

/// Compares every entry of a fixture with what its writer said; `changed`: text of files that the test has changed since.
fn check_plain(fixture: &Fixture, changed: &[(&str, &str)]) {
    let layout = &*fixture.layout;
    for entry in fixture.said["plain"].as_array().into_iter().flatten() {
        let path = entry["path"].as_str().unwrap();
        let what = format!("{}: {path}", fixture.name);
        if let Some(target) = entry["link"].as_str() {
            assert_eq!(layout.read_link(path).unwrap(), target, "{what}");
        } else if let Some(names) = entry["folder"].as_array() {
            let names: Vec<&str> = names.iter().map(|n| n.as_str().unwrap()).collect();
            assert_eq!(layout.list(path).unwrap(), names, "{what}");
        } else if let Some(pair) = entry["xattr"].as_array() {
            let value = layout.xattr_get(path, pair[0].as_str().unwrap()).unwrap();
            assert_eq!(value.as_deref(), Some(pair[1].as_str().unwrap().as_bytes()), "{what}");
        } else if let Some(kind) = entry["error"].as_str() {
            let object = layout.open_read(path).unwrap_or_else(|e| panic!("{what}: {e}"));
            let read = object.read_exact_at(0, &mut vec![0; object.length().unwrap() as usize]);
            assert_eq!(format!("{:?}", read.expect_err(&what).kind()), kind, "{what}");
            let begins = entry["begins"].as_str().unwrap();
            let mut bytes = vec![0; begins.len()];
            object.read_exact_at(0, &mut bytes).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(String::from_utf8_lossy(&bytes), begins, "{what}");
        } else if let Some(text) = entry["text"].as_str() {
            // What a writer that died had not closed is there where the layout shows it before.
            if entry["died"] == true && layout.stat(path).is_err_and(|e| e.kind() == ErrorKind::NotFound) {
                assert!(fixture.name.contains("small_file"), "{what}: lost");
                continue;
            }
            let said = changed.iter().find(|(p, _)| *p == path).map_or(text, |(_, text)| text);
            assert_eq!(String::from_utf8_lossy(&read_whole(layout, path)), said, "{what}");
            if let Some(mode) = entry["mode"].as_u64() {
                let attributes = layout.attributes(path).unwrap();
                assert_eq!(u64::from(attributes.mode), mode, "{what}: mode");
                let then = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
                assert!(said != text || attributes.mtime == then, "{what}: time");
            }
        } else {
            assert_eq!(layout.stat(path).unwrap_err().kind(), ErrorKind::NotFound, "{what}");
        }
    }
}

#[test]
fn other_files_on_every_layout_are_read_and_written_on() {
    Fixture::each(|fixture| {
        check_plain(fixture, &[]);
        if fixture.said["plain"].is_null() {
            return;
        }
        let layout = &*fixture.layout;
        let write = |path: &str, how, at, bytes: &[u8]| {
            let object = layout.open_write(path, how, WriterId(3)).unwrap_or_else(|e| panic!("{path}: {e}"));
            write_all_at(&*object, at, bytes).unwrap();
            object.close().unwrap();
        };
        write("/m/many/40", OpenWrite::New, 0, b"file 40");
        write("/m/many/7", OpenWrite::Existing, 6, b", longer");
        write("/m/many/8", OpenWrite::Replace, 0, b"anew");
        write("/m/folder/empty", OpenWrite::Existing, 2, b"x");
        layout.rename("/m/many/9", "/m/many/10").unwrap();
        layout.remove("/m/many/40").unwrap();
        let changed = [
            ("/m/many/7", "file 7, longer"),
            ("/m/many/8", "anew"),
            ("/m/folder/empty", "\0\0x"),
            ("/m/many/10", "file 9"),
        ];
        assert_eq!(layout.stat("/m/many/9").unwrap_err().kind(), ErrorKind::NotFound);
        let mut rest = fixture.said.clone();
        let entries = rest["plain"].as_array_mut().unwrap();
        entries.retain(|entry| entry["path"] != "/m/many/9");
        entries.iter_mut().filter(|entry| entry["path"] == "/m/many/10").for_each(|entry| entry["mode"] = Json::Null);
        let after =
            Fixture { name: fixture.name.clone(), said: rest, layout: fixture.layout.clone(), _folder: Scratch::new() };
        check_plain(&after, &changed);
    });
}
