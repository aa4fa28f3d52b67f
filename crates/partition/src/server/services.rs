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
    all: Arc<Mutex<Vec<Running>>>,
}

struct Running {
    wanted: Wanted,
    /// Until it has ended.
    process: Option<Child>,
    ended: Option<String>,
}

impl Running {
    /// Looks whether it has ended.
    fn look(&mut self) {
        let Some(process) = &mut self.process else { return };
        let ended = match process.try_wait() {
            Ok(None) => return,
            Ok(Some(status)) if status.success() => "everything was served".to_string(),
            Ok(Some(status)) => format!("{status}: see the server's log"),
            Err(e) => format!("it cannot be waited for: {e}"),
        };
        self.process = None;
        self.ended = Some(ended);
    }

    fn end(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl Services {
    /// - `launch`: without it programs that ask for services are refused.
    pub(super) fn new(launch: Option<Launch>) -> Services {
        Services { launch, all: Arc::default() }
    }

    /// Starts the services of a file, unless they work on it already.
    fn start(&self, wanted: Wanted) -> Result<()> {
        let none = || Error::new(ErrorKind::Unsupported, "this server starts no services");
        let launch = self.launch.as_ref().ok_or_else(none)?;
        let mut all = self.all.lock();
        all.iter_mut().for_each(Running::look);
        let same = |running: &Running| (&running.wanted.file, &running.wanted.group) == (&wanted.file, &wanted.group);
        if let Some(at) = all.iter().position(same) {
            if all[at].process.is_some() && wanted.goes_on {
                return Ok(());
            }
            all.remove(at).end();
        }
        let ended = all.iter().filter(|running| running.process.is_none()).count();
        let mut surplus = (ended + 1).saturating_sub(TOLD);
        all.retain(|running| {
            let goes = surplus > 0 && running.process.is_none();
            surplus -= usize::from(goes);
            !goes
        });
        let process = launch(&wanted)?;
        all.push(Running { wanted, process: Some(process), ended: None });
        Ok(())
    }

    pub(super) fn status(&self) -> Vec<ServicesStatus> {
        let mut all = self.all.lock();
        all.iter_mut().for_each(Running::look);
        all.iter()
            .map(|running| ServicesStatus {
                file: running.wanted.file.clone(),
                output: running.wanted.output.clone(),
                group: running.wanted.group.clone(),
                ended: running.ended.clone(),
            })
            .collect()
    }

    /// Lets all processes take what is there, and waits for their ends.
    ///
    /// - `longest`: then they are ended; `None`: as long as it takes.
    pub(super) fn finish(&self, longest: Option<Duration>) {
        let begun = Instant::now();
        loop {
            let mut all = self.all.lock();
            all.iter_mut().for_each(Running::look);
            let late = longest.is_some_and(|longest| begun.elapsed() > longest);
            for running in all.iter_mut() {
                let Some(process) = &running.process else { continue };
                if late {
                    running.end();
                    running.ended =
                        Some("it was ended with the server: thalweg copy --continue serves the rest".into());
                } else if let Some(pid) = i32::try_from(process.id()).ok().and_then(rustix::process::Pid::from_raw) {
                    // Again and again: a process that has just begun does not listen yet. It is our child, and not waited for: its number
                    // is no other's.
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::URG);
                }
            }
            if all.iter().all(|running| running.process.is_none()) {
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

    fn pids(services: &Services) -> Vec<Option<u32>> {
        services.all.lock().iter().map(|running| running.process.as_ref().map(Child::id)).collect()
    }

    #[test]
    fn a_file_has_one_process_and_another_one_when_it_is_made_anew() {
        let services = services("trap 'exit 0' URG; while :; do sleep 0.01; done");
        ask(&services, &wanted("/a.bp", false)).unwrap();
        ask(&services, &wanted("/b.bp", true)).unwrap();
        let first = pids(&services);
        ask(&services, &wanted("/a.bp", true)).unwrap();
        assert_eq!(pids(&services), first);
        ask(&services, &wanted("/a.bp", false)).unwrap();
        assert_eq!((pids(&services)[0], pids(&services).len()), (first[1], 2));
        assert_ne!(pids(&services)[1], first[0]);
        services.finish(None);
        let status = services.status();
        assert_eq!(status.iter().map(|s| s.file.as_str()).collect::<Vec<&str>>(), ["/b.bp", "/a.bp"]);
        assert!(status.iter().all(|s| s.ended.as_deref() == Some("everything was served")), "{status:?}");
    }

    #[test]
    fn a_process_that_does_not_end_is_ended_and_one_that_fails_is_told() {
        let services = services("exec sleep 1000");
        ask(&services, &wanted("/a.bp", false)).unwrap();
        services.finish(Some(Duration::from_millis(100)));
        assert!(services.status()[0].ended.as_ref().unwrap().contains("ended with the server"));
        let failing = self::services("exit 3");
        ask(&failing, &wanted("/a.bp", false)).unwrap();
        failing.finish(None);
        assert!(failing.status()[0].ended.as_ref().unwrap().contains("exit status: 3"));
        for n in 0..30 {
            ask(&failing, &wanted(&format!("/{n}.bp"), false)).unwrap();
            failing.finish(None);
        }
        assert_eq!(failing.status().len(), TOLD);
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
