//! Writes what the test `earlier_releases` reads: files of every method and stores of every layout, each in a folder of its
//! own with `said.json` beside it, which says what was handed to the library: `earlier FOLDER`.
//!
//! | key of `said.json` | meaning |
//! |---|---|
//! | `mounts` | the mount table; `@` stands for the folder |
//! | `files` | BP files: `path`, `method`, `parameters`, `t` (by step, one row per rank), `state` (below) |
//! | `plain` | other files: `path`, then `text` and `mode`, or `link`, or `folder` |
//!
//! | state | what happened |
//! |---|---|
//! | `finished` | closed for good |
//! | `running` | the process died between two outputs: no last index |
//! | `torn` | the process died within an output: half of it lies behind the steps that were closed |
//! | `partial` | a rank failed to write in the last step: its row is `null` |
//!
//! Run once per release by `tests/fixtures/earlier/make.sh`; what it has written is never changed afterwards.

use serde_json::{Value as Json, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};
use thalweg_comm::{Communicator, threads};
use thalweg_io::mounts;
use thalweg_io::{Mode, Session};
use thalweg_layout::{Change, Direct, Layout, OpenWrite, SetXattr, WriterId, write_all_at};
use thalweg_schema::xml;
use thalweg_store::wrap::{Failing, Fault, StoreCall};
use thalweg_store::{Posix, Store};
use thalweg_types::ErrorKind;

const RANKS: u32 = 3;
const STEPS: u64 = 3;
const ROW: usize = 5;

/// The methods that leave a file: name of the folder, method, parameters.
const METHODS: &[(&str, &str, &str)] = &[
    ("mpi", "MPI", ""),
    ("posix", "POSIX", ""),
    ("collective", "MPI_COLLECTIVE", "aggregators=2;stripe=512"),
    ("scheduled", "MPI_SCHEDULED", "num_files=2"),
    ("simple", "MPI_AGGREGATE", "pattern=simple;aggregators=2"),
    ("brigade", "MPI_AGGREGATE", "pattern=brigade;aggregators=1"),
    ("adaptive", "ADAPTIVE", "num_files=2"),
];

/// Layouts: name of the folder, stores, lines of the mount table.
const LAYOUTS: &[(&str, usize, &str)] = &[
    ("direct", 1, "layout = \"direct\"\nstore = \"posix:@/store0\"\n"),
    ("flat", 3, "layout = \"flat\"\nstores = [\"posix:@/store0\", \"posix:@/store1\", \"posix:@/store2\"]\n"),
    (
        "container-flat",
        2,
        "layout = \"container\"\nindex = \"flat\"\nstores = [\"posix:@/store0\", \"posix:@/store1\"]\n",
    ),
    (
        "container-pattern",
        2,
        "layout = \"container\"\nindex = \"pattern\"\nstores = [\"posix:@/store0\", \"posix:@/store1\"]\n",
    ),
    ("container-distributed", 1, "layout = \"container\"\nindex = \"distributed\"\nstore = \"posix:@/store0\"\n"),
    ("small_file", 1, "layout = \"small_file\"\nstore = \"posix:@/store0\"\n"),
    ("tiered-container", 2, "layout = \"container\"\nstore = \"tiered:posix:@/store0=>posix:@/store1\"\n"),
    ("tiered-direct", 2, "layout = \"direct\"\nstore = \"tiered:posix:@/store0=>posix:@/store1\"\n"),
];

fn main() {
    let out = std::env::args().nth(1).unwrap_or_else(|| panic!("earlier FOLDER"));
    let out = std::path::absolute(out).unwrap_or_else(|e| panic!("{e}"));
    for (name, method, parameters) in METHODS {
        for state in ["finished", "running", "torn", "partial"] {
            if state == "partial" && !["mpi", "posix"].contains(name) {
                continue;
            }
            let folder = out.join(format!("method-{name}-{state}"));
            std::fs::create_dir_all(&folder).unwrap();
            let store: Arc<dyn Store> = Arc::new(Posix::at(&folder).unwrap());
            let file = BpFile { path: "x.bp".into(), method, parameters, state };
            let said = file.write(&|| Failing::new(store.clone()), &|store| Arc::new(Direct::new(store).unwrap()));
            say(&folder, &json!({"files": [said]}));
        }
    }
    for (name, stores, table) in LAYOUTS {
        let folder = out.join(format!("layout-{name}"));
        for i in 0..*stores {
            std::fs::create_dir_all(folder.join(format!("store{i}"))).unwrap();
        }
        let table = format!("[[mount]]\npath = \"/m\"\n{table}");
        let path = folder.join("mounts.toml");
        std::fs::write(&path, table.replace('@', &folder.display().to_string())).unwrap();
        let layout: Arc<dyn Layout> = mounts::of_files(std::slice::from_ref(&path)).unwrap();
        std::fs::remove_file(path).unwrap();
        let mut files = Vec::new();
        for (name, method) in [("mpi", "MPI"), ("posix", "POSIX")] {
            for state in ["finished", "running"] {
                let file = BpFile { path: format!("/m/{name}-{state}.bp"), method, parameters: "", state };
                let nothing: Arc<dyn Store> = Arc::new(thalweg_store::Memory::new());
                files.push(file.write(&|| Failing::new(nothing.clone()), &|_| layout.clone()));
            }
        }
        let plain = plain_files(&*layout);
        say(&folder, &json!({"mounts": table, "files": files, "plain": plain}));
    }
    // Nothing that is still open is closed: that is how a process dies.
    std::process::exit(0);
}

fn say(folder: &Path, said: &Json) {
    std::fs::write(folder.join("said.json"), serde_json::to_string_pretty(said).unwrap() + "\n").unwrap();
}

fn row(rank: u32, step: u64) -> Vec<f64> {
    (0..ROW).map(|i| i as f64 + 100.0 * f64::from(rank) + 10_000.0 * step as f64).collect()
}

/// A file to be written.
struct BpFile<'a> {
    path: String,
    method: &'a str,
    parameters: &'a str,
    state: &'a str,
}

impl BpFile<'_> {
    /// Writes it and returns what `said.json` says of it.
    ///
    /// - `store`: of a rank; `layout`: over that store.
    fn write(
        &self,
        store: &(dyn Fn() -> Failing + Sync),
        layout: &(dyn Fn(Arc<Failing>) -> Arc<dyn Layout> + Sync),
    ) -> Json {
        let BpFile { path, method, parameters, state } = self;
        let document = format!(
            r#"<adios-config host-language="C"><adios-group name="heat">
  <var name="NX" type="integer"/><var name="ranks" type="integer"/><var name="rank" type="integer"/>
  <var name="note" type="string"/>
  <global-bounds dimensions="ranks,NX" offsets="rank,0"><var name="t" type="double" dimensions="1,NX"/></global-bounds>
  <attribute name="units" path="/t" type="string" value="K"/>
</adios-group><method group="heat" method="{method}">{parameters}</method></adios-config>"#
        );
        let lengths = [const { AtomicU64::new(0) }; STEPS as usize];
        threads::run(RANKS, |comm| {
            let (rank, store) = (comm.rank(), Arc::new(store()));
            let layout = layout(store.clone());
            let schema = xml::parse(&document, "heat.xml").unwrap();
            let session = Session::with_layout(schema, layout.clone(), comm.duplicate().unwrap()).unwrap();
            for step in 0..STEPS {
                let mode = if step == 0 { Mode::Write } else { Mode::Append };
                let mut output = session.open("heat", path, mode, comm.duplicate().unwrap()).unwrap();
                let lost = *state == "partial" && step == STEPS - 1;
                if lost && rank == 1 {
                    store.fail(Fault::of(StoreCall::Write).times(1).with(ErrorKind::NoSpace).half_way());
                }
                output.write_values("NX", &[ROW as i32]).unwrap();
                output.write_values("ranks", &[RANKS as i32]).unwrap();
                output.write_values("rank", &[rank as i32]).unwrap();
                output.write("note", format!("step {step}").as_bytes()).unwrap();
                output.write_values("t", &row(rank, step)).unwrap();
                assert_eq!(output.close().is_err(), lost, "{path}: step {step}");
                if rank == 0 {
                    lengths[step as usize].store(layout.stat(path).unwrap().length, Ordering::Relaxed);
                }
                comm.barrier().unwrap();
            }
            match *state {
                "finished" | "partial" => session.finalize().unwrap(),
                _ => std::mem::forget(session),
            }
        });
        let mut steps = STEPS;
        if *state == "torn" {
            // The last bytes of an output are those of the file that holds the index.
            let [.., before, after] = &lengths;
            let half = before.load(Ordering::Relaxed).midpoint(after.load(Ordering::Relaxed));
            layout(Arc::new(store())).truncate(path, half).unwrap();
            steps -= 1;
        }
        let rows = |step| -> Vec<Json> {
            let lost = |rank| *state == "partial" && step == STEPS - 1 && rank == 1;
            (0..RANKS).map(|rank| if lost(rank) { Json::Null } else { json!(row(rank, step)) }).collect()
        };
        let t: Vec<Vec<Json>> = (0..steps).map(rows).collect();
        json!({"path": path, "method": method, "parameters": parameters, "state": state, "t": t})
    }
}

/// Two writers in one file, files cut, renamed, linked and removed, folders, modes, times. Each kind of entry only where the
/// layout has it. Returns what `said.json` says of them.
fn plain_files(layout: &dyn Layout) -> Json {
    let mut said = Vec::new();
    let write = |path: &str, how, writer, at, bytes: &[u8]| {
        let object = layout.open_write(path, how, WriterId(writer)).unwrap();
        write_all_at(&*object, at, bytes).unwrap();
        object.close().unwrap();
    };
    // Returns the mode, where the layout keeps attributes.
    let set = |path: &str, mode: u32| -> Option<u32> {
        let mtime = Some(UNIX_EPOCH + Duration::from_secs(1_000_000_000));
        let kept = layout.set_attributes(path, &Change { mode: Some(mode), mtime, ..Change::default() });
        match kept {
            Err(e) if e.kind() == ErrorKind::Unsupported => None,
            kept => kept.map(|()| Some(mode)).unwrap(),
        }
    };
    layout.make_folder("/m/folder/below").unwrap();
    write("/m/folder/two", OpenWrite::New, 1, 0, b"first writer, and more of it");
    write("/m/folder/two", OpenWrite::Existing, 2, 6, b"WRITER");
    let mode = set("/m/folder/two", 0o640);
    said.push(json!({"path": "/m/folder/two", "text": "first WRITER, and more of it", "mode": mode}));
    write("/m/folder/below/cut", OpenWrite::New, 1, 0, b"this is cut here, not there");
    layout.truncate("/m/folder/below/cut", 16).unwrap();
    let mode = set("/m/folder/below/cut", 0o600);
    said.push(json!({"path": "/m/folder/below/cut", "text": "this is cut here", "mode": mode}));
    write("/m/folder/hole", OpenWrite::New, 1, 5, b"behind");
    let mode = set("/m/folder/hole", 0o644);
    said.push(json!({"path": "/m/folder/hole", "text": "\0\0\0\0\0behind", "mode": mode}));
    write("/m/folder/empty", OpenWrite::New, 1, 0, b"");
    let mode = set("/m/folder/empty", 0o644);
    said.push(json!({"path": "/m/folder/empty", "text": "", "mode": mode}));
    write("/m/old", OpenWrite::New, 1, 0, b"renamed");
    layout.rename("/m/old", "/m/folder/below/new").unwrap();
    let mode = set("/m/folder/below/new", 0o444);
    said.push(json!({"path": "/m/folder/below/new", "text": "renamed", "mode": mode}));
    write("/m/folder/gone", OpenWrite::New, 1, 0, b"removed");
    layout.remove("/m/folder/gone").unwrap();
    said.push(json!({"path": "/m/folder/gone"}));
    said.push(json!({"path": "/m/folder/below", "folder": ["cut", "new"]}));
    if layout.make_link("two", "/m/folder/link").is_ok() {
        said.push(json!({"path": "/m/folder/link", "link": "two"}));
    }
    if layout.make_hard_link("/m/folder/two", "/m/folder/second").is_ok() {
        said.push(json!({"path": "/m/folder/second", "text": "first WRITER, and more of it"}));
    }
    if layout.xattr_set("/m/folder/two", "user.note", b"kept", SetXattr::Any).is_ok() {
        said.push(json!({"path": "/m/folder/two", "xattr": ["user.note", "kept"]}));
    }
    for i in 0..40 {
        let path = format!("/m/many/{i}");
        if i == 0 {
            layout.make_folder("/m/many").unwrap();
        }
        write(&path, OpenWrite::New, 7, 0, format!("file {i}").as_bytes());
        let mode = set(&path, 0o644);
        said.push(json!({"path": path, "text": format!("file {i}"), "mode": mode}));
    }
    // Small first, and then more than any layout keeps beside other files.
    let more = "more of it, ".repeat(5000);
    write("/m/folder/grown", OpenWrite::New, 1, 0, b"small, ");
    write("/m/folder/grown", OpenWrite::Existing, 2, 7, more.as_bytes());
    let mode = set("/m/folder/grown", 0o644);
    said.push(json!({"path": "/m/folder/grown", "text": format!("small, {more}"), "mode": mode}));
    // A writer that died: what it had synced stays. Its file is the only one of which this is asked.
    let object = layout.open_write("/m/folder/died", OpenWrite::New, WriterId(9)).unwrap();
    write_all_at(&*object, 0, b"synced").unwrap();
    object.sync().unwrap();
    std::mem::forget(object);
    said.push(json!({"path": "/m/folder/died", "text": "synced", "died": true}));
    Json::Array(said)
}
