//! Makes an object anew after the failure of a data node that the name node still counts as alive.
//!
//! By default the name node continues to choose a dead data node for ten minutes. Hadoop's own client then abandons the block
//! and excludes the node; `hdfs-native` has neither call. Within a block it continues with the remaining data nodes; at the start of a
//! block its writer fails permanently. The object needs a new choice of data nodes, which only a new file gets:
//!
//! | the object has | what is done | cost |
//! |---|---|---|
//! | only buffered bytes, and was never synced | made anew under its name, the buffered bytes written again | one creation: some ms |
//! | at most [`MOST_COPIED`] bytes | made anew under another name, its bytes copied and synced, renamed over the old object | a copy |
//! | more bytes | its lease is recovered, which drops the failed block, and a block is appended | seconds |
//!
//! - The name node may choose the dead node again: with one dead of three nodes and two replicas in two of three
//!   cases. After [`TRIES_AT_ONE_LEVEL`] attempts the object is made with one replica less, at least one; the full number is set when
//!   the object is closed.
//! - A copy has blocks of at least twice its length, so the number of copies grows with the logarithm of the object's length rather
//!   than with its number of blocks: it is unlikely that many blocks in a row avoid the dead node.
//! - If another process has settled the object, it took the writer for dead: the failure stands, and nothing is made anew. The name
//!   node is asked just before; the remaining window is one request.
//! - A process that dies during a copy leaves the old object, with all synced bytes, and a file `NAME.anew-PID-NUMBER`.
//!
//! A dead process of a data node is noticed in milliseconds; a dead machine costs each attempt the client's
//! `dfs.client.socket-timeout`. `hsync` of the library may wait forever: if the acknowledgement fails after
//! the last packet was sent, it waits for the sending task, which waits for another packet. So a sync has a limit of its own
//! ([`Trouble`]), and for a while after a data node has failed it is delayed until a broken pipeline is detected.

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

/// Number of the last bytes that are buffered: more than the library's unacknowledged packets (200 of 64 KiB).
const KEPT: u64 = 16 << 20;

/// Shorter runs are merged in the buffer.
const SHORT: usize = 256 << 10;

/// Largest object that is copied; larger ones are settled and appended to.
const MOST_COPIED: u64 = 1 << 30;

/// Block size of a cluster by default.
const LEAST_BLOCK: u64 = 128 << 20;

/// Most attempts in a row to make an object anew.
const TRIES: u32 = 60;

/// Attempts with one number of replicas.
const TRIES_AT_ONE_LEVEL: u32 = 6;

/// Longest time of asking whether the object is still this writer's.
const OURS: Duration = Duration::from_secs(5);

/// Least time of a sync after which its pipeline counts as broken.
const SHORTEST_LIMIT: Duration = Duration::from_secs(3);

/// Time for which a failed data node is expected after the last failure.
const MEMORY: Duration = Duration::from_secs(60);

/// Time after the first packet in which a pipeline that could not be set up is detected.
const SEEN_BROKEN: Duration = Duration::from_millis(10);

/// Failures of data nodes, shared by a store's objects.
#[derive(Default)]
pub(super) struct Trouble {
    met: Mutex<Option<Instant>>,
    /// Duration of the longest sync, in milliseconds.
    longest_sync: AtomicU64,
}

impl Trouble {
    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.met.lock()
    }

    fn is_recent(&self) -> bool {
        self.lock().is_some_and(|met| met.elapsed() < MEMORY)
    }

    /// Longest time of a sync: a multiple of the longest so far, so that few syncs of a slow cluster are aborted needlessly.
    fn limit(&self) -> Duration {
        let least = if self.is_recent() { SHORTEST_LIMIT / 3 } else { SHORTEST_LIMIT };
        least.max(8 * Duration::from_millis(self.longest_sync.load(Ordering::Relaxed)))
    }
}

impl Shared {
    /// Syncs all bytes to the devices of the pipeline's data nodes.
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

/// Buffer of the last bytes written.
#[derive(Default)]
pub(super) struct ReplayBuffer {
    runs: VecDeque<Bytes>,
    /// Short runs, after the others.
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

    /// The buffered bytes from byte `at` of the object.
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
    /// Whether a data node may be the cause, so that other data nodes may work.
    fn may_be_a_data_nodes(&self) -> bool {
        match self {
            Cause::Silence(_) | Cause::Hdfs(HdfsError::IOError(_) | HdfsError::DataTransferError(_)) => true,
            // Too few data nodes have reported the last block.
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

/// State of attempts in a row.
struct Round {
    tried: u32,
    claim: Claim,
    /// Number of replicas being written at the first attempt.
    copies: Option<u32>,
    /// Block size of the new object, and the largest that data nodes may have room for.
    block: u64,
    most: u64,
}

impl Round {
    /// Whether another attempt may succeed after this failure.
    fn goes_on(&mut self, cause: &Cause, least: u64) -> bool {
        if !cause.is_no_room() {
            return cause.may_be_a_data_nodes();
        }
        // The name node requires room for a whole block, and for each block that failed recently.
        let larger = self.block > least;
        self.most = (self.block / 2).max(least);
        larger
    }
}

/// Evidence that the old object is this writer's.
enum Claim {
    /// The writer has its lease.
    Lease,
    /// This process has settled it; time of its last change, in milliseconds.
    Settled(u64),
}

impl Writing {
    /// Makes the object anew until the failed operation succeeds. After a successful [`Act::Write`], `act` holds the bytes that the caller
    /// has to count.
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

    /// Whether the object of the name is the one that this writer wrote.
    fn is_ours(&self, state: &mut State, claim: &Claim) -> bool {
        let writer = &mut state.writer;
        if let Claim::Settled(changed) = claim {
            let about = self.shared.answer(self.shared.client.get_file_info(&self.path));
            return about.is_ok_and(|about| about.modification_time == *changed);
        }
        match self.shared.answer_within(OURS.min(self.shared.trouble.limit()), writer.hsync()) {
            Ok(()) => true,
            Err(Cause::Hdfs(HdfsError::RPCError(..))) => false,
            // Closing drops the failed block, so that the second sync asks only the name node.
            Err(_) => {
                let _ = self.shared.answer_within(OURS, writer.close());
                self.shared.answer_within(OURS, writer.hsync()).is_ok()
            }
        }
    }

    /// Makes the object anew on other data nodes, with all bytes written to it.
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
            // The object may have some of the bytes being written.
            if let Act::Write(bytes) = act {
                let held = bytes.split_to(there.saturating_sub(state.length) as usize);
                state.take(held);
            }
            let missing = state.kept.after(there);
            return self.send(&mut state.writer, missing);
        }
        self.copied(state, claim, &options, &about)
    }

    /// Makes the object anew under another name, and renames it.
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
            // The name node identifies the writer by the file's number, so the rename keeps the lease.
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

    /// Makes a file with the old file's owner.
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

    /// Readable bytes of the old object: those of the blocks before the failed one.
    fn readable(&self) -> std::result::Result<u64, Cause> {
        Ok(self.shared.answer(self.shared.client.read(&self.path))?.file_length() as u64)
    }

    /// Sets the number of replicas of a closed object that was written with fewer.
    pub(super) fn replicate(&self, replication: u32) -> Result<()> {
        match self.shared.ask("close", &self.path, self.shared.client.set_replication(&self.path, replication)) {
            // Replaced or removed by another process meanwhile: the close succeeded.
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::InvalidArgument) => Ok(()),
            outcome => outcome.map(|_| ()),
        }
    }
}

/// Block size for an object of `length` bytes that is made anew: at least twice its length, if it has more than a block.
///
/// - `most`: largest block size, unless `block` is larger.
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
