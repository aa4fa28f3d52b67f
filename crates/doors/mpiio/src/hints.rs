//! Hints: values with which a program chooses how its file is accessed (`MPI_Info`), and the values in use.
//!
//! | key | meaning here |
//! |-----|--------------|
//! | `romio_cb_write`, `romio_cb_read` | `automatic`: collective writes, reads exchange bytes where that pays ([`two_phase::pays`]; reads between nodes only); `enable`: wherever the layout allows it; `disable`: never |
//! | `collective_buffering` | `true`, `false`: `automatic`, `disable` of both, which count if they are given, too |
//! | `cb_nodes` | number of ranks that write or read in an exchange |
//! | `cb_buffer_size` | bytes of a domain that a rank gathers at a time |
//! | `striping_factor` | number of servers of a new file, on layouts that have servers; only in an open that creates the file |
//! | `striping_unit` | file domains begin at multiples of it; bytes of a stripe of a new file, as `striping_factor` |
//! | `ind_wr_buffer_size`, `ind_rd_buffer_size` | bytes of memory with holes that are gathered or scattered at a time |
//! | `file_perm` | permissions of a new file, in octal digits |
//! | `romio_ds_read`, `romio_ds_write`, `romio_no_indep_rw` | are returned alone: gaps between small extents are read where that is cheaper and never written |
//! | all others, and values that are not of a key's kind | are ignored |
//!
//! Of the two of a new file, rank 0's count. Ranks must give the same values of the first five and of `striping_unit`, says MPI; where they do not, the largest one counts on all ranks, so that an
//! exchange never has two plans.
//!
//! Source: MPI 4.1, section 14.2.8 (reserved hints); the names with `romio_` and `ind_` are those of ROMIO's users' guide.

use crate::transfer;
use crate::two_phase::{self, Plan};
use thalweg_layout::Stripes;
use thalweg_view::View;

/// Whether collective accesses exchange bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Choice {
    /// Where it pays.
    Automatic = 1,
    /// Never.
    Never = 2,
    /// Wherever the layout allows it.
    Always = 3,
}

impl Choice {
    fn of_number(number: u64) -> Option<Choice> {
        [Choice::Automatic, Choice::Never, Choice::Always].into_iter().find(|e| *e as u64 == number)
    }

    /// The choice of this name.
    fn named(name: &str) -> Option<Choice> {
        let all = [Choice::Automatic, Choice::Never, Choice::Always];
        all.into_iter().find(|choice| name.eq_ignore_ascii_case(choice.name()))
    }

    /// Whether writes through these views exchange bytes.
    pub fn writes_exchange(self, views: &[View]) -> bool {
        self.exchanges(views, true)
    }

    /// Whether reads do. On one node the page cache serves small reads faster than an exchange does: it costs four copies more.
    ///
    /// - `nodes`: the node of each rank.
    pub fn reads_exchange(self, views: &[View], nodes: &[u64]) -> bool {
        self.exchanges(views, nodes.windows(2).any(|pair| pair[0] != pair[1]))
    }

    fn exchanges(self, views: &[View], may_pay: bool) -> bool {
        match self {
            Choice::Automatic => may_pay && two_phase::pays(views),
            Choice::Never => false,
            Choice::Always => two_phase::is_possible(views),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Choice::Automatic => "automatic",
            Choice::Never => "disable",
            Choice::Always => "enable",
        }
    }
}

/// Least and largest size of a buffer, in bytes.
const SIZES: (u64, u64) = (4 << 10, 1 << 30);

/// Number of hints that ranks agree on.
pub const AGREED: usize = 5;

/// The hints that one rank gives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Given {
    exchange: Option<Choice>,
    read_exchange: Option<Choice>,
    writers: Option<u64>,
    window: Option<u64>,
    unit: Option<u64>,
    factor: Option<u32>,
    write_buffer: Option<u64>,
    read_buffer: Option<u64>,
    /// Permissions of a new file.
    pub permissions: Option<u32>,
}

impl Given {
    /// Reads keys and their values.
    pub fn of<'t>(pairs: impl IntoIterator<Item = (&'t str, &'t str)>) -> Given {
        let mut given = Given::default();
        let mut reserved = None;
        for (key, value) in pairs {
            let value = value.trim();
            let number = || value.parse::<u64>().ok().filter(|n| *n > 0);
            let size = || number().map(|n| n.clamp(SIZES.0, SIZES.1));
            match key {
                "romio_cb_write" => given.exchange = Choice::named(value).or(given.exchange),
                "romio_cb_read" => given.read_exchange = Choice::named(value).or(given.read_exchange),
                "collective_buffering" if value.eq_ignore_ascii_case("true") => reserved = Some(Choice::Automatic),
                "collective_buffering" if value.eq_ignore_ascii_case("false") => reserved = Some(Choice::Never),
                "cb_nodes" => given.writers = number().or(given.writers),
                "cb_buffer_size" => given.window = size().or(given.window),
                "striping_unit" => given.unit = number().filter(|n| *n <= SIZES.1).or(given.unit),
                "striping_factor" => given.factor = number().and_then(|n| u32::try_from(n).ok()).or(given.factor),
                "ind_wr_buffer_size" => given.write_buffer = size().or(given.write_buffer),
                "ind_rd_buffer_size" => given.read_buffer = size().or(given.read_buffer),
                "file_perm" => {
                    let octal = u32::from_str_radix(value, 8).ok().filter(|bits| *bits <= 0o777);
                    given.permissions = octal.or(given.permissions);
                }
                _ => {}
            }
        }
        given.exchange = given.exchange.or(reserved);
        given.read_exchange = given.read_exchange.or(reserved);
        given
    }

    /// How the bytes of a new file are to be spread; `None` if nothing is asked for.
    pub fn stripes(&self) -> Option<Stripes> {
        let (targets, bytes) = (self.factor.unwrap_or(0), self.unit.unwrap_or(0));
        (targets > 0 || bytes > 0).then_some(Stripes { targets, bytes })
    }

    /// The numbers whose maximum over all ranks counts; 0 for a hint that is not given.
    pub fn to_agree(&self) -> [u64; AGREED] {
        let or_none = |number: Option<u64>| number.unwrap_or(0);
        let of = |choice: Option<Choice>| choice.map_or(0, |choice| choice as u64);
        let [writers, window, unit] = [self.writers, self.window, self.unit].map(or_none);
        [of(self.exchange), of(self.read_exchange), writers, window, unit]
    }

    /// These hints, with the numbers that all ranks agreed on; `None` for another count of numbers.
    pub fn agreed(self, numbers: &[u64]) -> Option<Given> {
        let [exchange, reads, writers, window, unit] = *numbers else { return None };
        let some = |number: u64| Some(number).filter(|n| *n > 0);
        let [exchange, read_exchange] = [exchange, reads].map(Choice::of_number);
        Some(Given { exchange, read_exchange, writers: some(writers), window: some(window), unit: some(unit), ..self })
    }
}

/// The hints in use for a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hints {
    /// Whether collective writes exchange bytes.
    pub exchange: Choice,
    /// Whether collective reads do.
    pub read_exchange: Choice,
    /// How they do.
    pub plan: Plan,
    /// Bytes of memory with holes that are gathered at a time.
    pub write_buffer: usize,
    /// Bytes of memory with holes that are scattered at a time.
    pub read_buffer: usize,
    permissions: Option<u32>,
}

impl Default for Hints {
    fn default() -> Hints {
        Hints {
            exchange: Choice::Automatic,
            read_exchange: Choice::Automatic,
            plan: Plan::default(),
            write_buffer: transfer::BUFFER,
            read_buffer: transfer::BUFFER,
            permissions: None,
        }
    }
}

impl Hints {
    /// Takes over what was given; returns whether views have to be looked at again.
    pub fn take(&mut self, given: &Given) -> bool {
        let before = (self.exchange, self.read_exchange);
        self.exchange = given.exchange.unwrap_or(before.0);
        self.read_exchange = given.read_exchange.unwrap_or(before.1);
        self.plan.writers = given.writers.or(self.plan.writers);
        self.plan.window = given.window.unwrap_or(self.plan.window);
        self.plan.unit = given.unit.or(self.plan.unit);
        let size = |given: Option<u64>, now: usize| given.and_then(|n| usize::try_from(n).ok()).unwrap_or(now);
        self.write_buffer = size(given.write_buffer, self.write_buffer);
        self.read_buffer = size(given.read_buffer, self.read_buffer);
        self.permissions = given.permissions.or(self.permissions);
        (self.exchange, self.read_exchange) != before
    }

    /// Keys and values in use.
    ///
    /// - `ranks`: that have the file open.
    /// - `writes`, `reads`: whether the file allows an exchange of them.
    /// - `stripes`: those of the file, if its layout knows them.
    pub fn in_use(
        &self,
        ranks: u32,
        writes: bool,
        reads: bool,
        stripes: Option<Stripes>,
    ) -> Vec<(&'static str, String)> {
        let write = if writes { self.exchange } else { Choice::Never };
        let read = if reads { self.read_exchange } else { Choice::Never };
        let exchanges = [write, read].iter().any(|choice| *choice != Choice::Never);
        let mut all = vec![
            ("collective_buffering", exchanges.to_string()),
            ("romio_cb_write", write.name().to_owned()),
            ("romio_cb_read", read.name().to_owned()),
            ("romio_ds_read", Choice::Automatic.name().to_owned()),
            ("romio_ds_write", Choice::Never.name().to_owned()),
            ("romio_no_indep_rw", "false".to_owned()),
            ("ind_wr_buffer_size", self.write_buffer.to_string()),
            ("ind_rd_buffer_size", self.read_buffer.to_string()),
        ];
        if exchanges {
            let writers = self.plan.writers.unwrap_or(u64::from(ranks)).min(u64::from(ranks));
            all.push(("cb_nodes", writers.to_string()));
            all.push(("cb_buffer_size", self.plan.window.to_string()));
            let unit = self.plan.unit.filter(|_| stripes.is_none());
            all.extend(unit.map(|unit| ("striping_unit", unit.to_string())));
        }
        if let Some(stripes) = stripes {
            all.push(("striping_factor", stripes.targets.to_string()));
            all.push(("striping_unit", stripes.bytes.to_string()));
        }
        all.extend(self.permissions.map(|bits| ("file_perm", format!("{bits:o}"))));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(hints: &Hints, exchanges: bool, key: &str) -> Option<String> {
        hints.in_use(4, exchanges, exchanges, None).into_iter().find(|(k, _)| *k == key).map(|(_, value)| value)
    }

    #[test]
    fn what_is_given_is_in_use_and_what_makes_no_sense_is_ignored() {
        let mut hints = Hints::default();
        assert_eq!(value(&hints, true, "cb_nodes").unwrap(), "4");
        assert_eq!(value(&hints, true, "romio_cb_write").unwrap(), "automatic");
        let nonsense = [
            ("cb_nodes", "0"),
            ("cb_buffer_size", "many"),
            ("romio_cb_write", "perhaps"),
            ("collective_buffering", "no"),
            ("striping_unit", "-1"),
            ("file_perm", "999"),
            ("of_another_library", "1"),
        ];
        assert_eq!(Given::of(nonsense), Given::default());
        let given = [
            ("cb_nodes", "2"),
            ("cb_buffer_size", " 65536 "),
            ("romio_cb_write", "Enable"),
            ("collective_buffering", "false"),
            ("striping_unit", "8192"),
            ("ind_wr_buffer_size", "1"),
            ("file_perm", "640"),
        ];
        assert!(hints.take(&Given::of(given)), "the exchange is another one");
        for (key, wanted) in [
            ("cb_nodes", "2"),
            ("cb_buffer_size", "65536"),
            ("romio_cb_write", "enable"),
            ("collective_buffering", "true"),
            ("striping_unit", "8192"),
            ("ind_wr_buffer_size", "4096"),
            ("ind_rd_buffer_size", "4194304"),
            ("file_perm", "640"),
        ] {
            assert_eq!(value(&hints, true, key).as_deref(), Some(wanted), "{key}");
        }
        assert!(!hints.take(&Given::of([("cb_nodes", "64")])), "what was not given again stays");
        assert_eq!(value(&hints, true, "romio_cb_read").unwrap(), "disable", "as collective_buffering says");
        assert!(hints.take(&Given::of([("romio_cb_read", "ENABLE")])));
        assert_eq!(value(&hints, true, "romio_cb_read").unwrap(), "enable");
        assert_eq!((hints.exchange, hints.plan.window), (Choice::Always, 65536));
        assert_eq!(value(&hints, true, "cb_nodes").unwrap(), "4", "no more than there are ranks");
    }

    #[test]
    fn reads_are_exchanged_between_nodes_unless_a_hint_says_otherwise() {
        let byte = thalweg_view::Datatype::Elementary(1);
        let column = |rank: u64| {
            let of = Box::new(byte.clone());
            let of = thalweg_view::Datatype::Vector { count: 100, block: 10, stride: 40, of };
            View::new(10 * rank, &byte.pattern().unwrap(), of.pattern().unwrap()).unwrap()
        };
        let views: Vec<View> = (0..4).map(column).collect();
        let (one, two) = ([7; 4], [7, 7, 8, 8]);
        let answers = |choice: Choice| {
            (choice.writes_exchange(&views), choice.reads_exchange(&views, &one), choice.reads_exchange(&views, &two))
        };
        assert_eq!(answers(Choice::Automatic), (true, false, true));
        assert_eq!(answers(Choice::Always), (true, true, true));
        assert_eq!(answers(Choice::Never), (false, false, false));
        assert!(!Choice::Automatic.reads_exchange(&views[..1], &two));
    }

    #[test]
    fn stripes_are_those_of_the_file_whatever_was_asked_for() {
        assert_eq!(Given::of([("striping_factor", "0"), ("striping_unit", "x")]).stripes(), None);
        let given = Given::of([("striping_factor", "2"), ("striping_unit", "8192")]);
        assert_eq!(given.stripes(), Some(Stripes { targets: 2, bytes: 8192 }));
        assert_eq!(Given::of([("striping_factor", "2")]).stripes(), Some(Stripes { targets: 2, bytes: 0 }));
        let mut hints = Hints::default();
        hints.take(&given);
        let in_force = |stripes| -> Vec<(&str, String)> {
            hints.in_use(4, true, true, stripes).into_iter().filter(|(key, _)| key.starts_with("striping")).collect()
        };
        assert_eq!(in_force(None), [("striping_unit", "8192".to_string())]);
        let of_file = Some(Stripes { targets: 3, bytes: 4096 });
        assert_eq!(in_force(of_file), [("striping_factor", "3".to_string()), ("striping_unit", "4096".to_string())]);
    }

    #[test]
    fn a_file_without_exchanges_has_no_hints_of_them() {
        let mut hints = Hints::default();
        hints.take(&Given::of([("romio_cb_write", "enable"), ("cb_nodes", "2")]));
        assert_eq!(value(&hints, false, "romio_cb_write").unwrap(), "disable");
        assert_eq!(value(&hints, false, "collective_buffering").unwrap(), "false");
        assert_eq!(value(&hints, false, "cb_nodes"), None);
    }

    #[test]
    fn the_largest_of_what_ranks_give_counts_for_all() {
        let ranks = [Given::of([("cb_nodes", "3")]), Given::of([("romio_cb_write", "disable")]), Given::default()];
        let all: Vec<u64> = (0..AGREED).map(|i| ranks.iter().map(|r| r.to_agree()[i]).max().unwrap()).collect();
        let agreed = ranks.map(|given| given.agreed(&all).unwrap());
        assert!(agreed.iter().all(|given| *given == agreed[0]));
        assert_eq!((agreed[0].writers, agreed[0].exchange), (Some(3), Some(Choice::Never)));
        assert_eq!(Given::default().agreed(&[1]), None);
    }
}
