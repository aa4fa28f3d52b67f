//! A file that all ranks of a communicator open together to read it, so that its index is read once and not by every rank.
//!
//! | question | answer |
//! |----------|--------|
//! | who opens | every rank calls [`Together::open`]; rank 0 looks at the file when all are there, so all that any of them had closed is seen |
//! | who reads which index log | each is read by one rank, index bytes spread evenly |
//! | `flat`, `pattern` | fragments travel up a tree ([`tree_gather`]), joined on the way; the whole is broadcast, and each rank holds it |
//! | `distributed` | entries go straight to the ranks that own the ranges of the file that they meet, 64 MiB each in turn; no rank ever holds all of them |
//! | appended records | lie where all that came before them ends: dealt once all ranks have told how far each clock of each log reaches |
//! | asking an owner | only together: [`Together::look_up_all`], [`Together::read_all`]. What was learned stays as long as it fits `index_cache` |
//! | reading alone | any time, with `flat` and `pattern`; with `distributed` what this rank owns or has learned, else `NotReady` |
//! | memory, `flat`, `pattern` | the index; while opening also what all index logs take, twice |
//! | memory, `distributed` | `index_cache`; while opening also [`MOST_ENTRIES`] entries to send and as many received (of more than 64 ranks [`LEAST_ENTRIES`] each), 60 bytes for each clock of each log, what the index logs of this rank's share take of appended records |
//! | files of other layouts, files that are being written | are opened by each rank alone; all calls work |
//! | on failure | all ranks return the same error: the lowest failing rank's, with its place and cause; the others add who reported it |
//!
//! Sources: Bent et al., SC 2009 (ranks share the reading of the index); Greenberg, Bent, Grider, HotStorage 2015 (MDHIM:
//! ranges of one index, each with an owner). Differs: owners are asked in exchanges that all ranks take part in, so no rank
//! needs a thread that serves.

use std::sync::{Mutex, MutexGuard, PoisonError};
use thalweg_comm::agreement::agree;
use thalweg_comm::tree_gather::{self, Gathering};
use thalweg_comm::{Communicator, Reduce, Request, tags};
use thalweg_layout::container::index::block::Entry;
use thalweg_layout::container::index::distributed::Part;
use thalweg_layout::container::index::{Module, Source};
use thalweg_layout::container::parallel::{Bases, Fragment, Opening, Pile, Reach};
use thalweg_layout::container::part::{PartBuilder, PartFile, Section};
use thalweg_layout::{Container, Layout, ReadObject};
use thalweg_types::{Error, ErrorKind, Result};

/// Entries that a rank gathers for the others before it sends them: about 6 MiB. Shared out evenly, but at least
/// [`LEAST_ENTRIES`] for each rank, so that a rank receives as many in an exchange.
pub const MOST_ENTRIES: usize = 1 << 16;
/// Entries gathered for one rank at least.
pub const LEAST_ENTRIES: usize = 1 << 10;
/// Pieces in an answer to one rank, give or take those of a stretch that is looked through at a time.
pub const MOST_PIECES: usize = 1 << 14;

/// A file open on all ranks of a communicator. Any thread may call; collective calls take turns.
pub struct Together {
    comm: Mutex<Box<dyn Communicator>>,
    file: Held,
}

enum Held {
    /// All of it can be read alone.
    Whole(Box<dyn ReadObject>),
    Part(Box<PartFile>),
}

impl Together {
    /// Collective: opens a file to read it.
    ///
    /// - `comm`: no others' messages pass through it.
    /// - `at`: the layout, and the file's name in it, the same on all ranks; or why this rank has none, which the others hear.
    /// - `fan_in`: most ranks that one rank takes fragments from ([`thalweg_comm::tree::FAN_IN`]).
    ///
    /// # Errors
    /// On all ranks the lowest failing one's: what an open says, a log that cannot be read, a lost rank.
    /// # Cost
    /// Rank 0: as an open, without index logs. Every rank: its share of the index logs; three reductions, a broadcast, and what
    /// the module asks for.
    pub fn open(comm: Box<dyn Communicator>, at: Result<(&dyn Layout, &str)>, fan_in: u32) -> Result<Together> {
        let file = open(&*comm, at, fan_in)?;
        Ok(Together { comm: Mutex::new(comm), file })
    }

    fn comm(&self) -> MutexGuard<'_, Box<dyn Communicator>> {
        // A call that panicked has lost its own work only.
        self.comm.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this rank holds a part of the index only.
    pub fn is_part(&self) -> bool {
        matches!(self.file, Held::Part(_))
    }

    /// Bytes of memory that this rank's part of the index takes, and what it learned of others; `None` where it has all of it.
    pub fn memory(&self) -> Option<(usize, usize)> {
        match &self.file {
            Held::Whole(_) => None,
            Held::Part(part) => Some(part.memory()),
        }
    }

    /// Collective: learns where bytes lie, each rank of those it asks for, to read them alone afterwards.
    ///
    /// - `ranges`: first byte and end. What goes beyond the end of the file does not matter.
    ///
    /// What earlier calls learned is forgotten first, where it takes more memory than `index_cache`; what this one does is kept
    /// however much that is: about 100 bytes a piece.
    ///
    /// # Errors
    /// On all ranks the lowest failing one's.
    /// # Cost
    /// Two exchanges of all with all for as many ranges of 64 MiB as there are ranks, or [`MOST_PIECES`] pieces; one more, and
    /// a reduction.
    pub fn look_up_all(&self, ranges: &[(u64, u64)]) -> Result<()> {
        let comm = self.comm();
        let doing = "look up where bytes lie";
        let Held::Part(part) = &self.file else { return agreed(&**comm, Ok(()), doing, &[]).map(|_| ()) };
        let trimmed = part.trim();
        let wanted = ranges.iter().flat_map(|(from, to)| part.sections(*from, *to)).filter(|s| !part.knows(s));
        let learned = ask(&**comm, part, wanted, |_, _| Ok(()))?;
        agreed(&**comm, trimmed.and(learned), doing, &[]).map(|_| ())
    }

    /// Collective: reads at `offset` as much as there is, up to `out.len()`, which may be 0; returns how much.
    ///
    /// # Errors
    /// On all ranks the lowest failing one's.
    /// # Cost
    /// With `flat` and `pattern` a reduction, and what a read alone costs. With `distributed` what
    /// [`look_up_all`](Together::look_up_all) costs; memory for [`MOST_PIECES`] pieces and `index_cache`.
    pub fn read_all(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        let comm = self.comm();
        let doing = "read the file";
        let part = match &self.file {
            Held::Part(part) => part,
            Held::Whole(object) => {
                let read = object.read_at(offset, out);
                let (count, own) = apart(read);
                agreed(&**comm, own, doing, &[])?;
                return Ok(count.unwrap_or(0));
            }
        };
        let count = usize::try_from(part.bytes().saturating_sub(offset)).unwrap_or(usize::MAX).min(out.len());
        let out = &mut out[..count];
        let mut outcome = Ok(());
        let mut wanted = Vec::new();
        let read = |out: &mut [u8], s: &Section| {
            part.read_exact_at(s.from, &mut out[(s.from - offset) as usize..(s.to - offset) as usize])
        };
        for section in part.sections(offset, offset.saturating_add(count as u64)) {
            match part.knows(&section) {
                true if outcome.is_ok() => outcome = read(&mut *out, &section),
                true => {}
                false => wanted.push(section),
            }
        }
        let asked = ask(&**comm, part, wanted, |part, section| {
            // Of one that failed nothing more is needed, but the others wait for its answers.
            let outcome = read(&mut *out, section);
            part.trim().and(outcome)
        })?;
        agreed(&**comm, outcome.and(asked), doing, &[])?;
        Ok(count)
    }
}

impl ReadObject for Together {
    fn length(&self) -> Result<u64> {
        match &self.file {
            Held::Whole(object) => object.length(),
            Held::Part(part) => part.length(),
        }
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        match &self.file {
            Held::Whole(object) => object.read_at(offset, out),
            Held::Part(part) => part.read_at(offset, out),
        }
    }
}

/// A value, and whether there is one.
fn apart<T>(outcome: Result<T>) -> (Option<T>, Result<()>) {
    match outcome {
        Ok(value) => (Some(value), Ok(())),
        Err(e) => (None, Err(e)),
    }
}

/// Collective: every rank's outcome becomes that of all: where one failed, the lowest failing rank's error, place and cause
/// included; else the greatest of the numbers that each gave.
fn agreed(comm: &dyn Communicator, own: Result<()>, doing: &str, numbers: &[u64]) -> Result<Vec<u64>> {
    if comm.size() == 1 {
        return own.map(|()| numbers.to_vec());
    }
    let told = own.as_ref().err().map(Told::of);
    let e = match agree(comm, own, doing, numbers) {
        Err(e) => e,
        agreed => return agreed,
    };
    if told.is_none() && e.reported_by().is_none() {
        // A rank was lost: there is nobody to ask.
        return Err(e);
    }
    // All ranks come here: they learned that somebody failed.
    let Ok(all) = comm.all_gather(&told.map_or_else(Vec::new, Told::encode)) else { return Err(e) };
    let Some((by, bytes)) = all.iter().enumerate().find(|(_, bytes)| !bytes.is_empty()) else { return Err(e) };
    if by as u32 == comm.rank() {
        return Err(e);
    }
    Err(Told::decode(bytes).map_or(e, |told| told.error(by as u32, comm.rank())))
}

/// What a rank says of its failure.
struct Told {
    kind: ErrorKind,
    byte: Option<u64>,
    what: String,
    object: String,
    cause: String,
}

impl Told {
    fn of(e: &Error) -> Told {
        let mut causes = Vec::new();
        let mut source = std::error::Error::source(e);
        while let Some(cause) = source {
            causes.push(cause.to_string());
            source = cause.source();
        }
        Told {
            kind: e.kind(),
            byte: e.place().byte,
            what: e.what().to_string(),
            object: e.place().object.clone().unwrap_or_default(),
            cause: causes.join(": "),
        }
    }

    /// Kind; byte, the highest for none; length and bytes of what, object and cause.
    fn encode(self) -> Vec<u8> {
        let mut out = vec![self.kind.code()];
        out.extend_from_slice(&self.byte.unwrap_or(u64::MAX).to_le_bytes());
        for text in [self.what, self.object, self.cause] {
            out.extend_from_slice(&(text.len() as u64).to_le_bytes());
            out.extend_from_slice(text.as_bytes());
        }
        out
    }

    fn decode(bytes: &[u8]) -> Option<Told> {
        let (kind, mut rest) = bytes.split_first()?;
        let mut number = || {
            let (head, tail) = rest.split_first_chunk::<8>()?;
            rest = tail;
            Some(u64::from_le_bytes(*head))
        };
        let byte = number()?;
        let mut texts = [String::new(), String::new(), String::new()];
        for text in &mut texts {
            let (head, tail) = rest.split_first_chunk::<8>()?;
            let (words, tail) = tail.split_at_checked(usize::try_from(u64::from_le_bytes(*head)).ok()?)?;
            (*text, rest) = (String::from_utf8_lossy(words).into_owned(), tail);
        }
        let [what, object, cause] = texts;
        Some(Told {
            kind: ErrorKind::from_code(*kind),
            byte: Some(byte).filter(|b| *b != u64::MAX),
            what,
            object,
            cause,
        })
    }

    fn error(self, by: u32, rank: u32) -> Error {
        let mut error = Error::reported(self.kind, by, self.what).at_rank(rank);
        if !self.object.is_empty() {
            error = error.in_object(self.object);
        }
        if let Some(byte) = self.byte {
            error = error.at_byte(byte);
        }
        match self.cause.is_empty() {
            true => error,
            false => error.caused_by(std::io::Error::other(self.cause)),
        }
    }
}

fn open(comm: &dyn Communicator, at: Result<(&dyn Layout, &str)>, fan_in: u32) -> Result<Held> {
    let (at, own) = apart(at);
    let doing = at.map_or_else(|| "open the file".to_string(), |(_, name)| format!("open {name}"));
    let container = at.and_then(|(layout, _)| layout.concrete()).and_then(|any| any.downcast_ref::<Container>());
    // From here on all ranks are in this call, and what they closed before is published. Mount tables may differ from node to
    // node.
    let others = agreed(comm, own, &doing, &[u64::from(container.is_none())])?;
    let Some((layout, name)) = at else { return Err(Error::new(ErrorKind::InvalidArgument, "no file is named")) };
    let shared = match container.filter(|_| others == [0]) {
        Some(container) => shared_opening(comm, container, name, &doing)?.map(|opening| (container, opening)),
        None => None,
    };
    let held = match shared {
        None => layout.open_read(name).map(Held::Whole),
        Some((container, opening)) => match opening.module() {
            Module::Flat | Module::Pattern => joined(comm, container, name, &opening, fan_in, &doing)?,
            Module::Distributed => dealt(comm, container, name, &opening, &doing)?,
        },
    };
    let (held, own) = apart(held);
    agreed(comm, own, &doing, &[])?;
    held.ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "no file is open"))
}

/// What rank 0 sees of the file, on all ranks; `None` where each has to open it alone.
fn shared_opening(comm: &dyn Communicator, container: &Container, name: &str, doing: &str) -> Result<Option<Opening>> {
    let opening = if comm.rank() == 0 { container.opening(name).map(|o| o.encode()) } else { Ok(Vec::new()) };
    let (bytes, own) = apart(opening);
    agreed(comm, own, doing, &[])?;
    let mut bytes = bytes.unwrap_or_default();
    comm.broadcast(0, &mut bytes)?;
    // The same bytes everywhere: what is wrong with them is wrong for all.
    let opening = Opening::decode(&bytes)?;
    Ok(if opening.is_settled()? { Some(opening) } else { None })
}

/// The sessions that this rank reads.
fn share_of(comm: &dyn Communicator, opening: &Opening) -> Result<Vec<usize>> {
    Ok(opening.shares(comm.size() as usize)?.swap_remove(comm.rank() as usize))
}

/// Every rank gets the whole index. The outer error is of the ranks, the inner one this rank's.
fn joined(
    comm: &dyn Communicator,
    container: &Container,
    name: &str,
    opening: &Opening,
    fan_in: u32,
    doing: &str,
) -> Result<Result<Held>> {
    let mut own = share_of(comm, opening).and_then(|share| container.read_share(name, opening, &share));
    let call = Gathering { tag: tags::COLLECTIVE_OPEN, run: 0, time_index: 0, attempt: 0 };
    let join = |own: &mut Result<Fragment>, _, bytes: &[u8]| {
        if let Ok(whole) = own {
            match Fragment::decode(bytes) {
                Ok(more) => whole.join(more),
                Err(e) => *own = Err(e),
            }
        }
    };
    // A rank that has nothing to say says so: the agreement tells why.
    let say = |own: &mut Result<Fragment>| own.as_mut().map(std::mem::take).unwrap_or_default().encode();
    let sent = tree_gather::gather(comm, fan_in, call, &mut own, join, say)?;
    sent.map_or(Ok(None), Request::wait)?;
    let (whole, own) = apart(own);
    agreed(comm, own, doing, &[])?;
    let mut bytes = match whole {
        Some(whole) if comm.rank() == 0 => whole.encode(),
        _ => Vec::new(),
    };
    comm.broadcast(0, &mut bytes)?;
    let whole = Fragment::decode(&bytes);
    drop(bytes);
    Ok(whole.and_then(|whole| container.open_joined(name, opening, &whole)).map(Held::Whole))
}

/// Every rank gets its part of the index. The outer error is of the ranks, the inner one this rank's.
fn dealt(
    comm: &dyn Communicator,
    container: &Container,
    name: &str,
    opening: &Opening,
    doing: &str,
) -> Result<Result<Held>> {
    let part = Part { number: comm.rank().into(), of: comm.size().into() };
    let (builder, own) = apart(container.open_part(name, opening, part));
    agreed(comm, own, doing, &[])?;
    let Some(builder) = builder else { return Ok(Err(Error::new(ErrorKind::InvalidArgument, "no file is open"))) };
    let mut dealer = Dealer::new(comm, builder);
    let told = share_of(comm, opening)
        .and_then(|share| container.tell_share(name, opening, &share, |source, entry| dealer.deal(source, entry)));
    let told = dealer.all_to_their_parts(told)?;
    let appended = agreed(comm, told, doing, &[u64::from(dealer.reach.has_appended())])?;
    let bases = if appended == [1] { Some(bases(comm, &mut dealer.reach)?) } else { None };
    if let Some(bases) = &bases {
        let told = dealer.deal_appended(bases);
        let told = dealer.all_to_their_parts(told)?;
        agreed(comm, told, doing, &[])?;
    }
    let mut built = dealer.builder.finish();
    // How long the file is shows where its last bytes are: each part knows how far its own entries reach.
    let own = built.as_ref().map_or(0, PartFile::bytes);
    let length = comm.all_reduce(&[own], Reduce::Max)?[0];
    if let Ok(part) = &mut built {
        part.is_long(bases.map_or(length, |bases| bases.length()));
    }
    Ok(built.map(|part| Held::Part(Box::new(part))))
}

/// Where appended records begin: all ranks' clocks in their turns.
fn bases(comm: &dyn Communicator, reach: &mut Reach) -> Result<Bases> {
    let mut all = Fragment::default();
    for bytes in comm.all_gather(&reach.take().encode())? {
        all.join(Fragment::decode(&bytes)?);
    }
    // The same bytes everywhere.
    Bases::of(&all)
}

/// Entries on their way to the parts that they belong to.
struct Dealer<'c> {
    comm: &'c dyn Communicator,
    builder: PartBuilder,
    /// For each rank.
    out: Vec<Pile>,
    /// What this rank read of appended records, whose ranges are not known yet: as it will be sent, and the last of them.
    appended: (Fragment, Pile),
    reach: Reach,
    /// Entries for one rank at which all are sent.
    most: usize,
    /// What came could not be taken.
    failed: Option<Error>,
    /// The ranks cannot reach each other any more.
    lost: bool,
}

/// First byte of what a rank sends another: more will come, or this is its last.
const MORE: u8 = 1;
const LAST: u8 = 0;

impl<'c> Dealer<'c> {
    fn new(comm: &'c dyn Communicator, builder: PartBuilder) -> Dealer<'c> {
        let ranks = comm.size() as usize;
        let most = (MOST_ENTRIES / ranks).max(LEAST_ENTRIES);
        Dealer {
            comm,
            builder,
            out: std::iter::repeat_with(Pile::default).take(ranks).collect(),
            appended: Default::default(),
            reach: Reach::default(),
            most,
            failed: None,
            lost: false,
        }
    }

    fn deal(&mut self, source: &Source, entry: Entry) -> Result<()> {
        self.reach.note(source, &entry);
        let ranks = self.comm.size();
        match &entry {
            Entry::Cut { .. } => (0..ranks).try_for_each(|rank| self.put(rank, source, entry)),
            Entry::Run(run) if run.appended => {
                if self.appended.1.add(source, entry) == MOST_ENTRIES {
                    self.appended.0.join(self.appended.1.take());
                }
                Ok(())
            }
            Entry::Run(run) => {
                let (start, end) = run.bounds();
                Part::owners(start, end, ranks.into()).try_for_each(|rank| self.put(rank as u32, source, entry))
            }
        }
    }

    fn deal_appended(&mut self, bases: &Bases) -> Result<()> {
        let (mut all, mut last) = std::mem::take(&mut self.appended);
        all.join(last.take());
        all.each(|source, entry| match entry {
            Entry::Run(run) => self.deal(source, Entry::Run(bases.place(source, &run)?)),
            Entry::Cut { .. } => Ok(()),
        })
    }

    fn put(&mut self, rank: u32, source: &Source, entry: Entry) -> Result<()> {
        if rank == self.comm.rank() {
            return self.builder.add(source, &entry);
        }
        if self.out[rank as usize].add(source, entry) < self.most {
            return Ok(());
        }
        self.exchange(MORE).map(|_| ())
    }

    /// Sends what is gathered and takes what comes. Whether any rank has more.
    fn exchange(&mut self, flag: u8) -> Result<bool> {
        let outcome = self.send_and_take(flag);
        self.lost |= outcome.is_err();
        outcome
    }

    fn send_and_take(&mut self, flag: u8) -> Result<bool> {
        let mut messages = Vec::with_capacity(self.out.len());
        for pile in &mut self.out {
            let fragment = pile.take();
            let mut message = vec![flag];
            if fragment != Fragment::default() {
                message.extend_from_slice(&fragment.encode());
            }
            messages.push(message);
        }
        let came = self.comm.all_to_all(&messages)?;
        drop(messages);
        let mut more = false;
        for message in &came {
            let Some((flag, bytes)) = message.split_first() else { continue };
            more |= *flag == MORE;
            if bytes.is_empty() || self.failed.is_some() {
                continue;
            }
            let builder = &mut self.builder;
            let taken = Fragment::decode(bytes).and_then(|f| f.each(|source, entry| builder.add(source, &entry)));
            self.failed = taken.err();
        }
        Ok(more)
    }

    /// Returns when all ranks have dealt what they have, whatever came of it. The outer error is of the ranks.
    ///
    /// - `told`: how dealing went here. A rank that failed takes part all the same, as the others wait for it.
    fn all_to_their_parts(&mut self, told: Result<()>) -> Result<Result<()>> {
        if self.lost {
            return told.map(Ok);
        }
        while self.exchange(LAST)? {}
        Ok(told.and(self.failed.take().map_or(Ok(()), Err)))
    }
}

/// Collective: asks owners for sections, and takes in what they say, until every rank has all it wants. The outer error is of the
/// ranks, the inner one this rank's, which goes on answering.
///
/// - `then`: called for each stretch that was learned.
fn ask(
    comm: &dyn Communicator,
    part: &PartFile,
    wanted: impl IntoIterator<Item = Section>,
    mut then: impl FnMut(&PartFile, &Section) -> Result<()>,
) -> Result<Result<()>> {
    let ranks = comm.size() as usize;
    if ranks == 1 {
        return Ok(Ok(()));
    }
    let mut wanted = wanted.into_iter().peekable();
    // Sections of which a stretch is learned.
    let mut begun = Vec::new();
    let mut outcome = Ok(());
    loop {
        let mut asks: Vec<Option<Section>> = vec![None; ranks];
        if outcome.is_ok() {
            for section in begun.drain(..) {
                let Section { owner, .. } = section;
                asks[owner as usize] = Some(section);
            }
            // They are dealt in turn: as many that lie behind each other have as many owners.
            while let Some(section) = wanted.next_if(|s| asks[s.owner as usize].is_none()) {
                asks[section.owner as usize] = Some(section);
            }
        }
        let any = u8::from(asks.iter().any(Option::is_some));
        let came = comm.all_to_all(&asks.iter().map(|ask| question(any, ask.as_ref())).collect::<Vec<_>>())?;
        if came.iter().all(|bytes| bytes.first() == Some(&0)) {
            return Ok(outcome);
        }
        let answers: Vec<Vec<u8>> = came.iter().map(|bytes| answer(part, bytes)).collect();
        let came = comm.all_to_all(&answers)?;
        drop(answers);
        for (section, bytes) in asks.into_iter().zip(&came).filter_map(|(ask, bytes)| Some((ask?, bytes))) {
            if outcome.is_err() {
                break;
            }
            outcome = learned(part, section, bytes).and_then(|upto| {
                then(part, &Section { to: upto, ..section })?;
                if upto < section.to {
                    begun.push(Section { from: upto, ..section });
                }
                Ok(())
            });
        }
    }
}

/// Whether this rank asks anybody, then first byte and end.
fn question(any: u8, ask: Option<&Section>) -> Vec<u8> {
    let mut bytes = vec![any];
    if let Some(section) = ask {
        bytes.extend_from_slice(&section.from.to_le_bytes());
        bytes.extend_from_slice(&section.to.to_le_bytes());
    }
    bytes
}

/// How far the answer goes, and a fragment; or 0 and what went wrong. Empty where nothing was asked.
fn answer(part: &PartFile, question: &[u8]) -> Vec<u8> {
    let Some((from, rest)) = question.get(1..).and_then(|b| b.split_first_chunk::<8>()) else { return Vec::new() };
    let Some((to, _)) = rest.split_first_chunk::<8>() else { return Vec::new() };
    match part.answer(u64::from_le_bytes(*from), u64::from_le_bytes(*to), MOST_PIECES) {
        Ok((upto, fragment)) => [&upto.to_le_bytes()[..], &fragment.encode()].concat(),
        Err(e) => [&0u64.to_le_bytes()[..], &Told::of(&e).encode()].concat(),
    }
}

/// Takes an answer; how far it goes.
fn learned(part: &PartFile, asked: Section, bytes: &[u8]) -> Result<u64> {
    let nonsense = || Error::new(ErrorKind::Corrupt, format!("rank {} gave no answer that makes sense", asked.owner));
    let (upto, rest) = bytes.split_first_chunk::<8>().ok_or_else(nonsense)?;
    match u64::from_le_bytes(*upto) {
        // An answer goes at least a stretch beyond its first byte.
        0 => Err(Told::decode(rest).ok_or_else(nonsense)?.error(asked.owner as u32, asked.owner as u32)),
        upto if upto <= asked.from || upto > asked.to => Err(nonsense()),
        upto => {
            part.learn(asked.from, upto, &Fragment::decode(rest)?)?;
            Ok(upto)
        }
    }
}
