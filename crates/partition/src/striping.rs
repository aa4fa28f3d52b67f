//! Which server holds which bytes of a file, and where: round robin, in stripes of one size.
//!
//! Stripe `k`, bytes `k * stripe` to `(k + 1) * stripe - 1`, lies on server `k mod servers`, there at offset
//! `(k div servers) * stripe`. Source: AHPIOS, section 3.
//!
//! Pure functions of values.

use std::ops::Range;
use thalweg_types::{Error, ErrorKind, Extent, Result};
use thalweg_view::View;

/// Largest number of servers of a file.
pub const MOST_SERVERS: u32 = 4096;
/// Shortest stripe that a configuration or a program may ask for, in bytes.
pub const SHORTEST_STRIPE: u64 = 512;
/// Largest stripe in bytes.
pub const LONGEST_STRIPE: u64 = 1 << 40;

/// The server of a partition on which server `number` of a file lies. Files that lie on all servers begin at the first one; others at
/// one that follows from their identity, so that not all of them load the same servers.
///
/// - `id`: identity of the file.
/// - `of_file`, `of_partition`: numbers of servers.
pub fn place(id: u128, of_file: u32, of_partition: u32, number: u32) -> u32 {
    match of_partition {
        0 => number,
        all if of_file >= all => number,
        all => ((id % u128::from(all)) as u32 + number) % all,
    }
}

/// Where a file's bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Striping {
    stripe: u64,
    servers: u32,
}

/// Bytes of a file that lie on one server, one behind the other in a caller's buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// The server.
    pub server: u32,
    /// First byte: a file offset, or a byte of the view.
    pub start: u64,
    /// Number of bytes.
    pub length: u64,
}

impl Striping {
    /// - `stripe`: bytes of a stripe.
    /// - `servers`: number of servers.
    ///
    /// # Errors
    /// `Config` for no servers, more than [`MOST_SERVERS`], a stripe of no bytes or one longer than [`LONGEST_STRIPE`].
    pub fn new(stripe: u64, servers: u32) -> Result<Striping> {
        let wrong = |what: String| Err(Error::new(ErrorKind::Config, what));
        if !(1..=LONGEST_STRIPE).contains(&stripe) {
            return wrong(format!("a stripe of {stripe} bytes: it has 1 to {LONGEST_STRIPE}"));
        }
        if !(1..=MOST_SERVERS).contains(&servers) {
            return wrong(format!("striped over {servers} servers: a file has 1 to {MOST_SERVERS}"));
        }
        Ok(Striping { stripe, servers })
    }

    /// Bytes of a stripe.
    pub fn stripe(&self) -> u64 {
        self.stripe
    }

    /// Number of servers.
    pub fn servers(&self) -> u32 {
        self.servers
    }

    /// The server of a byte.
    pub fn server_of(&self, offset: u64) -> u32 {
        (offset / self.stripe % u64::from(self.servers)) as u32
    }

    /// The offset of a byte on its server.
    pub fn local(&self, offset: u64) -> u64 {
        offset / self.stripe / u64::from(self.servers) * self.stripe + offset % self.stripe
    }

    /// The byte of the file at an offset on a server; `None` beyond 64 bits.
    pub fn global(&self, server: u32, local: u64) -> Option<u64> {
        let before = (local / self.stripe).checked_mul(u64::from(self.servers))?.checked_add(u64::from(server))?;
        before.checked_mul(self.stripe)?.checked_add(local % self.stripe)
    }

    /// Bytes that a server holds of a file of `length` bytes, if all are written.
    pub fn local_length(&self, server: u32, length: u64) -> u64 {
        let (servers, server) = (u64::from(self.servers), u64::from(server));
        let whole = length / self.stripe;
        let mine = whole / servers + u64::from(whole % servers > server);
        let rest = if whole % servers == server { length % self.stripe } else { 0 };
        mine * self.stripe + rest
    }

    /// The length of the file whose last byte is the last one of a server; 0 for a server that holds nothing.
    pub fn length_up_to(&self, server: u32, local_length: u64) -> u64 {
        match local_length.checked_sub(1) {
            None => 0,
            Some(last) => self.global(server, last).map_or(u64::MAX, |last| last.saturating_add(1)),
        }
    }

    /// A range of the file as packets, in its order.
    pub fn packets(&self, range: Range<u64>) -> impl Iterator<Item = Packet> + use<> {
        let striping = *self;
        let mut at = range.start;
        std::iter::from_fn(move || {
            let start = at;
            if start >= range.end {
                return None;
            }
            // On one server all bytes are one packet.
            at = match striping.servers {
                1 => range.end,
                _ => (start / striping.stripe + 1).saturating_mul(striping.stripe).min(range.end),
            };
            Some(Packet { server: striping.server_of(start), start, length: at - start })
        })
    }

    /// Bytes `range` of a view as packets, in the order of the view: cut where the view passes to a stripe of another server, so that
    /// each packet goes to its server without a list of offsets. The last packet ends where the view leaves 63 bits.
    ///
    /// # Cost
    /// The depth of the datatype for each stripe that the view touches; a view whose bytes do not rise costs a step for each extent.
    pub fn view_packets(&self, view: &View, range: Range<u64>) -> Vec<Packet> {
        let mut packets: Vec<Packet> = Vec::new();
        let mut put = |server: u32, start: u64, length: u64| match packets.last_mut() {
            Some(last) if last.server == server && last.start + last.length == start => last.length += length,
            _ => packets.push(Packet { server, start, length }),
        };
        if self.servers == 1 {
            if range.start < range.end {
                put(0, range.start, range.end - range.start);
            }
            return packets;
        }
        if view.is_rising() {
            let mut at = range.start;
            while at < range.end {
                let Some(offset) = view.file_offset(at) else { break };
                let end = (offset / self.stripe + 1).saturating_mul(self.stripe);
                // A rising view counts below any offset; the byte at `at` is below the end of its stripe.
                let next = view.count_below(end).unwrap_or(at + 1).clamp(at + 1, range.end);
                put(self.server_of(offset), at, next - at);
                at = next;
            }
            return packets;
        }
        let mut at = range.start;
        for Extent { offset, length } in view.extents(range) {
            for packet in self.packets(offset..offset + length) {
                put(packet.server, at, packet.length);
                at += packet.length;
            }
        }
        packets
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn servers_of_a_file_are_different_ones_and_of_many_files_all() {
        for (of_file, all) in [(1, 1), (3, 3), (1, 4), (3, 4), (2, 5)] {
            let mut used = vec![0; all as usize];
            for id in 0..100u128 {
                let mut places: Vec<u32> =
                    (0..of_file).map(|number| super::place(id << 7 | id, of_file, all, number)).collect();
                places.iter().for_each(|server| used[*server as usize] += 1);
                assert!(of_file < all || places == (0..all).collect::<Vec<_>>());
                places.sort_unstable();
                places.dedup();
                assert_eq!(places.len(), of_file as usize);
            }
            assert!(used.iter().all(|times| *times >= 10), "{used:?}");
        }
    }

    use super::*;
    use proptest::prelude::*;
    use thalweg_view::{Block, Datatype, Pattern};

    fn vector(displacement: u64, count: u64, block: u64, stride: i64) -> View {
        let byte: Pattern = Datatype::Elementary(1).pattern().unwrap();
        let of = Box::new(Datatype::Elementary(1));
        View::new(displacement, &byte, Datatype::Vector { count, block, stride, of }.pattern().unwrap()).unwrap()
    }

    #[test]
    fn the_papers_view_goes_to_two_servers_in_two_packets() {
        // Four blocks of one byte, stride 4, over stripes of 8 bytes.
        let packets = Striping::new(8, 2).unwrap().view_packets(&vector(0, 4, 1, 4), 0..4);
        assert_eq!(packets, [Packet { server: 0, start: 0, length: 2 }, Packet { server: 1, start: 2, length: 2 }]);
    }

    #[test]
    fn a_striping_without_servers_or_bytes_is_refused() {
        for (stripe, servers) in [(0, 1), (1, 0), (LONGEST_STRIPE + 1, 1), (1, MOST_SERVERS + 1)] {
            assert_eq!(Striping::new(stripe, servers).unwrap_err().kind(), ErrorKind::Config);
        }
    }

    proptest! {
        #[test]
        fn each_byte_has_one_place(stripe in 1u64..100, servers in 1u32..9, offset in 0u64..10_000) {
            let striping = Striping::new(stripe, servers).unwrap();
            let (server, local) = (striping.server_of(offset), striping.local(offset));
            prop_assert_eq!(striping.global(server, local), Some(offset));
        }

        #[test]
        fn lengths_on_servers_give_the_length_of_the_file(stripe in 1u64..50, servers in 1u32..9, length in 0u64..2000) {
            let striping = Striping::new(stripe, servers).unwrap();
            let locals: Vec<u64> = (0..servers).map(|server| striping.local_length(server, length)).collect();
            prop_assert_eq!(locals.iter().sum::<u64>(), length);
            let ends = (0..servers).map(|s| striping.length_up_to(s, locals[s as usize]));
            prop_assert_eq!(ends.max(), Some(length));
            for offset in 0..length {
                prop_assert!(striping.local(offset) < locals[striping.server_of(offset) as usize]);
            }
        }

        #[test]
        fn packets_of_a_view_are_its_bytes_on_their_servers(
            stripe in 1u64..40, servers in 1u32..6, displacement in 0u64..30, count in 1u64..5, block in 1u64..6, gap in 0u64..12,
            back: bool, start in 0u64..60, length in 0u64..80,
        ) {
            let striping = Striping::new(stripe, servers).unwrap();
            let mut view = vector(displacement, count, block, (block + gap) as i64);
            if back {
                // Two bytes in falling order: a view that does not rise.
                let byte: Pattern = Datatype::Elementary(1).pattern().unwrap();
                let blocks = [3, 1].map(|displacement| Block { count: 1, displacement }).to_vec();
                let pattern = Datatype::Hindexed { blocks, of: Box::new(Datatype::Elementary(1)) }.pattern().unwrap();
                view = View::new(displacement, &byte, pattern).unwrap();
            }
            let packets = striping.view_packets(&view, start..start + length);
            let mut at = start;
            for packet in &packets {
                prop_assert_eq!(packet.start, at);
                for byte in at..at + packet.length {
                    prop_assert_eq!(striping.server_of(view.file_offset(byte).unwrap()), packet.server);
                }
                at += packet.length;
            }
            prop_assert_eq!(at, start + length);
            prop_assert!(packets.windows(2).all(|pair| pair[0].server != pair[1].server), "neighbours on one server are one packet");
        }
    }
}
