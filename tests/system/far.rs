//! Layouts on a real store far away: far ADDRESS [long], such as hdfs://127.0.0.1:8020/test or s3://bucket/test.
//!
//! The promises of layouts, and those of the methods that write BP through them: written, read back, appended, recovered. One line
//! `ok NAME` or `not ok NAME` per check; exit code 1 where one failed. Each check has a folder of its own below the address. With
//! `long` all of them; else those that take seconds.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;
use thalweg_conformance::layout::{check, check_names_and_attributes};
use thalweg_conformance::method::{self, Way, cases};
use thalweg_io::places::{layouts, stores};
use thalweg_layout::{Change, Layout};
use thalweg_movement::method::Parameters;
use thalweg_types::ErrorKind;

/// Layouts, and parameters that matter here.
const LAYOUTS: &[(&str, &[(&str, &str)])] = &[
    ("container", &[]),
    ("container", &[("index", "distributed"), ("buffer", "4096"), ("segment", "100000")]),
    ("small_file", &[]),
];
/// Methods that write BP through them, and their parameters.
const METHODS: &[(&str, &str)] = &[("MPI", ""), ("POSIX", ""), ("MPI_COLLECTIVE", "aggregators=2;stripe=4096")];

fn made(name: &str, parameters: &[(&str, &str)], url: &str) -> Arc<dyn Layout> {
    let kind = layouts::find(name).unwrap_or_else(|| panic!("no layout {name}"));
    let parameters = parameters.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    (kind.make)(&[stores::open(url).unwrap()], &Parameters(parameters)).unwrap()
}

/// Owners and modes of folders are the store's own, where it keeps them.
fn folders_have_the_stores_modes(url: &str) {
    let layout = made("container", &[], url);
    let store = stores::open(url).unwrap();
    layout.make_one_folder("folder", 0o700).unwrap();
    if store.capability().modes {
        assert_eq!(store.attributes("folder").unwrap().mode, 0o700);
        // The user that started the servers may give folders away.
        layout.set_attributes("folder", &Change { uid: Some(1), mode: Some(0o711), ..Change::default() }).unwrap();
        assert_eq!(store.attributes("folder").unwrap().uid, 1);
        let stranger = Change { uid: Some(4_000_000_000), ..Change::default() };
        assert_eq!(layout.set_attributes("folder", &stranger).unwrap_err().kind(), ErrorKind::InvalidArgument);
        layout.set_attributes("folder", &Change { uid: Some(0), ..Change::default() }).unwrap();
    } else {
        layout.set_attributes("folder", &Change { mode: Some(0o711), ..Change::default() }).unwrap();
    }
    assert_eq!(layout.attributes("folder").unwrap().mode, 0o711);
    assert_eq!(layout.list("").unwrap(), ["folder"]);
    layout.remove("folder").unwrap();
}

fn main() -> ExitCode {
    let Some(address) = std::env::args().nth(1) else {
        eprintln!("usage: far ADDRESS [long]");
        return ExitCode::from(2);
    };
    let long = std::env::args().nth(2).is_some_and(|word| word == "long");
    let scheme = address.split(':').next().unwrap_or_default();
    let (mut number, mut failed) = (0, false);
    let mut run = |name: &str, body: &dyn Fn(&str)| {
        number += 1;
        let (url, started) = (format!("{address}/{number}"), Instant::now());
        let passed = catch_unwind(AssertUnwindSafe(|| body(&url))).is_ok();
        eprintln!("{:.1} s", started.elapsed().as_secs_f64());
        println!("{} {scheme}: {name}", if passed { "ok" } else { "not ok" });
        failed |= !passed;
    };
    for (layout, parameters) in LAYOUTS {
        let told: Vec<String> = parameters.iter().map(|(key, value)| format!(", {key}={value}")).collect();
        let told = format!("{layout}{}", told.concat());
        // Files of 5 GiB with nothing but their last byte are none for small_file.
        if long && *layout != "small_file" {
            run(&format!("{told}: every promise of a layout"), &|url| check(&*made(layout, parameters, url)));
        }
        run(&format!("{told}: names and attributes"), &|url| {
            check_names_and_attributes(&*made(layout, parameters, url))
        });
    }
    run("folders have the modes that the store keeps", &folders_have_the_stores_modes);
    for (method, parameters) in METHODS.iter().take(if long { METHODS.len() } else { 1 }) {
        run(&format!("BP by {method} in a container is read back, appended, recovered"), &|url| {
            let layout = made("container", &[], url);
            method::check(
                &layout,
                "run.bp",
                &cases::named("appends by other numbers of ranks")(3),
                &Way::new(method, parameters),
            );
        });
    }
    ExitCode::from(u8::from(failed))
}
