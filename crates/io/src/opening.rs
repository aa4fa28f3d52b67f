//! The open of an output by its methods: inside the program's open or, where outputs of the file are in flight, behind them.
//!
//! | question | answer |
//! |---|---|
//! | which methods open behind others | those with `async=yes`, and all methods of the group after one that ends outputs later |
//! | when | on the thread of the file's outputs, when all outputs in front have ended on this rank; collective, over the communicator of the output |
//! | steps and statistics until then | as they follow from the last output of the file ([`Upcoming`]); those of the open count |
//! | a write that needs the file | waits for the open ([`ActiveMethod::through`]) |
//! | a failure of the open | the failure of the output |
//! | an output that the program drops | is opened, as on the other ranks, and dropped |

use crate::ending::{attributes_key, written_key};
use crate::in_flight::{Done, OpenWork, OutputsInFlight, Upcoming};
use crate::registry;
use crate::session::Shared;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_bp::process_group::Header;
use thalweg_bp::statistics::Level;
use thalweg_comm::guarded::caught;
use thalweg_comm::{Communicator, in_calls};
use thalweg_layout::{Layout, WriteObject};
use thalweg_movement::method::{MethodKind, Opened};
use thalweg_movement::output_file::levels::ArrayLevel;
use thalweg_movement::pack::Reach;
use thalweg_movement::pack::blocks::Takes;
use thalweg_movement::{Closed, Method, Mode, OpenRequest};
use thalweg_types::mutex::{Condvar, Mutex};
use thalweg_types::{Error, ErrorKind, Result};

/// Longest sleep of a wait for an open whose messages move inside it.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// When a method ends its outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// Inside the program's close, unless another method of the group ends outputs later.
    AtClose,
    /// After the program's close: the method takes outputs over.
    ByItself,
    /// After the program's close, by the method's own close, because of `async=yes`.
    InBackground,
}

impl Ends {
    pub(crate) fn later(self) -> bool {
        self != Ends::AtClose
    }
}

/// A method of an output, with its file.
pub(crate) struct ActiveMethod {
    method: Held,
    pub(crate) name: &'static str,
    pub(crate) takes: Takes,
    pub(crate) ends: Ends,
    /// It writes files.
    pub(crate) stores: bool,
    pub(crate) header: Header,
    /// The time index of step 0.
    pub(crate) first_time: u32,
    pub(crate) path: String,
}

enum Held {
    Opened(Box<dyn Method>),
    /// Its open is behind outputs in flight; the number is the method's in the group.
    Behind(Arc<OpenBehind>, usize),
}

impl ActiveMethod {
    /// The step, from 0.
    pub(crate) fn step(&self) -> u64 {
        u64::from(self.header.time_index.saturating_sub(self.first_time))
    }

    /// Key of the queue of the method's outputs.
    pub(crate) fn key(&self) -> String {
        written_key(self.name, &self.path)
    }

    /// As [`Method::at_once`]; with `async=yes`, blocks are buffered, and written in the background.
    pub(crate) fn at_once(&self, reach: &Reach) -> Option<u64> {
        match (&self.method, self.ends) {
            (_, Ends::InBackground) | (Held::Behind(..), _) => None,
            (Held::Opened(method), _) => method.at_once(reach),
        }
    }

    /// As [`Method::through`], after the open, and the header of the process group.
    ///
    /// # Errors
    /// Those of the open; `Timeout`.
    pub(crate) fn through(&mut self, reach: &Reach) -> Result<(&dyn WriteObject, u64, &Header)> {
        self.opened()?;
        match &mut self.method {
            Held::Opened(method) => method.through(reach).map(|(object, start)| (object, start, &self.header)),
            Held::Behind(..) => Err(not_open()),
        }
    }

    /// The method, after its open.
    ///
    /// # Errors
    /// Those of the open; `Timeout`.
    pub(crate) fn opened(&mut self) -> Result<&mut dyn Method> {
        if let Held::Behind(behind, number) = &self.method {
            *self = behind.take(*number)?;
        }
        match &mut self.method {
            Held::Opened(method) => Ok(&mut **method),
            Held::Behind(..) => Err(not_open()),
        }
    }

    /// The method and its header.
    ///
    /// # Errors
    /// As [`ActiveMethod::opened`].
    pub(crate) fn into_opened(mut self) -> Result<(Box<dyn Method>, Header)> {
        self.opened()?;
        match self.method {
            Held::Opened(method) => Ok((method, self.header)),
            Held::Behind(..) => Err(not_open()),
        }
    }
}

fn not_open() -> Error {
    Error::new(ErrorKind::InvalidArgument, "the method is not open")
}

/// A method before its open.
pub(crate) struct ToOpen {
    pub(crate) method: Box<dyn Method>,
    pub(crate) kind: &'static MethodKind,
    pub(crate) ends: Ends,
    pub(crate) path: String,
}

/// The arguments of an open that all methods of an output share.
pub(crate) struct Opening {
    pub(crate) shared: Arc<Shared>,
    pub(crate) layout: Arc<dyn Layout>,
    pub(crate) group: String,
    pub(crate) mode: Mode,
    pub(crate) run: u64,
    /// As [`OpenRequest::arrays`].
    pub(crate) arrays: Arc<[ArrayLevel]>,
    /// Header of the process group, without the step.
    pub(crate) base: Header,
}

impl Opening {
    /// Collective: opens a method.
    ///
    /// # Errors
    /// As [`Method::open`], with the group.
    pub(crate) fn open(&self, comm: &dyn Communicator, to_open: ToOpen) -> Result<(ActiveMethod, Opened)> {
        let ToOpen { mut method, kind, ends, path } = to_open;
        let request = OpenRequest {
            comm,
            layout: &self.layout,
            path: &path,
            group: &self.group,
            mode: self.mode,
            run: self.run,
            cache: &self.shared.cache,
            buffer: &self.shared.pool,
            arrays: &self.arrays,
        };
        let opened = method.open(&request).map_err(|e| e.in_group(self.group.clone()).at_rank(comm.rank()))?;
        let replaces = matches!(self.mode, Mode::Write | Mode::AppendAfter(_));
        if replaces || opened.time_index == opened.first_time {
            // The file contains no step yet, or its last step was removed.
            let key = attributes_key(registry::stores(kind), method.name(), &path);
            self.shared.written.lock().remove(&key);
        }
        let active = ActiveMethod {
            name: method.name(),
            takes: method.takes(),
            method: Held::Opened(method),
            ends,
            stores: registry::stores(kind),
            header: Header { time_index: opened.time_index, ..self.base.clone() },
            first_time: opened.first_time,
            path,
        };
        Ok((active, opened))
    }

    /// The next step of a file, if the outputs in flight succeed.
    pub(crate) fn next_step(&self, last: u64) -> u64 {
        match self.mode {
            Mode::Write => 0,
            Mode::Append => last + 1,
            Mode::Update => last,
            Mode::AppendAfter(step) => step + 1,
        }
    }
}

/// Adds the levels of a method's file to those of the output.
///
/// # Errors
/// `Unsupported`, on all ranks, because the levels are the same on all: another method's file records other statistics.
pub(crate) fn add_levels(
    levels: &mut HashMap<(String, String), Level>,
    of_method: Vec<ArrayLevel>,
    group: &str,
) -> Result<()> {
    for array in of_method {
        let other = levels.insert((array.path, array.name.clone()), array.level);
        if other.is_some_and(|other| other != array.level) {
            let what = "the files of two methods record different statistics of it; write new files";
            return Err(Error::new(ErrorKind::Unsupported, what).in_variable(array.name).in_group(group));
        }
    }
    Ok(())
}

/// An open behind outputs in flight.
pub(crate) struct OpenBehind {
    in_flight: Arc<OutputsInFlight>,
    line: String,
    timeout: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The result; by number in the group, until it is taken.
    opened: Option<Result<Vec<Option<ActiveMethod>>>>,
    comm: Option<Box<dyn Communicator>>,
}

impl OpenBehind {
    pub(crate) fn new(in_flight: Arc<OutputsInFlight>, line: String, timeout: Duration) -> Arc<OpenBehind> {
        Arc::new(OpenBehind { in_flight, line, timeout, state: Mutex::default(), changed: Condvar::default() })
    }

    /// The methods of the output until they are open.
    pub(crate) fn stand_ins(
        self: &Arc<OpenBehind>,
        opening: &Opening,
        methods: &[ToOpen],
        step: u64,
    ) -> Vec<ActiveMethod> {
        let stand_in = |(number, to_open): (usize, &ToOpen)| ActiveMethod {
            method: Held::Behind(self.clone(), number),
            name: to_open.method.name(),
            takes: to_open.method.takes(),
            ends: to_open.ends,
            stores: registry::stores(to_open.kind),
            header: Header { time_index: u32::try_from(step + 1).unwrap_or(u32::MAX), ..opening.base.clone() },
            first_time: 1,
            path: to_open.path.clone(),
        };
        methods.iter().enumerate().map(stand_in).collect()
    }

    /// The work of the open.
    ///
    /// - `levels`: the statistics' levels that the program's blocks are written with.
    pub(crate) fn work(
        self: &Arc<OpenBehind>,
        opening: Opening,
        methods: Vec<ToOpen>,
        comm: Box<dyn Communicator>,
        levels: HashMap<(String, String), Level>,
    ) -> OpenWork {
        let own = self.clone();
        Box::new(move || {
            let opened = caught("open the output", || {
                let (mut all, mut of_files) = (Vec::new(), HashMap::new());
                for to_open in methods {
                    let (active, opened) = opening.open(&*comm, to_open)?;
                    add_levels(&mut of_files, opened.levels, &opening.group)?;
                    all.push(Some(active));
                }
                // A level that no file asks for is the declared one, or another method's.
                if of_files.iter().any(|(array, level)| levels.get(array) != Some(level)) {
                    let what = "statistics or transforms were declared anew while outputs of the file were in flight; wait for these first";
                    return Err(Error::new(ErrorKind::Unsupported, what).in_group(opening.group.clone()));
                }
                Ok(all)
            });
            let mut state = own.state.lock();
            (state.opened, state.comm) = (Some(opened), Some(comm));
            own.changed.notify_all();
        })
    }

    /// Waits for the open, and takes a method.
    fn take(&self, number: usize) -> Result<ActiveMethod> {
        let mut state = self.state.lock();
        if state.opened.is_none() {
            drop(state);
            self.in_flight.wait_for_turn(&self.line, self.timeout)?;
            state = self.state.lock();
        }
        let begun = Instant::now();
        let _hurry = state.opened.is_none().then(|| self.in_flight.pacer.hurry());
        loop {
            match &mut state.opened {
                Some(Ok(methods)) => {
                    let taken = methods.get_mut(number).and_then(Option::take);
                    return taken.ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "the method is in use"));
                }
                Some(Err(e)) => return Err(e.again()),
                None => {}
            }
            // An open is several calls of the communicator.
            let Some(rest) = self.timeout.saturating_mul(2).checked_sub(begun.elapsed()) else {
                let what = "the output does not open behind those in flight";
                let file = self.line.split('\0').next_back().unwrap_or_default();
                return Err(Error::new(ErrorKind::Timeout, what).in_object(file));
            };
            // Messages of the open may move inside this call.
            let longest = match in_calls::is_needed() {
                true => {
                    drop(state);
                    self.in_flight.call_back();
                    state = self.state.lock();
                    BETWEEN_LOOKS
                }
                false => rest,
            };
            if state.opened.is_none() {
                state = self.changed.wait_timeout(state, rest.min(longest)).0;
            }
        }
    }

    /// After the open: its failure, and the communicator.
    pub(crate) fn end(&self) -> (Result<()>, Option<Box<dyn Communicator>>) {
        let mut state = self.state.lock();
        let failed = match &state.opened {
            Some(Err(e)) => Err(e.again()),
            Some(Ok(_)) => Ok(()),
            None => Err(Error::new(ErrorKind::InvalidArgument, "the output was not opened")),
        };
        (failed, state.comm.take())
    }
}

/// The place of an output among those of its line, from its open on. An output that is dropped is ended in its turn.
pub(crate) struct BehindOthers {
    pub(crate) behind: Arc<OpenBehind>,
    pub(crate) number: u64,
    pub(crate) closed: bool,
}

impl BehindOthers {
    pub(crate) fn line(&self) -> &str {
        &self.behind.line
    }
}

impl Drop for BehindOthers {
    fn drop(&mut self) {
        if self.closed {
            return;
        }
        let behind = self.behind.clone();
        let end = Box::new(move || {
            let (_, comm) = behind.end();
            // Dropped without close, methods leave their files as they were.
            behind.state.lock().opened = None;
            Done { outcome: Ok(Closed::default()), comm }
        });
        drop(self.behind.in_flight.close(&self.behind.line, self.number, 0, self.behind.timeout, end));
    }
}

/// For the next open of the file, behind this output, of which this rank's part has `bytes`.
pub(crate) fn upcoming(methods: &[ActiveMethod], levels: &HashMap<(String, String), Level>, bytes: u64) -> Upcoming {
    let step = methods.iter().find(|active| active.ends.later()).map_or(0, ActiveMethod::step);
    Upcoming { step, levels: levels.clone(), bytes }
}
