//! Verification: delayed consistency, offline. Ranks write without comparing; here the blocks of all ranks are checked against each
//! other.
//!
//! | checked | how |
//! |---|---|
//! | index | checksums of the whole, of each entry, of the process group index, of heads and footer; every set decodes |
//! | process groups | a scan from the first byte: framing, payloads and trailers against their checksums |
//! | both | every group and record the scan finds is in the index as the index has it, and none else: type, shape, value, statistics, offsets |
//! | subfiles | all exist; payloads lie inside them |
//! | steps | blocks of a global array agree on its shape, lie inside, don't overlap, cover it |
//!
//! Files of other libraries have no checksums, and less is compared: [`Report::not_checked`] lists the missing checks.

mod blocks;
mod groups;
mod record;
mod report;

pub use report::{Finding, FindingKind, Report};

use crate::decode;
use crate::object::{self, Before, Object};
use crate::overlap;
use crate::sets::Sets;
use crate::variable::full_name;
use record::RecordSeen;
use report::finding;
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

/// Checks a file and its subfiles: the index against its checksums, the process groups against theirs, each against the
/// other, and the blocks of every step against each other (delayed consistency, offline).
///
/// A file that does not open is a finding, not an error.
///
/// # Errors
/// `NotFound` and other failures of the store; `Unsupported` for a file of a later version of the format. Damage is a finding.
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

/// The bytes of each object that readers, [`verify`] and `recover` use, ascending; all others are dead: replaced indexes, remains of
/// failed ranks, padding.
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
    /// Process groups that a recovery left unindexed: subfile, offset; per time index, their number.
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

    /// The checksums of the full index: as a whole, of its entries, of its process group index, and of the rest.
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
                    ..finding(FindingKind::IndexDiffers, self.path, "its index entry differs from the directory")
                }),
                Err(e) if is_damage(&e) => report.add_error(FindingKind::Checksum, self.path, &e),
                Err(e) => return Err(e),
                Ok(_) => {}
            }
        }
        Ok(())
    }
}
