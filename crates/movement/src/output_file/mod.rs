//! Files that are open for an output, and their commit at its end.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`handle`] | a file that is open for an output, and whose failed close is reported |
//! | [`serial_open`] | ranks open a file few at a time, by tokens |
//! | [`live_index`] | the index of a file that is being extended: when a full index is written, when a step record |
//! | [`open_index`] | the index of a file that is open for an output |
//! | [`closing`] | the end of an output, in the order of its calls: the same for all methods that write BP files |
//! | [`commit`] | the commit of its step: fragments up a tree to rank 0, the index, the result to all |
//! | `fragments` | encoding of the index fragments and results that ranks send up the tree |
//! | [`levels`] | all blocks of a variable in a file record the same statistics |
//! | [`slot`] | slots in a shared file, assigned at open from the sizes of the last output |
//! | [`subfiles`] | names and ends of subfiles beside a metadata file, and rank 0's open of them |
//! | [`subfile_output`] | an output with subfiles, as open on one rank |
//! | [`shared_file`] | one file that all ranks share, while it is open for an output |
//! | [`spill`] | the spill file for blocks that exceed the buffer while their offset is unknown |
//! | [`targets`] | the number of storage targets, and placement of files on one of them |
//! | [`cache`] | live indexes and ends of subfiles, kept between outputs |
//! | [`memory`] | state that methods keep between outputs |
//! | [`made`] | a file that one rank makes or replaces is shown to the ranks that open it |

pub mod cache;
pub mod closing;
pub mod commit;
mod fragments;
pub mod handle;
pub mod levels;
pub mod live_index;
pub mod made;
pub mod memory;
pub mod open_index;
pub mod serial_open;
pub mod shared_file;
pub mod slot;
pub mod spill;
pub mod subfile_output;
pub mod subfiles;
pub mod targets;
