//! A rank that panics over real MPI costs the call, not the other ranks: `mpiexec -n 3 panics LIBRARY FOLDER`.
//!
//! LIBRARY is the shim and `tests/mpi/application.c`, as for `crates/comm-mpi/examples/conformance.rs`. Each store call that one rank
//! makes while all write an output or open a file panics once, in turn. On all ranks the calls must return, with an error of one kind;
//! the next output must succeed on all. `tests/mpi/panics.sh` builds the library and checks that the program ends.
//!
//! Says `ok` or `not ok` for each way; exit code 1 where one is not ok.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use thalweg_collective_open::CollectiveFile;
use thalweg_comm::Communicator;
use thalweg_comm_mpi::{MpiCommunicator, ThalwegMpiTable};
use thalweg_io::{Mode, Session};
use thalweg_layout::container::{Options, index::Module};
use thalweg_layout::{Container, Direct, Layout, OpenWrite, WriterId, write_all_at};
use thalweg_schema::xml;
use thalweg_store::wrap::{Failing, Fault, StoreCall};
use thalweg_store::{Posix, Store};
use thalweg_types::{Error, ErrorKind};

/// A limit for hangs alone: the longest wait of one call.
const PATIENCE: Duration = Duration::from_secs(120);
/// Elements of each rank.
const ELEMENTS: usize = 3000;

type Outcome<T> = Result<T, String>;

/// Methods, their parameters, and the buffer limit; with 0 blocks are written to the store by the write calls.
const METHODS: [(&str, &str, Option<u64>); 9] = [
    ("MPI", "", None),
    ("MPI", "index_ahead=0;sync=yes", Some(0)),
    ("POSIX", "", Some(0)),
    ("MPI_AGGREGATE", "aggregators=1;chunk=4k", None),
    ("MPI_COLLECTIVE", "aggregators=2;stripe=4k", None),
    ("MPI_SCHEDULED", "num_files=2;targets=1;writers_per_target=1", None),
    ("ADAPTIVE", "num_files=2", None),
    ("ASYNC", "async=no;owners=2;stripe=4k;write_stripe=4k", None),
    ("ASYNC", "async=no;subfiles=2;owners=2;stripe=4k;write_stripe=4k", None),
];

/// The call in which a panic was met.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Open,
    Write,
    Close,
}

/// The kind of an error as a byte for the other ranks: 0 for success, 255 for a panic that reached the caller.
fn code(outcome: &Result<(), Option<ErrorKind>>) -> u8 {
    match outcome {
        Ok(()) => 0,
        Err(Some(kind)) => kind.code(),
        Err(None) => u8::MAX,
    }
}

/// Collective: one byte of each rank, on all ranks.
fn all_of(comm: &dyn Communicator, own: u8) -> Outcome<Vec<u8>> {
    let said = |e: Error| format!("ranks cannot compare their outcomes: {e}");
    let gathered = comm.gather(0, &[own]).map_err(said)?;
    let mut all = gathered.map_or(Vec::new(), |all| all.concat());
    comm.broadcast(0, &mut all).map_err(said)?;
    Ok(all)
}

/// Collective: all ranks succeeded.
fn all_succeeded(comm: &dyn Communicator, own: &Result<(), Option<ErrorKind>>) -> Outcome<()> {
    let all = all_of(comm, code(own))?;
    if all.iter().any(|code| *code != 0) {
        return Err(format!("the ranks' outcomes are {all:?}"));
    }
    Ok(())
}

/// Collective: all ranks failed with `Io`, or all succeeded without what panicked, if they `may`; returns whether they failed.
fn all_alike(comm: &dyn Communicator, own: &Result<(), Option<ErrorKind>>, may: bool) -> Outcome<bool> {
    let all = all_of(comm, code(own))?;
    let told = all.iter().all(|code| *code == ErrorKind::Io.code());
    if !told && (!may || all.iter().any(|code| *code != 0)) {
        return Err(format!("the ranks' outcomes are {all:?}"));
    }
    Ok(told)
}

/// What the calls of a C program come to, where a panic ends at each call.
fn call<T>(first: &mut Result<(), Option<ErrorKind>>, body: impl FnOnce() -> thalweg_types::Result<T>) -> Option<T> {
    let outcome = catch_unwind(AssertUnwindSafe(body)).map_err(|_| None).and_then(|o| o.map_err(|e| Some(e.kind())));
    match outcome {
        Ok(value) => Some(value),
        Err(e) => {
            if first.is_ok() {
                *first = Err(e);
            }
            None
        }
    }
}

/// One rank's part.
struct Rank<'a> {
    comm: &'a MpiCommunicator,
    folder: &'a str,
}

impl Rank<'_> {
    fn rank(&self) -> u32 {
        self.comm.rank()
    }

    /// Collective: an empty folder.
    fn clean(&self) -> Outcome<()> {
        let clean = || match self.rank() {
            0 => std::fs::remove_dir_all(self.folder).or(Ok(())).and_then(|()| std::fs::create_dir(self.folder)),
            _ => Ok(()),
        };
        let cleaned = clean().map_err(|_| Some(ErrorKind::Io));
        all_succeeded(self.comm, &cleaned).map_err(|e| format!("cannot make the folder: {e}"))
    }

    fn store(&self) -> Outcome<Arc<Failing>> {
        let store = Posix::at(self.folder).map_err(|e| e.to_string())?;
        Ok(Arc::new(Failing::new(Arc::new(store))))
    }

    /// One output; also the phase in which the store panicked.
    fn output(&self, session: &Session, store: &Failing, mode: Mode) -> (Result<(), Option<ErrorKind>>, Option<Phase>) {
        let (mut outcome, mut met) = (Ok(()), None);
        let mut note = |phase| {
            if met.is_none() && store.failed().0 > 0 {
                met = Some(phase);
            }
        };
        let opened = call(&mut outcome, || session.open("g", "x.bp", mode, self.comm.duplicate()?));
        note(Phase::Open);
        if let Some(mut output) = opened {
            let values = vec![f64::from(self.rank()); ELEMENTS];
            // As C programs do, close tells.
            let mut ignored = Ok(());
            call(&mut ignored, || output.write_values("n", &[ELEMENTS as i32]));
            call(&mut ignored, || output.write_values("v", &values));
            note(Phase::Write);
            call(&mut outcome, || output.close());
            note(Phase::Close);
        }
        (outcome, met)
    }

    /// Outputs of which the second meets the panic of the store call `k` on the rank `victim`, or the first if `first`.
    /// Returns the phase that met it and whether the ranks were told, on all ranks.
    fn outputs(
        &self,
        setup: (&str, &str, Option<u64>),
        victim: u32,
        first: bool,
        k: u64,
    ) -> Outcome<Option<(Phase, bool)>> {
        let (method, parameters, buffer) = setup;
        self.clean()?;
        let store = self.store()?;
        let layout: Arc<dyn Layout> = Arc::new(Direct::new(store.clone()).map_err(|e| e.to_string())?);
        let document = format!(
            r#"<adios-config host-language="C"><adios-group name="g"><var name="n" type="integer"/>
            <var name="v" type="double" dimensions="n"/></adios-group>
            <method group="g" method="{method}">{parameters}</method></adios-config>"#
        );
        let schema = xml::parse(&document, "x.xml").map_err(|e| e.render(false))?;
        let comm = self.comm.duplicate().map_err(|e| e.to_string())?;
        let session = Session::with_layout(schema, layout, comm).map_err(|e| e.to_string())?;
        session.set_buffer_limit(buffer);
        let mut mode = Mode::Write;
        if !first {
            let (outcome, _) = self.output(&session, &store, mode);
            all_succeeded(self.comm, &outcome).map_err(|e| format!("the output before: {e}"))?;
            mode = Mode::Append;
        }
        if self.rank() == victim {
            store.fail(Fault::any().times(1).panics().skipping(k));
        }
        let (outcome, met) = self.output(&session, &store, mode);
        let met = all_of(self.comm, met.map_or(u8::MAX, |phase| phase as u8))?[victim as usize];
        let met = [Phase::Open, Phase::Write, Phase::Close].into_iter().find(|phase| *phase as u8 == met);
        let reached = store.failed().1;
        let what = reached.as_ref().map_or(String::new(), |(call, name)| format!("{call:?} of {name}, "));
        // ADAPTIVE writes the group elsewhere.
        let is_write = u8::from(method != "ADAPTIVE" && reached.is_some_and(|(call, _)| call == StoreCall::Write));
        let may = all_of(self.comm, is_write)?[victim as usize] == 0;
        let failed = all_alike(self.comm, &outcome, may).map_err(|e| format!("{what}met by {met:?}: {e}"))?;
        if failed && met.is_none() {
            return Err("the output fails without a panic".into());
        }
        store.heal();
        let (outcome, _) = self.output(&session, &store, mode);
        all_succeeded(self.comm, &outcome).map_err(|e| format!("{what}met by {met:?}: the next output: {e}"))?;
        let mut finished = Ok(());
        call(&mut finished, || session.finalize());
        all_succeeded(self.comm, &finished)
            .map_err(|e| format!("{what}met by {met:?}: the end of the session: {e}"))?;
        Ok(met.map(|phase| (phase, failed)))
    }

    /// A file that all ranks open together and read; the store call `k` of the rank `victim` panics. Returns whether it was reached.
    fn opens(&self, victim: u32, k: u64) -> Outcome<Option<(Phase, bool)>> {
        let store = self.store()?;
        let options = Options { module: Module::Distributed, host: "host".into(), ..Options::default() };
        let layout = Container::new(vec![store.clone()], options).map_err(|e| e.to_string())?;
        if self.rank() == victim {
            store.fail(Fault::any().times(1).panics().skipping(k));
        }
        let mut outcome = Ok(());
        let file = call(&mut outcome, || CollectiveFile::open(self.comm.duplicate()?, Ok((&layout, "file")), 2));
        if let Some(file) = file {
            let mut bytes = vec![0; 100];
            call(&mut outcome, || file.read_all(0, &mut bytes));
        }
        let reached = all_of(self.comm, u8::from(store.failed().0 > 0))?[victim as usize] > 0;
        if all_alike(self.comm, &outcome, true)? != reached {
            return Err("a panic that nobody was told of, or an error without a panic".into());
        }
        Ok(reached.then_some((Phase::Open, true)))
    }

    /// Collective: a file of a container with three writers.
    fn container(&self) -> Outcome<()> {
        self.clean()?;
        let mut written = Ok(());
        call(&mut written, || {
            let options = Options { inline: Some(0), host: "host".into(), ..Options::default() };
            let layout = Container::new(vec![Arc::new(Posix::at(self.folder)?) as Arc<dyn Store>], options)?;
            for writer in (0..3).filter(|_| self.rank() == 0) {
                let file = layout.open_write("file", OpenWrite::Any, WriterId(writer))?;
                write_all_at(&*file, u64::from(writer) * 50, &[7; 50])?;
                file.close()?;
            }
            Ok(())
        });
        all_succeeded(self.comm, &written).map_err(|e| format!("the file to read: {e}"))
    }

    /// Lets every store call panic, until one is not reached; returns the failed calls of each phase.
    fn sweep(&self, one: impl Fn(u64) -> Outcome<Option<(Phase, bool)>>) -> Outcome<[u32; 3]> {
        let mut failed = [0; 3];
        for k in 0.. {
            match one(k).map_err(|e| format!("store call {k}: {e}"))? {
                Some((phase, told)) => failed[phase as usize] += u32::from(told),
                None => break,
            }
        }
        Ok(failed)
    }
}

/// Collective: says the outcome of a check, of the lowest rank that has a mistake.
fn say(comm: &MpiCommunicator, name: &str, mistake: Option<String>) -> bool {
    if let Some(mistake) = &mistake {
        eprintln!("rank {}: {name}: {mistake}", comm.rank());
    }
    // Ranks that no longer agree cannot compare this either: then this rank's own word counts.
    let failed = all_of(comm, u8::from(mistake.is_some())).map_or(true, |all| all.iter().any(|failed| *failed > 0));
    if comm.rank() == 0 {
        println!("{}ok {name}", if failed { "not " } else { "" });
    }
    !failed
}

fn run(comm: &MpiCommunicator, folder: &Path) -> bool {
    let folder = folder.join("files").display().to_string();
    let rank = Rank { comm, folder: &folder };
    let mut passed = true;
    let mut writes = 0;
    for setup in METHODS {
        for victim in [0, comm.size() - 1] {
            let first = rank.sweep(|k| rank.outputs(setup, victim, true, k));
            let second = first.and_then(|first| Ok([first, rank.sweep(|k| rank.outputs(setup, victim, false, k))?]));
            let limit = setup.2.map_or(String::new(), |bytes| format!(", a buffer of {bytes} bytes"));
            let name = format!(
                "{} {}{limit}: where rank {victim} panics, no rank waits and all have one outcome",
                setup.0, setup.1
            );
            let mistake = match second {
                Ok(failed) => {
                    writes += failed[0][1] + failed[1][1];
                    // Rank 0 has the index in every method.
                    let few = victim == 0 && failed.iter().any(|failed| failed[0] == 0 || failed[2] == 0);
                    few.then(|| format!("failed calls of open, write and close: {failed:?}"))
                }
                Err(e) => Some(e),
            };
            passed &= say(comm, &name, mistake);
            if !passed {
                // Where a rank waits for another, so would every further call.
                return false;
            }
        }
    }
    passed &= say(comm, "panics were met inside write calls too", (writes == 0).then(|| "none was".into()));
    for victim in [0, comm.size() - 1] {
        let met = rank.container().and_then(|()| rank.sweep(|k| rank.opens(victim, k)));
        let mistake = match met {
            Ok(met) => (met[0] < 3).then(|| format!("{} panics", met[0])),
            Err(e) => Some(e),
        };
        passed &=
            say(comm, &format!("a collective open and read in which rank {victim} panics fails on all ranks"), mistake);
    }
    passed
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [library, folder] = &arguments[..] else {
        eprintln!("usage: panics LIBRARY FOLDER");
        return ExitCode::from(2);
    };
    // The panics are meant.
    std::panic::set_hook(Box::new(|_| ()));
    // Open MPI loads components that look for its symbols in what is already global.
    let flags = libloading::os::unix::RTLD_NOW | libloading::os::unix::RTLD_GLOBAL;
    // SAFETY: the library is the one named on the command line; its initialisers are MPI's.
    let library = unsafe { libloading::os::unix::Library::open(Some(library), flags) }.expect("the MPI library loads");
    // Never unloaded, as from_raw asks.
    let library: &'static _ = Box::leak(Box::new(library));
    // SAFETY: the signatures are those of thalweg_mpi.h and application.c.
    let (table, start, end) = unsafe {
        (
            library.get::<unsafe extern "C" fn() -> *const ThalwegMpiTable>(b"thalweg_mpi_table").unwrap(),
            library.get::<unsafe extern "C" fn(c_int) -> *mut c_void>(b"application_start").unwrap(),
            library.get::<unsafe extern "C" fn()>(b"application_end").unwrap(),
        )
    };
    // SAFETY: MPI is started once, by the main thread; table and handle come from the library above, which stays.
    let mut comm = unsafe { MpiCommunicator::from_raw(table(), start(0)) }.expect("a communicator");
    comm.set_timeout(PATIENCE);
    let passed = run(&comm, Path::new(folder));
    if !passed {
        // MPI cannot end while a rank waits for another; time for the words of others to come.
        std::thread::sleep(Duration::from_millis(500));
        std::process::exit(1);
    }
    drop(comm);
    // SAFETY: every rank is here; ends MPI once.
    unsafe { end() };
    ExitCode::SUCCESS
}
