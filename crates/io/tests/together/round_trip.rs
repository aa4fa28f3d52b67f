//! What is written reads back equal: every method that writes, on each layout, from any number of ranks.

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use thalweg_conformance::round_trip::{self, WriteSetup, arbitrary, edge_cases, everything};
use thalweg_io::registry;
use thalweg_schema::HostLanguage;

/// First name of each method that writes anything to any layout.
fn methods() -> Vec<&'static str> {
    registry::that_write_by_themselves().map(|kind| kind.names[0]).collect()
}

#[test]
fn everything_reads_back_equal_by_each_method_on_each_store_from_any_number_of_ranks() {
    round_trip::check_everything(&methods());
}

#[test]
fn parameters_of_methods_change_no_value() {
    let scenario = everything::scenario(4, 4, HostLanguage::C);
    for method in methods() {
        let mut setups = vec![WriteSetup { follow: true, ..WriteSetup::of(method).with("index", "each") }];
        if method == "POSIX" {
            setups.push(WriteSetup::of(method).with("direct", "1"));
            setups.push(WriteSetup { buffer: Some(0), ..WriteSetup::of(method).with("direct", "2000") });
        }
        if method == "MPI" {
            setups.push(WriteSetup { buffer: Some(0), ..WriteSetup::of(method).with("spill_copy", "512") });
        }
        for setup in setups {
            eprintln!("{setup:?}");
            round_trip::write_and_check(&round_trip::in_memory(), "file.bp", &scenario, &setup);
        }
    }
}

#[test]
fn fifty_steps_read_back_equal_after_each_of_them() {
    // Full indexes and step records take turns.
    let scenario = everything::scenario(2, 50, HostLanguage::C);
    for method in methods() {
        let setup = WriteSetup { sessions: 3, ..WriteSetup::of(method) };
        round_trip::write_and_check(&round_trip::in_memory(), "file.bp", &scenario, &setup);
    }
}

#[test]
fn what_other_programs_stumble_over_reads_back_equal() {
    for method in methods() {
        round_trip::write_and_check(
            &round_trip::in_memory(),
            "file.bp",
            &edge_cases::scenario(3, 2),
            &WriteSetup::of(method),
        );
    }
}

#[test]
fn arbitrary_scenarios_read_back_equal() {
    let methods = methods();
    let config = ProptestConfig {
        cases: 192,
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..ProptestConfig::default()
    };
    proptest!(config, |(recipe in arbitrary::recipes())| {
        let setup = recipe.write_setup(&methods);
        round_trip::write_and_check(&round_trip::in_memory(), "folder.bp", &recipe.scenario(), &setup);
    });
}
