//! The profile of a file, from open to close: phases of each rank, its calls by kind, and the ranks that the others waited for.
//!
//! | question | answer |
//! |----------|--------|
//! | when | if one rank asks for it; without one, each call looks at a field of its file |
//! | what is recorded | calls, by the C part ([`Profile::begins`], [`Profile::ends`]); messages, by the communicator; reads, writes and syncs, by [`crate::file`] |
//! | where it goes | beside the file, as that of an output (`docs/format/profile.md`): `NAME.profile/step-N.json`, N from 0 for a new file, else the next one |
//! | who writes it | rank 0, in close |
//! | on failure | a warning |

use thalweg_comm::{Communicator, Reduce};
use thalweg_layout::Layout;
use thalweg_profile::calls::Begin;
use thalweg_profile::document::{folder_of, next_step};
use thalweg_profile::recorder::Running;
use thalweg_profile::{About, Phase, Taking};
use thalweg_types::Error;

/// A profile that is being taken.
pub struct Profile {
    /// What is recorded.
    pub taking: Taking,
    /// A random number; rank 0's is in the document.
    pub run: u64,
    /// On rank 0: whether the open made the file, or found it empty.
    pub is_new: bool,
}

/// Whether all ranks make a call of this name, in the same order. The ends of split calls do nothing.
fn is_collective(name: &str) -> bool {
    let always =
        ["open", "close", "sync", "set_view", "set_size", "set_info", "set_atomicity", "preallocate", "seek_shared"];
    let of_data = name.contains("_all") || name.contains("_ordered");
    always.contains(&name) || (of_data && !name.ends_with("_end"))
}

impl Profile {
    /// A call begins.
    pub fn begins(&self) -> Begin {
        self.taking.calls().begins()
    }

    /// A call ends.
    ///
    /// - `name`: without `MPI_File_`; calls of large counts are those of their kind.
    /// - `bytes`: that it moved.
    pub fn ends(&self, begin: Begin, name: &str, bytes: u64) {
        let name = name.strip_suffix("_c").unwrap_or(name);
        self.taking.calls().ends(begin, name, is_collective(name), bytes);
    }

    /// The close begins.
    pub(crate) fn closes(mut self) -> Closing {
        self.taking.closes();
        let (begin, running) = (self.begins(), self.taking.recorder().span(Phase::Close));
        Closing { profile: self, begin, running }
    }
}

/// A profile whose file is being closed.
pub(crate) struct Closing {
    profile: Profile,
    begin: Begin,
    running: Running,
}

impl Closing {
    /// Collective: the file is closed; rank 0 writes the profile.
    pub(crate) fn closed(self, comm: &mut dyn Communicator, layout: &dyn Layout, name: &str, failed: Option<&Error>) {
        let Closing { profile, begin, running } = self;
        profile.ends(begin, "close", 0);
        drop(running);
        let Profile { taking, run, is_new } = profile;
        let moved = taking.calls().bytes();
        let all = comm.all_reduce(&[moved], Reduce::Sum).ok().and_then(|all| all.first().copied());
        let step = match comm.rank() == 0 && !is_new {
            // Without a folder there is no profile yet.
            true => layout.list(&folder_of(name)).map_or(0, |names| next_step(&names)),
            false => 0,
        };
        let about = About {
            layout,
            output: name,
            group: "",
            methods: vec!["MPI-IO".into()],
            step,
            run,
            is_new,
            group_bytes: moved,
            buffer_bytes: 0,
            outcome: failed.map_or(Ok(all.unwrap_or(moved)), Err),
        };
        taking.finish(comm, &about);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collective_calls_are_known_by_name() {
        for name in ["open", "sync", "write_at_all", "iread_all", "read_ordered_begin", "write_all_begin", "set_view"] {
            assert!(is_collective(name), "{name}");
        }
        for name in ["write_at", "write_all_end", "read_ordered_end", "get_size", "iwrite_shared", "seek"] {
            assert!(!is_collective(name), "{name}");
        }
    }
}
