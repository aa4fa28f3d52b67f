//! What was measured on.

use std::fs;

fn first_value(path: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|l| l.starts_with(key))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

/// The model of the processor.
pub fn processor() -> String {
    first_value("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.into())
}

/// Processor, cores, memory, kernel, and the file system the bench writes to, in one line.
pub fn describe(folder: &str) -> String {
    let processor = processor();
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let memory = first_value("/proc/meminfo", "MemTotal")
        .and_then(|m| m.split(' ').next()?.parse::<f64>().ok())
        .map_or(String::new(), |kib| format!(", {:.0} GiB", kib / 1048576.0));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let kernel = kernel.trim().split(['-', '+']).next().unwrap_or_default().to_string();
    format!("{processor}, {cores} cores{memory}, Linux {kernel}, {}", file_system(folder))
}

/// Programs that run or want to, on average of the last minute; NaN where the kernel does not say.
pub fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(f64::NAN)
}

/// The type of the file system a folder lies on.
fn file_system(folder: &str) -> String {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let of = |line: &str| {
        let mut words = line.split(' ').skip(1);
        let (place, kind) = (words.next()?.to_string(), words.next()?.to_string());
        let inside = place == "/" || folder == place || folder.starts_with(&format!("{place}/"));
        inside.then_some((place.len(), kind))
    };
    mounts.lines().filter_map(of).max_by_key(|(length, _)| *length).map_or("unknown".into(), |(_, kind)| kind)
}
