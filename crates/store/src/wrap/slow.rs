//! A slow store: far away, or with slow devices.
//!
//! Each operation waits for `latency`, independent of other callers. All callers share one device's rate for bytes. Operations wait
//! before they start.
//!
//! [`Slow::with_devices`] has several devices, each with a rate that its objects share and that may change at any time
//! ([`Slow::set_rate`]).

use super::{Operation, StoreCall, Verdict, Watch, Wrapped};
use crate::Store;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_types::mutex::Mutex;

/// A store slower than the one inside.
pub type Slow = Wrapped<Delay>;

/// Delays operations.
pub struct Delay {
    latency: Duration,
    /// Operations on bytes don't wait.
    names_alone: bool,
    /// The device of an object, by name.
    device_of: Box<dyn Fn(&str) -> usize + Send + Sync>,
    devices: Vec<Mutex<Device>>,
}

struct Device {
    bytes_per_second: f64,
    /// When the device has moved all bytes so far.
    idle_from: Instant,
}

impl Wrapped<Delay> {
    /// Adds `latency` to each operation except the length of an open object, and moves bytes no faster than
    /// `bytes_per_second` (`f64::INFINITY` for no limit; smaller values count as 1).
    pub fn new(inner: Arc<dyn Store>, latency: Duration, bytes_per_second: f64) -> Slow {
        Slow::with_devices(inner, latency, &[bytes_per_second], |_| 0)
    }

    /// Like [`Slow::new`], with several devices.
    ///
    /// - `bytes_per_second`: the rate of each device.
    /// - `device_of`: the device of an object, by the object's name, as an index into `bytes_per_second`; objects with a larger index
    ///   are not delayed.
    pub fn with_devices(
        inner: Arc<dyn Store>,
        latency: Duration,
        bytes_per_second: &[f64],
        device_of: impl Fn(&str) -> usize + Send + Sync + 'static,
    ) -> Slow {
        let device = |rate: &f64| Mutex::new(Device { bytes_per_second: rate.max(1.0), idle_from: Instant::now() });
        let devices = bytes_per_second.iter().map(device).collect();
        Wrapped::with(inner, Delay { latency, names_alone: false, device_of: Box::new(device_of), devices })
    }

    /// Adds `latency` only to operations on names and folders (opens, stat, lists, renames, removals, attributes): a filesystem with
    /// a busy metadata server.
    pub fn names(inner: Arc<dyn Store>, latency: Duration) -> Slow {
        let delay = Delay { latency, names_alone: true, device_of: Box::new(|_| 0), devices: Vec::new() };
        Wrapped::with(inner, delay)
    }

    /// Changes the rate of a device, for bytes from now on.
    pub fn set_rate(&self, device: usize, bytes_per_second: f64) {
        if let Some(device) = self.watch.devices.get(device) {
            device.lock().bytes_per_second = bytes_per_second.max(1.0);
        }
    }
}

impl Watch for Delay {
    fn describe(&self) -> &'static str {
        "slow"
    }

    /// The bytes that pass during the latency, of the slowest device.
    fn request_cost(&self, inner: u64) -> u64 {
        if self.names_alone || self.latency.is_zero() {
            return inner;
        }
        let rates = self.devices.iter().map(|device| device.lock().bytes_per_second);
        let bytes = self.latency.as_secs_f64() * rates.fold(f64::INFINITY, f64::min).min(1e9);
        inner.saturating_add(bytes as u64).min(8 << 20)
    }

    fn before(&self, operation: &Operation<'_>) -> Verdict {
        let of_bytes = !matches!(
            operation.asked,
            StoreCall::OpenWrite
                | StoreCall::OpenRead
                | StoreCall::Stat
                | StoreCall::List
                | StoreCall::Rename
                | StoreCall::Remove
                | StoreCall::MakeFolder
                | StoreCall::SyncFolder
                | StoreCall::Attributes
        );
        if matches!(operation.asked, StoreCall::Length | StoreCall::Lease) || (self.names_alone && of_bytes) {
            return Verdict::Pass;
        }
        let now = Instant::now();
        let mut until = now + self.latency;
        if operation.bytes > 0
            && matches!(operation.asked, StoreCall::Read | StoreCall::Write)
            && let Some(device) = self.devices.get((self.device_of)(operation.name))
        {
            let mut device = device.lock();
            let takes = operation.bytes as f64 / device.bytes_per_second;
            let takes = Duration::try_from_secs_f64(takes).unwrap_or(Duration::from_secs(u32::MAX.into()));
            device.idle_from = device.idle_from.max(now) + takes;
            until = device.idle_from + self.latency;
        }
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
        Verdict::Pass
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Memory, StoreExt};

    /// Delays are long enough that a busy machine does not need as long without them.
    const DELAY: Duration = Duration::from_secs(2);

    #[test]
    fn operations_on_names_may_be_slow_alone() {
        let store = Slow::names(Arc::new(Memory::new()), DELAY);
        let object = store.open_write("a", crate::OpenWrite::New).unwrap();
        let began = Instant::now();
        object.write_at(0, &[std::io::IoSlice::new(b"bytes")]).unwrap();
        assert!(began.elapsed() < DELAY);
        store.stat("a").unwrap();
        assert!(began.elapsed() >= DELAY);
    }

    #[test]
    fn a_slow_device_holds_up_its_own_objects_alone() {
        let place = |name: &str| name.bytes().last().map_or(0, |b| usize::from(b - b'0'));
        // Two seconds for each object of the second one.
        let store = Slow::with_devices(Arc::new(Memory::new()), Duration::ZERO, &[1e9, 500.0], place);
        let timed = |name: &str| {
            let began = Instant::now();
            store.write_all(name, &[0; 1000]).unwrap();
            began.elapsed()
        };
        assert!(timed("x.1") >= DELAY);
        let (quick, slow) = std::thread::scope(|s| {
            let late = s.spawn(|| timed("y.1"));
            (timed("x.0"), late.join().unwrap())
        });
        assert!(quick < DELAY && slow >= DELAY, "{quick:?} {slow:?}");
        store.set_rate(1, 1e9);
        assert!(timed("z.1") < DELAY && timed("x.2") < DELAY);
    }
}
