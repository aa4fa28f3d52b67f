//! Whatever bytes are given as a document, there is a schema or a report, never a panic, and never both.

use proptest::prelude::*;
use thalweg_schema::{parse_bytes, parse_with_warnings};

const SEED: &str = r#"<?xml version="1.0"?>
<adios-config host-language="C" schema-version="1.1">
  <adios-group name="g" time-index="iter" stats="on" coordination-var="nx">
    <var name="nx" type="integer"/><var name="ny" path="/aux" type="unsigned long" gname="n"/>
    <attribute name="a" type="complex" value="(1,2),(3,4)"/><attribute name="b" var="nx"/>
    <global-bounds dimensions="2*(nx+1),ny" offsets="0,-nx%3"><var name="t" type="double" dimensions="iter,nx,ny/2" mesh="m" center="cell" transform="zlib:5"/></global-bounds>
    <mesh name="m" type="uniform" time-varying="no"><dimensions value="nx,4"/><origin value="0,1"/></mesh>
    <mesh name="u" type="unstructured"><points-single-var value="t"/><mixed-cells count="1,2" data="t,t" type="tet,hex"/></mesh>
    <gwrite src="x"/>
  </adios-group>
  <method group="g" method="MPI" priority="1" iterations="2" base-path="p">k=v;w</method>
  <buffer max-size-MB="4" allocate-time=now/><!-- é -->
</adios-config>"#;

/// Pieces that mutations put in.
const PIECES: &[&str] = &[
    "",
    "<",
    ">",
    "/>",
    "\"",
    "'",
    "=",
    "&lt;",
    "&#10;",
    "&x;",
    "<!--",
    "-->",
    "<![CDATA[",
    "]]>",
    "<?",
    ",",
    ";",
    "(",
    ")",
    "-",
    "18446744073709551616",
    "1e999",
    "NaN",
    "\u{0}",
    "\u{1b}[31m",
    "é",
    "\u{2028}",
    "\t",
    "\r\n",
    "joined",
    "iter",
    "nx",
    "<var name=\"nx\" type=\"byte\" dimensions=\"nx\"/>",
    " dimensions=\"-1,((\"",
    " xmlns:a=\"b\" a:name=\"c\"",
    " name = q ",
];

fn reads_without_panic(text: &str) {
    let (schema, report) = parse_with_warnings(text, "c.xml");
    assert_eq!(schema.is_none(), report.errors() > 0);
    let _ = (report.render(false), report.render(true), report.to_string());
    for finding in report.findings() {
        let (line, column) = report.line_and_column(finding.span);
        assert!(line >= 1 && column >= 1 && column <= report.source_line(line).chars().count() + 2);
    }
    for group in schema.iter().flat_map(|s| &s.groups) {
        thalweg_schema::mesh_attributes(group);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_give_a_schema_or_a_report(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse_bytes(&bytes, "c.xml");
    }

    #[test]
    fn any_text_gives_a_schema_or_a_report(text in "\\PC{0,100}") {
        reads_without_panic(&text);
        reads_without_panic(&format!("<adios-config><adios-group name='g'><var name='a' type='byte' dimensions='{}'/></adios-group></adios-config>", text.replace(['<', '&', '\''], "*")));
    }

    #[test]
    fn changed_documents_give_a_schema_or_a_report(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), 0usize..40, 0..PIECES.len()), 1..6)
    ) {
        let mut text = SEED.to_string();
        for (at, length, piece) in changes {
            let inside = |text: &str, mut at: usize| { while !text.is_char_boundary(at) { at -= 1 } at };
            let start = inside(&text, at.index(text.len() + 1));
            let end = inside(&text, (start + length).min(text.len())).max(start);
            text.replace_range(start..end, PIECES[piece]);
        }
        reads_without_panic(&text);
    }
}

#[test]
fn the_seed_itself_is_a_good_document() {
    let (schema, report) = parse_with_warnings(SEED, "c.xml");
    assert!(schema.is_some(), "{report}");
}

#[test]
fn deep_nesting_and_many_findings_end_in_a_report() {
    reads_without_panic(&"<a>".repeat(100_000));
    reads_without_panic(&format!("{}{}", "<a>".repeat(20_000), "</a>".repeat(20_000)));
    reads_without_panic(&format!("<adios-config>{}</adios-config>", "<x y=\"1\"/>\n".repeat(300)));
    reads_without_panic(&format!("<adios-config>{}</adios-config>", "<x y=\"1\"/>".repeat(300)));
}
