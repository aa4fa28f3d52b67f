//! Variables or attributes of a file by name, and where their index entries lie.

use crate::Head;
use crate::variable::full_name;
use std::collections::HashMap;
use thalweg_bp::index::Table;
use thalweg_bp::live::Live;
use thalweg_types::{ElementType, Error, ErrorKind, equal};

/// Variables or attributes by name, and where their entries lie.
#[derive(Clone)]
pub(super) struct Names {
    pub(super) heads: Vec<Head>,
    pub(super) by_name: HashMap<String, usize>,
    /// In the full index (place in `Base::entries`) and in the step records (place in the table).
    pub(super) places: Vec<(Option<usize>, Option<usize>)>,
}

impl Names {
    pub(super) fn of(live: &Live, attributes: bool, table: &Table) -> Names {
        let mut names = Names { heads: Vec::new(), by_name: HashMap::new(), places: Vec::new() };
        let mut by_place: HashMap<(String, String), usize> = HashMap::new();
        let entries = live.base.iter().flat_map(|b| b.entries.iter().enumerate());
        for (i, e) in entries.filter(|(_, e)| e.is_attribute == attributes) {
            let h = &e.head;
            by_place.entry((h.path.clone(), h.name.clone())).or_insert(names.heads.len());
            names.add(&h.group, &h.path, &h.name, h.code, h.count, (Some(i), None));
        }
        for (i, e) in table.entries().iter().enumerate() {
            match by_place.get(&(e.path.clone(), e.name.clone())) {
                Some(place) => {
                    names.places[*place].1 = Some(i);
                    names.heads[*place].blocks = names.heads[*place].blocks.saturating_add(e.count);
                }
                None => names.add(&e.group, &e.path, &e.name, e.code, e.count, (None, Some(i))),
            }
        }
        names
    }

    pub(super) fn add(
        &mut self,
        group: &str,
        path: &str,
        name: &str,
        code: u8,
        blocks: u64,
        place: (Option<usize>, Option<usize>),
    ) {
        let full = full_name(path, name);
        self.by_name.entry(full.clone()).or_insert(self.heads.len());
        self.heads.push(Head {
            name: full,
            path: path.to_string(),
            short_name: name.to_string(),
            group: group.to_string(),
            element: ElementType::from_code(code),
            blocks,
        });
        self.places.push(place);
    }

    pub(super) fn find(&self, name: &str) -> Option<usize> {
        let other = || match name.strip_prefix('/') {
            Some(short) => self.by_name.get(short),
            None => self.by_name.get(&format!("/{name}")),
        };
        self.by_name.get(name).or_else(other).copied()
    }

    /// The place among the heads of the name whose entry has this path and name.
    pub(super) fn number_of(&self, path: &str, name: &str) -> Option<usize> {
        let same = |h: &Head| equal(&h.path, path) && h.short_name == name;
        let first = *self.by_name.get(&full_name(path, name))?;
        // Two names in two paths may read the same when they are joined.
        if same(&self.heads[first]) { Some(first) } else { self.heads.iter().position(same) }
    }
}

pub(super) fn not_found(what: &str, name: &str, names: &Names) -> Error {
    let near = names.heads.iter().map(|h| (distance(&h.name, name), &h.name)).min();
    let hint = near.filter(|(d, _)| *d <= 2 + name.len() / 4).map(|(_, n)| format!("; the nearest is \"{n}\""));
    Error::new(ErrorKind::NotFound, format!("no {what} of that name{}", hint.unwrap_or_default())).in_variable(name)
}

/// Edits from one name to the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut last = row[0];
        row[0] = i + 1;
        for j in 0..b.len() {
            let next = (last + usize::from(x != b[j])).min(row[j] + 1).min(row[j + 1] + 1);
            last = row[j + 1];
            row[j + 1] = next;
        }
    }
    row[b.len()]
}
