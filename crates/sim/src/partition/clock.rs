//! The messages of a plan in virtual time.

use super::plan::{Aggregator, Call, Message, PAIR_BYTES, Plan, Rounds, Share, tables};
use super::station::{Disk, Station};
use super::{Contender, Direction};
use crate::machine::{Machine, Servers, TwoPhase};
use crate::world::{Happened, World};
use thalweg_types::Result;

/// Seconds in all calls of a plan.
///
/// # Errors
/// `Config` for a machine without servers.
pub fn seconds(machine: &Machine, plan: &Plan, direction: Direction) -> Result<f64> {
    let mut clock = Clock::new(machine, plan, direction)?;
    let mut all = 0.0;
    for call in &plan.calls {
        clock.disks.iter_mut().for_each(Disk::settle);
        let begin = clock.at;
        clock.call(call);
        if plan.until_on_disk && direction == Direction::Write {
            clock.at = clock.disks.iter().map(Disk::written_at).fold(clock.at, f64::max);
        }
        all += clock.at - begin;
    }
    Ok(all)
}

/// What things cost, in seconds.
#[derive(Clone, Copy)]
struct Costs<'m> {
    machine: &'m Machine,
    servers: &'m Servers,
    two_phase: &'m TwoPhase,
}

impl Costs<'_> {
    /// On a link.
    fn link(self, bytes: u64) -> f64 {
        bytes as f64 / self.machine.node_bandwidth()
    }

    /// On a server's processor.
    fn at_server(self, message: &Message) -> f64 {
        let servers = self.servers;
        servers.request_seconds.0
            + message.bytes as f64 / (servers.copy_gb_per_second.0 * 1e9)
            + message.runs as f64 * servers.run_seconds.0
    }

    /// On a rank's processor, for the pairs of a share.
    fn pairs(self, share: &Share) -> f64 {
        share.pairs as f64 * self.two_phase.pair_seconds.0
    }

    /// On an aggregator's processor. Its own bytes are not sent.
    fn at_aggregator(self, share: &Share, aggregator: u32) -> f64 {
        let sent = if share.rank == aggregator { 0 } else { share.bytes };
        self.pairs(share) + sent as f64 / (self.two_phase.exchange_gb_per_second.0 * 1e9)
    }
}

struct Clock<'m> {
    costs: Costs<'m>,
    contender: Contender,
    direction: Direction,
    world: World,
    /// When all ranks have ended what they did together.
    at: f64,
    latency: f64,
    /// Seconds until all ranks have heard of all.
    agreement: f64,
    ranks: Vec<Station>,
    node_out: Vec<Station>,
    node_in: Vec<Station>,
    server_out: Vec<Station>,
    server_in: Vec<Station>,
    processors: Vec<Station>,
    disks: Vec<Disk>,
}

/// What happens next to a message, or to a client.
#[derive(Debug, Clone, Copy)]
enum Stage {
    /// A client begins its next round.
    Begins,
    /// A request, or a message with its last byte, comes to the server.
    AtServer,
    /// The reply comes to the client.
    AtClient,
    /// The client has it.
    Done,
}

#[derive(Debug, Clone, Copy)]
enum Leg {
    /// The sender has prepared it.
    Ready,
    /// Its last byte comes to the receiver's node.
    Arrives,
}

/// A client's state.
struct Client<'p> {
    rank: u32,
    rounds: &'p Rounds,
    round: usize,
    waiting: usize,
    ended: f64,
}

impl<'m> Clock<'m> {
    fn new(machine: &'m Machine, plan: &Plan, direction: Direction) -> Result<Clock<'m>> {
        let (servers, two_phase) = tables(machine)?;
        let stations = |count: u32| vec![Station::default(); count as usize];
        let (nodes, count) = (machine.node_of(plan.ranks - 1) + 1, machine.targets_of_a_file());
        let latency = machine.network.latency_seconds.0;
        let disk = Disk::new(machine.target_bandwidth(), servers.cache_mib.0 * f64::from(1 << 20));
        Ok(Clock {
            costs: Costs { machine, servers, two_phase },
            contender: plan.contender,
            direction,
            world: World::new(machine, 0, machine.node_bandwidth()),
            at: 0.0,
            latency,
            agreement: 2.0 * f64::from(32 - plan.ranks.leading_zeros()) * latency,
            ranks: stations(plan.ranks),
            node_out: stations(nodes),
            node_in: stations(nodes),
            server_out: stations(count),
            server_in: stations(count),
            processors: stations(count),
            disks: vec![disk; count as usize],
        })
    }

    fn call(&mut self, call: &Call) {
        match call {
            Call::Full(ranks) => {
                let clients = ranks.iter().zip(0..).map(|(rounds, rank)| (rank, rounds, self.at)).collect::<Vec<_>>();
                let ends = self.transfer(&clients);
                self.at = ends.into_iter().fold(self.at, f64::max);
            }
            Call::TwoPhase(aggregators) => self.two_phase(aggregators),
        }
    }

    fn two_phase(&mut self, aggregators: &[Aggregator]) {
        // Where each rank's bytes go: from ranks to aggregators, whatever the direction of the bytes.
        let lists: Vec<(u32, Vec<Share>)> = aggregators
            .iter()
            .map(|aggregator| {
                let mut by_rank: Vec<Share> = Vec::new();
                let mut shares: Vec<Share> = aggregator.rounds.iter().flat_map(|r| r.shares.iter().copied()).collect();
                shares.sort_by_key(|share| share.rank);
                for share in shares {
                    match by_rank.last_mut().filter(|last| last.rank == share.rank) {
                        Some(last) => last.pairs += share.pairs,
                        None => by_rank.push(share),
                    }
                }
                by_rank.iter_mut().for_each(|share| share.bytes = share.pairs * PAIR_BYTES);
                (aggregator.rank, by_rank)
            })
            .collect();
        let lists: Vec<(u32, &[Share], f64)> =
            lists.iter().map(|(rank, shares)| (*rank, shares.as_slice(), self.at)).collect();
        let ends = self.exchange(&lists, Direction::Write);
        self.at = ends.into_iter().fold(self.at, f64::max);
        for round in 0..aggregators.iter().map(|a| a.rounds.len()).max().unwrap_or(0) {
            let begin = self.at + self.agreement;
            let busy: Vec<_> = aggregators.iter().filter_map(|a| Some((a.rank, a.rounds.get(round)?))).collect();
            let share = |starts: &[f64]| -> Vec<(u32, &[Share], f64)> {
                busy.iter().zip(starts).map(|((rank, of), at)| (*rank, of.shares.as_slice(), *at)).collect()
            };
            let send = |starts: &[f64]| -> Vec<(u32, &Rounds, f64)> {
                busy.iter().zip(starts).map(|((rank, of), at)| (*rank, &of.messages, *at)).collect()
            };
            let together = vec![begin; busy.len()];
            let ends = match self.direction {
                Direction::Write => {
                    let here = self.exchange(&share(&together), Direction::Write);
                    self.transfer(&send(&here))
                }
                Direction::Read => {
                    let here = self.transfer(&send(&together));
                    self.exchange(&share(&here), Direction::Read)
                }
            };
            self.at = ends.into_iter().fold(begin, f64::max);
        }
    }

    /// Clients exchange their rounds with the servers; returns when each has ended.
    ///
    /// - `clients`: rank, messages, when it begins.
    fn transfer(&mut self, clients: &[(u32, &Rounds, f64)]) -> Vec<f64> {
        let costs = self.costs;
        let mut of: Vec<Client> = Vec::new();
        let mut stages: Vec<(Stage, u32, Option<Message>)> = Vec::new();
        for (client, (rank, rounds, at)) in (0..).zip(clients) {
            of.push(Client { rank: *rank, rounds, round: 0, waiting: 0, ended: *at });
            self.later(*at, &mut stages, (Stage::Begins, client, None));
        }
        while let Some(Happened::Later { tag }) = self.world.step() {
            let now = self.world.now();
            let (stage, number, message) = stages[tag as usize];
            let client = &mut of[number as usize];
            let node = costs.machine.node_of(client.rank) as usize;
            let Some(message) = message else {
                client.ended = now;
                let Some(round) = client.rounds.get(client.round) else { continue };
                client.waiting = round.len();
                // Clients do not all begin with the same server.
                let first = client.rank % self.disks.len() as u32;
                let split = round.iter().position(|message| message.server >= first).unwrap_or(0);
                let begin = now + self.asked();
                for message in round[split..].iter().chain(&round[..split]) {
                    let sent = match self.direction {
                        Direction::Write => self.node_out[node].serve(begin, costs.link(message.bytes)),
                        Direction::Read => begin,
                    };
                    self.later(sent + self.latency, &mut stages, (Stage::AtServer, number, Some(*message)));
                }
                continue;
            };
            let server = message.server as usize;
            match (stage, self.direction) {
                (Stage::AtServer, Direction::Write) => {
                    let received = self.server_in[server].receive(now, costs.link(message.bytes));
                    let scattered = self.processors[server].serve(received, costs.at_server(&message));
                    let taken = self.disks[server].take(scattered, message.bytes as f64);
                    // The processor waits for the disk, too.
                    self.processors[server].serve(taken, 0.0);
                    self.later(taken + self.latency, &mut stages, (Stage::Done, number, Some(message)));
                }
                (Stage::AtServer, Direction::Read) => {
                    let gathered = self.processors[server].serve(now, costs.at_server(&message));
                    let sent = self.server_out[server].serve(gathered, costs.link(message.bytes));
                    self.later(sent + self.latency, &mut stages, (Stage::AtClient, number, Some(message)));
                }
                (Stage::AtClient, _) => {
                    let received = self.node_in[node].receive(now, costs.link(message.bytes));
                    self.later(received, &mut stages, (Stage::Done, number, Some(message)));
                }
                (Stage::Done | Stage::Begins, _) => {
                    client.waiting -= 1;
                    if client.waiting == 0 {
                        client.round += 1;
                        self.later(now, &mut stages, (Stage::Begins, number, None));
                    }
                }
            }
        }
        of.iter().map(|client| client.ended).collect()
    }

    /// Seconds before the bytes of a round may flow: PVFS2 asks each server first, which reads do with their request anyway.
    fn asked(&self) -> f64 {
        match (self.contender, self.direction) {
            (Contender::Pvfs2, Direction::Write) => 2.0 * self.latency + self.costs.servers.request_seconds.0,
            _ => 0.0,
        }
    }

    /// Ranks and aggregators exchange shares; returns when each aggregator has ended, or the last of its ranks has its bytes.
    ///
    /// - `aggregators`: rank, shares, when it begins.
    /// - `direction`: `Write` towards aggregators.
    fn exchange(&mut self, aggregators: &[(u32, &[Share], f64)], direction: Direction) -> Vec<f64> {
        let costs = self.costs;
        let mut ends: Vec<f64> = aggregators.iter().map(|(.., at)| *at).collect();
        let mut legs: Vec<(Leg, usize, Share)> = Vec::new();
        let of_all =
            aggregators.iter().enumerate().flat_map(|(number, of)| of.1.iter().map(move |share| (number, *share)));
        let mut in_turn: Vec<(usize, Share)> = of_all.collect();
        // Nobody begins with the same receiver as the others: receivers of a rank, or of an aggregator, in turn from its own number on.
        let (ranks, count) = (self.ranks.len(), aggregators.len());
        in_turn.sort_by_key(|(number, share)| match direction {
            Direction::Write => (number + count - share.rank as usize % count) % count,
            Direction::Read => (share.rank as usize + ranks - aggregators[*number].0 as usize) % ranks,
        });
        for (number, share) in in_turn {
            let (of, _, at) = aggregators[number];
            let ready = match direction {
                Direction::Write => self.ranks[share.rank as usize].serve(at, costs.pairs(&share)),
                Direction::Read => self.ranks[of as usize].serve(at, costs.at_aggregator(&share, of)),
            };
            self.later(ready, &mut legs, (Leg::Ready, number, share));
        }
        while let Some(Happened::Later { tag }) = self.world.step() {
            let now = self.world.now();
            let (leg, number, share) = legs[tag as usize];
            let aggregator = aggregators[number].0;
            let (from, to) = match direction {
                Direction::Write => (share.rank, aggregator),
                Direction::Read => (aggregator, share.rank),
            };
            let (from_node, to_node) = (costs.machine.node_of(from), costs.machine.node_of(to));
            match leg {
                Leg::Ready => {
                    let sent = if from_node == to_node {
                        now
                    } else {
                        self.node_out[from_node as usize].serve(now, costs.link(share.bytes))
                    };
                    let on_its_way = if from == to { 0.0 } else { self.latency };
                    self.later(sent + on_its_way, &mut legs, (Leg::Arrives, number, share));
                }
                Leg::Arrives => {
                    let received = if from_node == to_node {
                        now
                    } else {
                        self.node_in[to_node as usize].receive(now, costs.link(share.bytes))
                    };
                    let taken = match direction {
                        Direction::Write => costs.at_aggregator(&share, aggregator),
                        Direction::Read => costs.pairs(&share),
                    };
                    ends[number] = ends[number].max(self.ranks[to as usize].serve(received, taken));
                }
            }
        }
        ends
    }

    fn later<T>(&mut self, at: f64, all: &mut Vec<T>, what: T) {
        self.world.later(at, all.len() as u64);
        all.push(what);
    }
}
