//! The table of inodes: the numbers that the kernel knows, and the current names of each.
//!
//! | question | answer |
//! |----------|--------|
//! | number   | the file's identity if that number is free, else the next free number; unchanged as long as the kernel knows the file |
//! | generation | a new one each time a number is assigned |
//! | name     | a tree: renaming a folder renames everything below it |
//! | several names | hard links of a file share a number |
//! | removed  | a number without a name stays until the kernel forgets it: the file may be open |
//! | replaced by another process | another identity under a known name gets another number |
//!
//! Pure: makes no calls on a layout.

use std::collections::HashMap;
use thalweg_layout::Kind;

/// The number of the root folder.
pub const ROOT: u64 = 1;

#[derive(Debug)]
struct Node {
    places: Vec<(u64, String)>,
    children: HashMap<String, u64>,
    identity: u64,
    kind: Kind,
    lookups: u64,
    generation: u64,
}

/// The file that a layout finds under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIdentity {
    /// As [`thalweg_layout::Stat::identity`]; 0 if there is none.
    pub identity: u64,
    /// Its type.
    pub kind: Kind,
    /// Number of hard links.
    pub links: u64,
}

/// A number and its generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Number {
    /// The number.
    pub ino: u64,
    /// The generation.
    pub generation: u64,
}

/// The table. See the module's page.
#[derive(Debug)]
pub struct Nodes {
    nodes: HashMap<u64, Node>,
    by_identity: HashMap<u64, u64>,
    next: u64,
    generations: u64,
}

impl Default for Nodes {
    fn default() -> Nodes {
        Nodes::new()
    }
}

impl Nodes {
    /// A table that contains only the root folder.
    pub fn new() -> Nodes {
        let root = Node {
            places: Vec::new(),
            children: HashMap::new(),
            identity: 0,
            kind: Kind::Folder,
            lookups: 1,
            generation: 0,
        };
        Nodes { nodes: HashMap::from([(ROOT, root)]), by_identity: HashMap::new(), next: ROOT, generations: 0 }
    }

    /// Number of known inodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether only the root is known.
    pub fn is_empty(&self) -> bool {
        self.nodes.len() == 1
    }

    /// Whether a number is known.
    pub fn knows(&self, ino: u64) -> bool {
        self.nodes.contains_key(&ino)
    }

    /// The name below the mount, empty for its root; `None` for a number without a name.
    pub fn path(&self, ino: u64) -> Option<String> {
        let mut parts = Vec::new();
        let mut at = ino;
        while at != ROOT {
            let (above, name) = self.nodes.get(&at)?.places.first()?;
            parts.push(name.as_str());
            at = *above;
        }
        parts.reverse();
        Some(parts.join("/"))
    }

    /// The name below the mount of an entry in a folder.
    pub fn below(&self, folder: u64, name: &str) -> Option<String> {
        let above = self.path(folder)?;
        Some(if above.is_empty() { name.to_string() } else { format!("{above}/{name}") })
    }

    /// The number of a name in a folder, if known.
    pub fn child(&self, folder: u64, name: &str) -> Option<u64> {
        self.nodes.get(&folder)?.children.get(name).copied()
    }

    /// Whether a number belongs to a folder.
    pub fn is_folder(&self, ino: u64) -> bool {
        self.nodes.get(&ino).is_some_and(|node| node.kind == Kind::Folder)
    }

    /// The parent folder of a number; the root for the root and for numbers without a name.
    pub fn folder_of(&self, ino: u64) -> u64 {
        self.nodes.get(&ino).and_then(|node| node.places.first()).map_or(ROOT, |(above, _)| *above)
    }

    /// Records a lookup of a name: returns the number, whose lookup count rises by one.
    pub fn found(&mut self, folder: u64, name: &str, seen: FileIdentity) -> Number {
        if let Some(ino) = self.child(folder, name) {
            let node = self.nodes.get_mut(&ino).expect("children are known");
            let same = node.identity == seen.identity || node.identity == 0 || seen.identity == 0;
            if same && node.kind == seen.kind {
                node.lookups += 1;
                return Number { ino, generation: node.generation };
            }
            self.removed(folder, name);
        }
        if seen.kind == Kind::File
            && seen.links > 1
            && let Some(ino) = self.by_identity.get(&seen.identity).copied()
            && self.nodes[&ino].kind == Kind::File
        {
            self.linked(ino, folder, name);
            let node = self.nodes.get_mut(&ino).expect("just linked");
            node.lookups += 1;
            return Number { ino, generation: node.generation };
        }
        let ino = self.free(seen.identity);
        self.generations += 1;
        let node = Node {
            places: Vec::new(),
            children: HashMap::new(),
            identity: seen.identity,
            kind: seen.kind,
            lookups: 1,
            generation: self.generations,
        };
        self.nodes.insert(ino, node);
        if seen.identity != 0 {
            self.by_identity.insert(seen.identity, ino);
        }
        self.linked(ino, folder, name);
        Number { ino, generation: self.generations }
    }

    /// Records a new identity of a file that this door itself replaced, for example by a move to another store.
    pub fn is_now(&mut self, ino: u64, identity: u64) {
        let Some(node) = self.nodes.get_mut(&ino) else { return };
        let old = std::mem::replace(&mut node.identity, identity);
        if old != identity && self.by_identity.get(&old) == Some(&ino) {
            self.by_identity.remove(&old);
        }
        if identity != 0 {
            self.by_identity.insert(identity, ino);
        }
    }

    /// Lowers the lookup count of a number.
    pub fn forget(&mut self, ino: u64, times: u64) {
        if let Some(node) = self.nodes.get_mut(&ino) {
            node.lookups = node.lookups.saturating_sub(times);
            self.drop_unused(ino);
        }
    }

    /// Records that a name was removed; returns its number.
    pub fn removed(&mut self, folder: u64, name: &str) -> Option<u64> {
        let ino = self.nodes.get_mut(&folder)?.children.remove(name)?;
        if let Some(node) = self.nodes.get_mut(&ino) {
            node.places.retain(|(above, known)| !(*above == folder && known == name));
            if node.places.is_empty() && self.by_identity.get(&node.identity) == Some(&ino) {
                self.by_identity.remove(&node.identity);
            }
        }
        self.drop_unused(ino);
        self.drop_unused(folder);
        Some(ino)
    }

    /// Records a further name of a file.
    pub fn linked(&mut self, ino: u64, folder: u64, name: &str) {
        self.removed(folder, name);
        if !self.nodes.contains_key(&ino) || !self.nodes.contains_key(&folder) {
            return;
        }
        self.nodes.get_mut(&folder).expect("looked").children.insert(name.to_string(), ino);
        self.nodes.get_mut(&ino).expect("looked").places.push((folder, name.to_string()));
    }

    /// Records a rename, which replaces an entry of the new name.
    pub fn renamed(&mut self, folder: u64, name: &str, to_folder: u64, to: &str) {
        if (folder, name) == (to_folder, to) {
            return;
        }
        self.removed(to_folder, to);
        let Some(ino) = self.child(folder, name) else { return };
        // The new name first, because a number without a name may be dropped.
        self.linked(ino, to_folder, to);
        self.removed(folder, name);
    }

    fn free(&mut self, identity: u64) -> u64 {
        if identity > ROOT && !self.nodes.contains_key(&identity) {
            return identity;
        }
        loop {
            self.next = self.next.wrapping_add(1);
            if self.next > ROOT && !self.nodes.contains_key(&self.next) {
                return self.next;
            }
        }
    }

    /// Drops a number that neither the kernel nor an entry below it refers to, then its parent folders likewise.
    fn drop_unused(&mut self, ino: u64) {
        let mut look = vec![ino];
        while let Some(ino) = look.pop() {
            let Some(node) = self.nodes.get(&ino) else { continue };
            if ino == ROOT || node.lookups > 0 || !node.children.is_empty() {
                continue;
            }
            let node = self.nodes.remove(&ino).expect("looked");
            if self.by_identity.get(&node.identity) == Some(&ino) {
                self.by_identity.remove(&node.identity);
            }
            for (above, name) in node.places {
                if let Some(folder) = self.nodes.get_mut(&above) {
                    folder.children.remove(&name);
                    look.push(above);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(identity: u64) -> FileIdentity {
        FileIdentity { identity, kind: Kind::File, links: 1 }
    }

    fn folder(identity: u64) -> FileIdentity {
        FileIdentity { identity, kind: Kind::Folder, links: 2 }
    }

    #[test]
    fn a_renamed_folder_takes_all_below_it_along() {
        let mut nodes = Nodes::new();
        let a = nodes.found(ROOT, "a", folder(10)).ino;
        let b = nodes.found(a, "b", folder(11)).ino;
        let f = nodes.found(b, "f", file(12)).ino;
        assert_eq!((a, b, f), (10, 11, 12), "numbers are identities where these are free");
        nodes.renamed(ROOT, "a", ROOT, "z");
        assert_eq!(nodes.path(f).unwrap(), "z/b/f");
        nodes.renamed(a, "b", ROOT, "b");
        assert_eq!(nodes.path(f).unwrap(), "b/f");
        assert_eq!(nodes.below(ROOT, "x").unwrap(), "x");
    }

    #[test]
    fn a_number_stays_until_the_kernel_forgets_it_also_without_a_name() {
        let mut nodes = Nodes::new();
        let f = nodes.found(ROOT, "f", file(5));
        assert_eq!(nodes.found(ROOT, "f", file(5)), f);
        assert_eq!(nodes.removed(ROOT, "f"), Some(f.ino));
        assert_eq!(nodes.path(f.ino), None);
        let new = nodes.found(ROOT, "f", file(5));
        assert_ne!(new.ino, f.ino, "the number is still in use");
        nodes.forget(f.ino, 2);
        nodes.forget(new.ino, 1);
        assert!(nodes.is_empty());
        let again = nodes.found(ROOT, "f", file(5));
        assert_eq!(again.ino, 5);
        assert_ne!(again.generation, f.generation);
    }

    #[test]
    fn names_of_one_file_share_its_number_and_it_is_found_under_those_that_stay() {
        let mut nodes = Nodes::new();
        let two = FileIdentity { links: 2, ..file(7) };
        let f = nodes.found(ROOT, "f", two).ino;
        assert_eq!(nodes.found(ROOT, "g", two).ino, f);
        nodes.removed(ROOT, "f");
        assert_eq!(nodes.path(f).unwrap(), "g");
        assert_ne!(nodes.found(ROOT, "h", file(7)).ino, f, "one name only: the identity means nothing");
    }

    #[test]
    fn a_file_that_others_put_in_place_of_a_known_one_has_another_number() {
        let mut nodes = Nodes::new();
        let f = nodes.found(ROOT, "f", file(7)).ino;
        let other = nodes.found(ROOT, "f", file(8)).ino;
        assert_ne!(f, other);
        assert_eq!((nodes.path(f), nodes.path(other)), (None, Some("f".into())));
        nodes.is_now(other, 9);
        assert_eq!(nodes.found(ROOT, "f", file(9)).ino, other, "unless it was its owner who exchanged it");
        assert_ne!(nodes.found(ROOT, "f", folder(9)).ino, other);
    }

    #[test]
    fn a_file_renamed_over_another_takes_its_name() {
        let mut nodes = Nodes::new();
        let (f, g) = (nodes.found(ROOT, "f", file(7)).ino, nodes.found(ROOT, "g", file(8)).ino);
        nodes.renamed(ROOT, "f", ROOT, "g");
        assert_eq!((nodes.path(f).unwrap(), nodes.path(g), nodes.child(ROOT, "f")), ("g".into(), None, None));
        nodes.renamed(ROOT, "g", ROOT, "g");
        assert_eq!(nodes.path(f).unwrap(), "g");
    }

    proptest! {
        /// After any sequence of requests, names refer to the file that got them last, and the table is empty after all
        /// numbers are forgotten.
        #[test]
        fn names_lead_where_a_plain_list_of_them_leads(
            calls in prop::collection::vec((0..5u8, 0..4usize, 0..4usize, 1..6u64), 0..200)
        ) {
            const NAMES: [&str; 4] = ["a", "b", "c", "d"];
            let mut nodes = Nodes::new();
            let mut list: HashMap<&str, u64> = HashMap::new();
            let mut known: HashMap<u64, u64> = HashMap::new();
            for (call, one, other, identity) in calls {
                let (from, to) = (NAMES[one], NAMES[other]);
                match call {
                    0 | 1 => {
                        let ino = nodes.found(ROOT, from, file(identity + 100)).ino;
                        *known.entry(ino).or_default() += 1;
                        list.insert(from, ino);
                    }
                    2 => {
                        prop_assert_eq!(nodes.removed(ROOT, from), list.remove(from));
                    }
                    3 if from != to => {
                        nodes.renamed(ROOT, from, ROOT, to);
                        list.remove(to);
                        if let Some(ino) = list.remove(from) {
                            list.insert(to, ino);
                        }
                    }
                    _ => {
                        if let Some(ino) = list.get(from).copied() {
                            nodes.forget(ino, known.remove(&ino).unwrap());
                            list.retain(|_, known| *known != ino);
                        }
                    }
                }
                for (name, ino) in &list {
                    prop_assert_eq!(nodes.child(ROOT, name), Some(*ino));
                    prop_assert_eq!(nodes.path(*ino), Some(name.to_string()));
                }
            }
            for (ino, times) in known {
                nodes.forget(ino, times);
            }
            prop_assert!(nodes.is_empty());
        }
    }
}
