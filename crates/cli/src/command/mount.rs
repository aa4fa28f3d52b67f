//! `thalweg mount` and `thalweg unmount`: files of mounts as folders of this machine.

use crate::arguments::{Caching, Mount as Arguments, Unmount};
use crate::detached;
use crate::outcome::{Failure, Outcome};
use crate::terminal::{Terminal, plain};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use thalweg_fuse::last_words::{self, MountServer, unpublished};
use thalweg_fuse::{All, Cache, Mounted, Settings, errors};
use thalweg_io::mounts;
use thalweg_layout::{Layout, Mounts, mount};
use thalweg_remote::Served;
use thalweg_types::printable::printable_lines;
use thalweg_types::{Error, ErrorKind};

/// The message of the background process when the mount is ready.
const READY: &str = "ready";

pub fn run(arguments: &Arguments, out: &mut Terminal) -> Result<Outcome, Failure> {
    if arguments.status {
        return status(arguments.json, out);
    }
    match (arguments.foreground, arguments.behind) {
        (false, false) => send_behind(),
        (_, behind) => serve(arguments, behind, out),
    }
}

/// Starts this command again in a session of its own, and waits until it is ready.
fn send_behind() -> Result<Outcome, Failure> {
    let start = |e| Error::io("cannot start the process that serves the mount", e);
    let program = std::env::current_exe().map_err(start)?;
    let log = private_file(&logs()?.join(format!("mount-by-{}.log", std::process::id()))).map_err(start)?;
    let mut serving = Command::new(program)
        .args(std::env::args_os().skip(1))
        .arg("--behind")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::from(log))
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
        detached::leave();
    }
    let signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]);
    let mut signals = signals.map_err(|e| Error::io("cannot listen for signals", e))?;
    let started = log(behind).and_then(|log| match start(arguments) {
        Ok(serving) => Ok((serving, log)),
        Err(failure) => {
            let _ = std::fs::remove_file(&log);
            Err(failure)
        }
    });
    let (serving, log) = match started {
        Ok(serving) => serving,
        Err(failure) if behind => {
            // The process that waits for this one prints it.
            writeln!(out, "{}", printable_lines(&failure.to_string()))?;
            out.flush()?;
            return Ok(Outcome::No);
        }
        Err(failure) => return Err(failure),
    };
    // Kept until unpublished writes were reported.
    let known = arguments.mount_point.as_deref().map(|point| last_words::Serving::begin(&log, point)).transpose()?;
    let _told = serving.socket.as_deref().map(|socket| SocketFile::begin(&logs()?, socket)).transpose()?;
    if behind {
        writeln!(out, "{READY}")?;
    } else {
        out.line(format_args!("{}; end with SIGTERM or SIGINT", serving.about))?;
    }
    out.flush()?;
    loop {
        if signals.pending().next().is_some() || serving.mounted.as_ref().is_some_and(Mounted::has_ended) {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    // Programs at the socket first, so that their writes are visible through the mount as well.
    drop(serving.served);
    let unmounted = serving.mounted.map_or(Ok(()), Mounted::unmount);
    // Logs of the layouts, too; the process that can report a failure does.
    let finished = mounts::finish();
    if let Err(e) = unmounted.and(finished) {
        // For `thalweg unmount`, which cannot see how this process ends.
        known.map_or(Ok(()), |known| known.say(&e))?;
        return Err(e.into());
    }
    if errors::so_far().count == 0 {
        let _ = std::fs::remove_file(&log);
    }
    Ok(Outcome::Done)
}

/// The folder of logs, accessible to this user alone, beside the default socket.
pub(super) fn logs() -> Result<PathBuf, Failure> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let uid = rustix::process::geteuid().as_raw();
    let folder =
        runtime.map_or_else(|| PathBuf::from(format!("/tmp/thalweg-{uid}")), |runtime| runtime.join("thalweg"));
    let cannot = |e| Error::io("cannot make the folder of logs", e).in_object(folder.display().to_string());
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(cannot)?;
    let about = std::fs::symlink_metadata(&folder).map_err(cannot)?;
    if !about.is_dir() || about.uid() != uid || about.mode() & 0o022 != 0 {
        let what = "cannot write a log: its folder must be this user's, and no other's to write";
        return Err(Error::new(ErrorKind::PermissionDenied, what).in_object(folder.display().to_string()).into());
    }
    Ok(folder)
}

fn private_file(path: &Path) -> std::io::Result<std::fs::File> {
    let _ = std::fs::remove_file(path);
    std::fs::OpenOptions::new().append(true).create_new(true).mode(0o600).open(path)
}

/// Begins the log, which in the background also receives standard error.
fn log(behind: bool) -> Result<PathBuf, Failure> {
    let path = logs()?.join(format!("mount-{}.log", std::process::id()));
    let cannot = |e| Error::io("cannot write the log", e).in_object(path.display().to_string());
    match std::fs::read_link("/proc/self/fd/2").ok().filter(|_| behind) {
        // The log of the command that started this process.
        Some(begun) => std::fs::rename(begun, &path).map_err(cannot)?,
        None => drop(private_file(&path).map_err(cannot)?),
    }
    let _ = std::fs::remove_file(unpublished(&path));
    errors::log_to(&path).map_err(cannot)?;
    Ok(path)
}

/// Prints the mounts of this machine and their errors.
fn status(json: bool, out: &mut Terminal) -> Result<Outcome, Failure> {
    let all = thalweg_fuse::all_mounted()?;
    // If the folder cannot be created, no server is registered in it.
    let folder = logs().unwrap_or_default();
    let sockets = sockets(&folder);
    let log_of = |pid: u32| Some(folder.join(format!("mount-{pid}.log"))).filter(|log| log.exists());
    if json {
        let mounts: Vec<serde_json::Value> = all
            .iter()
            .map(|mount| {
                let errors = mount.errors.as_ref();
                let last = errors.and_then(|errors| errors.last.as_ref());
                serde_json::json!({
                    "mount_point": mount.point, "mount": prefix(&mount.what), "pid": mount.pid,
                    "errors": errors.map(|errors| errors.count),
                    "last_error": last.map(|(_, what)| what), "last_error_time": last.map(|(at, _)| at),
                    "log": errors.and_then(|errors| errors.log.as_ref()),
                })
            })
            .collect();
        let sockets: Vec<serde_json::Value> = sockets
            .iter()
            .map(|(socket, pid)| serde_json::json!({ "socket": socket, "pid": pid, "log": log_of(*pid) }))
            .collect();
        writeln!(out, "{}", serde_json::json!({ "mounts": mounts, "sockets": sockets }))?;
        return Ok(Outcome::Done);
    }
    for mount in &all {
        let point = plain(&mount.point.to_string_lossy()).to_string();
        let who = mount.pid.map_or("its process died, or does not answer".to_string(), |pid| format!("process {pid}"));
        let errors = mount.errors.as_ref();
        let count = errors.map_or(String::new(), |errors| format!(", {} errors", errors.count));
        writeln!(out, "{point}  {}, {who}{count}", plain(prefix(&mount.what)))?;
        let Some(errors) = errors else { continue };
        if let Some((at, what)) = &errors.last {
            writeln!(out, "    last error, {at} seconds after 1970: {}", plain(what))?;
        }
        if let Some(log) = &errors.log {
            writeln!(out, "    log: {}", plain(&log.to_string_lossy()))?;
        }
    }
    for (socket, pid) in &sockets {
        out.line(format_args!("{}  socket, process {pid}", socket.display()))?;
        if let Some(log) = log_of(*pid) {
            out.line(format_args!("    log: {}", log.display()))?;
        }
    }
    Ok(Outcome::Done)
}

/// Prefix of socket files.
const SOCKET_FILE: &str = "socket-";

/// A file beside the logs that names the socket which this process serves; removed when this is dropped. `mount --status` finds the
/// sockets by these files. The file's name ends with the PID.
struct SocketFile(PathBuf);

impl SocketFile {
    fn begin(folder: &Path, socket: &Path) -> Result<SocketFile, Failure> {
        let path = folder.join(format!("{SOCKET_FILE}{}", std::process::id()));
        let cannot = |e| Error::io("cannot record the address of the socket", e).in_object(path.display().to_string());
        let socket = std::path::absolute(socket).map_err(cannot)?;
        private_file(&path).and_then(|mut file| file.write_all(socket.as_os_str().as_bytes())).map_err(cannot)?;
        Ok(SocketFile(path))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The sockets that processes of this user serve, with their PIDs. Removes the socket files of killed processes.
fn sockets(folder: &Path) -> Vec<(PathBuf, u32)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.strip_prefix(SOCKET_FILE)?.parse().ok()) else { continue };
        let Ok(socket) = std::fs::read(entry.path()) else { continue };
        let socket = PathBuf::from(std::ffi::OsString::from_vec(socket));
        match thalweg_remote::server_of(&socket) {
            Some(server) if server == pid => found.push((socket, pid)),
            _ if Path::new(&format!("/proc/{pid}")).exists() => {}
            _ => drop(std::fs::remove_file(entry.path())),
        }
    }
    found.sort();
    found
}

/// The path in the mount table, from the system's name of the mount.
fn prefix(what: &str) -> &str {
    what.strip_prefix("thalweg:").unwrap_or(what)
}

struct Serving {
    about: String,
    mounted: Option<Mounted>,
    served: Option<Served>,
    /// The socket's path.
    socket: Option<PathBuf>,
}

fn start(arguments: &Arguments) -> Result<Serving, Failure> {
    let mounts = mounts::of_process()?;
    let (mut about, mut mounted, mut served, mut at) = (Vec::new(), None, None, None);
    match &arguments.mount_point {
        Some(_) if arguments.socket_only => {
            return Err(Failure::Usage("--socket-only mounts nowhere: leave the mount point out".into()));
        }
        Some(point) => {
            let (layout, settings) = layout_and_settings(arguments, &mounts, point)?;
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
        let socket = arguments.socket.clone().unwrap_or_else(thalweg_remote::default_socket);
        served = Some(thalweg_remote::serve(mounts, Arc::new(thalweg_remote::transport::unix::listen(&socket)?))?);
        about.push(format!("the mounts are served at {}", socket.display()));
        at = Some(socket);
    }
    Ok(Serving { about: about.join("; "), mounted, served, socket: at })
}

/// The layout to mount, and the settings of the mount.
fn layout_and_settings(
    arguments: &Arguments,
    mounts: &Arc<Mounts>,
    point: &Path,
) -> Result<(Arc<dyn Layout>, Settings), Failure> {
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

/// The layout to mount, and its prefix in the mount table.
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
                let what = format!("several mounts: choose with --path: all, or one of {}", names.join(", "));
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
        .answering()
        .map_err(|why| Error::new(ErrorKind::Config, format!("the mount {wanted} cannot be used: {why}")))?;
    Ok((wanted, layout.clone()))
}

fn no_mounts() -> Failure {
    Failure::Usage("the mount table has no mounts; see `thalweg config check`".into())
}

pub fn end(arguments: &Unmount) -> Result<Outcome, Failure> {
    let known = logs().ok().and_then(|folder| MountServer::of(&folder, &arguments.mount_point));
    thalweg_fuse::unmount(&arguments.mount_point, arguments.lazy, known.as_ref())?;
    Ok(Outcome::Done)
}
