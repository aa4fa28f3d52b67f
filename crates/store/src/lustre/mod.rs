//! Lustre: the number of storage targets of a filesystem, and files with all bytes on a chosen target.
//!
//! | step | call |
//! |---|---|
//! | is it Lustre | `statfs` of the folder: type 0x0BD00BD0 |
//! | number of targets | `ioctl` 0x800866A8 (`LL_IOC_GETOBDCOUNT`) on the folder, with the argument 0: targets of data |
//! | make the file | `open` with `O_LOV_DELAY_CREATE`: the file has no layout until its first byte or the next call |
//! | set the layout | `ioctl` 0x4008669A (`LL_IOC_LOV_SETSTRIPE`) on the file, with the bytes below |
//!
//! | byte | size | field |
//! |---|---|---|
//! | 0 | 4 | 0x0BD10BD0 |
//! | 4 | 4 | pattern, 1: striped |
//! | 8 | 16 | 0 |
//! | 24 | 4 | stripe size, a multiple of 64 KiB |
//! | 28 | 2 | stripes, 1 |
//! | 30 | 2 | first target |
//!
//! Since Lustre 2.4 `O_LOV_DELAY_CREATE` is `O_NOCTTY | O_ASYNC`, which have no effect on files elsewhere. Tests compare the calls and
//! their order with the manual; they have not run on Lustre.
//!
//! Source: Lustre Operations Manual, setting stripes; the constants are those of its public header `lustre_user.h`.

use std::fs::{self, File};
use std::io;
use std::path::Path;

mod system;

pub use system::System;

/// Type of the filesystem in `statfs`.
const LUSTRE: u64 = 0x0BD0_0BD0;
const GET_COUNT: u64 = 0x8008_66A8;
const SET_STRIPE: u64 = 0x4008_669A;
/// Stripe sizes are multiples of this.
const STEP: u64 = 64 << 10;

/// The system calls, so that a test can observe them.
pub trait Calls {
    /// Type of the filesystem of a path.
    ///
    /// # Errors
    /// The system's.
    fn filesystem(&self, path: &Path) -> io::Result<u64>;
    /// Opens a folder.
    ///
    /// # Errors
    /// The system's.
    fn open_folder(&self, path: &Path) -> io::Result<File>;
    /// Makes a new file without a layout.
    ///
    /// # Errors
    /// The system's; `AlreadyExists` if the name is taken.
    fn make_delayed(&self, path: &Path) -> io::Result<File>;
    /// A control call; the filesystem reads the argument and may change it.
    ///
    /// # Errors
    /// The system's; a filesystem without this call refuses it.
    fn control(&self, file: &File, request: u64, argument: &mut [u8]) -> io::Result<()>;
}

/// The number of storage targets of a folder's filesystem; `None` if it is not Lustre.
///
/// # Errors
/// The system's.
/// # Cost
/// A `statfs`; on Lustre also an open and a control call.
pub fn targets(calls: &impl Calls, folder: &Path) -> io::Result<Option<u32>> {
    if calls.filesystem(folder)? != LUSTRE {
        return Ok(None);
    }
    let mut count = [0; 8];
    calls.control(&calls.open_folder(folder)?, GET_COUNT, &mut count)?;
    Ok(u32::try_from(i32::from_ne_bytes([count[0], count[1], count[2], count[3]])).ok().filter(|n| *n > 0))
}

/// Makes a file, in place of an existing one, with one stripe on `target`. `false`, and nothing done, if the filesystem
/// is not Lustre.
///
/// - `stripe`: stripe size in bytes, rounded up to a multiple of 64 KiB.
///
/// # Errors
/// `InvalidInput`, nothing done, for a target above 65534 or a stripe of 4 GiB or more; the system's errors, after which the name may be
/// free or lead to an empty file of another layout.
pub fn make_on(calls: &impl Calls, path: &Path, target: u32, stripe: u64) -> io::Result<bool> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if calls.filesystem(folder)? != LUSTRE {
        return Ok(false);
    }
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, what.to_string());
    let target = u16::try_from(target).ok().filter(|t| *t < u16::MAX);
    let target = target.ok_or_else(|| invalid("no such storage target"))?;
    let stripe = stripe.max(1).checked_next_multiple_of(STEP).and_then(|s| u32::try_from(s).ok());
    let stripe = stripe.ok_or_else(|| invalid("a stripe of 4 GiB or more"))?;
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let file = calls.make_delayed(path)?;
    let mut layout = [0; 32];
    layout[0..4].copy_from_slice(&0x0BD1_0BD0u32.to_ne_bytes());
    layout[4..8].copy_from_slice(&1u32.to_ne_bytes());
    layout[24..28].copy_from_slice(&stripe.to_ne_bytes());
    layout[28..30].copy_from_slice(&1u16.to_ne_bytes());
    layout[30..32].copy_from_slice(&target.to_ne_bytes());
    calls.control(&file, SET_STRIPE, &mut layout)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// Answers like a Lustre with 672 targets, and records requests.
    struct Recorded {
        filesystem: u64,
        asked: RefCell<Vec<String>>,
    }

    impl Recorded {
        fn of(filesystem: u64) -> Recorded {
            Recorded { filesystem, asked: RefCell::default() }
        }
        fn note(&self, what: String) {
            self.asked.borrow_mut().push(what);
        }
    }

    fn last(path: &Path) -> String {
        path.file_name().unwrap().to_string_lossy().into_owned()
    }

    impl Calls for Recorded {
        fn filesystem(&self, path: &Path) -> io::Result<u64> {
            self.note(format!("statfs {}", last(path)));
            Ok(self.filesystem)
        }
        fn open_folder(&self, path: &Path) -> io::Result<File> {
            self.note(format!("open folder {}", last(path)));
            System.open_folder(path)
        }
        fn make_delayed(&self, path: &Path) -> io::Result<File> {
            self.note(format!("open {} O_CREAT|O_EXCL|O_LOV_DELAY_CREATE", last(path)));
            System.make_delayed(path)
        }
        fn control(&self, _: &File, request: u64, argument: &mut [u8]) -> io::Result<()> {
            let bytes: String = argument.iter().map(|b| format!("{b:02x}")).collect();
            self.note(format!("ioctl {request:#x} {bytes}"));
            if request == GET_COUNT {
                argument[..4].copy_from_slice(&672i32.to_ne_bytes());
            }
            Ok(())
        }
    }

    fn folder() -> (thalweg_conformance::scratch::Scratch, std::path::PathBuf) {
        let scratch = thalweg_conformance::scratch::Scratch::new();
        let folder = scratch.join("f");
        fs::create_dir(&folder).unwrap();
        (scratch, folder)
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn the_layout_is_set_before_the_first_byte_by_these_calls_and_no_others() {
        let (_scratch, folder) = folder();
        fs::write(folder.join("x"), b"from before").unwrap();
        let lustre = Recorded::of(LUSTRE);
        assert!(make_on(&lustre, &folder.join("x"), 671, 100_000).unwrap());
        assert_eq!(targets(&lustre, &folder).unwrap(), Some(672));
        let expected = [
            "statfs f",
            "open x O_CREAT|O_EXCL|O_LOV_DELAY_CREATE",
            concat!(
                "ioctl 0x4008669a ",
                "d00bd10b01000000",
                "00000000000000000000000000000000",
                "00000200",
                "0100",
                "9f02"
            ),
            "statfs f",
            "open folder f",
            "ioctl 0x800866a8 0000000000000000",
        ];
        assert_eq!(*lustre.asked.borrow(), expected);
        assert_eq!(fs::read(folder.join("x")).unwrap(), b"");
    }

    #[test]
    fn another_filesystem_is_asked_for_its_type_and_nothing_else() {
        let (_scratch, folder) = folder();
        fs::write(folder.join("x"), b"from before").unwrap();
        let other = Recorded::of(0xEF53);
        assert!(!make_on(&other, &folder.join("x"), 0, 1).unwrap());
        assert_eq!(targets(&other, &folder).unwrap(), None);
        assert_eq!(*other.asked.borrow(), ["statfs f", "statfs f"]);
        assert_eq!(fs::read(folder.join("x")).unwrap(), b"from before");
        // And so are those of this machine.
        assert_eq!(targets(&System, &folder).unwrap(), None);
    }

    #[test]
    fn what_a_layout_cannot_hold_is_refused_before_anything_is_removed() {
        let (_scratch, folder) = folder();
        fs::write(folder.join("x"), b"from before").unwrap();
        let lustre = Recorded::of(LUSTRE);
        for (target, stripe) in [(65_535, 1), (u32::MAX, 1), (0, 1 << 32)] {
            let refused = make_on(&lustre, &folder.join("x"), target, stripe).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
        }
        assert_eq!(fs::read(folder.join("x")).unwrap(), b"from before");
    }

    #[test]
    fn a_filesystem_that_knows_no_such_call_says_so() {
        let (_scratch, folder) = folder();
        let file = System.make_delayed(&folder.join("x")).unwrap();
        assert!(System.control(&file, SET_STRIPE, &mut [0; 32]).is_err());
        assert!(System.make_delayed(&folder.join("x")).is_err());
    }
}
