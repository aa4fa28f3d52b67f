//! Pieces that methods share.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`agreement`] | all ranks learn the same outcome in one reduction |
//! | [`guarded`] | panics of a store, or of a step that a rank takes alone, become failures |
//! | [`handle`] | a file that is open for an output, and whose close is heard |
//! | [`serial_open`] | ranks open a file one after the other, a token passed on |
//! | [`live_index`] | the index of a file that is being extended: when a full one is written, when a step record |
//! | [`open_index`] | the index of a file that is open for an output |
//! | [`step_commit`] | the end of an output: fragments up a tree to rank 0, the index, the outcome to all |
//! | `gathered` | what ranks say of their process groups on the way up, as bytes |
//! | [`tree_gather`] | what every rank has to say travels to rank 0 up a tree, joined on the way |
//! | [`levels`] | all blocks of a variable in a file record the same statistics |
//! | [`slot`] | places in a shared file given at open, from what the last output was like |
//! | [`subfiles`] | names and ends of subfiles beside a metadata file, and how rank 0 begins with these |
//! | [`subfile_output`] | an output with subfiles, as one rank has it open |
//! | [`shared_file`] | one file that all ranks share, while it is open for an output |
//! | [`spill`] | where blocks go that find no room in the buffer while their place is not known |
//! | [`writing_turn`] | a rank writes when the one before it at its target has |
//! | [`nodes`] | which ranks share a node, asked once |
//! | [`node_memory`] | memory that ranks of a node share, kept between outputs |
//! | [`passing`] | process groups passed to the rank that writes for a set, a piece at a time |
//! | [`exchange`] | process groups reach the ranks that write their stripes, a bounded number of bytes at a time |
//! | [`errands`] | commands and notices that follow an output, beside the program |
//! | [`summary`] | what is known of an output's variables, all ranks together |
//! | [`targets`] | how many storage targets there are, files on one of them |
//! | [`flight`] | a write that may get stuck, in a thread of its own |
//! | [`drains`] | what adaptive writing keeps between outputs |
//! | [`desk`] | who writes what next: rank 0 decides, the others ask |
//! | [`kept`] | live indexes, ends of subfiles and sizes of outputs kept between outputs |

pub mod agreement;
pub mod desk;
pub mod drains;
pub mod errands;
pub mod exchange;
pub mod flight;
mod gathered;
pub mod guarded;
pub mod handle;
pub mod kept;
pub mod levels;
pub mod live_index;
pub mod node_memory;
pub mod nodes;
pub mod open_index;
pub mod passing;
pub mod serial_open;
pub mod shared_file;
pub mod slot;
pub mod spill;
pub mod step_commit;
pub mod subfile_output;
pub mod subfiles;
pub mod summary;
pub mod targets;
pub mod tree_gather;
pub mod writing_turn;
