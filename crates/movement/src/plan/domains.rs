//! File domains: the stripes of a shared file are distributed to aggregators, which write them in rounds.
//!
//! | question | answer |
//! |---|---|
//! | an aggregator's domain | a contiguous range of whole stripes; the first domain begins and the last one ends with the output, also within a stripe |
//! | number of aggregators | as many as requested, but none without a stripe; domain sizes differ by at most one stripe |
//! | ranks of aggregators | spread evenly, so that most bytes of a domain are of neighbouring ranks |
//! | bytes per round | at most `window` bytes to each aggregator: whole stripes if one fits, else equal parts of a stripe |
//! | messages | one rank's bytes of a round, in pieces of at most `piece` bytes |
//!
//! Every byte of the output is in exactly one piece of one round of one domain: it is sent once, or not at all if its rank is
//! the aggregator.
//!
//! Source: Thakur, Gropp, Lusk, Frontiers 1999: two-phase collective writing.

use std::ops::Range;
use thalweg_types::Extent;

/// An output's extent, divided into domains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Domains {
    /// All bytes of the output.
    all: Extent,
    stripe: u64,
    count: u32,
    aggregators: u32,
}

/// The rank of aggregator `number`, if `aggregators` are spread evenly over `ranks`. Also spreads domains over aggregators, if
/// an output has fewer stripes than aggregators.
pub fn spread(number: u32, aggregators: u32, ranks: u32) -> u32 {
    (u64::from(number) * u64::from(ranks) / u64::from(aggregators.max(1))) as u32
}

/// The inverse of [`spread`]: the number of the aggregator at `rank`, if any.
pub fn spread_to(rank: u32, aggregators: u32, ranks: u32) -> Option<u32> {
    let number = (u64::from(rank) * u64::from(aggregators)).div_ceil(u64::from(ranks.max(1))) as u32;
    Some(number).filter(|n| *n < aggregators && spread(*n, aggregators, ranks) == rank)
}

/// The intersection of two extents; its length is 0 if they do not meet.
pub fn shared_part(a: Extent, b: Extent) -> Extent {
    let start = a.offset.max(b.offset);
    let end = (a.offset + a.length).min(b.offset + b.length);
    Extent::new(start, end.saturating_sub(start))
}

impl Domains {
    /// - `all`: the output's extent, which ends below 2^63; `stripe`: bytes of a stripe (0 counts as 1); `aggregators`: most
    ///   domains (0 counts as 1).
    pub fn new(all: Extent, stripe: u64, aggregators: u32) -> Domains {
        let (stripe, aggregators) = (stripe.clamp(1, 1 << 62), aggregators.max(1));
        let mut domains = Domains { all, stripe, count: 1, aggregators };
        domains.count = domains.stripes().min(u64::from(aggregators)).max(1) as u32;
        domains
    }

    /// Number of domains, which is the number of busy aggregators.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Number of the aggregator that writes a domain.
    pub fn aggregator(&self, number: u32) -> u32 {
        spread(number, self.count, self.aggregators)
    }

    /// The domain that an aggregator writes, if any.
    pub fn number_of(&self, aggregator: u32) -> Option<u32> {
        spread_to(aggregator, self.count, self.aggregators)
    }

    fn first_stripe(&self) -> u64 {
        self.all.offset / self.stripe
    }

    fn stripes(&self) -> u64 {
        (self.all.offset + self.all.length).div_ceil(self.stripe) - self.first_stripe()
    }

    /// Start of domain `number`, before clipping to the output's extent.
    fn border(&self, number: u32) -> u64 {
        let stripes = u128::from(self.stripes()) * u128::from(number) / u128::from(self.count);
        (self.first_stripe() + stripes as u64).saturating_mul(self.stripe)
    }

    /// The extent of a domain.
    pub fn domain(&self, number: u32) -> Extent {
        let start = self.border(number);
        shared_part(self.all, Extent::new(start, self.border(number + 1).saturating_sub(start)))
    }

    /// The domain of a byte of the output.
    fn holding(&self, byte: u64) -> u32 {
        let stripe = u128::from((byte / self.stripe).saturating_sub(self.first_stripe()));
        let stripes = u128::from(self.stripes().max(1));
        // The largest number whose border is not behind the byte.
        let number = ((stripe + 1) * u128::from(self.count) - 1) / stripes;
        (number as u32).min(self.count - 1)
    }

    /// The domains that an extent meets.
    pub fn met(&self, extent: Extent) -> Range<u32> {
        let part = shared_part(self.all, extent);
        if part.length == 0 {
            return 0..0;
        }
        self.holding(part.offset)..self.holding(part.offset + part.length - 1) + 1
    }

    /// The part of `domain` from byte `at` that is written in one round: it ends at a stripe boundary, or, if a stripe is longer
    /// than `window` bytes (0 counts as 1), at a multiple of `window` within the stripe.
    pub fn round(&self, domain: Extent, at: u64, window: u64) -> Extent {
        let window = window.max(1);
        let unit = if window >= self.stripe { window - window % self.stripe } else { window };
        // Parts of a stripe are counted from its start.
        let origin = if window >= self.stripe { 0 } else { at - at % self.stripe };
        let next = origin + ((at - origin) / unit + 1).saturating_mul(unit);
        let next = if window >= self.stripe { next } else { next.min(origin + self.stripe) };
        let end = next.min(domain.offset + domain.length);
        Extent::new(at, end.saturating_sub(at))
    }
}

/// Splits a rank's bytes of a round into messages.
pub fn pieces(extent: Extent, piece: u64) -> impl Iterator<Item = Extent> {
    let piece = piece.max(1);
    let count = extent.length.div_ceil(piece);
    (0..count).map(move |i| {
        let before = i * piece;
        Extent::new(extent.offset + before, piece.min(extent.length - before))
    })
}

/// One message, or one write of an aggregator's own bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// The sending rank.
    pub from: u32,
    /// The aggregator's rank.
    pub to: u32,
    /// The round of this aggregator.
    pub round: u32,
    /// The extent in the file.
    pub extent: Extent,
}

/// All transfers of an output, ordered by domain, round and offset; the ranks of a running program determine them step by step.
///
/// - `aggregators`: their ranks; `places`: extent of each rank's process group.
pub fn transfers(domains: &Domains, aggregators: &[u32], places: &[Extent], window: u64, piece: u64) -> Vec<Transfer> {
    let ranks = places.len() as u32;
    let mut all = Vec::new();
    let mut order: Vec<u32> = (0..ranks).filter(|r| places[*r as usize].length > 0).collect();
    order.sort_by_key(|r| places[*r as usize].offset);
    for number in 0..domains.count() {
        let domain = domains.domain(number);
        let to = aggregators[domains.aggregator(number) as usize];
        let (mut at, mut turn) = (domain.offset, 0);
        while at < domain.offset + domain.length {
            let round = domains.round(domain, at, window);
            let first = order.partition_point(|r| places[*r as usize].end().unwrap_or(u64::MAX) <= at);
            for from in order[first..].iter().take_while(|r| places[**r as usize].meets(round)) {
                let part = shared_part(places[*from as usize], round);
                all.extend(pieces(part, piece).map(|extent| Transfer { from: *from, to, round: turn, extent }));
            }
            at += round.length;
            turn += 1;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::shared_by_all;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn places(base: u64, sizes: &[u64]) -> Vec<Extent> {
        shared_by_all(base, sizes).unwrap().iter().map(|p| p.extent).collect()
    }

    #[test]
    fn domains_are_whole_stripes_dealt_evenly() {
        // 10 stripes of 100 bytes, the first and the last cut.
        let domains = Domains::new(Extent::new(1050, 920), 100, 4);
        let all: Vec<Extent> = (0..4).map(|n| domains.domain(n)).collect();
        let expected = [(1050, 150), (1200, 300), (1500, 200), (1700, 270)];
        assert_eq!(all, expected.map(|(o, l)| Extent::new(o, l)));
        assert_eq!(Domains::new(Extent::new(1050, 920), 1000, 4).count(), 1);
        assert_eq!(Domains::new(Extent::new(5, 0), 1000, 4).count(), 1);
    }

    #[test]
    fn aggregators_are_spread_over_the_ranks() {
        let ranks: Vec<u32> = (0..4).map(|n| spread(n, 4, 10)).collect();
        assert_eq!(ranks, [0, 2, 5, 7]);
    }

    #[test]
    fn a_stripe_longer_than_the_window_is_written_in_parts() {
        let domains = Domains::new(Extent::new(0, 250), 100, 1);
        let (mut at, mut ends) = (0, Vec::new());
        while at < 250 {
            at += domains.round(domains.domain(0), at, 40).length;
            ends.push(at);
        }
        assert_eq!(ends, [40, 80, 100, 140, 180, 200, 240, 250]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_byte_travels_once_and_no_aggregator_takes_more_than_its_window(
            base in 0u64..1 << 40,
            sizes in prop::collection::vec(prop_oneof![3 => 0u64..5000, 1 => Just(0u64), 1 => 0u64..200_000], 1..3000),
            stripe in 1u64..100_000,
            aggregators in 1u32..200,
            window in 1000u64..300_000,
            piece in 500u64..100_000,
        ) {
            let places = places(base, &sizes);
            let all = Extent::new(base, sizes.iter().sum());
            let ranks = sizes.len() as u32;
            let domains = Domains::new(all, stripe, aggregators.min(ranks));
            let writers: Vec<u32> = (0..aggregators.min(ranks)).map(|n| spread(n, aggregators.min(ranks), ranks)).collect();
            let transfers = transfers(&domains, &writers, &places, window, piece);
            let mut at = base;
            let mut held: HashMap<(u32, u32), u64> = HashMap::new();
            for t in &transfers {
                // In the file's order, so that there is neither a gap nor an overlap.
                prop_assert_eq!(t.extent.offset, at);
                at += t.extent.length;
                prop_assert!(t.extent.length > 0 && t.extent.length <= piece);
                let own = places[t.from as usize];
                prop_assert_eq!(shared_part(own, t.extent), t.extent);
                *held.entry((t.to, t.round)).or_default() += t.extent.length;
            }
            prop_assert_eq!(at, base + all.length);
            prop_assert!(held.values().all(|bytes| *bytes <= window));
        }

        #[test]
        fn a_rank_knows_the_domains_it_meets_and_who_writes_them(
            base in 0u64..1 << 40, length in 0u64..1 << 40, stripe in 1u64..1 << 30, aggregators in 1u32..5000, ranks in 1u32..200_000,
            from in 0u64..1 << 40, long in 0u64..1 << 36,
        ) {
            let domains = Domains::new(Extent::new(base, length), stripe, aggregators.min(ranks));
            let count = domains.count();
            let mine = Extent::new(base + from % length.max(1), long);
            let mine = shared_part(Extent::new(base, length), mine);
            let met = domains.met(mine);
            let mut at = base;
            for number in 0..count {
                let domain = domains.domain(number);
                prop_assert_eq!(domain.offset, at);
                prop_assert!(number == 0 || domain.offset.is_multiple_of(stripe));
                prop_assert!(length == 0 || domain.length > 0);
                prop_assert_eq!(met.contains(&number), domain.meets(mine));
                at += domain.length;
                let aggregator = domains.aggregator(number);
                let rank = spread(aggregator, aggregators.min(ranks), ranks);
                prop_assert!(rank < ranks);
                prop_assert_eq!(spread_to(rank, aggregators.min(ranks), ranks), Some(aggregator));
                prop_assert_eq!(domains.number_of(aggregator), Some(number));
            }
            prop_assert_eq!(at, base + length);
            let writers = (0..aggregators.min(ranks)).filter(|a| domains.number_of(*a).is_some()).count();
            prop_assert_eq!(writers, count as usize);
        }
    }
}
