//! Verifying: delayed consistency, offline. No rank was asked anything while it wrote; whether what all of them wrote fits
//! together is checked here.
//!
//! | checked | how |
//! |---|---|
//! | index | checksums of the whole, of each entry, of the process group index, of heads and footer; every set decodes |
//! | process groups | a scan from the first byte: framing, payloads and trailers against their checksums |
//! | both | every group and record the scan finds is in the index as the index has it, and none else: type, shape, value, statistics, offsets |
//! | subfiles | all there; payloads inside them |
//! | steps | blocks of a global array agree on its shape, lie inside, don't overlap, cover it |
//!
//! Foreign files have no checksums, and less is compared: [`Report::not_checked`] says what.

use crate::decode;
use crate::object::{self, Before, Object};
use crate::overlap;
use crate::sets::Sets;
use crate::variable::full_name;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use thalweg_bp::characteristic::{Characteristics, SINGLE_FILE};
use thalweg_bp::extension::{self, Directory, Tag, crc_of};
use thalweg_bp::footer::FOOTER;
use thalweg_bp::index::{self, Head, ProcessGroupEntry};
use thalweg_bp::live::{Base, Live, for_each_set};
use thalweg_bp::opening::Openings;
use thalweg_bp::scan::{self, Found};
use thalweg_bp::shape::{LOCAL_VALUE, Shape};
use thalweg_bp::source::{self, Metered, Source, is_damage};
use thalweg_bp::statistics::Level;
use thalweg_bp::wire::Cursor;
use thalweg_layout::Layout;
use thalweg_types::bounding_box::elements;
use thalweg_types::{AttributeValue, BoundingBox, ByteOrder, ElementType, Error, ErrorKind, Extent, Result, Value};

/// What sort of finding it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FindingKind {
    /// Bytes behind the last index or step record that checks: an output that was cut off.
    Torn,
    /// A checksum does not match its bytes.
    Checksum,
    /// Bytes of the format are none, or contradict each other.
    Structure,
    /// An offset or length leaves its file, or a block its array.
    OutOfBounds,
    /// The index says other than the process groups.
    IndexDiffers,
    /// Blocks of a step disagree on the shape of their array.
    Shape,
    /// The type differs between index and process group.
    Type,
    /// Blocks of a global array share elements.
    Overlap,
    /// Elements of a global array that no block covers.
    Gap,
    /// A step was closed although a rank failed.
    Partial,
    /// A subfile is not there.
    MissingSubfile,
}

/// One thing that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What sort.
    pub kind: FindingKind,
    /// File or subfile.
    pub object: String,
    /// Byte in it.
    pub byte: Option<u64>,
    /// Step, from 0.
    pub step: Option<u64>,
    /// Variable or attribute.
    pub variable: Option<String>,
    /// In words.
    pub words: String,
}

/// What verifying found, and how much it looked at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// What is not as it should be, in the order it was found.
    pub findings: Vec<Finding>,
    /// Steps.
    pub steps: u64,
    /// Process groups looked at.
    pub process_groups: u64,
    /// Blocks looked at.
    pub blocks: u64,
    /// Bytes whose checksums were compared.
    pub checked_bytes: u64,
    /// What could not be checked, and why (foreign files have no checksums).
    pub not_checked: Vec<String>,
}

/// Findings beyond this many are counted, not listed.
const MOST: usize = 10_000;

/// Checks a file and its subfiles: the index against its checksums, the process groups against theirs, each against the
/// other, and the blocks of every step against each other (delayed consistency, offline).
///
/// A file that does not open is a finding, not an error.
///
/// # Errors
/// `NotFound` and other failures of the store.
/// # Cost
/// Every byte is read once, those of the index twice; memory grows by about 50 bytes a block.
/// # Source
/// Lofstead et al., SAND2009-7763, "delayed consistency".
pub fn verify(layout: &dyn Layout, path: &str) -> Result<Report> {
    let file = Object::open(layout, path)?;
    let mut report = Report::default();
    match Live::find(&file) {
        Err(e) if is_damage(&e) => report.add_error(FindingKind::Torn, path, &e),
        Err(e) => return Err(e.in_object(path)),
        Ok(live) => match Check::new(layout, path, file, live) {
            Ok(mut check) => match check.all(&mut report) {
                // An entry whose sets can be passed over may still hold one that cannot be decoded.
                Err(e) if is_damage(&e) => report.add_error(FindingKind::Structure, path, &e),
                other => other.map(|_| ())?,
            },
            Err(e) if is_damage(&e) => report.add_error(FindingKind::Structure, path, &e),
            Err(e) => return Err(e),
        },
    }
    Ok(report)
}

/// The bytes of each object that readers, [`verify`] and `recover` use, rising; all others are dead: indexes that a later
/// one replaced, what a failed rank left, padding.
///
/// # Errors
/// As [`crate::Reader::open`].
pub fn live_extents(layout: &dyn Layout, path: &str) -> Result<Vec<(String, Vec<Extent>)>> {
    let file = Object::open(layout, path)?;
    let live = Live::find(&file).map_err(|e| e.in_object(path))?;
    let mut check = Check::new(layout, path, file, live)?;
    let mut report = Report::default();
    let groups = check.objects(&mut report)?;
    let mut indexed = check.indexed_groups()?;
    let mut all = vec![(path.to_string(), index_extents(&check.live))];
    for (object, found) in groups {
        let extents: Vec<Extent> = found.iter().filter(|g| g.take_from(&mut indexed)).map(|g| g.extent).collect();
        match all.iter_mut().find(|(name, _)| *name == object) {
            Some((_, list)) => list.extend(extents),
            None => all.push((object, extents)),
        }
    }
    for (_, extents) in &mut all {
        extents.sort();
        extents.dedup_by(|next, last| {
            let joins = last.end() == Some(next.offset);
            if joins {
                last.length += next.length;
            }
            joins
        });
    }
    Ok(all)
}

/// Where the index and the step records lie that readers use.
pub(crate) fn index_extents(live: &Live) -> Vec<Extent> {
    let mut own: Vec<Extent> = live.step_records.iter().map(|r| r.extent).collect();
    if let Some(base) = &live.base {
        let start = base.extension.as_ref().map_or(base.footer.process_groups, |e| e.extent.offset);
        own.push(Extent::new(start, base.end - start));
    }
    own
}

impl Report {
    /// Whether nothing was found.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    fn add(&mut self, finding: Finding) {
        if self.findings.len() < MOST {
            self.findings.push(finding);
        } else if self.findings.len() == MOST {
            self.not_checked.push(format!("findings beyond the first {MOST} are not listed"));
            self.findings.push(finding);
        }
    }

    fn add_error(&mut self, kind: FindingKind, object: &str, e: &Error) {
        let place = e.place();
        let mut words = e.what().to_string();
        let mut cause = std::error::Error::source(e);
        while let Some(c) = cause {
            words = format!("{words}: {c}");
            cause = c.source();
        }
        self.add(Finding {
            kind,
            object: place.object.clone().unwrap_or_else(|| object.to_string()),
            byte: place.byte,
            step: place.step,
            variable: place.variable.clone(),
            words,
        });
    }
}

fn finding(kind: FindingKind, object: &str, words: impl Into<String>) -> Finding {
    Finding { kind, object: object.to_string(), byte: None, step: None, variable: None, words: words.into() }
}

/// A process group as index and scan both know it: group, time index, offset, dimensions fastest first.
type GroupKey = (String, u32, u64, bool);

/// What is kept of a process group that was found.
struct GroupSeen {
    group: String,
    time: u32,
    extent: Extent,
    fortran: bool,
    rank: Option<u32>,
}

impl GroupSeen {
    fn key(&self) -> GroupKey {
        (self.group.clone(), self.time, self.extent.offset, self.fortran)
    }

    /// Takes the group out of what the index has; groups without trailer don't say which rank they are of.
    fn take_from(&self, indexed: &mut HashMap<GroupKey, Vec<u32>>) -> bool {
        let Some(ranks) = indexed.get_mut(&self.key()) else { return false };
        let place = match self.rank {
            Some(rank) => ranks.iter().position(|r| *r == rank),
            None => ranks.len().checked_sub(1),
        };
        place.map(|i| ranks.remove(i)).is_some()
    }
}

/// What is kept of a record: enough to compare it with its set in the index.
#[derive(Clone, Copy, PartialEq, Eq)]
struct RecordSeen {
    name: u64,
    code: u8,
    essence: u64,
    sums: Option<Sums>,
    /// From a group with a trailer.
    ours: bool,
}

struct Check<'a> {
    layout: &'a dyn Layout,
    path: &'a str,
    file: Object,
    live: Live,
    order: ByteOrder,
    /// The file has an extension section or step records.
    ours: bool,
    subfiles: bool,
    index_file: bool,
    /// Groups are checked and compared; not so those of adios2, which lays them out otherwise.
    groups_known: bool,
    /// (attribute, subfile, record offset).
    records: HashMap<(bool, u32, u64), RecordSeen>,
    /// There are groups that could not be indexed again.
    incomparable: bool,
    lengths: HashMap<u32, Option<u64>>,
    partial: BTreeSet<u32>,
    openings: Openings,
    /// Process groups that recovering left and that are in no index: subfile, offset. Per time index, how many were met.
    left: HashSet<(u32, u64)>,
    left_met: BTreeMap<u32, u64>,
}

impl<'a> Check<'a> {
    fn new(layout: &'a dyn Layout, path: &'a str, file: Object, live: Live) -> Result<Check<'a>> {
        let order = live.base.as_ref().map_or(ByteOrder::NATIVE, |b| b.footer.order);
        let ours = live.base.as_ref().is_none_or(|b| b.extension.is_some());
        let subfiles = match &live.base {
            Some(base) => base.footer.subfiles,
            None => !object::subfiles(layout, path)?.is_empty(),
        };
        let records = live.base.as_ref().and_then(|b| b.records());
        let index_file = records.is_some_and(|r| !r.get(Tag::DataFile).is_empty());
        let mut partial: BTreeSet<u32> = BTreeSet::new();
        let (mut left, mut openings) = (Vec::new(), Openings::default());
        for (records, order) in
            records.map(|r| (r, order)).into_iter().chain([(&live.steps.records, ByteOrder::NATIVE)])
        {
            partial.extend(scan::partial_steps(records.get(Tag::Partial), order).iter().map(|(time, ..)| *time));
            left.extend(scan::left_groups_in(records, order));
            openings.add(records.get(Tag::Run), order);
        }
        let mut tag = [0; 11];
        let by_adios2 = match &live.base {
            Some(base) if !ours => {
                source::fill(&file, base.end - FOOTER, &mut tag)?;
                tag.starts_with(b"ADIOS-BP v2")
            }
            _ => false,
        };
        let mut check = Check {
            layout,
            path,
            file,
            live,
            order,
            ours,
            subfiles,
            index_file,
            groups_known: !by_adios2 && !index_file,
            records: HashMap::new(),
            incomparable: false,
            lengths: HashMap::new(),
            partial,
            openings,
            left: HashSet::new(),
            left_met: BTreeMap::new(),
        };
        if !left.is_empty() {
            // A later output may have written where one of them was.
            let indexed: HashSet<(u32, u32, u64)> =
                check.process_groups()?.into_iter().map(|g| (g.time_index, g.rank, g.offset)).collect();
            left.retain(|(time, rank, _, offset)| !indexed.contains(&(*time, *rank, *offset)));
            check.left = left.into_iter().map(|(_, _, subfile, offset)| (subfile, offset)).collect();
        }
        Ok(check)
    }

    fn all(&mut self, report: &mut Report) -> Result<()> {
        report.steps = u64::from(self.live.step_count());
        let section = self.live.base.as_ref().and_then(|base| base.extension.as_ref());
        if let Some(section) = section.filter(|section| section.half_marked && self.live.step_records.is_empty()) {
            let words =
                "the mark that closes the file for good is half written; no step is lost; `thalweg recover` writes it";
            let byte = Some(extension::state_offset(section.extent));
            report.add(Finding { byte, ..finding(FindingKind::Torn, self.path, words.to_string()) });
        }
        if self.live.torn > 0 {
            let words = format!("{} bytes of an output that was cut off; `thalweg recover` cuts them", self.live.torn);
            report.add(Finding { byte: Some(self.live.end), ..finding(FindingKind::Torn, self.path, words) });
        }
        if !self.ours {
            report.not_checked.push("checksums: the file was written by another library and has none".into());
        }
        if self.index_file {
            report.not_checked.push("the data: this is an index file; verify the file it was made of".into());
        } else if !self.groups_known {
            report.not_checked.push("process groups: adios2 lays them out in its own way".into());
        }
        self.partial_steps(report);
        self.index_checksums(report)?;
        let seen = if self.groups_known { self.objects(report)? } else { Vec::new() };
        if self.groups_known {
            self.compare_groups(&seen, report)?;
        }
        for (time, n) in &self.left_met {
            let step = self.live.step_of(*time);
            report.not_checked.push(format!(
                "step {step} was not closed: {n} of its process groups are in the file, not indexed; `thalweg recover \
                 --partial` indexes those of the last steps"
            ));
        }
        self.blocks(report)
    }

    fn partial_steps(&self, report: &mut Report) {
        let base = self.live.base.as_ref().and_then(|b| b.records()).map(|r| (r, self.order));
        let all = base.into_iter().chain([(&self.live.steps.records, ByteOrder::NATIVE)]);
        for (time, rank, kind) in all.flat_map(|(r, o)| scan::partial_steps(r.get(Tag::Partial), o)) {
            let kind = ErrorKind::from_code(u8::try_from(kind).unwrap_or(0)).words();
            let words = format!("the process group of rank {rank} is missing: {kind}");
            report.add(Finding {
                step: Some(self.live.step_of(time)),
                ..finding(FindingKind::Partial, self.path, words)
            });
        }
    }

    /// The checksums of the full index: as a whole, its entries, its process group index, what is left.
    fn index_checksums(&self, report: &mut Report) -> Result<()> {
        let Some(base) = &self.live.base else { return Ok(()) };
        let Some(extension) = &base.extension else { return Ok(()) };
        report.checked_bytes += extension.extent.length + base.end - base.footer.process_groups;
        if let Err(e) = base.check_bytes(&self.file) {
            match is_damage(&e) {
                true => report.add_error(FindingKind::Checksum, self.path, &e),
                false => return Err(e),
            }
        }
        let directory = extension.records.get(Tag::Directory);
        let directory = match Directory::decode(&mut Cursor::new(directory, self.order, extension.extent.offset)) {
            Ok(directory) => directory,
            Err(e) => {
                report.add_error(FindingKind::Structure, self.path, &e);
                return Ok(());
            }
        };
        let f = &base.footer;
        let bytes = |from: u64, to: u64| source::bytes(&self.file, from, to - from, "index");
        let mut wrong = |at: u64, what: &str| {
            let words = format!("the checksum of {what} is wrong");
            report.add(Finding { byte: Some(at), ..finding(FindingKind::Checksum, self.path, words) });
        };
        if crc_of([bytes(f.process_groups, f.variables)?.as_slice()]) != directory.process_groups_crc {
            wrong(f.process_groups, "the process group index");
        }
        let heads = [(f.variables, f.variables + 12), (f.attributes, f.attributes + 12), (base.end - FOOTER, base.end)];
        let heads = heads.iter().map(|(a, b)| bytes(*a, *b)).collect::<Result<Vec<_>>>()?;
        if crc_of(heads.iter().map(Vec::as_slice)) != directory.rest_crc {
            wrong(f.variables, "the heads of the index");
        }
        for entry in &base.entries {
            let read = entry.read(&self.file, self.order).and_then(|bytes| {
                let mut c = Cursor::new(&bytes, self.order, entry.extent.offset);
                c.u32("index entry")?;
                Head::decode(&mut c)
            });
            match read {
                Ok(head) if head != entry.head => report.add(Finding {
                    byte: Some(entry.extent.offset),
                    variable: Some(entry.head.name.clone()),
                    ..finding(FindingKind::IndexDiffers, self.path, "its index entry is not what the directory says")
                }),
                Err(e) if is_damage(&e) => report.add_error(FindingKind::Checksum, self.path, &e),
                Err(e) => return Err(e),
                Ok(_) => {}
            }
        }
        Ok(())
    }

    /// Scans every object that holds process groups; returns what was found in each.
    fn objects(&mut self, report: &mut Report) -> Result<Vec<(String, Vec<GroupSeen>)>> {
        if !self.groups_known {
            return Ok(Vec::new());
        }
        if !self.subfiles {
            // Behind the live end lies an output that was cut off; a foreign index ends the groups.
            let end = match &self.live.base {
                Some(base) if !self.ours => base.footer.process_groups,
                _ => self.live.end,
            };
            let seen = self.object(self.file.clone(), SINGLE_FILE, end, report)?;
            return Ok(vec![(self.path.to_string(), seen)]);
        }
        let mut all = Vec::new();
        for k in object::subfiles(self.layout, self.path)? {
            let object = Object::open(self.layout, &object::subfile(self.path, k))?;
            self.lengths.insert(k, Some(object.length()));
            let own = source::unless_damaged(Base::ending_at(&object, object.length()))?.flatten();
            let end = own
                .map_or(object.length(), |b| b.extension.as_ref().map_or(b.footer.process_groups, |e| e.extent.offset));
            let name = object.path.to_string();
            all.push((name, self.object(object, k, end, report)?));
        }
        Ok(all)
    }

    fn object(&mut self, object: Object, file_index: u32, end: u64, report: &mut Report) -> Result<Vec<GroupSeen>> {
        let path = object.path.clone();
        let view = Before { source: &object, end };
        let mut scan = scan::scan(&view, self.order).map_err(|e| e.in_object(&*path))?;
        let last_time = self.live.last_time();
        let mut seen = Vec::new();
        if let Some((at, e)) = &scan.torn {
            // Later groups of a foreign file can't be found by a scan, but by the index.
            if !self.subfiles {
                let known = self.process_groups()?;
                let mut offsets: Vec<u64> = known.iter().map(|g| g.offset).filter(|o| o > at).collect();
                offsets.sort_unstable();
                offsets.dedup();
                let metered = Metered::new(&view);
                for offset in offsets {
                    // Groups inside each other are no file's, but an attempt to waste time.
                    if metered.read_so_far() > metered.patience() {
                        break;
                    }
                    let group = source::unless_damaged(scan::group_at(&metered, offset, self.order));
                    scan.groups.extend(group.map_err(|e| e.in_object(&*path))?);
                }
            }
            let words = match self.subfiles {
                true => "no process group from here on: an output that was cut off, or damage",
                false => "no process group here, although the index lies behind",
            };
            report.add_error(
                FindingKind::Structure,
                &path,
                &Error::new(e.kind(), format!("{words} ({})", e.what())).at_byte(e.place().byte.unwrap_or(*at)),
            );
        }
        let dropped = self.live.dropped_from();
        if let Some(start) = dropped {
            let words = "steps that a restart was about to drop; the next output or `thalweg recover` cuts them";
            report.add(Finding { byte: Some(start), ..finding(FindingKind::Torn, &path, words) });
        }
        for found in scan.groups.iter().filter(|g| dropped.is_none_or(|start| g.extent.offset < start)) {
            let time = found.header.time_index;
            if self.left.contains(&(file_index, found.extent.offset)) {
                *self.left_met.entry(time).or_default() += 1;
                continue;
            }
            if time > last_time {
                let step = self.live.step_of(time);
                let words = format!("a process group of step {step}, which was not closed");
                report.add(Finding { byte: Some(found.extent.offset), ..finding(FindingKind::Torn, &path, words) });
                continue;
            }
            report.process_groups += 1;
            if found.trailer.is_some() {
                report.checked_bytes += found.extent.length;
            }
            for (variable, extent) in scan::damaged_payloads(&view, found).map_err(|e| e.in_object(&*path))? {
                report.add(Finding {
                    kind: FindingKind::Checksum,
                    object: path.to_string(),
                    byte: Some(extent.offset),
                    step: Some(self.live.step_of(time)),
                    variable: Some(variable),
                    words: format!("the checksum of a payload of {} bytes is wrong", extent.length),
                });
            }
            if let Some(t) = &found.trailer
                && (t.time_index != time || t.file_index != file_index)
            {
                let words = format!(
                    "the trailer is of time index {} and subfile {}, the group of {time} and subfile {file_index}",
                    t.time_index, t.file_index
                );
                report
                    .add(Finding { byte: Some(found.extent.offset), ..finding(FindingKind::Structure, &path, words) });
            }
            let runs = self.openings.of(time);
            if let Some(t) = found.trailer.as_ref().filter(|t| t.run != 0 && !self.partial.contains(&time))
                && !runs.is_empty()
                && runs.iter().all(|o| o.run != 0 && o.run != t.run)
            {
                let words = format!(
                    "the process group of rank {} is of run {:x}, which the index does not list",
                    t.rank, t.run
                );
                let step = Some(self.live.step_of(time));
                let byte = Some(found.extent.offset);
                report.add(Finding { byte, step, ..finding(FindingKind::IndexDiffers, &path, words) });
            }
            self.decode_blocks(&object, found, report)?;
            self.note_records(&object, found, file_index, report)?;
            seen.push(GroupSeen {
                group: found.header.group.clone(),
                time,
                extent: found.extent,
                fortran: found.header.fortran,
                rank: found.trailer.as_ref().map(|t| t.rank),
            });
        }
        Ok(seen)
    }

    /// Undoes the transforms of a group's blocks, but of those whose checksum is found wrong already.
    fn decode_blocks(&self, object: &Object, found: &Found, report: &mut Report) -> Result<()> {
        for (at, record) in &found.variables {
            let Some(transform) = &record.set.transform else { continue };
            let transform = &decode::before(transform.clone(), found.header.fortran);
            let payload = Extent::new(at + record.payload.offset, record.payload.length);
            if report.findings.iter().any(|f| f.byte == Some(payload.offset)) {
                continue;
            }
            let name = full_name(&record.path, &record.name);
            let decoded = match decode::worthwhile(transform, payload.length) {
                Ok(true) => source::bytes(object, payload.offset, payload.length, "a block")
                    .and_then(|bytes| decode::values(transform, self.order, &bytes))
                    .map(drop),
                Ok(false) if found.trailer.is_some() => Ok(()),
                Ok(false) => {
                    let what = format!("\"{name}\": a block of a thousand times the bytes that are stored of it");
                    report.not_checked.push(what);
                    Ok(())
                }
                Err(e) => Err(e),
            };
            match decoded {
                Ok(()) => {}
                Err(e) if e.kind() == ErrorKind::Unsupported => {
                    let what = format!("\"{name}\": {}", e.what());
                    if !report.not_checked.contains(&what) {
                        report.not_checked.push(what);
                    }
                }
                Err(e) if is_damage(&e) || matches!(e.kind(), ErrorKind::OutOfBounds | ErrorKind::NoMemory) => {
                    report.add(Finding {
                        kind: FindingKind::Structure,
                        object: object.path.to_string(),
                        byte: Some(payload.offset),
                        step: Some(self.live.step_of(found.header.time_index)),
                        variable: Some(name),
                        words: e.what().to_string(),
                    });
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Keeps what the index must say about each record of a group.
    fn note_records(&mut self, object: &Object, found: &Found, file_index: u32, report: &mut Report) -> Result<()> {
        let fragment = match found.fragment(object, file_index, 0, self.order) {
            Ok(fragment) => fragment,
            Err(e) if e.kind() == ErrorKind::Unsupported => {
                self.incomparable = true;
                return Ok(());
            }
            // A name twice, with two types: no writer's.
            Err(e) if e.kind() == ErrorKind::InvalidArgument || is_damage(&e) => {
                report.add_error(FindingKind::Structure, &object.path, &e);
                return Ok(());
            }
            Err(e) => return Err(e),
        };
        for (attributes, table) in [(false, &fragment.variables), (true, &fragment.attributes)] {
            for entry in table.entries() {
                let name = digest(&(&entry.path, &entry.name));
                let mut c = Cursor::new(&entry.sets, ByteOrder::NATIVE, 0);
                for_each_set(&mut c, entry.code, entry.count, |set| {
                    let ours = found.trailer.is_some();
                    let essence = essence(&set, attributes, ours);
                    let key = (attributes, file_index, set.record_offset);
                    let sums = sums_beside(&set).filter(|_| ours);
                    self.records.insert(key, RecordSeen { name, code: entry.code, essence, sums, ours });
                    Ok(())
                })?;
            }
        }
        Ok(())
    }

    fn process_groups(&self) -> Result<Vec<ProcessGroupEntry>> {
        let mut all = Vec::new();
        if let Some(base) = &self.live.base {
            let f = &base.footer;
            let bytes = source::bytes(&self.file, f.process_groups, f.variables - f.process_groups, "process groups")?;
            all = index::process_groups(&mut Cursor::new(&bytes, f.order, f.process_groups))?;
        }
        all.extend(self.live.steps.process_groups()?);
        Ok(all)
    }

    /// The process groups the index names, and the ranks it gives them.
    fn indexed_groups(&self) -> Result<HashMap<GroupKey, Vec<u32>>> {
        let mut groups: HashMap<GroupKey, Vec<u32>> = HashMap::new();
        for g in self.process_groups()? {
            groups.entry((g.group, g.time_index, g.offset, g.fortran)).or_default().push(g.rank);
        }
        Ok(groups)
    }

    fn compare_groups(&self, seen: &[(String, Vec<GroupSeen>)], report: &mut Report) -> Result<()> {
        let mut indexed = match self.indexed_groups() {
            Ok(indexed) => indexed,
            Err(e) if is_damage(&e) => {
                report.add_error(FindingKind::Structure, self.path, &e);
                return Ok(());
            }
            Err(e) => return Err(e),
        };
        for (object, groups) in seen {
            for g in groups {
                // What a failed rank left is not indexed; the step says so itself.
                if !g.take_from(&mut indexed) && !self.partial.contains(&g.time) {
                    report.add(Finding {
                        byte: Some(g.extent.offset),
                        step: Some(self.live.step_of(g.time)),
                        ..finding(
                            FindingKind::IndexDiffers,
                            object,
                            "a whole process group that the index does not have",
                        )
                    });
                }
            }
        }
        let mut lost: Vec<(GroupKey, u32)> =
            indexed.into_iter().flat_map(|(key, ranks)| ranks.into_iter().map(move |r| (key.clone(), r))).collect();
        lost.sort();
        let view = Before { source: &self.file, end: self.live.end };
        let metered = Metered::new(&view);
        for ((group, time, offset, _), rank) in lost {
            let reason = match self.subfiles || metered.read_so_far() > metered.patience() {
                true => None,
                false => match scan::group_at(&metered, offset, self.order) {
                    Err(e) if !is_damage(&e) => return Err(e.in_object(self.path)),
                    other => other.err(),
                },
            };
            let why = reason.as_ref().map_or(String::new(), |e| format!(": {}", e.what()));
            let kind = if reason.is_some() { FindingKind::Structure } else { FindingKind::IndexDiffers };
            let words = format!("the process group of rank {rank}, group \"{group}\", is not there whole{why}");
            report.add(Finding {
                byte: reason.and_then(|e| e.place().byte).or(Some(offset)),
                step: Some(self.live.step_of(time)),
                ..finding(kind, self.path, words)
            });
        }
        Ok(())
    }

    /// Checks every set of the index, and the blocks of each step together.
    fn blocks(&mut self, report: &mut Report) -> Result<()> {
        // Process groups that are damaged are found already; their records can't be compared.
        let damage = [FindingKind::Structure, FindingKind::Checksum, FindingKind::IndexDiffers];
        let damaged = report.findings.iter().any(|f| damage.contains(&f.kind));
        let names: Vec<(bool, Option<usize>, Option<usize>)> = self.entries();
        for (attributes, base, step) in names {
            let place = base.zip(self.live.base.as_ref()).map(|(i, b)| &b.entries[i]);
            let table = if attributes { &self.live.steps.attributes } else { &self.live.steps.variables };
            let entry = step.map(|i| &table.entries()[i]);
            let name = place.map(|p| p.head.name.clone()).or(entry.map(|e| e.name.clone())).unwrap_or_default();
            let path = place.map(|p| p.head.path.clone()).or(entry.map(|e| e.path.clone())).unwrap_or_default();
            let code = place.map(|p| p.head.code).or(entry.map(|e| e.code)).unwrap_or_default();
            let full = full_name(&path, &name);
            let sets = match Sets::load(&self.file, place, self.order, entry, self.live.first_time()) {
                Ok(sets) => sets,
                Err(e) if is_damage(&e) => {
                    report.add_error(FindingKind::Structure, self.path, &e.in_variable(full));
                    continue;
                }
                Err(e) if e.kind() == ErrorKind::Unsupported => {
                    report.not_checked.push(format!("\"{full}\": {}", e.what()));
                    continue;
                }
                Err(e) => return Err(e),
            };
            let digest = digest(&(&path, &name));
            for i in 0..sets.len() {
                let set = sets.get(i)?;
                self.one_set(&full, digest, code, attributes, &set, damaged, report)?;
            }
            if !attributes {
                self.steps_of(&full, &sets, report)?;
            }
        }
        Ok(())
    }

    /// Variables and attributes: place of the entry in the full index, and in the step records.
    fn entries(&self) -> Vec<(bool, Option<usize>, Option<usize>)> {
        let mut all = Vec::new();
        for attributes in [false, true] {
            let table = if attributes { &self.live.steps.attributes } else { &self.live.steps.variables };
            let mut by_name = HashMap::new();
            for (i, e) in table.entries().iter().enumerate() {
                by_name.insert((&e.path, &e.name), i);
            }
            for (i, e) in self.live.base.iter().flat_map(|b| b.entries.iter().enumerate()) {
                if e.is_attribute == attributes {
                    all.push((attributes, Some(i), by_name.remove(&(&e.head.path, &e.head.name))));
                }
            }
            let mut rest: Vec<usize> = by_name.into_values().collect();
            rest.sort_unstable();
            all.extend(rest.into_iter().map(|i| (attributes, None, Some(i))));
        }
        all
    }

    #[allow(clippy::too_many_arguments)]
    fn one_set(
        &mut self,
        full: &str,
        name: u64,
        code: u8,
        attributes: bool,
        set: &Characteristics,
        damaged: bool,
        report: &mut Report,
    ) -> Result<()> {
        let step = self.live.step_of(set.time_index);
        let at = |kind: FindingKind, object: &str, byte: u64, words: String| Finding {
            kind,
            object: object.to_string(),
            byte: Some(byte),
            step: Some(step),
            variable: Some(full.to_string()),
            words,
        };
        report.blocks += u64::from(!attributes);
        if self.index_file {
            return Ok(());
        }
        let file_index = if self.subfiles { set.file_index } else { SINGLE_FILE };
        let object = match file_index {
            SINGLE_FILE => self.path.to_string(),
            k => object::subfile(self.path, k),
        };
        let length = match file_index {
            SINGLE_FILE => Some(self.file.length()),
            k => match self.lengths.get(&k) {
                Some(length) => *length,
                None => {
                    let length = match Object::open(self.layout, &object) {
                        Ok(o) => Some(o.length()),
                        Err(e) if e.kind() == ErrorKind::NotFound => {
                            report.add(finding(FindingKind::MissingSubfile, &object, "the subfile is not there"));
                            None
                        }
                        Err(e) => return Err(e),
                    };
                    self.lengths.insert(k, length);
                    length
                }
            },
        };
        let Some(length) = length else { return Ok(()) };
        if !attributes {
            let element = ElementType::from_code(code);
            let size = element.map_or(0, ElementType::size);
            let bytes = match (&set.shape, &set.value) {
                (Some(s), _) if s.is_local_value() => Some(size),
                (Some(s), _) => s.elements().and_then(|n| n.checked_mul(size)),
                (None, Some(AttributeValue::One(Value::String(text)))) => Some(text.len() as u64),
                (None, _) => Some(size),
            };
            let end = bytes.and_then(|n| set.payload_offset.checked_add(n));
            if end.is_none_or(|end| end > length) || set.record_offset >= set.payload_offset {
                let words = format!("its payload lies outside of the {length} bytes of its file");
                report.add(at(FindingKind::OutOfBounds, &object, set.payload_offset, words));
                return Ok(());
            }
        }
        if !self.groups_known || self.incomparable || damaged {
            return Ok(());
        }
        match self.records.get(&(attributes, file_index, set.record_offset)) {
            None => {
                let words = "the index names a record that no process group has".to_string();
                report.add(at(FindingKind::IndexDiffers, &object, set.record_offset, words));
            }
            Some(seen) if seen.code != code && !attributes => {
                let words = format!("type {code} in the index, {} in the process group", seen.code);
                report.add(at(FindingKind::Type, &object, set.record_offset, words));
            }
            Some(seen)
                if seen.name != name
                    || seen.essence != essence(set, attributes, seen.ours)
                    || seen.sums.is_some_and(|of_group| sums_beside(set).is_some_and(|sums| sums != of_group)) =>
            {
                let words = "the index says other than the process group".to_string();
                report.add(at(FindingKind::IndexDiffers, &object, set.record_offset, words));
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// Delayed consistency: the blocks of a global array agree on its shape, lie in it, don't overlap and cover it.
    fn steps_of(&self, full: &str, sets: &Sets, report: &mut Report) -> Result<()> {
        for step in sets.steps() {
            let time = (step as u32).saturating_add(self.live.first_time());
            let at = |kind: FindingKind, byte: Option<u64>, words: String| Finding {
                kind,
                object: self.path.to_string(),
                byte,
                step: Some(step),
                variable: Some(full.to_string()),
                words,
            };
            let mut shape: Option<Shape> = None;
            let mut boxes = Vec::new();
            let mut places = Vec::new();
            for i in sets.of_steps(step..step + 1) {
                let set = sets.get(i)?;
                let this = set.transform.map(|t| t.shape).or(set.shape);
                let Some(this) = this.filter(|s| s.rank() > 0 && (s.is_global() || shape.is_some())) else { continue };
                if this.global.iter().any(|g| *g >= LOCAL_VALUE) {
                    continue;
                }
                match &shape {
                    Some(first) if first.global != this.global => {
                        let words =
                            format!("a block says the shape is {:?}, the first {:?}", this.global, first.global);
                        report.add(at(FindingKind::Shape, Some(set.record_offset), words));
                    }
                    Some(_) => {}
                    None => shape = Some(this.clone()),
                }
                let block = this.as_box();
                if !block.fits(&this.global) {
                    let words = format!(
                        "a block at {:?} of {:?} leaves the shape {:?}",
                        block.offset, block.count, this.global
                    );
                    report.add(at(FindingKind::OutOfBounds, Some(set.record_offset), words));
                }
                boxes.push(block);
                places.push(set.record_offset);
            }
            let Some(shape) = shape else { continue };
            if let Some((a, b)) = overlap::find(&boxes) {
                let words = format!("blocks {a} and {b} share elements; readers take those of block {b}");
                report.add(at(FindingKind::Overlap, Some(places[b]), words));
                continue;
            }
            let covered: Option<u64> =
                boxes.iter().map(BoundingBox::elements).try_fold(0u64, |sum, n| sum.checked_add(n?));
            let wanted = elements(&shape.global);
            if wanted != covered && !self.partial.contains(&time) {
                let words = format!(
                    "blocks cover {} of {} elements",
                    covered.map_or("?".into(), |n| n.to_string()),
                    wanted.map_or("?".into(), |n| n.to_string())
                );
                report.add(at(FindingKind::Gap, None, words));
            }
        }
        Ok(())
    }
}

fn digest(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// Count, sum and sum of squares, as bits.
type Sums = (u64, u64, u64);

/// What lies beside the index. Releases that do not know it leave it out where they extend a file.
fn sums_beside(set: &Characteristics) -> Option<Sums> {
    let s = set.statistics.as_ref().filter(|s| s.level == Level::Beside)?;
    Some((s.finite, s.sum.to_bits(), s.sum_of_squares.to_bits()))
}

/// What index and process group must agree on. Foreign writers keep less in both: ADIOS 1.13 stores time 0 for
/// attributes, statistics in other forms.
fn essence(set: &Characteristics, attribute: bool, ours: bool) -> u64 {
    let mut hasher = DefaultHasher::new();
    let put = |value: &Value, hasher: &mut DefaultHasher| {
        let mut bytes = Vec::new();
        value.append_to(&mut bytes);
        bytes.hash(hasher);
    };
    if !attribute || ours {
        (set.payload_offset, set.time_index).hash(&mut hasher);
    }
    if !attribute {
        set.shape.as_ref().map(|s| (&s.local, &s.global, &s.offset)).hash(&mut hasher);
        if let Some(t) = &set.transform {
            (&t.uid, t.element.code(), &t.shape.local, &t.shape.global, &t.shape.offset, &t.metadata).hash(&mut hasher);
        }
    }
    match &set.value {
        None => 0u8.hash(&mut hasher),
        Some(AttributeValue::One(v)) => put(v, &mut hasher),
        Some(AttributeValue::Many(_, values)) => values.iter().for_each(|v| put(v, &mut hasher)),
        Some(AttributeValue::Variable(id)) => id.hash(&mut hasher),
    }
    if let (Some(s), true) = (&set.statistics, ours) {
        put(&s.min, &mut hasher);
        put(&s.max, &mut hasher);
        match s.level {
            Level::Full => (s.finite, s.sum.to_bits(), s.sum_of_squares.to_bits()).hash(&mut hasher),
            _ => (s.finite > 0).hash(&mut hasher),
        }
    }
    hasher.finish()
}
