// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulated machines: exact, repeatable, nothing lost, each cost in its place, and as near to
//! the paper's Table 2 as is said.

use bellwire_amvia::Mapping;
use bellwire_amvia::probe::Stage;
use bellwire_lanai::costs::{Costs, Doorbell, Fits, Queue, machines};
use bellwire_lanai::fit::Lab;
use bellwire_lanai::paper::{COLUMNS, RAW, TABLE2};
use bellwire_lanai::program::{LogP, Pair};
use bellwire_lanai::share::{SWITCHES, share};

#[test]
fn a_run_gives_the_same_figures_each_time() {
    let all = || share(&mut Lab::new().unwrap(), &Fits::FOUND).unwrap();
    let first = all();
    assert_eq!(first, all(), "however the threads were scheduled");
    let own = first.switched.map(|line| line[SWITCHES.iter().position(|switch| *switch == (Queue::Nic, Doorbell::Direct)).unwrap()]);
    assert_eq!(own[1..], first.tables.lines[1..], "a machine that is switched to its own queue and doorbell is itself");
}

#[test]
fn each_message_is_carried_once() {
    for machine in machines(&Fits::FOUND) {
        let mut pair = Pair::new(machine.mapping).unwrap();
        for _ in 0..2 {
            let counts = pair.measure(&machine.costs).unwrap().counts;
            // Each request has a reply; handlers have seen each number once, in order.
            let [client, server] = counts;
            assert!(client.sent > 200 && client.refused + server.refused == 0, "{}: {counts:?}", machine.name);
            assert_eq!([client.sent, client.received], [server.received, server.sent], "{}", machine.name);
            assert_eq!(client.sent, client.received, "{}", machine.name);
        }
    }
}

fn measure(pair: &mut Pair, costs: &Costs, change: impl Fn(&mut Costs)) -> LogP {
    let mut costs = costs.clone();
    change(&mut costs);
    pair.measure(&costs).unwrap()
}

#[test]
fn what_a_cost_adds_is_its_share() {
    let (costs, mut pair) = (Costs::of_paper(&Fits::FOUND, true), Pair::new(Mapping::V3).unwrap());
    let usual = measure(&mut pair, &costs, |_| ());
    let whole = usual.o_s + usual.o_r;
    let parts: f64 = usual.spent.iter().sum();
    assert!((parts - whole).abs() < 1e-6, "{parts} {whole}: all of the time is some step's");
    // A request looks at both queues; with the reply before it, both have an entry to be cleared.
    const LEFT: u64 = 100;
    let no_reads = measure(&mut pair, &costs, |costs| costs.host.read = LEFT);
    let read = (costs.host.read - LEFT) as f64;
    assert_eq!(usual.o_s - no_reads.o_s, 2.0 * read);
    assert_eq!(whole - no_reads.o_s - no_reads.o_r, 2.0 * read);
    let no_writes = measure(&mut pair, &costs, |costs| costs.host.write = 0);
    let write = costs.host.write as f64;
    assert_eq!(usual.o_s - no_writes.o_s, write, "the token");
    assert_eq!(whole - no_writes.o_s - no_writes.o_r, 4.0 * write, "two tokens, two entries");
    for stage in [Stage::Built, Stage::Sorted, Stage::ReceiveArmed] {
        let without = measure(&mut pair, &costs, |costs| costs.host.code[stage as usize] = 0);
        assert_eq!(whole - without.o_s - without.o_r, costs.host.code[stage as usize] as f64, "{stage:?}");
    }
    // The NIC's costs are not the host's: they are in the round trip and the gap.
    let no_firmware = measure(&mut pair, &costs, |costs| costs.nic.firmware = 0);
    assert_eq!((no_firmware.o_s, no_firmware.o_r), (usual.o_s, usual.o_r));
    let (half, gap) = (usual.half - no_firmware.half, usual.gap - no_firmware.gap);
    let firmware = 2.0 * costs.nic.firmware as f64;
    let bound = (costs.nic.poll + costs.host.read) as f64;
    assert!((half - firmware).abs() < bound && (gap - firmware).abs() < bound, "a send and a receive: {half} {gap} {firmware}");
}

#[test]
fn a_queue_in_memory_costs_dma_in_place_of_programmed_reads() {
    let (costs, mut pair) = (Costs::of_paper(&Fits::FOUND, true), Pair::new(Mapping::V3).unwrap());
    let on_nic = measure(&mut pair, &costs, |_| ());
    let in_memory = measure(&mut pair, &costs, |costs| costs.queue = Queue::Host);
    assert_eq!(on_nic.o_s - in_memory.o_s, 2.0 * (costs.host.read - costs.host.look) as f64);
    let dma = costs.nic.dma as f64;
    let gap = in_memory.gap - on_nic.gap;
    assert!((gap - 2.0 * dma).abs() < costs.nic.poll as f64, "an entry for the send and one for the receive: {gap}");
}

#[test]
fn an_emulated_doorbell_makes_the_host_wait() {
    let (costs, mut pair) = (Costs::of_paper(&Fits::FOUND, false), Pair::new(Mapping::V1).unwrap());
    let emulated = measure(&mut pair, &costs, |_| ());
    let direct = measure(&mut pair, &costs, |costs| costs.doorbell = Doorbell::Direct);
    assert_eq!(emulated.o_s, direct.o_s, "nothing is in the word");
    let waited = emulated.spent[Stage::Sent as usize] - direct.spent[Stage::Sent as usize];
    assert!(waited > costs.nic.take as f64 / 2.0, "a request behind a receive that was posted just before: {waited}");
}

/// How far from the paper each figure may be, per cent.
const WITHIN: f64 = 5.0;

#[test]
fn table_2_comes_out() {
    let found = Lab::new().unwrap().tables(&Fits::FOUND).unwrap();
    for (ours, paper) in found.raw.iter().zip(RAW) {
        assert!((ours / 1e3 / paper - 1.0).abs() * 100.0 < WITHIN, "raw VI: {ours} ns, {paper} us");
    }
    for (row, (name, paper)) in TABLE2.iter().enumerate() {
        for ((column, ours), paper) in COLUMNS.iter().zip(found.line(row)).zip(paper) {
            let residual = (ours / paper - 1.0) * 100.0;
            println!("{name} {column}: {ours:.2} {paper} {residual:+.1} %");
            assert!(residual.abs() < WITHIN, "{name} {column}: {ours} {paper}");
        }
    }
}

#[test]
fn the_fits_cannot_be_bettered_by_a_step() {
    assert!(Lab::new().unwrap().is_settled(Fits::FOUND).unwrap(), "examples/fit.rs finds others");
}
