//! A communicator for threads that may not call the one below: its messages move inside the program's own calls.
//!
//! MPI below `MPI_THREAD_MULTIPLE` may be called by the program's thread only. A thread of the library that writes an output in the
//! background nevertheless sends and receives: it leaves its messages here, and [`move_messages`], on the program's thread, gives them to
//! the communicator below and collects what has arrived. Nothing in it waits.
//!
//! | question | answer |
//! |---|---|
//! | which calls move messages | [`move_messages`]; waits of this communicator on the program's thread; waits of the communicator below, which call it |
//! | which thread is the program's | the one that made the communicator; if the library below may be called by any thread, one at a time, each that is not [`in_background`] |
//! | collective calls | made of messages ([`crate::messages`]); of those below none is used |
//! | order | messages between two ranks are numbered, because several receives are open at once and a long one must not hold up others |
//! | timeout | counts the time in which the program's calls move messages: a rank that computes for an hour has not kept anybody waiting |
//! | shared memory | none: windows of MPI may be used by the program's thread only |
//! | end | the communicator below is dropped by the program's thread, when its last sends have left |
//!
//! A message below has 24 bytes more: context (8), number among those of the sender to this rank (8), tag (4), the sender's rank in the
//! communicator of the context (4).

use crate::inbox::{Inbox, Ticket};
use crate::messages::{Courier, MessageCommunicator, Others, Presence};
use crate::{Communicator, Message, Request, SharedWindow, ThreadLevel, tags};
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::ThreadId;
use std::time::{Duration, Instant};
use thalweg_types::mutex::{Condvar, Mutex};
use thalweg_types::{Error, ErrorKind, Result};

/// Receives that are open at once.
const RECEIVES: usize = 4;
/// Bytes behind a message's own.
const SUFFIX: usize = 24;
/// Longest time between two calls that still counts as waiting.
const COUNTED: Duration = Duration::from_millis(100);
/// Longest sleep of a thread before it looks again, and of the program's thread between two moves.
const LONGEST_SLEEP: Duration = Duration::from_millis(20);
const BETWEEN_MOVES: Duration = Duration::from_micros(50);

/// Those whose messages are to be moved, in the order in which they were made.
static COURIERS: Mutex<Vec<Arc<InCalls>>> = Mutex::new(Vec::new());
/// Length of [`COURIERS`].
static COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static IN_BACKGROUND: Cell<bool> = const { Cell::new(false) };
}

/// Declares that this thread is none of the program's: messages are not moved by its calls.
pub fn in_background() {
    IN_BACKGROUND.set(true);
}

/// Whether this thread has declared that it is none of the program's.
pub fn is_in_background() -> bool {
    IN_BACKGROUND.get()
}

/// A communicator over `below` for any thread. Call it on the program's thread.
pub fn for_threads(below: Box<dyn Communicator>) -> Box<dyn Communicator> {
    let timeout = below.timeout();
    let handle = Handle(Arc::new(InCalls::new(below)));
    let mut couriers = COURIERS.lock();
    couriers.push(handle.0.clone());
    COUNT.store(couriers.len(), Ordering::Release);
    drop(couriers);
    Box::new(MessageCommunicator::first(Arc::new(handle), timeout))
}

/// Whether any message is to be moved by calls of this thread.
pub fn is_needed() -> bool {
    COUNT.load(Ordering::Acquire) > 0 && COURIERS.lock().iter().any(|courier| courier.is_moved_here())
}

/// Moves the messages of all communicators that this thread is to move. Returns immediately; `true` if anything moved.
pub fn move_messages() -> bool {
    if COUNT.load(Ordering::Acquire) == 0 {
        return false;
    }
    let couriers: Vec<Arc<InCalls>> = COURIERS.lock().iter().filter(|c| c.is_moved_here()).cloned().collect();
    let moved = couriers.iter().fold(false, |moved, courier| courier.move_messages() | moved);
    for courier in &couriers {
        courier.end_below();
    }
    moved
}

/// Moves messages until those that were sent here have left, at most for `longest`: before the communicators below can send no more.
/// `false` if some are left.
pub fn send_all(longest: Duration) -> bool {
    let begun = Instant::now();
    loop {
        let moved = move_messages();
        let couriers: Vec<Arc<InCalls>> = COURIERS.lock().iter().filter(|c| c.is_moved_here()).cloned().collect();
        if couriers.iter().all(|courier| courier.has_sent_all()) {
            return true;
        }
        if begun.elapsed() >= longest {
            return false;
        }
        if !moved {
            std::thread::sleep(BETWEEN_MOVES);
        }
    }
}

/// A message on its way out.
struct Outgoing {
    to: u32,
    bytes: Vec<u8>,
    sent: Arc<AtomicBool>,
}

/// A message: context, tag, sender's rank in the communicator of the context.
struct Numbered {
    context: u64,
    tag: u32,
    from: u32,
    bytes: Vec<u8>,
}

/// Messages of one sender that arrive before an earlier one.
#[derive(Default)]
struct InOrder {
    next: u64,
    early: BTreeMap<u64, Numbered>,
}

struct State {
    outgoing: VecDeque<Outgoing>,
    /// Messages given to each rank.
    numbers: HashMap<u32, u64>,
    arriving: HashMap<u32, InOrder>,
    inboxes: HashMap<u64, Inbox<Vec<u8>>>,
    next_context: u64,
    /// The communicator below failed.
    failed: Option<Error>,
    /// Time in which the program's calls moved messages, and when they did so last.
    clock: Duration,
    moved: Instant,
    /// How often something has moved, or failed.
    changes: u64,
    /// No handle and no request is left.
    is_released: bool,
}

/// The communicator below; used by the program's thread only.
struct Below {
    comm: Box<dyn Communicator>,
    /// In the order in which they were started.
    receiving: VecDeque<Box<dyn Request>>,
    sending: Vec<(Box<dyn Request>, Arc<AtomicBool>)>,
}

/// The messages of one rank. See the module's page.
struct InCalls {
    rank: u32,
    size: u32,
    /// `None`: each thread, one at a time.
    thread: Option<ThreadId>,
    /// A child of `fork` has a copy of all this, but not the parent's MPI.
    process: u32,
    state: Mutex<State>,
    changed: Condvar,
    /// `None` once it was dropped.
    below: Mutex<Option<Below>>,
}

/// Its drop releases the messages of the rank.
struct Handle(Arc<InCalls>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.state.lock().is_released = true;
        if self.0.is_moved_here() && !std::thread::panicking() {
            self.0.end_below();
        }
    }
}

impl InCalls {
    fn new(comm: Box<dyn Communicator>) -> InCalls {
        let state = State {
            outgoing: VecDeque::new(),
            numbers: HashMap::new(),
            arriving: HashMap::new(),
            inboxes: HashMap::new(),
            next_context: 0,
            failed: None,
            clock: Duration::ZERO,
            moved: Instant::now(),
            changes: 0,
            is_released: false,
        };
        InCalls {
            rank: comm.rank(),
            size: comm.size(),
            thread: (comm.thread_level() < ThreadLevel::Serialized).then(|| std::thread::current().id()),
            process: std::process::id(),
            state: Mutex::new(state),
            changed: Condvar::default(),
            below: Mutex::new(Some(Below { comm, receiving: VecDeque::new(), sending: Vec::new() })),
        }
    }

    fn is_moved_here(&self) -> bool {
        let is_program = !IN_BACKGROUND.get() && self.process == std::process::id();
        is_program && self.thread.is_none_or(|thread| thread == std::thread::current().id())
    }

    fn move_messages(&self) -> bool {
        // Locked: this thread is inside already, below a wait of the communicator.
        let Some(mut below) = self.below.try_lock() else { return false };
        let Some(below) = &mut *below else { return false };
        let outgoing = {
            let mut state = self.state.lock();
            let now = Instant::now();
            let since = now.saturating_duration_since(state.moved);
            if since <= COUNTED {
                state.clock += since;
            }
            state.moved = now;
            if state.failed.is_some() {
                // What MPI still sends keeps its memory.
                below.sending.retain_mut(|(request, _)| !matches!(request.test(), Ok(true)));
                return false;
            }
            std::mem::take(&mut state.outgoing)
        };
        let mut arrived = Vec::new();
        let left = below.advance(outgoing, &mut arrived);
        let moved = !arrived.is_empty() || !matches!(left, Ok(false));
        if moved {
            let mut state = self.state.lock();
            arrived.into_iter().for_each(|message| state.arrive(message));
            if let Err(e) = left {
                state.failed.get_or_insert(e);
            }
            state.changes += 1;
            drop(state);
            self.changed.notify_all();
        }
        moved
    }

    /// Whether no message of this rank is left here, or none can leave.
    fn has_sent_all(&self) -> bool {
        let is_sent = self.below.lock().as_ref().is_none_or(|below| below.sending.is_empty());
        let state = self.state.lock();
        state.failed.is_some() || (is_sent && state.outgoing.is_empty())
    }

    /// Drops the communicator below, if nothing needs it any more.
    fn end_below(&self) {
        let is_done = |below: &Below, state: &State| {
            state.is_released && below.sending.is_empty() && (state.failed.is_some() || state.outgoing.is_empty())
        };
        let ended = match self.below.try_lock() {
            Some(mut below) => {
                let done = below.as_ref().is_some_and(|below| is_done(below, &self.state.lock()));
                if done { below.take() } else { None }
            }
            None => None,
        };
        let Some(ended) = ended else { return };
        let mut couriers = COURIERS.lock();
        couriers.retain(|courier| !std::ptr::eq(&**courier, self));
        COUNT.store(couriers.len(), Ordering::Release);
        drop(couriers);
        // Receives are withdrawn before their communicator is dropped.
        let Below { comm, receiving, sending } = ended;
        drop((receiving, sending));
        drop(comm);
    }

    /// Waits until the program's thread has moved something since `seen`, at most for `longest`; returns what is then to be seen.
    fn sleep(&self, seen: u64, longest: Duration) -> u64 {
        let state = self.state.lock();
        self.changed.wait_timeout_while(state, longest, |state| state.changes == seen).0.changes
    }
}

impl Below {
    /// Starts sends, and collects what has arrived. Returns whether any send has left.
    fn advance(&mut self, outgoing: VecDeque<Outgoing>, arrived: &mut Vec<Message>) -> Result<bool> {
        let mut left = false;
        for Outgoing { to, bytes, sent } in outgoing {
            self.sending.push((self.comm.start_send(to, tags::IN_CALLS, bytes)?, sent));
        }
        let mut failed = Ok(());
        self.sending.retain_mut(|(request, sent)| match request.test() {
            Ok(true) => {
                sent.store(true, Ordering::Release);
                left = true;
                false
            }
            Ok(false) => true,
            Err(e) => {
                failed = Err(e);
                true
            }
        });
        failed?;
        loop {
            while self.receiving.len() < RECEIVES {
                self.receiving.push_back(self.comm.start_receive(None, tags::IN_CALLS)?);
            }
            let before = arrived.len();
            for _ in 0..self.receiving.len() {
                let Some(mut request) = self.receiving.pop_front() else { break };
                if request.test()? {
                    arrived.extend(request.wait()?);
                } else {
                    self.receiving.push_back(request);
                }
            }
            if arrived.len() == before {
                return Ok(left);
            }
        }
    }
}

impl State {
    /// Takes a message from below, and those that follow it.
    fn arrive(&mut self, message: Message) {
        let Message { from: sender, mut bytes, .. } = message;
        let suffix = bytes.split_off(bytes.len().saturating_sub(SUFFIX));
        let Some((context, number, tag, from)) = parts(&suffix) else {
            self.failed = Some(Error::new(ErrorKind::Corrupt, "a message without its end").at_rank(sender));
            return;
        };
        let order = self.arriving.entry(sender).or_default();
        order.early.insert(number, Numbered { context, tag, from, bytes });
        let mut ready = Vec::new();
        while let Some(message) = order.early.remove(&order.next) {
            order.next += 1;
            ready.push(message);
        }
        for Numbered { context, tag, from, bytes } in ready {
            self.keep(context, tag, from, bytes);
        }
    }

    /// Keeps a message, unless its communicator was dropped here.
    fn keep(&mut self, context: u64, tag: u32, from: u32, bytes: Vec<u8>) {
        if context >= self.next_context {
            // The communicator is being made; this rank comes later.
            self.inboxes.entry(context).or_default().arrive(from, tag, bytes);
        } else if let Some(inbox) = self.inboxes.get_mut(&context) {
            inbox.arrive(from, tag, bytes);
        }
    }
}

/// What stands behind a message: context, number, tag, sender's rank.
fn parts(suffix: &[u8]) -> Option<(u64, u64, u32, u32)> {
    let (context, rest) = suffix.split_first_chunk()?;
    let (number, rest) = rest.split_first_chunk()?;
    let (tag, rest) = rest.split_first_chunk()?;
    let (from, _) = rest.split_first_chunk()?;
    Some((
        u64::from_le_bytes(*context),
        u64::from_le_bytes(*number),
        u32::from_le_bytes(*tag),
        u32::from_le_bytes(*from),
    ))
}

/// A wait: its time, the clock when it began, and the last change that it has seen.
struct Wait {
    timeout: Duration,
    since: Duration,
    seen: u64,
}

impl Courier for Handle {
    type Wait = Wait;

    fn rank(&self) -> u32 {
        self.0.rank
    }

    fn size(&self) -> u32 {
        self.0.size
    }

    fn next_context(&self) -> u64 {
        self.0.state.lock().next_context
    }

    fn open(&self, context: u64) {
        let mut state = self.0.state.lock();
        state.next_context = state.next_context.max(context + 1);
        state.inboxes.entry(context).or_default();
    }

    fn close(&self, context: u64) {
        self.0.state.lock().inboxes.remove(&context);
    }

    fn send(&self, to: u32, context: u64, tag: u32, from: u32, mut bytes: Vec<u8>) -> Result<Arc<AtomicBool>> {
        let mut state = self.0.state.lock();
        if let Some(failed) = &state.failed {
            return Err(failed.again());
        }
        let sent = Arc::new(AtomicBool::new(to == self.0.rank));
        if to == self.0.rank {
            state.keep(context, tag, from, bytes);
            return Ok(sent);
        }
        let number = state.numbers.entry(to).or_default();
        bytes.extend_from_slice(&context.to_le_bytes());
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes.extend_from_slice(&tag.to_le_bytes());
        bytes.extend_from_slice(&from.to_le_bytes());
        *number += 1;
        state.outgoing.push_back(Outgoing { to, bytes, sent: sent.clone() });
        Ok(sent)
    }

    fn look<T>(&self, context: u64, look: impl FnOnce(&mut Inbox<Vec<u8>>, &Others<'_>) -> T) -> T {
        if self.0.is_moved_here() {
            self.0.move_messages();
        }
        let State { inboxes, failed, .. } = &mut *self.0.state.lock();
        // A rank that is gone is noticed below.
        let others = Others { presence: &|_| Presence::Here, failure: failed.as_ref() };
        look(inboxes.entry(context).or_default(), &others)
    }

    fn withdraw(&self, context: u64, ticket: Ticket) {
        if let Some(inbox) = self.0.state.lock().inboxes.get_mut(&context) {
            inbox.withdraw(ticket);
        }
    }

    fn wait(&self, timeout: Duration) -> Wait {
        let state = self.0.state.lock();
        Wait { timeout, since: state.clock, seen: state.changes }
    }

    fn pause(&self, wait: &mut Wait) -> bool {
        if self.0.state.lock().clock.saturating_sub(wait.since) >= wait.timeout {
            return false;
        }
        if !self.0.is_moved_here() {
            wait.seen = self.0.sleep(wait.seen, LONGEST_SLEEP);
        } else if !move_messages() {
            // Also those of other communicators: a rank that is waited for may wait for them.
            std::thread::sleep(BETWEEN_MOVES);
        }
        true
    }

    fn clock(&self) -> Duration {
        self.0.state.lock().clock
    }

    fn set_idle(&self) {
        if let Some(below) = &*self.0.below.lock() {
            below.comm.set_idle();
        }
    }

    fn shares_memory(&self) -> bool {
        false
    }

    fn split_by_node(comm: &MessageCommunicator<Handle>) -> Result<MessageCommunicator<Handle>> {
        let nodes = comm.all_gather(&node())?;
        let own = &nodes[comm.rank() as usize];
        let color = nodes.iter().position(|node| node == own).unwrap_or(0) as u32;
        let part = comm.part(Some(color), comm.rank())?;
        part.ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "this rank is on no node"))
    }

    fn shared_window(comm: MessageCommunicator<Handle>, _: u64) -> Result<Box<dyn SharedWindow>> {
        let what = "memory shared by ranks whose messages move inside the program's calls";
        Err(Error::new(ErrorKind::Unsupported, what).at_rank(comm.rank()))
    }
}

/// What identifies this node: the number of its boot, and its name.
fn node() -> Vec<u8> {
    let read = |path| std::fs::read(path).unwrap_or_default();
    [read("/proc/sys/kernel/random/boot_id"), read("/proc/sys/kernel/hostname")].concat()
}
