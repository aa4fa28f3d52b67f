//! The process group index: who wrote what when, and whether dimensions are stored fastest first.

use super::*;
use thalweg_bp::checksum::Crc32c;

/// Whether dimensions are stored fastest first.
#[derive(Clone, Default)]
pub(super) struct Fortran {
    groups: HashMap<String, bool>,
    /// Of the first process group.
    first: bool,
}

/// The process group index with what is needed to find a block's group in it.
#[derive(Clone, Default)]
pub(super) struct Groups {
    /// The time index of step 0.
    first_time: u32,
    entries: Arc<Vec<ProcessGroupEntry>>,
    /// Step, place in its file and rank of every group, rising.
    by_place: Vec<(u64, u64, u32)>,
    /// Step, rank and place of every group, rising.
    by_rank: Vec<(u64, u32, u64)>,
    /// Each rank has a subfile of its own number: all groups of the first step start at byte 0.
    subfile_each: bool,
    /// What groups in subfiles say of themselves, by subfile and place.
    told: Arc<Mutex<HashMap<(u32, u64), Told>>>,
}

/// Step, end and writer, as a group's trailer has them.
#[derive(Clone, Copy)]
struct Told {
    step: u64,
    end: u64,
    rank: u32,
}

impl Groups {
    /// Takes in further groups. Where they are of later steps, as those of a running writer are, that costs only them.
    pub(super) fn add(&mut self, entries: Vec<ProcessGroupEntry>) {
        let first_time = self.first_time;
        let step = |g: &ProcessGroupEntry| u64::from(g.time_index.saturating_sub(first_time));
        let known = self.by_place.len();
        let later = entries.iter().map(step).min() > self.by_place.last().map(|g| g.0);
        self.by_place.extend(entries.iter().map(|g| (step(g), g.offset, g.rank)));
        self.by_rank.extend(entries.iter().map(|g| (step(g), g.rank, g.offset)));
        let from = if later { known } else { 0 };
        self.by_place[from..].sort_unstable();
        self.by_rank[from..].sort_unstable();
        let first = self.by_place.first().map(|g| g.0);
        self.subfile_each = self.by_place.iter().take_while(|g| Some(g.0) == first).all(|g| g.1 == 0);
        Arc::make_mut(&mut self.entries).extend(entries);
    }

    /// The groups of a step that start at byte `last` or before, by their place.
    fn up_to(&self, step: u64, last: u64) -> &[(u64, u64, u32)] {
        let from = self.by_place.partition_point(|g| g.0 < step);
        let to = self.by_place.partition_point(|g| (g.0, g.1) <= (step, last));
        &self.by_place[from..to.max(from)]
    }

    /// Where the last group of a rank in a step starts that does so at byte `last` or before.
    fn of_rank(&self, step: u64, rank: u32, last: u64) -> Option<u64> {
        let behind = self.by_rank.partition_point(|g| *g <= (step, rank, last));
        let found = self.by_rank[..behind].last()?;
        ((found.0, found.1) == (step, rank)).then_some(found.2)
    }
}

impl Reader {
    /// Whether a group's dimensions are stored fastest first, as Fortran has them.
    ///
    /// # Errors
    /// A damaged process group index.
    pub fn is_fortran(&self, group: &str) -> Result<bool> {
        self.fortran(group)
    }

    /// Takes dimensions of all groups for stored fastest first (or slowest first), whatever the file says. Heard once,
    /// before variables are asked for; false where another answer was given before.
    pub fn assume_fortran(&self, fortran: bool) -> bool {
        *self.0.assumed.get_or_init(|| fortran) == fortran
    }

    /// The process group index: who wrote what when. Read at the first call.
    pub fn process_groups(&self) -> Result<Arc<Vec<ProcessGroupEntry>>> {
        Ok(self.groups()?.entries.clone())
    }

    fn groups(&self) -> Result<Arc<Groups>> {
        let inner = &*self.0;
        if let Some(groups) = inner.groups.get() {
            return Ok(groups.clone());
        }
        let mut all = Vec::new();
        if let Some(base) = &inner.live.base {
            let f = &base.footer;
            let bytes =
                source::bytes(&inner.file, f.process_groups, f.variables - f.process_groups, "process group index")?;
            all = index::process_groups(&mut Cursor::new(&bytes, f.order, f.process_groups))
                .map_err(|e| e.in_object(inner.path.clone()))?;
        }
        all.extend(inner.live.steps.process_groups()?);
        let mut groups = Groups { first_time: self.0.live.first_time(), ..Groups::default() };
        groups.add(all);
        Ok(inner.groups.get_or_init(|| Arc::new(groups)).clone())
    }

    /// The rank that wrote a block; `None` where that can't be told, as in subfiles of other libraries that several ranks
    /// share. Reads the process group index, and for a subfile that is there the trailer of the block's group, both once.
    pub fn writer(&self, block: &Block) -> Result<Option<u32>> {
        let groups = self.groups()?;
        let before = groups.up_to(block.step, block.record_offset);
        let Some(k) = block.subfile else { return Ok(before.last().map(|g| g.2)) };
        // Behind the payload there is more.
        let reach = block.payload.end().unwrap_or(u64::MAX).saturating_add(1);
        let object = match self.object(Some(k)).and_then(|o| o.reaching(reach)) {
            Ok(object) => Some(object),
            // The index alone has to do where it is all there is.
            Err(e) if e.kind() == ErrorKind::NotFound => None,
            Err(e) => return Err(e),
        };
        // Mostly a subfile has its rank's number, so that the first place asked is the right one. The index does not say
        // in which subfile a group lies; the group itself says whose it is.
        let own = groups.of_rank(block.step, k, block.record_offset);
        if let Some(object) = object {
            let mut last = None;
            let places = before.iter().rev().map(|g| g.1).filter(|at| last.replace(*at) != Some(*at));
            for at in own.into_iter().chain(places) {
                let told = self.told(&groups, &object, k, at)?;
                if let Some(t) = told.filter(|t| t.step == block.step && t.end > block.record_offset) {
                    return Ok(Some(t.rank));
                }
            }
        }
        Ok((groups.subfile_each && groups.of_rank(block.step, k, u64::MAX).is_some()).then_some(k))
    }

    /// What the group at byte `at` of subfile `k` says of itself.
    fn told(&self, groups: &Groups, object: &Object, k: u32, at: u64) -> Result<Option<Told>> {
        let known = || groups.told.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(told) = known().get(&(k, at)) {
            return Ok(Some(*told));
        }
        let trailer = scan::trailer_at(object, at, self.0.status.order)?;
        let told = trailer.and_then(|t| {
            Some(Told {
                step: u64::from(t.time_index).checked_sub(u64::from(groups.first_time))?,
                end: t.group.end()?,
                rank: t.rank,
            })
        });
        // What is not there yet may be there at the next look.
        if let Some(told) = told {
            known().insert((k, at), told);
        }
        Ok(told)
    }

    /// Whether a group's dimensions are stored fastest first: what its first process group says, or the file's first
    /// one where the index names no group (adios2).
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

    /// Walks the process group index through a window; its checksum is compared where there is one.
    fn read_fortran(&self) -> Result<Fortran> {
        const WINDOW: usize = 256 << 10;
        let inner = &*self.0;
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
                    match index::skim_process_group(&mut c) {
                        Ok((group, fortran)) => {
                            note(group, fortran);
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
                return Err(Error::new(ErrorKind::Corrupt, "the checksum of the process group index is wrong")
                    .at_byte(f.process_groups));
            }
        }
        inner.live.steps.process_groups()?.iter().for_each(|g| note(g.group.as_bytes(), g.fortran));
        Ok(flags)
    }
}

/// The checksum of the process group index, as the directory has it.
fn directory_crc(records: Option<&Records>, order: ByteOrder) -> Option<u32> {
    let mut c = Cursor::new(records?.get(Tag::Directory), order, 0);
    c.take(16, "directory").ok()?;
    c.u32("directory").ok()
}
