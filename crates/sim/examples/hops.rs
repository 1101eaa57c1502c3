// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many packet hops (packets over one link) the fabric does in a second of one processor.
//!
//!     cargo run --release -p bellwire-sim --example hops [-- SECONDS [FAULTS]]
//!
//! 16 nodes around one switch, each with 8 packets of 64 bytes under way: the receiver of a packet
//! sends one to the next node in turn, as it would over UDP. A packet has two hops. Besides the
//! star with queues that drop, one with queues that hold, one with faults, and a fat tree of 128
//! nodes.

use bellwire_sim::{Fabric, FaultPlan, Instant, LinkSpec, Port, Topology, WhenFull};
use std::net::SocketAddr;
use std::time::Instant as Clock;

const WINDOW: usize = 8;
const BYTES: usize = 64;
const FAULTS: &str = "loss=0.01,dup=0.01,reorder=0.01,corrupt=0.001,jitter=1us,seed=7";

struct Run {
    fabric: Fabric,
    ports: Vec<(Port, SocketAddr, usize)>,
    by_port: Vec<(Port, usize)>,
}

impl Run {
    fn new(topology: Topology, faults: &str) -> Result<Self, Box<dyn std::error::Error>> {
        let addresses: Vec<_> = (0..topology.nodes()).map(|n| SocketAddr::new(topology.address(bellwire_sim::NodeId(n as u32)), 4791)).collect();
        let mut fabric = Fabric::new(topology, &faults.parse::<FaultPlan>()?, 1)?;
        let mut ports = Vec::new();
        for (n, &address) in addresses.iter().enumerate() {
            ports.push((fabric.attach(address)?, address, n));
        }
        let mut by_port: Vec<_> = ports.iter().map(|&(port, _, n)| (port, n)).collect();
        by_port.sort_unstable();
        let mut run = Self { fabric, ports, by_port };
        for n in 0..run.ports.len() * WINDOW {
            run.send(n % run.ports.len(), Instant(0));
        }
        Ok(run)
    }

    fn send(&mut self, node: usize, now: Instant) {
        let count = self.ports.len();
        let (port, _, last) = &mut self.ports[node];
        *last = (*last + 1) % count;
        if *last == node {
            *last = (*last + 1) % count;
        }
        let (port, last) = (*port, *last);
        let to = self.ports[last].1;
        let mut bytes = self.fabric.buffer();
        bytes.resize(BYTES, node as u8);
        self.fabric.send(port, to, bytes, now).expect("the windows fit into the queues");
    }

    /// One event and all answers to it. Packets lost to faults are sent anew.
    fn turn(&mut self) {
        let now = self.fabric.next_event();
        if now == Instant::NEVER {
            (0..self.ports.len()).for_each(|node| self.send(node, self.fabric.now()));
            return;
        }
        self.fabric.advance_to(now);
        while let Some(port) = self.fabric.poll_readable() {
            let node = self.by_port[self.by_port.binary_search_by_key(&port, |&(p, _)| p).expect("its own port")].1;
            while let Some(datagram) = self.fabric.poll(port, now) {
                self.fabric.recycle(datagram.bytes);
                self.send(node, now);
            }
        }
    }
}

fn measure(name: &str, topology: Topology, faults: &str, seconds: f64) -> Result<(), Box<dyn std::error::Error>> {
    let mut run = Run::new(topology, faults)?;
    (0..100_000).for_each(|_| run.turn());
    let before = run.fabric.statistics().hops;
    let start = Clock::now();
    while start.elapsed().as_secs_f64() < seconds {
        (0..10_000).for_each(|_| run.turn());
    }
    let elapsed = start.elapsed().as_secs_f64();
    let hops = (run.fabric.statistics().hops - before) as f64;
    println!("{name:<28} {:>6.2} M hops/s  {:>5.0} ns a hop", hops / elapsed / 1e6, elapsed * 1e9 / hops);
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().map_or(Ok(1.0), |s| s.parse())?;
    let faults = arguments.next().unwrap_or(FAULTS.into());
    let drops = LinkSpec::default();
    let holds = LinkSpec { when_full: WhenFull::Hold, ..drops };
    measure("star of 16", Topology::star(16, drops)?, "", seconds)?;
    measure("star of 16, queues hold", Topology::star(16, holds)?, "", seconds)?;
    measure("star of 16, faults", Topology::star(16, drops)?, &faults, seconds)?;
    measure("fat tree of 128", Topology::fat_tree(8, drops)?, "", seconds)
}
