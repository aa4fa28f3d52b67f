//! The index of an open file in an ordered store on local disk: no process needs it all in memory, and several processes
//! may each store a part.
//!
//! | question | answer |
//! |----------|--------|
//! | which part | ranges of the file, 64 MiB each, assigned to the parts round-robin; an entry that overlaps ranges of several parts is stored in each of them |
//! | on disk  | groups of up to 256 consecutive records of an index log, sorted by offset; runs unchanged, and with them records and holes that are longer than a range |
//! | lookup   | searches the groups that begin within the longest group's length before the range |
//! | memory   | `index_cache` bytes: for the cache of the ordered store; an index that fits there is held in memory instead |
//! | the file | has no name: the system removes it when the process ends |
//!
//! Sources: Greenberg, Bent, Grider, HotStorage 2015 (MDHIM: ranges of one ordered index, each with an owner).

use super::run::Run;
use super::tables::Gather;
use super::{Body, Cuts, Loader, MappedRange, Strand};
use redb::{Database, ReadableTableMetadata, TableDefinition};
use std::path::{Path, PathBuf};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

/// Size of a range that belongs to one part, in bytes.
pub const RANGE: u64 = 64 << 20;
/// Largest number of records in a group.
const GROUP: usize = 256;
/// Number of groups in a transaction.
const BATCH: usize = 4096;

/// Largest number of rows that a search for the last record reads.
const MOST_ROWS: usize = 10_000;

/// Table: first byte and a number, to the group's records.
const GROUPS: TableDefinition<'_, (u64, u64), &[u8]> = TableDefinition::new("groups");
const RUNS: TableDefinition<'_, (u64, u64), &[u8]> = TableDefinition::new("runs");

/// The ranges of the file that a part owns: those whose number modulo `of` is `number`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Number of the part, from 0.
    pub number: u64,
    /// Number of parts.
    pub of: u64,
}

impl Part {
    /// The whole file.
    pub const ALL: Part = Part { number: 0, of: 1 };

    /// The part that owns a byte.
    pub fn owner(byte: u64, of: u64) -> u64 {
        byte / RANGE % of.max(1)
    }

    /// The parts, of `of`, that store entries of bytes `start..end`.
    pub fn owners(start: u64, end: u64, of: u64) -> impl Iterator<Item = u64> {
        let (first, last, of) = (start / RANGE, (end.max(start + 1) - 1) / RANGE, of.max(1));
        (0..(last - first + 1).min(of)).map(move |k| (first + k) % of)
    }

    fn meets(&self, start: u64, end: u64) -> bool {
        let (first, last) = (start / RANGE, (end.max(start + 1) - 1) / RANGE);
        self.of <= 1 || last - first + 1 >= self.of || (first..=last).any(|range| range % self.of == self.number)
    }
}

fn failed(what: &str, e: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::Io, format!("cannot {what} the index of an open file on disk")).caused_by(e)
}

/// Collects entries: in memory while they fit, then on disk.
pub struct OnDisk {
    small: Gather,
    disk: Option<Disk>,
    folder: PathBuf,
    cache: usize,
    part: Part,
}

struct Disk {
    database: Database,
    open: Vec<MappedRange>,
    groups: Vec<(u64, u64, Vec<u8>)>,
    runs: Vec<(u64, u64, Vec<u8>)>,
    number: u64,
    /// Length of the longest group, and of the longest run.
    reach: (u64, u64),
    entries: u64,
}

impl OnDisk {
    /// Collects in `cache` bytes of memory, then in an unnamed file in `folder`.
    pub fn new(folder: &Path, cache: usize, part: Part) -> OnDisk {
        OnDisk { small: Gather::default(), disk: None, folder: folder.into(), cache, part }
    }
}

impl Disk {
    fn new(folder: &Path, cache: usize) -> Result<Disk> {
        let path =
            folder.join(format!("thalweg-index-{}-{:016x}", std::process::id(), crate::container::place::fresh()));
        let made = Database::builder().set_cache_size(cache).create(&path);
        let database = made.map_err(|e| failed("make", e).in_object(path.display().to_string()))?;
        std::fs::remove_file(&path).map_err(|e| failed("hide", e))?;
        Ok(Disk {
            database,
            open: Vec::with_capacity(GROUP),
            groups: Vec::new(),
            runs: Vec::new(),
            number: 0,
            reach: (0, 0),
            entries: 0,
        })
    }

    fn end_group(&mut self) -> Result<()> {
        if self.open.is_empty() {
            return Ok(());
        }
        self.open.sort_unstable_by_key(|p| p.start);
        let start = self.open[0].start;
        let end = self.open.iter().map(|p| p.end).max().unwrap_or(start);
        self.reach.0 = self.reach.0.max(end - start);
        let mut bytes = Vec::with_capacity(self.open.len() * 28);
        for p in &self.open {
            [p.start, p.end, p.log | u64::from(p.hole) << 63]
                .iter()
                .for_each(|v| bytes.extend_from_slice(&v.to_le_bytes()));
            bytes.extend_from_slice(&p.strand.to_le_bytes());
        }
        self.open.clear();
        self.number += 1;
        self.groups.push((start, self.number, bytes));
        if self.groups.len() >= BATCH { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        let mut transaction = self.database.begin_write().map_err(|e| failed("write", e))?;
        // The file ends with the process: it need not survive a crash.
        transaction.set_durability(redb::Durability::None);
        for (table, rows) in [(GROUPS, &mut self.groups), (RUNS, &mut self.runs)] {
            let mut table = transaction.open_table(table).map_err(|e| failed("write", e))?;
            rows.sort_unstable();
            for (start, number, bytes) in rows.drain(..) {
                table.insert((start, number), bytes.as_slice()).map_err(|e| failed("write", e))?;
            }
        }
        transaction.commit().map_err(|e| failed("write", e))
    }
}

impl Disk {
    fn add(&mut self, strand: u32, run: &Run) -> Result<()> {
        let (start, end) = run.bounds();
        self.entries += 1;
        if run.records() == 1 && end - start <= RANGE {
            // A new group begins at another writer's records and at large jumps, so that groups cover short ranges.
            let jumps = self.open.last().is_some_and(|p| p.strand != strand || start.abs_diff(p.start) > RANGE);
            if jumps || self.open.len() == GROUP {
                self.end_group()?;
            }
            self.open.push(MappedRange { start, end, log: run.log, strand, hole: run.hole });
            return Ok(());
        }
        self.reach.1 = self.reach.1.max(end - start);
        self.number += 1;
        let mut bytes = Vec::with_capacity(96);
        for v in [run.clock, run.start, run.length, run.log, u64::from(strand) | u64::from(run.hole) << 63] {
            bytes.extend_from_slice(&v.to_le_bytes());
        }
        for level in [run.inner, run.outer] {
            for v in [level.stride as u64, level.log_stride as u64, level.count] {
                bytes.extend_from_slice(&v.to_le_bytes());
            }
        }
        self.runs.push((start, self.number, bytes));
        if self.runs.len() >= BATCH { self.write() } else { Ok(()) }
    }
}

impl Loader for OnDisk {
    fn add(&mut self, strand: u32, run: &Run) -> Result<()> {
        let run = run.normal();
        let (start, end) = run.bounds();
        if !self.part.meets(start, end) {
            return Ok(());
        }
        if let Some(disk) = &mut self.disk {
            return disk.add(strand, &run);
        }
        self.small.add(strand, &run)?;
        if self.small.memory() > self.cache {
            let mut disk = Disk::new(&self.folder, self.cache)?;
            std::mem::take(&mut self.small).empty(|strand, run| disk.add(strand, run))?;
            self.disk = Some(disk);
        }
        Ok(())
    }

    fn finish(self: Box<Self>, strands: &[Strand], cuts: &Cuts) -> Result<Box<dyn Body>> {
        let Some(mut disk) = self.disk else { return Box::new(self.small).finish(strands, cuts) };
        disk.end_group()?;
        disk.write()?;
        Ok(Box::new(Ranges {
            database: Mutex::new(disk.database),
            reach: disk.reach,
            entries: disk.entries,
            cache: self.cache,
        }))
    }
}

/// The entries, on disk.
struct Ranges {
    database: Mutex<Database>,
    reach: (u64, u64),
    entries: u64,
    cache: usize,
}

impl Ranges {
    fn rows(
        &self,
        table: TableDefinition<'_, (u64, u64), &[u8]>,
        from: u64,
        to: u64,
        mut tell: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let database = self.database.lock();
        let transaction = database.begin_read().map_err(|e| failed("read", e))?;
        let table = transaction.open_table(table).map_err(|e| failed("read", e))?;
        if table.is_empty().map_err(|e| failed("read", e))? {
            return Ok(());
        }
        for row in table.range((from, 0)..(to, 0)).map_err(|e| failed("read", e))? {
            let (_, bytes) = row.map_err(|e| failed("read", e))?;
            tell(bytes.value())?;
        }
        Ok(())
    }
}

impl Ranges {
    /// The largest end that `end_of` returns for a row that begins before `offset`; `None` if too many rows would have to be read.
    ///
    /// - `reach`: length of the longest row.
    fn last_end(
        &self,
        table: TableDefinition<'_, (u64, u64), &[u8]>,
        offset: u64,
        reach: u64,
        end_of: impl Fn(&[u8]) -> u64,
    ) -> Result<Option<u64>> {
        let database = self.database.lock();
        let transaction = database.begin_read().map_err(|e| failed("read", e))?;
        let table = transaction.open_table(table).map_err(|e| failed("read", e))?;
        let mut best = 0;
        for (read, row) in table.range(..(offset, 0)).map_err(|e| failed("read", e))?.rev().enumerate() {
            let (key, bytes) = row.map_err(|e| failed("read", e))?;
            if key.value().0.saturating_add(reach) <= best {
                break;
            }
            if read == MOST_ROWS {
                return Ok(None);
            }
            best = best.max(end_of(bytes.value()));
        }
        Ok(Some(best))
    }
}

impl Body for Ranges {
    fn pieces(&self, from: u64, to: u64, out: &mut Vec<MappedRange>) -> Result<()> {
        self.rows(GROUPS, from.saturating_sub(self.reach.0), to, |bytes| {
            for row in bytes.chunks_exact(28) {
                let p = MappedRange {
                    start: word(row, 0),
                    end: word(row, 1),
                    log: word(row, 2) & !(1 << 63),
                    strand: word(row, 3) as u32,
                    hole: word(row, 2) >> 63 == 1,
                };
                if p.start < to && p.end > from {
                    out.push(p);
                }
            }
            Ok(())
        })?;
        self.rows(RUNS, from.saturating_sub(self.reach.1), to, |bytes| {
            let (strand, run) = run_of(bytes);
            run.meeting(from, to, |start, log| {
                out.push(MappedRange { start, end: start + run.length, log, strand, hole: run.hole });
            });
            Ok(())
        })
    }

    fn end_before(&self, offset: u64) -> Result<Option<u64>> {
        let groups = self.last_end(GROUPS, offset, self.reach.0, |bytes| {
            let rows = bytes.chunks_exact(28).filter(|row| word(row, 0) < offset && word(row, 2) >> 63 == 0);
            rows.map(|row| word(row, 1).min(offset)).max().unwrap_or(0)
        })?;
        let runs = self.last_end(RUNS, offset, self.reach.1, |bytes| run_of(bytes).1.end_before(offset))?;
        Ok(groups.zip(runs).map(|(a, b)| a.max(b)))
    }

    fn memory(&self) -> usize {
        self.cache + GROUP * 28
    }

    fn entries(&self) -> u64 {
        self.entries
    }
}

/// A row of the table of runs: its strand and the run.
fn run_of(bytes: &[u8]) -> (u32, Run) {
    let level = |at: usize| super::run::Level {
        stride: word(bytes, at) as i64,
        log_stride: word(bytes, at + 1) as i64,
        count: word(bytes, at + 2),
    };
    let one = Run::one(word(bytes, 0), word(bytes, 1), word(bytes, 2), word(bytes, 3));
    (word(bytes, 4) as u32, Run { hole: word(bytes, 4) >> 63 == 1, inner: level(5), outer: level(8), ..one })
}

/// The `k`th number of a row; the last may have half the length.
fn word(row: &[u8], k: usize) -> u64 {
    let mut bytes = [0; 8];
    let there = row.get(k * 8..).unwrap_or_default();
    let count = there.len().min(8);
    bytes[..count].copy_from_slice(&there[..count]);
    u64::from_le_bytes(bytes)
}
