//! Subfiles beside a metadata file: their names, what rank 0 does when an output opens, where the closed steps of one end.
//!
//! Shared by the methods that write `<name>.dir/<name>.<number>` and keep the index in `<name>`.
//!
//! A process that extends a file it has not seen before compares the index with every subfile before anything is written
//! or cut: rank 0 tells all where the data end that the index lists in each ([`AllListed`]) and which runs wrote it, and
//! whoever extends a subfile finds whole process groups at least up to there, the last that is listed of such a run and of
//! this subfile. A subfile that is missing, emptied, cut, or exchanged for another's fails the open on all ranks.
//! A process that has extended the file before knows how long each subfile was, and the run of its last process group: it
//! reads the end of the subfile, in one request for both, and fails the open where either differs.

use crate::method::{Mode, OpenRequest, Opened, file_name, folder_of};
use crate::output_file::commit::{IndexFile, IndexKeeper};
use crate::output_file::handle::Handle;
use crate::output_file::live_index::{AsSource, LiveIndex};
use crate::output_file::open_index::{self, First, OpenIndex, next_time};
use std::collections::BTreeMap;
use thalweg_bp::characteristic::SINGLE_FILE;
use thalweg_bp::extension::Tag;
use thalweg_bp::footer::{Footer, MINIFOOTER};
use thalweg_bp::index::Index;
use thalweg_bp::live;
use thalweg_bp::opening::Openings;
use thalweg_bp::scan;
use thalweg_bp::source::{self, Source};
use thalweg_bp::trailer::Trailer;
use thalweg_bp::wire::{Cursor, Put};
use thalweg_comm::Communicator;
use thalweg_comm::agreement::agree;
use thalweg_comm::guarded::caught;
use thalweg_layout::{Layout, OpenWrite, WriteObject, WriterId};
use thalweg_types::{ByteOrder, Error, ErrorKind, Result};

/// The folder of subfiles.
pub fn subfile_folder(path: &str) -> String {
    format!("{path}.dir")
}

/// The path of a subfile.
pub fn subfile(path: &str, number: u32) -> String {
    format!("{path}.dir/{}.{number}", file_name(path))
}

/// Opens a subfile that may be new. Returns also whether it was made now, where the mode is to extend what is there.
///
/// # Errors
/// Those of the store.
pub fn open_own(layout: &dyn Layout, path: &str, mode: Mode, number: u32) -> Result<(Box<dyn WriteObject>, bool)> {
    let open = |how| layout.open_write(path, how, WriterId(number));
    if mode == Mode::Write {
        return Ok((open(OpenWrite::Replace)?, false));
    }
    match open(OpenWrite::Existing) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok((open(OpenWrite::Any)?, true)),
        opened => Ok((opened?, false)),
    }
}

/// Bytes that hold the trailer of a process group of 22 blocks.
const TAIL: u64 = 512;

/// The end of a subfile, read in one request.
struct Tail<'o> {
    object: &'o dyn WriteObject,
    bytes: Vec<u8>,
    end: u64,
    /// Nothing lies behind `end`.
    ends: bool,
}

impl<'o> Tail<'o> {
    /// The bytes before byte `end`; `None` where the subfile is shorter, or where the store reads no object that is open for
    /// writing.
    fn read(object: &'o dyn WriteObject, end: u64) -> Result<Option<Tail<'o>>> {
        let wanted = end.min(TAIL) as usize;
        let mut bytes = vec![0; wanted + 1];
        let got = match object.read_at(end - wanted as u64, &mut bytes) {
            Err(e) if e.kind() == ErrorKind::Unsupported => return Ok(None),
            got => got?,
        };
        bytes.truncate(wanted);
        Ok((got >= wanted).then_some(Tail { object, bytes, end, ends: got == wanted }))
    }

    /// The trailer of the process group that ends the subfile, if one does.
    fn trailer(&self) -> Result<Option<Trailer>> {
        scan::trailer_before(self, self.end, ByteOrder::NATIVE)
    }
}

impl Source for Tail<'_> {
    fn length(&self) -> u64 {
        self.end
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let start = self.end - self.bytes.len() as u64;
        match offset.checked_sub(start).and_then(|from| self.bytes.get(from as usize..)?.get(..out.len())) {
            Some(bytes) => {
                out.copy_from_slice(bytes);
                Ok(())
            }
            None => AsSource::up_to(self.object, self.end).read(offset, out),
        }
    }
}

/// A subfile holds another's data.
fn exchanged(trailer: &Trailer, number: u32) -> Error {
    let Trailer { rank, run, file_index, .. } = trailer;
    let what = match *file_index == number {
        true => format!(
            "the subfile's last data, of rank {rank}, are of run {run:x}, which this process neither wrote nor found there: it was exchanged for another"
        ),
        false => format!(
            "the subfile holds data of rank {rank} that belong into subfile {file_index}: it was exchanged for another"
        ),
    };
    let safe = "nothing was changed; steps whose data lie in other subfiles can be read";
    Error::new(ErrorKind::Corrupt, what).at_byte(trailer.group.offset).safe(safe)
}

/// Checks a subfile of which this process knows the length and the run of the last process group.
///
/// # Errors
/// `NotFound` where it is missing, `Torn` where it is shorter, `Corrupt` where it was exchanged for another: nothing was
/// changed.
/// # Cost
/// One read; the headers of all process groups where a copy that was stuck is the last thing in the subfile.
pub fn check_known(
    request: &OpenRequest<'_>,
    number: u32,
    path: &str,
    object: &dyn WriteObject,
    made: bool,
) -> Result<()> {
    if made {
        // Best effort: an empty file says no less than none.
        let _ = request.layout.remove(path);
        let what = "the subfile is missing: it was removed since this process wrote to it";
        return Err(Error::new(ErrorKind::NotFound, what).safe("nothing was changed"));
    }
    let (least, runs) = request.cache.known_of(path);
    let mut last = Tail::read(object, least)?.map_or(Ok(None), |tail| tail.trailer())?;
    if last.is_none() {
        request.cache.is_longer(path, object.length()?)?;
        last = closed_groups(object, Mode::Update, u32::MAX)?.trailer;
    }
    match last {
        Some(trailer) if trailer.file_index != number => Err(exchanged(&trailer, number)),
        Some(trailer) if !runs.is_empty() && !runs.contains(&trailer.run) => Err(exchanged(&trailer, number)),
        Some(trailer) => {
            request.cache.set_found_run(path, trailer.run);
            Ok(())
        }
        None => Ok(()),
    }
}

/// What the index lists of a subfile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listed {
    /// The last byte at which a payload or attribute begins: the subfile has a whole process group around it.
    reach: u64,
    /// First and last step with data in it.
    steps: (u32, u32),
}

/// What an index lists of all subfiles.
#[derive(Debug, Default)]
pub struct AllListed {
    /// By number of the subfile.
    files: BTreeMap<u32, Listed>,
    /// The record of the runs that wrote it; empty where the file says none.
    runs: Vec<u8>,
}

impl AllListed {
    /// Compares a subfile with what is listed of it.
    ///
    /// - `object`: the subfile; `None` where there is none. `made`: it was missing, and was made.
    /// - `closed`: where its last process group of a closed step ends, and that group's trailer, where it has one.
    ///
    /// # Errors
    /// `NotFound` where it was missing, `Torn` where it is too short, `Corrupt` where the last group that is listed is of another
    /// run or another subfile; those of reading.
    fn check(&self, number: u32, object: Option<&dyn WriteObject>, closed: Closed, made: bool) -> Result<()> {
        let Some(listed) = self.files.get(&number) else { return Ok(()) };
        listed.check(closed.end, made)?;
        let (Some(object), Some(mut trailer)) = (object, closed.trailer) else { return Ok(()) };
        // Behind it lies what an output that never closed added to a closed step.
        let source = AsSource::new(object)?;
        while trailer.group.offset > listed.reach {
            match scan::trailer_before(&source, trailer.group.offset, ByteOrder::NATIVE)? {
                Some(before) => trailer = before,
                None => return Ok(()),
            }
        }
        if trailer.file_index != number {
            return Err(exchanged(&trailer, number));
        }
        let mut openings = Openings::default();
        openings.add(&self.runs, ByteOrder::NATIVE);
        let runs = openings.of(trailer.time_index);
        if !runs.is_empty() && runs.iter().all(|o| o.run != 0 && o.run != trailer.run) {
            let what = format!(
                "the subfile's last data, of rank {}, are of run {:x}; the index lists run {:x} there: it was exchanged for another",
                trailer.rank,
                trailer.run,
                runs.last().map_or(0, |o| o.run)
            );
            let safe = "nothing was changed; steps whose data lie in other subfiles can be read";
            return Err(Error::new(ErrorKind::Corrupt, what).at_byte(trailer.group.offset).safe(safe));
        }
        Ok(())
    }
}

/// What an index lists of each subfile.
fn listed(index: &Index) -> Result<AllListed> {
    let mut all = BTreeMap::new();
    for entry in index.variables.entries().iter().chain(index.attributes.entries()) {
        live::for_each_set(&mut Cursor::new(&entry.sets, ByteOrder::NATIVE, 0), entry.code, entry.count, |set| {
            if set.file_index == SINGLE_FILE {
                return Ok(());
            }
            let step = set.time_index.saturating_sub(index.first_time());
            let own = Listed { reach: set.payload_offset, steps: (step, step) };
            let known = all.entry(set.file_index).or_insert(own);
            known.reach = known.reach.max(own.reach);
            known.steps = (known.steps.0.min(step), known.steps.1.max(step));
            Ok(())
        })?;
    }
    Ok(AllListed { files: all, runs: index.records.get(Tag::Run).to_vec() })
}

impl Listed {
    fn steps(&self) -> String {
        let (first, last) = self.steps;
        if first == last { format!("step {first}") } else { format!("steps {first} to {last}") }
    }

    /// Whether a subfile whose whole process groups end at `end` holds what is listed.
    ///
    /// # Errors
    /// `NotFound` where the subfile was missing (`made`), `Torn` where it is too short.
    fn check(&self, end: u64, made: bool) -> Result<()> {
        if end > self.reach {
            return Ok(());
        }
        let error = match (made, end) {
            (true, _) => {
                Error::new(ErrorKind::NotFound, format!("the subfile is missing: it held data of {}", self.steps()))
            }
            (_, 0) => {
                Error::new(ErrorKind::Torn, format!("the subfile holds nothing: it held data of {}", self.steps()))
            }
            (_, end) => {
                let what = format!(
                    "the subfile holds no whole process group behind byte {end}; the index lists data of {} in it",
                    self.steps()
                );
                Error::new(ErrorKind::Torn, what).at_byte(end)
            }
        };
        Err(error
            .safe("nothing was changed; what the other subfiles hold can be read, `thalweg verify` names what is lost"))
    }
}

/// Collective: what rank 0 knows is listed, on all ranks, and its number.
fn tell(comm: &dyn Communicator, own: Option<&AllListed>, number: u32) -> Result<(AllListed, u32)> {
    let mut bytes = Vec::new();
    bytes.put_u32(number);
    let runs = own.map_or(&[][..], |all| &all.runs);
    bytes.put_u64(runs.len() as u64);
    bytes.put(runs);
    for (number, l) in own.into_iter().flat_map(|all| &all.files) {
        [*number, l.steps.0, l.steps.1].into_iter().for_each(|n| bytes.put_u32(n));
        bytes.put_u64(l.reach);
    }
    comm.broadcast(0, &mut bytes)?;
    let mut c = Cursor::new(&bytes, ByteOrder::NATIVE, 0);
    let told = c.u32("number")?;
    let length = c.u64("runs")?;
    let mut all = AllListed { runs: c.take_u64(length, "runs")?.to_vec(), ..AllListed::default() };
    while c.left() > 0 {
        let (number, steps) = (c.u32("subfile")?, (c.u32("subfile")?, c.u32("subfile")?));
        all.files.insert(number, Listed { reach: c.u64("subfile")?, steps });
    }
    Ok((all, told))
}

/// What rank 0 does with the folder of subfiles and the file that holds the index.
///
/// - `files`: how many subfiles this output writes; those of higher numbers are removed, or end with a closed step.
///
/// # Errors
/// As [`open_index::begin`]; those of making and listing the folder.
pub fn begin(request: &OpenRequest<'_>, files: u32, sync: bool) -> Result<Begun> {
    let is_new = request.layout.make_new_folder(&subfile_folder(request.path))?;
    let begun = open_index::begin(request, true);
    if begun.is_err() && is_new {
        // Best effort: an empty folder says no less than none.
        let _ = request.layout.remove(&subfile_folder(request.path));
    }
    let (object, first) = begun?;
    let mut all = None;
    if request.mode == Mode::Write {
        if !is_new {
            remove_stale(request, files)?;
        }
    } else if first.live.end() == 0 {
        if !is_new {
            check_orphans(request)?;
        }
    } else if !first.known {
        let time_index = next_time(request.mode, first.live.last_time());
        let known = listed(first.live.index())?;
        check_others(request, files, time_index, &known)?;
        all = Some(known);
        if !first.live.is_dropping() {
            cut_leftovers(request, files, time_index, sync)?;
        }
    }
    Ok(Begun { object, first, listed: all })
}

/// What rank 0 finds out first.
pub struct Begun {
    /// The metadata file.
    object: Box<dyn WriteObject>,
    /// What it holds.
    pub first: First,
    /// What is listed of subfiles, where this process has not extended the file before.
    listed: Option<AllListed>,
}

/// An index that lists nothing, beside subfiles that hold several steps, was lost: to begin anew would cut them all off.
fn check_orphans(request: &OpenRequest<'_>) -> Result<()> {
    for (_, path) in others(request, 0)? {
        let object = request.layout.open_write(&path, OpenWrite::Existing, WriterId(0))?;
        let source = AsSource::new(&*object)?;
        let last =
            scan::trailer_before(&source, source.length(), ByteOrder::NATIVE).map_err(|e| e.in_object(&*path))?;
        if let Some(trailer) = last.filter(|t| t.time_index > 1) {
            let what = format!(
                "the file holds no index, and {path} holds data up to step {}: `thalweg recover` makes the index again",
                trailer.time_index - 1
            );
            let error = Error::new(ErrorKind::Torn, what).in_object(request.path);
            return Err(error.safe("nothing was changed; the subfiles hold the steps"));
        }
    }
    Ok(())
}

/// Compares the subfiles that this output does not write with what is listed.
fn check_others(request: &OpenRequest<'_>, files: u32, time_index: u32, all: &AllListed) -> Result<()> {
    for number in all.files.range(files..).map(|(number, _)| *number) {
        let path = subfile(request.path, number);
        let check = || match request.layout.open_write(&path, OpenWrite::Existing, WriterId(number)) {
            Ok(object) => {
                let closed = closed_groups(&*object, request.mode, time_index)?;
                all.check(number, Some(&*object), closed, false)
            }
            Err(e) if e.kind() == ErrorKind::NotFound => all.check(number, None, Closed::default(), true),
            Err(e) => Err(e),
        };
        check().map_err(|e| e.in_object(&*path))?;
    }
    Ok(())
}

/// Subfiles that this output does not write: those of an earlier, larger run.
fn others(request: &OpenRequest<'_>, files: u32) -> Result<Vec<(u32, String)>> {
    let folder = subfile_folder(request.path);
    let prefix = format!("{}.", file_name(request.path));
    let names = request.layout.list(&folder)?;
    let number = |name: &str| name.strip_prefix(&prefix).and_then(|n| n.parse::<u32>().ok());
    let all = names.iter().filter_map(|name| Some((number(name)?, format!("{folder}/{name}"))));
    Ok(all.filter(|(n, _)| *n >= files).collect())
}

/// Removes subfiles that a new file does not have.
fn remove_stale(request: &OpenRequest<'_>, files: u32) -> Result<()> {
    others(request, files)?.into_iter().try_for_each(|(_, path)| request.layout.remove(&path))
}

/// Cuts off what an output that never closed left in subfiles that this one does not write: found again without an
/// index, it would be taken for a part of the step that is written now.
///
/// # Errors
/// Those of the store.
pub fn cut_leftovers(request: &OpenRequest<'_>, files: u32, time_index: u32, sync: bool) -> Result<()> {
    for (number, path) in others(request, files)? {
        let object = request.layout.open_write(&path, OpenWrite::Existing, WriterId(number))?;
        let end = closed_end(&*object, request.mode, time_index).map_err(|e| e.in_object(path))?;
        if object.length()? > end {
            object.truncate(end)?;
            if sync {
                object.sync()?;
            }
            object.close()?;
        }
    }
    Ok(())
}

/// The end of the last process group of a subfile that belongs to a closed step.
///
/// - `time_index`: of the output that opens. In append mode a group of that step or a later one was left by an output
///   that never closed, or is of a dropped step.
///
/// # Errors
/// Those of reading; `Corrupt` where process groups cannot be told apart.
fn closed_end(object: &dyn WriteObject, mode: Mode, time_index: u32) -> Result<u64> {
    Ok(closed_groups(object, mode, time_index)?.end)
}

/// The process groups of a subfile that belong to closed steps.
#[derive(Debug, Default)]
struct Closed {
    /// Where the last one ends.
    end: u64,
    /// Its trailer, where it has one and was found by it.
    trailer: Option<Trailer>,
}

/// As [`closed_end`], and what the last group says of itself.
fn closed_groups(object: &dyn WriteObject, mode: Mode, time_index: u32) -> Result<Closed> {
    let at = |end: u64| Ok(Closed { end, trailer: None });
    let source = AsSource::new(object)?;
    let mut end = source.length();
    let leftover = |time: u32| match mode {
        Mode::Write => true,
        Mode::Append | Mode::AppendAfter(_) => time >= time_index,
        Mode::Update => time > time_index,
    };
    while end > 0 {
        let Some(trailer) = scan::trailer_before(&source, end, ByteOrder::NATIVE)? else { break };
        if !leftover(trailer.time_index) {
            return Ok(Closed { end, trailer: Some(trailer) });
        }
        end = trailer.group.offset;
    }
    if end == 0 {
        return at(0);
    }
    // The subfiles of ADIOS 1.13 end with an index of their own.
    let is_footed = end >= MINIFOOTER && Footer::decode(&source::array(&source, end - MINIFOOTER)?, end).is_ok();
    if is_footed && !matches!(mode, Mode::AppendAfter(_)) {
        return at(end);
    }
    let scan = scan::scan(&source, ByteOrder::NATIVE)?;
    // No step of it is dropped.
    if is_footed && !scan.groups.iter().any(|g| leftover(g.header.time_index)) {
        return at(end);
    }
    let kept = scan.groups.iter().filter(|g| !leftover(g.header.time_index));
    let end = kept.filter_map(|g| g.extent.end()).max().unwrap_or(0);
    // Holes lay behind it.
    let trailer = if end > 0 { scan::trailer_before(&source, end, ByteOrder::NATIVE)? } else { None };
    Ok(Closed { end, trailer })
}

/// A subfile that a rank has opened before all agree that the output is open.
pub struct Early<'o> {
    /// Its number.
    pub number: u32,
    /// Its path.
    pub path: &'o str,
    /// The file.
    pub object: &'o dyn WriteObject,
    /// It was not there.
    pub made: bool,
}

/// The metadata file of an output that is open.
pub struct Metadata {
    /// What it is open for.
    pub index: OpenIndex,
    /// On rank 0, and on whoever keeps the index after it is lost.
    object: Option<Box<dyn WriteObject>>,
    /// What is listed of subfiles; `None` where this process knows them.
    listed: Option<AllListed>,
}

impl Metadata {
    /// Collective: as [`OpenIndex::agree`].
    ///
    /// - `outcome`: what this rank has opened so far; `first`: on rank 0, what [`begin`] found; `files` as there.
    /// - `told`: numbers of rank 0 that all are to know. `early`: where steps are dropped, the subfiles of this rank, which are
    ///   compared with the index before; those that were made are removed again where the open fails.
    ///
    /// # Errors
    /// As [`OpenIndex::agree`].
    pub fn agree(
        request: &OpenRequest<'_>,
        (files, sync): (u32, bool),
        outcome: Result<()>,
        first: Option<Begun>,
        told: &[u64],
        early: &[Early<'_>],
    ) -> Result<(Metadata, Opened, Vec<u64>)> {
        let agreed = Metadata::agreed(request, (files, sync), outcome, first, told, early);
        if agreed.is_err() {
            for made in early.iter().filter(|e| e.made) {
                // Best effort: an empty file says no less than none.
                let _ = caught("remove a subfile", || request.layout.remove(made.path));
            }
        }
        agreed
    }

    fn agreed(
        request: &OpenRequest<'_>,
        (files, sync): (u32, bool),
        outcome: Result<()>,
        first: Option<Begun>,
        told: &[u64],
        early: &[Early<'_>],
    ) -> Result<(Metadata, Opened, Vec<u64>)> {
        let (mut object, mut own, mut begun) = (None, None, None);
        if let Some(first) = first {
            (object, begun, own) = (Some(first.object), Some(first.first), first.listed);
        }
        let first = begun;
        let (mut outcome, mut before) = (outcome, None);
        if let Mode::AppendAfter(_) = request.mode {
            // Rank 0 knows at which time index steps begin.
            let next = first.as_ref().map_or(0, |first| next_time(request.mode, first.live.last_time()));
            let (all, time_index) = tell(request.comm, own.as_ref(), next)?;
            outcome = outcome.and_then(|()| {
                early.iter().try_for_each(|e| {
                    if !all.files.contains_key(&e.number) {
                        return Ok(());
                    }
                    let closed = || closed_groups(e.object, request.mode, time_index);
                    let check = || all.check(e.number, Some(e.object), closed()?, e.made);
                    caught("compare a subfile with the index", check).map_err(|error| error.in_object(e.path))
                })
            });
            before = Some(all);
        }
        let mut numbers = vec![u64::from(own.is_some())];
        numbers.extend_from_slice(told);
        let drop_steps = |live: &mut LiveIndex, time_index| {
            // Subfiles are cut only when no index lists those steps any more.
            object.as_deref().map_or(Ok(()), |object| live.shorten(object, sync))?;
            cut_leftovers(request, files, time_index, sync)
        };
        let agreed = OpenIndex::agree(request, (true, sync), outcome, first, &numbers, drop_steps);
        let (index, opened, mut told) = agreed?;
        let listed = match (told.remove(0), before) {
            (0, _) => None,
            (_, Some(told)) => Some(told),
            _ => Some(tell(request.comm, own.as_ref(), 0)?.0),
        };
        Ok((Metadata { index, object: object.take(), listed }, opened, told))
    }

    /// Collective: where the subfiles were compared with the index, all ranks hear what this one found.
    ///
    /// # Errors
    /// The same kind on all ranks; nothing was cut or written then.
    pub fn agree_on_subfiles(&mut self, comm: &dyn Communicator, found: Result<()>) -> Result<()> {
        let agreed = match self.listed {
            Some(_) => agree(comm, found, "extend the subfiles", &[]).map(drop),
            None => return Ok(()),
        };
        if agreed.is_err() {
            self.compare_again();
        }
        agreed
    }

    /// The next open compares the subfiles with the index again.
    pub fn compare_again(&mut self) {
        self.index.forget();
    }

    /// The output is closed.
    ///
    /// - `indexed`: its step is in this rank's index.
    pub fn closed(&mut self, indexed: bool) {
        self.index.closed(indexed);
    }

    /// Where this output begins in a subfile; what an output that never closed left there is cut off.
    ///
    /// - `made`: it was not there.
    ///
    /// # Errors
    /// `NotFound` or `Torn` where it lacks data of closed steps, `Corrupt` where it holds another's; it is then as it was, or removed again where it was made.
    pub fn start_in(&self, number: u32, path: &str, object: &dyn WriteObject, made: bool) -> Result<u64> {
        let mode = self.index.mode;
        if mode == Mode::Write {
            return Ok(0);
        }
        let start = self.closed_start(number, path, object, made);
        if start.is_err() && made {
            // Best effort: an empty file says no less than none.
            let _ = self.index.layout.remove(path);
        }
        let start = start.map_err(|e| e.in_object(path))?;
        self.index.cache.set_least(&self.end_key(path), start);
        Ok(start)
    }

    fn closed_start(&self, number: u32, path: &str, object: &dyn WriteObject, made: bool) -> Result<u64> {
        let (mode, key) = (self.index.mode, self.end_key(path));
        let cache = &self.index.cache;
        let restarts = matches!(mode, Mode::AppendAfter(_));
        let known = if restarts || made { None } else { cache.end_of(&key) };
        if let Some(end) = known
            && let Some(tail) = Tail::read(object, end)?
            && let Some(trailer) = tail.trailer()?
        {
            self.check_own(number, &key, &trailer)?;
            if tail.ends {
                return Ok(end);
            }
        }
        let length = object.length()?;
        if !restarts {
            // Its length, not where its groups end: a copy that counts for nothing, and was the last thing in it, may have been marked
            // as dead since.
            cache.is_longer(&key, length)?;
        }
        let closed = closed_groups(object, mode, self.index.time_index)?;
        let end = closed.end;
        let found = closed.trailer.as_ref().map_or(0, |trailer| trailer.run);
        match (&self.listed, &closed.trailer) {
            (Some(all), _) => all.check(number, Some(object), closed, made)?,
            (None, Some(trailer)) if !restarts => self.check_own(number, &key, trailer)?,
            (None, None) if !restarts && !made && cache.is_own(&key) => {
                let what = "the subfile holds no process group of a closed step: this process wrote some to it";
                return Err(Error::new(ErrorKind::Torn, what).safe("nothing was changed"));
            }
            _ => {}
        }
        cache.set_found_run(path, found);
        if restarts {
            cache.is_not_own(&key);
        }
        if length > end {
            object.truncate(end)?;
        }
        Ok(end)
    }

    /// Checks that a process group belongs to subfile `number`, and to this process's run where the last one must.
    fn check_own(&self, number: u32, key: &str, trailer: &Trailer) -> Result<()> {
        let stranger = self.index.cache.is_own(key) && trailer.run != self.index.run;
        if stranger || trailer.file_index != number { Err(exchanged(trailer, number)) } else { Ok(()) }
    }

    /// Opens a subfile that nobody else writes, for a rank whose own way is lost. Returns its path, and where this output
    /// starts in it.
    ///
    /// # Errors
    /// Those of the store, with the path.
    pub fn open_subfile(&self, number: u32) -> Result<(String, Handle, u64)> {
        let (layout, path) = (&self.index.layout, subfile(&self.index.path, number));
        layout.make_folder(&subfile_folder(&self.index.path))?;
        let (object, made) = open_own(&**layout, &path, self.index.mode, number)?;
        let start = self.start_in(number, &path, &*object, made)?;
        Ok((path, Handle::from(object), start))
    }

    /// Keeps the end of a subfile for the next output; `None` where that is to look, as after a failure: the step may be
    /// in the index or not.
    pub fn keep_end(&self, path: &str, end: Option<u64>) {
        self.index.cache.set_end(&self.end_key(path), end);
    }

    fn end_key(&self, path: &str) -> String {
        format!("{}:{path}", self.index.run)
    }

    /// Closes a subfile; it and its name are durable where the output is to be.
    ///
    /// # Errors
    /// Those of the store: what was written may be lost.
    pub fn end_subfile(&self, path: &str, object: &Handle) -> Result<()> {
        object.end(self.index.sync).map_err(|e| e.at_rank(self.index.rank).in_object(path))?;
        if self.index.sync { self.index.layout.sync_folder(folder_of(path)) } else { Ok(()) }
    }
}

impl IndexKeeper for Metadata {
    fn index(&mut self) -> Result<IndexFile<'_>> {
        let index = &mut self.index;
        let object = match self.object.take() {
            Some(object) => object,
            None => index.layout.open_write(&index.path, OpenWrite::Any, WriterId(index.rank))?,
        };
        index.file(&**self.object.insert(object))
    }

    fn forget_index(&mut self) {
        self.index.forget();
    }

    fn end_index(&mut self) -> Result<()> {
        self.object.take().map_or(Ok(()), |object| self.index.end(object))
    }
}
