//! Lists of folders, with the attributes of their names.
//!
//! | question | answer |
//! |----------|--------|
//! | names | as of the open of the folder, or of its last rewind |
//! | attributes | as of the kernel's request for the name: never prefetched, because programs may change them meanwhile |
//! | speed | several threads share the lookups of one answer: as many as processors if a lookup takes microseconds, more if it waits for a distant store |
//! | other calls | names do not change during the lookups of one answer; a rename waits at most [`MOST`] for them |

use super::{Door, Entry, Errno, Result, kind, number};
use crate::nodes::ROOT;
use fuser::FileType;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, UNIX_EPOCH};
use thalweg_layout::{Attributes, Kind};
use thalweg_types::ErrorKind;

/// Number of first lookups, from which the time per lookup is measured.
const FIRST: usize = 8;
/// Longest time of the lookups of one answer.
const MOST: Duration = Duration::from_millis(20);
/// Total time of lookups that justifies a helper, which needs about 100 us to start.
const WORTH: Duration = Duration::from_micros(400);
/// A lookup that takes longer waits for a store and not for a processor.
const WAITS: Duration = Duration::from_micros(200);
/// Number of helpers if lookups wait for a store.
const FAR: usize = 15;

/// The names of a folder that a program has open.
pub(super) struct Listed {
    names: Arc<Vec<String>>,
    /// Read at the open, and not returned yet.
    fresh: bool,
    went: Went,
}

impl Listed {
    fn new(names: Arc<Vec<String>>, fresh: bool) -> Listed {
        Listed { names, fresh, went: Went::default() }
    }
}

/// Measurements of the last answer.
#[derive(Debug, Clone, Copy, Default)]
struct Went {
    /// Number of names that fit.
    fits: usize,
    /// Time per lookup.
    each: Option<Duration>,
}

/// Number of processors; cached, because the system reads files for it.
fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    *PROCESSORS.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Number of names to look up together, and of helpers.
#[derive(Debug, PartialEq, Eq)]
struct Looks {
    names: usize,
    helpers: usize,
}

impl Looks {
    /// - `each`: time per lookup; `fits`: number of names that fit in an answer, if known; `left`: number of remaining
    ///   names.
    fn plan(each: Option<Duration>, fits: usize, left: usize) -> Looks {
        let Some(each) = each else { return Looks { names: FIRST.min(left), helpers: 0 } };
        let each = each.max(Duration::from_nanos(100));
        let most_helpers = if each > WAITS { FAR } else { processors() - 1 };
        let in_time = usize::try_from(MOST.as_nanos() / each.as_nanos()).unwrap_or(usize::MAX).max(1);
        let wanted = if fits > 0 { fits } else { FIRST };
        let names = wanted.min(left).min(in_time.saturating_mul(most_helpers + 1)).max(1);
        let worth = each.as_nanos().saturating_mul(names as u128) / WORTH.as_nanos();
        let helpers = usize::try_from(worth).unwrap_or(usize::MAX).min(most_helpers).min(names - 1);
        Looks { names, helpers }
    }
}

impl Door {
    pub fn open_folder(&self, ino: u64) -> Result<u64> {
        let fh = self.next.fetch_add(1, Ordering::Relaxed);
        let names = self.list(ino)?;
        self.folders.lock().insert(fh, Listed::new(names, true));
        Ok(fh)
    }

    fn list(&self, ino: u64) -> Result<Arc<Vec<String>>> {
        let _names = self.use_names();
        Ok(Arc::new(self.layout.list(&self.path(ino)?).map_err(number)?))
    }

    /// The names of an open folder; read again when the program rewinds.
    pub fn names(&self, ino: u64, fh: u64, begins: bool) -> Result<Arc<Vec<String>>> {
        let known = self.folders.lock().get_mut(&fh).map(|known| {
            let told = !std::mem::take(&mut known.fresh);
            (known.names.clone(), told)
        });
        match known {
            Some((names, told)) if !(begins && told) => Ok(names),
            None => Err(Errno::EBADF),
            Some(_) => {
                let names = self.list(ino)?;
                self.folders.lock().insert(fh, Listed::new(names.clone(), false));
                Ok(names)
            }
        }
    }

    pub fn release_folder(&self, fh: u64) {
        self.folders.lock().remove(&fh);
    }

    /// A name of a folder that is listed, with its number if it has one; `None` for one that is gone.
    pub fn listed(&self, folder: u64, name: &str) -> Option<(u64, FileType)> {
        let _names = self.use_names();
        let about = self.listed_about(&self.below(folder, name).ok()?)?;
        let known = self.nodes().child(folder, name);
        let number = known.unwrap_or(if about.identity > ROOT { about.identity } else { u64::MAX });
        Some((number, kind(about.kind)))
    }

    /// Passes the names of an open folder, from position `from` on, with their attributes to `tell`, like lookups; `tell`
    /// returns whether the name no longer fits. Removed names are left out.
    pub fn list_plus(
        self: &Arc<Door>,
        ino: u64,
        fh: u64,
        names: &Arc<Vec<String>>,
        from: usize,
        tell: &mut dyn FnMut(usize, &Entry) -> bool,
    ) {
        let Went { fits, mut each } = self.folders.lock().get(&fh).map(|listed| listed.went).unwrap_or_default();
        let (mut at, mut full) = (from, false);
        while at < names.len() && !full {
            let _names = self.use_names();
            let asked = self.attributes.lock().ask(Instant::now());
            let looks = Looks::plan(each, (from + fits).saturating_sub(at), names.len() - at);
            let (first, above) = (at, self.path(ino));
            let (door, all) = (self.clone(), names.clone());
            let look = move |number: usize| {
                let name = &all[first + number];
                match &above {
                    Ok(above) if above.is_empty() => door.listed_about(name),
                    Ok(above) => door.listed_about(&[above, "/", name].concat()),
                    // The folder is gone, and all that was in it.
                    Err(_) => None,
                }
            };
            let began = Instant::now();
            let found = self.helpers.share(looks.helpers, looks.names, look);
            each = Some(began.elapsed() * (looks.helpers as u32 + 1) / looks.names as u32);
            for about in found {
                if let Some(about) = about {
                    let entry = self.found(ino, &names[at], asked, about);
                    full = tell(at, &entry);
                    if full {
                        // It did not fit, and is not known to the kernel.
                        self.forget(entry.attributes.ino.0, 1);
                        break;
                    }
                }
                at += 1;
            }
        }
        if let Some(listed) = self.folders.lock().get_mut(&fh) {
            listed.went = Went { fits: at - from, each };
        }
    }

    /// An entry whose attributes cannot be read is listed as a file without permissions.
    fn listed_about(&self, path: &str) -> Option<Attributes> {
        match self.about(path) {
            Ok(about) => Some(about),
            Err(e) if e.kind() == ErrorKind::NotFound => None,
            Err(_) => Some(Attributes {
                kind: Kind::File,
                length: 0,
                mode: 0,
                uid: self.uid,
                gid: self.gid,
                atime: UNIX_EPOCH,
                mtime: UNIX_EPOCH,
                ctime: UNIX_EPOCH,
                links: 1,
                identity: 0,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_that_wait_are_shared_by_more_threads_and_end_in_time() {
        let us = Duration::from_micros;
        assert_eq!(Looks::plan(None, 180, 20_000), Looks { names: FIRST, helpers: 0 });
        assert_eq!(Looks::plan(None, 180, 3), Looks { names: 3, helpers: 0 });
        let far = Looks::plan(Some(us(50_000)), 180, 20_000);
        assert_eq!(far, Looks { names: 16, helpers: 15 });
        assert_eq!(Looks::plan(Some(us(50_000)), 180, 5), Looks { names: 5, helpers: 4 });
        let near = Looks::plan(Some(us(2)), 180, 20_000);
        assert_eq!(near.names, 180);
        assert!(near.helpers < processors());
        // Too few for a helper.
        assert_eq!(Looks::plan(Some(us(1)), 20, 20_000), Looks { names: 20, helpers: 0 });
        // More fit than was thought.
        assert_eq!(Looks::plan(Some(us(1)), 0, 20_000).names, FIRST);
        for each in [0, 1, 10, 100, 1000, 100_000, 10_000_000].map(us) {
            for (fits, left) in [(0, 1), (1, 1), (1000, 7), (1000, 100_000)] {
                let plan = Looks::plan(Some(each), fits, left);
                assert!((1..=left).contains(&plan.names) && plan.helpers < plan.names, "{plan:?}");
                let last = each * plan.names.div_ceil(plan.helpers + 1) as u32;
                assert!(plan.names == 1 || last <= MOST + 2 * each, "{each:?}: {plan:?}");
            }
        }
    }
}
