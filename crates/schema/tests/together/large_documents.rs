//! Documents of any size and number of mistakes take time in proportion to their length. The limit is for what takes time as
//! the square of it: minutes and more where all of these together take seconds.

use std::fmt::Write;
use std::time::{Duration, Instant};
use thalweg_schema::parse_with_warnings;
use thalweg_types::Error;

const LIMIT: Duration = Duration::from_secs(60);

/// Reads a document and shows what is wrong with it in all ways; returns the plain report.
fn read(what: &str, text: &str) -> String {
    let begun = Instant::now();
    let (_, report) = parse_with_warnings(text, "large.xml");
    let plain = report.render(false);
    let drawn = report.render(true);
    let said = Error::from(report).to_string();
    let took = begun.elapsed();
    println!("{what}: {} bytes, {took:?}", text.len());
    assert!(took < LIMIT, "{what}: {took:?}");
    assert!(plain.len() < 200_000 && drawn.len() < 1_000_000 && said.len() < 10_000, "{what}: a report for nobody");
    plain
}

fn group(content: &str) -> String {
    format!(
        "<adios-config host-language=\"C\"><adios-group name=\"g\">{content}</adios-group><method group=\"g\" method=\"MPI\"/></adios-config>"
    )
}

fn many(n: usize, each: impl Fn(usize) -> String) -> String {
    (0..n).fold(String::new(), |mut all, i| {
        let _ = write!(all, "{}", each(i));
        all
    })
}

#[test]
fn very_many_attributes_or_namespaces_are_refused_before_they_are_compared() {
    for quote in ["\"", ""] {
        let text = group(&format!("<var {}/>", many(100_000, |i| format!(" a{i}={quote}1{quote}"))));
        assert!(read("attributes", &text).contains("an element with more than 1000 attributes"));
    }
    let text = group(&many(100_000, |i| format!("<var xmlns:n{i}=\"u{i}\"/>")));
    assert!(read("namespaces", &text).contains("more than 100 namespaces"));
}

#[test]
fn of_very_many_mistakes_the_first_are_shown_and_all_are_counted() {
    for end in ["\n", ""] {
        let report = read("mistakes", &group(&many(100_000, |_| format!("<var name=\"x\" type=\"flaot\"/>{end}"))));
        // Each but the first is a second one of its name as well.
        assert!(report.ends_with("... and 199899 more\n199999 errors\n"), "{}", &report[report.len() - 100..]);
        assert_eq!(report.matches("unknown type \"flaot\"").count(), 50, "the first hundred, in order");
        let values = group(&many(20_000, |i| format!("<var name=v{i} type=integer/>{end}")));
        let report = read("values without quotes", &values);
        assert!(report.ends_with("... and 39900 more\n40000 warnings\n"), "{}", &report[report.len() - 100..]);
        assert_eq!(report.matches("a value without quotes").count(), 100);
    }
}

#[test]
fn names_are_looked_up_not_searched_for() {
    let variables = many(20_000, |i| format!("<var name=\"v{i}\" type=\"integer\"/>"));
    let arrays =
        |name: &str| many(20_000, |i| format!("<var name=\"a{i}\" type=\"double\" dimensions=\"{name}{i}\"/>"));
    assert!(read("variables", &group(&(variables.clone() + &arrays("v")))).is_empty());
    let report = read("unknown dimensions", &group(&(variables.clone() + &arrays("w"))));
    assert!(report.contains("nearest known name") && report.ends_with("20000 errors\n"), "{report}");
    let same = many(20_000, |i| format!("<var name=\"n\" path=\"/p{i}\" type=\"integer\"/>"));
    let uses = many(2_000, |i| format!("<var name=\"a{i}\" type=\"double\" dimensions=\"n\"/>"));
    assert!(read("a bare name of many", &group(&(same + &uses))).contains("... (20000 in all)"));

    let meshes = many(20_000, |i| {
        format!(
            "<mesh name=\"m{i}\" type=\"uniform\"><dimensions value=\"4\"/></mesh>\
             <var name=\"v{i}\" type=\"double\" dimensions=\"4\" mesh=\"m{i}\" center=\"point\"/>\
             <var name=\"w{i}\" type=\"double\" dimensions=\"4\" mesh=\"o{i}\" center=\"point\"/>"
        )
    });
    assert!(read("meshes", &group(&meshes)).contains("unknown mesh \"o0\""));

    let groups = many(20_000, |i| format!("<adios-group name=\"g{i}\"><var name=\"x\" type=\"byte\"/></adios-group>"));
    let methods = |name: &str| many(20_000, |i| format!("<method group=\"{name}{i}\" method=\"MPI\"/>"));
    for (name, wrong) in [("g", 0), ("h", 20_000)] {
        let text = format!("<adios-config host-language=\"C\">{groups}{}</adios-config>", methods(name));
        let report = read("groups", &text);
        assert_eq!(report.is_empty(), wrong == 0, "{report}");
    }
}
