//! A file that ranks write in output windows.
//!
//! ```
//! use std::sync::Arc;
//! use thalweg_comm::{Communicator, threads};
//! use thalweg_layout::{Direct, Layout, OpenWrite};
//! use thalweg_owners::{File, OpenFile, Options};
//! use thalweg_store::{Memory, StoreExt};
//!
//! let store = Arc::new(Memory::new());
//! let layout: Arc<dyn Layout> = Arc::new(Direct::new(store.clone()).unwrap());
//! threads::run(4, |comm| {
//!     let mut file = File::open(&OpenFile::new(&comm, &layout, "out", OpenWrite::Replace)).unwrap();
//!     let window = file.start(0, 4000, &Options::default()).unwrap();
//!     file.write(window, 1000 * u64::from(comm.rank()), &[comm.rank() as u8; 1000]).unwrap();
//!     file.end(window).unwrap();
//!     // ... the program computes, and calls `file.progress()` now and then ...
//!     assert_eq!(file.wait(window).unwrap().bytes, 4000);
//!     file.close().unwrap();
//! });
//! assert_eq!(store.read_all("out").unwrap()[3999], 3);
//! ```
//!
//! | question | answer |
//! |---|---|
//! | which calls wait for other ranks | [`File::open`] and [`File::close`], which are collective; [`File::wait`]; [`File::write`] when the memory for bytes to send is full |
//! | which calls write to the store | [`File::progress`], [`File::test`], [`File::wait`], [`File::close`]: one fraction a round; `write` when memory is full |
//! | threads | none, unless the program asks for one ([`crate::background`]): messages are sent and received inside these calls, so MPI may be initialised for one thread |
//! | memory | half of [`OpenFile::memory`] for bytes to send, half for bytes that this rank gathers as an owner. An owner grants memory before bytes are sent, and writes stripes that are not whole if it has no more |
//! | several windows | any number at once, of one file or of several; where windows that are under way overlap, the file contains the bytes of any |
//! | failures | a window ends with the same kind of error on all ranks, after its bytes are written as far as possible. Bytes of other windows are unaffected |
//! | a rank that does not end its part, or dies | after the time limit without any event, rank 0 completes the window with `Timeout` and names the rank; if rank 0 does not, the others give up after three time limits |
//!
//! Source: Miller et al., sections C3 and C6. Differs: every rank can compute the owners, so a window is ready when [`File::start`]
//! returns and no reduction is needed; files are closed; failures end a window, not the program.

use crate::domains::Domains;
use crate::ending::Sums;
use crate::gather::PIECE;
use crate::message::Message;
use crate::options::{Machine, Options};
use crate::post::Post;
use crate::window::{Callback, Commit, Completed, Ended, Now, Window, WindowId};
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;
use thalweg_comm::Communicator;
use thalweg_comm::guarded::caught;
use thalweg_comm::outcome::agreed;
use thalweg_comm::tags::OUTPUT_WINDOWS;
use thalweg_comm::tree::{self, Node};
use thalweg_layout::{Layout, OpenWrite, OtherNodes, WriteObject, WriterId};
use thalweg_types::{Error, ErrorKind, Extent, Result};

/// Least memory of a file, in bytes.
pub const LEAST_MEMORY: u64 = 64 << 10;
/// Memory of a file, in bytes, if none is given.
pub const DEFAULT_MEMORY: u64 = 256 << 20;

/// Arguments of [`File::open`].
pub struct OpenFile<'r> {
    /// The ranks that open the file together.
    pub comm: &'r dyn Communicator,
    /// The layout of the file.
    pub layout: &'r Arc<dyn Layout>,
    /// Name of the file in the layout; rank 0's is used to create it.
    pub path: &'r str,
    /// Whether the file may or must exist; rank 0's counts.
    pub how: OpenWrite,
    /// Most bytes that this process holds for the file, at least [`LEAST_MEMORY`].
    pub memory: u64,
    /// The machine, if all ranks know it and the file exists: then nothing is agreed, owners alone open the file, and less memory counts
    /// as [`LEAST_MEMORY`].
    pub machine: Option<Machine>,
}

impl<'r> OpenFile<'r> {
    /// With [`DEFAULT_MEMORY`].
    pub fn new(comm: &'r dyn Communicator, layout: &'r Arc<dyn Layout>, path: &'r str, how: OpenWrite) -> OpenFile<'r> {
        OpenFile { comm, layout, path, how, memory: DEFAULT_MEMORY, machine: None }
    }
}

/// See the module's page. Without [`File::close`] windows under way are lost; a drop returns at once.
pub struct File {
    pub(crate) post: Post<(u64, Message)>,
    pub(crate) node: Node,
    machine: Machine,
    pub(crate) layout: Arc<dyn Layout>,
    pub(crate) path: String,
    pub(crate) object: Option<Box<dyn WriteObject>>,
    /// Memory for bytes to send; as much again for bytes that are gathered.
    pub(crate) half: u64,
    pub(crate) windows: BTreeMap<u64, Window>,
    pub(crate) next: u64,
    /// Messages about windows that this rank has not started.
    pub(crate) early: BTreeMap<u64, Vec<(u32, Message)>>,
    /// The window that was written to last.
    pub(crate) turn: u64,
    /// Number from which this rank's writes are ordered.
    pub(crate) order: u64,
    /// Whether the file's name is durable.
    pub(crate) named: bool,
    /// Whether memory for gathered bytes is short.
    pub(crate) pressed: bool,
    /// Whether a message may be in flight that nobody waits for.
    pub(crate) strays: bool,
    /// Bytes written since messages were served.
    unserved: usize,
    pub(crate) now: Now,
}

impl File {
    /// Collective: opens the file.
    ///
    /// # Errors
    /// The same kind on all ranks: `Config` for too little memory; `Unsupported` if the ranks are on several nodes and the file would
    /// belong to one of them until a burst buffer is drained; errors of [`Layout::open_write`].
    /// # Cost
    /// A duplicate of the communicator; and unless the machine is known a split by node, a gather of one byte of each rank, and one
    /// reduction, and rank 0 opens the file. Owners open it with their first write.
    pub fn open(request: &OpenFile<'_>) -> Result<File> {
        let comm = request.comm.duplicate()?;
        let (machine, object) = match &request.machine {
            Some(machine) => (machine.clone(), None),
            None => request.agree(&*comm)?,
        };
        let node = tree::node(comm.rank(), comm.size(), tree::FAN_IN);
        let file = File {
            post: Post::new(comm, OUTPUT_WINDOWS),
            node,
            machine,
            layout: request.layout.clone(),
            path: request.path.to_string(),
            object,
            half: request.memory.max(LEAST_MEMORY) / 2,
            windows: BTreeMap::new(),
            next: 0,
            early: BTreeMap::new(),
            turn: 0,
            order: 0,
            named: false,
            pressed: false,
            strays: false,
            unserved: 0,
            now: Now::default(),
        };
        file.now.look(&*file.post.comm);
        Ok(file)
    }

    /// This rank.
    pub fn rank(&self) -> u32 {
        self.node.ranks.start
    }

    /// Starts a window of `length` bytes from byte `offset` of the file; it may be written at once. Every rank starts the same windows
    /// in the same order, but does not wait for the others. Rank 0 writes `commit` when all bytes are written.
    ///
    /// # Errors
    /// `OutOfBounds` or `Config` for arguments that make no sense: the number of the window is used up, and if other ranks started it
    /// with other arguments it ends with an error there. The failure of the file, if a rank was lost.
    pub fn start_with_commit(
        &mut self,
        offset: u64,
        length: u64,
        options: &Options,
        commit: Option<Commit>,
    ) -> Result<WindowId> {
        let number = self.next;
        self.next += 1;
        let early = self.early.remove(&number);
        self.now.look(&*self.post.comm);
        self.post.works()?;
        let domains = Domains::new(Extent::new(offset, length), options, &self.machine).map_err(|e| self.about(e))?;
        let limit = options.time_limit.unwrap_or_else(|| self.post.comm.timeout());
        let mut window = Window::new(domains, &self.node, options, limit, &self.now);
        if let Some(root) = &mut window.root {
            root.commit = commit;
        }
        self.windows.insert(number, window);
        for (from, message) in early.into_iter().flatten() {
            self.handle(from, number, message);
        }
        Ok(WindowId(number))
    }

    /// Uses up the number of a window that this rank could not describe: others start it, and it ends with an error there.
    pub fn skip(&mut self) {
        self.early.remove(&self.next);
        self.next += 1;
    }

    /// [`File::start_with_commit`] without bytes to commit.
    ///
    /// # Errors
    /// As [`File::start_with_commit`].
    pub fn start(&mut self, offset: u64, length: u64, options: &Options) -> Result<WindowId> {
        self.start_with_commit(offset, length, options, None)
    }

    /// Calls `callback` with the result of the window, once, inside a later call of this rank on the file. The result is then not
    /// returned by [`File::test`] and [`File::wait`].
    ///
    /// # Errors
    /// `InvalidArgument` for a window whose result was returned.
    pub fn on_complete(&mut self, window: WindowId, callback: Callback) -> Result<()> {
        self.window(window)?.callback = Some(callback);
        Ok(())
    }

    /// Copies bytes into the window at `offset` of the file; they may be changed when the call returns. Returns at once while there is
    /// memory; else serves messages and writes stripes until there is.
    ///
    /// # Errors
    /// `OutOfBounds` if bytes lie outside the window; nothing is taken then. `InvalidArgument` after [`File::end`], or for a window that
    /// is complete. The window's error, if it has failed; that happens at the latest three time limits after the last event.
    pub fn write(&mut self, window: WindowId, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut done = self.try_write(window, offset, bytes)?;
        let mut nap = Nap::default();
        while done < bytes.len() {
            nap.after(self.serve(true));
            done += self.take(window, offset + done as u64, &bytes[done..])?;
        }
        Ok(())
    }

    /// As [`File::write`], but never waits: returns the number of bytes that were taken, which are the first ones. Call again with the
    /// rest, after [`File::progress`].
    ///
    /// # Errors
    /// As [`File::write`].
    pub fn try_write(&mut self, window: WindowId, offset: u64, bytes: &[u8]) -> Result<usize> {
        /// Bytes after which messages are served: many short writes are sent together.
        const SERVED: usize = 64 << 10;
        let done = self.take(window, offset, bytes)?;
        self.unserved += done + PIECE as usize;
        if done < bytes.len() || self.unserved >= SERVED {
            self.unserved = 0;
            self.serve(false);
        }
        Ok(done)
    }

    /// Copies as many bytes as memory allows.
    fn take(&mut self, id: WindowId, offset: u64, bytes: &[u8]) -> Result<usize> {
        self.now.look(&*self.post.comm);
        let room = self.half.saturating_sub(self.outgoing());
        let domains = self.open_window(id)?.domains.clone();
        let pieces = domains.cut(Extent::new(offset, bytes.len() as u64)).map_err(|e| self.about(e))?;
        let window = self.window(id)?;
        let (mut done, mut room) = (0, room);
        for piece in pieces {
            let Extent { offset: at, length } = piece.extent;
            let joins = at > domains.fraction_of(at).extent.offset;
            let outbox = window.outboxes.entry(piece.owner).or_default();
            let before = outbox.memory();
            let count = outbox.push(at, &bytes[done..done + length as usize], joins, room);
            room -= outbox.memory() - before;
            window.queued += outbox.memory() - before;
            *window.sums.bytes.entry(piece.owner as u32).or_default() += count as u64;
            done += count;
            if (count as u64) < length {
                break;
            }
        }
        if done > 0 {
            window.clock.event();
        }
        Ok(done)
    }

    /// Which rank owns which bytes of a window.
    ///
    /// # Errors
    /// `InvalidArgument` for a window whose result was returned.
    pub fn domains(&mut self, window: WindowId) -> Result<Arc<Domains>> {
        Ok(self.window(window)?.domains.clone())
    }

    /// Writes bytes of a whole write stripe that this rank owns to the store, without a copy; then serves messages. The other bytes of the
    /// stripe are to come by this call, too. A failure of the store is one of the window.
    ///
    /// # Errors
    /// As [`File::write`]; `InvalidArgument` for bytes that another rank owns.
    pub fn write_own(&mut self, id: WindowId, offset: u64, bytes: &[IoSlice<'_>]) -> Result<()> {
        let length = bytes.iter().map(|bytes| bytes.len() as u64).sum();
        let (rank, path) = (self.rank(), self.path.clone());
        let window = self.open_window(id)?;
        let owned = window.owned.as_mut().ok_or_else(|| wrong("this rank owns no bytes of the window"))?;
        owned.gather.pass(Extent::new(offset, length)).map_err(|e| e.at_rank(rank).in_object(path.clone()))?;
        let number = window.domains.number_of(rank).unwrap_or(0) as u32;
        *window.sums.bytes.entry(number).or_default() += length;
        if owned.failed.is_none() {
            owned.wrote = true;
            let written = caught("write a stripe", || self.object()?.write_at(offset, bytes));
            if let (Err(e), Some(owned)) = (written, self.windows.get_mut(&id.0).and_then(|w| w.owned.as_mut())) {
                owned.fail(e.at_rank(rank).in_object(path).at_byte(offset));
            }
        }
        self.now.look(&*self.post.comm);
        self.window(id)?.clock.event();
        self.serve(false);
        Ok(())
    }

    /// A window that this rank may write into.
    fn open_window(&mut self, id: WindowId) -> Result<&mut Window> {
        let window = self.window(id)?;
        match &window.outcome {
            Some(Err(e)) => Err(e.again()),
            Some(Ok(_)) => Err(wrong("the window is complete")),
            None if window.ended => Err(wrong("this rank has ended its part of the window")),
            None => Ok(window),
        }
    }

    /// Ends this rank's part of the window: it writes nothing more into it. Returns at once.
    ///
    /// # Errors
    /// `InvalidArgument` if it has ended before.
    pub fn end(&mut self, id: WindowId) -> Result<()> {
        let rank = self.rank();
        self.now.look(&*self.post.comm);
        let window = self.window(id)?;
        if window.ended {
            return Err(wrong("this rank has ended its part of the window before"));
        }
        window.ended = true;
        let sums: Sums = window.sums.clone();
        window.ending.ended(rank, sums);
        window.clock.event();
        self.serve(false);
        Ok(())
    }

    /// Serves messages, and writes at most one fraction to the store. Call it now and then between computations. Returns whether
    /// anything happened.
    pub fn progress(&mut self) -> bool {
        self.serve(true)
    }

    /// As [`File::progress`]; returns the result of the window once it is complete, and then forgets the window.
    ///
    /// # Errors
    /// The same kind on all ranks: `InvalidArgument` for missing or repeated bytes, with the first one, and for windows that differ
    /// between ranks; errors of the store; `Timeout` for a rank that did not end its part, or was lost without notice; `PeerLost`.
    pub fn test(&mut self, window: WindowId) -> Result<Option<Completed>> {
        self.window(window)?;
        self.serve(true);
        if self.window(window)?.outcome.is_none() {
            return Ok(None);
        }
        self.windows.remove(&window.0).and_then(|window| window.outcome).transpose()
    }

    /// Waits until the window is complete; returns its result, and forgets the window. The part of this rank must have ended.
    ///
    /// # Errors
    /// As [`File::test`]; within three time limits after the last event.
    pub fn wait(&mut self, window: WindowId) -> Result<Completed> {
        self.wait_for_end(window)?.outcome
    }

    /// As [`File::wait`], but tells also which bytes of a window that failed are written.
    ///
    /// # Errors
    /// `InvalidArgument` as [`File::wait`]: the window goes on. Its own failure is in the result.
    pub fn wait_for_end(&mut self, window: WindowId) -> Result<Ended> {
        self.check_ended(window)?;
        let mut nap = Nap::default();
        while self.window(window)?.outcome.is_none() {
            nap.after(self.serve(true));
        }
        let ended = self.windows.remove(&window.0).and_then(|mut window| Some((window.outcome.take()?, window)));
        let (outcome, window) = ended.ok_or_else(|| wrong("the window has not ended"))?;
        Ok(Ended::new(window, outcome))
    }

    /// Checks that this rank may wait for the end of a window.
    fn check_ended(&mut self, window: WindowId) -> Result<()> {
        let window = self.window(window)?;
        if !window.ended {
            return Err(wrong("this rank has not ended its part of the window"));
        }
        if window.callback.is_some() {
            return Err(wrong("the result of the window is returned to its callback"));
        }
        Ok(())
    }

    /// Whether windows are under way on this rank.
    pub fn is_busy(&self) -> bool {
        self.windows.values().any(|window| window.outcome.is_none())
    }

    /// Collective: completes all windows and closes the file.
    ///
    /// # Errors
    /// The same kind on all ranks: the first failure of a window whose result was not returned; `InvalidArgument` if a rank has not ended
    /// its part of a window; errors of [`WriteObject::close`].
    pub fn close(mut self) -> Result<()> {
        let mut own = Ok(());
        let open: Vec<u64> = self
            .windows
            .iter()
            .filter(|(_, window)| !window.ended && window.outcome.is_none())
            .map(|(id, _)| *id)
            .collect();
        for id in open {
            own = own.and(Err(self.about(wrong("the file is closed before this rank has ended its part of a window"))));
            // An earlier turn may have completed the window, and returned its result to a callback. Every rank must go on to the end.
            let _ = self.end(WindowId(id));
        }
        let mut nap = Nap::default();
        let started = self.post.comm.clock();
        let waited = |comm: &dyn Communicator| comm.clock().saturating_sub(started) >= comm.timeout();
        while self.is_busy() || (self.post.is_sending() && self.post.broken.is_none() && !waited(&*self.post.comm)) {
            nap.after(self.serve(true));
        }
        let mut failed = self.strays || self.post.broken.is_some();
        for window in std::mem::take(&mut self.windows).into_values() {
            if let Some(Err(e)) = window.outcome {
                own = own.and(Err(e));
            }
        }
        failed |= own.is_err();
        if let Some(object) = self.object.take() {
            let path = &self.path;
            own = own.and(object.close().map_err(|e| e.in_object(path.clone())));
        }
        self.post.end_receives();
        let done = agreed(&*self.post.comm, own, "close the file", &[u64::from(failed)])?;
        if done[0] == 0 {
            self.post.comm.set_idle();
        }
        Ok(())
    }

    pub(crate) fn window(&mut self, id: WindowId) -> Result<&mut Window> {
        let started = id.0 < self.next;
        self.windows.get_mut(&id.0).ok_or_else(|| {
            wrong(if started { "the result of the window was returned before" } else { "no such window was started" })
        })
    }

    /// Memory of bytes to send, those of messages in flight included.
    pub(crate) fn outgoing(&self) -> u64 {
        let waiting: u64 = self.windows.values().map(|window| window.queued).sum();
        waiting + self.post.memory()
    }

    /// Memory of bytes that are gathered, and of those that may come.
    pub(crate) fn gathered(&self) -> u64 {
        self.windows.values().filter_map(|window| window.owned.as_ref()).map(|owned| owned.memory()).sum()
    }

    /// Most memory that is granted at once.
    pub(crate) fn portion(&self) -> u64 {
        const MESSAGE: u64 = 4 << 20;
        (self.half / 4).clamp(2 * PIECE, MESSAGE)
    }

    /// Memory that this process holds for the file now, in bytes; at most [`OpenFile::memory`].
    pub fn memory(&self) -> u64 {
        self.outgoing() + self.gathered()
    }

    /// Adds rank and file to an error.
    pub(crate) fn about(&self, error: Error) -> Error {
        error.at_rank(self.rank()).in_object(self.path.clone())
    }
}

impl OpenFile<'_> {
    /// Collective: asks what the machine is like, and opens the file on rank 0.
    fn agree(&self, comm: &dyn Communicator) -> Result<(Machine, Option<Box<dyn WriteObject>>)> {
        let rank = comm.rank();
        let leaders = crate::options::leaders(comm)?;
        let (mut object, mut targets) = (None, 0);
        let mut own = Ok(());
        if self.memory < LEAST_MEMORY {
            let what = format!("{} bytes of memory for output windows; {LEAST_MEMORY} are needed", self.memory);
            own = Err(Error::new(ErrorKind::Config, what));
        } else if rank == 0 {
            let nodes = leaders.len();
            own = self.open_first(nodes).map(|(opened, known)| {
                object = Some(opened);
                targets = known.map_or(0, |known| u64::from(known) + 1);
            });
        }
        let numbers = agreed(comm, own, "open the file for output windows", &[targets])?;
        let targets = numbers[0].checked_sub(1).map(|targets| targets as u32);
        Ok((Machine { ranks: comm.size(), leaders, targets }, object))
    }

    /// On rank 0: opens the file; also the number of storage targets, if known.
    fn open_first(&self, nodes: usize) -> Result<(Box<dyn WriteObject>, Option<u32>)> {
        if nodes > 1 && self.layout.other_nodes(self.path) == OtherNodes::Nothing {
            let what = "the file belongs to one node until its burst buffer is drained, and the ranks are on several";
            return Err(Error::new(ErrorKind::Unsupported, what).in_object(self.path));
        }
        let object = self.layout.open_write(self.path, self.how, WriterId(0))?;
        Ok((object, self.layout.targets(folder_of(self.path))?))
    }
}

/// The folder of a path.
pub(crate) fn folder_of(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) => "/",
        Some((folder, _)) => folder,
        None => "",
    }
}

pub(crate) fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, what)
}

/// Pauses of a rank that waits: none after an event, then yields, then sleeps of up to half a millisecond, after a tenth of a second of up to
/// five: a thread in the background takes nothing from a program that computes.
#[derive(Default)]
pub(crate) struct Nap {
    quiet: u32,
}

impl Nap {
    pub fn after(&mut self, moved: bool) {
        const YIELDS: u32 = 50;
        const SHORT: u32 = 250;
        self.quiet = if moved { 0 } else { self.quiet.saturating_add(1) };
        match self.quiet {
            0 => {}
            1..=YIELDS => std::thread::yield_now(),
            quiet @ ..=SHORT => std::thread::sleep(Duration::from_micros(u64::from(quiet - YIELDS).min(50) * 10)),
            _ => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}
