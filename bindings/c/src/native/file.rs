//! Files as bytes, through the mounts of the process, for codes that write no BP.

use super::failure::{keep_number, status};
use super::{communicator, handle, place, pointer, take_back, text, wrong};
use std::ffi::{c_char, c_int, c_void};
use std::io::IoSlice;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use thalweg_collective_open::CollectiveFile;
use thalweg_comm::tree::FAN_IN;
use thalweg_comm_mpi::ThalwegMpiTable;
use thalweg_io::mounts;
use thalweg_layout::{Kind, Layout, ReadObject, WriterId, errno};
use thalweg_open_file::{Access, OpenFile, about};
use thalweg_types::{ErrorKind, Result};

const READ: c_int = 1;
const WRITE: c_int = 2;
const CREATE: c_int = 4;
const EXCLUSIVE: c_int = 8;
const TRUNCATE: c_int = 16;

/// `thalweg_file`. Any thread may call it at any time: the file sorts that out.
struct NativeFile {
    file: OpenFile,
    /// Of a file that ranks opened together.
    collective: Option<Arc<CollectiveFile>>,
}

/// A file that ranks opened together, as one rank reads it.
struct Shared(Arc<CollectiveFile>);

impl ReadObject for Shared {
    fn length(&self) -> Result<u64> {
        self.0.length()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.0.read_at(offset, out)
    }
}

/// `thalweg_file_about`.
#[repr(C)]
struct CAbout {
    kind: c_int,
    mode: u32,
    uid: u32,
    gid: u32,
    length: u64,
    identity: u64,
    mtime: i64,
    mtime_nanoseconds: u32,
}

/// Runs a call on files, and keeps the system's number of its failure.
fn on_files(body: impl FnOnce() -> Result<()>) -> c_int {
    status(|| body().inspect_err(|e| keep_number(errno::of(e))))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_file_open(
    file: *mut *mut NativeFile,
    path: *const c_char,
    flags: c_int,
    writer: u32,
) -> c_int {
    on_files(|| {
        // SAFETY: from C.
        let (place, path) = unsafe { (place(file, "place for the file")?, text(path, "the path")?) };
        if flags & !(READ | WRITE | CREATE | EXCLUSIVE | TRUNCATE) != 0 || flags & (READ | WRITE) == 0 {
            return Err(wrong(format!("{flags} are no flags of an open: reading or writing, and more")).in_object(path));
        }
        if flags & WRITE == 0 && flags & (CREATE | EXCLUSIVE | TRUNCATE) != 0 {
            return Err(wrong("a file is made or emptied only where it is opened for writing").in_object(path));
        }
        let access = Access {
            // A writer may read its bytes back.
            read: true,
            write: flags & WRITE != 0,
            create: flags & CREATE != 0,
            exclusive: flags & EXCLUSIVE != 0,
            truncate: flags & TRUNCATE != 0,
            ..Access::default()
        };
        let layout = mounts::of_process()?;
        crate::leaving::listen();
        let at = layout.place(path)?;
        let file = OpenFile::open(at.layout, &at.name, access, None, WriterId(writer))?;
        *place = Box::into_raw(Box::new(NativeFile { file, collective: None }));
        Ok(())
    })
}

/// # Safety
/// See [`crate::pointer`]; `table` and `comm` as in `MpiCommunicator::from_raw`.
/// # Cost
/// As [`CollectiveFile::open`], after the reduction and duplicate of [`thalweg_comm_mpi::MpiCommunicator::from_raw`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_core_file_open(
    file: *mut *mut NativeFile,
    path: *const c_char,
    table: *const ThalwegMpiTable,
    comm: *mut c_void,
) -> c_int {
    on_files(|| {
        // SAFETY: from C.
        let (comm, asked) = unsafe {
            let comm = communicator(table, comm)?;
            (comm, place(file, "place for the file").and_then(|p| Ok((p, text(path, "the path")?))))
        };
        let found = asked.and_then(|(place, path)| {
            let layout = mounts::of_process()?;
            let at = layout.place(path)?;
            Ok((place, at.layout.clone(), at.name))
        });
        match found {
            Ok((place, layout, name)) => {
                let collective = Arc::new(CollectiveFile::open(comm, Ok((&*layout, &name)), FAN_IN)?);
                let file = OpenFile::reading(&layout, &name, Box::new(Shared(collective.clone())));
                *place = Box::into_raw(Box::new(NativeFile { file, collective: Some(collective) }));
                Ok(())
            }
            Err(e) => CollectiveFile::open(comm, Err(e), FAN_IN).map(|_| ()),
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_file_read(
    file: *const NativeFile,
    data: *mut c_void,
    bytes: u64,
    offset: u64,
    got: *mut u64,
) -> c_int {
    on_files(|| {
        // SAFETY: from C.
        let (file, out) = unsafe { (handle(file, "file")?, pointer::bytes_mut(data, bytes, "the memory")?) };
        let count = file.file.read_at(offset, out)?;
        // SAFETY: from C.
        unsafe { tell(got, count, out.len(), offset) }
    })
}

/// # Cost
/// As [`CollectiveFile::read_all`] if ranks opened the file together, else one read.
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_file_read_all(
    file: *const NativeFile,
    data: *mut c_void,
    bytes: u64,
    offset: u64,
    got: *mut u64,
) -> c_int {
    on_files(|| {
        // SAFETY: from C.
        let (file, out) = unsafe { (handle(file, "file")?, pointer::bytes_mut(data, bytes, "the memory")) };
        let count = match (&file.collective, out) {
            (None, out) => {
                let out = out?;
                (file.file.read_at(offset, out)?, out.len())
            }
            (Some(collective), Ok(out)) => (collective.read_all(offset, out)?, out.len()),
            (Some(collective), Err(e)) => {
                // The others wait for this rank.
                collective.read_all(offset, &mut [])?;
                return Err(e.into());
            }
        };
        // SAFETY: from C.
        unsafe { tell(got, count.0, count.1, offset) }
    })
}

/// Sets the number of bytes read.
///
/// # Safety
/// Null, or memory for a number.
unsafe fn tell(got: *mut u64, count: usize, wanted: usize, offset: u64) -> Result<()> {
    // SAFETY: as the caller promises.
    match unsafe { got.as_mut() } {
        Some(got) => *got = count as u64,
        // A caller that does not request the number of bytes expects all of them.
        None if count < wanted => {
            return Err(thalweg_types::Error::new(ErrorKind::Torn, "the file ends before the requested bytes")
                .at_byte(offset.saturating_add(count as u64)));
        }
        None => {}
    }
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_file_write(
    file: *const NativeFile,
    data: *const c_void,
    bytes: u64,
    offset: u64,
) -> c_int {
    on_files(|| {
        // SAFETY: from C.
        let (file, data) = unsafe { (handle(file, "file")?, pointer::bytes(data, bytes, "the memory")?) };
        file.file.write_at(offset, &[IoSlice::new(data)])
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_file_length(file: *const NativeFile, length: *mut u64) -> c_int {
    on_files(|| {
        // SAFETY: from C.
        let (file, length) = unsafe { (handle(file, "file")?, pointer::out(length, "the length")?) };
        *length = file.file.length()?;
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_file_truncate(file: *const NativeFile, length: u64) -> c_int {
    // SAFETY: from C.
    on_files(|| unsafe { handle(file, "file")? }.file.truncate(length))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_file_sync(file: *const NativeFile) -> c_int {
    // SAFETY: from C.
    on_files(|| unsafe { handle(file, "file")? }.file.sync())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_file_close(file: *mut NativeFile) -> c_int {
    // SAFETY: from C.
    on_files(|| unsafe { take_back(file, "file")? }.file.close())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_file_stat(path: *const c_char, about: *mut CAbout) -> c_int {
    on_files(|| {
        // SAFETY: from C.
        let (path, out) =
            unsafe { (text(path, "the path")?, pointer::out(about, "the structure for the attributes")?) };
        let layout = mounts::of_process()?;
        let at = layout.place(path)?;
        let (_, about) = about::followed(&**at.layout, &at.name)?;
        *out = CAbout {
            kind: c_int::from(about.kind == Kind::Folder),
            mode: about.mode,
            uid: about.uid,
            gid: about.gid,
            length: about.length,
            identity: about.identity,
            mtime: 0,
            mtime_nanoseconds: 0,
        };
        (out.mtime, out.mtime_nanoseconds) = since_1970(about.mtime);
        Ok(())
    })
}

fn since_1970(time: SystemTime) -> (i64, u32) {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (after.as_secs() as i64, after.subsec_nanos()),
        Err(before) => {
            let before = before.duration();
            match before.subsec_nanos() {
                0 => (-(before.as_secs() as i64), 0),
                nanos => (-(before.as_secs() as i64) - 1, 1_000_000_000 - nanos),
            }
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_file_unlink(path: *const c_char) -> c_int {
    on_files(|| {
        // SAFETY: from C.
        let path = unsafe { text(path, "the path")? };
        let layout = mounts::of_process()?;
        Layout::remove(&*layout, path)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_file_rename(from: *const c_char, to: *const c_char) -> c_int {
    on_files(|| {
        // SAFETY: from C.
        let (from, to) = unsafe { (text(from, "the old path")?, text(to, "the new path")?) };
        let layout = mounts::of_process()?;
        Layout::rename(&*layout, from, to)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_file_make_folder(path: *const c_char) -> c_int {
    on_files(|| {
        // SAFETY: from C.
        let path = unsafe { text(path, "the path")? };
        let layout = mounts::of_process()?;
        Layout::make_folder(&*layout, path)
    })
}
