//! The worker: an output by ranks as threads, or one operation on a file; how it ends is its exit code.

use crate::MIXED;
use std::io::BufRead;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use thalweg_comm::{Communicator, threads};
use thalweg_io::mounts;
use thalweg_io::{Mode, Session};
use thalweg_layout::{Change, Layout, OpenWrite, SetXattr, WriterId, write_all_at};
use thalweg_schema::xml;
use thalweg_types::{Error, ErrorKind, Result};

/// Values of a row of an array.
const ROW: usize = 40;
/// Values of a row that is written in turns: 3 MiB and some.
const LARGE_ROW: usize = (3 << 20) / 8 + 1001;

pub fn wait_for_a_line() {
    println!("ready {}", std::process::id());
    // Its read is traced, too, and may be the one that fails.
    while std::io::stdin().lock().read_line(&mut String::new()).is_err() {}
}

/// Ends the process as the outcomes of its ranks say.
pub fn leave(outcomes: Vec<Result<()>>) -> ! {
    let kinds: Vec<Option<ErrorKind>> = outcomes.iter().map(|o| o.as_ref().err().map(Error::kind)).collect();
    // Logs end, as a process that exits drops nothing that is static.
    let finished = mounts::finish();
    if let (Err(e), true) = (&finished, kinds.iter().all(Option::is_none)) {
        eprintln!("{e}");
        std::process::exit(100 + 2 + i32::from(e.kind().code()));
    }
    let differ = kinds.iter().any(|kind| *kind != kinds[0]);
    let told: Vec<String> = outcomes.iter().filter_map(|o| o.as_ref().err()).map(Error::to_string).collect();
    if differ {
        eprintln!("ranks differ: {kinds:?}: {}", told.join("; "));
    } else if let Some(error) = told.first() {
        eprintln!("{error}");
    }
    std::process::exit(match kinds[0] {
        _ if differ => MIXED,
        Some(kind) => 100 + 2 + i32::from(kind.code()),
        None => 0,
    })
}

pub fn row(rank: u32, step: u64, values: usize) -> Vec<f64> {
    (0..values).map(|i| i as f64 + 100.0 * f64::from(rank) + 10_000.0 * step as f64).collect()
}

/// How an output is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// The first step as a new file, later ones by appending.
    Steps,
    /// The last step that is there gets the same blocks once more.
    Update,
    /// Steps after the first are dropped, and written again.
    Restart,
    /// As `Steps`, with blocks so large that they are written in turns.
    Large,
}

impl How {
    pub const ALL: [How; 4] = [How::Steps, How::Update, How::Restart, How::Large];

    pub fn name(self) -> &'static str {
        match self {
            How::Steps => "steps",
            How::Update => "update",
            How::Restart => "restart",
            How::Large => "large",
        }
    }

    /// # Panics
    /// For another name.
    pub fn named(name: &str) -> How {
        How::ALL
            .into_iter()
            .find(|how| how.name() == name)
            .unwrap_or_else(|| panic!("{name}: no way to open an output"))
    }

    /// Values of a row.
    pub fn values(self) -> usize {
        if self == How::Large { LARGE_ROW } else { ROW }
    }

    fn mode(self, step: u64) -> Mode {
        match self {
            How::Steps | How::Large if step == 0 => Mode::Write,
            How::Steps | How::Large => Mode::Append,
            How::Update => Mode::Update,
            How::Restart => Mode::AppendAfter(0),
        }
    }
}

/// - `layout`: that of the process where `None`.
pub fn write_bp(
    layout: Option<&Arc<dyn Layout>>,
    path: &str,
    method: &str,
    parameters: &str,
    ranks: u32,
    how: How,
    steps: std::ops::Range<u64>,
) -> Vec<Result<()>> {
    let document = format!(
        r#"<adios-config host-language="C"><adios-group name="g">
  <var name="n" type="integer"/><var name="ranks" type="integer"/><var name="rank" type="integer"/>
  <global-bounds dimensions="ranks,n" offsets="rank,0"><var name="t" type="double" dimensions="1,n"/></global-bounds>
</adios-group><method group="g" method="{method}">{parameters}</method></adios-config>"#
    );
    threads::run(ranks, |comm| {
        let layout = layout.cloned().map_or_else(mounts::layout, Ok)?;
        let session = Session::with_layout(xml::parse(&document, "faults.xml").unwrap(), layout, comm.duplicate()?)?;
        let mut one = |step: u64| -> Result<()> {
            let mut output = session.open("g", path, how.mode(step), comm.duplicate()?)?;
            if output.step() != step {
                let what = format!("open tells step {}, not {step}", output.step());
                return Err(Error::new(ErrorKind::OutOfBounds, what));
            }
            // What fails here close tells again, and tells it to all.
            let _ = output.write_values("n", &[how.values() as i32]);
            let _ = output.write_values("ranks", &[comm.size() as i32]);
            let _ = output.write_values("rank", &[comm.rank() as i32]);
            let _ = output.write_values("t", &row(comm.rank(), step, how.values()));
            output.close().map(|_| ())
        };
        let written = steps.clone().try_for_each(&mut one);
        written.and(session.finalize())
    })
}

/// What lies at the name of an operation before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    Nothing,
    File,
    /// A file with an extended attribute.
    Marked,
    /// An empty folder.
    Folder,
    /// A folder with a file `in`.
    Filled,
    Link,
}

/// Operations, by name, and what they find.
pub const OPERATIONS: &[(&str, Before)] = &[
    ("create", Before::Nothing),
    ("append", Before::File),
    ("replace", Before::File),
    ("rename", Before::File),
    ("remove", Before::File),
    ("truncate", Before::File),
    ("chmod", Before::File),
    ("utimes", Before::File),
    ("mkdir", Before::Nothing),
    ("rmdir", Before::Folder),
    ("rename_folder", Before::Filled),
    ("link", Before::File),
    ("symlink", Before::Nothing),
    ("read_link", Before::Link),
    ("xattr", Before::File),
    ("xattr_remove", Before::Marked),
    ("list", Before::File),
    ("read", Before::File),
];
/// Operations that end a process in other ways: of programs alone, which go through a door.
pub const ENDS: &[(&str, Before)] = &[("exec", Before::File), ("leave", Before::File)];
pub const OLD: &str = "the content that was closed before";
pub const NEW: &str = "what this operation writes";
/// Where the symbolic link leads.
pub const TARGET: &str = "somewhere else";
pub const KEY: &str = "user.key";
pub const VALUE: &[u8] = b"value";
/// The time of the last write that `utimes` sets, in seconds.
pub const WRITTEN: u64 = 1_000_000_000;
/// The names in the folder while `list` and `read` work.
pub const NAMES: [&str; 3] = ["kept", "other", "x"];

/// The name that `link` adds. `flat` draws the same one of two stores for both names, without which it has no hard links.
pub fn linked(path: &str) -> String {
    format!("{path}.second")
}

/// - `path`: of the file, folder or link; new names are its name with an ending.
///
/// # Panics
/// `read`, `list` and `read_link` where they succeed with something else than what is there.
pub fn operate(layout: &dyn Layout, path: &str, operation: &str) -> Result<()> {
    let write = |how, at, text: &str| -> Result<()> {
        let object = layout.open_write(path, how, WriterId(1))?;
        let written = write_all_at(&*object, at, text.as_bytes());
        let closed = object.close();
        written.and(closed)
    };
    match operation {
        "create" => write(OpenWrite::New, 0, NEW),
        "append" => write(OpenWrite::Existing, OLD.len() as u64, NEW),
        "replace" => write(OpenWrite::Replace, 0, NEW),
        "rename" | "rename_folder" => layout.rename(path, &format!("{path}.renamed")),
        "remove" | "rmdir" => layout.remove(path),
        "truncate" => layout.truncate(path, 11),
        "chmod" => layout.set_attributes(path, &Change { mode: Some(0o600), ..Change::default() }),
        "utimes" => {
            let mtime = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(WRITTEN));
            layout.set_attributes(path, &Change { mtime, ..Change::default() })
        }
        "mkdir" => layout.make_one_folder(path, 0o755),
        "link" => layout.make_hard_link(path, &linked(path)),
        "symlink" => layout.make_link(TARGET, path),
        "read_link" => layout.read_link(path).map(|target| assert_eq!(target, TARGET)),
        "xattr" => layout.xattr_set(path, KEY, VALUE, SetXattr::Any),
        "xattr_remove" => layout.xattr_remove(path, KEY),
        "list" => {
            let mut names = layout.list(path.rsplit_once('/').map_or("", |(folder, _)| folder))?;
            names.sort();
            assert_eq!(names, NAMES);
            Ok(())
        }
        "read" => {
            let object = layout.open_read(path)?;
            let mut bytes = vec![0; object.length()? as usize];
            object.read_exact_at(0, &mut bytes)?;
            assert_eq!(String::from_utf8_lossy(&bytes), OLD);
            Ok(())
        }
        "prepare" => write(OpenWrite::New, 0, OLD),
        // Written and synced, and never closed: as by a process that dies.
        "abandon" => {
            let object = layout.open_write(path, OpenWrite::Existing, WriterId(3))?;
            write_all_at(&*object, OLD.len() as u64, NEW.as_bytes())?;
            object.sync()?;
            std::process::abort()
        }
        _ => panic!("unknown operation {operation}"),
    }
}
