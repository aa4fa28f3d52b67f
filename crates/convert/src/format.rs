//! The format of a file, by its name.

use serde::{Deserialize, Serialize};
use std::path::Path;

/// A format of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Format {
    /// BP version 3.
    Bp,
    /// HDF5; a netCDF-4 file is one, too.
    Hdf5,
    /// Zarr, in a folder.
    Zarr,
    /// A table as text.
    Csv,
    /// A table in Parquet's format.
    Parquet,
}

/// Endings of names, and what they mean.
pub const ENDINGS: [(&str, Format); 10] = [
    ("bp", Format::Bp),
    ("h5", Format::Hdf5),
    ("hdf5", Format::Hdf5),
    ("he5", Format::Hdf5),
    ("nc", Format::Hdf5),
    ("nc4", Format::Hdf5),
    ("cdf", Format::Hdf5),
    ("zarr", Format::Zarr),
    ("csv", Format::Csv),
    ("parquet", Format::Parquet),
];

impl Format {
    /// Whether files of it are written and not read.
    pub fn is_table(self) -> bool {
        matches!(self, Format::Csv | Format::Parquet)
    }

    /// The format that the ending of a name means, in any letter case.
    pub fn of(path: &Path) -> Option<Format> {
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        ENDINGS.iter().find(|(known, _)| *known == ending).map(|(_, format)| *format)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_of_a_name_says_the_format() {
        let of = |name: &str| Format::of(Path::new(name));
        assert_eq!(of("a/run.bp"), Some(Format::Bp));
        assert_eq!(
            (of("run.H5"), of("run.nc"), of("x.y.hdf5")),
            (Some(Format::Hdf5), Some(Format::Hdf5), Some(Format::Hdf5))
        );
        assert_eq!(of("run.zarr/"), Some(Format::Zarr));
        assert_eq!((of("run"), of("run.txt"), of(".bp")), (None, None, None));
    }
}
