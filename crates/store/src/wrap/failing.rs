//! A store that fails when a test wants it to.
//!
//! - [`Fault`]: fails the chosen operations, by what is asked, name and number; a write may stop half way, and an operation may
//!   panic. [`Failing::failed`] counts them: a sweep fails the first operation, then the second, until none is left.
//! - [`Failing::space`]: a disk that fills. Growth of objects uses space up; what fits of a write is written, the
//!   rest fails with `NoSpace`. Cutting an open object gives space back; removals and holes do not.
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

use super::{Around, Operation, StoreCall, Verdict, Watch};
use crate::{Store, WriteObject};
use std::sync::{Arc, MutexGuard};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind};

/// A store that fails when told to.
pub type Failing = Around<Fail>;

/// Which operations fail, and how.
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
    /// All operations of this sort fail, with `Io`, nothing of a write being written.
    pub fn of(asked: StoreCall) -> Fault {
        Fault { asked: Some(asked), ..Fault::any() }
    }

    /// As [`Fault::of`], operations of every sort.
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

    /// Only for objects whose name contains this.
    pub fn named(self, part: impl Into<String>) -> Fault {
        Fault { name: part.into(), ..self }
    }

    /// The first `count` of them go through.
    pub fn skipping(self, count: u64) -> Fault {
        Fault { skip: count, ..self }
    }

    /// Only `count` of them fail.
    pub fn times(self, count: u64) -> Fault {
        Fault { times: count, ..self }
    }

    /// They fail with this kind.
    pub fn with(self, kind: ErrorKind) -> Fault {
        Fault { kind, ..self }
    }

    /// They panic instead, before anything is done.
    pub fn panics(self) -> Fault {
        Fault { panics: true, ..self }
    }

    /// The first half of a write is written.
    pub fn half_way(self) -> Fault {
        Fault { written: Written::Half, ..self }
    }

    /// The first `bytes` of a write are written.
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
    /// Operations that faults have failed, and the last of them.
    failed: (u64, Option<(StoreCall, String)>),
    /// Bytes by which objects may still grow; no limit where `None`.
    space: Option<u64>,
    /// Writes let through but not done: object, first byte, end. What they will grow is spoken for.
    under_way: Vec<(String, u64, u64)>,
}

impl Fail {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

impl Around<Fail> {
    /// Fails nothing until told to.
    pub fn new(inner: Arc<dyn Store>) -> Failing {
        Around::with(inner, Fail::default())
    }

    /// Adds a fault, from now on. Where several meet an operation, each counts it and the oldest that is due decides.
    pub fn fail(&self, fault: Fault) {
        self.watch.lock().faults.push(fault);
    }

    /// Objects may grow by `bytes` more in all; `None` for no limit.
    pub fn space(&self, bytes: Option<u64>) {
        self.watch.lock().space = bytes;
    }

    /// How many operations faults have failed since the last [`Failing::heal`], and the last one: what was asked, and of which
    /// object.
    pub fn failed(&self) -> (u64, Option<(StoreCall, String)>) {
        self.watch.lock().failed.clone()
    }

    /// Forgets all faults and limits.
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
    /// Lets through of an operation what fits into `space`.
    fn within(&mut self, space: u64, operation: &Operation<'_>, object: &dyn WriteObject) -> Verdict {
        let (name, offset) = (operation.name, operation.offset);
        let end = match operation.asked {
            // What leaves the range of offsets is the store's to refuse.
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
            // A write that begins behind the space that is left uses none of it.
            self.space = Some(if fits > 0 { 0 } else { space });
            let error = Error::new(ErrorKind::NoSpace, "cannot write: the store is full (made to be)");
            return Verdict::FailAfter(fits, error.in_object(name).at_byte(offset.saturating_add(fits)));
        }
        if operation.asked == StoreCall::Reserve {
            // Only asked for: the write that follows uses it.
        } else if operation.asked == StoreCall::Write {
            self.under_way.push((name.to_string(), offset, end));
            self.space = Some(space - end.saturating_sub(length));
        } else {
            self.space = Some((space + length).saturating_sub(end));
        }
        Verdict::Pass
    }
}
