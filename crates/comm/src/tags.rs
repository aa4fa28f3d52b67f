//! The only table of message tags of the library: below 2^15, in the upper half, which programs do not use.
//!
//! A tag belongs to one exchange of one method or part. Two exchanges that may be in flight at once over the same communicator
//! have different tags.

/// The first tag of the library's half.
pub const FIRST: u32 = 1 << 14;

/// The token of ranks that open a file one after the other.
pub const SERIAL_OPEN: u32 = FIRST + 0x01;
/// The token of ranks that write to a storage target one after the other.
pub const WRITING_TURN: u32 = FIRST + 0x05;
/// Aggregation: the length of a process group.
pub const TRANSFER_SIZE: u32 = FIRST + 0x20;
/// Aggregation: the offset of a process group in the file.
pub const TRANSFER_ASSIGNMENT: u32 = FIRST + 0x21;
/// Aggregation: a piece of a process group.
pub const TRANSFER_PIECE: u32 = FIRST + 0x22;
/// Aggregation: the answer to a piece.
pub const TRANSFER_ANSWER: u32 = FIRST + 0x23;
/// Aggregation: the result of a process group.
pub const TRANSFER_OUTCOME: u32 = FIRST + 0x24;
/// Collective output: pieces of process groups and their answers.
pub const EXCHANGE: u32 = FIRST + 0x28;
/// Index fragments on their way to rank 0.
pub const COMMIT: u32 = FIRST + 0x30;
/// Summaries for the trigger of an output.
pub const TRIGGER: u32 = FIRST + 0x31;
/// Results of process groups whose index fragments were sent ahead.
pub const COMMIT_OUTCOMES: u32 = FIRST + 0x32;
/// Adaptive output: orders of the coordinator.
pub const COORDINATOR_ORDER: u32 = FIRST + 0x50;
/// Adaptive output: reports of a rank to the coordinator.
pub const COORDINATOR_REPORT: u32 = FIRST + 0x51;
/// Profiles of ranks on their way to rank 0.
pub const PROFILE: u32 = FIRST + 0x60;
/// Index fragments of a file that ranks open together.
pub const COLLECTIVE_OPEN: u32 = FIRST + 0x70;
/// Output windows: bytes, and everything else that ranks tell each other about them.
pub const OUTPUT_WINDOWS: u32 = FIRST + 0x78;
/// Input windows: what ranks ask for, and the bytes.
pub const INPUT_WINDOWS: u32 = FIRST + 0x79;

/// Everything that a communicator carries whose messages move inside the program's calls.
pub const IN_CALLS: u32 = FIRST + 0x7c;

/// Every tag of the table.
pub const ALL: &[u32] = &[
    SERIAL_OPEN,
    WRITING_TURN,
    TRANSFER_SIZE,
    TRANSFER_ASSIGNMENT,
    TRANSFER_PIECE,
    TRANSFER_ANSWER,
    TRANSFER_OUTCOME,
    EXCHANGE,
    COMMIT,
    TRIGGER,
    COMMIT_OUTCOMES,
    COORDINATOR_ORDER,
    COORDINATOR_REPORT,
    PROFILE,
    COLLECTIVE_OPEN,
    OUTPUT_WINDOWS,
    INPUT_WINDOWS,
    IN_CALLS,
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_tag_is_of_the_librarys_half_and_of_one_exchange() {
        assert_eq!(ALL.iter().collect::<BTreeSet<_>>().len(), ALL.len());
        assert!(ALL.iter().all(|tag| (FIRST..2 * FIRST).contains(tag)));
    }
}
