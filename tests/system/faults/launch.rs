//! What runs under `strace`, and what that saw: this program as a worker, a program with the preload door, the process that
//! serves a mount.

use crate::worker::{NEW, TARGET, WRITTEN, linked};
use crate::{MIXED, Outcome, PANIC};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use thalweg_types::ErrorKind;

/// Exit code of the `thalweg` command: an error.
const FAILURE: i32 = 3;
/// For hangs: a worker needs a fraction of a second.
const PATIENCE: Duration = Duration::from_secs(90);

/// How a worker ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Success,
    Failed(ErrorKind),
    Other(i32),
    Signal,
    TimeOut,
}

/// How often a call was made.
#[derive(Debug, Default)]
pub struct Made {
    /// By one thread, at most.
    pub most: u64,
    /// The k-th of a thread that concerned files of the sweep, rather than libraries and mount tables.
    pub on_files: BTreeSet<u64>,
}

/// A fault: the k-th call of this name fails so. `None`: nothing fails.
pub type Fault<'f> = Option<(&'f str, &'f str, u64)>;

/// What runs under `strace`, and what says how it ended.
pub enum Launch {
    /// This program as a worker.
    Itself,
    /// A program of the system with the preload door.
    Preload { thalweg: String },
    /// A program of its own, whose output goes to a file.
    Command { out: PathBuf },
    /// The process that serves a mount; a program of the system works on it.
    Fuse { thalweg: String, at: PathBuf },
}

impl Launch {
    pub fn is_itself(&self) -> bool {
        matches!(self, Launch::Itself)
    }
}

/// Appends to a file, and looks at each outcome.
const APPENDS: &str = "open(F, '>>', $ARGV[0]) or die $!; print F $ARGV[1] or die $!; close(F) or die $!;";

/// Where the judge keeps what a program of the system prints.
pub fn printed(log: &Path) -> PathBuf {
    log.with_extension("out")
}

/// A program of the system that does an operation on a file.
pub fn tool(operation: &str, path: &str, new: &Path) -> Vec<String> {
    let new = new.display();
    let words: &[&str] = match operation {
        "create" | "replace" => &["cp", &format!("{new}"), path],
        "append" => &["dd", "status=none", "oflag=append", "conv=notrunc", &format!("if={new}"), &format!("of={path}")],
        "rename" => &["mv", path, &format!("{path}.renamed")],
        "remove" => &["rm", path],
        "truncate" => &["truncate", "-s", "11", path],
        "chmod" => &["chmod", "600", path],
        "mkdir" => &["mkdir", path],
        "utimes" => &["touch", "-m", "-d", &format!("@{WRITTEN}"), path],
        "rmdir" => &["rmdir", path],
        "rename_folder" => &["mv", "-T", path, &format!("{path}.renamed")],
        "link" => &["ln", path, &linked(path)],
        "symlink" => &["ln", "-s", TARGET, path],
        "read_link" => &["readlink", path],
        "list" => &["ls", path.rsplit_once('/').map_or(path, |(folder, _)| folder)],
        "read" => &["cat", path],
        "xattr" => &["python3", "-c", "import os, sys; os.setxattr(sys.argv[1], 'user.key', b'value')", path],
        "xattr_remove" => &["python3", "-c", "import os, sys; os.removexattr(sys.argv[1], 'user.key')", path],
        // What a process keeps open between calls ends with it: where it becomes another program, and where it ends without its
        // handlers.
        "exec" => &["perl", "-e", &format!("{APPENDS} exec {{'true'}} 'true' or die $!"), path, NEW],
        "leave" => &["perl", "-MPOSIX=_exit", "-e", &format!("{APPENDS} _exit(0)"), path, NEW],
        _ => panic!("unknown operation {operation}"),
    };
    words.iter().map(|word| word.to_string()).collect()
}

/// What lets a call fail, or counts all where nothing fails.
fn options(fault: Fault<'_>, log: &Path) -> Vec<String> {
    let mut options: Vec<String> = ["-f", "-qq", "-o"].map(str::to_string).to_vec();
    options.push(log.display().to_string());
    match fault {
        Some((call, error, k)) => {
            // Which file is closed, and whether it was written to.
            let with = if call == "close" { format!("{WRITES},close,unlink,unlinkat") } else { call.to_string() };
            options.extend(["-y".into(), "-e".into(), format!("trace={with}")]);
            options.extend(["-e".into(), format!("inject={call}:error={error}:when={k}")]);
        }
        None => options.extend(["-y", "-e", "trace=file,desc"].map(str::to_string)),
    }
    options
}

/// How a program of the system ended.
fn ended(status: std::process::ExitStatus) -> End {
    match status.code() {
        Some(0) => End::Success,
        // `timeout`, which kills it then.
        Some(124 | 137) => End::TimeOut,
        Some(PANIC) => End::Other(PANIC),
        Some(_) => End::Failed(ErrorKind::Io),
        None => End::Signal,
    }
}

/// The preload door: the program under `strace` from its start.
pub fn run_preloaded(
    thalweg: &str,
    words: &[String],
    mounts: &Path,
    fault: Fault<'_>,
    log: &Path,
) -> Outcome<(End, String)> {
    let told = Command::new(thalweg).args(["run", "--", "env"]).env("THALWEG_MOUNTS", mounts).output()?;
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    let mut command = Command::new("timeout");
    command.args(["-k", "1", &PATIENCE.as_secs().to_string(), "strace"]).args(options(fault, log));
    for line in told.lines().filter(|l| l.starts_with("LD_PRELOAD=") || l.starts_with("THALWEG_")) {
        command.args(["-E", line]);
    }
    let output = command.args(words).output()?;
    std::fs::write(printed(log), &output.stdout)?;
    Ok((ended(output.status), String::from_utf8_lossy(&output.stderr).into_owned()))
}

/// A program under `strace` from its start, so the loader's calls fail too.
pub fn run_command(
    words: &[String],
    mounts: Option<&Path>,
    out: &Path,
    fault: Fault<'_>,
    log: &Path,
) -> Outcome<(End, String)> {
    let mut command = Command::new("timeout");
    command.args(["-k", "1", &PATIENCE.as_secs().to_string(), "strace"]).args(options(fault, log)).args(words);
    let output = match mounts {
        Some(mounts) => command.env("THALWEG_MOUNTS", mounts).output()?,
        None => command.env_remove("THALWEG_MOUNTS").output()?,
    };
    std::fs::write(out, &output.stdout)?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let all = format!("{said}{}", String::from_utf8_lossy(&output.stdout));
    // Damage is not what a failed call tells of. The loader has words of its own.
    let number = fault.map_or("", |(_, error, _)| number_of(error));
    let mut named = vec![format!("os error {number}"), "error while loading shared libraries".into()];
    named.extend(match fault {
        // What has no room is put together in parts: an open for reading, which no kernel fails so, then meets what is gone.
        Some(("openat", "ENOSPC", _)) => Some("os error 2)".to_string()),
        // How a store is asked for its locks.
        Some(("fcntl", ..)) => Some("lacks holds".to_string()),
        _ => None,
    });
    Ok(match (ended(output.status), fault) {
        (End::Failed(_), Some(_)) if !named.iter().any(|words| all.contains(words.as_str())) => {
            (End::Other(output.status.code().unwrap_or_default()), format!("it fails for another reason: {said}"))
        }
        (end, _) => (end, said),
    })
}

/// As the system's texts name an error.
fn number_of(error: &str) -> &'static str {
    match error {
        "EIO" => "5)",
        "ENOSPC" => "28)",
        "ESTALE" => "116)",
        "EDQUOT" => "122)",
        _ => panic!("which number has {error}?"),
    }
}

/// A word of a program, `/faults/NAME` or `KEY=/faults/NAME`, with the name of the mount.
fn in_mount(word: &str, at: &Path) -> String {
    let path = word.find('/').unwrap_or(word.len());
    let (key, path) = word.split_at(path);
    match path.strip_prefix("/faults/") {
        Some(name) => format!("{key}{}/{name}", at.display()),
        None => word.into(),
    }
}

/// The FUSE door: `strace` is attached to the process behind the mount, then the program works there.
pub fn run_mounted(
    (thalweg, at): (&str, &Path),
    words: &[String],
    mounts: &Path,
    fault: Fault<'_>,
    log: &Path,
) -> Outcome<(End, String)> {
    std::fs::create_dir_all(at)?;
    let door = || -> Command {
        let mut command = Command::new(thalweg);
        command.env("THALWEG_MOUNTS", mounts).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    };
    let mut mount = door();
    let mut server =
        mount.args(["mount", "--foreground", "--path", "/faults"]).arg(at).stdout(Stdio::piped()).spawn()?;
    // It says so once it serves: what fails before that the command itself tells. Kept, as it may say more.
    let mut said = BufReader::new(server.stdout.take().ok_or("no output")?);
    if said.read_line(&mut String::new())? == 0 {
        server.wait()?;
        return Err("it is not mounted".into());
    }
    let pid = server.id().to_string();
    let mut strace = Command::new("strace");
    let mut strace = strace.args(options(fault, log)).args(["-p", &pid]).stderr(Stdio::piped()).spawn()?;
    let attached = wait_for_tracer(&pid, &mut strace);
    let words: Vec<String> = words.iter().map(|word| in_mount(word, at)).collect();
    let worked = Command::new("timeout").args(["-k", "1", &PATIENCE.as_secs().to_string()]).args(&words).output();
    let mut unmounted = door().arg("unmount").arg(at).output();
    let mut told = unmounted.as_ref().is_ok_and(|unmounted| !unmounted.status.success());
    if std::fs::read_to_string("/proc/mounts")?.contains(at.to_str().unwrap_or_default()) {
        // The fault met the question who serves it.
        unmounted = door().arg("unmount").arg(at).output();
        told |= unmounted.as_ref().is_ok_and(|unmounted| !unmounted.status.success());
    }
    let gone = wait(&mut server);
    let _ = wait(&mut strace);
    attached?;
    let (worked, unmounted) = (worked?, unmounted?);
    std::fs::write(printed(log), &worked.stdout)?;
    let mut said = String::from_utf8_lossy(&worked.stderr).into_owned();
    said += &String::from_utf8_lossy(&unmounted.stderr);
    if !unmounted.status.success() {
        // It says so, and the folder is free for the next.
        let _ = Command::new("umount").arg("-l").arg(at).stderr(Stdio::null()).status();
    }
    let worked = match worked.status.code() {
        // Of an output of ours: its ranks had different outcomes.
        Some(MIXED) if words.iter().any(|word| word == "bp") => End::Other(MIXED),
        _ => ended(worked.status),
    };
    Ok(match (worked, gone?) {
        // It ended with an error. Who unmounts must hear of it, as a process behind has nobody else to tell.
        (_, End::Other(FAILURE)) if !told => {
            (End::Other(FAILURE), format!("nobody is told why the server ended: {said}"))
        }
        (_, End::Other(FAILURE)) => (End::Failed(ErrorKind::Io), said),
        (_, end @ (End::Signal | End::TimeOut | End::Other(_))) => (end, format!("the server: {said}")),
        // What was accepted may be refused when the mount goes, aloud.
        (End::Success, _) if !unmounted.status.success() => (End::Failed(ErrorKind::Io), said),
        (end, _) => (end, said),
    })
}

/// Runs a worker; its system calls of the name that fails, or all on files, are in `log` afterwards.
pub fn run(arguments: &[&str], mounts: Option<&Path>, fault: Fault<'_>, log: &Path) -> Outcome<(End, String)> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env("THALWEG_MOUNTS", mounts.map_or("", |m| m.to_str().unwrap_or_default()));
    let mut worker = command.spawn()?;
    let mut line = String::new();
    BufReader::new(worker.stdout.take().ok_or("no output")?).read_line(&mut line)?;
    let pid = line.trim().strip_prefix("ready ").ok_or_else(|| format!("the worker says {line:?}"))?.to_string();
    let mut strace = Command::new("strace");
    strace.args(options(fault, log)).args(["-p", &pid]);
    let mut strace = strace.stderr(Stdio::piped()).spawn()?;
    wait_for_tracer(&pid, &mut strace)?;
    writeln!(worker.stdin.take().ok_or("no input")?)?;
    let end = wait(&mut worker)?;
    wait(&mut strace)?;
    let mut words = String::new();
    worker.stderr.take().ok_or("no errors")?.read_to_string(&mut words)?;
    Ok((end, words))
}

fn wait_for_tracer(pid: &str, strace: &mut Child) -> Outcome<()> {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if strace.try_wait()?.is_some() {
            let mut words = String::new();
            strace.stderr.take().ok_or("no errors")?.read_to_string(&mut words)?;
            return Err(format!("strace: {words}").into());
        }
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        if status.lines().any(|l| l.strip_prefix("TracerPid:").is_some_and(|p| p.trim() != "0")) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    strace.kill()?;
    Err(format!("strace has not attached after {} s", PATIENCE.as_secs()).into())
}

fn wait(child: &mut Child) -> Outcome<End> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(match status.code() {
                Some(0) => End::Success,
                Some(MIXED) => End::Other(MIXED),
                Some(PANIC) => End::Other(PANIC),
                Some(code) if code > 102 => End::Failed(ErrorKind::from_code((code - 102) as u8)),
                Some(code) => End::Other(code),
                None => End::Signal,
            });
        }
        if began.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            return Ok(End::TimeOut);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Calls that change a file through its descriptor.
pub const WRITES: &str = "write,pwrite64,pwritev,pwritev2,ftruncate";

/// The file below `folder` whose close failed after it was written to through this descriptor; `None` where it was emptied or written anew from its
/// beginning and closed afterwards, or removed.
pub fn lost_close(log: &Path, folder: &Path) -> Outcome<Option<String>> {
    let (mut written, mut closes) = (BTreeMap::new(), BTreeMap::new());
    let mut lost: Option<String> = None;
    for line in std::fs::read_to_string(log)?.lines() {
        let Some((thread, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        let file = call.split_once('(').and_then(|(name, rest)| {
            let (number, rest) = rest.split_once('<')?;
            Some((name, number.to_string(), rest.split_once('>')?.0.to_string()))
        });
        if let Some(path) = &lost {
            let anew = (call.starts_with("pwrite") || call.starts_with("ftruncate")) && call.contains(", 0) = ");
            let gone = call.starts_with("unlink") && call.contains(&format!("\"{path}\""));
            match &file {
                Some((name, number, of)) if of == path && (anew || *name == "close") => {
                    if *name != "close" {
                        written.insert(number.clone(), path.clone());
                    } else if written.remove(number).is_some_and(|of| of == *path) {
                        return Ok(None);
                    }
                }
                _ if gone => return Ok(None),
                _ => {}
            }
            continue;
        }
        // What was removed before its close has nothing to lose.
        if call.starts_with("unlink") && call.ends_with(" = 0") {
            written.retain(|_, path: &mut String| !call.contains(&format!("\"{path}\"")));
        }
        match file {
            Some(("close", number, path)) => {
                let path = written.remove(&number).filter(|known| *known == path);
                closes.insert(thread.to_string(), path);
            }
            Some((_, number, path)) if Path::new(&path).starts_with(folder) => drop(written.insert(number, path)),
            _ => {}
        }
        if line.ends_with("(INJECTED)") {
            lost = closes.remove(thread).flatten();
            if lost.is_none() {
                return Ok(None);
            }
        }
    }
    Ok(lost)
}

/// Of each call: how often each thread has made it, at most, and which of them concerned what lies below `folder`.
pub fn counts(log: &Path, folder: &Path) -> Outcome<BTreeMap<String, Made>> {
    let mut by_thread: BTreeMap<(String, String), u64> = BTreeMap::new();
    let mut most: BTreeMap<String, Made> = BTreeMap::new();
    let folder = format!("{}/", folder.display());
    for line in std::fs::read_to_string(log)?.lines() {
        let Some((thread, call)) = line.split_once(' ') else { continue };
        // `... resumed` has been counted where the call began.
        let Some((call, about)) = call.trim_start().split_once('(') else { continue };
        let k = by_thread.entry((thread.to_string(), call.to_string())).or_default();
        *k += 1;
        let made = most.entry(call.to_string()).or_default();
        made.most = made.most.max(*k);
        if about.contains(&folder) {
            made.on_files.insert(*k);
        }
    }
    Ok(most)
}
