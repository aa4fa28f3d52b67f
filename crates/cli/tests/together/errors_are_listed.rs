//! What the command tells of the errors of lossy arrays.

use crate::support::run_in;
use std::path::Path;
use std::sync::Arc;
use thalweg_comm::Communicator;
use thalweg_comm::alone::Alone;
use thalweg_conformance::scratch::Scratch;
use thalweg_io::{Mode, Session};
use thalweg_layout::Direct;
use thalweg_store::Posix;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/methods.md");

/// `run.bp`: T of two steps in two blocks, of which one has a NaN; p of one.
fn write(folder: &Path, transforms: [&str; 2]) {
    let xml = format!(
        "<adios-config><adios-group name=\"g\"><var name=\"at\" type=\"unsigned long\"/>\
         <global-bounds dimensions=\"64,64\" offsets=\"at,0\">\
         <var name=\"T\" type=\"double\" dimensions=\"32,64\" transform=\"{}\"/>\
         <var name=\"p\" type=\"real\" dimensions=\"32,64\" transform=\"{}\"/>\
         </global-bounds></adios-group><method group=\"g\" method=\"MPI\"/></adios-config>",
        transforms[0], transforms[1]
    );
    let layout = Arc::new(Direct::new(Arc::new(Posix::at(folder).unwrap())).unwrap());
    let schema = thalweg_schema::parse(&xml, "t.xml").unwrap();
    let session = Session::with_layout(schema, layout, Alone::new().duplicate().unwrap()).unwrap();
    for step in 0..2u32 {
        let mode = if step == 0 { Mode::Write } else { Mode::Append };
        let mut output = session.open("g", "run.bp", mode, Box::new(Alone::new())).unwrap();
        for block in 0..2u32 {
            // Whole numbers and quotients alone, which are the same everywhere.
            let value = |i: u32| 280.0 + f64::from((i * i * 7) % 10_007) / 1000.0 + f64::from(block + step);
            let mut values: Vec<f64> = (0..2048).map(value).collect();
            output.write_values("at", &[32 * u64::from(block)]).unwrap();
            if (step, block) == (1, 1) {
                values[7] = f64::NAN;
            }
            output.write_values("T", &values).unwrap();
            let values: Vec<f32> = (0..2048).map(|i| value(i) as f32).collect();
            output.write_values("p", &values).unwrap();
        }
        output.close().unwrap();
    }
    session.finalize().unwrap();
}

#[test]
fn the_guide_shows_errors_as_they_are_listed() {
    let folder = Scratch::new();
    let page = std::fs::read_to_string(PAGE).unwrap();
    write(folder.path(), ["zfp:error=0.01", "zfp:relative_error=1e-4"]);
    for (command, arguments) in [
        ("thalweg ls -l run.bp T p", &["ls", "-l", "run.bp", "T", "p"][..]),
        ("thalweg ls -v run.bp T", &["ls", "-v", "run.bp", "T"]),
    ] {
        let ran = run_in(folder.path(), arguments);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
        // Facts about the file itself come first.
        let table = &ran.out[ran.out.find("type ").unwrap()..];
        let shown = format!("$ {command}\n{table}");
        assert!(page.contains(&shown), "docs/guide/methods.md does not show\n{shown}");
    }
    assert_eq!(run_in(folder.path(), &["verify", "run.bp"]).code, 0);
}

#[test]
fn json_has_the_errors_of_variables_and_blocks() {
    let folder = Scratch::new();
    write(folder.path(), ["zfp:error=0.01", "zfp:accuracy=0.01"]);
    let ran = run_in(folder.path(), &["ls", "-lv", "--json", "run.bp"]);
    let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let of = |name: &str| json["variables"].as_array().unwrap().iter().find(|v| v["name"] == name).unwrap();
    let errors = &of("T")["errors"];
    assert_eq!(errors["bound"], serde_json::json!({ "error": 0.01 }));
    assert_eq!((&errors["blocks"], &errors["lossless"], &errors["not_measured"]), (&4.into(), &1.into(), &0.into()));
    let blocks = of("T")["each_block"].as_array().unwrap();
    let largest = blocks.iter().map(|b| b["error"].as_f64().unwrap()).fold(0.0, f64::max);
    assert!(largest > 0.0 && largest <= 0.01);
    assert_eq!(errors["largest"], largest);
    assert_eq!((&blocks[3]["lossless"], &blocks[3]["error"]), (&"values that are not finite".into(), &0.0.into()));
    assert_eq!(of("p")["errors"]["not_measured"], 4);
    assert_eq!(of("at").get("errors"), None);
    let ran = run_in(folder.path(), &["ls", "-l", "run.bp", "p"]);
    assert!(ran.out.contains("stored through zfp, errors not measured"), "{}", ran.out);
}
