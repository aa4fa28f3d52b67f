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

#[test]
fn what_each_method_holds_at_least_is_in_the_guide() {
    let rows = PAGE.lines().skip_while(|line| !line.starts_with("| method | least |")).skip(2);
    let mut said: Vec<(&str, u64)> = Vec::new();
    for row in rows.take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.split('|').collect();
        // Of a rank that needs most.
        let least = cells[2].split_whitespace().next().unwrap().parse::<u64>().unwrap();
        said.extend(quoted(cells[1]).into_iter().map(|method| (method, least << 10)));
    }
    said.sort_unstable();
    let mut known: Vec<(&str, u64)> = METHODS.iter().map(|kind| (kind.names[0], kind.least)).collect();
    known.sort_unstable();
    assert_eq!(said, known);
}
