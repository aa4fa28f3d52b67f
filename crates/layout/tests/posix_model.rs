//! Every layout treats names and bytes like a model of POSIX in memory, with several writers.

use std::any::Any;
use std::sync::Arc;
use thalweg_conformance::layout::check_short_file;
use thalweg_conformance::layout::model::{PROCESSES, PosixRules, check};
use thalweg_conformance::scratch::Scratch;
use thalweg_layout::container::{Options, index::Module};
use thalweg_layout::small_file::Settings;
use thalweg_layout::write_behind::WriteBehind;
use thalweg_layout::{Container, Direct, Flat, Layout, SmallFile};
use thalweg_store::wrap::{Sequential, Tiered};
use thalweg_store::{Memory, Posix, Store};

type Stores = Vec<Arc<dyn Store>>;
type Processes = (Vec<Arc<dyn Layout>>, Box<dyn Any>);

/// New stores for each world, as each process opens them, and the folder that they lie in.
struct World {
    scratch: Scratch,
    open: Box<dyn Fn(&Scratch) -> Stores>,
}

fn worlds<L: Layout + 'static>(world: impl Fn() -> World, layout: impl Fn(Stores) -> L) -> impl Fn() -> Processes {
    move || {
        let World { scratch, open } = world();
        let processes = (0..PROCESSES).map(|_| Arc::new(layout(open(&scratch))) as Arc<dyn Layout>).collect();
        (processes, Box::new(scratch))
    }
}

fn memory(count: usize) -> World {
    let all: Stores = (0..count).map(|_| Arc::new(Memory::new()) as Arc<dyn Store>).collect();
    World { scratch: Scratch::new(), open: Box::new(move |_| all.clone()) }
}

fn one(store: impl Store + 'static) -> World {
    let store: Arc<dyn Store> = Arc::new(store);
    World { scratch: Scratch::new(), open: Box::new(move |_| vec![store.clone()]) }
}

fn folders(count: usize) -> World {
    let scratch = Scratch::new();
    (0..count).for_each(|k| std::fs::create_dir(scratch.join(k.to_string())).unwrap());
    let at = |scratch: &Scratch, k: usize| Arc::new(Posix::at(scratch.join(k.to_string())).unwrap()) as Arc<dyn Store>;
    World { scratch, open: Box::new(move |scratch| (0..count).map(|k| at(scratch, k)).collect()) }
}

fn tiered() -> World {
    let World { scratch, open } = folders(2);
    let join = move |scratch: &Scratch| {
        let mut both = open(scratch);
        let canonical = both.pop().unwrap();
        vec![Arc::new(Tiered::new(both.pop().unwrap(), canonical).unwrap()) as Arc<dyn Store>]
    };
    World { scratch, open: Box::new(join) }
}

fn direct(stores: Stores) -> Direct {
    Direct::new(stores.into_iter().next().unwrap()).unwrap()
}

/// All processes use one, as clients of a server do.
fn behind(limit: u64, below: impl Fn(Stores) -> Arc<dyn Layout>) -> impl Fn() -> Processes {
    move || {
        let World { scratch, open } = folders(1);
        let behind = WriteBehind::new(below(open(&scratch)), limit).unwrap();
        let processes = (0..PROCESSES).map(|_| Arc::new(behind.clone()) as Arc<dyn Layout>).collect();
        (processes, Box::new(scratch))
    }
}

fn flat(stores: Stores) -> Flat {
    Flat::new(stores).unwrap()
}

fn container(module: Module, buffer: usize) -> impl Fn(Stores) -> Container {
    container_of(module, buffer, None)
}

/// As [`container`], with every data log in an object of its own.
fn container_in_logs(module: Module, buffer: usize) -> impl Fn(Stores) -> Container {
    container_of(module, buffer, Some(0))
}

fn container_of(module: Module, buffer: usize, inline: Option<usize>) -> impl Fn(Stores) -> Container {
    move |stores| {
        let options = Options { module, buffer, inline, host: "host".into(), ..Options::default() };
        Container::new(stores, options).unwrap()
    }
}

fn small(settings: Settings) -> impl Fn(Stores) -> SmallFile {
    move |stores| SmallFile::new(stores.into_iter().next().unwrap(), settings).unwrap()
}

/// On stores whose failures have no numbers, and whose folders no times.
const UNNUMBERED: PosixRules = PosixRules { numbers: false, folder_times: false, ..PosixRules::ALL };
/// Over several stores a rename copies.
const SPREAD: PosixRules = PosixRules { follows_renames: false, ..PosixRules::ALL };
/// The last to close wins as a whole.
const WHOLE: PosixRules = PosixRules { shared: false, folder_times: false, ..PosixRules::ALL };

/// - `seed`: where `MODEL_SEED` says none.
fn all(operations: usize, seed: u64) {
    let seed = std::env::var("MODEL_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(seed);
    println!("MODEL_SEED={seed}");
    let only = std::env::var("MODEL_ONLY").unwrap_or_default();
    let mut differences = Vec::new();
    let mut run = |name: &str, rules: PosixRules, make: &dyn Fn() -> Processes| {
        if name.contains(&only) {
            let started = std::time::Instant::now();
            if let Err(why) = check(rules, seed, operations, make) {
                differences.push(format!("{name}: {why}"));
            }
            println!("{name}: {operations} operations, {:?}", started.elapsed());
        }
    };
    run("direct over posix", PosixRules::ALL, &worlds(|| folders(1), direct));
    run("direct over memory", UNNUMBERED, &worlds(|| memory(1), direct));
    run("write-behind over direct", PosixRules::ALL, &behind(3000, |stores| Arc::new(direct(stores))));
    let below = |stores| Arc::new(container(Module::Flat, 700)(stores)) as Arc<dyn Layout>;
    run("write-behind over container", PosixRules::ALL, &behind(1 << 20, below));
    run("flat over posix", PosixRules::ALL, &worlds(|| folders(1), flat));
    run("flat over three of posix", SPREAD, &worlds(|| folders(3), flat));
    run("flat over three of memory", PosixRules { follows_renames: false, ..UNNUMBERED }, &worlds(|| memory(3), flat));
    for (module, buffer) in [(Module::Flat, 700), (Module::Pattern, 4 << 20), (Module::Distributed, 0)] {
        let name = |over: &str| format!("container ({}) over {over}", module.name());
        run(&name("posix"), PosixRules::ALL, &worlds(|| folders(1), container(module, buffer)));
        run(&name("posix, in logs"), PosixRules::ALL, &worlds(|| folders(1), container_in_logs(module, buffer)));
        run(&name("memory"), UNNUMBERED, &worlds(|| memory(3), container(module, buffer)));
    }
    run("container over three of posix", PosixRules::ALL, &worlds(|| folders(3), container(Module::Pattern, 700)));
    run("container over tiered", UNNUMBERED, &worlds(tiered, container(Module::Pattern, 700)));
    run(
        "container over hdfs's manners",
        UNNUMBERED,
        &worlds(|| one(Sequential::like_hdfs()), container(Module::Pattern, 700)),
    );
    run(
        "container over s3's manners",
        UNNUMBERED,
        &worlds(|| one(Sequential::like_s3()), container(Module::Pattern, 700)),
    );
    run("small_file over posix", WHOLE, &worlds(|| folders(1), small(Settings::default())));
    let tight = Settings { small: 500, log: 1 << 16, ..Settings::default() };
    run("small_file that grows over posix", WHOLE, &worlds(|| folders(1), small(tight)));
    run(
        "small_file over memory",
        PosixRules { shared: false, ..UNNUMBERED },
        &worlds(|| memory(1), small(Settings::default())),
    );
    run(
        "small_file over s3's manners",
        PosixRules { prompt: false, ..UNNUMBERED },
        &worlds(|| one(Sequential::like_s3()), small(Settings::default())),
    );
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
}

/// Short files of the worlds over POSIX: inline over one store, unless the option excludes it.
#[test]
fn worlds_of_containers_have_both_forms_of_short_files() {
    let over = |count: usize, in_log: bool, layout: &dyn Fn(Stores) -> Container| {
        let World { scratch, open } = folders(count);
        check_short_file(&layout(open(&scratch)), scratch.path(), in_log);
    };
    for (module, buffer) in [(Module::Flat, 700), (Module::Pattern, 4 << 20), (Module::Distributed, 0)] {
        // Inline data logs are held in the buffer: without one there are none.
        over(1, buffer == 0, &container(module, buffer));
        over(1, true, &container_in_logs(module, buffer));
        over(3, true, &container(module, buffer));
    }
}

#[test]
fn every_layout_agrees_with_a_model_of_posix() {
    all(800, 1);
}

#[test]
#[ignore = "long"]
fn every_layout_agrees_with_a_model_of_posix_for_100_000_operations() {
    all(100_000, fastrand::u64(..1 << 40));
}
