//! Files that are open for an output, and what becomes of them at its end.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`handle`] | a file that is open for an output, and whose close is heard |
//! | [`serial_open`] | ranks open a file one after the other, a token passed on |
//! | [`live_index`] | the index of a file that is being extended: when a full one is written, when a step record |
//! | [`open_index`] | the index of a file that is open for an output |
//! | [`closing`] | the end of an output, in the order of its calls: the same for all methods that write BP files |
//! | [`commit`] | the commit of its step: fragments up a tree to rank 0, the index, the outcome to all |
//! | `fragments` | what ranks say of their process groups on the way up, as bytes |
//! | [`levels`] | all blocks of a variable in a file record the same statistics |
//! | [`slot`] | places in a shared file given at open, from what the last output was like |
//! | [`subfiles`] | names and ends of subfiles beside a metadata file, and how rank 0 begins with these |
//! | [`subfile_output`] | an output with subfiles, as one rank has it open |
//! | [`shared_file`] | one file that all ranks share, while it is open for an output |
//! | [`spill`] | where blocks go that find no room in the buffer while their place is not known |
//! | [`targets`] | how many storage targets there are, files on one of them |
//! | [`cache`] | live indexes and ends of subfiles, kept between outputs |
//! | [`memory`] | what methods remember between outputs |

pub mod cache;
pub mod closing;
pub mod commit;
mod fragments;
pub mod handle;
pub mod levels;
pub mod live_index;
pub mod memory;
pub mod open_index;
pub mod serial_open;
pub mod shared_file;
pub mod slot;
pub mod spill;
pub mod subfile_output;
pub mod subfiles;
pub mod targets;
