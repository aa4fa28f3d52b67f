//! Loads of collective MPI-IO calls: the bytes of one file that each rank writes, and later reads, as views.
//!
//! | load | file | calls | a rank's bytes |
//! |---|---|---|---|
//! | BTIO | a cube of cells of five doubles, one behind the other for each output | five writes, then five reads | of q x q ranks, each has q boxes along a diagonal of the cube |
//! | MPI-Tile-IO | a two-dimensional array, 1 GiB for any number of ranks | one write, then one read | one tile, whose rows have 4 KiB |
//!
//! Source: Isaila et al., *AHPIOS*, section 4. Sizes of BTIO are those of the NAS parallel benchmarks: 102 cells per edge in class B,
//! 162 in class C. The paper does not state the tiles' grid: here it is as square as the number of ranks permits, wider than high.

use std::ops::Range;
use thalweg_types::{Error, ErrorKind, Result};
use thalweg_view::{Block, Datatype, Order, Pattern, View};

/// Bytes of a cell of BTIO: five doubles.
pub const CELL_BYTES: u64 = 40;
/// Outputs of BTIO: one in every five of 25 steps.
pub const OUTPUTS: u32 = 5;
/// Bytes of a row of a tile.
pub const ROW_BYTES: u64 = 4096;

/// What the ranks write and read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// NAS BTIO, "full MPI" version.
    Btio {
        /// Cells per edge of the cube.
        edge: u64,
    },
    /// MPI-Tile-IO.
    Tile {
        /// Bytes of all ranks together.
        bytes: u64,
    },
}

/// The loads that have a name: name, title, load.
pub const LOADS: [(&str, &str, Load); 3] = [
    ("btio-b", "BTIO class B", Load::Btio { edge: 102 }),
    ("btio-c", "BTIO class C", Load::Btio { edge: 162 }),
    ("tile", "MPI-Tile-IO, 1 GiB", Load::Tile { bytes: 1 << 30 }),
];

/// The load of a name, with its title.
///
/// # Errors
/// `NotFound` lists the known loads.
pub fn named(name: &str) -> Result<(&'static str, Load)> {
    match LOADS.iter().find(|(known, ..)| known.eq_ignore_ascii_case(name)) {
        Some((_, title, load)) => Ok((title, *load)),
        None => {
            let known: Vec<&str> = LOADS.iter().map(|(name, ..)| *name).collect();
            Err(Error::new(ErrorKind::NotFound, format!("no load '{name}'; loads: {}", known.join(", "))))
        }
    }
}

impl Load {
    /// Collective writes, and collective reads after them.
    pub fn calls(self) -> u32 {
        match self {
            Load::Btio { .. } => OUTPUTS,
            Load::Tile { .. } => 1,
        }
    }

    /// Bytes of one collective call, all ranks together.
    pub fn bytes_of_call(self) -> u64 {
        match self {
            Load::Btio { edge } => edge * edge * edge * CELL_BYTES,
            Load::Tile { bytes } => bytes,
        }
    }

    /// Whether the time of a write lasts until the servers' disks have the bytes. The paper tells seconds in BTIO's write calls, between
    /// which the program computes; of the tiles it tells the throughput of a program that writes 1 GiB once. That this includes
    /// the disks is our reading: the one that leaves the partition less of an advantage.
    pub fn until_on_disk(self) -> bool {
        matches!(self, Load::Tile { .. })
    }

    /// The view of each rank: what the program passes to `MPI_File_set_view`, once.
    ///
    /// # Errors
    /// `InvalidArgument` where the load cannot be divided among so many ranks.
    pub fn views(self, ranks: u32) -> Result<Vec<View>> {
        (0..ranks).map(|rank| self.view(rank, ranks)).collect()
    }

    /// The bytes of a rank's view that one call writes or reads.
    pub fn range(self, view: &View, call: u32) -> Range<u64> {
        let size = view.pattern().size();
        u64::from(call) * size..u64::from(call + 1) * size
    }

    fn view(self, rank: u32, ranks: u32) -> Result<View> {
        let refused = |what: String| Err(Error::new(ErrorKind::InvalidArgument, what));
        let (rank, ranks) = (u64::from(rank), u64::from(ranks));
        let (element, filetype) = match self {
            Load::Btio { edge } => {
                let q = ranks.isqrt();
                if q == 0 || q * q != ranks || q > edge {
                    return refused(format!(
                        "BTIO of {edge} cells per edge takes a square number of ranks, not {ranks}"
                    ));
                }
                let cell = Datatype::Contiguous { count: 5, of: Box::new(Datatype::Elementary(8)) };
                let boxes = (0..q).map(|slab| {
                    let at = [slab, (rank / q + slab) % q, (rank % q + slab) % q];
                    let starts = at.map(|part| edge * part / q).to_vec();
                    let ends = at.map(|part| edge * (part + 1) / q);
                    let subsizes = starts.iter().zip(ends).map(|(start, end)| end - start).collect();
                    let of = Box::new(cell.clone());
                    let part = Datatype::Subarray { sizes: vec![edge; 3], subsizes, starts, order: Order::C, of };
                    (Block { count: 1, displacement: 0 }, part)
                });
                let filetype = Datatype::Struct(boxes.collect());
                (cell, filetype)
            }
            Load::Tile { bytes } => {
                let rows = bytes.checked_div(ROW_BYTES * ranks).unwrap_or(0);
                if rows == 0 || rows * ROW_BYTES * ranks != bytes {
                    return refused(format!("{bytes} bytes are not the same number of 4 KiB rows for {ranks} ranks"));
                }
                let (wide, high) = grid(ranks);
                let row = Datatype::Contiguous { count: ROW_BYTES, of: Box::new(Datatype::Elementary(1)) };
                let filetype = Datatype::Subarray {
                    sizes: vec![rows * high, wide],
                    subsizes: vec![rows, 1],
                    starts: vec![rows * (rank / wide), rank % wide],
                    order: Order::C,
                    of: Box::new(row.clone()),
                };
                (row, filetype)
            }
        };
        let etype: Pattern = element.pattern()?;
        View::new(0, &etype, filetype.pattern()?)
    }
}

/// Tiles in a row and in a column: the most square grid of so many ranks, wider than high.
fn grid(ranks: u64) -> (u64, u64) {
    let high = (1..=ranks.isqrt()).rev().find(|high| ranks.is_multiple_of(*high)).unwrap_or(1);
    (ranks / high, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each byte of the file is in a view.
    fn covered(load: Load, ranks: u32) -> Vec<u8> {
        let mut times = vec![0; (load.bytes_of_call() * u64::from(load.calls())) as usize];
        for view in load.views(ranks).unwrap() {
            for call in 0..load.calls() {
                for extent in view.extents(load.range(&view, call)) {
                    times[extent.offset as usize..][..extent.length as usize].iter_mut().for_each(|n| *n += 1);
                }
            }
        }
        times
    }

    #[test]
    fn ranks_together_have_each_byte_of_the_file_once() {
        for (load, ranks) in [
            (Load::Btio { edge: 12 }, 9),
            (Load::Btio { edge: 13 }, 16),
            (Load::Btio { edge: 7 }, 1),
            (Load::Tile { bytes: 1 << 20 }, 8),
            (Load::Tile { bytes: 1 << 20 }, 64),
        ] {
            assert!(covered(load, ranks).iter().all(|times| *times == 1), "{load:?} over {ranks} ranks");
        }
    }

    #[test]
    fn sizes_are_those_of_the_benchmarks() {
        let bytes = |name: &str| named(name).unwrap().1.bytes_of_call();
        assert_eq!((bytes("btio-b"), bytes("btio-c"), bytes("tile")), (42_448_320, 170_061_120, 1 << 30));
        // Runs of a box are one edge of it: 102 cells over 6, and rows of a tile.
        let run = |load: Load, ranks| load.views(ranks).unwrap()[0].extents(0..1 << 20).next().unwrap().length;
        assert_eq!(run(Load::Btio { edge: 102 }, 36), 102 / 6 * CELL_BYTES);
        assert_eq!(run(Load::Tile { bytes: 1 << 30 }, 32), ROW_BYTES);
        assert_eq!([4, 8, 32, 7].map(grid), [(2, 2), (4, 2), (8, 4), (7, 1)]);
    }

    #[test]
    fn numbers_of_ranks_that_do_not_divide_a_load_are_refused() {
        for (load, ranks) in
            [(Load::Btio { edge: 102 }, 32), (Load::Btio { edge: 2 }, 9), (Load::Tile { bytes: 1 << 20 }, 3)]
        {
            let error = load.views(ranks).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.to_string().contains(&ranks.to_string()), "{error}");
        }
        assert!(named("btio-z").unwrap_err().to_string().contains("btio-b, btio-c, tile"));
    }
}
