//! What only the table of methods knows is told with its place in the document and the nearest name.

use thalweg_comm::alone::Alone;
use thalweg_diagnostics::Report;
use thalweg_io::{Session, registry};
use thalweg_schema::xml;
use thalweg_types::ErrorKind;

const DOCUMENT: &str = r#"<adios-config>
  <adios-group name="g"><var name="x" type="double"/></adios-group>
  <method group="g" method="MPI">index=each;sink=yes</method>
  <method group="g" method="POSXI"/>
  <method group="g" method="POSIX" base-path="a">direct=many</method>
  <method group="g" method="posix1" base-path="b">sync=yes; index=each</method>
</adios-config>
"#;

fn report(document: &str) -> Report {
    let schema = xml::parse(document, "lint.xml").unwrap();
    let mut report = Report::new("lint.xml", document);
    registry::lint(&schema, &mut report);
    report
}

#[test]
fn unknown_methods_and_parameters_are_told_together_each_in_its_place() {
    let report = report(DOCUMENT);
    assert_eq!(report.errors(), 3);
    let places: Vec<_> = report.findings().iter().map(|f| report.line_and_column(f.span)).collect();
    let column = |line: usize, text: &str| (line, DOCUMENT.lines().nth(line - 1).unwrap().find(text).unwrap() + 1);
    assert_eq!(places, [column(3, "sink"), column(4, "POSXI"), column(5, "direct")]);
    let text = report.render(false);
    for words in ["\"sync\"", "\"POSIX\"", "parameter direct=many", "expected bytes, as 65536, 64k or 8MiB", "lint.xml"]
    {
        assert!(text.contains(words), "{words} is not in\n{text}");
    }
}

#[test]
fn a_session_of_such_a_document_is_refused_with_all_that_is_wrong() {
    let e = Session::from_xml(DOCUMENT, "lint.xml", Box::new(Alone::new())).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Config);
    for words in ["lint.xml:3:", "\"sink\"", "lint.xml:4:", "\"POSXI\"", "lint.xml:5:", "direct=many"] {
        assert!(e.to_string().contains(words), "{words}: {e}");
    }
}

#[test]
fn every_name_and_parameter_of_the_table_is_accepted() {
    for kind in registry::METHODS {
        for name in kind.names {
            for parameter in kind.parameters {
                let value = match parameter.key {
                    "index" => "each",
                    "pattern" => "brigade",
                    "chunk" => "1M",
                    "promise" => "held",
                    "url" => "http://localhost:8080/",
                    "listen" => "127.0.0.1:0",
                    _ => "1",
                };
                // Triggering needs something to run, staging a server.
                let also = match (kind.names[0], parameter.key) {
                    ("TRIGGER", key) if key != "url" => "command=true;",
                    ("STAGING", key) if key != "partition" => "partition=p.cfg;",
                    _ => "",
                };
                let document = DOCUMENT.lines().take(2).collect::<Vec<_>>().join("\n")
                    + &format!(
                        "<method group=\"g\" method=\"{}\">{also}{}={value}</method></adios-config>",
                        name.to_lowercase(),
                        parameter.key
                    );
                assert_eq!(report(&document).errors(), 0, "{name} {}", parameter.key);
            }
        }
    }
}

#[test]
fn two_methods_of_a_group_that_write_the_same_files_are_told_at_the_second() {
    let head = DOCUMENT.lines().take(2).collect::<Vec<_>>().join("\n");
    let of = |second: &str| report(&format!("{head}\n<method group=\"g\" method=\"MPI\"/>\n{second}</adios-config>"));
    for fine in [
        r#"<method group="g" method="NULL"/>"#,
        r#"<method group="g" method="TRIGGER">command=true</method>"#,
        r#"<method group="g" method="SOCKET"/>"#,
        r#"<method group="g" method="VTK"/>"#,
        r#"<method group="g" method="POSIX" base-path="elsewhere"/>"#,
    ] {
        assert_eq!(of(fine).errors(), 0, "{fine}");
    }
    let same = of(r#"<method group="g" method="POSIX"/>"#);
    assert_eq!((same.errors(), same.line_and_column(same.findings()[0].span).0), (1, 4));
    assert!(same.render(false).contains("methods MPI and POSIX of group \"g\" write the same files"));
}
