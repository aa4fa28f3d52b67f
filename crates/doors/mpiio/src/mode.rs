//! Access modes: the `amode` of `MPI_File_open`.

use crate::class::{Class, Failure, Outcome};
use thalweg_open_file::Access;

/// The bits, as `mpi/thalweg_mpiio.h` numbers them: MPIs have numbers of their own.
const BITS: [(u32, &str); 9] = [
    (1, "MPI_MODE_RDONLY"),
    (2, "MPI_MODE_WRONLY"),
    (4, "MPI_MODE_RDWR"),
    (8, "MPI_MODE_CREATE"),
    (16, "MPI_MODE_EXCL"),
    (32, "MPI_MODE_DELETE_ON_CLOSE"),
    (64, "MPI_MODE_UNIQUE_OPEN"),
    (128, "MPI_MODE_SEQUENTIAL"),
    (256, "MPI_MODE_APPEND"),
];

/// An access mode that MPI allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mode(u32);

impl Mode {
    /// - `bits`: those of `mpi/thalweg_mpiio.h`.
    ///
    /// # Errors
    /// `Mode` for combinations that MPI forbids.
    pub fn of_bits(bits: u32) -> Outcome<Mode> {
        let names = || {
            let set: Vec<&str> = BITS.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| *name).collect();
            if set.is_empty() { "no access mode".to_owned() } else { set.join(" | ") }
        };
        let refused = |why: &str| Err(Failure::new(Class::Mode, format!("{}: {why}", names())));
        let mode = Mode(bits);
        if (bits & 7).count_ones() != 1 || bits >= 512 {
            return refused("a file is opened with exactly one of MPI_MODE_RDONLY, MPI_MODE_WRONLY, MPI_MODE_RDWR");
        }
        if !mode.writes() && bits & (8 | 16) != 0 {
            return refused("a file is created only where it is opened for writing");
        }
        if mode.reads() && mode.writes() && mode.is_sequential() {
            return refused("a sequential file is either read or written");
        }
        Ok(mode)
    }

    /// The bits.
    pub fn bits(self) -> u32 {
        self.0
    }

    fn has(self, bit: u32) -> bool {
        self.0 & bit != 0
    }

    /// `MPI_MODE_RDONLY` or `MPI_MODE_RDWR`.
    pub fn reads(self) -> bool {
        self.has(1 | 4)
    }

    /// `MPI_MODE_WRONLY` or `MPI_MODE_RDWR`.
    pub fn writes(self) -> bool {
        self.has(2 | 4)
    }

    /// `MPI_MODE_CREATE`.
    pub fn creates(self) -> bool {
        self.has(8)
    }

    /// `MPI_MODE_DELETE_ON_CLOSE`.
    pub fn deletes(self) -> bool {
        self.has(32)
    }

    /// `MPI_MODE_SEQUENTIAL`.
    pub fn is_sequential(self) -> bool {
        self.has(128)
    }

    /// `MPI_MODE_APPEND`: pointers begin at the end of the file.
    pub fn appends(self) -> bool {
        self.has(256)
    }

    /// How a rank opens the file.
    ///
    /// - `makes`: whether this rank creates it, if it is to be created: one rank does, before the others open it.
    pub fn access(self, makes: bool) -> Access {
        Access {
            // Layouts read bytes back to a writer too.
            read: self.reads(),
            write: self.writes(),
            create: makes && self.creates(),
            exclusive: makes && self.has(16),
            ..Access::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_that_mpi_forbids_are_refused_by_name() {
        for bits in [0, 3, 5, 6, 7, 1 | 8, 1 | 16, 4 | 128, 512 | 1] {
            let failure = Mode::of_bits(bits).unwrap_err();
            assert_eq!(failure.class, Class::Mode, "{bits}");
        }
        let text = Mode::of_bits(1 | 8).unwrap_err().to_string();
        assert!(text.contains("MPI_MODE_RDONLY | MPI_MODE_CREATE"), "{text}");
        for bits in [1, 2, 4, 2 | 8, 4 | 8 | 16 | 32 | 64 | 256, 1 | 128, 2 | 128 | 8] {
            assert_eq!(Mode::of_bits(bits).unwrap().bits(), bits);
        }
    }

    #[test]
    fn one_rank_creates_the_file_and_the_others_open_it() {
        let mode = Mode::of_bits(4 | 8 | 16).unwrap();
        let first = mode.access(true);
        assert!(first.create && first.exclusive && first.read && first.write);
        let other = mode.access(false);
        assert!(!other.create && !other.exclusive && other.write);
    }
}
