//! Every method that the registry lists keeps every promise of the suite, with each of its parameters that matter.

use std::sync::{Arc, LazyLock};
use std::time::Instant;
use thalweg_conformance::method::{self, MethodCase, cases};
use thalweg_conformance::round_trip::{in_folder, in_memory};
use thalweg_conformance::scratch::Scratch;
use thalweg_conformance::staging::StagingServer;
use thalweg_io::registry::{self, METHODS};
use thalweg_layout::Direct;
use thalweg_movement::method::{MethodKind, template};
use thalweg_store::Posix;

/// What newcomers copy.
static TEMPLATE: MethodKind = template::KIND;

/// The server of `STAGING`, which stores files under their own names.
static SERVER: LazyLock<StagingServer> = LazyLock::new(|| {
    let storage = Direct::new(Arc::new(Posix::at("/").unwrap())).unwrap();
    StagingServer::begin(Arc::new(storage), 16 << 20)
});

/// What a method cannot do without.
fn needed(method: &str) -> String {
    match method {
        "TRIGGER" => "command=true;log=no".into(),
        // What is checked lies in the folder after each session.
        "STAGING" => format!("partition={};promise=stored", SERVER.file()),
        _ => String::new(),
    }
}

/// Parameters that change who writes what where; each method runs without any, too.
const PARAMETERS: &[(&str, &[&str])] = &[
    ("POSIX", &["direct=1;index=each;index_ahead=0", "sync=yes;index_fan_in=2;index_ahead=0", "async=yes;in_flight=9"]),
    (
        "MPI",
        &[
            "direct=1000;index=each;index_fan_in=2;index_ahead=0",
            "spill_copy=512;sync=yes;index_ahead=0",
            "async=yes;in_flight=9",
        ],
    ),
    (
        "MPI_COLLECTIVE",
        &[
            "aggregators=1;stripe=700;buffer=8k",
            "aggregators=3;stripe=64;spill_copy=512;index_fan_in=2;index_ahead=0",
            "aggregators=64;stripe=1M",
            "async=yes",
        ],
    ),
    (
        "MPI_AGGREGATE",
        &[
            "pattern=simple;aggregators=2;chunk=300;index_ahead=0",
            "pattern=brigade",
            "pattern=brigade;aggregators=2;chunk=64;index_ahead=0",
            "aggregators=1;chunk=64k;index=each",
            "async=yes",
        ],
    ),
    (
        "MPI_SCHEDULED",
        &[
            "num_files=2;targets=1;writers_per_target=1;index_ahead=0",
            "num_files=1;spill_copy=512",
            "num_files=1000;targets=3;writers_per_target=0;index=each",
            "async=yes",
        ],
    ),
    (
        "ASYNC",
        &[
            "owners=1;write_stripe=700;fraction=300;stripe=64;buffer=1",
            "owners=64;owner_stripe=1000;write_stripe=512;spill_copy=512;index_fan_in=2;index_ahead=0",
            "async=no;owners=2;base=1;skip=1;stripe=100;index=each",
            "sync=yes;in_flight=9",
            "subfiles=2;owners=1;write_stripe=700;fraction=300;stripe=64;buffer=1",
            "async=no;subfiles=3;owners=2;base=1;skip=1;stripe=100;index=each;spill_copy=512;sync=yes",
            "subfiles=64;index_fan_in=2;index_ahead=0",
        ],
    ),
    ("STAGING", &["direct=1000;index=each;index_fan_in=2;index_ahead=0", "async=yes;in_flight=9"]),
    (
        "ADAPTIVE",
        &[
            "num_files=2;writers_per_target=2;chunk=8k;index_fan_in=2",
            "num_files=1;spill_copy=512;index=each",
            "num_files=1000;writers_per_target=3",
            "async=yes",
            // Every write is taken for stuck.
            "num_files=3;stuck=1;patience=0",
        ],
    ),
];

/// Every method as it comes, and `further` ones with their parameters.
fn setups(further: bool) -> Vec<MethodCase> {
    let mut setups = Vec::new();
    registry::add(&TEMPLATE).unwrap();
    // Files of other formats are read by their own tools: bindings/python/tests/test_hdf5_methods.py.
    let of_bp = |kind: &&MethodKind| registry::writes_bp(kind) || !registry::stores(kind);
    for kind in METHODS.iter().filter(of_bp).chain([&TEMPLATE]) {
        let name = kind.names[0];
        let (leaves_file, needed) = (registry::stores(kind), needed(name));
        let more = PARAMETERS.iter().find(|(n, _)| *n == name).map_or(&[][..], |(_, list)| list);
        let more = if further { more } else { &[] };
        let moves_groups = name == "ADAPTIVE";
        for parameters in [""].iter().chain(more) {
            let both =
                [needed.as_str(), parameters].into_iter().filter(|p| !p.is_empty()).collect::<Vec<_>>().join(";");
            setups.push(MethodCase { leaves_file, moves_groups, ..MethodCase::new(name, &both) });
        }
    }
    setups.retain(|setup| wanted(&setup.method));
    setups
}

/// `METHOD=NAME` runs that method alone.
fn wanted(method: &str) -> bool {
    std::env::var("METHOD").map_or(true, |name| name.eq_ignore_ascii_case(method))
}

/// Runs cases by name for some numbers of ranks, each in a place of its own.
fn run(names: &[&str], ranks: &[u32], setups: &[MethodCase]) {
    for name in names {
        for ranks in ranks {
            let case = cases::named(name)(*ranks);
            for setup in setups {
                eprint!("{name}, {ranks} ranks, {} {}: ", setup.method, setup.parameters);
                let begun = Instant::now();
                if setup.method == "STAGING" {
                    let folder = Scratch::new();
                    method::check(&in_folder(folder.path()), "file.bp", &case, setup);
                } else {
                    method::check(&in_memory(), "file.bp", &case, setup);
                }
                eprintln!("{} ms", begun.elapsed().as_millis());
            }
        }
    }
}

fn all_names() -> Vec<&'static str> {
    cases::CASES.iter().map(|(name, _)| *name).collect()
}

#[test]
fn every_case_by_every_method_with_its_parameters() {
    run(&all_names(), &[3, 8], &setups(true));
}

#[test]
fn every_case_from_any_small_number_of_ranks() {
    run(&all_names(), &[1, 2, 5], &setups(false));
}

#[test]
fn many_ranks() {
    run(cases::AT_SCALE, &[64, 257], &setups(false));
}

#[test]
fn every_case_in_a_folder() {
    for name in all_names() {
        let case = cases::named(name)(4);
        for setup in setups(false) {
            eprintln!("{name}, 4 ranks, {}, in a folder", setup.method);
            let folder = Scratch::new();
            method::check(&in_folder(folder.path()), "file.bp", &case, &setup);
        }
    }
}

#[test]
#[ignore = "long"]
fn the_full_cross() {
    run(&all_names(), &[1, 2, 3, 5, 8, 64], &setups(true));
    run(cases::AT_SCALE, &[257], &setups(true));
}

#[test]
fn the_table_names_methods_and_parameters_that_there_are() {
    for name in PARAMETERS.iter().map(|(name, _)| name).chain(&["TRIGGER"]) {
        assert!(registry::find(name).is_some_and(|kind| kind.names[0] == *name), "{name}");
    }
}
