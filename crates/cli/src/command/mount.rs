//! `thalweg mount` and `thalweg unmount`: files of mounts as folders of this machine.

use crate::arguments::{Caching, Mount as Arguments, Unmount};
use crate::outcome::{Failure, Outcome};
use crate::terminal::Terminal;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use thalweg_daemon::Served;
use thalweg_fuse::{All, Cache, Mounted, Settings};
use thalweg_io::places::mounts;
use thalweg_layout::{Layout, Mounts, mount};
use thalweg_types::{Error, ErrorKind};

/// What the process behind says when the mount is there.
const READY: &str = "ready";

pub fn run(arguments: &Arguments, out: &mut Terminal) -> Result<Outcome, Failure> {
    match (arguments.foreground, arguments.behind) {
        (false, false) => send_behind(),
        (_, behind) => serve(arguments, behind, out),
    }
}

/// Starts this command once more, in a session of its own, and waits until it is at work.
fn send_behind() -> Result<Outcome, Failure> {
    let start = |e| Error::io("cannot start the process that serves the mount", e);
    let program = std::env::current_exe().map_err(start)?;
    let mut serving = Command::new(program)
        .args(std::env::args_os().skip(1))
        .arg("--behind")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(start)?;
    let mut said = String::new();
    if let Some(told) = serving.stdout.take() {
        for line in BufReader::new(told).lines().map_while(Result::ok) {
            if line == READY {
                return Ok(Outcome::Done);
            }
            if !said.is_empty() {
                said.push('\n');
            }
            said.push_str(&line);
        }
    }
    let _ = serving.wait();
    let what = if said.is_empty() { "the process that serves the mount ended".to_string() } else { said };
    Err(Error::new(ErrorKind::Io, what).into())
}

fn serve(arguments: &Arguments, behind: bool, out: &mut Terminal) -> Result<Outcome, Failure> {
    if behind {
        // Fails for the first process of a session only, which this is not.
        let _ = rustix::process::setsid();
    }
    let signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]);
    let mut signals = signals.map_err(|e| Error::io("cannot listen for signals", e))?;
    let started = start(arguments);
    let serving = match started {
        Ok(serving) => serving,
        Err(failure) if behind => {
            // Whoever waits for this process passes it on.
            writeln!(out, "{failure}")?;
            out.flush()?;
            return Ok(Outcome::No);
        }
        Err(failure) => return Err(failure),
    };
    if behind {
        writeln!(out, "{READY}")?;
    } else {
        writeln!(out, "{}; end with SIGTERM or SIGINT", serving.about)?;
    }
    out.flush()?;
    loop {
        if signals.pending().next().is_some() || serving.mounted.as_ref().is_some_and(Mounted::has_ended) {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    // Programs at the socket first: what they wrote is then seen through the mount as well.
    drop(serving.served);
    if let Some(mounted) = serving.mounted {
        mounted.unmount()?;
    }
    Ok(Outcome::Done)
}

struct Serving {
    about: String,
    mounted: Option<Mounted>,
    served: Option<Served>,
}

fn start(arguments: &Arguments) -> Result<Serving, Failure> {
    let mounts = mounts::of_process()?;
    let (mut about, mut mounted, mut served) = (Vec::new(), None, None);
    match &arguments.mount_point {
        Some(_) if arguments.socket_only => {
            return Err(Failure::Usage("--socket-only mounts nowhere: leave the mount point out".into()));
        }
        Some(point) => {
            let (layout, settings) = asked(arguments, &mounts, point)?;
            about.push(format!("{} is mounted at {}", layout.describe(), point.display()));
            mounted = Some(thalweg_fuse::mount(layout, point, settings)?);
        }
        None if arguments.socket_only => {}
        None => return Err(Failure::Usage("where shall it be mounted? Or --socket-only".into())),
    }
    if arguments.socket.is_some() || arguments.socket_only {
        if mounts.mounts().is_empty() {
            return Err(no_mounts());
        }
        let socket = arguments.socket.clone().unwrap_or_else(thalweg_daemon::default_socket);
        served = Some(thalweg_daemon::serve(mounts, &socket)?);
        about.push(format!("the mounts are served at {}", socket.display()));
    }
    Ok(Serving { about: about.join("; "), mounted, served })
}

/// What is mounted, and how.
fn asked(arguments: &Arguments, mounts: &Arc<Mounts>, point: &Path) -> Result<(Arc<dyn Layout>, Settings), Failure> {
    let (name, layout) = chosen(arguments, mounts, point)?;
    let mut settings = Settings::of(&*layout, rustix::process::geteuid().is_root());
    settings.name = format!("thalweg:{name}");
    if let Some(cache) = arguments.cache {
        settings.cache = match cache {
            Caching::Through => Cache::Through,
            Caching::Writeback => Cache::Writeback,
            Caching::Passthrough => Cache::Passthrough,
        };
    }
    if let Some(threads) = arguments.threads {
        settings.threads = threads as usize;
    }
    if let Some(seconds) = arguments.timeout {
        settings.timeout =
            Duration::try_from_secs_f64(seconds).map_err(|e| Failure::Usage(format!("--timeout {seconds}: {e}")))?;
    }
    Ok((layout, settings))
}

/// The layout that is shown, and the prefix it has in the mount table.
fn chosen(arguments: &Arguments, mounts: &Arc<Mounts>, point: &Path) -> Result<(String, Arc<dyn Layout>), Failure> {
    let all = mounts.mounts();
    let absolute = |path: &Path| -> Option<String> {
        let current = std::env::current_dir().ok()?;
        Some(mount::normal(path.to_str()?, current.to_str()?))
    };
    let wanted = match &arguments.path {
        Some(path) if path == "all" => {
            let names: Vec<&str> = all.iter().map(|m| m.prefix()).collect();
            return match names.is_empty() {
                true => Err(no_mounts()),
                false => Ok(("all".into(), Arc::new(All::new(mounts.clone())))),
            };
        }
        Some(path) => mount::normal(path, "/"),
        None => match (all, absolute(point)) {
            (_, Some(point)) if all.iter().any(|m| m.prefix() == point) => point,
            ([one], _) => one.prefix().to_string(),
            ([], _) => return Err(no_mounts()),
            _ => {
                let names: Vec<&str> = all.iter().map(|m| m.prefix()).collect();
                let what = format!("which of the mounts? --path all, or one of {}", names.join(", "));
                return Err(Failure::Usage(what));
            }
        },
    };
    let Some(found) = all.iter().find(|m| m.prefix() == wanted) else {
        let names: Vec<&str> = all.iter().map(|m| m.prefix()).collect();
        let what = format!("the mount table has no mount {wanted}; it has {}", names.join(", "));
        return Err(Failure::Usage(what));
    };
    let layout = found
        .layout()
        .map_err(|why| Error::new(ErrorKind::Config, format!("the mount {wanted} cannot be used: {why}")))?;
    Ok((wanted, layout.clone()))
}

fn no_mounts() -> Failure {
    Failure::Usage("the mount table has no mounts; see `thalweg config check`".into())
}

pub fn end(arguments: &Unmount) -> Result<Outcome, Failure> {
    thalweg_fuse::unmount(&arguments.mount_point, arguments.lazy)?;
    Ok(Outcome::Done)
}
