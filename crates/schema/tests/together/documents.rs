//! Documents as simulations write them become the schema they describe.

use thalweg_schema::dimension::{Dimension, NameRef};
use thalweg_schema::{
    AllocateTime, AttributeSource, BufferLimit, HostLanguage, Schema, Statistics, parse, parse_bytes,
    parse_with_warnings,
};
use thalweg_types::{ElementType, Value};

/// Reads a document that must have no findings at all.
fn clean(text: &str) -> Schema {
    let (schema, report) = parse_with_warnings(text, "config.xml");
    assert!(report.is_empty(), "{report}");
    schema.expect("a schema where nothing was found")
}

/// Reads a document that must be taken, with the texts of its warnings.
fn warned(text: &str) -> (Schema, Vec<String>) {
    let (schema, report) = parse_with_warnings(text, "config.xml");
    assert_eq!(report.errors(), 0, "{report}");
    (schema.unwrap(), report.findings().iter().map(|f| f.problem.what.clone()).collect())
}

const REACTION: &str = r#"<?xml version="1.0"?>
<adios-config host-language="C">
  <adios-group name="fields" coordination-communicator="comm" coordination-var="rank" stats="minmax" time-index="iter">
    <schema version="1.1"/>
    <var name="rank" type="integer" write="no"/>
    <var name="nx" path="/box" type="unsigned long"/>
    <var name="gx" path="/box" type="unsigned long"/>
    <var name="ox" path="/box" type="unsigned long"/>
    <attribute name="ghosts" type="integer" value="2"/>
    <attribute name="rates" path="/u" type="real*8" value="0.02, 0.048"/>
    <attribute name="species" type="string array" value="U, V"/>
    <attribute name="rank of writer" var="rank"/>
    <global-bounds dimensions="gx,gx" offsets="ox,0" coordination-var="rank">
      <var name="u" gwrite="u+1" gread="u_in" type="double" dimensions="iter,nx+2*ghosts-4,gx" stats="full" copy-on-write="no"/>
      <var name="v" gname="v" type="real" dimensions="nx,gx" read="no"/>
    </global-bounds>
    <gwrite src="}"/>
    <var name="trace" type="complex*16" dimensions="10"/>
  </adios-group>
  <adios-group name="restart"><var name="state" type="byte" dimensions="4096"/></adios-group>
  <transport group="fields" method="MPI" base-path="out" priority="3" iterations="100">
    stripe_count=4; verbose ;
  </transport>
  <method group="fields" method="POSIX"/>
  <method group="restart" method="NULL"/>
  <buffer size-MB="40" allocate-time="oncall"/>
</adios-config>"#;

#[test]
fn everything_a_document_says_is_in_the_schema() {
    let schema = clean(REACTION);
    assert_eq!(schema.host_language, HostLanguage::C);
    assert_eq!(schema.buffer.limit, BufferLimit::Bytes(40 << 20));
    assert_eq!(schema.buffer.allocate, AllocateTime::Later);
    let methods: Vec<&str> = schema.methods_of("fields").map(|m| m.method.as_str()).collect();
    assert_eq!(methods, ["MPI", "POSIX"]);
    let mpi = &schema.methods[0];
    assert_eq!((mpi.base_path.as_str(), mpi.priority, mpi.iterations), ("out/", 3, 100));
    assert_eq!(mpi.parameters, [("stripe_count".into(), "4".into()), ("verbose".into(), "yes".into())]);

    let group = schema.group("fields").unwrap();
    assert_eq!(group.coordination_communicator.as_deref(), Some("comm"));
    assert_eq!(group.coordination_var.as_deref(), Some("rank"));
    assert_eq!(group.statistics, Statistics::MinMax);
    assert_eq!(group.schema_version.as_deref(), Some("1.1"));
    assert_eq!((group.program_text[0].before, group.program_text[0].text.as_str()), (6, "}"));
    let named = |name: &str| group.variables.iter().find(|v| v.name == name).unwrap();
    let u = named("u");
    assert_eq!(u.local[0], Dimension::Time);
    assert_eq!(u.local[1].to_string(), "/box/nx+2*ghosts-4");
    assert_eq!(u.global, vec![Dimension::Variable("/box/gx".into()); 2]);
    assert_eq!(u.offset, [Dimension::Variable("/box/ox".into()), Dimension::Number(0)]);
    assert_eq!((u.gwrite.as_deref(), u.gread.as_deref()), (Some("u+1"), Some("u_in")));
    assert_eq!(
        (u.statistics, u.copy_on_write, u.coordination_var.as_deref()),
        (Some(Statistics::Full), false, Some("rank"))
    );
    let extent = u.local[1].evaluate(&mut |name| match name {
        NameRef::Variable("/box/nx") => Ok(64),
        NameRef::Attribute("ghosts") => Ok(2),
        other => panic!("{other:?}"),
    });
    assert_eq!(extent.unwrap(), 64);
    let v = named("v");
    assert_eq!((v.gwrite.as_deref(), v.gread.as_deref(), v.write, v.read), (Some("v"), Some("v"), true, false));
    assert_eq!((named("rank").write, named("trace").element), (false, ElementType::DoubleComplex));
    let used: Vec<&str> = group.variables.iter().filter(|v| v.is_dimension).map(|v| v.name.as_str()).collect();
    assert_eq!(used, ["nx", "gx", "ox"]);

    let values: Vec<&AttributeSource> = group.attributes.iter().map(|a| &a.value).collect();
    let text = |t: &str| Value::String(t.as_bytes().to_vec());
    assert_eq!(*values[0], AttributeSource::One(Value::I32(2)));
    assert_eq!(*values[1], AttributeSource::Many(ElementType::F64, vec![Value::F64(0.02), Value::F64(0.048)]));
    assert_eq!(*values[2], AttributeSource::Many(ElementType::String, vec![text("U"), text("V")]));
    assert_eq!(*values[3], AttributeSource::Variable("rank".into()));
    // One sequence of ids in the order of the document.
    let ids: Vec<u32> = group.variables.iter().map(|v| v.id).chain(group.attributes.iter().map(|a| a.id)).collect();
    assert_eq!(ids, [1, 2, 3, 4, 9, 10, 11, 5, 6, 7, 8]);
}

#[test]
fn program_text_stands_in_front_of_the_variable_that_follows() {
    let schema = clean(
        r#"<adios-config host-language="Fortran"><adios-group name="g">
        <var name="a" type="integer"/><gwrite src="if (electrons) then"/><var name="b" type="integer"/><gwrite src="endif"/>
        </adios-group><method group="g" method="MPI"/></adios-config>"#,
    );
    let text: Vec<(usize, &str)> = schema.groups[0].program_text.iter().map(|t| (t.before, t.text.as_str())).collect();
    assert_eq!(text, [(1, "if (electrons) then"), (2, "endif")]);
}

#[test]
fn variables_and_methods_may_be_used_before_they_are_defined() {
    let schema = clean(
        r#"<adios-config host-language="C"><method group="g" method="MPI"/><adios-group name="g">
        <var name="t" type="double" dimensions="n*extent"/><attribute name="extent" var="m"/>
        <var name="m" type="integer"/><var name="n" type="short"/></adios-group></adios-config>"#,
    );
    assert_eq!(schema.groups[0].variables[0].local[0].to_string(), "n*extent");
    assert!(schema.groups[0].variables[1..].iter().all(|v| v.is_dimension));
}

#[test]
fn old_spellings_and_any_letter_case_are_accepted() {
    let (schema, warnings) = warned(
        r#"<ADIOS-Config Host-Language="fortran"><Adios-Group NAME="g" stats="On">
        <Global-Bounds dimension="10" offset="0"><Var Name="a" TYPE="Real*8" Dimension="5"/></Global-Bounds>
        <global-bounds global-dimensions="10" local-offsets="0"><var name="b" type="INT" dimensions="5"/></global-bounds>
        </Adios-Group><Transport group="g" method="MPI"/><buffer size-MB="1" max-size-MB="2"/></ADIOS-Config>"#,
    );
    assert_eq!(schema.host_language, HostLanguage::Fortran);
    assert_eq!(schema.groups[0].variables[0].element, ElementType::F64);
    assert_eq!(schema.groups[0].variables[1].offset, [Dimension::Number(0)]);
    assert_eq!(schema.buffer.limit, BufferLimit::Bytes(2 << 20));
    assert_eq!(warnings, ["\"max-size-MB\" and \"size-MB\" mean the same: \"max-size-MB\" counts"]);
}

#[test]
fn what_adios_takes_though_it_is_odd_is_taken_with_a_warning() {
    let (schema, warnings) = warned(
        r#"<adios-config><adios-group name="g"><var name="7" type="integer"/>
        <global-bounds dimensions="7" offsets="0"><var name="s" type="integer"/></global-bounds>
        <attribute name="d" value="first"/><attribute name="d" value="second"/>
        </adios-group><adios-group name="idle"/>
        <method group="g" method="MPI">a=1,b=2</method>
        <time-aggregation group="g" buffer-size=12000 sync-with-group="g"/></adios-config>"#,
    );
    assert_eq!(schema.host_language, HostLanguage::Fortran, "as ADIOS 1.x");
    assert_eq!(schema.groups[0].attributes.len(), 1);
    assert_eq!(schema.groups[0].attributes[0].value, AttributeSource::One(Value::String(b"second".to_vec())));
    assert_eq!(schema.groups[0].variables[1].global, []);
    let expected = [
        "no host-language",
        "variable \"7\" cannot serve as a dimension",
        "scalar \"s\" in <global-bounds>",
        "attribute \"d\" is defined already",
        "group \"idle\" has no method",
        "seems to contain several parameters",
        "<time-aggregation>",
        "a value without quotes",
    ];
    assert_eq!(warnings.len(), expected.len(), "{warnings:#?}");
    for (warning, part) in warnings.iter().zip(expected) {
        assert!(warning.contains(part), "{warning} / {part}");
    }
}

#[test]
fn joined_dimensions_need_no_offsets() {
    let schema = clean(
        r#"<adios-config host-language="C"><adios-group name="g"><global-bounds dimensions="JoinedDim,3">
        <var name="a" type="double" dimensions="5,3"/></global-bounds></adios-group><method group="g" method="MPI"/></adios-config>"#,
    );
    assert_eq!(schema.groups[0].variables[0].global, [Dimension::Joined, Dimension::Number(3)]);
    assert_eq!(schema.groups[0].variables[0].offset, []);
}

#[test]
fn the_buffer_may_be_nothing_or_a_share_of_free_memory() {
    let with = |buffer: &str| {
        parse(
            &format!(
                "<adios-config host-language=\"C\"><adios-group name=\"g\"/><method group=\"g\" method=\"MPI\"/>{buffer}</adios-config>"
            ),
            "config.xml",
        )
        .unwrap()
        .buffer
    };
    assert_eq!(with("").limit, BufferLimit::Unlimited);
    assert_eq!(with("<buffer size-MB=\"0\"/>").limit, BufferLimit::Bytes(0));
    assert_eq!(with("<buffer max-size-MB=\"0.5\"/>").limit, BufferLimit::Bytes(512 << 10));
    let share = with("<buffer free-memory-percentage=\"25\" allocate-time=\"now\"/>");
    assert_eq!((share.limit, share.allocate), (BufferLimit::FreeMemoryPercentage(25.0), AllocateTime::Now));
}

#[test]
fn places_of_methods_and_parameters_are_kept_for_later_checks() {
    let text = "<adios-config host-language=\"C\"><adios-group name=\"g\"/>\n<method group=\"g\" method=\"MPJ\">\n  a=1;\n  strip=4\n</method></adios-config>";
    let (schema, mut report) = parse_with_warnings(text, "config.xml");
    let schema = schema.unwrap();
    let source = schema.methods[0].source.as_ref().unwrap();
    let at = |span: thalweg_diagnostics::SourceSpan| &text[span.offset_bytes..span.offset_bytes + span.length_bytes];
    assert_eq!((at(source.method), at(source.group), at(source.parameters[1])), ("MPJ", "g", "strip=4"));
    let unknown = thalweg_diagnostics::Problem::unknown("parameter", "strip", ["stripe", "verbose"]);
    report.error(source.parameters[1], unknown);
    assert!(
        report.render(false).starts_with("config.xml:4:3: error: unknown parameter \"strip\"\n    4 |   strip=4\n"),
        "{report}"
    );
}

#[test]
fn places_stay_right_where_values_had_no_quotes() {
    let text =
        "<adios-config host-language=C><adios-group name=g/><method group=g method=\"MPJ\">a=1</method></adios-config>";
    let (schema, report) = parse_with_warnings(text, "config.xml");
    let schema = schema.unwrap();
    let source = schema.methods[0].source.as_ref().unwrap();
    let at = |span: thalweg_diagnostics::SourceSpan| &text[span.offset_bytes..span.offset_bytes + span.length_bytes];
    assert_eq!((at(source.method), at(source.group), at(source.parameters[0])), ("MPJ", "g", "a=1"));
    let places: Vec<&str> = report.findings().iter().map(|f| at(f.span)).collect();
    assert_eq!(places, ["C", "g", "g"]);
}

#[test]
fn latin_1_is_read_where_the_first_line_says_so() {
    let text = "<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?>\n<adios-config host-language=\"C\"><adios-group name=\"g\"><attribute name=\"d\" value=\"\u{b0}C\"/></adios-group><method group=\"g\" method=\"MPI\"/></adios-config>";
    let latin: Vec<u8> = text.chars().map(|c| c as u8).collect();
    let schema = parse_bytes(&latin, "config.xml").unwrap();
    assert_eq!(
        schema.groups[0].attributes[0].value,
        AttributeSource::One(Value::String("\u{b0}C".as_bytes().to_vec()))
    );
    let undeclared: Vec<u8> = latin.iter().skip(44).copied().collect();
    let report = parse_bytes(&undeclared, "config.xml").unwrap_err().render(false);
    assert!(report.contains("byte 0xb0 is no UTF-8 text") && report.starts_with("config.xml:1:"), "{report}");
}
