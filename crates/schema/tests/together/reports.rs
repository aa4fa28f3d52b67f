//! What is wrong in a document is told all at once, each with its place, the line, what was expected and the nearest name.

use thalweg_schema::{parse, parse_with_warnings};
use thalweg_types::{Error, ErrorKind};

fn report(text: &str) -> String {
    let (schema, report) = parse_with_warnings(text, "config.xml");
    assert!(schema.is_none() || report.errors() == 0, "errors and a schema at once");
    report.render(false)
}

/// The first lines of all findings in a group with this content.
fn findings(content: &str) -> Vec<String> {
    let text = format!(
        "<adios-config host-language=\"C\"><adios-group name=\"g\">\n{content}\n</adios-group><method group=\"g\" method=\"MPI\"/></adios-config>"
    );
    report(&text).lines().filter(|l| l.starts_with("config.xml:")).map(str::to_string).collect()
}

#[test]
fn all_errors_of_a_document_are_in_one_report() {
    let text = r#"<adios-config host-language="C">
  <adios-group name="restart" stat="off">
    <var name="NX" type="integr"/>
    <var name="NY" type="integer"/>
    <global-bounds dimensions="NY,NZ" ofsets="0,0">
      <var name="t" type="flaot" dimensions="NX,NY"/>
    </global-bounds>
    <atribute name="units" value="K"/>
  </adios-group>
  <method group="restrat" method="MPI">stripe_count=4</method>
  <buffer max-size-MB="lots"/>
</adios-config>"#;
    assert_eq!(
        report(text),
        r#"config.xml:2:3: warning: group "restart" has no method: it will not be written
    2 |   <adios-group name="restart" stat="off">
      |   ^^^^^^^^^^^^
  expected: <method group="restart" method="..."/>
config.xml:2:31: error: unknown attribute of <adios-group> "stat"
    2 |   <adios-group name="restart" stat="off">
      |                               ^^^^
  expected: name, coordination-communicator, coordination-var, stats, time-index, host-language, schema
  nearest known name: "stats"
config.xml:3:26: error: unknown type "integr"
    3 |     <var name="NX" type="integr"/>
      |                          ^^^^^^
  expected: byte, integer*1, short, integer*2, integer, integer*4, long, long long, integer*8, unsigned byte, unsigned integer*1, unsigned short, unsigned integer*2, unsigned integer, unsigned integer*4, unsigned long, unsigned long long, unsigned integer*8, float, real, real*4, double, real*8, long double, real*16, complex, complex*8, double complex, complex*16, string, string*1, string array, char, int, unsigned char, unsigned int, long float
  nearest known name: "integer"
config.xml:5:5: error: <global-bounds> without "offsets"
    5 |     <global-bounds dimensions="NY,NZ" ofsets="0,0">
      |     ^^^^^^^^^^^^^^
  expected: offsets="..."
config.xml:5:39: error: unknown attribute of <global-bounds> "ofsets"
    5 |     <global-bounds dimensions="NY,NZ" ofsets="0,0">
      |                                       ^^^^^^
  expected: dimensions, dimension, global-dimensions, global-dimension, offsets, offset, local-offsets, local-offset, coordination-communicator, coordination-var
  nearest known name: "offsets"
config.xml:6:27: error: unknown type "flaot"
    6 |       <var name="t" type="flaot" dimensions="NX,NY"/>
      |                           ^^^^^
  expected: byte, integer*1, short, integer*2, integer, integer*4, long, long long, integer*8, unsigned byte, unsigned integer*1, unsigned short, unsigned integer*2, unsigned integer, unsigned integer*4, unsigned long, unsigned long long, unsigned integer*8, float, real, real*4, double, real*8, long double, real*16, complex, complex*8, double complex, complex*16, string, string*1, string array, char, int, unsigned char, unsigned int, long float
  nearest known name: "float"
config.xml:8:5: error: unknown element in <adios-group> "atribute"
    8 |     <atribute name="units" value="K"/>
      |     ^^^^^^^^^
  expected: var, global-bounds, attribute, mesh, gwrite, schema, multilink
  nearest known name: "attribute"
config.xml:10:18: error: unknown group "restrat"
   10 |   <method group="restrat" method="MPI">stripe_count=4</method>
      |                  ^^^^^^^
  expected: restart
  nearest known name: "restart"
config.xml:11:24: error: max-size-MB="lots"
   11 |   <buffer max-size-MB="lots"/>
      |                        ^^^^
  expected: a number, at least 0
8 errors, 1 warning
"#
    );
}

#[test]
fn wrong_dimensions_are_pointed_at_one_by_one() {
    let found = report(
        r#"<adios-config host-language="C"><adios-group name="g" time-index="iter">
<var name="NX" type="integer"/><var name="rate" type="double"/>
<var name="a" type="double" dimensions="NX, NXX,2*rate,-1"/>
<global-bounds dimensions="100,itr" offsets="0"><var name="b" type="double" dimensions="NX"/></global-bounds>
<global-bounds dimensions="100,100" offsets="0"><var name="c" type="double" dimensions="NX,NX"/></global-bounds>
</adios-group><method group="g" method="MPI"/></adios-config>"#,
    );
    assert_eq!(
        found,
        r#"config.xml:3:45: error: unknown name "NXX" in a dimension
    3 | <var name="a" type="double" dimensions="NX, NXX,2*rate,-1"/>
      |                                             ^^^
  expected: a number, an integer scalar variable or attribute of the group, or its time index
  nearest known name: "NX"
config.xml:3:49: error: variable "rate" of type double cannot serve as a dimension
    3 | <var name="a" type="double" dimensions="NX, NXX,2*rate,-1"/>
      |                                                 ^^^^^^
  expected: an integer scalar
config.xml:3:56: error: dimension -1 is negative: -1
    3 | <var name="a" type="double" dimensions="NX, NXX,2*rate,-1"/>
      |                                                        ^^
  expected: a whole number, not negative
config.xml:4:32: error: unknown name "itr" in a dimension
    4 | <global-bounds dimensions="100,itr" offsets="0"><var name="b" type="double" dimensions="NX"/></global-bounds>
      |                                ^^^
  expected: a number, an integer scalar variable or attribute of the group, or its time index
  nearest known name: "iter"
config.xml:5:46: error: 1 offsets in a global array of 2 dimensions
    5 | <global-bounds dimensions="100,100" offsets="0"><var name="c" type="double" dimensions="NX,NX"/></global-bounds>
      |                                              ^
  expected: 2 offsets
5 errors
"#
    );
}

#[test]
fn text_that_is_no_xml_says_where_it_stops_being_so() {
    assert_eq!(
        report("<adios-config>\n  <adios-group name=\"g\">\n</adios-config>\n"),
        "config.xml:3:1: error: this is no well-formed XML: expected 'adios-group' tag, not 'adios-config'\n    3 | </adios-config>\n      | ^\n  expected: </adios-group>\n1 error\n"
    );
    assert!(report("").starts_with("config.xml:1:1: error: this is no well-formed XML"));
    assert!(report("<a b=\"1\" b=\"2\"/>").contains("attribute \"b\" occurs twice"));
    assert!(report("<!DOCTYPE a [<!ENTITY x \"y\">]><a/>").contains("expected: a document without DOCTYPE"));
    assert!(report("<other/>").contains("unknown root element \"other\""));
    assert!(report("<adios-config host-language=\"C\"/>").contains("no group in this document"));
}

#[test]
fn names_must_be_there_once_and_without_commas() {
    let found = findings(
        r#"<var name="a" type="integer"/><var name="a" type="integer"/>
<var name="b,c" type="integer"/><var name="" type="integer"/><var type="integer"/><var name="t"/>
<var name="s" type="string array"/><var name="l" type="string" dimensions="3"/>"#,
    );
    let expected = [
        "2:42: error: variable \"a\" is defined already",
        "3:12: error: a comma in the name of variable \"b,c\"",
        "3:44: error: a variable without a name",
        "3:62: error: <var> without \"name\"",
        "3:83: error: <var> without \"type\"",
        "4:21: error: a variable of type string array",
        "4:56: error: a string with dimensions",
    ];
    assert_eq!(found, expected.map(|e| format!("config.xml:{e}")));
}

#[test]
fn attributes_need_one_source_of_their_value() {
    let found = findings(
        r#"<var name="n" type="integer"/><var name="list" type="integer" dimensions="3"/>
<attribute name="a"/><attribute name="b" value="1" var="n"/><attribute name="c" var="m"/>
<attribute name="d" var="n" type="integer"/><attribute name="e" type="byte" value="300"/><attribute name="f" var="list"/>"#,
    );
    let expected = [
        "3:1: error: an attribute with neither \"value\" nor \"var\"",
        "3:22: error: an attribute with both \"value\" and \"var\"",
        "3:86: error: no variable \"m\" in this group",
        "4:35: error: an attribute with \"var\" and \"type\"",
        "4:84: error: \"300\" is no value of type byte",
        "4:115: error: array \"list\" cannot be the value of an attribute",
    ];
    assert_eq!(found, expected.map(|e| format!("config.xml:{e}")));
}

#[test]
fn meshes_are_checked_against_their_kind_and_the_variables() {
    let found = findings(
        r#"<var name="nx" type="integer"/><var name="X" type="double" dimensions="nx" mesh="gone" center="middle"/>
<mesh name="a" type="uniform"><dimensions value="nx,4"/><origin value="0"/></mesh>
<mesh name="b" type="rectilinear"><dimensions value="nx"/><points-single-var value="X"/></mesh>
<mesh name="c" type="structured"><dimensions value="nx"/><points-multi-var value="X"/></mesh>
<mesh name="d" type="unstructured"><points-single-var value="X"/><uniform-cells count="nx" data="X" type="triangel"/></mesh>
<mesh name="e" type="unstructured"><points-single-var value="Y"/><uniform-cells count="8" data="X" type="quad"/></mesh>
<mesh name="e" type="unifrom" time-varying="maybe"/>"#,
    );
    let expected = [
        "2:82: error: unknown mesh \"gone\"",
        "2:96: error: unknown centering \"middle\"",
        "3:1: error: 1 origin in a mesh of 2 dimensions",
        "4:1: error: a rectilinear mesh without coordinates",
        "4:85: error: <points-single-var> in a rectilinear mesh",
        "5:1: error: one variable in <points-multi-var>",
        "6:1: error: an unstructured mesh without cells",
        "6:66: error: unknown type of cell \"triangel\"",
        "7:62: error: no variable \"Y\" in this group",
        "8:13: error: mesh \"e\" is defined already",
        "8:22: error: unknown type of mesh \"unifrom\"",
    ];
    assert_eq!(found, expected.map(|e| format!("config.xml:{e}")));
}

#[test]
fn methods_and_buffers_are_checked() {
    let found = report(
        r#"<adios-config host-language="C"><adios-group name="g" stats="some"/><adios-group name="g"/>
<method group="g"/><method method="MPI"/><method group="g" method="MPI" priority="high" iterations="-1">=3</method>
<buffer/><buffer size-MB="1"/></adios-config>"#,
    );
    let found: Vec<&str> = found.lines().filter(|l| l.starts_with("config.xml:")).collect();
    let expected = [
        "1:62: error: unknown stats \"some\"",
        "1:88: error: group \"g\" is defined already",
        "2:1: error: <method> without \"method\"",
        "2:20: error: <method> without \"group\"",
        "2:83: error: priority=\"high\"",
        "2:101: error: iterations=\"-1\"",
        "2:105: error: a parameter without a name",
        "3:1: error: a buffer with neither a size nor a percentage",
        "3:10: error: a second <buffer>",
    ];
    assert_eq!(found, expected.map(|e| format!("config.xml:{e}")));
    let buffer = |attributes: &str| {
        report(&format!(
            "<adios-config host-language=\"C\"><adios-group name=\"g\"/><method group=\"g\" method=\"MPI\"/><buffer {attributes}/></adios-config>"
        ))
    };
    assert!(buffer("size-MB=\"-1\"").contains("size-MB=\"-1\""));
    assert!(buffer("size-MB=\"NaN\"").contains("size-MB=\"NaN\""));
    assert!(buffer("size-MB=\"1\" free-memory-percentage=\"5\"").contains("both a size and a percentage"));
    assert!(buffer("free-memory-percentage=\"101\"").contains("expected: a number above 0, up to 100"));
    assert!(buffer("size-MB=\"1\" allocate-time=\"nwo\"").contains("nearest known name: \"now\""));
}

#[test]
fn as_an_error_for_programs_the_first_place_and_the_count_are_told() {
    let report =
        parse("<adios-config host-language=\"C\">\n<adios-grup/>\n<bufer/>\n</adios-config>", "run/config.xml")
            .unwrap_err();
    let error = Error::from(report);
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.what().starts_with("run/config.xml:1:1: no group in this document"), "{error}");
    assert!(error.what().ends_with("(and 2 more errors; `thalweg config lint` shows all)"), "{error}");
}
