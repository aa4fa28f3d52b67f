//! Subfiles of a metadata file: their names, the open on rank 0, and the end of a subfile's closed steps.
//!
//! Shared by the methods that write `<name>.dir/<name>.<number>` and keep the index in `<name>`.
//!
//! A process that extends a file for the first time compares the index with every subfile before it writes or truncates: rank 0
//! broadcasts the end of the listed data of each subfile and the runs that wrote the file ([`AllListed`]). Each rank that
//! extends a subfile checks that whole process groups reach this end, and that the last listed group is of such a run and of
//! this subfile. If a subfile is missing, empty, truncated or replaced, the open fails on all ranks.
//! A process that has extended the file before knows the length of each subfile and the run of its last process group: it
//! reads the end of the subfile in one request, and the open fails if either differs; with ADAPTIVE it is the end of the last
//! process group that this process knows ([`check_known`]). If another node of a burst buffer has the end of a subfile that ranks
//! share, the length alone is compared.

use crate::method::{Mode, OpenRequest, Opened, file_name, folder_of};
use crate::output_file::cache::name_of;
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
use thalweg_layout::{Layout, OpenWrite, OtherNodes, WriteObject, WriterId};
use thalweg_types::{ByteOrder, Error, ErrorKind, Result};

/// The folder of subfiles.
pub fn subfile_folder(path: &str) -> String {
    format!("{path}.dir")
}

/// The path of a subfile.
pub fn subfile(path: &str, number: u32) -> String {
    format!("{path}.dir/{}.{number}", file_name(path))
}

/// Opens or creates a subfile. In modes that extend a file, returns also whether the subfile was created.
///
/// # Errors
/// Errors of the store.
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

/// Said of an output that is refused because of one subfile.
const UNCHANGED: &str = "nothing was changed; steps with data in other subfiles can be read";

/// Bytes read from the end of a subfile; the trailer of a process group with 22 blocks fits.
const TAIL: u64 = 512;

/// The end of a subfile, read in one request.
struct Tail<'o> {
    object: &'o dyn WriteObject,
    bytes: Vec<u8>,
    end: u64,
    /// The subfile ends at `end`.
    ends: bool,
}

impl<'o> Tail<'o> {
    /// Reads the bytes before byte `end`; `None` if the subfile is shorter, or if the store cannot read an object that is open
    /// for writing.
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

    /// The trailer of the process group that ends at `end`, if any.
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

    fn stored_before(&self, offset: u64) -> Result<u64> {
        self.object.stored_before(offset)
    }
}

/// Whether bytes of a subfile may have failed to be read because another node of a burst buffer has not drained them. Only the
/// length is then compared with what this process knows. An error of the system or of a service is none of these.
fn is_elsewhere(layout: &dyn Layout, path: &str, e: &Error) -> bool {
    e.kind() == ErrorKind::Io && !has_foreign_cause(e) && layout.other_nodes(path) == OtherNodes::Write
}

/// Whether an error was caused by one that is not ours.
fn has_foreign_cause(e: &Error) -> bool {
    let mut causes = std::iter::successors(std::error::Error::source(e), |cause| cause.source());
    causes.any(|cause| !cause.is::<Error>())
}

/// The error for a subfile with data of another file or subfile.
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
    Error::new(ErrorKind::Corrupt, what).at_byte(trailer.group.offset).safe(UNCHANGED)
}

/// The last process group of a subfile that a process knows: where it ends, and its run. Zeros: the process knows of none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LastGroup {
    /// First byte behind it.
    pub end: u64,
    /// The run that wrote it.
    pub run: u64,
}

impl LastGroup {
    /// The group that ends at byte `end`.
    ///
    /// # Errors
    /// Errors of reading.
    pub fn before(object: &dyn WriteObject, end: u64) -> Result<LastGroup> {
        let trailer = Tail::read(object, end)?.map_or(Ok(None), |tail| tail.trailer())?;
        Ok(trailer.map_or(LastGroup::default(), |trailer| LastGroup { end, run: trailer.run }))
    }
}

/// Checks a subfile that this process has extended. Bytes behind `last` are not compared: a write that was stuck in an earlier
/// session may have ended there since.
///
/// - `made`: it was missing, and was created; `last`: without it, length and subfile number are compared.
///
/// # Errors
/// `NotFound` where the subfile is missing, `Torn` where it is shorter, `Corrupt` where it was replaced; nothing was changed.
/// # Cost
/// One read; without `last` also the headers of all process groups if the subfile ends with an abandoned copy.
pub fn check_known(
    request: &OpenRequest<'_>,
    number: u32,
    path: &str,
    object: &dyn WriteObject,
    made: bool,
    last: LastGroup,
) -> Result<()> {
    if made {
        let what = "the subfile is missing: it was removed since this process wrote to it";
        return Err(Error::new(ErrorKind::NotFound, what).safe("nothing was changed"));
    }
    let least = if last.end > 0 { last.end } else { request.cache.least(path) };
    let found = || {
        let tail = Tail::read(object, least)?;
        let is_there = tail.is_some();
        match tail.map_or(Ok(None), |tail| tail.trailer())? {
            None if is_there && last.end > 0 => {
                let what = "no process group ends where the last one did that this process knows: the subfile was exchanged for another";
                Err(Error::new(ErrorKind::Corrupt, what).at_byte(last.end).safe(UNCHANGED))
            }
            None => {
                request.cache.is_longer(path, object.length()?)?;
                Ok(closed_groups(object, Mode::Update, u32::MAX)?.trailer)
            }
            found => Ok(found),
        }
    };
    let found = match found() {
        Err(e) if is_elsewhere(&**request.layout, path, &e) && object.length()? >= least => return Ok(()),
        found => found?,
    };
    match found {
        Some(trailer) if trailer.file_index != number => Err(exchanged(&trailer, number)),
        Some(trailer) if last.end > 0 && trailer.run != last.run => Err(exchanged(&trailer, number)),
        _ => Ok(()),
    }
}

/// The data of a subfile that the index lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listed {
    /// Largest offset of a payload or attribute: a whole process group must contain it.
    reach: u64,
    /// First and last step with data in the subfile.
    steps: (u32, u32),
}

/// The data of all subfiles that an index lists.
#[derive(Debug, Default)]
pub struct AllListed {
    /// By number of the subfile.
    files: BTreeMap<u32, Listed>,
    /// The index's record of runs; empty if there is none.
    runs: Vec<u8>,
}

impl AllListed {
    /// Compares a subfile with the index.
    ///
    /// - `object`: the subfile; `None` if it does not exist. `made`: it was missing, and was created.
    /// - `closed`: end and trailer of its last process group of a closed step.
    ///
    /// # Errors
    /// `NotFound` where the subfile was missing, `Torn` where it is too short, `Corrupt` where the last listed group is of another
    /// run or another subfile; errors of reading.
    fn check(&self, number: u32, object: Option<&dyn WriteObject>, closed: Closed, made: bool) -> Result<()> {
        let Some(listed) = self.files.get(&number) else { return Ok(()) };
        listed.check(closed.end, made)?;
        let (Some(object), Some(mut trailer)) = (object, closed.trailer) else { return Ok(()) };
        // Skip groups behind the listed ones: an output that was not closed added them to a closed step.
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
            return Err(Error::new(ErrorKind::Corrupt, what).at_byte(trailer.group.offset).safe(UNCHANGED));
        }
        Ok(())
    }
}

/// The listed data of each subfile.
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

    /// Checks that a subfile whose whole process groups end at `end` contains the listed data.
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
                Error::new(ErrorKind::Torn, format!("the subfile is empty: it contained data of {}", self.steps()))
            }
            (_, end) => {
                let what = format!(
                    "the subfile contains no whole process group after byte {end}; the index lists data of {} in it",
                    self.steps()
                );
                Error::new(ErrorKind::Torn, what).at_byte(end)
            }
        };
        Err(error
            .safe("nothing was changed; data in the other subfiles can be read, `thalweg verify` lists the lost data"))
    }
}

/// Collective: broadcasts rank 0's listed data and `number`.
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

/// On all ranks, before [`begin`], by methods that find the ends of subfiles: what a method knows that leaves writes in flight is void, and its
/// writes to the file have ended.
///
/// # Errors
/// `Timeout`, on all ranks, if one has not ended.
/// # Cost
/// A reduction in sessions that have used such a method; else nothing.
pub fn take_over(request: &OpenRequest<'_>) -> Result<()> {
    let name = name_of(request.layout, request.path);
    if !request.cache.forget_ends(&name) {
        return Ok(());
    }
    let settled = request.cache.settle(&name);
    agree(request.comm, settled, "end writes of an earlier output", &[]).map(drop)
}

/// Begins an output on rank 0: opens the folder of subfiles and the metadata file.
///
/// - `files`: number of subfiles of this output; subfiles with higher numbers are removed (a new file), or checked and
///   truncated at their last closed step.
///
/// # Errors
/// As [`open_index::begin`]; errors of creating and listing the folder, and of checking other subfiles.
pub fn begin(request: &OpenRequest<'_>, files: u32, sync: bool) -> Result<Begun> {
    let is_new = request.layout.make_new_folder(&subfile_folder(request.path))?;
    let (object, first) = open_index::begin(request, true)?;
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

/// The result of [`begin`] on rank 0.
pub struct Begun {
    /// The metadata file.
    object: Box<dyn WriteObject>,
    /// The index in it.
    pub first: First,
    /// The listed data of subfiles, if this process has not extended the file before.
    listed: Option<AllListed>,
}

/// Refuses an empty index beside subfiles with several steps: the index was lost, and a first step would truncate them.
fn check_orphans(request: &OpenRequest<'_>) -> Result<()> {
    for (_, path) in others(request, 0)? {
        let object = request.layout.open_write(&path, OpenWrite::Existing, WriterId(0))?;
        let source = AsSource::new(&*object)?;
        let last =
            scan::trailer_before(&source, source.length(), ByteOrder::NATIVE).map_err(|e| e.in_object(&*path))?;
        if let Some(trailer) = last.filter(|t| t.time_index > 1) {
            let what = format!(
                "the file contains no index, but {path} contains data up to step {}: `thalweg recover` rebuilds the index",
                trailer.time_index - 1
            );
            let error = Error::new(ErrorKind::Torn, what).in_object(request.path);
            return Err(error.safe("nothing was changed; the subfiles hold the steps"));
        }
    }
    Ok(())
}

/// Compares the subfiles that this output does not write with the index.
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

/// Subfiles that this output does not write, of an earlier, larger run.
fn others(request: &OpenRequest<'_>, files: u32) -> Result<Vec<(u32, String)>> {
    let folder = subfile_folder(request.path);
    let prefix = format!("{}.", file_name(request.path));
    let names = request.layout.list(&folder)?;
    let number = |name: &str| name.strip_prefix(&prefix).and_then(|n| n.parse::<u32>().ok());
    let all = names.iter().filter_map(|name| Some((number(name)?, format!("{folder}/{name}"))));
    Ok(all.filter(|(n, _)| *n >= files).collect())
}

/// Removes subfiles that are not part of a new file.
fn remove_stale(request: &OpenRequest<'_>, files: u32) -> Result<()> {
    others(request, files)?.into_iter().try_for_each(|(_, path)| request.layout.remove(&path))
}

/// Truncates leftovers of an output that was not closed, in subfiles that this output does not write: recovery without an index
/// would assign them to the step that is written now.
///
/// # Errors
/// Errors of the store.
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
/// - `time_index`: of the output being opened. In append mode, a group of this step or a later one is of an output that was
///   not closed, or of a dropped step.
///
/// # Errors
/// Errors of reading; `Corrupt` where process groups cannot be told apart.
fn closed_end(object: &dyn WriteObject, mode: Mode, time_index: u32) -> Result<u64> {
    Ok(closed_groups(object, mode, time_index)?.end)
}

/// The process groups of a subfile that belong to closed steps.
#[derive(Debug, Default)]
struct Closed {
    /// End of the last one.
    end: u64,
    /// Trailer of the last one, if it has one that was read.
    trailer: Option<Trailer>,
}

/// As [`closed_end`], with the last group's trailer.
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
    // A subfile of ADIOS 1.13 without dropped steps.
    if is_footed && !scan.groups.iter().any(|g| leftover(g.header.time_index)) {
        return at(end);
    }
    let kept = scan.groups.iter().filter(|g| !leftover(g.header.time_index));
    let end = kept.filter_map(|g| g.extent.end()).max().unwrap_or(0);
    // Holes may follow the group.
    let trailer = if end > 0 { scan::trailer_before(&source, end, ByteOrder::NATIVE)? } else { None };
    Ok(Closed { end, trailer })
}

/// A subfile that a rank has opened before the ranks agree that the output is open.
pub struct Early<'o> {
    /// Its number.
    pub number: u32,
    /// Its path.
    pub path: &'o str,
    /// The subfile.
    pub object: &'o dyn WriteObject,
    /// This open created the subfile.
    pub made: bool,
}

/// The metadata file of an open output.
pub struct Metadata {
    /// The open output and its index.
    pub index: OpenIndex,
    /// `Some` on rank 0, or on its successor after the loss of rank 0.
    object: Option<Box<dyn WriteObject>>,
    /// The listed data of subfiles; `None` if this process has extended them before.
    listed: Option<AllListed>,
}

impl Metadata {
    /// Collective: as [`OpenIndex::agree`].
    ///
    /// - `outcome`: outcome of this rank's opens so far; `first`: the result of [`begin`] on rank 0; `files` as there.
    /// - `told`: numbers that rank 0 sends to all ranks. `early`: this rank's subfiles. If steps are dropped, they are first
    ///   compared with the index; if the open fails, created ones and an empty folder are removed.
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
                // Best effort: an empty subfile is treated as a missing one.
                let _ = caught("remove a subfile", || request.layout.remove(made.path));
            }
            if request.comm.rank() == 0 {
                // As an empty folder is. Not before: until now others create subfiles in it.
                let folder = subfile_folder(request.path);
                let _ = caught("remove the folder of subfiles", || match request.layout.list(&folder)?.is_empty() {
                    true => request.layout.remove(&folder),
                    false => Ok(()),
                });
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
            // Only rank 0 knows the time index of the output.
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
            // Subfiles are truncated only after the index has dropped the steps.
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

    /// Collective if the subfiles were compared with the index: the ranks agree on the outcome of the comparisons.
    ///
    /// # Errors
    /// The same kind on all ranks.
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

    /// Discards the index, so that the next open compares the subfiles with it again.
    pub fn compare_again(&mut self) {
        self.index.forget();
    }

    /// Ends the output.
    ///
    /// - `indexed`: this rank's index contains the step.
    pub fn closed(&mut self, indexed: bool) {
        self.index.closed(indexed);
    }

    /// The offset at which this output begins in a subfile; truncates leftovers of an output that was not closed.
    ///
    /// - `made`: this open created the subfile.
    ///
    /// # Errors
    /// `NotFound` or `Torn` where the subfile lacks data of closed steps, `Corrupt` where it has data of another file. The subfile
    /// is then unchanged, or removed if it was created.
    pub fn start_in(&self, number: u32, path: &str, object: &dyn WriteObject, made: bool) -> Result<u64> {
        let mode = self.index.mode;
        if mode == Mode::Write {
            return Ok(0);
        }
        let start = self.closed_start(number, path, object, made);
        if start.is_err() && made {
            // Best effort: an empty subfile is treated as a missing one.
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
        if let Some(end) = known {
            let found = match Tail::read(object, end) {
                Ok(Some(tail)) => tail.trailer().map(|trailer| trailer.map(|trailer| (trailer, tail.ends))),
                other => other.map(|_| None),
            };
            match found {
                Err(e) if is_elsewhere(&*self.index.layout, path, &e) && object.length()? == end => return Ok(end),
                Err(e) => return Err(e),
                Ok(Some((trailer, ends))) => {
                    self.check_own(number, &key, &trailer)?;
                    if ends {
                        return Ok(end);
                    }
                }
                Ok(None) => {}
            }
        }
        let length = object.length()?;
        if !restarts {
            // The subfile's length, not the end of its groups: an abandoned copy at its end may have become a hole since.
            cache.is_longer(&key, length)?;
        }
        let closed = closed_groups(object, mode, self.index.time_index)?;
        let end = closed.end;
        match (&self.listed, &closed.trailer) {
            (Some(all), _) => all.check(number, Some(object), closed, made)?,
            (None, Some(trailer)) if !restarts => self.check_own(number, &key, trailer)?,
            (None, None) if !restarts && !made && cache.is_own(&key) => {
                let what = "the subfile holds no process group of a closed step: this process wrote some to it";
                return Err(Error::new(ErrorKind::Torn, what).safe("nothing was changed"));
            }
            _ => {}
        }
        if restarts {
            cache.is_not_own(&key);
        }
        if length > end {
            object.truncate(end)?;
        }
        Ok(end)
    }

    /// Checks that a process group is of subfile `number`, and, if this process wrote the subfile last, of its run.
    fn check_own(&self, number: u32, key: &str, trailer: &Trailer) -> Result<()> {
        let stranger = self.index.cache.is_own(key) && trailer.run != self.index.run;
        if stranger || trailer.file_index != number { Err(exchanged(trailer, number)) } else { Ok(()) }
    }

    /// Opens a subfile of this rank alone, after the loss of a rank. Returns its path, its handle, and the offset at which this
    /// output begins.
    ///
    /// # Errors
    /// Errors of the store, with the path.
    pub fn open_subfile(&self, number: u32) -> Result<(String, Handle, u64)> {
        let (layout, path) = (&self.index.layout, subfile(&self.index.path, number));
        layout.make_folder(&subfile_folder(&self.index.path))?;
        let (object, made) = open_own(&**layout, &path, self.index.mode, number)?;
        let start = self.start_in(number, &path, &*object, made)?;
        Ok((path, Handle::from(object), start))
    }

    /// Caches the end of a subfile for the next output; `None` after a failure, when it is not known whether the index contains
    /// the step: the next output reads the end from the subfile.
    pub fn keep_end(&self, path: &str, end: Option<u64>) {
        self.index.cache.set_end(&self.end_key(path), end);
    }

    fn end_key(&self, path: &str) -> String {
        format!("{}:{path}", self.index.run)
    }

    /// Closes a subfile; if the output is durable, the subfile and its directory entry are durable before.
    ///
    /// # Errors
    /// Errors of the store: written bytes may be lost.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_system_is_not_taken_for_bytes_of_another_node() {
        let elsewhere = || Error::new(ErrorKind::Io, "cannot read: its newest bytes are in the fast store of b");
        assert!(!has_foreign_cause(&elsewhere()));
        assert!(!has_foreign_cause(&Error::new(ErrorKind::Io, "cannot read").caused_by(elsewhere())));
        let failed = || Error::io("cannot read", std::io::Error::from_raw_os_error(5));
        assert!(has_foreign_cause(&failed()));
        assert!(has_foreign_cause(&Error::new(ErrorKind::Io, "cannot read").caused_by(failed())));
    }
}
