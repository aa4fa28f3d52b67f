//! The synopsis of a file: what an open far away needs, in one object whose name follows from the file's.
//!
//! | question | answer |
//! |----------|--------|
//! | what it saves | an open reads the name, then lists the marks of the container that it names, then reads the index logs, then the end of the file: four times the way to the service. With a synopsis everything is asked for at once |
//! | the guess | the upper half of a container's number follows from the name under which the file was made ([`half`]), so that the marks can be listed before the name is read. A file that was renamed is opened as if there were no guess |
//! | is it of now | the marks were listed after the open began. A synopsis counts only if it covers exactly these marks, all of them closed; so it may be old, missing or another file's without harm |
//! | who writes it | a writer that closes a file for good ([`Layout::write_synopsis`](crate::Layout::write_synopsis)); each one replaces the last |
//! | which files | those of containers with packed sessions, over one store |
//! | bundles  | their heads are in the synopsis: an open reads none of them. They never change, so a synopsis of before still has those of bundles that are still there |
//! | memory   | at most 128 KiB of each open file, and its index |
//!
//! | byte | size | field |
//! |------|------|-------|
//! | 0 | 8 | `TWSYNOPS` |
//! | 8 | 4 | version, 1 |
//! | 12 | 8 | length of the file |
//! | 20 | ... | last bytes of the file, counted |
//! | ... | ... | number of bundles, varint; of each the name and the head (`packed`), counted |
//! | ... | ... | a [`super::snapshot`], counted |
//! | -4 | 4 | CRC-32C of all before |

use super::objects;
use super::place::{HIDDEN, folder};
use super::snapshot::{self, Snapshot};
use super::stamp::Stamp;
use super::wire::{Cursor, bad, put_counted, put_varint, seal, sealed};
use super::{Container, load, packed};
use thalweg_store::fresh;
use thalweg_types::{ErrorKind, Result};

/// Most bytes of the end of a file that are in its synopsis.
const MOST_END: u64 = 128 << 10;
/// Most bytes of a synopsis: more take longer to read than the requests that they save.
const MOST: usize = 4 << 20;

/// What an open needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Synopsis {
    /// Marks that it covers, and the content of their index logs.
    pub snapshot: Snapshot,
    /// Length of the file.
    pub length: u64,
    /// The file's last bytes.
    pub end: End,
    /// Names and heads of the container's bundles.
    pub heads: Vec<(String, Vec<u8>)>,
}

/// The last bytes of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// Place of the first of them.
    pub start: u64,
    /// They.
    pub bytes: Vec<u8>,
}

impl End {
    /// Bytes of the file, if all of them are here.
    pub fn get(&self, offset: u64, count: usize) -> Option<&[u8]> {
        let from = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        self.bytes.get(from..from.checked_add(count)?)
    }
}

impl Synopsis {
    /// The object's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = b"TWSYNOPS".to_vec();
        out.extend_from_slice(&1u32.to_le_bytes());
        out.extend_from_slice(&self.length.to_le_bytes());
        put_counted(&mut out, &self.end.bytes);
        put_varint(&mut out, self.heads.len() as u64);
        for (name, head) in &self.heads {
            put_counted(&mut out, name.as_bytes());
            put_counted(&mut out, head);
        }
        put_counted(&mut out, &self.snapshot.encode());
        seal(&mut out);
        out
    }

    /// Decodes a synopsis.
    ///
    /// # Errors
    /// As [`Snapshot::decode`].
    pub fn decode(bytes: &[u8]) -> Result<Synopsis> {
        let mut c = Cursor::new(sealed(bytes, "synopsis")?);
        if c.take(8, "synopsis")? != b"TWSYNOPS" {
            return Err(bad(ErrorKind::Corrupt, "this is no synopsis").at_byte(0));
        }
        let version = c.u32("version")?;
        if version != 1 {
            return Err(bad(ErrorKind::Unsupported, format!("synopsis version {version}, known is 1")).at_byte(8));
        }
        let length = c.u64("length of the file")?;
        let bytes = c.counted("end of the file")?.to_vec();
        let count = c.varint("bundles")?;
        let head = |c: &mut Cursor<'_>| Ok((c.text("name of a bundle")?, c.counted("head of a bundle")?.to_vec()));
        let heads = (0..count).map(|_| head(&mut c)).collect::<Result<Vec<_>>>()?;
        let snapshot = Snapshot::decode(c.counted("snapshot")?)?;
        let start = length.checked_sub(bytes.len() as u64);
        let Some(start) = start.filter(|_| c.is_empty()) else {
            return Err(bad(ErrorKind::Corrupt, "a synopsis of impossible content").at_byte(12));
        };
        Ok(Synopsis { snapshot, length, end: End { start, bytes }, heads })
    }
}

const HALF: crc::Crc<u64> = crc::Crc::<u64>::new(&crc::CRC_64_NVME);

/// The upper half of the number of a container that is made for a name of the store.
pub fn half(path: &str) -> u64 {
    HALF.checksum(path.as_bytes())
}

/// The name of the synopsis of a file whose container's number has this upper half.
pub fn name(half: u64) -> String {
    let half = format!("{half:016x}");
    format!("{HIDDEN}/e/{}/{half}", &half[..2])
}

/// What was read while a name was looked up.
pub(super) struct Guess {
    half: u64,
    /// Objects in folders of containers of that half; `None` where the store cannot list them.
    names: Option<Vec<String>>,
    synopsis: Option<Vec<u8>>,
}

/// What was read of a container before its number was known.
#[derive(Default)]
pub struct Guessed {
    /// Names in its folder of marks; `None`: they are to be listed.
    pub names: Option<Vec<String>>,
    /// The object under the name of its synopsis.
    pub synopsis: Option<Vec<u8>>,
}

impl Guess {
    /// What was read of the container of this stamp, if it was guessed.
    pub fn of(self, stamp: &Stamp) -> Option<Guessed> {
        if !stamp.packed || (stamp.container >> 64) as u64 != self.half {
            return None;
        }
        let marks = format!("{}/m/", folder(stamp.container));
        let inside = |names: Vec<String>| -> Vec<String> {
            let names = names.iter().filter_map(|name| name.strip_prefix(&marks));
            names.filter(|name| !name.contains('/')).map(str::to_string).collect()
        };
        Some(Guessed { names: self.names.map(inside), synopsis: self.synopsis })
    }
}

impl Container {
    /// Whether containers are found by a guess: where a request takes long, and one list shows the marks of a container.
    pub(super) fn guesses(&self) -> bool {
        self.stores.all().count() == 1 && self.first().request_cost() > 0 && packed::can(&**self.first())
    }

    /// Makes a call that looks a name up. Meanwhile, marks of containers that were made for this name are listed, and its synopsis is read.
    ///
    /// - `whole`: the synopsis too.
    pub(super) fn while_guessed<T>(&self, path: &str, whole: bool, call: impl FnOnce() -> T) -> (T, Option<Guess>) {
        let half = half(path);
        let is_open =
            || self.files.lock().iter().any(|(number, file)| (number >> 64) as u64 == half && file.strong_count() > 0);
        if !self.guesses() || is_open() {
            return (call(), None);
        }
        let first = self.first();
        // A failure of either is met again by those who need the answer.
        let list = || {
            let number = u128::from(half) << 64;
            let containers = folder(number);
            first.list_beginning(&containers[..containers.len() - 16]).ok().flatten()
        };
        let read = || first.first_if_there(&name(half), MOST).ok().flatten();
        std::thread::scope(|scope| {
            let list = std::thread::Builder::new().spawn_scoped(scope, list).ok();
            let read = whole.then(|| std::thread::Builder::new().spawn_scoped(scope, read).ok()).flatten();
            let outcome = call();
            let names = list.and_then(|thread| thread.join().ok().flatten());
            let synopsis = read.and_then(|thread| thread.join().ok().flatten());
            (outcome, Some(Guess { half, names, synopsis }))
        })
    }

    /// Stores the synopsis of a file, if readers would find it and it is not there.
    pub(super) fn put_synopsis(&self, path: &str) -> Result<()> {
        if !self.guesses() {
            return Ok(());
        }
        let file = self.look_to_read(path)?;
        let place = &file.place;
        let is_guessed = place.stamp.packed && (place.stamp.container >> 64) as u64 == half(path);
        if !is_guessed || file.is_written() || file.at_hand() > 0 {
            return Ok(());
        }
        let marks = file.marks();
        let Some(covers) = snapshot::covers(&marks).filter(|covers| !covers.is_empty()) else { return Ok(()) };
        let index = load::gathered(place, &marks)?;
        let length = file.length()?;
        let mut bytes = vec![0; length.min(MOST_END) as usize];
        let start = length - bytes.len() as u64;
        let read = file.read(start, &mut bytes)?;
        // Written meanwhile: the file is still in use.
        if read < bytes.len() || file.marks() != marks {
            return Ok(());
        }
        let snapshot = Snapshot { container: place.stamp.container, covers, index };
        let synopsis = Synopsis { snapshot, length, end: End { start, bytes }, heads: place.heads()? }.encode();
        if synopsis.len() > MOST {
            return Ok(());
        }
        let (store, name) = (&**self.first(), name(half(path)));
        store.make_folder(&name[..name.len() - 17])?;
        let temporary = format!("{HIDDEN}/{}{:016x}", objects::TEMPORARY, fresh());
        objects::put_whole(store, &temporary, &name, &synopsis, 0o666)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::parallel::Fragment;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn synopses_come_back_and_a_changed_byte_is_noticed(before in 0..1u64 << 40, bytes: Vec<u8>, heads: Vec<(String, Vec<u8>)>, at: prop::sample::Index, by in 1..=255u8) {
            let snapshot = Snapshot { container: 9, covers: vec!["c-1".into()], index: Fragment::default() };
            let synopsis = Synopsis { snapshot, length: before + bytes.len() as u64, end: End { start: before, bytes }, heads };
            let mut encoded = synopsis.encode();
            prop_assert_eq!(&Synopsis::decode(&encoded).unwrap(), &synopsis);
            let at = at.index(encoded.len());
            encoded[at] ^= by;
            prop_assert!(Synopsis::decode(&encoded).is_err());
        }

        #[test]
        fn no_bytes_are_a_synopsis_by_chance(bytes: Vec<u8>) {
            prop_assert!(Synopsis::decode(&bytes).is_err());
        }
    }

    #[test]
    fn bytes_are_given_only_where_all_of_them_are_there() {
        let end = End { start: 100, bytes: (0..10).collect() };
        assert_eq!(end.get(103, 2), Some(&[3, 4][..]));
        assert_eq!((end.get(99, 2), end.get(109, 2), end.get(u64::MAX, 1)), (None, None, None));
    }

    #[test]
    fn a_name_says_where_the_marks_of_its_container_are() {
        let number = u128::from(half("runs/a.bp")) << 64 | 77;
        let listed = format!("{}/m/stamp", folder(number));
        let stamp = |number| Stamp {
            container: number,
            module: crate::container::Module::Pattern,
            folders: 1,
            mode: 0,
            uid: 0,
            gid: 0,
            made: 0,
            stores: vec![(1, String::new())],
            home: 0,
            link: None,
            tail: false,
            packed: true,
        };
        let guess = || Guess { half: half("runs/a.bp"), names: Some(vec![listed.clone()]), synopsis: None };
        assert_eq!(guess().of(&stamp(number)).unwrap().names.unwrap(), ["stamp"]);
        // Made for the same name before, or for another one.
        assert_eq!(guess().of(&stamp(number + 1)).unwrap().names.unwrap(), Vec::<String>::new());
        assert!(guess().of(&stamp(u128::from(half("runs/b.bp")) << 64 | 77)).is_none());
    }
}
