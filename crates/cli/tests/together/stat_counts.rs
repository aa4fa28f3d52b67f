//! `stat`: every byte of a file is one of five things.

use crate::support::{printed, river, run, run_in};
use serde_json::Value as Json;
use std::sync::Arc;
use thalweg_comm::{Communicator, threads};
use thalweg_conformance::scratch::Scratch;
use thalweg_io::{Mode, Session};
use thalweg_layout::Direct;
use thalweg_store::Posix;

const STRIPE: u64 = 128 << 10;

/// Three ranks of 10,000 values share one file, two steps.
fn scheduled() -> Scratch {
    let folder = Scratch::new();
    let schema = thalweg_schema::xml::parse(
        r#"<adios-config host-language="C">
          <adios-group name="g"><var name="n" type="integer"/><var name="v" type="double" dimensions="n"/></adios-group>
          <method group="g" method="MPI_SCHEDULED">num_files=1</method>
        </adios-config>"#,
        "g.xml",
    )
    .unwrap();
    threads::run(3, |comm| {
        let layout = Arc::new(Direct::new(Arc::new(Posix::at(folder.path()).unwrap())).unwrap());
        let session = Session::with_layout(schema.clone(), layout, comm.duplicate().unwrap()).unwrap();
        for mode in [Mode::Write, Mode::Append] {
            let mut output = session.open("g", "x.bp", mode, comm.duplicate().unwrap()).unwrap();
            output.write_values("n", &[10_000]).unwrap();
            output.write_values("v", &[1.0f64; 10_000]).unwrap();
            output.close().unwrap();
        }
        session.finalize().unwrap();
    });
    folder
}

fn json(folder: &Scratch, arguments: &[&str]) -> Json {
    let ran = run_in(folder.path(), arguments);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    serde_json::from_str(&ran.out).unwrap()
}

#[test]
fn holes_values_and_index_add_up_to_the_length_of_the_files() {
    let folder = scheduled();
    let told = json(&folder, &["stat", "x.bp", "--files", "--json"]);
    let lengths: Vec<u64> =
        ["x.bp", "x.bp.dir/x.bp.0"].iter().map(|f| folder.join(f).metadata().unwrap().len()).collect();
    let bytes = &told["bytes"];
    assert_eq!(bytes["all"].as_u64().unwrap(), lengths.iter().sum::<u64>());
    assert_eq!(bytes["values"], 6 * 80_004);
    assert_eq!((&told["process_groups"], &told["holes"], &told["steps"]), (&6.into(), &5.into(), &2.into()));
    let [index, data] = [&told["files"][0]["bytes"], &told["files"][1]["bytes"]];
    assert_eq!([index["all"].as_u64().unwrap(), data["all"].as_u64().unwrap()], [lengths[0], lengths[1]]);
    // Six stripes but for the hole behind the last group.
    let group = (data["values"].as_u64().unwrap() + data["framing"].as_u64().unwrap()) / 6;
    assert_eq!(data["holes"], 5 * (STRIPE - group));
    assert_eq!((data["dead"].as_u64(), data["index"].as_u64(), index["values"].as_u64()), (Some(0), Some(0), Some(0)));
    assert_eq!(index["index"].as_u64().unwrap() + index["dead"].as_u64().unwrap(), lengths[0]);
}

#[test]
fn it_reads_as_a_table() {
    let folder = scheduled();
    let ran = run_in(folder.path(), &["stat", "x.bp", "--files"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    // What the filesystem takes differs from one to the next.
    let kept: Vec<&str> = ran.out.lines().filter(|line| !line.contains("on device")).collect();
    insta::assert_snapshot!("stat", kept.join("\n"));
    assert_eq!(ran.out.lines().count(), kept.len() + 1);
}

#[test]
fn files_of_others_and_files_that_were_cut_off_are_told_as_far_as_they_are_known() {
    let told: Json = serde_json::from_str(&printed(&["stat", "adios1-xml.bp", "--files", "--json"])).unwrap();
    for part in told["files"].as_array().unwrap() {
        let length = crate::support::fixtures().join(part["file"].as_str().unwrap()).metadata().unwrap().len();
        assert_eq!(part["bytes"]["all"], length, "{part}");
    }
    assert!(told["bytes"]["values"].as_u64().unwrap() > 0 && told["process_groups"].as_u64().unwrap() > 0);
    let folder = Scratch::new();
    let mut file = river();
    let whole = file.bytes.len() as u64;
    file.bytes.extend([7; 1000]);
    file.save(&folder.join("river.bp"));
    let cut = json(&folder, &["stat", "river.bp", "--json"]);
    assert_eq!(cut["bytes"]["all"], whole + 1000);
    assert!(cut["bytes"]["dead"].as_u64().unwrap() >= 1000);
    assert_eq!(run(&["stat", "nothing.bp"]).code, 3);
}
