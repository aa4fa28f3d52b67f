//! `thalweg run`: runs an unchanged program with access to the mounts.

use crate::arguments::{Mpi, Run as Arguments};
use crate::installed::{library_folders, library_name, own_folder};
use crate::outcome::{Failure, Outcome};
use crate::terminal::{complain, plain};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use thalweg_io::mounts::{self, draining};
use thalweg_types::{Error, ErrorKind};

/// The environment variable that names the library.
const VARIABLE: &str = "THALWEG_PRELOAD";
/// The environment variable that names the folder of the doors for MPI-IO.
const MPIIO_VARIABLE: &str = "THALWEG_MPIIO";

/// Replaces this process by the program, which receives signals and determines the exit status.
pub fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let (name, rest) = arguments.command.split_first().ok_or_else(|| Failure::Usage("which program?".into()))?;
    // Mistakes in the mount table are reported before the program runs.
    let mounts = mounts::of_process()?;
    if mounts.mounts().is_empty() {
        complain("thalweg run", "no mounts: the program runs without the library");
    }
    let library = library()?;
    let Some(program) = found(name) else {
        let what = format!("there is no program {}", plain(&name.to_string_lossy()));
        return Err(Failure::File(Error::new(ErrorKind::NotFound, what)));
    };
    if let Some(why) = deaf(&program, 4) {
        let what = format!("{} {why}: it would bypass the mounts and use plain files", program.display());
        if !arguments.anyway {
            let instead = "use the FUSE door (thalweg mount), or --anyway for a program that starts others";
            return Err(Failure::File(Error::new(ErrorKind::Unsupported, format!("{what}; {instead}"))));
        }
        complain("thalweg run", &what);
    }
    let mut preload = library.into_os_string();
    let mpi = match arguments.mpi {
        Mpi::Auto => mpi_of(&program, 4).or_else(mpi_of_launcher),
        Mpi::Openmpi => Some("openmpi"),
        Mpi::Mpich => Some("mpich"),
        Mpi::None => None,
    };
    match mpi.map(mpiio) {
        None => {}
        Some(Ok(door)) => preload = [preload, OsString::from(":"), door.into_os_string()].into_iter().collect(),
        // Its MPI would reach mounts as POSIX files, and lose bytes where it expects more of them than they promise.
        Some(Err(why)) if arguments.mpi == Mpi::Auto => {
            complain("thalweg run", &format!("{why}; MPI-IO goes to the MPI library (--mpi none says so)"));
        }
        Some(Err(why)) => return Err(Failure::File(Error::new(ErrorKind::NotFound, why))),
    }
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload = [preload, OsString::from(":"), others].into_iter().collect();
    }
    let mut command = Command::new(name);
    command.args(rest).env("LD_PRELOAD", preload);
    for variable in [mounts::VARIABLE, thalweg_remote::VARIABLE] {
        // The program may go to another folder and start others there.
        if let Some(named) = std::env::var_os(variable).filter(|named| !named.is_empty()) {
            command.env(variable, std::path::absolute(named)?);
        }
    }
    // A burst buffer's drain, which a close in the program may start, is this command.
    if std::env::var_os(draining::COMMAND).is_none_or(|named| named.is_empty()) {
        command.env(draining::COMMAND, std::env::current_exe()?);
    }
    let failure = command.exec();
    Err(Failure::File(Error::io("cannot run", failure).in_object(program.display().to_string())))
}

/// The library: named by the variable, beside this command, or in the installation.
fn library() -> Result<PathBuf, Failure> {
    if let Some(named) = std::env::var_os(VARIABLE).filter(|named| !named.is_empty()) {
        return Ok(PathBuf::from(named));
    }
    let installed = library_folders()?.into_iter().skip(1).map(|folder| folder.join("libthalweg-preload.so"));
    let known: Vec<PathBuf> = std::iter::once(own_folder()?.join("libthalweg_preload.so")).chain(installed).collect();
    let there = known.iter().find(|path| path.is_file()).and_then(|path| path.canonicalize().ok());
    there.ok_or_else(|| {
        let what = format!(
            "{} and {} do not exist; set {VARIABLE} to the path of the library",
            known[0].display(),
            known[known.len() - 1].display()
        );
        Failure::File(Error::new(ErrorKind::NotFound, what))
    })
}

/// The door for MPI-IO with this MPI: in the folder that the variable names, beside this command, or in the installation.
fn mpiio(mpi: &str) -> Result<PathBuf, String> {
    let name = library_name(&format!("thalweg-mpiio-{mpi}"));
    let named = std::env::var_os(MPIIO_VARIABLE).filter(|named| !named.is_empty()).map(PathBuf::from);
    let known = match named {
        Some(named) => vec![named],
        None => library_folders().map_err(|e| e.to_string())?,
    };
    let there = known.iter().find_map(|folder| folder.join(&name).canonicalize().ok());
    there.ok_or_else(|| {
        let folders: Vec<String> = known.iter().map(|folder| folder.display().to_string()).collect();
        format!("there is no {name} in {}; {MPIIO_VARIABLE} names its folder", folders.join(" and "))
    })
}

/// The MPI that a program is linked with: by the names of libraries in it. `None` for a program without MPI, or one that loads it later
/// (Python).
fn mpi_of(program: &Path, deep: u32) -> Option<&'static str> {
    const MOST: u64 = 64 << 20;
    let mut bytes = Vec::new();
    File::open(program).ok()?.take(MOST).read_to_end(&mut bytes).ok()?;
    if let Some(line) = bytes.strip_prefix(b"#!") {
        let line = line.split(|byte| *byte == b'\n').next()?;
        let interpreter = std::str::from_utf8(line).ok()?.split_whitespace().next()?;
        return mpi_of(Path::new(interpreter), deep.checked_sub(1)?);
    }
    let has = |name: &str| memchr::memmem::find(&bytes, name.as_bytes()).is_some();
    // MPICH calls its library libmpi.so.12, Debian libmpich.so.12; Open MPI's have higher numbers.
    if has("\0libmpich.so.") || has("\0libmpi.so.12\0") {
        return Some("mpich");
    }
    has("\0libmpi.so.").then_some("openmpi")
}

/// The MPI whose launcher started this process.
fn mpi_of_launcher() -> Option<&'static str> {
    let has = |name: &str| std::env::var_os(name).is_some();
    if has("OMPI_COMM_WORLD_SIZE") {
        return Some("openmpi");
    }
    (has("MPI_LOCALNRANKS") && has("PMI_SIZE")).then_some("mpich")
}

/// The program that the system would run.
fn found(name: &OsStr) -> Option<PathBuf> {
    if name.as_encoded_bytes().contains(&b'/') {
        return Some(PathBuf::from(name)).filter(|path| path.exists());
    }
    let runs =
        |path: &PathBuf| path.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0);
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(name)).find(runs)
}

/// Why a program would not load the library; `None` if it would, or if that is unknown.
///
/// - `deep`: interpreters of interpreters that are followed.
fn deaf(program: &Path, deep: u32) -> Option<String> {
    let mut file = File::open(program).ok()?;
    if file.metadata().ok()?.permissions().mode() & 0o6000 != 0 {
        return Some(
            "changes its user (set-user-ID or set-group-ID), so that the system does not load the library".into(),
        );
    }
    let mut start = [0; 256];
    let got = file.read(&mut start).ok()?;
    if let Some(line) = start[..got].strip_prefix(b"#!") {
        let line = line.split(|byte| *byte == b'\n').next()?;
        let interpreter = std::str::from_utf8(line).ok()?.split_whitespace().next()?;
        let why = deaf(Path::new(interpreter), deep.checked_sub(1)?)?;
        return Some(format!("is run by {interpreter}, which {why}"));
    }
    match elf(&mut file) {
        Ok(Some(Elf { go: true, .. })) => Some("is written in Go, which makes its system calls itself".into()),
        Ok(Some(Elf { interpreter: false, .. })) => Some("is linked statically".into()),
        _ => None,
    }
}

struct Elf {
    /// Whether a loader runs first.
    interpreter: bool,
    go: bool,
}

/// Reads the headers of a 64-bit program; `None` for any other file.
fn elf(file: &mut File) -> io::Result<Option<Elf>> {
    const LOADER: u32 = 3;
    const MOST: usize = 1 << 20;
    let mut read = |at: u64, bytes: usize| -> io::Result<Vec<u8>> {
        let mut out = vec![0; bytes.min(MOST)];
        file.seek(SeekFrom::Start(at))?;
        file.read_exact(&mut out)?;
        Ok(out)
    };
    let head = read(0, 64)?;
    if !head.starts_with(b"\x7fELF\x02") {
        return Ok(None);
    }
    let little = head[5] == 1;
    let number = |bytes: &[u8], at: usize, length: usize| -> u64 {
        let bytes = bytes.get(at..at + length).unwrap_or_default();
        let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        if little { bytes.iter().rev().fold(0, add) } else { bytes.iter().fold(0, add) }
    };
    let (programs, sections) = (number(&head, 32, 8), number(&head, 40, 8));
    let (program, programs_count) = (number(&head, 54, 2) as usize, number(&head, 56, 2) as usize);
    let (section, sections_count) = (number(&head, 58, 2) as usize, number(&head, 60, 2) as usize);
    let table = read(programs, program * programs_count)?;
    let interpreter = table.chunks(program.max(1)).any(|entry| number(entry, 0, 4) == u64::from(LOADER));
    let mut go = false;
    if sections != 0 && section >= 64 {
        let table = read(sections, section * sections_count)?;
        let names = table.chunks(section).nth(number(&head, 62, 2) as usize).unwrap_or_default();
        let names = read(number(names, 24, 8), number(names, 32, 8) as usize).unwrap_or_default();
        go = table.chunks(section).any(|entry| {
            names.get(number(entry, 0, 4) as usize..).is_some_and(|name| name.starts_with(b".go.buildinfo\0"))
        });
    }
    Ok(Some(Elf { interpreter, go }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_would_not_hear_of_the_library_are_known() {
        let folder = tempfile::tempdir().unwrap();
        let own = std::env::current_exe().unwrap();
        assert_eq!(deaf(&own, 4), None);
        let bytes = std::fs::read(&own).unwrap();
        let put = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        // The same, its loader's entry made one of no meaning.
        let mut without = bytes.clone();
        let table = u64::from_le_bytes(bytes[32..40].try_into().unwrap()) as usize;
        for entry in 0..u16::from_le_bytes(bytes[56..58].try_into().unwrap()) as usize {
            let at = table + entry * 56;
            if without[at..at + 4] == 3u32.to_le_bytes() {
                without[at..at + 4].copy_from_slice(&0u32.to_le_bytes());
            }
        }
        let still = put("static", &without);
        assert!(deaf(&still, 4).unwrap().contains("statically"));
        let script = put("script", format!("#!{} -x\n", still.display()).as_bytes());
        assert!(deaf(&script, 4).unwrap().contains("is run by"));
        assert_eq!(deaf(&put("script", format!("#!{}\n", own.display()).as_bytes()), 4), None);
        for torn in [&bytes[..30], &bytes[..64], b"", b"#!"] {
            assert_eq!(deaf(&put("torn", torn), 4), None);
        }
        // A section gets the name of Go's. Section names are at the end of the file, after the text of this test.
        let at = bytes.windows(14).rposition(|name| name == b".note.ABI-tag\0").expect("the system's linker names it");
        let mut go = bytes.clone();
        go[at..at + 14].copy_from_slice(b".go.buildinfo\0");
        assert!(deaf(&put("go", &go), 4).unwrap().contains("Go"));
    }
}
