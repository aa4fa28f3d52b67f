//! The burst buffer under SIGKILL: writers and drains are processes, killed at random moments; what was acknowledged is
//! there, once, bit for bit.
//!
//! The processes are this test program again, told by an environment variable what to be. A writer says what it is about to
//! do, does it, and says that it did.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, IoSlice, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use thalweg_conformance::scratch::Scratch;
use thalweg_store::wrap::Tiered;
use thalweg_store::wrap::tiered::{Drain, OURS, Pace, status};
use thalweg_store::{OpenWrite, Posix, Store, StoreExt};

const ROLE: &str = "THALWEG_TEST_TIERED";

fn open(folder: &Path) -> Tiered {
    let at = |name| Arc::new(Posix::at(folder.join(name)).unwrap());
    Tiered::new(at("fast"), at("slow")).unwrap()
}

/// What an object holds: a function of one number. Lengths from a few bytes to more than is copied at a time.
fn bytes_of(seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let most = if seed.is_multiple_of(17) { 6_000_000 } else { 60_000 };
    let mut bytes = vec![0; random.usize(1..most)];
    random.fill(&mut bytes);
    bytes
}

fn name_of(n: u64) -> String {
    if n.is_multiple_of(3) { format!("folder/{n}") } else { format!("{n}") }
}

/// Writes, replaces, extends, renames and removes a dozen names until it is killed.
fn write(folder: &Path, mut seed: u64) {
    let tiered = open(folder);
    tiered.make_folder("folder").unwrap();
    let say = |line: String| writeln!(std::io::stdout(), "\n{line}").and_then(|()| std::io::stdout().flush()).unwrap();
    let mut random = fastrand::Rng::with_seed(seed);
    loop {
        seed += 1;
        let (name, other) = (name_of(random.u64(0..12)), name_of(random.u64(0..12)));
        let there = tiered.exists(&name).unwrap();
        match random.u8(0..10) {
            0 if there => {
                say(format!("will remove {name}"));
                tiered.remove(&name).unwrap();
            }
            1 | 2 if there && name != other => {
                say(format!("will rename {name} {other}"));
                tiered.rename(&name, &other).unwrap();
            }
            3 | 4 if there => {
                say(format!("will extend {name} {seed}"));
                let object = tiered.open_write(&name, OpenWrite::Existing).unwrap();
                object.write_at(object.length().unwrap(), &[IoSlice::new(&bytes_of(seed))]).unwrap();
                object.sync().unwrap();
                object.close().unwrap();
            }
            _ => {
                say(format!("will put {name} {seed}"));
                let object = tiered.open_write(&name, OpenWrite::Replace).unwrap();
                for (n, run) in bytes_of(seed).chunks(50_000).enumerate() {
                    object.write_at(n as u64 * 50_000, &[IoSlice::new(run)]).unwrap();
                }
                object.close().unwrap();
            }
        }
        say("did".into());
    }
}

fn drain(folder: &Path) {
    let tiered = open(folder);
    let pace = Pace { streams: 2, pause: Duration::from_millis(1), ..Pace::default() };
    // The one that was killed may not be gone yet.
    let drain = loop {
        match Drain::new(&tiered, pace) {
            Ok(drain) => break drain,
            Err(e) if e.kind() == thalweg_types::ErrorKind::AlreadyExists => std::thread::yield_now(),
            Err(e) => panic!("{e}"),
        }
    };
    drain.run(&AtomicBool::new(false), |passed| assert!(passed.failed.is_empty(), "{:?}", passed.failed)).unwrap();
}

/// What the processes are: nothing in a run of the tests.
#[test]
fn process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let mut words = role.splitn(3, ' ');
    let (role, seed, folder) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
    match role {
        "write" => write(Path::new(folder), seed.parse().unwrap()),
        _ => drain(Path::new(folder)),
    }
}

fn start(role: &str, seed: u64, folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "process", "--nocapture", "--test-threads=1"])
        .env(ROLE, format!("{role} {seed} {}", folder.display()))
        .stdout(if role == "write" { Stdio::piped() } else { Stdio::null() })
        .spawn()
        .unwrap()
}

fn kill(child: &mut Child, what: &str) {
    assert!(child.try_wait().unwrap().is_none(), "the {what} ended by itself");
    child.kill().unwrap();
    child.wait().unwrap();
}

type Objects = BTreeMap<String, Vec<u8>>;

fn content(store: &dyn Store) -> Objects {
    let mut all = Objects::new();
    for folder in ["", "folder"] {
        let Ok(names) = store.list(folder) else { continue };
        for name in names.into_iter().filter(|name| name != "folder" && name != OURS) {
            let name = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            all.insert(name.clone(), store.read_all(&name).unwrap_or_else(|e| panic!("{name} is listed: {e}")));
        }
    }
    all
}

/// What the objects are after an operation, and what else may be there while it is under way.
fn after(model: &Objects, operation: &str) -> (Objects, impl Fn(&Objects) -> bool + use<>) {
    let mut next = model.clone();
    let words: Vec<String> = operation.split(' ').map(str::to_string).collect();
    let before = model.clone();
    match &words[..] {
        [_, what, name, seed] if what == "put" => drop(next.insert(name.clone(), bytes_of(seed.parse().unwrap()))),
        [_, what, name, seed] if what == "extend" => {
            next.get_mut(name).unwrap().extend(bytes_of(seed.parse().unwrap()));
        }
        [_, what, from, to] if what == "rename" => {
            let bytes = next.remove(from).unwrap();
            next.insert(to.clone(), bytes);
        }
        [_, what, name] if what == "remove" => drop(next.remove(name)),
        words => panic!("{words:?}"),
    }
    let then = next.clone();
    let fits = move |seen: &Objects| {
        let (what, name) = (words[1].as_str(), &words[2]);
        let mut names: Vec<&String> = seen.keys().chain(before.keys()).chain(then.keys()).collect();
        names.dedup();
        names.into_iter().all(|n| {
            let (is, was, will) = (seen.get(n), before.get(n), then.get(n));
            is == was
                || (n == name || words.get(3) == Some(n)) && is == will
                || n == name && what == "put" && is.is_some_and(|is| will.is_some_and(|will| will.starts_with(is)))
                || n == name
                    && what == "extend"
                    && is.is_some_and(|is| {
                        was.is_some_and(|was| is.starts_with(was)) && will.is_some_and(|w| w.starts_with(is))
                    })
        }) && (what != "rename" || seen.contains_key(name) || seen.contains_key(&words[3]))
    };
    (next, fits)
}

/// - `seed`: where `KILL_SEED` says none.
fn kills(kills: u64, seed: u64) {
    let seed = std::env::var("KILL_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(seed);
    println!("KILL_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let scratch = Scratch::new();
    let folder = scratch.path();
    for name in ["fast", "slow"] {
        std::fs::create_dir(folder.join(name)).unwrap();
    }
    let (mut model, mut drain) = (Objects::new(), start("drain", 0, folder));
    for life in 0..kills {
        let mut writer = start("write", seed.wrapping_add(life << 20), folder);
        let lines = BufReader::new(writer.stdout.take().unwrap()).lines();
        let reading = std::thread::spawn(move || {
            let lines = lines.map_while(Result::ok);
            lines.filter(|line| line.starts_with("will ") || line == "did").collect::<Vec<_>>()
        });
        // The drain may be killed while the writer goes on.
        for _ in 0..random.u8(0..3) {
            std::thread::sleep(Duration::from_millis(random.u64(1..40)));
            kill(&mut drain, "drain");
            drain = start("drain", 0, folder);
        }
        std::thread::sleep(Duration::from_millis(random.u64(10..120)));
        kill(&mut writer, "writer");
        let lines = reading.join().unwrap();
        let mut under_way = None;
        for line in &lines {
            match line.as_str() {
                "did" => model = under_way.take().map(|operation: &String| after(&model, operation).0).unwrap(),
                _ => under_way = Some(line),
            }
        }
        // The drain goes on meanwhile: readers see one store.
        let seen = content(&open(folder));
        let fits = match under_way {
            None => seen == model,
            Some(operation) => after(&model, operation).1(&seen),
        };
        if !fits {
            let short = |objects: &Objects| objects.iter().map(|(n, b)| (n.clone(), b.len())).collect::<Vec<_>>();
            let (is, was) = (short(&seen), short(&model));
            panic!("kill {life} (KILL_SEED={seed}), under way {under_way:?}:\n is {is:?}\n was {was:?}");
        }
        model = seen;
    }
    kill(&mut drain, "drain");
    let tiered = open(folder);
    let moved = status(&tiered).unwrap().objects;
    // How many depends on how fast the machine is.
    println!("{moved} objects were moved by drains that lived long enough to say so");
    let last = Drain::new(&tiered, Pace { pause: Duration::from_millis(1), ..Pace::default() }).unwrap();
    while last.pass(&AtomicBool::new(false)).unwrap().objects > 0 {}
    assert!(content(&tiered) == model, "draining the rest changes nothing");
    assert!(content(&**tiered.canonical()) == model, "everything is behind, once");
    assert!(content(&**tiered.shadow()).is_empty());
    let mut left = tiered.canonical().list(OURS).unwrap();
    left.retain(|name| !["at", "shadows"].contains(&name.as_str()));
    assert_eq!(left, [""; 0], "no copy is left over");
    let pointers = tiered.pointers();
    pointers.each(pointers.us.number, &mut |name| panic!("a pointer to {name} is left over")).unwrap();
}

#[test]
fn twenty_kills_lose_nothing_and_double_nothing() {
    kills(20, 1);
}

#[test]
#[ignore = "long"]
fn two_hundred_and_fifty_kills_lose_nothing_and_double_nothing() {
    kills(250, fastrand::u64(..1 << 40));
}
