//! A store whose operations fail as a test chooses.
//!
//! - [`Fault`]: fails operations, chosen by kind, name and number; a write may stop half way, and an operation may
//!   panic. [`Failing::failed`] counts the failures: a sweep fails the first operation, then the second, until no fault is met.
//! - [`Failing::space`]: a disk that fills. Growth of objects uses space; the part of a write that fits is written, the
//!   rest fails with `NoSpace`. Truncating an open object frees space; removals and holes do not.
//!
//! ```
//! # use std::sync::Arc;
//! # use thalweg_store::{Memory, StoreExt, wrap::{StoreCall, Failing, Fault}};
//! # use thalweg_types::ErrorKind;
//! let store = Failing::new(Arc::new(Memory::new()));
//! store.fail(Fault::of(StoreCall::Write).named("restart").skipping(1).times(1).half_way());
//! store.write_all("restart.bp.0", b"whole").unwrap();
//! assert_eq!(store.write_all("restart.bp.1", b"half").unwrap_err().kind(), ErrorKind::Io);
//! assert_eq!(store.read_all("restart.bp.1").unwrap(), b"ha");
//! ```

use super::{Operation, StoreCall, Verdict, Watch, Wrapped};
use crate::{Store, WriteObject};
use std::sync::{Arc, MutexGuard};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind};

/// A store whose operations fail as chosen.
pub type Failing = Wrapped<Fail>;

/// A choice of operations, and how they fail.
#[derive(Debug, Clone)]
pub struct Fault {
    asked: Option<StoreCall>,
    name: String,
    skip: u64,
    times: u64,
    kind: ErrorKind,
    written: Written,
    panics: bool,
}

#[derive(Debug, Clone, Copy)]
enum Written {
    Nothing,
    Half,
    Bytes(u64),
}

impl Fault {
    /// All operations of this kind fail with `Io`; failed writes write nothing.
    pub fn of(asked: StoreCall) -> Fault {
        Fault { asked: Some(asked), ..Fault::any() }
    }

    /// Like [`Fault::of`], for operations of every kind.
    pub fn any() -> Fault {
        Fault {
            asked: None,
            name: String::new(),
            skip: 0,
            times: u64::MAX,
            kind: ErrorKind::Io,
            written: Written::Nothing,
            panics: false,
        }
    }

    /// Only operations on names that contain `part`.
    pub fn named(self, part: impl Into<String>) -> Fault {
        Fault { name: part.into(), ..self }
    }

    /// The first `count` operations succeed.
    pub fn skipping(self, count: u64) -> Fault {
        Fault { skip: count, ..self }
    }

    /// Only `count` operations fail.
    pub fn times(self, count: u64) -> Fault {
        Fault { times: count, ..self }
    }

    /// The operations fail with this kind of error.
    pub fn with(self, kind: ErrorKind) -> Fault {
        Fault { kind, ..self }
    }

    /// The operations panic, before anything is done.
    pub fn panics(self) -> Fault {
        Fault { panics: true, ..self }
    }

    /// Failed writes write the first half.
    pub fn half_way(self) -> Fault {
        Fault { written: Written::Half, ..self }
    }

    /// Failed writes write the first `bytes` bytes.
    pub fn after_bytes(self, bytes: u64) -> Fault {
        Fault { written: Written::Bytes(bytes), ..self }
    }
}

/// Fails operations.
#[derive(Debug, Default)]
pub struct Fail(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    faults: Vec<Fault>,
    /// Number of failed operations, and the last one.
    failed: (u64, Option<(StoreCall, String)>),
    /// Bytes by which objects may still grow; `None` for no limit.
    space: Option<u64>,
    /// Writes in flight: object, first byte, end. Their growth is reserved.
    under_way: Vec<(String, u64, u64)>,
}

impl Fail {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

impl Wrapped<Fail> {
    /// A store around `inner`, without faults.
    pub fn new(inner: Arc<dyn Store>) -> Failing {
        Wrapped::with(inner, Fail::default())
    }

    /// Adds a fault, for operations from now on. If several faults choose an operation, each counts it, and the oldest fault that is due
    /// decides.
    pub fn fail(&self, fault: Fault) {
        self.watch.lock().faults.push(fault);
    }

    /// Limits the further growth of all objects to `bytes`; `None` for no limit.
    pub fn space(&self, bytes: Option<u64>) {
        self.watch.lock().space = bytes;
    }

    /// Number of operations that faults have failed since the last [`Failing::heal`]; kind and object of the last one.
    pub fn failed(&self) -> (u64, Option<(StoreCall, String)>) {
        self.watch.lock().failed.clone()
    }

    /// Removes all faults and limits.
    pub fn heal(&self) {
        *self.watch.lock() = State::default();
    }
}

impl Watch for Fail {
    fn describe(&self) -> &'static str {
        "failing"
    }

    fn before(&self, operation: &Operation<'_>) -> Verdict {
        let mut state = self.lock();
        let mut due: Option<&Fault> = None;
        for fault in &mut state.faults {
            if fault.asked.is_some_and(|asked| asked != operation.asked) || !operation.name.contains(&fault.name) {
                continue;
            }
            if fault.skip > 0 {
                fault.skip -= 1;
            } else if fault.times > 0 {
                fault.times = if fault.times == u64::MAX { u64::MAX } else { fault.times - 1 };
                due = due.or(Some(fault));
            }
        }
        let due = due.cloned();
        if let Some(fault) = due {
            state.failed = (state.failed.0 + 1, Some((operation.asked, operation.name.to_string())));
            if fault.panics {
                drop(state);
                panic!("{:?} of {} was made to panic", operation.asked, operation.name);
            }
            let written = match fault.written {
                Written::Nothing => 0,
                Written::Half => operation.bytes / 2,
                Written::Bytes(bytes) => bytes.min(operation.bytes),
            };
            let what = format!("cannot {:?} (made to fail)", operation.asked);
            let error = Error::new(fault.kind, what).in_object(operation.name);
            let error = if operation.asked == StoreCall::Write {
                error.at_byte(operation.offset.saturating_add(written))
            } else {
                error
            };
            return Verdict::FailAfter(written, error);
        }
        match (state.space, operation.object) {
            (Some(space), Some(object)) => state.within(space, operation, object),
            _ => Verdict::Pass,
        }
    }

    fn after(&self, operation: &Operation<'_>, _outcome: Result<u64, &Error>) {
        if operation.asked == StoreCall::Write {
            let under_way = &mut self.lock().under_way;
            let done = under_way.iter().position(|(name, at, _)| name == operation.name && *at == operation.offset);
            if let Some(done) = done {
                under_way.swap_remove(done);
            }
        }
    }
}

impl State {
    /// The verdict on an operation that may grow an object by `space` bytes at most.
    fn within(&mut self, space: u64, operation: &Operation<'_>, object: &dyn WriteObject) -> Verdict {
        let (name, offset) = (operation.name, operation.offset);
        let end = match operation.asked {
            // Offsets out of range are refused by the store.
            StoreCall::Write | StoreCall::Reserve if operation.bytes > 0 => match offset.checked_add(operation.bytes) {
                Some(end) => end,
                None => return Verdict::Pass,
            },
            StoreCall::Truncate => offset,
            _ => return Verdict::Pass,
        };
        let length = match object.length() {
            Ok(length) => length,
            Err(error) => return Verdict::Fail(error),
        };
        let spoken_for = self.under_way.iter().filter(|(other, ..)| other == name).map(|(.., end)| *end).max();
        let length = length.max(spoken_for.unwrap_or(0));
        if end.saturating_sub(length) > space {
            let fits = if operation.asked == StoreCall::Write { (length + space).saturating_sub(offset) } else { 0 };
            // A write that begins after the remaining space uses none of it.
            self.space = Some(if fits > 0 { 0 } else { space });
            let error = Error::new(ErrorKind::NoSpace, "cannot write: the store is full (made to be)");
            return Verdict::FailAfter(fits, error.in_object(name).at_byte(offset.saturating_add(fits)));
        }
        if operation.asked == StoreCall::Reserve {
            // The write that follows uses the space.
        } else if operation.asked == StoreCall::Write {
            self.under_way.push((name.to_string(), offset, end));
            self.space = Some(space - end.saturating_sub(length));
        } else {
            self.space = Some((space + length).saturating_sub(end));
        }
        Verdict::Pass
    }
}
