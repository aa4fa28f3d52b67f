//! A word in a description that this library does not know costs no output: it is left out of account, and told.

use crate::common::*;
use thalweg_comm::alone::Alone;
use thalweg_diagnostics::Report;
use thalweg_io::registry::{self, Weight};
use thalweg_io::{Mode, Session};
use thalweg_reader::Reader;
use thalweg_schema::{MethodChoice, xml};
use thalweg_types::Selection;

fn choice(method: &str, parameters: &str) -> MethodChoice {
    let pairs = thalweg_params::pairs(parameters).into_iter().map(|(_, pair)| pair);
    MethodChoice { parameters: pairs.collect(), ..MethodChoice::new("g", method) }
}

fn document(method: &str, parameters: &str, transform: &str) -> String {
    format!(
        "<adios-config host-language=\"C\"><adios-group name=\"g\">\n\
         <var name=\"v\" type=\"double\" dimensions=\"100\" transform=\"{transform}\"/></adios-group>\n\
         <method group=\"g\" method=\"{method}\">{parameters}</method></adios-config>"
    )
}

fn lint(document: &str) -> Report {
    let mut report = Report::new("w.xml", document);
    registry::lint(&xml::parse(document, "w.xml").unwrap(), &mut report);
    report
}

fn writes(document: &str) -> Vec<f64> {
    drop(Session::from_xml(document, "w.xml", Box::new(Alone::new())).unwrap_or_else(|e| panic!("{document}\n{e}")));
    let place = Place::memory();
    let session = place.session(document, &Alone::new());
    let mut output = session.open("g", "x.bp", Mode::Write, Box::new(Alone::new())).unwrap();
    let values: Vec<f64> = (0..100).map(|i| f64::from(i) / 7.0).collect();
    output.write_values("v", &values).unwrap_or_else(|e| panic!("{document}\n{e}"));
    output.close().unwrap();
    session.finalize().unwrap();
    let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
    let read = reader.read_as::<f64>("v", 0, &Selection::All).unwrap();
    for (read, wrote) in read.iter().zip(&values) {
        assert!((read - wrote).abs() < 1e-9, "{document}: {read} is not {wrote}");
    }
    read
}

#[test]
fn parameters_of_adios_1_mean_nothing_to_any_method() {
    for kind in registry::METHODS.iter().filter(|kind| !["TRIGGER", "STAGING"].contains(&kind.names[0])) {
        for (_, keys) in thalweg_movement::method::OF_ADIOS1 {
            for key in *keys {
                let value = if *key == "aggregation_type" { "2" } else { "1" };
                let choice = choice(kind.names[0], &format!("{key}={value}"));
                assert!(registry::check(&choice).unwrap().is_empty(), "{} {key}", kind.names[0]);
                let weights = registry::examine(&choice).remarks.into_iter().map(|r| r.weight);
                assert!(weights.into_iter().all(|w| w == Weight::NoEffect), "{} {key}", kind.names[0]);
            }
        }
    }
    // In a checked document they are told, without an error.
    let report = lint(&document("MPI", "verbose=2;color=1", "none"));
    assert_eq!((report.errors(), report.warnings()), (0, 2), "{}", report.render(false));
}

#[test]
fn an_unknown_parameter_or_a_value_without_sense_is_left_out_and_told() {
    for (method, parameters, words) in [
        ("MPI", "snyc=yes", "\"sync\""),
        ("POSIX", "direct=many;sync=yes", "direct=many"),
        ("POSIX", "have_metadata_file=0", "have_metadata_file=0"),
        ("MPI_AGGREGATE", "aggregators=2;num_aggregators=3", "the same thing"),
        ("MPI_AGGREGATE", "pattern=nice;chunk=0;index=often", "pattern=nice"),
        ("MPI", "profile=perhaps", "profile=perhaps"),
    ] {
        let given = choice(method, parameters);
        let told = registry::check(&given).unwrap();
        assert!(told.iter().any(|t| t.contains(words) && t.contains("left out")), "{method} {parameters}: {told:?}");
        let document = document(method, parameters, "none");
        assert_eq!(writes(&document).len(), 100);
        assert!(lint(&document).errors() > 0, "{document}");
        // With `strict=yes` the parameter is an error.
        let strict = choice(method, &format!("{parameters};strict=yes"));
        assert!(registry::check(&strict).is_err(), "{method} {parameters}");
        let document = document.replace(parameters, &format!("strict=yes;{parameters}"));
        let refused = Session::from_xml(&document, "w.xml", Box::new(Alone::new())).err().unwrap();
        assert!(refused.to_string().contains("w.xml:3:"), "{refused}");
    }
    // The parameters beside it count.
    let examined = registry::examine(&choice("MPI_AGGREGATE", "pattern=nice;chunk=0;index=often;aggregators=3"));
    assert_eq!(examined.parameters.pairs(), [("aggregators".to_string(), "3".to_string())]);
    let places: Vec<_> = examined.remarks.iter().map(|r| r.parameter).collect();
    assert_eq!(places, [Some(0), Some(1), Some(2)]);
    // What is missing cannot be left out.
    assert!(registry::check(&choice("TRIGGER", "")).is_err());
    assert!(registry::check(&choice("POSXI", "")).is_err());
}

#[test]
fn a_transform_that_is_not_built_in_costs_no_variable() {
    for (transform, words) in [
        ("szip", "untransformed"),
        ("sz:accuracy=1", "untransformed"),
        ("isobar", "untransformed"),
        ("aplod", "untransformed"),
        ("alacrity", "untransformed"),
        ("mgard:tol=1e-3", "untransformed"),
        ("zlpi", "nearest known name: \"zlib\""),
        ("zlib:12", "its default"),
        ("blosc:foo=1", "its default"),
        ("zfp:accuracy=x", "untransformed"),
        ("zfp", ""),
    ] {
        let document = document("MPI", "", transform);
        assert_eq!(writes(&document).len(), 100, "{transform}");
        let schema = xml::parse(&document, "w.xml").unwrap();
        let told = registry::check_all(&schema).unwrap();
        assert!(told.iter().all(|t| t.contains(words)) && told.is_empty() == words.is_empty(), "{transform}: {told:?}");
        let stored = thalweg_io::transform::name(&schema.groups[0].variables[0]);
        let kept = transform.split(':').next().unwrap();
        assert_eq!(stored, if words.contains("default") || words.is_empty() { kept } else { "" }, "{transform}");
        assert_eq!(lint(&document).errors() > 0, !words.is_empty(), "{transform}");
    }
}
