//! Writes what the test `earlier_releases` reads: files of every method and stores of every layout, each in a folder of its
//! own with `said.json` beside it, which says what was handed to the library: `earlier FOLDER [WORD...]`. Where words are given, those
//! alone whose names hold one of them.
//!
//! | key of `said.json` | meaning |
//! |---|---|
//! | `mounts` | the mount table; `@` stands for the folder |
//! | `files` | BP files: `path`, `method`, `parameters`, `t` (by step, one row per rank, none in a step of another group), `state` (below), `document` (the XML, where it is another than that of the methods) |
//! | `plain` | other files: `path`, then `text` and `mode`, or `link`, or `folder`, or `error` (the kind with which it is read as a whole) and `begins` (the bytes before that) |
//!
//! | state | what happened |
//! |---|---|
//! | `finished` | closed for good |
//! | `running` | the process died between two outputs: no last index |
//! | `torn` | the process died within an output: half of it lies behind the steps that were closed |
//! | `partial` | a rank failed to write in the last step: its row is `null` |
//! | `left` | as `torn`, and recovered: the process groups of the last step stay, and the file says so |
//!
//! Run once per release by `tests/fixtures/earlier/make.sh`; what it has written is never changed afterwards.

use serde_json::{Value as Json, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};
use thalweg_comm::{Communicator, threads};
use thalweg_io::mounts;
use thalweg_io::mounts::stores;
use thalweg_io::{Mode, Session};
use thalweg_layout::{Change, Direct, Layout, OpenWrite, SetXattr, WriterId, write_all_at};
use thalweg_reader::{RecoverOptions, recover};
use thalweg_schema::xml;
use thalweg_store::wrap::tiered::{Drain, Pace};
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

/// What else files hold: name of the folder, methods, parameters, and how the XML differs.
const FORMS: &[(&str, &[&str], &str, Form)] = &[
    ("zlib", &["MPI"], "", Form { transform: "zlib", ..Form::PLAIN }),
    ("bzip2", &["MPI"], "", Form { transform: "bzip2", ..Form::PLAIN }),
    ("zstd", &["MPI", "POSIX"], "", Form { transform: "zstd", ..Form::PLAIN }),
    ("lz4", &["MPI"], "", Form { transform: "lz4", ..Form::PLAIN }),
    ("blosc", &["MPI"], "", Form { transform: "blosc", ..Form::PLAIN }),
    ("zfp", &["MPI"], "", Form { transform: "zfp:accuracy=0.0001", ..Form::PLAIN }),
    ("joined", &["MPI", "POSIX"], "", Form { bounds: "dimensions=\"JoinedDim,NX\"", ..Form::PLAIN }),
    ("statistics", &["MPI"], "", Form { group: " stats=\"On\"", ..Form::PLAIN }),
    ("groups", &["MPI", "POSIX"], "", Form { other: true, ..Form::PLAIN }),
    ("staged", &["MPI", "POSIX"], "index_ahead=1", Form::PLAIN),
];

/// How the XML of a file differs from that of the methods.
#[derive(Clone, Copy)]
struct Form {
    /// Attributes of the group.
    group: &'static str,
    bounds: &'static str,
    /// Of `t`; none where empty.
    transform: &'static str,
    /// A second group that writes the last step.
    other: bool,
    /// Values of a row.
    row: usize,
}

impl Form {
    const METHODS: Form =
        Form { group: "", bounds: "dimensions=\"ranks,NX\" offsets=\"rank,0\"", transform: "", other: false, row: ROW };
    /// Long enough for transforms to shorten it.
    const PLAIN: Form = Form { row: 200, ..Form::METHODS };

    fn document(&self, method: &str, parameters: &str) -> String {
        let Form { group, bounds, transform, .. } = self;
        let transform = if transform.is_empty() { String::new() } else { format!(" transform=\"{transform}\"") };
        let (other, its_method) = match self.other {
            true => (
                "<adios-group name=\"cold\"><var name=\"u\" type=\"integer\"/></adios-group>\n",
                format!("<method group=\"cold\" method=\"{method}\">{parameters}</method>"),
            ),
            false => ("", String::new()),
        };
        format!(
            r#"<adios-config host-language="C"><adios-group name="heat"{group}>
  <var name="NX" type="integer"/><var name="ranks" type="integer"/><var name="rank" type="integer"/>
  <var name="note" type="string"/>
  <global-bounds {bounds}><var name="t" type="double" dimensions="1,NX"{transform}/></global-bounds>
  <attribute name="units" path="/t" type="string" value="K"/>
</adios-group>{other}<method group="heat" method="{method}">{parameters}</method>{its_method}</adios-config>"#
        )
    }
}

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
    (
        "container-folders",
        3,
        "layout = \"container\"\nstores = [\"posix:@/store0\", \"posix:@/store1\", \"posix:@/store2\"]\ninline = 0\n",
    ),
    // The third store is the fast one of another node.
    (
        "tiered-nodes",
        3,
        "layout = \"container\"\nstore = \"tiered:posix:@/store0=>posix:@/store1\"\ndrain = \"manual\"\n",
    ),
];

fn main() {
    let out = std::env::args().nth(1).unwrap_or_else(|| panic!("earlier FOLDER [WORD...]"));
    let out = std::path::absolute(out).unwrap_or_else(|e| panic!("{e}"));
    let words: Vec<String> = std::env::args().skip(2).collect();
    let wanted = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word.as_str()));
    for (name, method, parameters) in METHODS {
        for state in ["finished", "running", "torn", "partial", "left"] {
            let of_all = !["partial", "left"].contains(&state);
            let of_some = name == &"mpi" || name == &"posix" || (name == &"scheduled" && state == "left");
            let full = format!("method-{name}-{state}");
            if !(of_all || of_some) || !wanted(&full) {
                continue;
            }
            let folder = out.join(full);
            std::fs::create_dir_all(&folder).unwrap();
            let store: Arc<dyn Store> = Arc::new(Posix::at(&folder).unwrap());
            let file = BpFile { path: "x.bp".into(), method, parameters, state, form: Form::METHODS };
            let said = file.write(&|| Failing::new(store.clone()), &|store| Arc::new(Direct::new(store).unwrap()));
            say(&folder, &json!({"files": [said]}));
        }
    }
    for (name, methods, parameters, form) in FORMS.iter().filter(|form| wanted(&format!("form-{}", form.0))) {
        let folder = out.join(format!("form-{name}"));
        std::fs::create_dir_all(&folder).unwrap();
        let mut files = Vec::new();
        for method in *methods {
            for state in ["finished", "running", "torn"] {
                // Which process groups of a torn step are whole is known where a step has one group's outputs alone.
                if state == "torn" && form.other {
                    continue;
                }
                let store: Arc<dyn Store> = Arc::new(Posix::at(&folder).unwrap());
                let file = BpFile { path: format!("{method}-{state}.bp"), method, parameters, state, form: *form };
                let layout = |store: Arc<Failing>| -> Arc<dyn Layout> { Arc::new(Direct::new(store).unwrap()) };
                files.push(file.write(&|| Failing::new(store.clone()), &layout));
            }
        }
        say(&folder, &json!({"files": files}));
    }
    for (name, stores, table) in LAYOUTS.iter().filter(|layout| wanted(&format!("layout-{}", layout.0))) {
        let folder = out.join(format!("layout-{name}"));
        for i in 0..*stores {
            std::fs::create_dir_all(folder.join(format!("store{i}"))).unwrap();
        }
        let table = format!("[[mount]]\npath = \"/m\"\n{table}");
        let path = folder.join("mounts.toml");
        std::fs::write(&path, table.replace('@', &folder.display().to_string())).unwrap();
        let open = || -> Arc<dyn Layout> { mounts::of_files(std::slice::from_ref(&path)).unwrap() };
        let layout = open();
        let mut files = Vec::new();
        for (name, method) in [("mpi", "MPI"), ("posix", "POSIX")] {
            for state in ["finished", "running"] {
                let path = format!("/m/{name}-{state}.bp");
                let file = BpFile { path, method, parameters: "", state, form: Form::METHODS };
                let nothing: Arc<dyn Store> = Arc::new(thalweg_store::Memory::new());
                files.push(file.write(&|| Failing::new(nothing.clone()), &|_| layout.clone()));
            }
        }
        let mut plain = plain_files(&*layout);
        plain.extend(several_writers(&open));
        if name.starts_with("container") {
            plain.push(short_file(&*layout, &folder));
        }
        if *name == "tiered-nodes" {
            plain.extend(of_another_node(&*layout, &folder, &table));
        }
        std::fs::remove_file(path).unwrap();
        say(&folder, &json!({"mounts": table, "files": files, "plain": plain}));
    }
    // Nothing that is still open is closed: that is how a process dies.
    std::process::exit(0);
}

fn say(folder: &Path, said: &Json) {
    std::fs::write(folder.join("said.json"), serde_json::to_string_pretty(said).unwrap() + "\n").unwrap();
}

fn row(rank: u32, step: u64, length: usize) -> Vec<f64> {
    (0..length).map(|i| i as f64 + 100.0 * f64::from(rank) + 10_000.0 * step as f64).collect()
}

/// A file to be written.
struct BpFile<'a> {
    path: String,
    method: &'a str,
    parameters: &'a str,
    state: &'a str,
    form: Form,
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
        let BpFile { path, method, parameters, state, form } = self;
        let document = form.document(method, parameters);
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
                output.write_values("NX", &[form.row as i32]).unwrap();
                output.write_values("ranks", &[RANKS as i32]).unwrap();
                output.write_values("rank", &[rank as i32]).unwrap();
                output.write("note", format!("step {step}").as_bytes()).unwrap();
                output.write_values("t", &row(rank, step, form.row)).unwrap();
                assert_eq!(output.close().is_err(), lost, "{path}: step {step}");
                if rank == 0 {
                    lengths[step as usize].store(layout.stat(path).unwrap().length, Ordering::Relaxed);
                }
                comm.barrier().unwrap();
            }
            if form.other {
                let mut output = session.open("cold", path, Mode::Append, comm.duplicate().unwrap()).unwrap();
                output.write_values("u", &[7i32]).unwrap();
                output.close().unwrap();
            }
            match *state {
                "finished" | "partial" => session.finalize().unwrap(),
                _ => std::mem::forget(session),
            }
        });
        let mut steps = STEPS;
        if ["torn", "left"].contains(state) {
            // The last bytes of an output are those of the file that holds the index.
            let [.., before, after] = &lengths;
            let half = before.load(Ordering::Relaxed).midpoint(after.load(Ordering::Relaxed));
            let layout = layout(Arc::new(store()));
            layout.truncate(path, half).unwrap();
            steps -= 1;
            if *state == "left" {
                let done = recover(&*layout, path, RecoverOptions::default()).unwrap();
                assert_eq!(done.dropped, [steps], "{path}: {method} leaves process groups");
            }
        }
        let rows = |step| -> Vec<Json> {
            let lost = |rank| *state == "partial" && step == STEPS - 1 && rank == 1;
            (0..RANKS).map(|rank| if lost(rank) { Json::Null } else { json!(row(rank, step, form.row)) }).collect()
        };
        let mut t: Vec<Vec<Json>> = (0..steps).map(rows).collect();
        if form.other {
            t.push(Vec::new());
        }
        let mut said = json!({"path": path, "method": method, "parameters": parameters, "state": state, "t": t});
        if form.row != ROW {
            said["document"] = json!(document);
        }
        said
    }
}

/// Two writers in one file, files cut, renamed, linked and removed, folders, modes, times. Each kind of entry only where the
/// layout has it. Returns what `said.json` says of them.
fn plain_files(layout: &dyn Layout) -> Vec<Json> {
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
    said
}

fn put(layout: &dyn Layout, path: &str, how: OpenWrite, writer: u32, at: u64, bytes: &[u8]) {
    let object = layout.open_write(path, how, WriterId(writer)).unwrap_or_else(|e| panic!("{path}: {e}"));
    write_all_at(&*object, at, bytes).unwrap();
    object.close().unwrap();
}

/// Files of one folder by three writers that know nothing of each other, each of which goes on with what another has made.
fn several_writers(open: &dyn Fn() -> Arc<dyn Layout>) -> Vec<Json> {
    let layouts: Vec<Arc<dyn Layout>> = (0..3).map(|_| open()).collect();
    let mut said = Vec::new();
    layouts[0].make_folder("/m/several").unwrap();
    let mut all = String::new();
    for round in 0..2 {
        for (w, layout) in (0..).zip(&layouts) {
            let own = format!("/m/several/{round}-{w}");
            put(&**layout, &own, OpenWrite::New, 20 + w, 0, format!("round {round}").as_bytes());
            said.push(json!({"path": own, "text": format!("round {round}")}));
            let (shared, line) = ("/m/several/shared", format!("writer {w}, round {round}\n"));
            put(&**layout, shared, OpenWrite::Any, 20 + w, all.len() as u64, line.as_bytes());
            all += &line;
        }
    }
    said.push(json!({"path": "/m/several/shared", "text": all}));
    put(&*layouts[0], "/m/several/old", OpenWrite::New, 20, 0, b"of the first");
    layouts[1].rename("/m/several/old", "/m/several/renamed").unwrap();
    put(&*layouts[2], "/m/several/renamed", OpenWrite::Existing, 22, 7, b"THIRD");
    said.push(json!({"path": "/m/several/old"}));
    said.push(json!({"path": "/m/several/renamed", "text": "of the THIRD"}));
    put(&*layouts[0], "/m/several/gone", OpenWrite::New, 20, 0, b"of the first");
    layouts[2].remove("/m/several/gone").unwrap();
    said.push(json!({"path": "/m/several/gone"}));
    said
}

/// The data logs of containers below a folder.
fn data_logs(folder: &Path, out: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            data_logs(&path, out);
        } else if path.extension().is_some_and(|ending| ending == "data") {
            out.push(path);
        }
    }
}

/// A file whose log ends early, as one of a store that lost the last bytes.
fn short_file(layout: &dyn Layout, folder: &Path) -> Json {
    let path = "/m/folder/short";
    let (mut before, mut after) = (Vec::new(), Vec::new());
    data_logs(folder, &mut before);
    let text = "a line that is there, ".repeat(3000);
    put(layout, path, OpenWrite::New, 1, 0, text.as_bytes());
    data_logs(folder, &mut after);
    after.retain(|log| !before.contains(log));
    let [log] = &after[..] else { panic!("{path} has the logs {after:?}") };
    let log = std::fs::File::options().write(true).open(log).unwrap();
    log.set_len(log.metadata().unwrap().len() - 1000).unwrap();
    let kind = layout
        .open_read(path)
        .and_then(|object| object.read_exact_at(0, &mut vec![0; text.len()]))
        .expect_err("its end is lost")
        .kind();
    json!({"path": path, "error": format!("{kind:?}"), "begins": "a line that is there, "})
}

/// What another node wrote through a fast store of its own and drained; and what this one has not drained.
fn of_another_node(layout: &dyn Layout, folder: &Path, table: &str) -> Vec<Json> {
    let path = folder.join("other.toml");
    let table = table.replace("@/store0", "@/store2").replace('@', &folder.display().to_string());
    std::fs::write(&path, table).unwrap();
    let other: Arc<dyn Layout> = mounts::of_files(std::slice::from_ref(&path)).unwrap();
    std::fs::remove_file(path).unwrap();
    let drain = |fast: &str| {
        let at = folder.display();
        let tiered = stores::tiered(&format!("tiered:posix:{at}/{fast}=>posix:{at}/store1")).unwrap();
        let drain = Drain::new(&tiered, Pace::default()).unwrap();
        while drain.pass(&AtomicBool::new(false)).unwrap().objects > 0 {}
    };
    drain("store0");
    layout.make_folder("/m/nodes").unwrap();
    put(layout, "/m/nodes/both", OpenWrite::New, 30, 0, b"of one node");
    drain("store0");
    put(&*other, "/m/nodes/both", OpenWrite::Existing, 31, 11, b", of the other");
    put(&*other, "/m/nodes/other", OpenWrite::New, 31, 0, b"of the other");
    drain("store2");
    put(layout, "/m/nodes/kept", OpenWrite::New, 30, 0, b"in the fast store");
    vec![
        json!({"path": "/m/nodes/both", "text": "of one node, of the other"}),
        json!({"path": "/m/nodes/other", "text": "of the other"}),
        json!({"path": "/m/nodes/kept", "text": "in the fast store"}),
    ]
}
