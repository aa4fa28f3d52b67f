//! What was published of partitions: how many times as fast the own way is as the better of both two-phase contenders.
//!
//! The paper's curves were not available: of each benchmark and direction its text tells the least and the most advantage, with the
//! number of processes of each. Where the text is ambiguous:
//!
//! - BTIO's most advantage of class B in writes is told for 32 processes, which is no square number: taken as 36;
//! - the least advantage of tiles in writes, 1.2, is the least where the own way is ahead; that PVFS2 is "5 % ahead" at 64 is a row
//!   of its own: an advantage of 1 / 1.05.
//!
//! Class B of BTIO and the tiles were used to fit three constants of the description `lonestar`; class C, with the headline numbers of the
//! paper, was kept out. All rows were known when the form of the model was chosen.

use super::Direction;
use Direction::{Read, Write};

/// A published advantage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// Name of the load.
    pub load: &'static str,
    /// Writes or reads.
    pub direction: Direction,
    /// Processes.
    pub ranks: u32,
    /// How many times as fast as the better of the others.
    pub advantage: f64,
    /// As the text puts it.
    pub what: &'static str,
    /// Whether constants were fitted to it.
    pub fitted: bool,
}

const fn row(
    load: &'static str,
    direction: Direction,
    ranks: u32,
    advantage: f64,
    what: &'static str,
    fitted: bool,
) -> Row {
    Row { load, direction, ranks, advantage, what, fitted }
}

/// All of them.
pub const ROWS: [Row; 13] = [
    row("btio-b", Write, 64, 1.81, "least in writes: 1.81 at 64", true),
    row("btio-b", Write, 36, 2.87, "most in writes: 2.87 at \"32\", taken as 36", true),
    row("btio-b", Read, 36, 1.28, "least in reads: 1.28 at 36", true),
    row("btio-b", Read, 16, 4.42, "most in reads: 4.42 at 16", true),
    row("btio-c", Write, 64, 1.95, "least in writes: 1.95 at 64", false),
    row("btio-c", Write, 16, 4.95, "most in writes: 4.95 at 16", false),
    row("btio-c", Read, 36, 1.90, "least in reads: 1.90 at 36", false),
    row("btio-c", Read, 9, 5.22, "most in reads: 5.22 at 9", false),
    row("tile", Write, 8, 1.54, "most in writes: 1.54 at 8", true),
    row("tile", Write, 16, 1.2, "least in writes where it is ahead: 1.2 at 16", true),
    row("tile", Write, 64, 1.0 / 1.05, "writes at 64: PVFS2 5 % ahead", true),
    row("tile", Read, 4, 6.3, "most in reads: 6.3 at 4", true),
    row("tile", Read, 64, 2.25, "least in reads: 2.25 at 64", true),
];
