//! Origin of values: before values are read from a process group, its trailer is compared with the index.
//!
//! A subfile may have been replaced by that of another rank or run or by an older state, or truncated and extended again.
//! Each process group of ours ends with a trailer, which is compared once per reader:
//!
//! | field of the trailer | compared with |
//! |---|---|
//! | subfile | the number of the file that contains the group |
//! | time index, rank, offset | the process group index |
//! | run | the opens that the index lists for the step, if any |
//! | length | the end of the requested bytes |
//!
//! The groups of a file that contains its own index are not compared, except their checksums: they were written, moved and
//! truncated together with it. Groups of ADIOS 1.x have no trailer; if each rank has a subfile, the time index and the length in
//! the group's head are compared. Files of adios2 are not compared.
//!
//! Cost: the process group index once per reader. The trailer of each process group once per reader: together with nearby values,
//! in one read for many small groups that are close together, else in one read of 512 bytes; two more if the group does not end
//! where the index suggests. Up to 16 MiB of values read in this way are buffered until the call ends. Several threads open and
//! compare files if that takes long.

use super::groups::{GroupFacts, Groups};
use super::*;
use crate::crew;
use crate::plan::Plan;
use crate::window::{self, Ahead, Near, Room, Window, Windows};
use std::collections::BTreeMap;
use thalweg_bp::process_group::Header;
use thalweg_types::Extent;

/// The comparisons before values are returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reads {
    /// None, to rescue data of a damaged file: values may belong to another step.
    Unchecked,
    /// Process groups in subfiles are compared with the index, so that no value belongs to another step or rank.
    #[default]
    Compared,
    /// As [`Reads::Compared`], in all files, and the checksum of every block is compared: its stored bytes are read as a whole,
    /// and exactly the compared values are returned.
    Checked,
}

impl std::str::FromStr for Reads {
    type Err = Error;

    fn from_str(word: &str) -> Result<Reads> {
        match word.to_ascii_lowercase().as_str() {
            "unchecked" => Ok(Reads::Unchecked),
            "compared" => Ok(Reads::Compared),
            "checked" => Ok(Reads::Checked),
            _ => Err(Error::new(
                ErrorKind::Config,
                format!("reads=\"{word}\": it is \"checked\", \"compared\" (as without it) or \"unchecked\""),
            )),
        }
    }
}

/// Bytes to be read from one process group.
#[derive(Debug, Clone, Copy)]
pub(super) struct GroupRead {
    file: Option<u32>,
    start: u64,
    end: u64,
    /// Number of requested bytes in the range.
    useful: u64,
    step: u64,
    /// Expected start and rank of their group, from the order of blocks.
    likely: Option<(u64, u32)>,
}

impl GroupRead {
    pub fn of(block: &Block) -> GroupRead {
        let Extent { offset, length } = block.payload;
        let end = offset.saturating_add(length);
        GroupRead { file: block.subfile, start: offset, end, useful: length, step: block.step, likely: None }
    }

    /// The group of the rank with the file's number, which is usually the right one.
    fn own(&self, groups: &Groups) -> Option<(u64, u32)> {
        self.file.and_then(|k| Some((groups.of_rank(self.step, k, self.start)?, k)))
    }

    /// The requested bytes and the expected end of their group in a file of `length` bytes.
    fn near(&self, groups: &Groups, length: u64) -> Near {
        let group = self.likely.or_else(|| self.own(groups)).filter(|_| groups.extended);
        let end = group.map(|(at, rank)| groups.end_of(self.key(), (at, self.step, rank), length));
        Near { start: self.start, end: self.end, useful: self.useful, group_end: end.filter(|end| *end <= length) }
    }

    fn key(&self) -> u32 {
        self.file.unwrap_or(SINGLE_FILE)
    }
}

/// Number of groups of one file that one thread compares at a time.
const FEW: usize = 256;

/// Values read together with trailers, by file.
#[derive(Default)]
pub(super) struct FirstReads(BTreeMap<Option<u32>, Windows>);

impl Reader {
    /// The same file with other comparisons. Clones are not affected.
    ///
    /// # Cost
    /// [`Reads::Checked`]: whole blocks are read for any part of them, with memory for one block per thread.
    pub fn with_reads(mut self, reads: Reads) -> Reader {
        if self.0.reads != reads {
            let inner = Arc::make_mut(&mut self.0);
            inner.reads = reads;
            // Cached trailers may lack the checksums of blocks.
            if let Some(groups) = inner.groups.get_mut() {
                Arc::make_mut(groups).forget();
            }
        }
        self
    }

    /// The comparisons before values are returned.
    pub fn reads(&self) -> Reads {
        self.0.reads
    }

    /// The same file with real numbers of so many decimal digits. Clones are not affected.
    ///
    /// Arrays are rounded; single values, statistics and attributes, which the index has, are as they were written.
    ///
    /// # Cost
    /// Large reads through a server that picks out bytes ([`thalweg_layout::ReadObject::picks`]) bring only the bytes of these digits.
    /// Others bring all bytes, and round them.
    pub fn with_digits(mut self, digits: Digits) -> Reader {
        if self.0.digits != digits {
            Arc::make_mut(&mut self.0).digits = digits;
        }
        self
    }

    /// The digits of real numbers that reads keep.
    pub fn digits(&self) -> Digits {
        self.0.digits
    }

    /// Number of reads of blocks without a checksum under [`Reads::Checked`], by this reader and its clones; other libraries
    /// write no checksums.
    pub fn blocks_without_checksum(&self) -> u64 {
        self.0.without_checksum.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Whether groups in this file are compared with the index.
    fn is_compared(&self, file: Option<u32>) -> bool {
        match self.0.reads {
            Reads::Unchecked => false,
            Reads::Compared => file.is_some() || self.0.data_path != self.0.path,
            Reads::Checked => true,
        }
    }

    /// Whether groups in any of its files are.
    pub(super) fn compares_any(&self) -> bool {
        self.is_compared(Some(0)) && (self.0.status.subfiles || self.is_compared(None))
    }

    /// The process groups that a plan for one step reads and that were not compared yet.
    ///
    /// # Errors
    /// Errors of reading the process group index.
    pub(super) fn unverified_groups(
        &self,
        v: &IndexedVariable,
        sets: Range<usize>,
        step: u64,
        plan: &Plan,
        coded: &[(Option<u32>, Extent)],
    ) -> Result<Vec<GroupRead>> {
        if !self.compares_any() {
            return Ok(Vec::new());
        }
        let groups = self.0.groups.get();
        let mut unverified: Vec<GroupRead> = Vec::new();
        {
            let known = groups.map(|g| g.trailers());
            let mut last = (SINGLE_FILE, 0, 0);
            let pieces = plan.pieces.iter().map(|p| (p.file, p.source, p.source.saturating_add(p.span()), p.bytes()));
            let coded = coded.iter().map(|(file, e)| (*file, e.offset, e.offset.saturating_add(e.length), e.length));
            for (file, start, end, useful) in pieces.chain(coded).filter(|(file, ..)| self.is_compared(*file)) {
                let key = file.unwrap_or(SINGLE_FILE);
                if last.0 == key && last.1 <= start && end <= last.2 {
                    continue;
                }
                let facts = groups.zip(known.as_ref()).and_then(|(g, known)| known.good(g, key, start, step));
                match facts {
                    Some((at, facts)) if end <= facts.end => last = (key, at, facts.end),
                    _ => unverified.push(GroupRead { file, start, end, useful, step, likely: None }),
                }
            }
        }
        if !unverified.is_empty() {
            let groups = self.groups()?;
            let places = groups.places_of(v, sets, step, &self.0.variables.heads[v.number].group)?;
            for read in &mut unverified {
                read.likely = places.group_of(read.key(), read.start);
            }
        }
        Ok(unverified)
    }

    /// Compares groups with the index, in several threads if that takes long. Returns values that were read together with
    /// trailers.
    ///
    /// # Errors
    /// `Corrupt` names file, step and rank; its number is that of the read.
    pub(super) fn compare(
        &self,
        mut reads: Vec<(usize, GroupRead)>,
    ) -> std::result::Result<FirstReads, (Error, usize)> {
        let Some(first) = reads.first() else { return Ok(FirstReads::default()) };
        let groups = self.groups().map_err(|e| (e, first.0))?;
        reads.sort_unstable_by_key(|(_, read)| (read.key(), read.start));
        let (room, first_reads) = (Room::default(), Mutex::new(BTreeMap::<_, Vec<Window>>::new()));
        let tasks = reads.chunk_by(|a, b| a.1.file == b.1.file).flat_map(|of_file| of_file.chunks(FEW)).collect();
        crew::work_off(
            tasks,
            || (),
            |(), task| {
                let windows = self.compare_some(&groups, task, &room)?;
                if !windows.is_empty() {
                    first_reads.lock().entry(task[0].1.file).or_default().extend(windows);
                }
                Ok(())
            },
        )?;
        let first_reads = first_reads.into_inner();
        Ok(FirstReads(first_reads.into_iter().map(|(file, all)| (file, Windows::new(all))).collect()))
    }

    /// Compares groups of one file, in the order of the requested bytes.
    fn compare_some(
        &self,
        groups: &Groups,
        wanted: &[(usize, GroupRead)],
        room: &Room,
    ) -> std::result::Result<Vec<Window>, (Error, usize)> {
        let Some((number, first)) = wanted.first() else { return Ok(Vec::new()) };
        let end = wanted.iter().map(|(_, w)| w.end).max().unwrap_or(0);
        let object = self.object(first.file).and_then(|o| o.reaching(end)).map_err(|e| (e, *number))?;
        let near: Vec<Near> = wanted.iter().map(|(_, w)| w.near(groups, object.length())).collect();
        let ahead = Ahead::new(&object, window::stretches(&near, &self.limits(), &mut |bytes| room.take(bytes)));
        for (number, w) in wanted {
            // If the file ends before them, reading returns the error.
            if w.end > object.length() {
                continue;
            }
            let known = groups.trailers().good(groups, w.key(), w.start, w.step).is_some_and(|(_, t)| w.end <= t.end);
            if !known {
                self.compare_one(groups, &ahead, w).map_err(|e| (e.in_object(&*object.path), *number))?;
            }
        }
        Ok(ahead.into_windows())
    }

    /// The object that contains payloads, with the values that [`Reader::compare`] has read.
    pub(super) fn object_with(&self, file: Option<u32>, first_reads: &FirstReads) -> Result<Object> {
        let object = self.object(file)?;
        Ok(match first_reads.0.get(&file) {
            Some(windows) => object.with_windows(windows.clone()),
            None => object,
        })
    }

    fn compare_one(&self, groups: &Groups, source: &impl Source, w: &GroupRead) -> Result<()> {
        let (key, time) = (w.key(), groups.time_of(w.step));
        let own = w.own(groups);
        if !groups.extended || groups.trailers().is_without(key, w.step) {
            return self.compare_head(groups, source, w, own);
        }
        let first = w.likely.into_iter().chain(own.filter(|own| w.likely != Some(*own)));
        let first: Vec<(u64, u32)> = first.filter(|(at, _)| *at <= w.start).collect();
        let mut last = None;
        let others = groups.up_to(w.step, w.start).iter().rev().map(|g| (g.1, g.2));
        let others = others.filter(|(at, _)| last.replace(*at) != Some(*at) && first.iter().all(|f| f.0 != *at));
        for (at, rank) in first.iter().copied().chain(others) {
            let facts = self.group_facts(groups, source, key, (at, w.step, rank))?;
            let Some(facts) = facts.filter(|t| t.end > w.start) else { continue };
            return match groups.differs(key, at, &facts, w.step) {
                None if facts.end < w.end => {
                    let what = format!("its process group ends at byte {}, the block at byte {}", facts.end, w.end);
                    Err(self.wrong(groups, w, &what).at_byte(at))
                }
                None => Ok(()),
                Some(what) => Err(self.wrong(groups, w, &what).at_byte(at)),
            };
        }
        let openings = groups.openings.of(time);
        let ours = match openings.is_empty() {
            false => openings.iter().all(|o| o.run != 0),
            // Indexes of earlier releases list no runs: if the file begins with a group of ours, all groups are ours.
            true => groups.openings.is_empty() && self.group_facts(groups, source, key, (0, 0, 0))?.is_some(),
        };
        if ours {
            let what = "these bytes are not in a whole process group";
            return Err(self.wrong(groups, w, what).at_byte(w.start));
        }
        groups.trailers().put_without(key, w.step);
        self.compare_head(groups, source, w, own)
    }

    /// Compares the head of a group without trailer, if its offset is known.
    fn compare_head(
        &self,
        groups: &Groups,
        source: &impl Source,
        w: &GroupRead,
        own: Option<(u64, u32)>,
    ) -> Result<()> {
        const HEAD: u64 = 512;
        let (Some((at, rank)), true) = (own, groups.subfile_each && !groups.by_adios2) else { return Ok(()) };
        let length = HEAD.min(source.length().saturating_sub(at));
        let bytes = source::bytes(source, at, length, "process group")?;
        let decoded = match Header::decode(&mut Cursor::new(&bytes, self.0.order, at)) {
            Ok((length, header)) => Some((at.saturating_add(length), header.time_index)),
            // The head is longer than the bytes read.
            Err(e) if e.kind() == ErrorKind::Torn => return Ok(()),
            Err(_) => None,
        };
        let time = groups.time_of(w.step);
        match decoded {
            Some((end, its)) if its == time && end >= w.end => {
                let facts = GroupFacts { time, end, rank, run: 0, file: w.key(), agrees: true, blocks: None };
                groups.trailers().put(w.key(), at, facts);
                Ok(())
            }
            Some((end, its)) if its == time => {
                let what = format!("its process group ends at byte {end}, the block at byte {}", w.end);
                Err(self.wrong(groups, w, &what).at_byte(at))
            }
            Some((_, its)) => {
                let what = format!("its process group has the time index {its}, that of the step is {time}");
                Err(self.wrong(groups, w, &what).at_byte(at))
            }
            None => Err(self.wrong(groups, w, "there is no process group where the index has one").at_byte(at)),
        }
    }

    /// The error of a file that does not contain the data that the index lists.
    fn wrong(&self, groups: &Groups, w: &GroupRead, what: &str) -> Error {
        let rank = match (w.likely, w.file) {
            (Some((_, rank)), _) => format!("rank {rank}"),
            (_, Some(k)) if groups.subfile_each => format!("rank {k}"),
            (_, Some(_)) => "a rank".to_string(),
            (None, None) => match groups.up_to(w.step, w.start).last() {
                Some((.., rank)) => format!("rank {rank}"),
                None => "a rank".to_string(),
            },
        };
        let what = format!("it does not contain the data of {rank} in step {}: {what}", w.step);
        Error::new(ErrorKind::Corrupt, what).at_step(w.step).safe(
            "data in other files and steps can be read, `thalweg verify` lists the lost data; restore the right file, or \
             read its values without a check with reads=unchecked",
        )
    }

    /// Compares stored bytes of a block with their checksum; counts blocks that have none.
    pub(super) fn check_sum(&self, w: &GroupRead, bytes: &[u8]) -> Result<()> {
        let groups = self.groups()?;
        let at = |e: Error| e.at_byte(w.start).at_step(w.step);
        let block = {
            let trailers = groups.trailers();
            let group = trailers.good(&groups, w.key(), w.start, w.step);
            group.and_then(|(at, t)| Some((at, t.rank, t.blocks.clone()?)))
        };
        let Some((start, rank, blocks)) = block else {
            self.0.without_checksum.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            return Ok(());
        };
        let payload = Extent::new(w.start - start, bytes.len() as u64);
        let sum = blocks.binary_search_by_key(&payload.offset, |b| b.payload.offset).ok().map(|i| blocks[i]);
        let Some(sum) = sum.filter(|s| s.payload == payload) else {
            let what =
                format!("a block of {} bytes that its process group, of rank {rank}, does not have", bytes.len());
            return Err(at(Error::new(ErrorKind::Corrupt, what)).safe(OTHERS));
        };
        let crc = thalweg_types::checksum::crc32c(bytes);
        if crc != sum.crc {
            let what = format!(
                "the checksum of a block of {} bytes, which rank {rank} wrote, is {:#010x}, computed {crc:#010x}",
                bytes.len(),
                sum.crc
            );
            return Err(at(Error::new(ErrorKind::Corrupt, what)).safe(OTHERS));
        }
        Ok(())
    }
}

const OTHERS: &str = "other blocks can be read; `thalweg verify` names all that are damaged";
