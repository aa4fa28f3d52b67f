//! Processes of this machine that have a file open for writing, from `/proc`: finds programs that take no lease.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The lowest PID of the processes that have the file at `path` open for writing. Sees only processes whose descriptors this user may
/// read; `None` if there is none, or no `/proc`.
///
/// A program that is being started has the files of its parent open for a moment: a process counts if it still has the file open a
/// little later.
pub fn of(path: &Path) -> Option<u32> {
    const LOOKS: u32 = 5;
    let mut found = now(path)?;
    for _ in 1..LOOKS {
        std::thread::sleep(std::time::Duration::from_millis(20));
        found = now(path)?;
    }
    Some(found)
}

fn now(path: &Path) -> Option<u32> {
    let about = std::fs::metadata(path).ok()?;
    let file = (about.dev(), about.ino());
    let processes = std::fs::read_dir("/proc").ok()?;
    let pids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| has_open(*pid, file)).min()
}

/// - `file`: device and inode.
fn has_open(pid: u32, file: (u64, u64)) -> bool {
    // The process has ended, or is another user's.
    let Ok(descriptors) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    descriptors.flatten().any(|descriptor| {
        let Ok(about) = std::fs::metadata(descriptor.path()) else { return false };
        let number = descriptor.file_name();
        (about.dev(), about.ino()) == file
            && std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{}", number.to_string_lossy()))
                .is_ok_and(|text| is_to_write(&text))
    })
}

/// Whether a descriptor is open for writing: the last two bits of the octal `flags:` are the access mode, 0 for read-only.
fn is_to_write(fdinfo: &str) -> bool {
    let flags = fdinfo.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).is_some_and(|flags| flags & 3 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_descriptor_that_is_open_to_write_is_found_and_one_to_read_is_not() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_path_buf();
        assert_eq!(of(&path), Some(std::process::id()));
        let kept = file.into_temp_path();
        let reading = File::open(&kept).unwrap();
        assert_eq!(of(&path), None);
        let adding = File::options().append(true).open(&kept).unwrap();
        assert_eq!(of(&path), Some(std::process::id()));
        drop((reading, adding));
        assert_eq!(of(&path), None);
        assert_eq!(of(Path::new("/proc/none")), None);
    }
}
