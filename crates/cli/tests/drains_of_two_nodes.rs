//! Two nodes with a fast store each before one slow store, killed again and again: programs that write files of both nodes'
//! and of their own, and the drains that their closes start. What was closed or synced reaches the slow store, once, bit for bit.
//!
//! A node is its fast store: the programs of each have a mount table of their own. They are this test program again, told by
//! environment variables what to write.

mod support;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, IoSlice, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::{command, run};
use thalweg_conformance::scratch::Scratch;
use thalweg_io::mounts;
use thalweg_layout::{Layout, OpenWrite, WriterId};

const WHAT: &str = "DRAIN_TEST_NODE";
const PREFIX: &str = "/two/nodes";
const NODES: u64 = 2;
/// Bytes of a piece of the file that both nodes write.
const PIECE: usize = 30_000;
/// For hangs alone.
const LONG: Duration = Duration::from_secs(120);

struct Machine {
    scratch: Scratch,
}

impl Machine {
    fn new() -> Machine {
        let scratch = Scratch::new();
        std::fs::create_dir(scratch.join("slow")).unwrap();
        let machine = Machine { scratch };
        let slow = format!("posix:{}", machine.scratch.join("slow").display());
        for node in 0..NODES {
            std::fs::create_dir(machine.scratch.join(format!("fast{node}"))).unwrap();
            machine.table(&format!("{node}"), &machine.url(node));
        }
        machine.table("slow", &slow);
        machine
    }

    fn table(&self, name: &str, url: &str) {
        let table = format!("[[mount]]\npath = \"{PREFIX}\"\nlayout = \"container\"\nstore = \"{url}\"\n");
        std::fs::write(self.mounts(name), table).unwrap();
    }

    fn mounts(&self, name: &str) -> PathBuf {
        self.scratch.join(format!("{name}.toml"))
    }

    fn url(&self, node: u64) -> String {
        let at = |name: &str| self.scratch.join(name).display().to_string();
        format!("tiered:posix:{}=>posix:{}", at(&format!("fast{node}")), at("slow"))
    }

    /// A program of this node that writes pieces from this one on, until it is killed.
    fn program(&self, node: u64, first: u64) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "program", "--nocapture"])
            .env(WHAT, format!("{node} {first}"))
            .env("THALWEG_MOUNTS", self.mounts(&node.to_string()))
            .env("THALWEG_COMMAND", command().get_program())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Processes that drain this node's fast store.
    fn drains(&self, node: u64) -> Vec<i32> {
        let url = self.url(node);
        let ours = |path: &Path| {
            let line = std::fs::read(path.join("cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).into_owned();
            let yes = line.contains(&url) && line.contains("--behind") && line.contains("--idle");
            path.file_name()?.to_str()?.parse().ok().filter(|_| yes)
        };
        std::fs::read_dir("/proc").unwrap().filter_map(|entry| ours(&entry.ok()?.path())).collect()
    }

    /// Kills the drains of a node; how many there were.
    fn kill_drains(&self, node: u64) -> u64 {
        let drains = self.drains(node);
        for process in &drains {
            let process = rustix::process::Pid::from_raw(*process).unwrap();
            let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
        }
        drains.len() as u64
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        for node in 0..NODES {
            self.kill_drains(node);
        }
    }
}

/// What a node writes as its piece of this number; the own file of that number has the same bytes.
fn piece(node: u64, number: u64) -> Vec<u8> {
    let mut random = Random(node << 40 | number);
    (0..PIECE / 8).flat_map(|_| random.next().to_le_bytes()).collect()
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// No test but the programs that it starts.
#[test]
fn program() {
    let Ok(words) = std::env::var(WHAT) else { return };
    let (node, first) = words.split_once(' ').unwrap();
    let (node, first): (u64, u64) = (node.parse().unwrap(), first.parse().unwrap());
    let layout = mounts::of_process().unwrap();
    let say = |line: String| writeln!(std::io::stdout(), "\n{line}").and_then(|()| std::io::stdout().flush()).unwrap();
    let writer = WriterId(node as u32);
    for number in first.. {
        let shared = layout.open_write(&format!("{PREFIX}/shared"), OpenWrite::Any, writer).unwrap();
        shared.write_at((number * NODES + node) * PIECE as u64, &[IoSlice::new(&piece(node, number))]).unwrap();
        if number % 2 == 0 {
            shared.sync().unwrap();
            say(format!("shared {number}"));
        }
        shared.close().unwrap();
        say(format!("shared {number}"));
        let own = layout.open_write(&format!("{PREFIX}/own.{node}.{number}"), OpenWrite::New, writer).unwrap();
        own.write_at(0, &[IoSlice::new(&piece(node, number))]).unwrap();
        own.close().unwrap();
        say(format!("own {number}"));
    }
}

/// A program of a node, and what it said so far.
struct Node {
    number: u64,
    next: u64,
    running: Option<(Child, std::thread::JoinHandle<Vec<String>>)>,
    /// Numbers of the pieces and files that were acknowledged.
    done: BTreeMap<&'static str, Vec<u64>>,
}

impl Node {
    fn start(&mut self, machine: &Machine) {
        let mut child = machine.program(self.number, self.next);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        self.running = Some((child, std::thread::spawn(move || lines.map_while(Result::ok).collect())));
    }

    fn kill(&mut self) {
        let (mut child, lines) = self.running.take().unwrap();
        assert!(child.try_wait().unwrap().is_none(), "the writer of node {} ended by itself", self.number);
        child.kill().unwrap();
        child.wait().unwrap();
        for line in lines.join().unwrap() {
            for what in ["shared", "own"] {
                if let Some(number) = line.strip_prefix(what).and_then(|number| number.trim().parse().ok()) {
                    self.done.entry(what).or_default().push(number);
                    self.next = self.next.max(number + 1);
                }
            }
        }
        // What was under way when it was killed may be there or not: that number is not used again.
        self.next += 1;
    }
}

fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    since.as_nanos() as u64 % (1 << 40)
}

/// - `seed`: where `KILL_SEED` says none.
fn kills(kills: u64, seed: u64) {
    let seed = std::env::var("KILL_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(seed);
    println!("KILL_SEED={seed}");
    let mut random = Random(seed);
    let machine = Machine::new();
    let node = |number| Node { number, next: 0, running: None, done: BTreeMap::new() };
    let mut nodes: Vec<Node> = (0..NODES).map(node).collect();
    nodes.iter_mut().for_each(|node| node.start(&machine));
    let (mut killed, mut drains) = (0, 0);
    while killed + drains < kills || drains < kills / 5 {
        std::thread::sleep(Duration::from_millis(10 + random.below(190)));
        let node = random.below(NODES);
        if random.below(2) == 0 {
            drains += machine.kill_drains(node);
        } else {
            nodes[node as usize].kill();
            nodes[node as usize].start(&machine);
            killed += 1;
        }
        assert!(killed < 20 * kills, "no drain starts");
    }
    nodes.iter_mut().for_each(Node::kill);
    println!("{killed} writers and {drains} drains were killed");
    // One more close on each node starts what moves all that is left.
    for node in &mut nodes {
        node.start(&machine);
        std::thread::sleep(Duration::from_millis(300));
        let (child, _) = node.running.as_mut().unwrap();
        assert!(child.try_wait().unwrap().is_none());
        node.kill();
    }
    for number in 0..NODES {
        let start = Instant::now();
        loop {
            let told = run(&["drain", &machine.url(number), "--status", "--json"]);
            assert_eq!(told.code, 0, "{}", told.err);
            if left(&machine.scratch.join(format!("fast{number}"))).is_empty() {
                break;
            }
            assert!(start.elapsed() < LONG, "{:?}\n{}", left(&machine.scratch.join(format!("fast{number}"))), told.out);
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    // The slow store alone, as a machine sees it that has no fast one.
    let layout = mounts::of_files(&[machine.mounts("slow")]).unwrap();
    let shared = layout.open_read(&format!("{PREFIX}/shared")).unwrap();
    for node in &nodes {
        let of = |what| node.done.get(what).cloned().unwrap_or_default();
        let mut bytes = vec![0; PIECE];
        for number in of("shared") {
            let at = (number * NODES + node.number) * PIECE as u64;
            shared.read_exact_at(at, &mut bytes).unwrap_or_else(|e| panic!("piece {number}, KILL_SEED={seed}: {e}"));
            assert!(bytes == piece(node.number, number), "piece {number} of node {}, KILL_SEED={seed}", node.number);
        }
        for number in of("own") {
            let path = format!("{PREFIX}/own.{}.{number}", node.number);
            let own = layout.open_read(&path).unwrap_or_else(|e| panic!("{path}, KILL_SEED={seed}: {e}"));
            assert_eq!(own.length().unwrap(), PIECE as u64, "{path}");
            own.read_exact_at(0, &mut bytes).unwrap_or_else(|e| panic!("{path}, KILL_SEED={seed}: {e}"));
            assert!(bytes == piece(node.number, number), "{path}, KILL_SEED={seed}");
        }
        println!("node {}: {} pieces, {} files", node.number, of("shared").len(), of("own").len());
    }
    // They end by themselves when nothing is left.
    let start = Instant::now();
    while (0..NODES).any(|node| !machine.drains(node).is_empty()) {
        assert!(start.elapsed() < LONG, "a drain stays without end");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Objects of programs in a fast store.
fn left(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true if path.ends_with(".thalweg-drain") => {}
            true => all.append(&mut left(&path)),
            false => all.push(path),
        }
    }
    all
}

#[test]
fn fifty_kills_of_writers_and_drains_on_two_nodes_lose_nothing() {
    kills(50, 1);
}

#[test]
#[ignore = "long"]
fn five_hundred_kills_of_writers_and_drains_on_two_nodes_lose_nothing() {
    kills(500, now());
}
