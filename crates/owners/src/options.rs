//! Options of an output window, and the values used where an option is not given.
//!
//! | option | Miller et al. call it | default |
//! |---|---|---|
//! | [`Options::owners`] | `activePEs`, `basePE`, `skipPEs` | one rank of each node; at most one for each storage target, where the layout knows their number |
//! | [`Options::owner_stripe`] | `peStripe` | one long run for each owner, a multiple of `alignment` |
//! | [`Options::write_stripe`] | `writeStripe` | 64 MiB |
//! | [`Options::fraction`] | the fractions of section C6 | 16 MiB |
//!
//! Source: Miller et al., sections C3 (options), C3B (long stripes measured better than round robin) and C6.

use std::time::Duration;
use thalweg_comm::Communicator;
use thalweg_types::{Error, ErrorKind, Result};

/// The ranks that own stripes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Owners {
    /// The first rank of each node. If the layout knows the number of storage targets and there are more nodes than targets, as many
    /// nodes as targets, evenly spaced.
    #[default]
    PerNode,
    /// `active` ranks: `base`, `base + skip`, `base + 2 skip`...
    Every {
        /// Number of owners, at least 1.
        active: u32,
        /// The first owner.
        base: u32,
        /// Distance between owners, at least 1.
        skip: u32,
    },
    /// These ranks, in the order of their stripes: for programs that know their machine's topology, such as which ranks are near I/O
    /// nodes.
    Ranks(Vec<u32>),
}

/// Options of an output window, the same on all ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The ranks that own stripes.
    pub owners: Owners,
    /// Owner stripe: consecutive bytes of the file that belong to one owner; owners take turns. `None`: one long stripe for each owner.
    pub owner_stripe: Option<u64>,
    /// Write stripe: bytes that an owner gathers before it writes. In the file, write stripes begin at multiples of this length, and at
    /// the beginning of an owner stripe.
    pub write_stripe: u64,
    /// Most bytes of one write.
    pub fraction: u64,
    /// Long stripes begin at multiples of this, in bytes of the file: a stripe of the file system.
    pub alignment: u64,
    /// Time without any event after which a window fails instead of waiting. `None`: the communicator's timeout.
    pub time_limit: Option<Duration>,
    /// Whether bytes are on the device when the window is complete, not only handed to the store.
    pub durable: bool,
    /// Whether bytes that no rank writes are allowed. The file keeps what it had there.
    pub holes: bool,
    /// Whether owners close the file before they report that their bytes are written: what a close fails with is then known to all ranks. They
    /// open it again for further windows.
    pub closes: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            owners: Owners::PerNode,
            owner_stripe: None,
            write_stripe: 64 << 20,
            fraction: 16 << 20,
            alignment: 1 << 20,
            time_limit: None,
            durable: false,
            holes: false,
            closes: false,
        }
    }
}

/// Facts about the machine that defaults depend on, the same on all ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Number of ranks, at least 1.
    pub ranks: u32,
    /// The first rank of each node, ascending; at least one.
    pub leaders: Vec<u32>,
    /// Storage targets below the file, if known.
    pub targets: Option<u32>,
}

/// Collective: the first rank of each node, ascending.
pub(crate) fn leaders(comm: &dyn Communicator) -> Result<Vec<u32>> {
    let leads = comm.split_by_node()?.rank() == 0;
    let leaders = comm.all_gather(&[u8::from(leads)])?;
    Ok((0..).zip(leaders).filter(|(_, leads)| leads[..] == [1]).map(|(rank, _)| rank).collect())
}

impl Options {
    /// The owners on this machine, in the order of their stripes.
    ///
    /// # Errors
    /// `Config` for an option that is 0, for no owner, for a rank that does not exist, and for one that is named twice.
    pub fn owners_on(&self, machine: &Machine) -> Result<Vec<u32>> {
        let wrong = |what: String| Err(Error::new(ErrorKind::Config, what));
        for (name, value) in [
            ("owner_stripe", self.owner_stripe.unwrap_or(1)),
            ("write_stripe", self.write_stripe),
            ("fraction", self.fraction),
            ("alignment", self.alignment),
        ] {
            if value == 0 {
                return wrong(format!("{name} is 0 bytes"));
            }
        }
        if self.time_limit.is_some_and(|limit| limit.is_zero()) {
            return wrong("the time limit is 0 seconds".into());
        }
        let owners = match &self.owners {
            Owners::PerNode => {
                let nodes = machine.leaders.len();
                let count = machine.targets.map_or(nodes, |targets| nodes.min(targets.max(1) as usize));
                (0..count).map(|number| machine.leaders[number * nodes / count]).collect()
            }
            Owners::Every { active, base, skip } => {
                if *active == 0 || *skip == 0 {
                    return wrong(format!("{active} owners at a distance of {skip} ranks"));
                }
                let last = u64::from(*base) + u64::from(active - 1) * u64::from(*skip);
                if last >= u64::from(machine.ranks) {
                    return wrong(format!(
                        "the last of {active} owners from rank {base} at a distance of {skip} is rank {last}, of {} ranks",
                        machine.ranks
                    ));
                }
                (0..*active).map(|number| base + number * skip).collect()
            }
            Owners::Ranks(ranks) => ranks.clone(),
        };
        let mut sorted = owners.clone();
        sorted.sort_unstable();
        match (sorted.last(), sorted.windows(2).find(|pair| pair[0] == pair[1])) {
            (None, _) => wrong("no rank is an owner".into()),
            (Some(last), _) if *last >= machine.ranks => {
                wrong(format!("rank {last} is named as an owner, of {} ranks", machine.ranks))
            }
            (_, Some(twice)) => wrong(format!("rank {} is named as an owner twice", twice[0])),
            _ => Ok(owners),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(ranks: u32, per_node: u32, targets: Option<u32>) -> Machine {
        Machine { ranks, leaders: (0..ranks).step_by(per_node as usize).collect(), targets }
    }

    fn owners(owners: Owners, machine: &Machine) -> Result<Vec<u32>> {
        Options { owners, ..Options::default() }.owners_on(machine)
    }

    #[test]
    fn by_default_each_node_has_an_owner_but_no_more_than_there_are_targets() {
        assert_eq!(owners(Owners::PerNode, &machine(10, 4, None)).unwrap(), [0, 4, 8]);
        assert_eq!(owners(Owners::PerNode, &machine(40, 4, Some(5))).unwrap(), [0, 8, 16, 24, 32]);
        assert_eq!(owners(Owners::PerNode, &machine(10, 4, Some(100))).unwrap(), [0, 4, 8]);
        assert_eq!(owners(Owners::PerNode, &machine(10, 4, Some(0))).unwrap(), [0]);
    }

    /// The printed code leaves out the last writer, and lets in ranks below the base.
    #[test]
    fn the_last_active_rank_is_an_owner_and_ranks_below_the_base_are_not() {
        let every = |active, base, skip| Owners::Every { active, base, skip };
        assert_eq!(owners(every(3, 4, 2), &machine(9, 1, None)).unwrap(), [4, 6, 8]);
        assert_eq!(owners(every(1, 0, 1), &machine(1, 1, None)).unwrap(), [0]);
        let e = owners(every(4, 4, 2), &machine(9, 1, None)).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Config);
        assert!(e.what().contains("rank 10, of 9 ranks"), "{e}");
        let far = every(u32::MAX, u32::MAX, u32::MAX);
        assert_eq!(owners(far, &machine(9, 1, None)).unwrap_err().kind(), ErrorKind::Config);
    }

    #[test]
    fn options_that_make_no_sense_are_refused() {
        let refused = [
            Options { owners: Owners::Ranks(vec![]), ..Options::default() },
            Options { owners: Owners::Ranks(vec![1, 0, 1]), ..Options::default() },
            Options { owners: Owners::Ranks(vec![4]), ..Options::default() },
            Options { owners: Owners::Every { active: 0, base: 0, skip: 1 }, ..Options::default() },
            Options { owners: Owners::Every { active: 1, base: 0, skip: 0 }, ..Options::default() },
            Options { owner_stripe: Some(0), ..Options::default() },
            Options { write_stripe: 0, ..Options::default() },
            Options { fraction: 0, ..Options::default() },
            Options { alignment: 0, ..Options::default() },
            Options { time_limit: Some(Duration::ZERO), ..Options::default() },
        ];
        for options in refused {
            let outcome = options.owners_on(&machine(4, 2, None));
            assert_eq!(outcome.map_err(|e| e.kind()), Err(ErrorKind::Config), "{options:?}");
        }
    }
}
