//! The C interface: the table of `mpi/thalweg_mpi.h`, and safe handles around its objects.
//!
//! All unsafe code of this crate is here. It relies on one guarantee by the callers of [`Library::new`] and [`RawComm::new`]: the
//! table was filled by `mpi/shim.c` of this version, and stays valid. The handles guarantee that buffers in use by MPI are owned
//! by an [`Operation`] and not freed before MPI has completed it, and that MPI is not called before `MPI_Init`, after
//! `MPI_Finalize`, or from a thread that may not call.
//!
//! Methods that return `Result` fail with the kinds of [`crate::error::failed`] where MPI fails, with `NoMemory` without memory for
//! a buffer, and with `Unsupported` for lengths beyond `int` in a collective call.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_comm::at_end;
use thalweg_comm::guarded::caught;
use thalweg_types::{Error, ErrorKind, Result};

/// A request or message of MPI.
type Token = u64;

const VERSION: u32 = 4;

/// `ThalwegMpiTable` of `mpi/thalweg_mpi.h`, where each function is described.
#[repr(C)]
pub struct Table {
    version: u32,
    table_bytes: u32,
    large_bytes: u64,
    ready: unsafe extern "C" fn() -> c_int,
    thread_level: unsafe extern "C" fn() -> c_int,
    error_sort: unsafe extern "C" fn(c_int) -> c_int,
    error_text: unsafe extern "C" fn(c_int, *mut c_char, c_int) -> c_int,
    at_end: unsafe extern "C" fn(extern "C" fn()),
    rank_and_size: unsafe extern "C" fn(*mut c_void, *mut u32, *mut u32) -> c_int,
    largest_tag: unsafe extern "C" fn(*mut c_void, *mut u32) -> c_int,
    duplicate: unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> c_int,
    split: unsafe extern "C" fn(*mut c_void, c_int, c_int, *mut *mut c_void) -> c_int,
    split_by_node: unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> c_int,
    offer: unsafe extern "C" fn(*mut c_void, *mut u64) -> c_int,
    settle: unsafe extern "C" fn(*mut c_void, u64) -> c_int,
    release: unsafe extern "C" fn(*mut c_void, c_int),
    send: unsafe extern "C" fn(*mut c_void, *const c_void, u64, u32, u32, *mut Token) -> c_int,
    receive: unsafe extern "C" fn(*mut c_void, *mut c_void, u64, u32, u32, *mut Token) -> c_int,
    match_: unsafe extern "C" fn(*mut c_void, i64, u32, *mut c_int, *mut u32, *mut u64, *mut Token) -> c_int,
    receive_matched: unsafe extern "C" fn(*mut c_void, u64, *mut Token, *mut Token) -> c_int,
    test: unsafe extern "C" fn(*mut Token, *mut c_int) -> c_int,
    barrier: unsafe extern "C" fn(*mut c_void, *mut Token) -> c_int,
    broadcast: unsafe extern "C" fn(*mut c_void, *mut c_void, c_int, u32, *mut Token) -> c_int,
    gather: unsafe extern "C" fn(*mut c_void, *const c_void, *mut c_void, c_int, u32, *mut Token) -> c_int,
    scatter: unsafe extern "C" fn(*mut c_void, *const c_void, *mut c_void, c_int, u32, *mut Token) -> c_int,
    all_gather: unsafe extern "C" fn(*mut c_void, *const c_void, *mut c_void, c_int, *mut Token) -> c_int,
    all_gather_lengths: unsafe extern "C" fn(
        *mut c_void,
        *const c_void,
        c_int,
        *mut c_void,
        *const c_int,
        *const c_int,
        *mut Token,
    ) -> c_int,
    all_to_all: unsafe extern "C" fn(*mut c_void, *const c_void, *mut c_void, c_int, *mut Token) -> c_int,
    exclusive_scan: unsafe extern "C" fn(*mut c_void, *const u64, *mut u64, *mut Token) -> c_int,
    all_reduce: unsafe extern "C" fn(*mut c_void, *const u64, *mut u64, c_int, c_int, *mut Token) -> c_int,
    window_make: unsafe extern "C" fn(*mut c_void, u64, *mut *mut c_void) -> c_int,
    window_length: unsafe extern "C" fn(*mut c_void, u32) -> u64,
    window_put: unsafe extern "C" fn(*mut c_void, u32, u64, *const c_void, u64),
    window_get: unsafe extern "C" fn(*mut c_void, u32, u64, *mut c_void, u64),
    window_start: unsafe extern "C" fn(*mut c_void, u32) -> *const c_void,
    window_sync: unsafe extern "C" fn(*mut c_void) -> c_int,
    window_free: unsafe extern "C" fn(*mut c_void) -> c_int,
    window_forget: unsafe extern "C" fn(*mut c_void),
}

/// `MPI_Finalize` has begun.
extern "C" fn ends() {
    // A panic would leave through C. What failed is reported by those who do the work.
    let _ = caught("end what needs MPI", || {
        at_end::run();
        Ok(())
    });
}

/// The program's MPI library.
#[derive(Clone, Copy)]
pub struct Library {
    table: &'static Table,
}

/// Whether MPI may be called now, from this thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    Ready,
    NotStarted,
    Finished,
    OtherThread,
    Foreign,
}

/// MPI's class of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    Other,
    Argument,
    NoMemory,
    Truncated,
    PeerLost,
    Unsupported,
}

impl Library {
    /// # Safety
    /// `table` is null, or the result of `thalweg_mpi_table` of `mpi/shim.c`, in a library that is never unloaded.
    pub unsafe fn new(table: *const Table) -> Result<Library> {
        // SAFETY: the first two fields are there in every version; the rest is used only after they were compared.
        let head = unsafe { table.cast::<[u32; 2]>().as_ref() };
        match head {
            None => Err(Error::new(ErrorKind::InvalidArgument, "no table of MPI functions")),
            Some([VERSION, bytes]) if *bytes as usize == size_of::<Table>() => {
                // SAFETY: version and size are ours, and the caller promises the rest.
                let table = unsafe { &*table };
                // SAFETY: a function of this library, which is never unloaded; the shim only keeps its address.
                unsafe { (table.at_end)(ends) };
                Ok(Library { table })
            }
            Some([version, bytes]) => Err(Error::new(
                ErrorKind::Unsupported,
                format!("the MPI library of Thalweg is of another release (table {version}, {bytes} bytes)"),
            )),
        }
    }

    pub fn readiness(self) -> Readiness {
        // SAFETY: may be called at any time.
        match unsafe { (self.table.ready)() } {
            0 => Readiness::Ready,
            2 => Readiness::Finished,
            3 => Readiness::OtherThread,
            4 => Readiness::Foreign,
            _ => Readiness::NotStarted,
        }
    }

    /// Fails unless MPI may be called now.
    pub fn ready(self) -> Result<()> {
        crate::error::not_ready(self.readiness())
    }

    /// MPI's thread level: 0 single, 1 funneled, 2 serialized, 3 multiple.
    pub fn thread_level(self) -> c_int {
        // SAFETY: callers have a communicator, so MPI was initialised; Query_thread is thread safe.
        if self.readiness() == Readiness::Ready { unsafe { (self.table.thread_level)() } } else { 0 }
    }

    pub fn large_bytes(self) -> u64 {
        self.table.large_bytes
    }

    pub fn sort(self, code: c_int) -> Sort {
        // SAFETY: checks by itself whether MPI runs.
        match unsafe { (self.table.error_sort)(code) } {
            1 => Sort::Argument,
            2 => Sort::NoMemory,
            3 => Sort::Truncated,
            4 => Sort::PeerLost,
            5 => Sort::Unsupported,
            _ => Sort::Other,
        }
    }

    pub fn text(self, code: c_int) -> String {
        let mut text = [0u8; 1024];
        // SAFETY: writes at most the capacity given, and checks by itself whether MPI runs.
        let length = unsafe { (self.table.error_text)(code, text.as_mut_ptr().cast(), text.len() as c_int) };
        String::from_utf8_lossy(&text[..(length.max(0) as usize).min(text.len())]).into_owned()
    }

    fn check(self, code: c_int, what: &str) -> Result<()> {
        if code == 0 { Ok(()) } else { Err(crate::error::failed(self, code, what)) }
    }
}

impl crate::MpiCommunicator {
    /// Collective: a communicator of the MPI library of `table`. Takes ownership of `handle`, and releases it when dropped. The
    /// program may free its own communicator on return.
    ///
    /// # Errors
    /// `InvalidArgument` where MPI is not initialised or is finalized, this thread may not call it, or a pointer is null;
    /// `Unsupported` where the table is of another release, or MPI's largest tag is too small; `PeerLost`; `Timeout`.
    ///
    /// # Safety
    /// `table` must come from `thalweg_mpi_table` in a library that stays loaded, and `handle` from `thalweg_mpi_wrap` of the
    /// same library; no other code may use or release this handle. Either may be null.
    /// # Cost
    /// One reduction of two numbers. `MPI_Comm_dup`, which blocks until all ranks call, unless every rank has the same unused
    /// duplicate of the program's communicator, left by an earlier user that called [`thalweg_comm::Communicator::set_idle`].
    pub unsafe fn from_raw(table: *const Table, handle: *mut c_void) -> Result<Self> {
        // SAFETY: as the caller promises.
        let comm = unsafe { Self::from_raw_to_agree(table, handle) }?;
        comm.settle()?;
        Ok(comm)
    }

    /// As [`Self::from_raw`], without a collective call: its agreement is part of the first `all_reduce` with `Reduce::Max`, which
    /// should be the first call. Until then the program must not free its communicator.
    ///
    /// # Errors
    /// As [`Self::from_raw`], without `PeerLost` and `Timeout`.
    ///
    /// # Safety
    /// As [`Self::from_raw`].
    /// # Cost
    /// No communication. The first `all_reduce` carries two more numbers and may call `MPI_Comm_dup`, as [`Self::from_raw`].
    pub unsafe fn from_raw_to_agree(table: *const Table, handle: *mut c_void) -> Result<Self> {
        // SAFETY: the caller's promise covers the requirements of both.
        Self::on(unsafe { RawComm::new(Library::new(table)?, handle)? })
    }
}

/// A communicator of MPI; freed when dropped, if MPI can still be called and no operation was abandoned.
pub struct RawComm {
    library: Library,
    handle: *mut c_void,
    rank: u32,
    size: u32,
    /// The handle is the program's own communicator: for one collective call, in which the ranks agree on a duplicate.
    unsettled: AtomicBool,
    abandoned: AtomicBool,
    idle: AtomicBool,
}

// SAFETY: the handle is a pointer to plain memory that only this owner uses. Which threads may call MPI through it is
// checked before every call (`ready`), as MPI itself allows.
unsafe impl Send for RawComm {}
// SAFETY: no call changes the object of the handle. Calls from several threads at once reach MPI only if a window and its
// communicator are used from different threads; MPI allows that at thread level multiple, and below it only one thread passes
// `ready` or the program has promised to take turns (serialized).
unsafe impl Sync for RawComm {}

/// A matched message of MPI, not yet received.
#[derive(Debug)]
pub struct Matched {
    message: Token,
    /// Length of the message.
    pub bytes: u64,
}

impl Matched {
    /// A buffer for the message.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn memory(&self) -> Result<Vec<u8>> {
        zeros(self.bytes)
    }
}

impl RawComm {
    /// # Safety
    /// `handle` is null, or a communicator created by the same library without other users.
    pub unsafe fn new(library: Library, handle: *mut c_void) -> Result<RawComm> {
        if handle.is_null() {
            if library.readiness() == Readiness::Foreign {
                library.ready()?;
            }
            let what = "no communicator: MPI does not run, or the one given is null or cannot be duplicated";
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        let [unsettled, abandoned, idle] = Default::default();
        let mut made = RawComm { library, handle, rank: 0, size: 0, unsettled, abandoned, idle };
        library.ready()?;
        // SAFETY: the handle is a live communicator, the numbers outlive the call.
        let code = unsafe { (library.table.rank_and_size)(handle, &mut made.rank, &mut made.size) };
        library.check(code, "get rank and size")?;
        let mut number = 0;
        // SAFETY: as above.
        *made.unsettled.get_mut() = unsafe { (library.table.offer)(handle, &mut number) } != 0;
        Ok(made)
    }

    /// Whether this is still the program's own communicator.
    pub fn is_unsettled(&self) -> bool {
        self.unsettled.load(Ordering::Relaxed)
    }

    /// The number of this rank's cached duplicate; 0: none.
    pub fn offer(&self) -> u64 {
        let mut number = 0;
        // SAFETY: a live communicator, and a number that outlives the call.
        unsafe { (self.library.table.offer)(self.handle, &mut number) };
        number
    }

    /// Collective: switches to the cached duplicate `number` of all ranks; 0: to a new one, which blocks until all ranks call.
    pub fn settle(&self, number: u64) -> Result<()> {
        // SAFETY: a live communicator.
        let code = unsafe { (self.library.table.settle)(self.handle, number) };
        self.library.check(code, "duplicate a communicator")?;
        self.unsettled.store(false, Ordering::Relaxed);
        Ok(())
    }

    pub fn library(&self) -> Library {
        self.library
    }

    pub fn rank(&self) -> u32 {
        self.rank
    }

    pub fn size(&self) -> u32 {
        self.size
    }

    /// The largest tag; 0 if MPI does not provide it, which it must do only for `MPI_COMM_WORLD`.
    pub fn largest_tag(&self) -> Result<u32> {
        let mut tag = 0;
        // SAFETY: a live communicator, and a number that outlives the call.
        let code = unsafe { (self.library.table.largest_tag)(self.handle, &mut tag) };
        self.library.check(code, "get the largest tag")?;
        Ok(tag)
    }

    /// Collective; blocks until all ranks call.
    pub fn duplicate(&self) -> Result<RawComm> {
        let mut made = std::ptr::null_mut();
        // SAFETY: a live communicator; the new handle is ours alone.
        let code = unsafe { (self.library.table.duplicate)(self.handle, &mut made) };
        self.library.check(code, "duplicate a communicator")?;
        // SAFETY: as above.
        unsafe { RawComm::new(self.library, made) }
    }

    /// Collective; blocks until all ranks call. A rank with a negative color gets `None`.
    pub fn split(&self, color: c_int, key: c_int) -> Result<Option<RawComm>> {
        let mut made = std::ptr::null_mut();
        // SAFETY: a live communicator; the new handle is ours alone.
        let code = unsafe { (self.library.table.split)(self.handle, color, key, &mut made) };
        self.library.check(code, "split a communicator")?;
        if made.is_null() {
            return Ok(None);
        }
        // SAFETY: as above.
        unsafe { RawComm::new(self.library, made) }.map(Some)
    }

    /// Collective; blocks until all ranks call.
    pub fn split_by_node(&self) -> Result<RawComm> {
        let mut made = std::ptr::null_mut();
        // SAFETY: a live communicator; the new handle is ours alone.
        let code = unsafe { (self.library.table.split_by_node)(self.handle, &mut made) };
        self.library.check(code, "split a communicator by node")?;
        // SAFETY: as above.
        unsafe { RawComm::new(self.library, made) }
    }

    /// Matches the next message with `tag`: returns its sender and the matched message.
    pub fn find(&self, from: Option<u32>, tag: u32) -> Result<Option<(u32, Matched)>> {
        let (mut found, mut sender, mut bytes, mut message) = (0, 0, 0, 0);
        let from = from.map_or(-1, i64::from);
        // SAFETY: a live communicator; the numbers outlive the call.
        let code = unsafe {
            (self.library.table.match_)(self.handle, from, tag, &mut found, &mut sender, &mut bytes, &mut message)
        };
        self.library.check(code, "look for a message")?;
        Ok((found != 0).then_some((sender, Matched { message, bytes })))
    }

    /// Starts to receive a matched message.
    ///
    /// - `incoming`: its buffer, of [`Matched::memory`].
    ///
    /// # Panics
    /// If the buffer has another length than the message.
    pub fn receive_found(&self, mut matched: Matched, incoming: Vec<u8>) -> Result<Operation> {
        assert_eq!(incoming.len() as u64, matched.bytes, "memory for the whole message");
        Operation::start(self.library, "receive", Buffers { incoming, ..Buffers::default() }, |b, request| {
            // SAFETY: the buffer is as long as the message and stays with the operation; a message is received once,
            // since `matched` is consumed.
            unsafe {
                let table = self.library.table;
                (table.receive_matched)(b.incoming.as_mut_ptr().cast(), matched.bytes, &mut matched.message, request)
            }
        })
    }

    pub fn send(&self, to: u32, tag: u32, outgoing: Vec<u8>) -> Result<Operation> {
        Operation::start(self.library, "send", Buffers { outgoing, ..Buffers::default() }, |b, request| {
            let count = b.outgoing.len() as u64;
            // SAFETY: the buffer stays with the operation.
            unsafe { (self.library.table.send)(self.handle, b.outgoing.as_ptr().cast(), count, to, tag, request) }
        })
    }

    /// Starts to receive a message of known length.
    pub fn receive(&self, from: u32, tag: u32, bytes: u64) -> Result<Operation> {
        let incoming = zeros(bytes)?;
        Operation::start(self.library, "receive", Buffers { incoming, ..Buffers::default() }, |b, request| {
            let start = b.incoming.as_mut_ptr().cast();
            // SAFETY: the buffer stays with the operation; MPI writes no more than its length.
            unsafe { (self.library.table.receive)(self.handle, start, bytes, from, tag, request) }
        })
    }

    pub fn barrier(&self) -> Result<Operation> {
        Operation::start(self.library, "barrier", Buffers::default(), |_, request| {
            // SAFETY: no buffer.
            unsafe { (self.library.table.barrier)(self.handle, request) }
        })
    }

    /// Broadcasts the root's `bytes`; the other ranks pass a buffer of the same length. The result is `incoming` on every rank.
    pub fn broadcast(&self, root: u32, bytes: Vec<u8>) -> Result<Operation> {
        let count = counted(bytes.len())?;
        Operation::start(self.library, "broadcast", Buffers { incoming: bytes, ..Buffers::default() }, |b, request| {
            let start = b.incoming.as_mut_ptr().cast();
            // SAFETY: the buffer holds `count` bytes and stays with the operation.
            unsafe { (self.library.table.broadcast)(self.handle, start, count, root, request) }
        })
    }

    /// Gathers pieces of equal length to the root.
    pub fn gather(&self, root: u32, outgoing: Vec<u8>) -> Result<Operation> {
        let count = counted(outgoing.len())?;
        let all = if self.rank == root { outgoing.len() as u64 * u64::from(self.size) } else { 0 };
        let buffers = Buffers { incoming: zeros(all)?, outgoing, ..Buffers::default() };
        Operation::start(self.library, "gather", buffers, |b, request| {
            let (own, all) = (b.outgoing.as_ptr().cast(), b.incoming.as_mut_ptr().cast());
            // SAFETY: the root's buffer holds `count` bytes per rank; both stay with the operation.
            unsafe { (self.library.table.gather)(self.handle, own, all, count, root, request) }
        })
    }

    /// Scatters the root's `outgoing` to the ranks, in pieces of `piece` bytes.
    ///
    /// # Panics
    /// On the root, if `outgoing` is not as long as all pieces.
    pub fn scatter(&self, root: u32, outgoing: Vec<u8>, piece: usize) -> Result<Operation> {
        let count = counted(piece)?;
        assert!(self.rank != root || outgoing.len() == piece * self.size as usize, "a piece for every rank");
        let buffers = Buffers { incoming: zeros(piece as u64)?, outgoing, ..Buffers::default() };
        Operation::start(self.library, "scatter", buffers, |b, request| {
            let (all, own) = (b.outgoing.as_ptr().cast(), b.incoming.as_mut_ptr().cast());
            // SAFETY: the lengths were checked above; both buffers stay with the operation.
            unsafe { (self.library.table.scatter)(self.handle, all, own, count, root, request) }
        })
    }

    /// Gathers pieces of equal length to all ranks.
    pub fn all_gather(&self, outgoing: Vec<u8>) -> Result<Operation> {
        let count = counted(outgoing.len())?;
        let all = outgoing.len() as u64 * u64::from(self.size);
        let buffers = Buffers { incoming: zeros(all)?, outgoing, ..Buffers::default() };
        Operation::start(self.library, "all_gather", buffers, |b, request| {
            let (own, all) = (b.outgoing.as_ptr().cast(), b.incoming.as_mut_ptr().cast());
            // SAFETY: the buffer holds `count` bytes per rank; both stay with the operation.
            unsafe { (self.library.table.all_gather)(self.handle, own, all, count, request) }
        })
    }

    /// Gathers pieces of all ranks, of `counts` bytes, to all ranks, concatenated in the order of ranks.
    ///
    /// # Panics
    /// If `counts` does not have one length per rank, or `outgoing` another length than this rank's.
    pub fn all_gather_lengths(&self, outgoing: Vec<u8>, counts: &[usize]) -> Result<Operation> {
        assert_eq!(counts.len(), self.size as usize, "one length per rank");
        assert_eq!(counts[self.rank as usize], outgoing.len(), "the length that was announced");
        let mut offsets = Vec::with_capacity(counts.len());
        let mut total = 0;
        for count in counts {
            offsets.push(counted(total)?);
            total += count;
        }
        counted(total)?;
        let counts = counts.iter().map(|c| counted(*c)).collect::<Result<Vec<c_int>>>()?;
        let own_count = counted(outgoing.len())?;
        let buffers = Buffers { incoming: zeros(total as u64)?, outgoing, counts, offsets, ..Buffers::default() };
        Operation::start(self.library, "all_gather", buffers, |b, request| {
            let (own, all) = (b.outgoing.as_ptr().cast(), b.incoming.as_mut_ptr().cast());
            let (counts, offsets) = (b.counts.as_ptr(), b.offsets.as_ptr());
            let start = self.library.table.all_gather_lengths;
            // SAFETY: the buffer holds the sum of the counts, all offsets lie inside; all stay with the operation.
            unsafe { start(self.handle, own, own_count, all, counts, offsets, request) }
        })
    }

    /// Exchanges pieces of equal length, one from each rank to each rank.
    ///
    /// # Panics
    /// If `outgoing` does not have `piece` bytes for every rank.
    pub fn all_to_all(&self, outgoing: Vec<u8>, piece: usize) -> Result<Operation> {
        let count = counted(piece)?;
        assert_eq!(outgoing.len(), piece * self.size as usize, "a piece for every rank");
        let buffers = Buffers { incoming: zeros(outgoing.len() as u64)?, outgoing, ..Buffers::default() };
        Operation::start(self.library, "all_to_all", buffers, |b, request| {
            let (out, into) = (b.outgoing.as_ptr().cast(), b.incoming.as_mut_ptr().cast());
            // SAFETY: both buffers hold `count` bytes per rank and stay with the operation.
            unsafe { (self.library.table.all_to_all)(self.handle, out, into, count, request) }
        })
    }

    /// The sum over lower ranks, as one number; undefined on rank 0.
    pub fn exclusive_scan(&self, value: u64) -> Result<Operation> {
        let buffers = Buffers { numbers_out: vec![value], numbers_in: vec![0], ..Buffers::default() };
        Operation::start(self.library, "exclusive_scan", buffers, |b, request| {
            let (own, sum) = (b.numbers_out.as_ptr(), b.numbers_in.as_mut_ptr());
            // SAFETY: one number each, kept by the operation.
            unsafe { (self.library.table.exclusive_scan)(self.handle, own, sum, request) }
        })
    }

    pub fn all_reduce(&self, values: &[u64], how: thalweg_comm::Reduce) -> Result<Operation> {
        let count = counted(values.len())?;
        let how = match how {
            thalweg_comm::Reduce::Sum => 0,
            thalweg_comm::Reduce::Min => 1,
            thalweg_comm::Reduce::Max => 2,
        };
        let buffers = Buffers { numbers_out: values.to_vec(), numbers_in: vec![0; values.len()], ..Buffers::default() };
        Operation::start(self.library, "all_reduce", buffers, |b, request| {
            let (own, all) = (b.numbers_out.as_ptr(), b.numbers_in.as_mut_ptr());
            // SAFETY: both hold `count` numbers and stay with the operation.
            unsafe { (self.library.table.all_reduce)(self.handle, own, all, count, how, request) }
        })
    }

    /// Collective; blocks until all ranks call. The window keeps `self` alive.
    pub fn window(self: &Arc<Self>, bytes: u64) -> Result<RawWindow> {
        let mut made = std::ptr::null_mut();
        // SAFETY: a live communicator; the new window is ours alone.
        let code = unsafe { (self.library.table.window_make)(self.handle, bytes, &mut made) };
        self.library.check(code, "make a shared window")?;
        Ok(RawWindow { comm: Arc::clone(self), handle: made })
    }

    /// Marks the communicator as never to be freed, because an operation on it stays in flight.
    pub fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    /// Declares that no operation is in flight: a duplicate of the program's communicator may be reused.
    pub fn set_idle(&self) {
        self.idle.store(true, Ordering::Relaxed);
    }

    /// Whether an operation was abandoned on the communicator.
    pub fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }
}

impl Drop for RawComm {
    fn drop(&mut self) {
        let how = match !self.is_abandoned() && self.library.readiness() == Readiness::Ready {
            false => 0,
            true if self.idle.load(Ordering::Relaxed) => 2,
            true => 1,
        };
        // SAFETY: the handle is not used after this; MPI is called only where it may be.
        unsafe { (self.library.table.release)(self.handle, how) }
    }
}

/// A count as `int`; `Unsupported` if it is too large.
fn counted(count: usize) -> Result<c_int> {
    c_int::try_from(count).map_err(|_| {
        Error::new(ErrorKind::Unsupported, format!("{count} bytes in one piece; MPI counts to {}", c_int::MAX))
    })
}

/// A buffer of zeros; `NoMemory` if it cannot be allocated.
fn zeros(bytes: u64) -> Result<Vec<u8>> {
    let no_memory = || Error::new(ErrorKind::NoMemory, format!("a message of {bytes} bytes"));
    let count = usize::try_from(bytes).map_err(|_| no_memory())?;
    let mut made = Vec::new();
    made.try_reserve_exact(count).map_err(|_| no_memory())?;
    made.resize(count, 0);
    Ok(made)
}

/// The buffers that MPI reads and writes during an operation. Moving this does not move heap memory.
#[derive(Debug, Default)]
pub struct Buffers {
    pub outgoing: Vec<u8>,
    pub incoming: Vec<u8>,
    pub numbers_out: Vec<u64>,
    pub numbers_in: Vec<u64>,
    counts: Vec<c_int>,
    offsets: Vec<c_int>,
}

/// An operation in flight, with its buffers. If it is dropped before completion, the buffers are leaked, as MPI may use them.
pub struct Operation {
    library: Library,
    request: Token,
    what: &'static str,
    buffers: ManuallyDrop<Buffers>,
    done: bool,
}

impl Operation {
    fn start(
        library: Library,
        what: &'static str,
        buffers: Buffers,
        start: impl FnOnce(&mut Buffers, &mut Token) -> c_int,
    ) -> Result<Operation> {
        let mut operation = Operation { library, request: 0, what, buffers: ManuallyDrop::new(buffers), done: false };
        let code = start(&mut operation.buffers, &mut operation.request);
        library.check(code, what)?;
        Ok(operation)
    }

    /// Makes progress; returns whether the operation is complete.
    pub fn test(&mut self) -> Result<bool> {
        if !self.done {
            let mut done = 0;
            // SAFETY: the request is this operation's and was not completed yet.
            let code = unsafe { (self.library.table.test)(&mut self.request, &mut done) };
            self.library.check(code, self.what)?;
            self.done = done != 0;
        }
        Ok(self.done)
    }

    /// The buffers of a complete operation.
    ///
    /// # Panics
    /// If the operation is not complete.
    pub fn finish(mut self) -> Buffers {
        assert!(self.done, "an operation's buffers belong to MPI until it is done");
        // The drop of `self` then releases empty buffers.
        std::mem::take(&mut *self.buffers)
    }

    /// Bytes to receive.
    pub fn incoming_bytes(&self) -> u64 {
        self.buffers.incoming.len() as u64
    }

    /// Bytes to send.
    pub fn outgoing_bytes(&self) -> u64 {
        self.buffers.outgoing.len() as u64
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        if self.done {
            // SAFETY: dropped once, and MPI no longer uses the buffers.
            unsafe { ManuallyDrop::drop(&mut self.buffers) }
        }
    }
}

/// Memory shared by the ranks of a node. If it is dropped without [`RawWindow::free`], it stays until the process ends.
pub struct RawWindow {
    comm: Arc<RawComm>,
    handle: *mut c_void,
}

// SAFETY: a pointer to plain memory, described once and not changed afterwards; the shared bytes themselves are only copied by C,
// and fences order them between ranks.
unsafe impl Send for RawWindow {}
// SAFETY: as above.
unsafe impl Sync for RawWindow {}

impl RawWindow {
    /// Fails unless the memory may be accessed: `MPI_Finalize` frees it.
    pub fn ready(&self) -> Result<()> {
        self.comm.library.ready()
    }

    pub fn length(&self, rank: u32) -> u64 {
        // SAFETY: reads the description of a live window; an unknown rank owns nothing.
        unsafe { (self.comm.library.table.window_length)(self.handle, rank) }
    }

    /// # Panics
    /// Where the bytes leave the part.
    pub fn put(&self, rank: u32, range: std::ops::Range<usize>, bytes: &[u8]) {
        assert!(range.end as u64 <= self.length(rank) && range.len() == bytes.len(), "inside the part");
        let (table, offset) = (self.comm.library.table, range.start as u64);
        // SAFETY: inside the part, as just checked; the window is mapped until it is freed.
        unsafe { (table.window_put)(self.handle, rank, offset, bytes.as_ptr().cast(), bytes.len() as u64) }
    }

    /// # Panics
    /// Where the bytes leave the part.
    pub fn get(&self, rank: u32, range: std::ops::Range<usize>, out: &mut [u8]) {
        assert!(range.end as u64 <= self.length(rank) && range.len() == out.len(), "inside the part");
        let (table, offset) = (self.comm.library.table, range.start as u64);
        // SAFETY: inside the part, as just checked; the window is mapped until it is freed.
        unsafe { (table.window_get)(self.handle, rank, offset, out.as_mut_ptr().cast(), out.len() as u64) }
    }

    /// # Panics
    /// Where the bytes leave the part.
    pub fn show(&self, rank: u32, range: std::ops::Range<usize>, with: &mut dyn FnMut(&[u8])) {
        assert!(range.end as u64 <= self.length(rank), "inside the part");
        if range.is_empty() {
            return with(&[]);
        }
        // SAFETY: inside the part, as just checked; the window is mapped until it is freed, and stays while `self` is borrowed.
        // Any rank that may put there waits for a message that is sent after this: the promise of `SharedWindow::show`.
        let bytes = unsafe {
            let start = (self.comm.library.table.window_start)(self.handle, rank).cast::<u8>();
            std::slice::from_raw_parts(start.add(range.start), range.len())
        };
        with(bytes);
    }

    /// A memory fence between this rank's earlier writes and later reads.
    pub fn sync(&self) -> Result<()> {
        // SAFETY: a live window.
        let code = unsafe { (self.comm.library.table.window_sync)(self.handle) };
        self.comm.library.check(code, "synchronise a shared window")
    }

    /// Collective; blocks until all ranks call.
    pub fn free(self) -> Result<()> {
        let own = ManuallyDrop::new(self);
        // SAFETY: the communicator is taken out once, the window freed once; `own` is not dropped.
        unsafe {
            let comm = std::ptr::read(&own.comm);
            let code = (comm.library.table.window_free)(own.handle);
            comm.library.check(code, "free a shared window")
        }
    }
}

impl Drop for RawWindow {
    fn drop(&mut self) {
        // SAFETY: the description is not used after this; MPI is not called.
        unsafe { (self.comm.library.table.window_forget)(self.handle) }
    }
}
