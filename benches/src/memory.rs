//! What this process has taken, as the kernel counts it.

use std::fs;

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
