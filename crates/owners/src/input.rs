//! A file that ranks read in *input windows*: owners read ahead while all compute, and hand bytes to the ranks that ask for them.
//!
//! ```
//! use std::sync::Arc;
//! use thalweg_comm::{Communicator, threads};
//! use thalweg_layout::{Direct, Layout};
//! use thalweg_owners::{Input, OpenInput, Options};
//! use thalweg_store::{Memory, StoreExt};
//!
//! let store = Arc::new(Memory::new());
//! store.write_all("in", &[7; 4000]).unwrap();
//! let layout: Arc<dyn Layout> = Arc::new(Direct::new(store).unwrap());
//! threads::run(4, |comm| {
//!     let mut file = Input::open(&OpenInput::new(&comm, &layout, "in")).unwrap();
//!     let window = file.start(0, 4000, &Options::default()).unwrap();
//!     let read = file.read(window, 1000 * u64::from(comm.rank()), 1000).unwrap();
//!     // ... the program computes, and calls `file.progress()` now and then ...
//!     assert_eq!(file.wait(read).unwrap(), [7; 1000]);
//!     file.end(window).unwrap();
//!     file.close().unwrap();
//! });
//! ```
//!
//! | question | answer |
//! |---|---|
//! | which calls wait for other ranks | [`Input::open`] and [`Input::close`], which are collective, [`Input::wait`] and [`Input::finish`] |
//! | which calls read from the store | [`Input::progress`], [`Input::test`], [`Input::wait`], [`Input::close`]: one unit a round, what ranks wait for first, then what comes next |
//! | threads | none, as of output windows ([`mod@crate::file`]) |
//! | memory | [`OpenInput::memory`]: half for bytes that are read ahead, half for answers on their way. Not counted: the bytes of each read until they are taken, and 16 bytes for each fraction that it asks for |
//! | bytes that are asked for again | are read again, if they are no longer held: where room is needed, what was handed over goes first |
//! | several windows | any number at once, of one file or of several; they may overlap |
//! | collective calls of the program's own | after [`Input::finish`]: before, another rank may wait for bytes of this one |
//! | failures | of the store: of the reads that they concern, with owner and byte. Further reads try again |
//! | an owner that makes no calls, or dies | reads fail with `Timeout` after the time limit without any event, and name it; `PeerLost` where the communicator notices |
//!
//! Source: the reading sessions of CkIO in Charm++; Miller et al. describe writing only. Differs: a window is ready when [`Input::start`]
//! returns.

use crate::ahead::Ahead;
use crate::domains::Domains;
use crate::ending::{Ending, Sums};
use crate::file::{DEFAULT_MEMORY, LEAST_MEMORY, Nap, wrong};
use crate::options::{Machine, Options};
use crate::post::Post;
use crate::request::Request;
use crate::window::Now;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use thalweg_comm::Communicator;
use thalweg_comm::guarded::caught;
use thalweg_comm::outcome::{ErrorReport, agreed};
use thalweg_comm::tags::INPUT_WINDOWS;
use thalweg_comm::tree::{self, Node};
use thalweg_layout::{Layout, OtherNodes, ReadObject};
use thalweg_types::{Error, ErrorKind, Extent, Result};

/// Rounds of receives in one call.
const ROUNDS: usize = 32;
/// Owners that one error names.
const NAMED: usize = 16;
/// Extents that one message asks for.
const ASKED: usize = 4096;

/// Arguments of [`Input::open`].
pub struct OpenInput<'r> {
    /// The ranks that open the file together.
    pub comm: &'r dyn Communicator,
    /// The layout of the file.
    pub layout: &'r Arc<dyn Layout>,
    /// Name of the file in the layout.
    pub path: &'r str,
    /// Most bytes that this process holds for the file as an owner, at least [`LEAST_MEMORY`].
    pub memory: u64,
}

impl<'r> OpenInput<'r> {
    /// With [`DEFAULT_MEMORY`].
    pub fn new(comm: &'r dyn Communicator, layout: &'r Arc<dyn Layout>, path: &'r str) -> OpenInput<'r> {
        OpenInput { comm, layout, path, memory: DEFAULT_MEMORY }
    }
}

/// An input window of an open file; the same number on all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InputWindow(pub u64);

/// A read of this rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReadId(pub u64);

/// Called with the bytes of a read, inside a call of the program.
pub type OnRead = Box<dyn FnOnce(Result<Vec<u8>>) + Send>;

struct Window {
    domains: Arc<Domains>,
    limit: Duration,
    ended: bool,
    ending: Ending,
    told_parent: bool,
    /// Reads of this rank that are under way.
    reads: usize,
    owned: Option<Ahead>,
    /// When ranks that wait were last told that something happens.
    told: Duration,
}

struct Read {
    window: u64,
    offset: u64,
    bytes: Vec<u8>,
    left: u64,
    /// Bytes that have not come, by rank of their owner.
    of: BTreeMap<u32, u64>,
    last: Duration,
    outcome: Option<Result<()>>,
    callback: Option<OnRead>,
}

/// See the module's page.
pub struct Input {
    post: Post<(u64, Request)>,
    node: Node,
    machine: Machine,
    layout: Arc<dyn Layout>,
    path: String,
    object: Option<Box<dyn ReadObject>>,
    length: u64,
    half: u64,
    windows: BTreeMap<u64, Window>,
    next: u64,
    early: BTreeMap<u64, Vec<(u32, Request)>>,
    reads: BTreeMap<u64, Read>,
    next_read: u64,
    turn: u64,
    /// Whether a message may be in flight that nobody waits for.
    strays: bool,
    now: Now,
}

impl Input {
    /// Collective: opens the file.
    ///
    /// # Errors
    /// The same kind on all ranks: `Config` for too little memory; `Unsupported` if the ranks are on several nodes and the file belongs to
    /// one of them until a burst buffer is drained; errors of [`Layout::open_read`].
    /// # Cost
    /// A duplicate of the communicator, a split by node, a gather of one byte of each rank, and one reduction; rank 0 opens the file. Owners
    /// open it with their first read.
    pub fn open(request: &OpenInput<'_>) -> Result<Input> {
        let comm = request.comm.duplicate()?;
        let rank = comm.rank();
        let leaders = crate::options::leaders(&*comm)?;
        let (mut object, mut facts) = (None, [0, 0]);
        let mut own = Ok(());
        if request.memory < LEAST_MEMORY {
            let what = format!("{} bytes of memory for input windows; {LEAST_MEMORY} are needed", request.memory);
            own = Err(Error::new(ErrorKind::Config, what));
        } else if rank == 0 {
            own = request.open_first(leaders.len()).map(|(opened, length, targets)| {
                object = Some(opened);
                facts = [length, targets.map_or(0, |known| u64::from(known) + 1)];
            });
        }
        let numbers = agreed(&*comm, own, "open the file for input windows", &facts)?;
        let targets = numbers[1].checked_sub(1).map(|targets| targets as u32);
        let machine = Machine { ranks: comm.size(), leaders, targets };
        let node = tree::node(rank, comm.size(), tree::FAN_IN);
        let file = Input {
            post: Post::new(comm, INPUT_WINDOWS),
            node,
            machine,
            layout: request.layout.clone(),
            path: request.path.to_string(),
            object,
            length: numbers[0],
            half: request.memory / 2,
            windows: BTreeMap::new(),
            next: 0,
            early: BTreeMap::new(),
            reads: BTreeMap::new(),
            next_read: 0,
            turn: 0,
            strays: false,
            now: Now::default(),
        };
        file.now.look(&*file.post.comm);
        Ok(file)
    }

    /// This rank.
    pub fn rank(&self) -> u32 {
        self.node.ranks.start
    }

    /// Length of the file when it was opened, in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Starts a window of `length` bytes from byte `offset` of the file; it may be read at once. Every rank starts the same windows in the
    /// same order, but does not wait for the others. Of the options those about writing have no meaning.
    ///
    /// # Errors
    /// `OutOfBounds` or `Config` for arguments that make no sense: the number of the window is used up. The failure of the file, if a rank
    /// was lost.
    pub fn start(&mut self, offset: u64, length: u64, options: &Options) -> Result<InputWindow> {
        let number = self.next;
        self.next += 1;
        self.now.look(&*self.post.comm);
        let window = self.prepared(Extent::new(offset, length), options);
        let started = window.map(|window| {
            self.windows.insert(number, window);
            InputWindow(number)
        });
        // Also where the window is none: who asks is told.
        for (from, request) in self.early.remove(&number).into_iter().flatten() {
            self.handle(from, number, request);
        }
        started
    }

    /// Uses up the number of a window that this rank could not describe: others start it.
    pub fn skip(&mut self) {
        let number = self.next;
        self.next += 1;
        for (from, request) in self.early.remove(&number).into_iter().flatten() {
            self.handle(from, number, request);
        }
    }

    fn prepared(&self, window: Extent, options: &Options) -> Result<Window> {
        self.post.works()?;
        let Extent { offset, length } = window;
        if window.end().is_none_or(|end| end > self.length) {
            let what = format!("a window of {length} bytes leaves the file, which has {}", self.length);
            return Err(self.about(Error::new(ErrorKind::OutOfBounds, what).at_byte(offset)));
        }
        let domains = Arc::new(Domains::new(window, options, &self.machine).map_err(|e| self.about(e))?);
        let (unit, rank) = (domains.fraction().min(self.half / 4), self.rank());
        let owned = domains.number_of(rank).map(|number| Ahead::new(domains.clone(), number, unit));
        let limit = options.time_limit.unwrap_or_else(|| self.post.comm.timeout());
        Ok(Window {
            domains,
            limit,
            ended: false,
            ending: Ending::new(&self.node),
            told_parent: false,
            reads: 0,
            owned,
            told: self.now.get(),
        })
    }

    /// Asks for `length` bytes from byte `offset` of the file. Returns at once.
    ///
    /// # Errors
    /// `OutOfBounds` if bytes lie outside the window; `InvalidArgument` after [`Input::end`]; `NoMemory`. Everything else comes with the
    /// read's result.
    pub fn read(&mut self, window: InputWindow, offset: u64, length: u64) -> Result<ReadId> {
        self.now.look(&*self.post.comm);
        self.post.works().map_err(|e| self.about(e))?;
        let of_window = self.window(window)?;
        if of_window.ended {
            return Err(wrong("this rank has ended its part of the window"));
        }
        let domains = of_window.domains.clone();
        let pieces = domains.cut(Extent::new(offset, length)).map_err(|e| self.about(e))?;
        let no_memory = || Error::new(ErrorKind::NoMemory, format!("no memory for {length} bytes of an input window"));
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(usize::try_from(length).map_err(|_| no_memory())?).map_err(|_| no_memory())?;
        bytes.resize(length as usize, 0);
        let mut asked: BTreeMap<u32, Vec<Extent>> = BTreeMap::new();
        for piece in pieces {
            asked.entry(domains.owners()[piece.owner]).or_default().push(piece.extent);
        }
        let of = asked.iter().map(|(owner, all)| (*owner, all.iter().map(|extent| extent.length).sum())).collect();
        let (number, fingerprint) = (self.next_read, domains.fingerprint());
        self.next_read += 1;
        let (last, outcome) = (self.now.get(), (length == 0).then_some(Ok(())));
        if outcome.is_none() {
            self.window(window)?.reads += 1;
        }
        let read = Read { window: window.0, offset, bytes, left: length, of, last, outcome, callback: None };
        self.reads.insert(number, read);
        for (owner, extents) in asked {
            for some in extents.chunks(ASKED) {
                self.post
                    .send_short(owner, (window.0, Request::Ask { read: number, fingerprint, extents: some.to_vec() }));
            }
        }
        self.serve(false);
        Ok(ReadId(number))
    }

    /// How many bytes a read asks for.
    ///
    /// # Errors
    /// `InvalidArgument` for a read whose bytes were returned.
    pub fn length_of(&mut self, read: ReadId) -> Result<u64> {
        Ok(self.of_read(read)?.bytes.len() as u64)
    }

    /// Calls `callback` with the bytes of a read, once, inside a later call of this rank on the file. They are then not returned by
    /// [`Input::test`] and [`Input::wait`].
    ///
    /// # Errors
    /// `InvalidArgument` for a read whose bytes were returned.
    pub fn on_read(&mut self, read: ReadId, callback: OnRead) -> Result<()> {
        self.of_read(read)?.callback = Some(callback);
        Ok(())
    }

    /// Serves messages, and reads at most one unit from the store. Call it now and then between computations. Returns whether anything
    /// happened.
    pub fn progress(&mut self) -> bool {
        self.serve(true)
    }

    /// As [`Input::progress`]; returns the bytes of a read once they are there, and then forgets the read.
    ///
    /// # Errors
    /// Those of the store, with rank and byte; `InvalidArgument` for windows that differ between ranks; `Timeout` for an owner that makes
    /// no calls; `PeerLost`.
    pub fn test(&mut self, read: ReadId) -> Result<Option<Vec<u8>>> {
        self.of_read(read)?;
        self.serve(true);
        if self.of_read(read)?.outcome.is_none() {
            return Ok(None);
        }
        self.taken(read).map(Some)
    }

    /// Waits for the bytes of a read, and forgets it.
    ///
    /// # Errors
    /// As [`Input::test`].
    pub fn wait(&mut self, read: ReadId) -> Result<Vec<u8>> {
        if self.of_read(read)?.callback.is_some() {
            return Err(wrong("the bytes of the read are returned to its callback"));
        }
        let mut nap = Nap::default();
        while self.of_read(read)?.outcome.is_none() {
            nap.after(self.serve(true));
        }
        self.taken(read)
    }

    fn taken(&mut self, read: ReadId) -> Result<Vec<u8>> {
        let read = self.reads.remove(&read.0).ok_or_else(|| wrong("no such read"))?;
        let Read { outcome, bytes, .. } = read;
        outcome.unwrap_or_else(|| Err(wrong("the read is under way"))).map(|()| bytes)
    }

    /// Ends this rank's part of the window: it reads nothing more from it. Returns at once; reads that are under way go on.
    ///
    /// # Errors
    /// `InvalidArgument` if it has ended before.
    pub fn end(&mut self, window: InputWindow) -> Result<()> {
        let of_window = self.window(window)?;
        if of_window.ended {
            return Err(wrong("this rank has ended its part of the window before"));
        }
        of_window.ended = true;
        self.serve(false);
        Ok(())
    }

    /// Ends this rank's part of the window, and serves other ranks until all have ended theirs: then no rank waits for bytes of this window
    /// from this rank, and the program may make collective calls of its own, if all windows that are read have been finished.
    ///
    /// # Errors
    /// `InvalidArgument` for a window that was not started; `Timeout` if no message came for the time limit; `PeerLost`.
    pub fn finish(&mut self, window: InputWindow) -> Result<()> {
        let limit = match self.windows.get_mut(&window.0) {
            Some(of_window) => {
                of_window.ended = true;
                of_window.limit
            }
            // All ranks have ended it meanwhile.
            None if window.0 < self.next => self.post.comm.timeout(),
            None => return Err(wrong("no such window was started")),
        };
        let mut nap = Nap::default();
        let mut last = self.post.comm.clock();
        // Those below this rank are to hear of it, also where messages move inside calls alone.
        while self.windows.contains_key(&window.0) || self.post.is_sending_short() {
            self.post.works().map_err(|e| self.about(e))?;
            let moved = self.serve(true);
            let now = self.post.comm.clock();
            if moved {
                last = now;
            } else if now.saturating_sub(last) > limit {
                self.strays = true;
                let what = "other ranks have not ended their part of an input window within the time limit";
                return Err(self.about(Error::new(ErrorKind::Timeout, what)));
            }
            nap.after(moved);
        }
        Ok(())
    }

    /// Collective: ends all windows and closes the file.
    ///
    /// # Errors
    /// The same kind on all ranks: `InvalidArgument` if a rank has not ended its part of a window; `Timeout` if others have not, and no
    /// message came for the time limit; the failure of the file, if a rank was lost.
    pub fn close(mut self) -> Result<()> {
        let mut own = Ok(());
        for id in self.windows.iter().filter(|(_, window)| !window.ended).map(|(id, _)| *id).collect::<Vec<u64>>() {
            own = own.and(Err(self.about(wrong("the file is closed before this rank has ended its part of a window"))));
            if let Some(window) = self.windows.get_mut(&id) {
                window.ended = true;
            }
        }
        let (mut nap, mut last) = (Nap::default(), self.post.comm.clock());
        let limit =
            self.windows.values().map(|window| window.limit).max().unwrap_or_default().max(self.post.comm.timeout());
        // An answer to a rank that has left arrives nowhere, and is not waited for.
        while (!self.windows.is_empty() || self.post.is_sending_short()) && self.post.broken.is_none() {
            if self.post.comm.clock().saturating_sub(last) >= limit {
                own = own
                    .and(Err(self
                        .about(Error::new(ErrorKind::Timeout, "ranks have not ended their part of an input window"))));
                break;
            }
            let moved = self.serve(true);
            if moved {
                last = self.post.comm.clock();
            }
            nap.after(moved);
        }
        self.strays |= self.post.is_sending();
        // A window that could not be ended is no mistake of the program then.
        let own = self.post.works().map_err(|e| self.about(e)).and(own);
        let failed = self.strays || self.post.broken.is_some() || own.is_err() || !self.windows.is_empty();
        self.post.end_receives();
        let done = agreed(&*self.post.comm, own, "close the file", &[u64::from(failed)])?;
        if done[0] == 0 {
            self.post.comm.set_idle();
        }
        Ok(())
    }

    /// Memory that this process holds as an owner now, in bytes; at most [`OpenInput::memory`].
    pub fn memory(&self) -> u64 {
        self.held() + self.post.memory()
    }

    fn held(&self) -> u64 {
        self.windows.values().filter_map(|window| window.owned.as_ref()).map(Ahead::memory).sum()
    }

    fn window(&mut self, id: InputWindow) -> Result<&mut Window> {
        let started = id.0 < self.next;
        self.windows
            .get_mut(&id.0)
            .ok_or_else(|| wrong(if started { "the window has ended" } else { "no such window was started" }))
    }

    fn of_read(&mut self, id: ReadId) -> Result<&mut Read> {
        let begun = id.0 < self.next_read;
        self.reads.get_mut(&id.0).ok_or_else(|| {
            wrong(if begun { "the bytes of the read were returned before" } else { "no such read was begun" })
        })
    }

    fn about(&self, error: Error) -> Error {
        error.at_rank(self.rank()).in_object(self.path.clone())
    }
}

/// What happens inside a call.
impl Input {
    fn serve(&mut self, disk: bool) -> bool {
        self.stand_still();
        let mut moved = false;
        for _ in 0..ROUNDS {
            let letters = self.post.receive();
            if letters.is_empty() {
                break;
            }
            moved = true;
            for (from, (id, request)) in letters {
                self.handle(from, id, request);
            }
            self.answer();
        }
        moved |= self.post.end_sends();
        moved |= self.answer();
        if disk && self.post.broken.is_none() {
            moved |= self.read_one();
            moved |= self.answer();
        }
        for id in self.windows.keys().copied().collect::<Vec<u64>>() {
            self.tell_waiting(id);
            moved |= self.advance(id);
        }
        moved |= self.post.has_own();
        self.watch_time();
        self.break_off();
        self.call_back();
        moved
    }

    /// Looks at the clock. The time that the program was elsewhere does not count: nothing could come.
    fn stand_still(&mut self) {
        let before = self.now.get();
        self.now.look(&*self.post.comm);
        let now = self.now.get();
        for read in self.reads.values_mut().filter(|read| read.outcome.is_none()) {
            let limit = self.windows.get(&read.window).map_or(Duration::ZERO, |window| window.limit);
            if now.saturating_sub(before) > limit / 4 {
                read.last = now;
            }
        }
    }

    fn handle(&mut self, from: u32, id: u64, request: Request) {
        if id >= self.next {
            self.early.entry(id).or_default().push((from, request));
            return;
        }
        match request {
            Request::Ask { read, fingerprint, extents } => {
                let failed = match self.windows.get_mut(&id) {
                    // Its start failed on this rank.
                    None => Err(wrong("the owner has no such window")),
                    Some(window) if window.domains.fingerprint() != fingerprint => {
                        Err(wrong("ranks started different windows"))
                    }
                    Some(Window { owned: Some(owned), .. }) => {
                        extents.into_iter().try_for_each(|extent| owned.demand(from, read, extent))
                    }
                    Some(_) => Err(wrong("the rank owns no bytes of the window")),
                };
                if let Err(e) = failed {
                    self.refuse(from, id, read, e);
                }
            }
            Request::Answer { read, offset, bytes } => self.put((id, read), from, offset, &bytes),
            Request::Failed { read, report } => {
                let rank = self.rank();
                let error = match ErrorReport::decode(&report) {
                    Some(report) => report.error(from, rank),
                    None => Error::new(ErrorKind::Corrupt, "the failure of a read cannot be read"),
                };
                if self.waits(id, read, from).is_some() {
                    self.settle(read, Err(self.about(error)));
                }
            }
            Request::Alive => {
                let now = self.now.get();
                let reads = self.reads.values_mut().filter(|read| read.window == id && read.of.contains_key(&from));
                reads.for_each(|read| read.last = now);
            }
            Request::Ended => {
                if let Some(window) = self.windows.get_mut(&id) {
                    window.ending.ended(from, Sums::default());
                }
            }
            Request::Over => {
                let told = self.windows.get(&id).is_some_and(|window| window.told_parent);
                match told && self.node.parent == Some(from) {
                    true => self.over(id),
                    false => self.post.lose(Error::new(
                        ErrorKind::Corrupt,
                        format!("rank {from} says that input window {id} is over, which it is not"),
                    )),
                }
            }
        }
    }

    fn refuse(&mut self, rank: u32, window: u64, read: u64, error: Error) {
        let report = ErrorReport::of(&self.about(error)).encode();
        self.post.send_short(rank, (window, Request::Failed { read, report }));
    }

    /// The read of a window, if it is under way and this owner has bytes of it to send: others are answered no more.
    fn waits(&mut self, window: u64, number: u64, owner: u32) -> Option<&mut Read> {
        let read = self.reads.get_mut(&number)?;
        (read.outcome.is_none() && read.window == window && read.of.contains_key(&owner)).then_some(read)
    }

    /// Bytes of a read have come.
    fn put(&mut self, (window, number): (u64, u64), from: u32, offset: u64, bytes: &[u8]) {
        let now = self.now.get();
        let Some(read) = self.waits(window, number, from) else { return };
        let at = offset.checked_sub(read.offset).and_then(|at| usize::try_from(at).ok());
        let to = at.and_then(|at| read.bytes.get_mut(at..at.checked_add(bytes.len())?));
        let Some(to) = to else {
            let error = Error::new(ErrorKind::Corrupt, "an owner sent bytes that were not asked for");
            self.settle(number, Err(self.about(error.at_byte(offset))));
            return;
        };
        to.copy_from_slice(bytes);
        read.last = now;
        read.left = read.left.saturating_sub(bytes.len() as u64);
        if let Some(left) = read.of.get_mut(&from) {
            *left = left.saturating_sub(bytes.len() as u64);
            if *left == 0 {
                read.of.remove(&from);
            }
        }
        if read.left == 0 {
            self.settle(number, Ok(()));
        }
    }

    /// A read is over.
    fn settle(&mut self, number: u64, outcome: Result<()>) {
        let Some(read) = self.reads.get_mut(&number).filter(|read| read.outcome.is_none()) else { return };
        // What other owners send for it is still to come.
        self.strays |= outcome.is_err();
        read.outcome = Some(outcome);
        if let Some(window) = self.windows.get_mut(&read.window) {
            window.reads = window.reads.saturating_sub(1);
        }
    }

    /// Sends what is held to the ranks that have asked for it, as far as the memory for messages goes.
    fn answer(&mut self) -> bool {
        let mut moved = false;
        for id in self.windows.keys().copied().collect::<Vec<u64>>() {
            loop {
                let (post, half) = (&self.post, self.half);
                let in_flight = post.memory();
                let Some(owned) = self.windows.get_mut(&id).and_then(|window| window.owned.as_mut()) else { break };
                // A unit is at most a quarter: one message always goes. A rank that does not receive holds up no others.
                let fits = |held: u64, length: u64, most: u64| held == 0 || held + length + Request::FRAME <= most;
                let may = |rank, length| fits(in_flight, length, half) && fits(post.memory_to(rank), length, half / 4);
                let Some((demand, bytes)) = owned.answer(may) else { break };
                let answer = Request::Answer { read: demand.read, offset: demand.extent.offset, bytes };
                self.post.send(demand.rank, (id, answer));
                moved = true;
            }
        }
        moved
    }

    /// Reads one unit: what a rank waits for, else what comes next if there is room; the windows take turns.
    fn read_one(&mut self) -> bool {
        let turn = self.turn;
        let ids: Vec<u64> =
            self.windows.range(turn + 1..).chain(self.windows.range(..=turn)).map(|(id, _)| *id).collect();
        let owned = |windows: &mut BTreeMap<u64, Window>, id: u64| -> Option<Extent> {
            windows.get_mut(&id)?.owned.as_mut()?.needed()
        };
        let needed = ids.iter().find_map(|id| Some((*id, owned(&mut self.windows, *id)?)));
        let (id, unit) = match needed {
            Some((id, unit)) => {
                while self.held() > 0 && self.held() + unit.length > self.half {
                    // Everything is on its way to ranks: a later call has room.
                    if !self.give_up(true) && !self.give_up(false) {
                        return false;
                    }
                }
                (id, unit)
            }
            None => {
                let ahead = |window: &mut Window| window.owned.as_mut().and_then(Ahead::ahead);
                let next = ids.iter().find_map(|id| Some((*id, ahead(self.windows.get_mut(id)?)?)));
                let Some((id, unit)) = next else { return false };
                while self.held() + unit.length > self.half {
                    if !self.give_up(true) {
                        return false;
                    }
                }
                (id, unit)
            }
        };
        self.turn = id;
        let read = caught("read ahead", || self.load(unit)).map_err(|e| self.about(e).at_byte(unit.offset));
        self.now.look(&*self.post.comm);
        let Some(owned) = self.windows.get_mut(&id).and_then(|window| window.owned.as_mut()) else { return true };
        match read {
            Ok(bytes) => owned.insert(unit, bytes),
            Err(e) => {
                for demand in owned.fail(unit) {
                    self.refuse(demand.rank, id, demand.read, e.again());
                }
            }
        }
        true
    }

    /// Gives up a unit of any window; whether there was one.
    fn give_up(&mut self, spent_only: bool) -> bool {
        self.windows.values_mut().filter_map(|window| window.owned.as_mut()).any(|owned| owned.give_up(spent_only))
    }

    fn load(&mut self, unit: Extent) -> Result<Vec<u8>> {
        let object = match &self.object {
            Some(object) => object,
            None => self.object.insert(self.layout.open_read(&self.path)?),
        };
        let no_memory = || Error::new(ErrorKind::NoMemory, format!("no memory for {} bytes", unit.length));
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(unit.length as usize).map_err(|_| no_memory())?;
        bytes.resize(unit.length as usize, 0);
        object.read_exact_at(unit.offset, &mut bytes)?;
        Ok(bytes)
    }

    /// Tells ranks that wait for this owner, now and then, that it makes calls.
    fn tell_waiting(&mut self, id: u64) {
        let now = self.now.get();
        let Some(window) = self.windows.get_mut(&id) else { return };
        if now.saturating_sub(window.told) < window.limit / 4 {
            return;
        }
        window.told = now;
        let waiting = window.owned.as_ref().map_or_else(Vec::new, Ahead::waiting);
        for rank in waiting {
            self.post.send_short(rank, (id, Request::Alive));
        }
    }

    /// The steps towards the end of a window.
    fn advance(&mut self, id: u64) -> bool {
        let (rank, parent) = (self.rank(), self.node.parent);
        let Some(window) = self.windows.get_mut(&id) else { return false };
        if !window.ended || window.reads > 0 {
            return false;
        }
        window.ending.ended(rank, Sums::default());
        if window.told_parent || !window.ending.waits_for().is_empty() {
            return false;
        }
        window.told_parent = true;
        match parent {
            Some(parent) => self.post.send_short(parent, (id, Request::Ended)),
            None => self.over(id),
        }
        true
    }

    /// All ranks have ended their part of a window.
    fn over(&mut self, id: u64) {
        let children: Vec<u32> = self.node.children.iter().map(|child| child.start).collect();
        for child in children {
            self.post.send_short(child, (id, Request::Over));
        }
        self.windows.remove(&id);
    }

    /// Reads for which nothing has happened for too long.
    fn watch_time(&mut self) {
        let now = self.now.get();
        let late = |read: &Read| {
            let limit = self.windows.get(&read.window).map(|window| window.limit);
            read.outcome.is_none() && limit.is_some_and(|limit| now.saturating_sub(read.last) > limit)
        };
        let late: Vec<(u64, u64, Vec<u32>)> = self
            .reads
            .iter()
            .filter(|(_, read)| late(read))
            .map(|(number, read)| (*number, read.offset, read.of.keys().copied().take(NAMED).collect()))
            .collect();
        for (number, offset, owners) in late {
            let ranks: Vec<String> = owners.iter().map(u32::to_string).collect();
            let what = format!(
                "rank {} did not send bytes of a read within the time limit: an owner serves others only inside its calls",
                ranks.join(", ")
            );
            self.settle(number, Err(self.about(Error::new(ErrorKind::Timeout, what).at_byte(offset))));
        }
    }

    /// After the loss of a rank: no read comes to an end.
    fn break_off(&mut self) {
        let Some(broken) = &self.post.broken else { return };
        let error = self.about(broken.again());
        self.post.stop();
        let under_way = self.reads.iter().filter(|(_, read)| read.outcome.is_none());
        for number in under_way.map(|(number, _)| *number).collect::<Vec<u64>>() {
            self.settle(number, Err(error.again()));
        }
    }

    fn call_back(&mut self) {
        let due = |read: &Read| read.outcome.is_some() && read.callback.is_some();
        let due: Vec<u64> = self.reads.iter().filter(|(_, read)| due(read)).map(|(number, _)| *number).collect();
        for number in due {
            if let Some(Read { outcome: Some(outcome), callback: Some(callback), bytes, .. }) =
                self.reads.remove(&number)
            {
                callback(outcome.map(|()| bytes));
            }
        }
    }
}

impl OpenInput<'_> {
    /// On rank 0: opens the file; its length, and the number of storage targets, if known.
    fn open_first(&self, nodes: usize) -> Result<(Box<dyn ReadObject>, u64, Option<u32>)> {
        if nodes > 1 && self.layout.other_nodes(self.path) == OtherNodes::Nothing {
            let what = "the file belongs to one node until its burst buffer is drained, and the ranks are on several";
            return Err(Error::new(ErrorKind::Unsupported, what).in_object(self.path));
        }
        let object = self.layout.open_read(self.path)?;
        let length = object.length()?;
        Ok((object, length, self.layout.targets(crate::file::folder_of(self.path))?))
    }
}
