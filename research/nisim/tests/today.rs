// SPDX-License-Identifier: MIT OR Apache-2.0
//! Today's designs stand to each other as their mechanisms say.

use bellwire_nisim::experiment::today::cases;
use bellwire_nisim::experiment::{Case, Measure};
use bellwire_nisim::machine::Parameters;

/// The latency of PCIe was derived from a measured read: ours must come to the same.
#[test]
fn a_read_across_pcie_takes_what_was_measured() {
    let machine = Parameters::today();
    let costs = &machine.costs;
    let cycles = costs.arbitration + costs.address + costs.snoop + costs.data_arbitration + machine.block_bytes.div_ceil(machine.bus_bytes);
    let read = machine.pcie * 2 + machine.bus_cycle * cycles + costs.cache_supply;
    assert!((read.as_ns() - 426.0).abs() < 5.0, "a read of a cached block takes {read}");
}

#[test]
fn each_mechanism_saves_what_it_is_for() {
    let machine = Parameters::today();
    let measured: Vec<(Case, f64)> = cases(&machine).into_iter().map(|case| (case.clone(), case.run().unwrap().value)).collect();
    for (case, value) in &measured {
        println!("{case}: {value:.2} {}", case.measure.unit());
    }
    let of = |design: &str, measure| measured.iter().find(|(case, _)| case.design.name == design && case.measure == measure).unwrap().1;
    for payload in [8, 64, 256] {
        let round_trip = |design: &str| of(design, Measure::RoundTrip(payload));
        // Four crossings of PCIe each way.
        let saved = round_trip("ddio") - round_trip("blueflame");
        assert!(saved > 6.0 * machine.pcie.as_ns() / 1e3, "{payload} B: inline writes save the reads across PCIe: {saved} us");
        assert!(round_trip("ddio") < round_trip("pcie"), "{payload} B: injection saves a read of memory");
        assert!(round_trip("cxl") < round_trip("ddio"), "{payload} B: coherence saves doorbell and descriptor");
        assert!(round_trip("shared-queue") < round_trip("blueflame"), "{payload} B: cores are nearer than a NIC");
    }
}
