//! Bench: layouts on stores: N to 1 at several access units, index modules with ten million records, a million small files, doors
//! beside the bare filesystem.
//!
//! `files.c`, built once on `thalweg_file_` calls and once on the system's, does the writing and reading; this one describes the
//! mounts, lets the programs run in turns and compares.

mod fresh;
mod fuse;
mod index;

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, ExitCode};
use thalweg_benches::Failure;
use thalweg_benches::contender::{Measurements, environment, folder, on_ranks};
use thalweg_benches::options::Options;
use thalweg_benches::report::{Report, Table, number};

const RANKS: u32 = 4;
/// Measures waiting times of users at a folder, and nothing else.
const WAITS: &str = "--waits";
/// Measures N to 1 on HDFS, and nothing else.
const FAR: &str = "--far";
/// Access units, in bytes.
const UNITS: [(&str, u64); 3] = [("47001 B", 47_001), ("48 KiB", 48 << 10), ("1 MiB", 1 << 20)];
/// Places where N write to 1: name, as it is shown, and layouts there.
const PLACES: [(&str, &str, &[&str]); 5] = [
    ("posix", "posix", &["bare", "direct", "container"]),
    ("locked", "slow-store, a lock costs 2 ms", &["direct", "container"]),
    ("names", "slow-store, a name costs 1 ms", &["direct", "container"]),
    ("hdfs1", "HDFS, replication 1", &["container"]),
    ("hdfs3", "HDFS, replication 3", &["container"]),
];
/// What writing N to 1 is made of: the name of the measurement, as it is shown. On HDFS with one copy, opening and closing take longer
/// than the writes between them, so that rates of the whole compare replications wrongly.
const PHASES: [(&str, &str); 3] =
    [("write-open", "all opens"), ("write-fill", "all writes"), ("write-close", "all closes")];
/// What serves a folder that a user waits for: name, as it is shown, files that are made, read, listed and removed there. All figures
/// are for each file; those that take longest get fewer.
const FOLDERS: [(&str, &str, u32); 5] = [
    ("bare", "bare filesystem", 20_000),
    ("bindfs", "bindfs", 20_000),
    ("wait-direct", "direct", 20_000),
    ("wait-container", "container", 5_000),
    ("wait-small_file", "small_file", 5_000),
];
/// Ways to a file: name, as it is shown.
const DOORS: [(&str, &str); 4] =
    [("bare", "bare filesystem"), ("calls", "thalweg_file_"), ("preload", "preload"), ("fuse", "FUSE")];

struct Bench {
    folder: String,
    options: Options,
    hdfs: Option<String>,
    all: Measurements,
}

impl Bench {
    /// The mount table: a folder or address for each place and layout.
    fn mounts(&self) -> Result<(), Failure> {
        let mut table = String::new();
        let mut mount = |path: &str, layout: &str, store: &str, more: &str| {
            let _ =
                write!(table, "[[mount]]\npath = \"{path}\"\nlayout = \"{layout}\"\nstore = \"{store}\"\n{more}\n\n");
        };
        for (place, more) in [("posix", ""), ("locked", "slow = \"lock=2ms\""), ("names", "slow = \"names=1ms\"")] {
            for layout in ["direct", "container"] {
                let below = format!("{}/stores/{place}-{layout}", self.folder);
                std::fs::create_dir_all(&below)?;
                mount(&format!("/bench/{place}/{layout}"), layout, &format!("posix:{below}"), more);
            }
        }
        if let Some(hdfs) = &self.hdfs {
            for copies in [1, 3] {
                for (unit, _) in UNITS {
                    let unit = unit.replace(' ', "");
                    let counts = format!("counts = \"{}/counts/hdfs{copies}-{unit}\"", self.folder);
                    let store = format!("{hdfs}/bench{copies}-{unit}?replication={copies}");
                    mount(&format!("/bench/hdfs{copies}-{unit}/container"), "container", &store, &counts);
                }
            }
        }
        for (name, layout, more) in [
            ("flat", "flat", ""),
            ("small", "small_file", ""),
            ("far-small", "small_file", "slow = \"names=1ms\""),
            ("far-direct", "direct", "slow = \"names=1ms\""),
        ] {
            let below = format!("{}/stores/{name}", self.folder);
            std::fs::create_dir_all(&below)?;
            mount(&format!("/bench/{name}"), layout, &format!("posix:{below}"), more);
        }
        for (name, layout) in
            [("wait-direct", "direct"), ("wait-container", "container"), ("wait-small_file", "small_file")]
        {
            mount(&format!("/bench/{name}"), layout, &format!("posix:{}/below", self.fresh()), "");
        }
        // Where the programs look for it.
        Ok(std::fs::write(environment("THALWEG_MOUNTS")?, table)?)
    }

    fn program(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }

    /// N to 1, all places in turns.
    ///
    /// - `far_alone`: those on HDFS alone.
    fn strided(&mut self, far_alone: bool) -> Result<(), Failure> {
        let (rounds, far_rounds) = strided_rounds(self.options);
        for round in 0..rounds {
            for (place, _, layouts) in PLACES {
                let far = is_hdfs(place);
                if far && (self.hdfs.is_none() || round >= far_rounds) || far_alone && !far {
                    continue;
                }
                let mib = bytes_of(place, self.options);
                for (unit, bytes) in UNITS {
                    for layout in layouts {
                        let unit = unit.replace(' ', "");
                        let name = format!("{place}/{layout}/{unit}");
                        let (program, path) = match *layout {
                            "bare" => ("plain", format!("{}/stores/bare", self.folder)),
                            _ if far => ("calls", format!("/bench/{place}-{unit}/container/file")),
                            _ => ("calls", format!("/bench/{place}/{layout}/file")),
                        };
                        let count = ((mib << 20) / bytes).to_string();
                        let check = if round == 0 { "1" } else { "0" };
                        let mut command = on_ranks(RANKS, &self.program(program))?;
                        command.args(["strided", &name, &path, &bytes.to_string(), &count, check]);
                        self.all.run(&mut command)?;
                        if far {
                            let calls = self.counted(&format!("{place}-{unit}"))?;
                            self.all.add(&format!("{name}/calls"), calls);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// How many writes and other operations on what is written were counted; they are forgotten.
    fn counted(&self, mount: &str) -> Result<f64, Failure> {
        let folder = format!("{}/counts/{mount}", self.folder);
        let mut calls = 0.0;
        for entry in std::fs::read_dir(&folder)? {
            let text = std::fs::read_to_string(entry?.path())?;
            // Reading asks for each record; what is compared is writing.
            for line in text.lines() {
                if let Some((what @ ("OpenWrite" | "Write" | "Sync" | "Close" | "MakeFolder" | "Rename"), count)) =
                    line.split_once(' ')
                {
                    let count: f64 = count.parse().map_err(|e| format!("{what}: {e}"))?;
                    calls += count;
                }
            }
        }
        std::fs::remove_dir_all(&folder)?;
        Ok(calls)
    }

    /// A million small files, on the bare filesystem and packed.
    fn small(&mut self) -> Result<(), Failure> {
        let (rounds, count) = small_size(self.options);
        for round in 0..rounds {
            for turn in 0..2 {
                let (program, above, below) = match (round + turn) % 2 {
                    0 => ("calls", "/bench/small".to_string(), "small"),
                    _ => ("plain", format!("{}/stores/bare-small", self.folder), "bare-small"),
                };
                let below = format!("{}/stores/{below}", self.folder);
                std::fs::create_dir_all(&below)?;
                let (name, path) = (format!("small/{program}"), format!("{above}/{round}"));
                let mut command = Command::new(self.program(program));
                self.all.run(command.args(["small", &name, &path, &count.to_string(), "1000"]))?;
                std::fs::remove_dir_all(&below)?;
            }
        }
        Ok(())
    }

    /// A file of pieces of 1 MiB through each door, and small files through the doors on a slow store.
    fn doors(&mut self) -> Result<(), Failure> {
        let mount = format!("{}/mounted", self.folder);
        let thalweg = &format!("{}/bin/thalweg", environment("PREFIX")?);
        let mut fuse = Vec::new();
        for place in ["flat", "far-small", "far-direct"] {
            fuse.extend(fuse::Mounted::at(thalweg, &format!("/bench/{place}"), &format!("{mount}/{place}"))?);
        }
        let preload = Command::new(thalweg).args(["run", "--", "true"]).output().is_ok_and(|o| o.status.success());
        let rounds = self.options.size(7, 1);
        let (plain, calls) = (self.program("plain"), self.program("calls"));
        let (mib, count) = door_size(self.options);
        let (mib, count) = (mib.to_string(), count.to_string());
        for round in 0..rounds {
            for turn in 0..DOORS.len() {
                let (door, _) = DOORS[(round + turn) % DOORS.len()];
                let mounted = |place: &str, bare: &str| -> Option<(Command, String)> {
                    match door {
                        "bare" => Some((Command::new(&plain), bare.to_string())),
                        "calls" => Some((Command::new(&calls), format!("/bench/{place}"))),
                        "preload" if !preload => None,
                        "preload" => {
                            let mut command = Command::new(thalweg);
                            command.args(["run", "--", &plain]);
                            Some((command, format!("/bench/{place}")))
                        }
                        _ => (fuse.len() == 3).then(|| (Command::new(&plain), format!("{mount}/{place}"))),
                    }
                };
                let check = if round == 0 { "1" } else { "0" };
                if let Some((mut command, path)) = mounted("flat", &format!("{}/stores", self.folder)) {
                    let name = format!("stream/{door}");
                    self.all.run(command.args(["stream", &name, &format!("{path}/stream"), &mib, check]))?;
                }
                for layout in ["far-small", "far-direct"] {
                    // The bare filesystem is not slow.
                    if door == "bare" || round > 2 {
                        continue;
                    }
                    if let Some((mut command, path)) = mounted(layout, "") {
                        let name = format!("{layout}/{door}");
                        let path = format!("{path}/{door}{round}");
                        self.all.run(command.args(["small", &name, &path, &count, "1000"]))?;
                    }
                }
            }
        }
        fuse.into_iter().try_for_each(fuse::Mounted::unmount)
    }
}

impl Bench {
    /// Where the filesystem of a turn is.
    fn fresh(&self) -> String {
        format!("{}/fresh", self.folder)
    }

    /// What users wait for at a folder, through FUSE beside the bare filesystem and bindfs: small files, lists, one long file,
    /// a clone of a repository. Each turn has a filesystem of its own.
    fn waits(&mut self) -> Result<(), Failure> {
        let thalweg = &format!("{}/bin/thalweg", environment("PREFIX")?);
        let repository = format!("{}/repository", self.folder);
        let _ = std::fs::remove_dir_all(&repository);
        done(Command::new("git").args(["clone", "-q", "--no-hardlinks", "--bare", ".", &repository]))?;
        let began = std::time::Instant::now();
        let rounds = wait_rounds(self.options);
        for round in 0..rounds {
            for turn in 0..FOLDERS.len() {
                let (name, shown, _) = FOLDERS[(round + turn) % FOLDERS.len()];
                let fresh = fresh::Fresh::at(&self.fresh())?;
                self.all.add("wait/filesystem of its own", f64::from(u8::from(fresh.is_own())));
                fresh.warm(wait_mib(self.options))?;
                let below = format!("{}/below", self.fresh());
                std::fs::create_dir_all(&below)?;
                let folder = format!("{}/waiting/{name}", self.folder);
                std::fs::create_dir_all(&folder)?;
                match name {
                    "bare" => self.wait_at(name, &below, &repository)?,
                    "bindfs" => {
                        if done(Command::new("bindfs").args([&below, &folder])).is_err() {
                            // Its rows stay empty.
                            continue;
                        }
                        let outcome = self.wait_at(name, &folder, &repository);
                        done(Command::new("umount").arg(&folder))?;
                        outcome?;
                    }
                    _ => {
                        let Some(mounted) = fuse::Mounted::at(thalweg, &format!("/bench/{name}"), &folder)? else {
                            continue;
                        };
                        let outcome = self.wait_at(name, &folder, &repository);
                        mounted.unmount()?;
                        outcome?;
                    }
                }
                eprintln!("{:.0} s: round {} of {rounds}, {shown}", began.elapsed().as_secs_f64(), round + 1);
            }
        }
        Ok(std::fs::remove_dir_all(repository)?)
    }

    fn wait_at(&mut self, name: &str, folder: &str, repository: &str) -> Result<(), Failure> {
        let (files, mib) = (wait_files(name, self.options).to_string(), wait_mib(self.options).to_string());
        let mut command = Command::new(self.program("door"));
        self.all.run(command.args([&format!("wait/{name}"), folder, &files, &mib]))?;
        let clone = format!("{folder}/clone");
        let began = std::time::Instant::now();
        done(Command::new("git").args(["clone", "-q", repository, &clone]))?;
        self.all.add(&format!("wait/{name}/clone"), began.elapsed().as_secs_f64());
        Ok(std::fs::remove_dir_all(clone)?)
    }
}

/// Runs a command whose words nobody needs where it does well.
fn done(command: &mut Command) -> Result<(), Failure> {
    let output = command.output().map_err(|e| format!("cannot run {command:?}: {e}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr)).into()),
    }
}

/// Files that are made, read, listed and removed at a folder.
fn wait_files(name: &str, options: Options) -> u32 {
    let usual = FOLDERS.iter().find(|(known, ..)| *known == name).map_or(0, |(.., files)| *files);
    options.size(usual, usual / 40)
}

/// MiB of the long file there.
fn wait_mib(options: Options) -> u64 {
    options.size(600, 16)
}

fn wait_rounds(options: Options) -> usize {
    options.size(3, 1)
}

/// Rounds of N to 1, and those on HDFS: it takes long, and the others differ more from one round to the next.
fn strided_rounds(options: Options) -> (usize, usize) {
    options.size((7, 3), (1, 1))
}

fn is_hdfs(place: &str) -> bool {
    place.starts_with("hdfs")
}

/// MiB of each rank, N to 1; not at a multiple of the buffer, where heads of records would decide.
fn bytes_of(place: &str, options: Options) -> u64 {
    options.size(if is_hdfs(place) { 31 } else { 63 }, 3)
}

/// Rounds, and small files made in each.
fn small_size(options: Options) -> (usize, f64) {
    options.size((3, 200_000.0), (1, 5_000.0))
}

/// MiB through each door, small files through each door.
fn door_size(options: Options) -> (u64, u32) {
    options.size((512, 300), (32, 50))
}

fn main() -> Result<ExitCode, Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "--open") {
        index::open(&arguments[1..])?;
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.first().is_some_and(|first| first == "--open-together") {
        index::open_together(&arguments[1..])?;
        return Ok(ExitCode::SUCCESS);
    }
    let alone = |word: &str| arguments.iter().any(|argument| argument == word);
    let (waits_alone, far_alone) = (alone(WAITS), alone(FAR));
    let options = Options::from(arguments.into_iter().filter(|argument| ![WAITS, FAR].contains(&argument.as_str())))?;
    let folder = folder("layouts")?;
    for left in ["stores", "counts", "index"] {
        let left = format!("{folder}/{left}");
        if Path::new(&left).exists() {
            std::fs::remove_dir_all(left)?;
        }
    }
    let mut bench = Bench { folder, options, hdfs: std::env::var("TEST_HDFS").ok(), all: Measurements::default() };
    bench.mounts()?;
    if waits_alone {
        bench.waits()?;
        let mut report = Report::new("waits", about_waits(&bench.all, options), &bench.folder);
        report_waits(&mut report, &bench.all, options);
        return report.finish(&bench.all, options);
    }
    if far_alone {
        bench.strided(true)?;
        let about = format!(
            "N to 1 on HDFS: {RANKS} processes write records in turn into one file and read what another wrote."
        );
        let mut report = Report::new("far", about, &bench.folder);
        report_strided(&mut report, &bench.all, options, true);
        return report.finish(&bench.all, options);
    }
    let records = options.size(10_000_000, 100_000);
    let began = std::time::Instant::now();
    let measured = |what: &str| eprintln!("{:.0} s: {what} measured", began.elapsed().as_secs_f64());
    index::measure(&mut bench.all, &bench.folder.clone(), records, options.size(3, 1))?;
    measured("index modules");
    bench.strided(false)?;
    measured("N to 1");
    bench.small()?;
    measured("small files");
    bench.doors()?;
    measured("doors");
    bench.waits()?;
    measured("waiting times of users");
    let Bench { folder, all, .. } = bench;
    std::fs::remove_dir_all(format!("{folder}/stores"))?;
    report(&all, &folder, records, options)
}

/// What is measured of N to 1 under one name.
fn of(place: &str, layout: &str, unit: &str, what: &str) -> String {
    format!("{place}/{layout}/{}/{what}", unit.replace(' ', ""))
}

fn report(all: &Measurements, folder: &str, records: u64, options: Options) -> Result<ExitCode, Failure> {
    let (rounds, far_rounds) = strided_rounds(options);
    let about = format!(
        "N to 1: {RANKS} processes write records in turn into one file and read what another wrote, MB/s from before the first open until after \
         the last close, {rounds} rounds (HDFS {far_rounds}); caches are dropped before reading. \"A lock costs 2 ms\": a process that writes to an object which another \
         wrote last waits so long, as on parallel filesystems. Store calls: those of all processes while writing. Index: {records} records of \
         4 writers, {} bytes apart or at irregular distances, opened in a process of its own. Small files have 1000 bytes. Nobody calls fsync. {}",
        64,
        about_waits(all, options)
    );
    let mut report = Report::new("layouts", about, folder);
    report_strided(&mut report, all, options, false);

    let mut modules = Table::new([
        "index module, records",
        "open ms",
        "memory MiB",
        "peak MiB",
        "find us",
        "index logs MiB",
        "make s",
    ]);
    for case in index::CASES {
        let word = index::word(case);
        let cell = |what: &str, factor: f64| number(all.median(&format!("index/{word}/{what}")) * factor);
        let mib = 1.0 / 1048576.0;
        modules.row([
            word.replace('/', ", "),
            cell("open", 1e3),
            cell("memory", mib),
            cell("peak", mib),
            cell("find", 1e6),
            cell("logs", mib),
            cell("make", 1.0),
        ]);
    }
    report.table(modules);
    let mut together = Table::new([
        "opened by 4 ranks together",
        "open ms",
        "index of one rank MiB",
        "memory of all MiB",
        "peak of all MiB",
        "read together us",
    ]);
    for case in index::CASES {
        let word = index::word(case);
        let cell = |what: &str, factor: f64| number(all.median(&format!("together/{word}/{what}")) * factor);
        let mib = 1.0 / 1048576.0;
        together.row([
            word.replace('/', ", "),
            cell("open", 1e3),
            cell("held", mib),
            cell("memory", mib),
            cell("peak", mib),
            cell("find", 1e6),
        ]);
    }
    report.table(together);

    let each = |name: &str, count: f64| all.median(name) / count * 1e6;
    let (_, million) = small_size(options);
    let (mib, slow) = door_size(options);
    let mut small = Table::new(["small files made, us each", "bare filesystem", "thalweg_file_", "preload", "FUSE"]);
    let (packed, bare) = (each("small/calls/make", million), each("small/plain/make", million));
    small.row(["small_file".into(), "-".into(), number(packed), "-".into(), "-".into()]);
    small.row(["the filesystem below".into(), number(bare), "-".into(), "-".into(), "-".into()]);
    for (layout, shown) in [("far-small", "small_file, a name costs 1 ms"), ("far-direct", "direct, a name costs 1 ms")]
    {
        let through = |door: &str| number(each(&format!("{layout}/{door}/make"), slow as f64));
        small.row([shown.into(), "-".into(), through("calls"), through("preload"), through("fuse")]);
    }
    report.table(small);
    let mut doors = Table::new(["1 MiB pieces on flat", "write MB/s", "read MB/s"]);
    for (door, shown) in DOORS {
        let rate = |what: &str| number((mib << 20) as f64 * 1e-6 / all.median(&format!("stream/{door}/{what}")));
        doors.row([shown.to_string(), rate("write"), rate("read")]);
    }
    report.table(doors);
    report_waits(&mut report, all, options);
    targets(&mut report, all, (packed, bare), slow as f64);
    report.finish(all, options)
}

/// N to 1: rates, and of HDFS what the time went to.
fn report_strided(report: &mut Report, all: &Measurements, options: Options, far_alone: bool) {
    let heads = ["written, MB/s of the median"].into_iter().chain(UNITS.map(|(unit, _)| unit));
    let mut written = Table::with_heads(heads);
    let heads = ["read by another, MB/s of the median"].into_iter().chain(UNITS.map(|(unit, _)| unit));
    let mut read = Table::with_heads(heads);
    let mut calls = Table::with_heads(["store calls to write"].into_iter().chain(UNITS.map(|(unit, _)| unit)));
    let mut phases = Table::with_heads(["written on HDFS, s"].into_iter().chain(UNITS.map(|(unit, _)| unit)));
    for (place, shown, layouts) in PLACES.into_iter().filter(|(place, ..)| !far_alone || is_hdfs(place)) {
        let mib = bytes_of(place, options);
        for layout in layouts {
            let rate = |unit: &str, bytes: u64, what: &str| {
                let moved = f64::from(RANKS) * ((mib << 20) / bytes * bytes) as f64;
                number(moved * 1e-6 / all.median(&of(place, layout, unit, what)))
            };
            let head = || std::iter::once(format!("{shown}: {layout}"));
            written.row(head().chain(UNITS.map(|(unit, bytes)| rate(unit, bytes, "write"))));
            read.row(head().chain(UNITS.map(|(unit, bytes)| rate(unit, bytes, "read"))));
            if is_hdfs(place) {
                calls.row(head().chain(UNITS.map(|(unit, _)| number(all.median(&of(place, layout, unit, "calls"))))));
                for (what, phase) in PHASES {
                    let head = std::iter::once(format!("{shown}: {phase}"));
                    phases.row(head.chain(UNITS.map(|(unit, _)| number(all.median(&of(place, layout, unit, what))))));
                }
            }
        }
    }
    report.table(written);
    report.table(read);
    report.table(calls);
    report.table(phases);
}

fn report_waits(report: &mut Report, all: &Measurements, options: Options) {
    let mib = wait_mib(options);
    let heads = ["through FUSE, us for each file", "files", "create 1 KiB", "read 1 KiB", "unlink", "ls -l"];
    let heads = || heads.into_iter().chain(["git clone, s", "write and fsync, MB/s"]);
    let mut waits = Table::with_heads(heads());
    let mut ratios =
        Table::with_heads(["times as fast as the bare filesystem, as bindfs"].into_iter().chain(heads().skip(2)));
    for (name, shown, _) in FOLDERS {
        let took = |what: &str| all.median(&format!("wait/{name}/{what}"));
        let each = |what: &str| number(took(what) * 1e6);
        let written = (mib << 20) as f64 * 1e-6 / took("write");
        waits.row([
            shown.to_string(),
            wait_files(name, options).to_string(),
            each("create"),
            each("read"),
            each("unlink"),
            each("list"),
            number(took("clone")),
            number(written),
        ]);
        let beside = |what: &str| {
            let times = |other: &str| number(all.median(&format!("wait/{other}/{what}")) / took(what));
            format!("{}, {}", times("bare"), times("bindfs"))
        };
        let all = ["create", "read", "unlink", "list", "clone", "write"].map(beside);
        ratios.row(std::iter::once(shown.to_string()).chain(all));
    }
    report.table(waits);
    report.table(ratios);
    wait_targets(report, all);
}

/// How folders that users wait for were measured.
fn about_waits(all: &Measurements, options: Options) -> String {
    let own = all.find("wait/filesystem of its own").is_some_and(|_| all.median("wait/filesystem of its own") == 1.0);
    let place = match own {
        true => "each turn on an ext4 filesystem made new, in a file",
        false => {
            "all turns on one filesystem, as none could be made for each: files removed in earlier turns slow down later ones"
        }
    };
    format!(
        "Operations on a folder through FUSE, compared with the bare filesystem and bindfs, in turns, \
         {} rounds; {place}. The long file has {} MiB; as many bytes of memory were used before each turn.",
        wait_rounds(options),
        wait_mib(options)
    )
}

/// Beside what the same machine does in the same run: so that a slow one is no failure.
fn wait_targets(report: &mut Report, all: &Measurements) {
    // Folder, what is measured, beside which folder, how many times as fast at least.
    const WANTED: [(&str, &str, &str, f64); 12] = [
        ("wait-direct", "create", "bindfs", 1.0),
        ("wait-container", "create", "bindfs", 0.85),
        ("wait-small_file", "create", "bindfs", 1.0),
        ("wait-direct", "unlink", "bare", 0.093),
        ("wait-container", "unlink", "bare", 0.037),
        ("wait-direct", "read", "bindfs", 1.0),
        ("wait-container", "read", "bindfs", 0.55),
        ("wait-container", "clone", "bare", 0.17),
        ("wait-container", "write", "bare", 0.85),
        ("wait-direct", "write", "bare", 0.85),
        ("wait-direct", "list", "bare", 0.35),
        ("wait-container", "list", "bare", 0.175),
    ];
    for (name, what, beside, wanted) in WANTED {
        let took = |name: &str| all.median(&format!("wait/{name}/{what}"));
        let shown = |name: &str| FOLDERS.iter().find(|(known, ..)| *known == name).map_or("?", |(_, shown, _)| *shown);
        let text = format!("{what} through FUSE on {}, times as fast as {}", shown(name), shown(beside));
        report.at_least(text, wanted, took(beside) / took(name));
    }
}

fn targets(report: &mut Report, all: &Measurements, (packed, bare): (f64, f64), slow: f64) {
    for (place, shown, _) in PLACES.iter().filter(|(place, ..)| is_hdfs(place)) {
        let spread = |what: &str| {
            let medians = UNITS.map(|(unit, _)| all.median(&of(place, "container", unit, what)));
            medians.iter().copied().fold(f64::NAN, f64::max) / medians.iter().copied().fold(f64::NAN, f64::min)
        };
        // Nearly the same number of bytes at each unit.
        report.at_most(
            format!("{shown}: store calls, the unit with most beside the one with least"),
            1.01,
            spread("calls"),
        );
        report.at_least(
            format!("{shown}: slowest unit's write bandwidth beside the fastest's"),
            0.75,
            1.0 / spread("write"),
        );
    }
    for (unit, _) in UNITS {
        let of = |layout: &str| all.median(&of("locked", layout, unit, "write"));
        report.at_least(
            format!("locks cost, {unit}: container, times as fast as direct"),
            2.0,
            of("direct") / of("container"),
        );
    }
    report.at_most("pattern: ms to open strided records", 10.0, all.median("index/pattern/strided/open") * 1e3);
    report.at_least("small files through thalweg_file_, times as fast as the bare filesystem", 5.0, bare / packed);
    for (door, shown) in &DOORS[2..] {
        let of = |layout: &str| all.median(&format!("{layout}/{door}/make")) / slow;
        report.at_least(
            format!("small files, a name costs 1 ms: through {shown}, times as fast as direct"),
            5.0,
            of("far-direct") / of("far-small"),
        );
    }
    let beside = |door: &str, what: &str| {
        all.median(&format!("stream/bare/{what}")) / all.median(&format!("stream/{door}/{what}"))
    };
    report.at_least("FUSE, 1 MiB writes beside the bare filesystem", 0.8, beside("fuse", "write"));
    report.at_least("FUSE, 1 MiB reads beside the bare filesystem", 0.8, beside("fuse", "read"));
    report.at_least("preload, 1 MiB writes beside the bare filesystem", 0.9, beside("preload", "write"));
}
