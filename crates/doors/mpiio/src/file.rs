//! Files that the ranks of a communicator have open: positions, views, sizes, atomic mode.
//!
//! Calls marked collective are made by every rank, in the same order; they return the same outcome on all ranks. Offsets and positions
//! are in etypes of the rank's view.

mod together;

use crate::class::{Class, Failure, Outcome};
use crate::hints::{Choice, Given, Hints};
use crate::mode::Mode;
use crate::pointer::{Place, SharedPointer, machine};
use crate::profile::Profile;
use crate::transfer::{self, Memory, MemoryMut};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Instant;
use thalweg_comm::Communicator;
use thalweg_comm::guarded::caught;
use thalweg_comm::outcome::{agreed, apart};
use thalweg_layout::locks::Count;
use thalweg_layout::{Change, Layout, WriterId};
use thalweg_open_file::OpenFile;
use thalweg_open_file::lock::{Kind, LONG_WAIT, LockDescription, Met, Range};
use thalweg_profile::calls::Begin;
use thalweg_profile::recorder::Running;
use thalweg_profile::{Phase, Taking};
use thalweg_types::mutex::Mutex;
use thalweg_types::printable::printable;
use thalweg_types::{Error, ErrorKind};
use thalweg_view::{Pattern, View};
use together::Together;

/// Which place in its view a rank reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// An offset of the call.
    Offset(u64),
    /// Its own pointer, which moves behind the bytes.
    Individual,
    /// The pointer of all ranks, which moves behind the bytes.
    Shared,
    /// Collective: the pointer of all ranks, which they use in the order of their numbers.
    Ordered,
}

/// Which ranks make a call that reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// This one.
    OneRank,
    /// All, none of which waits for another: nonblocking calls.
    AllRanks,
    /// All, and they may wait for each other.
    AllRanksWaiting,
}

/// What a seek counts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whence {
    /// The start of the view.
    Set,
    /// The pointer.
    Current,
    /// The end of the file.
    End,
}

/// How far a collective call moves the order of writes: more than the number of times that a rank orders writes of its own between two
/// such calls.
const EPOCH: u64 = 1 << 20;

/// An open file. Any thread may call it, as far as the communicator's thread level allows; collective calls take turns.
pub struct File {
    comm: Mutex<Box<dyn Communicator>>,
    file: OpenFile,
    layout: Arc<dyn Layout>,
    name: String,
    mode: Mode,
    state: Mutex<State>,
    shared: SharedPointer,
    profile: Option<Profile>,
}

struct State {
    view: Arc<View>,
    /// The individual pointer.
    position: u64,
    /// Number of the present epoch in the order of writes, the same on all ranks. Each collective call begins an epoch, and collective
    /// reads and writes also end theirs: where ranks write the same bytes, those of the later epoch stay, without any message.
    epoch: u64,
    /// The views of all ranks, where their collective accesses are worth an exchange.
    together: Option<Arc<Together>>,
    hints: Hints,
    /// In atomic mode.
    lock: Option<Arc<LockDescription>>,
}

/// Collective: the outcome of all ranks, and the maximum of each number over them.
fn agree(comm: &dyn Communicator, own: Outcome<()>, doing: &str, numbers: &[u64]) -> Outcome<Vec<u64>> {
    let (class, own) = match own {
        Ok(()) => (None, Ok(())),
        Err(Failure { class, error }) => (Some(class), Err(error)),
    };
    agreed(comm, own, doing, numbers).map_err(|error| match class {
        Some(class) => Failure { class, error },
        None => Failure::from(error),
    })
}

fn other_numbers() -> Failure {
    Failure::new(Class::Other, "ranks exchanged other numbers than expected")
}

/// Collective: as [`agree`], for a number that must be the same on all ranks.
fn same(comm: &dyn Communicator, own: Outcome<()>, doing: &str, number: u64, what: &str) -> Outcome<()> {
    let numbers = agree(comm, own, doing, &[number, !number])?;
    match numbers.first().zip(numbers.get(1)) {
        Some((high, low)) if *high == !*low => Ok(()),
        _ => Err(Failure::new(Class::NotSame, format!("cannot {doing}: {what} differs between ranks"))),
    }
}

impl File {
    /// Collective: opens a file.
    ///
    /// - `comm`: used by this file alone.
    /// - `at`: the layout, and the file's name in it; or this rank's failure, which is then one of all ranks.
    /// - `mode`: the same on all ranks.
    /// - `writer`: the writer number of this process.
    /// - `hints`: what this rank gives.
    /// - `profiled`: whether this rank asks for a profile of all.
    ///
    /// # Errors
    /// `NotSame` for modes that differ; those of the open, on all ranks. A new file may exist then, empty.
    /// # Cost
    /// An open on each rank and one reduction; one more where the file is created or ranks are on several machines; a gather where a
    /// hint asks for exchanges. On several machines also [`SharedPointer::make_counter`] on rank 0.
    pub fn open(
        comm: Box<dyn Communicator>,
        at: Outcome<(Arc<dyn Layout>, String)>,
        mode: Mode,
        writer: WriterId,
        hints: Given,
        profiled: bool,
    ) -> Outcome<File> {
        let begins = Instant::now();
        let (at, mut own) = match at {
            Ok(at) => (Some(at), Ok(())),
            Err(failure) => (None, Err(failure)),
        };
        let doing = at.as_ref().map_or_else(|| "open the file".to_owned(), |(_, name)| format!("open {name}"));
        let first = comm.rank() == 0;
        let open = || match &at {
            Some((layout, name)) => {
                let creates = first && mode.creates();
                let permissions = hints.permissions.filter(|_| creates);
                caught(&doing, || {
                    let mut access = mode.access(first);
                    if let Some(stripes) = hints.stripes().filter(|_| creates) {
                        match layout.make_striped(name, stripes) {
                            Ok(false) => {}
                            Ok(true) => {
                                access.exclusive = false;
                                if let Some(mode) = permissions {
                                    layout.set_attributes(name, &Change { mode: Some(mode), ..Change::default() })?;
                                }
                            }
                            // Opened as it is, or refused.
                            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                            Err(e) => return Err(e),
                        }
                    }
                    OpenFile::open(layout, name, access, permissions, writer)
                })
                .map_err(Failure::from)
            }
            None => Err(Failure::new(Class::Argument, "no file is named")),
        };
        let mut opened = None;
        if own.is_ok() && (first || !mode.creates()) {
            own = open().and_then(|file| {
                if mode.creates() && comm.size() > 1 {
                    // Some layouts show a new file once it is published.
                    caught(&doing, || file.publish())?;
                }
                opened = Some(file);
                Ok(())
            });
        }
        let mut shared = first.then(|| SharedPointer::make(RandomState::new().hash_one(std::process::id())));
        let Place { process, descriptor, cookie } = shared.as_ref().map(SharedPointer::place).unwrap_or_default();
        let bits = u64::from(mode.bits());
        let order = opened.as_ref().map_or(0, OpenFile::order);
        let machine = if comm.size() > 1 { machine() } else { 0 };
        let place = [bits, !bits, process, descriptor, cookie, order, u64::from(profiled), machine, !machine];
        let meets = Instant::now();
        let numbers = agree(&*comm, own, &doing, &[&place[..], &hints.to_agree()].concat())?;
        let [high, low, process, descriptor, cookie, order, profiled, machine, not_machine, ref given @ ..] =
            numbers[..]
        else {
            return Err(other_numbers());
        };
        let mut in_use = Hints::default();
        in_use.take(&hints.agreed(given).ok_or_else(other_numbers)?);
        if high != !low {
            return Err(Failure::new(Class::NotSame, format!("cannot {doing}: the access mode differs between ranks")));
        }
        // A profile of one rank is one of all.
        let (comm, taken) = match (profiled != 0, &at) {
            (true, Some((layout, _))) => {
                let run = RandomState::new().hash_one(std::process::id());
                // Before any rank can have written.
                let empty = || opened.as_ref().is_some_and(|file| file.length().is_ok_and(|length| length == 0));
                let is_new = first && mode.creates() && empty();
                let begun = Taking::begin(comm, layout.clone(), begins, meets, run);
                (begun.comm, Some((begun.opening, Profile { taking: begun.taking, run, is_new })))
            }
            _ => (comm, None),
        };
        let mut counter = false;
        let apart = machine != !not_machine;
        if mode.creates() || apart {
            let mut own = match opened {
                Some(_) => Ok(()),
                None => open().map(|file| opened = Some(file)),
            };
            // Before any rank can use it.
            if let (true, true, Some((layout, name)), Ok(())) = (apart, first, &at, &own) {
                match caught(&doing, || SharedPointer::make_counter(layout, name, cookie)) {
                    Ok(made) => {
                        counter = made.is_some();
                        shared = made.or(shared);
                    }
                    Err(e) => own = Err(e.into()),
                }
            }
            counter = agree(&*comm, own, &doing, &[u64::from(counter)])?.first().is_some_and(|made| *made != 0);
        }
        let epoch = order.saturating_add(1);
        let (Some(file), Some((layout, name))) = (opened, at) else {
            return Err(Failure::new(Class::Other, "no file is open"));
        };
        let shared = shared.unwrap_or_else(|| match counter {
            true => SharedPointer::at_counter(&layout, &name, cookie),
            false => SharedPointer::at(Place { process, descriptor, cookie }),
        });
        file.order_from(epoch);
        let view = Arc::new(View::whole());
        let state = State { view, position: 0, epoch, together: None, hints: in_use, lock: None };
        let state = Mutex::new(state);
        let mut made = File { comm: Mutex::new(comm), file, layout, name, mode, state, shared, profile: None };
        if mode.appends() {
            let comm = made.comm.lock();
            let end = made.file.length().map_err(Failure::from);
            let own = end.and_then(|end| {
                made.state.lock().position = end;
                if first { made.shared.set(end) } else { Ok(()) }
            });
            agree(&**comm, own, &doing, &[])?;
        }
        if [in_use.exchange, in_use.read_exchange].contains(&Choice::Always) {
            made.look_at_views(&**made.comm.lock(), &made.view())?;
        }
        if let Some((opening, mut profile)) = taken {
            drop(opening);
            profile.taking.opened();
            profile.ends(Begin::default(), "open", 0);
            made.profile = Some(profile);
        }
        Ok(made)
    }

    /// Its access mode.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Its name in the layout.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its profile, if one is taken.
    pub fn profile(&self) -> Option<&Profile> {
        self.profile.as_ref()
    }

    /// Records a phase in the profile.
    fn span(&self, phase: Phase, bytes: u64) -> Option<Running> {
        let mut running = self.profile()?.taking.recorder().span(phase);
        running.bytes(bytes);
        Some(running)
    }

    fn hints(&self) -> Hints {
        self.state.lock().hints
    }

    /// Keys and values of the hints in use.
    pub fn hints_in_use(&self) -> Vec<(&'static str, String)> {
        let ranks = self.comm.lock().size();
        let exchanges = ranks > 1 && self.layout.prefers_runs(&self.name);
        // A name that is gone has no stripes to tell.
        let stripes = self.layout.stripes(&self.name).ok().flatten();
        self.hints().in_use(ranks, exchanges && self.mode.writes(), exchanges && self.mode.reads(), stripes)
    }

    /// Collective: takes over hints that ranks give while the file is open.
    ///
    /// # Errors
    /// `PeerLost` or `Timeout` where a rank was lost.
    /// # Cost
    /// One reduction; a gather where collective writes begin or end to exchange bytes.
    pub fn set_hints(&self, given: &Given) -> Outcome<()> {
        let comm = self.comm.lock();
        let numbers = agree(&**comm, Ok(()), "set hints", &given.to_agree())?;
        if self.take_hints(given, &numbers)? {
            self.look_at_views(&**comm, &self.view())?;
        }
        Ok(())
    }

    /// Takes over the hints of this rank that are its own, and the numbers that all agreed on; returns whether views have to be looked
    /// at again, the same on all ranks.
    fn take_hints(&self, given: &Given, numbers: &[u64]) -> Outcome<bool> {
        let agreed = given.agreed(numbers).ok_or_else(other_numbers)?;
        Ok(self.state.lock().hints.take(&agreed))
    }

    fn view(&self) -> Arc<View> {
        self.state.lock().view.clone()
    }

    /// Begins an epoch, in a call that all ranks make.
    fn next_epoch(&self) {
        let mut state = self.state.lock();
        state.epoch = state.epoch.saturating_add(EPOCH);
        self.file.order_from(state.epoch);
    }

    /// Runs a call that reads or writes. One that all ranks make is an epoch of its own: what a rank writes alone afterwards comes after
    /// all that the others wrote in it.
    fn in_epoch<T>(&self, caller: Caller, call: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
        if caller == Caller::OneRank {
            return call();
        }
        self.next_epoch();
        let outcome = call();
        self.next_epoch();
        outcome
    }

    /// Begins an epoch that is later than all that any rank has written.
    ///
    /// - `order`: the maximum over all ranks of [`OpenFile::order`].
    fn epoch_after(&self, order: u64) {
        let mut state = self.state.lock();
        state.epoch = state.epoch.max(order).saturating_add(EPOCH);
        self.file.order_from(state.epoch);
    }

    /// Shows this rank what others have published; its next writes come after that.
    fn renew(&self) -> thalweg_types::Result<()> {
        // A publication also orders what a writer writes next, on `container`; a new open shows others' versions, on `small_file`.
        if self.mode.writes() {
            self.file.publish()?;
        }
        self.file.refresh()
    }

    /// Warns that an atomic access waits for another process's.
    fn tell_of_wait(&self, met: &Met) {
        let (seconds, from) = (LONG_WAIT.as_secs(), met.range.start);
        thalweg_warnings::tell_once(&format!(
            "{}: an atomic access has waited for {seconds} s for another process's lock on bytes from {from} on; it waits until that process \
             releases the lock or ends (is it stopped?)\n",
            printable(&self.name)
        ));
    }

    fn named(&self, failure: Failure) -> Failure {
        failure.in_object(&self.name)
    }

    fn refused<T>(&self, class: Class, what: &str) -> Outcome<T> {
        Err(self.named(Failure::new(class, what)))
    }

    /// Collective: sets the view of this rank; all pointers go to its start.
    ///
    /// - `displacement`: in bytes; `None`: where the shared pointer is, for sequential files.
    /// - `etype`: its pattern.
    /// - `filetype`: its pattern, or this rank's failure.
    /// - `hints`: what this rank gives.
    ///
    /// # Errors
    /// Those of [`View::new`]. Views and hints are as before.
    /// # Cost
    /// One reduction.
    pub fn set_view(
        &self,
        displacement: Option<u64>,
        etype: Outcome<Pattern>,
        filetype: Outcome<Pattern>,
        hints: &Given,
    ) -> Outcome<()> {
        let comm = self.comm.lock();
        let made = (|| {
            let displacement = match (displacement, self.mode.is_sequential()) {
                (Some(_), true) => {
                    return self.refused(Class::Unsupported, "a sequential file's view begins at the shared pointer");
                }
                (None, false) => {
                    return self
                        .refused(Class::Argument, "a view at the shared pointer of a file that is not sequential");
                }
                (Some(displacement), false) => displacement,
                (None, true) => self.byte_offset(self.shared.count(Count::Read)?)?,
            };
            // Also one whose bytes do not rise, which MPI forbids: bytes are moved in the order of the view.
            Ok(View::new(displacement, &etype?, filetype?)?)
        })();
        let (view, own) = match made {
            Ok(view) => (Some(view), Ok(())),
            Err(failure) => (None, Err(failure)),
        };
        // All ranks have asked the shared pointer where they need it; the first one resets it before any rank goes on.
        let order = [self.file.order()];
        let numbers = agree(&**comm, own, "set the view", &[&order[..], &hints.to_agree()].concat())?;
        let Some(([order], given)) = numbers.split_first_chunk::<1>() else { return Err(other_numbers()) };
        self.epoch_after(*order);
        self.take_hints(hints, given)?;
        let own = if comm.rank() == 0 { self.shared.set(0) } else { Ok(()) };
        if self.mode.is_sequential() || own.is_err() || comm.size() > 1 {
            agree(&**comm, own, "set the view", &[])?;
        }
        if let Some(view) = &view {
            self.look_at_views(&**comm, view)?;
        }
        let mut state = self.state.lock();
        state.position = 0;
        if let Some(view) = view {
            state.view = Arc::new(view);
        }
        Ok(())
    }

    /// First byte of this rank's view.
    pub fn displacement(&self) -> u64 {
        self.view().displacement()
    }

    /// The byte of the file at an offset of the view.
    ///
    /// # Errors
    /// `Argument` beyond the largest file.
    pub fn byte_offset(&self, offset: u64) -> Outcome<u64> {
        let view = self.view();
        let byte = offset.checked_mul(view.etype()).and_then(|byte| view.file_offset(byte));
        byte.map_or_else(|| self.refused(Class::Argument, "an offset beyond the largest file"), Ok)
    }

    /// The offset of the first etype at or behind the end of the file.
    fn end(&self, view: &View) -> Outcome<u64> {
        let length = self.file.length().map_err(|e| self.named(e.into()))?;
        match view.count_below(length) {
            Some(bytes) => Ok(bytes.div_ceil(view.etype())),
            None => self.refused(Class::Argument, "a view in which the end of the file has no place"),
        }
    }

    fn sought(&self, offset: i64, whence: Whence, position: u64, view: &View) -> Outcome<u64> {
        let from = match whence {
            Whence::Set => 0,
            Whence::Current => position,
            Whence::End => self.end(view)?,
        };
        let to = from.checked_add_signed(offset).filter(|to| *to < 1 << 63);
        to.map_or_else(
            || self.refused(Class::Argument, "a seek to before the start of the view, or beyond the largest file"),
            Ok,
        )
    }

    /// Moves this rank's own pointer.
    ///
    /// # Errors
    /// `Argument` for a place before the view; `Unsupported` for sequential files. The pointer stays.
    pub fn seek(&self, offset: i64, whence: Whence) -> Outcome<()> {
        if self.mode.is_sequential() {
            return self.refused(Class::Unsupported, "a sequential file has only the shared pointer");
        }
        let mut state = self.state.lock();
        let view = state.view.clone();
        state.position = self.sought(offset, whence, state.position, &view)?;
        Ok(())
    }

    /// This rank's own pointer.
    ///
    /// # Errors
    /// `Unsupported` for sequential files.
    pub fn position(&self) -> Outcome<u64> {
        if self.mode.is_sequential() {
            return self.refused(Class::Unsupported, "a sequential file has only the shared pointer");
        }
        Ok(self.state.lock().position)
    }

    /// Collective: moves the shared pointer. All ranks give the same arguments.
    ///
    /// # Errors
    /// As [`File::seek`]; `NotSame`.
    /// # Cost
    /// Two reductions.
    pub fn seek_shared(&self, offset: i64, whence: Whence) -> Outcome<()> {
        let comm = self.comm.lock();
        let doing = "move the shared pointer";
        let own = match self.mode.is_sequential() {
            true => self.refused(Class::Unsupported, "a sequential file is read and written in order"),
            false => Ok(()),
        };
        same(&**comm, own, doing, offset as u64 ^ ((whence as u64) << 62), "the place")?;
        let view = self.view();
        let own = match comm.rank() {
            0 => self.shared.count(Count::Read).and_then(|at| {
                let to = self.sought(offset, whence, at, &view)?;
                self.shared.set(to)
            }),
            _ => Ok(()),
        };
        agree(&**comm, own, doing, &[]).map(drop)
    }

    /// The shared pointer.
    ///
    /// # Errors
    /// Those of [`SharedPointer::count`].
    pub fn shared_position(&self) -> Outcome<u64> {
        self.shared.count(Count::Read).map_err(|e| self.named(e))
    }

    /// Where `bytes` bytes go, as a byte of the view; moves pointers.
    fn begin(&self, at: At, bytes: Outcome<u64>) -> Outcome<(u64, Arc<View>)> {
        let (view, position) = {
            let state = self.state.lock();
            (state.view.clone(), state.position)
        };
        let bytes = bytes.and_then(|bytes| match bytes.is_multiple_of(view.etype()) {
            true => Ok(bytes),
            false => self.refused(
                Class::Io,
                &format!("{bytes} bytes are no whole number of etypes, which have {} bytes", view.etype()),
            ),
        });
        let etypes = match at {
            At::Ordered => self.ordered(bytes.map(|bytes| bytes / view.etype()))?,
            _ if self.mode.is_sequential() && at != At::Shared => {
                return self.refused(Class::Unsupported, "a sequential file is read and written at the shared pointer");
            }
            At::Offset(offset) => bytes.map(|_| offset)?,
            At::Individual => bytes.map(|_| position)?,
            At::Shared => {
                let etypes = bytes? / view.etype();
                self.shared.count(Count::Add(etypes)).map_err(|e| self.named(e))?
            }
        };
        match etypes.checked_mul(view.etype()) {
            Some(start) => Ok((start, view)),
            None => self.refused(Class::Argument, "an offset beyond the largest file"),
        }
    }

    /// Collective: the place of this rank's etypes behind those of lower ranks, from the shared pointer on, which moves behind all.
    fn ordered(&self, etypes: Outcome<u64>) -> Outcome<u64> {
        let comm = self.comm.lock();
        let doing = "find the ranks' places at the shared pointer";
        let (count, own) = match etypes {
            Ok(count) => (count, Ok(())),
            Err(failure) => (0, Err(failure)),
        };
        // A rank with nothing to write takes part; one that fails makes all fail, and the pointer stays.
        agree(&**comm, own, doing, &[])?;
        let before = comm.exclusive_scan(count).map_err(|e| self.named(e.into()))?;
        let last = comm.size() - 1;
        let (start, own) = match comm.rank() == last {
            true => match self.shared.count(Count::Add(before.saturating_add(count))) {
                Ok(start) => (start, Ok(())),
                Err(failure) => (0, Err(self.named(failure))),
            },
            false => (0, Ok(())),
        };
        let numbers = agree(&**comm, own, doing, &[start])?;
        Ok(numbers.first().copied().unwrap_or(0).saturating_add(before))
    }

    /// Runs a transfer under the lock of atomic mode, where that is set: what others have published is seen, and what was written is
    /// published before the lock is released.
    fn atomically<T>(
        &self,
        kind: Kind,
        view: &View,
        start: u64,
        bytes: u64,
        transfer: impl FnOnce() -> thalweg_types::Result<T>,
    ) -> Outcome<T> {
        let lock = self.state.lock().lock.clone();
        let outcome = match lock.filter(|_| bytes > 0) {
            None => transfer(),
            Some(lock) => (|| {
                let first = view.file_offset(start).unwrap_or(0);
                let last = view.file_offset(start.saturating_add(bytes - 1)).unwrap_or(first);
                let range = Range { start: first, length: last.saturating_sub(first).saturating_add(1) };
                lock.range(kind, range, |met| self.tell_of_wait(met))?;
                let outcome = self.renew().and_then(|()| transfer()).and_then(|value| {
                    if kind == Kind::Exclusive {
                        self.file.publish()?;
                    }
                    Ok(value)
                });
                let lost = "the lock of an atomic access is lost: bytes of other ranks may be among its bytes";
                let released = lock.try_range(Kind::None, range, false);
                let released = released.map_err(|e| Error::new(e.kind(), lost).caused_by(e));
                outcome.and_then(|value| released.map(|()| value))
            })(),
        };
        outcome.map_err(|e| self.named(e.into()))
    }

    /// Writes memory to the view.
    ///
    /// - `caller`: which ranks make this call; with [`At::Ordered`] all do, and wait.
    /// - `memory`: or this rank's failure; with [`At::Ordered`] a failure of all ranks.
    ///
    /// # Errors
    /// `ReadOnly` for a file opened for reading; `Io` for bytes that are no whole number of etypes; those of the layout: bytes in
    /// front of the named one are written. Pointers have moved where the layout failed, except the individual one.
    /// # Cost
    /// As [`transfer::write`]; with [`At::Shared`] that of [`SharedPointer::count`], with [`At::Ordered`] of three reductions. In
    /// atomic mode a lock, a refresh and a publication.
    pub fn write(&self, at: At, caller: Caller, memory: Outcome<Memory<'_>>) -> Outcome<u64> {
        self.in_epoch(caller, || self.write_now(at, caller, memory))
    }

    /// The views of all ranks, where a call may exchange bytes.
    fn together(&self, at: At, caller: Caller) -> Option<Arc<Together>> {
        if caller != Caller::AllRanksWaiting || !matches!(at, At::Offset(_) | At::Individual) {
            return None;
        }
        let state = self.state.lock();
        state.together.clone().filter(|_| state.lock.is_none())
    }

    fn write_now(&self, at: At, caller: Caller, memory: Outcome<Memory<'_>>) -> Outcome<u64> {
        let memory = match self.mode.writes() {
            true => memory,
            false => self.refused(Class::ReadOnly, "the file is open for reading only"),
        };
        let (memory, bytes) = match memory {
            Ok(memory) => (memory, Ok(memory.size())),
            Err(failure) => (Memory::Run(&[]), Err(failure)),
        };
        if let Some(together) = self.together(at, caller).filter(|together| together.writes) {
            return self.write_together(at, &together, bytes, memory);
        }
        let (start, view) = self.begin(at, bytes)?;
        let bytes = memory.size();
        let most = self.hints().write_buffer;
        let transfer = || {
            let _running = self.span(Phase::Write, bytes);
            transfer::write(&self.file, &view, start, memory, most)
        };
        self.atomically(Kind::Exclusive, &view, start, bytes, transfer)?;
        self.advance(at, start + bytes, &view);
        Ok(bytes)
    }

    /// Reads from the view into memory; returns the number of bytes, fewer than wanted at the end of the file.
    ///
    /// - `caller`, `memory`: as for [`File::write`].
    ///
    /// # Errors
    /// `Access` for a file opened for writing; others as [`File::write`].
    /// # Cost
    /// As [`File::write`], with [`transfer::read`].
    pub fn read(&self, at: At, caller: Caller, memory: Outcome<MemoryMut<'_>>) -> Outcome<u64> {
        self.in_epoch(caller, || self.read_now(at, caller, memory))
    }

    fn read_now(&self, at: At, caller: Caller, memory: Outcome<MemoryMut<'_>>) -> Outcome<u64> {
        let memory = match self.mode.reads() {
            true => memory,
            false => self.refused(Class::Access, "the file is open for writing only"),
        };
        let (memory, bytes) = match memory {
            Ok(memory) => {
                let bytes = memory.size();
                (memory, Ok(bytes))
            }
            Err(failure) => (MemoryMut::Run(&mut []), Err(failure)),
        };
        if let Some(together) = self.together(at, caller).filter(|together| together.reads) {
            return self.read_together(at, &together, bytes, memory);
        }
        let wanted = bytes.as_ref().copied().unwrap_or(0);
        let (start, view) = self.begin(at, bytes)?;
        let most = self.hints().read_buffer;
        let transfer = || {
            let mut running = self.span(Phase::Read, 0);
            let got = transfer::read(&self.file, &view, start, memory, most)?;
            running.iter_mut().for_each(|running| running.bytes(got));
            Ok(got)
        };
        let got = self.atomically(Kind::Shared, &view, start, wanted, transfer)?;
        self.advance(at, start + got, &view);
        Ok(got)
    }

    fn advance(&self, at: At, end: u64, view: &View) {
        if at == At::Individual {
            self.state.lock().position = end.div_ceil(view.etype());
        }
    }

    /// Length of the file in bytes, as this rank sees it.
    ///
    /// # Errors
    /// Those of the layout.
    pub fn length(&self) -> Outcome<u64> {
        self.file.length().map_err(|e| self.named(e.into()))
    }

    /// Collective: publishes what this rank wrote, changes the length on rank 0, and refreshes what this rank sees.
    fn resize(&self, doing: &str, bytes: u64, wanted: impl Fn(u64) -> bool) -> Outcome<()> {
        let comm = self.comm.lock();
        let own = match self.mode.writes() {
            _ if self.mode.is_sequential() => {
                self.refused(Class::Unsupported, "a sequential file grows by writes alone")
            }
            true if bytes >= 1 << 63 => self.refused(Class::Argument, "a length beyond the largest file"),
            true => self.file.publish().map_err(|e| self.named(e.into())),
            false => self.refused(Class::ReadOnly, "the file is open for reading only"),
        };
        same(&**comm, own, doing, bytes, "the length")?;
        let own = match comm.rank() {
            0 => caught(doing, || {
                self.renew()?;
                if wanted(self.file.length()?) {
                    self.file.truncate(bytes)?;
                    self.file.publish()?;
                }
                Ok(())
            }),
            _ => Ok(()),
        };
        agree(&**comm, own.map_err(|e| self.named(e.into())), doing, &[])?;
        let own = if comm.rank() == 0 { Ok(()) } else { caught(doing, || self.renew()) };
        agree(&**comm, own.map_err(|e| self.named(e.into())), doing, &[]).map(drop)
    }

    /// Collective: truncates or extends the file.
    ///
    /// # Errors
    /// `NotSame` for lengths that differ; `ReadOnly`; those of the layout.
    /// # Cost
    /// A publication and a refresh on each rank, a truncation on rank 0, three reductions.
    pub fn set_size(&self, bytes: u64) -> Outcome<()> {
        self.resize("set the size of the file", bytes, |_| true)
    }

    /// Collective: as [`File::set_size`], for a file that is shorter.
    ///
    /// # Errors
    /// As [`File::set_size`].
    /// # Cost
    /// As [`File::set_size`]. No space is allocated: what was not written is a hole.
    pub fn preallocate(&self, bytes: u64) -> Outcome<()> {
        self.resize("preallocate the file", bytes, |length| length < bytes)
    }

    /// Collective: sets or ends atomic mode.
    ///
    /// # Errors
    /// `Unsupported` where neither the layout's stores nor its servers have locks; `NotSame`. The mode stays.
    /// # Cost
    /// A reduction, and [`LockDescription::open`].
    pub fn set_atomicity(&self, atomic: bool) -> Outcome<()> {
        let comm = self.comm.lock();
        let doing = "set atomic mode";
        let lock = match atomic {
            true => caught(doing, || {
                let about = self.file.attributes()?;
                LockDescription::open(&*self.layout, &self.name, &about).map(|lock| Some(Arc::new(lock)))
            }),
            false => Ok(None),
        };
        // Bytes that were written before are seen by atomic reads.
        let lock = lock.and_then(|lock| self.file.publish().map(|()| lock));
        let (lock, own) = apart(lock);
        same(&**comm, own.map_err(|e| self.named(e.into())), doing, u64::from(atomic), "the mode")?;
        self.state.lock().lock = lock.flatten();
        Ok(())
    }

    /// Whether atomic mode is set.
    pub fn is_atomic(&self) -> bool {
        self.state.lock().lock.is_some()
    }

    /// Collective: makes what all ranks wrote durable and shows it to all of them.
    ///
    /// # Errors
    /// Those of the layout: bytes written since the last sync may be lost in a power cut, and others may not see them.
    /// # Cost
    /// A sync and a refresh on each rank, two reductions.
    pub fn sync(&self) -> Outcome<()> {
        let comm = self.comm.lock();
        let doing = "sync the file";
        let own = caught(doing, || {
            let _running = self.span(Phase::Sync, 0);
            self.file.sync()
        });
        let numbers = agree(&**comm, own.map_err(|e| self.named(e.into())), doing, &[self.file.order()])?;
        self.epoch_after(numbers.first().copied().unwrap_or(0));
        let own = if comm.size() == 1 { Ok(()) } else { caught(doing, || self.renew()) };
        agree(&**comm, own.map_err(|e| self.named(e.into())), doing, &[]).map(drop)
    }

    /// Collective: closes the file; what all ranks wrote is published when the call returns.
    ///
    /// # Errors
    /// Those of the layout: the rank's bytes since its last sync may be lost. The file is closed in any case.
    /// # Cost
    /// A close on each rank, one reduction; one more where rank 0 removes the file.
    pub fn close(self) -> Outcome<()> {
        let File { comm, file, layout, name, mode, profile, .. } = self;
        let mut comm = comm.into_inner();
        let profile = profile.map(Profile::closes);
        let doing = format!("close {name}");
        let named = |e: Error| Failure::from(e.in_object(&name));
        let outcome = agree(&*comm, caught(&doing, || file.close()).map_err(named), &doing, &[]).map(drop);
        let outcome = match mode.deletes() {
            true => {
                let own = if comm.rank() == 0 { caught(&doing, || layout.remove(&name)) } else { Ok(()) };
                let removed = agree(&*comm, own.map_err(named), &doing, &[]).map(drop);
                outcome.and(removed)
            }
            false => outcome,
        };
        let lost = outcome.as_ref().is_err_and(|f| matches!(f.error.kind(), ErrorKind::PeerLost | ErrorKind::Timeout));
        if !lost {
            if let Some(closing) = profile {
                closing.closed(&mut *comm, &*layout, &name, outcome.as_ref().err().map(|failure| &failure.error));
            }
            comm.set_idle();
        }
        outcome
    }
}
