//! The guide's page of methods names every method and every parameter that the registry knows, and no others.

use std::collections::BTreeSet;
use thalweg_io::registry::{COMMON, METHODS};

const PAGE: &str = include_str!("../../../docs/guide/methods.md");

/// What stands between backquotes.
fn quoted(text: &str) -> BTreeSet<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// The rows of the table of parameters: keys, and the methods they are of.
fn parameters() -> Vec<(BTreeSet<&'static str>, &'static str)> {
    let rows = PAGE.lines().skip_while(|line| !line.starts_with("| parameter |")).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    rows.map(|row| row.split('|').collect::<Vec<_>>()).map(|cells| (quoted(cells[1]), cells[2].trim())).collect()
}

#[test]
fn every_method_is_in_the_guide_under_all_its_names() {
    let named = quoted(PAGE);
    for name in METHODS.iter().flat_map(|kind| kind.names) {
        assert!(named.contains(name), "docs/guide/methods.md says nothing of method {name}");
    }
}

#[test]
fn every_parameter_is_in_the_guides_table_and_the_table_has_no_others() {
    let rows = parameters();
    let is_of = |of: &str, method: &str| {
        let writes = !["NULL", "TRIGGER"].contains(&method);
        of == "every method"
            || (of == "every method that writes files" && writes)
            || of.split(", ").any(|m| m == method)
    };
    for kind in METHODS {
        let method = kind.names[0];
        let said: BTreeSet<&str> =
            rows.iter().filter(|(_, of)| is_of(of, method)).flat_map(|(keys, _)| keys.iter().copied()).collect();
        let known: BTreeSet<&str> = kind.parameters.iter().chain(COMMON).map(|p| p.key).collect();
        let missing: Vec<_> = known.difference(&said).collect();
        let invented: Vec<_> = said.difference(&known).collect();
        assert!(
            missing.is_empty() && invented.is_empty(),
            "{method}: not in the guide {missing:?}, only there {invented:?}"
        );
    }
}
