//! Pointers: which node's fast store has the newest object of a name, with several fast stores before one canonical store.
//!
//! Each shadow store has a random identity. While it has an object, the canonical store has a *pointer* to it under
//! `.thalweg-drain/at/`, with that identity as its bytes. Pointers are made exclusively, so that no two nodes
//! have objects of one name; a process that finds another node's pointer reports an error that names the node.
//!
//! | question | answer |
//! |----------|--------|
//! | made     | before the object is made in, or fetched to, the shadow store |
//! | removed  | after the object has left the shadow store: drained, removed, renamed |
//! | a crash  | may leave a pointer without an object; this node's next drain removes it |
//! | cost     | of making an object: one exclusive creation in the canonical store; of draining it: one read and one removal |
//! | a canonical store without exclusive creation | takes one shadow store; a second one is refused |
//!
//! The format is described in `docs/format/tiered.md`.

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
/// Longest description of a store, in bytes.
const LONGEST: usize = 4096;
/// Age after which an incomplete pointer is taken for one of a killed process, by a process that needs the name.
const PATIENCE: Duration = Duration::from_secs(2);
/// Age after which a drain removes an incomplete pointer.
const OLD: Duration = Duration::from_secs(300);

/// The identity of a shadow store.
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
    /// `Torn` if the bytes end early, `Unsupported` for a later version, `Corrupt` for bytes that are not an identity.
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

/// The shadow store that a pointer names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// This shadow store.
    Us,
    /// Another shadow store, with its description.
    Other(String),
    /// None: the pointer is being made, or its maker was killed.
    Nobody,
}

/// The pointers of a canonical store, as one shadow store sees them.
pub struct Pointers {
    canonical: Arc<dyn Store>,
    /// The identity of this shadow store.
    pub us: Identity,
    /// Pointers are used: the canonical store makes names exclusively.
    used: bool,
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

/// The object of a pointer's name; `None` for a folder.
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

/// A random number, hashed with PID and time.
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
    /// The pointers of this pair of stores. Registers a new shadow store with the canonical store; returns whether it was new, so that
    /// pointers to its objects are missing.
    ///
    /// - `_alone`: the lock of the shadow store.
    ///
    /// # Errors
    /// `Config` if the canonical store makes no names exclusively and has another shadow store; errors of [`Identity::decode`] and of the
    /// stores.
    pub fn new(shadow: &dyn Store, canonical: Arc<dyn Store>, _alone: &Lease) -> Result<(Pointers, bool)> {
        let known = match found(shadow.read_all(&identity_object()))? {
            Some(bytes) => Some(Identity::decode(&bytes).map_err(|e| e.in_object(identity_object()))?),
            None => None,
        };
        let used = canonical.capability().exclusive;
        if let Some(us) = known {
            return Ok((Pointers { canonical, us, used }, false));
        }
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let us = Identity { number: drawn(), shown: format!("{} on host {}", shadow.describe(), host.trim()) };
        let pointers = Pointers { canonical, us, used };
        pointers.canonical.make_folder(&register())?;
        put(&*pointers.canonical, &entry_of(pointers.us.number), &pointers.us.encode(), OpenWrite::New)?;
        if let (false, Some(other)) = (used, pointers.others()?.first()) {
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

    /// Records in the shadow store that it is registered, with pointers to all its objects.
    ///
    /// # Errors
    /// Errors of the shadow store; it is registered anew then.
    pub fn registered(&self, shadow: &dyn Store) -> Result<()> {
        let temporary = format!("{OURS}/journal-{}", unique());
        let object = shadow.open_write(&temporary, OpenWrite::New)?;
        object.write_at(0, &[IoSlice::new(&self.us.encode())])?;
        object.sync()?;
        object.close()?;
        shadow.rename(&temporary, &identity_object())?;
        shadow.sync_folder(OURS)
    }

    /// The other shadow stores that were ever before this canonical store and were not given up.
    ///
    /// # Errors
    /// Errors of the canonical store.
    /// # Cost
    /// A list, and a read for each.
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

    /// The shadow store that has the newest object of a name; `None`: the canonical store has it, or there is no such object.
    ///
    /// # Errors
    /// Errors of the canonical store; `Corrupt` or `Unsupported` naming a pointer.
    /// # Cost
    /// One read, as for all functions on one object.
    pub fn owner(&self, object: &str) -> Result<Option<Owner>> {
        if !self.used {
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
            // The pointer is being written.
            Err(e) if e.kind() == ErrorKind::Torn => (Owner::Nobody, 0),
            Err(e) => return Err(e.in_object(pointer)),
        }))
    }

    /// Fails if another shadow store has the newest object.
    ///
    /// - `kind`: of the error.
    ///
    /// # Errors
    /// `kind` naming that store; errors of the canonical store.
    pub fn not_elsewhere(&self, kind: ErrorKind, what: &str, object: &str) -> Result<()> {
        match self.owner(object)? {
            Some(Owner::Other(who)) => Err(elsewhere(kind, what, &who, object)),
            _ => Ok(()),
        }
    }

    /// Makes the pointer to an object before it is made in this shadow store. Under the lock of its name. Waits up to 2 s for an
    /// incomplete pointer of another process.
    ///
    /// # Errors
    /// `AlreadyExists` with `new`, else `Io`, naming the shadow store that has the object; errors of the canonical store.
    pub fn acquire(&self, what: &str, object: &str, new: bool) -> Result<()> {
        if !self.used {
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
                Some((Owner::Other(who), _)) => return Err(elsewhere(ErrorKind::Io, what, &who, object)),
                Some((Owner::Nobody, _)) if started.elapsed() > PATIENCE => {
                    // Its maker was killed; a maker that is alive fails, as the pointer is removed.
                    found(self.canonical.settle(&pointer))?;
                    found(self.canonical.remove(&pointer))?;
                }
                Some((Owner::Nobody, _)) => std::thread::sleep(Duration::from_millis(10)),
                None if started.elapsed() > PATIENCE * 5 => return Err(error),
                None => {}
            }
        }
    }

    /// Makes a pointer, atomically where the store can.
    fn put(&self, pointer: &str) -> Result<()> {
        if self.canonical.capability().attributes {
            match self.canonical.make_hard_link(&entry_of(self.us.number), pointer) {
                Ok(()) => return Ok(()),
                Err(e) if matches!(e.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) => {
                    // `NotFound` also if the entry of this shadow store was removed.
                    if e.kind() == ErrorKind::AlreadyExists
                        || found(self.canonical.stat(&entry_of(self.us.number)))?.is_some()
                    {
                        return Err(e);
                    }
                }
                // A filesystem without hard links, or with too many of this file.
                Err(_) => {}
            }
        }
        put(&*self.canonical, pointer, &self.us.encode(), OpenWrite::New)
    }

    /// Removes the pointer to an object that has left this shadow store. Under the lock of its name.
    ///
    /// # Errors
    /// Errors of the canonical store. The next drain removes the pointer.
    pub fn release(&self, object: &str) -> Result<()> {
        if self.used {
            found(self.canonical.remove(&pointer(object)))?;
        }
        Ok(())
    }

    /// Removes the folder of pointers of a removed folder, if it is empty.
    pub fn forget_folder(&self, folder: &str) {
        if self.used {
            let _ = self.canonical.remove(&pointer_folder(folder));
        }
    }

    /// Names in a folder that have a pointer.
    ///
    /// # Errors
    /// Errors of the canonical store.
    pub fn list(&self, folder: &str) -> Result<Vec<String>> {
        if !self.used {
            return Ok(Vec::new());
        }
        let entries = found(self.canonical.list(&pointer_folder(folder)))?.unwrap_or_default();
        Ok(entries.iter().filter_map(|entry| pointed(entry)).map(str::to_string).collect())
    }

    /// Calls `tell` for each object that has a pointer to shadow store `of`. Removes old incomplete pointers.
    ///
    /// # Errors
    /// The first error of `tell` or of the canonical store, which ends the walk.
    /// # Cost
    /// A list for each folder, a read for each pointer of any shadow store.
    pub fn each(&self, of: u128, tell: &mut dyn FnMut(&str) -> Result<()>) -> Result<()> {
        match self.used {
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

    /// Gives up the objects of a lost shadow store; returns how many. Older objects of the canonical store become visible.
    ///
    /// # Errors
    /// Errors of the canonical store. The call may be repeated.
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

/// The error for an object that another node has.
fn elsewhere(kind: ErrorKind, what: &str, who: &str, object: &str) -> Error {
    let what = format!("cannot {what}: its newest bytes are in the fast store {who}, which is not drained yet");
    Error::new(kind, what).in_object(object)
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
