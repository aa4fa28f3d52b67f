//! The process group index: rank, step and offset of every process group, and the dimension order of its group.

use super::*;
use std::collections::BTreeMap;
use std::sync::MutexGuard;
use thalweg_bp::footer::FOOTER;
use thalweg_bp::index::RawProcessGroup;
use thalweg_bp::opening::Openings;
use thalweg_bp::trailer::BlockSum;
use thalweg_types::checksum::{Crc32c, crc32c};

/// Whether dimensions are stored fastest first.
#[derive(Clone, Default)]
pub(super) struct Fortran {
    groups: HashMap<String, bool>,
    /// Of the first process group.
    first: bool,
}

/// The process group index, with data for finding a block's group.
#[derive(Clone, Default)]
pub(super) struct Groups {
    /// The time index of step 0.
    first_time: u32,
    entries: Vec<Entry>,
    /// Names of groups and of their time variables, each once, in the order of the file.
    names: Vec<Names>,
    numbers: HashMap<Names, u32>,
    /// Whether these are in the order of steps.
    in_order: bool,
    /// Step, offset in its file and rank of every group, ascending.
    by_place: Vec<(u64, u64, u32)>,
    /// Step, rank and offset of every group, ascending.
    by_rank: Vec<(u64, u32, u64)>,
    /// Each rank has a subfile with its own number: all groups of the first step start at byte 0.
    pub subfile_each: bool,
    /// Whether groups of ours are among them.
    pub extended: bool,
    /// Whether adios2 wrote the file, whose groups have another layout.
    pub by_adios2: bool,
    /// The runs that wrote them.
    pub openings: Openings,
    /// Cached trailers of groups.
    trailers: Arc<Mutex<TrailerCache>>,
    /// The blocks of the last variable that was read.
    last: Arc<Mutex<Option<(usize, u64, Places)>>>,
}

/// An entry of the process group index.
#[derive(Clone, Copy)]
struct Entry {
    time: u32,
    rank: u32,
    offset: u64,
    names: u32,
}

/// Fields common to the entries of a group.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Names {
    group: String,
    time_name: String,
    fortran: bool,
}

/// Trailers of groups, by file and offset.
#[derive(Default)]
pub(super) struct TrailerCache {
    groups: BTreeMap<(u32, u64), GroupFacts>,
    /// Files and steps in which no group has a trailer.
    without: HashSet<(u32, u64)>,
}

/// The facts from a group's trailer, or from its head if it has none.
#[derive(Clone)]
pub(super) struct GroupFacts {
    pub time: u32,
    pub end: u64,
    pub rank: u32,
    pub run: u64,
    pub file: u32,
    /// With the index.
    pub agrees: bool,
    /// Checksums of its blocks, if they are compared.
    pub blocks: Option<Arc<[BlockSum]>>,
}

impl TrailerCache {
    /// The group that contains a byte of a file, with its offset, if it agrees with the index and belongs to this step.
    pub fn good(&self, groups: &Groups, file: u32, at: u64, step: u64) -> Option<(u64, &GroupFacts)> {
        let ((of, start), facts) = self.groups.range(..=(file, at)).next_back()?;
        let good = *of == file && at < facts.end && facts.agrees && facts.time == groups.time_of(step);
        good.then_some((*start, facts))
    }

    pub fn put(&mut self, file: u32, at: u64, facts: GroupFacts) {
        self.groups.insert((file, at), facts);
    }

    pub fn is_without(&self, file: u32, step: u64) -> bool {
        self.without.contains(&(file, step))
    }

    pub fn put_without(&mut self, file: u32, step: u64) {
        self.without.insert((file, step));
    }
}

/// The positions of a variable's blocks in a step, and their groups.
#[derive(Clone, Default)]
pub(super) struct Places {
    /// File, first byte and number of every block, ascending.
    blocks: Arc<Vec<(u32, u64, u64)>>,
    /// Offset and rank of the groups, in the order of blocks.
    groups: Arc<Vec<(u64, u32)>>,
}

impl Places {
    /// Expected start and rank of the group around a byte; correct if all ranks wrote equally many blocks of the variable.
    pub fn group_of(&self, file: u32, at: u64) -> Option<(u64, u32)> {
        let behind = self.blocks.partition_point(|b| (b.0, b.1) <= (file, at));
        let (of, _, number) = self.blocks[..behind].last()?;
        let each = (self.blocks.len() / self.groups.len().max(1)).max(1) as u64;
        let group = *self.groups.get(usize::try_from(number / each).ok()?)?;
        (*of == file && group.0 <= at).then_some(group)
    }
}

impl Groups {
    /// Adds the groups of an index. The cost of later steps, as from a running writer, depends only on their own groups.
    ///
    /// # Errors
    /// The first error among them; then nothing is added.
    pub(super) fn add<'a>(&mut self, raw: impl Iterator<Item = Result<RawProcessGroup<'a>>>) -> Result<()> {
        let mut last: Option<(RawProcessGroup<'a>, u32)> = None;
        let known = self.entries.len();
        for raw in raw {
            let raw = raw.inspect_err(|_| self.entries.truncate(known))?;
            let same =
                |l: &RawProcessGroup<'_>| (l.group, l.time_name, l.fortran) == (raw.group, raw.time_name, raw.fortran);
            let names = match &last {
                Some((last, number)) if same(last) => *number,
                _ => self.number_of(raw.to_entry()),
            };
            last = Some((raw, names));
            self.entries.push(Entry { time: raw.time_index, rank: raw.rank, offset: raw.offset, names });
        }
        let first_time = self.first_time;
        let step = |g: &Entry| u64::from(g.time.saturating_sub(first_time));
        let new = &self.entries[known..];
        let later = new.iter().map(step).min() > self.by_place.last().map(|g| g.0);
        self.by_place.extend(new.iter().map(|g| (step(g), g.offset, g.rank)));
        self.by_rank.extend(new.iter().map(|g| (step(g), g.rank, g.offset)));
        let from = if later { known } else { 0 };
        self.by_place[from..].sort_unstable();
        self.by_rank[from..].sort_unstable();
        let first = self.by_place.first().map(|g| g.0);
        self.subfile_each = self.by_place.iter().take_while(|g| Some(g.0) == first).all(|g| g.1 == 0);
        self.in_order = self.entries.is_sorted_by_key(|g| g.time);
        // A step without groups may have groups now.
        self.trailers().without.clear();
        Ok(())
    }

    fn number_of(&mut self, entry: ProcessGroupEntry) -> u32 {
        let names = Names { group: entry.group, time_name: entry.time_name, fortran: entry.fortran };
        if let Some(number) = self.numbers.get(&names) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.names.push(names.clone());
        self.numbers.insert(names, number);
        number
    }

    /// The entries in the order of the index.
    fn entries(&self) -> Vec<ProcessGroupEntry> {
        let entry = |g: &Entry| {
            let Names { group, time_name, fortran } = self.names[g.names as usize].clone();
            ProcessGroupEntry { group, fortran, rank: g.rank, time_name, time_index: g.time, offset: g.offset }
        };
        self.entries.iter().map(entry).collect()
    }

    /// Dimension order by group, from the first entry of each.
    fn fortran(&self) -> Fortran {
        let mut flags = Fortran { first: self.names.first().is_some_and(|n| n.fortran), ..Fortran::default() };
        for names in &self.names {
            flags.groups.entry(names.group.clone()).or_insert(names.fortran);
        }
        flags
    }

    /// Forgets the cached trailers; clones keep them.
    pub fn forget(&mut self) {
        self.trailers = Arc::default();
    }

    /// The time index of a step.
    pub fn time_of(&self, step: u64) -> u32 {
        u32::try_from(u64::from(self.first_time).saturating_add(step)).unwrap_or(u32::MAX)
    }

    pub fn trailers(&self) -> MutexGuard<'_, TrailerCache> {
        self.trailers.lock()
    }

    /// The positions of a variable's blocks in a step; nothing if their number is no multiple of the number of groups.
    pub fn places_of(&self, v: &IndexedVariable, sets: Range<usize>, step: u64, group: &str) -> Result<Places> {
        if self.subfile_each {
            return Ok(Places::default());
        }
        let mut last = self.last.lock();
        if let Some((number, of, places)) = &*last
            && (*number, *of) == (v.number, step)
            && places.blocks.len() == sets.len()
        {
            return Ok(places.clone());
        }
        let time = self.time_of(step);
        let from = self.entries.partition_point(|g| g.time < time);
        let of_step = self.entries[from..].iter().take_while(|g| g.time == time);
        let is_of_group = |g: &&Entry| self.names[g.names as usize].group == group;
        let groups: Vec<_> = of_step.filter(is_of_group).map(|g| (g.offset, g.rank)).collect();
        let mut places = Places::default();
        if self.in_order && !groups.is_empty() && sets.len().is_multiple_of(groups.len()) {
            let first = sets.start;
            let mut blocks = Vec::with_capacity(sets.len());
            for number in sets {
                let (file, at) = match v.sets.skim(number)? {
                    Some(set) => (set.file_index, set.payload_offset),
                    None => v.sets.get(number).map(|set| (set.file_index, set.payload_offset))?,
                };
                blocks.push((file, at, (number - first) as u64));
            }
            blocks.sort_unstable();
            places = Places { blocks: Arc::new(blocks), groups: Arc::new(groups) };
        }
        *last = Some((v.number, step, places.clone()));
        Ok(places)
    }

    /// The expected end of the group that starts at byte `at`, in a file of `length` bytes: the start of the next group.
    pub fn end_of(&self, file: u32, (at, step, rank): (u64, u64, u32), length: u64) -> u64 {
        let own = self.by_rank.partition_point(|g| *g <= (step, rank, at));
        if self.subfile_each && file != SINGLE_FILE {
            let later = self.by_rank.partition_point(|g| *g < (step.saturating_add(1), rank, 0));
            let next = [own, later].into_iter().filter_map(|i| self.by_rank.get(i));
            let next = next.filter(|g| g.1 == rank && g.0 <= step.saturating_add(1) && g.2 > at).map(|g| g.2).min();
            return next.unwrap_or(length);
        }
        // In a file that ranks share they are usually in the order of ranks.
        if let Some(next) = self.by_rank.get(own).filter(|g| g.0 == step && g.2 > at) {
            return next.2;
        }
        let behind = self.by_place.partition_point(|g| (g.0, g.1) <= (step, at));
        self.by_place.get(behind).filter(|g| g.1 > at).map_or(length, |g| g.1)
    }

    /// The difference between the trailer of the group at byte `at` of a file and the index; `None` if there is none.
    pub fn differs(&self, file: u32, at: u64, facts: &GroupFacts, step: u64) -> Option<String> {
        let time = self.time_of(step);
        if facts.file != file {
            let name =
                |k: u32| if k == SINGLE_FILE { "a file without subfiles".into() } else { format!("subfile {k}") };
            return Some(format!("its process group is of rank {} and belongs into {}", facts.rank, name(facts.file)));
        }
        let runs = self.openings.of(time);
        if !runs.is_empty() && runs.iter().all(|o| o.run != 0 && o.run != facts.run) {
            return Some(format!(
                "its process group, of rank {}, is of run {:x}; the index lists run {:x}",
                facts.rank,
                facts.run,
                runs.last().map_or(0, |o| o.run)
            ));
        }
        if facts.time != time {
            return Some(format!(
                "its process group, of rank {}, has the time index {}; that of the step is {time}",
                facts.rank, facts.time
            ));
        }
        let listed = self.by_rank.binary_search(&(step, facts.rank, at)).is_ok();
        (!listed).then(|| format!("the index lists no process group of rank {} there", facts.rank))
    }

    /// The groups of a step that start at or before byte `last`, by offset.
    pub fn up_to(&self, step: u64, last: u64) -> &[(u64, u64, u32)] {
        let from = self.by_place.partition_point(|g| g.0 < step);
        let to = self.by_place.partition_point(|g| (g.0, g.1) <= (step, last));
        &self.by_place[from..to.max(from)]
    }

    /// Start of the last group of a rank in a step that starts at or before byte `last`.
    pub fn of_rank(&self, step: u64, rank: u32, last: u64) -> Option<u64> {
        let behind = self.by_rank.partition_point(|g| *g <= (step, rank, last));
        let found = self.by_rank[..behind].last()?;
        ((found.0, found.1) == (step, rank)).then_some(found.2)
    }
}

impl Reader {
    /// Whether a group's dimensions are stored fastest first, as in Fortran.
    ///
    /// # Errors
    /// A damaged process group index.
    pub fn is_fortran(&self, group: &str) -> Result<bool> {
        self.fortran(group)
    }

    /// Overrides the dimension order of all groups: fastest first, or slowest first. Must be called once, before the first request for a
    /// variable; returns false if another order was set before.
    pub fn assume_fortran(&self, fortran: bool) -> bool {
        *self.0.assumed.get_or_init(|| fortran) == fortran
    }

    /// The process group index: rank, step and offset of every process group. Read at the first call.
    ///
    /// # Errors
    /// `Corrupt` if the process group index is damaged; the failure of reading it.
    /// # Cost
    /// The first call reads the whole process group index, later ones copy it.
    pub fn process_groups(&self) -> Result<Arc<Vec<ProcessGroupEntry>>> {
        Ok(Arc::new(self.groups()?.entries()))
    }

    pub(super) fn groups(&self) -> Result<Arc<Groups>> {
        let inner = &*self.0;
        if let Some(groups) = inner.groups.get() {
            return Ok(groups.clone());
        }
        let mut groups = Groups { first_time: inner.live.first_time(), ..Groups::default() };
        groups.extended = inner.status.extended;
        if let Some(base) = &inner.live.base {
            let f = &base.footer;
            let bytes =
                source::bytes(&inner.file, f.process_groups, f.variables - f.process_groups, "process group index")?;
            let mut c = Cursor::new(&bytes, f.order, f.process_groups);
            let added = index::raw_process_groups(&mut c).and_then(|raw| groups.add(raw));
            added.map_err(|e| e.in_object(inner.path.clone()))?;
            if let Some(wanted) = directory_crc(base.records(), f.order)
                && crc32c(&bytes) != wanted
            {
                return Err(wrong_checksum(f.process_groups).in_object(inner.path.clone()));
            }
        }
        groups.add(inner.live.steps.raw_process_groups())?;
        let base = inner.live.base.as_ref();
        for (records, order) in base
            .and_then(|b| b.records())
            .map(|r| (r, inner.order))
            .into_iter()
            .chain([(&inner.live.steps.records, ByteOrder::NATIVE)])
        {
            groups.openings.add(records.get(Tag::Run), order);
        }
        if let Some(base) = base.filter(|b| b.extension.is_none()) {
            let tag: [u8; 11] = source::array(&inner.file, base.end - FOOTER)?;
            groups.by_adios2 = &tag == b"ADIOS-BP v2";
        }
        Ok(inner.groups.get_or_init(|| Arc::new(groups)).clone())
    }

    /// The rank that wrote a block; `None` if it cannot be determined, as in subfiles of other libraries that several ranks
    /// share.
    ///
    /// # Errors
    /// `Corrupt` if the process group index or the trailer is damaged; the failure of reading them. A missing subfile is no
    /// error.
    /// # Cost
    /// Reads the process group index, and for an existing subfile the trailer of the block's group, each once per reader.
    pub fn writer(&self, block: &Block) -> Result<Option<u32>> {
        let groups = self.groups()?;
        let before = groups.up_to(block.step, block.record_offset);
        let Some(k) = block.subfile else { return Ok(before.last().map(|g| g.2)) };
        // More bytes follow the payload.
        let reach = block.payload.end().unwrap_or(u64::MAX).saturating_add(1);
        let object = match self.object(Some(k)).and_then(|o| o.reaching(reach)) {
            Ok(object) => Some(object),
            // If there is only an index, it must suffice.
            Err(e) if e.kind() == ErrorKind::NotFound => None,
            Err(e) => return Err(e),
        };
        // A subfile usually has its rank's number, so that the first candidate is the right one. The index does not contain the
        // subfile of a group; the group's trailer contains its rank.
        let own = groups.of_rank(block.step, k, block.record_offset);
        if let Some(object) = object {
            let mut last = None;
            let places = before.iter().rev().map(|g| (g.1, g.2)).filter(|(at, _)| last.replace(*at) != Some(*at));
            for (at, rank) in own.map(|at| (at, k)).into_iter().chain(places) {
                let facts = self.group_facts(&groups, &object, k, (at, block.step, rank))?;
                let time = groups.time_of(block.step);
                if let Some(t) = facts.filter(|t| t.time == time && t.end > block.record_offset) {
                    return Ok(Some(t.rank));
                }
            }
        }
        Ok((groups.subfile_each && groups.of_rank(block.step, k, u64::MAX).is_some()).then_some(k))
    }

    /// The facts from the trailer of the group at byte `at` of a file.
    /// - `group`: offset; if the index has a group, also its step and rank.
    pub(super) fn group_facts(
        &self,
        groups: &Groups,
        source: &impl Source,
        file: u32,
        group: (u64, u64, u32),
    ) -> Result<Option<GroupFacts>> {
        let (at, order) = (group.0, self.0.status.order);
        let sums = self.0.reads == Reads::Checked;
        if let Some(facts) = groups.trailers().groups.get(&(file, at)).filter(|t| !sums || t.blocks.is_some()) {
            return Ok(Some(facts.clone()));
        }
        let end = groups.end_of(file, group, source.length());
        let expected = if end <= source.length() { scan::trailer_before(source, end, order)? } else { None };
        let trailer = match expected.filter(|t| t.group.offset == at) {
            Some(trailer) => Some(trailer),
            None => scan::trailer_at(source, at, order)?,
        };
        let Some((trailer, end)) = trailer.and_then(|t| t.group.end().map(|end| (t, end))) else {
            // A missing group may exist at the next read.
            return Ok(None);
        };
        let mut facts = GroupFacts {
            time: trailer.time_index,
            end,
            rank: trailer.rank,
            run: trailer.run,
            file: trailer.file_index,
            agrees: false,
            blocks: sums.then(|| trailer.blocks.into()),
        };
        let step = u64::from(facts.time).checked_sub(u64::from(groups.first_time));
        facts.agrees = step.is_some_and(|step| groups.differs(file, at, &facts, step).is_none());
        groups.trailers().put(file, at, facts.clone());
        Ok(Some(facts))
    }

    /// Whether a group's dimensions are stored fastest first, according to its first process group, or to the file's first
    /// process group if the index names no group (adios2).
    pub(super) fn fortran(&self, group: &str) -> Result<bool> {
        let inner = &*self.0;
        if let Some(assumed) = inner.assumed.get() {
            return Ok(*assumed);
        }
        let flags = match inner.fortran.get() {
            Some(flags) => flags,
            None => {
                let flags = self.read_fortran().map_err(|e| e.in_object(inner.path.clone()))?;
                inner.fortran.get_or_init(|| flags)
            }
        };
        Ok(flags.groups.get(group).copied().unwrap_or(flags.first))
    }

    /// Reads the process group index through a window, or as a whole if values will be read; its checksum is compared if it has
    /// one.
    fn read_fortran(&self) -> Result<Fortran> {
        const WINDOW: usize = 256 << 10;
        /// Of an index larger than this only the requested part is kept in memory.
        const SMALL: u64 = 4 << 20;
        let inner = &*self.0;
        let length = inner.live.base.as_ref().map_or(0, |b| b.footer.variables - b.footer.process_groups);
        if inner.groups.get().is_some() || (length <= SMALL && self.compares_any()) {
            return Ok(self.groups()?.fortran());
        }
        let mut flags = Fortran::default();
        let mut last = Vec::new();
        let mut note = |group: &[u8], fortran: bool| {
            if flags.groups.is_empty() {
                flags.first = fortran;
            } else if last == group {
                return;
            }
            last = group.to_vec();
            flags.groups.entry(String::from_utf8_lossy(group).into_owned()).or_insert(fortran);
        };
        if let Some(base) = &inner.live.base {
            let f = &base.footer;
            let (mut at, stop) = (f.process_groups, f.variables);
            let head: [u8; 16] = source::array(&inner.file, at)?;
            let count = Cursor::new(&head, f.order, at).u64("process group index")?;
            let mut crc = Crc32c::new();
            crc.update(&head);
            at += 16;
            let mut window = Vec::new();
            let mut seen = 0;
            while seen < count {
                let n = (stop - at).min(WINDOW as u64);
                window.resize(n as usize, 0);
                source::fill(&inner.file, at, &mut window)?;
                let mut c = Cursor::new(&window, f.order, at);
                let mut good = 0;
                while seen < count {
                    match RawProcessGroup::decode(&mut c) {
                        Ok(raw) => {
                            note(raw.group, raw.fortran);
                            (good, seen) = (c.position(), seen + 1);
                        }
                        Err(e) if e.kind() == ErrorKind::Torn && good > 0 && at + n < stop => break,
                        Err(e) => return Err(e),
                    }
                }
                crc.update(&window[..good]);
                at += good as u64;
            }
            if let Some(wanted) = directory_crc(base.records(), f.order)
                && (at != stop || crc.finish() != wanted)
            {
                return Err(wrong_checksum(f.process_groups));
            }
        }
        for raw in inner.live.steps.raw_process_groups() {
            let raw = raw?;
            note(raw.group, raw.fortran);
        }
        Ok(flags)
    }
}

fn wrong_checksum(at: u64) -> Error {
    Error::new(ErrorKind::Corrupt, "the checksum of the process group index is wrong").at_byte(at)
}

/// The checksum of the process group index in the directory.
fn directory_crc(records: Option<&Records>, order: ByteOrder) -> Option<u32> {
    let mut c = Cursor::new(records?.get(Tag::Directory), order, 0);
    c.take(16, "directory").ok()?;
    c.u32("directory").ok()
}
