//! `thalweg gen` writes calls that a program includes; they are reviewed as text, and compiled by tests/system/gen.sh.

use crate::support::run_in;

const HEAT: &str = r#"<?xml version="1.0"?>
<adios-config host-language="C">
  <adios-group name="heat" time-index="iteration">
    <var name="NX" type="integer" gwrite="grid.nx" read="no"/>
    <var name="rank" type="integer" read="no"/>
    <var name="ranks" type="integer" read="no"/>
    <var name="step" type="integer"/>
    <var name="next" type="integer" gwrite="step+1" read="no"/>
    <var name="note" type="string" gwrite="text"/>
    <var name="mean" path="/t" type="double" gwrite="means[step]" gread="mean"/>
    <gwrite src="if (step % 10 == 0) {"/>
    <global-bounds dimensions="ranks,2*NX" offsets="rank,0">
      <var name="t" type="double" gwrite="grid.t" dimensions="iteration,1,2*NX"/>
      <gwrite src="}"/>
    </global-bounds>
    <var name="mean" path="/p" type="float" write="no" gread="pressure"/>
  </adios-group>
  <adios-group name="other"><var name="z" type="complex" dimensions="4"/></adios-group>
  <method group="heat" method="MPI"/>
  <method group="other" method="POSIX"/>
</adios-config>
"#;

fn text(folder: &std::path::Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

#[test]
fn a_folder_that_is_not_there_is_made_with_those_above_it() {
    let scratch = thalweg_conformance::scratch::Scratch::new();
    let folder = scratch.path();
    std::fs::write(folder.join("heat.xml"), HEAT).unwrap();
    let ran = run_in(folder, &["gen", "heat.xml", "--group", "heat", "-o", "a/b/c"]);
    assert_eq!((ran.code, ran.err.as_str(), ran.out.as_str()), (0, "", "a/b/c/gwrite_heat.ch\na/b/c/gread_heat.ch\n"));
    assert!(text(folder, "a/b/c/gwrite_heat.ch").contains("adios_write"));
    // Where a file lies in the way nothing is made.
    std::fs::write(folder.join("taken"), "bytes").unwrap();
    let ran = run_in(folder, &["gen", "heat.xml", "-o", "taken/src"]);
    assert_eq!((ran.code, ran.out.as_str()), (3, ""), "{}", ran.err);
    assert!(ran.err.contains("taken/src"), "{}", ran.err);
    assert_eq!(text(folder, "taken"), "bytes");
}

#[test]
fn calls_are_as_reviewed() {
    let folder = thalweg_conformance::scratch::Scratch::new();
    let folder = folder.path();
    std::fs::write(folder.join("heat.xml"), HEAT).unwrap();
    let ran = run_in(folder, &["gen", "heat.xml"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_eq!(ran.out, "./gwrite_heat.ch\n./gread_heat.ch\n./gwrite_other.ch\n./gread_other.ch\n");
    insta::assert_snapshot!("gwrite_c", text(folder, "gwrite_heat.ch"));
    insta::assert_snapshot!("gread_c", text(folder, "gread_heat.ch"));

    std::fs::create_dir(folder.join("src")).unwrap();
    let fortran = HEAT
        .replace("host-language=\"C\"", "host-language=\"Fortran\"")
        .replace("grid.", "grid%")
        .replace("means[step]", "means(step)")
        .replace("if (step % 10 == 0) {", "if (mod(step, 10) == 0) then")
        .replace("src=\"}\"", "src=\"end if\"");
    std::fs::write(folder.join("heat.xml"), fortran).unwrap();
    let ran = run_in(folder, &["gen", "heat.xml", "--group", "heat", "-o", "src"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "src/gwrite_heat.fh\nsrc/gread_heat.fh\n"), "{}", ran.err);
    insta::assert_snapshot!("gwrite_fortran", text(folder, "src/gwrite_heat.fh"));
    insta::assert_snapshot!("gread_fortran", text(folder, "src/gread_heat.fh"));
    assert!(!folder.join("src/gwrite_other.fh").exists());
}

#[test]
fn the_includes_of_the_examples_are_those_of_their_configuration() {
    let example = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/gray-scott");
    let folder = thalweg_conformance::scratch::Scratch::new();
    let folder = folder.path();
    std::fs::copy(example.join("gray-scott.xml"), folder.join("gray-scott.xml")).unwrap();
    assert_eq!(run_in(folder, &["gen", "gray-scott.xml"]).code, 0);
    for name in ["gwrite_fields.ch", "gwrite_restart.ch", "gread_restart.ch", "gread_fields.ch"] {
        assert_eq!(text(folder, name), text(&example, name), "`make calls` in examples/gray-scott makes it anew");
    }
}

#[test]
fn what_has_not_changed_keeps_its_time() {
    let folder = thalweg_conformance::scratch::Scratch::new();
    let folder = folder.path();
    std::fs::write(folder.join("heat.xml"), HEAT).unwrap();
    assert_eq!(run_in(folder, &["gen", "heat.xml", "--language", "fortran"]).code, 0);
    let time = |name: &str| std::fs::metadata(folder.join(name)).unwrap().modified().unwrap();
    let before = time("gwrite_heat.fh");
    std::fs::write(folder.join("gread_heat.fh"), "old").unwrap();
    let ran = run_in(folder, &["gen", "heat.xml", "--language", "fortran", "-g", "heat"]);
    assert_eq!(ran.out, "./gwrite_heat.fh is as it was\n./gread_heat.fh\n");
    assert_eq!(time("gwrite_heat.fh"), before);
    assert!(text(folder, "gread_heat.fh").contains("adios_read"));
}

#[test]
fn what_makes_no_calls_is_said() {
    let folder = thalweg_conformance::scratch::Scratch::new();
    let folder = folder.path();
    std::fs::write(folder.join("heat.xml"), HEAT).unwrap();
    let ran = run_in(folder, &["gen", "heat.xml", "-g", "heet"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert_eq!(ran.err, "thalweg: no group \"heet\" is described; did you mean \"heat\"?\n");
    std::fs::write(folder.join("bad.xml"), HEAT.replace("2*NX\"", "2*NY\"")).unwrap();
    let ran = run_in(folder, &["gen", "bad.xml"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert!(ran.err.contains("NY") && !folder.join("gwrite_heat.ch").exists(), "{}", ran.err);
    assert_eq!(run_in(folder, &["gen", "none.xml"]).code, 3);
    let ran = run_in(folder, &["gen", "heat.xml", "-o", "heat.xml/calls"]);
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("cannot make the folder 'heat.xml/calls'"), "{}", ran.err);
}

#[test]
fn the_folder_for_the_calls_is_made() {
    let folder = thalweg_conformance::scratch::Scratch::new();
    let folder = folder.path();
    std::fs::write(folder.join("heat.xml"), HEAT).unwrap();
    let ran = run_in(folder, &["gen", "heat.xml", "-o", "new/calls"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(text(folder, "new/calls/gwrite_heat.ch").contains("adios_write"));
}
