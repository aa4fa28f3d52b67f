//! The guide names every method, and its tables of parameters are made from the declarations.

use std::collections::BTreeSet;
use std::path::Path;
use thalweg_io::parameters::{self, Subject};
use thalweg_io::registry::METHODS;

const PAGE: &str = include_str!("../../../docs/guide/methods.md");

/// What stands between backquotes.
fn quoted(text: &str) -> BTreeSet<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

#[test]
fn every_method_is_in_the_guide_under_all_its_names() {
    let named = quoted(PAGE);
    for name in METHODS.iter().flat_map(|kind| kind.names) {
        assert!(named.contains(name), "docs/guide/methods.md says nothing of method {name}");
    }
}

/// A page with its tables made anew from the declarations. A table stands between `<!-- parameters: SUBJECT NAME -->`, the
/// name left out for all of the subject, and `<!-- end of parameters -->`. Also how many tables there are.
fn with_tables(page: &str) -> (String, usize) {
    const END: &str = "<!-- end of parameters -->";
    let (mut made, mut rest, mut tables) = (String::new(), page, 0);
    while let Some((before, behind)) = rest.split_once("<!-- parameters: ") {
        let (what, behind) = behind.split_once(" -->").expect("a mark ends");
        let (old, behind) = behind.split_once(END).expect("a table ends");
        let (word, name) = what.split_once(' ').unwrap_or((what, ""));
        let subject = Subject::of(word).unwrap_or_else(|| panic!("nothing has parameters that is called {word}"));
        let table = match name {
            "" => parameters::table_of_all(subject),
            name => {
                let entry = parameters::find(subject, name).unwrap_or_else(|problem| panic!("{problem}"));
                // Tables of stores are made by builds that have them.
                if entry.lacks.is_some() && entry.parameters.is_empty() {
                    old.trim_start_matches('\n').to_string()
                } else {
                    parameters::table(&entry.parameters)
                }
            }
        };
        made += &format!("{before}<!-- parameters: {what} -->\n{table}{END}");
        (rest, tables) = (behind, tables + 1);
    }
    (made + rest, tables)
}

/// `THALWEG_UPDATE_GUIDE=1` writes them anew.
#[test]
fn the_guides_tables_of_parameters_are_those_of_the_declarations() {
    let update = std::env::var_os("THALWEG_UPDATE_GUIDE").is_some();
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide");
    let mut tables = 0;
    for page in std::fs::read_dir(guide).unwrap() {
        let path = page.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let (made, found) = with_tables(&text);
        tables += found;
        if update && made != text {
            std::fs::write(&path, &made).unwrap();
        } else if let Some((is, should)) = text.lines().zip(made.lines()).find(|(is, should)| is != should) {
            panic!("{}: run ./dev guide\n  is     {is}\n  should {should}", path.display());
        }
        assert!(update || made == text, "{}: run ./dev guide", path.display());
    }
    assert!(tables >= 8, "{tables} tables");
}

#[test]
fn everything_that_has_parameters_has_a_table_in_the_guide() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide");
    let pages: String =
        std::fs::read_dir(guide).unwrap().map(|page| std::fs::read_to_string(page.unwrap().path()).unwrap()).collect();
    for subject in Subject::ALL {
        if pages.contains(&format!("<!-- parameters: {} -->", subject.word())) {
            continue;
        }
        for entry in parameters::entries(subject).iter().filter(|entry| !entry.parameters.is_empty()) {
            // Stores with the same parameters share a table.
            let named = parameters::entries(subject).into_iter().filter(|e| e.parameters == entry.parameters);
            let mut names = named.flat_map(|e| e.names);
            assert!(
                names.any(|name| pages.contains(&format!("<!-- parameters: {} {name} -->", subject.word()))),
                "no page of docs/guide has the parameters of {} {}",
                subject.word(),
                entry.names[0]
            );
        }
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
