//! Compares the names of a partition with the data that its servers store.
//!
//! | question | answer |
//! |----------|--------|
//! | what is compared | each file's record (checksum, servers, stripe) with the partition; the data of each server with the records: data of no file is an *orphan* |
//! | what is not | the bytes of files: they have no checksums |
//! | a file without data at a server | is no mistake: it has no bytes there, and reads as zeros up to its length |
//! | meanwhile | programs may go on: data that seems to be of no file is looked for a second time, as a name may have been renamed or removed between the two looks |
//! | what changes | nothing |

use crate::client::Partition;
use crate::server::data::DataName;
use std::collections::BTreeSet;
use thalweg_layout::{Kind, Layout};
use thalweg_types::{Error, ErrorKind, Result};

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finding {
    /// A file that cannot be used: its record is damaged, or does not fit the partition.
    Broken {
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
    /// Data of no file. It only takes space.
    Orphan {
        /// The server.
        server: u32,
        /// The object in its storage.
        object: String,
    },
    /// An object that is no data of this server.
    Foreign {
        /// The server.
        server: u32,
        /// The object in its storage.
        object: String,
    },
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Checked {
    /// Files, without further hard links.
    pub files: u64,
    /// Objects with data, at all servers.
    pub objects: u64,
    /// What is wrong, files first.
    pub findings: Vec<Finding>,
}

/// The files that names lead to.
#[derive(Default)]
struct Named {
    ids: BTreeSet<u128>,
    broken: Vec<Finding>,
}

/// Compares what servers store with the files that have names.
///
/// - `objects`: of each server, in the order of the stripes.
fn compare(ids: &BTreeSet<u128>, objects: &[Vec<String>]) -> BTreeSet<Finding> {
    let of_server = |(server, stored): (usize, &Vec<String>)| -> Vec<Finding> {
        let (server, servers) = (server as u32, objects.len());
        let finding = |object: &String| {
            let last = object.rsplit('/').next().unwrap_or_default();
            let object = object.clone();
            match last.parse::<DataName>() {
                Ok(name) if name.place(servers as u32) == server && name.object() == object => {
                    (!ids.contains(&name.id)).then_some(Finding::Orphan { server, object })
                }
                _ => Some(Finding::Foreign { server, object }),
            }
        };
        stored.iter().filter_map(finding).collect()
    };
    objects.iter().enumerate().flat_map(of_server).collect()
}

fn walk(partition: &Partition) -> Result<Named> {
    let mut named = Named::default();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let names = match partition.list(&folder) {
            // Removed meanwhile.
            Err(e) if e.kind() == ErrorKind::NotFound && !folder.is_empty() => continue,
            names => names?,
        };
        for last in names {
            let path = if folder.is_empty() { last } else { format!("{folder}/{last}") };
            let looked = || -> Result<Option<u128>> {
                match partition.kind(&path)? {
                    Kind::Folder => {
                        folders.push(path.clone());
                        Ok(None)
                    }
                    Kind::Link => Ok(None),
                    Kind::File => {
                        let id = partition.identity(&path)?;
                        partition.stat(&path)?;
                        Ok(Some(id))
                    }
                }
            };
            match { looked }() {
                Ok(id) => named.ids.extend(id),
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) if matches!(e.kind(), ErrorKind::PeerLost | ErrorKind::Timeout) => return Err(e),
                Err(e) => named.broken.push(Finding::Broken { path, why: e.to_string() }),
            }
        }
    }
    Ok(named)
}

/// Checks a partition whose servers run.
///
/// # Errors
/// `PeerLost` or `Timeout` for a server that does not answer; errors of listing names or data.
/// # Cost
/// For each file a request for its record, and one to each server; a list of each server's storage. Twice where something seems to be
/// an orphan.
pub fn check(partition: &Partition) -> Result<Checked> {
    // Data first: a file that is made meanwhile has its name before its data.
    let mut objects = partition.stored()?;
    let mut named = walk(partition)?;
    let mut wrong = compare(&named.ids, &objects);
    if !wrong.is_empty() {
        objects = partition.stored()?;
        named = walk(partition)?;
        let again = compare(&named.ids, &objects);
        wrong.retain(|finding| again.contains(finding));
    }
    let mut findings = named.broken;
    // Data of a file whose record cannot be read is not known to be of none.
    let hidden = findings.iter().any(|finding| matches!(finding, Finding::Broken { .. }));
    findings.extend(wrong.into_iter().filter(|finding| !hidden || matches!(finding, Finding::Foreign { .. })));
    findings.sort();
    let objects = objects.iter().map(|of_server| of_server.len() as u64).sum();
    Ok(Checked { files: named.ids.len() as u64, objects, findings })
}

/// The error for a server that cannot list its data.
pub(crate) fn unlisted(server: usize, e: Error) -> Error {
    Error::new(e.kind(), format!("cannot list the data of server {server}")).caused_by(e)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::striping::Striping;

    #[test]
    fn data_is_of_a_file_an_orphan_or_foreign() {
        let object = |id, server| DataName { id, striping: Striping::new(64, 2).unwrap(), server }.object();
        let ids = BTreeSet::from([1, 2]);
        assert!(compare(&ids, &[vec![object(1, 0), object(2, 0)], vec![object(2, 1)]]).is_empty());
        let elsewhere = object(1, 1).replace("00/", "01/");
        let found = compare(&ids, &[vec![object(3, 0), object(1, 1)], vec!["ab/x".into(), elsewhere.clone()]]);
        let expected = [
            Finding::Orphan { server: 0, object: object(3, 0) },
            Finding::Foreign { server: 0, object: object(1, 1) },
            Finding::Foreign { server: 1, object: "ab/x".into() },
            Finding::Foreign { server: 1, object: elsewhere },
        ];
        assert_eq!(found, BTreeSet::from(expected));
    }
}
