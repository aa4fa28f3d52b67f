//! Symbolic links: the name that a link leads to, for layouts and doors that follow links themselves.
//!
//! | question | answer |
//! |---|---|
//! | how many | [`MOST_LINKS`] for one name, as on Linux; one more is `ELOOP` |
//! | relative targets | count from the directory that holds the link, not from the name that was used: a `..` behind a link to a directory goes up from the directory that the link leads to |
//! | absolute targets, and `..` above the root | lead out of the layout, which does not know where it is mounted: `None` from [`walk`], `ENOENT` from [`follow`]. [`lead`] gives the path, for a door, which knows |
//! | a lookup that fails | ends the search: only "not found" and "not a link" mean that a name is no link ([`target_of`]) |
//! | cost | [`follow`]: one lookup per link; one more per part of the target where the target contains `..`. [`walk`] and [`lead`]: one lookup per part of the name |

use crate::{Attributes, Kind, errno};
use rustix::io::Errno;
use thalweg_store::name;
use thalweg_types::{ErrorKind, Result};

/// How many links are followed for one name, as on Linux.
pub const MOST_LINKS: usize = 40;

/// Result of a lookup in [`follow`].
pub enum Step<T> {
    /// The name is no link: the result of the lookup.
    Here(T),
    /// The name is a link.
    Link {
        /// Name of the link, without links to directories in it where the layout knows such a name.
        at: String,
        /// Contents of the link.
        target: String,
    },
}

/// A name without links in it. Result of [`walk`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walked {
    /// The name; its last part need not exist.
    pub name: String,
    /// How many links were followed.
    pub links: usize,
}

/// Where a name leads. Result of [`lead`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Led {
    /// To a name of the layout.
    Within(Walked),
    /// Out of the layout, to this path: absolute, or relative to the root directory of the layout, with `..` as its first part.
    /// The parts of the name after the link belong to it; links and `..` in it are not resolved.
    Out(String),
}

/// The name that a link at `path` leads to, read as text; `None` for a target outside of the layout.
///
/// Exact if neither the directory of `path` nor a part of the target before a `..` is a link: [`follow`] looks at both.
pub fn beside(path: &str, target: &str) -> Option<String> {
    if target.starts_with('/') {
        return None;
    }
    let mut parts = Vec::new();
    for part in name::folder_of(path).split('/').chain(target.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Contents of a link; `None` for a name that is not there or is no link.
///
/// - `about`: attributes of the name itself, as the store or layout gave them.
/// - `read`: reads the link.
///
/// # Errors
/// Those of both calls, except `NotFound` and `InvalidArgument`.
pub fn target_of(about: Result<Attributes>, read: impl FnOnce() -> Result<String>) -> Result<Option<String>> {
    let target = match about {
        Ok(about) if about.kind == Kind::Link => read().map(Some),
        Ok(_) => Ok(None),
        Err(e) => Err(e),
    };
    match target {
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::InvalidArgument) => Ok(None),
        other => other,
    }
}

/// Follows the links in every part of a name; `None` if one of them leads out of the layout.
///
/// - `last`: whether the last part is followed too if it is a link.
/// - `link`: contents of the link of a name; `None` for any other name. See [`target_of`].
///
/// # Errors
/// `ELOOP` after [`MOST_LINKS`] links; those of `link`.
pub fn walk(path: &str, last: bool, link: impl FnMut(&str) -> Result<Option<String>>) -> Result<Option<Walked>> {
    Ok(match lead(path, last, link)? {
        Led::Within(walked) => Some(walked),
        Led::Out(_) => None,
    })
}

/// Follows the links in every part of a name, until one leads out of the layout. Parameters and errors as for [`walk`].
///
/// # Errors
/// Those of [`walk`].
pub fn lead(path: &str, last: bool, mut link: impl FnMut(&str) -> Result<Option<String>>) -> Result<Led> {
    let joined =
        |first: &str, rest: &[String]| rest.iter().rev().fold(first.to_string(), |path, part| path + "/" + part);
    let mut rest: Vec<String> = path.split('/').rev().map(str::to_string).collect();
    let (mut walked, mut links) = (String::new(), 0);
    while let Some(part) = rest.pop() {
        match part.as_str() {
            "" | "." => continue,
            ".." if walked.is_empty() => return Ok(Led::Out(joined("..", &rest))),
            ".." => {
                walked.truncate(name::folder_of(&walked).len());
                continue;
            }
            _ => {}
        }
        let folder = walked.len();
        if !walked.is_empty() {
            walked.push('/');
        }
        walked.push_str(&part);
        if rest.is_empty() && !last {
            break;
        }
        let Some(target) = link(&walked)? else { continue };
        if links == MOST_LINKS {
            return Err(errno::failure(Errno::LOOP, "follow links", path));
        }
        if target.starts_with('/') {
            return Ok(Led::Out(joined(&target, &rest)));
        }
        links += 1;
        walked.truncate(folder);
        rest.extend(target.split('/').rev().map(str::to_string));
    }
    Ok(Led::Within(Walked { name: walked, links }))
}

/// Looks a name up, and as long as it is a link, the name that the link leads to.
///
/// - `step`: the lookup.
/// - `link`: as for [`walk`]; used only for targets that contain `..`.
///
/// # Errors
/// `ELOOP` after [`MOST_LINKS`] links; `ENOENT` for a link that leads out of the layout; those of `step` and `link`.
pub fn follow<T>(
    path: &str,
    mut step: impl FnMut(&str) -> Result<Step<T>>,
    mut link: impl FnMut(&str) -> Result<Option<String>>,
) -> Result<T> {
    let mut name = path.to_string();
    for _ in 0..=MOST_LINKS {
        let (at, target) = match step(&name)? {
            Step::Here(found) => return Ok(found),
            Step::Link { at, target } => (at, target),
        };
        let next = match target.split('/').any(|part| part == "..") && !target.starts_with('/') {
            true => walk(&format!("{}/{target}", name::folder_of(&at)), false, &mut link)?.map(|walked| walked.name),
            false => beside(&at, &target),
        };
        name = next.ok_or_else(|| errno::failure(Errno::NOENT, "follow a link that leads out of the layout", &at))?;
    }
    Err(errno::failure(Errno::LOOP, "follow links", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use thalweg_types::Error;

    /// Links by name, and the lookups that were made.
    struct Links(BTreeMap<String, String>, RefCell<Vec<String>>);

    impl Links {
        fn new(links: &[(&str, &str)]) -> Links {
            Links(links.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect(), RefCell::default())
        }

        fn link(&self, name: &str) -> Result<Option<String>> {
            self.1.borrow_mut().push(name.to_string());
            Ok(self.0.get(name).cloned())
        }

        fn walk(&self, path: &str, last: bool) -> Result<Option<String>> {
            Ok(walk(path, last, |name| self.link(name))?.map(|walked| walked.name))
        }

        fn follow(&self, path: &str) -> Result<String> {
            let step = |name: &str| {
                Ok(match self.0.get(name) {
                    Some(target) => Step::Link { at: name.to_string(), target: target.clone() },
                    None => Step::Here(name.to_string()),
                })
            };
            follow(path, step, |name| self.link(name))
        }
    }

    /// `0` leads to `1`, and so on; the last link of `count` leads to a name that is no link.
    fn chain(count: usize) -> Links {
        Links((0..count).map(|n| (n.to_string(), (n + 1).to_string())).collect(), RefCell::default())
    }

    #[track_caller]
    fn fails<T: std::fmt::Debug>(outcome: Result<T>, number: Errno) {
        assert_eq!(errno::of(&outcome.unwrap_err()), number.raw_os_error());
    }

    #[test]
    fn targets_are_read_beside_the_link_and_never_lead_out() {
        for (path, target, leads) in [
            ("a/b", "c", Some("a/c")),
            ("a/b", "../c/./d", Some("c/d")),
            ("a/b", "..", Some("")),
            ("./a//b", "c//d/", Some("a/c/d")),
            ("b", "c", Some("c")),
            ("b", "..", None),
            ("a/b", "../../c", None),
            ("a/b", "/c", None),
        ] {
            assert_eq!(beside(path, target).as_deref(), leads, "{path} -> {target}");
        }
    }

    #[test]
    fn forty_links_are_followed_and_one_more_is_a_circle() {
        assert_eq!(chain(MOST_LINKS).follow("0").unwrap(), "40");
        assert_eq!(chain(MOST_LINKS).walk("0", true).unwrap().as_deref(), Some("40"));
        fails(chain(MOST_LINKS + 1).follow("0"), Errno::LOOP);
        fails(chain(MOST_LINKS + 1).walk("0", true), Errno::LOOP);
        let circle = Links::new(&[("d/a", "../d/b"), ("d/b", "a"), ("c", "c/x")]);
        fails(circle.follow("d/a"), Errno::LOOP);
        fails(circle.walk("d/a", true), Errno::LOOP);
        fails(circle.walk("c", true), Errno::LOOP);
    }

    #[test]
    fn a_walk_follows_the_links_in_every_part_of_a_name() {
        let links =
            Links::new(&[("d", "real/dir"), ("real/dir/up", "../f"), ("real/dir/out", "../../../f"), ("l", "d")]);
        for (path, last, leads) in [
            ("a/b", true, Some("a/b")),
            ("d/x/y", true, Some("real/dir/x/y")),
            ("d", true, Some("real/dir")),
            ("d", false, Some("d")),
            ("d/", false, Some("real/dir")),
            ("d/up", true, Some("real/f")),
            ("d/up", false, Some("real/dir/up")),
            ("d/../x", true, Some("real/x")),
            ("l/./x", true, Some("real/dir/x")),
            ("d/out", true, None),
            ("..", true, None),
            ("", true, Some("")),
        ] {
            assert_eq!(links.walk(path, last).unwrap().as_deref(), leads, "{path}");
        }
        assert_eq!(walk("l/x", true, |name| links.link(name)).unwrap().unwrap().links, 2);
    }

    #[test]
    fn a_target_that_goes_up_counts_from_the_directory_that_holds_the_link() {
        let links = Links::new(&[("d", "real/dir"), ("d/up", "../f"), ("t", "d/../f"), ("out", "d/../../../f")]);
        assert_eq!(links.follow("d/up").unwrap(), "real/f");
        assert_eq!(links.follow("t").unwrap(), "real/f");
        fails(links.follow("out"), Errno::NOENT);
        let links = Links::new(&[("d", "real/dir"), ("d/l", "m"), ("d/m", "n")]);
        assert_eq!(links.follow("d/l").unwrap(), "d/n");
        assert!(links.1.borrow().is_empty(), "targets without \"..\" cost no more lookups");
    }

    #[test]
    fn a_link_that_leads_out_gives_the_path_with_the_rest_of_the_name() {
        let links = Links::new(&[
            ("d", "real/dir"),
            ("real/dir/out", "../../../f"),
            ("up", ".."),
            ("whole", "/elsewhere/d"),
            ("within", "d/../x"),
        ]);
        let out = |path: &str| Led::Out(path.to_string());
        for (path, last, leads) in [
            ("d/out", true, out("../f")),
            ("d/out/a/../b", true, out("../f/a/../b")),
            ("up/up/x", true, out("../up/x")),
            ("whole/a", false, out("/elsewhere/d/a")),
            ("whole", true, out("/elsewhere/d")),
            ("whole", false, Led::Within(Walked { name: "whole".to_string(), links: 0 })),
            ("within", true, Led::Within(Walked { name: "real/x".to_string(), links: 2 })),
        ] {
            assert_eq!(lead(path, last, |name| links.link(name)).unwrap(), leads, "{path}");
        }
    }

    #[test]
    fn a_lookup_that_fails_is_not_taken_for_a_name_without_a_link() {
        let broken = |_: &str| Err(Error::new(ErrorKind::Io, "cannot look"));
        assert_eq!(walk("a/b", true, broken).unwrap_err().kind(), ErrorKind::Io);
        let target = || Ok("x".to_string());
        for (kind, none) in [
            (ErrorKind::NotFound, true),
            (ErrorKind::InvalidArgument, true),
            (ErrorKind::Io, false),
            (ErrorKind::PermissionDenied, false),
        ] {
            let outcome = target_of(Err(Error::new(kind, "cannot look")), target);
            assert_eq!(outcome.is_ok_and(|target| target.is_none()), none, "{kind:?}");
        }
    }
}
