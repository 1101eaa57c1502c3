// SPDX-License-Identifier: MIT OR Apache-2.0
//! A new network interface in one file: like the CM-5's, but its words are 32 bytes wide. Prints
//! how it stands beside the CM-5's.

use std::rc::Rc;

use bellwire_nisim::engine::Signal;
use bellwire_nisim::experiment::plan::design;
use bellwire_nisim::experiment::{Case, Failure, Measure};
use bellwire_nisim::machine::Parameters;
use bellwire_nisim::network::{Flow, Message, Network};
use bellwire_nisim::ni::{Design, NetworkInterface, Work};
use bellwire_nisim::node::Node;
use bellwire_nisim::node::cpu::Cpu;

static DESIGN: Design =
    Design { name: "wide", like: "CM-5 with wide words", make: |node, network| Rc::new(Wide { node: node.clone(), network: network.clone() }) };

struct Wide {
    node: Rc<Node>,
    network: Rc<Network>,
}

impl Wide {
    /// Header and payload, 32 bytes at a time.
    async fn words(&self, cpu: &Cpu, message: &Message) {
        for _ in 0..(message.payload.len() + 8).div_ceil(32) {
            cpu.compute(4 * self.node.parameters.costs.copy_cycles);
            cpu.uncached().await;
        }
    }
}

impl NetworkInterface for Wide {
    fn send<'a>(&'a self, cpu: &'a Cpu, message: Message) -> Work<'a, Result<(), Message>> {
        Box::pin(async move {
            // The status: is there room?
            cpu.status().await;
            if !self.node.flow.has_room() {
                return Err(message);
            }
            self.node.flow.reserve();
            self.words(cpu, &message).await;
            cpu.sync().await;
            self.network.launch(message);
            Ok(())
        })
    }

    fn receive<'a>(&'a self, cpu: &'a Cpu) -> Work<'a, Option<Message>> {
        Box::pin(async move {
            cpu.status().await;
            let message = self.node.flow.peek(Message::clone)?;
            self.words(cpu, &message).await;
            cpu.sync().await;
            self.node.flow.take()
        })
    }

    fn fifo(&self) -> Option<&Flow> {
        Some(&self.node.flow)
    }

    fn activity(&self) -> &Signal {
        &self.node.flow.activity
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let value = |measure, design| Ok::<_, Failure>(Case::new(measure, design, Parameters::default()).run()?.value);
    for measure in [Measure::RoundTrip(8), Measure::RoundTrip(256), Measure::Bandwidth(4096)] {
        println!("{measure} [{}]: wide {:.2}, ni2w {:.2}", measure.unit(), value(measure, &DESIGN)?, value(measure, design("ni2w")?)?);
    }
    Ok(())
}
