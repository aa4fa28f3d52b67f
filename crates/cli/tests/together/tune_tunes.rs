//! `thalweg tune`: what it prints, what it refuses, and that nothing it wrote stays.

use crate::support::{PATIENCE, Ran, command, printed, run_in};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use thalweg_conformance::scratch::Scratch;

const HEAT: &str = r#"<adios-config>
  <adios-group name="heat">
    <var name="nx" type="integer"/><var name="ny" type="integer"/><var name="note" type="string"/>
    <global-bounds dimensions="all,ny" offsets="from,0"><var name="t" type="double" dimensions="nx,ny"/></global-bounds>
    <var name="all" type="integer"/><var name="from" type="integer"/>
  </adios-group>
  <adios-group name="fixed"><var name="x" type="real" dimensions="1000"/></adios-group>
  <method group="heat" method="MPI" base-path="out">sync=no</method>
  <method group="heat" method="TRIGGER">command=touch triggered</method>
</adios-config>
"#;

fn place() -> Scratch {
    let folder = Scratch::new();
    std::fs::write(folder.path().join("heat.xml"), HEAT).unwrap();
    std::fs::create_dir(folder.path().join("out")).unwrap();
    folder
}

fn tune(folder: &Path, more: &[&str]) -> Ran {
    run_in(folder, &[&["tune", "heat.xml"], more].concat())
}

fn names(folder: &Path) -> Vec<String> {
    std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
}

const SMALL: [&str; 10] = ["-g", "heat", "-D", "nx=64", "-D", "ny=32", "--ranks", "4", "--budget", "2s"];

#[test]
fn help_is_as_reviewed() {
    insta::assert_snapshot!("help_tune", printed(&["tune", "--help"]));
}

#[test]
fn the_last_line_goes_into_the_document_and_nothing_stays() {
    let folder = place();
    let began = Instant::now();
    let ran = tune(folder.path(), &SMALL);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    let took = began.elapsed();
    assert!(took < PATIENCE, "with a budget of 2 s it took {took:?}; the limit is for hangs");
    let head = ran.out.lines().next().unwrap();
    assert!(head.starts_with("heat: 4 ranks as threads, 0.016 MB a rank, 0.066 MB an output; in out/; "), "{head}");
    for method in ["MPI sync=no", "POSIX sync=no", "MPI_COLLECTIVE sync=no", "MPI_AGGREGATE sync=no", "MPI_SCHEDULED"] {
        assert!(ran.out.lines().any(|l| l.starts_with(method)), "{method}:\n{}", ran.out);
    }
    assert!(!ran.out.contains("failed:"), "{}", ran.out);
    let says = ["is fastest", "No difference beyond the noise", "Too few runs"];
    assert_eq!(says.iter().filter(|s| ran.out.contains(**s)).count(), 1, "{}", ran.out);
    let line = ran.out.lines().last().unwrap();
    assert!(line.starts_with("<method group=\"heat\" method=\"") && line.contains(" base-path=\"out/\""), "{line}");
    assert!(line.contains("sync=no"), "what the document asks for stays: {line}");
    let old = HEAT.lines().find(|l| l.contains("method=\"MPI\"")).unwrap();
    std::fs::write(folder.path().join("tuned.xml"), HEAT.replace(old, line)).unwrap();
    assert_eq!(run_in(folder.path(), &["config", "lint", "tuned.xml"]).code, 0);
    assert_eq!(names(&folder.path().join("out")), [""; 0]);
    assert!(!folder.path().join("triggered").exists(), "no trigger fires for what is only tried");
}

#[test]
fn json_says_the_same() {
    let folder = place();
    let ran = tune(folder.path(), &[&SMALL[..], &["--json", "--folder", "."]].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let document: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&document["ranks"], &document["group"]), (&4.into(), &"heat".into()));
    let tried = document["tried"].as_array().unwrap();
    assert!(tried.len() >= 5);
    // What the budget had no time for comes last, without a time.
    let seconds = |v: &serde_json::Value| v["median_seconds"].as_f64().unwrap_or(f64::INFINITY);
    for pair in tried.windows(2) {
        assert!(seconds(&pair[0]) <= seconds(&pair[1]), "sorted by time");
    }
    let best = &tried[0];
    let rate = document["bytes_per_output"].as_f64().unwrap() / seconds(best);
    assert!((best["bytes_per_second"].as_f64().unwrap() / rate - 1.0).abs() < 1e-9);
    assert!(document["line"].as_str().unwrap().starts_with("<method group=\"heat\""));
    assert_eq!(names(folder.path()).len(), 2);
}

#[test]
fn what_is_missing_or_makes_no_sense_is_said_before_anything_is_written() {
    let folder = place();
    for (arguments, code, says) in [
        (
            &["-g", "heat", "-D", "nx=3"][..],
            2,
            "dimension variable \"ny\" has no value; \"t\" need it: --define ny=NUMBER",
        ),
        (&["-g", "heat", "-D", "nz=3"], 2, "no variable \"nz\""),
        (&["-D", "nx=3"], 2, "which group? --group heat, --group fixed"),
        (&["-g", "heet"], 1, "did you mean \"heat\"?"),
        (&["-g", "fixed", "-D", "x=3"], 2, "no single whole number"),
        (&["-g", "fixed", "--budget", "soon"], 2, "expected a time"),
        (&["-g", "fixed", "--define", "x"], 2, "is not as in nx=100"),
        (&["-g", "fixed", "--ranks", "0"], 2, "ranks"),
        (&["-g", "fixed", "--folder", "nowhere"], 3, "cannot write in 'nowhere'"),
    ] {
        let ran = tune(folder.path(), arguments);
        assert_eq!(ran.code, code, "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains(says), "{arguments:?}: {}", ran.err);
        assert_eq!(ran.out, "");
    }
    let ran: Ran = command()
        .current_dir(folder.path())
        .args(["tune", "heat.xml", "-g", "fixed"])
        .env("OMPI_COMM_WORLD_SIZE", "4")
        .output()
        .unwrap()
        .into();
    assert!(ran.code == 2 && ran.err.contains("without mpiexec"), "{}", ran.err);
    let broken = HEAT.replace("dimensions=\"nx,ny\"", "dimensions=\"nx,nyy\"");
    std::fs::write(folder.path().join("heat.xml"), broken).unwrap();
    let ran = tune(folder.path(), &["-g", "heat"]);
    assert!(ran.code == 1 && ran.err.contains("nyy"), "{}", ran.err);
    assert_eq!(names(folder.path()).len(), 2);
}

#[test]
fn interrupted_it_leaves_nothing_behind() {
    for signal in ["-INT", "-TERM"] {
        let folder = place();
        let out = folder.path().join("out");
        let mut child = command()
            .current_dir(folder.path())
            .args([
                "tune", "heat.xml", "-g", "heat", "-D", "nx=512", "-D", "ny=512", "--ranks", "4", "--budget", "3600s",
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let began = Instant::now();
        let busy = || names(&out).iter().any(|n| !names(&out.join(n)).is_empty());
        while !busy() {
            assert!(began.elapsed() < PATIENCE, "it writes nothing in {PATIENCE:?}, the limit for hangs");
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(50));
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        let status = child.wait().unwrap();
        let took = began.elapsed();
        assert!(took < PATIENCE, "it ended {took:?} after its start, not when it was interrupted");
        assert!(status.code().is_some_and(|code| code > 128), "{status}");
        assert_eq!(names(&out), [""; 0]);
    }
}
