//! Layouts on a real store far away: far ADDRESS [long], such as hdfs://127.0.0.1:8020/test or s3://bucket/test.
//!
//! The promises of layouts, and those of the methods that write BP through them: written, read back, appended, recovered. One line
//! `ok NAME` or `not ok NAME` per check; exit code 1 where one failed. Each check has a folder of its own below the address. With
//! `long` all of them; else those that take seconds.
//!
//!   far ADDRESS dies PID    BP by several methods and layouts on an HDFS of three data nodes; the one of this process id is
//!                           killed between two steps

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_comm::{Communicator, threads};
use thalweg_conformance::layout::{check, check_names_and_attributes};
use thalweg_conformance::method::{self, MethodCase, cases};
use thalweg_io::mounts::{layouts, stores};
use thalweg_io::{Mode, Session};
use thalweg_layout::{Change, Layout};
use thalweg_reader::Reader;
use thalweg_types::{ErrorKind, Selection};

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
    (kind.make)(&[stores::open(url).unwrap()], &parameters.iter().copied().collect()).unwrap()
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

/// Steps written before and after a data node dies: each close succeeds, each step reads back.
fn a_data_node_dies_between_two_steps(address: &str, process: &str) {
    const STEPS: u64 = 6;
    // Files of small_file are small on stores that write at the end alone.
    const VALUES: [usize; 2] = [200_000, 5_000];
    const GROUPS: [&str; 3] = ["MPI", "POSIX", "MPI_COLLECTIVE"];
    let group = |method: &str| {
        let parameters = if method == "MPI_COLLECTIVE" { "aggregators=2;stripe=65536" } else { "" };
        format!(
            r#"<adios-group name="{method}"><var name="n" type="integer"/><var name="all" type="integer"/><var name="from" type="integer"/>
            <global-bounds dimensions="all" offsets="from"><var name="t" type="double" dimensions="n"/></global-bounds></adios-group>
            <method group="{method}" method="{method}">{parameters}</method>"#
        )
    };
    let xml = format!(r#"<adios-config host-language="C">{}</adios-config>"#, GROUPS.map(group).concat());
    let (base, parameters) = address.split_once('?').unwrap_or((address, ""));
    let layouts = ["container", "small_file"].map(|name| made(name, &[], &format!("{base}/{name}?{parameters}")));
    let value = |step: u64, at: usize| step as f64 * 1e7 + at as f64;
    let slowest = threads::run(3, |comm| {
        let mut slowest = Duration::ZERO;
        let rank = comm.rank() as usize;
        let sessions = layouts.each_ref().map(|layout| {
            let schema = thalweg_schema::xml::parse(&xml, "dies.xml").unwrap();
            Session::with_layout(schema, layout.clone(), comm.duplicate().unwrap()).unwrap()
        });
        for step in 0..STEPS {
            if step == STEPS / 2 && rank == 0 {
                assert!(std::process::Command::new("kill").args(["-KILL", process]).status().unwrap().success());
            }
            for (session, values, method) in
                sessions.iter().zip(VALUES).flat_map(|(session, values)| GROUPS.map(|method| (session, values, method)))
            {
                let started = Instant::now();
                let mode = if step == 0 { Mode::Write } else { Mode::Append };
                let name = format!("{method}.bp");
                let mut output = session.open(method, &name, mode, comm.duplicate().unwrap()).unwrap();
                output.write_values("n", &[values as i32]).unwrap();
                output.write_values("all", &[3 * values as i32]).unwrap();
                output.write_values("from", &[(rank * values) as i32]).unwrap();
                let t: Vec<f64> = (0..values).map(|i| value(step, rank * values + i)).collect();
                output.write_values("t", &t).unwrap();
                output.close().unwrap();
                slowest = slowest.max(started.elapsed());
            }
        }
        sessions.iter().for_each(|session| session.finalize().unwrap());
        slowest
    });
    for (layout, values, method) in
        layouts.iter().zip(VALUES).flat_map(|(layout, values)| GROUPS.map(|method| (layout, values, method)))
    {
        let reader = Reader::open(layout.clone(), &format!("{method}.bp")).unwrap();
        assert_eq!(reader.status().steps, STEPS, "{method}");
        for step in 0..STEPS {
            let mut out = vec![0; 8 * 3 * values];
            reader.read("t", step, &Selection::All, &mut out).unwrap();
            let read = out.chunks_exact(8).map(|eight| f64::from_ne_bytes(eight.try_into().unwrap()));
            assert!(read.enumerate().all(|(at, t)| t == value(step, at)), "{method}, step {step}");
        }
    }
    let slowest = slowest.into_iter().max().unwrap();
    eprintln!("slowest step: {:.2} s", slowest.as_secs_f64());
    assert!(slowest < Duration::from_secs(20), "{slowest:?}");
}

fn main() -> ExitCode {
    let Some(address) = std::env::args().nth(1) else {
        eprintln!("usage: far ADDRESS [long | dies PID]");
        return ExitCode::from(2);
    };
    let long = std::env::args().nth(2).is_some_and(|word| word == "long");
    let scheme = address.split(':').next().unwrap_or_default();
    if let Some(process) = std::env::args().nth(3) {
        a_data_node_dies_between_two_steps(&address, &process);
        println!("ok hdfs: a data node dies between two steps, and no output fails or is missed");
        return ExitCode::SUCCESS;
    }
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
                &MethodCase::new(method, parameters),
            );
        });
    }
    ExitCode::from(u8::from(failed))
}
