//! A command that follows an output looks into its file with this command.

use crate::support::command;
use thalweg_comm::alone::Alone;
use thalweg_conformance::scratch::Scratch;
use thalweg_io::{Mode, Session};

#[test]
fn ls_sees_the_step_that_was_closed() {
    let folder = Scratch::new();
    let at = folder.path().display().to_string();
    let thalweg = command().get_program().to_str().unwrap().to_string();
    // The file may have grown by then; what it was about is there in any case.
    let run = format!("{thalweg} ls -l --json $THALWEG_OUTPUT &gt; {at}/step$THALWEG_STEP.json");
    let document = format!(
        r#"<adios-config>
          <adios-group name="g"><var name="n" type="integer"/><var name="x" type="double" dimensions="n"/></adios-group>
          <method group="g" method="MPI"/>
          <method group="g" method="TRIGGER">command={run}</method>
        </adios-config>"#
    );
    let session = Session::from_xml(&document, "g.xml", Box::new(Alone::new())).unwrap();
    for step in 0..3u64 {
        let mode = if step == 0 { Mode::Write } else { Mode::Append };
        let mut output = session.open("g", &format!("{at}/g.bp"), mode, Box::new(Alone::new())).unwrap();
        output.write_values("n", &[3i32]).unwrap();
        output.write_values("x", &[step as f64, 0.5, -1.0]).unwrap();
        output.close().unwrap();
    }
    session.finalize().unwrap();
    for step in 0..3u64 {
        let text = std::fs::read_to_string(format!("{at}/step{step}.json")).unwrap();
        let listed: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(listed["steps"].as_u64().unwrap() > step, "{text}");
        let x = listed["variables"].as_array().unwrap().iter().find(|v| v["name"] == "x").unwrap();
        assert!(x["last_step"].as_u64().unwrap() >= step);
    }
    let log = std::fs::read_to_string(format!("{at}/g.trigger.log")).unwrap();
    assert_eq!(log.matches(": exit 0, ").count(), 3, "{log}");
}
