//! Making an object anew where a data node fails that the name node still counts as alive.
//!
//! For ten minutes by default the name node goes on choosing a data node that died. Hadoop's own client then abandons the block
//! and excludes the node; `hdfs-native` has neither call. Within a block it goes on with the data nodes that are left; where a block
//! begins, its writer is broken for good. The object then gets another choice of data nodes, and only a new file has one:
//!
//! | the object has | what is done | cost |
//! |---|---|---|
//! | nothing but what is kept, and never was synced | made anew under its name, the kept bytes written again | one creation: some ms |
//! | at most [`MOST_COPIED`] bytes | made anew under another name, its bytes copied, synced, renamed over the old one | a copy |
//! | more | its lease is recovered, which drops the block that failed, and a block is appended | seconds |
//!
//! - The choice is the name node's and may fall on the dead node again: with one dead of three and two copies in two of three
//!   cases. After [`TRIES_AT_ONE_LEVEL`] tries the object is made with a copy less, at least one; the name node is told the full
//!   number when the object is closed.
//! - A copy has blocks of at least twice its length, so an object is copied a number of times that grows with the logarithm of
//!   its length, and not once for each of its blocks: n blocks in a row without the dead node become unlikely quickly.
//! - Whoever settled the object meanwhile took its writer for dead: then the failure stands, and nothing is made anew. The name
//!   node is asked just before; between question and answer lies the time of one request.
//! - A process that dies while it copies leaves the old object, with all that was synced, and a file `NAME.anew-PROCESS-NUMBER`.
//!
//! A failed choice is noticed in milliseconds where the data node's process died; a data node whose machine is gone costs each
//! try the client's `dfs.client.socket-timeout`. And `hsync` of the library may wait for ever: where the confirmation fails after
//! the last packet was sent, it waits for the task that sends, which waits for another packet. So a sync gets a limit of its own
//! ([`Trouble`]), and while a data node is known to have failed, it comes late enough to find a broken pipeline broken.

use super::Shared;
use super::write::{Act, Cause, RUN, State, Writing};
use bytes::Bytes;
use hdfs_native::client::FileStatus;
use hdfs_native::file::FileWriter;
use hdfs_native::{HdfsError, WriteOptions};
use std::collections::VecDeque;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

/// Bytes kept of what was written last: more than the packets that the library holds unconfirmed (200 of 64 KiB).
const KEPT: u64 = 16 << 20;

/// Runs shorter than this are gathered before they are kept.
const SHORT: usize = 256 << 10;

/// Bytes up to which an object is copied rather than settled and appended to.
const MOST_COPIED: u64 = 1 << 30;

/// The size of blocks where nobody says another: what a cluster has by default.
const LEAST_BLOCK: u64 = 128 << 20;

/// How often an object is made anew, in a row.
const TRIES: u32 = 60;

/// How many of them before the object gets a copy less.
const TRIES_AT_ONE_LEVEL: u32 = 6;

/// How long it may take to ask whether the object is still this writer's.
const OURS: Duration = Duration::from_secs(5);

/// How long a sync may take at least before its pipeline counts as broken.
const SHORTEST_LIMIT: Duration = Duration::from_secs(3);

/// How long a failed data node is reckoned with after it was last met.
const MEMORY: Duration = Duration::from_secs(60);

/// How long after its first packet a pipeline that could not be set up is seen to be broken.
const SEEN_BROKEN: Duration = Duration::from_millis(10);

/// What a store's objects know together of data nodes that failed.
#[derive(Default)]
pub(super) struct Trouble {
    met: Mutex<Option<Instant>>,
    /// What the longest of its syncs took, in milliseconds.
    longest_sync: AtomicU64,
}

impl Trouble {
    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.met.lock()
    }

    fn is_recent(&self) -> bool {
        self.lock().is_some_and(|met| met.elapsed() < MEMORY)
    }

    /// How long a sync may take: some times what the longest took, so that where syncs are slow few are given up in vain.
    fn limit(&self) -> Duration {
        let least = if self.is_recent() { SHORTEST_LIMIT / 3 } else { SHORTEST_LIMIT };
        least.max(8 * Duration::from_millis(self.longest_sync.load(Ordering::Relaxed)))
    }
}

impl Shared {
    /// Asks the data nodes of the pipeline to have all bytes on their devices.
    pub(super) fn sync(&self, writer: &mut FileWriter) -> std::result::Result<(), Cause> {
        if self.trouble.is_recent() {
            std::thread::sleep(SEEN_BROKEN);
        }
        let start = Instant::now();
        self.answer_within(self.trouble.limit().min(self.timeout), writer.hsync())?;
        self.trouble.longest_sync.fetch_max(start.elapsed().as_millis() as u64, Ordering::Relaxed);
        Ok(())
    }
}

/// The last bytes written.
#[derive(Default)]
pub(super) struct ReplayBuffer {
    runs: VecDeque<Bytes>,
    /// Short runs, behind the others.
    gathered: Vec<u8>,
    /// Bytes of both.
    length: u64,
    /// Bytes written before those.
    from: u64,
}

impl ReplayBuffer {
    pub(super) fn keep(&mut self, run: Bytes) {
        self.length += run.len() as u64;
        if run.len() < SHORT {
            self.gathered.extend_from_slice(&run);
        }
        if run.len() >= SHORT || self.gathered.len() >= SHORT {
            let gathered = std::mem::take(&mut self.gathered);
            self.runs.extend((!gathered.is_empty()).then(|| gathered.into()));
        }
        if run.len() >= SHORT {
            self.runs.push_back(run);
        }
        while let Some(first) = self.runs.front().map(|first| first.len() as u64)
            && self.length - first >= KEPT
        {
            self.runs.pop_front();
            self.length -= first;
            self.from += first;
        }
    }

    /// The kept bytes from a place in the object on; none before it are.
    fn after(&self, at: u64) -> Vec<Bytes> {
        let mut skipped = at.saturating_sub(self.from);
        let gathered = Bytes::copy_from_slice(&self.gathered);
        let mut after = Vec::with_capacity(self.runs.len() + 1);
        for run in self.runs.iter().cloned().chain([gathered]) {
            let skip = skipped.min(run.len() as u64);
            skipped -= skip;
            after.extend((skip < run.len() as u64).then(|| run.slice(skip as usize..)));
        }
        after
    }
}

impl Cause {
    /// Whether a data node may be at fault, and others might do.
    fn may_be_a_data_nodes(&self) -> bool {
        match self {
            Cause::Silence(_) | Cause::Hdfs(HdfsError::IOError(_) | HdfsError::DataTransferError(_)) => true,
            // The last block was not reported by as many data nodes as it needs.
            Cause::Hdfs(HdfsError::OperationFailed(text)) => text.contains("complete file"),
            Cause::Hdfs(HdfsError::RPCError(class, _)) => class.ends_with("NotReplicatedYetException"),
            _ => false,
        }
    }

    fn is_no_room(&self) -> bool {
        matches!(self, Cause::Hdfs(HdfsError::RPCError(_, text)) if text.contains("could only be written to 0 of"))
    }

    fn other(what: String) -> Cause {
        Cause::Other(Error::new(ErrorKind::Io, what))
    }
}

/// What tries in a row have in common.
struct Round {
    tried: u32,
    claim: Claim,
    /// How many data nodes the object was being written to at the first of them.
    copies: Option<u32>,
    /// The size of blocks of what is made anew, and the largest that data nodes may have room for.
    block: u64,
    most: u64,
}

impl Round {
    /// Whether another try makes sense after this failure.
    fn goes_on(&mut self, cause: &Cause, least: u64) -> bool {
        if !cause.is_no_room() {
            return cause.may_be_a_data_nodes();
        }
        // The name node wants room for a whole block, and as much again for each block that failed lately.
        let larger = self.block > least;
        self.most = (self.block / 2).max(least);
        larger
    }
}

/// Why the old object is known to be the one that this writer wrote.
enum Claim {
    /// The lease is its writer's.
    Lease,
    /// It was settled here, and not changed since, in milliseconds.
    Settled(u64),
}

impl Writing {
    /// Makes the object anew until what failed succeeds. After success of an [`Act::Write`] `act` holds the bytes that are still
    /// to be counted.
    pub(super) fn over_failed_nodes(
        &self,
        state: &mut State,
        act: &mut Act,
        first: Cause,
    ) -> std::result::Result<(), Cause> {
        let until = Instant::now() + self.shared.timeout;
        let (mut pause, mut last) = (Duration::from_millis(1), first);
        let most = 2 * MOST_COPIED;
        let mut round = Round { tried: 0, claim: Claim::Lease, copies: None, block: 0, most };
        while round.tried < TRIES {
            let least = state.options.block_size.unwrap_or(LEAST_BLOCK);
            if !round.goes_on(&last, least) || Instant::now() > until || !self.is_ours(state, &round.claim) {
                break;
            }
            *self.shared.trouble.lock() = Some(Instant::now());
            match self.anew(state, act, &mut round).and_then(|()| self.ask(&mut state.writer, act)) {
                Ok(()) => return Ok(()),
                Err(cause) => last = cause,
            }
            round.tried += 1;
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(100));
        }
        Err(last)
    }

    /// Whether the object under the name is the one that this writer wrote.
    fn is_ours(&self, state: &mut State, claim: &Claim) -> bool {
        let writer = &mut state.writer;
        if let Claim::Settled(changed) = claim {
            let about = self.shared.answer(self.shared.client.get_file_info(&self.path));
            return about.is_ok_and(|about| about.modification_time == *changed);
        }
        match self.shared.answer_within(OURS.min(self.shared.trouble.limit()), writer.hsync()) {
            Ok(()) => true,
            Err(Cause::Hdfs(HdfsError::RPCError(..))) => false,
            // Closing gives up the block that failed, so that the name node alone is asked.
            Err(_) => {
                let _ = self.shared.answer_within(OURS, writer.close());
                self.shared.answer_within(OURS, writer.hsync()).is_ok()
            }
        }
    }

    /// Gives the object another choice of data nodes, with all that was written to it.
    fn anew(&self, state: &mut State, act: &mut Act, round: &mut Round) -> std::result::Result<(), Cause> {
        let client = &self.shared.client;
        let claim = &mut round.claim;
        let about = self.shared.answer(client.get_file_info(&self.path))?;
        let more = if let Act::Write(bytes) = act { bytes.len() as u64 } else { 0 };
        let least = *state.options.block_size.get_or_insert(about.blocksize.unwrap_or(LEAST_BLOCK));
        let mut options = state.options.clone().overwrite(true);
        options.permission = u32::from(about.permission) & 0o7777;
        round.block = larger(least, state.length + more, round.most);
        options.block_size = Some(round.block);
        let full = state.replication.or(about.replication).unwrap_or(1);
        let first = *round.copies.get_or_insert(about.replication.unwrap_or(1));
        let copies = first.saturating_sub(round.tried / TRIES_AT_ONE_LEVEL).clamp(1, full);
        if copies < full {
            options.replication = Some(copies);
            state.replication = Some(full);
        }

        if state.kept.from == 0 && !state.synced {
            let mut writer = self.create(&self.path, &options, &about)?;
            let sent = self.send(&mut writer, state.kept.after(0));
            state.writer = writer;
            return sent;
        }
        let mut there = self.readable()?;
        if (there < state.kept.from || state.length > MOST_COPIED) && matches!(claim, Claim::Lease) {
            self.shared.settle_path(&self.path).map_err(Cause::Other)?;
            let about = self.shared.answer(client.get_file_info(&self.path))?;
            *claim = Claim::Settled(about.modification_time);
            there = self.readable()?;
        }
        if there < state.kept.from || there > state.length + more {
            let (length, kept) = (state.length, state.length - state.kept.from);
            return Err(Cause::other(format!(
                "a data node failed: {there} bytes of {length} are left, the last {kept} kept"
            )));
        }
        let full_blocks = about.blocksize.is_some_and(|block| there % block == 0);
        if state.length > MOST_COPIED && full_blocks && matches!(claim, Claim::Settled(_)) {
            if about.replication != Some(copies) {
                self.shared.answer(client.set_replication(&self.path, copies))?;
            }
            state.writer = self.shared.answer(client.append(&self.path))?;
            *claim = Claim::Lease;
            // Of the bytes now being written the object may hold some already.
            if let Act::Write(bytes) = act {
                let held = bytes.split_to(there.saturating_sub(state.length) as usize);
                state.take(held);
            }
            let missing = state.kept.after(there);
            return self.send(&mut state.writer, missing);
        }
        self.copied(state, claim, &options, &about)
    }

    /// Makes the object anew under another name, and renames that.
    fn copied(
        &self,
        state: &mut State,
        claim: &mut Claim,
        options: &WriteOptions,
        about: &FileStatus,
    ) -> std::result::Result<(), Cause> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let temporary = format!("{}.anew-{}-{number}", self.path, std::process::id());
        let shared = &self.shared;
        let mut made = || {
            let mut writer = self.create(&temporary, options, about)?;
            let from = shared.answer(shared.client.read(&self.path))?;
            for at in (0..state.kept.from).step_by(RUN) {
                let length = (RUN as u64).min(state.kept.from - at) as usize;
                let bytes = shared.answer(from.read_range(at as usize, length))?;
                self.send(&mut writer, vec![bytes])?;
            }
            self.send(&mut writer, state.kept.after(0))?;
            if state.synced {
                shared.sync(&mut writer)?;
            }
            if !self.is_ours(state, claim) {
                return Err(Cause::other("a data node failed, and another process has settled the object".into()));
            }
            // The name node knows the writer by the file's number, whatever its name.
            shared.answer(shared.client.rename(&temporary, &self.path, true))?;
            Ok(writer)
        };
        match made() {
            Ok(writer) => {
                state.writer = writer;
                *claim = Claim::Lease;
                Ok(())
            }
            Err(cause) => {
                let _ = shared.answer(shared.client.delete(&temporary, false));
                Err(cause)
            }
        }
    }

    /// Makes a file, its owner that of the old one.
    fn create(&self, path: &str, options: &WriteOptions, old: &FileStatus) -> std::result::Result<FileWriter, Cause> {
        let client = &self.shared.client;
        let writer = self.shared.answer(client.create(path, options))?;
        let about = self.shared.answer(client.get_file_info(path))?;
        let user = (about.owner != old.owner).then_some(old.owner.as_str());
        let group = (about.group != old.group).then_some(old.group.as_str());
        if user.is_some() || group.is_some() {
            self.shared.answer(client.set_owner(path, user, group))?;
        }
        Ok(writer)
    }

    fn send(&self, writer: &mut FileWriter, runs: Vec<Bytes>) -> std::result::Result<(), Cause> {
        runs.into_iter().try_for_each(|run| self.shared.answer(writer.write_bytes(run)).map(|_| ()))
    }

    /// How many bytes of the old object can be read: those of the blocks before the one that failed.
    fn readable(&self) -> std::result::Result<u64, Cause> {
        Ok(self.shared.answer(self.shared.client.read(&self.path))?.file_length() as u64)
    }

    /// Tells the name node how many data nodes are to hold a closed object that was written to fewer.
    pub(super) fn replicate(&self, replication: u32) -> Result<()> {
        match self.shared.ask("close", &self.path, self.shared.client.set_replication(&self.path, replication)) {
            // Replaced or removed by others meanwhile: it was closed.
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::InvalidArgument) => Ok(()),
            outcome => outcome.map(|_| ()),
        }
    }
}

/// The size of blocks for an object that is made anew and has this many bytes already: twice those, where they fill a block.
///
/// - `most`: no larger than this, but as large as the blocks were.
fn larger(block: u64, length: u64, most: u64) -> u64 {
    let mut larger = block;
    while length > block && larger < 2 * length && larger <= most / 2 {
        larger *= 2;
    }
    larger
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(runs: Vec<Bytes>) -> Vec<u8> {
        runs.concat()
    }

    #[test]
    fn the_last_bytes_are_kept_in_order_whatever_the_runs() {
        let mut kept = ReplayBuffer::default();
        let mut all = Vec::new();
        for (n, length) in
            [1, 7, SHORT - 1, 3, SHORT, 4 << 20, 1, 4 << 20, 4 << 20, 9, 4 << 20, 5, 2 << 20].iter().enumerate()
        {
            let run = vec![n as u8 + 1; *length];
            all.extend_from_slice(&run);
            kept.keep(run.into());
            assert_eq!(kept.from + kept.length, all.len() as u64);
            assert!(kept.length >= KEPT.min(all.len() as u64) && kept.length < KEPT + (5 << 20));
            assert!(bytes_of(kept.after(0)) == all[kept.from as usize..]);
            let middle = (kept.from + all.len() as u64) / 2;
            assert!(bytes_of(kept.after(middle)) == all[middle as usize..]);
        }
        assert!(kept.from > 0 && kept.after(all.len() as u64).is_empty());
    }

    #[test]
    fn blocks_of_a_copy_hold_all_of_it_and_as_much_again() {
        const MOST: u64 = 2 * MOST_COPIED;
        assert_eq!(larger(1 << 20, 1 << 40, 8 << 20), 8 << 20);
        assert_eq!(larger(1 << 20, 0, MOST), 1 << 20);
        assert_eq!(larger(1 << 20, 1 << 20, MOST), 1 << 20);
        assert_eq!(larger(1 << 20, (1 << 20) + 1, MOST), 4 << 20);
        assert_eq!(larger(128 << 20, 128 << 20, MOST), 128 << 20);
        assert_eq!(larger(512, 1 << 40, MOST), MOST);
        assert_eq!(larger(8 << 30, 9 << 30, MOST), 8 << 30);
    }
}
