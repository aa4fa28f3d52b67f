//! Data services on staged files: processes that follow a file through this server, and write what its services leave of it into another.
//!
//! | question | answer |
//! |----------|--------|
//! | who asks | a program that opens a file whose group has services |
//! | how many | one process for each file and group; when the file is made anew, another one takes its place |
//! | when it ends | when the file is closed for good, or its writer has died. A server that is told to end lets it take first what is there |
//! | when it fails | the file itself is as it was; the process says why in the server's log |

use std::io::IoSlice;
use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_layout::WriteObject;
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

/// What a program asks for.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Wanted {
    /// Absolute path of the staged file.
    pub file: String,
    /// Absolute path of the file that gets what leaves the services.
    pub output: String,
    /// The group.
    pub group: String,
    /// The XML document of the services.
    pub document: String,
    /// Folder below which relative names in the document lie.
    pub folder: String,
    /// The file goes on: what `output` has of it stays.
    pub goes_on: bool,
}

/// Starts the process of the services of a file. It ends by itself when the file is closed for good, and on the signal `SIGURG` when no further
/// step is there.
pub type Launch = Arc<dyn Fn(&Wanted) -> Result<Child> + Send + Sync>;

/// What became of the services of a file.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ServicesStatus {
    /// The staged file.
    pub file: String,
    /// The file that gets what leaves the services.
    pub output: String,
    /// The group.
    pub group: String,
    /// How the process ended; `None` while it runs.
    pub ended: Option<String>,
}

/// Files whose services have ended, of which a server says something: the last ones.
const TOLD: usize = 20;

/// How often a server that ends looks for processes that have not.
const LOOK: Duration = Duration::from_millis(50);

/// The services of a server.
#[derive(Clone)]
pub(super) struct Services {
    launch: Option<Launch>,
    all: Arc<Mutex<All>>,
}

#[derive(Default)]
struct All {
    files: Vec<Running>,
    /// The server ends: no process is started any more.
    ending: bool,
}

struct Running {
    wanted: Wanted,
    state: State,
    /// What was asked for meanwhile: begins when the process has ended.
    again: Option<Wanted>,
}

enum State {
    /// A thread starts the process.
    Starts,
    Runs(Child),
    Ended(String),
}

impl Running {
    fn is_of(&self, wanted: &Wanted) -> bool {
        (&self.wanted.file, &self.wanted.group) == (&wanted.file, &wanted.group)
    }

    fn has_ended(&self) -> bool {
        matches!(self.state, State::Ended(_))
    }

    /// Looks whether it has ended.
    fn look(&mut self) {
        let State::Runs(process) = &mut self.state else { return };
        self.state = State::Ended(match process.try_wait() {
            Ok(None) => return,
            Ok(Some(status)) if status.success() => "everything was served".to_string(),
            Ok(Some(status)) => format!("{status}: see the server's log"),
            Err(e) => format!("it cannot be waited for: {e}"),
        });
    }

    /// Kills the process; it is waited for later.
    fn kill(&mut self) {
        if let State::Runs(process) = &mut self.state {
            let _ = process.kill();
        }
    }
}

impl Services {
    /// - `launch`: without it programs that ask for services are refused.
    pub(super) fn new(launch: Option<Launch>) -> Services {
        Services { launch, all: Arc::default() }
    }

    /// Begins the services of a file, unless they work on it already. Waits for no process.
    fn start(&self, wanted: Wanted) -> Result<()> {
        let none = |what: &str| Error::new(ErrorKind::Unsupported, what.to_string());
        self.launch.as_ref().ok_or_else(|| none("this server starts no services"))?;
        let mut all = self.all.lock();
        if all.ending {
            return Err(none("this server ends"));
        }
        all.files.iter_mut().for_each(Running::look);
        let others = all.files.iter().filter(|running| !running.is_of(&wanted) && !running.has_ended());
        if let Some(other) = others.into_iter().find(|other| other.wanted.output == wanted.output) {
            let of = |wanted: &Wanted| format!("group \"{}\" of {}", wanted.group, wanted.file);
            let what = format!(
                "the services of {} write {} already, so those of {} cannot: output = in the XML names another file",
                of(&other.wanted),
                wanted.output,
                of(&wanted)
            );
            return Err(Error::new(ErrorKind::Config, what));
        }
        if let Some(at) = all.files.iter().position(|running| running.is_of(&wanted)) {
            if !all.files[at].has_ended() {
                // It may be about to end, and not see what comes.
                if !wanted.goes_on {
                    all.files[at].kill();
                }
                all.files[at].again = Some(wanted);
                return Ok(());
            }
            all.files.remove(at);
        }
        let ended = all.files.iter().filter(|running| running.has_ended()).count();
        let mut surplus = (ended + 1).saturating_sub(TOLD);
        all.files.retain(|running| {
            let goes = surplus > 0 && running.has_ended();
            surplus -= usize::from(goes);
            !goes
        });
        all.files.push(Running { wanted: wanted.clone(), state: State::Starts, again: None });
        drop(all);
        self.launch(wanted);
        Ok(())
    }

    /// Starts a process from a thread of its own: the file system of the program may be slow.
    fn launch(&self, wanted: Wanted) {
        let services = self.clone();
        let begun = std::thread::Builder::new().name("services".into()).spawn(move || {
            let started = match &services.launch {
                Some(launch) => launch(&wanted),
                None => Err(Error::new(ErrorKind::Unsupported, "this server starts no services")),
            };
            let mut all = services.all.lock();
            let Some(running) = all.files.iter_mut().find(|running| running.is_of(&wanted)) else { return };
            running.state = match started {
                Ok(process) => State::Runs(process),
                Err(e) => State::Ended(e.to_string()),
            };
            // What was asked for meanwhile makes the file anew.
            if running.again.as_ref().is_some_and(|again| !again.goes_on) {
                running.kill();
            }
        });
        if begun.is_err() {
            let mut all = self.all.lock();
            let starts = all.files.iter_mut().filter(|running| matches!(running.state, State::Starts));
            starts.for_each(|running| running.state = State::Ended("the system has no further thread".into()));
        }
    }

    /// Looks at all processes, and starts those that were asked for while another one was at work.
    pub(super) fn status(&self) -> Vec<ServicesStatus> {
        let mut all = self.all.lock();
        all.files.iter_mut().for_each(Running::look);
        let mut next = Vec::new();
        if !all.ending {
            for running in all.files.iter_mut().filter(|running| running.has_ended()) {
                if let Some(again) = running.again.take() {
                    next.push(again.clone());
                    (running.wanted, running.state) = (again, State::Starts);
                }
            }
        }
        let told = all.files.iter().map(|running| ServicesStatus {
            file: running.wanted.file.clone(),
            output: running.wanted.output.clone(),
            group: running.wanted.group.clone(),
            ended: match &running.state {
                State::Ended(how) => Some(how.clone()),
                State::Starts | State::Runs(_) => None,
            },
        });
        let told = told.collect();
        drop(all);
        next.into_iter().for_each(|wanted| self.launch(wanted));
        told
    }

    /// Lets all processes take what is there, and waits for their ends. No further ones are started.
    ///
    /// - `longest`: then they are killed, and not waited for; `None`: as long as it takes.
    pub(super) fn finish(&self, longest: Option<Duration>) {
        let begun = Instant::now();
        self.all.lock().ending = true;
        loop {
            let mut all = self.all.lock();
            all.files.iter_mut().for_each(Running::look);
            if all.files.iter().all(Running::has_ended) {
                return;
            }
            let late = longest.is_some_and(|longest| begun.elapsed() > longest);
            for running in &mut all.files {
                let State::Runs(process) = &running.state else { continue };
                if late {
                    running.kill();
                    let how = "it was ended with the server: thalweg copy --services --continue serves the rest";
                    running.state = State::Ended(how.into());
                } else {
                    // Again and again: a process that has just begun does not listen yet.
                    let pid = rustix::process::Pid::from_child(process);
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::URG);
                }
            }
            if late {
                return;
            }
            drop(all);
            std::thread::sleep(LOOK);
        }
    }

    /// What a program writes into it is a [`Wanted`], which is taken when it is closed.
    pub(super) fn request(&self) -> Box<dyn WriteObject> {
        Box::new(Request { services: self.clone(), text: Mutex::default() })
    }
}

/// A request that is being written.
struct Request {
    services: Services,
    text: Mutex<Vec<u8>>,
}

/// Most bytes of a request.
const LONGEST: usize = 1 << 20;

impl WriteObject for Request {
    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        let mut text = self.text.lock();
        let length = pieces.iter().map(|piece| piece.len()).sum::<usize>();
        if offset != text.len() as u64 || text.len() + length > LONGEST {
            let what = format!("a request is written from its beginning on, and has at most {LONGEST} bytes");
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        pieces.iter().for_each(|piece| text.extend_from_slice(piece));
        Ok(())
    }

    fn length(&self) -> Result<u64> {
        Ok(self.text.lock().len() as u64)
    }

    fn read_at(&self, _: u64, _: &mut [u8]) -> Result<usize> {
        Ok(0)
    }

    fn truncate(&self, _: u64) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "a request cannot be cut"))
    }

    fn punch(&self, _: u64, _: u64) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "a request has no holes"))
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        let text = std::mem::take(&mut *self.text.lock());
        let wrong = |what: String| Error::new(ErrorKind::InvalidArgument, format!("this asks for no services: {what}"));
        let text = String::from_utf8(text).map_err(|e| wrong(e.to_string()))?;
        let wanted = toml::from_str::<Wanted>(&text).map_err(|e| wrong(e.message().to_string()))?;
        self.services.start(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn wanted(file: &str, goes_on: bool) -> Wanted {
        Wanted {
            file: file.into(),
            output: format!("{file}.out"),
            group: "g".into(),
            document: "<adios-config/>".into(),
            folder: "/".into(),
            goes_on,
        }
    }

    fn ask(services: &Services, wanted: &Wanted) -> Result<()> {
        let request = services.request();
        let text = toml::to_string(wanted).unwrap();
        request.write_at(0, &[IoSlice::new(&text.as_bytes()[..10])])?;
        request.write_at(10, &[IoSlice::new(&text.as_bytes()[10..])])?;
        request.close()
    }

    /// Services whose processes are this command of the shell.
    fn services(command: &'static str) -> Services {
        let launch = move |_: &Wanted| Command::new("sh").args(["-c", command]).spawn();
        Services::new(Some(Arc::new(move |wanted| launch(wanted).map_err(|e| Error::io("cannot start", e)))))
    }

    /// The numbers of the processes, once none is being started.
    fn pids(services: &Services) -> Vec<u32> {
        loop {
            services.status();
            let pid = |running: &Running| match &running.state {
                State::Runs(process) if running.again.is_none() => Some(process.id()),
                _ => None,
            };
            let all: Option<Vec<u32>> = services.all.lock().files.iter().map(pid).collect();
            if let Some(all) = all {
                return all;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_file_has_one_process_and_another_one_when_it_is_made_anew() {
        let services = services("trap 'exit 0' URG; while :; do sleep 0.01; done");
        ask(&services, &wanted("/a.bp", false)).unwrap();
        ask(&services, &wanted("/b.bp", true)).unwrap();
        let first = pids(&services);
        ask(&services, &wanted("/a.bp", false)).unwrap();
        let second = pids(&services);
        assert!(second[0] != first[0] && second[1] == first[1], "{first:?} {second:?}");
        let other = Wanted { output: "/a.bp.out".into(), ..wanted("/c.bp", false) };
        let refused = ask(&services, &other).unwrap_err();
        assert!(refused.kind() == ErrorKind::Config && refused.to_string().contains("of /a.bp"), "{refused}");
        services.finish(None);
        let status = services.status();
        assert_eq!(status.iter().map(|s| s.file.as_str()).collect::<Vec<&str>>(), ["/a.bp", "/b.bp"]);
        assert!(status.iter().all(|s| s.ended.as_deref() == Some("everything was served")), "{status:?}");
        assert_eq!(ask(&services, &wanted("/d.bp", false)).unwrap_err().kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn who_asks_while_a_process_is_about_to_end_gets_another_one() {
        let services = services("trap 'exit 0' URG; sleep 0.2");
        ask(&services, &wanted("/a.bp", false)).unwrap();
        let first = services.all.clone();
        ask(&services, &wanted("/a.bp", true)).unwrap();
        assert!(first.lock().files[0].again.is_some());
        while services.status()[0].ended.is_none() || !first.lock().files[0].wanted.goes_on {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(first.lock().files[0].again.is_none());
    }

    #[test]
    fn a_process_that_does_not_end_is_ended_and_one_that_fails_is_told() {
        let services = services("exec sleep 1000");
        ask(&services, &wanted("/a.bp", false)).unwrap();
        pids(&services);
        services.finish(Some(Duration::from_millis(100)));
        assert!(services.status()[0].ended.as_ref().unwrap().contains("ended with the server"));
        let failing = self::services("exit 3");
        for n in 0..30 {
            ask(&failing, &wanted(&format!("/{n}.bp"), false)).unwrap();
            while failing.status().iter().any(|status| status.ended.is_none()) {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        let status = failing.status();
        assert_eq!(status.len(), TOLD);
        assert!(status.iter().all(|s| s.ended.as_ref().unwrap().contains("exit status: 3")), "{status:?}");
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let services = services("exit 0");
        let request = services.request();
        assert_eq!(request.write_at(5, &[IoSlice::new(b"x")]).unwrap_err().kind(), ErrorKind::InvalidArgument);
        request.write_at(0, &[IoSlice::new(b"file = 3")]).unwrap();
        assert_eq!(request.close().unwrap_err().kind(), ErrorKind::InvalidArgument);
        let none = Services::new(None);
        assert_eq!(ask(&none, &wanted("/a.bp", false)).unwrap_err().kind(), ErrorKind::Unsupported);
    }
}
