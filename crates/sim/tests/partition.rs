//! Partitions beside two-phase: what crosses the network is what the code of partitions and views sends, and costs what it takes.

use thalweg_sim::load::{CELL_BYTES, Load, ROW_BYTES, named};
use thalweg_sim::partition::plan::{Call, PAIR_BYTES, PART_BYTES, Plan};
use thalweg_sim::partition::{CONTENDERS, Contender, Direction, Timed, advantage, compare, plans, timed};
use thalweg_sim::{Machine, partition};
use thalweg_types::ErrorKind;

const SMALL: [(Load, u32); 3] =
    [(Load::Btio { edge: 24 }, 9), (Load::Btio { edge: 50 }, 16), (Load::Tile { bytes: 16 << 20 }, 8)];

fn lonestar() -> Machine {
    Machine::shipped("lonestar").unwrap()
}

fn bytes(load: Load) -> u64 {
    load.bytes_of_call() * u64::from(load.calls())
}

fn runs(load: Load, ranks: u32) -> u64 {
    let of = |view: &thalweg_view::View| {
        (0..load.calls()).map(|call| view.extents(load.range(view, call)).count()).sum::<usize>()
    };
    load.views(ranks).unwrap().iter().map(of).sum::<usize>() as u64
}

#[test]
fn a_view_is_sent_once_and_payload_once_where_servers_use_views() {
    let machine = lonestar();
    for (load, ranks) in SMALL {
        let [full, ..] = plans(&machine, load, ranks).unwrap();
        let encoded: usize = load.views(ranks).unwrap().iter().map(|view| view.encode().len()).sum();
        assert_eq!(full.wire.view_bytes, encoded as u64 * 8, "once to each of eight servers, however many calls");
        assert_eq!((full.wire.server_bytes, full.wire.exchanged_bytes), (bytes(load), 0));
        // First byte and length of a range of the view, no list of the runs in it.
        let (mut parts, mut copied) = (0, 0);
        for call in &full.calls {
            let Call::Full(ranks) = call else { panic!("{:?}", full.contender) };
            for message in ranks.iter().flatten().flatten() {
                parts += message.parts;
                copied += message.runs;
            }
        }
        assert_eq!(full.wire.place_bytes, parts * PART_BYTES);
        assert!(copied >= runs(load, ranks) && copied > 2 * parts, "{copied} runs in {parts} ranges");
    }
}

#[test]
fn payload_crosses_twice_and_each_run_is_listed_where_ranks_exchange_first() {
    let machine = lonestar();
    for (load, ranks) in SMALL {
        let [_, two_phase, pvfs2] = plans(&machine, load, ranks).unwrap();
        for plan in [&two_phase, &pvfs2] {
            let wire = plan.wire;
            assert_eq!((wire.view_bytes, wire.server_bytes), (0, bytes(load)));
            let (mut own, mut listed) = (0, 0);
            for call in &plan.calls {
                let Call::TwoPhase(aggregators) = call else { panic!("{:?}", plan.contender) };
                assert_eq!(aggregators.len() as u32, ranks.div_ceil(4), "one on each node");
                for aggregator in aggregators {
                    for share in aggregator.rounds.iter().flat_map(|round| &round.shares) {
                        let here = share.rank == aggregator.rank;
                        own += if here { share.bytes } else { 0 };
                        listed += if here { 0 } else { share.pairs };
                    }
                }
            }
            // All but what an aggregator has for itself.
            assert_eq!(wire.exchanged_bytes, bytes(load) - own);
            assert!(own * u64::from(ranks) < 3 * bytes(load), "{own} of {} bytes stay", bytes(load));
            let parts = wire.place_bytes - listed * PAIR_BYTES;
            assert!(parts >= wire.server_messages * PART_BYTES && parts.is_multiple_of(PART_BYTES));
            assert!(listed * 4 >= runs(load, ranks) * 2, "{listed} pairs for {} runs", runs(load, ranks));
        }
        assert!(pvfs2.wire.server_messages <= two_phase.wire.server_messages);
    }
}

#[test]
fn each_message_fits_its_unit_and_each_stripe_goes_to_its_server() {
    let machine = lonestar();
    for (load, ranks) in SMALL {
        for plan in plans(&machine, load, ranks).unwrap() {
            let mut by_server = [0; 8];
            let unit = if plan.contender == Contender::Pvfs2 { 256 << 10 } else { 64 << 10 };
            let clients: Vec<_> = plan
                .calls
                .iter()
                .flat_map(|call| match call {
                    Call::Full(ranks) => ranks.iter().collect::<Vec<_>>(),
                    Call::TwoPhase(all) => all.iter().flat_map(|a| &a.rounds).map(|round| &round.messages).collect(),
                })
                .collect();
            for round in clients.into_iter().flatten() {
                for message in round {
                    assert!(message.bytes <= unit && message.parts > 0 && message.runs >= message.parts);
                    by_server[message.server as usize] += message.bytes;
                }
                let once: std::collections::HashSet<u32> = round.iter().map(|message| message.server).collect();
                assert!(plan.contender == Contender::Pvfs2 || once.len() == round.len(), "one unit a server and round");
            }
            let striping = thalweg_partition::striping::Striping::new(64 << 10, 8).unwrap();
            let expected: Vec<u64> = (0..8).map(|server| striping.local_length(server, bytes(load))).collect();
            assert_eq!(by_server.to_vec(), expected, "{:?}", plan.contender);
        }
    }
}

#[test]
fn nothing_is_faster_than_the_links() {
    let machine = lonestar();
    for (load, ranks) in SMALL {
        for one in compare(&machine, load, ranks).unwrap() {
            let links = ranks.div_ceil(4).min(8);
            let least = bytes(load) as f64 / (f64::from(links) * machine.node_bandwidth());
            for seconds in [one.write_seconds, one.read_seconds] {
                assert!(seconds.is_finite() && seconds >= least, "{:?}: {seconds} s of {least}", one.contender);
            }
        }
    }
}

fn advantages(machine: &Machine, load: &str, ranks: u32) -> (f64, f64) {
    let timed = compare(machine, named(load).unwrap().1, ranks).unwrap();
    (advantage(&timed, Direction::Write), advantage(&timed, Direction::Read))
}

#[test]
fn without_costs_of_the_exchange_two_phase_loses_what_it_sends_twice_and_no_more() {
    let mut machine = lonestar();
    let two_phase = machine.two_phase.as_mut().unwrap();
    two_phase.pair_seconds.0 = 0.0;
    two_phase.exchange_gb_per_second.0 = 1e6;
    machine.servers.as_mut().unwrap().run_seconds.0 = 0.0;
    for ranks in [16, 64] {
        let (writes, reads) = advantages(&machine, "btio-b", ranks);
        assert!((1.0..2.5).contains(&writes) && (1.0..2.5).contains(&reads), "{writes}, {reads} at {ranks}");
    }
}

#[test]
fn costs_of_a_run_are_the_servers_and_costs_of_a_pair_the_aggregators() {
    let machine = lonestar();
    let before = advantages(&machine, "btio-b", 16);
    let mut dear_runs = machine.clone();
    dear_runs.servers.as_mut().unwrap().run_seconds.0 = 1e-4;
    let mut dear_pairs = machine.clone();
    dear_pairs.two_phase.as_mut().unwrap().pair_seconds.0 = 1e-5;
    let (runs, pairs) = (advantages(&dear_runs, "btio-b", 16), advantages(&dear_pairs, "btio-b", 16));
    assert!(runs.0 < before.0 && runs.1 < before.1, "{runs:?} from {before:?}");
    assert!(pairs.0 > before.0 && pairs.1 > before.1, "{pairs:?} from {before:?}");
}

#[test]
fn slow_disks_make_contenders_equal_where_writes_wait_for_them() {
    let mut machine = lonestar();
    machine.targets.peak_gb_per_second.0 = 0.08;
    machine.two_phase.as_mut().unwrap().exchange_gb_per_second.0 = 1.0;
    let of = |machine: &Machine, load| compare(machine, load, 16).unwrap();
    let tile = Load::Tile { bytes: 256 << 20 };
    let disks = f64::from(256 << 20) / machine.peak();
    for Timed { contender, write_seconds, .. } in of(&machine, tile) {
        assert!(
            (1.0..1.1).contains(&(write_seconds / disks)),
            "{contender:?}: {write_seconds} s, the disks take {disks}"
        );
    }
    // BTIO computes between its writes: they wait only where a server's memory is full.
    let btio = Load::Btio { edge: 64 };
    let with_room = of(&machine, btio);
    machine.servers.as_mut().unwrap().cache_mib.0 = 0.25;
    let without = of(&machine, btio);
    let least = 0.9 * (bytes(btio) as f64 - 5.0 * 8.0 * f64::from(1 << 18)) / machine.peak();
    for (with_room, without) in with_room.iter().zip(&without) {
        assert!(with_room.write_seconds < least && without.write_seconds > least, "{with_room:?}, {without:?}");
        assert_eq!(with_room.read_seconds, without.read_seconds);
    }
}

#[test]
fn the_same_plan_takes_the_same_seconds() {
    let machine = lonestar();
    let plan = Plan::new(&machine, Load::Btio { edge: 24 }, 9, Contender::TwoPhase).unwrap();
    assert_eq!(timed(&machine, &plan).unwrap(), timed(&machine, &plan).unwrap());
}

#[test]
fn what_makes_no_sense_is_refused() {
    let load = Load::Tile { bytes: ROW_BYTES };
    for ranks in [0, partition::MOST_RANKS + 1] {
        assert_eq!(compare(&lonestar(), load, ranks).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    let error = compare(&Machine::shipped("jaguar-xt4").unwrap(), load, 1).unwrap_err();
    assert!(error.kind() == ErrorKind::Config && error.to_string().contains("[servers]"), "{error}");
    assert_eq!(CONTENDERS.map(Contender::name), ["partition", "two-phase", "pvfs2"]);
    assert_eq!(named("BTIO-B").unwrap().1.bytes_of_call(), 102 * 102 * 102 * CELL_BYTES);
}
