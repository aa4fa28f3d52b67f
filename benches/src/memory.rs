//! Memory of this process, as the kernel counts it, and of the machine.

use std::fs;
use std::io::{self, Write};

fn field(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':'));
    let kib = line.and_then(|l| l.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Most bytes resident so far; 0 where the kernel does not say.
pub fn peak() -> u64 {
    field("VmHWM")
}

/// Bytes resident now; 0 where the kernel does not say.
pub fn resident() -> u64 {
    field("VmRSS")
}

/// Uses so many MiB of the machine's memory once, by a file that is removed. A virtual machine gives memory that nobody has used for a while back
/// to its host; whoever comes first gets it again, and pays up to eight times for it. Called before each measurement, all contenders
/// begin alike.
///
/// # Errors
/// Errors of the file.
pub fn warm(folder: &str, mib: u64) -> io::Result<()> {
    let path = format!("{folder}/warm");
    let mut file = fs::File::create(&path)?;
    let block = vec![1; 1 << 20];
    (0..mib).try_for_each(|_| file.write_all(&block))?;
    drop(file);
    fs::remove_file(path)
}
