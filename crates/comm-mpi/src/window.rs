//! Memory shared by the ranks of a node: MPI's shared windows.
//!
//! Freeing a window is a collective call of MPI, but ranks drop windows at different times. A dropped window is therefore kept
//! by its communicator, until the next `shared_window` finds that all ranks have dropped it. All ranks allocate the memory from
//! the system as a test before they call MPI, so that a window that one rank cannot map is an error on all ranks.

use crate::core::Core;
use crate::ffi::RawWindow;
use std::sync::Arc;
use std::time::Duration;
use thalweg_comm::{Reduce, SharedWindow, check};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

/// Bytes that must be free in addition to a window.
const BESIDES: u64 = 1 << 20;

/// The windows of a communicator.
#[derive(Default)]
pub struct Windows {
    /// In the order of creation, which is the same on all ranks.
    made: Mutex<Vec<Arc<RawWindow>>>,
    one_node: Mutex<Option<bool>>,
}

/// Collective: see `Communicator::shared_window`. Three reductions of a few numbers, and MPI's own calls.
///
/// # Errors
/// On all ranks: `InvalidArgument` for ranks of different nodes; `NoMemory` where one rank cannot map the parts of all; errors of
/// MPI.
pub fn make(core: &Core, windows: &Windows, bytes: u64, timeout: Duration) -> Result<Window> {
    let mut made = windows.made.lock();
    // Finds the windows that all ranks have dropped. Also waits for all ranks, with a timeout, before the blocking calls.
    let mut dropped: Vec<u64> = made.iter().map(|window| u64::from(Arc::strong_count(window) == 1)).collect();
    dropped.push(1);
    let agreed = core.collective(timeout, "shared_window", |raw| raw.all_reduce(&dropped, Reduce::Min))?.numbers_in;
    let whole = (|| {
        let (old, kept): (Vec<_>, Vec<_>) = made.drain(..).zip(agreed).partition(|(_, dropped)| *dropped == 1);
        made.extend(kept.into_iter().map(|(window, _)| window));
        old.into_iter().filter_map(|(window, _)| Arc::into_inner(window)).try_for_each(RawWindow::free)?;
        let mut one_node = windows.one_node.lock();
        if one_node.is_none() {
            *one_node = Some(core.raw.split_by_node()?.size() == core.raw.size());
        }
        Ok(*one_node == Some(true))
    })();
    if !whole.map_err(|e| core.break_off(e))? {
        let what = "a shared window over ranks of different nodes; split by node first";
        return Err(Error::new(ErrorKind::InvalidArgument, what).at_rank(core.raw.rank()));
    }
    let all = core.collective(timeout, "shared_window", |raw| raw.all_reduce(&[bytes], Reduce::Sum))?.numbers_in[0];
    // If one rank cannot map a window, Open MPI 4 returns on that rank, and the others block in MPI_Win_allocate_shared.
    let lacking = [u64::from(!has_room_for(all))];
    if core.collective(timeout, "shared_window", |raw| raw.all_reduce(&lacking, Reduce::Max))?.numbers_in[0] > 0 {
        let what = format!("no memory for a shared window of {all} bytes, which each rank of a node maps");
        return Err(Error::new(ErrorKind::NoMemory, what).at_rank(core.raw.rank()));
    }
    let own = Core::new(core.raw.duplicate().map_err(|e| core.break_off(e))?);
    let memory = Arc::new(own.raw.window(bytes).map_err(|e| core.break_off(e))?);
    made.push(Arc::clone(&memory));
    Ok(Window { memory, core: own, timeout })
}

/// Whether the system can allocate this much memory, and some for MPI's own data. The memory is not touched.
fn has_room_for(bytes: u64) -> bool {
    let mut tried = Vec::<u8>::new();
    let is_had = usize::try_from(bytes.saturating_add(BESIDES)).is_ok_and(|n| tried.try_reserve_exact(n).is_ok());
    // Keeps the compiler from removing the unused allocation.
    std::hint::black_box(&tried);
    is_had
}

/// See the module's page.
pub struct Window {
    memory: Arc<RawWindow>,
    /// The window, for its fences.
    core: Arc<Core>,
    timeout: Duration,
}

impl SharedWindow for Window {
    fn length(&self, rank: u32) -> u64 {
        self.memory.length(rank)
    }

    fn put(&self, rank: u32, offset: u64, bytes: &[u8]) -> Result<()> {
        self.memory.ready()?;
        check::rank(rank, self.core.raw.size())?;
        let range = check::window(rank, self.memory.length(rank), offset, bytes.len())?;
        self.memory.put(rank, range, bytes);
        // The fence precedes the message that announces the bytes.
        self.memory.sync()
    }

    fn get(&self, rank: u32, offset: u64, out: &mut [u8]) -> Result<()> {
        self.memory.ready()?;
        check::rank(rank, self.core.raw.size())?;
        let range = check::window(rank, self.memory.length(rank), offset, out.len())?;
        self.memory.get(rank, range, out);
        Ok(())
    }

    fn show(&self, offset: u64, length: u64, with: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.memory.ready()?;
        let own = self.core.raw.rank();
        let range = check::window(own, self.memory.length(own), offset, check::count(length)?)?;
        self.memory.sync()?;
        self.memory.show(own, range, with);
        Ok(())
    }

    fn fence(&self) -> Result<()> {
        self.core.ready_for_all()?;
        self.memory.sync()?;
        self.core.collective(self.timeout, "fence", |raw| raw.barrier())?;
        self.memory.sync()
    }
}
