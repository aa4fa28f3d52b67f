//! The tree in which index fragments are sent to rank 0, as a pure function of rank and size.
//!
//! Each node of the tree stands for a run of ranks and is the first of them. The other ranks of the run are divided among at most
//! `fan_in` children, in runs whose lengths differ by at most one. A rank's fragment followed by those of its children is
//! therefore in the order of ranks, as if all had been gathered at once; no tree of that fan-in has fewer levels.
//!
//! | ranks | fan-in | hops of the farthest rank |
//! |---|---|---|
//! | 65 | 64 | 1 |
//! | 4,161 | 64 | 2 |
//! | 140,000 | 64 | 3 |

use std::ops::Range;

/// Default number of children of a node.
///
/// The cost of a fragment grows with the hops, because its bytes are sent once for each; the wait of a node grows with its
/// children. 64 keeps the ranks of a large node, and any small run, at one hop, as without a tree; 140,000 ranks need three hops,
/// with 32 already four.
pub const FAN_IN: u32 = 64;

/// The position of one rank in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Parent; `None` for rank 0.
    pub parent: Option<u32>,
    /// Ranks of its subtree, its own included.
    pub ranks: Range<u32>,
    /// Ranks of each child's subtree, in order; the first rank of each is the child.
    pub children: Vec<Range<u32>>,
    /// Hops to rank 0.
    pub depth: u32,
}

/// The position of `rank` among `ranks`; both counts are taken as at least 1.
///
/// # Panics
/// If there is no such rank.
pub fn node(rank: u32, ranks: u32, fan_in: u32) -> Node {
    let mut run = 0..ranks.max(1);
    assert!(run.contains(&rank), "rank {rank} of {ranks}");
    let (mut parent, mut depth) = (None, 0);
    while run.start != rank {
        parent = Some(run.start);
        depth += 1;
        run = part_of(rank, run.start + 1..run.end, fan_in);
    }
    Node { parent, children: parts(run.start + 1..run.end, fan_in).collect(), ranks: run, depth }
}

/// Number of parts of a run, their least length, and how many (the first ones) are longer by one.
fn cut(run: &Range<u32>, fan_in: u32) -> (u32, u32, u32) {
    let length = run.end - run.start;
    let count = length.min(fan_in.max(1));
    (count, length.checked_div(count).unwrap_or(0), length.checked_rem(count).unwrap_or(0))
}

fn part(run: &Range<u32>, number: u32, short: u32, longer: u32) -> Range<u32> {
    let start = |n: u32| run.start + n * short + n.min(longer);
    start(number)..start(number + 1)
}

fn parts(run: Range<u32>, fan_in: u32) -> impl Iterator<Item = Range<u32>> {
    let (count, short, longer) = cut(&run, fan_in);
    (0..count).map(move |number| part(&run, number, short, longer))
}

/// The part that contains a rank of the run.
fn part_of(rank: u32, run: Range<u32>, fan_in: u32) -> Range<u32> {
    let (_, short, longer) = cut(&run, fan_in);
    let at = rank - run.start;
    let in_longer = longer * (short + 1);
    let number = if at < in_longer { at / (short + 1) } else { longer + (at - in_longer) / short };
    part(&run, number, short, longer)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Largest number of ranks of a tree of this depth.
    fn room(fan_in: u64, depth: u32) -> u64 {
        (0..=depth).map(|level| fan_in.pow(level)).sum()
    }

    fn check(ranks: u32, fan_in: u32) {
        let mut heard = vec![0u32; ranks as usize];
        let mut deepest = 0;
        for rank in 0..ranks {
            let node = node(rank, ranks, fan_in);
            assert_eq!(node.ranks.start, rank);
            assert!(node.children.len() <= fan_in as usize, "{ranks} ranks, {fan_in}: {node:?}");
            let mut next = rank + 1;
            for child in &node.children {
                assert_eq!(child.start, next, "{node:?}");
                assert!(child.end > child.start);
                next = child.end;
                heard[child.start as usize] += 1;
                let said = super::node(child.start, ranks, fan_in);
                assert_eq!((said.parent, &said.ranks, said.depth), (Some(rank), child, node.depth + 1));
            }
            assert_eq!(next, node.ranks.end, "nobody is left out: {node:?}");
            deepest = deepest.max(node.depth);
        }
        assert_eq!(heard[0], 0);
        assert!(heard[1..].iter().all(|times| *times == 1), "every rank is heard once");
        assert!(room(u64::from(fan_in), deepest) >= u64::from(ranks));
        assert!(
            deepest == 0 || room(u64::from(fan_in), deepest - 1) < u64::from(ranks),
            "{ranks}, {fan_in}: {deepest}"
        );
    }

    #[test]
    fn every_rank_is_heard_once_by_the_flattest_tree_there_is() {
        for ranks in (1..200).chain([255, 256, 257, 1000, 4096, 4161, 4162, 9999, 10_000]) {
            for fan_in in [1, 2, 3, 7, 16, 64, 20_000] {
                if fan_in == 1 && ranks > 300 {
                    continue;
                }
                check(ranks, fan_in);
            }
        }
    }

    #[test]
    fn every_number_of_ranks_up_to_ten_thousand_has_its_tree() {
        for fan_in in [2, 3, 16, FAN_IN] {
            // Depth of a tree of so many ranks. A child's subtree is again such a tree.
            let mut depths = vec![0u32; 10_001];
            for ranks in 1..=10_000u32 {
                let root = node(0, ranks, fan_in);
                assert_eq!((root.parent, &root.ranks, root.depth), (None, &(0..ranks), 0));
                assert_eq!(root.children.len() as u32, (ranks - 1).min(fan_in));
                let mut next = 1;
                for child in &root.children {
                    assert_eq!(child.start, next, "every rank is in one part: {ranks}, {fan_in}");
                    next = child.end;
                    let length = child.end - child.start;
                    let own = node(child.start, ranks, fan_in);
                    assert_eq!((own.parent, &own.ranks, own.depth), (Some(0), child, 1));
                    let moved = |run: &Range<u32>| run.start - child.start..run.end - child.start;
                    let alone = node(0, length, fan_in).children;
                    assert_eq!(own.children.iter().map(moved).collect::<Vec<_>>(), alone, "{ranks}, {fan_in}");
                    depths[ranks as usize] = depths[ranks as usize].max(1 + depths[length as usize]);
                }
                assert_eq!(next, ranks);
                let flattest = (0..).find(|depth| room(u64::from(fan_in), *depth) >= u64::from(ranks));
                assert_eq!(Some(depths[ranks as usize]), flattest, "{ranks}, {fan_in}");
            }
        }
    }

    #[test]
    fn a_full_machine_is_three_hops_deep() {
        let last = node(139_999, 140_000, FAN_IN);
        assert_eq!((last.depth, last.children.len()), (3, 0));
        assert_eq!(node(0, 140_000, FAN_IN).children[0], 1..2189);
        assert_eq!(node(1, 140_000, FAN_IN).children[0], 2..37);
        assert_eq!((0..140_000).map(|rank| node(rank, 140_000, 32).depth).max(), Some(4));
    }
}
