//! Opening the files of the command line, and the warnings about files that were cut off.

use crate::outcome::Failure;
use crate::progress::Progress;
use crate::terminal::{complain, plain};
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use thalweg_io::mounts::stores;
use thalweg_layout::{Direct, Layout, Life, OpenWrite, ReadObject, Stat, WriteObject, WriterId};
use thalweg_reader::{Block, Head, Reader};
use thalweg_report::text;
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

/// A layout, and the name of a file in it.
type Place = (Arc<dyn Layout>, String);

/// The layout that has a file, and its name there: of all mounts and plain paths, or of the store that an URL names.
///
/// - `doing`: label of a progress bar over the bytes read; `None` for no bar.
pub fn place(path: &Path, doing: Option<&'static str>) -> std::result::Result<Place, Failure> {
    let name = text(path)?;
    let (below, name) = match of_url(name)? {
        Some(place) => place,
        None => {
            let mounts = thalweg_io::mounts::of_process()?;
            let under_mount = mounts.place(name)?.mount.is_some();
            match under_mount {
                true if mounts.stat(name)?.is_folder => return Err(no_file(name, "a folder").into()),
                true => {}
                false => regular(path)?,
            }
            (thalweg_io::mounts::layout()?, name.to_string())
        }
    };
    let layout: Arc<dyn Layout> = match doing {
        Some(doing) => {
            let watch = Watch { done: 0, total: 0, bar: Progress::bytes(doing) };
            Arc::new(Watched { below, watch: Arc::new(Mutex::new(watch)) })
        }
        None => below,
    };
    Ok((layout, name))
}

/// As [`place`], for a file that a program is going to write: it need not be there yet.
pub fn awaited(path: &Path) -> std::result::Result<Place, Failure> {
    let name = text(path)?;
    match of_url(name)? {
        Some(place) => Ok(place),
        None if path.exists() => place(path, None),
        None => Ok((thalweg_io::mounts::layout()?, name.to_string())),
    }
}

fn text(path: &Path) -> std::result::Result<&str, Failure> {
    path.to_str().ok_or_else(|| Failure::Usage(format!("'{}' is no UTF-8 text", path.display())))
}

/// Whether a word of the command line is a file and no pattern: an URL, a name that ends in `.bp`, or one that is there.
pub fn is_meant(word: &str) -> bool {
    let path = Path::new(word);
    let ends = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("bp"));
    // A folder may have the name of a variable.
    let is_there = || match std::fs::metadata(path) {
        Ok(about) => !about.is_dir(),
        Err(_) => under_mount(word),
    };
    ends || url_parts(word).is_some() || is_there()
}

fn under_mount(name: &str) -> bool {
    let is_file = |mounts: &thalweg_layout::Mounts| {
        mounts.place(name).is_ok_and(|place| place.mount.is_some()) && mounts.stat(name).is_ok_and(|s| !s.is_folder)
    };
    thalweg_io::mounts::of_process().is_ok_and(|mounts| is_file(&mounts))
}

/// The URL of the store that contains a file, and the file's name there; `None` for a path, and for a file of this name.
///
/// Parameters of the store stay at its end: `s3://bucket/runs/x.bp?region=eu` is `x.bp` in `s3://bucket/runs?region=eu`.
fn url_parts(name: &str) -> Option<(String, String)> {
    let (scheme, _) = name.split_once(':')?;
    stores::STORES.iter().find(|kind| kind.scheme.eq_ignore_ascii_case(scheme))?;
    if Path::new(name).exists() {
        return None;
    }
    let (whole, parameters) = name.split_once('?').map_or((name, ""), |(whole, _)| (whole, &name[whole.len()..]));
    let (folder, file) = whole.rsplit_once('/')?;
    // A host, or a bucket, is no file.
    if file.is_empty() || folder.ends_with('/') {
        return None;
    }
    let folder = if folder.ends_with(':') { format!("{folder}/") } else { folder.to_string() };
    Some((format!("{folder}{parameters}"), file.to_string()))
}

/// Whether a file of the command line is an URL.
pub fn is_url(path: &Path) -> bool {
    path.to_str().is_some_and(|name| url_parts(name).is_some())
}

/// The store of an URL as a layout, and the file's name in it. Files that lie in a store as they are; for those that a layout has cut into
/// other objects there are mounts.
fn of_url(name: &str) -> std::result::Result<Option<Place>, Failure> {
    let Some((store, file)) = url_parts(name) else { return Ok(None) };
    let store = stores::open(&store).map_err(|e| e.in_object(name))?;
    Ok(Some((Arc::new(Direct::of_whole_files(store)), file)))
}

fn no_file(name: &str, what: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("'{name}' is {what}, not a file"))
}

/// What a folder is.
fn folder(path: &Path) -> &'static str {
    let has = |names: &[&str]| names.iter().any(|name| path.join(name).exists());
    if has(&["md.idx"]) {
        "a BP4 or BP5 folder, which ADIOS2 reads (bpls, the Python package adios2)"
    } else if has(&["zarr.json", ".zgroup", ".zarray"]) {
        "a folder of Zarr (`thalweg convert IN.zarr OUT.bp` makes a BP file of it)"
    } else {
        "a folder"
    }
}

/// Refuses anything but regular files before it is opened: opening a pipe without a writer blocks, reading a device may never
/// end.
///
/// # Errors
/// `InvalidArgument` with the kind of file; `NotFound` and other failures of the check.
pub fn regular(path: &Path) -> Result<()> {
    use std::os::unix::fs::FileTypeExt;
    let name = path.display().to_string();
    let kind = std::fs::metadata(path).map_err(|e| Error::io(format!("cannot open '{name}'"), e))?.file_type();
    let what = match kind {
        kind if kind.is_file() => return Ok(()),
        kind if kind.is_dir() => folder(path),
        kind if kind.is_fifo() => "a named pipe",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_char_device() || kind.is_block_device() => "a device",
        _ => "something else",
    };
    Err(no_file(&name, what))
}

/// Opens a file, and warns on standard error if it was cut off or lacks process groups.
pub fn open(path: &Path, doing: Option<&'static str>) -> std::result::Result<Reader, Failure> {
    let (layout, name) = place(path, doing)?;
    let reader = Reader::open(layout, &name).map_err(|error| {
        if matches!(error.kind(), ErrorKind::Torn | ErrorKind::Corrupt) {
            complain("thalweg", &format!("{error}\n  next: thalweg recover --dry-run {}", shell(path)));
            Failure::File(Error::new(error.kind(), format!("cannot open '{}'", path.display())))
        } else {
            Failure::File(error)
        }
    })?;
    notice(&reader, path);
    Ok(reader)
}

/// Refuses to write what is made of a file over the file, also through links.
///
/// - `what`: what is made: `its index`.
pub fn not_itself(file: &Path, target: &Path, what: &str) -> std::result::Result<(), Failure> {
    match (file.canonicalize(), target.canonicalize()) {
        (Ok(a), Ok(b)) if a == b => {
            let shown = target.display();
            Err(Failure::Usage(format!("'{shown}' is the file itself; give another file for {what}")))
        }
        _ => Ok(()),
    }
}

/// All steps of a file.
pub fn all_steps(reader: &Reader) -> Range<u64> {
    0..reader.status().steps
}

/// The ranks that wrote blocks, from the process groups; a lookup does not iterate over all of them.
pub struct Writers {
    /// Per step, offset and rank of its process groups, by offset.
    groups: HashMap<u64, Vec<(u64, u32)>>,
    /// Whether each rank has a subfile of its own number: then all groups of the first step start at byte 0.
    own_subfiles: bool,
}

impl Writers {
    /// Reads the process group index.
    pub fn of(reader: &Reader) -> Result<Writers> {
        let all = reader.process_groups()?;
        let first = all.iter().map(|g| g.time_index).min();
        let own_subfiles = all.iter().filter(|g| Some(g.time_index) == first).all(|g| g.offset == 0);
        let mut groups: HashMap<u64, Vec<(u64, u32)>> = HashMap::new();
        for g in all.iter() {
            groups.entry(reader.step_of_time(g.time_index)).or_default().push((g.offset, g.rank));
        }
        groups.values_mut().for_each(|g| g.sort_unstable());
        Ok(Writers { groups, own_subfiles })
    }

    /// The rank that wrote a block; `None` if unknown.
    pub fn rank(&self, block: &Block) -> Option<u32> {
        let of_step = self.groups.get(&block.step)?;
        match block.subfile {
            None => {
                let behind = of_step.partition_point(|(offset, _)| *offset <= block.record_offset);
                Some(of_step[behind.checked_sub(1)?].1)
            }
            Some(k) => (self.own_subfiles && of_step.iter().any(|(_, rank)| *rank == k)).then_some(k),
        }
    }
}

/// A path as it is typed in a shell.
pub fn shell(path: &Path) -> String {
    let text = path.display().to_string();
    if text.chars().all(|c| c.is_alphanumeric() || "/._-+=:@%".contains(c)) {
        text
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

fn notice(reader: &Reader, path: &Path) {
    let status = reader.status();
    let safe = match status.steps {
        0 => "nothing: no step was closed".to_string(),
        1 => "step 0, shown here".to_string(),
        n => format!("steps 0 to {}, shown here", n - 1),
    };
    let next = format!("  next: thalweg recover {}", shell(path));
    let shown = path.display();
    if status.torn_bytes > 0 {
        let bytes = text::count(status.torn_bytes, "byte");
        complain(
            "thalweg",
            &format!(
                "{shown} was cut off, or is being written: {bytes} at its end belong to no closed step\n  safe: {safe}\n\
                 {next}   (other BP readers can't open it before; refused while a process writes it)"
            ),
        );
    } else if status.step_records > 0 && !status.finished {
        let records = text::count(status.step_records, "step");
        complain(
            "thalweg",
            &format!(
                "{shown} was not closed for good, or is being written: other BP readers don't see its last {records}\n  \
                 safe: {safe}\n{next}   (refused while a process writes it)"
            ),
        );
    }
    for partial in status.partial.iter().take(10) {
        let (step, rank, why) = (partial.step, partial.rank, partial.kind.words());
        complain(
            "thalweg",
            &format!("step {step} is partial: rank {rank} failed ({why}), the data of the other ranks is readable"),
        );
    }
    if status.partial.len() > 10 {
        complain("thalweg", &format!("... and {} more partial steps", status.partial.len() - 10));
    }
}

/// The full name in the file for a user's name: equal, or with or without the slash in front.
pub fn known<'a>(heads: &'a [Head], name: &str) -> Option<&'a str> {
    let bare = |n: &'a Head| n.name.strip_prefix('/').unwrap_or(&n.name);
    heads
        .iter()
        .find(|h| h.name == name)
        .or_else(|| heads.iter().find(|h| bare(h) == name.strip_prefix('/').unwrap_or(name)))
        .map(|h| h.name.as_str())
}

/// Whether a name is below a path: `v/units` and `/v/units` are below `v`.
pub fn is_below(name: &str, path: &str) -> bool {
    let bare = |name: &'_ str| name.strip_prefix('/').unwrap_or(name).to_string();
    bare(name).strip_prefix(&bare(path)).is_some_and(|rest| rest.starts_with('/'))
}

/// The failure that there is no such variable or attribute, with the nearest name.
pub fn absent(sort: &str, heads: &[Head], name: &str) -> Failure {
    let near = thalweg_params::nearest(name, heads.iter().map(|h| h.name.as_str()));
    let hint = match near {
        Some(near) => format!("; the nearest is '{}'", plain(near)),
        None if heads.is_empty() => format!("; the file has no {sort}s"),
        None => "; `thalweg ls -a` lists all".to_string(),
    };
    Failure::Absent(format!("no {sort} '{}'{hint}", plain(name)))
}

struct Watch {
    done: u64,
    total: u64,
    bar: Progress,
}

/// A layout whose reads move a progress bar.
struct Watched {
    below: Arc<dyn Layout>,
    watch: Arc<Mutex<Watch>>,
}

struct WatchedObject {
    below: Box<dyn ReadObject>,
    watch: Arc<Mutex<Watch>>,
}

impl Layout for Watched {
    fn describe(&self) -> String {
        self.below.describe()
    }

    fn url(&self, path: &str) -> Option<String> {
        self.below.url(path)
    }

    fn request_cost(&self, path: &str) -> u64 {
        self.below.request_cost(path)
    }

    fn open_write(&self, path: &str, how: OpenWrite, writer: WriterId) -> Result<Box<dyn WriteObject>> {
        self.below.open_write(path, how, writer)
    }

    fn open_read(&self, path: &str) -> Result<Box<dyn ReadObject>> {
        let below = self.below.open_read(path)?;
        if let Ok(length) = below.length() {
            let mut watch = self.watch.lock();
            watch.total = watch.total.saturating_add(length);
        }
        Ok(Box::new(WatchedObject { below, watch: Arc::clone(&self.watch) }))
    }

    fn stat(&self, path: &str) -> Result<Stat> {
        self.below.stat(path)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        self.below.list(folder)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.below.rename(from, to)
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.below.remove(path)
    }

    fn make_folder(&self, path: &str) -> Result<()> {
        self.below.make_folder(path)
    }

    fn sync_folder(&self, folder: &str) -> Result<()> {
        self.below.sync_folder(folder)
    }
}

impl WatchedObject {
    fn moved(&self, bytes: usize) {
        let mut watch = self.watch.lock();
        // Some bytes are read twice; the bar then stays full.
        watch.done = watch.done.saturating_add(bytes as u64).min(watch.total);
        let (done, total) = (watch.done, watch.total);
        watch.bar.at(done, total);
    }
}

impl ReadObject for WatchedObject {
    fn length(&self) -> Result<u64> {
        self.below.length()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        let got = self.below.read_at(offset, out)?;
        self.moved(got);
        Ok(got)
    }

    fn stored_before(&self, offset: u64) -> Result<u64> {
        self.below.stored_before(offset)
    }

    fn at_hand(&self) -> u64 {
        self.below.at_hand()
    }

    fn read_vectored_at(&self, offset: u64, pieces: &mut [std::io::IoSliceMut<'_>]) -> Result<usize> {
        let got = self.below.read_vectored_at(offset, pieces)?;
        self.moved(got);
        Ok(got)
    }

    fn life(&self) -> Result<Life> {
        self.below.life()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_url_is_a_store_and_a_name() {
        let parts = |name| url_parts(name).map(|(store, file)| format!("{store} {file}"));
        for (name, wanted) in [
            ("s3://bucket/x.bp", Some("s3://bucket x.bp")),
            ("S3://bucket/runs/x.bp?region=eu/1", Some("S3://bucket/runs?region=eu/1 x.bp")),
            ("posix:/nowhere/runs/x.bp", Some("posix:/nowhere/runs x.bp")),
            ("posix:/x.bp", Some("posix:/ x.bp")),
            ("tiered:posix:/a=>s3://b/x.bp", Some("tiered:posix:/a=>s3://b x.bp")),
            ("s3://bucket", None),
            ("s3://bucket/", None),
            ("x.bp", None),
            ("thalweg:name/x.bp", None),
            ("run:1/x.bp", None),
        ] {
            assert_eq!(parts(name).as_deref(), wanted, "{name}");
        }
    }

    #[test]
    fn attributes_are_below_their_variable() {
        assert!(is_below("T/units", "T") && is_below("/T/units", "T") && is_below("T/units", "/T"));
        assert!(!is_below("Tx/units", "T") && !is_below("T", "T") && !is_below("a/T/units", "T"));
    }
}
