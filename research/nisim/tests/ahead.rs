// SPDX-License-Identifier: MIT OR Apache-2.0
//! A processor alone on its bus runs ahead of virtual time. That is to change nothing but the
//! number of events: the same NIs whose processors let virtual time catch up before each bus
//! transaction give the same times, traffic and messages.

mod common;

use std::rc::Rc;

use bellwire_nisim::cluster::Outcome;
use bellwire_nisim::experiment::{Case, Measure};
use bellwire_nisim::machine::Parameters;
use bellwire_nisim::network::Network;
use bellwire_nisim::ni::{self, Design, NetworkInterface};
use bellwire_nisim::node::Node;
use bellwire_nisim::programs::{PROGRAMS, Size};

macro_rules! in_step {
    ($name:literal) => {{
        fn make(node: &Rc<Node>, network: &Rc<Network>) -> Rc<dyn NetworkInterface> {
            node.share_bus();
            (ni::find($name).unwrap().make)(node, network)
        }
        static IN_STEP: Design = Design { name: $name, like: "the same in step", make };
        (ni::find($name).unwrap(), &IN_STEP)
    }};
}

#[test]
fn running_ahead_changes_nothing() {
    let designs = [in_step!("ni2w"), in_step!("ni2w-single-cycle"), in_step!("udma"), in_step!("udma-always"), in_step!("ap3000")];
    let measures = || [Measure::RoundTrip(100), Measure::Bandwidth(600)].into_iter().chain(PROGRAMS.iter().map(Measure::Program));
    for buffers in [Some(1), Some(3)] {
        for (ahead, in_step) in designs {
            let case = |measure, design| Case { size: Size::Small, ..Case::new(measure, design, Parameters { buffers, ..Parameters::default() }) };
            let cases: Vec<Case> = measures().flat_map(|measure| [case(measure, ahead), case(measure, in_step)]).collect();
            let mut saved = 0;
            for (measured, case) in common::run_all(&cases).chunks(2).zip(cases.chunks(2)) {
                let what = |of: &Outcome| (of.time, of.traffic.clone(), of.messages.clone(), of.sizes.clone());
                assert_eq!(what(&measured[0].outcome), what(&measured[1].outcome), "{}", case[0]);
                saved += measured[1].outcome.events - measured[0].outcome.events;
            }
            assert!(saved > 10_000, "{}: it takes fewer events, {saved}", ahead.name);
        }
    }
}
