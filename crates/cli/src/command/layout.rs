//! `thalweg layout`: locates the bytes of files under mounts; checks, repairs and compacts them.

use crate::arguments::Layout as Arguments;
use crate::outcome::{Failure, Outcome};
use crate::terminal::{BAD, GOOD, Terminal, plain};
use crate::writers;
use std::io::{IoSlice, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};
use thalweg_io::mounts;
use thalweg_layout::container::tools::Accept;
use thalweg_layout::mount::ResolvedPath;
use thalweg_layout::{Container, Mounts, OpenWrite, SmallFile, WriterId};
use thalweg_reader::writers::check_object;
use thalweg_report::text::count;
use thalweg_store::Posix;
use thalweg_types::printable::printable_lines;
use thalweg_types::{Error, ErrorKind};

pub fn run(arguments: &Arguments, out: &mut Terminal) -> Result<Outcome, Failure> {
    let mounts = mounts::of_process()?;
    match arguments {
        Arguments::Map { file, from, to } => map(&place(&mounts, file)?, file, (*from, *to), out),
        Arguments::Flatten { file, to, even_if_written } => flatten(&mounts, file, to, *even_if_written, out),
        Arguments::Compact { path } => compact(&place(&mounts, path)?, path, out),
        Arguments::Check { path } => check(&place(&mounts, path)?, path, out),
        Arguments::Repair { path, all, lost } => {
            repair(&place(&mounts, path)?, path, Accept { open: *all, lost: *lost }, out)
        }
        Arguments::Stat { path } => stat(&place(&mounts, path)?, path, out),
    }
}

fn text(path: &Path) -> Result<&str, Failure> {
    path.to_str().ok_or_else(|| Failure::Usage(format!("'{}' is no UTF-8 text", path.display())))
}

fn place<'m>(mounts: &'m Mounts, path: &Path) -> Result<ResolvedPath<'m>, Failure> {
    Ok(mounts.place(text(path)?)?)
}

/// A layout with maintenance operations of its own.
enum Kind<'m> {
    Container(&'m Container),
    SmallFile(&'m SmallFile),
    Plain,
}

fn kind<'m>(place: &ResolvedPath<'m>) -> Kind<'m> {
    let Some(any) = place.layout.concrete() else { return Kind::Plain };
    match (any.downcast_ref::<Container>(), any.downcast_ref::<SmallFile>()) {
        (Some(container), _) => Kind::Container(container),
        (_, Some(small)) => Kind::SmallFile(small),
        _ => Kind::Plain,
    }
}

/// The folder of small files for a path: the path itself, or the folder of the named file.
fn folder<'p>(place: &'p ResolvedPath<'_>) -> Result<&'p str, Failure> {
    let about = place.layout.stat(&place.name)?;
    Ok(if about.is_folder { &place.name } else { thalweg_store::name::folder_of(&place.name) })
}

fn nothing_to_do(place: &ResolvedPath<'_>, path: &Path) -> Failure {
    let what = format!("files of layout {} need no maintenance", place.layout.describe());
    Error::new(ErrorKind::Unsupported, what).in_object(path.display().to_string()).into()
}

fn map(
    place: &ResolvedPath<'_>,
    path: &Path,
    (from, to): (u64, Option<u64>),
    out: &mut Terminal,
) -> Result<Outcome, Failure> {
    let length = place.layout.stat(&place.name)?.length;
    let to = to.unwrap_or(length).min(length);
    if let Kind::Container(container) = kind(place) {
        // If the reader of our output has ended, the file did not fail.
        let mut printed = Ok(());
        container.map(&place.name, from, to, |mapped| {
            if printed.is_ok() {
                let (start, end) = (mapped.extent.offset, mapped.extent.offset.saturating_add(mapped.extent.length));
                printed = match &mapped.at {
                    None => out.line(format_args!("{start}..{end}  hole")),
                    Some(at) => {
                        let byte = at.byte.map_or("hole".to_string(), |b| format!("byte {b}"));
                        out.line(format_args!(
                            "{start}..{end}  {} {byte}  writer {} clock {}",
                            at.object, at.writer, at.clock
                        ))
                    }
                };
            }
        })?;
        printed?;
        return Ok(Outcome::Done);
    }
    let at = match place.layout.plain_file(&place.name) {
        Some(plain) => plain.display().to_string(),
        None => place.layout.describe(),
    };
    out.line(format_args!("{from}..{to}  {at}"))?;
    let _ = path;
    Ok(Outcome::Done)
}

fn flatten(
    mounts: &Mounts,
    file: &Path,
    to: &Path,
    even_if_written: bool,
    out: &mut Terminal,
) -> Result<Outcome, Failure> {
    let (source, target) = (place(mounts, file)?, place(mounts, to)?);
    let length = flat_copy(&source, &target, even_if_written).map_err(|e| e.in_object(file.display().to_string()))?;
    out.styled(GOOD, "flat")?;
    out.line(format_args!(": {} of {} in {}", count(length, "byte"), file.display(), to.display()))?;
    Ok(Outcome::Done)
}

/// Copies a file that no process writes; checked before and after the copy. Returns its length. A failure leaves no target.
fn flat_copy(source: &ResolvedPath<'_>, target: &ResolvedPath<'_>, even_if_written: bool) -> Result<u64, Error> {
    if !even_if_written {
        unwritten(source)?;
    }
    let before = state(source)?;
    let length = match kind(source) {
        Kind::Container(container) if target.mount.is_none() => {
            container.flatten(&source.name, &Posix::plain(), &target.name)?
        }
        Kind::Container(container) => {
            container.settled(&source.name)?;
            copy(source, target)?
        }
        _ => copy(source, target)?,
    };
    let same = || match (even_if_written, kind(source)) {
        (true, Kind::Container(container)) => container.settled(&source.name),
        (true, _) => Ok(()),
        (false, _) if state(source)? != before => {
            Err(Error::new(ErrorKind::NotReady, "the file was changed while it was copied"))
        }
        (false, _) => unwritten(source),
    };
    same().map_err(|e| removed(target, e))?;
    Ok(length)
}

/// Checks that no process writes a file, as far as this machine and the file's store show.
fn unwritten(place: &ResolvedPath<'_>) -> Result<(), Error> {
    check_object(&**place.layout, &place.name)?;
    match place.layout.plain_file(&place.name).as_deref().and_then(writers::of) {
        None => Ok(()),
        Some(pid) => Err(Error::new(ErrorKind::NotReady, format!("process {pid} has the file open for writing"))),
    }
}

/// Identity, length and time of the last write of a file: a change of the file changes at least one of them.
fn state(place: &ResolvedPath<'_>) -> Result<(u64, u64, Option<SystemTime>), Error> {
    let about = place.layout.stat(&place.name)?;
    let written = match place.layout.attributes(&place.name) {
        Err(e) if e.kind() != ErrorKind::Unsupported => return Err(e),
        about => about.ok().map(|about| about.mtime),
    };
    Ok((about.identity, about.length, written))
}

/// Copies into a new file; an incomplete copy is removed.
fn copy(source: &ResolvedPath<'_>, target: &ResolvedPath<'_>) -> Result<u64, Error> {
    let from = source.layout.open_read(&source.name)?;
    let to = target.layout.open_write(&target.name, OpenWrite::New, WriterId(0))?;
    let copied = (|| {
        let mut buffer = vec![0; 4 << 20];
        let mut at = 0;
        loop {
            let got = from.read_at(at, &mut buffer)?;
            if got == 0 {
                to.sync()?;
                return Ok(at);
            }
            to.write_at(at, &[IoSlice::new(&buffer[..got])])?;
            at += got as u64;
        }
    })();
    let closed = to.close();
    copied.and_then(|length| closed.map(|()| length)).map_err(|e| removed(target, e))
}

/// Removes an incomplete copy.
fn removed(target: &ResolvedPath<'_>, why: Error) -> Error {
    match target.layout.remove(&target.name) {
        Err(e) if e.kind() != ErrorKind::NotFound => why.safe(format!("{} holds a part of it: {e}", target.name)),
        _ => why,
    }
}

fn compact(place: &ResolvedPath<'_>, path: &Path, out: &mut Terminal) -> Result<Outcome, Failure> {
    let shown = path.display();
    match kind(place) {
        Kind::Container(container) => {
            let done = container.compact(&place.name)?;
            out.styled(GOOD, "compacted")?;
            let (sessions, dead) = (count(done.sessions as u64, "session"), count(done.dead, "byte"));
            out.line(format_args!(
                ": {shown}, {sessions} in one log of {}, {dead} reclaimed",
                count(done.bytes, "byte")
            ))?;
        }
        Kind::SmallFile(small) => {
            let done = small.compact(folder(place)?)?;
            out.styled(GOOD, "compacted")?;
            let (logs, freed) = (count(done.logs, "log"), count(done.freed, "byte"));
            out.line(format_args!(": {shown}, {logs} in one of {}, {freed} reclaimed", count(done.files, "file")))?;
        }
        Kind::Plain => return Err(nothing_to_do(place, path)),
    }
    Ok(Outcome::Done)
}

/// Names of the files in a folder and the folders below, sorted.
fn files_below(place: &ResolvedPath<'_>, folder: &str, out: &mut Vec<String>) -> Result<(), Failure> {
    for name in place.layout.list(folder)? {
        let name = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        match place.layout.attributes(&name) {
            Ok(about) if about.kind == thalweg_layout::Kind::Folder => files_below(place, &name, out)?,
            Ok(about) if about.kind == thalweg_layout::Kind::Link => {}
            // Removed meanwhile.
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            // It may be a folder, whose files would be left out.
            Err(e) if e.kind() == ErrorKind::Io => return Err(e.into()),
            // Errors of a file are reported by its check.
            _ => out.push(name),
        }
    }
    Ok(())
}

fn is_folder(place: &ResolvedPath<'_>) -> Result<bool, Failure> {
    match place.layout.stat(&place.name) {
        Ok(about) => Ok(about.is_folder),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Io) => Err(e.into()),
        // Errors of a file are reported by its check.
        Err(_) => Ok(false),
    }
}

/// Calls `call` for a file of containers, or for every file below a folder; `shown` is the user's path.
fn each_file(
    place: &ResolvedPath<'_>,
    shown: &Path,
    mut call: impl FnMut(&str, &str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if !is_folder(place)? {
        return call(&place.name, &shown.display().to_string());
    }
    let mut files = Vec::new();
    files_below(place, &place.name, &mut files)?;
    for name in files {
        let below = name.strip_prefix(&place.name).unwrap_or(&name).trim_start_matches('/');
        call(&name, &shown.join(below).display().to_string())?;
    }
    Ok(())
}

/// How often a file of a folder is tried whose name comes and goes.
const TRIES: usize = 10;

/// What a call tells of a file of a folder, which other processes may remove, and make anew, meanwhile; `None` if its name is gone.
fn unless_gone<T>(
    place: &ResolvedPath<'_>,
    name: &str,
    mut call: impl FnMut() -> Result<T, Failure>,
) -> Result<Option<T>, Failure> {
    for _ in 1..TRIES {
        match call() {
            Err(Failure::File(e)) if name != place.name && e.kind() == ErrorKind::NotFound => {}
            told => return told.map(Some),
        }
        if place.layout.attributes(name).is_err_and(|e| e.kind() == ErrorKind::NotFound) {
            return Ok(None);
        }
        // An object of the file is missing, or another file has the name now.
    }
    call().map(Some)
}

fn check_file(container: &Container, name: &str, shown: &str, out: &mut Terminal) -> Result<bool, Failure> {
    let report = container.check(name)?;
    for finding in &report.findings {
        out.line(format_args!("{}: {}", finding.place, finding.words))?;
    }
    let (records, bytes) = (count(report.records, "record"), count(report.bytes, "byte"));
    out.line(format_args!("{shown}: {} long, {records} of {bytes} read", count(report.length, "byte")))?;
    Ok(report.is_clean())
}

/// Containers of a mount that no name leads to, where the whole mount is given; how many were, or can be, removed. Those of the last
/// hour are left out: another process may be about to name them.
fn nameless(container: &Container, place: &ResolvedPath<'_>, remove: bool, out: &mut Terminal) -> Result<u64, Failure> {
    if !place.name.is_empty() {
        return Ok(0);
    }
    let found = container.nameless(Duration::from_secs(3600), remove)?;
    for nameless in &found {
        let done = match &nameless.left {
            Some(why) => format!(": left, {why}"),
            None if remove => ": removed".into(),
            None => String::new(),
        };
        let why = "no name leads to it, of a file that was being made or removed when its process died";
        out.line(format_args!("{:032x}: {why}{}", nameless.container, printable_lines(&done)))?;
    }
    Ok(found.iter().filter(|nameless| nameless.left.is_none()).count() as u64)
}

fn check(place: &ResolvedPath<'_>, path: &Path, out: &mut Terminal) -> Result<Outcome, Failure> {
    let shown = path.display();
    let clean = match kind(place) {
        Kind::Container(container) => {
            let (mut files, mut broken) = (0u64, 0u64);
            each_file(place, path, |name, shown| {
                let whole = match unless_gone(place, name, || check_file(container, name, shown, out)) {
                    Ok(None) => return Ok(()),
                    Ok(Some(whole)) => whole,
                    // A file that cannot be checked does not end the check of the others.
                    Err(Failure::File(e)) if name != place.name => {
                        writeln!(out, "{}: {}", plain(shown), printable_lines(&e.to_string()))?;
                        false
                    }
                    Err(e) => return Err(e),
                };
                files += 1;
                broken += u64::from(!whole);
                Ok(())
            })?;
            if files != 1 {
                out.line(format_args!("{shown}: {}, {broken} of them not whole", count(files, "file")))?;
            }
            let nameless = nameless(container, place, false, out)?;
            broken == 0 && nameless == 0
        }
        Kind::SmallFile(small) => {
            let report = small.check(folder(place)?, true)?;
            for (log, byte) in &report.torn {
                out.line(format_args!("{log}: no complete record from byte {byte}: its writer died, or is writing"))?;
            }
            for (name, why) in &report.damaged {
                out.line(format_args!("{name}: {why}"))?;
            }
            let (files, logs) = (count(report.files, "file"), count(report.logs, "log"));
            out.line(format_args!("{shown}: {files} in {logs}, all bytes read"))?;
            report.damaged.is_empty()
        }
        Kind::Plain => return Err(nothing_to_do(place, path)),
    };
    match clean {
        true => {
            out.styled(GOOD, "whole")?;
            out.line(format_args!(": {shown}"))?;
            Ok(Outcome::Done)
        }
        false => {
            out.styled(BAD, "not whole")?;
            out.line(format_args!(": {shown}; run `thalweg layout repair` to repair it"))?;
            Ok(Outcome::No)
        }
    }
}

fn repair(place: &ResolvedPath<'_>, path: &Path, accept: Accept, out: &mut Terminal) -> Result<Outcome, Failure> {
    let shown = path.display();
    match kind(place) {
        Kind::Container(container) => {
            let (mut things, mut left) = (0, 0);
            each_file(place, path, |name, _| {
                let Some(findings) = unless_gone(place, name, || Ok(container.repair(name, accept)?))? else {
                    return Ok(());
                };
                for finding in &findings {
                    things += u64::from(!finding.left);
                    left += u64::from(finding.left);
                    out.line(format_args!("{}: {}", finding.place, finding.words))?;
                }
                Ok(())
            })?;
            things += nameless(container, place, true, out)?;
            if things > 0 || left == 0 {
                out.styled(GOOD, "repaired")?;
                out.line(format_args!(": {shown}, {}", count(things, "thing")))?;
            }
            if left > 0 {
                out.styled(BAD, "not whole")?;
                let lost = count(left, "log");
                out.line(format_args!(
                    ": {shown}; {lost} that ended early: left, in case a store brings the rest back; --lost lets files end where they are whole"
                ))?;
                return Ok(Outcome::No);
            }
        }
        Kind::SmallFile(small) => {
            // Readers skip the logs of dead writers and rebuild lost name logs as they read; compaction makes that permanent.
            let done = small.compact(folder(place)?)?;
            out.styled(GOOD, "repaired")?;
            out.line(format_args!(": {shown}, {} in one new log", count(done.files, "file")))?;
        }
        Kind::Plain => return Err(nothing_to_do(place, path)),
    }
    Ok(Outcome::Done)
}

fn stat(place: &ResolvedPath<'_>, path: &Path, out: &mut Terminal) -> Result<Outcome, Failure> {
    let shown = path.display();
    let under = place.mount.map_or("no mount", |m| m.prefix());
    out.line(format_args!("{shown}: {}, under {under}", place.layout.describe()))?;
    match kind(place) {
        Kind::Container(container) if !place.layout.stat(&place.name)?.is_folder => {
            let about = container.about(&place.name)?;
            out.line(format_args!("length    {}", count(about.length, "byte")))?;
            out.line(format_args!("sessions  {} ({} not closed)", about.sessions, about.open))?;
            out.line(format_args!("written   {}", count(about.written, "byte")))?;
            out.line(format_args!("index     {}, {} in index logs", about.module, count(about.index_bytes, "byte")))?;
            out.line(format_args!(
                "open      {} of {}",
                count(about.entries, "entry").replace("entrys", "entries"),
                count(about.memory as u64, "byte")
            ))?;
            for store in &about.stores {
                out.line(format_args!("store     {store}"))?;
            }
        }
        Kind::SmallFile(small) => {
            let report = small.check(folder(place)?, false)?;
            out.line(format_args!("files     {} ({} grown out of the logs)", report.files, report.own))?;
            out.line(format_args!("bytes     {}", report.bytes))?;
            out.line(format_args!(
                "logs      {} ({} being written), {}",
                report.logs,
                report.live,
                count(report.log_bytes, "byte")
            ))?;
        }
        _ => {
            let about = place.layout.stat(&place.name)?;
            out.line(format_args!("length    {}", count(about.length, "byte")))?;
            if let Some(plain) = place.layout.plain_file(&place.name) {
                out.line(format_args!("file      {}", plain.display()))?;
            }
        }
    }
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use thalweg_layout::{Direct, Layout, ReadObject, Stat, WriteObject};
    use thalweg_store::{Memory, Store, StoreExt};

    /// A change of a file while it is read.
    #[derive(Clone, Copy)]
    enum Meanwhile {
        Nothing,
        /// A writer opens it, adds to it and closes it.
        Grows,
        /// A writer opens it and continues.
        IsOpened,
        ReadsFail,
    }

    /// An object open for writing, and its lease.
    type Leased = (Box<dyn WriteObject>, thalweg_layout::Lease);

    /// Things happen to the file at its second read.
    struct Busy {
        layout: Arc<Direct>,
        meanwhile: Meanwhile,
        reads: Arc<AtomicU64>,
        open: Arc<thalweg_types::mutex::Mutex<Vec<Leased>>>,
    }

    struct BusyObject(Busy, Box<dyn ReadObject>, String);

    impl ReadObject for BusyObject {
        fn length(&self) -> Result<u64, Error> {
            self.1.length()
        }
        fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize, Error> {
            if self.0.reads.fetch_add(1, Ordering::SeqCst) == 1 {
                let open = || self.0.layout.open_write(&self.2, OpenWrite::Existing, WriterId(0)).unwrap();
                match self.0.meanwhile {
                    Meanwhile::Nothing => {}
                    Meanwhile::Grows => open().write_at(9 << 20, &[IoSlice::new(b"more")]).unwrap(),
                    Meanwhile::IsOpened => {
                        let object = open();
                        let lease = object.lease().unwrap().unwrap();
                        self.0.open.lock().push((object, lease));
                    }
                    Meanwhile::ReadsFail => return Err(Error::new(ErrorKind::Io, "the read failed")),
                }
            }
            self.1.read_at(offset, out)
        }
        fn life(&self) -> Result<thalweg_layout::Life, Error> {
            self.1.life()
        }
    }

    impl Busy {
        fn again(&self) -> Busy {
            let Busy { layout, meanwhile, reads, open } = self;
            Busy { layout: layout.clone(), meanwhile: *meanwhile, reads: reads.clone(), open: open.clone() }
        }
    }

    impl Layout for Busy {
        fn describe(&self) -> String {
            self.layout.describe()
        }
        fn open_write(&self, path: &str, how: OpenWrite, writer: WriterId) -> Result<Box<dyn WriteObject>, Error> {
            self.layout.open_write(path, how, writer)
        }
        fn open_read(&self, path: &str) -> Result<Box<dyn ReadObject>, Error> {
            Ok(Box::new(BusyObject(self.again(), self.layout.open_read(path)?, path.to_string())))
        }
        fn stat(&self, path: &str) -> Result<Stat, Error> {
            self.layout.stat(path)
        }
        fn list(&self, folder: &str) -> Result<Vec<String>, Error> {
            self.layout.list(folder)
        }
        fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
            self.layout.rename(from, to)
        }
        fn remove(&self, path: &str) -> Result<(), Error> {
            self.layout.remove(path)
        }
        fn make_folder(&self, path: &str) -> Result<(), Error> {
            self.layout.make_folder(path)
        }
        fn sync_folder(&self, folder: &str) -> Result<(), Error> {
            self.layout.sync_folder(folder)
        }
    }

    #[test]
    fn a_file_that_changes_while_it_is_copied_and_a_copy_that_fails_leave_no_target() {
        for (meanwhile, kind) in [
            (Meanwhile::Nothing, None),
            (Meanwhile::Grows, Some(ErrorKind::NotReady)),
            (Meanwhile::IsOpened, Some(ErrorKind::NotReady)),
            (Meanwhile::ReadsFail, Some(ErrorKind::Io)),
        ] {
            let memory = Arc::new(Memory::new());
            memory.write_all("file", &[7; 9 << 20]).unwrap();
            let direct = Arc::new(Direct::new(memory.clone()).unwrap());
            let (reads, open) = (Arc::default(), Arc::default());
            let busy: Arc<dyn Layout> = Arc::new(Busy { layout: direct.clone(), meanwhile, reads, open });
            let plain: Arc<dyn Layout> = direct;
            let source = ResolvedPath { mount: None, layout: &busy, name: "file".to_string() };
            let target = ResolvedPath { mount: None, layout: &plain, name: "copy".to_string() };
            let outcome = flat_copy(&source, &target, false);
            assert_eq!(outcome.as_ref().err().map(Error::kind), kind, "{outcome:?}");
            assert_eq!(memory.stat("copy").is_ok(), kind.is_none());
            // A file that existed before is not ours to remove.
            memory.write_all("copy", b"another's").unwrap();
            assert_eq!(flat_copy(&source, &target, true).unwrap_err().kind(), ErrorKind::AlreadyExists);
            assert_eq!(memory.read_all("copy").unwrap(), b"another's");
        }
    }
}
