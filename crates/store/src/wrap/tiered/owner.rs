//! Which fast store holds the newest copy of a name: fast stores of several nodes before one canonical store.
//!
//! Each shadow store has an identity, drawn once. While a shadow store holds an object, a *pointer* lies in the canonical
//! store, under `.thalweg-drain/at/`, whose bytes are that identity. Making the pointer is exclusive, so that no two nodes
//! hold objects of one name; whoever meets another node's pointer says so and never takes the object for absent.
//!
//! | question | answer |
//! |----------|--------|
//! | made     | before the object is made in, or fetched to, the shadow store |
//! | removed  | after the object left the shadow store: drained, removed, renamed away |
//! | a crash  | leaves a pointer of ours without an object, which the next drain of this node removes |
//! | cost     | an object's creation: one exclusive creation on the canonical store; its drain: one read, one removal |
//! | a canonical store without exclusive creation | takes one shadow store; a second one is refused |
//!
//! The bytes are described in `docs/format/tiered.md`.

use super::{OURS, found, unique};
use crate::{Lease, OpenWrite, Store, StoreExt, name};
use std::io::IoSlice;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_types::checksum::crc32c;
use thalweg_types::{Error, ErrorKind, Result};

/// The first bytes of an identity, and of each pointer.
pub const MAGIC: &[u8; 8] = b"THWGFAST";
/// The version of the format.
pub const VERSION: u32 = 1;
/// Longest text that tells people which store it is, in bytes.
const LONGEST: usize = 4096;
/// How long a pointer without bytes is taken for one that is being made.
const PATIENCE: Duration = Duration::from_secs(2);
/// After which one without all its bytes is removed by a drain.
const OLD: Duration = Duration::from_secs(300);

/// Who a shadow store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Drawn at random.
    pub number: u128,
    /// Host and store, for messages.
    pub shown: String,
}

impl Identity {
    /// The identity's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.number.to_le_bytes());
        let mut end = self.shown.len().min(LONGEST);
        while !self.shown.is_char_boundary(end) {
            end -= 1;
        }
        bytes.extend_from_slice(&(end as u32).to_le_bytes());
        bytes.extend_from_slice(&self.shown.as_bytes()[..end]);
        let checksum = crc32c(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads an identity back.
    ///
    /// # Errors
    /// `Torn` for bytes that end early, `Unsupported` for a later version, `Corrupt` for any others that are none.
    pub fn decode(bytes: &[u8]) -> Result<Identity> {
        let wrong = |kind, what: &str| Error::new(kind, what.to_string());
        let torn = || wrong(ErrorKind::Torn, "the identity of a fast store ends early");
        let (head, rest) = bytes.split_first_chunk::<32>().ok_or_else(torn)?;
        if head[..8] != *MAGIC {
            return Err(wrong(ErrorKind::Corrupt, "this is no identity of a fast store"));
        }
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        if number(8) != VERSION {
            let what =
                format!("the identity of a fast store is of version {}; this program knows {VERSION}", number(8));
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        let length = number(28) as usize;
        if length > LONGEST {
            return Err(wrong(ErrorKind::Corrupt, "the identity of a fast store claims too long a name"));
        }
        let (shown, checksum) = rest.split_at_checked(length).ok_or_else(torn)?;
        let checksum = checksum.first_chunk::<4>().ok_or_else(torn)?;
        if crc32c(&bytes[..32 + length]).to_le_bytes() != *checksum {
            return Err(wrong(ErrorKind::Corrupt, "the identity of a fast store does not match its checksum"));
        }
        let mut drawn = [0; 16];
        drawn.copy_from_slice(&head[12..28]);
        Ok(Identity { number: u128::from_le_bytes(drawn), shown: String::from_utf8_lossy(shown).into_owned() })
    }
}

/// Whose a pointer is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// This shadow store.
    Us,
    /// Another one: what tells people which.
    Other(String),
    /// It is being made, or its making was interrupted.
    Nobody,
}

/// The pointers of a canonical store, as one shadow store sees them.
pub struct Pointers {
    canonical: Arc<dyn Store>,
    /// Who we are.
    pub us: Identity,
    /// Pointers are kept at all: the canonical store can make names exclusively.
    kept: bool,
}

/// The shadow store's identity, in its own folder.
fn identity_object() -> String {
    format!("{OURS}/identity")
}

/// The folder of the canonical store that lists the shadow stores before it.
fn register() -> String {
    format!("{OURS}/shadows")
}

fn entry_of(number: u128) -> String {
    format!("{}/{number:032x}", register())
}

/// The folder of pointers to the objects of a folder. Folders begin with `+`, objects never do.
fn pointer_folder(folder: &str) -> String {
    let mut name = format!("{OURS}/at");
    for part in folder.split('/').filter(|part| !part.is_empty()) {
        name.push_str("/+");
        name.push_str(part);
    }
    name
}

fn pointer(object: &str) -> String {
    let last = name::last_part(object);
    let escape = if last.starts_with(['+', '-']) { "-" } else { "" };
    format!("{}/{escape}{last}", pointer_folder(name::folder_of(object)))
}

/// The object that a pointer's name stands for; `None` for a folder.
fn pointed(entry: &str) -> Option<&str> {
    match entry.as_bytes().first() {
        Some(b'+') => None,
        Some(b'-') => Some(&entry[1..]),
        _ => Some(entry),
    }
}

fn put(store: &dyn Store, name: &str, bytes: &[u8], how: OpenWrite) -> Result<()> {
    let object = store.open_write(name, how)?;
    object.write_at(0, &[IoSlice::new(bytes)])?;
    object.close()
}

/// A random number of the system's, and what tells this moment and process from others.
fn drawn() -> u128 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let half = || {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write(unique().as_bytes());
        hasher.finish()
    };
    u128::from(half()) << 64 | u128::from(half())
}

impl Pointers {
    /// Those of this pair of stores. Under the shadow store's lock that `_alone` is; the shadow store is registered where it is new.
    ///
    /// Returns whether the shadow store was new to the canonical one, so that what it holds is to be pointed to.
    ///
    /// # Errors
    /// `Config` where the canonical store takes one shadow store and has another; what the stores say.
    pub fn new(shadow: &dyn Store, canonical: Arc<dyn Store>, _alone: &Lease) -> Result<(Pointers, bool)> {
        let known = match found(shadow.read_all(&identity_object()))? {
            Some(bytes) => Some(Identity::decode(&bytes).map_err(|e| e.in_object(identity_object()))?),
            None => None,
        };
        let kept = canonical.capability().exclusive;
        if let Some(us) = known {
            return Ok((Pointers { canonical, us, kept }, false));
        }
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let us = Identity { number: drawn(), shown: format!("{} on host {}", shadow.describe(), host.trim()) };
        let pointers = Pointers { canonical, us, kept };
        pointers.canonical.make_folder(&register())?;
        put(&*pointers.canonical, &entry_of(pointers.us.number), &pointers.us.encode(), OpenWrite::New)?;
        if let (false, Some(other)) = (kept, pointers.others()?.first()) {
            let _ = pointers.canonical.remove(&entry_of(pointers.us.number));
            let what = format!(
                "store {} cannot be the canonical store of several fast stores: it lacks exclusive creation, and {} is before it already",
                pointers.canonical.describe(),
                other.shown
            );
            return Err(Error::new(ErrorKind::Config, what));
        }
        Ok((pointers, true))
    }

    /// Writes down that the shadow store is registered, and all that it holds is pointed to.
    pub fn registered(&self, shadow: &dyn Store) -> Result<()> {
        let temporary = format!("{OURS}/journal-{}", unique());
        let object = shadow.open_write(&temporary, OpenWrite::New)?;
        object.write_at(0, &[IoSlice::new(&self.us.encode())])?;
        object.sync()?;
        object.close()?;
        shadow.rename(&temporary, &identity_object())?;
        shadow.sync_folder(OURS)
    }

    /// The other shadow stores that were ever before this canonical store.
    pub fn others(&self) -> Result<Vec<Identity>> {
        let mut others = Vec::new();
        for entry in found(self.canonical.list(&register()))?.unwrap_or_default() {
            let Ok(number) = u128::from_str_radix(&entry, 16) else { continue };
            if number == self.us.number {
                continue;
            }
            let shown = match found(self.canonical.read_all(&entry_of(number)))? {
                Some(bytes) => Identity::decode(&bytes).map_or_else(|_| entry.clone(), |other| other.shown),
                None => continue,
            };
            others.push(Identity { number, shown });
        }
        Ok(others)
    }

    /// Whose the newest copy of an object is; `None`: the canonical store's, or there is no such object.
    pub fn owner(&self, object: &str) -> Result<Option<Owner>> {
        if !self.kept {
            return Ok(None);
        }
        self.read(&pointer(object)).map(|read| read.map(|(owner, _)| owner))
    }

    fn read(&self, pointer: &str) -> Result<Option<(Owner, u128)>> {
        let Some(bytes) = found(self.canonical.read_all(pointer))? else { return Ok(None) };
        if bytes.is_empty() {
            return Ok(Some((Owner::Nobody, 0)));
        }
        Ok(Some(match Identity::decode(&bytes) {
            Ok(who) if who.number == self.us.number => (Owner::Us, who.number),
            Ok(who) => (Owner::Other(who.shown), who.number),
            // Seen while it is written.
            Err(e) if e.kind() == ErrorKind::Torn => (Owner::Nobody, 0),
            Err(e) => return Err(e.in_object(pointer)),
        }))
    }

    /// Fails where another shadow store has the newest copy.
    ///
    /// # Errors
    /// `Io` naming that store.
    pub fn not_elsewhere(&self, what: &str, object: &str) -> Result<()> {
        match self.owner(object)? {
            Some(Owner::Other(who)) => Err(elsewhere(what, &who, object)),
            _ => Ok(()),
        }
    }

    /// Makes the pointer to an object that is about to be made in our shadow store. Under the lock of its name.
    ///
    /// # Errors
    /// `AlreadyExists` with `new`, else `Io`, naming the shadow store that has the object.
    pub fn acquire(&self, what: &str, object: &str, new: bool) -> Result<()> {
        if !self.kept {
            return Ok(());
        }
        let (pointer, started) = (pointer(object), Instant::now());
        loop {
            let error = match self.put(&pointer) {
                Ok(()) => return Ok(()),
                Err(e) if e.kind() == ErrorKind::AlreadyExists => e,
                Err(e) if e.kind() == ErrorKind::NotFound => {
                    self.canonical.make_folder(name::folder_of(&pointer))?;
                    e
                }
                Err(e) => return Err(e),
            };
            match self.read(&pointer)? {
                Some((Owner::Us, _)) => return Ok(()),
                Some((Owner::Other(who), _)) if new => {
                    let what = format!("cannot {what}: it is there, in the fast store {who}");
                    return Err(Error::new(ErrorKind::AlreadyExists, what).in_object(object));
                }
                Some((Owner::Other(who), _)) => return Err(elsewhere(what, &who, object)),
                Some((Owner::Nobody, _)) if started.elapsed() > PATIENCE => {
                    // Its maker died. One that lives after all fails, as its object is taken away.
                    found(self.canonical.settle(&pointer))?;
                    found(self.canonical.remove(&pointer))?;
                }
                Some((Owner::Nobody, _)) => std::thread::sleep(Duration::from_millis(10)),
                None if started.elapsed() > PATIENCE * 5 => return Err(error),
                None => {}
            }
        }
    }

    /// Makes a pointer, whole at once where the store can.
    fn put(&self, pointer: &str) -> Result<()> {
        if self.canonical.capability().attributes {
            match self.canonical.make_hard_link(&entry_of(self.us.number), pointer) {
                Ok(()) => return Ok(()),
                Err(e) if matches!(e.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) => {
                    // Also where our entry is not there any more.
                    if e.kind() == ErrorKind::AlreadyExists
                        || found(self.canonical.stat(&entry_of(self.us.number)))?.is_some()
                    {
                        return Err(e);
                    }
                }
                // A filesystem without second names, or with no more of them.
                Err(_) => {}
            }
        }
        put(&*self.canonical, pointer, &self.us.encode(), OpenWrite::New)
    }

    /// Removes the pointer to an object that our shadow store has no longer. Under the lock of its name.
    pub fn release(&self, object: &str) -> Result<()> {
        if self.kept {
            found(self.canonical.remove(&pointer(object)))?;
        }
        Ok(())
    }

    /// Removes the pointers' folder of a folder that is removed; one that is not empty stays.
    pub fn forget_folder(&self, folder: &str) {
        if self.kept {
            let _ = self.canonical.remove(&pointer_folder(folder));
        }
    }

    /// Names in a folder that have a pointer.
    pub fn list(&self, folder: &str) -> Result<Vec<String>> {
        if !self.kept {
            return Ok(Vec::new());
        }
        let entries = found(self.canonical.list(&pointer_folder(folder)))?.unwrap_or_default();
        Ok(entries.iter().filter_map(|entry| pointed(entry)).map(str::to_string).collect())
    }

    /// Tells the objects that one shadow store has a pointer to, all folders down. Pointers whose making was interrupted
    /// long ago are removed on the way.
    pub fn each(&self, of: u128, tell: &mut dyn FnMut(&str) -> Result<()>) -> Result<()> {
        match self.kept {
            true => self.walk("", of, tell),
            false => Ok(()),
        }
    }

    fn walk(&self, folder: &str, of: u128, tell: &mut dyn FnMut(&str) -> Result<()>) -> Result<()> {
        let here = pointer_folder(folder);
        for entry in found(self.canonical.list(&here))?.unwrap_or_default() {
            let inside = |name: &str| if folder.is_empty() { name.to_string() } else { format!("{folder}/{name}") };
            match pointed(&entry) {
                None => self.walk(&inside(&entry[1..]), of, tell)?,
                Some(name) => {
                    let pointer = format!("{here}/{entry}");
                    match self.read(&pointer)? {
                        Some((Owner::Nobody, _)) if self.is_old(&pointer)? => {
                            found(self.canonical.settle(&pointer))?;
                            found(self.canonical.remove(&pointer))?;
                        }
                        Some((_, number)) if number == of => tell(&inside(name))?,
                        _ => {}
                    }
                }
            }
        }
        Ok(())
    }

    fn is_old(&self, pointer: &str) -> Result<bool> {
        let Some(object) = found(self.canonical.open_read(pointer))? else { return Ok(false) };
        let modified = object.life()?.modified;
        Ok(modified.is_some_and(|time| time.elapsed().is_ok_and(|age| age > OLD)))
    }

    /// Gives up what a shadow store held that is lost for good; returns how many objects.
    pub fn forget(&self, lost: u128) -> Result<u64> {
        let mut names = Vec::new();
        self.each(lost, &mut |name| {
            names.push(name.to_string());
            Ok(())
        })?;
        for name in &names {
            found(self.canonical.remove(&pointer(name)))?;
        }
        found(self.canonical.remove(&entry_of(lost)))?;
        Ok(names.len() as u64)
    }
}

/// What is said of an object that lies on another node.
fn elsewhere(what: &str, who: &str, object: &str) -> Error {
    let what = format!("cannot {what}: its newest bytes are in the fast store {who}, which is not drained yet");
    Error::new(ErrorKind::Io, what).in_object(object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_identity_comes_back_and_a_changed_one_is_noticed(number: u128, shown in ".{0,60}", at: prop::sample::Index, bit in 0..8u8) {
            let identity = Identity { number, shown };
            let mut bytes = identity.encode();
            prop_assert_eq!(Identity::decode(&bytes).unwrap(), identity);
            let at = at.index(bytes.len());
            prop_assert!(Identity::decode(&bytes[..at]).is_err());
            bytes[at] ^= 1 << bit;
            prop_assert!(Identity::decode(&bytes).is_err());
        }

        #[test]
        fn no_two_objects_or_folders_share_a_pointer(a in "[+a-]{1,3}(/[+a-]{1,3}){0,2}", b in "[+a-]{1,3}(/[+a-]{1,3}){0,2}") {
            prop_assert_eq!(pointer(&a) == pointer(&b), a == b);
            prop_assert!(pointer(&a) != pointer_folder(&b));
            let of_a = pointer(&a);
            prop_assert_eq!(pointed(name::last_part(&of_a)), Some(name::last_part(&a)));
        }
    }
}
